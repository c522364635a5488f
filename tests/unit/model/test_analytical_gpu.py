"""The analytical models of kernels: what they think better, on GPUs."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.model import CostModel, prior_for
from autosched.model.analytical import AnalyticalModel, Gpu, GpuKernelModel
from autosched.search.predicted import look_ahead
from autosched.space.features import FEATURE_NAMES
from autosched.space.features.names import PLAIN
from autosched.space.loading import find_workload
from autosched.target import Target

#: A data-centre GPU of 2022, and two cores with vectors of 64 bytes.
GPU = {"max_threads_per_block": 1024, "shared_memory_bytes": 48 << 10, "work_group_multiple": 32, "compute_units": 132}
CPU = {
    "max_threads_per_block": 4096, "shared_memory_bytes": 2 << 20, "work_group_multiple": 8, "compute_units": 2,
    "is_cpu": 1, "l1_bytes": 48 << 10, "l2_bytes": 2 << 20, "l3_bytes": 128 << 20, "vector_bytes": 64,
    "vector_registers": 32,
}  # fmt: skip
#: A product of 2048^3 in tiles of 64 x 64, 4 x 4 sums for each of 256 work-items, operands in shared memory.
PRODUCT = {
    "iterations": 8.8e9, "main_stage_share": 0.98, "vector_bytes": 16, "traffic": 5e7, "arithmetic": 1.7e10,
    "index_arithmetic": 1e9, "guards": 1e8, "lanes": 4, "vector_loads": 6.4e9, "register_loads": 2.7e9,
    "accumulators": 4, "bytes_loaded": 1e11, "bytes_stored": 3e10, "bytes_into_l1": 2e9, "bytes_into_l2": 5e8,
    "bytes_into_l3": 1e8, "tasks": 1056, "task_footprint": 1e6, "imbalance": 1, "regions": 1, "threads": 256,
    "warp_fill": 1, "shared_bytes": 8192, "resident_groups": 6, "bank_conflicts": 2.6e10,
}  # fmt: skip


def row(**changed: float) -> np.ndarray:
    given = dict.fromkeys(FEATURE_NAMES, 0.0) | PRODUCT | changed
    return np.array([[v if name in PLAIN else np.log2(1 + v) for name, v in given.items()]])


def seconds(gpu: Gpu | None = None, **changed: float) -> float:
    return float(GpuKernelModel(FEATURE_NAMES, gpu=gpu or Gpu.of(1, GPU)).seconds(row(**changed))[0])


def test_seconds_are_those_of_a_good_product_on_a_gpu():
    """2^34 operations at some 10 to 50 TFLOP/s."""
    assert 2**34 / 50e12 < seconds() < 2**34 / 10e12
    model = GpuKernelModel(FEATURE_NAMES)
    assert isinstance(model, CostModel) and model.ready
    parts = model.parts(row())
    assert parts["total"][0] * 1e-9 == model.seconds(row())[0] == 1 / model.predict(row())[0]


@pytest.mark.parametrize(
    "worse",
    [
        {"warp_fill": 0.25},
        {"threads": 16, "warp_fill": 0.5},  # half a warp in each of few groups: nothing hides latencies
        {"resident_groups": 1, "threads": 32},
        {"bank_conflicts": 8 * 2.6e10},
        {"uncoalesced_loads": 2e9},
        {"imbalance": 2},
        {"tasks": 8, "imbalance": 16.5},
        {"bytes_into_l3": 6e9, "traffic": 6e9},
        {"regions": 100},
        {"accumulators": 128},  # more registers than a work-item may have
        {"register_loads": 6.4e9},
        {"shared_bytes": 0, "bank_conflicts": 0, "task_footprint": 1e9, "bytes_into_l1": 5e10},
        {"index_arithmetic": 1e12},
        {"tasks": 1056 * 1000},
    ],
    ids=lambda worse: next(iter(worse)),
)
def test_what_costs_time_on_a_gpu(worse):
    assert seconds(**worse) > 1.1 * seconds()


def test_what_costs_none():
    """Neighbours that read vectors do not queue for banks; copies to shared memory lie together."""
    assert seconds(uncoalesced_loads=0.02 * 8.8e9) == pytest.approx(seconds(), rel=1e-6)
    assert seconds(bank_conflicts=4 * 2.6e10) == pytest.approx(seconds(), rel=0.02)
    assert seconds(gpu=Gpu(units=264)) == pytest.approx(seconds() / 2, rel=0.02)


def favourite(name: str, kind: str, limits: dict[str, int], **params: int):
    """The name of the sketch, the knobs by their last words, and how much faster than the default it is said to be."""
    workload = find_workload(name)(**params)
    space = workload.search_space(Target.parse(kind).with_limits(**limits), {}, "auto")
    model = prior_for(space.feature_names, is_gpu_style=True, units=1, limits=limits)
    choices = look_ahead(space, model.seconds).choices
    best = choices[0]
    default = next(c for c in choices if space.sketches[c.candidate.sketch].name == "default")
    sketch = space.sketches[best.candidate.sketch]
    knobs = {k.rpartition("_")[2]: v for k, v in sketch.values(best.candidate.indices).items()}
    return sketch.name, knobs, default.seconds / best.seconds


def test_its_favourite_product_on_a_gpu_is_one_of_register_tiles():
    _, knobs, faster = favourite("matmul", "cuda", GPU)
    assert knobs["rows"] * knobs["lanes"] * knobs["apart"] ** 2 >= 16 and faster > 4
    assert knobs["lanes"] == 4, "nothing wider than what the device reads at once is offered"


def test_rows_are_added_up_by_groups_on_a_gpu():
    name, _, faster = favourite("row_sum", "cuda", GPU)
    assert "group_reduction" in name and faster > 3


def test_each_kind_of_target_has_its_model():
    known = {"units": 2, "feature_names": FEATURE_NAMES}
    assert type(prior_for(**known, is_gpu_style=False, limits=CPU)) is AnalyticalModel
    tasks = prior_for(**known, is_gpu_style=True, limits=CPU)
    assert type(tasks) is AnalyticalModel and (tasks.core.units, tasks.core.vector_bytes) == (2, 64)
    plain = prior_for(**known, is_gpu_style=False, limits=CPU)
    assert tasks.core.region > plain.core.region, "kernels are begun by a queue"
    gpu = prior_for(**known, is_gpu_style=True, limits=GPU)
    assert isinstance(gpu, GpuKernelModel) and (gpu.gpu.units, gpu.gpu.warp) == (132, 32)
    without = [n for n in FEATURE_NAMES if n != "bank_conflicts"]
    assert prior_for(without, is_gpu_style=True, units=2, limits=GPU) is None
