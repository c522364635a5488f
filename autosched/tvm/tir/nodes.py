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
from autosched.te.functions import ThreadAxis
from autosched.te.tensor import Tensor
from autosched.tir.prim_func import PrimFunc
from autosched.tvm.attributes import IterType

__all__ = ["EXPRESSIONS", "NODES", "STATEMENTS", "ForKind", "IterVar", "NodeType", "matcher"]


class ForKind(StrEnum):
    """Kinds of loops; equal to the strings that `ir.stmt.For.kind` holds."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorize"
    UNROLLED = "unroll"
    THREAD_BINDING = "thread"


@dataclass(frozen=True)
class Node:
    """One kind of node: what is one, and how one is made."""

    matches: Callable[[Any], bool]
    make: Callable[..., Any]
    doc: str


class NodeType(type):
    """The class of TVM's node classes: `isinstance` asks the table, a call builds an expression or statement."""

    node: Node

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.node.matches(instance)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.node.make(*args, **{k: v for k, v in kwargs.items() if k != "span"})

    def __repr__(cls) -> str:
        return f"<node type tir.{cls.__name__}>"


# -- constructors, with TVM's names and order of arguments -----------------------------------------


def _binary(op: str) -> Callable[[Any, Any], Expr]:
    def make(a: Any, b: Any) -> Expr:
        return ir.binary(op, a, b)

    return make


def _compare(op: str) -> Callable[[Any, Any], Expr]:
    def make(a: Any, b: Any) -> Expr:
        return ir.compare(op, a, b)

    return make


def _var(name: str = "tindex", dtype: Any = "int32") -> Expr:
    from autosched.te import var

    return var(str(name), str(dtype))


def _int(dtype: Any, value: int) -> Expr:
    return ir.const(int(value), dtype)


def _float(dtype: Any, value: float) -> Expr:
    return ir.const(float(value), dtype)


def _cast(dtype: Any, value: Any) -> Expr:
    return ir.cast(dtype, value)


def _select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    return ir.select(condition, true_value, false_value)


def _not(a: Any) -> Expr:
    return ir.logical_not(a)


def _and(a: Any, b: Any) -> Expr:
    return ir.logical_and(a, b)


def _or(a: Any, b: Any) -> Expr:
    return ir.logical_or(a, b)


def _ramp(base: Any, stride: Any, lanes: int) -> Expr:
    return ir.ramp(base, stride, int(lanes))


def _broadcast(value: Any, lanes: int) -> Expr:
    return ir.broadcast(value, int(lanes))


def _buffer_load(buffer: Any, indices: Sequence[Any]) -> Expr:
    return stmt.load(buffer, *map(ir.as_expr, indices))


def _producer_load(producer: Tensor, indices: Sequence[Any]) -> Expr:
    return producer(*indices)


def _let(var: Expr, value: Any, body: Any) -> Any:
    return substitute(ir.as_expr(body), {var: ir.as_expr(value, var.dtype)})


def _call(dtype: Any, op: Any, args: Sequence[Any]) -> Expr:
    return call_intrin(dtype, str(op), *args)


def _for(
    loop_var: Any,
    min: Any,
    extent: Any,
    kind: Any,
    body: stmt.Stmt,
    thread_binding: Any = None,
    annotations: Any = None,
) -> stmt.For:
    """A loop variable that is a `te.var` stands for any size elsewhere: inside, it becomes one of the loop."""
    var = ir.as_expr(loop_var)
    if var.op != "var":
        raise UsageError(f"{var!r} is not a variable", asked="tir.For", legal='te.var("i") or tir.Var("i", "int32")')
    if annotations:
        raise UsageError(
            "loops carry no annotations", asked=f"tir.For({var!r}, annotations=...)", legal="no annotations"
        )
    kinds = list(ForKind)
    called = kinds[kind] if isinstance(kind, int) else ForKind(kind)
    if var.value.role != "loop":
        inside = ir.var(var.value.name, var.dtype, "loop")
        body, var = stmt.substitute_stmt(body, {var: inside}), inside
    thread = getattr(thread_binding, "thread_tag", thread_binding) or ""
    return stmt.For(var, ir.as_expr(min), ir.as_expr(extent), called.value, body, thread)


def _store(buffer: stmt.Buffer, value: Any, indices: Sequence[Any]) -> stmt.Store:
    return stmt.Store(buffer, tuple(map(ir.as_expr, indices)), ir.as_expr(value, buffer.dtype))


def _if(condition: Any, then_case: stmt.Stmt, else_case: stmt.Stmt | None = None) -> stmt.If:
    return stmt.If(ir.logical_and(condition), then_case, else_case)


def _seq(seq: Sequence[stmt.Stmt]) -> stmt.Stmt:
    return stmt.seq(*seq)


def _evaluate(value: Any) -> stmt.Evaluate:
    return stmt.Evaluate(ir.as_expr(value))


def _while(condition: Any, body: stmt.Stmt) -> stmt.While:
    return stmt.While(ir.logical_and(condition), body)


def _reduce(*args: Any, **kwargs: Any) -> Any:
    raise UsageError(
        "reductions are made by their combiner", asked="tir.Reduce(...)", legal="te.comm_reducer(fcombine, fidentity)"
    )


def _let_stmt(var: Expr, value: Any, body: stmt.Stmt) -> stmt.Let:
    return stmt.Let(var, ir.as_expr(value, var.dtype), body)


def _iter_var(dom: Any, var: Any, iter_type: int = 0, thread_tag: str = "") -> Any:
    raise UsageError(
        "axes are made by operations",
        asked=f"tir.IterVar({dom!r}, {var!r})",
        legal="te.compute makes them; te.reduce_axis((0, n), name) and te.thread_axis(tag) for the others",
    )


# -- the tables ------------------------------------------------------------------------------------


def _op(*ops: str, where: Callable[[Expr], bool] = lambda e: True) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, Expr) and x.op in ops and where(x)


def _is_call(x: Any) -> bool:
    """Whether TVM would print it as a call: math, bits, `if_then_else`, `likely`, and calls proper."""
    if not isinstance(x, Expr):
        return False
    return x.op in ("if_then_else", "likely", "call", "abs") or ir.OPS[x.op].kind in ("math", "bits")


#: TVM's class -> what is one, and how it is made
EXPRESSIONS: dict[str, tuple[Callable[[Any], bool], Callable[..., Any]]] = {
    "Var": (_op("var"), _var),
    "SizeVar": (_op("var", where=lambda e: e.value.role == "size"), _var),
    "IntImm": (_op("const", where=lambda e: not e.dtype.is_float), _int),
    "FloatImm": (_op("const", where=lambda e: e.dtype.is_float), _float),
    "Cast": (_op("cast"), _cast),
    "Add": (_op("add"), _binary("add")),
    "Sub": (_op("sub"), _binary("sub")),
    "Mul": (_op("mul"), _binary("mul")),
    "Div": (_op("div", "truncdiv"), ir.divide),
    "Mod": (_op("truncmod"), ir.truncmod),
    "FloorDiv": (_op("floordiv"), ir.floordiv),
    "FloorMod": (_op("floormod"), ir.floormod),
    "Min": (_op("min"), _binary("min")),
    "Max": (_op("max"), _binary("max")),
    "EQ": (_op("eq"), _compare("eq")),
    "NE": (_op("ne"), _compare("ne")),
    "LT": (_op("lt"), _compare("lt")),
    "LE": (_op("le"), _compare("le")),
    "GT": (_op("gt"), _compare("gt")),
    "GE": (_op("ge"), _compare("ge")),
    "And": (_op("and"), _and),
    "Or": (_op("or"), _or),
    "Not": (_op("not"), _not),
    "Select": (_op("select"), _select),
    "Ramp": (_op("ramp"), _ramp),
    "Broadcast": (_op("broadcast"), _broadcast),
    "BufferLoad": (_op("load"), _buffer_load),
    "ProducerLoad": (_op("read"), _producer_load),
    "Call": (_is_call, _call),
    "Reduce": (_op("reduce"), _reduce),
    "Let": (lambda x: False, _let),  # a value with a name is put where the name stands
}

STATEMENTS: dict[str, tuple[Callable[[Any], bool], Callable[..., Any]]] = {
    "For": (lambda x: isinstance(x, stmt.For), _for),
    "BufferStore": (lambda x: isinstance(x, stmt.Store), _store),
    "IfThenElse": (lambda x: isinstance(x, stmt.If), _if),
    "SeqStmt": (lambda x: isinstance(x, stmt.Seq), _seq),
    "Evaluate": (lambda x: isinstance(x, stmt.Evaluate), _evaluate),
    "While": (lambda x: isinstance(x, stmt.While), _while),
    "LetStmt": (lambda x: isinstance(x, stmt.Let), _let_stmt),
    "Allocate": (lambda x: isinstance(x, stmt.Allocate), stmt.Allocate),
    "IterVar": (lambda x: isinstance(x, (te.IterVar, Loop, ThreadAxis)), _iter_var),
}


def _prim_func(
    params: Sequence[Any], body: stmt.Stmt, ret_type: Any = None, buffer_map: Any = None, attrs: Any = None
) -> stmt.Function:
    """Parameters are buffers, or variables that `buffer_map` has buffers for; what is stored to is an output."""
    buffers = tuple((buffer_map or {}).get(p, p) for p in params)
    for b in buffers:
        if not isinstance(b, stmt.Buffer):
            legal = "tir.decl_buffer(shape, dtype), or variables that buffer_map has buffers for"
            raise UsageTypeError(f"{b!r} is no buffer", asked="tir.PrimFunc", legal=legal)
    stored = {s.buffer for s in stmt.walk(body) if isinstance(s, stmt.Store)}
    sizes = {v: None for b in buffers for d in (*b.shape, *b.strides) for v in sorted(ir.variables(d), key=order)}
    outputs = tuple(i for i, b in enumerate(buffers) if b in stored)
    return stmt.Function("main", buffers, tuple(sizes), body, outputs, dict(attrs or {}))


STATEMENTS["PrimFunc"] = (lambda x: isinstance(x, (stmt.Function, PrimFunc)), _prim_func)

#: TVM's class -> the type that programs name it by
NODES: dict[str, NodeType] = {
    name: NodeType(name, (), {"node": Node(matches, make, name), "__doc__": f"TVM's node `{name}`: see `nodes`."})
    for name, (matches, make) in {**EXPRESSIONS, **STATEMENTS}.items()
}
IterVar = NODES["IterVar"]
for _kind in IterType:
    setattr(IterVar, _kind.name, _kind)


def matcher(names: Sequence[str] | None) -> Callable[[Any], bool]:
    """Whether a node is of one of these kinds, `["tir.For"]`; of any without names."""
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
