"""Rules for reductions in the steps of a scan, as in networks that go on from their last state."""

from __future__ import annotations

import pytest
from generated_spaces import check, planned_written_out

from autosched import te


def cells(steps=20, inputs=24, states=40, *, turned=False, batch=0, dtype="float32"):
    """h[t] = tanh(W x[t] + U h[t-1]), of one sequence or of a batch of them; `turned` is U with its sums along
    columns."""
    b = (batch,) if batch else ()
    x, w = te.placeholder((steps, *b, inputs), dtype, name="x"), te.placeholder((states, inputs), dtype, name="w")
    u, h = te.placeholder((states, states), dtype, name="u"), te.placeholder((steps, *b, states), dtype, name="h")
    k, m = te.reduce_axis((0, inputs), "k"), te.reduce_axis((0, states), "m")
    begin = te.compute((1, *b, states), lambda *i: te.const(0.25, dtype), name="begin")
    fed = te.compute((steps, *b, states), lambda *i: te.sum(w[i[-1], k] * x[(*i[:-1], k)], axis=k), name="fed")

    def weighted(t, *i):
        return te.sum((u[m, i[-1]] if turned else u[i[-1], m]) * h[(t - 1, *i[:-1], m)], axis=m)

    kept = te.compute((steps, *b, states), weighted, name="kept")
    update = te.compute((steps, *b, states), lambda *i: te.tanh(fed[i] * 0.1 + kept[i] * (0.5 / states)), name="update")
    return x, w, u, te.scan(begin, update, h, name="cells")


def gates(steps=18, states=33):
    """Two states, and the sums of all gates at once."""
    x, u = te.placeholder((steps, 3, states), name="x"), te.placeholder((3, states, states), name="u")
    h, c = (te.placeholder((steps, states), name=name) for name in "hc")
    k = te.reduce_axis((0, states), "k")
    begin = [te.compute((1, states), lambda t, i: te.const(0.0, "float32"), name=name) for name in ("h0", "c0")]
    sums = te.compute(
        (steps, 3, states), lambda t, g, i: te.sum(u[g, i, k] * h[t - 1, k] * (0.5 / states), axis=k), name="sums"
    )
    new_c = te.compute(
        (steps, states),
        lambda t, i: te.sigmoid(sums[t, 0, i] + x[t, 0, i]) * c[t - 1, i] + te.tanh(sums[t, 1, i] + x[t, 1, i]),
        name="new_c",
    )
    new_h = te.compute((steps, states), lambda t, i: te.sigmoid(sums[t, 2, i] + x[t, 2, i]) * new_c[t, i], name="new_h")
    return x, u, te.scan(begin, [new_h, new_c], [h, c], name="gates")[0]


def power(n=37, steps=17, dtype="float32"):
    """x <- A x / |A x|: the last one."""
    a, x0 = te.placeholder((n, n), dtype, name="a"), te.placeholder((n,), dtype, name="x0")
    x = te.placeholder((steps, n), dtype, name="x")
    k, m = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "m")
    begin = te.compute((1, n), lambda t, i: x0[i], name="begin")
    ax = te.compute((steps, n), lambda t, i: te.sum(a[i, k] * x[t - 1, k], axis=k), name="ax")
    norm = te.compute((steps,), lambda t: te.sum(ax[t, m] * ax[t, m], axis=m), name="norm")
    update = te.compute((steps, n), lambda t, i: ax[t, i] / te.sqrt(norm[t] + 1.0), name="update")
    made = te.scan(begin, update, x, name="states")
    return a, x0, te.compute((n,), lambda i: made[steps - 1, i], name="last")


def chain(n=50, steps=20, dtype="float32"):
    """A Markov chain, whose state itself is a sum, and so is the first one."""
    p, x0 = te.placeholder((n, n), dtype, name="p"), te.placeholder((n,), dtype, name="x0")
    x, k, m = te.placeholder((steps, n), dtype, name="x"), te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "m")
    begin = te.compute((1, n), lambda t, i: te.sum(p[m, i] * x0[m], axis=m), name="begin")
    update = te.compute((steps, n), lambda t, i: te.sum(p[k, i] * x[t - 1, k], axis=k), name="update")
    made = te.scan(begin, update, x, name="states")
    return p, x0, te.compute((n,), lambda i: made[steps - 1, i], name="last")


def squares(n=20, steps=17):
    """Products of matrices, to the power of what a step has: both operands are made in the scan."""
    a, x = te.placeholder((n, n), name="a"), te.placeholder((steps, n, n), name="x")
    k = te.reduce_axis((0, n), "k")
    begin = te.compute((1, n, n), lambda t, i, j: a[i, j], name="begin")
    update = te.compute(
        (steps, n, n), lambda t, i, j: te.sum(x[t - 1, i, k] * x[t - 1, j, k] * 0.01, axis=k), name="update"
    )
    return a, te.scan(begin, update, x, name="states")


PROGRAMS = {
    "cells": cells,
    "cells, turned": lambda: cells(turned=True),
    "a long row": lambda: cells(18, 20, 300),
    "few steps": lambda: cells(5),
    "doubles": lambda: cells(17, 20, 19, dtype="float64"),
    "batch": lambda: cells(batch=7),
    "batch, turned": lambda: cells(turned=True, batch=20),
    "gates": gates,
    "power": power,
    "power of doubles": lambda: power(70, 4, "float64"),
    "chain": chain,
    "chain of integers": lambda: chain(33, 18, "int32"),
    "squares": squares,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_steps_compute_what_the_definition_says(name):
    check(PROGRAMS[name](), most=6)


def test_weights_that_lie_across_are_turned_once():
    plan = planned_written_out(*cells())
    assert plan.done[plan.s["kept"]] == "products_in_a_step"
    turned = plan.s["u.global"]
    assert turned.attach.kind == "root" and plan.s.scans.step_of(turned) is None
    assert [x.kind for x in plan.s["kept.local"].loops][-1] == "vectorize"
    # nor are they where they lie along the states already, nor in few steps, whose rows are added up in lanes
    assert "u.global" not in {x.name for x in planned_written_out(*cells(turned=True)).s.stages}
    few = planned_written_out(*cells(5))
    assert "u.global" not in {x.name for x in few.s.stages}
    assert few.done[few.s["kept"]] == "lanes_in_a_step"


def test_what_the_state_has_no_part_in_is_made_before_the_scan():
    plan = planned_written_out(*cells())
    assert plan.done[plan.s["fed"]] == "multi_level_tiling"
    assert plan.s["fed"].attach.kind == "root"


def test_a_state_that_is_a_sum_has_sums_of_its_own():
    plan = planned_written_out(*chain())
    assert plan.done[plan.s["update"]] == plan.done[plan.s["begin"]] == "sums_before_the_state"
    assert plan.done[plan.s["update.global"]] == "products_in_a_step"
    assert plan.s.scans.step_of(plan.s["begin.global"]) is None


def test_a_norm_is_added_up_in_lanes():
    plan = planned_written_out(*power(70))
    assert plan.done[plan.s["norm"]] == "lanes_in_a_step"
    assert [x.kind for x in plan.s["norm.rf"].loops][-1] == "vectorize"


def test_sequences_of_a_batch_take_steps_together():
    plan = planned_written_out(*cells(batch=20), cells_at="root")
    assert plan.done[plan.s["cells"]] == "scan_side_by_side"
    assert [x.name for x in plan.s["cells"].loops][-2:] == ["cells.i1.inner", "cells.i2"]
    assert "parallel" not in {x.kind for x in plan.s["kept"].loops}
    assert [x.kind for x in plan.s["kept"].loops][-3:] == ["unroll", "unroll", "vectorize"]


@pytest.mark.parametrize(("states", "ways"), [(40, None), (500, ("in parallel", "alone")), (3000, None)])
def test_threads_share_long_products_and_not_what_is_done_with_them(states, ways):
    plan = planned_written_out(*cells(20, 20, states))
    assert plan.s.choices_seen.get("cells_step") == ways
    assert ("parallel" in {x.kind for x in plan.s["kept"].loops}) == (states > 40)
    assert "parallel" not in {x.kind for x in plan.s["update"].loops}
