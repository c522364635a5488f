"""Sliding windows: of a region that moves as a loop advances, only the new part is computed.

    region at y: [y - 1, y + 1]        steady:  [y + 1, y + 1], one row in every iteration
                                       warm-up: [-1, 0], before the first one

A stage slides if it is stored at a loop outside the one it is computed at, and its region moves in one direction along
one dimension as the loops in between advance, by at most a known step. The step is bounded by how far the region's
start, an expression, moves from one iteration to the next. Clamps and divisions by constants move by bounded amounts
too: `min(max(y - 1, 0), H - 1)` slides by at most 1, and some elements are computed again, with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.ir.expr import Expr, compare, const, is_const, minimum, variables
from autosched.ir.node import order
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.visit import substitute
from autosched.schedule.stage import Loop


@dataclass(frozen=True, slots=True, eq=False)
class Slide:
    """A region that slides along `dimension`.

    warm_up, steady: first offset and length of the part computed before the first iteration of all `loops`, and of
                     the part computed in each
    folds:           storage for one window is enough: nothing behind it is read again
    """

    dimension: int
    loops: tuple[Expr, ...]
    warm_up: tuple[Expr, Expr]
    steady: tuple[Expr, Expr]
    folds: bool


def loop_free(p: Poly) -> bool:
    """Return whether a polynomial mentions only sizes and knobs."""
    return all(v.value.role in ("size", "knob") for v in p.variables)


def find_slide(
    start: list[Expr],
    extent: list[Expr],
    outer: Loop,
    inner: Loop,
    extents: dict[Loop, Expr],
    guards: Sequence[Expr],
    an: Analyzer,
) -> Slide | None:
    """The sliding of the region `start`, `extent` as the loops inside `outer` down to `inner` advance, or None.

    `extents` and `guards` are those of the stage whose loops they are. Of several dimensions the one that slides along
    the outermost loop is taken, since it saves most.
    """
    loops = outer.stage.loops
    between = loops[loops.index(outer) + 1 : loops.index(inner) + 1]
    found: list[tuple[int, Slide]] = []
    for d, low in enumerate(start):
        moving = [x for x in between if x.var in variables(low)]
        others = frozenset(v for i, e in enumerate(start) if i != d for v in variables(e))
        for skipped in range(len(moving)):  # all of them as one loop, or the innermost ones only
            group = moving[skipped:]
            if any(x.var in others for x in group):
                continue
            weights = _weights(group, extents, an)
            if all(_stays_skipped(g, weights, an) for g in guards):
                slide = _slide(d, start, extent, weights, not skipped, an)
                if slide is not None:
                    found.append((between.index(group[0]), slide))
                    break
    return min(found, key=lambda x: x[0])[1] if found else None


def find_blocks(
    start: list[Expr],
    extent: list[Expr],
    outer: Loop,
    inner: Loop,
    extents: dict[Loop, Expr],
    guards: Sequence[Expr],
    an: Analyzer,
) -> tuple[Expr, ...] | None:
    """The variables of the loops inside `outer` down to `inner`, if the region begins at 0 along its first dimension,
    moves on by its own length in each iteration of all of them, and stays the same along others; else None.
    """
    loops = outer.stage.loops
    between = loops[loops.index(outer) + 1 : loops.index(inner) + 1]
    low, *others = start
    if any(x.kind not in ("serial", "unroll") or x.thread for x in between):
        return None
    if any(x.var in variables(e) for x in between for e in others):
        return None
    weights = _weights(between, extents, an)
    moved = _movement(an.poly(low), weights, an)
    length = an.poly(extent[0])
    if moved is None or moved[0] != length or moved[1] != length:
        return None
    first = an.simplify(substitute(low, {v: const(0, v.dtype) for v in weights}))
    if not is_const(first, 0) or not all(_stays_skipped(g, weights, an) for g in guards):
        return None
    return tuple(weights)


def _weights(group: list[Loop], extents: dict[Loop, Expr], an: Analyzer) -> dict[Expr, Poly]:
    """The variables of the loops, outermost first, each with the number of iterations that one step stands for."""
    weights: dict[Expr, Poly] = {}
    weight = Poly.of(1)
    for loop in reversed(group):
        weights[loop.var] = weight
        weight = weight * an.poly(extents[loop])
    return dict(reversed(weights.items()))


def _slide(
    d: int, start: list[Expr], extent: list[Expr], weights: dict[Expr, Poly], folds: bool, an: Analyzer
) -> Slide | None:
    moved = _movement(an.poly(start[d]), weights, an)
    if moved is None:
        return None
    least, most = moved
    upwards = an.prove_nonneg(least)
    if not upwards and not an.prove_nonneg(-most):
        return None
    step = (most if upwards else -least).expr()
    new = an.simplify(minimum(step, extent[d]))
    old = an.simplify(extent[d] - new)
    if an.prove(compare("le", old, 0)):
        return None

    zero = const(0)
    warm_up, steady = ((zero, old), (old, new)) if upwards else ((new, old), (zero, new))
    return Slide(d, tuple(weights), warm_up, steady, folds)


def _stays_skipped(guard: Expr, weights: dict[Expr, Poly], an: Analyzer) -> bool:
    """Return whether a guard that skips an iteration skips all later ones, so that the first one to run warms up."""
    if not variables(guard) & weights.keys():
        return True
    holds = an.inequalities(guard)
    moves = [_movement(p, weights, an) for p in holds]
    return bool(holds) and all(m is not None and an.prove_nonneg(-m[1]) for m in moves)


def _movement(p: Poly, weights: dict[Expr, Poly], an: Analyzer) -> tuple[Poly, Poly] | None:
    """The least and the largest change of `p` from one iteration to the next; None if unknown.

    Several loops count as one if each contributes by its weight: `p` then depends on the number of the iteration only.
    """
    *outer, inner = weights
    split = p.linear_in(inner)
    if split is None or not loop_free(split[0]):
        return None
    slope, rest = split
    for v in outer:
        split = rest.linear_in(v)
        if split is None or split[0] != slope * weights[v]:
            return None
        rest = split[1]
    low = high = slope
    for atom in sorted(set(rest.atoms()), key=order):
        if not variables(atom) & weights.keys():
            continue
        split, moved = rest.linear_in(atom), _movement_of_atom(atom, weights, an)
        if split is None or moved is None or not loop_free(split[0]):
            return None
        factor, rest = split
        if an.prove_nonneg(factor):
            low, high = low + factor * moved[0], high + factor * moved[1]
        elif an.prove_nonneg(-factor):
            low, high = low + factor * moved[1], high + factor * moved[0]
        else:
            return None
    return None if rest.variables & weights.keys() else (low, high)


def _movement_of_atom(atom: Expr, weights: dict[Expr, Poly], an: Analyzer) -> tuple[Poly, Poly] | None:
    """The same for `min`, `max` and a division by what does not vary."""
    if atom.op in ("min", "max"):
        a, b = (_movement(an.poly(x), weights, an) for x in atom.args)
        if a is None or b is None:
            return None
        return an.extremum("min", a[0], b[0]), an.extremum("max", a[1], b[1])
    if atom.op != "floordiv":
        return None
    moved, divisor = _movement(an.poly(atom.args[0]), weights, an), an.poly(atom.args[1])
    if moved is None or not loop_free(divisor) or not an.prove_nonneg(divisor - 1):
        return None
    return an.floordiv(moved[0], divisor), an.floordiv(moved[1] + divisor - 1, divisor)
