"""Op graphs as plain data: what a worker process is sent, and what a workload's key is a hash of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from autosched.errors import RecordError, UsageError
from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import Expr, is_const, make
from autosched.ir.json import TableReader, TableWriter, at_position, number, text
from autosched.ir.visit import post_order
from autosched.te.extern import ExternOp
from autosched.te.reduction import BUILT_IN, REDUCTIONS, Combiner, Reduction
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, Graph, IterVar, Operation, PlaceholderOp, Tensor, is_size

VERSION = 1


class _Writer(TableWriter):
    def __init__(self) -> None:
        super().__init__()
        self.op_at: dict[Operation, int] = {}
        self.tables["axes"] = []

    def value(self, e: Expr) -> Any:
        if e.op == "read":
            return self.tensor(e.value)
        if e.op not in REDUCTIONS:
            return super().value(e)
        axes = [self.axis(a) for a in e.value.axes]
        if isinstance(e.value.combiner, str):
            return [e.value.combiner, axes]
        return [self.combiner(e.value.combiner), axes, e.value.value_index]

    def opaque(self, op: ExternOp) -> dict[str, Any]:
        """An opaque operation: what `reference` computes is not known to those who read it."""
        ins, outs = ([self.buffer(b) for b in buffers] for buffers in (op.in_buffers, op.out_buffers))
        body = self.statement(op.statement)
        return {"inputs": [self.tensor(t) for t in op.inputs], "in": ins, "out": outs, "statement": body}

    def combiner(self, c: Combiner) -> int:
        def entry() -> dict[str, Any]:
            left, right = ([self.variable(v) for v in side] for side in (c.left, c.right))
            result, identity = self.exprs(c.result), self.exprs(c.identity)
            return {"name": c.name, "left": left, "right": right, "result": result, "identity": identity}

        return self.place("combiners", c, entry)

    def tensor(self, t: Tensor) -> int | list[int]:
        at = self.op_at[t.op]
        return [at, t.value_index] if t.value_index else at

    def axis(self, a: IterVar) -> int:
        return self.place("axes", a, lambda: [self.variable(a.var), self.expr(a.min), self.expr(a.extent), a.kind])


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
            "shape": writer.exprs(op.shape),
        }
        if isinstance(op, ComputeOp):
            for a in op.axis:
                writer.axis(a)
            body = writer.exprs(op.body)
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
    return {"v": VERSION, **writer.tables, "ops": ops, "args": [writer.tensor(t) for t in args]}


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
    if value is None or isinstance(value, (bool, int, float, str)):
        return number(value)
    legal = "numbers, strings, tensors that the operation depends on, and lists and dicts of them"
    raise UsageError(f"it holds {value!r}", asked=f"attrs of {name}, in a graph that is stored", legal=legal)


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


class _Reader(TableReader):
    """Builds the graph from positions that refer backwards, and checks every type on the way."""

    def __init__(self, data: dict[str, Any]) -> None:
        super().__init__(data)
        self._bound: set[Expr] = set()  # no two axes share a variable
        self._unowned: set[Expr] = set()
        self._ops: list[Operation] = []

    def tensors(self) -> list[Tensor]:
        for entry in self.data["ops"]:
            self._ops.append(self._operation(entry))
        return [self._tensor(at) for at in self.data["args"]]

    def _tensor(self, at: Any) -> Tensor:
        """A tensor from the position of its operation, or from that and the number of the output."""
        position, output = at if isinstance(at, list) else (at, 0)
        return at_position(at_position(self._ops, position).outputs, output)

    def _operation(self, entry: Any) -> Operation:
        types = entry["dtype"] if isinstance(entry["dtype"], list) else [entry["dtype"]]
        name, of = text(entry["name"]), [dtype(text(t)) for t in types]
        shape = list(self.exprs(entry["shape"]))
        if "scan" in entry:
            return self._scan(name, shape, of[0], entry)
        if "extern" in entry:
            return self._extern(name, entry)
        if "body" not in entry:
            return PlaceholderOp(name, shape, of[:1])
        axes = [self.made("axes", a, self._axis) for a in entry["axis"]]
        if len(axes) != len(shape) or any(
            a.kind != "spatial" or a.extent is not d or not is_const(a.min, 0) for a, d in zip(axes, shape, strict=True)
        ):
            raise ValueError(f"the axes of {name} are not those of its shape")
        self._own(axes)
        body = entry["body"] if isinstance(entry["body"], list) else [entry["body"]]
        op = ComputeOp(name, shape, axes, self.exprs(body), text(entry.get("tag", "")), self._attrs(entry))
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
        op = ScanOp(name, init, update, state, inputs, text(entry.get("tag", "")), self._attrs(entry))
        if op.dtype != of or list(op.shape) != shape:
            raise ValueError(f"{name} is not like its update")
        return op

    def _extern(self, name: str, entry: Any) -> Operation:
        parts = entry["extern"]
        inputs = [self._tensor(at) for at in parts["inputs"]]
        ins, outs = ([self.buffer(at) for at in parts[side]] for side in ("in", "out"))
        if len(ins) != len(inputs) or not outs:
            raise ValueError(f"bad buffers of {name}")
        body = self.statement(parts["statement"])
        return ExternOp(name, inputs, ins, outs, body, text(entry.get("tag", "")), self._attrs(entry))

    def _axis(self, entry: Any) -> IterVar:
        variable, start, extent, kind = entry
        v, begin, length = self.variable(variable), self.expr(start), self.expr(extent)
        if kind not in ("spatial", "reduce") or not is_size(begin) or not is_size(length):
            raise ValueError(f"bad axis {v.name}")
        if v.value.role != "loop" or v in self._bound:
            raise ValueError(f"{v.name} is no variable for an axis")
        made = IterVar(v.name, length, kind, begin)
        made.var = v
        self._bound.add(v)
        self._unowned.add(v)
        return made

    def _own(self, axes: list[IterVar]) -> None:
        """A spatial axis belongs to one dimension of one operation."""
        for a in axes:
            if a.var not in self._unowned:
                raise ValueError(f"{a.name} is the axis of two dimensions")
            self._unowned.discard(a.var)

    def node(self, op: Any, to: DType, args: tuple[Expr, ...], value: Any) -> Expr:
        if op == "read":
            tensor = self._tensor(value)
            if tensor.dtype != to or len(args) != tensor.ndim or not all(a.dtype.is_integer for a in args):
                raise ValueError(f"bad read of {tensor.name}")
            return make(op, to, args, tensor)
        if op in REDUCTIONS:
            return make(op, to, args, self._reduction(op, to, args, *value))
        return super().node(op, to, args, value)

    def _reduction(
        self, op: str, to: DType, args: tuple[Expr, ...], how: Any, over: Any, value_index: Any = 0
    ) -> Reduction:
        axes = tuple(self.made("axes", a, self._axis) for a in over)
        if not axes or any(a.kind != "reduce" for a in axes):
            raise ValueError("bad axes of a reduction")
        if isinstance(how, str) and how not in BUILT_IN:
            raise ValueError(f"bad reduction {how!r}")
        combiner = how if isinstance(how, str) else self.made("combiners", how, self._combiner)
        made = Reduction(combiner, axes, value_index)
        sources, condition, rest = made.parts(args)
        types = [e.dtype for e in sources]
        if at_position(types, value_index) != to or not condition.dtype.is_bool:
            raise ValueError(f"bad reduction {made.name!r}")
        if isinstance(made.combiner, Combiner) and (op == "scatter" or types != [v.dtype for v in made.combiner.left]):
            raise ValueError(f"bad operands of {made.name!r}")
        if op == "scatter" and not (rest and all(i.dtype.is_integer for i in rest)):
            raise ValueError("bad place of a scatter")
        if op == "reduce" and rest and [e.dtype for e in rest] != types:
            raise ValueError("bad first values of a reduction")
        return made

    def _combiner(self, entry: Any) -> Combiner:
        left, right = (tuple(map(self.variable, entry[side])) for side in ("left", "right"))
        result, identity = self.exprs(entry["result"]), self.exprs(entry["identity"])
        types, own = [v.dtype for v in left], {*left, *right}
        if not types or any([e.dtype for e in part] != types for part in (right, result, identity)):
            raise ValueError("bad types of a combiner")
        if len(own) != 2 * len(types) or any(v.value.role != "let" for v in own):
            raise ValueError("bad operands of a combiner")
        parts = post_order(result)
        foreign = any(e.op in ("read", "call", *REDUCTIONS) or (e.op == "var" and e not in own) for e in parts)
        if foreign or any(e.op != "const" for e in identity):
            raise ValueError("a combiner of more than its operands")
        return Combiner(text(entry["name"]), left, right, result, identity)


def workload_key(args: Sequence[Tensor]) -> str:
    """A hash of the op graph, shapes and dtypes: 16 hex digits. Names do not matter, order does."""
    data = graph_to_json(args)
    for entry in (*data["ops"], *data.get("combiners", ())):
        entry.pop("name")
    data["vars"] = [[of, role] for _, of, role in data["vars"]]
    line = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(line.encode()).hexdigest()[:16]
