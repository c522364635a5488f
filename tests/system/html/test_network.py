"""A model as a picture: a row for each call, lengths by time, lanes for what is read further down."""

from __future__ import annotations

import re

import pytest
from test_report import read

from autosched.html.network import LANES, WIDTH, Call, Network, _lanes, model_html, picture


def call(name: str, t: float, *reads: int, origin: str = "predicted") -> Call:
    return Call(name, f"node <{name}>", t, origin, "7% of L2", "float32[1, 8]", reads)


@pytest.fixture
def network() -> Network:
    calls = [
        call("conv", 4e-3, -1),
        call("pool", 1e-3, 0),
        call("conv", 2e-3, 1, origin="record"),
        call("add", 1e-3, 2, 0),
    ]
    return Network(["data: float32[1, 8]"], calls, [("out: float32[1, 8]", 3)])


def test_bars_are_as_long_as_calls_take(network) -> None:
    svg = picture(network)
    read(svg)
    cells = [float(w) for w in re.findall(r'class="cell"[^>]*width="([\d.]+)"', svg)]
    assert cells == pytest.approx([cells[0] * share for share in (1, 0.25, 0.5, 0.25)], abs=0.1)
    assert re.findall(r"--s:([\d.]+)", svg) == ["1.00", "0.25", "0.50", "0.25"]
    said = read(svg)
    for expected in ("1 conv", "4 add", "50%", "4.00 ms", "data: float32", "out: float32", "node <pool>", "7% of L2"):
        assert expected in said
    assert svg.count('class="dot c2"') == 2  # of the record, and in the legend


def test_what_is_read_further_down_has_a_lane_of_its_own() -> None:
    assert _lanes([(0, 1), (1, 2), (1, 4), (2, 3), (3, 4)]) == {1: 0}
    assert _lanes([(0, 4), (1, 3), (4, 6)]) == {0: 0, 1: 1, 4: 1}  # the lane of 0 ends where that of 4 begins
    assert _lanes([(0, 9), (0, 5)]) == {0: 0}
    many = _lanes([(k, 100) for k in range(20)])
    assert max(many.values()) == LANES - 1


def test_everything_stays_in_the_picture() -> None:
    calls = [call(f"conv_batch_normalization_add_relu_{k}", 1e-3, *({k - 1, max(k - 9, -1)})) for k in range(60)]
    svg = picture(Network(["x" * 200], calls, [("y", 59)]))
    read(svg)
    height = float(re.search(r'viewBox="0 0 \d+ (\d+)"', svg)[1])
    for x, y in re.findall(r'<(?:text|rect) [^>]*?x="([\d.-]+)" y="([\d.-]+)"', svg):
        assert 0 <= float(x) <= WIDTH
        assert 0 <= float(y) <= height
    assert len(svg) < 60_000


def test_a_page_has_the_longest_calls_first(network) -> None:
    said = read(model_html("a <model>", "llvm", [("8.00 ms", "a run")], network, ["autosched report a.onnx"]))
    assert "a <model>" in said
    table = said[said.index("Calls, the longest first") :]
    assert table.index("4.00 ms") < table.index("2.00 ms") < table.index("1.00 ms")
    assert "50.0%" in table


def test_without_calls_there_is_a_picture_all_the_same() -> None:
    read(picture(Network(["x"], [], [])))
