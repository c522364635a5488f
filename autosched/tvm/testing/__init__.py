"""`tvm.testing`: comparing arrays and expressions, and tests for the targets that this machine has.

What decorates tests asks for pytest, and loads it on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from autosched.tvm._missing import missing
from autosched.tvm.testing import utils
from autosched.tvm.testing.utils import assert_allclose as assert_allclose
from autosched.tvm.testing.utils import assert_prim_expr_equal as assert_prim_expr_equal
from autosched.tvm.testing.utils import check_numerical_grads as check_numerical_grads
from autosched.tvm.testing.utils import device_enabled as device_enabled
from autosched.tvm.testing.utils import enabled_targets as enabled_targets
from autosched.tvm.testing.utils import strtobool as strtobool

IS_IN_CI = utils.IS_IN_CI
#: names of `marks.py`, besides each `requires_*`
_MARKS = (
    "parameter parameters fixture parametrize_targets exclude_targets known_failing_targets skip_parameterizations "
    "xfail_parameterizations skip_if_32bit skip_if_wheel_test slow uses_gpu main is_ampere_or_newer"
).split()
_INSTEAD = {
    **dict.fromkeys(
        ("echo", "nop", "ErrorTest", "object_use_count", "device_test", "test_wrap_callback", "test_check_eq_callback"),
        "nothing: it tests the bridge between TVM's Python and C++, which is not here",
    ),
    "local_run": "tvm.build, and calling the module",
    "rpc_run": "modules run on this machine",
}
_missing = missing("testing", globals(), _INSTEAD)


def __getattr__(name: str) -> Any:
    home = "compare" if name == "CompareBeforeAfter" else "marks"
    if home == "compare" or name in _MARKS or name.startswith("requires_"):
        return getattr(import_module(f"autosched.tvm.testing.{home}"), name)
    return _missing(name)
