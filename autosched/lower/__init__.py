"""Lowering: from a schedule to loops that a code generator understands. See `pipeline`.

The package is callable: `autosched.lower(s, args)` is `autosched.lower.lower(s, args)`. The public
function and this folder share a name, and importing a submodule puts the folder where the function
was; this way both spellings work, whatever was imported first.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from autosched.lower import lint as _lint  # noqa: F401  (attaches `Schedule.check`)
from autosched.lower.pipeline import PASSES, Lowered, Structure, lower, lower_structure

__all__ = ["PASSES", "Lowered", "Structure", "lower", "lower_structure"]


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Lowered:
        return lower(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
