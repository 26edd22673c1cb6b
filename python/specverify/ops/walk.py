"""The walk: the target's tokens and the trees -> accepted paths and emitted tokens."""

from typing import NamedTuple

import torch

from specverify import _core
from specverify.ops import check
from specverify.ops.device import address, current


class Walk(NamedTuple):
    """What a walk gives: int32 tensors on the device of the inputs."""

    path: torch.Tensor
    """[requests, max_path], accepted nodes, -1 after them."""
    emitted: torch.Tensor
    """[requests, max_path + 1], accepted tokens and one more, -1 after them. Nothing follows a stop token."""
    accepted: torch.Tensor
    """[requests], nodes of the path."""
    counts: torch.Tensor
    """[requests], tokens emitted."""
    last_token: torch.Tensor
    """[requests], the last of them, -1 for none."""
    status: torch.Tensor
    """[requests], 0, or the `row_status` that ended the walk, or -1: the path is longer than `max_path`."""


_Six = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _outputs(cu_nodes: torch.Tensor, max_path: int) -> _Six:
    requests = cu_nodes.shape[0] - 1
    path = cu_nodes.new_empty(requests, max_path)
    emitted = cu_nodes.new_empty(requests, max_path + 1)
    accepted, counts, last_token, status = (cu_nodes.new_empty(requests) for _ in range(4))
    return path, emitted, accepted, counts, last_token, status


@torch.library.custom_op("specverify::tree_walk", mutates_args=(), device_types="cpu")
def _walk(
    cu_nodes: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    target_tokens: torch.Tensor,
    row_status: torch.Tensor | None,
    stop_offsets: torch.Tensor | None,
    stop_ids: torch.Tensor | None,
    max_path: int,
) -> _Six:
    arrays = _core.tree_walk(
        cu_nodes.numpy(),
        tokens.numpy(),
        parents.numpy(),
        target_tokens.numpy(),
        None if row_status is None else row_status.numpy(),
        None if stop_offsets is None else stop_offsets.numpy(),
        None if stop_ids is None else stop_ids.numpy(),
        max_path,
    )
    path, emitted, accepted, counts, last_token, status = map(torch.from_numpy, arrays)
    requests = cu_nodes.shape[0] - 1
    return path.view(requests, max_path), emitted.view(requests, max_path + 1), accepted, counts, last_token, status


@_walk.register_kernel("cuda")
def _walk_hip(
    cu_nodes: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    target_tokens: torch.Tensor,
    row_status: torch.Tensor | None,
    stop_offsets: torch.Tensor | None,
    stop_ids: torch.Tensor | None,
    max_path: int,
) -> _Six:
    outputs = _outputs(cu_nodes, max_path)
    with current(cu_nodes) as (index, stream):
        names = ("path", "emitted", "accepted", "counts", "last_token", "status")
        _core.hip_tree_walk(
            index,
            stream,
            dict(
                zip(names, map(address, outputs), strict=True),
                cu_nodes=address(cu_nodes),
                tokens=address(tokens),
                parents=address(parents),
                target_tokens=address(target_tokens),
                row_status=address(row_status),
                stop_offsets=address(stop_offsets),
                stop_ids=address(stop_ids),
                requests=cu_nodes.shape[0] - 1,
                max_path=max_path,
            ),
        )
    return outputs


@_walk.register_fake
def _(
    cu_nodes: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    target_tokens: torch.Tensor,
    row_status: torch.Tensor | None,
    stop_offsets: torch.Tensor | None,
    stop_ids: torch.Tensor | None,
    max_path: int,
) -> _Six:
    return _outputs(cu_nodes, max_path)


def tree_walk(
    cu_nodes: torch.Tensor,
    tokens: torch.Tensor,
    parents: torch.Tensor,
    target_tokens: torch.Tensor,
    *,
    max_path: int,
    row_status: torch.Tensor | None = None,
    stop_offsets: torch.Tensor | None = None,
    stop_ids: torch.Tensor | None = None,
) -> Walk:
    """Walk each request's draft tree with the target's own token of each row.

    While a child of the last accepted node holds the target's token, it is accepted: `target_only`, or `greedy` where the
    tokens are greatest logits. Request b has nodes ``cu_nodes[b]`` to ``cu_nodes[b + 1]`` and one row more: its rows start
    at ``cu_nodes[b] + b``. All tensors are contiguous, int32 and on one device.

    Parameters
    ----------
    cu_nodes : torch.Tensor
        [requests + 1], ascending from 0.
    tokens : torch.Tensor
        [nodes], drafted.
    parents : torch.Tensor
        [nodes], local to the request, -1 for children of the root; less than the node's own number.
    target_tokens : torch.Tensor
        [nodes + requests], the target's token of each row.
    max_path : int
        Room for accepted nodes of a request.
    row_status : torch.Tensor, optional
        [nodes + requests], 0 where the row's token is good; a walk ends at another.
    stop_offsets, stop_ids : torch.Tensor, optional
        [requests + 1] offsets into the ids: each request's stop tokens.

    Returns
    -------
    Walk
        `path`, `emitted`, `accepted`, `counts`, `last_token`, `status`.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError
        What does not fit, by name. In host memory the offsets are checked too; on a GPU they are not read by the host.
    HipError
        The tensors are on a GPU that the kernels can't run on.
    """
    nodes = tokens.shape[0] if tokens.dim() else 0
    check.ints("tokens", tokens, "[nodes]", None)
    check.ints("cu_nodes", cu_nodes, "[requests + 1]", None)
    if cu_nodes.shape[0] == 0:
        raise _core.ShapeError("cu_nodes has shape [0]; expected [requests + 1]")
    requests = cu_nodes.shape[0] - 1
    rows = nodes + requests
    check.ints("parents", parents, f"[{nodes}], one a node", nodes)
    check.ints("target_tokens", target_tokens, f"[{rows}], nodes + requests", rows)
    if row_status is not None:
        check.ints("row_status", row_status, f"[{rows}], nodes + requests", rows)
    if (stop_offsets is None) != (stop_ids is None):
        raise _core.ArgumentError("stop_offsets and stop_ids are given one without the other; expected both or neither")
    if stop_offsets is not None and stop_ids is not None:
        check.ints("stop_offsets", stop_offsets, f"[{requests + 1}], requests + 1", requests + 1)
        check.ints("stop_ids", stop_ids, "[stop tokens]", None)
    check.at_least("max_path", max_path, 0)
    check.one_device(
        cu_nodes=cu_nodes,
        tokens=tokens,
        parents=parents,
        target_tokens=target_tokens,
        row_status=row_status,
        stop_offsets=stop_offsets,
        stop_ids=stop_ids,
    )
    return Walk(*_walk(cu_nodes, tokens, parents, target_tokens, row_status, stop_offsets, stop_ids, max_path))
