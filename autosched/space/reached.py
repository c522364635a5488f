"""The elements that a stage reads, through producers that are inlined; answers that are kept until a stage changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

from autosched.ir.expr import Expr
from autosched.ir.simplify import simplify
from autosched.ir.visit import reads, substitute
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage
from autosched.te.tensor import Tensor

T = TypeVar("T")

#: Inlined bodies stand in for reads up to this many accesses of one stage.
MAX_ACCESSES = 4096


def while_unchanged(question: Callable[[Stage], T]) -> Callable[[Stage], T]:
    """Keep the answer about a stage until a primitive changes what a stage computes, or inlines one."""

    @wraps(question)
    def answer(stage: Stage) -> T:
        s = stage.schedule
        now = s.version, s.inlinings
        then, answers = s.notes.get("answers", ((-1, -1), {}))
        if then != now:
            answers = {}
            s.notes["answers"] = (now, answers)
        key = (question, stage)
        if key not in answers:
            answers[key] = question(stage)
        return answers[key]  # type: ignore[no-any-return]

    return answer


def distinct_reads(body: tuple[Expr, ...]) -> Iterator[Expr]:
    return iter(dict.fromkeys(e for value in body for e in reads(value)))


#: The elements that an element of a stage is made of, in terms of its own axes, each one once; and whether it is
#: computed right there, because its stage is inlined. Those of inlined stages come first, the others reversed.
Reached = dict[tuple[Tensor, tuple[Expr, ...]], bool]


@dataclass(frozen=True)
class Reach:
    """What a stage reached, with what that depends on: its body, and of each tensor what was looked through."""

    found: Reached
    body: tuple[Expr, ...]
    through: dict[Tensor, tuple[Expr, ...] | None]
    answers: dict[str, Any]  #: what follows

    def holds(self, stage: Stage) -> bool:
        s = stage.schedule
        return stage.body is self.body and all(_inlined_body(s, t) is b for t, b in self.through.items())


def _inlined_body(s: Schedule, tensor: Tensor) -> tuple[Expr, ...] | None:
    source = s.stage(tensor)
    return source.body if source.attach.kind == "inline" else None


@while_unchanged
def reach_of(stage: Stage) -> Reach:
    """What a stage reaches, as it was last where nothing on its way has changed: most primitives are about others."""
    reaches = stage.schedule.notes.setdefault("reaches", {})
    reach = reaches.get(stage)
    if reach is None or not reach.holds(stage):
        found = _new_reached(stage)
        through = {tensor: _inlined_body(stage.schedule, tensor) for tensor, _ in found}
        reach = reaches[stage] = Reach(found, stage.body, through, {})
    return reach  # type: ignore[no-any-return]


def _new_reached(stage: Stage) -> Reached:
    found: Reached = {}
    waiting = [(e.value, e.args) for e in distinct_reads(stage.body)]
    seen = set(waiting)
    while waiting and len(found) < MAX_ACCESSES:
        tensor, indices = waiting.pop()
        source = stage.schedule.stage(tensor)
        found[tensor, indices] = is_inlined = source.attach.kind == "inline"
        if not is_inlined:
            continue
        at = {a.var: i for a, i in zip(source.axis, indices, strict=True)}
        for e in distinct_reads(source.body):
            read = (e.value, tuple(simplify(at[i] if i in at else substitute(i, at)) for i in e.args))
            if read not in seen:
                seen.add(read)
                waiting.append(read)
    return found
