"""`tvm.topi.vision`: boxes and regions, with TVM's modules `ssd` and `rcnn`."""

from __future__ import annotations

import sys

from autosched.topi.vision import *  # noqa: F403
from autosched.tvm._missing import missing

_FILES = ("nms", "rcnn", "rcnn.roi_align", "rcnn.roi_pool", "ssd", "ssd.multibox")

ssd = rcnn = sys.modules[__name__]
sys.modules.update({f"{__name__}.{part}": ssd for part in _FILES})

__getattr__ = missing("topi.vision", globals(), {"proposal": "get_valid_counts and non_max_suppression of the boxes"})
