"""Errors of TVM's names and modules that are not here: what was asked, why not, and what to use instead."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any

from autosched.errors import UsageError, asked_at


class MissingName(UsageError, AttributeError):
    """A name of TVM's that this package does not have."""


class NotPartOfThis(UsageError, ImportError):
    """A module of TVM's that this package does not have."""


def missing(module: str, names: Mapping[str, Any], instead: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Return a `__getattr__` for the module `tvm.MODULE`, which raises MissingName.

    names:   the module's `globals()`: the error lists the nearest of them
    instead: name of TVM's -> what to use in its place
    """

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        public = [n for n in names if not n.startswith("_") and n not in ("annotations", "missing", "Any")]
        near = difflib.get_close_matches(name, public, n=3, cutoff=0.5)
        nearest = f"nearest names: {', '.join(near)}" if near else f"names: {', '.join(sorted(public)[:40])}"
        where = asked_at()
        asked = f"tvm.{module}.{name}" if module else f"tvm.{name}"
        raise MissingName(
            "there is no such name here",
            asked=f"{asked}  at {where}" if where else asked,
            legal=(instead or {}).get(name) or nearest,
        )

    return __getattr__


def complete(package: str, instead: Mapping[str, str]) -> None:
    """Let every module of a package answer for names of TVM's that it lacks.

    instead: name of TVM's -> what to use in its place
    """
    for name, module in list(sys.modules.items()):
        if name.startswith(f"autosched.tvm.{package}.") and "__getattr__" not in vars(module):
            vars(module)["__getattr__"] = missing(name.removeprefix("autosched.tvm."), vars(module), instead)


def also_at(names: Mapping[str, str]) -> None:
    """Let modules be imported where TVM has them, too: `autotvm.measure.measure_methods` for `autotvm.measure`.

    names: module of TVM's, less `tvm.` -> module here that has its names
    """
    for name, ours in names.items():
        module, (parent, _, last) = import_module(f"autosched.tvm.{ours}"), name.rpartition(".")
        host = sys.modules[f"autosched.tvm.{parent}"]
        if not hasattr(host, "__path__"):
            host.__path__ = []  # it has modules inside
        sys.modules.setdefault(f"autosched.tvm.{name}", module)
        if last not in vars(host):
            setattr(host, last, module)


#: module of TVM's that is not part of this package -> what there is instead
MODULES = {
    "relax": "tvm.relay.frontend.from_onnx and tvm.relay.build, or autosched.graph, take models of ONNX",
    "meta_schedule": "autosched.workload and autosched.tune do its work: see docs/search.md",
    "rpc": "modules run on this machine; export_library makes a library for another",
    "micro": "target 'c' makes portable C99",
    "relay.testing": "networks are read from ONNX: tvm.relay.frontend.from_onnx",
    "autotvm.graph_tuner": "tvm.relay.build chooses the layouts between the kernels of a model of ONNX",
    "autotvm.task.relay_integration": "tvm.relay.frontend.from_onnx, and autosched tune MODEL.onnx for all its kernels",
    "autotvm.task.code_hash": "nothing: a log's configurations are looked up by what they decide",
    "autotvm.testing": "tvm.testing.autotvm; examples/ and docs/tvm.md have programs that tune",
    "auto_scheduler.relay_integration": "autosched tune MODEL.onnx tunes all kernels of a model",
    "auto_scheduler.testing": "tvm.testing.auto_scheduler; examples/ and docs/tvm.md have programs that tune",
}


class _MissingModules(MetaPathFinder):
    """Raises the error of `import autosched.tvm.NAME` for a module that is not here."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        name = fullname.removeprefix("autosched.tvm.")
        if name in MODULES:
            raise NotPartOfThis(f"tvm.{name} is not part of autosched", asked=f"import tvm.{name}", legal=MODULES[name])


sys.meta_path.append(_MissingModules())
