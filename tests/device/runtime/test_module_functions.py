"""Modules of several functions, their sources and files, and timing by TVM's names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.errors import BuildError, LowerError, UsageError
from autosched.ir.functions import register_func
from autosched.lowering import lower
from autosched.runtime.function import BenchmarkResult, TimeEvaluator
from autosched.runtime.module import Module
from autosched.space.default import default_schedule
from autosched.target import Target


def plus(number: int, name: str = "out") -> autosched.Schedule:
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    return autosched.create_schedule([a, te.compute((n,), lambda i: a[i] + number, name=name)])


@pytest.fixture(scope="module")
def module() -> Module:
    return autosched.build({"one": plus(1), "two": plus(2)}, "llvm")


X = np.arange(5, dtype=np.float32)


def test_functions_by_name(module: Module) -> None:
    assert module.entry_name == "one" and list(module) == ["one", "two"] and len(module) == 2
    np.testing.assert_array_equal(module(X), X + 1)
    np.testing.assert_array_equal(module["two"](X), X + 2)
    assert module["one"] is module["default_function"] is module
    with pytest.raises(UsageError, match=r"(?s)no function 'three'.*functions: one, two"):
        module["three"]
    with pytest.raises(UsageError, match="there is no function"):
        autosched.build({}, "llvm")
    with pytest.raises(BuildError, match="two functions have this name"):
        Module(module.artifact, module.target, more=[module])


def test_a_lowered_function_takes_a_name_and_no_arguments() -> None:
    s = plus(1)
    lowered = lower(s, s.arguments)
    assert autosched.build(lowered.function, name="more").name == "more"
    for what in (lowered.function, lowered.mod):
        with pytest.raises(UsageError, match="has its arguments"):
            autosched.build(what, args=s.arguments)


def test_a_lowered_function_with_an_open_knob() -> None:
    s = plus(1)
    s["out"].split("i", factor=s.define_knob("rows", [2, 4]))
    with pytest.raises(LowerError, match="knob rows has no value"):
        autosched.build(lower(s, s.arguments).function)


def test_an_ir_module_is_built() -> None:
    s = plus(3)
    a, out = s.stages[0].tensor, s.outputs[0]
    lowered = lower(s, [a, out], name="three").mod
    np.testing.assert_array_equal(autosched.build(lowered, "llvm")["three"](X), X + 3)
    np.testing.assert_array_equal(autosched.build(lowered["three"], "llvm -threads=1")(X), X + 3)


@pytest.mark.parametrize("target", ["llvm", "opencl"])
def test_a_file_keeps_all_functions(target: str, module: Module, tmp_path: Path) -> None:
    made = module
    if target == "opencl":
        a = te.placeholder((5,), name="a")
        s = [default_schedule([a, te.compute((5,), lambda i, k=k: a[i] + k, name="b")], Target(target)) for k in (1, 2)]
        made = autosched.build({"one": s[0], "two": s[1]}, target)
    made.save(tmp_path / "both")
    again = Module.load(tmp_path / "both")
    assert list(again) == ["one", "two"] and again.provenance == made.provenance
    np.testing.assert_array_equal(again["two"](X), X + 2)
    assert again.get_source() == made.get_source()
    (tmp_path / "cut").write_bytes((tmp_path / "both").read_bytes()[:-1])
    with pytest.raises(BuildError, match="bytes of code instead of"):
        Module.load(tmp_path / "cut")


def test_sources_by_tvms_names(module: Module, tmp_path: Path) -> None:
    assert module.type_key == "llvm" and module.imported_modules == []
    assert module.get_source("ll") == module.get_source("llvm") and "@two(" in module.get_source("ll")
    assert "two:" in module.get_source("asm") == module.get_source("s")
    assert module.get_source() == module.get_source("")
    for wrong in ("cl", "c", "cuda", "hex"):
        with pytest.raises(BuildError, match=f"source '{wrong}'"):
            module.get_source(wrong)
    module.save(tmp_path / "both.s")
    assert (tmp_path / "both.s").read_text() == module.get_source("asm")
    in_c = autosched.build(plus(1), "c")
    assert in_c.get_source("c") == in_c.get_source() and in_c.type_key == "c"


# -- timing --------------------------------------------------------------------------------------------


def test_results_of_a_benchmark() -> None:
    result = BenchmarkResult((1e-3, 3e-3, 2e-3, 6e-3))
    assert (result.min, result.mean, result.median, result.max) == (1e-3, 3e-3, 2.5e-3, 6e-3)
    assert result.std == pytest.approx(np.std([1e-3, 3e-3, 2e-3, 6e-3]))
    assert str(result) == (
        "Execution time summary:\n"
        "  mean (ms)    median (ms)     max (ms)      min (ms)      std (ms)\n"
        "    3.0000        2.5000        6.0000        1.0000        1.8708"
    )


class Recorded:
    """A function whose calls last as long as the test says."""

    def __init__(self, *seconds: float) -> None:
        self.seconds, self.numbers, self.runs = list(seconds), [], 0

    def time(self, number: int) -> float:
        self.numbers.append(number)
        return self.seconds.pop(0) if self.seconds else 1e-3

    def run(self) -> None:
        self.runs += 1

    def bound(self, arrays: object):
        from contextlib import nullcontext

        return nullcontext(self)


def test_more_calls_until_a_sample_lasts_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("autosched.runtime.function.time.sleep", pauses.append)
    prepared = []
    register_func("test.prepare", lambda *arrays: prepared.append(arrays), override=True)
    f = Recorded(1e-3, 1e-3, 0.5e-3)
    timer = TimeEvaluator(f, number=2, repeat=3, min_repeat_ms=8, cooldown_interval_ms=5, repeats_to_cooldown=2,
                          cache_flush_bytes=64, f_preproc="test.prepare")  # fmt: skip
    result = timer("x")
    assert f.runs == 1 and f.numbers[:2] == [2, 9] and result.results[0] == 1e-3
    assert all(b >= a for a, b in zip(f.numbers, f.numbers[1:], strict=False))
    assert prepared == [("x",)] * 3 and pauses == [5e-3]


def test_a_clock_that_stands_still_ends_it() -> None:
    f = Recorded(*[0.0] * 50)
    assert TimeEvaluator(f, min_repeat_ms=1, limit_zero_time_iterations=7)().results == (0.0,)
    assert len(f.numbers) == 7


def test_a_function_is_timed(module: Module) -> None:
    timer = module.time_evaluator("two", None, number=3, repeat=4)
    out = np.zeros(5, np.float32)
    result = timer(X, out)
    assert len(result.results) == 4 and result.min >= 0
    np.testing.assert_array_equal(out, X + 2)
    with pytest.raises(UsageError, match=r"time_evaluator\(repeat=0\): 0 is not more than 0"):
        module.time_evaluator("one", repeat=0)
