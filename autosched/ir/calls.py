"""Calls of functions from outside: C symbols, Python functions, intrinsics of users and of LLVM.

    call_extern("float32", "hypotf", x, y)        a C symbol of the process, or of a library
    call_packed("my.sort", data, result)          a Python function, registered by name
    call_intrin("float32", "tir.mylog", x)        lowered by the rules for the target: `ir.intrinsics`
    call_llvm_intrin("float32", "llvm.fma", a, b, c)

A call is one expression, `call`, whose value is a `Callee`. A *pure* call has no effect and its value
depends on its arguments alone: it may run more than once, or not at all. Others run once for each time
that the statement around them does.

What a call gets of memory is an `address` (C: a pointer to an element) or a `view` (Python: an array
with lengths and strides). A view of a tensor is what `call_packed` makes of a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from autosched.errors import UsageError, UsageTypeError, asked_at
from autosched.ir.dtype import HANDLE, INT32, dtype
from autosched.ir.expr import OPS, Expr, as_expr, cast, const, make, row_major

CALL_KINDS = ("extern", "packed", "intrin", "llvm")


@dataclass(frozen=True, slots=True)
class Callee:
    """What a `call` calls. `kind` is one of `CALL_KINDS`."""

    name: str
    kind: str
    pure: bool


@cache
def callee(name: str, kind: str, pure: bool) -> Callee:
    """The one Callee with these parts, so that calls built alike are the same expression."""
    return Callee(name, kind, pure)


def _call(of: object, name: object, kind: str, pure: bool, args: Sequence[object]) -> Expr:
    asked = f"call of {name!r}"
    if not isinstance(name, str) or not name:
        raise UsageTypeError(
            "the name of a function is a string", asked=asked, legal='such as call_extern("int32", "abs", x)'
        )
    to = INT32 if of in ("void", "") else dtype(of)
    if to.lanes != 1 or to is HANDLE:
        raise UsageError(f"it cannot return {to}", asked=asked, legal="a number of one lane; outputs are arguments")
    return make("call", to, tuple([_argument(a, kind, asked) for a in args]), callee(name, kind, pure))


def _argument(value: Any, kind: str, asked: str) -> Expr:
    """A number; or memory, as that kind of function takes it."""
    memory = value if isinstance(value, Expr) else getattr(value, "buffer", value)  # as an IRBuilder hands it out
    if not isinstance(memory, Expr) and hasattr(memory, "scope") and hasattr(memory, "shape"):
        return view_of(memory) if kind == "packed" else address_of(memory)
    e = as_expr(value)
    if kind != "packed" and e.op == "view":
        raise UsageError("only call_packed takes whole arrays", asked=asked, legal="address_of(buffer, index)")
    return e


def call_extern(dtype: object, func_name: str, *args: object) -> Expr:
    """A call of the C function `func_name`, which may have effects, returning `dtype` (`"void"`: nothing).

    Arguments keep their types: pass `x.astype("float64")` where C expects a double. A buffer is passed
    as the address of its first element. The symbol is looked for in the process, the mathematics
    library and what `load_library` and `register_symbol` name, when the module is built. In OpenCL it
    is a function of the language.

    >>> from autosched.ir.expr import var
    >>> call_extern("float32", "fmaf", var("a", "float32"), var("b", "float32"), 1.0)
    fmaf(a, b, 1.0f)
    """
    return _call(dtype, func_name, "extern", False, args)


def call_pure_extern(dtype: object, func_name: str, *args: object) -> Expr:
    """As `call_extern`, for a function without effects."""
    return _call(dtype, func_name, "extern", True, args)


def call_packed(func_name: str, *args: object, dtype: object = "int32") -> Expr:
    """A call of the Python function that `register_func` knows by that name.

    It gets Python numbers, and a NumPy array that shares memory for each buffer; it returns a number
    or nothing. An exception in it ends the call of the module and arrives at the caller as itself.
    Only on `llvm` and in the interpreter.
    """
    return _call(dtype, func_name, "packed", False, args)


def call_intrin(dtype: object, func_name: str, *args: object) -> Expr:
    """An intrinsic by name: one of ours, such as `tir.exp`, or one that rules lower for each target.

    See `ir.intrinsics.register_intrin_lowering`. It is pure if `register_op_attr(name,
    "TCallEffectKind", CallEffectKind.Pure)` said so.
    """
    from autosched.ir.intrinsics import is_pure

    short = func_name.removeprefix("tir.")
    if short in OPS and OPS[short].kind == "math" and func_name.startswith("tir."):
        return cast(dtype, make(short, as_expr(args[0]).dtype, tuple(map(as_expr, args))))
    return _call(dtype, func_name, "intrin", is_pure(func_name), args)


def call_llvm_intrin(dtype: object, name: str, *args: object) -> Expr:
    """An intrinsic of LLVM by name, such as `llvm.fma`, on target `llvm`; overloads need no suffix.

    A leading constant of type uint32, which counts the arguments in some programs, is dropped.
    """
    return _call(dtype, name, "llvm", False, _without_count(args))


def call_llvm_pure_intrin(dtype: object, name: str, *args: object) -> Expr:
    """As `call_llvm_intrin`, for an intrinsic without effects."""
    return _call(dtype, name, "llvm", True, _without_count(args))


def _without_count(args: Sequence[object]) -> Sequence[object]:
    first = args[0] if args else None
    counts = isinstance(first, Expr) and first.op == "const" and first.dtype == "uint32"
    return args[1:] if counts else args


def address_of(buffer: Any, *indices: object) -> Expr:
    """The address of an element of a buffer: by default, of its first. `address_of(load)` works too."""
    if isinstance(buffer, Expr):
        if buffer.op != "load":
            raise UsageError(
                f"{buffer!r} has no address", asked=asked_at() or "address_of", legal="an element of a buffer"
            )
        return make("address", HANDLE, buffer.args, buffer.value)
    at = tuple(map(as_expr, indices)) or tuple(const(0) for _ in buffer.shape)
    return make("address", HANDLE, at, buffer)


def view_of(
    buffer: Any, offset: object = 0, shape: Sequence[object] | None = None, strides: Sequence[object] | None = None
) -> Expr:
    """An array over the memory of a buffer, for a Python function: by default, all of it.

    `offset` and `strides` are in elements.
    """
    lengths = [as_expr(n) for n in (buffer.shape if shape is None else shape)]
    if strides is None and shape is None and buffer.strides:
        strides = buffer.strides
    steps = row_major(lengths) if strides is None else [as_expr(s) for s in strides]
    return make("view", HANDLE, (as_expr(offset), *lengths, *steps), buffer)


def is_opaque(e: Expr) -> bool:
    """Whether evaluating `e` hands memory to a function, or calls one that may have effects."""
    return _any(e, "opaque", lambda n: n.op in ("address", "view") or (n.op == "call" and not n.value.pure))


def touches_memory(e: Expr) -> bool:
    """Whether evaluating `e` reads memory or may have an effect: it must not happen behind a false condition."""
    found = None if e._cache is None else e._cache.get("memory")
    return bool(_any(e, "memory", lambda n: n.op == "load" or is_opaque(n)) if found is None else found)


def _any(root: Expr, key: str, asked: Any) -> bool:
    """Whether `asked` holds for a node below `root`; remembered in the nodes, by hand and not by recursion."""
    stack = [root]
    while stack:
        e = stack[-1]
        if e._cache is None:
            e._cache = {}
        if key in e._cache:
            stack.pop()
            continue
        todo = [a for a in e.args if a._cache is None or key not in a._cache]
        if todo:
            stack += todo
            continue
        stack.pop()
        e._cache[key] = asked(e) or any(a._cache[key] for a in e.args)  # type: ignore[index]
    return bool(root._cache[key])  # type: ignore[index]
