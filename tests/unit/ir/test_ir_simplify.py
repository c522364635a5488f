"""What the simplifier must be able to do: the identities that schedules leave behind, and an end to all it is asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from autosched.ir.dtype import dtype
from autosched.ir.expr import (
    Expr,
    cast,
    ceildiv,
    const,
    floordiv,
    floormod,
    if_then_else,
    is_const,
    likely,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    ramp,
    select,
    truncdiv,
    truncmod,
    var,
)
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer, simplify, to_poly
from autosched.ir.stmt import Buffer, load
from autosched.ir.visit import conjuncts

W, H = var("W", role="size"), var("H", role="size")
t = var("t", role="knob", lower=1, upper=64)
x, y, c, f, g, k = (var(name, role="loop") for name in ("x", "y", "c", "f", "g", "k"))
xo, xi = var("x.outer", role="loop"), var("x.inner", role="loop")


@pytest.fixture
def an() -> Analyzer:
    """An image of H x W x 3 with at least one pixel, its loops plain, fused (f, g) and split by a knob."""
    an = Analyzer()
    for v, low, high in (
        (W, 1, None),
        (H, 1, None),
        (x, 0, W - 1),
        (y, 0, H - 1),
        (c, 0, 2),
        (f, 0, W * 3 - 1),
        (g, 0, H * W * 3 - 1),
        (k, -1, 1),
        (xo, 0, ceildiv(W, t) - 1),
        (xi, 0, t - 1),
    ):
        an.bind(v, low, high)
    return an


OFFSET = (y * W + x) * 3 + c

IDENTITIES: list[tuple[Expr, str]] = [
    # fused and flattened loops
    ((f // 3 + 1) * 3 + f % 3, "f + 3"),
    (f // 3 * 3 + f % 3, "f"),
    (OFFSET // (W * 3), "y"),
    (OFFSET % (W * 3), "x*3 + c"),
    (OFFSET // 3 // W, "y"),
    (OFFSET // 3 % W, "x"),
    (OFFSET % 3, "c"),
    (g // (W * 3) * (W * 3) + g % (W * 3), "g"),
    (f // 3 - W, "f//3 - W"),
    # clamps
    (maximum(minimum(x, W - 1), 0), "x"),
    (minimum(maximum(x, 0), W - 1), "x"),
    (minimum(maximum(x + k, 0), W - 1), "min(max(x + k, 0), W - 1)"),
    (minimum(f // 3, W - 1), "f//3"),
    (maximum(f // 3 - 1, 0) + 0 * y, "max(f//3 - 1, 0)"),
    (minimum(x, W), "x"),
    (maximum(x, 0 - H), "x"),
    (minimum(x + 1, maximum(x, x + 2)), "x + 1"),
    # divisions
    ((x * 4 + 3) // 4, "x"),
    ((x * 4 + c) // 4, "x"),
    ((x * 4 + c) % 4, "c"),
    ((x * 6 + 4) // 2, "x*3 + 2"),
    ((x * 6 + 3) // 4, "(x*3 + 1)//2"),
    ((x * 4 + c) // 8, "x//2"),
    (x // 4 // 8, "x//32"),
    ((x // 4 + 3) // 8, "(x + 12)//32"),
    (x % 12 % 4, "x%4"),
    ((x - W) // W, "-1"),
    ((x + W) // W, "1"),
    ((x + W) % W, "x"),
    ((y * W + x) // W, "y"),
    (x // const(-3), "(0 - x)//3"),
    (truncdiv(x * 4 + c, 4), "x"),
    (truncmod(x * 4 + c, 4), "c"),
    (truncdiv(k, 2), "k/2"),
    ((xo * t + xi) // t, "x.outer"),
    ((xo * t + xi) % t, "x.inner"),
    (ceildiv(x * 8, 8), "x"),
    # choices
    (select(x < W, x, 0), "x"),
    (if_then_else(logical_and(x >= 0, y < H), x, y), "x"),
    (select(k < 0, x + 1, 1 + x), "x + 1"),
    (cast("int32", x < W) * 3, "3"),
    # sums
    (x + y - x, "y"),
    (x * 2 + x * 3 - x * 5, "0"),
    ((x + 1) * (x - 1) - x * x, "-1"),
    (x * (W + 1) - x, "W*x"),
]


@pytest.mark.parametrize(("e", "text"), IDENTITIES, ids=lambda v: repr(v) if isinstance(v, Expr) else None)
def test_identities(an: Analyzer, e: Expr, text: str) -> None:
    assert repr(an.simplify(e)) == text


HOLDS = [
    x < W,
    x + 1 <= W,
    x >= 0,
    x > -1,
    x != W,
    x * 3 + c < W * 3,
    OFFSET < H * W * 3,
    OFFSET >= 0,
    # fused loops
    f // 3 < W,
    f % 3 < 3,
    g // (W * 3) < H,
    g // 3 % W < W,
    g // 3 // W < H,
    g % (W * 3) < W * 3,
    g // 3 % W >= 0,
    g // 3 < H * W,
    # split loops
    xo * t + xi >= 0,
    xo * t < W,
    xo * t + xi < W + t - 1,
    xo < W,
    xi < t,
    # clamps
    minimum(maximum(x + k, 0), W - 1) < W,
    minimum(maximum(x + k, 0), W - 1) >= 0,
    maximum(minimum(x + k, W - 1), 0) < W,
    minimum(x, y) <= x,
    maximum(x, y) >= y,
    minimum(x, y) <= maximum(x, y),
    select(k < 0, x, W - 1) < W,
    select(k < 0, 0, x) >= 0,
    # several at once, and their negations
    logical_and(x < W, y < H, c <= 2),
    logical_or(x >= W, y < H),
    logical_not(x == W),
    likely(x < W),
    # sums of opaque nodes
    x // 4 * 4 <= x,
    x // 4 * 4 + 3 >= x,
    x - x % 7 >= 0,
    cast("int32", k < 0) + cast("int32", k > 0) <= 2,
    W * H >= 1,
    W * H * 3 > 2,
    # digits of a fused loop
    f // 28 % 2 >= 0,
    f // 28 % 2 <= 1,
    f // 28 % 2 * 28 + f % 7 * 4 <= 52,
    28 - f // 7 % 4 * 4 - f // 28 % 2 * 16 >= 0,
]

MAY_FAIL = [
    x < W - 1,
    x > 0,
    x + k >= 0,
    x + k < W,
    y < W,
    f // 3 < W - 1,
    g // 3 // W < H - 1,
    xo * t + xi < W,
    minimum(x, y) >= x,
    select(k < 0, x, W) < W,
    W > 1,
    f // 28 % 2 < 1,
    f // 28 % 2 * 28 + f % 7 * 4 <= 51,
    f // 28 - f // 42 <= 1,
    x * x < W,
    k * k > 0,
]


@pytest.mark.parametrize("condition", HOLDS, ids=repr)
def test_what_must_be_proven(an: Analyzer, condition: Expr) -> None:
    assert an.prove(condition)
    assert is_const(an.simplify(logical_not(condition)), False)


@pytest.mark.parametrize("condition", MAY_FAIL, ids=repr)
def test_what_must_not_be_proven(an: Analyzer, condition: Expr) -> None:
    assert not an.prove(condition)
    assert not an.prove(logical_not(condition))


# -- facts ----------------------------------------------------------------------------------------


def test_inside_the_if_that_guards_a_split(an: Analyzer) -> None:
    i = xo * t + xi
    guard = likely(i < W)
    assert not an.prove(i < W)
    with an.assuming(guard):
        assert an.prove(i < W)
        assert an.prove(i - 1 < W)
        assert an.prove(i <= W - 1)
        assert repr(an.simplify(minimum(i, W - 1))) == repr(simplify(i))
        assert repr(an.simplify(select(guard, i, 0))) == repr(simplify(i))
        assert not an.prove(i < W - 1)
    assert not an.prove(i < W), "the fact ends with its scope"


def test_facts_add_up_and_nest(an: Analyzer) -> None:
    with an.assuming(logical_and(x + k >= 0, x + k < W)):
        assert an.prove(x + k < W)
        assert an.prove(x + k >= 0)
        with an.assuming(y * 2 < H):
            assert an.prove(y * 2 < H)
            assert an.prove(x + k < W)
        assert not an.prove(y * 2 < H)
    with an.assuming(x + k == 5):
        assert an.prove(x + k >= 5)
        assert an.prove(x + k <= 5)
    with an.assuming(logical_or(x + k >= 0, y > 3)), an.assuming(x + k != 7):
        assert not an.prove(x + k >= 0) and not an.prove(x + k < 7), "neither says anything by itself"


def test_a_false_assumption_does_no_harm_after_it(an: Analyzer) -> None:
    with an.assuming(x >= W):
        an.simplify(minimum(x, W - 1))
    assert repr(an.simplify(minimum(x, W - 1))) == "x"


def test_facts_end_with_an_exception(an: Analyzer) -> None:
    with pytest.raises(ZeroDivisionError), an.assuming(x + k >= 0):
        raise ZeroDivisionError
    assert not an.prove(x + k >= 0)


def test_inequalities_of_a_condition(an: Analyzer) -> None:
    assert an.inequalities(likely(x < W)) == [to_poly(W - x - 1)]
    assert an.inequalities(x >= 3) == [to_poly(x - 3)]
    assert an.inequalities(x == W) == [to_poly(x - W), to_poly(W - x)]
    for nothing in (
        x != W,
        logical_and(x < W, y < H),
        load(Buffer("a", (W,), dtype("int32")), x) < 3,
        ramp(x, 1, 4) < W,
    ):
        assert an.inequalities(nothing) == []
    assert conjuncts(likely(logical_and(x < W, y < H, c < 2))) == [x < W, y < H, c < 2]


# -- ranges ---------------------------------------------------------------------------------------


def test_a_variable_of_one_value_is_that_value(an: Analyzer) -> None:
    with an.tightened({c: (to_poly(W - 1), to_poly(W - 1))}):
        assert repr(an.simplify(c + 1)) == "W"
    assert repr(an.simplify(c + 1)) == "c + 1"


def test_ranges_hold_for_a_while(an: Analyzer) -> None:
    with an.tightened({x: (Poly.of(0), to_poly(W - 2))}):
        assert an.prove(x + 1 < W)
        an.bind(y, 5, 7)
        assert an.prove(y > 4)
    assert not an.prove(x + 1 < W)
    assert not an.prove(y > 4)


def test_a_later_range_replaces_the_first() -> None:
    an = Analyzer()
    v = var("v", role="loop")
    an.bind(v, 0, 3)
    assert an.prove(v < 4)
    an.bind(v, 0, 9)
    assert not an.prove(v < 4)
    assert an.prove(v < 10)


def test_what_a_variable_knows_of_itself() -> None:
    an = Analyzer()
    assert an.prove(W >= 0)
    assert not an.prove(W >= 1)
    assert an.prove(t >= 1)
    assert an.prove(t <= 64)
    assert not an.prove(t <= 63)
    assert not an.prove(x >= 0), "a loop has the range it is given"
    assert an.prove(var("threadIdx.x", role="thread") >= 0)
    assert an.prove(var("u", "uint8") >= 0)


@pytest.mark.parametrize(
    ("fact", "follows"),
    [
        (W * 3 - 1, W >= 1),
        (W - 5, W >= 5),
        (W * H - 1, logical_and(W >= 1, H >= 1)),
        (W // 8 - 1, W >= 8),
        (W * 2 - 5, W >= 3),
    ],
    ids=lambda v: repr(v),
)
def test_bounds_on_sizes(fact: Expr, follows: Expr) -> None:
    an = Analyzer()
    an.bind(W, 0, None)
    an.bind(H, 0, None)
    assert not an.prove(follows)
    an.assume_nonneg(an.poly(fact))
    assert an.prove(follows)


def test_two_negative_factors_make_a_positive_product() -> None:
    an = Analyzer()
    v, w = var("v"), var("w")
    an.bind(v, -5, None)
    an.bind(w, -5, None)
    an.assume_nonneg(to_poly(v * w - 1))
    assert not an.prove(v >= 0)
    assert not an.prove(w >= 1)


def test_a_negative_divisor_turns_bounds_around() -> None:
    an = Analyzer()
    v, d = var("v"), var("d")
    an.bind(v, 0, 10)
    an.bind(d, -4, 4)
    assert not an.prove(v // d >= 0)
    assert not an.prove(v // const(-3) >= 0)
    assert an.prove(v // const(-3) <= 0)
    assert an.extreme(to_poly(v // d), [v], True) is None
    an.bind(d, 1, 4)
    assert an.prove(v // d >= 0)


# -- extremes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("e", "over", "smallest", "largest"),
    [
        (x * 3 + c, [x, c], "0", "W*3 - 1"),
        (OFFSET, [x, c], "W*y*3", None),
        (x - y, [x], "0 - y", "W - y - 1"),
        (x - y, [x, y], "1 - H", "W - 1"),
        (f // 3, [f], "0", "W - 1"),
        (minimum(x, 5), [x], "0", "min(W - 1, 5)"),
        (maximum(x + k, 0), [k], "max(x - 1, 0)", "x + 1"),
        (xo * t + xi, [xi], "t*x.outer", "(x.outer + 1)*t - 1"),
        (const(7), [x], "7", "7"),
    ],
    ids=lambda v: repr(v) if isinstance(v, Expr) else None,
)
def test_extremes(an: Analyzer, e: Expr, over: list[Expr], smallest: str | None, largest: str | None) -> None:
    p = an.poly(e)
    low, high = (an.extreme(p, over, up) for up in (False, True))
    assert low is not None
    assert high is not None
    assert not (low.variables | high.variables) & set(over)
    assert smallest is None or repr(low.expr()) == smallest
    assert largest is None or repr(high.expr()) == largest


def test_extremes_that_are_not_known(an: Analyzer) -> None:
    free = var("free", role="loop")
    assert an.extreme(to_poly(free + x), [free], True) is None
    assert an.extreme(to_poly(x * (y - W)), [x], True) is None, "of unknown sign"
    assert an.extreme(to_poly(x * x), [x], True) is None, "not linear"
    assert an.extreme(to_poly(x // y), [y], True) is None, "a divisor that varies"
    assert an.extreme(to_poly((x // 2) * (x // 3)), [x], True) is None, "two opaque factors that vary"


# -- types, values and vectors --------------------------------------------------------------------


@pytest.mark.parametrize(
    "e",
    [
        cast("int64", x) * 3_000_000_000,
        cast("int64", x) + cast("int64", y),
        cast("int64", x) - cast("int64", x),
        cast("int64", x + 1) // 2,
        minimum(cast("int64", x), W),
        cast("int64", const(5)),
        cast("int32", var("n64", "int64") + 1),
        var("n64", "int64") + x - x,
        select(x < W, cast("int64", x), y),
        const(50000) * const(50000),
        x + 2_147_483_648,
    ],
    ids=repr,
)
def test_the_type_stays(an: Analyzer, e: Expr) -> None:
    assert an.simplify(e).dtype is e.dtype
    assert simplify(e).dtype is e.dtype


def test_sizes_beyond_int32_are_exact() -> None:
    size = const(50000) * const(50000)
    assert is_const(simplify(size // const(50000)), 50000)
    exact = simplify(size)
    assert exact.dtype == "int32"
    assert to_poly(exact).constant == 2_500_000_000
    assert Analyzer().prove(size > 0)


def test_value_arithmetic_is_left_alone() -> None:
    """It wraps, truncates and rounds: none of the laws of integers holds."""
    a = Buffer("a", (W,), dtype("uint8"))
    v = load(a, x)
    for e in (v + v - v, (v + 200) // 2, cast("uint8", x) + 1, v + 1 < v, cast("float32", x) / 3):
        assert simplify(e) is e
    assert simplify(load(a, x + 1 - 1) + 0) is v, "their indices are index arithmetic"
    wide = cast("int32", v)
    an = Analyzer()
    assert an.prove_nonneg(to_poly(wide))
    assert an.prove_nonneg(Poly.of(255) - to_poly(wide))
    assert not an.prove_nonneg(Poly.of(254) - to_poly(wide))


@pytest.mark.parametrize(
    ("through", "low", "high"), [("int8", -128, 127), ("uint32", 0, 2**32 - 1), ("int16", -128, 127)]
)
def test_a_cast_is_bounded_by_its_own_type_unless_it_widens(through: str, low: int, high: int) -> None:
    narrow = load(Buffer("a", (W,), dtype("int8" if through != "int8" else "int32")), x)
    an, p = Analyzer(), to_poly(cast(through, narrow))
    assert an.prove_nonneg(p - low)
    assert an.prove_nonneg(Poly.of(high) - p)
    assert not an.prove_nonneg(p - low - 1)
    assert not an.prove_nonneg(Poly.of(high - 1) - p)


def test_an_index_is_not_bound_by_its_type() -> None:
    """Index arithmetic does not wrap at int32, so an int32 index may be any number."""
    e = truncdiv(W * W * W * W, 3)
    assert e.dtype == "int32"
    assert not Analyzer().prove(e < 2**31)


def test_divisions_by_zero(an: Analyzer) -> None:
    assert is_const(simplify(x // const(0)), 0)
    assert is_const(simplify(x % const(0)), 0)
    assert is_const(an.simplify(x % (W - W)), 0)


def test_comparisons_are_reduced_to_lowest_terms(an: Analyzer) -> None:
    assert repr(simplify(x * 4 + 8 < y * 4)) == "x + 2 < y"
    assert repr(simplify(x * 4 + 2 <= y * 6)) == "x*2 + 1 <= y*3"
    assert repr(simplify(x * 2 == y * 2)) == "x == y"
    assert repr(simplify((x < y) == (y < x))) == "x < y == y < x"


def test_places_in_a_block_do_not_decide_a_comparison() -> None:
    a, b, an = var("a", role="loop"), var("b", role="loop"), Analyzer()
    an.bind(a, -3, 5)
    an.bind(b, 0, 7)
    for e, text in [
        (a * 8 + b < 8, "a < 1"),
        (a * 8 + b >= 16, "2 <= a"),
        (a * 8 - b > 0, "1 <= a"),
        (a * 16 + b * 2 < 16, "a < 1"),
        (a * 8 + b > 16, "a*8 + b > 16"),
    ]:
        assert repr(an.simplify(e)) == text


def test_quotients_of_variables_of_two_values() -> None:
    a, b, an = var("a", role="loop"), var("b", role="loop"), Analyzer()
    an.bind(a, 0, 1)
    an.bind(b, 3, 4)
    assert repr(an.simplify((a + 1) // 2)) == "a"
    assert repr(an.simplify((1 - a * 2 - (b - 3)) // 4)) == "0 - a"
    assert repr(an.simplify((b + 1) % 2)) == "b - 3"
    assert repr(an.simplify((a + b) // 2)) == "(a + b)//2"


def test_vectors_are_simplified_inside(an: Analyzer) -> None:
    assert repr(an.simplify(ramp(x + 0 * y + 1 - 1, 1, 8))) == "ramp(x, 8)"
    assert repr(an.simplify(ramp(OFFSET // 3 % W, 1, 8) * 2)) == "ramp(x, 8)*x8(2)"
    mask = ramp(x, 1, 8) < W
    assert an.simplify(mask).dtype == "boolx8"
    assert not an.prove(mask)


# -- an end to everything -------------------------------------------------------------------------

LOOPS = [var(f"i{n}", role="loop") for n in range(12)]


def _ranged() -> Analyzer:
    an = Analyzer()
    for n, v in enumerate(LOOPS):
        an.bind(v, 0, W - 1 if n % 2 else n + 3)
    return an


def _nested(step: Callable[[Expr, int], Expr], times: int) -> Expr:
    e = LOOPS[0]
    for n in range(times):
        e = step(e, n)
    return e


PATHOLOGICAL = {
    "floordiv": _nested(lambda e, n: (e * 3 + LOOPS[n % 12]) // (2 + n % 5), 60),
    "min of max": _nested(lambda e, n: minimum(maximum(e + LOOPS[n % 12], LOOPS[(n + 1) % 12] - 3), W - n), 60),
    "floordiv by sizes": _nested(lambda e, n: (e + LOOPS[n % 12]) // (W + n), 12),
    "mod": _nested(lambda e, n: e % (W + n) * 2 + floordiv(e, H + n), 10),
    "select": _nested(lambda e, n: select(e < LOOPS[n % 12], e + 1, e // 2 + W), 24),
    "product of mins": _nested(lambda e, n: e * (minimum(LOOPS[n % 12], W - n) + 1), 24),
    "product of sums": _nested(lambda e, n: e * (LOOPS[n % 12] + LOOPS[(n + 1) % 12] + 1), 40),
    "square of squares": _nested(lambda e, n: e * e, 20),
    "sum of clamps": _nested(lambda e, n: e + minimum(maximum(LOOPS[n % 12] - n, 0), W - 1), 100),
    "deep division": _nested(lambda e, n: (e + LOOPS[n % 12]) // 2, 120),
    "deep sum": _nested(lambda e, n: e + LOOPS[n % 12] * n, 1500),
}


@pytest.mark.parametrize("name", PATHOLOGICAL)
def test_anything_ends_soon(name: str) -> None:
    """Without their budgets these take hours, or the whole stack."""
    e, an = PATHOLOGICAL[name], _ranged()
    an.simplify(e)
    an.prove(e < W * 1000)
    an.extreme(an.poly(LOOPS[0] + e % 7) if name != "deep division" else an.poly(LOOPS[0]), LOOPS, True)


def test_many_facts_end_soon() -> None:
    an = _ranged()
    facts = [minimum(LOOPS[n % 12], LOOPS[(n + 1) % 12]) + n < maximum(W, LOOPS[(n + 5) % 12] * 2) for n in range(80)]
    with an.assuming(logical_and(*facts)):
        an.simplify(minimum(LOOPS[0] + LOOPS[1], maximum(W, LOOPS[2])) // 3)


def test_values_of_great_depth_are_simplified_throughout() -> None:
    """A stencil written out by hand: every index in it counts."""
    a = Buffer("a", (W,), dtype("float32"))
    total = load(a, x)
    for n in range(1, 400):
        total = total + load(a, x + n - n) * float(n)
    assert {repr(i) for i in _indices(simplify(total))} == {"x"}


def _indices(e: Expr) -> set[Expr]:
    from autosched.ir.visit import post_order

    return {i for node in post_order(e) if node.op == "load" for i in node.args}


def test_the_same_question_has_the_same_answer(an: Analyzer) -> None:
    """What was concluded inside a proof, where less can be proven, is no answer outside."""
    first = [repr(an.simplify(e)) for e, _ in IDENTITIES] + [an.prove(q) for q in (*HOLDS, *MAY_FAIL)]
    again = [repr(an.simplify(e)) for e, _ in IDENTITIES] + [an.prove(q) for q in (*HOLDS, *MAY_FAIL)]
    backwards = Analyzer()
    backwards._ranges = dict(an._ranges)
    reverse = [backwards.prove(q) for q in reversed((*HOLDS, *MAY_FAIL))][::-1]
    assert again == first
    assert reverse == first[len(IDENTITIES) :]


def test_a_variable_goes_before_what_bounds_it() -> None:
    """`x < n - 8*(y//8)` cancels `8*(y//8)` only if x is replaced by its bound first."""
    an = Analyzer()
    y, x = var("y", role="loop"), var("x", role="loop")
    an.bind(y, 0, 87)
    an.bind(x, 0, minimum(const(32), 128 - floordiv(y, 22) * 32) - 1)
    assert an.prove(floordiv(y, 22) * 256 + x * 8 + 7 < 1024)
    assert not an.prove(floordiv(y, 22) * 256 + x * 8 + 8 < 1024)


def test_a_proof_without_the_facts_around() -> None:
    """Facts that lead nowhere do not use up the effort of a proof that needs none."""
    an = Analyzer()
    knobs = [var(name, role="knob", lower=1, upper=64) for name in ("rows", "tiles", "width")]
    rows, tiles, width = knobs
    panels = floordiv(const(1023), width) + 1
    blocks = floordiv(floordiv(const(1023), rows), tiles) + 1
    f, tile = var("f", role="loop"), var("tile", role="loop")
    an.bind(f, 0, an.poly(blocks * panels) - 1)
    an.bind(tile, 0, an.poly(tiles) - 1)
    block = floordiv(f, panels)
    fact = tiles * block + tile < floordiv(const(1023), rows) + 1
    with an.assuming(fact):
        assert an.prove(fact)
        assert an.prove((tiles * block + tile) * rows >= 0)
        assert an.prove(f - panels * block <= panels - 1)


def test_a_bound_that_came_later_than_what_it_bounds() -> None:
    """A size that stands for another one is younger than the loops whose ranges mention it."""
    q = var("q", role="size")
    an = Analyzer()
    an.assume_nonneg(to_poly(q - 1))
    an.bind(xo, 0, to_poly(q - 1))
    an.bind(xi, 0, 7)
    assert an.prove(xo * 8 + xi < q * 8)
    assert not an.prove(xo * 8 + xi < q * 8 - 1)


def test_a_quotient_times_a_number() -> None:
    """`16*(f//8) <= 112` is `f//8 <= 7`, which is more than `16*f <= 112*8` says."""
    f, o = var("f", role="loop"), var("o", role="loop")
    for last, holds in ((62, True), (63, True), (64, False)):
        an = Analyzer()
        an.bind(f, 0, last)
        assert an.prove(floordiv(f, 8) * 16 <= 112) is an.prove(floordiv(f, 8) * 16 < 116) is holds
        assert an.prove(floordiv(f, 8) * 16 >= -15) and not an.prove(floordiv(f, 8) * 16 > 0)
    an = Analyzer()
    an.bind(f, 0, 15)
    an.bind(o, 0, 3)
    tile = floordiv(f, 8) * 64 + o * 16
    assert an.simplify(minimum(tile, 112)) is an.simplify(tile)
    assert an.simplify(minimum(tile, 111)) is not an.simplify(tile)


def test_remainders_by_sizes() -> None:
    """What tells that a size is not 0 may come after the remainder was written: a loop over tiles runs."""
    f, n, j = var("f", role="loop"), var("n", role="size"), var("j", role="loop")
    tiles = floordiv(n + 23, 24)
    tile = floormod(f, tiles)
    ends = minimum(minimum(16, floordiv(n + 383, 24)), minimum(floordiv(n, 24) - tile, floordiv(n + 23, 24) - tile))
    an = Analyzer()
    an.bind(f, 0, floordiv(n + 1, 2) * tiles - 1)
    an.bind(j, 0, ends - 1)
    last = tile * 24 + j * 24 + 23
    with an.assuming(floordiv(n + 1, 2) * tiles >= 1):
        assert an.prove(n >= 1) and an.prove(tiles >= 1)
        assert an.prove(last < n) and not an.prove(last + 1 < n)


def test_a_fact_about_a_remainder_holds_for_lanes() -> None:
    f, n, j = var("f", role="loop"), var("n", role="size"), var("j", role="loop")
    tile = floormod(f, floordiv(n + 7, 8)) * 8
    an = Analyzer()
    an.bind(n, 1, None)
    an.bind(f, 0, n * n)
    an.bind(j, 0, 7)
    assert not an.prove(tile + j < n)
    with an.assuming(n - tile - 8 >= 0):
        assert an.prove(tile + j < n) and not an.prove(tile + j + 1 < n)
