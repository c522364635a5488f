"""`python -m autosched.tvm.coverage`: which of TVM's names a program uses, and whether they are here."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest

from autosched.errors import UsageError
from autosched.tvm.coverage import DIFFERS, main, names_used, report

PROGRAM = """
import numpy as np
import tvm.testing
from tvm import te as T, topi
from tvm.contrib import mkl, cublas
import tvm.relax.op as R

A = T.placeholder((8, 8), name="A")
B = T.compute((8, 8), lambda i, j: A[i, j] + 1, name="B", colour="red")
s = tvm.te.create_schedule(B.op)
s[B].split(B.op.axis[0], factor=4)
s[B].split(B.op.axis[1], factors=[2, 4])
s[B].melt(0)
s.cache_write(B, "local")
C = mkl.matmul(A, A)
print(np.tvm.te, R.add, T.nothing, tvm.target.Target.current())
"""


def known(source: str) -> dict[str, tuple[str, list[int]]]:
    return {u.name: (u.status, u.lines) for u in names_used(source)}


def test_every_way_to_name_something() -> None:
    assert known(PROGRAM) == {
        "testing": ("works", [3]),
        "te": ("works", [4]),
        "topi": ("works", [4]),
        "contrib.mkl": ("differs", [5]),
        "contrib.cublas": ("replaced", [5]),
        "relax.op": ("replaced", [6]),
        "te.placeholder": ("works", [8]),
        "te.compute": ("missing", [9]),
        "te.create_schedule": ("works", [10]),
        "te.Stage.split": ("missing", [11, 12]),
        "te.Stage.melt": ("missing", [13]),
        "te.Schedule.cache_write": ("works", [14]),
        "contrib.mkl.matmul": ("differs", [15]),
        "relax.op.add": ("replaced", [16]),
        "te.nothing": ("missing", [16]),
        "target.Target.current": ("works", [16]),
    }


def test_it_says_what_to_do() -> None:
    what = {u.name: u.what for u in names_used(PROGRAM)}
    assert what["te.compute"].startswith("there is no argument colour") and "factors" in what["te.Stage.split"]
    assert "onnx" in what["relax.op.add"] and "call_packed" in what["contrib.cublas"]
    assert what["contrib.mkl"] == DIFFERS["contrib.mkl"]


def test_a_program_of_this_package_and_one_of_2018() -> None:
    assert known("from autosched import tvm\nfrom autosched.tvm import tir\ntir.Add\ntvm.placeholder((8,))") == {
        "tir": ("works", [2]),
        "tir.Add": ("works", [3]),
        "placeholder": ("works", [4]),
    }
    assert known("import autosched\nfrom . import tvm\nimport tvmx") == {}


def test_the_table_names_what_is_here() -> None:
    assert {name: known(f"import tvm\ntvm.{name}")[name][0] for name in DIFFERS} == dict.fromkeys(DIFFERS, "differs")


def test_the_document_has_the_table() -> None:
    text = Path(__file__).parents[3].joinpath("docs", "tvm.md").read_text(encoding="utf-8")
    assert "".join(f"| `{name}` | {what} |\n" for name, what in DIFFERS.items()) in text
    blocks = [textwrap.dedent(x).strip("\n") for x in re.findall(r"(?:^(?: {4}.*)?\n)+", text, re.MULTILINE)]
    (program,) = (x for x in blocks if "vectorise(" in x)
    assert report(names_used(program, "relu.py")) in blocks


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fine, odd, broken = (tmp_path / name for name in ("fine.py", "odd.py", "broken.py"))
    fine.write_text("from tvm import te\n")
    odd.write_text("import tvm\n" + "tvm.relax.build\n" * 5)
    broken.write_text("import (")
    assert main([str(fine)]) == 0 and capsys.readouterr().out == "1 name of TVM's: 1 works\n"
    assert main([str(fine), str(odd)]) == 1
    assert capsys.readouterr().out == (
        f"tvm.relax.build  replaced  {odd}:2,3,4,..\n"
        "    tvm.relay.frontend.from_onnx and tvm.relay.build, or autosched.graph, take models of ONNX\n"
        "2 names of TVM's: 1 works, 1 replaced\n"
    )
    assert main([str(fine), str(odd), "--all", "--json"]) == 1
    listed = json.loads(capsys.readouterr().out)
    assert [(u["name"], u["status"], u["lines"]) for u in listed] == [
        ("te", "works", [1]),
        ("relax.build", "replaced", [2, 3, 4, 5, 6]),
    ]
    assert main([str(broken)]) == 2 and "it does not parse" in capsys.readouterr().err
    assert main([str(tmp_path / "none.py")]) == 2 and "No such file" in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"x.py: it does not parse[^\n]*\n  a program in Python 3"):
        names_used("\0", "x.py")


def test_targets_and_scopes_that_are_written_out() -> None:
    program = """import tvm
from tvm import te
s = te.create_schedule(C.op)
AS = s.cache_read(A, "wmma.matrix_a", [C])
BS = s.cache_read(B, "shared", [C])
s[BS].set_scope("warp")
with tvm.target.Target("vulkan -max_num_threads=256"), tvm.target.Target("opencl"): ...
"""
    found = {use.name: use for use in names_used(program) if use.status != "works"}
    assert list(found) == ['scope "wmma.matrix_a"', 'target.Target("vulkan")']
    assert [use.lines for use in found.values()] == [[4], [7]]
    assert "tensor cores" in found['scope "wmma.matrix_a"'].what and "opencl" in found['target.Target("vulkan")'].what
    assert 'scope "wmma.matrix_a"' in report(list(found.values())).splitlines()[0]
