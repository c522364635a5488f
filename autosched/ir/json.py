"""Expressions and statements as plain data, and back: what traces, artifacts, op graphs and records hold.

A formula over a few variables is a *tree* in prefix form, in which variables go by role and name:

    8    ["knob", "ty"]    ["mul", ["knob", "ty"], 2]    ["lt", ["loop", "i.inner"], ["size", "n"]]

Expressions that share parts are a *table* with an entry for each node, `[op, dtype, args, value]`, whose args are
positions of earlier entries. Statements, `[word, *fields]`, name variables, expressions and buffers by position.

What is read comes from files: a table makes only what the builders of `ir.expr` could have made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from typing import Any

from autosched.errors import UsageError
from autosched.ir import stmt as S
from autosched.ir.calls import CALL_KINDS, callee
from autosched.ir.dtype import HANDLE, DType, dtype
from autosched.ir.expr import BUILD, OPS, RESULT_BOOL, Expr, const, make, var
from autosched.ir.ops import ACCESSES
from autosched.ir.stmt import Buffer, Stmt
from autosched.ir.visit import post_order

# -- trees ----------------------------------------------------------------------------------------

#: an integer, `[role, name]`, or `[operator, *operands]`
Tree = int | list[Any]
#: Formulas in traces are small; anything deeper is an attempt to exhaust the reader.
MAX_DEPTH = 32
#: comparison -> its symbol
COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
ARITHMETIC = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "min", "max")
CONDITIONS = (*COMPARE, *ARITHMETIC, "and", "or", "not")


def tree_of(
    e: Expr, variable: Callable[[Expr], Any], operators: Container[str], strange: Callable[[Expr], Exception]
) -> Tree:
    """An expression as a tree, without the casts and hints that leave its value as it is.

    `variable` encodes a variable. Raises what `strange` makes of a part that has no form.
    """
    if e.op == "const" and not e.dtype.is_float:
        return int(e.value)
    if e.op == "likely" or (e.op == "cast" and e.index):
        return tree_of(e.args[0], variable, operators, strange)
    if e.op == "var":
        return variable(e)  # type: ignore[no-any-return]
    if e.op in operators:
        return [e.op, *(tree_of(a, variable, operators, strange) for a in e.args)]
    raise strange(e)


def expr_of(
    tree: Any,
    variable: Callable[[str, str], Expr | None],
    operators: Container[str],
    strange: Callable[[Any], Exception],
) -> Expr:
    """The inverse; `variable` gives the variable of a role and a name, or None for what is none."""
    match tree:
        case int():
            return const(int(tree))
        case [str() as role, str() as name] if (found := variable(role, name)) is not None:
            return found
        case [str() as op, *operands] if op in operators and len(operands) == OPS[op].arity:
            return BUILD[op](*(expr_of(x, variable, operators, strange) for x in operands))
    raise strange(tree)


def is_tree(
    data: Any, operators: Container[str], is_variable: Callable[[str, Any], bool], depth: int = MAX_DEPTH
) -> bool:
    """Whether data are a tree of these operators and variables, no deeper than `depth` (-1: however deep)."""
    waiting = [(data, depth)]
    while waiting:
        part, left = waiting.pop()
        if type(part) is int:
            continue
        if not isinstance(part, list) or len(part) < 2 or not isinstance(part[0], str) or left == 0:
            return False
        if len(part) == 2 and is_variable(part[0], part[1]):
            continue
        if part[0] not in operators or len(part) != OPS[part[0]].arity + 1:
            return False
        waiting += [(x, left - 1) for x in part[1:]]
    return True


# -- tables ---------------------------------------------------------------------------------------

#: The statements that programs are written with, others come from lowering. Their fields are `FIELDS`, each with the
#: name of the method of `TableWriter` and `TableReader` that is for it
STATEMENTS = {
    cls.__name__.lower(): cls for cls in (S.For, S.Store, S.If, S.Seq, S.Let, S.Allocate, S.Evaluate, S.While)
}


class TableWriter:
    """Puts things into tables and says at which position. `tables` are what it wrote, by name."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Any]] = {"vars": [], "exprs": []}
        self._positions: dict[str, dict[Any, int]] = {}

    def place(self, table: str, thing: Any, entry: Callable[[], Any]) -> int:
        """The position of a thing, whose entry is made when it is met first."""
        positions = self._positions.setdefault(table, {})
        at = positions.get(thing)
        if at is None:
            made, rows = entry(), self.tables.setdefault(table, [])
            at = positions[thing] = len(rows)
            rows.append(made)
        return at

    def variable(self, v: Expr) -> int:
        return self.place("vars", v, lambda: [v.value.name, str(v.dtype), v.value.role])

    def buffer(self, b: Buffer) -> int:
        return self.place(
            "buffers", b, lambda: [b.name, self.exprs(b.shape), str(b.dtype), b.scope, self.exprs(b.strides)]
        )

    def expr(self, root: Expr) -> int:
        at = -1
        for e in post_order(root):
            at = self.place("exprs", e, lambda: [e.op, str(e.dtype), self.exprs(e.args), self.value(e)])  # noqa: B023
        return at

    def value(self, e: Expr) -> Any:
        """The last part of the entry of an expression."""
        if e.op == "const":
            return number(e.value)
        if e.op == "var":
            return self.variable(e)
        if e.op == "call":
            return [e.value.name, e.value.kind, e.value.pure]
        return self.buffer(e.value) if e.op in ACCESSES else None

    def statement(self, s: Stmt) -> list[Any]:
        """Raises UsageError for one that only lowering makes."""
        word = type(s).__name__.lower()
        if word not in STATEMENTS:
            raise UsageError(f"{type(s).__name__} has no form as data", asked="statement of a te.extern in a graph")
        return [word, *(getattr(self, method)(getattr(s, name)) for name, method in S.FIELDS[type(s)].items())]

    def exprs(self, listed: Any) -> list[int]:
        positions = self._positions.get("exprs", {})
        return [positions[e] if e in positions else self.expr(e) for e in listed]

    def statements(self, listed: Any) -> list[Any]:
        return [self.statement(s) for s in listed]

    def perhaps(self, s: Stmt | None) -> Any:
        return None if s is None else self.statement(s)

    def same(self, value: Any) -> Any:
        return value


def number(value: Any) -> Any:
    """A number as JSON can hold it: infinities and NaN as words."""
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value


class TableReader:
    """Makes what is at a position of tables. Raises ValueError, KeyError or TypeError for what no writer wrote."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self._made: dict[tuple[str, int], Any] = {}
        self._variables = [self._variable(*entry) for entry in data["vars"]]

    def made(self, table: str, at: Any, make_it: Callable[[Any], Any]) -> Any:
        """The thing at a position, which `make_it` makes of its entry once."""
        entry = at_position(self.data[table], at)
        if (table, at) not in self._made:
            self._made[table, at] = make_it(entry)
        return self._made[table, at]

    def _variable(self, name: Any, of: Any, role: Any) -> Expr:
        if role not in ("size", "scalar", "loop", "let"):
            raise ValueError(f"bad variable role {role!r}")
        to = dtype(text(of))
        if to.lanes != 1 or (role not in ("scalar", "let") and not to.is_integer):
            raise ValueError(f"bad variable type {of!r}")
        return var(text(name), to, role)

    def variable(self, at: Any) -> Expr:
        found: Expr = at_position(self._variables, at)
        return found

    def buffer(self, at: Any) -> Buffer:
        found: Buffer = self.made("buffers", at, self._buffer)
        return found

    def _buffer(self, entry: Any) -> Buffer:
        name, shape, of, scope, strides = entry
        dims, steps = self.exprs(shape), self.exprs(strides)
        if scope not in ("global", "shared", "local") or len(steps) not in (0, len(dims)):
            raise ValueError(f"bad buffer {name!r}")
        return Buffer(text(name), dims, dtype(text(of)).scalar, scope, steps)

    def expr(self, at: Any) -> Expr:
        """Entries refer backwards only, so this ends."""
        entries = self.data["exprs"]
        at_position(entries, at)
        waiting, wanted = [at], set()
        while waiting:
            position = waiting.pop()
            if ("exprs", position) not in self._made and position not in wanted:
                wanted.add(position)
                for a in entries[position][2]:
                    waiting.append(at_position(range(position), a))
        for position in sorted(wanted):
            op, of, args, value = entries[position]
            to = HANDLE if of == HANDLE else dtype(text(of))
            self._made["exprs", position] = self.node(op, to, tuple(self._made["exprs", a] for a in args), value)
        found: Expr = self._made["exprs", at]
        return found

    def node(self, op: Any, to: DType, args: tuple[Expr, ...], value: Any) -> Expr:
        """The expression of an entry, its args made."""
        if op == "var":
            found = self.variable(value)
            if found.dtype != to:
                raise ValueError(f"{found.name} is a {found.dtype}, not a {to}")
            return found
        if op == "const":
            return _literal(to, value)
        if op == "call":
            name, kind, pure = value
            if kind not in CALL_KINDS or not isinstance(pure, bool) or any(a.dtype.lanes != 1 for a in args):
                raise ValueError(f"bad call {value!r}")
            return make(op, to.scalar, args, callee(text(name), kind, pure))
        if op in ACCESSES:
            buffer = self.buffer(value)
            lanes = max([a.dtype.lanes for a in args], default=1)
            whole = op == "load" and to != buffer.dtype.with_lanes(lanes)
            if whole or (op != "load" and to != HANDLE) or not all(a.dtype.is_integer for a in args):
                raise ValueError(f"bad {op} of {buffer.name}")
            return make(op, to, args, buffer)
        if not _is_well_typed(op, to, [a.dtype for a in args]):
            raise ValueError(f"bad {op!r} of {[str(a.dtype) for a in args]} giving {to}")
        return make(op, to, args)

    def statement(self, data: Any) -> Stmt:
        cls: Any = STATEMENTS.get(data[0]) if isinstance(data, list) and data else None
        if cls is None or len(data) != len(S.FIELDS[cls]) + 1:
            raise ValueError(f"no statement: {data!r:.60}")
        parts = zip(S.FIELDS[cls].items(), data[1:], strict=True)
        made: Stmt = cls(**{name: getattr(self, method)(part) for (name, method), part in parts})
        if not _is_sound(made):
            raise ValueError(f"bad {data[0]}: {data!r:.60}")
        return made

    def exprs(self, listed: Any) -> tuple[Expr, ...]:
        return tuple(map(self.expr, listed))

    def statements(self, listed: Any) -> tuple[Stmt, ...]:
        return tuple(map(self.statement, listed))

    def perhaps(self, data: Any) -> Stmt | None:
        return None if data is None else self.statement(data)

    def same(self, value: Any) -> str:
        return text(value)


def at_position(table: Any, position: Any) -> Any:
    """`table[position]`, but only for a plain position: not -1, True or 1.0."""
    if type(position) is not int or not 0 <= position < len(table):
        raise ValueError(f"bad position {position!r}")
    return table[position]


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


def _is_sound(s: Stmt) -> bool:
    """Whether the parts of a statement go together."""
    match s:
        case S.For(var=v, start=start, extent=extent, kind=kind, thread=thread):
            integers = v.value.role == "loop" and start.dtype.is_integer and extent.dtype.is_integer
            tags = (S.VTHREAD, *S.THREAD_TAGS) if kind == "thread" else ("",)
            return integers and kind in S.LOOP_KINDS and thread in tags
        case S.Store(buffer=buffer, indices=indices, value=value):
            return value.dtype.scalar == buffer.dtype and len(indices) in (1, len(buffer.shape))
        case S.If(condition=condition) | S.While(condition=condition):
            return condition.dtype == "bool"
        case S.Let(var=v, value=value):
            return v.value.role == "let" and value.dtype == v.dtype
        case S.Evaluate(value=value):
            return value.op == "call"
    return True


def _literal(to: DType, value: Any) -> Expr:
    if to.is_float:
        if type(value) not in (int, float) and value not in ("inf", "-inf", "nan"):
            raise ValueError(f"bad number {value!r}")
        return const(float(value), to)
    if type(value) is not (bool if to.is_bool else int) or not to.min <= value <= to.max:
        raise ValueError(f"bad {to} {value!r}")
    return const(value, to)


def _is_well_typed(op: Any, to: DType, of: list[DType]) -> bool:
    """Whether the operator takes operands of these types and gives `to`: what the builders make."""
    info = OPS.get(op) if isinstance(op, str) else None
    if info is None or len(of) != info.arity:
        return False
    if op in ("ramp", "broadcast"):
        return all(t == to.scalar for t in of)
    if any(t.lanes != to.lanes for t in of):
        return False
    first, alike = of[0], all(t == of[0] for t in of)
    match info.kind:
        case "arith":
            of_op = {"div": to.is_float, "truncdiv": to.is_integer, "min": True, "max": True}
            return alike and to == first and of_op.get(op, not to.is_bool)
        case "bits":
            return alike and to == first and to.is_integer
        case "compare":
            return alike and to.is_bool
        case "logic":
            return alike and to.is_bool and first.is_bool
        case "choice":
            return first.is_bool and of[1] == of[2] == to
        case "cast":
            return not to.is_bool and (op == "cast" or first.bits == to.bits)
        case "math" if op == "ldexp":
            return first.is_float and to == first and of[1] == "int32"
        case "math":
            return alike and first.is_float and (to.is_bool if op in RESULT_BOOL else to == first)
    return False
