"""Quotients by sizes: tasks that are fused loops of open length find their tile once, and whole tiles ask nothing."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, const, floordiv, floormod, var
from autosched.ir.stmt import Buffer, For, If, Let, Stmt, Store, While, all_expressions, load, seq, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.lowering.quotients import name_quotients
from autosched.schedule import Schedule, create_schedule
from autosched.testing.oracle import check_against_reference

LANES, ROWS = 8, 2


def tiles(kind: str, masked: bool) -> tuple[list[te.Tensor], Schedule]:
    """A product of matrices of open size, whose tiles are tasks."""
    n, k = te.var("n"), te.reduce_axis((0, te.var("m")), "k")
    x, y = te.placeholder((n, k.dom.extent), name="x"), te.placeholder((k.dom.extent, n), name="y")
    where = {"where": x[0, k] > 0.0} if masked else {}
    c = te.compute((n, n), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k, **where), name="c")
    s = create_schedule(c)
    sums = s.cache_write(c, "local")
    i, j = s[c].loops
    (io, ii), (jo, ji) = s[c].split(i, factor=ROWS), s[c].split(j, factor=LANES)
    s[c].reorder(io, jo, ii, ji)
    task = s[c].fuse(io, jo)
    s[c].bind(task, "blockIdx.x") if kind == "opencl" else s[c].parallel(task)
    s[c].unroll(ii)
    s[c].vectorize(ji)
    s[sums].compute_at(s[c], task)
    i, j, k = s[sums].loops
    s[sums].reorder(k, i, j)
    s[sums].unroll(i)
    s[sums].vectorize(j)
    return [x, y, c], s


def divided(s: Stmt) -> list[Expr]:
    """The quotients by sizes in a statement."""
    ops = ("floordiv", "floormod")
    return [e for e in post_order(tuple(all_expressions(s))) if e.op in ops and e.args[1].op != "const"]


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("kind", ["llvm", "c", "opencl"])
def test_tasks_find_their_tile_once_and_whole_tiles_ask_nothing(kind: str, masked: bool) -> None:
    args, s = tiles(kind, masked)
    body = lower_structure(s, args, kind).bind().body
    steps = [x for x in walk(body) if isinstance(x, For) and "k.c" in repr(x.var)]
    whole = [x for x in steps if not any(isinstance(part, If) for part in walk(x))]
    assert steps and not any(map(divided, steps))
    assert any(e.dtype.lanes == LANES for x in whole for e in post_order(tuple(all_expressions(x))) if e.op == "load")
    rng = np.random.default_rng(7)
    for n, m in ((0, 3), (1, 0), (1, 1), (7, 5), (8, 4), (16, 9), (19, 6)):
        given = [rng.integers(-3, 4, shape).astype("float32") for shape in ((n, m), (m, n))]
        for backend in ("native", "interpreter"):
            check_against_reference(args, s, kind, given, backend)  # type: ignore[arg-type]


N, F, K = var("n", role="size"), var("f", role="loop"), var("k", role="loop")
A = Buffer("A", (N,), dtype("float32"))


def loop(v: Expr, *body: Stmt, extent: Expr = N) -> For:
    return For(v, const(0), extent, "serial", seq(*body))


def test_a_quotient_of_a_quotient_and_one_of_sizes() -> None:
    inner = floordiv(F, N)
    body = name_quotients(loop(F, loop(K, Store(A, (floormod(inner, N) + floordiv(K, N),), load(A, floordiv(100, N))))))
    assert isinstance(body, For)
    names: list[Let] = []
    at = body.body
    while isinstance(at, Let):
        names.append(at)
        at = at.body
    assert {repr(x.value) for x in names} == {"f//n", "quotient%n", "100//n"}
    assert [repr(e) for e in divided(at)] == ["k//n"], "which is another one in each iteration"


def test_what_is_computed_once_has_no_name() -> None:
    once = loop(F, Store(A, (floordiv(F, N),), load(A, floormod(F, N))))
    of_data = loop(F, loop(K, Store(A, (K,), load(A, floordiv(load(Buffer("B", (N,), dtype("int32")), F), N)))))
    by_number = loop(F, loop(K, Store(A, (floordiv(F, 3),), const(0.0))))
    for s in (once, by_number):
        assert repr(name_quotients(s)) == repr(s)
    assert not any(isinstance(x, Let) for x in walk(name_quotients(of_data)))


def test_a_loop_without_a_count_repeats_too() -> None:
    s = loop(F, While(load(A, const(0)) > 0.0, Store(A, (floordiv(F, N),), const(0.0))))
    assert any(isinstance(x, Let) for x in walk(name_quotients(s)))
