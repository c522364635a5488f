"""Partial derivatives of element-wise expressions, by reverse accumulation over the expression.

`DERIVATIVES` has one row for each differentiable operator: from the operands and the result to the
derivative with respect to each operand (Abramowitz and Stegun, chapters 3 to 7). Operators that
give integers, truths or steps have derivative zero where they have one, and end the search.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from autosched.errors import UsageError
from autosched.ir.expr import Expr, call, cast, const, if_then_else, is_const, make, neg, select
from autosched.ir.visit import post_order

__all__ = ["DERIVATIVES", "is_zero", "partials", "times"]


def _like(x: Expr, value: float) -> Expr:
    return const(value, x.dtype)


def _one(x: Expr) -> Expr:
    return _like(x, 1)


def _signs(a: Expr, b: Expr) -> Expr:
    """1 where both have the same sign, else -1."""
    return call("copysign", _one(a), a) * call("copysign", _one(b), b)


#: operator -> (operands..., result) -> the derivative with respect to each operand
DERIVATIVES: dict[str, Callable[..., tuple[Expr | None, ...]]] = {
    "add": lambda a, b, y: (_one(a), _one(b)),
    "sub": lambda a, b, y: (_one(a), _like(b, -1)),
    "mul": lambda a, b, y: (b, a),
    "div": lambda a, b, y: (_one(b) / b, neg(y / b)),
    "neg": lambda a, y: (_like(a, -1),),
    "abs": lambda a, y: (select(a >= 0, _one(a), _like(a, -1)),),
    "min": lambda a, b, y: (select(a <= b, _one(a), _like(a, 0)), select(a <= b, _like(b, 0), _one(b))),
    "max": lambda a, b, y: (select(a >= b, _one(a), _like(a, 0)), select(a >= b, _like(b, 0), _one(b))),
    "exp": lambda a, y: (y,),
    "exp2": lambda a, y: (y * math.log(2),),
    "exp10": lambda a, y: (y * math.log(10),),
    "log": lambda a, y: (_one(a) / a,),
    "log2": lambda a, y: (_like(a, 1 / math.log(2)) / a,),
    "log10": lambda a, y: (_like(a, 1 / math.log(10)) / a,),
    "log1p": lambda a, y: (_one(a) / (a + 1),),
    "sin": lambda a, y: (call("cos", a),),
    "cos": lambda a, y: (neg(call("sin", a)),),
    "tan": lambda a, y: (y * y + 1,),
    "asin": lambda a, y: (call("rsqrt", _one(a) - a * a),),
    "acos": lambda a, y: (neg(call("rsqrt", _one(a) - a * a)),),
    "atan": lambda a, y: (_one(a) / (a * a + 1),),
    "sinh": lambda a, y: (call("cosh", a),),
    "cosh": lambda a, y: (call("sinh", a),),
    "tanh": lambda a, y: (_one(a) - y * y,),
    "asinh": lambda a, y: (call("rsqrt", a * a + 1),),
    "acosh": lambda a, y: (call("rsqrt", a * a - 1),),
    "atanh": lambda a, y: (_one(a) / (_one(a) - a * a),),
    "erf": lambda a, y: (call("exp", neg(a * a)) * (2 / math.sqrt(math.pi)),),
    "sigmoid": lambda a, y: (y * (_one(a) - y),),
    "sqrt": lambda a, y: (_like(a, 0.5) / y,),
    "rsqrt": lambda a, y: (y / a * -0.5,),
    "pow": lambda a, b, y: (b * call("pow", a, b - 1), y * call("log", a)),
    "fmod": lambda a, b, y: (_one(a), neg(call("trunc", a / b))),
    "floormod": lambda a, b, y: (_one(a), neg(call("floor", a / b))),
    "truncmod": lambda a, b, y: (_one(a), neg(call("trunc", a / b))),
    "atan2": lambda a, b, y: (b / (a * a + b * b), neg(a / (a * a + b * b))),
    "hypot": lambda a, b, y: (a / y, b / y),
    "copysign": lambda a, b, y: (_signs(a, b), None),
    "ldexp": lambda a, n, y: (call("ldexp", _one(a), n), None),
    "likely": lambda a, y: (_one(a),),
}

#: steps: their derivative is zero wherever they have one
_FLAT = frozenset(("floor", "ceil", "trunc", "round", "nearbyint", "floordiv", "truncdiv"))
_CHOICES = {"select": select, "if_then_else": if_then_else}


def partials(e: Expr, start: Expr | None = None) -> dict[Expr, Expr]:
    """For every read of a float tensor in `e`, the derivative of `e` with respect to it.

    Indices are not looked into: the element that is read changes with its value alone. `start` is
    what all derivatives are multiplied with. Raises UsageError for an operator that has none.
    """
    adjoints: dict[Expr, Expr] = {e: start if start is not None else _one(e)}
    found: dict[Expr, Expr] = {}
    for node in reversed(_values(e)):
        adjoint = adjoints.get(node)
        if adjoint is None or is_zero(adjoint):
            continue
        if node.op == "read":
            found[node] = adjoint
            continue
        for operand, share in _shares(node, adjoint):
            known = adjoints.get(operand)
            adjoints[operand] = share if known is None else known + share
    return found


def _values(e: Expr) -> list[Expr]:
    """The float expressions that `e` is made of, operands first, without what only chooses or indexes."""
    inside = {e}
    for node in reversed(post_order(e)):
        if node in inside and node.op != "read":
            inside.update(a for a in _operands(node) if a.dtype.is_float)
    return [node for node in post_order(e) if node in inside]


def _operands(node: Expr) -> tuple[Expr, ...]:
    return node.args[1:] if node.op in _CHOICES else node.args


def _shares(node: Expr, adjoint: Expr) -> list[tuple[Expr, Expr]]:
    """The operands of a node that are floats, each with its share of the node's adjoint."""
    if node.op in ("const", "var") or node.op in _FLAT:
        return []
    if node.op in _CHOICES:
        condition, then, otherwise = node.args
        choose, zero = _CHOICES[node.op], _like(adjoint, 0)
        return [(then, choose(condition, adjoint, zero)), (otherwise, choose(condition, zero, adjoint))]
    if node.op == "cast":
        (operand,) = node.args
        return [(operand, cast(operand.dtype, adjoint))] if operand.dtype.is_float else []
    if node.op == "reinterpret" and not node.args[0].dtype.is_float:
        return []
    rule = DERIVATIVES.get(node.op)
    if rule is None:
        legal = ", ".join(sorted((*DERIVATIVES, *_FLAT, *_CHOICES, "cast")))
        raise UsageError(f"{node.op} has no derivative here", asked=f"the gradient of {node!r}", legal=legal)
    derivatives = rule(*node.args, make(node.op, node.dtype, node.args, node.value))
    return [(operand, times(adjoint, d)) for operand, d in zip(node.args, derivatives, strict=True) if d is not None]


def times(a: Expr, b: Expr) -> Expr:
    """A product, where ones and zeros need no multiplication. Gradients take 0 * inf to be 0."""
    if is_const(a, 1) or is_zero(b):
        return b
    if is_const(b, 1) or is_zero(a):
        return a
    if is_const(b, -1):
        return neg(a)
    for choice, other in ((a, b), (b, a)):  # so that what is not chosen is not multiplied either
        if choice.op in _CHOICES:
            condition, then, otherwise = choice.args
            if is_zero(otherwise):
                return _CHOICES[choice.op](condition, times(then, other), otherwise)
            if is_zero(then):
                return _CHOICES[choice.op](condition, then, times(otherwise, other))
    return a * b


def is_zero(e: Expr) -> bool:
    return is_const(e, 0)
