"""The race over rows of logits: the target's own tokens, and a drafter's coupled children."""

from typing import NamedTuple

import torch

from specverify import _core
from specverify.ops import check
from specverify.ops.device import Pointers, address, current
from specverify.ops.rows import LOGITS, Bias, Rows

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
    rows = Rows(
        requests, positions, seeds, temperatures, top_k, top_p, min_p, bias_offsets, bias_ids, bias_values, allowed
    )
    tokens, scores, status = _core.race_rows(logits, rows.host(), places)
    shape = logits.shape[0], places
    return torch.from_numpy(tokens).view(shape), torch.from_numpy(scores).view(shape), torch.from_numpy(status)


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
    rows = Rows(
        requests, positions, seeds, temperatures, top_k, top_p, min_p, bias_offsets, bias_ids, bias_values, allowed
    )
    tokens, scores, status = _outputs(logits, requests, places)
    with current(logits) as (index, stream):
        units = torch.cuda.get_device_properties(index).multi_processor_count
        pointers, _workspace = rows.device(logits, units)
        results: Pointers = {"tokens": address(tokens), "status": address(status)}
        if children:
            results |= {"scores": address(scores), "places": places}
            _core.hip_coupled_children(index, stream, LOGITS[logits.dtype], pointers, results)
        else:
            _core.hip_target_tokens(index, stream, LOGITS[logits.dtype], pointers, results)
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
    bias: Bias | None = None,
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
    rows = Rows.checked(logits, requests, positions, seeds, temperatures, top_k, top_p, min_p, bias, allowed)
    tokens, _, status = _race(logits, *rows, 1, False)
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
    bias: Bias | None = None,
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
    rows = Rows.checked(logits, requests, positions, seeds, temperatures, top_k, top_p, min_p, bias, allowed)
    return CoupledChildren(*_race(logits, *rows, k, True))
