"""What rows of logits depend on, and how it reaches the host's code and the kernels."""

from typing import NamedTuple

import torch

from specverify import _core
from specverify.ops import check
from specverify.ops.device import Pointers, address

LOGITS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
"""Types that are read, by the names of their kernels."""

Bias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Offsets, ids, values."""


class Rows(NamedTuple):
    """The tensors, in the order in which operators take them."""

    requests: torch.Tensor
    positions: torch.Tensor
    seeds: torch.Tensor
    temperatures: torch.Tensor
    top_k: torch.Tensor | None
    top_p: torch.Tensor | None
    min_p: torch.Tensor | None
    bias_offsets: torch.Tensor | None
    bias_ids: torch.Tensor | None
    bias_values: torch.Tensor | None
    allowed: torch.Tensor | None

    @classmethod
    def checked(
        cls,
        logits: torch.Tensor,
        requests: torch.Tensor,
        positions: torch.Tensor,
        seeds: torch.Tensor,
        temperatures: torch.Tensor,
        top_k: torch.Tensor | None,
        top_p: torch.Tensor | None,
        min_p: torch.Tensor | None,
        bias: Bias | None,
        allowed: torch.Tensor | None,
    ) -> "Rows":
        """Refuse what does not fit together, by name."""
        check.dtype("logits", logits, list(LOGITS))
        check.shape("logits", logits, "[rows, V]", None, None)
        count, vocab = logits.shape
        if vocab == 0 or (vocab > 1 and logits.stride(1) != 1):
            raise _core.ShapeError(
                f"logits has shape {list(logits.shape)} with strides {list(logits.stride())}; expected contiguous rows"
            )
        check.ints("requests", requests, f"[{count}], one a row", count)
        check.ints("positions", positions, f"[{count}], one a row", count)
        check.dtype("seeds", seeds, [torch.int64])
        check.shape("seeds", seeds, "[requests]", None)
        check.contiguous("seeds", seeds)
        of = seeds.shape[0]
        for name, tensor, dtype in [
            ("temperatures", temperatures, torch.float32),
            ("top_k", top_k, torch.int32),
            ("top_p", top_p, torch.float32),
            ("min_p", min_p, torch.float32),
        ]:
            if tensor is not None:
                check.dtype(name, tensor, [dtype])
                check.shape(name, tensor, f"[{of}], one a request", of)
                check.contiguous(name, tensor)
        offsets, ids, values = bias if bias is not None else (None, None, None)
        if offsets is not None and ids is not None and values is not None:
            check.ints("bias[0]", offsets, f"[{of + 1}], requests + 1", of + 1)
            check.ints("bias[1]", ids, "[biased ids]", None)
            check.dtype("bias[2]", values, [torch.float32])
            check.shape("bias[2]", values, f"[{ids.shape[0]}], one a biased id", ids.shape[0])
            check.contiguous("bias[2]", values)
        if allowed is not None:
            words = (vocab + 31) // 32
            check.ints("allowed", allowed, f"[{of}, {words}], a bit for each id", of, words)
        rows = cls(requests, positions, seeds, temperatures, top_k, top_p, min_p, offsets, ids, values, allowed)
        names = {"bias_offsets": "bias[0]", "bias_ids": "bias[1]", "bias_values": "bias[2]"}
        check.one_device(logits=logits, **{names.get(name, name): one for name, one in rows._asdict().items()})
        return rows

    def host(self) -> dict[str, object]:
        """Give the arrays of tensors in host memory, flat."""
        arrays: dict[str, object] = {
            name: None if tensor is None else tensor.numpy().ravel() for name, tensor in self._asdict().items()
        }
        return {**arrays, "allowed_stride": 0 if self.allowed is None else self.allowed.shape[1]}

    def device(
        self, logits: torch.Tensor, units: int, *, totals: bool = False, raw: bool = False
    ) -> tuple[Pointers, list[torch.Tensor]]:
        """Give the kernels' arguments, and the tensors that must outlive the launch: the workspace.

        `totals`: the mass of every row is wanted; `raw`: that of the logits as they came.
        """
        count, vocab = logits.shape
        layout, sizes = _core.hip_rows_workspace(LOGITS[logits.dtype], count, vocab, units)
        cut = self.top_k is not None or self.top_p is not None or totals
        wanted = ["maxima", "part_maxima", "part_faults"]
        # A histogram of the masses is what top_p and totals need; it helps a great top_k.
        wanted += ["bin_masses", "bin_counts", "cuts"] * cut + ["raw_maxima", "raw_totals"] * raw
        workspace = {name: logits.new_empty(sizes[name], dtype=torch.uint8) for name in wanted}
        # 1 / T rounded once, as on the host; 0 says greedy.
        inverse = torch.where(self.temperatures > 0, 1 / self.temperatures, torch.zeros_like(self.temperatures))
        given = {name: address(tensor) for name, tensor in self._asdict().items() if name != "temperatures"}
        pointers: Pointers = {
            **layout,
            **given,
            **{name: address(tensor) for name, tensor in workspace.items()},
            "logits": address(logits),
            "inverse_temperatures": address(inverse),
            "row_stride": logits.stride(0),
            "allowed_stride": 0 if self.allowed is None else self.allowed.shape[1],
            "rows": count,
            "vocab": vocab,
            "totals": int(totals),
        }
        return pointers, [inverse, *workspace.values()]
