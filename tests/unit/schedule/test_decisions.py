"""define_split, define_reorder, define_annotate, among and filters: what they allow, and that it is right."""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, prod
from typing import Any

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.codegen import compile_function
from autosched.errors import LowerError, ScheduleError
from autosched.ir.evaluate import evaluate
from autosched.lowering import lower_structure
from autosched.runtime.module import Module
from autosched.schedule import Schedule, create_schedule, replay
from autosched.space.space import Sketch, template_space
from autosched.space.workload import WorkloadFunction, template, workload
from autosched.target import Target
from autosched.te.reference import reference


def schedule(n: Any = 12, m: int = 8) -> Schedule:
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    return create_schedule(te.compute((n, m), lambda i, j: te.sum(a[i, k] * a[i, j], axis=k), name="B"))


def allowed(s: Schedule, names: list[str] | None = None) -> set[tuple[int, ...]]:
    """All values of the knobs that meet the constraints."""
    knobs = [s.knobs[n] for n in names or s.knobs]
    grid = np.stack(np.meshgrid(*[k.values for k in knobs], indexing="ij"), -1).reshape(-1, len(knobs))
    env = {k.var: grid[:, i] for i, k in enumerate(knobs)}
    kept = np.ones(len(grid), bool)
    for c in s.constraints:
        kept &= np.broadcast_to(evaluate([c.condition], env)[0].astype(bool), len(grid))
    return set(map(tuple, grid[kept].tolist()))


@pytest.mark.parametrize(
    ("extent", "options", "count"),
    [
        (512, {}, 10),
        (512, {"num_outputs": 4}, 220),
        (512, {"num_outputs": 4, "max_factor": 8}, 64),
        (12, {"num_outputs": 3}, 18),
        (13, {"policy": "power2"}, 4),
        (13, {"policy": "power2", "max_factor": 4}, 3),
        (12, {"policy": "verbose"}, 7),
        (12, {"policy": "verbose", "no_tail": True}, 6),
        (12, {"policy": "verbose", "no_tail": True, "num_outputs": 3}, 18),
        (100, {"policy": "power2", "num_outputs": 3}, 28),
        (100, {"policy": "candidate", "candidate": [[-1, 4, 4], [-1, 1, 8]], "num_outputs": 3}, 2),
        (100, {"policy": "candidate", "candidate": [[-1, 4, 4], [-1, 4, 8]], "num_outputs": 3}, 2),
    ],
)
def test_a_split_has_as_many_values_as_in_autotvm(extent: int, options: dict[str, Any], count: int) -> None:
    s = schedule()
    tile = s.define_split("tile", extent, **options)
    assert len(tile.rows) == count
    open_at = [i for i, x in enumerate(tile.size[1:]) if not isinstance(x, int)]
    assert allowed(s) == {tuple(r[i] for i in open_at) for r in tile.rows}
    assert tile.size[0] == -1 and len(tile.size) == options.get("num_outputs", 2)


def test_the_order_of_values_is_autotvms() -> None:
    assert schedule().define_split("t", 8, num_outputs=3).rows[:5] == ((1, 1), (2, 1), (4, 1), (8, 1), (1, 2))


def test_the_same_definition_twice_is_one_entity() -> None:
    s = schedule()
    assert s.define_split("t", 8, filter=lambda x: True) is s.define_split("t", 8, filter=lambda x: True)
    assert [i.kind for i in s.trace] == ["define_knob"]


def test_a_size_that_is_only_known_when_it_runs() -> None:
    s = schedule(te.var("n"))
    tile = s.define_split("tile", s["B"].op.axis[0], policy="power2", num_outputs=3, max_factor=4)
    assert [s.knobs[f"tile_{i}"].values for i in (1, 2)] == [(1, 2, 4)] * 2
    assert [c.reason for c in s.constraints] == ["the sizes of tile fit into n"]
    assert [x.name for x in tile.apply("B", "i")] == ["i.outer", "i.inner.outer", "i.inner.inner"]


@pytest.mark.parametrize(
    ("keep", "kind"),
    [
        (lambda x: x.size[1] * x.size[2] <= 16, "constrain"),
        (lambda x: te.all(x.size[1] >= 2, x.size[2] <= 8), "constrain"),
        (lambda x: x.size[1] == 4 or x.size[2] == 2, "among"),
        (lambda x: x.size[1] == 4 and x.size[2] > 1, "among"),
        (lambda x: x.size[1] in (2, 4), "among"),
        (lambda x: 2 <= x.size[-1] <= 8, "among"),
        (lambda x: x.size[1].bit_length() == 2, "among"),
    ],
)
def test_a_filter_is_an_expression_or_a_list(keep: Callable[[Any], Any], kind: str) -> None:
    s = schedule()
    tile = s.define_split("tile", 64, num_outputs=3, filter=keep)
    numbers = [r for r in tile.rows if keep(type(tile)("tile", (-1, *r)))]
    assert allowed(s) == set(numbers) != set(tile.rows)
    assert s.trace[-1].kind == kind


def test_a_filter_over_several() -> None:
    s = schedule()
    x, y = s.define_split("x", 16), s.define_split("y", 16)
    z = s.define_knob("z", [0, 1, 2])
    s.multi_filter(["x", "y"], lambda a, b: a.size[1] * b.size[1] <= 32, "they fit")
    s.multi_filter(["x", "z"], lambda a, c: a.size[1] in (4, 8) or c == 0)
    assert [i.kind for i in s.trace[-2:]] == ["constrain", "among"]
    rows = {(a, b, c) for (a,) in x.rows for (b,) in y.rows for c in (0, 1, 2)}
    assert allowed(s) == {(a, b, c) for a, b, c in rows if a * b <= 32 and (a in (4, 8) or c == 0)}
    assert z.name == "z"


def test_among_survives_json_and_python() -> None:
    s = schedule()
    a, b = s.define_knob("a", [1, 2, 3]), s.define_knob("b", [1, 2, 3])
    s.among([a, b], [(1, 2), (2, 1), (1, 3), (2, 1)], "these three")
    s.among(["b"], [[1], [3]])
    s["B"].split("i", factor=a)
    s["B"].split("j", factor=b)
    assert allowed(s) == {(2, 1), (1, 3)}
    assert_roundtrip(s, [s["A"].tensor, s["B"].tensor])
    structure = lower_structure(s, [s["A"].tensor, s["B"].tensor], "llvm")
    assert structure.bind({"a": 2, "b": 1})
    with pytest.raises(LowerError, match="these three"):
        structure.bind({"a": 3, "b": 1})
    assert "among" not in s.trace.as_python(knobs={"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("policy", "options", "count"),
    [
        ("identity", {}, 1),
        ("all", {}, factorial(4)),
        ("interval_all", {"interval": (1, 4)}, factorial(3)),
        ("candidate", {"candidate": [["i", "k", "j", "x"], ["k", "i", "x", "j"]]}, 2),
        ("interleave", {"spatial": [["i", "j"]], "reduce": [["k", "x"]]}, 1),
        ("interleave_cuda", {"spatial": [["i", "j"]], "reduce": [["k", "x"]]}, 1),
    ],
)
def test_orders_have_as_many_values_as_in_autotvm(policy: str, options: dict[str, Any], count: int) -> None:
    s = schedule()
    order = s.define_reorder("order", ["i", "j", "k", "x"], policy, **options)
    assert len(s.choices_seen.get("order", [0])) == count
    assert sorted(order.perm) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("policy", "count", "marks"),
    [
        ("none", 1, ("none",) * 3),
        ("unroll", 1, ("unroll",) * 3),
        ("try_unroll", 8, ("none",) * 3),
        ("try_vec", 4, ("none",) * 3),
        ("try_unroll_vec", 8 + 3 * 4, ("none",) * 3),
        ("bind_gpu", 1, ("fuse", "blockIdx.x", "threadIdx.x")),
        ("bind_gpu_virtual", 1, ("blockIdx.x", "vthread", "threadIdx.x")),
        ("locate_cache", 3, (0,)),
    ],
)
def test_marks_have_as_many_values_as_in_autotvm(policy: str, count: int, marks: tuple[Any, ...]) -> None:
    s = schedule()
    found = s.define_annotate("marks", ["i", "j", "k"], policy)
    assert len(s.choices_seen.get("marks", [0])) == count
    assert found.anns == marks


def test_marks_are_limited_by_extents() -> None:
    s = schedule().with_choices({"marks": "unroll vec"})
    outer, inner = s.define_split("tile", 12).apply("B", "i")
    s.define_annotate("marks", [inner, "j"], "try_unroll_vec").apply("B", [inner, "j"], max_unroll=4, vec_size=[8, 16])
    assert allowed(s) == {(1,), (2,), (3,), (4,)}
    s = schedule().with_choices({"marks": "none vec"})
    _, inner = s.define_split("tile", 12).apply("B", "i")
    s.define_annotate("marks", [outer, inner], "try_vec").apply("B", ["j", inner], vec_size=[2, 4, 8])
    assert allowed(s) == {(2,), (4,)}
    with pytest.raises(ScheduleError, match="the loop to vectorize has 8 iterations"):
        schedule().with_choices({"m": "vec"}).define_annotate("m", ["j"], "try_vec").apply("B", ["j"], vec_size=[4])


def test_a_cache_is_put_where_the_marks_say() -> None:
    s = schedule()
    sums = s.cache_write("B", "local")
    place = s.define_annotate("place", ["i", "j"], "locate_cache", num_anchor=1)
    place.apply("B", list(s["B"].loops), source=[[sums]])
    assert s[sums].attach.loop is s["B"].loops[0]


def _program() -> WorkloadFunction:
    @workload
    def product() -> object:
        a, b = te.placeholder((6, 4), "int32", name="a"), te.placeholder((4, 8), "int32", name="b")
        k = te.reduce_axis((0, 4), name="k")
        return a, b, te.compute((6, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")

    return product


def _points(sketch: Sketch) -> list[dict[str, int]]:
    grid = np.indices([len(k.values) for k in sketch.knobs]).reshape(len(sketch.knobs), -1).T
    return [sketch.values(row) for row in grid[sketch.mask(grid)]]


def test_every_candidate_of_a_small_space_is_right() -> None:
    product = _program()

    @template(product, target="llvm")
    def tiles(s: Schedule) -> None:
        c = s["c"]
        i, j = c.op.axis
        (k,) = c.op.reduce_axis
        rows = s.define_split("rows", i, policy="verbose", filter=lambda x: x.size[-1] > 1)
        lanes = s.define_split("lanes", j, policy="candidate", num_outputs=2, candidate=[[-1, 2], [-1, 8]])
        (io, ii), (jo, ji) = rows.apply(c, i), lanes.apply(c, j)
        s.multi_filter(["rows", "lanes"], lambda x, y: x.size[-1] * y.size[-1] in (4, 6, 12, 16, 48))
        order = s.define_reorder("order", [io, jo, k, ii, ji], "interval_all", interval=(1, 4))
        *_, last = order.apply(c, [io, jo, k, ii, ji])
        s.define_annotate("marks", [io, last], "try_vec").apply(c, [io, last])

    w = product()
    found = template_space(w, Target.parse("llvm"), {})
    assert len(found.sketches) == 6 * 3 and not found.failures
    arrays = [np.arange(24, dtype=np.int32).reshape(6, 4) - 9, np.arange(32, dtype=np.int32).reshape(4, 8) % 7]
    (wanted,) = reference(w.args, arrays)
    tried = 0
    for sketch in found.sketches:
        if "vec none" in sketch.name:
            continue  # vectorizes the outermost loop: nothing that a search would come to in time
        for point in _points(sketch)[::3]:
            s = replay(sketch.trace, w.args)
            assert s.trace.to_json() == sketch.trace
            module = Module(compile_function(sketch.structure.bind(point), Target.parse("llvm")), Target.parse("llvm"))
            assert np.array_equal(module(*arrays), wanted), (sketch.name, point)
            tried += 1
    assert not found.failures and tried >= 12
    assert prod(len(k.values) for k in found.sketches[0].knobs) > len(_points(found.sketches[0]))
