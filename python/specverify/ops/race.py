"""The race over rows of logits: the target's own tokens, and a drafter's coupled children."""

from typing import NamedTuple

import torch

from specverify import _core
from specverify.ops import check
from specverify.ops.device import Pointers, address, current

_LOGITS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
_Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class TargetTokens(NamedTuple):
    """What `target_tokens` gives, int32 on the device of the logits."""

    tokens: torch.Tensor
    """[rows], -1 where the status is not 0."""
    status: torch.Tensor
    """[rows]: 0; 1 the row holds NaN; 2 +inf; 3 nothing is left that could be drawn; 4 the row is not used."""


class CoupledChildren(NamedTuple):
    """What `coupled_children` gives, on the device of the logits."""

    tokens: torch.Tensor
    """int32 [rows, k], best first, -1 after the last."""
    scores: torch.Tensor
    """float32 [rows, k] in the race, -inf after the last; at temperature 0 logits."""
    status: torch.Tensor
    """int32 [rows], as in `TargetTokens`."""


@torch.library.custom_op("specverify::race", mutates_args=(), device_types="cpu")
def _race(
    logits: torch.Tensor,
    requests: torch.Tensor,
    positions: torch.Tensor,
    seeds: torch.Tensor,
    temperatures: torch.Tensor,
    top_k: torch.Tensor | None,
    top_p: torch.Tensor | None,
    min_p: torch.Tensor | None,
    bias_offsets: torch.Tensor | None,
    bias_ids: torch.Tensor | None,
    bias_values: torch.Tensor | None,
    allowed: torch.Tensor | None,
    places: int,
    children: bool,
) -> _Three:
    tokens, scores, status = _core.race_rows(
        logits,
        places,
        requests=requests.numpy(),
        positions=positions.numpy(),
        seeds=seeds.numpy(),
        temperatures=temperatures.numpy(),
        top_k=None if top_k is None else top_k.numpy(),
        top_p=None if top_p is None else top_p.numpy(),
        min_p=None if min_p is None else min_p.numpy(),
        bias_offsets=None if bias_offsets is None else bias_offsets.numpy(),
        bias_ids=None if bias_ids is None else bias_ids.numpy(),
        bias_values=None if bias_values is None else bias_values.numpy(),
        allowed=None if allowed is None else allowed.numpy().ravel(),
        allowed_stride=0 if allowed is None else allowed.shape[1],
    )
    rows = logits.shape[0]
    return (
        torch.from_numpy(tokens).view(rows, places),
        torch.from_numpy(scores).view(rows, places),
        torch.from_numpy(status),
    )


@_race.register_kernel("cuda")
def _race_hip(
    logits: torch.Tensor,
    requests: torch.Tensor,
    positions: torch.Tensor,
    seeds: torch.Tensor,
    temperatures: torch.Tensor,
    top_k: torch.Tensor | None,
    top_p: torch.Tensor | None,
    min_p: torch.Tensor | None,
    bias_offsets: torch.Tensor | None,
    bias_ids: torch.Tensor | None,
    bias_values: torch.Tensor | None,
    allowed: torch.Tensor | None,
    places: int,
    children: bool,
) -> _Three:
    tokens, scores, status = _outputs(logits, requests, places)
    dtype = _LOGITS[logits.dtype]
    # 1 / T rounded once, as on the host; 0 says greedy.
    inverse = torch.where(temperatures > 0, 1 / temperatures, torch.zeros_like(temperatures))
    with current(logits) as (index, stream):
        units = torch.cuda.get_device_properties(index).multi_processor_count
        rows_of_logits, vocab = logits.shape
        layout, sizes = _core.hip_rows_workspace(dtype, rows_of_logits, vocab, units)
        cut = top_k is not None or top_p is not None
        # A histogram of the masses is what top_p needs; it helps a great top_k.
        wanted = ["maxima", "part_maxima", "part_faults"] + ["bin_masses", "bin_counts", "cuts"] * cut
        workspace = {name: logits.new_empty(sizes[name], dtype=torch.uint8) for name in wanted}
        rows: Pointers = {
            **layout,
            **{name: address(tensor) for name, tensor in workspace.items()},
            "logits": address(logits),
            "requests": address(requests),
            "positions": address(positions),
            "seeds": address(seeds),
            "inverse_temperatures": address(inverse),
            "top_k": address(top_k),
            "top_p": address(top_p),
            "min_p": address(min_p),
            "bias_offsets": address(bias_offsets),
            "bias_ids": address(bias_ids),
            "bias_values": address(bias_values),
            "allowed": address(allowed),
            "row_stride": logits.stride(0),
            "allowed_stride": 0 if allowed is None else allowed.shape[1],
            "rows": rows_of_logits,
            "vocab": vocab,
        }
        results: Pointers = {"tokens": address(tokens), "status": address(status)}
        if children:
            _core.hip_coupled_children(
                index, stream, dtype, rows, results | {"scores": address(scores), "places": places}
            )
        else:
            _core.hip_target_tokens(index, stream, dtype, rows, results)
    return tokens, scores, status


def _outputs(logits: torch.Tensor, requests: torch.Tensor, places: int) -> _Three:
    rows = logits.shape[0]
    tokens = requests.new_empty(rows, places)
    return tokens, logits.new_empty(rows, places, dtype=torch.float32), requests.new_empty(rows)


@_race.register_fake
def _(
    logits: torch.Tensor,
    requests: torch.Tensor,
    positions: torch.Tensor,
    seeds: torch.Tensor,
    temperatures: torch.Tensor,
    top_k: torch.Tensor | None,
    top_p: torch.Tensor | None,
    min_p: torch.Tensor | None,
    bias_offsets: torch.Tensor | None,
    bias_ids: torch.Tensor | None,
    bias_values: torch.Tensor | None,
    allowed: torch.Tensor | None,
    places: int,
    children: bool,
) -> _Three:
    return _outputs(logits, requests, places)


def _run(
    logits: torch.Tensor,
    requests: torch.Tensor,
    positions: torch.Tensor,
    seeds: torch.Tensor,
    temperatures: torch.Tensor,
    top_k: torch.Tensor | None,
    top_p: torch.Tensor | None,
    min_p: torch.Tensor | None,
    bias: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None,
    allowed: torch.Tensor | None,
    places: int,
    children: bool,
) -> _Three:
    check.dtype("logits", logits, list(_LOGITS))
    check.shape("logits", logits, "[rows, V]", None, None)
    rows, vocab = logits.shape
    if vocab == 0 or (vocab > 1 and logits.stride(1) != 1):
        raise _core.ShapeError(
            f"logits has shape {list(logits.shape)} with strides {list(logits.stride())}; expected contiguous rows"
        )
    check.ints("requests", requests, f"[{rows}], one a row", rows)
    check.ints("positions", positions, f"[{rows}], one a row", rows)
    check.dtype("seeds", seeds, [torch.int64])
    check.shape("seeds", seeds, "[requests]", None)
    count = seeds.shape[0]
    for name, tensor, dtype in [
        ("temperatures", temperatures, torch.float32),
        ("top_k", top_k, torch.int32),
        ("top_p", top_p, torch.float32),
        ("min_p", min_p, torch.float32),
        ("seeds", seeds, torch.int64),
    ]:
        if tensor is not None:
            check.dtype(name, tensor, [dtype])
            check.shape(name, tensor, f"[{count}], one a request", count)
            check.contiguous(name, tensor)
    offsets, ids, values = bias if bias is not None else (None, None, None)
    if offsets is not None and ids is not None and values is not None:
        check.ints("bias[0]", offsets, f"[{count + 1}], requests + 1", count + 1)
        check.ints("bias[1]", ids, "[biased ids]", None)
        check.dtype("bias[2]", values, [torch.float32])
        check.shape("bias[2]", values, f"[{ids.shape[0]}], one a biased id", ids.shape[0])
        check.contiguous("bias[2]", values)
    if allowed is not None:
        words = (vocab + 31) // 32
        check.ints("allowed", allowed, f"[{count}, {words}], a bit for each id", count, words)
    check.one_device(
        logits=logits,
        requests=requests,
        positions=positions,
        seeds=seeds,
        temperatures=temperatures,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        bias=offsets,
        allowed=allowed,
    )
    found: _Three = _race(
        logits,
        requests,
        positions,
        seeds,
        temperatures,
        top_k,
        top_p,
        min_p,
        offsets,
        ids,
        values,
        allowed,
        places,
        children,
    )
    return found


def target_tokens(
    logits: torch.Tensor,
    requests: torch.Tensor,
    positions: torch.Tensor,
    *,
    seeds: torch.Tensor,
    temperatures: torch.Tensor,
    top_k: torch.Tensor | None = None,
    top_p: torch.Tensor | None = None,
    min_p: torch.Tensor | None = None,
    bias: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
    allowed: torch.Tensor | None = None,
) -> TargetTokens:
    """Give the target's own token of each row of logits: the winner of the race, at temperature 0 the greatest logit.

    For equal logits the tokens are those of `verify` with rule ``target_only``, on every device. What this takes for granted
    is that penalties, if any, are in the logits already.

    Parameters
    ----------
    logits : torch.Tensor
        [rows, V] float32, bfloat16 or float16, rows contiguous. On a GPU V is at most 262,144.
    requests : torch.Tensor
        int32 [rows], the request of each row; negative: the row is not used, and not read.
    positions : torch.Tensor
        int32 [rows], position of the token that the row gives: base + 1 + depth.
    seeds : torch.Tensor
        int64 [requests].
    temperatures : torch.Tensor
        float32 [requests], 0: greedy.
    top_k : torch.Tensor, optional
        int32 [requests], 0 or less: all.
    top_p, min_p : torch.Tensor, optional
        float32 [requests], 1 (top_p) and 0 (min_p): all.
    bias : tuple of torch.Tensor, optional
        int32 [requests + 1] offsets, int32 ids (ascending, each once a request), float32 values that are added; -inf bans.
    allowed : torch.Tensor, optional
        int32 [requests, ceil(V / 32)]: bit i % 32 of word i // 32 is set where id i may be drawn.

    Returns
    -------
    TargetTokens
        `tokens` and `status`, one a row.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError
        What does not fit, by name. In host memory requests, ids and parameters are checked too.
    HipError
        The tensors are on a GPU that the kernels can't run on.
    """
    tokens, _, status = _run(
        logits, requests, positions, seeds, temperatures, top_k, top_p, min_p, bias, allowed, 1, False
    )
    return TargetTokens(tokens[:, 0], status)


def coupled_children(
    logits: torch.Tensor,
    k: int,
    requests: torch.Tensor,
    positions: torch.Tensor,
    *,
    seeds: torch.Tensor,
    temperatures: torch.Tensor,
    top_k: torch.Tensor | None = None,
    top_p: torch.Tensor | None = None,
    min_p: torch.Tensor | None = None,
    bias: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
    allowed: torch.Tensor | None = None,
) -> CoupledChildren:
    """Run the target's own race over a drafter's rows and give its first `k` finishers (arXiv 2408.07978).

    They agree with the target's token far more often than the k likeliest do. They are 'deterministic' draws.

    Parameters
    ----------
    logits : torch.Tensor
        [rows, V] of the drafter, over the target's ids, as in `target_tokens`.
    k : int
        Children of a row: 1 or more, on a GPU at most 64.
    requests, positions, seeds, temperatures, top_k, top_p, min_p, bias, allowed
        As in `target_tokens`: the request's, as the target will see them.

    Returns
    -------
    CoupledChildren
        `tokens`, `scores` and `status`.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError, HipError
        As `target_tokens`.
    """
    check.at_least("k", k, 1)
    found = _run(logits, requests, positions, seeds, temperatures, top_k, top_p, min_p, bias, allowed, k, True)
    return CoupledChildren(*found)
