"""What `tune_kernel` makes of its arguments, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from raw_kernels import ADD, OPENCL, N, add_words, axpy_words, kernel, operands

from autosched import raw_kernel, run_kernel, te
from autosched.errors import UsageError, UsageTypeError, WorkloadError
from autosched.raw.spec import KernelSpec
from autosched.target import Target


def roles(k):
    return [(a.name, a.role) for a in k.spec.arguments]


def test_arguments_get_names_and_roles_from_source_and_answer():
    assert roles(kernel(add_words())) == [("c", "output"), ("a", "input"), ("b", "input"), ("n", "scalar")]
    assert roles(kernel(axpy_words(answer=None)))[0] == ("y", "scratch")
    assert kernel(add_words()).spec.lang == "OpenCL"
    assert kernel(axpy_words()).spec.lang == "C"


def test_the_key_is_of_source_arguments_and_options_not_of_values():
    key = kernel(add_words()).key
    assert kernel(add_words(tune_params={"block_size_x": [32], "tile": [4, 8]})).key == key
    assert kernel(add_words(restrictions=["tile == 1"])).key == key
    others = [
        add_words(source=ADD + "\n"),
        add_words(compiler_options=["-cl-fast-relaxed-math"]),
        add_words(problem_size=N + 1),
        add_words(arguments=[*operands(), np.int32(N - 1)]),
        add_words(tune_params={"block_size_x": [16, 64], "tile": [1, 2], "more": [1]}),
    ]
    with pytest.warns(UserWarning, match="does not use the parameter more"):
        keys = {kernel(w).key for w in others}
    assert len(keys) == len(others)
    assert key not in keys


def test_a_kernel_survives_the_way_to_a_worker():
    words = add_words(problem_size=lambda p: (N * p["tile"] / p["tile"], 3), grid_div_y=[2])
    spec = kernel(words).spec
    again = KernelSpec.from_json(spec.to_json())
    knobs = {"block_size_x": 64, "tile": 2}
    assert again.geometry_of(knobs) == spec.geometry_of(knobs) == ((8, 2, 1), (64, 1, 1))
    assert again.key == spec.key
    assert again.full_source(knobs) == spec.full_source(knobs)


@pytest.mark.parametrize(
    ("words", "grid", "block"),
    [
        ({}, (16, 1, 1), (64, 1, 1)),
        ({"grid_div_x": None}, (16, 1, 1), (64, 1, 1)),
        ({"grid_div_x": []}, (N, 1, 1), (64, 1, 1)),
        ({"grid_div_x": ["block_size_x/32"]}, (500, 1, 1), (64, 1, 1)),
        ({"grid_div_x": lambda p: p["block_size_x"] * 3}, (6, 1, 1), (64, 1, 1)),
        ({"problem_size": ("100 * tile", 7), "grid_div_y": [2]}, (2, 4, 1), (64, 1, 1)),
        ({"block_size_names": ["gx", "tile"]}, (16, 1, 1), (256, 1, 1)),
    ],
)
def test_the_grid_follows_kernel_tuner(words, grid, block):
    spec = kernel(add_words(**words)).spec
    assert spec.geometry_of({"block_size_x": 64, "tile": 1}) == (grid, block)


def test_the_configurations_that_meet_expressions_are_numbered():
    words = add_words(tune_params={"block_size_x": [16, 64, 8192], "tile": [1, 2, 4]})
    restrictions = ["block_size_x * tile < 200", te.var("tile") != 2]
    space = kernel({**words, "restrictions": restrictions}).search_space(OPENCL, {})
    (sketch,) = space.sketches
    points = np.array([(i, j) for i in range(3) for j in range(3)])
    assert [n >= 0 for n in sketch.valid_points.numbers(points)] == sketch.mask(points).tolist()
    assert space.valid == 3
    judged = kernel({**words, "restrictions": [lambda p: p["tile"] != 2]}).search_space(OPENCL, {})
    assert judged.sketches[0].valid_points is None
    assert judged.valid is None


def test_the_space_knows_restrictions_and_the_device():
    words = add_words(
        tune_params={"block_size_x": [16, 64, 8192], "tile": [1, 2, 4]},
        restrictions=["block_size_x * tile < 200", lambda p: p["tile"] != 2, te.var("tile") <= 4],
    )
    space = kernel(words).search_space(OPENCL, {})
    (sketch,) = space.sketches
    points = np.array([(i, j) for i in range(3) for j in range(3)])
    valid = [tuple(sketch.values(p).values()) for p in points[sketch.mask(points)]]
    assert valid == [(16, 1), (16, 4), (64, 1)]
    assert sketch.reasons((2, 1)) == [
        "block_size_x * tile < 200",
        "a work-group of more than 4096 work-items",
        sketch.reasons((0, 1))[0],
    ]
    features = sketch.features(points)
    assert features.shape == (9, len(space.feature_names))
    items = features[:, space.feature_names.index("work_items")]
    assert items[4] == pytest.approx(np.log2(1 + 64 * 8))


RESTRICTIONS = [
    "block_size_x * tile <= 256",
    "block_size_x % tile == 0 or tile == 3",
    "64 < block_size_x * tile and not tile == 2",
    "block_size_x / 64 == tile",
    "T == 'float' or (block_size_x if tile > 1 else 32) in (32, 64)",
    "w * tile >= 1.5",
]


@pytest.mark.parametrize("text", RESTRICTIONS)
def test_valid_points_are_those_of_the_mask(text):
    """The sketch's diagram of valid points and its mask are made from the same formulas."""
    values = {"block_size_x": [32, 64, 128, 512], "tile": [1, 2, 3, 4], "T": ["float", "double"], "w": [0.5, 1.0]}
    source = ADD + "T factor = w;\n"
    k = kernel(add_words(source=source, tune_params=values, restrictions=[text, "block_size_x != 32"]))
    (sketch,) = k.search_space(OPENCL, {}).sketches
    points = np.array(list(np.ndindex(4, 4, 2, 2)))
    valid = points[sketch.mask(points)]
    assert 0 < len(valid) < len(points)
    assert sketch.valid_points is not None
    assert sketch.valid_points.count == len(valid)
    drawn = sketch.valid_points.rows(np.arange(len(valid)))
    assert {tuple(r) for r in drawn.tolist()} == {tuple(r) for r in valid.tolist()}


def test_functions_leave_no_diagram():
    (sketch,) = kernel(add_words(restrictions=lambda p: True)).search_space(OPENCL, {}).sketches
    assert sketch.valid_points is None


def test_other_values_leave_records_comparable():
    old = kernel(add_words()).search_space(OPENCL, {}).sketches[0]
    new = kernel(add_words(tune_params={"block_size_x": [64, 32], "tile": [2, 1]})).search_space(OPENCL, {})
    assert new.find(old.trace) == 0
    assert new.sketches[0].indices_of({"block_size_x": 64, "tile": 1}) == (0, 1)
    assert new.sketches[0].indices_of({"block_size_x": 16, "tile": 1}) is None
    assert new.find([["raw", "other", "C", "key"]]) is None


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"lang": "Fortran"}, "no such language"),
        ({"kernel_name": "sub"}, "does not mention it.*\n.*functions in it: add"),
        ({"kernel_source": "no_such_file.cl"}, "cannot be read"),
        ({"arguments": [*operands()]}, "takes 4 arguments, and 3 are given: 'int n' is missing"),
        ({"arguments": [*operands(), N]}, "no width that C knows"),
        ({"arguments": [*operands(), np.float32(N)]}, "declares 'int n', and float32 is given"),
        ({"arguments": [*operands()[:2], operands()[2].astype(np.float64), np.int32(N)]}, "float64 is given"),
        ({"arguments": [*operands()[:2], np.float32(1), np.int32(N)]}, "and a scalar is given"),
        ({"arguments": [np.zeros(3, complex), *operands()[1:], np.int32(N)]}, "no element type"),
        ({"answer": [None, None]}, "has 2 entries, and there are 4 arguments"),
        ({"answer": [np.zeros(3, np.float32), None, None, None]}, "the same type and shape"),
        ({"answer": [None, None, None, 3]}, "is a scalar"),
        ({"answer": {"z": operands()[0]}}, "no argument 'z'"),
        ({"problem_size": 0}, "is no size"),
        ({"problem_size": (1, 2, 3, 4)}, "4 dimensions"),
        ({"problem_size": "nothing * 2"}, "no parameter 'nothing'"),
        ({"problem_size": lambda p: p["oops"]}, "raised KeyError"),
        ({"grid_div_x": 3}, "is no list"),
        ({"restrictions": 3}, "is no list"),
        ({"restrictions": [te.var("zzz") > 1]}, "no integer parameter"),
        ({"compiler_options": [1]}, "no list of options"),
        ({"tune_params": {"block_size_x": [1.5]}}, "no integers"),
        ({"tune_params": {"a" * 300: [1]}}, "no name that C knows"),
        ({"tune_params": {"aé": [1]}}, "no name that C knows"),
        ({"kernel_source": "a\0b"}, "cannot be read"),
        ({"answer": lambda *a: a[9]}, "raised IndexError"),
    ],
)
def test_what_cannot_be_meant_is_refused(words, why):
    with pytest.raises(UsageError, match=why):
        kernel(add_words(**words))


@pytest.mark.parametrize("wrong", [5, 1.5, b"x", object(), np.zeros(3)], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize(
    "name",
    "kernel_name kernel_source arguments tune_params restrictions answer compiler_options block_size_names verify "
    "metrics objective objective_higher_is_better poison".split(),
)
def test_arguments_of_other_types_are_told_by_errors_of_ours(name, wrong):
    with pytest.raises(UsageError) as caught:
        kernel(add_words(**{name: wrong}))
    assert caught.value.why and caught.value.legal


@pytest.mark.parametrize("wrong", [5, "x", [], np.zeros(3)], ids=lambda x: type(x).__name__)
def test_only_a_function_is_made_a_raw_kernel(wrong):
    with pytest.raises(UsageTypeError, match=r"@raw_kernel: .* is not a function with a name"):
        raw_kernel(wrong)
    with pytest.raises(UsageTypeError, match=r"run_kernel\(params\)"):
        words = {
            k: v for k, v in add_words().items() if k in ("kernel_name", "kernel_source", "problem_size", "arguments")
        }
        run_kernel(**words, params=wrong)


def test_restrictions_that_exclude_all_are_named():
    k = kernel(add_words(restrictions=["tile > 0", "tile > block_size_x"]))
    with pytest.raises(WorkloadError, match="no configuration meets tile > block_size_x: all 4 are excluded"):
        k.defaults(OPENCL, k.search_space(OPENCL, {}))


def test_a_restriction_that_raises_is_named():
    k = kernel(add_words(restrictions=[lambda p: p["oops"]]))
    with pytest.raises(WorkloadError, match="raised KeyError"):
        k.defaults(OPENCL, k.search_space(OPENCL, {}))


def test_a_target_of_another_language_is_refused():
    with pytest.raises(WorkloadError, match="written in OpenCL"):
        kernel(add_words()).search_space(Target.parse("llvm"), {})


def test_a_parameter_that_the_source_sets_itself_is_noticed():
    with pytest.warns(UserWarning, match="hides the value that is tuned"):
        kernel(add_words(source="#define tile 4\n" + ADD))
    kernel(add_words(source="#ifndef tile\n#define tile 4\n#endif\n" + ADD))


def test_a_kernel_has_no_schedule_to_generate() -> None:
    with pytest.raises(WorkloadError, match="no schedule to generate"):
        kernel(add_words()).search_space(OPENCL, {}, "auto")
