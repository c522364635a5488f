"""Narrowed vectors of which one lane is stored: nothing but that element is written, whatever LLVM does to the store."""

from __future__ import annotations

import ctypes
import itertools

import llvmlite.binding as llvm
import numpy as np
import pytest

from autosched import build, te
from autosched.codegen import compile_function
from autosched.codegen.llvm import assembled, host, is_foreign, object_code, render, target_machine
from autosched.codegen.llvm_one_lane import PROBE, one_lane_stores_as_scalars, stores_too_wide
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, broadcast, cast, const, make, ramp
from autosched.ir.stmt import Buffer, Function, If, Seq, Stmt, Store, load
from autosched.measure.verify import GuardedArray
from autosched.runtime import load as load_kernel
from autosched.runtime.cpu import LoadedCode
from autosched.schedule import create_schedule
from autosched.target import Target

TARGET = Target.parse("llvm -threads=1")
#: a CPU whose vectors are narrowed by the store itself
WIDE = Target.parse("llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4")
LANES = (2, 3, 4, 6, 8, 16, 32)
_BITS = (8, 16, 32, 64)
PAIRS = [
    *((f"{a}{wide}", f"{b}{narrow}") for wide, narrow in itertools.product(_BITS, _BITS) if wide > narrow
      for a, b in itertools.product(("int", "uint"), repeat=2)),
    *(("float64", "float32"), ("float64", "float16"), ("float32", "float16")),
    *(("float64", "int8"), ("float64", "int32"), ("float32", "uint8"), ("float32", "int16"), ("int64", "bool")),
]  # fmt: skip


def wide_numbers(count: int, of: str) -> np.ndarray:
    """Integers all of whose bytes are used, floats that every type can hold."""
    kind, numbers = np.dtype(of), np.arange(count) % 97 + 1
    if kind.kind == "u":
        return np.iinfo(kind).max - numbers.astype(kind)
    return (-numbers).astype(kind) if kind.kind == "i" else numbers.astype(kind)


def lane_is(k: int, lanes: int) -> Expr:
    return make("eq", dtype("bool").with_lanes(lanes), (ramp(0, 1, lanes), broadcast(const(k), lanes)))


def masked_stores(wide: str, narrow: str, lanes: int, conditions: list[Expr]) -> tuple[list[np.ndarray], list[bool]]:
    """out[j][i] = narrow(a[i]) where conditions[j], which speaks of lanes; the results, and whether each stayed
    inside its array."""
    a = Buffer("a", (const(lanes),), dtype(wide))
    outs = [Buffer(f"out{j}", (const(lanes),), dtype(narrow)) for j in range(len(conditions))]
    at = ramp(0, 1, lanes)
    body: list[Stmt] = [
        If(condition, Store(out, (at,), cast(narrow, load(a, at)))) for out, condition in zip(outs, conditions)
    ]
    function = Function("f", (a, *outs), (), Seq(tuple(body)), tuple(range(1, len(outs) + 1)))
    fenced = [GuardedArray((lanes,), np.dtype(narrow)) for _ in outs]
    kernel = load_kernel(compile_function(function, TARGET), TARGET)
    kernel.bind([wide_numbers(lanes, wide), *(f.array for f in fenced)]).run()
    return [f.array for f in fenced], [f.intact() for f in fenced]


@pytest.mark.parametrize(("wide", "narrow"), PAIRS)
def test_one_lane_of_a_narrowed_vector(wide: str, narrow: str) -> None:
    for lanes in LANES:
        results, intact = masked_stores(wide, narrow, lanes, [lane_is(k, lanes) for k in range(lanes)])
        converted = wide_numbers(lanes, wide).astype(narrow)
        for k, result in enumerate(results):
            expected = np.zeros(lanes, narrow)
            expected[k] = converted[k]
            np.testing.assert_array_equal(result, expected, err_msg=f"lane {k} of {lanes}")
        assert all(intact), f"{lanes} lanes"


@pytest.mark.parametrize(("wide", "narrow"), PAIRS)
def test_tails_of_a_narrowed_vector(wide: str, narrow: str) -> None:
    for lanes in LANES:
        tails = range(1, lanes)
        results, intact = masked_stores(wide, narrow, lanes, [ramp(0, 1, lanes) < n for n in tails])
        converted = wide_numbers(lanes, wide).astype(narrow)
        for n, result in zip(tails, results):
            np.testing.assert_array_equal(result, np.where(np.arange(lanes) < n, converted, np.zeros(1, narrow)))
        assert all(intact), f"{lanes} lanes"


def test_predicated_tail_of_one_element() -> None:
    for n in range(1, 18):
        a = te.placeholder((n,), "int32", name="a")
        o = te.compute((n,), lambda i, a=a: a[i].astype("int8"), name="o")
        s = create_schedule(o)
        _, inner = s[o].split("i", factor=4, tail="predicate")
        s[o].vectorize(inner)
        out = GuardedArray((n,), np.dtype("int8"))
        build(s, TARGET, args=[a, o])(np.full(n, 0x01020304, "int32"), out.array)
        assert (out.array == 4).all() and out.intact()


@pytest.mark.parametrize("of", ["uint8", "int16"])
def test_guards_that_llvm_vectorizes(of: str) -> None:
    """No vector in the schedule: LLVM unrolls the inner loop and joins what its guard leaves."""
    shape = (15, 17)
    a, b = (te.placeholder(shape, "int32", name=x) for x in "ab")
    o = te.compute(shape, lambda i, j: (a[i, j] + b[i, j]).astype(of), name="o")
    s = create_schedule(o)
    columns, column = s[o].split("j", factor=8)
    rows, row = s[o].split("i", factor=8)
    s[o].reorder(columns, rows, column, row)
    x, out = np.arange(255, dtype="int32").reshape(shape) % 100 + 1, GuardedArray(shape, np.dtype(of))
    build(s, TARGET, args=[a, b, o])(x, x, out.array)
    np.testing.assert_array_equal(out.array, 2 * x)
    assert out.intact()


# -- every way to machine code --------------------------------------------------------------------


def one_lane(lanes: int = 8) -> Function:
    a, out = Buffer("a", (const(lanes),), dtype("int32")), Buffer("out", (const(lanes),), dtype("int8"))
    at = ramp(0, 1, lanes)
    return Function("f", (a, out), (), If(at < 1, Store(out, (at,), cast("int8", load(a, at)))), (1,))


def narrow_store_is_right(code: bytes, name: str) -> bool:
    """Whether `name(source, out)` in an object file stores one byte."""
    loaded = LoadedCode(name, [code], [name], parallel=False)
    out = GuardedArray((1,), np.dtype("int8"))
    source = np.full(8, 0x01020304, "int32")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(loaded.addresses[0])(
        source.ctypes.data, out.array.ctypes.data
    )
    return out.array[0] == 4 and out.intact()


BY_HAND = """
define void @NAME(ptr %source, ptr %out) {
  %wide = load <8 x i32>, ptr %source, align 4
  %narrow = trunc <8 x i32> %wide to <8 x i8>
  call void @llvm.masked.store.v8i8.p0(<8 x i8> %narrow, ptr align 1 %out, <8 x i1> <i1 true, i1 false, i1 poison, i1 false, i1 false, i1 undef, i1 false, i1 false>)
  ret void
}
declare void @llvm.masked.store.v8i8.p0(<8 x i8>, ptr, <8 x i1>)
"""


@pytest.mark.parametrize("optimise", [False, True])
def test_text_from_outside(optimise: bool) -> None:
    """What `import_llvm` and the kernels of the roofline go through."""
    text = BY_HAND.replace("NAME", "optimised" if optimise else "plain")
    code = object_code(text, Target.parse("llvm")) if optimise else assembled(text, *host())
    assert narrow_store_is_right(code, "optimised" if optimise else "plain")


@pytest.mark.skipif(is_foreign("x86_64-unknown-linux-gnu"), reason="needs LLVM's x86 as the native target")
def test_assembly_shows_the_code_that_runs() -> None:
    """For a CPU with AVX-512, on whatever x86 this is."""
    artifact = compile_function(one_lane(), WIDE)
    stores = [line for line in render(artifact, "asm").splitlines() if "movb\t%" in line or "vpextrb" in line]
    assert stores, render(artifact, "asm")
    assert "call void @llvm.masked.store" not in render(artifact, "llvm")
    assert artifact.code == object_code(artifact.texts["source"], WIDE)


# -- the rewriting itself -------------------------------------------------------------------------


def rewritten(call: str) -> list[str]:
    return [line.strip() for line in one_lane_stores_as_scalars(f"  {call}").split("\n")]


def test_one_lane_becomes_one_element() -> None:
    call = (
        "tail call void @llvm.masked.store.v4i16.p0(<4 x i16> %5, ptr nonnull captures(none) align 8 %p, "
        "<4 x i1> <i1 false, i1 false, i1 true, i1 undef>) #3, !alias.scope !8, !noalias !9"
    )
    assert rewritten(call) == [
        "%one.lane.0.value = extractelement <4 x i16> %5, i64 2",
        "%one.lane.0.place = getelementptr i16, ptr %p, i64 2",
        "store i16 %one.lane.0.value, ptr %one.lane.0.place, align 4, !alias.scope !8, !noalias !9",
    ]


def test_constants_as_operands() -> None:
    call = (
        "call void @llvm.masked.store.v2f32.p0(<2 x float> <float 1.0, float 2.0>, "
        "ptr align 4 getelementptr inbounds (i8, ptr @x, i64 8), <2 x i1> <i1 true, i1 false>)"
    )
    assert rewritten(call) == [
        "%one.lane.0.value = extractelement <2 x float> <float 1.0, float 2.0>, i64 0",
        "%one.lane.0.place = getelementptr float, ptr getelementptr inbounds (i8, ptr @x, i64 8), i64 0",
        "store float %one.lane.0.value, ptr %one.lane.0.place, align 4",
    ]


@pytest.mark.parametrize("mask", ["%m", "<i1 true, i1 true>", "splat (i1 true)", "zeroinitializer"])
def test_other_masks_stay(mask: str) -> None:
    text = f"  call void @llvm.masked.store.v2i8.p0(<2 x i8> %v, ptr align 1 %p, <2 x i1> {mask})"
    assert one_lane_stores_as_scalars(text) == text


@pytest.mark.skipif(is_foreign("x86_64-unknown-linux-gnu"), reason="needs LLVM's x86 as the native target")
def test_the_probe_knows_a_right_answer() -> None:
    """The rewritten probe is right on every CPU, and so is the plain one where no store narrows."""

    def assembly(text: str, cpu: str) -> str:
        machine = target_machine(cpu, "")
        return machine.emit_assembly(llvm.parse_assembly(text, llvm.create_context()))

    triple = "x86_64-unknown-linux-gnu"
    assert one_lane_stores_as_scalars(PROBE) != PROBE
    for cpu in ("x86-64", "x86-64-v3", "x86-64-v4", "knl"):
        assert not stores_too_wide(assembly(one_lane_stores_as_scalars(PROBE), cpu), triple)
    assert not stores_too_wide(assembly(PROBE, "x86-64-v3"), triple)
    wrong = "narrow8:\n\tvextractps\t$1, %xmm0, 1(%rdi)\n"
    assert stores_too_wide(wrong, triple) and not stores_too_wide(wrong, "aarch64-linux-gnu")
    assert not stores_too_wide("narrow8:\n\tvpmovdb\t%xmm0, (%rdi) {%k1}\n", triple)
