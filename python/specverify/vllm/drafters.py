"""Proposers for vLLM's ``custom_class`` interface.

A class that inherits from `Proposer`, ours or yours, chooses specverify's sampler (see `plugin`). vLLM calls `propose` once a
step with arrays by slot of the batch; requests move between slots, are preempted, aborted, and their ids reused, so state is
kept by the runner's own record of a request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

import specverify as sv

if TYPE_CHECKING:
    from vllm.config import VllmConfig

TokenTable = npt.NDArray[np.int32]

KEY = "specverify"
"""Of ``additional_config``: what stands under it are a proposer's options."""


def options(vllm_config: VllmConfig) -> Any:
    """Return what ``additional_config`` holds under `KEY`: a dict where it is well formed, an empty one where there is nothing."""
    given = vllm_config.additional_config
    return given.get(KEY, {}) if isinstance(given, dict) else {}


class Proposer:
    """Base of all proposers: knows the runner, the limits of a draft, and nothing of how to draft.

    Parameters
    ----------
    vllm_config : vllm.config.VllmConfig
        vLLM constructs the proposer in the worker.

    Raises
    ------
    RuntimeError
        Where specverify's worker is not the one in use: verification would be vLLM's, which is another law.
    """

    OPTIONS: ClassVar[tuple[str, ...]] = ()
    """Names that ``additional_config["specverify"]`` may hold."""

    def __init__(self, vllm_config: VllmConfig) -> None:
        worker = vllm_config.parallel_config.worker_cls
        if not str(worker).startswith("specverify."):
            raise RuntimeError(
                f"specverify's plug-in is not active (worker_cls is {worker!r}): install specverify so that its "
                "'vllm.general_plugins' entry point is found, and let VLLM_PLUGINS, if set, name 'specverify'"
            )
        self._max_drafts: int = vllm_config.speculative_config.num_speculative_tokens
        self._max_model_len: int = vllm_config.model_config.max_model_len
        self._runner: Any = None

    @classmethod
    def check(cls, options: dict[str, Any]) -> None:
        """Raise for option values out of their domain. Called before any weight is read."""

    def load_model(self, target_model: Any) -> None:
        """Nothing to load. Part of vLLM's interface."""

    def bind(self, runner: Any) -> None:
        """Tell the proposer where the requests live.

        Parameters
        ----------
        runner : object
            Has `input_batch.req_ids` (id by slot) and `requests` (record by id: `sampling_params`, `num_prompt_tokens`).
        """
        self._runner = runner

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: npt.NDArray[np.int32],
        token_ids_cpu: TokenTable,
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """Draft a chain for each slot.

        Parameters
        ----------
        sampled_token_ids : sequence of sequence of int
            By slot, what this step emitted; empty for an unfinished prompt or a request that ends with an error.
        num_tokens_no_spec : numpy.ndarray
            [slots] tokens known, those just emitted included.
        token_ids_cpu : numpy.ndarray
            int32 [slots, max_model_len].
        slot_mappings : object
            Not used. Part of vLLM's interface.

        Returns
        -------
        list of list of int
            Never longer than what the request may still emit less one: the token after the drafts is the target's.
        """
        self._forget(self._runner.requests)
        drafts = []
        for slot, emitted in enumerate(sampled_token_ids):
            known = int(num_tokens_no_spec[slot])
            request_id = self._runner.input_batch.req_ids[slot]
            record = self._runner.requests[request_id]
            room = min(self._max_drafts, self._max_model_len - known - 1)
            if (max_tokens := record.sampling_params.max_tokens) is not None:
                room = min(room, record.num_prompt_tokens + max_tokens - known - 1)
            drafts.append(
                self.draft(request_id, record, token_ids_cpu[slot, :known], room) if emitted and room > 0 else []
            )
        return drafts

    def draft(self, request_id: str, record: Any, tokens: npt.NDArray[np.int32], room: int) -> list[int]:
        """Draft one request's chain. What a proposer of your own defines.

        Parameters
        ----------
        request_id : str
        record : object
            The runner's record of the request; the same object for as long as the request lives.
        tokens : numpy.ndarray
            int32, prompt and output known. A view: copy what outlives the call.
        room : int
            At least 1; tokens beyond it are not to be drafted.

        Returns
        -------
        list of int
            Any tokens at all: they decide how fast the text comes, never what it says.
        """
        raise NotImplementedError

    def _forget(self, live: dict[str, Any]) -> None:
        """Drop the state of requests that are not in `live`."""


class NoProposer(Proposer):
    """Drafts nothing: specverify's sampler alone. The run that every other proposer must equal, token for token."""

    def draft(self, request_id: str, record: Any, tokens: npt.NDArray[np.int32], room: int) -> list[int]:
        """Draft nothing."""
        return []


class IndexProposer(Proposer):
    """A proposer over one of specverify's model-free drafters, which index each request's text as it grows."""

    DRAFTER: ClassVar[type[Any]]

    def __init__(self, vllm_config: VllmConfig) -> None:
        super().__init__(vllm_config)
        self._drafter = self.DRAFTER(**options(vllm_config))
        # By request id: the runner's record, and how many of its tokens are indexed.
        self._indexed: dict[str, tuple[Any, int]] = {}

    @classmethod
    def check(cls, options: dict[str, Any]) -> None:
        """Raise `specverify.SpecVerifyError` for a value that the drafter refuses."""
        cls.DRAFTER(**options)

    def draft(self, request_id: str, record: Any, tokens: npt.NDArray[np.int32], room: int) -> list[int]:
        """Index what is new of the request's text, then draft from it."""
        held, indexed = self._indexed.get(request_id, (None, 0))
        if held is not record or indexed > len(tokens):
            # New, an id used again, or tokens taken back (a failed KV load).
            if held is not None:
                self._drafter.stop(request_id)
            prompt_end = min(record.num_prompt_tokens, len(tokens))
            self._drafter.start(request_id, tokens[:prompt_end])
            indexed = prompt_end
        if indexed < len(tokens):
            self._drafter.extend(request_id, tokens[indexed:])
        self._indexed[request_id] = (record, len(tokens))
        return self._drafter.draft(request_id, room).tokens  # type: ignore[no-any-return]

    def _forget(self, live: dict[str, Any]) -> None:
        # Preempted requests stay: their text does not change while they wait, and their pending drafts are the scheduler's.
        gone = [request_id for request_id, (record, _) in self._indexed.items() if live.get(request_id) is not record]
        for request_id in gone:
            del self._indexed[request_id]
            self._drafter.stop(request_id)


class SuffixProposer(IndexProposer):
    """Drafts what followed the longest suffix of the text that was seen before (SuffixDecoding, 2411.04975)."""

    DRAFTER = sv.SuffixDrafter
    OPTIONS = ("max_depth", "min_match", "max_spec_factor", "max_spec_offset", "min_token_prob", "corpus_bytes")


class NgramProposer(IndexProposer):
    """Drafts what followed the last few tokens where they stood before (prompt lookup)."""

    DRAFTER = sv.NgramDrafter
    OPTIONS = ("min_n", "max_n", "occurrence")
