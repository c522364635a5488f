"""TVMScript: programs that are written, read, scheduled, printed and read back compute the same."""

# mypy: ignore-errors

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from autosched import te, tvm
from autosched.ir.stmt import Function
from autosched.te import PlaceholderOp
from autosched.testing.programs import random_program
from autosched.testing.schedules import random_schedule
from autosched.tir.module import IRModule, PrimFunc
from autosched.tvm import tir
from autosched.tvm.script import from_source
from autosched.tvm.script import ir as I
from autosched.tvm.script import tir as T

N = 16


@I.ir_module
class Products:
    @T.prim_func
    def main(a: T.handle, b: T.handle, c: T.handle):
        T.func_attr({"tir.noalias": True})
        n = T.int32()
        A = T.match_buffer(a, (n, N), "float32")
        B = T.match_buffer(b, (N, 8), "float32")
        C = T.match_buffer(c, (n, 8), "float32")
        D = T.alloc_buffer((n, 8), "float32")
        for i, j, k in T.grid(n, 8, N):
            with T.block("matmul"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    D[vi, vj] = 0.0
                D[vi, vj] += A[vi, vk] * B[vk, vj]
        for i, j in T.grid(n, 8):
            with T.block("relu"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = T.max(D[vi, vj], T.float32(0))


def small(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype("float32")


def results(program: Any, *inputs: np.ndarray, shapes: Any, dtype: str = "float32") -> list[np.ndarray]:
    outputs = [np.full(shape, 99, dtype) for shape in shapes]
    tvm.build(program, target="llvm")(*inputs, *outputs)
    return outputs


def test_blocks_are_stages() -> None:
    sch = tir.Schedule(Products)
    block = sch.get_block("matmul")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 4])
    k0, k1 = sch.split(k, [4, 4])
    sch.reorder(i0, k0, i1, k1, j)
    sch.reverse_compute_at(sch.get_block("relu"), i0)
    sch.parallel(i0)
    sch.vectorize(j)
    sch.decompose_reduction(block, k0)
    read_again = from_source(sch.mod.script())
    assert isinstance(read_again["main"], PrimFunc)
    tvm.ir.assert_structural_equal(read_again, sch.mod)
    a, b = small(10, N), small(N, 8)
    for program in (Products, sch.mod, read_again):
        (out,) = results(program, a, b, shapes=[(10, 8)])
        np.testing.assert_array_equal(out, np.maximum(a @ b, 0))


SCHEDULED = """
@T.prim_func
def main(A: T.Buffer((12, 20), "float32"), B: T.Buffer((12, 20), "float32")):
    C = T.alloc_buffer((12, 20), scope="local")
    for fused_0 in T.parallel(5, annotations={"pragma_auto_unroll_max_step": 16}):
        for fused_1 in T.serial(48):
            with T.block("C"):
                vi = T.axis.spatial(12, (fused_0 * 48 + fused_1) // 20)
                vj = T.axis.spatial(20, (fused_0 * 48 + fused_1) % 20)
                C[vi, vj] = A[vi, vj] + T.float32(1)
    for j_0, unit, i_0, i_1, j_1 in T.grid(3, 1, 3, 5, 8):
        with T.block("B"):
            vi = T.axis.spatial(12, i_0 * 5 + i_1)
            vj = T.axis.spatial(20, j_0 * 8 + j_1)
            T.where(i_0 * 5 + i_1 < 12 and j_0 * 8 + j_1 < 20)
            T.reads(C[vi, vj])
            T.writes(B[vi, vj])
            B[vi, vj] = C[vi, vj] * C[11 - vi, vj]
"""


def test_loops_around_blocks_become_calls() -> None:
    f = from_source(SCHEDULED)
    assert f.schedule.trace.as_python().splitlines()[1:] == [
        '    s["C"].set_scope("local")',
        '    s["B"].split_into("vi", 3, 5)',
        '    s["B"].split_into("vj", 3, 8)',
        '    s["B"].reorder("vj.0", "vi.0", "vi.1", "vj.1")',
        '    s["B"].split("vi.0", nparts=1)',
        '    s["C"].reorder("vi", "vj")',
        '    s["C"].fuse("vi", "vj")',
        '    s["C"].split_into("vi.vj.fused", 5, 48)',
        '    s["C"].reorder("vi.vj.fused.0", "vi.vj.fused.1")',
        '    s["C"].parallel("vi.vj.fused.0")',
        '    s["C"].pragma("vi.vj.fused.0", "auto_unroll_max_step", pragma_value=16)',
    ]
    a = small(12, 20)
    (out,) = results(f, a, shapes=[(12, 20)])
    np.testing.assert_array_equal(out, (a + 1) * (a + 1)[::-1])


@T.prim_func
def cumulative(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, N), "float32")
    B = T.match_buffer(b, (n, N), "float32")
    for i in T.parallel(n):
        for j in range(N):
            if j == 0:
                B[i, j] = A[i, j]
            else:
                B[i, j] = B[i, j - 1] + A[i, j]


@T.prim_func
def blocks_in_blocks(A: T.Buffer((8, N), "float32"), B: T.Buffer((8, N), "float32"), scale: T.float32):
    for io, jo in T.grid(4, 2):
        with T.block("outer"):
            vio, vjo = T.axis.remap("SS", [io, jo])
            tile = T.alloc_buffer((2, 8), "float32")
            for i, j in T.grid(2, 8):
                with T.block("load"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    tile[vi, vj] = A[vio * 2 + vi, vjo * 8 + vj]
            out = T.match_buffer(B[vio * 2 : vio * 2 + 2, vjo * 8 : vjo * 8 + 8], (2, 8))
            for i in T.unroll(2):
                twice: T.float32 = tile[i, 0] + tile[i, 0]
                flat = T.Buffer((16,), data=tile.data)
                for j in T.vectorized(8):
                    out[i, j] = flat[i * 8 + j] * scale if T.max(i, j) > 0 else twice


@T.prim_func
def largest(A: T.Buffer((8, N), "float32"), V: T.Buffer((8,), "float32"), P: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, N):
        with T.block("largest"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                V[vi] = T.min_value("float32")
                P[vi] = -1.0
            value: T.float32 = T.Select(V[vi] >= A[vi, vk], V[vi], A[vi, vk])
            place: T.float32 = T.Select(V[vi] >= A[vi, vk], P[vi], T.Cast("float32", vk))
            V[vi] = value
            P[vi] = place


def test_other_functions_are_built_as_they_are() -> None:
    a = small(8, N)
    assert all(isinstance(f, Function) for f in (cumulative, blocks_in_blocks))
    for f in (cumulative, from_source(cumulative.script())):
        np.testing.assert_array_equal(results(f, a, shapes=[(8, N)])[0], np.cumsum(a, axis=1))
    for f in (largest, from_source(largest.script())):
        value, place = results(f, a, shapes=[(8,), (8,)])
        np.testing.assert_array_equal(value, a.max(axis=1))
        np.testing.assert_array_equal(place, a.argmax(axis=1))
    out = np.zeros((8, N), "float32")
    tvm.build(blocks_in_blocks, target="llvm")(a, out, 3.0)
    expected = a * 3
    expected[::2, ::8] = a[::2, ::8] * 2
    np.testing.assert_array_equal(out, expected)


@T.prim_func
def scaled(a: T.handle, x: T.float32, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n, 8))
    B = T.match_buffer(b, (n, 8))
    for i, j in T.grid(n, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * x


def test_numbers_are_arguments() -> None:
    sch = tir.Schedule(scaled, debug_mask="all")
    sch.parallel(sch.get_loops("B")[0])
    a = small(5, 8)
    for f in (scaled, sch.mod, from_source(sch.mod.script())):
        out = np.zeros((5, 8), "float32")
        tvm.build(f, target="llvm")(a, 2.5, out, 5)
        np.testing.assert_array_equal(out, a * np.float32(2.5))


def test_a_kernel() -> None:
    @T.prim_func
    def reverse(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for b in T.thread_binding(4, thread="blockIdx.x"):
            for t in T.thread_binding(16, thread="threadIdx.x"):
                with T.block("B"):
                    v = T.axis.spatial(64, b * 16 + t)
                    B[v] = A[63 - v]

    a, out = small(64), np.zeros(64, "float32")
    tvm.build(reverse, target="opencl")(a, out)
    np.testing.assert_array_equal(out, a[::-1])


@pytest.mark.parametrize("seed", range(8))
def test_what_is_printed_is_read(seed: int) -> None:
    """Random programs in random schedules: of blocks or of statements, what is read computes what was printed."""
    rng = random.Random(1000 + seed)
    program = random_program(rng, symbolic=rng.random() < 0.3)
    s = random_schedule(program.args, rng, "llvm", steps=8, sizes=program.sizes)
    module = IRModule({"main": PrimFunc(tuple(program.args), s)})
    text = module.script()
    if "..." in text:
        pytest.skip("a long expression was shortened where it was printed")
    again = from_source(text)
    with np.errstate(all="ignore"):
        inputs = program.inputs(seed)
        expected = iter(te.reference(program.args, inputs))
        given, arrays, pairs = iter(inputs), [], []
        for t in program.args:
            is_input = isinstance(t.op, PlaceholderOp)
            wanted = next(given) if is_input else next(expected)
            arrays.append(wanted if is_input else np.zeros(wanted.shape, wanted.dtype))
            pairs += [] if is_input else [(arrays[-1], wanted)]
        tvm.build(again, target="llvm")(*arrays)
        for out, wanted in pairs:
            np.testing.assert_allclose(out.astype("float64"), wanted.astype("float64"), rtol=1e-3, atol=1e-3)


def test_a_reduction_of_tuples_is_a_stage() -> None:
    sch = tir.Schedule(largest)
    block = sch.get_block("largest")
    i, k = sch.get_loops(block)
    k0, _ = sch.split(k, [2, 8])
    sch.reorder(k0, i)
    sch.decompose_reduction(block, k0)
    again = from_source(sch.mod.script())
    tvm.ir.assert_structural_equal(again, sch.mod)
    a = small(8, N)
    value, place = results(again, a, shapes=[(8,), (8,)])
    np.testing.assert_array_equal(value, a.max(axis=1))
    np.testing.assert_array_equal(place, a.argmax(axis=1))


def test_what_nobody_reads_is_computed_and_kept() -> None:
    @T.prim_func
    def alone(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        C = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] + 1.0
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = B[v] * 2.0
        for i in range(8):
            with T.block("D"):
                v = T.axis.spatial(8, i)
                D[v] = B[v] * 3.0

    sch = tir.Schedule(alone, debug_mask="all")
    (i,) = sch.get_loops("C")
    sch.split(i, [2, 4])
    assert "C = T.alloc_buffer((8,))" in sch.mod.script()
    a, out = small(8), np.zeros(8, "float32")
    for f in (alone, sch.mod, from_source(sch.mod.script()), tvm.ir.load_json(tvm.ir.save_json(sch.mod))):
        tvm.ir.assert_structural_equal(tvm.ir.load_json(tvm.ir.save_json(f)), f)
        out[:] = 0
        tvm.build(f, target="llvm")(a, out)
        np.testing.assert_array_equal(out, (a + 1) * 3)


def test_a_function_may_write_to_none_of_its_parameters() -> None:
    @T.prim_func
    def idle(A: T.Buffer((8,), "float32")):
        B = T.alloc_buffer((8,), "float32")
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v] + 1.0

    sch = tir.Schedule(idle)
    sch.vectorize(sch.get_loops("B")[0])
    module = tvm.build(from_source(sch.mod.script()), target="llvm")
    module(small(8))
    assert not module.signature.outputs
