"""Programs in natural spelling, by the rules for kernels: `experiments/gpu.py` checks all of them, a few are here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "experiments"))

import gpu_check as check


def test_every_program_and_operator_has_a_small_size() -> None:
    programs = check.programs.load()
    assert set(check.PROGRAMS) == set(programs)
    for name, given in check.PROGRAMS.items():
        assert set(given) == set(programs[name].work.parameters), name


@pytest.mark.parametrize("name", ["fir", "heat_1d", "rank_sort", "embedding_bag", "spmv_coo", "syrk"])
def test_kernels_for_gpus_are_right_in_the_interpreter(name: str) -> None:
    """Which sees races, barriers that some do not reach, and what is outside a tensor."""
    work, target = check.programs.load()[name].work(**check.PROGRAMS[name]), check.backends()["interpreted"].target
    space = check.template_space(work, target, {}, [check.generated(target)])
    points = [(s, s.valid_points) for s in space.sketches]
    sketch = next(s for s, valid in points if valid.count)
    function = sketch.structure.bind(sketch.values(sketch.valid_points.rows([0])[0]))
    inputs = work.sample_inputs({})
    wanted = work.reference(inputs)
    outputs = [w * 0 - 1 if w.dtype.kind == "f" else w ^ 1 for w in wanted]
    check.interpret(function, [*inputs, *outputs])
    assert not check.differs(work, target, outputs, wanted)


@pytest.mark.parametrize(("name", "rule"), [("spmv_coo", "copies_of_items"), ("rank_sort", "opaque_kernels")])
def test_scatters_have_copies_where_rows_keep_no_device_busy(name: str, rule: str) -> None:
    program = check.programs.load()[name].work
    work = program(rows=1024, n=32) if name == "rank_sort" else program()
    target = check.backends()["interpreted"].target.with_limits(is_cpu=0)
    steps = check.template_space(work, target, {}, [check.generated(target)]).sketches[0].trace
    assert any(step[0] == "rfactor" for step in steps) == (rule == "copies_of_items")
