"""The model behind the estimates: cases computed by hand, and how it must answer when something changes."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from bench.roofline import (
    BATCHES,
    CHIPS,
    CONTEXTS,
    GQA,
    LAYERS,
    MI300X,
    MI355X,
    WIDTHS,
    Cost,
    Counts,
    Point,
    Work,
    chip,
    counts,
    estimate,
    splits_of,
)

# A workgroup that does a thousand cycles of one thing for a tile of 64 keys, and nothing else.
NOTHING = Work()


def counted(tile: Work, fixed: Work = NOTHING, masked: Work = NOTHING, part: Work = NOTHING) -> Counts:
    return Counts(64, 4, 2, 1.0, 1.0, (Cost(fixed, tile, masked),) * 4, NOTHING, part)


def test_memory_by_hand() -> None:
    # 8 requests x 8 KV heads x 1024 keys x 256 elements x 2 bytes, 8 rows x 64 heads x 128 x 2 bytes of q and as many of results.
    one = estimate(MI300X, GQA, counted(NOTHING), Point(8, 1, 1023), 1)
    expected = 8 * 8 * 1024 * 512 + 2 * (8 * 64 * 128 * 2)
    assert one.memory_bytes == expected
    assert one.limit == "memory"
    assert one.seconds == pytest.approx(expected / 5.3e12)
    assert one.workgroups == 64
    # The L2 gives 2048 bytes a cycle on each of eight dies; q is read once by its workgroups.
    assert one.attention["L2"] == pytest.approx((expected - 8 * 64 * 128 * 2) / (8 * 2048 * 2.1e9))
    # fp8 halves the cache.
    half = estimate(MI300X, GQA, counted(NOTHING), Point(8, 1, 1023), 1, cache_bytes=1)
    assert half.memory_bytes == expected - 8 * 8 * 1024 * 256


def test_vector_by_hand() -> None:
    """250 vector instructions are 1000 cycles; 16 tiles; 64 workgroups on 304 compute units: one on each."""
    one = estimate(MI300X, GQA, counted(Work(vector=250)), Point(8, 1, 1023), 1)
    assert one.attention["vector"] == pytest.approx(16 * 1000 / 2.1e9)
    # A transcendental instruction takes four times as long as another.
    other = estimate(MI300X, GQA, counted(Work(transcendental=250)), Point(8, 1, 1023), 1)
    assert other.attention["vector"] == pytest.approx(4 * one.attention["vector"])
    # The tile that is masked costs more, and what is done once is done once.
    more = counted(Work(vector=250), fixed=Work(vector=25), masked=Work(vector=50))
    assert estimate(MI300X, GQA, more, Point(8, 1, 1023), 1).attention["vector"] == pytest.approx(16300 / 2.1e9)


def test_matrix_and_lds_by_hand() -> None:
    # 512 operations a cycle and SIMD; on MI355X as many as 2.5 PFLOPS say.
    one = estimate(MI300X, GQA, counted(Work(matrix_flops=512_000)), Point(8, 1, 1023), 1)
    assert one.attention["matrix"] == pytest.approx(16 * 1000 / 2.1e9, rel=1e-3)
    assert MI355X.matrix / (MI355X.units * 4 * MI355X.clock) == pytest.approx(1017, abs=1)
    lds = estimate(MI300X, GQA, counted(Work(lds_bytes=128_000)), Point(8, 1, 1023), 1)
    assert lds.attention["LDS"] == pytest.approx(16 * 1000 / 2.1e9)


def test_workgroups_are_counted_by_die_and_compute_unit() -> None:
    """38 compute units a die: 8 x 8 units of 4 blocks are 32 workgroups a die, of 5 blocks 40, so two on some compute unit."""
    tile = counted(Work(vector=250))
    four, five = (estimate(MI300X, GQA, tile, Point(8, width, 1000 - width), 1) for width in (32, 40))
    assert (four.workgroups, five.workgroups) == (256, 320)
    assert five.attention["vector"] == pytest.approx(2 * four.attention["vector"])
    # One request and one KV head on a die: splits that no die shares do not help, eight do.
    lone = dataclasses.replace(GQA, heads=8, kv_heads=1)
    times = [
        estimate(MI300X, lone, tile, Point(1, 128, 8192 - 128), splits).attention["vector"] for splits in (1, 2, 4, 8)
    ]
    assert times == pytest.approx([times[0] / n for n in (1, 2, 4, 8)], rel=0.05)


def test_issue_needs_waves() -> None:
    """A wave alone on its SIMD issues in every fourth cycle; a second one fills the gaps."""
    tile = counted(Work(instructions=250))
    alone = estimate(MI300X, GQA, tile, Point(8, 1, 1023), 1)
    assert alone.limit == "issue"
    assert alone.seconds == pytest.approx(16 * 1000 / 2.1e9)
    paired = estimate(MI300X, GQA, tile, Point(8, 40, 1023 - 39), 1)
    assert paired.attention["issue"] == pytest.approx(alone.attention["issue"])  # twice the work, two at once


def test_splits_cost_their_parts_and_a_second_kernel() -> None:
    tile = counted(Work(vector=250), part=Work(vector=10))
    point = Point(1, 1, 4095)
    whole, split = (estimate(MI300X, GQA, tile, point, splits) for splits in (1, 4))
    assert whole.reduction == {}
    assert split.workgroups == 4 * whole.workgroups
    # 64 tiles are dealt out by 16; 65 by 17, 17, 17 and 14.
    assert split.attention["vector"] == pytest.approx(16 / 64 * whole.attention["vector"])
    assert estimate(MI300X, GQA, tile, Point(1, 1, 4096), 4).attention["vector"] == pytest.approx(17 * 1000 / 2.1e9)
    # 64 query rows x 130 f32 x 4 parts are written, read, and 64 x 128 results written.
    assert split.reduction["memory"] == pytest.approx((4 * 64 * 130 * 4 + 64 * 128 * 2) / 5.3e12)
    assert split.reduction["vector"] == pytest.approx(4 * 10 * 4 / 2.1e9)
    assert split.seconds == pytest.approx(max(split.attention.values()) + max(split.reduction.values()))
    # More parts than tiles: the rest leave at once.
    assert estimate(MI300X, GQA, tile, Point(1, 1, 127), 64).workgroups == 2 * 8


@pytest.mark.parametrize("of", CHIPS, ids=lambda one: one.name)
@pytest.mark.parametrize("layer", LAYERS.values(), ids=["gqa", "mla"])
@pytest.mark.parametrize(("cache", "size"), [("bf16", 2), ("fp8", 1)])
def test_the_grid(of: object, layer: object, cache: str, size: int) -> None:
    """No bound is beaten, and more work never takes less time, if it is split alike."""
    kernel = counts()[of.arch, layer.name("bf16", cache)]  # type: ignore[attr-defined]

    def at(batch: int, width: int, context: int, splits: int = 0) -> float:
        point = Point(batch, width, context)
        splits = splits or splits_of(of, layer, point)  # type: ignore[arg-type]
        one = estimate(of, layer, kernel, point, splits, cache_bytes=size)  # type: ignore[arg-type]
        least = batch * layer.kv_heads * context * layer.key * size / of.bandwidth  # type: ignore[attr-defined]
        products = 2 * batch * width * layer.heads * context * (layer.query + layer.result)  # type: ignore[attr-defined]
        assert one.seconds >= max(least, products / of.matrix)  # type: ignore[attr-defined]
        assert one.without_overlap > 0
        assert one.limit in {*one.attention, "reduction"}
        return one.seconds

    for context in CONTEXTS:
        assert all(at(batch, width, context) > 0 for width in WIDTHS for batch in BATCHES)
        table = [[at(batch, width, context, 4) for width in WIDTHS] for batch in BATCHES]
        for row in (*table, *zip(*table, strict=True)):
            assert list(row) == sorted(row)
    assert at(8, 8, CONTEXTS[0]) < at(8, 8, CONTEXTS[1])


def test_what_binds() -> None:
    """One row of a long context waits for memory; a width of 64 does not."""

    def limit(width: int) -> str:
        point = Point(32, width, 32768)
        kernel = counts()["gfx942", GQA.name("bf16", "bf16")]
        return estimate(MI300X, GQA, kernel, point, splits_of(MI300X, GQA, point)).limit

    assert (limit(1), limit(64)) == ("memory", "LDS")


def test_chips_by_the_names_of_devices() -> None:
    assert chip("AMD Instinct MI325X", "gfx942").bandwidth == 6.0e12
    assert chip("AMD Instinct MI300X VF", "gfx942") is MI300X
    assert chip("something new", "gfx950") is MI355X


def test_the_tables_print() -> None:
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-m", "bench.roofline"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("context 3,584\n") == 8
    assert "0.26 ms at width 1 and 3.75 ms at width 8, 14 times width 1" in done.stdout
