"""Adapters for vLLM's V1 model runner: its worker with our sampler in place of vLLM's two.

The V1 runner samples through `runner.sampler` (no drafts; not used by recent versions once a proposer is configured) and
`runner.rejection_sampler`. Both keep their class, since the runner uses other methods of theirs (prompt logprobs), and get a
`forward` of ours.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from vllm.v1.outputs import SamplerOutput
from vllm.v1.worker.cpu_worker import CPUWorker as VllmCPUWorker

import specverify as sv
from specverify.vllm.sampler import Sampler, Served, Turn, Unservable, serve
from specverify.vllm.scheduler import ERRORS

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import GrammarOutput
    from vllm.v1.outputs import ModelRunnerOutput
    from vllm.v1.sample.metadata import SamplingMetadata
    from vllm.v1.spec_decode.metadata import SpecDecodeMetadata

logger = logging.getLogger(__name__)
# Below vLLM's own logger, which has the handler and the level; what others say at INFO is not shown.
status = logging.getLogger("vllm.specverify")

_NO_TOKENS = np.empty(0, dtype=np.int32)


class CPUWorker(VllmCPUWorker):  # type: ignore[misc]
    """vLLM's CPU worker, selected by `plugin.select`."""

    def init_device(self) -> None:
        """Build vLLM's runner, then put our sampler in and tell the proposer where requests live."""
        with _no_word_of_min_p_and_logit_bias():
            super().init_device()
        self.specverify = RunnerSampler(self.model_runner)
        if self.rank == 0:
            speculative = self.vllm_config.speculative_config
            status.info(
                "specverify verifies every request: proposer %s, num_speculative_tokens %d, rule target_only (greedy at "
                "temperature 0); min_p and logit_bias are served",
                speculative.model,
                speculative.num_speculative_tokens,
            )

    def sample_tokens(self, grammar_output: GrammarOutput | None) -> ModelRunnerOutput:
        """As vLLM, with the requests that could not be served named on the output (see `scheduler`)."""
        output = super().sample_tokens(grammar_output)
        if errors := self.specverify.take_errors():
            setattr(output, ERRORS, errors)
        return output


@contextmanager
def _no_word_of_min_p_and_logit_bias() -> Iterator[None]:
    """Drop vLLM's warning at start-up that these don't work with speculative decoding. With our sampler they do."""

    def is_true(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith("min_p and logit_bias parameters won't work")

    source = logging.getLogger("vllm.v1.sample.logits_processor")
    source.addFilter(is_true)
    try:
        yield
    finally:
        source.removeFilter(is_true)


class RunnerSampler:
    """Turns the V1 runner's state into `Turn`s.

    Parameters
    ----------
    runner : vllm.v1.worker.gpu_model_runner.GPUModelRunner
        Its two samplers' `forward` are replaced, its drafter is bound to it.
    """

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._engine_seed: int = runner.model_config.seed or 0
        self._sampler = Sampler(runner.model_config.logprobs_mode)
        # By request id, with the runner's record of the request: ids are reused, records are not.
        self._served: dict[str, tuple[Any, Served, str | None]] = {}
        self._errors: dict[str, str] = {}
        runner.sampler.forward = self._without_drafts
        runner.rejection_sampler.forward = self._with_drafts
        runner.drafter.bind(runner)
        # The runner drafts zeros where a draft model would not fit below max_model_len. Ours is no model and heeds the limit.
        runner.effective_drafter_max_model_len = runner.max_model_len + runner.num_spec_tokens

    def take_errors(self) -> dict[str, str]:
        """Reasons by request id since the last call."""
        errors, self._errors = self._errors, {}
        return errors

    def _without_drafts(self, logits: torch.Tensor, sampling_metadata: SamplingMetadata, **_: Any) -> SamplerOutput:
        return self._sample(logits, sampling_metadata, [[] for _ in range(logits.shape[0])])

    def _with_drafts(
        self,
        metadata: SpecDecodeMetadata,
        draft_probs: torch.Tensor | None,
        logits: torch.Tensor,
        sampling_metadata: SamplingMetadata,
    ) -> SamplerOutput:
        tokens = metadata.draft_token_ids.tolist()
        ends = np.cumsum(metadata.num_draft_tokens).tolist()
        drafts = [tokens[end - count : end] for end, count in zip(ends, metadata.num_draft_tokens, strict=True)]
        return self._sample(logits, sampling_metadata, drafts)

    def _sample(self, logits: torch.Tensor, metadata: SamplingMetadata, drafts: list[list[int]]) -> SamplerOutput:
        batch = self._runner.input_batch
        if metadata is batch.sampling_metadata:
            step = self._sampler.sample(logits, self._turns(drafts))
            self._report(step.errors)
        else:  # the runner's warm-up, whose requests exist in the metadata only
            step = self._sampler.sample(logits, _warm_up_turns(metadata, drafts))
        return SamplerOutput(sampled_token_ids=step.tokens, logprobs_tensors=step.logprobs)

    def _turns(self, drafts: list[list[int]]) -> list[Turn]:
        batch, requests = self._runner.input_batch, self._runner.requests
        # vLLM's generators are not drawn from. The runner rewinds those of unfinished prompts, which a CPU generator can't.
        batch.generators.clear()
        if len(self._served) > len(requests):
            self._served = {request_id: entry for request_id, entry in self._served.items() if request_id in requests}
        turns = []
        for index, drafted in enumerate(drafts):
            request_id = batch.req_ids[index]
            served, refused = self._serve(request_id, requests[request_id])
            prompt_end, known = int(batch.num_prompt_tokens[index]), int(batch.num_tokens_no_spec[index])
            tokens = batch.token_ids_cpu[index]
            turns.append(Turn(served, known, drafted, tokens[:prompt_end], tokens[prompt_end:known], refused))
        return turns

    def _serve(self, request_id: str, record: Any) -> tuple[Served, str | None]:
        entry = self._served.get(request_id)
        if entry is None or entry[0] is not record:
            try:
                served, refused = serve(record.sampling_params, sv.derive_seed(self._engine_seed, request_id)), None
            except Unservable as error:  # the front end rejects these; one that comes another way ends here
                served, refused = _GREEDY, str(error)
            entry = self._served[request_id] = (record, served, refused)
        return entry[1], entry[2]

    def _report(self, errors: dict[int, str]) -> None:
        discarded = self._runner.discard_request_mask.np
        for index, reason in errors.items():
            if not discarded[index]:  # an unfinished prompt's row means nothing
                request_id = self._runner.input_batch.req_ids[index]
                logger.error("request %s ends: %s", request_id, reason)
                self._errors[request_id] = reason


_GREEDY = Served(sv.SamplingParams(temperature=0.0), [], reads_prompt=False, reads_output=False)


def _warm_up_turns(metadata: SamplingMetadata, drafts: Sequence[list[int]]) -> list[Turn]:
    temperatures = [0.0] * len(drafts) if metadata.temperature is None else metadata.temperature.tolist()
    top_ps = [1.0] * len(drafts) if metadata.top_p is None else metadata.top_p.tolist()
    return [
        Turn(
            Served(sv.SamplingParams(temperature=temperature, top_p=top_p, seed=index), [], False, False),
            1,
            drafted,
            _NO_TOKENS,
            _NO_TOKENS,
        )
        for index, (temperature, top_p, drafted) in enumerate(zip(temperatures, top_ps, drafts, strict=True))
    ]
