"""Lossless verification for speculative decoding.

A drafter proposes a :class:`DraftTree`; :func:`verify` decides, without changing the target model's distribution, which
of its tokens stand, and adds one more.
"""

from specverify import oracle
from specverify._core import (
    AcceptanceStats,
    ArgumentError,
    Beam,
    Children,
    Coins,
    CompactionPlan,
    Draft,
    DraftTree,
    DtypeError,
    NgramDrafter,
    Outcome,
    PairingError,
    RowError,
    SamplingParams,
    ShapeError,
    SpecVerifyError,
    SuffixDrafter,
    TreeError,
    __version__,
    compaction_plan,
    coupled_children,
    derive_seed,
    probabilities,
    verify,
    verify_batch,
)

__all__ = [
    "AcceptanceStats",
    "ArgumentError",
    "Beam",
    "Children",
    "Coins",
    "CompactionPlan",
    "Draft",
    "DraftTree",
    "DtypeError",
    "NgramDrafter",
    "Outcome",
    "PairingError",
    "RowError",
    "SamplingParams",
    "ShapeError",
    "SpecVerifyError",
    "SuffixDrafter",
    "TreeError",
    "__version__",
    "compaction_plan",
    "coupled_children",
    "derive_seed",
    "oracle",
    "probabilities",
    "verify",
    "verify_batch",
]
