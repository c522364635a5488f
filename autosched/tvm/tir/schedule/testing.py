"""`tvm.tir.schedule.testing`: checks of schedules that tests make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autosched.schedule.schedule import replay
from autosched.schedule.trace import Trace
from autosched.tir.module import IRModule, PrimFunc
from autosched.tir.schedule import Schedule
from autosched.tvm._missing import missing
from autosched.tvm.ir.base import assert_structural_equal
from autosched.tvm.script.calls import StageTrace, TreeTrace


def assert_structural_equal_ignore_global_symbol(func1: Any, func2: Any, *args: Any, **kwargs: Any) -> None:
    """Raise ValueError unless two functions are alike, whatever they are called."""
    one, other = (f.with_attr("global_symbol", "main") for f in (func1, func2))
    assert_structural_equal(one, other, *args, **kwargs)


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc | IRModule | Mapping[str, Any],
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = ("python", "json"),
) -> Schedule:
    """Return a schedule of `mod` on which the stored trace of `sch` was replayed.

    Raises ValueError where that makes other loops, AssertionError where its trace is another one.
    """
    new = Schedule(mod, debug_mask=debug_mask)
    if isinstance(sch.trace, (TreeTrace, StageTrace)):  # of a function of statements
        sch.trace.apply_to_schedule(new)
        assert_structural_equal(new.mod, sch.mod)
        assert str(new.trace.as_python()) == sch.trace.as_python()
        return new
    functions = new._held._functions
    new.work_on(sch.func_working_on)
    trace = Trace.from_json(sch.trace.to_json())
    f = functions[new.func_working_on]
    functions[new.func_working_on] = replace(f, schedule=replay(trace, f.schedule.outputs))
    assert_structural_equal(new.mod, sch.mod)
    assert new.trace.as_python() == sch.trace.as_python()
    return new


__getattr__ = missing("tir.schedule.testing", globals())
