"""`roofline`, and what other verbs make of it. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autosched.measure.roofline import Level, Roofline, cached, store

Cli = Callable[..., Any]

ROOF = Roofline(
    cpu="a CPU",
    cores=2,
    measured="2026-01-01",
    levels=(
        Level("L1", 32 << 10, True, 16 << 10, {1: 1e11, 2: 2e11}, {1: 1e11, 2: 2e11}),
        Level("memory", None, False, 256 << 20, {1: 1e10, 2: 2e10}, {1: 1e10, 2: 1.5e10}),
    ),
    fma={"float32": {1: 1e11, 2: 2e11}, "float64": {1: 5e10, 2: 1e11}},
)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time the machine would be measured."""
    times: list[str] = []

    def measure(tell: Callable[[str], None]) -> Roofline:
        tell("1 thread")
        times.append("measured")
        return ROOF

    monkeypatch.setattr("autosched.cli.roofline.measure_roofline", measure)
    return times


def test_it_is_measured_once_and_again_when_asked(cli: Cli, measured: list[str], golden: Callable[..., None]) -> None:
    first = cli("roofline")
    assert first.status == 0
    assert "measuring with 1 thread" in first.err
    assert cached() == ROOF
    again = cli("roofline")
    assert (again.out, again.err) == (first.out, "")
    assert len(measured) == 1
    golden(first.out.partition("\n\nkept in ")[0])
    cli("roofline", "--refresh")
    assert len(measured) == 2


def test_json(cli: Cli, measured: list[str]) -> None:
    data = cli("roofline", "--json").data
    assert Roofline.from_json({k: v for k, v in data.items() if k != "file"}) == ROOF


def test_devices_have_none(cli: Cli, measured: list[str]) -> None:
    done = cli("roofline", "--target", "opencl")
    assert done.status != 0
    assert "rooflines are measured on CPUs" in done.err
    assert not measured


def test_a_folder_that_cannot_be_written_is_a_warning(
    cli: Cli, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(r: Roofline) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("autosched.cli.roofline.store", full)
    done = cli("roofline")
    assert done.status == 0
    assert "cannot be kept: no space left" in done.err


def test_build_says_how_near_it_is(cli: Cli, measured: list[str]) -> None:
    unknown = cli("build", "brighten")
    assert "`python -m autosched roofline` measures this machine" in unknown.err
    assert not measured, "never behind the user's back"
    store(ROOF)
    known = cli("build", "brighten")
    assert "% of the L1 roofline" in known.out
    assert "roofline" not in known.err
    data = cli("build", "brighten", "--json").data
    assert data["roofline"]["fraction"] == pytest.approx(data["roofline"]["bound_s"] / data["seconds"])


def test_there_is_nothing_to_say_of_open_sizes_and_of_other_targets(cli: Cli) -> None:
    store(ROOF)
    assert "roofline" not in cli("build", "total").out
    assert cli("build", "brighten", "--target", "llvm -mcpu=x86-64", "--json").data["roofline"] is None
