"""TVM's te programs, after one change:

    from autosched import tvm
    from autosched.tvm import te, tir, topi

instead of `import tvm` and `from tvm import te, tir, topi`. Names and signatures are those of TVM 0.8 to
0.19; `tvm.placeholder`, `tvm.compute` and their like are those of TVM 0.5. Everything here is another
name for something in the other packages; a name that is not here says what to use in its place.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from autosched.errors import AutoschedError
from autosched.ir.expr import select
from autosched.runtime.device import cpu, cuda, device, opencl
from autosched.runtime.registry import get_global_func, register_func
from autosched.tir.module import IRModule
from autosched.tvm import (
    _ffi,
    arith,
    contrib,
    driver,
    error,
    ir,
    nd,
    runtime,
    script,
    target,
    te,
    testing,
    tir,
    transform,
)
from autosched.tvm._missing import MODULES, missing
from autosched.tvm.driver import build, lower
from autosched.tvm.ir import instrument
from autosched.tvm.runtime import DataType, convert

TVMError = AutoschedError
cl = opencl
gpu = cuda
context = device
__version__ = "0.19.0"

__all__ = [
    "DataType",
    "IRModule",
    "TVMError",
    "_ffi",
    "arith",
    "build",
    "cl",
    "context",
    "contrib",
    "convert",
    "cpu",
    "cuda",
    "device",
    "driver",
    "error",
    "get_global_func",
    "gpu",
    "instrument",
    "ir",
    "lower",
    "nd",
    "opencl",
    "register_func",
    "runtime",
    "script",
    "select",
    "target",
    "te",
    "testing",
    "tir",
    "transform",
]

#: names that were directly in `tvm` in TVM 0.5 and 0.6 -> where they are
_OLD_TE = (
    "all any ceil comm_reducer compute const create_schedule erf exp extern floor if_then_else log max max_value min "
    "min_value placeholder popcount power reduce_axis round scan sigmoid size_var sqrt sum tag_scope tanh "
    "thread_axis trunc truncdiv truncmod floordiv floormod indexdiv indexmod var schedule"
).split()
_OLD_TIR = (
    "call_extern call_intrin call_llvm_intrin call_packed call_pure_extern call_pure_intrin decl_buffer ir_builder "
    "likely"
).split()

#: devices of TVM's that there are none of here
_DEVICES = dict.fromkeys(
    ("metal", "vulkan", "rocm", "webgpu", "hexagon", "vpi", "ext_dev", "mtl"), "devices: tvm.cpu, tvm.opencl, tvm.cuda"
)
_missing = missing("", globals(), MODULES | _DEVICES)


def __getattr__(name: str) -> Any:
    if name == "topi":  # importing it lets operators take whole tensors, so it waits until it is asked for
        return import_module("autosched.tvm.topi")
    if name in ("autotvm", "auto_scheduler"):
        return import_module(f"autosched.tvm.{name}")
    if name in _OLD_TE:
        return getattr(te, name)
    if name in _OLD_TIR:
        return getattr(tir, name)
    return _missing(name)
