"""Pictures of runs, as SVG that follows the reader's choice of light or dark. Every mark is a step that was watched.

A kind of picture is a class whose `panel(run)` gives the parts and the height of one panel; `picture` puts panels one
below the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import prod
from typing import Protocol

from autosched.html.charts import COLOURS, colours
from drawn.runs import Element, Run, workers_of

WIDTH = 400
_EDGE, _HEAD, _LONGEST = 8, 24, 30
_COLOURS = "".join(
    f".f{k}{{fill:var(--c{k});fill-opacity:calc(.06 + .5*var(--l,.5));stroke:var(--c{k})}}.s{k}{{fill:var(--c{k})}}"
    for k in range(COLOURS)
)
_STYLE = f"""<style>{colours("svg")}
.paper{{fill:var(--bg)}}text{{font:11px system-ui,sans-serif;fill:var(--fg)}}.dim{{fill:var(--dim)}}
.small{{font-size:9px}}
.head{{font-weight:600}}.empty{{fill:none;stroke:var(--rule)}}.way{{fill:none;stroke:var(--fg);stroke-opacity:.2}}
.band{{fill:var(--code)}}.asked{{fill:none;stroke:var(--c4)}}
.read{{fill:none;stroke:var(--dim);stroke-width:1}}.cut{{stroke:var(--rule)}}
{_COLOURS}
</style>"""


class Kind(Protocol):
    """A kind of picture; `legend` is a sentence for the page."""

    legend: str

    def panel(self, run: Run, longest: int) -> tuple[list[str], float]:
        """The parts of a panel, and its height; no run of the picture has more than `longest` steps."""


@dataclass(frozen=True)
class Order:
    """The elements of a tensor of two dimensions (or one), with the number of the step that stores them."""

    tensor: str
    way: bool = True  #: a line from step to step
    by_statement: bool = False  #: a colour for each copy of the store, not for each worker
    legend: str = (
        "Each cell is an element, its number the step that stores it; a wide cell is a vector. Colours are workers, "
        "iterations of a parallel loop or work-items: each counts its own steps, the later the darker."
    )

    def panel(self, run: Run, longest: int) -> tuple[list[str], float]:
        steps = run.of(self.tensor)
        shape = run.shapes[self.tensor]
        rows, columns = (1, *shape)[-2:]
        size = min(_LONGEST, (WIDTH - 2 * _EDGE) / columns)
        workers = {w: n for n, w in enumerate(workers_of(steps))}
        last = {step.worker: step.number for step in steps}
        full = {(0, *e)[-2:] for step in steps for e in step.elements}
        empty = [(y, x) for y in range(rows) for x in range(columns) if (y, x) not in full]
        parts = [_cell(_EDGE + size * x, size * y, size, size, "empty") for y, x in empty]
        centres: dict[tuple[int, ...], list[tuple[float, float]]] = {}
        labels = []
        for step in steps:
            colour = step.statement if self.by_statement else workers[step.worker]
            for y, x, wide in _bars([(0, *e)[-2:] for e in step.elements]):
                left, top = _EDGE + size * x, size * y
                shade = "" if self.by_statement else f'" style="--l:{step.number / last[step.worker]:.2f}'
                parts.append(_cell(left + 1, top + 1, size * wide - 2, size - 2, f"f{colour % COLOURS}{shade}"))
                labels.append(label(left + size * wide / 2, top + size / 2 + 3.5, str(step.number), "middle", "small"))
                centres.setdefault(step.worker, []).append((left + size * wide / 2, top + size / 2))
        ways = ["M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places) for places in centres.values()]
        parts += [f'<path class="way" d="{w}"/>' for w in ways if self.way]
        return parts + labels, size * rows


@dataclass(frozen=True)
class Space:
    """The iterations of loops: the last goes across, those before go down; in a cell the element that is stored."""

    tensor: str
    loops: tuple[str, ...]
    legend: str = "A cell with an index is an iteration that stores that element; an empty cell stores nothing."

    def panel(self, run: Run, longest: int) -> tuple[list[str], float]:
        *down, across = self.loops
        columns = run.extents[across]
        left = 8 + (6.2 * max(len(", ".join(down)) + 4, 12) if down else 0)
        wide = min(46.0, (WIDTH - _EDGE - left) / columns)
        high, top, small = 22, 18, "small" if wide < 20 else ""
        rows: dict[Element, int] = {}
        for k in range(prod(run.extents[x] for x in down)):
            place = []
            for x in reversed(down):
                place.append(k % run.extents[x])
                k //= run.extents[x]
            rows[tuple(reversed(place))] = len(rows)
        parts = [label(left + wide * columns / 2, 11, f"{across} →", "middle", "dim")]
        parts += [label(_EDGE, 11, f"{', '.join(down)} ↓", kind="dim")] if down else []
        parts += [
            label(left - 8, top + high * y + 15, ", ".join(map(str, place)), "end", "dim")
            for place, y in rows.items()
            if down
        ]
        full = set()
        for step in run.of(self.tensor):
            for e, at in zip(step.elements, step.at, strict=True):
                if not at.keys() >= set(self.loops):  # first values, outside of these loops
                    continue
                y = colour = rows[tuple(at[x] for x in down)]
                full.add((y, at[across]))
                x = left + wide * at[across]
                parts.append(_cell(x + 1, top + high * y + 1, wide - 2, high - 2, f"f{colour % COLOURS}"))
                parts.append(label(x + wide / 2, top + high * y + 15, ",".join(map(str, e)), "middle", small))
        empty = [(y, x) for y in rows.values() for x in range(columns) if (y, x) not in full]
        parts += [_cell(left + wide * x + 1, top + high * y + 1, wide - 2, high - 2, "empty") for y, x in empty]
        return parts, top + high * len(rows)


@dataclass(frozen=True)
class Memory:
    """The memory of a tensor, address after address; in a cell the element that was copied there."""

    tensor: str
    row: int  #: elements in a row of the picture
    legend: str = "Memory, address after address, and which element lies where; the first column is coloured."

    def panel(self, run: Run, longest: int) -> tuple[list[str], float]:
        shape = run.shapes[self.tensor]
        strides = run.strides.get(self.tensor) or tuple(prod(shape[k + 1 :]) for k in range(len(shape)))
        held = {
            sum(a * b for a, b in zip(e, strides, strict=True)): step.reads[0][1]
            for step in run.of(self.tensor)
            for e in step.elements
        }
        total = strides[0] * shape[0]
        wide, high = (WIDTH - 2 * _EDGE) / self.row, 20
        parts = []
        for at in range(total):
            x, y = _EDGE + wide * (at % self.row), high * (at // self.row)
            e = held.get(at)
            kind = "empty" if e is None else "f1" if e[-1] == 0 else "f0"
            parts.append(_cell(x + 1, y + 1, wide - 2, high - 2, kind))
            if e is not None:
                parts.append(label(x + wide / 2, y + 13.5, ",".join(map(str, e)), "middle", "small"))
        return parts, high * -(-total // self.row)


@dataclass(frozen=True)
class Time:
    """Steps go across; each tensor is a band with a row for each element of its memory. Full: stored; ring: read."""

    tensors: tuple[str, ...]
    legend: str = (
        "Time goes to the right, one step for each store. A tensor is a band, with a row for each element that has "
        "memory: a filled mark is stored, a ring is read."
    )

    def panel(self, run: Run, longest: int) -> tuple[list[str], float]:
        names = [t for t in self.tensors if t in run.shapes]
        scopes = {t: f"{t} {run.scopes[t]}" for t in names if run.scopes[t] != "global"}
        sizes = {t: prod(run.shapes[t]) for t in names}
        left = _EDGE + 6.3 * max(len(scopes.get(t, t)) for t in self.tensors) + 6
        gap = min((WIDTH - _EDGE - left) / longest, 22.0)
        high = max(5.0, min(10.0, 200 / sum(sizes.values())))
        tops, top = {}, 0.0
        parts = []
        for t in names:
            tops[t] = top
            tall = high * sizes[t]
            parts.append(_cell(left, top, gap * len(run.steps), tall, "band"))
            parts.append(label(left - 6, top + min(tall / 2 + 4, 40), scopes.get(t, t), "end"))
            top += tall + 7
        for n, step in enumerate(run.steps):
            x = left + gap * (n + 0.5)
            for name, e in dict.fromkeys(step.reads):
                if name in tops:
                    y = tops[name] + high * (_position(e, run.shapes[name]) + 0.5)
                    parts.append(f'<circle class="read" cx="{x:.1f}" cy="{y:.1f}" r="{min(gap, high) * 0.3:.1f}"/>')
            for name, e in step.asked:
                if all(i < n for i, n in zip(e, run.shapes[name], strict=True)):
                    y = tops[name] + high * (_position(e, run.shapes[name]) + 0.5)
                    parts.append(f'<path class="asked" d="M{x - 3:.1f} {y:.1f}l3 -3l3 3l-3 3z"/>')
            if step.buffer in tops:
                colour = self.tensors.index(step.buffer) % COLOURS
                mark = min(gap, high, 9) * 0.8
                for e in step.elements:
                    y = tops[step.buffer] + high * (_position(e, run.shapes[step.buffer]) + 0.5)
                    parts.append(_cell(x - mark / 2, y - mark / 2, mark, mark, f"s{colour}", 1.5))
        return parts, top - 7


def picture(panels: Sequence[tuple[str, Run, Kind]], about: str) -> str:
    """An SVG of panels, each with a heading that says what was counted."""
    parts, top = [], 0.0
    longest = max(len(run.steps) for _, run, _ in panels)
    for name, run, kind in panels:
        inside, height = kind.panel(run, longest)
        parts.append(label(_EDGE, top + 17, name, kind="head"))
        parts.append(label(WIDTH - _EDGE, top + 17, counted(run, kind), "end", "dim"))
        parts.append(f'<g transform="translate(0 {top + _HEAD:g})">{"".join(inside)}</g>')
        top += _HEAD + height + 10
    return drawing(parts, top, about)


def drawing(parts: Sequence[str], height: float, about: str) -> str:
    """An SVG of its parts, `WIDTH` wide, on paper."""
    size = f'viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" height="{height:.0f}"'
    paper = f'<rect class="paper" width="{WIDTH}" height="{height:.0f}"/>'
    title = f"<title>{escape(about)}</title>"
    lines = "\n".join(parts).replace("/><", "/>\n<").replace("</text><", "</text>\n<")
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">{title}\n{_STYLE}\n{paper}\n{lines}\n</svg>\n'


def counted(run: Run, kind: Kind) -> str:
    """`4 workers, 12 steps each`, of the tensor that is drawn, or of the whole run."""
    found = run.of(kind.tensor) if isinstance(kind, Order | Space | Memory) else run.steps
    stored = sum(len(step.elements) for step in found)
    workers = len(workers_of(found))
    longest = max(sum(step.worker == w for step in found) for w in workers_of(found))
    steps = f"{longest} steps" if workers == 1 else f"{workers} workers, {longest} steps each"
    more = "" if stored == longest * workers else f", {stored} elements stored"
    reads = f", {sum(len(step.reads) for step in found)} reads" if isinstance(kind, Time) else ""
    return f"{steps}{more}{reads}"


# -- elements ---------------------------------------------------------------------------------------
def _bars(places: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Neighbours across as one: (row, column, how many)."""
    found: list[tuple[int, int, int]] = []
    for y, x in sorted(places):
        if found and found[-1][0] == y and sum(found[-1][1:]) == x:
            found[-1] = (y, found[-1][1], found[-1][2] + 1)
        else:
            found.append((y, x, 1))
    return found


def _position(e: Element, shape: Element) -> int:
    at = 0
    for i, n in zip(e, shape, strict=True):
        at = at * n + i
    return at


def _cell(x: float, y: float, wide: float, high: float, kind: str, round: float = 3) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="{round:g}"/>'


def label(x: float, y: float, text: str, anchor: str = "", kind: str = "") -> str:
    more = f' text-anchor="{anchor}"' if anchor else ""
    more += f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(text)}</text>'
