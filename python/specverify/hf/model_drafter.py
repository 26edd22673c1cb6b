"""A second model as drafter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

import specverify as sv

from . import shapes
from .cache import TreeModel, UnsupportedModelError
from .drafter import Context, Draft
from .sampling import with_changes

# How the nodes of a static shape are picked, and what verify is told about it.
_TOLD: Mapping[str, Literal["deterministic", "independent", "without_replacement"]] = MappingProxyType(
    {
        "coupled": "deterministic",
        "top_k": "deterministic",
        "independent": "independent",
        "without_replacement": "without_replacement",
    }
)
DRAWS = (*_TOLD, "paths")

Probabilities = npt.NDArray[np.float64]


class ModelDrafter:
    """Drafts trees of a static shape with a causal LM that has its own KV cache.

    The request's sampling parameters act on the drafter's rows as they do on the target's, along each node's own path,
    and q is recorded after them: it is exactly what the nodes were drawn from. Draws use the coins of the stream
    ``draft``, never those of the target's race.

    Parameters
    ----------
    model : PreTrainedModel
        A causal LM, smaller than the target.
    tree : int or sequence of int, default 5
        The length of a chain, or parents as :mod:`specverify.hf.shapes` makes them. A row with fewer candidates than the
        shape has children drops the last of them.
    draws : {'coupled', 'top_k', 'independent', 'without_replacement', 'paths'}, default 'coupled'
        ``coupled``: the first finishers of the target's own race, run on the drafter's row (for ``target_only``).
        ``top_k``: its most likely tokens. ``independent`` and ``without_replacement``: draws from q, for the rules that
        read q. ``paths``: i.i.d. paths, merged into a trie (for ``multipath``); the shape must be
        :func:`specverify.hf.shapes.paths`.
    token_map : sequence of int, optional
        Where the drafter's head is pruned to a smaller vocabulary (as in FR-Spec or EAGLE-3): the target's id of each
        of its logits. Its input still takes the target's ids.

    Raises
    ------
    ArgumentError
        `draws` is unknown, `tree` is no shape, or it does not suit `draws`.
    UnsupportedModelError
        The model can't be run over trees.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        tree: int | Sequence[int] = 5,
        draws: str = "coupled",
        token_map: Sequence[int] | None = None,
    ) -> None:
        if draws not in DRAWS:
            raise sv.ArgumentError(f"draws is {draws!r}; expected one of {', '.join(map(repr, DRAWS))}")
        self.shape = shapes.checked(tree)
        self._paths = 0
        if draws == "paths":
            self._paths = self.shape.count(-1)
            depth = len(self.shape) // self._paths if self._paths else 0
            if self.shape != shapes.paths(self._paths, depth):
                raise sv.ArgumentError(
                    f"tree is {self.shape}; expected shapes.paths(k, depth) with draws='paths', disjoint chains of one length"
                )
        self.draws = draws
        self.name = "drafter"
        self._cache = TreeModel(model, self.name)
        self._token_map = None if token_map is None else _checked_map(token_map, self._cache.vocab_size)
        self._target_vocab = 0
        self._root_slot = 0
        self._slots: dict[int, int] = {}

    def check_vocab(self, target_vocab: int) -> None:
        """Refuse a target whose ids are not this drafter's; :func:`specverify.hf.generate` calls it first.

        Parameters
        ----------
        target_vocab : int
            Width of the target's logits.

        Raises
        ------
        UnsupportedModelError
            The vocabularies differ and there is no `token_map`, or the drafter's input is too small for the target's ids.
        ArgumentError
            `token_map` leads outside the target's vocabulary.
        """
        own = self._cache.vocab_size
        if self._token_map is None and own != target_vocab:
            raise UnsupportedModelError(
                f"the drafter's vocabulary has {own} ids and the target's {target_vocab}; expected equal ones, or a "
                "token_map from the drafter's ids to the target's"
            )
        if self._token_map is not None and int(self._token_map.max()) >= target_vocab:
            raise sv.ArgumentError(
                f"token_map holds {int(self._token_map.max())}; expected ids below {target_vocab}, the target's vocabulary"
            )
        embedding: Any = self._cache.model.get_input_embeddings()
        inputs = int(embedding.weight.shape[0])
        if inputs < target_vocab:
            raise UnsupportedModelError(
                f"the drafter's input embedding has {inputs} ids; expected the target's {target_vocab} at least"
            )
        self._target_vocab = target_vocab

    def start(self, prompt: Sequence[int]) -> None:
        """Begin a new sequence with an empty KV cache."""
        self._cache = TreeModel(self._cache.model, self.name)
        self._cache.prefill(prompt[:-1])

    def draft(self, context: Context) -> Draft:
        """Draw or choose a tree of this drafter's shape."""
        pending = [*context.prompt, *context.output][self._cache.length :]
        logits = self._cache.forward(pending, shapes.chain(len(pending)))
        self._root_slot = len(pending) - 1
        self._slots = {}
        root = self._row(logits[-1])
        if self.draws == "paths":
            return self._draft_paths(context, root)
        return self._draft_shape(context, root)

    def accept(self, path: Sequence[int], tokens: Sequence[int]) -> None:
        """Keep the KV of the accepted nodes; a leaf has none and is run with the next root."""
        slots = list(range(self._root_slot + 1))
        for node in path:
            if node not in self._slots:
                break
            slots.append(self._slots[node])
        self._cache.keep(slots)

    def _draft_shape(self, context: Context, root: torch.Tensor) -> Draft:
        shape = shapes.truncated(self.shape, context.max_depth)
        if not shape:
            return Draft(sv.DraftTree([], []))
        children: dict[int, list[int]] = {}
        for node, parent in enumerate(shape):
            children.setdefault(parent, []).append(node)

        tokens: dict[int, int] = {}
        prefixes: dict[int, list[int]] = {-1: []}
        q: dict[int, Probabilities] = {}
        slots: dict[int, int] = {}
        rows = {-1: root}
        while rows:
            for parent, row in rows.items():
                nodes = children[parent]
                chosen, drawn_from = self._choose(row, nodes, prefixes[parent], context)
                if drawn_from is not None:
                    q[parent] = drawn_from
                for node, token in zip(nodes, chosen, strict=False):
                    tokens[node] = token
                    prefixes[node] = [*prefixes[parent], token]
            level = [node for parent in rows for node in children[parent] if node in tokens and node in children]
            rows = {}
            if level:
                first = self._cache.slots
                logits = self._cache.forward(
                    [tokens[node] for node in level], [slots.get(shape[node], self._root_slot) for node in level]
                )
                for i, node in enumerate(level):
                    slots[node] = first + i
                    rows[node] = self._row(logits[i])

        # Nodes keep the shape's order, which is draw order among siblings; only the names of missing ones close up.
        kept = sorted(tokens)
        names = {-1: -1} | {node: i for i, node in enumerate(kept)}
        self._slots = {names[node]: slot for node, slot in slots.items()}
        parents = [names[shape[node]] for node in kept]
        tree = sv.DraftTree([tokens[node] for node in kept], parents, draws=_TOLD[self.draws])
        if not q:
            return Draft(tree)
        return Draft(tree, self._matrix({names[parent] + 1: row for parent, row in q.items()}, len(kept)))

    def _draft_paths(self, context: Context, root: torch.Tensor) -> Draft:
        depth = min(context.max_depth, len(self.shape) // self._paths)
        if depth == 0:
            return Draft(sv.DraftTree([], []))
        coins = sv.Coins(seed=context.seed)
        paths: list[tuple[int, ...]] = [()] * self._paths
        rows: dict[tuple[int, ...], torch.Tensor] = {(): root}
        slots: dict[tuple[int, ...], int] = {(): self._root_slot}
        q: dict[tuple[int, ...], Probabilities] = {}
        for level in range(depth):
            # One q a prefix: paths that share it are drawn from, and verified against, the same numbers.
            for prefix, row in rows.items():
                q[prefix] = self._probabilities(row, prefix, context)
            for i, path in enumerate(paths):
                u = coins.uniform(context.position, stream="draft", index=i * depth + level)
                paths[i] = (*path, draw(q[path], u))
            rows = {}
            new = list(dict.fromkeys(paths))
            if level + 1 < depth:
                first = self._cache.slots
                logits = self._cache.forward([p[-1] for p in new], [slots[p[:-1]] for p in new])
                for i, prefix in enumerate(new):
                    slots[prefix] = first + i
                    rows[prefix] = self._row(logits[i])
        tree = sv.DraftTree.from_paths([list(path) for path in paths])
        prefixes: list[tuple[int, ...]] = [()]
        for token, parent in zip(tree.tokens, tree.parents, strict=True):
            prefixes.append((*prefixes[parent + 1], token))
        self._slots = {row - 1: slots[p] for row, p in enumerate(prefixes) if row and p in slots}
        return Draft(tree, self._matrix({row: q[p] for row, p in enumerate(prefixes) if p in q}, len(tree)))

    def _choose(
        self, row: torch.Tensor, nodes: Sequence[int], prefix: Sequence[int], context: Context
    ) -> tuple[list[int], Probabilities | None]:
        """Tokens of the children of a row, at most one a node, and the q they were drawn from, if any."""
        k = len(nodes)
        if self.draws == "coupled":
            children = sv.coupled_children(
                row,
                k,
                sampling=context.sampling,
                position=context.position + len(prefix),
                prompt_token_ids=context.prompt,
                output_token_ids=context.output,
                stop_token_ids=context.stop_token_ids,
                path=prefix,
            )
            return list(children.tokens), None
        if self.draws == "top_k":
            ranked = self._probabilities(row, prefix, context, sampling=_unfiltered(context.sampling))
            best = np.argsort(-ranked, kind="stable")[:k]
            return [int(token) for token in best if ranked[token] > 0], None
        q = self._probabilities(row, prefix, context)
        coins = sv.Coins(seed=context.seed)
        weights = q.copy()
        chosen = []
        for node in nodes:
            if not weights.any():
                break
            token = draw(weights, coins.uniform(context.position, stream="draft", index=node))
            chosen.append(token)
            if self.draws == "without_replacement":
                weights[token] = 0
        return chosen, q

    def _probabilities(
        self,
        row: torch.Tensor,
        prefix: Sequence[int],
        context: Context,
        sampling: sv.SamplingParams | None = None,
    ) -> Probabilities:
        probabilities = sv.probabilities(
            row[None],
            sampling=context.sampling if sampling is None else sampling,
            prompt_token_ids=context.prompt,
            output_token_ids=[*context.output, *prefix],
            stop_token_ids=context.stop_token_ids,
        )
        drawn_from: Probabilities = probabilities[0]
        return drawn_from

    def _row(self, logits: torch.Tensor) -> torch.Tensor:
        """Spread a row over the target's ids."""
        if self._token_map is None:
            return logits
        row = torch.full((self._target_vocab,), -torch.inf, dtype=logits.dtype)
        row[self._token_map] = logits
        return row

    @staticmethod
    def _matrix(q: Mapping[int, Probabilities], nodes: int) -> Probabilities:
        vocab = len(next(iter(q.values())))
        matrix = np.zeros((nodes + 1, vocab), dtype=np.float64)
        for row, probabilities in q.items():
            matrix[row] = probabilities
        return matrix


def draw(weights: Probabilities, u: float) -> int:
    """Pick the index at which the running sum of `weights` passes `u` times their total; never one of weight 0."""
    running = np.cumsum(weights, dtype=np.float64)
    # u < 1, but the product may round up to the total, which no sum passes.
    below = min(u * running[-1], np.nextafter(running[-1], 0.0))
    return int(np.searchsorted(running, below, side="right"))


def _unfiltered(sampling: sv.SamplingParams) -> sv.SamplingParams:
    """Parameters that rank a row's tokens as the request's do, but leave all of them some mass, also at temperature 0."""
    return with_changes(sampling, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)


def _checked_map(token_map: Sequence[int], own_vocab: int) -> torch.Tensor:
    ids = torch.as_tensor(token_map, dtype=torch.long)
    if ids.ndim != 1 or len(ids) != own_vocab:
        raise sv.ShapeError(
            f"token_map has shape {tuple(ids.shape)}; expected ({own_vocab},): one of the target's ids for each of the drafter's"
        )
    if int(ids.min()) < 0 or len(set(ids.tolist())) != len(ids):
        raise sv.ArgumentError("token_map holds a negative or repeated id; expected different ids of the target")
    return ids
