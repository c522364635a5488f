"""Calls of functions from outside: C symbols, Python functions, intrinsics of users and of LLVM.

    call_extern("float32", "hypotf", x, y)        a C symbol of the process, or of a library
    call_packed("my.sort", data, result)          a Python function, registered by name
    call_intrin("float32", "tir.mylog", x)        lowered by the rules for the target
    call_llvm_intrin("float32", "llvm.fma", a, b, c)

A call is one expression, `call`, whose value is a `Callee`. A *pure* call has no effect and its value
depends on its arguments alone: it may run more than once, or not at all. Others run once for each time
that the statement around them does.

What a call gets of memory is an `address` (C: a pointer to an element) or a `view` (Python: an array
with lengths and strides), which is what `call_packed` makes of a buffer.

Users add intrinsics, and rules that say what computes one on a target:

    def mylog(x):
        return call_intrin(x.dtype, "tir.mylog", x)

    register_op_attr("tir.mylog", "TCallEffectKind", CallEffectKind.Pure)
    register_intrin_lowering("tir.mylog", "opencl", f=lambda e: call_pure_extern("float32", "log", e.args[0]))

A rule takes the call and returns what to compute instead; it declines by returning None or the call
itself. The rule of the highest level is asked first. Operators of ours have rules as well, under
their names with `tir.` before them: `tir.exp`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Any

from autosched.errors import UsageError, UsageTypeError, asked_at
from autosched.ir.buffers import row_major
from autosched.ir.dtype import HANDLE, INT32, dtype
from autosched.ir.expr import OPS, Expr, as_expr, cast, const, make
from autosched.ir.node import bottom_up

CALL_KINDS = ("extern", "packed", "intrin", "llvm")


@dataclass(frozen=True, slots=True)
class Callee:
    """The function that a `call` calls. `kind` is one of `CALL_KINDS`."""

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
        legal = 'such as call_extern("int32", "abs", x)'
        raise UsageTypeError("the name of a function is a string", asked=asked, legal=legal)
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

    See `register_intrin_lowering`. It is pure if `register_op_attr(name,
    "TCallEffectKind", CallEffectKind.Pure)` said so.
    """
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
            asked = asked_at() or "address_of"
            raise UsageError(f"{buffer!r} has no address", asked=asked, legal="an element of a buffer")
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


@bottom_up
def is_opaque(e: Expr, parts: list[bool]) -> bool:
    """Whether evaluating `e` hands memory to a function, or calls one that may have effects."""
    return any(parts) or e.op in ("address", "view") or (e.op == "call" and not e.value.pure)


@bottom_up
def touches_memory(e: Expr, parts: list[bool]) -> bool:
    """Whether evaluating `e` reads memory or may have an effect: it must not happen behind a false condition."""
    return any(parts) or e.op == "load" or is_opaque(e)


# -- intrinsics that users add --------------------------------------------------------------------

Rule = Callable[[Expr], "Expr | None"]


class CallEffectKind(IntEnum):
    """The effect of a call. A call of at most `ReadState` may be computed again, or not at all."""

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 4
    SpecialCallArg = 5
    EmbedInfo = 6
    ControlJump = 7


_attributes: dict[tuple[str, str], Any] = {}
_rules: dict[tuple[str, str], list[tuple[int, int, Rule]]] = {}


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Note an attribute of an intrinsic; without a value, a decorator. Only `TCallEffectKind` is looked at, when the
    intrinsic is called.
    """
    if value is None:
        return lambda f: register_op_attr(op_name, attr_key, f, level) or f
    known = _attributes.get((op_name, attr_key))
    if known is None or level >= known[0]:
        _attributes[op_name, attr_key] = (level, value)
    return None


def get_op_attr(op_name: str, attr_key: str) -> Any:
    """The attribute that `register_op_attr` noted, or None."""
    return _attributes.get((op_name, attr_key), (0, None))[1]


def is_pure(op_name: str) -> bool:
    """Whether calls of that intrinsic are known to have no effect."""
    kind = get_op_attr(op_name, "TCallEffectKind")
    return kind is not None and int(kind) <= CallEffectKind.ReadState


def register_intrin_lowering(op_name: str, target: str, *, f: Rule | None = None, level: int = 10) -> Any:
    """Let `f` say what computes the intrinsic on targets of that kind (`default`: on all). Without `f`, a decorator.

    Of several rules the one of the highest level is asked first; of one level, the youngest. Raises
    UsageError where `f` is not a function, or `op_name` names an operator that rules cannot replace.

    >>> rule = lambda e: call_pure_extern("float32", "native_exp", e.args[0]) if e.dtype == "float32" else None
    >>> _ = register_intrin_lowering("tir.example_exp", "opencl", f=rule, level=99)
    """
    if f is None:
        return lambda rule: register_intrin_lowering(op_name, target, f=rule, level=level)
    asked = f"register_intrin_lowering({op_name!r}, {target!r})"
    if not callable(f):
        raise UsageTypeError(f"{f!r} is not a function", asked=asked, legal="a function from the call to an expression")
    builtin = OPS.get(op_name.removeprefix("tir."))
    if builtin is not None and builtin.kind not in ("math", "bits", "arith"):
        raise UsageTypeError(f"{op_name} is no function", asked=asked, legal="functions such as tir.exp, or a new name")
    listed = _rules.setdefault((op_name, target), [])
    listed.append((level, len(listed), f))
    listed.sort(key=lambda entry: entry[:2], reverse=True)
    return f


def has_rules() -> bool:
    return bool(_rules)


def targets_of(op_name: str) -> list[str]:
    """The kinds of targets that have a rule for the intrinsic."""
    return sorted({target for name, target in _rules if name == op_name})


def intrinsic_name(e: Expr) -> str:
    """The name under which rules for this expression are registered; empty if it can have none."""
    if e.op == "call":
        return e.value.name if e.value.kind == "intrin" else ""
    return f"tir.{e.op}" if OPS[e.op].kind in ("math", "bits", "arith") and not e.index else ""


def lower_with_rules(e: Expr, kind: str) -> Expr | None:
    """The expression that the first rule for targets of that kind gives instead of `e`; None if all decline."""
    name = intrinsic_name(e)
    if not name:
        return None
    for target in (kind, "default"):
        for _, _, rule in _rules.get((name, target), ()):
            found = rule(e)
            if found is None or found is e:
                continue
            if not isinstance(found, Expr) or found.dtype != e.dtype:
                what = f"{found.dtype} {found!r}" if isinstance(found, Expr) else repr(found)
                raise UsageError(
                    f"its rule for {target} returned {what}",
                    asked=f"lower {name} of type {e.dtype}",
                    legal=f"an expression of type {e.dtype}, or None to decline",
                )
            return found
    return None
