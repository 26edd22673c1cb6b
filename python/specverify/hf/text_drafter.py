"""The model-free drafters: n-grams and suffixes of the text so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import specverify as sv

from . import shapes
from .drafter import Context, Draft

KINDS: Mapping[str, type[sv.NgramDrafter] | type[sv.SuffixDrafter]] = MappingProxyType(
    {"ngram": sv.NgramDrafter, "suffix": sv.SuffixDrafter}
)


class TextDrafter:
    """Drafts what followed the end of the text where it stood before, in prompt or output.

    Parameters
    ----------
    kind : {'ngram', 'suffix'}
        Prompt lookup, or a suffix of any length.
    tree : int or sequence of int, default 5
        The length of a chain. Of another shape only the numbers of nodes and of levels count: the text decides where
        a tree branches.

    Raises
    ------
    ArgumentError
        `kind` is unknown or `tree` is no shape.
    """

    def __init__(self, kind: str, *, tree: int | Sequence[int] = 5) -> None:
        if kind not in KINDS:
            raise sv.ArgumentError(f"drafter is {kind!r}; expected one of {', '.join(map(repr, KINDS))}")
        self.kind = kind
        shape = shapes.checked(tree)
        self._drafter = KINDS[kind]()
        self._nodes = len(shape)
        self._depth = shapes.depth(shape)
        self._started = False

    def start(self, prompt: Sequence[int]) -> None:
        """Begin a new sequence; drop the text of the former."""
        if self._started:
            self._drafter.stop(_REQUEST)
        self._drafter.start(_REQUEST, prompt)
        self._started = True

    def draft(self, context: Context) -> Draft:
        """Propose the most frequent continuations."""
        depth = min(self._depth, context.max_depth)
        if self._depth == self._nodes:
            drafted = self._drafter.draft(_REQUEST, depth)
        else:
            drafted = self._drafter.draft_tree(_REQUEST, self._nodes, depth)
        return Draft(drafted.tree)

    def accept(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Append the emitted tokens."""
        self._drafter.extend(_REQUEST, tokens)


# A drafter of the library serves many requests; this one serves one.
_REQUEST = "0"
