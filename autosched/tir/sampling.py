"""Random decisions of `tir.Schedule`: drawn at once, or left as knobs and choices of a template."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from autosched.errors import ScheduleError, with_line
from autosched.ir.expr import Expr, compare, const, floordiv, floormod
from autosched.ir.simplify import simplify
from autosched.schedule.candidates import divisors
from autosched.schedule.loop import leaf_extents
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Loop, Stage
from autosched.te.tensor import ComputeOp

#: place to compute a stage at that is no loop -> the decision for it
PLACES = {"root": -1, "inline": -2}


def perfect_tile(
    s: Schedule,
    loop: Loop,
    n: int,
    max_innermost_factor: int = 16,
    decision: Sequence[int] | None = None,
    rng: random.Random | None = None,
) -> list[Any]:
    """Return `n` factors, outermost first, whose product is the extent of a loop.

    They are the numbers of a `decision`; or with `rng`, random divisors; else all but the outermost are knobs, `B_i_1`
    and so on, with the constraint that they divide. The innermost is at most `max_innermost_factor`. Raises
    ScheduleError unless the extent is a number.
    """
    asked = f"sample_perfect_tile({loop.name}, n={n})"
    if loop not in loop.stage.loops:
        raise ScheduleError(
            f"{loop.full_name} was already split or fused away",
            asked=with_line(asked),
            legal=f"loops of {loop.stage.name}: {loop.stage.describe()}",
        )
    extent = leaf_extents(loop.stage)[loop]
    if extent.op != "const":
        legal = "a loop whose extent is a number"
        raise ScheduleError(f"{loop.full_name} has {extent!r} iterations", asked=with_line(asked), legal=legal)
    if n < 2:
        raise ScheduleError("a loop is tiled in two at least", asked=with_line(asked), legal="n=2 or more")
    total = int(extent.value)
    if decision is not None:
        if len(decision) != n or prod(decision) != total:
            legal = f"{n} numbers whose product is {total}"
            raise ScheduleError(f"{list(decision)} is no tiling of {total}", asked=with_line(asked), legal=legal)
        return [int(d) for d in decision]
    factors = divisors(total)
    inner_most = [d for d in factors if d <= max_innermost_factor]
    if rng is not None:
        drawn = [rng.choice(inner_most)]
        for _ in range(n - 2):
            drawn.insert(0, rng.choice(divisors(total // prod(drawn))))
        return [total // prod(drawn), *drawn]
    name = re.sub(r"\W", "_", f"{loop.stage.name}_{loop.name}")
    knobs = [s.define_knob(_fresh(s, f"{name}_{k}"), inner_most if k == n - 1 else factors) for k in range(1, n)]
    inner: Expr = prod(knobs, start=const(1))
    if n > 2:
        s.constrain(compare("eq", floormod(extent, inner), const(0)), f"tiles of {loop.full_name} divide {total}")
    return [simplify(floordiv(extent, inner)), *knobs]


def categorical(
    s: Schedule,
    candidates: Sequence[Any],
    probs: Sequence[float] | None = None,
    decision: int | None = None,
    rng: random.Random | None = None,
) -> Any:
    """Return one of the candidates: at position `decision`, drawn with `rng`, or by a `choose` of the template."""
    asked = f"sample_categorical({list(candidates)})"
    if not candidates:
        raise ScheduleError("nothing to choose from", asked=with_line(asked), legal="one candidate at least")
    if probs is not None and (len(probs) != len(candidates) or min(probs) < 0 or sum(probs) <= 0):
        raise ScheduleError(
            f"{list(probs)} are no probabilities of {len(candidates)} candidates",
            asked=with_line(asked),
            legal="a number that is not negative for each, not all of them 0",
        )
    if decision is not None:
        if not 0 <= decision < len(candidates):
            legal = f"0 to {len(candidates) - 1}"
            raise ScheduleError(f"there is no candidate {decision}", asked=with_line(asked), legal=legal)
        return candidates[decision]
    if rng is not None:
        return rng.choices(list(candidates), probs)[0]
    return s.choose(f"choice_{len(s.choices_seen)}", candidates)


def compute_location(
    s: Schedule, stage: Stage, loops: Sequence[Loop], decision: int | None = None, rng: random.Random | None = None
) -> Loop | str:
    """Return one of the loops, "root", or "inline" where the stage may be inlined: at random, or by a `choose`."""
    inlined = isinstance(stage.op, ComputeOp) and not (stage.reduce_axis or stage.is_output or s.scans.step_of(stage))
    inlined = inlined and all(isinstance(x.op, ComputeOp) for x in s.consumers(stage))
    outside = next((k for k, x in enumerate(loops) if x.kind == "vectorize"), len(loops))
    places: dict[int, Loop | str] = {-2: "inline"} if inlined else {}
    places[-1] = "root"
    places.update(enumerate(loops[:outside] if not stage.is_output else []))
    if decision is None and rng is not None:
        decision = rng.choice(list(places))
    elif decision is None:
        decision = s.choose(f"place_{len(s.choices_seen)}", list(places))
    if decision not in places:
        names = ", ".join(f"{k}: {getattr(x, 'full_name', x)}" for k, x in sorted(places.items()))
        asked = with_line(f"sample_compute_location({stage.name}, decision={decision})")
        raise ScheduleError(f"there is no place {decision} for {stage.name}", asked=asked, legal=names)
    return places[decision]


def _fresh(s: Schedule, name: str) -> str:
    count, made = 0, name
    while made in s.knobs:
        count += 1
        made = f"{name}_{count}"
    return made


class Sampling:
    """The methods of a schedule of blocks that draw, or leave decisions to a tuner."""

    schedule: Any
    _template: Any
    _random: random.Random

    if TYPE_CHECKING:

        def _stage(self, block: Any) -> Any: ...

        def get_loops(self, block: Any) -> list[Loop]: ...

        def get_consumers(self, block: Any) -> list[Any]: ...

    @property
    def _rng(self) -> random.Random | None:
        """None in a template, whose decisions are the tuner's."""
        return None if self._template is not None else self._random

    def sample_perfect_tile(
        self, loop: Loop, n: int, max_innermost_factor: int = 16, decision: Sequence[int] | None = None
    ) -> list[Any]:
        """Return `n` factors whose product is the loop's extent: see `perfect_tile`."""
        return perfect_tile(self.schedule, loop, n, max_innermost_factor, decision, self._rng)

    def sample_categorical(
        self, candidates: Sequence[Any], probs: Sequence[float] | None = None, decision: int | None = None
    ) -> Any:
        """Return one of the candidates: see `categorical`. `decision` is its position."""
        return categorical(self.schedule, candidates, probs, decision, self._rng)

    def sample_compute_location(self, block: Any, decision: int | None = None) -> Loop | str:
        """Return a place for `compute_at`: a loop around all readers of the block, "root", or "inline" if it can be.

        `decision` is the loop's position in `get_loops` of what reads it, or -1 for "root", -2 for "inline".
        """
        stage = self._stage(block)
        around = [self.get_loops(reader) for reader in self.get_consumers(block)]
        loops = [x for x in around[0] if all(x in other for other in around)] if around else []
        return compute_location(self.schedule, stage, loops, decision, self._rng)
