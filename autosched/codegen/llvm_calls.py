"""Calls of functions from outside, for LLVM.

A C function and an intrinsic of LLVM are called as they are. A Python function is called through

    i64 autosched.packed.NAME(ptr slots, ptr description)

`slots` is an array of 8-byte numbers: the result, then each argument: a number as int64 or double, an
array as its address, its lengths and its strides in elements. `description` is text that says what
they are, `float64|int32,float32[2]`: the result, a number, an array of two dimensions. What comes back
is 0, or the number of an exception that waits at the runtime; then the function around the call
returns at once, with that number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import llvmlite.binding as llvm

from autosched.codegen.calls import PACKED_PREFIX
from autosched.codegen.llvm_ops import convert, extend
from autosched.codegen.llvm_text import Value, Writer, constant, memory_type, register_type, typed
from autosched.errors import BuildError
from autosched.ir.calls import Callee
from autosched.ir.dtype import BOOL, HANDLE, INT64, DType, dtype
from autosched.ir.expr import Expr

_PURE = "nounwind willreturn memory(none)"
_FLOAT64 = dtype("float64")


def call_outside(w: Writer, e: Expr, args: Sequence[Value]) -> Value:
    """A call of a C function or an intrinsic of LLVM; of a vector, for each lane."""
    target: Callee = e.value
    lanes = e.dtype.lanes
    if lanes > 1 and target.kind == "llvm":
        vectors = [w.splat(a, lanes) for a in args]
        if _exists(target.name, register_type(e.dtype), tuple(register_type(a.dtype) for a in vectors)):
            return _call(w, target, e.dtype, vectors)
    if lanes > 1:
        of = e.dtype.scalar
        each = [[w.extract(a, i) if a.dtype.lanes > 1 else a for a in args] for i in range(lanes)]
        return w.concat([_call(w, target, of, lane) for lane in each], e.dtype)
    return _call(w, target, e.dtype, args)


def _call(w: Writer, target: Callee, of: DType, args: Sequence[Value]) -> Value:
    result, kinds = register_type(of), [register_type(a.dtype) for a in args]
    if target.kind == "llvm":
        if not _exists(target.name, result, tuple(kinds)):
            raise BuildError(
                f"LLVM has no such intrinsic with arguments ({', '.join(kinds)}) and result {result}",
                asked=f"call_llvm_intrin({str(of)!r}, {target.name!r}, ...)",
                legal="a name and types of LLVM's language reference, such as llvm.fma of three floats of one type",
            )
        text = f"call {result} @{target.name}({', '.join(map(typed, args))})"
        return w.op(text, of) if target.pure else w.fresh(text, of)
    operands = [f"{register_type(a.dtype)} {_extension(a.dtype)}{a.ref}" for a in args]
    parameters = [f"{register_type(a.dtype)} {_extension(a.dtype)}".rstrip() for a in args]
    pure = target.pure and HANDLE not in [a.dtype for a in args]
    callee = w.module.declare(target.name, f"{_extension(of)}{result}", parameters, "nounwind")
    text = f"call {_extension(of)}{result} {callee}({', '.join(operands)}) nobuiltin {_PURE if pure else 'nounwind'}"
    return w.op(text, of) if pure else w.fresh(text, of)


def _extension(of: DType) -> str:
    """How C passes what is narrower than an int."""
    if of.is_float or of.bits >= 32:
        return ""
    return "signext " if of.kind == "int" else "zeroext "


@lru_cache(maxsize=256)
def _exists(name: str, result: str, kinds: tuple[str, ...]) -> bool:
    """Whether LLVM knows an intrinsic of that name for these types: it is asked, in a module of its own."""
    if not name.startswith("llvm."):
        return False
    parameters = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(kinds))
    source = f"define {result} @f({parameters}) {{\n  %r = call {result} @{name}({parameters})\n  ret {result} %r\n}}\n"
    try:
        llvm.parse_assembly(source, llvm.create_context()).verify()
    except RuntimeError:
        return False
    return True


# -- Python functions -----------------------------------------------------------------------------


def packed_call(w: Writer, e: Expr, args: Sequence[Value | tuple[str, Expr, Sequence[Value]]]) -> Value:
    """A call of a Python function. An array is (address, its `view`, lengths and strides)."""
    target: Callee = e.value
    slots: list[Value | str] = []
    words = []
    for a in args:
        if isinstance(a, Value) and a.dtype is HANDLE:
            slots.append(a.ref)
            words.append(str(HANDLE))
        elif isinstance(a, Value):
            wide = convert(w, a, _FLOAT64) if a.dtype.is_float else extend(w, a, INT64)
            slots.append(wide)
            words.append(str(a.dtype))
        else:
            address, view, numbers = a
            slots += [address, *numbers]
            words.append(f"{view.value.dtype}[{len(numbers) // 2}]")
    memory = w.alloca("slots", f"[{len(slots) + 1} x i64]", 8)
    for i, slot in enumerate(slots, 1):
        place = w.pointer(f"getelementptr i64, ptr {memory}, i64 {i}")
        w.do(f"store {f'ptr {slot}' if isinstance(slot, str) else typed(slot)}, ptr {place}, align 8")
    description = w.module.text(f"{e.dtype}|{','.join(words)}")
    callee = w.module.declare(_quoted(PACKED_PREFIX + target.name), "i64", ["ptr", "ptr"], "nounwind")
    status = w.fresh(f"call i64 {callee}(ptr {memory}, ptr {description})", INT64)
    leave_if_failed(w, status)
    kind = _FLOAT64 if e.dtype.is_float else INT64
    raw = w.fresh(f"load {memory_type(kind)}, ptr {memory}, align 8", kind)
    if e.dtype.is_bool:
        return w.compare("ne", raw, 0)
    return convert(w, raw, e.dtype) if e.dtype.is_float or e.dtype.bits < 64 else Value(raw.ref, e.dtype)


def leave_if_failed(w: Writer, status: Value) -> None:
    """Return the status from the function that is being written, unless it is 0."""
    failed, goes_on = w.label("failed"), w.label("goes_on")
    w.branch(w.fresh(f"icmp ne {typed(status)}, {constant(0, INT64).ref}", BOOL).ref, failed, goes_on)
    w.start(failed)
    w.do(f"ret {typed(status)}")
    w.start(goes_on)


def _quoted(symbol: str) -> str:
    """A name as LLVM's assembly writes it, whatever is in it."""
    plain = "".join(chr(b) if chr(b).isalnum() or chr(b) in "_." else f"\\{b:02X}" for b in symbol.encode())
    return f'"{plain}"'
