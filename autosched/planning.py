"""Plans: what `build` would compile of a workload, in the order in which it tries.

A workload is built with the best record of its key on this target and device; with several, each for
some sizes, where `tune_sizes` chose them; without one, with a record of a like device, with what a model
predicts, or with the default schedule. A record is data: its trace is replayed on the graph. One that no longer
replays, might change results, or claims an impossible time is passed over with a warning that names it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autosched import predicting, trust
from autosched.choosing import Foreseen, Short
from autosched.codegen import compile_function
from autosched.errors import AutoschedError, UsageError, VerificationError, clipped
from autosched.ir.expr import Expr, const, is_const, logical_and, logical_or
from autosched.ir.simplify import simplify
from autosched.ir.stmt import Function
from autosched.ir.visit import substitute
from autosched.lowering.checked import NOTHING, with_checks
from autosched.lowering.pipeline import PASSES, Structure, lower_structure
from autosched.lowering.versions import guarded
from autosched.records import (
    PREDICTED,
    Box,
    Choice,
    Member,
    Record,
    describe,
    family,
    is_own,
    predicted,
    ranked,
    read_workload,
)
from autosched.runtime.device import describe_device, with_machine
from autosched.runtime.module import CheckedModule, Module
from autosched.schedule import primitive
from autosched.schedule.renaming import under_own_names
from autosched.schedule.schedule import Schedule, replay
from autosched.schedule.trace import Trace
from autosched.space.default import default_schedule
from autosched.space.space import DEFAULT, template_space
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te.tensor import Tensor

#: provenance of `effort="none"`
AS_ASKED = "the default schedule, as asked for"


@dataclass(frozen=True)
class Plan:
    """The program that `build` would compile, and its origin (`provenance`)."""

    name: str
    args: tuple[Tensor, ...]
    schedule: Schedule
    knobs: dict[str, int]
    structure: Structure
    target: Target
    provenance: dict[str, Any]
    #: plans for sizes that meet a condition: the first that holds is taken, and this one where none does
    versions: tuple[tuple[Expr, Plan], ...] = ()
    #: what the schedule was read from, one record for each version
    records: tuple[Record, ...] = ()

    def after(self, name: str) -> Function:
        """The loops as the pass of that name leaves them, of all versions. Raises LowerError."""
        return guarded([(c, p.after(name)) for c, p in self.versions], self.structure.after(name, self.knobs))

    def lowered(self) -> Function:
        """The function that code is generated from. Raises LowerError."""
        return self.after(PASSES[-1])

    def at(self, sizes: Mapping[str, int]) -> Plan:
        """The plan for these sizes alone: numbers, which are no arguments then. Raises LowerError for sizes that the
        schedule does not take."""
        given = {v: const(sizes[v.name], v.dtype) for v in self.structure.function.sizes if v.name in sizes}
        base, left = self, []
        for condition, version in self.versions:
            fits = logical_and(condition, *(r.condition for r in version.structure.function.requires))
            now = simplify(substitute(fits, given))
            if is_const(now, True):
                base = version
                break
            if not is_const(now, False):
                left.append((now, version.at(sizes)))
        return replace(self, structure=base.structure.at(given), knobs=base.knobs, versions=tuple(left))

    def compile(self, bounds_check: bool = False) -> Module:
        """The module. Raises LowerError or BuildError."""
        if bounds_check:
            return _checked(self.after("simplify"), self.target, self.provenance)
        return Module(compile_function(self.lowered(), self.target), self.target, provenance=self.provenance)

    def check(self, module: Module, w: Workload) -> None:
        """Verify once a program that others recorded, and note the verdict in the provenance.

        Raises VerificationError for a wrong output.
        """
        if not self.records:
            return
        if all(map(is_own, self.records)):
            module.provenance["verified"] = "by a run on this machine"
            return
        memory = trust.remembered(w, self.target, describe_device(self.target)["name"], self.records)
        found = memory.get()
        if found is None and not trust.can_run(module):
            found = None, "it is for another CPU"
        if found is None:
            found = trust.check(module, w, [r.sizes for r in self.records])
            memory.put(*found)
        wrong, done = found
        if wrong:
            raise VerificationError(f"its output is wrong: {wrong}", asked=f"build {w!r}", legal="tune it again")
        module.provenance["verified"] = f"not on this machine: {done}" if wrong is None else done


def _checked(f: Function, to: Target, provenance: dict[str, Any]) -> Module:
    """A module that looks at every index before it reads, from loops with indices by dimension."""
    careful, sites = with_checks(f)
    done = Structure(careful, to, (), ()).bind()
    told = [(x.tensor, x.dimension, x.reader) for x in sites]
    return CheckedModule(compile_function(done, to), to, told, NOTHING, provenance=provenance)


def plans_to_try(
    w: Workload,
    target: Target,
    records: str | None,
    sizes: dict[str, int] | None,
    name: str | None,
    limit_s: float = predicting.LIMIT_S,
) -> Iterator[Plan]:
    """Plans to try in order: records of this device from the best down, those of the device most like it, what a
    model predicted earlier, what it predicts now within `limit_s` seconds of computing, and the default schedule."""
    called, target = name or w.name, w.compiled_for(target)
    contents = read_workload(None if w.is_anonymous else w.name, target.kind, records, key=w.key)
    facts = describe_device(target)
    device = facts["name"]
    believed = _believed(contents.records, w, target, device)
    if not sizes and (chosen := family(believed, key=w.key, target=target, device=device)):
        yield from _family(w, target, called, chosen)
    asked: dict[str, Any] = {"key": w.key, "target": target, "device": device, "sizes": sizes}
    choices = _without_lone_defaults(ranked(believed, **asked, facts=facts))
    if choices and predicting.is_on() and _is_unproven(choices[0].record, believed):
        guess, _ = predicting.foreseen(w, target, device, sizes, limit_s=limit_s)
        if guess is not None and not _was_tried(guess, choices[0].record, believed):
            found = _guessed(w, target, called, guess, "the default schedule was measured, but not beside it")
            if found is not None:
                yield found
    why = "no record of this workload"
    for choice in [*choices, *predicted(believed, **asked)]:
        found = _replayed(w, target, called, choice.record)
        if found is None:
            why = "no record of this workload could be applied"
            continue
        note = choice.note
        if not choice.exact and choice.record.ok and choice.record.device_name != device:
            note = f"record of a like device: {note}"
        found.provenance.update(exact=choice.exact, note=note)
        yield found if sizes else _with_short(w, target, called, found, choice.record, device, limit_s)
    if predicting.is_on():
        guess, reason = predicting.foreseen(w, target, device, sizes, limit_s=limit_s)
        if guess is not None and (found := _guessed(w, target, called, guess, why)) is not None:
            yield found
        elif reason:
            why = f"{why}; {reason}"
    yield default_plan(w, target, called, f"{why}: the default schedule")


def _believed(records: Sequence[Record], w: Workload, target: Target, device: str) -> list[Record]:
    """The records without those whose time cannot be true, for each of which there is a warning."""
    doubted = {r.id: why for r, why in trust.unbelievable(records, w, target, device)}
    for record, why in doubted.items():
        pass_over(record, UsageError(why, asked="build", legal="tune again"))
    return [r for r in records if r.id not in doubted]


def _without_lone_defaults(choices: Sequence[Choice]) -> list[Choice]:
    """The choices without default schedules that were measured alone at their sizes on their device.

    Such a one won against nobody: records of other devices, or a prediction, go before it.
    """
    rivals = {
        (c.record.device_name, repr(sorted(c.record.sizes.items()))) for c in choices if c.record.sketch != DEFAULT
    }
    return [c for c in choices if (c.record.device_name, repr(sorted(c.record.sizes.items()))) in rivals]


def _is_unproven(r: Record, records: Sequence[Record]) -> bool:
    """Whether it is a default schedule that is ahead of what a search had tried when it ended too early, without a
    play-off."""
    return r.sketch == DEFAULT and not any(x.playoff for x in records if _beside(x, r))


def _was_tried(guess: Foreseen, r: Record, records: Sequence[Record]) -> bool:
    """Whether the prediction was measured where `r` was, however that ended."""
    return any((x.trace, x.knobs) == (guess.trace, guess.knobs) and x.status != PREDICTED
               for x in records if _beside(x, r))  # fmt: skip


def _beside(x: Record, r: Record) -> bool:
    return (x.device_name, x.sizes) == (r.device_name, r.sizes)


def _with_short(w: Workload, target: Target, called: str, found: Plan, r: Record, device: str, limit_s: float) -> Plan:
    """The plan of a record that was measured at some sizes, and versions that a model predicts where one is short."""
    if not r.sizes or not predicting.is_on():
        return found
    trace = found.schedule.trace.to_json()
    short = predicting.foreseen_short(w, target, device, r.sizes, (trace, r.knobs), limit_s=limit_s)
    return _guarded(w, target, called, found, short, "predicted by a model of this machine, not measured")


def _guessed(w: Workload, target: Target, called: str, guess: Foreseen, why: str) -> Plan | None:
    """The plan of a prediction, with its versions for short sizes; None, and a warning, where that cannot be
    lowered."""
    note = f"{why}: predicted by a model of this machine, not measured"
    try:
        usual = _of_choice(w, target, called, guess, note)
    except AutoschedError as error:
        warnings.warn(f"the model's choice of {w.name} is passed over: {error}", RuntimeWarning, stacklevel=4)
        return None
    return _guarded(w, target, called, usual, guess.short, note)


def _guarded(w: Workload, target: Target, called: str, usual: Plan, short: Sequence[Short], note: str) -> Plan:
    """A plan with versions for short sizes; as it is, and a warning, where one cannot be lowered."""
    if not short or usual.structure.function.requires:  # a last version has to take all sizes
        return usual
    try:
        versions = [(x, _of_choice(w, target, called, x.choice, note)) for x in short]
    except AutoschedError as error:
        warnings.warn(f"versions of {w.name} for short sizes are left out: {error}", RuntimeWarning, stacklevel=4)
        return usual
    sizes, told = w.size_variables(), [{**p.provenance, "when": str(x)} for x, p in versions]
    conditions = tuple((x.condition(sizes[x.size]), p) for x, p in versions)
    return replace(usual, versions=conditions, provenance={**usual.provenance, "versions": told})


def _of_choice(w: Workload, target: Target, called: str, guess: Foreseen, note: str) -> Plan:
    """The plan of one prediction. Raises AutoschedError where it cannot be lowered."""
    s = replay(guess.trace, w.args, trusted=False)
    _check_knobs(s, guess.knobs)
    structure = lower_structure(s, w.args, target, called)
    provenance = {
        "kind": PREDICTED,
        "record": None,
        "sketch": guess.sketch,
        "knobs": dict(guess.knobs),
        "seconds": guess.seconds,
        "sizes": {},
        "exact": False,
        "note": note,
    }
    return Plan(called, w.args, s, dict(guess.knobs), structure, target, provenance)


def _replayed(w: Workload, target: Target, called: str, r: Record) -> Plan | None:
    """The plan of a record, whatever it calls stages and axes; None, and a warning, for one that no longer applies."""
    try:
        s = replay(under_own_names(r.trace, r.names, w.args), w.args, trusted=_is_of_a_template(w, target, r))
        structure = lower_structure(s, w.args, target, called)
        _check_knobs(s, r.knobs)
    except AutoschedError as error:
        pass_over(r.id, error)
        return None
    provenance = {
        "kind": "record" if r.ok else r.status,
        "record": r.id,
        "sketch": r.sketch,
        "knobs": dict(r.knobs),
        "seconds": r.seconds if r.ok else r.predicted_s,
        "sizes": dict(r.sizes),
        "device": r.device_name,
    }
    return Plan(called, w.args, s, dict(r.knobs), structure, target, provenance, records=(r,))


def _is_of_a_template(w: Workload, target: Target, r: Record) -> bool:
    """Whether the workload's own templates make this trace, which has an instruction that a record may not bring.

    The promise of that instruction is the template author's, then, and the record only chooses values.
    """
    if not any(primitive.doubt(i) for i in Trace.from_json(r.trace)):
        return False
    own = w.templates_for(target)
    try:
        return (
            bool(own)
            and template_space(w, with_machine(target), w.sizes_at(dict(r.sizes)), own).find(r.trace) is not None
        )
    except AutoschedError:
        return False


def default_plan(w: Workload, target: Target, called: str, note: str) -> Plan:
    """The plan of the default schedule."""
    s = default_schedule(w.args, with_machine(target))
    structure = lower_structure(s, w.args, target, called)
    return Plan(called, w.args, s, {}, structure, target, {"kind": "default", "record": None, "note": note})


def _family(w: Workload, target: Target, called: str, members: Sequence[Member]) -> Iterator[Plan]:
    """One plan whose versions share the sizes among them; none where no member applies any more.

    Sizes of a member that is passed over go to the one that takes what is left, which requires nothing of
    sizes: the default schedule, where all members require something.
    """
    variables = w.size_variables()
    found = [(m, p) for m in members if (p := _replayed(w, target, called, m.record)) is not None]
    if not found:
        return
    free = [x for x in found if not x[1].structure.function.requires]
    last = max(free, key=lambda x: len(x[0].records), default=None)
    versions = [x for x in found if x is not last]
    base = last[1] if last is not None else default_plan(w, target, called, "")
    kernels = [
        {**p.provenance, "when": " or ".join(map(describe, m.boxes)), "served": [dict(r.sizes) for r in m.records]}
        for m, p in found
    ]
    note = f"{len(found)} kernels, of which sizes choose" if len(found) > 1 else "one kernel for all sizes"
    provenance = {"kind": "family", "record": found[0][1].provenance["record"], "kernels": kernels, "note": note}
    conditions = [(logical_or(*(_inside(box, variables) for box in m.boxes)), p) for m, p in versions]
    used = tuple(m.record for m, _ in found)
    yield replace(base, provenance=provenance, versions=tuple(conditions), records=used)


def _inside(box: Box, variables: Mapping[str, Expr]) -> Expr:
    """The condition that sizes lie within a box."""
    found = [const(True)]
    for name, (low, high) in box.items():
        found += [variables[name] >= low] if low is not None else []
        found += [variables[name] < high] if high is not None else []
    return logical_and(*found)


def _check_knobs(s: Schedule, knobs: dict[str, int]) -> None:
    for knob in s.knobs.values():
        if knobs.get(knob.name) not in knob.values:
            raise UsageError(f"knob {knob.name} has no value in the record", asked="replay")


def pass_over(record: str, error: AutoschedError) -> None:
    why = f"record {record:.40} does not apply any more and is passed over: {clipped(error)}"
    warnings.warn(why, RuntimeWarning, stacklevel=4)
