"""Building expressions: sharing, operators, Python numbers beside them, truth, walking."""

from __future__ import annotations

import gc
import math
import operator
import weakref

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.ir.dtype import SCALAR_DTYPES, dtype, promote
from autosched.ir.expr import (
    Expr,
    as_expr,
    broadcast,
    call,
    cast,
    ceildiv,
    const,
    if_then_else,
    is_const,
    is_index,
    likely,
    logical_and,
    logical_not,
    logical_or,
    make,
    maximum,
    minimum,
    ramp,
    select,
    truncdiv,
    truncmod,
    var,
    variables,
)
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, load
from autosched.ir.visit import post_order, rebuild, substitute

i, j, n = var("i", role="loop"), var("j", role="loop"), var("n", role="size")
x, y = var("x", "float32"), var("y", "float32")
u8, i8, u16 = var("u8", "uint8"), var("i8", "int8"), var("u16", "uint16")


# -- sharing --------------------------------------------------------------------------------------


def test_built_alike_is_the_same_object() -> None:
    assert i + j * 3 is i + j * 3
    assert minimum(x, 1.0) is minimum(x, 1.0)
    assert const(3) is const(3)
    assert const(3) is not const(3, "int64")
    a = Buffer("a", (n,), dtype("uint8"))
    assert load(a, i) is load(a, i)


def test_variables_are_never_shared() -> None:
    assert var("i") is not var("i")
    assert i + var("i", role="loop") is not i + i


def test_constants_that_compare_equal_are_not_the_same() -> None:
    assert const(0.0) is not const(-0.0)
    assert const(1, "int32") is not const(1.0, "float32")
    assert const(True) is not const(1, "uint8")
    assert const(float("nan")) is const(float("nan"))


def test_expressions_are_freed() -> None:
    v = var("freed")
    kept = weakref.ref(v + 12345)
    gc.collect()
    assert kept() is None


def test_expressions_are_keys() -> None:
    """`==` builds an expression, and still a dict finds its keys by identity."""
    table = {i: "i", j: "j", i + 1: "i + 1"}
    assert (table[i], table[j], table[i + 1]) == ("i", "j", "i + 1")
    assert i + 2 not in table
    assert (i, j) != (j, i)
    assert i in [j, i]
    assert n not in [i, j]


def test_depth_counts_operators() -> None:
    assert (const(1).depth, i.depth, (i + 1).depth, ((i + 1) * (i + 1) - j).depth) == (0, 0, 1, 3)


# -- operators ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "op"),
    [
        (operator.add, "add"),
        (operator.sub, "sub"),
        (operator.mul, "mul"),
        (operator.truediv, "truncdiv"),
        (operator.floordiv, "floordiv"),
        (operator.mod, "floormod"),
        (operator.and_, "bitand"),
        (operator.or_, "bitor"),
        (operator.xor, "bitxor"),
        (operator.lshift, "shl"),
        (operator.rshift, "shr"),
        (operator.lt, "lt"),
        (operator.le, "le"),
        (operator.gt, "gt"),
        (operator.ge, "ge"),
        (operator.eq, "eq"),
        (operator.ne, "ne"),
    ],
)
def test_operators_on_expressions_and_numbers(build, op) -> None:
    both = build(i, j)
    assert (both.op, both.args) == (op, (i, j))
    right = build(i, 5)
    assert (right.op, right.args) == (op, (i, const(5)))
    left = build(5, i)
    mirrored = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}  # Python asks the Expr
    if op in mirrored:
        assert (left.op, left.args) == (mirrored[op], (i, const(5)))
    else:
        assert (left.op, left.args) == (op, (const(5), i))
    assert both.dtype == ("bool" if op in mirrored else "int32")


def test_unary_operators() -> None:
    assert (-x).op == "neg"
    assert abs(x).op == "abs"
    assert (~i).op == "bitnot"
    assert (~(i < j)).op == "ge"
    assert (x**2).op == "pow"
    assert (x**2).args == (x, const(2.0))
    assert (x / y).op == "div"
    assert (x // y).op == "floordiv"
    assert (x % y).op == "floormod"
    assert abs(u8) is u8


@pytest.mark.parametrize("a", SCALAR_DTYPES)
@pytest.mark.parametrize("b", SCALAR_DTYPES)
def test_operands_of_two_types_meet_in_the_promoted_one(a: str, b: str) -> None:
    v, w = var("v", a), var("w", b)
    common = promote(dtype(a), dtype(b))
    arithmetic = dtype("int32") if common.is_bool else common
    assert (v + w).dtype is (v * w).dtype is (v % w).dtype is arithmetic
    assert {t.dtype for t in (v < w).args} == {common}
    assert select(i < j, v, w).dtype is minimum(v, w).dtype is common


@pytest.mark.parametrize(
    ("expr", "of"),
    [
        (u8 + 1, "uint8"),
        (u8 + 255, "uint8"),
        (u8 * 1.5, "float32"),
        (x * 2, "float32"),
        (var("h", "float16") * 2.5, "float16"),
        (var("d", "float64") + 1, "float64"),
        (u8 + np.int16(1), "int16"),
        (u8 + np.float64(1), "float64"),
        (i + 2**31, "int64"),
        (i * -(2**31), "int32"),
        (u8 + True, "uint8"),
        ((i < j) + 1, "int32"),
        ((i < j) + (j < i), "int32"),
        ((i < j) & True, "bool"),
    ],
)
def test_python_numbers_take_the_type_beside_them(expr: Expr, of: str) -> None:
    assert expr.dtype == of


@pytest.mark.parametrize("build", [operator.add, operator.lt, operator.mul, operator.floordiv, maximum, truncmod])
@pytest.mark.parametrize(("v", "number"), [(u8, 256), (u8, -1), (i8, 128), (u16, 65536), (var("q", "int64"), 2**63)])
def test_a_number_that_does_not_fit_is_an_error(build, v: Expr, number: int) -> None:
    """`A[i] < 300` must not become `A[i] < 44`."""
    with pytest.raises(UsageError, match=f"{number} is not a value of {v.dtype}") as caught:
        build(v, number)
    assert "an operand of a wider type" in caught.value.legal
    assert build(v, const(number, v.dtype)).dtype in (v.dtype, "bool"), "wrapping around can be asked for"


def test_no_value_of_the_type_is_equal_to_one_that_does_not_fit() -> None:
    assert (u8 == 300) is False
    assert (u8 != 300) is True


@pytest.mark.parametrize("bad", ["text", None, [1], {}, 1j, object()])
def test_what_is_not_an_expression(bad: object) -> None:
    with pytest.raises(UsageError, match="is not an expression"):
        i + bad
    with pytest.raises(UsageError, match="is not an expression"):
        as_expr(bad)
    assert (i == bad) is False
    assert (i != bad) is True


def test_bits_need_integers() -> None:
    for build in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        with pytest.raises(UsageError, match="needs integers, not float32"):
            build(x, y)
    for wrong in (lambda: ~x, lambda: call("popcount", x), lambda: truncdiv(x, y)):
        with pytest.raises(UsageError, match="needs integers, not float32"):
            wrong()
    assert truncmod(x, y).dtype == "float32"


def test_bits_of_conditions_are_logic() -> None:
    a, b = i < j, j < n
    assert (a & b) is logical_and(a, b)
    assert (a | b) is logical_or(a, b)
    assert (a ^ b).op == "ne"
    assert ~a is logical_not(a)
    assert (a << 1).dtype == "int32"


# -- literals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("literal", "of", "value"),
    [
        (const(3), "int32", 3),
        (const(2**31), "int64", 2**31),
        (const(-(2**31)), "int32", -(2**31)),
        (const(2.5), "float32", 2.5),
        (const(0.1), "float32", float(np.float32(0.1))),
        (const(0.1, "float64"), "float64", 0.1),
        (const(True), "bool", True),
        (const(300, "uint8"), "uint8", 44),
        (const(-1, "uint64"), "uint64", 2**64 - 1),
        (const(2**40, "int16"), "int16", 0),
        (const(200, "int8"), "int8", -56),
        (const(-2.9, "int32"), "int32", -2),
        (const(0.5, "bool"), "bool", True),
        (const(np.uint8(7)), "uint8", 7),
        (const(np.float64(7)), "float64", 7.0),
        (const(np.bool_(True)), "bool", True),
        (const(1e6, "float16"), "float16", math.inf),
        (const(math.inf), "float32", math.inf),
    ],
)
def test_literals(literal: Expr, of: str, value: object) -> None:
    assert (literal.op, literal.dtype) == ("const", of)
    assert literal.value == value
    assert type(literal.value) is type(value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: const("3"),
        lambda: const(1j),
        lambda: const(None),
        lambda: const(math.nan, "int32"),
        lambda: const(math.inf, "uint8"),
        lambda: const(10**400, "float32"),
        lambda: const(3, "int5"),
    ],
)
def test_literals_that_are_none(wrong) -> None:
    with pytest.raises(UsageError):
        wrong()


def test_vector_literals_are_broadcasts() -> None:
    assert const(3, "uint8x4") is broadcast(const(3, "uint8"), 4)
    assert ramp(i, 2, 1) is i
    assert broadcast(i, 1) is i
    assert ramp(i, 1, 4).dtype == "int32x4"
    assert (ramp(i, 1, 4) + 1).args[1] is broadcast(const(1), 4)
    assert select(ramp(i, 1, 4) < n, i, j).args[1] is broadcast(i, 4)


# -- folding of what is trivial -------------------------------------------------------------------


def test_identities_of_integers() -> None:
    assert i + 0 is i
    assert 0 + i is i
    assert i - 0 is i
    assert i * 1 is i
    assert 1 * i is i
    assert is_const(i * 0, 0)
    assert is_const(i - i, 0)
    assert i // 1 is i
    assert is_const(i % 1, 0)
    assert truncdiv(i, 1) is i
    assert is_const(truncmod(i, 1), 0)
    assert minimum(i, i) is i
    assert select(i < j, n, n) is n
    assert select(True, i, j) is i
    assert if_then_else(False, i, j) is j


def test_floats_keep_what_a_nan_or_a_minus_zero_would_change() -> None:
    assert (x + 0).op == "add"
    assert (x * 0).op == "mul"
    assert (x - x).op == "sub"
    assert (x * 1).op == "mul"
    assert logical_not(x < y).op == "not", "both are false for a NaN"
    assert logical_not(i < j) is (i >= j)


def test_conditions() -> None:
    a, b = i < j, j < n
    assert logical_and(a, True) is a
    assert logical_and() is const(True)
    assert logical_or() is const(False)
    assert is_const(logical_and(a, False), False)
    assert is_const(logical_or(a, True), True)
    assert logical_or(a, False) is a
    assert logical_and(a, a) is a
    assert logical_not(logical_not(a)) is a
    assert logical_or(a, b).op == "or"
    assert logical_not(logical_or(a, b)) is logical_and(i >= j, j >= n)
    assert logical_and(i, a).args[0] is (i != 0), "a number is true where it is not 0"
    assert likely(likely(a)) is likely(a)
    assert likely(True) is const(True)


def test_casts() -> None:
    assert cast("int32", i) is i
    assert cast("bool", i) is (i != 0)
    assert cast("uint8", ramp(i, 1, 4)).dtype == "uint8x4"
    assert cast("uint8x4", i) is broadcast(cast("uint8", i), 4)
    assert cast("float32", broadcast(i, 4)) is broadcast(cast("float32", i), 4)
    assert is_const(ceildiv(const(7), 2), 4)
    assert x.astype("int8").dtype == "int8"


# -- truth ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("condition", [i < j, i + 1, logical_and(i < j, j < n), x, i <= 3])
def test_no_truth_value_before_it_runs(condition: Expr) -> None:
    with pytest.raises(UsageError, match="no truth value before it runs") as caught:
        bool(condition)
    assert "te.all" in caught.value.legal
    assert "te.select" in caught.value.legal
    assert repr(condition) in caught.value.asked


def test_a_knob_has_no_value_while_the_sketch_is_traced() -> None:
    tile = var("tile_x", role="knob")
    for condition in (tile > 8, tile * 4 < n, logical_not(tile > 8)):
        with pytest.raises(UsageError, match="tile_x is a knob") as caught:
            if condition:
                pass
        assert "s.choose" in caught.value.legal


def test_equality_and_constants_have_one() -> None:
    assert i == i
    assert not (i == j)
    assert i != j
    assert not (i != i)
    assert const(1)
    assert not const(0)
    assert const(2) < const(3)
    assert not (const(2) == const(3))


def test_a_scalar_cannot_be_iterated() -> None:
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(i)


# -- walking --------------------------------------------------------------------------------------


def test_post_order_lists_each_node_once_arguments_first() -> None:
    e = (i + 1) * (i + 1) + j
    order = post_order(e)
    assert len(order) == len(set(map(id, order))) == 6
    assert all(order.index(a) < k for k, node in enumerate(order) for a in node.args)
    assert order[-1] is e
    assert post_order([i, j, i]) == [i, j]


def test_variables() -> None:
    a = Buffer("a", (n,), dtype("float32"))
    assert variables(load(a, i + j) * x) == {i, j, x}
    assert variables(const(3)) == frozenset()
    assert variables(i) == {i}


def test_substitute_keeps_the_types_of_values() -> None:
    """A longer type of an index would make the value longer, and wrap nowhere."""
    i, far, x = var("i", role="loop"), var("n", "int64", role="size") - 1, var("x")
    value = load(Buffer("A", (const(9),), dtype("int32")), i) + i
    found = substitute(value, {i: far})
    assert found.dtype == dtype("int32")
    assert found.args[1].dtype == dtype("int32")
    size, beyond = var("m", "int64", role="size"), const(2**40, "int64")  # index arithmetic is exact in any type
    for e, v in ((x + 1, x), (cast("int32", size) + 1, size)):
        assert Analyzer().poly(substitute(e, {v: beyond})).constant == 2**40 + 1


def test_substitute_replaces_everywhere_at_once_and_folds() -> None:
    assert substitute(i + j, {i: j, j: i}) is j + i
    assert is_const(substitute(i * 3 + j, {i: const(2), j: const(1)}), 7)
    assert substitute(select(i < j, x, y), {i: const(0), j: const(1)}) is x
    a = Buffer("a", (n,), dtype("uint8"))
    assert substitute(load(a, i), {i: j + 1}) is load(a, j + 1)
    assert substitute(load(a, i), {i: ramp(j, 1, 4)}).dtype == "uint8x4"
    assert substitute(cast("uint8", i), {i: const(300)}) is const(44, "uint8")
    e = i + j
    assert substitute(e, {}) is e
    assert substitute(e, {n: i}) is e


def test_rebuild_with_the_same_arguments_is_the_same() -> None:
    for e in (i + j, x / y, select(i < j, x, y), call("exp", x), call("isnan", x), -x, ~i, ramp(i, 1, 4), i << 3):
        assert rebuild(e, e.args) is e
        fresh = tuple(var("v", a.dtype) for a in e.args)
        again = rebuild(e, fresh)
        assert (again.op, again.dtype, again.args) == (e.op, e.dtype, fresh)


def test_deep_expressions_need_no_recursion() -> None:
    """A stencil written out by hand is a sum of hundreds of terms."""
    e = i
    for k in range(1, 3001):
        e = e + j * k
    assert e.depth == 3000
    assert variables(e) == {i, j}
    assert len(post_order(e)) > 6000
    assert variables(substitute(e, {i: n})) == {n, j}
    assert is_index(e)
    assert e.index


# -- index arithmetic -----------------------------------------------------------------------------


def test_what_is_index_arithmetic() -> None:
    a = Buffer("a", (n,), dtype("int32"))
    for e in (i, i * n + 3, minimum(i, n - 1), i // 3 % n, select(i < j, i, 0), cast("int64", i), i < j, ramp(i, 1, 4)):
        assert is_index(e), e
    for e in (x, load(a, i), load(a, i) + i, cast("uint8", i), cast("int16", i), cast("float32", i), i & 1, i << 1):
        assert not is_index(e), e
    assert not is_index(cast("int32", x))
    assert not is_index(var("w", "uint64"))


def test_constant_index_arithmetic_is_exact() -> None:
    """50000 * 50000 elements are no int32, and must not wrap to a negative number of them."""
    size = const(50000) * const(50000)
    assert size.dtype == "int32"
    assert not is_const(size)
    assert is_const(const(2**30, "int64") * 4, 2**32), "an int64 wraps, as everything in 64 bits does"
    assert is_const(const(200, "uint8") + const(100, "uint8"), 44)


def test_a_raw_make_folds_nothing() -> None:
    assert make("add", dtype("int32"), (const(1), const(2))).op == "add"


def test_a_long_condition_is_negated_without_recursion():
    """And each part of it once: a chain of exclusive ors mentions what came before twice, and negates it."""
    x, a = var("x"), var("a")
    condition = x > 0
    for number in range(3000):
        other = a > number
        condition = logical_or(logical_and(condition, logical_not(other)), logical_and(logical_not(condition), other))
    assert condition.depth > 3000
    assert logical_not(logical_not(condition)) is condition
