"""Loops, conditions, lets, index arithmetic, intermediate buffers and parallel loops on the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from autosched.codegen import compile_function, text_of
from autosched.codegen.llvm import render
from autosched.codegen.storage import STACK_BYTES
from autosched.errors import BuildError
from autosched.ir.dtype import INT32, dtype
from autosched.ir.expr import (
    Expr,
    broadcast,
    cast,
    compare,
    const,
    floordiv,
    floormod,
    likely,
    logical_and,
    make,
    maximum,
    minimum,
    ramp,
    select,
    truncdiv,
    truncmod,
    var,
)
from autosched.ir.stmt import Allocate, Barrier, Buffer, For, Function, If, Let, Produce, Seq, Stmt, Store, load, seq
from autosched.runtime import load as load_kernel
from autosched.target import Target

INT32_MAX = 2**31 - 1


def run(function: Function, *arrays: np.ndarray, threads: int = 1) -> None:
    to = Target.parse(f"llvm -threads={threads}")
    load_kernel(compile_function(function, to), to).bind(arrays).run()


def size(name: str) -> Expr:
    return var(name, role="size")


def loop_var(name: str = "i") -> Expr:
    return var(name, role="loop")


def evaluate(value, count: int, of: str = "int64", lanes: int = 1) -> np.ndarray:
    """[value(i) for i in range(count)], by a loop or by vectors."""
    out, i = Buffer("out", (const(count),), dtype(of)), loop_var()
    at = ramp(i * lanes, 1, lanes)
    body = For(i, const(0), const(count // lanes), "serial", Store(out, (at,), value(at)))
    result = np.zeros(count, of)
    run(Function("f", (out,), (), body, (0,)), result)
    return result


def test_llvm_does_not_know_what_a_border_counts() -> None:
    """The counter passes through an assembly instruction of no length; the listing does not show it."""
    n, i = size("n"), loop_var()
    out = Buffer("out", (n,), dtype("int32"))
    for ragged in (False, True):
        body = For(i, const(0), n, "serial", Store(out, (i,), cast("int32", i * i)), ragged=ragged)
        function = Function("f", (out,), (n,), body, (0,))
        artifact = compile_function(function, Target.parse("llvm"))
        assert (' asm "", ' in artifact.texts["source"]) == ragged
        assert "APP" not in render(artifact, "asm")
        result = np.zeros(9, "int32")
        run(function, result)
        np.testing.assert_array_equal(result, np.arange(9) ** 2)


# -- index arithmetic -----------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 8])
def test_index_arithmetic_is_exact(lanes: int) -> None:
    """int32 index arithmetic goes beyond 32 bits and back without a wrap."""
    actual = evaluate(lambda i: cast("int64", floordiv(i * INT32_MAX, const(INT32_MAX))), 64, lanes=lanes)
    np.testing.assert_array_equal(actual, np.arange(64))
    far = evaluate(lambda i: select(i * INT32_MAX > INT32_MAX, const(1, "int64"), const(0, "int64")), 64, lanes=lanes)
    np.testing.assert_array_equal(far, np.arange(64) > 1)


def test_index_is_cut_where_it_meets_a_value() -> None:
    """A value of type int32 holds the low 32 bits of an exact index."""
    out, i = Buffer("out", (const(8),), dtype("int32")), loop_var()
    body = For(i, const(0), const(8), "serial", Store(out, (i,), i * INT32_MAX))
    result = np.zeros(8, np.int32)
    run(Function("f", (out,), (), body, (0,)), result)
    np.testing.assert_array_equal(result, (np.arange(8) * INT32_MAX).astype(np.int32))


def test_offsets_beyond_32_bits() -> None:
    """An address is computed in 64 bits although its parts are int32: i * 2**30 // 2**28 is 4 * i."""
    a, out, i = Buffer("a", (const(64),), dtype("int32")), Buffer("out", (const(16),), dtype("int32")), loop_var()
    body = For(i, const(0), const(16), "serial", Store(out, (i,), load(a, i * (1 << 30) // (1 << 28))))
    result = np.zeros(16, np.int32)
    run(Function("f", (a, out), (), body, (1,)), np.arange(64, dtype=np.int32), result)
    np.testing.assert_array_equal(result, 4 * np.arange(16))


OPERATORS = {
    "floordiv": (floordiv, lambda a, b: a // b),
    "floormod": (floormod, lambda a, b: a % b),
    "truncdiv": (truncdiv, lambda a, b: np.trunc(a / b).astype(int)),
    "truncmod": (truncmod, np.fmod),
    "min": (minimum, np.minimum),
    "max": (maximum, np.maximum),
}


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("shift", [0, -40, 7])
@pytest.mark.parametrize("op", OPERATORS)
def test_index_operators(op: str, shift: int, lanes: int) -> None:
    """Known non-negative, negative, and unknown operands (through a size) take different code."""
    build, expected = OPERATORS[op]
    count, n = 64, size("n")
    divisors = [1, 2, 3, 8, -3, -8, n]
    outs = [Buffer(f"out{k}", (const(count),), dtype("int32")) for k in range(len(divisors))]
    given = Buffer("given", (n,), dtype("int8"))
    i = loop_var()
    at = ramp(i * lanes, 1, lanes)
    stores = [Store(o, (at,), build(at + shift, d)) for o, d in zip(outs, divisors, strict=True)]
    body = For(i, const(0), const(count // lanes), "serial", seq(*stores))
    results = [np.zeros(count, np.int32) for _ in outs]
    run(Function("f", (given, *outs), (n,), body, tuple(range(1, 1 + len(outs)))), np.zeros(5, np.int8), *results)
    a = np.arange(count) + shift
    for divisor, result in zip(divisors, results, strict=True):
        np.testing.assert_array_equal(result, expected(a, 5 if divisor is n else divisor), err_msg=repr(divisor))


def test_non_negative_division_by_a_power_of_two_is_a_shift() -> None:
    n, i = size("n"), loop_var()
    out = Buffer("out", (n,), dtype("int32"))
    body = For(i, const(0), n, "serial", Store(out, (floordiv(i, 8),), floormod(i, 24)))
    text = compile_function(Function("f", (out,), (n,), body, (0,)), Target.parse("llvm")).texts["source"]
    assert "udiv i64 %i, 8" in text or "ashr i64 %i, 3" in text
    assert "urem i64 %i, 24" in text


@pytest.mark.parametrize("lanes", [1, 4])
def test_narrow_lets_keep_their_width(lanes: int) -> None:
    """A let of a small type in vector code is not widened to 64 bits where that changes nothing."""
    a, out, i = Buffer("a", (const(64),), dtype("uint8")), Buffer("out", (const(64),), dtype("uint8")), loop_var()
    at = ramp(i * lanes, 1, lanes)
    x = make("var", dtype("uint8").with_lanes(lanes), (), var("x", role="let").value)
    large, nine = (broadcast(const(n, "uint8"), lanes) for n in (200, 9))
    value = (x + large) ^ floordiv(x, nine)
    body = For(i, const(0), const(64 // lanes), "serial", Let(x, load(a, at), Store(out, (at,), value)))
    data, result = (np.arange(64) * 5).astype(np.uint8), np.zeros(64, np.uint8)
    function = Function("f", (a, out), (), body, (1,))
    run(function, data, result)
    np.testing.assert_array_equal(result, (data + np.uint8(200)) ^ (data // 9))
    if lanes > 1:
        text = compile_function(function, Target.parse("llvm")).texts["source"]
        assert "<4 x i64>" not in text


# -- statements -----------------------------------------------------------------------------------


def counted(start: Expr, extent: Expr, kind: str = "serial", threads: int = 1) -> np.ndarray:
    """How often each of 16 elements is visited by a loop over [start, start + extent)."""
    out, i, n = Buffer("out", (const(16),), dtype("int32")), loop_var(), size("n")
    given = Buffer("given", (n,), dtype("int8"))
    body = For(i, start(n) if callable(start) else start, extent(n), kind, Store(out, (i,), load(out, i) + 1))
    result = np.zeros(16, np.int32)
    run(Function("f", (given, out), (n,), body, (1,)), np.zeros(5, np.int8), result, threads=threads)
    return result


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["serial", "parallel"])
@pytest.mark.parametrize(
    ("start", "extent", "expected"),
    [
        (const(2), lambda n: n, range(2, 7)),
        (const(2), lambda n: n - 5, range(0)),
        (const(2), lambda n: n - 9, range(0)),
        (const(2), lambda n: const(0), range(0)),
        (const(2), lambda n: const(-3), range(0)),
        (const(4), lambda n: const(1), range(4, 5)),
        (const(4), lambda n: n - 4, range(4, 5)),
        (const(0), lambda n: const(16), range(16)),
        (lambda n: n, lambda n: n, range(5, 10)),
    ],
)
def test_loop_bounds(start, extent, expected: range, kind: str, threads: int) -> None:
    """Extents may be zero or negative, known or not; every iteration runs once."""
    visits = np.zeros(16, np.int32)
    visits[list(expected)] = 1
    np.testing.assert_array_equal(counted(start, extent, kind, threads), visits)


def test_conditions_and_sequences() -> None:
    out, i = Buffer("out", (const(16),), dtype("int32")), loop_var()
    here = Store(out, (i,), cast("int32", i) * 10)
    there = Store(out, (i,), const(-1))
    body = For(
        i,
        const(0),
        const(16),
        "serial",
        Seq(
            (
                If(likely(i < 12), here, there),
                If(i >= 14, Store(out, (i,), load(out, i) - 1)),
                If(const(False), Store(out, (i,), const(99)), None),
                If(const(True), Seq(()), Store(out, (i,), const(98))),
            )
        ),
    )
    result = np.zeros(16, np.int32)
    function = Function("f", (out,), (), Produce("out", body), (0,))
    run(function, result)
    np.testing.assert_array_equal(result, [*(10 * k for k in range(12)), -1, -1, -2, -2])
    assert "branch_weights" in compile_function(function, Target.parse("llvm")).texts["source"]


def test_lets_are_evaluated_once_and_may_be_shadowed() -> None:
    """A let holds the value from before the stores of its body; an inner one of the same name wins."""
    out, x = Buffer("out", (const(4),), dtype("float32")), var("x", "float32", role="let")
    k = var("k", role="let")
    body = Seq(
        (
            Store(out, (const(0),), const(2.0, "float32")),
            Let(
                x,
                load(out, const(0)) * const(3.0, "float32"),
                Seq(
                    (
                        Store(out, (const(0),), x),
                        Store(out, (const(1),), x),
                        Let(k, const(3), Store(out, (k,), x + const(1.0, "float32"))),
                        Let(k, const(2), Store(out, (k,), cast("float32", k))),
                    )
                ),
            ),
            Let(x, const(5.0, "float32"), Let(x, x + x, Store(out, (const(1),), x))),
        )
    )
    result = np.zeros(4, np.float32)
    run(Function("f", (out,), (), body, (0,)), result)
    np.testing.assert_array_equal(result, [6, 10, 2, 7])


def test_a_loop_variable_may_serve_two_loops() -> None:
    """Partitioning cuts a loop in three that share their variable."""
    out, i = Buffer("out", (const(12),), dtype("int32")), loop_var()
    pieces = [
        For(i, const(s), const(e), "serial", Store(out, (i,), i * k))
        for k, (s, e) in enumerate([(0, 3), (3, 8), (11, 1)])
    ]
    result = np.full(12, -1, np.int32)
    run(Function("f", (out,), (), Seq(tuple(pieces)), (0,)), result)
    np.testing.assert_array_equal(result, [*(0 * k for k in range(3)), *range(3, 11), 22])


def test_ragged_loops_are_not_vectorized() -> None:
    out, i, n = Buffer("out", (const(99),), dtype("int32")), loop_var(), size("n")
    given = Buffer("given", (n,), dtype("int8"))
    body = For(i, const(0), n, "serial", Store(out, (i,), i), ragged=True)
    text = compile_function(Function("f", (given, out), (n,), body, (1,)), Target.parse("llvm")).texts["source"]
    assert "llvm.loop.vectorize.enable" in text


@pytest.mark.parametrize(("step", "short", "scalar"), [(32, 32, True), (3, 3, False), (500, 500, False)])
def test_loops_of_short_rows_are_not_vectorized(step: int, short: int, scalar: bool) -> None:
    """LLVM writes a short row out, and would gather and scatter across the rows then."""
    out, i, j = Buffer("out", (const(50000),), dtype("float32")), loop_var("i"), loop_var("j")
    row = For(j, const(0), const(short), "serial", Store(out, (i * step + j,), cast("float32", j)))
    body = For(i, const(0), const(100), "serial", row)
    text = compile_function(Function("f", (out,), (), body, (0,)), Target.parse("llvm")).texts["source"]
    assert ("llvm.loop.vectorize.enable" in text) == scalar
    result = np.zeros(50000, np.float32)
    run(Function("f", (out,), (), body, (0,)), result)
    np.testing.assert_array_equal(result[: 99 * step + short], np.tile(np.arange(step), 100)[: 99 * step + short])


def test_deep_expressions() -> None:
    """A reduction unrolled two thousand times is no deeper for the generator than for the reader."""
    a, out = Buffer("a", (const(2000),), dtype("int32")), Buffer("out", (const(1),), dtype("int32"))
    total = const(0)
    for k in range(2000):
        total = make("add", dtype("int32"), (total, load(a, const(k))))
    result = np.zeros(1, np.int32)
    run(Function("f", (a, out), (), Store(out, (const(0),), total), (1,)), np.arange(2000, dtype=np.int32), result)
    assert result[0] == sum(range(2000))


# -- intermediate buffers -------------------------------------------------------------------------


def summed_rows(rows: Expr, columns: Expr, kind: str, scope: str = "global") -> Function:
    """out[y] = sum over x of 2 * a[y, x], by way of a buffer of one row."""
    a = Buffer("a", (rows, columns), dtype("float32"))
    out = Buffer("out", (rows,), dtype("float32"))
    row = Buffer("row", (columns,), dtype("float32"), scope)
    y, x, z = loop_var("y"), loop_var("x"), loop_var("z")
    zero = Store(out, (y,), const(0.0, "float32"))
    fill = For(x, const(0), columns, "serial", Store(row, (x,), load(a, y * columns + x) + load(a, y * columns + x)))
    add = For(z, const(0), columns, "serial", Store(out, (y,), load(out, y) + load(row, z)))
    body = For(y, const(0), rows, kind, Allocate(row, Seq((zero, fill, add))))
    sizes = tuple(e for e in (rows, columns) if e.op == "var")
    return Function("f", (a, out), sizes, body, (1,))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("kind", ["serial", "parallel"])
@pytest.mark.parametrize("columns", [7, 40000, "w"])
def test_intermediate_buffers(columns: int | str, kind: str, threads: int) -> None:
    """On the stack (7 floats), in the workspace (160 kB, or as many as the argument has)."""
    width = size("w") if columns == "w" else const(columns)
    function = summed_rows(size("h"), width, kind)
    count = 1000 if columns == "w" else int(columns)
    data = np.random.default_rng(5).integers(0, 9, (37, count)).astype(np.float32)
    out = np.zeros(37, np.float32)
    run(function, data, out, threads=threads)
    np.testing.assert_array_equal(out, 2 * data.sum(axis=1))


def workspace_bytes(function: Function, threads: int, **sizes: int) -> int:
    to = Target.parse(f"llvm -threads={threads}")
    kernel = load_kernel(compile_function(function, to), to)
    values = (ctypes.c_int64 * max(len(sizes), 1))(*sizes.values())
    return kernel.workspace_bytes(ctypes.addressof(values), threads)


def test_workspace_bytes() -> None:
    """One copy for serial code, one per thread in a parallel loop, none for what is on the stack."""
    assert workspace_bytes(summed_rows(size("h"), const(7), "parallel"), 4, h=3) == 0
    assert workspace_bytes(summed_rows(size("h"), size("w"), "serial"), 4, h=3, w=100) == 448
    assert workspace_bytes(summed_rows(size("h"), size("w"), "parallel"), 4, h=3, w=100) == 4 * 512
    assert workspace_bytes(summed_rows(size("h"), size("w"), "parallel", "local"), 4, h=3, w=100) == 4 * 512
    fits, too_long = (summed_rows(const(2), const(STACK_BYTES // 4 + extra), "serial") for extra in (0, 1))
    assert workspace_bytes(fits, 1) == 0
    assert workspace_bytes(too_long, 1) == STACK_BYTES + 64


def test_buffers_that_are_never_live_together_share_memory() -> None:
    """Sequential stages use one address; the optimiser must not mix their accesses up."""
    n = size("n")
    out = Buffer("out", (n,), dtype("int32"))
    first, second = (Buffer(name, (n,), dtype("int32")) for name in ("first", "second"))

    def through(buffer: Buffer, value) -> Stmt:
        i, j = loop_var("i"), loop_var("j")
        fill = For(i, const(0), n, "serial", Store(buffer, (i,), value(i)))
        drain = For(j, const(0), n, "serial", Store(out, (j,), load(buffer, n - 1 - j)))
        return Allocate(buffer, Seq((fill, drain)))

    body = Seq((through(first, lambda i: i * 3), through(second, lambda i: load(out, i) + 1)))
    function = Function("f", (out,), (n,), body, (0,))
    result = np.zeros(1000, np.int32)
    run(function, result)
    np.testing.assert_array_equal(result, 3 * np.arange(1000) + 1)
    assert workspace_bytes(function, 1, n=1000) == 4032


def test_nested_buffers_do_not_share_memory() -> None:
    n = size("n")
    out = Buffer("out", (n,), dtype("int32"))
    a, b = (Buffer(name, (n,), dtype("int32")) for name in "ab")
    i = loop_var()
    fill = For(i, const(0), n, "serial", Seq((Store(a, (i,), i), Store(b, (i,), i * 2))))
    add = For(i, const(0), n, "serial", Store(out, (i,), load(a, i) + load(b, i)))
    function = Function("f", (out,), (n,), Allocate(a, Allocate(b, Seq((fill, add)))), (0,))
    result = np.zeros(100, np.int32)
    run(function, result)
    np.testing.assert_array_equal(result, 3 * np.arange(100))
    assert workspace_bytes(function, 1, n=100) == 2 * 448


def test_small_buffers_leave_no_trace_of_memory() -> None:
    """An accumulator tile of constant size becomes registers."""
    n = size("n")
    a, out = Buffer("a", (n,), dtype("float32")), Buffer("out", (const(1),), dtype("float32"))
    acc, i = Buffer("acc", (const(1),), dtype("float32"), "local"), loop_var()
    add = For(i, const(0), n, "serial", Store(acc, (const(0),), load(acc, const(0)) + load(a, i)))
    zero = Store(acc, (const(0),), const(0.0, "float32"))
    body = Allocate(acc, Seq((zero, add, Store(out, (const(0),), load(acc, const(0))))))
    artifact = compile_function(Function("f", (a, out), (n,), body, (1,)), Target.parse("llvm"))
    assert "alloca" in artifact.texts["source"].partition("@f.body")[2].partition("\n}")[0]
    assert "alloca" not in text_of(artifact, "llvm").partition("@f.body")[2].partition("\n}")[0]


# -- parallel loops -------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("count", [1, 2, 3, 64, 1001])
def test_parallel_iterations_run_once(count: int, threads: int) -> None:
    n, i = size("n"), loop_var()
    out = Buffer("out", (n,), dtype("int64"))
    body = For(i, const(0), n, "parallel", Store(out, (i,), load(out, i) + cast("int64", i) + 1))
    result = np.zeros(count, np.int64)
    run(Function("f", (out,), (n,), body, (0,)), result, threads=threads)
    np.testing.assert_array_equal(result, np.arange(count) + 1)


@pytest.mark.parametrize("threads", [1, 3])
def test_nested_and_repeated_parallel_loops(threads: int) -> None:
    """A parallel loop in a serial one starts a team each time; one in a parallel one runs in place."""
    h, w = size("h"), size("w")
    out = Buffer("out", (h, w), dtype("int32"))
    t, y, x = loop_var("t"), loop_var("y"), loop_var("x")
    step = Store(out, (y * w + x,), load(out, y * w + x) + y * 100 + x + t)
    body = For(t, const(0), const(5), "serial", For(y, const(0), h, "parallel", For(x, const(0), w, "parallel", step)))
    result = np.zeros((9, 11), np.int32)
    run(Function("f", (out,), (h, w), body, (0,)), result, threads=threads)
    expected = 5 * (100 * np.arange(9)[:, None] + np.arange(11)) + 10
    np.testing.assert_array_equal(result, expected)


def test_parallel_body_sees_what_is_around_it() -> None:
    """Scalars, vectors, conditions, stack and workspace buffers from outside reach every thread."""
    n = size("n")
    a, out = Buffer("a", (n,), dtype("float32")), Buffer("out", (n,), dtype("float32"))
    table = Buffer("table", (const(4),), dtype("float32"), "local")
    copy = Buffer("copy", (n,), dtype("float32"))
    i, j, k = loop_var("i"), loop_var("j"), loop_var("k")
    scale, flag = var("scale", "float32", role="let"), var("flag", "bool", role="let")
    wide = make("var", dtype("float32x4"), (), var("wide", role="let").value)
    four = var("four", role="let")
    inner = Seq(
        (
            Store(out, (ramp(i * four, 1, 4),), wide * load(copy, ramp(i * 4, 1, 4))),
            Store(out, (i * 4,), select(flag, load(out, i * 4) + scale + load(table, const(2)), const(0.0, "float32"))),
        )
    )
    loops = Seq(
        (
            For(j, const(0), const(4), "serial", Store(table, (j,), cast("float32", j) * const(10.0, "float32"))),
            For(k, const(0), n, "serial", Store(copy, (k,), load(a, k))),
            For(i, const(0), floordiv(n, 4), "parallel", inner),
        )
    )
    lets = Let(
        four, const(4), Let(wide, load(a, ramp(0, 1, 4)), Let(flag, load(a, const(1)) > const(0.0, "float32"), loops))
    )
    body = Let(scale, load(a, const(2)), Allocate(table, Allocate(copy, lets)))
    data = np.random.default_rng(0).random(400).astype(np.float32) + 1
    result = np.zeros(400, np.float32)
    run(Function("f", (a, out), (n,), body, (1,)), data, result, threads=3)
    expected = np.tile(data[:4], 100) * data
    expected[::4] += data[2] + np.float32(20)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_gpu_statements_are_refused() -> None:
    with pytest.raises(BuildError, match="Barrier"):
        compile_function(Function("f", (), (), Barrier(), ()), Target.parse("llvm"))


def _chosen_update(of: str, n: int, value: Callable[[Buffer, Expr], Expr], asks: str = "flag") -> Function:
    """R[place[k]] += a value where flag[k] is 1 and the place is in R; or where it only has to be in R."""
    flag, place, far = (Buffer(name, (const(n),), INT32) for name in ("flag", "place", "far"))
    x, result = Buffer("x", (const(n),), dtype(of)), Buffer("result", (const(n),), dtype(of))
    k = var("k", role="loop")
    at = cast("int64", load(place, k) - 1)
    inside = logical_and(compare("ge", at, 0), compare("le", at, n - 1))
    asked = logical_and(compare("eq", load(flag, k), 1), inside) if asks == "flag" else inside
    update = Store(result, (at,), load(result, at) + value(x, cast("int64", load(far, k))))
    return Function(
        "chosen", (flag, place, far, x, result), (), For(k, const(0), const(n), "serial", If(asked, update)), (4,)
    )


@pytest.mark.parametrize("of", ["float32", "int8", "float64", "bfloat16"])
def test_updates_that_data_choose_are_done_without_jumps(of: str) -> None:
    """What is not chosen may lie anywhere: it is not touched, neither where it is stored nor where it is read."""
    n = 200
    rng = np.random.default_rng(0)
    flag = rng.integers(0, 2, n).astype("int32")
    place = np.where(flag == 1, rng.integers(-3, n + 4, n), rng.choice([-(2**31), 2**31 - 1, 5], n)).astype("int32")
    far = np.where(flag == 1, rng.integers(0, n, n), 2**31 - 1).astype("int32")
    x = rng.integers(0, 5, n).astype(dtype(of).numpy)
    function = _chosen_update(of, n, load)
    found = np.zeros(n, dtype(of).numpy)
    run(function, flag, place, far, x, found)
    wanted = np.zeros(n)
    chosen = (flag == 1) & (place >= 1) & (place <= n)
    np.add.at(wanted, place[chosen] - 1, x[far[chosen]].astype("float64"))
    np.testing.assert_array_equal(found.astype("float64"), wanted)
    assert "!unpredictable" in compile_function(function, Target.parse("llvm")).texts["source"]


def test_updates_whose_place_alone_is_asked_for_may_jump() -> None:
    """Most are in the tensor, and a jump that is foreseen costs nothing; neither are long updates done for nothing."""
    for function in (
        _chosen_update("float32", 50, load, asks="place"),
        _chosen_update("float32", 50, lambda x, i: make("exp", x.dtype, (load(x, i),))),
    ):
        assert "!unpredictable" not in compile_function(function, Target.parse("llvm")).texts["source"]
