"""Drafter invariance (2408.07978): for one seed, target_only and greedy emit the same text whatever was drafted, nothing included.

Models are tables: the logits of a position are a function of the last two tokens. Texts run over several steps, through
verify_batch, with requests shuffled at every step. What is compared is tokens, not histograms.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import specverify as sv

VOCAB = 12
LENGTH = 14
STOP = [11]


class Table:
    """A target whose next-token logits depend on the last two tokens."""

    def __init__(self, seed, spread):
        rng = np.random.default_rng(seed)
        self.rows = (spread * rng.standard_normal((VOCAB, VOCAB, VOCAB))).astype(np.float32)
        # Some tokens can't follow some others.
        self.rows[rng.random(self.rows.shape) < 0.1] = -np.inf
        self.rows[:, :, 0] = np.where(np.isneginf(self.rows).all(axis=2), 0, self.rows[:, :, 0])

    def row(self, text):
        return self.rows[text[-2], text[-1]]

    def tree_rows(self, text, tree):
        rows = [self.row(text)]
        for node in range(len(tree)):
            rows.append(self.row([*text, *(tree.tokens[i] for i in tree.path(node + 1))]))
        return np.stack(rows)


def empty(table, text, request, rng):
    """Nothing is drafted."""
    return sv.DraftTree([], [])


def random_tree(table, text, request, rng):
    """Any topology, any tokens; sampled siblings may be equal."""
    n = int(rng.integers(0, 12))
    parents = [int(rng.integers(-1, i)) if i else -1 for i in range(n)]
    return sv.DraftTree(rng.integers(0, VOCAB, n).tolist(), parents, draws="independent")


def likely_tree(table, text, request, rng):
    """The two likeliest continuations of every node, three levels."""
    return grow(text, lambda prefix, depth: np.argsort(-table.row(prefix), kind="stable")[:2].tolist())


def adversarial_tree(table, text, request, rng):
    """The least likely continuations, impossible ones first, and the stop token."""
    return grow(text, lambda prefix, depth: [*np.argsort(table.row(prefix), kind="stable")[:1].tolist(), STOP[0]])


def coupled_tree(table, text, request, rng):
    """The first finishers of the target's own race on blurred rows."""

    def children(prefix, depth):
        row = table.row(prefix) + 0.5 * rng.standard_normal(VOCAB).astype(np.float32)
        return sv.coupled_children(
            row,
            2,
            sampling=request["sampling"],
            position=len(text) + depth,
            prompt_token_ids=request["prompt"],
            output_token_ids=prefix[len(request["prompt"]) :],
            stop_token_ids=STOP,
        ).tokens

    return grow(text, children)


def grow(text, children, levels=3):
    tokens, parents, level = [], [], [(-1, list(text))]
    for depth in range(levels):
        below = []
        for parent, prefix in level:
            for token in dict.fromkeys(children(prefix, depth)):
                below.append((len(tokens), [*prefix, token]))
                tokens.append(int(token))
                parents.append(parent)
        level = below
    return sv.DraftTree(tokens, parents)


DRAFTERS = (empty, random_tree, likely_tree, adversarial_tree, coupled_tree)


def texts(table, requests, drafters, rule, rng):
    """The outputs of the requests, and how many drafts were accepted. Each step runs one shuffled batch."""
    outputs = [[] for _ in requests]
    live = list(range(len(requests)))
    accepted = 0
    while live:
        rng.shuffle(live)
        trees, rows = [], []
        for i in live:
            text = [*requests[i]["prompt"], *outputs[i]]
            drafter = drafters[int(rng.integers(len(drafters)))]
            trees.append(drafter(table, text, requests[i], rng))
            rows.append(table.tree_rows(text, trees[-1]))
        outs = sv.verify_batch(
            np.concatenate(rows),
            trees,
            rule=rule,
            samplings=[requests[i]["sampling"] for i in live],
            positions=[len(requests[i]["prompt"]) + len(outputs[i]) for i in live],
            prompt_token_ids=[requests[i]["prompt"] for i in live],
            output_token_ids=[outputs[i] for i in live],
            stop_token_ids=[STOP] * len(live),
        )
        for i, out in zip(live, outs, strict=True):
            assert out.error is None
            accepted += len(out.path)
            outputs[i] += out.tokens
        live = [i for i, out in zip(live, outs, strict=True) if not out.finished and len(outputs[i]) < LENGTH]
    return [output[:LENGTH] for output in outputs], accepted


ids = st.integers(0, VOCAB - 2)
samplings = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([0.0, 0.3, 0.8, 1.0, 1.7]),
        "seed": st.integers(0, 2**64 - 1),
    },
    optional={
        "top_k": st.integers(1, VOCAB),
        "top_p": st.floats(0.3, 1.0),
        "min_p": st.floats(0.0, 0.4),
        "presence_penalty": st.floats(-1.5, 1.5),
        "frequency_penalty": st.floats(-1.5, 1.5),
        "repetition_penalty": st.floats(0.6, 1.8),
        "min_tokens": st.integers(0, 8),
        "logit_bias": st.dictionaries(ids, st.floats(-3, 3), max_size=3),
        # Token 0 is never impossible for all histories at once, so some mass is always left.
        "bad_words_token_ids": st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=3), min_size=1, max_size=3),
    },
).map(lambda fields: sv.SamplingParams(**fields))


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    model=st.tuples(st.integers(0, 10**6), st.sampled_from([0.5, 1.5, 3.0])),
    prompts=st.lists(st.lists(ids, min_size=2, max_size=6), min_size=1, max_size=5),
    parameters=st.lists(samplings, min_size=5, max_size=5),
    shuffles=st.integers(0, 10**6),
)
def test_the_text_of_a_seed_does_not_depend_on_drafts_or_batch(model, prompts, parameters, shuffles):
    table = Table(*model)
    requests = [{"prompt": p, "sampling": s} for p, s in zip(prompts, parameters, strict=False)]
    rng = np.random.default_rng(shuffles)
    for rule in ("target_only", "auto"):
        plain = [texts(table, [request], [empty], rule, rng)[0][0] for request in requests]
        for drafter in DRAFTERS:
            assert texts(table, requests, [drafter], rule, rng)[0] == plain
        assert texts(table, requests, DRAFTERS, rule, rng)[0] == plain


@pytest.mark.parametrize("drafter", [likely_tree, coupled_tree, random_tree])
def test_drafts_are_accepted_often_enough_for_the_comparison_to_mean_something(drafter):
    requests = [{"prompt": [1, i], "sampling": sv.SamplingParams(seed=i, temperature=0.8)} for i in range(8)]
    _, accepted = texts(Table(1, 1.5), requests, [drafter], "target_only", np.random.default_rng(0))
    assert accepted > 8


def test_control_a_ratio_rule_does_depend_on_what_was_drafted():
    """The comparison can fail: block keeps the law of the text, but not the text of a seed."""
    table, sampling = Table(1, 1.5), sv.SamplingParams(seed=5)
    emitted = set()
    for token in range(VOCAB):
        row = table.row([1, 2])
        q = np.full((2, VOCAB), 1 / VOCAB)
        tree = sv.DraftTree.chain([token], draws="independent")
        out = sv.verify(np.stack([row, row]), tree, rule="block", draft_probs=q, sampling=sampling, position=2)
        emitted.add(out.tokens[0])
    assert len(emitted) > 1
