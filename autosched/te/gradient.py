"""Reverse-mode differentiation: the gradient of a tensor as another tensor program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from autosched.errors import UsageError, UsageTypeError, expect, is_list_of
from autosched.ir import expr as E
from autosched.ir.expr import Expr
from autosched.ir.simplify import Analyzer, always_equal, to_poly
from autosched.ir.visit import post_order, substitute
from autosched.te.functions import reduce_axis
from autosched.te.reducers import prod, scatter_at
from autosched.te.reducers import sum as te_sum
from autosched.te.reduction import Reduction
from autosched.te.tensor import ComputeOp, Graph, IterVar, PlaceholderOp, Tensor, compute


def _like(x: Expr, value: float) -> Expr:
    return E.const(value, x.dtype)


def _one(x: Expr) -> Expr:
    return _like(x, 1)


def _unless(flat: Expr, x: Expr) -> Expr:
    """A derivative, but 0 where a power is the same all around, as 0**b and a**0 are."""
    return E.select(flat, _like(x, 0), x)


#: operator -> (operands..., result) -> the derivative with respect to each operand
DERIVATIVES: dict[str, Callable[..., tuple[Expr | None, ...]]] = {
    "add": lambda a, b, y: (_one(a), _one(b)),
    "sub": lambda a, b, y: (_one(a), _like(b, -1)),
    "mul": lambda a, b, y: (b, a),
    "div": lambda a, b, y: (_one(b) / b, E.neg(y / b)),
    "neg": lambda a, y: (_like(a, -1),),
    "abs": lambda a, y: (E.select(a >= 0, _one(a), _like(a, -1)),),
    "min": lambda a, b, y: (E.select(a <= b, _one(a), _like(a, 0)), E.select(a <= b, _like(b, 0), _one(b))),
    "max": lambda a, b, y: (E.select(a >= b, _one(a), _like(a, 0)), E.select(a >= b, _like(b, 0), _one(b))),
    "exp": lambda a, y: (y,),
    "exp2": lambda a, y: (y * math.log(2),),
    "exp10": lambda a, y: (y * math.log(10),),
    "log": lambda a, y: (_one(a) / a,),
    "log2": lambda a, y: (_like(a, 1 / math.log(2)) / a,),
    "log10": lambda a, y: (_like(a, 1 / math.log(10)) / a,),
    "log1p": lambda a, y: (_one(a) / (a + 1),),
    "sin": lambda a, y: (E.call("cos", a),),
    "cos": lambda a, y: (E.neg(E.call("sin", a)),),
    "tan": lambda a, y: (y * y + 1,),
    "asin": lambda a, y: (E.call("rsqrt", _one(a) - a * a),),
    "acos": lambda a, y: (E.neg(E.call("rsqrt", _one(a) - a * a)),),
    "atan": lambda a, y: (_one(a) / (a * a + 1),),
    "sinh": lambda a, y: (E.call("cosh", a),),
    "cosh": lambda a, y: (E.call("sinh", a),),
    "tanh": lambda a, y: (_one(a) - y * y,),
    "asinh": lambda a, y: (E.call("rsqrt", a * a + 1),),
    "acosh": lambda a, y: (E.call("rsqrt", a * a - 1),),
    "atanh": lambda a, y: (_one(a) / (_one(a) - a * a),),
    "erf": lambda a, y: (E.call("exp", E.neg(a * a)) * (2 / math.sqrt(math.pi)),),
    "sigmoid": lambda a, y: (y * (_one(a) - y),),
    "sqrt": lambda a, y: (_like(a, 0.5) / y,),
    "rsqrt": lambda a, y: (y / a * -0.5,),
    "pow": lambda a, b, y: (
        _unless(E.compare("eq", b, 0), b * E.call("pow", a, b - 1)),
        _unless(E.logical_and(E.compare("eq", a, 0), b >= 0), y * E.call("log", a)),
    ),
    "fmod": lambda a, b, y: (_one(a), E.neg(E.call("trunc", a / b))),
    "floormod": lambda a, b, y: (_one(a), E.neg(E.call("floor", a / b))),
    "truncmod": lambda a, b, y: (_one(a), E.neg(E.call("trunc", a / b))),
    "atan2": lambda a, b, y: (b / (a * a + b * b), E.neg(a / (a * a + b * b))),
    "hypot": lambda a, b, y: (a / y, b / y),
    "copysign": lambda a, b, y: (E.call("copysign", _one(a), a) * E.call("copysign", _one(b), b), None),
    "ldexp": lambda a, n, y: (E.call("ldexp", _one(a), n), None),
    "likely": lambda a, y: (_one(a),),
}

#: steps, whose derivative is zero wherever they have one
_FLAT = frozenset(("floor", "ceil", "trunc", "round", "nearbyint", "floordiv", "truncdiv"))
_CHOICES = {"select": E.select, "if_then_else": E.if_then_else}


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
    """The float expressions that `e` is made of, operands first; no conditions and no indices."""
    inside = {e}
    for node in reversed(post_order(e)):
        if node in inside and node.op != "read":
            inside.update(a for a in node.args[node.op in _CHOICES :] if a.dtype.is_float)
    return [node for node in post_order(e) if node in inside]


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
        return [(operand, E.cast(operand.dtype, adjoint))] if operand.dtype.is_float else []
    if node.op == "reinterpret" and not node.args[0].dtype.is_float:
        return []
    rule = DERIVATIVES.get(node.op)
    if rule is None:
        legal = ", ".join(sorted((*DERIVATIVES, *_FLAT, *_CHOICES, "cast")))
        raise UsageError(f"{node.op} has no derivative here", asked=f"the gradient of {node!r}", legal=legal)
    derivatives = rule(*node.args, E.make(node.op, node.dtype, node.args, node.value))
    return [(operand, times(adjoint, d)) for operand, d in zip(node.args, derivatives, strict=True) if d is not None]


def times(a: Expr, b: Expr) -> Expr:
    """A product, where ones and zeros need no multiplication. Gradients take 0 * inf to be 0."""
    if E.is_const(a, 1) or is_zero(b):
        return b
    if E.is_const(b, 1) or is_zero(a):
        return a
    if E.is_const(b, -1):
        return E.neg(a)
    for choice, other in ((a, b), (b, a)):  # so that what is not chosen is not multiplied either
        if choice.op in _CHOICES:
            condition, then, otherwise = choice.args
            if is_zero(otherwise):
                return _CHOICES[choice.op](condition, times(then, other), otherwise)
            if is_zero(then):
                return _CHOICES[choice.op](condition, then, times(otherwise, other))
    return a * b


def is_zero(e: Expr) -> bool:
    return E.is_const(e, 0)


def gradient(output: Tensor, inputs: Tensor | Sequence[Tensor], head: Tensor | None = None) -> list[Tensor]:
    """The derivatives of `output` with respect to each of `inputs`, multiplied by `head` from the left.

    `head` has the shape `prefix + output.shape`, and the results have `prefix + input.shape`: give the
    derivative of a loss with respect to `output` to get those with respect to `inputs`. Without it,
    results are Jacobians, of shape `output.shape + input.shape`. All tensors are floats.

    Where a minimum, maximum, or `abs` has no derivative, one of its one-sided derivatives is taken; a
    reduction by `min` or `max` shares the gradient among the elements that attain it. Inputs that the
    output does not depend on get zeros. Raises UsageError for types without derivatives, operators and
    operations (scans, externs, reducers of one's own) that have none here, and a head of another shape.

    >>> import numpy as np
    >>> from autosched import te
    >>> x = te.placeholder((3,), "float64", name="x")
    >>> k = te.reduce_axis((0, 3), "k")
    >>> loss = te.compute((), lambda: te.sum(x[k] * x[k], axis=k), name="loss")
    >>> (dx,) = te.gradient(loss, [x])
    >>> te.reference([x, dx], [np.array([1.0, 2.0, 5.0])])
    [array([ 2.,  4., 10.])]
    """
    expect(output, "a tensor", isinstance(output, Tensor), "te.gradient(output, ..)")
    wanted = [inputs] if isinstance(inputs, Tensor) else inputs
    expect(inputs, "a tensor, or a list of them", is_list_of(wanted, Tensor), "te.gradient(.., inputs)")
    expect(head, "a tensor, or None", head is None or isinstance(head, Tensor), "te.gradient(.., head=..)")
    _check(output, wanted, head)
    prefix = output.shape if head is None else head.shape[: head.ndim - output.ndim]
    tape = _Tape(tuple(prefix), _active(output, wanted))
    tape.add(output, head)
    for op in reversed(Graph.of([output]).ops):
        for t in op.outputs:
            if t in tape.active:
                tape.differentiate(t)
    return [tape.total(t) for t in wanted]


def _check(output: Tensor, inputs: Sequence[Tensor], head: Tensor | None) -> None:
    asked = f"te.gradient({output.name}, [{', '.join(t.name for t in inputs)}])"
    for t in (output, *inputs):
        if not t.dtype.is_float:
            raise UsageError(f"{t.name} holds {t.dtype}", asked=asked, legal="tensors of floats")
    if head is None:
        return
    tail = head.shape[head.ndim - output.ndim :] if head.ndim >= output.ndim else ()
    if len(tail) != output.ndim or not all(map(always_equal, tail, output.shape)) or not head.dtype.is_float:
        legal = "floats, of any leading shape and then the output's"
        raise UsageError(f"{head!r} is no head for {output!r}", asked=asked, legal=legal)


def _active(output: Tensor, inputs: Iterable[Tensor]) -> frozenset[Tensor]:
    """The tensors on the way from the inputs to the output."""
    reached = set(inputs)
    for op in Graph.of([output]).ops:
        if any(t in reached for t in op.input_tensors):
            reached.update(op.outputs)
    return frozenset(reached)


#: A derivative so far; None is the head of a Jacobian: 1 where the first half of the indices equals the second.
_Head = Tensor | None


@dataclass(frozen=True)
class _Term:
    """One sum of the chain rule, over all of `axes`, of the points where `where` holds.

    A point contributes the head's element at `place`, times `factor`, times the derivative of `value`.
    """

    axes: tuple[IterVar, ...]
    place: tuple[Expr, ...]
    value: Expr
    where: Expr = field(default_factory=lambda: E.const(True))
    factor: Expr | None = None


class _Tape:
    """The derivatives that have been found so far, a list of summands for each tensor."""

    def __init__(self, prefix: tuple[Expr, ...], active: frozenset[Tensor]) -> None:
        self.prefix, self.active = prefix, active
        self._summands: dict[Tensor, list[_Head]] = {}

    def add(self, t: Tensor, summand: _Head) -> None:
        self._summands.setdefault(t, []).append(summand)

    def total(self, t: Tensor) -> Tensor:
        """The derivative of `t`, as one tensor."""
        found = self._summands.get(t, [])
        shape = (*self.prefix, *t.shape)
        if len(found) == 1 and isinstance(found[0], Tensor):
            return found[0]

        def element(*i: Expr) -> Expr:
            parts = [_head_at(x, i[: len(self.prefix)], i[len(self.prefix) :], t) for x in found]
            return sum(parts[1:], parts[0]) if parts else E.const(0, t.dtype)

        made = compute(shape, element, name=f"{t.name}.grad")
        self._summands[t] = [made]
        return made

    # -- one operation ----------------------------------------------------------------------------
    def differentiate(self, t: Tensor) -> None:
        """Add to the derivatives of what `t` is computed from."""
        summands = self._summands.get(t)
        if not summands or isinstance(t.op, PlaceholderOp):
            return
        head = summands[0] if len(summands) == 1 else self.total(t)
        if not isinstance(t.op, ComputeOp):
            why = f"{t.name} is a {type(t.op).__name__}, which has no derivative here"
            raise UsageTypeError(why, asked=f"the gradient of {t.name}", legal="te.compute and te.scatter_reduce")
        for term in _terms(t):
            for read, derivative in partials(term.value, term.factor).items():
                if read.value in self.active:
                    made = self._contribution(read, replace(term, value=derivative), head)
                    self.add(read.value, made)

    def _contribution(self, read: Expr, term: _Term, head: _Head) -> Tensor:
        name = f"{read.value.name}.grad{len(self._summands.get(read.value, ())) or ''}"
        prefix = tuple(IterVar(f"p{k}", d) for k, d in enumerate(self.prefix))
        value = term.value
        equations: list[tuple[Expr, Expr]] = []
        if head is None:  # it is 1 at one place: one more thing to solve for
            equations = [(i, p.var) for i, p in zip(term.place, prefix, strict=True)]
        else:
            value = times(head(*(p.var for p in prefix), *term.place), value)
        target = tuple(IterVar(f"j{k}", d) for k, d in enumerate(read.value.shape))
        wanted = [*((i, j.var) for i, j in zip(read.args, target, strict=True)), *equations]
        solved = _solve(wanted, term.axes, (*prefix, *target))
        shape = (*self.prefix, *read.value.shape)
        if solved is None:
            return _scattered(name, shape, read.args, prefix, term, value, equations)
        left = [a for a in term.axes if a.var not in solved.values]
        condition = solved.apply(E.logical_and(solved.condition, term.where))
        return _gathered(name, shape, (*prefix, *target), left, condition, solved.apply(value))


def _head_at(head: _Head, prefix: Sequence[Expr], place: Sequence[Expr], t: Tensor) -> Expr:
    if head is not None:
        return head(*prefix, *place)
    same = E.logical_and(*(E.compare("eq", a, b) for a, b in zip(prefix, place, strict=True)))
    return E.select(same, E.const(1, t.dtype), E.const(0, t.dtype))


# -- what is summed ---------------------------------------------------------------------------------


def _terms(t: Tensor) -> list[_Term]:
    """The element of an operation as a sum; in `value`, the reads to differentiate."""
    assert isinstance(t.op, ComputeOp)
    body = t.op.body[t.value_index]
    place = tuple(a.var for a in t.op.axis)
    if body.op not in ("reduce", "scatter"):
        return [_Term(t.op.axis, place, body)]
    reduction: Reduction = body.value
    combiner = reduction.plain_name()
    source, condition, *rest = body.args
    if combiner not in ("sum", "prod", "min", "max") or (body.op == "reduce" and rest):
        legal = "te.sum, te.prod, te.min and te.max without init=, or reducers of one's own that do the same"
        raise UsageError(f"{t.name} is reduced in a way of one's own", asked=f"the gradient of {t.name}", legal=legal)
    if body.op == "scatter":
        if combiner != "sum":
            raise UsageError(
                f"{t.name} scatters by {combiner}", asked=f"the gradient of {t.name}", legal="combiner='sum'"
            )
        leading = t.op.axis[: len(t.op.axis) - len(rest)]
        place = (*(a.var for a in leading), *rest)
        inside = [E.logical_and(i >= 0, i < d) for i, d in zip(rest, t.shape[len(leading) :], strict=True)]
        return [_Term((*leading, *t.op.reduce_axis), place, source, E.logical_and(condition, *inside))]
    axes = (*t.op.axis, *t.op.reduce_axis)
    if combiner == "sum":
        return [_Term(axes, place, source, condition)]
    if combiner == "prod":
        others = _product_of_others(t, source, condition)
        start = [r.var - r.min for r in t.op.reduce_axis]
        return [_Term(axes, place, source, condition, others(*place, *start))]
    share = _share_of_extreme(t, source, condition)
    attains = E.select(E.compare("eq", source, t(*place)), share(*place), E.const(0, t.dtype))
    return [_Term(axes, place, source, condition, attains)]


def _share_of_extreme(t: Tensor, source: Expr, condition: Expr) -> Tensor:
    """One over the number of elements that attain the least or the greatest value."""
    assert isinstance(t.op, ComputeOp)
    old = (*t.op.axis, *t.op.reduce_axis)
    over = _renewed(t.op.reduce_axis)

    def count(*i: Expr) -> Expr:
        mapping = dict(zip((a.var for a in old), (*i, *(a.var for a in over)), strict=True))
        hit = E.select(E.compare("eq", substitute(source, mapping), t(*i)), E.const(1, t.dtype), E.const(0, t.dtype))
        return te_sum(hit, axis=over, where=substitute(condition, mapping))

    counts = compute(t.shape, count, name=f"{t.name}.count")
    return compute(t.shape, lambda *i: E.const(1, t.dtype) / counts(*i), name=f"{t.name}.share")


def _product_of_others(t: Tensor, source: Expr, condition: Expr) -> Tensor:
    """For every point of a product, the product of all other points."""
    assert isinstance(t.op, ComputeOp)
    axes, reduced = t.op.axis, t.op.reduce_axis
    over = _renewed(reduced)

    def others(*i: Expr) -> Expr:
        mapping = dict(zip((a.var for a in (*axes, *reduced)), (*i[: len(axes)], *(a.var for a in over)), strict=True))
        different = [E.compare("ne", new.var - new.min, here) for new, here in zip(over, i[len(axes) :], strict=True)]
        where = E.logical_and(E.logical_or(*different), substitute(condition, mapping))
        return prod(substitute(source, mapping), axis=over, where=where)

    return compute((*t.shape, *(r.extent for r in reduced)), others, name=f"{t.name}.others")


def _renewed(axes: Iterable[IterVar]) -> list[IterVar]:
    return [reduce_axis((a.min, a.min + a.extent), a.name) for a in axes]


# -- solving for axes -------------------------------------------------------------------------------


@dataclass
class _Solution:
    """Axes in terms of the others, and what must hold besides."""

    values: dict[Expr, Expr] = field(default_factory=dict)
    conditions: list[Expr] = field(default_factory=list)

    @property
    def condition(self) -> Expr:
        return E.logical_and(*self.conditions)

    def apply(self, e: Expr) -> Expr:
        return substitute(e, self.values)

    def assign(self, v: Expr, value: Expr) -> None:
        self.values = {k: substitute(e, {v: value}) for k, e in self.values.items()}
        self.values[v] = value
        self.conditions = [substitute(c, {v: value}) for c in self.conditions]


def _solve(
    equations: Sequence[tuple[Expr, Expr]], axes: Sequence[IterVar], known: Sequence[IterVar]
) -> _Solution | None:
    """`left == right` for each of them, solved for axes one after the other; None if that cannot be done."""
    found = _Solution()
    by_var = {a.var: a for a in axes}
    an = Analyzer()
    for a in (*axes, *known):
        an.bind(a.var, a.min, a.min + a.extent - 1)
    for left, right in equations:
        difference = to_poly(found.apply(E.as_expr(left))) - to_poly(right)
        mentioned = E.variables(difference.expr())
        best: tuple[Expr, int] | None = None
        for v in (a.var for a in axes if a.var in mentioned and a.var not in found.values):
            factor = difference.terms.get((v,), 0)
            alone = sum(v in E.variables(atom) for m in difference.terms for atom in m) == 1
            if factor and alone and (best is None or _length(by_var[v]) > _length(by_var[best[0]])):
                best = v, factor
        if best is None:
            if by_var.keys() & mentioned - found.values.keys():
                return None
            found.conditions.append(E.compare("eq", difference.expr(), 0))
            continue
        v, factor = best
        rest = to_poly(v) * factor - difference
        value = (rest if factor > 0 else -rest).expr()
        if abs(factor) != 1:
            found.conditions.append(E.compare("eq", E.floormod(value, abs(factor)), 0))
            value = E.floordiv(value, abs(factor))
        axis = by_var[v]
        found.assign(v, value)
        found.conditions += [value >= axis.min, value < axis.min + axis.extent]
    found.conditions = [c for c in found.conditions if not an.prove(c)]
    return found


def _length(axis: IterVar) -> float:
    return float(axis.extent.value) if E.is_const(axis.extent) else float("inf")


# -- the tensors that come out ----------------------------------------------------------------------


def _gathered(
    name: str, shape: Sequence[Expr], free: Sequence[IterVar], left: Sequence[IterVar], condition: Expr, value: Expr
) -> Tensor:
    """The sum over what is left of the axes, for every element."""
    over = _renewed(left)
    renamed = dict(zip((a.var for a in left), (a.var for a in over), strict=True))

    def element(*i: Expr) -> Expr:
        mapping = {**renamed, **dict(zip((a.var for a in free), i, strict=True))}
        e, c = substitute(value, mapping), substitute(condition, mapping)
        if over:
            return te_sum(e, axis=over, where=c)
        return e if E.is_const(c, True) else E.if_then_else(c, e, E.const(0, e.dtype))

    return compute(shape, element, name=name)


def _scattered(
    name: str,
    shape: Sequence[Expr],
    index: Sequence[Expr],
    prefix: Sequence[IterVar],
    term: _Term,
    value: Expr,
    equations: Sequence[tuple[Expr, Expr]],
) -> Tensor:
    """Every point adds to the element that its index says."""
    over = _renewed(term.axes)
    renamed = dict(zip((a.var for a in term.axes), (a.var for a in over), strict=True))
    condition = E.logical_and(term.where, *(E.compare("eq", a, b) for a, b in equations))
    masked = value if E.is_const(condition, True) else E.if_then_else(condition, value, E.const(0, value.dtype))
    place = [substitute(i, renamed) for i in index]
    return scatter_at(name, shape, prefix, place, substitute(masked, renamed), over)
