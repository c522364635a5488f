"""A whole page in one file: styles for light and dark, for paper and phones; tables, code, sections."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from autosched.html.charts import STYLE as CHARTS
from autosched.html.charts import colours
from autosched.html.nests import STYLE as NESTS

_STYLE = """
*{box-sizing:border-box}
body{margin:0 auto;padding:24px 16px 64px;max-width:920px;background:var(--bg);color:var(--fg);
font:15px/1.55 system-ui,sans-serif}
h1{font-size:24px;margin:0 0 4px}h2{font-size:19px;margin:36px 0 8px;border-top:1px solid var(--rule);padding-top:20px}
h3{font-size:15px;margin:22px 0 6px}p{margin:6px 0}.dim{color:var(--dim)}a{color:var(--c0)}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13.5px}
th,td{padding:3px 12px 3px 0;text-align:left;border-bottom:1px solid var(--rule);white-space:nowrap;vertical-align:top}
th{color:var(--dim);font-weight:500}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
pre{background:var(--code);padding:12px;border-radius:6px;overflow:auto;max-height:30em;
font:12.5px/1.5 ui-monospace,monospace;margin:8px 0}
pre mark{background:none;color:var(--c1);font-weight:600}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:10px;margin:14px 0}
.facts div{background:var(--code);border-radius:6px;padding:10px 12px}.facts b{display:block;font-size:20px}
.facts span{color:var(--dim);font-size:12.5px}
details.fold>summary{cursor:pointer;color:var(--c0);margin:6px 0}
@media print{body{max-width:none}details{break-inside:avoid}}
"""


def page(title: str, body: str, *, refresh_s: int = 0) -> str:
    """A page; with `refresh_s` the browser loads it again and again."""
    refresh = f'<meta http-equiv="refresh" content="{refresh_s}">' if refresh_s else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width,initial-scale=1">{refresh}'
        f"<title>{escape(title)}</title><style>{colours(':root')}{_STYLE}{CHARTS}{NESTS}</style></head>"
        f"<body>\n{body}\n</body></html>\n"
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """A table of texts; the columns `right` are numbers."""

    def cells(tag: str, row: Sequence[str]) -> str:
        numbers = [' class="n"' if k in right else "" for k in range(len(row))]
        return "".join(f"<{tag}{n}>{escape(x)}</{tag}>" for n, x in zip(numbers, row, strict=True))

    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{cells("th", header)}</tr>{lines}</table></div>'


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """Numbers that stand out, each with what it is."""
    return (
        f'<div class="facts">{"".join(f"<div><b>{escape(a)}</b><span>{escape(b)}</span></div>" for a, b in rows)}</div>'
    )


def code(text: str) -> str:
    """A program; lines that begin with `>` are marked."""
    lines = [f"<mark>{escape(x)}</mark>" if x.startswith(">") else escape(x) for x in text.rstrip("\n").split("\n")]
    return f"<pre>{chr(10).join(lines)}</pre>"


def fold(summary: str, inside: str) -> str:
    """What is not seen at first."""
    return f'<details class="fold"><summary>{escape(summary)}</summary>{inside}</details>'


def section(title: str, *parts: str) -> str:
    """A section of those parts that are not empty; nothing without any."""
    inside = "".join(p for p in parts if p)
    return f"<h3>{escape(title)}</h3>{inside}" if inside else ""


def paragraph(text: str, *, dim: bool = False) -> str:
    return f"<p{' class=dim' if dim else ''}>{escape(text)}</p>" if text else ""
