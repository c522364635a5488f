"""What all tests share: the checkout's own `autosched`, and texts kept in files.

    def test_blur(golden):
        golden(format_function(f))              # tests/<kind>/golden/<module>/test_blur.txt
        golden(format_function(g), "tiled")     # tests/<kind>/golden/<module>/tiled.txt

`<kind>` is unit, device or system, `<module>` the test module's name without `test_`. `pytest --update-golden` writes the files,
to be read in review like any other change; without it a missing or different file is a failure.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy knows bfloat16 by its name from here on
import pytest

TESTS = Path(__file__).resolve().parent
CHECKOUT = TESTS.parent

# The tests are about this checkout, whatever is installed and wherever pytest was started; the
# environment variable says the same to the processes that tests start.
sys.path.insert(0, str(CHECKOUT))
sys.path.append(str(TESTS / "helpers"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))

# Threads that spin while they wait for others take the cores from the tests that run beside them: on two
# cores, a parallel loop then takes as long as the system lets another process run.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ["AUTOSCHED_PROGRESS"] = "none"

# Nothing of what tests record, predict or check is left in the user's own folders, and none of it is found there. A
# prediction depends on the machine: tests of what `build` does without records ask for it.
_USERS = tempfile.TemporaryDirectory(prefix="autosched-tests-")
for _name in ("data", "cache"):
    os.environ[f"XDG_{_name.upper()}_HOME"] = str(Path(_USERS.name) / _name)
os.environ["AUTOSCHED_PREDICT"] = "0"

from golden_files import compare_golden  # noqa: E402 - found by the path set above

TESTS = Path(__file__).parent
#: Cases of one test on devices, more of which are thinned out in a run that is not nightly.
LARGE_FAMILY = 3
#: Seconds that a whole run may take: several times what it does on two slow cores.
RUN_LIMIT_S = 60 * 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts instead of comparing")
    parser.addoption("--nightly", action="store_true", help="run the tests that take minutes as well")


def pytest_configure(config: pytest.Config) -> None:
    from crash_tolerance import CrashStacks, RunLimit

    config.pluginmanager.register(CrashStacks())
    if not hasattr(config, "workerinput") and not config.getoption("--nightly"):  # workers end with their controller
        config.pluginmanager.register(RunLimit(RUN_LIMIT_S))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from crash_tolerance import CrashTolerantScheduling

    return CrashTolerantScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--nightly"):
        _thin_out(config, items)
        for item in items:
            if item.get_closest_marker("nightly"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: pytest --nightly"))


@pytest.fixture(autouse=True, scope="module")
def users_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What one file's tests record is not found by another's that runs in the same process."""
    before = os.environ["XDG_DATA_HOME"]
    os.environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data"))
    yield
    os.environ["XDG_DATA_HOME"] = before


@pytest.fixture(autouse=True, scope="module")
def no_old_garbage() -> Iterator[None]:
    """What outlives a file's tests is not looked through again by each full collection: that was a sixth of all the time."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def own_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions, symbols, intrinsics and their rules that a test registers are forgotten after it."""
    from autosched.ir import calls, functions
    from autosched.te import tensor_intrin

    registries = {
        functions: ("_functions", "_symbols", "_libraries", "_numpy"),
        calls: ("_rules", "_attributes"),
        tensor_intrin: ("_declared",),
    }
    for module, names in registries.items():
        for name in names:
            monkeypatch.setattr(module, name, dict(getattr(module, name)))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`golden(text, name=...)` compares a text with its file; the name is the test's unless given."""
    kind = request.path.relative_to(TESTS).parts[0]
    folder = TESTS / kind / "golden" / request.path.stem.removeprefix("test_")
    used: set[str] = set()

    def check(text: str, name: str | None = None) -> None:
        stem = re.sub(r"[^\w.=+-]+", "_", name or request.node.name).strip("_")
        if stem in used:
            raise ValueError(f"{stem} names two golden texts of one test")
        used.add(stem)
        compare_golden(folder / f"{stem}.txt", text, request.config.getoption("--update-golden"))

    return check


def _thin_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a large family of cases on devices, take every third one, of a larger one every fourth or tenth, if the whole
    suite runs: the nightly run has the others."""
    if not all(Path(arg).resolve() in (TESTS, TESTS.parent) for arg in config.args):
        return
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if (TESTS / "device") in item.path.parents:
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left: set[pytest.Item] = set()
    for cases in families.values():
        if len(cases) > LARGE_FAMILY:
            left |= {*cases} - {*cases[:: 3 if len(cases) <= 8 else 4 if len(cases) <= 24 else 10]}
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]
