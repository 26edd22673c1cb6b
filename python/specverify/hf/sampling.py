"""Sampling parameters with a few of them changed."""

from __future__ import annotations

import inspect
from typing import Any

import specverify as sv

_NAMES = tuple(inspect.signature(sv.SamplingParams).parameters)


def with_changes(sampling: sv.SamplingParams, **changes: Any) -> sv.SamplingParams:
    """Copy immutable parameters, `changes` apart."""
    return sv.SamplingParams(**({name: getattr(sampling, name) for name in _NAMES} | changes))
