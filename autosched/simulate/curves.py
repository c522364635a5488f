"""Curves of several runs: how near the best after how many trials, as figures and as SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from autosched.model.protocol import FloatArray
from autosched.simulate.recorded import RecordedSpace
from autosched.simulate.replay import Run

#: After how many trials the table says how good the best is.
BUDGETS = (25, 50, 100, 200)
#: What the score is made of.
SCORED = (25, 50, 100)
#: How near to the best counts as found.
NEAR = (1.05, 1.10)
#: The strategy that others are compared with.
BASELINE = "random"


@dataclass(frozen=True)
class Curves:
    """All runs of one contender on one space: `best` is float64 [seeds, trials], multiples of the optimum."""

    space: str
    contender: str
    best: FloatArray

    def quantiles(self, *shares: float) -> FloatArray:
        """float64 [len(shares), trials] over the seeds: 0.5 is the median."""
        return np.asarray(np.quantile(self.best, shares, axis=0, method="linear"))

    def trials_to(self, near: float) -> float:
        """Median over the seeds of the first trial whose best is within `near` of the optimum; `inf` if
        half of them do not get there."""
        first = [float(np.argmax(row <= near)) + 1 if row[-1] <= near else math.inf for row in self.best]
        return sorted(first)[(len(first) - 1) // 2]

    def scores(self) -> FloatArray:
        """float64 [seeds]: the geometric mean of the best after each of `SCORED` trials, as far as the run
        goes: what it has to show when it ends early, or not so early."""
        last = self.best.shape[1]
        ends = [n - 1 for n in SCORED if n <= last] or [last - 1]
        return np.asarray(np.exp(np.log(self.best[:, ends]).mean(axis=1)))


@dataclass(frozen=True)
class Figures:
    """One line of the table. `after` has for each budget the quartiles and median of the best; `beats` is
    the probability that a run scores better than one of random search, ties counting half."""

    space: str
    contender: str
    seeds: int
    trials_to: dict[str, float]
    after: dict[str, tuple[float, float, float]]
    score: float
    beats_random: float | None


def curves_of(space: RecordedSpace, runs: Sequence[Run], trials: int) -> list[Curves]:
    """The curves of each contender on this space, in order of appearance.

    Until a first point ran, the worst of the space stands for it.
    """
    found = []
    for contender in dict.fromkeys(run.contender for run in runs if run.space == space.name):
        of = [run for run in runs if run.space == space.name and run.contender == contender]
        table = np.empty((len(of), trials))
        for row, run in zip(table, of, strict=True):
            best = np.minimum(run.best[:trials], space.worst_seconds) if run.seconds else [space.worst_seconds]
            row[: len(best)], row[len(best) :] = best, best[-1]
        found.append(Curves(space.name, contender, table / space.best_seconds))
    return found


def compare(curves: Sequence[Curves]) -> list[Figures]:
    """A line for each contender on each space."""
    baseline = {c.space: c.scores() for c in curves if c.contender == BASELINE}
    found = []
    for c in curves:
        trials = c.best.shape[1]
        low, middle, high = c.quantiles(0.25, 0.5, 0.75)
        budgets = [n for n in BUDGETS if n <= trials] or [trials]
        scores = c.scores()
        found.append(
            Figures(
                c.space,
                c.contender,
                len(c.best),
                {f"{near - 1:.0%}": c.trials_to(near) for near in NEAR},
                {str(n): (float(low[n - 1]), float(middle[n - 1]), float(high[n - 1])) for n in budgets},
                float(np.exp(np.log(scores).mean())),
                _beats(scores, baseline[c.space]) if c.space in baseline else None,
            )
        )
    return found


def overall(figures: Sequence[Figures]) -> dict[str, float]:
    """Contender -> the geometric mean of its scores over all spaces, the best first."""
    by: dict[str, list[float]] = {}
    for line in figures:
        by.setdefault(line.contender, []).append(line.score)
    means = {name: math.exp(sum(map(math.log, scores)) / len(scores)) for name, scores in by.items()}
    return dict(sorted(means.items(), key=lambda item: item[1]))


def _beats(scores: FloatArray, others: FloatArray) -> float:
    """P(score < other) + P(equal) / 2, over all pairs."""
    less = (scores[:, None] < others[None, :]).mean()
    return float(less + (scores[:, None] == others[None, :]).mean() / 2)


def as_json(figures: Sequence[Figures], curves: Sequence[Curves], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Everything for a file: the figures, and median and quartiles of each curve."""
    bands = []
    for c in curves:
        low, middle, high = (np.round(row, 4).tolist() for row in c.quantiles(0.25, 0.5, 0.75))
        bands.append({"space": c.space, "strategy": c.contender, "q25": low, "median": middle, "q75": high})
    lines = [
        {
            "space": f.space,
            "strategy": f.contender,
            "seeds": f.seeds,
            "trials_to": {k: v if math.isfinite(v) else None for k, v in f.trials_to.items()},
            "after": {k: [round(x, 4) for x in v] for k, v in f.after.items()},
            "score": round(f.score, 4),
            "beats_random": None if f.beats_random is None else round(f.beats_random, 3),
        }
        for f in figures
    ]
    means = {name: round(value, 4) for name, value in overall(figures).items()}
    return {**facts, "overall": means, "figures": lines, "curves": bands}


#: After Okabe and Ito: colours which colour-blind readers can tell apart, without black and yellow.
COLOURS = ("#1f86c9", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8f6ed5", "#a0522d")
GREY = "#8a8a8a"  # random search
DASHES = ("", "6 3", "2 3")

WIDTH, HEIGHT = 400, 250  # of a panel, in pixels
LEFT, RIGHT, TOP, BOTTOM = 58, 18, 30, 42  # margins within it
LINE = 20  # height of a line of the legend
#: The vertical axis ends at most here, in multiples of the best time.
MOST = 3.0

STYLE = """\
svg { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.paper { fill: #ffffff; } text { fill: #24292f; } .soft { fill: #57606a; }
.grid { stroke: #d8dee4; } .axis { stroke: #57606a; }
.line { fill: none; stroke-width: 2; } .band { stroke: none; fill-opacity: 0.16; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117; } text { fill: #e6edf3; } .soft { fill: #9da7b3; }
  .grid { stroke: #30363d; } .axis { stroke: #9da7b3; } .band { fill-opacity: 0.26; }
}"""


def drawing(curves: Sequence[Curves]) -> str:
    """The SVG text: the median over the seeds as a line, the quartiles as a band."""
    spaces = list(dict.fromkeys(c.space for c in curves))
    names = list(dict.fromkeys(c.contender for c in curves))
    columns = min(len(spaces), 3 if len(spaces) > 4 else 2)
    legend = _legend(names, columns * WIDTH)
    head = 34 + LINE * (1 + _legend_places(names, columns * WIDTH)[-1][1])
    width, height = columns * WIDTH, head + math.ceil(len(spaces) / columns) * HEIGHT
    counts = sorted({len(c.best) for c in curves})
    seeds = f"{counts[0]} seeds" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img">',
        f"<title>Best time found after so many trials, {seeds}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text x="16" y="20" class="soft">best time so far / best of the space: median, quartiles of {seeds}</text>',
        legend,
    ]
    for number, space in enumerate(spaces):
        x, y = number % columns * WIDTH, head + number // columns * HEIGHT
        of = [c for c in curves if c.space == space]
        parts.append(f'<g transform="translate({x} {y})">{_panel(space, of, names)}</g>')
    return "\n".join([*parts, "</svg>", ""])


def _look(name: str, names: Sequence[str]) -> tuple[str, str]:
    """Colour and dashes of a contender: the same in all panels."""
    if name == BASELINE:
        return GREY, DASHES[0]
    number = [n for n in names if n != BASELINE].index(name)
    return COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]


def _legend_places(names: Sequence[str], width: int) -> list[tuple[int, int]]:
    places, x, row = [], 16, 0
    for name in names:
        wide = 40 + 7 * len(name)
        if x + wide > width and x > 16:
            x, row = 16, row + 1
        places.append((x, row))
        x += wide
    return places


def _legend(names: Sequence[str], width: int) -> str:
    parts = []
    for name, (x, row) in zip(names, _legend_places(names, width), strict=True):
        colour, dash = _look(name, names)
        y = 40 + row * LINE
        parts.append(
            f'<g class="entry"><path class="line" stroke="{colour}" stroke-dasharray="{dash}" d="M{x} {y - 4}h22"/>'
            f'<text x="{x + 28}" y="{y}">{escape(name)}</text></g>'
        )
    return "\n".join(parts)


def _panel(space: str, curves: Sequence[Curves], names: Sequence[str]) -> str:
    trials = max(c.best.shape[1] for c in curves)
    top = _top(curves)
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at_x(trial: float) -> float:
        return LEFT + wide * (trial - 1) / max(trials - 1, 1)

    def at_y(value: float) -> float:
        return TOP + high * (top - min(value, top)) / (top - 1)

    parts = [f'<text x="{LEFT}" y="18" font-weight="600">{escape(space)}</text>']
    for value in _ticks(1.0, top):
        y = at_y(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}h{wide}"/>')
        parts.append(f'<text class="soft" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.4g}</text>')
    for trial in (1, *range(max(trials // 4, 1), trials + 1, max(trials // 4, 1))):
        x = at_x(trial)
        parts.append(f'<path class="axis" d="M{x:.1f} {TOP + high}v4"/>')
        parts.append(f'<text class="soft" x="{x:.1f}" y="{TOP + high + 17}" text-anchor="middle">{trial}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {TOP + high}h{wide}"/>')
    parts.append(f'<text class="soft" x="{LEFT + wide / 2}" y="{HEIGHT - 8}" text-anchor="middle">trials</text>')
    for c in curves:
        colour, _ = _look(c.contender, names)
        low, _, upper = c.quantiles(0.25, 0.5, 0.75)
        there = _steps(upper, at_x, at_y)
        back = " ".join(reversed(_corners(low, at_x, at_y)))
        parts.append(f'<path class="band" fill="{colour}" d="{there} L{back}Z"/>')
    for c in reversed(curves):  # where lines coincide, the first contender's is seen
        colour, dash = _look(c.contender, names)
        _, middle, _ = c.quantiles(0.25, 0.5, 0.75)
        line = _steps(middle, at_x, at_y)
        label = f"{c.contender}: {middle[-1]:.3f} after {trials} trials"
        look = f'stroke="{colour}" stroke-dasharray="{dash}"'
        parts.append(f'<path class="line" {look} d="{line}"><title>{escape(label)}</title></path>')
    return "\n".join(parts)


def _corners(values: FloatArray, at_x, at_y) -> list[str]:  # type: ignore[no-untyped-def]
    """The corners of a step function: the value holds from its trial to the next change."""
    found = [f"{at_x(1):.1f},{at_y(values[0]):.1f}"]
    for i in (np.flatnonzero(np.diff(values)) + 1).tolist():
        found += [f"{at_x(i + 1):.1f},{at_y(values[i - 1]):.1f}", f"{at_x(i + 1):.1f},{at_y(values[i]):.1f}"]
    return [*found, f"{at_x(len(values)):.1f},{at_y(values[-1]):.1f}"]


def _steps(values: FloatArray, at_x, at_y) -> str:  # type: ignore[no-untyped-def]
    return "M" + " ".join(_corners(values, at_x, at_y))


def _top(curves: Sequence[Curves]) -> float:
    """The end of the vertical axis: a middling contender's best after the first few trials. Curves
    above it run along the edge."""
    early = max(1, min(c.best.shape[1] for c in curves) // 20)
    typical = float(np.median([c.quantiles(0.75)[0, early - 1] for c in curves]))
    return min(MOST, max(1.05, math.ceil(typical * 20) / 20))


def _ticks(low: float, high: float) -> list[float]:
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if (high - low) / s <= 6)
    return [low + i * step for i in range(int((high - low) / step + 1e-6) + 1)]
