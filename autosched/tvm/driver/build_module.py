"""`tvm.lower` and `tvm.build`, with TVM's signatures, on the one pipeline.

A schedule that binds loops to `blockIdx` or `threadIdx` is lowered for OpenCL, any other for the CPU,
unless `with tvm.target.Target(...)` says so: TVM's `lower` has no target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from autosched.building import build as build_schedule
from autosched.errors import UsageError
from autosched.ir.attached import attach
from autosched.ir.stmt import THREAD_TAGS, Buffer, For, Function, Launch, Produce, Seq, map_stmt, seq, walk
from autosched.lowering.pipeline import Lowered, Structure, lower_structure
from autosched.runtime.callbacks import registered_later
from autosched.runtime.device import resolve_target
from autosched.runtime.module import Module
from autosched.schedule.schedule import Schedule
from autosched.target import Target
from autosched.te.tensor import Tensor
from autosched.tir.module import IRModule, PrimFunc, module_of
from autosched.tvm.attributes import follow_loops, of_tvm
from autosched.tvm.clamping import clamped
from autosched.tvm.scopes import shared
from autosched.tvm.transform import PassContext
from autosched.tvm.unread import guarded


def lower(
    inp: Any,
    args: Sequence[Any] | None = None,
    name: str = "main",
    binds: Mapping[Tensor, Any] | None = None,
    simple_mode: bool = False,
) -> IRModule:
    """Lower a schedule to loops, in a module that prints as TVMScript.

    With `simple_mode`, the loops are those of the schedule: every element by its indices, nothing partitioned,
    vectorized or unrolled yet. Otherwise all passes have run, also those of users (see `PassContext`). Inputs that are
    not among the arguments follow them, and so do outputs if none of them is. The functions of a module keep their
    names; a single one is called `name`. Raises ScheduleError or LowerError.
    """
    if isinstance(inp, (IRModule, Function, PrimFunc)):
        module = inp if isinstance(inp, IRModule) else IRModule({name: inp})
        loops = {k: f if isinstance(f, Function) else _lowered(f.closed.schedule, f.args, k) for k, f in module.items()}
        made = loops if simple_mode else {k: _finish(f, _target_for(f)) for k, f in loops.items()}
        return IRModule({k: _without_labels(f) for k, f in made.items()})
    s, tensors = _schedule_of(inp, args, binds)
    f = _lowered(s, _completed(s, tensors, with_inputs=True), name, _fitting(s, binds))
    is_done = simple_mode and not PassContext.current().option("tir.add_lower_pass")
    return IRModule({name: _without_labels(f if is_done else _finish(f, _target_for(s)))})


def _without_labels(f: Function) -> Function:
    """The function with loops directly in its body, as in TVM. Where stages share memory of a group, labels say where
    barriers go."""
    if any((isinstance(s, For) and s.thread) or isinstance(s, Launch) for s in walk(f.body)):
        return f
    if not any(isinstance(s, Produce) for s in walk(f.body)):
        return f
    body = map_stmt(
        f.body, on_stmt=lambda s: s.body if isinstance(s, Produce) else seq(*s.stmts) if isinstance(s, Seq) else s
    )
    made = replace(f, body=body)
    if f in _before:
        _before[made] = _before[f]
    return made


def build(
    inputs: Any,
    args: Sequence[Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    runtime: Any = None,
    name: str = "default_function",
    binds: Mapping[Tensor, Any] | None = None,
) -> Module:
    """Compile a schedule, or a result of `lower`, or several, for a target (the current one, or the CPU).

    Call the result with all arguments, outputs too: they are filled. If no output is among the arguments, all follow
    them, and a call may leave them out, and returns them. `target_host` and `runtime` change nothing: LLVM compiles the
    host's code. Python functions that it calls may be registered later. Raises TargetError, LowerError, BuildError.
    """
    if isinstance(inputs, dict) and len(inputs) == 1 and target is None:
        ((target, inputs),) = inputs.items()  # {target: module}
    to = resolve_target(target if target is not None else Target.current(allow_none=True) or "llvm")
    if isinstance(inputs, (list, tuple)) and inputs and all(isinstance(m, IRModule) for m in inputs):
        inputs = _together(inputs)
    if isinstance(inputs, IRModule):
        inputs = IRModule({name: _for_target(f, to) for name, f in inputs.items()}, inputs.attrs)
    with registered_later():
        if isinstance(inputs, (IRModule, Function, PrimFunc)):
            return build_schedule(_for_target(inputs, to), to)
        s, tensors = _schedule_of(inputs, args, binds)
        return build_schedule(s, to, args=_completed(s, tensors), name=name, binds=_fitting(s, binds))


def _together(modules: Sequence[IRModule]) -> IRModule:
    """The functions of several modules as one. Raises UsageError for two of one name."""
    names = [name for m in modules for name, _ in m.items()]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        asked = f"tvm.build of {len(modules)} modules"
        raise UsageError(f"two functions are called {twice}", asked=asked, legal="tvm.lower(s, args, name=...)")
    return IRModule({name: f for m in modules for name, f in m.items()}, modules[0].attrs)


def schedule_to_module(
    sch: Schedule, args: Sequence[Any] | None = None, name: str = "main", binds: Mapping[Tensor, Any] | None = None
) -> IRModule:
    """The loops of a schedule before any pass, in a module. Raises ScheduleError or LowerError."""
    s, tensors = _schedule_of(sch, args, binds)
    return IRModule({name: _lowered(s, _completed(s, tensors, with_inputs=True), name, _fitting(s, binds))})


def _fitting(s: Schedule, binds: Mapping[Tensor, Any] | None) -> dict[Tensor, Any] | None:
    """The buffers of a schedule's tensors: where one says how long a tensor is whose length is a size, that is left to
    each call."""

    def fits(b: Buffer, t: Tensor) -> bool:
        pairs = zip(b.shape, t.shape, strict=True)
        return all(x is y or (x.op == "const" and y.op != "const") for x, y in pairs)

    def fitting(t: Tensor, b: Any) -> Any:
        is_open = isinstance(b, Buffer) and len(b.shape) == t.ndim and fits(b, t)
        return replace(b, shape=t.shape) if is_open else b

    return None if binds is None else {t: fitting(t, b) for t, b in binds.items() if t in s}


def _completed(s: Schedule, args: Sequence[Any], with_inputs: bool = False) -> list[Any]:
    """The arguments, and behind them the outputs (and inputs) that are missing; without states of scans."""
    tensors = {t for a in args if isinstance(a, Tensor) for t in a.op.outputs}
    missing = [t for t in s.arguments if t not in tensors and (with_inputs or t in s.outputs)]
    states = {t for t in tensors if with_inputs and s.scans.part_of(t) == "state"}
    return [*(a for a in args if not (isinstance(a, Tensor) and a in states)), *missing]


def _schedule_of(
    inp: Any, args: Sequence[Any] | None, binds: Mapping[Tensor, Any] | None
) -> tuple[Schedule, Sequence[Any]]:
    """The schedule, and its arguments, where a buffer stands for the tensor that is bound to it."""
    legal = "a list of the tensors, inputs and outputs: [A, B]"
    if not isinstance(inp, Schedule):
        legal = "a Schedule, a PrimFunc or an IRModule"
        raise UsageError(f"{inp!r} is not a program", asked="tvm.lower or tvm.build", legal=legal)
    if args is None:
        raise UsageError("a schedule needs the list of its arguments", asked="args=None", legal=legal)
    if not isinstance(args, (list, tuple)):
        raise UsageError(f"{args!r} is no list", asked=f"args={args!r}", legal=legal)
    follow_loops(inp)
    tensor_of = {buffer: tensor for tensor, buffer in (binds or {}).items()}
    given = [tensor_of.get(a, a) if isinstance(a, Buffer) else a for a in args]
    s = _with_outputs(shared(clamped(inp)), given)
    return (guarded(s) if inp in of_tvm and not s.knobs else s), given


def _with_outputs(s: Schedule, args: Sequence[Any]) -> Schedule:
    """The schedule, or a copy whose outputs are those among the arguments: in TVM, others are intermediates then."""
    ops = {a.op for a in args if isinstance(a, Tensor)}
    kept = tuple(t for t in s.outputs if t.op in ops)
    if not kept or len(kept) == len(s.outputs):
        return s
    made = deepcopy(s)
    made.outputs = kept
    for stage in {made[t] for t in s.outputs} - {made[t] for t in kept}:
        stage.is_output = False
    return made


def _lowered(s: Schedule, args: Sequence[Any], name: str, binds: Mapping[Tensor, Any] | None = None) -> Function:
    """The loops of a schedule before any pass."""
    found: Function = module_of(Lowered(lower_structure(s, args, _target_for(s), name, binds)))[name]
    return found


def _target_for(what: Schedule | Function) -> Target:
    """The current target; without one, OpenCL where a loop is bound to work-items."""
    if isinstance(what, Schedule):
        threads = {loop.thread for stage in what.stages for loop in stage.loops}
    else:
        threads = {x.thread for x in walk(what.body) if isinstance(x, For)}
    return Target.current(allow_none=True) or Target("opencl" if threads & set(THREAD_TAGS) else "llvm")


def _finish(f: Function, target: Target) -> Function:
    """Run all passes. The function then names its target, so that they do not run again."""
    if "target" in f.attrs:
        return f
    done = Structure(f, target, (), ()).bind()
    done = replace(done, attrs={**done.attrs, "target": str(target)})
    if Target.current(allow_none=True) is None and not PassContext.current().option("tir.add_lower_pass"):
        _before[done] = f
    return done


attach(PrimFunc, body=property(lambda f: _lowered(f.closed.schedule, f.args, f.name).body))

#: a function after all built-in passes, and no others, for a target that nobody named -> the same before them
_before: WeakKeyDictionary[Function, Function] = WeakKeyDictionary()


def _for_target(f: Any, to: Target) -> Any:
    """A function that was lowered for another kind of target, as it was before: `lower` is told of none in TVM. Of a
    function of blocks, storage that several threads of a group compute is shared among them."""
    if isinstance(f, PrimFunc):
        return replace(f, schedule=shared(f.schedule, of_blocks=True))
    if not isinstance(f, Function) or Target(f.attrs.get("target", to)).kind == to.kind:
        return f
    return _before.get(f, f)
