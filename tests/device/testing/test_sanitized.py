"""Cases in C that end where they do what C does not define, though the results are right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autosched.errors import UsageError
from autosched.runtime.c_compiler import find_compiler
from autosched.testing import fuzz, sanitized

#: An element behind an array on the stack, times 0.
BEHIND_AN_ARRAY = """
import numpy as np
from autosched import te
from autosched.codegen import compile_function
from autosched.lowering import lower_structure
from autosched.runtime import load
from autosched.schedule import create_schedule
from autosched.target import Target

x, at = te.placeholder((8,), "int32", name="x"), te.placeholder((8,), "int32", name="at")
near = te.compute((8,), lambda i: x[i] + 1, name="near")
y = te.compute((8,), lambda i: near[at[i]] * (at[i] < 8).astype("int32"), name="y")
function = lower_structure(create_schedule(y), [x, at, y], "c").bind()
places, out = np.array([0, 1, 2, 3, 4, 5, 6, 8], "int32"), np.zeros(8, "int32")
call = load(compile_function(function, Target("c")), Target("c")).bind([np.arange(8, dtype="int32"), places, out])
call.upload()
call.run()
print(out.tolist())
"""


def test_an_element_behind_an_array_is_seen(tmp_path: Path) -> None:
    try:
        env = sanitized.environment()
    except UsageError as error:
        pytest.skip(str(error))
    program = tmp_path / "program.py"
    program.write_text(BEHIND_AN_ARRAY)

    def run(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, str(program)], env=env, capture_output=True, text=True)

    assert run(dict(os.environ)).stdout == "[1, 2, 3, 4, 5, 6, 7, 0]\n"
    found = run(env)
    assert found.returncode and not found.stdout
    assert "stack-buffer-overflow" in found.stderr or "runtime error: index 8 out of bounds" in found.stderr


def test_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        sanitized.environment()
    except UsageError as error:
        pytest.skip(str(error))
    asked = ["--sanitize", "--failures", str(tmp_path)]
    assert fuzz.main([*asked, "--seeds", "0:1"]) == 0
    assert "2 passed (1 on c, 1 on c99)" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        fuzz.main([*asked, "--backend", "llvm"])
    assert "--sanitize is for C: c, c99, not llvm" in capsys.readouterr().err


def test_without_a_compiler_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitized, "find_compiler", lambda: None)
    with pytest.raises(UsageError, match="no C compiler with sanitizers is found"):
        sanitized.environment()


def test_flags_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanitized, "_runtime", lambda compiler: "/libasan.so")
    if find_compiler() is None:
        pytest.skip("no C compiler")
    env = sanitized.environment({"CFLAGS": "-O0", "LD_PRELOAD": "/own.so", "HOME": "/home"})
    assert env["CFLAGS"].startswith("-O0 ") and env["LD_PRELOAD"] == "/libasan.so /own.so" and env["HOME"] == "/home"
