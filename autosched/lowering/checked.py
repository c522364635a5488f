"""Run-time bounds checks: `build(..., bounds_check=True)`.

Before a statement that reads, each index that is not proven to be inside is compared. One that is outside goes to a
report, a parameter of its own, and the read gives 0 instead. The report has two numbers for each read of the program:
an index that was outside, and the extent that it should have been below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autosched.ir import stmt as S
from autosched.ir.dtype import INT64
from autosched.ir.expr import Expr, cast, compare, const, if_then_else, is_const, is_index, logical_and, logical_not
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, Function, Stmt
from autosched.ir.visit import needed_by_both, rebuild
from autosched.lowering.simplify_stmt import inside_loop
from autosched.lowering.storage import retarget

#: the name of the parameter that tells of indices outside
REPORT = "out_of_bounds"
#: a number of the report while nothing was outside
NOTHING = -(2**63)


@dataclass(frozen=True)
class Site:
    """A read that is checked: the tensor, the dimension, and the stage that reads."""

    tensor: str
    dimension: int
    reader: str


def with_checks(f: Function) -> tuple[Function, tuple[Site, ...]]:
    """The function with the report as an additional parameter, and the reads that the report is about, in order.

    `f` has one index for each dimension and no open knobs. Vector loops become plain ones. Reads by external code are
    not checked.
    """
    checks = _Checks()
    body = checks.within(f.body, Analyzer(), "")
    report = replace(checks.report, shape=(const(2 * max(len(checks.sites), 1)),))
    body = retarget(body, {checks.report: report})
    return replace(f, params=(*f.params, report), outputs=(*f.outputs, len(f.params)), body=body), tuple(checks.sites)


class _Checks:
    """The checks of one function."""

    def __init__(self) -> None:
        self.report = Buffer(REPORT, (const(1),), INT64)
        self.sites: list[Site] = []

    def within(self, s: Stmt, an: Analyzer, stage: str) -> Stmt:
        """`s` with checks of its reads."""
        match s:
            case S.Prefetch():
                return S.Seq(())
            case S.Produce():
                return S.Produce(s.name, self.within(s.body, an, s.name))
            case S.Seq() | S.Allocate() | S.While():
                return S.with_children(s, lambda c: self.within(c, an, stage))
        here = _Reader(self, an, stage)
        exprs = [here.of(e) for e in S.expressions(s)]
        inner: list[Stmt] = []
        match s:
            case S.For():
                with inside_loop(s, an):
                    inner.append(self.within(s.body, an, stage))
                s = replace(s, kind="serial") if s.kind in ("vectorize", "unroll") else s
            case S.If():
                for branch, holds in zip(S.children(s), (s.condition, logical_not(s.condition))):
                    with an.assuming(holds):
                        inner.append(self.within(branch, an, stage))
            case S.Let():
                inner.append(self.within(s.body, an, stage))
        return here.before(S.with_parts(s, exprs, inner))


class _Reader:
    """The reads of one statement: their replacements, and the comparisons before it."""

    def __init__(self, checks: _Checks, an: Analyzer, stage: str) -> None:
        self._checks, self._an, self._stage = checks, an, stage
        self._asked: list[Stmt] = []
        self._done: dict[tuple[Expr, tuple[Expr, ...]], Expr] = {}

    def before(self, s: Stmt) -> Stmt:
        return S.seq(*self._asked, s)

    def of(self, e: Expr, path: tuple[Expr, ...] = ()) -> Expr:
        """The expression with checked reads, where it is evaluated only if all conditions of `path` hold."""
        if not e.args:
            return e
        for n in range(len(path), -1, -1):  # what is known for more points holds for these
            found = self._done.get((e, path[:n]))
            if found is not None:
                return found
        made = self._done[e, path] = self._new(e, path)
        return made

    def _new(self, e: Expr, path: tuple[Expr, ...]) -> Expr:
        if e.op == "if_then_else":
            for shared in needed_by_both(e):
                self.of(shared, path)
            condition = self.of(e.args[0], path)
            sides = []
            for side, holds in zip(e.args[1:], (condition, logical_not(condition)), strict=True):
                with self._an.assuming(holds):
                    sides.append(self.of(side, (*path, holds)))
            return rebuild(e, (condition, *sides))
        args = tuple([self.of(a, path) for a in e.args])
        simple = rebuild(e, args)
        if e.op != "load" or len(args) != e.value.ndim:  # what is flat already comes from outside
            return simple
        found = [self._inside(e.value, d, i, path) for d, i in enumerate(args)]
        conditions = [c for c in found if c is not None]
        return if_then_else(logical_and(*conditions), simple, const(0, e.dtype)) if conditions else simple

    def _inside(self, buffer: Buffer, dimension: int, index: Expr, path: Sequence[Expr]) -> Expr | None:
        """The condition that an index is inside, None if that is proven. Adds the report of one that is not."""
        extent = buffer.shape[dimension]
        at = index if is_index(index) else cast(INT64, index)
        inside = self._an.simplify(logical_and(compare("ge", at, 0), compare("lt", at, extent)))
        if is_const(inside, True):
            return None
        sites, report = self._checks.sites, self._checks.report
        place = 2 * len(sites)
        sites.append(Site(buffer.name, dimension, self._stage))
        tell = S.seq(
            S.Store(report, (const(place),), cast(INT64, at)), S.Store(report, (const(place + 1),), cast(INT64, extent))
        )
        self._asked.append(S.If(logical_and(*path, logical_not(inside)), tell))
        return inside
