"""Marks and fixtures of pytest that TVM's tests are written with; `plugin.py` has the part that pytest asks for."""

from __future__ import annotations

import copy
import functools
import importlib.util
import inspect
import itertools
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
import pytest

from autosched.tvm.devices import device
from autosched.tvm.testing.utils import device_enabled, enabled_targets


class Requirement:
    """A mark of tests that are skipped where the machine lacks something: `@requires_llvm` or `@requires_llvm()`.

    here: says whether the machine has it
    """

    def __init__(self, name: str, here: Callable[[], bool]) -> None:
        self.name, self.here = name, here

    def marks(self) -> list[pytest.MarkDecorator]:
        """The marks that the decorator gives."""
        return [pytest.mark.skipif(not self.here(), reason=f"this machine has no {self.name}")]

    def __call__(self, function: Any = None, **_: Any) -> Any:
        if function is None:
            return self
        for mark in self.marks():
            function = mark(function)
        return function

    def run_time_check(self) -> bool:
        """Whether the machine has it."""
        return self.here()


def _cpu(*names: str) -> Callable[[], bool]:
    def here() -> bool:
        features = llvm.get_host_cpu_features()
        return any(features.get(name) for name in names)

    return here


def _machine(*names: str) -> Callable[[], bool]:
    return lambda: platform.machine().lower() in names


#: what there may be on a machine of ours; any other `requires_*` skips its test
_HERE: dict[str, Callable[[], bool]] = {
    **{name: functools.partial(device_enabled, name) for name in ("llvm", "opencl", "cuda")},
    "gpu": lambda: device_enabled("opencl") or device_enabled("cuda"),
    "x86": _machine("x86_64", "amd64"),
    "aarch64": _machine("aarch64", "arm64"),
    "arm_dot": _cpu("dotprod"),
    "arm_fp16": _cpu("fullfp16"),
    "aarch64_sve": _cpu("sve"),
    "aarch64_sme": _cpu("sme"),
    "x86_vnni": _cpu("avx512vnni", "avxvnni"),
    "x86_avx512": _cpu("avx512f"),
    "x86_amx": _cpu("amx-int8"),
}


def requires_package(*packages: str) -> Requirement:
    """Mark a test that is skipped where one of these Python packages is missing."""
    absent = [p for p in packages if importlib.util.find_spec(p) is None]
    return Requirement(f"package {', '.join(absent)}", lambda: not absent)


def _never(name: str) -> Callable[..., Requirement]:
    return lambda *_, **__: Requirement(name, lambda: False)


def requires_cuda_compute_version(major_version: int, minor_version: int = 0) -> Requirement:
    """Mark a test that is skipped where no CUDA device has this compute capability."""

    def here() -> bool:
        found = next((dev for kind, dev in enabled_targets() if kind == "cuda"), None)
        version = str(getattr(found, "compute_version", "0.0")).split(".")
        return found is not None and (int(version[0]), int(version[1])) >= (major_version, minor_version)

    return Requirement(f"CUDA device of compute capability {major_version}.{minor_version}", here)


requires_nvcc_version = _never("nvcc")


def is_ampere_or_newer() -> bool:
    """Whether there is a CUDA device of compute capability 8.0 or above."""
    return requires_cuda_compute_version(8).here()


def skip_if_32bit(reason: str) -> pytest.MarkDecorator:
    """Mark a test that is skipped on machines of 32 bits."""
    return pytest.mark.skipif(sys.maxsize <= 2**32, reason=reason)


def skip_if_wheel_test(function: Any) -> Any:
    """Mark a test that needs TVM's sources: it stays as it is."""
    return function


slow = uses_gpu = skip_if_wheel_test


def parameter(*values: Any, ids: Sequence[str] | None = None, by_dict: Mapping[str, Any] | None = None) -> Any:
    """A fixture that runs each test that takes it once for every value; `by_dict` gives names to values."""
    if by_dict is not None:
        if values or ids:
            raise TypeError("tvm.testing.parameter takes values, or by_dict, which has values and their names")
        values, ids = tuple(by_dict.values()), tuple(by_dict)
    return pytest.fixture(params=list(values), ids=ids)(_from_request())


def _from_request() -> Callable[..., Any]:
    def value(*_cls: Any, request: Any) -> Any:
        return request.param

    return value


_groups = itertools.count()


def parameters(*value_sets: Sequence[Any], ids: Sequence[str] | None = None) -> list[Any]:
    """Fixtures that vary together: one of each set's values, and a test runs once for each set."""
    group, fixtures = next(_groups), []
    for values in zip(*value_sets, strict=True):
        function = _from_request()
        function.group, function.values, function.ids = group, values, ids  # type: ignore[attr-defined]
        fixtures.append(pytest.fixture(function))
    return fixtures


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """`pytest.fixture`; with `cache_return_value` it runs once for the same arguments, and tests get copies."""
    if func is None:
        return functools.partial(fixture, cache_return_value=cache_return_value)
    return pytest.fixture(_remembering(func) if cache_return_value else func)


def _remembering(func: Callable[..., Any]) -> Callable[..., Any]:
    made: dict[str, Any] = {}

    @functools.wraps(func)
    def remembering(*args: Any, **kwargs: Any) -> Any:
        key = repr((args[1:] if args and not inspect.isfunction(args[0]) else args, sorted(kwargs.items())))
        if key not in made:
            made[key] = func(*args, **kwargs)
        return copy.deepcopy(made[key])

    return remembering


def parametrize_targets(*targets: Any) -> Any:
    """Give a test parameters `target` and `dev`, for each target (by default all) that has a device."""
    if len(targets) == 1 and callable(targets[0]):
        return parametrize_targets()(targets[0])
    values = list(targets or all_targets())

    def decorate(function: Any) -> Any:
        # without the plug-in nothing else gives a device
        both = "dev" in inspect.signature(function).parameters
        cases = [((t, device(str(t).split()[0])) if both else (t,), requirement_of(t)) for t in values]
        names = ("target", "dev") if both else ("target",)
        return pytest.mark.parametrize(names, [pytest.param(*case, marks=m) for case, m in cases])(function)

    return decorate


def all_targets() -> list[str]:
    """The targets that tests run for unless they say otherwise."""
    return [target for target, _ in enabled_targets()]


def requirement_of(target: Any) -> list[pytest.MarkDecorator]:
    """Marks that skip a test where the target has no device."""
    kind = str(target).split()[0]
    return Requirement(f"device for {kind}", functools.partial(device_enabled, str(target))).marks()


def exclude_targets(*kinds: str) -> Callable[[Any], Any]:
    """Leave targets out of those that a test with a parameter `target` runs for."""
    return _told("tvm_excluded_targets", kinds)


def known_failing_targets(*kinds: str) -> Callable[[Any], Any]:
    """Expect a test to fail for these targets."""
    return _told("tvm_known_failing_targets", kinds)


def _told(name: str, kinds: Sequence[str]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        setattr(function, name, kinds)
        return function

    return decorate


def _for_values(mark: Callable[..., pytest.MarkDecorator], cases: Iterable[Any], reason: str) -> Callable[[Any], Any]:
    """A mark of those cases of a test whose id, without its brackets, is one of `cases`."""

    def decorate(function: Any) -> Any:
        function.tvm_marked_cases = (*getattr(function, "tvm_marked_cases", ()), (mark(reason=reason), tuple(cases)))
        return function

    return decorate


def skip_parameterizations(*cases: str, reason: str) -> Callable[[Any], Any]:
    """Skip the cases of a test with these ids."""
    return _for_values(pytest.mark.skip, cases, reason)


def xfail_parameterizations(*cases: str, reason: str) -> Callable[[Any], Any]:
    """Expect the cases of a test with these ids to fail."""
    return _for_values(pytest.mark.xfail, cases, reason)


def main() -> None:
    """Run the tests of the file that calls it."""
    sys.exit(pytest.main([inspect.stack()[1].filename, *sys.argv[1:]]))


def __getattr__(name: str) -> Any:
    feature = name.removeprefix("requires_")
    if feature == name:
        raise AttributeError(name)
    return Requirement(feature, _HERE.get(feature, lambda: False))
