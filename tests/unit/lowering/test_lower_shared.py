"""What candidates of one sketch prove is kept for the next one, and changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.ir.conclusions import Answers, Memory, Tables
from autosched.ir.expr import floordiv, var
from autosched.ir.simplify import Analyzer
from autosched.lowering.pipeline import Structure, lower_structure
from autosched.schedule.schedule import replay
from autosched.space.loading import find_workload
from autosched.target import Target

CPU = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=2")


def sketch_of(name: str) -> tuple[Any, list[dict[str, int]]]:
    """A sketch of a workload's templates, and points of it."""
    w = find_workload(name)()
    space = w.search_space(CPU, w.sizes_of(w.sample_inputs(None)))
    sketch, rng = space.sketches[-1], np.random.default_rng(2)
    tries = np.stack([rng.integers(0, len(k.values), 300) for k in sketch.knobs], axis=1)
    return sketch, [sketch.values(x) for x in tries[sketch.mask(tries)][:6]]


def structure_of(sketch: Any) -> Structure:
    w = sketch.workload
    return lower_structure(replay(sketch.trace, w.args), w.args, CPU, "f")


@pytest.mark.parametrize("steps", [Memory.STEPS, 400])
def test_the_order_of_candidates_changes_nothing(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where steps of proofs run out, as they do in long programs."""
    monkeypatch.setattr(Memory, "STEPS", steps)
    monkeypatch.setattr(Memory, "LITTLE", steps // 2)
    monkeypatch.setattr("autosched.lowering.pipeline._STEPS_A_STATEMENT", 0)
    sketch, points = sketch_of("box_blur")
    alone = [str(structure_of(sketch).bind(p)) for p in points]
    there, back = structure_of(sketch), structure_of(sketch)
    assert [str(there.bind(p)) for p in points] == alone
    assert [str(back.bind(p)) for p in reversed(points)] == alone[::-1]
    assert [str(there.bind(p)) for p in points] == alone
    assert there.answers.are_shared == back.answers.are_shared == (steps > 400)


def test_what_another_has_found_takes_as_many_steps() -> None:
    x, y = var("x", role="loop"), var("y", role="loop")

    def asked(tables: Tables | None) -> int:
        memory = Memory(1000, tables)
        an = Analyzer(memory)
        an.bind(x, 0, 99)
        an.bind(y, 0, x)
        for k in range(2, 9):
            assert an.prove(floordiv(y * 3 + k, k) <= floordiv(x * 3 + k, k) + 1)
        return 1000 - memory.left

    tables = Tables()
    alone, first, second = asked(None), asked(tables), asked(tables)
    assert 0 < alone == first and second >= alone


def test_tables_do_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Answers, "MOST", 2)
    answers = Answers()
    tables = answers.lend()
    assert tables is not None and answers.lend() is tables
    an = Analyzer(Memory(1000, tables))
    x = var("x", role="loop")
    an.bind(x, 0, 9)
    assert an.prove(x * 2 + 1 <= 19)
    assert answers.lend() is not tables
