"""specverify.hf: generation with any drafter, tree and rule from tiny random models."""

import ast
import itertools
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hf_models import VOCAB, first_layers, llama, pruned_head
from scipy.stats import chi2

import specverify as sv
from specverify.hf import Context, ModelDrafter, TextDrafter, UnsupportedModelError, generate, shapes
from specverify.hf.model_drafter import draw

torch.set_num_threads(1)

PROMPT = [7, 3, 9, 3, 9, 4, 7, 3, 9]


@cache
def target():
    return llama()


@cache
def small():
    return first_layers(target(), 1)


def drafters():
    """Each as (name, keyword arguments of generate)."""
    ids = list(range(0, VOCAB, 2))
    return {
        "ngram": {"drafter": "ngram"},
        "ngram tree": {"drafter": "ngram", "tree": shapes.branching([3, 2, 1])},
        "suffix": {"drafter": "suffix"},
        "suffix tree": {"drafter": "suffix", "tree": shapes.branching([3, 2, 1])},
        "coupled chain": {"drafter": small(), "tree": 4},
        "coupled tree": {"drafter": small(), "tree": shapes.branching([3, 2, 1])},
        "coupled siblings": {"drafter": small(), "tree": shapes.siblings(3, 4)},
        "top-k tree": {"drafter": small(), "tree": shapes.branching([3, 2]), "draws": "top_k"},
        "sampled chain": {"drafter": small(), "tree": 4, "draws": "independent"},
        "sampled siblings": {"drafter": small(), "tree": shapes.branching([3, 2]), "draws": "without_replacement"},
        "paths": {"drafter": small(), "tree": shapes.paths(3, 3), "draws": "paths"},
        "the target itself": {"drafter": target(), "tree": 5},
        "a pruned head": {
            "drafter": ModelDrafter(pruned_head(small(), ids), tree=shapes.siblings(2, 3), token_map=ids)
        },
    }


SAMPLINGS = {
    "T=1": {},
    "T=0.6": {"temperature": 0.6},
    "filters": {"temperature": 0.9, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
    "penalties": {"repetition_penalty": 1.3, "frequency_penalty": 0.7, "presence_penalty": 0.4},
    "edits": {
        "logit_bias": {5: 2.0, 9: -3.0},
        "allowed_token_ids": list(range(1, 100)),
        "bad_words_token_ids": [[3], [9, 4]],
        "min_tokens": 12,
    },
}


def test_temperature_0_equals_transformers_generate():
    reference = target().generate(torch.tensor([PROMPT]), max_new_tokens=48, do_sample=False)[0, len(PROMPT) :].tolist()
    sampling = sv.SamplingParams(temperature=0.0)
    assert generate(target(), PROMPT, sampling=sampling, max_new_tokens=48).tokens == reference
    for name, arguments in drafters().items():
        result = generate(target(), PROMPT, sampling=sampling, max_new_tokens=48, **arguments)
        assert result.tokens == reference, name


@pytest.mark.parametrize("changes", SAMPLINGS.values(), ids=SAMPLINGS)
def test_the_text_of_a_seed_does_not_depend_on_the_drafter(changes):
    """Drafter invariance (2408.07978): target_only emits what the target's own draws are, whatever was drafted."""
    sampling = sv.SamplingParams(**changes, seed=11)
    run = {"rule": "target_only", "sampling": sampling, "max_new_tokens": 32, "stop_token_ids": [2]}
    plain = generate(target(), PROMPT, **run)
    accepted = 0
    for name, arguments in drafters().items():
        result = generate(target(), PROMPT, **run, **arguments)
        assert result.tokens == plain.tokens, name
        assert result.finished == plain.finished, name
        accepted += result.stats.accepted
    # The comparison means something only where drafts were accepted.
    assert accepted > 20


def test_the_target_as_its_own_drafter_is_always_accepted_when_coupled():
    result = generate(target(), PROMPT, drafter=target(), tree=4, sampling=sv.SamplingParams(seed=3), max_new_tokens=40)
    assert result.stats.acceptance_rate == 1.0
    assert len(result.steps) == 8
    assert [len(step.tokens) for step in result.steps] == [5] * 8


def test_greedy_takes_the_likeliest_token_whatever_the_temperature():
    expected = generate(target(), PROMPT, sampling=sv.SamplingParams(temperature=0), max_new_tokens=16).tokens
    run = {"rule": "greedy", "sampling": sv.SamplingParams(temperature=1.3, seed=4), "max_new_tokens": 16}
    for drafter in (None, "suffix", small()):
        assert generate(target(), PROMPT, drafter=drafter, **run).tokens == expected


def test_lossy_typical_accepts_less_the_higher_its_threshold():
    """2401.10774: a draft stands where p exceeds min(epsilon, delta * exp(-H)). At epsilon = 0 all do, 6 steps of 4."""
    run = {"drafter": small(), "tree": 4, "draws": "top_k", "rule": "lossy_typical", "max_new_tokens": 30}
    run["sampling"] = sv.SamplingParams(seed=4)
    thresholds = ((0.0, 0.3), (0.1, 1e6), (0.9, 1e6))
    accepted = [generate(target(), PROMPT, epsilon=e, delta=d, **run).stats.acceptance_rate for e, d in thresholds]
    assert accepted[0] == 1.0
    assert accepted[0] > accepted[1] > accepted[2]


@pytest.mark.parametrize("name", ["ngram", "suffix tree", "coupled tree", "paths"])
def test_exactly_max_new_tokens_are_emitted(name):
    for length in (1, 2, 3, 7):
        result = generate(
            target(), PROMPT, max_new_tokens=length, sampling=sv.SamplingParams(seed=5), **drafters()[name]
        )
        assert len(result.tokens) == length
        assert not result.finished
        assert sum(len(step.tokens) for step in result.steps) == length


def test_nothing_follows_a_stop_token_that_was_drafted():
    """Case 30: drafts past the end-of-sequence token are dropped."""
    sampling = sv.SamplingParams(seed=3)
    whole = generate(target(), PROMPT, sampling=sampling, max_new_tokens=40, stop_token_ids=()).tokens
    stop = whole[7]
    end = whole.index(stop) + 1
    result = generate(
        target(), PROMPT, drafter=target(), tree=5, sampling=sampling, max_new_tokens=40, stop_token_ids=[stop]
    )
    assert result.tokens == whole[:end]
    assert result.finished


def test_the_models_own_end_of_sequence_stops_by_default():
    model = llama(seed=4)
    sampling = sv.SamplingParams(seed=3)
    whole = generate(model, PROMPT, sampling=sampling, max_new_tokens=12).tokens
    model.generation_config.eos_token_id = whole[4]
    assert generate(model, PROMPT, sampling=sampling, max_new_tokens=12).tokens == whole[: whole.index(whole[4]) + 1]
    model.generation_config.eos_token_id = [whole[2], whole[4]]
    assert generate(model, PROMPT, sampling=sampling, max_new_tokens=12).tokens[-1] in (whole[2], whole[4])
    assert generate(model, PROMPT, sampling=sampling, max_new_tokens=12, stop_token_ids=()).tokens == whole


def test_without_a_seed_one_is_drawn_and_told():
    first = generate(target(), PROMPT, max_new_tokens=16)
    second = generate(target(), PROMPT, max_new_tokens=16)
    assert first.seed != second.seed
    again = generate(target(), PROMPT, max_new_tokens=16, sampling=sv.SamplingParams(seed=first.seed))
    assert again.tokens == first.tokens


def test_logprobs_are_those_of_the_emitted_tokens():
    sampling = sv.SamplingParams(seed=2, logprobs=2)
    result = generate(target(), PROMPT, drafter=small(), tree=3, sampling=sampling, max_new_tokens=12)
    assert len(result.logprobs) == len(result.tokens)
    with torch.inference_mode():
        logits = target()(torch.tensor([PROMPT + result.tokens])).logits[0, len(PROMPT) - 1 : -1]
    rows = torch.log_softmax(logits, -1)
    np.testing.assert_allclose(result.logprobs, rows[range(len(result.tokens)), result.tokens].numpy(), atol=1e-4)
    for top, row in zip(result.top_logprobs, rows, strict=True):
        assert [token for token, _ in top] == row.topk(2).indices.tolist()


# q is what the nodes were drawn from ------------------------------------------------------------------------------------

SAMPLED = {
    "chain": ("independent", shapes.chain(4)),
    "independent siblings": ("independent", shapes.branching([3, 2, 1])),
    "without replacement": ("without_replacement", shapes.branching([3, 2, 1])),
    "paths": ("paths", shapes.paths(3, 3)),
}


@pytest.mark.parametrize(("draws", "tree"), SAMPLED.values(), ids=SAMPLED)
@pytest.mark.parametrize("changes", SAMPLINGS.values(), ids=SAMPLINGS)
def test_cases_06_and_07_q_is_the_distribution_that_was_drawn_from(draws, tree, changes):
    """huggingface/transformers #47932 (q before top-k, draws after) and z-lab/dflash #74 (the draft ignored temperature).

    Each recorded row equals the drafter's processed distribution after the node's own path, recomputed without a cache, and
    each token is what the node's own coin picks from that very row.
    """
    drafter = ModelDrafter(small(), tree=tree, draws=draws)
    drafter.check_vocab(VOCAB)
    sampling = sv.SamplingParams(**changes, seed=21)
    drafter.start(PROMPT)
    output: list[int] = []
    for _ in range(4):
        context = Context(PROMPT, output, sampling, 21, [2], max_depth=10)
        drafted, probs = drafter.draft(context)
        assert probs.shape == (len(drafted) + 1, VOCAB)
        for row in range(len(drafted) + 1):
            children = drafted.children(row)
            if not children:
                continue
            path = [drafted.tokens[node] for node in drafted.path(row)]
            with torch.inference_mode():
                logits = small()(torch.tensor([PROMPT + output + path])).logits[0, -1]
            expected = sv.probabilities(
                logits[None],
                sampling=sampling,
                prompt_token_ids=PROMPT,
                output_token_ids=output + path,
                stop_token_ids=[2],
            )[0]
            np.testing.assert_allclose(probs[row], expected, atol=1e-5)
            assert abs(float(probs[row].sum(dtype=np.float64)) - 1) < 1e-6
        for token, node_row in _redrawn(drafted, probs, sampling, context.position, draws, tree):
            assert token == node_row
        path = drafted.path(len(drafted))
        emitted = [drafted.tokens[node] for node in path] + [17]
        drafter.accept(path, emitted)
        output += emitted


def _redrawn(drafted, probs, sampling, position, draws, tree):
    """(token of a node, what its coin picks) for every node, or for every token of every path."""
    coins = sv.Coins(seed=sampling.seed)

    def u(index):
        return coins.uniform(position, stream="draft", index=index)

    if draws == "paths":
        for k, path in enumerate(drafted.paths):
            for level, node in enumerate(path):
                yield drafted.tokens[node], draw(probs[drafted.parents[node] + 1], u(k * len(path) + level))
        return
    if len(drafted) < len(tree):
        return  # nodes were renamed: their coins are those of the shape's ids
    for row in range(len(drafted) + 1):
        weights = probs[row].copy()
        for node in drafted.children(row):
            token = draw(weights, u(node))
            yield drafted.tokens[node], token
            if draws == "without_replacement":
                weights[token] = 0


def test_without_replacement_stops_where_the_support_ends():
    """Fewer tokens than siblings can have: the tree loses the last of them, never their law."""
    drafter = ModelDrafter(small(), tree=shapes.branching([4, 3]), draws="without_replacement")
    drafter.check_vocab(VOCAB)
    drafter.start(PROMPT)
    sampling = sv.SamplingParams(top_k=2, seed=1)
    drafted, probs = drafter.draft(Context(PROMPT, [], sampling, 1, [], max_depth=2))
    assert [len(drafted.children(row)) for row in range(len(drafted) + 1)] == [2, 2, 2, 0, 0, 0, 0]
    assert (probs > 0).sum(axis=1).tolist() == [2, 2, 2, 0, 0, 0, 0]


def test_draws_never_pick_a_token_without_mass():
    """Cases 2 to 4: at both ends of the coin's range and with mass at one index only."""
    for weights in ([0, 1, 0], [1, 0, 0], [0, 0, 1], [0.3, 0, 0.7], [0, 1e-30, 0]):
        weights = np.array(weights, dtype=np.float32)
        for u in (2.0**-53, 0.25, 0.5, 1 - 2.0**-53):
            assert weights[draw(weights, u)] > 0


# The law of whole texts -------------------------------------------------------------------------------------------------

TINY = 3
LENGTH = 3
TEXTS = list(itertools.product(range(TINY), repeat=LENGTH))
SEEDS = 300
FALSE_ALARM = 1e-7

RATIO_RULES = {
    "token": 2,
    "block": 2,
    "recursive": shapes.branching([2, 1]),
    "traversal": shapes.branching([2, 1]),
    "multipath": shapes.paths(2, 2),
}


@cache
def tiny_models():
    return llama(TINY, seed=5, spread=0.6), llama(TINY, layers=1, seed=6, spread=0.6)


@cache
def tiny_law():
    """The target's own law of texts of LENGTH tokens, by its chain rule."""
    model, _ = tiny_models()
    law = []
    with torch.inference_mode():
        for text in TEXTS:
            rows = torch.softmax(model(torch.tensor([[1, 0, *text]])).logits[0, 1:-1].double(), -1)
            law.append(float(rows[range(LENGTH), list(text)].prod()))
    return np.array(law)


def statistic(rule, drafter):
    """Pearson's statistic of SEEDS texts against the target's law."""
    model, _ = tiny_models()
    counts = np.zeros(len(TEXTS))
    for seed in range(SEEDS):
        sampling = sv.SamplingParams(seed=seed)
        tokens = generate(model, [1, 0], drafter=drafter, rule=rule, sampling=sampling, max_new_tokens=LENGTH).tokens
        counts[TEXTS.index(tuple(tokens))] += 1
    expected = SEEDS * tiny_law()
    return float(((counts - expected) ** 2 / expected).sum())


def tiny_drafter(rule, kind=ModelDrafter):
    draws = {"token": "independent", "block": "independent", "multipath": "paths"}.get(rule, "without_replacement")
    drafter = kind(tiny_models()[1], tree=RATIO_RULES[rule], draws=draws)
    drafter.check_vocab(TINY)
    return drafter


@pytest.mark.parametrize("rule", RATIO_RULES)
def test_a_ratio_rule_keeps_the_law_of_the_text(rule):
    """False alarm 1e-7 a rule. Power: the control below."""
    assert statistic(rule, tiny_drafter(rule)) < chi2.isf(FALSE_ALARM, len(TEXTS) - 1)


class WrongQ(ModelDrafter):
    """Records the next id's probability as each id's own."""

    def draft(self, context):
        draft = super().draft(context)
        return draft if draft.probs is None else draft._replace(probs=np.roll(draft.probs, 1, axis=1))


def test_control_a_wrong_q_fails_the_test_of_the_law():
    assert statistic("token", tiny_drafter("token", WrongQ)) > chi2.isf(FALSE_ALARM, len(TEXTS) - 1)


# Refusals ---------------------------------------------------------------------------------------------------------------


def test_refusals_name_argument_value_and_expectation():
    cases = [
        ({"input_ids": []}, sv.ShapeError, r"input_ids has shape \(0,\); expected \[L\] or \[1, L\]"),
        ({"input_ids": torch.zeros((2, 3), dtype=torch.long)}, sv.ShapeError, r"shape \(2, 3\)"),
        ({"input_ids": torch.zeros(3)}, sv.DtypeError, "dtype torch.float32"),
        ({"input_ids": [3, VOCAB]}, sv.ArgumentError, rf"input_ids\[1\] is {VOCAB}; expected an id in \[0, {VOCAB}\)"),
        ({"max_new_tokens": 0}, sv.ArgumentError, "max_new_tokens is 0; expected at least 1"),
        ({"drafter": "eagle"}, sv.ArgumentError, "drafter is 'eagle'; expected one of 'ngram', 'suffix'"),
        ({"drafter": "ngram", "tree": -1}, sv.ArgumentError, "tree is -1; expected a number of drafts"),
        ({"drafter": "ngram", "tree": [-1, 3]}, sv.ArgumentError, r"tree\[1\] is 3; expected -1"),
        ({"drafter": small(), "draws": "greedy"}, sv.ArgumentError, "draws is 'greedy'; expected one of 'coupled'"),
        ({"drafter": small(), "rule": "multipath", "tree": [-1, -1, 0]}, sv.ArgumentError, r"expected shapes.paths"),
        ({"drafter": llama(64)}, UnsupportedModelError, "the drafter's vocabulary has 64 ids and the target's 128"),
    ]
    for arguments, error, message in cases:
        prompt = arguments.pop("input_ids", PROMPT)
        with pytest.raises(error, match=message):
            generate(target(), prompt, **{"max_new_tokens": 4} | arguments)


def test_a_ratio_rule_on_drafts_that_were_chosen_is_refused():
    """Case 9: top-k children verified as if sampled would be off by 0.24 to 0.50 in total variation."""
    for arguments in (
        {"drafter": "ngram"},
        {"drafter": small(), "draws": "top_k"},
        {"drafter": small(), "draws": "coupled"},
    ):
        for rule in ("token", "block", "recursive", "traversal", "multipath"):
            with pytest.raises(sv.PairingError):
                generate(
                    target(), PROMPT, rule=rule, max_new_tokens=16, sampling=sv.SamplingParams(seed=1), **arguments
                )


@pytest.mark.parametrize(
    ("token_map", "error", "message"),
    [
        ([0, 1], sv.ShapeError, r"token_map has shape \(2,\); expected \(3,\)"),
        ([0, 1, 1], sv.ArgumentError, "repeated id"),
        ([0, 1, VOCAB], sv.ArgumentError, f"token_map holds {VOCAB}; expected ids below {VOCAB}"),
    ],
)
def test_a_token_map_that_leads_nowhere_is_refused(token_map, error, message):
    with pytest.raises(error, match=message):
        generate(
            target(),
            PROMPT,
            drafter=ModelDrafter(pruned_head(small(), [4, 5, 6]), token_map=token_map),
            max_new_tokens=2,
        )


def test_a_drafter_serves_one_sequence_after_another():
    for drafter in (TextDrafter("suffix"), TextDrafter("ngram", tree=[-1, -1, 0]), ModelDrafter(small(), tree=3)):
        sampling = sv.SamplingParams(seed=9)
        texts = [
            generate(target(), prompt, drafter=drafter, sampling=sampling, max_new_tokens=12).tokens
            for prompt in (PROMPT, PROMPT[::-1], PROMPT)
        ]
        assert texts[0] == texts[2] != texts[1]


def test_importing_specverify_imports_no_torch():
    code = "import sys, specverify; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_a_missing_package_is_named_with_the_way_to_install_it(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import specverify.hf"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    # Not 'specverify[hf]': until the name on PyPI is this project's, pip would fetch a stranger's package.
    extra = re.search(r"^hf = (.*)$", (Path(__file__).parents[1] / "pyproject.toml").read_text(), flags=re.MULTILINE)
    wanted = ast.literal_eval(extra[1])
    assert done.stderr.rstrip().splitlines()[-1] == (
        f"ImportError: specverify.hf needs {missing}, which is not installed: pip install "
        + " ".join(f"'{requirement}'" for requirement in wanted)
    )


@pytest.mark.parametrize("rule", ["token", "block", "recursive", "traversal", "multipath"])
@pytest.mark.parametrize("drafter", ["ngram", TextDrafter("suffix")], ids=["ngram", "TextDrafter"])
def test_a_ratio_rule_without_a_drafting_model_is_refused_at_once(monkeypatch, rule, drafter):
    """Not at the first step that happens to draft something."""
    monkeypatch.setattr(target(), "forward", None)
    with pytest.raises(
        sv.PairingError, match=f"rule '{rule}' can't verify drafter '(ngram|suffix)'.*expected one of 'auto'"
    ):
        generate(target(), [1, 2], drafter=drafter, rule=rule, max_new_tokens=1)
