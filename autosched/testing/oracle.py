"""The check that a scheduled program computes what its definition says."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided

from autosched.codegen import compile_function
from autosched.codegen.storage import ALIGNMENT
from autosched.ir.stmt import For, Function, Stmt, map_stmt, substitute_stmt
from autosched.lowering.pipeline import lower_structure
from autosched.measure.verify import allowed_error, compare, protect
from autosched.runtime import load
from autosched.runtime.interpreter import interpret
from autosched.runtime.jit import WORKSPACE
from autosched.schedule.schedule import Schedule
from autosched.target import Target
from autosched.te.reference import reference
from autosched.te.rounding import roundings
from autosched.te.tensor import Graph, PlaceholderOp, Tensor
from autosched.testing.layouts import Layout


def backwards(function: Function) -> Function:
    """The function with its parallel loops reversed, which must make no difference."""

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
    layouts: Mapping[str, Layout] | None = None,
    passed: Sequence[Tensor] = (),
) -> None:
    """Run a schedule on `inputs` (for the placeholders in `args`, in order) and compare with the oracle.

    backend: `native` compiles for the target; the interpreter also finds accesses out of bounds and reads of elements
             that were never written
    more:    further inputs for the same code, of other sizes where these are symbolic
    at_end:  arguments end at a page that must not be touched, otherwise they begin at one: who reads or writes past
             them dies of SIGSEGV
    exact:   results equal the reference bit for bit, but for signs that the language leaves open (`te.rounding`): give
             inputs that make them exact. Otherwise they may differ by what measuring allows
    layouts: name of a tensor -> its layout in memory (`binds`)
    passed:  intermediates that are arguments, too: what is stored of them has to be right

    Raises AssertionError, with the schedule as Python, where they differ.
    """
    to = Target.parse(target)
    declared, everything = dict(layouts or {}), [*args, *passed]
    left_open = roundings(everything, contract=not to.strict, exact_division=to.kind != "opencl")
    binds = {t: declared[t.name].buffer(t) for op in Graph.of(args).ops for t in op.outputs if t.name in declared}
    function = lower_structure(schedule, everything, to, "scheduled", binds or None).bind(knobs)
    if backend != "native":  # at a loop, only what is read is computed
        partial = {k for k, t in enumerate(everything) if t in passed and schedule[t].attach.kind == "at"}
        function = replace(function, outputs=tuple(k for k in function.outputs if k not in partial))
    run = runner_of(function, to, backend, at_end)
    said = schedule.trace.as_python(knobs=knobs)
    inputs_of = [t for t in args if isinstance(t.op, PlaceholderOp)]
    computed = [t for t in everything if t not in inputs_of]
    for each in (inputs, *more):
        given = [declared[t.name].given(x) if t.name in declared else x for t, x in zip(inputs_of, each, strict=True)]
        values = dict(zip(inputs_of, given, strict=True))
        values |= zip(computed, reference(everything, given), strict=True)
        places = {t: Fenced(values[t], at_end, declared.get(t.name)) for t in everything}
        for t in computed:
            places[t].poison()
        run([places[t].argument for t in everything])
        for t, rounding in zip(computed, left_open, strict=True):
            found = places[t].written_over(values[t]) if t in passed else np.ascontiguousarray(places[t].array)
            allowed = (0.0, 0.0) if exact else allowed_error(values[t], None, None, rounding)
            if wrong := compare(found.reshape(values[t].shape), values[t], *allowed, rounding=rounding):
                raise AssertionError(f"{t.name}: {wrong}\n{said}")
        if not all(place.is_intact() for place in places.values()):
            raise AssertionError(f"memory around an argument was written\n{said}")


class Fenced:
    """A copy of an array that ends, or begins, at a page that must not be touched.

    A read or write beyond that side ends the process. A write beyond the other side, or between elements, changes a
    pattern, which reaches to the next page that must not be touched.
    """

    PATTERN = 0xA5

    def __init__(self, values: np.ndarray, at_end: bool, layout: Layout | None = None) -> None:
        values = np.ascontiguousarray(values).reshape(values.shape)
        steps = () if layout is None else layout.strides(values.shape)
        strides = values.strides if layout is None else tuple(step * values.itemsize for step in steps)
        shape: tuple[int, ...] = values.shape
        reach = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + values.itemsize
        size, page = reach if values.size else 0, mmap.PAGESIZE
        pages = -(-size // page) + 1
        self._memory = mmap.mmap(-1, (pages + 2) * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = np.frombuffer(self._memory, np.uint8)
        protect(whole.ctypes.data, page)
        protect(whole.ctypes.data + (pages + 1) * page, page)
        self._usable = whole[page : (pages + 1) * page]
        self._usable[:] = self.PATTERN
        start = self._usable.size - size if at_end else 0
        self.array = as_strided(self._usable[start : start + size].view(values.dtype), values.shape, strides)
        self.array[...] = values
        self._outside = np.ones(self._usable.size, bool)
        elements = as_strided(self._outside[start : start + size], (*values.shape, values.itemsize), (*strides, 1))
        elements[...] = False
        self.argument = self.array if layout is None else layout.passed(self.array)

    def poison(self) -> None:
        """Fill the array with the pattern, which shows elements that are not computed."""
        self.array[...] = self._poisonous()

    def _poisonous(self) -> np.ndarray:
        bits = np.full(self.array.itemsize, self.PATTERN, np.uint8)
        return bits.view(self.array.dtype) if self.array.dtype != bool else np.ones(1, bool)

    def written_over(self, values: np.ndarray) -> np.ndarray:
        """`values`, overwritten by the elements that no longer have the pattern."""
        bits = f"u{self.array.itemsize}"
        return np.where(self.array.view(bits) == self._poisonous().view(bits), values, self.array)

    def is_intact(self) -> bool:
        return bool((self._usable[self._outside] == self.PATTERN).all())


def runner_of(
    function: Function, target: Target, backend: str, at_end: bool = True
) -> Callable[[list[np.ndarray]], None]:
    """A function that runs a lowered one on arrays; it is compiled once, if at all.

    On a CPU, the memory of intermediates also ends at a page that must not be touched, or begins at one, and is filled
    with the pattern.
    """
    if backend == "native":
        kernel = load(compile_function(function, target), target)

        def run(arrays: list[np.ndarray]) -> None:
            call = kernel.bind(arrays)
            call.upload()
            size = -(-getattr(call, "workspace_bytes", 0) // ALIGNMENT) * ALIGNMENT
            scratch = Fenced(np.empty(size, np.uint8), at_end)
            scratch.poison()
            with WORKSPACE.lent(scratch.array.ctypes.data, size):
                call.run()
            if not scratch.is_intact():
                raise AssertionError("memory around the intermediates was written")
            call.fetch()

        return run
    chosen = function if backend == "interpreter" else backwards(function)
    return lambda arrays: interpret(chosen, arrays)
