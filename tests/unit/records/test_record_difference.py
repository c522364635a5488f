"""Two sets of records compared, tasks, and the test of significance."""

from __future__ import annotations

import itertools
import math

import pytest

from autosched.errors import RecordError
from autosched.noise import chance
from autosched.records import best_of_each, by_task, difference, one_task, task_text

MANY = tuple(1e-3 + 1e-6 * i for i in range(6))


def test_difference_of_two_folders(make_record):
    device = {"name": "other"}
    before = [
        make_record(1, samples=MANY), make_record(2, samples=MANY, name="gone"), make_record(3, name="same"),
        make_record(4, name="few", samples=(1e-3,)), make_record(5, name="failed", status="crash"),
        make_record(8, samples=MANY, device=device),
    ]  # fmt: skip
    faster, slower = tuple(s / 2 for s in MANY), tuple(s * 2 for s in MANY)
    after = [
        make_record(11, samples=faster), make_record(12, samples=MANY, name="new"), make_record(3, name="same"),
        make_record(14, name="few", samples=(5e-4,)), make_record(16, samples=MANY),
        make_record(18, samples=slower, device=device),
    ]  # fmt: skip
    found = {(c.task.workload, c.task.device): c for c in difference(before, after)}
    assert {key: c.verdict for key, c in found.items()} == {
        ("box_blur", "AMD EPYC 7R13"): "faster",
        ("box_blur", "other"): "slower",
        ("few", "AMD EPYC 7R13"): "not clear",
        ("gone", "AMD EPYC 7R13"): "gone",
        ("new", "AMD EPYC 7R13"): "new",
        ("same", "AMD EPYC 7R13"): "same",
    }
    change = found["box_blur", "AMD EPYC 7R13"]
    assert change.before is before[0] and change.after is after[0]
    assert (change.ratio, change.chance) == (pytest.approx(0.5), pytest.approx(2 / math.comb(12, 6)))
    assert found["few", "AMD EPYC 7R13"].chance == 1.0
    data = found["gone", "AMD EPYC 7R13"].to_json()
    assert (data["after"], data["before"]["record"], data["verdict"]) == (None, before[1].id, "gone")


def test_tasks(make_record):
    rs = [make_record(1), make_record(2, sizes={"height": 7}), make_record(3, status="crash", name="sum")]
    assert [len(of) for of in by_task(rs).values()] == [1, 1, 1]
    assert [r.trial for r in best_of_each(rs).values()] == [1, 2]
    assert task_text(rs[0]) == "box_blur(channels=3), height=1280 for llvm -mcpu=znver3 on AMD EPYC 7R13"
    assert one_task(rs[:1], "it").workload == "box_blur"
    with pytest.raises(RecordError) as caught:
        one_task([*rs, *(make_record(i, name=f"w{i:02}") for i in range(10))], "it")
    lines = str(caught.value).splitlines()
    assert lines[:3] == ["it: there are records of 13 tasks", "  records of one of them:", f"  {task_text(rs[0])}"]
    assert lines[-1] == "  and 3 more"
    with pytest.raises(RecordError) as caught:
        one_task([], "it")
    assert str(caught.value) == "it: there are no records\n  records of one task"


@pytest.mark.parametrize("a", [(), (1.0,), (3.0, 3.0, 5.0), (1.0, 2.0, 2.0, 9.0)])
@pytest.mark.parametrize("b", [(4.0,), (3.0, 3.0, 5.0), (2.0, 7.0, 8.0)])
def test_chance_is_the_share_of_all_ways_to_deal_the_samples(a, b):
    both = [*a, *b]
    ranks = [sum(x < v for x in both) + (both.count(v) + 1) / 2 for v in both]
    usual = len(a) * (len(both) + 1) / 2
    sums = [abs(sum(ranks[i] for i in c) - usual) for c in itertools.combinations(range(len(both)), len(a))]
    observed = abs(sum(ranks[: len(a)]) - usual)
    assert chance(a, b) == pytest.approx(sum(s >= observed for s in sums) / len(sums))
    assert chance(a, b) == pytest.approx(chance(b, a))


def test_chance_of_many_samples_is_soon_known():
    assert chance([1.0 + i for i in range(1000)], [2000.0 + i for i in range(1000)]) < 1e-10
