"""What a run of one configuration measures, as written to and read from JSON."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Sequence:
    """One prompt's text at one temperature."""

    prompt: str
    token_ids: list[int]
    #: Number of tokens that each engine step appended; the first entry is the step that read the prompt.
    steps: list[int]
    #: Text of each token; a character that spans tokens belongs to the last of them.
    pieces: list[str]
    #: Wall-clock seconds of this prompt alone, or of the group it ran in divided by the group's size.
    seconds: float

    @property
    def tokens_per_step(self) -> float:
        """Tokens a step of the target model."""
        return len(self.token_ids) / len(self.steps)


@dataclass
class Measurement:
    """One configuration at one temperature."""

    configuration: str
    temperature: float
    sequences: list[Sequence] = field(default_factory=list)
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    #: Drafts of which the token at depth d was accepted, d = 1, 2, ...
    accepted_per_depth: list[int] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """Tokens emitted."""
        return sum(len(sequence.token_ids) for sequence in self.sequences)

    @property
    def seconds(self) -> float:
        """Wall-clock seconds, prompt processing included."""
        return sum(sequence.seconds for sequence in self.sequences)

    @property
    def tokens_per_second(self) -> float:
        """Output tokens a second, prompt processing included."""
        return self.tokens / self.seconds

    @property
    def num_steps(self) -> int:
        """Passes of the target model."""
        return sum(len(sequence.steps) for sequence in self.sequences)

    @property
    def tokens_per_step(self) -> float:
        """Tokens a step of the target model, steps without drafts included."""
        return self.tokens / self.num_steps

    @property
    def mean_accepted_length(self) -> float | None:
        """MAL: 1 + accepted tokens a draft, over the steps that had a draft."""
        return 1 + self.num_accepted_tokens / self.num_drafts if self.num_drafts else None

    @property
    def acceptance_rate(self) -> float | None:
        """AR: accepted over drafted tokens."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else None

    @property
    def survival(self) -> list[float]:
        """Share of drafts whose token at depth 1, 2, ... was accepted."""
        return [count / self.num_drafts for count in self.accepted_per_depth] if self.num_drafts else []


def save(path: Path, measurements: list[Measurement]) -> None:
    """Write measurements as JSON."""
    path.write_text(json.dumps([asdict(measurement) for measurement in measurements]) + "\n")


def load(path: Path) -> list[Measurement]:
    """Read what :func:`save` wrote."""
    rows = json.loads(path.read_text())
    return [Measurement(**{**row, "sequences": [Sequence(**each) for each in row["sequences"]]}) for row in rows]
