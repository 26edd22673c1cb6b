"""vLLM's scheduler, which also ends the requests that the sampler could not serve.

A worker has no way of its own to end a request: one that emits nothing would be scheduled for ever. So the worker says why
on its output, and the scheduler finishes the request with an error and that reason. The engine and the others go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler
from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
from vllm.v1.request import RequestStatus

if TYPE_CHECKING:
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.outputs import ModelRunnerOutput

ERRORS = "specverify_errors"
"""Attribute of the worker's output: dict of request id to reason."""


class Scheduler(VllmScheduler):  # type: ignore[misc]
    """Selected by `plugin.select`."""

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> dict[int, EngineCoreOutputs]:
        """As vLLM, then finish the requests named in `ERRORS`; the reason becomes their `stop_reason`."""
        outputs: dict[int, EngineCoreOutputs] = super().update_from_output(scheduler_output, model_runner_output)
        for request_id, reason in getattr(model_runner_output, ERRORS, {}).items():
            request = self.requests.get(request_id)
            if request is None or request.is_finished():
                continue
            self.finish_requests(request_id, RequestStatus.FINISHED_ERROR)
            client = outputs.setdefault(request.client_index, EngineCoreOutputs())
            client.outputs = [
                *client.outputs,
                EngineCoreOutput(
                    request_id=request_id,
                    new_token_ids=[],
                    finish_reason=request.get_finished_reason(),
                    stop_reason=reason,
                    events=request.take_events(),
                    trace_headers=request.trace_headers,
                ),
            ]
        return outputs
