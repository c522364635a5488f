"""Blocks with other loops: `transform_block_layout`, and blocks around some of a block's loops.

`transform_block_layout` gives a block new loops, by an index map of its axes.

for i, j: B[i, j] = f(i, j)   --transform_block_layout(B, lambda i, j: [i * 128 + j])->
    for f: B[f // 128, f % 128] = f(f // 128, f % 128)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

from autosched.errors import AutoschedError
from autosched.ir.expr import Expr, as_expr, const, is_const, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.visit import substitute
from autosched.lowering.bounds import inferred_ranges
from autosched.schedule.formulas import Layout
from autosched.schedule.loop import leaf_extents
from autosched.schedule.primitives.place import exchange
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Stage


class NoOrder(Exception):
    """The reason why an index map gives a block no loops."""


def groups(stage: Stage, index_map: Any) -> list[list[Loop]]:
    """The loops that each new one is made of, outermost first. Raises NoOrder."""
    loops = [stage.roots[a] for a in (*stage.axis, *stage.reduce_axis)]
    if stage.scatter_axes or stage.loops != [x for x in loops if x in stage.loops] or len(loops) != len(stage.loops):
        raise NoOrder(f"loops of {stage.name} were split, fused, reordered, or never were those of its axes")
    extents = {x: simplify(e) for x, e in leaf_extents(stage).items()}
    mapping: Callable[..., Any] = getattr(index_map, "map_indices", None) or (lambda given: index_map(*given))
    made = mapping([x.var for x in loops])
    found = [_group(as_expr(e), loops, extents) for e in (made if isinstance(made, (list, tuple)) else [made])]
    placed = [x for group in found for x in group]
    twice = next((x for x in placed if placed.count(x) > 1), None)
    lost = [x for x in loops if x not in placed]
    if twice is not None or any(not is_const(extents[x], 1) for x in lost):
        raise NoOrder(f"{(twice or lost[0]).name} is in {'several' if twice else 'none'} of the new indices")
    for x in lost:  # of one iteration
        next((g for g in found if g and g[0].is_reduce == x.is_reduce), found[0]).insert(0, x)
    for group in found:
        if len({x.is_reduce for x in group}) > 1:
            raise NoOrder(f"{' and '.join(x.name for x in group)} are not all spatial or all reduce loops")
    return [group for group in found if group]


def _group(e: Expr, loops: Sequence[Loop], extents: dict[Loop, Expr]) -> list[Loop]:
    """The loops of a sum like `i * 128 + j`, outermost first."""
    here = [x for x in loops if x.var in variables(e)]
    steps = {x: simplify(substitute(e, {x.var: x.var + 1}) - e) for x in here}
    start = simplify(substitute(e, {x.var: const(0) for x in here}))
    if not is_const(start, 0) or any(s.op != "const" or s.value < 1 for s in steps.values()):
        raise NoOrder(f"{e!r} is no sum of loops")
    units = [x for x in here if is_const(extents[x], 1)]
    inner = sorted((x for x in here if x not in units), key=lambda x: int(steps[x].value))
    weight: Expr = const(1)
    for x in inner:
        if not is_const(simplify(steps[x] - weight), 0):
            raise NoOrder(f"values of {e!r} overlap, or leave gaps")
        weight = simplify(weight * extents[x])
    return [*units, *reversed(inner)]


def repeating(s: Schedule, stage: Stage) -> list[Loop]:
    """A stage's loops without those of axes that run once where it is computed; all where that is not known yet."""
    try:
        ranges = inferred_ranges(s)
    except AutoschedError:
        return list(stage.loops)
    once = [x for x in stage.roots.values() if x in ranges and is_const(ranges[x].extent, 1)]
    return [x for x in stage.loops if x not in once]


def counterparts(s: Schedule, other: Schedule) -> dict[Loop, Loop]:
    """The loops of a schedule, and those of the same names in a copy of it."""
    copies = {x.name: x for x in other.stages}
    known = {x: {y.name: y for y in copies[x.name].loops} for x in s.stages if x.name in copies}
    return {loop: named[loop.name] for x, named in known.items() for loop in x.loops if loop.name in named}


def leaves(loop: Loop) -> list[Loop]:
    """The loop, or those that were made of it since."""
    if loop in loop.stage.loops:
        return [loop]
    return [x for r in loop.stage.relations if loop in r.parents for made in r.made for x in leaves(made)]


def parted(loops: list[Loop], inner: Sequence[Loop]) -> int:
    """The position in a list of loops where those begin that are inside, or were made of such."""
    inside = {x for loop in inner for x in leaves(loop)}
    return next((at for at, x in enumerate(loops) if x in inside), len(loops))


def as_before(
    apply: Callable[..., Any], stage: Stage, before: Sequence[Loop], extents: Sequence[Expr], layout: Layout
) -> None:
    """Give a stage the loops that it had before its layout was transformed, where the new indices are their digits.

    for a, i, b: B[a, i, b] = f(i, a * 4 + b)   --reorder(i, a, b), fuse(a, b)->
        for i, j: B[j // 4, i, j % 4] = f(i, j)
    """
    roots, reduced = [stage.roots[a] for a in stage.axis], [x for x in stage.loops if x.is_reduce]
    digits = _digits(layout.formulas, layout.placeholders, extents, [a.extent for a in stage.axis])
    if digits is None:
        return
    order = [roots[k] for group in digits for k in group]
    if [*order, *reduced] != stage.loops:
        apply("reorder", stage, *order, *reduced)
    made = [apply("fuse", stage, *(roots[k] for k in group)) if len(group) > 1 else roots[group[0]] for group in digits]
    for old, new in zip(before, made, strict=True):
        exchange(old, new)


def _digits(
    formulas: Sequence[Expr], old: Sequence[Expr], extents: Sequence[Expr], new: Sequence[Expr]
) -> list[list[int]] | None:
    """For each old index the new ones that are its digits, highest first; None unless each new one is of one."""
    groups: list[list[int]] = [[] for _ in old]
    spare: list[int] = []
    for k, e in enumerate(formulas):
        of = [i for i, p in enumerate(old) if p in variables(e)]
        if len(of) > 1:
            return None
        (groups[of[0]] if of else spare).append(k)
    an = Analyzer()
    for p, n in zip(old, extents, strict=True):
        an.bind(p, 0, n - 1)
    found = []
    for p, n, group in zip(old, extents, groups, strict=True):
        ordered = next(
            (list(ks) for ks in permutations(group) if _is_number(an, p, n, [(formulas[k], new[k]) for k in ks])), None
        )
        if ordered is None:
            return None
        found.append(ordered)
    if found:
        found[0] = [*spare, *found[0]]
    return found


def _is_number(an: Analyzer, p: Expr, n: Expr, digits: Sequence[tuple[Expr, Expr]]) -> bool:
    """Whether digits, with how many values each has, are those of a number below n."""
    value: Expr = const(0)
    total: Expr = const(1)
    for digit, count in digits:
        value, total = value * count + digit, total * count
    return bool(digits) and is_const(an.simplify(value - p), 0) and is_const(an.simplify(total - n), 0)
