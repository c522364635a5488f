"""float16 operators against float64: what is accumulated loses nothing on the way, and is rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from autosched import build, te, topi
from autosched.errors import UsageError
from autosched.te.tensor import Tensor

#: half a unit in the last place of a float16, and what the float32 arithmetic before it may add
RTOL = 5e-4
#: how the numbers of an input lie
KINDS = {
    "small": lambda rng, shape: rng.normal(size=shape) * 0.01,
    "around-100": lambda rng, shape: rng.normal(size=shape) + 100,
    "offset": lambda rng, shape: rng.normal(size=shape) * 3 - 20,
}


def computed(args: Sequence[Tensor], out: Tensor, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """By the oracle, and by LLVM on the schedule of topi."""
    f = build(topi.generic.schedule(out), "llvm", args=[*args, out])
    return [te.reference([*args, out], arrays)[0], f(*arrays)]


def check(
    operator: Callable[..., Tensor],
    exact: Callable[..., np.ndarray],
    shapes: Sequence[tuple[int, ...]],
    kind: str,
    rtol: float = RTOL,
    atol: float = 0.0,
) -> None:
    rng = np.random.default_rng(5)
    arrays = [KINDS[kind](rng, s).astype("float16") for s in shapes]
    tensors = [te.placeholder(s, "float16", name=f"x{k}") for k, s in enumerate(shapes)]
    out = operator(*tensors)
    assert out.dtype == "float16"
    with np.errstate(over="ignore"):
        expected = exact(*(a.astype("float64") for a in arrays)).astype("float16")
    for found in computed(tensors, out, arrays):
        np.testing.assert_allclose(
            found.astype("float64"), expected.astype("float64"), rtol=2 * rtol, atol=atol + 2.0**-24
        )


def normalized(x: np.ndarray, axis: Any, epsilon: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axis=axis, keepdims=True)) / np.sqrt(x.var(axis=axis, keepdims=True) + epsilon)


@pytest.mark.parametrize("kind", KINDS)
def test_layer_norm(kind: str) -> None:
    """To half a unit in the last place, where sums of float16 were off by 0.03 and NaN around 100."""
    rng = np.random.default_rng(3)
    x = KINDS[kind](rng, (64, 1024)).astype("float16")
    gamma, beta = (1 + rng.normal(size=1024) / 10).astype("float16"), np.zeros(1024, "float16")
    tensors = [te.placeholder(a.shape, "float16", name=f"x{k}") for k, a in enumerate((x, gamma, beta))]
    out = topi.nn.layer_norm(*tensors, axis=[1])
    expected = normalized(x.astype("float64"), 1) * gamma.astype("float64")
    for found in computed(tensors, out, [x, gamma, beta]):
        np.testing.assert_allclose(found.astype("float64"), expected, rtol=RTOL, atol=2.0**-15)


@pytest.mark.parametrize("kind", KINDS)
def test_reductions(kind: str) -> None:
    shape = [(6, 3000)]
    check(lambda x: topi.sum(x, axis=1), lambda x: x.sum(axis=1), shape, kind, atol=2e-4)
    check(lambda x: topi.mean(x, axis=1), lambda x: x.mean(axis=1), shape, kind, atol=1e-6)
    check(lambda x: topi.sum(x * x, axis=1), lambda x: (x * x).astype("float16").astype(float).sum(1), shape, kind)
    check(
        lambda x: topi.nn.global_pool(x, "avg"), lambda x: x.mean(axis=(2, 3), keepdims=True), [(1, 2, 60, 60)], kind,
        atol=1e-6,
    )  # fmt: skip
    check(
        lambda x: topi.nn.pool2d(x, (16, 16), 16, 1, 0, "avg"),
        lambda x: x.reshape(1, 2, 2, 16, 2, 16).mean(axis=(3, 5)),
        [(1, 2, 32, 32)],
        kind,
        atol=1e-5,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_norms_and_softmax(kind: str) -> None:
    def softmax(x: np.ndarray) -> np.ndarray:
        power = np.exp(x - x.max(axis=1, keepdims=True))
        return power / power.sum(axis=1, keepdims=True)

    check(lambda x: topi.nn.softmax(x), softmax, [(4, 5000)], kind)
    check(lambda x: topi.nn.log_softmax(x), lambda x: np.log(softmax(x)), [(4, 5000)], kind, atol=1e-5)
    rms = lambda x, w: x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * w  # noqa: E731
    check(lambda x, w: topi.nn.rms_norm(x, w, axis=[1]), rms, [(4, 2048), (2048,)], kind)
    group = lambda x, g, b: normalized(x, 1) * g + b  # noqa: E731
    check(lambda x, g, b: topi.nn.layer_norm(x, g, b, axis=[1]), group, [(4, 2048), (2048,), (2048,)], kind, atol=0.02)


@pytest.mark.parametrize("kind", ["small", "offset"])
def test_products(kind: str) -> None:
    k = 300
    near = {"rtol": RTOL, "atol": 1e-4 if kind == "small" else 0.1}
    check(lambda a, b: topi.matmul(a, b), lambda a, b: a @ b, [(8, k), (k, 8)], kind, **near)
    check(lambda a, b: topi.nn.matmul(a, b), lambda a, b: a @ b, [(8, k), (k, 8)], kind, **near)
    check(lambda a, b, c: topi.nn.dense(a, b, c), lambda a, b, c: a @ b.T + c, [(8, k), (8, k), (8,)], kind, **near)
    batch = lambda a, b: a @ b.transpose(0, 2, 1)  # noqa: E731
    check(lambda a, b: topi.nn.batch_matmul(a, b), batch, [(2, 8, k), (2, 8, k)], kind, **near)
    check(lambda a, b: topi.einsum("ik,kj->ij", a, b), lambda a, b: a @ b, [(8, k), (k, 8)], kind, **near)
    check(lambda a, b: topi.tensordot(a, b, 1), lambda a, b: a @ b, [(8, k), (k, 8)], kind, **near)
    convolved = lambda a, w: np.einsum("nchw,ochw->no", a, w)[:, :, None, None]  # noqa: E731
    check(
        lambda a, w: topi.nn.conv2d_nchw(a, w, 1, 0, 1), convolved, [(1, 64, 3, 3), (4, 64, 3, 3)], kind, **near
    )  # fmt: skip
    check(lambda x: topi.cumsum(x, axis=1), lambda x: np.cumsum(x, axis=1), [(2, 900)], kind, atol=2e-4)


def test_explicit_types() -> None:
    """`out_dtype` is the type of the result; float16 is rounded to from float32 sums."""
    a, b = te.placeholder((4, 8), "float16", name="a"), te.placeholder((8, 4), "float16", name="b")
    assert topi.nn.matmul(a, b, out_dtype="float32").dtype == topi.sum(a, 1, dtype="float32").dtype == "float32"
    assert topi.nn.matmul(a, b, out_dtype="float16").dtype == topi.mean(a, 1).dtype == "float16"
    wide = te.placeholder((4, 8), "float32", name="wide")
    assert topi.sum(wide, 1).op.input_tensors == (wide,), "nothing is added where nothing is narrow"


# -- the language ---------------------------------------------------------------------------------


def test_sums_in_a_wider_type() -> None:
    """The operand is converted before it is added."""
    x = te.placeholder((3000,), "float16", name="x")
    byte = te.placeholder((3000,), "uint8", name="byte")
    k = te.reduce_axis((0, 3000), "k")
    ones, bytes_ = np.ones(3000, "float16"), np.full(3000, 255, "uint8")
    total = te.compute((), lambda: te.sum(x[k], axis=k, dtype="float32"), name="total")
    count = te.compute((), lambda: te.sum(byte[k], axis=k, dtype="int32"), name="count")
    product = te.compute((), lambda: te.prod(x[k], axis=k, dtype="float64"), name="product")
    assert (total.dtype, count.dtype, product.dtype) == ("float32", "int32", "float64")
    for t, given, expected in ((total, ones, 3000), (count, bytes_, 3000 * 255), (product, ones, 1)):
        source = byte if t is count else x
        for found in computed([source], t, [given]):
            assert found == expected


def test_a_type_to_accumulate_in_needs_an_axis() -> None:
    x = te.placeholder((3,), "float16", name="x")
    with pytest.raises(UsageError, match="no axis"):
        te.compute((3,), lambda i: te.sum(x[i], x[i], dtype="float32"))
