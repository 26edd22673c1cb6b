"""The sampler without an engine: one call a step, rows in place, errors that stay with their request."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from vllm import SamplingParams
from vllm.v1.sample.rejection_sampler import RejectionSampler

import specverify as sv
from specverify.vllm.sampler import PLACEHOLDER, Sampler, Turn, Unservable, serve

NONE = np.empty(0, dtype=np.int32)


def turn(drafts: list[int] = [], position: int = 4, output: list[int] = [], **params: Any) -> Turn:  # noqa: B006
    served = serve(SamplingParams(**{"temperature": 0.0, **params}), seed=11)
    return Turn(served, position, drafts, NONE, np.array(output, dtype=np.int32))


def rows(*tokens: int, vocab: int = 16) -> torch.Tensor:
    """Logits whose maxima are `tokens`."""
    logits = torch.zeros(len(tokens), vocab)
    logits[range(len(tokens)), list(tokens)] = 9.0
    return logits


def test_a_step_is_one_call_over_the_logits_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    verify_batch = sv.verify_batch

    def counted(logits: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(logits)
        return verify_batch(logits, *args, **kwargs)

    monkeypatch.setattr(sv, "verify_batch", counted)
    logits = rows(3, 4, 5, 6, 7)
    before = logits.clone()
    step = Sampler().sample(logits, [turn([3, 4]), turn(), turn(temperature=1.0)])
    assert calls == [logits]
    assert torch.equal(logits, before)
    assert step.tokens[:2].tolist() == [[3, 4, 5], [6, PLACEHOLDER, PLACEHOLDER]]
    assert step.tokens.dtype == torch.int32
    assert (step.logprobs, step.errors) == (None, {})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_logits_of_any_dtype_and_stride(dtype: torch.dtype) -> None:
    """A padded vocabulary leaves a view whose rows are further apart than they are long."""
    logits = torch.nn.functional.pad(rows(3, 4, 5), (0, 16), value=99.0).to(dtype)[:, :16]
    assert Sampler().sample(logits, [turn([3, 9])]).tokens.tolist() == [[3, 4, PLACEHOLDER]]


def test_a_draft_is_refused_where_it_first_differs() -> None:
    step = Sampler().sample(rows(3, 4, 5, 6), [turn([3, 8, 5])])
    assert step.tokens.tolist() == [[3, 4, PLACEHOLDER, PLACEHOLDER]]


def test_padding_is_never_a_draft() -> None:
    """Case 28 (vllm #44054): -1 from some place on; 0, which the model is fed instead, is not taken for a draft either."""
    step = Sampler().sample(
        rows(5, 0, 0, 7),
        [
            turn([5, -1, -1]),
        ],
    )
    assert step.tokens.tolist() == [[5, 0, PLACEHOLDER, PLACEHOLDER]]


def test_a_nan_row_ends_its_request_alone() -> None:
    """Case 1 (vllm #53029): T = 0 and T = 1. Rows behind a rejection are not read."""
    logits = rows(3, 4, 5, 6, 7)
    logits[1] = float("nan")
    logits[4] = float("nan")
    for temperature in (0.0, 1.0):
        turns = [turn([3], temperature=temperature), turn(), turn([9], temperature=temperature, logit_bias={6: 50.0})]
        step = Sampler().sample(logits, turns)
        assert list(step.errors) == [0]
        assert "row 1" in step.errors[0] or "row=1" in step.errors[0]
        assert step.tokens.tolist() == [[PLACEHOLDER] * 2, [5, PLACEHOLDER], [6, PLACEHOLDER]]


def test_errors_widen_a_step_without_drafts() -> None:
    """vLLM takes a one-column output as it is; placeholders would become tokens."""
    logits = rows(3, 4)
    logits[0] = float("nan")
    step = Sampler().sample(logits, [turn(), turn()])
    assert step.tokens.tolist() == [[PLACEHOLDER] * 2, [4, PLACEHOLDER]]
    assert RejectionSampler.parse_output(step.tokens, 16)[0] == [[], [4]]


def test_logprobs_lie_as_vllm_reads_them() -> None:
    """Case 29 (vllm #34497): one of three drafts accepted; a request without logprobs beside one with."""
    logits = torch.randn(7, 16, generator=torch.Generator().manual_seed(3))
    best = logits.argmax(-1).tolist()
    turns = [turn([best[0], (best[1] + 1) % 16, 2], logprobs=3), turn(), turn([], logprobs=0), turn(logprobs=5)]
    step = Sampler().sample(logits, turns)
    tokens, logprobs = RejectionSampler.parse_output(step.tokens, 16, logprobs_tensors=step.logprobs)
    assert tokens == [best[:2], [best[4]], [best[5]], [best[6]]]
    assert logprobs is not None
    assert logprobs.cu_num_generated_tokens == [0, 2, 3, 4, 5]
    expected = logits.log_softmax(-1)
    for at, (row, k) in enumerate([(0, 3), (1, 3), (4, None), (5, 0), (6, 5)]):
        if k is None:
            continue
        top = expected[row].topk(k)
        assert logprobs.logprob_token_ids[at].tolist()[: k + 1] == [best[row], *top.indices.tolist()]
        assert logprobs.logprobs[at].tolist()[: k + 1] == pytest.approx(
            [expected[row].max().item(), *top.values.tolist()], abs=1e-5
        )
        assert logprobs.sampled_token_ranks[at] == 1


def test_logprobs_rank_the_emitted_token() -> None:
    logits = torch.tensor([[0.0, 3.0, 2.0, 1.0]])
    step = Sampler().sample(logits, [turn(allowed_token_ids=[0], logprobs=1)])
    assert step.logprobs is not None
    assert step.logprobs.logprob_token_ids.tolist() == [[0, 1]]
    assert step.logprobs.selected_token_ranks.tolist() == [4]
    assert step.logprobs.logprobs[0].tolist() == pytest.approx(logits.log_softmax(-1)[0, :2].tolist(), abs=1e-6)


def test_processed_logprobs_are_of_the_filtered_distribution() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0, 0.0]])
    step = Sampler("processed_logprobs").sample(logits, [turn(temperature=0.5, top_k=2, logprobs=4)])
    expected = torch.tensor([6.0, 4.0]).log_softmax(-1)
    assert step.logprobs is not None
    ids, values = step.logprobs.logprob_token_ids[0, 1:].tolist(), step.logprobs.logprobs[0, 1:].tolist()
    assert ids[:2] == [1, 2]
    assert values[:2] == pytest.approx(expected.tolist(), abs=1e-6)
    assert values[2:] == [float("-inf")] * 2
    assert len(set(ids)) == 4


def test_min_p_acts_on_every_row_of_a_draft() -> None:
    """Case 14: p = [.6, .3, .1] and min_p .6 leave {0}, with drafts and without; stock vLLM refuses min_p with drafts."""
    logits = torch.tensor([[0.6, 0.3, 0.1]]).log().repeat(3, 1)
    for position in range(200):
        step = Sampler().sample(logits, [turn([0, 0], position=position, temperature=1.0, min_p=0.6)])
        assert step.tokens.tolist() == [[0, 0, 0]]


def test_frequency_penalty_follows_the_drafts() -> None:
    """Case 13 (vllm #18902): draft [7, 7]; 7 leads by less than one penalty."""
    logits = torch.full((3, 16), -9.0)
    logits[:, 7], logits[:, 8] = 1.5, 1.0
    assert Sampler().sample(logits, [turn([7, 7], frequency_penalty=1.0)]).tokens.tolist() == [[7, 8, PLACEHOLDER]]
    assert Sampler().sample(logits, [turn([8, 7], output=[7], frequency_penalty=1.0)]).tokens.tolist() == [[8, 7, 8]]


def test_uniform_rows_give_many_tokens() -> None:
    """Case 31 (sglang #31214): T = 1, uniform p, 1000 positions: never a silent argmax. All alike: 16^-999."""
    logits = torch.zeros(1000, 16)
    step = Sampler().sample(logits, [turn(position=position, temperature=1.0) for position in range(1000)])
    assert len(set(step.tokens[:, 0].tolist())) == 16


def test_drafting_does_not_change_the_draw() -> None:
    """Case 11 (vllm #6038): 200 requests of six tokens, one by one in single steps, or as drafts in one step and any order."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(200, 6, 32, generator=generator)
    singles = [
        [
            int(Sampler().sample(logits[r, i : i + 1], [turn(position=9 + i, temperature=1.0, seed=r)]).tokens[0, 0])
            for i in range(6)
        ]
        for r in range(200)
    ]
    order = torch.randperm(200, generator=generator).tolist()
    turns = [turn(singles[r][:5], position=9, temperature=1.0, seed=r) for r in order]
    step = Sampler().sample(logits[order].reshape(1200, 32), turns)
    assert step.tokens.tolist() == [singles[r] for r in order]


def test_a_refused_turn_emits_nothing() -> None:
    refused = Turn(turn().served, 4, [3], NONE, NONE, refused="because")
    step = Sampler().sample(rows(3, 4, 5), [refused, turn()])
    assert step.errors == {0: "because"}
    assert step.tokens.tolist() == [[PLACEHOLDER] * 2, [5, PLACEHOLDER]]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"logprobs": -1}, "logprobs is -1: expected a number"),
        ({"logprob_token_ids": [3]}, r"logprob_token_ids is \[3\]: expected None"),
        ({"thinking_token_budget": 5}, "thinking_token_budget is 5: expected None"),
        ({"logit_bias": {4: float("nan")}}, "logit_bias"),
    ],
)
def test_what_is_not_served_is_named(params: dict[str, Any], message: str) -> None:
    with pytest.raises(Unservable, match=message):
        serve(SamplingParams(**params), seed=0)


def test_seeds() -> None:
    """The request's own, any integer; else the one derived for it."""
    assert serve(SamplingParams(seed=5), seed=9).params.seed == 5
    assert serve(SamplingParams(seed=None), seed=9).params.seed == 9
    assert serve(SamplingParams(seed=-7), seed=9).params.seed == 2**64 - 7


def test_stop_ids_are_those_that_stop() -> None:
    """ignore_eos: EOS does not end the text, but min_tokens bans it."""
    params = SamplingParams(stop_token_ids=[5], ignore_eos=True)
    params.update_from_generation_config({}, 2)
    assert serve(params, seed=0).stop_token_ids == [5]
    params = SamplingParams(stop_token_ids=[5], ignore_eos=True, min_tokens=3)
    params.update_from_generation_config({}, 2)
    assert serve(params, seed=0).stop_token_ids == [2, 5]
    params = SamplingParams()
    params.update_from_generation_config({"eos_token_id": [2, 6]}, 2)
    assert serve(params, seed=0).stop_token_ids == [2, 6]
