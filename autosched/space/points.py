"""The valid points of knobs under conditions: counted exactly, numbered, drawn without rejection.

They are a decision diagram with a level for each knob. Once the knobs a and b are set, `a * b * c <= 64` needs one
number of them, a * b. Such numbers are the *state* of a prefix. Prefixes with equal states can be completed in the same
ways: they are one node. `Residual` finds, for each knob, the numbers of the state, the conditions that are decided, and
what must hold if the others can still be met: bounds and divisibility.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.ir.evaluate import evaluate
from autosched.ir.expr import (
    OPS,
    Expr,
    cast,
    compare,
    const,
    floormod,
    is_const,
    logical_and,
    logical_or,
    make,
    maximum,
    minimum,
    var,
    variables,
)
from autosched.ir.ops import CHOICES, COMPARISONS
from autosched.ir.ranges import RULES, Interval
from autosched.ir.visit import conjuncts, post_order

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
#: variables and their values
Knobs = Sequence[tuple[Expr, Sequence[int]]]


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


class ValidPoints:
    """The points of knobs under conditions, numbered from 0 to `count` - 1.

    `dropped` lists conditions (positions in what was given) with which the diagram would have been too large. Where
    there are some, it is not `exact`: the numbers stand for a superset, of which the caller must reject what is not
    valid.
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
        counts = level.above[level.start[1:]] - level.above[level.start[:-1]]  # of each node before the knob
    return int(counts[0])


def valid_points(knobs: Knobs, conditions: Sequence[Expr], fixed: Mapping[Expr, int] | None = None) -> ValidPoints:
    """The points of knobs (variable, values) at which all conditions hold.

    `fixed` gives the values of other variables. A condition is any Boolean expression that `evaluate` takes. Raises
    LowerError for a variable that is none of these.
    """
    return _Builder(knobs, conditions, fixed or {}).build()


class _Builder:
    def __init__(self, knobs: Knobs, conditions: Sequence[Expr], fixed: Mapping[Expr, int]) -> None:
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
        self.order = _order([self._knobs_of(p) for p in parts], [len(x) for x in self.legal])
        spans = {
            v: (int(x[i].min()), int(x[i].max())) if len(i) else (0, 0)
            for v, x, i in zip(self.variables, self.values, self.legal, strict=True)
        }
        self.residual = Residual(parts, [self.variables[k] for k in self.order], spans)
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
            nodes = int(self.levels[-1].child.max(initial=-1)) + 1 if self.levels else 1
            start = np.searchsorted(parent, np.arange(nodes + 1))
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
    """The knobs, those that share conditions side by side; next always the one that leaves the fewest undecided."""
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


def _merged(states: IntArray) -> tuple[IntArray, IntArray]:
    """Each distinct row once, and for each row its place among them."""
    place = np.zeros(len(states), dtype=np.int64)
    for column in states.T:
        found, index = np.unique(column, return_inverse=True)
        place = np.unique(place * len(found) + index, return_inverse=True)[1]
    first = np.empty(int(place.max(initial=-1)) + 1, dtype=np.int64)
    first[place[::-1]] = np.arange(len(place))[::-1]
    return states[first], place


# -- what is left of conditions when knobs are set one after the other ----------------------------
#: Operators whose operands may be regrouped; integers wrap around, so `add` and `mul` are exact, too.
_CHAINS = frozenset(("add", "mul", "min", "max", "and", "or"))
#: Kinds of operators that make whole numbers (or truth values) of such.
_WHOLE = frozenset(("arith", "bits", "compare", "logic", "choice", "cast"))
#: Bounds beyond this are not used: the numbers may have wrapped around.
_FAR = 1 << 62


def normal(root: Expr, fixed: Mapping[Expr, int]) -> Expr:
    """`root` with numbers for fixed variables, without `sub`, and without casts of whole numbers, which do nothing."""
    done: dict[Expr, Expr] = {}
    for e in post_order(root):
        args = tuple(done[a] for a in e.args)
        if e in fixed:
            done[e] = const(int(fixed[e]), "int64")
        elif e.op in ("likely", "broadcast") or (e.op == "cast" and not args[0].dtype.is_bool):
            done[e] = args[0]
        elif e.op == "sub" and not e.dtype.is_float:
            negative = const(-int(args[1].value), "int64") if is_const(args[1]) else make("neg", e.dtype, (args[1],))
            done[e] = make("add", e.dtype, (args[0], negative))
        else:
            done[e] = make(e.op, e.dtype, args, None if e.op == "cast" else e.value) if args else e
        if args and not e.dtype.is_float and all(a.op == "const" for a in args):
            done[e] = const(evaluate([done[e]], {})[0].item(), "bool" if e.dtype.is_bool else "int64")
    return done[root]


@dataclass(frozen=True, slots=True)
class Step:
    """The effect of setting one knob."""

    state: tuple[tuple[Expr, Expr], ...]  #: variables kept from here on, each with its value of the state before
    decided: tuple[Expr, ...]  #: conditions on the state before and the knob
    possible: tuple[Expr, ...]  #: conditions on the new state without which what is undecided cannot be met


class Residual:
    """Conditions in normal form over knobs that are set in the order given; `spans` has each knob's least and greatest
    value."""

    def __init__(
        self, conditions: Sequence[Expr], order: Sequence[Expr], spans: Mapping[Expr, tuple[int, int]]
    ) -> None:
        self._rank = {knob: i for i, knob in enumerate(order)}
        self._time: dict[Expr, int] = {}  # the step after which an expression has a value; -1: it is constant
        self._whole: dict[Expr, bool] = {}
        self._names: dict[Expr, Expr] = {}  # expression -> the variable of the state that holds its value
        self._sources: dict[Expr, Expr] = {}  # the inverse
        self._spans = {k: (int(low), int(high)) for k, (low, high) in spans.items()}
        self.conditions = [self._regrouped(c) for c in conditions]

    def _note(self, e: Expr) -> None:
        """Fill the tables for `e`, whose arguments are there."""
        if e not in self._time:
            self._time[e] = self._rank[e] if e.op == "var" else max((self._time[a] for a in e.args), default=-1)
            is_leaf = e.op == "var" or (e.op == "const" and not e.dtype.is_float)
            self._whole[e] = is_leaf or (
                bool(e.args)
                and e.op != "div"
                and OPS[e.op].kind in _WHOLE
                and not (e.op == "cast" and e.dtype.is_float)
                and all(self._whole[a] for a in e.args)
            )

    def _regrouped(self, root: Expr) -> Expr:
        """Chains of one operator as left folds in the order in which the operands get their values."""
        done: dict[Expr, Expr] = {}
        for e in post_order(root):
            new = e
            if e.args:
                args = [done[a] for a in e.args]
                if e.op in _CHAINS and not e.dtype.is_float:
                    args = [x for a in args for x in self._operands(e.op, a)]
                    args.sort(key=lambda x: self._time[x])
                    new = args[0]
                    for x in args[1:]:
                        new = make(e.op, e.dtype, (new, x))
                        self._note(new)
                else:
                    new = make(e.op, e.dtype, tuple(args), None if e.op == "cast" else e.value)
            self._note(new)
            done[e] = new
        return done[root]

    @staticmethod
    def _operands(op: str, e: Expr) -> list[Expr]:
        found: list[Expr] = []
        while e.op == op:
            found.append(e.args[1])
            e = e.args[0]
        return [e, *found[::-1]]

    def _name(self, e: Expr) -> Expr:
        """The variable that holds its value in the state."""
        if e not in self._names:
            self._names[e] = var(f"state{len(self._names)}", "int64")
            self._sources[self._names[e]] = e
        return self._names[e]

    def _cut(self, root: Expr, step: int, state: dict[Expr, None]) -> Expr:
        """`root` over the state after `step` and the knobs still open; adds what it uses to `state`."""
        if self._time[root] < 0:
            return root
        if self._time[root] <= step and self._whole[root]:
            state[root] = None
            name = self._name(root)
            return compare("ne", name, 0) if root.dtype.is_bool else name
        args = tuple(self._cut(a, step, state) for a in root.args)
        return make(root.op, root.dtype, args, None if root.op == "cast" else root.value) if args else root

    def columns(self, step: int, condition: int) -> list[Expr]:
        """The variables of the state after `step` that one condition needs."""
        used: dict[Expr, None] = {}
        self._cut(self.conditions[condition], step, used)
        return [self._name(e) for e in used]

    def pending(self, step: int, active: Sequence[int]) -> list[int]:
        """The active conditions that are undecided after `step`."""
        return [c for c in active if self._time[self.conditions[c]] > step]

    def step(self, step: int, active: Sequence[int]) -> Step:
        """The effect of setting knob `step` where only the active conditions matter."""
        state: dict[Expr, None] = {}
        before: dict[Expr, None] = {}
        possible: list[Expr] = []
        for c in self.pending(step, active):
            used: dict[Expr, None] = {}
            rest = self._cut(self.conditions[c], step, used)
            state |= used
            if used:
                possible += [x for x in conjuncts(self._possible(rest)) if not is_const(x, True)]
        decided = [
            self._cut(self.conditions[c], step - 1, before) for c in active if self._time[self.conditions[c]] == step
        ]
        kept = [(self._name(e), self._cut(e, step - 1, {})) for e in state]
        numbers = tuple((name, cast("int64", e) if e.dtype.is_bool else e) for name, e in kept)
        return Step(numbers, tuple(decided), tuple(dict.fromkeys(possible)))

    def _possible(self, e: Expr) -> Expr:
        """A condition on the state alone that holds wherever `e` holds for some values of open knobs."""
        if e.op in ("and", "or"):
            sides = [self._possible(a) for a in e.args]
            return logical_and(*sides) if e.op == "and" else logical_or(*sides)
        if e.op not in COMPARISONS:
            return const(True)
        a, b = e.args[::-1] if e.op in ("gt", "ge") else e.args
        x, y = self._span(a), self._span(b)
        if x is None or y is None:
            return const(True)
        if e.op == "ne":
            return compare("ne", x.low, y.low) if x.is_known and y.is_known else const(True)
        if e.op == "eq":
            return logical_and(compare("le", x.low, y.high), compare("le", y.low, x.high), self._divides(a, b, x, y))
        return compare("lt" if e.op in ("lt", "gt") else "le", x.low, y.high)

    def _divides(self, a: Expr, b: Expr, x: Span, y: Span) -> Expr:
        """For n % (p * rest) == 0 and p * rest == n, where p and n have values by now: p divides n."""
        found: list[Expr] = []
        for one, other, other_span in ((a, b, y), (b, a, x)):
            if not other_span.is_known:
                continue
            if one.op in ("floormod", "truncmod") and is_const(other, 0):
                dividend, divisor = self._span(one.args[0]), one.args[1]
                if dividend is not None and dividend.is_known:
                    found += [floormod(dividend.low, p) for p in self._factor(divisor)]
            elif one.op == "mul":
                found += [floormod(other_span.low, p) for p in self._factor(one)]
        return logical_and(*(compare("eq", f, 0) for f in found))

    def _factor(self, product: Expr) -> list[Expr]:
        """The factor of a product that has a value by now, if those that have none cannot be 0."""
        factors = self._operands("mul", product)
        spans = [self._span(f) for f in factors]
        whole = self._span(product)
        known = [s.low for s in spans if s is not None and s.is_known]
        if whole is None or not known or any(s is None or (not s.is_known and s.numbers.low <= 0) for s in spans):
            return []
        p = reduce(mul, known, const(1, "int64"))
        return [] if p.op == "const" else [p]

    def _span(self, e: Expr) -> Span | None:
        """Bounds of a number over all values of the open knobs; None if they are not known."""
        if e.op == "const":
            return None if e.dtype.is_float else Span(e, e, Interval(int(e.value), int(e.value)))
        if e.op == "var":
            if e in self._spans:  # a knob that is open
                low, high = self._spans[e]
                return Span(const(low, "int64"), const(high, "int64"), Interval(low, high))
            source = self._sources[e]
            span = _TRUTH if source.dtype.is_bool else self._span(source)
            return None if span is None else Span(e, e, span.numbers)
        spans = [self._span(a) for a in e.args]
        if any(s is None for s in spans):
            return _TRUTH if e.dtype.is_bool else None
        found = _span_of(e, [s for s in spans if s is not None])
        return found if found is None or max(-found.numbers.low, found.numbers.high) < _FAR else None


@dataclass(frozen=True, slots=True)
class Span:
    """Bounds of a number as expressions over the state, and as integers that hold for every state."""

    low: Expr
    high: Expr
    numbers: Interval

    @property
    def is_known(self) -> bool:
        """Whether the number has a value by now."""
        return self.low is self.high


_TRUTH = Span(const(0), const(1), Interval(0, 1))


def _span_of(e: Expr, args: list[Span]) -> Span | None:
    """The bounds of an operator's result, from those of its arguments."""
    if e.dtype.is_bool:
        return _TRUTH
    if e.op == "cast":
        return args[0]
    a, b = args[-2 if len(args) > 1 else -1], args[-1]
    ends = _ends(e, a, b)
    if ends is None:
        return None
    chosen = e.op in CHOICES
    return Span(*ends, a.numbers | b.numbers if chosen else RULES[e.op](*(s.numbers for s in args)))


def _ends(e: Expr, a: Span, b: Span) -> tuple[Expr, Expr] | None:
    """The bounds that are expressions, of the last two arguments; both the only one where there is one."""
    positive = a.numbers.low >= 0 and b.numbers.low > 0
    match e.op:
        case "add":
            return a.low + b.low, a.high + b.high
        case "neg":
            return -a.high, -a.low
        case "mul":
            if a.numbers.non_negative and b.numbers.non_negative:
                return a.low * b.low, a.high * b.high
            products = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
            return reduce(minimum, products), reduce(maximum, products)
        case "min" | "max":
            pick = minimum if e.op == "min" else maximum
            return pick(a.low, b.low), pick(a.high, b.high)
        case "select" | "if_then_else":
            return minimum(a.low, b.low), maximum(a.high, b.high)
        case "floordiv" | "truncdiv" if positive:
            return make(e.op, e.dtype, (a.low, b.high)), make(e.op, e.dtype, (a.high, b.low))
        case "floormod" | "truncmod" if positive:
            if a.is_known and b.is_known:
                value = make(e.op, e.dtype, (a.low, b.low))
                return value, value
            return const(0), minimum(a.high, b.high - 1)
    return None
