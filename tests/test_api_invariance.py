"""Drafter invariance: for one seed target_only emits the same text whatever was drafted, nothing included (arXiv 2408.07978)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import specverify as sv

V = 70  # more than one group of the race
LENGTH = 10
Drafter = Callable[["Request", list[int], np.random.Generator], sv.DraftTree]


@dataclass(frozen=True)
class Request:
    """A table for a model: the next token's logits depend on the last two tokens."""

    table: np.ndarray[Any, Any]
    sampling: sv.SamplingParams
    prompt: list[int]
    stops: list[int]

    def logits(self, text: Sequence[int]) -> np.ndarray[Any, Any]:
        a, b = text[-2:]
        return np.asarray(self.table[a] + self.table[V + b], np.float32)

    def rows(self, output: list[int], tree: sv.DraftTree) -> np.ndarray[Any, Any]:
        before = self.prompt + output
        paths = [tree.path(row) for row in range(len(tree) + 1)]
        return np.stack([self.logits(before + [tree.tokens[node] for node in path]) for path in paths])


def nothing(request: Request, output: list[int], rng: np.random.Generator) -> sv.DraftTree:
    return sv.DraftTree.chain([])


def random_tree(request: Request, output: list[int], rng: np.random.Generator) -> sv.DraftTree:
    n = int(rng.integers(0, 9))
    parents = [int(rng.integers(-1, i)) if i else -1 for i in range(n)]
    # Independent trees may hold equal siblings; which of them is taken must not matter either.
    return sv.DraftTree(rng.integers(0, V, n), parents, draws="independent")


def coupled(request: Request, output: list[int], rng: np.random.Generator) -> sv.DraftTree:
    tokens: list[int] = []
    parents: list[int] = []
    chain: list[int] = []
    parent = -1
    for _ in range(int(rng.integers(1, 4))):
        row = request.logits(request.prompt + output + chain) + rng.normal(0, 0.5, V).astype(np.float32)
        children = sv.coupled_children(
            row,
            2,
            sampling=request.sampling,
            position=len(request.prompt) + len(output) + len(chain),
            prompt_token_ids=request.prompt,
            output_token_ids=output,
            path=chain,
            stop_token_ids=request.stops,
        )
        nodes = len(tokens)
        parents += [parent] * len(children)
        tokens += children.tokens
        parent = nodes  # the best child goes on
        chain.append(children.tokens[0])
    return sv.DraftTree(tokens, parents)


def likeliest(request: Request, output: list[int], rng: np.random.Generator) -> sv.DraftTree:
    chain: list[int] = []
    for _ in range(5):
        chain.append(int(request.logits(request.prompt + output + chain).argmax()))
    return sv.DraftTree.chain(chain)


def adversarial(request: Request, output: list[int], rng: np.random.Generator) -> sv.DraftTree:
    order = np.argsort(request.logits(request.prompt + output))[:3]
    return sv.DraftTree(order, [-1, -1, -1])


DRAFTERS: list[Drafter] = [nothing, random_tree, coupled, likeliest, adversarial]


def generate(requests: list[Request], drafters: list[Drafter], rng: np.random.Generator) -> tuple[list[list[int]], int]:
    """The texts, and how many drafts stood. The batch is in another order in every step."""
    outputs: list[list[int]] = [[] for _ in requests]
    accepted = 0
    going = list(range(len(requests)))
    while going:
        order = [int(r) for r in rng.permutation(going)]
        trees = [drafters[r](requests[r], outputs[r], rng) for r in order]
        outs = sv.verify_batch(
            np.concatenate([requests[r].rows(outputs[r], tree) for r, tree in zip(order, trees, strict=True)]),
            trees,
            rule="target_only",
            samplings=[requests[r].sampling for r in order],
            positions=[len(requests[r].prompt) + len(outputs[r]) for r in order],
            prompt_token_ids=[requests[r].prompt for r in order],
            output_token_ids=[outputs[r] for r in order],
            stop_token_ids=[requests[r].stops for r in order],
        )
        for r, out in zip(order, outs, strict=True):
            assert out.error is None
            outputs[r] += out.tokens
            accepted += len(out.path)
            if out.finished or len(outputs[r]) >= LENGTH:
                going.remove(r)
    return [output[:LENGTH] for output in outputs], accepted


@st.composite
def requests(draw: st.DrawFn) -> Request:
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    sampling = sv.SamplingParams(
        temperature=draw(st.sampled_from([0.4, 0.8, 1.0, 1.5])),
        top_p=draw(st.sampled_from([0.8, 0.95, 1.0])),
        top_k=draw(st.sampled_from([0, 5, 20])),
        min_p=draw(st.sampled_from([0.0, 0.05])),
        presence_penalty=draw(st.sampled_from([0.0, 0.7])),
        frequency_penalty=draw(st.sampled_from([0.0, 1.1, -0.5])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.3])),
        seed=draw(st.integers(0, 2**64 - 1)),
        min_tokens=draw(st.sampled_from([0, 4])),
        logit_bias=draw(st.none() | st.just({3: 2.5, 66: -1.0})),
        bad_words_token_ids=draw(st.none() | st.just([[5], [7, 8]])),
    )
    prompt = rng.integers(0, V, 6).tolist()
    return Request(rng.normal(0, 1.5, (2 * V, V)).astype(np.float32), sampling, prompt, rng.integers(0, V, 2).tolist())


@settings(max_examples=40, deadline=None)
@given(st.lists(requests(), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
def test_the_text_does_not_depend_on_the_drafts(batch: list[Request], seed: int) -> None:
    rng = np.random.default_rng(seed)
    expected, accepted = generate(batch, [nothing] * len(batch), rng)
    assert accepted == 0
    for _ in range(2):
        drafters = [DRAFTERS[int(rng.integers(1, len(DRAFTERS)))] for _ in batch]
        assert generate(batch, drafters, rng)[0] == expected


def test_the_drafts_do_stand() -> None:
    """The property above would hold for a rule that accepts nothing."""
    rng = np.random.default_rng(0)
    batch = [
        Request(rng.normal(0, 1.5, (2 * V, V)).astype(np.float32), sv.SamplingParams(seed=s), [1, 2], [])
        for s in range(20)
    ]
    expected, _ = generate(batch, [nothing] * 20, rng)
    for drafter, least in ((coupled, 60), (likeliest, 20)):
        texts, accepted = generate(batch, [drafter] * 20, rng)
        assert texts == expected
        assert accepted >= least


def test_other_noise_gives_other_text() -> None:
    """The property above would hold for a rule that ignores the seed."""
    rng = np.random.default_rng(0)
    table = rng.normal(0, 1.5, (2 * V, V)).astype(np.float32)
    batch = [Request(table, sv.SamplingParams(seed=s), [1, 2], []) for s in range(10)]
    texts, _ = generate(batch, [nothing] * 10, rng)
    assert len({tuple(text) for text in texts}) == 10
