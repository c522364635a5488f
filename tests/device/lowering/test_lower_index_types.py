"""Loop variables and sizes of int32 and int64 side by side: what is computed from an index keeps its type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, broadcast, cast, const, floordiv, ramp, var
from autosched.ir.stmt import Buffer, Store, load
from autosched.ir.visit import in_place_of, substitute
from autosched.lowering.vectorize import split_patterns
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

Body = Callable[[Tensor, Expr, Expr], Expr]

#: element i of the result from the tensor of int32, the index and the size
BODIES: dict[str, Body] = {
    **{
        f"cast to {of}": lambda a, i, n, of=of: (a[i].astype(of) + i.astype(of)).astype("int32")
        for of in ("uint8", "int16", "int32", "uint32", "int64", "uint64", "float32")
    },
    "select": lambda a, i, n: te.select(i.astype("int32") < a[i], i.astype("int32"), a[i]),
    "select in 64 bits": lambda a, i, n: te.select(
        i.astype("int64") < a[i].astype("int64"), i.astype("int64"), n.astype("int64")
    ).astype("int32"),
    "condition": lambda a, i, n: te.if_then_else(te.floormod(i.astype("int32"), 3) == 0, a[i], i.astype("int32")),
    "clamped place": lambda a, i, n: a[te.min(i.astype("int32") + 1, n - 1)] + (n - i).astype("int32"),
    "quotient": lambda a, i, n: a[te.floordiv(i.astype("int64"), 2)] + te.floordiv(i.astype("int32"), 2),
    "remainder": lambda a, i, n: a[te.floormod(i * 3, n)] + te.floormod(i.astype("int32"), 7),
    "backwards": lambda a, i, n: a[n - 1 - i] - (n - 1 - i).astype("int32"),
    "size": lambda a, i, n: a[i] + n.astype("int32") + (i // (n // 4 + 1)).astype("int32"),
    "gathered": lambda a, i, n: a[te.max(te.min(a[i], n - 1), 0)] + i.astype("int32"),
    "ratio": lambda a, i, n: (a[i].astype("float32") * (i.astype("float32") + 1)).astype("int32"),
}


def _vector(factor: int, tail: str) -> Callable[[Schedule, Tensor], None]:
    def schedule(s: Schedule, out: Tensor) -> None:
        _, lane = s[out].split("i", factor=factor, tail=tail)
        s[out].vectorize(lane)

    return schedule


def _unrolled(s: Schedule, out: Tensor) -> None:
    block, rest = s[out].split("i", factor=16)
    part, lane = s[out].split(rest, factor=4)
    s[out].vectorize(lane)
    s[out].unroll(part)
    s[out].parallel(block)


DATA = np.random.default_rng(0).integers(-30, 30, 21, dtype="int32")
SCHEDULES = {
    "guard": _vector(8, "guard"),
    "predicate": _vector(4, "predicate"),
    "shift_inwards": _vector(8, "shift_inwards"),
    "unrolled": _unrolled,
}


@pytest.mark.parametrize("size", ["int32", "int64"])
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(("target", "backend"), [("llvm", "native"), ("c", "native"), ("llvm", "interpreter")])
def test_an_index_as_a_value(size: str, name: str, target: str, backend: str) -> None:
    for schedule in SCHEDULES.values() if target == "llvm" else [SCHEDULES["shift_inwards"]]:
        n = te.var("n", size)
        a = te.placeholder((n,), "int32", name="a")
        out = te.compute((n,), lambda i: BODIES[name](a, i, n), name="out")  # noqa: B023
        s = create_schedule(out)
        schedule(s, out)
        check_against_reference([a, out], s, target, [DATA], backend)


def test_a_replaced_variable_keeps_its_type() -> None:
    narrow, wide = var("i"), var("n", "int64", "size")
    assert substitute(narrow + 1, {narrow: wide * 2}).dtype == "int32"
    assert in_place_of(narrow, const(5, "int64")) is const(5)
    assert in_place_of(narrow, ramp(wide, 1, 4)).dtype == "int32x4"
    assert in_place_of(wide, narrow).dtype == "int64"


def test_a_value_that_takes_the_place_of_a_variable_stays_wide() -> None:
    """`B[A[i]]` with `B` inlined: arithmetic on the index is exact."""
    narrow, data = var("i"), Buffer("data", (const(4),), dtype("int32"))
    read = cast("int64", load(data, const(0)))
    assert substitute(narrow * 3, {narrow: read}).dtype == "int64"


def test_a_pattern_keeps_the_type_of_a_value() -> None:
    base, lanes = var("n", "int64", "size"), 8
    value = floordiv(ramp(cast("int32", base * 16), 1, lanes), 2) + broadcast(cast("int32", base), lanes)
    to = Buffer("to", (const(1000),), dtype("int32"))
    out = split_patterns(Store(to, (ramp(const(0), 1, lanes),), value))
    assert isinstance(out, Store) and out.value.dtype == value.dtype == "int32x8" and out.value is not value
    read = split_patterns(Store(to, (ramp(const(0), 1, lanes),), load(to, value)))
    assert isinstance(read, Store) and read.value.args[0].op == "add"  # a place needs no type
