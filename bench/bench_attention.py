"""Attention of a verification pass on the CPU beside torch: SDPA needs the pages gathered and a dense mask of each tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import specverify as sv
from specverify import _core

HEADS, KV_HEADS, DIM, PAGE, CONTEXT = 32, 8, 128, 16, 2048
GROUP = HEADS // KV_HEADS
CASES = [
    (dtype, batch, nodes) for dtype in (torch.float32, torch.bfloat16) for batch in (1, 8) for nodes in (1, 16, 64)
]


def name(case: Any) -> str:
    dtype, batch, nodes = case
    return f"batch {batch}, {nodes} nodes, context {CONTEXT}, {str(dtype).removeprefix('torch.')}"


class Layer:
    """Random queries, a paged cache in random order, and random trees: one layer with Llama's heads."""

    def __init__(self, dtype: torch.dtype, batch: int, nodes: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.batch, self.rows = batch, nodes + 1
        pages = -(-(CONTEXT + self.rows) // PAGE)
        shape = (batch * pages, PAGE, KV_HEADS, DIM)
        self.k, self.v = (torch.empty(shape).normal_(generator=generator).to(dtype) for _ in range(2))
        self.q = torch.empty(batch * self.rows, HEADS, DIM).normal_(generator=generator).to(dtype)
        self.table = torch.randperm(batch * pages, generator=generator).view(batch, pages)
        parents = [int(torch.randint(-1, i, (1,), generator=generator)) if i else -1 for i in range(nodes)]
        tree = sv.DraftTree(range(nodes), parents)
        self.bits = np.tile(tree.ancestor_bits, (batch, 1))
        # What the mask is made of: the node bits of a row as booleans.
        width = torch.arange(nodes)
        words = torch.from_numpy(self.bits.astype(np.int64)).view(batch, self.rows, -1)
        self.sees = (words[:, :, width // 64] >> (width % 64)) & 1 == 1
        self.native = (
            self.table.numpy().astype(np.int32),
            np.arange(batch + 1, dtype=np.int32) * self.rows,
            np.full(batch, CONTEXT, np.int32),
        )
        self.out = torch.empty_like(self.q)

    def specverify(self) -> torch.Tensor:
        _core.tree_attention(self.q, self.k, self.v, *self.native, self.bits, scale=DIM**-0.5, out=self.out)
        return self.out

    def gathered(self) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V as SDPA takes them: [batch, heads, keys, dim]."""
        return self.k[self.table].flatten(1, 2).transpose(1, 2), self.v[self.table].flatten(1, 2).transpose(1, 2)

    def mask(self) -> torch.Tensor:
        """What each row may see, added to its scores: [batch, 1, rows * group, keys]."""
        mask = torch.full((self.batch, self.rows, self.table.shape[1] * PAGE), -torch.inf, dtype=self.q.dtype)
        mask[:, :, : CONTEXT + 1] = 0
        mask[:, :, CONTEXT + 1 : CONTEXT + self.rows].masked_fill_(self.sees, 0)
        return mask.repeat_interleave(GROUP, 1)[:, None]

    def sdpa(self, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The heads of a group as rows of their KV head, which is faster than `enable_gqa` and than repeated K and V."""
        q = self.q.view(self.batch, self.rows, KV_HEADS, GROUP, DIM).permute(0, 2, 1, 3, 4).flatten(2, 3)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return out.view(self.batch, KV_HEADS, self.rows, GROUP, DIM).permute(0, 2, 1, 3, 4).reshape(self.q.shape)


@pytest.fixture(scope="class")
def layer(request: Any) -> Layer:
    return Layer(*request.param)


@pytest.mark.parametrize("layer", CASES, ids=name, indirect=True, scope="class")
class TestAttention:
    """The cache is read where it lies; the last-level cache may hold it for all of them alike."""

    @staticmethod
    def measure(benchmark: Any, layer: Layer, label: str, call: Any) -> None:
        case = (layer.q.dtype, layer.batch, layer.rows - 1)
        benchmark.group, benchmark.extra_info["label"] = f"attention: {name(case)}", label
        benchmark.pedantic(call, rounds=9, iterations=1, warmup_rounds=2)

    def test_sdpa_with_gather(self, benchmark: Any, layer: Layer) -> None:
        def call() -> torch.Tensor:
            return layer.sdpa(*layer.gathered(), layer.mask())

        worst = (call().float() - layer.specverify().float()).abs().max()
        assert worst < (1e-4 if layer.q.dtype == torch.float32 else 0.05), worst
        self.measure(benchmark, layer, "torch SDPA, gather and mask", call)

    def test_sdpa_alone(self, benchmark: Any, layer: Layer) -> None:
        ready = (*layer.gathered(), layer.mask())
        self.measure(benchmark, layer, "torch SDPA alone", lambda: layer.sdpa(*ready))

    def test_specverify(self, benchmark: Any, layer: Layer) -> None:
        self.measure(benchmark, layer, "specverify", layer.specverify)
