"""Intrinsics that schedules of blocks know by name, `sch.tensorize(block, "name")`, and memory that they name."""

from __future__ import annotations

from typing import Any

from autosched.errors import UsageError
from autosched.te.tensor_intrin import TensorIntrin, find_tensor_intrin

#: name -> the intrinsic that was registered last under it
REGISTERED: dict[str, TensorIntrin] = {}


def intrinsic(given: Any) -> Any:
    """The intrinsic of a name; anything else as it is. Raises UsageError for a name that there is not."""
    if not isinstance(given, str):
        return given
    found = REGISTERED.get(given) or find_tensor_intrin(given)
    if found is None:
        legal = f"intrinsics: {', '.join(REGISTERED) or 'none'}; tir.TensorIntrin.register(name, desc, impl)"
        raise UsageError(f"no intrinsic {given!r}", asked=f"tensorize(.., {given!r})", legal=legal)
    return found


def memory(scope: str) -> str:
    """The scope of TVM's name: `warp` is shared memory, `global.NAME` a part of global memory that has a name."""
    if isinstance(scope, str) and scope.startswith("global."):
        return "global"
    return "shared" if scope == "warp" else scope
