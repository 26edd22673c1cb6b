"""What makes ``--speculative-config`` alone switch specverify on, and what is refused and why.

vLLM calls :func:`register` (entry point group ``vllm.general_plugins``) in every process, whether specverify is chosen or
not. It wraps two functions and does nothing else; both hand on to vLLM's own for every configuration that names no
specverify proposer:

``Platform.check_and_update_config``
    The last word on ``worker_cls`` and ``scheduler_cls``: our subclasses are selected there, by name, so that the choice
    travels with the configuration to the engine's and the workers' processes. What can't be served losslessly is refused
    there too, before any weight is read.
``SamplingParams._validate_spec_decode``
    vLLM's own check of a request's parameters against the speculative method, made in the front end when the request
    arrives. `Platform.validate_request` and `LogitsProcessor.validate_params`, the official hooks, see no configuration, so
    they can't tell an engine that uses specverify from one beside it that doesn't, and neither can lift vLLM's ban on
    min_p and logit_bias. This one is given the configuration and raises to the caller: the request is rejected with the
    reason, the engine goes on.
"""

from __future__ import annotations

import logging
from difflib import SequenceMatcher, get_close_matches
from functools import cache, wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

from specverify import SpecVerifyError

if TYPE_CHECKING:
    from vllm.config import SpeculativeConfig, VllmConfig
    from vllm.sampling_params import SamplingParams

    from specverify.vllm.drafters import Proposer

logger = logging.getLogger(__name__)

OLDEST = (0, 23)
WORKERS = {"vllm.v1.worker.cpu_worker.CPUWorker": "specverify.vllm.runner_v1.CPUWorker"}
SCHEDULER = "specverify.vllm.scheduler.Scheduler"


class Refused(SpecVerifyError, ValueError):
    """An engine configuration that can't be served losslessly; the message says why."""


def proposer_class(speculative_config: SpeculativeConfig | None) -> type[Proposer] | None:
    """Return the specverify proposer that a speculative configuration names, or None where it names none."""
    if speculative_config is None or speculative_config.method != "custom_class":
        return None
    return _resolve(str(speculative_config.model))


@cache
def _resolve(path: str) -> type[Proposer] | None:
    from specverify.vllm.drafters import Proposer

    module, _, name = path.rpartition(".")
    try:
        named = getattr(import_module(module), name, None)
    except Exception:  # the class is somebody's; vLLM itself will say what is wrong with it
        return None
    return named if isinstance(named, type) and issubclass(named, Proposer) else None


def refuse_misspelt_proposer(speculative_config: SpeculativeConfig | None) -> None:
    """Raise `Refused` where a name in this package leads to no proposer: vLLM would find out when the model is loaded."""
    if speculative_config is None or speculative_config.method != "custom_class":
        return
    path = str(speculative_config.model)
    if path.partition(".")[0] != "specverify" or _resolve(path) is not None:
        return
    import specverify.vllm

    known = {name: f"specverify.vllm.{name}" for name in specverify.vllm.__all__}
    meant = get_close_matches(path.rpartition(".")[2], known, n=1)
    hint = f" (did you mean {known[meant[0]]}?)" if meant else ""
    raise Refused(
        f"speculative_config.model is {path!r}: expected one of {', '.join(known.values())}, or the dotted name of a class of "
        f"your own{hint}"
    )


def refuse_options(vllm_config: VllmConfig, proposer: type[Proposer]) -> None:
    """Raise `Refused` for an unknown option (named, with the known ones), a value out of its domain, or a misspelt key."""
    from specverify.vllm.drafters import KEY, options

    beside = vllm_config.additional_config
    for key in beside if isinstance(beside, dict) else ():
        if key != KEY and _resembles(str(key), KEY):  # any other key is vLLM's or another plug-in's
            raise Refused(
                f"additional_config has the key {key!r}: expected {KEY!r}, under which the proposer's options stand"
            )
    given = options(vllm_config)
    where = f"additional_config[{KEY!r}]"
    if not isinstance(given, dict):
        raise Refused(f"{where} is {given!r}: expected an object with some of {list(proposer.OPTIONS)}")
    if unknown := sorted(set(given) - set(proposer.OPTIONS)):
        raise Refused(f"{where} has unknown options {unknown}: {proposer.__name__} knows {list(proposer.OPTIONS)}")
    try:
        proposer.check(given)
    except (SpecVerifyError, TypeError) as error:
        raise Refused(f"{where}: {error}") from error


def _resembles(word: str, name: str) -> bool:
    plain = word.lower().replace("_", "").replace("-", "")
    return SequenceMatcher(None, plain, name).ratio() > 0.8


def refuse_unservable(vllm_config: VllmConfig) -> None:
    """Raise `Refused` with the first reason why this configuration can't be served losslessly."""
    import vllm
    from vllm.platforms import current_platform

    version = getattr(vllm, "__version__", "0")
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    speculative, parallel, model = vllm_config.speculative_config, vllm_config.parallel_config, vllm_config.model_config
    scheduler = vllm_config.scheduler_config
    reasons = (
        (
            (0,) <= numbers < OLDEST,
            f"vLLM is {version}: expected {OLDEST[0]}.{OLDEST[1]} or later, whose proposer interface this plug-in is built on",
        ),
        (
            current_platform.device_type != "cpu",
            f"the device is {current_platform.device_type}: this version verifies on the CPU only",
        ),
        (
            bool(getattr(vllm_config, "use_v2_model_runner", False)),
            "the V2 model runner is selected: this version serves the V1 runner; unset VLLM_USE_V2_MODEL_RUNNER",
        ),
        (
            parallel.pipeline_parallel_size > 1,
            f"pipeline_parallel_size is {parallel.pipeline_parallel_size}: expected 1, since drafts and their request's tokens "
            "are known to the last stage only",
        ),
        (
            getattr(speculative, "rejection_sample_method", "standard") != "standard",
            f"rejection_sample_method is {getattr(speculative, 'rejection_sample_method', None)!r}: expected 'standard' (unset); "
            "specverify's sampler takes its place",
        ),
        (
            getattr(speculative, "draft_sample_method", "greedy") != "greedy",
            f"draft_sample_method is {getattr(speculative, 'draft_sample_method', None)!r}: expected 'greedy' (unset); "
            "a model-free proposer draws nothing",
        ),
        (
            "logits" in str(model.logprobs_mode),
            f"logprobs_mode is {model.logprobs_mode!r}: expected 'raw_logprobs' or 'processed_logprobs'",
        ),
        (
            bool(getattr(model, "enable_prompt_embeds", False)),
            "enable_prompt_embeds is on: the ids of such a prompt are unknown, so neither penalties nor drafts can see them",
        ),
        (
            parallel.worker_cls not in ("auto", *WORKERS, *WORKERS.values()),
            f"worker_cls is {parallel.worker_cls!r}: expected it unset; specverify selects a worker of its own",
        ),
        (
            scheduler.scheduler_cls not in (None, SCHEDULER),
            f"scheduler_cls is {scheduler.scheduler_cls!r}: expected it unset; specverify selects a scheduler of its own, "
            "which ends requests that the sampler can't serve",
        ),
    )
    for holds, reason in reasons:
        if holds:
            raise Refused(f"specverify can't serve this engine: {reason}")


def select(vllm_config: VllmConfig) -> None:
    """Point the configuration at our worker and scheduler. Idempotent."""
    parallel = vllm_config.parallel_config
    parallel.worker_cls = WORKERS.get(parallel.worker_cls, parallel.worker_cls)
    vllm_config.scheduler_config.scheduler_cls = SCHEDULER


def register() -> None:
    """Wrap the two functions that this module's docstring names. Safe to call twice.

    Never raises: a vLLM that we don't fit must go on working for those who don't choose specverify. For those who do, the
    proposer refuses to start when its worker was not selected.
    """
    try:
        from vllm.platforms import current_platform
        from vllm.sampling_params import SamplingParams

        _wrap_platform(type(current_platform))
        _wrap_request_check(SamplingParams)
    except Exception:
        logger.exception("specverify does not fit this vLLM and stays off")


def _wrap_platform(platform: type[Any]) -> None:
    original = platform.check_and_update_config
    if hasattr(original, "specverify"):
        return

    @wraps(original)
    def check_and_update_config(cls: type[Any], vllm_config: VllmConfig) -> None:
        proposer = proposer_class(vllm_config.speculative_config)
        if proposer is not None:
            refuse_unservable(vllm_config)
            refuse_options(vllm_config, proposer)
        else:
            refuse_misspelt_proposer(vllm_config.speculative_config)
        original(vllm_config)
        if proposer is not None:
            select(vllm_config)

    check_and_update_config.specverify = True  # type: ignore[attr-defined]
    platform.check_and_update_config = classmethod(check_and_update_config)


def _wrap_request_check(params_class: type[Any]) -> None:
    original = params_class._validate_spec_decode
    if hasattr(original, "specverify"):
        return

    @wraps(original)
    def _validate_spec_decode(self: SamplingParams, speculative_config: SpeculativeConfig | None) -> None:
        if proposer_class(speculative_config) is None:
            return original(self, speculative_config)  # type: ignore[no-any-return]
        from vllm.exceptions import VLLMValidationError

        from specverify.vllm.sampler import Unservable, serve

        try:
            serve(self, seed=0)
        except Unservable as error:
            raise VLLMValidationError(f"specverify can't serve this request: {error}") from error

    _validate_spec_decode.specverify = True  # type: ignore[attr-defined]
    params_class._validate_spec_decode = _validate_spec_decode
