"""`tvm.lower` and `tvm.build`, with TVM's signatures, on the one pipeline.

A schedule that binds loops to `blockIdx` or `threadIdx` is lowered for OpenCL, any other for the CPU,
unless `with tvm.target.Target(...)` says so: TVM's `lower` has no target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autosched.building import build as build_schedule
from autosched.errors import UsageError
from autosched.ir.stmt import THREAD_TAGS, Buffer, Function
from autosched.lower.pipeline import Lowered, Structure, lower_structure
from autosched.runtime.device import resolve_target
from autosched.schedule.schedule import Schedule
from autosched.target import Target
from autosched.te.tensor import Tensor
from autosched.tir.module import IRModule, module_of
from autosched.tir.prim_func import PrimFunc
from autosched.tvm.passes import PassContext

if TYPE_CHECKING:
    from autosched.runtime.module import Module

__all__ = ["build", "lower"]


def lower(
    inp: Any,
    args: Sequence[Any] | None = None,
    name: str = "main",
    binds: Mapping[Tensor, Any] | None = None,
    simple_mode: bool = False,
) -> IRModule:
    """The loops of a schedule, in a module that prints as TVMScript.

    With `simple_mode`, as the schedule says them: every element by its indices, nothing partitioned,
    vectorized or unrolled yet. Otherwise after all passes; then the passes of users, too, have run
    (see `PassContext`). Raises ScheduleError or LowerError.
    """
    if isinstance(inp, (IRModule, Function, PrimFunc)):
        module = inp if isinstance(inp, IRModule) else IRModule({inp.name: inp})
        loops = {k: _loops(f, k) for k, f in module.items()}
        return IRModule(loops if simple_mode else {k: _finish(f, _target_of(f)) for k, f in loops.items()})
    s, tensors = _schedule_of(inp, args, binds)
    structure = lower_structure(s, tensors, _target_for(s), name, binds)
    if simple_mode and not PassContext.current().option("tir.add_lower_pass"):
        return module_of(Lowered(structure))
    return IRModule({name: _finish(module_of(Lowered(structure))[name], structure.target)})


def build(
    inputs: Any,
    args: Sequence[Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    runtime: Any = None,
    name: str = "default_function",
    binds: Mapping[Tensor, Any] | None = None,
) -> Module:
    """Compile a schedule, or what `lower` returned, for a target (the current one, or the CPU).

    Call the result with all arguments, outputs too: they are filled. `target_host` and `runtime` are
    not looked at: what runs on the CPU is compiled by LLVM. Raises TargetError, LowerError, BuildError.
    """
    if isinstance(inputs, dict) and len(inputs) == 1 and target is None:
        ((target, inputs),) = inputs.items()  # {target: module}
    to = resolve_target(target if target is not None else _current_target() or "llvm")
    if isinstance(inputs, (IRModule, Function, PrimFunc)):
        return build_schedule(inputs, to)
    s, tensors = _schedule_of(inputs, args, binds)
    return build_schedule(s, to, args=tensors, name=name, binds=binds)


def _schedule_of(
    inp: Any, args: Sequence[Any] | None, binds: Mapping[Tensor, Any] | None
) -> tuple[Schedule, Sequence[Any]]:
    """The schedule, and its arguments, where a buffer stands for the tensor that is bound to it."""
    if not isinstance(inp, Schedule):
        raise UsageError(
            f"{inp!r} is not a program", asked="tvm.lower or tvm.build", legal="a Schedule, a PrimFunc or an IRModule"
        )
    if args is None:
        raise UsageError(
            "a schedule needs the list of its arguments", asked="args=None", legal="the tensors, inputs and outputs"
        )
    if not isinstance(args, (list, tuple)):
        raise UsageError(
            f"{args!r} is no list", asked=f"args={args!r}", legal="a list of the tensors, inputs and outputs: [A, B]"
        )
    tensor_of = {buffer: tensor for tensor, buffer in (binds or {}).items()}
    return inp, [tensor_of.get(a, a) if isinstance(a, Buffer) else a for a in args]


def _loops(f: Function | PrimFunc, name: str) -> Function:
    """A function of blocks as loops; others as they are."""
    if isinstance(f, Function):
        return f
    return module_of(Lowered(lower_structure(f.schedule, f.args, _target_for(f.schedule), name)))[name]


def _current_target() -> Target | None:
    return Target.current(allow_none=True)


def _target_for(s: Schedule) -> Target:
    bound = any(loop.thread in THREAD_TAGS for stage in s.stages for loop in stage.loops)
    return _current_target() or Target("opencl" if bound else "llvm")


def _target_of(f: Function) -> Target:
    from autosched.ir.stmt import For, walk

    bound = any(isinstance(x, For) and x.thread in THREAD_TAGS for x in walk(f.body))
    return _current_target() or Target("opencl" if bound else "llvm")


def _finish(f: Function, target: Target) -> Function:
    """All passes; the function says for which target, so that they do not run again."""
    if "target" in f.attrs:
        return f
    done = Structure(f, target, (), ()).bind()
    return replace(done, attrs={**done.attrs, "target": str(target)})
