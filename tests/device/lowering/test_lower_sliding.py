"""Sliding windows: what is stored at an outer loop is computed once, and kept as long as it is read."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from messages import without_line
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import AutoschedError, LowerError, ScheduleError
from autosched.ir.expr import Expr
from autosched.ir.printer import format_function
from autosched.ir.stmt import Allocate, Function, walk
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.space.features import FEATURE_NAMES, extract
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference
from autosched.testing.schedules import random_knobs
from autosched.testing.step import Step

Golden = Callable[..., None]


def clamp(value: Expr, extent: Expr) -> Expr:
    return te.max(te.min(value, extent - 1), 0)


def blur() -> list[Tensor]:
    """image -> columns, sums of three neighbours in a row -> blur, sums of three rows of them."""
    height, width = te.var("height"), 24
    image = te.placeholder((height, width), "int32", name="image")
    columns = te.compute(
        (height + 2, width),
        lambda y, x: image[clamp(y - 1, height), x] + image[clamp(y - 1, height), clamp(x + 1, te.const(width))],
        name="columns",
    )
    blurred = te.compute((height, width), lambda y, x: columns[y, x] + columns[y + 1, x] * 3 + columns[y + 2, x])
    return [image, blurred]


def rows(args: list[Tensor]) -> Schedule:
    """Strips of rows in parallel, a row of column sums for each row."""
    s = create_schedule(args[1])
    out, columns = s[args[1]], s["columns"]
    strip, line = out.split(out.loops[0], factor=s.define_knob("rows", [1, 2, 4, 8]))
    out.parallel(strip)
    columns.compute_at(out, line).store_at(out, strip)
    _, lane = columns.split("x", factor=8)
    columns.vectorize(lane)
    return s


def picture(height: int, width: int = 24) -> np.ndarray:
    return np.random.default_rng(height).integers(-99, 99, (height, width)).astype("int32")


def stored(f: Function, name: str) -> tuple[str, ...]:
    return next(
        tuple(map(repr, x.buffer.shape)) for x in walk(f.body) if isinstance(x, Allocate) and x.buffer.name == name
    )


def test_rows_of_a_strip(golden: Golden) -> None:
    args = blur()
    structure = lower_structure(rows(args), args, "llvm", "blur")
    golden(str(structure), "sliding_rows")
    golden(format_function(structure.after("partition", {"rows": 8})), "sliding_rows_partitioned")


@pytest.mark.parametrize("backend", ["interpreter", "interpreter-backwards", "native"])
@pytest.mark.parametrize("knob", [1, 2, 4, 8])
def test_rows_of_a_strip_are_right(backend: str, knob: int) -> None:
    args = blur()
    s = rows(args)
    images = [[picture(h)] for h in (1, 2, 7, 8, 9, 19)]
    check_against_reference(args, s, "llvm", images[0], backend, {"rows": knob}, images[1:])  # type: ignore[arg-type]
    assert_roundtrip(s, args)


def test_each_row_is_computed_once() -> None:
    """Ten rows of columns for a strip of 8, not 8 times 3; and features count them so."""
    args = blur()
    counts = []
    for store in (True, False):
        s = rows(args) if store else create_schedule(args[1])
        if not store:
            _, line = s[args[1]].split(s[args[1]].loops[0], factor=s.define_knob("rows", [1, 2, 4, 8]))
            s["columns"].compute_at(s[args[1]], line)
        features = extract(lower_structure(s, args, "llvm"))
        env = {s.size("height"): np.array([80]), s.knobs["rows"].var: np.array([8])}
        logarithm = features.evaluate(env, 1)[0, FEATURE_NAMES.index("iterations")]
        counts.append(round(2**logarithm - 1))
    assert counts == [(80 + 10 * 10) * 24, (80 + 80 * 3) * 24]


def test_two_loops_in_a_row_count_as_one() -> None:
    """The strip is split again; the window slides through both loops without starting anew."""
    args = blur()
    s = create_schedule(args[1])
    out = s[args[1]]
    task, line = out.split(out.loops[0], factor=8)
    strip, line = out.split(line, factor=2)
    s["columns"].compute_at(out, line).store_at(out, task)
    text = str(lower_structure(s, args, "llvm"))
    assert f"if ({strip.name} == 0 && {line.name} == 0)" in text
    check_against_reference(args, s, "llvm", [picture(19)], "interpreter")


def test_a_loop_that_restarts() -> None:
    """Blocks of columns outside the rows: each starts with a warm-up of its own."""
    args = blur()
    s = create_schedule(args[1])
    out = s[args[1]]
    block, _ = out.split(out.loops[1], factor=8)
    y = out.loops[0]
    out.reorder(block, y)
    s["columns"].compute_at(out, y).store_at(out, block)
    f = lower_structure(s, args, "llvm").function
    assert stored(f, "columns") == ("3", "8")
    check_against_reference(args, s, "llvm", [picture(19)], "interpreter")


def test_the_innermost_dimension_slides_but_is_not_folded() -> None:
    a = te.placeholder((40,), "int32", name="A")
    b = te.compute((40,), lambda i: a[i] * 3, name="B")
    c = te.compute((38,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    s = create_schedule(c)
    outer, inner = s[c].split("i", factor=16)
    s[b].compute_at(s[c], inner).store_at(s[c], outer)
    f = lower_structure(s, [a, c], "llvm").function
    assert stored(f, "B") == ("18",)
    assert "if (i.inner == 0)" in format_function(f)
    check_against_reference([a, c], s, "llvm", [np.arange(40, dtype="int32")], "interpreter")


def test_where_nothing_slides_the_whole_region_is_computed() -> None:
    """The index is data: no telling where it moves."""
    at = te.placeholder((8,), "int32", name="at")
    a = te.placeholder((8, 4), "int32", name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j] * 3, name="B")
    c = te.compute((8, 4), lambda i, j: b[te.max(te.min(at[i], 7), 0), j], name="C")
    s = create_schedule(c)
    outer, inner = s[c].split("i", factor=4)
    s[b].compute_at(s[c], inner).store_at(s[c], outer)
    f = lower_structure(s, [at, a, c], "llvm").function
    assert stored(f, "B") == ("8", "4")
    assert "== 0" not in format_function(f)
    inputs = [np.arange(8, dtype="int32")[::-1].copy(), np.arange(32, dtype="int32").reshape(8, 4)]
    check_against_reference([at, a, c], s, "llvm", inputs, "interpreter")


# -- chains of stencils -------------------------------------------------------------------------------


def chain(rng: random.Random) -> list[Tensor]:
    """Stages that read rows of the one before: neighbours, every other, half of them, in reverse."""
    n, width = te.var("n"), rng.choice([5, 8])
    source = te.placeholder((n, width), "int32", name="source")
    last, height = source, n
    for i in range(rng.randint(2, 3)):
        k = rng.randint(1, 3)
        last, height = _stage(rng.choice(("near", "near", "far", "down", "up", "flip", "both")), last, height, k, i)
    return [source, last]


def _stage(kind: str, a: Tensor, height: Expr, k: int, i: int) -> tuple[Tensor, Expr]:
    width = a.shape[1]
    result = {"down": (height + 1) // 2, "up": height * 2}.get(kind, height)

    def element(y: Expr, x: Expr) -> Expr:
        match kind:
            case "near":
                return a[clamp(y - 1, height), x] + a[clamp(y + k, height), x] * 2
            case "far":
                return a[clamp(y - k, height), x] - a[y, x]
            case "down":
                return a[clamp(2 * y - 1, height), x] + a[clamp(2 * y + k, height), x]
            case "up":
                return a[y // 2, x] * 3 + a[clamp((y + 1) // 2, height), x]
            case "flip":
                return a[height - 1 - y, x] + a[clamp(height - y, height), x]
            case _:
                return a[y, clamp(x - 1, width)] + a[clamp(y + 1, height), clamp(x + k, width)]

    return te.compute((result, width), element, name=f"T{i}"), result


def stored_outside(rng: random.Random, args: list[Tensor]) -> Schedule:
    """Each intermediate computed at a random loop of one of its readers, and stored at one around it."""
    s = create_schedule(args[1])
    hosts = [s[args[1]]]
    for _ in range(rng.randint(1, 2)):
        loop = rng.choice(hosts[0].loops)
        hosts[0].split(loop, factor=s.define_knob(f"k{len(s.knobs)}", rng.sample([1, 2, 3, 4, 8], 2)))
    if rng.random() < 0.3:
        hosts[0].reorder(*rng.sample(hosts[0].loops, 2))
    for stage in [x for x in reversed(s.stages) if not x.is_placeholder and not x.is_output]:
        host = rng.choice([x for x in hosts if s.depends_on(x, stage)])
        inner = rng.randrange(len(host.loops))
        for kind, loop in (("compute_at", host.loops[inner]), ("store_at", host.loops[rng.randint(0, inner)])):
            _if_consistent(s, Step(kind, stage.name, (host.name, loop.name)))
        if rng.random() < 0.4:
            stage.split(rng.choice(stage.loops), factor=rng.choice([2, 3]))
        hosts.append(stage)
    _if_consistent(s, Step("parallel", hosts[0].name, (hosts[0].loops[0].name,)))
    return s


def _if_consistent(s: Schedule, step: Step) -> None:
    from autosched.testing.steps import stays_consistent

    if stays_consistent(s, step):
        step.apply(s)


@pytest.mark.parametrize("seed", range(40))
def test_chains_of_stencils(seed: int) -> None:
    rng = random.Random(seed)
    args = chain(rng)
    s = stored_outside(rng, args)
    sources = [[picture(n, int(args[0].shape[1].value))] for n in (rng.randint(1, 4), rng.randint(5, 14))]
    backend = "native" if seed % 2 else "interpreter"
    check_against_reference(args, s, "llvm", sources[0], backend, random_knobs(s, rng), sources[1:])  # type: ignore[arg-type]


# -- what is illegal ----------------------------------------------------------------------------------


def lowered(calls: Callable[[Schedule, Tensor], None], target: str = "llvm") -> None:
    args = blur()
    s = create_schedule(args[1])
    calls(s, args[1])
    lower_structure(s, args, target)


def across_threads(s: Schedule, out: Tensor) -> None:
    s[out].parallel(s[out].loops[1])
    s["columns"].compute_at(s[out], s[out].loops[1]).store_at(s[out], s[out].loops[0])


def stored_inside(s: Schedule, out: Tensor) -> None:
    s["columns"].compute_at(s[out], s[out].loops[0]).store_at(s[out], s[out].loops[1])


def computed_at_the_root(s: Schedule, out: Tensor) -> None:
    s["columns"].store_at(s[out], s[out].loops[0])


def split_away(s: Schedule, out: Tensor) -> None:
    y, x = s[out].loops
    s["columns"].compute_at(s[out], x).store_at(s[out], y)
    s[out].split(y, factor=4)


def shared_by_a_group(s: Schedule, out: Tensor) -> None:
    y, x = s[out].loops
    s[out].bind(y, "blockIdx.x")
    line, x = s[out].split(x, factor=8)
    s["columns"].compute_at(s[out], line).store_at(s[out], y)
    s["columns"].set_scope("shared")


@pytest.mark.parametrize(
    ("calls", "kind", "target"),
    [
        (across_threads, ScheduleError, "llvm"),
        (stored_inside, ScheduleError, "llvm"),
        (computed_at_the_root, ScheduleError, "llvm"),
        (split_away, ScheduleError, "llvm"),
        (shared_by_a_group, LowerError, "opencl"),
    ],
)
def test_illegal_storage(
    calls: Callable[[Schedule, Tensor], None], kind: type[AutoschedError], target: str, golden: Golden
) -> None:
    with pytest.raises(kind) as raised:
        lowered(calls, target)
    assert raised.value.asked
    assert raised.value.legal
    golden(f"{without_line(raised.value)}\n", f"sliding_error_{calls.__name__}")


def test_inside_a_work_item() -> None:
    """Storage of one work-item may slide: a circular buffer of its own."""
    args = blur()
    s = create_schedule(args[1])
    out = s[args[1]]
    y, x = out.loops
    strip, line = out.split(y, factor=8)
    out.reorder(strip, x, line)
    out.bind(strip, "blockIdx.x")
    out.bind(x, "threadIdx.x")
    s["columns"].compute_at(out, line).store_at(out, x)
    check_against_reference(args, s, "opencl", [picture(19)], "interpreter")
