"""The demo's results as a table on the terminal."""

import os
import platform
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from demo.checks import Check
from demo.configurations import BY_NAME, PLAIN
from demo.results import Measurement


@dataclass(frozen=True)
class Setting:
    """What the figures were measured on; printed under each of them."""

    model: str
    prompts: str
    max_tokens: int
    concurrency: int
    num_speculative_tokens: int

    def __str__(self) -> str:
        return (
            f"{self.model}, float32, vLLM on {machine()}; {self.prompts}, up to {self.max_tokens} tokens each, "
            f"{self.concurrency} at a time, N={self.num_speculative_tokens}"
        )


def machine() -> str:
    """CPU model and number of usable cores."""
    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{cores} cores of {name.replace('(R)', '')}"


def baseline(measurements: Seq[Measurement], temperature: float) -> Measurement | None:
    """vLLM without drafts at a temperature."""
    same = (m for m in measurements if m.configuration == PLAIN.name and m.temperature == temperature)
    return next(same, None)


def percent(value: float | None) -> str:
    """A share, or a dash where nothing was drafted."""
    return "-" if value is None else f"{100 * value:.0f} %"


def rows(measurements: Seq[Measurement]) -> list[list[str]]:
    """The table, without its head."""
    found = []
    for each in sorted(measurements, key=lambda m: m.temperature):
        base = baseline(measurements, each.temperature)
        length = each.mean_accepted_length
        found.append(
            [
                f"{each.temperature:g}",
                BY_NAME[each.configuration].label,
                f"{each.tokens_per_second:.1f}",
                f"{each.tokens_per_second / base.tokens_per_second:.2f}x" if base else "-",
                f"{each.tokens_per_step:.2f}",
                "-" if length is None else f"{length:.2f}",
                percent(each.acceptance_rate),
            ]
        )
    return found


def depth_rows(measurements: Seq[Measurement], depths: int) -> list[list[str]]:
    """The table of acceptance per depth, without its head."""
    drafted = (m for m in sorted(measurements, key=lambda m: m.temperature) if m.num_drafts)
    return [
        [f"{m.temperature:g}", BY_NAME[m.configuration].label]
        + [f"{100 * share:.0f}" for share in m.survival]
        + ["-"] * (depths - len(m.survival))
        for m in drafted
    ]


HEAD = ["T", "run", "tok/s", "speed-up", "tok/step", "MAL", "AR"]
LEGEND = (
    "tok/s counts reading the prompt. tok/step: tokens per pass of the model. MAL: 1 + accepted tokens per draft, over "
    "steps that had one. AR: accepted / drafted."
)
# The picture shows shares of passes instead, which add up to what a pass gains.
SURVIVAL = "drafts accepted to depth 1, 2, ... (% of drafts; in the picture % of passes)"


def print_table(console: Console, measurements: Seq[Measurement], checks: Seq[Check], setting: Setting) -> None:
    """The table and the checks on the terminal."""
    console.print(f"\n{setting}\n", style="dim", highlight=False)
    depths = [str(depth + 1) for depth in range(setting.num_speculative_tokens)]
    for title, head, body in (
        (None, HEAD, rows(measurements)),
        (SURVIVAL, ["T", "run", *depths], depth_rows(measurements, len(depths))),
    ):
        table = Table(title=title, title_justify="left", title_style="dim", box=box.SIMPLE_HEAD, pad_edge=False)
        for name in head:
            table.add_column(name, justify="left" if name == "run" else "right", no_wrap=True)
        last = None
        for row in body:
            if last is not None and row[0] != last:
                table.add_section()
            last = row[0]
            table.add_row(*row, style="bold green" if row[1] == BY_NAME["suffix"].label else "")
        if body:
            console.print(table)
    console.print(f"{LEGEND}\n", style="dim", highlight=False)
    for check in checks:
        console.print(str(check), style="green" if check.passed else "bold white on red", highlight=False)
