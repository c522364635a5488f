"""What is left of conditions when knobs are set one after the other.

When the knobs a, b are set, all that `a * b * c <= 64` still needs of them is one number, a * b.
Such numbers are the *state* of a prefix: two prefixes with the same state can be completed in the
same ways. This module finds, for each step, the numbers of the state, the conditions that are
decided by now, and what must hold if those that are not can still be met: bounds and divisibility.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

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
)
from autosched.ir.ranges import RULES, Interval
from autosched.ir.visit import post_order

#: Operators whose operands may be regrouped; integers wrap around, so `add` and `mul` are exact, too.
_CHAINS = frozenset(("add", "mul", "min", "max", "and", "or"))
#: Kinds of operators that make whole numbers (or truth values) of such.
_WHOLE = frozenset(("arith", "bits", "compare", "logic", "choice", "cast"))
#: Bounds beyond this are not used: the numbers may have wrapped around.
_FAR = 1 << 62


def conjuncts(e: Expr) -> list[Expr]:
    """The conditions that `e` joins with `and`."""
    if e.op == "likely":
        return conjuncts(e.args[0])
    return [c for a in e.args for c in conjuncts(a)] if e.op == "and" else [e]


def normal(root: Expr, fixed: Mapping[Expr, int]) -> Expr:
    """`root` with the fixed variables as numbers, sums without `sub`, and without casts of whole numbers:
    `evaluate`, which decides what is feasible, computes in 64 bits whatever the type is."""
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
    """One knob is set.

    `state`: the numbers kept from here on, each as a variable and how it is computed of the state
    before and the knob. `decided`: conditions on those before and the knob. `possible`: conditions
    on the new state without which what is undecided cannot be met.
    """

    state: tuple[tuple[Expr, Expr], ...]
    decided: tuple[Expr, ...]
    possible: tuple[Expr, ...]


class Residual:
    """Conditions in normal form over knobs that are set in the order given.

    `spans` gives each knob's least and greatest value.
    """

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
        self.order = tuple(order)

    # -- reading off an expression ------------------------------------------------------------------
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
        if e not in self._names:
            self._names[e] = var(f"state{len(self._names)}", "int64")
            self._sources[self._names[e]] = e
        return self._names[e]

    def _cut(self, root: Expr, step: int, state: dict[Expr, None], keep_root: bool = False) -> Expr:
        """`root` over the state after `step` and the knobs still open; adds what it uses to `state`."""

        def down(e: Expr, is_root: bool = False) -> Expr:
            if self._time[e] < 0:
                return e
            if self._time[e] <= step and self._whole[e] and not is_root:
                state[e] = None
                name = self._name(e)
                return compare("ne", name, 0) if e.dtype.is_bool else name
            if not e.args:
                return e
            return make(e.op, e.dtype, tuple(down(a) for a in e.args), None if e.op == "cast" else e.value)

        return down(root, keep_root)

    # -- the steps ------------------------------------------------------------------------------------
    def columns(self, step: int, condition: int) -> list[Expr]:
        """The variables of the state after `step` that one condition needs."""
        used: dict[Expr, None] = {}
        self._cut(self.conditions[condition], step, used)
        return [self._name(e) for e in used]

    def pending(self, step: int, active: Sequence[int]) -> list[int]:
        """Those of the active conditions that are undecided after `step`."""
        return [c for c in active if self._time[self.conditions[c]] > step]

    def step(self, step: int, active: Sequence[int]) -> Step:
        """What happens when knob `step` is set, and only the active conditions matter."""
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
        kept = [(self._name(e), self._next(e, step)) for e in state]
        return Step(tuple(kept), tuple(decided), tuple(dict.fromkeys(possible)))

    def _next(self, e: Expr, step: int) -> Expr:
        """How a number of the state after `step` is computed from the one before."""
        value = self._cut(e, step - 1, {})
        return cast("int64", value) if value.dtype.is_bool else value

    # -- what can still be met ---------------------------------------------------------------------------
    def _possible(self, e: Expr) -> Expr:
        """A condition on the state alone that holds wherever `e` holds for some values of open knobs."""
        if e.op in ("and", "or"):
            sides = [self._possible(a) for a in e.args]
            return logical_and(*sides) if e.op == "and" else logical_or(*sides)
        if e.op not in ("lt", "le", "gt", "ge", "eq", "ne"):
            return const(True)
        a, b = e.args[::-1] if e.op in ("gt", "ge") else e.args
        x, y = self._span(a), self._span(b)
        if x is None or y is None:
            return const(True)
        if e.op == "ne":
            is_known = x.low is x.high and y.low is y.high
            return compare("ne", x.low, y.low) if is_known else const(True)
        if e.op == "eq":
            return logical_and(compare("le", x.low, y.high), compare("le", y.low, x.high), self._divides(a, b, x, y))
        return compare("lt" if e.op in ("lt", "gt") else "le", x.low, y.high)

    def _divides(self, a: Expr, b: Expr, x: Span, y: Span) -> Expr:
        """For n % (p * rest) == 0 and p * rest == n, where p and n have values by now: p divides n."""
        found: list[Expr] = []
        for one, other, other_span in ((a, b, y), (b, a, x)):
            if other_span.low is not other_span.high:
                continue
            if one.op in ("floormod", "truncmod") and is_const(other, 0):
                dividend, divisor = self._span(one.args[0]), one.args[1]
                if dividend is not None and dividend.low is dividend.high:
                    found += [floormod(dividend.low, p) for p in self._factor(divisor)]
            elif one.op == "mul":
                found += [floormod(other_span.low, p) for p in self._factor(one)]
        return logical_and(*(compare("eq", f, 0) for f in found))

    def _factor(self, product: Expr) -> list[Expr]:
        """The factor of a product that has a value by now, if those that have none cannot be 0."""
        factors = self._operands("mul", product)
        spans = [self._span(f) for f in factors]
        whole = self._span(product)
        open_spans = [s for s in spans if s is None or s.low is not s.high]
        if whole is None or len(open_spans) == len(factors) or any(s is None or s.numbers.low <= 0 for s in open_spans):
            return []
        p: Expr = const(1, "int64")
        for s in spans:
            if s is not None and s.low is s.high:
                p = p * s.low
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
    chosen = e.op in ("select", "if_then_else")
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
            if a.low is a.high and b.low is b.high:
                value = make(e.op, e.dtype, (a.low, b.low))
                return value, value
            return const(0), minimum(a.high, b.high - 1)
    return None
