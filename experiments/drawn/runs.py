"""What a scheduled program does, element by element: its lowered loops, run by the interpreter, which is watched.

A *step* is one store with the loads of its value; the lanes of a vector are one step. A *worker* is what runs beside
others: an iteration of a parallel loop, a work-item. Steps are numbered for each worker.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr
from autosched.ir.stmt import Allocate, Buffer, For, Function, Prefetch, Store, walk
from autosched.lowering import Lowered
from autosched.runtime.interpreter import interpret
from autosched.schedule.loop import leaf_extents
from autosched.schedule.schedule import Schedule

Element = tuple[int, ...]


@dataclass
class Step:
    """One store: elements of `buffer`, read elements of others by name, loops around by name."""

    buffer: str
    statement: int  #: which of the program's stores it is
    worker: tuple[int, ...]
    number: int  #: of this worker's steps
    elements: list[Element] = field(default_factory=list)
    at: list[dict[str, int]] = field(default_factory=list)  #: for each element
    reads: list[tuple[str, Element]] = field(default_factory=list)
    asked: list[tuple[str, Element]] = field(default_factory=list)  #: prefetched before


@dataclass
class Run:
    """What a program did. `shapes`: buffers by name, with their extents; `strides`: of those with padded rows."""

    steps: list[Step]
    shapes: dict[str, Element]
    strides: dict[str, Element]
    scopes: dict[str, str]
    extents: dict[str, int]  #: of the loops of each stage, by name
    results: list[np.ndarray]

    def of(self, buffer: str) -> list[Step]:
        return [step for step in self.steps if step.buffer == buffer]


def run(s: Schedule, lowered: Lowered, after: str, sizes: dict[str, int]) -> Run:
    """Run what a pass leaves of a schedule's program on the interpreter. Inputs count up from 0."""
    f = lowered.structure.after(after)
    given = {v: sizes[str(v.name)] for v in f.sizes}
    arrays = []
    for buffer in f.params:
        shape = _numbers(buffer.shape, given)
        arrays.append(np.arange(math.prod(shape)).reshape(shape).astype(buffer.dtype.numpy))
    watcher = _Watcher(f)
    interpret(f, arrays, watch=watcher)
    buffers = [*f.params, *(x.buffer for x in walk(f.body) if isinstance(x, Allocate))]
    of_loops = [x for stage in s.stages for x in leaf_extents(stage).items() if stage.loops]
    return Run(
        watcher.steps,
        {b.name: _numbers(b.shape, given) for b in buffers},
        {b.name: _numbers(b.strides, given) for b in buffers if b.strides},
        {b.name: b.scope for b in buffers},
        {loop.name: int(e.value) for loop, e in of_loops if e.op == "const"},
        [arrays[i] for i in f.outputs],
    )


def workers_of(steps: Sequence[Step]) -> list[Element]:
    """The workers, in the order in which they begin."""
    return list(dict.fromkeys(step.worker for step in steps))


class _Watcher:
    """Collects the accesses of a run into steps."""

    def __init__(self, f: Function) -> None:
        loops = [x for x in walk(f.body) if isinstance(x, For)]
        self.lanes = {x.var for x in loops if x.kind == "vectorize"}
        self.beside = {x.var for x in loops if x.kind in ("parallel", "thread") and x.thread != "vthread"}
        self.statements = {x: n for n, x in enumerate(x for x in walk(f.body) if isinstance(x, Store))}
        self.steps: list[Step] = []
        self._open: dict[Any, Step] = {}
        self._count: dict[tuple[int, ...], int] = {}
        self._reads: list[tuple[str, Element]] = []
        self._asked: list[tuple[str, Element]] = []

    def __call__(self, buffer: Buffer, elements: Sequence[Element], by: Expr | Store | Prefetch, place: Any) -> None:
        if not isinstance(by, Store):
            (self._asked if isinstance(by, Prefetch) else self._reads).extend((buffer.name, e) for e in elements)
            return
        loops = _loops(place)
        worker = tuple(v for x, v in loops if x in self.beside or x.value.role == "thread")
        key = by, tuple(v for x, v in loops if x not in self.lanes)
        step = self._open.get(key)
        if step is None:
            self._count[worker] = number = self._count.get(worker, 0) + 1
            step = self._open[key] = Step(buffer.name, self.statements[by], worker, number)
            self.steps.append(step)
        step.elements += elements
        step.at += [{str(x.name): v for x, v in loops}] * len(elements)
        step.reads += self._reads
        step.asked += self._asked
        self._reads, self._asked = [], []


def _numbers(dims: Sequence[Expr], given: dict[Expr, int]) -> Element:
    return tuple(int(n) for n in evaluate(dims, given))


def _loops(place: Any) -> list[tuple[Expr, int]]:
    found = []
    while place is not None:
        found.append((place.var, place.value))
        place = place.outer
    return found[::-1]
