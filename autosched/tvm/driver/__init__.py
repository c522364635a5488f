"""`tvm.driver`: `build` and `lower`, and `tvmc`, which compiles whole models."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from autosched.tvm._missing import missing
from autosched.tvm.driver import build_module as build_module
from autosched.tvm.driver.build_module import build as build
from autosched.tvm.driver.build_module import lower as lower

_missing = missing("driver", globals())


def __getattr__(name: str) -> Any:
    # models bring the tuner with them: on first use
    return import_module(f"{__name__}.{name}") if name == "tvmc" else _missing(name)
