"""The wheel installs, imports and verifies where there is neither Rust nor a compiler nor torch."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The wheel that `make build` installed."""
    wheels = sorted((ROOT / "dist" / "local").glob("specverify-*.whl"))
    assert len(wheels) == 1, f"dist/local holds {len(wheels)} wheels; expected one (make build)"
    return wheels[0]


def test_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    """A fresh environment whose PATH has nothing but itself: no cargo, no rustc, no cc."""
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    environment = {"PATH": str(python.parent), "HOME": str(tmp_path)}
    environment |= {
        name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_PROXY")
    }
    install = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel)]
    # -I: else the script's folder, which has tests/vllm, is searched for modules.
    for command in (install, [str(python), "-I", str(ROOT / "tests" / "clean_install.py")]):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
    assert "works without Rust" in done.stdout


def test_wheel_holds_what_it_should_and_nothing_else(wheel: Path) -> None:
    """Types, the marker, the licence, the plug-in's entry point; abi3 from Python 3.10; no tests, no sources."""
    assert "-cp310-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [entry_points] = [name for name in names if name.endswith("entry_points.txt")]
        assert "specverify.vllm.plugin:register" in archive.read(entry_points).decode()
    for part in ("specverify/__init__.py", "specverify/_core.pyi", "specverify/py.typed"):
        assert part in names, part
    assert any("licenses/LICENSE" in name for name in names)
    strangers = [name for name in names if not name.startswith(("specverify/", "specverify-"))]
    assert not strangers, strangers


def test_this_environment_runs_the_same_wheel(wheel: Path) -> None:
    """pytest runs against the installed wheel, not against the source tree."""
    where = "import specverify, sys; print(specverify.__file__)"
    done = subprocess.run([sys.executable, "-c", where], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "site-packages" in done.stdout
