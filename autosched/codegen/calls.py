"""Which functions from outside a lowered function calls: what the runtime must find before it runs."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.ir.stmt import Function, expressions, walk
from autosched.ir.visit import values_below

#: a Python function is called under a symbol of its own: this, and its name
PACKED_PREFIX = "autosched.packed."


@dataclass(frozen=True)
class OutsideCalls:
    """Names by kind, in alphabetical order."""

    symbols: tuple[str, ...]  #: C functions
    packed: tuple[str, ...]  #: Python functions


def outside_calls(function: Function) -> OutsideCalls:
    """The functions from outside that `function` names."""
    nodes = values_below(e for s in walk(function.body) for e in expressions(s))
    found = {(n.value.kind, n.value.name) for n in nodes if n.op == "call"}
    return OutsideCalls(
        tuple(sorted(name for kind, name in found if kind == "extern")),
        tuple(sorted(name for kind, name in found if kind == "packed")),
    )
