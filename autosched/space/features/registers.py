"""Vectors, written-out code, and the registers that it takes.

The innermost loops that are unrolled or vectorized are one block of straight code. What a copy reads
depends on some of these loops only: the copies along the others share one load.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autosched.ir.expr import OPS, Expr, const, floordiv, maximum, minimum, select, variables
from autosched.ir.visit import post_order
from autosched.space.features.footprint import Footprints
from autosched.space.features.machine import Machine
from autosched.space.features.sites import Site, of_the_last, product, ratio
from autosched.space.features.work import is_arithmetic

__all__ = ["register_features"]


def register_features(sites: Sequence[Site], main: Site, machine: Machine, prints: Footprints) -> dict[str, Expr]:
    """The columns of this file."""
    code: Expr = const(0)
    loads: Expr = const(0)
    for site in sites:
        instructions = 1 + sum(1 for e in post_order(site.store.value) if is_arithmetic(e) and OPS[e.op].flops)
        # a store is as often written out as it is unrolled, each time for as many registers as its vector fills
        code = code + product(site.copies) * _registers(site, machine) * const(instructions + len(site.loads))
        blocks = ratio(site.iterations, product(site.copies) * site.lanes)
        for load in site.loads:
            loads = loads + blocks * _loaded(load, site, machine, prints)
    stored = _vectors(main.store.indices, main.store.buffer.dtype.bytes, main, machine)
    each = [_loaded(e, main, machine, prints) for e in main.loads if e.value is not main.store.buffer]
    fewest: Expr = each[0] if each else const(0)
    for count in each[1:]:
        fewest = minimum(fewest, count)
    live = stored + fewest + (1 if len(each) > 1 else 0)
    read: Expr = const(0)
    for count in each:
        read = read + count
    width = main.lanes * const(main.store.buffer.dtype.bytes)
    serial = [x for x in main.loops if x.kind == "serial"]
    depth: Expr = const(0)
    for x in serial:
        depth = depth + select(x.extent > 1, 1, 0)
    moved = frozenset(v for i in main.store.indices for v in variables(i))
    apart = of_the_last(serial, lambda at: serial[at].extent if serial[at].var in moved else const(1), const(1))
    return {
        "lanes": main.lanes,
        "vector_bytes": width,
        "vector_fill": ratio(width, _registers(main, machine) * machine.vector_bytes),
        "unrolled": product(main.copies),
        "accumulators": stored,
        "independent_sums": stored * apart,
        "live_vectors": live,
        "spilled_vectors": maximum(live - machine.registers, 0),
        "register_loads": loads,
        "loads_for_each_store": ratio(read, stored),
        "code_size": code,
        "innermost_extent": of_the_last(serial, lambda at: serial[at].extent, const(1)),
        "loops": depth,
    }


def _loaded(load: Expr, site: Site, machine: Machine, prints: Footprints) -> Expr:
    """Registers for all that the copies of a load touch. Windows of neighbouring copies share most of what they read:
    there are no more loads than there are places where they begin."""
    apart = _vectors(load.args, load.dtype.bytes, site, machine)
    sides = prints.sides((load.value, load.args), frozenset(x.var for x in site.copies))
    begin: Expr = const(1)
    for side in sides:
        begin = begin * side
    used = frozenset(v for i in load.args for v in variables(i))
    lanes = product(x for x in site.loops if x.kind == "vectorize" and x.var in used)
    return minimum(apart, begin * _filled(lanes * const(load.dtype.bytes), machine))


def _registers(site: Site, machine: Machine) -> Expr:
    """How many registers one vector of a store fills."""
    return _filled(site.lanes * const(site.store.buffer.dtype.bytes), machine)


def _filled(size: Expr, machine: Machine) -> Expr:
    return floordiv(size + (machine.vector_bytes - 1), machine.vector_bytes)


def _vectors(indices: Iterable[Expr], width: int, site: Site, machine: Machine) -> Expr:
    """Registers for all that the copies of an access touch: copies along loops it does not depend on are one."""
    used = frozenset(v for i in indices for v in variables(i))
    lanes = product(x for x in site.loops if x.kind == "vectorize" and x.var in used)
    return product(x for x in site.copies if x.var in used) * _filled(lanes * const(width), machine)
