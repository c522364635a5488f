"""`tvm.topi`: operators on whole tensors, and schedules."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from autosched import te
from autosched import topi as _core
from autosched.ir.buffers import row_major_offset
from autosched.ir.expr import as_expr, is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dim, product, unravel
from autosched.topi.elementwise import BINARY
from autosched.tvm._missing import also_at, missing
from autosched.tvm.promotion import by_tvm_rules
from autosched.tvm.topi import image as image
from autosched.tvm.topi import nn as nn
from autosched.tvm.topi import schedules
from autosched.tvm.topi import sparse as sparse
from autosched.tvm.topi import tag as tag
from autosched.tvm.topi import utils as utils
from autosched.tvm.topi import vision as vision
from autosched.tvm.topi.utils import InvalidShapeError as InvalidShapeError


def reshape(a: Tensor, newshape: Sequence[Dim]) -> Tensor:
    """As `autosched.topi.reshape`; a shape of fewer elements takes the first ones, as in TVM."""
    shape = [as_expr(d) for d in newshape]
    there, wanted = product(a.shape), product(shape)
    if not is_const(there) or not is_const(wanted) or not 0 < wanted.value < there.value:
        return _core.reshape(a, newshape)
    return te.compute(
        tuple(shape),
        lambda *i: a(*unravel(row_major_offset(i, shape), a.shape)),
        name="T_reshape",
        tag=tag.INJECTIVE,
    )


# what this package has under a name of its own stays
globals().update({name: value for name, value in vars(_core).items() if name not in globals() and name[0] != "_"})
globals().update({name: by_tvm_rules(operator) for name, operator in BINARY.items()})
globals().update(schedules.install(__name__, nn, [sys.modules[__name__], vision, image, sparse]))
globals().update({name: value for name, value in vars(utils).items() if name.startswith("get_const")})
transform = sys.modules[f"{__name__}.transform"] = sys.modules[__name__]

_INSTEAD = {
    "contrib": "te.extern with tir.call_packed of a Python function",
    "testing": "import tvm.topi.testing",
    "ceil_log2": "topi.ceil(topi.log2(x))",
    "scanop": "topi.cumsum, topi.cumprod",
    **dict.fromkeys(
        ("fixed_point_multiply", "fixed_point_multiply_per_axis"),
        "te.compute with tir.q_multiply_shift of the elements",
    ),
    **dict.fromkeys(
        ("sparse_fill_empty_rows", "sparse_reshape"), "te.extern with tir.call_packed of a Python function"
    ),
}
__getattr__ = missing("topi", globals(), _INSTEAD)
random = import_module(f"{__name__}.random")  # made of the operators above
schedules.files(
    {
        sys.modules[__name__]: "argwhere broadcast einsum math reduction scan scatter scatter_elements searchsorted "
        "signal sort tensor unique",
        image: "dilation2d grid_sample resize",
        random: "kernel",
        sparse: "csrmm csrmv dense",
        vision: "nms_util reorg",
    }
)
also_at({"topi.sparse.utils": "topi.sparse_utils", "target.x86": "topi.workloads"})
