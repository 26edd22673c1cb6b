"""Draws docs/images/tree-and-mask.png: a draft tree, its rows and its attention mask. Run by `make pictures`."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import specverify as sv

INK, MUTED, LINE = "#1b1f24", "#5b6470", "#c4cad2"
ACCEPTED, PLAIN, FIRST = "#1f7a6d", "#ffffff", "#eceff2"
ROOT = "return"
WORDS = ["a", "(", "+", "-", "a", "b", "+"]
TREE = sv.DraftTree(tokens=[64, 7, 10, 12, 64, 65, 10], parents=[-1, -1, 0, 0, 1, 2, 4])
PATH = [0, 2, 5]


def place(tree: sv.DraftTree) -> list[tuple[float, float]]:
    """Give each row a point: leaves at equal distances from left to right, a parent above the middle of its children."""
    points: dict[int, tuple[float, float]] = {}
    column = 0.0

    def visit(row: int) -> float:
        nonlocal column
        children = [child + 1 for child in tree.children(row)]
        if children:
            x = float(np.mean([visit(child) for child in children]))
        else:
            x, column = column, column + 1.0
        depth = 0 if row == 0 else tree.depths[row - 1]
        points[row] = (x, -depth)
        return x

    visit(0)
    return [points[row] for row in range(len(tree) + 1)]


def mask(tree: sv.DraftTree) -> Any:
    """[n + 1, n + 1] what each row attends to: column 0 is the root and all before it, column i + 1 is node i."""
    bits = tree.ancestor_bits
    nodes = [[int(row[i // 64]) >> (i % 64) & 1 for i in range(len(tree))] for row in bits]
    return np.array([[1, *row] for row in nodes])


def draw_tree(axes: Any) -> None:
    """Draw the tree, its accepted path in green."""
    points = place(TREE)
    for node, parent in enumerate(TREE.parents):
        on = node in PATH
        axes.plot(*zip(points[parent + 1], points[node + 1], strict=True), color=ACCEPTED if on else LINE,
                  linewidth=2.4 if on else 1.4, zorder=1)  # fmt: skip
    for row, (x, y) in enumerate(points):
        on = row - 1 in PATH
        face = FIRST if row == 0 else ACCEPTED if on else PLAIN
        axes.text(x, y, ROOT if row == 0 else WORDS[row - 1], ha="center", va="center", fontsize=12, family="DejaVu Sans Mono",
                  color="white" if on else INK, zorder=3,
                  bbox={"boxstyle": "round,pad=0.45", "facecolor": face, "edgecolor": ACCEPTED if on else LINE})  # fmt: skip
        side = "root" if row == 0 else f"node {row - 1}"
        axes.text(x + 0.27 + (0.22 if row == 0 else 0), y, side, fontsize=8.5, color=MUTED, va="center")
    x, y = points[PATH[-1] + 1]
    axes.annotate(
        "", (x, y - 0.78), (x, y - 0.24), arrowprops={"arrowstyle": "->", "color": ACCEPTED, "linewidth": 1.6}
    )
    axes.text(x, y - 0.92, "one more token, the target's own", ha="center", va="top", fontsize=9, color=ACCEPTED)
    for depth in range(4):
        axes.text(-0.95, -depth, f"depth {depth}", fontsize=8.5, color=MUTED, va="center")
    axes.set_xlim(-1.0, 2.75)
    axes.set_ylim(-4.25, 0.45)
    axes.set_title("A draft tree: 7 nodes, one pass", loc="left", fontsize=12, color=INK, fontweight="bold")
    axes.axis("off")


def draw_mask(axes: Any) -> None:
    """Draw the mask: row r may look at the prefix, the root, its ancestors and itself."""
    seen = mask(TREE)
    size = len(seen)
    path_rows = [0, *(node + 1 for node in PATH)]
    for row in range(size):
        for column in range(size):
            on = seen[row, column]
            color = (ACCEPTED if row in path_rows else "#8a95a3") if on else "#f3f5f7"
            axes.add_patch(plt.Rectangle((column + 0.04, row + 0.04), 0.92, 0.92, color=color, linewidth=0))
    names = [ROOT, *WORDS]
    axes.set_xticks(np.arange(size) + 0.5, ["prefix,\nroot", *(str(i) for i in range(size - 1))])
    axes.set_yticks(
        np.arange(size) + 0.5, [f"row {row}  {name:>6}" for row, name in enumerate(names)], family="DejaVu Sans Mono"
    )
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelcolor=MUTED, labelsize=9)
    axes.set_xlim(0, size)
    axes.set_ylim(size, 0)
    axes.set_aspect("equal")
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title("Its mask: who sees whom", loc="left", fontsize=12, color=INK, fontweight="bold", pad=12)
    axes.text(0, size + 0.35, "Row 0 follows the root, row i + 1 follows node i. The token of a row\n"
              "belongs to position base + 1 + depth, whatever its place in the list.", fontsize=8.5, color=MUTED, va="top")  # fmt: skip


def main() -> None:
    """Write the picture next to this file."""
    plt.rcParams.update({"font.family": "DejaVu Sans"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 5.1), width_ratios=[1.12, 1])
    figure.subplots_adjust(left=0.02, right=0.98, top=0.84, bottom=0.13, wspace=0.2)
    draw_tree(left)
    draw_mask(right)
    figure.savefig(Path(__file__).with_name("tree-and-mask.png"), dpi=120)


if __name__ == "__main__":
    main()
