"""specverify in vLLM.

Installed means available; chosen by the speculative configuration alone::

    vllm serve MODEL --speculative-config \
        '{"method": "custom_class", "model": "specverify.vllm.SuffixProposer", "num_speculative_tokens": 8}'

The proposer named there drafts, and specverify's sampler serves every request of the engine, with drafts and without: for
one seed the text is the same whatever was drafted. `plugin` says how that is wired and what is refused.
"""

from specverify.vllm.drafters import NgramProposer, NoProposer, SuffixProposer

__all__ = ["NgramProposer", "NoProposer", "SuffixProposer"]
