"""What a program must do at least, counted by hand."""

from __future__ import annotations

from autosched import te
from autosched.te.work import Work, least_work, points_of, work_of


def test_a_matrix_product():
    a, b = te.placeholder((6, 5), name="a"), te.placeholder((5, 7), name="b")
    k = te.reduce_axis((0, 5), name="k")
    c = te.compute((6, 7), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    assert work_of([a, b, c], {}) == Work(2 * 6 * 5 * 7, False, loaded=4 * (30 + 35), stored=4 * 42)


def test_float64_is_wide_and_intermediates_move_nothing():
    a = te.placeholder((10,), "float64", name="a")
    twice = te.compute((10,), lambda i: a[i] + a[i], name="twice")
    b = te.compute((10,), lambda i: twice[i] * 3.0, name="b")
    assert work_of([a, b], {}) == Work(20, True, loaded=80, stored=80)


def test_integers_are_no_floating_point_operations():
    a = te.placeholder((10,), "uint8", name="a")
    b = te.compute((10,), lambda i: a[i] + a[i], name="b")
    assert work_of([a, b], {}) == Work(0, False, loaded=10, stored=10)


def test_index_arithmetic_is_not_counted():
    a = te.placeholder((10,), name="a")
    b = te.compute((10,), lambda i: a[(i * 3 + 1) % 10] + 1.0, name="b")
    assert work_of([a, b], {}).flops == 10


def test_open_sizes():
    n = te.var("n")
    a = te.placeholder((n, n * 2), name="a")
    b = te.compute((n,), lambda i: a[i, 0] + 1.0, name="b")
    assert work_of([a, b], {}) is None
    assert work_of([a, b], {"n": 3}) == Work(3, False, loaded=4 * 18, stored=12)


def test_the_least_work_leaves_out_what_a_schedule_may():
    a, table = te.placeholder((64, 64), "float32", name="a"), te.placeholder((1 << 20,), "float32", name="table")
    at = te.placeholder((64,), "int32", name="at")
    costly = te.compute((64, 64), lambda i, j: te.exp(a[i, j]), name="costly")
    few = te.compute((4,), lambda i: costly[i, 0] + 1.0, name="few")
    assert least_work([a, few], {}) == Work(0, False, 0, 16), "of an intermediate, four elements are needed, or one"
    looked_up = te.compute((64,), lambda i: table[at[i]], name="b")
    assert least_work([table, at, looked_up], {}) == Work(0, False, 64 * 4, 64 * 4), "a table is not read whole"
    chosen = te.compute((64, 64), lambda i, j: te.if_then_else(i < 1, te.exp(a[i, j]), 0.0), name="c")
    assert least_work([a, chosen], {}).flops == 0
    k = te.reduce_axis((0, 64), name="k")
    total = te.compute((64,), lambda i: te.sum(a[i, k], axis=k), name="d")
    assert least_work([a, total], {}) == work_of([a, total], {})
    some = te.compute((64,), lambda i: te.sum(a[i, k], axis=k, where=k <= i), name="e")
    assert least_work([a, some], {}).flops == 0 < work_of([a, some], {}).flops
    n = te.var("n")
    b = te.placeholder((n,), name="b")
    assert least_work([b, te.compute((n,), lambda i: b[i], name="f")], {}) is None


def test_points_are_those_of_the_definition():
    a = te.placeholder((8, 4), "float32", name="a")
    k = te.reduce_axis((0, 4), name="k")
    b = te.compute((8, 4), lambda i, j: a[i, j] + 1.0, name="b")
    assert points_of([a, te.compute((8,), lambda i: te.sum(b[i, k], axis=k), name="c")], {}) == 32 + 32


def test_terms_that_say_where_they_belong_are_computed_once():
    row, x = te.placeholder((100,), "int32", name="row"), te.placeholder((100,), name="x")
    p = te.reduce_axis((0, 100), name="p")
    y = te.scatter_reduce((5000,), lambda: (row[p], x[p] * 2.0), axis=p, name="y")
    assert work_of([row, x, y], {}) == Work(200, False, loaded=800, stored=20_000)
    assert points_of([row, x, y], {}) == 100
    assert least_work([row, x, y], {}) == Work(0, False, loaded=800, stored=20_000), "places may lie outside"


def test_what_points_may_share_is_no_least_work():
    a, b = te.placeholder((40, 50), name="a"), te.placeholder((50, 60), name="b")
    k, r = te.reduce_axis((0, 50), name="k"), te.reduce_axis((0, 9), name="r")
    product = te.compute((40, 60), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")
    assert least_work([a, b, product], {}).flops == 2 * 40 * 50 * 60
    window = te.compute((32, 50), lambda i, j: te.sum(a[i + r, j], axis=r), name="window")
    assert least_work([a, window], {}).flops == 0, "neighbours have eight rows of nine in common"
    transform = te.compute((40, 50), lambda i, j: te.sum(a[i, k] * te.cos(0.1 * (j * k)), axis=k), name="transform")
    assert least_work([a, transform], {}).flops == 0, "halves of halves are computed once"
    outer = te.compute((40, 60), lambda i, j: te.exp(a[i, 0]) * b[0, j], name="outer")
    assert least_work([a, b, outer], {}).flops == 40 * 60, "a product for each, an exp for each row"
