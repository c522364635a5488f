"""Vectors, and the registers that they fill: what a body that is written out needs, and what waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from operator import mul

from autosched.ir.expr import (
    OPS,
    Expr,
    compare,
    const,
    floordiv,
    logical_and,
    maximum,
    minimum,
    select,
    variables,
)
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import If
from autosched.ir.visit import contains, post_order
from autosched.lowering.skipping import FEWEST_LANES, MOST_LANES, seldom_changes
from autosched.space.features.memory import Footprints, Machine
from autosched.space.features.sites import (
    Site,
    is_arithmetic,
    of_the_last,
    product,
    ratio,
    steps_of_chain,
    total,
)


def register_features(sites: Sequence[Site], main: Site, machine: Machine, prints: Footprints) -> dict[str, Expr]:
    """The columns of this file."""
    code, loads, spilled, live, each = dict[Expr | None, list[Expr]](), [], [], const(0), list[Expr]()
    for site in sites:
        instructions = 1 + sum(1 for e in post_order(site.store.value) if is_arithmetic(e) and OPS[e.op].flops)
        # a store is as often written out as it is unrolled, each time for as many registers as its vector fills
        written = product(site.copies) * registers_of(site, machine) * const(instructions + len(site.loads))
        code.setdefault(site.loops[0].var if site.loops else None, []).append(written)
        blocks = ratio(site.iterations, product(site.copies) * site.lanes)
        kept = const(1) if site is main else site.kept
        loaded = [(load, _loaded(load, site, machine, prints)) for load in site.loads]
        for load, registers in loaded:
            again = kept if site.goes_on_with(load) else const(1)
            loads.append(ratio(blocks, again) * registers)
        needed = _live(site, loaded, machine)
        spilled.append(blocks * maximum(needed - machine.registers, 0))
        if site is main:
            live, each = needed, [registers for load, registers in loaded if load.value is not site.store.buffer]
    stored = _stored(main, machine)
    width = main.lanes * const(main.store.buffer.dtype.bytes)
    serial = [x for x in main.loops if x.kind == "serial"]
    asked = _asked_together(main, prints.an)
    return {
        "lanes": main.lanes,
        "vector_bytes": width,
        "vector_fill": ratio(width, registers_of(main, machine) * machine.vector_bytes),
        "unrolled": product(main.copies),
        "accumulators": stored,
        "independent_sums": ratio(stored * _apart(main) * asked, const(steps_of_chain(main, sites))),
        "live_vectors": live,
        "spilled_vectors": maximum(live - machine.registers, 0),
        "spills": total(spilled),
        "register_loads": total(loads),
        "side_waits": total(_waits(x, machine, prints.an) for x in sites if x is not main),
        "loads_for_each_store": ratio(total(each), stored),
        "code_size": reduce(maximum, map(total, code.values()), const(0)),
        "innermost_extent": of_the_last(serial, lambda at: serial[at].extent, const(1)),
        "loops": total(select(x.extent > 1, 1, 0) for x in serial),
    }


def _apart(site: Site) -> Expr:
    """Rounds of the innermost serial loop that store elsewhere, of which none waits for the one before."""
    serial = [x for x in site.loops if x.kind == "serial"]
    moved = frozenset(v for i in site.store.indices for v in variables(i))
    return of_the_last(serial, lambda at: serial[at].extent if serial[at].var in moved else const(1), const(1))


def _waits(site: Site, machine: Machine, an: Analyzer) -> Expr:
    """Steps of a sum of floats that wait for the one before."""
    if not site.is_sum or not site.store.buffer.dtype.is_float:
        return const(0)
    together = site.lanes * _stored(site, machine) * _apart(site) * _asked_together(site, an)
    return ratio(site.iterations * registers_of(site, machine), together)


def _asked_together(site: Site, an: Analyzer) -> Expr:
    """Lanes that only ask whether they would change a result, in vectors most of which are left out: branches are
    foreseen, so that none waits for the one before. 1 of other loops."""
    if not site.loops or site.loops[-1].kind != "vectorize":
        return const(1)
    body = site.loops[-1].body
    while isinstance(body, If) and not contains(body.condition, "load"):
        body = body.then  # where a row ends, the loop is cut
    if not seldom_changes(replace(site.loops[-1], body=body), an):
        return const(1)
    few, many = (compare(*x) for x in (("ge", site.lanes, FEWEST_LANES), ("le", site.lanes, MOST_LANES)))
    return select(logical_and(few, many), site.lanes, 1)


def _stored(site: Site, machine: Machine) -> Expr:
    """Registers that the copies of a store write."""
    return _vectors(site.store.indices, site.store.buffer.dtype.bytes, site, machine)


def _live(site: Site, loaded: Sequence[tuple[Expr, Expr]], machine: Machine) -> Expr:
    """Registers that the written-out body of a store needs at once, at least, of whose loads these are the registers.

    What windows of several copies share compilers load once, and keep until the last copy. Steps of a sum that are
    written out follow each other.
    """
    found, shared = [], []
    moving = frozenset(v for i in site.store.indices for v in variables(i))
    steps = product(x for x in site.copies if x.var not in moving)
    for load, once in loaded:
        if load.value is not site.store.buffer:
            found.append(floordiv(once + (steps - 1), steps))
            apart = _vectors(load.args, load.dtype.bytes, site, machine)
            shared.append(select(once < apart, once, 0))
    least = reduce(minimum, found) if found else const(0)
    return _stored(site, machine) + maximum(least, total(shared)) + (1 if len(found) > 1 else 0)


def _loaded(load: Expr, site: Site, machine: Machine, prints: Footprints) -> Expr:
    """Registers for all that the copies of a load touch. Windows of neighbouring copies share most of what they read:
    there are no more loads than there are places where they begin."""
    apart = _vectors(load.args, load.dtype.bytes, site, machine)
    inside = (variables(e) for e in post_order(load.args) if e.op in ("floordiv", "floormod"))
    copies = frozenset(x.var for x in site.copies)
    cut = copies & frozenset[Expr]().union(*inside)
    begin = reduce(mul, prints.sides((load.value, load.args), copies), const(1))
    if cut:  # a quotient has no more places than iterations
        others = reduce(mul, prints.sides((load.value, load.args), copies - cut), const(1))
        begin = minimum(begin, others * product(x for x in site.copies if x.var in cut))
    used = frozenset(v for i in load.args for v in variables(i))
    lanes = product(x for x in site.loops if x.kind == "vectorize" and x.var in used)
    return minimum(apart, begin * _filled(lanes * const(load.dtype.bytes), machine))


def registers_of(site: Site, machine: Machine) -> Expr:
    """Registers that one vector of a store fills."""
    return _filled(site.lanes * const(site.store.buffer.dtype.bytes), machine)


def _filled(size: Expr, machine: Machine) -> Expr:
    return floordiv(size + (machine.vector_bytes - 1), machine.vector_bytes)


def _vectors(indices: Iterable[Expr], width: int, site: Site, machine: Machine) -> Expr:
    """Registers for all that the copies of an access touch: copies along loops it does not depend on are one."""
    used = frozenset(v for i in indices for v in variables(i))
    lanes = product(x for x in site.loops if x.kind == "vectorize" and x.var in used)
    return product(x for x in site.copies if x.var in used) * _filled(lanes * const(width), machine)
