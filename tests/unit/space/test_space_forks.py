"""Forks of a template that goes step by step: the same as those traced from the start, and less work."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest

from autosched import te
from autosched.errors import AutoschedError, WorkloadError
from autosched.lowering import lower_structure
from autosched.schedule import create_schedule
from autosched.space.forks import forks, traced
from autosched.space.rules import generated
from autosched.space.workload import Template, Workload
from autosched.target import Target

LLVM = Target.parse("llvm -threads=2").with_limits(
    vector_bytes=32, vector_registers=16, l1_bytes=32 << 10, l2_bytes=512 << 10, l3_bytes=8 << 20
)
CUDA = Target.parse("cuda")


def two_layers() -> Workload:
    x, w = te.placeholder((64, 96), name="x"), te.placeholder((96, 64), name="w")
    k, r = te.reduce_axis((0, 96), "k"), te.reduce_axis((0, 64), "r")
    first = te.compute((64, 64), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="first")
    active = te.compute((64, 64), lambda i, j: te.exp(first[i, j]), name="active")
    sums = te.compute((64,), lambda i: te.sum(active[i, r], axis=r), name="sums")
    return Workload("two", (x, w, te.compute((64, 64), lambda i, j: active[i, j] / sums[i], name="out")))


def chain(stages: int) -> Workload:
    a = x = te.placeholder((64, 64), name="a")
    for at in range(stages):
        x = te.compute((64, 64), lambda i, j, p=x: p[i, j] + p[i, te.max(j - 1, 0)], name=f"s{at}")
    return Workload("chain", (a, x))


def described(w: Workload, t: Template, target: Target) -> list[Any]:
    return [
        (name, made, s.trace.to_json(), s.remarks, [(repr(c.condition), c.reason) for c in s.constraints])
        for name, made, s in forks(w, t, target)
    ]


@pytest.mark.parametrize("target", [LLVM, CUDA], ids=str)
@pytest.mark.parametrize("w", [two_layers(), chain(6)], ids=lambda w: w.name)
def test_forks_are_what_each_is_from_the_start(w: Workload, target: Target) -> None:
    t = generated(target)
    found = described(w, t, target)
    assert found == described(w, replace(t, walk=None), target)
    assert len(found) > 1
    _, choices, trace, *_ = found[-1]
    again = traced(w, t, target, choices)
    assert again.trace.to_json() == trace
    lower_structure(again, list(w.args), target)


@dataclass
class Counting:
    """Decides a, b and c, of two options each, with a step before them; `taken` counts the steps of all walks."""

    s: Any
    taken: list[str]
    at: int = 0

    def step(self) -> bool:
        name = ("start", "a", "b", "c", "end")[self.at]
        self.taken.append(name)
        self.at += 1
        if name in ("a", "b", "c"):
            options = [1, 2]
            if self.s.choose(name, options) == 2 and name == "c" and self.s.choices_made["a"] == 2:
                raise ValueError("two twos")
        return name != "end"

    def __deepcopy__(self, memo: dict[int, Any]) -> Counting:
        return Counting(deepcopy(self.s, memo), self.taken, self.at)


def test_what_forks_share_is_done_once() -> None:
    taken: list[str] = []
    t = Template("t", "llvm", lambda s: None, walk=lambda s, target: Counting(s, taken))
    found = list(forks(chain(1), t, LLVM))
    assert [tuple(made.values()) for _, made, _ in found] == [(a, b, c) for a in (1, 2) for b in (1, 2) for c in (1, 2)]
    # the second walk learns where copies are worth it; from then on nothing is done again but what differs
    assert [taken.count(x) for x in ("start", "a", "b", "c", "end")] == [2, 3, 5, 8, 6]
    wrong = [(name, str(result)) for name, _, result in found if isinstance(result, AutoschedError)]
    assert [name for name, _ in wrong] == ["t[a=2, b=1, c=2]", "t[a=2, b=2, c=2]"]
    assert all("template t of chain  at " in text and "ValueError: two twos" in text for _, text in wrong)


def test_too_many_forks_are_refused() -> None:
    t = Template("t", "llvm", lambda s: None, max_forks=7, walk=lambda s, target: Counting(s, []))
    with pytest.raises(WorkloadError, match="its choices make more than 7 sketches"):
        list(forks(chain(1), t, LLVM))


def test_a_copied_schedule_goes_its_own_way() -> None:
    w = two_layers()
    s = create_schedule(list(w.args))
    outer, _ = s["out"].split("i", factor=s.define_knob("rows", [2, 4]))
    s["sums"].compute_at(s["out"], outer)
    other = deepcopy(s)
    assert other.trace.to_json() == s.trace.to_json()
    assert other["out"] is not s["out"] and other["out"].tensor is s["out"].tensor
    assert other["sums"].attach.loop is other["out"].loops[0] and other["sums"].attach.stage is other["out"]
    other["out"].vectorize("j")
    other.cache_read("x", "local", ["first"])
    assert s["out"].loops[-1].kind == "serial" and "x.local" not in s and len(s.trace) + 2 == len(other.trace)
    s["out"].parallel(outer)
    for made in (s, other):
        lower_structure(made, list(w.args), "llvm").bind({"rows": 4})


def test_copying_does_not_follow_chains_of_stages() -> None:
    w = chain(400)
    s = create_schedule(list(w.args))
    for at in range(399):
        s[f"s{at}"].compute_at(s[f"s{at + 1}"], "i")
    assert len(deepcopy(s).trace) == 399


def test_expressions_and_tensors_are_copied_as_themselves() -> None:
    x = two_layers().args[0]
    parts = [x, x[0, 1] + 1, x.op, te.reduce_axis((0, 4), "k")]
    assert all(other is part for other, part in zip(deepcopy(parts), parts, strict=True))
