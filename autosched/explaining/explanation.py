"""`explain`: undo each primitive of a schedule in turn, measure again, and say what each is worth."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autosched.explaining.bench import Bench, Result, Variant
from autosched.explaining.subject import Explainable, Subject, subject_of
from autosched.lower.bounds import inferred_ranges
from autosched.measure.protocol import MeasureOptions
from autosched.report.standing import Standing, standing
from autosched.report.text import knobs as knobs_text
from autosched.report.text import seconds as seconds_text
from autosched.report.text import table
from autosched.runtime.device import describe_device
from autosched.schedule.schedule import Schedule
from autosched.schedule.trace import Trace
from autosched.schedule.undo import Undone, knobs_of, undo_knob, undoable, ways_to_undo
from autosched.space.workload import Workload
from autosched.target import TargetLike
from autosched.te.tensor import Tensor

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LIMIT", "ROUNDS", "VERDICTS", "Explanation", "Row", "explain", "explain_on", "extents", "undoings_of"]

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
    """What each primitive of a schedule is worth; `rows` begin with what is worth most.

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
        import pandas as pd

        data = []
        for r in self.rows:
            low, high = r.interval
            about = {"line": r.line, "primitive": r.primitive, "change": r.change, "verdict": r.verdict}
            numbers = {"ratio": r.ratio, "low": low, "high": high, "seconds": r.seconds}
            data.append({**about, **numbers, "why": r.why, "with_it": "; ".join(r.with_it)})
        columns = ("line", "primitive", "change", "verdict", "ratio", "low", "high", "seconds", "why", "with_it")
        return pd.DataFrame(data, columns=list(columns))

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        near = self.standing.to_json() if self.standing is not None else None
        return {**vars(self), "standing": near, "rows": [r.to_json() for r in self.rows]}

    def __str__(self) -> str:
        listed = [*_table(self.rows), ""] if self.rows else []
        return "\n".join([*self.headline(), "", *listed, self.summary()])

    def headline(self) -> list[str]:
        """What was measured, and how fast it is."""
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
    itself does not work here, TargetError or DeviceError, UsageError for arguments that cannot be meant.

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
        if not works:
            why = self.refused or next((r.why for r in results), "")
            inf = float("inf")
            return Row(
                self.line, self.primitive, inf, (0.0, inf), inf, "not alone", self.change, why, (), self.at, self.option
            )
        ratio, k = min(works)
        r = results[k]
        return Row(
            self.line, self.primitive, ratio, r.interval, ratio * bench.seconds, verdict(r, bench.limit), self.change,
            "the same code" if r.same_code else "", self.lost[k], self.at, self.option,
        )  # fmt: skip


def verdict(r: Result, limit: float) -> str:
    """What the measurements say of something that can be undone."""
    low, high = r.interval
    if low > 1 + limit or (not r.samples and not r.same_code):  # far beyond doubt
        return "keep"
    if high < 1 - limit:
        return "in the way"
    return "can go" if r.ratio <= 1 + limit and high <= 1 + _DOUBTFUL * limit else "not clear"


def extents(s: Schedule) -> dict[Any, Any]:
    """How many iterations each loop has where its stage is computed."""
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
    kinds: dict[str, int] = {}
    for line in r.with_it:
        kind = line.split("(")[0].rpartition(".")[2]
        kinds[kind] = kinds.get(kind, 0) + 1
    others = ", ".join(f"{n} {kind}" if n > 1 else kind for kind, n in kinds.items())
    return f"{r.line}{change}  # and with it {others}"
