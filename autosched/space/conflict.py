"""Which conditions contradict each other: what to tell someone whose space is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.ir.expr import Expr, variables
from autosched.space.valid import valid_points

__all__ = ["conflicting", "explain"]

#: Characters of a condition that are shown.
WIDTH = 100

Knobs = Sequence[tuple[Expr, Sequence[int]]]


def conflicting(knobs: Knobs, conditions: Sequence[Expr], fixed: Mapping[Expr, int] | None = None) -> list[int]:
    """Positions of conditions that cannot hold together, none of which can be left out.

    Deletion: each condition in turn is left out for good if the others contradict each other without
    it (Chinneck and Dravnieks, "Locating Minimal Infeasible Constraint Sets in Linear Programs", 1991).
    Empty if there is a point after all, or if it cannot be told because counting would take too much.

    >>> from autosched.ir.expr import var
    >>> a, b = var("a"), var("b")
    >>> conflicting([(a, (1, 2, 4)), (b, (1, 2, 4))], [a * b <= 4, a <= b, a >= 4])
    [0, 1, 2]
    """

    def is_empty(kept: Sequence[int]) -> bool:
        return valid_points(knobs, [conditions[i] for i in kept], fixed).count == 0

    core = list(range(len(conditions)))
    if not is_empty(core):
        return []
    for i in range(len(conditions)):
        without = [k for k in core if k != i]
        if is_empty(without):
            core = without
    return core


def explain(
    knobs: Knobs, conditions: Sequence[tuple[Expr, str]], fixed: Mapping[Expr, int] | None = None
) -> tuple[str, str] | None:
    """Why no point meets all conditions (expression, reason), and what leaving one out would give.

    None if there is a point, or it cannot be told.
    """
    core = conflicting(knobs, [c for c, _ in conditions], fixed)
    if not core:
        return None
    named = [_named(*conditions[i]) for i in core]
    used = {v for i in core for v in variables(conditions[i][0])}
    values = [f"{v.name} is one of {list(x)}" for v, x in knobs if v in used and len(x) <= 16]
    sizes = [f"{v.name} is {n}" for v, n in (fixed or {}).items() if v in used]
    what = "does not hold for any values of its knobs" if len(core) == 1 else "cannot hold together"
    rest = [valid_points(knobs, [c for k, (c, _) in enumerate(conditions) if k != i], fixed).count for i in core]
    left = [
        f"without {name}: {count} point{'' if count == 1 else 's'}" for name, count in zip(named, rest, strict=True)
    ]
    return f"{' and '.join(named)} {what}", "\n  ".join(
        [*left, *([", ".join([*values, *sizes])] if values or sizes else [])]
    )


def _named(condition: Expr, reason: str) -> str:
    text = repr(condition)
    if len(text) > WIDTH:
        text = text[: WIDTH - 3] + "..."
    return f"{text} ({reason})" if reason and reason != repr(condition) else text
