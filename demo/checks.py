"""The demo's claim: drafting changes the speed, never the text."""

from dataclasses import dataclass

from demo.configurations import BY_NAME
from demo.results import Measurement

# (configuration, the one whose text it must repeat, temperature). At T = 0.8 vLLM's own sampler draws with other noise,
# so there specverify is compared with itself: the same sampler under a proposer that drafts nothing.
PAIRS = (("suffix", "plain", 0.0), ("suffix", "silent", 0.0), ("suffix", "silent", 0.8))


@dataclass(frozen=True)
class Check:
    """Outcome of comparing two runs token for token."""

    left: str
    right: str
    temperature: float
    tokens: int
    #: Prompt and index of the first token that differs; None when all are equal.
    difference: tuple[str, int] | None

    @property
    def passed(self) -> bool:
        """Whether every token of every prompt is the same."""
        return self.difference is None

    def __str__(self) -> str:
        pair = f"{BY_NAME[self.left].label} = {BY_NAME[self.right].label}, T={self.temperature:g}"
        if self.difference is None:
            return f"SAME TEXT: {pair}: all {self.tokens} tokens"
        prompt, index = self.difference
        return f"TEXT DIFFERS: {pair}: first at token {index} of {prompt}"


def compare(left: Measurement, right: Measurement) -> Check:
    """Compare two runs of the same prompts at the same temperature."""
    difference = None
    for ours, theirs in zip(left.sequences, right.sequences, strict=True):
        if ours.token_ids != theirs.token_ids:
            pairs = enumerate(zip(ours.token_ids, theirs.token_ids, strict=False))
            shorter = min(len(ours.token_ids), len(theirs.token_ids))
            difference = ours.prompt, next((i for i, (a, b) in pairs if a != b), shorter)
            break
    return Check(left.configuration, right.configuration, left.temperature, left.tokens, difference)


def check(measurements: list[Measurement]) -> list[Check]:
    """Every comparison of :data:`PAIRS` of which both sides ran."""
    found = {(each.configuration, each.temperature): each for each in measurements}
    return [
        compare(found[left, temperature], found[right, temperature])
        for left, right, temperature in PAIRS
        if (left, temperature) in found and (right, temperature) in found
    ]
