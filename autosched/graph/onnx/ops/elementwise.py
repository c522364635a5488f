"""Operators that compute each element from those at the same place: arithmetic, comparisons, activations, casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from autosched import te, topi
from autosched.graph import small
from autosched.graph.onnx.node import Node, Value, operator
from autosched.ir import expr as ir
from autosched.ir.dtype import DType
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, is_const
from autosched.ir.powers import repeated
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, broadcast_shapes
from autosched.topi.elementwise import elementwise, stretched

#: numbers of ONNX for types of elements
TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16",
}  # fmt: skip


def element_type(node: Node, number: int) -> DType:
    """The type that ONNX has that number for. Raises ModelError for texts, complex and small types."""
    if number not in TYPES:
        raise node.refused(f"elements of ONNX's type {number} are not supported", ", ".join(TYPES.values()))
    return to_dtype(TYPES[number])


def literal(node: Node, t: Tensor) -> Tensor | Expr:
    """A tensor; of one that holds a single known number, the number, so that generated code has it written out."""
    array = node.constants.get(t)
    return te.const(array.reshape(-1)[0].item(), t.dtype) if array is not None and array.size == 1 else t


def element(node: Node, t: Tensor) -> Expr:
    """The only element of a tensor."""
    if not all(is_const(d, 1) for d in t.shape):
        raise node.refused(f"{t!r} is no single number", "a tensor of one element")
    found = literal(node, t)
    return found if isinstance(found, Expr) else t(*[0] * t.ndim)


def broadcast(node: Node, f: Callable[..., object], *xs: Tensor) -> Tensor:
    """`f` of the elements of tensors whose shapes go together as NumPy's."""
    shape: Sequence[Any] = ()
    for x in xs:
        shape = broadcast_shapes(shape, x.shape, node.kind)
    given = [literal(node, x) for x in xs]
    name = f"T_{node.kind.lower()}"
    return te.compute(tuple(shape), lambda *i: f(*(stretched(x, i, shape) for x in given)), name=name, tag="broadcast")


def wide(f: Callable[..., Any]) -> Callable[..., Expr]:
    """`f` of an element, computed in float32 for one of 16 bits; the result has the element's type."""
    return lambda e, *more: ir.cast(e.dtype, f(e.astype(accumulator(e.dtype)), *more))


# -- one operand --------------------------------------------------------------------------------------


def _sign(x: Expr) -> Expr:
    one = te.const(1, x.dtype)
    return te.select(x > 0, one, te.select(x < 0, -one, x))  # zeros and NaN stay


def _softplus(x: Expr) -> Expr:
    return te.max(x, 0.0) + te.log1p(te.exp(-te.abs(x)))


#: name -> what becomes of an element
_EACH: dict[str, Callable[[Expr], object]] = {
    **{
        name: te.MATH[name.lower()]
        for name in (
            "Abs Sqrt Exp Log Ceil Floor Erf Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Sigmoid IsNaN"
        ).split()
    },
    "Neg": lambda x: -x,
    "Sign": _sign,
    "Round": te.MATH["nearbyint"],
    "Reciprocal": lambda x: te.const(1, x.dtype) / x,
    "Not": ir.logical_not,
    "BitwiseNot": lambda x: ~x,
    "Relu": lambda x: te.max(x, te.const(0, x.dtype)),
    "Softplus": wide(_softplus),
    "Softsign": wide(lambda x: x / (1.0 + te.abs(x))),
    "HardSwish": wide(lambda x: x * te.max(0.0, te.min(1.0, x / 6.0 + 0.5))),
    "Mish": wide(lambda x: x * te.tanh(_softplus(x))),
}

#: name -> attributes with their defaults, and what becomes of an element and these
_WITH_NUMBERS: dict[str, tuple[dict[str, float], Callable[..., object]]] = {
    "LeakyRelu": ({"alpha": 0.01}, lambda x, a: te.select(x >= 0.0, x, x * a)),
    "ThresholdedRelu": ({"alpha": 1.0}, lambda x, a: te.select(x > a, x, te.const(0, x.dtype))),
    "Elu": ({"alpha": 1.0}, lambda x, a: te.select(x > 0.0, x, a * (te.exp(x) - 1.0))),
    "Celu": ({"alpha": 1.0}, lambda x, a: te.max(x, 0.0) + te.min(0.0, a * (te.exp(x / a) - 1.0))),
    "Selu": (
        {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875},
        lambda x, a, gamma: gamma * te.select(x > 0.0, x, a * (te.exp(x) - 1.0)),
    ),
    "HardSigmoid": ({"alpha": 0.2, "beta": 0.5}, lambda x, a, b: te.max(0.0, te.min(1.0, a * x + b))),
    "Swish": ({"alpha": 1.0}, lambda x, a: x * te.sigmoid(a * x)),
    "Shrink": (
        {"lambd": 0.5, "bias": 0.0},
        lambda x, most, bias: te.select(
            x < -most, x + bias, te.select(x > most, x - bias, te.const(0, x.dtype))
        ),
    ),
}  # fmt: skip


def _each(name: str, f: Callable[[Expr], object]) -> None:
    @operator(name)
    def read(node: Node, x: Tensor) -> Tensor:
        return elementwise(x, f, name.lower())


def _with_numbers(name: str, defaults: dict[str, float], f: Callable[..., object]) -> None:
    @operator(name)
    def read(node: Node, x: Tensor) -> Tensor:
        numbers = [float(node.attr(key, default)) for key, default in defaults.items()]
        return elementwise(x, lambda e: wide(f)(e, *numbers), name.lower())


for _name, _f in _EACH.items():
    _each(_name, _f)
for _name, (_defaults, _function) in _WITH_NUMBERS.items():
    _with_numbers(_name, _defaults, _function)


@operator("Identity")
def identity(node: Node, x: Value) -> Value:
    return x


@operator("IsInf")
def is_inf(node: Node, x: Tensor) -> Tensor:
    up, down = node.attr("detect_positive", 1), node.attr("detect_negative", 1)
    wanted = [(x_is, on) for x_is, on in ((lambda e: e > 0, up), (lambda e: e < 0, down)) if on]
    return elementwise(
        x, lambda e: te.isinf(e) & te.any(*(x_is(e) for x_is, _ in wanted)) if wanted else te.const(False), "isinf"
    )


@operator("Gelu")
def gelu(node: Node, x: Tensor) -> Tensor:
    kind = node.attr("approximate", "none")
    if kind not in ("none", "tanh"):
        raise node.refused(f"approximate={kind!r} is unknown", "none, tanh")

    def exact(e: Expr) -> object:
        return 0.5 * e * (1.0 + te.erf(e * 0.7071067811865476))

    def by_tanh(e: Expr) -> object:
        return 0.5 * e * (1.0 + te.tanh(0.7978845608028654 * (e + 0.044715 * e * e * e)))

    return elementwise(x, wide(exact if kind == "none" else by_tanh), "gelu")


@operator("Clip")
def clip(node: Node, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    bounds = [
        te.const(node.attrs[name], x.dtype) if name in node.attrs else None if t is None else element(node, t)
        for name, t in (("min", low), ("max", high))
    ]

    def body(e: Expr) -> Expr:
        e = e if bounds[0] is None else te.max(e, bounds[0])
        return e if bounds[1] is None else te.min(e, bounds[1])

    return elementwise(x, body, "clip")


@operator("Dropout")
def dropout(node: Node, x: Tensor, ratio: Tensor | None = None, training_mode: Tensor | None = None) -> object:
    if training_mode is not None and node.number(training_mode) and (ratio is None or node.number(ratio) != 0):
        raise node.refused("it drops elements by chance", "training_mode=False, as in a model for inference")
    return x, topi.full(x.shape, "bool" if node.opset >= 10 else x.dtype, 1)


# -- types ----------------------------------------------------------------------------------------------


def converted(x: Tensor, to: DType) -> Tensor:
    """A tensor with elements of another type."""
    return x if x.dtype == to else topi.cast(x, to)


@operator("Cast")
def cast(node: Node, x: Tensor) -> Tensor:
    of = small.of_number(node.attr("to"))
    return _cast(node, x, of, x.dtype if of is not None else element_type(node, node.attr("to")))


@operator("CastLike")
def cast_like(node: Node, x: Tensor, like: Tensor) -> Tensor:
    return _cast(node, x, node.small.get(like), like.dtype)


def _cast(node: Node, x: Tensor, of: Any, to: DType) -> Tensor:
    """Elements as values of a small type, or of another where there is none."""
    if of is None:
        return topi.cast(x, to) if x in node.small else converted(x, to)
    saturate, mode = bool(node.attr("saturate", 1)), node.attr("round_mode", "up")
    if mode not in small.ROUND_MODES:
        raise node.refused(f"round_mode {mode!r}", ", ".join(small.ROUND_MODES))
    made = elementwise(x, lambda e: small.rounded(e, of, saturate, mode), f"to_{of.name}")
    node.small[made] = of
    return made


@operator("BitCast")
def bit_cast(node: Node, x: Tensor) -> Tensor:
    to = element_type(node, node.attr("to"))
    if to.bytes != x.dtype.bytes:
        raise node.refused(f"elements of {x.dtype} are not as wide as {to}", "a type of the same width")
    if to.is_bool or x.dtype.is_bool:
        return converted(x, to)
    return elementwise(x, lambda e: te.reinterpret(to, e), "bitcast")


# -- several operands -----------------------------------------------------------------------------------


def _power(base: Expr, exponent: Expr) -> Expr:
    if base.dtype.is_integer and exponent.dtype.is_integer:
        return _whole_power(base, exponent)
    if exponent.op == "const" and exponent.value in (1, 2, 3):
        return repeated(base, int(exponent.value))
    of = base.dtype if base.dtype.is_float else exponent.dtype
    return ir.cast(base.dtype, te.power(base.astype(of), exponent.astype(of)))


def _whole_power(base: Expr, exponent: Expr) -> Expr:
    """By repeated squaring, exact but for wrapping; 1/x rounds toward zero."""
    one, square = te.const(1, base.dtype), base
    is_odd = (exponent & 1) != 0
    small = te.select(exponent > 63, 62 + (exponent & 1), exponent) if exponent.dtype.bits > 8 else exponent
    found = one
    for bit in range(6):
        found = found * te.select(((small >> bit) & 1) != 0, square, one)
        square = square * square
    if exponent.dtype.kind == "uint":
        return found
    sign = te.select(is_odd, base, one)
    below = te.select((base == one) | (base == -one), sign, te.const(0, base.dtype))
    return te.select(exponent < 0, below, found)


def _quotient(a: Expr, b: Expr) -> Expr:
    return te.truncdiv(a, b) if a.dtype.is_integer else a / b


_PAIRS: dict[str, Callable[[Any, Any], object]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": _quotient,
    "Pow": _power,
    "And": ir.logical_and,
    "Or": ir.logical_or,
    "Xor": lambda a, b: ir.compare("ne", a, b),
    "BitwiseAnd": lambda a, b: a & b,
    "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b,
    "PRelu": lambda x, slope: te.select(x < 0, x * slope, x),
    **{
        name: lambda a, b, op=op: ir.compare(op, a, b)
        for name, op in {
            "Equal": "eq", "Less": "lt", "LessOrEqual": "le", "Greater": "gt", "GreaterOrEqual": "ge",
        }.items()
    },
}  # fmt: skip

#: of any number of tensors, one at least
_VARIADIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "Max": lambda a, b: te.max(a, b),
    "Min": lambda a, b: te.min(a, b),
    "Sum": lambda a, b: a + b,
}


def _pair(name: str, f: Callable[[Any, Any], object]) -> None:
    @operator(name)
    def read(node: Node, a: Tensor, b: Tensor) -> Tensor:
        return broadcast(node, f, a, b)


def _variadic(name: str, f: Callable[[Expr, Expr], Expr]) -> None:
    @operator(name)
    def read(node: Node, *xs: Tensor) -> Tensor:
        return broadcast(node, lambda *e: reduce(f, e), *xs) if len(xs) > 1 else xs[0]


for _name, _g in _PAIRS.items():
    _pair(_name, _g)
for _name, _h in _VARIADIC.items():
    _variadic(_name, _h)


@operator("Mean")
def mean(node: Node, *xs: Tensor) -> Tensor:
    def average(*e: Expr) -> Expr:
        sums = accumulator(e[0].dtype)
        return ir.cast(e[0].dtype, reduce(lambda a, b: a + b, (x.astype(sums) for x in e)) / float(len(e)))

    return broadcast(node, average, *xs)


@operator("Mod")
def mod(node: Node, a: Tensor, b: Tensor) -> Tensor:
    if not node.attr("fmod", 0):
        return broadcast(node, te.floormod, a, b)
    return broadcast(node, te.truncmod if a.dtype.is_integer else te.fmod, a, b)


@operator("BitShift")
def bit_shift(node: Node, a: Tensor, b: Tensor) -> Tensor:
    direction = node.attr("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.refused(f"direction={direction!r} is unknown", "LEFT, RIGHT")
    return broadcast(node, lambda x, y: x << y if direction == "LEFT" else x >> y, a, b)


@operator("Where")
def where(node: Node, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return broadcast(node, lambda c, a, b: te.select(c, a, b), condition, x, y)
