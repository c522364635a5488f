"""The `T` of scripts: `from tvm.script import tir as T`.

Expressions are those of `tvm.tir`. The rest returns parts that the reader of the script gives a name and a place: see
`parts`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

import autosched.tvm.tir.op as _op
from autosched.errors import UsageError
from autosched.ir import expr as ir
from autosched.ir.calls import address_of as address_of
from autosched.ir.dims import Range as Range
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr
from autosched.ir.stmt import THREAD_TAGS, Barrier
from autosched.ir.visit import substitute
from autosched.target import Target
from autosched.tvm._missing import missing
from autosched.tvm.script.parts import (
    Effect,
    Loops,
    NewAxis,
    NewBuffer,
    NewThread,
    NewValue,
    NewVar,
    Scope,
)
from autosched.tvm.tir.nodes import NODES

# -- types ---------------------------------------------------------------------------------------------------


class _Type:
    """`T.int32(3)` is a literal or a cast, `T.int32()` a variable, and `T.int32` the type of a parameter."""

    def __init__(self, name: str) -> None:
        self.dtype = name

    def __call__(self, value: Any = None, is_size_var: bool = False) -> Any:
        if value is None:
            return NewVar(self.dtype)
        if isinstance(value, str):
            value = float(value)  # "inf", "nan"
        if isinstance(value, Expr) and value.op != "const":
            return ir.cast(self.dtype, value)
        number = value.value if isinstance(value, Expr) else value
        return ir.const(number, self.dtype)

    def __repr__(self) -> str:
        return f"T.{self.dtype}"


class _Handle:
    """`T.handle`: a parameter that `T.match_buffer` makes a buffer of."""

    def __call__(self, dtype: Any = None, storage_scope: str = "global", is_size_var: bool = False) -> _Handle:
        return self

    def __repr__(self) -> str:
        return "T.handle"


handle = _Handle()
StringImm = str
_LANES = ("", "x4", "x8", "x16", "x32", "x64")
_TYPES = {
    name: _Type(name)
    for kind, widths in (("int", (8, 16, 32, 64)), ("uint", (1, 8, 16, 32, 64)), ("float", (16, 32, 64)))
    for bits in widths
    for lanes in _LANES
    if (name := f"{kind}{bits}{lanes}") and not name.startswith("uint1x")
}
globals().update({"bool": _Type("bool"), "boolean": _Type("bool"), "bfloat16": _Type("bfloat16"), **_TYPES})


def _text(dtype: Any) -> str:
    return str(getattr(dtype, "dtype", dtype))


def dtype(name: str) -> str:
    """Return the name of a type."""
    return str(to_dtype(name))


def var(dtype: Any = "int32", name: str = "") -> NewVar:
    """Return a variable, which the name it is assigned to names."""
    return NewVar(_text(dtype))


# -- memory ----------------------------------------------------------------------------------------------------


class _Buffer:
    def __call__(
        self,
        shape: Any,
        dtype: Any = "float32",
        data: Any = None,
        strides: Any = None,
        elem_offset: Any = None,
        scope: str = "global",
        align: int = -1,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Any = None,
    ) -> NewBuffer:
        """Return a buffer: of a parameter, or with `data` a view of memory."""
        return NewBuffer(shape, _text(dtype), "declared", data, scope, strides, elem_offset)

    def __getitem__(self, what: Any) -> NewBuffer:
        if isinstance(what, tuple) and what and isinstance(what[-1], (str, _Type)):
            return self(what[0] if len(what) == 2 else what[:-1], what[-1])
        return self(what)


Buffer = _Buffer()
buffer = decl_buffer = buffer_decl = Buffer


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> NewBuffer:
    """Return the buffer of a handle, or of a region of another buffer."""
    return NewBuffer(shape, _text(dtype), "match", param, scope, strides, elem_offset)


def alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> NewBuffer:
    """Return memory of the block it stands in."""
    return NewBuffer(shape, _text(dtype), "alloc", None, scope, strides)


def allocate(
    extents: Any, dtype: Any, scope: str = "global", condition: Any = None, annotations: Any = None
) -> NewBuffer:
    """Return memory for the rest of the scope, or of a `with`."""
    return NewBuffer(extents, _text(dtype), "allocate", None, scope)


#: elements that a function may store one by one before it begins
_MOST_CONSTANTS = 4096


def allocate_const(data: Any, dtype: Any, extents: Sequence[Any], annotations: Any = None) -> NewBuffer:
    """Return memory that holds numbers, outermost dimension first.

    Raises UsageError for more of them than a function should store, or for other numbers of them than elements.
    """
    values = tuple(np.asarray(getattr(data, "numpy", lambda: data)()).ravel().tolist())
    asked, count = (
        f"allocate_const(.., {_text(dtype)!r}, {list(extents)})",
        prod(int(getattr(d, "value", d)) for d in extents),
    )
    if len(values) != count:
        raise UsageError(f"there are {len(values)} numbers", asked=asked, legal=f"{count} of them")
    if count > _MOST_CONSTANTS:
        raise UsageError(f"it has {count} elements", asked=asked, legal=f"{_MOST_CONSTANTS} at most, or a parameter")
    return NewBuffer(extents, _text(dtype), "const", values)


# -- loops and threads -------------------------------------------------------------------------------------------


def _ranged(kind: str) -> Callable[..., Loops]:
    def loops(start: Any, stop: Any = None, *, annotations: Any = None, thread: str = "") -> Loops:
        first, last = (as_expr(0), as_expr(start)) if stop is None else map(as_expr, (start, stop))
        return Loops(kind, ((first, last),), thread, dict(annotations or {}))

    loops.__doc__ = f"Return a {kind} loop over [0, start), or [start, stop)."
    return loops


serial, parallel, vectorized, unroll = map(_ranged, ("serial", "parallel", "vectorize", "unroll"))


def thread_binding(
    start: Any, stop: Any = None, thread: str | None = None, *, annotations: dict[str, Any] | None = None
) -> Loops:
    """Return a loop whose iterations are the indices of a hardware axis."""
    if thread is None and isinstance(stop, str):
        stop, thread = None, stop
    return _ranged("thread")(start, stop, annotations=annotations, thread=_axis(thread))


def _axis(tag: Any) -> str:
    if tag not in THREAD_TAGS and not str(tag).startswith("vthread"):
        legal = f"{', '.join(THREAD_TAGS)}, vthread"
        raise UsageError(f"{tag!r} is no hardware axis", asked="thread_binding", legal=legal)
    return "vthread" if str(tag).startswith("vthread") else str(tag)


def grid(*extents: Any) -> Loops:
    """Return nested loops from 0, one for each extent."""
    pairs = (e if isinstance(e, tuple) else (0, e) for e in extents)
    return Loops("serial", tuple((as_expr(a), as_expr(b)) for a, b in pairs))


def env_thread(thread_tag: str, dtype: str = "int32") -> NewThread:
    """Return an index along a hardware axis, which `launch_thread` gives an extent."""
    return NewThread(_axis(thread_tag))


def launch_thread(thread: Any, extent: Any) -> Any:
    """Return the index along a hardware axis of that many iterations."""
    return NewThread(_axis(thread), extent) if isinstance(thread, str) else Scope("launch", (thread, extent))


# -- blocks --------------------------------------------------------------------------------------------------------


def block(name: str = "", no_realize: bool = False) -> Scope:
    """Open a block."""
    return Scope("block", (name,))


def init() -> Scope:
    """Open the part of a block that runs before its first reduction step."""
    return Scope("init")


def _remap(kinds: str, bindings: Sequence[Any], dtype: str = "int32") -> list[NewAxis]:
    words = {"S": "spatial", "R": "reduce"}
    if len(kinds) != len(bindings) or not set(kinds) <= set(words):
        legal = "one of S and R for each loop"
        raise UsageError(f"{kinds!r} for {len(bindings)} loops", asked="T.axis.remap", legal=legal)
    return [NewAxis(words[k], None, b) for k, b in zip(kinds, bindings, strict=True)]


axis = SimpleNamespace(
    **{
        name: (lambda dom, value, dtype="int32", kind=kind: NewAxis(kind, dom, value))
        for kind, names in {
            "spatial": ("spatial", "S"),
            "reduce": ("reduce", "R"),
            "scan": ("scan",),
            "opaque": ("opaque",),
        }.items()
        for name in names
    },
    remap=_remap,
)


def _effect(kind: str) -> Callable[..., Effect]:
    return lambda *args, **options: Effect(kind, (*args, *options.values()))


reads, writes, where, block_attr, func_attr, evaluate, assume = map(
    _effect, ("reads", "writes", "where", "block_attr", "func_attr", "evaluate", "assume")
)
buffer_store = _effect("store")


def tvm_storage_sync(scope: str = "shared") -> Effect:
    """All work-items of a group meet here."""
    return Effect("statement", (Barrier(scope),))


def attr(node: Any, attr_key: str, value: Any) -> Scope:
    """Open a scope with an attribute: `thread_extent`; any other is a hint, which changes nothing."""
    return Scope("attr", (node, attr_key, value))


def LetStmt(value: Any, type_annotation: Any = None, *, var: Any = None) -> NewValue:
    """Return a value with a name."""
    return NewValue(value)


let = LetStmt


def Assert(condition: Any, message: str = "") -> Scope:
    """Open a scope under a condition that always holds: compiled code does not look at it."""
    return Scope("assert", (condition,))


# -- expressions ---------------------------------------------------------------------------------------------------


def _value(x: Any) -> Any:
    return as_expr(x)


def min(a: Any, b: Any) -> Expr:
    """Return the smaller of two."""
    return ir.binary("min", a, b)


def max(a: Any, b: Any) -> Expr:
    """Return the larger of two."""
    return ir.binary("max", a, b)


def cast(value: Any, dtype: Any) -> Expr:
    """Return a value as another type."""
    return ir.cast(_text(dtype), _value(value))


def Cast(dtype: Any, value: Any) -> Expr:
    """Return a value as another type."""
    return cast(value, dtype)


def reinterpret(*args: Any, dtype: Any = None) -> Expr:
    """Return the bits of a value, the last argument, as another type."""
    *first, value = args
    return _op.reinterpret(_text(first[0] if first else dtype), _value(value))


def ramp(base: Any, stride: Any, lanes: int) -> Expr:
    """Return the vector base, base + stride, .."""
    return ir.ramp(base, stride, int(getattr(lanes, "value", lanes)))


def broadcast(value: Any, lanes: int) -> Expr:
    """Return the vector of one value."""
    return ir.broadcast(value, int(getattr(lanes, "value", lanes)))


def fabs(x: Any) -> Expr:
    """Return the absolute value."""
    return _op.abs(x)


def truncdiv(a: Any, b: Any) -> Expr:
    """Return a / b, towards zero."""
    return _op.truncdiv(a, b)


def meta_var(value: Any) -> Any:
    """Return a value that is known while the script is read."""
    return value


def type_annotation(dtype: Any) -> Any:
    """Return a type: it says nothing that a program needs."""
    return dtype


def Let(body: Any, where: dict[Any, Any]) -> Expr:
    """Return an expression with values in place of variables."""
    return substitute(_value(body), {v: _value(x) for v, x in where.items()})


def comm_reducer(combine: Callable[..., Any], identity: Sequence[Any]) -> Any:
    """Return a reducer, as `te.comm_reducer` does."""
    return _op.comm_reducer(lambda x, y: combine(x, y), lambda *types: identity[0])


Ramp, Broadcast, ceildiv = ramp, broadcast, ir.ceildiv
Ptr = handle
Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, EQ, NE, LT, LE, GT, GE, And, Or, Not, Select, Min, Max = (
    NODES[n] for n in "Add Sub Mul Div Mod FloorDiv FloorMod EQ NE LT LE GT GE And Or Not Select Min Max".split()
)
_INSTEAD = {
    "macro": "a Python function of expressions, called in the script; statements are written out where they stand",
    "ret": "results go to buffers among the parameters",
    "vscale": "vectors have a fixed number of lanes",
    **dict.fromkeys(
        (
            "tvm_fill_fragment",
            "tvm_load_matrix_sync",
            "tvm_mma_sync",
            "tvm_store_matrix_sync",
            "ptx_mma",
            "ptx_ldmatrix",
        ),
        "tensor cores are not programmed: loops over blockIdx and threadIdx, with shared memory",
    ),
    **dict.fromkeys(
        ("tvm_struct_get", "tvm_struct_set", "tvm_stack_alloca", "tvm_call_packed_lowered"),
        "the calling convention is the runtime's: parameters are buffers and numbers",
    ),
}
_missing = missing("script.tir", globals(), _INSTEAD)
target = Target


def __getattr__(name: str) -> Any:
    found = getattr(_op, name, None) if not name.startswith("_") and name != "missing" else None
    return _missing(name) if found is None else _typed(found)


def _typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes the type of its result by name, too: calls from outside need it, others have one."""
    if not callable(function):
        return function

    @wraps(function)
    def called(*args: Any, dtype: Any = None, **options: Any) -> Any:
        if dtype is not None and function.__name__.startswith("call_"):
            args = (_text(dtype), *args)
        return function(*args, **options)

    return called
