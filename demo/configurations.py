"""What the demo compares. Each configuration runs in a process of its own."""

from dataclasses import dataclass
from typing import Any

NUM_SPECULATIVE_TOKENS = 8


@dataclass(frozen=True)
class Configuration:
    """One way to run the model."""

    name: str
    label: str
    speculative_config: dict[str, Any] | None


PLAIN = Configuration("plain", "vLLM, no drafts", None)
NGRAM = Configuration(
    "ngram",
    "vLLM n-gram",
    {
        "method": "ngram",
        "num_speculative_tokens": NUM_SPECULATIVE_TOKENS,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 5,
    },
)
SUFFIX = Configuration(
    "suffix",
    "specverify suffix",
    {
        "method": "custom_class",
        "model": "specverify.vllm.SuffixProposer",
        "num_speculative_tokens": NUM_SPECULATIVE_TOKENS,
    },
)
SILENT = Configuration(
    "silent",
    "specverify, no drafts",
    {
        "method": "custom_class",
        "model": "specverify.vllm.NoProposer",
        "num_speculative_tokens": NUM_SPECULATIVE_TOKENS,
    },
)
ALL = (PLAIN, NGRAM, SUFFIX, SILENT)
BY_NAME = {configuration.name: configuration for configuration in ALL}
TEMPERATURES = (0.0, 0.8)
