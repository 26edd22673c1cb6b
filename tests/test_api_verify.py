"""verify, verify_batch and their kin through the public API: every input gives the right answer or an error of the family."""

import copy
import math
import os
import pickle
import subprocess
import sys
import threading
import time
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import specverify as sv

TREE = sv.DraftTree([5, 7, 9], [-1, -1, 0])
ROWS = len(TREE) + 1
V = 20


def some_logits(rows: int = ROWS, vocab: int = V, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0, 2, (rows, vocab)).astype(np.float32)


def emitted(logits: Any, **keywords: Any) -> tuple[list[int], list[int]]:
    keywords = {"sampling": sv.SamplingParams(temperature=0.8, seed=3), "position": 17} | keywords
    out = sv.verify(logits, TREE, **keywords)
    return out.tokens, out.path


def test_the_example_of_the_contract() -> None:
    out = sv.verify(
        some_logits(),
        TREE,
        rule="auto",
        draft_probs=None,
        sampling=sv.SamplingParams(temperature=0.8, top_p=0.95, seed=7),
        position=128,
        prompt_token_ids=(),
        output_token_ids=(),
        stop_token_ids=(),
    )
    assert len(out.tokens) == len(out.path) + 1 == len(out.logprobs)
    assert (out.finished, out.seed, out.error, out.rule) == (False, 7, None, "target_only")
    assert "tokens=" in repr(out)


def strided(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    wide = np.full((len(x), x.shape[1] + 13), np.nan, x.dtype)
    wide[:, 5 : 5 + x.shape[1]] = x
    return wide[:, 5 : 5 + x.shape[1]]


def every_other_row(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    tall = np.full((2 * len(x), x.shape[1]), np.nan, x.dtype)
    tall[::2] = x
    return tall[::2]


def read_only(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = x.copy()
    x.flags.writeable = False
    return x


def with_gradient(x: np.ndarray[Any, Any]) -> torch.Tensor:
    return torch.tensor(x).requires_grad_() * 1


class Legacy:
    """An exporter from before DLPack 1.0."""

    def __init__(self, x: np.ndarray[Any, Any]) -> None:
        self.x = x

    def __dlpack__(self, stream: None = None) -> Any:
        return self.x.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize(
    "form",
    [strided, every_other_row, read_only, np.ma.asarray, torch.tensor, torch.from_numpy, with_gradient, Legacy,
     lambda x: torch.tensor(strided(x))[:, :], lambda x: torch.from_numpy(strided(x)),
     lambda x: torch.nn.Parameter(torch.tensor(x))],
)  # fmt: skip
def test_every_form_of_the_same_logits_gives_the_same_tokens(form: Any) -> None:
    assert emitted(form(some_logits())) == emitted(some_logits())


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (lambda x: x.astype(np.float16), lambda x: x.astype(np.float16).astype(np.float32)),
        (lambda x: torch.tensor(x).half(), lambda x: torch.tensor(x).half().float()),
        (lambda x: torch.tensor(x).bfloat16(), lambda x: torch.tensor(x).bfloat16().float()),
        (lambda x: x.astype(ml_dtypes.bfloat16), lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32)),
    ],
    ids=["numpy f16", "torch f16", "torch bf16", "ml_dtypes bf16"],
)
def test_half_precision_is_read_as_it_is(narrow: Any, wide: Any) -> None:
    for seed in range(20):
        x = some_logits(seed=seed)
        assert emitted(narrow(x)) == emitted(wide(x))


def test_arrays_are_not_changed_and_are_let_go() -> None:
    x, q = some_logits(), np.full((ROWS, V), 1 / V)
    before, held = (x.copy(), q.copy()), (sys.getrefcount(x), sys.getrefcount(q))
    tree = sv.DraftTree(TREE.tokens, TREE.parents, draws="independent")
    for form in (np.asarray, Legacy):
        for _ in range(10):
            sv.verify(form(x), tree, draft_probs=form(q))
            with pytest.raises(sv.ShapeError):
                sv.verify(form(x), sv.DraftTree.chain([1]), draft_probs=form(q))
    assert np.array_equal(x, before[0])
    assert np.array_equal(q, before[1])
    assert (sys.getrefcount(x), sys.getrefcount(q)) == held


class OnDevice:
    def __init__(self, kind: int) -> None:
        self.kind = kind

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.kind, 3)

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("what is on a device is not asked for its data")


@pytest.mark.parametrize(("kind", "name"), [(2, "CUDA device 3"), (10, "ROCm device 3"), (99, "type 99")])
def test_tensors_on_a_device_are_refused_by_its_name(kind: int, name: str) -> None:
    with pytest.raises(sv.ArgumentError, match=name):
        emitted(OnDevice(kind))


class Returns:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **_: Any) -> Any:
        return self.value


X = some_logits()
BAD_ARRAYS: list[tuple[Any, type[Exception]]] = [
    (X.astype(np.float64), sv.DtypeError),
    (X.astype(np.int32), sv.DtypeError),
    (X > 0, sv.DtypeError),
    (X.astype(object), sv.DtypeError),
    (X.astype(complex), sv.DtypeError),
    (X.astype(str), sv.DtypeError),
    (X.astype(">f4"), sv.DtypeError),
    (X.astype([("a", "f4")]), sv.DtypeError),
    (torch.tensor(X).double(), sv.DtypeError),
    (torch.tensor(X).long(), sv.DtypeError),
    (torch.tensor(X).bool(), sv.DtypeError),
    (torch.tensor(X).to(torch.float8_e4m3fn), sv.SpecVerifyError),
    (torch.tensor(X).to_sparse(), sv.ArgumentError),
    (torch.tensor(X).to("meta"), sv.ArgumentError),
    (X[0], sv.ShapeError),
    (X[None], sv.ShapeError),
    (X[0, 0], sv.ArgumentError),
    (np.array(1, np.float32), sv.ShapeError),
    (torch.tensor(1.0), sv.ShapeError),
    (X[:0], sv.ShapeError),
    (X[:, :0], sv.ShapeError),
    (X[:2], sv.ShapeError),
    (np.zeros((ROWS + 1, V), np.float32), sv.ShapeError),
    (np.zeros((0, 0), np.float32), sv.ShapeError),
    (np.asfortranarray(X), sv.ShapeError),
    (np.repeat(X, 2, axis=1)[:, ::2], sv.ShapeError),
    (X[::-1], sv.ShapeError),
    (X[:, ::-1], sv.ShapeError),
    (np.broadcast_to(X[0], X.shape), sv.ShapeError),
    (np.lib.stride_tricks.as_strided(X, (ROWS, V), (4, 4)), sv.ShapeError),
    (torch.tensor(X).t().contiguous().t(), sv.ShapeError),
    (torch.tensor(X[0]).expand(ROWS, V), sv.ShapeError),
    (np.zeros(ROWS * V * 4 + 1, np.uint8)[1:].view(np.float32).reshape(ROWS, V), sv.ArgumentError),
    (np.zeros((ROWS, V * 4 + 2), np.uint8)[:, : V * 4].view(np.float32), sv.ShapeError),
    (X.tolist(), sv.ArgumentError),
    (None, sv.ArgumentError),
    ("logits", sv.ArgumentError),
    (X.tobytes(), sv.ArgumentError),
    (memoryview(X), sv.ArgumentError),
    (Returns(None), sv.ArgumentError),
    (Returns(object()), sv.ArgumentError),
]


@pytest.mark.parametrize("index", range(len(BAD_ARRAYS)))
def test_arrays_that_can_not_be_read_in_place_are_refused(index: int) -> None:
    array, error = BAD_ARRAYS[index]
    for call in (
        lambda: sv.verify(array, TREE),
        lambda: sv.verify_batch(array, [TREE]),
        lambda: sv.probabilities(array, sampling=sv.SamplingParams(), tree=TREE),
    ):
        with pytest.raises(error) as raised:
            call()
        assert isinstance(raised.value, sv.SpecVerifyError)
        assert str(raised.value).startswith("logits ")
        assert "expected " in str(raised.value)


@pytest.mark.parametrize(
    ("keywords", "error", "named"),
    [
        ({"rule": "blocks"}, sv.ArgumentError, 'rule is "blocks"'),
        ({"rule": 3}, sv.ArgumentError, "rule is 3"),
        ({"rule": "block"}, sv.PairingError, "block"),
        ({"rule": "token"}, sv.PairingError, "token"),
        ({"rule": "recursive"}, sv.PairingError, "recursive"),
        ({"rule": "traversal"}, sv.PairingError, "traversal"),
        ({"rule": "multipath"}, sv.PairingError, "multipath"),
        ({"rule": "lossy_typical", "epsilon": 2}, sv.ArgumentError, "epsilon is 2"),
        ({"rule": "lossy_typical", "epsilon": "x"}, sv.ArgumentError, "epsilon is 'x'"),
        ({"rule": "lossy_typical", "delta": -1}, sv.ArgumentError, "delta is -1"),
        ({"rule": "lossy_typical", "delta": math.inf}, sv.ArgumentError, "delta is inf"),
        ({"sampling": {"temperature": 1}}, sv.ArgumentError, "sampling is"),
        ({"sampling": sv.SamplingParams(logit_bias={V: 1})}, sv.ArgumentError, "logit_bias"),
        ({"sampling": sv.SamplingParams(allowed_token_ids=[V])}, sv.ArgumentError, "allowed_token_ids"),
        ({"position": -1}, sv.ArgumentError, "position is -1"),
        ({"position": 2**32}, sv.ArgumentError, "position is 4294967296"),
        ({"position": 2**32 - 1}, sv.ArgumentError, "position is 4294967295"),
        ({"position": 1.0}, sv.ArgumentError, "position is 1.0"),
        ({"prompt_token_ids": 3}, sv.ArgumentError, "prompt_token_ids is 3"),
        ({"prompt_token_ids": [-1]}, sv.ArgumentError, r"prompt_token_ids\[0\] is -1"),
        ({"output_token_ids": [1, 2.5]}, sv.ArgumentError, r"output_token_ids\[1\] is 2.5"),
        ({"stop_token_ids": "3"}, sv.ArgumentError, "stop_token_ids is '3'"),
        ({"logprobs_mode": "raw"}, sv.ArgumentError, "logprobs_mode is 'raw'"),
        ({"draft_probs": np.zeros((ROWS, V + 1))}, sv.ShapeError, "draft_probs"),
        ({"draft_probs": np.zeros((ROWS - 1, V))}, sv.ShapeError, "draft_probs"),
        ({"draft_probs": np.zeros((ROWS, V), int)}, sv.DtypeError, "draft_probs"),
        ({"draft_probs": [[0.5]]}, sv.ArgumentError, "draft_probs"),
    ],
)
def test_every_argument_is_named_by_its_error(keywords: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named) as raised:
        sv.verify(some_logits(), TREE, **keywords)
    assert isinstance(raised.value, sv.SpecVerifyError)


@pytest.mark.parametrize("tree", [None, [5], "chain", np.array([5])])
def test_what_is_no_tree_is_refused(tree: Any) -> None:
    with pytest.raises(sv.ArgumentError, match="tree is"):
        sv.verify(some_logits(), tree)
    with pytest.raises(sv.ArgumentError, match="trees"):
        sv.verify_batch(some_logits(), [tree])


def test_drafts_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(sv.TreeError, match=r"tokens\[1\] is 20"):
        sv.verify(some_logits(2 + 1), sv.DraftTree.chain([5, V]))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(("value", "said"), [(math.nan, "NaN"), (math.inf, "inf"), (-math.inf, "mass")])
def test_case_1_a_row_without_a_distribution_names_itself_and_spares_the_batch(
    temperature: float, value: float, said: str
) -> None:
    logits = some_logits(3)
    logits[1] = value
    empty = sv.DraftTree.chain([])
    params = sv.SamplingParams(temperature=temperature, seed=1)
    outs = sv.verify_batch(logits, [empty] * 3, samplings=params)
    alone = sv.verify(logits[:1], empty, sampling=params)
    assert (outs[0].tokens, outs[0].error) == (alone.tokens, None)
    assert isinstance(outs[1].error, sv.RowError)
    assert outs[1].error.row == 0
    assert said in str(outs[1].error)
    assert (outs[1].tokens, outs[1].path, outs[1].logprobs, outs[1].finished, outs[1].rule) == ([], [], [], False, None)
    assert len(outs[2].tokens) == 1
    with pytest.raises(sv.RowError, match=said) as raised:
        sv.verify(logits[1:2], empty, sampling=params)
    assert pickle.loads(pickle.dumps(raised.value)).row == 0


def test_a_row_that_is_not_reached_may_hold_anything() -> None:
    logits = some_logits()
    logits[2:] = math.nan
    logits[0, 5] = 100.0
    out = sv.verify(logits, TREE, sampling=sv.SamplingParams(temperature=0))
    assert out.path == [0]


def test_case_11_and_12_a_seed_means_the_same_alone_and_in_any_batch() -> None:
    rng = np.random.default_rng(5)
    trees = [sv.DraftTree.chain(rng.integers(0, V, n).tolist()) for n in range(8)]
    blocks = [some_logits(len(tree) + 1, seed=b) for b, tree in enumerate(trees)]
    samplings = [sv.SamplingParams(seed=b if b % 3 else None, temperature=b % 4 / 2) for b in range(8)]
    alone = [sv.verify(x, tree, sampling=p, position=9) for x, tree, p in zip(blocks, trees, samplings, strict=True)]
    for _ in range(5):
        order = rng.permutation(8)
        outs = sv.verify_batch(
            np.concatenate([blocks[b] for b in order]),
            [trees[b] for b in order],
            samplings=[samplings[b] for b in order],
            positions=[9] * 8,
        )
        for b, out in zip(order, outs, strict=True):
            if samplings[b].seed is not None or samplings[b].temperature == 0:
                assert (out.tokens, out.path, out.seed) == (alone[b].tokens, alone[b].path, alone[b].seed)
            else:
                again = sv.SamplingParams(seed=out.seed, temperature=samplings[b].temperature)
                replay = sv.verify(blocks[b], trees[b], sampling=again, position=9)
                assert replay.tokens == out.tokens


def test_case_31_unseeded_requests_differ() -> None:
    flat = np.zeros((1000, V), np.float32)
    outs = sv.verify_batch(flat, [sv.DraftTree.chain([])] * 1000)
    assert {out.tokens[0] for out in outs} == set(range(V))
    assert len({out.seed for out in outs}) == 1000


def test_case_29_logprobs_are_those_of_the_emitted_rows() -> None:
    logits = some_logits()
    logits[0, 5] = 30.0
    params = sv.SamplingParams(temperature=0, logprobs=3)
    out = sv.verify(logits, TREE, sampling=params)
    assert out.path[:1] == [0]
    rows = [0, *(node + 1 for node in out.path)]
    for row, token, logprob, rank, top in zip(rows, out.tokens, out.logprobs, out.ranks, out.top_logprobs, strict=True):
        x = logits[row].astype(np.float64)
        expected = x - np.log(np.exp(x).sum())
        assert logprob == pytest.approx(expected[token], abs=1e-5)
        assert rank == (x >= x[token]).sum()
        assert [i for i, _ in top] == np.argsort(-x, kind="stable")[:3].tolist()
        assert [value for _, value in top] == pytest.approx([expected[i] for i, _ in top], abs=1e-5)
    batch = sv.verify_batch(logits, [TREE], samplings=params)[0]
    assert (batch.logprobs, batch.top_logprobs) == (out.logprobs, out.top_logprobs)
    whole = sv.verify(logits, TREE, sampling=sv.SamplingParams(temperature=0, logprobs=-1))
    assert [len(top) for top in whole.top_logprobs] == [V] * len(whole.tokens)
    silent = sv.verify_batch(logits, [TREE], samplings=sv.SamplingParams(temperature=0))[0]
    assert (silent.logprobs, silent.top_logprobs, silent.ranks) == ([], [], [])


def test_case_30_nothing_follows_a_stop_token() -> None:
    logits = np.full((3, V), -5, np.float32)
    logits[0, 5] = logits[1, 7] = logits[2, 9] = 5
    chain = sv.DraftTree.chain([5, 7])
    greedy = sv.SamplingParams(temperature=0)
    for stops, tokens, path in [
        ([], [5, 7, 9], [0, 1]),
        ([7], [5, 7], [0, 1]),
        ([5], [5], [0]),
        ([9], [5, 7, 9], [0, 1]),
    ]:
        out = sv.verify(logits, chain, sampling=greedy, stop_token_ids=stops)
        assert (out.tokens, out.path, out.finished) == (tokens, path, bool(stops))


def test_case_13_a_penalty_sees_the_drafts_of_its_own_path() -> None:
    logits = np.zeros((3, V), np.float32)
    logits[:, 7] = 3.0
    logits[:, 8] = 2.0
    params = sv.SamplingParams(temperature=0, frequency_penalty=2)
    assert sv.verify(logits, sv.DraftTree.chain([7, 7]), sampling=params).tokens == [7, 8]
    tree = sv.DraftTree([7, 8], [-1, 0])
    assert sv.verify(logits, tree, sampling=params).tokens[:2] == [7, 8]


def test_the_position_defaults_to_what_stands_before() -> None:
    seen: dict[str, Any] = {"sampling": sv.SamplingParams(seed=4), "prompt_token_ids": [1, 2], "output_token_ids": [3]}
    differ = 0
    for seed in range(20):
        x = some_logits(seed=seed)
        implied = sv.verify(x, TREE, **seen).tokens
        assert implied == sv.verify(x, TREE, position=3, **seen).tokens
        differ += implied != sv.verify(x, TREE, position=4, **seen).tokens
    assert differ


@pytest.mark.parametrize("rule", ["auto", "token", "block", "recursive", "traversal"])
def test_draft_probs_come_in_every_shape_and_type(rule: Any) -> None:
    chain = sv.DraftTree.chain([5, 7, 9], draws="independent")
    q = np.random.default_rng(0).dirichlet(np.ones(V), ROWS).astype(np.float32)
    q[-1] = np.nan  # the last row has no children: it is not read
    seeds = range(30)
    x = some_logits()

    def run(probs: Any) -> list[list[int]]:
        return [
            sv.verify(x, chain, rule=rule, draft_probs=probs, sampling=sv.SamplingParams(seed=s)).tokens for s in seeds
        ]

    expected = run(q)
    for same in (q[:-1], torch.tensor(q), q.astype(np.float64), torch.tensor(q).double(), read_only(q), strided(q)):
        assert run(same) == expected
    half = q.astype(np.float16)
    assert run(half) == run(half.astype(np.float32))
    empty = sv.DraftTree.chain([])
    everything = np.concatenate([q, q, q[:1]])
    listed = [q, torch.tensor(q[:-1]), None]
    logits = np.concatenate([x, x, x[:1]])
    for seed in seeds:
        params = sv.SamplingParams(seed=seed)
        a = sv.verify_batch(logits, [chain, chain, empty], rule="auto", draft_probs=everything, samplings=params)
        b = sv.verify_batch(logits, [chain, chain, empty], rule="auto", draft_probs=listed, samplings=params)
        assert [out.tokens for out in a] == [out.tokens for out in b]
        assert a[0].rule == a[1].rule == "block"
        assert (a[2].rule, b[2].rule) != (None, None)
        assert [out.error for out in a + b] == [None] * 6


@pytest.mark.parametrize("fault", [math.nan, -0.5, math.inf])
def test_faulty_draft_probs_are_named(fault: float) -> None:
    chain = sv.DraftTree.chain([5], draws="independent")
    q = np.full((2, V), 1 / V)
    q[0, 5] = fault
    with pytest.raises(sv.SpecVerifyError, match="draft_probs") as raised:
        sv.verify(some_logits(2), chain, rule="token", draft_probs=q)
    assert isinstance(raised.value, sv.RowError | sv.ArgumentError)
    with pytest.raises(
        sv.ArgumentError, match=r'draft_probs is None; expected \[1, V\] or \[2, V\] probabilities.*"token"'
    ):
        sv.verify(some_logits(2), chain, rule="token")


@pytest.mark.parametrize(
    ("keywords", "error", "named"),
    [
        ({"samplings": [None]}, sv.ArgumentError, r"samplings\[0\] is None"),
        ({"samplings": []}, sv.ShapeError, "samplings has length"),
        ({"positions": [1, 2]}, sv.ShapeError, "positions"),
        ({"positions": 3}, sv.ArgumentError, "positions is 3"),
        ({"positions": [-1]}, sv.ArgumentError, r"positions\[0\] is -1"),
        ({"prompt_token_ids": [[1], [2]]}, sv.ShapeError, "prompt_token_ids"),
        ({"prompt_token_ids": [1]}, sv.ArgumentError, r"prompt_token_ids\[0\] is 1"),
        ({"output_token_ids": [[-1]]}, sv.ArgumentError, r"output_token_ids\[0\]\[0\] is -1"),
        ({"stop_token_ids": [["x"]]}, sv.ArgumentError, r"stop_token_ids\[0\]\[0\] is 'x'"),
        ({"draft_probs": [None, None]}, sv.ShapeError, "draft_probs"),
        ({"draft_probs": ["q"]}, sv.ArgumentError, r"draft_probs\[0\]"),
        ({"draft_probs": [np.zeros((1, V))]}, sv.ShapeError, r"draft_probs\[0\]"),
        ({"draft_probs": np.zeros((1, V))}, sv.ShapeError, "draft_probs"),
        ({"draft_probs": np.zeros((ROWS, 3))}, sv.ShapeError, "draft_probs"),
        ({"rule": "nothing"}, sv.ArgumentError, "rule"),
    ],
)
def test_malformed_batches_raise(keywords: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        sv.verify_batch(some_logits(), [TREE], **keywords)


def test_faults_of_one_request_are_its_own() -> None:
    chain = sv.DraftTree.chain([5], draws="independent")
    outside = sv.DraftTree.chain([V])
    bias = sv.SamplingParams(logit_bias={V: 1.0}, seed=0)
    ok = sv.SamplingParams(seed=0)
    outs = sv.verify_batch(
        some_logits(10), [chain, TREE, outside, chain], rule="token", draft_probs=np.full((10, V), 1 / V),
        samplings=[ok, ok, ok, bias],
    )  # fmt: skip
    assert [type(out.error) for out in outs] == [type(None), sv.PairingError, sv.PairingError, sv.ArgumentError]
    outs = sv.verify_batch(some_logits(4), [outside, chain], samplings=ok)
    assert [type(out.error) for out in outs] == [sv.TreeError, type(None)]


def test_an_empty_batch_is_empty() -> None:
    assert sv.verify_batch(np.zeros((0, V), np.float32), []) == []


# numpy scalars of extreme size; float32 keeps infinities, and NaN stays NaN.
WILD = st.floats(width=32) | st.sampled_from([0.0, -0.0, 1e38, -1e38, 1e-45, math.nan, math.inf, -math.inf])


@st.composite
def wild_requests(draw: st.DrawFn) -> tuple[Any, sv.DraftTree, dict[str, Any]]:
    vocab = draw(st.integers(1, 140))
    n = draw(st.integers(0, 5))
    draws = draw(st.sampled_from(["deterministic", "independent", "without_replacement", "paths"]))
    token = st.integers(0, vocab - 1)
    if draws == "paths" and n:
        depth = draw(st.integers(1, 3))
        paths = draw(st.lists(st.lists(token, min_size=depth, max_size=depth), min_size=1, max_size=3))
        tree = sv.DraftTree.from_paths(paths)
    else:
        parents = [draw(st.integers(-1, i - 1)) for i in range(n)]
        tokens = draw(st.lists(token, min_size=n, max_size=n))
        try:
            tree = sv.DraftTree(tokens, parents, draws="independent" if draws == "paths" else draws)  # type: ignore[arg-type]
        except sv.TreeError:
            tree = sv.DraftTree(tokens, parents, draws="independent")
    rows = len(tree) + 1
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    logits = rng.normal(0, draw(st.sampled_from([0.0, 1.0, 30.0, 1e4])), (rows, vocab)).astype(np.float32)
    for _ in range(draw(st.integers(0, 4))):
        logits[draw(st.integers(0, rows - 1)), draw(st.integers(0, vocab - 1))] = draw(WILD)
    q = rng.dirichlet(np.full(vocab, 0.3), rows)
    if draw(st.booleans()):
        q[draw(st.integers(0, rows - 1)), draw(st.integers(0, vocab - 1))] = draw(WILD)
    ids = st.lists(token, max_size=4)
    sampling = sv.SamplingParams(
        temperature=draw(st.sampled_from([0, 0.01, 0.7, 1, 50])),
        top_p=draw(st.sampled_from([1e-6, 0.5, 1])),
        top_k=draw(st.sampled_from([-1, 0, 1, 3, 10**9])),
        min_p=draw(st.sampled_from([0, 0.1, 1])),
        presence_penalty=draw(st.sampled_from([-2, 0, 2])),
        frequency_penalty=draw(st.sampled_from([0, 1.5])),
        repetition_penalty=draw(st.sampled_from([0.5, 1, 1e30])),
        seed=draw(st.integers(0, 2**64 - 1)),
        min_tokens=draw(st.sampled_from([0, 3])),
        logit_bias=draw(st.none() | st.dictionaries(token, st.floats(-1e30, 1e30))),
        allowed_token_ids=draw(st.none() | st.lists(token, min_size=1)),
        bad_words_token_ids=draw(st.none() | st.lists(st.lists(token, min_size=1, max_size=2), max_size=2)),
        logprobs=draw(st.sampled_from([None, -1, 0, 2, 10**6])),
    )
    keywords = {
        "rule": draw(
            st.sampled_from(
                [
                    "auto",
                    "greedy",
                    "target_only",
                    "token",
                    "block",
                    "recursive",
                    "traversal",
                    "multipath",
                    "lossy_typical",
                ]
            )
        ),
        "draft_probs": draw(st.sampled_from([None, q])),
        "sampling": sampling,
        "position": draw(st.sampled_from([None, 0, 7, 2**32 - 9])),
        "prompt_token_ids": draw(ids),
        "output_token_ids": draw(ids),
        "stop_token_ids": draw(ids),
        "logprobs_mode": draw(st.sampled_from(["raw_logprobs", "processed_logprobs"])),
    }
    form = draw(st.sampled_from([np.asarray, torch.from_numpy, strided, lambda x: torch.from_numpy(x).bfloat16()]))
    return form(logits), tree, keywords


def outcome_or_error(
    logits: Any, tree: sv.DraftTree, keywords: Any
) -> tuple[sv.Outcome | None, sv.SpecVerifyError | None]:
    try:
        return sv.verify(logits, tree, **keywords), None
    except sv.SpecVerifyError as error:
        return None, error


@settings(max_examples=400, deadline=None)
@given(wild_requests())
def test_wild_requests_give_a_valid_outcome_or_an_error_of_the_family(request: Any) -> None:
    logits, tree, keywords = request
    out, error = outcome_or_error(logits, tree, keywords)
    if out is None:
        plural = {"sampling": "samplings", "position": "positions"}
        batch = {
            plural.get(name, name): value if name in ("rule", "logprobs_mode") else [value]
            for name, value in keywords.items()
            if value is not None
        }
        again = sv.verify_batch(logits, [tree], **batch)[0].error
        assert (type(again), str(again)) == (type(error), str(error))
        return
    vocab = logits.shape[1]
    assert all(0 <= token < vocab for token in out.tokens)
    assert [tree.tokens[node] for node in out.path] == out.tokens[: len(out.path)]
    assert out.path == tree.path(out.path[-1] + 1 if out.path else 0)
    assert out.finished == (out.tokens[-1] in keywords["stop_token_ids"])
    assert len(out.tokens) == len(out.path) + 1 or out.finished
    assert not any(token in keywords["stop_token_ids"] for token in out.tokens[:-1])
    assert len(out.logprobs) == len(out.tokens)
    rows = [0, *(node + 1 for node in out.path)][: len(out.tokens)]
    if keywords["rule"] != "lossy_typical":
        shown = sv.probabilities(
            logits, tree=tree, **{k: v for k, v in keywords.items() if k == "sampling" or k.endswith("_token_ids")}
        ) if all_rows_hold(logits) else None  # fmt: skip
        if shown is not None:
            assert all(shown[row, token] > 0 for row, token in zip(rows, out.tokens, strict=True))


def all_rows_hold(logits: Any) -> bool:
    x = torch.as_tensor(np.asarray(logits) if isinstance(logits, np.ndarray) else logits).float()
    return bool(torch.isfinite(x).all()) and float(x.abs().max()) < 1e6


def test_the_gil_is_released() -> None:
    ticks = 0
    running = True

    def tick() -> None:
        nonlocal ticks
        while running:
            ticks += 1
            time.sleep(0)

    rows, vocab = 64, 50_000
    logits = some_logits(rows, vocab)
    trees = [sv.DraftTree.chain([])] * rows
    params = sv.SamplingParams(seed=0, top_p=0.9)
    interval = sys.getswitchinterval()
    thread = threading.Thread(target=tick)
    # With this interval nobody is made to hand the GIL over: between two readings the other thread runs only if the call lets it.
    sys.setswitchinterval(1e3)
    try:
        thread.start()
        seen = []
        for _ in range(50):
            before = ticks
            sv.verify_batch(logits, trees, samplings=params)
            seen.append(ticks - before)
    finally:
        running = False
        sys.setswitchinterval(interval)
        thread.join()
    assert max(seen) > 0


def test_many_threads_get_their_own_answers() -> None:
    logits = some_logits(40, 3000)
    trees = [sv.DraftTree.chain([1, 2, 3])] * 10
    expected = [
        [out.tokens for out in sv.verify_batch(logits, trees, samplings=sv.SamplingParams(seed=s))] for s in range(8)
    ]
    wrong: list[int] = []

    def work(seed: int) -> None:
        for _ in range(20):
            outs = sv.verify_batch(logits, trees, samplings=sv.SamplingParams(seed=seed))
            if [out.tokens for out in outs] != expected[seed]:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert not any(thread.is_alive() for thread in threads)


CHILD = """
import os, signal, sys
import numpy as np
import specverify as sv
logits = np.random.default_rng(0).normal(size=(40, 3000)).astype(np.float32)
run = lambda: [o.tokens for o in sv.verify_batch(logits, [sv.DraftTree.chain([1])] * 20, samplings=sv.SamplingParams(seed=1))]
fresh = lambda: [o.seed for o in sv.verify_batch(logits, [sv.DraftTree.chain([])] * 40)]
before = run()
fresh()
read, write = os.pipe()
child = os.fork()
if child == 0:
    signal.alarm(30)
    os.write(write, repr(fresh()).encode())
    os._exit(0 if run() == before else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
theirs = eval(os.read(read, 100000))
sys.exit(2 if status else 3 if run() != before else 4 if set(theirs) & set(fresh()) else 0)
"""


def test_a_fork_after_a_batch_can_verify_batches() -> None:
    # In a process of its own: this one has torch's threads, of which a fork keeps none.
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CHILD], timeout=120, check=False, env=dict(os.environ))
    assert done.returncode == 0


def test_importing_takes_no_time_and_no_torch() -> None:
    code = (
        "import time, numpy; t = time.perf_counter(); import specverify; t = time.perf_counter() - t; "
        "import sys; assert 'torch' not in sys.modules and 'vllm' not in sys.modules; print(t)"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    assert min(float(run.stdout) for run in runs) < 0.05


def test_probabilities_are_the_law_of_target_only() -> None:
    x = some_logits(1, 6)
    params = sv.SamplingParams(temperature=0.7, top_k=4, min_p=0.05)
    p = sv.probabilities(x, sampling=params)[0]
    kept = np.argsort(-x[0])[:4]
    expected = np.zeros(6)
    expected[kept] = np.exp(x[0, kept].astype(np.float64) / 0.7)
    expected[expected < 0.05 * expected.max()] = 0
    assert p == pytest.approx(expected / expected.sum(), abs=1e-6)
    n = 200_000
    # One request a position: the race is keyed by seed and position, so one seed and many positions are independent draws.
    outs = sv.verify_batch(
        np.broadcast_to(x, (n, 6)).copy(), [sv.DraftTree.chain([])] * n,
        samplings=sv.SamplingParams(temperature=0.7, top_k=4, min_p=0.05, seed=1), positions=range(n),
    )  # fmt: skip
    counts = np.bincount([out.tokens[0] for out in outs], minlength=6)
    assert counts[p == 0].sum() == 0
    live = p > 0
    chi2 = ((counts - n * p)[live] ** 2 / (n * p)[live]).sum()
    # 99.9999 % point of chi-square with 3 degrees of freedom: 30.66. A token off by 1 % of probability is off by 400 in it.
    assert live.sum() == 4
    assert chi2 < 30.66


def test_coupled_children_hold_the_targets_token_first_when_models_agree() -> None:
    for seed in range(50):
        x = some_logits(1, 300, seed)
        params = sv.SamplingParams(temperature=0.9, seed=seed, top_p=0.95)
        children = sv.coupled_children(x[0], 3, sampling=params, position=11)
        assert children.tokens[0] == sv.verify(x, sv.DraftTree.chain([]), sampling=params, position=11).tokens[0]
        assert children.scores == sorted(children.scores, reverse=True)
        assert len(set(children.tokens)) == len(children) == 3


@pytest.mark.parametrize(
    ("keywords", "named"),
    [
        ({"k": -1}, "k is -1"),
        ({"k": 1.5}, "k is 1.5"),
        ({"sampling": None}, "sampling is None"),
        ({"sampling": sv.SamplingParams()}, "sampling.seed is None"),
        ({"position": -1}, "position is -1"),
        ({"path": [-1]}, r"path\[0\] is -1"),
        ({"target_ids": [0, 1]}, "target_ids"),
        ({"target_ids": [0] * V}, "target_ids"),
        ({"logits_row": np.zeros((2, V), np.float32)}, "logits_row"),
        ({"logits_row": np.zeros(V)}, "logits_row"),
        ({"logits_row": np.full(V, np.nan, np.float32)}, "logits"),
    ],
)
def test_coupled_children_name_what_is_wrong(keywords: Any, named: str) -> None:
    arguments = {"logits_row": X[0], "k": 2, "sampling": sv.SamplingParams(seed=1), "position": 0} | keywords
    row, k = arguments.pop("logits_row"), arguments.pop("k")
    with pytest.raises(sv.SpecVerifyError, match=named):
        sv.coupled_children(row, k, **arguments)


def test_case_17_a_smaller_draft_vocabulary_races_with_the_targets_ids() -> None:
    target_ids = [7, 0, 2, 5, 1, 3]
    for seed in range(30):
        x = some_logits(1, 8, seed)
        params = sv.SamplingParams(seed=seed)
        spread = np.full(8, -np.inf, np.float32)
        spread[target_ids] = x[0, :6]
        mapped = sv.coupled_children(x[0, :6], 3, sampling=params, position=2, target_ids=target_ids)
        assert mapped == sv.coupled_children(spread, 3, sampling=params, position=2)


@pytest.mark.parametrize("keywords", [{"step": -1}, {"step": 2**32}, {"index": -1}, {"stream": "race"}, {"stream": 4}])
def test_coins_name_what_is_wrong(keywords: Any) -> None:
    arguments = {"step": 0, "stream": "accept", "index": 0} | keywords
    with pytest.raises(sv.ArgumentError, match=next(iter(keywords))):
        sv.Coins(7).uniform(arguments.pop("step"), **arguments)


def test_coins_are_a_function_of_their_key_and_uniform() -> None:
    coins = sv.Coins(seed=2**64 - 1)
    assert pickle.loads(pickle.dumps(coins)) == coins
    draws = np.array([coins.uniform(step, stream="accept", index=0) for step in range(20_000)])
    assert ((draws > 0) & (draws < 1)).all()
    assert len(np.unique(draws)) == 20_000
    # Kolmogorov-Smirnov, false alarm below 1e-6: sqrt(ln(2e6) / 2 / n) = 0.019. A shift of the mean by 0.02 would be seen.
    empirical = np.arange(1, 20_001) / 20_000
    assert np.abs(np.sort(draws) - empirical).max() < 0.0191
    assert coins.uniform(1, stream="accept", index=0) != coins.uniform(1, stream="residual", index=0)
    for seed in (-1, 2**64, 1.5):
        with pytest.raises(sv.ArgumentError, match="seed"):
            sv.Coins(seed)  # type: ignore[arg-type]
    exponential = np.array([coins.exponential(position, 5) for position in range(20_000)])
    # Mean of n Exp(1): 1 with standard error 0.0071; 5 of them are exceeded with probability 6e-7.
    assert abs(exponential.mean() - 1) < 5 * 0.0071
    with pytest.raises(sv.ArgumentError, match="request_id"):
        sv.derive_seed(0, 7)  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["token", "block", "recursive", "traversal"])
def test_draft_probs_too_small_to_divide_by_are_no_mass(rule: Any) -> None:
    """The reciprocal of a subnormal sum is infinite, and every draft would be rejected without a word."""
    tree = sv.DraftTree.chain([1], draws="independent")
    with pytest.raises(sv.RowError, match=r"draft_probs row 0 has no usable mass; expected finite probabilities"):
        sv.verify(np.zeros((2, 4), np.float32), tree, rule=rule, draft_probs=np.full((2, 4), 1e-310))
    params = sv.SamplingParams(seed=1)
    small, plain = (
        sv.verify(np.zeros((2, 4), np.float32), tree, rule=rule, draft_probs=np.full((2, 4), q), sampling=params)
        for q in (1e-300, 0.25)
    )
    assert small.tokens == plain.tokens
    assert small.path == [0]


def test_lazily_negated_tensors_are_not_read_with_the_wrong_sign() -> None:
    """torch's DLPack export ignores the mark."""
    negated = torch._neg_view(torch.from_numpy(some_logits()))
    with pytest.raises(sv.ArgumentError, match="resolve_neg"):
        emitted(negated)
    assert emitted(negated.resolve_neg()) == emitted(-some_logits())


def test_draft_probs_of_another_shape_say_which_fits() -> None:
    logits, chain = some_logits(3), sv.DraftTree.chain([1, 2], draws="independent")
    siblings = sv.DraftTree([1, 2], [-1, -1], draws="independent")
    for probs in (np.ones(V), np.ones((4, V)), np.ones((1, V))):
        with pytest.raises(
            sv.ShapeError, match=rf"has shape \[.*\]; expected \[n, V\] or \[n \+ 1, V\].*n = 2, V = {V}"
        ):
            sv.verify(logits, chain, draft_probs=probs)
        with pytest.raises(sv.ShapeError, match=rf"expected \[n \+ 1, V\] for a tree of n = 2, V = {V}"):
            sv.verify(logits, siblings, draft_probs=probs)


@pytest.mark.parametrize("rule", ["recursive", "traversal", "multipath"])
def test_a_rule_that_misses_draft_probs_is_named(rule: Any) -> None:
    tree = sv.DraftTree.from_paths([[1, 2], [3, 4]])
    with pytest.raises(sv.ArgumentError, match=rf'draft_probs is None; expected \[5, V\] probabilities.*rule "{rule}"'):
        sv.verify(some_logits(5), tree, rule=rule)
    nothing = sv.DraftTree([], [], draws="independent")
    if rule != "multipath":
        assert len(sv.verify(some_logits(1), nothing, rule=rule).tokens) == 1


def test_rows_of_q_are_divided_by_their_sum() -> None:
    """As the docstring says: scaling a row of q changes nothing."""
    logits, chain = some_logits(2), sv.DraftTree.chain([1], draws="independent")
    q = np.full((1, V), 1 / V)
    for seed in range(50):
        sampling = sv.SamplingParams(seed=seed)
        plain, scaled = (sv.verify(logits, chain, draft_probs=probs, sampling=sampling) for probs in (q, q * 8))
        assert plain.tokens == scaled.tokens


OUTCOME_FIELDS = ("tokens", "path", "logprobs", "ranks", "top_logprobs", "finished", "seed", "rule")


@pytest.mark.parametrize("rule", ["auto", "greedy", "lossy_typical"])
@pytest.mark.parametrize("logprobs", [None, 0, 3, -1])
def test_outcomes_pickle(rule: Any, logprobs: int | None) -> None:
    sampling = sv.SamplingParams(logprobs=logprobs, top_k=2, seed=3)
    logits = np.concatenate([some_logits(ROWS)] * 2)
    logits[ROWS] = np.nan
    alone = sv.verify(logits[:ROWS], TREE, rule=rule, sampling=sampling, stop_token_ids=range(V))
    served, failed = sv.verify_batch(logits, [TREE, TREE], rule=rule, samplings=sampling)
    copies: list[Any] = [lambda outcome: pickle.loads(pickle.dumps(outcome)), copy.deepcopy]
    for copied in copies:
        for outcome in (alone, served, failed):
            again = copied(outcome)
            assert repr(again) == repr(outcome)
            for name in OUTCOME_FIELDS:
                assert getattr(again, name) == getattr(outcome, name)
        again = copied(failed)
        assert type(again.error) is sv.RowError
        assert (str(again.error), again.error.row) == (str(failed.error), 0)


def test_a_position_left_out_repeats_the_noise() -> None:
    """The trap that the docstring of `verify` warns of, and that its default avoids where tokens are given."""
    logits, nothing, sampling = np.zeros((1, V), np.float32), sv.DraftTree.chain([]), sv.SamplingParams(seed=3)
    trapped: list[int] = []
    counted: list[int] = []
    true: list[int] = []
    for position in range(20):
        trapped += sv.verify(logits, nothing, sampling=sampling).tokens
        counted += sv.verify(logits, nothing, sampling=sampling, output_token_ids=true).tokens
        true += sv.verify(logits, nothing, sampling=sampling, position=position).tokens
    assert len(set(trapped)) == 1
    assert counted == true
    assert len(set(true)) > 2
