"""`tvm.script`: programs are printed as TVMScript (`print(mod)`); none are read from it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from autosched.tvm._missing import missing

_INSTEAD = "programs are written with te, and printed as TVMScript; text is not read back"


class _Dialect(SimpleNamespace):
    """The `T` of `from tvm.script import tir as T`: any use of it says what there is instead."""

    def __getattr__(self, name: str) -> Any:
        return missing(f"script.{self.called}", {}, {name: _INSTEAD})(name)


tir = _Dialect(called="tir")
ir = _Dialect(called="ir")

__getattr__ = missing("script", globals(), dict.fromkeys(("ir_module", "from_source", "parse"), _INSTEAD))
