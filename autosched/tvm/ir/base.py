"""`tvm.ir.base`: structural equality, and programs as JSON text that another process can read.

Expressions built alike from the same variables are one object, so `is` compares those. Structural equality compares
what has variables of its own, whatever they are called: functions, loops, and the graphs of te tensors.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from autosched.errors import AutoschedError, LowerError, RecordError, UsageError
from autosched.ir.expr import Expr, as_expr, const, make
from autosched.ir.simplify import Analyzer, is_integer_index
from autosched.ir.stmt import (
    Allocate,
    Buffer,
    For,
    Function,
    Produce,
    Seq,
    Stmt,
    Store,
    expressions,
    map_stmt,
    seq,
    walk,
)
from autosched.ir.visit import post_order, rebuild, rewrite
from autosched.schedule.schedule import Schedule, replay
from autosched.te.graph_json import graph_from_json, graph_to_json
from autosched.te.tensor import Operation, Tensor, compute
from autosched.tir.module import IRModule, PrimFunc
from autosched.tvm.driver import lower
from autosched.tvm.script.written import as_written

#: fields that are labels: loops and kernels may be called anything
_LABELS = ("name", "tag")


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Return whether two expressions, statements, functions, modules or tensors are alike.

    Variables that loops and shapes of parameters define may differ; free ones must be the same, unless `map_free_vars`.

    >>> from autosched import te
    >>> a, b = te.var("a"), te.var("b")
    >>> structural_equal(a + 1, b + 1), structural_equal(a + 1, b + 1, map_free_vars=True)
    (False, True)
    """
    return _differing(lhs, rhs, map_free_vars) is None


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise ValueError, with the first parts that differ, unless `structural_equal`."""
    found = _differing(lhs, rhs, map_free_vars)
    if found is not None:
        raise ValueError(f"not structurally equal:\n{found[0]}\n-- is not --\n{found[1]}")


def _differing(lhs: Any, rhs: Any, map_free_vars: bool) -> tuple[Any, Any] | None:
    """The first parts that differ; None where the loops are alike, as lowering makes them or as scripts say them."""
    comparison, refused = _Comparison(map_free_vars), None
    try:
        left, right = _loops_of(lhs), _loops_of(rhs)
        if comparison.same(left, right):
            return None
    except LowerError as error:  # what a script may say, and no target runs
        refused = error
    if not all(_is_of_blocks(x) for x in (lhs, rhs)):
        if refused is not None:
            raise refused
        return comparison.differ or (left, right)
    said = _Comparison(map_free_vars)
    try:
        alike = said.same(_loops_of(_written(lhs)), _loops_of(_written(rhs)))
    except AutoschedError:
        alike = False
    if alike:
        return None
    if refused is not None:
        raise refused
    return comparison.differ or (left, right)


def _is_of_blocks(node: Any) -> bool:
    """Whether scripts are compared: of functions, of which some have stages."""
    return isinstance(node, (PrimFunc, Function)) or (isinstance(node, IRModule) and len(node) > 0)


def _written(node: Any) -> Any:
    if isinstance(node, IRModule):
        return IRModule({k: _written(f) for k, f in node.items()})
    return replace(as_written(node), attrs=node.attrs) if isinstance(node, PrimFunc) else node


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """Return a number that is the same for what is structurally equal: of functions, by their parameters alone."""
    return hash(tuple(sorted(_census(_loops_of(node)).items())))


def _loops_of(node: Any) -> Any:
    """Functions of blocks, and modules of them, as loops: these are compared."""
    if isinstance(node, PrimFunc):
        loops: Function = lower(node, name=node.name, simple_mode=True)[node.name]
        return _plain(replace(loops, attrs=node.attrs))
    if isinstance(node, Function):
        return _plain(node)
    return IRModule({k: _loops_of(f) for k, f in node.items()}) if isinstance(node, IRModule) else node


def _plain(f: Function) -> Function:
    """The function without what says nothing about what it does: names of parts, hints, types and forms of indices,
    and where memory is taken that is used later."""
    taken: dict[Buffer, None] = {}

    def on_stmt(s: Stmt) -> Stmt:
        if isinstance(s, Allocate):
            taken[s.buffer] = None
        return s.body if isinstance(s, (Produce, Allocate)) else seq(*s.stmts) if isinstance(s, Seq) else s

    an, ends = Analyzer(), dict[Expr, set[tuple[Expr, Expr]]]()
    for s in walk(f.body):
        if isinstance(s, For):
            ends.setdefault(s.var, set()).add((s.start, s.extent))
    for var, (*others, (start, extent)) in ends.items():
        if not others and is_integer_index(start) and is_integer_index(extent):
            an.bind(var, start, start + extent - 1)
    body = map_stmt(f.body, partial(_plain_expr, an), on_stmt)
    first = dict.fromkeys(s.buffer for s in walk(body) if isinstance(s, Store))
    for buffer in reversed([*(b for b in first if b in taken), *(b for b in taken if b not in first)]):
        body = Allocate(buffer, body)
    return replace(f, body=body)


#: comparisons that say which of two numbers is the larger one
_ORDERED = ("lt", "le", "gt", "ge")
#: types of indices, whose arithmetic is that of numbers in both
_OF_PLACES = ("int32", "int64")


def _is_place(e: Expr) -> bool:
    return e.dtype in _OF_PLACES and is_integer_index(e)


def _plain_expr(an: Analyzer, root: Expr) -> Expr:
    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if e.op == "likely":
            return args[0]
        if e.op in _ORDERED and all(map(is_integer_index, args)) and not is_integer_index(e):
            a, b = args if e.op in ("lt", "le") else reversed(args)
            least = 0 if e.op in ("le", "ge") else 1  # a <= b and a + 1 <= b, as 0 <= b - a - 1
            return make("le", e.dtype, (const(0), an.simplify(b - a - least)))
        if e.op == "cast" and _is_place(e) and _is_place(e.args[0]):
            return args[0]
        if not any(map(is_integer_index, args)) or is_integer_index(e):
            return None
        return rebuild(e, tuple(an.simplify(a) if is_integer_index(a) else a for a in args))

    made = rewrite(root, change)
    return an.simplify(made) if is_integer_index(made) else made


#: attributes that say nothing about what a function does
_REMARKS = ("stages", "explicit_sizes")


def _attributes(f: Function) -> dict[str, Any]:
    return {k: v for k, v in f.attrs.items() if k not in _REMARKS}


def _census(node: Any) -> Counter[str]:
    """The number of nodes of each kind, which equal programs have in common."""
    if isinstance(node, IRModule):
        return sum((_census(f) for f in node.values()), Counter())
    if isinstance(node, Function):  # whose loops may be alike, or their scripts
        return Counter(f"{b.dtype}[{b.ndim}]" for b in node.params)
    if isinstance(node, Expr):
        return Counter(e.op if _is_place(e) else f"{e.op} {e.dtype}" for e in post_order(node))
    if isinstance(node, Stmt):
        found = Counter(type(s).__name__ for s in walk(node))
        return sum((_census(e) for s in walk(node) for e in expressions(s)), found)
    return Counter(type(x).__name__ for x in (getattr(node, "op", node),))


class _Comparison:
    """Variables, buffers and operations of the left side, and their partners on the right, so far."""

    def __init__(self, map_free_vars: bool) -> None:
        self.free = map_free_vars
        self.partner: dict[Any, Any] = {}
        self.back: dict[Any, Any] = {}
        self.equal: set[tuple[int, int]] = set()
        #: the innermost parts that are not alike
        self.differ: tuple[Any, Any] | None = None

    def same(self, a: Any, b: Any) -> bool:
        """Return whether these parts are alike."""
        found = self._compared(a, b)
        if not found and self.differ is None and isinstance(a, (Expr, Stmt, Function)):
            self.differ = (a, b)
        return found

    def _compared(self, a: Any, b: Any) -> bool:
        if isinstance(a, (tuple, list)):
            return isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(self.same, a, b))
        if isinstance(a, IRModule):
            return isinstance(b, IRModule) and a.keys() == b.keys() and all(self.same(a[k], b[k]) for k in a)
        if isinstance(a, Expr) and isinstance(b, (bool, int, float)):
            b = as_expr(b)  # as TVM takes numbers of Python's
        if isinstance(b, Expr) and isinstance(a, (bool, int, float)):
            a = as_expr(a)
        if type(a) is not type(b):
            return False
        if isinstance(a, Expr):
            return self._exprs(a, b)
        if isinstance(a, Buffer):
            return self._buffers(a, b)
        if isinstance(a, Function):
            return self._functions(a, b)
        if hasattr(a, "op") and hasattr(a, "value_index"):
            return a.value_index == b.value_index and self._operations(a.op, b.op)
        if hasattr(a, "input_tensors"):
            return self._operations(a, b)
        if is_dataclass(a):
            return self._parts(a, b)
        return bool(a == b)

    def _parts(self, a: Any, b: Any) -> bool:
        """Statements: what defines a variable or buffer comes before what uses it."""
        for f in fields(a):
            x, y = getattr(a, f.name), getattr(b, f.name)
            if f.name == "var" and isinstance(x, Expr):
                self._pair(x, y)
            elif f.name == "buffer" and type(a).__name__ == "Allocate":
                if not self._define(x, y):
                    return False
            elif f.name not in _LABELS and not self.same(x, y):
                return False
        return True

    def _pair(self, a: Any, b: Any) -> None:
        if a in self.partner or b in self.back:
            self.equal.clear()
        self.partner[a], self.back[b] = b, a

    def _exprs(self, a: Expr, b: Expr) -> bool:
        if a.op == "var":
            return self._vars(a, b)
        places = _is_place(a) and _is_place(b)
        if a.op != b.op or (a.dtype != b.dtype and not places) or len(a.args) != len(b.args):
            return False
        if (id(a), id(b)) in self.equal:
            return True
        if a.op == "const":
            return a is b or (places and a.value == b.value)
        if a.op in ("reduce", "scatter"):
            alike = self._reductions(a.value, b.value)
        elif a.op in ("cast", "broadcast") or a.value is None:
            alike = True
        else:
            alike = self.same(a.value, b.value)
        if alike and all(map(self.same, a.args, b.args)):
            self.equal.add((id(a), id(b)))
            return True
        return False

    def _vars(self, a: Expr, b: Expr) -> bool:
        if a in self.partner or b in self.back:
            return self.partner.get(a) is b and self.back.get(b) is a
        if b.op != "var" or (a.dtype != b.dtype and not (_is_place(a) and _is_place(b))):
            return False
        if a is not b and not self.free and not (a.value.role == b.value.role == "thread" and a.name == b.name):
            return False
        self._pair(a, b)
        return True

    def _buffers(self, a: Buffer, b: Buffer) -> bool:
        if a in self.partner or b in self.back:
            return self.partner.get(a) is b and self.back.get(b) is a
        return a is b or (self.free and self._define(a, b))

    def _define(self, a: Buffer, b: Buffer) -> bool:
        self._pair(a, b)
        lays = (a.dtype, a.scope, a.data_alignment, a.offset_factor) == (
            b.dtype, b.scope, b.data_alignment, b.offset_factor)  # fmt: skip
        return lays and self.same(a.shape, b.shape) and self.same(a.strides, b.strides)

    def _functions(self, a: Function, b: Function) -> bool:
        if len(a.params) != len(b.params) or a.outputs != b.outputs or len(a.sizes) != len(b.sizes):
            return False
        lengths = [(x, y) for p, q in zip(a.params, b.params, strict=True) for x, y in zip(p.shape, q.shape)]
        for x, y in (*((x, y) for x, y in lengths if x in a.sizes and y in b.sizes), *zip(a.sizes, b.sizes)):
            if x not in self.partner and y not in self.back:  # by the shapes that they are read off
                self._pair(x, y)
        return (
            all(map(self._define, a.params, b.params))
            and _attributes(a) == _attributes(b)
            and self.same(a.body, b.body)
        )

    def _reductions(self, a: Any, b: Any) -> bool:
        if a.name != b.name or a.value_index != b.value_index or len(a.axes) != len(b.axes):
            return False
        if not isinstance(a.combiner, str):
            for x, y in zip((*a.combiner.left, *a.combiner.right), (*b.combiner.left, *b.combiner.right), strict=True):
                self._pair(x, y)
            if not self.same(a.combiner.result, b.combiner.result):
                return False
        return self._axes(a.axes, b.axes)

    def _axes(self, a: Any, b: Any) -> bool:
        for x, y in zip(a, b, strict=True):
            self._pair(x.var, y.var)
            if not (self.same(x.min, y.min) and self.same(x.extent, y.extent)):
                return False
        return True

    def _operations(self, a: Any, b: Any) -> bool:
        """Computations with the same body over the same inputs; placeholders of one shape and type."""
        if a in self.partner or b in self.back:
            return self.partner.get(a) is b and self.back.get(b) is a
        if type(a) is not type(b) or len(a.shape) != len(b.shape) or a.num_outputs != b.num_outputs:
            return False
        self._pair(a, b)
        for x, y in zip(a.shape, b.shape, strict=True):
            if x.op == y.op == "var" and x not in self.partner and y not in self.back:
                self._pair(x, y)  # sizes are defined by the shapes of tensors
        if not self.same(a.shape, b.shape) or a.dtype != b.dtype:
            return False
        if hasattr(a, "axis") and hasattr(a, "body"):
            if len(a.axis) != len(b.axis) or not self._axes(a.axis, b.axis):
                return False
            return self.same(a.body, b.body)
        return self.same(list(a.input_tensors), list(b.input_tensors))


# -- JSON ---------------------------------------------------------------------------------------------

_LEGAL = "a Schedule, a PrimFunc or a module of them, a tensor or operation, a list of tensors, an expression"


def save_json(node: Any) -> str:
    """Return the JSON text of a schedule, function, module, tensor, operation or expression.

    Raises UsageError for anything else, such as a lowered function.

    >>> from autosched import create_schedule, te
    >>> A = te.placeholder((64,), name="A")
    >>> B = te.compute((64,), lambda i: A[i] + 1, name="B")
    >>> s = create_schedule(B)
    >>> _ = s[B].split("i", factor=8)
    >>> load_json(save_json(s))["B"]
    Stage(B: i.outer / i.inner)
    """
    return json.dumps(_to_data(node))


def _to_data(node: Any) -> dict[str, Any]:
    if isinstance(node, Schedule):
        return {"schedule": graph_to_json(node.outputs), "trace": node.trace.to_json()}
    if isinstance(node, PrimFunc):
        kept = [t for t in node.schedule.outputs if t not in node.args]  # which callers do not see
        outputs = [(*node.args, *kept).index(t) for t in node.schedule.outputs]
        graph = graph_to_json([*node.args, *kept])
        what = {"function": graph, "outputs": outputs, "trace": node.schedule.trace.to_json(), "attrs": node.attrs}
        return {**what, **({"inside": len(kept)} if kept else {})}
    if isinstance(node, IRModule):
        return {"module": {str(name): _to_data(f) for name, f in node.items()}}
    if isinstance(node, Operation):
        return {"operation": graph_to_json([node.output_tensor])}
    if isinstance(node, Tensor):
        return {"tensor": graph_to_json([node])}
    if isinstance(node, (list, tuple)) and node and all(isinstance(t, Tensor) for t in node):
        return {"tensors": graph_to_json(node)}
    if isinstance(node, Expr):
        return {"expression": graph_to_json([compute((), lambda: node, name="expression")])}
    raise UsageError(f"a {type(node).__name__} is not stored", asked="save_json", legal=_LEGAL)


def load_json(json_str: str) -> Any:
    """Return a copy of what `save_json` was given: of a schedule, a new graph on which the trace was replayed.

    Raises RecordError for other text.
    """
    try:
        return _from_data(json.loads(json_str))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise RecordError(
            f"it is not what save_json writes ({error})", asked="load_json", legal="the text itself"
        ) from None


def _from_data(data: dict[str, Any]) -> Any:
    if "schedule" in data:
        return replay(data["trace"], graph_from_json(data["schedule"]))
    if "function" in data:
        all_of = graph_from_json(data["function"])
        args = tuple(all_of[: len(all_of) - int(data.get("inside", 0))])
        return PrimFunc(args, replay(data["trace"], [all_of[k] for k in data["outputs"]]), dict(data["attrs"]))
    if "module" in data:
        return IRModule({name: _from_data(f) for name, f in data["module"].items()})
    ((kind, graph),) = data.items()
    tensors = graph_from_json(graph)
    if kind == "operation":
        return tensors[0].op
    if kind == "expression":
        (body,) = tensors[0].op.body  # type: ignore[attr-defined]
        return body
    if kind not in ("tensor", "tensors"):
        raise ValueError(f"unknown kind {kind!r}")
    return tensors if kind == "tensors" else tensors[0]
