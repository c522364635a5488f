"""`autosched report`: what searches did, as one file of HTML that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from autosched import __version__
from autosched.errors import MeasureError, RecordError, VerificationError, clipped, named_file, new_file
from autosched.explaining import compare, explain
from autosched.html import page, schedule, search
from autosched.html.numbers import Search, bests_of_runs, searches_of, workload_of
from autosched.places import write_whole
from autosched.records import Record, read_files
from autosched.report.text import seconds

#: searches that one report shows whole, and bytes that it may have
MOST, MOST_BYTES = 12, 500_000
#: records that are timed in turns with the best
RIVALS = 4


def report_html(
    records: Sequence[Record],
    *,
    title: str = "Searches",
    commands: Sequence[str] = (),
    explained: Path | None = None,
    compared: Path | None = None,
    refresh_s: int = 0,
) -> str:
    """A page about the searches that records are of, those with most trials first.

    commands:  lines to reproduce it
    explained: the folder of these records, to measure what each call of the best schedules is worth: seconds to minutes
    compared:  the same folder, to time the best candidates and the best of each run in turns: some seconds
    refresh_s: seconds after which a browser loads it again

    Raises RecordError where there is nothing to show.
    """
    searches = searches_of(records)
    if not searches:
        raise RecordError("there are no records", asked="report", legal="autosched tune NAME")
    about = f"{len(searches)} {'search' if len(searches) == 1 else 'searches'}, autosched {__version__}"
    parts = [f"<h1>{escape(title)}</h1>", page.paragraph(about, dim=True)]
    if len(searches) > 1:
        parts.append(_index(searches))
    left = MOST_BYTES - 20_000 - sum(map(len, parts))
    for n, one in enumerate(searches[:MOST]):
        body = _section(n, one, explained, compared)
        if len(body) > left:
            parts.append(
                page.paragraph(f"{one.name} is left out: the page would have more than {MOST_BYTES:,} bytes.", dim=True)
            )
            continue
        left -= len(body)
        parts.append(body)
    if commands:
        parts.append("<h2>To reproduce</h2>" + page.code("\n".join(commands)))
    return page.page(title, "\n".join(parts), refresh_s=refresh_s)


def _index(searches: Sequence[Search]) -> str:
    rows = []
    for n, s in enumerate(searches):
        best, default = s.best, s.default
        times = f"{default.seconds / best.seconds:.2f}x" if best is not None and default is not None else ""
        name = f'<a href="#s{n}">{escape(s.name)}</a>' if n < MOST else escape(s.name)
        found = seconds(best.seconds) if best is not None else "-"
        cells = [name, escape(s.task.target), str(len(s.trials)), found, times]
        rows.append("<tr>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
    head = "".join(f"<th>{c}</th>" for c in ("workload", "target", "trials", "best", "speed-up"))
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _section(number: int, one: Search, explained: Path | None, compared: Path | None) -> str:
    w = workload_of(one)
    head = f'<h2 id="s{number}">{escape(one.name)}</h2>'
    where = page.paragraph(f"{one.task.target} on {one.task.device or 'an unnamed device'}", dim=True)
    parts = [head, where, search.summary(one, w), search.convergence(one)]
    parts += [search.roofline(one, w), search.runs_table(one), search.best_table(one)]
    if compared is not None and one.best is not None and w is not None:
        parts.append(_in_turns(one, str(compared)))
    parts.append(schedule.sections(one, w))
    if explained is not None and one.best is not None and w is not None:
        parts.append(page.section("What each call is worth", _worth(one.best.id, str(explained))))
    parts += [search.knob_sections(one), search.failures(one), search.spent(one), search.machine(one)]
    return "".join(parts)


def _worth(record: str, records: str) -> str:
    """What `explain` says, or why it cannot."""
    try:
        return page.code(str(explain(record, records=records)))
    except (MeasureError, RecordError, VerificationError) as error:
        return page.paragraph(clipped(error), dim=True)


def _in_turns(one: Search, records: str) -> str:
    """The best against the next and against the best of each run, timed in turns."""
    assert one.best is not None
    rivals = {r.id: r for r in (*bests_of_runs(one), *one.ranked[1:]) if r.id != one.best.id}
    rows = []
    for r in list(rivals.values())[:RIVALS]:
        names = f"A {one.best.id[:8]}", f"B {r.id[:8]}"
        try:
            found = compare(one.best.id, r.id, records=records)
            rows.append([*names, *map(seconds, found.seconds), found.verdict()])
        except (MeasureError, RecordError, VerificationError) as error:
            rows.append([*names, "", "", str(error)])
    return page.section("Measured in turns", page.table(["", "", "A", "B", ""], rows, right=(2, 3))) if rows else ""


def write_report(
    files: Sequence[Path],
    output: str | Path,
    *,
    replace: bool = False,
    chosen: Callable[[Record], bool] = lambda r: True,
    **options: object,
) -> Path:
    """Write the report on the records of some files; `options` as for `report_html`.

    Raises FileError where a file cannot be read or written, UsageError for one that is there already unless `replace`.
    """
    check_output(output, replace)  # before the work
    records = [r for r in read_files(files).records if chosen(r)]
    return write_page(report_html(records, **options), output, replace)  # type: ignore[arg-type]


def check_output(output: str | Path, replace: bool) -> Path:
    """The path. Raises FileError for one that cannot be, UsageError for one that is there already unless `replace`."""
    return new_file(output, f"report -o {output}", replace)


def write_page(text: str, output: str | Path, replace: bool) -> Path:
    """Write a page, whole or not at all. Raises the errors of `check_output`."""
    to = check_output(output, replace)
    with named_file(f"report -o {output}"):
        write_whole(to, lambda out: out.write(text.encode()))
        mask = os.umask(0)
        os.umask(mask)
        to.chmod(0o666 & ~mask)  # it is for others to read, too
    return to
