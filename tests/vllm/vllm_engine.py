"""vLLM engines in this process, in fp32 (token-for-token equality needs equal logits), and what a test lets them draft."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Before vLLM is imported. One engine in the test's own process; no spinning OpenMP threads (a decode step: 4 to 14 times faster).
os.environ.update(
    HF_HUB_OFFLINE="1",
    VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    VLLM_NO_USAGE_STATS="1",
    VLLM_LOGGING_LEVEL="ERROR",
    GOMP_SPINCOUNT="0",
    OMP_WAIT_POLICY="passive",
    KMP_BLOCKTIME="0",
    TORCHDYNAMO_DISABLE="1",  # vLLM compiles a helper of its logprobs: a minute
)

from scripted_proposer import Script, ScriptedProposer

from specverify.vllm import plugin

VOCAB = 512
EOS = 2

# vLLM finds the entry point of an installed package; the tests must also run from a source tree.
plugin.register()


@dataclass
class Counts:
    """Of an engine, over a while."""

    drafted: int = 0
    accepted: int = 0
    preempted: int = 0


@contextmanager
def _listening(said: list[str]) -> Iterator[None]:
    """Collect what vLLM logs at INFO and above."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, listener = logging.getLogger("vllm"), Listener()
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(listener)


class Engine:
    """An `LLM` over token ids. `said` is what was logged while it started."""

    def __init__(self, model: str, proposer: str | None, **options: Any) -> None:
        from vllm import LLM

        speculative = {"method": "custom_class", "model": proposer, "num_speculative_tokens": 4}
        self.said: list[str] = []
        with _listening(self.said):
            self.llm = LLM(
                model=model,
                dtype="float32",
                enforce_eager=True,
                seed=0,
                disable_log_stats=False,
                **{
                    "max_model_len": 256,
                    "max_num_seqs": 8,
                    "max_num_batched_tokens": 64,  # long prompts are prefilled in chunks
                    "num_gpu_blocks_override": 64,
                    "enable_prefix_caching": False,
                    "speculative_config": speculative if proposer else None,
                    **options,
                },
            )

    @property
    def runner(self) -> Any:
        return self.llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner

    @property
    def scheduler(self) -> Any:
        return self.llm.llm_engine.engine_core.engine_core.scheduler

    def outputs(self, requests: Sequence[tuple[list[int], Any]]) -> list[Any]:
        """vLLM's completion of each (prompt ids, sampling parameters)."""
        done = self.llm.generate(
            [{"prompt_token_ids": prompt} for prompt, _ in requests], [params for _, params in requests], use_tqdm=False
        )
        return [request.outputs[0] for request in done]

    def texts(self, requests: Sequence[tuple[list[int], Any]]) -> list[list[int]]:
        return [list(output.token_ids) for output in self.outputs(requests)]

    @contextmanager
    def counting(self) -> Iterator[Counts]:
        """Count what is drafted, accepted and preempted meanwhile. vLLM's counters are the process's, not an engine's."""
        counts, forward, preempt = Counts(), self.runner.rejection_sampler.forward, self.scheduler._preempt_request

        def counted_forward(metadata: Any, *args: Any) -> Any:
            output = forward(metadata, *args)
            emitted = (output.sampled_token_ids >= 0).sum(1).tolist()
            counts.drafted += sum(metadata.num_draft_tokens)
            counts.accepted += sum(max(tokens - 1, 0) for tokens in emitted)
            return output

        def counted_preempt(*args: Any, **kwargs: Any) -> Any:
            counts.preempted += 1
            return preempt(*args, **kwargs)

        self.runner.rejection_sampler.forward = counted_forward
        self.scheduler._preempt_request = counted_preempt
        try:
            yield counts
        finally:
            self.runner.rejection_sampler.forward = forward
            del self.scheduler._preempt_request

    @contextmanager
    def drafting(self, script: Script | None) -> Iterator[None]:
        """Let `script` draft."""
        before, ScriptedProposer.script = ScriptedProposer.script, script
        try:
            yield
        finally:
            ScriptedProposer.script = before


def nothing(tokens: list[int], room: int) -> list[int]:
    """Draft nothing."""
    return []


def wrong(tokens: list[int], room: int) -> list[int]:
    """Draft tokens that have nothing to do with the model."""
    return [(token * 7 + len(tokens)) % VOCAB for token in tokens[-room:]]


def oracle(texts: Sequence[list[int]]) -> Script:
    """Draft the true continuation out of `texts` (prompt + output each), with every third draft's last token spoiled."""

    def script(tokens: list[int], room: int) -> list[int]:
        for text in texts:
            if text[: len(tokens)] == tokens:
                drafts = text[len(tokens) :][:room]
                if drafts and len(tokens) % 3 == 0:
                    drafts[-1] = (drafts[-1] + 1) % VOCAB
                return drafts
        return []

    return script
