"""What the plug-in selects, what it refuses at start-up, and what it leaves alone. Configurations only: no engine starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import vllm
from vllm import SamplingParams
from vllm.config import VllmConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.exceptions import VLLMValidationError
from vllm.platforms import current_platform

from specverify.vllm import NgramProposer, NoProposer, SuffixProposer, plugin

SUFFIX = {"method": "custom_class", "model": "specverify.vllm.SuffixProposer", "num_speculative_tokens": 4}
NGRAM = {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 3}


def config(model: str, speculative: dict[str, Any] | None = SUFFIX, **options: Any) -> Any:
    return EngineArgs(model=model, dtype="float32", speculative_config=speculative, **options).create_engine_config()


def test_the_speculative_configuration_alone_selects_worker_and_scheduler(tiny_model: str) -> None:
    ours = config(tiny_model)
    assert ours.parallel_config.worker_cls == "specverify.vllm.runner_v1.CPUWorker"
    assert ours.scheduler_config.scheduler_cls == "specverify.vllm.scheduler.Scheduler"
    plugin.register()
    assert config(tiny_model).parallel_config.worker_cls == ours.parallel_config.worker_cls


def test_method_may_be_left_out(tiny_model: str) -> None:
    """vLLM infers it from the dotted name."""
    shorter = {name: value for name, value in SUFFIX.items() if name != "method"}
    assert config(tiny_model, shorter).parallel_config.worker_cls.startswith("specverify.")


@pytest.mark.parametrize("speculative", [None, NGRAM], ids=["no speculation", "ngram"])
def test_other_configurations_are_vllms(tiny_model: str, speculative: dict[str, Any] | None) -> None:
    theirs = config(tiny_model, speculative)
    assert theirs.parallel_config.worker_cls == "vllm.v1.worker.cpu_worker.CPUWorker"
    assert theirs.scheduler_config.scheduler_cls is None
    params = SamplingParams(min_p=0.1)
    if speculative is None:
        params._validate_spec_decode(theirs.speculative_config)
    else:
        with pytest.raises(VLLMValidationError, match="min_p"):
            params._validate_spec_decode(theirs.speculative_config)


def test_min_p_and_logit_bias_are_served(tiny_model: str) -> None:
    SamplingParams(min_p=0.1, logit_bias={3: 1.0})._validate_spec_decode(config(tiny_model).speculative_config)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"pipeline_parallel_size": 2}, "pipeline_parallel_size is 2: expected 1"),
        ({"logprobs_mode": "raw_logits"}, "logprobs_mode is 'raw_logits'"),
        ({"enable_prompt_embeds": True}, "enable_prompt_embeds is on"),
        ({"worker_cls": "somebody.Worker"}, "worker_cls is 'somebody.Worker': expected it unset"),
        ({"scheduler_cls": "somebody.Scheduler"}, "scheduler_cls is 'somebody.Scheduler': expected it unset"),
        (
            {"additional_config": {"specverify": {"depth": 3, "max_depth": 9}}},
            r"unknown options \['depth'\]: SuffixProposer knows \['max_depth', 'min_match'",
        ),
        ({"additional_config": {"specverify": {"min_token_prob": 2}}}, "min_token_prob"),
        ({"additional_config": {"specverify": {"max_depth": "deep"}}}, "specverify"),
        ({"additional_config": {"specverify": 5}}, "is 5: expected an object"),
        *(
            ({"additional_config": {key: {"max_depth": 9}}}, f"has the key '{key}': expected 'specverify'")
            for key in ("specverfy", "spec_verify", "SpecVerify", "sepcverify")
        ),
    ],
)
def test_start_up_refusals_name_the_reason(tiny_model: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(Exception, match=reason):
        config(tiny_model, **options)


def test_keys_of_others_are_left_alone(tiny_model: str) -> None:
    others = {"speculative": 1, "verify": {"x": 1}, "kda_prefill_backend": "auto", "": 0}
    assert config(tiny_model, additional_config=others).parallel_config.worker_cls.startswith("specverify.")
    assert config(tiny_model, None, additional_config={"specverfy": {}}).scheduler_config.scheduler_cls is None


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("specverify.vllm.SufixProposer", r" \(did you mean specverify\.vllm\.SuffixProposer\?\)"),
        ("specverify.SuffixProposer", r" \(did you mean specverify\.vllm\.SuffixProposer\?\)"),
        ("specverify.vllm.plugin.Refused", ""),
        ("specverify.vlm.NgramProposer", r" \(did you mean specverify\.vllm\.NgramProposer\?\)"),
    ],
)
def test_a_misspelt_proposer_is_refused_with_those_there_are(tiny_model: str, model: str, hint: str) -> None:
    known = r"specverify\.vllm\.NgramProposer, specverify\.vllm\.NoProposer, specverify\.vllm\.SuffixProposer"
    with pytest.raises(Exception, match=f"model is '{model}': expected one of {known}, or .* your own{hint}"):
        config(tiny_model, {**SUFFIX, "model": model})


def test_v2_runner_is_refused(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # As VLLM_USE_V2_MODEL_RUNNER=1 does; vLLM caches its environment once an engine runs.
    monkeypatch.setattr(VllmConfig, "use_v2_model_runner", property(lambda self: True))
    with pytest.raises(Exception, match="unset VLLM_USE_V2_MODEL_RUNNER"):
        config(tiny_model)


def test_vllms_own_rejection_rules_are_refused(tiny_model: str) -> None:
    with pytest.raises(Exception, match="rejection_sample_method is 'synthetic': expected 'standard'"):
        config(tiny_model, {**SUFFIX, "rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.0})


def test_an_old_vllm_is_refused(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "__version__", "0.22.1+cpu")
    with pytest.raises(Exception, match=r"vLLM is 0\.22\.1\+cpu: expected 0\.23 or later"):
        config(tiny_model)


def test_other_devices_are_refused(tiny_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = config(tiny_model)
    monkeypatch.setattr(type(current_platform), "device_type", "cuda")
    with pytest.raises(plugin.Refused, match="the device is cuda"):
        plugin.refuse_unservable(ours)


def test_a_proposer_without_the_plug_in_refuses_to_start(tiny_model: str) -> None:
    """Entry point not found, or VLLM_PLUGINS names others: vLLM's own sampler would verify."""
    ours = config(tiny_model)
    ours.parallel_config.worker_cls = "vllm.v1.worker.cpu_worker.CPUWorker"
    with pytest.raises(RuntimeError, match="VLLM_PLUGINS"):
        SuffixProposer(ours)


class Other:
    """Somebody's proposer."""


def test_only_our_proposers_choose_us() -> None:
    def named(model: str) -> Any:
        return plugin.proposer_class(SimpleNamespace(method="custom_class", model=model))

    assert named("specverify.vllm.NoProposer") is NoProposer
    assert named("test_plugin.Other") is None
    assert named("no.such.Module") is None
    assert plugin.proposer_class(SimpleNamespace(method="ngram", model="ngram")) is None


def record(prompt: list[int], max_tokens: int | None = None) -> Any:
    return SimpleNamespace(sampling_params=SimpleNamespace(max_tokens=max_tokens), num_prompt_tokens=len(prompt))


class Slots:
    """The runner as a proposer sees it."""

    def __init__(self) -> None:
        self.requests: dict[str, Any] = {}
        self.input_batch = SimpleNamespace(req_ids=[])

    def propose(self, proposer: Any, **texts: list[int]) -> dict[str, list[int]]:
        """One step in which each named request knows the given tokens."""
        self.input_batch.req_ids = list(texts)
        table = np.zeros((len(texts), 64), dtype=np.int32)
        for slot, text in enumerate(texts.values()):
            table[slot, : len(text)] = text
        known = np.array([len(text) for text in texts.values()], dtype=np.int32)
        drafts = proposer.propose([text[-1:] for text in texts.values()], known, table)
        return dict(zip(texts, drafts, strict=True))


@pytest.fixture(params=[SuffixProposer, NgramProposer])
def proposer(request: pytest.FixtureRequest, tiny_model: str) -> Any:
    ours = config(tiny_model, {**SUFFIX, "model": f"specverify.vllm.{request.param.__name__}"}, max_model_len=32)
    return request.param(ours)


def test_drafts_follow_requests_across_slots(proposer: Any) -> None:
    slots = Slots()
    slots.requests = {"a": record([1, 2, 3, 4, 1, 2]), "b": record([7, 8, 9, 7, 8])}
    proposer.bind(slots)
    first = slots.propose(proposer, a=[1, 2, 3, 4, 1, 2, 3], b=[7, 8, 9, 7, 8, 9])
    assert (first["a"][0], first["b"][0]) == (4, 7)
    assert slots.propose(proposer, b=[7, 8, 9, 7, 8, 9, 7, 8])["b"][0] == 9
    again = slots.propose(proposer, b=[7, 8, 9, 7, 8, 9, 7, 8, 9], a=[1, 2, 3, 4, 1, 2, 3, 4, 1, 2])
    assert (again["a"][0], again["b"][0]) == (3, 7)


def test_a_reused_id_starts_afresh(proposer: Any) -> None:
    slots = Slots()
    proposer.bind(slots)
    slots.requests = {"a": record([1, 2, 3, 1, 2])}
    assert slots.propose(proposer, a=[1, 2, 3, 1, 2, 3])["a"][0] == 1
    slots.requests = {"a": record([1, 5, 3, 6, 3, 6, 1])}
    assert slots.propose(proposer, a=[1, 5, 3, 6, 3, 6, 1, 5])["a"][0] == 3
    slots.requests = {}
    assert slots.propose(proposer) == {}
    slots.requests = {"a": record([4, 1])}
    assert slots.propose(proposer, a=[4, 1, 2])["a"] == []


def test_tokens_taken_back_are_forgotten(proposer: Any) -> None:
    """A failed KV load: what followed them may be said differently."""
    slots = Slots()
    proposer.bind(slots)
    slots.requests = {"a": record([1, 2])}
    slots.propose(proposer, a=[1, 2, 3, 4, 1, 2])
    assert slots.propose(proposer, a=[1, 2, 9, 1, 2])["a"][0] == 9


def test_drafts_leave_room_for_the_targets_token(proposer: Any) -> None:
    """By max_model_len (32) and by max_tokens."""
    slots = Slots()
    proposer.bind(slots)
    loop = [1, 2, 3, 4] * 8
    slots.requests = {"a": record(loop[:4]), "b": record(loop[:8], max_tokens=6)}
    assert len(slots.propose(proposer, a=loop[:28], b=loop[:12])["a"]) == 3
    assert slots.propose(proposer, a=loop[:31], b=loop[:12]) == {"a": [], "b": [1]}
