"""SVG charts. Colours are classes, which the page's styles give meaning in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH, HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 14, 42
#: colours that a page has
COLOURS = 6

_LIGHT = """\
--bg:#fff;--fg:#1c2024;--dim:#60646c;--rule:#e2e5e9;--code:#f5f6f8;--c0:#2563eb;--c1:#d97706;
--c2:#059669;--c3:#7c3aed;--c4:#dc2626;--c5:#0891b2;color-scheme:light dark"""
_DARK = """\
--bg:#15181c;--fg:#e6e8eb;--dim:#9ba1a8;--rule:#2c3137;--code:#1e2227;--c0:#60a5fa;--c1:#fbbf24;
--c2:#34d399;--c3:#a78bfa;--c4:#f87171;--c5:#22d3ee"""
#: what the classes look like
STYLE = """
.chart{width:100%;height:auto;font:11px system-ui,sans-serif;display:block;margin:4px 0}
.chart text{fill:var(--fg)}.chart .note{fill:var(--dim)}.grid{stroke:var(--rule);fill:none}
.level{stroke:var(--dim);stroke-dasharray:4 4;fill:none}.line{fill:none;stroke-width:2}.nest .line{stroke-width:0}
.dot{opacity:.75;stroke:none}.axis{stroke:var(--dim)}
.line.c0{stroke:var(--c0)}.line.c1{stroke:var(--c1)}.line.c2{stroke:var(--c2)}.line.c3{stroke:var(--c3)}
.line.c4{stroke:var(--c4)}.line.c5{stroke:var(--c5)}
.dot.c0,.bar.c0{fill:var(--c0)}.dot.c1{fill:var(--c1)}.dot.c2{fill:var(--c2)}.dot.c3{fill:var(--c3)}
.dot.c4{fill:var(--c4)}.dot.c5{fill:var(--c5)}
.coordinate{fill:none;stroke:var(--dim);opacity:.14}.coordinate.good{stroke:var(--c0);opacity:.4}
.coordinate.best{stroke:var(--c1);opacity:1;stroke-width:2}
.ground{fill:var(--code)}
.cell{fill:var(--c0);fill-opacity:calc(.08 + .72*var(--s))}
"""


def colours(selector: str) -> str:
    """Styles that give elements the colours of charts, in light and in dark."""
    return f"{selector}{{{_LIGHT}}}@media (prefers-color-scheme:dark){{{selector}{{{_DARK}}}}}"


@dataclass(frozen=True)
class Axis:
    """Where values lie along an axis: `low` and `high` at its ends, `is_log` for ratios, `spell` for its numbers."""

    name: str
    low: float
    high: float
    is_log: bool = False
    spell: Callable[[float], str] = "{:g}".format
    marks: tuple[float, ...] = ()  #: where numbers stand; by default round ones

    @staticmethod
    def of(
        name: str, values: Sequence[float], *, is_log: bool = False, spell: Callable[[float], str] = "{:g}".format
    ) -> Axis:
        """An axis on which all finite values are."""
        known = [v for v in values if math.isfinite(v) and (v > 0 or not is_log)]
        low, high = (min(known), max(known)) if known else (1.0, 2.0)
        if is_log:
            return Axis(name, low / 1.1, high * 1.1, True, spell)
        room = (high - low) * 0.04 or 0.5
        return Axis(name, low - room, high + room, False, spell)

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round numbers along it, between three and ten."""
        if self.marks:
            return list(self.marks)
        if not self.is_log:
            return _round_steps(self.low, self.high)
        marks = (1.0, 2.0, 5.0)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for chosen in ((1.0,), (1.0, 3.0), marks):
            found = [m * 10.0**d for d in decades for m in chosen if self.low <= m * 10.0**d <= self.high]
            if len(found) >= 3:
                return found[:: -(-len(found) // 8)]
        return _round_steps(self.low, self.high)


def _round_steps(low: float, high: float) -> list[float]:
    raw = (high - low) / 5
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(m * scale for m in (1, 2, 2.5, 5, 10) if m * scale >= raw)
    first = math.ceil(low / step)
    return [k * step for k in range(first, math.floor(high / step) + 1)]


class Chart:
    """A chart with two axes, drawn from the back to the front."""

    def __init__(self, x: Axis, y: Axis, *, height: int = HEIGHT) -> None:
        self.x, self.y, self.height = x, y, height
        self._parts: list[str] = []
        self._legend: list[tuple[str, int]] = []

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where values lie in the picture."""
        across = _LEFT + self.x.share(x) * (WIDTH - _LEFT - _RIGHT)
        return across, self.height - _BOTTOM - self.y.share(y) * (self.height - _TOP - _BOTTOM)

    def curve(
        self, points: Sequence[tuple[float, float]], colour: int = 0, *, steps: bool = False, name: str = ""
    ) -> None:
        """A line through points; with `steps` each value holds until the next."""
        places = [self.place(x, y) for x, y in points]
        if not places:
            return
        path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
        for (_, before), (across, up) in pairwise(places):
            path += f"L{across:.1f} {before:.1f}L{across:.1f} {up:.1f}" if steps else f"L{across:.1f} {up:.1f}"
        self._parts.append(_path(path, f"line c{colour % COLOURS}"))
        if name:
            self._legend.append((name, colour))

    def points(
        self, points: Sequence[tuple[float, float]], colour: int = 0, *, told: Sequence[str] = (), name: str = ""
    ) -> None:
        """Dots, each with a text for the pointer."""
        for k, (x, y) in enumerate(points):
            self._parts.append(_dot(*self.place(x, y), 3, colour, told[k] if told else ""))
        if name and points:
            self._legend.append((name, colour))

    def level(self, y: float, name: str) -> None:
        """A line across, with its name."""
        if self.y.low <= y <= self.y.high:
            _, up = self.place(self.x.low, y)
            self._parts.append(_path(f"M{_LEFT} {up:.1f}H{WIDTH - _RIGHT}", "level"))
            self._parts.append(label(WIDTH - _RIGHT, up - 4, name, "end", "note"))

    def svg(self, about: str) -> str:
        """The picture; `about` says what it shows to those who do not see it."""
        bottom, end = self.height - _BOTTOM, WIDTH - _RIGHT
        parts = []
        for value in self.y.ticks():
            _, up = self.place(self.x.low, value)
            parts.append(_path(f"M{_LEFT} {up:.1f}H{end}", "grid"))
            parts.append(label(_LEFT - 6, up + 4, self.y.spell(value), "end"))
        for value in self.x.ticks():
            across, _ = self.place(value, self.y.low)
            parts.append(_path(f"M{across:.1f} {_TOP}V{bottom}", "grid"))
            parts.append(label(across, bottom + 16, self.x.spell(value), "middle"))
        parts.append(label(end, self.height - 8, self.x.name, "end", "note"))
        parts.append(label(_LEFT, _TOP - 3, self.y.name, kind="note"))
        left = float(_LEFT)
        for name, colour in self._legend:
            parts.append(_dot(left + 5, self.height - 12, 4, colour))
            parts.append(label(left + 13, self.height - 8, name))
            left += 24 + 7 * len(name)
        return _picture([*parts, *self._parts], self.height, about)


def bars(rows: Sequence[tuple[str, float, str]], about: str, most: float = 0.0) -> str:
    """Bars across: name, length as a number, text at the end. A bar of `most` is as long as can be."""
    most = max([most, *(value for _, value, _ in rows)]) or 1.0
    parts = []
    for k, (name, value, text) in enumerate(rows):
        y, long = 6 + 26 * k, max(1.0, 300 * value / most)
        parts.append(label(200, y + 14, name, "end", longest=28))
        parts.append(f'<rect class="bar c0" x="208" y="{y}" width="{long:.1f}" height="18" rx="3"/>')
        parts.append(label(214 + long, y + 14, text))
    return _picture(parts, 12 + 26 * len(rows), about)


def parallel(axes: Sequence[str], rows: Sequence[tuple[Sequence[float], float, str]], about: str) -> str:
    """Parallel coordinates: each row is its place on every axis (0 to 1), how good it is (1 is best), and a text."""
    if len(axes) < 2:
        return ""
    gap = (WIDTH - 2 * 40) / (len(axes) - 1)
    parts = []
    for places, good, text in sorted(rows, key=lambda row: row[1]):
        path = "L".join(f"{40 + gap * k:.1f} {250 - 210 * p:.1f}" for k, p in enumerate(places))
        weight = "best" if good > 0.95 else "good" if good > 0.7 else "rest"
        parts.append(_path(f"M{path}", f"coordinate {weight}", text))
    for k, name in enumerate(axes):
        parts.append(_path(f"M{40 + gap * k:.1f} 36V254", "axis"))
        parts.append(label(40 + gap * k, 26 if k % 2 else 12, name, "middle", longest=18))
    return _picture(parts, 266, about)


@dataclass(frozen=True)
class Cells:
    """Numbers by two values: `across` and `down` are (name, values), `numbers` has a row for each value down."""

    across: tuple[str, Sequence[str]]
    down: tuple[str, Sequence[str]]
    numbers: Sequence[Sequence[float | None]]


def heat(cells: Cells, told: Callable[[float], str], about: str) -> str:
    """A map of numbers above 0: the less, the stronger."""
    known = [c for line in cells.numbers for c in line if c is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    (across, columns), (down, rows) = cells.across, cells.down
    wide = min(80.0, (WIDTH - 110) / max(1, len(columns)))
    parts = [label(100, 12, across, kind="note"), label(4, 28, down, kind="note")]
    parts += [label(100 + wide * (k + 0.5), 28, column, "middle") for k, column in enumerate(columns)]
    for n, (name, line) in enumerate(zip(rows, cells.numbers, strict=True)):
        y = 36 + 26 * n
        parts.append(label(92, y + 16, name, "end"))
        for k, value in enumerate(line):
            if value is None:
                continue
            strength = 1.0 - (math.log(value / low) / math.log(high / low) if high > low else 0.0)
            box = f'x="{100 + wide * k:.1f}" y="{y}" width="{wide - 2:.1f}" height="24"'
            parts.append(f'<rect class="cell" {box} style="--s:{strength:.2f}"/>')
            parts.append(label(100 + wide * (k + 0.5), y + 16, told(value), "middle"))
    return _picture(parts, 44 + 26 * len(rows), about)


# -- elements ------------------------------------------------------------------------------------------
def label(x: float, y: float, words: str, anchor: str = "", kind: str = "", *, longest: int = 0) -> str:
    """A text; one of more than `longest` characters is cut, and the pointer shows all of it."""
    more = f' text-anchor="{anchor}"' if anchor else ""
    more += f' class="{kind}"' if kind else ""
    shown, title = words, ""
    if longest and len(words) > longest:
        shown, title = f"{words[: longest - 1]}…", f"<title>{escape(words)}</title>"
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(shown)}{title}</text>'


def _path(path: str, kind: str, told: str = "") -> str:
    return f'<path class="{kind}" d="{path}">{f"<title>{escape(told)}</title>" if told else ""}</path>'


def _dot(x: float, y: float, radius: int, colour: int, told: str = "") -> str:
    title = f"<title>{escape(told)}</title>" if told else ""
    return f'<circle class="dot c{colour % COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">{title}</circle>'


def _picture(parts: Sequence[str], height: float, about: str) -> str:
    box = f'viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(about)}"'
    return f'<svg class="chart" {box}>{"".join(parts)}</svg>'
