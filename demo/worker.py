"""Runs one configuration: `python -m demo.worker JOB.json`. Progress goes to the file descriptor the job names."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from demo.configurations import BY_NAME, Configuration
from demo.results import Measurement, Sequence, save


def mend_expand_batch_to_tokens() -> None:
    """Mend vLLM's CPU rejection sampler at T > 0: its `expand_batch_to_tokens` returns uninitialised memory.

    That is vllm #55005. Only runs that use vLLM's own sampler with drafts need it; specverify replaces that sampler.
    """
    import torch
    from vllm.v1.sample import rejection_sampler

    def expand(x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0) -> Any:
        x = torch.where(x == replace_from, replace_to, x) if replace_from != replace_to else x
        counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1))
        return torch.repeat_interleave(x, counts.to(torch.long), output_size=num_tokens)

    rejection_sampler.expand_batch_to_tokens = expand


def build(configuration: Configuration, job: dict[str, Any]) -> Any:
    """The vLLM engine of a configuration."""
    from vllm import LLM

    if configuration.name == "ngram":
        mend_expand_batch_to_tokens()
    return LLM(
        model=job["model"],
        dtype="float32",
        enforce_eager=True,
        max_model_len=2048,
        max_num_seqs=job["concurrency"],
        enable_prefix_caching=False,
        disable_log_stats=False,
        speculative_config=configuration.speculative_config,
    )


def counters(llm: Any) -> tuple[int, int, int, list[int]]:
    """vLLM's counters: drafts, drafted tokens, accepted tokens, accepted tokens per depth."""
    found: dict[str, Any] = {}
    for metric in llm.get_metrics():
        if "spec_decode" in metric.name:
            found[metric.name.removeprefix("vllm:spec_decode_")] = getattr(
                metric, "value", getattr(metric, "values", None)
            )
    return (
        int(found.get("num_drafts", 0)),
        int(found.get("num_draft_tokens", 0)),
        int(found.get("num_accepted_tokens", 0)),
        [int(count) for count in found.get("num_accepted_tokens_per_pos", [])],
    )


def generate(llm: Any, group: list[tuple[str, list[int], Any]], on_tokens: Any) -> list[Sequence]:
    """Run the engine step by step on a group of (name, prompt ids, sampling parameters); note what each appended."""
    engine = llm.llm_engine
    sequences = {name: Sequence(name, [], [], [], 0.0) for name, _, _ in group}
    start = time.perf_counter()
    for name, ids, params in group:
        engine.add_request(name, {"prompt_token_ids": ids}, params)
    while engine.has_unfinished_requests():
        for output in engine.step():
            sequence = sequences[output.request_id]
            ids = list(output.outputs[0].token_ids)
            added = len(ids) - len(sequence.token_ids)
            if added:
                sequence.steps.append(added)
                sequence.token_ids = ids
                on_tokens(added)
    seconds = time.perf_counter() - start
    for sequence in sequences.values():
        sequence.seconds = seconds / len(group)
    return list(sequences.values())


def pieces(tokenizer: Any, ids: list[int]) -> list[str]:
    """Text of each token. Bytes that are no whole character yet wait for the token that completes it."""
    found, shown = [], 0
    for end in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:end], skip_special_tokens=True)
        whole = text.rstrip("\ufffd")
        found.append(whole[shown:])
        shown = max(shown, len(whole))
    return found


def main(job: dict[str, Any]) -> None:
    """Run a job: every prompt at every temperature."""
    progress = os.fdopen(job["progress_fd"], "w", buffering=1)

    def say(**event: Any) -> None:
        print(json.dumps(event), file=progress)

    say(stage="loading")
    from vllm import SamplingParams

    configuration = BY_NAME[job["configuration"]]
    llm = build(configuration, job)
    tokenizer = llm.get_tokenizer()
    prompts = [
        (
            prompt["name"],
            tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt["text"]}],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
            ),
        )
        for prompt in job["prompts"]
    ]
    warm_up = SamplingParams(temperature=0.0, max_tokens=16, ignore_eos=True)
    generate(llm, [("warm-up", prompts[0][1], warm_up)], lambda added: None)

    measurements = []
    for temperature in job["temperatures"]:
        say(temperature=temperature)
        before = counters(llm)
        measurement = Measurement(configuration.name, temperature)
        for first in range(0, len(prompts), job["concurrency"]):
            group = [
                (
                    f"{name} T={temperature}",
                    ids,
                    SamplingParams(
                        temperature=temperature,
                        max_tokens=job["max_tokens"],
                        seed=job["seed"] + first + i if temperature else None,
                    ),
                )
                for i, (name, ids) in enumerate(prompts[first : first + job["concurrency"]])
            ]
            measurement.sequences += generate(llm, group, lambda added: say(tokens=added))
            say(prompts=len(group))
        after = counters(llm)
        measurement.num_drafts, measurement.num_draft_tokens, measurement.num_accepted_tokens = (
            new - old for new, old in zip(after[:3], before[:3], strict=True)
        )
        old_depths = before[3] or [0] * len(after[3])
        measurement.accepted_per_depth = [new - old for new, old in zip(after[3], old_depths, strict=True)]
        measurements.append(measurement)
    for measurement in measurements:
        for sequence in measurement.sequences:
            sequence.prompt = sequence.prompt.rsplit(" T=", 1)[0]
            sequence.pieces = pieces(tokenizer, sequence.token_ids)
    save(Path(job["out"]), measurements)
    say(stage="done")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
