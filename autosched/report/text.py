"""Numbers and tables as text that a person reads. ASCII only, so that any terminal can show it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autosched.tuning.budget import Expectation

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def seconds(value: float) -> str:
    """A measured time with three digits and its unit: `2.40 ms`. A dash where there is none."""
    if not math.isfinite(value):
        return "-"
    if value <= 0:
        return "0 s"
    scaled = [(float(f"{value / scale:.3g}"), unit) for scale, unit in _UNITS]
    rounded, unit = next((one for one in scaled if one[0] >= 1), scaled[-1])
    decimals = 2 if rounded < 10 else 1 if rounded < 100 else 0
    return f"{rounded:,.{decimals}f} {unit}"


def duration(value: float) -> str:
    """A span of waiting: `1.2 s`, `58 s`, `2 min 05 s`, `1 h 03 min`. A dash where it is not known."""
    if not math.isfinite(value):
        return "-"
    value = max(value, 0.0)
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = round(value / 60)
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def more(e: Expectation) -> str:
    """`another 2 min 05 s (310 trials): 1.2 % faster expected (0 to 4 %)`."""
    gain, most = (f"{100 * x:.1f}".removesuffix(".0") if x < 0.0195 else f"{100 * x:.0f}" for x in (e.gain, e.most))
    return f"another {duration(e.seconds)} ({plural(e.trials, 'trial')}): {gain} % faster expected (0 to {most} %)"


def ratio(value: float) -> str:
    """A speed-up: `5.83x`. A dash where it is not known."""
    return f"{value:.2f}x" if math.isfinite(value) and value > 0 else "-"


def count(value: int) -> str:
    """`16,385`; above a billion only the magnitude: `1.2e+15`."""
    return f"{value:,}" if abs(value) < 10**9 else f"{value:.1e}"


def plural(value: int, noun: str) -> str:
    """`1 trial`, `2 trials`, `3 sketches`."""
    ending = "" if value == 1 else "es" if noun.endswith(("ch", "s", "x")) else "s"
    return f"{count(value)} {noun}{ending}"


def valid_of(valid: int | None, points: int) -> str:
    """`53 valid of 77 points`; without the number of valid ones where it is not known."""
    return plural(points, "point") if valid is None else f"{count(valid)} valid of {plural(points, 'point')}"


def knobs(values: Mapping[str, int]) -> str:
    """`ty=8 tx=64`, in the order given."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def finite(value: Any) -> Any:
    """The data as JSON can hold it: None for NaN and infinities, text as keys, lists for tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    return [finite(v) for v in value] if isinstance(value, (list, tuple)) else value


def census(failures: Mapping[str, int]) -> str:
    """`compile 9, timeout 3`: the most frequent first, zero counts left out."""
    ordered = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{status} {count(n)}" for status, n in ordered if n)


def table(rows: Sequence[Sequence[str]], header: Sequence[str], right: Sequence[int] = ()) -> list[str]:
    """Lines of a table with aligned columns; the columns in `right` are aligned to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        aligned = (c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        return "  ".join(aligned).rstrip()

    return [line(row) for row in cells]
