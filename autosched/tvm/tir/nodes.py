"""TVM's node classes, as names for kinds of this package's one Expr class and its statements.

    isinstance(e, tir.Add)      e.op == "add"
    tir.Add(a, b)               the expression a + b
    isinstance(s, tir.For)      s is an ir.stmt.For

`EXPRESSIONS` and `STATEMENTS` are the tables; there is no second representation of programs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from autosched.errors import UsageError, UsageTypeError
from autosched.ir import expr as ir
from autosched.ir import stmt
from autosched.ir.calls import call_intrin
from autosched.ir.expr import Expr
from autosched.ir.node import order
from autosched.ir.visit import substitute
from autosched.schedule.stage import Loop
from autosched.te import tensor as te
from autosched.te.functions import ThreadAxis, const, var
from autosched.tir.module import PrimFunc
from autosched.tvm.attributes import IterType


class ForKind(StrEnum):
    """Kinds of loops; equal to the strings that `ir.stmt.For.kind` holds."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorize"
    UNROLLED = "unroll"
    THREAD_BINDING = "thread"


@dataclass(frozen=True)
class Node:
    """A kind of node: the test that `isinstance` makes, and the constructor, with TVM's names of arguments."""

    matches: Callable[[Any], bool]
    make: Callable[..., Any]


#: classes whose instances stand for the expression of their `as_expr`
STANDING_FOR: set[type] = set()


class NodeType(type):
    """The class of TVM's node classes: `isinstance` asks the table, a call makes an expression or statement."""

    node: Node

    def __instancecheck__(cls, instance: object) -> bool:
        node: Any = instance
        return cls.node.matches(node.as_expr() if type(instance) in STANDING_FOR else node)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.node.make(*args, **{k: v for k, v in kwargs.items() if k != "span"})

    def __repr__(cls) -> str:
        return f"<node type tir.{cls.__name__}>"


# -- constructors, with TVM's names and order of arguments -----------------------------------------


def _for(
    loop_var: Any,
    min: Any,
    extent: Any,
    kind: Any,
    body: stmt.Stmt,
    thread_binding: Any = None,
    annotations: Any = None,
) -> stmt.For:
    """A loop variable that is a `te.var` stands for any size elsewhere: inside, it becomes one of the loop.

    Before TVM 0.8, a number without a meaning stood before the body.
    """
    if isinstance(body, int) and isinstance(thread_binding, stmt.Stmt):
        body, thread_binding = thread_binding, None
    var = ir.as_expr(loop_var)
    if var.op != "var":
        raise UsageError(f"{var!r} is not a variable", asked="tir.For", legal='te.var("i") or tir.Var("i", "int32")')
    if annotations:
        raise UsageError(
            "loops carry no annotations", asked=f"tir.For({var!r}, annotations=...)", legal="no annotations"
        )
    called = list(ForKind)[kind] if isinstance(kind, int) else ForKind(kind)
    if var.value.role != "loop":
        inside = ir.var(var.value.name, var.dtype, "loop")
        body, var = stmt.substitute_stmt(body, {var: inside}), inside
    thread = getattr(thread_binding, "thread_tag", thread_binding) or ""
    return stmt.For(var, ir.as_expr(min), ir.as_expr(extent), called.value, body, thread)


def _store(buffer: stmt.Buffer, value: Any, indices: Sequence[Any]) -> stmt.Store:
    return stmt.Store(buffer, tuple(map(ir.as_expr, indices)), ir.as_expr(value, buffer.dtype))


def _if(condition: Any, then_case: stmt.Stmt, else_case: stmt.Stmt | None = None) -> stmt.If:
    return stmt.If(ir.logical_and(condition), then_case, else_case)


def _reduce(*args: Any, **kwargs: Any) -> Any:
    raise UsageError(
        "reductions are made by their combiner", asked="tir.Reduce(...)", legal="te.comm_reducer(fcombine, fidentity)"
    )


def _iter_var(dom: Any, var: Any, iter_type: int = 0, thread_tag: str = "") -> Any:
    raise UsageError(
        "axes are made by operations",
        asked=f"tir.IterVar({dom!r}, {var!r})",
        legal="te.compute makes them; te.reduce_axis((0, n), name) and te.thread_axis(tag) for the others",
    )


def _prim_func(
    params: Sequence[Any], body: stmt.Stmt, ret_type: Any = None, buffer_map: Any = None, attrs: Any = None
) -> stmt.Function:
    """Parameters are buffers, or variables that `buffer_map` has buffers for; those stored to are outputs."""
    buffers = tuple(getattr(b, "buffer", b) for b in ((buffer_map or {}).get(p, p) for p in params))
    for b in buffers:
        if not isinstance(b, stmt.Buffer):
            legal = "tir.decl_buffer(shape, dtype), or variables that buffer_map has buffers for"
            raise UsageTypeError(f"{b!r} is no buffer", asked="tir.PrimFunc", legal=legal)
    stored = {s.buffer for s in stmt.walk(body) if isinstance(s, stmt.Store)}
    dims = [d for b in buffers for d in (*b.shape, *b.strides)]
    sizes = dict.fromkeys(v for d in dims for v in sorted(ir.variables(d), key=order))
    outputs = tuple(i for i, b in enumerate(buffers) if b in stored)
    return stmt.Function("main", buffers, tuple(sizes), body, outputs, dict(attrs or {}))


# -- the tables ------------------------------------------------------------------------------------


def _op(*ops: str, make: Callable[..., Any], where: Callable[[Expr], bool] = lambda e: True) -> Node:
    return Node(lambda x: isinstance(x, Expr) and x.op in ops and where(x), make)


def _binary(op: str) -> Node:
    return _op(op, make=lambda a, b: ir.binary(op, a, b))


def _compare(op: str) -> Node:
    return _op(op, make=lambda a, b: ir.compare(op, a, b))


def _a(kind: type | tuple[type, ...], make: Callable[..., Any]) -> Node:
    return Node(lambda x: isinstance(x, kind), make)


def _is_call(x: Any) -> bool:
    """Test for nodes that TVM prints as calls: math, bits, `if_then_else`, `likely`, and calls proper."""
    if not isinstance(x, Expr):
        return False
    return x.op in ("if_then_else", "likely", "call", "abs") or ir.OPS[x.op].kind in ("math", "bits")


def _make_var(name: str | None = None, dtype: Any = "int32") -> Expr:
    return var(str(name), str(dtype))


EXPRESSIONS: dict[str, Node] = {
    "Var": _op("var", make=_make_var),
    "SizeVar": _op("var", make=_make_var, where=lambda e: e.value.role == "size"),
    "IntImm": _op("const", make=lambda dtype, value: const(int(value), dtype), where=lambda e: not e.dtype.is_float),
    "FloatImm": _op("const", make=lambda dtype, value: ir.const(float(value), dtype), where=lambda e: e.dtype.is_float),
    "Cast": _op("cast", make=lambda dtype, value: ir.cast(dtype, value)),
    "Add": _binary("add"),
    "Sub": _binary("sub"),
    "Mul": _binary("mul"),
    "Div": _op("div", "truncdiv", make=ir.divide),
    "Mod": _op("truncmod", make=ir.truncmod),
    "FloorDiv": _op("floordiv", make=ir.floordiv),
    "FloorMod": _op("floormod", make=ir.floormod),
    "Min": _binary("min"),
    "Max": _binary("max"),
    "EQ": _compare("eq"),
    "NE": _compare("ne"),
    "LT": _compare("lt"),
    "LE": _compare("le"),
    "GT": _compare("gt"),
    "GE": _compare("ge"),
    "And": _op("and", make=lambda a, b: ir.logical_and(a, b)),
    "Or": _op("or", make=lambda a, b: ir.logical_or(a, b)),
    "Not": _op("not", make=lambda a: ir.logical_not(a)),
    "Select": _op(
        "select", make=lambda condition, true_value, false_value: ir.select(condition, true_value, false_value)
    ),
    "Ramp": _op("ramp", make=lambda base, stride, lanes: ir.ramp(base, stride, int(lanes))),
    "Broadcast": _op("broadcast", make=lambda value, lanes: ir.broadcast(value, int(lanes))),
    "BufferLoad": _op("load", make=lambda buffer, indices: stmt.load(buffer, *map(ir.as_expr, indices))),
    "ProducerLoad": _op("read", make=lambda producer, indices: producer(*indices)),
    "Call": Node(_is_call, lambda dtype, op, args: call_intrin(dtype, str(op), *args)),
    "Reduce": _op("reduce", make=_reduce),
    "Let": Node(  # a value with a name is put where the name stands
        lambda x: False, lambda var, value, body: substitute(ir.as_expr(body), {var: ir.as_expr(value, var.dtype)})
    ),
}

STATEMENTS: dict[str, Node] = {
    "For": _a(stmt.For, _for),
    "BufferStore": _a(stmt.Store, _store),
    "IfThenElse": _a(stmt.If, _if),
    "SeqStmt": _a(stmt.Seq, lambda seq: stmt.seq(*seq)),
    "Evaluate": _a(stmt.Evaluate, lambda value: stmt.Evaluate(ir.as_expr(value))),
    "While": _a(stmt.While, lambda condition, body: stmt.While(ir.logical_and(condition), body)),
    "LetStmt": _a(stmt.Let, lambda var, value, body: stmt.Let(var, ir.as_expr(value, var.dtype), body)),
    "Allocate": _a(stmt.Allocate, stmt.Allocate),
    "IterVar": _a((te.IterVar, Loop, ThreadAxis), _iter_var),
    "PrimFunc": _a((stmt.Function, PrimFunc), _prim_func),
}

#: TVM's class -> the type that programs name it by
NODES: dict[str, NodeType] = {
    name: NodeType(name, (), {"node": node, "__doc__": f"TVM's node `{name}`: see `nodes`."})
    for name, node in {**EXPRESSIONS, **STATEMENTS}.items()
}
IterVar = NODES["IterVar"]
for _kind in IterType:
    setattr(IterVar, _kind.name, _kind)
for _number, _name in enumerate(("Serial", "Parallel", "Vectorized", "Unrolled")):  # as TVM 0.5 to 0.7 spelled them
    setattr(NODES["For"], _name, _number)


def matcher(names: Sequence[str] | None) -> Callable[[Any], bool]:
    """Return a test for nodes of these kinds, `["tir.For"]`; of any kind without names."""
    if names is None:
        return lambda node: True
    unknown = [n for n in names if n.removeprefix("tir.") not in NODES]
    if unknown:
        raise UsageError(
            f"no kind of node {unknown[0]!r}",
            asked=f"only_enable={list(names)}",
            legal=f"kinds: {', '.join(f'tir.{n}' for n in NODES)}",
        )
    kinds = tuple(NODES[n.removeprefix("tir.")] for n in names)
    return lambda node: isinstance(node, kinds)
