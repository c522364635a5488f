"""Kernels that share the sizes of a workload: which records they are, and where one ends and another begins."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.records import decode, describe, encode, family, regions

HERE = "AMD EPYC 7R13"
AT = "2026-11-21T10:00:00+00:00"
LATER = "2026-11-21T11:00:00+00:00"


def of(records):
    return family(records, key="9f2c44d1", target="llvm", device=HERE)


def sized(make_record, trial: int, height: int, **changes):
    return make_record(trial, sizes={"height": height}, **changes)


def test_records_of_the_latest_run_are_grouped_by_kernel(make_record) -> None:
    records = [
        sized(make_record, 1, 64).with_family("run", 0, AT),
        sized(make_record, 2, 512).with_family("run", 1, AT),
        sized(make_record, 3, 4096).with_family("run", 1, AT),
        sized(make_record, 4, 64).with_family("earlier", 0, "2026-11-20T10:00:00+00:00"),
        sized(make_record, 5, 64),
    ]
    random.Random(1).shuffle(records)
    small, large = of(records)
    assert [r.trial for r in small.records] == [1]
    assert [r.trial for r in large.records] == [2, 3]
    assert [describe(b) for m in (small, large) for b in m.boxes] == ["height < 181", "height >= 181"]
    twice = [*records, sized(make_record, 7, 64, samples=(1e-6,)).with_family("run", 1, AT)]
    assert [[r.trial for r in m.records] for m in of(twice)] == [[7, 2, 3]]
    assert of(records + [sized(make_record, 6, 64).with_family("new", 0, LATER)])[0].record.trial == 6


def test_none_of_another_device_and_none_that_is_withdrawn(make_record) -> None:
    mine = sized(make_record, 1, 64).with_family("run", 0, AT)
    other = sized(make_record, 2, 512).with_family("run", 1, AT)
    assert of([sized(make_record, 1, 64, device={"name": "another"}).with_family("run", 0, AT)]) == []
    assert of([sized(make_record, 1, 64)]) == []
    (left,) = of([mine, other, other.as_failed("compile", "it broke")])
    assert left.record.trial == 1
    assert [describe(b) for b in left.boxes] == ["otherwise"]


def test_it_survives_the_line(make_record) -> None:
    r = make_record(1).with_family("run", 3, AT)
    assert decode(encode(r)).family == ("run", 3, AT)
    assert r.as_failed("compile", "").family is None
    for damaged in ({"run": 1}, {"run": "r", "kernel": "0", "at": AT}, [], "run"):
        assert make_record(1, extra={"family": damaged}).family is None


def test_thresholds_lie_between_neighbours() -> None:
    points = [({"n": 1}, 0), ({"n": 2}, 1), ({"n": 1000}, 0)]
    found = regions(points)
    assert [describe(b) for b in found[0]] == ["n < 2", "n >= 45"]
    assert [describe(b) for b in found[1]] == ["2 <= n < 45"]
    both = regions([({"n": 8, "m": 8}, 0), ({"n": 8, "m": 800}, 1), ({"n": 800, "m": 800}, 1)])
    assert [describe(b) for b in both[1]] == ["m >= 80"]  # one question will do
    with pytest.raises(ValueError, match="several kernels"):
        regions([({"n": 8}, 0), ({"n": 8}, 1)])


def inside(box, at) -> bool:
    return all(
        (low is None or low <= at[name]) and (high is None or at[name] < high) for name, (low, high) in box.items()
    )


@settings(deadline=None, max_examples=60)
@given(
    st.dictionaries(st.tuples(st.integers(1, 5000), st.integers(1, 50)), st.integers(0, 3), min_size=1, max_size=12),
    st.tuples(st.integers(1, 6000), st.integers(1, 60)),
)
def test_boxes_divide_all_sizes(kernels, elsewhere) -> None:
    points = [({"n": n, "m": m}, k) for (n, m), k in kernels.items()]
    found = regions(points)
    for at, kernel in [*points, ({"n": elsewhere[0], "m": elsewhere[1]}, None)]:
        owners = [k for k, boxes in found.items() for box in boxes if inside(box, at)]
        assert len(owners) == 1
        assert kernel in (None, owners[0])
