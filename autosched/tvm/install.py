"""Make plain `import tvm` mean this package, for programs that are not to be edited:

    import autosched.tvm.install

as the first line, `python -m autosched.tvm.install program.py arguments`, or `pytest -p autosched.tvm.install`.
`tvm.x` and `autosched.tvm.x` are then one module.
"""

from __future__ import annotations

import runpy
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from autosched.errors import UsageError

_OURS = __package__ or "autosched.tvm"


class _Alias(Loader):
    """Loads `tvm.x` as the module `autosched.tvm.x`, which keeps its own specification."""

    spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(_OURS + spec.name.removeprefix("tvm"))
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class _Finder(MetaPathFinder):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != "tvm" and not fullname.startswith("tvm."):
            return None
        if find_spec(_OURS + fullname.removeprefix("tvm")) is None:
            return None
        return ModuleSpec(fullname, _Alias(), is_package=True)


def install() -> None:
    """Answer every later `import tvm`, also where TVM is installed.

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
    runpy.run_path(sys.argv[0], run_name="__main__")
