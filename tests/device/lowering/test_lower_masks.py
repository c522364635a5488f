"""Masks over indices: loops visit what they let through, and only what is left of them is asked for."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from autosched import te
from autosched.ir.conclusions import Memory
from autosched.ir.dtype import dtype
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, compare, const, likely, var, variables
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, For, If, Let, Prefetch, Stmt, Store, load, seq, walk
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.lowering.masks import FEW, choose_lanes, cut_masks, lift_conditions
from autosched.schedule import Schedule, create_schedule
from autosched.testing.oracle import check_against_reference

ROWS, COLUMNS, DEPTH = 20, 32, 24

MASKS = {
    "lower": lambda i, j, k: k <= i,
    "above": lambda i, j, k: k > i,
    "of columns": lambda i, j, k: j <= i,
    "band": lambda i, j, k: te.all(k >= i - 3, k < i + 5),
    "from the end": lambda i, j, k: i + k < ROWS,
    "steep": lambda i, j, k: 2 * k <= 3 * i - 4,
    "never": lambda i, j, k: k > i + DEPTH,
    "always": lambda i, j, k: k <= i + DEPTH,
    "of all": lambda i, j, k: i + j >= 2 * k,
    "of halves": lambda i, j, k: k // 2 <= i // 3,
    "of data": lambda i, j, k: k <= i % 5,
    "of remainders": lambda i, j, k: te.all(k <= te.min(i, j), (k + i) % 3 != 1),
}


def masked(name: str) -> tuple[list[te.Tensor], te.Tensor]:
    a, b = te.placeholder((ROWS, DEPTH), name="a"), te.placeholder((DEPTH, COLUMNS), name="b")
    k = te.reduce_axis((0, DEPTH), "k")
    where = MASKS[name]
    c = te.compute((ROWS, COLUMNS), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k, where=where(i, j, k)), name="c")
    return [a, b, c], c


def tiled(c: te.Tensor, rows: int, lanes: int, steps: int, blocked: bool) -> Schedule:
    """Tiles of sums in storage of their own, as rules make them."""
    s = create_schedule(c)
    sums = s.cache_write(c, "local")
    i, j = s[c].loops
    (io, ii), (jo, ji) = s[c].split(i, factor=rows), s[c].split(j, factor=lanes)
    s[c].reorder(io, jo, ii, ji)
    s[c].parallel(io)
    s[c].vectorize(ji)
    s[sums].compute_at(s[c], jo)
    i, j, k = s[sums].loops
    ko, ki = s[sums].split(k, factor=steps)
    outer, inner = s[sums].split(i, factor=2) if blocked else (None, i)
    s[sums].reorder(*([ko, outer, ki] if outer is not None else [ko, ki]), inner, j)
    s[sums].unroll(inner)
    s[sums].vectorize(j)
    return s


@pytest.mark.parametrize("name", MASKS)
def test_masked_sums_are_what_they_are(name: str) -> None:
    rng, values = random.Random(name), np.random.default_rng(1)
    inputs = [values.integers(-4, 5, shape).astype("float32") for shape in ((ROWS, DEPTH), (DEPTH, COLUMNS))]
    args, c = masked(name)
    schedules = [create_schedule(c)]
    for blocked in (False, True, False, True):
        sizes = rng.choice((2, 3, 4, 6)), rng.choice((8, 16)), rng.choice((1, 4, 5))
        schedules.append(tiled(c, *sizes, blocked))
    for s in schedules:
        for backend in ("native", "interpreter"):
            check_against_reference(args, s, "llvm", inputs, backend)


def loops_over(s: Stmt, name: str) -> list[For]:
    return [x for x in walk(s) if isinstance(x, For) and x.var.name.startswith(name)]


def asks(s: Stmt) -> bool:
    return any(isinstance(x, If) for x in walk(s)) or any(
        e.op == "select" for x in walk(s) if isinstance(x, Store) for e in post_order(x.value)
    )


def test_tiles_below_the_diagonal_ask_nothing_and_those_above_are_not_visited() -> None:
    args, c = masked("lower")
    f = lower_structure(tiled(c, 4, 16, 1, blocked=False), args, "llvm").after("masks")
    clean, left = loops_over(f.body, "k")
    assert not asks(clean) and asks(left)
    last = left.start + left.extent
    for tile in range(ROWS // 4):
        found = [int(evaluate([e], {v: tile for v in post_order(e) if v.op == "var"})[0]) for e in (clean.extent, last)]
        assert tuple(found) == (4 * tile + 1, 4 * tile + 4)


def test_a_tile_beside_the_mask_is_left_out_and_one_across_it_chooses() -> None:
    args, c = masked("of columns")
    f = lower_structure(tiled(c, 4, 16, 1, blocked=False), args, "llvm").after("masks")
    clean, across = loops_over(f.body, "k")
    assert not asks(clean)
    stores = [x for x in walk(across) if isinstance(x, Store)]
    assert all(x.value.op == "select" for x in stores) and not any(isinstance(x, If) for x in walk(across))
    around = [x for x in walk(f.body) if isinstance(x, If) and x.otherwise is None]
    assert around, "above the diagonal nothing is done"


# -- what must not be cut, nor chosen --------------------------------------------------------------
K, X, T = (var(name, role="loop") for name in "kxt")
DATA, OUT = (Buffer(name, (const(16),), dtype("float32")) for name in ("data", "out"))


def adding(at: Expr, read: Expr) -> Stmt:
    return Store(OUT, (at,), load(OUT, at) + load(DATA, read))


def ran(s: Stmt) -> np.ndarray:
    """What statements add to zeros: by Python, loop by loop."""
    data, out = np.arange(16.0) + 1, np.zeros(16)

    def run(s: Stmt, env: dict[Expr, int]) -> None:
        if isinstance(s, For):
            start, n = (int(evaluate([e], env)[0]) for e in (s.start, s.extent))
            for at in range(start, start + n):
                run(s.body, {**env, s.var: at})
        elif isinstance(s, If):
            branch = s.then if evaluate([s.condition], env)[0] else s.otherwise
            if branch is not None:
                run(branch, env)
        elif isinstance(s, Let):
            run(s.body, {**env, s.var: int(evaluate([s.value], env)[0])})
        elif isinstance(s, Store):
            read = [e for e in post_order(s.value) if e.op == "load" and e.value is DATA]
            out[int(evaluate([s.indices[0]], env)[0])] += data[int(evaluate([read[0].args[0]], env)[0])]
        else:
            for c in s.stmts:
                run(c, env)

    run(s, {})
    return out


def test_pieces_of_a_loop_that_share_their_variable_have_ranges_of_their_own() -> None:
    pieces = [For(X, const(a), const(n), "serial", If(X <= K, adding(X, K))) for a, n in ((0, 2), (9, 3))]
    loop = For(K, const(0), const(11), "serial", seq(*pieces))
    assert ran(cut_masks(loop, Analyzer())).tolist() == ran(loop).tolist()


def test_what_is_done_beside_a_mask_is_done_always() -> None:
    inside = For(X, const(0), const(4), "serial", seq(If(X <= K, adding(X, K)), adding(X + 4, X)))
    loop = For(K, const(0), const(8), "serial", inside)
    assert ran(cut_masks(loop, Analyzer())).tolist() == ran(loop).tolist()


def test_a_choice_does_something_on_both_sides() -> None:
    loop = For(K, const(0), const(8), "serial", If(K < 3, adding(K, K), adding(const(9), K)))
    assert ran(cut_masks(loop, Analyzer())).tolist() == ran(loop).tolist()


def test_a_condition_on_what_is_let_inside_is_asked_inside() -> None:
    twice = var("twice", role="let")
    loop = For(K, const(0), const(8), "serial", Let(twice, K * 2, If(twice <= 5, adding(K, K))))
    assert ran(cut_masks(loop, Analyzer())).tolist() == ran(loop).tolist()


def test_a_condition_on_what_the_loop_changes_is_asked_each_time() -> None:
    last = Buffer("last", (const(1),), dtype("int32"))
    loop = For(K, const(0), const(8), "serial", If(load(last, const(0)) >= K, Store(last, (const(0),), K - 1)))
    assert repr(cut_masks(loop, Analyzer())) == repr(loop)


def test_a_loop_of_few_iterations_is_asked_in_each() -> None:
    few, more = (For(K, const(0), const(FEW + n), "serial", If(X >= K, adding(K, K))) for n in (0, 1))
    assert repr(cut_masks(few, Analyzer())) == repr(few)
    assert repr(cut_masks(more, Analyzer())) != repr(more)


def test_no_loop_is_cut_where_the_steps_of_proofs_have_run_out() -> None:
    loop = For(K, const(0), const(40), "serial", If(X >= K, adding(K, K)))
    assert repr(cut_masks(loop, Analyzer())) != repr(loop)
    assert repr(cut_masks(loop, Analyzer(Memory(0)))) == repr(loop)


def test_a_condition_that_a_loop_does_not_change_is_asked_around_it() -> None:
    loop = For(X, const(0), const(4), "unroll", If((K + T) % 3 != 1, adding(X, K)))
    lifted = lift_conditions(For(K, const(0), const(9), "serial", loop))
    assert isinstance(lifted, For) and isinstance(lifted.body, If) and isinstance(lifted.body.then, For)
    both = For(X, const(0), const(4), "vectorize", If(((K + T) % 3 != 1) & (X < K), adding(X, K)))
    around = lift_conditions(both)
    assert isinstance(around, If) and X not in variables(around.condition)
    assert isinstance(around.then, For) and repr(around.then.body) == repr(If(X < K, adding(X, K)))


@pytest.mark.parametrize(
    "loop",
    [
        For(X, const(0), K, "serial", If(load(DATA, K) > 0.0, adding(X, X))),  # K may be outside where X has no values
        For(X, const(0), const(4), "serial", If(load(OUT, K) < 1.0, adding(X, X))),  # asks what the loop changes
        For(X, const(0), const(4), "serial", If(K < 3, adding(X, X), adding(X, K))),
        For(X, const(0), const(4), "parallel", If(K < 3, adding(X, X))),
        For(X, const(0), const(4), "serial", seq(If(K < 3, adding(X, X)), adding(X, K))),
    ],
)
def test_a_condition_stays_where_asking_it_once_would_be_wrong(loop: For) -> None:
    assert repr(lift_conditions(loop)) == repr(loop)


def lanes(body: Stmt) -> For:
    return For(X, const(0), const(8), "vectorize", body)


def test_lanes_choose_where_all_may_be_read() -> None:
    chosen = choose_lanes(lanes(If(X < K, adding(X, X + 8))), Analyzer())
    assert isinstance(chosen, For) and isinstance(chosen.body, Store) and chosen.body.value.op == "select"


@pytest.mark.parametrize(
    "body",
    [
        If(X < K, adding(X, X + 9)),  # beyond the end in the last lane
        If(X < K, adding(X - 1, X)),  # before the beginning in the first
        If(likely(X < K), adding(X, X)),  # beyond a ragged end
        If(load(OUT, X) < 1.0, adding(X, X)),  # asks what it changes
        If(X < K, Store(OUT, (X,), (load(DATA, X).astype("int32") // K).astype("float32"))),  # K may be 0
        If(X < K, adding(X, X), adding(X, X + 1)),
    ],
)
def test_lanes_do_not_choose_where_that_would_be_wrong(body: If) -> None:
    assert repr(choose_lanes(lanes(body), Analyzer())) == repr(lanes(body))


def test_lanes_write_back_only_what_no_other_task_writes() -> None:
    """Each task writes elements of its own, which its mask says."""
    loop = For(T, const(0), const(2), "parallel", lanes(If(X // 4 <= T, adding(X, X))))
    assert repr(choose_lanes(loop, Analyzer())) == repr(loop)


@pytest.mark.parametrize("task", [X + 8 * T, T], ids=["in elements of its own", "in another dimension"])
def test_lanes_write_back_what_is_apart_from_other_tasks(task: Expr) -> None:
    out = Buffer("out", (const(2), const(16)), dtype("float32"))
    place = (T, X) if task is T else (const(0), task)
    add = Store(out, place, load(out, *place) + 1.0)
    loop = For(T, const(0), const(2), "parallel", lanes(If(X < K, add)))
    assert "select" in repr(choose_lanes(loop, Analyzer()))
    crowd = For(var("u"), const(0), const(2), "parallel", loop)  # tasks of tasks, which agree about the place
    assert repr(choose_lanes(crowd, Analyzer())) == repr(crowd)


@pytest.mark.parametrize("open_", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_lanes_choose_what_data_leave_out(target: str, open_: bool) -> None:
    """In ragged tiles, too: the last one has a loop of its own, and the others lie inside."""
    n = te.var("n") if open_ else 45
    x, y, k = te.placeholder((n, 3), name="x"), te.placeholder((n,), name="y"), te.reduce_axis((0, n), "k")
    c = te.compute((n,), lambda i: te.sum(y[k] * x[i, 1], axis=k, where=x[i, 0] < x[k, 2]), name="c")
    s = create_schedule(c)
    sums = s.cache_write(c, "local")
    io, ii = s[c].split(s[c].loops[0], factor=16)
    s[c].bind(io, "blockIdx.x") if target == "opencl" else s[c].parallel(io)
    s[c].vectorize(ii)
    s[sums].compute_at(s[c], io)
    i, k_ = s[sums].loops
    s[sums].reorder(k_, i)
    s[sums].vectorize(i)
    body = lower_structure(s, [x, y, c], target).after("masks").body
    data = [y for y in walk(body) if isinstance(y, If) and any(e.op == "load" for e in post_order(y.condition))]
    whole = [y for y in walk(body) if isinstance(y, For) and y.kind == "vectorize"]
    assert whole and not any(y in walk(loop) for y in data for loop in whole)
    rng = np.random.default_rng(3)
    given = [rng.integers(-3, 4, (45, 3)).astype("float32"), rng.integers(-3, 4, 45).astype("float32")]
    for backend in ("native", "interpreter"):
        check_against_reference([x, y, c], s, target, given, backend)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rows", "chooses"), [(64, True), (512, False)])
def test_sums_in_a_near_cache_choose_too(rows: int, chooses: bool) -> None:
    """Farther away, what a jump leaves out is dearer than the jump."""
    z, y, k = (
        te.placeholder((rows, 9), "uint8", name="z"),
        te.placeholder((9, 32), name="y"),
        te.reduce_axis((0, 9), "k"),
    )
    c = te.compute((rows, 32), lambda i, j: te.sum(y[k, j], axis=k, where=z[i, k] > 0), name="c")
    s = create_schedule(c)
    sums = s.cache_write(c, "local")
    s[sums].compute_at(s[c], s[c].split(s[c].loops[0], factor=rows)[0])
    i, j, k = s[sums].loops
    s[sums].reorder(k, i, j)
    s[sums].vectorize(j)
    body = lower_structure(s, [z, y, c], "llvm").after("masks").body
    asked = [b for b in walk(body) if isinstance(b, If) and any(e.op == "load" for e in post_order(b.condition))]
    assert bool(asked) is not chooses


@pytest.mark.parametrize("whose", ["steps", "rows"])
@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_sums_in_registers_choose_what_data_say_for_all_lanes(target: str, whose: str) -> None:
    """In each step: what data say of a whole row is asked around its steps, by compilers, and jumps are seldom wrong."""
    x, y = te.placeholder((12, 9), name="x"), te.placeholder((9, 32), name="y")
    z, k = te.placeholder((12, 9), "uint8", name="z"), te.reduce_axis((0, 9), "k")
    c = te.compute(
        (12, 32),
        lambda i, j: te.sum(x[i, k] * y[k, j], axis=k, where=(z[i, k] if whose == "steps" else z[i, 0]) > 0),
        name="c",
    )
    s = create_schedule(c)
    sums = s.cache_write(c, "local")
    i, j = s[c].loops
    io, ii = s[c].split(i, factor=4)
    jo, ji = s[c].split(j, factor=16)
    s[c].reorder(io, jo, ii, ji)
    s[c].vectorize(ji)
    s[sums].compute_at(s[c], jo)
    ic, jc, kc = s[sums].loops
    s[sums].reorder(kc, ic, jc)
    s[sums].unroll(ic)
    s[sums].vectorize(jc)
    body = lower_structure(s, [x, y, z, c], target).after("masks").body
    asked = [b for b in walk(body) if isinstance(b, If) and any(e.op == "load" for e in post_order(b.condition))]
    assert bool(asked) == (whose == "rows")
    rng = np.random.default_rng(5)
    given = [rng.integers(-3, 4, shape).astype("float32") for shape in ((12, 9), (9, 32))]
    given = [*given, rng.integers(0, 2, (12, 9)).astype("uint8")]
    given[1][3, 5], given[2][:, 3] = np.inf, 0  # which 0 * inf would make NaN of
    for backend in ("native", "interpreter"):
        check_against_reference([x, y, z, c], s, target, given, backend)  # type: ignore[arg-type]


def test_lanes_choose_beside_a_prefetch() -> None:
    """What is asked for ahead is never read, so it may be asked for whether the condition holds or not."""
    x, k = te.placeholder((24, 64), name="x"), te.reduce_axis((0, 64), "k")
    taken = te.placeholder((24,), "int32", name="taken")
    c = te.compute((24,), lambda i: te.sum(x[i, k], axis=k, where=k != taken[i]), name="c")
    s = create_schedule(c)
    s[c].split("k", factor=8)
    s.rfactor(c, "k.inner", factor_axis=-1)
    s["c.rf"].vectorize("k.inner")
    s["c.rf"].compute_at(s[c], "i")
    s[c].prefetch(x, "i", 1)
    body = lower_structure(s, [x, taken, c], "llvm").bind().body
    assert any(isinstance(y, Prefetch) for y in walk(body))
    assert not any(isinstance(y, If) for y in walk(body))
    given = [np.arange(24 * 64, dtype="float32").reshape(24, 64), np.arange(24, dtype="int32")]
    for backend in ("native", "interpreter"):
        check_against_reference([x, taken, c], s, "llvm", given, backend)  # type: ignore[arg-type]


# -- ends that data say ----------------------------------------------------------------------------


def rows_of_data(kind: str) -> tuple[list[te.Tensor], te.Tensor]:
    """Products with rows of a sparse matrix: of values, whose columns stand beside, between places that data say."""
    values, columns = te.placeholder((90,), name="values"), te.placeholder((90,), "int32", name="columns")
    begins = te.placeholder((ROWS + 1,), kind, name="begins")
    dense = te.placeholder((DEPTH, COLUMNS), name="dense")
    e = te.reduce_axis((0, 90), "e")

    def element(i: Expr, j: Expr) -> Expr:
        at = begins[i] + e
        product = values[te.min(at, 89)] * dense[columns[te.min(at, 89)], j]
        return te.sum(product, axis=e, where=e < begins[i + 1] - begins[i])

    out = te.compute((ROWS, COLUMNS), element, name="out")
    return [values, columns, begins, dense, out], out


SCHEDULES = {
    "plain": lambda s, i, j, e: None,
    "columns in vectors": lambda s, i, j, e: (s.reorder(i, e, j), s.vectorize(j)),
    "rows in vectors": lambda s, i, j, e: (s.reorder(j, i), s.vectorize(s.split(i, factor=8)[1])),
    "rows inside": lambda s, i, j, e: s.reorder(e, i, j),
    "rows side by side": lambda s, i, j, e: (
        ii := s.split(i, factor=4)[1],
        s.reorder(e, ii, j),
        s.unroll(ii),
    ),
    "values in vectors": lambda s, i, j, e: s.vectorize(s.split(e, factor=8)[1]),
}


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
def test_rows_as_long_as_data_say(name: str, kind: str) -> None:
    rng = np.random.default_rng(2)
    lengths = np.array([0, 9, 1, 0, 20, *rng.integers(0, 5, ROWS - 5)])
    begins = np.concatenate([[0], lengths.cumsum()]).astype(kind)
    assert begins[-1] <= 90
    inputs = [
        rng.integers(-4, 5, 90).astype("float32"),
        rng.integers(0, DEPTH, 90).astype("int32"),
        begins,
        rng.integers(-4, 5, (DEPTH, COLUMNS)).astype("float32"),
    ]
    args, out = rows_of_data(kind)
    s = create_schedule(out)
    i, j, e = s[out].loops
    SCHEDULES[name](s[out], i, j, e)
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", inputs, backend)


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_rows_between_places_that_data_say(kind: str) -> None:
    """Both ends are data, and what is the same for inner loops is asked once."""
    begins, values = te.placeholder((ROWS + 1,), kind, name="begins"), te.placeholder((40, COLUMNS), name="values")
    chosen = te.placeholder((ROWS,), kind, name="chosen")
    k = te.reduce_axis((0, 40), "k")
    out = te.compute(
        (ROWS, COLUMNS),
        lambda i, j: te.sum(
            values[k, j], axis=k, where=te.all(k >= begins[i], k < begins[i + 1], chosen[i] > 0, chosen[i] < 2)
        ),
        name="out",
    )
    rng = np.random.default_rng(4)
    inputs = [
        np.sort(rng.integers(-2, 43, ROWS + 1)).astype(kind),
        rng.integers(-4, 5, (40, COLUMNS)).astype("float32"),
        rng.integers(-1, 3, ROWS).astype(kind),
    ]
    for outer in (False, True):
        s = create_schedule(out)
        i, j, e = s[out].loops
        if outer:
            s[out].reorder(i, e, j)
        for backend in ("native", "interpreter"):
            check_against_reference([begins, values, chosen, out], s, "llvm", inputs, backend)


def test_a_row_is_visited_as_far_as_its_data_say() -> None:
    args, out = rows_of_data("int32")
    f = lower_structure(create_schedule(out), args, "llvm").after("masks")
    (loop,) = loops_over(f.body, "e")
    (end,) = (x for x in walk(f.body) if isinstance(x, Let))
    assert end.var in post_order(loop.extent) and end.var.name == "e.end" and not asks(loop)
    assert sum(x.op == "load" for x in post_order(end.value)) == 2


ENDS, LAST = (Buffer(name, (const(16),), dtype("int32")) for name in ("ends", "last"))


@pytest.mark.parametrize(
    ("end", "before"),
    [
        (load(ENDS, X - 1), True),
        (load(ENDS, X), False),  # outside in the last row, if that has any iteration
        (load(LAST, X - 1), False),  # the loop writes it
        (load(ENDS, K), False),  # another one in each iteration
        (te.truncdiv(load(ENDS, const(0)), load(ENDS, const(1))), False),  # it may divide by zero
    ],
    ids=["inside", "outside", "written", "not the same", "divides"],
)
def test_ends_are_read_before_the_loop_only_where_nothing_can_go_wrong(end: Expr, before: bool) -> None:
    body = If(compare("lt", K, end), Store(LAST, (K,), K))
    s = For(X, const(1), const(16), "serial", For(K, const(0), const(16), "serial", body))
    assert any(isinstance(x, Let) for x in walk(cut_masks(s, Analyzer()))) == before


@pytest.mark.parametrize("near_the_end", [False, True])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "int64"])
@pytest.mark.parametrize("name", ["plain", "columns in vectors", "rows side by side", "values in vectors"])
def test_a_sum_of_data_and_an_index_ends_a_row(name: str, kind: str, near_the_end: bool) -> None:
    """`begins[i] + e` wraps in its type, which the loop must ask for where it may."""
    begins, values = (
        te.placeholder((ROWS + 1,), kind, name="begins"),
        te.placeholder((40, COLUMNS), "int32", name="values"),
    )
    e = te.reduce_axis((0, 40), "e")
    out = te.compute(
        (ROWS, COLUMNS), lambda i, j: te.sum(values[e, j], axis=e, where=begins[i] + e < begins[i + 1]), name="out"
    )
    s = create_schedule(out)
    SCHEDULES[name](s[out], *s[out].loops)
    rng = np.random.default_rng(5)
    places = np.sort(rng.integers(0, 60, ROWS + 1)) + (np.iinfo(kind).max - 60 if near_the_end else 0)
    inputs = [places.astype(kind), rng.integers(-4, 5, (40, COLUMNS)).astype("int32")]
    args = [begins, values, out]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", inputs, backend)
    if name == "plain":
        loops = loops_over(lower_structure(s, args, "llvm").after("masks").body, "e")
        assert [any(x.value.role == "let" for x in variables(loop.extent)) for loop in loops] == [True, False]


@pytest.mark.parametrize("nowhere", [-1, 12])
@pytest.mark.parametrize("choose", [te.select, te.if_then_else])
def test_columns_of_a_scatter_end_where_points_have_no_place(choose: Callable[..., Expr], nowhere: int) -> None:
    begins, at = te.placeholder((ROWS + 1,), "int32", name="begins"), te.placeholder((90,), "int32", name="at")
    i, k = te.reduce_axis((0, ROWS), "i"), te.reduce_axis((0, 16), "k")

    def put() -> tuple[Expr, Expr]:
        place = te.min(begins[i] + k, 89)
        return choose(begins[i] + k < begins[i + 1], at[place], nowhere), place + 1

    out = te.scatter_reduce((12,), put, axis=[i, k], name="out")
    s, args = create_schedule(out), [begins, at, out]
    loops = loops_over(lower_structure(s, args, "llvm").after("masks").body, "k")
    assert any(x.value.role == "let" for x in variables(loops[0].extent))
    rng = np.random.default_rng(6)
    inputs = [np.sort(rng.integers(0, 88, ROWS + 1)).astype("int32"), rng.integers(-2, 14, 90).astype("int32")]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", inputs, backend)
