"""Versions of a function, or of the loops of a stage, among which the sizes of each call choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autosched.errors import LowerError
from autosched.ir.expr import Expr, floordiv, logical_and, var, variables
from autosched.ir.simplify import known_multiples
from autosched.ir.stmt import Buffer, For, Function, If, Let, Produce, Stmt, expressions, substitute_stmt, walk
from autosched.ir.visit import conjuncts
from autosched.lowering.storage import retarget


def specialized(stmt: Stmt, cases: list[Expr], names: dict[Expr, Expr]) -> Stmt:
    """The statement in several versions: the first whose condition holds runs, or else the plain one.

    Quotients of sizes get `names`, which `named` defines for the whole function: borders of an outer loop may come
    from conditions inside, and mention them.
    """
    result = stmt
    for condition in reversed(cases):
        result = If(condition, _given(stmt, condition, names), result)
    return result


def inside_threads(nest: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """The loops of a stage with a change of what is inside the innermost that has threads or work-items, or of all."""
    if isinstance(nest, Produce) or (isinstance(nest, For) and any(_is_bound(x) for x in walk(nest))):
        return replace(nest, body=inside_threads(nest.body, change))
    return change(nest)


def _is_bound(s: Stmt) -> bool:
    return isinstance(s, For) and (s.kind == "parallel" or bool(s.thread))


def named(stmt: Stmt, names: dict[Expr, Expr]) -> Stmt:
    """The statement with the names that `specialized` made defined around it."""
    for v, value in reversed(names.items()):
        if any(v in variables(e) for x in walk(stmt) for e in expressions(x)):  # else the version is of other sizes
            stmt = Let(v, value, stmt)
    return stmt


def _given(stmt: Stmt, condition: Expr, names: dict[Expr, Expr]) -> Stmt:
    """The statement with sizes as the condition says: for `n % 8 == 0`, n is eight times a new variable.

    Other comparisons are facts inside the `If`.
    """
    for size, step in known_multiples(condition):
        times = var(f"{size.value.name}_by_{step}", size.dtype, role="size", lower=0)
        stmt = substitute_stmt(stmt, {size: times * step})
        names[times] = floordiv(size, step)
    for c in conjuncts(condition):
        left, right = c.args if c.op == "eq" and c.args[1].op == "const" else c.args[::-1]
        if c.op == "eq" and left.op == "var" and right.op == "const":
            stmt = substitute_stmt(stmt, {left: right})
    return stmt


def guarded(versions: Sequence[tuple[Expr, Function]], otherwise: Function) -> Function:
    """The function that runs the first version whose condition holds, or else `otherwise`.

    if n < 362: <loops of one schedule>
    else:       <loops of another>

    All compute the same from the same arguments and are lowered equally far. Conditions are over sizes. The
    requirements of a version are part of its condition, so that a call which breaks them goes on to the next;
    `otherwise` must have none. Raises LowerError.
    """
    try:
        return _guarded(versions, otherwise)
    except LowerError as error:
        error.located("made")
        raise


def _guarded(versions: Sequence[tuple[Expr, Function]], otherwise: Function) -> Function:
    body = otherwise.body
    demands = list(otherwise.requires)
    for condition, version in reversed(versions):
        strange = sorted(v.name for v in variables(condition) if v not in otherwise.sizes)
        if strange or not condition.dtype.is_bool:
            raise LowerError(
                f"{strange[0] if strange else repr(condition)} is no condition on sizes",
                asked=f"versions of {otherwise.name}",
                legal=f"comparisons of {', '.join(v.name for v in otherwise.sizes) or 'sizes, and it has none'}",
            )
        fits = logical_and(condition, *(r.condition for r in version.requires))
        body = If(fits, retarget(version.body, _same_parameters(version, otherwise)), body)
    if versions and demands:
        raise LowerError(
            f"the last version does not take all sizes: {demands[0].reason}",
            asked=f"versions of {otherwise.name}",
            legal="a last version that requires nothing, such as the default schedule",
        )
    return replace(otherwise, body=body)


def _same_parameters(version: Function, other: Function) -> dict[Buffer, Buffer]:
    """The parameters of a version -> those that stand for them. Raises LowerError where they differ."""

    def facts(f: Function) -> list[object]:
        return [(b.name, b.shape, str(b.dtype), b.strides, b.data_alignment) for b in f.params]

    if facts(version) != facts(other) or version.outputs != other.outputs or version.attrs != other.attrs:
        raise LowerError(
            "they take different arguments", asked=f"versions of {other.name}", legal="schedules of one computation"
        )
    return dict(zip(version.params, other.params, strict=True))
