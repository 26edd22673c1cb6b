"""Runs the demo: `python -m demo --help`."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from demo.checks import check
from demo.configurations import ALL, BY_NAME, NUM_SPECULATIVE_TOKENS, TEMPERATURES, Configuration
from demo.page import page
from demo.picture import draw
from demo.prepare_model import MODEL, NAME, prepare
from demo.prompts import choose
from demo.report import Setting, print_table
from demo.results import Measurement, load

# vLLM runs inside the worker, without a hub, and OpenMP threads sleep between two steps instead of spinning: on few
# cores that is the difference between 65 and 900 ms a step.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "GOMP_SPINCOUNT": "0",
    "OMP_WAIT_POLICY": "passive",
    "KMP_BLOCKTIME": "0",
}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, or what is `given` in its place."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 prompts of 32 tokens: a smoke test, not a measurement")
    parser.add_argument(
        "--prompts", type=Path, help="your own prompts, one JSON object a line (prompt, question, turns, messages)"
    )
    parser.add_argument("--num-prompts", type=int, help="how many prompts (default 10)")
    parser.add_argument("--max-tokens", type=int, help="tokens a prompt at most (default 96)")
    parser.add_argument("--concurrency", type=int, default=1, help="requests at a time (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first prompt at T > 0 (default 1)")
    parser.add_argument("--model", type=Path, help=f"a Hugging Face checkpoint (default {NAME})")
    parser.add_argument("--only", nargs="+", choices=sorted(BY_NAME), help="run these configurations only")
    parser.add_argument(
        "--out", type=Path, default=Path("out"), help="folder for demo.png, demo.html and demo.json (default out)"
    )
    found = parser.parse_args(given)
    for name, default in (("num_prompts", 2 if found.quick else 10), ("max_tokens", 32 if found.quick else 96)):
        if getattr(found, name) is None:
            setattr(found, name, default)
    for name in ("num_prompts", "max_tokens", "concurrency"):
        if getattr(found, name) < 1:
            parser.error(f"--{name.replace('_', '-')} is {getattr(found, name)}; expected at least 1")
    return found


def run(
    configuration: Configuration, job: dict[str, object], logs: Path, progress: Progress, task: TaskID
) -> list[Measurement]:
    """Run one configuration in a process of its own and follow its progress."""
    read, write = os.pipe()
    log = logs / f"{configuration.name}.log"
    with tempfile.TemporaryDirectory() as folder, log.open("w") as noise:
        out = Path(folder) / "out.json"
        path = Path(folder) / "job.json"
        path.write_text(json.dumps({**job, "configuration": configuration.name, "out": str(out), "progress_fd": write}))
        worker = subprocess.Popen(
            [sys.executable, "-m", "demo.worker", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=noise,
            stderr=subprocess.STDOUT,
            pass_fds=[write],
            env={**os.environ, **ENVIRONMENT},
        )
        os.close(write)
        per_prompt = int(str(job["max_tokens"]))
        since = 0
        try:
            with os.fdopen(read) as events:
                for line in events:
                    event = json.loads(line)
                    if event.get("stage") == "loading":
                        progress.update(task, description=f"{configuration.label}: loading the model")
                    if "temperature" in event:
                        progress.update(task, description=f"{configuration.label}, T={event['temperature']:g}")
                    if "tokens" in event:
                        since += event["tokens"]
                        progress.advance(task, event["tokens"])
                    if "prompts" in event:
                        # Prompts that stopped early count in full, so that the bar ends at its end.
                        progress.advance(task, event["prompts"] * per_prompt - since)
                        since = 0
        except BaseException:
            worker.terminate()
            raise
        finally:
            code = worker.wait()
        if code:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
            raise SystemExit(f"demo: {configuration.label!r} ended with exit status {code}; the end of {log}:\n{tail}")
        return load(out)


def main() -> int:
    """Run every configuration, print the table, draw the picture; 1 when the text changed."""
    options = arguments()
    console = Console()
    model = options.model
    if model is None:
        prepare()
        model = MODEL
    prompts = choose(options.prompts, options.num_prompts)
    configurations = [each for each in ALL if not options.only or each.name in options.only]
    logs = options.out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    job: dict[str, object] = {
        "model": str(model),
        "prompts": [asdict(prompt) for prompt in prompts],
        "temperatures": TEMPERATURES,
        "max_tokens": options.max_tokens,
        "concurrency": options.concurrency,
        "seed": options.seed,
    }
    measurements: list[Measurement] = []
    bar = Progress(
        TextColumn("{task.description:<38}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(), console=console,
    )  # fmt: skip
    with bar as progress:
        total = len(configurations) * len(TEMPERATURES) * len(prompts) * options.max_tokens
        task = progress.add_task("starting", total=total)
        for configuration in configurations:
            start = time.perf_counter()
            measurements += run(configuration, job, logs, progress, task)
            progress.console.print(
                f"[dim]{configuration.label}: done in {time.perf_counter() - start:.0f} s, with loading[/dim]"
            )
        progress.update(task, description="done")

    checks = check(measurements)
    source = str(options.prompts) if options.prompts else "HumanEval and MT-Bench"
    setting = Setting(
        model=NAME if options.model is None else model.name,
        prompts=f"{len(prompts)} prompts of {source}",
        max_tokens=options.max_tokens,
        concurrency=options.concurrency,
        num_speculative_tokens=NUM_SPECULATIVE_TOKENS,
    )
    (options.out / "demo.json").write_text(
        json.dumps({"setting": str(setting), "measurements": [asdict(each) for each in measurements]}) + "\n"
    )
    print_table(console, measurements, checks, setting)
    draw(options.out / "demo.png", measurements, checks, setting)
    page(options.out / "demo.html", options.out / "demo.png", measurements, checks, setting)
    console.print(f"Picture: {options.out / 'demo.png'}   Page: {options.out / 'demo.html'}", highlight=False)
    return 0 if all(each.passed for each in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
