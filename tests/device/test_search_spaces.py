"""Every operator in `search_spaces/`: points of each template, at small and odd sizes, give the
oracle's result. An operator is added to `SMALL` with arguments that do not divide by anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_emulation import with_emulated_cuda

from autosched.building import build
from autosched.codegen import compile_function
from autosched.codegen.nvrtc import compile_cuda_source, find_nvrtc
from autosched.measure.verify import allowed_error, compare
from autosched.runtime.device import resolve_target
from autosched.runtime.module import Module
from autosched.space.loading import find_workload, list_workloads
from autosched.space.space import Sketch, template_space
from autosched.space.workload import Workload
from autosched.target import Target

ROOT = Path(__file__).parents[2]

_CONVOLUTIONS: list[dict[str, Any]] = [
    {"height": 9, "width": 11, "cin": 3, "cout": 20},
    {"batch": 2, "height": 6, "width": 31, "cin": 2, "cout": 33, "kernel": 2, "pad": 0},
    {"height": 5, "width": 7, "cin": 18, "cout": 40, "kernel": 1, "pad": 0},
    {"height": 6, "width": 7, "cin": 5, "cout": 36, "dtype": "float16"},
    {"height": 15, "width": 13, "cin": 3, "cout": 6, "kernel": 7, "stride": 2, "pad": 3, "dtype": "float64"},
]

#: workload -> argument sets; sizes of symbolic dimensions are among them
SMALL: dict[str, list[dict[str, Any]]] = {
    "box_blur": [{"height": 13, "width": 37}],
    "gaussian_blur": [{"height": 13, "width": 37}, {"height": 1, "width": 1, "channels": 1}],
    "resize": [
        {"height": 13, "width": 40, "out_height": 9, "out_width": 20},
        {"height": 6, "width": 30, "out_height": 11, "out_width": 45, "channels": 1},
        {"height": 3, "width": 5, "out_height": 4, "out_width": 33, "channels": 4},
        {"height": 1, "width": 1, "out_height": 2, "out_width": 3},
    ],
    "sobel": [{"height": 13, "width": 137}, {"height": 1, "width": 2}],
    "matmul": [
        {"m": 33, "n": 50, "k": 19},
        {"m": 5, "n": 3, "k": 1},
        {"m": 20, "n": 70, "k": 9, "dtype": "float64"},
        {"m": 17, "n": 40, "k": 24, "dtype": "int8"},
    ],
    "exp_chain": [{"size": 1000}, {"size": 3, "dtype": "float64"}],
    "tanh_chain": [{"size": 1000}, {"size": 1, "dtype": "float16"}],
    "softmax": [
        {"rows": 7, "columns": 50},
        {"rows": 9, "columns": 90, "dtype": "float16"},
        {"rows": 33, "columns": 1},
        {"rows": 5, "columns": 300, "dtype": "float64"},
    ],
    "layer_norm": [
        {"rows": 7, "columns": 50},
        {"rows": 9, "columns": 90, "dtype": "float16"},
        {"rows": 33, "columns": 1},
        {"rows": 5, "columns": 300, "dtype": "float64"},
    ],
    "histogram": [{"height": 37, "width": 19, "channels": 3}, {"height": 700, "width": 3, "channels": 1}],
    "cumsum": [
        {"rows": 7, "columns": 50, "axis": 1},
        {"rows": 33, "columns": 50, "axis": 0},
        {"rows": 7, "columns": 50, "axis": 1, "dtype": "float16"},
        {"rows": 33, "columns": 50, "axis": 0, "dtype": "float16"},
        {"rows": 5, "columns": 3, "axis": 1, "dtype": "float64"},
        {"rows": 1, "columns": 1, "axis": 0, "dtype": "int32"},
    ],
    "row_sum": [
        {"rows": 13, "columns": 301},
        {"rows": 13, "columns": 90, "dtype": "float16"},
        {"rows": 5, "columns": 1, "dtype": "float64"},
        {"rows": 9, "columns": 77, "dtype": "int16"},
    ],
    "column_sum": [
        {"rows": 301, "columns": 13},
        {"rows": 1, "columns": 700, "dtype": "float64"},
        {"rows": 9, "columns": 77, "dtype": "int16"},
    ],
    "add": [
        {"rows": 13, "columns": 301},
        {"rows": 1, "columns": 1, "dtype": "float64"},
        {"rows": 9, "columns": 77, "dtype": "uint8"},
    ],
    "gemv": [
        {"rows": 13, "columns": 301},
        {"rows": 5, "columns": 1, "dtype": "float64"},
        {"rows": 9, "columns": 77, "dtype": "int32"},
    ],
    "max_pool": [
        {"channels": 3, "height": 13, "width": 41},
        {"channels": 1, "height": 1, "width": 1},
        {"batch": 2, "channels": 2, "height": 6, "width": 70, "dtype": "uint8"},
    ],
    "batched_matmul": [{"batch": 3, "m": 17, "n": 35, "k": 8}],
    "conv2d_nchw": _CONVOLUTIONS,
    "conv2d_nhwc": _CONVOLUTIONS,
    "depthwise_conv2d": [
        {"channels": 5, "height": 9, "width": 21},
        {"channels": 5, "height": 9, "width": 21, "dtype": "float16"},
        {"batch": 2, "channels": 3, "height": 17, "width": 7, "kernel": 5, "stride": 2, "pad": 2, "dtype": "float64"},
    ],
}

CASES = [(name, given) for name, many in SMALL.items() for given in many]
IDS = [f"{name}-{'x'.join(map(str, given.values()))}" for name, given in CASES]


def test_every_operator_is_here() -> None:
    assert set(SMALL) == set(list_workloads(ROOT / "search_spaces"))


def _workload(name: str, given: dict[str, Any]) -> tuple[Workload, dict[str, int]]:
    """The workload and the sizes among the arguments."""
    function = find_workload(name, ROOT / "search_spaces")
    arguments = {k: v for k, v in given.items() if k in function.parameters}
    return function(**arguments), {k: v for k, v in given.items() if k not in arguments}


def _points(sketch: Sketch, count: int) -> list[dict[str, int]]:
    """Feasible points: random ones, with a fixed seed."""
    rng = np.random.default_rng(0)
    tries = np.stack([rng.integers(0, len(k.values), 300) for k in sketch.knobs], axis=1)
    feasible = tries[sketch.mask(tries)]
    assert len(feasible), f"no feasible point among 300 of {sketch}"
    return [sketch.values(row) for row in feasible[:count]]


def _check_points(name: str, given: dict[str, Any], target: Target, count: int) -> None:
    work, sizes = _workload(name, given)
    inputs = work.sample_inputs(sizes)
    wanted = work.reference(inputs)
    space = template_space(work, target, work.sizes_of(inputs))
    assert not space.untraced
    for sketch in space.sketches:
        for point in _points(sketch, count):
            module = Module(compile_function(sketch.structure.bind(point), target), target)
            got = module(*inputs)
            results = got if isinstance(got, (tuple, list)) else [got]
            for a, b, r in zip(results, wanted, work.roundings(target), strict=True):
                wrong = compare(a, b, *allowed_error(b, None, None, r), rounding=r)
                assert not wrong, f"{sketch.name} with {point}: {wrong}"


@pytest.mark.parametrize("centre", [0, 100])
@pytest.mark.parametrize("name", ["row_sum", "column_sum", "gemv", "layer_norm", "softmax"])
def test_sums_of_halves_lose_nothing(name: str, centre: int, tmp_path: Path) -> None:
    """4,096 terms: as halves, a sum stands still at 2,048 times its terms."""
    rows, columns = (4096, 4) if name == "column_sum" else (4, 4096)
    half, exact = (_workload(name, {"rows": rows, "columns": columns, "dtype": t})[0] for t in ("float16", "float64"))
    rng = np.random.default_rng(1)
    inputs = [(rng.normal(size=a.shape) * 0.5 + centre).astype(a.dtype) for a in half.sample_inputs({})]
    wanted = exact.reference([a.astype("float64") for a in inputs])
    for found in (half.reference(inputs)[0], build(half, "llvm", records=str(tmp_path))(*inputs)):
        rounded = wanted[0].astype(found.dtype).astype("float64")
        scale = np.abs(wanted[0]) + (np.abs(inputs[-1].astype("float64")) if name == "layer_norm" else 0)
        assert (np.abs(found.astype("float64") - rounded) <= 1e-3 * scale + 2.0**-24).all()


@pytest.mark.parametrize(("name", "given"), CASES, ids=IDS)
def test_points_of_every_template_on_llvm(name: str, given: dict[str, Any]) -> None:
    _check_points(name, given, Target.parse("llvm"), 2)


def _has_kernels(name: str) -> bool:
    return any(t.fits(Target.parse("opencl")) for t in find_workload(name, ROOT / "search_spaces").templates)


@pytest.mark.parametrize("name", [name for name in SMALL if _has_kernels(name)])
def test_points_of_every_template_on_opencl(name: str) -> None:
    """At one size: the driver's compiler takes its time."""
    _check_points(name, SMALL[name][0], Target.parse("opencl"), 2)


@pytest.mark.parametrize("name", [name for name in SMALL if _has_kernels(name)])
def test_sources_of_every_template_for_cuda(name: str) -> None:
    """NVIDIA's compiler takes them, where it is installed."""
    work, sizes = _workload(name, SMALL[name][0])
    target = resolve_target("cuda")
    for sketch in template_space(work, target, work.sizes_of(work.sample_inputs(sizes))).sketches:
        source = compile_function(sketch.structure.bind(_points(sketch, 1)[0]), target).texts["source"]
        assert "__global__" in source
        if find_nvrtc() is not None:
            assert compile_cuda_source(source, "sm_80")


@pytest.mark.parametrize("name", ["matmul", "softmax", "row_sum", "conv2d_nhwc", "histogram"])
def test_points_of_templates_on_emulated_cuda(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_emulated_cuda(monkeypatch)
    _check_points(name, SMALL[name][0], resolve_target("cuda"), 1)
