"""The stub names what the module has, with its signatures, and every docstring example runs."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import specverify as sv

# Documented objects, and the members of documented classes.
DOCUMENTED = {name: getattr(sv, name) for name in sv.__all__ if not name.startswith("__")}
DOCUMENTED |= {
    f"{name}.{member}": getattr(owner, member)
    for name, owner in list(DOCUMENTED.items())
    if isinstance(owner, type | type(sv))
    for member in vars(owner)
    if not member.startswith("_") and callable(getattr(owner, member))
}


def test_stub_matches_module(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="stubtest is part of mypy, an extra for developers")
    allowed = tmp_path / "allowed"
    # PyO3 fills `__all__` of a native module; the public one is the package's.
    allowed.write_text("specverify._core.__all__\n")
    command = [sys.executable, "-m", "mypy.stubtest", "specverify._core", "--allowlist", str(allowed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_docstring(name: str) -> None:
    text = DOCUMENTED[name].__doc__
    assert text, f"{name} has no docstring"
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    if test.examples:
        said: list[str] = []
        results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
        assert results.failed == 0, "".join(said)


@pytest.mark.parametrize("name", ["DraftTree", "SamplingParams", "AcceptanceStats", "Beam", "compaction_plan"])
def test_main_names_have_examples(name: str) -> None:
    assert doctest.DocTestParser().get_examples(DOCUMENTED[name].__doc__)


def test_all_is_what_the_package_offers() -> None:
    module = importlib.import_module("specverify")
    assert sorted(set(module.__all__)) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)
