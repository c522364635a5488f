"""A plug-in of pytest for TVM's tests: `pytest_plugins = ["tvm.testing.plugin"]`.

A test with a parameter `target` runs for each target that has a device, `dev` is its device, and the fixtures of
`tvm.testing.parameters` vary together.
"""

from __future__ import annotations

from typing import Any

import pytest

from autosched.runtime.device import Device
from autosched.tvm.devices import device
from autosched.tvm.testing import marks


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gtest_args", action="store", default="")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    _vary_together(metafunc)
    if "target" in metafunc.fixturenames:
        _give_targets(metafunc)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark, cases in getattr(getattr(item, "function", None), "tvm_marked_cases", ()):
            if item.name.partition("[")[2].rstrip("]") in cases:
                item.add_marker(mark)


@pytest.fixture
def dev(target: Any) -> Device:
    """The device of the target that the test runs for."""
    return device(str(target).split()[0])


def _vary_together(metafunc: pytest.Metafunc) -> None:
    groups: dict[int, list[tuple[str, Any]]] = {}
    for name, fixtures in metafunc.definition._fixtureinfo.name2fixturedefs.items():
        function = fixtures[-1].func
        if hasattr(function, "group"):
            groups.setdefault(function.group, []).append((name, function))
    for members in groups.values():
        names, functions = zip(*members, strict=True)
        sets = list(zip(*(function.values for function in functions), strict=True))
        metafunc.parametrize(names, sets, indirect=True, ids=functions[0].ids)


def _give_targets(metafunc: pytest.Metafunc) -> None:
    """Give `target` values where nothing does, and each of its values the mark that it needs a device."""
    failing = getattr(metafunc.function, "tvm_known_failing_targets", ())
    given = [mark for mark in metafunc.definition.iter_markers("parametrize") if "target" in _names(mark)]
    if not given:
        excluded = getattr(metafunc.function, "tvm_excluded_targets", ())
        values = [t for t in marks.all_targets() if t.split()[0] not in excluded]
        metafunc.parametrize("target", [pytest.param(t, marks=_fails(t, failing)) for t in values])
    for mark in given:
        at = _names(mark).index("target")
        cases = [_case(value, len(_names(mark))) for value in mark.args[1]]
        # pytest reads the list again after this hook
        mark.args[1][:] = [
            pytest.param(
                *case.values,
                id=case.id,
                marks=[*case.marks, *marks.requirement_of(case.values[at]), *_fails(case.values[at], failing)],
            )
            for case in cases
        ]


def _names(mark: pytest.Mark) -> list[str]:
    names = mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _case(value: Any, names: int) -> Any:
    if hasattr(value, "marks") and hasattr(value, "values"):
        return value
    return pytest.param(value) if names == 1 else pytest.param(*value)


def _fails(target: Any, failing: Any) -> list[pytest.MarkDecorator]:
    kind = str(target).split()[0]
    return [pytest.mark.xfail(reason=f"known to fail for {kind}")] if kind in failing else []
