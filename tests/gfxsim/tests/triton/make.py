"""Compiles a matrix product with Triton for both architectures: independent evidence for the layouts of matrix instructions.

Run with Triton 3.7.1: ``AMDGCN_USE_BUFFER_OPS=0 python make.py``. The texts beside this file are its output, without debug sections.
"""

from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def product(a, b, c, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    """C[m, n] = A[m, k] B[k, n], all row-major."""
    rows, columns, inner = tl.arange(0, m), tl.arange(0, n), tl.arange(0, k)
    x = tl.load(a + rows[:, None] * k + inner[None, :])
    y = tl.load(b + inner[:, None] * n + columns[None, :])
    tl.store(c + rows[:, None] * n + columns[None, :], tl.dot(x, y))


for arch in ("gfx942", "gfx950"):
    for dtype in ("bf16", "fp16", "fp8e4b8" if arch == "gfx942" else "fp8e4nv"):
        for size in (16, 32):
            shape = {"m": size, "n": size, "k": 64}
            signature = {"a": f"*{dtype}", "b": f"*{dtype}", "c": "*fp32"} | dict.fromkeys(shape, "constexpr")
            options = {"num_warps": 1, "matrix_instr_nonkdim": size}
            source = ASTSource(fn=product, signature=signature, constexprs=shape)
            compiled = triton.compile(source, target=GPUTarget("hip", arch, 64), options=options)
            text = compiled.asm["amdgcn"]
            kept = [line for line in text.splitlines() if not line.strip().startswith((".file", ".loc", ".cfi"))]
            Path(f"product_{size}_{dtype}.{arch}.s").write_text("\n".join(kept) + "\n")
