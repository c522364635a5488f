"""Verification of programs in which floats become integers: one step there, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import te
from autosched.measure import Job, Measurement, MeasureOptions, Measurer
from autosched.space.default import default_schedule
from autosched.space.workload import Workload, workload
from autosched.target import Target

pytestmark = pytest.mark.timeout(120)
N = 1 << 16


def measured(w: Workload, target: str, inputs: list[np.ndarray], off_by: int = 0, **options: float) -> Measurement:
    """The default schedule, told that the reference gives `off_by` more than it does."""
    to = w.compiled_for(Target(target))
    expected = [(e + np.asarray(off_by, e.dtype)).astype(e.dtype) for e in w.reference(inputs)]
    sketches = {"default": default_schedule(w.args, to).trace.to_json()}
    chosen = MeasureOptions(number=1, repeat=1, builders=1, **options)  # type: ignore[arg-type]
    with Measurer(w.graph, to, sketches, inputs, expected, chosen, roundings=w.roundings(to)) as measurer:
        (found,) = measurer.measure([Job(0, "default", patience=6.0)])
    return found


@workload
def grey():
    """An RGB image in floats to grey, rounded to the nearest of 256 levels."""
    r, g, b = (te.placeholder((N,), "float32", name=name) for name in "rgb")
    return (
        r,
        g,
        b,
        te.compute((N,), lambda i: (0.299 * r[i] + 0.587 * g[i] + 0.114 * b[i] + 0.5).astype("uint8"), "grey"),
    )


@workload(strict=True)
def strict_grey():
    return grey().args


@workload
def whole():
    a = te.placeholder((N,), "uint8", name="a")
    return a, te.compute((N,), lambda i: (a[i].astype("int32") * 77 + 128) >> 8, "whole")


@workload
def threshold():
    a, b = (te.placeholder((N,), "float32", name=name) for name in "ab")
    return (
        a,
        b,
        te.compute((N,), lambda i: te.select(a[i] * 0.3 + b[i] > 0.0, te.const(1, "uint8"), te.const(9, "uint8")), "o"),
    )


def ties() -> list[np.ndarray]:
    """Images of which the reference rounds many pixels just above or below a half."""
    rng = np.random.default_rng(1)
    r, g = rng.uniform(0, 255, (2, N)).astype("f4")
    level = rng.integers(1, 255, N).astype("f4")
    b = ((level - 0.299 * r - 0.587 * g - 0.5) / 0.114).astype("f4")
    return [r, g, b]


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_float_that_ends_in_an_integer_is_right_up_to_one_step(target: str) -> None:
    w = grey()
    found = measured(w, target, ties())
    assert (found.status, found.error) == ("ok", "")
    exact = measured(w, target, ties(), atol=0.0)  # an atol means what it says: these two do differ
    assert exact.status == "correctness" and "largest difference 1" in exact.error


@pytest.mark.parametrize("target", ["llvm", "c", "opencl"])
def test_a_strict_workload_is_right_to_the_last_element(target: str) -> None:
    found = measured(strict_grey(), target, ties(), atol=0.0)
    assert (found.status, found.error) == ("ok", "")
    assert measured(strict_grey(), target, ties(), off_by=1).status == "correctness"


def test_two_steps_are_wrong() -> None:
    found = measured(grey(), "llvm", ties(), off_by=2)
    assert found.status == "correctness" and "elements differ" in found.error


def test_an_integer_made_of_integers_is_not_allowed_a_step() -> None:
    inputs = [np.arange(N).astype("uint8")]
    assert measured(whole(), "llvm", inputs).status == "ok"
    found = measured(whole(), "llvm", inputs, off_by=1)
    assert found.status == "correctness" and "65,536 of 65,536 elements differ" in found.error
    assert measured(whole(), "llvm", inputs, off_by=1, atol=1.0).status == "ok"


def test_a_comparison_of_floats_is_told_to_be_the_cause() -> None:
    a = np.random.default_rng(2).normal(size=N).astype("f4")
    found = measured(threshold(), "llvm", [a, -(np.float32(0.3) * a)])
    assert found.status == "correctness" and "is compared" in found.error and "-strict" in found.error
    assert measured(threshold(), "llvm -strict", [a, -(np.float32(0.3) * a)]).status == "ok"
