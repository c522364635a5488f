"""Gradients against finite differences, which know nothing of how they are derived."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from autosched import te
from autosched.errors import UsageError
from autosched.ir.visit import post_order
from autosched.schedule import create_schedule
from autosched.te.gradient import DERIVATIVES
from autosched.te.tensor import Graph, Tensor
from autosched.testing.oracle import check_against_reference

F64 = "float64"


def values(args: Sequence[Tensor], seed: int = 0, low: float = 0.3, high: float = 0.9) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.uniform(low, high, [int(d.value) for d in t.shape]).astype(t.dtype.numpy) for t in args]


def check(
    output: Tensor, inputs: Sequence[Tensor], others: Sequence[Tensor] = (), head: bool = True, low: float = 0.3
) -> list[Tensor]:
    """Every element of every derivative, by moving every element of every input a little both ways."""
    given = [*inputs, *others]
    start = values(given, low=low)
    if head:
        weight = te.placeholder((2, *output.shape), F64, name="weight")
        weights = np.random.default_rng(1).uniform(-1, 1, [int(d.value) for d in weight.shape])
        made = te.gradient(output, list(inputs), weight)
        found = te.reference([*given, weight, *made], [*start, weights])
    else:
        made = te.gradient(output, list(inputs))
        found = te.reference([*given, *made], start)
    step = 1e-6
    for at, t in enumerate(inputs):
        for place in np.ndindex(*start[at].shape):
            sides = []
            for sign in (1, -1):
                moved = [a.copy() for a in start]
                moved[at][place] += sign * step
                sides.append(te.reference([*given, output], moved)[0])
            slope = (sides[0] - sides[1]) / (2 * step)
            wanted = np.tensordot(weights, slope, slope.ndim) if head else slope
            np.testing.assert_allclose(found[at][(..., *place)], wanted, rtol=2e-5, atol=2e-6, err_msg=t.name)
    return made


def has_reduction(t: Tensor) -> bool:
    return any(e.op in ("reduce", "scatter") for e in t.op.body)  # type: ignore[attr-defined]


UNARY = [op for op in DERIVATIVES if op not in ("add", "sub", "mul", "div", "min", "max", "pow", "fmod", "likely", "neg",
                                                "floormod", "truncmod", "atan2", "ldexp", "hypot", "copysign", "acosh")]  # fmt: skip


@pytest.mark.parametrize("op", UNARY)
def test_functions_of_one_operand(op: str) -> None:
    a = te.placeholder((3,), F64, name="a")
    f = te.MATH[op] if op in te.MATH else getattr(te, op)
    check(te.compute((3,), lambda i: f(a[i]), name="y"), [a])


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: a + b * a - b,
        lambda a, b: a / b,
        lambda a, b: -a * 2,
        lambda a, b: te.min(a, b) + te.max(a, b * a),
        lambda a, b: te.power(a, b),
        lambda a, b: te.fmod(a * 7, b),
        lambda a, b: te.atan2(a, b),
        lambda a, b: te.hypot(a, b),
        lambda a, b: te.copysign(a, b - 0.6),
        lambda a, b: te.ldexp(a * b, te.const(3, "int32")),
        lambda a, b: te.acosh(a + 1.2) + te.log1p(b),
        lambda a, b: te.select(a > b, a * b, b),
        lambda a, b: te.if_then_else(a > b, a * b, b * b),
        lambda a, b: te.floor(a * 5) * b,
        lambda a, b: (a.astype("float32") * 0).astype(F64) + b,
        lambda a, b: te.abs(a - b) + te.floormod(a * 5, b),
    ],
)
def test_functions_of_two_operands(f: Callable[..., object]) -> None:
    a, b = te.placeholder((4,), F64, name="a"), te.placeholder((4,), F64, name="b")
    check(te.compute((4,), lambda i: f(a[i], b[i]), name="y"), [a, b])


def test_matmul_needs_no_conditions() -> None:
    a, b = te.placeholder((3, 4), F64, name="a"), te.placeholder((4, 2), F64, name="b")
    k = te.reduce_axis((0, 4), "k")
    c = te.compute((3, 2), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    for d in check(c, [a, b]):
        assert not any(e.op in ("if_then_else", "select", "lt", "ge") for e in post_order(d.op.body))  # type: ignore[attr-defined]
        assert len(d.op.reduce_axis) == 1  # type: ignore[attr-defined]


def test_a_jacobian_of_an_element_wise_function_has_no_sum() -> None:
    a = te.placeholder((3, 2), F64, name="a")
    y = te.compute((3, 2), lambda i, j: a[i, j] * a[i, j], name="y")
    (d,) = check(y, [a], head=False)
    assert [int(x.value) for x in d.shape] == [3, 2, 3, 2]
    assert not has_reduction(d)


def test_chains_and_shared_tensors() -> None:
    a = te.placeholder((4,), F64, name="a")
    b = te.compute((4,), lambda i: te.exp(a[i]), name="b")
    c = te.compute((4,), lambda i: b[i] * a[3 - i] + b[3 - i], name="c")
    k = te.reduce_axis((0, 4), "k")
    total = te.compute((), lambda: te.sum(c[k] * b[k], axis=k), name="total")
    check(total, [a])
    check(total, [a], head=False)


def test_convolution_with_stride() -> None:
    """`x[2*i + r]`: solved for i, with a remainder to ask about; r is left as the sum."""
    x, w = te.placeholder((9,), F64, name="x"), te.placeholder((3,), F64, name="w")
    r = te.reduce_axis((0, 3), "r")
    y = te.compute((4,), lambda i: te.sum(x[2 * i + r] * w[r], axis=r), name="y")
    dx, dw = check(y, [x, w])
    assert [int(a.extent.value) for a in dx.op.reduce_axis] == [3]  # type: ignore[attr-defined]
    assert has_reduction(dw)


def test_padding_transposing_and_flattening() -> None:
    x = te.placeholder((3, 4), F64, name="x")
    p = te.compute(
        (5, 4), lambda i, j: te.if_then_else(te.all(i >= 1, i < 4), x[i - 1, j], te.const(0.0, F64)), name="p"
    )
    t = te.compute((4, 5), lambda i, j: p[j, i] * 2, name="t")
    flat = te.compute((20,), lambda i: t[te.floordiv(i, 5), te.floormod(i, 5)] * t[0, 2], name="flat")
    check(flat, [x])


def test_clamps_and_gathers_scatter() -> None:
    x, at = te.placeholder((5,), F64, name="x"), te.placeholder((6,), "int32", name="at")
    edge = te.repeat_edge(x)
    y = te.compute((5,), lambda i: edge[i - 2] * edge[i + 2], name="y")
    (d,) = check(y, [x])
    assert any(has_reduction(t) for op in Graph.of([d]).ops for t in op.outputs if hasattr(op, "body"))
    g = te.compute((6,), lambda i: x[at[i]] * x[at[i]], name="g")
    (dx,) = te.gradient(g, [x], head := te.placeholder((6,), F64, name="head"))
    index, xs, hs = np.array([4, 0, 0, 2, 4, 4], np.int32), np.arange(1.0, 6.0), np.arange(6.0)
    wanted = np.zeros(5)
    np.add.at(wanted, index, 2 * xs[index] * hs)
    np.testing.assert_allclose(te.reference([x, at, head, dx], [xs, index, hs])[0], wanted)


OWN = [
    te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t), name="times"),
    te.comm_reducer(lambda x, y: y + x, lambda t: te.const(0, t), name="plus"),
    te.comm_reducer(te.max, te.min_value, name="largest"),
]


@pytest.mark.parametrize("combine", [te.max, te.min, te.prod, *OWN])
def test_other_reductions(combine: Callable[..., object]) -> None:
    x = te.placeholder((3, 4), F64, name="x")
    k = te.reduce_axis((1, 4), "k")
    y = te.compute((3,), lambda i: combine(x[i, k] * x[i, 0], axis=k, where=k > 1), name="y")
    check(y, [x])


def test_ties_share_and_zeros_have_a_product() -> None:
    x = te.placeholder((4,), F64, name="x")
    k, r = te.reduce_axis((0, 4), "k"), te.reduce_axis((0, 4), "r")
    top = te.compute((), lambda: te.max(x[k], axis=k), name="top")
    all_ = te.compute((), lambda: te.prod(x[r], axis=r), name="all")
    (d,), (e,) = te.gradient(top, x), te.gradient(all_, x)
    assert te.reference([x, d], [np.array([2.0, 5, 1, 5])])[0].tolist() == [0, 0.5, 0, 0.5]
    assert te.reference([x, e], [np.array([2.0, 0, 3, 5])])[0].tolist() == [0, 30, 0, 0]


def test_a_scatter() -> None:
    x, at = te.placeholder((6,), F64, name="x"), te.placeholder((6,), "int32", name="at")
    i = te.reduce_axis((0, 6), "i")
    y = te.scatter_reduce((3,), lambda: (at[i], x[i] * x[i]), axis=i, name="y")
    head = te.placeholder((3,), F64, name="head")
    (d,) = te.gradient(y, [x], head)
    index, xs, hs = np.array([0, 2, 2, 7, -1, 1], np.int32), np.arange(1.0, 7.0), np.array([1.0, 10, 100])
    wanted = [2.0, 400, 600, 0, 0, 120]
    np.testing.assert_allclose(te.reference([x, at, head, d], [xs, index, hs])[0], wanted)


def test_an_input_that_is_not_used_and_the_output_itself() -> None:
    x, z = te.placeholder((2,), F64, name="x"), te.placeholder((3,), F64, name="z")
    y = te.compute((2,), lambda i: x[i] + 1, name="y")
    dz, dy = te.gradient(y, [z, y])
    assert te.reference([x, dz], [np.ones(2)])[0].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert te.reference([dy], [])[0].tolist() == [[1, 0], [0, 1]]


def test_symbolic_sizes_compile() -> None:
    n, m = te.var("n"), te.var("m")
    x, w, head = (te.placeholder(s, "float32", name=t) for s, t in (((n, m), "x"), ((m,), "w"), ((n,), "head")))
    k = te.reduce_axis((0, m), "k")
    y = te.compute((n,), lambda i: te.sum(x[i, k] * w[k], axis=k), name="y")
    dx, dw = te.gradient(y, [x, w], head)
    draw = np.random.default_rng(0)
    xs, ws, hs = (draw.integers(-4, 5, s).astype(np.float32) for s in ((5, 7), (7,), (5,)))
    args = [x, w, head, dx, dw]
    check_against_reference(args, create_schedule([dx, dw]), "llvm", [xs, ws, hs])
    np.testing.assert_array_equal(te.reference(args, [xs, ws, hs])[0], np.outer(hs, ws))
    np.testing.assert_array_equal(te.reference(args, [xs, ws, hs])[1], hs @ xs)


def test_misuse() -> None:
    x = te.placeholder((2,), F64, name="x")
    i = te.placeholder((2,), "int32", name="i")
    y = te.compute((2,), lambda k: x[k] * 2, name="y")
    with pytest.raises(UsageError, match="i holds int32"):
        te.gradient(y, [i])
    k, odd = te.reduce_axis((0, 2), "k"), te.comm_reducer(lambda a, b: a + b, lambda t: te.const(1, t), name="odd")
    with pytest.raises(UsageError, match="reduced in a way of one's own"):
        te.gradient(te.compute((1,), lambda _: odd(x[k], axis=k), name="o"), [x])
    with pytest.raises(UsageError, match="is no head for"):
        te.gradient(y, [x], te.placeholder((3,), F64, name="h"))
    state = te.placeholder((4, 2), F64, name="state")
    first = te.compute((1, 2), lambda _, k: x[k], name="first")
    step = te.compute((4, 2), lambda t, k: state[t - 1, k] * 2, name="step")
    with pytest.raises(UsageError, match=r"is a ScanOp, which has no derivative"):
        te.gradient(te.scan(first, step, state), [x])


def test_a_gradient_is_the_same_program_each_time() -> None:
    """Either of two axes of one length can be solved for; where memory lies must not choose, because a workload's key
    depends on it."""
    alive: list[object] = []

    def key() -> str:
        a = te.placeholder((7,), "float32", "A")
        axes = [te.reduce_axis((0, 3), name) for name in "rst"]
        total = te.compute((3,), lambda i: te.sum(a[i + sum(axes[1:], axes[0].var) - 2], axis=axes), name="total")
        alive.append([te.var("elsewhere") for _ in range(len(alive) * 7 % 5)])
        (found,) = te.gradient(total, [a])
        alive.append(found)
        return te.workload_key([a, found])

    assert len({key() for _ in range(40)}) == 1


def test_powers_of_zero_and_to_the_zero() -> None:
    """0 * inf is none of their derivatives: x**0 is 1 all around, and 0**y is 0."""
    x, y = te.placeholder((3,), F64, name="x"), te.placeholder((3,), F64, name="y")
    power = te.compute((3,), lambda i: te.pow(x[i], y[i]), name="power")
    head = te.placeholder((3,), F64, name="head")
    dx, dy = te.gradient(power, [x, y], head)
    given = [np.array([0.0, 0.0, 2.0]), np.array([0.0, 3.0, 0.0])]
    found = te.reference([x, y, head, dx, dy], [*given, np.ones(3)])
    np.testing.assert_array_equal(found, [[0, 0, 0], [0, 0, np.log(2)]])
