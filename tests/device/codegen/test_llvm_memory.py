"""Vector loads and stores of every shape, masks, and conditional loads, against NumPy."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autosched import te
from autosched.codegen import compile_function, text_of
from autosched.errors import BuildError
from autosched.ir.dtype import SCALAR_DTYPES, dtype
from autosched.ir.expr import (
    OPS,
    Expr,
    broadcast,
    cast,
    const,
    if_then_else,
    logical_and,
    logical_or,
    make,
    ramp,
    select,
    var,
)
from autosched.ir.stmt import Allocate, Buffer, For, Function, If, Let, Seq, Stmt, Store, load
from autosched.lowering import lower_structure
from autosched.runtime import load as load_kernel
from autosched.schedule import create_schedule
from autosched.target import Target

LANES = [1, 2, 3, 8, 17, 32, 96]


def run(function: Function, *arrays: np.ndarray, target: str = "llvm -threads=1") -> None:
    to = Target.parse(target)
    load_kernel(compile_function(function, to), to).bind(arrays).run()


def buffer(name: str, count: int, of: str) -> Buffer:
    return Buffer(name, (const(count),), dtype(of))


def numbers(count: int, of: str) -> np.ndarray:
    values = np.random.default_rng(1).integers(0, 100, count)
    return values % 2 == 1 if of == "bool" else values.astype(of)


def copy_with(index_in: Expr, index_out: Expr, of: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    """out[index_out] = in[index_in]; returns (in, out)."""
    source, result = buffer("source", size, of), buffer("result", size, of)
    a, out = numbers(size, of), np.zeros(size, of)
    run(Function("f", (source, result), (), Store(result, (index_out,), load(source, index_in)), (1,)), a, out)
    return a, out


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("stride", [-7, -4, -3, -1, 0, 1, 2, 3, 4, 5])
def test_strided_loads(stride: int, lanes: int) -> None:
    """Equally spaced lanes, forwards and backwards; the first and the last touch the buffer's ends."""
    size = abs(stride) * (lanes - 1) + lanes
    first = 0 if stride >= 0 else -stride * (lanes - 1)
    for of in ("uint8", "float32"):
        a, out = copy_with(ramp(first, stride, lanes), ramp(0, 1, lanes), of, size)
        np.testing.assert_array_equal(out[:lanes], a[first + stride * np.arange(lanes)])


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("stride", [-4, -1, 0, 1, 2, 3, 5])
def test_strided_stores(stride: int, lanes: int) -> None:
    """Elements between the lanes stay; of lanes at one place the last one stays."""
    size = abs(stride) * (lanes - 1) + lanes
    first = 0 if stride >= 0 else -stride * (lanes - 1)
    for of in ("int16", "float64"):
        a, out = copy_with(ramp(0, 1, lanes), ramp(first, stride, lanes), of, size)
        expected = np.zeros(size, of)
        expected[first + stride * np.arange(lanes)] = a[:lanes]
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_each_type_in_memory(of: str) -> None:
    """Contiguous, strided, gathered and scattered in every element type."""
    lanes = np.arange(16)
    forward = ramp(0, 1, 16)
    for at, where in (
        (forward, lanes),
        (ramp(0, 2, 16), 2 * lanes),
        (ramp(0, 6, 16), 6 * lanes),
        (forward * forward, lanes**2),
    ):
        a, out = copy_with(at, forward, of, 256)
        np.testing.assert_array_equal(out[:16], a[where])
        a, out = copy_with(forward, at, of, 256)
        np.testing.assert_array_equal(out[where], a[:16])


def test_any_nonzero_byte_is_true() -> None:
    source, result = buffer("source", 16, "bool"), buffer("result", 16, "bool")
    a = np.arange(16, dtype=np.uint8) * 17
    out = np.zeros(16, np.uint8)
    at = ramp(0, 1, 16)
    run(Function("f", (source, result), (), Store(result, (at,), load(source, at)), (1,)), a.view(bool), out.view(bool))
    np.testing.assert_array_equal(out, a != 0)


def test_spacing_is_found_through_arithmetic() -> None:
    """A vector index need not be written as one ramp to be a contiguous access."""
    source, result = buffer("source", 256, "float32"), buffer("result", 256, "float32")
    i = var("i", role="loop")
    scattered = broadcast(i * 4, 8) + ramp(const(0), const(1), 8) * broadcast(const(2), 8) - ramp(i, 1, 8)
    body = For(i, const(0), const(8), "serial", Store(result, (ramp(i * 8, 1, 8),), load(source, scattered)))
    function = Function("f", (source, result), (), body, (1,))
    text = compile_function(function, Target.parse("llvm")).texts["source"]
    assert "load <8 x float>" in text
    assert "insertelement" not in text
    a, out = numbers(256, "float32"), np.zeros(256, "float32")
    run(function, a, out)
    np.testing.assert_array_equal(out[:64], [a[3 * i + k] for i in range(8) for k in range(8)])


@pytest.mark.parametrize("lanes", [8, 32])
@pytest.mark.parametrize("divide", ["floordiv", "truncdiv"])
def test_lanes_that_read_one_element(divide: str, lanes: int) -> None:
    """Each register's worth of lanes divides to one number: an element is repeated, not shuffled out of a vector."""
    whole = ramp(const(0), const(1), lanes)
    index = make(divide, whole.dtype, (whole, broadcast(const(16), lanes)))
    a, out = copy_with(index, whole, "float32", 64)
    np.testing.assert_array_equal(out[:lanes], a[np.arange(lanes) // 16])


def test_gather_by_loaded_indices() -> None:
    """A look-up table: the index is a value that was read."""
    table, index, result = (
        buffer("table", 256, "float32"),
        buffer("index", 64, "uint8"),
        buffer("result", 64, "float32"),
    )
    i = var("i", role="loop")
    at = ramp(i * 16, 1, 16)
    body = For(i, const(0), const(4), "serial", Store(result, (at,), load(table, load(index, at))))
    t = np.random.default_rng(2).random(256, np.float32)
    positions = np.random.default_rng(3).integers(0, 256, 64).astype(np.uint8)
    out = np.zeros(64, np.float32)
    run(Function("f", (table, index, result), (), body, (2,)), t, positions, out)
    np.testing.assert_array_equal(out, t[positions])


def test_scatter_keeps_lane_order() -> None:
    values, index, result = buffer("values", 8, "int32"), buffer("index", 8, "int32"), buffer("result", 8, "int32")
    at = ramp(0, 1, 8)
    body = Store(result, (load(index, at),), load(values, at))
    out = np.zeros(8, np.int32)
    run(
        Function("f", (values, index, result), (), body, (2,)), np.arange(8, dtype="int32"), np.full(8, 3, "int32"), out
    )
    np.testing.assert_array_equal(out, [0, 0, 0, 7, 0, 0, 0, 0])


@pytest.mark.parametrize("of", ["bool", "uint8", "int32", "float16", "float32", "float64"])
@pytest.mark.parametrize("stride", [1, 3])
def test_masked_statements(of: str, stride: int) -> None:
    """Under a vector condition each lane loads and stores for itself."""
    a, b, flag = buffer("a", 64, of), buffer("b", 64, of), buffer("flag", 16, "bool")
    lanes, at = ramp(0, 1, 16), ramp(0, stride, 16)
    chosen = load(flag, lanes)
    body = If(chosen, Store(b, (at,), load(a, at)), Store(b, (at,), load(a, at + 1)))
    x, out = numbers(64, of), np.zeros(64, of)
    mask = np.arange(16) % 3 == 0
    run(Function("f", (a, flag, b), (), body, (2,)), x, mask, out)
    where = stride * np.arange(16)
    np.testing.assert_array_equal(out[where], np.where(mask, x[where], x[where + 1]))


def test_masked_scalar_store_runs_if_any_lane_does() -> None:
    flag, out = buffer("flag", 8, "bool"), buffer("out", 2, "int32")
    condition = load(flag, ramp(0, 1, 8))
    body = If(condition, Store(out, (const(0),), const(7)), Store(out, (const(1),), const(9)))
    for lit, expected in ((0, [0, 9]), (3, [7, 9]), (8, [7, 0])):
        result = np.zeros(2, np.int32)
        run(Function("f", (flag, out), (), body, (1,)), np.arange(8) < lit, result)
        np.testing.assert_array_equal(result, expected)


GUARDED = Path(__file__).with_name("llvm_guard_pages.py")


def test_untaken_loads_do_not_run() -> None:
    """Buffers end at an unmapped page: a load that should not run ends the (child) process."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, str(GUARDED)], capture_output=True, text=True, timeout=60, check=False, env=environment
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.stdout.split() == [
        "scalar",
        "vector",
        "gather",
        "and",
        "or",
        "nested",
        "shared",
        "masked",
        "strided",
        "extended",
        "looked_up",
    ]


@pytest.mark.parametrize("stride", [1, 3, 20])
@pytest.mark.parametrize("room", [0, -1])
def test_lanes_that_are_surely_there_are_read_for_all(stride: int, room: int) -> None:
    """A mask would keep LLVM from reading them once before a loop; it stays where the last lane may lie outside."""
    n = 15 * stride + 1 + room
    chosen, a, out = buffer("chosen", 16, "int32"), buffer("a", n, "int32"), buffer("out", 16, "int32")
    lane = ramp(const(0), 1, 16)
    condition = make("ne", dtype("bool").with_lanes(16), (load(chosen, lane), broadcast(const(0), 16)))
    value = if_then_else(condition, load(a, ramp(const(0), stride, 16)), broadcast(const(7), 16))
    f = Function("f", (chosen, a, out), (), Store(out, (lane,), value), (2,))
    text = text_of(compile_function(f, Target.parse("llvm")), "llvm")
    assert ("llvm.masked" in text) == (room < 0)
    x, wanted = numbers(n, "int32"), np.full(16, 7, "int32")
    holds = np.arange(16, dtype="int32") % 3 * (np.arange(16) < 15)
    wanted[holds != 0] = x[: 15 * stride : stride][:15][holds[:15] != 0]
    got = np.zeros(16, "int32")
    run(f, holds.astype("int32"), x, got)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("before", "after", "masked"), [(-1, 1, False), (0, 0, False), (1, 2, True), (-2, -1, True)])
def test_what_lies_between_what_was_read_is_read_for_all(before: int, after: int, masked: bool) -> None:
    """Of an array whose length is not known: neighbours on both sides of it are there, so it is."""
    n = var("n", role="size")
    a, out = Buffer("a", (n,), dtype("int32")), buffer("out", 8, "int32")

    def line(by: int) -> Expr:
        return load(a, ramp(n - 12 + by, 1, 8))

    condition = line(before) + line(after) > 20
    f = Function("f", (a, out), (n,), Store(out, (ramp(0, 1, 8),), if_then_else(condition, line(0), 7)), (1,))
    text = text_of(compile_function(f, Target.parse("llvm")), "llvm")
    assert ("llvm.masked" in text) == masked
    x = np.arange(30, dtype="int32") % 13
    got = np.zeros(8, "int32")
    run(f, x, got)
    sums = x[18 + before :][:8] + x[18 + after :][:8]
    np.testing.assert_array_equal(got, np.where(sums > 20, x[18:26], 7))


@pytest.mark.parametrize("of", ["uint8", "int16", "float32"])
@pytest.mark.parametrize("known", [True, False])
def test_lanes_of_a_border_are_read_for_all(of: str, known: bool) -> None:
    """A border's lanes are shuffled out of whole vectors, also where a condition chooses some of them: each would be a
    question and a load. Of an array whose length is not known, they are there if their neighbours were read."""
    n, lanes = 40 if known else var("n", role="size"), 16
    a, out = Buffer("a", (const(n) if known else n,), dtype(of)), buffer("out", lanes, of)
    at = ramp(const(0, "int64"), 1, lanes)
    zero = broadcast(const(0, "int64"), lanes)
    border = load(a, make("max", at.dtype, (at - broadcast(const(1, "int64"), lanes), zero)))
    condition = load(a, at) > broadcast(const(20, of), lanes)
    f = Function("f", (a, out), () if known else (n,), Store(out, (at,), if_then_else(condition, border, 7)), (1,))
    assert "llvm.masked" not in text_of(compile_function(f, Target.parse("llvm")), "llvm")
    x, got = numbers(40, of), np.zeros(lanes, of)
    run(f, x, got)
    np.testing.assert_array_equal(got, np.where(x[:lanes] > 20, x[np.maximum(np.arange(lanes) - 1, 0)], 7))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names of x86 CPUs")
@pytest.mark.parametrize("of", ["uint8", "bool", "int16", "float16", "int32"])
@pytest.mark.parametrize("stride", [1, -1])
def test_narrow_elements_under_a_mask_are_read_whole_inside_their_buffer(of: str, stride: int) -> None:
    """AVX2 has masked loads of 4 and 8 bytes only; where a vector leaves the buffer, each lane is asked."""
    n, lanes, count = 40, 16, 3
    a, out, j = buffer("a", n, of), buffer("out", count * lanes, of), var("j", role="loop")
    place = ramp(j * lanes if stride > 0 else n - 1 - j * lanes, stride, lanes)
    there = (place < broadcast(const(n), lanes)) & (place >= broadcast(const(0), lanes))
    value = if_then_else(there, load(a, place), broadcast(const(1, of), lanes))
    f = Function(
        "f",
        (a, out),
        (),
        For(j, const(0), const(count), "serial", Store(out, (ramp(j * lanes, 1, lanes),), value)),
        (1,),
    )
    target = "llvm -threads=1 -mcpu=haswell"
    text = compile_function(f, Target.parse(target)).texts["source"]
    assert ("else:" in text) == (of != "int32")
    x, got = numbers(n, of), np.zeros(count * lanes, of)
    run(f, x, got, target=target)
    wanted = np.ones(count * lanes, of)
    wanted[:n] = x[::stride]
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("of", ["uint8", "int16", "float32"])
@pytest.mark.parametrize(("channels", "read"), [(3, (0, 1, 2)), (4, (2, 0, 3, 1)), (3, (0, 2)), (4, (1, 2, 3, 5))])
def test_the_channels_of_pixels_are_read_together(of: str, channels: int, read: tuple[int, ...]) -> None:
    """In one load of just what they are; not where a channel is missing, for which memory need not be there."""
    n, lanes = channels * 16 + 2, 16
    a, out = buffer("a", n, of), buffer("out", lanes, of)
    at = [load(a, ramp(const(k), channels, lanes)) for k in read]
    total = at[0] * 1
    for k, x in enumerate(at[1:], start=2):
        total = total + x * k
    f = Function("f", (a, out), (), Store(out, (ramp(0, 1, lanes),), total), (1,))
    whole = sorted(read) == list(range(channels))
    kind = {"uint8": "i8", "int16": "i16", "float32": "float"}[of]
    text = compile_function(f, Target.parse("llvm")).texts["source"]
    assert (text.count(f"load <{channels * lanes} x {kind}>") == 1) == whole
    x = (np.arange(n) % 7).astype(of)
    got = np.zeros(lanes, of)
    run(f, x, got)
    wanted = sum((x[k::channels][:lanes] * (i + 1) for i, k in enumerate(read)), np.zeros(lanes, of))
    np.testing.assert_array_equal(got, wanted.astype(of))


def test_channels_that_a_condition_guards_are_not_read_together() -> None:
    a, out = buffer("a", 47, "uint8"), buffer("out", 16, "uint8")
    red, green, blue = (load(a, ramp(const(k), 3, 16)) for k in range(3))
    value = red + green + if_then_else(ramp(0, 1, 16) < 15, blue, cast("uint8", 0))
    f = Function("f", (a, out), (), Store(out, (ramp(0, 1, 16),), value), (1,))
    assert "load <48 x i8>" not in compile_function(f, Target.parse("llvm")).texts["source"]
    x, got = numbers(47, "uint8"), np.zeros(16, "uint8")
    run(f, x, got)
    wanted = x[0:45:3] + x[1:45:3] + x[2:45:3]
    np.testing.assert_array_equal(got[:15], wanted)


@pytest.mark.parametrize("connective", [logical_and, logical_or])
def test_short_circuit_value(connective) -> None:
    """The shortcut changes no result."""
    a, b, out = buffer("a", 32, "bool"), buffer("b", 32, "bool"), buffer("out", 64, "bool")
    i = var("i", role="loop")
    at = ramp(0, 1, 32)

    def scalar(i: Expr) -> Stmt:
        return Store(out, (i,), connective(load(a, i), load(b, i)))

    body = Seq(
        (For(i, const(0), const(32), "serial", scalar(i)), Store(out, (at + 32,), connective(load(a, at), load(b, at))))
    )
    x, y = np.arange(32) % 2 == 0, np.arange(32) % 3 == 0
    result = np.zeros(64, bool)
    run(Function("f", (a, b, out), (), body, (2,)), x, y, result)
    expected = x & y if connective is logical_and else x | y
    np.testing.assert_array_equal(result, [*expected, *expected])


def test_mixed_widths_stay_in_vectors() -> None:
    """uint8 -> uint16 sums -> uint8: one extension and one truncation per vector, no scalars."""
    a, b = buffer("a", 1026, "uint8"), buffer("b", 1024, "uint8")
    i = var("i", role="loop")
    at = ramp(i * 32, 1, 32)
    wide = [cast("uint16", load(a, at + k)) for k in range(3)]
    body = For(i, const(0), const(32), "serial", Store(b, (at,), cast("uint8", (wide[0] + wide[1] + wide[2]) // 3)))
    function = Function("f", (a, b), (), body, (1,))
    artifact = compile_function(function, Target.parse("llvm"))
    body_text = text_of(artifact, "llvm").partition("define internal void @f.body")[2].partition("\n}")[0]
    assert "extractelement" not in body_text
    assert "insertelement" not in body_text
    x, out = numbers(1026, "uint8") * 2, np.zeros(1024, np.uint8)
    run(function, x, out)
    np.testing.assert_array_equal(out, (x[:-2].astype("u2") + x[1:-1] + x[2:]) // 3)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda a, b: Store(b, (const(0), const(0)), load(a, const(0))), "flatten the buffers"),
        (lambda a, b: Store(b, (const(0),), load(a, const(0), const(1))), "flatten the buffers"),
        (lambda a, b: Store(b, (const(0),), const(1)), "cast it to float32"),
        (lambda a, b: Store(b, (const(0),), load(a, ramp(0, 1, 4))), "as many lanes"),
        (lambda a, b: Store(b, (var("n"),), load(a, const(0))), "'n' has no value"),
        (lambda a, b: Store(b, (const(0),), load(Buffer("c", (), a.dtype), const(0))), "c has no memory"),
        (lambda a, b: Store(b, (const(0),), make("read", a.dtype, (const(0),), a)), "'read'"),
        (lambda a, b: For(var("i"), const(0), const(4), "vectorize", Seq(())), "'vectorize'"),
    ],
)
def test_what_has_no_code_is_refused(body, words: str) -> None:
    a, b = buffer("a", 4, "float32"), buffer("b", 4, "float32")
    with pytest.raises(BuildError, match=words):
        compile_function(Function("f", (a, b), (), body(a, b), (1,)), Target.parse("llvm"))


def test_if_then_else_without_loads_is_a_select() -> None:
    a, b = buffer("a", 8, "float32"), buffer("b", 8, "float32")
    at = ramp(0, 1, 8)
    x = load(a, at)
    condition = x > const(0.0, "float32")
    value = if_then_else(condition, broadcast(const(1.0, "float32"), 8), broadcast(const(2.0, "float32"), 8))
    text = compile_function(Function("f", (a, b), (), Store(b, (at,), value), (1,)), Target.parse("llvm")).texts[
        "source"
    ]
    assert "masked" not in text
    assert "select <8 x i1>" in text


def test_what_was_loaded_for_all_lanes_is_not_loaded_for_some() -> None:
    """Nor does a lane ask whether it needs what lies within its buffer anyway."""
    a, b, limit, out = (buffer(name, n, "int32") for name, n in (("a", 8), ("b", 8), ("limit", 4), ("out", 8)))
    at = ramp(0, 1, 8)
    x, y = load(a, at), load(b, at)
    shared = broadcast(load(limit, const(2)), 8)
    value = select(logical_and(x > y, logical_and(x + y > 3, x > shared)), x, y)
    function = Function("f", (a, b, limit, out), (), Store(out, (at,), value), (3,))
    text = compile_function(function, Target.parse("llvm")).texts["source"]
    assert "masked" not in text
    assert "needed" not in text
    result, v, w = np.zeros(8, "int32"), np.array([0, 1, 2, 3, 4, 5, 6, 7], "int32"), np.full(8, 1, "int32")
    run(function, v, w, np.full(4, 4, "int32"), result)
    np.testing.assert_array_equal(result, np.where((v > 1) & (v + 1 > 3) & (v > 4), v, w))


# -- several stores at once -----------------------------------------------------------------------


def channels(order: tuple[int, ...], of: str, lanes: int = 16) -> tuple[Function, int]:
    """out[n * i + c] = planes[c][i] for each of n channels, stored in the given order."""
    n, count = len(order), 2 * lanes
    planes = [buffer(f"plane{c}", count, of) for c in range(n)]
    out, i = buffer("out", n * count, of), var("i", role="loop")

    def store(c: int) -> Stmt:
        return Store(out, (ramp(i * (n * lanes) + c, n, lanes),), load(planes[c], ramp(i * lanes, 1, lanes)))

    body = For(i, const(0), const(2), "serial", Seq(tuple(store(c) for c in order)))
    return Function("f", (*planes, out), (), body, (n,)), count


@pytest.mark.parametrize("of", ["bool", "uint8", "float32"])
@pytest.mark.parametrize("order", [(0, 1), (0, 1, 2), (2, 0, 1), (3, 1, 0, 2), (0, 1, 2, 3, 4)])
def test_interleaved_stores(order: tuple[int, ...], of: str) -> None:
    """The channels of a pixel leave as one vector, in whatever order they are written."""
    function, count = channels(order, of)
    planes = [np.roll(numbers(count, of), c) for c in range(len(order))]
    out = np.zeros(len(order) * count, of)
    run(function, *planes, out)
    np.testing.assert_array_equal(out, np.stack(planes, axis=1).ravel())
    together = len(order) <= 4
    text = compile_function(function, Target.parse("llvm")).texts["source"]
    assert text.count("extractelement") == (0 if together else 16 * 5)


@pytest.mark.parametrize(
    "change",
    [
        lambda out, i: Store(out, (ramp(i * 32 + 2, 2, 16),), load(out, ramp(i * 32, 1, 16))),
        lambda out, i: Store(out, (ramp(i * 32, 2, 16),), load(out, ramp(0, 1, 16))),
        lambda out, i: Store(out, (ramp(i * 32 + 1, 3, 16),), load(out, ramp(0, 1, 16))),
        lambda out, i: Store(out, (ramp(i * 32 + 1, 2, 8),), load(out, ramp(0, 1, 8))),
        lambda out, i: Store(out, (i,), load(out, i)),
        lambda out, i: Seq(()),
    ],
)
def test_stores_that_do_not_fill_a_stretch_stay_apart(change) -> None:
    """Other places, other strides, other lanes, or a value that reads what was just stored."""
    a, out, i = buffer("a", 64, "int32"), buffer("out", 96, "int32"), var("i", role="loop")
    first = Store(out, (ramp(i * 32, 2, 16),), load(a, ramp(i * 16, 1, 16)))
    body = For(i, const(0), const(2), "serial", Seq((first, change(out, i))))
    data, result = np.arange(64, dtype=np.int32) + 1, np.zeros(96, np.int32)
    run(Function("f", (a, out), (), body, (1,)), data, result)
    expected = interpreted(body, {a: data, out: np.zeros(96, np.int32)})[out]
    np.testing.assert_array_equal(result, expected)


def interpreted(loop: For, memory: dict[Buffer, np.ndarray]) -> dict[Buffer, np.ndarray]:
    """The loop above, one statement at a time, each lane by lane."""

    def lanes(e: Expr, i: int) -> np.ndarray:
        match e.op:
            case "const":
                return np.array([e.value])
            case "var":
                return np.array([i])
            case "ramp":
                return lanes(e.args[0], i) + lanes(e.args[1], i) * np.arange(e.dtype.lanes)
            case "add":
                return lanes(e.args[0], i) + lanes(e.args[1], i)
            case "mul":
                return lanes(e.args[0], i) * lanes(e.args[1], i)
            case "load":
                return memory[e.value][lanes(e.args[0], i)]
        raise AssertionError(e.op)

    for i in range(int(loop.extent.value)):
        assert isinstance(loop.body, Seq)
        for s in loop.body.stmts:
            if isinstance(s, Store):
                memory[s.buffer][lanes(s.indices[0], i)] = lanes(s.value, i)
    return memory


# -- columns --------------------------------------------------------------------------------------


def transposing(rows: int, columns: int, of: str, pad: int = 3) -> tuple[Function, int]:
    """out[c, r] = in[r, c] + c for a block of rows x columns, each row followed by `pad` elements."""
    width = columns + pad
    source, out = buffer("source", rows * width - pad, of), buffer("out", rows * columns, of)
    stores = [
        Store(out, (ramp(const(c * rows), 1, rows),), load(source, ramp(const(c), width, rows)) + const(c, of))
        for c in range(columns)
    ]
    return Function("f", (source, out), (), Seq(tuple(stores)), (1,)), rows * width - pad


@pytest.mark.parametrize("of", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 4), (8, 8), (16, 16), (14, 32), (7, 16), (16, 5), (6, 11), (33, 16), (5, 100)])
def test_columns_are_read_as_rows(shape: tuple[int, int], of: str) -> None:
    """Neighbouring columns come from one wide load for each row, and no lane is taken out alone."""
    rows, columns = shape
    function, count = transposing(rows, columns, of)
    a, out = numbers(count, of), np.zeros(rows * columns, of)
    run(function, a, out)
    padded = np.resize(a, rows * (columns + 3)).reshape(rows, columns + 3)
    expected = padded[:, :columns].T + np.arange(columns).astype(of)[:, None]
    np.testing.assert_array_equal(out.reshape(columns, rows), expected)
    text = compile_function(function, Target.parse("llvm")).texts["source"]
    at_once = 64 // dtype(of).bytes
    left = columns % at_once if columns % at_once < 4 else 0
    assert text.count("insertelement") == left * rows
    blocks = -(-(columns - left) // at_once)
    reads = [line for line in text.splitlines() if " = load " in line and "alias.scope" in line]
    assert len(reads) == rows * (blocks + left)


def test_rows_as_long_as_calls_tell_are_read_as_rows() -> None:
    """The distance of lanes is no number, and may be less than there are columns: of none and of one, too."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="x")
    y = te.compute((m, n), lambda j, i: x[i, j] * 2.0, name="y")
    s = create_schedule(y)
    j, i = s[y].loops
    (jo, ji), (io, ii) = s[y].split(j, factor=8), s[y].split(i, factor=16)
    s[y].reorder(jo, io, ji, ii)
    s[y].unroll(ji)
    s[y].vectorize(ii)
    kernel = compile_function(lower_structure(s, [x, y], "llvm").bind(), Target.parse("llvm"))
    assert kernel.texts["source"].count("load <8 x float>") == 16
    for rows, columns in ((0, 3), (3, 0), (16, 1), (16, 7), (16, 8), (17, 9), (40, 23)):
        a = numbers(rows * columns, "float32").reshape(rows, columns)
        out = np.zeros((columns, rows), np.float32)
        load_kernel(kernel, Target.parse("llvm")).bind((a, out)).run()
        np.testing.assert_array_equal(out, a.T * 2)


@pytest.mark.parametrize("channels", [3, 4])
def test_channels_that_several_stores_read_are_loaded_once(channels: int) -> None:
    """Pixels to planes: the channels of all lanes are one load."""
    a, out = buffer("a", 16 * channels, "uint8"), buffer("out", 16 * channels, "uint8")
    stores = [
        Store(out, (ramp(const(16 * c), 1, 16),), load(a, ramp(const(c), channels, 16)) + const(c, "uint8"))
        for c in range(channels)
    ]
    function = Function("f", (a, out), (), Seq(tuple(stores)), (1,))
    x, planes = np.arange(16 * channels, dtype=np.uint8), np.zeros(16 * channels, np.uint8)
    run(function, x, planes)
    np.testing.assert_array_equal(
        planes.reshape(channels, 16), x.reshape(16, channels).T + np.arange(channels)[:, None]
    )
    text = compile_function(function, Target.parse("llvm")).texts["source"]
    assert text.count(" = load <") == 1 and "insertelement" not in text


@pytest.mark.parametrize("columns", [5, 8, 11])
def test_short_rows_that_one_store_reads_are_columns(columns: int) -> None:
    """Sums of short rows, of which each lane has one."""
    a, out = buffer("a", 16 * columns, "float32"), buffer("out", 16, "float32")
    total = load(a, ramp(const(0), columns, 16))
    for c in range(1, columns):
        total = total + load(a, ramp(const(c), columns, 16))
    function = Function("f", (a, out), (), Store(out, (ramp(const(0), 1, 16),), total), (1,))
    x, sums = np.arange(16 * columns, dtype=np.float32) % 7, np.zeros(16, np.float32)
    run(function, x, sums)
    np.testing.assert_array_equal(sums, x.reshape(16, columns).sum(axis=1))
    assert "insertelement" not in compile_function(function, Target.parse("llvm")).texts["source"]


@pytest.mark.parametrize("order", [range(8), (0, 4, 2, 6, 1, 5, 3, 7), (7, 6, 5, 4, 3, 2, 1, 0)], ids=str)
def test_columns_in_any_order_and_of_two_buffers(order) -> None:
    """Real and imaginary parts are stored in turns, and bits of an index may be read backwards."""
    a, b, re, im = (buffer(name, 8 * 20, "int32") for name in ("a", "b", "re", "im"))
    stores = []
    for place, c in enumerate(order):
        at, first, second = (ramp(const(place * 8), 1, 8), *(load(x, ramp(const(c), 20, 8)) for x in (a, b)))
        stores += [Store(re, (at,), first - second), Store(im, (at,), first + second)]
    function = Function("f", (a, b, re, im), (), Seq(tuple(stores)), (2, 3))
    x, y = np.arange(160, dtype=np.int32), np.arange(160, dtype=np.int32)[::-1] * 3
    one, other = np.zeros(160, np.int32), np.zeros(160, np.int32)
    run(function, x, np.ascontiguousarray(y), one, other)
    left, right = (z.reshape(8, 20).T[list(order)].ravel() for z in (x, y))
    np.testing.assert_array_equal(one[:64], left - right)
    np.testing.assert_array_equal(other[:64], left + right)
    assert "insertelement" not in compile_function(function, Target.parse("llvm")).texts["source"]


@pytest.mark.parametrize(
    "change",
    [
        lambda a, out, c: Store(out, (ramp(const(c * 8), 1, 8),), load(a, ramp(const(2 * c), 20, 8))),
        lambda a, out, c: Store(out, (ramp(const(c * 8), 1, 8),), load(a, ramp(const(c), 19 + c % 2, 8))),
        lambda a, out, c: Store(out, (ramp(const(c * 8), 1, 8),), load(out, ramp(const(c), 20, 8))),
        lambda a, out, c: Store(a, (ramp(const(c * 8), 1, 8),), load(a, ramp(const(c), 20, 8))),
        lambda a, out, c: Store(out, (ramp(const(160 - c * 8), 1, 8),), load(a, ramp(const(15 - c), 20, 8))),
        lambda a, out, c: Store(out, (const(c),), load(a, const(c))),
    ],
)
def test_columns_that_are_no_neighbours_stay_apart(change) -> None:
    """Every second column, other strides, a buffer that is read and written, scalars."""
    a, out, once = buffer("a", 200, "int32"), buffer("out", 200, "int32"), var("once", role="loop")
    body = For(once, const(0), const(1), "serial", Seq(tuple(change(a, out, c) for c in range(8))))
    data, result = np.arange(200, dtype=np.int32) + 1, np.zeros(200, np.int32)
    expected = interpreted(body, {a: data.copy(), out: result.copy()})
    run(Function("f", (a, out), (), body, (0, 1)), data, result)
    np.testing.assert_array_equal(data, expected[a])
    np.testing.assert_array_equal(result, expected[out])


def test_rows_behind_a_condition_are_not_read() -> None:
    """Columns that are read on demand may not exist: no wide load touches them."""
    a, out = buffer("a", 8 * 20, "int32"), buffer("out", 64, "int32")
    n = var("n", role="size")
    stores = [
        Store(
            out,
            (ramp(const(c * 8), 1, 8),),
            if_then_else(
                broadcast(make("lt", dtype("bool"), (const(c), n)), 8),
                load(a, ramp(const(c), 20, 8)),
                broadcast(const(-1), 8),
            ),
        )
        for c in range(8)
    ]
    text = compile_function(Function("f", (a, out), (n,), Seq(tuple(stores)), (1,)), Target.parse("llvm")).texts[
        "source"
    ]
    assert "load <8 x i32>" not in text


# -- parts of registers ---------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("lanes", [5, 7, 12, 14, 16, 17, 28, 47])
def test_a_store_of_part_of_a_register_leaves_the_rest_alone(lanes: int, of: str) -> None:
    size = 3 * lanes
    a, out = copy_with(ramp(const(0), 1, lanes), ramp(const(lanes), 1, lanes), of, size)
    np.testing.assert_array_equal(out, np.concatenate([np.zeros(lanes, of), a[:lanes], np.zeros(lanes, of)]))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names of x86 processors")
@pytest.mark.parametrize(
    ("cpu", "lanes", "of", "masked"),
    [
        ("skylake-avx512", 14, "float32", "v16f32"),
        ("skylake-avx512", 7, "float32", "v8f32"),
        ("skylake-avx512", 28, "float32", "v32f32"),
        ("skylake-avx512", 5, "float64", "v8f64"),
        ("skylake-avx512", 16, "float32", None),
        ("skylake-avx512", 3, "float32", None),
        ("skylake-avx512", 14, "int16", None),
        ("haswell", 14, "float32", None),
    ],
)
def test_where_a_part_of_a_register_is_stored_under_a_mask(cpu: str, lanes: int, of: str, masked: str | None) -> None:
    """Only where that is one instruction, and saves some."""
    a, out = buffer("a", lanes, of), buffer("out", lanes, of)
    body = Store(out, (ramp(const(0), 1, lanes),), load(a, ramp(const(0), 1, lanes)))
    f = Function("f", (a, out), (), body, (1,))
    text = compile_function(f, Target.parse(f"llvm -mcpu={cpu}")).texts["source"]
    assert [w.removeprefix("@llvm.masked.store.").partition(".")[0] for w in text.split() if "masked.store" in w][
        :1
    ] == ([] if masked is None else [masked])


def test_sums_in_registers_are_stored_whole() -> None:
    """A store under a mask would keep a buffer of the stack in memory."""
    out, sums, i = (
        buffer("out", 14, "float32"),
        Buffer("sums", (const(14),), dtype("float32"), "local"),
        var("i", role="loop"),
    )
    lanes = ramp(const(0), 1, 14)
    body = Allocate(
        sums,
        Seq(
            (
                Store(sums, (lanes,), broadcast(const(0.0, "float32"), 14)),
                For(
                    i,
                    const(0),
                    const(9),
                    "serial",
                    Store(sums, (lanes,), load(sums, lanes) + broadcast(cast("float32", i), 14)),
                ),
                Store(out, (lanes,), load(sums, lanes)),
            )
        ),
    )
    f = Function("f", (out,), (), body, (0,))
    result = np.zeros(14, np.float32)
    run(f, result)
    np.testing.assert_array_equal(result, np.full(14, 36, np.float32))
    assert "alloca [14 x float]" not in text_of(compile_function(f, Target.parse("llvm")), "llvm")


# -- masks from comparisons -----------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [4, 16, 64])
@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_lane_comparisons(op: str, lanes: int) -> None:
    """A ramp against a bound, a ramp, and itself: in small integers, with bounds far outside too."""
    n = var("n", role="size")
    given, i = Buffer("given", (n,), dtype("int8")), var("i", role="loop")
    at = ramp(i * lanes, 1, lanes)
    sides = [
        (at, broadcast(n, lanes)),
        (broadcast(n * 7, lanes), ramp(i, 3, lanes)),
        (at, broadcast(n * 1_000_000_000, lanes)),
        (at * -2, broadcast(n * -1_000_000_000, lanes)),
        (ramp(i * n, 5, lanes), ramp(n, 4, lanes)),
        (at + broadcast(n, lanes), at + 9),
        (ramp(i, 1_000_000_000, lanes), broadcast(n, lanes)),
    ]
    outs = [buffer(f"out{k}", 2 * lanes, "bool") for k in range(len(sides))]
    stores = [Store(o, (at,), make(op, dtype("bool").with_lanes(lanes), pair)) for o, pair in zip(outs, sides)]
    body = For(i, const(0), const(2), "serial", Seq(tuple(stores)))
    results = [np.zeros(2 * lanes, bool) for _ in outs]
    function = Function("f", (given, *outs), (n,), body, tuple(range(1, 1 + len(outs))))
    run(function, np.zeros(9, np.int8), *results)
    k, block = np.arange(lanes), np.arange(2)[:, None]
    x = block * lanes + k
    pairs = [
        (x, 9),
        (63, block + 3 * k),
        (x, 9 * 10**9),
        (-2 * x, -9 * 10**9),
        (block * 9 + 5 * k, 9 + 4 * k),
        (x + 9, x + 9),
        (block + 10**9 * k, 9),
    ]
    for result, (a, b) in zip(results, pairs):
        expected = OPS[op].numpy(*np.broadcast_arrays(a, b))
        np.testing.assert_array_equal(result.reshape(2, lanes), np.broadcast_to(expected, (2, lanes)))


def test_a_tail_mask_is_made_of_small_integers() -> None:
    n = var("n", role="size")
    a, out, i = Buffer("a", (n,), dtype("uint8")), Buffer("out", (n,), dtype("uint8")), var("i", role="loop")
    at = ramp(i * 32, 1, 32)
    body = For(i, const(0), (n + 31) // 32, "serial", If(at < n, Store(out, (at,), load(a, at))))
    function = Function("f", (a, out), (n,), body, (1,))
    assert "<32 x i64>" not in compile_function(function, Target.parse("llvm")).texts["source"]
    for count in (1, 31, 32, 33, 100):
        data, result = numbers(count, "uint8"), np.zeros(count, np.uint8)
        run(function, data, result)
        np.testing.assert_array_equal(result, data)


def test_loops_under_a_mask() -> None:
    """Serial and parallel loops inside a vector condition store for the chosen lanes only."""
    flag, out, i = buffer("flag", 8, "bool"), buffer("out", 32, "int32"), var("i", role="loop")
    store = Store(out, (ramp(i * 8, 1, 8),), broadcast(cast("int32", i) + 1, 8))
    for kind in ("serial", "parallel"):
        body = If(load(flag, ramp(0, 1, 8)), For(i, const(0), const(4), kind, store))
        mask, result = np.arange(8) % 3 == 1, np.zeros(32, np.int32)
        run(Function("f", (flag, out), (), body, (1,)), mask, result, target="llvm -threads=2")
        np.testing.assert_array_equal(result.reshape(4, 8), mask * np.arange(1, 5)[:, None])


def test_sums_that_a_loop_goes_on_with_are_stored_whole() -> None:
    """LLVM keeps them in registers through the loop; what is stored under a mask stays in memory."""
    a, out, i = buffer("a", 9 * 60, "float32"), buffer("out", 60, "float32"), var("i", role="loop")
    lanes = ramp(const(0), 1, 60)
    step = load(out, lanes) + load(a, ramp(i * 60, 1, 60))
    body = For(i, const(0), const(9), "serial", Store(out, (lanes,), step))
    text = compile_function(Function("f", (a, out), (), body, (1,)), Target.parse("llvm -mcpu=skylake-avx512")).texts[
        "source"
    ]
    assert "masked.store" not in text


def test_results_of_tuples_that_steps_go_on_with_are_stored_whole() -> None:
    """As those of arg-max: what comes next is computed of several results before any of them is stored."""
    a, out, i = buffer("a", 9 * 15, "float32"), buffer("out", 15, "float32"), var("i", role="loop")
    lanes, next_ = ramp(const(0), 1, 15), var("next", dtype("float32").with_lanes(15), role="let")
    step = make("max", next_.dtype, (load(out, lanes), load(a, ramp(i * 15, 1, 15))))
    steps = For(i, const(0), const(9), "serial", Let(next_, step, Store(out, (lanes,), next_)))
    body = Seq((Store(out, (lanes,), broadcast(const(-1.0, "float32"), 15)), steps))
    f = Function("f", (a, out), (), body, (1,))
    assert "masked.store" not in compile_function(f, Target.parse("llvm -mcpu=skylake-avx512")).texts["source"]
    x, got = numbers(9 * 15, "float32"), np.zeros(15, "float32")
    run(f, x, got)
    np.testing.assert_array_equal(got, x.reshape(9, 15).max(axis=0))
