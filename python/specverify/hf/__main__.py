"""``python -m specverify.hf``: generate from a shell, and see what the drafts were worth."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

import specverify as sv

from . import shapes
from .cache import UnsupportedModelError
from .generation import Result, Rule, check_rule, generate
from .model_drafter import DRAWS
from .text_drafter import KINDS

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m specverify.hf",
        description="Generate with a Hugging Face causal LM; drafts are proposed by a drafter and verified by a rule.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--model", required=True, metavar="PATH", help="the target: a local folder or a hub name")
    parser.add_argument("--prompt", required=True, help="text to continue, or the user's turn of a chat with --chat")
    parser.add_argument("--chat", action="store_true", help="put the prompt into the tokenizer's chat template")
    parser.add_argument(
        "--drafter",
        default="suffix",
        metavar="NAME",
        help="none, ngram, suffix, or the folder or hub name of a smaller model",
    )
    parser.add_argument(
        "--tree",
        default="chain:5",
        type=_tree,
        metavar="SHAPE",
        help="chain:N, branching:W1,W2,..., siblings:KxDEPTH or paths:KxDEPTH",
    )
    parser.add_argument("--draws", choices=DRAWS, help="how a model drafts; by default what suits the rule")
    parser.add_argument("--rule", default="auto", choices=get_args(Rule), help="which drafts stand")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 is greedy")
    parser.add_argument("--top-p", type=float, default=1.0, help="mass kept")
    parser.add_argument("--top-k", type=int, default=0, help="ids kept; 0 keeps all")
    parser.add_argument("--min-p", type=float, default=0.0, help="least probability kept, relative to the largest")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same text")
    parser.add_argument("--max-new-tokens", type=int, default=128, help="most tokens to emit")
    parser.add_argument("--dtype", default="float32", choices=tuple(DTYPES), help="of both models")
    parser.add_argument("--device", default="cpu", help="of both models, e.g. cpu or cuda")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="also generate without drafts and say whether the text is the same (exit status 1 where a rule promises it is)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and returns the exit status."""
    arguments = parser().parse_args(argv)
    try:
        return _run(arguments)
    except (sv.SpecVerifyError, OSError) as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 2


def _run(arguments: argparse.Namespace) -> int:
    # What can be refused without a model is, before one is loaded.
    if arguments.drafter in KINDS:
        check_rule(arguments.drafter, arguments.rule)
    elif arguments.drafter != "none":
        _check_drafter(arguments.drafter)
    model = _model("--model", arguments.model, arguments)
    tokenizer = _tokenizer(arguments.model)
    drafter: PreTrainedModel | str | None = None if arguments.drafter == "none" else arguments.drafter
    if arguments.drafter not in ("none", *KINDS):
        drafter = _model("--drafter", arguments.drafter, arguments)
        _check_same_tokens(tokenizer, arguments.model, arguments.drafter)
    if arguments.chat:
        turns = [{"role": "user", "content": arguments.prompt}]
        prompt: Any = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    else:
        prompt = tokenizer(arguments.prompt)["input_ids"]
    sampling = sv.SamplingParams(
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        top_k=arguments.top_k,
        min_p=arguments.min_p,
        seed=arguments.seed,
    )

    def timed(drafter: PreTrainedModel | str | None) -> tuple[Result, float]:
        start = time.perf_counter()
        result = generate(
            model,
            prompt,
            drafter=drafter,
            tree=arguments.tree,
            draws=arguments.draws,
            rule=arguments.rule,
            sampling=sampling,
            max_new_tokens=arguments.max_new_tokens,
        )
        return result, len(result.tokens) / (time.perf_counter() - start)

    result, speed = timed(drafter)
    print(tokenizer.decode(result.tokens, skip_special_tokens=True))
    print()
    print(report(result, speed))
    if not arguments.compare:
        return 0
    plain, plain_speed = timed(None)
    same = plain.tokens == result.tokens
    exact = arguments.rule in ("auto", "greedy", "target_only") and not _draws_q(arguments)
    print(f"without drafts: {plain_speed:.1f} tok/s, speed-up {speed / plain_speed:.2f}")
    if same:
        print("text: identical to that without drafts")
    elif exact:
        pairs = enumerate(zip(plain.tokens, result.tokens, strict=False))
        at = next((i for i, (ours, theirs) in pairs if ours != theirs), min(len(plain.tokens), len(result.tokens)))
        print(f"text: DIFFERS from that without drafts at output token {at} (rounding, where the dtype is not float32)")
    else:
        print(f"text: another sample than without drafts, as expected of rule {arguments.rule!r}")
    return 1 if exact and not same else 0


def report(result: Result, speed: float) -> str:
    """Say what a run was worth: speed, MAL, AR and a table of depths."""
    stats = result.stats
    lines = [f"{len(result.tokens)} tokens, {len(result.steps)} target passes, {speed:.1f} tok/s, seed {result.seed}"]
    if stats.mean_accepted_length is None or stats.acceptance_rate is None:
        return lines[0] + "\nnothing was drafted"
    lines.append(f"MAL {stats.mean_accepted_length:.3f}  AR {stats.acceptance_rate:.3f}  drafts {stats.drafts}")
    lines.append("depth  drafted  accepted  survival")
    rows = zip(stats.drafted_per_depth, stats.accepted_per_depth, stats.survival, strict=True)
    lines += [f"{d:5}  {drafted:7}  {accepted:8}  {s:8.3f}" for d, (drafted, accepted, s) in enumerate(rows, start=1)]
    return "\n".join(lines)


def _draws_q(arguments: argparse.Namespace) -> bool:
    """Whether `auto` finds probabilities beside the tree and so takes a ratio rule, whose text depends on the drafts."""
    drawn = arguments.draws in ("independent", "without_replacement", "paths")
    return arguments.rule == "auto" and arguments.temperature > 0 and drawn


def _tree(text: str) -> list[int]:
    try:
        return shapes.parse(text)
    except ValueError as refused:
        raise argparse.ArgumentTypeError(str(refused)) from refused


def _check_drafter(name: str) -> None:
    """Refuse a misspelt drafter; any other bare word may be a hub name, as `gpt2` is."""
    known = ("none", *KINDS)
    if not Path(name).exists() and (meant := get_close_matches(name.lower(), known, n=1, cutoff=0.7)):
        raise sv.ArgumentError(
            f"--drafter is {name!r}; expected one of {', '.join(map(repr, known))}, or the folder or hub name of a model "
            f"(did you mean {meant[0]!r}?)"
        )


def _model(option: str, path: str, arguments: argparse.Namespace) -> PreTrainedModel:
    expected = "the folder of a causal language model, or its hub name (owner/name)"
    # A hub name has one slash at most.
    if not Path(path).is_dir() and (path.startswith((".", "~", os.sep)) or path.count("/") > 1):
        raise sv.ArgumentError(f"{option} is {path!r}, which is no folder; expected {expected}")
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            path, dtype=DTYPES[arguments.dtype], attn_implementation="sdpa"
        )
    except (OSError, ValueError) as fault:
        raise UnsupportedModelError(
            f"{option} is {path!r}, which transformers can't load; expected {expected}: {fault}"
        ) from fault
    loaded: PreTrainedModel = model.to(arguments.device).eval()
    return loaded


def _tokenizer(path: str) -> PreTrainedTokenizerBase:
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError, KeyError) as missing:
        raise UnsupportedModelError(
            f"model {path!r} has no tokenizer that transformers can load; expected tokenizer files beside the weights "
            f"(specverify.hf.generate takes token ids and needs none): {missing}"
        ) from missing
    return tokenizer


def _check_same_tokens(tokenizer: PreTrainedTokenizerBase, model: str, drafter: str) -> None:
    own, other = tokenizer.get_vocab(), _tokenizer(drafter).get_vocab()
    if own != other:
        different = next(token for token in [*own, *other] if own.get(token) != other.get(token))
        raise UnsupportedModelError(
            f"drafter {drafter!r} has another vocabulary than model {model!r}: token {different!r} is "
            f"{other.get(different)} and {own.get(different)}; expected the same tokens with the same ids"
        )


if __name__ == "__main__":
    sys.exit(main())
