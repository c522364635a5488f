"""The check that a scheduled program computes what its definition says."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from autosched.ir.stmt import For, Function, Stmt, map_stmt, substitute_stmt
from autosched.lower.pipeline import lower_structure
from autosched.measure.guard import protect
from autosched.measure.verify import allowed_error, compare
from autosched.schedule.schedule import Schedule
from autosched.target import Target
from autosched.te.reference import reference
from autosched.te.rounding import roundings
from autosched.te.tensor import PlaceholderOp, Tensor

__all__ = ["backwards", "check_against_reference", "runner_of"]


def backwards(function: Function) -> Function:
    """The function with its parallel loops run from last to first, which must make no difference."""

    def turn(s: Stmt) -> Stmt:
        if not isinstance(s, For) or s.kind != "parallel":
            return s
        last = s.start + s.start + s.extent - 1
        return replace(s, body=substitute_stmt(s.body, {s.var: last - s.var}))

    return function.with_body(map_stmt(function.body, on_stmt=turn))


def check_against_reference(
    args: Sequence[Tensor],
    schedule: Schedule,
    target: Target | str,
    inputs: Sequence[np.ndarray],
    backend: Literal["native", "interpreter", "interpreter-backwards"] = "native",
    knobs: dict[str, int] | None = None,
    more: Sequence[Sequence[np.ndarray]] = (),
    *,
    at_end: bool = True,
    exact: bool = True,
) -> None:
    """Run a schedule on `inputs` (for the placeholders in `args`, in order) and compare with the oracle.

    `more` are further inputs for the same code, of other sizes where these are symbolic. Arguments end at a page
    that must not be touched, or begin at one unless `at_end`: who reads or writes past them dies of SIGSEGV.

    `native` compiles for the target; the interpreter also finds accesses out of bounds and reads of
    what was never written. Results must be equal bit for bit, but for signs that the language leaves open
    (`te.rounding`), so give inputs that make them exact; without `exact` they may differ by what measuring allows.
    Raises AssertionError, with the schedule as Python, where they differ.
    """
    to = Target.parse(target)
    left_open = roundings(args, contract=not to.strict, exact_division=to.kind != "opencl")
    function = lower_structure(schedule, args, to, "scheduled").bind(knobs)
    run = runner_of(function, to, backend)
    for given in (inputs, *more):
        expected = reference(args, given)
        left, wanted = iter(given), iter(expected)
        places = [_Fenced(next(wanted if not isinstance(t.op, PlaceholderOp) else left), at_end) for t in args]
        for t, place in zip(args, places, strict=True):
            if not isinstance(t.op, PlaceholderOp):
                place.poison()
        run([place.array for place in places])
        computed = [(t, place) for t, place in zip(args, places, strict=True) if not isinstance(t.op, PlaceholderOp)]
        for (t, place), right, rounding in zip(computed, expected, left_open, strict=True):
            allowed = (0.0, 0.0) if exact else allowed_error(right, None, None, rounding)
            if wrong := compare(place.array, right, *allowed, rounding=rounding):
                raise AssertionError(f"{t.name}: {wrong}\n{schedule.trace.as_python(knobs=knobs)}")
        if not all(place.is_intact() for place in places):
            raise AssertionError(f"memory around an argument was written\n{schedule.trace.as_python(knobs=knobs)}")


class _Fenced:
    """A copy of an array that ends, or begins, at a page that must not be touched.

    A read or write beyond that side ends the process. A write beyond the other one changes a pattern, up to the
    next page, which must not be touched either.
    """

    PATTERN = 0xA5

    def __init__(self, values: np.ndarray, at_end: bool) -> None:
        page = mmap.PAGESIZE
        pages = -(-values.nbytes // page) + 1
        self._memory = mmap.mmap(-1, (pages + 2) * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = np.frombuffer(self._memory, np.uint8)
        protect(whole.ctypes.data, page)
        protect(whole.ctypes.data + (pages + 1) * page, page)
        usable = whole[page : (pages + 1) * page]
        usable[:] = self.PATTERN
        start = usable.size - values.nbytes if at_end else 0
        self._margins = usable[:start], usable[start + values.nbytes :]
        self.array = usable[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
        self.array[...] = values

    def poison(self) -> None:
        """Values that stand out, so that an element that is not computed is seen."""
        self.array.reshape(-1).view(np.uint8)[:] = self.PATTERN if self.array.dtype != bool else 1

    def is_intact(self) -> bool:
        return all(bool((margin == self.PATTERN).all()) for margin in self._margins)


def runner_of(function: Function, target: Target, backend: str) -> Callable[[list[np.ndarray]], None]:
    """What runs a lowered function on arrays; compiled once, if at all."""
    if backend == "native":
        from autosched.codegen import compile_function
        from autosched.runtime import load

        kernel = load(compile_function(function, target), target)

        def run(arrays: list[np.ndarray]) -> None:
            call = kernel.bind(arrays)
            call.upload()
            call.run()
            call.fetch()

        return run
    from autosched.runtime.interpreter import interpret

    chosen = function if backend == "interpreter" else backwards(function)
    return lambda arrays: interpret(chosen, arrays)
