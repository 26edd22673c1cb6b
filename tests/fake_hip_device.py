"""Tensors on a device that is the simulator, for scripts that run beside a fake libamdhip64 (its path is their first argument).

No torch here can hold a tensor on that device. So tensors stay in host memory, and whoever asks for their address gets that of
a copy on the device; everything between the operators' schemas and the launch runs as it would with ROCm.
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

hip = ctypes.CDLL(sys.argv[1])
TO_DEVICE, TO_HOST = 1, 2
# Of each storage the address of its copy.
copies: dict[int, int] = {}


def ask(code: int) -> None:
    assert code == 0, f"HIP error {code}"


class OnDevice(torch.Tensor):
    """A tensor with a copy on the device, made when its address is first asked for."""

    def data_ptr(self) -> int:
        storage = self.untyped_storage()
        if storage.nbytes() == 0:
            return 0
        host = storage.data_ptr()
        if host not in copies:
            address = ctypes.c_void_p()
            ask(hip.hipMalloc(ctypes.byref(address), ctypes.c_size_t(storage.nbytes())))
            ask(hip.hipMemcpy(address, ctypes.c_void_p(host), ctypes.c_size_t(storage.nbytes()), TO_DEVICE))
            copies[host] = address.value or 0
            keep.append(self)
        return copies[host] + self.storage_offset() * self.element_size()

    def back(self) -> torch.Tensor:
        """Fetch what the device has."""
        storage = self.untyped_storage()
        if storage.nbytes():
            self.data_ptr()
            source = ctypes.c_void_p(copies[storage.data_ptr()])
            ask(hip.hipMemcpy(ctypes.c_void_p(storage.data_ptr()), source, ctypes.c_size_t(storage.nbytes()), TO_HOST))
        return self.as_subclass(torch.Tensor)


# Storages whose addresses are keys above must not be freed and given to others.
keep: list[torch.Tensor] = []


@contextmanager
def current(tensor: torch.Tensor) -> Iterator[tuple[int, int]]:
    """The fake's one device and its default stream."""
    assert isinstance(tensor, OnDevice)
    yield 0, 0


def device(tensor: torch.Tensor) -> Any:
    return tensor.clone().as_subclass(OnDevice)
