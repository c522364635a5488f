"""Op graphs as plain data: what a worker process is sent, and what a workload's key is a hash of."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import RecordError, UsageError
from autosched.ir.calls import CALL_KINDS, callee
from autosched.ir.dtype import HANDLE, DType, dtype
from autosched.ir.expr import OPS, Expr, const, is_const, make, var
from autosched.ir.ops import ACCESSES
from autosched.ir.stmt import (
    LOOP_KINDS,
    THREAD_TAGS,
    VTHREAD,
    Allocate,
    Buffer,
    Evaluate,
    For,
    If,
    Let,
    Seq,
    Stmt,
    Store,
    While,
)
from autosched.ir.visit import post_order
from autosched.te.extern import ExternOp
from autosched.te.reduction import BUILT_IN, REDUCTIONS, Combiner, Reduction
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, Graph, IterVar, Operation, PlaceholderOp, Tensor, is_size


@dataclass(frozen=True)
class Encode:
    """Positions in the tables of a graph."""

    variable: Callable[[Expr], int]
    expr: Callable[[Expr], int]
    buffer: Callable[[Buffer], int]


@dataclass(frozen=True)
class Decode:
    """What is at a position in the tables of a graph."""

    variable: Callable[[Any], Expr]
    expr: Callable[[Any], Expr]
    buffer: Callable[[Any], Buffer]


def statement_to_json(s: Stmt, at: Encode) -> list[Any]:
    """The statement as data. Raises UsageError for one that only lowering makes."""

    def go(s: Stmt) -> list[Any]:
        match s:
            case For():
                span = [at.expr(s.start), at.expr(s.extent)]
                return ["for", at.variable(s.var), *span, s.kind, s.thread, go(s.body)]
            case Store():
                return ["store", at.buffer(s.buffer), [at.expr(i) for i in s.indices], at.expr(s.value)]
            case If():
                return ["if", at.expr(s.condition), go(s.then), None if s.otherwise is None else go(s.otherwise)]
            case Seq():
                return ["seq", [go(c) for c in s.stmts]]
            case Let():
                return ["let", at.variable(s.var), at.expr(s.value), go(s.body)]
            case Allocate():
                return ["allocate", at.buffer(s.buffer), go(s.body)]
            case Evaluate():
                return ["evaluate", at.expr(s.value)]
            case While():
                return ["while", at.expr(s.condition), go(s.body)]
        raise UsageError(f"{type(s).__name__} has no form as data", asked="statement of a te.extern in a graph")

    return go(s)


def statement_from_json(data: Any, at: Decode) -> Stmt:
    """The statement that `statement_to_json` was given. Raises ValueError if `data` is no statement."""
    match data:
        case ["for", v, start, extent, kind, thread, body] if kind in LOOP_KINDS:
            if thread not in ("", VTHREAD, *THREAD_TAGS) or (kind == "thread") != bool(thread):
                raise ValueError(f"bad thread {thread!r}")
            loop, first, count = at.variable(v), at.expr(start), at.expr(extent)
            if loop.value.role != "loop" or not (first.dtype.is_integer and count.dtype.is_integer):
                raise ValueError(f"bad loop {loop.name}")
            return For(loop, first, count, kind, statement_from_json(body, at), thread)
        case ["store", b, list(indices), value]:
            buffer, places, e = at.buffer(b), tuple(map(at.expr, indices)), at.expr(value)
            if e.dtype.scalar != buffer.dtype or len(places) not in (1, len(buffer.shape)):
                raise ValueError(f"bad store to {buffer.name}")
            return Store(buffer, places, e)
        case ["if", condition, then, otherwise]:
            other = None if otherwise is None else statement_from_json(otherwise, at)
            return If(_truth(at.expr(condition)), statement_from_json(then, at), other)
        case ["seq", list(parts)]:
            return Seq(tuple(statement_from_json(p, at) for p in parts))
        case ["let", v, value, body]:
            variable, e = at.variable(v), at.expr(value)
            if variable.value.role != "let" or e.dtype != variable.dtype:
                raise ValueError(f"bad let {variable.name}")
            return Let(variable, e, statement_from_json(body, at))
        case ["allocate", b, body]:
            return Allocate(at.buffer(b), statement_from_json(body, at))
        case ["evaluate", value]:
            e = at.expr(value)
            if e.op != "call":
                raise ValueError("it evaluates what is no call")
            return Evaluate(e)
        case ["while", condition, body]:
            return While(_truth(at.expr(condition)), statement_from_json(body, at))
    raise ValueError(f"no statement: {data!r:.60}")


def _truth(e: Expr) -> Expr:
    if not e.dtype.is_bool or e.dtype.lanes != 1:
        raise ValueError("a condition is no truth value")
    return e


VERSION = 1


class _Writer:
    def __init__(self) -> None:
        self.vars: list[list[Any]] = []
        self.exprs: list[list[Any]] = []
        self.axes: list[list[Any]] = []
        self._var_at: dict[Expr, int] = {}
        self._expr_at: dict[Expr, int] = {}
        self._axis_at: dict[IterVar, int] = {}
        self.combiners: list[dict[str, Any]] = []
        self._combiner_at: dict[Combiner, int] = {}
        self.op_at: dict[Operation, int] = {}
        self.buffers: list[list[Any]] = []
        self._buffer_at: dict[Buffer, int] = {}

    def expr(self, root: Expr) -> int:
        for e in post_order(root):
            if e not in self._expr_at:
                value = self._value(e)
                entry = [e.op, str(e.dtype), [self._expr_at[a] for a in e.args], value]
                self._expr_at[e] = len(self.exprs)
                self.exprs.append(entry)
        return self._expr_at[root]

    def _value(self, e: Expr) -> Any:
        if e.op == "const":
            return float_to_json(e.value) if e.dtype.is_float else e.value
        if e.op == "var":
            return self.variable(e)
        if e.op == "read":
            return self.tensor(e.value)
        if e.op in REDUCTIONS:
            axes = [self.axis(a) for a in e.value.axes]
            if isinstance(e.value.combiner, str):
                return [e.value.combiner, axes]
            return [self.combiner(e.value.combiner), axes, e.value.value_index]
        if e.op == "call":
            return [e.value.name, e.value.kind, e.value.pure]
        return self.buffer(e.value) if e.op in ACCESSES else None

    def buffer(self, b: Buffer) -> int:
        at = self._buffer_at.get(b)
        if at is None:
            entry = [b.name, [self.expr(d) for d in b.shape], str(b.dtype), b.scope, [self.expr(d) for d in b.strides]]
            at = self._buffer_at[b] = len(self.buffers)
            self.buffers.append(entry)
        return at

    def opaque(self, op: ExternOp) -> dict[str, Any]:
        """An opaque operation: what `reference` computes is not known to those who read it."""
        ins, outs = ([self.buffer(b) for b in buffers] for buffers in (op.in_buffers, op.out_buffers))
        body = statement_to_json(op.statement, Encode(self.variable, self.expr, self.buffer))
        return {"inputs": [self.tensor(t) for t in op.inputs], "in": ins, "out": outs, "statement": body}

    def combiner(self, c: Combiner) -> int:
        at = self._combiner_at.get(c)
        if at is None:
            entry: dict[str, Any] = {"name": c.name}
            entry["left"], entry["right"] = ([self.variable(v) for v in side] for side in (c.left, c.right))
            entry["result"], entry["identity"] = ([self.expr(e) for e in part] for part in (c.result, c.identity))
            at = self._combiner_at[c] = len(self.combiners)
            self.combiners.append(entry)
        return at

    def variable(self, v: Expr) -> int:
        at = self._var_at.get(v)
        if at is None:
            at = self._var_at[v] = len(self.vars)
            self.vars.append([v.value.name, str(v.dtype), v.value.role])
        return at

    def tensor(self, t: Tensor) -> int | list[int]:
        at = self.op_at[t.op]
        return [at, t.value_index] if t.value_index else at

    def axis(self, a: IterVar) -> int:
        at = self._axis_at.get(a)
        if at is None:
            entry = [self.variable(a.var), self.expr(a.min), self.expr(a.extent), a.kind]
            at = self._axis_at[a] = len(self.axes)
            self.axes.append(entry)
        return at


def float_to_json(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)


def graph_to_json(args: Sequence[Tensor]) -> dict[str, Any]:
    """The graph that computes `args`, which are its inputs and outputs in calling order."""
    writer = _Writer()
    ops: list[dict[str, Any]] = []
    for position, op in enumerate(Graph.of(args).ops):
        writer.op_at[op] = position
        types = [str(t.dtype) for t in op.outputs] if isinstance(op, ComputeOp) else [str(op.dtype)]
        entry: dict[str, Any] = {
            "name": op.name,
            "dtype": types[0] if len(types) == 1 else types,
            "shape": [writer.expr(d) for d in op.shape],
        }
        if isinstance(op, ComputeOp):
            for a in op.axis:
                writer.axis(a)
            body = [writer.expr(e) for e in op.body]
            entry["body"] = body[0] if len(body) == 1 else body
            entry["axis"] = [writer.axis(a) for a in op.axis]
            entry["tag"] = op.tag
        if isinstance(op, ScanOp):
            parts = {"init": op.init, "update": op.update, "state": op.state_placeholder, "inputs": op.inputs}
            entry["scan"] = {
                part: [writer.tensor(t) for t in tensors if t.op in writer.op_at] for part, tensors in parts.items()
            }
            entry["tag"] = op.tag
        if isinstance(op, ExternOp):
            entry["extern"], entry["tag"] = writer.opaque(op), op.tag
        if isinstance(op, ComputeOp | ScanOp | ExternOp) and op.attrs:
            entry["attrs"] = _attrs_to_json(op.attrs, writer, op.name)
        ops.append(entry)
    data: dict[str, Any] = {"v": VERSION, "vars": writer.vars, "exprs": writer.exprs, "axes": writer.axes, "ops": ops}
    if writer.combiners:
        data["combiners"] = writer.combiners
    if writer.buffers:
        data["buffers"] = writer.buffers
    return {**data, "args": [writer.tensor(t) for t in args]}


def _attrs_to_json(value: Any, writer: _Writer, name: str) -> Any:
    """Plain data as it is; a tensor, which hints may name, as `{"tensor": where it is}`."""
    if isinstance(value, dict) and all(isinstance(k, str) for k in value) and value.keys() != {"tensor"}:
        return {k: _attrs_to_json(v, writer, name) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_attrs_to_json(v, writer, name) for v in value]
    if isinstance(value, Tensor) and value.op in writer.op_at:
        return {"tensor": writer.tensor(value)}
    if isinstance(value, Expr) and value.op == "const":
        value = value.value
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float_to_json(value)
    raise UsageError(
        f"it holds {value!r}",
        asked=f"attrs of {name}, in a graph that is stored",
        legal="numbers, strings, tensors that the operation depends on, and lists and dicts of them",
    )


def graph_from_json(data: dict[str, Any]) -> list[Tensor]:
    """The tensors that `graph_to_json` was given. Raises RecordError if `data` is not such a graph."""
    try:
        if data["v"] != VERSION:
            raise RecordError(f"graph format {data['v']!r} is not {VERSION}", asked="workload graph")
        return _Reader(data).tensors()
    except UsageError as error:
        why = error.why
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {error}"
    raise RecordError(f"not a workload graph ({why})", asked="workload graph")


class _Reader:
    """Builds the graph from positions that refer backwards, and checks every type on the way."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._variables = [self._variable(*entry) for entry in data["vars"]]
        self._exprs: dict[int, Expr] = {}
        self._axes: dict[int, IterVar] = {}
        self._combiners: dict[int, Combiner] = {}
        self._buffers: dict[int, Buffer] = {}
        self._bound: set[Expr] = set()  # no two axes share a variable
        self._unowned: set[Expr] = set()
        self._ops: list[Operation] = []

    def tensors(self) -> list[Tensor]:
        for entry in self._data["ops"]:
            self._ops.append(self._operation(entry))
        return [self._tensor(at) for at in self._data["args"]]

    def _tensor(self, at: Any) -> Tensor:
        """A tensor from the position of its operation, or from that and the number of the output."""
        position, output = at if isinstance(at, list) else (at, 0)
        return _at(_at(self._ops, position).outputs, output)

    def _variable(self, name: Any, of: Any, role: Any) -> Expr:
        if role not in ("size", "scalar", "loop", "let"):
            raise ValueError(f"bad variable role {role!r}")
        to = dtype(_text(of))
        if to.lanes != 1 or (role not in ("scalar", "let") and not to.is_integer):
            raise ValueError(f"bad variable type {of!r}")
        return var(_text(name), to, role)

    def _operation(self, entry: Any) -> Operation:
        types = entry["dtype"] if isinstance(entry["dtype"], list) else [entry["dtype"]]
        name, of = _text(entry["name"]), [dtype(_text(t)) for t in types]
        shape = [self._expr(d) for d in entry["shape"]]
        if "scan" in entry:
            return self._scan(name, shape, of[0], entry)
        if "extern" in entry:
            return self._extern(name, entry)
        if "body" not in entry:
            return PlaceholderOp(name, shape, of[:1])
        axes = [self._axis(a) for a in entry["axis"]]
        if len(axes) != len(shape) or any(
            a.kind != "spatial" or a.extent is not d or not is_const(a.min, 0) for a, d in zip(axes, shape, strict=True)
        ):
            raise ValueError(f"the axes of {name} are not those of its shape")
        self._own(axes)
        body = entry["body"] if isinstance(entry["body"], list) else [entry["body"]]
        exprs = [self._expr(e) for e in body]
        op = ComputeOp(name, shape, axes, exprs, _text(entry.get("tag", "")), self._attrs(entry))
        found = [t.dtype for t in op.outputs]
        if found != of:
            raise ValueError(f"{name} is {', '.join(found)}, not {', '.join(of)}")
        return op

    def _attrs(self, entry: Any) -> dict[str, Any]:
        def read(value: Any) -> Any:
            if isinstance(value, dict) and value.keys() == {"tensor"}:
                return self._tensor(value["tensor"])
            if isinstance(value, dict):
                return {k: read(v) for k, v in value.items()}
            return [read(v) for v in value] if isinstance(value, list) else value

        attrs = entry.get("attrs", {})
        if not isinstance(attrs, dict) or attrs.keys() == {"tensor"}:
            raise ValueError("bad attrs")
        return read(attrs)

    def _scan(self, name: str, shape: list[Expr], of: DType, entry: Any) -> Operation:
        kept = ("init", "update", "state", "inputs")
        init, update, state, inputs = ([self._tensor(at) for at in entry["scan"][part]] for part in kept)
        op = ScanOp(name, init, update, state, inputs, _text(entry.get("tag", "")), self._attrs(entry))
        if op.dtype != of or list(op.shape) != shape:
            raise ValueError(f"{name} is not like its update")
        return op

    def _extern(self, name: str, entry: Any) -> Operation:
        parts = entry["extern"]
        inputs = [self._tensor(at) for at in parts["inputs"]]
        ins, outs = ([self._buffer(at) for at in parts[side]] for side in ("in", "out"))
        if len(ins) != len(inputs) or not outs:
            raise ValueError(f"bad buffers of {name}")
        body = statement_from_json(parts["statement"], Decode(self._var, self._expr, self._buffer))
        return ExternOp(name, inputs, ins, outs, body, _text(entry.get("tag", "")), self._attrs(entry))

    def _var(self, at: Any) -> Expr:
        found: Expr = _at(self._variables, at)
        return found

    def _buffer(self, at: Any) -> Buffer:
        if at not in self._buffers:
            name, shape, of, scope, strides = _at(self._data["buffers"], at)
            dims, steps = (tuple(self._expr(e) for e in part) for part in (shape, strides))
            if scope not in ("global", "shared", "local") or len(steps) not in (0, len(dims)):
                raise ValueError(f"bad buffer {name!r}")
            self._buffers[at] = Buffer(_text(name), dims, dtype(_text(of)).scalar, scope, steps)
        return self._buffers[at]

    def _axis(self, at: Any) -> IterVar:
        if at not in self._axes:
            variable, start, extent, kind = _at(self._data["axes"], at)
            v = _at(self._variables, variable)
            begin, length = self._expr(start), self._expr(extent)
            if kind not in ("spatial", "reduce") or not is_size(begin) or not is_size(length):
                raise ValueError(f"bad axis {at}")
            if v.value.role != "loop" or v in self._bound:
                raise ValueError(f"{v.name} is no variable for axis {at}")
            made = IterVar(v.name, length, kind, begin)
            made.var = v
            self._bound.add(v)
            self._unowned.add(v)
            self._axes[at] = made
        return self._axes[at]

    def _own(self, axes: list[IterVar]) -> None:
        """A spatial axis belongs to one dimension of one operation."""
        for a in axes:
            if a.var not in self._unowned:
                raise ValueError(f"{a.name} is the axis of two dimensions")
            self._unowned.discard(a.var)

    def _expr(self, at: Any) -> Expr:
        """Entries refer backwards only, so this ends."""
        entries = self._data["exprs"]
        _at(entries, at)
        waiting, wanted = [at], set()
        while waiting:
            position = waiting.pop()
            if position not in self._exprs and position not in wanted:
                wanted.add(position)
                for a in entries[position][2]:
                    waiting.append(_at(range(position), a))
        for position in sorted(wanted):
            op, of, args, value = entries[position]
            to = HANDLE if of == HANDLE else dtype(_text(of))
            self._exprs[position] = self._node(op, to, tuple(self._exprs[a] for a in args), value)
        return self._exprs[at]

    def _node(self, op: Any, to: DType, args: tuple[Expr, ...], value: Any) -> Expr:
        if op == "var":
            found: Expr = _at(self._variables, value)
            if found.dtype != to:
                raise ValueError(f"{found.name} is a {found.dtype}, not a {to}")
            return found
        if op == "const":
            return _literal(to, value)
        if op == "read":
            tensor = self._tensor(value)
            if tensor.dtype != to or len(args) != tensor.ndim or not all(a.dtype.is_integer for a in args):
                raise ValueError(f"bad read of {tensor.name}")
            return make(op, to, args, tensor)
        if op in REDUCTIONS:
            return make(op, to, args, self._reduction(op, to, args, *value))
        if op == "call":
            name, kind, pure = value
            if kind not in CALL_KINDS or not isinstance(pure, bool) or any(a.dtype.lanes != 1 for a in args):
                raise ValueError(f"bad call {value!r}")
            return make(op, to.scalar, args, callee(_text(name), kind, pure))
        if op in ACCESSES:
            buffer = self._buffer(value)
            lanes = max([a.dtype.lanes for a in args], default=1)
            whole = op == "load" and to != buffer.dtype.with_lanes(lanes)
            if whole or (op != "load" and to != HANDLE) or not all(a.dtype.is_integer for a in args):
                raise ValueError(f"bad {op} of {buffer.name}")
            return make(op, to, args, buffer)
        if op in ("ramp", "broadcast") and args and all(a.dtype == to.scalar for a in args):
            if len(args) != (2 if op == "ramp" else 1):
                raise ValueError(f"bad {op}")
            return make(op, to, args)
        if not _is_well_typed(op, to, [a.dtype for a in args]):
            raise ValueError(f"bad {op!r} of {[str(a.dtype) for a in args]} giving {to}")
        return make(op, to, args)

    def _reduction(
        self, op: str, to: DType, args: tuple[Expr, ...], how: Any, over: Any, value_index: Any = 0
    ) -> Reduction:
        axes = tuple(self._axis(a) for a in over)
        if not axes or any(a.kind != "reduce" for a in axes):
            raise ValueError("bad axes of a reduction")
        if isinstance(how, str) and how not in BUILT_IN:
            raise ValueError(f"bad reduction {how!r}")
        made = Reduction(how if isinstance(how, str) else self._combiner(how), axes, value_index)
        sources, condition, rest = made.parts(args)
        types = [e.dtype for e in sources]
        if _at(types, value_index) != to or not condition.dtype.is_bool:
            raise ValueError(f"bad reduction {made.name!r}")
        if isinstance(made.combiner, Combiner) and (op == "scatter" or types != [v.dtype for v in made.combiner.left]):
            raise ValueError(f"bad operands of {made.name!r}")
        if op == "scatter" and not (rest and all(i.dtype.is_integer for i in rest)):
            raise ValueError("bad place of a scatter")
        if op == "reduce" and rest and [e.dtype for e in rest] != types:
            raise ValueError("bad first values of a reduction")
        return made

    def _combiner(self, at: Any) -> Combiner:
        if at not in self._combiners:
            entry = _at(self._data["combiners"], at)
            left, right = (tuple(_at(self._variables, v) for v in entry[side]) for side in ("left", "right"))
            result, identity = (tuple(self._expr(e) for e in entry[part]) for part in ("result", "identity"))
            types = [v.dtype for v in left]
            own = {*left, *right}
            if not types or any([e.dtype for e in part] != types for part in (right, result, identity)):
                raise ValueError("bad types of a combiner")
            if len(own) != 2 * len(types) or any(v.value.role != "let" for v in own):
                raise ValueError("bad operands of a combiner")
            foreign = any(
                e.op in ("read", "call", *REDUCTIONS) or (e.op == "var" and e not in own) for e in post_order(result)
            )
            if foreign or any(e.op != "const" for e in identity):
                raise ValueError("a combiner of more than its operands")
            self._combiners[at] = Combiner(_text(entry["name"]), left, right, result, identity)
        return self._combiners[at]


def _at(table: Any, position: Any) -> Any:
    """`table[position]`, but only for a plain position: not -1, True or 1.0."""
    if type(position) is not int or not 0 <= position < len(table):
        raise ValueError(f"bad position {position!r}")
    return table[position]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")
    return value


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
    if info is None or len(of) != info.arity or any(t.lanes != to.lanes for t in of):
        return False
    first = of[0]
    alike = all(t == first for t in of)
    match info.kind:
        case "arith":
            if op == "div":
                return alike and to == first and to.is_float
            if op == "truncdiv":
                return alike and to == first and to.is_integer
            return alike and to == first and (op in ("min", "max") or not to.is_bool)
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
        case "math":
            if op == "ldexp":
                return first.is_float and to == first and of[1] == "int32"
            return alike and first.is_float and (to.is_bool if op in ("isnan", "isinf", "isfinite") else to == first)
    return False


def workload_key(args: Sequence[Tensor]) -> str:
    """A hash of the op graph, shapes and dtypes: 16 hex digits. Names do not matter, order does."""
    data = graph_to_json(args)
    for entry in (*data["ops"], *data.get("combiners", ())):
        entry.pop("name")
    data["vars"] = [[of, role] for _, of, role in data["vars"]]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
