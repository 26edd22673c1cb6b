"""Where tensors live, and what their address is."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from specverify import _core

Pointers = dict[str, int | float]


def hip_device(index: int | None = None) -> tuple[str, str]:
    """Say what runs the kernels.

    Parameters
    ----------
    index : int, optional
        Number of the GPU in this process; the current one by default.

    Returns
    -------
    arch : str
        ``gfx942`` or ``gfx950``.
    runtime : str
        Path of the HIP runtime that launches them.

    Raises
    ------
    HipError
        There is no HIP runtime, no GPU, or kernels for its architecture were not compiled; the message says which.
    """
    if torch.version.hip is None or not torch.cuda.is_available():
        return _core.hip_device(0)
    with torch.cuda.device(index):
        return _core.hip_device(torch.cuda.current_device())


@contextmanager
def current(tensor: torch.Tensor) -> Iterator[tuple[int, int]]:
    """Make the tensor's GPU the current one; give its index and its current stream."""
    if torch.version.hip is None:
        raise _core.HipError(
            f"tensors are on {tensor.device}, and this torch is not built for ROCm: specverify has kernels for AMD GPUs only"
        )
    index = tensor.device.index
    with torch.cuda.device(index):
        yield index, torch.cuda.current_stream(index).cuda_stream


def address(tensor: torch.Tensor | None) -> int:
    """Address of a tensor's first element, 0 for None."""
    return 0 if tensor is None else tensor.data_ptr()
