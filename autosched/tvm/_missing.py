"""Errors of TVM's names and modules that are not here: what was asked, why not, and what to use instead."""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from autosched.errors import UsageError, asked_at
from autosched.tvm._families import of_family


class MissingName(UsageError, AttributeError):
    """A name of TVM's that this package does not have."""


class NotPartOfThis(UsageError, ModuleNotFoundError):
    """A module of TVM's that this package does not have, or a name that is imported from one."""


#: module of this package, without `tvm.` -> what there is instead of TVM's names in it
_INSTEAD: dict[str, Mapping[str, str]] = {}


def missing(module: str, names: dict[str, Any], instead: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Return a `__getattr__` for the module `tvm.MODULE`, which raises MissingName; modules below it that are loaded by
    then, and have none, get one, too.

    names:   the module's `globals()`: the error lists the nearest of them
    instead: name of TVM's -> what to use in its place, in this module and those below it
    """
    _INSTEAD[module] = instead or {}
    names.setdefault("__path__", [])  # Python asks finders for what is imported from packages only
    below = f"autosched.tvm.{module}.".replace("..", ".")
    for found, part in list(sys.modules.items()):
        if found.startswith(below) and "__getattr__" not in vars(part) and part.__name__ == found:
            vars(part)["__getattr__"] = missing(found.removeprefix("autosched.tvm."), vars(part))

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        public = [n for n in names if not n.startswith("_") and n not in ("annotations", "missing", "Any")]
        near = difflib.get_close_matches(name, public, n=3, cutoff=0.5)
        nearest = f"nearest names: {', '.join(near)}" if near else f"names: {', '.join(sorted(public)[:40])}"
        where = asked_at()
        dotted = f"{module}.{name}".lstrip(".")
        asked = f"tvm.{dotted}  at {where}" if where else f"tvm.{dotted}"
        told = replacement(dotted)
        legal = f"{told}; {nearest}" if told and near and told == of_family(dotted) else told or nearest
        raise MissingName("there is no such name here", asked=asked, legal=legal)

    return __getattr__


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


_MODELS = "tvm.relay.frontend.from_onnx and tvm.relay.build, or autosched.graph, take models of ONNX"
_PASSES = "print(tvm.lower(s, args)) shows the program after all passes, `autosched show` after each"
_EXTERN = "te.extern with tir.call_packed of a Python function, or tir.call_extern of a C symbol that is loaded"
_HERE = "programs run on this machine; export_library makes a library for another"
_LIBRARY = "module.export_library(path), with fcompile= for a linker of your own"

#: module of TVM's that is not part of this package, with all below it -> what there is instead
MODULES = {
    "relax": _MODELS,
    "relay": _MODELS,
    "parser": _MODELS,
    "contrib.relay_viz": "autosched show MODEL.onnx",
    "api": "the same names in tvm and tvm.te",
    "intrin": "tvm.ir.register_intrin_lowering",
    "generic": "arithmetic on expressions",
    "contrib.debugger.debug_result": "what GraphModuleDebug.profile() returns",
    "meta_schedule": "autosched.workload and autosched.tune do its work: see docs/search.md",
    "dlight": "autosched.tune, or the default schedule of a build without one",
    "contrib.rpc": _HERE,
    "exec": f"python -m autosched --help; {_HERE}",
    "micro": "target 'c' makes portable C99",
    "contrib.micro": "target 'c' makes portable C99",
    "tir.usmp": "intermediates share memory by themselves (share_storage)",
    "tir.tensor_intrin": "te.decl_tensor_intrin, and s[C].tensorize(axis, intrinsic)",
    "script": "te programs, whose loops print as TVMScript",
    "target.generic_func": "from tvm.target import generic_func: a decorator",
    "runtime.vm": "tvm.build",
    "runtime.relax_vm": "tvm.build",
    "runtime.disco": _HERE,
    "runtime.profiling": "module.time_evaluator(...)",
    "runtime.profiler_vm": "autosched run model.onnx --profile",
    "runtime.executor": "tvm.contrib.graph_executor",
    "runtime.script_printer": "mod.script()",
    "ir.diagnostics": "errors say what was asked, why not, and what is legal",
    "ir.json_compact": "tvm.ir.save_json and load_json",
    "ir.memory_pools": "intermediates share memory by themselves (share_storage)",
    "contrib.hexagon": "targets: llvm, c, opencl, cuda",
    "contrib.ethosu": "targets: llvm, c, opencl, cuda",
    "contrib.msc": _MODELS,
    "contrib.cutlass": "te.compute, with s[C].tensorize, and autosched.tune",
    "contrib.target": _MODELS,
    "contrib.torch": _MODELS,
    "contrib.mxnet": _MODELS,
    "contrib.tf_op": _MODELS,
    "contrib.coreml_runtime": _MODELS,
    "contrib.tflite_runtime": _MODELS,
    "contrib.cuda_graph": _MODELS,
    "contrib.pipeline_executor": _MODELS,
    "contrib.pipeline_executor_build": _MODELS,
    "contrib.stackvm": "target llvm or c; autosched.runtime.interpreter runs a function without a compiler",
    "contrib.peak": "autosched.tune reports how far a program is from the roofline",
    **dict.fromkeys(
        (f"contrib.{x}" for x in "cublas cublaslt cudnn hipblas miopen mkldnn mps nnpack rocblas thrust".split()),
        _EXTERN,
    ),
    **dict.fromkeys((f"contrib.{x}" for x in "emcc ndk rocm sdaccel spirv tvmjs xcode".split()), _LIBRARY),
    "relay.testing": "networks are read from ONNX: tvm.relay.frontend.from_onnx",
    "autotvm.graph_tuner": "tvm.relay.build chooses the layouts between the kernels of a model of ONNX",
    "autotvm.task.relay_integration": "tvm.relay.frontend.from_onnx, and autosched tune MODEL.onnx for all its kernels",
    "autotvm.task.code_hash": "nothing: a log's configurations are looked up by what they decide",
    "autotvm.testing": "tvm.testing.autotvm; examples/ and docs/tvm.md have programs that tune",
    "auto_scheduler.relay_integration": "autosched tune MODEL.onnx tunes all kernels of a model",
    "auto_scheduler.testing": "tvm.testing.auto_scheduler; examples/ and docs/tvm.md have programs that tune",
}


def replacement(dotted: str) -> str:
    """What there is instead of a name or module of TVM's, without `tvm.`; empty where nothing is known."""
    whole = dotted
    while dotted:
        head, _, last = dotted.rpartition(".")
        around = [head, *(head.rsplit(".", n)[0] for n in range(1, head.count(".") + 1))]
        found = next((_INSTEAD[m][last] for m in around if last in _INSTEAD.get(m, {})), "") or MODULES.get(dotted)
        if found:
            return found
        dotted = head
    return of_family(whole)


_ANY = "python -m autosched.tvm.coverage FILE.py lists all names of a program that are not here"


#: what modules were called before TVM 0.8 -> what they are called since
FORMER = {
    "contrib.graph_runtime": "contrib.graph_executor",
    "contrib.util": "contrib.utils",
    "topi.util": "topi.utils",
    "topi.nn.util": "topi.nn.utils",
    "autotvm.util": "autotvm.utils",
    "module": "runtime",
    "ndarray": "nd",
    "hybrid": "te.hybrid",
    "schedule": "te.schedule",
    "tensor": "te",
    "expr": "tir",
    "stmt": "tir",
    "make": "tir",
    "ir_builder": "tir.ir_builder",
    "build_module": "driver",
}


class Alias(Loader):
    """Loads a module as another one, which keeps its own specification."""

    spec: ModuleSpec | None = None

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class _MissingModules(MetaPathFinder):
    """Finds modules by former names. Raises the error of `import autosched.tvm.NAME` for a module that is not here, and
    of `from autosched.tvm.x import NAME`: no other finder has it."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        name = fullname.removeprefix("autosched.tvm.")
        parent, _, last = fullname.rpartition(".")
        if name == fullname or last.startswith("__"):
            return None
        if name in FORMER:
            return ModuleSpec(fullname, Alias(f"autosched.tvm.{FORMER[name]}"), is_package=True)
        legal = replacement(name)
        if not legal and parent in sys.modules:
            try:
                getattr(sys.modules[parent], last)
            except MissingName as error:
                legal = error.legal if error.legal.startswith("nearest") else ""
            except AttributeError:
                pass
        where = asked_at()
        asked = f"import tvm.{name}  at {where}" if where else f"import tvm.{name}"
        raise NotPartOfThis(f"tvm.{name} is not part of autosched", asked=asked, legal=legal or _ANY)


sys.meta_path.append(_MissingModules())


def has_module(dotted: str) -> bool:
    """Whether `tvm.DOTTED` is a module here, which is not imported for that; its parents are."""
    try:
        return importlib.util.find_spec(f"autosched.tvm.{dotted}") is not None
    except ModuleNotFoundError:
        return False
