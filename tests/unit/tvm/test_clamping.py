"""Splits with more parts than iterations, in TVM's programs: lengths of loops, results, and what keeps its length."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import tvm
from autosched.schedule.schedule import create_schedule, replay
from autosched.tvm import te
from autosched.tvm.clamping import clamped


def chain(n: int = 8) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    return A, B, te.compute((n,), lambda i: B[i] * 2, name="C")


def lengths(s: te.Schedule, tensor: te.Tensor) -> list[int]:
    found = te.schedule.InferBound(s)
    return [int(found[x].extent) for x in s[tensor].loops]


@pytest.mark.parametrize(
    ("by", "wanted"), [({"factor": 32}, [1, 8]), ({"nparts": 32}, [8, 1]), ({"factor": 8}, [1, 8])]
)
def test_a_split_has_no_more_iterations_than_there_are(by: dict[str, int], wanted: list[int]) -> None:
    A, B, C = chain()
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], **by)
    s[B].compute_at(s[C], outer)
    s[C].vectorize(inner)
    bounds = te.schedule.InferBound(s)
    assert [int(bounds[x].extent) for x in (outer, inner)] == wanted
    text = str(tvm.lower(s, [A, C], simple_mode=True))
    assert "if" not in text and "32" not in text.replace("float32", "")
    assert s.trace.as_python().count("32") == ("32" in str(by)), "the schedule itself stays as it was written"
    x = np.arange(8, dtype="float32")
    out = np.zeros(8, "float32")
    tvm.build(s, [A, C])(x, out)
    np.testing.assert_array_equal(out, (x + 1) * 2)


def test_a_stage_inside_of_another_counts_what_it_computes_there() -> None:
    A, B, C = chain(64)
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=16)
    s[B].compute_at(s[C], outer)
    b_outer, b_inner = s[B].split(B.op.axis[0], factor=32)
    innermost = s[B].split(b_inner, nparts=100)
    assert lengths(s, B) == [1, 16, 1]
    known = clamped(s)
    assert known is not s and known[B].loops[0].var is b_outer.var
    again = replay(known.trace, [C])
    assert [x.name for x in again[B].loops] == [x.name for x in (b_outer, *innermost)]
    assert "factor=16" in str(known.trace) and "nparts=16" in str(known.trace)
    x, out = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    tvm.build(s, [A, C])(x, out)
    np.testing.assert_array_equal(out, (x + 1) * 2)


def test_tiles_and_reduce_loops() -> None:
    A = te.placeholder((6, 5), name="A")
    k = te.reduce_axis((0, 5), name="k")
    B = te.compute((6, 3), lambda i, j: te.sum(A[i, k] * j, axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].tile(*B.op.axis, 4, 16)
    s[B].split(k, factor=64)
    assert lengths(s, B) == [2, 1, 4, 3, 1, 5]
    assert "64" not in str(clamped(s).trace) and "4, 3)" in str(clamped(s).trace)
    x, out = np.random.rand(6, 5).astype("float32"), np.zeros((6, 3), "float32")
    tvm.build(s, [A, B])(x, out)
    np.testing.assert_allclose(out, x.sum(1)[:, None] * np.arange(3), rtol=1e-5)


def test_loops_of_threads_keep_their_length() -> None:
    _, _, C = chain()
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=32)
    s[C].bind(outer, te.thread_axis("blockIdx.x"))
    s[C].bind(inner, te.thread_axis("threadIdx.x"))
    assert clamped(s) is s and lengths(s, C) == [1, 32]
    again = te.create_schedule(C.op)
    fused, _ = again[C].split(C.op.axis[0], factor=32)
    again[C].bind(again[C].fuse(fused), te.thread_axis("blockIdx.x"))
    assert lengths(again, C) == [1, 8]


def test_what_other_schedules_say_is_done() -> None:
    _, _, C = chain()
    s = create_schedule(C)
    s[C].split("i", factor=32)
    assert clamped(s) is s and lengths(s, C) == [1, 32]
    of_tvm = te.create_schedule(C.op)
    factor = of_tvm.define_knob("factor", [4, 32])
    of_tvm[C].split("i", factor=factor)
    assert clamped(of_tvm) is of_tvm
    empty = te.compute((0,), lambda i: i, name="E")
    none = te.create_schedule(empty.op)
    none[empty].split("i", factor=32)
    assert "0" in str(tvm.lower(none, [empty], simple_mode=True))
