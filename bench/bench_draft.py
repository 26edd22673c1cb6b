"""The model-free drafters side by side with their peers, on the same text, token by token as an engine would call them."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import specverify as sv
from demo.prepare_model import MODEL, prepare
from demo.prompts import human_eval, mt_bench

PROMPT, OUTPUT, DRAFTS = 1_000, 2_000, 8


@cache
def text() -> npt.NDArray[np.int32]:
    """[PROMPT + OUTPUT] tokens of HumanEval and MT-Bench in turn, as SmolLM2 reads them."""
    from transformers import AutoTokenizer

    prepare()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    turns = [prompt.text for pair in zip(human_eval(), mt_bench(), strict=False) for prompt in pair]
    ids = np.array(tokenizer("\n\n".join(turns)).input_ids, dtype=np.int32)
    assert len(ids) >= PROMPT + OUTPUT
    return ids[: PROMPT + OUTPUT]


def measure(benchmark: Any, group: str, label: str, call: Any) -> None:
    benchmark.group = f"{group}: {OUTPUT} tokens after {PROMPT}, N={DRAFTS}, a draft a token"
    benchmark.extra_info["label"] = label
    benchmark.pedantic(call, rounds=10, iterations=1, warmup_rounds=1)


class TestSuffix:
    """A request from its prompt to its end: index the prompt, then extend by a token and draft, again and again."""

    def test_arctic_inference(self, benchmark: Any) -> None:
        from arctic_inference.suffix_decoding import SuffixDecodingCache

        ids = text()

        def call() -> int:
            peer = SuffixDecodingCache(max_tree_depth=64, max_cached_requests=0)
            peer.start_request("r", ids[:PROMPT])
            drafted = 0
            for end in range(PROMPT + 1, PROMPT + OUTPUT + 1):
                peer.add_active_response("r", ids[end - 1 : end])
                draft = peer.speculate("r", ids[max(0, end - 64) : end], max_spec_tokens=DRAFTS)
                drafted += len(draft.token_ids)
            return drafted

        assert call() > 0
        measure(benchmark, "suffix", "arctic-inference", call)

    def test_specverify(self, benchmark: Any) -> None:
        ids = text()

        def call() -> int:
            drafter = sv.SuffixDrafter()
            drafter.start("r", ids[:PROMPT])
            drafted = 0
            for end in range(PROMPT + 1, PROMPT + OUTPUT + 1):
                drafter.extend("r", ids[end - 1 : end])
                drafted += len(drafter.draft("r", DRAFTS).tokens)
            return drafted

        assert call() > 0
        measure(benchmark, "suffix", "specverify", call)


class TestNgram:
    """Prompt lookup of 2 to 5 tokens."""

    @staticmethod
    def vllm() -> Any:
        from vllm.v1.spec_decode.ngram_proposer import NgramProposer

        speculative = SimpleNamespace(prompt_lookup_min=2, prompt_lookup_max=5, num_speculative_tokens=DRAFTS)
        return NgramProposer(
            SimpleNamespace(
                speculative_config=speculative,
                model_config=SimpleNamespace(max_model_len=8192),
                scheduler_config=SimpleNamespace(max_num_seqs=1024),
                parallel_config=SimpleNamespace(tensor_parallel_size=1),
            )
        )

    def test_vllm(self, benchmark: Any) -> None:
        ids, peer = text(), self.vllm()
        table = ids[None]

        def call() -> int:
            drafted = 0
            for end in range(PROMPT + 1, PROMPT + OUTPUT + 1):
                drafted += len(peer.propose(DRAFTS, [[1]], np.array([end]), table)[0])
            return drafted

        assert call() > 0
        measure(benchmark, "n-gram", "vLLM", call)

    def test_specverify(self, benchmark: Any) -> None:
        ids = text()

        def call() -> int:
            drafter = sv.NgramDrafter(max_n=5, min_n=2)
            drafter.start("r", ids[:PROMPT])
            drafted = 0
            for end in range(PROMPT + 1, PROMPT + OUTPUT + 1):
                drafter.extend("r", ids[end - 1 : end])
                drafted += len(drafter.draft("r", DRAFTS).tokens)
            return drafted

        assert call() > 0
        measure(benchmark, "n-gram", "specverify", call)

    @pytest.mark.parametrize("end", range(PROMPT, PROMPT + OUTPUT, 97))
    def test_same_drafts(self, end: int) -> None:
        """What is compared is the same work: both draft the same tokens."""
        ids, drafter = text(), sv.NgramDrafter(max_n=5, min_n=2)
        drafter.start("r", ids[:end])
        assert drafter.draft("r", DRAFTS).tokens == self.vllm().propose(DRAFTS, [[1]], np.array([end]), ids[None])[0]
