"""Sums over pairs: vectors of results that meet one partner after the other."""

from __future__ import annotations

import pytest
from generated_spaces import check, walked

from autosched import te


def between(n, m, d=3):
    """Squared distances of points in few dimensions: two inputs and [n, m]."""
    p, q = te.placeholder((n, d), name="p"), te.placeholder((m, d), name="q")
    c = te.reduce_axis((0, d), "c")

    def square(i, j):
        return te.sum((p[i, c] - q[j, c]) * (p[i, c] - q[j, c]), axis=c)

    return p, q, te.compute((n, m), square, name="square")


def forces(n=37, m=61, d=2):
    p, q, square = between(n, m, d)
    weight = te.compute((n, m), lambda i, j: 1.0 / (square[i, j] + 0.5), name="weight")
    j = te.reduce_axis((0, m), "j")
    return p, q, te.compute((n, d), lambda i, c: te.sum(weight[i, j] * (q[j, c] - p[i, c]), axis=j), name="force")


def scaled_potential(m=61):
    n = te.var("n")
    p, q, square = between(n, m)
    j = te.reduce_axis((0, m), "j")
    sums = te.compute((n,), lambda i: te.sum(te.exp(-square[i, j]), axis=j), name="sums")
    return p, q, te.compute((n,), lambda i: sums[i] * 2.0 + 1.0, name="scaled")


def nearest(n=37, m=61):
    p, q, square = between(n, m)
    j = te.reduce_axis((0, m), "j")
    return p, q, *te.compute((n,), lambda i: te.argmin(square[i, j], axis=j), name="near")


def batches(b=3, n=53):
    x, j = te.placeholder((b, n), name="x"), te.reduce_axis((0, n), "j")
    return x, te.compute((b, n), lambda k, i: te.sum((x[k, j] < x[k, i]).astype("int32"), axis=j), name="rank")


@pytest.mark.parametrize("args", [forces(), nearest(), batches()], ids=["forces", "nearest", "batches"])
def test_partners_one_after_the_other(args):
    plan = walked(*args)
    assert plan.done[plan.s[args[-1]]] == "sums_of_pairs"
    assert {plan.done[x] for x in plan.s.stages if x.reduce_axis and not x.is_output} <= {"cache_write"}
    check(args)


def test_what_is_done_with_the_sums_is_done_in_registers():
    plan = walked(*scaled_potential())
    assert plan.done[plan.s["sums"]] == "sums_of_pairs"
    check(scaled_potential(), sizes={"n": 45})


def test_parts_of_a_tuple_do_not_compute_a_pair_twice():
    plan = walked(*nearest())
    assert plan.s["square"].scope == "local" and plan.s["square"].attach.kind == "at"


def a_product(n=64):
    a, b, k = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b"), te.reduce_axis((0, n), "k")
    return a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")


def rows(n=64):
    a, k = te.placeholder((n, n), name="a"), te.reduce_axis((0, n), "k")
    return a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="c")


def kept_pairs(n=64):
    """The pairs are a result, too."""
    p, q, square = between(n, n)
    j = te.reduce_axis((0, n), "j")
    return p, q, square, te.compute((n,), lambda i: te.sum(te.sqrt(square[i, j]), axis=j), name="c")


def shifted(n=64):
    """Each pair is needed by two results: it would be computed twice."""
    p, q, square = between(n + 1, n)
    j = te.reduce_axis((0, n), "j")
    return p, q, te.compute((n,), lambda i: te.sum(square[i, j] * square[i + 1, j], axis=j), name="c")


@pytest.mark.parametrize("args", [a_product(), rows(), kept_pairs(), shifted()], ids=["a", "r", "k", "s"])
def test_other_sums_are_left_to_other_rules(args):
    plan = walked(*args)
    assert "sums_of_pairs" not in plan.done.values()
