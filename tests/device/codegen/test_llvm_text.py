"""Values that instructions share, and the names in one LLVM function."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autosched import build, te
from autosched.codegen.llvm_text import ModuleText, Scoped, Value, Writer
from autosched.ir.dtype import SCALAR_DTYPES, dtype
from autosched.schedule import create_schedule
from autosched.target import Target

TARGET = Target.parse("llvm -threads=1")
INTEGERS = [t for t in SCALAR_DTYPES if "int" in t]
#: every bit pattern of a byte that counts, and of the ends
NUMBERS = np.array([0, 1, 2, 3, 7, 100, 126, 127, 128, 129, 200, 253, 254, 255, 64, 191], np.uint8)


def test_the_same_text_of_two_types_is_two_values() -> None:
    w = Writer(ModuleText("x86_64-unknown-linux-gnu", ""))
    x = Value("%x", dtype("uint8"))
    signed, unsigned = (w.convert("zext", x, dtype(of)) for of in ("int32", "uint32"))
    assert (signed.dtype, unsigned.dtype) == ("int32", "uint32")
    assert w.convert("zext", x, dtype("int32")) is signed and w.convert("zext", x, dtype("uint32")) is unsigned


def _uses(wide: te.Expr, other: te.Expr) -> te.Expr:
    """What comes out otherwise where `wide` is taken for a number of the other sign."""
    of = str(wide.dtype)
    quotient = te.truncdiv(wide, te.const(3, of)).astype("int64")
    larger = te.select(wide > te.const(64, of), te.const(1, "int64"), te.const(0, "int64"))
    shifted = (wide >> te.const(1, of)).astype("int64")
    as_float = wide.astype("float32").astype("int64") % 1000
    most = te.max(wide, te.const(5, of)).astype("int64")
    return quotient + 3 * larger + 5 * shifted + 7 * as_float + 11 * most + other.astype("int64") * 0


@pytest.mark.parametrize("source", ["int8", "uint8", "int16", "uint32", "int64"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("lanes", [1, 8])
def test_one_value_as_signed_and_as_unsigned(source: str, bits: int, lanes: int) -> None:
    """In either order: the first to be computed is the one that would be shared."""
    x = te.placeholder((len(NUMBERS),), source, name="x")
    for first, second in itertools.permutations((f"int{bits}", f"uint{bits}")):
        o = te.compute(
            x.shape,
            lambda i: _uses(x[i].astype(first), x[i]) * 13 + _uses(x[i].astype(second), x[i]),  # noqa: B023
            name="o",
        )
        s = create_schedule(o)
        if lanes > 1:
            _, inner = s[o].split("i", factor=lanes)
            s[o].vectorize(inner)
        data = NUMBERS.astype(source) if np.dtype(source).kind == "u" else NUMBERS.view("int8").astype(source)
        np.testing.assert_array_equal(build(s, TARGET, args=[x, o])(data), te.reference([x, o], [data])[0])


@pytest.mark.parametrize("source", [*INTEGERS, "bool", "float32"])
def test_one_value_cast_to_every_type(source: str) -> None:
    """All in one loop body, each used where its sign shows."""
    x = te.placeholder((len(NUMBERS),), source, name="x")
    outs = [
        te.compute(x.shape, lambda i, of=of: te.truncdiv(x[i].astype(of), te.const(3, of)), name=f"o_{of}")
        for of in INTEGERS
    ]
    both = te.compute(
        x.shape, lambda i: sum((_uses(x[i].astype(of), x[i]) for of in INTEGERS), te.const(0, "int64")), name="both"
    )
    data = NUMBERS.view("int8").astype(source)
    for o in (*outs, both):
        s = create_schedule(o)
        np.testing.assert_array_equal(build(s, TARGET, args=[x, o])(data), te.reference([x, o], [data])[0])


def test_a_program_may_use_the_names_of_the_text() -> None:
    a = te.placeholder((te.var("entry"),), "float32", name="workspace")
    o = te.compute(a.shape, lambda entry: a[entry] * 2, name="threads")
    s = create_schedule(o)
    s[o].parallel("entry")
    data = np.arange(40, dtype="float32")
    np.testing.assert_array_equal(build(s, "llvm", args=[a, o])(data), data * 2)


@pytest.mark.parametrize("name", ["0", "12", "0x", "1a", "_0"])
def test_a_name_may_begin_with_a_digit(name: str) -> None:
    n = te.var(name)
    a, b = te.placeholder((n,), name=name), te.placeholder((n,), name="_0")
    o = te.compute((n,), lambda i: a[i] * 2 + b[i], name=f"{name}1")
    s = create_schedule(o)
    s[o].parallel(s[o].op.axis[0])
    data = np.arange(40, dtype="float32")
    np.testing.assert_array_equal(build(s, "llvm", args=[a, b, o])(data, data), data * 3)


def test_an_inner_scope_gives_back_what_it_hid() -> None:
    known: Scoped[str, int] = Scoped()
    known.remember("x", 1)
    mark = known.mark()
    known.remember("x", 2)
    known.remember("y", 3)
    known.forget(mark)
    assert known == {"x": 1}
    mark = known.mark()
    known.remember("x", 4)
    known.clear()
    known.remember("z", 5)
    known.forget(mark)
    assert known == {}
