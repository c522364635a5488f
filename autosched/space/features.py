"""What the cost model sees of a candidate: expressions over knobs and sizes, read off the structure.

Each store of the lowered sketch contributes what it costs (iterations, arithmetic, memory traffic)
and where it runs (threads, vectors, unrolling); the contributions are added up, and the largest
store's surroundings are kept beside the sums. Quantities span many orders of magnitude, so they are
given as log2(1 + x). `FEATURES` names and explains every column.

The footprints follow Ansor's per-store features (Zheng et al., OSDI 2020, appendix B), computed
symbolically as Felix (Zhao et al., ASPLOS 2024) does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.ir.evaluate import evaluate_float
from autosched.ir.expr import (
    OPS,
    Expr,
    as_expr,
    cast,
    const,
    divide,
    is_index,
    maximum,
    minimum,
    select,
    variables,
)
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import VTHREAD, Allocate, Buffer, For, If, Let, Stmt, Store, children, substitute_stmt
from autosched.ir.visit import post_order, rebuild
from autosched.lower.bounds import interval
from autosched.lower.pipeline import Structure
from autosched.lower.scoped import enter_loop

__all__ = ["FEATURES", "FEATURE_NAMES", "FEATURE_VERSION", "Features", "extract"]

#: name -> meaning. Sums run over all stores; "main" is the store with the most iterations. Index
#: arithmetic, choices and guards are those of the sketch: what one value of a knob would resolve is
#: counted all the same, and footprints are upper bounds.
FEATURES = {
    "iterations": "store executions, all stores",
    "arithmetic": "arithmetic on values, in units of one add",
    "vector_arithmetic": "the same, where one vector instruction counts once",
    "index_arithmetic": "index operations that are left in the innermost body",
    "choices": "selects and clamps evaluated",
    "guards": "conditions tested",
    "bytes_loaded": "bytes read, counting every access",
    "bytes_stored": "bytes written",
    "vector_loads": "load instructions, where one vector access counts once",
    "strided_loads": "loads whose vector lanes are not contiguous",
    "traffic": "distinct bytes touched by the whole program",
    "task_footprint": "distinct bytes touched by one parallel task or work-group, main store",
    "inner_footprint": "distinct bytes touched inside the innermost serial loop's iteration, main store",
    "row_footprint": "distinct bytes touched by one whole innermost serial loop, main store",
    "reuse": "bytes loaded for each distinct byte",
    "private_bytes": "bytes of intermediates in one task",
    "global_intermediate_bytes": "bytes of intermediates in main memory",
    "recomputation": "stores to intermediates for each store to an output",
    "tasks": "iterations of parallel loops, or work-groups, main store",
    "task_iterations": "store executions in one task, main store",
    "threads": "work-items in a work-group, main store",
    "lanes": "vector lanes, main store",
    "vector_bytes": "bytes of one vector of the main store",
    "unrolled": "copies of the main store that are written out",
    "innermost_extent": "iterations of the innermost serial loop around the main store",
    "loops": "serial loops around the main store",
    "waste": "iterations run for each element of the output that is needed",
    "main_stage_share": "share of iterations that the main store has",
}
FEATURE_NAMES = tuple(FEATURES)
#: Changes with the names, and by hand when a column of the same name begins to mean something else.
FEATURE_VERSION = hashlib.sha256("\n".join(("1", *FEATURE_NAMES)).encode()).hexdigest()[:12]
_PLAIN = {"main_stage_share", "loops"}  # given as they are, not as log2(1 + x)


@dataclass(frozen=True)
class Features:
    """The expressions, ready for batches."""

    columns: tuple[Expr, ...]

    def evaluate(self, env: dict[Expr, Any], n: int) -> np.ndarray:
        """float64 [n, columns] for the assignments in `env`."""
        values = evaluate_float(self.columns, env)
        table = np.empty((n, len(values)))
        for j, (name, v) in enumerate(zip(FEATURE_NAMES, values, strict=True)):
            column = np.broadcast_to(v, n)
            table[:, j] = column if name in _PLAIN else np.log2(1 + np.maximum(column, 0))
        return table


@dataclass
class _Site:
    """A store and the loops and conditions around it, outermost first."""

    store: Store
    loops: list[For]
    guards: int
    allocated: list[Buffer]

    def product(self, *kinds: str) -> Expr:
        result: Expr = const(1)
        for loop in self.loops:
            if not kinds or loop.kind in kinds or loop.thread in kinds:
                result = result * loop.extent
        return result


def _sites(s: Stmt, around: _Site | None = None) -> list[_Site]:
    base = around or _Site(None, [], 0, [])  # type: ignore[arg-type]
    match s:
        case Store():
            return [_Site(s, base.loops, base.guards, base.allocated)]
        case Let():
            return _sites(substitute_stmt(s.body, {s.var: s.value}), base)
        case For():
            base = _Site(base.store, [*base.loops, s], base.guards, base.allocated)
        case If():
            base = _Site(base.store, _loops_that_run(s, base.loops), base.guards + 1, base.allocated)
        case Allocate():
            base = _Site(base.store, base.loops, base.guards, [*base.allocated, s.buffer])
    return [site for c in children(s) for site in _sites(c, base)]


def _loops_that_run(s: If, loops: list[For]) -> list[For]:
    """The loops around that repeat the body of an `if`: not those of whose first iteration it is a part."""
    first = {c.args[0] for c in conjuncts(s.condition) if c.op == "eq"} if s.otherwise is None else set()
    return [x for x in loops if x.var not in first]


def _accesses(site: _Site) -> list[tuple[Buffer, tuple[Expr, ...]]]:
    loads = [(e.value, e.args) for e in post_order(site.store.value) if e.op == "load"]
    return [*loads, (site.store.buffer, site.store.indices)]


def _footprint(site: _Site, an: Analyzer, relaxed: frozenset[Expr]) -> Expr:
    """Distinct bytes that the store touches as the relaxed variables run: a box for each buffer."""
    boxes: dict[Buffer, list[list[tuple[Poly, Poly]] | None]] = {}
    for buffer, indices in _accesses(site):
        dims = [interval(i, relaxed, an) for i in indices]
        known = None if any(d is None for d in dims) else [(d.low, d.width) for d in dims if d is not None]
        boxes.setdefault(buffer, []).append(known)
    total: Expr = const(0)
    for buffer, found in boxes.items():
        size: Expr = const(buffer.dtype.bytes)
        for d, extent in enumerate(buffer.shape):
            size = size * _box_side(found, d, extent, an)
        total = total + size
    return total


def _box_side(found: list[list[tuple[Poly, Poly]] | None], d: int, extent: Expr, an: Analyzer) -> Expr:
    """Elements along one dimension of the union of boxes; the whole dimension where it is unknown."""
    spans: list[Poly] = []
    first = found[0]
    for box in found:
        if box is None or first is None:
            return extent
        low = box[d][0] - first[d][0]
        width = box[d][1] + 1
        shift = low.constant
        span = width + (abs(shift) if shift is not None else 0)
        if any(v.value.role not in ("size", "knob") for v in _vars(span)):
            return extent
        spans.append(span)
    side = spans[0].expr()
    for s in spans[1:]:
        side = maximum(side, s.expr())
    return minimum(side, extent)


def _vars(p: Poly) -> frozenset[Expr]:
    return variables(p.expr())


def extract(structure: Structure) -> Features:
    """The feature expressions of a sketch."""
    an = Analyzer()
    sites = _sites(structure.function.body)
    for site in sites:
        for loop in site.loops:
            enter_loop(loop, an)
    sums: dict[str, Expr] = {name: const(0) for name in FEATURE_NAMES}
    if not sites:  # nothing but calls of functions from outside
        return Features(tuple(sums[name] for name in FEATURE_NAMES))
    outputs = {structure.function.params[i] for i in structure.function.outputs}
    for site in sites:
        _add_costs(site, an, sums)
    main = max(sites, key=lambda s: (s.store.buffer in outputs, len(s.loops)))
    _surroundings(main, an, sums)
    made: Expr = const(0)
    needed: Expr = const(0)
    for site in sites:
        if site.store.buffer in outputs:
            needed = needed + site.product()
        else:
            made = made + site.product()
    useful: Expr = const(1)
    for d in main.store.buffer.shape:
        useful = useful * d
    sums["waste"] = _ratio(main.product(), useful)
    sums["recomputation"] = _ratio(made, needed)
    sums["reuse"] = _ratio(sums["bytes_loaded"], sums["traffic"])
    sums["main_stage_share"] = _ratio(main.product(), sums["iterations"])
    _storage(structure.function.body, sums)
    return Features(tuple(as_expr(sums[name]) for name in FEATURE_NAMES))


def _ratio(a: Expr, b: Expr) -> Expr:
    """A real quotient: evaluation is in float64, so this is not integer division."""
    return divide(cast("float64", a), maximum(cast("float64", b), 1.0))


def _add_costs(site: _Site, an: Analyzer, sums: dict[str, Expr]) -> None:
    times = site.product()
    lanes = site.product("vectorize")
    vector_times = _ratio(times, lanes)
    nodes = post_order(site.store.value)
    loads = [e for e in nodes if e.op == "load"]
    arithmetic = sum(OPS[e.op].flops for e in nodes if not is_index(e) and e.op != "load")
    arithmetic += sum(0.5 for e in nodes if e.op == "cast" and not is_index(e))
    index_nodes = [e for i in (*site.store.indices, *(a for e in loads for a in e.args)) for e in post_order(i)]
    choices = [e for e in {*nodes, *index_nodes} if e.op in ("min", "max", "select", "if_then_else")]

    def add(name: str, amount: Expr) -> None:
        sums[name] = sums[name] + amount

    add("iterations", times)
    add("arithmetic", times * const(arithmetic, "float64"))
    add("vector_arithmetic", vector_times * const(arithmetic, "float64"))
    add("index_arithmetic", vector_times * const(float(sum(OPS[e.op].flops for e in index_nodes)), "float64"))
    add("choices", vector_times * const(float(len(choices)), "float64"))
    add("guards", vector_times * const(float(site.guards), "float64"))
    add("bytes_loaded", times * const(sum(e.dtype.bytes for e in loads)))
    add("bytes_stored", times * const(site.store.buffer.dtype.bytes))
    add("vector_loads", vector_times * const(float(len(loads)), "float64"))
    fast = sorted(site.loops, key=lambda loop: loop.kind == "vectorize")
    strided = _of_the_last(fast, lambda at: const(sum(_is_strided(e, fast[at].var, an) for e in loads)), const(0))
    add("strided_loads", times * strided)


def _of_the_last(loops: list[For], value: Callable[[int], Expr], without: Expr) -> Expr:
    """`value(i)` for the last of the loops that runs more than once: one that runs once is no loop."""
    result = without
    for at, loop in enumerate(loops):
        result = select(loop.extent > 1, value(at), result)
    return result


def _is_strided(access: Expr, v: Expr, an: Analyzer) -> bool:
    """Whether the next iteration of a loop reads neither the same element nor the next one, clamps aside."""
    offset: Expr = const(0)
    for index, extent in zip(access.args, access.value.shape, strict=True):
        offset = offset * extent + _unclamped(index, v)
    linear = an.poly(offset).linear_in(v)
    if linear is None or any(v in variables(atom) for atom in linear[1].atoms()):
        return True
    return linear[0].constant not in (0, 1)


def _unclamped(index: Expr, v: Expr) -> Expr:
    """An index as it is away from the borders: of a clamp, the side that moves with `v`."""
    done: dict[Expr, Expr] = {}
    for e in post_order(index):
        args = tuple(done[a] for a in e.args)
        moving = [a for a in args if v in variables(a)]
        clamp = e.op in ("min", "max") and len(moving) == 1
        choice = e.op in ("select", "if_then_else")
        done[e] = moving[0] if clamp else args[1] if choice else rebuild(e, args) if args else e
    return done[index]


def _surroundings(site: _Site, an: Analyzer, sums: dict[str, Expr]) -> None:
    """Where the main store runs."""
    outer = [x for x in site.loops if x.kind == "parallel" or x.thread.startswith("blockIdx")]
    inside = [x for x in site.loops if x not in outer]
    serial = [x for x in inside if x.kind == "serial"]
    tasks: Expr = const(1)
    for x in outer:
        tasks = tasks * x.extent
    threads: Expr = const(1)
    for x in site.loops:
        if x.thread.startswith("threadIdx"):
            threads = threads * x.extent
    lanes = site.product("vectorize")
    sums["tasks"] = tasks
    sums["task_iterations"] = _ratio(site.product(), tasks)
    sums["threads"] = threads
    sums["lanes"] = lanes
    sums["vector_bytes"] = lanes * const(site.store.buffer.dtype.bytes)
    sums["unrolled"] = site.product("unroll", VTHREAD)
    sums["innermost_extent"] = _of_the_last(serial, lambda at: serial[at].extent, const(1))
    for x in serial:
        sums["loops"] = sums["loops"] + select(x.extent > 1, 1, 0)
    sums["traffic"] = _footprint(site, an, frozenset(x.var for x in site.loops))
    sums["task_footprint"] = _footprint(site, an, frozenset(x.var for x in inside))

    def inside_of(at: int, with_itself: int) -> Expr:
        below = site.loops[site.loops.index(serial[at]) + 1 - with_itself :]
        return _footprint(site, an, frozenset(x.var for x in below))

    sums["inner_footprint"] = _of_the_last(serial, lambda at: inside_of(at, 0), sums["traffic"])
    sums["row_footprint"] = _of_the_last(serial, lambda at: inside_of(at, 1), sums["traffic"])


def _storage(body: Stmt, sums: dict[str, Expr]) -> None:
    def size_of(b: Buffer) -> Expr:
        return b.elements * b.dtype.bytes

    def visit(s: Stmt, times: Expr) -> None:
        if isinstance(s, Allocate):
            size = size_of(s.buffer)
            sums["private_bytes"] = sums["private_bytes"] + select(times > 1, size, 0)
            sums["global_intermediate_bytes"] = sums["global_intermediate_bytes"] + select(times > 1, 0, size)
        for c in children(s):
            visit(c, times * s.extent if isinstance(s, For) else times)

    visit(body, const(1))
