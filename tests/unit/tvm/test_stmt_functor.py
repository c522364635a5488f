"""Visiting and rewriting programs node by node."""

from __future__ import annotations

import pytest

import autosched
from autosched import te
from autosched.ir.expr import Expr, const, var, variables
from autosched.ir.stmt import For, Store, walk
from autosched.tvm.tir.stmt_functor import ir_transform, post_order_visit, substitute


def body():
    a = te.placeholder((4, 6), name="a")
    b = te.compute((4, 6), lambda i, j: te.if_then_else(i < 2, a[i, j] + 1, a[i, j] * 2), name="b")
    return autosched.lower(autosched.create_schedule(b), [a, b]).function.body


def test_every_node_once_and_parts_first() -> None:
    seen = []
    root = body()
    post_order_visit(root, seen.append)
    assert len(seen) == len(set(map(id, seen)))
    assert seen[-1] is root
    place = {id(node): at for at, node in enumerate(seen)}
    for node in seen:
        if isinstance(node, Expr):
            assert all(place[id(x)] < place[id(node)] for x in node.args)


def test_what_does_not_change_stays_the_same_object() -> None:
    root = body()
    assert ir_transform(root, None, None) is root
    assert ir_transform(root, lambda node: None, lambda node: None) is root


def test_after_the_parts() -> None:
    x, y = var("x"), var("y")
    doubled = ir_transform(x * 3 + y, None, lambda e: e * 2 if e is x else None)
    assert doubled is x * 2 * 3 + y


def test_before_the_parts_nothing_below_is_visited() -> None:
    x, y = var("x"), var("y")
    seen = []

    def before(e):
        return const(7) if e.op == "mul" else None

    result = ir_transform(x * 3 + y, before, seen.append)
    assert result is const(7) + y
    assert x not in set(seen)


def test_only_some_kinds() -> None:
    seen = []
    ir_transform(body(), None, seen.append, ["tir.For"])
    assert [node.var.name for node in seen] == ["j", "i"]


def test_statements_in_place_of_statements() -> None:
    def unrolled(node):
        return For(node.var, node.start, node.extent, "unroll", node.body) if isinstance(node, For) else None

    kinds = [s.kind for s in walk(ir_transform(body(), None, unrolled)) if isinstance(s, For)]
    assert kinds == ["unroll", "unroll"]


def test_an_expression_cannot_take_a_statement_s_place() -> None:
    with pytest.raises(TypeError, match="a statement was replaced"):
        ir_transform(body(), None, lambda node: const(1) if isinstance(node, Store) else None)


def test_numbers_for_variables() -> None:
    x = var("x")
    assert substitute(x + 1, {x: 4}) is const(5)


def test_a_long_chain() -> None:
    e = x = var("x")
    for k in range(5000):
        e = e * 3 + k
    y = var("y")
    assert variables(ir_transform(e, None, lambda n: y if n is x else None)) == {y}


def test_names_of_parts() -> None:
    x = var("x")
    assert (x + 3).a is x and (x + 3).b.value == 3
    choice = te.select(x < 3, x, 1)
    assert choice.condition.op == "lt" and choice.true_value is x and choice.false_value.value == 1
    with pytest.raises(AttributeError, match=r"PrimExpr.condition .*\n  of x \+ 3: op, args, dtype, value, a, b"):
        _ = (x + 3).condition
