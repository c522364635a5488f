"""Statements: building, walking, rewriting."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, const, likely, var
from autosched.ir.stmt import (
    LOOP_KINDS,
    THREAD_TAGS,
    Allocate,
    Barrier,
    Buffer,
    For,
    Function,
    If,
    Launch,
    Let,
    Produce,
    Seq,
    Stmt,
    Store,
    children,
    expressions,
    is_empty,
    load,
    map_stmt,
    seq,
    substitute_stmt,
    walk,
)
from autosched.ir.visit import substitute

n, m = var("n", role="size"), var("m", role="size")
y, x, t = var("y", role="loop"), var("x", role="loop"), var("t", role="let")
A = Buffer("A", (n,), dtype("float32"))
B = Buffer("B", (n,), dtype("float32"))
T = Buffer("T", (m,), dtype("float32"), "local")

store = Store(B, (x + y,), load(A, x) + 1)
other = Store(B, (x,), load(A, y))
branch = If(likely(x < n), store, other)
inner = For(x, const(0), m, "serial", branch)
program = Allocate(
    T, Produce("B", For(y, const(0), n, "parallel", Seq((Let(t, y * m, inner), Barrier(), Store(T, (t,), load(B, y))))))
)
launch = Launch("k", (n, const(1), const(1)), (m, const(1), const(1)), store)


def test_seq_is_flat_and_forgets_nothing_in_between() -> None:
    assert seq(store) is store
    assert seq(None, store, None) is store
    flat = seq(Seq((store, other)), None, branch)
    assert isinstance(flat, Seq)
    assert flat.stmts == (store, other, branch)
    assert is_empty(seq())
    assert is_empty(None)
    assert not is_empty(store)


def test_walk_is_outer_first_in_program_order() -> None:
    kinds = [type(s).__name__ for s in walk(program)]
    assert kinds == ["Allocate", "Produce", "For", "Seq", "Let", "For", "If", "Store", "Store", "Barrier", "Store"]
    assert [s for s in walk(branch) if isinstance(s, Store)] == [store, other]


def test_children_and_expressions_of_each_statement() -> None:
    assert children(branch) == (store, other)
    assert children(If(x < n, store)) == (store,)
    assert children(store) == ()
    assert children(Barrier()) == ()
    assert children(launch) == (store,)
    assert expressions(store) == (x + y, load(A, x) + 1)
    assert expressions(inner) == (const(0), m)
    assert expressions(program) == (m,)
    assert expressions(launch) == (n, const(1), const(1), m, const(1), const(1))
    assert expressions(branch) == (likely(x < n),)
    assert expressions(Barrier()) == ()
    assert expressions(Produce("p", store)) == ()


def test_map_stmt_rebuilds_every_kind() -> None:
    seen: list[Expr] = []

    def on_expr(e: Expr) -> Expr:
        seen.append(e)
        return substitute(e, {m: const(4)})

    new = map_stmt(Seq((program, launch)), on_expr)
    assert set(seen) == {e for s in walk(Seq((program, launch))) for e in expressions(s)} - {m} | {m}
    assert [type(s) for s in walk(new)] == [type(s) for s in walk(Seq((program, launch)))]
    loops = [s for s in walk(new) if isinstance(s, For)]
    assert loops[1].extent is const(4)
    assert loops[0].kind == "parallel"
    assert loops[1].var is x
    last = [s for s in walk(new) if isinstance(s, Launch)][0]
    assert last.block == (const(4), const(1), const(1))
    assert last.grid == (n, const(1), const(1))


def test_map_stmt_leaves_a_buffers_own_shape_alone() -> None:
    """A Buffer is an identity: the loads of it share it."""
    new = map_stmt(program, lambda e: substitute(e, {m: const(4)}))
    assert isinstance(new, Allocate)
    assert new.buffer is T
    assert T.shape == (m,)


def test_map_stmt_goes_bottom_up() -> None:
    order: list[str] = []

    def on_stmt(s: Stmt) -> Stmt:
        order.append(type(s).__name__)
        return Seq(()) if isinstance(s, Store) and s.value is other.value else s

    new = map_stmt(program, on_stmt=on_stmt)
    assert order == ["Store", "Store", "If", "For", "Let", "Barrier", "Store", "Seq", "For", "Produce", "Allocate"]
    replaced = [s for s in walk(new) if isinstance(s, If)][0]
    assert is_empty(replaced.otherwise)
    assert replaced.then.value is store.value


def test_map_stmt_flattens_what_became_a_sequence() -> None:
    new = map_stmt(Seq((store, other)), on_stmt=lambda s: Seq((s, Barrier())) if isinstance(s, Store) else s)
    assert [type(s).__name__ for s in new.stmts] == ["Store", "Barrier", "Store", "Barrier"]


def test_substitute_stmt() -> None:
    new = substitute_stmt(inner, {y: const(2), m: n})
    assert isinstance(new, For)
    assert new.extent is n
    assert [s.indices[0] for s in walk(new) if isinstance(s, Store)] == [x + 2, x]
    assert substitute_stmt(inner, {}) is inner


def test_statements_cannot_be_changed_and_compare_by_identity() -> None:
    with pytest.raises(FrozenInstanceError):
        inner.kind = "unroll"  # type: ignore[misc]
    assert Store(B, (x,), load(A, y)) != other
    assert Buffer("A", (n,), dtype("float32")) != A


def test_loads_have_as_many_lanes_as_their_index() -> None:
    from autosched.ir.expr import ramp

    assert load(A, ramp(x, 1, 8)).dtype == "float32x8"
    assert load(A, x).dtype == "float32"
    assert load(Buffer("s", (), dtype("uint8"))).dtype == "uint8"


def test_functions() -> None:
    f = Function("f", (A, B), (n, m), program, (1,))
    assert f.with_body(store).body is store
    assert f.with_body(store).params == (A, B)
    assert set(LOOP_KINDS) == {"serial", "parallel", "vectorize", "unroll", "thread"}
    assert THREAD_TAGS[0] == "blockIdx.x"
    assert THREAD_TAGS[-1] == "threadIdx.z"
    assert len(THREAD_TAGS) == 6
    assert repr(A) == "A: float32[n] global"


def test_deep_nests_are_walked_without_recursion():
    """The buffers of a long pipeline are allocated one inside the other."""
    inner = Store(Buffer("b", (const(8),), dtype("int32")), (const(0),), const(1))
    nest: Stmt = inner
    for number in range(5000):
        nest = Produce(f"p{number}", nest)
    found = list(walk(nest))
    assert len(found) == 5001 and found[0] is nest and found[-1] is inner
