"""`CompareBeforeAfter`: tests of what a pass makes of a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from autosched.errors import UsageError
from autosched.ir.stmt import Function
from autosched.tir.module import IRModule, PrimFunc
from autosched.tvm.ir.base import assert_structural_equal
from autosched.tvm.reading import Source, callers_names
from autosched.tvm.script.parser import function_of, module_of


class CompareBeforeAfter:
    """A test: `transform` makes `expected` of `before`, or raises it, if that is a class of exceptions.

    `before` and `expected` are functions, modules, scripts without a decorator (which are read when the test runs), or
    methods and fixtures that return them; `transform` is a pass, or a method or fixture that returns one.
    """

    check_well_formed = True

    def __init_subclass__(cls) -> None:
        for name in ("before", "expected"):
            given = [vars(cls)[n] for n in (name, name.capitalize()) if n in vars(cls)]
            if given:
                setattr(cls, name, _fixture(given[0], lambda program: program, name))
        if "transform" in vars(cls):
            cls.transform = _fixture(vars(cls)["transform"], _applied, "transform")  # type: ignore[attr-defined]

    def test_compare(self, before: Any, expected: Any, transform: Callable[[Any], Any]) -> None:
        """Compare what the pass makes with what is expected."""
        if inspect.isclass(expected) and issubclass(expected, Exception):
            with pytest.raises(expected):
                transform(before)
        else:
            assert_structural_equal(transform(before), expected)


def _fixture(given: Any, made: Callable[[Any], Any], name: str) -> Any:
    if hasattr(given, "_pytestfixturefunction") or type(given).__name__ == "FixtureFunctionDefinition":
        return given
    names = callers_names()
    if inspect.isfunction(given) and "self" in inspect.signature(given).parameters:
        return pytest.fixture(lambda self: made(given(self)), name=name)
    return pytest.fixture(lambda self: made(_read(given, names)), name=name)


def _read(given: Any, names: dict[str, Any]) -> Any:
    if inspect.isfunction(given):
        return function_of(Source.of(given, names))
    is_script = inspect.isclass(given) and not issubclass(given, Exception)
    return module_of(Source.of(given, names)) if is_script else given


def _applied(run: Callable[[IRModule], IRModule]) -> Callable[[Any], Any]:
    """A pass on modules as one on whatever the test has."""

    def on(given: Any) -> Any:
        if isinstance(given, IRModule):
            return run(given)
        if not isinstance(given, (PrimFunc, Function)):
            raise UsageError(f"{given!r} is no program", asked="CompareBeforeAfter", legal="a function or a module")
        return run(IRModule({"main": given}))["main"]

    return on
