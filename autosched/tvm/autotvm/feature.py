"""`tvm.autotvm.feature`: numbers that say what each loop of a schedule touches, as AutoTVM's models see them.

They are counted on this package's loops. `autosched.space.features` has those that its own models learn from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Store
from autosched.ir.visit import post_order
from autosched.tvm._missing import missing
from autosched.tvm.autotvm.record import decode
from autosched.tvm.loops import Access, Program, Walked, program_of

#: kinds of loops, in the order of the one-hot part of `_attr_`
KINDS = (
    *("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z"),
    *("unroll", "vectorize", "parallel", "serial", "vthread"),
)
_NAMES = {
    "_attr_": ("length", "nest_level", "topdown", "bottomup", *(f"ann_{i}" for i in range(20))),
    "_arith_": ("add", "mul", "div"),
}
_TOUCH = ("stride", "mod", "count", "reuse", "T_count", "T_reuse")
_ARITHMETIC = {"add": 0, "sub": 0, "mul": 1, "div": 2, "fmod": 2}

Rows = list[list[list[Any]]]


class _Touch:
    """What a loop and those inside of it do to an access."""

    def __init__(self, stride: int) -> None:
        self.stride, self.count, self.reuse = stride, 1, 1
        self.thread_count, self.thread_reuse = 0, 0

    def row(self) -> list[int]:
        return [self.stride, -1, self.count, self.reuse, self.thread_count, self.thread_reuse]


def _program(s: Any, args: Sequence[Any]) -> Program:
    """The loops of a program without those that set what a reduction begins with, which AutoTVM does not look at: so
    schedules of one computation have as many numbers, wherever their reduce loops are."""
    p = program_of(s, args)
    sums = {store: at for at, (store, _) in enumerate(p.stores) if _reads(store)}
    last = {store.buffer: at for store, at in sums.items()}
    first = {store for at, (store, _) in enumerate(p.stores) if store not in sums and at < last.get(store.buffer, 0)}
    if not first:
        return p
    for x in p.loops:
        x.inside = [access for access in x.inside if access.store not in first]
    return Program(
        [x for x in p.loops if x.inside],
        [(store, around) for store, around in p.stores if store not in first],
        [access for access in p.accesses if access.store not in first],
        p.allocations,
    )


def _reads(store: Store) -> bool:
    """Whether the value of a store is made of the element that was there."""
    loads = [e for e in post_order((store.value,)) if e.op == "load" and e.value is store.buffer]
    return any(e.args == store.indices for e in loads)


def _level(x: Walked) -> int:
    return 2 if x.kind.startswith("blockIdx") else 1 if x.kind.startswith("threadIdx") or x.kind == "parallel" else 0


def _touches(p: Program) -> dict[Walked, dict[str, _Touch]]:
    an = Analyzer()
    numbers: dict[str, int] = {}
    found: dict[Walked, dict[str, _Touch]] = {x: {} for x in p.loops}
    for access in p.accesses:
        name = access.buffer.name
        numbers[name] = numbers.get(name, -1) + 1
        for x, touch in zip(access.loops, _of_access(access, an), strict=True):
            found[x][f"{name}_{numbers[name]}"] = touch
    return found


def _of_access(access: Access, an: Analyzer) -> list[_Touch]:
    touches = [_Touch(stride) for stride in access.strides(an)]
    for i, x in enumerate(access.loops):
        for outer in touches[: i + 1]:
            if touches[i].stride:
                outer.count *= x.length
            else:
                outer.reuse *= x.length
    for i in range(1, len(touches)):  # threads see what the loops inside of them do
        host, level = access.loops[i - 1], _level(access.loops[i])
        if _level(host) == level + 1:
            for x, touch in zip(access.loops[:i], touches, strict=False):
                if _level(x) == level + 1:
                    touch.thread_count = touch.count // touches[i].count
                    touch.thread_reuse = touch.reuse // touches[i].reuse
    return touches


def _scaled(take_log: bool) -> Callable[[int], float]:
    if not take_log:
        return float
    return lambda n: math.log2(n + 1) if n >= 0 else -math.log2(1 - n)


def get_itervar_feature(sch: Any, args: Sequence[Any], take_log: bool = False) -> Rows:
    """Return a row for each loop, outermost first: `["_itervar_", var]`, `["_attr_", length, depth, product of the
    lengths around and its own, product of its own and those inside, one-hot kind]`, `["_arith_", additions,
    multiplications, divisions]`, and for each access `[name, stride, -1, elements, reuse, those of threads]`.

    `take_log` takes the logarithm of the numbers. Raises UsageError for lengths that are no numbers.
    """
    p, scaled = _program(sch, args), _scaled(take_log)
    touches, arithmetic = _touches(p), {x: [0, 0, 0] for x in p.loops}
    for store, around in p.stores:
        for e in post_order((store.value,)) if around else ():
            if e.dtype.is_float and e.op in _ARITHMETIC:
                arithmetic[around[-1]][_ARITHMETIC[e.op]] += 1
    rows: Rows = []
    for x in p.loops:
        topdown = math.prod(o.length for o in _path(x))
        bottomup = max((t.count * t.reuse for t in touches[x].values()), default=-1)
        one_hot = [int(x.kind == kind) for kind in KINDS]
        rows.append(
            [
                ["_itervar_", x.loop.var],
                ["_attr_", scaled(x.length), x.depth, scaled(topdown), scaled(bottomup), *one_hot],
                ["_arith_", *map(scaled, arithmetic[x])],
                *([name, *map(scaled, t.row())] for name, t in sorted(touches[x].items())),
            ]
        )
    return rows


def _path(x: Walked) -> tuple[Walked, ...]:
    """The loops around one, with it."""
    return x.inside[0].loops[: x.depth] if x.inside else (x,)


def flatten_itervar_feature(fea: Rows) -> np.ndarray:
    """Return the numbers of all rows, one after the other: float64 [n]."""
    return np.concatenate([np.asarray(part[1:], dtype=np.float64) for row in fea for part in row[1:]])


def get_itervar_feature_flatten(sch: Any, args: Sequence[Any], take_log: bool = True) -> tuple[float, ...]:
    """Return `flatten_itervar_feature` of `get_itervar_feature`."""
    return tuple(flatten_itervar_feature(get_itervar_feature(sch, args, take_log)).tolist())


def get_flatten_name(fea: Rows | str) -> list[str]:
    """Return a name for each number of `flatten_itervar_feature`: of rows, or of a line of a log.

    Raises RecordError for a line that is none, WorkloadError where its template is not registered.
    """
    if isinstance(fea, str):
        inp, _ = decode(fea)
        with inp.target:
            s, args = inp.task.instantiate(inp.config)
        fea = get_itervar_feature(s, args)
    parts = [(str(row[0][1]), part) for row in fea for part in row[1:]]
    names = [(var, part[0], _NAMES.get(part[0], _TOUCH)[i]) for var, part in parts for i in range(len(part) - 1)]
    return [".".join([f"f{count}", *name]) for count, name in enumerate(names)]


def get_buffer_curve_sample_flatten(sch: Any, args: Sequence[Any], sample_n: int = 30) -> tuple[float, ...]:
    """Return, for each buffer that the innermost loops touch, four curves of `sample_n` points, two numbers for each:
    reuse over elements and back, iterations over elements and back, in logarithms."""
    p = _program(sch, args)
    touches = _touches(p)
    deepest, inner, seen = max((x.depth for x in p.loops), default=0), set(), set()
    for x in reversed(p.loops):
        if x.depth != deepest:
            continue
        for name in sorted(touches[x]):
            raw = name.rpartition("_")[0].partition(".")[0]
            if raw not in seen:
                seen.add(raw)
                inner.add(name)
    found: list[float] = []
    for name in sorted(inner):
        near = [(touches[x][name], math.prod(o.length for o in _path(x))) for x in p.loops if name in touches[x]]
        count = sorted([0.0, *(math.log2(t.count) for t, _ in near)])
        reuse = sorted([0.0, *(math.log2(t.reuse) for t, _ in near)])
        topdown = sorted([0.0, *(math.log2(n) for _, n in near)])
        for xs, ys in ((count, reuse), (reuse, count), (count, topdown), (topdown, count)):
            for i in range(sample_n):
                j = max(k for k, x in enumerate(xs) if i > x - 1e-6)
                found += [ys[j], i - xs[j]]
    return tuple(found)


__getattr__ = missing("autotvm.feature", globals(), {"ana_lower": "tvm.lower(s, args, simple_mode=True)"})
