"""What a drafter is asked and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

import specverify as sv


@dataclass(frozen=True)
class Context:
    """What is known when a step drafts.

    Attributes
    ----------
    prompt, output : sequence of int
        Token ids so far; the last of them is the root of the tree.
    sampling : SamplingParams
        The request's, with its seed.
    seed : int
        That seed.
    stop_token_ids : sequence of int
        The output ends with one of them.
    max_depth : int
        Deeper nodes could not be emitted any more. 0 asks for an empty tree.
    """

    prompt: Sequence[int]
    output: Sequence[int]
    sampling: sv.SamplingParams
    seed: int
    stop_token_ids: Sequence[int]
    max_depth: int

    @property
    def position(self) -> int:
        """Position of the step's first emitted token, which also names the step."""
        return len(self.prompt) + len(self.output)


class Draft(NamedTuple):
    """A tree and, where its nodes were drawn, the probabilities they were drawn from (``[n + 1, V]``)."""

    tree: sv.DraftTree
    probs: npt.NDArray[np.float64] | None = None


class Drafter(Protocol):
    """Anything that proposes trees for one sequence at a time."""

    def start(self, prompt: Sequence[int]) -> None:
        """Begin a new sequence; drop what was known of the former."""

    def draft(self, context: Context) -> Draft:
        """Propose a tree."""

    def accept(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Learn which nodes of the last tree were accepted, and the tokens that the step emitted."""


class NoDrafter:
    """Drafts nothing: every step emits one token of the target."""

    def start(self, prompt: Sequence[int]) -> None:
        """Forget nothing."""

    def draft(self, context: Context) -> Draft:
        """Propose an empty tree."""
        return Draft(sv.DraftTree([], []))

    def accept(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Learn nothing."""
