"""Operands of different types under TVM's names, by the table of `BinaryOpMatchTypes`; `te` keeps its own rule."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import build, topi
from autosched import te as own
from autosched.ir.expr import Expr
from autosched.tvm import te, tir
from autosched.tvm import topi as tvm_topi

NAMES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
#: what a row's and a column's type become, in the order of NAMES
TABLE = """
bool    bool    int8    int16   int32   int64   uint8   uint16  uint32  uint64  float16 float32 float64
int8    int8    int8    int16   int32   int64   uint8   uint16  uint32  uint64  float16 float32 float64
int16   int16   int16   int16   int32   int64   int16   uint16  uint32  uint64  float16 float32 float64
int32   int32   int32   int32   int32   int64   int32   int32   uint32  uint64  float16 float32 float64
int64   int64   int64   int64   int64   int64   int64   int64   int64   uint64  float16 float32 float64
uint8   uint8   uint8   int16   int32   int64   uint8   uint16  uint32  uint64  float16 float32 float64
uint16  uint16  uint16  uint16  int32   int64   uint16  uint16  uint32  uint64  float16 float32 float64
uint32  uint32  uint32  uint32  uint32  int64   uint32  uint32  uint32  uint64  float16 float32 float64
uint64  uint64  uint64  uint64  uint64  uint64  uint64  uint64  uint64  uint64  float16 float32 float64
float16 float16 float16 float16 float16 float16 float16 float16 float16 float16 float16 float32 float64
float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float32 float64
float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64 float64
"""
RULE = {
    (row.split()[0], column): found
    for row in TABLE.strip().splitlines()
    for column, found in zip(NAMES, row.split()[1:], strict=True)
}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": operator.mod,
    "//": operator.floordiv,
    "min": te.min,
    "max": te.max,
    "if_then_else": lambda a, b: te.if_then_else(te.const(1, "int32") > te.var("x"), a, b),
    "add": te.add,
    "multiply": te.multiply,
}
ON_INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "/": operator.truediv,
    "truncmod": te.truncmod,
    "shift_left": tir.shift_left,
    "bitwise_and": tir.bitwise_and,
}
COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
LITERALS = {"bool": True, "int32": 3, "int64": 2**40, "float32": 2.5}


def expressions(body: Callable[..., Any], *types: str) -> Expr:
    """What the function makes of elements of these types, inside `te.compute`."""
    made: list[Expr] = []
    tensors = [te.placeholder((4,), t, name=f"x{k}") for k, t in enumerate(types)]

    def keep(i: Expr) -> Expr:
        made.append(body(*(t[i] for t in tensors)))
        return te.const(0)

    te.compute((4,), keep, name="out")
    return made[0]


@pytest.mark.parametrize("b", NAMES)
@pytest.mark.parametrize("a", NAMES)
def test_two_elements(a: str, b: str) -> None:
    wanted = RULE[a, b]
    for name, f in ARITHMETIC.items():
        of_bools = wanted == "bool" and name in ("+", "-", "*", "%", "//", "add", "multiply")
        assert expressions(f, a, b).dtype == ("int32" if of_bools else wanted), name
    if "float" not in wanted and wanted != "bool":
        for name, f in ON_INTEGERS.items():
            assert expressions(f, a, b).dtype == wanted, name
    for compare in COMPARISONS:
        made = expressions(compare, a, b)
        assert made.dtype == "bool"
        assert [e.dtype for e in made.args] == [wanted, wanted]


@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize("of", NAMES)
def test_an_element_and_a_literal(of: str, literal: str) -> None:
    """A literal has a type of its own: it does not take the element's."""
    wanted, value = RULE[of, literal], LITERALS[literal]
    for name, f in ARITHMETIC.items():
        if name in ("add", "multiply") or (wanted == "bool" and name in ("+", "-", "*", "%", "//")):
            continue
        assert expressions(lambda x, f=f: f(x, value), of).dtype == wanted, name
        assert expressions(lambda x, f=f: f(value, x), of).dtype == wanted, name
    if "float" not in wanted and wanted != "bool":
        for name, f in ON_INTEGERS.items():
            assert expressions(lambda x, f=f: f(x, value), of).dtype == wanted, name


def test_a_float_keeps_its_digits_beside_a_float64() -> None:
    made = expressions(lambda x: x * 0.1, "float64")
    assert made.args[1].value == 0.1


def test_operators_on_whole_tensors() -> None:
    a, b = te.placeholder((4,), "uint8", name="a"), own.placeholder((4,), "uint8", name="b")
    assert (a + 2).dtype == (2 + a).dtype == ((a + 2) * 3).dtype == tvm_topi.add(a, 2).dtype == "int32"
    assert (b + 2).dtype == (2 + b).dtype == topi.add(b, 2).dtype == "uint8"
    assert tvm_topi.nn.relu(a).dtype == "uint8"


def test_each_spelling_has_its_own_rule_in_one_program() -> None:
    a = te.placeholder((4,), "uint8", name="a")
    theirs = te.compute((4,), lambda i: (a[i] + a[i] * 2) / 3, name="theirs")
    ours = own.compute((4,), lambda i: (a[i] + a[i] * 2) / 3, name="ours")
    both = own.compute((4,), lambda i: theirs[i] * 2 + ours[i], name="both")
    x = np.array([10, 100, 200, 255], "uint8")
    first, second, third = own.reference([a, theirs, ours, both], [x])
    assert (theirs.dtype, ours.dtype) == ("int32", "uint8")
    assert first.tolist() == [10, 100, 200, 255]
    assert second.tolist() == [10, 14, 29, 84]
    assert third.tolist() == [30, 214, 429, 594]
    assert build(te.create_schedule(theirs.op), "llvm", args=[a, theirs])(x).tolist() == first.tolist()


def test_an_error_leaves_our_rule_in_force() -> None:
    a = own.placeholder((4,), "uint8", name="a")
    with pytest.raises(ZeroDivisionError):
        te.compute((4,), lambda i: 1 // 0, name="wrong")
    assert own.compute((4,), lambda i: a[i] + 1, name="b").dtype == "uint8"


def test_reductions_and_statements() -> None:
    a = te.placeholder((4, 8), "int8", name="a")
    k = te.reduce_axis((0, 8), "k")
    assert te.compute((4,), lambda i: te.sum(a[i, k] * 2, axis=k), name="s").dtype == "int32"
    assert te.compute((4,), lambda i: te.max(a[i, k], axis=k), name="m").dtype == "int8"
    clamped = te.compute((4,), lambda i: te.max(te.min(a[i, 0] * 3, 255), 0), name="c")
    assert clamped.dtype == "int32"
    product = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t), name="product")
    assert te.compute((4,), lambda i: product(a[i, k], axis=k), name="p").dtype == "int8"


# -- random programs ------------------------------------------------------------------------------

INPUTS = ("uint8", "int8", "int16", "uint16", "int32", "uint32", "float32")
OPERATORS = ("+", "-", "*", "min", "max", "&", "^")
BY_NUMPY = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "&": np.bitwise_and,
    "^": np.bitwise_xor,
}


def random_tree(rng: random.Random, depth: int) -> Any:
    if not depth or rng.random() < 0.15:
        return rng.randrange(len(INPUTS)) if rng.random() < 0.7 else ("literal", rng.choice((2, 3, 100, 1000, -1, 0.5)))
    return rng.choice(OPERATORS), random_tree(rng, depth - 1), random_tree(rng, depth - 1)


def in_tvm(tree: Any, elements: list[Expr]) -> Any:
    if isinstance(tree, int):
        return elements[tree]
    if tree[0] == "literal":
        return tree[1]
    a, b = in_tvm(tree[1], elements), in_tvm(tree[2], elements)
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        a = tir.const(a)
    if tree[0] in "&^" and any("float" in str(getattr(x, "dtype", type(x).__name__)) for x in (a, b)):
        return a + b
    return {**ARITHMETIC, **ON_INTEGERS}[tree[0]](a, b)


def in_numpy(tree: Any, arrays: list[np.ndarray]) -> np.ndarray:
    if isinstance(tree, int):
        return arrays[tree]
    if tree[0] == "literal":
        return np.asarray(tree[1], "float32" if isinstance(tree[1], float) else "int32")
    a, b = in_numpy(tree[1], arrays), in_numpy(tree[2], arrays)
    to = RULE[str(a.dtype), str(b.dtype)]
    name = "+" if tree[0] in "&^" and to.startswith("float") else tree[0]
    return BY_NUMPY[name](a.astype(to), b.astype(to)).astype(to)


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    rng = random.Random(seed)
    tree = ("+", rng.randrange(len(INPUTS)), random_tree(rng, 3))
    tensors = [te.placeholder((16,), t, name=f"x{k}") for k, t in enumerate(INPUTS)]
    out = te.compute((16,), lambda i: in_tvm(tree, [t[i] for t in tensors]), name="out")
    numbers = np.random.default_rng(seed)
    arrays = [
        numbers.integers(-4, 5, 16).astype(t)
        if "float" in t
        else numbers.integers(np.iinfo(t).min, np.iinfo(t).max, 16, dtype=t, endpoint=True)
        for t in INPUTS
    ]
    with np.errstate(all="ignore"):
        expected = in_numpy(tree, arrays)
    assert out.dtype == str(expected.dtype)
    (found,) = own.reference([*tensors, out], arrays)
    assert np.array_equal(found, expected), tree
    if "float" not in out.dtype:  # contraction may round once less
        f = build(te.create_schedule(out.op), "llvm", args=[*tensors, out])
        assert np.array_equal(f(*arrays), expected), tree
