"""Several outputs at once, reductions of tuples and of one's own: every schedule gives the same results."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import LowerError, ScheduleError
from autosched.ir.stmt import Let, walk
from autosched.lowering import lower, lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.space.default import default_schedule
from autosched.space.features import FEATURE_NAMES, extract
from autosched.target import Target
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

n, m = te.var("n"), te.var("m")
A = te.placeholder((n, m), "int32", name="A")
B = te.placeholder((n,), "int32", name="B")

LENGTHS = ((5, 7), (1, 1), (3, 16), (0, 4), (4, 0))


def several() -> list[Tensor]:
    """T = (A + 1, A * B, A > B), and U = T.v1 + 1 where T.v2."""
    _, product, more = te.compute((n, m), lambda i, j: (A[i, j] + 1, A[i, j] * B[i], A[i, j] > B[i]), name="T")
    u = te.compute((n, m), lambda i, j: te.select(more[i, j], product[i, j] + 1, 0), name="U")
    return [A, B, u]


def greatest() -> list[Tensor]:
    """T = argmax of A's rows; U = T.v0 + T.v1."""
    k = te.reduce_axis((0, m), "k")
    index, value = te.compute((n,), lambda i: te.argmax(A[i, k] % 4, axis=k), name="T")
    u = te.compute((n,), lambda i: index[i] + te.max(value[i], 0) * 100, name="U")
    return [A, u]


def products() -> list[Tensor]:
    """T = the complex product of A + 1j along rows, begun with B; both parts read the other's last value."""
    k = te.reduce_axis((0, m), "k")
    product = te.comm_reducer(
        lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
        lambda re, im: (te.const(1, re), te.const(0, im)),
    )
    one = te.const(1, "int32")
    t = te.compute((n,), lambda i: product((A[i, k], one), axis=k, init=(B[i], one)), name="T")
    u = te.compute((n,), lambda i: t[0][i] - t[1][i], name="U")
    return [A, B, u]


def masks() -> list[Tensor]:
    """T = whether any of every second A in a row is 3, begun with B's sign."""
    k = te.reduce_axis((0, m), "k")
    t = te.compute((n,), lambda i: te.any(A[i, k] == 3, axis=k, where=k % 2 == 0, init=B[i] < 0), name="T")
    u = te.compute((n,), lambda i: te.select(t[i], B[i], 1), name="U")
    return [A, B, u]


def inputs(args: list[Tensor], lengths: tuple[int, int], seed: int = 0) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    shapes = {"A": lengths, "B": lengths[:1]}
    return [draw.integers(-4, 5, shapes[t.name]).astype("int32") for t in args if t.name in shapes]


def plain(s: Schedule) -> None:
    pass


def vectors(s: Schedule) -> None:
    """Spatial loops as vectors, the reduce loops outside them."""
    t = s["T"]
    last = t.split(t.loops[len(t.axis) - 1], factor=4)[1]
    t.reorder(*[x for x in t.loops if x.is_reduce], last)
    t.vectorize(last)
    t.parallel(t.loops[0])


def lanes(s: Schedule) -> None:
    """The reduce loop as vectors; of element-wise stages both loops, fused."""
    t = s["T"]
    loop = t.loops[-1] if t.reduce_axis else t.fuse(*t.loops)
    t.vectorize(t.split(loop, factor=4)[1])


def inside(s: Schedule) -> None:
    """Computed where it is used, and unrolled."""
    u = s["U"]
    outer, inner = u.split(u.loops[-1], factor=3)
    s["T"].compute_at(u, outer)
    u.unroll(inner)


def cached(s: Schedule) -> None:
    s.cache_write("T", "local")
    s["T.local"].compute_at(s["T"], s["T"].loops[0])
    s.cache_read("T", "local", ["U"], output=1 if s["T"].op.num_outputs > 1 else 0)


def blocked(s: Schedule) -> None:
    """In a layout of blocks, with padding."""
    s["T"].reorder(*reversed(s["T"].split(s["T"].loops[0], factor=4)))
    s.cache_write("T", "global")


def factored(s: Schedule) -> None:
    t = s["T"]
    if t.reduce_axis:
        s.rfactor("T", t.split(t.loops[-1], factor=4)[1], factor_axis=-1)
        s["T.rf"].vectorize(s["T.rf"].loops[len(s["T.rf"].axis) - 1])


def into_its_use(s: Schedule) -> None:
    if not s["T"].reduce_axis:
        s["T"].compute_inline()


PROGRAMS = (several, greatest, products, masks)
SCHEDULES = (plain, vectors, lanes, inside, cached, blocked, factored, into_its_use)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_is_right(program: Callable[[], list[Tensor]], schedule: Callable[[Schedule], None]) -> None:
    args = program()
    s = create_schedule(args[-1])
    schedule(s)
    first, *more = (inputs(args, lengths) for lengths in LENGTHS)
    for backend in ("native", "interpreter", "interpreter-backwards"):
        check_against_reference(args, s, "llvm", first, backend, more=more)  # type: ignore[arg-type]
    assert_roundtrip(s, args)


@pytest.mark.parametrize("program", PROGRAMS)
def test_on_opencl(program: Callable[[], list[Tensor]]) -> None:
    args = program()
    outputs = [t for t in args[-1].op.input_tensors if t.name.startswith("T")]
    args = [*args[:-1], *outputs, args[-1]]
    default = default_schedule(args, Target.parse("opencl"))
    shared = create_schedule(args[-1].op)
    group, item = shared["U"].split(shared["U"].loops[-1], factor=4)
    shared["U"].bind(group, "blockIdx.x")
    shared["U"].bind(item, "threadIdx.x")
    shared["T"].compute_at(shared["U"], group)
    shared["T"].set_scope("shared")
    for s, given in ((default, args), (shared, [t for t in args if t not in outputs])):
        for backend in ("native", "interpreter"):
            first, *more = (inputs(args, lengths) for lengths in LENGTHS[:3])
            check_against_reference(given, s, "opencl", first, backend, more=more)  # type: ignore[arg-type]


def test_what_it_becomes() -> None:
    k = te.reduce_axis((0, m), "k")
    pairs = te.comm_reducer(lambda x, y: (y[0] + x[1], x[1] * y[1]), lambda a, b: (te.const(0, a), te.const(1, b)))
    t = te.compute((n,), lambda i: pairs((A[i, k], A[i, k]), axis=k), name="T")
    text = str(lower(create_schedule(t[0].op), [A, *t]))
    assert text == (
        "main(A: int32[n, m], T.v0: int32[n] out, T.v1: int32[n] out)\n"
        "produce T {\n"
        "  for (i, 0, n) {\n"
        "    T.v0[i] = 0\n"
        "    T.v1[i] = 1\n"
        "    for (k, 0, m) {\n"
        "      T.v0[i] = A[i, k] + T.v1[i]\n"
        "      T.v1[i] = T.v1[i]*A[i, k]\n"
        "    }\n"
        "  }\n"
        "}\n"
    ), "the first reads what the second is about to write"


def test_values_that_read_each_other_are_computed_before_any_is_stored() -> None:
    args = products()
    s = create_schedule(args[-1])
    vectors(s)
    structure = lower_structure(s, args, "llvm")
    assert [x.var.name for x in walk(structure.function.body) if isinstance(x, Let)] == ["T.v0.next", "T.v1.next"]
    lets = [x.var.dtype for x in walk(structure.bind().body) if isinstance(x, Let)]
    assert "int32x4" in lets, "as vectors"


def test_a_combiner_that_reads_another_component_is_not_combined_lane_by_lane() -> None:
    """R1 + R0 * x looks like a sum for R1, and is none while R0 changes."""
    k = te.reduce_axis((0, m), "k")
    horner = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + (y[1] + x[0])), lambda a, b: (te.const(0, a), te.const(0, b))
    )
    t = te.compute((n,), lambda i: horner((A[i, k], A[i, k] * 2), axis=k), name="T")
    s = create_schedule(t[0].op)
    s["T"].vectorize(s["T"].split("k", factor=4)[1])
    for backend in ("native", "interpreter"):
        check_against_reference([A, *t], s, "llvm", inputs([A], (5, 11)), backend)  # type: ignore[arg-type]


def test_outputs_that_nobody_passes_are_computed_all_the_same() -> None:
    args = several()
    total, product, more = args[-1].op.input_tensors[0].op.outputs
    for passed in ([product], [more, total], [total, product, more]):
        for outputs in (product.op, product, [product, more]):
            s = create_schedule(outputs)
            given = [A, B, *passed]
            check_against_reference(given, s, "llvm", inputs(given, (5, 7)), "interpreter")
    with pytest.raises(LowerError, match="U is an output and not among the arguments"):
        lower(create_schedule([args[-1], product]), [A, B, product])


def test_factored_tuples_are_lists() -> None:
    args = greatest()
    s = create_schedule(args[-1])
    index, value = s.rfactor(args[-1].op.input_tensors[0], "k")
    assert (index.name, value.name, index.op is value.op) == ("T.rf.v0", "T.rf.v1", True)
    s = create_schedule(args[-1])
    pair = list(args[-1].op.input_tensors)
    cache = s.cache_write(pair, "local")
    assert [t.name for t in cache] == ["T.local.v0", "T.local.v1"]
    assert s.cache_read(cache[1], "shared").name == "T.local.v1.shared"
    assert s.trace.to_json()[-1] == ["cache_read", "T.local", "shared", ["T"], {"output": 1}]


def test_what_is_refused() -> None:
    args = several()
    t = args[-1].op.input_tensors
    s = create_schedule(args[-1])
    with pytest.raises(ScheduleError, match="cached together"):
        s.cache_write(t[0])
    with pytest.raises(ScheduleError, match="cached together"):
        s.cache_write([t[0], args[-1]])
    with pytest.raises(ScheduleError, match="T has no output 3"):
        s.cache_read("T", "local", ["U"], output=3)
    with pytest.raises(ScheduleError, match=r"U does not read T\.v0"):
        s.cache_read("T", "local", ["U"], output=0)


TYPES = ("bool", "int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64", "float16", "float32", "float64")


@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype: str) -> None:
    """Each with a reduction of tuples, one of its own, and several outputs; on OpenCL where the device has it."""
    a = te.placeholder((n, m), dtype, name="A")
    k = te.reduce_axis((0, m), "k")
    index, value = te.compute((n,), lambda i: te.argmin(a[i, k], axis=k), name="T")
    either = te.comm_reducer(lambda x, y: te.select(x < y, y, x), lambda t: te.min_value(t))
    most = te.compute((n,), lambda i: either(a[i, k], axis=k, init=a[i, 0]), name="S")
    both = te.compute((n, m), lambda i, j: (te.max(a[i, j], value[i]), a[i, j] == value[i]), name="B")
    args = [a, index, value, most, *both]
    values = np.random.default_rng(1).integers(0, 9, (5, 7)).astype(dtype)
    for target in ("llvm", "opencl"):
        s = default_schedule(args, Target.parse(target))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check_against_reference(args, s, target, [values])


def test_first_values_exist_before_the_reduce_loops_run() -> None:
    """A tensor that a reduction begins with is not computed inside its reduce loop, nor through an inlined one."""
    k = te.reduce_axis((0, m), "k")
    first = te.compute((n,), lambda i: B[i] * 2, name="first")
    between = te.compute((n,), lambda i: first[i] + 1, name="between")
    t = te.compute((n,), lambda i: te.sum(A[i, k] + first[i], axis=k, init=between[i]), name="T")
    args = [A, B, t]
    s = create_schedule(t)
    s["between"].compute_inline()
    s["first"].compute_at(s["T"], "k")
    with pytest.raises(ScheduleError, match=r"begins with first, outside T\.k\n.*loops outside that: i;"):
        lower(s, args)
    s["first"].compute_at(s["T"], "i")
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", inputs(args, (5, 7)), backend)  # type: ignore[arg-type]


def test_features_count_what_values_that_are_kept_load() -> None:
    """Each point of `products` loads A, and both parts for both parts, though a `let` holds them."""
    a = te.placeholder((8, 16), "int32", name="A")
    k = te.reduce_axis((0, 16), "k")
    product = te.comm_reducer(
        lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]),
        lambda re, im: (te.const(1, re), te.const(0, im)),
    )
    t = te.compute((8,), lambda i: product((a[i, k], te.const(3, "int32")), axis=k), name="T")
    found = extract(lower_structure(create_schedule(t[0].op), [a, *t], "llvm")).evaluate({}, 1)[0]
    loaded = 2 ** found[FEATURE_NAMES.index("bytes_loaded")] - 1
    assert loaded == pytest.approx(8 * 16 * 4 * (3 + 3))


def test_vectors_in_a_kernel() -> None:
    """Values that are kept before they are stored, as vectors of a work-item."""
    args = products()
    s = create_schedule(args[-1])
    t = s["T"]
    group, item = t.split(t.loops[0], factor=4)
    t.bind(group, "blockIdx.x")
    t.reorder(t.loops[-1], item)
    t.vectorize(item)
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "opencl", inputs(args, (11, 7)), backend)  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_no_dimensions_and_prime_lengths(target: str) -> None:
    """The place of the least element of a matrix, and two numbers at once."""
    r, k = te.reduce_axis((0, n), "r"), te.reduce_axis((0, m), "k")
    least = te.compute((), lambda: te.argmin(A[r, k], axis=[r, k]), name="L")
    both = te.compute((), lambda: (least[1]() + 1, least[0]() > 3), name="T")
    args = [A, *least, *both]
    s = create_schedule([*least, *both])
    if target == "llvm":
        s.rfactor(least[0], s["L"].split(s["L"].fuse("r", "k"), factor=7)[1])
    first, *more = (inputs([A], lengths) for lengths in ((11, 13), (1, 1), (0, 3), (2, 31)))
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, target, first, backend, more=more)  # type: ignore[arg-type]
