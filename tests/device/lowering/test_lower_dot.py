"""Products of bytes, four of which are added at a time: right for all signs, and by the instruction there is for it."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import build, te
from autosched.codegen import compile_function
from autosched.codegen.llvm import host, render
from autosched.errors import ScheduleError
from autosched.ir.stmt import Function, Store, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.runtime.interpreter import interpret
from autosched.schedule import Schedule, create_schedule
from autosched.target import Target
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

SIGNS = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]


def sums(types: tuple[str, str], n: int = 3, m: int = 37, length: int = 19) -> tuple[Tensor, Tensor, Tensor]:
    """C[i, j] = sum of A[i, k] * B[j, k] over k."""
    of = "float32" if types[0] == "bfloat16" else "int32"
    a, b = te.placeholder((n, length), types[0], name="A"), te.placeholder((m, length), types[1], name="B")
    k = te.reduce_axis((0, length), "k")
    body = lambda i, j: te.sum(a[i, k].astype(of) * b[j, k].astype(of), axis=k)  # noqa: E731
    return a, b, te.compute((n, m), body, name="C")


def by_four(a: Tensor, b: Tensor, c: Tensor, lanes: int = 16, offset: bool = False) -> Schedule:
    """`sums` in `lanes` lanes, four steps at a time, two of bfloat16, of which B has those of each lane side by side."""
    s, count = create_schedule(c), 2 if b.dtype == "bfloat16" else 4
    if offset:
        b, _ = s.offset_bytes(c, b)
        s[b].compute_inline()
    copy = s[s.cache_read(b, "global", [s[c]])]
    block, element = copy.split("ax0", factor=lanes)
    steps, four = copy.split("ax1", factor=count)
    copy.reorder(block, steps, element, four)
    s.cache_write(copy.tensor, "global")
    copy.compute_inline()
    s[c].split("j", factor=lanes)
    s[c].split("k", factor=count)
    s[c].reorder("i", "j.outer", "k.outer", "j.inner", "k.inner")
    s[c].vectorize("j.inner")
    s[c].vectorize("k.inner")
    return s


def dots(f: Function) -> list[str]:
    values = [s.value for s in walk(f.body) if isinstance(s, Store)]
    return [repr(e) for value in values for e in post_order(value) if e.op == "dot"]


def extremes(types: tuple[str, str], *shapes: tuple[int, int]) -> list[np.ndarray]:
    """Bytes of all sizes; the first rows are of the least, the second of the largest numbers."""
    draw, found = np.random.default_rng(0), []
    for of, shape in zip(types, shapes, strict=True):
        least, most = np.iinfo(of).min, np.iinfo(of).max
        made = draw.integers(least, most + 1, shape).astype(of)
        made[0], made[1:2] = least, most
        found.append(made)
    return found


def test_nested_vector_loops() -> None:
    a, b, c = sums(("int8", "int8"), m=32, length=16)
    f = lower_structure(by_four(a, b, c), [a, b, c], "llvm").bind()
    place = "ramp(i*32 + j.outer*16, 16)"
    packed = "B.global.global[ramp(j.outer*256 + k.outer*64, 64)]"
    assert dots(f) == [f"dot(C[{place}], A[ramp(i*16 + k.outer*4, 4)], {packed})"]


@pytest.mark.parametrize("types", SIGNS)
@pytest.mark.parametrize("lanes", [6, 16, 24])
@pytest.mark.parametrize("offset", [False, True])
def test_any_signs_and_lanes(types: tuple[str, str], lanes: int, offset: bool) -> None:
    """Whole vectors and what is left over, in both directions."""
    for m, length in ((2 * lanes, 32), (2 * lanes + 5, 19), (lanes - 1, 3)):
        a, b, c = sums(types, 3, m, length)
        inputs = extremes(types, (3, length), (m, length))
        others = (("llvm", "interpreter"), ("c", "native")) if length == 19 else ()
        for target, backend in (("llvm", "native"), *others):
            check_against_reference([a, b, c], by_four(a, b, c, lanes, offset), target, inputs, backend)  # type: ignore[arg-type]


#: What this machine has, then less and less of it.
FEWER = ["", "-avx512vnni,-avxvnni", "-avx512f,-avxvnni", "-avx2"]


@pytest.mark.skipif("avx2" not in host()[1], reason="an x86 with AVX2")
@pytest.mark.parametrize("types", SIGNS)
@pytest.mark.parametrize("features", FEWER)
def test_older_machines(types: tuple[str, str], features: str) -> None:
    a, b, c = sums(types)
    target = f"llvm -mattr={features}" if features else "llvm"
    inputs = extremes(types, (3, 19), (37, 19))
    check_against_reference([a, b, c], by_four(a, b, c), target, inputs, "native")


INSTRUCTIONS = {
    "-mtriple=x86_64-linux-gnu -mcpu=znver4": ("vpdpbusd", "zmm"),
    "-mtriple=x86_64-linux-gnu -mcpu=alderlake": ("vpdpbusd", "ymm"),
    "-mtriple=x86_64-linux-gnu -mcpu=skylake-avx512": ("vpmaddwd", "zmm"),
    "-mtriple=x86_64-linux-gnu -mcpu=haswell": ("vpmaddwd", "ymm"),
    "-mtriple=x86_64-linux-gnu -mcpu=x86-64": ("pmaddwd", "xmm"),
    "-mtriple=aarch64-linux-gnu -mcpu=neoverse-n1": ("dot\t", ""),
    "-mtriple=aarch64-linux-gnu -mcpu=cortex-a72": ("mla", ""),
    "-mtriple=riscv64-linux-gnu": ("mul", ""),
}


@pytest.mark.parametrize("machine", INSTRUCTIONS)
@pytest.mark.parametrize("types", SIGNS)
def test_its_instruction(machine: str, types: tuple[str, str]) -> None:
    """None that saturates, and none that the machine lacks."""
    a, b, c = sums(types, m=32, length=16)
    target = Target.parse(f"llvm {machine}")
    code = render(compile_function(lower_structure(by_four(a, b, c), [a, b, c], target).bind(), target), "asm")
    name, register = INSTRUCTIONS[machine]
    assert any(name in line and register in line for line in code.splitlines())
    assert "pmaddubsw" not in code and "pdpbusds" not in code
    assert ("pdpbusd" in code) == (name == "vpdpbusd") and ("dot\t" in code) == (name == "dot\t")


PAIRS = ("bfloat16", "bfloat16")
#: machines, and the registers of the instruction for pairs
MACHINES_FOR_PAIRS = {"znver4": "zmm", "cooperlake": "mm", "sierraforest": "", "haswell": "", "znver4 -strict": ""}


@pytest.mark.parametrize("lanes", [6, 8, 12, 16])
def test_pairs_of_bfloat16(lanes: int) -> None:
    """To the last bit what two fused multiply-adds give, with the instruction and without."""
    draw = np.random.default_rng(1)
    m, length = 2 * lanes + 5, 19
    a, b, c = sums(PAIRS, 3, m, length)
    inputs = [draw.normal(size=shape).astype("bfloat16") for shape in ((3, length), (m, length))]
    s = by_four(a, b, c, lanes)
    f = lower_structure(s, [a, b, c], "llvm").bind()
    assert dots(f)
    wanted = np.empty((3, m), np.float32)
    interpret(f, [*inputs, wanted])
    np.testing.assert_allclose(wanted, inputs[0].astype("float64") @ inputs[1].astype("float64").T, atol=1e-4)
    for target in ("llvm", "llvm -strict", *(("llvm -mattr=-avx512bf16",) if lanes == 16 else ())):
        np.testing.assert_array_equal(build(s, target, args=[a, b, c])(*inputs), wanted)


def test_instructions_for_pairs() -> None:
    """Not on machines that can convert to bfloat16 and no more, nor where subnormal numbers are to be kept."""
    a, b, c = sums(PAIRS, m=32, length=16)
    for machine, has in MACHINES_FOR_PAIRS.items():
        target = Target.parse(f"llvm -mtriple=x86_64-linux-gnu -mcpu={machine}")
        code = render(compile_function(lower_structure(by_four(a, b, c), [a, b, c], target).bind(), target), "asm")
        found = [line for line in code.splitlines() if "vdpbf16ps" in line]
        assert bool(found) == bool(has) and all(has in line for line in found), machine


def test_other_sums_stay() -> None:
    """What is no sum of products of bytes, or has them elsewhere, is computed as before."""
    for of, into in (("int16", "int32"), ("int8", "int16"), ("bool", "int32"), ("float16", "float32")):
        a, b = (te.placeholder((4, 16), of, name=x) for x in "AB")
        k = te.reduce_axis((0, 16), "k")
        c = te.compute((4, 4), lambda i, j: te.sum(a[i, k].astype(into) * b[j, k].astype(into), axis=k), name="C")  # noqa: B023
        assert dots(lower_structure(by_four(a, b, c, 4), [a, b, c], "llvm").bind()) == []
    a, b, c = sums(("int8", "int8"), 4, 16, 16)
    s = create_schedule(c)
    s[c].split("k", factor=4)
    s[c].reorder("i", "k.outer", "j", "k.inner")
    s[c].vectorize("j")
    s[c].vectorize("k.inner")
    assert dots(lower_structure(s, [a, b, c], "llvm").bind()) == []  # rows of B lie apart
    check_against_reference([a, b, c], s, "llvm", extremes(("int8", "int8"), (4, 16), (16, 16)), "native")


def test_offset_of_other_sums() -> None:
    _, b, c = sums(("int8", "int8"))
    again = create_schedule(c)
    with pytest.raises(ScheduleError, match="no sum of products of which one factor is C"):
        again.offset_bytes(c, c)
    again[c].decompose_reduction(again[c].loops[-1])
    with pytest.raises(ScheduleError, match="before decompose_reduction"):
        again.offset_bytes(c, b)


def test_a_factor_that_is_both() -> None:
    a = te.placeholder((4, 8), "int8", name="A")
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((4, 4), lambda i, j: te.sum(a[i, k].astype("int32") * a[j, k].astype("int32"), axis=k), name="C")
    with pytest.raises(ScheduleError, match="no sum of products"):
        create_schedule(c).offset_bytes(c, a)
