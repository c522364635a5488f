"""A function that calls others, one after the other, as the text of an LLVM module.

It has the entry points that `llvm_program` describes. The memory that it asks for holds an area for what lives between
two calls, and behind it the workspace of the function that runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autosched.codegen.llvm_expr import leave_if_failed
from autosched.codegen.llvm_program import CLOCK_MONOTONIC, EntryPoints, element
from autosched.codegen.llvm_text import C_INT, ModuleText, Value, Writer, constant, plus, typed
from autosched.ir.dtype import INT64, dtype


class Address(NamedTuple):
    """So many bytes after the beginning of a parameter, by its number, or of the area (None)."""

    param: int | None
    offset: int = 0


class Step(NamedTuple):
    """A call of a function by its symbol, `NAME_packed`."""

    symbol: str
    arguments: Sequence[Address]


def sequence_text(
    name: str,
    params: int,
    steps: Sequence[Step],
    area: int,
    *,
    triple: str,
    data_layout: str,
    parallel: bool = False,
    fails: bool = False,
    times: int | None = None,
) -> str:
    """LLVM assembly of a function of `params` arrays, good as it stands: LLVM's passes take time that is quadratic in
    the number of steps, for nothing.

    area:     bytes between the steps, a multiple of 64
    parallel: whether a step has loops for several threads
    fails:    whether a step may return something other than 0, which is passed on at once
    times:    the number of a parameter that gets the nanoseconds of each step, int64
    """
    entry = _Sequence(ModuleText(triple, data_layout), name, params, parallel=parallel, fails=fails)
    entry.emit_entry(steps, area, times)
    entry.emit_workspace(steps, area)
    entry.emit_plain()
    entry.emit_time()
    return str(entry.module)


class _Sequence(EntryPoints):
    def emit_entry(self, steps: Sequence[Step], area: int, times: int | None) -> None:
        """NAME_packed."""
        w = Writer(self.module)
        used = {a.param for step in steps for a in step.arguments if a.param is not None}
        used |= set() if times is None else {times}
        given: dict[int | None, str] = {i: element(w, "ptr", "%args", i) for i in sorted(used)}
        given[None] = "%workspace"
        arguments = w.alloca("pointers", f"[{max((len(s.arguments) for s in steps), default=0) + 1} x ptr]", 8)
        inner = self._offset(w, "%workspace", area)
        moment = w.alloca("moment", "[2 x i64]", 8) if times is not None else ""
        before = self._now(w, moment) if moment else None
        for number, step in enumerate(steps):
            for i, a in enumerate(step.arguments):
                slot = self._offset(w, arguments, 8 * i)
                w.do(f"store ptr {self._offset(w, given[a.param], a.offset)}, ptr {slot}, align 8")
            kernel = self.module.declare(step.symbol, C_INT, ["ptr", "ptr", "ptr", "i64"])
            status = w.fresh(
                f"call {C_INT} {kernel}(ptr {arguments}, ptr null, ptr {inner}, i64 %threads)", dtype("int32")
            )
            if self.fails:
                leave_if_failed(w, status)
            if before is not None:
                after = self._now(w, moment)
                w.do(f"store {typed(w.binary('sub', after, before))}, ptr {self._offset(w, given[times], 8 * number)}")
                before = after
        w.do("ret i32 0")
        w.finish(f"define {C_INT} @{self.entry}(ptr %args, ptr %sizes, ptr %workspace, i64 %threads) noinline nounwind")

    @staticmethod
    def _offset(w: Writer, base: str, offset: int) -> str:
        """An address where it is used: kept from call to call, thousands of them would fill the stack."""
        return w.fresh(f"getelementptr i8, ptr {base}, i64 {offset}", INT64).ref if offset else base

    def _now(self, w: Writer, moment: str) -> Value:
        """The monotonic clock in nanoseconds, by way of two words of memory."""
        clock = self.module.declare("clock_gettime", C_INT, ["i32 signext", "ptr"])
        w.do(f"call {C_INT} {clock}(i32 signext {CLOCK_MONOTONIC}, ptr {moment})")
        seconds, rest = (Value(element(w, "i64", moment, i), INT64) for i in range(2))
        return plus(w, w.binary("mul", seconds, constant(10**9, INT64)), rest)

    def emit_workspace(self, steps: Sequence[Step], area: int) -> None:
        """NAME_packed_workspace: the area, and the largest workspace of a step."""
        w = Writer(self.module)
        need = constant(0, INT64)
        for symbol in dict.fromkeys(step.symbol for step in steps):
            size_of = self.module.declare(f"{symbol}_workspace", "i64", ["ptr", "i64"])
            need = w.intrinsic("umax", INT64, [need, w.fresh(f"call i64 {size_of}(ptr null, i64 %threads)", INT64)])
        w.do(f"ret {typed(plus(w, need, constant(area, INT64)))}")
        w.finish(f"define i64 @{self.entry}_workspace(ptr %sizes, i64 %threads) nounwind")
