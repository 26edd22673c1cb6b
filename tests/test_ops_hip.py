"""specverify.ops on a GPU that is the simulator: the same wheel, loader and kernels as on a real one."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libamdhip64.so over the simulator, and the kernels' texts, by which it knows code objects."""
    folder = tmp_path_factory.mktemp("fake")
    # The profile of `cargo test`, which has built both already when all tests run.
    for package in (["fakehip"], ["specverify-hip", "--features", "assembly"]):
        command = [
            "cargo",
            "build",
            "--locked",
            "--quiet",
            "--profile",
            "test",
            "--message-format",
            "json",
            "--package",
        ]
        environment = {"SPECVERIFY_ZIGLANG": sys.executable} | os.environ
        done = subprocess.run(command + package, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        for message in map(json.loads, done.stdout.splitlines()):
            if message["reason"] == "build-script-executed" and "specverify-hip" in message["package_id"]:
                for path in Path(message["out_dir"]).glob("*.gfx*.*"):
                    shutil.copy(path, folder)
            for name in message.get("filenames", ()):
                if Path(name).name == "libfakehip.so":
                    shutil.copy(name, folder / "libamdhip64.so")
    return folder


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_operators_on_a_simulated_gpu(fake: Path, arch: str) -> None:
    pytest.importorskip("torch", reason="the operators are torch's")
    environment = os.environ | {"FAKEHIP_ARCH": f"{arch}:sramecc+:xnack-", "FAKEHIP_CODE": str(fake)}
    command = [sys.executable, str(ROOT / "tests" / "ops_on_fake_hip.py"), str(fake / "libamdhip64.so")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{arch}: walk, compaction, race, attention, mla" in done.stdout
