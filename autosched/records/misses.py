"""Why records of a workload's name are not applied, and which of them is nearest to what was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.records.best import VERIFIED, latest
from autosched.records.record import PREDICTED, Record


@dataclass(frozen=True)
class Miss:
    """Records that are alike in what keeps them from being applied: how many, the fastest of them, and the reasons,
    empty where nothing does."""

    count: int
    fastest: Record
    reasons: tuple[str, ...]


def misses(
    records: Iterable[Record],
    *,
    args: Sequence[Mapping[str, Any]],
    key: str,
    target_kind: str,
    device: str,
    sizes: Mapping[str, int] | None = None,
) -> list[Miss]:
    """What stands between the records of a name and a build, those with the fewest and least reasons first.

    args: name, shape and type of each argument, as records keep them
    """
    groups: dict[tuple[str, ...], list[Record]] = {}
    for r in latest(records):
        if r.status != PREDICTED:
            groups.setdefault(_reasons(r, args, key, target_kind, device, sizes or {}), []).append(r)
    found = [Miss(len(rs), min(rs, key=lambda r: r.seconds), reasons) for reasons, rs in groups.items()]
    return sorted(
        found, key=lambda m: (len(m.reasons), [_ORDER.index(x.split(" ", 1)[0]) for x in m.reasons], -m.count)
    )


#: first words of reasons, those that matter least first
_ORDER = ("sizes", "device", "unverified", "trial", "target", "program")


def _reasons(
    r: Record, args: Sequence[Mapping[str, Any]], key: str, target_kind: str, device: str, sizes: Mapping[str, int]
) -> tuple[str, ...]:
    found = []
    if r.key != key:
        found.append(f"program differs: {_difference(r.workload.get('args'), args)}")
    if r.target_kind != target_kind:
        found.append(f"target is {r.target_kind}, not {target_kind}")
    if not r.ok:
        found.append(f"trial failed: {r.status}")
    elif r.verified not in VERIFIED:
        found.append("unverified output")
    if r.device_name != device:
        found.append(f"device is {r.device_name or 'unknown'}, not {device}")
    if others := {k: v for k, v in r.sizes.items() if sizes and sizes.get(k) != v}:
        found.append(f"sizes are {', '.join(f'{k} {v}' for k, v in others.items())}")
    return tuple(found)


def _difference(theirs: Any, ours: Sequence[Mapping[str, Any]]) -> str:
    """The first argument that is not the same; where all are, the computation is another."""
    listed = theirs if isinstance(theirs, list) else []
    for a, b in zip(listed, ours, strict=False):
        for part in ("dtype", "shape", "name"):
            if isinstance(a, dict) and a.get(part) != b.get(part):
                return f"{b.get('name')} is {_spell(a.get(part))}, not {_spell(b.get(part))}"
    if len(listed) != len(ours):
        return f"{len(listed)} arguments, not {len(ours)}"
    return "its definition is another, with the same arguments"


def _spell(part: Any) -> str:
    return f"[{', '.join(map(str, part))}]" if isinstance(part, list) else str(part)
