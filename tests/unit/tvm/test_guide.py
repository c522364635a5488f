"""The code in docs/tvm.md runs, and its tables name what exists."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from autosched.tvm.transform import OPTIONS

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "tvm.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (0, "T.vectorized(32)"),
        (1, "def schedule(s):"),
        (2, "#include <stdint.h>"),
        (3, "c[i_outer * 8:i_outer * 8 + 8]"),
        (4, "25 configurations, 2 in the log"),
        (5, 's["D"].parallel('),
    ],
)
def test_the_code_runs(number: int, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[number], f"block {number}", "exec"), {})
    assert printed in capsys.readouterr().out
    assert len(BLOCKS) == 6


@pytest.mark.parametrize("script", re.findall(r"```py\n(.*?)```", GUIDE, re.DOTALL), ids=["TVMScript", "hybrid"])
def test_the_scripts_run(script: str, tmp_path: Path) -> None:
    """Their types are no types of Python's, and they are read from a file."""
    (tmp_path / "block.py").write_text(script, encoding="utf-8")
    runpy.run_path(str(tmp_path / "block.py"))


def test_every_option_is_in_the_table() -> None:
    named = set(re.findall(r"`((?:tir|te)\.\w+)`", GUIDE[GUIDE.index("## Options") :]))
    assert named == set(OPTIONS)
