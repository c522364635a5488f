"""What a program must do at least, counted by hand."""

from __future__ import annotations

from autosched import te
from autosched.te.work import Work, work_of


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
