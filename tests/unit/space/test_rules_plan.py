"""What rules decide and say: how many sketches there are, and which rule settled each stage, and why."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError, WorkloadError
from autosched.ir.stmt import For, walk
from autosched.lowering import lower_structure
from autosched.space.default import default_schedule
from autosched.space.rules import rule
from autosched.space.rules.engine import MOST_FORKS, MOST_STAGES
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.testing.oracle import check_against_reference
from autosched.tvm import tir

LLVM = Target.parse("llvm -threads=2").with_limits(
    vector_bytes=32, vector_registers=16, l1_bytes=32 << 10, l2_bytes=512 << 10, l3_bytes=8 << 20
)
OPENCL = Target.parse("opencl").with_limits(max_threads_per_block=256, max_shared_memory_per_block=32 << 10)


def layer(h, at, n):
    w, k = te.placeholder((n, n), name=f"w{at}"), te.reduce_axis((0, n), f"k{at}")
    d = te.compute((n, n), lambda i, j: te.sum(h[i, k] * w[k, j], axis=k), name=f"d{at}")
    return w, te.compute((n, n), lambda i, j: te.max(d[i, j], 0.0), name=f"h{at}")


def layers(count, n=24):
    args = [h := te.placeholder((n, n), name="x")]
    for at in range(count):
        w, h = layer(h, at, n)
        args.append(w)
    return (*args, h)


def prefix_sums():
    x, state = te.placeholder((16, 8), name="x"), te.placeholder((16, 8), name="state")
    first = te.compute((1, 8), lambda t, j: x[0, j], name="first")
    step = te.compute((16, 8), lambda t, j: state[t - 1, j] + x[t, j], name="step")
    sums = te.scan(first, step, state, inputs=[x], name="sums")
    return x, te.compute((16, 8), lambda i, j: sums[i, j] * 2.0, name="doubled")


def scan_in_two_stages():
    """What a step computes before its update depends on the state, and is no part of the scan."""
    x, state = te.placeholder((9, 7), name="x"), te.placeholder((9, 7), name="state")
    first = te.compute((1, 7), lambda t, j: x[0, j], name="first")
    middle = te.compute((9, 7), lambda t, j: te.min(state[t - 1, j], 8.0) + x[t, j], name="middle")
    step = te.compute((9, 7), lambda t, j: te.max(middle[t, j], -8.0), name="step")
    return x, te.scan(first, step, state, inputs=[x], name="result")


def histogram(values=16):
    x, r = te.placeholder((100,), "int32", name="x"), te.reduce_axis((0, 100), "r")
    return x, te.scatter_reduce((values,), lambda: (x[r], te.const(1, "int32")), axis=r, name="counts")


def from_outside():
    x = te.placeholder((16,), name="x")

    def statements(ins, outs):
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 16, name="i") as i:
            b[i] = a[i] + 1.0
        return ib.get()

    called = te.extern((16,), [x], lambda ins, outs: tir.call_packed("tests.f", ins[0], outs[0]), name="called")
    looped = te.extern((16,), [called], statements, name="looped", dtype="float32")
    return x, te.compute((16,), lambda i: looped[i] * 2.0, name="out")


def remarks(args, target=LLVM, at=0, rules=()):
    sketch = Workload("w", tuple(args)).search_space(target, {}, "auto", rules).sketches[at]
    return {stage: (by, why) for stage, by, why in sketch.remarks}


@functools.cache
def space_of_layers(count):
    return Workload("w", layers(count)).search_space(LLVM, {}, "auto")


@pytest.mark.parametrize("count", [3, 5])
def test_a_deep_chain_of_layers_has_few_sketches(count: int) -> None:
    """Chosen layer by layer there would be 8 for each layer: 512, 32768."""
    space = space_of_layers(count)
    assert MOST_FORKS / 4 <= len(space.sketches) <= MOST_FORKS + 1


def test_the_more_stages_the_fewer_sketches() -> None:
    """Each has as many stages to trace: forty layers and their activations took minutes, and ended with an error."""
    space = Workload("w", layers(24)).search_space(LLVM, {}, "auto")
    stages = len(space.sketches[0].schedule().stages)
    assert stages > 48 and 8 <= len(space.sketches) <= 1 + MOST_STAGES // 48


def test_layers_beyond_the_limit_do_as_the_ones_before_them() -> None:
    space = space_of_layers(5)
    seen = set()
    for sketch in space.sketches[:-1]:
        of = {n: [i[0] for i in sketch.trace if n in i[1:] and i[0] != "choose"] for n in ("d1", "d2", "w1", "w2")}
        assert (of["d1"], of["w1"]) == (of["d2"], of["w2"])
        seen.add((*of["d1"], *of["w1"]))
    assert len(seen) > 2  # they follow decisions, rather than being settled once
    remarks = {stage: why for stage, _, why in space.sketches[0].remarks}
    assert {d: "as stages before it" in why for d, why in remarks.items()}.items() >= {"d1": True, "d4": False}.items()


def test_few_layers_are_chosen_one_by_one() -> None:
    names = [s.name for s in Workload("w", layers(2)).search_space(LLVM, {}, "auto").sketches]
    for packed in ("d1_pack_w1=True", "d1_pack_w1=False"):
        assert {True, False} == {"d0_pack_w0=True" in n for n in names[:-1] if packed in n}


@pytest.mark.parametrize(
    ("args", "target", "stage", "by", "why"),
    [
        (prefix_sums(), LLVM, "sums", "scan_side_by_side", "Places that do not depend on each other"),
        (prefix_sums(), LLVM, "step", "step_in_vectors", "One step reads earlier times only"),
        (scan_in_two_stages(), LLVM, "middle", "inline_in_a_step", "What a step uses once"),
        (scan_in_two_stages(), OPENCL, "middle", "opaque_kernels", "a part of a scan: its steps follow each other"),
        (prefix_sums(), LLVM, "doubled", "places_along_a_scan", "Vectors of results go through the times of a scan"),
        (prefix_sums(), OPENCL, "sums", "opaque_kernels", "a scan: its steps follow each other"),
        (histogram(), LLVM, "counts", "private_copies", "Tasks have copies of the results"),
        (histogram(1 << 16), LLVM, "counts", "leave_opaque", "a scatter: its places come from data"),
        (from_outside(), LLVM, "called", "leave_opaque", "code from outside (tests.f): nothing is known of its loops"),
        (from_outside(), LLVM, "looped", "leave_opaque", "statements that somebody wrote: they stay as they are"),
        (layers(1), LLVM, "d0", "multi_level_tiling", "Tiles of sums in registers"),
    ],
)
def test_each_stage_says_which_rule_settled_it_and_why(args, target, stage, by, why) -> None:
    found = remarks(args, target)[stage]
    assert found[0] == by
    assert found[1].startswith(why)


@pytest.mark.parametrize("target", [LLVM, OPENCL])
def test_a_step_of_several_stages_is_left_to_its_scan(target) -> None:
    args = scan_in_two_stages()
    space = Workload("w", args).search_space(target, {}, "auto")
    assert not space.untraced
    x = np.random.default_rng(0).integers(-4, 4, (9, 7)).astype("float32")
    sketch = space.sketches[0]
    knobs = sketch.values(sketch.valid_points.rows([0])[0].tolist())
    check_against_reference(args, sketch.schedule(), target, [x], "interpreter", knobs)


def test_stages_that_a_rule_makes_say_for_whom() -> None:
    found = remarks(layers(1), OPENCL)
    assert {why for by, why in found.values() if by == "cache_read"} == {"made for d0"}


def test_a_single_value_is_left_as_it_is() -> None:
    x = te.placeholder((), name="x")
    found = remarks((x, te.compute((), lambda: x[()] + 1.0, name="out")))
    assert found == {"out": ("left as it is", "a single value: it has no loops")}


def test_a_type_that_the_device_does_not_have_is_told_of_the_stages_that_use_it() -> None:
    x = te.placeholder((64,), name="x")
    wide = te.compute((64,), lambda i: x[i].astype("float64") / 3.0, name="wide")
    out = te.compute((64,), lambda i: wide[i].astype("float32"), name="out")
    told = {s: why for s, (_, why) in remarks((x, out), OPENCL.with_limits(fp64=0)).items()}
    assert told["wide"].endswith("; float64 is not supported by this device")
    for target in (OPENCL, OPENCL.with_limits(fp64=1)):
        assert not any("float64" in why for _, why in remarks((x, out), target).values())


def test_what_a_rule_raises_names_it_and_the_stage() -> None:
    @rule(when=lambda plan, stage: stage.name == "d0")
    def clumsy(plan, stage):
        """It mistakes a loop."""
        stage.split("nowhere", factor=2)

    @rule(when=lambda plan, stage: stage.name == "d0")
    def broken(plan, stage):
        """It has a bug."""
        return 1 // 0

    with pytest.raises(ScheduleError, match=r"rule clumsy at stage d0, .*nowhere.*test_rules_plan\.py:\d+"):
        remarks(layers(1), rules=[clumsy])
    with pytest.raises(WorkloadError, match=r"rule broken at stage d0 .*: it raised ZeroDivisionError"):
        remarks(layers(1), rules=[broken])
    for part, undecided in (
        ("condition", rule(when=broken.apply)(clumsy.apply)),
        ("reason", rule(when=clumsy.when, because=broken.apply)(clumsy.apply)),
    ):
        with pytest.raises(
            WorkloadError, match=rf"{part} of rule clumsy at stage \w+  at .*: it raised ZeroDivisionError"
        ):
            remarks(layers(1), rules=[undecided])


def two_images():
    a, b = te.placeholder((24, 40), "uint8", name="a"), te.placeholder((24, 40), "uint8", name="b")
    y, x = te.reduce_axis((0, 24), "y"), te.reduce_axis((0, 40), "x")
    both = lambda: ((a[y, x] // 32, b[y, x] // 32), te.const(1, "int32"))  # noqa: E731
    return a, b, te.scatter_reduce((8, 8), both, axis=[y, x], name="counts")


def test_copies_of_a_scatter_go_over_images_by_rows() -> None:
    s = Workload("w", two_images()).search_space(LLVM, {}, "auto").sketches[0].schedule()
    partial = next(x for x in s.stages if x.name == "counts.rf.rf")
    assert [x.name.partition(".")[0] for x in partial.loops if x.is_reduce] == ["y", "x"]


def sparse(columns=0, rows=12, values=60):
    begin, col = te.placeholder((rows + 1,), "int32", name="begin"), te.placeholder((values,), "int32", name="col")
    shape, k = (rows, columns) if columns else (rows,), te.reduce_axis((0, values), "k")
    x = te.placeholder((rows, *shape[1:]), "int32", name="x")
    own = lambda i: (k >= begin[i]) & (begin[i + 1] > k)  # noqa: E731
    y = te.compute(shape, lambda i, *j: te.sum(x[(col[k], *j)], axis=k, where=own(i)), name="y")
    return begin, col, x, y


@pytest.mark.parametrize("columns", [0, 40])
@pytest.mark.parametrize("by", ["default", "rules"])
def test_rows_of_a_sparse_matrix_go_over_their_own_values(columns, by) -> None:
    """By each row by itself, so that loops begin and end where data say; vectors are rows of what it is multiplied by."""
    args, values = sparse(columns), {}
    s = default_schedule(args, LLVM)
    if by == "rules":
        sketch = Workload("w", args).search_space(LLVM, {}, "auto").sketches[0]
        assert remarks(args)["y"][0] == "parts_of_rows"
        s, values = sketch.schedule(), sketch.values(sketch.valid_points.rows([0])[0].tolist())
    loops = lower_structure(s, list(args), LLVM).after("masks", values)
    ends = {x.start.op for x in walk(loops.body) if isinstance(x, For) and x.var.name == "k"}
    assert ends == {"min"}
    rng = np.random.default_rng(0)
    begin = np.sort(np.concatenate([[0], rng.integers(0, 60, 11), [60]])).astype("int32")
    inputs = [
        begin,
        rng.integers(0, 12, 60).astype("int32"),
        rng.integers(-9, 9, (12, columns) if columns else 12).astype("int32"),
    ]
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", inputs, backend, values)
