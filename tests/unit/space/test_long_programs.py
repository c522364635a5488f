"""Programs of many stages, and of expressions that share their parts: work must not grow faster than they do.

What an exponential walk does with the shared programs below it would not end before the stars do.
"""

from __future__ import annotations

import gc

import pytest

from autosched import Target, search_space, te
from autosched.building import default_plan
from autosched.codegen import compile_function
from autosched.schedule.schedule import Schedule
from autosched.space.space import sketching_until
from autosched.space.workload import Workload

N, DEEP = 1000, 40
CPU = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=8")


def shared(step, deep=DEEP, result=lambda x, A: x) -> Workload:
    """A program whose `x = step(x, B, i, number)` mentions x twice, again and again."""
    A, B = te.placeholder((N,), name="A"), te.placeholder((deep, N), name="B")

    def body(i):
        x = A[i]
        for number in range(deep):
            x = step(x, B, i, number)
        return result(x, A)

    return Workload("shared", (A, B, te.compute((N,), body, name="C")))


def exclusive_or(deep: int) -> Workload:
    A, B = te.placeholder((N,), name="A"), te.placeholder((deep, N), name="B")

    def body(i):
        x = A[i] > 0
        for number in range(deep):
            y = B[number, i] > 0
            x = te.any(te.all(x, ~y), te.all(~x, y))
        return te.select(x, 1.0, 0.0)

    return Workload("exclusive_or", (A, B, te.compute((N,), body, name="C")))


def folded_index() -> Workload:
    A = te.placeholder((N,), name="A")

    def body(i):
        x = i
        for _ in range(DEEP):
            x = te.min(x + 1, N - x)
        return A[te.min(te.max(x, 0), N - 1)]

    return Workload("folded_index", (A, te.compute((N,), body, name="C")))


SHARED = {
    "products": lambda: shared(lambda x, B, i, n: x * x + B[n, i]),
    "choices": lambda: shared(lambda x, B, i, n: te.select(x > 0, x * 2, x + B[n, i])),
    "guarded choices": lambda: shared(lambda x, B, i, n: te.if_then_else(x > 0, x * B[n, i], x + 1)),
    "choices of places": lambda: shared(lambda x, B, i, n: te.if_then_else(i > n, x * B[n, i], x + 1)),
    "exclusive or": lambda: exclusive_or(DEEP),
    "indices": folded_index,
}


@pytest.mark.parametrize("name", SHARED)
def test_a_search_space_looks_once_at_what_is_shared(name):
    work = SHARED[name]()
    for target in (CPU, Target("cuda")):
        assert work.search_space(target, {}, "auto").sketches


@pytest.mark.parametrize("kind", ["llvm", "c", "opencl", "cuda"])
@pytest.mark.parametrize("name", SHARED)
def test_code_computes_once_what_is_shared(name, kind):
    target = CPU if kind == "llvm" else Target(kind)
    function = default_plan(SHARED[name](), target, "f", "").lowered()
    text = compile_function(function, target, lambda identity: True).texts["source"]
    assert len(text) < 500_000


def test_a_search_space_takes_a_long_chain_of_stages():
    """Each of which is inlined, so that the reader of the first is the last."""
    A = x = te.placeholder((N,), name="A")
    for number in range(400):
        x = te.compute((N,), lambda i, x=x: te.max(x[i], 0.5), name=f"stage{number}")
    assert search_space(Workload("chain", (A, x)), CPU, space="auto").sketches


def test_a_search_space_takes_stages_that_read_all_before_them():
    def normed(x, number):
        k, m = te.reduce_axis((0, 16), "k"), te.reduce_axis((0, 16), "m")
        mean = te.compute((N,), lambda i: te.sum(x[i, k], axis=k), name=f"mean{number}")
        square = te.compute((N,), lambda i: te.sum((x[i, m] - mean[i]) * x[i, m], axis=m), name=f"square{number}")
        return te.compute((N, 16), lambda i, j: (x[i, j] - mean[i]) / te.sqrt(square[i]), name=f"norm{number}")

    A = x = te.placeholder((N, 16), name="A")
    for number in range(14):
        x = normed(x, number)
    assert search_space(Workload("norms", (A, x)), CPU, space="auto").sketches


def test_schedules_that_rules_made_are_dropped_with_their_space():
    A = te.placeholder((64, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    B = te.compute((64, 64), lambda i, j: te.exp(A[i, j]), name="B")
    C = te.compute((64, 64), lambda i, j: te.sum(B[i, k] * A[k, j], axis=k), name="C")

    def alive() -> int:
        gc.collect()
        return sum(isinstance(x, Schedule) for x in gc.get_objects())

    before = alive()
    assert search_space(Workload("product", (A, C)), CPU, space="auto").sketches
    assert alive() == before


def layers(n: int) -> Workload:
    """`n` layers of a network, all of one size."""
    args, h = [], te.placeholder((64, 256), name="x")
    args.append(h)
    for number in range(n):
        w, k = te.placeholder((256, 256), name=f"w{number}"), te.reduce_axis((0, 256), f"k{number}")
        sums = te.compute((64, 256), lambda i, j, h=h, w=w, k=k: te.sum(h[i, k] * w[k, j], axis=k), name=f"d{number}")
        h = te.compute((64, 256), lambda i, j, sums=sums: te.max(sums[i, j], 0.0), name=f"h{number}")
        args.append(w)
    return Workload("layers", (*args, h))


def test_layers_that_are_alike_share_knobs_where_there_are_many():
    with sketching_until(computing_s=0.0):
        few, many = (search_space(layers(n), CPU, space="auto").sketches[0] for n in (2, 12))
    tiled = {name: sum(k.name.startswith(name) for k in few.knobs) for name in ("d0", "d1")}
    assert tiled["d0"] == tiled["d1"] > 3
    assert len(many.knobs) < 4 * tiled["d0"]  # those of twelve layers, were each by itself, are three times as many
    factors = {str(i[3].get("factor")) for i in many.trace if i[0] == "split" and i[1].startswith("d0")}
    assert any(k.name in factor for k in many.knobs for factor in factors if not k.name.startswith("d0"))
