"""Each public name and module of TVM 0.17 is here, or says what there is instead."""

from __future__ import annotations

import re
from importlib import import_module
from operator import attrgetter
from pathlib import Path

import pytest

from autosched import tvm
from autosched.tvm._families import FAMILIES, of_family
from autosched.tvm._missing import MissingName, NotPartOfThis

TEXT = Path(__file__).with_name("all_names.txt").read_text(encoding="utf-8").partition("\n")[2].replace("\n    ", " ")
NAMES = {module: names.split() for module, _, names in (line.partition(": ") for line in TEXT.splitlines())}
MODULES = NAMES.pop("modules")


def module_of(name: str):
    return tvm if name == "tvm" else import_module(f"autosched.tvm.{name}")


@pytest.mark.parametrize("module", sorted(NAMES))
def test_names_are_here_or_say_what_is(module: str) -> None:
    owner = module_of(module)
    for name in NAMES[module]:
        try:
            getattr(owner, name)
        except MissingName as error:
            assert not re.match("nearest|names", error.legal), f"{module}.{name}: {error.legal}"
        except NotPartOfThis as error:  # a module
            assert "coverage" not in error.legal, f"{module}.{name}: {error.legal}"


def test_modules_are_here_or_say_what_is() -> None:
    for module in MODULES:
        try:
            module_of(module)
        except NotPartOfThis as error:
            assert "coverage" not in error.legal, f"{module}: {error.legal}"


def test_what_families_name_is_there() -> None:
    """`te.gradient`, `tir.Schedule` and their like, in what is said, are names of this package."""
    pattern = r"\b(?:te|tir|topi|arith|autotvm|auto_scheduler|contrib|tvm)(?:\.\w+)+"
    named = {name for _, instead in FAMILIES for name in re.findall(pattern, instead)}
    assert len(named) > 40
    for name in named:
        assert attrgetter(name.removeprefix("tvm."))(tvm) is not None


def test_a_family_and_near_names() -> None:
    assert of_family("tir.no_such_thing") == "" and "tensorize" in of_family("tir.op.ptx_mma")
    with pytest.raises(MissingName, match="nearest names: .*conv2d_nchw"):
        _ = tvm.topi.nn.conv2d_nchv
    with pytest.raises(MissingName, match="operator without a library's name"):
        _ = tvm.topi.x86.no_such_operator
