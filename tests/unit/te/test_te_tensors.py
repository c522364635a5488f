"""Saying what to compute: placeholders, computes, reductions, reads, and what is no program."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, const, is_const, var, variables
from autosched.ir.visit import post_order, substitute
from autosched.te.reduction import Reduction
from autosched.te.tensor import MAX_DEPTH, ComputeOp, Graph, IterVar, PlaceholderOp, TensorSlice, is_size

n, m = te.var("n"), te.size_var("m")
A = te.placeholder((n, 8), name="A")
V = te.placeholder((n,), "uint8", name="V")
S = te.placeholder((), "int32", name="S")


# -- placeholders ---------------------------------------------------------------------------------


def test_placeholders() -> None:
    assert isinstance(A.op, PlaceholderOp)
    assert A.name == A.op.name == "A"
    assert A.dtype == "float32"
    assert (A.ndim, V.ndim, S.ndim) == (2, 1, 0)
    assert A.shape[0] is n
    assert is_const(A.shape[1], 8)
    assert repr(A) == "Tensor(A: float32[n, 8])"
    assert repr(A.op) == "PlaceholderOp(A)"
    assert A.op.output(0) is A
    assert A.op.output_tensor is A
    assert A.op.num_outputs == 1
    assert A.op.input_tensors == ()
    assert te.placeholder(5, np.float64).shape[0] is const(5), "one dimension needs no tuple"
    assert te.placeholder([n, m + 1, n * m // 2]).ndim == 3
    with pytest.raises(UsageError, match=r"A has one output, not 2"):
        A.op.output(1)


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((-1,), "dimension -1 is negative"),
        ((2.5,), "dimension 2.5f is not an integer over size variables"),
        ((True,), "dimension true is not"),
        ((var("i", role="loop"),), "dimension i is not"),
        ((n < 3,), "dimension n < 3 is not"),
        (("x",), "str is not an expression"),
        ((None,), "NoneType is not an expression"),
        ((V[0],), r"dimension V\[0\] is not"),
    ],
)
def test_shapes_that_are_none(shape: tuple[object, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        te.placeholder(shape, name="bad")


@pytest.mark.parametrize("of", ["float33", "float32x4", None])
def test_element_types_that_are_none(of: object) -> None:
    with pytest.raises(UsageError):
        te.placeholder((4,), of, name="bad")


def test_variables() -> None:
    assert n.name == "n"
    assert n.dtype == "int32"
    assert n.value.role == "size"
    assert te.var("k", "int64").dtype == "int64"
    unnamed = [te.var().name for _ in range(3)]
    assert len({*unnamed}) == 3 and all(name.startswith("tindex") for name in unnamed)
    assert te.var("alpha", "float32").value.role == "scalar"
    assert te.var("n") is not n
    assert te.const(3) is const(3)
    assert te.const(3, "uint8").dtype == "uint8"
    assert is_size(n * m + 1)
    assert not is_size(te.var("x", "float32"))
    assert not is_size(n < m)


# -- computes -------------------------------------------------------------------------------------


def test_axes_take_the_names_of_the_parameters() -> None:
    b = te.compute((n, 8), lambda row, col: A[row, col] * 2, name="B", tag="elementwise")
    assert isinstance(b.op, ComputeOp)
    assert [a.name for a in b.op.axis] == ["row", "col"]
    assert [repr(a) for a in b.op.axis] == ["row[0, +n]", "col[0, +8]"]
    assert b.op.tag == "elementwise"
    assert b.op.input_tensors == (A,)
    assert b.op.reduce_axis == ()
    assert repr(b.op.body[0]) == "A[row, col] * 2.0f"
    assert b.dtype == "float32"


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda *i: A[i], ["i0", "i1"]),
        (lambda y, *rest: A[(y, *rest)], ["y", "rest1"]),
        (lambda y, x, scale=2.0: A[y, x] * scale, ["y", "x"]),
        (lambda y, x=None: A[y, x], ["y", "x"]),
        (functools.partial(lambda t, y, x: t[y, x], A), ["y", "x"]),
        (A, ["indices0", "indices1"]),
    ],
)
def test_functions_of_axes(function: object, names: list[str]) -> None:
    b = te.compute((n, 8), function, name="B")
    assert [a.name for a in b.op.axis] == names
    assert b.op.input_tensors == (A,)


def test_a_tensor_of_no_dimensions() -> None:
    b = te.compute((), lambda: S[()] + 1, name="B")
    assert b.ndim == 0
    assert repr(b.op.body[0]) == "S[] + 1"
    assert repr((S + 1) * S()) == "(S[] + 1)*S[]", "it stands for its one element"


@pytest.mark.parametrize(
    ("shape", "function", "why", "legal"),
    [
        ((n,), lambda i, j: A[i, j], "takes 2 axes, the shape has 1 dimensions", "one parameter for each"),
        ((n, 8), lambda i: A[i, 0], "takes 1 axes, the shape has 2", ""),
        ((), lambda i: 1.0, "takes 1 axes, the shape has 0", ""),
        ((n,), lambda i: (), "returned no value", "an expression, or a tuple"),
        ((n,), lambda i: None, "NoneType is not an expression", ""),
        ((n,), lambda i: "V[i]", "str is not an expression", ""),
        ((n,), 3, "is not a function of axes", "lambda"),
        ((n,), dict, "is not a function of axes", ""),
        ((n,), lambda i: A[i], "A has 2 dimensions, not 1", ""),
        ((n,), lambda i: A[i, 0, 0], "A has 2 dimensions, not 3", ""),
        ((n,), lambda i: A[i] + 1, "A has 2 dimensions, not 1", ""),
        ((n,), lambda i: 2.0 * A, "has 2 dimensions, not 0", ""),
        ((n,), lambda i: V[i * 0.5], "index .* is a float32", "cast it to int32"),
        ((n,), lambda i: V[i].astype("float32x4"), "its elements are float32x4", "float32"),
        ((n - 9.5,), lambda i: V[0], "is not an integer over size variables", ""),
    ],
)
def test_what_is_no_compute(shape: object, function: object, why: str, legal: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        te.compute(shape, function, name="bad")
    assert legal in caught.value.legal


def test_an_axis_of_another_tensor() -> None:
    stray, k = IterVar("stray", n), te.reduce_axis((0, 8), name="k")
    with pytest.raises(UsageError, match="stray is not an axis of it") as caught:
        te.compute((n,), lambda i: V[stray], name="bad")
    assert caught.value.asked == "compute bad"
    assert "axes: i" in caught.value.legal
    with pytest.raises(UsageError, match="k is not an axis of it") as caught:
        te.compute((n,), lambda i: A[i, k], name="bad")
    assert "te.sum" in caught.value.legal


def test_an_expression_beyond_python_s_stack() -> None:
    def deep(terms: int) -> te.Tensor:
        return te.compute((n,), lambda i: sum((V[i] + k % 9 for k in range(terms)), V[i]), name="deep")

    assert MAX_DEPTH - 50 < deep(MAX_DEPTH - 40).op.body[0].depth <= MAX_DEPTH
    with pytest.raises(UsageError, match="operators deep") as caught:
        deep(MAX_DEPTH + 60)
    assert "te.reduce_axis" in caught.value.legal


# -- reading --------------------------------------------------------------------------------------


def test_indices_may_come_one_by_one() -> None:
    i, j = var("i", role="loop"), var("j", role="loop")
    assert isinstance(A[i], TensorSlice)
    assert A[i][j] is A[i, j] is A(i, j)
    assert V[i] is V[(i,)] is V(i)
    cube = te.placeholder((2, 3, 4), name="cube")
    assert cube[i][j][0] is cube[i, j][0] is cube[i][j, 0] is cube[i, j, 0]
    assert repr(A[i < j, 0]) == "A[int32(i < j), 0]", "a condition is 0 or 1"


def test_tensors_are_no_sequences() -> None:
    with pytest.raises(TypeError, match="cannot be iterated; index it"):
        list(A)
    with pytest.raises(TypeError, match="scalar expression and cannot be iterated"):
        list(A[0, 0])


@pytest.mark.parametrize(
    "build", [operator.add, operator.mul, operator.lt, operator.floordiv, operator.truediv, operator.mod]
)
def test_axes_take_part_in_arithmetic(build) -> None:
    k = te.reduce_axis((0, 8), name="k")
    assert build(k, 2) is build(k.var, 2)
    assert isinstance(build(2, k), Expr)
    assert variables(build(2, k)) == {k.var}
    assert build(k, V[0]).args[1] is V[0] or V[0] in post_order(build(k, V[0]))
    assert -k is not None
    assert (-k).op == "neg"
    assert k.astype("float32").dtype == "float32"


def test_axes_can_be_compared() -> None:
    """`k == 0` is a condition on the axis; two axes are the same or they are not."""
    k, r = te.reduce_axis((0, 8), name="k"), te.reduce_axis((0, 8), name="r")
    assert repr(k == 0) == "k == 0"
    assert repr(k != n - 1) == "k != n - 1"
    assert repr(k == 0) == "k == 0"
    assert k == k
    assert not (k == r)
    assert k != r
    assert k in (r, k)
    assert {k: 1, r: 2}[k] == 1
    assert not (k == None)  # noqa: E711
    assert k != "k"
    b = te.compute((n,), lambda i: te.sum(te.select(k == 0, 1.0, A[i, k]), axis=k), name="B")
    assert "select(k == 0, 1.0f, A[i, k])" in repr(b.op.body[0])


# -- reductions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reducer", "combiner"), [(te.sum, "sum"), (te.prod, "prod"), (te.min, "min"), (te.max, "max")]
)
def test_reductions(reducer, combiner: str) -> None:
    k, r = te.reduce_axis((0, 8), name="k"), te.reduce_axis((1, n), name="r")
    b = te.compute((n,), lambda i: reducer(A[i, k] * A[r, k], axis=[k, r], where=k < r), name="B")
    assert b.op.body[0].op == "reduce"
    assert b.op.reduce_axis == (k, r)
    reduction = b.op.body[0].value
    assert isinstance(reduction, Reduction)
    assert reduction.combiner == combiner
    assert repr(b.op.body[0].args[1]) == "k < r"
    assert repr(r) == "r[1, +n - 1]"
    assert [repr(e) for e in (r.dom.min, r.dom.extent)] == ["1", "n - 1"]
    assert repr(b.op.body[0]) == f"{combiner}(A[i, k] * A[r, k], axis=[k, r])"


def test_reductions_begin_with_what_changes_nothing() -> None:
    for of in ("uint8", "int64", "float16"):
        zero, one = const(0, of), const(1, of)
        assert Reduction("sum", ()).identity([zero.dtype])[0] is zero
        assert Reduction("prod", ()).identity([zero.dtype])[0] is one
        (least,), (most,) = (Reduction(c, ()).identity([zero.dtype]) for c in ("max", "min"))
        assert (least.value, most.value) == (zero.dtype.min, zero.dtype.max)
        x = var("x", of)
        assert Reduction("max", ()).combine([x], [zero])[0] is te.max(x, zero)


def test_a_condition_counts_as_0_or_1_in_a_sum() -> None:
    k = te.reduce_axis((0, 8), name="k")
    b = te.compute((n,), lambda i: te.sum(A[i, k] > 0, axis=k), name="count")
    assert b.dtype == "int32"
    b = te.compute((n,), lambda i: te.sum(A[i, k], axis=k, where=V[i]), name="where")
    assert repr(b.op.body[0].args[1]) == "V[i] != uint8(0)"


def test_reducers_combine_plain_values_too() -> None:
    i = var("i", role="loop")
    assert te.max(i, 0) is te.max(i, const(0))
    assert te.min(i, n, 3).args == (te.min(i, n), const(3))
    assert te.sum(i, 1) is i + 1
    assert te.prod(i, 2) is i * 2
    with pytest.raises(UsageError, match=r"te.max needs an axis, or a second operand"):
        te.max(i)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (lambda k: te.sum(A[0, k], axis=[k, k]), "an axis is named twice"),
        (lambda k: te.sum(A[0, k], axis=[k, 3]), "3 is not a reduce axis"),
        (lambda k: te.sum(A[0, k], axis=IterVar("i", 3)), "is not a reduce axis"),
        (lambda k: te.reduce_axis((0, 4, 1)), "a pair"),
        (lambda k: te.reduce_axis(4), "a pair"),
        (lambda k: te.reduce_axis((0, 2.5)), "2.5f is not an integer over size variables"),
        (lambda k: te.reduce_axis((k, 8)), "k is not an integer over size variables"),
        (lambda k: te.reduce_axis((0, V[0])), "is not an integer over size variables"),
        (lambda k: te.compute((8,), lambda i: te.sum(A[0, k], axis=k) + 1, name="bad"), "must be the whole expression"),
        (
            lambda k: te.compute(
                (8,), lambda i: te.sum(te.sum(A[0, k], axis=k), axis=te.reduce_axis((0, 2))), name="bad"
            ),
            "must be the whole expression",
        ),
    ],
)
def test_what_is_no_reduction(build, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        build(te.reduce_axis((0, 8), name="k"))


# -- functions ------------------------------------------------------------------------------------


def test_conditions() -> None:
    i, j = var("i", role="loop"), var("j", role="loop")
    assert te.all(i < j, j < n) is te.all([i < j, j < n]) is te.all((i < j, j < n)) is ((i < j) & (j < n))
    assert te.any(i < j, [j < n]) is ((i < j) | (j < n))
    assert is_const(te.all(), True)
    assert is_const(te.any(), False)
    assert te.likely(i < j).op == "likely"


def test_every_math_function_is_there() -> None:
    x = var("x", "float32")
    for name, function in te.functions.MATH.items():
        operands = {1: (x,), 2: (x, 2.0)}
        if name == "popcount":
            assert te.popcount(var("u", "uint8")).dtype == "uint8"
            continue
        if name == "ldexp":
            operands[2] = (x, 2)
        two = ("pow", "power", "fmod", "atan2", "hypot", "copysign", "nextafter", "ldexp")
        arity = 2 if name in two else 1
        e = getattr(te, name)(*operands[arity])
        assert e.dtype == ("bool" if name in ("isnan", "isinf", "isfinite") else "float32")
        with pytest.raises(UsageError, match=f"takes {arity} operands, not {arity + 1}"):
            getattr(te, name)(*operands[arity], 1.0)
    assert te.exp(var("i")).dtype == "float32"
    assert te.exp(var("i", "int64")).dtype == "float64"
    i = var("i")
    assert te.floor(i) is i
    assert te.round(i) is i
    assert is_const(te.isnan(i), False)
    assert te.abs(var("u", "uint8")).op == "var"
    assert set(te.__all__) >= set(te.functions.MATH)


# -- graphs ---------------------------------------------------------------------------------------


def test_a_graph_lists_producers_before_consumers() -> None:
    b = te.compute((n, 8), lambda i, j: A[i, j] + 1, name="B")
    c = te.compute((n, 8), lambda i, j: A[i, j] * b[i, j], name="C")
    d = te.compute((n, 8), lambda i, j: c[i, j] - b[i, j] + c[i, 0], name="D")
    graph = Graph.of([d])
    assert graph.ops == (A.op, b.op, c.op, d.op)
    assert graph.consumers[b.op] == (c.op, d.op)
    assert graph.consumers[d.op] == ()
    assert graph.consumers[A.op] == (b.op, c.op)
    assert d.op.input_tensors == (c, b)
    assert Graph.of([A, d]).ops == graph.ops
    assert Graph.of([b, A]).ops == (A.op, b.op)


def test_a_long_chain_needs_no_recursion() -> None:
    t = V
    for _ in range(3000):
        t = te.compute((n,), lambda i, t=t: t[i] + 1, name="T")
    assert len(Graph.of([t]).ops) == 3001


def test_reads_are_rebuilt_with_their_tensor() -> None:
    i = var("i", role="loop")
    assert substitute(V[i] + 1, {i: i * 2}) is V[i * 2] + 1


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda a, i: te.sum(a[i], axis=i), "i is not a reduce axis"),
        (lambda a, i: te.sum(a[i], a[i], axis=te.reduce_axis((0, 3), "k")), "operands and axes do not go together"),
        (lambda a, i: te.thread_axis("threadIdx.w"), "there is no such axis"),
    ],
)
def test_axes_that_are_none(call: Callable[..., object], why: str) -> None:
    a = te.placeholder((3,), name="A")
    with pytest.raises(UsageError, match=why):
        te.compute((3,), lambda i: call(a, i), name="B")
