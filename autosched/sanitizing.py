"""`sanitize`: run what `build` would compile on the interpreter, and list what is wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autosched.building import plan
from autosched.codegen import compile_function
from autosched.codegen.signature import Signature, evaluate_dim
from autosched.errors import BuildError, expect
from autosched.ir.stmt import Function
from autosched.lowering import Lowered
from autosched.runtime.device import resolve_target
from autosched.runtime.interpreter import sanitize as sanitize_function
from autosched.runtime.shadow import Finding
from autosched.schedule.schedule import Schedule
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import Target
from autosched.te.tensor import Tensor

__all__ = ["Finding", "sanitize"]


def sanitize(
    what: Workload | WorkloadFunction[...] | Schedule | Lowered | Function,
    *inputs: np.ndarray,
    target: str | Target = "llvm",
    args: Sequence[Tensor] | None = None,
) -> tuple[Finding, ...]:
    """The defects that a program shows on these inputs: an empty tuple if it shows none.

    what:   a workload (with the schedule that `build` takes), a schedule, `lower(...)`, or a function
            that is lowered already
    inputs: one array for each input, in calling order, small: the interpreter runs a few 100,000
            operations per second. Races are seen where values differ, so give random ones
    args:   for a schedule, the tensors of the function in calling order

        for finding in autosched.sanitize(s, image, target="opencl"):
            print(finding)

    Finds accesses out of bounds, reads of what was never written, races between iterations of parallel
    loops and between work-items, divergent barriers, divisions by zero in indices, and indices that
    leave their type: 64 bits, or 32 where an OpenCL program would compute them in 32 bits at these
    sizes. Raises what `build` raises for a program that cannot be lowered, and BuildError for inputs
    that do not fit.
    """
    to = resolve_target(target)
    if isinstance(what, Lowered):
        function, to = what.structure.bind(), what.structure.target
    elif isinstance(what, Function):
        function = what
    else:
        is_one = isinstance(what, (Workload, WorkloadFunction, Schedule))
        expect(what, "a workload, a schedule, or what lower returns", is_one, "sanitize")
        function = plan(what, to, args=args).lowered()
    signature = Signature.of(function)
    if len(inputs) != len(signature.inputs):
        raise BuildError(
            f"takes {len(signature.inputs)} arrays, got {len(inputs)}",
            asked=f"sanitize({signature.name})",
            legal=f"one for each input: {', '.join(map(str, signature.inputs)) or 'none'}",
        )
    left = iter(inputs)
    given = [None if p.is_output else np.asarray(next(left), p.dtype) for p in signature.params]
    sizes = signature.resolve(given)
    arrays = [
        np.zeros(p.shape_for(sizes), p.dtype) if a is None else a for p, a in zip(signature.params, given, strict=True)
    ]
    return sanitize_function(function, arrays, index_bits(function, to, sizes))


def index_bits(function: Function, target: Target, sizes: dict[str, int]) -> int:
    """The width in which the code generator computes indices at these sizes."""
    if target.kind != "opencl":
        return 64
    bound = compile_function(function, target).meta["index_bound"]
    return 32 if evaluate_dim(bound, sizes) < 2**31 else 64
