"""`tvm.ir.instrument` and `tvm.instrument`: what is told of each pass."""

from __future__ import annotations

from autosched.lower.passes import (
    Instrument as PassInstrument,
)
from autosched.lower.passes import (
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)
from autosched.tvm._missing import missing

__all__ = ["PassInstrument", "PassTimingInstrument", "PrintAfterAll", "PrintBeforeAll", "pass_instrument"]

__getattr__ = missing("ir.instrument", globals())
