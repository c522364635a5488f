"""`autosched choose`: a schedule by hand, choice by choice, with what each is predicted to come to."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autosched.building import search_space
from autosched.choosing import machine_model
from autosched.cli import options
from autosched.cli.tune import exit_status
from autosched.cli.workloads import choose_workload, command, sizes_of
from autosched.errors import AutoschedError, UsageError, did_you_mean, named_file, new_file
from autosched.explaining.choices import Choices, Option
from autosched.records import PREDICTED, Record, Task, read_workload
from autosched.report.progress import make_display
from autosched.report.text import knobs as spelled
from autosched.report.text import plural, ratio, seconds, table
from autosched.runtime.device import describe_device, resolve_target
from autosched.search import Candidate
from autosched.space.space import SearchSpace, Sketch
from autosched.space.workload import Workload
from autosched.tuning import TuneResult
from autosched.tuning.given import try_candidate

#: Sketches, and values of a knob, that are listed.
MOST = 24
#: What the person may answer.
_HELP = """\
  a number or name chooses, Enter takes what is marked with *
  n  the loop nest as it would be      p  the calls so far, as Python
  b  back to the choice before         q  end without a schedule"""


class _Ended(Exception):
    """The person ended the walk."""


def run(args: argparse.Namespace) -> int:
    workload = choose_workload(args)
    sizes = sizes_of(args, workload) or None
    space = search_space(workload, args.target, sizes=sizes, space=args.space, rules=args.rule)
    _check_output(args)
    is_new = args.measure and args.records is not None and not Path(args.records).expanduser().exists()
    earlier = [] if is_new else _records(space, workload, options.records_folder(args))
    walk = _Walk(args, Choices(space, machine_model(space.feature_names, space.target), earlier))
    try:
        walk.go()
    except _Ended:
        _say("ended without a schedule")
        return 0
    return _finish(args, walk, sizes)


def _check_output(args: argparse.Namespace) -> None:
    if args.output is None:
        return
    new_file(Path(args.output).expanduser(), f"choose -o {args.output}", args.force)


def _records(space: SearchSpace, workload: Workload, folder: str | None) -> list[Record]:
    """The trials that there are of the same task."""
    sizes = tuple(sorted(space.sketches[0].sizes.items()))
    target = workload.compiled_for(resolve_target(space.target))
    here = Task(workload.name, workload.key, sizes, str(target), describe_device(target)["name"])
    found = read_workload(workload.name, target.kind, folder, key=workload.key).records
    return [r for r in found if r.status != PREDICTED and Task.of(r) == here]


def _say(text: str = "") -> None:
    print(text, file=sys.stderr, flush=True)


class _Walk:
    """The choices made so far: a sketch, then a value for each knob."""

    def __init__(self, args: argparse.Namespace, choices: Choices) -> None:
        self.args, self.choices, self.space = args, choices, choices.space
        self.is_told = not args.yes  # on standard error, so that --json keeps standard output
        self.number = -1
        self.fixed = self._given()
        self.asked: list[str] = []  # knobs that were asked for, in order
        self.steps: list[dict[str, Any]] = []

    @property
    def sketch(self) -> Sketch:
        return self.space.sketches[self.number]

    @property
    def best(self) -> Option:
        return self.choices.best(self.number, self.fixed)

    def _given(self) -> dict[str, int]:
        """The values of `--set`. Raises UsageError for a knob that no sketch has, and for a value that it has not."""
        found: dict[str, int] = {}
        for name, text in self.args.set:
            known = {k.name: k.values for s in reversed(self.space.sketches) for k in s.knobs}
            asked = f"--set {name}={text}"
            if name not in known:
                legal = f"{did_you_mean(name, known)}knobs: {', '.join(known) or 'none'}"
                raise UsageError(f"no sketch has a knob {name!r}", asked=asked, legal=legal)
            if text not in map(str, known[name]):
                raise UsageError(
                    "the knob has no such value", asked=asked, legal=f"values: {', '.join(map(str, known[name]))}"
                )
            found[name] = int(text)
        return found

    def go(self) -> None:
        """Ask, or take, one choice after the other."""
        if self.is_told:
            space = self.space
            _say(f"{space.workload!r} for {space.target}: {plural(len(space.sketches), 'sketch')}\n{_HELP}")
        self._choose_sketch()
        while (knob := next((k.name for k in self.sketch.knobs if k.name not in self.fixed), None)) is not None:
            self._choose_value(knob)

    # -- the sketch -------------------------------------------------------------------------------
    def _choose_sketch(self) -> None:
        if self.args.sketch is not None:
            self.number = self._numbered(self.args.sketch)
            self._check_settled()
            self._tell_nest()
            return
        found = self.choices.sketches(self.fixed)
        possible = [number for number, o in found if o.is_possible]
        if not possible:
            raise UsageError(
                "no sketch has a valid point with them",
                asked=f"choose {self.args.workload} {self._settings()}",
                legal="fewer --set, or other values",
            )
        self.number = possible[0]
        if len(self.space.sketches) > 1 and not self.args.yes:
            rows = [[*_row(o, number == self.number, str(number + 1)), o.name] for number, o in found[:MOST]]
            if self.is_told:
                _say("\nsketches, the best first:")
                _say("\n".join(table(rows, ["", "", "predicted", "mostly", "measured", "sketch"], right=(1, 2, 4))))
                if len(found[:MOST]) < len(self.space.sketches):
                    _say(f"others: {command('sketch', self.args)} --names")
            self.number = self._answer("sketch", self._numbered, self.number)
        self.steps.append({"choice": "sketch", "taken": self.number + 1, "options": [
            {"number": number + 1, **o.to_json()} for number, o in found]})  # fmt: skip
        self._tell_nest()

    def _numbered(self, given: str | int) -> int:
        """The position of a sketch by its number or name."""
        names = [s.name for s in self.space.sketches]
        if str(given) in names:
            return names.index(str(given))
        if not (str(given).isdecimal() and 1 <= int(given) <= len(names)):
            raise UsageError(f"there is no sketch {given}", asked=f"--sketch {given}", legal=f"1 to {len(names)}")
        return int(given) - 1

    def _settings(self) -> str:
        return " ".join(f"--set {name}={value}" for name, value in self.fixed.items())

    def _check_settled(self) -> None:
        """Raise UsageError where the sketch has not the knobs of --set, or no point with their values."""
        known = [k.name for k in self.sketch.knobs]
        asked = f"sketch {self.number + 1} with {self._settings()}"
        if missing := [name for name in self.fixed if name not in known]:
            raise UsageError(
                f"it has no knob {missing[0]!r}", asked=asked, legal=f"knobs: {', '.join(known) or 'none'}"
            )
        if self.best.is_possible:
            return
        for knob in self.fixed:
            options = self.choices.values(self.number, knob, self.fixed)
            if any(o.is_possible for o in options):
                why = next(o.why_not for o in options if o.name == str(self.fixed[knob]))
                raise UsageError(why, asked=asked, legal=_legal(knob, options))
        raise UsageError(self.best.why_not, asked=asked, legal="fewer --set, or other values")

    # -- knobs ------------------------------------------------------------------------------------
    def _choose_value(self, knob: str) -> None:
        options = self.choices.values(self.number, knob, self.fixed)
        possible = [o for o in options if o.is_possible]
        taken = min(possible, key=lambda o: o.seconds)
        if len(possible) > 1 and not self.args.yes:
            if self.is_told:
                self._tell_values(knob, options, taken)

            def parse(text: str) -> Option:
                match = next((o for o in options if o.name == text), None)
                if match is None or not match.is_possible:
                    why = "it is no value of the knob" if match is None else match.why_not
                    raise UsageError(why, asked=f"{knob}={text}", legal=_legal(knob, options))
                return match

            before = self.best
            answer = self._answer(knob, parse, taken)
            if answer is None:
                return
            taken = answer
            self.asked.append(knob)
            self.fixed[knob] = int(taken.name)
            self._tell_nest(before)
        self.fixed[knob] = int(taken.name)
        self.steps.append({"choice": knob, "taken": self.fixed[knob], "options": [o.to_json() for o in options]})

    def _tell_values(self, knob: str, options: Sequence[Option], best: Option) -> None:
        _say(f"\nknob {knob}, which decides on")
        _say("\n".join(f"    {line}" for line in self.choices.calls(self.number, knob)) or "    constraints alone")
        rows = [[*_row(o, o is best, o.name), o.why_not or o.effect] for o in options[:MOST]]
        _say("\n".join(table(rows, ["", "value", "predicted", "mostly", "measured", "then"], right=(1, 2, 4))))

    # -- talking ----------------------------------------------------------------------------------
    def _answer(self, choice: str, parse: Any, otherwise: Any) -> Any:
        """What the person chooses; None after a step back. Raises UsageError where nobody answers."""
        while True:
            print(f"{choice} [{self._default_of(choice, otherwise)}]: ", end="", file=sys.stderr, flush=True)
            try:
                text = input().strip()
            except EOFError:
                _say()
                flag = "--sketch N" if choice == "sketch" else f"--set {choice}=VALUE"
                raise UsageError(
                    f"nobody chooses the {choice}" if choice == "sketch" else f"nobody chooses a value of {choice}",
                    asked=f"choose {self.args.workload}",
                    legal=f"{flag}, or --yes for what is predicted best",
                ) from None
            match text:
                case "":
                    return otherwise
                case "q":
                    raise _Ended
                case "?":
                    _say(_HELP)
                case "n":
                    _say("\n".join(self._nest()))
                case "p":
                    _say(self._python())
                case "b" if choice != "sketch":
                    self._back()
                    return None
                case _:
                    try:
                        return parse(text)
                    except UsageError as error:
                        _say(f"  {error}")

    def _default_of(self, choice: str, otherwise: Any) -> str:
        return str(otherwise + 1) if choice == "sketch" else str(otherwise.name)

    def _back(self) -> None:
        """Undo the last choice that was asked for; the first is the sketch."""
        if self.asked:
            knob = self.asked.pop()
            at = next(i for i, s in enumerate(self.steps) if s["choice"] == knob)
            for step in self.steps[at:]:
                self.fixed.pop(step["choice"], None)
            del self.steps[at:]
        elif self.args.sketch is None:
            self.steps.clear()
            self.fixed = self._given()
            self._choose_sketch()

    def _nest(self) -> list[str]:
        return self.choices.nest(self.number, self.best.knobs) if self.best.is_possible else []

    def _tell_nest(self, before: Option | None = None) -> None:
        """The loop nest at what is now predicted best; lines that the last choice changed are marked."""
        if not self.is_told or not self.best.is_possible:
            return
        now = self._nest()
        then = now if before is None else self.choices.nest(self.number, before.knobs)
        marks = [" " if a == b else ">" for a, b in zip(now, then, strict=True)]
        if before is None or ">" in marks:
            _say("\n".join(f"{mark} {line}" for mark, line in zip(marks, now, strict=True)))
        _say(f"  {seconds(self.best.seconds)} predicted with {spelled(self.best.knobs) or 'no knobs'}")

    def _python(self) -> str:
        workload = self.space.workload
        return workload.as_text(self.sketch.trace, self.fixed)


def _row(o: Option, is_best: bool, name: str) -> list[str]:
    measured = seconds(o.measured) if math.isfinite(o.measured) else ""
    return ["*" if is_best else "", name, seconds(o.seconds) if o.is_possible else "-", o.mostly, measured]


def _legal(knob: str, options: Sequence[Option]) -> str:
    return f"values of {knob} that are left: {', '.join(o.name for o in options if o.is_possible)}"


# -- the end --------------------------------------------------------------------------------------
def _finish(args: argparse.Namespace, walk: _Walk, sizes: dict[str, int] | None) -> int:
    """Print or write the schedule; build, time and record it where that is wanted."""
    workload, sketch, python = walk.space.workload, walk.sketch, walk._python()
    lints = _lints(walk)
    report: dict[str, Any] = {
        "workload": repr(workload), "target": str(walk.space.target), "sketch": sketch.name, "number": walk.number + 1,
        "knobs": walk.fixed, "predicted_s": walk.best.seconds, "measured_s": walk.best.measured, "steps": walk.steps,
        "nest": walk._nest(), "check": lints, "python": python,
    }  # fmt: skip
    if args.output is not None:
        with named_file(f"choose -o {args.output}"):
            Path(args.output).expanduser().write_text(python, encoding="utf-8")
    if not args.json:
        _say(f"\n{sketch.name}: {seconds(walk.best.seconds)} predicted")
        for line in lints:
            _say(f"check: {line}")
        print(python.rstrip("\n") if args.output is None else f"written to {args.output}")
    status = 0
    if args.measure or (walk.is_told and walk.asked and _wants_measuring()):
        found, result = _measured(args, walk, sizes)
        report["record"], status = (None if found is None else found.id), exit_status(result)
        report |= {"seconds": None if found is None else found.seconds, "default_s": result.default_seconds}
        if not args.json:
            print(_verdict(found, result))
    if args.json:
        options.emit(report)
    return status


def _lints(walk: _Walk) -> list[str]:
    try:
        found = walk.sketch.schedule().check(walk.space.target, walk.space.workload.args, dict(walk.fixed))
    except AutoschedError:
        return []
    return [str(x) for x in found]


def _wants_measuring() -> bool:
    print("build, time and record it? [y/N]: ", end="", file=sys.stderr, flush=True)
    try:
        return input().strip().lower() in ("y", "yes")
    except EOFError:
        _say()
        return False


def _measured(args: argparse.Namespace, walk: _Walk, sizes: dict[str, int] | None) -> tuple[Record | None, TuneResult]:
    indices = walk.sketch.indices_of(walk.fixed)
    assert indices is not None
    with make_display("none" if args.json else "plain", sys.stderr) as display:
        return try_candidate(
            walk.space.workload, args.target, Candidate(walk.number, indices), space=args.space, rules=args.rule,
            sizes=sizes, records=args.records, progress=display,
        )  # fmt: skip


def _verdict(found: Record | None, result: TuneResult) -> str:
    if found is None:
        return "it was not measured"
    if not found.ok:
        return f"it failed ({found.status}): {found.error}"
    times = ratio(result.default_seconds / found.seconds)
    line = f"{seconds(found.seconds)}, {times} the default schedule; record {found.id} in {result.log}"
    best = result.best
    if best is not None and (best.trace, best.knobs) != (found.trace, found.knobs):
        line += f"\nfaster on record: {best.sketch} at {spelled(best.knobs)}, {seconds(result.seconds)}"
    return line
