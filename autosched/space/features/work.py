"""Arithmetic and accesses, added up over all stores."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.ir.expr import (
    OPS,
    Expr,
    ceildiv,
    compare,
    const,
    is_index,
    logical_and,
    logical_not,
    maximum,
    select,
    variables,
)
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer
from autosched.ir.visit import post_order, rebuild
from autosched.space.features.machine import Machine
from autosched.space.features.sites import Site, of_the_last, product, ratio

__all__ = ["is_arithmetic", "step", "unclamped", "work_features"]

#: Lanes no further apart than this come as wide loads and shuffles.
WIDEST_STRIDE = 4


def work_features(
    sites: Sequence[Site], main: Site, outputs: set[Buffer], an: Analyzer, machine: Machine
) -> dict[str, Expr]:
    """The columns of this file."""
    sums: dict[str, Expr] = {}

    def add(name: str, amount: Expr) -> None:
        sums[name] = sums.get(name, const(0)) + amount

    made: Expr = const(0)
    needed: Expr = const(0)
    for name in ("side_iterations", "side_bytes", "side_strided_loads", "side_task_iterations"):
        sums[name] = const(0)
    for site in sites:
        costs = _costs(site, an, machine)
        for name, amount in costs.items():
            add(name, amount)
        if site.store.buffer in outputs:
            needed = needed + site.iterations
        else:
            made = made + site.iterations
        if site.loops[:1] != main.loops[:1]:
            add("side_iterations", costs["iterations"])
            add("side_bytes", costs["bytes_loaded"] + costs["bytes_stored"])
            add("side_strided_loads", costs["strided_loads"])
            add("side_task_iterations", ratio(site.iterations, product(site.outer)))
    sums["recomputation"] = ratio(made, needed)
    sums["main_stage_share"] = ratio(main.iterations, sums["iterations"])
    return sums


def _costs(site: Site, an: Analyzer, machine: Machine) -> dict[str, Expr]:
    times = site.iterations
    vector_times = ratio(times, site.lanes)
    nodes, loads = post_order(site.store.value), site.loads
    by_width: dict[int, float] = {}
    for e in nodes:
        if is_arithmetic(e):
            by_width[e.dtype.bytes] = by_width.get(e.dtype.bytes, 0.0) + (0.5 if e.op == "cast" else OPS[e.op].flops)
    arithmetic = sum(by_width.values())
    instructions: Expr = const(0.0, "float64")
    for width, flops in by_width.items():
        instructions = instructions + const(flops, "float64") * ceildiv(site.lanes * width, machine.vector_bytes)
    index_nodes = [e for i in (*site.store.indices, *(a for e in loads for a in e.args)) for e in post_order(i)]
    choices = [e for e in {*nodes, *index_nodes} if e.op in ("min", "max", "select", "if_then_else")]
    fast = sorted(site.loops, key=lambda loop: loop.kind == "vectorize")
    strided = of_the_last(fast, lambda at: _strided(loads, fast[at].var, an), const(0))
    masked = sum(_is_masked(e, site) for e in nodes) if site.vectorized else 0
    return {
        "iterations": times,
        "arithmetic": times * const(arithmetic, "float64"),
        "vector_arithmetic": vector_times * instructions,
        "index_arithmetic": vector_times * const(float(sum(OPS[e.op].flops for e in index_nodes)), "float64"),
        "choices": vector_times * const(float(len(choices)), "float64"),
        "guards": vector_times * const(float(site.guards), "float64"),
        "bytes_loaded": times * const(sum(e.dtype.bytes for e in loads)),
        "bytes_stored": times * const(site.store.buffer.dtype.bytes),
        "vector_loads": vector_times * const(float(len(loads)), "float64"),
        "vector_stores": vector_times * ceildiv(site.lanes * site.store.buffer.dtype.bytes, machine.vector_bytes),
        "strided_loads": times * strided,
        "gathered_loads": times * _gathered(loads, site, an),
        "masked_loads": select(site.lanes > 1, times, 0) * const(float(masked), "float64"),
        "streamed_bytes": times * const(site.store.buffer.dtype.bytes if site.store.streaming else 0),
    }


def is_arithmetic(e: Expr) -> bool:
    """Whether it computes a value, not an index or a choice between values."""
    return not (is_index(e) or e.dtype.is_bool or e.op in ("load", "select", "if_then_else"))


def _strided(loads: Sequence[Expr], v: Expr, an: Analyzer) -> Expr:
    """Of some loads, those where the next iteration of a loop reads neither the same element nor the next one."""
    count: Expr = const(0)
    for load in loads:
        by = step(load, v, an)
        near = const(False) if by is None else logical_and(compare("ge", by, 0), compare("le", by, 1))
        count = count + select(near, 0, 1)
    return count


def _gathered(loads: Sequence[Expr], site: Site, an: Analyzer) -> Expr:
    """Of some loads, those of which each lane of a vector is loaded for itself."""
    count: Expr = const(0)
    for load in loads:
        for loop in (x for x in site.loops if x.kind == "vectorize"):
            by = step(load, loop.var, an)
            near = const(_is_pattern(load, site, an)) if by is None else compare("le", maximum(by, -by), WIDEST_STRIDE)
            count = count + select(logical_and(loop.extent > 1, logical_not(near)), 1, 0)
    return count


def _is_pattern(load: Expr, site: Site, an: Analyzer) -> bool:
    """Whether lanes lie equally in every vector, however unevenly: wide loads and shuffles bring them."""
    fixed = site.vectorized | {x.var for x in site.copies}
    for index in load.args:
        for v in site.vectorized & variables(index):
            index = unclamped(index, v)
        for monomial in an.poly(index).terms:
            known = frozenset(v for atom in monomial for v in variables(atom) if v.value.role not in ("size", "knob"))
            if not known.isdisjoint(site.vectorized) and not known <= fixed:
                return False
    return not any(e.op == "load" for index in load.args for e in post_order(index))


def _is_masked(e: Expr, site: Site) -> int:
    """How many loads of a choice between values run only for the lanes for which its condition holds."""
    if e.op != "if_then_else" or is_index(e) or site.vectorized.isdisjoint(variables(e.args[0])):
        return 0
    return sum(x.op == "load" for x in post_order(e.args[1:]))


def step(access: Expr, v: Expr, an: Analyzer) -> Expr | None:
    """Elements from what one iteration of a loop reads to what the next one does, clamps aside; None if it varies."""
    offset: Expr = const(0)
    for index, extent in zip(access.args, access.value.shape, strict=True):
        offset = offset * extent + unclamped(index, v)
    linear = an.poly(offset).linear_in(v)
    if linear is None or any(v in variables(atom) for atom in linear[1].atoms()):
        return None
    by = linear[0].expr()
    return by if all(x.value.role in ("size", "knob") for x in variables(by)) else None


def unclamped(index: Expr, v: Expr) -> Expr:
    """An index as it is away from the borders: of a clamp, the side that moves with `v`."""
    done: dict[Expr, Expr] = {}
    for e in post_order(index):
        args = tuple(done[a] for a in e.args)
        moving = [a for a in args if v in variables(a)]
        clamp = e.op in ("min", "max") and len(moving) == 1
        choice = e.op in ("select", "if_then_else")
        done[e] = moving[0] if clamp else args[1] if choice else rebuild(e, args) if args else e
    return done[index]
