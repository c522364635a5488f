"""`tvm.contrib`: folders for a while, the C compiler, and compiled models. The rest of it says what to use instead."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from autosched.tvm._missing import NotPartOfThis, missing
from autosched.tvm.contrib import cc, utils

_LIBRARY = "te.extern with tir.call_packed of a Python function, or tir.call_extern of a C symbol that is loaded"
_PICTURES = "print(tvm.lower(s, args, simple_mode=True)) shows the loops, s.trace.as_python() what was done"
_INSTEAD = {
    **dict.fromkeys("cblas cublas cudnn dnnl mkl miopen nnpack random rocblas sort sparse thrust".split(), _LIBRARY),
    "tedd": _PICTURES,
    "debugger": "autosched run model.onnx --profile, --verify",
    **dict.fromkeys("clang emcc ndk nvcc rocm spirv xcode".split(), "cc.create_shared, or fcompile= of export_library"),
    "dlpack": "tvm.nd.from_dlpack(x), and x.to_dlpack()",
    "tar": 'module.export_library("x.tar")',
    "popen_pool": "concurrent.futures",
    "pickle_memoize": "functools.cache",
}  # fmt: skip


_missing = missing("contrib", globals())


def __getattr__(name: str) -> Any:
    if name in ("graph_executor", "graph_runtime"):  # models bring the tuner with them: on first use
        return import_module(f"{__name__}.graph_executor")
    if name not in _INSTEAD:
        return _missing(name)
    asked = f"tvm.contrib.{name}"
    raise NotPartOfThis(f"{asked} is not part of autosched", asked=asked, legal=_INSTEAD[name])
