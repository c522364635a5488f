"""Readable text for expressions, statements and functions.

Loops print as `for (y.outer, 0, height//8)`: variable, start, extent. Parentheses appear only
where precedence needs them. Names are made unique within one printout: a second `y` is `y_1`.
"""

from __future__ import annotations

from collections.abc import Callable

from autosched.ir.expr import Expr
from autosched.ir.stmt import (
    Allocate,
    Barrier,
    For,
    Function,
    If,
    Launch,
    Let,
    Produce,
    Seq,
    Stmt,
    Store,
)

__all__ = ["format_expr", "format_function", "format_stmt"]

_INFIX = {
    "or": ("||", 1),
    "and": ("&&", 2),
    "bitor": ("|", 3),
    "bitxor": ("^", 4),
    "bitand": ("&", 5),
    "eq": ("==", 6),
    "ne": ("!=", 6),
    "lt": ("<", 7),
    "le": ("<=", 7),
    "gt": (">", 7),
    "ge": (">=", 7),
    "shl": ("<<", 8),
    "shr": (">>", 8),
    "add": ("+", 9),
    "sub": ("-", 9),
    "mul": ("*", 10),
    "div": ("/", 10),
    "truncdiv": ("/", 10),
    "floordiv": ("//", 10),
    "floormod": ("%", 10),
}
_ATOM = 12
Namer = Callable[[Expr], str]


def _plain_name(v: Expr) -> str:
    return v.value.name


def format_expr(e: Expr, name_of: Namer = _plain_name) -> str:
    return _format(e, name_of)[0]


def _format(e: Expr, name_of: Namer) -> tuple[str, int]:
    """Text and precedence of its outermost operator."""

    def sub(arg: Expr, above: int) -> str:
        text, level = _format(arg, name_of)
        return f"({text})" if level < above else text

    def top(arg: Expr) -> str:
        return _format(arg, name_of)[0]

    op = e.op
    if op == "const":
        return _constant(e), _ATOM if not str(e.value).startswith("-") else 9
    if op == "var":
        return name_of(e), _ATOM
    if op in _INFIX:
        symbol, level = _INFIX[op]
        left, right = e.args
        space = "" if level == 10 and not e.dtype.is_float else " "
        # same level on the right needs parentheses: a - (b - c), a // (b * c)
        right_level = level if op in ("add", "and", "or") and right.op == op else level + 1
        if op == "mul" and right.op == "mul":
            right_level = level
        return f"{sub(left, level)}{space}{symbol}{space}{sub(right, right_level)}", level
    match op:
        case "read" | "load":
            return f"{e.value.name}[{', '.join(map(top, e.args))}]", _ATOM
        case "cast":
            return f"{e.dtype}({top(e.args[0])})", _ATOM
        case "not":
            return f"!{sub(e.args[0], 11)}", 11
        case "neg":
            return f"-{sub(e.args[0], 11)}", 11
        case "bitnot":
            return f"~{sub(e.args[0], 11)}", 11
        case "ramp":
            base, stride = e.args
            step = "" if stride.op == "const" and stride.value == 1 else f":{top(stride)}"
            return f"ramp({top(base)}{step}, {e.dtype.lanes})", _ATOM
        case "broadcast":
            return f"x{e.dtype.lanes}({top(e.args[0])})", _ATOM
        case "reduce":
            return e.value.describe(e, top), _ATOM
    return f"{op}({', '.join(map(top, e.args))})", _ATOM


def _constant(e: Expr) -> str:
    if e.dtype.is_bool:
        return str(bool(e.value)).lower()
    if e.dtype.is_float:
        return f"{e.value!r}f" if e.dtype == "float32" else f"{e.dtype}({e.value!r})" if e.dtype.bits != 64 else repr(e.value)
    return str(e.value) if e.dtype in ("int32", "int64") else f"{e.dtype}({e.value})"


class _Names:
    """Unique names for variables and buffers, in order of appearance."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def declare(self, v: Expr) -> str:
        """A loop variable: a fresh name each time it is introduced outside another of its name."""
        return self(v)

    def __call__(self, v: Expr) -> str:
        found = self._names.get(id(v))
        if found is None:
            base = v.value.name
            count = self._taken.get(base, 0)
            self._taken[base] = count + 1
            found = self._names[id(v)] = base if count == 0 else f"{base}_{count}"
        return found


def format_stmt(s: Stmt, name_of: Namer | None = None) -> str:
    """The statement as indented text."""
    lines: list[str] = []
    _emit(s, 0, lines, name_of or _plain_name)
    return "\n".join(lines)


def format_function(f: Function) -> str:
    """Parameters, then the body."""
    names = _plain_name
    params = ", ".join(
        f"{b.name}: {b.dtype}[{', '.join(format_expr(d, names) for d in b.shape)}]{' out' if i in f.outputs else ''}"
        for i, b in enumerate(f.params)
    )
    return f"{f.name}({params})\n{format_stmt(f.body, names)}\n"


def _emit(s: Stmt, depth: int, lines: list[str], name_of: Namer) -> None:
    pad = "  " * depth

    def text(e: Expr) -> str:
        return format_expr(e, name_of)

    def block(head: str, body: Stmt) -> None:
        lines.append(f"{pad}{head} {{")
        _emit(body, depth + 1, lines, name_of)
        lines.append(f"{pad}}}")

    match s:
        case For():
            word = {"serial": "for"}.get(s.kind, s.kind)
            head = f"{word} ({name_of(s.var)}, {text(s.start)}, {text(s.extent)})"
            if s.thread:
                head = f"for ({name_of(s.var)}, {text(s.start)}, {text(s.extent)}) bind {s.thread}"
            block(head, s.body)
        case Store():
            indices = ", ".join(map(text, s.indices))
            lines.append(f"{pad}{s.buffer.name}[{indices}] = {text(s.value)}")
        case If():
            block(f"if ({text(s.condition)})", s.then)
            if s.otherwise is not None:
                lines[-1] = f"{pad}}} else {{"
                _emit(s.otherwise, depth + 1, lines, name_of)
                lines.append(f"{pad}}}")
        case Seq():
            for c in s.stmts:
                _emit(c, depth, lines, name_of)
        case Let():
            lines.append(f"{pad}let {name_of(s.var)} = {text(s.value)}")
            _emit(s.body, depth, lines, name_of)
        case Allocate():
            shape = ", ".join(map(text, s.buffer.shape))
            lines.append(f"{pad}allocate {s.buffer.name}: {s.buffer.dtype}[{shape}] {s.buffer.scope}")
            _emit(s.body, depth, lines, name_of)
        case Produce():
            block(f"produce {s.name}", s.body)
        case Barrier():
            lines.append(f"{pad}barrier({s.scope})")
        case Launch():
            grid, blk = (", ".join(map(text, d)) for d in (s.grid, s.block))
            block(f"launch {s.name}<<<({grid}), ({blk})>>>", s.body)
