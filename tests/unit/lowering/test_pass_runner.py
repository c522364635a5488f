"""`PASS_RUNNER`: what runs the passes of the pipeline in place of the pipeline."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from autosched import create_schedule, te
from autosched.garbage import THRESHOLDS
from autosched.ir.printer import format_function
from autosched.ir.stmt import For, Function, walk
from autosched.lowering.pipeline import CONCRETE, PASS_RUNNER, Pass, Program, lower_structure


@contextmanager
def runner(run) -> Iterator[None]:
    token = PASS_RUNNER.set(run)
    try:
        yield
    finally:
        PASS_RUNNER.reset(token)


def lowered(after: str = "verify") -> Function:
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] + 1, name="b")
    s = create_schedule(b)
    s[b].unroll(s[b].split("i", factor=4)[1])
    return lower_structure(s, [a, b], "llvm").after(after)


def test_it_is_given_every_pass_in_order() -> None:
    seen: list[str] = []

    def look_on(p: Program, name: str, run: Pass) -> Program:
        assert run is dict(CONCRETE)[name]
        seen.append(name)
        return run(p)

    plain = format_function(lowered())
    with runner(look_on):
        assert format_function(lowered()) == plain
    assert seen == [name for name, _ in CONCRETE]


def test_it_is_not_asked_beyond_the_pass_that_is_wanted() -> None:
    seen: list[str] = []
    with runner(lambda p, name, run: (seen.append(name), run(p))[1]):
        lowered("partition")
    assert seen[-1] == "partition"


def test_it_may_leave_a_pass_out() -> None:
    def kinds() -> set[str]:
        return {s.kind for s in walk(lowered("unroll").body) if isinstance(s, For)}

    assert "unroll" not in kinds()
    with runner(lambda p, name, run: p if name == "unroll" else run(p)):
        assert "unroll" in kinds()
    assert "unroll" not in kinds()


def test_other_threads_do_not_see_it() -> None:
    found: list[str] = []

    def refuse(p: Program, name: str, run: Pass) -> Program:
        raise AssertionError(name)

    with runner(refuse):
        thread = threading.Thread(target=lambda: found.append(lowered().name))
        thread.start()
        thread.join()
        with pytest.raises(AssertionError, match="bind_knobs"):
            lowered()
    assert found == ["main"]


def test_python_seldom_looks_for_garbage_meanwhile() -> None:
    """Most of what lowering makes stays, and was walked over again and again."""
    seen: list[tuple[int, int, int]] = []

    def look_on(p: Program, name: str, run: Pass) -> Program:
        seen.append(gc.get_threshold())
        return run(p)

    before = gc.get_threshold()
    with runner(look_on):
        lowered()
    assert set(seen) == {THRESHOLDS}
    assert gc.get_threshold() == before
