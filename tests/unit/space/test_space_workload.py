"""Workloads and templates: what the decorators make, and what they say when something is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched import te, template, workload
from autosched.errors import ScheduleError, UsageError, UsageTypeError, WorkloadError
from autosched.lowering import lower_structure
from autosched.schedule import Schedule
from autosched.search.points import Points
from autosched.space import space as space_module
from autosched.space.space import SearchSpace, template_space
from autosched.space.workload import MAX_FORKS, Workload, WorkloadFunction
from autosched.target import Target

SIZES = {"n": 20}


def scaled_rows() -> WorkloadFunction:
    """A fresh workload for each test: templates are registered on it."""

    @workload
    def rows(columns: int = 8, dtype: str = "float32") -> object:
        """in[n, columns] -> out, twice the input."""
        n = te.var("n")
        a = te.placeholder((n, columns), dtype, name="in")
        return a, te.compute((n, columns), lambda i, j: a[i, j] * 2, name="out")

    return rows


def space(of: WorkloadFunction, target: str = "llvm", **limits: int) -> SearchSpace:
    return template_space(of(), Target.parse(target).with_limits(**limits), SIZES)


# -- workloads ------------------------------------------------------------------------------------------


def test_a_strict_workload_is_built_for_strict_targets_under_the_same_key() -> None:
    def computed() -> object:
        a = te.placeholder((64,), name="a")
        return a, te.compute((64,), lambda i: a[i] * 3 + a[0], name="out")

    strict, plain = workload(strict=True)(computed)(), workload(computed)()
    assert strict.key == plain.key
    assert strict.compiled_for(Target("llvm")) == Target("llvm -strict") == plain.compiled_for(Target("llvm -strict"))
    assert plain.compiled_for(Target("llvm")) == Target("llvm")
    module = autosched.build(strict, "llvm")
    assert module.target == Target("llvm -strict") and module.target != autosched.build(plain, "llvm").target
    assert "contract" not in module.get_source() and "contract" in autosched.build(plain, "llvm").get_source()


def test_a_workload_knows_its_function() -> None:
    rows = scaled_rows()
    assert rows.name == "rows"
    assert rows.__doc__ == "in[n, columns] -> out, twice the input."
    assert rows.parameters == {"columns": 8, "dtype": "float32"}
    w = rows(4)
    assert repr(w) == "rows(columns=4, dtype='float32')"
    assert w.params == {"columns": 4, "dtype": "float32"}
    assert w.size_names() == ("n",)
    assert w.describe_args() == [
        {"name": "in", "shape": ["n", "4"], "dtype": "float32"},
        {"name": "out", "shape": ["n", "4"], "dtype": "float32"},
    ]


def test_the_key_is_of_the_computation_and_not_of_its_names() -> None:
    rows = scaled_rows()
    assert rows().key == rows(8).key == scaled_rows()().key
    assert len({rows().key, rows(4).key, rows(8, "int32").key}) == 3


def test_sample_inputs_are_small_integers_of_the_sizes_asked_for() -> None:
    w = scaled_rows()(4)
    (array,) = w.sample_inputs({"n": 3})
    assert array.shape == (3, 4)
    assert array.dtype == np.float32
    assert np.array_equal(array, np.round(array))
    assert np.array_equal(array, w.sample_inputs({"n": 3})[0])
    assert not np.array_equal(array, w.sample_inputs({"n": 3}, seed=1)[0])
    assert w.sizes_of([array]) == {"n": 3}
    assert np.array_equal(w.reference([array])[0], array * 2)


def test_sizes_are_found_in_dimensions_that_follow_from_them() -> None:
    h, w = te.var("h"), te.var("w")
    padded = te.placeholder((h + 2, 2 * w), name="padded")
    inner = te.compute((h, w), lambda y, x: padded[y, x] + padded[y + 2, 2 * x], name="inner")
    workload = Workload("inner", (padded, inner))
    assert [x.shape for x in workload.sample_inputs({"h": 5, "w": 7})] == [(7, 14)]
    assert workload.sizes_of([np.zeros((7, 14), "float32")]) == {"h": 5, "w": 7}
    assert autosched.search_space(workload, "llvm", sizes={"h": 5, "w": 7}).sketches[0].sizes == {"h": 5, "w": 7}


def test_sample_inputs_of_a_tensor_without_dimensions() -> None:
    @workload
    def shifted() -> object:
        a, by = te.placeholder((4,), "int32", name="a"), te.placeholder((), "int32", name="by")
        return a, by, te.compute((4,), lambda i: a[i] + by(), name="out")

    arrays = shifted().sample_inputs()
    assert [a.shape for a in arrays] == [(4,), ()]


def test_a_workloads_own_inputs_are_given_parameters_and_sizes() -> None:
    def inputs(columns: int, dtype: str, n: int = 5) -> list[np.ndarray]:
        return [np.full((n, columns), 7, dtype)]

    @workload(inputs=inputs)
    def rows(columns: int = 2, dtype: str = "int16") -> object:
        a = te.placeholder((te.var("n"), columns), dtype, name="in")
        return a, te.compute(a.shape, lambda i, j: a[i, j] + 1, name="out")

    assert rows().sample_inputs()[0].shape == (5, 2)
    assert rows(3).sample_inputs({"n": 4})[0].tolist() == [[7] * 3] * 4


def test_a_lambda_has_no_name_for_its_records() -> None:
    with pytest.raises(UsageTypeError, match="def, not lambda"):
        workload(lambda n: [n])


def test_an_unknown_size() -> None:
    with pytest.raises(WorkloadError) as raised:
        scaled_rows()().sample_inputs()
    assert raised.value.why == "the size n of in is not known"
    assert raised.value.legal == "give sizes, for example --size n=1024, or write @workload(inputs=...)"


def test_sizes_that_no_machine_holds_are_refused_before_inputs_are_made() -> None:
    def inputs(n=4, m=2**40):
        pytest.fail("they are made")

    @workload(inputs=inputs)
    def wide() -> object:
        a = te.placeholder((te.var("n"), te.var("m")), name="a")
        return a, te.compute((4,), lambda i: a[0, i], name="b")

    with pytest.raises(MemoryError, match=f"a has 1000 x {2**40} elements of float32"):
        wide().sample_inputs({"n": 1000})


def test_a_parameter_that_is_not_there() -> None:
    with pytest.raises(WorkloadError) as raised:
        scaled_rows()(rows=3)
    assert "unexpected keyword argument 'rows'" in raised.value.why
    assert raised.value.legal == "parameters: columns=8, dtype='float32'"


@pytest.mark.parametrize("result", [None, 3, [], (1, 2)], ids=repr)
def test_a_function_that_returns_no_tensors(result: object) -> None:
    @workload
    def broken() -> object:
        return result

    with pytest.raises(WorkloadError, match="it did not return tensors") as raised:
        broken()
    assert raised.value.asked == "broken(...)"


def test_a_function_that_raises() -> None:
    @workload
    def broken(channels: int = 3) -> object:
        raise KeyError("complex64")

    with pytest.raises(WorkloadError) as raised:
        broken()
    assert raised.value.why == "it raised KeyError: 'complex64'"
    line = broken.fn.__code__.co_firstlineno + 2
    assert raised.value.asked == f"broken(channels=3)  at {__file__}:{line}"
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_function_that_uses_the_language_wrongly() -> None:
    """Our own errors come through as they are: they say more."""

    @workload
    def broken() -> object:
        a = te.placeholder((4,), name="a")
        return a, te.compute((4,), lambda i, j: a[i], name="b")

    with pytest.raises(UsageError, match="the function takes 2 axes, the shape has 1 dimensions"):
        broken()


# -- templates --------------------------------------------------------------------------------------------


def test_a_template_is_a_sketch() -> None:
    rows = scaled_rows()

    @template(rows, target="llvm")
    def blocks(s: Schedule) -> None:
        _, inner = s["out"].split("j", factor=s.define_knob("lanes", [2, 4, 8]))
        s["out"].vectorize(inner)
        s["out"].split("i", factor=s.define_knob("rows", [1, 5]))

    found = space(rows)
    (sketch,) = found.sketches
    assert sketch.name == "blocks"
    assert repr(sketch) == "Sketch(blocks: 6 points)"
    assert found.size == sketch.size == 6
    assert sketch.values((1, 0)) == {"lanes": 4, "rows": 1}
    assert sketch.indices_of({"lanes": 4, "rows": 1}) == (1, 0)
    assert sketch.indices_of({"lanes": 3, "rows": 1}) is None
    assert sketch.indices_of({"lanes": 4}) is None
    assert found.find(sketch.trace) == 0
    assert found.find([]) is None


def test_a_template_may_ask_for_the_target() -> None:
    rows = scaled_rows()

    @template(rows, target="opencl")
    def groups(s: Schedule, target: Target) -> None:
        most = target.limits["max_threads_per_block"]
        outer, inner = s["out"].split("i", factor=s.define_knob("items", [most // 2, most]))
        s["out"].bind(outer, "blockIdx.x")
        s["out"].bind(inner, "threadIdx.x")

    (sketch,) = space(rows, "opencl", max_threads_per_block=64).sketches
    assert sketch.knobs[0].values == (32, 64)


def test_no_template_for_a_target() -> None:
    rows = scaled_rows()

    @template(rows, target="opencl")
    def groups(s: Schedule) -> None:
        """Leaves everything as it is."""

    with pytest.raises(WorkloadError) as raised:
        space(rows)
    assert raised.value.why == "it has no template for llvm"
    assert raised.value.legal == (
        'templates are there for: opencl; write one under @template(rows, target="llvm"), or tune with space="auto"'
    )


def test_a_template_that_raises() -> None:
    rows = scaled_rows()

    @template(rows, target="llvm")
    def broken(s: Schedule) -> None:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(WorkloadError) as raised:
        space(rows)
    assert raised.value.asked == f"template broken of rows  at {__file__}:{broken.__code__.co_firstlineno + 2}"
    assert raised.value.why == "it raised ZeroDivisionError: division by zero"


def test_a_template_that_schedules_what_cannot_be() -> None:
    """The error is the primitive's, with the template's own line."""
    rows = scaled_rows()

    @template(rows, target="llvm")
    def broken(s: Schedule) -> None:
        s["out"].split("y", factor=4)

    with pytest.raises(ScheduleError) as raised:
        space(rows)
    assert raised.value.why == "out has no loop 'y'"
    line = broken.__code__.co_firstlineno + 2
    assert raised.value.asked == f"out.split('y', factor=4)  at {__file__}:{line}"


def test_a_knob_in_an_if() -> None:
    rows = scaled_rows()

    @template(rows, target="llvm")
    def broken(s: Schedule) -> None:
        if s.define_knob("deep", [1, 2]) > 1:
            s["out"].fuse("i", "j")

    with pytest.raises(UsageError, match="deep is a knob: it has no value while the sketch is traced") as raised:
        space(rows)
    assert raised.value.legal.startswith("use s.choose(...)")


def test_a_template_of_nothing() -> None:
    with pytest.raises(WorkloadError, match="is not a workload") as raised:

        @template(lambda: None, target="llvm")  # type: ignore[arg-type]
        def broken(s: Schedule) -> None:
            """Never registered."""

    assert raised.value.asked == "@template"


def test_two_templates_of_one_name() -> None:
    rows = scaled_rows()

    def same(s: Schedule) -> None:
        """Leaves everything as it is."""

    template(rows, target="llvm")(same)
    template(rows, target="opencl")(same)  # another target is another template
    with pytest.raises(WorkloadError, match="rows has a template 'same' for llvm already"):
        template(rows, target="llvm")(same)


# -- choices ------------------------------------------------------------------------------------------------


def test_each_combination_of_choices_is_a_sketch() -> None:
    rows = scaled_rows()

    @template(rows, target="llvm")
    def forks(s: Schedule) -> None:
        if s.choose("fuse", [True, False]):
            s["out"].fuse("i", "j")
        elif s.choose("order", ["ij", "ji", "none"]) == "ji":
            s["out"].reorder("j", "i")

    found = space(rows)
    assert [x.name for x in found.sketches] == [
        "forks[fuse=True]",
        "forks[fuse=False, order=ij]",
        "forks[fuse=False, order=ji]",
        "forks[fuse=False, order=none]",
    ]
    traces = [x.trace for x in found.sketches]
    assert traces[2] == [["choose", "fuse", False], ["choose", "order", "ji"], ["reorder", "out", "j", "i"]]
    assert [found.find(t) for t in traces] == [0, 1, 2, 3]


def test_too_many_choices() -> None:
    rows = scaled_rows()

    @template(rows, target="llvm", max_forks=10)
    def forks(s: Schedule) -> None:
        for k in range(4):
            s.choose(f"c{k}", [True, False])

    with pytest.raises(WorkloadError, match="its choices make more than 10 sketches") as raised:
        space(rows)
    assert raised.value.asked == "template forks"
    assert raised.value.legal.endswith("or @template(..., max_forks=20)")


def test_thousands_of_sketches_are_lowered_when_they_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = scaled_rows()

    @template(rows, target="llvm")
    def forks(s: Schedule) -> None:
        for k in range(10):
            if s.choose(f"c{k}", [True, False]) and k == 9:
                s["out"].split("i", factor=s.define_knob("rows", [1, 5]))

    lowered = []

    def count(*args: object) -> object:
        lowered.append(args)
        return lower_structure(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(space_module, "lower_structure", count)
    found = space(rows)
    assert len({x.name for x in found.sketches}) == 1024 < MAX_FORKS
    assert found.size == 512 * 3
    assert found.find(found.sketches[700].trace) == 700
    points = Points(found)
    assert sum(points.shares(64, np.random.default_rng(0))) == 64
    assert not lowered
    assert len(points.take(4, np.random.default_rng(0))) == 4
    assert 1 <= len(lowered) <= 8
    assert found.sketches[2].features(np.zeros((1, 1), int)).shape == (1, len(found.feature_names))


def test_a_combination_that_the_schedule_refuses_is_left_out() -> None:
    rows = scaled_rows()

    @template(rows, target="llvm")
    def forks(s: Schedule) -> None:
        loop = s["out"].fuse("i", "j") if s.choose("fuse", [True, False]) else "i"
        s["out"].split("j" if s.choose("inner", [True, False]) else loop, factor=4)

    found = space(rows)
    assert [x.name for x in found.sketches] == [
        "forks[fuse=True, inner=False]",
        "forks[fuse=False, inner=True]",
        "forks[fuse=False, inner=False]",
    ]
    ((name, reason),) = found.failures.items()
    assert name == "forks[fuse=True, inner=True]"
    assert "out has no loop 'j'" in reason
    assert found.impossible() is None


def detached(s: Schedule, loop: str) -> None:
    """Legal call by call; lowering finds that the loop it is attached at is gone."""
    sums = s[s.cache_write("out", "local")]
    sums.compute_at(s["out"], loop)
    s["out"].split(loop, factor=4)


def test_a_sketch_that_cannot_be_lowered_has_no_points() -> None:
    rows = scaled_rows()

    @template(rows, target="llvm")
    def forks(s: Schedule) -> None:
        if s.choose("broken", [False, True]):
            detached(s, "i")

    found = space(rows)
    sound, broken = found.sketches
    assert found.failures == {}
    everything = np.zeros((3, 0), int)
    assert sound.mask(everything).tolist() == [True] * 3
    assert broken.mask(everything).tolist() == [False] * 3
    assert list(found.failures) == ["forks[broken=True]"]
    assert broken.reasons(()) == [broken.failure]
    assert "out.i" in broken.failure
    assert found.impossible() is None
    with pytest.raises(ScheduleError, match="out.i"):
        _ = broken.structure


def test_a_space_in_which_nothing_can_be_lowered() -> None:
    rows = scaled_rows()

    @template(rows, target="llvm")
    def forks(s: Schedule) -> None:
        detached(s, s.choose("loop", ["i", "j"]))

    found = space(rows)
    assert found.impossible() is None
    for sketch in found.sketches:
        sketch.mask(np.zeros((1, 0), int))
    problem = found.impossible()
    assert isinstance(problem, WorkloadError)
    assert problem.why == "none of its 2 sketches is possible"
    assert "forks[loop=i]: " in problem.legal
    assert "forks[loop=j]: " in problem.legal


def test_a_template_that_does_something_else_each_time() -> None:
    rows, lengths = scaled_rows(), iter([4, 8])

    @template(rows, target="llvm")
    def moody(s: Schedule) -> None:
        s["out"].split("i", factor=next(lengths))

    (sketch,) = space(rows).sketches
    assert not sketch.mask(np.zeros((1, 0), int)).any()
    assert "the template did something else when it ran again" in sketch.failure


def test_a_size_that_nothing_gives() -> None:
    rows = scaled_rows()

    @template(rows, target="llvm")
    def plain(s: Schedule) -> None:
        """Leaves everything as it is."""

    with pytest.raises(WorkloadError, match="the size n is not known"):
        template_space(rows(), Target.parse("llvm"), {})


def test_a_workload_made_by_hand_has_no_templates() -> None:
    a = te.placeholder((4,), name="a")
    w = Workload("plain", (a, te.compute((4,), lambda i: a[i] + 1, name="b")))
    assert w.templates == ()
    with pytest.raises(WorkloadError, match="it has no template for llvm"):
        template_space(w, Target.parse("llvm"), {})


def _own_inputs(inputs: object) -> Workload:
    @workload(inputs=inputs)  # type: ignore[arg-type]
    def own(n: int = 4) -> tuple[te.Tensor, te.Tensor]:
        a = te.placeholder((n,), name="a")
        return a, te.compute((n,), lambda i: a[i] + 1, name="b")

    return own()


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        (lambda n: 1 // 0, "it raised ZeroDivisionError"),
        (lambda: [np.zeros(4, "float32")], "it raised TypeError: .*unexpected keyword argument 'n'"),
        (lambda n: None, "it returned None, no list"),
        (lambda n: np.zeros(n, "float32"), r"it returned an array of shape \(4,\), no list"),
    ],
)
def test_inputs_that_cannot_be_are_named(inputs: object, why: str) -> None:
    with pytest.raises(WorkloadError, match=rf"^inputs\(n=4\) of own.*: {why}"):
        _own_inputs(inputs).sample_inputs()


def test_an_input_that_nothing_reads() -> None:
    a, unread = te.placeholder((8,), name="a"), te.placeholder((3,), name="unread")
    w = Workload("partly", (a, unread, te.compute((8,), lambda i: a[i] * 2, name="b")))
    x, y = np.ones(8, "float32"), np.ones(3, "float32")
    assert (autosched.build(w, "llvm")(x, y) == 2).all()
    assert autosched.search_space(w, "llvm").sketches
