"""The end of a tuning run as text: what was won, how sure that is, and what to do next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from autosched.report import text

if TYPE_CHECKING:
    from autosched.tuning import TuneResult

__all__ = ["summary_lines"]

#: Ties that are spelled out.
_TIES = 4


def summary_lines(result: TuneResult, *, build: str, resume: str, standing: str = "") -> list[str]:
    """Lines for standard output. `build` and `resume` are commands to paste, `standing` says where the
    time stands below the roofline."""
    lines = [_outcome(result), *([standing] if standing else []), *_ties(result), _effort(result)]
    lines += [f"note: {note}" for note in result.notes]
    chosen = result.best or result.predicted
    if chosen is not None and result.schedule_python:
        values = text.knobs(chosen.knobs)
        lines += ["", f"schedule {chosen.sketch}{f' at {values}' if values else ''}:", ""]
        lines += [f"    {line}".rstrip() for line in result.schedule_python.rstrip().splitlines()]
    lines += ["", f"records  {result.log}"]
    if chosen is not None:
        lines.append(f"build    {build}")
    lines.append(f"resume   {resume}")
    return lines


def _outcome(result: TuneResult) -> str:
    where = f"{result.workload} for {result.target} on {result.device}"
    if result.predicted is not None:
        compared = "compared with the reference" if result.predicted.verified != "no" else "not verified"
        return (
            f"{where}: about {text.seconds(result.seconds)} expected of the model's choice; its output was {compared}"
        )
    if math.isnan(result.default_seconds):
        return f"{where}: no choice of the model works"
    default = text.seconds(result.default_seconds)
    if result.best is None:
        return f"{where}: no schedule is known to be faster than the default, {default}"
    times = f"{text.seconds(result.seconds)} instead of {default}, {text.ratio(result.speedup)} as fast"
    low, high = result.interval
    if not math.isfinite(high):
        return f"{where}: {times}, not confirmed by a play-off"
    doubt = "; the difference is within the noise" if low <= 1 else ""
    return f"{where}: {times} (95 % certain: {text.ratio(low)} to {text.ratio(high)}){doubt}"


def _ties(result: TuneResult) -> list[str]:
    if not result.tied:
        return []
    more = f"; and {len(result.tied) - _TIES} more" if len(result.tied) > _TIES else ""
    return [f"as fast, as far as can be told: {'; '.join(result.tied[:_TIES])}{more}"]


def _effort(result: TuneResult) -> str:
    verb = "interrupted after" if result.interrupted else "after"
    parts = [f"{verb} {text.plural(result.trials, 'trial')} in {text.duration(result.elapsed_s)}"]
    if result.resumed:
        parts.append(f"and {text.count(result.resumed)} from earlier runs")
    total = sum(result.failures.values())
    failed = f"; {text.count(total)} failed: {text.census(result.failures)}" if total else ""
    kept = "; everything measured is recorded" if result.interrupted else ""
    return " ".join(parts) + failed + kept
