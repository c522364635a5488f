"""Which devices are most like this one."""

from __future__ import annotations

import pytest

from autosched.records import ranked
from autosched.records.best import unlikeness

MINE = {
    "name": "AMD EPYC (znver4, family 25 model 17, 41157d), 8 threads",
    "cpu": "AMD EPYC",
    "core": "znver4",
    "threads": 8,
}
#: the most alike first: as new records have them, and as old ones do
CPUS = [
    {"name": "AMD EPYC 9R14 (znver4), 8 threads"},
    {"name": "AMD Ryzen 9 7950X (znver4, family 25 model 97, 2fe130), 16 threads", "core": "znver4", "threads": 16},
    {"name": "AMD EPYC (znver5), 8 threads", "cpu": "AMD EPYC (znver5)", "threads": 8},
    {"name": "AMD EPYC (znver3), 96 threads", "cpu": "AMD EPYC (znver3)", "threads": 96},
    {"name": "Intel(R) Xeon(R) Processor (emeraldrapids), 8 threads", "threads": 8},
    {"name": "Intel(R) Xeon(R) Processor (skylake-avx512), 2 threads"},
]


def test_cpus_by_core_maker_and_threads():
    keys = [unlikeness(cpu, MINE) for cpu in CPUS]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)


def test_a_gpu_is_not_like_a_cpu():
    gpu = {"name": "NVIDIA H200", "compute_units": 132, "is_cpu": False}
    pocl = {
        "name": "pthread-AMD EPYC on AMD EPYC (znver4), 8 threads",
        "compute_units": 8,
        "is_cpu": True,
        "core": "znver4",
    }
    assert unlikeness(gpu, pocl) is None and unlikeness(pocl, gpu) is None
    assert unlikeness({"name": "no CUDA device", "arch": "sm_80"}, pocl) is None
    near, far = {**gpu, "compute_units": 114}, {**gpu, "name": "NVIDIA T4", "compute_units": 40}
    assert unlikeness(near, gpu) < unlikeness(far, gpu)


@pytest.mark.parametrize("order", [1, -1])
def test_records_of_the_most_like_device_come_next(make_record, order):
    records = [make_record(n, device=cpu, samples=(1e-3 / (n + 1),)) for n, cpu in enumerate(CPUS)]
    records.append(make_record(7, device=MINE, samples=(1.0,)))
    records.append(make_record(8, device={"name": "a GPU", "is_cpu": False}, samples=(1e-9,)))
    found = ranked(records[::order], key="9f2c44d1", target="llvm", device=MINE["name"], facts=MINE)
    assert [c.record.trial for c in found] == [7, 0, 1, 2, 3, 4, 5]
    assert [c.exact for c in found] == [True, *[False] * 6]
