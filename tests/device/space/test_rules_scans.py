"""Rules for scans: steps that look around, several states, and inputs that lie across the places of a step."""

from __future__ import annotations

import numpy as np
import pytest
from generated_spaces import LLVM, check, planned_written_out

from autosched import build, te, topi
from autosched.ir.stmt import Allocate, walk
from autosched.lowering import lower_structure
from autosched.measure.verify import allowed_error, compare
from autosched.runtime.interpreter import interpret
from autosched.space.workload import Workload
from autosched.target import Target

OPENCL = Target.parse("opencl")


def fields(n=40, steps=5, dtype="float32"):
    """Two fields on a torus, of which the second sees what the step makes of the first, and sums of neighbours."""
    u, v = te.placeholder((n, n), dtype, name="u"), te.placeholder((n, n), dtype, name="v")
    shape = (steps + 1, n, n)
    state_u, state_v = (te.placeholder(shape, dtype, name=name) for name in ("state_u", "state_v"))
    firsts = [te.compute((1, n, n), lambda _, y, x, a=a: a[y, x], name=f"first_{a.name}") for a in (u, v)]
    torus = te.repeat_image(state_u, axes=(1, 2))
    dy, dx = te.reduce_axis((-1, 2), "dy"), te.reduce_axis((-1, 2), "dx")
    around = te.compute(
        shape,
        lambda t, y, x: te.sum(torus[t - 1, y + dy, x + dx], axis=[dy, dx], where=te.any(dy != 0, dx != 0)),
        name="around",
    )
    root = te.compute(shape, lambda t, y, x: te.sqrt(te.abs(state_v[t - 1, y, x])), name="root")
    new_u = te.compute(
        shape, lambda t, y, x: state_u[t - 1, y, x] * 0.5 + around[t, y, x] * 0.05 + state_v[t - 1, x, y], name="new_u"
    )
    right = te.repeat_edge(root, axes=(2,))
    new_v = te.compute(
        shape, lambda t, y, x: right[t, y, x + 1] + right[t, y, x - 1] - new_u[t, y, x] * 0.25, name="new_v"
    )
    all_u, all_v = te.scan(firsts, [new_u, new_v], [state_u, state_v], name="fields")
    return (
        u,
        v,
        te.compute((n, n), lambda y, x: all_u[steps, y, x] + 1.0, name="last_u"),
        te.compute((n, n), lambda y, x: all_v[steps - 1, y, x] - all_v[steps, y, x], name="last_v"),
    )


def heat(n=None):
    """A rod of any length whose ends stay as they are."""
    n = te.var("n") if n is None else n
    rod, state = te.placeholder((n,), name="rod"), te.placeholder((6, n), name="state")
    first = te.compute((1, n), lambda _, i: rod[i], name="first")

    def move(t, i):
        mean = 0.5 * (state[t - 1, te.max(i - 1, 0)] + state[t - 1, te.min(i + 1, n - 1)])
        return te.if_then_else(te.all(i > 0, i < n - 1), mean, state[t - 1, i])

    made = te.scan(first, te.compute((6, n), move, name="step"), state, name="states")
    return rod, te.compute((n,), lambda i: made[5, i], name="last")


def orbit(n=24, steps=7):
    """Two states of different types, side by side; the one that counts is wanted."""
    shape = (steps, n, n)
    z, count = te.placeholder(shape, "float64", name="z"), te.placeholder(shape, "int32", name="count")
    x = te.placeholder((n, n), "float64", name="x")
    inits = [
        te.compute((1, n, n), lambda _, i, j: x[i, j], name="z0"),
        te.compute((1, n, n), lambda _, i, j: te.const(0, "int32"), name="none"),
    ]
    updates = [
        te.compute(
            shape,
            lambda t, i, j: te.select(z[t - 1, i, j] < 9, z[t - 1, i, j] ** 2 - 1.25, z[t - 1, i, j]),
            name="next",
        ),
        te.compute(shape, lambda t, i, j: count[t - 1, i, j] + (z[t - 1, i, j] > 0).astype("int32"), name="stay"),
    ]
    _, counts = te.scan(inits, updates, [z, count], name="orbit")
    return x, te.compute((n, n), lambda i, j: counts[steps - 1, i, j], name="found")


def smoothed(rows=37, columns=43, lag=0):
    """A filter along the rows of an image, then one along its columns; `lag` looks at the pixel before, too."""
    image = te.placeholder((rows, columns), name="image")
    at = te.placeholder((columns, rows), name="at")
    left = te.compute((1, rows), lambda _, y: image[y, 0], name="left")
    along = te.compute((columns, rows), lambda x, y: 0.5 * at[x - 1, y] + image[y, x] - image[y, x - lag], name="along")
    across = te.scan(left, along, at, name="across")
    above = te.placeholder((rows, columns), name="above")
    top = te.compute((1, columns), lambda _, x: across[x, 0], name="top")
    down = te.compute((rows, columns), lambda y, x: 0.5 * above[y - 1, x] + across[x, y], name="down")
    return image, te.scan(top, down, above, name="result")


def row_sums(rows=37, columns=50):
    x = te.placeholder((rows, columns), name="x")
    return x, topi.cumsum(x, axis=1)


def run_numbers(rows=37, columns=50):
    """How many runs of equal numbers have begun along each row."""
    x = te.placeholder((rows, columns), "int32", name="x")

    def begins(i, j):
        return te.if_then_else(j == 0, 1, (x[i, j] != x[i, te.max(j - 1, 0)]).astype("int32"))

    return x, topi.cumsum(te.compute((rows, columns), begins, name="begins"), axis=1)


def reversed_states(n=9, back=8):
    """Steps that read the row before from its end, of any length."""
    m = te.var("m")
    x, state = te.placeholder((n, 7, m), "int32", name="x"), te.placeholder((n, 7, m), "int32", name="state")
    first = te.compute((1, 7, m), lambda t, i, j: x[t, i, j], name="first")
    step = te.compute((n, 7, m), lambda t, i, j: te.min(state[t - 1, i, m - 1 - j], back) + x[t, i, j], name="step")
    made = te.scan(first, step, state, name="made")
    return x, te.compute((7, m), lambda i, j: made[n - 1, i, j] + 1, name="last")


def turned_twice(wanted):
    """The sums along rows, whose transposition somebody else wants, too, or everybody gets."""
    x, state = te.placeholder((20, 30), name="x"), te.placeholder((30, 20), name="state")
    turned = te.compute((30, 20), lambda t, i: x[i, t], name="turned")
    first = te.compute((1, 20), lambda _, i: turned[0, i], name="first")
    step = te.compute((30, 20), lambda t, i: state[t - 1, i] + turned[t, i], name="step")
    sums = te.scan(first, step, state, name="sums")
    return (x, sums, turned if wanted else te.compute((30, 20), lambda t, i: turned[t, i] * 2.0, name="twice"))


def across_the_step(n=24):
    """What a step computes has time along its rows, and it reads its input both ways."""
    x, state = te.placeholder((n, n), name="x"), te.placeholder((n, n), name="state")
    first = te.compute((1, n), lambda _, i: x[i, 0], name="first")
    middle = te.compute((n, n), lambda i, t: state[t - 1, i] * 0.5 + x[i, t], name="middle")
    made = te.scan(first, te.compute((n, n), lambda t, i: middle[i, t] + x[t, i], name="step"), state, name="S")
    return x, te.compute((n,), lambda i: made[n - 1, i], name="last")


def rods(count=6, n=30):
    """Many rods: they do not depend on each other, the points of one do."""
    x, state = te.placeholder((count, n), name="x"), te.placeholder((20, count, n), name="state")
    first = te.compute((1, count, n), lambda _, b, i: x[b, i], name="first")
    step = te.compute(
        (20, count, n), lambda t, b, i: 0.5 * (state[t - 1, b, i] + state[t - 1, b, te.max(i - 1, 0)]), name="step"
    )
    made = te.scan(first, step, state, name="states")
    return x, te.compute((count, n), lambda b, i: made[19, b, i], name="last")


def solved(batch=21, n=18, dtype="float32"):
    """Forward substitution with many triangles: each unknown needs all before it."""
    lower, b = te.placeholder((batch, n, n), dtype, name="lower"), te.placeholder((batch, n), dtype, name="b")
    state, k = te.placeholder((n, batch), dtype, name="state"), te.reduce_axis((0, n), "k")
    first = te.compute((1, batch), lambda _, m: b[m, 0] - lower[m, 0, 0], name="first")
    known = te.compute(
        (n, batch), lambda i, m: te.sum(lower[m, i, k] * state[te.min(k, i - 1), m], axis=k, where=k < i), name="known"
    )
    step = te.compute((n, batch), lambda i, m: (b[m, i] - known[i, m] * 0.1) + lower[m, i, i], name="step")
    found = te.scan(first, step, state, name="found")
    return lower, b, te.compute((batch, n), lambda m, i: found[i, m], name="x")


def ways(steps=6, states=21, direct=False):
    """The best way to each state in each step, and from where it comes: Viterbi's algorithm. Directly, a step is that
    alone."""
    change, seen = te.placeholder((states, states), name="change"), te.placeholder((steps, states), name="seen")
    shape, k = (steps, states), te.reduce_axis((0, states), "k")
    at, came = te.placeholder(shape, name="at"), te.placeholder(shape, "int32", name="came")
    begin = te.compute((1, states), lambda _, j: (te.const(0), seen[0, j]), name="begin")
    best = te.compute(shape, lambda t, j: te.argmax(at[t - 1, k] + change[k, j], axis=k), name="best")
    if direct:
        return change, seen, *te.scan(begin, best, [came, at], inputs=[seen], name="ways")
    step = te.compute(shape, lambda t, j: (best[0][t, j], best[1][t, j] + seen[t, j]), name="step")
    return change, seen, *te.scan(begin, step, [came, at], name="ways")


def greatest_three(steps=5, n=40):
    """In each step the three greatest of a row, to which the greatest of the step before is added, and their places."""
    x, at = te.placeholder((steps, n), name="x"), te.placeholder((steps, 3), name="at")
    row = te.compute((steps, n), lambda t, i: x[t, i] + at[t - 1, i % 3], name="row")
    found = []
    for r in range(3):
        k = te.reduce_axis((0, n), f"k{r}")

        def one(t, k=k, before=tuple(found)):
            return te.argmax(row[t, k], axis=k, where=te.all(True, *(k != place[t] for place, _ in before)))

        found.append(te.compute((steps,), one, name=f"greatest{r}"))

    def step(t, i):
        return te.select(i == 0, found[0][1][t], te.select(i == 1, found[1][1][t], found[2][1][t]))

    first = te.compute((1, 3), lambda _, i: x[0, i], name="first")
    return x, te.scan(first, te.compute((steps, 3), step, name="step"), at, inputs=[x], name="kept")


PROGRAMS = {
    "ways": ways,
    "ways alone": lambda: ways(direct=True),
    "ways of many": lambda: ways(4, 70),
    "greatest three": greatest_three,
    "solved": solved,
    "few solved": lambda: solved(7, 33, "float64"),
    "turned twice": lambda: turned_twice(False),
    "turned and wanted": lambda: turned_twice(True),
    "across the step": across_the_step,
    "rods": rods,
    "fields": fields,
    "long fields": lambda: fields(128, 2),
    "doubles": lambda: fields(17, 3, "float64"),
    "rod": lambda: heat(5000),
    "orbit": orbit,
    "smoothed": smoothed,
    "smoothed by two": lambda: smoothed(20, 18, 1),
    "sums along rows": row_sums,
    "sums along few rows": lambda: row_sums(3, 40),
    "runs": run_numbers,
    "sums of batches": lambda: (x := te.placeholder((3, 18, 33), "int32", name="x"), topi.cumsum(x, axis=2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_scans_compute_what_the_definition_says(name):
    check(PROGRAMS[name](), most=8)


@pytest.mark.parametrize("name", ["fields", "orbit", "smoothed", "sums along rows", "across the step"])
def test_kernels_compute_what_the_definition_says(name):
    args = PROGRAMS[name]()
    w = Workload("w", args)
    space = w.search_space(OPENCL, {})
    assert not space.untraced
    inputs = w.sample_inputs({})
    wanted = w.reference(inputs)
    for sketch in space.sketches[: 1 if name == "fields" else 2]:  # the interpreter takes long for all of them
        knobs = sketch.values(sketch.valid_points.rows([0])[0].tolist())
        got = [np.zeros_like(b) for b in wanted]
        interpret(sketch.structure.bind(knobs), [*inputs, *got])
        for a, b in zip(got, wanted, strict=True):
            assert not compare(a, b, *allowed_error(b, None, None)), sketch.name


def test_what_is_made_of_neighbours_along_a_row_is_turned_with_it():
    """Clamps at the border do not hide that squares of it are rows of squares."""
    plan = planned_written_out(*run_numbers())
    turned = [x for x in plan.s.stages if x.name == "T_transpose"]
    assert [x.attach.kind for x in turned] == ["at"]


def test_a_scan_along_whose_rows_a_step_looks_is_not_made_for_each_vector_of_its_reader():
    args = reversed_states()
    for sketch in Workload("w", args).search_space(LLVM, {"m": 19}).sketches:
        assert ["compute_at", "made", "last", "j.outer"] not in sketch.trace, sketch.name
    check(args, sizes={"m": 19})


@pytest.mark.parametrize("n", [1, 2, 17, 300])
def test_rods_of_any_length(n):
    check(heat(), most=3, sizes={"n": n})


def test_a_step_that_looks_around_is_in_vectors():
    plan = planned_written_out(*fields())
    assert plan.done[plan.s["fields"]] == "scan_in_steps"
    assert plan.done[plan.s["around"]] == "inline_in_a_step"  # a sum of few neighbours, written out
    assert plan.done[plan.s["root"]] == "step_in_rows"  # dear, and used twice: stored for the step
    for name in ("root", "new_u", "new_v", "first_u"):
        assert [x.kind for x in plan.s[name].loops][-1] == "vectorize", name


@pytest.mark.parametrize(("n", "ways"), [(40, None), (128, ("in parallel", "alone")), (1024, None)])
def test_threads_share_long_steps_only(n, ways):
    plan = planned_written_out(*fields(n))
    assert plan.s.choices_seen.get("fields_step") == ways
    kinds = [x.kind for x in plan.s["new_u"].loops]
    assert ("parallel" in kinds) == (n > 40)


def test_several_states_side_by_side():
    plan = planned_written_out(*orbit(), orbit_at="root")
    assert plan.done[plan.s["orbit"]] == "scan_side_by_side"
    assert plan.s["orbit"].loops[0].kind == "parallel"
    assert plan.s["next"].loops[-1].kind == plan.s["stay"].loops[-1].kind == "vectorize"


def test_inputs_that_lie_across_are_turned_for_each_strip():
    plan = planned_written_out(*smoothed())
    for copy, scan in (("image.global", "across"), ("across.global", "result")):
        assert plan.s[copy].attach.stage is plan.s[scan]
        assert [x.kind for x in plan.s[copy].loops][-2:] == ["unroll", "vectorize"]
    # what a step reads in two ways, at its own time and before, is one copy
    copies = [x.name for x in planned_written_out(*smoothed(20, 18, 1)).s.stages if x.name.endswith(".global")]
    assert copies == ["image.global", "across.global"]


def test_few_rows_are_not_turned_nor_what_is_read_both_ways():
    assert not any(x.name.endswith(".global") for x in planned_written_out(*across_the_step()).s.stages)
    assert not any(x.name.endswith(".global") for x in planned_written_out(*smoothed(9, 40)).s.stages)
    assert not any(x.name.endswith(".global") for x in planned_written_out(*smoothed(40, 9)).s.stages)


def test_sums_along_rows_go_on_block_by_block():
    """Squares of what is read and of what is stored are turned in registers, and the state stays there between them."""
    plan = planned_written_out(*row_sums())
    turned, scan, result = (plan.s[x] for x in ("T_transpose", "cumsum", "T_transpose_1"))
    assert scan.attach.loop is turned.attach.loop is result.loops[-3], "a block of times"
    assert scan.store.loop is result.loops[-4], "a strip of rows"
    body = lower_structure(plan.s, [plan.s["x"].tensor, result.tensor], LLVM).function.body
    (states,) = [x.buffer for x in walk(body) if isinstance(x, Allocate) and x.buffer.name == "cumsum"]
    assert [n.value for n in states.shape] == [9, 8], "a block, and the time before it"


def test_scans_read_backwards_are_made_at_once():
    x, reversed_sums = backward_sums()
    plan = planned_written_out(x, reversed_sums)
    assert plan.s["sums"].store.loop is None
    check((x, reversed_sums), most=4)


def backward_sums(rows=24, columns=40):
    """x[rows, columns] -> the sums of each row's first elements, the longest first."""
    x, state = te.placeholder((rows, columns), name="x"), te.placeholder((columns, rows), name="state")
    first = te.compute((1, rows), lambda _, i: x[i, 0], name="first")
    step = te.compute((columns, rows), lambda t, i: state[t - 1, i] + x[i, t], name="step")
    sums = te.scan(first, step, state, name="sums")
    return x, te.compute((rows, columns), lambda i, t: sums[columns - 1 - t, i], name="backward")


@pytest.mark.parametrize("at", ["task", "root"])
def test_sums_over_earlier_times_are_in_vectors_of_places(at):
    plan = planned_written_out(*solved(), found_at=at)
    assert plan.done[plan.s["known"]] == "sums_over_states"  # no sum of neighbours: as many terms as the time says
    assert [x.kind for x in plan.s["known"].loops][-1] == "vectorize"
    turned, scan = plan.s["lower.global"], plan.s["found"]
    assert turned.attach.loop is scan.scan_loop, "each step turns what it adds up"
    assert turned not in plan.s.reads(plan.s["first"])


def second_order(n=40, channels=300):
    """A filter of two states, of which nobody wants any time, and of its output, of which all are wanted."""
    x = te.placeholder((n, channels), name="x")
    out, low = te.placeholder((n, channels), name="out"), te.placeholder((n, channels), name="low")
    begin = [te.compute((1, channels), lambda t, i, k=k: k * x[0, i], name=f"first{k}") for k in (1, 2)]
    y = te.compute((n, channels), lambda t, i: x[t, i] + low[t - 1, i], name="y")
    kept = te.compute((n, channels), lambda t, i: 0.5 * x[t, i] - 0.25 * y[t, i] + low[t - 1, i], name="kept")
    return x, te.scan(begin, [y, kept], [out, low], name="filtered")[0]


def test_states_that_nobody_wants_stay_in_registers():
    widths = planned_written_out(*second_order()).s.knobs["filtered_width"].values
    assert max(widths) * 4 == 16 * LLVM.limits["vector_bytes"]
    x = te.placeholder((40, 300), name="x")
    assert max(planned_written_out(x, topi.cumsum(x, axis=0)).s.knobs["cumsum_width"].values) == 1024
    assert (
        planned_written_out(*orbit(steps=20)).decided["orbit_at"] == "vector"
    )  # long: only its last time is read elsewhere
    check(second_order(), most=3)


def test_rows_of_steps_that_ask_for_borders_have_several_vectors():
    for n, widths in ((16, (8,)), (64, (8, 16)), (5000, (8, 16, 32))):
        knob = planned_written_out(*heat(n)).s.knobs.get("states_lanes")
        assert (knob.values if knob else (8,)) == widths, n


def test_tiles_of_a_large_state_take_several_steps() -> None:
    """A state that no near cache holds is offered in blocks of steps, each a stage at the tiles of the last."""
    n, steps = 1100, 8
    plate, state = te.placeholder((n, n), name="plate"), te.placeholder((steps + 1, n, n), name="state")
    first = te.compute((1, n, n), lambda _, y, x: plate[y, x], name="first")
    edge = te.repeat_edge(state, axes=(1, 2))
    around = te.compute(
        (steps + 1, n, n), lambda t, y, x: edge[t - 1, y - 1, x] + edge[t - 1, y + 1, x + 1], name="around"
    )
    step = te.compute((steps + 1, n, n), lambda t, y, x: 0.5 * around[t, y, x] - 0.1 * state[t - 1, y, x], name="step")
    made = te.scan(first, step, state, name="states")
    args = plate, te.compute((n, n), lambda y, x: made[steps, y, x], name="last")
    space = check(args, most=20)
    assert {1, 2, 4} <= {s.schedule().choices_made.get("states_times") for s in space.sketches}
    small = Workload("small", heat(64)).search_space(LLVM, {})
    assert not any("states_times" in s.schedule().choices_made for s in small.sketches)
    plan = planned_written_out(*args, states_times=4)
    early = [plan.s[f"step.{n}"] for n in (1, 2, 3)]
    assert {plan.done[x] for x in early} == {"steps_in_tiles"}
    assert all(x.attach.stage is plan.s["step"] for x in early)
    assert plan.s["around.1"].attach.kind == "inline"


def test_states_are_carried_in_vectors_of_the_reader():
    """What only the last time is wanted of needs memory for one vector, where that goes through all times."""
    space = check(orbit(20, steps=20))
    sketch = next(x for x in space.sketches if x.name == "auto[orbit_at=vector]")
    body = sketch.structure.function.body
    stored = [f"{a.buffer!r}" for a in walk(body) if isinstance(a, Allocate)]
    assert stored == ["orbit.v0: float64[2, 1, found_lanes] global", "orbit.v1: int32[1, 1, found_lanes] global"]


def viterbi(states, steps=7):
    """The best way to each state in each step."""
    change, seen = te.placeholder((states, states), name="change"), te.placeholder((steps, states), name="seen")
    at, k = te.placeholder((steps, states), name="at"), te.reduce_axis((0, states), "k")
    first = te.compute((1, states), lambda _, j: seen[0, j], name="first")
    best = te.compute((steps, states), lambda t, j: te.max(at[t - 1, k] + change[k, j], axis=k), name="best")
    step = te.compute((steps, states), lambda t, j: best[t, j] + seen[t, j], name="step")
    return change, seen, te.scan(first, step, at, inputs=[change, seen], name="way")


def test_places_and_values_of_the_greatest_stay_in_registers_together():
    plan = planned_written_out(*ways(20, 64))
    tile = plan.s["best.local"]
    assert plan.done[plan.s["best"]] == "products_in_a_step"
    assert [x.kind for x in tile.loops][-2:] == ["unroll", "vectorize"]
    assert 2 * 2 * max(plan.s.knobs["best_vectors"].values) <= LLVM.limits["vector_registers"]
    plan = planned_written_out(*greatest_three(5, 400))
    assert plan.done[plan.s["greatest0"]] == "lanes_in_a_step"


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
@pytest.mark.parametrize("effort", ["none", "quick"])
def test_steps_may_keep_what_is_as_long_as_only_the_call_tells(target, effort):
    """A device gives a work-item no such storage; where it is alone, the host does."""
    work = Workload("viterbi", viterbi(te.var("n")))
    module = build(work, target, effort=effort)
    for n in (1, 6, 70):
        change, seen = work.sample_inputs({"n": n})
        np.testing.assert_allclose(module(change, seen), work.reference([change, seen])[0], rtol=1e-6)


@pytest.mark.parametrize("is_cpu", [0, 1])
def test_sketches_of_such_steps_have_points(is_cpu):
    """On GPUs the host runs the loop over time, and has the memory of what a step keeps."""
    target = Target("opencl").with_limits(is_cpu=is_cpu, compute_units=2)
    space = Workload("viterbi", viterbi(te.var("n"))).search_space(target, {"n": 64}, "auto")
    assert any(s.valid_points.count for s in space.sketches)


def states_of_channels(times, channels, states=4):
    """For each channel a few states, and their sum, with the input added."""
    x, decay = te.placeholder((times, channels), name="x"), te.placeholder((channels, states), name="decay")
    at, k = te.placeholder((times, channels, states), name="at"), te.reduce_axis((0, states), "k")
    first = te.compute((1, channels, states), lambda _, c, s: x[0, c], name="first")
    step = te.compute((times, channels, states), lambda t, c, s: decay[c, s] * at[t - 1, c, s] + x[t, c], name="step")
    states_ = te.scan(first, step, at, inputs=[x, decay], name="states")
    total = te.compute((times, channels), lambda t, c: te.sum(states_[t, c, k], axis=k), name="total")
    return x, decay, te.compute((times, channels), lambda t, c: total[t, c] + x[t, c], name="y")


@pytest.mark.parametrize("channels", [te.var("channels"), 5], ids=["open", "known"])
def test_steps_made_where_they_are_read_are_written_out_only_where_their_length_is_known(channels):
    """All channels of a row may be needed there."""
    sizes = {"times": 20} | ({} if isinstance(channels, int) else {"channels": 5})
    check(states_of_channels(te.var("times"), channels), most=20, sizes=sizes)
