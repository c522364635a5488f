"""`tvm.tir.analysis`: questions about expressions and lowered functions."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.errors import UsageError
from autosched.ir.expr import Expr, variables
from autosched.ir.node import order
from autosched.ir.stmt import Allocate, Function, Launch, walk
from autosched.tvm._missing import missing

__all__ = ["GPU_LIMITS", "expr_deep_equal", "undefined_vars", "verify_gpu_code"]

#: what `verify_gpu_code` can be asked to hold, for each kernel
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
    """Whether two expressions are alike: then they are the same object."""
    return lhs is rhs


def undefined_vars(node: Expr) -> list[Expr]:
    """The variables of an expression, in the order in which they were made."""
    return sorted(variables(node), key=order)


def verify_gpu_code(func: Function, constraints: Mapping[str, int]) -> bool:
    """Whether each kernel of a function that is lowered to the end is within these limits.

    A number that depends on sizes is within none. Raises UsageError for a limit that there is not, or a
    function without kernels. See `GPU_LIMITS`.
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
    return all(_within(use[name], limit) for use in found for name, limit in constraints.items())


def _within(value: int | None, limit: int) -> bool:
    return value is not None and value <= int(limit)


def _use(kernel: Launch) -> dict[str, int | None]:
    x, y, z = (int(e.value) if e.op == "const" else None for e in kernel.block)
    threads = None if x is None or y is None or z is None else x * y * z
    buffers = [s.buffer for s in walk(kernel.body) if isinstance(s, Allocate)]

    def total(scope: str) -> int | None:
        lengths = [(b.elements, b.dtype.bytes) for b in buffers if b.scope == scope]
        if any(e.op != "const" for e, _ in lengths):
            return None
        return sum(int(e.value) * size for e, size in lengths)

    return {
        "max_threads_per_block": threads,
        "max_thread_x": x,
        "max_thread_y": y,
        "max_thread_z": z,
        "max_shared_memory_per_block": total("shared"),
        "max_local_memory_per_block": total("local"),
    }


_CHECKED = "tvm.lower and tvm.build check it, and raise what is wrong"
_INSTEAD = {
    **dict.fromkeys(("verify_memory", "verify_ssa", "verify_well_formed"), _CHECKED),
    "calculate_workspace_bytes": "f.body: the buffers of tir.Allocate",
    "get_block_access_region": "te.schedule.InferBound(s)",
}
__getattr__ = missing("tir.analysis", globals(), _INSTEAD)
