"""Kinds of nodes of random ONNX graphs: a function each, which draws one from the tensors that are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched.testing.graph_maker import Draw, Known, Redraw

# -- element by element -----------------------------------------------------------------------------

_SMOOTH: dict[str, dict[str, Any]] = {
    "LeakyRelu": {"alpha": 0.25}, "Elu": {}, "Sigmoid": {}, "Tanh": {}, "Erf": {}, "Softplus": {}, "Softsign": {},
    "Gelu": {"approximate": "tanh"}, "HardSigmoid": {"alpha": 0.25}, "HardSwish": {}, "Mish": {}, "Selu": {},
    "Celu": {}, "Sin": {}, "Cos": {}, "Exp": {},
}  # fmt: skip


def unary(d: Draw) -> None:
    kind = d.one([*_SMOOTH])
    t = d.floats()
    if kind == "Exp" and t.value.max() > 5:
        raise Redraw
    d.node(kind, t, **_SMOOTH[kind])


def exact_unary(d: Draw) -> None:
    kind = d.one(["Relu", "Abs", "Neg", "Identity", "Identity"])
    d.node(kind, d.tensor(lambda t: t.value.dtype.kind in "fi"), exact=True)


def jumping_unary(d: Draw) -> None:
    d.node(d.one(["Floor", "Ceil", "Round", "Sign", "ThresholdedRelu"]), d.floats(exact=True), exact=True)


def of_positive(d: Draw) -> None:
    t = d.tensor(lambda t: t.is_float and bool(t.value.min() > 0.1))
    d.node(d.one(["Log", "Sqrt", "Reciprocal"]), t)


def clip(d: Draw) -> None:
    low = np.float32(d.between(-8, 0) / 4)
    limits = [d.constant(low), d.constant(low + np.float32(d.between(0, 8) / 4))]
    d.node("Clip", d.floats(), *limits[: d.between(1, 2)], exact=True)


def binary(d: Draw) -> None:
    t = d.tensor(lambda t: t.value.dtype.kind in "fi")
    kind = d.one(["Add", "Sub", "Mul", "Max", "Min", "PRelu"])
    if kind == "PRelu" and not t.is_float:
        raise Redraw
    beside = d.like(t)
    pair = (t, beside) if kind == "PRelu" or d.chance() else (beside, t)
    d.node(kind, *pair, exact=kind in ("Max", "Min"))


def division(d: Draw) -> None:
    t = d.floats()
    d.node("Div", t, d.constant(np.float32(d.one([0.5, 2, 3, -4, 0.125]))))


def power(d: Draw) -> None:
    d.node("Pow", d.floats(), d.constant(np.float32(d.one([1, 2, 3]))))


def several(d: Draw) -> None:
    t = d.floats()
    d.node(d.one(["Sum", "Mean", "Max"]), t, d.like(t), d.like(t))


def comparison(d: Draw) -> None:
    t = d.tensor(lambda t: t.exact and t.value.dtype.kind in "fi")
    beside = d.like(t)
    if d.rough:
        raise Redraw
    d.node(d.one(["Greater", "Less", "Equal", "GreaterOrEqual"]), t, beside, exact=True)


def logic(d: Draw) -> None:
    t = d.tensor(lambda t: t.value.dtype == bool)
    if d.chance(0.3):
        d.node("Not", t, exact=True)
    else:
        other = d.tensor(lambda o: o.value.dtype == bool and o.shape == t.shape)
        d.node(d.one(["And", "Or", "Xor"]), t, other, exact=True)


def where(d: Draw) -> None:
    c = d.tensor(lambda t: t.value.dtype == bool)
    t = d.tensor(lambda t: t.is_float and _broadcasts(t.shape, c.shape))
    d.node("Where", c, t, d.like(t), exact=True)


def cast(d: Draw) -> None:
    from onnx import TensorProto

    t = d.tensor(lambda t: t.exact)
    d.node("Cast", t, to=d.one([TensorProto.FLOAT, TensorProto.INT32, TensorProto.BOOL, TensorProto.INT64]), exact=True)


def _broadcasts(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


# -- axes ------------------------------------------------------------------------------------------


def _axis(d: Draw, t: Known) -> int:
    return d.between(-t.ndim, t.ndim - 1)


def _axes(d: Draw, t: Known) -> list[int]:
    chosen = [a for a in range(t.ndim) if d.chance()] or [d.below(t.ndim)]
    return [a - t.ndim if d.chance(0.3) else a for a in chosen]


def reduction(d: Draw) -> None:
    kind = d.one("Sum Mean Max Min L1 L2 SumSquare LogSumExp Prod".split())
    t = d.floats(1)
    if kind == "LogSumExp" and t.value.max() > 20:
        raise Redraw
    axes = [d.integers(_axes(d, t))] if d.chance(0.8) else []
    d.node(f"Reduce{kind}", t, *axes, keepdims=d.below(2), exact=kind in ("Max", "Min"))


def place_of_most(d: Draw) -> None:
    t = d.floats(1, exact=True)
    d.node(d.one(["ArgMax", "ArgMin"]), t, axis=_axis(d, t), keepdims=d.below(2), select_last_index=d.below(2))


def largest(d: Draw) -> None:
    t = d.floats(1, exact=True)
    axis = _axis(d, t)
    k = d.between(1, t.shape[axis])
    values = d.node("TopK", t, d.integers([k]), outputs=2, axis=axis, largest=d.below(2), exact=True)
    assert len(values) == 2


def running_sum(d: Draw) -> None:
    t = d.floats(1)
    axis = d.constant(np.array(_axis(d, t), np.int64))
    d.node("CumSum", t, axis, exclusive=d.below(2), reverse=d.below(2))


def softmax(d: Draw) -> None:
    t = d.floats(1)
    if np.abs(t.value).max() > 50:
        raise Redraw
    d.node(d.one(["Softmax", "LogSoftmax", "Softmax"]), t, axis=_axis(d, t))


def row_norm(d: Draw) -> None:
    t = d.floats(1)
    axis = d.below(t.ndim)
    shape = t.shape[axis:]
    parts = [d.constant(d.numbers(*shape)) for _ in range(d.between(1, 2))]
    d.node("LayerNormalization", t, *parts, axis=axis - (t.ndim if d.chance() else 0), epsilon=0.0625)


def channel_norm(d: Draw) -> None:
    t = d.floats(3)
    c = t.shape[1]
    kind = d.one(["BatchNormalization", "BatchNormalization", "InstanceNormalization"])
    parts = [d.constant(d.numbers(c)) for _ in range(3 if kind[0] == "B" else 2)]
    if kind[0] == "B":
        parts.append(d.constant(np.abs(d.numbers(c)) + np.float32(0.25)))
    d.node(kind, t, *parts, epsilon=0.0625)


# -- movement --------------------------------------------------------------------------------------


def transpose(d: Draw) -> None:
    t = d.tensor(lambda t: t.ndim >= 1)
    d.node("Transpose", t, perm=[int(a) for a in d.rng.permutation(t.ndim)], exact=True)


def reshape(d: Draw) -> None:
    t = d.tensor()
    rest = t.value.size
    sizes: list[int] = []
    for _ in range(d.below(4)):
        sizes.append(d.one([n for n in range(1, rest + 1) if rest % n == 0]))
        rest //= sizes[-1]
    sizes.append(rest)
    if d.chance(0.3):
        sizes[d.below(len(sizes))] = -1
    d.node("Reshape", t, d.integers(sizes), exact=True)


def flatten(d: Draw) -> None:
    t = d.tensor(lambda t: t.ndim >= 1)
    d.node("Flatten", t, axis=d.between(-t.ndim, t.ndim), exact=True)


def squeeze(d: Draw) -> None:
    if d.chance():
        t = d.tensor(lambda t: 1 in t.shape)
        d.node("Squeeze", t, *([d.integers([t.shape.index(1)])] if d.chance() else []), exact=True)
    else:
        t = d.tensor(lambda t: t.ndim < 5)
        d.node("Unsqueeze", t, d.integers([d.between(-t.ndim - 1, t.ndim)]), exact=True)


def cut(d: Draw) -> None:
    t = d.tensor(lambda t: t.ndim >= 1)
    axes = sorted({a % t.ndim for a in _axes(d, t)})
    starts: list[int] = []
    ends: list[int] = []
    steps: list[int] = []
    for a in axes:
        n, step = t.shape[a], d.one([1, 1, 2, 3, -1, -2])
        first, last = sorted((d.below(n), d.below(n)))
        starts.append(first if step > 0 else last)
        ends.append(last + 1 if step > 0 else first - 1 if first else -(1 << 40))
        steps.append(step)
    d.node("Slice", t, *map(d.integers, (starts, ends, axes, steps)), exact=True)


def join(d: Draw) -> None:
    t = d.tensor(lambda t: t.ndim >= 1)
    axis = d.below(t.ndim)

    def fits(o: Known) -> bool:
        return (
            o.ndim == t.ndim
            and o.value.dtype == t.value.dtype
            and all(a == axis or o.shape[a] == t.shape[a] for a in range(t.ndim))
        )

    parts = [t, *(d.tensor(fits) for _ in range(d.between(1, 2)))]
    d.node("Concat", *parts, axis=axis - (t.ndim if d.chance() else 0), exact=True)


def split(d: Draw) -> None:
    t = d.tensor(lambda t: t.ndim >= 1 and max(t.shape) > 1)
    axis = d.one([a for a in range(t.ndim) if t.shape[a] > 1])
    first = d.between(1, t.shape[axis] - 1)
    sizes = d.integers([first, t.shape[axis] - first])
    d.node("Split", t, sizes, outputs=2, kept=2, axis=axis, exact=True)


def pad(d: Draw) -> None:
    t = d.floats(1, 4)
    mode = d.one(["constant", "edge", "reflect", "wrap"])
    most = [min(3, n - 1) if mode == "reflect" else min(3, n) for n in t.shape]
    sizes = [d.between(0, m) for m in (*most, *most)]
    value = [d.constant(np.float32(d.between(-4, 4)))] if mode == "constant" and d.chance() else []
    d.node("Pad", t, d.integers(sizes), *value, mode=mode, exact=True)


def gather(d: Draw) -> None:
    t = d.tensor(lambda t: t.ndim >= 1)
    axis = d.below(t.ndim)
    n = t.shape[axis]

    def is_index(i: Known) -> bool:
        return i.value.dtype.kind == "i" and bool(i.value.min() >= -n and i.value.max() < n)

    if d.chance(0.3):
        d.node("Gather", t, d.tensor(is_index), axis=axis, exact=True)
    else:
        shape = [d.between(1, 3) for _ in range(d.below(3))]
        d.node("Gather", t, d.constant(d.rng.integers(-n, n, shape)), axis=axis, exact=True)


def gather_elements(d: Draw) -> None:
    t = d.tensor(lambda t: t.ndim >= 1)
    axis = d.below(t.ndim)
    indices = d.rng.integers(-t.shape[axis], t.shape[axis], t.shape)
    d.node("GatherElements", t, d.constant(indices), axis=axis, exact=True)


def scatter(d: Draw) -> None:
    t = d.floats(1, 3)
    n = t.shape[0]
    rows = d.rng.permutation(n)[: d.between(1, n)]
    updates = d.constant(d.numbers(len(rows), *t.shape[1:]))
    how = d.one(["none", "add", "max"])
    d.node("ScatterND", t, d.constant(rows.reshape(-1, 1)), updates, reduction=how, exact=how != "add")


def spread(d: Draw) -> None:
    t = d.tensor(lambda t: t.ndim <= 4)
    if d.chance():
        shape = [n if n > 1 else d.between(1, 4) for n in t.shape]
        d.node("Expand", t, d.integers([*([d.between(1, 3)] if d.chance() else []), *shape]), exact=True)
    elif t.ndim:
        d.node("Tile", t, d.integers([d.between(1, 3) for _ in t.shape]), exact=True)
    else:
        raise Redraw


def triangle(d: Draw) -> None:
    k = [d.constant(np.array(d.between(-2, 2), np.int64))] if d.chance() else []
    d.node("Trilu", d.floats(2), *k, upper=d.below(2), exact=True)


def blocks(d: Draw) -> None:
    if d.chance():
        t = d.tensor(lambda t: t.is_float and t.ndim == 4 and t.shape[1] % 4 == 0)
        d.node("DepthToSpace", t, blocksize=2, mode=d.one(["DCR", "CRD"]), exact=True)
    else:
        t = d.tensor(lambda t: t.is_float and t.ndim == 4 and t.shape[2] % 2 == 0 and t.shape[3] % 2 == 0)
        d.node("SpaceToDepth", t, blocksize=2, exact=True)


# -- contractions ----------------------------------------------------------------------------------


def product(d: Draw) -> None:
    a = d.floats(1)
    n = a.shape[-1]
    if d.chance(0.4):
        b: Known | str = d.tensor(
            lambda t: (
                t.is_float
                and t.ndim >= 1
                and t.shape[max(t.ndim - 2, 0)] == n
                and _broadcasts(t.shape[:-2], a.shape[:-2])
            )
        )
    else:
        batch = [m if d.chance() else 1 for m in a.shape[:-2]] if d.chance(0.3) else []
        b = d.constant(d.numbers(*batch, n, *([d.between(1, 9)] if batch or d.chance(0.8) else [])))
    d.node("MatMul", a, b)


def general_product(d: Draw) -> None:
    a = d.floats(2, 2)
    left, right = d.below(2), d.below(2)
    k, m = (a.shape[0], a.shape[1]) if left else (a.shape[1], a.shape[0])
    n = d.between(1, 8)
    b = d.constant(d.numbers(n, k) if right else d.numbers(k, n))
    c = [d.constant(d.numbers(*d.one([(n,), (1, n), (m, 1), (m, n), ()])))] if d.chance(0.7) else []
    d.node("Gemm", a, b, *c, transA=left, transB=right, alpha=d.one([1.0, 0.5]), beta=d.one([1.0, -2.0]))


def _window(d: Draw, sizes: Sequence[int]) -> tuple[list[int], dict[str, Any]]:
    """A kernel's shape, and the attributes of its steps and borders."""
    kernel = [d.between(1, min(3, n)) for n in sizes]
    options: dict[str, Any] = {"kernel_shape": kernel}
    if d.chance(0.4):
        options["strides"] = [d.between(1, 3) for _ in sizes]
    if d.chance(0.5):
        options["pads"] = [d.below(k) for k in (*kernel, *kernel)]
    return kernel, options


def convolution(d: Draw) -> None:
    t = d.floats(3, 5)
    c = t.shape[1]
    kernel, options = _window(d, t.shape[2:])
    groups = d.one([g for g in range(1, c + 1) if c % g == 0]) if d.chance(0.3) else 1
    if d.chance(0.3):
        options["dilations"] = [d.between(1, 2) for _ in kernel]
    if "pads" not in options and "dilations" not in options and d.chance(0.2):
        options["auto_pad"] = d.one(["SAME_UPPER", "SAME_LOWER", "VALID"])
    out = groups * d.between(1, 4)
    bias = [d.constant(d.numbers(out))] if d.chance() else []
    d.node("Conv", t, d.constant(d.numbers(out, c // groups, *kernel)), *bias, group=groups, **options)


def convolution_transposed(d: Draw) -> None:
    t = d.floats(3, 4)
    c = t.shape[1]
    kernel, options = _window(d, [3] * (t.ndim - 2))
    groups = d.one([g for g in range(1, c + 1) if c % g == 0]) if d.chance(0.2) else 1
    d.node("ConvTranspose", t, d.constant(d.numbers(c, d.between(1, 3), *kernel)), group=groups, **options)


def block_of_network(d: Draw) -> None:
    """A convolution, a norm, an activation, and perhaps what went in added again."""
    t = d.floats(4, 4)
    c = t.shape[1]
    weights = d.constant(d.numbers(c, c, 3, 3) / 4)
    (x,) = d.node("Conv", t, weights, kernel_shape=[3, 3], pads=[1] * 4)
    norm = [d.constant(d.numbers(c)) for _ in range(3)] + [d.constant(np.abs(d.numbers(c)) + np.float32(0.5))]
    (x,) = d.node("BatchNormalization", x, *norm)
    if d.chance():
        (x,) = d.node("Add", *((x, t) if d.chance() else (t, x)))
    d.node(d.one(["Relu", "Sigmoid", "HardSwish"]), x)


def attention(d: Draw) -> None:
    """soft-max(q k') v over the last two axes."""
    t = d.floats(2, 4)
    q, k, v = (d.node("MatMul", t, d.constant(d.numbers(t.shape[-1], 4) / 8))[0] for _ in range(3))
    order = [*range(t.ndim - 2), t.ndim - 1, t.ndim - 2]
    (kt,) = d.node("Transpose", k, perm=order, exact=True)
    (scores,) = d.node("MatMul", q, kt)
    (scores,) = d.node("Mul", scores, d.constant(np.float32(0.5)))
    (shares,) = d.node("Softmax", scores, axis=-1)
    d.node("MatMul", shares, v)


def pool(d: Draw) -> None:
    t = d.floats(3, 4)
    kind = d.one(["MaxPool", "AveragePool", "AveragePool", "LpPool"])
    _, options = _window(d, t.shape[2:])
    if kind == "MaxPool" and "pads" in options:  # the reference mixes up borders that are not all the same
        options["pads"] = [min(options["pads"])] * len(options["pads"])
    if kind == "AveragePool":
        options["count_include_pad"] = d.below(2)
    d.node(kind, t, exact=kind == "MaxPool", **options)


def global_pool(d: Draw) -> None:
    kind = d.one(["GlobalAveragePool", "GlobalMaxPool"])
    # the reference takes the wrong axes for a maximum of other ranks
    d.node(kind, d.floats(4 if kind == "GlobalMaxPool" else 3, 4), exact=kind == "GlobalMaxPool")


def resize(d: Draw) -> None:
    t = d.floats(4, 4)
    scales = d.constant(np.array([1, 1, d.one([0.5, 2, 3]), d.one([1, 2])], np.float32))
    mode = d.one(["nearest", "linear"])
    how = d.one(["half_pixel", "asymmetric"])
    d.node("Resize", t, "", scales, mode=mode, coordinate_transformation_mode=how, exact=mode == "nearest")


def contraction_by_letters(d: Draw) -> None:
    t = d.floats(2, 3)
    if t.ndim == 2:
        equation, shape = d.one([("ij,jk->ki", (t.shape[1], 3)), ("ij,ij->i", t.shape), ("ij,kj->ik", (2, t.shape[1]))])
    else:
        equation, shape = d.one([("bij,bjk->bik", (t.shape[0], t.shape[2], 3)), ("bij,j->bi", (t.shape[2],))])
    d.node("Einsum", t, d.constant(d.numbers(*shape)), equation=equation)


def quantized(d: Draw) -> None:
    t = d.floats(2, 2, exact=True)
    scale, zero = d.constant(np.float32(0.25)), d.constant(np.array(d.between(0, 20), np.uint8))
    (q,) = d.node("QuantizeLinear", t, scale, zero, exact=True)
    if d.chance():
        d.node("DequantizeLinear", q, scale, zero, exact=True)
    else:
        weights = d.constant(d.rng.integers(-5, 6, (t.shape[1], 4)).astype(np.int8))
        d.node("MatMulInteger", q, weights, zero, exact=True)


def recurrent(d: Draw) -> None:
    t = d.floats(3, 3)
    kind, gates = d.one([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    n, way = d.between(1, 3), d.one([1, 2])
    shapes = (way, gates * n, t.shape[2]), (way, gates * n, n)
    weights = [d.constant(d.numbers(*s) / 4) for s in shapes]
    direction = "bidirectional" if way == 2 else d.one(["forward", "reverse"])
    d.node(kind, t, *weights, outputs=2, kept=2, hidden_size=n, direction=direction)


#: how often each kind is drawn, by being here more than once
KINDS: list[Callable[[Draw], None]] = [
    unary, unary, exact_unary, exact_unary, jumping_unary, of_positive, clip, binary, binary, binary, binary,
    division, power, several, comparison, logic, where, where, cast, reduction, reduction, reduction,
    place_of_most, largest, running_sum, softmax, softmax, row_norm, channel_norm, channel_norm, transpose,
    transpose, transpose, reshape, reshape, reshape, flatten, squeeze, squeeze, cut, cut, join, join, split,
    pad, gather, gather_elements, scatter, spread, spread, triangle, blocks, product, product, product,
    general_product, convolution, convolution, convolution, convolution_transposed, block_of_network,
    block_of_network, attention, pool, pool, global_pool, resize, contraction_by_letters, quantized, recurrent,
]  # fmt: skip
