"""Predicted schedules: the choice of a model of this machine for a workload without a record, within seconds.

`tune --trials 0` searches the whole space for it and verifies what it finds. Here there is a time limit, because
`build` is waiting: `foreseen` looks at a few sketches, and takes the best that it has seen when the time is over. The
answer is remembered in the user's cache folder, so that the same build gives the same schedule whatever else the
machine does; one that was cut short, or found nothing in time, for a day.

A program whose sizes are symbolic is asked at usual sizes, and once more with each dimension short: vectors along rows
of three elements are loops of their own for each row. Where another schedule is clearly better there, the function has
both, and chooses at each call.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autosched.choosing import Foreseen, Short, Usual, choices_by_model
from autosched.deadline import TooLate, within
from autosched.errors import AutoschedError, BuildError, Fields, Form, ScheduleError, UsageError, parse_json, with_line
from autosched.garbage import few_collections
from autosched.ir.attached import attach
from autosched.ir.dims import dim_of, evaluate_dim
from autosched.ir.expr import as_expr, variables
from autosched.places import cache_folder, package_digest, write_whole
from autosched.runtime.device import describe_device, resolve_target, versions, with_machine
from autosched.schedule.renaming import names_of
from autosched.schedule.schedule import Schedule, perform, replay
from autosched.schedule.trace import FOR_TUNING, Trace
from autosched.space.default import by_default
from autosched.space.workload import Workload
from autosched.target import Target, TargetLike
from autosched.te.tensor import Graph

#: Seconds of computing that finding the answer may take, and how many times as long on a busy machine.
LIMIT_S, PATIENT_LIMITS = 3.0, 3
#: Operations of a program that is long, inputs among them: one twice as long has twice the time, which is the most.
LONG, LONGER = 80, 2.0
#: Length of a dimension that nobody has given, in arrays of so many of them; more have the last. That of one that
#: shortens another one, as a window does. Asking the workload for inputs may load a file.
USUAL_SIZES, USUAL_WINDOW = (1024, 1024, 128, 32), 32
#: Seconds after which it is tried again where there was no time.
AGAIN_S = 86_400.0
#: Share of the time that was computed in at least; with less, others had the machine, and the answer is not kept.
FAIR_SHARE = 0.9
_LATE = "no prediction within"


def is_on() -> bool:
    """Whether predictions are wanted; `AUTOSCHED_PREDICT=0` leaves them out."""
    return os.environ.get("AUTOSCHED_PREDICT", "1") != "0"


def foreseen(
    w: Workload, target: Target, device: str, sizes: Mapping[str, int] | None, *, limit_s: float = LIMIT_S
) -> tuple[Foreseen | None, str]:
    """(The choice, or None, and why there is none). Never takes longer than `limit_s` seconds by much, nor raises.

    Dimensions that `sizes` does not tell may be short at some calls, for which the choice may have others.
    """
    at = likely_sizes(w) | w.usual_sizes() | dict(sizes or {})
    unknown = [name for name in at if name not in (sizes or {})]
    return _remembered(w, target, device, at, unknown, None, limit_s)


def likely_sizes(w: Workload) -> dict[str, int]:
    """Lengths of dimensions of which nothing is known. What nothing would be left of others by is a window.

    >>> from autosched import te
    >>> n, width = te.var("n"), te.var("width")
    >>> x, k = te.placeholder((n,), name="x"), te.reduce_axis((0, width), name="k")
    >>> sums = te.compute((n - width + 1,), lambda i: te.sum(x[i + k], axis=k), name="sums")
    >>> likely_sizes(Workload("moving", (x, sums)))
    {'n': 1024, 'width': 32}
    """
    at = dict.fromkeys(w.size_names(), USUAL_SIZES[0])
    for t in w.args:
        names = {v.name for d in t.shape for v in variables(as_expr(d))} & at.keys()
        at |= {n: min(at[n], USUAL_SIZES[min(len(names), len(USUAL_SIZES)) - 1]) for n in names}
    for length in dict.fromkeys(as_expr(d) for t in w.args for d in t.shape):
        with suppress(BuildError, KeyError):  # no dimension of arrays, or of a number that is no length
            dim = dim_of(length)
            if evaluate_dim(dim, at) <= 1:
                windows = [n for n in at if evaluate_dim(dim, at | {n: USUAL_WINDOW}) > 1]
                at |= dict.fromkeys(windows, USUAL_WINDOW)
    return at


def foreseen_short(
    w: Workload, target: Target, device: str, sizes: Mapping[str, int], usual: Usual, *, limit_s: float = LIMIT_S
) -> tuple[Short, ...]:
    """What is better than the `usual` choice, which is for these sizes, where one of them is short; as `foreseen`."""
    known, _ = _remembered(w, target, device, dict(sizes), list(sizes), usual, limit_s)
    return () if known is None else known.short


def _remembered(
    w: Workload,
    target: Target,
    device: str,
    at: dict[str, int],
    unknown: Sequence[str],
    usual: Usual | None,
    limit_s: float,
) -> tuple[Foreseen | None, str]:
    limit_s *= min(LONGER, max(1.0, len(Graph.of(w.args).ops) / LONG))
    file = answer_file(w, target, device, at, unknown, usual)
    known = _answered(file)
    if known is None:
        begun = time.thread_time()
        known = _within_limit(w, target, at, unknown, usual, limit_s)
        if not known[1].startswith(_LATE) or time.thread_time() - begun >= FAIR_SHARE * limit_s:
            _write(file, known)
    answers[file] = known
    return known


def foreseen_before(w: Workload, target: Target, device: str, sizes: Mapping[str, int]) -> Foreseen | None:
    """The choice that `build` has made earlier at these sizes; None where it has not, or found none."""
    for unknown in ((), w.size_names()):
        known = _answered(answer_file(w, target, device, dict(sizes), unknown))
        if known is not None:
            return known[0]
    return None


def _within_limit(
    w: Workload, target: Target, at: dict[str, int], unknown: Sequence[str], usual: Usual | None, limit_s: float
) -> tuple[Foreseen | None, str]:
    """The best choice that was found within the time, with the reason why it may not be the last word."""
    late = f"{_LATE} {limit_s:g} s, `autosched tune` with --trials 0 takes the time"
    found, why = None, late
    try:
        with few_collections(), within(PATIENT_LIMITS * limit_s), within(limit_s, cpu=True):
            for found, why in choices_by_model(w, target, at, unknown, usual):  # noqa: B007  # the last one is it
                pass
    except TooLate:
        return found, late
    except Exception as error:  # a search space is its author's code, and a model may fail on what it makes
        return None, f"no prediction: {' '.join(str(error).split())[:200]}"
    return found, why


#: What `auto` may do: take the default schedule, or what the model of this machine chooses.
AUTO_EFFORTS = ("none", "quick")


def auto(
    s: Schedule, target: TargetLike = None, *, sizes: Mapping[str, int] | None = None, effort: str = "quick"
) -> Schedule:
    """Do to a new schedule what `build` would choose without records, on which a person may build: loops in parallel
    and in vectors, tiles, producers where they are needed.

    sizes:   those to choose for, of symbolic dimensions
    effort:  "quick" takes the choice of a model of this machine, which it finds within 3 s (of long programs, 6), or
             where it finds none the default schedule; "none" takes that at once

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


def answer_file(
    w: Workload,
    target: Target,
    device: str,
    at: Mapping[str, int],
    unknown: Sequence[str] = (),
    usual: Usual | None = None,
) -> Path:
    """The file of the answer, one for each question; relative where there is no cache folder."""
    code = [_digest_of(path) for path in w.files]
    program = [w.key, w.name, names_of(w.args)]  # traces go by names
    asked = [sorted(at.items()), sorted(unknown), usual]
    what = [program, str(target), device, versions(), package_digest(), asked, code]
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


_CHOICE = Fields(
    {
        "sketch": Form.text(),
        "trace": Form.array(),
        "knobs": Form.object(Form.integer(), "an object of integers"),
        "seconds": Form.number(above=0),
    }
)
_LENGTH = Form.integer(least=1)
_SHORT = Fields({"size": Form.text(), "below": _LENGTH, "lanes": _LENGTH, "whole": _LENGTH, "choice": _CHOICE})
_FORESEEN = Fields({**_CHOICE.fields, "short": Form.array(_SHORT, "an array of versions"), "late": Form.flag()})


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
                    short = (Short(**{**x, "choice": _choice(x["choice"])}) for x in found["short"])
                    return replace(_choice(found), short=tuple(short)), ""
    return None


def _choice(data: Any) -> Foreseen:
    return Foreseen(data["sketch"], data["trace"], data["knobs"], float(data["seconds"]))


def _write(file: Path, found: tuple[Foreseen | None, str]) -> None:
    choice, why = found
    data: dict[str, Any] = {"none": why}
    if choice is not None:
        data = {**asdict(choice), "late": bool(why)}
    if file.is_absolute():
        with suppress(OSError):  # the next process predicts anew
            write_whole(file, lambda out: out.write(json.dumps(data).encode()))
