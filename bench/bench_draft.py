"""Model-free drafters side by side: specverify, arctic-inference's suffix decoding, vLLM's n-gram proposer.

Each benchmark decodes real text, the standard library's argparse in words: a prompt, then step after step one more token of
the text and a draft of up to eight, as an engine does when nothing is accepted.
"""

from __future__ import annotations

import argparse
import inspect
import re
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import specverify as sv

PROMPT, STEPS, DRAFTS = 8_000, 500, 8
BATCHES = (1, 32)
# vLLM's defaults: suffix_decoding_max_tree_depth (arctic-inference's own is 64), prompt_lookup_min and _max.
DEPTHS = (24, 64)
MIN_N, MAX_N = 2, 5


@cache
def text() -> npt.NDArray[np.int32]:
    """Words, runs of space and single signs, numbered as they come."""
    words = re.findall(r"\w+|\s+|[^\w\s]", inspect.getsource(argparse))
    ids: dict[str, int] = {}
    tokens = np.array([ids.setdefault(word, len(ids)) for word in words], dtype=np.int32)
    assert len(tokens) >= PROMPT + STEPS
    return tokens


def accepted(drafts: list[list[int]]) -> float:
    """Mean number of drafted tokens that stood, had the text been the target's."""
    total = 0
    for step, draft in enumerate(drafts):
        for token, drafted in zip(text()[PROMPT + step + 1 :], draft, strict=False):
            if token != drafted:
                break
            total += 1
    return total / len(drafts)


class Suffix:
    def __init__(self, depth: int) -> None:
        self.drafter = sv.SuffixDrafter(max_depth=depth)

    def start(self) -> None:
        self.drafter.start("request", text()[:PROMPT])

    def step(self, end: int) -> list[int]:
        self.drafter.extend("request", text()[end - 1 : end])
        return self.drafter.draft("request", DRAFTS).tokens


class Arctic:
    def __init__(self, depth: int) -> None:
        decoding = pytest.importorskip("arctic_inference.suffix_decoding", reason="in requirements/bench.in")
        # 0: the request's own text only, as ours has it.
        self.cache, self.depth = decoding.SuffixDecodingCache(max_tree_depth=depth, max_cached_requests=0), depth

    def start(self) -> None:
        self.cache.start_request("request", text()[:PROMPT])

    def step(self, end: int) -> list[int]:
        self.cache.add_active_response("request", text()[end - 1 : end])
        draft = self.cache.speculate("request", text()[max(0, end - self.depth) : end], max_spec_tokens=DRAFTS)
        return list(draft.token_ids)


SUFFIX: dict[str, type[Suffix | Arctic]] = {"specverify": Suffix, "arctic-inference": Arctic}


@pytest.mark.parametrize("depth", DEPTHS)
class TestSuffix:
    @pytest.mark.parametrize("peer", SUFFIX)
    def test_prompt(self, benchmark: Any, peer: str, depth: int) -> None:
        benchmark.group = f"suffix: index a prompt of {PROMPT:,} tokens, depth {depth}"
        benchmark.extra_info["label"] = peer
        benchmark.pedantic(lambda new: new.start(), setup=lambda: ((SUFFIX[peer](depth),), {}), rounds=10)

    @pytest.mark.parametrize("peer", SUFFIX)
    def test_steps(self, benchmark: Any, peer: str, depth: int) -> None:
        def setup() -> tuple[tuple[Any], dict[str, Any]]:
            new = SUFFIX[peer](depth)
            new.start()
            return (new,), {}

        def decode(new: Any) -> list[list[int]]:
            return [new.step(PROMPT + 1 + step) for step in range(STEPS)]

        benchmark.group = f"suffix: {STEPS} steps of one token and a draft, depth {depth}"
        drafts = benchmark.pedantic(decode, setup=setup, rounds=10)
        benchmark.extra_info["label"] = f"{peer} ({accepted(drafts):.2f} accepted a step)"


class Ngram:
    def __init__(self, batch: int) -> None:
        self.drafter, self.ids = sv.NgramDrafter(min_n=MIN_N, max_n=MAX_N), [str(i) for i in range(batch)]
        for request_id in self.ids:
            self.drafter.start(request_id, text()[:PROMPT])

    def step(self, end: int) -> list[list[int]]:
        token = text()[end - 1 : end]
        for request_id in self.ids:
            self.drafter.extend(request_id, token)
        return [self.drafter.draft(request_id, DRAFTS).tokens for request_id in self.ids]


class VllmNgram:
    def __init__(self, batch: int) -> None:
        module = pytest.importorskip("vllm.v1.spec_decode.ngram_proposer", reason="vLLM is an extra")
        length = PROMPT + STEPS + DRAFTS + 1
        config = SimpleNamespace(
            speculative_config=SimpleNamespace(
                prompt_lookup_min=MIN_N, prompt_lookup_max=MAX_N, num_speculative_tokens=DRAFTS
            ),
            model_config=SimpleNamespace(max_model_len=length),
            scheduler_config=SimpleNamespace(max_num_seqs=batch),
            parallel_config=SimpleNamespace(tensor_parallel_size=1),
        )
        # Compiles its kernels on construction.
        self.proposer = module.NgramProposer(config)
        # vLLM keeps the batch's tokens in an array anyway, so filling it is not timed.
        self.tokens = np.tile(text()[:length], (batch, 1))
        self.sampled = [[0]] * batch

    def step(self, end: int) -> list[list[int]]:
        lengths = np.full(len(self.sampled), end, dtype=np.int32)
        drafts: list[list[int]] = self.proposer.propose(DRAFTS, self.sampled, lengths, self.tokens)
        return drafts


NGRAM: dict[str, type[Ngram | VllmNgram]] = {"specverify": Ngram, "vLLM (numba)": VllmNgram}


@pytest.mark.parametrize("batch", BATCHES)
class TestNgram:
    @pytest.mark.parametrize("peer", NGRAM)
    def test_steps(self, benchmark: Any, peer: str, batch: int) -> None:
        steps = STEPS // batch
        benchmark.group = f"n-gram: {steps} steps of one token and a draft, batch {batch}, {PROMPT:,} tokens before"

        def decode(new: Any) -> list[list[int]]:
            return [new.step(PROMPT + 1 + step)[0] for step in range(steps)]

        drafts = benchmark.pedantic(decode, setup=lambda: ((NGRAM[peer](batch),), {}), rounds=5)
        benchmark.extra_info["label"] = f"{peer} ({accepted(drafts):.2f} accepted a step)"
