"""A model as a picture: calls of kernels from top to bottom, with the time of each, and what goes from one to another.

A row is a call. Rows are narrow enough for a phone; what a later row reads goes down a lane beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from autosched.html import page
from autosched.html.charts import label
from autosched.report.text import seconds

#: Width of the picture, height of a row and of a box in it, width of a lane, and how many there are at most.
WIDTH, ROW, BOX, LANE, LANES = 360, 26, 20, 9, 8
#: Where a schedule comes from -> the colour of its dot.
_ORIGINS = {"record": 2, "predicted": 1, "default": 4}
#: Width of a character, about, and of the numbers at the end of a row.
_CHARACTER, _NUMBERS = 6.2, 104


@dataclass(frozen=True)
class Call:
    """A call of a kernel.

    name:    what it computes, in a word
    nodes:   the model's nodes that it stands for
    seconds: its median time
    origin:  `record`, `predicted` or `default`: where its schedule comes from
    limit:   its share of the machine's limit, in words; empty where that is not known
    shape:   what it makes
    reads:   numbers of the calls whose results it reads; inputs are counted from -1 down
    """

    name: str
    nodes: str
    seconds: float
    origin: str
    limit: str
    shape: str
    reads: tuple[int, ...]


@dataclass(frozen=True)
class Network:
    """A model: the names of its inputs, its calls in order, and each output with the call that makes it."""

    inputs: Sequence[str]
    calls: Sequence[Call]
    outputs: Sequence[tuple[str, int]]

    @property
    def seconds(self) -> float:
        """The time of all calls."""
        return sum(c.seconds for c in self.calls)


def picture(n: Network) -> str:
    """The network from top to bottom, as SVG: the longer and the stronger a bar, the more of the time."""
    first, last = len(n.inputs), len(n.inputs) + len(n.calls)
    edges = [(_row(at, first), k + first) for k, call in enumerate(n.calls) for at in dict.fromkeys(call.reads)]
    edges += [(made + first, last + k) for k, (_, made) in enumerate(n.outputs)]
    lanes = _lanes(edges)
    left = 8 + LANE * (1 + max(lanes.values(), default=-1))
    parts = [_edge(source, row, left, lanes.get(source, 0)) for source, row in edges]
    ends = [(name, k) for k, name in enumerate(n.inputs)]
    ends += [(name, last + k) for k, (name, _) in enumerate(n.outputs)]
    for name, row in ends:
        parts.append(label(left + 6, _middle(row) + 4, name, kind="note", longest=44))
    most = max((c.seconds for c in n.calls), default=0.0) or 1.0
    parts += [_box(k, call, k + first, left, most, n.seconds) for k, call in enumerate(n.calls)]
    height = ROW * (last + len(n.outputs)) + 30
    parts += _legend(n, height)
    about = escape(f"{len(n.calls)} calls of kernels, {seconds(n.seconds)} in all")
    style = f'style="max-width:{1.6 * WIDTH:.0f}px"'
    box = f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{about}"'
    return f'<svg class="chart" {style} {box}>{"".join(parts)}</svg>'


def _row(number: int, first: int) -> int:
    """The row of a call, or of an input."""
    return number + first if number >= 0 else -1 - number


def _middle(row: int) -> float:
    return ROW * row + ROW / 2 + 4


def _lanes(edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """The lane of each row that is read further down than by the next one: the nearest that is free."""
    until: dict[int, int] = {}
    for source, row in edges:
        if row > source + 1:
            until[source] = max(until.get(source, 0), row)
    found: dict[int, int] = {}
    for source in sorted(until):
        busy = {lane for other, lane in found.items() if until[other] >= source}
        found[source] = next((k for k in range(LANES) if k not in busy), LANES - 1)
    return found


def _edge(source: int, row: int, left: float, lane: int) -> str:
    """From a row to the next one straight down, to another by the lane of its source."""
    start, end = _middle(source), _middle(row)
    if row == source + 1:
        x = left + 12
        return _line(f"M{x} {start + BOX / 2:.1f}V{end - BOX / 2:.1f}")
    x = left - 5 - LANE * (lane + 0.5)
    way = f"M{left} {start:.1f}H{x + 4:.1f}Q{x:.1f} {start:.1f} {x:.1f} {start + 4:.1f}"
    return _line(f"{way}V{end - 4:.1f}Q{x:.1f} {end:.1f} {x + 4:.1f} {end:.1f}H{left}l-4 -3m4 3l-4 3")


def _line(path: str) -> str:
    return f'<path class="axis" fill="none" d="{path}"/>'


def _box(number: int, c: Call, row: int, left: float, most: float, whole: float) -> str:
    """A call: its number and name, a bar, its share and time; the pointer tells the rest."""
    y, wide = _middle(row) - BOX / 2, WIDTH - 4 - left
    share, strength = c.seconds / whole if whole else 0.0, c.seconds / most
    told = [f"{number + 1}. {c.name}", c.nodes, c.shape, f"schedule: {c.origin}", c.limit]
    long = max(2.0, wide * strength)
    box = f'x="{left}" y="{y:.1f}" height="{BOX}" rx="3"'
    parts = [
        f"<title>{escape(chr(10).join(filter(None, told)))}</title>",
        f'<rect class="ground" {box} width="{wide}"/>',
        f'<rect class="cell" {box} width="{long:.1f}" style="--s:{strength:.2f}"/>',
        f'<circle class="dot c{_ORIGINS.get(c.origin, 3)}" cx="{left + 8}" cy="{y + BOX / 2:.1f}" r="3"/>',
        label(left + 15, y + 14, f"{number + 1} {c.name}", longest=int((wide - 15 - _NUMBERS) / _CHARACTER)),
        label(WIDTH - 66, y + 14, f"{share:.0%}" if share >= 0.005 else "", "end"),
        label(WIDTH - 8, y + 14, seconds(c.seconds), "end"),
    ]
    return f"<g>{''.join(parts)}</g>"


def _legend(n: Network, height: float) -> list[str]:
    parts, x = [], 8.0
    for origin in dict.fromkeys(c.origin for c in n.calls):
        parts.append(f'<circle class="dot c{_ORIGINS.get(origin, 3)}" cx="{x}" cy="{height - 12}" r="3"/>')
        parts.append(label(x + 7, height - 8, f"schedule: {origin}", kind="note"))
        x += 24 + _CHARACTER * (10 + len(origin))
    return parts


def table(n: Network) -> str:
    """The calls, the longest first."""
    ordered = sorted(enumerate(n.calls, 1), key=lambda row: -row[1].seconds)
    rows = [
        [str(k), c.name, seconds(c.seconds), f"{c.seconds / n.seconds:.1%}", c.limit, c.origin, c.shape, c.nodes[:80]]
        for k, c in ordered
    ]
    head = ["", "kernel", "time", "share", "roofline", "schedule", "makes", "nodes"]
    return page.table(head, rows, right=(0, 2, 3))


def model_html(
    title: str, about: str, facts: Sequence[tuple[str, str]], n: Network, commands: Sequence[str] = ()
) -> str:
    """A page about a model: numbers, the network, its calls."""
    parts = [
        f"<h1>{escape(title)}</h1>",
        page.paragraph(about, dim=True),
        page.facts(facts),
        page.section("Network", picture(n)),
        page.section("Calls, the longest first", table(n)),
        page.section("To reproduce", page.code("\n".join(commands))) if commands else "",
    ]
    return page.page(title, "\n".join(parts))
