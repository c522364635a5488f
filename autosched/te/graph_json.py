"""Op graphs as plain data: what a worker process is sent, and what a workload's key is a hash of.

    {"vars": [["height", "int32", "size"], ...],
     "exprs": [[op, dtype, args, value], ...],              args are earlier positions
     "ops": [{"name", "kind", "shape", "dtype", "axis", "body"}, ...],
     "args": [positions in ops]}

Reading it builds expressions from a fixed table of operators; nothing in it is ever run as code.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any

from autosched.errors import RecordError
from autosched.ir.dtype import dtype
from autosched.ir.expr import OPS, Expr, make, post_order, var
from autosched.te.tensor import ComputeOp, Graph, IterVar, Operation, PlaceholderOp, Reduction, Tensor

__all__ = ["graph_from_json", "graph_to_json", "workload_key"]

VERSION = 1


class _Writer:
    def __init__(self) -> None:
        self.vars: list[list[Any]] = []
        self.exprs: list[list[Any]] = []
        self.axes: list[list[Any]] = []
        self._var_at: dict[Expr, int] = {}
        self._expr_at: dict[Expr, int] = {}
        self._axis_at: dict[IterVar, int] = {}
        self.op_at: dict[Operation, int] = {}

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
            return self.op_at[e.value.op]
        if e.op == "reduce":
            return [e.value.combiner, [self.axis(a) for a in e.value.axes]]
        return None

    def variable(self, v: Expr) -> int:
        at = self._var_at.get(v)
        if at is None:
            at = self._var_at[v] = len(self.vars)
            self.vars.append([v.value.name, str(v.dtype), v.value.role])
        return at

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
        entry: dict[str, Any] = {
            "name": op.name,
            "dtype": str(op.dtype),
            "shape": [writer.expr(d) for d in op.shape],
        }
        if isinstance(op, ComputeOp):
            for a in op.axis:
                writer.axis(a)
            entry["body"] = writer.expr(op.body)
            entry["axis"] = [writer.axis(a) for a in op.axis]
            entry["tag"] = op.tag
        ops.append(entry)
    return {
        "v": VERSION,
        "vars": writer.vars,
        "exprs": writer.exprs,
        "axes": writer.axes,
        "ops": ops,
        "args": [writer.op_at[t.op] for t in args],
    }


def graph_from_json(data: dict[str, Any]) -> list[Tensor]:
    """The tensors that `graph_to_json` was given. Raises RecordError if `data` is not such a graph."""
    try:
        if data["v"] != VERSION:
            raise RecordError(f"graph format {data['v']} is not {VERSION}", asked="workload graph")
        return _read(data)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(f"not a workload graph ({type(error).__name__}: {error})", asked="workload graph") from None


def _read(data: dict[str, Any]) -> list[Tensor]:
    variables = [var(str(name), dt, str(role)) for name, dt, role in data["vars"]]
    exprs: dict[int, Expr] = {}
    axes: dict[int, IterVar] = {}
    ops: list[Operation] = []

    def expr(at: int) -> Expr:
        """Entries refer backwards only, so this ends."""
        for position in _needed(data["exprs"], at, exprs):
            op, of, arg_at, value = data["exprs"][position]
            if op not in OPS or any(a >= position for a in arg_at):
                raise ValueError(f"bad expression {position}")
            args = tuple(exprs[a] for a in arg_at)
            exprs[position] = _expression(op, of, args, value)
        return exprs[at]

    def _expression(op: str, of: str, args: tuple[Expr, ...], value: Any) -> Expr:
        to = dtype(of)
        if op == "const":
            return make("const", to, (), float(value) if to.is_float else bool(value) if to.is_bool else int(value))
        if op == "var":
            return variables[value]
        if op == "read":
            return make("read", to, args, ops[value].output_tensor)
        if op == "reduce":
            combiner, axis_at = value
            if combiner not in ("sum", "prod", "min", "max"):
                raise ValueError(f"bad reduction {combiner!r}")
            return make("reduce", to, args, Reduction(combiner, tuple(axis(a) for a in axis_at)))
        return make(op, to, args)

    def axis(at: int) -> IterVar:
        if at not in axes:
            variable, start, extent, kind = data["axes"][at]
            made = IterVar(variables[variable].name, expr(extent), str(kind), expr(start))
            made.var = variables[variable]
            axes[at] = made
        return axes[at]

    for entry in data["ops"]:
        shape = [expr(d) for d in entry["shape"]]
        if "body" in entry:
            domain = [axis(a) for a in entry["axis"]]
            ops.append(ComputeOp(str(entry["name"]), shape, domain, expr(entry["body"]), str(entry.get("tag", ""))))
        else:
            ops.append(PlaceholderOp(str(entry["name"]), shape, dtype(entry["dtype"])))
    return [ops[at].output_tensor for at in data["args"]]


def _needed(entries: list[Any], at: int, done: dict[int, Expr]) -> list[int]:
    """Positions below `at` that are not built yet, in order."""
    wanted: set[int] = set()
    stack = [at]
    while stack:
        position = stack.pop()
        if position not in done and position not in wanted:
            wanted.add(position)
            stack.extend(entries[position][2])
    return sorted(wanted)


def workload_key(args: Sequence[Tensor]) -> str:
    """A hash of the op graph, shapes and dtypes: 16 hex digits. Names do not matter, order does."""
    data = graph_to_json(args)
    for entry in data["ops"]:
        entry.pop("name")
    data["vars"] = [[of, role] for _, of, role in data["vars"]]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
