"""autosched: a compiler and auto-tuner for tensor programs.

    from autosched import te, create_schedule, build, tune, workload, template

`te` says what to compute, a schedule says how, `build` compiles, `tune` finds the schedule.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched import graph, plot, records, te, tir, topi, tvm
    from autosched.about import show_versions
    from autosched.building import plan, search_space
    from autosched.explaining.compared import compare
    from autosched.explaining.explanation import explain
    from autosched.explaining.simplified import simplify
    from autosched.exporting.exports import export
    from autosched.front import build, tune, tune_sizes, tune_tasks
    from autosched.kernels import build_kernel, run_kernel, tune_kernel
    from autosched.lowering import lower
    from autosched.raw.kernel import raw_kernel
    from autosched.runtime import ndarray as nd
    from autosched.runtime.device import device
    from autosched.runtime.export import load_module
    from autosched.sanitizing import sanitize
    from autosched.schedule import Schedule, create_schedule
    from autosched.space.workload import Workload, template, workload
    from autosched.study import ask_and_tell
    from autosched.target import Target
    from autosched.tracing.jit import jit
    from autosched.tuning import TuneResult

__version__ = "0.1.0"

__all__ = [
    "Schedule",
    "Target",
    "TuneResult",
    "Workload",
    "__version__",
    "ask_and_tell",
    "build",
    "build_kernel",
    "compare",
    "create_schedule",
    "device",
    "explain",
    "export",
    "graph",
    "jit",
    "load_module",
    "lower",
    "nd",
    "plan",
    "plot",
    "raw_kernel",
    "records",
    "run_kernel",
    "sanitize",
    "search_space",
    "show_versions",
    "simplify",
    "te",
    "template",
    "tir",
    "topi",
    "tune",
    "tune_kernel",
    "tune_sizes",
    "tune_tasks",
    "tvm",
    "workload",
]

#: public name -> where it is; loaded on first use, so that `import autosched` stays cheap
_HOME = {
    "Schedule": "autosched.schedule",
    "Target": "autosched.target",
    "TuneResult": "autosched.tuning",
    "Workload": "autosched.space.workload",
    "ask_and_tell": "autosched.study",
    "build": "autosched.front",
    "build_kernel": "autosched.kernels",
    "device": "autosched.runtime.device",
    "jit": "autosched.tracing.jit",
    "load_module": "autosched.runtime.export",
    "lower": "autosched.lowering",
    "create_schedule": "autosched.schedule",
    "compare": "autosched.explaining",
    "explain": "autosched.explaining",
    "export": "autosched.exporting.exports",
    "plan": "autosched.building",
    "search_space": "autosched.building",
    "raw_kernel": "autosched.raw.kernel",
    "run_kernel": "autosched.kernels",
    "sanitize": "autosched.sanitizing",
    "show_versions": "autosched.about",
    "simplify": "autosched.explaining",
    "template": "autosched.space.workload",
    "tune": "autosched.front",
    "tune_sizes": "autosched.front",
    "tune_tasks": "autosched.front",
    "tune_kernel": "autosched.kernels",
    "workload": "autosched.space.workload",
}

_MODULES = {
    "nd": "runtime.ndarray",
    **{name: name for name in ("graph", "plot", "records", "te", "tir", "topi", "tvm")},
}

#: modules that give schedules and functions methods of theirs: `lower(..).script()`, `Schedule.check`, `Schedule.auto`
_ATTACHING = ("tir", "predicting")


def __getattr__(name: str) -> Any:
    for module in _ATTACHING if name in ("Schedule", "create_schedule", "lower") else ():
        import_module(f"autosched.{module}")
    if "IPython" in sys.modules and not name.startswith("_"):  # nobody else asks what things look like
        import_module("autosched.html.notebook").install()
    if name in _MODULES:
        return import_module(f"autosched.{_MODULES[name]}")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'autosched' has no attribute {name!r}")
