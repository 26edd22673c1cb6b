"""Reads what criterion and pytest-benchmark wrote and prints it as one table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Entry:
    """One benchmark: median seconds, and the quarter and three-quarter points (criterion: the median's 95 % interval)."""

    group: str
    name: str
    median: float
    low: float
    high: float


def from_criterion(folder: Path, since: float) -> list[Entry]:
    """Benchmarks under target/criterion that were written after `since` (seconds since the epoch), in the order they ran."""
    written = {path: path.stat().st_mtime for path in folder.glob("**/new/estimates.json")}
    entries = []
    for path in sorted((path for path, when in written.items() if when >= since), key=written.__getitem__):
        about = json.loads(path.with_name("benchmark.json").read_text())
        median = json.loads(path.read_text())["median"]
        interval = median["confidence_interval"]
        name = " ".join(part for part in (about["function_id"], about["value_str"]) if part) or about["full_id"]
        entries.append(
            Entry(
                about["group_id"],
                name,
                median["point_estimate"] * 1e-9,
                interval["lower_bound"] * 1e-9,
                interval["upper_bound"] * 1e-9,
            )
        )
    return entries


def from_pytest_benchmark(path: Path) -> list[Entry]:
    """Benchmarks of a pytest-benchmark JSON file."""
    found: list[dict[str, Any]] = json.loads(path.read_text())["benchmarks"]
    return [
        Entry(
            each["group"] or each["fullname"].split("::")[0],
            each["extra_info"].get("label", each["name"]),
            each["stats"]["median"],
            each["stats"]["q1"],
            each["stats"]["q3"],
        )
        for each in found
    ]


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def print_table(console: Console, entries: list[Entry]) -> None:
    """One section a group; ratios are to the first entry of the group."""
    table = Table(box=box.SIMPLE_HEAD)
    for head, justify in (("benchmark", "left"), ("median", "right"), ("spread", "right"), ("x first", "right")):
        table.add_column(head, justify=justify)  # type: ignore[arg-type]
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.group, []).append(entry)
    for group, members in groups.items():
        table.add_row(f"[bold]{group}[/bold]")
        for entry in members:
            table.add_row(
                f"  {entry.name}",
                duration(entry.median),
                f"{duration(entry.low)} .. {duration(entry.high)}",
                f"{entry.median / members[0].median:.2f}",
            )
        table.add_section()
    console.print(table)
