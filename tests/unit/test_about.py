"""`show_versions`."""

from __future__ import annotations

import importlib.metadata
import platform

import autosched


def test_it_names_the_system_and_every_package_that_is_there(capsys) -> None:
    autosched.show_versions()
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["python"].startswith(platform.python_version())
    for name in ("autosched", "numpy", "llvmlite"):
        assert rows[name] == importlib.metadata.version(name)
    assert "torch" not in rows or rows["torch"] == importlib.metadata.version("torch")
