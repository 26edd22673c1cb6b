"""Operators on torch tensors: HIP kernels where the tensors are on an AMD GPU, Rust where they are in host memory.

Each is a `torch.library` operator in the namespace ``specverify`` with a fake implementation, so that `torch.compile` and
CUDA-graph capture see through it. On a GPU nothing waits for the host and lengths are read on the device: outputs and
workspaces depend on shapes alone.
"""

try:
    import torch  # noqa: F401
except ImportError as missing:
    raise ImportError("specverify.ops needs torch, and this Python has none: pip install torch") from missing

from specverify.ops.attention import tree_attention
from specverify.ops.device import hip_device
from specverify.ops.kv import KvPools
from specverify.ops.logprobs import TargetLogprobs, target_logprobs
from specverify.ops.mla import mla_tree_attention
from specverify.ops.race import CoupledChildren, TargetTokens, coupled_children, target_tokens
from specverify.ops.walk import Walk, tree_walk

__all__ = [
    "CoupledChildren",
    "KvPools",
    "TargetLogprobs",
    "TargetTokens",
    "Walk",
    "coupled_children",
    "hip_device",
    "mla_tree_attention",
    "target_logprobs",
    "target_tokens",
    "tree_attention",
    "tree_walk",
]
