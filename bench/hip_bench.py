"""Measure the attention kernels on this machine's AMD GPU: `python bench/hip_bench.py`, after `pip install .` beside a ROCm torch.

Results are first compared with the operators on the CPU, at one small point. Then each point of the grid is timed with HIP events around
a captured graph of calls, so that neither Python nor launches from the host are in it. Calls go in turn over copies of the cache that
together exceed the 256 MiB Infinity Cache four times: every call reads its keys from HBM. Beside the measured time stand the estimate of
bench/roofline.py, and what else is installed that attends over the same cache.

Exit status: 0 measured, 1 results differ from the CPU's, 2 there is no GPU that the kernels run on (the message says why).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

if not __package__:
    sys.path.insert(0, str(Path(__file__).parents[1]))

try:
    import numpy as np
    import torch

    import specverify as sv
    from bench import roofline
    from specverify import ops
    from specverify.ops.attention import FP8
except ImportError as missing:
    print(f"hip_bench: {missing}; it needs specverify (pip install .) and a ROCm build of torch", file=sys.stderr)
    sys.exit(2)

INFINITY_CACHE = 256 * 2**20
ROTATION = 4 * INFINITY_CACHE
PAGE = 16
DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
# Of values about 1: probabilities and results are rounded once each.
TOLERANCES = {"bf16": 0.03, "f16": 0.006}
KV_SCALE = 0.5
Call = Callable[[], Any]


class Device(Protocol):
    """Where tensors are and what times calls; the tests' is a simulated one."""

    name: str
    arch: str
    units: int
    rocm: bool

    def normal(self, shape: Sequence[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
        """Random numbers about 1 on the device."""

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy to the device."""

    def back(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy to the host."""

    def capture(self, calls: Sequence[Call]) -> Call:
        """What runs the calls, one after the other, with least cost."""

    def seconds(self, call: Call) -> float:
        """Of one run, on the device's clock."""


class Gpu:
    """The current GPU, through torch."""

    def __init__(self) -> None:
        self.arch, self.runtime = ops.hip_device()
        if torch.version.hip is None:
            raise sv.HipError(
                f"torch {torch.__version__} is not built for ROCm, so no tensor can be put on this {self.arch} GPU"
            )
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.name, self.units, self.rocm = properties.name, properties.multi_processor_count, True

    def normal(self, shape: Sequence[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
        generator = torch.Generator("cuda").manual_seed(seed)
        return torch.randn(*shape, dtype=torch.bfloat16, device="cuda", generator=generator).to(dtype)

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to("cuda")

    def back(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.cpu()

    def capture(self, calls: Sequence[Call]) -> Call:
        # What a first call does, loading modules and compiling, must not be in the graph.
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for call in calls:
                call()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
        return graph.replay

    def seconds(self, call: Call) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3


@dataclass
class Batch:
    """Requests of equal size behind caches of their own, and what attends to them."""

    layer: roofline.Layer
    point: roofline.Point
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    """MLA: the same as k."""
    table: torch.Tensor
    cu_rows: torch.Tensor
    context_lens: torch.Tensor
    ancestors: torch.Tensor
    scale: torch.Tensor | None
    """Of fp8 keys and values."""

    @classmethod
    def make(
        cls,
        device: Device,
        layer: roofline.Layer,
        point: roofline.Point,
        dtype: torch.dtype,
        cache: torch.dtype,
        parents: Sequence[int],
        seed: int,
    ) -> Batch:
        """Random queries and a random cache, its pages in random order, on the device."""
        pages = -(-(point.context + point.width) // PAGE)
        order = torch.randperm(point.batch * pages, generator=torch.Generator().manual_seed(seed))
        heads = (layer.kv_heads, layer.key // 2) if layer is roofline.GQA else (layer.key,)
        k = device.normal((point.batch * pages, PAGE, *heads), cache, 2 * seed)
        v = device.normal(k.shape, cache, 2 * seed + 1) if layer is roofline.GQA else k
        bits = sv.DraftTree(range(len(parents)), parents).ancestor_bits.astype(np.int64)
        bits = bits if bits.shape[1] else np.zeros((point.width, 1), np.int64)
        return cls(
            layer,
            point,
            device.normal((point.batch * point.width, layer.heads, layer.query), dtype, 7 * seed + 3),
            k,
            v,
            device.put(order.view(point.batch, pages).to(torch.int32)),
            device.put(torch.arange(point.batch + 1, dtype=torch.int32) * point.width),
            device.put(torch.full((point.batch,), point.context, dtype=torch.int32)),
            device.put(torch.from_numpy(np.tile(bits, (point.batch, 1)))),
            device.put(torch.tensor([KV_SCALE])) if cache.itemsize == 1 else None,
        )

    @property
    def softmax_scale(self) -> float:
        """Of q . k."""
        return float(self.layer.query**-0.5)

    def specverify(self) -> torch.Tensor:
        """Call the operator."""
        of_rows = (self.table, self.cu_rows, self.context_lens, self.ancestors)
        if self.layer is roofline.MLA:
            return ops.mla_tree_attention(
                self.q, self.k, *of_rows, scale=self.softmax_scale, kv_scale=self.scale, max_rows=self.point.width
            )
        return ops.tree_attention(
            self.q,
            self.k,
            self.v,
            *of_rows,
            scale=self.softmax_scale,
            k_scale=self.scale,
            v_scale=self.scale,
            max_rows=self.point.width,
        )

    def on_host(self, device: Device) -> Batch:
        """Copy to the host, in float32."""
        scale = 1.0 if self.scale is None else KV_SCALE
        k = device.back(self.k).float() * scale
        v = k if self.v is self.k else device.back(self.v).float() * scale
        table, cu_rows, context_lens, ancestors = (
            device.back(one) for one in (self.table, self.cu_rows, self.context_lens, self.ancestors)
        )
        return Batch(
            self.layer, self.point, device.back(self.q).float(), k, v, table, cu_rows, context_lens, ancestors, None
        )

    def sdpa(self) -> torch.Tensor:
        """Attend as torch does: the pages gathered, a dense mask made of the ancestor bits, a group's heads as rows of its KV head."""
        batch, width, group = self.point.batch, self.point.width, self.layer.group
        keys = self.point.context + width
        k, v = (one[self.table.long()].flatten(1, 2)[:, :keys].transpose(1, 2) for one in (self.k, self.v))
        nodes = torch.arange(width - 1, device=self.q.device)
        bits = self.ancestors.view(batch, width, -1)[:, :, nodes // 64]
        mask = torch.ones(batch, width, keys, dtype=torch.bool, device=self.q.device)
        mask[:, :, keys - width + 1 :] = (bits >> (nodes % 64)) & 1 == 1
        mask = mask.repeat_interleave(group, 1)[:, None]
        q = self.q.view(batch, width, self.layer.kv_heads, group, -1).permute(0, 2, 1, 3, 4).flatten(2, 3)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.softmax_scale)
        return out.view(batch, -1, width, group, self.layer.result).permute(0, 2, 1, 3, 4).reshape(self.q.shape)

    def vllm_arguments(self) -> dict[str, Any]:
        """What vLLM's `unified_attention` takes: it knows chains."""
        scale = None
        if self.scale is not None:
            scale = self.scale.expand(self.point.batch, self.layer.kv_heads)
        return {
            "q": self.q,
            "k": self.k,
            "v": self.v,
            "out": torch.empty_like(self.q),
            "cu_seqlens_q": self.cu_rows,
            "max_seqlen_q": self.point.width,
            "seqused_k": self.context_lens + self.point.width,
            "max_seqlen_k": self.point.context + self.point.width,
            "softmax_scale": self.softmax_scale,
            "causal": True,
            "window_size": (-1, -1),
            "block_table": self.table,
            "softcap": 0.0,
            "q_descale": None,
            "k_descale": scale,
            "v_descale": scale,
        }


def vllm_attention() -> Callable[..., Any]:
    """Find vLLM's Triton attention over a paged cache."""
    from vllm.v1.attention.ops.triton_unified_attention import unified_attention

    return unified_attention  # type: ignore[no-any-return]


Peer = Callable[[Batch], Call]


def peers(device: Device, layer: roofline.Layer, cache: str) -> dict[str, Peer | str]:
    """Say how to call each on a batch, or why it is not measured."""
    found: dict[str, Peer | str] = {"SDPA": lambda batch: batch.sdpa, "vLLM": "not available: no ROCm device"}
    if layer is roofline.MLA:
        return dict.fromkeys(found, "not measured: its heads of q.k and of v differ")
    if cache == "fp8":
        found["SDPA"] = "not measured: it takes no fp8"
    if device.rocm:
        try:
            attention = vllm_attention()
        except ImportError as missing:
            found["vLLM"] = f"not available: {missing}"
        else:

            def call(batch: Batch) -> Call:
                arguments = batch.vllm_arguments()
                return lambda: attention(**arguments)

            found["vLLM"] = call
    return found


def check(device: Device, layer: roofline.Layer, dtype: str, cache: torch.dtype) -> float:
    """Run a small branching tree here and on the CPU; give the largest difference."""
    batch = Batch.make(device, layer, roofline.Point(2, 6, 70), DTYPES[dtype], cache, [-1, -1, 0, 2, 1], 1)
    found = device.back(batch.specverify()).float()
    return float((found - batch.on_host(device).specverify()).abs().max())


def measure(device: Device, calls: Sequence[Call], iterations: int) -> float:
    """Time rounds over all calls; give the median, a call's share, in seconds."""
    run = device.capture(calls)
    device.seconds(run)
    return statistics.median(device.seconds(run) for _ in range(iterations)) / len(calls)


@dataclass
class Row:
    """A point's result; times in microseconds, None where a peer was not measured."""

    layer: str
    batch: int
    width: int
    context: int
    estimated: float
    limit: str
    without_overlap: float
    measured: float
    gigabytes_a_second: float
    peers: dict[str, float | None]

    def line(self) -> str:
        """As the table prints it."""
        peers = "".join(f"{'-' if time is None else f'{time:.1f}':>10}" for time in self.peers.values())
        return (
            f"  {self.batch:5} {self.width:5} {self.context:7} {self.estimated:10.1f} {self.limit:9} {self.without_overlap:10.1f}"
            f" {self.measured:10.1f} {100 * self.estimated / self.measured:8.0f}% {self.gigabytes_a_second:8.0f}{peers}"
        )


def measure_point(
    device: Device, layer: str, point: roofline.Point, options: argparse.Namespace, cache: torch.dtype
) -> Row:
    """Estimate and measure one point, and its peers."""
    shape = roofline.LAYERS[layer]
    chip = roofline.chip(device.name, device.arch)
    counted = roofline.counts()[device.arch, shape.name(options.dtype, options.cache_name)]
    splits = roofline.splits_of(chip, shape, point)
    estimate = roofline.estimate(chip, shape, counted, point, splits, cache_bytes=cache.itemsize)
    keys = point.batch * shape.kv_heads * (point.context + point.width) * shape.key * cache.itemsize
    copies = max(2, -(-options.rotate // keys))
    parents = range(-1, point.width - 2)
    batches = [Batch.make(device, shape, point, DTYPES[options.dtype], cache, parents, seed) for seed in range(copies)]
    measured = measure(device, [batch.specverify for batch in batches], options.iterations)
    times: dict[str, float | None] = {}
    for name, peer in peers(device, shape, options.cache_name).items():
        times[name] = None
        if options.peers and not isinstance(peer, str):
            try:
                times[name] = 1e6 * measure(device, [peer(batch) for batch in batches], options.iterations)
            except Exception as error:
                # Another version's signature, a compiler, memory: no reason to lose our own figures.
                print(f"  {name} failed at the point below: {type(error).__name__}: {str(error).splitlines()[:1]}")
    return Row(
        layer,
        point.batch,
        point.width,
        point.context,
        1e6 * estimate.seconds,
        estimate.limit,
        1e6 * estimate.without_overlap,
        1e6 * measured,
        estimate.memory_bytes / measured / 1e9,
        times,
    )


def numbers(text: str) -> list[int]:
    """Read a comma-separated list."""
    return [int(one) for one in text.split(",")]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="hip_bench", description=__doc__.split("\n")[0])
    layers = {"gqa": list(roofline.LAYERS)[:1], "mla": list(roofline.LAYERS)[1:], "both": list(roofline.LAYERS)}
    parser.add_argument("--layer", choices=layers, default="both", help="heads to attend with (default both)")
    for name, default in (("batch", roofline.BATCHES), ("width", roofline.WIDTHS), ("context", roofline.CONTEXTS)):
        text = ",".join(map(str, default))
        parser.add_argument(f"--{name}", type=numbers, default=list(default), metavar="N,...", help=f"default {text}")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16", help="of queries (default bf16)")
    parser.add_argument(
        "--kv-dtype", choices=("same", "fp8"), default="same", help="of the cache (default that of queries)"
    )
    parser.add_argument("--iterations", type=int, default=20, help="rounds a point (default 20); the median counts")
    parser.add_argument("--rotate", type=int, default=ROTATION, help="bytes of cache to rotate over (default 1 GiB)")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="measure specverify alone")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    options = parser.parse_args(argv)
    options.layers = layers[options.layer]
    options.cache_name = options.dtype if options.kv_dtype == "same" else "fp8"
    return options


def run(options: argparse.Namespace, device: Device) -> int:
    """Compare, measure and print; return the exit status."""
    cache = FP8[device.arch] if options.cache_name == "fp8" else DTYPES[options.dtype]
    chip = roofline.chip(device.name, device.arch)
    print(f"{device.name}, {device.arch}, {device.units} compute units; estimates are for {chip.name}")
    rows: list[Row] = []
    for layer in options.layers:
        shape = roofline.LAYERS[layer]
        difference = check(device, shape, options.dtype, cache)
        if not difference <= TOLERANCES[options.dtype]:
            print(
                f"hip_bench: {layer}: results differ by {difference} from the CPU's; expected {TOLERANCES[options.dtype]} or less"
            )
            return 1
        print(
            f"\n{layer}, {options.dtype} queries, {options.cache_name} cache: equal to the CPU within {difference:.2g}"
        )
        found = peers(device, shape, options.cache_name)
        for name, peer in found.items():
            if isinstance(peer, str):
                print(f"  {name}: {peer}")
        names = "".join(f"{name:>10}" for name in found)
        print(
            f"  batch width context  estimated limit     no overlap   measured roofline     GB/s{names}   (microseconds)"
        )
        for context in options.context:
            for batch in options.batch:
                for width in options.width:
                    rows.append(measure_point(device, layer, roofline.Point(batch, width, context), options, cache))
                    print(rows[-1].line(), flush=True)
    if options.json:
        about = {"device": device.name, "arch": device.arch, "dtype": options.dtype, "cache": options.cache_name}
        options.json.write_text(json.dumps(about | {"rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run on the GPU of this machine."""
    options = arguments(argv)
    try:
        device = Gpu()
    except sv.HipError as error:
        print(f"hip_bench: {error}", file=sys.stderr)
        return 2
    return run(options, device)


if __name__ == "__main__":
    sys.exit(main())
