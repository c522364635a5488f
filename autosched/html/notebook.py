"""What notebooks show: `_repr_html_` of schedules, loops, modules, results, spaces."""

from __future__ import annotations

from html import escape
from typing import Any

from autosched.errors import AutoschedError
from autosched.html import page
from autosched.html.charts import STYLE as CHARTS
from autosched.html.charts import colours
from autosched.html.nests import nest_html
from autosched.html.numbers import searches_of
from autosched.html.search import convergence
from autosched.ir.attached import attach
from autosched.ir.stmt import Function
from autosched.lowering.pipeline import Lowered, lower
from autosched.records import Record
from autosched.report.text import seconds, valid_of
from autosched.runtime.module import Module
from autosched.schedule.schedule import Schedule
from autosched.space.space import SearchSpace
from autosched.tuning.events import TuneResult

_STYLE = f"""<style>{colours(".as")}{CHARTS}
.as table{{border-collapse:collapse;font-size:13px}}.as td,.as th{{text-align:left!important;padding:2px 10px 2px 0}}
.as pre{{max-height:32em;overflow:auto}}.as summary{{cursor:pointer}}</style>"""


def _box(*parts: str) -> str:
    return f'{_STYLE}<div class="as">{"".join(parts)}</div>'


def _schedule(s: Schedule) -> str:
    """The loops that it stands for, and its calls."""
    calls = page.fold("calls", page.code(s.trace.as_python() or "# none"))
    try:
        return _box(nest_html(lower(s, s.arguments).structure.after("simplify", {})), calls)
    except AutoschedError as error:  # knobs without values, or calls that miss their next
        return _box(page.paragraph(f"no loops: {error}"), calls)


def _lowered(lowered: Lowered) -> str:
    return _box(nest_html(lowered.structure.after("simplify", {})), page.fold("text", page.code(str(lowered))))


def _function(f: Function) -> str:
    return _box(nest_html(f))


def _module(module: Module) -> str:
    """Signature, provenance, source."""
    rows = [[k, str(v)] for k, v in module.provenance.items() if v not in (None, "", {}, [])]
    parts = [page.paragraph(str(module.signature)), page.table(["", ""], rows) if rows else ""]
    for kind in ("s", "c", "cl", "cu"):
        try:
            parts.append(page.fold(kind, page.code(module.get_source(kind))))
        except AutoschedError:
            continue
    return _box(*parts)


def _result(result: TuneResult) -> str:
    """Times, the schedule, and where the records are."""
    low, high = result.interval
    rows = [
        ["default schedule", seconds(result.default_seconds)],
        ["best", f"{seconds(result.seconds)}, {result.speedup:.2f} times as fast ({low:.2f} to {high:.2f})"],
        ["trials", f"{result.trials} in {result.elapsed_s:.0f} s"],
        ["records", str(result.log)],
    ]
    curves = "".join(convergence(s) for s in searches_of(_records(result)))
    schedule = page.fold("schedule", page.code(result.schedule_python))
    return _box(f"<b>{escape(result.workload)}</b>", page.table(["", ""], rows), curves, schedule)


def _records(result: TuneResult) -> list[Record]:
    """What the log has of the task by now; nothing where it is gone."""
    try:
        return result.recorded()
    except AutoschedError:
        return []


def _space(space: SearchSpace) -> str:
    rows = [[s.name, valid_of(None, s.size)] for s in space.sketches[:40]]
    return _box(page.table(["sketch", "points"], rows))


def install() -> None:
    """Give the classes their methods."""
    found: dict[type, Any] = {
        Schedule: _schedule, Lowered: _lowered, Function: _function, Module: _module, TuneResult: _result,
        SearchSpace: _space,
    }  # fmt: skip
    for cls, method in found.items():
        attach(cls, _repr_html_=method)
