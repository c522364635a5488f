"""`tvm.autotvm.task.space`: the names of spaces and entities, where programs of TVM's look for them."""

from __future__ import annotations

from autosched.schedule.candidates import divisors as get_factors
from autosched.schedule.candidates import powers_of_two as get_pow2s
from autosched.tvm.autotvm.config import ConfigEntity, ConfigSpace, FallbackConfigEntity, TransformSpace, VirtualAxis
from autosched.tvm.autotvm.entities import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity

__all__ = [
    "AnnotateEntity",
    "ConfigEntity",
    "ConfigSpace",
    "FallbackConfigEntity",
    "OtherOptionEntity",
    "ReorderEntity",
    "SplitEntity",
    "TransformSpace",
    "VirtualAxis",
    "get_factors",
    "get_pow2s",
]
