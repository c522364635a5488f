"""The notebooks run from the first cell to the last, and what is stored in them is small, whole and without an error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autosched.measure.roofline import Level, Roofline, store

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
#: bytes that a notebook may have with its outputs
MOST = 300_000


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def outputs(notebook) -> list:
    return [o for cell in notebook.cells if cell.cell_type == "code" for o in cell.outputs]


def texts(notebook) -> str:
    """All that the cells wrote, and what is shown as text and as HTML."""
    shown = [o.get("text", "") or "".join(map(str, o.get("data", {}).values())) for o in outputs(notebook)]
    return "\n".join(shown)


def test_there_are_three() -> None:
    assert [file.stem for file in FILES] == ["own_strategy", "photo_filter", "reaching_openblas"]


@pytest.mark.timeout(240)
def test_a_notebook_runs(notebook, tmp_path, monkeypatch) -> None:
    """With small budgets; the roofline, which takes ten seconds to measure, is there already."""
    for name, value in {
        "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path), "AUTOSCHED_NOTEBOOK_SECONDS": "3",
        "AUTOSCHED_NOTEBOOK_SEEDS": "2", "AUTOSCHED_PROGRESS": "auto", "AUTOSCHED_PREDICT": "1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("MPLBACKEND", raising=False)
    store(Roofline("a CPU", 2, "today", (Level("memory", None, False, 1 << 20, {1: 1e11}, {1: 1e11}),),
                   {"float32": {1: 1e12}, "float64": {1: 1e12}}))  # fmt: skip
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3").execute(cwd=str(tmp_path))
    said = texts(notebook)
    if "photo" in said:
        assert "equal to NumPy: True" in said
    assert "<progress" in said  # the live display
    assert "trials" in said


def test_what_is_stored_is_whole_and_small(notebook, request) -> None:
    file = next(f for f in FILES if f.stem in request.node.name)
    assert file.stat().st_size <= MOST
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    assert [c.execution_count for c in cells] == list(range(1, len(cells) + 1))  # run once, in order
    assert not [o for o in outputs(notebook) if o.output_type == "error"]
    kinds = {kind for o in outputs(notebook) for kind in o.get("data", {})}
    assert {"text/html", "text/plain"} <= kinds
    assert not re.search(r"/(home|root|tmp|work)/", texts(notebook))
