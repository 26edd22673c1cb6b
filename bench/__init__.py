"""Benchmarks, ours and peers', in one run."""
