"""PEP 517 backend: maturin's, after a check that says in one sentence what an old compiler would say in a hundred."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


def _version(text: str) -> tuple[int, int]:
    found = re.search(r"(\d+)\.(\d+)", text)
    if found is None:
        raise SystemExit(f"specverify: no version in {text!r}")
    return int(found[1]), int(found[2])


def _check_rust() -> None:
    """Refuse a Rust that is too old. None at all is no fault: maturin then fetches one for the build."""
    if shutil.which("cargo") is None:
        return
    manifest = (Path(__file__).parent / "Cargo.toml").read_text(encoding="utf-8")
    needed = _version(manifest[manifest.index("rust-version") :])
    found = _version(subprocess.run(["cargo", "--version"], check=True, capture_output=True, text=True).stdout)
    if found < needed:
        raise SystemExit(
            f"specverify: cargo is {found[0]}.{found[1]}; expected {needed[0]}.{needed[1]} or newer (`rustup update`)"
        )


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return what a wheel's build needs beside maturin."""
    _check_rust()
    return maturin.get_requires_for_build_wheel(config_settings)


get_requires_for_build_editable = get_requires_for_build_wheel
