"""bench/hip_bench.py without a GPU: what it says, and its measuring path on the simulator."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="hip_bench is torch's")

from test_ops_hip import fake  # noqa: E402, F401

from bench import hip_bench, roofline  # noqa: E402

ROOT = Path(__file__).parents[1]


def test_without_a_gpu_it_says_why_and_exits_with_2(tmp_path: Path) -> None:
    for command in (["bench/hip_bench.py"], ["-m", "bench.hip_bench", "--batch", "1"]):
        done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert done.stdout == ""
        assert done.stderr.startswith("hip_bench: no "), done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("arch", "cache", "layer"), [("gfx942", "same", "both"), ("gfx950", "fp8", "gqa")])
def test_it_measures(fake: Path, tmp_path: Path, arch: str, cache: str, layer: str) -> None:  # noqa: F811
    environment = os.environ | {"FAKEHIP_ARCH": f"{arch}:sramecc+:xnack-", "FAKEHIP_CODE": str(fake)}
    script, library, rows = ROOT / "tests/hip_bench_on_fake_hip.py", fake / "libamdhip64.so", tmp_path / "rows.json"
    command = [sys.executable, str(script), str(library), "--kv-dtype", cache, "--layer", layer, "--json", str(rows)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal to the CPU within" in done.stdout
    found = json.loads(rows.read_text())
    assert (found["arch"], found["cache"]) == (arch, "bf16" if cache == "same" else "fp8")
    assert len(found["rows"]) == (2 if layer == "both" else 1)
    for row in found["rows"]:
        assert row["measured"] > row["estimated"] > 0
        assert row["without_overlap"] > 0
        assert row["peers"]["vLLM"] is None
    # Only a GQA layer with a cache of the queries' type has a peer that runs here.
    assert (found["rows"][0]["peers"]["SDPA"] is not None) == (cache == "same")


class Host:
    """The host's memory, for what needs no kernel."""

    name, arch, units, rocm = "MI325X", "gfx942", 304, False

    def normal(self, shape: Any, dtype: Any, seed: int) -> Any:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)

    def put(self, tensor: Any) -> Any:
        return tensor

    def back(self, tensor: Any) -> Any:
        return tensor


def test_torch_attends_to_the_same_keys() -> None:
    parents = [-1, 0, 0, 2, 1]
    point = roofline.Point(2, 6, 37)
    batch = hip_bench.Batch.make(Host(), roofline.GQA, point, torch.float32, torch.float32, parents, 3)
    torch.testing.assert_close(batch.sdpa(), batch.specverify(), atol=1e-4, rtol=0)


def test_vllm_takes_the_arguments() -> None:
    pytest.importorskip("vllm", reason="a peer, not a requirement")
    for cache in (torch.bfloat16, torch.float8_e4m3fn):
        batch = hip_bench.Batch.make(Host(), roofline.GQA, roofline.Point(1, 2, 5), torch.bfloat16, cache, [-1], 3)
        inspect.signature(hip_bench.vllm_attention()).bind(**batch.vllm_arguments())


def test_results_that_differ_end_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(hip_bench, "check", lambda *_: float("nan"))
    assert hip_bench.run(hip_bench.arguments(["--layer", "gqa"]), Host()) == 1  # type: ignore[arg-type]
    assert "results differ by nan" in capsys.readouterr().out


def test_a_peer_that_fails_costs_its_own_figure_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(batch: hip_bench.Batch) -> Any:
        raise TypeError("unified_attention() got an unexpected keyword")

    monkeypatch.setattr(hip_bench, "peers", lambda *_: {"vLLM": fail, "SDPA": lambda batch: batch.sdpa})
    monkeypatch.setattr(hip_bench, "measure", lambda _device, _calls, _iterations: 2e-6)
    options = hip_bench.arguments(["--rotate", "1"])
    point = roofline.Point(1, 2, 70)
    row = hip_bench.measure_point(Host(), options.layers[0], point, options, torch.bfloat16)  # type: ignore[arg-type]
    assert row.peers == {"vLLM": None, "SDPA": 2.0}
    assert row.measured == 2.0
    assert "vLLM failed at the point below: TypeError" in capsys.readouterr().out


def test_events_time_a_captured_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only a GPU runs, with torch.cuda's parts replaced by ones that count."""
    clock, log = [0.0], []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = clock[0]

        def synchronize(self) -> None:
            log.append("synchronize")

        def elapsed_time(self, end: "Event") -> float:
            return end.at - self.at

    class Graph:
        def __enter__(self) -> None:
            log.append("capture")

        def __exit__(self, *_: object) -> None:
            log.append("captured")

        def replay(self) -> None:
            clock[0] += 12.0  # milliseconds

    side = SimpleNamespace(wait_stream=lambda _: None)
    properties = SimpleNamespace(name="AMD Instinct MI300X", multi_processor_count=304)
    monkeypatch.setattr(hip_bench.ops, "hip_device", lambda: ("gfx942", "libamdhip64.so"))
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(hip_bench.sv.HipError, match="is not built for ROCm"):
        hip_bench.Gpu()
    monkeypatch.setattr(torch.version, "hip", "7.0")
    monkeypatch.setattr(
        torch,
        "cuda",
        SimpleNamespace(
            Event=Event,
            CUDAGraph=Graph,
            Stream=lambda: side,
            stream=lambda _: Graph(),
            graph=lambda graph: graph,
            current_stream=lambda: side,
            current_device=lambda: 0,
            get_device_properties=lambda _: properties,
        ),
    )
    gpu = hip_bench.Gpu()
    assert (gpu.name, gpu.arch, gpu.units, gpu.rocm) == ("AMD Instinct MI300X", "gfx942", 304, True)
    calls = [lambda: log.append("first"), lambda: log.append("second"), lambda: log.append("third")]
    assert hip_bench.measure(gpu, calls, 5) == pytest.approx(0.004)
    # Once each to warm up, once each into the graph, and never again: the graph is replayed.
    assert [log.count(name) for name in ("first", "second", "third", "synchronize")] == [2, 2, 2, 6]
