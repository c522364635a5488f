"""Answers of kernels, at small sizes: workloads of `search_spaces/` and programs of `programs/` on every backend.

A *backend* is a target and the way in which its kernels run:

    cuda, opencl:N        a GPU that is there
    emulated              CUDA text translated by g++, whose work-items take turns; NVRTC reads it, too, where it is
    opencl cpu            PoCL with the schedules for CPUs
    opencl as gpu         PoCL with the schedules for GPUs
    interpreted           the lowered kernels for CUDA, one element at a time, with races and bounds looked at

For each workload the default schedule and a point of some sketches of the rules are compared with the definition.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "helpers"))

import programs
from small_operators import SMALL as OPERATORS

from autosched.codegen import compile_function
from autosched.codegen.nvrtc import compile_cuda_source, find_nvrtc
from autosched.errors import AutoschedError
from autosched.ir.stmt import Function
from autosched.lowering.pipeline import lower_structure
from autosched.measure.verify import allowed_error, compare, poison
from autosched.runtime import cuda, opencl_devices
from autosched.runtime.device import resolve_target
from autosched.runtime.interpreter import interpret
from autosched.runtime.module import Module
from autosched.space.default import default_schedule
from autosched.space.loading import find_workload
from autosched.space.rules import generated
from autosched.space.space import template_space
from autosched.space.workload import Workload
from autosched.target import Target

ROOT = Path(__file__).resolve().parent.parent
_IMAGE = {"height": 13, "width": 37}

#: program of the bench -> parameters at which an interpreter takes seconds for it, most of which nothing divides
PROGRAMS: dict[str, dict[str, int]] = {
    **dict.fromkeys(
        ("filter_3x3_rgb", "gaussian_5x5", "unsharp_mask", "sobel_magnitude", "harris", "box_chain"), _IMAGE
    ),
    **dict.fromkeys(("median_3x3", "bilateral_5x5", "rgb_to_grey", "rgb_to_yuv", "equalize_histogram"), _IMAGE),
    **dict.fromkeys(("affine_warp", "recursive_filter"), _IMAGE),
    "non_local_means": {"height": 9, "width": 11},
    "camera_pipe": {"height": 12, "width": 20},
    "laplacian_pyramid": {"height": 16, "width": 32},
    "matmul": {"n": 21},
    "tiny_matmul": {"batch": 9, "n": 8},
    "both_sides": {"n": 37},
    "triangular_matmul": {"n": 21},
    "syrk": {"n": 19, "m": 13},
    "matmul_chain": {"n": 13},
    "matmul_int8": {"n": 20},
    "gemver": {"n": 37},
    "triangular_solve": {"batch": 9, "n": 7},
    "mean_variance": {"rows": 37, "columns": 45},
    "covariance": {"rows": 37, "columns": 12},
    "argmax_rows": {"rows": 7, "columns": 100},
    "top_4": {"rows": 7, "columns": 50},
    "k_means_step": {"n": 50, "count": 5, "size": 4},
    "log_sum_exp": {"rows": 7, "columns": 50},
    "min_max_sum": {"n": 1000},
    "standardise": {"rows": 37, "columns": 20},
    "pairwise_distances": {"n": 17, "m": 13, "size": 9},
    "heat_1d": {"steps": 5, "n": 90},
    "jacobi_2d": {"steps": 4, "n": 17},
    "heat_3d": {"steps": 3, "n": 8},
    "wave_2d": {"steps": 4, "n": 17},
    "gray_scott": {"steps": 4, "n": 17},
    "n_body": {"n": 40},
    "life": {"steps": 4, "n": 17},
    "fdtd_2d": {"steps": 4, "n": 17},
    "fft": {"batch": 5, "stages": 4},
    "prefix_sums": {"rows": 7, "columns": 50},
    "fir": {"n": 100, "taps": 9},
    "moving_average": {"n": 100},
    "autocorrelation": {"n": 100, "lags": 9},
    "biquad": {"n": 20, "channels": 9},
    "layer_norm": {"rows": 7, "columns": 50},
    "swiglu": {"tokens": 7, "size": 20, "hidden": 33},
    "causal_attention": {"heads": 2, "tokens": 17, "size": 8},
    "grouped_conv": {"groups": 2, "channels": 8, "size": 7},
    "strided_conv": {"inputs": 5, "outputs": 8, "size": 9},
    "transposed_conv": {"inputs": 5, "outputs": 6, "size": 7},
    "conv_3d": {"inputs": 3, "outputs": 6, "depth": 4, "size": 6},
    "quantised_dense": {"rows": 9, "size": 20, "outputs": 17},
    "embedding_bag": {"bags": 9, "each": 5, "words": 40, "size": 12},
    "nchw_to_nhwc": {"batch": 2, "channels": 5, "size": 9},
    "concat_relu": {"batch": 2, "channels": 5, "size": 9},
    "gelu_mlp": {"tokens": 7, "size": 20, "hidden": 33},
    "avg_pool": {"batch": 2, "channels": 3, "size": 12},
    "dilated_conv": {"channels": 6, "size": 9},
    "mandelbrot": {"size": 9, "steps": 8},
    "spmv_ell": {"rows": 50, "entries": 5},
    "spmv_coo": {"rows": 40, "entries": 200},
    "rank_sort": {"rows": 9, "n": 12},
    "random_normals": {"n": 100},
}

#: what became of a candidate
RIGHT, WRONG, REFUSED = "right", "wrong", "refused"


@dataclass(frozen=True)
class Backend:
    """A target, and how its kernels run; `emulated` and `interpreted` need no device."""

    name: str
    target: Target

    @property
    def emulated(self) -> bool:
        return self.name == "emulated"

    @property
    def interpreted(self) -> bool:
        return self.name == "interpreted"


@dataclass(frozen=True)
class Verdict:
    """What became of one candidate, and why, where it is not right."""

    candidate: str
    outcome: str
    why: str = ""


def backends() -> dict[str, Backend]:
    """All that this machine has, by name: GPUs first, and what stands in for them."""
    found = [Backend("cuda", resolve_target("cuda"))] if cuda.listed() else []
    try:
        devices = list(opencl_devices.listed())
    except AutoschedError:  # no driver, or no loader
        devices = []
    for info in devices:
        target = resolve_target(f"opencl -device={info.index}")
        if not info.is_cpu:
            found.append(Backend(f"opencl:{info.index}", target))
        elif "opencl cpu" not in {b.name for b in found}:
            gpu = target.with_limits(is_cpu=0)
            found += [Backend("opencl cpu", target), Backend("opencl as gpu", gpu)]
    bare = Target.parse("cuda").with_limits(
        max_threads_per_block=1024, shared_memory_bytes=48 << 10, work_group_multiple=32, compute_units=8, fp64=1
    )
    found += [Backend("emulated", bare), Backend("interpreted", bare)]
    return {b.name: b for b in found}


def cases() -> dict[str, tuple[Workload, dict[str, int]]]:
    """Title -> the workload, and the sizes of its symbolic dimensions."""
    found: dict[str, tuple[Workload, dict[str, int]]] = {}
    for name, many in OPERATORS.items():
        function = find_workload(name, ROOT / "search_spaces")
        for given in many:
            sizes = {k: v for k, v in given.items() if k not in function.parameters}
            work = function(**{k: v for k, v in given.items() if k not in sizes})
            found[f"{name} {' '.join(map(str, given.values()))}"] = work, sizes
    for name, program in programs.load().items():
        found[name] = program.work(**PROGRAMS[name]), {}
    return found


def candidates(work: Workload, sizes: dict[str, int], target: Target, count: int) -> Iterator[tuple[str, Any]]:
    """Names and lowered functions of the default schedule and of some sketches of the rules, spread over them; instead
    of a function, the error that tells why there is none."""
    yield "default", _attempt(lambda: lower_structure(default_schedule(work.args, target), work.args, target).bind())
    try:
        space = template_space(work, target, sizes, [generated(target)])
    except AutoschedError as error:
        yield "rules", error
        return
    rng = np.random.default_rng(0)
    chosen = sorted({int(i) for i in np.linspace(0, len(space.sketches) - 1, count)})
    for sketch in (space.sketches[i] for i in chosen):

        def bound(sketch: Any = sketch) -> Function:
            points = sketch.valid_points
            if not points.count:
                raise AutoschedError(f"no point is valid: {sketch.failure or sketch.contradiction()}")
            (row,) = points.rows([int(rng.integers(points.count))])
            return sketch.structure.bind(sketch.values(row))  # type: ignore[no-any-return]

        yield sketch.name, _attempt(bound)


def _attempt(action: Any) -> Any:
    try:
        return action()
    except AutoschedError as error:
        return error


def check(work: Workload, sizes: dict[str, int], backend: Backend, count: int) -> list[Verdict]:
    """Compare the results of some candidates with the definition."""
    inputs = work.sample_inputs(sizes)
    wanted = work.reference(inputs)
    found = []
    for name, function in candidates(work, work.sizes_of(inputs), backend.target, count):
        if isinstance(function, Exception):
            found.append(Verdict(name, REFUSED, _said(function)))
            continue
        outputs = [np.empty_like(w) for w in wanted]
        for x in outputs:
            poison(x, 0)
        try:
            run(function, backend, [*inputs, *outputs])
        except AutoschedError as error:
            # what the interpreter raises is a race, an access out of bounds, a barrier that some do not reach
            found.append(Verdict(name, WRONG if backend.interpreted else REFUSED, _said(error)))
            continue
        wrong = differs(work, backend.target, outputs, wanted)
        found.append(Verdict(name, WRONG if wrong else RIGHT, wrong))
    return found


def run(function: Function, backend: Backend, arrays: Sequence[np.ndarray]) -> None:
    """Run a lowered function on the backend. Raises what refuses it."""
    if backend.interpreted:
        interpret(function, arrays)
        return
    module = Module(compile_function(function, backend.target), backend.target)
    if backend.emulated and find_nvrtc() is not None:
        compile_cuda_source(module.get_source(), "sm_80", to="ptx")
    module(*arrays)


def differs(work: Workload, target: Target, got: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> str:
    """What is wrong with the first output that is; empty where all are right."""
    for a, b, r in zip(got, wanted, work.roundings(target), strict=True):
        wrong = compare(a, b, *allowed_error(b, None, None, r), rounding=r)
        if wrong:
            return wrong
    return ""


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def emulate() -> None:
    """Let CUDA's kernels run in this process with no GPU."""
    import pytest
    from cuda_emulation import with_emulated_cuda

    with_emulated_cuda(pytest.MonkeyPatch())
