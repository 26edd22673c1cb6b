"""Whole engines: for one seed the text is the same whatever was drafted, nothing included, and what can't be served ends
that request alone.

Random weights and fp32, so a race keyed by anything but (seed, position, token), a row taken for another, a stale draft's KV or
a filter that acts on some rows only changes a token within a few steps: with V = 512 nearly flat logits, two different
draws agree with probability of about 1/100 a token, and each case compares hundreds.
"""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest
import torch
from vllm import SamplingParams
from vllm.exceptions import VLLMValidationError
from vllm_engine import EOS, VOCAB, Engine, nothing, oracle, wrong

LOOP = [1, 5, 9, 13, 5, 9, 13, 5, 9]
SHORT = [1, 44, 7]
LONG = [1, *range(20, 170)]  # three chunks of prefill
PROMPTS = [LOOP, SHORT, LONG, [1, *range(300, 330)], [9, 9, 9, 9], [1, 100, 200, 300, 100, 200]]

Request = tuple[list[int], Any]


def params(**options: Any) -> Any:
    return SamplingParams(**{"temperature": 0.8, "max_tokens": 32, "seed": 7, "ignore_eos": True, **options})


def undrafted(engine: Engine, requests: list[Request]) -> list[list[int]]:
    with engine.drafting(nothing):
        return engine.texts(requests)


def whole(requests: list[Request], texts: list[list[int]]) -> list[list[int]]:
    return [prompt + text for (prompt, _), text in zip(requests, texts, strict=True)]


MIXED: list[Request] = [
    (LOOP, params()),
    (SHORT, params(temperature=0.0)),
    (LONG, params(top_k=20, top_p=0.9)),
    (LOOP, params(repetition_penalty=1.3, frequency_penalty=0.7, presence_penalty=0.2, temperature=1.0)),
    (SHORT, params(min_p=0.2, temperature=1.5)),
    (LOOP, params(logit_bias={7: 5.0, 8: 5.0, 9: -100.0})),
    (LOOP, params(allowed_token_ids=[3, 4, 5, 6], frequency_penalty=0.5)),
    (SHORT, params(bad_words=["<475>", "<161> <99>"], allowed_token_ids=[475, 161, 99, 12])),
    (SHORT, params(min_tokens=20, ignore_eos=False, stop_token_ids=[11, 12], allowed_token_ids=[2, 11, 12, 13, 14])),
    (LONG, params(seed=None, temperature=0.0, logprobs=3)),
    ([9, 9, 9, 9], params(seed=2**63 + 5, temperature=1.0)),
    (LOOP, params(ignore_eos=False, logit_bias={EOS: 4.0})),
]


@pytest.mark.parametrize("draft", ["suffix", "oracle", "wrong"])
def test_seeded_text_is_the_same_whatever_is_drafted(engine: Engine, draft: str) -> None:
    """Every parameter, chunked prefill, more requests than slots. T = 0 and T > 0 in one batch."""
    expected = undrafted(engine, MIXED)
    script = {"suffix": None, "oracle": oracle(whole(MIXED, expected)), "wrong": wrong}[draft]
    with engine.drafting(script), engine.counting() as counts:
        assert engine.texts(MIXED) == expected
    assert counts.drafted > 50
    if draft == "oracle":
        assert counts.accepted > counts.drafted / 2
    elif draft == "suffix":
        assert counts.accepted > 0


def test_greedy_text_is_stock_vllms(engine: Engine, stock_engine: Engine) -> None:
    """Another sampler, another path through the runner: T = 0 with filters that move the maximum."""
    requests = [
        *[(prompt, params(temperature=0.0, seed=None)) for prompt in PROMPTS],
        (LOOP, params(temperature=0.0, repetition_penalty=1.5)),
        (LOOP, params(temperature=0.0, frequency_penalty=1.0, presence_penalty=0.5)),
        (LOOP, params(temperature=0.0, logit_bias={7: 3.0, 475: -100.0})),
        (SHORT, params(temperature=0.0, allowed_token_ids=[3, 4, 5, 6])),
        (SHORT, params(temperature=0.0, bad_words=["<4>"], allowed_token_ids=[3, 4, 5, 6])),
        (
            SHORT,
            params(temperature=0.0, min_tokens=9, ignore_eos=False, stop_token_ids=[4], allowed_token_ids=[2, 3, 4]),
        ),
        (SHORT, params(temperature=0.0, ignore_eos=False, stop_token_ids=[4], allowed_token_ids=[2, 3, 4])),
    ]
    expected = stock_engine.texts(requests)
    for script in (oracle(whole(requests, expected)), None, nothing):
        with engine.drafting(script):
            assert engine.texts(requests) == expected


def test_a_proposer_that_drafts_nothing_is_the_reference_run(engine: Engine, reference_engine: Engine) -> None:
    requests = [(prompt, params(seed=i)) for i, prompt in enumerate(PROMPTS)]
    with engine.drafting(oracle(whole(requests, undrafted(engine, requests)))):
        texts = engine.texts(requests)
    with reference_engine.counting() as counts:
        assert reference_engine.texts(requests) == texts
    assert counts.drafted == 0


def test_start_up_says_who_verifies_and_nothing_untrue(reference_engine: Engine, stock_engine: Engine) -> None:
    """One line of ours where we are chosen; vLLM's warning that min_p and logit_bias don't work is not true there."""
    [line] = [line for line in reference_engine.said if "specverify verifies" in line]
    assert line.startswith(
        "specverify verifies every request: proposer specverify.vllm.NoProposer, num_speculative_tokens 4, rule target_only"
    )
    assert not [line for line in reference_engine.said if "won't work" in line]
    assert not [line for line in stock_engine.said if "specverify verifies" in line]
    assert len(stock_engine.said) > 5
    # The filter is gone: an engine with other drafts in this process is warned as ever.
    source = logging.getLogger("vllm.v1.sample.logits_processor")
    assert not source.filters
    assert source.filter(logging.makeLogRecord({"msg": "min_p and logit_bias parameters won't work"}))


def test_seed_does_not_depend_on_the_batch(engine: Engine) -> None:
    """Case 11 (vllm #6038): alone, and in a batch of 8, permuted."""
    requests = [(PROMPTS[i % len(PROMPTS)], params(seed=100 + i)) for i in range(8)]
    alone = [engine.texts([request])[0] for request in requests]
    order = list(range(8))
    random.Random(5).shuffle(order)
    assert engine.texts([requests[i] for i in order]) == [alone[i] for i in order]


def test_seeded_and_unseeded_requests_in_one_batch(engine: Engine) -> None:
    """Case 12 (vllm #9441): seeded ones keep their text; unseeded ones get different ones, n included."""
    seeded = [(LOOP, params(seed=3)), (SHORT, params(seed=4))]
    unseeded = [(LOOP, params(seed=None)), (LOOP, params(seed=None)), (LOOP, params(seed=None, n=2))]
    expected = engine.texts(seeded)
    texts = engine.texts([unseeded[0], seeded[0], unseeded[1], seeded[1]])
    assert [texts[1], texts[3]] == expected
    assert texts[0] != texts[2]
    done = engine.llm.generate([{"prompt_token_ids": LOOP}], params(seed=9, n=2), use_tqdm=False)[0]
    assert done.outputs[0].token_ids != done.outputs[1].token_ids


def test_frequency_penalty_sees_the_drafts_before_it(engine: Engine) -> None:
    """Case 13 (vllm #18902): 7 is likeliest by less than one penalty, so 7 twice is never right; drafted all the same."""
    requests = [(SHORT, params(temperature=0.0, frequency_penalty=2.0, allowed_token_ids=[7, 8]))]
    expected = undrafted(engine, requests)
    assert {7, 8} == set(expected[0])
    for token in (7, 8):
        with engine.drafting(lambda tokens, room, token=token: [token] * room):
            assert engine.texts(requests) == expected


def test_logprobs_are_those_of_the_emitted_rows(engine: Engine, stock_engine: Engine) -> None:
    """Case 29 (vllm #34497): accepted, corrected and bonus tokens; against stock vLLM's at T = 0."""
    requests = [
        (LOOP, params(temperature=0.0, logprobs=4)),
        (SHORT, params(temperature=0.0)),
        (LONG, params(temperature=0.0, logprobs=0)),
    ]
    expected = stock_engine.outputs(requests)
    for script in (oracle(whole(requests, [list(output.token_ids) for output in expected])), nothing, wrong):
        with engine.drafting(script):
            outputs = engine.outputs(requests)
        assert outputs[1].logprobs is None
        for ours, theirs in zip(outputs, expected, strict=True):
            if theirs.logprobs is None:
                continue
            assert len(ours.logprobs) == len(theirs.logprobs) == 32
            for row, (got, wanted) in enumerate(zip(ours.logprobs, theirs.logprobs, strict=True)):
                assert list(got) == list(wanted), row
                assert [p.rank for p in got.values()] == [p.rank for p in wanted.values()], row
                assert [p.logprob for p in got.values()] == pytest.approx(
                    [p.logprob for p in wanted.values()], abs=1e-4
                )


def test_nothing_follows_the_end_of_sequence(engine: Engine) -> None:
    """Case 30: drafts go past EOS."""
    requests = [(SHORT, params(temperature=0.0, ignore_eos=False, logit_bias={EOS: 100.0}))]
    requests.append((SHORT, params(temperature=0.0, ignore_eos=False, logit_bias={EOS: 100.0}, min_tokens=3)))
    with engine.drafting(lambda tokens, room: [EOS, 5, 6][:room]):
        at_once, later = engine.outputs(requests)
    assert (list(at_once.token_ids), at_once.finish_reason) == ([EOS], "stop")
    assert (later.token_ids.index(EOS), len(later.token_ids)) == (3, 4)


def test_context_ends_at_max_model_len(engine: Engine) -> None:
    """Case 28 too: near the limit the runner would pad with drafts of token 0 and count them (vllm #44054)."""
    prompt = [1, *range(20, 260)]
    requests = [(prompt, params(max_tokens=100))]
    with engine.counting() as counts:
        expected = undrafted(engine, requests)
    assert len(expected[0]) == 256 - len(prompt)
    assert counts.drafted == 0
    for script in (oracle(whole(requests, expected)), wrong):
        with engine.drafting(script):
            assert engine.texts(requests) == expected


def test_preempted_requests_resume_without_stale_drafts(engine: Engine, tight_engine: Engine) -> None:
    """Case 23 (vllm #31876): a KV cache for less than half of the batch, drafts always pending."""
    requests = [(PROMPTS[i % 2] + [i], params(seed=i, max_tokens=60)) for i in range(6)]
    expected = undrafted(engine, requests)
    for script in (oracle(whole(requests, expected)), wrong, None):
        with tight_engine.drafting(script), tight_engine.counting() as counts:
            assert tight_engine.texts(requests) == expected
        assert counts.preempted > 0


def test_aborted_requests_leave_nothing_behind(engine: Engine) -> None:
    """Abort half of a batch in flight; the rest end as if they had been alone, and an id used again starts afresh."""
    core = engine.llm.llm_engine
    requests = [(PROMPTS[i], params(seed=i)) for i in range(4)]
    expected = engine.texts(requests)

    def run(names: list[str], aborted: set[str]) -> dict[str, list[int]]:
        for name, (prompt, request_params) in zip(names, requests, strict=True):
            core.add_request(name, {"prompt_token_ids": prompt}, request_params)
        texts, steps = {}, 0
        while core.has_unfinished_requests():
            for output in core.step():
                texts[output.request_id] = list(output.outputs[0].token_ids)
            steps += 1
            if steps == 6:
                core.abort_request(sorted(aborted))
        return texts

    names = ["a", "b", "c", "d"]
    texts = run(names, {"b", "d"})
    assert [texts["a"], texts["c"]] == [expected[0], expected[2]]
    assert run(names, set()) == dict(zip(names, expected, strict=True))
    assert not engine.scheduler.running


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_structured_output_is_the_same_whatever_is_drafted(engine: Engine, temperature: float) -> None:
    """The grammar's mask lies on the logits, along the drafts as a chain; drafts that break the grammar are cut by vLLM."""
    from vllm.sampling_params import StructuredOutputsParams

    grammar = StructuredOutputsParams(regex="((<7>|<8>)<9>){5}<3>")
    options = {"temperature": temperature, "structured_outputs": grammar, "ignore_eos": False}
    requests = [(SHORT, params(**options)), (LOOP, params(temperature=temperature)), (LOOP, params(**options, seed=1))]
    expected = undrafted(engine, requests)
    for text in (expected[0], expected[2]):
        assert set(text[:10:2]) <= {7, 8}
        assert text[1:10:2] == [9] * 5
        assert text[10:] == [3, EOS]
    for script in (oracle(whole(requests, expected)), wrong, lambda tokens, room: [7, 9, 7, 9][:room]):
        with engine.drafting(script):
            assert engine.texts(requests) == expected


UNSERVED = {
    "logprobs": params(logprobs=-1),
    "logprob_token_ids": params(logprob_token_ids=[1, 2]),
    "thinking_token_budget": params(thinking_token_budget=4),
    "logit_bias": params(logit_bias={5: float("inf")}),
}


@pytest.mark.parametrize("name", UNSERVED)
def test_unserved_parameters_reject_the_request_and_not_the_engine(engine: Engine, name: str) -> None:
    expected = engine.texts([(LOOP, params())])
    engine.llm.llm_engine.model_config.max_logprobs, before = -1, engine.llm.llm_engine.model_config.max_logprobs
    try:
        with pytest.raises(VLLMValidationError, match=name):
            engine.outputs([(LOOP, UNSERVED[name])])
    finally:
        engine.llm.llm_engine.model_config.max_logprobs = before
    assert engine.texts([(LOOP, params())]) == expected


def test_a_request_that_slips_through_ends_with_the_reason(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the front end's check, the worker finds what it can't serve: an error for that request, the others unharmed."""
    expected = engine.texts([(LOOP, params())])
    monkeypatch.setattr(SamplingParams, "_validate_spec_decode", lambda self, config: None)
    slipped, served = engine.outputs([(SHORT, params(logprob_token_ids=[1, 2])), (LOOP, params())])
    assert slipped.finish_reason == "error"
    assert "logprob_token_ids" in slipped.stop_reason
    assert list(slipped.token_ids) == []
    assert list(served.token_ids) == expected[0]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_nan_logits_end_one_request_with_drafts_pending(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    """Cases 1 and 27 (vllm #53029, #26372): a NaN row in mid-text, where drafts were scheduled and nothing is sampled."""
    healthy, ill = (LOOP, params(temperature=temperature)), (SHORT, params(temperature=temperature, seed=8))
    expected = undrafted(engine, [healthy])
    compute_logits, runner = engine.runner.model.compute_logits, engine.runner

    def with_nan(hidden: torch.Tensor) -> torch.Tensor:
        logits = compute_logits(hidden)
        batch, row = runner.input_batch, 0
        for slot in range(batch.num_reqs):
            rows = 1 + len(batch.spec_token_ids[slot])
            known = batch.token_ids_cpu[slot, : batch.num_tokens_no_spec[slot]].tolist()
            if known[: len(SHORT)] == SHORT and len(known) > 8:
                logits[row : row + rows] = float("nan")
            row += rows
        assert row == len(logits)
        return logits

    monkeypatch.setattr(runner.model, "compute_logits", with_nan)
    with engine.drafting(lambda tokens, room: [5] * room), engine.counting() as counts:
        first, second = engine.outputs([ill, healthy])
    assert counts.drafted > 0
    assert first.finish_reason == "error"
    assert "row" in first.stop_reason
    assert 0 < len(first.token_ids) < 32
    assert list(second.token_ids) == expected[0]
    assert not engine.scheduler.running
    monkeypatch.undo()
    assert engine.texts([healthy]) == expected
    assert max(expected[0]) < VOCAB
