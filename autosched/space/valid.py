"""The valid points of knobs under conditions: counted exactly, numbered, drawn without rejection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, variables
from autosched.space.residual import Residual, Step, conjuncts, normal

#: Characters of a condition that are shown.
WIDTH = 100

Knobs = Sequence[tuple[Expr, Sequence[int]]]


def conflicting(knobs: Knobs, conditions: Sequence[Expr], fixed: Mapping[Expr, int] | None = None) -> list[int]:
    """Positions of conditions that cannot hold together, none of which can be left out.

    Deletion: each condition in turn is left out for good if the others contradict each other without
    it (Chinneck and Dravnieks, "Locating Minimal Infeasible Constraint Sets in Linear Programs", 1991).
    Empty if there is a point after all, or if it cannot be told because counting would take too much.

    >>> from autosched.ir.expr import var
    >>> a, b = var("a"), var("b")
    >>> conflicting([(a, (1, 2, 4)), (b, (1, 2, 4))], [a * b <= 4, a <= b, a >= 4])
    [0, 1, 2]
    """

    def is_empty(kept: Sequence[int]) -> bool:
        return valid_points(knobs, [conditions[i] for i in kept], fixed).count == 0

    core = list(range(len(conditions)))
    if not is_empty(core):
        return []
    for i in range(len(conditions)):
        without = [k for k in core if k != i]
        if is_empty(without):
            core = without
    return core


def explain(
    knobs: Knobs, conditions: Sequence[tuple[Expr, str]], fixed: Mapping[Expr, int] | None = None
) -> tuple[str, str] | None:
    """Why no point meets all conditions (expression, reason), and what leaving one out would give.

    None if there is a point, or it cannot be told.
    """
    core = conflicting(knobs, [c for c, _ in conditions], fixed)
    if not core:
        return None
    named = [_named(*conditions[i]) for i in core]
    used = {v for i in core for v in variables(conditions[i][0])}
    values = [f"{v.name} is one of {list(x)}" for v, x in knobs if v in used and len(x) <= 16]
    sizes = [f"{v.name} is {n}" for v, n in (fixed or {}).items() if v in used]
    what = "does not hold for any values of its knobs" if len(core) == 1 else "cannot hold together"
    rest = [valid_points(knobs, [c for k, (c, _) in enumerate(conditions) if k != i], fixed).count for i in core]
    left = [
        f"without {name}: {count} point{'' if count == 1 else 's'}" for name, count in zip(named, rest, strict=True)
    ]
    return f"{' and '.join(named)} {what}", "\n  ".join(
        [*left, *([", ".join([*values, *sizes])] if values or sizes else [])]
    )


def _named(condition: Expr, reason: str) -> str:
    text = repr(condition)
    if len(text) > WIDTH:
        text = text[: WIDTH - 3] + "..."
    return f"{text} ({reason})" if reason and reason != repr(condition) else text


#: Edges between the nodes of two knobs, at most: beyond, conditions are left to be checked later.
MOST_EDGES = 1 << 22
#: Combinations of a node and a value that are tried for one knob, at most.
MOST_TRIED = 1 << 24
#: Of these so many are evaluated together.
CHUNK = 1 << 18
#: Nodes looked at to choose the condition that is left out.
SAMPLE = 1 << 14
#: Counts below this are kept in int64, others as Python integers.
FAR = 2.0**62

IntArray = NDArray[np.int64]


@dataclass(slots=True)
class _Level:
    """The edges from the nodes before a knob to those after it, ordered by node and value."""

    column: int  # the knob, in the order of declaration
    start: IntArray  # [nodes + 1]: where the edges of each node begin
    value: IntArray  # [edges]: index into the knob's values
    child: IntArray  # [edges]: the node it leads to
    above: NDArray[Any]  # [edges + 1]: points through earlier edges; object where int64 is too small
    keys: IntArray | None = None  # of the edges, ascending: their node and value as one number

    def find(self, node: IntArray, value: IntArray, radix: int) -> tuple[IntArray, NDArray[np.bool_]]:
        """The edge from each node for each value, and whether there is one."""
        if self.keys is None:
            self.keys = np.repeat(np.arange(len(self.start) - 1), np.diff(self.start)) * radix + self.value
        wanted = node * radix + value
        edge = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return edge, np.asarray(self.keys[edge] == wanted)

    def counts(self) -> NDArray[Any]:
        """How many points each node has."""
        return np.asarray(self.above[self.start[1:]] - self.above[self.start[:-1]])


class ValidPoints:
    """The points of knobs under conditions, numbered from 0.

    `count`: how many. `exact`: whether all of them are valid; if not, the diagram would have been
    too large with all conditions, and `dropped` lists those left out (positions in what was given):
    the numbers stand for a superset then, of which the caller must reject what is not valid.
    """

    def __init__(self, radices: Sequence[int], levels: list[_Level], dropped: Sequence[int], *, never: bool) -> None:
        self._radices = [int(r) for r in radices]
        self._levels = levels
        self.dropped = tuple(dropped)
        self.count = 0 if never else _count_up(levels)

    @property
    def exact(self) -> bool:
        return not self.dropped

    def rows(self, numbers: Sequence[int] | NDArray[Any]) -> IntArray:
        """The points [n, knobs] with these numbers, 0 <= number < count. Raises IndexError beyond."""
        rest = _integers(numbers)
        if len(rest) and (rest.min() < 0 or rest.max() >= self.count):
            raise IndexError(f"points are numbered from 0 to {self.count - 1}")
        found = np.zeros((len(rest), len(self._radices)), dtype=np.int64)
        node = np.zeros(len(rest), dtype=np.int64)
        for level in self._levels:
            if level.above.dtype != object:
                rest = rest.astype(np.int64)  # less than what the node has, which fits
            wanted = level.above[level.start[node]] + rest
            edge = np.searchsorted(level.above, wanted, side="right") - 1
            rest = wanted - level.above[edge]
            found[:, level.column] = level.value[edge]
            node = level.child[edge]
        return found

    def numbers(self, rows: Sequence[Sequence[int]] | IntArray) -> list[int]:
        """The inverse: the number of each of the points [n, knobs], -1 where it is not valid."""
        points = np.asarray(rows, dtype=np.int64).reshape(len(rows), len(self._radices))
        within = (points >= 0) & (points < np.array(self._radices, dtype=np.int64))
        inside: NDArray[np.bool_] = np.asarray(within.all(axis=1) & np.bool_(self.count > 0))
        number = np.zeros(len(points), dtype=object if self.count >= FAR else np.int64)
        node = np.zeros(len(points), dtype=np.int64)
        for level in self._levels:
            if not inside.any():
                break
            edge, found = level.find(node, points[:, level.column], self._radices[level.column])
            inside &= found
            number = number + (level.above[edge] - level.above[level.start[node]])
            node = level.child[edge]
        return [int(x) if good else -1 for x, good in zip(number.tolist(), inside.tolist(), strict=True)]


def _integers(numbers: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
    """int64 where they fit, else Python integers."""
    found = np.asarray(numbers)
    if found.dtype.kind in "iu" and found.dtype != np.uint64:
        return found.astype(np.int64)
    listed = [int(x) for x in numbers]
    return np.array(listed, dtype=np.int64 if max(listed, default=0) < FAR else object)


def _count_up(levels: list[_Level]) -> int:
    """Fill in `above` from the last knob to the first, drop edges that lead nowhere, and count all."""
    counts: NDArray[Any] = np.ones(1, dtype=np.int64)
    for level in reversed(levels):
        through = counts[level.child]
        alive = through > 0
        before = np.concatenate([[0], np.cumsum(alive)])
        level.start = before[level.start]
        level.value, level.child, through = level.value[alive], level.child[alive], through[alive]
        if through.dtype != object and through.astype(np.float64).sum() >= FAR:
            through = through.astype(object)
        elif through.dtype == object and sum(through.tolist()) < FAR:
            through = through.astype(np.int64)
        level.above = np.concatenate([np.zeros(1, dtype=through.dtype), np.cumsum(through)])
        counts = level.counts()
    return int(counts[0])


def valid_points(
    knobs: Sequence[tuple[Expr, Sequence[int]]], conditions: Sequence[Expr], fixed: Mapping[Expr, int] | None = None
) -> ValidPoints:
    """The points of knobs (variable, values) at which all conditions hold.

    `fixed` gives the values of other variables. A condition is any Boolean expression that
    `evaluate` takes, `among` included. Raises LowerError for a variable that is none of these.
    """
    return _Builder(knobs, conditions, fixed or {}).build()


class _Builder:
    """Makes the diagram, knob by knob."""

    def __init__(
        self, knobs: Sequence[tuple[Expr, Sequence[int]]], conditions: Sequence[Expr], fixed: Mapping[Expr, int]
    ) -> None:
        self.values = [np.asarray(values, dtype=np.int64) for _, values in knobs]
        self.variables = [v for v, _ in knobs]
        self.legal = [np.arange(len(values), dtype=np.int64) for values in self.values]
        self.is_empty = False
        parts: list[Expr] = []
        self.origin: list[int] = []  # of each part, the condition that it comes from
        for number, condition in enumerate(conditions):
            for part in conjuncts(normal(condition, fixed)):
                if not self._settled(part):
                    parts.append(part)
                    self.origin.append(number)
        order = _order([self._knobs_of(p) for p in parts], [len(x) for x in self.legal])
        self.order = order
        spans = {
            v: (int(x[i].min()), int(x[i].max())) if len(i) else (0, 0)
            for v, x, i in zip(self.variables, self.values, self.legal, strict=True)
        }
        self.residual = Residual(parts, [self.variables[k] for k in order], spans)
        self.active = list(range(len(parts)))
        self.levels: list[_Level] = []

    def _knobs_of(self, part: Expr) -> list[int]:
        used = set(variables(part))
        return [i for i, v in enumerate(self.variables) if v in used]

    def _settled(self, part: Expr) -> bool:
        """Whether the condition is about one knob at most: then it chooses among its values for good."""
        used = self._knobs_of(part)
        if len(used) > 1:
            return False
        if not used:
            self.is_empty |= not bool(evaluate([part], {})[0])
            return True
        (k,) = used
        (good,) = evaluate([part], {self.variables[k]: self.values[k][self.legal[k]]})
        self.legal[k] = self.legal[k][good.astype(bool)]
        return True

    def build(self) -> ValidPoints:
        states = np.zeros((1, 0), dtype=np.int64)
        columns: list[Expr] = []
        if self.is_empty:
            self.order = []
        for at, knob in enumerate(self.order):
            grown = None
            while grown is None:
                step = self.residual.step(at, self.active)
                if len(states) * len(self.legal[knob]) <= MOST_TRIED or not columns:
                    grown = self._grow(step, knob, states, columns)
                if grown is None:
                    states, columns = self._loosen(at - 1, states, columns)
            parent, value, states = grown
            start = np.searchsorted(parent, np.arange(_nodes(self.levels) + 1))
            states, child = _merged(states)
            columns = [name for name, _ in step.state]
            self.levels.append(_Level(knob, start, value, child, np.zeros(0, dtype=np.int64)))
        dropped = sorted({self.origin[c] for c in range(len(self.origin)) if c not in self.active})
        return ValidPoints([len(x) for x in self.values], self.levels, dropped, never=self.is_empty)

    def _grow(
        self, step: Step, knob: int, states: IntArray, columns: list[Expr]
    ) -> tuple[IntArray, IntArray, IntArray] | None:
        """The edges for one knob: the node, the value and the state of each. None if they are too many."""
        legal, variable = self.legal[knob], self.variables[knob]
        size = max(1, CHUNK // max(1, len(legal)))
        parts: list[tuple[IntArray, IntArray, IntArray]] = []
        total = 0
        for begin in range(0, len(states), size):
            block = states[begin : begin + size]
            node = np.repeat(np.arange(len(block)), len(legal))
            value = np.tile(legal, len(block))
            env: dict[Expr, Any] = {name: block[node, i] for i, name in enumerate(columns)}
            env[variable] = self.values[knob][value]
            after, good = _advance(step, env, len(node))
            parts.append((node[good] + begin, value[good], after[good]))
            total += len(parts[-1][0])
            if total > MOST_EDGES and columns:
                return None
        if not parts:
            return legal[:0], legal[:0], np.zeros((0, len(step.state)), dtype=np.int64)
        nodes, values, after = (np.concatenate(x) for x in zip(*parts, strict=True))
        return nodes, values, after

    def _loosen(self, at: int, states: IntArray, columns: list[Expr]) -> tuple[IntArray, list[Expr]]:
        """Leave out the condition without which the fewest nodes are left, and merge those."""
        pending = self.residual.pending(at, self.active)
        sample = states[np.linspace(0, len(states) - 1, min(len(states), SAMPLE)).astype(np.int64)]
        needs = {c: self.residual.columns(at, c) for c in pending}

        def kept(without: int) -> list[int]:
            used = {name for c in pending if c != without for name in needs[c]}
            return [i for i, name in enumerate(columns) if name in used]

        worst = min((c for c in pending if needs[c]), key=lambda c: len(_merged(sample[:, kept(c)])[0]))
        keep = kept(worst)
        self.active.remove(worst)
        states, merged = _merged(states[:, keep])
        self.levels[-1].child = merged[self.levels[-1].child]
        return states, [columns[i] for i in keep]


def _advance(step: Step, env: dict[Expr, Any], count: int) -> tuple[IntArray, NDArray[np.bool_]]:
    """The states after a knob is set, [count, columns], and which of them may lead to a point."""
    good = np.ones(count, dtype=np.bool_)
    for result in evaluate(step.decided, env):
        good &= result.astype(np.bool_)
    after = np.empty((count, len(step.state)), dtype=np.int64)
    for i, column in enumerate(evaluate([e for _, e in step.state], env)):
        after[:, i] = column
    for result in evaluate(step.possible, {name: after[:, i] for i, (name, _) in enumerate(step.state)}):
        good &= result.astype(np.bool_)
    return after, good


def _order(conditions: Sequence[Sequence[int]], radices: Sequence[int]) -> list[int]:
    """The knobs so that few conditions are undecided at a time: those that share conditions, even
    indirectly, one after the other; next always the one that leaves the fewest open, and decides the most."""
    order: list[int] = []
    left = dict.fromkeys(range(len(radices)))
    while left:
        known = set(order)
        begun = [k for k in left if any(k in c and known & set(c) for c in conditions)]

        def rank(k: int, known: set[int] = known) -> tuple[int, int, int, int]:
            about = [set(c) for c in conditions if k in c]
            decided = sum(c <= known | {k} for c in about)
            opened = sum(not known & c for c in about if not c <= known | {k})
            return opened - decided, -decided, radices[k], k

        best = min(begun or left, key=rank)
        order.append(best)
        del left[best]
    return order


def _nodes(levels: list[_Level]) -> int:
    """How many nodes there are after the last level."""
    return int(levels[-1].child.max(initial=-1)) + 1 if levels else 1


def _merged(states: IntArray) -> tuple[IntArray, IntArray]:
    """Each distinct row once, and for each row its place among them."""
    place = np.zeros(len(states), dtype=np.int64)
    for column in states.T:
        found, index = np.unique(column, return_inverse=True)
        place = np.unique(place * len(found) + index, return_inverse=True)[1]
    first = np.empty(int(place.max(initial=-1)) + 1, dtype=np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return states[first], place
