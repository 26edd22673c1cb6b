"""Inputs of the benchmarks: batches of logits that rotate, so that none is measured out of the cache."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch

import specverify as sv

LARGE = 151_936
LOGIT_SD = 3.0
MODEL = Path(".cache/smollm2")
TEXT = Path(__file__).read_text() + (Path(__file__).parent / "README.md").read_text()
WIDENED_BY = -8.0


def last_level_cache() -> int:
    """Bytes of the largest cache of CPU 0; 32 MiB where the system does not say."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        found = re.fullmatch(r"(\d+)([KM])", path.read_text().strip())
        if found:
            sizes.append(int(found[1]) * {"K": 2**10, "M": 2**20}[found[2]])
    return max(sizes, default=32 * 2**20)


@dataclass(frozen=True)
class Shape:
    """A batch of requests with `drafts` nodes each over `vocab` ids: a chain of `depth`, and siblings beside it."""

    batch: int
    vocab: int
    drafts: int = 7
    dtype: torch.dtype = torch.float32
    depth: int = 7
    logits: str = "normal"

    @property
    def rows(self) -> int:
        """Rows of logits."""
        return self.batch * (self.drafts + 1)

    @property
    def bytes(self) -> int:
        """Bytes of one batch of logits."""
        return self.rows * self.vocab * int(self.dtype.itemsize)

    @property
    def copies(self) -> int:
        """How many batches it takes to exceed eight times the last-level cache, at least two."""
        return max(2, -(-8 * last_level_cache() // self.bytes))

    def __str__(self) -> str:
        name = {torch.float32: "f32", torch.bfloat16: "bf16"}[self.dtype]
        kind = f"N={self.drafts}" if self.depth == self.drafts else f"tree of {self.drafts}, depth {self.depth}"
        return f"batch {self.batch}, V={self.vocab:,}, {kind}, {name}, {self.logits}"


@lru_cache(maxsize=1)
def recorded(vocab: int) -> torch.Tensor:
    """Rows that SmolLM2-135M-Instruct gives a text: float32 [256, vocab].

    The model has 49,152 ids. A wider vocabulary repeats each row with its ids shuffled and `WIDENED_BY` added: more tail, as a
    larger vocabulary has, and the same head.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(MODEL)(TEXT, return_tensors="pt").input_ids[:, :512]
    with torch.inference_mode():
        rows = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)(ids).logits[0, -256:]
    generator = torch.Generator().manual_seed(0)
    parts = [rows]
    while sum(part.shape[1] for part in parts) < vocab:
        parts.append(rows[:, torch.randperm(rows.shape[1], generator=generator)] + WIDENED_BY)
    return torch.cat(parts, 1)[:, :vocab].contiguous()


class Pool:
    """Batches of logits, normal or recorded, with what each call needs; `next` hands them out in turn."""

    def __init__(self, shape: Shape, sampling: dict[str, Any]) -> None:
        self.shape = shape
        generator = torch.Generator().manual_seed(0)

        def batch(turn: int) -> torch.Tensor:
            if shape.logits == "recorded":
                return recorded(shape.vocab)[(torch.arange(shape.rows) + 37 * turn) % 256].to(shape.dtype)
            return torch.empty(shape.rows, shape.vocab).normal_(0, LOGIT_SD, generator=generator).to(shape.dtype)

        self.logits = [batch(turn) for turn in range(shape.copies)]
        self.samplings = [sv.SamplingParams(seed=request, **sampling) for request in range(shape.batch)]
        self.positions = [100 + 16 * request for request in range(shape.batch)]
        self._turn: Iterator[int] = itertools.cycle(range(shape.copies))

    def next(self) -> int:
        """Index of the next batch."""
        return next(self._turn)

    @cached_property
    def accepted(self) -> list[list[sv.DraftTree]]:
        """Per batch, trees with a chain of the target's own tokens, which is accepted; the rows beside it are not reached."""
        return [[self._tree(logits, request) for request in range(self.shape.batch)] for logits in self.logits]

    @cached_property
    def draft_probs(self) -> list[torch.Tensor]:
        """Per batch, q over the same rows: the target's logits at T=1 with some noise."""
        generator = torch.Generator().manual_seed(1)
        noise = torch.empty(self.shape.rows, self.shape.vocab).normal_(0, 1.0, generator=generator)
        return [(logits.float() + noise).softmax(-1) for logits in self.logits]

    @cached_property
    def drawn(self) -> list[list[sv.DraftTree]]:
        """Per batch, chains drawn from `draft_probs`."""
        generator = torch.Generator().manual_seed(2)
        width = self.shape.drafts + 1
        found = []
        for q in self.draft_probs:
            tokens = torch.multinomial(q, 1, generator=generator).view(self.shape.batch, width)[:, : self.shape.drafts]
            found.append([sv.DraftTree.chain(row, draws="independent") for row in tokens.tolist()])
        return found

    def _tree(self, logits: torch.Tensor, request: int) -> sv.DraftTree:
        first = request * (self.shape.drafts + 1)
        tokens = []
        for depth in range(self.shape.depth):
            # The first finisher of the race on the target's own row is the target's token.
            found = sv.coupled_children(
                logits[first + depth], 1, sampling=self.samplings[request], position=self.positions[request] + depth
            )
            tokens.append(found.tokens[0])
        parents = list(range(-1, self.shape.depth - 1))
        for extra in range(self.shape.drafts - self.shape.depth):
            # Siblings of the chain, evenly spread, none equal to another.
            parents.append(extra % self.shape.depth - 1)
            tokens.append(next(id for id in range(extra, self.shape.vocab) if id not in tokens))
        return sv.DraftTree(tokens, parents)


@lru_cache(maxsize=1)
def pool(shape: Shape, sampling: tuple[tuple[str, float], ...]) -> Pool:
    """The pool of a shape; the last one is kept, since neighbours in a file share it."""
    return Pool(shape, dict(sampling))
