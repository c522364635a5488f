"""Operators on whole tensors against NumPy: by definition, and compiled with the schedules that topi has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from topi_check import check, given

from autosched import build, create_schedule, te, topi
from autosched.errors import UsageError

DRAW = np.random.default_rng(0)
A = DRAW.integers(-4, 5, (3, 4)).astype(np.float32)
B = DRAW.integers(1, 5, (3, 4)).astype(np.float32)
R = DRAW.integers(1, 5, (4,)).astype(np.float32)
C = DRAW.integers(1, 5, (3, 1)).astype(np.float32)
N = DRAW.integers(0, 9, (3, 4)).astype(np.int32)
V = DRAW.integers(-4, 5, (2, 3, 5)).astype(np.float32)
AT = np.array([[2, 0], [1, 7]], np.int32)


NEAR = {"exp10": lambda x: 10.0**x, "erf": None, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: x**-0.5,
        "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": None, "atanh": np.arctanh,
        "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), "nearbyint": np.rint, "popcount": None,
        "identity": lambda x: x, "bitwise_not": None, "fast_erf": None, "fast_exp": np.exp, "fast_tanh": np.tanh}  # fmt: skip


@pytest.mark.parametrize("name", [n for n in topi.UNARY if NEAR.get(n, n) is not None])
def test_functions_of_one_tensor(name: str) -> None:
    x = np.array([[0.25, 0.5], [0.75, 0.9]], np.float32)
    check(topi.UNARY[name], (x,), NEAR.get(name, getattr(np, name, None))(x), compiled=False)  # type: ignore[misc]


BINARY = {"divide": np.divide, "mod": np.fmod, "floor_mod": np.remainder, "atan2": np.arctan2}


@pytest.mark.parametrize("name", [n for n in topi.BINARY if "shift" not in n and "bitwise" not in n])
@pytest.mark.parametrize("right", [B, R, C], ids=["same", "row", "column"])
def test_functions_of_two_tensors(name: str, right: np.ndarray) -> None:
    left = np.abs(A) if name == "power" else A
    check(topi.BINARY[name], (left, right), BINARY.get(name, getattr(np, name, None))(left, right), right is R)  # type: ignore[misc]


@pytest.mark.parametrize("name", ["left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor"])
def test_functions_of_integers(name: str) -> None:
    check(lambda a: topi.BINARY[name](a, 2), (N,), getattr(np, name)(N, 2))


def test_python_operators_take_whole_tensors() -> None:
    check(lambda a, r: (a + r) * 2 - 1 / r, (A, R), (A + R) * 2 - 1 / R)
    check(lambda a: (-a) ** 2 // 3 % 2, (A,), A**2 // 3 % 2)
    check(lambda a, r: abs(a) >= r, (A, R), abs(A) >= R)
    check(lambda a: a.astype("int32"), (A,), A.astype(np.int32))
    check(lambda i: (i & 3) | (i << 1) ^ (~i >> 2), (N,), (N & 3) | (N << 1) ^ (~N >> 2))


REDUCTIONS = ["sum", "prod", "max", "min", "mean", "all", "any", "argmax", "argmin"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    if "arg" not in name:
        wanted = getattr(np, name)(V, axis=axis, keepdims=keepdims)
    elif isinstance(axis, tuple):
        flat = V.transpose(1, 0, 2).reshape(3, 10)
        wanted = getattr(np, name)(flat, axis=1).reshape((1, 3, 1) if keepdims else (3,))
    else:
        wanted = getattr(np, name)(V, axis=axis, keepdims=keepdims)
    check(lambda v: getattr(topi, name)(v, axis, keepdims), (V,), wanted, compiled=axis == -1)


def test_the_last_of_equal_values() -> None:
    x = np.array([[1, 3, 3, 0]], np.float32)
    check(lambda t: topi.argmax(t, 1, select_last_index=True), (x,), np.array([2]))
    check(lambda t: topi.argmin(t, select_last_index=True), (np.zeros((2, 3), np.float32),), 5)


MOVES: list[tuple[Callable[..., Any], Any]] = [
    (lambda a: topi.expand_dims(a, 1), A[:, None]),
    (lambda a: topi.expand_dims(a, -1, 2), A[..., None, None]),
    (lambda a: topi.squeeze(topi.expand_dims(a, 0)), A),
    (lambda a: topi.transpose(a), A.T),
    (lambda a: topi.flip(a, 1), A[:, ::-1]),
    (lambda a: topi.reshape(a, (2, -1)), A.reshape(2, 6)),
    (lambda a: topi.concatenate([a, a, topi.negative(a)], 1), np.concatenate([A, A, -A], 1)),
    (lambda a: topi.stack([a, a], 1), np.stack([A, A], 1)),
    (lambda a: topi.split(a, 2, 1), np.split(A, 2, 1)),
    (lambda a: topi.split(a, [1], 0), np.split(A, [1], 0)),
    (lambda a: topi.strided_slice(a, [2, 1], [0, 4], [-1, 2]), A[2:0:-1, 1:4:2]),
    (lambda a: topi.strided_slice(a, [-2], [9], axes=[1]), A[:, -2:9]),
    (lambda a: topi.repeat(a, 3, 1), np.repeat(A, 3, 1)),
    (lambda a: topi.tile(a, (2, 1, 2)), np.tile(A, (2, 1, 2))),
    (lambda a: topi.broadcast_to(topi.expand_dims(a, 1), (3, 2, 4)), np.broadcast_to(A[:, None], (3, 2, 4))),
    (lambda a: topi.where(a, a, 9.0), np.where(A, A, 9)),
    (lambda a: topi.clip(a, -1, 2), np.clip(A, -1, 2)),
    (lambda a: topi.trilu(a, 1), np.triu(A, 1)),
    (lambda a: topi.trilu(a, -1, upper=False), np.tril(A, -1)),
    (lambda a: topi.cumsum(a, 1), np.cumsum(A, 1)),
    (lambda a: topi.cumsum(a), np.cumsum(A)),
    (lambda a: topi.cumprod(a, 0, exclusive=True), np.concatenate([np.ones((1, 4)), np.cumprod(A, 0)[:-1]])),
    (lambda a: topi.collapse_sum(a, (3, 1)), A.sum(1, keepdims=True)),
    (lambda a: topi.collapse_sum(a, (4,)), A.sum(0)),
    (lambda a: topi.elemwise_sum([a, a, a]), 3 * A),
    (lambda a: topi.full_like(a, 7), np.full_like(A, 7)),
    (lambda a: topi.zeros_like(a) + topi.ones_like(a), np.ones_like(A)),
    (lambda a: topi.nn.flatten(topi.expand_dims(a, 1)), A),
]


@pytest.mark.parametrize("at", range(len(MOVES)))
def test_shapes_and_places(at: int) -> None:
    check(MOVES[at][0], (A,), MOVES[at][1])


def test_places_from_data() -> None:
    check(lambda a, i: topi.take(a, i, 0), (A, AT), A[np.clip(AT, 0, 2)])
    check(lambda a, i: topi.take(a, i, 1, mode="wrap"), (A, AT), np.take(A, AT, 1, mode="wrap"))
    check(lambda a, i: topi.take(a, i), (A, AT), np.take(A, AT))
    at = np.array([[0, 2, 1, 0]], np.int32)
    check(lambda a, i: topi.gather(a, 0, i), (A, at), np.take_along_axis(A, at, 0))
    nd = np.array([[0, 2], [3, 1]], np.int32)
    check(lambda a, i: topi.gather_nd(a, i), (A, nd), A[nd[0], nd[1]])
    check(lambda i: topi.one_hot(i, 1, 0, 3), (AT,), (AT[..., None] == np.arange(3)).astype(np.float32))
    length = np.array([1, 3], np.int32)
    wanted = np.where(np.arange(4)[:, None, None] < length[None, :, None], np.ones((4, 2, 3)), -1)
    check(lambda x, n: topi.sequence_mask(x, n, -1), (np.ones((4, 2, 3), np.float32), length), wanted)


def test_from_nothing() -> None:
    check(lambda: topi.arange(2, 9, 3, dtype="int32"), (), np.arange(2, 9, 3))
    check(lambda: topi.arange(5), (), np.arange(5))
    check(lambda: topi.full((2, 3), "int8", 4), (), np.full((2, 3), 4))
    x, y = np.arange(3, dtype=np.float32), np.arange(2, dtype=np.float32)
    check(lambda a, b: topi.meshgrid([a, b]), (x, y), np.meshgrid(x, y, indexing="ij"))
    check(lambda a, b: topi.meshgrid([a, b], "xy"), (x, y), np.meshgrid(x, y))


def test_products() -> None:
    b = np.ascontiguousarray(B.T)
    check(lambda x, y: topi.matmul(x, y), (A, b), A @ b)
    check(lambda x, y: topi.matmul(x, y, True, True), (A, b), A.T @ b.T)
    check(lambda x, y: topi.tensordot(x, y, 1), (V, np.ones((5, 2), np.float32)), np.tensordot(V, np.ones((5, 2)), 1))
    check(lambda x, y: topi.tensordot(x, y, ([1], [0])), (V, B), np.tensordot(V, B, ([1], [0])))
    check(lambda x, y: topi.einsum("bik,ij->bjk", x, y), (V, B), np.einsum("bik,ij->bjk", V, B))
    check(lambda x: topi.einsum("ij->ji", x), (A,), A.T)
    check(lambda x, y: topi.einsum("ij,ij", x, y), (A, B), np.einsum("ij,ij", A, B))


def test_layouts() -> None:
    x = np.arange(2 * 6 * 2 * 3, dtype=np.float32).reshape(2, 6, 2, 3)
    check(lambda t: topi.layout_transform(t, "NCHW", "NHWC"), (x,), x.transpose(0, 2, 3, 1))
    blocks = np.pad(x, ((0, 0), (0, 2), (0, 0), (0, 0))).reshape(2, 2, 4, 2, 3).transpose(0, 1, 3, 4, 2)
    check(lambda t: topi.layout_transform(t, "NCHW", "NCHW4c"), (x,), blocks)
    check(
        lambda t: topi.layout_transform(t, "NCHW4c", "NCHW"),
        (blocks.copy(),),
        np.pad(x, ((0, 0), (0, 2), (0, 0), (0, 0))),
    )


def test_symbolic_sizes() -> None:
    n, m = te.var("n"), te.var("m")
    a, b = te.placeholder((n, m), name="a"), te.placeholder((m,), name="b")
    out = topi.sum(topi.reshape(topi.nn.relu(a * b), (n * m,)), axis=0)
    assert te.reference([a, b, out], [A, R])[0] == np.maximum(A * R, 0).sum()
    f = build(topi.generic.schedule(topi.nn.softmax(a)), "llvm")
    np.testing.assert_allclose(f(A).sum(1), np.ones(3), rtol=1e-6)


def test_schedules_have_tvms_names_and_store_nothing_in_between() -> None:
    (a,) = given(A)
    s = topi.x86.schedule_injective(topi.nn.relu(a + 1.0))
    assert [x.attach.kind for x in s.stages] == ["root", "inline", "root"]
    assert topi.generic.schedule_conv2d_nchw is topi.generic.schedule_reduce
    g = topi.cuda.schedule_injective([topi.exp(a)])
    np.testing.assert_allclose(build(g, "opencl")(A), np.exp(A), rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda a: topi.add(a, topi.ones((3, 5))), "dimensions 4 and 5 do not go together"),
        (lambda a: topi.reshape(a, (5, 5)), "12 elements are not 25"),
        (lambda a: topi.sum(a, axis=2), "no axis 2"),
        (lambda a: topi.sum(a, axis=(0, 0)), "named twice"),
        (lambda a: topi.squeeze(a, 0), "axis 0 has length 3"),
        (lambda a: topi.transpose(a, (0, 0)), "not a permutation"),
        (lambda a: topi.concatenate([a, topi.ones((2, 3))]), "does not go with"),
        (lambda a: topi.split(a, 3, 1), "4 elements do not make 3 equal pieces"),
        (lambda a: topi.take(a, topi.zeros((2,), "int32"), mode="far"), "no mode"),
        (lambda a: topi.matmul(a, a), "4 columns meet 3 rows"),
        (lambda a: topi.einsum("ij,jk->iz", a, a), "letters of its own"),
        (lambda a: topi.layout_transform(a, "NC", "NCH"), "do not name the axes"),
        (lambda a: topi.broadcast_to(a, (3, 1)), "does not stretch"),
        (lambda a: topi.exp(3), "is not a te tensor"),
    ],
)
def test_what_does_not_fit_is_said(make: Callable[..., Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        make(*given(A))


def test_slices_of_lengths_that_a_call_knows() -> None:
    """One program for all lengths, with NumPy's slices: ends beyond the array, from behind, and none."""
    n = te.var("n")
    a = te.placeholder((n, 3), name="a")
    for part in (
        slice(1, 4),
        slice(-3, None),
        slice(2, -1),
        slice(None, None, 2),
        slice(None, None, -1),
        slice(4, 0, -2),
    ):
        b = topi.strided_slice(a, [part.start], [part.stop], [part.step or 1])
        program = build(create_schedule(b), args=[a, b])
        for length in (3, 5, 8):
            x = np.arange(3 * length, dtype="float32").reshape(length, 3)
            np.testing.assert_array_equal(program(x), x[part])
    b = topi.strided_slice(a, [-2], [-1], slice_mode="size")
    np.testing.assert_array_equal(te.reference([a, b], [x])[0], x[-2:])
    places = [te.placeholder((2,), "int64", name) for name in ("begin", "end", "step")]
    c = topi.strided_slice(a, *places) * 2  # whose sizes a call reads off the result
    program = build(create_schedule(c), args=[a, *places, c])
    for ends in (([1, 0], [4, 3], [1, 2]), ([3, 2], [0, -9], [-2, -1]), ([-4, 1], [5, 2], [3, 1])):
        want = x[tuple(map(slice, *ends))] * 2
        found = np.zeros(want.shape, "float32")
        program(x, *(np.array(e) for e in ends), found)
        np.testing.assert_array_equal(found, want)
    first, last = te.var("first"), te.var("last")
    ends = te.placeholder((first, last), name="ends")
    of = topi.strided_slice(te.compute((4, 6, 8), lambda i, j, k: i * 48 + j * 8 + k), [first], [last + 1], axes=[1])
    c = te.compute(of.shape, lambda i, j, k: of(i, j, k) + ends(0, 0), name="c")
    program = build(create_schedule(c), args=[ends, c])
    whole = np.arange(4 * 6 * 8).reshape(4, 6, 8)
    for low, high in ((1, 4), (2, 2), (3, 9)):
        given = np.zeros((low, high), "int32")
        np.testing.assert_array_equal(program(given.astype("float32")), whole[:, low : high + 1])
