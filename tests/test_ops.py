"""The operators in host memory: what they compute, what they refuse, and that torch may trace them."""

import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import specverify as sv

torch = pytest.importorskip("torch", reason="the operators are torch's")
ops = pytest.importorskip("specverify.ops")


def ints(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32)


def random_batch(rng: np.random.Generator, requests: int) -> tuple[list[sv.DraftTree], list[np.ndarray]]:
    """Trees with distinct siblings, and logits whose greatest entry often is a child's token."""
    trees, logits = [], []
    for _ in range(requests):
        parents: list[int] = []
        tokens: list[int] = []
        for node in range(int(rng.integers(0, 9))):
            parent = int(rng.integers(-1, node))
            free = set(range(12)) - {t for t, p in zip(tokens, parents, strict=True) if p == parent}
            parents.append(parent)
            tokens.append(int(rng.choice(sorted(free))))
        trees.append(sv.DraftTree(tokens, parents))
        rows = rng.standard_normal((len(tokens) + 1, 12)).astype(np.float32)
        for row in range(len(tokens) + 1):
            if children := trees[-1].children(row):
                rows[row, tokens[int(rng.choice(children))]] += 4
        logits.append(rows)
    return trees, logits


def test_the_walk_is_greedy_verification() -> None:
    """On 300 random trees path and tokens are those of `verify` at T=0."""
    trees, logits = random_batch(np.random.default_rng(1), 300)
    cu_nodes = np.cumsum([0, *map(len, trees)])
    flat = [ints(*(one for tree in trees for one in getattr(tree, name))) for name in ("tokens", "parents")]
    target = torch.from_numpy(np.concatenate(logits).argmax(1).astype(np.int32))
    walk = ops.tree_walk(ints(*cu_nodes), *flat, target, max_path=9)
    lengths = set()
    for b, (tree, rows) in enumerate(zip(trees, logits, strict=True)):
        outcome = sv.verify(rows, tree, sampling=sv.SamplingParams(temperature=0), position=1)
        accepted, count = int(walk.accepted[b]), int(walk.counts[b])
        assert walk.path[b, :accepted].tolist() == outcome.path
        assert walk.emitted[b, :count].tolist() == outcome.tokens
        assert (walk.path[b, accepted:] == -1).all()
        assert walk.last_token[b] == outcome.tokens[-1]
        lengths.add(accepted)
    assert len(lengths) >= 4, lengths


@pytest.mark.parametrize("layout", ["apart", "vllm"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3fnuz"])
def test_compaction_moves_what_the_plan_says(layout: str, dtype: str) -> None:
    """Every pool and head, by path and by the crate's plan; nothing else changes."""
    torch.manual_seed(0)
    page_size, pages = 4, [[5, 1, 7], [0, 6, 2]]
    both = torch.randn(2, 8, page_size, 3, 6).to(getattr(torch, dtype))
    both = both if layout == "apart" else both.transpose(0, 1).contiguous().transpose(0, 1)
    before = both.view(torch.uint8).clone()
    trees = [sv.DraftTree([1, 2, 3, 4], [-1, -1, 1, 2]), sv.DraftTree([1, 2, 3], [-1, 0, 0])]
    paths, bases = [[1, 2, 3], [0, 2]], [5, 2]
    plan = sv.compaction_plan(trees, paths, bases, pages=pages, page_size=page_size)
    expected = before.clone()
    for source, destination in plan.moves.tolist():
        place = expected[:, destination // page_size, destination % page_size]
        place.copy_(expected[:, source // page_size, source % page_size].clone())
    assert not torch.equal(expected, before)

    pools = ops.KvPools([both[0], both[1]])
    path = torch.tensor([[1, 2, 3], [0, 2, -1]], dtype=torch.int32)
    pools.compact(path, ints(3, 2), context_lens=ints(*bases), block_table=torch.tensor(pages, dtype=torch.int32))
    assert torch.equal(both.view(torch.uint8), expected)

    both.view(torch.uint8).copy_(before)
    moves = torch.from_numpy(plan.moves)
    pools.move(moves[:, 0], moves[:, 1])
    assert torch.equal(both.view(torch.uint8), expected)


def attention_case(dtype: Any) -> tuple[dict[str, Any], Any]:
    """Two requests, a tree and a chain of one, and their float64 reference."""
    torch.manual_seed(3)
    heads, kv_heads, dim, page_size, context = 6, 2, 32, 16, [37, 0]
    cu_rows = [0, 5, 7]
    bits = torch.tensor([0, 1, 2, 5, 10, 0, 1]).view(-1, 1)
    q = torch.randn(7, heads, dim).to(dtype)
    both = torch.randn(6, 2, page_size, kv_heads, dim).to(dtype)
    table = torch.tensor([[4, 0, 2], [5, 3, 3]], dtype=torch.int32)
    expected = torch.zeros(7, heads, dim, dtype=torch.float64)
    for b, (first, end) in enumerate(pairwise(cu_rows)):
        keys = torch.arange(context[b] + end - first)
        k, v = (both[table[b, keys // page_size], i, keys % page_size].double() for i in (0, 1))
        node = keys - context[b] - 1
        for row in range(first, end):
            seen = (node < 0) | ((bits[row, 0] >> node.clamp(min=0)) & 1 == 1)
            for head in range(heads):
                scores = (k[:, head // 3] @ q[row, head].double() * dim**-0.5).masked_fill(~seen, -torch.inf)
                expected[row, head] = scores.softmax(0) @ v[:, head // 3]
    arguments = {
        "q": q,
        "k": both[:, 0],
        "v": both[:, 1],
        "block_table": table,
        "cu_rows": ints(*cu_rows),
        "context_lens": ints(*context),
        "ancestors": bits,
        "scale": dim**-0.5,
    }
    return arguments, expected


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.02)])
def test_attention_over_a_paged_cache(dtype: str, tolerance: float) -> None:
    arguments, expected = attention_case(getattr(torch, dtype))
    out = ops.tree_attention(**arguments)
    assert out.dtype == arguments["q"].dtype
    torch.testing.assert_close(out.double(), expected, atol=tolerance, rtol=0)
    # Bits may come as numpy's uint64 too, and a chain needs none.
    same = ops.tree_attention(**arguments | {"ancestors": arguments["ancestors"].view(torch.uint64)})
    assert torch.equal(out, same)
    chain = arguments | {"ancestors": torch.tensor([0, 1, 3, 7, 15, 0, 1]).view(-1, 1)}
    assert torch.equal(ops.tree_attention(**chain), ops.tree_attention(**chain | {"ancestors": None}))


def test_mla_is_attention_with_one_head_of_keys() -> None:
    """The values are the first 512 elements of the keys; a chain of two after 20 tokens, against float64."""
    torch.manual_seed(9)
    q, kv, table = torch.randn(2, 16, 576), torch.randn(3, 16, 576), ints(2, 0).view(1, 2)
    out = ops.mla_tree_attention(q, kv, table, ints(0, 2), ints(20), scale=0.05)
    keys = torch.arange(22)
    k = kv[table[0, keys // 16], keys % 16].double()
    for row in range(2):
        weights = (q[row].double() @ k[: 21 + row].T * 0.05).softmax(-1)
        torch.testing.assert_close(out[row].double(), weights @ k[: 21 + row, :512], atol=1e-5, rtol=0)
    with pytest.raises(sv.ShapeError, match=r"q has shape \[2, 16, 512\]; expected \[rows, heads, 576\]"):
        ops.mla_tree_attention(q[..., :512], kv, table, ints(0, 2), ints(20), scale=0.05)
    torch.library.opcheck(
        torch.ops.specverify.mla_tree_attention.default, (q, kv, table, ints(0, 2), ints(20), None, None, 0.05, 2)
    )


def test_torch_may_trace_the_operators() -> None:
    """Schemas, fake implementations and mutation are as declared."""
    arguments, _ = attention_case(torch.float32)
    tensors = [arguments[name] for name in ("q", "k", "v", "block_table", "cu_rows", "context_lens", "ancestors")]
    names = torch.ops.specverify
    torch.library.opcheck(names.tree_attention.default, (*tensors, None, None, 0.2, 0, 0.0, 5))
    walk = (ints(0, 2), ints(5, 6), ints(-1, 0), ints(5, 1, 2), None, None, None, 3)
    torch.library.opcheck(names.tree_walk.default, walk)
    race, _ = race_case(np.random.default_rng(8), torch.float32)
    offsets, ids, values = race.pop("bias")
    *most, allowed = race.values()
    torch.library.opcheck(names.race.default, (*most, offsets, ids, values, allowed, 2, True))
    likely = (*most, offsets, ids, values, allowed, 2, False, ints(*range(9)), ints(*range(8)))
    torch.library.opcheck(names.logprobs.default, likely)
    pools = [torch.randn(2, 4, 1, 2) for _ in range(2)]
    bases = torch.zeros(2, dtype=torch.int64)
    table = ints(0, 1).view(1, 2)
    torch.library.opcheck(names.kv_compact.default, (pools, bases, ints(1).view(1, 1), ints(1), ints(0), table))
    moves = torch.tensor([3]), torch.tensor([1])
    torch.library.opcheck(names.kv_move.default, (pools, bases, ints(0, 1), *moves))


def race_case(rng: np.random.Generator, dtype: Any) -> tuple[dict[str, Any], list[sv.SamplingParams]]:
    """Rows of four requests, of which each has other parameters, and the same as `SamplingParams`."""
    vocab, count = 1000, 4
    rows = [0, 0, 1, 2, 3, 3, -1, 1]
    logits = torch.from_numpy(rng.standard_normal((len(rows), vocab)).astype(np.float32) * 3).to(dtype)
    seeds = rng.integers(0, 2**63, count)
    temperatures, top_k = [0.8, 0.0, 1.3, 0.6], [0, 5, 20, -1]
    top_p, min_p = [1.0, 1.0, 0.9, 0.7], [0.05, 0.0, 0.0, 0.0]
    biased: list[dict[int, float]] = [{3: 2.0}, {}, {7: -4.5, 9: 3.0}, {}]
    mask = np.zeros((count, 32 * 32), bool)
    mask[:, :vocab] = rng.random((count, vocab)) < 0.5
    words = np.packbits(mask, axis=1, bitorder="little").view(np.int32)
    params = [
        sv.SamplingParams(
            temperature=temperatures[b],
            seed=int(seeds[b]),
            top_k=top_k[b],
            top_p=top_p[b],
            min_p=min_p[b],
            logit_bias=biased[b] or None,
            allowed_token_ids=np.flatnonzero(mask[b]).tolist(),
            logprobs=4,
        )
        for b in range(count)
    ]
    arguments = {
        "logits": logits,
        "requests": ints(*rows),
        "positions": ints(*rng.integers(0, 1000, len(rows))),
        "seeds": torch.from_numpy(seeds),
        "temperatures": torch.tensor(temperatures),
        "top_k": ints(*top_k),
        "top_p": torch.tensor(top_p),
        "min_p": torch.tensor(min_p),
        "bias": (
            ints(*np.cumsum([0, *map(len, biased)])),
            ints(*(one for bias in biased for one in bias)),
            torch.tensor([value for bias in biased for value in bias.values()]),
        ),
        "allowed": torch.from_numpy(words),
    }
    return arguments, params


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_target_tokens_are_those_of_verify(dtype: str) -> None:
    """For every row, all parameters at once: the token of `verify`, and the children of `coupled_children`."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        arguments, params = race_case(rng, getattr(torch, dtype))
        found = ops.target_tokens(**arguments)
        logits = arguments.pop("logits")
        children = ops.coupled_children(logits, 3, **arguments)
        for row, request in enumerate(arguments["requests"].tolist()):
            if request < 0:
                assert (found.tokens[row], found.status[row], children.status[row]) == (-1, 4, 4)
                continue
            position = int(arguments["positions"][row])
            one = logits[row : row + 1]
            outcome = sv.verify(one, sv.DraftTree([], []), sampling=params[request], position=position)
            assert (found.tokens[row], found.status[row]) == (outcome.tokens[0], 0)
            expected = sv.coupled_children(one[0], 3, sampling=params[request], position=position)
            assert children.tokens[row].tolist() == expected.tokens + [-1] * (3 - len(expected.tokens))
            assert children.scores[row, : len(expected.scores)].tolist() == expected.scores


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs"])
def test_target_logprobs_are_those_of_verify(mode: str) -> None:
    """Log-probabilities of `verify`, and for children the law that `probabilities` gives."""
    rng = np.random.default_rng(8)
    for _ in range(5):
        arguments, params = race_case(rng, torch.float32)
        logits, rows = arguments["logits"], arguments["logits"].shape[0]
        offsets = np.cumsum([0, *rng.integers(0, 4, rows)])
        ids = ints(*rng.integers(0, logits.shape[1], offsets[-1]))
        found = ops.target_logprobs(**arguments, top=4, logprobs_mode=mode, children=(ints(*offsets), ids))
        plain = ops.target_tokens(**arguments)
        assert torch.equal(found.tokens, plain.tokens)
        assert torch.equal(found.status, plain.status)
        for row, request in enumerate(arguments["requests"].tolist()):
            mine = slice(offsets[row], offsets[row + 1])
            if request < 0:
                assert found.logprobs[row] == -torch.inf
                assert (found.child_probs[mine] == 0).all()
                assert (found.top_ids[row] == -1).all()
                assert (found.top_logprobs[row] == -torch.inf).all()
                continue
            one, position = logits[row : row + 1], int(arguments["positions"][row])
            leaf = sv.DraftTree([], [])
            outcome = sv.verify(one, leaf, sampling=params[request], position=position, logprobs_mode=mode)
            assert found.logprobs[row].item() == outcome.logprobs[0]
            expected = list(outcome.top_logprobs[0])
            assert list(zip(found.top_ids[row].tolist(), found.top_logprobs[row].tolist(), strict=True)) == (
                expected + [(-1, -float("inf"))] * (4 - len(expected))
            )
            law = sv.probabilities(one, sampling=params[request])
            assert torch.allclose(
                found.child_probs[mine], torch.from_numpy(law[0])[ids[mine].long()].float(), rtol=1e-6
            )
    nothing = ops.target_logprobs(**arguments)
    assert nothing.top_ids.shape == (rows, 0)
    assert nothing.child_probs.shape == (0,)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"top": -1}, sv.ArgumentError, "top is -1; expected 0 or more"),
        ({"logprobs_mode": "raw"}, sv.ArgumentError, "logprobs_mode is 'raw'; expected 'raw_logprobs' or"),
        ({"children": (ints(0, 1), ints(1))}, sv.ShapeError, r"children\[0\] has shape \[2\]; expected \[9\]"),
        ({"children": (ints(*[0] * 8, 1), ints(5000))}, sv.ArgumentError, r"child_ids\[0\] is 5000"),
        ({"children": (ints(*[0] * 8, 2), ints(5))}, sv.ArgumentError, "child_offsets"),
    ],
)
def test_target_logprobs_refuse_by_name(change: dict[str, Any], error: type[Exception], words: str) -> None:
    arguments, _ = race_case(np.random.default_rng(7), torch.float32)
    with pytest.raises(error, match=words):
        ops.target_logprobs(**arguments | change)


def test_rows_that_hold_no_distribution_have_a_status() -> None:
    arguments, _ = race_case(np.random.default_rng(6), torch.float32)
    arguments["logits"][0, 0] = torch.nan
    arguments["logits"][2, 0] = torch.inf
    arguments["allowed"][2] = 0
    found = ops.target_tokens(**arguments)
    assert found.status.tolist() == [1, 0, 2, 3, 0, 0, 4, 0]
    assert (found.tokens[found.status != 0] == -1).all()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"logits": torch.zeros(8, 1000, dtype=torch.float64)}, sv.DtypeError, "logits has dtype float64"),
        ({"logits": torch.zeros(1000, 8).T}, sv.ShapeError, r"logits .* contiguous rows"),
        ({"positions": ints(1)}, sv.ShapeError, r"positions has shape \[1\]; expected \[8\]"),
        ({"seeds": ints(1, 2, 3, 4)}, sv.DtypeError, "seeds has dtype int32; expected int64"),
        ({"requests": ints(0, 1, 2, 3, 4, 0, 0, 0)}, sv.ArgumentError, r"requests\[4\] is 4"),
        ({"temperatures": torch.tensor([0.5, -1, 1, 1])}, sv.ArgumentError, "temperature is -1"),
        ({"top_p": torch.tensor([0.5, 0, 1, 1])}, sv.ArgumentError, "top_p is 0"),
        ({"allowed": torch.zeros(4, 3, dtype=torch.int32)}, sv.ShapeError, "allowed has shape"),
        ({"bias": (ints(0, 1, 1, 1, 1), ints(1000), torch.ones(1))}, sv.ArgumentError, r"bias_ids\[0\] is 1000"),
    ],
)
def test_a_race_refuses_by_name(change: dict[str, Any], error: type[Exception], words: str) -> None:
    arguments, _ = race_case(np.random.default_rng(7), torch.float32)
    with pytest.raises(error, match=words):
        ops.target_tokens(**arguments | change)


WALK = {
    "cu_nodes": ints(0, 2),
    "tokens": ints(5, 6),
    "parents": ints(-1, 0),
    "target_tokens": ints(5, 1, 2),
    "max_path": 3,
}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"tokens": torch.tensor([5, 6])}, sv.DtypeError, "tokens has dtype int64; expected int32"),
        ({"target_tokens": ints(5, 1)}, sv.ShapeError, r"target_tokens has shape \[2\]; expected \[3\]"),
        ({"parents": ints(-1, 9, 0, 9)[::2]}, sv.ShapeError, "parents .* contiguous"),
        ({"cu_nodes": ints(0, 1)}, sv.ArgumentError, r"cu_nodes\[1\] is 1; expected 2"),
        ({"cu_nodes": ints()}, sv.ShapeError, "cu_nodes"),
        ({"max_path": -1}, sv.ArgumentError, "max_path is -1; expected 0 or more"),
        ({"stop_ids": ints(1)}, sv.ArgumentError, "stop_offsets and stop_ids"),
        ({"tokens": ints(5, 6).to("meta")}, sv.ArgumentError, "tokens is on meta"),
    ],
)
def test_a_walk_refuses_by_name(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ops.tree_walk(**WALK | change)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"q": torch.zeros(7, 6, 32, dtype=torch.float64)}, sv.DtypeError, "q has dtype float64"),
        ({"q": torch.zeros(7, 5, 32)}, sv.ArgumentError, "q has 5 heads; expected a multiple of the 2 KV heads"),
        ({"v": torch.zeros(6, 16, 2, 16)}, sv.ShapeError, "v has shape"),
        ({"block_table": ints(0, 1)}, sv.ShapeError, "block_table has shape"),
        ({"block_table": torch.full((2, 3), 6, dtype=torch.int32)}, sv.SpecVerifyError, "block_table"),
        ({"context_lens": ints(37, 99)}, sv.SpecVerifyError, "context_lens|block_table"),
        ({"cu_rows": ints(0, 5, 9)}, sv.SpecVerifyError, "cu_rows"),
        ({"ancestors": torch.zeros(6, 1, dtype=torch.int64)}, sv.ShapeError, "ancestors has shape"),
        ({"window": -1}, sv.ArgumentError, "window is -1"),
        ({"k_scale": torch.ones(1)}, sv.ArgumentError, "scale"),
    ],
)
def test_attention_refuses_by_name(change: dict[str, Any], error: type[Exception], words: str) -> None:
    arguments, _ = attention_case(torch.float32)
    with pytest.raises(error, match=words):
        ops.tree_attention(**arguments | change)


def test_pools_refuse_by_name() -> None:
    pool = torch.zeros(2, 4, 1, 2)
    for pools, words in [
        ([], "pools is empty"),
        ([pool[0]], r"pools\[0\] has shape"),
        ([pool, torch.zeros(2, 4, 1, 3)], r"pools\[1\] has shape"),
        ([pool, pool.to(torch.float16)], r"pools\[1\] has dtype float16"),
        ([pool.transpose(2, 3)], r"pools\[0\] has strides"),
    ]:
        with pytest.raises(sv.SpecVerifyError, match=words):
            ops.KvPools(pools)
    ready = ops.KvPools([pool])
    with pytest.raises(sv.ArgumentError, match=r"path\[0\]\[0\] is -1"):
        ready.compact(ints(-1).view(1, 1), ints(1), context_lens=ints(0), block_table=ints(0, 1).view(1, 2))
    with pytest.raises(sv.ArgumentError, match="slot 8"):
        ready.move(torch.tensor([8]), torch.tensor([0]))


def test_without_a_gpu_the_answer_is_an_error_of_the_family() -> None:
    if torch.version.hip is None:
        with pytest.raises(sv.HipError, match=r"no HIP runtime|no GPU"):
            ops.hip_device()


def test_without_torch_the_import_says_so() -> None:
    code = "import sys; sys.modules['torch'] = None; import specverify; import specverify.ops"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "specverify.ops needs torch" in done.stderr
