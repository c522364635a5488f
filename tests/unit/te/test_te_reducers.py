"""Reductions of one's own, of tuples, with first values; argmax and its like; what is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.errors import RecordError, UsageError
from autosched.te import Tensor
from autosched.te.reducers import takes_any_order

n, m = te.var("n"), te.var("m")
A = te.placeholder((n, m), "int32", name="A")
B = te.placeholder((n,), "int32", name="B")


def k() -> te.IterVar:
    return te.reduce_axis((0, m), "k")


def complex_product(name: str = "product") -> Callable[..., tuple[te.Expr, te.Expr]]:
    return te.comm_reducer(
        lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
        lambda re, im: (te.const(1, re), te.const(0, im)),
        name,
    )


def products(name: str = "product") -> list[Tensor]:
    """The product of A[i, k] + 1j over k."""
    r = k()
    re, im = te.compute((n,), lambda i: complex_product(name)((A[i, r], te.const(1, "int32")), axis=r), name="P")
    return [A, re, im]


VALUES = np.random.default_rng(3).integers(-3, 4, (5, 7)).astype("int32")


def run(args: list[Tensor], *inputs: np.ndarray) -> list[np.ndarray]:
    return te.reference(args, inputs)


# -- reductions of one's own ------------------------------------------------------------------------


def test_of_single_values() -> None:
    either = te.comm_reducer(lambda x, y: x | y, lambda t: te.const(0, t), name="either")
    r = k()
    c = te.compute((n,), lambda i: either(A[i, r], axis=r), name="C")
    assert repr(c.op.body[0]) == "either(A[i, k], axis=[k])"
    assert np.array_equal(run([A, c], VALUES)[0], np.bitwise_or.reduce(VALUES, axis=1))
    assert repr(either(B[0], 1, 2)) == "B[0] | 1 | 2", "of plain operands, as te.min"
    assert te.sum(2, 3, 4).value == 9


def test_of_tuples() -> None:
    args = products()
    re, im = args[1:]
    assert (re.name, im.name) == ("P.v0", "P.v1")
    assert (re.value_index, im.value_index, re.op.num_outputs) == (0, 1, 2)
    assert re.op is im.op
    assert re.op.output(1) is im
    found = run(args, VALUES)
    wanted = np.prod(VALUES + 1j, axis=1)
    assert np.array_equal(found[0] + 1j * found[1], wanted)
    assert np.array_equal(run([A, im], VALUES)[0], wanted.imag), "one of them alone"


def test_where_and_first_values() -> None:
    r = k()
    of_all = te.compute((n,), lambda i: te.sum(A[i, r], r, A[i, r] > 0, B[i] * 2), name="C")
    assert repr(of_all.op.body[0]) == "sum(A[i, k], axis=[k], init=B[i]*2)"
    first = np.arange(5, dtype="int32")
    assert np.array_equal(
        run([A, B, of_all], VALUES, first)[0], np.where(VALUES > 0, VALUES, 0).sum(axis=1) + 2 * first
    )
    r = k()
    least = te.compute((n,), lambda i: te.min(A[i, r], axis=r, init=-2), name="D")
    assert np.array_equal(run([A, least], VALUES)[0], np.minimum(VALUES.min(axis=1), -2))
    assert np.array_equal(run([A, least], VALUES[:, :0])[0], np.full(5, -2)), "of nothing"
    r = k()
    one = te.const(1, "int32")
    both = te.compute((n,), lambda i: complex_product()((A[i, r], one), axis=r, init=(B[i], 0)), name="E")
    found = run([A, B, *both], VALUES, first)
    assert np.array_equal(found[0] + 1j * found[1], np.prod(VALUES + 1j, axis=1) * first)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float16", "float32", "float64"])
def test_argmax_and_argmin(dtype: str) -> None:
    a = te.placeholder((n, m), dtype, name="a")
    values = np.abs(VALUES).astype(dtype)
    for reduce, numpy in ((te.argmax, np.argmax), (te.argmin, np.argmin)):
        r = k()
        index, value = te.compute((n,), lambda i, r=r, reduce=reduce: reduce(a[i, r], axis=r), name="best")
        assert (index.dtype, value.dtype) == ("int32", dtype)
        found = run([a, index, value], values)
        assert np.array_equal(found[0], numpy(values, axis=1)), "of equal ones the first"
        assert np.array_equal(np.take_along_axis(values, found[0][:, None], 1)[:, 0], found[1])
        assert (run([a, index], values[:, :0])[0] == -1).all(), "of nothing"


def test_indices_that_do_not_fit_in_32_bits_have_64() -> None:
    a = te.placeholder((5,), name="a")
    far = te.reduce_axis((2**31 - 2, 2**31 + 3))
    index, _ = te.compute((), lambda: te.argmax(a[far - (2**31 - 2)], axis=far))
    assert te.reference([a, index], [np.array([0, 0, 0, 0, 5], "float32")])[0] == 2**31 + 2
    x = te.placeholder((2**16, 2**16), "uint8", name="x")
    for rows, of in ((2**16, "int64"), (2**15, "int32")):
        i, j = te.reduce_axis((0, rows)), te.reduce_axis((0, 2**16))
        index, _ = te.compute((), lambda i=i, j=j: te.argmin(x[i, j], axis=[i, j]))
        assert index.dtype == of


@pytest.mark.parametrize(("of", "number"), [("int16", 0), ("uint8", 3), ("float16", 0.5), ("float64", 0.1)])
@pytest.mark.parametrize("reducer", [te.max, te.min, te.comm_reducer(lambda a, b: a + b, lambda t: te.const(0, t))])
def test_a_number_before_other_operands_takes_their_type(reducer: Any, of: str, number: float) -> None:
    x = te.placeholder((3,), of, name="x")
    orders = [lambda i: (number, x[i]), lambda i: (x[i], number), lambda i: (number, number, x[i])]
    made = [te.compute((3,), lambda i, order=order: reducer(*order(i))) for order in orders]
    assert [t.dtype for t in made] == [of] * 3
    first, second, _ = te.reference([x, *made], [np.zeros(3, of)])
    np.testing.assert_array_equal(first, second)


def test_argmax_takes_indices_and_several_axes() -> None:
    r, r2 = k(), te.reduce_axis((0, n), "r2")
    index, _ = te.compute((n,), lambda i: te.argmax((B[r2] * 10, A[r2, 0]), axis=r2), name="I")
    first = np.array([4, 3, 2, 1, 0], "int32")
    best = VALUES[:, 0].max()
    assert (run([A, B, index], VALUES, first)[0] == 10 * first[VALUES[:, 0] == best].min()).all()
    place, _ = te.compute((), lambda: te.argmin(A[r2, r], axis=[r2, r]), name="J")
    assert run([A, place], VALUES)[0] == np.argmin(VALUES)


def test_what_is_not_a_number_wins_as_in_numpy() -> None:
    x = te.placeholder((m,), name="x")
    for values in ([1, np.nan, 3, np.nan], [np.nan, 2], [-np.inf, -np.inf], [np.inf, np.nan]):
        for reduce, numpy in ((te.argmax, np.argmax), (te.argmin, np.argmin)):
            r = k()
            index, _ = te.compute((), lambda r=r, reduce=reduce: reduce(x[r], axis=r), name="best")
            assert run([x, index], np.array(values, "float32"))[0] == numpy(values)


def test_any_and_all_of_an_axis() -> None:
    r = k()
    some = te.compute((n,), lambda i: te.any(A[i, r] > 2, axis=r), name="some")
    every = te.compute((n,), lambda i: te.all(A[i, r] + 3, axis=r, where=r < 3), name="every")
    assert some.dtype == every.dtype == "bool"
    found = run([A, some, every], VALUES)
    assert np.array_equal(found[0], (VALUES > 2).any(axis=1))
    assert np.array_equal(found[1], (VALUES[:, :3] + 3 != 0).all(axis=1))
    assert repr(te.any(n > 1, [m > 2, m < 1])) == "n > 1 || m > 2 || m < 1", "of plain conditions, as ever"


# -- several outputs ----------------------------------------------------------------------------------


def several() -> list[Tensor]:
    total, product, more = te.compute((n, m), lambda i, j: (A[i, j] + 1, A[i, j] * B[i], A[i, j] > B[i]), name="T")
    return [A, B, total, product, more]


def test_logic_in_a_combiner_looks_at_both_sides() -> None:
    """It guards nothing, and what asks one side after the other is not made of vectors."""
    some = te.comm_reducer(lambda x, y: te.any(x, y), lambda t: te.const(False, t), "some")
    r = k()
    s = te.compute((n,), lambda i: some(A[i, r] > 2, axis=r), "S")
    (result,) = s.op.body[0].value.combiner.result
    assert result.op == "max"
    assert takes_any_order(s.op.body[0].value.combiner)
    np.testing.assert_array_equal(run([A, s], VALUES)[0], (VALUES > 2).any(axis=1))


def test_several_outputs() -> None:
    args = several()
    assert [t.dtype for t in args[2:]] == ["int32", "int32", "bool"]
    assert args[2].op.input_tensors == (A, B)
    first = np.arange(5, dtype="int32")
    wanted = [VALUES + 1, VALUES * first[:, None], first[:, None] < VALUES]
    assert all(map(np.array_equal, run(args, VALUES, first), wanted))
    user = te.compute((n,), lambda i: args[3][i, 0] + args[2][i, 0], name="U")
    assert user.op.input_tensors == (args[3], args[2])
    assert np.array_equal(run([A, B, user], VALUES, first)[0], wanted[1][:, 0] + wanted[0][:, 0])
    only = te.compute((n,), lambda i: (B[i],), name="one")
    assert isinstance(only, Tensor), "a tuple of one is that one"
    point = te.compute((), lambda: (te.const(1), te.const(2.0)), name="point")
    assert [x.item() for x in run(list(point))] == [1, 2.0]
    assert [x.shape for x in run(args, VALUES[:0], first[:0])] == [(0, 7)] * 3


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda r: te.compute((n,), lambda i: (te.sum(A[i, r], r), te.max(A[i, r], r))), "not all components"),
        (lambda r: te.compute((n,), lambda i: te.argmax(A[i, r], r)[::-1]), "not all components"),
        (lambda r: te.compute((n,), lambda i: te.argmax(A[i, r], r)[0]), "not all components"),
        (lambda r: te.compute((n,), lambda i: (te.argmax(A[i, r], r)[0], A[i, 0])), "not all components"),
        (lambda r: te.compute((n,), lambda i: te.sum(A[i, r], axis=r) + 1), "the whole expression"),
        (lambda r: te.compute((n,), lambda i: te.sum(A[i, 0], r, init=A[i, r])), "k is not an axis"),
        (lambda r: te.sum(A[0, r], r, init=0.5 * B[0]), "is a float32, what is reduced a int32"),
        (lambda r: te.sum(A[0, r], r, init=(1, 2)), "2 first values for 1 components"),
        (lambda r: complex_product()((A[0, r],), r), "index out of range"),
        (lambda r: te.argmax(A[0, r]), "None is no reduce axis"),
        (lambda r: te.argmax((A[0, r].astype("float32"), A[0, r]), r), "is a float32"),
        (lambda r: te.any(A[0, r], A[1, r], axis=r), "2 conditions"),
        (lambda r: te.comm_reducer(lambda x: x, lambda t: 0)(A[0, r], r), "not a function of two operands"),
        (lambda r: te.comm_reducer(lambda x, y: x + B[0], lambda t: 0)(A[0, r], r), "fcombine uses B"),
        (lambda r: te.comm_reducer(lambda x, y: x + n, lambda t: 0)(A[0, r], r), "fcombine uses n"),
        (lambda r: te.comm_reducer(lambda x, y: x + 0.5, lambda t: 0)(A[0, r], r), "gives a float32 for"),
        (lambda r: te.comm_reducer(lambda x, y: x, lambda t: n)(A[0, r], r), "fidentity gives n"),
        (lambda r: te.comm_reducer(lambda x, y: x, lambda t: te.const(0, "int8"))(A[0, r], r), "gives a int8"),
        (lambda r: te.comm_reducer(lambda x, y: x, lambda t: 0)(A[0, r]), "needs an axis, or a second"),
    ],
)
def test_what_is_refused(make: Callable[[te.IterVar], object], why: str) -> None:
    with pytest.raises((UsageError, IndexError), match=why):
        make(k())


# -- as data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [products, several])
def test_stored_and_read_back(make: Callable[[], list[Tensor]]) -> None:
    args = make()
    data = json.loads(json.dumps(te.graph_to_json(args)))
    back = te.graph_from_json(data)
    assert te.graph_to_json(back) == data
    assert te.workload_key(back) == te.workload_key(args)
    inputs = [VALUES, np.arange(5, dtype="int32")][: 1 if make is products else 2]
    assert all(map(np.array_equal, te.reference(args, inputs), te.reference(back, inputs)))


def test_a_key_is_of_the_combiner_not_of_its_name() -> None:
    assert te.workload_key(products()) == te.workload_key(products("other"))
    r = k()
    other = te.comm_reducer(
        lambda x, y: (x[0] * y[0] + x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
        lambda re, im: (te.const(1, re), te.const(0, im)),
    )
    changed = te.compute((n,), lambda i: other((A[i, r], te.const(1, "int32")), axis=r), name="P")
    assert te.workload_key([A, *changed]) != te.workload_key(products())
    assert te.workload_key(products()[:2]) != te.workload_key([products()[k] for k in (0, 2)])


def _damaged(change: Callable[[dict], object]) -> dict:
    data = copy.deepcopy(te.graph_to_json(products()))
    change(data)
    return data


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["combiners"].clear(),
        lambda d: d["combiners"][0]["left"].pop(),
        lambda d: d["combiners"][0]["result"].pop(),
        lambda d: d["combiners"][0].update(left=d["combiners"][0]["right"]),
        lambda d: d["combiners"][0].update(identity=d["combiners"][0]["result"]),
        lambda d: d["combiners"][0].update(name=3),
        lambda d: d["ops"][1]["body"].pop(),
        lambda d: d["ops"][1]["body"].reverse(),
        lambda d: d["ops"][1].update(dtype=["int32", "float32"]),
        lambda d: d["ops"][1].update(attrs=[1]),
        lambda d: [e[3].__setitem__(2, 2) for e in d["exprs"] if e[0] == "reduce"],
        lambda d: [e[3].__setitem__(0, "prod") for e in d["exprs"] if e[0] == "reduce"],
    ],
)
def test_what_is_no_graph(change: Callable[[dict], object]) -> None:
    with pytest.raises(RecordError):
        te.graph_from_json(_damaged(change))


# -- names, tags and notes ------------------------------------------------------------------------------


def test_names_of_variadic_axes() -> None:
    b = te.compute((n, m, 3), lambda first, *rest: A[first, rest[0]], varargs_names=["y", "x"])
    assert [a.name for a in b.op.axis] == ["first", "y", "x"]
    assert [a.name for a in te.compute((n, m), lambda *i: A[i]).op.axis] == ["i0", "i1"]
    for function in (lambda *i: A[i], lambda i, j: A[i, j]):
        with pytest.raises(UsageError, match="3 varargs_names for"):
            te.compute((n, m), function, varargs_names=["a", "b", "c"])


def test_tags() -> None:
    @te.tag_scope("wide")
    def twice() -> Tensor:
        """Doubled."""
        return te.compute((n,), lambda i: B[i] * 2, name="C")

    assert twice().op.tag == "wide"
    assert twice.__doc__ == "Doubled."
    with te.tag_scope(tag="scope"):
        assert te.compute((n,), lambda i: B[i]).op.tag == "scope"
        with pytest.raises(UsageError, match=r"inside tag_scope\('scope'\)"):
            twice()
        with pytest.raises(UsageError, match="one tag for an operation|has the tag 'own'"):
            te.compute((n,), lambda i: B[i], tag="own")
        r = te.reduce_axis((0, n), "r")
        assert te.scatter_reduce((4,), lambda: (B[r], B[r]), r).op.tag == "scope"
    assert te.compute((n,), lambda i: B[i], tag="own").op.tag == "own"
    with pytest.raises(ZeroDivisionError), te.tag_scope("gone"):
        raise ZeroDivisionError
    assert te.compute((n,), lambda i: B[i]).op.tag == ""


def test_attrs() -> None:
    notes = {"tile": 4, "layout_free": [B], "deep": {"text": "x", "list": [1, 2.5, None, True]}}
    c = te.compute((n,), lambda i: B[i] + 1, name="C", attrs=notes)
    assert c.op.attrs == notes
    data = json.loads(json.dumps(te.graph_to_json([B, c])))
    back = te.graph_from_json(data)
    assert back[1].op.attrs == {**notes, "layout_free": [back[0]]}
    assert te.graph_to_json(back) == data
    plain = te.compute((n,), lambda i: B[i] + 1, name="C")
    assert te.workload_key([B, plain]) != te.workload_key([B, c])
    assert "attrs" not in te.graph_to_json([B, plain])["ops"][1]
    with pytest.raises(UsageError, match="attrs of C"):
        te.graph_to_json([te.compute((n,), lambda i: B[i], name="C", attrs={"f": len})])
