"""`te.hybrid.build`: the loops of a schedule as a hybrid script, which can be read, run and saved."""

from __future__ import annotations

import inspect
import linecache
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from autosched.errors import UsageError, check_path, named_file
from autosched.ir.expr import Expr, is_const
from autosched.ir.stmt import Allocate, Buffer, Evaluate, For, Let, Stmt
from autosched.lowering.pipeline import lower_structure
from autosched.plugins import run_file
from autosched.schedule.schedule import Schedule
from autosched.te.tensor import Tensor
from autosched.tir.script import ScriptExpr, Statements, identifier
from autosched.tvm.te.hybrid.parser import script

_RANGES = {"serial": "range", "parallel": "parallel", "vectorize": "vectorize", "unroll": "unroll"}
#: operators that hybrid scripts call by a name of their own
_NAMES = dict.fromkeys("sqrt rsqrt log exp tanh sigmoid power round popcount likely min max".split()) | {"pow": "power"}


class _Expr(ScriptExpr):
    """Expressions without the prefix `T`."""

    def _operand(self, e: Expr) -> tuple[str, int]:
        match e.op:
            case "const" if e.dtype.is_float:
                return repr(float(e.value)), 12
            case "const":
                return (repr(bool(e.value)) if e.dtype.is_bool else str(int(e.value))), 12
            case "cast":
                return f"{e.dtype}({self.top(e.args[0])})", 12
            case "select" | "if_then_else":
                condition, then, otherwise = map(self.top, e.args)
                return f"({then} if {condition} else {otherwise})", 12
        if e.op in _NAMES:
            return f"{_NAMES[e.op] or e.op}({self._list(e.args)})", 12
        if e.op in ("var", "neg", "not", "load"):
            return super()._operand(e)
        raise UsageError(f"{e.op} has no name in hybrid scripts", asked="hybrid.build", legal=", ".join(_NAMES))


class _Dump(Statements):
    def text(self, e: Expr) -> str:
        return _Expr(self.names).top(e)

    def access(self, thing: Any, indices: tuple[Expr, ...]) -> str:
        return _Expr(self.names).access(thing, indices)

    def emit(self, s: Stmt, last: bool) -> None:
        match s:
            case Allocate():
                with self.names.inside(s.buffer) as name:
                    self._memory(name, "allocate", s.buffer)
                    self.emit(s.body, last)
            case Let():
                with self.names.inside(s.var) as name:
                    self.line(f"{name} = {self.text(s.value)}")
                    self.emit(s.body, last)
            case Evaluate():
                why = "a call of a function from outside has no place in a hybrid script"
                raise UsageError(why, asked="hybrid.build", legal="schedules of loops and stores")
            case _:
                super().emit(s, last)

    def _memory(self, name: str, by: str, b: Buffer) -> None:
        shape = "".join(f"{self.text(d)}, " for d in b.shape)
        scope = "" if b.scope == "global" else f', "{b.scope}"'
        self.line(f'{name} = {by}(({shape}), "{b.dtype}"{scope})')

    def _loop(self, s: For, last: bool) -> None:
        start, extent = self.text(s.start), self.text(s.extent)
        span = extent if is_const(s.start, 0) else f"{start}, {self.text(s.start + s.extent)}"
        made = f'bind("{s.thread}", {extent})' if s.thread else f"{_RANGES[s.kind]}({span})"
        with self.names.inside(s.var) as name, self.block(f"for {name} in {made}"):
            self.emit(s.body, True)


def build(sch: Schedule, inputs: Sequence[Any], outputs: Sequence[Tensor], name: str = "hybrid_func") -> HybridModule:
    """Return the loops of a schedule as a script of these inputs (tensors and variables) and outputs.

    Raises UsageError for what hybrid scripts cannot say, such as calls of functions from outside.
    """
    tensors = [t for t in inputs if isinstance(t, Tensor)]
    args = [*tensors, *outputs]
    f = lower_structure(sch, args, "llvm", identifier(name)).function
    dump = _Dump()
    params = dict(zip(args, f.params, strict=True))
    heads = [dump.names.reserve(params.get(i, i), getattr(i, "name", "")) for i in inputs]
    with dump.block(f"def {f.name}({', '.join(heads)})"):
        for size in f.sizes:
            if size not in inputs:
                of, at = next((b, b.shape.index(size)) for b in f.params if size in b.shape)
                dump.line(f"{dump.names.reserve(size)} = {dump.names(of)}.shape[{at}]")
        for t in outputs:
            dump._memory(dump.names.reserve(params[t]), "output_tensor", params[t])
        dump.emit(f.body, True)
        dump.line(f"return {', '.join(dump.names(params[t]) for t in outputs)}")
    return HybridModule("\n".join(dump.lines) + "\n", f.name)


class HybridModule:
    """A script with its text: called with arrays it runs, with tensors it is an operation."""

    def __init__(self, src: str | None = None, name: str | None = None) -> None:
        self.src_, self.name = src, name
        self._file: str | None = None
        self._function: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        if self.src_ is None:
            raise UsageError("there is no script in it", asked="HybridModule()", legal="load(path) first")
        if self._function is None:
            with TemporaryDirectory() as folder:
                if self._file is None:
                    self.save(os.path.join(folder, "script.py"))
                self._function = self._define(self._file or os.path.join(folder, "script.py"))
        return self._function(*args)

    def get_source(self) -> str:
        """Return the text."""
        return self.src_ or ""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the text to a file, which gets the ending `.py`."""
        name = os.fspath(check_path(path, "HybridModule.save"))
        name = name if name.endswith(".py") else f"{name}.py"
        with named_file(f"HybridModule.save({name!r})"), open(name, "w") as file:
            file.write(self.get_source())

    def load(self, path: str | os.PathLike[str]) -> None:
        """Take the script of a file, which is Python code that a call runs: load only files that you would run."""
        name = os.fspath(check_path(path, "HybridModule.load"))
        with named_file(f"HybridModule.load({name!r})"), open(name) as file:
            self.src_, self._file, self._function = file.read(), name, None

    def _define(self, file: str) -> Callable[..., Any]:
        text = self.get_source()
        try:
            module = run_file(Path(file), "hybrid_script")
        except (SyntaxError, ImportError) as error:
            raise UsageError(f"it is no Python: {error}", asked=file, legal="a hybrid script") from None
        functions = [f for f in vars(module).values() if inspect.isfunction(f)]
        if len(functions) != 1:
            raise UsageError(f"it defines {len(functions)} functions", asked=file, legal="one, which is the script")
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # the file may go
        self.name = functions[0].__name__
        return script(functions[0])
