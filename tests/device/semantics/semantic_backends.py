"""Rows that show a rule of docs/semantics.md, and every backend to run them on.

A row is a program of one stage (or a few), inputs, and the outputs that the rule demands, written out. All rows of
a section are compiled together, as one function with many outputs.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import autosched
from autosched import te
from autosched.lowering.pipeline import lower_structure
from autosched.runtime.interpreter import interpret
from autosched.schedule import create_schedule
from autosched.space.default import default_schedule
from autosched.target import Target

Array = np.ndarray[Any, Any]

#: `.. vectors`: every loop of a row written element by element runs in vectors of 8
OF_X86 = platform.machine() == "x86_64"
#: C as this CPU has vectors, as other x86 CPUs have them (which those of today run, too), and without any
_IN_C = (
    "c",
    "c vectors",
    *(f"c -mcpu={cpu} vectors" for cpu in ("haswell", "nehalem") if OF_X86),
    "c -std=c99 vectors",
)
BACKENDS = ("reference", "interpreter", "llvm", "llvm vectors", *_IN_C, "opencl", "opencl vectors")
LANES = 8
#: three inputs and an output each: OpenCL promises 1024 bytes of arguments
ROWS_OF_A_KERNEL = 30


@dataclass(frozen=True)
class Expected:
    """What an output has to be. Elements are equal bit for bit, NaN to any NaN, unless

    others: may take their places, element by element
    ulps:   each may be off by so many units in the last place
    """

    values: Array
    others: tuple[Array, ...] = ()
    ulps: float = 0.0

    def complaint(self, got: Array) -> str:
        """What is wrong with an output; empty when nothing is."""
        if got.dtype != self.values.dtype:
            return f"its type is {got.dtype}, not {self.values.dtype}"
        right = np.zeros(got.shape, bool)
        for wanted in (self.values, *self.others):
            right |= _same(got, wanted) | (_ulps(got, wanted) <= self.ulps if self.ulps else False)
        if right.all():
            return ""
        at = tuple(int(i) for i in np.argwhere(~right)[0])
        return f"element {list(at)} is {got[at]!r}, not {self.values[at]!r}"


@dataclass(frozen=True)
class Row:
    """`compute` takes placeholders for the inputs and returns a tensor, or several; `element` makes one element of
    the only output from those of the inputs at its place."""

    rule: str
    inputs: tuple[Array, ...]
    expected: tuple[Expected, ...]
    compute: Callable[..., Any] | None = None
    element: Callable[..., Any] | None = None


def each(rule: str, inputs: Sequence[Array], element: Callable[..., Any], expected: Array | Expected) -> Row:
    """A row of a tensor whose elements are `element(a[i], b[i], ...)`."""
    wide = -(-len(inputs[0]) // LANES) * LANES  # whole vectors: the inputs over again
    e = expected if isinstance(expected, Expected) else Expected(expected)
    widened = Expected(np.resize(e.values, wide), tuple(np.resize(o, wide) for o in e.others), e.ulps)
    return Row(rule, tuple(np.resize(a, wide) for a in inputs), (widened,), element=element)


def whole(rule: str, inputs: Sequence[Array], compute: Callable[..., Any], *expected: Array | Expected) -> Row:
    """A row of any tensors."""
    wanted = tuple(e if isinstance(e, Expected) else Expected(e) for e in expected)
    return Row(rule, tuple(inputs), wanted, compute=compute)


def run(rows: Sequence[Row], backend: str, strict: bool = False) -> list[list[Array]]:
    """The outputs of each row on a backend."""
    given = [
        [te.placeholder(a.shape, str(a.dtype), name=f"x{k}_{j}") for j, a in enumerate(row.inputs)]
        for k, row in enumerate(rows)
    ]
    made = [[] if row.compute is None else _listed(row.compute(*t)) for row, t in zip(rows, given, strict=True)]
    together = _together(rows)
    for at in together:
        (length,) = {row.inputs[0].size for row in map(rows.__getitem__, at)}

        def elements(i: Any, at: list[int] = at) -> tuple[Any, ...]:
            return tuple(rows[k].element(*(t[i] for t in given[k])) for k in at)  # type: ignore[misc]

        outputs = _listed(te.compute((length,), elements, name=f"rows{at[0]}"))
        for k, t in zip(at, outputs, strict=True):
            made[k] = [t]
    arrays = [a for row in rows for a in row.inputs]
    args = [*(t for tensors in given for t in tensors), *(t for tensors in made for t in tensors)]
    found = iter(_results(backend, args, arrays, strict))
    return [[next(found) for _ in tensors] for tensors in made]


def _listed(made: Any) -> list[te.Tensor]:
    return list(made) if isinstance(made, (tuple, list)) else [made]


def _together(rows: Sequence[Row]) -> list[list[int]]:
    """Rows that share one loop, by position: of one length, and few enough for a kernel's arguments."""
    found: dict[int, list[list[int]]] = {}
    for k, row in enumerate(rows):
        if row.element is not None:
            groups = found.setdefault(row.inputs[0].size, [[]])
            if len(groups[-1]) == ROWS_OF_A_KERNEL:
                groups.append([])
            groups[-1].append(k)
    return [group for groups in found.values() for group in groups]


def _results(backend: str, args: list[te.Tensor], arrays: list[Array], strict: bool) -> Sequence[Array]:
    if backend == "reference":
        return te.reference(args, arrays)
    kind = "llvm" if backend == "interpreter" else backend.removesuffix(" vectors")
    target = Target(kind, strict=strict)
    s = default_schedule(args, target)
    if backend.endswith(" vectors"):
        s = create_schedule(args)
        for stage in s.stages:
            if stage.name.startswith("rows"):
                stage.vectorize(stage.split(stage.loops[0], factor=LANES)[1])
    if backend == "interpreter":
        places = [np.zeros([int(d.value) for d in t.shape], t.dtype.numpy) for t in args[len(arrays) :]]
        interpret(lower_structure(s, args, target, "rows").bind(), [*arrays, *places])
        return places
    return _listed(autosched.build(s, target, args=args, name="rows")(*arrays))  # type: ignore[return-value]


# -- numbers ----------------------------------------------------------------------------------------


def _same(a: Array, b: Array) -> Array:
    """Equal bits, and any NaN for a NaN."""
    bits = f"u{a.dtype.itemsize}"
    same = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    return same | (np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else same


def _ulps(a: Array, b: Array) -> Array:
    """How many units in the last place of `b` lie between; infinite where one is no number."""
    with np.errstate(all="ignore"):
        distance = np.abs(a.astype("f8") - b.astype("f8")) / np.spacing(np.abs(b)).astype("f8")
    return np.where(np.isfinite(a) & np.isfinite(b), distance, np.inf)
