"""Predicted schedules: the choice of a model of this machine for a workload without a record, within seconds.

`tune --trials 0` searches the whole space for it and verifies what it finds. Here there is a time limit, because
`build` is waiting: `foreseen` looks at a few sketches, and takes the best that it has seen when the time is over. The
answer is remembered in the user's cache folder, so that the same build gives the same schedule whatever else the
machine does; one that was cut short, or found nothing in time, for a day.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.deadline import TooLate, within
from autosched.errors import AutoschedError, Fields, Form, ScheduleError, UsageError, parse_json, with_line
from autosched.garbage import few_collections
from autosched.ir.attached import attach
from autosched.places import cache_folder, write_whole
from autosched.runtime.device import describe_device, resolve_target, versions, with_machine
from autosched.schedule.schedule import Schedule, perform, replay
from autosched.schedule.trace import FOR_TUNING, Trace
from autosched.space.default import by_default
from autosched.space.space import DEFAULT
from autosched.space.workload import Workload
from autosched.target import Target, TargetLike

if TYPE_CHECKING:
    from autosched.model import AnalyticalModel

#: Seconds of computing that finding the answer may take, and how many times as long on a busy machine.
LIMIT_S, PATIENT_LIMITS = 3.0, 3
#: Sketches that are looked at, and seconds after which none is begun.
SKETCHES, PATIENCE_S = 12, 1.5
#: Length of a dimension that nobody has given. Asking the workload for inputs may load a file.
USUAL_SIZE = 1024
#: Seconds after which it is tried again where there was no time.
AGAIN_S = 86_400.0
#: Share of the time that was computed in at least; with less, others had the machine, and the answer is not kept.
FAIR_SHARE = 0.9
#: How many times as fast the default schedule has to look to be chosen: the model counts many stages beside each other
#: too dear, which the default has in plain nests.
AHEAD = 1.5
_VERSION = 19
_LATE = "no prediction within"


@dataclass(frozen=True)
class Foreseen:
    """A model's choice: the name of a sketch, its trace, knob values, and the seconds that it expects."""

    sketch: str
    trace: list[Any]
    knobs: dict[str, int]
    seconds: float


def is_on() -> bool:
    """Whether predictions are wanted; `AUTOSCHED_PREDICT=0` leaves them out."""
    return os.environ.get("AUTOSCHED_PREDICT", "1") != "0"


def machine_model(feature_names: Sequence[str], target: Target) -> AnalyticalModel | None:
    """The analytical model of a target on this machine; None where there is none of its device, or of these
    features."""
    from autosched.model import prior_for  # a build that finds a record needs no model

    limits = with_machine(target).limits
    return prior_for(feature_names, is_gpu_style=target.is_gpu_style, units=target.num_threads, limits=limits)


def foreseen(
    w: Workload, target: Target, device: str, sizes: Mapping[str, int] | None, *, limit_s: float = LIMIT_S
) -> tuple[Foreseen | None, str]:
    """(The choice, or None, and why there is none). Never takes longer than `limit_s` seconds by much, nor raises."""
    at = dict.fromkeys(w.size_names(), USUAL_SIZE) | w.usual_sizes() | dict(sizes or {})
    file = answer_file(w, target, device, at)
    known = _answered(file)
    if known is None:
        begun = time.thread_time()
        known = _within_limit(w, target, at, limit_s)
        if not known[1].startswith(_LATE) or time.thread_time() - begun >= FAIR_SHARE * limit_s:
            _write(file, known)
    answers[file] = known
    return known


def foreseen_before(w: Workload, target: Target, device: str, sizes: Mapping[str, int]) -> Foreseen | None:
    """The choice that `build` has made earlier at these sizes; None where it has not, or found none."""
    known = _answered(answer_file(w, target, device, dict(sizes)))
    return None if known is None else known[0]


def _within_limit(w: Workload, target: Target, at: dict[str, int], limit_s: float) -> tuple[Foreseen | None, str]:
    """The best choice that was found within the time, with the reason why it may not be the last word."""
    late = f"{_LATE} {limit_s:g} s, `autosched tune` with --trials 0 takes the time"
    found, why = None, late
    try:
        with few_collections(), within(PATIENT_LIMITS * limit_s), within(limit_s, cpu=True):
            for found, why in choices_by_model(w, target, at):  # noqa: B007  # the last one is it
                pass
    except TooLate:
        return found, late
    except Exception as error:  # a search space is its author's code, and a model may fail on what it makes
        return None, f"no prediction: {' '.join(str(error).split())[:200]}"
    return found, why


def choices_by_model(w: Workload, target: Target, at: dict[str, int]) -> Iterator[tuple[Foreseen | None, str]]:
    """Better and better choices; or None once, and why there is none."""
    from autosched.search.predicted import outlooks  # as above

    space = w.search_space(with_machine(target), at)
    prior = machine_model(space.feature_names, target)
    if prior is None:
        yield None, "no prediction: there is no model of this device"
        return
    best = None
    for outlook in outlooks(space, prior.seconds, sketches=SKETCHES, patience_s=PATIENCE_S):
        first = outlook.choices[0]
        close = (c for c in outlook.choices if c.seconds <= AHEAD * first.seconds)
        best = next((c for c in close if space.sketches[c.candidate.sketch].name != DEFAULT), first)
        sketch = space.sketches[best.candidate.sketch]
        yield Foreseen(sketch.name, sketch.trace, sketch.values(best.candidate.indices), best.seconds), ""
    if best is None:
        yield None, "no prediction: its search space has no valid point"


#: What `auto` may do: take the default schedule, or what the model of this machine chooses.
AUTO_EFFORTS = ("none", "quick")


def auto(
    s: Schedule, target: TargetLike = None, *, sizes: Mapping[str, int] | None = None, effort: str = "quick"
) -> Schedule:
    """Do to a new schedule what `build` would choose without records, on which a person may build: loops in parallel
    and in vectors, tiles, producers where they are needed.

    sizes:   those to choose for, of symbolic dimensions
    effort:  "quick" takes the choice of a model of this machine, which it finds within 3 s, or where it finds none the
             default schedule; "none" takes that at once

    The calls are in `s.trace`, with numbers, so `print(s.trace.as_python())` shows them, and further calls may follow.
    Raises ScheduleError for a schedule that something was done to already, and UsageError for another effort.

    >>> from autosched import create_schedule, te
    >>> A = te.placeholder((1024, 1024), name="A")
    >>> s = create_schedule(te.compute((1024, 1024), lambda i, j: A[i, j] * 2, name="B")).auto("llvm")
    >>> any(loop.kind == "parallel" for loop in s["B"].loops)
    True
    >>> s = create_schedule(te.compute((1024, 1024), lambda i, j: A[i, j] * 2, name="B"))
    >>> [loop.kind for loop in s.auto("llvm", effort="none")["B"].loops]
    ['parallel', 'serial', 'vectorize']
    """
    if effort not in AUTO_EFFORTS:
        legal = f"{' or '.join(AUTO_EFFORTS)}; autosched.tune searches"
        raise UsageError(
            f"there is no effort {effort!r} of it", asked=with_line(f"s.auto(effort={effort!r})"), legal=legal
        )
    if len(s.trace):
        legal = "s.auto() first; then split, reorder and the like change what it chose"
        raise ScheduleError(f"{len(s.trace)} primitives were called already", asked=with_line("s.auto()"), legal=legal)
    to = resolve_target(target)
    if effort == "none":
        by_default(s, with_machine(to))
        return s
    found, _ = foreseen(Workload("auto", s.arguments), to, describe_device(to)["name"], sizes)
    try:
        if found is not None:  # a file of the cache may say it: as `build` does, try it on another schedule first
            replay(found.trace, s.arguments, trusted=False)
            steps = [i for i in Trace.from_json(found.trace) if i.kind not in (*FOR_TUNING, "define_knob")]
            steps = [i.at(found.knobs) for i in steps]
    except AutoschedError as error:
        warnings.warn(f"the model's choice is passed over: {error}", RuntimeWarning, stacklevel=2)
        found = None
    if found is None:
        by_default(s, with_machine(to))
        return s
    for i in steps:
        perform(s, i)
    return s


attach(Schedule, auto=auto)


# -- what was found before ------------------------------------------------------------------------
#: what was answered in this process, by the file that keeps it
answers: dict[Path, tuple[Foreseen | None, str]] = {}


def answer_file(w: Workload, target: Target, device: str, at: Mapping[str, int]) -> Path:
    """The file of the answer, one for each question; relative where there is no cache folder."""
    code = [_digest_of(path) for path in w.files]
    what = [_VERSION, w.key, w.name, str(target), device, versions(), sorted(at.items()), code]
    digest = hashlib.sha256(json.dumps(what).encode()).hexdigest()[:24]
    folder = Path()
    with suppress(RuntimeError):  # no home folder
        folder = cache_folder()
    return folder / "predictions" / f"{digest}.json"


def _digest_of(path: str) -> str:
    """The digest of a search space's file: another template makes another choice."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError:
        return path


_FORESEEN = Fields(
    {
        "sketch": Form.text(),
        "trace": Form.array(),
        "knobs": Form.object(Form.integer(), "an object of integers"),
        "seconds": Form.number(above=0),
        "late": Form.flag(),
    }
)


def _answered(file: Path) -> tuple[Foreseen | None, str] | None:
    return answers.get(file) or _read(file)


def _read(file: Path) -> tuple[Foreseen | None, str] | None:
    with suppress(OSError, ValueError):
        found: Any = parse_json(file.read_bytes()) if file.is_absolute() else None
        match found:
            case {"none": str(why)} if not why.startswith(_LATE) or time.time() - file.stat().st_mtime < AGAIN_S:
                return None, why
            case {"sketch": _}:
                _FORESEEN.check(found)
                if not found["late"] or time.time() - file.stat().st_mtime < AGAIN_S:
                    return Foreseen(found["sketch"], found["trace"], found["knobs"], float(found["seconds"])), ""
    return None


def _write(file: Path, found: tuple[Foreseen | None, str]) -> None:
    choice, why = found
    data: dict[str, Any] = {"none": why}
    if choice is not None:
        data = {**asdict(choice), "late": bool(why)}
    if file.is_absolute():
        with suppress(OSError):  # the next process predicts anew
            write_whole(file, lambda out: out.write(json.dumps(data).encode()))
