"""Random index expressions, and their values by brute force: the oracle of the simplifier's tests.

The values come from an evaluator of its own (NumPy int64 over every assignment at once), which
shares nothing with `autosched.ir` but the expression class.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from autosched.ir.expr import (
    Expr,
    cast,
    const,
    floordiv,
    floormod,
    if_then_else,
    likely,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    neg,
    select,
    truncdiv,
    truncmod,
    var,
)
from autosched.ir.simplify import Analyzer

Env = dict[Expr, np.ndarray]


# -- values ---------------------------------------------------------------------------------------


def _floordiv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _truncdiv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return _floordiv(np.abs(a), np.abs(b)) * np.sign(a) * np.sign(b)


BY_OP: dict[str, Callable[..., np.ndarray]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "floordiv": _floordiv,
    "floormod": lambda a, b: np.where(b == 0, 0, a - b * _floordiv(a, b)),
    "truncdiv": _truncdiv,
    "truncmod": lambda a, b: np.where(b == 0, 0, a - b * _truncdiv(a, b)),
    "min": lambda a, b: np.where(a < b, a, b),
    "max": lambda a, b: np.where(a < b, b, a),
    "lt": lambda a, b: (a < b).astype(np.int64),
    "le": lambda a, b: (a <= b).astype(np.int64),
    "gt": lambda a, b: (a > b).astype(np.int64),
    "ge": lambda a, b: (a >= b).astype(np.int64),
    "eq": lambda a, b: (a == b).astype(np.int64),
    "ne": lambda a, b: (a != b).astype(np.int64),
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "not": lambda a: 1 - a,
    "likely": lambda a: a,
    "cast": lambda a: a,
    "select": lambda c, a, b: np.where(c, a, b),
    "if_then_else": lambda c, a, b: np.where(c, a, b),
}


def values(e: Expr, env: Env, done: dict[Expr, np.ndarray] | None = None) -> np.ndarray:
    """The exact value of an index expression for every assignment in `env`; conditions are 0 or 1."""
    done = {} if done is None else done
    if e in env:
        return env[e]
    if e.op == "const":
        return np.int64(e.value)
    if e not in done:
        done[e] = np.asarray(BY_OP[e.op](*(values(a, env, done) for a in e.args)), dtype=np.int64)
    return done[e]


# -- scopes ---------------------------------------------------------------------------------------


class Choices(Protocol):
    """Where a generator takes its decisions from: a seed, or hypothesis."""

    def integer(self, low: int, high: int) -> int: ...

    def pick(self, options: Sequence[str]) -> str: ...


class Seeded:
    """Decisions from `random.Random(seed)`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, options: Sequence[str]) -> str:
        return self._random.choice(options)


@dataclass
class Scope:
    """Variables with ranges, declared outermost first, and the sizes that divisors are made of.

    `ranges[v]` is (lowest, highest) as expressions over variables declared before `v`.
    """

    ranges: dict[Expr, tuple[Expr, Expr]] = field(default_factory=dict)
    sizes: list[Expr] = field(default_factory=list)
    signed: list[Expr] = field(default_factory=list)  # of either sign, never zero

    def declare(self, name: str, low: object, high: object, role: str = "loop", of: str = "int32") -> Expr:
        v = var(name, of, role)
        self.ranges[v] = (const(low), const(high))  # type: ignore[assignment]
        if role in ("size", "knob"):
            self.sizes.append(v)
        return v

    def analyzer(self) -> Analyzer:
        an = Analyzer()
        for v, (low, high) in self.ranges.items():
            an.bind(v, low, high)
        return an

    def assignments(self) -> Env:
        """Every assignment in range, one array for each variable."""
        rows: list[dict[Expr, int]] = [{}]
        for v, bounds in self.ranges.items():
            grown = []
            for row in rows:
                env = {u: np.int64(x) for u, x in row.items()}
                low, high = (int(values(b, env)) for b in bounds)
                grown += [{**row, v: x} for x in range(low, high + 1)]
            rows = grown
        rows = [row for row in rows if all(row[v] for v in self.signed)]
        return {v: np.array([row[v] for row in rows], dtype=np.int64) for v in self.ranges}


def random_scope(c: Choices) -> Scope:
    """Two sizes or knobs and two to three loops, with ranges constant, symbolic or of each other."""
    s = Scope()
    w = s.declare("W", c.integer(0, 1), c.integer(1, 4), "size", c.pick(("int32", "int32", "int32", "int64")))
    if c.integer(0, 1):
        s.declare("t", c.integer(1, 2), 3, "knob")
    if not c.integer(0, 4):
        s.signed.append(s.declare("m", -2, 2, "scalar"))
    for name in ("i", "j", "k")[: c.integer(1, 3)]:
        previous = list(s.ranges)[-1]
        match c.pick(("constant", "negative", "size", "scaled", "shifted", "chained")):
            case "constant":
                s.declare(name, 0, c.integer(0, 6))
            case "negative":
                s.declare(name, c.integer(-5, 0), c.integer(0, 3))
            case "size":
                s.declare(name, 0, w - 1)
            case "scaled":
                s.declare(name, 0, w * c.integer(2, 3) - 1)
            case "shifted":
                s.declare(name, w - 2, w + c.integer(-2, 2))
            case "chained":
                s.declare(name, previous, previous + c.integer(0, 3))
    return s


# -- expressions ----------------------------------------------------------------------------------

INTEGER_OPS = (
    "var var var const add add sub sub mulc mulc mulv floordiv floordiv floormod floormod "
    "divsize modsize min max select neg cond wide split trunc odd product"
).split()
BOOL_OPS = "lt le gt ge eq ne lt le and or not likely".split()


def divisor(c: Choices, s: Scope) -> Expr:
    """A constant, a size, or a product of both: positive, or 0 where a size is."""
    size = s.sizes[c.integer(0, len(s.sizes) - 1)]
    match c.pick(("const", "size", "scaled", "product")):
        case "const":
            return const(c.integer(1, 7))
        case "size":
            return size
        case "scaled":
            return size * c.integer(2, 3)
    return size * s.sizes[c.integer(0, len(s.sizes) - 1)]


def integer_expr(c: Choices, s: Scope, depth: int) -> Expr:
    """A random integer index expression at most `depth` operators deep."""

    def sub() -> Expr:
        return integer_expr(c, s, depth - 1)

    op = c.pick(INTEGER_OPS) if depth > 0 else c.pick(("var", "var", "const"))
    match op:
        case "var":
            pool = list(s.ranges)
            return pool[c.integer(0, len(pool) - 1)]
        case "const":
            return const(c.integer(-8, 8))
        case "add":
            return sub() + sub()
        case "sub":
            return sub() - sub()
        case "mulc":
            return sub() * c.integer(-4, 4)
        case "mulv":
            return sub() * s.sizes[c.integer(0, len(s.sizes) - 1)]
        case "floordiv":
            return floordiv(sub(), c.integer(1, 6))
        case "floormod":
            return floormod(sub(), c.integer(1, 6))
        case "divsize":
            return floordiv(sub(), divisor(c, s))
        case "modsize":
            return floormod(sub(), divisor(c, s))
        case "min":
            return minimum(sub(), sub())
        case "max":
            return maximum(sub(), sub())
        case "select":
            choose = select if c.integer(0, 1) else if_then_else
            return choose(condition_expr(c, s, depth - 1), sub(), sub())
        case "neg":
            return neg(sub())
        case "cond":
            return cast("int32", condition_expr(c, s, depth - 1))
        case "wide":
            return cast("int64", sub())
        case "product":  # shallow: the values must stay far from the end of int64
            return integer_expr(c, s, min(depth - 1, 2)) * integer_expr(c, s, 1)
        case "split":  # what fuse and split leave behind: (x // d) * d + x % d
            x, d = sub(), divisor(c, s)
            return floordiv(x, d) * d + floormod(x, d)
    if op == "odd":  # divisors that are not positive
        by = s.signed[0] if s.signed and c.integer(0, 1) else const(c.integer(-4, 0))
        return (floordiv if c.integer(0, 1) else floormod)(sub(), by)
    divide = truncdiv if c.integer(0, 1) else truncmod
    return divide(sub(), c.integer(1, 5) * (1 if c.integer(0, 3) else -1))


def condition_expr(c: Choices, s: Scope, depth: int) -> Expr:
    """A random condition over index expressions."""
    op = c.pick(BOOL_OPS if depth > 0 else BOOL_OPS[:6])
    if op in ("and", "or"):
        combine = logical_and if op == "and" else logical_or
        return combine(condition_expr(c, s, depth - 1), condition_expr(c, s, depth - 1))
    if op == "not":
        return logical_not(condition_expr(c, s, depth - 1))
    if op == "likely":
        return likely(condition_expr(c, s, depth - 1))
    a, b = (integer_expr(c, s, max(depth - 1, 0)) for _ in range(2))
    match op:
        case "lt":
            return a < b
        case "le":
            return a <= b
        case "gt":
            return a > b
        case "ge":
            return a >= b
        case "eq":
            return a == b
    return a != b


def subsets(items: Sequence[Expr], c: Choices) -> list[Expr]:
    return [v for v in items if c.integer(0, 1)]


def describe(s: Scope, *found: object) -> str:
    ranges = ", ".join(f"{v!r} in [{low!r}, {high!r}]" for v, (low, high) in s.ranges.items())
    return "; ".join([ranges, *map(repr, found)])
