"""The demo's results as a table, a picture and a page."""

import base64
import html
import os
import platform
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from demo.checks import Check
from demo.configurations import BY_NAME, PLAIN, SILENT
from demo.results import Measurement

INK, MUTED, GRID = "#1b1f24", "#5b6470", "#e4e7eb"
COLORS = {"plain": "#9aa4b1", "ngram": "#e0a03c", "suffix": "#1f7a6d"}


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
            f"{self.concurrency} request{'s' if self.concurrency > 1 else ''} at a time, N={self.num_speculative_tokens}"
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
                " ".join(f"{100 * share:.0f}" for share in each.survival) or "-",
            ]
        )
    return found


HEAD = ["T", "run", "tok/s", "speed-up", "tok/step", "MAL", "AR", "accepted at depth 1, 2, ... (%)"]
LEGEND = (
    "tok/s counts reading the prompt. tok/step: tokens per pass of the model. MAL: 1 + accepted tokens per draft, over steps that had "
    "one. AR: accepted / drafted."
)


def print_table(console: Console, measurements: Seq[Measurement], checks: Seq[Check], setting: Setting) -> None:
    """The table and the checks on the terminal."""
    table = Table(title=str(setting), title_justify="left", title_style="dim", caption=LEGEND, caption_justify="left")
    for i, name in enumerate(HEAD):
        table.add_column(name, justify="left" if i in (1, 7) else "right", no_wrap=i != 7)
    last = None
    for row in rows(measurements):
        if last is not None and row[0] != last:
            table.add_section()
        last = row[0]
        table.add_row(*row, style="bold green" if row[1] == BY_NAME["suffix"].label else "")
    console.print(table)
    for check in checks:
        console.print(str(check), style="green" if check.passed else "bold white on red", highlight=False)


def draw(path: Path, measurements: Seq[Measurement], checks: Seq[Check], setting: Setting) -> None:
    """The table's story as a PNG: tokens a second on the left, how deep drafts survive on the right."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {"font.family": "DejaVu Sans", "font.size": 10, "text.color": INK, "axes.labelcolor": MUTED, "axes.edgecolor": GRID}
    )
    shown = [m for m in measurements if m.configuration != SILENT.name]
    temperatures = sorted({m.temperature for m in shown})
    figure, (bars, depths) = plt.subplots(1, 2, figsize=(11, 4.9), width_ratios=[1.5, 1])
    figure.subplots_adjust(left=0.155, right=0.975, top=0.77, bottom=0.225, wspace=0.2)

    # One group of bars a temperature, top to bottom as in the table; a dot is one prompt.
    position, ticks, labels = 0.0, [], []
    for temperature in temperatures:
        group = [m for m in shown if m.temperature == temperature]
        bars.text(-0.02, position - 0.62, f"temperature {temperature:g}", transform=bars.get_yaxis_transform(), ha="right",
                  fontsize=9, color=MUTED, style="italic")  # fmt: skip
        for each in group:
            base = baseline(shown, temperature)
            color = COLORS[each.configuration]
            rate = each.tokens_per_second
            bars.barh(position, rate, height=0.74, color=color, zorder=2)
            dots = [len(sequence.token_ids) / sequence.seconds for sequence in each.sequences]
            bars.scatter(
                dots, [position] * len(dots), s=11, color="white", edgecolor=INK, linewidth=0.6, zorder=3, clip_on=False
            )
            text = f"{rate:.1f}"
            if base is not None and each is not base:
                text += f"   {rate / base.tokens_per_second:.2f}x"
            bars.annotate(text, (max([rate, *dots]), position), xytext=(7, 0), textcoords="offset points", va="center", fontsize=10.5,
                          fontweight="bold" if each.configuration == "suffix" else "normal", color=INK)  # fmt: skip
            ticks.append(position)
            labels.append(BY_NAME[each.configuration].label)
            position += 1
        position += 0.85
    bars.set_yticks(ticks, labels)
    for label in bars.get_yticklabels():
        label.set_color(INK)
    bars.invert_yaxis()
    bars.set_xlim(0, bars.get_xlim()[1] * 1.12)
    bars.set_xlabel("output tokens per second (bar: all prompts; dot: one prompt)")
    bars.grid(axis="x", color=GRID, zorder=0)

    for each in shown:
        if not each.num_drafts:
            continue
        style = "-" if each.temperature == 0 else (0, (4, 2))
        survival = [100.0, *(100 * share for share in each.survival)]
        label = f"{BY_NAME[each.configuration].label}, T={each.temperature:g}"
        depths.plot(range(len(survival)), survival, color=COLORS[each.configuration], linestyle=style, marker="o", markersize=3.5,
                    linewidth=1.8, label=label, zorder=3)  # fmt: skip
    depths.set_ylim(0, 104)
    depths.set_xlim(0, setting.num_speculative_tokens)
    depths.set_xlabel("depth of the drafted token")
    depths.set_title("drafts accepted to that depth (%)", fontsize=10, color=MUTED, loc="left")
    depths.grid(color=GRID, zorder=0)
    if depths.get_legend_handles_labels()[0]:
        depths.legend(frameon=False, fontsize=9)
    for axes in (bars, depths):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0, labelcolor=MUTED)
    bars.tick_params(axis="y", labelcolor=INK)

    figure.text(0.02, 0.93, title(measurements, checks), fontsize=14.5, fontweight="bold")
    figure.text(0.02, 0.875, subtitle(checks), fontsize=10.5, color=MUTED if all(c.passed for c in checks) else "#b3261e")
    figure.text(0.02, 0.065, str(setting), fontsize=8, color=MUTED)
    figure.text(0.02, 0.025, "One run a bar; speed-up over the first bar of its group. tok/s includes reading the prompt.", fontsize=8,
                color=MUTED)  # fmt: skip
    figure.savefig(path, dpi=130)
    plt.close(figure)


def title(measurements: Seq[Measurement], checks: Seq[Check]) -> str:
    """The picture's headline: what happened, good or bad."""
    if not all(check.passed for check in checks):
        return "The text changed: this run fails"
    gains = []
    for each in sorted(measurements, key=lambda m: m.temperature):
        base = baseline(measurements, each.temperature)
        if each.configuration == "suffix" and base is not None:
            gains.append(f"{each.tokens_per_second / base.tokens_per_second:.2f}x at T={each.temperature:g}")
    return "Same text, fewer passes: " + ", ".join(gains) if gains else "Tokens per second"


def subtitle(checks: Seq[Check]) -> str:
    """What was checked."""
    if not checks:
        return "No two runs to compare."
    failed = [check for check in checks if not check.passed]
    if failed:
        return str(failed[0])
    tokens = {check.temperature: check.tokens for check in checks}
    each = " and ".join(f"{count} tokens at T={temperature:g}" for temperature, count in sorted(tokens.items()))
    return f"specverify's output is token for token that of the same sampler without drafts: {each}"


STYLE = """
body{font:16px/1.55 system-ui,sans-serif;color:#1b1f24;max-width:1080px;margin:2.5rem auto;padding:0 1.2rem}
h1{font-size:1.5rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2.2rem}p.muted,caption,footer{color:#5b6470;font-size:.88rem}
img{width:100%;height:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.92rem}
th,td{padding:.38rem .6rem;text-align:right;border-bottom:1px solid #e4e7eb}
td:nth-child(2),th:nth-child(2),td:last-child,th:last-child{text-align:left}
tr.ours{font-weight:600;background:#eef6f4}.ok{color:#1f7a6d}.bad{color:#fff;background:#b3261e;padding:.2rem .5rem}
pre{white-space:pre-wrap;word-break:break-word;background:#f7f8f9;padding:1rem;border-radius:6px;font-size:.84rem;line-height:1.7}
mark{background:#bfe3da;color:inherit;border-radius:2px}
"""


def marked_text(measurement: Measurement, index: int) -> str:
    """One prompt's text as HTML, accepted drafts marked: all tokens of a step but its last."""
    sequence = measurement.sequences[index]
    parts, at = [], 0
    for count in sequence.steps:
        accepted = html.escape("".join(sequence.pieces[at : at + count - 1]))
        parts.append(f"<mark>{accepted}</mark>" if accepted else "")
        parts.append(html.escape("".join(sequence.pieces[at + count - 1 : at + count])))
        at += count
    return "".join(parts)


def page(path: Path, picture: Path, measurements: Seq[Measurement], checks: Seq[Check], setting: Setting) -> None:
    """A page that needs no other file: the picture, the table, the checks and the texts with accepted drafts marked."""
    ours = BY_NAME["suffix"].label
    cells = "".join(
        f"<tr{' class=ours' if row[1] == ours else ''}>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
        for row in rows(measurements)
    )
    head = "".join(f"<th>{html.escape(name)}</th>" for name in HEAD)
    verdicts = "".join(f"<p class={'ok' if check.passed else 'bad'}>{html.escape(str(check))}</p>" for check in checks)
    texts = ""
    for each in (m for m in measurements if m.configuration == "suffix"):
        order = sorted(
            range(len(each.sequences)), key=lambda i: -len(each.sequences[i].token_ids) / len(each.sequences[i].steps)
        )
        for index in order:
            sequence = each.sequences[index]
            summary = (
                f"{sequence.prompt}, T={each.temperature:g}: {len(sequence.token_ids)} tokens in {len(sequence.steps)} passes"
            )
            opened = " open" if index == order[0] else ""
            texts += (
                f"<details{opened}><summary>{html.escape(summary)}</summary><pre>{marked_text(each, index)}</pre></details>"
            )
    image = base64.b64encode(picture.read_bytes()).decode()
    path.write_text(
        f"""<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width,initial-scale=1">
<title>specverify demo</title><style>{STYLE}</style>
<h1>{html.escape(title(measurements, checks))}</h1><p class=muted>{html.escape(str(setting))}</p>
<img alt="Tokens per second of each run, and share of drafts accepted to each depth" src="data:image/png;base64,{image}">
<h2>Figures</h2><table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table><p class=muted>{html.escape(LEGEND)}</p>
<h2>Is it the same text?</h2>{verdicts}
<h2>What was accepted</h2><p class=muted>Marked: drafted tokens that the model confirmed. Everything else it wrote itself, one
token a pass.</p>{texts}
</html>
"""
    )
