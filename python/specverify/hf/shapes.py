"""Static shapes of draft trees: parents in topological order, siblings in draw order, -1 for children of the root."""

from __future__ import annotations

from collections.abc import Sequence

import specverify as sv


def chain(n: int) -> list[int]:
    """Make n nodes, each its predecessor's child.

    Examples
    --------
    >>> chain(3)
    [-1, 0, 1]
    """
    return list(range(-1, n - 1))


def branching(widths: Sequence[int]) -> list[int]:
    """Every node of depth d has ``widths[d]`` children; the root has depth 0.

    Examples
    --------
    >>> branching([2, 1])
    [-1, -1, 0, 1]
    """
    parents: list[int] = []
    level = [-1]
    for width in widths:
        start = len(parents)
        parents += [parent for parent in level for _ in range(width)]
        level = list(range(start, len(parents)))
    return parents


def siblings(k: int, depth: int) -> list[int]:
    """Put k alternatives at each of ``depth`` positions; the first of each position carries on.

    Examples
    --------
    >>> siblings(2, 2)
    [-1, -1, 0, 0]
    """
    return [-1 if level == 0 else (level - 1) * k for level in range(depth) for _ in range(k)]


def paths(k: int, depth: int) -> list[int]:
    """Make k disjoint chains from the root, one after the other.

    Examples
    --------
    >>> paths(2, 2)
    [-1, 0, -1, 2]
    """
    return [-1 if level == 0 else path * depth + level - 1 for path in range(k) for level in range(depth)]


def parse(text: str) -> list[int]:
    """Read a shape written as on the command line.

    Parameters
    ----------
    text : str
        ``chain:5``, ``branching:3,2,1``, ``siblings:3x5`` (3 alternatives at 5 positions) or ``paths:4x3`` (4 paths of
        3 tokens).

    Returns
    -------
    list of int
        Parents.

    Raises
    ------
    ValueError
        Names the text and what is expected.
    """
    kind, _, size = text.partition(":")
    try:
        if kind == "chain":
            return chain(_positive(size))
        if kind == "branching":
            return branching([_positive(width) for width in size.split(",")])
        if kind in ("siblings", "paths"):
            k, depth = (_positive(number) for number in size.split("x"))
            return siblings(k, depth) if kind == "siblings" else paths(k, depth)
    except ValueError:
        pass
    raise ValueError(
        f"tree is {text!r}; expected chain:N, branching:W1,W2,..., siblings:KxDEPTH or paths:KxDEPTH, numbers above 0"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def checked(tree: int | Sequence[int]) -> list[int]:
    """Make parents from the length of a chain, or from parents.

    Raises
    ------
    ArgumentError
        A negative length, or a parent that is not before its child.
    """
    if isinstance(tree, int):
        if tree < 0:
            raise sv.ArgumentError(f"tree is {tree}; expected a number of drafts >= 0, or parents")
        return chain(tree)
    parents = [int(parent) for parent in tree]
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise sv.ArgumentError(f"tree[{node}] is {parent}; expected -1 (the root) or a node before {node}")
    return parents


def depth(parents: Sequence[int]) -> int:
    """Count the levels of a shape.

    Examples
    --------
    >>> depth([-1, 0, -1])
    2
    """
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return max(depths, default=0)


def truncated(parents: Sequence[int], depth: int) -> list[int]:
    """Cut nodes deeper than ``depth``.

    Examples
    --------
    >>> truncated([-1, 0, -1, 2], 1)
    [-1, -1]
    """
    depths: list[int] = []
    renamed: dict[int, int] = {-1: -1}
    kept: list[int] = []
    for node, parent in enumerate(parents):
        depths.append(1 if parent < 0 else depths[parent] + 1)
        if depths[node] <= depth:
            renamed[node] = len(kept)
            kept.append(renamed[parent])
    return kept
