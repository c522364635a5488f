"""`tvm.ir.instrument` and `tvm.instrument`: what is told of each pass."""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.passes import (
    Instrument as PassInstrument,
)
from autosched.tvm.passes import (
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    pass_instrument,
)

__all__ = ["PassInstrument", "PassTimingInstrument", "PrintAfterAll", "PrintBeforeAll", "pass_instrument"]

__getattr__ = missing("ir.instrument", globals())
