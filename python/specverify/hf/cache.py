"""A causal LM and its KV cache, run over draft trees."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

import specverify as sv

MASKED_ATTENTION = ("eager", "sdpa")


class UnsupportedModelError(sv.SpecVerifyError):
    """A model, or a pair of models, that can't be run over draft trees without changing its output."""


class TreeModel:
    """A causal LM, the KV cache of one sequence, and scratch slots behind it for the nodes of a draft tree.

    Scratch slot s has a parent slot (-1: the last committed token) and sees the committed tokens, its ancestors and
    itself; its position is ``length`` + its depth. :meth:`keep` commits a path of slots and drops the others.

    Parameters
    ----------
    model : PreTrainedModel
        A causal LM with ``eager`` or ``sdpa`` attention and no recurrent state. Set to evaluation mode by the caller.
    name : str
        How messages call it.

    Raises
    ------
    UnsupportedModelError
        When the model ignores a 4-D mask (it would answer garbage) or has states that can't be rolled back.
    """

    def __init__(self, model: PreTrainedModel, name: str = "model") -> None:
        self.model = model
        self.name = name
        self.length = 0
        self._window = _check_model(model, name)
        self._cache = DynamicCache()
        self._parents: list[int] = []
        self._depths: list[int] = []
        # [slots, slots]: row s marks s and its ancestors.
        self._ancestors = torch.zeros((0, 0), dtype=torch.bool)

    @property
    def vocab_size(self) -> int:
        """Width of the model's logits."""
        head: Any = self.model.get_output_embeddings()  # type: ignore[no-untyped-call]
        return int(head.weight.shape[0])

    @property
    def slots(self) -> int:
        """Number of scratch slots in use."""
        return len(self._depths)

    @torch.inference_mode()
    def prefill(self, tokens: Sequence[int]) -> None:
        """Commit tokens without asking for logits. There must be no scratch slots."""
        if self.slots:
            raise sv.ArgumentError(f"slots is {self.slots}; expected 0: keep() commits or drops them before prefill()")
        if not tokens:
            return
        self._check_window(self.length + len(tokens))
        self._run(
            torch.tensor([list(tokens)]), torch.arange(self.length, self.length + len(tokens))[None], mask=None, keep=1
        )
        self.length += len(tokens)

    @torch.inference_mode()
    def forward(self, tokens: Sequence[int], parents: Sequence[int]) -> torch.Tensor:
        """Append scratch slots and runs the model over them.

        Parameters
        ----------
        tokens : sequence of int
            One token a new slot.
        parents : sequence of int
            The slot before each (-1: the last committed token), counted from the first scratch slot.

        Returns
        -------
        torch.Tensor
            Logits [len(tokens), V] on the CPU, in the model's dtype: row i follows token i.
        """
        old, new = self.slots, len(tokens)
        ancestors = torch.zeros((old + new, old + new), dtype=torch.bool)
        ancestors[:old, :old] = self._ancestors
        for slot, parent in enumerate(parents, start=old):
            if not -1 <= parent < slot:
                raise sv.ArgumentError(f"parents[{slot - old}] is {parent}; expected -1 or a slot before {slot}")
            if parent >= 0:
                ancestors[slot] = ancestors[parent]
            ancestors[slot, slot] = True
            self._parents.append(parent)
            self._depths.append(0 if parent < 0 else self._depths[parent] + 1)
        self._ancestors = ancestors
        self._check_window(self.length + max(self._depths) + 1)

        hidden = torch.finfo(self.model.dtype).min
        mask = torch.zeros((1, 1, new, self.length + old + new), dtype=self.model.dtype)
        mask[0, 0, :, self.length :].masked_fill_(~ancestors[old:], hidden)
        positions = torch.tensor([self._depths[old:]]) + self.length
        logits = self._run(torch.tensor([list(tokens)]), positions, mask=mask, keep=new)
        return logits[0].cpu()

    @torch.inference_mode()
    def keep(self, slots: Sequence[int]) -> None:
        """Commit the given scratch slots, in order, as the next tokens of the sequence; drop the others.

        Raises
        ------
        ArgumentError
            The slots are no path from the last committed token down.
        """
        # The plan puts its root one slot before ours, in front of the first scratch slot.
        scratch = sv.DraftTree([0] * self.slots, self._parents, draws="independent")
        moves = torch.from_numpy(sv.compaction_plan([scratch], [slots], [self.length]).moves) - 1
        kept = self.length + len(slots)
        layers: list[Any] = self._cache.layers
        for layer in layers:
            for states in (layer.keys, layer.values):
                source, destination = moves.to(states.device).unbind(1)
                # Indexing copies, so all slots are read before one is written.
                states[..., destination, :] = states[..., source, :]
            layer.keys, layer.values = layer.keys[..., :kept, :], layer.values[..., :kept, :]
        self.length = kept
        self._parents = []
        self._depths = []
        self._ancestors = torch.zeros((0, 0), dtype=torch.bool)

    def _run(self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, keep: int) -> torch.Tensor:
        device = self.model.device
        output: Any = self.model(
            input_ids=tokens.to(device),
            position_ids=positions.to(device),
            attention_mask=None if mask is None else mask.to(device),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=keep,
        )
        logits: torch.Tensor = output.logits
        return logits

    def _check_window(self, length: int) -> None:
        if self._window is not None and length > self._window:
            raise UnsupportedModelError(
                f"{self.name}: the sequence reaches {length} tokens; expected at most the model's sliding window, "
                f"{self._window}: beyond it the tree's mask would have to slide too"
            )


# Models that were seen to honour the mask.
_MASKED: weakref.WeakSet[PreTrainedModel] = weakref.WeakSet()


def _check_model(model: PreTrainedModel, name: str) -> int | None:
    """Refuses what can't be run over trees; returns the least sliding window, if any layer has one."""
    if model.config.is_encoder_decoder:
        raise UnsupportedModelError(f"{name} is an encoder-decoder; expected a decoder-only causal LM")
    attention = model.config._attn_implementation
    if attention not in MASKED_ATTENTION:
        raise UnsupportedModelError(
            f"{name}.config._attn_implementation is {attention!r}; expected one of {MASKED_ATTENTION}, which take "
            "the 4-D mask that a tree needs: load the model with attn_implementation='sdpa'"
        )
    windows = []
    for i, layer in enumerate(DynamicCache(config=model.config).layers):
        if type(layer) is DynamicSlidingWindowLayer:
            windows.append(layer.sliding_window)
        elif type(layer) is not DynamicLayer:
            raise UnsupportedModelError(
                f"{name}: layer {i} keeps a {type(layer).__name__}; expected plain attention (DynamicLayer): any other "
                "state can't be rolled back to an accepted path"
            )
    if model not in _MASKED:
        _check_mask(model, name)
        _MASKED.add(model)
    return min(windows, default=None)


@torch.inference_mode()
def _check_mask(model: PreTrainedModel, name: str) -> None:
    """Check that a node beside a sibling comes out as it does alone: it sees the root and not the sibling."""
    embedding: Any = model.get_input_embeddings()
    root, sibling, node = 0, 1, 2 % len(embedding.weight)
    hidden = torch.finfo(model.dtype).min
    mask = torch.tensor([[0, hidden, hidden], [0, 0, hidden], [0, hidden, 0]], dtype=model.dtype)
    beside: Any = model(
        input_ids=torch.tensor([[root, sibling, node]], device=model.device),
        position_ids=torch.tensor([[0, 1, 1]], device=model.device),
        attention_mask=mask[None, None].to(model.device),
        use_cache=False,
    )
    alone: Any = model(input_ids=torch.tensor([[root, node]], device=model.device), use_cache=False)
    expected = alone.logits[0, 1].float()
    moved = float((beside.logits[0, 2].float() - expected).abs().max())
    tolerance = max(1e-3, 8 * torch.finfo(model.dtype).eps) * max(1.0, float(expected.abs().max()))
    if not moved <= tolerance:
        raise UnsupportedModelError(
            f"{name} ({type(model).__name__}) ignores a 4-D attention mask: a node's logits move by {moved:.3g} when it "
            "gets a sibling; expected a model that passes the mask to its attention"
        )
