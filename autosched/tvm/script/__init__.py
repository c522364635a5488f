"""`tvm.script`: programs written as TVMScript, or read from the text that `script()` prints.

@T.prim_func
def add_one(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi] + 1.0
"""

from __future__ import annotations

import sys

from autosched.tvm._missing import missing
from autosched.tvm.script import becoming as becoming
from autosched.tvm.script import intrinsics as intrinsics
from autosched.tvm.script import ir, tir
from autosched.tvm.script.parser import from_source as from_source
from autosched.tvm.script.parser import ir_module as ir_module
from autosched.tvm.script.parser import prim_func

parse = from_source
vars(tir).update(prim_func=prim_func)  # they read what the names in `tir` and `ir` are for
vars(ir).update(ir_module=ir_module)
#: where else TVM has them
for _place in ("parser.tir", "parser.ir", "ir_builder.tir", "ir_builder.ir"):
    sys.modules[f"{__name__}.{_place}"] = {"tir": tir, "ir": ir}[_place.rpartition(".")[2]]

_INSTEAD = {"relax": "tvm.relay.frontend.from_onnx and tvm.relay.build, or autosched.graph, take models of ONNX"}
__getattr__ = missing("script", globals(), _INSTEAD)
