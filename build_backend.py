"""PEP 517 backend: maturin's, after a check that says in one sentence what an old compiler would say in a hundred."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_sdist,
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

# The clang of this wheel compiles the HIP kernels where no ROCm is installed. Pinned: the code objects are its bytes.
ZIGLANG = "ziglang==0.17.1"


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


def _needs_ziglang() -> bool:
    """Whether the kernels are compiled, and no ROCm is there to do it (rust/specverify-hip/compiler.rs looks in the same places)."""
    if os.environ.get("SPECVERIFY_HIP", "on") == "off" or sys.platform != "linux":
        return False
    hipcc = os.environ.get("HIPCC") or Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "bin", "hipcc")
    return not Path(hipcc).is_file() and "SPECVERIFY_ZIGLANG" not in os.environ


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return what a wheel's build needs beside maturin."""
    _check_rust()
    return maturin.get_requires_for_build_wheel(config_settings) + [ZIGLANG] * _needs_ziglang()


get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(*arguments: Any, **keywords: Any) -> str:
    """Build a wheel, with the ziglang of the Python that builds."""
    os.environ.setdefault("SPECVERIFY_ZIGLANG", sys.executable)
    return maturin.build_wheel(*arguments, **keywords)


def build_editable(*arguments: Any, **keywords: Any) -> str:
    """Build an editable wheel, with the ziglang of the Python that builds."""
    os.environ.setdefault("SPECVERIFY_ZIGLANG", sys.executable)
    return maturin.build_editable(*arguments, **keywords)
