"""bench/hip_bench.py on a GPU that is the simulator: `python hip_bench_on_fake_hip.py LIBRARY JSON`."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from fake_hip_device import current, device

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import hip_bench
from specverify import _core
from specverify.ops import attention, mla


class Simulated:
    """A device with the host's clock, one call at a time."""

    name, units, rocm = "simulated GPU", 8, False

    def __init__(self) -> None:
        self.arch, runtime = _core.hip_device(0)
        assert runtime == sys.argv[1], runtime

    def normal(self, shape: Sequence[int], dtype: torch.dtype, seed: int) -> torch.Tensor:
        values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
        # `device` cannot copy an fp8 tensor.
        return device(values.view(torch.uint8)).view(dtype) if dtype.itemsize == 1 else device(values)

    def put(self, tensor: torch.Tensor) -> torch.Tensor:
        return device(tensor)

    def back(self, tensor: Any) -> torch.Tensor:
        return tensor.back() if tensor.element_size() > 1 else tensor.view(torch.uint8).back().view(tensor.dtype)

    def capture(self, calls: Sequence[Callable[[], Any]]) -> Callable[[], Any]:
        return lambda: [call() for call in calls]

    def seconds(self, call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start


def main() -> int:
    for module in (attention, mla):
        module.current = current
        # Tensors that torch takes for the host's go to the device's implementation all the same.
        module._attention = lambda *given, m=module, h=module._attention: (
            m._attention_hip if type(given[0]) is not torch.Tensor else h
        )(*given)
    torch.cuda.get_device_properties = lambda _: SimpleNamespace(multi_processor_count=Simulated.units)
    small = ["--batch", "1", "--width", "3", "--context", "64", "--iterations", "1", "--rotate", "1", *sys.argv[2:]]
    return hip_bench.run(hip_bench.arguments(small), Simulated())


sys.exit(main())
