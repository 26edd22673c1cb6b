"""Uses an installed specverify as a first caller would; run by the clean-wheel test in an environment with NumPy only."""

import importlib.util
import sys

import numpy as np

import specverify as sv

for name in ("torch", "vllm", "transformers"):
    assert importlib.util.find_spec(name) is None, f"{name} is installed: this environment is not clean"

logits = np.full((3, 8), -20.0, dtype=np.float32)
logits[0, 5] = logits[1, 2] = logits[2, 7] = 20.0
tree = sv.DraftTree.chain([5, 2])
outcome = sv.verify(logits, tree, sampling=sv.SamplingParams(temperature=0.0), position=1)
assert (outcome.tokens, outcome.path) == ([5, 2, 7], [0, 1]), (outcome.tokens, outcome.path)
sampled = sv.verify(logits, tree, sampling=sv.SamplingParams(temperature=0.8, seed=7), position=1)
assert sampled.tokens == [5, 2, 7], sampled.tokens
# Without a GPU, or its runtime, the kernels are there and an error says what is missing.
if sys.platform == "linux":
    assert sv._core.hip_architectures() == ["gfx942", "gfx950"]
answer = ""
try:
    sv._core.hip_device(0)
except sv.HipError as error:
    answer = str(error)
assert "no HIP runtime" in answer or "no GPU" in answer, answer
print(f"specverify {sv.__version__}: works without Rust, a compiler or torch")
