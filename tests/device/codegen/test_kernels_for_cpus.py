"""Kernels for OpenCL devices that are CPUs: parallel loops are work-groups, and statements are whole vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import test_c_family_values as values

from autosched import build, te
from autosched.codegen import compile_function, text_of
from autosched.codegen.c_family import compile_opencl
from autosched.errors import LowerError
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, const, ramp, var
from autosched.ir.stmt import Buffer, For, Stmt, Store, load, seq
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.space.loading import find_workload
from autosched.space.samples import random_inputs
from autosched.space.workload import Template
from autosched.target import Target
from autosched.te.tensor import PlaceholderOp, Tensor
from autosched.testing.oracle import check_against_reference

GPU = Target.parse("opencl").with_limits(is_cpu=0)
CPU = GPU.with_limits(is_cpu=1)


def source(s: Schedule, args: list[Tensor], target: Target = CPU) -> str:
    """The kernels, without what stands before them."""
    text = compile_opencl(lower_structure(s, args, target).bind({}), target).texts["source"]
    return text[text.index("__kernel") :]


def check(args: list[Tensor], s: Schedule, inputs: list[np.ndarray] | None = None) -> None:
    """Its results are those of the definition; memory that is no argument's is fenced."""
    given = [t for t in args if isinstance(t.op, PlaceholderOp)]
    check_against_reference(args, s, CPU, random_inputs(given, {}, 0, "tasks") if inputs is None else inputs)


def rows(n: int = 12, m: int = 40) -> tuple[Schedule, list[Tensor]]:
    x = te.placeholder((n, m), name="x")
    y = te.compute((n, m), lambda i, j: x[i, j] * 2.0 + 1.0, name="y")
    return create_schedule(y), [x, y]


def test_a_parallel_loop_is_one_over_work_groups() -> None:
    s, args = rows()
    s["y"].parallel("i")
    artifact = compile_opencl(lower_structure(s, args, CPU).bind({}), CPU)
    (launch,) = artifact.meta["launches"]
    assert (launch["grid"], launch["block"]) == ([12, 1, 1], [1, 1, 1])
    check(args, s)
    with pytest.raises(LowerError, match="bind the loop to blockIdx or threadIdx"):
        source(s, args, GPU)


def test_the_host_runs_the_steps_of_a_scan_that_are_parallel() -> None:
    """Groups would not wait for each other between two steps, of which one reads what neighbours wrote in the other."""
    rod, state = te.placeholder((32,), name="rod"), te.placeholder((6, 32), name="state")
    first = te.compute((1, 32), lambda t, i: rod[i], name="first")
    edge = te.repeat_edge(state)
    step = te.compute((6, 32), lambda t, i: edge[t - 1, i - 1] + edge[t - 1, i + 1], name="step")
    s, args = create_schedule(out := te.scan(first, step, state, name="out")), [rod, out]
    assert "get_group_id" not in source(s, args)
    s[step].parallel(s[step].split("i", 4)[0])
    launches = compile_opencl(lower_structure(s, args, CPU).bind({}), CPU).meta["launches"]
    assert [(launch["grid"][0], "loop" in launch) for launch in launches] == [(1, False), (8, True)]
    check(args, s)


def test_what_is_parallel_inside_another_loop_is_run_by_one_work_item() -> None:
    s, args = rows()
    s["y"].parallel("j")
    assert "get_group_id" not in source(s, args)
    check(args, s)
    s["y"].parallel("i")
    (launch,) = compile_opencl(lower_structure(s, args, CPU).bind({}), CPU).meta["launches"]
    assert launch["grid"] == [12, 1, 1]
    check(args, s)


def test_a_schedule_for_loops_runs_as_it_is() -> None:
    """Scopes of memory at the root mean nothing to a CPU; stages share loops, and outputs are computed inside."""
    x = te.placeholder((16, 24), name="x")
    a = te.compute((16, 24), lambda i, j: x[i, j] + 1.0, name="a")
    b = te.compute((16, 24), lambda i, j: a[i, j] * a[15 - i, j], name="b")
    c = te.compute((16, 24), lambda i, j: x[i, j] - 3.0, name="c")
    s, args = create_schedule([b, c]), [x, b, c]
    s[a].set_scope("local")
    s[b].parallel("i")
    s[c].parallel("i")
    s[c].compute_with(s[b], "i")
    assert source(s, args).count("__kernel") == 2
    check(args, s)
    s = create_schedule([a, b])
    outer, _ = s[b].split("i", 4)
    s[a].compute_at(s[b], outer)
    s[b].parallel(outer)
    check([x, b, a], s)


@pytest.mark.parametrize("lanes", [2, 3, 7, 14, 25, 30, 64, 128, 320])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool", "float16"])
def test_vectors_of_any_length_are_pieces_that_the_language_has(lanes: int, dtype: str) -> None:
    x = te.placeholder((3, lanes), dtype, name="x")
    y = te.compute((3, lanes), lambda i, j: te.max(x[i, j], x[2 - i, j]), name="y")
    s = create_schedule(y)
    s[y].vectorize("j")
    text = source(s, [x, y])
    assert lanes in (3, 2) or "16" in text or "8" in text or "4" in text
    assert "lane" not in text
    check([x, y], s)


@pytest.mark.parametrize("stride", [2, 3, 4, 5, -1])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "bool", "float16"])
def test_elements_that_lie_apart(stride: int, dtype: str) -> None:
    """Those a few places apart are taken from whole vectors, which read nothing beyond the last of them."""
    x = te.placeholder((4, 16 * abs(stride) - abs(stride) + 1), dtype, name="x")
    place = (lambda j: j * stride) if stride > 0 else (lambda j: 15 - j)
    y = te.compute((4, 16), lambda i, j: x[i, place(j)], name="y")
    s = create_schedule(y)
    s[y].vectorize("j")
    text = source(s, [x, y])
    assert ("every_" in text) == (stride > 1 and dtype not in ("bool", "float16"))
    check([x, y], s)
    turned = te.compute((16, 4), lambda j, i: x[i, place(j)], name="turned")
    s = create_schedule(turned)
    s[turned].reorder("i", "j")
    s[turned].vectorize("j")
    check([x, turned], s)


@pytest.mark.parametrize("channels", [2, 3, 4, 5])
@pytest.mark.parametrize("lanes", [8, 16, 24, 32])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool", "float16"])
def test_channels_of_pixels_are_read_and_written_whole(channels: int, lanes: int, dtype: str) -> None:
    x = te.placeholder((3, 96, channels), dtype, name="x")

    def mixed(i: te.Expr, j: te.Expr, c: te.Expr) -> te.Expr:
        return te.max(x[i, j, c], te.min(x[i, j, (c + 1) % channels], x[i, j, channels - 1]))

    y = te.compute((3, 96, channels), mixed, name="y")
    s = create_schedule(y)
    outer, lane = s[y].split("j", lanes)
    s[y].reorder("i", outer, "c", lane)
    s[y].vectorize(lane)
    s[y].unroll("c")
    text = source(s, [x, y])
    if dtype in ("float32", "uint8"):
        assert ("y[" not in text) == (channels <= 4)
        are_wide = dtype == "float32" or lanes % 16 == 0  # narrow ones are as fast by themselves
        assert ("x[" not in text and "+ 1)" not in text) == (channels in (3, 4) and are_wide)
    check([x, y], s)


@pytest.mark.parametrize("shift", [-1, 1, 7, 60])
@pytest.mark.parametrize("lanes", [8, 16, 32])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool"])
def test_rows_that_are_rings_are_read_in_vectors(shift: int, lanes: int, dtype: str) -> None:
    """Where the ring closes, lanes come from the row's two ends, on which the arrays end here."""
    x = te.placeholder((2, 128), dtype, name="x")
    y = te.compute((2, 128), lambda i, j: te.max(x[i, j], x[1 - i, (j + shift) % 128]), name="y")
    s = create_schedule(y)
    s[y].vectorize(s[y].split("j", lanes)[1])
    check([x, y], s)
    check_against_reference([x, y], s, "llvm", random_inputs([x], {}, 0, "rings"))
    if dtype == "uint8" and lanes > 8 and shift != 60:
        llvm = Target.parse("llvm")
        text = text_of(compile_function(lower_structure(s, [x, y], llvm).bind({}), llvm), "llvm")
        assert "insertelement" not in text


@pytest.mark.parametrize("place", [lambda j: j // 3 * 6 + j % 3, lambda j: j // 2, lambda j: j * 3 % 16])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_elements_at_known_distances(place: Callable[[te.Expr], te.Expr], dtype: str) -> None:
    x = te.placeholder((4, 48), dtype, name="x")
    y = te.compute((4, 16), lambda i, j: x[i, place(j) + 7], name="y")
    s = create_schedule(y)
    s[y].vectorize("j")
    assert "taken_" in source(s, [x, y])
    check([x, y], s)


def test_places_that_are_computed_have_names() -> None:
    x, at = te.placeholder((50,), name="x"), te.placeholder((16,), name="at")
    y = te.compute((16,), lambda i: x[te.max(te.min(te.floor(at[i] * 3.0).astype("int32"), 49), 0)], name="y")
    s = create_schedule(y)
    s[y].vectorize("i")
    assert "x[t.s0], x[t.s1]" in source(s, [at, x, y])
    check([at, x, y], s)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "float32", "float64"])
@pytest.mark.parametrize("combine", [te.sum, te.max, te.min])
def test_lanes_become_one_number(dtype: str, combine: object) -> None:
    x, k = te.placeholder((5, 64), dtype, name="x"), te.reduce_axis((0, 64), "k")
    y = te.compute((5,), lambda i: combine(x[i, k], axis=k), name="y")  # type: ignore[operator]
    s = create_schedule(y)
    s[y].vectorize(s[y].split(k, 32)[1])
    assert "combined_" in source(s, [x, y])
    check([x, y], s)


def test_lanes_that_change_nothing_are_skipped_together() -> None:
    x, k = te.placeholder((3, 256), name="x"), te.reduce_axis((0, 256), "k")
    at, largest = te.compute((3,), lambda i: te.argmax(x[i, k], axis=k), name="largest")
    s = create_schedule(at.op)
    s[at].vectorize(s[at].split(k, 32)[1])
    assert "any(" in source(s, [x, at, largest])
    data = np.random.default_rng(0).integers(0, 90, (3, 256)).astype("float32")
    data[1, 40], data[2, :] = np.nan, -np.inf
    check([x, at, largest], s, [data])


def test_what_is_guarded_is_not_loaded_early() -> None:
    """Lanes of which data say whether there is an element: whole vectors would be read beyond the end."""
    x, n = te.placeholder((19,), name="x"), te.placeholder((32,), "int32", name="n")
    y = te.compute((32,), lambda i: te.if_then_else(te.all(n[i] > 0, i < 19), x[i], 7.0), name="y")
    s = create_schedule(y)
    s[y].vectorize(s[y].split("i", 16)[1])
    assert "(x + " not in source(s, [x, n, y]) and "x[" in source(s, [x, n, y])
    check([x, n, y], s, [np.arange(19, dtype="float32"), np.arange(32, dtype="int32") % 5])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("lanes", [1, 8])
def test_rounding_to_whole_numbers(dtype: str, lanes: int) -> None:
    """By the compiler's own functions, which are one instruction."""
    x = te.placeholder((32,), dtype, name="x")
    ways = {"floor": te.floor, "ceil": te.ceil, "trunc": te.trunc, "nearbyint": te.nearbyint, "round": te.round}
    ways["isnan"] = lambda a: te.isnan(a).astype(dtype)
    results = [te.compute((32,), lambda i, way=way: way(x[i]), name=f"by_{name}") for name, way in ways.items()]
    s = create_schedule(results)
    for y in results:
        s[y].vectorize(s[y].split("i", lanes)[1])
    assert (
        "#define round_to_even __builtin_elementwise_roundeven"
        in compile_opencl(lower_structure(s, [x, *results], CPU).bind({}), CPU).texts["source"]
    )
    values = [0.5, -0.5, 1.5, 2.5, -1.5, np.nan, np.inf, -np.inf, -0.0, 0.0, 2049.0, -1023.5, 0.4998, 3.7, -3.7, 1e-5]
    check([x, *results], s, [np.array(values * 2, dtype)])


def test_borders_are_neither_vectorized_nor_copied() -> None:
    """They take most of the time that compiling takes, and none of that of running."""
    x = te.placeholder((40, 50), name="x")
    edge = te.repeat_edge(x)
    y = te.compute((40, 50), lambda i, j: edge[i, j - 3] + edge[i, j + 3], name="y")
    s = create_schedule(y)
    s[y].parallel("i")
    text = source(s, [x, y])
    assert text.count("vectorize(disable)") == text.count("unroll(disable)") > 0
    assert text.count("  for (") > text.count("vectorize(disable)"), "the interior is long"
    s = create_schedule(y)
    s[y].bind("i", te.thread_axis("blockIdx.x"))
    assert "#pragma clang" not in source(s, [x, y], GPU)
    check([x, y], s)


def test_templates_for_cpus_fit_devices_that_are_one() -> None:
    both = {t: Template("t", t, lambda s: None) for t in ("cpu", "gpu", "llvm", "opencl")}
    fits = {to: [t for t, made in both.items() if made.fits(to)] for to in (GPU, CPU, Target.parse("c"))}
    assert fits == {GPU: ["gpu", "opencl"], CPU: ["cpu", "gpu", "opencl"], Target.parse("c"): ["cpu"]}
    blur = find_workload("box_blur")()
    assert {t.target for t in blur.templates_for(CPU)} == {"cpu"}
    assert {t.target for t in blur.templates_for(GPU)} == {"gpu"}


@pytest.mark.parametrize("target", ["opencl", "llvm"])
def test_a_condition_beside_another_of_the_same_place_is_asked_in_vectors(target: str) -> None:
    """Of two arrays as large: where one has an element, so has the other."""
    n, m = te.var("n"), te.var("m")
    x, k = te.placeholder((n, m), name="x"), te.placeholder((n, m), "bool", name="k")
    i = te.reduce_axis((0, n), "i")
    y = te.compute((m,), lambda b: te.any(k[i, b] & (x[i, b] > 0.5), axis=i), name="y")
    s = create_schedule(y)
    outer, lane = s[y].split("b", 16)
    s[y].reorder(outer, "i", lane)
    s[y].vectorize(lane)
    if target == "opencl":
        assert "float16, x + " in source(s, [x, k, y])
        check([x, k, y], s, [*random_inputs([x, k], {"n": 5, "m": 40}, 0, "conditions")])
    else:
        check_against_reference([x, k, y], s, "llvm", random_inputs([x, k], {"n": 5, "m": 40}, 0, "conditions"))


@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("of", ["float32", "float64"])
def test_floats_are_cut_off_at_the_ends_of_a_type(of: str, to: str) -> None:
    """In whole vectors, where the type is no wider than the float."""
    ends = np.iinfo(to)
    near = [0.0, -0.0, 0.4, -0.4, 0.9, -0.9, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e30, -1e30, 255.7, -128.9]
    near += [float(end) + d for end in (ends.min, ends.max) for d in (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5)]
    values = np.array(near, of)
    around = [np.nextafter(values, np.array(end, of)) for end in (np.inf, -np.inf)]
    x_values = np.concatenate([values, *around])
    x_values = np.resize(x_values, (len(x_values) + 15) // 16 * 16)
    x = te.placeholder(x_values.shape, of, name="x")
    y = te.compute(x.shape, lambda i: x[i].astype(to), name="y")
    s = create_schedule(y)
    _, lane = s[y].split(y.op.axis[0], factor=16)
    s[y].vectorize(lane)
    is_whole = np.dtype(to).itemsize <= np.dtype(of).itemsize
    text = compile_opencl(lower_structure(s, [x, y], CPU).bind({}), CPU).texts["source"]
    assert ("_sat(" not in text) == is_whole
    check([x, y], s, [x_values])


class TestValues:
    """Some cases of all of OpenCL, in the words of CPUs' compilers."""

    @pytest.fixture(autouse=True)
    def on_a_cpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(values, "TARGET", CPU)

    @pytest.mark.parametrize("lanes", [1, 4, 16])
    def test_lanes(self, lanes: int) -> None:
        values.test_constant_operands_and_chains("uint8", lanes)
        values.test_floats("float32", lanes)
        values.test_booleans(lanes)
        values.test_guarded_lanes_do_not_load(lanes)

    def test_stores_of_lanes_that_are_read(self) -> None:
        values.test_a_store_reads_all_lanes_before_it_writes_any()

    def test_a_channel_that_is_made_of_itself(self) -> None:
        """It is read whole before any of the pixel is written, also where its lanes are several vectors."""
        pixels = np.random.default_rng(0).integers(0, 100, 32 * 3).astype(np.int32)

        def body(sources: list[Buffer], targets: list[Buffer], thread: Expr) -> Stmt:
            (to,), i = targets, var("i", role="loop")
            copy = For(i, const(0), const(32 * 3), "serial", Store(to, (i,), load(sources[0], i)))
            turned = Store(to, (ramp(0, 3, 32),), load(to, ramp(93, -3, 32)) + 1)
            others = [Store(to, (ramp(c, 3, 32),), load(sources[0], ramp(c, 3, 32)) * 2) for c in (1, 2)]
            return seq(copy, turned, *others)

        (found,) = values.run([pixels], [dtype("int32")], body, threads=1, length=32 * 3)
        wanted = pixels.reshape(32, 3) * 2
        wanted[:, 0] = pixels.reshape(32, 3)[::-1, 0] + 1
        assert (found.reshape(32, 3) == wanted).all()


@pytest.mark.parametrize("choose", [te.select, te.if_then_else])
@pytest.mark.parametrize("n", [2, 5, 32])
def test_what_is_read_elsewhere_under_a_condition(n: int, choose: Callable[..., Expr]) -> None:
    """PoCL makes vectors of the loop over j, and would find out where the mirrored row is for the first lane alone: it is
    found before the loop."""
    rows, columns = te.var("rows"), te.var("columns")
    x = te.placeholder((rows, columns), "int16", name="x")
    mirrored = te.mirror_interior(x)
    y = te.compute((rows, columns), lambda i, j: choose(x[i, j] > 0, x[i, j], mirrored[i + 1, j]), name="y")
    s, values_of = create_schedule(y), np.random.default_rng(0)
    check([x, y], s, [values_of.integers(-99, 99, (n, 100)).astype("int16")])
    before, loop, body = source(s, [x, y]).rpartition("for (")
    assert loop and " % " in before.partition("main_kernel")[2] and " % " not in body


def test_loops_are_left_to_the_compiler() -> None:
    """Those that divide in any case, by a number, or by what is another one in each iteration, too."""
    m, n = te.var("m"), te.var("n")
    x, flags = te.placeholder((m, n), name="x"), te.placeholder((m, n), "bool", name="flags")
    for body in (
        lambda i, j: x[(i + 1) % m, j],
        lambda i, j: te.select(flags[i, j], x[i // 12, j], 0.0),
        lambda i, j: te.select(flags[i, j], x[i, (j + 3) % n], 0.0),
    ):
        y = te.compute((m, n), body, name="y")
        s = create_schedule(y)
        s[y].pragma("j", "loop_partition_hint", pragma_value=0)
        assert "vectorize(disable)" not in source(s, [x, flags, y])


@pytest.mark.parametrize("op", [te.truncdiv, te.truncmod, te.floordiv, te.floormod])
@pytest.mark.parametrize("kind", ["int8", "uint16", "int32"])
def test_integers_are_divided_in_whole_vectors(op: Callable[..., Expr], kind: str) -> None:
    """Their values are tested in `test_remainders`."""
    a, b = (te.placeholder((64,), kind, name=name) for name in "ab")
    q, by_five = (
        te.compute((64,), lambda i, x=x: op(a[i], x(i)), name)
        for name, x in (("q", lambda i: b[i]), ("r", lambda i: 5))
    )
    s = create_schedule([q, by_five])
    for t in (q, by_five):
        s[t].vectorize(s[t].split(t.op.axis[0], factor=8)[1])
    text = source(s, [a, b, q, by_five])
    assert "a[" not in text and "b[" not in text  # no lane alone


def test_c_divides_lanes_in_floats() -> None:
    """Of which compilers make vectors."""
    a, b = (te.placeholder((64,), "int16", name=name) for name in "ab")
    q = te.compute((64,), lambda i: te.floordiv(a[i], b[i]), "q")
    s = create_schedule(q)
    s[q].vectorize(s[q].split("i", factor=8)[1])
    text = compile_function(lower_structure(s, [a, b, q], "c").bind(), Target("c")).texts["c99"]
    assert "floordiv_lane_int16_t(a[" in text and "floordiv_int16_t(" not in text


def test_a_step_of_the_host_may_begin_with_a_vector_that_does_not_mention_the_time() -> None:
    times, n = 5, 32
    x, w = te.placeholder((n,), name="x"), te.placeholder((n, n), name="w")
    at, k = te.placeholder((times, n), name="at"), te.reduce_axis((0, n), "k")
    first = te.compute((1, n), lambda _, j: x[j], name="first")
    step = te.compute((times, n), lambda t, j: te.sum(w[k, j] * at[t - 1, k], axis=k), name="step")
    states = te.scan(first, step, at, inputs=[x, w], name="states")
    s = create_schedule(states)
    sums = s[s.cache_write(step, "local")]
    block, lane = s[step].split("j", factor=16)
    s[step].vectorize(lane)
    s[step].parallel(block)
    sums.compute_at(s[step], block)
    sums.reorder("k.c", "j.c")
    sums.vectorize("j.c")
    draw = np.random.default_rng(0)
    values, weights = draw.integers(-2, 3, n).astype("float32"), draw.integers(-2, 3, (n, n)).astype("float32")
    wanted = [values]
    while len(wanted) < times:
        wanted.append(wanted[-1] @ weights)
    np.testing.assert_array_equal(build(s, "opencl", args=[x, w, states])(values, weights), wanted)
