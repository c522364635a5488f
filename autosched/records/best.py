"""Choosing the record to build with: `best`, all usable ones in order (`ranked`), and likeness of devices."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import is_finite, is_integer
from autosched.records.record import PREDICTED, Record, of_records

#: `AMD EPYC 9R14 (znver4, family 25 model 17), 2 threads`, `pthread-AMD EPYC on Intel(R) Xeon(R) (skylake)`
_CORE = re.compile(r"\(([a-z][\w.-]*)[^()]*\)(?:, \d+ threads?)?$")
_THREADS = re.compile(r", (\d+) threads?$")
_MAKERS = ("intel", "amd", "apple", "arm", "ampere", "qualcomm", "nvidia")


def unlikeness(device: Mapping[str, Any], mine: Mapping[str, Any]) -> tuple[float, ...] | None:
    """Smaller is more alike, compared from left to right; None for devices of two kinds."""
    if _is_cpu(device) != _is_cpu(mine):
        return None
    threads = abs(math.log(_threads(device) / _threads(mine)))
    if _is_cpu(mine):
        core = _core(device)
        return not core or core != _core(mine), _maker(device) != _maker(mine), threads
    return device.get("name") != mine.get("name"), device.get("platform") != mine.get("platform"), threads


def _is_cpu(device: Mapping[str, Any]) -> bool:
    """OpenCL devices say so; what only has a number of threads is one."""
    said = device.get("is_cpu")
    return said if isinstance(said, bool) else "compute_units" not in device and "arch" not in device


def _core(device: Mapping[str, Any]) -> str:
    core = device.get("core")
    if isinstance(core, str):
        return core
    found = _CORE.search(str(device.get("name", "")))
    return found[1] if found else ""


def _maker(device: Mapping[str, Any]) -> str:
    words = re.findall(r"[a-z]+", str(device.get("cpu", device.get("name", ""))).lower())
    return next((w for w in words if w in _MAKERS), "")


def _threads(device: Mapping[str, Any]) -> int:
    for name in ("threads", "compute_units", "multiprocessors"):
        said = device.get(name)
        if is_integer(said) and said > 0:
            return said
    found = _THREADS.search(str(device.get("name", "")))
    return int(found[1]) if found and int(found[1]) else 1


#: The name that searches give the sketch of the default schedule.
BASELINE = "default"
#: The value of `verified` that says that the output was compared with what the plain loops compute (`tuning.expected`).
PLAIN = "plain"
#: Values of `verified` that say that the output was compared with the reference, or with that.
VERIFIED = ("full", "sampled", PLAIN)

_Sizes = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Choice:
    """A record to build with. `exact`: it was measured on the device and at the sizes asked for.

    `note` says in words what is not exact, and what a play-off found; it may be empty.
    """

    record: Record
    exact: bool
    note: str = ""


def best(
    records: Iterable[Record],
    *,
    key: str,
    target: object,
    device: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Choice | None:
    """The first of `ranked`, or None when no record is usable."""
    choices = ranked(records, key=key, target=target, device=device, sizes=sizes)
    return choices[0] if choices else None


def ranked(
    records: Iterable[Record],
    *,
    key: str,
    target: object,
    device: str | None = None,
    sizes: Mapping[str, int] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> list[Choice]:
    """All usable records for a workload, the best first; the same for any order of `records`.

    Usable: status ok, output verified, the same workload `key` and kind of target (`target` is a `Target` or its text),
    and the same schedule was not found to be wrong since. Records of `device` come first, then those of the nearest
    sizes (by the sum of |log ratio|), then those of the group with the most records. None for `device` or `sizes` asks
    for no particular one.

    facts: what `describe_device` says of `device`; then those of other devices come in the order of `unlikeness`, and
    those of devices of another kind not at all
    """
    groups: dict[tuple[str, _Sizes], list[Record]] = defaultdict(list)
    for record in _usable(latest(_of_workload(records, key, target, "ranked"))):
        groups[record.device_name, tuple(sorted(record.sizes.items()))].append(record)

    def rank(group: tuple[str, _Sizes]) -> tuple[object, ...]:
        name, of = group
        order = likeness[group] or (), _distance(dict(of), sizes or {}), -len(groups[group]), name, of
        return device is not None and name != device, *order

    likeness: dict[tuple[str, _Sizes], tuple[float, ...] | None] = dict.fromkeys(groups, ())
    if facts is not None and device is not None:
        elsewhere = {group: rs for group, rs in groups.items() if group[0] != device}
        likeness |= {group: unlikeness(max(rs, key=_age).device, facts) for group, rs in elsewhere.items()}
    choices = []
    for group in sorted((g for g in groups if likeness[g] is not None), key=rank):
        notes = _inexact(*group, device, sizes or {})
        for record in _in_order(groups[group]):
            choices.append(Choice(record, not notes, "; ".join([*notes, *_playoff_note(record)])))
    return choices


def _of_workload(records: Iterable[Record], key: str, target: object, asked: str) -> Iterator[Record]:
    """The records of the workload with this key for the target's kind."""
    kind = (str(target).split() or [""])[0]
    return (r for r in of_records(records, asked) if r.key == key and r.target_kind == kind)


def predicted(
    records: Iterable[Record],
    *,
    key: str,
    target: object,
    device: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> list[Choice]:
    """Records that a model chose for a workload, verified but never timed: for `device` first, then for the
    nearest sizes, then the latest. To be used where `ranked` finds nothing."""
    current = latest(_of_workload(records, key, target, "predicted"))
    wrong = {_schedule(r) for r in current if r.status == "correctness"}
    found = [r for r in current if r.status == PREDICTED and r.verified in VERIFIED and _schedule(r) not in wrong]
    found.sort(key=lambda r: (r.device_name != device, _distance(r.sizes, sizes or {}), -r.moment, r.id))
    choices = []
    for r in found:
        notes = _inexact(r.device_name, tuple(sorted(r.sizes.items())), device, sizes or {}, "predicted")
        choices.append(Choice(r, not notes, "; ".join(["chosen by a model, not measured", *notes])))
    return choices


def latest(records: Iterable[Record]) -> list[Record]:
    """One record per `id`, its latest line, in the order in which the ids first occur."""
    return _one_of_each(of_records(records, "latest"), lambda one, other: _age(one) > _age(other))


def trials(records: Iterable[Record]) -> list[Record]:
    """One record per `id`, its first line: what a resumed search has already seen. Predictions are none."""
    tried = (r for r in of_records(records, "trials") if r.status != PREDICTED)
    return _one_of_each(tried, lambda one, other: _age(one) < _age(other))


def _one_of_each(records: Iterable[Record], is_preferred: Callable[[Record, Record], bool]) -> list[Record]:
    found: dict[str, Record] = {}
    for record in records:
        if record.id not in found or is_preferred(record, found[record.id]):
            found[record.id] = record
    return list(found.values())


def _age(record: Record) -> tuple[object, ...]:
    # Two lines of one id and one microsecond are copies; the rest only makes the order total.
    return record.moment, record.playoff is not None, not record.ok, record.samples, record.error


def _usable(current: Sequence[Record]) -> list[Record]:
    refused = sorted((r for r in current if r.status == "correctness"), key=lambda r: r.moment)
    wrong = {_schedule(r): r.moment for r in refused}

    def is_wrong(record: Record) -> bool:
        # A schedule that is right at times has a race: the latest word on it counts.
        return bool(wrong) and wrong.get(_schedule(record), -math.inf) >= record.moment

    return [r for r in current if r.ok and r.samples and r.verified in VERIFIED and not is_wrong(r)]


def _schedule(record: Record) -> tuple[str, str]:
    return record.device_name, json.dumps([record.trace, record.knobs], sort_keys=True)


def _in_order(group: list[Record]) -> list[Record]:
    """The records of one device and one set of sizes, the best first."""
    by_time = sorted(group, key=_by_time)
    winners = [r for r in group if r.playoff is not None and r.playoff.get("winner") is True]
    if not winners:
        return _after_the_default(by_time)
    winner = max(winners, key=lambda r: (r.moment, r.id))
    before = [r for r in by_time if _displaces(r, winner)]
    after = [r for r in by_time if r is not winner and not _displaces(r, winner)]
    return [*before, winner, *after]


def _after_the_default(by_time: list[Record]) -> list[Record]:
    """Records of which none has won a play-off. Those that took part in one lost it to the default schedule, whose
    own record is not about play-offs: it goes before them, and before what was known when the last one was held."""
    held = [r.moment for r in by_time if r.playoff is not None and r.playoff.get("winner") is False]
    default = next((r for r in by_time if r.sketch == BASELINE), None)
    if not held or default is None:
        return by_time
    news = [r for r in by_time if r.playoff is None and r.moment > max(held) and r.seconds < default.seconds]
    return [*news, default, *(r for r in by_time if r is not default and r not in news)]


def _displaces(record: Record, winner: Record) -> bool:
    """Whether a record is news to the play-off that `winner` won, and faster."""
    if record is winner or record.moment <= winner.moment or record.seconds >= winner.seconds:
        return False
    # The other lines of the same play-off are written a moment later, but had their chance in it.
    return _playoff_run(record) != _playoff_run(winner)


def _playoff_run(record: Record) -> object:
    return None if record.playoff is None else record.playoff.get("run", record.run)


def _by_time(record: Record) -> tuple[object, ...]:
    return record.seconds, record.sketch, sorted(record.knobs.items()), record.id


def _distance(sizes: Mapping[str, int], asked: Mapping[str, int]) -> float:
    """Sum of |log ratio| over the sizes asked for; infinite when the record lacks one."""
    if not asked.keys() <= sizes.keys():
        return math.inf
    return math.fsum(abs(math.log(max(sizes[n], 1) / max(v, 1))) for n, v in sorted(asked.items()))


def _inexact(name: str, of: _Sizes, device: str | None, asked: Mapping[str, int], verb: str = "measured") -> list[str]:
    notes = []
    if device is not None and name != device:
        notes.append(f"{verb} on {name or 'an unnamed device'}, not on {device}")
    tuned = dict(of)
    if any(tuned.get(n) != v for n, v in asked.items()):
        notes.append(f"{verb} at {_spell(tuned) or 'no sizes'}, not at {_spell(asked)}")
    return notes


def _spell(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(sizes.items()))


def _playoff_note(record: Record) -> list[str]:
    if record.playoff is None:
        return []
    speedup, won = record.playoff.get("speedup"), record.playoff.get("winner") is True
    faster = f", {speedup:.2f}x over the default" if is_finite(speedup) else ""
    return [f"{'won' if won else 'lost'} its play-off{faster}"]
