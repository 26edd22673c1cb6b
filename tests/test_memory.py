"""Verification reads logits in place: what it allocates does not grow with the rows."""

import subprocess
import sys
import textwrap
from pathlib import Path

LIMIT_MIB = 64


def test_peak_extra_memory_of_a_large_batch(tmp_path: Path) -> None:
    """Batch 64, 16 nodes, V=151,936, float32 (631 MiB of logits), filters on: the peak rises by less than 64 MiB.

    In a process of its own, since a peak can't be reset; and VmHWM, not getrusage, whose figure a child takes over from its parent,
    which may be larger than all that is measured here. One copy of the batch would be 631 MiB, one of the rows of a single
    request in each of two threads 19 MiB, sorted ids of every row 631 MiB.
    """
    script = """
    import re
    import numpy as np
    import specverify as sv

    batch, nodes, vocab = 64, 16, 151_936
    logits = np.random.default_rng(0).standard_normal((batch * (nodes + 1), vocab), dtype=np.float32)
    trees = [sv.DraftTree(list(range(nodes)), [-1, *range(nodes - 1)]) for _ in range(batch)]
    samplings = [
        sv.SamplingParams(temperature=0.8, top_p=0.95, top_k=50, repetition_penalty=1.1, seed=i, logprobs=5) for i in range(batch)
    ]
    # Every row is reached: the drafted token has almost all of the mass.
    logits[np.arange(batch * (nodes + 1)), np.tile(np.arange(nodes + 1), batch)] = 50.0

    def run(count):
        return sv.verify_batch(
            logits[: count * (nodes + 1)], trees[:count], samplings=samplings[:count], positions=[100] * count,
        )

    def peak():
        return int(re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1])

    run(1)  # threads and lazily loaded code
    before = peak()
    outcomes = run(batch)
    after = peak()
    assert all(len(outcome.path) == nodes for outcome in outcomes), [len(outcome.path) for outcome in outcomes]
    print((after - before) / 1024)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < LIMIT_MIB
