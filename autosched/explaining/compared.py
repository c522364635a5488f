"""`compare`: two schedules of one workload timed in turns, and whether they really differ."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosched.building import as_workload
from autosched.errors import MeasureError, RecordError, UsageError, raised_in
from autosched.explaining.explanation import ROUNDS, Bench, Result, Variant
from autosched.explaining.subject import Explainable, Subject, best_of, only_winner, subject_of
from autosched.measure.protocol import MeasureOptions
from autosched.measure.stats import Difference, differ
from autosched.noise import typical
from autosched.raw.kernel import RawKernel
from autosched.records import read_files
from autosched.report.text import knobs as knobs_text
from autosched.report.text import seconds as seconds_text
from autosched.runtime.device import describe_device, resolve_target, with_machine
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.space.loading import function_in
from autosched.space.tunable import Tunable
from autosched.space.workload import Workload, WorkloadFunction
from autosched.target import Target, TargetLike

#: the word for the schedule without tuning
DEFAULT = "default"
#: Rounds for what is many times slower: an interval takes so many.
_FEW = 6


@dataclass(frozen=True)
class Comparison:
    """Two schedules, A and B. Times are seconds.

    ratio, interval: the time of B over that of A; the interval holds the true one with 95 % confidence
    faster:          "a" or "b"; empty for a tie: the difference is not significant
    same_code:       both compile to the same program, so nothing was timed
    """

    workload: str
    target: str
    device: str
    sizes: dict[str, int]
    names: tuple[str, str]
    seconds: tuple[float, float]
    ratio: float
    interval: tuple[float, float]
    faster: str
    same_code: bool
    rounds: int

    @property
    def is_tie(self) -> bool:
        """Whether the two do not differ significantly."""
        return not self.faster

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        sides = {
            side: {"name": name, "seconds": s} for side, name, s in zip("ab", self.names, self.seconds, strict=True)
        }
        verdict = {"verdict": self.faster or "tie", "ratio": self.ratio, "interval": list(self.interval)}
        about = {"workload": self.workload, "target": self.target, "device": self.device, "sizes": self.sizes}
        return {**about, **sides, **verdict, "same_code": self.same_code, "rounds": self.rounds}

    def __str__(self) -> str:
        at = f", {knobs_text(self.sizes)}" if self.sizes else ""
        width = max(map(len, self.names))
        lines = [f"{self.workload} for {self.target} on {self.device}{at}"]
        lines += [
            f"{x}  {n:{width}}  {seconds_text(s)}" for x, n, s in zip("AB", self.names, self.seconds, strict=True)
        ]
        return "\n".join([*lines, self.verdict()])

    def verdict(self) -> str:
        """The result in one line."""
        if self.same_code:
            return "tie: both compile to the same code"
        return str(Difference(self.ratio, self.interval, self.faster, self.rounds))


def compare(
    a: Explainable,
    b: Explainable,
    target: TargetLike = None,
    *,
    workload: Workload | WorkloadFunction[...] | RawKernel | str | None = None,
    records: str | os.PathLike[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    rounds: int = ROUNDS,
    measure: MeasureOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Time two schedules of a workload in turns, and judge whether they differ.

    a, b:     what `explain` takes (a record, its id, `FILE.jsonl:LINE`, a workload for its best record, a schedule); a
              folder of records, for the best in it; `FILE.py` with `def schedule(s)`; or `"default"`
    target:   what to run on; by default what the first record is for
    workload: what they compute, where neither says
    records:  a folder to look for records in, instead of the usual ones
    sizes:    of symbolic dimensions; by default those of the first record
    rounds:   of the play-off; where these do not decide, twice as many are added

    Both are verified. Raises RecordError where there is no such record or it does not fit any more, MeasureError where
    one does not work here, VerificationError where the result of A is wrong, TargetError or DeviceError, UsageError
    for arguments that cannot be meant.

        print(autosched.compare("box_blur", "default"))
    """
    context = _Context(target, None if records is None else os.fspath(records), dict(sizes or {}))
    if workload is not None:
        context.workload = _workload_of(workload)
    first, second = context.subjects(a, b)
    names = _label(a, first), _label(b, second)
    if not context.sizes:
        first = replace(first, sizes=first.sizes or second.sizes)
    with Bench(first, measure or MeasureOptions(), rounds, limit=0.0) as bench:
        variant = Variant(None if second.is_kernel else second.trace, dict(second.knobs))
        found = in_turns(bench, variant, progress)
        if not found.works:
            raise MeasureError(f"it does not work here: {found.why}", asked=names[1], legal="another one")
        about = repr(first.workload), str(first.target), describe_device(first.target)["name"], bench.sizes
        if found.same_code:
            return Comparison(*about, names, (bench.seconds, bench.seconds), 1.0, (1.0, 1.0), "", True, 0)
        d = differ(found.baseline, found.samples)
        times = typical(found.baseline), typical(found.samples)
        return Comparison(*about, names, times, d.ratio, d.interval, d.faster, False, len(found.samples))


def default_of(w: Tunable, to: Target, sizes: dict[str, int]) -> tuple[list[Any], dict[str, int]]:
    """The trace and the knobs of the schedule without tuning; of a kernel, the defaults of its parameters."""
    trace, knobs = w.defaults(with_machine(to), w.search_space(to, sizes) if isinstance(w, RawKernel) else None)
    return trace, knobs[0]


def in_turns(bench: Bench, variant: Variant, progress: Callable[[str], None] | None = None) -> Result:
    """The variant against the schedule, for some rounds however clear one measurement is."""
    (found,) = bench.compare([variant], progress or (lambda text: None))
    known = found.same_code or found.samples or not found.works
    return found if known else bench.confirm(variant, _FEW)


def _workload_of(what: Any) -> Workload | RawKernel:
    found = as_workload(what)
    if not isinstance(found, (Workload, RawKernel)):
        raise UsageError(f"{what!r} is no workload", asked="compare(workload=..)", legal="a workload or its name")
    return found


def _label(what: Explainable, subject: Subject) -> str:
    if subject.record is not None:
        return subject.name
    return os.fspath(what) if isinstance(what, (str, os.PathLike)) else "the schedule"


def _rank(what: Explainable) -> int:
    """What says least of the workload comes last."""
    if isinstance(what, (str, os.PathLike)):
        text = os.fspath(what)
        return 2 if text == DEFAULT or text.endswith(".py") else int(os.path.isdir(text))
    return 0


@dataclass
class _Context:
    """What is known of the two: one says it for the other."""

    target: TargetLike
    records: str | None
    sizes: dict[str, int]
    workload: Workload | RawKernel | None = None

    def subjects(self, *sides: Explainable) -> list[Subject]:
        """The schedules. Raises RecordError for two that compute different things."""
        found: dict[int, Subject] = {}
        for i in sorted(range(len(sides)), key=lambda i: _rank(sides[i])):
            subject = self._subject(sides[i])
            if self.workload is not None and self.workload.key != subject.workload.key:
                raise RecordError(
                    f"it computes something else than {self.workload!r}",
                    asked=f"{_label(sides[i], subject)} of {subject.workload!r}",
                    legal="two schedules of one workload, with the same parameters",
                )
            found[i], self.workload, self.target = subject, subject.workload, subject.target  # type: ignore[assignment]
        return [found[i] for i in range(len(sides))]

    def _subject(self, what: Explainable) -> Subject:
        if isinstance(what, Schedule) and self.workload is not None:
            return self._of_schedule(what, "the schedule")
        if not isinstance(what, (str, os.PathLike)):
            return subject_of(what, self.target, records=self.records, sizes=self.sizes or None)
        text = os.fspath(what)
        if text == DEFAULT:
            w, to = self._known(text)
            trace, knobs = default_of(w, to, self.sizes)
            return Subject(w, to, trace, knobs, dict(self.sizes))
        if text.endswith(".py"):
            return self._of_file(Path(text).expanduser())
        if os.path.isdir(path := os.path.expanduser(text)):
            return self._of_folder(path)
        if os.sep in text and ":" not in text and not os.path.exists(path):
            raise RecordError(
                "there is no such file or folder", asked=text, legal="a folder of records, or a .jsonl file"
            )
        return subject_of(text, self.target, records=self.records, sizes=self.sizes or None)

    def _known(self, asked: str) -> tuple[Workload | RawKernel, Target]:
        if self.workload is None:
            legal = "--workload NAME, or `workload=` in Python"
            raise UsageError("nothing says what it computes", asked=f"compare {asked}", legal=legal)
        w = self.workload
        kind = w.kind if self.target is None and isinstance(w, RawKernel) else self.target
        return w, w.compiled_for(resolve_target(kind))

    def _of_folder(self, folder: str) -> Subject:
        if self.workload is not None:
            return best_of(self.workload, self.target, folder, self.sizes or None)
        contents = read_files(sorted(Path(folder).glob("*.jsonl")))
        to = None if self.target is None else resolve_target(self.target)
        try:
            record = only_winner(contents, folder, to)
        except RecordError as error:
            legal = f"--workload NAME, or {error.legal}"
            raise RecordError(error.why, asked=error.asked, legal=legal) from None
        return subject_of(record, self.target, sizes=self.sizes or None)

    def _of_file(self, file: Path) -> Subject:
        w, _ = self._known(str(file))
        fill = function_in(file, "schedule")
        s = create_schedule(list(w.outputs) if isinstance(w, Workload) else [])
        try:
            fill(s)
        except Exception as error:
            raise raised_in(f"schedule(s) of {file}", error) from error
        return self._of_schedule(s, str(file))

    def _of_schedule(self, s: Schedule, name: str) -> Subject:
        w, to = self._known(name)
        if isinstance(w, RawKernel):
            raise UsageError(f"{w.name} is a kernel that somebody wrote", asked=f"compare {name}", legal="its records")
        if s.knobs:
            why = f"it has open knobs: {', '.join(s.knobs)}"
            raise UsageError(why, asked=f"compare {name}", legal="numbers in place of define_knob")
        s.verify()
        return Subject(w, to, s.trace.to_json(), {}, dict(self.sizes))
