"""Our distribution of a row against the one vLLM's own sampler draws from, on vLLM's inputs.

Orders of filters agree (allowed ids, bad words, min_tokens and bias, penalties, temperature, min_p, top-k, top-p). Mass in top-p is
summed in f32 by vLLM and exactly by us, so a token at the very edge may differ: none does on these inputs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.v1.sample import rejection_sampler
from vllm.v1.sample.logits_processor import LogitsProcessors
from vllm.v1.sample.metadata import SamplingMetadata
from vllm.v1.sample.rejection_sampler import RejectionSampler
from vllm.v1.sample.sampler import Sampler as VllmSampler
from vllm.v1.spec_decode.metadata import SpecDecodeMetadata
from vllm_engine import Engine, oracle

from specverify.vllm.sampler import Sampler, Step, Turn, serve

VOCAB = 64
DRAFTED = 3
PARAMS: list[dict[str, Any]] = [
    {"temperature": 1.0},
    {"temperature": 0.7, "top_k": 5},
    {"temperature": 1.3, "top_p": 0.8},
    {"temperature": 0.9, "top_k": 20, "top_p": 0.5},
    {"temperature": 1.0, "frequency_penalty": 1.5, "presence_penalty": -0.5},
    {"temperature": 0.8, "repetition_penalty": 1.7},
    {"temperature": 0.8, "repetition_penalty": 0.6, "frequency_penalty": 0.3, "top_k": 9},
    {"temperature": 1.0, "allowed_token_ids": [1, 4, 9, 16, 25, 36, 49], "top_p": 0.9},
    {"temperature": 0.0, "frequency_penalty": 1.0},
]


def dense(step: Step, row: int) -> torch.Tensor:
    """All log-probabilities of an emitted row."""
    assert step.logprobs is not None
    found = torch.full((VOCAB,), float("-inf"))
    found[step.logprobs.logprob_token_ids[row].long()] = step.logprobs.logprobs[row]
    return found


def metadata_of(params: list[Any], prompts: torch.Tensor, outputs: list[list[int]], drafts: list[list[int]]) -> Any:
    """vLLM's metadata as its input batch makes it."""
    allowed = torch.zeros(len(params), VOCAB, dtype=torch.bool)
    for mask, p in zip(allowed, params, strict=True):
        if p.allowed_token_ids:
            mask[:] = True
            mask[p.allowed_token_ids] = False
    column = lambda name: torch.tensor([getattr(p, name) for p in params])  # noqa: E731
    return SamplingMetadata(
        temperature=column("temperature"),
        all_greedy=False,
        all_random=False,
        top_p=column("top_p"),
        top_k=torch.tensor([p.top_k or VOCAB for p in params], dtype=torch.int32),
        generators={},
        max_num_logprobs=None,
        no_penalties=False,
        prompt_token_ids=prompts,
        frequency_penalties=column("frequency_penalty"),
        presence_penalties=column("presence_penalty"),
        repetition_penalties=column("repetition_penalty"),
        output_token_ids=outputs,
        allowed_token_ids_mask=allowed,
        bad_words_token_ids={0: [[3], [5, 6]]},
        logitsprocs=LogitsProcessors(),
        spec_token_ids=drafts,
    )


def repeat(
    x: torch.Tensor, cu: torch.Tensor, num_tokens: int, replace_from: int = 0, replace_to: int = 0
) -> torch.Tensor:
    """`expand_batch_to_tokens` as documented; vLLM's CPU build returns uninitialised memory (vllm #55005)."""
    if replace_from != replace_to:
        x = torch.where(x == replace_from, replace_to, x)
    return torch.repeat_interleave(x, torch.diff(cu.long(), prepend=torch.zeros(1, dtype=torch.long)))


def test_draft_rows_are_filtered_as_by_vllms_rejection_sampler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejection_sampler, "expand_batch_to_tokens", repeat)
    generator = torch.Generator().manual_seed(2)
    batch = len(PARAMS)
    logits = 3 * torch.randn(batch, DRAFTED + 1, VOCAB, generator=generator)
    prompts = torch.randint(VOCAB, (batch, 12), generator=generator)
    outputs = torch.randint(VOCAB, (batch, 7), generator=generator).tolist()
    params = [SamplingParams(**p, seed=i, logprobs=VOCAB) for i, p in enumerate(PARAMS)]
    params[0]._bad_words_token_ids = [[3], [5, 6]]
    outputs[0][-1] = 5  # so that 6 would complete a bad word

    def ours(drafts: list[list[int]]) -> Step:
        width = len(drafts[0]) + 1
        turns = [
            Turn(serve(p, 0), 19, drafted, prompt.numpy().astype(np.int32), np.array(output, dtype=np.int32))
            for p, drafted, prompt, output in zip(params, drafts, prompts, outputs, strict=True)
        ]
        return Sampler("processed_logprobs").sample(logits[:, :width].reshape(-1, VOCAB), turns)

    drafts: list[list[int]] = [[] for _ in params]
    for _ in range(DRAFTED):  # what is emitted next is what is drafted next, so every row is reached
        drafts = ours(drafts).tokens.tolist()
    step = ours(drafts)
    assert [row[:DRAFTED] for row in step.tokens.tolist()] == drafts

    spec = SpecDecodeMetadata.make_dummy(drafts, torch.device("cpu"))
    sampling = metadata_of(params, prompts, outputs, drafts)
    theirs = RejectionSampler(VllmSampler())
    rows = logits[:, :DRAFTED].reshape(-1, VOCAB).clone()
    rows = theirs.apply_logits_processors(rows, sampling, spec)
    rows = rejection_sampler.apply_sampling_constraints(rows, spec.cu_num_draft_tokens, sampling).log_softmax(-1)
    expected = rows.reshape(batch, DRAFTED, VOCAB)
    for r, p in enumerate(PARAMS):
        for i in range(DRAFTED):
            got = dense(step, r * (DRAFTED + 1) + i)
            assert torch.equal(got.isinf(), expected[r, i].isinf()), (p, i)
            kept = ~got.isinf()
            torch.testing.assert_close(
                got[kept], expected[r, i][kept], rtol=1e-5, atol=2e-5, msg=lambda m, p=p: f"{p}: {m}"
            )


EVERYTHING = 512


@pytest.fixture(scope="module")
def processed_engines(tiny_model: str) -> tuple[Engine, Engine]:
    options = {"logprobs_mode": "processed_logprobs", "max_logprobs": EVERYTHING}
    return Engine(tiny_model, "scripted_proposer.ScriptedProposer", **options), Engine(tiny_model, None, **options)


def distribution(row: dict[int, Any]) -> dict[int, float]:
    return {token: entry.logprob for token, entry in row.items() if entry.logprob > float("-inf")}


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 1.3, "min_p": 0.3},
        {"temperature": 0.8, "top_k": 30, "top_p": 0.7, "min_p": 0.01},
        {"temperature": 0.7, "logit_bias": {7: 4.0, 8: -100.0}, "top_p": 0.9},
        {"temperature": 1.0, "repetition_penalty": 1.4, "min_tokens": 3, "stop_token_ids": [5, 6], "top_p": 0.95},
        {"temperature": 1.0, "bad_words": ["<5>", "<9>"]},
    ],
)
def test_first_token_is_drawn_from_stock_vllms_distribution(
    processed_engines: tuple[Engine, Engine], params: dict[str, Any]
) -> None:
    """What stock vLLM refuses with speculation (min_p, logit_bias) or takes without: the whole distribution."""
    requests = [([1, 5, 9, 5, 9], SamplingParams(**params, seed=1, max_tokens=3, logprobs=EVERYTHING))]
    ours, theirs = (distribution(engine.outputs(requests)[0].logprobs[0]) for engine in processed_engines)
    assert ours == pytest.approx(theirs, abs=1e-4)


def test_every_row_of_a_draft_has_stock_vllms_distribution(processed_engines: tuple[Engine, Engine]) -> None:
    """T = 0, where both emit the same tokens: history, bans and bias act on each row as without drafts."""
    ours, theirs = processed_engines
    options: dict[str, Any] = {"temperature": 0.0, "max_tokens": 16, "ignore_eos": True, "logprobs": EVERYTHING}
    requests = [
        ([1, 5, 9, 5, 9], SamplingParams(repetition_penalty=1.3, frequency_penalty=0.4, **options)),
        (
            [1, 44, 7],
            SamplingParams(logit_bias={7: 3.0}, bad_words=["<7> <7>"], min_tokens=8, stop_token_ids=[9], **options),
        ),
    ]
    expected = theirs.outputs(requests)
    texts = [prompt + list(output.token_ids) for (prompt, _), output in zip(requests, expected, strict=True)]
    with ours.drafting(oracle(texts)), ours.counting() as counts:
        outputs = ours.outputs(requests)
    assert counts.accepted > 10
    for got, wanted in zip(outputs, expected, strict=True):
        assert list(got.token_ids) == list(wanted.token_ids)
        for row, (mine, stock) in enumerate(zip(got.logprobs, wanted.logprobs, strict=True)):
            assert distribution(mine) == pytest.approx(distribution(stock), abs=1e-4), row
