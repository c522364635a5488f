"""Where a time stands below this machine's roofline, as reports say it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.measure.roofline import cached
from autosched.te.work import work_of

if TYPE_CHECKING:
    from autosched.target import Target
    from autosched.te.tensor import Tensor

#: what a report says where there is no roofline yet
HOW_TO_GET_IT = "the roofline is not known yet: `python -m autosched roofline` measures this machine"


@dataclass(frozen=True)
class Standing:
    """A time on this machine, and the least that the roofline allows: `fraction` is 1 at the roofline."""

    bound_s: float
    limit: str
    fraction: float

    def __str__(self) -> str:
        percent = f"{100 * self.fraction:.0f}" if self.fraction >= 0.01 else "less than 1"
        return f"{percent} % of the {self.limit} roofline"

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"bound_s": self.bound_s, "limit": self.limit, "fraction": self.fraction}


def standing(args: Sequence[Tensor], target: Target, sizes: Mapping[str, int], seconds: float) -> Standing | str:
    """Where a call of `seconds` stands; a hint where the roofline has not been measured.

    An empty text where there is nothing to say: targets without a roofline, sizes that are not known,
    programs that neither compute in floating point nor touch memory.
    """
    if target.kind != "llvm" or "mcpu" in target.options or not (math.isfinite(seconds) and seconds > 0):
        return ""
    work = work_of(args, sizes)
    if work is None or not (work.moved or work.flops):
        return ""
    roofline = cached()
    if roofline is None:
        return HOW_TO_GET_IT
    bound = roofline.bound(work, target.num_threads)
    return Standing(bound.seconds, bound.limit, bound.seconds / seconds)
