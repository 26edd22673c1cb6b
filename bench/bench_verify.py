"""Verification side by side: reading the logits once, specverify, and vLLM's CPU rejection sampler with its constraints step."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

import specverify as sv
from bench.inputs import LARGE, Pool, Shape, pool

PLAIN = (("temperature", 0.8),)
FILTERED = (("temperature", 0.8), ("top_k", 20), ("top_p", 0.95))
SHAPES = [
    (Shape(batch=32, vocab=LARGE, logits="recorded"), PLAIN),
    (Shape(batch=32, vocab=LARGE), PLAIN),
    (Shape(batch=8, vocab=LARGE), PLAIN),
    (Shape(batch=1, vocab=LARGE), PLAIN),
    (Shape(batch=32, vocab=32_000), PLAIN),
    (Shape(batch=32, vocab=248_320), PLAIN),
    (Shape(batch=32, vocab=LARGE, dtype=torch.bfloat16), PLAIN),
    (Shape(batch=32, vocab=LARGE), FILTERED),
]
TREES = [(Shape(batch=8, vocab=LARGE, drafts=nodes), PLAIN) for nodes in (16, 64)]
WITH_Q = [
    (Shape(batch=32, vocab=LARGE, logits="recorded"), PLAIN),
    (Shape(batch=32, vocab=LARGE), PLAIN),
    (Shape(batch=1, vocab=LARGE), PLAIN),
]


def name(case: Any) -> str:
    shape, sampling = case
    return f"{shape}, " + ", ".join(f"{key} {value:g}" for key, value in sampling)


def measure(benchmark: Any, group: str, label: str, source: Pool, call: Any, rounds: int, restore: Any = None) -> None:
    """Time `call(index)` on batches in turn, each read long enough ago to have left the cache."""
    benchmark.group = group
    benchmark.extra_info["label"] = label
    benchmark.pedantic(
        call, setup=lambda: ((source.next(),), {}), teardown=restore, rounds=rounds, iterations=1, warmup_rounds=2
    )


@cache
def vllm_sampler() -> Any:
    """vLLM's rejection sampler outside an engine, with its CPU kernels, and with vllm #55005 mended."""
    from vllm.platforms import current_platform

    current_platform.import_kernels()
    current_platform.register_triton_kernel_overrides()
    from vllm.v1.sample import rejection_sampler

    def expand(x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0) -> Any:
        x = torch.where(x == replace_from, replace_to, x) if replace_from != replace_to else x
        counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
        return torch.repeat_interleave(x, counts.long(), output_size=num_tokens)

    rejection_sampler.expand_batch_to_tokens = expand
    return rejection_sampler


def vllm_call(source: Pool, sampling: tuple[tuple[str, float], ...], with_q: bool) -> Any:
    """vLLM's constraints step and rejection sampler on a batch; the bonus token, sampled elsewhere, is left out."""
    from vllm.v1.sample.logits_processor import LogitsProcessors
    from vllm.v1.sample.metadata import SamplingMetadata

    sampler = vllm_sampler()
    shape, given = source.shape, dict(sampling)

    def full(value: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.full((shape.batch,), value, dtype=dtype)

    metadata = SamplingMetadata(
        temperature=full(given["temperature"], torch.float32),
        all_greedy=False,
        all_random=True,
        top_p=full(given["top_p"], torch.float32) if "top_p" in given else None,
        top_k=full(int(given["top_k"]), torch.int32) if "top_k" in given else None,
        generators={},
        max_num_logprobs=None,
        no_penalties=True,
        prompt_token_ids=None,
        frequency_penalties=torch.zeros(shape.batch),
        presence_penalties=torch.zeros(shape.batch),
        repetition_penalties=torch.ones(shape.batch),
        output_token_ids=[[] for _ in range(shape.batch)],
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=LogitsProcessors(),
    )
    counts = [shape.drafts] * shape.batch
    cumulative = torch.arange(1, shape.batch + 1, dtype=torch.int32) * shape.drafts
    bonus = torch.zeros(shape.batch, 1, dtype=torch.int32)
    trees = source.drawn if with_q else source.accepted
    drafts = [torch.tensor([token for tree in batch for token in tree.tokens], dtype=torch.int32) for batch in trees]
    kept = torch.arange(shape.rows).view(shape.batch, -1)[:, : shape.drafts].flatten()
    # vLLM gathers the rows of drafts before it calls these functions; the copies are made here, outside the clock.
    rows = [logits[kept].float() for logits in source.logits]
    q = [probs[kept] for probs in source.draft_probs] if with_q else [None] * len(rows)

    def call(index: int) -> Any:
        constrained = sampler.apply_sampling_constraints(rows[index], cumulative, metadata)
        return sampler.rejection_sample(
            drafts[index], counts, shape.drafts, cumulative, q[index], constrained, bonus, metadata
        )

    def restore(index: int) -> None:
        # The constraints step divides in place.
        rows[index].copy_(source.logits[index][kept])

    return call, restore


def target_only(source: Pool) -> Any:
    """specverify on a batch, the whole chain accepted."""
    trees = source.accepted

    def call(index: int) -> Any:
        return sv.verify_batch(
            source.logits[index],
            trees[index],
            rule="target_only",
            samplings=source.samplings,
            positions=source.positions,
        )

    assert all(len(outcome.path) == source.shape.depth for outcome in call(0))
    return call


@pytest.mark.parametrize("case", SHAPES, ids=name, scope="class")
class TestTargetOnly:
    """All drafts are accepted, so every row is read; vLLM's sampler reads all rows whatever is accepted."""

    def test_read(self, benchmark: Any, case: Any) -> None:
        source = pool(*case)
        call = lambda index: source.logits[index].amax(-1)  # noqa: E731
        measure(benchmark, f"target_only: {name(case)}", "torch.amax (one read)", source, call, rounds=24)

    def test_specverify(self, benchmark: Any, case: Any) -> None:
        source = pool(*case)
        measure(benchmark, f"target_only: {name(case)}", "specverify", source, target_only(source), rounds=24)

    def test_vllm(self, benchmark: Any, case: Any) -> None:
        source = pool(*case)
        call, restore = vllm_call(source, case[1], with_q=False)
        measure(benchmark, f"target_only: {name(case)}", "vLLM", source, call, rounds=12, restore=restore)


@pytest.mark.parametrize("case", TREES, ids=name, scope="class")
class TestTree:
    """Only the rows of the accepted path are read; the baseline reads those and no others."""

    def test_read(self, benchmark: Any, case: Any) -> None:
        source = pool(*case)
        shape = source.shape

        def call(index: int) -> Any:
            reached = source.logits[index].view(shape.batch, shape.drafts + 1, -1)[:, : shape.depth + 1]
            return reached.amax(-1)

        measure(benchmark, f"tree: {name(case)}", "torch.amax (one read of the path)", source, call, rounds=24)

    def test_specverify(self, benchmark: Any, case: Any) -> None:
        source = pool(*case)
        call = target_only(source)
        measure(benchmark, f"tree: {name(case)}", "specverify", source, call, rounds=24)


@pytest.mark.parametrize("case", WITH_Q, ids=name, scope="class")
class TestBlock:
    """Chains drawn from q and verified by ratios."""

    def test_read(self, benchmark: Any, case: Any) -> None:
        source = pool(*case)
        q = source.draft_probs
        call = lambda index: (source.logits[index].amax(-1), q[index].amax(-1))  # noqa: E731
        measure(benchmark, f"block: {name(case)}", "torch.amax (p and q, one read)", source, call, rounds=24)

    def test_specverify(self, benchmark: Any, case: Any) -> None:
        source = pool(*case)
        trees, q = source.drawn, source.draft_probs

        def call(index: int) -> Any:
            return sv.verify_batch(
                source.logits[index],
                trees[index],
                rule="block",
                draft_probs=q[index],
                samplings=source.samplings,
                positions=source.positions,
            )

        assert not any(outcome.error for outcome in call(0))
        measure(benchmark, f"block: {name(case)}", "specverify", source, call, rounds=24)

    def test_vllm(self, benchmark: Any, case: Any) -> None:
        source = pool(*case)
        call, restore = vllm_call(source, case[1], with_q=True)
        measure(benchmark, f"block: {name(case)}", "vLLM (token rule)", source, call, rounds=12, restore=restore)
