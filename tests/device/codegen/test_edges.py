"""Every backend at the edges of every type, against arithmetic that shares nothing with the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from cuda_emulation import with_emulated_cuda
from edges import (
    CLASSES,
    COMPARISONS,
    EXACT,
    FLOATS,
    FUNCTIONS,
    INTEGERS,
    ON_FLOATS,
    ON_INTEGERS,
    ON_ONE_INTEGER,
    assert_near,
    compared,
    converted,
    edges,
    on_floats,
    on_integers,
    on_one_float,
    pairs,
)
from strict_c import compile_strictly

from autosched import te
from autosched.codegen.nvrtc import compile_cuda_source, find_nvrtc
from autosched.ir.dtype import SCALAR_DTYPES, dtype
from autosched.ir.expr import Expr, compare, make
from autosched.lowering.pipeline import lower_structure
from autosched.runtime import cuda
from autosched.schedule.schedule import create_schedule
from autosched.target import Target
from autosched.testing.oracle import runner_of

#: how a program is run: the target, the runner, and how many lanes are computed at a time
BACKENDS = {
    "llvm": ("llvm -threads=1", "native", 1),
    "llvm-vectors": ("llvm -threads=1", "native", 16),
    "c": ("c -threads=1", "native", 1),
    "c-vectors": ("c -threads=1", "native", 8),
    "opencl": ("opencl", "native", 1),
    "opencl-vectors": ("opencl", "native", 4),
    "cuda": ("cuda", "native", 4),
    "interpreter": ("llvm -threads=1", "interpreter", 1),
}
#: how far functions that are not exact may be from the right number, in numbers of the type
STEPS = 4
#: NumPy leaves open which of two equal numbers, +0.0 and -0.0, comes out
EITHER_ZERO = ("min", "max", "nextafter")


#: types that kernels for CUDA are tried with: g++ takes a second for each
ON_CUDA = ("int8", "uint16", "int64", "float16", "float32", "float64")


def each(types: Iterable[str], *without: str) -> pytest.MarkDecorator:
    """A test of each backend and type."""
    both = [(b, t) for b in BACKENDS if b not in without for t in types if b != "cuda" or t in ON_CUDA]
    return pytest.mark.parametrize(("backend", "of"), both)


@pytest.fixture(autouse=True)
def machines(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scalar C is free of undefined behaviour; kernels for CUDA run without a GPU, and NVRTC takes their text."""
    if backend == "c":
        compile_strictly(monkeypatch)
    if backend == "cuda":
        with_emulated_cuda(monkeypatch)
        with_gcc = cuda.compile_cuda_source
        if find_nvrtc() is not None:

            def with_both(source: str, arch: str, **options: object) -> bytes:
                assert compile_cuda_source(source, "sm_80")
                return with_gcc(source, arch, **options)

            monkeypatch.setattr(cuda, "compile_cuda_source", with_both)


def run(backend: str, body: Callable[..., tuple[Expr, ...]], *arrays: np.ndarray) -> list[np.ndarray]:
    target, runner, lanes = BACKENDS[backend]
    count = len(arrays[0])
    whole = -(-count // 16) * 16
    arrays = tuple(np.concatenate([a, np.resize(a, whole - count)]) for a in arrays)
    tensors = [te.placeholder(a.shape, a.dtype, name=f"x{k}") for k, a in enumerate(arrays)]
    made = te.compute(arrays[0].shape, lambda i: body(*(t[i] for t in tensors)), name="out")
    outputs = made if isinstance(made, tuple) else (made,)
    s = create_schedule([outputs[0].op])
    stage = s[outputs[0]]
    if lanes > 1:
        outer, inner = stage.split(stage.op.axis[0], factor=lanes)
        stage.vectorize(inner)
        if target in ("opencl", "cuda"):
            stage.bind(outer, "blockIdx.x")
    elif target == "opencl":
        outer, inner = stage.split(stage.op.axis[0], factor=16)
        stage.bind(outer, "blockIdx.x")
        stage.bind(inner, "threadIdx.x")
    to = Target.parse(target)
    results = [np.zeros(whole, t.dtype.numpy) for t in outputs]
    runner_of(lower_structure(s, [*tensors, *outputs], to, "edges").bind(None), to, runner)([*arrays, *results])
    return [r[:count] for r in results]


def operators(ops: object, to: str) -> Callable[..., tuple[Expr, ...]]:
    return lambda *args: tuple(make(op, dtype(to), args) for op in ops)  # type: ignore[attr-defined]


@each(INTEGERS)
def test_integers(backend: str, of: str) -> None:
    one, (a, b) = edges(of), pairs(of, 24 if backend == "interpreter" else 60)
    for op, found in zip(ON_ONE_INTEGER, run(backend, operators(ON_ONE_INTEGER, of), one), strict=True):
        assert_near(found, on_integers(op, of, one), 0, op, one)
    for op, found in zip(ON_INTEGERS, run(backend, operators(ON_INTEGERS, of), a, b), strict=True):
        assert_near(found, on_integers(op, of, a, b), 0, op, a, b)


@each(FLOATS)
def test_functions(backend: str, of: str) -> None:
    x = edges(of)
    x = x[np.argsort(np.abs(x))]  # PoCL's sine of several lanes is wrong for small numbers beside large ones
    x = x[::8] if backend == "interpreter" else x
    ops = [*FUNCTIONS, *CLASSES]
    for op, found in zip(
        ops, run(backend, lambda v: tuple(te.MATH[o](v) if o != "neg" else -v for o in ops), x), strict=True
    ):
        if op in CLASSES:
            assert found.tolist() == [CLASSES[op](v) for v in x.tolist()]
        else:
            assert_near(found, on_one_float(op, x), 0 if op in EXACT else STEPS, op, x)


@each(FLOATS)
def test_float_arithmetic(backend: str, of: str) -> None:
    a, b = pairs(of, 24 if backend == "interpreter" else 60)
    ops = [*ON_FLOATS, "nextafter"]
    for op, found in zip(ops, run(backend, operators(ops, of), a, b), strict=True):
        expected = on_floats(op, a, b)
        if op in EITHER_ZERO:
            found, expected = found + 0, expected + 0
        assert_near(found, expected, STEPS if op in ("pow", "hypot", "atan2") else 0, op, a, b)


@each(FLOATS[:-1], "interpreter")  # bfloat16 has float32's
def test_powers_of_one_exponent(backend: str, of: str) -> None:
    """Compilers write a constant exponent as a root or as products; GCC's vectorizer takes the root of -inf for 0.5."""
    x = edges(of)
    x = x[x != -np.inf] if backend == "c-vectors" else x
    exponents = (0.0, 0.5, 1.0, 2.0, -1.0, 3.0, -0.5, 4.0)
    found = run(backend, lambda v: tuple(te.pow(v, te.const(e, of)) for e in exponents), x)
    for exponent, powers in zip(exponents, found, strict=True):
        assert_near(powers, on_floats("pow", x, np.full_like(x, exponent)), STEPS, f"pow {exponent}", x)


@each(SCALAR_DTYPES)
def test_casts_and_comparisons(backend: str, of: str) -> None:
    x = edges(of)
    for to, found in zip(
        SCALAR_DTYPES, run(backend, lambda v: tuple(v.astype(t) for t in SCALAR_DTYPES), x), strict=True
    ):
        assert_near(found, converted(x, to), 0, to, x)
    a, b = pairs(of, 24 if backend == "interpreter" else 60)
    for op, found in zip(
        COMPARISONS, run(backend, lambda p, q: tuple(compare(o, p, q) for o in COMPARISONS), a, b), strict=True
    ):
        assert_near(found, compared(op, a, b), 0, op, a, b)
