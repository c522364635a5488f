"""How large the house is, and what ties it together: growth is a decision, made by raising a number here."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter

import pytest
from test_layers import MODULES, TREES, imported_modules

LINES = {module: path.read_text(encoding="utf-8").count("\n") for module, path in MODULES.items()}

#: packages that a compiler and tuner could do without
OUTSIDE_THE_CORE = ("tvm", "topi", "testing", "raw", "simulate", "tracing", "html", "exporting")

LINES_OF_ALL, LINES_OF_THE_CORE, FILES, DEFERRED_IMPORTS = 136_400, 89_150, 701, 37
#: files of more than 600 lines, functions of more than 60
LONG_FILES: tuple[str, ...] = ()
LONG_FUNCTIONS = (
    "ir.buffers.decl_buffer",
    "topi.nn.recurrent.lstm",
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(tree: ast.AST) -> list[Function]:
    return [node for node in ast.walk(tree) if isinstance(node, Function)]


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def imported_on_import(module: str, tree: ast.Module) -> set[str]:
    """Modules of this package that must be there before `module` is."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {other for _, other in imported_modules(module, node, MODULES[module].name == "__init__.py")}
        elif not isinstance(node, Function | ast.Lambda) and not _is_type_checking(node):
            waiting += ast.iter_child_nodes(node)
    return found - {module}


def deferred_imports(module: str, tree: ast.AST) -> set[tuple[int, str]]:
    """(line, module of this package) of each import inside a function."""
    return {at for function in _functions(tree) for at in imported_modules(module, function)}


def test_nothing_imports_in_a_circle() -> None:
    graph = {module: imported_on_import(module, tree) for module, tree in TREES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_the_house_does_not_grow_unnoticed() -> None:
    core = sum(n for module, n in LINES.items() if module.partition(".")[0] not in OUTSIDE_THE_CORE)
    deferred = sum(len(deferred_imports(module, tree)) for module, tree in TREES.items())
    sizes = {"all": sum(LINES.values()), "core": core, "files": len(LINES), "deferred imports": deferred}
    limits = {"all": LINES_OF_ALL, "core": LINES_OF_THE_CORE, "files": FILES, "deferred imports": DEFERRED_IMPORTS}
    assert {k: n for k, n in sizes.items() if n > limits[k]} == {}
    assert {k: n for k, n in sizes.items() if n < 0.97 * limits[k]} == {}, "the house shrank: lower the limit"


def test_long_files_and_functions_are_listed() -> None:
    files = {module for module, n in LINES.items() if n > 600}
    functions = {
        f"{module}.{f.name}"
        for module, tree in TREES.items()
        for f in _functions(tree)
        if f.end_lineno is not None and f.end_lineno - f.lineno >= 60
    }
    assert (files, functions) == (set(LONG_FILES), set(LONG_FUNCTIONS))
