"""`_core.tree_attention` on arrays and tensors in host memory; what it computes, the crate's own tests prove case by case."""

from typing import Any

import numpy as np
import pytest

import specverify as sv
from specverify import _core

torch = pytest.importorskip("torch")

HEADS, KV_HEADS, DIM, PAGE = 8, 2, 64, 16
TREES = [sv.DraftTree([1, 2, 3, 4], [-1, -1, 0, 2]), sv.DraftTree.chain([5, 6, 7])]
CONTEXTS = [37, 150]


class Problem:
    """Two requests; pages in random order, the rest of the cache NaN."""

    def __init__(self, dtype: Any, layout: str = "tokens first") -> None:
        generator = torch.Generator().manual_seed(0)

        def draw(*shape: int) -> Any:
            return torch.randn(*shape, generator=generator).to(dtype)

        rows = [len(tree) + 1 for tree in TREES]
        keys = [context + n for context, n in zip(CONTEXTS, rows, strict=True)]
        self.q = draw(sum(rows), HEADS, DIM)
        self.keys = [draw(n, KV_HEADS, DIM) for n in keys]
        self.values = [draw(n, KV_HEADS, DIM) for n in keys]
        counts = [-(-n // PAGE) for n in keys]
        order = torch.randperm(sum(counts) + 2, generator=generator)
        # One allocation for K and V of a page, as vLLM has it on a CPU: neither is contiguous.
        both = torch.full((len(order), 2, PAGE, KV_HEADS, DIM), float("nan"), dtype=dtype)
        if layout == "heads first":
            both = both.transpose(2, 3).contiguous().transpose(2, 3)
        self.k, self.v = both[:, 0], both[:, 1]
        self.table = np.full((2, max(counts) + 1), -1, np.int32)
        first = 0
        for b, count in enumerate(counts):
            pages = order[first : first + count]
            self.table[b, :count] = pages
            first += count
            for i in range(keys[b]):
                self.k[pages[i // PAGE], i % PAGE] = self.keys[b][i]
                self.v[pages[i // PAGE], i % PAGE] = self.values[b][i]
        self.cu_rows = np.cumsum([0, *rows], dtype=np.int32)
        self.contexts = np.array(CONTEXTS, np.int32)
        self.ancestors = np.concatenate([tree.ancestor_bits for tree in TREES])

    def expected(self) -> Any:
        """Attention with a dense mask in float64."""
        outs = []
        for b, tree in enumerate(TREES):
            n = len(tree) + 1
            mask = torch.zeros(n, CONTEXTS[b] + n, dtype=torch.bool)
            mask[:, : CONTEXTS[b] + 1] = True
            for row in range(1, n):
                for node in tree.path(row):
                    mask[row, CONTEXTS[b] + 1 + node] = True
            q = self.q[self.cu_rows[b] : self.cu_rows[b + 1]].double().transpose(0, 1)
            k, v = (x[b].double().repeat_interleave(HEADS // KV_HEADS, 1) for x in (self.keys, self.values))
            out = torch.nn.functional.scaled_dot_product_attention(
                q[None], k.transpose(0, 1)[None], v.transpose(0, 1)[None], attn_mask=mask
            )
            outs.append(out[0].transpose(0, 1))
        return torch.cat(outs)

    def run(self, **change: Any) -> Any:
        arguments = {
            "q": self.q,
            "k": self.k,
            "v": self.v,
            "block_table": self.table,
            "cu_rows": self.cu_rows,
            "context_lens": self.contexts,
            "ancestors": self.ancestors,
            "scale": DIM**-0.5,
        } | change
        return _core.tree_attention(**arguments)


@pytest.mark.parametrize("layout", ["tokens first", "heads first"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_tensors(dtype: Any, layout: str) -> None:
    problem = Problem(dtype, layout)
    out = problem.run()
    assert out.dtype == dtype
    bound = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}[dtype]
    assert (out.double() - problem.expected()).abs().max() < bound


def test_arrays_and_tensors_give_the_same() -> None:
    problem = Problem(torch.float32)
    tensors = problem.run()
    arrays = problem.run(q=problem.q.numpy(), k=problem.k.numpy(), v=problem.v.numpy())
    assert isinstance(arrays, np.ndarray)
    assert np.array_equal(arrays, tensors.numpy())
    integers = {
        name: torch.from_numpy(getattr(problem, attribute))
        for name, attribute in (("block_table", "table"), ("cu_rows", "cu_rows"), ("context_lens", "contexts"))
    }
    bits = torch.from_numpy(problem.ancestors.view(np.int64)).view(torch.uint64)
    assert torch.equal(problem.run(**integers, ancestors=bits), tensors)


def test_writes_where_it_is_told_and_leaves_padding_alone() -> None:
    problem = Problem(torch.float32)
    rows = problem.q.shape[0]
    wide = torch.full((rows + 2, 2, HEADS, DIM), 7.0)
    padded = torch.cat([problem.q, torch.full((2, HEADS, DIM), float("nan"))])
    out = wide[:, 1]
    assert problem.run(q=padded, out=out) is out
    assert torch.equal(wide[:rows, 1], problem.run())
    assert (wide[:, 0] == 7).all()
    assert (wide[rows:] == 7).all()


def test_a_chain_needs_no_bits() -> None:
    problem = Problem(torch.float32)
    chains = [sv.DraftTree.chain(tree.tokens) for tree in TREES]
    bits = np.concatenate([chain.ancestor_bits for chain in chains])
    assert torch.equal(problem.run(ancestors=None), problem.run(ancestors=bits))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": [1.0]}, sv.ArgumentError, "q is of type list; expected a numpy array"),
        ({"q": np.zeros((9, 8, 64))}, sv.DtypeError, "q has dtype dtype('float64'); expected float32"),
        ({"q": np.zeros((9, 64), np.float32)}, sv.ShapeError, "q has shape [9, 64]; expected [rows, heads, dim]"),
        ({"q": np.zeros((9, 8, 128), np.float32)[:, :, ::2]}, sv.ShapeError, "q has shape [9, 8, 64] with strides"),
        ({"q": np.zeros((9, 7, 64), np.float32)}, sv.ArgumentError, "heads is 7; expected a multiple of kv_heads"),
        ({"v": np.zeros((2, 16, 2, 64), np.float32)}, sv.ShapeError, "v has shape [2, 16, 2, 64]; expected"),
        ({"block_table": np.zeros((2, 11), np.int64)}, sv.DtypeError, "block_table has dtype dtype('int64')"),
        ({"block_table": np.full((2, 11), 99, np.int32)}, sv.ArgumentError, "block_table[0][0] is 99; expected a page"),
        (
            {"block_table": np.zeros((1, 11), np.int32)},
            sv.ShapeError,
            "block_table has shape [1, 11]; expected [2, 11]",
        ),
        ({"block_table": np.zeros((2, 2), np.int32)}, sv.ShapeError, "block_table has"),
        ({"cu_rows": np.zeros(2, np.int32)}, sv.ShapeError, "cu_rows has length 2; expected 3"),
        ({"context_lens": "12"}, sv.DtypeError, "context_lens has dtype"),
        ({"ancestors": np.ones((9, 1), np.uint64)}, sv.ArgumentError, "ancestors[0] is 0x1; expected 0"),
        ({"scale": "1"}, sv.ArgumentError, "scale is '1'; expected a number"),
        ({"window": -1}, sv.ArgumentError, "window is -1; expected an int >= 0"),
        ({"softcap": -1.0}, sv.ArgumentError, "softcap is -1; expected a finite number"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_value(change: Any, error: Any, message: str) -> None:
    problem = Problem(torch.float32)
    with pytest.raises(error) as raised:
        problem.run(**change)
    assert str(raised.value).startswith(message), raised.value


def test_results_that_cannot_be_written_are_refused() -> None:
    problem = Problem(torch.float32)
    with pytest.raises(sv.ArgumentError, match="out is an array that shares memory with q; expected memory of its own"):
        problem.run(out=problem.q)
    frozen = np.zeros(problem.q.shape, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(sv.ArgumentError, match="out is a read-only array"):
        problem.run(out=frozen)
    with pytest.raises(sv.ShapeError, match="out has shape"):
        problem.run(out=np.zeros((1, HEADS, DIM), np.float32))
    overlapping = torch.zeros(problem.q.shape[0] + 1, HEADS * DIM).as_strided(problem.q.shape, (8, DIM, 1))
    with pytest.raises(sv.ArgumentError, match=r"out\.strides is"):
        problem.run(out=overlapping)
