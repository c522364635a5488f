"""What libraries take on an NVIDIA GPU: cuBLAS, through its C interface, and PyTorch.

A peer is a function `(workload's name, inputs, target)` that returns seconds of a call on the device's clock. It raises
LookupError where it has no such operator, or is not on this machine.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autosched.runtime import cuda
from autosched.target import Target

Array = np.ndarray
#: calls of a sample, and samples, of which the median counts
CALLS, SAMPLES = 10, 7


def _session(target: Target) -> cuda.Session:
    if target.kind != "cuda":
        raise LookupError("it is no CUDA device")
    session = cuda.open_session(cuda.cuda_device(target))
    session.enter()
    return session


def _median(session: cuda.Session, call: Callable[[], object]) -> float:
    """Seconds of a call that enqueues work in the default stream: the median of some samples, on the device's clock."""
    for _ in range(3):
        call()
    samples = []
    for _ in range(SAMPLES):
        session.wait()
        start, end = (session.make(ctypes.c_void_p, "cuEventCreate", 0) for _ in range(2))
        session.call("cuEventRecord", start, None)
        for _ in range(CALLS):
            call()
        session.call("cuEventRecord", end, None)
        samples.append(session.seconds(start, end) / CALLS)
    return float(np.median(samples))


# -- cuBLAS ----------------------------------------------------------------------------------------

#: numbers of `cudaDataType` and of `cublasComputeType_t`: halves are added up in float32, as they are here
_TYPES, _IN_FLOAT32 = {"float32": 0, "float16": 2}, 68


def find_cublas() -> Any:
    """The library. Raises LookupError where there is none."""
    wheels = [Path(p) / "nvidia" / package / "lib" for p in sys.path for package in ("cublas", "cu13", "cu12")]
    folders = [*wheels, Path("/usr/local/cuda/lib64")]
    places = [str(p) for folder in folders for p in sorted(folder.glob("libcublas.so*"), reverse=True)]
    for place in (*places, ctypes.util.find_library("cublas") or "libcublas.so"):
        try:
            return ctypes.CDLL(place, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
    raise LookupError("cuBLAS is not on this machine; pip install nvidia-cublas-cu12")


def _expect(status: int, what: str) -> None:
    if status:
        raise LookupError(f"{what} fails with the status {status}")


def cublas(name: str, inputs: Sequence[Array], target: Target) -> float:
    """A product of matrices by `cublasGemmEx`; float32 without TF32."""
    if name != "matmul":
        raise LookupError("cuBLAS has no such operator")
    session, library = _session(target), find_cublas()
    a, b = inputs
    dtype = str(a.dtype)
    if dtype not in _TYPES:
        raise LookupError(f"cuBLAS is not asked for {dtype}")
    handle = ctypes.c_void_p()
    _expect(library.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
    (m, k), n = a.shape, b.shape[1]
    c = np.zeros((m, n), a.dtype)
    on_device = [session.allocate(x.nbytes) for x in (a, b, c)]
    try:
        for address, x in zip(on_device, (a, b), strict=False):
            session.upload(address, x)
        one, zero = ctypes.c_float(1), ctypes.c_float(0)
        left, right, out = (ctypes.c_void_p(x.value) for x in on_device)
        kind = _TYPES[dtype]
        compute = _IN_FLOAT32

        def call() -> None:  # by columns: the transpose of c is that of b times that of a
            _expect(
                library.cublasGemmEx(
                    handle, 0, 0, n, m, k, ctypes.byref(one), right, kind, n, left, kind, k, ctypes.byref(zero), out,
                    kind, n, compute, -1,
                ),
                "cublasGemmEx",
            )  # fmt: skip

        found = _median(session, call)
        session.fetch(c, on_device[2])
    finally:
        session.wait()
        cuda.release(session, on_device)
        library.cublasDestroy_v2(handle)
    rows = np.arange(0, m, max(1, m // 16))
    wanted = a[rows].astype("float64") @ b.astype("float64")
    if not np.allclose(c[rows].astype("float64"), wanted, rtol=1e-2, atol=1e-2 * np.abs(wanted).max()):
        raise LookupError("cuBLAS computes something else")
    return found


# -- PyTorch ---------------------------------------------------------------------------------------


def _blurred(torch: Any, F: Any, image: Any) -> Callable[[], Any]:
    """In float16, which is what it has; of bytes it has no average."""
    planes = image.permute(2, 0, 1)[None].half().contiguous()
    return lambda: F.avg_pool2d(F.pad(planes, (1, 1, 1, 1), mode="replicate"), 3, 1)


_TORCH: dict[str, Callable[..., Callable[[], Any]]] = {
    "box_blur": _blurred,
    "matmul": lambda torch, F, a, b: lambda: torch.mm(a, b),
    "softmax": lambda torch, F, x: lambda: torch.softmax(x, -1),
    "layer_norm": lambda torch, F, x, g, b: lambda: F.layer_norm(x, (x.shape[1],), g, b, 1e-5),
    "conv2d_nchw": lambda torch, F, x, w: lambda: F.conv2d(x, w, padding=1),
    "histogram": lambda torch, F, x: lambda: torch.bincount(x.reshape(-1).int(), minlength=256),
}


def by_torch(name: str, inputs: Sequence[Array], target: Target) -> float:
    """PyTorch's operator on the same device, inputs there already, float32 without TF32."""
    if name not in _TORCH:
        raise LookupError("torch is not asked for it")
    session = _session(target)
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise LookupError("torch is not installed") from None
    if not torch.cuda.is_available():
        raise LookupError("this torch has no CUDA")
    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    device = f"cuda:{session.device.index}"
    with torch.cuda.device(device), torch.cuda.stream(torch.cuda.default_stream(device)):
        call = _TORCH[name](torch, torch.nn.functional, *(torch.from_numpy(x).to(device) for x in inputs))
        return _median(session, call)


PEERS: dict[str, Callable[[str, Sequence[Array], Target], float]] = {"cublas": cublas, "torch": by_torch}
