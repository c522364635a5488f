"""`show_versions`: what a report of a fault should say of the machine and of what is installed."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from typing import TextIO

from autosched.runtime.device import host_cpu
from autosched.target import cpu_count

#: packages by name: what is required, then what is used where it is there
PACKAGES = (
    "autosched", "numpy", "llvmlite", "ml_dtypes", "pyopencl", "pocl-binary-distribution", "xgboost", "xgboost-cpu",
    "scikit-learn", "optuna", "cmaes", "pandas", "pillow", "portalocker", "rich", "onnx", "onnxruntime", "torch",
    "numba", "shtab", "intel-opencl-rt", "nvidia-cuda-nvrtc-cu12",
)  # fmt: skip


def show_versions(file: TextIO | None = None) -> None:
    """Print the system, the CPU and the versions of packages; `autosched doctor` also tries devices.

    >>> import autosched
    >>> autosched.show_versions()  # doctest: +ELLIPSIS
    system     ...
    """
    rows = [
        ("system", platform.platform()),
        ("python", f"{platform.python_version()} ({platform.python_implementation()}) at {sys.executable}"),
        ("cpu", f"{host_cpu()}, {cpu_count()} usable"),
    ]
    for name in PACKAGES:
        try:
            rows.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            continue
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:{width}}  {what}" for name, what in rows), file=file or sys.stdout)
