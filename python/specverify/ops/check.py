"""What the operators ask of their tensors, whatever the device."""

from collections.abc import Sequence

import torch

from specverify import _core


def dtype(name: str, tensor: torch.Tensor, allowed: Sequence[torch.dtype]) -> None:
    """Refuse an element type that is not read."""
    if tensor.dtype not in allowed:
        names = [str(one).removeprefix("torch.") for one in allowed]
        wanted = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
        raise _core.DtypeError(f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}; expected {wanted}")


def shape(name: str, tensor: torch.Tensor, expected: str, *sizes: int | None) -> None:
    """Refuse another number of dimensions or other sizes; None stands for any size."""
    fits = tensor.dim() == len(sizes) and all(
        size is None or found == size for found, size in zip(tensor.shape, sizes, strict=True)
    )
    if not fits:
        raise _core.ShapeError(f"{name} has shape {list(tensor.shape)}; expected {expected}")


def ints(name: str, tensor: torch.Tensor, expected: str, *sizes: int | None) -> None:
    """Refuse what is not a contiguous int32 tensor of that shape."""
    dtype(name, tensor, [torch.int32])
    shape(name, tensor, expected, *sizes)
    contiguous(name, tensor)


def contiguous(name: str, tensor: torch.Tensor) -> None:
    """Refuse what is not contiguous."""
    if not tensor.is_contiguous():
        raise _core.ShapeError(
            f"{name} has shape {list(tensor.shape)} with strides {list(tensor.stride())}; expected a contiguous tensor"
        )


def one_device(**tensors: torch.Tensor | None) -> None:
    """Refuse tensors on different devices."""
    places = {name: tensor.device for name, tensor in tensors.items() if tensor is not None}
    first, place = next(iter(places.items()))
    for name, other in places.items():
        if other != place:
            raise _core.ArgumentError(f"{name} is on {other}; expected {place}, where {first} is")


def at_least(name: str, value: int, least: int) -> None:
    """Refuse a number below `least`."""
    if value < least:
        raise _core.ArgumentError(f"{name} is {value}; expected {least} or more")
