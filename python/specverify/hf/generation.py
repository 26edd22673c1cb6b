"""The loop: draft, forward, verify, compact."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from transformers import PreTrainedModel

import specverify as sv

from .cache import TreeModel
from .drafter import Context, Drafter, NoDrafter
from .model_drafter import ModelDrafter
from .sampling import with_changes
from .text_drafter import TextDrafter

Rule = Literal[
    "auto", "greedy", "target_only", "token", "block", "recursive", "traversal", "multipath", "lossy_typical"
]

# What a second model should draw for a rule; the others walk any tree and profit from coupling.
_DRAWS_OF_RULE = {
    "token": "independent",
    "block": "independent",
    "recursive": "without_replacement",
    "traversal": "without_replacement",
    "multipath": "paths",
}


@dataclass(frozen=True)
class Step:
    """One forward pass of the target and what came of it.

    Attributes
    ----------
    position : int
        Position of the first emitted token.
    tree : DraftTree
        What was drafted.
    path : list of int
        Node ids that were accepted.
    tokens : list of int
        What was emitted.
    """

    position: int
    tree: sv.DraftTree
    path: list[int]
    tokens: list[int]


@dataclass(frozen=True)
class Result:
    """What :func:`generate` emitted and how.

    Attributes
    ----------
    tokens : list of int
        The output, without the prompt. Nothing follows a stop token.
    logprobs : list of float
        Of the tokens, before the sampling parameters.
    top_logprobs : list
        For each token the (token id, log-probability) of the ``sampling.logprobs`` most likely, best first.
    finished : bool
        Whether a stop token ended the output, not `max_new_tokens`.
    seed : int
        The seed used.
    stats : AcceptanceStats
        Drafts, drafted and accepted tokens.
    steps : list of Step
        One a forward pass of the target.
    """

    tokens: list[int]
    logprobs: list[float]
    top_logprobs: list[list[tuple[int, float]]]
    finished: bool
    seed: int
    stats: sv.AcceptanceStats
    steps: list[Step] = field(repr=False)


def generate(
    model: PreTrainedModel,
    input_ids: torch.Tensor | Sequence[int],
    *,
    drafter: Drafter | PreTrainedModel | str | None = None,
    tree: int | Sequence[int] = 5,
    draws: str | None = None,
    rule: Rule = "auto",
    sampling: sv.SamplingParams | None = None,
    max_new_tokens: int = 128,
    stop_token_ids: Sequence[int] | None = None,
    epsilon: float = 0.09,
    delta: float = 0.3,
) -> Result:
    """Generate from one prompt with drafts that are verified by a rule of this library.

    With a lossless rule the output has the model's own law; with ``greedy`` and ``target_only`` it is the very text
    that the same seed gives without drafts.

    Parameters
    ----------
    model : PreTrainedModel
        The target: a decoder-only ``AutoModelForCausalLM`` with ``eager`` or ``sdpa`` attention.
    input_ids : torch.Tensor or sequence of int
        The prompt, [L] or [1, L], at least one token.
    drafter : Drafter, PreTrainedModel, 'ngram', 'suffix' or None
        None drafts nothing; a model becomes a :class:`ModelDrafter`.
    tree : int or sequence of int, default 5
        For the drafters built here: the length of a chain, or the parents of a static shape (:mod:`specverify.hf.shapes`).
        The model-free drafters draft a tree of that many nodes where it is no chain.
    draws : str, optional
        How a model drafts, see :class:`ModelDrafter`; by default what suits `rule`.
    rule : str, default 'auto'
        As in :func:`specverify.verify`. A step without drafts needs no ratio: there the target draws its own token.
    sampling : SamplingParams, optional
        Default: ``SamplingParams()``, temperature 1. Without a seed one is drawn, see `Result.seed`.
    max_new_tokens : int, default 128
        Most tokens to emit.
    stop_token_ids : sequence of int, optional
        Default: the end-of-sequence ids of the model's generation config. ``()`` for none.
    epsilon, delta : float, default 0.09 and 0.3
        Of ``lossy_typical``.

    Returns
    -------
    Result

    Raises
    ------
    ArgumentError, ShapeError
        An argument is outside its domain.
    PairingError
        `rule` is not proved for what `drafter` draws.
    UnsupportedModelError
        A model can't be run over trees, or the vocabularies differ.

    Examples
    --------
    >>> import specverify as sv, specverify.hf
    >>> result = sv.hf.generate(model, prompt, drafter="suffix", sampling=sv.SamplingParams(temperature=0))  # doctest: +SKIP
    >>> tokenizer.decode(result.tokens), result.stats.mean_accepted_length  # doctest: +SKIP
    """
    prompt = _prompt(input_ids)
    if max_new_tokens < 1:
        raise sv.ArgumentError(f"max_new_tokens is {max_new_tokens}; expected at least 1")
    sampling = sv.SamplingParams() if sampling is None else sampling
    seed = secrets.randbits(64) if sampling.seed is None else sampling.seed
    sampling = with_changes(sampling, seed=seed)
    stops = _eos(model) if stop_token_ids is None else [int(token) for token in stop_token_ids]
    target = TreeModel(model)
    _check_ids(prompt, target.vocab_size)
    proposer = as_drafter(drafter, tree, draws, rule)
    if isinstance(proposer, TextDrafter):
        check_rule(proposer.kind, rule)
    if isinstance(proposer, ModelDrafter):
        proposer.check_vocab(target.vocab_size)

    proposer.start(prompt)
    target.prefill(prompt[:-1])
    output: list[int] = []
    logprobs: list[float] = []
    top_logprobs: list[list[tuple[int, float]]] = []
    steps: list[Step] = []
    stats = sv.AcceptanceStats()
    finished = False
    while not finished and len(output) < max_new_tokens:
        root = output[-1] if output else prompt[-1]
        # The step emits one token more than the path's length, so deeper nodes could not count.
        context = Context(prompt, output, sampling, seed, stops, max_depth=max_new_tokens - len(output) - 1)
        draft = proposer.draft(context)
        logits = target.forward([root, *draft.tree.tokens], [-1, *(parent + 1 for parent in draft.tree.parents)])
        outcome = sv.verify(
            logits,
            draft.tree,
            rule=rule if len(draft.tree) or rule not in _DRAWS_OF_RULE else "auto",
            draft_probs=draft.probs,
            sampling=sampling,
            position=context.position,
            prompt_token_ids=prompt,
            output_token_ids=output,
            stop_token_ids=stops,
            epsilon=epsilon,
            delta=delta,
        )
        target.keep([0, *(node + 1 for node in outcome.path)])
        proposer.accept(outcome.path, outcome.tokens)
        steps.append(Step(context.position, draft.tree, list(outcome.path), list(outcome.tokens)))
        stats.record_tree(draft.tree, len(outcome.path))
        output += outcome.tokens
        logprobs += outcome.logprobs
        top_logprobs += outcome.top_logprobs
        finished = outcome.finished
    return Result(output, logprobs, top_logprobs, finished, seed, stats, steps)


def as_drafter(
    drafter: Drafter | PreTrainedModel | str | None, tree: int | Sequence[int], draws: str | None, rule: str
) -> Drafter:
    """Make a drafter of the arguments of :func:`generate`."""
    if drafter is None:
        return NoDrafter()
    if isinstance(drafter, str):
        return TextDrafter(drafter, tree=tree)
    if isinstance(drafter, PreTrainedModel):
        return ModelDrafter(drafter, tree=tree, draws=draws or _DRAWS_OF_RULE.get(rule, "coupled"))
    return drafter


def check_rule(kind: str, rule: str) -> None:
    """Refuse a ratio rule for a drafter that draws nothing.

    Parameters
    ----------
    kind : {'ngram', 'suffix'}
        A model-free drafter.
    rule : str

    Raises
    ------
    PairingError
        `rule` reads draft probabilities.
    """
    if rule in _DRAWS_OF_RULE:
        others = ", ".join(repr(name) for name in get_args(Rule) if name not in _DRAWS_OF_RULE)
        raise sv.PairingError(
            f"rule {rule!r} can't verify drafter {kind!r}, whose drafts are deterministic and have no probabilities; expected "
            f"one of {others}, or a model as drafter"
        )


def _prompt(input_ids: torch.Tensor | Sequence[int]) -> list[int]:
    ids = torch.as_tensor(input_ids)
    if ids.ndim == 2 and ids.shape[0] == 1:
        ids = ids[0]
    if ids.ndim != 1 or not len(ids):
        raise sv.ShapeError(f"input_ids has shape {tuple(ids.shape)}; expected [L] or [1, L], L >= 1: one prompt")
    if ids.is_floating_point():
        raise sv.DtypeError(f"input_ids has dtype {ids.dtype}; expected token ids")
    return [int(token) for token in ids.tolist()]


def _check_ids(prompt: Sequence[int], vocab: int) -> None:
    for i, token in enumerate(prompt):
        if not 0 <= token < vocab:
            raise sv.ArgumentError(f"input_ids[{i}] is {token}; expected an id in [0, {vocab})")


def _eos(model: PreTrainedModel) -> list[int]:
    eos = getattr(model.generation_config, "eos_token_id", None)
    if eos is None:
        return []
    return [eos] if isinstance(eos, int) else [int(token) for token in eos]
