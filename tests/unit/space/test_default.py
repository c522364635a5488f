"""The default schedule of CPUs: what is done to which loops, and what is left alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest
import seed_programs

from autosched import te
from autosched.schedule import Schedule, replay
from autosched.space import default as default_module
from autosched.space.default import default_schedule, plain_schedule
from autosched.target import Target
from autosched.te.tensor import Tensor
from autosched.testing.oracle import check_against_reference

CPU = Target("llvm -num-cores=4").with_limits(vector_bytes=32)


def default(*args: Tensor) -> Schedule:
    s = default_schedule(args, CPU)
    stored = json.loads(json.dumps(s.trace.to_json()))
    assert replay(stored, args, trusted=False).trace.to_json() == stored
    return s


def loops(s: Schedule, stage: Tensor | str) -> str:
    return s[stage].describe()


def doubled(*shape: int | te.Expr, dtype: str = "float32") -> tuple[Tensor, Tensor]:
    a = te.placeholder(shape, dtype, name="A")
    return a, te.compute(shape, lambda *i: a[i] * 2, name="B")


def row_sums(n: int, m: int, dtype: str = "float32") -> tuple[Tensor, Tensor]:
    a, k = te.placeholder((n, m), dtype, name="A"), te.reduce_axis((0, m), "k")
    return a, te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")


def product(n: int) -> Sequence[Tensor]:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    return a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((512, 512), "i (parallel) / j.outer / j.inner (vectorize)"),
        ((64, 64), "i / j.outer / j.inner (vectorize)"),  # too little for threads
        ((2, 512, 512), "i.j.fused (parallel) / k.outer / k.inner (vectorize)"),  # two tasks are too few for four
        ((512, 512, 3), "i (parallel) / j.k.fused.outer / j.k.fused.inner (vectorize)"),
        ((1 << 20,), "i.outer.outer (parallel) / i.outer.inner / i.inner (vectorize)"),
        ((3,), "i"),
        ((0, 8), "i.j.fused.outer / i.j.fused.inner (vectorize)"),
    ],
)
def test_maps(shape: tuple[int, ...], expected: str) -> None:
    a = te.placeholder(shape, name="A")
    axes = "ijk"[: len(shape)]
    b = te.compute(shape, eval(f"lambda {', '.join(axes)}: a[{', '.join(axes)}] * 2", {"a": a}), name="B")
    assert loops(default(a, b), b) == expected


def test_lanes_are_those_of_the_widest_element_and_of_short_rows_fewer() -> None:
    a = te.placeholder((64, 64), "uint8", name="A")
    b = te.compute((64, 64), lambda i, j: (a[i, j].astype("float64") / 3).astype("uint8"), name="B")
    assert ["split", "B", "j", {"factor": 4}] in default(a, b).trace.to_json()
    assert ["split", "B", "i1", {"factor": 8}] in default(*doubled(8, 20)).trace.to_json()
    assert ["split", "B", "i1", {"factor": 4}] in default(*doubled(8, 17, dtype="float64")).trace.to_json()


def test_where_neighbours_lie_apart_there_are_no_vectors() -> None:
    a = te.placeholder((512, 512), name="A")
    found = []
    for place in (lambda i, j: (j, i), lambda i, j: (i, 511 - j), lambda i, j: (i, j // 2)):
        found.append(te.compute((512, 512), lambda i, j, at=place: a[at(i, j)] + 1, name="B"))
    ids = te.placeholder((512,), "int32", name="I")
    found.append(te.compute((512, 512), lambda i, j: a[i, te.min(te.max(ids[j], 0), 511)], name="B"))
    for b in found:
        assert loops(default_schedule([b], CPU), b) == "i (parallel) / j"


def test_borders_are_for_rows_that_are_long_beside_them() -> None:
    def clamped(n: int) -> Tensor:
        a = te.placeholder((n, n), name="A")
        return te.compute((n, n), lambda i, j: a[i, te.max(j - 1, 0)] + a[i, te.min(j + 1, n - 1)], name="B")

    assert loops(default_schedule([clamped(512)], CPU), "B") == "i (parallel) / j.outer / j.inner (vectorize)"
    assert loops(default_schedule([clamped(40)], CPU), "B") == "i / j"


def test_a_product_is_computed_in_tiles_and_in_order() -> None:
    s = default(*product(256))
    tile = "i.outer (parallel) / j.outer / k / i.inner (unroll) / j.inner (vectorize)"
    assert loops(s, "C") == tile
    assert ["split", "C", "j", {"factor": 16}] in s.trace.to_json()  # two vectors


def test_windows_are_finished_for_vectors_of_results_and_rows_are_walked_along() -> None:
    def filtered(size: int) -> Tensor:
        a, u = te.placeholder((300, 300), name="A"), te.reduce_axis((0, size), "u")
        return te.compute((200, 200), lambda i, j: te.sum(a[i + u, j], axis=u), name="B")

    assert loops(default_schedule([filtered(5)], CPU), "B").endswith("/ j.outer / u / j.inner (vectorize)")
    assert loops(default_schedule([filtered(80)], CPU), "B") == "i (parallel) / u / j"


def test_sums_that_wait_for_one_another_are_computed_side_by_side() -> None:
    assert loops(default(*row_sums(512, 512)), "B") == "i.outer (parallel) / k / i.inner (unroll)"
    assert loops(default(*row_sums(512, 512, "int32")), "B") == "i (parallel) / k"  # any order does
    assert loops(default(*row_sums(512, 8)), "B") == "i / k"
    assert loops(default(*row_sums(2, 1 << 17)), "B") == "i (parallel) / k"


def test_columns_are_added_up_in_strips() -> None:
    a, k = te.placeholder((512, 4096), name="A"), te.reduce_axis((0, 512), "k")
    b = te.compute((4096,), lambda j: te.sum(a[k, j], axis=k), name="B")
    assert loops(default(a, b), b) == "j.outer (parallel) / k / j.inner"
    assert loops(plain_schedule([a, b], CPU), b) == "k / j"


def test_a_scalar_stays_a_loop() -> None:
    a, k = te.placeholder((1 << 20,), name="A"), te.reduce_axis((0, 1 << 20), "k")
    assert not len(default(a, te.compute((), lambda: te.sum(a[k], axis=k), name="B")).trace)


def test_tasks_of_sizes_known_at_the_call_are_long_enough() -> None:
    n, m = te.var("n"), te.var("m")
    s = default(*doubled(n, m))
    assert loops(s, "B") == "i0.outer (parallel) / i0.inner / i1.outer / i1.inner (vectorize)"
    (rows,) = (i[3]["factor"] for i in s.trace.to_json() if i[:3] == ["split", "B", "i0"])
    assert rows * default_module.USUAL_LENGTH * 2 >= default_module.LEAST_TASK
    assert loops(default(*doubled(n)), "B") == "i0.outer.outer (parallel) / i0.outer.inner / i0.inner (vectorize)"


# -- producers ------------------------------------------------------------------------------------


def test_what_is_used_once_in_order_is_computed_there() -> None:
    a = te.placeholder((64, 64), name="A")
    shifted = te.compute((64, 64), lambda i, j: a[i, j] + 1, name="shifted")
    root = te.compute((64, 64), lambda i, j: te.sqrt(shifted[i, j]), name="root")
    k = te.reduce_axis((0, 64), "k")
    total = te.compute((64,), lambda i: te.sum(root[i, k], axis=k), name="total")
    s = default(a, total)
    assert [s[x].attach.kind for x in ("shifted", "root", "total")] == ["inline", "root", "root"]  # roots are vectors


@pytest.mark.parametrize(
    "use",
    [
        lambda a, p: lambda i, j: p[j, i],  # against the order
        lambda a, p: lambda i, j: p[i, j] + p[i, 0],  # twice
        lambda a, p: lambda i, j: p[i, 0] + a[i, j],  # again and again
        lambda a, p: lambda i, j: p[i, 63 - j],
    ],
)
def test_other_producers_are_stored(use) -> None:  # type: ignore[no-untyped-def]
    a = te.placeholder((64, 64), name="A")
    p = te.compute((64, 64), lambda i, j: a[i, j] + 1, name="P")
    s = default(a, te.compute((64, 64), use(a, p), name="B"))
    assert s[p].attach.kind == "root"


def test_products_of_floats_are_stored_and_those_of_integers_not() -> None:
    for dtype, kind in (("float32", "root"), ("int32", "inline"), ("float16", "root")):
        _, p = doubled(64, 64, dtype=dtype)
        s = default_schedule([te.compute((64, 64), lambda i, j, p=p: p[i, j] + 1, name="C")], CPU)
        assert s[p].attach.kind == kind


def test_chains_of_producers_do_not_grow_without_bound() -> None:
    t = te.placeholder((4096,), name="A")
    for _ in range(600):
        t = te.compute((4096,), lambda i, t=t: t[i] + 1, name="t")
    s = default_schedule([t], CPU)
    stored = [x for x in s.stages if not x.is_placeholder and x.attach.kind == "root"]
    assert 2 < len(stored) < 8


# -- what keeps its loops -------------------------------------------------------------------------


def test_scans() -> None:
    def decay(n: int) -> Tensor:
        state = te.placeholder((512, n), name="state")
        x = te.placeholder((512, n), name="X")
        first = te.compute((1, n), lambda t, i: x[t, i], name="first")
        update = te.compute((512, n), lambda t, i: state[t - 1, i] * 0.5 + x[t, i], name="update")
        return te.scan(first, update, state, inputs=[x], name="S")

    s = default_schedule([wide := decay(4096)], CPU)
    assert "(parallel)" in loops(s, wide) and loops(s, wide).index("idx") > loops(s, wide).index("(parallel)")
    assert not len(default_schedule([decay(512)], CPU).trace)


def test_work_items_of_a_scan_have_the_columns_that_do_not_depend_on_each_other() -> None:
    """A step looks at the row above, so all rows of a time come before the next time."""
    state, x = te.placeholder((4, 3, 5), name="state"), te.placeholder((3, 5), name="X")
    first = te.compute((1, 3, 5), lambda _, y, x_: x[y, x_], name="first")
    update = te.compute((4, 3, 5), lambda t, y, x_: state[t - 1, (y + 1) % 3, x_] * 0.5, name="update")
    made = te.scan(first, update, state, inputs=[x], name="S")
    s = default_schedule([made], Target("opencl"))
    assert loops(s, made).endswith("S.i2.inner (threadIdx.x) / S.idx / S.i1")
    values = np.random.default_rng(0).integers(-9, 9, (3, 5)).astype("float32")
    check_against_reference((x, made), s, "opencl", [values], "interpreter")


def test_scatters_share_their_leading_axes() -> None:
    image, p = te.placeholder((32, 1 << 14), "uint8", name="image"), te.reduce_axis((0, 1 << 14), "p")
    count = te.const(1, "int32")
    counts = te.scatter_reduce((32, 256), lambda b: (image[b, p].astype("int32"), count), p, name="counts")
    assert loops(default_schedule([counts], CPU), counts).startswith("b (parallel) / ")
    one = te.scatter_reduce((256,), lambda: (image[0, p].astype("int32"), count), p, name="one")
    assert not len(default_schedule([one], CPU).trace)


def test_results_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the interpreter, which finds races; small programs as if they were large."""
    for name, value in (("WORTH_THREADS", 1), ("LEAST_TASK", 16), ("LONG_REDUCTION", 2), ("STRIP", 16)):
        monkeypatch.setattr(default_module, name, value)
    rng = np.random.default_rng(0)
    for args in (doubled(5, 7, 3), row_sums(7, 9), product(11), tuple(seed_programs.box_blur().args)):
        shapes = [[d.value if d.op == "const" else 9 for d in t.shape] for t in args[:-1]]
        inputs = [rng.integers(0, 5, at).astype(t.dtype.numpy) for t, at in zip(args, shapes, strict=False)]
        check_against_reference(args, default_schedule(args, CPU), "llvm", inputs, "interpreter")
