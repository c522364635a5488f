"""Several versions of one function, of which the sizes of each call choose one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autosched.errors import LowerError
from autosched.ir.expr import Expr, logical_and, variables
from autosched.ir.stmt import Buffer, Function, If
from autosched.lower.storage import retarget

__all__ = ["guarded"]


def guarded(versions: Sequence[tuple[Expr, Function]], otherwise: Function) -> Function:
    """One function that does what the first version does whose condition holds, or else `otherwise`.

    if n < 362: <loops of one schedule>
    else:       <loops of another>

    All compute the same from the same arguments, and are lowered equally far. Conditions are over sizes. What a
    version requires of sizes is asked with its condition, so that a call which breaks it goes on to the next;
    what `otherwise` requires is required of every call that comes to it. Raises LowerError.
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
