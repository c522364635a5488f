"""TVMScript-like text of functions and modules: the form in which TVM prints what `lower` returns.

    @I.ir_module
    class Module:
        @T.prim_func
        def main(A: T.handle, B: T.Buffer((8,), "float32")):
            n = T.int32()
            A_1 = T.match_buffer(A, (n, 8))
            for i, j in T.grid(n, 8):
                B[j] = A_1[i, j] + T.float32(1)

`autosched.tvm.script` reads it back. Names of one scope differ: a second `i` inside the first is `i_1`, and dots become
underscores.
"""

from __future__ import annotations

import itertools
import keyword
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import singledispatch
from typing import Any, get_args

from autosched.errors import UsageError
from autosched.ir.expr import Expr, is_const
from autosched.ir.printer import Formatter
from autosched.ir.stmt import (
    THREAD_TAGS,
    Allocate,
    Barrier,
    Buffer,
    For,
    Function,
    If,
    Launch,
    Let,
    Prefetch,
    Produce,
    Seq,
    Stmt,
    Store,
    While,
    expressions,
    walk,
)
from autosched.ir.visit import post_order

HEADER = "# from tvm.script import ir as I\n# from tvm.script import tir as T\n\n"
#: loop kind -> what makes its range
RANGES = {"serial": "range", "parallel": "T.parallel", "vectorize": "T.vectorized", "unroll": "T.unroll"}
#: operator -> its name in TVM, where that is not `T.<operator>`
_CALLS = {"select": "T.Select", "truncdiv": "T.Div", "broadcast": "T.Broadcast", "abs": "T.fabs"}
_TAB = "    "
#: Python's symbols and precedences; comparisons come below the operators on bits
_INFIX = {
    "or": ("or", 1),
    "and": ("and", 2),
    **{op: (Formatter.infix[op][0], 4) for op in ("eq", "ne", "lt", "le", "gt", "ge")},
    "bitor": ("|", 5),
    "bitxor": ("^", 6),
    "bitand": ("&", 7),
    "shl": ("<<", 8),
    "shr": (">>", 8),
    **{op: Formatter.infix[op] for op in ("add", "sub", "mul", "div", "floordiv", "floormod")},
}


def identifier(name: str) -> str:
    """Return the nearest Python identifier: `i_outer` for `i.outer`."""
    text = re.sub(r"\W", "_", name)
    return f"{text}_" if keyword.iskeyword(text) or text in ("T", "I") else text if text.isidentifier() else f"v{text}"


class Names:
    """The names of variables and buffers in scope."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}

    def __call__(self, thing: Any) -> str:
        return self._names.get(thing) or identifier(thing.name)

    def reserve(self, thing: Any, name: str = "") -> str:
        """Name a thing for as long as the function lasts."""
        base = identifier(name or thing.name)
        taken = set(self._names.values())
        self._names[thing] = next(
            x for x in itertools.chain([base], (f"{base}_{k}" for k in itertools.count(1))) if x not in taken
        )
        return self._names[thing]

    def alias(self, thing: Any, of: Any) -> None:
        """Give a thing the name of another."""
        self._names[thing] = self._names[of]

    @contextmanager
    def inside(self, thing: Any, name: str = "") -> Iterator[str]:
        """Name a thing for as long as the context lasts."""
        outer = self._names.pop(thing, None)
        chosen = self.reserve(thing, name)
        try:
            yield chosen
        finally:
            del self._names[thing]
            if outer is not None:
                self._names[thing] = outer


class ScriptExpr(Formatter):
    """Expressions with Python's operators, and everything else as `T.name(..)`."""

    infix = _INFIX
    compact_products = False
    chains = True

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._names = names

    def access(self, thing: Any, indices: tuple[Expr, ...]) -> str:
        """Return `A[i, j]`, or `A[()]` for a tensor without dimensions."""
        return f"{self._names(thing)}[{', '.join(map(self._index, indices)) or '()'}]"

    def _index(self, e: Expr) -> str:
        if e.op != "ramp":
            return self.top(e)
        base, stride = e.args
        step = "" if is_const(stride, 1) else f":{self.top(stride)}"
        return f"{self.top(base)}:{self.top(base + stride * e.dtype.lanes)}{step}"

    def _operand(self, e: Expr) -> tuple[str, int]:
        match e.op:
            case "const":
                return _constant(e), 12 if not str(e.value).startswith("-") or e.dtype != "int32" else 9
            case "read" | "load":
                return self.access(e.value, e.args), 12
            case "cast":
                return f'T.Cast("{e.dtype}", {self.top(e.args[0])})', 12
            case "reinterpret":
                return f'T.reinterpret("{e.dtype}", {self.top(e.args[0])})', 12
            case "not":
                text, level = self._format(e.args[0])
                return f"not {text if level >= 3 else f'({text})'}", 3
            case "bitnot":
                return f"T.bitwise_not({self.top(e.args[0])})", 12
            case "ramp":
                return f"T.Ramp({self._list(e.args)}, {e.dtype.lanes})", 12
            case "broadcast":
                return f"T.Broadcast({self._list(e.args)}, {e.dtype.lanes})", 12
            case "abs" if not e.dtype.is_float:
                return f"T.abs({self._list(e.args)})", 12
            case "to_line" | "combine_lanes":
                first = repr(e.value) if e.op == "combine_lanes" else self._names(e.value)
                return f"T.{e.op}({first}, {self._list(e.args)})", 12
            case "call":
                return self._call(e), 12
            case "address":
                return f"T.address_of({self.access(e.value, e.args)})", 12
            case "view":
                return f"T.view({self._names(e.value)}, {self._list(e.args)})", 12
        if e.op in ("var", "neg", "reduce", "scatter"):
            return super()._operand(e)
        return f"{_CALLS.get(e.op, f'T.{e.op}')}({self._list(e.args)})", 12

    def _call(self, e: Expr) -> str:
        """TVM's functions for calls; the type of the result comes first, except for Python functions."""
        kind, pure = e.value.kind, "pure_" if e.value.pure else ""
        name = {"extern": f"call_{pure}extern", "packed": "call_packed", "llvm": f"call_llvm_{pure}intrin"}
        of = [] if kind == "packed" and e.dtype == "int32" else [f'"{e.dtype}"']
        return f"T.{name.get(kind, 'call_intrin')}({', '.join([*of, repr(e.value.name), *map(self.top, e.args)])})"


def _constant(e: Expr) -> str:
    if e.dtype == "int32":
        return str(e.value)
    if e.dtype.is_bool:
        return f"T.bool({bool(e.value)})"
    if e.dtype.is_float:
        number = float(e.value)
        whole = number.is_integer() and abs(number) < 1e16
        text = f'"{number}"' if number != number or abs(number) == float("inf") else repr(number)
        return f"T.{e.dtype}({int(number) if whole and text != '-0.0' else text})"
    return f"T.{e.dtype}({e.value})"


def _shape(shape: tuple[Expr, ...], text: ScriptExpr) -> str:
    return f"({', '.join(map(text.top, shape))}{',' if len(shape) == 1 else ''})"


def buffer_text(b: Any, text: ScriptExpr) -> str:
    """Return the layout of a buffer: `(n, 8), "uint8", strides=(9, 1)`."""
    parts = [_shape(b.shape, text), *([] if b.dtype == "float32" else [f'"{b.dtype}"'])]
    if getattr(b, "strides", ()):
        parts.append(f"strides={_shape(b.strides, text)}")
    return ", ".join(parts)


def attrs_text(attrs: dict[str, Any]) -> str:
    """Return the attributes that are plain data, or lists of them, as a dictionary."""

    def is_plain(v: Any) -> bool:
        return all(map(is_plain, v)) if isinstance(v, list) else isinstance(v, (bool, int, float, str))

    def value(v: Any) -> str:
        if isinstance(v, list):
            return f"[{', '.join(map(value, v))}]"
        return f"T.bool({v})" if isinstance(v, bool) else f'"{v}"' if isinstance(v, str) else str(v)

    plain = {k: v for k, v in attrs.items() if is_plain(v)}
    return "{" + ", ".join(f'"{k}": {value(v)}' for k, v in plain.items()) + "}"


class Writer:
    """Lines of text, indented by blocks."""

    def __init__(self, names: Names | None = None) -> None:
        self.names = names or Names()
        self.lines: list[str] = []
        self._depth = 0

    def line(self, text: str) -> None:
        self.lines.append(_TAB * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(f"{head}:")
        before = len(self.lines)
        self._depth += 1
        try:
            yield
            if len(self.lines) == before:
                self.line("pass")
        finally:
            self._depth -= 1

    def text(self, e: Expr) -> str:
        return ScriptExpr(self.names).top(e)

    def access(self, thing: Any, indices: tuple[Expr, ...]) -> str:
        return ScriptExpr(self.names).access(thing, indices)

    def layout(self, b: Any) -> str:
        return buffer_text(b, ScriptExpr(self.names))

    def parameters(self, name: str, params: tuple[Any, ...], sizes: tuple[Expr, ...], attrs: dict[str, Any]) -> None:
        """Write `@T.prim_func`, the head of the function, and one `match_buffer` for each symbolic shape."""
        numbers = [v for v in params if isinstance(v, Expr)]
        handles = {
            b: any(d.op != "const" for d in (*b.shape, *getattr(b, "strides", ()))) for b in params if b not in numbers
        }
        keys = {b: (b, "handle") if symbolic else b for b, symbolic in handles.items()}
        heads = []
        for b in params:
            if isinstance(b, Expr):
                heads.append(f"{self.names.reserve(b)}: T.{b.dtype}")
                continue
            symbolic = handles[b]
            called = self.names.reserve(keys[b], b.name)
            shape = _shape(b.shape, ScriptExpr(self.names))
            heads.append(f"{called}: T.handle" if symbolic else f'{called}: T.Buffer({shape}, "{b.dtype}")')
        self.line("@T.prim_func")
        self.line(f"def {identifier(name)}({', '.join(heads)}):")
        self._depth += 1
        if attrs_text(attrs) != "{}":
            self.line(f"T.func_attr({attrs_text(attrs)})")
        by_type: dict[str, list[str]] = {}
        shown = [v for b in handles for d in b.shape for v in post_order(d) if v in set(sizes)]
        for v in [v for v in dict.fromkeys((*shown, *sizes)) if not any(v is n for n in numbers)]:
            by_type.setdefault(v.dtype, []).append(self.names.reserve(v))
        for of, named in by_type.items():
            self.line(f"{', '.join(named)} = {', '.join([f'T.{of}()'] * len(named))}")
        for b, symbolic in handles.items():
            if symbolic:
                called = self.names.reserve(b)
                self.line(f"{called} = T.match_buffer({self.names(keys[b])}, {self.layout(b)})")

    def end(self) -> str:
        return "\n".join(self.lines) + "\n"


class Statements(Writer):
    """The text of the statements of a lowered function."""

    def function(self, f: Function) -> str:
        self.parameters(f.name, f.params, f.sizes, f.attrs)
        flat = {b for b in f.params if len(b.shape) != 1 and _is_flat(f.body, b)}
        for b in f.params:
            if b in flat:
                handle = self.names(b)
                size = self.text(b.elements)
                self.names.reserve(b)
                of = "" if b.dtype == "float32" else f', "{b.dtype}"'
                self.line(f"{self.names(b)} = T.Buffer(({size},){of}, data={handle}.data)")
        before = len(self.lines)
        self.emit(f.body, last=True)
        if len(self.lines) == before:
            self.line("pass")
        return self.end()

    def part(self, s: Stmt) -> str:
        """The text of a part of a function: first the buffers and variables that it has from around."""
        inside = [x for x in walk(s) if isinstance(x, (For, Let, Allocate))]
        own = {x.buffer if isinstance(x, Allocate) else x.var for x in inside}
        nodes = [e for x in walk(s) for e in post_order(expressions(x))]
        stored = [x.buffer for x in walk(s) if isinstance(x, (Store, Prefetch))]
        buffers = dict.fromkeys([*(e.value for e in nodes if isinstance(e.value, Buffer)), *stored])
        around = [b for b in buffers if b not in own]
        sizes = [e for b in around for e in post_order([*b.shape, *b.strides])]
        for v in dict.fromkeys(e for e in (*sizes, *nodes) if e.op == "var" and e not in own):
            self.line(f"{self.names.reserve(v)} = T.{v.dtype}()")
        for b in around:
            flat = len(b.shape) != 1 and _is_flat(s, b)
            layout = self.layout(replace(b, shape=(b.elements,), strides=()) if flat else b)
            self.line(f"{self.names.reserve(b)} = T.Buffer({layout})")
        self.emit(s, last=True)
        return self.end()

    def emit(self, s: Stmt, last: bool) -> None:
        """Write a statement; the last one of its block may open a scope without indenting."""
        match s:
            case For():
                self._loop(s, last)
            case Store():
                mark = "  # streaming" if s.streaming else ""
                self.line(f"{self.access(s.buffer, s.indices)} = {self.text(s.value)}{mark}")
            case Prefetch():
                self.line(f"T.prefetch({self.access(s.buffer, s.indices)})")
            case If():
                with self.block(f"if {self.text(s.condition)}"):
                    self.emit(s.then, True)
                if s.otherwise is not None:
                    with self.block("else"):
                        self.emit(s.otherwise, True)
            case While():
                with self.block(f"while {self.text(s.condition)}"):
                    self.emit(s.body, True)
            case Seq():
                for i, c in enumerate(s.stmts):
                    self.emit(c, last and i == len(s.stmts) - 1)
            case Let():
                value = self.text(s.value)
                with self.names.inside(s.var) as name:
                    self.line(f"{name}: T.{s.var.dtype} = {value}")
                    self.emit(s.body, last)
            case Allocate():
                self._allocate(s, last)
            case Produce():
                self.emit(s.body, last)
            case Barrier():
                self.line(f'T.tvm_storage_sync("{s.scope}")')
            case Launch():
                self._launch(s, last)
            case _:
                self.line(f"T.evaluate({', '.join(map(self.text, expressions(s)))})")

    def _loop(self, s: For, last: bool) -> None:
        if s.thread:
            self._scoped(f'T.launch_thread("{s.thread}", {self.text(s.extent)})', s.var, s.thread, s.body, last)
            return
        nest = _grid(s)
        with ExitStack() as scope:
            spans = []
            for loop in nest:
                start, extent = self.text(loop.start), self.text(loop.extent)
                spans.append(extent if is_const(loop.start, 0) else f"{start}, {self.text(loop.start + loop.extent)}")
            named = [scope.enter_context(self.names.inside(loop.var)) for loop in nest]
            made = "T.grid" if len(nest) > 1 else RANGES[s.kind]
            scope.enter_context(self.block(f"for {', '.join(named)} in {made}({', '.join(spans)})"))
            self.emit(nest[-1].body, True)

    def _scoped(self, made: str, thing: Any, name: str, body: Stmt, last: bool) -> None:
        """`x = made` for the rest of the block, or `with made as x:`."""
        with self.names.inside(thing, name) as called:
            if last:
                self.line(f"{called} = {made}")
                self.emit(body, True)
            else:
                with self.block(f"with {made} as {called}"):
                    self.emit(body, True)

    def _allocate(self, s: Allocate, last: bool) -> None:
        b = s.buffer
        shape = ", ".join(map(self.text, b.shape if not b.strides else (b.elements,)))
        made = f'T.allocate([{shape}], "{b.dtype}", "{b.scope}")'
        with ExitStack() as scope:
            data = scope.enter_context(self.names.inside((b, "data"), b.name))
            if last:
                self.line(f"{data} = {made}")
            else:
                scope.enter_context(self.block(f"with {made} as {data}"))
            layout = self.layout(b)
            called = scope.enter_context(self.names.inside(b))
            place = "" if b.scope == "global" else f', scope="{b.scope}"'
            self.line(f"{called} = T.Buffer({layout}, data={data}{place})")
            self.emit(s.body, True)

    def _launch(self, s: Launch, last: bool) -> None:
        extents = {t: e for t, e in zip(THREAD_TAGS, (*s.grid, *s.block), strict=True) if not is_const(e, 1)}
        named = {v.name: v for x in walk(s.body) for e in expressions(x) for v in post_order(e) if v.op == "var"}
        with ExitStack() as scope:
            for tag, extent in extents.items():
                key = named.get(tag, (s, tag))
                made = f'T.launch_thread("{tag}", {self.text(extent)})'
                called = scope.enter_context(self.names.inside(key, tag))
                if last:
                    self.line(f"{called} = {made}")
                else:
                    scope.enter_context(self.block(f"with {made} as {called}"))
            self.emit(s.body, True)


def _grid(s: For) -> list[For]:
    """The serial loops from 0 that stand directly inside one another, for one line."""
    nest = [s]
    while _in_grid(nest[-1]) and isinstance(nest[-1].body, For) and _in_grid(nest[-1].body):
        nest.append(nest[-1].body)
    outer = {loop.var for loop in nest}
    for at, loop in enumerate(nest[1:], 1):
        if any(v in outer for v in post_order(loop.extent)):
            return nest[:at]
    return nest


def _in_grid(s: For) -> bool:
    return s.kind == "serial" and not s.thread and is_const(s.start, 0)


def _is_flat(body: Stmt, b: Buffer) -> bool:
    """Return whether a buffer is accessed by one index, as after `flatten`."""
    for s in walk(body):
        if isinstance(s, (Store, Prefetch)) and s.buffer is b:
            return len(s.indices) == 1
        for e in expressions(s):
            for node in post_order(e):
                if node.op == "load" and node.value is b:
                    return len(node.args) == 1
    return False


@singledispatch
def script(function: Any) -> str:
    """Return one function as text, from `@T.prim_func` on, or a statement as lines."""
    raise UsageError(f"{type(function).__name__} cannot be printed", asked="script", legal="a Function or a PrimFunc")


@script.register
def _(function: Function) -> str:
    return Statements().function(function)


def _part(s: Stmt) -> str:
    return Statements().part(s)


for _kind in get_args(Stmt):
    script.register(_kind, _part)


def module_script(functions: Mapping[Any, Any], attrs: dict[str, Any]) -> str:
    """Return the text of a module: a header, and the functions as methods of a class."""
    parts = []
    if attrs:
        parts.append(f"I.module_attrs({attrs_text(attrs)})\n")
    for name, function in functions.items():
        text = script(function)
        parts.append(re.sub(r"(?m)^def \w+\(", f"def {name}(", text, count=1))
    body = "\n".join(parts) or "pass\n"
    indented = "".join(_TAB + line if line.strip() else line for line in body.splitlines(keepends=True))
    return f"{HEADER}@I.ir_module\nclass Module:\n{indented}"
