"""The distance that generated code may have from the reference, read off the op graph.

Floats may differ in their last bits: products and sums are contracted, sums are added up in another order, `exp` is
within some ulp. Where such a float becomes an integer, the last bit may decide between two neighbours, and where
it is compared, between two branches. This module follows both to the outputs:

    (0.3*r + 0.6*g + 0.1*b).astype("uint8")      one step: the integer may be its neighbour
    te.round(x*y + z) * 4 + 1                    four: what one step is worth at the output
    select(x*y + z > 0, 1, 7)                    no bound: the output hangs on a comparison

Nothing else is allowed a difference: integers made of integers are exact. `docs/semantics.md` has the rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from autosched.ir.dtype import DType
from autosched.ir.expr import OPS, Expr, is_const, is_index
from autosched.ir.visit import post_order
from autosched.te.reduction import REDUCTIONS, Combiner, Reduction
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, Graph, Operation, PlaceholderOp, Tensor

CHOICE = "a float whose last bits are left open is compared, or rounded where more than a step follows from it"
ZERO = "the sign of a zero, which min and max leave open, decides"
NOT_A_NUMBER = "the sign of a NaN, which arithmetic leaves open, decides"


@dataclass(frozen=True)
class Rounding:
    """The differences that verification allows one output besides the usual error of a float.

    step:        how far an element may be off because a float on the way was rounded to the neighbouring integer
    either_sign: an infinity may have either sign: it comes from a division by a zero of either sign
    undecided:   why elements may be anything, in words; empty where nothing is left open. It allows nothing: a
                 difference is reported, with these words
    spread:      how far elements move on some inputs with the last bits of what they are made of (`reference.spread`)
    """

    step: float = 0.0
    either_sign: bool = False
    undecided: str = ""
    spread: float = 0.0


EXACT = Rounding()


@dataclass(frozen=True)
class _Value:
    """The differences that a value may have. `inexact`: in its last bits. `product`: none, unless a sum takes it up
    in a multiply-add. `zero`, `nan`: in the sign of a zero or a NaN. The rest as in `Rounding`."""

    inexact: bool = False
    product: bool = False
    zero: bool = False
    nan: bool = False
    step: float = 0.0
    either_sign: bool = False
    undecided: str = ""

    @property
    def is_open(self) -> bool:
        """Whether the reference and generated code may differ in it, but for the sign of a zero."""
        return self.inexact or self.step > 0 or self.either_sign or bool(self.undecided)


_SAME = _Value()


def roundings(args: Sequence[Tensor], *, contract: bool = True, exact_division: bool = True) -> list[Rounding]:
    """The differences that verification allows each computed tensor in `args`, in order.

    contract:       whether a product and the sum it goes into may round once (they may not on a strict target)
    exact_division: whether float division and square roots are correctly rounded

    >>> a = te.placeholder((8,), "float32", name="a")
    >>> grey = te.compute((8,), lambda i: (a[i] * 0.3 + 0.5).astype("uint8"), name="grey")
    >>> roundings([a, grey])
    [Rounding(step=1.0, either_sign=False, undecided='')]
    """
    graph = Graph.of(args)
    rules = _Rules(contract, exact_division)
    known: dict[Tensor, _Value] = {}
    for op in graph.ops:
        known.update(zip(op.outputs, _outputs(op, rules, known), strict=True))
    return [_limited(t.dtype, known[t]) for t in args if not isinstance(t.op, PlaceholderOp)]


def _limited(of: DType, v: _Value) -> Rounding:
    """A step as large as a good part of the type's values would hide what was never written."""
    if of.is_integer and v.step > (float(of.max) - float(of.min)) * _LARGEST_SHARE:
        return Rounding(undecided=v.undecided or CHOICE)
    return Rounding(v.step, v.either_sign, v.undecided)


# -- operations -----------------------------------------------------------------------------------


def _outputs(op: Operation, rules: _Rules, known: dict[Tensor, _Value]) -> list[_Value]:
    """The value of each output, given those of its inputs."""
    if isinstance(op, PlaceholderOp):
        return [_SAME for _ in op.outputs]
    if isinstance(op, ScanOp):
        return _scan(op, rules, known)
    if isinstance(op, ComputeOp):
        return [rules.value(e, known) for e in op.body]
    # a function from outside: its floats are its own affair, and so is what it does with open ones
    given = _join(known[t] for t in op.input_tensors)
    return [
        _Value(inexact=t.dtype.is_float, undecided=given.undecided or (CHOICE if given.is_open else ""))
        for t in op.outputs
    ]


def _scan(op: ScanOp, rules: _Rules, known: dict[Tensor, _Value]) -> list[_Value]:
    """Round after round, until nothing new comes in; steps that add up from time to time have no bound."""
    states = [_join((known[i], known[u])) for i, u in zip(op.init, op.update, strict=True)]
    for _ in range(_ROUNDS):
        known.update(zip(op.state_placeholder, states, strict=True))
        for step in op.steps:
            known.update(zip(step.outputs, _outputs(step, rules, known), strict=True))
        after = [_join((s, known[u])) for s, u in zip(states, op.update, strict=True)]
        if after == states:
            return states
        states = after
    return [replace(s, undecided=s.undecided or CHOICE) for s in states]


# -- expressions ----------------------------------------------------------------------------------


def _join(values: Iterable[_Value]) -> _Value:
    """The value that may be any one of them."""
    all_of = list(values)
    return _Value(
        any(v.inexact for v in all_of),
        any(v.product for v in all_of),
        any(v.zero for v in all_of),
        any(v.nan for v in all_of),
        max((v.step for v in all_of), default=0.0),
        any(v.either_sign for v in all_of),
        next((v.undecided for v in all_of if v.undecided), ""),
    )


def _decides(values: Iterable[_Value]) -> _Value:
    """A value that changes by leaps with the given ones: undecided if one of them is open."""
    found = _join(values)
    return _Value(undecided=found.undecided or CHOICE) if found.is_open else _SAME


def _rounded(v: _Value) -> _Value:
    """A number that becomes an integer: one step if its last bits are open."""
    return replace(
        v, inexact=False, product=False, step=float(math.floor(v.step) + 1 if v.inexact else math.ceil(v.step))
    )


def _factor(e: Expr) -> float | None:
    """The number that a constant is, behind casts."""
    while e.op == "cast":
        (e,) = e.args
    return abs(float(e.value)) if is_const(e) and not e.dtype.is_bool else None


def _is_power_of_two(x: float | None) -> bool:
    return x is not None and (x == 0 or math.frexp(x)[0] == 0.5)


@dataclass(frozen=True)
class _Rules:
    """The rule of each operator."""

    contract: bool
    exact_division: bool

    def value(self, root: Expr, known: dict[Tensor, _Value], leaves: dict[Expr, _Value] | None = None) -> _Value:
        """The value of an expression; `leaves` are those of the variables in it."""
        done: dict[Expr, _Value] = dict(leaves or {})
        for e in post_order(root):
            if e in done:
                continue
            args = [done[a] for a in e.args]
            if e.op in REDUCTIONS:
                done[e] = self._reduction(e, args)
            elif e.op == "read":
                at = _decides(args)
                done[e] = replace(known[e.value], undecided=known[e.value].undecided or at.undecided)
            elif not e.args or is_index(e):
                done[e] = _SAME
            else:
                found = self._operator(e, args)
                makes_nan = e.dtype.is_float and e.op in _MAKES_NAN
                done[e] = replace(found, nan=True) if makes_nan else found
        return done[root]

    def _reduction(self, e: Expr, args: list[_Value]) -> _Value:
        reduction: Reduction = e.value
        size = reduction.size
        sources, condition, rest = args[:size], args[size], args[size + 1 :]
        places = rest if e.op == "scatter" else []
        begins = rest if e.op == "reduce" else []
        chosen = _decides([condition, *places]).undecided
        if isinstance(reduction.combiner, Combiner):
            found = self._combined(reduction.combiner, sources, begins)[reduction.value_index]
        else:
            found = _join([*sources, *begins])
            if reduction.name in ("min", "max"):
                found = self.extreme_of(e, found)
            else:  # in another order, and from other widths: the last bits of floats are open
                left = CHOICE if found.step or found.either_sign else ""
                found = replace(found, inexact=e.dtype.is_float, undecided=found.undecided or left)
        return replace(found, product=False, undecided=found.undecided or chosen)

    def _combined(self, c: Combiner, sources: list[_Value], begins: list[_Value]) -> list[_Value]:
        values = [_join((s, b)) for s, b in zip(sources, begins, strict=True)] if begins else sources
        for _ in range(_ROUNDS):
            leaves = dict(zip((*c.left, *c.right), (*values, *values), strict=True))
            after = [_join((v, self.value(e, {}, leaves))) for v, e in zip(values, c.result, strict=True)]
            after = [
                replace(v, inexact=v.inexact or (e.dtype.is_float and e.op not in _PICKS))
                for v, e in zip(after, c.result, strict=True)
            ]
            if after == values:
                return values
            values = after
        return [replace(v, undecided=v.undecided or CHOICE) for v in values]

    def _operator(self, e: Expr, args: list[_Value]) -> _Value:
        kind = OPS[e.op].kind
        if e.op == "cast":
            return self._cast(e, args[0])
        if kind == "compare" or e.op in _CLASSIFY:
            return _decides(args)
        if kind == "logic":
            return _join(args)
        if kind == "choice":
            return self._choice(e, args)
        rule = _RULES.get(e.op)
        if rule is not None:
            return rule(self, e, args)
        if kind == "math" or e.op == "call":  # within some ulp: what was a step is a leap now
            found = _join(args)
            left = CHOICE if found.step or found.either_sign else ""
            return _Value(inexact=e.dtype.is_float, zero=found.zero, undecided=found.undecided or left)
        return _decides(args)

    def _cast(self, e: Expr, x: _Value) -> _Value:
        source = e.args[0].dtype
        if e.dtype.is_bool and not source.is_bool:
            return _decides([x])
        if source.is_float and e.dtype.is_integer:
            return replace(_rounded(x), zero=False, either_sign=False, undecided=x.undecided or _leap(x.either_sign))
        return x if e.dtype.is_float else replace(x, zero=False)

    def _choice(self, e: Expr, args: list[_Value]) -> _Value:
        condition, *sides = args
        if not condition.undecided:
            return _join(sides)
        asked, *shown = e.args
        if asked.op in _ORDER and set(asked.args) == set(shown):  # the smaller or the larger of two
            return self.extreme_of(e, replace(_join(sides), product=False))
        return replace(_join(sides), undecided=condition.undecided)

    def extreme_of(self, e: Expr, found: _Value) -> _Value:
        """The smaller or the larger of some numbers: no further off than they are."""
        constants = [_factor(a) for a in e.args] if e.op in ("min", "max") else []
        zero = e.dtype.is_float and not any(constants)
        return replace(
            found, zero=found.zero or zero, either_sign=False, undecided=found.undecided or _leap(found.either_sign)
        )

    # -- operators, by name -----------------------------------------------------------------------
    def sum_of(self, e: Expr, args: list[_Value]) -> _Value:
        a, b = args
        fused = self.contract and e.dtype.is_float and (a.product or b.product)
        found = _join(args)
        return replace(
            found, inexact=found.inexact or fused, product=False, step=a.step + b.step, either_sign=False,
            undecided=found.undecided or _leap(found.either_sign),
        )  # fmt: skip

    def product_of(self, e: Expr, args: list[_Value]) -> _Value:
        a, b = args
        factors = _factor(e.args[0]), _factor(e.args[1])
        exact = any(map(_is_power_of_two, factors))
        found = _join(args)
        scale = factors[1] if a.step else factors[0]
        step = found.step * scale if scale is not None and not (a.step and b.step) else 0.0
        unknown = found.step > 0 and (scale is None or bool(a.step and b.step))
        product = e.dtype.is_float and (found.product if exact else True)
        return replace(found, product=product, step=step, undecided=found.undecided or _leap(unknown))

    def quotient_of(self, e: Expr, args: list[_Value]) -> _Value:
        """Of floats."""
        a, b = args
        divisor = _factor(e.args[1])
        found = _join(args)
        unknown = b.step > 0 or b.either_sign or (a.step > 0 and not divisor)
        return replace(
            found,
            inexact=found.inexact or not (self.exact_division or _is_power_of_two(divisor)),
            product=False,
            step=0.0 if unknown or not divisor else a.step / divisor,
            either_sign=found.either_sign or b.zero,
            undecided=found.undecided or _leap(unknown),
        )

    def whole_quotient_of(self, e: Expr, args: list[_Value]) -> _Value:
        exact = e.dtype.is_integer or self.exact_division
        found = _Rules(self.contract, exact).quotient_of(e, args)
        return _rounded(replace(found, inexact=found.inexact and e.dtype.is_float))

    def shifted(self, e: Expr, args: list[_Value]) -> _Value:
        a, b = args
        amount = _factor(e.args[1])
        if not a.is_open and not b.is_open:
            return _SAME
        if b.is_open or amount is None or a.undecided:
            return _Value(undecided=a.undecided or b.undecided or CHOICE)
        return replace(a, step=a.step * 2**amount if e.op == "shl" else float(math.ceil(a.step / 2**amount)))

    def root_of(self, e: Expr, args: list[_Value]) -> _Value:
        (x,) = args
        inexact = x.inexact or not self.exact_division
        return replace(
            x, inexact=inexact, product=False, step=0.0, either_sign=False,
            undecided=x.undecided or _leap(x.step > 0 or x.either_sign),
        )  # fmt: skip

    def signed(self, e: Expr, args: list[_Value]) -> _Value:
        """Functions whose value depends on the sign of zeros."""
        found = _join(args)
        leap = found.step > 0 or found.either_sign or (e.op == "copysign" and args[1].inexact)
        shown = args[-1] if e.op == "copysign" else found
        reason = _leap(leap) or (ZERO if shown.zero else "")
        if e.op == "copysign" and shown.nan:
            reason = reason or NOT_A_NUMBER
        return _Value(inexact=found.inexact or e.op not in _EXACT_SIGNED, undecided=found.undecided or reason)

    def exactly_scaled(self, e: Expr, args: list[_Value]) -> _Value:
        """`ldexp`: exact, and what a step is worth depends on the exponent."""
        a, b = args
        left = a.undecided or _leap(a.step > 0 or a.either_sign or b.is_open)
        return _Value(inexact=a.inexact, zero=a.zero, undecided=left)

    def bits_of(self, e: Expr, args: list[_Value]) -> _Value:
        (x,) = args
        reason = x.undecided or _leap(x.is_open) or (ZERO if x.zero else NOT_A_NUMBER if x.nan else "")
        return _Value(undecided=reason)


def _leap(happens: bool) -> str:
    return CHOICE if happens else ""


#: Of an integer type's values: the largest step that is allowed.
_LARGEST_SHARE = 1 / 8
#: Rounds after which what still grows is taken to have no bound.
_ROUNDS = 4
#: of floats: what may make a NaN of numbers
_MAKES_NAN = ("add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod", "fmod", "sqrt")
_ORDER = ("lt", "le", "gt", "ge")
_CLASSIFY = ("isnan", "isinf", "isfinite")
#: a combiner whose result is one of its operands rounds nothing
_PICKS = ("select", "if_then_else", "min", "max", "var")
_EXACT_SIGNED = ("copysign", "nextafter")

_RULES: dict[str, Callable[[_Rules, Expr, list[_Value]], _Value]] = {
    "add": _Rules.sum_of,
    "sub": _Rules.sum_of,
    "mul": _Rules.product_of,
    "div": _Rules.quotient_of,
    "floordiv": _Rules.whole_quotient_of,
    "truncdiv": _Rules.whole_quotient_of,
    **dict.fromkeys(("min", "max"), lambda r, e, args: r.extreme_of(e, replace(_join(args), product=False))),
    **dict.fromkeys(("neg", "bitnot"), lambda r, e, args: args[0]),
    "abs": lambda r, e, args: replace(args[0], zero=False, either_sign=False),
    "shl": _Rules.shifted,
    "shr": _Rules.shifted,
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "nearbyint"), lambda r, e, args: _rounded(args[0])),
    "sqrt": _Rules.root_of,
    "rsqrt": lambda r, e, args: replace(r.root_of(e, args), inexact=True, either_sign=args[0].zero),
    **dict.fromkeys(("copysign", "nextafter", "atan2", "pow"), _Rules.signed),
    "ldexp": _Rules.exactly_scaled,
    "fmod": lambda r, e, args: _decides(args),
    "reinterpret": _Rules.bits_of,
}
