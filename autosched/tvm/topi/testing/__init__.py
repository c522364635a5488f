"""`tvm.topi.testing`: operators in NumPy, to compare with, and what tests choose by target."""

import sys

from autosched.tvm._missing import missing
from autosched.tvm.topi import schedules
from autosched.tvm.topi.testing.arrays import *  # noqa: F403
from autosched.tvm.topi.testing.common import *  # noqa: F403
from autosched.tvm.topi.testing.images import *  # noqa: F403
from autosched.tvm.topi.testing.windows import *  # noqa: F403

__getattr__ = missing("topi.testing", globals())

#: files of TVM's that are not called by a function that they hold
_FILES = (
    "adaptive_pool_python batch_to_space_nd conv2d_transpose_python deformable_conv2d_python depth_to_space "
    "depthwise_conv2d_python pool_grad_python resize_python roi_align_python roi_pool_python searchsorted "
    "sequence_mask_python space_to_batch_nd space_to_depth"
)
schedules.files({sys.modules[__name__]: " ".join([_FILES, *(x for x in dir() if x[0] != "_")])})
