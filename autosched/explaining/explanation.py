"""Undo each primitive of a schedule in turn, measure again, and say what each is worth."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import MeasureError, VerificationError
from autosched.explaining.subject import Explainable, Subject, subject_of
from autosched.lowering.bounds import inferred_ranges
from autosched.measure.measurer import Measurer
from autosched.measure.protocol import Job, MeasureOptions
from autosched.measure.stats import ratio_interval
from autosched.report.summary import Standing, standing
from autosched.report.text import knobs as knobs_text
from autosched.report.text import plural, table
from autosched.report.text import seconds as seconds_text
from autosched.runtime.device import describe_device, with_machine
from autosched.schedule.schedule import Schedule
from autosched.schedule.trace import Trace
from autosched.schedule.undo import Undone, knobs_of, undo_knob, undoable, ways_to_undo
from autosched.space.workload import Workload
from autosched.target import TargetLike
from autosched.te.tensor import Tensor

if TYPE_CHECKING:
    import pandas as pd

#: Variants in one play-off: the runner keeps only so many loaded, and a round should be short.
_AT_ONCE = 10
#: One that is so many times slower gets as many rounds as an interval takes.
_CLEARLY_SLOWER = 3.0
_FEW_ROUNDS = 6
#: And one so much slower has no play-off: one measurement tells enough.
_BEYOND_DOUBT = 20.0
#: Play-offs that the schedule itself may leave before it is given up.
_ATTEMPTS = 3
#: The schedule itself may take so many times the time limit: it waits for workers to start.
_PATIENCE = 6.0


@dataclass(frozen=True)
class Variant:
    """A candidate: a trace in JSON form, or None for the schedule's own, and values of its knobs."""

    trace: list[Any] | None
    knobs: dict[str, int]

    @property
    def key(self) -> str:
        return json.dumps([self.trace, self.knobs], sort_keys=True)


@dataclass
class Result:
    """A variant compared with the schedule. `ratio` is its time over that of the schedule, `interval`
    holds the true one with 95 % confidence; infinite, with the reason in `why`, if it does not work."""

    ratio: float = float("inf")
    interval: tuple[float, float] = (0.0, float("inf"))
    why: str = ""
    same_code: bool = False
    digest: str = ""
    samples: list[float] = field(default_factory=list)  #: seconds, in rounds
    baseline: list[float] = field(default_factory=list)  #: of the schedule, in the same rounds

    @property
    def works(self) -> bool:
        return not self.why


class Bench:
    """A measuring session on one schedule. A context manager: it holds worker processes.

    limit: how much slower a variant may be without being slower, as a fraction: 0.02
    """

    def __init__(self, subject: Subject, options: MeasureOptions, rounds: int, limit: float) -> None:
        self.subject, self.rounds, self.limit = subject, rounds, limit
        w = subject.workload
        inputs = w.sample_inputs(subject.sizes or None)
        self.sizes = w.sizes_of(inputs)
        adjusted, expected = w.adjusted(options), w.reference(inputs)
        self.measurer = Measurer(
            w.graph,
            with_machine(subject.target),
            {"schedule": subject.trace},
            inputs,
            expected,
            replace(adjusted, imports=(*adjusted.imports, *w.files)),
            backend=w.backend,
            initial=w.initial(inputs),
            roundings=w.roundings(subject.target, inputs, expected),
        )
        self.numbers = itertools.count(1)
        self.known: dict[str, Result] = {}
        self.jobs: dict[str, Job] = {}
        self.base = Job(0, "schedule", dict(subject.knobs), patience=_PATIENCE)
        self.seconds = float("nan")
        self.digest = ""

    def __enter__(self) -> Bench:
        try:
            (m,) = self.measurer.measure([self.base])
        except BaseException:
            self.measurer.close()
            raise
        if not m.ok:
            self.measurer.close()
            if m.status == "correctness":
                raise VerificationError(
                    f"its result is wrong: {m.error}", asked=self.subject.name, legal="tune it again"
                )
            legal = "`autosched doctor` says what is found on this machine"
            raise MeasureError(f"it does not work here ({m.status}): {m.error}", asked=self.subject.name, legal=legal)
        self.seconds, self.digest = m.seconds, m.digest
        return self

    def __exit__(self, *error: object) -> None:
        self.measurer.close()

    def compare(self, variants: Iterable[Variant], tell: Callable[[str], None] = lambda text: None) -> list[Result]:
        """Compare each variant with the schedule, in the order given."""
        wanted = list(variants)
        new = {v.key: v for v in wanted if v.key not in self.known}
        if new:
            self._measure(list(new.values()), tell)
            self._play_off(list(new), self.rounds, tell)
            found = [(key, self.known[key]) for key in new]
            near = [(key, r.interval) for key, r in found if r.works and not r.same_code and r.ratio < _CLEARLY_SLOWER]
            unclear = [key for key, (low, high) in near if low <= 1 + self.limit < high]
            self._play_off(unclear, 2 * self.rounds, tell)
        return [self.known[v.key] for v in wanted]

    def confirm(self, variant: Variant, rounds: int) -> Result:
        """The variant against the schedule once more, for as many rounds, with nothing of what was found before. What
        is the same code is as fast, whatever the samples say."""
        job = self.jobs.get(variant.key, self.base)
        fresh = Result(digest=self.known[variant.key].digest if variant.key in self.known else self.digest)
        self._meet([(fresh, job)], rounds)
        if fresh.works and fresh.digest == self.digest:
            fresh.ratio, fresh.interval, fresh.same_code = 1.0, (1.0, 1.0), True
        return fresh

    # -- steps -------------------------------------------------------------------------------------
    def _measure(self, variants: Sequence[Variant], tell: Callable[[str], None]) -> None:
        keys = {}
        for v in variants:
            number = next(self.numbers)
            keys[number] = v.key
            self.jobs[v.key] = Job(number, f"variant {number}", dict(v.knobs), trace=v.trace)
        tell(f"building and measuring {plural(len(variants), 'variant')}")
        for m in self.measurer.measure([self.jobs[v.key] for v in variants]):
            if not m.ok:
                result = Result(why=in_few_words(m.status, m.error))
            elif m.digest == self.digest:
                result = Result(1.0, (1.0, 1.0), same_code=True, digest=m.digest)
            else:
                result = Result(m.seconds / self.seconds, digest=m.digest)
            self.known[keys[m.job.id]] = result

    def _play_off(self, keys: Sequence[str], rounds: int, tell: Callable[[str], None]) -> None:
        """Interleaved rounds of those whose ratio is not known well yet."""
        all_of = [(self.known[key], self.jobs[key]) for key in keys]
        left = [x for x in all_of if x[0].works and not x[0].same_code and x[0].ratio < _BEYOND_DOUBT]
        left.sort(key=lambda x: x[0].ratio)
        near = sum(r.ratio < _CLEARLY_SLOWER for r, _ in left)
        parts = [(left[i : min(i + _AT_ONCE, near)], rounds) for i in range(0, near, _AT_ONCE)]
        parts += [(left[i : i + _AT_ONCE], _FEW_ROUNDS) for i in range(near, len(left), _AT_ONCE)]
        for k, (part, count) in enumerate(parts, start=1):
            tell(f"play-off {k} of {len(parts)}: {len(part)} against the schedule, {count} rounds")
            self._meet(part, count)

    def _meet(self, part: Sequence[tuple[Result, Job]], rounds: int) -> None:
        for _ in range(_ATTEMPTS):  # on a machine that others load, even this one may once take too long
            found = self.measurer.playoff([self.base, *(job for _, job in part)], rounds)
            if baseline := found[0][1]:
                break
        else:
            why = self.measurer.playoff_errors.get(self.base.id, "")
            raise MeasureError(f"the schedule itself left the play-off: {why}", asked=self.subject.name)
        self.seconds = float(np.median(baseline))
        for (result, job), (_, samples) in zip(part, found[1:], strict=True):
            if not samples:
                result.why = in_few_words(*self.measurer.playoff_errors[job.id].split(": ", 1))
                continue
            result.samples += samples
            result.baseline += baseline[: len(samples)]
            n = min(len(result.samples), len(result.baseline))
            result.ratio = float(np.median(np.array(result.samples[:n]) / np.array(result.baseline[:n])))
            result.interval = ratio_interval(result.samples, result.baseline)


_STATUS = {
    "constraints": "",
    "correctness": "wrong result: ",
    "timeout": "takes too long: ",
    "build_timeout": "takes too long to compile: ",
    "compile": "does not compile: ",
    "runtime": "does not run: ",
    "crash": "crashes: ",
    "lost": "could not be measured: ",
}


def in_few_words(status: str, error: str = "") -> str:
    """The reason why a variant does not work, on one line: without the call that it is about, and what is legal."""
    why = " ".join(error.split("\n")[0].split())
    if status == "constraints":
        why = why.partition(": ")[2] or why
        why = why.partition("; ")[0]
    why = why if len(why) <= 160 else why[:157] + "..."
    return _STATUS.get(status, f"{status}: ") + why


#: What is slower by no more than this part is as fast.
LIMIT = 0.02
#: Rounds of a play-off; twice as many more where these do not decide.
ROUNDS = 15

#: What may be slower by so many times `LIMIT`, as far as the rounds tell, is not called as fast.
_DOUBTFUL = 5

#: what a row can say
VERDICTS = {
    "keep": "slower without it",
    "can go": "as fast without it",
    "in the way": "faster without it",
    "not clear": "measurements do not decide",
    "not alone": "it cannot be undone by itself",
}


@dataclass(frozen=True)
class Row:
    """One call of the schedule, or one of its knobs.

    line:      the call as Python; `change` says what was done to it, if it was not left out
    ratio:     time without it over time with it: what it is worth; infinite where `why` says that it cannot
               be undone alone
    interval:  holds the true ratio with 95 % confidence
    seconds:   a call without it
    verdict:   one of `VERDICTS`
    with_it:   other calls that went along, as Python
    """

    line: str
    primitive: str
    ratio: float
    interval: tuple[float, float]
    seconds: float
    verdict: str
    change: str = ""
    why: str = ""
    with_it: tuple[str, ...] = ()
    at: int = -1
    option: str = ""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {**vars(self), "interval": list(self.interval), "with_it": list(self.with_it)}


@dataclass(frozen=True)
class Explanation:
    """The worth of each primitive of a schedule; `rows` begin with the largest.

    `print` it, or look at `rows`, or take it as a table: `to_frame()`.
    """

    workload: str
    target: str
    device: str
    sizes: dict[str, int]
    name: str
    seconds: float
    standing: Standing | None
    schedule_python: str
    rows: tuple[Row, ...]

    def to_frame(self) -> pd.DataFrame:
        """A `pandas.DataFrame`, one row for each call."""
        import pandas as pd  # 0.4 s, and only here

        columns = "line primitive change verdict ratio low high seconds why with_it".split()
        bounds = [{"low": r.interval[0], "high": r.interval[1], "with_it": "; ".join(r.with_it)} for r in self.rows]
        return pd.DataFrame([{**vars(r), **b} for r, b in zip(self.rows, bounds, strict=True)], columns=columns)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        near = self.standing.to_json() if self.standing is not None else None
        return {**vars(self), "standing": near, "rows": [r.to_json() for r in self.rows]}

    def __str__(self) -> str:
        listed = [*_table(self.rows), ""] if self.rows else []
        return "\n".join([*self.headline(), "", *listed, self.summary()])

    def headline(self) -> list[str]:
        """Lines with the subject and its time."""
        at = f", {knobs_text(self.sizes)}" if self.sizes else ""
        near = f", {self.standing}" if self.standing is not None else ""
        return [
            f"{self.workload} for {self.target} on {self.device}{at}",
            f"{self.name}: {seconds_text(self.seconds)}{near}",
        ]

    def summary(self) -> str:
        """One line: the most that a primitive of each kind is worth, and how many can go."""
        most: dict[str, float] = {}
        for r in self.rows:
            if r.verdict == "keep" and r.primitive != "knob":
                most[r.primitive] = max(most.get(r.primitive, 0.0), r.ratio)
        worth = [f"{name} {_times(ratio)}" for name, ratio in sorted(most.items(), key=lambda x: -x[1])]
        idle = sum(r.verdict in ("can go", "in the way") and r.primitive != "knob" for r in self.rows)
        tested = sum(r.verdict != "not alone" and r.primitive != "knob" for r in self.rows)
        rest = f"{idle} of {tested} calls can go" if tested else "there is nothing to undo"
        return "; ".join([", ".join(worth), rest] if worth else [rest])


def explain(
    what: Explainable,
    target: TargetLike = None,
    *,
    records: str | os.PathLike[str] | None = None,
    sizes: Mapping[str, int] | None = None,
    knobs: Mapping[str, int] | None = None,
    args: Sequence[Tensor] | None = None,
    rounds: int = ROUNDS,
    measure: MeasureOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> Explanation:
    """Undo each primitive of a schedule in turn, measure what is left, and say what each is worth.

    what:    a workload, for its best record on the target and this device; a record, its id or the beginning of
             that, or where it is, `"FILE.jsonl:LINE"` (`"FILE.jsonl"`: the best in it); or a schedule of your own
    target:  what to run on; by default what the record is for
    records: a folder to look for records in, instead of the usual ones
    sizes:   of symbolic dimensions; by default those that the record was measured at
    knobs:   for a schedule with open knobs, their values
    args:    for a schedule, the tensors of the function in calling order
    rounds:  of the play-offs; where these do not decide, twice as many are added
    measure: limits and options of measuring
    progress: called with a line of text as work goes on

    Each variant is verified against the reference, and timed interleaved with the schedule. Raises
    RecordError where there is no such record or it does not fit any more, MeasureError where the schedule
    itself does not work here, VerificationError where its result is wrong, TargetError or DeviceError, UsageError for
    arguments that cannot be meant.

        print(autosched.explain("matmul"))
        autosched.explain(s, sizes={"n": 1024}).to_frame()
    """
    subject = subject_of(what, target, records=records, sizes=sizes, knobs=knobs, args=args)
    with Bench(subject, measure or MeasureOptions(), rounds, LIMIT) as bench:
        return explain_on(bench, progress or (lambda text: None))


def explain_on(bench: Bench, tell: Callable[[str], None]) -> Explanation:
    """The explanation of what a bench measures."""
    subject = bench.subject
    cases = list(_cases_of_kernel(subject) if subject.is_kernel else _cases(subject))
    wanted = [v for c in cases for v in c.variants]
    results = iter(bench.compare(wanted, tell))
    rows = [c.row([next(results) for _ in c.variants], bench) for c in cases]
    rows.sort(key=lambda r: (r.verdict == "not alone", -r.ratio if math.isfinite(r.ratio) else 0.0, r.at))
    w, seconds = subject.workload, bench.seconds
    near = standing(w.args, subject.target, bench.sizes, seconds) if isinstance(w, Workload) else ""
    if isinstance(near, str) and near:
        tell(near)
    return Explanation(
        repr(w),
        str(subject.target),
        describe_device(subject.target)["name"],
        bench.sizes,
        subject.name,
        seconds,
        near if isinstance(near, Standing) else None,
        w.as_text(subject.trace, subject.knobs),
        tuple(rows),
    )


# -- what there is to undo ---------------------------------------------------------------------------
@dataclass(frozen=True)
class _Case:
    """Something to undo, in one or several ways, of which the best counts."""

    line: str
    primitive: str
    variants: list[Variant]
    lost: list[tuple[str, ...]]  #: of each variant, the calls that go along
    refused: str = ""  #: why there is no variant
    change: str = ""
    at: int = -1
    option: str = ""

    def row(self, results: Sequence[Result], bench: Bench) -> Row:
        works = [(r.ratio, k) for k, r in enumerate(results) if r.works]
        if works:
            k = min(works)[1]
            r, says, lost = results[k], verdict(results[k], bench.limit), self.lost[k]
            why = "the same code" if r.same_code else ""
        else:
            r, says, lost = Result(), "not alone", ()
            why = self.refused or next((r.why for r in results), "")
        worth = r.ratio, r.interval, r.ratio * bench.seconds
        return Row(self.line, self.primitive, *worth, says, self.change, why, lost, self.at, self.option)


def verdict(r: Result, limit: float) -> str:
    """The verdict of the measurements on something that can be undone."""
    low, high = r.interval
    if low > 1 + limit or (not r.samples and not r.same_code):  # far beyond doubt
        return "keep"
    if high < 1 - limit:
        return "in the way"
    return "can go" if r.ratio <= 1 + limit and high <= 1 + _DOUBTFUL * limit else "not clear"


def extents(s: Schedule) -> dict[Any, Any]:
    """The number of iterations of each loop where its stage is computed."""
    return {loop: found.extent for loop, found in inferred_ranges(s).items()}


def undoings_of(trace: Trace, at: int, option: str, args: Sequence[Tensor], knobs: Mapping[str, int]) -> list[Undone]:
    """All ways to undo an instruction, no two alike."""
    found: dict[str, Undone] = {}
    for u in ways_to_undo(trace, at, args, knobs, option, extents):
        found.setdefault(u.refused or repr(u.trace.to_json() if u.trace is not None else None), u)
    return list(found.values())


def variant_of(trace: Trace, knobs: Mapping[str, int]) -> Variant:
    """A trace, with values of those knobs that it has."""
    return Variant(trace.to_json(), {name: knobs[name] for name in knobs_of(trace)})


def _cases(subject: Subject) -> Iterator[_Case]:
    """Each instruction, each option that can go by itself, and each knob that several instructions share."""
    trace, knobs = Trace.from_json(subject.trace), subject.knobs
    for at, option in undoable(trace):
        ways = undoings_of(trace, at, option, subject.args, knobs)
        good = [u for u in ways if u.trace is not None]
        yield _Case(
            trace[at].as_python(),
            trace[at].kind,
            [variant_of(u.trace, knobs) for u in good if u.trace is not None],
            [tuple(trace[p].as_python() for p in u.lost) for u in good],
            next((u.refused for u in ways if u.refused), ""),
            f"without {option}" if option else "",
            at,
            option,
        )
    for name, users in knobs_of(trace).items():
        if len(users) > 1 and knobs[name] != 1:
            u = undo_knob(trace, name, subject.args)
            variants = [] if u.trace is None else [variant_of(u.trace, knobs)]
            yield _Case(f"{name} = {knobs[name]}", "knob", variants, [()], u.refused, "1 instead", u.at)


def _cases_of_kernel(subject: Subject) -> Iterator[_Case]:
    """Each parameter of a kernel that its user wrote, at the value it has by default."""
    w = subject.workload
    _, defaults = w.defaults(subject.target, w.search_space(subject.target, subject.sizes))
    for name, value in subject.knobs.items():
        changed = {**subject.knobs, name: defaults[0][name]}
        if changed != subject.knobs:
            now, then = (w.as_text(subject.trace, x).split("\n") for x in (subject.knobs, changed))
            lines = [(a, b) for a, b in zip(now, then, strict=True) if a != b]
            line, other = lines[0] if lines else (f"{name} = {value}", "")
            change = f"{other.rpartition(' ')[2]} instead"
            yield _Case(line, "knob", [Variant(None, changed)], [()], "", change)


# -- as text -------------------------------------------------------------------------------------------
def _times(ratio: float) -> str:
    return f"{ratio:.3g}x" if ratio >= 10 else f"{ratio:.2f}x"


def _table(rows: Sequence[Row]) -> list[str]:
    measured = [r for r in rows if r.verdict != "not alone"]
    lines = []
    if measured:
        cells = []
        for r in measured:
            low, high = r.interval
            known = "same code" if r.why else f"{low:.2f} - {high:.2f}" if math.isfinite(high) else ""
            cells.append((_times(r.ratio), known, seconds_text(r.seconds), r.verdict, _what(r)))
        lines += table(cells, ("worth", "95 %", "without", "", "what"), right=(0, 1, 2))
    alone = [r for r in rows if r.verdict == "not alone"]
    if alone:
        lines += ["", "cannot be undone alone:"] if lines else ["cannot be undone alone:"]
        lines += [f"  {_what(r)}\n      {r.why}" for r in alone]
    return lines


def _what(r: Row) -> str:
    change = f"  # {r.change}" if r.change else ""
    if not r.with_it:
        return r.line + change
    kinds = Counter(line.split("(")[0].rpartition(".")[2] for line in r.with_it)
    others = ", ".join(f"{n} {kind}" if n > 1 else kind for kind, n in kinds.items())
    return f"{r.line}{change}  # and with it {others}"
