"""What a build asks for, and what a source distribution holds."""

import importlib.util
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]

pytest.importorskip("maturin", reason="the build backend is maturin's")


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The build backend where no compiler for the kernels has been chosen."""
    for name in ("SPECVERIFY_HIP", "SPECVERIFY_ZIGLANG", "HIPCC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    spec = importlib.util.spec_from_file_location("build_backend", ROOT / "build_backend.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def asks_for_ziglang(backend: ModuleType) -> bool:
    return any(requirement.startswith("ziglang==") for requirement in backend.get_requires_for_build_wheel())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere wheels carry no kernels")
def test_ziglang_is_required_only_where_it_compiles(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert asks_for_ziglang(backend)
    assert backend.ZIGLANG in (ROOT / "requirements" / "dev.in").read_text().split()
    assert f"pip install {backend.ZIGLANG}" in (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    monkeypatch.setenv("SPECVERIFY_HIP", "off")
    assert not asks_for_ziglang(backend)
    monkeypatch.setenv("SPECVERIFY_HIP", "on")
    assert asks_for_ziglang(backend)
    hipcc = tmp_path / "bin" / "hipcc"
    hipcc.parent.mkdir()
    hipcc.touch()
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    assert not asks_for_ziglang(backend)
    monkeypatch.setenv("ROCM_PATH", "/nowhere")
    monkeypatch.setenv("HIPCC", str(hipcc))
    assert not asks_for_ziglang(backend)


def test_a_source_distribution_can_be_built(
    backend: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It holds the kernels, the backend itself, the lock file and every crate of the workspace."""
    monkeypatch.chdir(ROOT)
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    sources = [path.relative_to(ROOT).as_posix() for path in (ROOT / "hip").iterdir()]
    assert len(sources) >= 5
    needed = [*sources, "build_backend.py", "pyproject.toml", "Cargo.toml", "Cargo.lock", "LICENSE"]
    needed += [f"rust/specverify{name}/Cargo.toml" for name in ("", "-py", "-hip")]
    needed += ["rust/specverify-hip/build.rs", "rust/specverify-hip/compiler.rs", "python/specverify/ops/__init__.py"]
    assert not [name for name in needed if name not in names]
