"""`tvm.instrument` and `tvm.ir.instrument`: objects that are told of each pass."""

from __future__ import annotations

import time
from typing import TypeVar

from autosched.tir.module import IRModule
from autosched.tvm._missing import missing
from autosched.tvm.transform import PassInfo


class PassInstrument:
    """Told when a context begins and ends, and before and after each pass. All methods may be left out.

    `should_run` returns False to leave a pass out, where it may be left out.
    """

    def enter_pass_ctx(self) -> None: ...

    def exit_pass_ctx(self) -> None: ...

    def should_run(self, mod: IRModule, info: PassInfo) -> bool:
        return True

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None: ...

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None: ...


C = TypeVar("C", bound=type)


def pass_instrument(cls: C) -> C:
    """Decorator: make an instrument of a class with some of the methods of `PassInstrument`."""
    return type(cls.__name__, (cls, PassInstrument), {"__doc__": cls.__doc__, "__module__": cls.__module__})  # type: ignore[return-value]


class PassTimingInstrument(PassInstrument):
    """Times each pass. Call `render` inside the context or after it.

    The times of passes inside others, of a `Sequential`, are indented and part of the outer time.
    """

    def __init__(self) -> None:
        self.times: list[tuple[str, int, float]] = []  #: (pass, depth, seconds), in order of beginning
        self._open: list[tuple[int, float]] = []

    def enter_pass_ctx(self) -> None:
        self.times, self._open = [], []

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        self._open.append((len(self.times), time.perf_counter()))
        self.times.append((info.name, len(self._open) - 1, 0.0))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        at, begin = self._open.pop()
        self.times[at] = (info.name, len(self._open), time.perf_counter() - begin)

    def render(self) -> str:
        """Return one line for each pass: its microseconds and its share of all."""
        whole = sum(seconds for _, depth, seconds in self.times if depth == 0) or 1.0
        return "".join(
            f"{'  ' * depth}{name}: {seconds * 1e6:.0f}us ({seconds / whole:.1%})\n"
            for name, depth, seconds in self.times
        )


class PrintBeforeAll(PassInstrument):
    """Prints the module before each pass."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        print(f"Before Running Pass: {info.name}\n{mod}")


class PrintAfterAll(PassInstrument):
    """Prints the module after each pass."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        print(f"After Running Pass: {info.name}\n{mod}")


__getattr__ = missing("ir.instrument", globals())
