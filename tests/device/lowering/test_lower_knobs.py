"""A sketch lowered once is every candidate: binding a knob equals writing the number in the schedule."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable

import numpy as np
import pytest
import seed_programs

from autosched import te
from autosched.ir.expr import Expr
from autosched.ir.printer import format_function
from autosched.ir.simplify import Analyzer
from autosched.lowering import lower_structure
from autosched.lowering.pipeline import Structure
from autosched.schedule import Schedule, create_schedule, replay
from autosched.space.features import FEATURE_NAMES, extract
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference
from autosched.testing.schedules import with_numbers

SIZES = {"height": 37, "width": 50}
#: what a sketch counts though a value of a knob may resolve it, and bounds that a value may narrow
UPPER_BOUNDS = ("index_arithmetic", "choices", "guards", "inner_footprint", "row_footprint", "task_footprint")

#: Sums over all stores. Which store is the main one is decided for a sketch, by its loops: one that runs once is no loop
#: of the schedule with numbers, and another store may be the main one there.
SUMS = (
    *("iterations", "arithmetic", "vector_arithmetic", "index_arithmetic", "choices", "guards", "bytes_loaded"),
    *("bytes_stored", "vector_loads", "recomputation", "bytes_into_l1", "bytes_into_l2", "bytes_into_l3"),
    *("global_intermediate_bytes", "register_loads", "regions"),
)


def strips(b: seed_programs.Blur) -> Schedule:
    """Inlined, rows fused, unrolled and vectorized, strips of rows in parallel."""
    s = seed_programs.inline(b)
    blur = s[b.box_blur]
    y, x, c = b.box_blur.op.axis
    block, lane = blur.split(blur.fuse(x, c), factor=s.define_knob("lanes", [8, 32]))
    strip, line = blur.split(y, factor=s.define_knob("rows", [1, 3]))
    task, strip = blur.split(strip, factor=s.define_knob("strips", [1, 4]))
    blur.reorder(task, strip, block, line, lane)
    blur.parallel(task)
    blur.unroll(line)
    blur.vectorize(lane)
    return s


def bands(b: seed_programs.Blur) -> Schedule:
    """Horizontal sums of a band of rows in a buffer, split as the output is."""
    s = create_schedule(b.box_blur)
    s[b.padded].compute_inline()
    s[b.y_blur].compute_inline()
    blur, sums = s[b.box_blur], s[b.x_blur]
    band, _ = blur.split("y", factor=s.define_knob("rows", [1, 4, 5]))
    blur.parallel(band)
    sums.compute_at(blur, band)
    lanes = s.define_knob("lanes", [4, 16])
    for stage in (blur, sums):
        _, lane = stage.split(stage.fuse(*stage.loops[-2:]), factor=lanes)
        stage.vectorize(lane)
    return s


def tiles(b: seed_programs.Blur) -> Schedule:
    """Every stage computed at tiles of the next one."""
    s = create_schedule(b.box_blur)
    ty, tx = s.define_knob("ty", [3, 8]), s.define_knob("tx", [5, 16])
    _, at, _, _ = s[b.box_blur].tile("y", "x", ty, tx)
    for stage in (b.y_blur, b.x_blur, b.padded):
        s[stage].compute_at(s[b.box_blur], at)
    s[b.x_blur].split("x", nparts=s.define_knob("parts", [1, 2]))
    return s


SKETCHES: dict[str, Callable[[seed_programs.Blur], Schedule]] = {f.__name__: f for f in (strips, bands, tiles)}


def both(name: str) -> list[tuple[dict[str, int], Structure, Structure]]:
    """For every value of the knobs: the sketch's structure, and that of the schedule with numbers."""
    b = seed_programs.box_blur()
    s = SKETCHES[name](b)
    graph, trace = te.graph_to_json(b.args), json.loads(json.dumps(s.trace.to_json()))
    args = te.graph_from_json(graph)
    sketch = lower_structure(replay(trace, args), args, "llvm")
    found = []
    for values in itertools.product(*(k.values for k in s.knobs.values())):
        knobs = dict(zip(s.knobs, values, strict=True))
        args = te.graph_from_json(graph)
        found.append((knobs, sketch, lower_structure(replay(with_numbers(trace, knobs), args), args, "llvm")))
    return found


def features(structure: Structure, knobs: dict[str, int]) -> np.ndarray:
    env: dict[Expr, object] = {k.var: np.array([knobs[k.name]]) for k in structure.knobs}
    env.update({v: np.int64(SIZES[v.name]) for v in structure.function.sizes})
    return extract(structure).evaluate(env, 1)[0]


@pytest.mark.parametrize("name", SKETCHES)
def test_binding_equals_lowering_with_numbers(name: str) -> None:
    for knobs, sketch, concrete in both(name):
        assert format_function(sketch.bind(knobs)) == format_function(concrete.bind()), knobs


@pytest.mark.parametrize("name", SKETCHES)
def test_symbolic_features_equal_concrete_features(name: str) -> None:
    for knobs, sketch, concrete in both(name):
        symbolic, exact = features(sketch, knobs), features(concrete, {})
        for column, x, y in zip(FEATURE_NAMES, symbolic, exact, strict=True):
            if 1 in knobs.values() and column not in SUMS:
                continue
            if column in UPPER_BOUNDS:
                assert x >= y - 1e-9, (column, knobs)
            else:
                assert x == pytest.approx(y, rel=1e-12), (column, knobs)


@pytest.mark.parametrize("name", SKETCHES)
def test_every_candidate_computes_the_same(name: str) -> None:
    b = seed_programs.box_blur()
    s = SKETCHES[name](b)
    image = np.random.default_rng(0).integers(0, 256, (11, 13, 3), dtype=np.uint8)
    candidates = list(itertools.product(*(k.values for k in s.knobs.values())))
    for values in random.Random(0).sample(candidates, min(4, len(candidates))):
        check_against_reference(b.args, s, "llvm", [image], "native", dict(zip(s.knobs, values, strict=True)))


def test_open_knobs_are_bounded_by_their_values() -> None:
    """What holds for every value of a knob needs no question in the sketch."""
    n = te.var("n")
    a = te.placeholder((n, 64), "int32", name="A")
    b = te.compute((n, 64), lambda i, j: a[i, j] + 1, name="B")
    s = create_schedule(b)
    x = s.define_knob("x", [2, 4])
    assert Analyzer().prove(x >= 2)
    assert Analyzer().prove(x <= 4)
    s[b].split("j", factor=x)
    structure = lower_structure(s, [a, b], "llvm")
    assert "if (" in str(structure)  # 64 is a multiple of both, which algebra cannot know
    assert "if (" not in format_function(structure.bind({"x": 4}))


def sums_of_rows() -> tuple[list[Tensor], Schedule]:
    n = te.var("n")
    a = te.placeholder((n, n), "int32", name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = create_schedule(b)
    s[b].split("k", factor=s.define_knob("x", [1, 3, 4]) * 2)
    s[b].split("i", nparts=s.define_knob("y", [1, 2]))
    return [a, b], s


@pytest.mark.parametrize("knobs", [{"x": 1, "y": 1}, {"x": 3, "y": 2}, {"x": 4, "y": 2}])
def test_factors_that_are_formulas(knobs: dict[str, int]) -> None:
    args, s = sums_of_rows()
    for n in (1, 5, 8):
        values = np.arange(n * n, dtype=np.int32).reshape(n, n)
        check_against_reference(args, s, "llvm", [values], "interpreter", knobs)


def test_a_knob_that_nothing_uses_must_still_have_a_value() -> None:
    args, s = sums_of_rows()
    s.define_knob("idle", [1, 2])
    structure = lower_structure(s, args, "llvm")
    structure.bind({"x": 1, "y": 1, "idle": 2})
    with pytest.raises(Exception, match="knob idle has no value"):
        structure.bind({"x": 1, "y": 1})


def test_lowering_twice_gives_the_same_program() -> None:
    """Proofs do not depend on what this process happened to lower before."""
    for name in SKETCHES:
        for knobs, sketch, _ in both(name)[:2]:
            texts = {format_function(sketch.bind(knobs)) for _ in range(3)}
            assert len(texts) == 1, (name, knobs)
