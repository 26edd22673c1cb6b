"""The target's own token for every request of a step, with drafts and without.

Knows vLLM's sampling parameters and output types, and no runner: an adapter (`runner_v1`) tells it, per request, what was
drafted, which tokens came before, and what the request asked for. One call of `specverify.verify_batch` serves the step over
the logits where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import torch

import specverify as sv

if TYPE_CHECKING:
    from vllm.sampling_params import SamplingParams
    from vllm.v1.outputs import LogprobsTensors

PLACEHOLDER = -1
"""Fills the columns of a request that emitted fewer tokens than the widest one; vLLM drops it."""


class Unservable(sv.SpecVerifyError, ValueError):
    """A request that this version can't serve, and why. Ends or rejects that request, never the engine."""


LogprobsMode = Literal["raw_logprobs", "processed_logprobs"]

_NOTHING = sv.DraftTree.chain([])


@dataclass(frozen=True, slots=True)
class Served:
    """A request's parameters in our terms, fixed for its life.

    Attributes
    ----------
    params : specverify.SamplingParams
        With the seed in force.
    stop_token_ids : list of int
        Nothing is emitted after one of these, and `min_tokens` bans them.
    reads_prompt, reads_output : bool
        Whether a row depends on the tokens before it, other than through the logits.
    """

    params: sv.SamplingParams
    stop_token_ids: list[int]
    reads_prompt: bool
    reads_output: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """One request's part in one step.

    Attributes
    ----------
    served : Served
    position : int
        Of the step's first emitted token: the number of tokens known before it, prompt and output.
    drafts : list of int
        The chain that the scheduler let through; may be empty. From a `PLACEHOLDER` on it is padding: those rows exist, but
        nothing was drafted, so at most one token more than stands before it is emitted.
    prompt, output : numpy.ndarray
        int32, the tokens known; read only where `served` says so.
    refused : str or None
        Why nothing is to be emitted. The rows are there all the same.
    """

    served: Served
    position: int
    drafts: list[int]
    prompt: npt.NDArray[np.int32]
    output: npt.NDArray[np.int32]
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What a step emitted.

    Attributes
    ----------
    tokens : torch.Tensor
        int32 [batch, width], width the longest drafted chain plus one, padded with `PLACEHOLDER`. At least two wide where a
        request failed: vLLM filters placeholders from wide outputs only.
    logprobs : vllm.v1.outputs.LogprobsTensors or None
        [batch * width, k + 1], the emitted token first, then the k likeliest; k the most that a request of the step asked for.
    errors : dict of int to str
        Why a request (by its index in the batch) emitted nothing.
    """

    tokens: torch.Tensor
    logprobs: LogprobsTensors | None
    errors: dict[int, str]


def serve(params: SamplingParams, seed: int) -> Served:
    """Translate vLLM's parameters of one request.

    Parameters
    ----------
    params : vllm.SamplingParams
    seed : int
        Used where the request names none.

    Raises
    ------
    Unservable
        Names the parameter, its value and what was expected.
    """
    if params.logprobs == -1:
        raise Unservable(
            "logprobs is -1: expected a number of tokens; the logprobs of a whole vocabulary are not returned"
        )
    if ids := getattr(params, "logprob_token_ids", None):
        raise Unservable(f"logprob_token_ids is {ids}: expected None; logprobs are those of the likeliest tokens")
    if (budget := getattr(params, "thinking_token_budget", None)) is not None:
        raise Unservable(
            f"thinking_token_budget is {budget}: expected None; a budget rewrites logits by what was drafted before them"
        )
    greedy = params.temperature < 1e-5  # vLLM's threshold
    try:
        ours = sv.SamplingParams(
            temperature=0.0 if greedy else params.temperature,
            top_p=params.top_p,
            top_k=max(params.top_k, 0),
            min_p=params.min_p,
            presence_penalty=params.presence_penalty,
            frequency_penalty=params.frequency_penalty,
            repetition_penalty=params.repetition_penalty,
            # vLLM takes any integer; ours is the same one modulo 2**64.
            seed=(seed if params.seed is None else params.seed) & 0xFFFF_FFFF_FFFF_FFFF,
            min_tokens=params.min_tokens,
            logit_bias=params.logit_bias or None,
            allowed_token_ids=params.allowed_token_ids or None,
            bad_words_token_ids=params.bad_words_token_ids or None,
            logprobs=params.logprobs,
        )
    except sv.SpecVerifyError as error:
        raise Unservable(str(error)) from error
    # With ignore_eos the end-of-sequence id is among `all_stop_token_ids`, which min_tokens bans, but does not stop.
    stops = set(params.stop_token_ids or ())
    if params.eos_token_id is not None:
        stops.add(params.eos_token_id)
    if params.min_tokens > 0:
        stops |= params.all_stop_token_ids
    penalised = params.presence_penalty != 0.0 or params.frequency_penalty != 0.0 or params.repetition_penalty != 1.0
    return Served(
        params=ours,
        stop_token_ids=sorted(stops),
        reads_prompt=params.repetition_penalty != 1.0,
        reads_output=penalised or bool(params.bad_words_token_ids) or params.min_tokens > 0,
    )


class Sampler:
    """Serves steps.

    Parameters
    ----------
    logprobs_mode : {"raw_logprobs", "processed_logprobs"}
        The engine's.
    """

    def __init__(self, logprobs_mode: LogprobsMode = "raw_logprobs") -> None:
        self._logprobs_mode = logprobs_mode

    def sample(self, logits: torch.Tensor, turns: Sequence[Turn]) -> Step:
        """Emit each request's tokens.

        Parameters
        ----------
        logits : torch.Tensor
            [sum of len(drafts) + 1, V], on the CPU, f32, bf16 or f16: the rows of a request follow one another, the first
            predicts the token after those known, row i + 1 the token after draft i. Read in place, not changed.
        turns : sequence of Turn
            In the order of the rows.

        Returns
        -------
        Step
        """
        outcomes = sv.verify_batch(
            logits,
            [
                sv.DraftTree.chain([max(token, 0) for token in turn.drafts]) if turn.drafts else _NOTHING
                for turn in turns
            ],
            samplings=[turn.served.params for turn in turns],
            positions=[turn.position for turn in turns],
            prompt_token_ids=[turn.prompt if turn.served.reads_prompt else () for turn in turns],
            output_token_ids=[turn.output if turn.served.reads_output else () for turn in turns],
            stop_token_ids=[turn.served.stop_token_ids for turn in turns],
            logprobs_mode=self._logprobs_mode,
        )
        errors = {}
        emitted: list[list[int]] = []
        for index, (turn, outcome) in enumerate(zip(turns, outcomes, strict=True)):
            if turn.refused or outcome.error:
                errors[index] = turn.refused or str(outcome.error)
                emitted.append([])
            else:
                drafted = turn.drafts.index(PLACEHOLDER) if PLACEHOLDER in turn.drafts else len(turn.drafts)
                emitted.append(outcome.tokens[: drafted + 1])
        width = max(len(turn.drafts) for turn in turns) + 1
        tokens = np.full((len(turns), max(width, 2) if errors else width), PLACEHOLDER, dtype=np.int32)
        for index, row in enumerate(emitted):
            tokens[index, : len(row)] = row
        return Step(torch.from_numpy(tokens), _logprobs(turns, outcomes, tokens), errors)


def _logprobs(
    turns: Sequence[Turn], outcomes: Sequence[sv.Outcome], tokens: npt.NDArray[np.int32]
) -> LogprobsTensors | None:
    """Lay out what the outcomes hold as vLLM reads it; rows of placeholders and of requests that did not ask are zeros."""
    asked = [turn.served.params.logprobs for turn in turns]
    most = max((k for k in asked if k is not None), default=None)
    if most is None:
        return None
    from vllm.v1.outputs import LogprobsTensors

    batch, width = tokens.shape
    ids = np.zeros((batch, width, most + 1), dtype=np.int32)
    values = np.zeros((batch, width, most + 1), dtype=np.float32)
    ranks = np.zeros((batch, width), dtype=np.int64)
    for index, (k, outcome) in enumerate(zip(asked, outcomes, strict=True)):
        if k is None:
            continue
        for column, (logprob, rank, top) in enumerate(
            zip(outcome.logprobs, outcome.ranks, outcome.top_logprobs, strict=True)
        ):
            ids[index, column, 0], values[index, column, 0], ranks[index, column] = (
                outcome.tokens[column],
                logprob,
                rank,
            )
            for place, (token, value) in enumerate(_filled(top, k), start=1):
                ids[index, column, place], values[index, column, place] = token, value
    return LogprobsTensors(
        torch.from_numpy(ids.reshape(-1, most + 1)),
        torch.from_numpy(values.reshape(-1, most + 1)),
        torch.from_numpy(ranks.reshape(-1)),
    )


def _filled(top: list[tuple[int, float]], k: int) -> list[tuple[int, float]]:
    """`k` tokens: where filters leave fewer, vLLM lists others at -inf. Distinct ids, since its front end keys by them."""
    if len(top) < k:
        kept = {token for token, _ in top}
        others = (token for token in count() if token not in kept)
        top = [*top, *((token, float("-inf")) for token in islice(others, k - len(top)))]
    return top
