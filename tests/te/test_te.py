"""The language and its oracle: tensors, reductions, NumPy evaluation, graphs as data."""

from __future__ import annotations

import copy
import json
import math
import random

import numpy as np
import pytest

from autosched import te
from autosched.errors import AutoschedError, BuildError, RecordError, UsageError


def vector(dtype="float32", name="a"):
    n = te.var("n")
    return n, te.placeholder((n,), dtype, name=name)


def evaluate(args, *inputs):
    (result,) = te.reference(args, list(inputs))
    return result


# -- tensors ----------------------------------------------------------------------------------------


def test_reads_in_every_spelling_are_the_same_expression():
    n = te.var("n")
    a = te.placeholder((n, 4), name="a")
    i, j = te.var("i"), te.var("j")
    assert a[i, j] is a[i][j] is a(i, j)


def test_axes_take_the_names_of_the_parameters():
    n, a = vector()
    b = te.compute((n, 3), lambda row, column: a[row] + column, name="b")
    assert [x.name for x in b.op.axis] == ["row", "column"]
    assert te.compute((n, 3), lambda *i: a[i[0]], name="c").op.axis[1].name == "i1"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda n, a: te.compute((n,), lambda i, j: a[i]), "takes 2 axes, the shape has 1"),
        (lambda n, a: te.compute((n,), lambda i: a[i, i]), "1 dimensions, not 2"),
        (lambda n, a: te.compute((n,), lambda i: "text"), "not an expression"),
        (lambda n, a: te.compute((n,), lambda i: a[a[i]]), "index"),
        (lambda n, a: te.placeholder((-1,)), "negative"),
        (lambda n, a: te.placeholder((n,), "float17"), "no such element type"),
        (lambda n, a: te.sum(a[0], axis=()), "axis"),
        (lambda n, a: te.exp(a[0], a[0]), "takes 1 operands"),
        (
            lambda n, a: te.compute((n,), lambda i: te.sum(a[i], axis=te.reduce_axis((0, n), "k")) + 1),
            "whole expression",
        ),
        (lambda n, a: bool(a[0] < 1), "no truth value"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_reason(make, text):
    with pytest.raises(UsageError, match=text):
        make(*vector())


# -- the oracle -------------------------------------------------------------------------------------


def test_matmul():
    n, m, k = te.var("n"), te.var("m"), te.var("k")
    a, b = te.placeholder((n, k), name="a"), te.placeholder((k, m), name="b")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")
    x, y = np.arange(12, dtype="float32").reshape(3, 4), np.arange(20, dtype="float32").reshape(4, 5)
    assert np.array_equal(evaluate([a, b, c], x, y), x @ y)


@pytest.mark.parametrize(
    ("reduce", "expected"), [(te.sum, np.sum), (te.prod, np.prod), (te.min, np.min), (te.max, np.max)]
)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float64"])
def test_reductions(reduce, expected, dtype):
    n, a = vector(dtype)
    r = te.reduce_axis((0, n), name="r")
    b = te.compute((1,), lambda i: reduce(a[r], axis=r), name="b")
    x = np.array([3, 1, 4, 2], dtype)
    assert evaluate([a, b], x)[0] == expected(x).astype(dtype)


def test_a_reduction_takes_only_the_points_that_meet_its_condition():
    n, a = vector("int32")
    r = te.reduce_axis((0, n), name="r")
    b = te.compute((1,), lambda i: te.sum(a[r], axis=r, where=r % 2 == 0), name="b")
    assert evaluate([a, b], np.array([1, 10, 100, 1000], "int32"))[0] == 101


def test_a_convolution_with_a_shifted_reduce_axis():
    n, a = vector("int32")
    r = te.reduce_axis((-1, 2), name="r")
    b = te.compute(
        (n,), lambda i: te.sum(te.if_then_else(te.all(i + r >= 0, i + r < n), a[i + r], 0), axis=r), name="b"
    )
    x = np.array([1, 2, 3, 4], "int32")
    assert evaluate([a, b], x).tolist() == [3, 6, 9, 7]


def test_a_guarded_read_outside_its_tensor_does_not_happen_and_an_unguarded_one_is_an_error():
    n, a = vector("int32")
    padded = te.compute((n + 2,), lambda i: te.if_then_else(te.all(i > 0, i <= n), a[i - 1], -7), name="p")
    assert evaluate([a, padded], np.array([5], "int32")).tolist() == [-7, 5, -7]
    eager = te.compute((n + 2,), lambda i: te.select(te.all(i > 0, i <= n), a[i - 1], -7), name="p")
    with pytest.raises(BuildError, match="outside"):
        evaluate([a, eager], np.array([5], "int32"))


@pytest.mark.parametrize("to", ["int8", "uint8", "int32", "uint64"])
def test_floats_become_integers_toward_zero_and_saturate(to):
    n, a = vector("float64")
    b = te.compute((n,), lambda i: a[i].astype(to), name="b")
    info = np.iinfo(to)
    x = np.array([1.9, -1.9, 1e30, -1e30, np.nan, np.inf, -np.inf])
    low, high = info.min, info.max
    assert evaluate([a, b], x).tolist() == [1, -1 if low < 0 else 0, high, low, 0, high, low]


@pytest.mark.parametrize(
    ("divide", "expected"),
    [
        (lambda a, b: a / b, [-3, 3, -3, 0]),
        (lambda a, b: a // b, [-4, 3, -4, 0]),
        (lambda a, b: a % b, [1, -1, -1, 0]),
        (te.truncmod, [-1, -1, 1, 0]),
    ],
)
def test_integer_division_rounds_as_documented_and_by_zero_is_zero(divide, expected):
    n = te.var("n")
    a, b = te.placeholder((n,), "int32", name="a"), te.placeholder((n,), "int32", name="b")
    c = te.compute((n,), lambda i: divide(a[i], b[i]), name="c")
    x, y = np.array([-7, -7, 7, 7], "int32"), np.array([2, -2, -2, 0], "int32")
    assert evaluate([a, b, c], x, y).tolist() == expected


def test_integers_wrap_and_shifts_are_total():
    n, a = vector("uint8")
    b = te.compute((n,), lambda i: a[i] + te.const(250, "uint8"), name="b")
    c = te.compute((n,), lambda i: te.const(1, "uint8") << a[i], name="c")
    x = np.array([1, 10, 200], "uint8")
    assert evaluate([a, b], x).tolist() == [251, 4, 194]
    assert evaluate([a, c], x).tolist() == [2, 0, 0]


@pytest.mark.parametrize("name", sorted(te.MATH))
def test_math_agrees_with_numpy_in_double_precision(name):
    n, a = vector("float64")
    f = getattr(te, name)
    x = np.array([0.25, 0.5, 0.75])
    operands = {"power": 2, "pow": 2, "atan2": 2, "fmod": 2, "hypot": 2, "copysign": 2}.get(name, 1)
    if name == "popcount":
        n, a = vector("uint32")
        x = np.array([1, 7, 255], "uint32")
    if name in ("acosh",):
        x = x + 1
    b = te.compute((n,), lambda i: f(a[i]) if operands == 1 else f(a[i], a[i]), name="b")
    got = evaluate([a, b], x)
    plain = {
        "erf": math.erf,
        "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
        "rsqrt": lambda v: 1 / math.sqrt(v),
        "exp10": lambda v: 10.0**v,
        "nearbyint": round,
        "round": lambda v: math.floor(v + 0.5),
        "abs": abs,
        "popcount": lambda v: int(v).bit_count(),
        "power": lambda v: v**v,
        "pow": lambda v: v**v,
        "hypot": lambda v: math.hypot(v, v),
        "atan2": lambda v: math.atan2(v, v),
        "fmod": lambda v: math.fmod(v, v),
        "copysign": lambda v: v,
    }.get(name) or getattr(math, name, None)
    assert plain is not None, name
    assert np.allclose(got.astype(float), [float(plain(v)) for v in x.tolist()], rtol=1e-14)


def test_sizes_must_agree_and_dtypes_fit():
    n = te.var("n")
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    c = te.compute((n,), lambda i: a[i] + b[i], name="c")
    with pytest.raises(BuildError, match="n is 4 here and 3 elsewhere"):
        te.reference([a, b, c], [np.zeros(3, "float32"), np.zeros(4, "float32")])
    with pytest.raises(BuildError, match="float64, not float32"):
        te.reference([a, b, c], [np.zeros(3), np.zeros(3, "float32")])
    with pytest.raises(BuildError, match="2 inputs needed"):
        te.reference([a, b, c], [])


def test_empty_and_zero_rank_tensors():
    n, a = vector("int32")
    b = te.compute((n,), lambda i: a[i] + 1, name="b")
    assert evaluate([a, b], np.zeros(0, "int32")).shape == (0,)
    r = te.reduce_axis((0, n), name="r")
    total = te.compute((), lambda: te.sum(a[r], axis=r), name="t")
    assert evaluate([a, total], np.array([1, 2, 3], "int32")) == 6


# -- graphs as data ---------------------------------------------------------------------------------


def blur_like(names=("a", "b", "c"), extra=1, dtype="uint8"):
    n = te.var("n")
    a = te.placeholder((n,), dtype, name=names[0])
    b = te.compute((n,), lambda i: a[te.max(i - extra, 0)].astype("uint16"), name=names[1])
    return a, te.compute((n,), lambda i: (b[i] / te.const(3, "uint16")).astype(dtype), name=names[2])


def test_a_graph_survives_json_and_computes_the_same():
    args = blur_like()
    again = te.graph_from_json(json.loads(json.dumps(te.graph_to_json(args))))
    x = np.arange(10, dtype="uint8")
    assert np.array_equal(evaluate(args, x), evaluate(again, x))
    assert te.workload_key(args) == te.workload_key(again)


def test_the_key_is_of_the_computation_not_of_its_names():
    key = te.workload_key(blur_like())
    assert te.workload_key(blur_like(names=("x", "y", "z"))) == key
    assert te.workload_key(blur_like(extra=2)) != key
    assert te.workload_key(blur_like(dtype="int8")) != key


def test_a_damaged_graph_is_an_error_and_nothing_else():
    """Any change of any part either reads as some graph or raises RecordError (or says what it cannot be)."""
    data = te.graph_to_json(blur_like())
    rng = random.Random(3)
    junk = [None, -1, 10**9, "x", [], {}, True, 1.5, ["const", "int32", [], 1]]

    def places(node, path=()):
        yield path
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for k, v in items:
            yield from places(v, (*path, k))

    for path in [p for p in places(data) if p]:
        broken = copy.deepcopy(data)
        parent = broken
        for k in path[:-1]:
            parent = parent[k]
        parent[path[-1]] = rng.choice(junk)
        try:
            te.graph_from_json(broken)
        except AutoschedError:
            continue


def test_another_format_is_refused():
    with pytest.raises(RecordError, match="graph format 99"):
        te.graph_from_json({**te.graph_to_json(blur_like()), "v": 99})
