"""What the operators ask of their tensors, whatever the device."""

from collections.abc import Sequence

import torch

from specverify import _core


def dtype(name: str, tensor: torch.Tensor, allowed: Sequence[torch.dtype]) -> None:
    """Refuse an element type that is not read."""
    if tensor.dtype not in allowed:
        names = [str(one).removeprefix("torch.") for one in allowed]
        wanted = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
        raise _core.DtypeError(f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}; expected {wanted}")


def shape(name: str, tensor: torch.Tensor, expected: str, *sizes: int | None) -> None:
    """Refuse another number of dimensions or other sizes; None stands for any size."""
    fits = tensor.dim() == len(sizes) and all(
        size is None or found == size for found, size in zip(tensor.shape, sizes, strict=True)
    )
    if not fits:
        raise _core.ShapeError(f"{name} has shape {list(tensor.shape)}; expected {expected}")


def ints(name: str, tensor: torch.Tensor, expected: str, *sizes: int | None) -> None:
    """Refuse what is not a contiguous int32 tensor of that shape."""
    dtype(name, tensor, [torch.int32])
    shape(name, tensor, expected, *sizes)
    contiguous(name, tensor)


def contiguous(name: str, tensor: torch.Tensor) -> None:
    """Refuse what is not contiguous."""
    if not tensor.is_contiguous():
        raise _core.ShapeError(
            f"{name} has shape {list(tensor.shape)} with strides {list(tensor.stride())}; expected a contiguous tensor"
        )


def one_device(**tensors: torch.Tensor | None) -> None:
    """Refuse tensors on different devices."""
    places = {name: tensor.device for name, tensor in tensors.items() if tensor is not None}
    first, place = next(iter(places.items()))
    for name, other in places.items():
        if other != place:
            raise _core.ArgumentError(f"{name} is on {other}; expected {place}, where {first} is")


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a number below `least`."""
    if value < least:
        raise _core.ArgumentError(f"{name} is {value}; expected {least} or more")


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    block_table: torch.Tensor,
    cu_rows: torch.Tensor,
    context_lens: torch.Tensor,
    ancestors: torch.Tensor | None,
    scales: Sequence[tuple[str, torch.Tensor | None]],
    max_rows: int | None,
    names: tuple[str, str] = ("k", "v"),
) -> int:
    """Refuse what does not fit together in a call of attention; give the most rows that a request may have."""
    dtype("q", q, [torch.float32, torch.bfloat16, torch.float16])
    shape("q", q, "[rows, heads, dim]", None, None, None)
    rows, heads, dim = q.shape
    shape(names[0], k, f"[pages, page_size, kv_heads, {dim}]", None, None, None, dim)
    dtype(names[0], k, [q.dtype, torch.float8_e4m3fnuz, torch.float8_e4m3fn])
    dtype(names[1], v, [k.dtype])
    shape(names[1], v, f"{list(k.shape)}, that of {names[0]}", *k.shape)
    ints("context_lens", context_lens, "[requests]", None)
    requests = context_lens.shape[0]
    ints("cu_rows", cu_rows, f"[{requests + 1}], requests + 1", requests + 1)
    ints("block_table", block_table, f"[{requests}, pages]", requests, None)
    kv_heads = k.shape[2]
    if kv_heads == 0 or heads % kv_heads:
        raise _core.ArgumentError(f"q has {heads} heads; expected a multiple of the {kv_heads} KV heads")
    if ancestors is not None:
        dtype("ancestors", ancestors, [torch.int64, torch.uint64])
        shape("ancestors", ancestors, f"[{rows}, words]", rows, None)
        contiguous("ancestors", ancestors)
    for name, tensor in (("q", q), (names[0], k), (names[1], v)):
        if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
            raise _core.ShapeError(f"{name} has strides {list(tensor.stride())}; expected the last to be 1")
    for name, one in scales:
        if one is not None:
            dtype(name, one, [torch.float32])
            shape(name, one, "[1]", 1)
    most = max(1, min(rows, 128)) if max_rows is None else max_rows
    at_least("max_rows", most, 1)
    places = {"q": q, names[0]: k, names[1]: v, "block_table": block_table, "cu_rows": cu_rows}
    one_device(**places, context_lens=context_lens, ancestors=ancestors, **dict(scales))
    return most
