"""Vectors whose lanes lie at fixed distances: found by lowering, loaded by shuffles, right anyhow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.building import build
from autosched.ir.expr import Expr, broadcast, floordiv, floormod, ramp, var
from autosched.ir.printer import format_function
from autosched.ir.stmt import Buffer, Stmt, Store, expressions, load
from autosched.lowering import lower_structure
from autosched.lowering.vectorize import split_patterns
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

b = var("b", role="loop")


def split(e: Expr) -> str:
    """The index of a load after the pass."""
    data = Buffer("data", (te.const(1000),), e.dtype.scalar)
    out = split_patterns(_store(data, e))
    found = [x for root in expressions(out) for x in [root] if x.op == "load"]
    return repr(found[0].args[0])


def _store(data: Buffer, index: Expr) -> Stmt:
    return Store(Buffer("to", data.shape, data.dtype), (ramp(0, 1, index.dtype.lanes),), load(data, index))


def test_whole_pixels_in_every_vector() -> None:
    f = ramp(b * 48, 1, 48)
    assert split(floordiv(f, 3) * 6 + floormod(f, 3)) == repr(
        broadcast(b * 96, 48) + (floordiv(ramp(0, 1, 48), 3) * 3 + ramp(0, 1, 48))
    )


def test_parts_of_pixels_stay_as_they_are() -> None:
    f = ramp(b * 32, 1, 32)
    e = floordiv(f, 3) * 6
    assert split(e) == repr(e)


def test_pattern_without_a_scalar() -> None:
    assert "b" not in split(floormod(ramp(b * 16, 1, 16), 4))


def strided(places: Callable[[Expr], Expr], n: int, dtype: str, lanes: int) -> tuple[list[Tensor], Schedule]:
    """out[i] = data[places(i)], in vectors."""
    data = te.placeholder((4 * n + 8,), dtype, name="data")
    out = te.compute((n,), lambda i: data[places(i)], name="out")
    s = create_schedule(out)
    _, lane = s[out].split("i", factor=lanes)
    s[out].vectorize(lane)
    return [data, out], s


PLACES: dict[str, Callable[[Expr], Expr]] = {
    "every other pixel": lambda i: floordiv(i, 3) * 6 + floormod(i, 3),
    "two of three": lambda i: floordiv(i * 6 + 1, 4),
    "mirrored in fours": lambda i: floordiv(i, 4) * 4 + 3 - floormod(i, 4),
    "the same twice": lambda i: floordiv(i, 2),
    "far apart": lambda i: floormod(i, 2) * 300 + floordiv(i, 2),
    "every fourth": lambda i: floordiv(i, 2) * 8 + floormod(i, 2),
}


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "bool"])
@pytest.mark.parametrize("lanes", [4, 12, 48])
def test_shuffled_loads_are_right(places: str, dtype: str, lanes: int) -> None:
    args, s = strided(PLACES[places], 203, dtype, lanes)
    data = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 99, 820).astype(dtype)
    check_against_reference(args, s, "llvm", [data])


def test_pixels_are_not_gathered() -> None:
    """Two wide loads and a shuffle: no more loads in the program than that needs."""
    args, s = strided(PLACES["every other pixel"], 480, "uint8", 48)
    module = build(s, "llvm", args=args)
    assert "shufflevector <64 x i8>" in module.source or "shufflevector <32 x i8>" in module.source
    assert module.source.count(" = load i8") == 0
    assert "lane" not in format_function(lower_structure(s, args, "llvm").bind())


@pytest.mark.parametrize("step", [2, -2])
def test_every_second_element_is_loaded_in_whole_registers(step: int) -> None:
    """One load of 127 elements would leave its last 31 to be taken one by one."""
    args, s = strided(lambda i: i * step + (500 if step < 0 else 0), 240, "float32", 64)
    module = build(s, "llvm", args=args)
    assert "load <127 x float>" not in module.source
    check_against_reference(args, s, "llvm", [np.random.default_rng(1).random(968, "float32")])
