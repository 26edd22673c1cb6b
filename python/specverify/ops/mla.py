"""Attention of a draft tree's rows with multi-head latent attention (MLA), absorbed: one latent key a token for all heads."""

import torch

from specverify import _core
from specverify.ops import check
from specverify.ops.attention import FP8, tree_attention
from specverify.ops.device import Pointers, address, current

LATENT = 512
WIDTH = LATENT + 64


@torch.library.custom_op("specverify::mla_tree_attention", mutates_args=(), device_types="cpu")
def _attention(
    q: torch.Tensor,
    kv: torch.Tensor,
    block_table: torch.Tensor,
    cu_rows: torch.Tensor,
    context_lens: torch.Tensor,
    ancestors: torch.Tensor | None,
    kv_scale: torch.Tensor | None,
    scale: float,
    max_rows: int,
) -> torch.Tensor:
    # The same attention with one KV head, whose values are the keys: what lies beyond the latent is dropped.
    shared = kv.unsqueeze(2)
    out = tree_attention(
        q,
        shared,
        shared,
        block_table,
        cu_rows,
        context_lens,
        ancestors,
        scale=scale,
        k_scale=kv_scale,
        v_scale=kv_scale,
    )
    return out[..., :LATENT].contiguous()


@_attention.register_kernel("cuda")
def _attention_hip(
    q: torch.Tensor,
    kv: torch.Tensor,
    block_table: torch.Tensor,
    cu_rows: torch.Tensor,
    context_lens: torch.Tensor,
    ancestors: torch.Tensor | None,
    kv_scale: torch.Tensor | None,
    scale: float,
    max_rows: int,
) -> torch.Tensor:
    check.dtype("q", q, [torch.bfloat16, torch.float16])
    requests, (rows, heads, _) = context_lens.shape[0], q.shape
    out = q.new_empty(rows, heads, LATENT)
    with current(q) as (index, stream):
        arch, _ = _core.hip_device(index)
        check.dtype("kv", kv, [q.dtype, FP8[arch]])
        units = torch.cuda.get_device_properties(index).multi_processor_count
        splits = _core.hip_mla_splits(requests, heads, max_rows, block_table.shape[1] * kv.shape[1], units)
        parts = splits * rows * heads if splits > 1 else 0
        partial_out, partial_stats = (
            q.new_empty(parts * width, dtype=torch.float32) if parts else None for width in (LATENT, 2)
        )
        arguments: Pointers = {
            "out": address(out),
            "q": address(q),
            "kv": address(kv),
            "block_table": address(block_table),
            "cu_rows": address(cu_rows),
            "context_lens": address(context_lens),
            "ancestors": address(ancestors),
            "kv_scale": address(kv_scale),
            "partial_out": address(partial_out),
            "partial_stats": address(partial_stats),
            "q_stride_row": q.stride(0),
            "q_stride_head": q.stride(1),
            "out_stride_row": out.stride(0),
            "out_stride_head": out.stride(1),
            "kv_stride_page": kv.stride(0),
            "kv_stride_token": kv.stride(1),
            "table_stride": block_table.stride(0),
            "requests": requests,
            "rows": rows,
            "heads": heads,
            "page_size": kv.shape[1],
            "words": 0 if ancestors is None else ancestors.shape[1],
            "splits": splits,
            "scale": scale,
        }
        _core.hip_mla_tree_attention(
            index,
            stream,
            query="bf16" if q.dtype == torch.bfloat16 else "f16",
            fp8=kv.element_size() == 1,
            max_rows=max_rows,
            arguments=arguments,
        )
    return out


@_attention.register_fake
def _(
    q: torch.Tensor,
    kv: torch.Tensor,
    block_table: torch.Tensor,
    cu_rows: torch.Tensor,
    context_lens: torch.Tensor,
    ancestors: torch.Tensor | None,
    kv_scale: torch.Tensor | None,
    scale: float,
    max_rows: int,
) -> torch.Tensor:
    return q.new_empty(q.shape[0], q.shape[1], LATENT)


def mla_tree_attention(
    q: torch.Tensor,
    kv: torch.Tensor,
    block_table: torch.Tensor,
    cu_rows: torch.Tensor,
    context_lens: torch.Tensor,
    ancestors: torch.Tensor | None = None,
    *,
    scale: float,
    kv_scale: torch.Tensor | None = None,
    max_rows: int | None = None,
) -> torch.Tensor:
    """Attend as `tree_attention` does, over one latent a token (absorbed MLA, arXiv 2405.04434).

    Parameters
    ----------
    q : torch.Tensor
        [rows, heads, 576] float32 (host only), bfloat16 or float16: 512 absorbed elements and 64 rotary ones; on a GPU at
        most 128 heads.
    kv : torch.Tensor
        [pages, page_size, 576], by strides of which the last is 1: the keys; the first 512 elements are the values too.
    block_table, cu_rows, context_lens, ancestors, max_rows
        As in `tree_attention`.
    scale : float
        Of q.k.
    kv_scale : torch.Tensor, optional
        float32 [1] on the device: what float8 elements are multiplied by.

    Returns
    -------
    torch.Tensor
        [rows, heads, 512] of q's dtype, contiguous.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError, HipError
        As `tree_attention`.
    """
    check.shape("q", q, f"[rows, heads, {WIDTH}]", None, None, WIDTH)
    check.shape("kv", kv, f"[pages, page_size, {WIDTH}]", None, None, WIDTH)
    max_rows = check.attention(
        q,
        kv.unsqueeze(2),
        kv.unsqueeze(2),
        block_table,
        cu_rows,
        context_lens,
        ancestors,
        [("kv_scale", kv_scale)],
        max_rows,
        ("kv", "kv"),
    )
    out: torch.Tensor = _attention(q, kv, block_table, cu_rows, context_lens, ancestors, kv_scale, scale, max_rows)
    return out
