"""What TVM users say in expressions, IR builders and intrinsics, against NumPy."""

import numpy as np
import pytest

from autosched import tvm
from autosched.tvm import te, tir


def value(output: te.Tensor, *given: np.ndarray) -> np.ndarray:
    args = [*dict.fromkeys(output.op.input_tensors), output]
    f = tvm.build(te.create_schedule(output.op), args, "llvm")
    found = tvm.nd.empty([int(d) for d in output.shape], str(output.dtype))
    f(*map(tvm.nd.array, given), found)
    return found.numpy()


UNARY = {
    "exp2": np.exp2,
    "exp10": lambda x: np.power(10.0, x),
    "log1p": np.log1p,
    "asin": np.arcsin,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "nearbyint": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions(name: str) -> None:
    A = te.placeholder((64,), name="A")
    a = np.random.default_rng(1).uniform(0.1, 0.9, 64).astype("float32")
    B = te.compute((64,), lambda *i: getattr(tir, name)(A(*i)), name="B")
    tvm.testing.assert_allclose(value(B, a), UNARY[name](a), rtol=1e-5, atol=1e-6)


def test_integers_and_bits() -> None:
    A = te.placeholder((8,), "int32", name="A")
    a = np.array([1, 2, 3, 255, 4096, 2**30, 7, 12], "int32")
    B = te.compute(
        (8,), lambda i: tir.clz(A[i]) + tir.popcount(A[i]) * 100 + tir.floormod(A[i], 5) - tir.shift_left(A[i], 1) // 3
    )
    clz = np.array([32 - int(x).bit_length() for x in a])
    np.testing.assert_array_equal(
        value(B, a), clz + np.bitwise_count(a).astype(int) * 100 + a % 5 - np.left_shift(a, 1) // 3
    )


def test_conditions() -> None:
    A = te.placeholder((8,), name="A")
    a = np.arange(1, 9, dtype="float32")
    B = te.compute((8,), lambda i: te.if_then_else(te.any(i == 0, i.equal(7), te.all(i > 2, i < 4)), A[i], 0.0))
    assert value(B, a).tolist() == [1, 0, 0, 4, 0, 0, 0, 8]
    C = te.compute((8,), lambda i: tir.Select(A[i] > 4.0, A[i], -A[i]).astype("int32"))
    assert value(C, a).tolist() == [-1, -2, -3, -4, 5, 6, 7, 8]


def test_a_reduction_of_some_points() -> None:
    A = te.placeholder((8, 16), name="A")
    k = te.reduce_axis((0, 16), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k, where=k <= i), name="B")
    a = np.random.default_rng(2).random((8, 16), "float32")
    tvm.testing.assert_allclose(value(B, a), np.tril(a).sum(1), rtol=1e-5)


def test_a_search_until_it_is_found() -> None:
    A = te.placeholder((6,), "int32", name="A")

    def search(ins, outs):
        ib = tir.ir_builder.create()
        a, found = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        i = ib.allocate("int32", (1,), name="i", scope="local")
        i[0] = 0
        with ib.while_loop(tir.all(i[0] < 6, a[i[0]] < 5)):
            i[0] += 1
        found[0] = i[0]
        return ib.get()

    B = te.extern((1,), [A], search, name="B", dtype="int32")
    for a, place in (([1, 3, 4, 6, 7, 9], 3), ([1, 1, 1, 1, 1, 1], 6)):
        assert value(B, np.array(a, "int32")).tolist() == [place]


def test_statements_of_a_builder() -> None:
    ib = tir.ir_builder.create()
    n = te.size_var("n")
    A = ib.pointer("float32", name="A")
    with ib.for_range(0, n, name="i") as i:
        with ib.if_scope(tir.truncmod(i, 2) == 0):
            A[i] = A[i] + 1
        with ib.else_scope():
            A[0] = A[i] + 2
    body = ib.get()
    assert isinstance(body, tir.For) and body.extent.same_as(n)
    branch = body.body
    assert isinstance(branch, tir.IfThenElse) and isinstance(branch.condition, tir.EQ)
    assert isinstance(branch.then_case.indices[0], tir.Var) and branch.else_case.indices[0].value == 0


def test_a_scan_of_two_stages() -> None:
    m, n = te.var("m"), te.var("n")
    X, state = te.placeholder((m, n), name="X"), te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: X[0, i], name="init")
    s1 = te.compute((m, n), lambda t, i: state[t - 1, i] * 2, name="s1")
    s2 = te.compute((m, n), lambda t, i: s1[t, i] + X[t, i], name="s2")
    S = te.scan(init, s2, state, inputs=[X])
    s = te.create_schedule(S.op)
    xo, _ = s[s2].split(s2.op.axis[1], factor=32)
    s[s1].compute_at(s[s2], xo)
    x, out = np.random.default_rng(3).random((4, 40), "float32"), np.zeros((4, 40), "float32")
    tvm.build(s, [X, S], "llvm")(x, out)
    expected = [x[0]]
    for t in range(1, 4):
        expected.append(expected[-1] * 2 + x[t])
    tvm.testing.assert_allclose(out, np.stack(expected), rtol=1e-5)
