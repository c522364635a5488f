"""The worker's work, in this process: verification on a bench, classification, the real backend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fake_backend
import numpy as np
import pytest

from autosched.codegen.artifact import Artifact, Signature
from autosched.codegen.signature import Param
from autosched.errors import BuildError, DeviceError, LowerError, ScheduleError
from autosched.measure import jobs, verify
from autosched.measure.jobs import ArgumentArrays, CompilerBackend, MismatchError, Runner, classify, describe
from autosched.measure.protocol import STATUSES, Job
from autosched.measure.worker import make_backend
from autosched.target import Target
from autosched.te.rounding import Rounding

REQUEST = {
    "number": 2,
    "repeat": 2,
    "min_s": 0.0,
    "best_s": None,
    "budget_s": 9.0,
    "full": False,
    "key": "",
    "race": True,
}


@pytest.fixture
def bench() -> ArgumentArrays:
    return ArgumentArrays(fake_backend.inputs(), fake_backend.expected())


def run(bench: ArgumentArrays, tmp_path: Path, sketch: str, **changes: Any) -> tuple[dict[str, Any], list[str], Runner]:
    phases: list[str] = []
    runner = Runner(fake_backend.FakeBackend(), bench, phases.append)
    path = tmp_path / "a.artifact"
    path.write_text(json.dumps({"sketch": sketch, "knobs": {}}))
    return runner.run({**REQUEST, "path": str(path), **changes}), phases, runner


def test_a_run_announces_its_phases_in_order(bench: ArgumentArrays, tmp_path: Path) -> None:
    answer, phases, _ = run(bench, tmp_path, "honest")
    assert answer["status"] == "ok" and answer["samples"] == pytest.approx([1e-6, 1e-6]) and answer["number"] == 2
    assert ("load", *phases) == jobs.PHASES


def test_the_bench_is_whole_again_after_a_vandal(bench: ArgumentArrays, tmp_path: Path) -> None:
    for vandal in ("changes_input", "overrun", "underrun", "wrong"):
        answer, _, _ = run(bench, tmp_path, vandal)
        assert (answer["status"], answer["recycle"]) == ("correctness", True)
        assert run(bench, tmp_path, "honest")[0]["status"] == "ok"


def test_large_outputs_are_sampled_and_a_new_best_is_not(
    bench: ArgumentArrays, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "FULL_LIMIT_BYTES", 100)
    monkeypatch.setattr(verify, "_SAMPLE_ENDS", 2)
    monkeypatch.setattr(verify, "_SAMPLE_BLOCKS", 1)
    monkeypatch.setattr(verify, "_SAMPLE_BLOCK", 4)
    assert run(bench, tmp_path, "honest", best_s=1e-9)[0]["verified"] == "sampled"
    assert run(bench, tmp_path, "honest", best_s=1e-9, full=True)[0]["verified"] == "full"
    assert run(bench, tmp_path, "honest")[0]["verified"] == "full"
    # Element 17 lies between the samples: it is missed in a slow candidate, not in a new best.
    assert 17 not in verify.sample_positions(fake_backend.SIZE)
    assert run(bench, tmp_path, "wrong_when_timed", best_s=1e-9)[0]["verified"] == "sampled"
    answer, _, _ = run(bench, tmp_path, "wrong_when_timed", best_s=1.0)
    assert answer["status"] == "correctness" and "first at [17]" in answer["error"]


def test_kernels_are_kept_for_the_playoff(bench: ArgumentArrays, tmp_path: Path) -> None:
    answer, _, runner = run(bench, tmp_path, "honest", key="a")
    again = runner.time({"key": "a", "min_s": 0.0, "check": True})
    assert (again["status"], again["samples"], again["verified"]) == ("ok", answer["samples"][:1], "full")
    assert runner.time({"key": "b", "min_s": 0.0, "check": False})["status"] == "unloaded"
    path = str(tmp_path / "a.artifact")
    for i in range(jobs.MAX_LOADED):
        runner.run({**REQUEST, "path": path, "key": f"other {i}"})
    assert runner.time({"key": "a", "min_s": 0.0, "check": False})["status"] == "unloaded"


def test_a_kept_kernel_that_turns_wrong_is_noticed(bench: ArgumentArrays, tmp_path: Path) -> None:
    _, _, runner = run(bench, tmp_path, "honest", key="a")
    runner._loaded["a"].call.what = "wrong_when_timed"
    assert runner.time({"key": "a", "min_s": 0.0, "check": False})["status"] == "ok"
    assert runner.time({"key": "a", "min_s": 0.0, "check": True})["status"] == "correctness"


def test_arguments_follow_the_signature(bench: ArgumentArrays, tmp_path: Path) -> None:
    kernel = fake_backend.FakeKernel("honest", {})
    kernel.signature.params.reverse()  # z and y, outputs, come first
    arrays, names_in, names_out = bench.of(kernel)
    assert (names_in, names_out) == (["x"], ["z", "y"])
    assert [a.dtype for a in arrays] == ["int32", "float32", "int32"]
    kernel.signature.params.pop()
    with pytest.raises(BuildError, match="it takes 0 inputs and 2 outputs; given are 1 and 2"):
        bench.of(kernel)


def test_read_only_references_are_left_alone(tmp_path: Path) -> None:
    x, expected = fake_backend.inputs(), fake_backend.expected()
    for array in (*x, *expected):
        array.flags.writeable = False
    assert run(ArgumentArrays(x, expected), tmp_path, "honest")[0]["status"] == "ok"


@pytest.mark.parametrize(
    ("error", "phase", "status", "recycle"),
    [
        (LowerError("no"), "build", "constraints", None),
        (ScheduleError("no"), "build", "constraints", None),
        (BuildError("no"), "build", "compile", None),
        (KeyError("x"), "build", "compile", None),
        (MemoryError(), "build", "compile", None),
        (BuildError("no"), "load", "compile", False),
        (RuntimeError("no"), "load", "compile", True),
        (DeviceError("no"), "load", "runtime", True),
        (BuildError("no"), "first", "runtime", False),
        (RuntimeError("no"), "time", "runtime", True),
        (DeviceError("no"), "time", "runtime", True),
        (MismatchError("no"), "check", "correctness", True),
    ],
)
def test_classes_of_errors(error: Exception, phase: str, status: str, recycle: bool | None) -> None:
    answer = classify(error, phase)
    assert (answer["status"], answer.get("recycle")) == (status, recycle)
    assert answer["status"] in STATUSES and answer["error"]
    assert answer.get("device_error", False) == isinstance(error, DeviceError)


def test_errors_are_one_short_line() -> None:
    assert describe(LowerError("it does not fit", asked="split(y, 8)", legal="at most\n 4")) == (
        "split(y, 8): it does not fit; at most 4"
    )
    assert describe(ValueError("a\n  b")) == "ValueError: a b"
    assert describe(MemoryError()) == "MemoryError"
    assert len(describe(ValueError("x" * 10_000))) <= 500
    log = "\n".join(f"line {i}" for i in range(2000))
    answer = classify(BuildError(log), "load")
    assert answer["error"].startswith("line 0\nline 1\n") and len(answer["error"]) == 4000


def test_an_unexpected_error_says_where_it_came_from(tmp_path: Path) -> None:
    backend = CompilerBackend({}, {"a": []}, Target.parse("llvm"))
    backend._structures["a"] = None
    answer = jobs.build(backend, Job(1, "a"), tmp_path / "x")
    assert answer["status"] == "compile"
    assert answer["error"].startswith("AttributeError: 'NoneType' object has no attribute 'bind' (jobs.py:")


def test_an_unknown_sketch_is_named(tmp_path: Path) -> None:
    backend = CompilerBackend({}, {"rows": []}, Target.parse("llvm"))
    answer = jobs.build(backend, Job(1, "cols"), tmp_path / "x")
    assert (answer["status"], answer["error"]) == ("constraints", "sketch 'cols': no such sketch; rows")


def test_identity_covers_the_launch() -> None:
    """The same device code with another work-group size is another candidate."""
    signature = Signature("f", (Param("x", "int32", (4,), False),), ())
    one = Artifact("opencl", "opencl", signature, b"code", {"source": "a"}, {"block": [1]})
    same = Artifact("opencl", "opencl", signature, b"code", {"source": "b"}, {"block": [1]})
    other = Artifact("opencl", "opencl", signature, b"code", {"source": "a"}, {"block": [2]})
    assert one.identity == same.identity != other.identity
    assert one.digest == other.digest


def test_backends(tmp_path: Path) -> None:
    for name, value in [("workload", {"w": 1}), ("sketches", {"s": []})]:
        (tmp_path / name).write_text(json.dumps(value))
    target = Target.parse("opencl -device=0").with_limits(max_threads_per_block=64)
    message = {
        "workload": str(tmp_path / "workload"),
        "sketches": str(tmp_path / "sketches"),
        "target": {"kind": target.kind, "options": target.options, "limits": target.limits},
    }
    real = make_backend("", message)
    assert isinstance(real, CompilerBackend) and real._target == target
    assert isinstance(make_backend("fake_backend:make", message), fake_backend.FakeBackend)


def test_empty_arrays(tmp_path: Path) -> None:
    bench = ArgumentArrays([np.zeros((0, 3), np.float32)], [np.zeros((0,), np.float32), np.zeros((2, 0), np.int8)])
    bench.prepare(0)
    bench.check((["x"], ["y", "z"]), full=True, before=bench.snapshot(full=True))


def test_two_runs_must_agree_where_neither_must_equal_the_reference() -> None:
    """An integer that may be a step off is right in either run, and a race shows as a difference between them."""
    bench = ArgumentArrays([], [np.zeros(4, np.uint8)], roundings=[Rounding(step=1.0)])
    bench.outputs[0][:] = 0
    before = bench.snapshot(full=True)
    bench.check(([], ["o"]), True, before)
    bench.outputs[0][1] = 1
    bench.check(([], ["o"]), True)
    with pytest.raises(MismatchError, match="o: two runs differ in 1 elements"):
        bench.check(([], ["o"]), True, before)
    assert ArgumentArrays([], [np.zeros(4, np.uint8)]).snapshot(full=True) == []
