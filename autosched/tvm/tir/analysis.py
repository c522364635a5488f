"""`tvm.tir.analysis`: properties of expressions and lowered functions."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from autosched.errors import UsageError
from autosched.ir.expr import Expr, variables
from autosched.ir.node import order
from autosched.ir.stmt import Allocate, Function, Launch, walk
from autosched.tvm._missing import missing
from autosched.tvm.tir.counting import calculate_workspace_bytes as calculate_workspace_bytes
from autosched.tvm.tir.counting import estimate_tir_flops as estimate_tir_flops

#: limits of `verify_gpu_code`, for each kernel
GPU_LIMITS = {
    "max_threads_per_block": "work-items of a work-group",
    "max_thread_x": "work-items along x",
    "max_thread_y": "work-items along y",
    "max_thread_z": "work-items along z",
    "max_shared_memory_per_block": "bytes of buffers of scope shared",
    "max_local_memory_per_block": "bytes of buffers of scope local",
    "max_kernels": "kernels of the function",
}


def expr_deep_equal(lhs: Expr, rhs: Expr) -> bool:
    """Return whether two expressions are alike: then they are the same object."""
    return lhs is rhs


def undefined_vars(node: Expr) -> list[Expr]:
    """Return the variables of an expression, in the order in which they were made."""
    return sorted(variables(node), key=order)


def verify_gpu_code(func: Function, constraints: Mapping[str, int]) -> bool:
    """Return whether each kernel of a completely lowered function is within these limits (see `GPU_LIMITS`).

    A number that depends on sizes is within none. Raises UsageError for an unknown limit, or without kernels.
    """
    unknown = [name for name in constraints if name not in GPU_LIMITS]
    if unknown:
        legal = "; ".join(f"{k}: {v}" for k, v in GPU_LIMITS.items())
        raise UsageError(f"no limit {unknown[0]!r}", asked="verify_gpu_code", legal=legal)
    kernels = [s for s in walk(func.body) if isinstance(s, Launch)]
    if not kernels:
        raise UsageError(
            f"{func.name} has no kernels",
            asked="verify_gpu_code",
            legal='what tvm.lower(s, args)["main"] gives for a schedule with bound loops, without simple_mode',
        )
    found = [_use(kernel) | {"max_kernels": len(kernels)} for kernel in kernels]
    return all(use[name] <= int(limit) for use in found for name, limit in constraints.items())


def _use(kernel: Launch) -> dict[str, float]:
    """The numbers that are limited; those that depend on sizes are infinite."""
    x, y, z = map(_number, kernel.block)
    buffers = [s.buffer for s in walk(kernel.body) if isinstance(s, Allocate)]

    def total(scope: str) -> float:
        return sum(_number(b.elements) * b.dtype.bytes for b in buffers if b.scope == scope)

    return {
        "max_threads_per_block": x * y * z,
        "max_thread_x": x,
        "max_thread_y": y,
        "max_thread_z": z,
        "max_shared_memory_per_block": total("shared"),
        "max_local_memory_per_block": total("local"),
    }


def _number(e: Expr) -> float:
    return int(e.value) if e.op == "const" else inf


_CHECKED = "tvm.lower and tvm.build check it, and raise what is wrong"
_INSTEAD = {
    **dict.fromkeys(("verify_memory", "verify_ssa", "verify_well_formed"), _CHECKED),
    "get_block_access_region": "te.schedule.InferBound(s)",
}
__getattr__ = missing("tir.analysis", globals(), _INSTEAD)
