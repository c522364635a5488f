"""The analytical model: its units, what it thinks better, and how well it ranks what was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.errors import UsageError
from autosched.model import CostModel, make_model, prior_for
from autosched.model.analytical import NEEDED, AnalyticalModel, Core, GpuKernelModel
from autosched.simulate.recorded import find_space, list_spaces
from autosched.space.features import FEATURE_NAMES
from autosched.space.features.names import PLAIN

#: A product of 512 x 512 x 512 floats: 12 vectors of 16 sums in registers, both operands packed.
PRODUCT = {
    "iterations": 2.0**27, "arithmetic": 2.0**28, "vector_arithmetic": 2.0**24, "main_stage_share": 0.99,
    "lanes": 16, "unrolled": 12, "vector_bytes": 64, "vector_fill": 1, "accumulators": 12, "independent_sums": 12, "recomputation": 512,
    "waste": 1, "loads_for_each_store": 0.67, "register_loads": 2.0**23 * 1.67, "code_size": 100,
    "bytes_loaded": 2.0**31, "bytes_stored": 2.0**29, "vector_stores": 2.0**23, "innermost_extent": 512, "traffic": 2.0**21,
    "tasks": 64, "task_footprint": 2.0**18, "shared_by_tasks": 2.0**20, "imbalance": 1, "regions": 2, "bytes_into_l1": 1e8, "bytes_into_l2": 5e6,
    "bytes_into_l3": 3e6,
}  # fmt: skip
CORE = Core(units=2, vector_bytes=64, l2=2 << 20, l3=32 << 20)


def row(**changed: float) -> np.ndarray:
    given = dict.fromkeys(FEATURE_NAMES, 0.0) | PRODUCT | changed
    return np.array([[v if name in PLAIN else np.log2(1 + v) for name, v in given.items()]])


def seconds(core: Core = CORE, **changed: float) -> float:
    return float(AnalyticalModel(FEATURE_NAMES, core=core).seconds(row(**changed))[0])


def test_seconds_are_those_of_a_good_product_on_two_cores():
    """2^28 operations at some 100 to 400 GFLOP/s."""
    assert 2**28 / 400e9 < seconds() < 2**28 / 100e9
    model = AnalyticalModel(FEATURE_NAMES, core=CORE)
    assert isinstance(model, CostModel) and model.ready
    assert model.predict(row())[0] == pytest.approx(1 / seconds())
    parts = model.parts(row())
    assert parts["total"][0] * 1e-9 == seconds() and parts["arithmetic"] > parts["loads"] > 0


@pytest.mark.parametrize(
    "worse",
    [
        {"accumulators": 2, "independent_sums": 2, "unrolled": 2},  # multiply-adds wait for each other
        {"lanes": 4, "vector_bytes": 16, "vector_fill": 0.25, "vector_arithmetic": 2.0**26},
        {"imbalance": 1.5},
        {"tasks": 1, "imbalance": 2},
        {"bytes_into_l1": 2e9},
        {"spills": 1e7},
        {"strided_loads": 2e7},
        {"strided_loads": 1e6, "gathered_loads": 1e6},
        {"masked_loads": 1e7},
        {"streamed_bytes": 2e7},
        {"scattered_updates": 2e7},  # of one histogram, and none where copies take turns
        {"cut_vectors": 2e6},
        {"side_waits": 2.0**24},
        {"regions": 500},
        {"side_iterations": 1e7, "side_task_iterations": 1e7},
        {"shared_by_tasks": 2.0**24, "tasks": 4096},  # every task fetches its operands again
        {"code_size": 100_000},
        {"unrolled": 1, "innermost_extent": 64},
    ],
    ids=lambda worse: next(iter(worse)),
)
def test_what_costs_time(worse):
    assert seconds(**worse) > 1.1 * seconds()


def test_tasks_meet_in_a_cache_that_holds_what_they_share():
    """In the second-level one, however much else each of them goes through, which is not read again."""
    held, not_held = (seconds(shared_by_tasks=2.0**n, tasks=4096, traffic=2.0**24) for n in (20, 22))
    assert not_held > 1.1 * held


def test_what_costs_none():
    """What fits into the last-level cache is there from the call before; hulls larger than what is read are none."""
    assert seconds(core=replace(CORE, l3=1 << 20)) > seconds()
    assert seconds(bytes_into_l1=1e15) == seconds(bytes_into_l1=1e14)
    assert seconds(core=replace(CORE, units=4)) == pytest.approx(seconds() / 2, rel=0.02)


@pytest.mark.parametrize("kind", [AnalyticalModel, GpuKernelModel])
def test_zeros_and_extremes_are_finite(kind):
    model = kind(FEATURE_NAMES)
    rows = np.concatenate([np.zeros((1, len(FEATURE_NAMES))), np.full((1, len(FEATURE_NAMES)), 100.0)])
    assert np.isfinite(model.seconds(rows)).all() and (model.seconds(rows) > 0).all()
    assert len(model.seconds(rows[:0])) == 0


@pytest.mark.parametrize("name", sorted(list_spaces()))
def test_its_first_choices_are_good_ones(name):
    """Of each recorded space, the best of the 16 points it likes best is within 25 % of the optimum, and those are
    faster than most. The first is no slow one, though it may have been measured while the machine did something else."""
    space = find_space(name)
    core = Core.of(2, space.facts["limits"])
    features = np.concatenate([s.table for s in space.sketches])
    times = np.concatenate([s.seconds for s in space.sketches])
    order = np.argsort(AnalyticalModel(space.feature_names, core=core).seconds(features), kind="stable")
    assert times[order[:16]].min() <= 1.25 * space.best_seconds
    assert np.median(times[order[:16]]) <= np.median(times)
    assert times[order[0]] <= 4 * space.best_seconds


def test_it_ranks_matrix_products():
    from scipy.stats import spearmanr

    for name in ("matmul-1024", "matmul-2048"):
        space = find_space(name)
        features = np.concatenate([s.table for s in space.sketches])
        times = np.concatenate([s.seconds for s in space.sketches])
        model = AnalyticalModel(space.feature_names, core=Core.of(2, space.facts["limits"]))
        assert spearmanr(model.seconds(features), times)[0] > 0.8


def test_where_it_says_nothing():
    known = {"units": 2, "limits": {}}
    assert prior_for(("tile",), is_gpu_style=False, **known) is None
    found = prior_for(FEATURE_NAMES, is_gpu_style=False, units=4, limits={"vector_bytes": 16})
    assert found is not None and (found.core.units, found.core.vector_bytes) == (4, 16)
    with pytest.raises(UsageError, match=f"does not have the features .*{NEEDED[0]}"):
        make_model("analytical", ["tile"])
    with pytest.raises(UsageError, match="2 features|65 features|shape"):
        found.seconds(np.zeros((1, 2)))
    with pytest.raises(UsageError, match="positive"):
        found.fit(row(), [0.0], [0])


def test_the_end_of_a_short_loop_is_foreseen():
    """Entering a loop of 8 rounds costs less than one of 64, but setting it up still costs something."""
    model = AnalyticalModel(FEATURE_NAMES, core=CORE)
    short, long = (model.parts(row(innermost_extent=x))["entries"][0] * x for x in (8, 64))
    assert 0 < short < long / 4
    assert model.parts(row(innermost_extent=512))["entries"][0] * 512 == pytest.approx(long)


def test_tasks_are_taken_in_chunks():
    assert seconds(tasks=4096, task_footprint=0) == seconds(tasks=64, task_footprint=0) > seconds(tasks=2)


def test_pipes_that_take_registers_in_parts():
    """What fills half a register costs no more there than what fills one, and a whole one costs both parts."""
    narrow = {"vector_bytes": 64, "vector_registers": 32, "vector_pipe_bytes": 32}
    model = AnalyticalModel(FEATURE_NAMES, core=Core.of(2, narrow))
    whole, half = (model.parts(row(vector_bytes=x))["loads"][0] for x in (64, 32))
    assert whole == pytest.approx(2 * half)
    usual = AnalyticalModel(FEATURE_NAMES, core=Core.of(2, {**narrow, "vector_pipe_bytes": 64}))
    assert usual.parts(row())["loads"][0] == pytest.approx(half)


def test_what_sums_keep_in_registers_is_not_stored():
    """Two products of which one is the main store: those of its sums are left out, all others are counted."""
    model = AnalyticalModel(FEATURE_NAMES, core=CORE)
    both = {"iterations": 2.0**28, "main_stage_share": 0.495, "vector_stores": 2.0**23 + 2.0**14}
    assert model.parts(row(**both))["stores"][0] < 0.1 * 2.0**23 * CORE.store


def test_a_loop_that_is_begun_again_finds_its_threads_awake():
    first, again = (seconds(regions=n + 1) - seconds(regions=n) for n in (1, 500))
    assert 0 < again < first / 2


def test_serial_work_costs_what_all_work_does_where_most_is_besides():
    """Steps of a scan, before a result that only copies the last, against operands that are packed."""
    besides = {"side_iterations": 2.0**20, "side_task_iterations": 2.0**20, "vector_arithmetic": 2.0**30}
    model = AnalyticalModel(FEATURE_NAMES, core=CORE)
    copies, steps = (model.parts(row(main_stage_share=x, **besides))["side"][0] for x in (1.0, 0.0))
    assert copies == pytest.approx(2.0**19 * CORE.side)
    assert steps > 2 * copies
