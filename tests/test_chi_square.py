"""The law of emitted tokens over a vocabulary of 151,936 ids, with adversarial q, by chi-square.

Three chained drafts a request; rows do not depend on the path, so the first two tokens of a text have the laws p[0] and p[1], when a
text that ended after one token is extended by a draw from p[1]. Tokens are counted in bins of about equal probability, once in
the order of p / q, where errors of a ratio rule add up, and once in the order of ids, where errors of indexing do.

False alarm: 1e-8 a statistic, 15 statistics in all: 1.5e-7 for the file. Power: the control, a public fault
of total variation 0.13, moves a statistic to 2.7 times its threshold (more than 5 standard deviations above it).
"""

import numpy as np
import pytest
from scipy.stats import chi2

import specverify as sv

VOCAB = 151_936
DRAFTS = 3
BATCH = 24
BATCHES = 200
BINS = 100
FALSE_ALARM = 1e-8


def softmax(x):
    x = np.exp(x - x.max())
    return x / x.sum()


@pytest.fixture(scope="module")
def rows():
    """Logits [DRAFTS + 1, V] in float16, and p and q as float64: mirrored, peaked where p is small, and shifted by one id."""
    rng = np.random.default_rng(0)
    logits = (2.0 * rng.standard_normal((DRAFTS + 1, VOCAB))).astype(np.float16)
    p = np.stack([softmax(row.astype(np.float64)) for row in logits])
    mirrored = softmax(-0.2 * logits[0].astype(np.float64))
    peaked = 0.5 * p[1]
    peaked[np.argsort(p[1])[VOCAB // 2]] += 0.5
    shifted = np.roll(p[2], 1)
    q = np.stack([mirrored, peaked, shifted]).astype(np.float32)
    return logits, p, q


def drafts_for(q, seeds):
    """[len(seeds), DRAFTS] tokens drawn from q by each seed's own coins."""
    u = np.array([[sv.Coins(seed=s).uniform(7, stream="draft", index=d) for d in range(DRAFTS)] for s in seeds])
    running = np.cumsum(q, axis=1, dtype=np.float64)
    return np.stack(
        [np.searchsorted(running[d], u[:, d] * running[d, -1], side="right") for d in range(DRAFTS)], axis=1
    )


def emitted(rows, rule):
    """[N, 2] tokens."""
    logits, p, q = rows
    rng = np.random.default_rng(1)
    extension = np.searchsorted(np.cumsum(p[1]), rng.random(BATCH * BATCHES)).tolist()
    tiled = np.tile(logits, (BATCH, 1))
    ratio = rule != "target_only"
    probs = np.tile(np.concatenate([q, np.zeros_like(q[:1])]), (BATCH, 1)) if ratio else None
    pairs = []
    for batch in range(BATCHES):
        seeds = range(batch * BATCH, (batch + 1) * BATCH)
        draws = "independent" if ratio else "deterministic"
        trees = [sv.DraftTree.chain(draft, draws=draws) for draft in drafts_for(q, seeds)]
        outs = sv.verify_batch(
            tiled,
            trees,
            rule=rule,
            draft_probs=probs,
            samplings=[sv.SamplingParams(seed=seed) for seed in seeds],
            positions=[7] * BATCH,
        )
        for out in outs:
            assert out.error is None
            pairs.append([*out.tokens, extension.pop()][:2])
    return np.array(pairs)


def bins(p, order):
    """A bin for each id: BINS of about equal mass under p, consecutive in `order`."""
    running = np.cumsum(p[order])
    bin_of = np.empty(VOCAB, dtype=np.int64)
    bin_of[order] = np.minimum((running / running[-1] * BINS).astype(np.int64), BINS - 1)
    return bin_of


def statistics(tokens, rows):
    """(statistic, threshold) of both tokens and both orders, and of the pair in 10 x 10 bins."""
    _, p, q = rows
    found = []
    coarse = []
    for i in range(2):
        for order in (np.argsort(p[i] / np.maximum(q[i], 1e-30)), np.arange(VOCAB)):
            bin_of = bins(p[i], order)
            expected = len(tokens) * np.bincount(bin_of, weights=p[i], minlength=BINS)
            counts = np.bincount(bin_of[tokens[:, i]], minlength=BINS)
            found.append(pearson(counts, expected))
        coarse.append(bins(p[i], np.argsort(p[i] / np.maximum(q[i], 1e-30))) // (BINS // 10))
    masses = [np.bincount(c, weights=p[i], minlength=10) for i, c in enumerate(coarse)]
    cells = coarse[0][tokens[:, 0]] * 10 + coarse[1][tokens[:, 1]]
    found.append(pearson(np.bincount(cells, minlength=100), len(tokens) * np.outer(*masses).ravel()))
    return found


def pearson(counts, expected):
    used = expected > 0
    assert counts[~used].sum() == 0
    statistic = ((counts[used] - expected[used]) ** 2 / expected[used]).sum()
    return float(statistic), float(chi2.isf(FALSE_ALARM, used.sum() - 1))


@pytest.mark.parametrize("rule", ["target_only", "token", "block"])
def test_the_law_of_the_first_two_tokens(rows, rule):
    for statistic, threshold in statistics(emitted(rows, rule), rows):
        assert statistic < threshold


def test_control_a_draw_from_p_instead_of_the_residual_is_seen(rows):
    """A rejected draft replaced by a draw from p: the public fault that looks most like the right thing."""
    _, p, q = rows
    rng = np.random.default_rng(2)
    count = BATCH * BATCHES
    drafts = drafts_for(q, range(count))[:, 0]
    accepted = rng.random(count) < p[0][drafts] / q[0][drafts]
    afresh = np.searchsorted(np.cumsum(p[0]), rng.random(count))
    second = np.searchsorted(np.cumsum(p[1]), rng.random(count))
    tokens = np.stack([np.where(accepted, drafts, afresh), second], axis=1)
    assert max(statistic / threshold for statistic, threshold in statistics(tokens, rows)) > 2
