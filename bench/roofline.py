"""How long the attention kernels should take on MI300X and MI355X, at best: `python -m bench.roofline`, no GPU needed.

What a kernel does is counted, not assumed: `make kernels` runs it on the simulator and writes hip_counts.json, the instructions of the
busiest SIMD and the LDS bytes of a workgroup for its tiles of keys. What a chip can do is AMD's peak. An estimate is the longest of

- memory: every line of the cache once, queries, results and the parts of splits, over the bandwidth of HBM;
- L2: what workgroups ask for, over what the dies' caches give, if all but the first reading of a key hits them;
- matrix: operations issued, padding of query rows to 16 or 64 included, over the peak;
- vector: a wave's vector instruction holds a SIMD for 4 cycles, a transcendental one for 16;
- LDS: bytes, at 128 a cycle and compute unit;
- issue: a wave issues one instruction in 4 cycles, so that few waves leave a SIMD idle,

of the compute unit that has most workgroups, plus the same for the reduction of splits. Beside it stands what it would be if memory,
vector, matrix and LDS never overlapped: measured times should lie between the two, or above. Not in either: launches, latency of memory
and barriers, misses of L2, clocks below the peak. No GPU has confirmed any of this.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from specverify import _core

COUNTS = Path(__file__).with_name("hip_counts.json")
ROWS = 64  # query rows of a workgroup
WAVE_CYCLES = 4  # 64 lanes on a 16-wide SIMD; also how often a wave may issue
TRANSCENDENTAL_CYCLES = 16  # a quarter of the rate
LDS_BYTES = 128  # a cycle and compute unit: 32 banks of 4 bytes
L2_BYTES = 16 * 128  # a cycle and die: 16 channels
SIMDS = 4
REDUCTION_WAVES = 8  # a SIMD's waves of the reduction, at most

BATCHES, WIDTHS, CONTEXTS = (1, 8, 32), (1, 8, 16, 32, 64), (3584, 32768)
# What attention took on an MI355X before, by the width of the verification: published without model, batch and context.
PUBLISHED_MS = {1: 0.26, 8: 3.75}


@dataclass(frozen=True)
class Chip:
    """Peak rates, from AMD's data sheets."""

    name: str
    arch: str
    units: int
    clock: float
    """Hz."""
    bandwidth: float
    """Bytes a second of HBM."""
    matrix: float
    """Operations a second, dense bf16 and f16."""
    dies: int = 8


# "AMD Instinct MI300X Accelerator" and "AMD Instinct MI355X GPU" data sheets.
MI300X = Chip("MI300X", "gfx942", 304, 2.1e9, 5.3e12, 1307.4e12)
MI355X = Chip("MI355X", "gfx950", 256, 2.4e9, 8.0e12, 2.5e15)
CHIPS = (MI300X, MI355X)
# Known beside them, for measurements: the same dies with faster memory, and at a lower clock.
OTHERS = (
    Chip("MI325X", "gfx942", 304, 2.1e9, 6.0e12, 1307.4e12),
    Chip("MI350X", "gfx950", 256, 2.2e9, 8.0e12, 2.3e15),
)


def chip(name: str, arch: str) -> Chip:
    """Pick the chip of which a device's name speaks, else the first of its architecture."""
    return next(
        (one for one in (*CHIPS, *OTHERS) if one.name in name),
        next(one for one in CHIPS if one.arch == arch),
    )


@dataclass(frozen=True)
class Layer:
    """Heads of a layer and elements of a key (with its value), of a query and of a result."""

    kernel: str
    """Its name without types: `{query}_{cache}` stands between the two parts."""
    heads: int
    kv_heads: int
    key: int
    query: int
    result: int

    @property
    def group(self) -> int:
        """Heads that share a KV head."""
        return self.heads // self.kv_heads

    def name(self, query: str, cache: str) -> str:
        """Of the kernel for these types."""
        return self.kernel.format(query=query, cache=cache)


GQA = Layer("tree_attention_{query}_{cache}_d128", 64, 8, 2 * 128, 128, 128)
MLA = Layer("mla_tree_attention_{query}_{cache}", 128, 1, 576, 576, 512)
LAYERS = {"GQA, 64 heads / 8 KV heads of 128": GQA, "MLA, 128 heads, 512 + 64": MLA}


@dataclass(frozen=True)
class Point:
    """A batch: so many requests of `width` rows (the root and its nodes) behind `context` keys."""

    batch: int
    width: int
    context: int


@dataclass(frozen=True)
class Work:
    """What the waves of the busiest SIMD do; LDS of the whole workgroup."""

    instructions: float = 0.0
    vector: float = 0.0
    transcendental: float = 0.0
    matrix_flops: float = 0.0
    lds_bytes: float = 0.0

    def _each(self, f: Callable[[float, float], float], other: Work) -> Work:
        return Work(*(f(getattr(self, name), getattr(other, name)) for name in self.__dataclass_fields__))

    def __add__(self, other: Work) -> Work:
        return self._each(lambda a, b: a + b, other)

    def __mul__(self, times: float) -> Work:
        return self._each(lambda a, _: a * times, self)

    def __or__(self, other: Work) -> Work:
        """The larger of each."""
        return self._each(max, other)


@dataclass(frozen=True)
class Cost:
    """Of a workgroup: once, for each tile of keys, and beside that for each in which some row may not see some key."""

    fixed: Work
    tile: Work
    masked: Work


@dataclass(frozen=True)
class Counts:
    """What the simulator counts of a kernel; `costs` at 16, 32, 48 and 64 query rows."""

    keys: int
    waves: int
    workgroups_a_unit: int
    lines: float
    requested: float
    costs: tuple[Cost, ...]
    reduction_fixed: Work
    reduction_part: Work


@lru_cache(maxsize=1)
def counts() -> dict[tuple[str, str], Counts]:
    """By architecture and kernel."""
    file = json.loads(COUNTS.read_text())

    def work(values: list[float]) -> Work:
        return Work(**dict(zip(file["work"], values, strict=True)))

    return {
        (one["arch"], one["kernel"]): Counts(
            one["keys"],
            one["waves"],
            one["workgroups_a_unit"],
            one["lines"],
            one["requested"],
            tuple(Cost(work(cost["fixed"]), work(cost["tile"]), work(cost["masked"])) for cost in one["costs"]),
            work(one["reduction"]["fixed"]),
            work(one["reduction"]["part"]),
        )
        for one in file["kernels"]
    }


@dataclass(frozen=True)
class Estimate:
    """Seconds."""

    attention: dict[str, float]
    """By what limits it."""
    reduction: dict[str, float]
    """The same; empty where keys are not split."""
    splits: int
    workgroups: int
    """That have keys to read."""
    memory_bytes: float

    @property
    def seconds(self) -> float:
        """The longest of each kernel."""
        return max(self.attention.values()) + max(self.reduction.values(), default=0.0)

    @property
    def limit(self) -> str:
        """What the longer of the two kernels waits for."""
        limit = max(self.attention, key=self.attention.__getitem__)
        if self.reduction and max(self.reduction.values()) > self.attention[limit]:
            return "reduction"
        return limit

    @property
    def without_overlap(self) -> float:
        """Should memory, vector, matrix and LDS wait for each other."""
        pipes = ("memory", "vector", "matrix", "LDS")
        return sum(terms.get(pipe, 0.0) for terms in (self.attention, self.reduction) for pipe in pipes)


def ceil_div(a: int, b: int) -> int:
    """Round up."""
    return -(-a // b)


def splits_of(chip: Chip, layer: Layer, point: Point) -> int:
    """Ask the launcher for the splits that `specverify.ops` takes where the block table has just the room that the keys need."""
    keys = point.context + point.width
    if layer is MLA:
        return _core.hip_mla_splits(point.batch, layer.heads, point.width, keys, chip.units)
    return _core.hip_attention_splits(point.batch, layer.kv_heads, layer.group, point.width, keys, chip.units)


def pipes(chip: Chip, work: Work, waves: int) -> dict[str, float]:
    """Seconds that a compute unit takes for its work; `waves` are at once on a SIMD."""
    cycles = {
        "vector": WAVE_CYCLES * work.vector + TRANSCENDENTAL_CYCLES * work.transcendental,
        "matrix": work.matrix_flops * chip.units * SIMDS * chip.clock / chip.matrix,
        "LDS": work.lds_bytes / LDS_BYTES,
        "issue": WAVE_CYCLES * work.instructions / waves,
    }
    return {pipe: one / chip.clock for pipe, one in cycles.items()}


def estimate(
    chip: Chip, layer: Layer, counted: Counts, point: Point, splits: int, query_bytes: int = 2, cache_bytes: int = 2
) -> Estimate:
    """Estimate a call of the attention operator: see the head of this file."""
    keys, rows = point.context + point.width, point.batch * point.width
    tiles = ceil_div(keys, counted.keys)
    # The kernel deals out whole tiles of 64 keys, and what is left over to the last part that has any.
    part = ceil_div(point.context // 64 + 1, splits) * 64 // counted.keys
    parts = min(splits, ceil_div(tiles, part))
    last = tiles - (parts - 1) * part
    masked = (keys - 1) // counted.keys - point.context // counted.keys + 1

    blocks = ceil_div(point.width * layer.group, ROWS)
    cost = counted.costs[3 if blocks > 1 else ceil_div(point.width * layer.group, 16) - 1]
    inner = cost.fixed + cost.tile * min(part, tiles)
    final = cost.fixed + cost.tile * last + cost.masked * min(masked, last)
    units = point.batch * layer.kv_heads * parts
    # Units are dealt to the dies, a unit's blocks run on one.
    on_a_unit = ceil_div(ceil_div(units, chip.dies) * blocks, chip.units // chip.dies)
    worst = inner * (on_a_unit - 1) + (final if parts == 1 else inner | final)

    cache = point.batch * layer.kv_heads * keys * layer.key * cache_bytes
    queries = rows * layer.heads * layer.query * query_bytes
    results = rows * layer.heads * layer.result * query_bytes
    partial = splits * rows * layer.heads * (layer.result + 2) * 4 if splits > 1 else 0
    memory = cache * counted.lines + queries + (partial or results)
    asked = cache * counted.requested * blocks + queries * parts
    attention = {
        "memory": memory / chip.bandwidth,
        "L2": asked / (L2_BYTES * chip.dies * chip.clock),
        **pipes(chip, worst, min(on_a_unit, counted.workgroups_a_unit) * counted.waves // SIMDS),
    }
    reduction: dict[str, float] = {}
    if splits > 1:
        # A wave for each row and head, four a workgroup.
        waves = ceil_div(ceil_div(rows * layer.heads, 4), chip.units)
        work = (counted.reduction_fixed + counted.reduction_part * splits) * waves
        reduction = {"memory": (partial + results) / chip.bandwidth} | pipes(chip, work, min(waves, REDUCTION_WAVES))
    return Estimate(attention, reduction, splits, units * blocks, memory + (partial + results if partial else 0))


def tables() -> Iterator[tuple[Chip, str, Layer, str, int, int]]:
    """Chip, layer by its description, cache type, its bytes, context: a table each."""
    for chip in CHIPS:
        for title, layer in LAYERS.items():
            for cache, size in (("bf16", 2), ("fp8", 1)):
                for context in CONTEXTS:
                    yield chip, title, layer, cache, size, context


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(prog="python -m bench.roofline", description=__doc__.split("\n")[0]).parse_args()
    print(
        "Estimates in microseconds for one layer, bf16 queries; beside each what limits it, and in brackets the time without any overlap."
    )
    print(
        "Width: rows of a request, the root and its nodes. Peaks, not measurements: no GPU has confirmed them (docs/kernels.md)."
    )
    for chip, title, layer, cache, size, context in tables():
        counted = counts()[chip.arch, layer.name("bf16", cache)]
        print(f"\n{chip.name}, {title}, {cache} cache, context {context:,}")
        print("  batch" + "".join(f"{'width ' + str(width):>24}" for width in WIDTHS))
        for batch in BATCHES:
            line = f"  {batch:5}"
            for width in WIDTHS:
                point = Point(batch, width, context)
                one = estimate(chip, layer, counted, point, splits_of(chip, layer, point), cache_bytes=size)
                line += f"{f'{one.seconds * 1e6:.1f} {one.limit} ({one.without_overlap * 1e6:.1f})':>24}"
            print(line)
    published = " and ".join(f"{ms} ms at width {width}" for width, ms in PUBLISHED_MS.items())
    print(
        f"\nThe path of today, measured on an MI355X: {published}, {PUBLISHED_MS[8] / PUBLISHED_MS[1]:.0f} times width 1."
    )
    print("Its model, batch and context were not published with it: the ratio compares, the times need not.")
    for batch in BATCHES:
        counted = counts()["gfx950", GQA.name("bf16", "bf16")]
        times = [
            estimate(MI355X, GQA, counted, point, splits_of(MI355X, GQA, point)).seconds
            for point in (Point(batch, 1, 3584), Point(batch, 8, 3584))
        ]
        print(f"  estimated, batch {batch}, context 3,584: width 8 takes {times[1] / times[0]:.2f} times width 1")


if __name__ == "__main__":
    main()
