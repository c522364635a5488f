"""Readable text: precedence, names in scope, and an end to what has none."""

from __future__ import annotations

import re

import numpy as np
import pytest
from index_fuzz import Seeded, condition_expr, describe, integer_expr, random_scope, values

from autosched import te
from autosched.ir.dtype import dtype
from autosched.ir.expr import (
    Expr,
    broadcast,
    call,
    cast,
    combine_lanes,
    const,
    floordiv,
    if_then_else,
    likely,
    logical_and,
    logical_not,
    logical_or,
    make,
    maximum,
    minimum,
    ramp,
    select,
    truncdiv,
    truncmod,
    var,
)
from autosched.ir.printer import format_expr, format_function, format_stmt
from autosched.ir.stmt import Allocate, Barrier, Buffer, For, Function, If, Launch, Let, Produce, Seq, Store, load
from autosched.ir.visit import post_order

a, b, c, d = (var(name, role="loop") for name in "abcd")
x, y, z = (var(name, "float32") for name in "xyz")
n = var("n", role="size")
A = Buffer("A", (n, const(3)), dtype("uint8"))
B = Buffer("B", (n,), dtype("float32"))


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (a + b * c, "a + b*c"),
        ((a + b) * c, "(a + b)*c"),
        (a - (b - c), "a - (b - c)"),
        (a - b - c, "a - b - c"),
        (a + (b + c), "a + b + c"),
        (a + (b - c), "a + (b - c)"),
        (a * (b * c), "a*b*c"),
        (a * (b // c), "a*(b//c)"),
        (a * (b // c * d), "a*(b//c*d)"),
        (a * (b * (c // d)), "a*b*(c//d)"),
        (a // (b * c), "a//(b*c)"),
        (a // b // c, "a//b//c"),
        (a // b * c % d, "a//b*c%d"),
        (a % (b % c), "a%(b%c)"),
        (-a * b, "-a*b"),
        (-(a * b), "-(a*b)"),
        (a * -3, "a*(-3)"),
        (a - const(-3), "a - (-3)"),
        (const(-3) + a, "-3 + a"),
        (-(-a), "--a"),
        (x + (y + z), "x + (y + z)"),
        (x * (y * z), "x * (y * z)"),
        (x * y * z, "x * y * z"),
        (x / y / z, "x / y / z"),
        (truncdiv(a, b), "a/b"),
        (truncmod(a, b), "truncmod(a, b)"),
        (logical_or(logical_and(a < b, b < c), c < d), "a < b && b < c || c < d"),
        (logical_and(logical_or(a < b, b < c), c < d), "(a < b || b < c) && c < d"),
        (make("eq", dtype("bool"), (a < b, c < d)), "a < b == c < d"),
        (make("lt", dtype("bool"), (make("eq", dtype("bool"), (a < b, c < d)), a < c)), "(a < b == c < d) < (a < c)"),
        (logical_not(likely(a < b)), "!likely(a < b)"),
        (logical_not(x < y), "!(x < y)"),
        (~(a + b), "~(a + b)"),
        (a << b + c, "a << b + c"),
        ((a << b) + c, "(a << b) + c"),
        (a & b | c ^ d, "a & b | c ^ d"),
        (a & (b | c), "a & (b | c)"),
        (minimum(a, maximum(b, c)) + 1, "min(a, max(b, c)) + 1"),
        (select(a < b, a, if_then_else(b < c, b, c)), "select(a < b, a, if_then_else(b < c, b, c))"),
        (cast("float32", A_load := load(A, a + 1, const(0))), "float32(A[a + 1, 0])"),
        (A_load + 1, "A[a + 1, 0] + uint8(1)"),
        (cast("uint16", A_load) * 257, "uint16(A[a + 1, 0])*uint16(257)"),
        (ramp(a * 4, 1, 8), "ramp(a*4, 8)"),
        (combine_lanes("add", ramp(a, 1, 4)) + b, "add_lanes(ramp(a, 4)) + b"),
        (ramp(a, 3, 4) + broadcast(b, 4), "ramp(a:3, 4) + x4(b)"),
        (load(B, ramp(a, 1, 4)) * 2.5, "B[ramp(a, 4)] * x4(2.5f)"),
        (call("exp", x) - call("pow", x, y), "exp(x) - pow(x, y)"),
        (const(1.5), "1.5f"),
        (const(-1.5), "-1.5f"),
        (const(0.5, "float64"), "0.5"),
        (const(0.5, "float16"), "float16(0.5)"),
        (const(2**40), str(2**40)),
        (const(True), "true"),
        (const(float("inf")), "inff"),
    ],
    ids=str,
)
def test_expressions(e: Expr, text: str) -> None:
    assert repr(e) == text


def test_reads_and_reductions() -> None:
    t = te.placeholder((8, 8), name="T")
    k = te.reduce_axis((0, 8), name="k")
    assert repr(te.sum(t[k, 0] * 2.0, axis=k)) == "sum(T[k, 0] * 2.0f, axis=[k])"


def test_names_may_be_given() -> None:
    assert format_expr(a + b, lambda v: v.name.upper()) == "A + B"


PYTHON = {"&&": " and ", "||": " or "}


def evaluated(text: str, names: dict[str, int]) -> int:
    """The printed text of an index expression, as Python."""
    python = re.sub(r"&&|\|\|", lambda m: PYTHON[m[0]], text)
    python = re.sub(r"!(?!=)", " not ", python)
    functions = {
        "min": min,
        "max": max,
        "select": lambda c, p, q: p if c else q,
        "if_then_else": lambda c, p, q: p if c else q,
        "likely": lambda c: c,
        "int32": int,
        "int64": int,
        "true": 1,
        "false": 0,
    }
    return int(eval(python, {"__builtins__": {}}, {**functions, **names}))


def _is_python(e: Expr) -> bool:
    """Python's `/` is no integer division, and its `//` refuses 0."""
    for node in post_order(e):
        if node.op in ("truncdiv", "truncmod"):
            return False
        if node.op in ("floordiv", "floormod") and node.args[1].op == "const" and node.args[1].value == 0:
            return False
        if node.op in ("eq", "ne", "lt", "le", "gt", "ge") and node.args[0].dtype.is_bool:
            return False
    return True


@pytest.mark.parametrize("seed", range(200))
def test_the_text_means_what_the_expression_means(seed: int) -> None:
    choices = Seeded(seed)
    s = random_scope(choices)
    env = s.assignments()
    usable = np.flatnonzero(np.all([env[v] for v in s.sizes], axis=0))
    rows = usable[:: max(len(usable) // 12, 1)]
    for e in [integer_expr(choices, s, 4), condition_expr(choices, s, 3)]:
        if not _is_python(e):
            continue
        exact = np.broadcast_to(values(e, env), len(next(iter(env.values()))))
        for row in rows:
            names = {v.name: int(column[row]) for v, column in env.items()}
            assert evaluated(repr(e), names) == exact[row], describe(s, e, names)


# -- what has no end ------------------------------------------------------------------------------


def test_a_long_sum_prints_whole() -> None:
    e = a
    for k in range(1, 1200):
        e = e + b * k
    assert repr(e).count("+") == 1199
    assert "..." not in repr(e)


def test_shared_parts_printed_out_are_cut_short() -> None:
    """60 doublings are 2**60 nodes of text."""
    e = x
    for _ in range(60):
        e = e * y + e / y
    text = repr(e)
    assert len(text) < 200_000
    assert "..." in text


def test_deep_nesting_is_cut_short() -> None:
    e = x
    for _ in range(2000):
        e = call("sqrt", 1.0 - e)
    assert "..." in repr(e)
    assert len(repr(e)) < 5000


# -- statements -----------------------------------------------------------------------------------


def _loop(v: Expr, extent: object, body: object, kind: str = "serial", thread: str = "") -> For:
    return For(v, const(0), const(extent) if isinstance(extent, int) else extent, kind, body, thread)  # type: ignore[arg-type]


def test_every_statement(golden) -> None:
    row = Buffer("row", (n * 3,), dtype("uint16"), "local")
    t = var("t", role="let")
    body = Seq(
        (
            Produce("row", _loop(a, n, Store(row, (a * 3,), cast("uint16", load(A, a, const(0)))), "vectorize")),
            Let(t, a % 4, If(likely(t < 3), Store(B, (a,), const(1.0)), Store(B, (a,), const(0.0)))),
            If(logical_and(a < n, b >= 2), Store(B, (b,), load(B, a) + 1)),
            _loop(c, 4, Seq(()), "unroll"),
        )
    )
    golden(format_stmt(_loop(b, n - 1, Allocate(row, body), "parallel")))


def test_a_kernel(golden) -> None:
    shared = Buffer("tile", (const(64),), dtype("float32"), "shared")
    bx, tx = var("blockIdx.x", role="thread"), var("threadIdx.x", role="thread")
    body = Allocate(
        shared, Seq((Store(shared, (tx,), load(B, bx * 64 + tx)), Barrier(), Store(B, (bx,), load(shared, 63 - tx))))
    )
    bound = _loop(a, 8, Store(B, (a,), const(0.0)), "thread", "threadIdx.y")
    one = const(1)
    kernels = Seq((Launch("copy", (floordiv(n, 64), one, one), (const(64), one, one), body), bound))
    golden(format_function(Function("f", (A, B), (n,), kernels, (1,))))


def test_an_inner_loop_of_the_same_name_is_told_apart() -> None:
    y1, y2, y3 = (var("y", role="loop") for _ in range(3))
    nest = _loop(
        y1, n, Seq((_loop(y2, 4, Store(B, (y1 * 4 + y2,), const(0.0))), _loop(y3, 2, Store(B, (y3,), const(1.0)))))
    )
    assert format_stmt(nest) == (
        "for (y, 0, n) {\n"
        "  for (y_1, 0, 4) {\n"
        "    B[y*4 + y_1] = 0.0f\n"
        "  }\n"
        "  for (y_1, 0, 2) {\n"
        "    B[y_1] = 1.0f\n"
        "  }\n"
        "}"
    )
    again = Seq((_loop(y1, 2, Store(B, (y1,), const(0.0))), _loop(y2, 3, Store(B, (y2,), const(0.0)))))
    assert "y_1" not in format_stmt(again), "one after the other is no conflict"


def test_a_loop_named_as_a_size_is_told_apart() -> None:
    loop_n = var("n", role="loop")
    f = Function("f", (B,), (n,), _loop(loop_n, n, Store(B, (loop_n,), const(0.0))), (0,))
    assert format_function(f) == "f(B: float32[n] out)\nfor (n_1, 0, n) {\n  B[n_1] = 0.0f\n}\n"
