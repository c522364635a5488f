"""Reports: what is on the page, what a page may not do, what is refused."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

import autosched
from autosched import te
from autosched.cli import main
from autosched.errors import RecordError
from autosched.explaining import Comparison
from autosched.html.charts import Axis, Cells, Chart, bars, heat, parallel
from autosched.html.nests import nest_html
from autosched.html.numbers import bests_of_runs, importance, searches_of
from autosched.html.report import MOST_BYTES, report_html
from autosched.html.search import against
from autosched.ir.stmt import Function
from autosched.measure.stats import differ
from autosched.records import Record
from autosched.schedule import create_schedule

VOID = {"meta", "br", "path", "circle", "rect"}


class Checker(HTMLParser):
    """Raises AssertionError for tags that do not match, and for anything that is loaded from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            assert name not in ("src", "onclick", "onload"), f"{tag} {name}"
            assert name != "href" or (value or "").startswith("#")
        assert tag not in ("script", "link", "iframe", "img")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(text: str) -> str:
    """The text of a page that is well-formed and stands alone."""
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert "url(" not in text
    assert "@import" not in text
    return "".join(checker.text)


def record(n: int, **changes) -> Record:
    """A trial of a made-up search: the time grows with the distance of `rows` from 4."""
    rows, lanes = (1, 2, 4, 8)[n % 4], (8, 16)[n // 4 % 2]
    t = 1e-4 * (1 + abs(math.log2(rows / 4))) * (1.05 if lanes == 8 else 1.0) * (1 + n / 1000)
    made = {
        "workload": {"name": "made_up", "key": "k" * 16, "params": {}, "args": [], "sizes": {"n": 64}},
        "target": "llvm", "sketch": "rows<&>", "trace": [["split", "y", "i", {"factor": ["knob", "rows"]}]],
        "knobs": {"rows": rows, "lanes": lanes, "same": 1}, "status": "ok", "samples": (t, t * 1.01, t * 0.99, t, t),
        "device": {"name": "a <device>"}, "strategy": "bandit", "trial": n, "run": "r", "id": f"{n:016x}",
        "at": f"2026-01-01T00:00:{n % 60:02d}+00:00", "verified": "full",
    }  # fmt: skip
    return Record(**(made | changes))


@pytest.fixture
def records() -> list[Record]:
    good = [record(n) for n in range(32)]
    bad = [record(32 + n, status="compile", samples=(), error="<b>no</b>\nsecond line") for n in range(3)]
    return [record(99, sketch="default", knobs={}, trace=[], samples=(4e-4,) * 5), *good, *bad]


def test_a_page_stands_alone_and_says_everything(records) -> None:
    page = report_html(records, title="A & B", commands=["autosched tune made_up"])
    text = read(page)
    assert len(page) < 200_000
    for expected in (
        "A & B", "made_up at n=64", "llvm on a <device>", "36trials, 33 of them ran", "100 us", "400 us", "Convergence",
        "best so far", "rows<&>", "compile", "<b>no</b> second line", "Which knobs matter", "autosched tune made_up",
        "no workload",
    ):  # fmt: skip
        assert expected.lower() in text.lower(), expected


def test_runs_and_candidates_are_judged_as_compare_judges() -> None:
    """Of one play-off, apart, with too few samples."""
    fast, slow = (1e-4, 1.01e-4, 0.99e-4, 1e-4, 1e-4, 1.02e-4, 1e-4), (2e-4, 2.01e-4, 2.02e-4, 2e-4, 2e-4, 2e-4, 2.1e-4)
    even = tuple(reversed(fast))
    made = [
        record(0, run="first", samples=fast, extra={"playoff": {"run": "p", "winner": True}}),
        record(1, run="first", samples=even, extra={"playoff": {"run": "p", "winner": False}}),
        record(2, run="second", samples=slow, extra={"playoff": {"run": "p", "winner": False}}),
        record(3, run="third", samples=slow[:3]),
        record(4, run="third", samples=slow[:2]),
    ]
    cells = [against(made[0], r) for r in made]
    assert cells == [
        "",
        "tie: 1.00x (0.99 to 1.01)",
        "slower: 2.00x (1.96 to 2.10)",
        "too few samples: 2.01x (1.96 to 2.04), apart",
        "too few samples: 2.00x (1.96 to 2.03), apart",
    ]
    (search,) = searches_of(made)
    assert [r.run for r in bests_of_runs(search)] == ["first", "second", "third"]
    text = read(report_html(made))
    assert "3 runs" in text and "against the best run" in text and "Really different?" in text
    assert all(text.count(cell) for cell in cells)
    assert "runs" not in read(report_html(made[:2])).partition("Best")[0]
    judged = differ(made[0].samples, made[2].samples)
    said = Comparison(
        "w", "llvm", "d", {}, ("x", "y"), (1e-4, 2e-4), judged.ratio, judged.interval, judged.faster, False, 7
    )
    assert said.verdict() == str(judged) and str(judged).startswith("A is faster: B takes 2 times")


def test_limits_of_a_time_are_those_of_the_samples_that_it_is_the_median_of() -> None:
    """On a busy machine most samples waited for a core; the limits were beside the time."""
    calm, waited = (1e-4, 1.01e-4, 1.02e-4, 1e-4, 1e-4, 0.99e-4), (5e-4,) * 9
    assert "99.0 us to 102 us1.00x" in read(report_html([record(0, samples=(*waited, *calm))]))


def test_knobs_are_ranked_by_what_they_explain(records) -> None:
    ran = [r for r in records if r.ok and r.knobs]
    shares = importance(["rows", "lanes"], ran)
    assert shares["rows"] > 0.8 > 0.2 > shares["lanes"]


def test_searches_are_told_apart(records) -> None:
    other = [record(n, workload={**record(0).workload, "sizes": {"n": 128}}) for n in range(3)]
    assert [(s.name, len(s.trials)) for s in searches_of([*other, *records])] == [
        ("made_up at n=64", 36),
        ("made_up at n=128", 3),
    ]
    text = read(report_html([*records, *other]))
    assert "2 searches" in text


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"trace": [["define_knob", "rows", [[1]]]]}, "is not a define_knob"),
        ({"trace": [["split", "b", "i", {"factor": ["knob", "rows"]}]], "knobs": {}}, "knob rows has no value"),
    ],
)
def test_a_record_with_an_odd_trace_is_passed_over(odd: dict[str, object], why: str, records) -> None:
    with pytest.warns(RuntimeWarning, match=f"record 0*abc is passed over: .*{why}"):
        text = report_html([*records, record(0, id=f"{0xABC:016x}", samples=(1e-9,) * 3, **odd)])
    assert "1.00 ns" not in read(text)


def test_what_explain_refuses_is_said_on_the_page(records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.html.report.workload_of", lambda one: object())
    monkeypatch.setattr("autosched.html.schedule.sections", lambda one, w: "")
    monkeypatch.setattr("autosched.html.search.limits_of", lambda one, w: [])
    text = read(report_html(records, explained=tmp_path))
    assert "What each call is worth" in text and "no record has an id" in text


def test_many_searches_stay_within_the_limit(records) -> None:
    many = [
        record(n, workload={**record(0).workload, "sizes": {"n": k}}, sketch="s" * 4000, id=f"{k * 100 + n:016x}")
        for k in range(12)
        for n in range(32)
    ]
    page = report_html(many)
    assert len(page) <= MOST_BYTES
    assert "is left out" in read(page)


def test_without_records_and_without_a_trial_that_ran(records) -> None:
    with pytest.raises(RecordError, match="no records"):
        report_html([])
    read(report_html([r for r in records if not r.ok]))
    read(report_html(records[:1]))


def test_the_command_on_a_real_search(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["tune", "box_blur", "--target", "llvm", "--size", "height=32", "--size", "width=32", "--trials", "4",
                 "--records", "logs and more"]) == 0  # fmt: skip
    capsys.readouterr()
    words = ["report", "box_blur", "--records", "logs and more", "-o", "blur ü.html"]
    assert main(words) == 0
    page = Path("blur ü.html").read_text()
    text = read(page)
    assert len(page) <= MOST_BYTES
    for expected in (
        "def schedule(s):",
        "Its loops, call by call",
        "produce",
        "Hot loop",
        "vector arithmetic",
    ):
        assert expected in text, expected
    assert main(words) == 2
    assert "the file is there already" in capsys.readouterr().err
    assert "Measured in turns" not in text
    assert main([*words, "--force", "--json", "--target", "llvm", "--compare"]) == 0
    measured = read(Path("blur ü.html").read_text()).partition("Measured in turns")[2].partition("The best schedule")[0]
    assert "B takes" in measured or "same code" in measured
    assert json.loads(capsys.readouterr().out)["bytes"] == Path("blur ü.html").stat().st_size
    assert main([*words, "--force", "--target", "opencl"]) == 4
    assert main(["report", "box_blurr", "-o", "x.html"]) == 4


@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_shows_the_charts(records, tmp_path) -> None:
    file = tmp_path / "page.html"
    file.write_text(report_html(records), encoding="utf-8")
    out = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=100,
    ).stdout  # fmt: skip
    assert out.count("<svg") == report_html(records).count("<svg")


# -- charts --------------------------------------------------------------------------------------------
def test_ticks_are_round_and_inside() -> None:
    assert Axis("t", 0.0, 10.0).ticks() == [0, 2, 4, 6, 8, 10]
    assert Axis("t", 1e-6, 1e-2, True).ticks() == pytest.approx([1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
    for low, high, is_log in ((3.0, 3.2, False), (2e-4, 2.3e-4, True), (-5.0, 1e6, False), (0.9, 40.0, True)):
        ticks = Axis("t", low, high, is_log).ticks()
        assert 2 <= len(ticks) <= 12
        assert all(low - 1e-12 <= t <= high * (1 + 1e-12) for t in ticks)


def test_points_lie_where_their_values_say() -> None:
    chart = Chart(Axis("x", 0, 10), Axis("y", 1, 100, True))
    (left, bottom), (right, top) = chart.place(0, 1), chart.place(10, 100)
    assert chart.place(5, 10) == pytest.approx(((left + right) / 2, (bottom + top) / 2))
    chart.curve([(0, 100), (5, 10), (10, 1)], steps=True, name="<best>")
    chart.level(1000, "out of sight")
    svg = chart.svg("a < b")
    assert "out of sight" not in svg
    assert "&lt;best&gt;" in svg
    read(svg)


def test_charts_without_anything() -> None:
    assert heat(Cells(("a", ["1"]), ("b", ["1"]), [[None]]), str, "") == ""
    assert parallel(["one"], [([0.5], 1.0, "")], "") == ""
    read(bars([], ""))
    assert Axis.of("t", [math.inf, math.nan]).low < Axis.of("t", []).high
    read(Chart(Axis.of("x", []), Axis.of("y", [1.0, 1.0])).svg(""))


# -- loops and notebooks -------------------------------------------------------------------------------
def test_every_statement_has_a_picture() -> None:
    a = te.placeholder((10, 6), name="a<b")
    b = te.compute((10, 6), lambda i, j: te.if_then_else(i + j < 7, a[i, j], 0.0), name="b")
    c = te.compute((10, 6), lambda i, j: b[i, j] * 2, name="c")
    s = create_schedule(c)
    outer, _ = s[c].split("i", factor=4)
    s[b].compute_at(s[c], outer)
    s[c].parallel(outer)
    s[c].vectorize("j")
    f = autosched.lower(s, [a, c]).structure.after("simplify", {})
    assert isinstance(f, Function)
    text = read(nest_html(f))
    assert "a<b: float32[10, 6]" in text
    for expected in ("parallel", "vectorized", "allocate b", "produce"):
        assert expected in text


def test_notebooks_get_html(tmp_path) -> None:
    from autosched.html import notebook

    notebook.install()
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] * 2, name="b")
    s = create_schedule(b)
    s[b].vectorize("i")
    result = autosched.tune(
        "box_blur", "llvm", trials=3, sizes={"height": 16, "width": 16}, records=tmp_path, progress=False
    )
    space = autosched.search_space("box_blur", "llvm")
    shown = [x._repr_html_() for x in (s, autosched.lower(s, [a, b]), autosched.build(s, "llvm"), result, space)]
    for html, expected in zip(
        shown, ('s["b"].vectorize("i")', "vectorized", "hand-made", "Convergence", "strips"), strict=True
    ):
        assert expected in read(html)
    open_knobs = create_schedule(b)
    open_knobs[b].split("i", factor=open_knobs.define_knob("width", [2, 4]))
    assert "width" in read(open_knobs._repr_html_())
