"""The text at the end of a tuning run: the result, its certainty, its distance from the roofline, and next commands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.measure.roofline import cached
from autosched.report import text
from autosched.te.work import work_of

if TYPE_CHECKING:
    from autosched.target import Target
    from autosched.te.tensor import Tensor
    from autosched.tuning import TuneResult

#: The hint where there is no roofline yet.
HOW_TO_GET_IT = "the roofline is not known yet: `python -m autosched roofline` measures this machine"


@dataclass(frozen=True)
class Standing:
    """A time as a fraction of the roofline: 1 where it is the least time that the machine allows, `bound_s`."""

    bound_s: float
    limit: str
    fraction: float

    def __str__(self) -> str:
        percent = f"{100 * self.fraction:.0f}" if self.fraction >= 0.01 else "less than 1"
        return f"{percent} % of the {self.limit} roofline"

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {"bound_s": self.bound_s, "limit": self.limit, "fraction": self.fraction}


def standing(args: Sequence[Tensor], target: Target, sizes: Mapping[str, int], seconds: float) -> Standing | str:
    """Compare a call of `seconds` with the roofline; a hint where that has not been measured.

    An empty text for targets without a roofline, unknown sizes, and programs that neither compute in floating point
    nor touch memory.
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


#: Ties that are named.
_TIES = 4


def summary_lines(result: TuneResult, *, build: str, resume: str, standing: str = "") -> list[str]:
    """Lines for standard output. `build` and `resume` are commands to paste, `standing` the part of the roofline."""
    at = text.knobs(result.sizes)
    rows = [("target", f"{result.target} on {result.device}"), *_times(result)]
    rows += [("hardware limit", standing)] if standing else []
    rows += [("machine", _busy(result))] if result.strain else []
    rows += [("search", _effort(result))]
    rows += [("more time", text.more(result.expected))] if result.expected is not None else []
    rows += [("note", note) for note in result.notes]
    width = max(len(name) for name, _ in rows)
    lines = [f"{result.workload}{f', {at}' if at else ''}"]
    lines += [f"  {name:{width}}  {value}" for name, value in rows]
    chosen = result.best or result.predicted
    if chosen is not None and result.schedule_python:
        values = text.knobs(chosen.knobs)
        lines += ["", f"schedule {chosen.sketch}{f' with {values}' if values else ''}:", ""]
        lines += [f"    {line}".rstrip() for line in result.schedule_python.rstrip().splitlines()]
    lines += [
        "",
        f"records  {result.log}{'' if result.is_recorded else ', without the best, which could not be written'}",
    ]
    if chosen is not None and result.is_recorded:
        lines.append(f"build    {build}")
    lines.append(f"resume   {resume}")
    return lines


def _times(result: TuneResult) -> list[tuple[str, str]]:
    """The times of a call without tuning and with it, and their certainty."""
    if result.predicted is not None:
        return _predicted(result)
    if math.isnan(result.default_seconds):
        if result.best is None:
            return [("best found", "nothing: neither the default schedule nor another was seen to work")]
        return [("best found", f"{text.seconds(result.seconds)} per call; the default schedule has not run")]
    default = ("default", f"{text.seconds(result.default_seconds)} per call, without tuning")
    if result.best is None:
        kept = f", {_spell(result.tied)} are as fast" if result.tied else ""
        return [default, ("best found", f"the default schedule: nothing faster was found{kept}")]
    found = ("best found", f"{text.seconds(result.seconds)} per call, {result.speedup:.2f} times as fast")
    low, high = result.interval
    if not math.isfinite(high):
        sure = "each was measured on its own, not side by side: run longer to confirm the difference"
    elif low <= 1:
        sure = f"the difference may be noise: {low:.2f} to {high:.2f} times as fast, with 95 % confidence"
    else:
        sure = f"{low:.2f} to {high:.2f} times as fast, with 95 % confidence"
    ties = [("equally fast", _spell(result.tied))] if result.tied else []
    return [default, found, ("certainty", sure), *ties]


def _predicted(result: TuneResult) -> list[tuple[str, str]]:
    """The same of a schedule that a model chose."""
    assert result.predicted is not None
    checked = "its output is correct" if result.predicted.verified != "no" else "its output was not checked"
    default = [("default", f"{text.seconds(result.default_seconds)} per call, without tuning")]
    if math.isnan(result.speedup):  # it was not timed
        chosen = f"the schedule that a model chose; about {text.seconds(result.seconds)} per call expected; {checked}"
        return [*(() if math.isnan(result.default_seconds) else default), ("best found", chosen)]
    return [
        *default,
        ("best found", f"{text.seconds(result.seconds)} per call, {result.speedup:.2f} times as fast"),
        ("certainty", f"a model chose the schedule, and both were timed once; {checked}"),
    ]


def _spell(tied: Sequence[str]) -> str:
    more = f"; and {len(tied) - _TIES} more" if len(tied) > _TIES else ""
    return f"{'; '.join(tied[:_TIES])}{more}"


def _busy(result: TuneResult) -> str:
    share = f"{100 * result.strain:.0f}"
    return (
        f"busy: in each 100 s of measuring, threads waited {share} s for CPUs that other programs used. "
        "Run this again on an idle machine to confirm the result"
    )


def _effort(result: TuneResult) -> str:
    verb = "interrupted after " if result.interrupted else ""
    parts = [f"{verb}{text.plural(result.trials, 'trial')} in {text.duration(result.elapsed_s)}"]
    if result.resumed:
        parts.append(f"and {text.count(result.resumed)} from earlier runs")
    total = sum(result.failures.values())
    failed = f"; {text.count(total)} failed: {text.census(result.failures)}" if total else ""
    kept = "; everything measured is recorded" if result.interrupted else ""
    return " ".join(parts) + failed + kept
