"""Every operator in `search_spaces/`: points of each template, at small and odd sizes, give the
oracle's result. An operator is added to `SMALL` with arguments that do not divide by anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda_emulation import with_emulated_cuda
from small_operators import SMALL

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
