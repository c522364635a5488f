"""Who may import whom, and what nobody may use: read off the source with `ast`, never by importing.

`LAYERS` is the rule. A name allows a package with all its modules (`ir`), or one module
(`schedule.trace`). Imports count wherever they stand: at the top, inside a function, or under
`TYPE_CHECKING`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "autosched"

_BELOW_SPACE = ("errors", "target", "ir", "te", "schedule", "lowering")
_PARTS = (
    *_BELOW_SPACE,
    "noise",
    "options",
    "garbage",
    "space",
    "tir",
    "topi",
    "codegen",
    "runtime",
    "search",
    "model",
    "measure",
    "records",
    "raw",
)

#: package (or single module) -> what it may import besides itself
LAYERS: dict[str, tuple[str, ...]] = {
    "errors": (),
    "noise": (),
    "plugins": ("errors",),
    "options": (),
    "garbage": (),
    "places": (),
    "deadline": (),
    "effort": ("errors",),
    "target": ("errors",),
    "ir": ("errors", "target"),
    "te": ("errors", "target", "ir"),
    "schedule": ("errors", "target", "ir", "te"),
    "lowering": ("errors", "target", "ir", "te", "schedule", "garbage"),
    "space": (*_BELOW_SPACE, "garbage", "plugins"),
    "tir": _BELOW_SPACE,
    "topi": (*_BELOW_SPACE, "space"),
    "codegen": ("errors", "places", "target", "ir"),
    "runtime": ("errors", "target", "ir", "codegen"),
    "model": ("errors", "plugins", "target"),
    "search": ("errors", "plugins", "target", "model"),
    "measure": (
        "errors",
        "garbage",
        "noise",
        "options",
        "places",
        "plugins",
        "target",
        "ir.dtype",
        "te",
        "schedule",
        "lowering",
        "codegen",
        "runtime",
    ),
    "records": ("errors", "noise", "places", "target", "schedule.trace"),
    "raw": ("errors", "target", "ir", "te.rounding", "schedule", "space", "codegen", "runtime", "measure"),
    "testing": (*_PARTS, "graph", "tracing"),
    # where everything meets, each above the one before
    "trust": (*_PARTS, "deadline", "places"),
    "choosing": _PARTS,
    "predicting": (*_PARTS, "choosing", "deadline", "places"),
    "planning": (*_PARTS, "trust", "choosing", "predicting"),
    "building": (*_PARTS, "effort", "planning"),
    "sanitizing": (*_PARTS, "building"),
    "simulate": (*_PARTS, "places"),
    "search_options": ("errors", "measure", "options", "space"),
    "tuning": (*_PARTS, "building", "choosing", "deadline", "predicting", "search_options"),
    "study": (*_PARTS, "building", "planning", "search_options", "tuning"),
    "kernels": (*_PARTS, "building", "tuning", "front"),
    "tvm": (*_PARTS, "study", "building", "graph", "plugins", "predicting", "sanitizing", "tuning"),
    "exporting": (*_PARTS, "__init__", "building", "front"),
    "graph": (*_PARTS, "topi", "places", "effort", "building", "exporting", "planning", "tuning"),
    "report": (*_PARTS, "building", "tuning"),
    "front": (*_PARTS, "effort", "building", "tuning", "report"),
    "about": ("runtime", "target"),
    "build_cache": ("errors", "places", "target", "codegen", "runtime", "records", "predicting"),
    "tracing": (*_PARTS, "build_cache", "effort", "building", "front", "graph", "tuning"),
    "explaining": (*_PARTS, "building", "report"),
    "html": (*_PARTS, "__init__", "building", "explaining", "places", "report", "tuning"),
    "plot": (*_PARTS, "html", "report", "tuning"),
    "cli": (
        *_PARTS,
        "build_cache",
        "effort",
        "front",
        "exporting",
        "graph",
        "html",
        "building",
        "places",
        "tuning",
        "kernels",
        "planning",
        "plugins",
        "choosing",
        "report",
        "explaining",
        "search_options",
        "simulate",
        "tvm.importing",
        "__init__",
    ),
    "__main__": ("cli",),
    "__init__": (
        *_PARTS,
        "graph",
        "building",
        "about",
        "html",
        "sanitizing",
        "tracing",
        "tuning",
        "study",
        "kernels",
        "plot",
        "explaining",
        "exporting",
        "front",
        "tvm",
    ),
}

#: modules that are held to more than their package is: the oracles share no code with what they judge,
#: and what the command line loads to know its options loads nothing else
STRICTER: dict[str, tuple[str, ...]] = {
    "te.reference": (
        "errors",
        "ir.dims",
        "ir.dtype",
        "ir.expr",
        "ir.functions",
        "ir.ops",
        "te.contraction",
        "te.reducers",
        "te.reduction",
        "te.extern",
        "te.scan",
        "te.tensor",
    ),
    "te.contraction": ("errors", "ir.dtype", "ir.expr", "te.tensor"),
    "runtime.interpreter": ("errors", "ir.dtype", "ir.expr", "ir.functions", "ir.ops", "ir.stmt", "runtime.shadow"),
    "runtime.shadow": ("errors", "ir.expr", "ir.stmt", "runtime.strided"),
    "runtime.strided": (),
    "search_options": ("errors", "measure.protocol", "options", "space"),  # which `--help` loads
    "space": (),
}

#: the compiler itself: it knows of no other spelling of programs than its own
CORE = ("ir", "te", "schedule", "lowering", "codegen", "runtime")
FOREIGN_WORDS = re.compile("tvm|ansor", re.IGNORECASE)
#: module of the core -> the text in which such a word has to stay
FOREIGN_WORDS_KEPT = {
    "te.extern": '"tvm.default_trace_action"'  # programs register a function of that name, and stored graphs call it
}

#: what runs data as code, or breaks a process that has threads: imported module, or called name
FORBIDDEN_IMPORTS = ("pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "multiprocessing")
FORBIDDEN_CALLS = (
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.fork",
    "os.forkpty",
    "os.system",
    "os.popen",
    "pty.fork",
)
LAST_PARTS = {name.rpartition(".")[2] for name in FORBIDDEN_CALLS}

HEAVY = (
    "xgboost",
    "sklearn",
    "optuna",
    "pandas",
    "pyopencl",
    "rich",
    "PIL",
    "llvmlite",
    "numba",
    "scipy",
    "matplotlib",
)


def modules() -> dict[str, Path]:
    """Every module of the package by its name within it: `ir.expr`, `tuning`, `__init__`."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


MODULES = modules()
TREES = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in MODULES.items()}


def imports(module: str, tree: ast.AST, is_package: bool = False) -> Iterator[tuple[int, str]]:
    """(line, absolute name) of everything imported, `autosched` names and others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = ["autosched", *module.split(".")]
            base = parts[: len(parts) - node.level + is_package] if node.level else []
            source = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and "import_module" in (
            getattr(node.func, "attr", ""),
            getattr(node.func, "id", ""),
        ):
            for argument in node.args[:1]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield node.lineno, argument.value


def imported_modules(module: str, tree: ast.AST, is_package: bool = False) -> Iterator[tuple[int, str]]:
    """(line, module of this package) of every import of the package's own."""
    for line, name in imports(module, tree, is_package):
        first, _, inside = name.partition(".")
        if first != "autosched":
            continue
        while inside and inside not in MODULES:  # the last part was a class or a function
            inside = inside.rpartition(".")[0]
        yield line, inside or "__init__"


def is_allowed(module: str, other: str) -> bool:
    package = module.partition(".")[0]
    if other == module:
        return True
    if module in STRICTER:
        return other in STRICTER[module]
    return any(other == a or other.startswith(f"{a}.") for a in (package, *LAYERS[package]))


def layer_violations(module: str, tree: ast.AST, is_package: bool = False) -> list[str]:
    return [
        f"{module}:{line} imports {other}"
        for line, other in imported_modules(module, tree, is_package)
        if not is_allowed(module, other)
    ]


def forbidden_uses(module: str, tree: ast.AST) -> list[str]:
    found = [
        f"{module}:{line} imports {name}"
        for line, name in imports(module, tree)
        if name.partition(".")[0] in FORBIDDEN_IMPORTS or name in FORBIDDEN_CALLS
    ]
    for node in ast.walk(tree):
        last = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
        if last in LAST_PARTS and ast.unparse(node) in FORBIDDEN_CALLS:
            found.append(f"{module}:{node.lineno} uses {ast.unparse(node)}")
        if isinstance(node, ast.keyword) and node.arg == "shell" and ast.unparse(node.value) != "False":
            found.append(f"{module}:{node.value.lineno} runs a shell")
    return found


def foreign_words(module: str, source: str) -> list[str]:
    """The lines of a module of the core that speak of another compiler."""
    kept = FOREIGN_WORDS_KEPT.get(module, "")
    lines = enumerate(source.replace(kept, "").splitlines() if kept else source.splitlines(), start=1)
    return [f"{module}:{number} {line.strip()}" for number, line in lines if FOREIGN_WORDS.search(line)]


def test_every_package_has_a_rule() -> None:
    assert {m.partition(".")[0] for m in MODULES} - {"__init__"} <= LAYERS.keys()
    assert STRICTER.keys() <= MODULES.keys()


def test_the_rules_name_what_exists() -> None:
    named = {name for allowed in (*LAYERS.values(), *STRICTER.values()) for name in allowed}
    packages = {m.partition(".")[0] for m in MODULES}
    assert [name for name in named if name not in MODULES and name not in packages] == []


def test_imports_respect_the_layers() -> None:
    found = [layer_violations(m, tree, MODULES[m].name == "__init__.py") for m, tree in TREES.items()]
    assert [violation for of_one in found for violation in of_one] == []


def test_the_core_knows_no_other_spelling() -> None:
    core = [m for m in MODULES if m.partition(".")[0] in CORE]
    assert [line for m in core for line in foreign_words(m, MODULES[m].read_text(encoding="utf-8"))] == []


def test_no_layer_of_the_core_may_import_another_spelling() -> None:
    assert not {"tvm", "tir"} & {name for package in CORE for name in LAYERS[package]}
    assert FOREIGN_WORDS_KEPT.keys() <= MODULES.keys()


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("ir.expr", 'x = 1\n"""As AutoTVM has it."""', ['ir.expr:2 """As AutoTVM has it."""']),
        ("lowering.reads", "# Ansor's rule", ["lowering.reads:1 # Ansor's rule"]),
        ("te.extern", 'ACTION = "tvm.default_trace_action"', []),
        ("te.extern", "# TVM's", ["te.extern:1 # TVM's"]),
    ],
)
def test_the_checker_sees_another_spelling(module: str, source: str, found: list[str]) -> None:
    assert foreign_words(module, source) == found


def test_nothing_runs_data_as_code() -> None:
    assert [use for module, tree in TREES.items() for use in forbidden_uses(module, tree)] == []


@pytest.mark.parametrize(
    ("module", "source", "found"),
    [
        ("ir.expr", "from autosched.te.tensor import Tensor", ["ir.expr:1 imports te.tensor"]),
        ("ir.expr", "import autosched.schedule", ["ir.expr:1 imports schedule"]),
        ("te.tensor", "def f():\n    from autosched import lowering", ["te.tensor:2 imports lowering"]),
        (
            "search.guided",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from autosched.space.space import Sketch",
            ["search.guided:3 imports space.space"],
        ),
        ("model.trees", "from ..te import tensor", ["model.trees:1 imports te.tensor"]),
        (
            "codegen.llvm",
            'import importlib\nx = importlib.import_module("autosched.lowering")',
            ["codegen.llvm:2 imports lowering"],
        ),
        ("records.log", "from autosched.schedule.stage import Stage", ["records.log:1 imports schedule.stage"]),
        ("records.log", "from autosched.schedule.trace import Trace", []),
        ("te.reference", "from autosched.ir.simplify import Analyzer", ["te.reference:1 imports ir.simplify"]),
        ("runtime.cpu", "from autosched import te", ["runtime.cpu:1 imports te"]),
        ("ir.poly", "import autosched", ["ir.poly:1 imports __init__"]),
        ("measure.worker", "from autosched.codegen.artifact import Artifact\nimport numpy, os", []),
    ],
)
def test_the_checker_sees_a_violation(module: str, source: str, found: list[str]) -> None:
    assert layer_violations(module, ast.parse(source)) == found


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "def f():\n    from pickle import loads",
        "import os\nos.fork()",
        "from os import fork",
        "eval('1')",
        "run = exec",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import multiprocessing.pool",
    ],
)
def test_the_checker_sees_a_forbidden_use(source: str) -> None:
    assert len(forbidden_uses("fake", ast.parse(source))) == 1


def test_the_checker_lets_harmless_names_pass() -> None:
    harmless = "import re\nre.compile('x')\nloader.exec_module(m)\nmodel.eval()\nf(shell=False)"
    assert forbidden_uses("fake", ast.parse(harmless)) == []


@pytest.mark.parametrize("used", ["", "te", "create_schedule", "workload", "Target", "records"])
def test_importing_autosched_is_light(used: str) -> None:
    """No library that takes long to load comes in before it is used, by name or by `import autosched`."""
    name = f"autosched.{used}" if used else "autosched"
    probe = f"import sys, autosched; {name}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
