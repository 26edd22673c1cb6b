"""The HIP side of specverify.ops, run against a libamdhip64 whose device is the simulator: `python ops_on_fake_hip.py LIBRARY`."""

import sys
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from fake_hip_device import current, device


def ints(*values: int) -> Any:
    return device(torch.tensor(values, dtype=torch.int32))


def walk() -> None:
    from specverify.ops import walk

    arguments = [ints(0, 3, 3, 4), ints(5, 6, 7, 9), ints(-1, -1, 1, -1), ints(6, 0, 7, 3, 8, 9, 2)]
    for optional in ([None, None, None], [None, ints(0, 1, 1, 1), ints(6)], [ints(0, 0, 1, 0, 2, 0, 0), None, None]):
        found = walk._walk_hip(*arguments, *optional, 2)
        host = [one if one is None else one.as_subclass(torch.Tensor) for one in (*arguments, *optional)]
        for one, other in zip(found, torch.ops.specverify.tree_walk(*host, 2), strict=True):
            assert torch.equal(one.back(), other), (one, other)


def compaction() -> None:
    from specverify.ops import kv

    torch.manual_seed(0)
    # One tensor of keys and values, as vLLM has it: pages of 4, 2 heads of 6.
    both = torch.randn(2, 5, 4, 2, 6).to(torch.bfloat16)
    on_device = device(both)
    pools = [on_device[0], on_device[1]]
    bases = device(torch.tensor([pool.data_ptr() for pool in pools]))
    path, accepted, lens = ints(1, 3, 4, 0, 2, -1).view(2, 3), ints(3, 2), ints(2, 5)
    table = ints(4, 2, 9, 0, 3, 1).view(2, 3)
    kv._compact_hip(pools, bases, path, accepted, lens, table)
    expected = both.clone()
    host = [one.as_subclass(torch.Tensor) for one in (bases, path, accepted, lens, table)]
    torch.ops.specverify.kv_compact([expected[0], expected[1]], *host)
    assert torch.equal(on_device.back(), expected)
    assert not torch.equal(expected, both)

    sources, destinations = device(torch.tensor([3, 19, 7])), device(torch.tensor([2, 3, 0]))
    kv._move_hip(pools, bases, ints(0, 2, 3), sources, destinations)
    torch.ops.specverify.kv_move(
        [expected[0], expected[1]],
        *(one.as_subclass(torch.Tensor) for one in (bases, ints(0, 2, 3), sources, destinations)),
    )
    assert torch.equal(on_device.back(), expected)


def attention(arch: str) -> None:
    from specverify.ops import attention as module

    torch.manual_seed(1)
    heads, kv_heads, dim, page, context = 4, 2, 64, 16, [37, 0]
    parents = [[-1, -1, 0, 1], [-1]]
    cu_rows = [0, 5, 7]
    bits = torch.zeros(7, 1, dtype=torch.int64)
    for first, tree in zip(cu_rows, parents, strict=False):
        for node, parent in enumerate(tree):
            bits[first + node + 1] = (bits[first + parent + 1] if parent >= 0 else 0) | 1 << node
    q = torch.randn(7, heads, dim).to(torch.bfloat16)
    both = torch.randn(6, 2, page, kv_heads, dim).to(torch.bfloat16)
    table = torch.tensor([[4, 0, 2], [5, 3, 3]], dtype=torch.int32)
    fp8 = torch.float8_e4m3fnuz if arch == "gfx942" else torch.float8_e4m3fn
    for cache, k_scale, v_scale in ((both, None, None), (both.to(fp8), 0.5, 2.0)):
        expected = torch.zeros(7, heads, dim, dtype=torch.float64)
        for b, (first, end) in enumerate(pairwise(cu_rows)):
            total = context[b] + end - first
            keys = torch.arange(total)
            wide = cache.to(torch.float64)
            k = wide[table[b, keys // page], 0, keys % page] * (k_scale or 1)
            v = wide[table[b, keys // page], 1, keys % page] * (v_scale or 1)
            for row in range(end - first):
                node = keys - context[b] - 1
                seen = (node < 0) | ((bits[first + row, 0] >> node.clamp(min=0)) & 1 == 1)
                for head in range(heads):
                    scores = (k[:, head // 2] @ q[first + row, head].to(torch.float64)) * dim**-0.5
                    weights = scores.masked_fill(~seen, -torch.inf).softmax(0)
                    expected[first + row, head] = weights @ v[:, head // 2]
        on_device = device(cache.view(torch.uint8)).view(cache.dtype) if cache.dtype == fp8 else device(cache)
        scales = [None if one is None else device(torch.tensor([one])) for one in (k_scale, v_scale)]
        for units in (1, 64):  # one part, several parts
            module.torch.cuda.get_device_properties = lambda _, n=units: SimpleNamespace(multi_processor_count=n)
            out = module._attention_hip(
                device(q),
                on_device[:, 0],
                on_device[:, 1],
                device(table),
                ints(*cu_rows),
                ints(*context),
                device(bits),
                *scales,
                dim**-0.5,
                0,
                0.0,
                5,
            )
            error = (out.back().to(torch.float64) - expected).abs().max().item()
            assert error < 0.02, (cache.dtype, units, error)


def mla() -> None:
    """The kernel against the operator on the host, which computes in float32."""
    from specverify.ops import mla as module

    torch.manual_seed(4)
    q = torch.randn(4, 16, 576).to(torch.bfloat16)
    kv = torch.randn(5, 16, 576).to(torch.bfloat16)
    arguments = [ints(3, 0, 4).view(1, 3), ints(0, 4), ints(30), device(torch.tensor([[0], [1], [2], [5]]))]
    host = [one.as_subclass(torch.Tensor) for one in arguments]
    expected = torch.ops.specverify.mla_tree_attention(q, kv, *host, None, 576**-0.5, 4).double()
    for units in (1, 64):
        module.torch.cuda.get_device_properties = lambda _, n=units: SimpleNamespace(multi_processor_count=n)
        out = module._attention_hip(device(q), device(kv), *arguments, None, 576**-0.5, 4).back().double()
        error = (out - expected).abs().max().item()
        assert error < 0.02, (units, error)


def race() -> None:
    from specverify.ops import race as module

    torch.manual_seed(2)
    module.torch.cuda.get_device_properties = lambda _: SimpleNamespace(multi_processor_count=4)
    rows, vocab = 5, 3000
    logits = torch.randn(rows, vocab) * 3
    logits[2, 7] = torch.nan
    requests, positions = ints(0, 1, 1, -1, 2), ints(4, 9, 10, 0, 70)
    law = [device(torch.tensor([5, -7, 11])), device(torch.tensor([0.8, 0.0, 1.2]))]
    filters = [ints(0, 0, 50), device(torch.tensor([1.0, 1.0, 0.9])), device(torch.tensor([0.1, 0.0, 0.0]))]
    bias = [ints(0, 1, 1, 2), ints(3, 2999), device(torch.tensor([5.0, -torch.inf]))]
    mask = torch.randint(-(2**31), 2**31 - 1, (3, (vocab + 31) // 32), dtype=torch.int32)
    for dtype in (torch.float32, torch.bfloat16):
        for optional in ([None] * 7, [*filters, *bias, device(mask)], [None, None, filters[2], *bias, None]):
            arguments = [device(logits.to(dtype)), requests, positions, *law, *optional]
            host = [one if one is None else one.as_subclass(torch.Tensor) for one in arguments]
            for places, children in ((1, False), (4, True)):
                tokens, scores, status = (one.back() for one in module._race_hip(*arguments, places, children))
                expected = torch.ops.specverify.race(*host, places, children)
                assert torch.equal(tokens, expected[0]), (tokens, expected[0])
                assert torch.equal(status, expected[2])
                assert not children or torch.equal(scores, expected[1])
            likely(arguments, host)


def likely(arguments: list[Any], host: list[Any]) -> None:
    from specverify.ops import logprobs as module

    children = [ints(0, 2, 3, 4, 4, 7), ints(5, 17, 2999, 0, 3, 900, 1)]
    for raw in (False, True):
        on_device = [one.back() for one in module._logprobs_hip(*arguments, 3, raw, *children)]
        expected = torch.ops.specverify.logprobs(*host, 3, raw, *(one.as_subclass(torch.Tensor) for one in children))
        for one, other in zip(on_device, expected, strict=True):
            if one.is_floating_point():
                assert torch.allclose(one, other, rtol=3e-7, atol=0), (raw, one, other)
            else:
                assert torch.equal(one, other), (raw, one, other)


def main() -> None:
    from specverify import _core
    from specverify.ops import attention as attention_module
    from specverify.ops import kv as kv_module
    from specverify.ops import logprobs as logprobs_module
    from specverify.ops import mla as mla_module
    from specverify.ops import race as race_module
    from specverify.ops import walk as walk_module

    arch, runtime = _core.hip_device(0)
    assert runtime == sys.argv[1], runtime
    for module in (attention_module, kv_module, logprobs_module, mla_module, race_module, walk_module):
        module.current = current
    walk()
    compaction()
    race()
    attention(arch)
    mla()
    print(f"{arch}: walk, compaction, race, attention, mla")


main()
