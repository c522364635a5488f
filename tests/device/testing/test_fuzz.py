"""Cases as data, made smaller, and run in a process of their own."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from autosched import te
from autosched.errors import AutoschedError, UsageError
from autosched.lowering import lower_structure
from autosched.schedule import create_schedule
from autosched.target import Target
from autosched.te.graph_json import graph_to_json
from autosched.testing import fuzz, oracle
from autosched.testing.case import BACKENDS, Case
from autosched.testing.layouts import Layout
from autosched.testing.shrink import shrink, smaller


@pytest.mark.parametrize("seed", range(600_000, 600_006))
def test_a_case_survives_json(seed: int) -> None:
    case = Case.draw(seed, "interpreter")
    again = Case.from_json(json.loads(json.dumps(case.to_json())))
    assert str(again) == str(case)
    assert again.fingerprint == case.fingerprint
    again.check()


def test_the_same_seed_is_the_same_case() -> None:
    assert Case.draw(3, "llvm").fingerprint == Case.draw(3, "llvm").fingerprint != Case.draw(4, "llvm").fingerprint


#: what cases have to hold, and how many of a hundred at least
KINDS = {
    "extern": 5, "several outputs": 3, "gradient": 2, "tensorize": 1, "exact": 3, "auto": 5, "shift_inwards": 5,
    "layouts": 10, "passed": 4, "specialize": 5, "open": 3, "broadcast": 1,
}  # fmt: skip


def kinds_of(case: Case) -> set[str]:
    trace, ops = json.dumps(case.trace), case.graph["ops"]
    exact = "disable_predication" in trace
    found = {word for word in ("tensorize", "auto", "shift_inwards", "specialize") if f'"{word}"' in trace}
    opaque = [op["extern"] for op in ops if "extern" in op]
    return found | {
        kind
        for kind, holds in {
            "extern": opaque,
            "several outputs": any(len(e["out"]) > 1 for e in opaque),
            "gradient": any(".grad" in op["name"] for op in ops),
            "exact": exact,
            "layouts": case.layouts,
            "passed": case.passed,
            "open": any(x["is_open"] for x in case.layouts.values()),
            "broadcast": any(x["broadcasts"] and x["repeated"] for x in case.layouts.values()),
        }.items()
        if holds
    }


@pytest.mark.parametrize(("seed", "backend"), [(82000237, "llvm"), (1510421, "opencl")])
def test_a_promise_that_a_later_step_breaks_is_drawn_again(seed: int, backend: str) -> None:
    """A split that promises to divide, of a stage that is then computed where it has one iteration."""
    Case.draw(seed, backend)


@pytest.mark.parametrize(("backend", "count"), [("llvm", 150), ("kernels", 100), ("tasks", 100)])
def test_every_kind_is_drawn(backend: str, count: int) -> None:
    """Whatever the target."""
    found = Counter(kind for seed in range(count) for kind in kinds_of(Case.draw(seed, backend)))
    assert not {k: found[k] for k, least in KINDS.items() if found[k] < least * count // 100}


def with_layouts() -> Case:
    a = te.placeholder((3, 4), "int32", name="A")
    b = te.compute((3, 4), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((3, 4), lambda i, j: b[i, 3 - j] * 2, name="C")
    layouts = {
        "A": Layout((1, 0), (0, 2), True, repeated=(0,)),
        "B": Layout((0, 1), (2, 0), True),
        "C": Layout((0, 1), (0, 3)),
    }
    data = {name: layout.to_json() for name, layout in layouts.items()}
    return Case(graph_to_json([a, c]), {}, create_schedule(c).trace.to_json(), {}, "llvm", 0, data, ["B"])


@pytest.mark.parametrize("backend", sorted(BACKENDS))
def test_layouts_and_intermediates_among_the_arguments(backend: str) -> None:
    case = replace(with_layouts(), backend=backend)
    again = Case.from_json(json.loads(json.dumps(case.to_json())))
    assert again == case
    again.check()
    assert any(len(x.layouts) < 3 for x in smaller(case))
    assert any(not x.passed for x in smaller(case))


@pytest.mark.parametrize("at_end", [True, False])
def test_what_lies_between_the_elements_is_guarded(at_end: bool) -> None:
    for layout in (Layout((1, 0), (0, 2)), Layout((0, 1), (1, 0)), Layout((1, 0), (0, 0), True, repeated=(1,))):
        place = oracle.Fenced(np.zeros((3, 4), "int16"), at_end, layout)
        place.poison()
        place.array[...] = 7
        assert place.is_intact()
        if not layout.repeated:
            near = as_strided(place.array, (2,), (2 * (4 if layout.order[0] == 1 else 3),))
            near[1] = 7
            assert not place.is_intact()


def test_a_wrong_element_of_an_intermediate_is_seen() -> None:
    place = oracle.Fenced(np.zeros(4, "int16"), True)
    place.poison()
    expected = np.arange(4, dtype="int16")
    place.array[1:3] = 1, 9
    assert place.written_over(expected).tolist() == [0, 1, 9, 3]


def test_an_unknown_backend() -> None:
    with pytest.raises(UsageError, match=r"no such backend[\s\S]*interpreter"):
        Case.draw(0, "fpga")


def runs(case: Case) -> bool:
    """A smaller size may be no multiple of what a split promises."""
    try:
        case.check()
    except AutoschedError:
        return False
    return True


def uses(case: Case, primitive: str, operator: str) -> bool:
    graph = case.graph
    return any(i[0] == primitive for i in case.trace) and any(e[0] == operator for e in graph["exprs"])


def test_shrinking_keeps_the_failure_and_little_else() -> None:
    """As if minimum and vectorize failed together."""
    found = 0
    for seed in range(600_100, 600_160):
        case = Case.draw(seed, "interpreter")
        if not uses(case, "vectorize", "min"):
            continue
        small = shrink(case, lambda c: uses(c, "vectorize", "min") and runs(c))
        assert uses(small, "vectorize", "min")
        assert len(small.trace) <= 4
        assert (len(small.trace), len(small.graph["ops"])) < (len(case.trace), len(case.graph["ops"]))
        small.check()
        found += 1
        if found == 3:
            break
    assert found == 3


def test_every_step_is_a_case_that_can_be_asked_about() -> None:
    case = Case.draw(600_200, "interpreter")
    asked: list[Case] = []

    def fails(c: Case) -> bool:
        asked.append(c)
        str(c)
        return False

    assert shrink(case, fails) is case
    assert asked


def test_a_worker_reports_what_happened() -> None:
    worker = fuzz.Worker()
    try:
        passed = worker.run({"seed": 5, "backend": "interpreter", "generated": False})
        assert (passed.kind, passed.fingerprint) == ("", Case.draw(5, "interpreter").fingerprint)
        wrong = Case.draw(5, "interpreter").to_json() | {"sizes": {}, "graph": {}}
        assert worker.run({"case": wrong}).kind
        worker._limit = 0.0
        assert worker.run({"seed": 6, "backend": "interpreter", "generated": False}).kind == "timeout"
        worker._limit = 60.0
        assert worker.run({"seed": 6, "backend": "interpreter", "generated": False}).kind == ""
    finally:
        worker.close()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert fuzz.main(["--seeds", "0:2", "--backend", "interpreter"]) == 0
    assert "2 passed (2 on interpreter), 2 distinct cases" in capsys.readouterr().out

    def unlucky(self: fuzz.Worker, question: dict[str, object]) -> fuzz.Verdict:
        return fuzz.Verdict("AssertionError", "b[0] is 2, not 1", "0")

    monkeypatch.setattr(fuzz.Worker, "run", unlucky)
    assert fuzz.main(["--seeds", "1", "--backend", "interpreter", "--failures", str(tmp_path)]) == 1
    assert "b[0] is 2, not 1" in capsys.readouterr().out
    assert fuzz.main(["--case", str(tmp_path / "interpreter-1.json")]) == 0


def test_memory_of_intermediates_is_guarded() -> None:
    """They lie in memory that the oracle makes, at the end of it or at its beginning."""
    a = te.placeholder((3, 65536), "int32", name="A")
    b = te.compute((3, 65536), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((3, 65536), lambda i, j: b[i, j] * 2, name="C")
    function = lower_structure(create_schedule(c), [a, c], "llvm").bind()
    given, result = np.zeros((3, 65536), "int32"), np.zeros((3, 65536), "int32")
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle.Fenced, "is_intact", lambda place: seen.append(place))
        for at_end in (True, False):
            with pytest.raises(AssertionError, match="memory around the intermediates was written"):
                oracle.runner_of(function, Target("llvm"), "native", at_end)([given, result])
    assert len(seen) == 2
    for place in seen:
        assert place.array.nbytes == b.dtype.bytes * 3 * 65536
        assert (place.array.view("int32") == 1).all()
