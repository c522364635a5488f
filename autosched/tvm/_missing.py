"""What a name that is not here answers: what was asked, why not, and what to use instead."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from autosched.errors import UsageError, asked_at

__all__ = ["MissingName", "NotPartOfThis", "missing"]


class MissingName(UsageError, AttributeError):
    """A name of TVM's that this package does not have."""


class NotPartOfThis(UsageError, ImportError):
    """A module of TVM's that this package does not have."""


def missing(module: str, names: Mapping[str, Any], instead: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A module's `__getattr__`: `instead` says, for names people look for, what to use in their place.

    `names` is the module's `globals()`: the nearest of them are what is legal.
    """

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _error(module, name, names, (instead or {}).get(name, ""))

    return __getattr__


def _error(module: str, name: str, names: Mapping[str, Any], instead: str) -> MissingName:
    public = [n for n in names if not n.startswith("_") and n not in ("annotations", "missing", "Any")]
    near = difflib.get_close_matches(name, public, n=3, cutoff=0.5)
    legal = instead or (f"nearest names: {', '.join(near)}" if near else f"names: {', '.join(sorted(public)[:40])}")
    where = asked_at()
    asked = f"tvm.{module}.{name}" if module else f"tvm.{name}"
    return MissingName("there is no such name here", asked=f"{asked}  at {where}" if where else asked, legal=legal)


#: modules of TVM's that are not part of this package -> what there is instead
MODULES = {
    "relay": "graphs of operators are not read yet; te, tir and topi programs are",
    "relax": "graphs of operators are not read yet; te, tir and topi programs are",
    "meta_schedule": "autosched.workload and autosched.tune do its work: see docs/search.md",
    "rpc": "modules run on this machine; export_library makes a library for another",
    "micro": "target 'c' makes portable C99",
}


def no_module(name: str) -> NotPartOfThis:
    """The error of `import autosched.tvm.NAME`."""
    return NotPartOfThis(f"tvm.{name} is not part of autosched", asked=f"import tvm.{name}", legal=MODULES[name])
