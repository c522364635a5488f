"""`build`: from a workload or a schedule to a module that can be called. `planning` says which schedule it is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from autosched.codegen import compile_function
from autosched.effort import check_effort
from autosched.errors import AutoschedError, TargetError, UsageError, UsageTypeError, expect, is_list_of
from autosched.ir.expr import Expr
from autosched.ir.printer import checked_name, file_name
from autosched.ir.stmt import Buffer, Function
from autosched.lowering.pipeline import Structure, lower_structure
from autosched.planning import AS_ASKED, Plan, default_plan, pass_over, plans_to_try
from autosched.runtime.device import resolve_target, with_machine
from autosched.runtime.kernel import CompilerFailed, UnavailableKernel
from autosched.runtime.module import Module
from autosched.schedule.schedule import Schedule
from autosched.space.loading import find_workload
from autosched.space.space import SearchSpace
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import Target, TargetLike
from autosched.te.tensor import Tensor
from autosched.tir.module import PrimFunc

T = TypeVar("T")

#: The programs that can be compiled to one function.
Buildable = Workload | WorkloadFunction[...] | Schedule | PrimFunc | Function


def as_workload(what: T | WorkloadFunction[...] | str) -> T | Workload:
    """The workload itself; a workload function called with its defaults; or the same by name, such as `box_blur` or
    `file.py:function`. Raises WorkloadError for a name that nothing has."""
    if isinstance(what, str):
        what = find_workload(what)
    return what() if isinstance(what, WorkloadFunction) else what


def search_space(
    what: Workload | WorkloadFunction[...] | str,
    target: TargetLike = None,
    *,
    sizes: dict[str, int] | None = None,
    space: str = "",
    rules: Sequence[Any] = (),
) -> SearchSpace:
    """The space that `tune` searches on this machine: `.sketches` with their knobs, counts of points, traces.

    sizes, space, rules: as `tune` takes them

    Raises WorkloadError where there is no sketch.
    """
    workload = as_workload(what)
    expect(what, "a workload", hasattr(workload, "sizes_at"), "search_space")
    asked = workload.sizes_at(sizes)
    to = with_machine(workload.compiled_for(resolve_target(target)))
    found: SearchSpace = workload.search_space(to, asked, space, rules)
    return found


def build(
    what: Buildable | str | Mapping[str, Buildable | str],
    target: TargetLike = None,
    *,
    args: Sequence[Tensor] | None = None,
    name: str | None = None,
    records: str | None = None,
    sizes: dict[str, int] | None = None,
    binds: Mapping[Tensor, Buffer] | None = None,
    bounds_check: bool = False,
    specialize: bool = False,
    effort: str = "quick",
) -> Module:
    """Compile for a target. Call the result with NumPy arrays.

    what:    a workload or the name of one (its best record is applied), a schedule, a PrimFunc or a lowered function
             (built as it is), or several of them by name, such as an IRModule: one module with all
    args:    for a schedule, the tensors of the function in calling order; by default its inputs in
             order of first use, then its outputs
    records: a folder to read records from, instead of the usual ones
    sizes:   prefer records measured at sizes near these
    binds:   for a schedule, how tensors lie in memory: see `decl_buffer`
    specialize: for a workload, compile for these `sizes` alone, which are numbers then and tell nothing by shapes
    bounds_check: a call raises BoundsError where it reads outside of a tensor, and says which, at what
             index; on llvm and c, several times slower, for one function
    effort:  what is done for a workload: "quick" applies its best record, else what a model of this machine predicts;
             "none" takes the default schedule; "full" searches first, for a minute, where no search on this
             machine has found its schedule at these sizes

    A read outside of a tensor that certainly happens is refused here. Raises TargetError, DeviceError,
    ScheduleError, LowerError or BuildError. `module.provenance` says which record was applied, or that
    none was.
    """
    to = resolve_target(target)
    _check_options(args, binds, sizes, bounds_check, name)
    check_effort(effort, "build")
    if isinstance(what, str):
        what = as_workload(what)
    if (args is not None or binds is not None) and not isinstance(what, (Schedule, PrimFunc)):
        raise UsageError(
            f"a {type(what).__name__} has its arguments, and their layout",
            asked=f"build(.., {'binds' if args is None else 'args'}=..)",
            legal="a schedule, for which these are open",
        )
    if bounds_check:
        _can_check(what, to)
    if isinstance(what, Mapping):
        return _build_all(what, to, records, sizes, effort)
    if isinstance(what, Function):
        return _build_lowered(what if name is None else replace(what, name=name), to)
    if isinstance(what, (Schedule, PrimFunc)):
        return _told(_plan_schedule(what, to, args, name, binds).compile(bounds_check))
    if not isinstance(what, (Workload, WorkloadFunction)):
        raise UsageTypeError(f"{what!r} cannot be built", asked="build", legal="a workload or a schedule")
    w, numbers = as_workload(what), sizes if specialize else None
    if effort == "none":
        return _told(default_plan(w, to, name or w.name, AS_ASKED).at(numbers or {}).compile(bounds_check))
    return _first_that_builds(w, plans_to_try(w, to, records, sizes, name), bounds_check, numbers)


def _first_that_builds(
    w: Workload, plans: Iterator[Plan], bounds_check: bool, numbers: Mapping[str, int] | None
) -> Module:
    """The module of the first plan that can be built and is right; with `numbers` for sizes, those are no arguments."""
    last: AutoschedError | None = None
    for candidate in plans:
        try:
            module = candidate.compile(bounds_check)
            if candidate.provenance["kind"] != "default":
                _must_run(module)
            candidate.check(module, w)
            if not numbers:
                return _told(module)
            return _told(replace(candidate.at(numbers), provenance=module.provenance).compile(bounds_check))
        except AutoschedError as error:
            if candidate.provenance["kind"] == "default" or isinstance(error, TargetError):
                raise
            last = error
            pass_over(candidate.provenance["record"] or "of the model's choice", error)
    raise last or UsageError("nothing to build", asked="build")


def _must_run(module: Module) -> None:
    """Raise CompilerFailed for a program that the C compiler of this machine cannot make code of, or takes too long."""
    if isinstance(module.kernel, UnavailableKernel) and isinstance(module.kernel.error, CompilerFailed):
        raise module.kernel.error.with_traceback(None)


def _told(module: Module) -> Module:
    """The module, after a warning if only its source is of use, which a call would say otherwise."""
    try:
        _must_run(module)
    except CompilerFailed as error:
        warnings.warn(f"{module.name} is built as source alone: {error}", RuntimeWarning, stacklevel=4)
    return module


def _check_options(args: object, binds: object, sizes: object, bounds_check: object, name: object) -> None:
    """Raise UsageTypeError for options of the wrong type, UsageError for what cannot be the name of a function."""
    if name is not None:
        checked_name(name, "build(.., name=..)", in_files=True)
    expect(args, "a list of tensors", args is None or is_list_of(args, (Tensor, Expr)), "build(.., args=..)")
    for name, given in (("binds", binds), ("sizes", sizes)):
        expect(given, "a dictionary", given is None or isinstance(given, Mapping), f"build(.., {name}=..)")
    expect(bounds_check, "True or False", isinstance(bounds_check, bool), "build(.., bounds_check=..)")


def _can_check(what: object, to: Target) -> None:
    """Raise UsageError for what `bounds_check` is not for."""
    asked, legal = "build(.., bounds_check=True)", ""
    if to.is_gpu_style:
        why = f"code for {to.kind} does not look at its indices"
        legal = f"autosched.sanitize(.., target={to.kind!r}), which runs it on the interpreter; or target llvm or c"
    elif isinstance(what, (Mapping, Function)):
        why, legal = f"a {type(what).__name__} is built as it is", "a workload or a schedule"
    if legal:
        raise UsageError(why, asked=asked, legal=legal)


def _build_all(
    what: Mapping[str, Buildable | str], to: Target, records: str | None, sizes: dict[str, int] | None, effort: str
) -> Module:
    """One module whose functions have these names."""
    if not what:
        raise UsageTypeError("there is no function in it", asked="build", legal="at least one")
    parts = [
        build(one, to, name=str(called), records=records, sizes=sizes, effort=effort) for called, one in what.items()
    ]
    first = parts[0]
    return Module(first.artifact, to, provenance=first.provenance, more=parts[1:], kernel=first.kernel)


def _build_lowered(f: Function, to: Target) -> Module:
    """A function that `lower` returned, before or after the passes."""
    made_for = Target(f.attrs["target"]) if "target" in f.attrs else to
    if made_for.kind != to.kind:
        raise UsageError(
            f"it was lowered for {made_for.kind}",
            asked=f"build({f.name}, {str(to)!r})",
            legal="tvm.lower with simple_mode=True, or inside `with Target(...)`",
        )
    done = f if "target" in f.attrs else Structure(f, to, (), ()).bind()
    note = {"kind": "schedule", "record": None, "note": "a lowered function"}
    return Module(compile_function(done, to), to, provenance=note)


def plan(
    what: Workload | WorkloadFunction[...] | Schedule | PrimFunc | str,
    target: TargetLike = None,
    *,
    args: Sequence[Tensor] | None = None,
    name: str | None = None,
    records: str | None = None,
    sizes: dict[str, int] | None = None,
    binds: Mapping[Tensor, Buffer] | None = None,
) -> Plan:
    """The program that `build` would compile first: its schedule, knobs and loops. Compiles nothing."""
    to = resolve_target(target)
    _check_options(args, binds, sizes, False, name)
    is_one = isinstance(what, (Workload, WorkloadFunction, Schedule, PrimFunc, str))
    expect(what, "a workload or a schedule", is_one, "plan")
    if isinstance(what, (Schedule, PrimFunc)):
        return _plan_schedule(what, to, args, name, binds)
    return next(plans_to_try(as_workload(what), to, records, sizes, name))


def _plan_schedule(
    s: Schedule | PrimFunc,
    target: Target,
    args: Sequence[Tensor] | None,
    name: str | None,
    binds: Mapping[Tensor, Buffer] | None,
) -> Plan:
    if isinstance(s, PrimFunc):
        inside = s.closed.schedule if args is None else s.schedule
        return _plan_schedule(inside, target, s.args if args is None else args, name or s.name, binds)
    chosen = tuple(args) if args is not None else s.arguments
    if s.knobs:
        raise UsageError(
            f"the schedule has open knobs: {', '.join(s.knobs)}", asked="build", legal="tune it, or use numbers"
        )
    called = name or file_name(s.outputs[0].name)
    structure = lower_structure(s, chosen, target, called, binds)
    return Plan(called, chosen, s, {}, structure, target, {"kind": "schedule", "record": None, "note": "hand-made"})
