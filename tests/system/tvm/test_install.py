"""`import tvm` in programs and tests that are not edited."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autosched import tvm

TESTS = """
import pytest
import tvm
import tvm.testing
from tvm import te

size = tvm.testing.parameter(1, 8)
shape, kind = tvm.testing.parameters(((2, 3), "two"), ((4,), "one"), ids=["a", "b"])
calls = []


@tvm.testing.fixture(cache_return_value=True)
def data(size):
    calls.append(size)
    return [size]


def test_sizes(size, data):
    assert data == [size]
    data.append(0)


def test_sizes_again(size, data):
    assert data == [size] and len(calls) == 2


def test_together(shape, kind):
    assert len(shape) == {"one": 1, "two": 2}[kind]


@tvm.testing.skip_parameterizations("b", reason="too large")
def test_marked(shape):
    assert len(shape) == 2


def test_target(target, dev):
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1, name="B")
    assert tvm.build(te.create_schedule(B.op), [A, B], target) and dev == tvm.device(target)


@tvm.testing.known_failing_targets("llvm")
def test_fails(target):
    assert False


@tvm.testing.exclude_targets("llvm")
def test_excluded(target):
    assert False


@pytest.mark.parametrize("target, n", [("llvm", 1), ("nothing", 2)])
def test_given(target, n):
    assert n == 1


@tvm.testing.requires_ethosn
def test_never():
    assert False


class TestClass:
    n = tvm.testing.parameter(by_dict={"small": 1, "large": 100})

    def test_n(self, n):
        assert n in (1, 100)
"""


def test_fixtures_and_marks_of_tvm(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tvm.testing.plugin"]\n')
    (tmp_path / "test_of_tvm.py").write_text(TESTS)
    words = ["-m", "pytest", "-p", "autosched.tvm.install", "-n", "0", "-q", "-rA", "-c", "/dev/null", "."]
    environment = os.environ | {"TVM_TEST_TARGETS": "llvm"}
    ended = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert "11 passed, 4 skipped, 1 xfailed" in ended.stdout, ended.stdout


def test_a_program_that_imports_tvm(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, tvm, tvm.contrib.cc\nfrom tvm import te\nimport autosched.tvm\n"
        "assert tvm is autosched.tvm and te is autosched.tvm.te and tvm.contrib.cc is autosched.tvm.contrib.cc\n"
        "import topi, tvm.contrib.util\nfrom topi.util import get_const_tuple\nassert topi is tvm.topi\n"
        "print(sys.argv[1:], tvm.__spec__.name)\nimport tvm.nothing_like_it\n"
    )
    words = ["-m", "autosched.tvm.install", str(program), "--n", "1"]
    ended = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert ended.stdout == "['--n', '1'] autosched.tvm\n"
    assert "tvm.nothing_like_it is not part of autosched" in ended.stderr


def test_tvm_itself_was_imported_before() -> None:
    words = ["-c", "import sys, types; sys.modules['tvm'] = types.ModuleType('tvm'); import autosched.tvm.install"]
    ended = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert "TVM has been imported already" in ended.stderr and ended.returncode == 1


def test_gradients_by_differences() -> None:
    x = np.array([1.0, 2.0, 3.0])
    tvm.testing.check_numerical_grads(lambda a: (a**3).sum(), [x], [3 * x**2])
    with pytest.raises(AssertionError, match="by differences"):
        tvm.testing.check_numerical_grads(lambda a: (a**3).sum(), [x], [2 * x**2])
    with pytest.raises(ValueError, match="NaN or infinity"):
        tvm.testing.check_numerical_grads(lambda a: np.log(-a).sum(), {"a": -x}, {"a": x * np.nan})


def test_a_program_finds_the_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("import tvm\nversion = tvm.__version__\n", encoding="utf-8")
    program = tmp_path / "program.py"
    program.write_text("import sys, beside\nprint(beside.version, sys.argv[1:])\n", encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    words = [sys.executable, "-m", "autosched.tvm.install", str(program), "one"]
    ended = subprocess.run(words, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"{tvm.__version__} ['one']\n"
