"""TVM's te programs, after one change:

    from autosched import tvm
    from autosched.tvm import te, tir, topi

instead of `import tvm` and `from tvm import te, tir, topi`. Names and signatures are those of TVM 0.8 to 0.19;
`tvm.placeholder`, `tvm.compute` and their like are those of TVM 0.5. Everything here is another name for something
in the other packages, in the module where TVM has it; a name that is not here says what to use in its place.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from autosched.errors import AutoschedError
from autosched.ir import builder
from autosched.ir.expr import select as select
from autosched.runtime.device import cpu as cpu
from autosched.runtime.device import cuda as cuda
from autosched.runtime.device import opencl as opencl
from autosched.runtime.registry import get_global_func as get_global_func
from autosched.runtime.registry import register_func as register_func
from autosched.tir.module import IRModule as IRModule
from autosched.tvm import (
    _ffi,
    arith,
    codegen,
    container,
    contrib,
    driver,
    error,
    instrument,
    ir,
    nd,
    rpc,
    runtime,
    script,
    target,
    te,
    testing,
    tir,
    transform,
)
from autosched.tvm._missing import FORMER, MODULES, missing
from autosched.tvm.devices import device as device
from autosched.tvm.driver import build as build
from autosched.tvm.driver import lower as lower
from autosched.tvm.runtime import DataType as DataType
from autosched.tvm.runtime import convert as convert

TVMError = AutoschedError
cl = opencl
gpu = cuda
context = device
build_config = transform.build_config
register_intrin_rule = ir.register_intrin_rule
target.register_intrin_rule = ir.register_intrin_rule  # type: ignore[attr-defined]
TVMContext, TVMType = runtime.Device, DataType
load_json, save_json = ir.load_json, ir.save_json
__version__ = "0.19.0"

#: where else TVM has a module -> the module
_ALIASES = {
    "_ffi.base": error,
    "_ffi.registry": _ffi.registry,
    "ir.container": container,
    "ir.instrument": instrument,
    "ir.module": ir.module,
    "ir.transform": transform,
    "runtime.container": container,
    "runtime.ndarray": nd,
    "target.codegen": codegen,
    "target.target": target,
    "tir.ir_builder": builder,
    **dict.fromkeys(("ir.attrs", "ir.expr", "ir.function", "ir.op", "ir.type"), ir),
    **dict.fromkeys(("runtime.module", "runtime.object", "runtime.packed_func", "runtime.params"), runtime),
    **dict.fromkeys(("te.operation", "te.tag", "te.tensor_intrin"), te),
    **dict.fromkeys(("tir.expr", "tir.function", "tir.generic", "tir.stmt"), tir),
    **dict.fromkeys((f"arith.{x}" for x in "bound int_set int_solver iter_affine_map pattern".split()), arith),
}
for _name, _module in _ALIASES.items():
    sys.modules[f"{__name__}.{_name}"] = _module
    _parent, _, _last = _name.rpartition(".")
    setattr(sys.modules[f"{__name__}.{_parent}"], _last, _module)

#: names that were directly in `tvm` in TVM 0.5 and 0.6
_OLD_TE = (
    "abs all any atan ceil comm_reducer compute const cos create_schedule decl_tensor_intrin div erf exp extern floor "
    "fmod if_then_else isnan log max max_value min min_value nearbyint placeholder popcount power reduce_axis round "
    "rsqrt scan sigmoid sin size_var sqrt sum tag_scope tanh thread_axis trace trunc truncdiv truncmod floordiv "
    "floormod indexdiv indexmod var schedule"
).split()
_OLD_TIR = (
    "call_extern call_intrin call_llvm_intrin call_packed call_pure_extern call_pure_intrin decl_buffer ir_builder "
    "likely"
).split()

_OLD_TYPES = ("int8", "int32", "float32", "handle")

#: devices of TVM's that there are none of here
_DEVICES = dict.fromkeys(
    ("metal", "vulkan", "rocm", "webgpu", "hexagon", "vpi", "ext_dev", "mtl"), "devices: tvm.cpu, tvm.opencl, tvm.cuda"
)
_SCOPES = "with ib.for_range(..), ib.if_scope(..), ib.new_scope(): what they return is Python's context manager"
vars(builder)["__getattr__"] = missing("tir.ir_builder", vars(builder), {"WithScope": _SCOPES})
_missing = missing("", globals(), MODULES | _DEVICES)


def __getattr__(name: str) -> Any:
    # topi lets operators take whole tensors when it is imported, tuners and models load the tuning loop: on first use
    if name in ("topi", "autotvm", "auto_scheduler", "relay", "ir_pass") or name in FORMER:
        return import_module(f"autosched.tvm.{name}")
    if name in _OLD_TYPES:
        return name
    if name in _OLD_TE:
        return getattr(te, name)
    return getattr(tir, name) if name in _OLD_TIR else _missing(name)
