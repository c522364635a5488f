"""Formulas over tuning parameters, written as Python: `block_size_x * block_size_y <= 1024`.

A text is parsed, looked at node by node, and becomes an expression over knobs. Nothing of it is ever
run as Python, so a formula can only compute: numbers, parameters, operators, comparisons, `in`,
`... if ... else ...`, and the functions `min`, `max`, `abs`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from autosched.errors import AutoschedError, UsageError
from autosched.ir import expr as E
from autosched.ir.expr import Expr

#: Characters of a formula, levels of nesting, and the largest exponent.
MAX_LENGTH = 2000
MAX_DEPTH = 64
MAX_EXPONENT = 64

_LEGAL = "numbers, parameters, + - * / // % **, comparisons, and, or, not, in, if-else, min, max, abs"

#: what Python's syntax stands for, on two expressions
_OPERATORS: dict[type[ast.operator] | type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: E.divide(E.cast("float64", a), E.cast("float64", b)),
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "min": lambda *a: reduce(E.minimum, a),
    "max": lambda *a: reduce(E.maximum, a),
    "abs": lambda a: abs(E.as_expr(a)),
}


@dataclass(frozen=True)
class Coded:
    """A parameter whose values are no integers: `var` is the position of the value in `choices`."""

    var: Expr
    choices: tuple[Any, ...]

    def equals(self, value: object) -> Expr:
        """Whether it has this value, which may be none of its choices."""
        at = [i for i, c in enumerate(self.choices) if c == value]
        return E.compare("eq", self.var, at[0]) if at else E.const(False, "bool")

    def number(self, asked: str) -> Expr:
        """Its value as a number. Raises UsageError for words."""
        if not all(isinstance(c, (int, float)) for c in self.choices):
            raise UsageError(
                f"{self.choices[0]!r} and its like are no numbers", asked=asked, legal="== and != with a quoted word"
            )
        value: Expr = E.const(float(self.choices[-1]), "float64")
        for i, c in enumerate(self.choices[:-1]):
            value = E.select(E.compare("eq", self.var, i), E.const(float(c), "float64"), value)
        return value


def formula(text: str, names: Mapping[str, Expr | Coded], asked: str) -> Expr:
    """The expression that a formula stands for; `names` gives each parameter.

    Raises UsageError, which begins with `asked`, for a text that is no formula, an unknown name, or an
    operation that formulas do not have.
    """
    what = f"{asked} {text!r}"
    tree = _parsed(text, what)
    try:
        return _Translation(names, what).expr(tree)
    except UsageError:
        raise
    except (AutoschedError, TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"it cannot be computed: {error}", asked=what, legal=_LEGAL) from None


def names_in(text: str) -> set[str]:
    """The names that a formula mentions; none for a text that is no formula."""
    try:
        return {n.id for n in ast.walk(_parsed(text, "")) if isinstance(n, ast.Name)}
    except UsageError:
        return set()


def _parsed(text: str, asked: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise UsageError(f"longer than {MAX_LENGTH} characters", asked=asked[:80], legal=_LEGAL)
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise UsageError(f"it is no formula: {why}", asked=asked, legal=_LEGAL) from None


class _Translation:
    """One formula on its way from syntax to expression."""

    def __init__(self, names: Mapping[str, Expr | Coded], asked: str) -> None:
        self.names, self.asked = names, asked

    def expr(self, node: ast.expr, depth: int = 0) -> Expr:
        """A number or a truth value."""
        value = self.visit(node, depth)
        if isinstance(value, Coded):
            return value.number(self.asked)
        if isinstance(value, str):
            raise UsageError(f"{value!r} is no number", asked=self.asked, legal=_LEGAL)
        return value

    def visit(self, node: ast.expr, depth: int) -> Expr | Coded | str:
        if depth > MAX_DEPTH:
            raise UsageError(f"nested deeper than {MAX_DEPTH}", asked=self.asked, legal=_LEGAL)
        deeper = depth + 1
        match node:
            case ast.Constant(value=str() as word):
                return word
            case ast.Constant(value=bool() as truth):
                return E.const(truth, "bool")
            case ast.Constant(value=int() | float() as number):
                return E.as_expr(number)
            case ast.Name(id=name):
                return self.named(name)
            case ast.BoolOp(op=op, values=values):
                join = E.logical_and if isinstance(op, ast.And) else E.logical_or
                return join(*(self.truth(v, deeper) for v in values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return E.logical_not(self.truth(operand, deeper))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return 0 - self.expr(operand, deeper)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.expr(operand, deeper)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self.power(self.expr(left, deeper), right)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self.expr(left, deeper), self.expr(right, deeper))  # type: ignore[no-any-return]
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [left, *others]
                pairs = zip(sides, ops, sides[1:], strict=False)
                return E.logical_and(*(self.comparison(a, op, b, deeper) for a, op, b in pairs))
            case ast.IfExp(test=test, body=body, orelse=other):
                return E.select(self.truth(test, deeper), self.expr(body, deeper), self.expr(other, deeper))
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS and args:
                return _FUNCTIONS[name](*(self.expr(a, deeper) for a in args))
        raise UsageError(f"{ast.unparse(node)} is not allowed in a formula", asked=self.asked, legal=_LEGAL)

    def named(self, name: str) -> Expr | Coded:
        found = self.names.get(name)
        if found is None:
            legal = f"parameters: {', '.join(self.names) or 'none'}"
            raise UsageError(f"there is no parameter {name!r}", asked=self.asked, legal=legal)
        return found

    def truth(self, node: ast.expr, depth: int) -> Expr:
        value = self.expr(node, depth)
        return value if value.dtype.is_bool else E.compare("ne", value, 0)

    def power(self, base: Expr, exponent: ast.expr) -> Expr:
        match exponent:
            case ast.Constant(value=int() as n) if 0 <= n <= MAX_EXPONENT:
                return reduce(operator.mul, [base] * n, E.const(1))
        why = f"the exponent {ast.unparse(exponent)} is not a number from 0 to {MAX_EXPONENT}"
        raise UsageError(why, asked=self.asked, legal="2**k is 1 << k")

    def comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr, depth: int) -> Expr:
        if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.List, ast.Tuple, ast.Set)):
            found = E.logical_or(E.const(False, "bool"), *(self.equal(left, e, depth) for e in right.elts))
            return found if isinstance(op, ast.In) else E.logical_not(found)
        if isinstance(op, ast.Eq):
            return self.equal(left, right, depth)
        if isinstance(op, ast.NotEq):
            return E.logical_not(self.equal(left, right, depth))
        if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](self.expr(left, depth), self.expr(right, depth))  # type: ignore[no-any-return]
        raise UsageError(f"{ast.unparse(right)} is no list of values", asked=self.asked, legal="x in (1, 2, 4)")

    def equal(self, left: ast.expr, right: ast.expr, depth: int) -> Expr:
        a, b = self.visit(left, depth), self.visit(right, depth)
        if isinstance(b, Coded) and not isinstance(a, Coded):
            a, b = b, a
        if isinstance(a, Coded) and isinstance(b, str):
            return a.equals(b)
        if isinstance(a, Coded) and isinstance(b, Coded) and any(isinstance(c, str) for c in (*a.choices, *b.choices)):
            both: Sequence[Any] = [c for c in a.choices if c in b.choices]
            return E.logical_or(E.const(False, "bool"), *(E.logical_and(a.equals(c), b.equals(c)) for c in both))
        numbers = [x.number(self.asked) if isinstance(x, Coded) else x for x in (a, b)]
        if any(isinstance(x, str) for x in numbers):
            raise UsageError("a word is compared with a number", asked=self.asked, legal=_LEGAL)
        return E.compare("eq", *numbers)
