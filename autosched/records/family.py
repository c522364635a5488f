"""Several schedules of one workload, each for some of its sizes: what `tune_sizes` found, for `build` to apply.

Each representative size has a record that says which kernel of which family is for it. What lies between
is divided by thresholds at geometric means, so that a call goes where its sizes are nearest in ratio:

    n = 64 -> A, n = 512 -> B, n = 4096 -> B        n < 181: A    else: B
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from autosched.records.best import ranked
from autosched.records.record import Record

#: size -> (from, below): a half-open range, None where there is no end
Box = dict[str, tuple[int | None, int | None]]
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Member:
    """One kernel: its records, one for each size it was chosen for, and the regions that are its own."""

    records: tuple[Record, ...]
    boxes: tuple[Box, ...]

    @property
    def record(self) -> Record:
        """The one whose schedule is built; they differ in their sizes and times only."""
        return self.records[0]


def family(records: Iterable[Record], *, key: str, target: object, device: str) -> list[Member]:
    """The kernels of the latest family for a workload on a device; empty where there is none.

    Records that are withdrawn, or whose schedule was found to be wrong since, are none of it: what they
    served goes to the nearest that is left. Of two for the same sizes, which no run writes, the better one
    counts. The same for any order of `records`.
    """
    found: dict[tuple[str, str], dict[str, tuple[int, Record]]] = {}
    for r in (choice.record for choice in ranked(records, key=key, target=target, device=device)):
        if r.family is not None and r.device_name == device:
            run, kernel, at = r.family
            found.setdefault((at, run), {}).setdefault(repr(sorted(r.sizes.items())), (kernel, r))
    if not found:
        return []
    kernels: dict[int, list[Record]] = {}
    for kernel, r in sorted(found[max(found)].values(), key=lambda x: sorted(x[1].sizes.items())):
        kernels.setdefault(kernel, []).append(r)
    boxes = regions([(r.sizes, k) for k, rs in kernels.items() for r in rs])
    return [Member(tuple(rs), tuple(boxes[k])) for k, rs in sorted(kernels.items())]


def regions(points: Sequence[tuple[Sizes, int]]) -> dict[int, list[Box]]:
    """Boxes that divide all sizes among kernels, such that every point lies with its own.

    The classic tree: what is not yet of one kernel is cut where the halves are most of one kind, and of such
    cuts where neighbours are furthest apart in ratio. Raises ValueError for one point with two kernels.
    """
    found: dict[int, list[Box]] = {kernel: [] for _, kernel in points}
    _divide(list(points), {}, found)
    return found


def _divide(points: list[tuple[Sizes, int]], box: Box, found: dict[int, list[Box]]) -> None:
    kernels = {kernel for _, kernel in points}
    if len(kernels) == 1:
        found[kernels.pop()].append(box)
        return
    name, at = _cut(points)
    low, high = box.get(name, (None, None))
    for part, side in ((True, (low, at)), (False, (at, high))):
        _divide([p for p in points if (p[0][name] < at) is part], {**box, name: side}, found)


def _cut(points: list[tuple[Sizes, int]]) -> tuple[str, int]:
    """A size and the value that it is compared with."""
    cuts = []
    for name in sorted({n for sizes, _ in points for n in sizes}):
        values = sorted({sizes[name] for sizes, _ in points})
        for a, b in pairwise(values):
            at = min(max(round(math.sqrt(a * b)), a + 1), b)
            mixed = sum(_mixed([k for s, k in points if (s[name] < at) is part]) for part in (True, False))
            cuts.append((mixed, -b / max(a, 1), name, at))
    if not cuts:
        raise ValueError(f"one size with several kernels: {points}")
    _, _, name, at = min(cuts)
    return name, at


def _mixed(kernels: list[int]) -> float:
    """Gini's impurity, times the number of points."""
    return len(kernels) - sum(n * n for n in Counter(kernels).values()) / len(kernels)


def describe(box: Box) -> str:
    """`181 <= n < 1448, m < 100`; `otherwise` for a box without ends."""
    parts = []
    for name, (low, high) in box.items():
        parts.append(f"{'' if low is None else f'{low} <= '}{name}{'' if high is None else f' < {high}'}")
        if high is None:
            parts[-1] = f"{name} >= {low}"
    return ", ".join(parts) or "otherwise"
