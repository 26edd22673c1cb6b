"""KV compaction: accepted nodes' keys and values to the slots that follow the root's, in every layer."""

from collections.abc import Sequence

import torch

from specverify import _core
from specverify.ops import check
from specverify.ops.device import Pointers, address, current


def _layout(pool: torch.Tensor) -> dict[str, int]:
    """Strides and sizes in bytes of a [pages, page_size, heads, dim] pool."""
    size = pool.element_size()
    page, token, head, _ = pool.stride()
    return {
        "page_stride": page * size,
        "token_stride": token * size,
        "head_stride": head * size,
        "heads": pool.shape[2],
        "head_bytes": pool.shape[3] * size,
        "page_size": pool.shape[1],
    }


def _alignment(pools: Sequence[torch.Tensor]) -> int:
    """Return the power of two, at most 16, that divides the address of every pool."""
    together = 16
    for pool in pools:
        together |= pool.data_ptr()
    return together & -together


def _move_on_host(pools: Sequence[torch.Tensor], moves: list[tuple[int, int]]) -> None:
    for pool in pools:
        reach = 1 + sum((size - 1) * stride for size, stride in zip(pool.shape, pool.stride(), strict=True))
        flat = pool.as_strided((reach,), (1,)).view(torch.uint8)
        _core.move_slots(flat.numpy(), moves, **_layout(pool))


@torch.library.custom_op("specverify::kv_compact", mutates_args={"pools"}, device_types="cpu")
def _compact(
    pools: Sequence[torch.Tensor],
    bases: torch.Tensor,
    path: torch.Tensor,
    accepted: torch.Tensor,
    context_lens: torch.Tensor,
    block_table: torch.Tensor,
) -> None:
    moves = _core.path_moves(
        path.numpy().ravel(),
        accepted.numpy(),
        context_lens.numpy(),
        block_table.contiguous().numpy().ravel(),
        pools[0].shape[1],
    )
    _move_on_host(pools, moves)


@_compact.register_kernel("cuda")
def _compact_hip(
    pools: Sequence[torch.Tensor],
    bases: torch.Tensor,
    path: torch.Tensor,
    accepted: torch.Tensor,
    context_lens: torch.Tensor,
    block_table: torch.Tensor,
) -> None:
    arguments: Pointers = {
        **_layout(pools[0]),
        "bases": address(bases),
        "block_table": address(block_table),
        "context_lens": address(context_lens),
        "path": address(path),
        "accepted": address(accepted),
        "table_stride": block_table.stride(0),
        "pools": len(pools),
        "requests": accepted.shape[0],
        "max_path": path.shape[1],
    }
    with current(bases) as (index, stream):
        _core.hip_kv_compact(index, stream, _alignment(pools), arguments)


@_compact.register_fake
def _(
    pools: Sequence[torch.Tensor],
    bases: torch.Tensor,
    path: torch.Tensor,
    accepted: torch.Tensor,
    context_lens: torch.Tensor,
    block_table: torch.Tensor,
) -> None:
    return None


@torch.library.custom_op("specverify::kv_move", mutates_args={"pools"}, device_types="cpu")
def _move(
    pools: Sequence[torch.Tensor],
    bases: torch.Tensor,
    offsets: torch.Tensor,
    sources: torch.Tensor,
    destinations: torch.Tensor,
) -> None:
    _move_on_host(pools, list(zip(sources.tolist(), destinations.tolist(), strict=True)))


@_move.register_kernel("cuda")
def _move_hip(
    pools: Sequence[torch.Tensor],
    bases: torch.Tensor,
    offsets: torch.Tensor,
    sources: torch.Tensor,
    destinations: torch.Tensor,
) -> None:
    arguments: Pointers = {
        **_layout(pools[0]),
        "bases": address(bases),
        "move_offsets": address(offsets),
        "sources": address(sources),
        "destinations": address(destinations),
        "pools": len(pools),
        "groups": offsets.shape[0] - 1,
    }
    with current(bases) as (index, stream):
        _core.hip_kv_move(index, stream, _alignment(pools), arguments)


@_move.register_fake
def _(
    pools: Sequence[torch.Tensor],
    bases: torch.Tensor,
    offsets: torch.Tensor,
    sources: torch.Tensor,
    destinations: torch.Tensor,
) -> None:
    return None


class KvPools:
    """The keys and values of every layer, made ready once for compaction in one launch a step.

    Parameters
    ----------
    pools : sequence of torch.Tensor
        [pages, page_size, heads, dim] each, of one shape, dtype, device and strides, the last of which is 1: views of
        whatever layout the engine has, keys and values apart.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError
        A pool differs from the first, or is not laid out so.
    """

    def __init__(self, pools: Sequence[torch.Tensor]) -> None:
        if not pools:
            raise _core.ArgumentError("pools is empty; expected the keys and values of every layer")
        first = pools[0]
        for i, pool in enumerate(pools):
            check.shape(f"pools[{i}]", pool, "[pages, page_size, heads, dim]", None, None, None, None)
            check.dtype(f"pools[{i}]", pool, [first.dtype])
            found, expected = (tuple(pool.shape), pool.stride()), (tuple(first.shape), first.stride())
            if found != expected:
                raise _core.ShapeError(
                    f"pools[{i}] has shape {list(found[0])} with strides {list(found[1])}; "
                    f"expected {list(expected[0])} with strides {list(expected[1])}, those of pools[0]"
                )
            check.one_device(**{"pools[0]": first, f"pools[{i}]": pool})
        if first.stride(3) != 1 or min(first.stride()) < 0:
            raise _core.ShapeError(
                f"pools[0] has strides {list(first.stride())}; expected the last to be 1, and none below 0"
            )
        check.at_least("page_size", first.shape[1], 1)
        self._pools = list(pools)
        self._bases = torch.tensor([pool.data_ptr() for pool in pools], dtype=torch.int64, device=first.device)

    def compact(
        self,
        path: torch.Tensor,
        accepted: torch.Tensor,
        *,
        context_lens: torch.Tensor,
        block_table: torch.Tensor,
    ) -> None:
        """Move accepted nodes, in place: node i of request b stands at key ``context_lens[b] + 1 + i``.

        The d-th node of the path goes to key ``context_lens[b] + 1 + d``; those that stand there already are not touched.

        Parameters
        ----------
        path : torch.Tensor
            int32 [requests, max_path], as `tree_walk` gives it.
        accepted : torch.Tensor
            int32 [requests].
        context_lens : torch.Tensor
            int32 [requests], keys in the cache before the root.
        block_table : torch.Tensor
            int32 [requests, pages], the page of every `page_size` keys.

        Raises
        ------
        ShapeError, DtypeError, ArgumentError
            What does not fit. In host memory paths and pages are checked before anything moves; on a GPU the host does not
            read them.
        HipError
            The pools are on a GPU that the kernels can't run on.
        """
        requests = accepted.shape[0] if accepted.dim() else 0
        check.ints("accepted", accepted, "[requests]", None)
        check.ints("path", path, f"[{requests}, max_path]", requests, None)
        check.ints("context_lens", context_lens, f"[{requests}], one a request", requests)
        check.dtype("block_table", block_table, [torch.int32])
        check.shape("block_table", block_table, f"[{requests}, pages]", requests, None)
        if block_table.shape[1] > 1 and block_table.stride(1) != 1:
            raise _core.ShapeError(
                f"block_table has strides {list(block_table.stride())}; expected rows that are contiguous"
            )
        check.one_device(
            pools=self._bases, path=path, accepted=accepted, context_lens=context_lens, block_table=block_table
        )
        _compact(self._pools, self._bases, path, accepted, context_lens, block_table)

    def move(self, sources: torch.Tensor, destinations: torch.Tensor, *, offsets: torch.Tensor | None = None) -> None:
        """Make moves between slots (page * page_size + place in the page), as `compaction_plan` lists them.

        Parameters
        ----------
        sources, destinations : torch.Tensor
            int64 [moves].
        offsets : torch.Tensor, optional
            int32 [groups + 1] into the moves: those of a group are made in order, groups in any order. One group by default.

        Raises
        ------
        ShapeError, DtypeError, ArgumentError
            What does not fit. In host memory a slot outside the pools is refused before anything moves.
        HipError
            The pools are on a GPU that the kernels can't run on.
        """
        moves = sources.shape[0] if sources.dim() else 0
        for name, tensor in (("sources", sources), ("destinations", destinations)):
            check.dtype(name, tensor, [torch.int64])
            check.shape(name, tensor, f"[{moves}], one a move", moves)
        if offsets is None:
            offsets = torch.tensor([0, moves], dtype=torch.int32, device=sources.device)
        check.ints("offsets", offsets, "[groups + 1]", None)
        check.one_device(pools=self._bases, sources=sources, destinations=destinations, offsets=offsets)
        _move(self._pools, self._bases, offsets, sources.contiguous(), destinations.contiguous())
