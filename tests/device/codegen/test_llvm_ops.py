"""What LLVM code has of its own: constant operands, literals, vector functions. `test_edges` tries every operator."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from edges import finfo

from autosched.codegen import compile_function, text_of
from autosched.codegen.llvm_libm import vector_library
from autosched.codegen.llvm_ops import LLVM_OPS, STRUCTURAL
from autosched.ir.dtype import SCALAR_DTYPES, DType, dtype
from autosched.ir.expr import OPS, Expr, broadcast, call, const, if_then_else, make, ramp, select, truncmod, var
from autosched.ir.stmt import Buffer, For, Function, Seq, Stmt, Store, load
from autosched.runtime import load as load_kernel
from autosched.target import Target

LANES = 16
INTEGERS = [d for d in SCALAR_DTYPES if "int" in d]
FLOATS = [d for d in SCALAR_DTYPES if "float" in d]


def run(function: Function, *arrays: np.ndarray, target: str = "llvm -threads=1") -> None:
    to = Target.parse(target)
    load_kernel(compile_function(function, to), to).bind(arrays).run()


def edge_values(of: DType, shifts: bool = False) -> np.ndarray:
    """The numbers where something may go wrong."""
    if of.is_bool:
        return np.array([False, True])
    if shifts:
        return np.array([v for v in (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100, -1) if of.min <= v <= of.max], of)
    if of.is_integer:
        values = [
            of.min,
            of.min + 1,
            of.min // 2,
            -100,
            -17,
            -3,
            -2,
            -1,
            0,
            1,
            2,
            3,
            5,
            8,
            100,
            of.max // 2,
            of.max - 1,
        ]
        return np.array(sorted({int(v) for v in (*values, of.max) if of.min <= v <= of.max}), of)
    info = finfo(of.numpy)
    values = [0.0, -0.0, 0.25, -0.25, 0.5, -0.5, 0.75, 1, -1, 1.5, -1.5, 2, 2.5, -2.5, 3, 3.25, -7, 10, 100.5, -100.5]
    return np.array([*values, info.max, info.min, info.tiny, np.inf, -np.inf, np.nan], of.numpy)


def padded(values: np.ndarray) -> np.ndarray:
    """A whole number of vectors."""
    return np.resize(values, -(-len(values) // LANES) * LANES)


def loop(count: int, body: Callable[[Expr], Stmt]) -> Stmt:
    i = var("i", role="loop")
    return For(i, const(0), const(count), "serial", body(i))


Build = Callable[..., Expr]


def check_all(inputs: list[np.ndarray], cases: list[tuple[Build, np.ndarray]], *, ulps: float = 0) -> None:
    """`build(inputs[i]...)` is `expected[i]` for each case, once by scalars and once by vectors."""
    inputs = [np.ascontiguousarray(a) for a in inputs]
    count = len(inputs[0])
    sources = [Buffer(f"x{k}", (const(count),), dtype(a.dtype)) for k, a in enumerate(inputs)]
    results, nests, outputs = [], [], []
    for build, expected in cases:
        for lanes in (1, LANES):
            result = Buffer(f"result{lanes}", (const(count),), dtype(expected.dtype))

            def body(i: Expr, build: Build = build, result: Buffer = result, lanes: int = lanes) -> Stmt:
                at = ramp(i * lanes, 1, lanes)
                return Store(result, (at,), build(*(load(s, at) for s in sources)))

            nests.append(loop(count // lanes, body))
            results.append(result)
            outputs.append(np.zeros(count, expected.dtype))
    positions = tuple(range(len(inputs), len(inputs) + len(results)))
    run(Function("f", (*sources, *results), (), Seq(tuple(nests)), positions), *inputs, *outputs)
    for k, actual in enumerate(outputs):
        compare(actual, cases[k // 2][1], ulps, f"case {k // 2}, {('scalars', 'vectors')[k % 2]}, inputs {inputs}")


def compare(actual: np.ndarray, expected: np.ndarray, ulps: float, what: str) -> None:
    if not ulps:
        assert actual.dtype == expected.dtype
        same = "float32" if actual.dtype == "bfloat16" else actual.dtype  # for NumPy, whose NaN are equal
        np.testing.assert_array_equal(actual.astype(same), expected.astype(same), err_msg=what)
        return
    info = finfo(expected.dtype)
    wide = [a.astype(np.float64) for a in (actual, expected)]
    np.testing.assert_allclose(*wide, rtol=ulps * info.eps, atol=info.tiny, err_msg=what)


def check(build: Build, inputs: list[np.ndarray], expected: np.ndarray, *, ulps: float = 0) -> None:
    check_all(inputs, [(build, expected)], ulps=ulps)


def reference(op: str, *args: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(OPS[op].numpy(*args))


def pairs(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    left, right = zip(*itertools.product(a, b), strict=True)
    return [padded(np.array(left, a.dtype)), padded(np.array(right, b.dtype))]


def raw(op: str, of: DType) -> Callable[..., Expr]:
    """The operator itself, without the builders' folding."""

    def build(*args: Expr) -> Expr:
        lanes = args[0].dtype.lanes
        return make(op, of.with_lanes(lanes), args)

    return build


def test_table_has_no_hole() -> None:
    """`read` and `reduce` are lowered away before code generation; every other operator has a row."""
    assert set(LLVM_OPS) | STRUCTURAL == set(OPS) - {"read", "reduce", "scatter"}
    assert not set(LLVM_OPS) & STRUCTURAL


@pytest.mark.parametrize("of", FLOATS)
def test_floor_divisions_of_floats_are_those_of_numpy(of: str) -> None:
    a, b = pairs(edge_values(dtype(of)), edge_values(dtype(of)))
    x, y = (v.astype("float32") if of == "bfloat16" else v for v in (a, b))
    check_all([a, b], [(raw(op, dtype(of)), reference(op, x, y).astype(of)) for op in ("floordiv", "floormod")])


def by_constant(op: str, literal: Expr) -> Build:
    def build(x: Expr) -> Expr:
        lanes = x.dtype.lanes
        return make(op, x.dtype, (x, literal if lanes == 1 else make("broadcast", x.dtype, (literal,))))

    return build


@pytest.mark.parametrize("of", INTEGERS)
def test_division_by_constants(of: str) -> None:
    """Each constant divisor has code of its own: powers of two, -1, 0, the smallest number."""
    kind = dtype(of)
    a = padded(edge_values(kind))
    for op in ("truncdiv", "truncmod", "floordiv", "floormod"):
        divisors = [d for d in (0, 1, -1, 2, -2, 3, 8, 9, -10, kind.min, kind.max) if kind.min <= d <= kind.max]
        check_all(
            [a], [(by_constant(op, const(d, kind)), reference(op, a, np.full_like(a, d)).astype(of)) for d in divisors]
        )


@pytest.mark.parametrize("of", INTEGERS)
def test_shifts_by_constants(of: str) -> None:
    """A shift by the width or more leaves 0, or the sign."""
    kind = dtype(of)
    a = padded(edge_values(kind))
    amounts = edge_values(kind, shifts=True)
    for op in ("shl", "shr"):
        cases = [(by_constant(op, const(int(n), kind)), reference(op, a, np.full_like(a, n))) for n in amounts]
        check_all([a], cases)


def test_logic() -> None:
    a, b = pairs(edge_values(dtype("bool")), edge_values(dtype("bool")))
    for op in ("and", "or", "min", "max"):
        check(raw(op, dtype("bool")), [a, b], reference(op, a, b))
    for op in ("not", "likely"):
        check(raw(op, dtype("bool")), [a], np.asarray(OPS[op].numpy(a)))


@pytest.mark.parametrize("of", FLOATS)
def test_scaling_by_powers_of_two(of: str) -> None:
    """Every exponent, and results that are rounded to denormal numbers once."""
    info = finfo(of)
    size = 2 * (info.maxexp - info.minexp + info.nmant)
    sample = [1, -1.5, info.max, -info.max, info.tiny, info.smallest_subnormal * 3, 0.0, -0.0, np.inf, np.nan, np.pi]
    a, n = pairs(np.array([*sample, 1 + info.eps, -3 - 2 * info.eps], of), np.arange(-size, size, 1, "int32"))
    n[:4] = [2**31 - 1, -(2**31), 2**31 - 1, -(2**31)]
    check(raw("ldexp", dtype(of)), [a, n], reference("ldexp", a, n))


@pytest.mark.parametrize("of", FLOATS)
def test_bits_as_another_type(of: str) -> None:
    a, bits = padded(edge_values(dtype(of))), dtype(of).bits
    for to in (f"int{bits}", f"uint{bits}"):
        check(raw("reinterpret", dtype(to)), [a], a.view(to))
        check(raw("reinterpret", dtype(of)), [a.view(to)], a)


def converter(to: DType) -> Build:
    """A bare cast node: the builder would spell a cast to bool as a comparison."""
    return lambda x: make("cast", to.with_lanes(x.dtype.lanes), (x,))


def test_float64_to_float16_rounds_once() -> None:
    """Between two halves, rounding by way of float32 would tie where there is no tie."""
    rng = np.random.default_rng(7)
    halves = rng.uniform(-1000, 1000, 4096).astype(np.float16).astype(np.float64)
    middle = halves + np.spacing(halves.astype(np.float16)).astype(np.float64) / 2
    a = padded(np.concatenate([middle * (1 + d) for d in (0, 2.0**-40, -(2.0**-40), 2.0**-52)]))
    check(converter(dtype("float16")), [a], a.astype(np.float16))


@pytest.mark.parametrize("of", SCALAR_DTYPES)
def test_choice(of: str) -> None:
    values = padded(edge_values(dtype(of)))
    chosen = np.arange(len(values)) % 3 == 0
    other = values[::-1].copy()
    for choose in (select, if_then_else):
        check(choose, [chosen, values, other], np.where(chosen, values, other))


@pytest.mark.parametrize("of", FLOATS)
def test_constants(of: str) -> None:
    """Literals keep every bit, NaN and the sign of zero included."""
    for number in (0.1, -0.0, 1e-7, np.inf, -np.inf, np.nan, float(finfo(of).max), float(finfo(of).tiny)):
        expected = np.full(LANES, number, of)

        def build(x: Expr, number: float = number) -> Expr:
            return call("copysign", const(number, x.dtype), x) if number == 0 else const(number, x.dtype)

        check(build, [np.full(LANES, -1, of)], expected)


def test_contraction_makes_one_instruction() -> None:
    """a * b + c is one fused instruction where the CPU has it."""
    n = const(64)
    buffers = [Buffer(name, (n,), dtype("float32")) for name in "abcd"]
    at = ramp(var("i", role="loop") * 8, 1, 8)
    i = at.args[0].args[0]
    a, b, c = (load(x, at) for x in buffers[:3])
    body = For(i, const(0), const(8), "serial", Store(buffers[3], (at,), a * b + c))
    artifact = compile_function(Function("f", tuple(buffers), (), body, (3,)), Target.parse("llvm -mcpu=haswell"))
    if artifact.meta["triple"].startswith("x86_64"):
        assert "vfmadd" in text_of(artifact, "asm")
    assert "fast" not in artifact.texts["source"]


# -- vector mathematics ---------------------------------------------------------------------------


@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("lanes", [2, 3, 8, 16, 24, 37])
def test_vector_functions_of_any_length(of: str, lanes: int) -> None:
    """Vectors that do not fill registers, or fill several, give each lane its own result."""
    a, out = Buffer("a", (const(lanes),), dtype(of)), Buffer("out", (const(lanes),), dtype(of))
    at = ramp(0, 1, lanes)
    value = call("exp", load(a, at)) + call("pow", load(a, at), load(a, at))
    function = Function("f", (a, out), (), Store(out, (at,), value), (1,))
    x, result = np.linspace(0.1, 3, lanes).astype(of), np.zeros(lanes, of)
    run(function, x, result)
    compare(result, np.exp(x) + np.power(x, x), 8, f"{lanes} lanes")


def test_vector_library_follows_the_cpu() -> None:
    """The widest registers of the CPU compiled for, the narrowest that hold the vector."""
    library = vector_library("x86_64-unknown-linux-gnu", "+sse2,+avx2,+avx512f,-avx512f")
    assert vector_library("aarch64-apple-darwin", "+neon") is None
    if library is None:  # the C library has no vector functions
        return
    assert library.find("exp", dtype("float32x64"), 1) == ("_ZGVdN8v_expf", 8)
    assert library.find("pow", dtype("float64x2"), 2) == ("_ZGVbN2vv_pow", 2)
    assert library.find("sqrt", dtype("float32x8"), 1) is None
    assert library.find("exp", dtype("float16x8"), 1) is None


# -- divisions that LLVM 22 gets wrong --------------------------------------------------------------


@pytest.mark.parametrize("of", INTEGERS)
def test_a_guarded_divisor_is_not_unguarded(of: str) -> None:
    """`x // select(c, 1, y)` does not divide by y where c holds, in vectors neither."""
    kind = dtype(of)
    a, b = pairs(edge_values(kind), edge_values(kind))

    def guarded(op: str) -> Build:
        def build(x: Expr, y: Expr) -> Expr:
            ones, zeros = (broadcast(const(n, kind), x.dtype.lanes) for n in (1, 0))
            return make(op, x.dtype, (x, select(y.__eq__(zeros), ones, y)))

        return build

    safe = np.where(b == 0, np.ones_like(b), b)
    ops = ("truncdiv", "truncmod", "floordiv", "floormod")
    check_all([a, b], [(guarded(op), reference(op, a, safe).astype(of)) for op in ops])


def test_a_division_that_some_iterations_share() -> None:
    """A loop-invariant quotient under a condition that varies is right in every iteration."""
    flag = Buffer("flag", (const(64),), dtype("bool"))
    b, out = (Buffer(name, (const(64),), dtype("int32")) for name in ("b", "out"))
    i = var("i", role="loop")
    shared = load(b, truncmod(100, load(b, const(0))) & 63)
    body = For(i, const(0), const(64), "serial", Store(out, (i,), if_then_else(load(flag, i), i, shared)))
    rng = np.random.default_rng(4)
    chosen, values, result = rng.random(64) < 0.5, rng.integers(7, 60, 64).astype(np.int32), np.zeros(64, np.int32)
    chosen[0] = True
    run(Function("f", (flag, b, out), (), body, (2,)), chosen, values, result)
    np.testing.assert_array_equal(result, np.where(chosen, np.arange(64), values[100 % values[0] & 63]))


def test_constants_wrap_like_values() -> None:
    """uint32(int8(255)) is uint32(-1), also when all of it is known at once."""
    for number, first, second in ((255, "int8", "uint32"), (-1, "uint8", "int32"), (2**31 - 1, "int8", "int64")):
        inner = make("cast", dtype(first), (const(number),))
        value = make("cast", dtype(second), (inner,))
        expected = np.full(LANES, np.array(number).astype(first).astype(second))
        check(lambda x, value=value: broadcast(value, x.dtype.lanes), [np.zeros(LANES, np.int8)], expected)
