"""`explain` and `simplify`: what they say of schedules whose cost is known, and of real ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.errors import MeasureError, RecordError, UsageError, WorkloadError
from autosched.explaining.explanation import in_few_words
from autosched.measure.protocol import MeasureOptions
from autosched.raw.kernel import raw_kernel
from autosched.records import Record, RecordLog, default_path
from autosched.schedule import Schedule, Trace, create_schedule
from autosched.space.workload import Workload

QUICK = MeasureOptions(min_repeat_ms=0.2, builders=1)

SPACE = """
from autosched import te, workload

@workload
def twice(n=64, factor=2):
    a = te.placeholder((n, 32), "int32", name="a")
    b = te.compute((n, 32), lambda y, x: a[y, x] * factor, name="b")
    return a, te.compute((n, 32), lambda y, x: b[y, x] + 1, name="c")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one workload and no records."""
    for name in ("AUTOSCHED_PATH", "AUTOSCHED_RECORDS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "search_spaces").mkdir()
    (tmp_path / "search_spaces" / "twice.py").write_text(SPACE, encoding="utf-8")
    return tmp_path


def twice() -> Workload:
    from autosched.space.loading import find_workload

    return find_workload("twice")()


def scheduled(w: Workload | None = None) -> Schedule:
    """Five calls, and a knob that two of them share."""
    s = create_schedule((w or twice()).outputs)
    lanes = s.define_knob("lanes", [4, 8])
    s["b"].compute_inline()
    s["c"].split("x", factor=lanes)
    s["c"].vectorize("x.inner")
    s["c"].split("y", factor=lanes)
    s["c"].unroll("y.inner")
    s["c"].parallel("y.outer")
    return s


def cost(trace: list[Any], knobs: dict[str, int]) -> float | str:
    """vectorize is worth 3, parallel 1.5, compute_inline cannot be undone, unroll is in the way; a lane 1 is slow."""
    text = Trace.from_json(trace).as_python()
    if "compute_inline" not in text:
        return "correctness: c: 3 of 2048 elements differ"
    seconds = 1e-3 * (1 if "vectorize" in text else 3) * (1 if "parallel" in text else 1.5)
    seconds *= 1.25 if "unroll" in text else 1
    return seconds * (2 if "factor=1)" in text else 1)


def record_of(w: Workload, s: Schedule, knobs: dict[str, int], **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "workload": {"name": w.name, "key": w.key, "params": w.params, "args": w.describe_args(), "sizes": {}},
        "target": "llvm",
        "sketch": "by_hand",
        "trace": s.trace.to_json(),
        "knobs": knobs,
        "status": "ok",
        "samples": (1e-3,),
        "verified": "full",
    }
    return Record(**{**fields, **changes})


def write(*records: Record, kind: str = "llvm") -> Path:
    log = RecordLog(default_path("twice", kind, Path("records")))
    for r in records:
        log.append(r)
    return log.path


# -- what is said of known costs --------------------------------------------------------------------
def test_each_call_is_worth_what_it_costs_to_undo(pretend: Callable[..., list[Any]]) -> None:
    pretend(cost)
    found = autosched.explain(scheduled(), knobs={"lanes": 8})
    by_line = {r.line: r for r in found.rows}
    vectorize = by_line['s["c"].vectorize("x.inner")']
    assert vectorize.ratio == pytest.approx(3)
    assert vectorize.interval == pytest.approx((3, 3))
    assert vectorize.verdict == "keep"
    assert vectorize.seconds == pytest.approx(3 * found.seconds)
    assert by_line['s["c"].parallel("y.outer")'].ratio == pytest.approx(1.5)
    unroll = by_line['s["c"].unroll("y.inner")']
    assert unroll.ratio == pytest.approx(0.8)
    assert unroll.verdict == "in the way"
    inline = by_line['s["b"].compute_inline()']
    assert inline.verdict == "not alone"
    assert inline.why == "wrong result: c: 3 of 2048 elements differ"
    assert math.isinf(inline.ratio)


def test_of_two_ways_the_better_one_counts(pretend: Callable[..., list[Any]]) -> None:
    """y.inner as the whole loses parallel, and keeps nothing else; y.outer keeps it, and loses unroll."""
    pretend(cost)
    found = autosched.explain(scheduled(), knobs={"lanes": 8})
    split = next(r for r in found.rows if r.line == 's["c"].split("y", factor=lanes)')
    assert split.ratio == pytest.approx(0.8)
    assert split.with_it == ('s["c"].unroll("y.inner")',)


def test_a_knob_that_calls_share_is_set_to_1(pretend: Callable[..., list[Any]]) -> None:
    pretend(cost)
    row = next(r for r in autosched.explain(scheduled(), knobs={"lanes": 8}).rows if r.primitive == "knob")
    assert (row.line, row.change, row.verdict) == ("lanes = 8", "1 instead", "keep")
    assert row.ratio == pytest.approx(2)


def test_rows_are_sorted_and_those_that_cannot_be_undone_come_last(pretend: Callable[..., list[Any]]) -> None:
    pretend(cost)
    rows = autosched.explain(scheduled(), knobs={"lanes": 8}).rows
    assert [r.verdict for r in rows][-1] == "not alone"
    ratios = [r.ratio for r in rows[:-1]]
    assert ratios == sorted(ratios, reverse=True)


def test_the_text_says_it_all(pretend: Callable[..., list[Any]]) -> None:
    pretend(cost)
    text = str(autosched.explain(scheduled(), knobs={"lanes": 8}))
    assert "the schedule at lanes=8: 1.2" in text
    assert "3.00x  3.00 - 3.00  3." in text
    assert 'keep        s["c"].vectorize("x.inner")' in text
    assert 's["c"].split("y", factor=lanes)  # and with it unroll' in text
    assert 'cannot be undone alone:\n  s["b"].compute_inline()\n      wrong result: c: 3 of' in text
    assert text.endswith("vectorize 3.00x, parallel 1.50x; 3 of 5 calls can go")


def test_as_a_table_and_as_data(pretend: Callable[..., list[Any]]) -> None:
    pretend(cost)
    found = autosched.explain(scheduled(), knobs={"lanes": 8})
    frame = found.to_frame()
    assert len(frame) == len(found.rows) == 7
    assert list(frame.columns)[:5] == ["line", "primitive", "change", "verdict", "ratio"]
    data = found.to_json()
    assert data["rows"][0]["interval"] == pytest.approx([3, 3])
    assert data["standing"] is None


def test_what_is_the_same_code_is_exactly_as_fast(pretend: Callable[..., list[Any]]) -> None:
    pretend(lambda trace, knobs: 1e-3)
    rows = autosched.explain(scheduled(), knobs={"lanes": 8}).rows
    assert {(r.ratio, r.interval, r.why, r.verdict) for r in rows} == {(1.0, (1.0, 1.0), "the same code", "can go")}


def test_what_is_slower_beyond_doubt_is_measured_once(pretend: Callable[..., list[Any]]) -> None:
    pretend(lambda trace, knobs: 1.0 if "unroll" in str(trace) else 50.0)
    row = next(r for r in autosched.explain(scheduled(), knobs={"lanes": 8}).rows if r.primitive == "unroll")
    assert (row.ratio, row.interval, row.verdict) == (50, (0, math.inf), "keep")


def test_a_schedule_that_does_not_work_here(pretend: Callable[..., list[Any]]) -> None:
    pretend(lambda trace, knobs: "runtime: no such device memory")
    with pytest.raises(MeasureError, match="it does not work here \\(runtime\\): no such device memory"):
        autosched.explain(scheduled(), knobs={"lanes": 8})


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        ("constraints", "c.split(y, factor=8): 8 does not divide 63; 7 or 9", "8 does not divide 63"),
        ("timeout", "no answer in 2.0 s while it was timed", "takes too long: no answer in 2.0 s while it was timed"),
        ("compile", "it went wrong\nin many lines", "does not compile: it went wrong"),
        ("new", "something", "new: something"),
    ],
)
def test_reasons_in_few_words(status: str, error: str, words: str) -> None:
    assert in_few_words(status, error) == words


# -- simplify ------------------------------------------------------------------------------------------
def test_what_is_worth_nothing_goes(pretend: Callable[..., list[Any]]) -> None:
    pretend(cost)
    found = autosched.simplify(scheduled(), knobs={"lanes": 8})
    assert found.schedule_python.splitlines()[1:] == [
        '    s["b"].compute_inline()',
        '    s["c"].vectorize("x")',
        '    s["c"].parallel("y")',
    ]
    assert found.ratio == pytest.approx(0.8)
    assert [line.split(".")[1].split("(")[0] for line in found.removed] == ["split", "split", "unroll"]
    assert found.record is None
    assert "without 3 calls: 1.01 ms, 0.80 times the time (0.80 - 0.80)" in str(found)


def test_calls_that_can_go_one_by_one_may_not_go_together(pretend: Callable[..., list[Any]]) -> None:
    """Either unroll or parallel will do."""

    def either(trace: list[Any], knobs: dict[str, int]) -> float:
        kinds = {i[0] for i in trace}
        return 1e-3 * (1 + len(kinds) / 1e4 if {"unroll", "parallel"} & kinds else 2 + len(kinds) / 1e4)

    pretend(either)
    found = autosched.simplify(scheduled(), knobs={"lanes": 8})
    kinds = {i[0] for i in found.trace}
    assert len({"unroll", "parallel"} & kinds) == 1
    assert found.ratio == pytest.approx(1, abs=0.01)


def test_small_losses_add_up(pretend: Callable[..., list[Any]]) -> None:
    """Each call is worth 1.5 %: one can go, and the second would be too much."""
    pretend(lambda trace, knobs: 1e-3 * 1.015 ** -sum(i[0] != "define_knob" for i in trace))
    found = autosched.simplify(scheduled(), knobs={"lanes": 8})
    assert len(found.removed) == 1
    assert found.ratio == pytest.approx(1.015)


def test_nothing_can_go(pretend: Callable[..., list[Any]]) -> None:
    pretend(lambda trace, knobs: 2.0 ** -len(trace))
    found = autosched.simplify(scheduled(), knobs={"lanes": 8})
    assert found.removed == ()
    assert "nothing can go" in str(found)
    assert found.trace == scheduled().trace.to_json()


def test_the_shortest_is_written_as_a_record(pretend: Callable[..., list[Any]]) -> None:
    pretend(cost)
    w = twice()
    write(record_of(w, scheduled(w), {"lanes": 8}))
    found = autosched.simplify("twice", write=True)
    assert found.record is not None
    assert found.written == Path("records/twice.llvm.jsonl")
    old, new = RecordLog(found.written).read().records
    assert (new.strategy, new.sketch, new.verified, new.id) == (
        "simplify",
        "by_hand simplified",
        "full",
        found.record.id,
    )
    assert new.trace == found.trace
    assert new.extra["simplified"]["from"] == old.id
    assert len(new.samples) == 31


def test_it_is_refused_before_any_work(pretend: Callable[..., list[Any]]) -> None:
    pretend(cost)
    with pytest.raises(UsageError, match="a schedule of no record has no workload"):
        autosched.simplify(scheduled(), knobs={"lanes": 8}, write=True)


# -- which record --------------------------------------------------------------------------------------
def test_records_by_place(pretend: Callable[..., list[Any]]) -> None:
    pretend(cost)
    w = twice()
    slow, fast = (record_of(w, scheduled(w), {"lanes": n}, samples=(t,)) for n, t in ((4, 2e-3), (8, 1e-3)))
    path = write(slow, fast)
    assert slow.id in autosched.explain(f"{path}:1").name
    assert fast.id in autosched.explain(str(path)).name
    assert fast.id in autosched.explain(path).name
    assert fast.id in autosched.explain("twice").name
    assert fast.id in autosched.explain(w).name
    assert autosched.explain(slow).name == f"record {slow.id}, by_hand at lanes=4"


def test_a_file_of_several_workloads_has_no_best(pretend: Callable[..., list[Any]]) -> None:
    from autosched.space.loading import find_workload

    pretend(cost)
    w, other = twice(), find_workload("twice")(n=128)
    path = write(*(record_of(x, scheduled(x), {"lanes": 8}) for x in (w, other)))
    with pytest.raises(RecordError) as raised:
        autosched.explain(str(path))
    assert "it has records of 2 workloads, targets or devices" in str(raised.value)
    assert f"{path}:2  twice(factor=2, n=128) for llvm" in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"trace": [["vectorize", "c", "nowhere"]], "knobs": {}}, "it does not replay any more: "),
        ({"status": "timeout", "samples": ()}, "it did not work: timeout"),
        ({"target": "opencl"}, "it is for opencl"),
    ],
)
def test_records_that_cannot_be_explained(changes: dict[str, Any], why: str) -> None:
    w = twice()
    with pytest.raises(RecordError, match=why):
        autosched.explain(replace(record_of(w, scheduled(w), {"lanes": 8}), **changes), "llvm")


def test_a_workload_that_has_changed() -> None:
    w = twice()
    r = record_of(w, scheduled(w), {"lanes": 8})
    with pytest.raises(RecordError, match="computes something else by now"):
        autosched.explain(replace(r, workload={**r.workload, "key": "another"}))


def test_no_record() -> None:
    with pytest.raises(
        RecordError, match="no record of it works on llvm\n  python -m autosched tune twice --target llvm$"
    ):
        autosched.explain("twice")
    predicted = replace(record_of(twice(), scheduled(), {"lanes": 8}), status="predicted", samples=())
    folder = str(write(predicted).parent)
    with pytest.raises(RecordError, match=rf"what a model chose was not measured\n  .* --records {folder}$"):
        autosched.explain("twice", records=folder)
    with pytest.raises(WorkloadError, match="no such workload"):
        autosched.explain("thrice")
    with pytest.raises(RecordError, match="there is no such line"):
        autosched.explain(f"{write(record_of(twice(), scheduled(), {'lanes': 8}))}:7")
    torn = write(record_of(twice(), scheduled(), {"lanes": 8}))
    torn.write_bytes(torn.read_bytes() + b"{}\n")
    last = len(torn.read_bytes().splitlines())
    with pytest.raises(RecordError, match=f"jsonl:{last}: does not end in a checksum"):
        autosched.explain(f"{torn}:{last}")
    with pytest.raises(RecordError, match="cannot read"):
        autosched.explain("nowhere.jsonl")


def test_arguments_that_do_not_go_together() -> None:
    with pytest.raises(UsageError, match="a record has its knobs"):
        autosched.explain("twice", knobs={"lanes": 8})
    with pytest.raises(UsageError, match="knob lanes has no value"):
        autosched.explain(scheduled(), knobs={"lanes": 5})
    with pytest.raises(UsageError, match="is nothing to explain"):
        autosched.explain(7)  # type: ignore[arg-type]


# -- kernels without a schedule ----------------------------------------------------------------------------
SOURCE = "void fill(int *out) { for (int i = 0; i < 64; ++i) out[i] = UNROLL * OTHER; }"


@raw_kernel(lang="C", tune_params={"UNROLL": [1, 2, 4], "OTHER": [1, 2]})
def fill() -> dict[str, Any]:
    return {"kernel_source": SOURCE, "problem_size": 64, "arguments": [np.zeros(64, np.int32)]}


def test_of_a_kernel_each_parameter_is_set_to_its_default(pretend: Callable[..., list[Any]]) -> None:
    pretend(lambda trace, knobs: 4e-3 / knobs["UNROLL"])
    kernel = fill()
    target = autosched.Target.parse("c")
    trace, _ = kernel.defaults(target, kernel.search_space(target, {}))
    r = Record(
        workload={"name": "fill", "key": kernel.key, "params": {}, "args": [], "sizes": {}},
        target="c", sketch="fill", trace=trace, knobs={"UNROLL": 4, "OTHER": 1}, status="ok", samples=(1.0,), verified="full",
    )  # fmt: skip
    path = default_path("fill", "c", Path("records"))
    RecordLog(path).append(r)
    (row,) = autosched.explain(kernel).rows
    assert (row.line, row.change, row.verdict) == ("#define UNROLL 4", "1 instead", "keep")
    assert row.ratio == pytest.approx(4)
    with pytest.raises(UsageError, match="which has no schedule"):
        autosched.simplify(kernel)


# -- for real ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", ["llvm -threads=1", "c -threads=1"])
def test_a_real_schedule(target: str) -> None:
    """Every call is either undone and verified, or says why not."""
    found = autosched.explain(scheduled(), target, knobs={"lanes": 8}, rounds=6, measure=QUICK)
    assert {r.primitive for r in found.rows} == {"compute_inline", "split", "vectorize", "unroll", "parallel", "knob"}
    for r in found.rows:
        assert (r.verdict == "not alone") == bool(r.why and r.why != "the same code")
        assert r.verdict == "not alone" or r.seconds > 0


def test_a_real_kernel() -> None:
    """What a device does not take says so."""
    w = twice()
    s = create_schedule(w.outputs)
    s["b"].compute_inline()
    s["c"].bind("y", "blockIdx.x")
    s["c"].bind("x", "threadIdx.x")
    found = autosched.explain(s, "opencl", rounds=6, measure=QUICK)
    assert {r.line for r in found.rows} == {i.as_python() for i in s.trace}
    assert all(r.why or r.seconds > 0 for r in found.rows)


def test_a_real_simplification() -> None:
    """reorder of loops that are in that order already is the same code."""
    s = create_schedule(twice().outputs)
    s["b"].compute_inline()
    s["c"].reorder("y", "x")
    s["c"].vectorize("x")
    found = autosched.simplify(s, "llvm -threads=1", rounds=6, measure=QUICK)
    assert 's["c"].reorder("y", "x")' in found.removed
    assert found.seconds == pytest.approx(found.ratio * found.explanation.seconds)  # one machine load for both
