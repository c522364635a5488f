"""Make plain `import tvm` mean this package, for programs that are not to be edited:

    import autosched.tvm.install

as the first line, `python -m autosched.tvm.install program.py arguments`, or `pytest -p autosched.tvm.install`.
`tvm.x` and `autosched.tvm.x` are then one module.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any

from autosched.errors import UsageError
from autosched.tvm._missing import Alias

_OURS = __package__ or "autosched.tvm"


def _name_here(fullname: str) -> str:
    """What a module is called here: `tvm.x`, and `topi.x`, which was a package of its own before TVM 0.7. Empty for any
    other."""
    top, dot, rest = fullname.partition(".")
    inside = {"tvm": _OURS, "topi": f"{_OURS}.topi"}.get(top)
    return f"{inside}{dot}{rest}" if inside else ""


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        name = _name_here(fullname)
        if not name or find_spec(name) is None:
            return None
        return ModuleSpec(fullname, Alias(name), is_package=True)


def install() -> None:
    """Answer every later `import tvm`, also where TVM is installed, and `import topi` of programs for TVM 0.5 and 0.6.

    Raises UsageError if TVM itself has been imported: its objects and those of this package do not mix.
    """
    present = sys.modules.get("tvm")
    if present is not None and present is not sys.modules[_OURS]:
        raise UsageError(
            "TVM has been imported already, and its objects are of no use here",
            asked=f"import {_OURS}.install, with tvm from {getattr(present, '__file__', 'elsewhere')}",
            legal="import it first",
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


install()

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python -m autosched.tvm.install program.py [arguments]")
    sys.argv = sys.argv[1:]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))  # as `python program.py` has it
    runpy.run_path(sys.argv[0], run_name="__main__")
