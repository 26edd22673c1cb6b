"""The target's own tokens with their log-probabilities, the most likely ones, and the probabilities of children."""

from typing import Literal, NamedTuple

import torch

from specverify import _core
from specverify.ops import check
from specverify.ops.device import Pointers, address, current
from specverify.ops.rows import LOGITS, Bias, Rows

_Six = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
_MODES = ("raw_logprobs", "processed_logprobs")


class TargetLogprobs(NamedTuple):
    """What `target_logprobs` gives, on the device of the logits."""

    tokens: torch.Tensor
    """int32 [rows], as in `TargetTokens`."""
    status: torch.Tensor
    """int32 [rows], as in `TargetTokens`."""
    logprobs: torch.Tensor
    """float32 [rows], of the token; -inf where the status is not 0."""
    top_ids: torch.Tensor
    """int32 [rows, top], most likely first, -1 after the last."""
    top_logprobs: torch.Tensor
    """float32 [rows, top], -inf after the last."""
    child_probs: torch.Tensor
    """float32 [children]: the probability with which the row draws it; 0 where the status is not 0."""


@torch.library.custom_op("specverify::logprobs", mutates_args=(), device_types="cpu")
def _logprobs(
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
    top: int,
    raw: bool,
    child_offsets: torch.Tensor,
    child_ids: torch.Tensor,
) -> _Six:
    rows = Rows(
        requests, positions, seeds, temperatures, top_k, top_p, min_p, bias_offsets, bias_ids, bias_values, allowed
    )
    whole, real = _core.likely_rows(logits, rows.host(), top, raw, child_offsets.numpy(), child_ids.numpy())
    tokens, status, top_ids = map(torch.from_numpy, whole)
    logprobs, top_logprobs, child_probs = map(torch.from_numpy, real)
    shape = logits.shape[0], top
    return tokens, status, logprobs, top_ids.view(shape), top_logprobs.view(shape), child_probs


@_logprobs.register_kernel("cuda")
def _logprobs_hip(
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
    top: int,
    raw: bool,
    child_offsets: torch.Tensor,
    child_ids: torch.Tensor,
) -> _Six:
    rows = Rows(
        requests, positions, seeds, temperatures, top_k, top_p, min_p, bias_offsets, bias_ids, bias_values, allowed
    )
    outputs = _outputs(logits, requests, top, child_ids)
    tokens, status, logprobs, top_ids, top_logprobs, child_probs = outputs
    with current(logits) as (index, stream):
        units = torch.cuda.get_device_properties(index).multi_processor_count
        pointers, _workspace = rows.device(logits, units, totals=True, raw=raw)
        results: Pointers = {
            "tokens": address(tokens),
            "status": address(status),
            "token_logprobs": address(logprobs),
            "top_ids": address(top_ids),
            "top_logprobs": address(top_logprobs),
            "top": top,
            "raw": int(raw),
        }
        if child_ids.shape[0] > 0:
            results |= {
                "child_offsets": address(child_offsets),
                "child_ids": address(child_ids),
                "child_probabilities": address(child_probs),
            }
        _core.hip_target_tokens(index, stream, LOGITS[logits.dtype], pointers, results)
    return outputs


def _outputs(logits: torch.Tensor, requests: torch.Tensor, top: int, child_ids: torch.Tensor) -> _Six:
    rows = logits.shape[0]
    return (
        requests.new_empty(rows),
        requests.new_empty(rows),
        logits.new_empty(rows, dtype=torch.float32),
        requests.new_empty(rows, top),
        logits.new_empty(rows, top, dtype=torch.float32),
        logits.new_empty(child_ids.shape[0], dtype=torch.float32),
    )


@_logprobs.register_fake
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
    top: int,
    raw: bool,
    child_offsets: torch.Tensor,
    child_ids: torch.Tensor,
) -> _Six:
    return _outputs(logits, requests, top, child_ids)


def target_logprobs(
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
    top: int = 0,
    logprobs_mode: Literal["raw_logprobs", "processed_logprobs"] = "raw_logprobs",
    children: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> TargetLogprobs:
    """Give what `target_tokens` gives, and how likely the token, the most likely ones and given ids are.

    Costs one more pass over the rows than `target_tokens`, on request only: call this where log-probabilities are wanted.

    Parameters
    ----------
    logits, requests, positions, seeds, temperatures, top_k, top_p, min_p, bias, allowed
        As in `target_tokens`.
    top : int, default 0
        How many of the most likely tokens; on a GPU at most 64.
    logprobs_mode : {'raw_logprobs', 'processed_logprobs'}, default 'raw_logprobs'
        Of the logits as they came, or of what bias, mask, temperature and filters leave (vLLM's names).
    children : tuple of torch.Tensor, optional
        int32 [rows + 1] offsets and int32 ids: those of a row's children in a draft tree, whose probabilities are wanted.

    Returns
    -------
    TargetLogprobs
        `tokens`, `status`, `logprobs`, `top_ids`, `top_logprobs` and `child_probs`. The host's and a GPU's log-probabilities differ in
        the last place at most; tokens and ids do not.

    Raises
    ------
    ShapeError, DtypeError, ArgumentError, HipError
        As `target_tokens`.
    """
    rows = Rows.checked(logits, requests, positions, seeds, temperatures, top_k, top_p, min_p, bias, allowed)
    check.at_least("top", top, 0)
    if logprobs_mode not in _MODES:
        raise _core.ArgumentError(f"logprobs_mode is {logprobs_mode!r}; expected {' or '.join(map(repr, _MODES))}")
    count = logits.shape[0]
    offsets, ids = children if children is not None else (requests.new_zeros(count + 1), requests.new_empty(0))
    check.ints("children[0]", offsets, f"[{count + 1}], rows + 1", count + 1)
    check.ints("children[1]", ids, "[children]", None)
    check.one_device(logits=logits, **{"children[0]": offsets, "children[1]": ids})
    raw = logprobs_mode == "raw_logprobs"
    return TargetLogprobs(*_logprobs(logits, *rows, top, raw, offsets, ids))
