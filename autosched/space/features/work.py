"""Arithmetic and accesses, counted over all stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import mul

from autosched.ir.buffers import row_major_offset
from autosched.ir.expr import (
    OPS,
    Expr,
    ceildiv,
    compare,
    const,
    floordiv,
    floormod,
    is_const,
    is_index,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    select,
    variables,
)
from autosched.ir.ops import CHOICES, ORDERS
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, For
from autosched.ir.visit import conjuncts, contains, post_order, rebuild, rewrite, substitute
from autosched.lowering.interior import wraps
from autosched.space.features.memory import Machine, is_looked_up
from autosched.space.features.registers import registers_of
from autosched.space.features.sites import (
    Site,
    is_arithmetic,
    limit_of,
    of_the_last,
    product,
    ratio,
    total,
)

#: Lanes no further apart than this come as wide loads and shuffles.
WIDEST_STRIDE = 4
#: Bytes of the narrowest elements that most CPUs load under a mask.
WORD = 4
#: Neighbouring columns from so many on are loaded as rows.
FEWEST_TURNED = 4
#: Operations of so many units of arithmetic are sequences of instructions, or keep a pipe busy: none of them finds a
#: partner to fuse with, as half of the others do, so each unit takes so many times as long.
LONG_UNITS, LONG_COST = 4, 2.0


def work_features(
    sites: Sequence[Site], main: Site, outputs: set[Buffer], an: Analyzer, machine: Machine
) -> dict[str, Expr]:
    """The columns of this file."""
    changed: dict[Expr, set[Buffer]] = {}
    for site in sites:
        for loop in site.loops:
            changed.setdefault(loop.var, set()).add(site.store.buffer)
    costs = [_costs(x, an, machine, const(1) if x is main else x.kept, changed) for x in sites]
    beside = [(site, c) for site, c in zip(sites, costs, strict=True) if site.loops[:1] != main.loops[:1]]
    made, needed = (
        total(site.iterations for site in sites if (site.store.buffer in outputs) is is_output)
        for is_output in (False, True)
    )
    sums = {name: total(c[name] for c in costs) for name in costs[0]}
    return {
        **sums,
        "side_iterations": total(c["iterations"] for _, c in beside),
        "side_bytes": total(c["bytes_loaded"] + c["bytes_stored"] for _, c in beside),
        "side_strided_loads": total(c["strided_loads"] for _, c in beside),
        "side_task_iterations": total(ratio(site.iterations, product(site.outer)) for site, _ in beside),
        "recomputation": ratio(made, needed),
        "main_stage_share": ratio(main.iterations, sums["iterations"]),
    }


def _costs(
    site: Site, an: Analyzer, machine: Machine, kept: Expr, changed: Mapping[Expr, set[Buffer]]
) -> dict[str, Expr]:
    """The sums over all stores of one; `kept` is how many times in turn it goes on with what is in registers, and
    `changed` what is stored as the variable of a loop moves."""
    times = site.iterations
    vector_times = ratio(times, site.lanes)
    nodes, loads = post_order(site.store.value), site.loads
    arithmetic, passes = _arithmetic(nodes, site, machine, changed)
    index_nodes = [e for i in (*site.store.indices, *(a for e in loads for a in e.args)) for e in post_order(i)]
    choices = [e for e in {*nodes, *index_nodes} if e.op in ("min", "max", *CHOICES)]
    fast = sorted(site.loops, key=lambda loop: loop.kind == "vectorize")
    once = {e: site.kept if site.goes_on_with(e) else product(_still(e, site, changed)) for e in loads}
    strided = of_the_last(fast, lambda at: _strided(once, fast[at], an), const(0))
    masked = total(_masked(e, site, an, machine) for e in nodes) if site.vectorized else const(0)
    # what goes on with an element that data look up, as histograms do, may wait for the one before
    is_scattered = site.is_sum and any(is_looked_up(i) for i in site.store.indices)
    return {
        "iterations": times,
        "arithmetic": times * const(arithmetic, "float64"),
        "vector_arithmetic": vector_times * passes,
        "index_arithmetic": vector_times * const(float(sum(OPS[e.op].flops for e in index_nodes)), "float64"),
        "choices": vector_times * const(float(len(choices)), "float64"),
        "guards": vector_times * const(float(site.guards), "float64"),
        "bytes_loaded": times * const(sum(e.dtype.bytes for e in loads)),
        "bytes_stored": times * const(site.store.buffer.dtype.bytes),
        "vector_loads": vector_times * const(float(len(loads)), "float64"),
        "vector_stores": ratio(vector_times, kept)
        * ceildiv(site.lanes * site.store.buffer.dtype.bytes, machine.vector_bytes),
        "strided_loads": times * strided,
        "gathered_loads": times * _gathered(once, site, an),
        "masked_loads": select(site.lanes > 1, times, 0) * masked,
        "cut_vectors": _cut(site, machine),
        "streamed_bytes": times * const(site.store.buffer.dtype.bytes if site.store.streaming else 0),
        "scattered_updates": ratio(times, _between_updates(site)) if is_scattered else const(0),
    }


def _cut(site: Site, machine: Machine) -> Expr:
    """Executions of vectors that end before their last lane, at a size that only the call tells: code takes them apart,
    into shorter and shorter pieces. Where a row is added up in lanes, what pieces wrote is read as a whole then."""
    found, moved = const(0), frozenset(v for i in site.store.indices for v in variables(i))
    for vector in (x for x in site.loops if x.kind == "vectorize"):
        for condition in (c for asked in site.asked for c in conjuncts(asked)):
            end, is_begin = limit_of(condition, vector.var) or (const(0), True)
            if is_begin or all(v.value.role != "size" for v in variables(end)):
                continue
            row = [x for x in site.loops if x is not vector and x.var in variables(condition)]
            length = substitute(end, {x.var: x.start for x in reversed(site.loops) if x is not vector})
            times = product(x for x in site.loops if x.kind != "vectorize" and x not in row)
            waits = 1 + 2 * registers_of(site, machine) if row and moved.isdisjoint(x.var for x in row) else 0
            rest = floormod(maximum(length, 0), vector.extent)
            found = maximum(found, times * (1 + waits) * minimum(rest, 1))
    return found


def _arithmetic(
    nodes: Sequence[Expr], site: Site, machine: Machine, changed: Mapping[Expr, set[Buffer]]
) -> tuple[float, Expr]:
    """Units of arithmetic of one execution; and of one vector, in instructions."""
    units, alike = 0.0, dict[tuple[int, bool, tuple[For, ...]], float]()
    for e in nodes:
        if is_arithmetic(e):
            each = _units(e)
            units += each
            in_lanes = not site.vectorized.isdisjoint(variables(e))
            key = e.dtype.bytes, in_lanes, _still(e, site, changed)
            alike[key] = alike.get(key, 0.0) + each * (LONG_COST if each >= LONG_UNITS else 1.0)
    width = min(machine.pipe_bytes, machine.vector_bytes)
    passes: Expr = const(0.0, "float64")
    for (w, in_lanes, still), each in alike.items():
        parts = ceildiv((site.lanes if in_lanes else const(1)) * w, width)
        passes = passes + ratio(const(each, "float64") * parts, product(still))
    return units, passes


def _still(e: Expr, site: Site, changed: Mapping[Expr, set[Buffer]]) -> tuple[For, ...]:
    """The loops around a store whose iterations share what an expression is: copies that are written out share what is
    the same, and what stands still in the innermost loops is computed in front of them."""
    used, reads = variables(e), {x.value for x in post_order(e) if x.op == "load"}
    found = []
    for loop in reversed(site.loops):
        if loop.kind not in ("serial", "unroll", "vectorize") or loop.thread:
            break
        stands = loop.var not in used and reads.isdisjoint(changed.get(loop.var, ()))
        if stands and loop.kind != "vectorize":
            found.append(loop)
        elif not stands and loop.kind == "serial":
            break
    return tuple(found)


def _between_updates(site: Site) -> Expr:
    """From an update to the next one that may meet it: the iterations of loops that move along another dimension, as
    lanes do, and copies that neighbours take turns with."""
    seen, moved = (
        frozenset(v for i in site.store.indices if is_looked_up(i) is looked_up for v in variables(i))
        for looked_up in (True, False)
    )
    apart = const(1)
    for loop in reversed(site.loops):
        if loop.var in moved:
            apart = apart * loop.extent
        elif loop.var in seen:
            break
    return apart


def arithmetic_of(site: Site) -> float:
    """Units of arithmetic of one execution."""
    return sum(_units(e) for e in post_order(site.store.value) if is_arithmetic(e))


def _units(e: Expr) -> float:
    return 0.5 if e.op == "cast" else OPS[e.op].flops


def _strided(loads: Mapping[Expr, Expr], loop: For, an: Analyzer) -> Expr:
    """The number of loads of which the next iteration of a loop reads neither the same element nor the next one; of
    each a share, if so many executions share it."""
    found = []
    for load, shared_by in loads.items():
        by = step(load, loop.var, an)
        is_near = const(False) if by is None else logical_and(compare("ge", by, 0), compare("le", by, 1))
        is_near = _in_one_block(load, loop, an, 1) if by is None and loop.kind == "vectorize" else is_near
        found.append(ratio(select(is_near, 0, 1), shared_by))
    return total(found)


def _gathered(loads: Mapping[Expr, Expr], site: Site, an: Analyzer) -> Expr:
    """The number of loads that load each lane of a vector by itself; shares as of strided ones."""
    found = []
    for load, shared_by in loads.items():
        for loop in (x for x in site.loops if x.kind == "vectorize"):
            by = step(load, loop.var, an)
            near = const(_is_pattern(load, site, an)) if by is None else compare("le", maximum(by, -by), WIDEST_STRIDE)
            if by is None:
                near = logical_or(near, _in_one_block(load, loop, an, WIDEST_STRIDE))
                near = logical_or(near, _repeats([unclamped(i, loop.var, an) for i in load.args], loop, an, load))
            near = reduce(logical_or, (_turns(load, x, an) for x in site.copies), near)
            found.append(ratio(select(logical_and(loop.extent > 1, logical_not(near)), 1, 0), shared_by))
    return total(found)


def _turns(load: Expr, copies: For, an: Analyzer) -> Expr:
    """Whether what is written out reads neighbours: rows are loaded then, and turned in registers."""
    by = step(load, copies.var, an)
    beside = const(False) if by is None else compare("eq", by, 1)
    return logical_and(beside, copies.extent >= FEWEST_TURNED)


def _repeats(found: Sequence[Expr], loop: For, an: Analyzer, load: Expr | None = None) -> Expr:
    """Whether each vector sees the same of indices or conditions, because a few of its lanes see all there is, as of
    `x // 2` and `x % 2`. Of the indices of a `load`, quotients may go on from lane to lane, as far as in wide loads."""
    v, conditions, done = loop.var, list[Expr](), dict[Expr, Expr]()
    for e in post_order(found):
        args = tuple(done[a] for a in e.args)
        done[e] = rebuild(e, args) if args else e
        if e.op in ("floordiv", "floormod") and v in variables(e.args[0]):
            linear = an.poly(args[0]).affine_in(v)
            if linear is None or e.args[1].op != "const" or not 1 < e.args[1].value <= WIDEST_STRIDE:
                return const(False)
            conditions.append(compare("eq", floormod(loop.extent * linear[0], e.args[1]), 0))
            done[e] = v if e.op == "floordiv" and load is not None else const(0)
    if not conditions:
        return const(False)
    if load is None:
        still = all(v not in variables(done[e]) for e in found)
        return reduce(logical_and, conditions) if still else const(False)
    by = step(rebuild(load, tuple(done[e] for e in found)), v, an)
    near = const(False) if by is None else compare("le", maximum(by, -by), WIDEST_STRIDE)
    return reduce(logical_and, conditions, near)


def _is_pattern(load: Expr, site: Site, an: Analyzer) -> bool:
    """Whether lanes lie equally in every vector, however unevenly: wide loads and shuffles bring them."""
    fixed = site.vectorized | {x.var for x in site.copies}
    for index in load.args:
        for v in site.vectorized & variables(index):
            index = unclamped(index, v, an)
        for monomial in an.poly(index).terms:
            known = frozenset(v for atom in monomial for v in variables(atom) if v.value.role not in ("size", "knob"))
            if not known.isdisjoint(site.vectorized) and not known <= fixed:
                return False
    return not contains(load.args, "load")


def _masked(e: Expr, site: Site, an: Analyzer, machine: Machine) -> Expr:
    """The number of loads of a choice between values that run only for lanes for which its condition holds.

    Where conditions say how near a border is, loops are cut there: only the vectors at both ends of a row ask, and load
    what holds at once, if the machine loads such elements under a mask.
    """
    if e.op != "if_then_else" or is_index(e) or site.vectorized.isdisjoint(variables(e.args[0])):
        return const(0)
    asked = [c for c in conjuncts(e.args[0]) if not site.vectorized.isdisjoint(variables(c))]
    vector = [x for x in site.loops if x.kind == "vectorize"][-1]
    of_data = not any(is_index(c.args[0] if c.args else c) for c in asked)
    reads = [x for x in post_order(e.args[1:]) if x.op == "load"]
    asking = [x for x in reads if not (of_data and _is_read_anyway(x, vector, an))]
    loads = const(float(len(asking)), "float64")
    if (even := _repeats(asked, vector, an)) is not const(False):  # both sides are loaded, and lanes taken in turns
        return loads * select(even, ratio(const(1), site.lanes), const(1.0, "float64"))
    if not all(_is_border(c, site, an) for c in asked):
        return loads
    used = frozenset(v for c in asked for v in variables(c))
    vectors = [x.extent for x in site.loops if x.var in used and x.kind != "vectorize"][-1:]
    share = minimum(const(1.0, "float64"), ratio(const(len(asked)), reduce(mul, vectors, const(1))))
    at_once = sum(machine.masks_bytes or x.dtype.bytes >= WORD for x in asking)
    each = const(float(len(asking) - at_once), "float64")
    return share * (each + ratio(const(float(at_once), "float64"), site.lanes))


def _is_read_anyway(load: Expr, vector: For, an: Analyzer) -> bool:
    """Whether code generation reads a vector of evenly spaced elements for all lanes: it knows that they are there."""
    return all(map(is_const, load.value.shape)) and step(load, vector.var, an) is not None


def _is_border(condition: Expr, site: Site, an: Analyzer) -> bool:
    """Whether a condition compares a place that moves evenly with the lanes with a limit."""
    if condition.op not in ORDERS or not is_index(condition.args[0]):
        return False
    apart = an.poly(condition.args[0] - condition.args[1])
    for v in site.vectorized & variables(condition):
        linear = apart.linear_in(v)
        if linear is None or any(v in variables(atom) for atom in linear[1].atoms()):
            return False
    return True


def step(access: Expr, v: Expr, an: Analyzer) -> Expr | None:
    """Elements from what one iteration of a loop reads to what the next one does, clamps aside; None if it varies."""
    moving = [unclamped(index, v, an) if v in variables(index) else const(0) for index in access.args]
    offset = row_major_offset(moving, access.value.shape)
    linear = an.poly(offset).linear_in(v)
    if linear is None or any(v in variables(atom) for atom in linear[1].atoms()):
        return None
    by = linear[0].expr()
    return by if all(x.value.role in ("size", "knob") for x in variables(by)) else None


def _in_one_block(load: Expr, loop: For, an: Analyzer, widest: int) -> Expr:
    """Whether the lanes of a vector lie together, at most so far apart, because blocks of an index end where vectors
    do: a channel's group `o//32`, a panel `j//(2*lanes)`."""
    v, conditions = loop.var, list[Expr]()
    done: dict[Expr, Expr] = {}
    for e in post_order(load.args):
        args = tuple(done[a] for a in e.args)
        done[e] = rebuild(e, args) if args else e
        if e.op not in ("floordiv", "floormod") or v not in variables(e.args[0]) or v in variables(e.args[1]):
            continue
        linear = an.poly(args[0]).affine_in(v)
        if linear is None or linear[0] != 1 or linear[1].terms.get((), 0):
            return const(False)
        begin = linear[1].expr()
        done[e] = floordiv(begin, args[1]) if e.op == "floordiv" else floormod(begin, args[1]) + v
        conditions.append(compare("eq", floormod(args[1], loop.extent), 0))
    by = step(rebuild(load, tuple(done[a] for a in load.args)), v, an) if conditions else None
    if by is None:
        return const(False)
    near = logical_and(compare("ge", by, 0), compare("le", by, widest))
    return reduce(logical_and, conditions, near)


def unclamped(index: Expr, v: Expr, an: Analyzer | None = None) -> Expr:
    """An index as it is away from the borders: of a clamp, the side that moves with `v`; of a place on a ring, which
    `an` tells, the place before it wraps."""

    def side(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        moving = [a for a in args if v in variables(a)]
        clamp = e.op in ("min", "max") and len(moving) == 1
        choice = e.op in CHOICES
        ring = e.op == "floormod" and an is not None and wraps(e, an, roughly=True) is not None
        return moving[0] if clamp else args[1] if choice else args[0] if ring else None

    return rewrite(index, side)
