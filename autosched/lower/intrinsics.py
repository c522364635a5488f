"""Intrinsics become what the target computes: the rules of `ir.intrinsics`, applied until none does anything."""

from __future__ import annotations

from autosched.errors import LowerError
from autosched.ir.expr import Expr
from autosched.ir.intrinsics import has_rules, lower_with_rules, name_of, targets_of
from autosched.ir.stmt import Stmt, map_stmt
from autosched.ir.visit import rebuild, rewrite
from autosched.target import Target

__all__ = ["lower_intrinsics"]

#: rules that lower to intrinsics with rules, one after the other
DEEPEST = 32


def lower_intrinsics(body: Stmt, target: Target) -> Stmt:
    """`body` with every intrinsic lowered. Raises LowerError for one that has no rule for the target."""
    done: dict[Expr, Expr] = {}

    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        return _lowered(rebuild(e, args) if args else e, target)

    return map_stmt(body, lambda e: rewrite(e, change, done))


def _lowered(e: Expr, target: Target, depth: int = 0) -> Expr:
    found = lower_with_rules(e, target.kind) if has_rules() else None
    if found is not None:
        if depth == DEEPEST:
            raise LowerError(
                f"its rules go round in circles: after {DEEPEST} of them there is still one to apply",
                asked=f"intrinsic {name_of(e)} of type {e.dtype} for {target.kind}",
                legal="rules whose results need fewer rules than what they are for",
            )
        return rewrite(found, lambda n, args: _lowered(rebuild(n, args) if args else n, target, depth + 1))
    if e.op == "call" and e.value.kind == "intrin":
        known = targets_of(e.value.name)
        raise LowerError(
            f"no rule lowers it for {target.kind}" + (f" (rules: {', '.join(known)})" if known else ""),
            asked=f"intrinsic {e.value.name} of type {e.dtype}",
            legal=f"register_intrin_lowering({e.value.name!r}, {target.kind!r}, f=...)",
        )
    return e
