"""Faults that users of speculative decoding met elsewhere, each as a test of the whole kind with the right value asserted.

The number in a name is the fault's in the project's list; each docstring cites where it was met. Those of attention (21 is in
test_hf_tree_model.py) and those that need a serving engine stand with their rooms.

Statistical tests have fixed seeds; false alarm 1e-7 a test by Pearson's statistic, power as each states.
"""

import mmap
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from scipy.stats import chi2

import specverify as sv

FALSE_ALARM = 1e-7

# One tree a rule that may verify it, with what its nodes were drawn from.
LOSSLESS = ("greedy", "target_only", "token", "block", "recursive", "traversal", "multipath")
RATIO = ("token", "block", "recursive", "traversal", "multipath")


def logits_of(probabilities):
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(probabilities, dtype=np.float64)).astype(np.float32)


def tree_for(rule, tokens):
    """A draft of the tokens of one path that `rule` may verify."""
    if rule == "multipath":
        return sv.DraftTree.from_paths([list(tokens)])
    return sv.DraftTree.chain(list(tokens), draws="independent" if rule in RATIO else "deterministic")


def verify(p, q, tokens, rule, seed=0, **keywords):
    """One step over a chain: p and q as probabilities, one row a node and one more."""
    keywords = {"sampling": sv.SamplingParams(seed=seed), "position": 5} | keywords
    return sv.verify(
        logits_of(p),
        tree_for(rule, tokens),
        rule=rule,
        draft_probs=np.asarray(q, dtype=np.float64) if rule in RATIO else None,
        **keywords,
    )


def drawn(weights, u):
    """The index that u picks from weights."""
    return int(np.searchsorted(np.cumsum(weights) / np.sum(weights), u, side="right"))


def first_tokens(p, q, rule, seeds, draft=None, sampling=None):
    """The first emitted token for each seed: drafts come from q by the draft stream, unless `draft(seed)` chooses them."""
    sampling = {} if sampling is None else sampling
    trees, samplings = [], []
    for seed in range(seeds):
        token = drawn(q, sv.Coins(seed=seed).uniform(5, stream="draft", index=0)) if draft is None else draft(seed)
        trees.append(tree_for(rule, [token]))
        samplings.append(sv.SamplingParams(seed=seed, **sampling))
    logits = np.tile(logits_of([p, p]), (seeds, 1))
    probs = np.tile(np.asarray([q, q], dtype=np.float64), (seeds, 1)) if rule in RATIO else None
    outs = sv.verify_batch(logits, trees, rule=rule, draft_probs=probs, samplings=samplings, positions=[5] * seeds)
    assert all(out.error is None for out in outs)
    return [out.tokens for out in outs], trees


def pearson(tokens, p):
    """Pearson's statistic and its degrees of freedom; tokens of probability 0 must not occur."""
    p = np.asarray(p, dtype=np.float64)
    counts = np.bincount(tokens, minlength=len(p))
    assert counts[p == 0].sum() == 0
    counts, expected = counts[p > 0], len(tokens) * p[p > 0]
    return float(((counts - expected) ** 2 / expected).sum()), len(expected) - 1


def assert_law(tokens, p):
    statistic, freedom = pearson(tokens, p)
    assert statistic < chi2.isf(FALSE_ALARM, freedom)


# Acceptance and sampling ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", LOSSLESS)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([np.nan] * 5, "contains NaN"),
        ([0, 1, np.nan, 0, 0], "contains NaN"),
        ([0, np.inf, 0, 0, 0], r"contains \+inf"),
        ([-np.inf] * 5, "has no usable mass"),
    ],
)
def test_case_01_nan_row_is_an_error_not_token_v(temperature, rule, bad, message):
    """vllm #53029 and #50183: an all-NaN row gave token id V and a crash later."""
    sampling = sv.SamplingParams(temperature=temperature, seed=1)
    q = np.full((2, 5), 0.2)
    good = np.zeros((2, 5), dtype=np.float32)
    good[:, 3] = 40.0
    broken = good.copy()
    broken[0] = bad
    keywords = {"rule": rule, "draft_probs": q if rule in RATIO else None}
    with pytest.raises(sv.RowError, match=f"logits row 0 {message}") as raised:
        sv.verify(broken, tree_for(rule, [3]), sampling=sampling, position=5, **keywords)
    assert raised.value.row == 0
    # In a batch the others are unaffected, and a bad row that the walk does not reach is no fault.
    unreached = good.copy()
    unreached[0], unreached[1] = [0, 0, 0, 0, 40], bad
    keywords["draft_probs"] = [q, q, q] if rule in RATIO else None
    outs = sv.verify_batch(
        np.concatenate([good, broken, unreached]),
        [tree_for(rule, [3])] * 3,
        samplings=[sampling] * 3,
        positions=[5] * 3,
        **keywords,
    )
    assert outs[0].error is None
    assert outs[0].tokens[0] == 3
    assert isinstance(outs[1].error, sv.RowError)
    assert not outs[1].tokens
    if rule in ("greedy", "target_only", "token"):
        assert outs[2].error is None
        assert outs[2].tokens == [4]


@pytest.mark.parametrize("rule", RATIO)
def test_case_02_probability_0_is_rejected_for_every_coin(rule):
    """A coin of 0 compared with >= accepted a token of target probability 0 (DESIGN of the acceptance test)."""
    for seed in range(500):
        out = verify([[0, 1], [0.5, 0.5]], [[1, 0], [0.5, 0.5]], [0], rule, seed)
        assert out.path == []
        assert out.tokens == [1]
    coins = [sv.Coins(seed=seed).uniform(5, stream="accept", index=0) for seed in range(500)]
    assert 0 < min(coins) < max(coins) < 1


@pytest.mark.parametrize("rule", LOSSLESS)
@pytest.mark.parametrize("where", [0, 1, 2, 63, 64, 199])
def test_case_03_and_04_probability_0_is_never_emitted(rule, where):
    """A coin that rounds to 1.0 in float32, or a fallback to the last index: only `where` has mass, also in the residual."""
    p = np.zeros((2, 200))
    p[:, where] = 1
    q = np.full((2, 200), 1 / 200)
    for seed in range(40):
        out = verify(p, q, [(where + 1 + seed) % 200], rule, seed)
        if rule in RATIO or out.path == []:
            assert out.tokens[0] == where
        assert set(out.tokens) == {where}


@pytest.mark.parametrize("rule", RATIO)
def test_case_04_residual_at_one_index_only(rule):
    """The residual (p - q)+ has mass at index 0 alone, the last index has target probability 0."""
    p, q = [0.6, 0.4, 0.0], [0.2, 0.4, 0.4]
    tokens, trees = first_tokens(p, q, rule, 4000)
    for emitted, tree in zip(tokens, trees, strict=True):
        if tree.tokens[0] == 2:
            assert emitted == [0]
        assert 2 not in emitted
    assert_law([emitted[0] for emitted in tokens], p)


@pytest.mark.parametrize("rule", RATIO)
def test_case_04_equal_p_and_q_leave_no_residual_and_no_crash(rule):
    """With p = q up to rounding everything is accepted; what rounding leaves as residual never makes an impossible token."""
    rng = np.random.default_rng(4)
    for seed in range(300):
        q = rng.dirichlet([0.3] * 7)
        q[rng.integers(7)] = 0
        q /= q.sum()
        token = drawn(q, rng.random())
        out = verify([q, q], [q, q], [token], rule, seed)
        assert all(q[emitted] > 0 for emitted in out.tokens)


@pytest.mark.parametrize("rule", RATIO)
def test_case_05_drafts_and_residual_share_no_noise(rule):
    """One noise stream for proposal and residual: biased where q is the mirror of p. V = 16, same seed and position.

    Power: a residual drawn with the draft's own coin has TV 0.2 here and is seen with probability above 0.999.
    """
    logits = np.random.default_rng(5).normal(size=16)
    p, q = np.exp(logits) / np.exp(logits).sum(), np.exp(-logits) / np.exp(-logits).sum()
    tokens, _ = first_tokens(p, q, rule, 8000)
    assert_law([emitted[0] for emitted in tokens], p)


def test_case_05_coupled_drafts_share_the_race_on_purpose_and_stay_lossless():
    """The race's own noise proposes: the emitted token is the one without drafts, so no law can move."""
    logits = np.random.default_rng(5).normal(size=16).astype(np.float32)
    for seed in range(300):
        sampling = sv.SamplingParams(seed=seed)
        children = sv.coupled_children(-logits, 2, sampling=sampling, position=5)
        tree = sv.DraftTree(children.tokens, [-1, -1])
        plain = sv.verify(logits[None], sv.DraftTree([], []), sampling=sampling, position=5)
        drafted = sv.verify(np.tile(logits, (3, 1)), tree, sampling=sampling, position=5)
        assert drafted.tokens[0] == plain.tokens[0]


def law_with_q(q, p, seeds=8000, **sampling):
    tokens, _ = first_tokens(p, q, "token", seeds, sampling=sampling)
    return [emitted[0] for emitted in tokens]


def test_case_06_q_is_what_was_drawn_from_after_top_k():
    """huggingface/transformers #47932: q recorded before top-k, drafts drawn after it. V = 4, top_k = 2.

    Control: with the unfiltered q recorded for the same drafts the statistic fails, by more than ten times its threshold.
    """
    target, draft = logits_of([0.4, 0.3, 0.2, 0.1]), logits_of([0.25, 0.35, 0.3, 0.1])
    top_2 = sv.SamplingParams(top_k=2)
    p = sv.probabilities(target[None], sampling=top_2)[0]
    q = sv.probabilities(draft[None], sampling=top_2)[0]
    assert (q > 0).tolist() == [False, True, True, False]
    target_p = [0.4, 0.3, 0.2, 0.1]
    assert_law(law_with_q(q, target_p, top_k=2), p)
    unfiltered = sv.probabilities(draft[None], sampling=sv.SamplingParams())[0]
    tokens, _ = first_tokens(
        target_p,
        unfiltered,
        "token",
        8000,
        draft=lambda seed: drawn(q, sv.Coins(seed=seed).uniform(5, stream="draft", index=0)),
        sampling={"top_k": 2},
    )
    statistic, freedom = pearson([emitted[0] for emitted in tokens], p)
    assert statistic > 10 * chi2.isf(FALSE_ALARM, freedom)


def test_case_07_the_draft_sees_the_temperature_that_verification_sees():
    """z-lab/dflash #74: the draft ignored temperature. logits [2, 1.5, 1, 0.5]; exact for every temperature."""
    logits = np.array([2, 1.5, 1, 0.5], dtype=np.float32)
    for temperature in (0.5, 1.0, 2.0):
        sampling = sv.SamplingParams(temperature=temperature)
        expected = np.exp(logits.astype(np.float64) / temperature)
        expected /= expected.sum()
        q = sv.probabilities(logits[None] - 3, sampling=sampling)[0]
        np.testing.assert_allclose(q, expected, rtol=1e-6)
        p = np.exp(logits.astype(np.float64)) / np.exp(logits.astype(np.float64)).sum()
        tokens, trees = first_tokens(p, q, "token", 2000, sampling={"temperature": temperature})
        # p = q: all drafts stand.
        assert [emitted[0] for emitted in tokens] == [tree.tokens[0] for tree in trees]


@pytest.mark.parametrize("rule", RATIO)
def test_case_08_real_q_accepts_sum_of_min_p_q(rule):
    """vllm #40149: a drafter with real q was verified as if q were one-hot. False alarm 1e-9 (6 sigma); one-hot is 25 sigma off."""
    p, q = np.array([0.5, 0.3, 0.15, 0.05]), np.array([0.1, 0.4, 0.2, 0.3])
    seeds = 6000
    tokens, _ = first_tokens(p, q, rule, seeds)
    accepted = sum(len(emitted) == 2 for emitted in tokens) / seeds
    expected = np.minimum(p, q).sum()
    sigma = np.sqrt(expected * (1 - expected) / seeds)
    assert abs(accepted - expected) < 6 * sigma
    assert abs((p * q).sum() - expected) > 25 * sigma


@pytest.mark.parametrize("rule", RATIO)
def test_case_09_chosen_children_are_refused_by_ratio_rules(rule):
    """Top-k tree children verified as if sampled: total variation 0.24 to 0.50."""
    q = np.full((4, 4), 0.25)
    chosen = sv.DraftTree([0, 1, 2], [-1, -1, 0])
    coupled = sv.coupled_children(np.zeros(4, dtype=np.float32), 1, sampling=sv.SamplingParams(seed=1), position=5)
    for tree in (chosen, sv.DraftTree.chain([0, 1, 2]), sv.DraftTree.chain([*coupled.tokens, 1, 2])):
        with pytest.raises(sv.PairingError, match=f"{rule}.*deterministic"):
            sv.verify(np.zeros((4, 4), dtype=np.float32), tree, rule=rule, draft_probs=q, position=5)
    # auto takes a rule that is proved for them, q or not.
    sampling = sv.SamplingParams(seed=3)
    logits = np.zeros((4, 4), dtype=np.float32)
    free = sv.verify(logits, chosen, sampling=sampling, position=5)
    assert sv.verify(logits, chosen, draft_probs=q, sampling=sampling, position=5).tokens == free.tokens


def test_case_09_draws_that_a_rule_is_not_proved_for_are_refused():
    """The other wrong pairings of the table."""
    logits, q = np.zeros((4, 4), dtype=np.float32), np.full((4, 4), 0.25)
    siblings = {
        draws: sv.DraftTree([0, 1, 2], [-1, -1, 0], draws=draws) for draws in ("independent", "without_replacement")
    }
    wrong = [("token", tree) for tree in siblings.values()] + [("block", tree) for tree in siblings.values()]
    wrong += [("multipath", tree) for tree in siblings.values()]
    wrong += [(rule, sv.DraftTree.chain([0, 1, 2], draws="without_replacement")) for rule in ("token", "block")]
    for rule, tree in wrong:
        with pytest.raises(sv.PairingError, match=rule):
            sv.verify(logits, tree, rule=rule, draft_probs=q, position=5)


def test_case_10_block_is_not_the_token_rule():
    """vllm-ascend #7807: "block" verification ran the token rule with another residual. N = 3, V = 3.

    Both laws are right (false alarm 1e-7), and block accepts more by at least 6 standard errors.
    """
    rng = np.random.default_rng(10)
    p, q = rng.dirichlet([1] * 3, size=4), rng.dirichlet([1] * 3, size=4)
    seeds = 12000
    accepted = {}
    trees = []
    for seed in range(seeds):
        coins = sv.Coins(seed=seed)
        draft = [drawn(q[d], coins.uniform(5, stream="draft", index=d)) for d in range(3)]
        trees.append(sv.DraftTree.chain(draft, draws="independent"))
    batch = {
        "draft_probs": np.tile(q, (seeds, 1)),
        "samplings": [sv.SamplingParams(seed=seed) for seed in range(seeds)],
        "positions": [5] * seeds,
    }
    for rule in ("token", "block"):
        outs = sv.verify_batch(np.tile(logits_of(p), (seeds, 1)), trees, rule=rule, **batch)
        accepted[rule] = np.array([len(out.path) for out in outs])
        assert_law([out.tokens[0] for out in outs], p[0])
    gain = accepted["block"] - accepted["token"]
    assert gain.mean() > 6 * gain.std() / np.sqrt(seeds)


def batch_of(requests, order, rule):
    """Runs requests (logits, tree, q, sampling, position) as one batch in the given order; outcomes in the requests' order."""
    chosen = [requests[i] for i in order]
    outs = sv.verify_batch(
        np.concatenate([logits for logits, *_ in chosen]),
        [tree for _, tree, *_ in chosen],
        rule=rule,
        draft_probs=[q for _, _, q, *_ in chosen] if rule in RATIO else None,
        samplings=[sampling for *_, sampling, _ in chosen],
        positions=[position for *_, position in chosen],
    )
    assert all(out.error is None for out in outs)
    return [out for _, out in sorted(zip(order, outs, strict=True), key=lambda pair: pair[0])]


def eight_requests(rule, seeds):
    rng = np.random.default_rng(11)
    requests = []
    for seed in seeds:
        n = int(rng.integers(1, 5))
        p, q = rng.dirichlet([0.5] * 50, size=n + 1), rng.dirichlet([0.5] * 50, size=n + 1)
        draft = [drawn(q[d], rng.random()) for d in range(n)]
        sampling = sv.SamplingParams(seed=seed, temperature=float(rng.uniform(0.5, 1.5)), top_p=0.95)
        requests.append((logits_of(p), tree_for(rule, draft), q, sampling, int(rng.integers(1, 1000))))
    return requests


@pytest.mark.parametrize("rule", LOSSLESS)
def test_case_11_a_seed_means_the_same_alone_and_in_any_batch(rule):
    """vllm #6038: a per-request seed was ignored or depended on the batch."""
    requests = eight_requests(rule, range(8))
    alone = [batch_of([request], [0], rule)[0].tokens for request in requests]
    rng = np.random.default_rng(1)
    for _ in range(5):
        order = list(rng.permutation(8))
        outs = batch_of(requests, order, rule)
        assert [out.tokens for out in outs] == alone
        assert [out.seed for out in outs] == list(range(8))
    # And it is not ignored: other seeds, other tokens somewhere (greedy apart).
    others = [out.tokens for out in batch_of(eight_requests(rule, range(100, 108)), range(8), rule)]
    assert (others == alone) == (rule == "greedy")


@pytest.mark.parametrize("rule", LOSSLESS)
def test_case_12_seeded_and_unseeded_requests_in_one_batch(rule):
    """vllm #9441."""
    seeds = [0, None, 2, None, None, 5, 6, None]
    requests = eight_requests(rule, seeds)
    seeded = [out.tokens for out in batch_of(eight_requests(rule, range(8)), range(8), rule)]
    outs = batch_of(requests, range(8), rule)
    for seed, out, expected in zip(seeds, outs, seeded, strict=True):
        if seed is not None:
            assert out.seed == seed
            assert out.tokens == expected
    told = [out.seed for out in outs]
    assert len(set(told)) == 8
    # The seed that is told reproduces what was drawn without one.
    assert [out.tokens for out in batch_of(eight_requests(rule, told), range(8), rule)] == [out.tokens for out in outs]


@pytest.mark.parametrize("kind", ["frequency_penalty", "presence_penalty", "repetition_penalty"])
def test_case_13_a_penalty_sees_the_drafts_before_it_on_its_own_path(kind):
    """vllm #18902: draft [7, 7], penalty 2: the first stands, the second must see it and fall."""
    logits = np.zeros((3, 10), dtype=np.float32)
    logits[:, 7], logits[:, 3] = 1.5, 1.0
    sampling = sv.SamplingParams(temperature=0, **{kind: 2.0})
    out = sv.verify(logits, sv.DraftTree.chain([7, 7]), sampling=sampling, position=5)
    assert out.path == [0]
    assert out.tokens == [7, 3]
    # A sibling is no part of the path: 7 as a sibling of 3 does not touch what follows 3.
    tree = sv.DraftTree([7, 3, 7], [-1, -1, 1])
    logits = np.zeros((4, 10), dtype=np.float32)
    logits[0, 3], logits[1:, 7] = 2.0, 1.5
    out = sv.verify(logits, tree, sampling=sampling, position=5)
    assert out.path == [1, 2]
    # Output tokens count before any draft; the prompt counts for the repetition penalty alone.
    logits = np.zeros((1, 10), dtype=np.float32)
    logits[0, 7], logits[0, 3] = 1.5, 1.0
    for known, expected in (({"output_token_ids": [7]}, 3), ({"prompt_token_ids": [7]}, 3 if kind[0] == "r" else 7)):
        assert sv.verify(logits, sv.DraftTree([], []), sampling=sampling, position=5, **known).tokens == [expected]


@pytest.mark.parametrize("rule", LOSSLESS)
def test_case_14_min_p_and_bias_act_on_draft_rows(rule):
    """Stock vLLM ignored min_p and logit_bias where a request has drafts. p = [.6, .29, .11], min_p = .5: support {0}."""
    p = [[0.6, 0.29, 0.11]] * 2
    q = [[1 / 3] * 3] * 2
    for seed in range(100):
        for token in range(3):
            out = verify(p, q, [token], rule, sampling=sv.SamplingParams(min_p=0.5, seed=seed))
            assert set(out.tokens) == {0}
            biased = sv.SamplingParams(min_p=0.5, logit_bias={2: 10.0}, seed=seed)
            assert set(verify(p, q, [token], rule, sampling=biased).tokens) == {2}
            only = sv.SamplingParams(allowed_token_ids=[1], seed=seed)
            assert set(verify(p, q, [token], rule, sampling=only).tokens) == {1}


def test_case_15_offsets_do_not_wrap_at_2_to_the_32():
    """Batch 512, 64 nodes, V = 151,936: 5.06e9 elements. The last requests' rows are found behind 2^32 elements.

    The matrix is reserved, not filled: untouched pages of zeros cost no memory, and only reached rows are read.
    """
    batch, nodes, vocab = 512, 64, 151_936
    rows = batch * (nodes + 1)
    assert rows * vocab > 2**32
    memory = mmap.mmap(
        -1, rows * vocab * 4, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    )
    logits = np.frombuffer(memory, dtype=np.float32).reshape(rows, vocab)
    tree = sv.DraftTree(list(range(1, nodes + 1)), [-1] * nodes)
    marks = {}
    for request in (0, 100, 434, 435, 511):
        first = request * (nodes + 1)
        child = 1 + request % nodes
        marks[request] = [child, vocab - 1 - request]
        logits[first, child] = 5.0
        logits[first + child, vocab - 1 - request] = 5.0
    greedy = sv.SamplingParams(temperature=0)
    outs = sv.verify_batch(logits, [tree] * batch, samplings=[greedy] * batch, positions=[9] * batch)
    for request, out in enumerate(outs):
        assert out.error is None
        assert out.tokens == marks.get(request, [0])


def test_case_16_no_float32_copy_of_the_target_is_made():
    """vllm #45369: 622 MB at batch 64, N = 16, V = 151,936. Peak extra memory stays below 64 MiB, logits in float16."""
    code = """
        import re, sys
        import numpy as np
        import specverify as sv
        batch, nodes, vocab = 64, 16, 151_936
        rng = np.random.default_rng(0)
        row = rng.standard_normal(vocab + 4096, dtype=np.float32) * 3
        logits = np.empty((batch * (nodes + 1), vocab), dtype=np.float16)
        for r in range(len(logits)):
            logits[r] = row[r:r + vocab]
        argmax = row[:vocab].argmax()
        trees = [sv.DraftTree.chain([int(argmax)] * nodes) for _ in range(batch)]
        samplings = [sv.SamplingParams(temperature=0.8, top_k=20, top_p=0.95, logprobs=5, seed=i) for i in range(batch)]
        # Not getrusage: a child takes its parent's peak over.
        peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
        before = peak()
        for rule in ("target_only", "greedy"):
            outs = sv.verify_batch(logits, trees, rule=rule, samplings=samplings, positions=[9] * batch)
            assert all(out.error is None for out in outs)
        extra = peak() - before
        print(f"extra {extra / 1024:.1f} MiB")
        sys.exit(extra >= 64 * 1024)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_case_17_a_smaller_draft_vocabulary_with_an_id_map():
    """vllm #10913: V_t = 8, V_d = 6. q is spread over the target's ids; noise and children belong to these."""
    ids = [7, 0, 3, 5, 1, 6]
    rng = np.random.default_rng(17)
    p, small_logits = rng.dirichlet([1] * 8), rng.normal(size=6).astype(np.float32)
    small = sv.probabilities(small_logits[None], sampling=sv.SamplingParams())[0]
    q = np.zeros(8)
    q[ids] = small
    tokens, _ = first_tokens(p, q, "token", 8000)
    assert_law([emitted[0] for emitted in tokens], p)
    # The unmapped q is refused by its shape.
    with pytest.raises(sv.ShapeError, match=r"draft_probs.*6"):
        sv.verify(
            logits_of([p, p]),
            sv.DraftTree.chain([0], draws="independent"),
            rule="token",
            draft_probs=np.tile(small, (2, 1)),
            position=5,
        )
    spread = np.full(8, -np.inf, dtype=np.float32)
    spread[ids] = small_logits
    for seed in range(50):
        sampling = sv.SamplingParams(seed=seed)
        mapped = sv.coupled_children(small_logits, 3, sampling=sampling, position=5, target_ids=ids)
        assert mapped.tokens == sv.coupled_children(spread, 3, sampling=sampling, position=5).tokens
        assert set(mapped.tokens) <= set(ids)


# Trees and cache --------------------------------------------------------------------------------------------------------


def test_case_18_only_the_path_is_moved():
    """sglang #26866: KV was moved for more nodes than the path has. 8 nodes, depth 3, batch 2."""
    tree = sv.DraftTree([1, 2, 3, 4, 5, 6, 7, 8], [-1, -1, 0, 0, 1, 1, 2, 4])
    paths = [[1, 4, 7], [0, 3]]
    plan = sv.compaction_plan([tree, tree], paths, [10, 20], firsts=[0, 1000])
    assert plan.kept == [14, 23]
    assert plan.moves.tolist() == [[12, 11], [15, 12], [18, 13], [1024, 1022]]
    # A simulated cache holds the path, in order, behind the root.
    cache = {slot: slot for slot in [*range(10, 19), *range(1020, 1029)]}
    for source, destination in plan.moves.tolist():
        cache[destination] = cache[source]
    assert [cache[slot] for slot in range(10, 14)] == [10, 12, 15, 18]
    assert [cache[slot] for slot in range(1020, 1023)] == [1020, 1021, 1024]


def test_case_19_pages_of_rejected_nodes_are_freed():
    """sglang #13741: page 16, 4 children a level; the free count returns to its start."""
    parents = [-1] * 4 + [0] * 4 + [4] * 4 + [8] * 4 + [12] * 4
    tree = sv.DraftTree([token % 4 for token in range(20)], parents)
    page_size, total = 16, 64
    rng = np.random.default_rng(19)
    free = list(range(total))
    pages: list[int] = []
    cached = 30
    start = total - -(-cached // page_size)
    for _ in range(50):
        while len(pages) * page_size < cached + len(tree) + 1:
            pages.append(free.pop())
        depth = int(rng.integers(0, 6))
        path = [level * 4 for level in range(depth)]
        plan = sv.compaction_plan([tree], [path], [cached], pages=[pages], page_size=page_size)
        (cached,) = plan.kept
        for place in reversed(plan.freed[0]):
            free.append(pages.pop(place))
        assert len(pages) == -(-cached // page_size)
        if cached > 200:  # the request ends and another of the first length begins
            while len(pages) * page_size >= 30 + page_size:
                free.append(pages.pop())
            cached = 30
            assert len(free) == start
    assert sorted(free + pages) == list(range(total))


def test_case_20_a_rejection_at_the_last_position_is_rolled_back():
    """openvino.genai #4190: N = 1, rejected. The draft's slot is free again and the next root takes it."""
    tree = sv.DraftTree([3], [-1])
    logits = np.zeros((2, 4), dtype=np.float32)
    logits[0, 1] = 1.0
    out = sv.verify(logits, tree, sampling=sv.SamplingParams(temperature=0), position=7)
    assert out.tokens == [1]
    assert out.path == []
    plan = sv.compaction_plan([tree], [out.path], [6])
    assert plan.kept == [7]
    assert plan.freed == [range(7, 8)]
    assert plan.moves.tolist() == []
    accepted = sv.compaction_plan([tree], [[0]], [6])
    assert accepted.kept == [8]
    assert accepted.freed == [range(8, 8)]


def test_case_22_a_missing_parent_or_a_nan_score_is_a_typed_error():
    """Missing parents after NaN scores were accepted silently."""
    for parents in ([1, -1], [-1, 1], [-1, 5], [-2, 0], [0, 0]):
        with pytest.raises(sv.TreeError, match=r"parents\[\d\] is -?\d"):
            sv.DraftTree([4, 5], parents)
    nan = np.array([[0.5, np.nan], [0.1, 0.2]], dtype=np.float32)
    tokens = np.array([[1, 2], [3, 4]])
    with pytest.raises(sv.TreeError, match=r"NaN|nan"):
        sv.DraftTree.product(tokens, nan, nodes=3)
    with pytest.raises(sv.TreeError, match=r"NaN|nan"):
        sv.DraftTree.siblings(tokens, nan, nodes=3)
    with pytest.raises(sv.TreeError, match="a token that its sibling"):
        sv.DraftTree([4, 4], [-1, -1])


def test_case_23_an_id_that_was_aborted_starts_afresh():
    """vllm #31876: a request preempted with drafts pending resumed with stale ones. The engine's part is in tests/vllm."""
    suffix, ngram = sv.SuffixDrafter(), sv.NgramDrafter()
    for drafter, end in ((suffix, suffix.abort), (suffix, suffix.stop), (ngram, ngram.stop)):
        drafter.start("a", [1, 2, 3, 4, 1, 2])
        assert drafter.draft("a", 2).tokens == [3, 4]
        end("a")
        with pytest.raises(sv.ArgumentError, match="request_id"):
            drafter.draft("a", 2)
        drafter.start("a", [1, 2, 9, 8, 1, 2])
        assert drafter.draft("a", 2).tokens == [9, 8]
        # A draft that was never used leaves no trace: what was emitted instead decides the next one.
        drafter.extend("a", [5, 6, 1, 2, 5, 6, 1])
        assert drafter.draft("a", 1).tokens == [2]
        end("a")


# Serving ----------------------------------------------------------------------------------------------------------------


def test_case_27_a_step_without_samples_leaves_the_counters_alone():
    """vllm #26372: counters went negative or crashed when drafts were scheduled and nothing was sampled."""
    stats = sv.AcceptanceStats()
    stats.record_chain([5, 6, 7], None)
    stats.record_chain([], 0)
    stats.record_chain([-1, -1], 0)
    stats.record_tree(sv.DraftTree([1, 2], [-1, -1]), None)
    assert (stats.drafts, stats.drafted, stats.accepted) == (0, 0, 0)
    assert stats.acceptance_rate is None
    assert stats.mean_accepted_length is None
    stats.record_chain([5, 6, 7], 2)
    with pytest.raises(sv.ArgumentError, match="accepted"):
        stats.record_chain([5, -1], 2)
    with pytest.raises(sv.ArgumentError, match="accepted"):
        stats.record_chain([5], -1)
    assert (stats.drafts, stats.drafted, stats.accepted) == (1, 3, 2)


def test_case_28_padding_is_not_counted_as_drafted():
    """vllm #44054: drafts [5, -1, -1], one accepted: the acceptance rate is 100 %."""
    stats = sv.AcceptanceStats()
    stats.record_chain([5, -1, -1], 1)
    assert (stats.drafts, stats.drafted, stats.accepted) == (1, 1, 1)
    assert stats.acceptance_rate == 1.0
    assert stats.mean_accepted_length == 2.0
    assert stats.drafted_per_depth == [1]


@pytest.mark.parametrize("rule", LOSSLESS)
@pytest.mark.parametrize("mode", ["raw", "processed"])
def test_case_29_logprobs_are_those_of_the_rows_that_emitted(rule, mode):
    """vllm #34497 and llama.cpp #27972: logprobs of the wrong rows, or 0.0. Accept 1 of 3."""
    rng = np.random.default_rng(29)
    logits = rng.normal(size=(4, 20)).astype(np.float32)
    logits[0, 7] = logits[1, 9] = 20.0
    q = np.zeros((4, 20))
    q[0, 7] = q[1, 4] = q[2, 1] = 1
    sampling = sv.SamplingParams(temperature=0.7, top_k=5, logprobs=3, seed=2)
    out = sv.verify(
        logits,
        tree_for(rule, [7, 4, 1]),
        rule=rule,
        draft_probs=q if rule in RATIO else None,
        sampling=sampling,
        position=5,
        logprobs_mode=f"{mode}_logprobs",
    )
    assert out.path == [0]
    assert out.tokens == [7, 9]
    raw = logits.astype(np.float64)
    rows = raw - np.log(np.exp(raw).sum(axis=1, keepdims=True))
    if mode == "processed":
        with np.errstate(divide="ignore"):
            rows = np.log(np.stack([sv.probabilities(row[None], sampling=sampling)[0] for row in logits]))
    np.testing.assert_allclose(out.logprobs, [rows[0, 7], rows[1, 9]], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", LOSSLESS)
def test_case_30_nothing_follows_an_end_of_sequence_that_was_drafted(rule):
    """Draft [EOS, x]: EOS is emitted and ends the request, whatever else would have stood."""
    eos, x = 2, 5
    p = np.full((3, 8), 1e-12)
    p[0, eos] = p[1, x] = p[2, 1] = 1
    q = np.zeros((3, 8))
    q[0, eos] = q[1, x] = 1
    q[2, 0] = 1
    out = verify(p, q, [eos, x], rule, stop_token_ids=[eos])
    assert out.tokens == [eos]
    assert out.path == [0]
    assert out.finished
    free = verify(p, q, [eos, x], rule)
    assert free.tokens == [eos, x, 1]
    assert not free.finished
    # The extra token may be the one that stops.
    out = verify(p, q, [eos, x], rule, stop_token_ids=[1])
    assert out.tokens == [eos, x, 1]
    assert out.finished


@pytest.mark.parametrize("rule", ["target_only", *RATIO, "auto"])
def test_case_31_sampling_never_falls_back_to_greedy(rule):
    """sglang #31214 and #33301: a failed feature probe fell back to greedy. T = 1, uniform p, 1000 draws: more than one token."""
    tokens, _ = first_tokens([0.25] * 4, [0.25] * 4, "token" if rule == "auto" else rule, 1000)
    assert_law([emitted[0] for emitted in tokens], [0.25] * 4)


def test_case_31_an_instruction_set_that_is_not_there_is_an_error():
    """The probe of the CPU is one such probe: a forced set that is unknown raises and names the choice."""
    code = (
        "import numpy as np, specverify as sv\n"
        "sv.verify(np.zeros((1, 4), dtype=np.float32), sv.DraftTree([], []), position=1)\n"
    )
    environment = os.environ | {"SPECVERIFY_SIMD": "avx1024"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "SPECVERIFY_SIMD" in done.stderr
    assert "avx1024" in done.stderr
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"SPECVERIFY_SIMD": "scalar"}, check=True)
