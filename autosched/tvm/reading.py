"""Python functions that are read, not run: what `te.hybrid` and TVMScript have in common.

Statements are handled by methods `visit_For`, `visit_Assign`, .. of a `Reader`. Expressions are Python's own: they are
evaluated with the names in scope (see `expressions`), so that whatever they name or call works as it does elsewhere.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

from autosched.errors import AutoschedError, UsageError
from autosched.ir.builder import IRBuilder
from autosched.ir.stmt import Stmt
from autosched.tvm.expressions import Evaluator, NoValue

Body = Sequence[ast.stmt]


@dataclass(frozen=True)
class Source:
    """A definition as it was written, and the names that it sees."""

    tree: ast.FunctionDef | ast.ClassDef
    file: str
    names: Mapping[str, Any]

    def where(self, node: ast.AST) -> str:
        """`file.py:12  the line's text`."""
        line = getattr(node, "lineno", self.tree.lineno)
        text = linecache.getline(self.file, line).strip()
        return f"{text}  at {self.file}:{line}" if text else f"line at {self.file}:{line}"

    def around(self) -> list[ast.ClassDef]:
        """The classes whose body the definition is in."""
        found = definitions("".join(linecache.getlines(self.file)), self.file)
        return [c for c in found if isinstance(c, ast.ClassDef) and self.tree in c.body]

    @staticmethod
    def of(thing: Any, names: Mapping[str, Any]) -> Source:
        """The definition of a function, or of a class with functions in it. Raises UsageError without its text."""
        functions = [thing] if inspect.isfunction(thing) else [f for f in vars(thing).values() if inspect.isfunction(f)]
        asked = f"the text of {thing.__name__}"
        if not functions:
            raise UsageError("there is no function in it", asked=asked, legal="functions with @T.prim_func")
        code = functions[0].__code__
        linecache.checkcache(code.co_filename)
        text = "".join(linecache.getlines(code.co_filename, functions[0].__globals__))
        for node in definitions(text, code.co_filename) if text else ():
            first = min((d.lineno for d in node.decorator_list), default=node.lineno)
            inside = isinstance(node, ast.ClassDef) and any(
                isinstance(f, ast.FunctionDef) and _first_line(f) == code.co_firstlineno for f in node.body
            )
            if (first == code.co_firstlineno and functions[0] is thing) or (inside and functions[0] is not thing):
                return Source(node, code.co_filename, ChainMap(captured(functions), dict(names)))
        legal = "a definition in a file; tvm.script.from_source(text) for a text"
        raise UsageError(f"{code.co_filename} does not have it", asked=asked, legal=legal)


def _first_line(node: ast.FunctionDef) -> int:
    return min((d.lineno for d in node.decorator_list), default=node.lineno)


@lru_cache(maxsize=16)
def definitions(text: str, file: str) -> tuple[ast.FunctionDef | ast.ClassDef, ...]:
    """The functions and classes of a text, outer ones first. Raises UsageError for what is no Python."""
    try:
        tree = ast.parse(text, file)
    except SyntaxError as error:
        where = f"{(error.text or '').strip()}  at {file}:{error.lineno}"
        raise UsageError(f"it is no Python: {error.msg}", asked=where, legal="functions with @T.prim_func") from None
    return tuple(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef))


def captured(functions: Sequence[Any]) -> dict[str, Any]:
    """The names that functions see: those of their module, and of functions around them."""
    names: dict[str, Any] = {}
    for f in functions:
        names.update(f.__globals__)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            try:
                names[name] = cell.cell_contents
            except ValueError:  # it has no value yet
                continue
    return names


def callers_names() -> dict[str, Any]:
    """The local names of the functions that are being run outside of this package, those of the innermost first."""
    names: dict[str, Any] = {}
    frame: Any = sys._getframe(1)
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith("autosched."):
            for name, value in frame.f_locals.items():
                names.setdefault(name, value)
            if frame.f_code.co_name == "<module>":
                break
        frame = frame.f_back
    return names


# -- statements ----------------------------------------------------------------------------------------


class Emitter(IRBuilder):
    """A builder that a reader puts statements into."""

    @contextmanager
    def collecting(self, finish: Callable[[Stmt], None]) -> Iterator[None]:
        """A scope whose statements go to `finish`."""
        with self._scope(finish):
            yield


@dataclass
class Reader:
    """Reads the statements of one definition. Subclasses add a method for each kind of statement."""

    source: Source
    out: Emitter = field(default_factory=Emitter)
    names: ChainMap[str, Any] = field(default_factory=ChainMap)

    #: what the language of the reader has instead of a statement that it does not have
    legal = "loops, conditions, assignments and calls"

    def refuse(self, node: ast.AST, why: str, legal: str = "") -> NoReturn:
        """Raise UsageError for a line of the script."""
        raise UsageError(why, asked=self.source.where(node), legal=legal or self.legal)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names that are bound inside end with it."""
        outer, self.names = self.names, self.names.new_child()
        try:
            yield
        finally:
            self.names = outer

    def look_up(self, name: str, node: ast.AST) -> Any:
        """The value of a name in an expression. Raises KeyError for one that there is not."""
        return self.names[name] if name in self.names else self.source.names[name]

    def value(self, node: ast.expr) -> Any:
        """What an expression is."""
        try:
            return Evaluator(lambda name: self.look_up(name, node))(node)
        except AutoschedError as error:
            if f" at {self.source.file}:" not in error.asked:  # not the line that asked for the whole script
                error.asked = re.sub(r"  (\w+ )?at \S+:\d+$", "", error.asked)
            error.located("read", where=f"{self.source.file}:{node.lineno}")
            raise
        except NoValue as error:
            here = ", ".join(sorted(n for n in self.names if not n.startswith("_"))) or "none"
            self.refuse(error.node, error.why, f"names here: {here}")
        except Exception as error:
            self.refuse(node, f"{type(error).__name__}: {error}", "what Python can evaluate")

    def statements(self, body: Body) -> None:
        """Read statements one after the other."""
        for node in body:
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        """Read one statement."""
        visit = getattr(self, f"visit_{type(node).__name__}", None)
        if visit is None:
            self.refuse(node, f"{type(node).__name__.lower()} has no meaning here")
        try:
            visit(node)
        except AutoschedError as error:
            error.located("read", where=f"{self.source.file}:{node.lineno}")
            raise

    def visit_Pass(self, node: ast.Pass) -> None:
        """Nothing happens."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Compiled code has no assertions; only a condition that is false whatever happens is an error."""
        if self.value(node.test) is False:
            self.refuse(node, "the assertion never holds", "a condition that can hold")
