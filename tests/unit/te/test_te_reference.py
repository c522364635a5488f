"""The oracle against plain NumPy, written out by hand for each program."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import BuildError
from autosched.ir.dtype import SCALAR_DTYPES, dtype, is_float
from autosched.te.reference import LONG
from autosched.te.tensor import MAX_DEPTH, Tensor

n, m = te.var("n"), te.var("m")


def edges(of: str) -> np.ndarray:
    t = dtype(of)
    if t.is_bool:
        return np.array([False, True])
    if t.is_integer:
        picks = (t.min, t.min + 1, -100, -7, -1, 0, 1, 2, 3, 7, 100, t.max - 1, t.max)
        return np.array(sorted({int(v) for v in picks if t.min <= v <= t.max}), of)
    return np.array([0.0, -0.0, 0.5, 1, -1.5, 2.5, -7.25, 100, 60000, np.inf, -np.inf, np.nan], of)


def pairs(of: str) -> list[np.ndarray]:
    values = edges(of)
    return [a.ravel() for a in np.meshgrid(values, values, indexing="ij")]


def run(inputs: list[Any], *outputs: Callable[..., Tensor] | Tensor, sizes: dict[str, int] | None = None) -> Any:
    """`outputs` are functions of the placeholders that `inputs` call for."""
    arrays = [np.asarray(a) for a in inputs]
    tensors = [te.placeholder(a.shape, a.dtype, name=f"x{k}") for k, a in enumerate(arrays)]
    made = [o(*tensors) if callable(o) and not isinstance(o, Tensor) else o for o in outputs]
    results = te.reference([*tensors, *made], arrays, sizes)
    return results[0] if len(results) == 1 else results


def same(got: np.ndarray, expected: np.ndarray) -> None:
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert np.array_equal(got, expected, equal_nan=is_float(expected.dtype)), (got, expected)


def elementwise(f: Callable[..., Any]) -> Callable[..., Tensor]:
    return lambda *ts: te.compute(ts[0].shape, lambda *i: f(*(t[i] for t in ts)), name="out")


# -- every operator on every type -----------------------------------------------------------------


@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_choices(of: str) -> None:
    """Operators and functions: `test_te_reference_edges`."""
    a, b = pairs(of)
    same(run([a, b], elementwise(lambda x, y: te.select(x < y, x, y))), np.where(a < b, a, b))
    same(run([a, b], elementwise(lambda x, y: te.if_then_else(x < y, y, x))), np.where(a < b, b, a))
    same(run([a, b], elementwise(lambda x, y: te.all(x != y, te.any(x, y)))), (a != b) & ((a != 0) | (b != 0)))
    same(run([a, b], elementwise(lambda x, y: ~te.likely(x < y))), ~(a < b))


def test_math_of_integers_is_in_float32() -> None:
    x = np.array([1, 2, 3], "int16")
    same(run([x], elementwise(te.exp)), np.exp(x.astype("float32")))
    same(run([x.astype("uint64")], elementwise(te.sqrt)), np.sqrt(x.astype("float64")))


# -- programs -------------------------------------------------------------------------------------


def rows(*shape: int, of: str = "float32", seed: int = 0) -> np.ndarray:
    """Small integers, whose sums and products are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(of)


@pytest.mark.parametrize("of", ["float32", "float16", "int8", "int64"])
def test_matmul(of: str) -> None:
    a, b = rows(5, 7, of=of), rows(7, 3, of=of, seed=1)

    def matmul(x: Tensor, y: Tensor) -> Tensor:
        k = te.reduce_axis((0, 7), name="k")
        return te.compute((5, 3), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="c")

    same(run([a, b], matmul), a @ b)


@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (1, 1), (2, 1), (3, 2)])
def test_convolution(stride: int, pad: int) -> None:
    image, kernel = rows(9, 8, 3), rows(3, 3, 3, 4, seed=2)
    out_h, out_w = (9 + 2 * pad - 3) // stride + 1, (8 + 2 * pad - 3) // stride + 1

    def convolved(x: Tensor, w: Tensor) -> Tensor:
        dy, dx, c = (te.reduce_axis((0, 3), name=name) for name in ("dy", "dx", "c"))

        def at(y: Any, xx: Any) -> Any:
            inside = te.all(y >= pad, y < 9 + pad, xx >= pad, xx < 8 + pad)
            return te.if_then_else(inside, x[y - pad, xx - pad, c], 0.0)

        return te.compute(
            (out_h, out_w, 4),
            lambda y, xx, f: te.sum(at(y * stride + dy, xx * stride + dx) * w[dy, dx, c, f], axis=[dy, dx, c]),
            name="conv",
        )

    padded = np.pad(image, ((pad, pad), (pad, pad), (0, 0)))
    expected = np.zeros((out_h, out_w, 4), "float32")
    for y in range(out_h):
        for x in range(out_w):
            patch = padded[y * stride : y * stride + 3, x * stride : x * stride + 3]
            expected[y, x] = np.einsum("abc,abcf->f", patch, kernel)
    same(run([image, kernel], convolved), expected)


def test_softmax_in_pieces() -> None:
    x = np.random.default_rng(0).normal(size=(4, 6)).astype("float32")

    def softmax(t: Tensor) -> Tensor:
        k, r = te.reduce_axis((0, 6), name="k"), te.reduce_axis((0, 6), name="r")
        top = te.compute((4,), lambda i: te.max(t[i, k], axis=k), name="top")
        shifted = te.compute((4, 6), lambda i, j: te.exp(t[i, j] - top[i]), name="shifted")
        total = te.compute((4,), lambda i: te.sum(shifted[i, r], axis=r), name="total")
        return te.compute((4, 6), lambda i, j: shifted[i, j] / total[i], name="softmax")

    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(run([x], softmax), e / e.sum(axis=1, keepdims=True), rtol=1e-6)


def test_pooling_and_a_window() -> None:
    x = rows(12, of="int32")
    k = te.reduce_axis((0, 3), name="k")
    pool, products = run(
        [x],
        lambda t: te.compute((4,), lambda i: te.max(t[i * 3 + k], axis=k), name="pool"),
        lambda t: te.compute((10,), lambda i: te.prod(t[i + k], axis=k), name="prod"),
    )
    same(pool, x.reshape(4, 3).max(axis=1))
    same(products, np.array([x[i] * x[i + 1] * x[i + 2] for i in range(10)], "int32"))


def test_layouts() -> None:
    x = rows(4, 6, of="int16")
    same(run([x], lambda t: te.compute((6, 4), lambda i, j: t[j, i], name="t")), x.T)
    same(run([x], lambda t: te.compute((24,), lambda i: t[i // 6, i % 6], name="t")), x.ravel())
    same(run([x], lambda t: te.compute((4, 6), lambda i, j: t[3 - i, 5 - j], name="t")), x[::-1, ::-1])
    same(run([x], lambda t: te.compute((2, 3, 2, 2), lambda a, b, i, j: t[a * 2 + i, b * 2 + j], name="t")),
         x.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3))  # fmt: skip
    same(run([x], lambda t: te.compute((4, 6), lambda i, j: t[i, 0], name="t")), np.repeat(x[:, :1], 6, axis=1))
    same(run([x], lambda t: te.compute((3,), lambda i: i * 2, name="t")), np.array([0, 2, 4], "int32"))
    same(run([x], lambda t: te.compute((2, 2), lambda i, j: 1.5, name="t")), np.full((2, 2), 1.5, "float32"))


def test_gathers_by_data() -> None:
    table, at = rows(5, of="float64"), np.array([4, 0, 3, 3], "uint8")
    same(run([table, at], lambda t, i: te.compute((4,), lambda k: t[i[k]], name="g")), table[at])
    same(
        run([table, at], lambda t, i: te.compute((4,), lambda k: t[te.max(i[k], 1) - 1], name="g")),
        table[np.maximum(at, 1) - 1],
    )
    histogram = run([at], lambda i: te.compute((5,), lambda v: te.sum(i[K] == v, axis=K), name="h"))
    same(histogram, np.bincount(at, minlength=5).astype("int32"))


K = te.reduce_axis((0, 4), name="K")


def test_several_outputs_in_the_order_of_the_arguments() -> None:
    a = te.placeholder((3,), "int32", name="a")
    b = te.compute((3,), lambda i: a[i] + 1, name="b")
    c = te.compute((3,), lambda i: b[i] * 2, name="c")
    x = np.array([1, 2, 3], "int32")
    for args in ([a, b, c], [c, a, b], [c, b, a]):
        expected = {b: x + 1, c: (x + 1) * 2}
        got = te.reference(args, [x])
        assert [g.tolist() for g in got] == [expected[t].tolist() for t in args if t is not a]


# -- guards ---------------------------------------------------------------------------------------


def test_only_the_taken_side_of_a_choice_is_read() -> None:
    x = rows(4, of="int32")

    def nested(t: Tensor) -> Tensor:
        def value(i: Any) -> Any:
            before, behind = i < 2, i >= 6
            return te.if_then_else(before, -1, te.if_then_else(behind, -2, t[i - 2]) * 10)

        return te.compute((8,), value, name="p")

    same(run([x], nested), np.array([-1, -1, *(x * 10), -20, -20], "int32"))


def test_a_shared_read_is_guarded_where_it_is_guarded_only() -> None:
    x = rows(4, of="int32")

    def twice(t: Tensor) -> Tensor:
        return te.compute((5,), lambda i: te.if_then_else(i < 4, t[i], 0) + t[i], name="p")

    with pytest.raises(BuildError, match=r"index 4 of dimension 0 is outside 0\.\.3"):
        run([x], twice)
    guarded = run([x], lambda t: te.compute((5,), lambda i: te.if_then_else(i < 4, t[i] + t[i], 7), name="p"))
    same(guarded, np.array([*(x * 2), 7], "int32"))


def test_a_guard_that_is_never_true_reads_nothing() -> None:
    empty = np.zeros((0, 3), "float32")
    got = run([empty], lambda t: te.compute((2, 3), lambda i, j: te.if_then_else(i > 5, t[i, j], 1.0), name="p"))
    same(got, np.ones((2, 3), "float32"))
    with pytest.raises(BuildError, match=r"outside 0\.\.-1"):
        run([empty], lambda t: te.compute((2, 3), lambda i, j: te.if_then_else(i > 0, t[i, j], 1.0), name="p"))


def test_a_condition_may_itself_be_guarded() -> None:
    x = rows(4, of="int32")
    got = run(
        [x], lambda t: te.compute((6,), lambda i: te.if_then_else(te.if_then_else(i < 4, t[i], 0) > 0, i, -1), name="p")
    )
    same(got, np.array([i if i < 4 and x[i] > 0 else -1 for i in range(6)], "int32"))


def test_points_that_take_no_part_in_a_reduction_are_not_read() -> None:
    x = rows(6, of="int32")
    k = te.reduce_axis((-2, 3), name="k")
    got = run(
        [x],
        lambda t: te.compute((6,), lambda i: te.sum(t[i + k], axis=k, where=te.all(i + k >= 0, i + k < 6)), name="s"),
    )
    same(got, np.array([x[max(i - 2, 0) : i + 3].sum() for i in range(6)], "int32"))
    with pytest.raises(BuildError, match="index -2 of dimension 0"):
        run([x], lambda t: te.compute((6,), lambda i: te.sum(t[i + k], axis=k), name="s"))


@pytest.mark.parametrize(("index", "named"), [(-1, -1), (4, 4), (1000, 1000)])
def test_a_read_outside_its_tensor_is_named(index: int, named: int) -> None:
    x = rows(4)
    with pytest.raises(BuildError, match=f"index {named} of dimension 0 is outside 0..3") as caught:
        run([x], lambda t: te.compute((2,), lambda i: t[i * 0 + index], name="bad"))
    assert caught.value.asked == "read of x0"
    assert "te.if_then_else" in caught.value.legal


# -- reductions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_reductions_of_every_type(of: str) -> None:
    x = rows(3, 6, of="int32").astype(of)
    k = te.reduce_axis((0, 6), name="k")
    wide = "int32" if of == "bool" else of
    plain = x.astype(wide)
    for reduce, expected in ((te.sum, np.add), (te.prod, np.multiply), (te.min, np.minimum), (te.max, np.maximum)):
        got = run([x], lambda t, reduce=reduce: te.compute((3,), lambda i: reduce(t[i, k], axis=k), name="r"))
        same(got, expected.reduce(plain, axis=1, dtype=wide))


@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_a_reduction_of_nothing_is_its_identity(of: str) -> None:
    x = np.zeros((2, 0), of)
    k = te.reduce_axis((0, 0), name="k")
    t = dtype("int32" if of == "bool" else of)
    for reduce, expected in ((te.sum, 0), (te.prod, 1), (te.min, t.max), (te.max, t.min)):
        got = run([x], lambda y, reduce=reduce: te.compute((2,), lambda i: reduce(y[i, k], axis=k), name="r"))
        same(got, np.full(2, expected, t.numpy))


def test_an_axis_of_negative_length_has_no_points() -> None:
    a = te.placeholder((n,), "int32", name="a")
    k = te.reduce_axis((2, n), name="k")
    b = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="b")
    assert [te.reference([a, b], [np.ones(length, "int32")])[0][0] for length in (0, 1, 2, 5)] == [0, 0, 0, 3]


def test_sums_wrap_in_integers_and_are_rounded_once_in_floats() -> None:
    k = te.reduce_axis((0, 300), name="k")
    total = lambda t: te.compute((1,), lambda i: te.sum(t[k], axis=k), name="s")  # noqa: E731
    assert run([np.ones(300, "uint8")], total)[0] == 300 % 256
    ones = np.ones(300, "float16")
    ones[0] = 2048  # in float16, 2048 + 1 is 2048
    assert run([ones], total)[0] == np.float16(2347)


def test_nans_survive_extremes() -> None:
    x = np.array([1.0, np.nan, 3.0])
    k = te.reduce_axis((0, 3), name="k")
    for reduce in (te.min, te.max):
        assert np.isnan(
            run([x], lambda t, reduce=reduce: te.compute((1,), lambda i: reduce(t[k], axis=k), name="r"))[0]
        )


def test_axes_of_a_reduction_may_start_anywhere_and_be_sizes() -> None:
    a = te.placeholder((n, m), "int32", name="a")
    r, c = te.reduce_axis((1, n), name="r"), te.reduce_axis((0, m - 1), name="c")
    b = te.compute((2,), lambda i: te.sum(a[r, c] * (i + 1), axis=[r, c], where=r != c), name="b")
    x = rows(4, 5, of="int32")
    inner = sum(int(x[i, j]) for i in range(1, 4) for j in range(4) if i != j)
    assert te.reference([a, b], [x])[0].tolist() == [inner, inner * 2]


# -- shapes and sizes -----------------------------------------------------------------------------


def test_zero_rank_and_empty() -> None:
    same(run([np.array(3, "int32")], lambda t: te.compute((), lambda: t() * 2, name="d")), np.array(6, "int32"))
    same(run([np.zeros((0, 4))], lambda t: te.compute((0, 4), lambda i, j: t[i, j] + 1, name="e")), np.zeros((0, 4)))
    same(run([np.ones(3)], lambda t: te.compute((3, 0), lambda i, j: t[i], name="e")), np.zeros((3, 0)))
    same(run([np.ones(3)], lambda t: te.compute((0,), lambda i: t[i + 5], name="e")), np.zeros(0))


def test_results_are_arrays_of_their_own() -> None:
    x = np.ones(3, "float32")
    copy = run([x], lambda t: te.compute((3,), lambda i: t[i], name="c"))
    filled = run([x], lambda t: te.compute((2, 3), lambda i, j: t[j], name="c"))
    copy[0], filled[0, 0] = 5, 7
    assert x[0] == 1
    assert filled[1, 0] == 1
    assert filled.flags.c_contiguous


def test_symbolic_shapes() -> None:
    a = te.placeholder((n, m), name="a")
    b = te.placeholder((n * 2, m + 1), name="b")
    c = te.compute((n + m, m // 2), lambda i, j: a[te.min(i, n - 1), j] + b[i % (n * 2), j + 1] + n, name="c")
    for height, width in ((3, 4), (1, 2), (5, 7)):
        x, y = rows(height, width), rows(height * 2, width + 1, seed=3)
        i, j = np.arange(height + width)[:, None], np.arange(width // 2)[None, :]
        expected = x[np.minimum(i, height - 1), j] + y[i % (height * 2), j + 1] + np.float32(height)
        same(te.reference([a, b, c], [x, y])[0], expected)
        same(te.reference([b, a, c], [y, x])[0], expected)


def test_wrong_inputs() -> None:
    a, b = te.placeholder((n, 3), name="a"), te.placeholder((n * 2,), "int32", name="b")
    c = te.compute((n,), lambda i: a[i, 0] + b[i], name="c")
    good_a, good_b = np.zeros((4, 3), "float32"), np.zeros(8, "int32")
    te.reference([a, b, c], [good_a, good_b])
    for wrong, why in (
        ([good_a], "2 inputs needed, 1 given"),
        ([good_a, good_b, good_b], "2 inputs needed, 3 given"),
        ([good_a.astype("float64"), good_b], "input a: dtype is float64, not float32"),
        ([good_a[0], good_b], "input a: 1 dimensions, not 2"),
        ([good_a[:, :2], good_b], r"input a: shape is \(4, 2\)"),
        ([good_a, good_b[:7]], r"input b: shape is \(7,\)"),
    ):
        for args, arrays in (([a, b, c], wrong), ([b, a, c], wrong[::-1])):
            with pytest.raises(BuildError, match=why):
                te.reference(args, arrays)


def test_sizes_that_no_input_shows() -> None:
    a = te.placeholder((n,), name="a")
    shift = te.var("shift")
    b = te.compute((m,), lambda i: a[te.min(i + shift, n - 1)], name="b")
    x = np.arange(5, dtype="float32")
    assert te.reference([a, b], [x], {"m": 3, "shift": 2})[0].tolist() == [2, 3, 4]
    with pytest.raises(BuildError, match="the value of m is not known") as caught:
        te.reference([a, b], [x], {"shift": 1})
    assert "sizes={'m'" in caught.value.legal
    with pytest.raises(BuildError, match="n is 5 here and 4 elsewhere"):
        te.reference([a, b], [x], {"m": 3, "shift": 2, "n": 4})


def test_shapes_that_come_out_negative() -> None:
    a = te.placeholder((n,), name="a")
    b = te.compute((n - 3,), lambda i: a[i], name="b")
    assert te.reference([a, b], [np.zeros(3, "float32")])[0].shape == (0,)
    with pytest.raises(BuildError, match=r"its shape is \(-1,\)"):
        te.reference([a, b], [np.zeros(2, "float32")])


def test_an_input_that_is_not_given() -> None:
    a, b = te.placeholder((3,), name="a"), te.placeholder((3,), name="b")
    c = te.compute((3,), lambda i: a[i] + b[i], name="c")
    with pytest.raises(BuildError, match="b is read and is not among the arguments"):
        te.reference([a, c], [np.zeros(3, "float32")])


# -- index arithmetic -----------------------------------------------------------------------------


def test_index_arithmetic_is_exact_until_it_is_a_value() -> None:
    step = 1_000_000_000
    same(run([rows(3)], lambda t: te.compute((5,), lambda i: i * step // step, name="x")), np.arange(5, dtype="int32"))
    same(
        run([rows(3)], lambda t: te.compute((5,), lambda i: i * step, name="x")), (np.arange(5) * step).astype("int32")
    )
    same(
        run([rows(3)], lambda t: te.compute((3,), lambda i: (i * 100).astype("uint8"), name="x")),
        np.array([0, 100, 200], "uint8"),
    )
    same(
        run([np.arange(3, dtype="int32")], lambda t: te.compute((3,), lambda i: t[i] + i * step * 4, name="x")),
        (np.arange(3) + np.arange(3) * step * 4).astype("int32"),
    )
    same(
        run([rows(3)], lambda t: te.compute((3,), lambda i: i.astype("int64") * step * 9, name="x")),
        np.arange(3) * step * 9,
    )
    same(run([rows(3)], lambda t: te.compute((3,), lambda i: (i - 1) / 2, name="x")), np.array([0, 0, 0], "int32"))
    wide = run([rows(3)], lambda t: te.compute((3,), lambda i: (i.astype("int64") * step * 5).astype("int32") // step))
    same(wide, np.array([0, 5, 10], "int32"))


def test_conditions_are_numbers_when_they_are_cast() -> None:
    got = run([rows(3)], lambda t: te.compute((4,), lambda i: (i > 0).astype("int32") + (i > 1) + (i > 2), name="x"))
    same(got, np.arange(4, dtype="int32"))


def test_axes_in_floating_point() -> None:
    got = run([rows(3)], lambda t: te.compute((4,), lambda i: te.sin(i.astype("float32") * 0.5), name="x"))
    same(got, np.sin(np.arange(4, dtype="float32") * np.float32(0.5)))


# -- size ------------------------------------------------------------------------------------------


def test_what_is_shared_is_computed_once() -> None:
    def doubled(t: Tensor) -> Tensor:
        def value(i: Any) -> Any:
            e = t[i]
            for _ in range(60):
                e = (e + e) % 1000003
            return e

        return te.compute((3,), value, name="x")

    x = np.array([1, 2, 3], "int64")
    same(run([x], doubled), np.array([v * pow(2, 60, 1000003) % 1000003 for v in (1, 2, 3)]))


def test_a_deep_expression() -> None:
    x = rows(500, of="int64")
    terms = MAX_DEPTH - 2
    got = run([x], lambda t: te.compute((50,), lambda i: sum((t[i + k] * k for k in range(2, terms)), t[i]), name="x"))
    expected = sum((x[k : 50 + k] * k for k in range(2, terms)), x[:50])
    same(got, expected)


def test_outputs_have_memory_of_their_own() -> None:
    """What is read or computed as it stands is copied, what was made for an output is not."""
    x = te.placeholder((8,), name="x")
    copied = te.compute((8,), lambda i: x[i], name="copied")
    first, second = te.compute((8,), lambda i: (copied[i] + 1, copied[i] + 1), name="twice")
    given = np.arange(8, dtype="float32")
    found = te.reference([x, copied, first, second], [given])
    assert [f.tolist() for f in found] == [given.tolist(), *[(given + 1).tolist()] * 2]
    assert all(f.flags.owndata and f.flags.writeable for f in found)
    assert not any(np.shares_memory(a, b) for a, b in itertools.combinations([given, *found], 2))


@pytest.mark.parametrize("at_once", [2**20, 7 * LONG, LONG])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8"])
@pytest.mark.parametrize(("shape", "spans"), [((), (40,)), ((3,), (50,)), ((2,), (5, 13)), ((2,), (4, 3, 11))])
@pytest.mark.parametrize("masked", [False, True])
def test_reductions_are_the_same_in_blocks(
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
    dtype: str,
    shape: tuple[int, ...],
    spans: tuple[int, ...],
    masked: bool,
) -> None:
    """Whole, or in pieces that end within an axis: minima, products, and where the largest is, the first of equals."""
    monkeypatch.setattr(sys.modules["autosched.te.reference"], "AT_ONCE", at_once)
    rng = np.random.default_rng(len(spans))
    x = rng.integers(0, 7, (*shape, *spans)).astype(dtype)
    if x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.05] = np.nan
    X = te.placeholder(x.shape, dtype, name="X")
    k = [te.reduce_axis((0, n), f"k{i}") for i, n in enumerate(spans)]
    where = {"where": k[0] % 3 != 1} if masked else {}

    def reduced(reduce: Callable[..., Any], name: str) -> Any:
        return te.compute(shape, lambda *i: reduce(X[(*i, *k)], axis=k, **where), name=name)

    least, product, (at, largest) = reduced(te.min, "least"), reduced(te.prod, "product"), reduced(te.argmax, "largest")
    found = te.reference([X, least, product, at, largest], [x])
    kept = [i for i in range(spans[0]) if not masked or i % 3 != 1]
    places = np.arange(np.prod(spans)).reshape(spans)[kept].reshape(-1)
    terms = x.reshape(*shape, -1)[..., places]
    np.testing.assert_array_equal(found[0], terms.min(axis=-1))
    with np.errstate(over="ignore"):
        wide = np.float64 if x.dtype.kind == "f" else x.dtype
        np.testing.assert_array_equal(found[1], terms.prod(axis=-1, dtype=wide).astype(dtype))
    np.testing.assert_array_equal(found[2], places[terms.argmax(axis=-1)])
    np.testing.assert_array_equal(found[3], terms.max(axis=-1))


def test_long_reductions_begin_at_first_values() -> None:
    """Of an arg-max, a pair; a first value that wins stays, wherever the others are combined."""
    x, first, at = te.placeholder((3, 50), name="x"), te.placeholder((3,), name="first"), te.placeholder((3,), "int32")
    k, j = te.reduce_axis((0, 50), "k"), te.reduce_axis((0, 50), "j")
    largest = te.compute((3,), lambda i: te.max(x[i, k], axis=k, init=first[i]), name="largest")
    place, _ = te.compute((3,), lambda i: te.argmax((j, x[i, j]), axis=j, init=(at[i], first[i])), name="place")
    a = np.random.default_rng(0).random((3, 50), dtype=np.float32)
    begin, places = np.array([100, -100, 0], np.float32), np.array([7, 8, 9], np.int32)
    found = te.reference([x, first, at, largest, place], [a, begin, places])
    np.testing.assert_array_equal(found[0], np.maximum(a.max(axis=1), begin))
    assert found[1].tolist() == [7, a[1].argmax(), a[2].argmax()]


def test_what_a_step_reads_again_and_again_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The greatest and the one after it, whose condition asks for the greatest at each term, are no search in a search."""
    n = 24
    x, at = te.placeholder((3, n), name="x"), te.placeholder((3, 1), name="at")
    one, two = te.reduce_axis((0, n), "one"), te.reduce_axis((0, n), "two")
    place, _ = te.compute((3,), lambda t: te.argmax(x[t, one] + at[t - 1, 0], axis=one), name="greatest")
    _, after = te.compute((3,), lambda t: te.argmax(x[t, two], axis=two, where=two != place[t]), name="after")
    first = te.compute((1, 1), lambda t, i: x[0, 0], name="first")
    kept = te.scan(first, te.compute((3, 1), lambda t, i: after[t] + 0.0, name="step"), at, inputs=[x], name="kept")
    terms: list[int] = []
    oracle = sys.modules["autosched.te.reference"]
    combined = oracle._combined
    monkeypatch.setattr(oracle, "_combined", lambda *args: terms.append(1) or combined(*args))
    given = np.random.default_rng(0).permutation(3 * n).reshape(3, n).astype("float32")
    (found,) = te.reference([x, kept], [given])
    np.testing.assert_array_equal(found[1:, 0], np.sort(given, axis=1)[1:, -2])
    assert len(terms) <= 2 * (2 * n)
