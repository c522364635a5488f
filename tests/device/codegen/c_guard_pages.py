"""Run by `test_c_program.py` in a child process: C code whose arrays end where memory does.

The optimisation level is in the environment's `CFLAGS`. Each case prints its name when it survived with the right answer.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from autosched import build, create_schedule, te
from autosched.codegen.c_artifact import compile_c
from autosched.ir.dtype import dtype
from autosched.ir.expr import cast, const, if_then_else, select, var
from autosched.ir.stmt import Buffer, For, Function, If, Stmt, Store, load, seq
from autosched.runtime import load as load_kernel
from autosched.target import Target

TARGET = Target("c -threads=1")
PAIRS = [("int32", "uint8"), ("uint32", "int8"), ("float64", "uint8"), ("int64", "int16"), ("float32", "float64")]
ELEMENTS = 13


def at_page_end(values: np.ndarray) -> np.ndarray:
    """A copy of `values` whose end is the end of the last mapped page."""
    pages = -(-values.nbytes // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + pages * mmap.PAGESIZE
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), 0) != 0:
        raise OSError("mprotect")
    array = np.frombuffer(memory, values.dtype, values.size, pages * mmap.PAGESIZE - values.nbytes)
    array[:] = values.ravel()
    return array.reshape(values.shape)


def loops(source: Buffer, to: Buffer, kind: str) -> Stmt:
    """A block of 32 elements, of which a condition lets 13 through."""
    at = var("i", role="loop")
    value = cast(to.dtype, load(source, at))
    if kind == "guard":
        body: Stmt = If(at < ELEMENTS, Store(to, (at,), value))
    else:  # where: a condition that is data, on both sides something to read
        choose = if_then_else if kind == "if_then_else" else select
        body = If(at < ELEMENTS, Store(to, (at,), choose(load(source, at) % 2 == 0, value, cast(to.dtype, const(7)))))
    return For(at, const(0), const(32), "serial", body)


sources, targets, statements, arrays, expected = [], [], [], [], []
for kind in ("guard", "if_then_else", "select"):
    for a, b in PAIRS:
        if kind != "guard" and a.startswith("float"):
            continue
        source, to = (
            Buffer(f"{kind}_{a}", (const(ELEMENTS),), dtype(a)),
            Buffer(f"to_{b}", (const(ELEMENTS),), dtype(b)),
        )
        statements.append(loops(source, to, kind))
        values = np.arange(ELEMENTS).astype(a)
        sources.append(source)
        targets.append(to)
        arrays += [at_page_end(values), at_page_end(np.zeros(ELEMENTS, b))]
        expected.append(values.astype(b) if kind == "guard" else np.where(values % 2 == 0, values, 7).astype(b))
params = tuple(b for pair in zip(sources, targets, strict=True) for b in pair)
outputs = tuple(range(1, 2 * len(targets), 2))
function = Function("f", params, (), seq(*statements), outputs)
load_kernel(compile_c(function, TARGET), TARGET).bind(arrays).run()
for k, right in enumerate(expected):
    np.testing.assert_array_equal(arrays[2 * k + 1], right, err_msg=sources[k].name)
print("conditions", flush=True)

A = te.placeholder((ELEMENTS,), "float64", name="A")
narrow = te.compute((ELEMENTS,), lambda i: A[i].astype("uint8"), name="narrow")
s = create_schedule(narrow)
_, inner = s[narrow].split("i", factor=32)
s[narrow].vectorize(inner)
given, out = at_page_end(np.arange(ELEMENTS, dtype="float64")), at_page_end(np.zeros(ELEMENTS, "uint8"))
module = build(s, TARGET, args=[A, narrow])
assert "if (" not in module.source, module.source
np.testing.assert_array_equal(module(given, out), np.arange(ELEMENTS))
print("guarded vector loop", flush=True)

packed, straight, turned = te.placeholder((30,), "int8", name="A"), np.arange(8), np.arange(8)[::-1]
for order in (straight, turned):
    first, step = int(order[0]), int(order[1] - order[0])
    group = te.compute((3, 8), lambda i, k, first=first, step=step: packed[i * 11 + k * step + first], name="group")
    given, out = at_page_end(np.arange(30, dtype="int8")), at_page_end(np.zeros((3, 8), "int8"))
    build(create_schedule(group), TARGET, args=[packed, group])(given, out)
    np.testing.assert_array_equal(out, np.arange(3)[:, None] * 11 + order)
print("groups with gaps", flush=True)
