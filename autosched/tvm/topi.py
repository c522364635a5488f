"""`tvm.topi`: operators on whole tensors, and schedules to begin with."""

from __future__ import annotations

from autosched.topi import *  # noqa: F403
from autosched.topi import cuda as cuda
from autosched.topi import generic as generic
from autosched.topi import nn as nn
from autosched.topi import x86 as x86
from autosched.topi.elementwise import BINARY
from autosched.tvm._missing import missing
from autosched.tvm.promotion import by_tvm_rules

globals().update({name: by_tvm_rules(operator) for name, operator in BINARY.items()})

_INSTEAD = dict.fromkeys(
    ("arm_cpu", "mali", "intel_graphics", "bifrost", "hexagon"), "topi.generic, topi.x86 and topi.cuda have schedules"
)
_INSTEAD |= {
    **dict.fromkeys(
        ("image", "vision", "sparse", "contrib", "random"), "te.compute, or te.extern for what is no formula"
    ),
    **dict.fromkeys(("sort", "argsort", "topk", "unique", "searchsorted"), "te.extern with np.sort and its like"),
    **dict.fromkeys(("scatter", "scatter_elements", "scatter_nd"), "te.scatter_reduce"),
    "testing": "NumPy: te.reference(tensors, inputs) computes what tensors mean",
    "tag": 'op.tag, which is text: "elemwise", "injective"',
    "utils": "int(d) of a constant dimension: [int(d) for d in A.shape]",
}
__getattr__ = missing("topi", globals(), _INSTEAD)
