"""Intrinsics that users add, and the rules that lower intrinsics for a target.

    def mylog(x):
        return call_intrin(x.dtype, "tir.mylog", x)

    register_op_attr("tir.mylog", "TCallEffectKind", CallEffectKind.Pure)
    register_intrin_lowering("tir.mylog", "opencl", f=lambda e: call_pure_extern("float32", "log", e.args[0]))

A rule takes the call and returns what to compute instead; it declines by returning None or the call
itself. The rule of the highest level is asked first. Operators of ours have rules as well, under
their names with `tir.` before them: `tir.exp`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from autosched.errors import UsageError, UsageTypeError
from autosched.ir.expr import OPS, Expr

Rule = Callable[[Expr], "Expr | None"]


class CallEffectKind(IntEnum):
    """What a call does besides its result. What is at most `ReadState` may be computed again, or not at all."""

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
    """Note an attribute of an intrinsic; without a value, a decorator. `TCallEffectKind` is the one we read.

    Register it before the intrinsic is called: a call is pure or not from the beginning.
    """
    if value is None:
        return lambda f: register_op_attr(op_name, attr_key, f, level) or f
    known = _attributes.get((op_name, attr_key))
    if known is None or level >= known[0]:
        _attributes[op_name, attr_key] = (level, value)
    return None


def get_op_attr(op_name: str, attr_key: str) -> Any:
    """What `register_op_attr` was told, or None."""
    return _attributes.get((op_name, attr_key), (0, None))[1]


def is_pure(op_name: str) -> bool:
    """Whether calls of that intrinsic have no effect. One that nothing is known of may have."""
    kind = get_op_attr(op_name, "TCallEffectKind")
    return kind is not None and int(kind) <= CallEffectKind.ReadState


def register_intrin_lowering(op_name: str, target: str, *, f: Rule | None = None, level: int = 10) -> Any:
    """Let `f` say what computes the intrinsic on targets of that kind (`default`: on all). Without `f`, a decorator.

    Of several rules the one of the highest level is asked first; of one level, the youngest. Raises
    UsageError where `f` is not a function, or `op_name` names an operator that rules cannot replace.

    >>> from autosched.ir.calls import call_pure_extern
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


def name_of(e: Expr) -> str:
    """The name under which rules for this expression are registered; empty if it can have none."""
    if e.op == "call":
        return e.value.name if e.value.kind == "intrin" else ""
    return f"tir.{e.op}" if OPS[e.op].kind in ("math", "bits", "arith") and not e.index else ""


def lower_with_rules(e: Expr, kind: str) -> Expr | None:
    """What the first rule that does not decline makes of `e` on targets of that kind; None if all do."""
    name = name_of(e)
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
