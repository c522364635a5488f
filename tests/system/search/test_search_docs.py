"""The examples of docs/search.md run, and its tables name what there is."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

from autosched.model import MODELS
from autosched.plugins import load_class
from autosched.search import KIND, STRATEGIES

TEXT = (Path(__file__).parents[3] / "docs" / "search.md").read_text()


def test_the_examples_run(tmp_path, monkeypatch):
    """In one namespace and in order, as a reader would type them; records go to a folder of their own."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(blocks) >= 5
    namespace = {"__name__": "docs"}
    for block in blocks:
        exec(compile(block, "docs/search.md", "exec"), namespace)
    suite = namespace["TestHillClimber"]()
    suite.test_exhausts_a_small_space()


def test_all_names_and_options_are_documented():
    for name in [*STRATEGIES, *MODELS]:
        assert f"| `{name}`" in TEXT
    for name in STRATEGIES:
        strategy = load_class(KIND, name)
        row = re.findall(rf"^\| `{name}`.*$", TEXT, re.MULTILINE)[0]  # the strategies come before the models
        for option, parameter in inspect.signature(strategy).parameters.items():
            if option not in ("space", "seed", "model"):
                assert f"`{option}={json.dumps(parameter.default)}`" in row
