"""Expressions, statements and functions as text; and what may be a name in it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from autosched.errors import UsageError, UsageTypeError
from autosched.ir import stmt as S
from autosched.ir.expr import OPS, Expr
from autosched.ir.stmt import Function, Stmt

MOST_CHARACTERS = 200


def is_name(name: object, in_files: bool = False) -> bool:
    """Whether it is text that generated source can take, where what is no letter becomes `_`.

    in_files: and that names files, and members of archives, as functions do
    """
    if not isinstance(name, str) or not 0 < len(name) <= MOST_CHARACTERS or not name.isprintable():
        return False
    return not in_files or (file_name(name) == name and name.strip(". ") != "")


def file_name(name: str) -> str:
    """The name without what separates folders: `conv1/bias` becomes `conv1_bias`."""
    return re.sub(r"[/\\]", "_", name)


def checked_name(name: object, asked: str, in_files: bool = False) -> str:
    """The name. Raises UsageTypeError for what is no string, UsageError for one that is no name."""
    without = " without / and \\" if in_files else ""
    legal = f"1 to {MOST_CHARACTERS} printable characters{without}, such as 'blur'"
    if not isinstance(name, str):
        raise UsageTypeError(f"the name {name!r:.60} is a {type(name).__name__}", asked=asked, legal=legal)
    if not is_name(name, in_files):
        raise UsageError(f"{name!r:.60} cannot be a name", asked=asked, legal=legal)
    return name


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
_PREFIX = {"not": "!", "neg": "-", "bitnot": "~"}
_ATOM = 12
#: An expression with more nodes is cut short with `...`: shared parts, printed out, have no bound.
MAX_NODES = 10_000
MAX_DEPTH = 60
Namer = Callable[[Expr], str]


def _plain_name(v: Expr) -> str:
    return v.value.name


def format_expr(e: Expr, name_of: Namer = _plain_name) -> str:
    """The expression with C's operators and Python's `//` and `%`."""
    return Formatter(name_of).top(e)


class Formatter:
    """Text of one expression, parenthesised by precedence. `infix` has symbol and precedence of the
    operators written between their operands; multiplication has 10, addition 9."""

    infix = _INFIX
    compact_products = True  #: `i*4` for integers
    chains = False  #: whether `a < b < c` means something else than `(a < b) < c`

    def __init__(self, name_of: Namer) -> None:
        self._name_of = name_of
        self._nodes = 0
        self._depth = 0

    def top(self, e: Expr) -> str:
        return self._format(e)[0]

    def _format(self, e: Expr) -> tuple[str, int]:
        """Text and precedence of its outermost operator. A long sum is one loop, not a recursion."""
        if self._nodes >= MAX_NODES or self._depth >= MAX_DEPTH:
            return "...", _ATOM
        chain = []
        while e.op in self.infix:
            chain.append(e)
            e = e.args[0]
        self._nodes += len(chain) + 1
        self._depth += 1
        text, level = self._operand(e)
        pieces: list[str] = []
        for e in reversed(chain):
            symbol, above = self.infix[e.op]
            if level < above or (self.chains and level == above and OPS[e.op].kind == "compare"):
                pieces = ["(", text, *pieces, ")"]
                text = ""
            space = "" if above == 10 and self.compact_products and not e.dtype.is_float else " "
            pieces.append(f"{space}{symbol}{space}{self._right(e)}")
            level = above
        self._depth -= 1
        return text + "".join(pieces), level

    def _right(self, e: Expr) -> str:
        """The right operand; one of the same level needs parentheses: `a - (b - c)`, `a*(b//c)`."""
        above = self.infix[e.op][1]
        text, level = self._format(e.args[1])
        bare = level > above or (level == above and _is_associative(e))
        return text if bare else f"({text})"

    def _operand(self, e: Expr) -> tuple[str, int]:
        match e.op:
            case "const":
                return _constant(e), _ATOM if not str(e.value).startswith("-") else 9
            case "var":
                return self._name_of(e), _ATOM
            case "read" | "load" | "address":
                return f"{'&' * (e.op == 'address')}{e.value.name}[{self._list(e.args)}]", _ATOM
            case "cast":
                return f"{e.dtype}({self.top(e.args[0])})", _ATOM
            case "reinterpret":
                return f"reinterpret({e.dtype}, {self.top(e.args[0])})", _ATOM
            case "not" | "neg" | "bitnot":
                text, level = self._format(e.args[0])
                return _PREFIX[e.op] + (f"({text})" if level < 11 else text), 11
            case "ramp":
                base, stride = e.args
                step = "" if stride.op == "const" and stride.value == 1 else f":{self.top(stride)}"
                return f"ramp({self.top(base)}{step}, {e.dtype.lanes})", _ATOM
            case "broadcast":
                return f"x{e.dtype.lanes}({self.top(e.args[0])})", _ATOM
            case "view":
                return f"{e.value.name}{self._view(e.args)}", _ATOM
            case "call":
                return f"{e.value.name}({self._list(e.args)})", _ATOM
            case "to_line":
                return f"to_line({e.value.name}[{self.top(e.args[0])}])", _ATOM
            case "combine_lanes":
                return f"{e.value}_lanes({self.top(e.args[0])})", _ATOM
            case "reduce" | "scatter":
                return e.value.describe(e, self.top), _ATOM
        return f"{e.op}({self._list(e.args)})", _ATOM

    def _view(self, args: tuple[Expr, ...]) -> str:
        """`[offset + length:stride, ...]`."""
        offset, (lengths, strides) = args[0], (args[1 : len(args) // 2 + 1], args[len(args) // 2 + 1 :])
        start = "" if offset.op == "const" and offset.value == 0 else f"{self.top(offset)} + "
        sizes = [f"{self.top(n)}:{self.top(s)}" for n, s in zip(lengths, strides, strict=True)]
        return f"[{start}{', '.join(sizes)}]"

    def _list(self, args: tuple[Expr, ...]) -> str:
        return ", ".join(map(self.top, args))


def _is_associative(e: Expr) -> bool:
    """Whether `a op (b op c)`, which `e` is, may be read as `(a op b) op c`."""
    right = e.args[1]
    if e.op not in ("add", "mul", "and", "or") or right.op != e.op or e.dtype.is_float:
        return False
    first = right
    while first.op == "mul":
        first = first.args[0]
    return _INFIX.get(first.op, ("", _ATOM))[1] != 10  # a*(b//c*d) is not a*b//c*d


def _constant(e: Expr) -> str:
    if e.dtype.is_bool:
        return str(bool(e.value)).lower()
    if e.dtype.is_float:
        text = repr(e.value)
        return {16: f"{e.dtype}({text})", 32: f"{text}f", 64: text}[e.dtype.bits]
    return str(e.value) if e.dtype in ("int32", "int64") else f"{e.dtype}({e.value})"


class _Names:
    """Names of the variables in scope: a `y` inside another `y` is `y_1`."""

    def __init__(self, name_of: Namer) -> None:
        self._name_of = name_of
        self._names: dict[Expr, str] = {}

    def __call__(self, v: Expr) -> str:
        return self._names.get(v) or self._name_of(v)

    @contextmanager
    def inside(self, v: Expr) -> Iterator[None]:
        base, taken, saved = self._name_of(v), set(self._names.values()), dict(self._names)
        candidates = (f"{base}_{k}" for k in itertools.count(1))
        self._names[v] = base if base not in taken else next(name for name in candidates if name not in taken)
        try:
            yield
        finally:
            self._names = saved


def format_stmt(s: Stmt, name_of: Namer | None = None) -> str:
    """The statement as indented text."""
    lines: list[str] = []
    _emit(s, 0, lines, _Names(name_of or _plain_name))
    return "\n".join(lines)


def format_function(f: Function) -> str:
    """Parameters, then the body."""
    names = _Names(_plain_name)
    lines: list[str] = []
    with ExitStack() as scope:
        for v in f.sizes:
            scope.enter_context(names.inside(v))
        shapes = [", ".join(format_expr(d, names) for d in b.shape) for b in f.params]
        params = ", ".join(
            f"{b.name}: {b.dtype}[{shape}]{' out' if i in f.outputs else ''}"
            for i, (b, shape) in enumerate(zip(f.params, shapes, strict=True))
        )
        _emit(f.body, 0, lines, names)
    body = "\n".join(lines)
    return f"{f.name}({params})\n{body}\n"


def _emit(s: Stmt, depth: int, lines: list[str], name_of: _Names) -> None:
    pad = "  " * depth

    def text(e: Expr) -> str:
        return format_expr(e, name_of)

    def block(head: str, body: Stmt) -> None:
        lines.append(f"{pad}{head} {{")
        _emit(body, depth + 1, lines, name_of)
        lines.append(f"{pad}}}")

    match s:
        case S.For():
            word = "for" if s.thread or s.kind == "serial" else s.kind
            span = f"{text(s.start)}, {text(s.extent)}"
            bound = f" bind {s.thread}" if s.thread else " masked" if s.masked else ""
            with name_of.inside(s.var):
                block(f"{word} ({name_of(s.var)}, {span}){bound}", s.body)
        case S.Store():
            indices = ", ".join(map(text, s.indices))
            word = "stream " if s.streaming else ""
            lines.append(f"{pad}{word}{s.buffer.name}[{indices}] = {text(s.value)}")
        case S.Prefetch():
            lines.append(f"{pad}prefetch {s.buffer.name}[{', '.join(map(text, s.indices))}]")
        case S.Evaluate():
            lines.append(f"{pad}{text(s.value)}")
        case S.While():
            block(f"while ({text(s.condition)})", s.body)
        case S.If():
            block(f"if ({text(s.condition)})", s.then)
            if s.otherwise is not None:
                lines[-1] = f"{pad}}} else {{"
                _emit(s.otherwise, depth + 1, lines, name_of)
                lines.append(f"{pad}}}")
        case S.Seq():
            for c in s.stmts:
                _emit(c, depth, lines, name_of)
        case S.Let():
            value = text(s.value)
            with name_of.inside(s.var):
                lines.append(f"{pad}let {name_of(s.var)} = {value}")
                _emit(s.body, depth, lines, name_of)
        case S.Allocate():
            lines.append(f"{pad}allocate {s.buffer.described(text)}")
            _emit(s.body, depth, lines, name_of)
        case S.Produce():
            block(f"produce {s.name}", s.body)
        case S.Barrier():
            lines.append(f"{pad}barrier({s.scope})")
        case S.Launch():
            grid, blk = (", ".join(map(text, d)) for d in (s.grid, s.block))
            block(f"launch {s.name}<<<({grid}), ({blk})>>>", s.body)
