"""Spaces that rules generate for a CPU: what is planned, and whether points compute what programs say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autosched.codegen import compile_function
from autosched.measure.verify import allowed_error, compare
from autosched.runtime.module import Module
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.space.rules import Plan, cpu_rules, generated
from autosched.space.rules.engine import Walk
from autosched.space.rules.inline import write_out_stencils
from autosched.space.space import SearchSpace, Sketch
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te import Tensor

LLVM = Target.parse("llvm -threads=2").with_limits(
    vector_bytes=32, vector_registers=16, l1_bytes=32 << 10, l2_bytes=512 << 10, l3_bytes=8 << 20
)


def planned(*args: Tensor, **choices: object) -> Plan:
    """What the rules for CPUs make of a program as it stands."""
    return _finished(create_schedule(list(args)).with_choices(choices))


def planned_written_out(*args: Tensor, **choices: object) -> Plan:
    """What they make of one whose sums of few terms are written out first."""
    s = create_schedule(list(args)).with_choices(choices)
    write_out_stencils(s)
    return _finished(s)


def _finished(s: Schedule) -> Plan:
    plan = Plan(s, LLVM)
    Walk(plan, cpu_rules()).finish()
    return plan


def walked(*args: Tensor) -> Plan:
    """The first plan of the space that is generated."""
    walk = generated(LLVM).walk(create_schedule(list(args)), LLVM)
    walk.finish()
    return walk.plan


def check_point(sketch: Sketch, rng: np.random.Generator, inputs: Sequence[Any], wanted: Sequence[Any]) -> None:
    """A point of a sketch that is drawn, against the reference."""
    assert not sketch.failure, sketch.failure
    points, target = sketch.valid_points, sketch.structure.target
    assert points.count, sketch.name
    knobs = sketch.values(points.rows([int(rng.integers(points.count))])[0])
    got = Module(compile_function(sketch.structure.bind(knobs), target), target)(*inputs)
    for a, b in zip(got if isinstance(got, (tuple, list)) else [got], wanted, strict=True):
        wrong = compare(a, b, *allowed_error(b, None, None))
        assert not wrong, f"{sketch.name} with {knobs}: {wrong}"


def check(
    args: Sequence[Tensor], most: int = 6, sizes: Mapping[str, int] | None = None, target: Target = LLVM
) -> SearchSpace:
    """A point of some sketches of a program's space, against the reference."""
    w = Workload("w", list(args))
    inputs = w.sample_inputs(sizes or {})
    wanted = w.reference(inputs)
    space = w.search_space(target, sizes or {})
    assert not space.untraced
    rng = np.random.default_rng(3)
    for at in rng.permutation(len(space.sketches))[:most]:
        check_point(space.sketches[at], rng, inputs, wanted)
    return space
