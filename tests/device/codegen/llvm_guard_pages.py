"""Run by `test_llvm_memory.py` in a child process: conditional loads next to an unmapped page.

Each case prints its name when it survived with the right answer.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from autosched.codegen import compile_function
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, broadcast, cast, const, if_then_else, logical_and, logical_or, make, ramp, var
from autosched.ir.stmt import Buffer, For, Function, If, Stmt, Store, load
from autosched.runtime import load as load_kernel
from autosched.target import Target

PAGE = mmap.PAGESIZE
COUNT = 24  # elements that exist
LANES = 16
TARGET = Target.parse("llvm -threads=1")


def one_page() -> tuple[mmap.mmap, int]:
    """Memory of three pages of which only the middle one can be touched, and its address."""
    memory = mmap.mmap(-1, 3 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for page in (0, 2):
        if libc.mprotect(ctypes.c_void_p(address + page * PAGE), ctypes.c_size_t(PAGE), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    return memory, address + PAGE


def at_page_end(values: np.ndarray) -> np.ndarray:
    """A copy of `values` whose end is the end of the last mapped page."""
    memory, _ = one_page()
    array = np.frombuffer(memory, values.dtype, len(values), 2 * PAGE - values.nbytes)
    array[:] = values
    return array


A = Buffer("A", (const(COUNT),), dtype("float32"))
B = Buffer("B", (const(2 * LANES),), dtype("float32"))
DATA = at_page_end(np.arange(COUNT, dtype=np.float32) + 1)
EXPECTED = np.concatenate([DATA, np.full(2 * LANES - COUNT, -1, np.float32)])
MISSING = const(-1.0, "float32")


def run(body: Stmt) -> np.ndarray:
    out = np.zeros(2 * LANES, np.float32)
    load_kernel(compile_function(Function("f", (A, B), (), body, (1,)), TARGET), TARGET).bind([DATA, out]).run()
    return out


def check(name: str, body: Stmt, expected: np.ndarray = EXPECTED) -> None:
    np.testing.assert_array_equal(run(body), expected, err_msg=name)
    print(name, flush=True)


def each(value) -> Stmt:
    """B[i] = value(i), by scalars."""
    i = var("i", role="loop")
    return For(i, const(0), const(2 * LANES), "serial", Store(B, (i,), value(i)))


def vectors(value) -> Stmt:
    """B[at] = value(at), two vectors."""
    i = var("i", role="loop")
    at = ramp(i * LANES, 1, LANES)
    return For(i, const(0), const(2), "serial", Store(B, (at,), value(at, i)))


def missing(lanes: int = LANES) -> Expr:
    return broadcast(MISSING, lanes)


def positive(x: Expr) -> Expr:
    return x > const(0.0, "float32")


FAR = 1 << 26  # elements behind the end: far in the unmapped

check("scalar", each(lambda i: if_then_else(i < COUNT, load(A, i), MISSING)))
check("vector", vectors(lambda at, i: if_then_else(at < COUNT, load(A, at), missing())))
check("gather", vectors(lambda at, i: if_then_else(at < COUNT, load(A, at + at // COUNT * FAR), missing())))
check("and", each(lambda i: cast("float32", logical_and(i < COUNT, positive(load(A, i))))), (EXPECTED > 0).astype("f4"))
check(
    "or",
    vectors(lambda at, i: cast("float32", logical_or(at >= COUNT, positive(load(A, at))))),
    np.ones(2 * LANES, "f4"),
)
check(
    "nested",
    vectors(
        lambda at, i: if_then_else(
            at >= COUNT,
            missing(),
            if_then_else(at < COUNT - 1, load(A, at + 1) - broadcast(const(1.0, "float32"), LANES), load(A, at)),
        )
    ),
)
check(
    "shared",  # one scalar load for all lanes of a vector none of which needs it
    vectors(lambda at, i: if_then_else(at < LANES, broadcast(load(A, i * FAR), LANES), missing())),
    np.array([1.0] * LANES + [-1.0] * LANES, np.float32),
)
i = var("i", role="loop")
at = ramp(i * LANES, 1, LANES)
check(
    "masked",
    For(i, const(0), const(2), "serial", If(at < COUNT, Store(B, (at,), load(A, at)), Store(B, (at,), missing()))),
)
check(
    "strided",  # the wide load for a stride of 3 ends with the last lane
    Store(B, (ramp(0, 1, 8),), load(A, ramp(2, 3, 8))),
    np.concatenate([DATA[2::3], np.zeros(2 * LANES - 8, np.float32)]),
)


def extended(narrow: str, wide: str, lanes: int) -> None:
    """One element in lane k of a vector, whichever k, with nothing that can be read on one side of it or the other."""
    a, out = Buffer("a", (const(1),), dtype(narrow)), Buffer("out", (const(lanes),), dtype(wide))
    flag, zeros, at = dtype("bool").with_lanes(lanes), broadcast(const(0, wide), lanes), ramp(0, 1, lanes)
    for k in range(lanes):
        here = make("eq", flag, (at, broadcast(const(k), lanes)))
        body = Store(out, (at,), if_then_else(here, cast(wide, load(a, ramp(-k, 1, lanes))), zeros))
        kernel = load_kernel(compile_function(Function("f", (a, out), (), body, (1,)), TARGET), TARGET)
        for place in (PAGE, 2 * PAGE - np.dtype(narrow).itemsize):
            memory, _ = one_page()
            one, result = np.frombuffer(memory, narrow, 1, place), np.zeros(lanes, wide)
            one[:] = 3
            kernel.bind([one, result]).run()
            np.testing.assert_array_equal(result, np.where(np.arange(lanes) == k, one.astype(wide), 0))


for pair in [("int8", "int32"), ("uint8", "int64"), ("int16", "int32"), ("uint16", "uint64"), ("int32", "int64"),
             ("float32", "float64"), ("float16", "float32"), ("bool", "int32")]:  # fmt: skip
    for count in (2, 4, 16):
        extended(*pair, count)
print("extended", flush=True)


def looked_up(of: str, *, shared: bool) -> None:
    """Any code is a place in the table; the places of codes that no lane needs are not read."""
    codes, table = Buffer("codes", (const(COUNT),), dtype("uint8")), Buffer("table", (const(256),), dtype(of))
    limit, out = Buffer("limit", (const(1),), dtype("int32")), Buffer("out", (const(2 * LANES),), dtype(of))
    i = var("i", role="loop")
    at = ramp(i * LANES, 1, LANES)
    found, fill = load(table, load(codes, at)), broadcast(const(1, of), LANES)
    if shared:
        found = broadcast(load(table, load(codes, i * FAR)), LANES)
    few = LANES if shared else COUNT
    value = if_then_else(at < broadcast(load(limit, const(0)), LANES), found, fill)
    body = For(i, const(0), const(2), "serial", Store(out, (at,), value))
    kernel = load_kernel(compile_function(Function("f", (codes, table, limit, out), (), body, (3,)), TARGET), TARGET)
    x, t, got = at_page_end(np.arange(COUNT, dtype="u1") + 7), (np.arange(256) * 3 % 101).astype(of), np.zeros(32, of)
    kernel.bind([x, t, np.array([few], "int32"), got]).run()
    wanted = np.ones(2 * LANES, of)
    wanted[:few] = t[7] if shared else t[x]
    np.testing.assert_array_equal(got, wanted)


for of in ("uint8", "float32"):
    looked_up(of, shared=True)
    looked_up(of, shared=False)
print("looked_up", flush=True)
