"""Remainders of floats and divisions of integers are NumPy's, bit for bit, of all pairs of numbers, in lanes and alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from autosched import te
from autosched.building import build
from autosched.codegen import compile_function, text_of
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.target import Target
from autosched.te import Tensor

COUNT = 1 << 14
FUNCTIONS: dict[Callable[..., te.Expr], Callable[..., np.ndarray]] = {
    te.fmod: np.fmod, te.floormod: np.mod, te.floordiv: np.floor_divide
}  # fmt: skip


def remainders(kind: str, lanes: int) -> tuple[list[Tensor], Schedule]:
    a, b = (te.placeholder((COUNT,), kind, name) for name in "ab")
    found = [te.compute((COUNT,), lambda i, f=f: f(a[i], b[i]), f.__name__) for f in FUNCTIONS]
    s = create_schedule(found)
    if lanes > 1:
        for t in found:
            s[t].split(t.op.axis[0], factor=lanes)
            s[t].vectorize(s[t].loops[-1])
    return [a, b, *found], s


def pairs(kind: str) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Bit patterns at random; quotients near whole numbers, small, large and halfway; and what is special."""
    draw, bits = np.random.default_rng(5), {"float32": "uint32", "float64": "uint64"}[kind]
    tiny = np.finfo(kind).smallest_subnormal
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, tiny, -tiny, 2.5, 0.3, np.finfo(kind).max], kind)

    def anything() -> np.ndarray:
        return draw.integers(0, np.iinfo(bits).max, COUNT, dtype=bits).view(kind)

    yield anything(), anything()
    yield draw.choice(special, COUNT), draw.choice(special, COUNT)
    for most in (1 << 10, 1 << 22, 1 << 26):
        a, whole = anything(), draw.integers(1, most, COUNT).astype(kind)
        yield a, a / whole
        yield a, np.nextafter(a / whole, draw.choice(special, COUNT))
    yield (draw.integers(-9999, 9999, COUNT) * 0.1).astype(kind), (draw.integers(-30, 30, COUNT) * 0.1).astype(kind)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64", "c", "opencl"])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_as_numpy(kind: str, target: str) -> None:
    for lanes in (1, 4, 16):
        args, s = remainders(kind, lanes)
        module = build(s, target, args=args)
        for a, b in pairs(kind):
            for numpy, found in zip(FUNCTIONS.values(), module(a, b), strict=True):
                wanted = numpy(a, b)
                is_same = (found.view(f"i{a.itemsize}") == wanted.view(f"i{a.itemsize}")) | np.isnan(found)
                is_same &= np.isnan(found) == np.isnan(wanted)
                where = np.flatnonzero(~is_same)[:1]
                assert is_same.all(), (numpy.__name__, lanes, a[where], b[where], found[where], wanted[where])


def test_usual_quotients_call_nothing() -> None:
    args, s = remainders("float32", 16)
    artifact = compile_function(lower_structure(s, args, "llvm").bind(), Target.parse("llvm -mcpu=haswell"))
    assert "frem" not in text_of(artifact, "llvm")
    assert "rare" in text_of(artifact, "llvm")


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Rounded toward zero; 0 where `b` is."""
    floor, rest = np.floor_divide(a, b), np.mod(a, b)
    return np.where((rest != 0) & ((a < 0) != (b < 0)), floor + 1, floor).astype(a.dtype)


DIVISIONS: dict[Callable[..., te.Expr], Callable[..., np.ndarray]] = {
    te.truncdiv: quotient, te.truncmod: np.fmod, te.floordiv: np.floor_divide, te.floormod: np.mod
}  # fmt: skip
DIVISORS = (1, 3, 8, -1, -7)


def divisions(kind: str, lanes: int) -> tuple[list[Tensor], Schedule]:
    a, b = (te.placeholder((COUNT,), kind, name) for name in "ab")
    by = [None, *(n for n in DIVISORS if n > 0 or kind.startswith("int"))]
    found = [
        te.compute(
            (COUNT,), lambda i, f=f, n=n: f(a[i], b[i] if n is None else te.const(n, kind)), f"{f.__name__}_{at}"
        )
        for f in DIVISIONS
        for at, n in enumerate(by)
    ]
    s = create_schedule(found)
    for t in found if lanes > 1 else []:
        s[t].split(t.op.axis[0], factor=lanes)
        s[t].vectorize(s[t].loops[-1])
    return [a, b, *found], s


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64", "c", "opencl"])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_of_integers(kind: str, target: str) -> None:
    draw, info = np.random.default_rng(7), np.iinfo(kind)
    ends = np.array([info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 3, -1 if info.min else 5], kind)
    pairs = [draw.integers(info.min, info.max, (2, COUNT), dtype=kind, endpoint=True), draw.choice(ends, (2, COUNT))]
    exact = draw.integers(-9 if info.min else 0, 9, COUNT).astype(kind)
    pairs += [
        np.stack([exact * pairs[0][1], pairs[0][1]]),
        np.stack([exact * pairs[0][1] - np.asarray(1, kind), pairs[0][1]]),
    ]
    for lanes in (1, 4, 16):
        args, s = divisions(kind, lanes)
        module = build(s, target, args=args)
        for a, b in pairs:
            outputs = [np.empty_like(a) for _ in args[2:]]
            module(a, b, *outputs)
            each = iter(zip(args[2:], outputs, strict=True))
            for f in DIVISIONS.values():
                for n in [None, *(n for n in DIVISORS if n > 0 or info.min)]:
                    t, found = next(each)
                    wanted = f(a, b if n is None else np.full_like(b, n))
                    np.testing.assert_array_equal(found, wanted, f"{t.name}, {lanes} lanes, by {n}")
