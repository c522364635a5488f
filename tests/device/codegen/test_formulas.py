"""Mathematical functions as formulas, in LLVM and in GNU C: errors in units of the last place, special values, lanes
like scalars."""

from __future__ import annotations

import importlib.util
import math
import platform
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from autosched.codegen import compile_function, math_tables, text_of
from autosched.codegen.artifact import Artifact
from autosched.codegen.formulas import FORMULAS
from autosched.ir.dtype import dtype
from autosched.ir.expr import const, make, ramp, var
from autosched.ir.ops import OPS
from autosched.ir.stmt import Buffer, For, Function, Seq, Store, load
from autosched.runtime import load as load_kernel
from autosched.runtime.c_compiler import find_compiler
from autosched.target import Target

COUNT = 1 << 16
LANES = (1, 5, 16, 64)
#: units of the last place by which float32 and float64 may be off
BOUNDS = {
    "exp": (1.7, 1.7), "exp2": (1.7, 1.7), "exp10": (1.9, 1.9), "log": (1, 1), "log2": (1.8, 1.8), "log10": (2.6, 3),
    "log1p": (1.6, 1.6), "tanh": (2.7, 2.7), "sigmoid": (3, 3), "erf": (1.3, 0),
    "sin": (1.7, 0), "cos": (1.7, 0),
}  # fmt: skip
FUNCTIONS = [(op, kind) for op in BOUNDS for kind in ("float32", "float64") if BOUNDS[op][kind == "float64"]]


@pytest.fixture(autouse=True)
def _needs_fused_multiply_add() -> None:
    if not _inline(_compiled("exp", "float32", (1,), 8)):
        pytest.skip("this CPU has no fused multiply-add")


def _inline(artifact: Artifact) -> bool:
    return "@math." in artifact.texts["source"]


def _compiled(
    op: str, kind: str, lane_counts: tuple[int, ...], count: int, target: str = "llvm -threads=1"
) -> Artifact:
    """`op` of one array: as often as there are lane counts, a last vector overlapping the one before."""
    x = Buffer("x", (const(count),), dtype(kind))
    results = tuple(Buffer(f"result{lanes}", (const(count),), dtype(kind)) for lanes in lane_counts)
    nests = []
    for lanes, result in zip(lane_counts, results, strict=True):
        i = var("i", role="loop")
        at = ramp(i * lanes, 1, lanes)
        body = Store(result, (at,), make(op, dtype(kind).with_lanes(lanes), (load(x, at),)))
        nests.append(For(i, const(0), const(count // lanes), "serial", body))
    outputs = tuple(range(1, len(results) + 1))
    return compile_function(Function("f", (x, *results), (), Seq(tuple(nests)), outputs), Target.parse(target))


def _results(op: str, x: np.ndarray, to: str = "llvm -threads=1", lanes: tuple[int, ...] = LANES) -> list[np.ndarray]:
    """What scalars and vectors of several lengths compute; the lengths divide all but a few elements."""
    outputs = [np.zeros_like(x) for _ in lanes]
    load_kernel(_compiled(op, str(x.dtype), lanes, len(x), to), Target.parse(to)).bind([x, *outputs]).run()
    return outputs


#: C for this CPU, and for one with vectors half as wide, which x86 CPUs of today run, too
IN_C = ("c", "c -mcpu=haswell") if platform.machine() == "x86_64" else ("c",)
needs_c = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


def _bit_patterns(kind: str) -> np.ndarray:
    """Numbers of every exponent and both signs, infinities and NaN: equally spaced bit patterns."""
    if kind == "float32":
        return (np.arange(COUNT, dtype=np.uint64) * ((1 << 32) // COUNT) + 12345).astype(np.uint32).view(np.float32)
    return (np.arange(COUNT, dtype=np.uint64) * np.uint64((1 << 64) // COUNT) + np.uint64(123456789)).view(np.float64)


def _usual(kind: str) -> np.ndarray:
    """Numbers as programs meet them, where formulas change branches, reduce and round."""
    random = np.random.default_rng(11)
    near_1 = 1 + random.normal(size=COUNT // 4) * 0.3
    return np.concatenate([near_1, *(random.normal(size=COUNT // 4) * s for s in (0.5, 5, 60))]).astype(kind)


SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-40, 5e-324, 88.72, 88.73, 89.0]
SPECIAL += [-87.4, -103.2, -103.9, -104.0, 709.78, 709.79, -745.1, -745.2, 127.99, 128.0, 1024.0, -149.0, -150.0]
SPECIAL += [-1074.0, -1076.0, 38.53, 38.54, -44.8, -45.2, 308.25, 308.26, -323.3, -324.0, 3.4e38, -3.4e38, 1.7e308]
SPECIAL += [1.5707964, 3.1415927, 4.712389, 131072.0, 131072.02, 1e6, 2.0**100, 11.0, 52174.0]
SPECIAL += [0.921875, -0.921875, 9.0, 10.0, 20.0, 4.0, -4.0, 2 / 3, 4 / 3, 0.7071067811865476, 1.1754943508222875e-38]


def _exactly(op: str, x: np.ndarray) -> np.ndarray:
    """The function in a wider type."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)
        return np.asarray(OPS[op].numpy(wide))


def _errors(actual: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Units of the last place between the two; infinite where one is special and the other is not."""
    info = np.finfo(actual.dtype)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.abs(exact))
        unit = np.ldexp(exact.dtype.type(1), np.maximum(exponent - 1, info.minexp) - info.nmant)
        errors = np.abs(actual.astype(exact.dtype) - exact) / unit
    overflowed = np.isfinite(exact) & (np.abs(exact) > float(info.max)) & np.isinf(actual)
    errors[overflowed & (np.sign(actual) == np.sign(exact))] = 0
    same = (np.isnan(actual) & np.isnan(exact)) | (np.isinf(exact) & (actual == exact))
    return np.where(same, 0, np.where(np.isnan(errors), np.inf, errors))


@pytest.mark.parametrize(("op", "kind"), FUNCTIONS)
def test_errors(op: str, kind: str) -> None:
    """Over all bit patterns, in the usual range, and at special values; zeros keep their sign."""
    _check_errors(op, kind, "llvm -threads=1", 1)


@needs_c
@pytest.mark.parametrize("to", IN_C)
@pytest.mark.parametrize(("op", "kind"), FUNCTIONS)
def test_errors_in_c(op: str, kind: str, to: str) -> None:
    """The same formulas: the compiler contracts more products and sums, which costs no accuracy."""
    _check_errors(op, kind, to, 8)
    assert f"{op}_{'float' if kind == 'float32' else 'double'}_x" in _compiled(op, kind, (8,), 64, to).texts["source"]


def _check_errors(op: str, kind: str, to: str, lanes: int) -> None:
    if kind == "float64" and np.finfo(np.longdouble).nmant < 60:
        pytest.skip("this platform has no type wider than float64 to compare with")
    x = _numbers(kind)
    exact = _exactly(op, x)
    (actual,) = _results(op, x, to, (lanes,))
    errors = _errors(actual, exact)
    worst = int(np.argmax(errors))
    assert errors[worst] <= BOUNDS[op][kind == "float64"], (x[worst], actual[worst], exact[worst])
    zero = exact == 0
    np.testing.assert_array_equal(np.signbit(actual[zero]), np.signbit(exact[zero]))


def _numbers(kind: str) -> np.ndarray:
    """All kinds of them, a multiple of 8."""
    with np.errstate(over="ignore"):
        special = np.array(SPECIAL).astype(kind)
    x = np.concatenate([_bit_patterns(kind), _usual(kind), special])
    return np.resize(x, -(-len(x) // 8) * 8)


@needs_c
@pytest.mark.parametrize("to", IN_C)
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("op", ["floor", "ceil", "trunc", "nearbyint", "abs", "sqrt"])
def test_exact_functions_of_vectors_in_c(op: str, kind: str, to: str) -> None:
    """Bit for bit what NumPy says, zeros and their signs among them."""
    x = np.concatenate([_numbers(kind), (np.arange(-64, 64) / 4).astype(kind)])
    with np.errstate(all="ignore"):
        wanted = np.asarray(OPS[op].numpy(x))
    (found,) = _results(op, x, to, (8,))
    np.testing.assert_array_equal(found, wanted)
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]))


@pytest.mark.parametrize(("op", "kind"), FUNCTIONS)
def test_every_lane_count_gives_the_same_bits(op: str, kind: str) -> None:
    with np.errstate(over="ignore"):
        special = np.resize(np.array(SPECIAL).astype(kind), 5 * 64 * 4)
    x = np.concatenate([special, _bit_patterns(kind)[: 5 * 64 * 60], _usual(kind)[: 5 * 64 * 60]])
    scalars, *vectors = _results(op, x)
    for lanes, other in zip(LANES[1:], vectors, strict=True):
        np.testing.assert_array_equal(scalars, other, err_msg=f"{lanes} lanes")
        np.testing.assert_array_equal(np.signbit(scalars), np.signbit(other))


def test_exponential_is_monotone_where_results_vanish() -> None:
    """Denormal results, the smallest one included, come before 0."""
    x = np.linspace(-104.5, -87, COUNT).astype(np.float32)
    y = _results("exp", x)[0]
    assert (np.diff(y) >= 0).all()
    assert y[0] == 0
    assert y[y > 0].min() == np.float32(1e-45)


@pytest.mark.parametrize("op", sorted(BOUNDS.keys() & {op for op, _ in FORMULAS}))
def test_one_small_function_and_no_call(op: str) -> None:
    artifact = _compiled(op, "float32", (16, 16), 64)
    assert artifact.texts["source"].count(f"define internal <16 x float> @math.{op}.v16f32(") == 1
    if artifact.meta["triple"].startswith("x86_64") and op not in ("sin", "cos"):
        assert "call" not in text_of(artifact, "asm").partition("f.body:")[2].partition("retq")[0]


def test_without_fused_multiply_add_the_library_is_called() -> None:
    if not _compiled("exp", "float32", (1,), 8).meta["triple"].startswith("x86_64"):
        pytest.skip("compiles for x86-64")
    for target in ("llvm -mcpu=x86-64", "llvm -mcpu=x86-64 -mattr=+avx2,-fma"):
        assert not _inline(_compiled("exp", "float32", (1, 8), 64, target))
    for target in ("llvm -mcpu=haswell", "llvm -mcpu=x86-64 -mattr=+fma", "llvm -mcpu=x86-64-v4"):
        assert _inline(_compiled("exp", "float32", (1, 8), 64, target))


def test_every_inline_function_is_tested() -> None:
    elsewhere = {("fmod", "float32"), ("fmod", "float64")}  # `test_remainders`
    assert {(op, f"float{bits}") for op, bits in FORMULAS} == {f for f in FUNCTIONS if f[0] != "sigmoid"} | elsewhere


def _script() -> ModuleType:
    pytest.importorskip("mpmath")
    path = Path(__file__).parents[3] / "experiments" / "fit_math.py"
    spec = importlib.util.spec_from_file_location("fit_math", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_what_the_script_fits() -> None:
    script = _script()
    for name, by_bits in script.polynomials().items():
        table = getattr(math_tables, name)
        for bits, (coefficients, _) in by_bits.items():
            assert table[bits] == tuple(float(script.TYPES[bits](float(c))) for c in coefficients), (name, bits)
    for name, parts in script.constants().items():
        assert {bits: list(pair) for bits, pair in getattr(math_tables, name).items()} == parts
