"""Vector indices whose lanes lie at fixed distances: what a multiple of the lanes hides is found again.

    (ramp(48*b, 1, 48)//3)*6   ->   broadcast(96*b) + (ramp(0, 1, 48)//3)*6

The second form is a scalar and a vector of constants. A load from there is a few wide loads and a
shuffle instead of a gather, and arithmetic on the constants, such as the weights of an interpolation,
is done by the compiler.
"""

from __future__ import annotations

from dataclasses import replace

from autosched.ir.dtype import INT32, INT64
from autosched.ir.expr import (
    Expr,
    broadcast,
    is_index,
    make,
    ramp,
    var,
    variables,
)
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Stmt, Store, map_stmt
from autosched.ir.visit import rebuild, rewrite

__all__ = ["split_patterns"]

_LANE = var("lane", role="loop")


def split_patterns(s: Stmt) -> Stmt:
    """`s` with its vector index arithmetic split into a scalar and a pattern, where that is possible."""
    done: dict[Expr, Expr] = {}

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if e.op == "load" and args[0] is not e.args[0]:
            return make("load", e.dtype, (_place(args[0]),), e.value)
        is_pattern = e.args and e.dtype.lanes > 1 and is_index(e) and e.op not in ("ramp", "broadcast")
        return _split(e) if is_pattern else None

    def on_stmt(s: Stmt) -> Stmt:
        return replace(s, indices=tuple(map(_place, s.indices))) if isinstance(s, Store) else s

    return map_stmt(s, lambda e: rewrite(e, change, done), on_stmt)


def _place(index: Expr) -> Expr:
    """An index without a change of its type, which only values need."""
    return index.args[0] if index.op == "cast" and is_index(index) and not index.args[0].dtype.is_bool else index


def _split(e: Expr) -> Expr | None:
    """The vector as a scalar plus a vector over the number of the lane alone; None if it is no such sum."""
    lanes = e.dtype.lanes
    scalar = _one_lane(e, {})
    if scalar is None:
        return None
    an = Analyzer()
    an.bind(_LANE, 0, lanes - 1)
    moving: dict[tuple[Expr, ...], int] = {}
    rest: dict[tuple[Expr, ...], int] = {}
    for monomial, factor in an.poly(scalar).terms.items():
        mentioned = {v for atom in monomial for v in variables(atom)}
        if _LANE in mentioned and len(mentioned) > 1:
            return None
        (moving if _LANE in mentioned else rest)[monomial] = factor
    base = broadcast(Poly(rest).expr(), lanes)
    result = base + _all_lanes(Poly(moving).expr(), lanes, {}) if moving else base
    if result.dtype == e.dtype:
        return result
    # a polynomial knows no types: what is a value keeps its own; the cast of an index is exact
    return make("cast", e.dtype, (result,)) if e.dtype.scalar in (INT32, INT64) else None


def _one_lane(e: Expr, done: dict[Expr, Expr | None]) -> Expr | None:
    """The vector's element in lane `_LANE`; None for operations between lanes."""
    if e.dtype.lanes == 1:
        return e
    if e not in done:
        if e.op == "broadcast":
            done[e] = e.args[0]
        elif e.op == "ramp":
            done[e] = e.args[0] + e.args[1] * _LANE
        else:
            args = [_one_lane(a, done) for a in e.args]
            known = [a for a in args if a is not None]
            simple = e.op in ("add", "sub", "mul", "floordiv", "floormod", "min", "max", "neg")
            done[e] = rebuild(e, tuple(known)) if simple and len(known) == len(args) else None
    return done[e]


def _all_lanes(e: Expr, lanes: int, done: dict[Expr, Expr]) -> Expr:
    """The inverse: `_LANE` becomes 0, 1, ..., lanes - 1."""
    if _LANE not in variables(e):
        return e
    if e is _LANE:
        return ramp(0, 1, lanes)
    if e not in done:
        done[e] = rebuild(e, tuple([_all_lanes(a, lanes, done) for a in e.args]))
    return done[e]
