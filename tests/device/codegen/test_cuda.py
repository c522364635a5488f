"""CUDA C++: its text, what NVIDIA's compiler says of it, and what it computes when g++ translates it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import test_c_family_values as values
from cuda_emulation import EmulatedDriver, with_emulated_cuda

import autosched
from autosched import te
from autosched.codegen import nvrtc
from autosched.codegen.c_family import compile_cuda
from autosched.codegen.c_text import Names
from autosched.codegen.dialects import CUDA
from autosched.codegen.nvrtc import compile_cuda_source, find_nvrtc
from autosched.errors import BuildError, DeviceError
from autosched.lowering.pipeline import lower_structure
from autosched.runtime.cuda import CudaKernel
from autosched.schedule import Schedule, create_schedule
from autosched.space.default import default_schedule
from autosched.target import Target

TARGET = Target.parse("cuda")
needs_nvrtc = pytest.mark.skipif(find_nvrtc() is None, reason="NVRTC is not installed")


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> EmulatedDriver:
    return with_emulated_cuda(monkeypatch)


def turned(n: int = 64, dtype: str = "float32") -> tuple[Schedule, list[te.Tensor]]:
    """Rows turned round in shared memory."""
    a = te.placeholder((8, n), dtype, name="a")
    b = te.compute((8, n), lambda i, j: a[i, n - 1 - j] * 2, name="b")
    s = create_schedule(b)
    rows = s[s.cache_read(a, "shared", "b")]
    _, inner = s["b"].split("j", 16)
    s["b"].bind("i", "blockIdx.x")
    s["b"].bind(inner, "threadIdx.x")
    rows.compute_at(s["b"], "i")
    _, lane = rows.split(rows.loops[1], 16)
    rows.bind(lane, "threadIdx.x")
    return s, [a, b]


def source(s: Schedule, args: list[te.Tensor]) -> str:
    return compile_cuda(lower_structure(s, args, TARGET).bind(), TARGET).texts["source"]


def test_shared_memory(golden: Callable[..., None]) -> None:
    golden(source(*turned()))


def test_names_that_cuda_keeps_to_itself() -> None:
    names = Names(CUDA)
    kept = ("threadIdx.x", "class", "vec", "float4", "y1", "expf", "load_half", "int8", "cudaMalloc", "min_float", "_a")
    taken = (
        "threadIdx_x",
        "class_",
        "vec_",
        "float4_",
        "y1_",
        "expf_",
        "load_half_",
        "int8_",
        "cudaMalloc_",
        "min_float_",
        "v_a",
    )
    assert tuple(map(names.declare, kept)) == taken


# -- what NVIDIA's compiler says ------------------------------------------------------------------


@needs_nvrtc
def test_nvrtc_makes_wide_accesses_of_vectors() -> None:
    a = te.placeholder((64,), "float32", name="a")
    b = te.compute((64,), lambda i: a[i] + 1, name="b")
    s = create_schedule(b)
    outer, inner = s["b"].split("i", 4)
    s["b"].bind(outer, "threadIdx.x")
    s["b"].vectorize(inner)
    ptx = compile_cuda_source(source(s, [a, b]), "sm_80", to="ptx").decode()
    assert "ld.global.nc.v4.f32" in ptx
    assert "st.global.v4.f32" in ptx
    assert compile_cuda_source(source(s, [a, b]), "sm_90")[:4] == b"\x7fELF"


def multiply_add() -> list[te.Tensor]:
    a, b, c = (te.placeholder((64,), "float32", name=name) for name in "abc")
    return [a, b, c, te.compute((64,), lambda i: a[i] * b[i] + c[i], name="o")]


@needs_nvrtc
@pytest.mark.parametrize("strict", [False, True])
def test_a_strict_kernel_is_translated_without_fused_multiply_adds(
    strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    args, target = multiply_add(), Target("cuda -arch=sm_80", strict=strict)
    module = autosched.build(default_schedule(args, target), target, args=args)
    assert ("--fmad=false" in module.get_source()) == strict  # whoever takes the source along is told
    texts = []

    def translated(source: str, arch: str, *, to: str, options: list[str]) -> bytes:
        texts.append(compile_cuda_source(source, arch, to="ptx", options=options).decode())
        return b""

    monkeypatch.setattr("autosched.runtime.cuda.compile_cuda_source", translated)
    session = SimpleNamespace(device=SimpleNamespace(arch="sm_80"), make=lambda of, function, code: None)
    CudaKernel(module.artifact, target).module(session, wide=False)
    assert ("fma.rn.f32" in texts[0]) != strict
    assert ("mul.rn.f32" in texts[0]) == strict


@needs_nvrtc
def test_nvrtc_says_what_it_refuses() -> None:
    with pytest.raises(BuildError, match=r"(?s)NVRTC refuses the source.*expected a.*;"):
        compile_cuda_source("__global__ void f() { int x = 1 }", "sm_80")
    with pytest.raises(BuildError, match="architecture"):
        compile_cuda_source("", "sm_1")


def test_without_nvrtc_the_message_says_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "find_nvrtc", lambda: None)
    with pytest.raises(DeviceError, match="(?s)NVRTC.*not on this machine.*pip install nvidia-cuda-nvrtc"):
        compile_cuda_source("", "sm_80")


# -- what it computes -----------------------------------------------------------------------------

#: tests of `test_c_family_values` and what they are called with; `test_edges` tries the operators
OPERATORS: list[tuple[Callable[..., None], tuple[Any, ...]]] = [
    *((values.test_constant_operands_and_chains, given) for given in (("int8", 4), ("uint16", 4), ("int64", 1))),
    *((values.test_floats, (t, 4)) for t in ("float16", "float64")),
    (values.test_booleans, (4,)),
    (values.test_vectors_of_any_width, (3,)),
    (values.test_constants_come_back_exactly, ()),
    (values.test_random_index_arithmetic_is_exact, (0,)),
]


NAMES = ["-".join(map(str, (test.__name__.removeprefix("test_"), *given))) for test, given in OPERATORS]


@pytest.mark.parametrize(("test", "given"), OPERATORS, ids=NAMES)
def test_operators(
    emulated: EmulatedDriver, monkeypatch: pytest.MonkeyPatch, test: Callable[..., None], given: tuple[Any, ...]
) -> None:
    """Against NumPy, as for OpenCL; and the text is one that NVRTC takes, where that is installed."""
    sources: list[str] = []

    def kernel(artifact: Any, target: Target) -> CudaKernel:
        sources.append(artifact.texts["source"])
        return CudaKernel(artifact, TARGET)

    monkeypatch.setattr(values, "OpenCLKernel", kernel)
    monkeypatch.setattr(values, "compile_opencl", lambda f, target: compile_cuda(f, TARGET))
    test(*given)
    assert sources
    if find_nvrtc() is not None:
        assert compile_cuda_source(sources[0], "sm_80")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("n", [1, 50])
def test_shared_memory_and_barriers(emulated: EmulatedDriver, n: int, dtype: str) -> None:
    s, args = turned(n, dtype)
    module = autosched.build(s, "cuda", args=args)
    a = np.arange(8 * n).reshape(8, n).astype(dtype)
    assert np.array_equal(module(a), a[:, ::-1] * 2)
    assert emulated.launched == [((8, 1, 1), (16, 1, 1))]


def test_the_emulation_finds_a_barrier_that_not_all_reach(emulated: EmulatedDriver) -> None:
    s, args = turned()
    artifact = compile_cuda(lower_structure(s, args, TARGET).bind(), TARGET)
    broken = artifact.texts["source"].replace("__syncthreads();", "if (threadIdx.x > 3) __syncthreads();")
    kernel = CudaKernel(type(artifact)(**{**vars(artifact), "code": broken.encode()}), TARGET)
    with pytest.raises(DeviceError, match="719"):
        kernel.bind([np.ones((8, 64), np.float32), np.ones((8, 64), np.float32)]).run()
