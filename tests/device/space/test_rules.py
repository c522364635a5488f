"""Sketch rules: which rule settles which stage, what the sketches compute, and rules of other people."""

from __future__ import annotations

from pathlib import Path

import pytest
from generated_spaces import LLVM, check, planned

from autosched import te
from autosched.codegen import compile_function
from autosched.errors import LowerError, UsageError, WorkloadError
from autosched.lowering.pipeline import lower_structure
from autosched.measure.verify import allowed_error, compare
from autosched.runtime.module import Module
from autosched.space.rules import rule
from autosched.space.workload import Workload, template, workload
from autosched.target import Target
from autosched.topi import nn


def by_name(plan):
    return {stage.name: how for stage, how in plan.done.items()}


def product(m=24, n=40, k=32):
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    r = te.reduce_axis((0, k), "r")
    return a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="c")


def with_epilogue():
    a, b, c = product()
    bias = te.placeholder((40,), name="bias")
    shifted = te.compute((24, 40), lambda i, j: c[i, j] + bias[j], name="shifted")
    out = te.compute((24, 40), lambda i, j: te.max(shifted[i, j], 0.0), name="out")
    return a, b, bias, out


def two_layers():
    a, b, c = product()
    act = te.compute((24, 40), lambda i, j: te.max(c[i, j], 0.0), name="act")
    w = te.placeholder((40, 16), name="w")
    q = te.reduce_axis((0, 40), "q")
    return a, b, w, te.compute((24, 16), lambda i, j: te.sum(act[i, q] * w[q, j], axis=q), name="d")


def convolution(channels=6, size=13, filters=18):
    image = te.placeholder((1, channels, size, size), name="image")
    weight = te.placeholder((filters, channels, 3, 3), name="weight")
    return image, weight, nn.conv2d_nchw(image, weight, 1, 1, 1)


def normalized(rows=12, columns=50):
    x = te.placeholder((rows, columns), name="x")
    return x, nn.softmax(x)


def attention(n=20, d=16):
    q, k, v = (te.placeholder((2, n, d), name=x) for x in "qkv")
    r, t = te.reduce_axis((0, d), "r"), te.reduce_axis((0, n), "t")
    scores = te.compute((2, n, n), lambda b, i, j: te.sum(q[b, i, r] * k[b, j, r], axis=r), name="scores")
    scaled = te.compute((2, n, n), lambda b, i, j: scores[b, i, j] * 0.25, name="scaled")
    weights = nn.softmax(scaled, axis=-1)
    out = te.compute((2, n, d), lambda b, i, j: te.sum(weights[b, i, t] * v[b, t, j], axis=t), name="out")
    return q, k, v, out


def pipeline(stages=10):
    """One-dimensional smoothing of rows, again and again: borders repeated, any size."""
    h, w = te.var("h"), te.var("w")
    first = last = te.placeholder((h, w), name="image")
    for n in range(stages):
        last = te.compute(
            (h, w),
            lambda y, x, of=last, n=n: (
                (
                    of[te.max(y - 1, 0), x] + of[te.min(y + 1, h - 1), x]
                    if n % 2
                    else of[y, te.max(x - 1, 0)] + of[y, te.min(x + 1, w - 1)]
                )
                * 0.5
            ),
            name=f"step{n}",
        )
    return first, last


def running_sum():
    x = te.placeholder((9, 20), name="x")
    state = te.placeholder((9, 20), name="state")
    first = te.compute((1, 20), lambda _, j: x[0, j], name="first")
    step = te.compute((9, 20), lambda t, j: state[t - 1, j] + x[t, j], name="step")
    sums = te.scan(first, step, state, inputs=[x], name="sums")
    return x, te.compute((9, 20), lambda i, j: sums[i, j] * 2.0, name="twice")


def row_sums():
    x = te.placeholder((6, 70), name="x")
    k = te.reduce_axis((0, 70), "k")
    return x, te.compute((6,), lambda i: te.sum(x[i, k], axis=k), name="sums")


def whole_sum():
    x = te.placeholder((6, 70), name="x")
    a, b = te.reduce_axis((0, 6), "a"), te.reduce_axis((0, 70), "b")
    return x, te.compute((), lambda: te.sum(x[a, b], axis=(a, b)), name="total")


def column_maxima():
    x = te.placeholder((70, 37), name="x")
    k = te.reduce_axis((0, 70), "k")
    return x, te.compute((37,), lambda j: te.max(x[k, j], axis=k), name="most")


def scalar():
    x = te.placeholder((), name="x")
    return x, te.compute((), lambda: x() + 1.0, name="y")


PROGRAMS = {
    "matrix product": product,
    "epilogue": with_epilogue,
    "two layers": two_layers,
    "convolution": convolution,
    "softmax": normalized,
    "attention": attention,
    "ten stencils": pipeline,
    "scan": running_sum,
    "sums of rows": row_sums,
    "sum of all": whole_sum,
    "maxima of columns": column_maxima,
    "scalar": scalar,
    "empty": lambda: product(m=0),
}


def test_every_stage_is_settled_by_the_rule_that_fits_it() -> None:
    assert by_name(planned(*product())) == {"c": "multi_level_tiling", "c.local": "cache_write"} | dict.fromkeys(
        ["b.global", "b.global.global"], "pack"
    )
    assert by_name(planned(*with_epilogue()))["out"] == "fuse_epilogue"
    assert by_name(planned(*with_epilogue()))["shifted"] == "always_inline"
    assert by_name(planned(*two_layers()))["act"] == "fuse_epilogue"
    assert by_name(planned(*row_sums(), sums_by="lanes_of_sums"))["sums"] == "lanes_of_sums"
    assert by_name(planned(*column_maxima(), most_by="sums_of_columns"))["most"] == "sums_of_columns"
    assert by_name(planned(*running_sum()))["sums"] == "scan_side_by_side"


def test_vectors_of_a_convolution_run_along_pixels_or_along_filters() -> None:
    names = {
        s.name.split("tile=")[1].split(",")[0]
        for s in Workload("w", convolution()).search_space(LLVM, {}).sketches[:-1]
    }
    assert len(names) == 2


def test_what_is_used_once_is_inlined_and_what_is_dear_and_used_twice_is_not() -> None:
    x = te.placeholder((20, 30), name="x")
    power = te.compute((20, 30), lambda i, j: te.exp(x[i, j]), name="power")
    once = te.compute((20, 30), lambda i, j: power[i, j] * 2.0, name="once")
    twice = te.compute((20, 29), lambda i, j: power[i, j] + power[i, j + 1], name="twice")
    assert by_name(planned(x, once))["power"] == "always_inline"
    assert by_name(planned(x, twice))["power"] == "compute_location"


def test_finished_sums_are_stored_by_the_epilogue() -> None:
    plan = planned(*with_epilogue())
    assert plan.s["c"].scope == "local"
    assert plan.s["c"].attach.stage is plan.s["out"]
    assert [x.kind for x in plan.s["out"].loops][-1] == "vectorize"


def test_a_long_reduction_may_be_cut_too() -> None:
    assert planned(*product(k=1024)).s.choices_seen["c_levels"] == ("SSRRS", "SSRSRS")
    assert "c_levels" not in planned(*product(k=16)).s.choices_seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_sketches_compute_what_the_definition_says(name: str) -> None:
    args = PROGRAMS[name]()
    check(args, most=2, sizes={"h": 13, "w": 29} if Workload("w", args).size_names() else {})


def test_a_long_pipeline_has_few_sketches() -> None:
    w = Workload("w", pipeline(12))
    space = w.search_space(LLVM, {"h": 13, "w": 29})
    assert 4 <= len(space.sketches) <= 16
    inlined = {s.name: sum(i[0] == "compute_inline" for i in s.trace) for s in space.sketches}
    assert len(set(inlined.values())) > 2


def test_a_printed_sketch_is_a_template_with_the_same_points() -> None:
    @workload
    def mine(m=24, n=40, k=32):
        return product(m, n, k)

    made = mine().search_space(LLVM, {}, "auto").sketches[0]
    from autosched.schedule.trace import Trace

    names: dict[str, object] = {"te": te}
    exec(Trace.from_json(made.trace).as_python("pasted"), names)
    template(mine, target="llvm")(names["pasted"])
    (again,) = mine().search_space(LLVM, {}).sketches
    assert [(k.name, k.values) for k in again.knobs] == [(k.name, k.values) for k in made.knobs]
    assert again.valid_points.count == made.valid_points.count


@rule(when=lambda plan, stage: stage.name == "c")
def plain_rows(plan, stage):
    """Rows in parallel."""
    stage.parallel(stage.op.axis[0])


def test_rules_of_others_are_asked_first() -> None:
    space = Workload("w", product()).search_space(LLVM, {}, "auto", [plain_rows])
    assert space.sketches[0].trace == [["parallel", "c", "i"]]
    assert [s.name for s in space.sketches] == ["auto", "default"]


@rule(when=lambda plan, stage: stage.name == "c", last=False)
def one_way(plan, stage):
    """Rows in parallel, besides what else there is."""
    stage.parallel(stage.op.axis[0])


def test_a_rule_may_be_one_way_among_others() -> None:
    names = [s.name for s in Workload("w", product()).search_space(LLVM, {}, "auto", [one_way]).sketches]
    assert names[0] == "auto[c_by=one_way]"
    assert any("c_by=multi_level_tiling" in n for n in names[1:])


def test_a_rule_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from autosched.space.rules import rule\n"
        "@rule(when=lambda plan, stage: stage.name == 'c')\n"
        "def rows(plan, stage):\n"
        "    stage.parallel('i')\n"
        "other = 3\n"
        "class Alike:\n"
        "    when = apply = lambda plan, stage: True\n"
    )
    w = Workload("w", product())
    assert len(w.search_space(LLVM, {}, "auto", [f"{file}:rows"]).sketches) == 2
    with pytest.raises(UsageError, match=r"has no Rows\n  there: rows"):
        w.search_space(LLVM, {}, "auto", [f"{file}:Rows"])
    with pytest.raises(UsageError, match="write it under @rule"):
        w.search_space(LLVM, {}, "auto", [f"{file}:other"])
    with pytest.raises(UsageError, match="it is not a rule\n  write it under @rule"):
        w.search_space(LLVM, {}, "auto", [f"{file}:Alike"])
    with pytest.raises(UsageError, match=r"no such rule\n  there are: none installed"):
        w.search_space(LLVM, {}, "auto", ["nosuch"])


def test_a_rule_that_raises_says_where() -> None:
    @rule(when=lambda plan, stage: True)
    def broken(plan, stage):
        raise ValueError("no idea")

    with pytest.raises(WorkloadError, match=r"rule broken at stage c .*it raised ValueError: no idea"):
        Workload("w", product()).search_space(LLVM, {}, "auto", [broken])


def test_which_space_is_searched() -> None:
    @workload
    def mine(m=24, n=40, k=32):
        return product(m, n, k)

    def names(space=""):
        return {s.name.partition("[")[0] for s in mine().search_space(LLVM, {}, space).sketches}

    assert names() == names("auto") == {"auto", "default"}
    template(mine, target="llvm")(lambda s: s["c"].parallel("i"))
    assert names() == names("templates") == {"<lambda>"}
    assert names("all") == {"<lambda>", "auto", "default"}
    with pytest.raises(WorkloadError, match="templates, auto, all"):
        names("any")


OPENCL = Target.parse("opencl").with_limits(max_threads_per_block=256, shared_memory_bytes=32 << 10)
MACHINE = {"vector_bytes": 64, "l1_bytes": 32 << 10, "l2_bytes": 1 << 20}
OPENCL_CPU = OPENCL.with_limits(is_cpu=1, compute_units=LLVM.num_threads, **MACHINE)


@pytest.mark.parametrize("target", [OPENCL, OPENCL_CPU], ids=["gpu", "cpu"])
@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("ten stencils", "attention")])
def test_sketches_for_kernels_compute_what_the_definition_says(name: str, target: Target) -> None:
    check(PROGRAMS[name](), most=1, target=target)


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in ("ten stencils", "attention")])
def test_on_a_cpu_kernels_have_the_sketches_of_loops(name: str) -> None:
    """Work-groups are tasks, and nothing is kept in shared memory, which is memory there."""
    w = Workload("w", PROGRAMS[name]())
    traces = [
        [
            [i for i in s.trace if i[0] != "define_knob"]
            for s in w.search_space(to.with_limits(**MACHINE), {}, "auto").sketches
        ]
        for to in (LLVM, OPENCL_CPU)
    ]
    assert traces[0] == traces[1]
    sketch = w.search_space(OPENCL_CPU, {}, "auto").sketches[0]
    knobs = sketch.values(sketch.valid_points.rows([sketch.valid_points.count - 1])[0])
    text = compile_function(sketch.structure.bind(knobs), OPENCL_CPU).texts["source"]
    assert "barrier(" not in text.partition("__kernel")[2] and "__local" not in text
    assert text.count("__kernel") == text.count("reqd_work_group_size(1, 1, 1)")


@pytest.mark.parametrize(("shape", "wanted"), [((12, 12, 12), (1, 2, 4)), ((6, 7), (1, 2))])
def test_vectors_of_a_kernel_divide_the_axis(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    y = te.placeholder(shape, name="y")
    w = Workload("v", (y, te.compute(shape, lambda *i: y[i] * 2.0, name="twice")))
    assert [k.values for s in w.search_space(OPENCL, {}).sketches for k in s.knobs if k.name == "lanes"] == [wanted]


def _sources(args: tuple[te.Tensor, ...], target: Target) -> list[str]:
    """The text of the first point of each sketch, whose results are right."""
    w, found = Workload("w", args), []
    inputs = w.sample_inputs()
    for sketch in (s for s in w.search_space(target, {}).sketches if s.name != "default"):
        knobs = sketch.values(sketch.valid_points.rows([sketch.valid_points.count - 1])[0])
        module = Module(compile_function(sketch.structure.bind(knobs), target), target)
        got = module(*inputs)
        for a, b in zip(got if isinstance(got, (tuple, list)) else [got], w.reference(inputs), strict=True):
            assert not compare(a, b, *allowed_error(b, None, None)), f"{sketch.name} with {knobs}"
        found.append(module.get_source())
    return found


def test_an_operand_whose_columns_lie_apart_is_turned_before() -> None:
    """Products of rows by rows, whose lanes would gather."""
    a, b, k = te.placeholder((20, 24), name="a"), te.placeholder((32, 24), name="b"), te.reduce_axis((0, 24), "k")
    c = te.compute((20, 32), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), name="c")
    assert {text.count("__kernel") for text in _sources((a, b, c), OPENCL)} == {1, 2}


def test_few_long_reductions_are_cut_into_pieces() -> None:
    x, k = te.placeholder((1 << 15,), name="x"), te.reduce_axis((0, 1 << 15), "k")
    w = Workload("w", (x, te.compute((), lambda: te.max(x[k], axis=k), name="most")))
    with_groups = w.search_space(OPENCL, {})
    assert all("blockIdx.x" in str(s.trace) and "rfactor" in str(s.trace) for s in with_groups.sketches[:-1])


def test_work_items_find_the_largest_of_a_row_together() -> None:
    x, k = te.placeholder((3, 70), name="x"), te.reduce_axis((0, 70), "k")
    found = _sources((x, *te.compute((3,), lambda i: te.argmax(x[i, k], axis=k), name="largest")), OPENCL)
    assert any("barrier(" in text for text in found)


def test_what_is_done_with_the_sums_of_a_window_has_work_items() -> None:
    """The quotient of two sums over a window of weights: no kernel of any of them is one work-item's."""
    x, w = te.placeholder((20, 36), name="x"), te.placeholder((5, 5), name="w")
    (a, b), (u, v) = ([te.reduce_axis((0, 5), n) for n in names] for names in ("ab", "uv"))
    alike = te.compute((16, 32, 5, 5), lambda i, j, p, q: w[p, q] * te.exp(x[i + p, j + q] - x[i, j]), name="alike")
    sums = te.compute((16, 32), lambda i, j: te.sum(alike[i, j, a, b] * x[i + a, j + b], axis=[a, b]), name="sums")
    whole = te.compute((16, 32), lambda i, j: te.sum(alike[i, j, u, v], axis=[u, v]), name="whole")
    out = te.compute((16, 32), lambda i, j: sums[i, j] / whole[i, j], name="out")
    for sketch in Workload("w", (x, w, out)).search_space(OPENCL, {}, "auto").sketches:
        stages = sketch.schedule().stages
        kernels = [s for s in stages if not s.is_placeholder and s.attach.kind == "root"]
        assert all(any(loop.thread for loop in s.loops) for s in kernels), sketch.name
    _sources((x, w, out), OPENCL)


@pytest.mark.parametrize("target", [OPENCL, Target.parse("cuda")], ids=str)
def test_outputs_whose_vectors_differ(target: Target) -> None:
    """Vectors divide each axis, so that two outputs may have a knob of one name with other values."""
    x, y = te.placeholder((64,), name="x"), te.placeholder((33,), name="y")
    outputs = te.compute((64,), lambda i: x[i] + 1.0, name="a"), te.compute((33,), lambda i: y[i] * 2.0, name="b.c")
    space = Workload("w", (x, y, *outputs)).search_space(target, {}, "auto")
    assert not space.failures
    (sketch,) = (s for s in space.sketches if s.name != "default")
    knobs = {k.name: k.values for k in sketch.knobs}
    assert knobs.keys() == {"lanes", "items", "a_lanes"}
    assert knobs["a_lanes"] == (1, 2, 4)
    assert knobs["lanes"] == (1,)
    assert sketch.valid_points.count


def test_shared_memory_of_an_unknown_size_leaves_no_point() -> None:
    space = Workload("w", pipeline(10)).search_space(OPENCL, {"h": 13, "w": 29})
    stored = [s for s in space.sketches if any(i[0] == "set_scope" for i in s.trace)]
    assert stored
    assert any("known at run time only" in r for s in stored for r in s.reasons([0] * len(s.knobs)))
    assert any(s.valid_points.count for s in space.sketches)


def test_storage_in_a_task_has_a_size_that_is_known() -> None:
    """Every point that is left can be lowered: rows of an unknown length are not kept in a kernel."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="x")
    twice = te.compute((n, m), lambda i, j: te.exp(x[i, j]) * 2.0, name="twice")
    turned = te.compute((m, 2, n), lambda j, s, i: twice[te.select(s == 0, i, n - 1 - i), j], name="turned")
    refused = 0
    for sketch in Workload("w", (x, turned)).search_space(OPENCL_CPU, {"n": 64, "m": 64}).sketches:
        zeros = [0] * len(sketch.knobs)
        if any("known at run time only" in r for r in sketch.reasons(zeros)):
            refused += 1
            with pytest.raises(LowerError, match="is not a constant"):
                lower_structure(sketch.schedule(), (x, turned), OPENCL_CPU).bind(sketch.values(zeros))
        elif sketch.valid_points.count:
            (first,) = sketch.valid_points.rows([0])
            lower_structure(sketch.schedule(), (x, turned), OPENCL_CPU).bind(sketch.values(first.tolist()))
    assert refused


def looked_up():
    x, at = te.placeholder((50, 16), name="x"), te.placeholder((20,), "int32", name="at")
    k = te.reduce_axis((0, 16), "k")
    return x, at, te.compute((20,), lambda i: te.sum(x[te.max(te.min(at[i], 49), 0), k], axis=k), name="picked")


def several_outputs():
    x = te.placeholder((30, 40), name="x")
    k = te.reduce_axis((0, 40), "k")
    a = te.compute((30, 40), lambda i, j: x[i, j] * 2.0, name="a")
    return (
        x,
        a,
        te.compute((30, 40), lambda i, j: a[i, j] + 1.0, name="b"),
        te.compute((30,), lambda i: te.sum(a[i, k], axis=k), name="c"),
    )


def largest_place():
    x, k = te.placeholder((12, 40), name="x"), te.reduce_axis((0, 40), "k")

    def better(a, b):
        return te.select(a[1] >= b[1], a[0], b[0]), te.select(a[1] >= b[1], a[1], b[1])

    argmax = te.comm_reducer(better, lambda t, u: (te.const(-1, t), te.min_value(u)), name="argmax")
    place, value = te.compute((12,), lambda i: argmax((k.var, x[i, k]), axis=k), name="largest")
    return x, place, value


ODD = {"data-dependent": looked_up, "several outputs": several_outputs, "a combiner of one's own": largest_place}


@pytest.mark.parametrize("target", [LLVM, OPENCL], ids=["llvm", "opencl"])
@pytest.mark.parametrize("name", ODD)
def test_odd_programs(name: str, target: Target) -> None:
    w = Workload("w", ODD[name]())
    inputs = w.sample_inputs()
    wanted = w.reference(inputs)
    for sketch in w.search_space(target, {}).sketches:
        points = sketch.valid_points
        assert points.count, sketch.name
        knobs = sketch.values(points.rows([points.count - 1])[0])
        got = Module(compile_function(sketch.structure.bind(knobs), target), target)(*inputs)
        for a, b in zip(got if isinstance(got, (tuple, list)) else [got], wanted, strict=True):
            assert not compare(a, b, *allowed_error(b, None, None)), f"{sketch.name} with {knobs}"


def test_a_combiner_that_somebody_wrote_is_never_cut() -> None:
    for target in (LLVM, OPENCL):
        for sketch in Workload("w", largest_place()).search_space(target, {}).sketches:
            assert not any(i[0] == "rfactor" for i in sketch.trace)


def test_the_default_schedule_is_among_what_rules_generate() -> None:
    space = Workload("w", product()).search_space(LLVM, {})
    assert space.sketches[-1].name == "default"
    assert space.sketches[-1].size == 1
    assert [s.name for s in Workload("w", scalar()).search_space(LLVM, {}).sketches] == ["auto"]  # which is the default


def test_tiles_have_vectors_of_seven_lanes_where_the_language_does() -> None:
    """28 columns in lines of which nothing is filled up: of OpenCL's vectors, seven lanes would be three pieces."""
    x, w = te.placeholder((64, 30, 30), name="x"), te.placeholder((32, 64, 3, 3), name="w")
    c, u, v = te.reduce_axis((0, 64), "c"), te.reduce_axis((0, 3), "u"), te.reduce_axis((0, 3), "v")
    y = te.compute((32, 28, 28), lambda o, i, j: te.sum(x[c, i + u, j + v] * w[o, c, u, v], (c, u, v)), name="y")
    work = Workload("w", [x, w, y])
    limits = {**MACHINE, "vector_bytes": 32}

    def odd(target: Target) -> set[int]:
        sketches = work.search_space(target.with_limits(**limits), {}, "auto").sketches
        lanes = {v for s in sketches for k in s.knobs if k.name.endswith("lanes") for v in k.values}
        return {n for n in lanes if n & (n - 1) and n % 8}

    assert 7 in odd(LLVM)
    assert not odd(OPENCL_CPU)
