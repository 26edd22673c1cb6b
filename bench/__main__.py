"""Runs the Rust and Python benchmarks and prints one table: `python -m bench --help`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from bench.inputs import LARGE, recorded
from bench.table import Entry, from_criterion, from_pytest_benchmark, print_table

NOTHING_SELECTED = 5  # pytest's exit status
# A current NumPy picks its own kernels; these, where a machine sets them for older ones, slow it down.
SLOW = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


def main() -> int:
    """Run, print, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=("rust", "python"), help="one of both")
    parser.add_argument("-k", metavar="NAME", default="", help="benchmarks whose name contains NAME")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the JSON (default out)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in SLOW}
    entries: list[Entry] = []
    if options.only != "python":
        rows = options.out / "recorded_rows.f32"
        recorded(LARGE).numpy().tofile(rows)
        environment["SPECVERIFY_BENCH_ROWS"] = str(rows.resolve())
        start = time.time()
        command = ["cargo", "bench", "--locked", "--package", "specverify", "--benches", "--", "--quiet", options.k]
        subprocess.run([part for part in command if part], check=True, env=environment)
        entries += from_criterion(Path("target/criterion"), start)
    if options.only != "rust":
        # A process a file: vLLM's kernel dispatcher, when it first runs, trips over the objects of a Numba that is already loaded.
        for path in sorted(Path("bench").glob("bench_*.py")):
            results = options.out / f"{path.stem}.json"
            results.unlink(missing_ok=True)
            command = [sys.executable, "-m", "pytest", str(path), "-q", "--override-ini", "python_files=bench_*.py"]
            command += ["--benchmark-disable-gc", f"--benchmark-json={results}", "--benchmark-quiet"]
            done = subprocess.run(command + (["-k", options.k] if options.k else []), check=False, env=environment)
            if done.returncode not in (0, NOTHING_SELECTED):
                return done.returncode
            entries += from_pytest_benchmark(results) if results.is_file() and results.stat().st_size else []
    print_table(Console(), entries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
