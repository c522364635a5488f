"""Arithmetic and accesses, vectors and registers, tasks and work-groups, counted over all stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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
from autosched.ir.simplify import Analyzer, conjuncts
from autosched.ir.stmt import Allocate, Buffer, For, If, Stmt, walk
from autosched.ir.visit import contains, post_order, rebuild, substitute
from autosched.lowering.interior import wraps
from autosched.lowering.skipping import FEWEST_LANES, MOST_LANES, seldom_changes
from autosched.space.features.memory import Footprints, Machine, is_looked_up
from autosched.space.features.sites import (
    Nest,
    Site,
    is_task,
    limit_of,
    of_the_last,
    product,
    ratio,
    steps_of_chain,
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
            waits = 1 + 2 * _registers(site, machine) if row and moved.isdisjoint(x.var for x in row) else 0
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


def is_arithmetic(e: Expr) -> bool:
    """Whether it computes a value, not an index or a choice between values."""
    return not (is_index(e) or e.dtype.is_bool or e.op in ("load", *CHOICES))


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
    done: dict[Expr, Expr] = {}
    for e in post_order(index):
        args = tuple(done[a] for a in e.args)
        moving = [a for a in args if v in variables(a)]
        clamp = e.op in ("min", "max") and len(moving) == 1
        choice = e.op in CHOICES
        ring = e.op == "floormod" and an is not None and wraps(e, an, roughly=True) is not None
        done[e] = moving[0] if clamp else args[1] if choice else args[0] if ring else rebuild(e, args) if args else e
    return done[index]


def register_features(sites: Sequence[Site], main: Site, machine: Machine, prints: Footprints) -> dict[str, Expr]:
    """The columns of this file."""
    code, loads, spilled, live, each = dict[Expr | None, list[Expr]](), [], [], const(0), list[Expr]()
    for site in sites:
        instructions = 1 + sum(1 for e in post_order(site.store.value) if is_arithmetic(e) and OPS[e.op].flops)
        # a store is as often written out as it is unrolled, each time for as many registers as its vector fills
        written = product(site.copies) * _registers(site, machine) * const(instructions + len(site.loads))
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
        "vector_fill": ratio(width, _registers(main, machine) * machine.vector_bytes),
        "unrolled": product(main.copies),
        "accumulators": stored,
        "independent_sums": ratio(stored * _apart(main) * asked, const(steps_of_chain(main, sites))),
        "live_vectors": live,
        "spilled_vectors": maximum(live - machine.registers, 0),
        "spills": total(spilled),
        "register_loads": total(loads),
        "side_waits": total(_waits(x, machine) for x in sites if x is not main),
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


def _waits(site: Site, machine: Machine) -> Expr:
    """Steps of a sum of floats that wait for the one before."""
    if not site.is_sum or not site.store.buffer.dtype.is_float:
        return const(0)
    together = site.lanes * _stored(site, machine) * _apart(site)
    return ratio(site.iterations * _registers(site, machine), together)


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


def _registers(site: Site, machine: Machine) -> Expr:
    """Registers that one vector of a store fills."""
    return _filled(site.lanes * const(site.store.buffer.dtype.bytes), machine)


def _filled(size: Expr, machine: Machine) -> Expr:
    return floordiv(size + (machine.vector_bytes - 1), machine.vector_bytes)


def _vectors(indices: Iterable[Expr], width: int, site: Site, machine: Machine) -> Expr:
    """Registers for all that the copies of an access touch: copies along loops it does not depend on are one."""
    used = frozenset(v for i in indices for v in variables(i))
    lanes = product(x for x in site.loops if x.kind == "vectorize" and x.var in used)
    return product(x for x in site.copies if x.var in used) * _filled(lanes * const(width), machine)


#: Banks of shared memory, and the bytes of a word of one: NVIDIA's, and nearly all others'.
BANKS, BANK_BYTES = 32, 4


def parallel_features(
    root: Nest, main: Site, out: Site, body: Stmt, prints: Footprints, machine: Machine
) -> dict[str, Expr]:
    """The columns of this file."""
    tasks = product(main.outer)
    rounds = floordiv(tasks + (machine.units - 1), machine.units)
    return {
        "tasks": tasks,
        "task_iterations": ratio(main.iterations, tasks),
        "imbalance": maximum(ratio(rounds * machine.units, tasks), _last_task(main, tasks, machine)),
        "regions": _regions(root, const(1)),
        **_waste(out),
        **_groups(main, body, machine),
        **_item_loads(root.sites, prints),
    }


def _last_task(main: Site, tasks: Expr, machine: Machine) -> Expr:
    """How much longer units take for tasks of which conditions leave more and more, as the rows of a triangle: half of
    the last one, which is twice as long as the others on average, is done by one unit alone."""
    whole = const(1, "float64")
    last = reduce(maximum, (_slope(c, main) for c in main.asked), const(0, "float64"))
    return whole + last * ratio(const(machine.units - 1), tasks)


def _slope(condition: Expr, main: Site) -> Expr:
    """How far one side of a comparison goes for each step of the other, from 0 to 1, where tasks matter: 0 of a border,
    1 of the diagonal of a square."""
    none, sides = const(0, "float64"), condition.args
    if condition.op not in ORDERS or not all(map(is_index, sides)):
        return none
    if all(variables(e).isdisjoint(x.var for x in main.outer) for e in sides):
        return none
    if contains(sides, "load"):
        return none
    first = {x.var: x.start for x in reversed(main.loops)}
    last = {x.var: x.start + x.extent - 1 for x in reversed(main.loops)}
    last_task = first | {x.var: last[x.var] for x in main.outer}

    def moved(to: dict[Expr, Expr]) -> list[Expr]:
        ways = (substitute(e, to) - substitute(e, first) for e in sides)
        return [maximum(way, -way) for way in ways]

    short, long = minimum(*moved(last)), maximum(*moved(last))
    return select(maximum(*moved(last_task)) > 0, ratio(short, maximum(long, 1)), none)


def _regions(nest: Nest, times: Expr) -> Expr:
    """The number of times that a parallel loop, or a kernel, is begun: the outermost loops of its kind."""
    begun = []
    for x in nest.inside:
        if isinstance(x, Nest) and x.loop is not None:
            begins = is_task(x.loop) or x.loop.thread.startswith("threadIdx")
            begun.append(times if begins else _regions(x, times * x.loop.extent))
    return total(begun)


def _waste(out: Site) -> dict[str, Expr]:
    axes = [ratio(reached, extent) for reached, extent in _reached(out)]
    useful = reduce(mul, out.store.buffer.shape, const(1))
    none = const(1, "float64")
    worst = reduce(maximum, axes, none)
    return {"waste": ratio(out.iterations, useful), "axis_waste": worst, "row_waste": [none, *axes][-1]}


def _reached(site: Site) -> list[tuple[Expr, Expr]]:
    """Along each dimension of what is stored: elements from the first iteration to the last, and those there are.

    Not by intervals: a fused loop that is taken apart again, `f // n` and `f - f // n * n`, has both ends
    right where interval arithmetic sees two numbers that have nothing to do with each other.
    """
    first = {x.var: x.start for x in reversed(site.loops)}
    last = {x.var: x.start + x.extent - 1 for x in reversed(site.loops)}
    found = []
    for index, extent in zip(site.store.indices, site.store.buffer.shape, strict=True):
        reached = substitute(index, last) - substitute(index, first) + 1
        known = all(v.value.role in ("size", "knob") for v in variables(reached))
        known = known and not contains(reached, "load")
        found.append((maximum(reached, 1) if known else extent, extent))
    return found


def _groups(main: Site, body: Stmt, machine: Machine) -> dict[str, Expr]:
    threads = product(x for x in main.loops if x.thread.startswith("threadIdx"))
    warps = floordiv(threads + (machine.warp - 1), machine.warp)
    buffers = [s.buffer for s in walk(body) if isinstance(s, Allocate) and s.buffer.scope == "shared"]
    shared = total(b.elements * b.dtype.bytes for b in buffers)
    return {
        "threads": threads,
        "threads_x": product(x for x in main.loops if x.thread == "threadIdx.x"),
        "warp_fill": ratio(threads, warps * machine.warp),
        "shared_bytes": shared,
        "resident_groups": minimum(floordiv(const(machine.shared), maximum(shared, 1)), BANKS),
    }


def _item_loads(sites: tuple[Site, ...], prints: Footprints) -> dict[str, Expr]:
    """Loads whose neighbours in a warp are no neighbours in main memory, and queues at banks of shared memory."""
    apart, queued = [], []
    for site in sites:
        items = [x for x in site.loops if x.thread == "threadIdx.x"]
        for load in site.loads if items else ():
            by = step(load, items[-1].var, prints.an)
            if load.value.scope == "shared":
                queued.append(site.iterations * (const(BANKS) if by is None else _conflict(by, load.dtype.bytes)))
            elif load.value.scope == "global":
                near = const(False) if by is None else compare("le", by, maximum(site.lanes, 1))
                apart.append(site.iterations * select(near, 0, 1))
    return {"uncoalesced_loads": total(apart), "bank_conflicts": total(queued)}


def _conflict(by: Expr, width: int) -> Expr:
    """Work-items of 32 that queue for one bank, where neighbours are `by` elements apart."""
    words = by * const(max(1, width // BANK_BYTES))
    queue: Expr = const(1)
    for power in (2, 4, 8, 16, BANKS):
        queue = select(compare("eq", floormod(words, power), 0), power, queue)
    return select(compare("eq", by, 0), 1, queue)
