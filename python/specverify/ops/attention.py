"""Attention of a draft tree's rows over a paged KV cache."""

import torch

from specverify import _core
from specverify.ops import check
from specverify.ops.device import Pointers, address, current

# What each architecture's matrix cores read: fnuz on gfx942, OCP on gfx950.
FP8 = {"gfx942": torch.float8_e4m3fnuz, "gfx950": torch.float8_e4m3fn}


@torch.library.custom_op("specverify::tree_attention", mutates_args=(), device_types="cpu")
def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_table: torch.Tensor,
    cu_rows: torch.Tensor,
    context_lens: torch.Tensor,
    ancestors: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    scale: float,
    window: int,
    softcap: float,
    max_rows: int,
) -> torch.Tensor:
    if k.dtype in FP8.values() or k_scale is not None or v_scale is not None:
        raise _core.ArgumentError("k holds float8 or has a scale; expected float32, bfloat16 or float16 in host memory")
    bits = None if ancestors is None else ancestors.view(torch.uint64).numpy()
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    _core.tree_attention(
        q,
        k,
        v,
        block_table.numpy(),
        cu_rows.numpy(),
        context_lens.numpy(),
        bits,
        scale=scale,
        window=window,
        softcap=softcap,
        out=out,
    )
    return out


@_attention.register_kernel("cuda")
def _attention_hip(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_table: torch.Tensor,
    cu_rows: torch.Tensor,
    context_lens: torch.Tensor,
    ancestors: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    scale: float,
    window: int,
    softcap: float,
    max_rows: int,
) -> torch.Tensor:
    check.dtype("q", q, [torch.bfloat16, torch.float16])
    requests, (rows, heads, dim), kv_heads = context_lens.shape[0], q.shape, k.shape[2]
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    with current(q) as (index, stream):
        arch, _ = _core.hip_device(index)
        check.dtype("k", k, [q.dtype, FP8[arch]])
        units = torch.cuda.get_device_properties(index).multi_processor_count
        splits = _core.hip_attention_splits(
            requests, kv_heads, heads // kv_heads, max_rows, block_table.shape[1] * k.shape[1], units
        )
        parts = splits * rows * heads if splits > 1 else 0
        partial_out, partial_stats = (
            q.new_empty(parts * width, dtype=torch.float32) if parts else None for width in (dim, 2)
        )
        arguments: Pointers = {
            "out": address(out),
            "q": address(q),
            "k": address(k),
            "v": address(v),
            "block_table": address(block_table),
            "cu_rows": address(cu_rows),
            "context_lens": address(context_lens),
            "ancestors": address(ancestors),
            "k_scale": address(k_scale),
            "v_scale": address(v_scale),
            "partial_out": address(partial_out),
            "partial_stats": address(partial_stats),
            "q_stride_row": q.stride(0),
            "q_stride_head": q.stride(1),
            "out_stride_row": out.stride(0),
            "out_stride_head": out.stride(1),
            "k_stride_page": k.stride(0),
            "k_stride_token": k.stride(1),
            "k_stride_head": k.stride(2),
            "v_stride_page": v.stride(0),
            "v_stride_token": v.stride(1),
            "v_stride_head": v.stride(2),
            "table_stride": block_table.stride(0),
            "requests": requests,
            "rows": rows,
            "heads": heads,
            "kv_heads": kv_heads,
            "page_size": k.shape[1],
            "words": 0 if ancestors is None else ancestors.shape[1],
            "splits": splits,
            "window": window,
            "scale": scale,
            "softcap": softcap,
        }
        _core.hip_tree_attention(
            index,
            stream,
            query="bf16" if q.dtype == torch.bfloat16 else "f16",
            fp8=k.element_size() == 1,
            dim=dim,
            max_rows=max_rows,
            arguments=arguments,
        )
    return out


@_attention.register_fake
def _(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_table: torch.Tensor,
    cu_rows: torch.Tensor,
    context_lens: torch.Tensor,
    ancestors: torch.Tensor | None,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    scale: float,
    window: int,
    softcap: float,
    max_rows: int,
) -> torch.Tensor:
    return torch.empty_like(q, memory_format=torch.contiguous_format)


def tree_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_table: torch.Tensor,
    cu_rows: torch.Tensor,
    context_lens: torch.Tensor,
    ancestors: torch.Tensor | None = None,
    *,
    scale: float,
    window: int = 0,
    softcap: float = 0.0,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    max_rows: int | None = None,
) -> torch.Tensor:
    """Attend from a draft tree's rows to the prefix and to each row's own ancestors.

    Request b has rows ``cu_rows[b]`` to ``cu_rows[b + 1]``: the root and its nodes, or none. Its keys are
    ``context_lens[b]`` cached ones, which every row sees, and one for each row at key ``context_lens[b] + row``: the
    root's, which every row sees, and the nodes', seen by a row where its ancestor bits say so. The keys must be in the cache.

    Parameters
    ----------
    q : torch.Tensor
        [rows, heads, dim] float32 (host only), bfloat16 or float16, the last stride 1.
    k, v : torch.Tensor
        [pages, page_size, kv_heads, dim], by strides of which the last is 1: q's dtype, or on a GPU float8
        (e4m3fnuz on gfx942, e4m3fn on gfx950).
    block_table : torch.Tensor
        int32 [requests, pages], the page of every `page_size` keys.
    cu_rows : torch.Tensor
        int32 [requests + 1], ascending from 0.
    context_lens : torch.Tensor
        int32 [requests].
    ancestors : torch.Tensor, optional
        int64 or uint64 [rows, words]: bit j of a row is set where it may see node j; a node sees itself, the root's row is
        0 (`DraftTree.ancestor_bits`). A chain by default.
    scale : float
        Of q.k, usually ``dim ** -0.5``.
    window : int, default 0
        Sliding window: a row sees keys of positions less than so far before its own; 0: all. A node's position is
        context + its depth.
    softcap : float, default 0.0
        Scores become ``softcap * tanh(score / softcap)``; 0: they stay.
    k_scale, v_scale : torch.Tensor, optional
        float32 [1] on the device: what float8 values are multiplied by.
    max_rows : int, optional
        Most rows that any request has, on which the GPU's grid depends; the number of rows, at most 128, by default.

    Returns
    -------
    torch.Tensor
        [rows, heads, dim] of q's dtype, contiguous. Rows that no request has hold anything.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError
        What does not fit, by name. In host memory offsets, lengths and pages are checked too.
    HipError
        The tensors are on a GPU that the kernels can't run on.
    """
    check.at_least("window", window, 0)
    scales = [("k_scale", k_scale), ("v_scale", v_scale)]
    max_rows = check.attention(q, k, v, block_table, cu_rows, context_lens, ancestors, scales, max_rows)
    out: torch.Tensor = _attention(
        q, k, v, block_table, cu_rows, context_lens, ancestors, k_scale, v_scale, scale, window, softcap, max_rows
    )
    return out
