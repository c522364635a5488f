"""Which stages read which: found once, and anew after every change of what stages compute."""

from __future__ import annotations

import random
from copy import deepcopy

import pytest

from autosched import te
from autosched.schedule import create_schedule
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage
from autosched.target import Target
from autosched.testing.programs import random_program
from autosched.testing.schedules import random_schedule


def searched(s: Schedule, stage: Stage, deep: bool) -> list[Stage]:
    """The same, from what each stage says that it reads."""
    if deep:
        return [x for x in s.stages if needs(s, x, stage)]
    return [x for x in s.stages if stage in s.reads(x)]


def needs(s: Schedule, x: Stage, stage: Stage) -> bool:
    return any(y is stage or needs(s, y, stage) for y in s.reads(x))


def check(s: Schedule) -> None:
    for stage in s.stages:
        for deep in (False, True):
            assert s.consumers(stage, deep) == searched(s, stage, deep)
        assert [x for x in s.stages if s.depends_on(stage, x)] == [x for x in s.stages if needs(s, stage, x)]
        assert s.attached_at(stage) == [x for x in s.stages if x.attach.stage is stage]
        for loop in stage.loops:
            assert s.attached_at(loop) == [x for x in s.stages if x.attach.loop is loop]


@pytest.mark.parametrize("seed", range(6))
def test_readers_follow_every_primitive(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked after each call of a random schedule, and of copies of it."""
    calls = 0
    apply = Schedule.apply

    def asked_after(s: Schedule, kind: str, stage: Stage, /, *args: object, **options: object) -> object:
        nonlocal calls
        check(s)
        made = apply(s, kind, stage, *args, **options)
        check(s)
        calls += 1
        return made

    monkeypatch.setattr(Schedule, "apply", asked_after)
    rng = random.Random(seed)
    s = random_schedule(random_program(rng).args, rng, Target.parse("llvm"))
    check(deepcopy(s))
    assert calls


def test_copies_know_their_own_stages() -> None:
    """A copy of a schedule that was asked does not answer with the other's stages, and follows its own changes."""
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    c = te.compute((8,), lambda i: b[i] * 2, name="c")
    s = create_schedule(c)
    assert s.consumers(s["a"]) == [s["b"]]
    other = deepcopy(s)
    other.cache_read("a", "global", ["b"])
    assert [x.name for x in other.consumers(other["a"])] == ["a.global"]
    assert s.consumers(s["a"]) == [s["b"]]


def test_stages_that_move() -> None:
    """Asked before and after each move, in order of computation, not of the calls."""
    a = te.placeholder((8,), name="a")
    b, c = (te.compute((8,), lambda i, n=n: a[i] + n, name=f"b{n}") for n in range(2))
    d = te.compute((8,), lambda i: b[i] * c[i], name="d")
    s = create_schedule(d)
    (loop,) = s[d].loops
    assert s.attached_at(loop) == s.attached_at(s[d]) == []
    s[c].compute_at(s[d], loop)
    assert s.attached_at(loop) == [s[c]]
    s[b].compute_at(s[d], loop)
    assert s.attached_at(loop) == s.attached_at(s[d]) == [s[b], s[c]]
    s[c].compute_root()
    assert s.attached_at(loop) == [s[b]]


def test_a_body_that_reads_something_else() -> None:
    """What a stage computes may change when no stage comes or goes."""
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    c = te.compute((8,), lambda i: b[i] + a[7 - i], name="c")
    s = create_schedule(c)
    assert s.consumers(s["b"]) == [s["c"]]
    (i,) = s["c"].axis
    s["c"].body = (a[i.var],)
    assert s.consumers(s["b"]) == []
    assert s.consumers(s["a"]) == [s["b"], s["c"]]
