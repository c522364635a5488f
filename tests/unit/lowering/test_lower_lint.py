"""What `Schedule.check` finds, and that it finds nothing in schedules that are well made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autosched import create_schedule, te
from autosched.errors import ScheduleError
from autosched.ir.expr import const, var
from autosched.ir.stmt import Allocate, Barrier, Buffer, For, Function, If, Produce, Store, load, seq
from autosched.lowering import lint as linter
from autosched.schedule import Schedule
from autosched.space.loading import find_workload
from autosched.target import Target
from autosched.te.tensor import Tensor


def elementwise(n: int = 64, m: int = 64) -> tuple[Schedule, Tensor]:
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2, name="B")
    return create_schedule(b), b


def kinds(s: Schedule, target: str | Target = "llvm") -> list[str]:
    return [x.kind for x in s.check(target)]


def test_a_large_program_without_parallel_loops_gets_the_call_to_make() -> None:
    a = te.placeholder((1024, 512), name="a")
    b = te.compute((1024, 512), lambda i, j: a[i, j] * 2, name="b")
    s = create_schedule(b)
    (found,) = s.check("llvm -threads=4")
    assert (found.kind, found.better) == ("serial", 's["b"].parallel("i")')
    assert not s.check("llvm -threads=1")
    assert not s.check("opencl")
    s["b"].parallel("i")
    assert not s.check("llvm -threads=4")


def test_guards_that_no_border_takes_away() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="a")
    b = te.compute((n, m), lambda i, j: a[i, j] * 2, name="b")
    kept = create_schedule(b)
    _, _, rows, lanes = kept["b"].tile("i", "j", 100, 30)
    kept["b"].fuse(rows, lanes)
    (found,) = [x for x in kept.check() if x.kind == "guard"]
    assert found.where == "b.i.inner.j.inner.fused"
    assert "< m" in found.why
    cut = create_schedule(b)
    cut["b"].tile("i", "j", 100, 30)
    assert not [x for x in cut.check() if x.kind == "guard"]


def test_a_schedule_as_it_should_be() -> None:
    s, b = elementwise()
    _, lane = s[b].split("j", factor=16)
    s[b].vectorize(lane)
    s[b].parallel("i")
    assert s.check() == []


def test_strided_vectors() -> None:
    s, b = elementwise()
    _, lane = s[b].split("i", factor=8)
    s[b].reorder("j", lane)
    s[b].vectorize(lane)
    assert [x.where for x in s.check() if x.kind == "strided-vector"] == ["B.i.inner", "B.i.inner"]
    assert "64 elements of A" in "".join(map(str, s.check()))


def test_a_transposed_read_is_named_alone() -> None:
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    b = te.compute((n, n), lambda i, j: a[j, i], name="B")
    s = create_schedule(b)
    _, lane = s[b].split("j", factor=8)
    s[b].vectorize(lane)
    assert [x.why for x in s.check()] == ["neighbouring lanes are n elements of A apart"]


def test_vectors_along_an_axis_of_channels() -> None:
    a = te.placeholder((64, 64, 3), name="A")
    b = te.compute((64, 64, 3), lambda y, x, c: a[y, x, c] * 2, name="B")
    s = create_schedule(b)
    s[b].vectorize("c")
    assert [(x.kind, x.why) for x in s.check()] == [
        ("short-vector", "3 lanes are 12 bytes: the axis is shorter than a vector")
    ]
    s = create_schedule(b)
    s[b].vectorize(s[b].split(s[b].fuse("x", "c"), factor=16)[1])
    assert s.check() == []


def test_vectors_and_copies_too_large() -> None:
    s, b = elementwise(64, 512)
    s[b].vectorize("j")
    assert kinds(s) == ["wide-vector"]
    s, b = elementwise()
    s[b].unroll("i")
    s[b].unroll("j")
    assert kinds(s) == ["unroll"]


def test_parallel_loops() -> None:
    s, b = elementwise()
    s[b].parallel("j")
    assert kinds(s) == ["parallel"]
    s[b].parallel("i")
    assert "runs inside parallel i" in s.check()[0].why
    s, b = elementwise()
    outer, _ = s[b].split("i", nparts=2)
    s[b].parallel(outer)
    assert [x.why for x in s.check("llvm -threads=8")] == ["2 iterations for 8 threads"]


def test_tails_that_are_mostly_empty() -> None:
    s, b = elementwise(64, 17)
    s[b].split("j", factor=16)
    assert [x.why for x in s.check()] == ["blocks of 16 cover 32 iterations, and there are 17"]


def test_elements_that_are_computed_again_and_again() -> None:
    a = te.placeholder((66,), name="A")
    b = te.compute((66,), lambda i: te.exp(a[i]), name="B")
    c = te.compute((64,), lambda i: b[i] + b[i + 1] + b[i + 2], name="C")
    s = create_schedule(c)
    s[b].compute_at(s[c], "i")
    assert [(x.kind, x.where) for x in s.check()] == [("recompute", "B")]
    s[b].compute_root()
    assert s.check() == []


def test_limits_of_a_device() -> None:
    a = te.placeholder((64, 64), name="A")
    b = te.compute((64, 64), lambda i, j: a[j, i], name="B")
    s = create_schedule(b)
    tile = s.cache_read(a, "shared", [b])
    s[b].bind("i", "blockIdx.x")
    s[b].bind("j", "threadIdx.x")
    s[tile].compute_at(s[b], "i")
    target = Target.parse("opencl").with_limits(shared_memory_bytes=128, max_threads_per_block=32)
    assert [(x.kind, x.why) for x in s.check(target) if x.kind in ("shared-memory", "threads")] == [
        ("shared-memory", "256 bytes, and the device has 128"),
        ("threads", "64 work-items in a group, at most 32"),
    ]


def program(body: object) -> linter.LintedProgram:
    a = te.placeholder((4,), name="A")
    s = create_schedule(te.compute((4,), lambda i: a[i], name="B"))
    f = Function("f", (), (), body, ())  # type: ignore[arg-type]
    return linter.LintedProgram(f, s, Target.parse("opencl"), lambda _: f)


def test_races_of_bodies_written_by_hand() -> None:
    total, i = Buffer("total", (const(1),), const(0.0).dtype), var("i", role="loop")
    values = Buffer("values", (const(9),), total.dtype)
    add = Store(total, (const(0),), load(total, const(0)) + load(values, i))
    loop = For(i, const(0), const(9), "parallel", add)
    (found,) = linter.races(program(Produce("sum", loop)))
    assert (found.kind, found.where) == ("race", "sum.i")
    assert "every iteration writes total[0]" in found.why
    assert not list(linter.races(program(replace(loop, kind="serial"))))
    assert not list(linter.races(program(replace(loop, body=Allocate(total, add)))))
    apart = Store(values, (i,), load(values, i) + 1)
    assert not list(linter.races(program(replace(loop, body=apart))))


def test_barriers_that_not_all_reach() -> None:
    t = var("t", role="loop")
    body = seq(If(t < 3, Barrier()), Barrier())
    loop = For(t, const(0), const(8), "thread", body, "threadIdx.x")
    (found,) = linter.divergent_barriers(program(loop))
    assert found.why == "work-items where t < 3 is false do not get here"


def test_what_is_illegal_is_raised_as_ever() -> None:
    s, b = elementwise()
    a = s.stages[0].tensor
    c = s.cache_read(a, "local", [b])
    s[c].compute_at(s[b], "i")
    s[b].split("i", factor=4)
    with pytest.raises(ScheduleError, match="was split or fused away"):
        s.check()


@pytest.mark.parametrize("target", ["llvm", "opencl"])
@pytest.mark.parametrize("name", ["box_blur", "matmul", "softmax", "histogram", "cumsum"])
def test_templates_have_no_races(name: str, target: str) -> None:
    workload = find_workload(name)()
    for t in workload.templates:
        if not t.fits(Target.parse(target)):
            continue
        s = create_schedule(list(workload.outputs))
        t.apply(s, Target.parse(target))
        assert not {"race", "barrier"} & set(kinds(s, target))


# -- arithmetic that leaves its type ----------------------------------------------------------------


def overflow(body: Callable[..., Any], *types: str, shape: tuple[int, ...] = (8,)) -> list[str]:
    """What the lint says of a function of elements of these types."""
    tensors = [te.placeholder(shape, t, name=n) for n, t in zip("ABC", types, strict=False)]
    out = te.compute(shape, lambda *i: body(*(t(*i) for t in tensors)), name="out")
    return [str(x) for x in create_schedule(out).check() if x.kind == "overflow"]


def test_sums_of_bytes_wrap_around() -> None:
    (found,) = overflow(lambda a, b: (a + b) / 2, "uint8", "uint8")
    assert found == (
        "out: the uint8 A[i0] + B[i0] can reach 510, and uint8 ends at 255: it wraps around [overflow]\n"
        "  widen an operand first, with .astype('uint16'); where wrapping is meant, say & 255"
    )
    assert "can reach -255, and uint8 begins at 0" in overflow(lambda a, b: a - b, "uint8", "uint8")[0]
    assert "the int16 A[i0]*B[i0] can reach 1073741824" in overflow(lambda a, b: a * b, "int16", "int16")[0]
    assert "A[i0]*uint8(2)" in overflow(lambda a: a * 2, "uint8")[0], "a literal is weak"


@pytest.mark.parametrize(
    "body",
    [
        lambda a, b: a.astype("uint16") + b,
        lambda a, b: (a.astype("int16") - b).astype("float32"),
        lambda a, b: (a / 2 + b / 2) + 1,
        lambda a, b: (a & 15) * (b & 15),
        lambda a, b: te.min(a, 100) + te.min(b, 100),
        lambda a, b: te.select(a > b, a - b, b - a),
        lambda a, b: te.max(a, b) - te.min(a, b),
        lambda a, b: a.astype("int32") * b * a,
        lambda a, b: a.astype("float32") * b,
        lambda a, b: (a % 16) * (b >> 4),
    ],
)
def test_what_fits_is_no_overflow(body: Callable[..., Any]) -> None:
    assert overflow(body, "uint8", "uint8") == []


@pytest.mark.parametrize(
    "body",
    [
        lambda a, b: (a + b) & 255,
        lambda a, b: (a * 31 + b) % 64,
        lambda a, b: (a + b).astype("int8"),
        lambda a, b: (a * b).astype("int8"),
    ],
)
def test_wrapping_that_is_meant(body: Callable[..., Any]) -> None:
    assert overflow(body, "uint8", "uint8") == []


def test_a_conversion_that_keeps_all_bits_does_not_excuse() -> None:
    assert overflow(lambda a, b: (a + b).astype("int32"), "uint8", "uint8")
    assert overflow(lambda a, b: (a + b) & a, "uint8", "uint8")


def test_bounds_go_through_stages() -> None:
    """Sums of three bytes fit into 16 bits, and so do sums of three such sums."""
    a = te.placeholder((16, 16), "uint8", name="A")
    wide = te.compute((16, 16), lambda y, x: a[y, x].astype("uint16"), name="wide")
    rows = te.compute((16, 14), lambda y, x: wide[y, x] + wide[y, x + 1] + wide[y, x + 2], name="rows")
    out = te.compute((14, 14), lambda y, x: (rows[y, x] + rows[y + 1, x] + rows[y + 2, x]) / 9, name="out")
    assert [x for x in create_schedule(out).check() if x.kind == "overflow"] == []
    squares = te.compute((16, 14), lambda y, x: rows[y, x] * rows[y, x], name="squares")
    assert "585225" in str([x for x in create_schedule(squares).check() if x.kind == "overflow"])


def test_long_sums_of_narrow_elements() -> None:
    a = te.placeholder((300,), "uint8", name="A")
    n = te.var("n")
    b = te.placeholder((n,), "uint8", name="B")

    def found(length: object, source: Tensor, **how: Any) -> list[str]:
        k = te.reduce_axis((0, length), "k")
        total = te.compute((), lambda: te.sum(source[k], axis=k, **how), name="total")
        return [str(x) for x in create_schedule(total).check() if x.kind == "overflow"]

    assert "the uint8 sum of A[k] can reach 76500" in found(300, a)[0]
    assert "te.sum(..., dtype='uint32')" in found(300, a)[0]
    assert "can grow without a bound" in found(n, b)[0]
    assert found(300, a, dtype="uint32") == found(n, b, dtype="int32") == []
    assert found(257, a, dtype="uint16") == []
    assert "65790" in found(258, a, dtype="uint16")[0]


def test_extremes_and_products() -> None:
    a = te.placeholder((300,), "int8", name="A")
    k = te.reduce_axis((0, 300), "k")
    for reducer, is_doubtful in ((te.max, False), (te.min, False), (te.prod, True)):
        total = te.compute((), lambda r=reducer: r(a[k], axis=k), name="total")
        assert bool([x for x in create_schedule(total).check() if x.kind == "overflow"]) == is_doubtful
