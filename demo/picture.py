"""The demo's story as a picture."""

from collections.abc import Sequence as Seq
from pathlib import Path

from demo.checks import Check
from demo.configurations import BY_NAME, SILENT
from demo.report import Setting, baseline
from demo.results import Measurement

INK, MUTED, GRID, FAULT = "#1b1f24", "#5b6470", "#e4e7eb", "#b3261e"
COLORS = {"plain": "#9aa4b1", "ngram": "#e0a03c", "suffix": "#1f7a6d"}


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


def draw(path: Path, measurements: Seq[Measurement], checks: Seq[Check], setting: Setting) -> None:
    """The table's story as a PNG: tokens a second on the left, how deep drafts survive on the right."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": MUTED,
            "axes.edgecolor": GRID,
        }
    )
    shown = [m for m in measurements if m.configuration != SILENT.name]
    temperatures = sorted({m.temperature for m in shown})
    figure, (bars, depths) = plt.subplots(1, 2, figsize=(11, 4.9), width_ratios=[1.5, 1])
    figure.subplots_adjust(left=0.165, right=0.975, top=0.77, bottom=0.225, wspace=0.46)

    # One group of bars a temperature, top to bottom as in the table; a dot is one prompt.
    position, ticks, labels = 0.0, [], []
    for temperature in temperatures:
        group = [m for m in shown if m.temperature == temperature]
        bars.text(
            -0.02,
            position - 0.62,
            f"temperature {temperature:g}",
            transform=bars.get_yaxis_transform(),
            ha="right",
            fontsize=9,
            color=MUTED,
            style="italic",
        )
        for each in group:
            base = baseline(shown, temperature)
            color = COLORS[each.configuration]
            rate = each.tokens_per_second
            bars.barh(position, rate, height=0.74, color=color, zorder=2)
            dots = [len(sequence.token_ids) / sequence.seconds for sequence in each.sequences]
            bars.scatter(
                dots, [position] * len(dots), s=11, color="white", edgecolor=INK, linewidth=0.6, zorder=3, clip_on=False
            )
            weight = "bold" if each.configuration == "suffix" else "normal"
            speed_up = f"{rate / base.tokens_per_second:.2f}x" if base is not None else "-"
            for x, text in ((1.08, f"{rate:.1f}"), (1.225, speed_up)):
                bars.text(
                    x, position, text, transform=bars.get_yaxis_transform(), ha="right", va="center", fontweight=weight
                )
            ticks.append(position)
            labels.append(BY_NAME[each.configuration].label)
            position += 1
        position += 0.85
    bars.set_yticks(ticks, labels)
    for label in bars.get_yticklabels():
        label.set_color(INK)
    bars.invert_yaxis()
    for x, text in ((1.08, "tok/s"), (1.225, "speed-up")):
        bars.text(x, 1.03, text, transform=bars.transAxes, ha="right", fontsize=9, color=MUTED)
    bars.set_xlabel("output tokens per second (bar: all prompts; dot: one prompt)")
    bars.grid(axis="x", color=GRID, zorder=0)

    for each in shown:
        if not each.num_drafts:
            continue
        style = "-" if each.temperature == 0 else (0, (4, 2))
        # Over all passes, not over drafts: a drafter that seldom dares looks good per draft. The points of a line add up to
        # what a pass gains.
        shares = [100 * count / each.num_steps for count in each.accepted_per_depth]
        label = f"{BY_NAME[each.configuration].label}, T={each.temperature:g}"
        depths.plot(
            range(1, len(shares) + 1),
            shares,
            color=COLORS[each.configuration],
            linestyle=style,
            marker="o",
            markersize=3.5,
            linewidth=1.8,
            label=label,
            zorder=3,
        )
    depths.set_ylim(bottom=0)
    depths.set_xlim(1, setting.num_speculative_tokens + 0.15)
    depths.set_xlabel("depth of the drafted token")
    depths.set_title("accepted to that depth (% of all passes)", fontsize=10, color=MUTED, loc="left")
    depths.grid(color=GRID, zorder=0)
    if depths.get_legend_handles_labels()[0]:
        depths.legend(frameon=False, fontsize=9, handlelength=3)
    for axes in (bars, depths):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0, labelcolor=MUTED)
    bars.tick_params(axis="y", labelcolor=INK)

    figure.text(0.02, 0.93, title(measurements, checks), fontsize=14.5, fontweight="bold")
    figure.text(0.02, 0.875, subtitle(checks), fontsize=10.5, color=MUTED if all(c.passed for c in checks) else FAULT)
    figure.text(0.02, 0.065, str(setting), fontsize=8, color=MUTED)
    note = "One run a bar; speed-up over the first bar of its group. tok/s includes reading the prompt."
    figure.text(0.02, 0.025, note, fontsize=8, color=MUTED)
    figure.savefig(path, dpi=130)
    plt.close(figure)
