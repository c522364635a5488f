"""What the shims of AutoTVM and of Ansor share."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from autosched.errors import UsageError
from autosched.measure import MeasureOptions
from autosched.tvm import auto_scheduler, autotvm
from autosched.tvm.tuning_common import Context, options_of


def test_each_shim_has_contexts_of_its_own() -> None:
    outer = autotvm.DispatchContext.current, auto_scheduler.DispatchContext.current
    with autotvm.ApplyHistoryBest(None) as one, auto_scheduler.ApplyHistoryBest(None) as other:
        assert autotvm.DispatchContext.current is one and auto_scheduler.DispatchContext.current is other
        with autotvm.ApplyHistoryBest(None) as inner:
            assert autotvm.DispatchContext.current is inner and auto_scheduler.DispatchContext.current is other
        assert autotvm.DispatchContext.current is one
    assert (autotvm.DispatchContext.current, auto_scheduler.DispatchContext.current) == outer


def test_a_context_that_was_never_entered_cannot_be_left() -> None:
    class Family(Context):
        pass

    with pytest.raises(AssertionError):
        Family().__exit__()


@pytest.mark.parametrize("shim", [autotvm, auto_scheduler])
def test_runners_elsewhere_are_refused_in_the_words_of_the_shim(shim) -> None:
    with pytest.raises(UsageError) as error:
        shim.RPCRunner("board", host="tracker")
    assert f"  {shim.__name__.rpartition('.')[2]}.LocalRunner(...)" in str(error.value)


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({"number": None, "repeat": None, "min_repeat_ms": None}, {}),
        ({"number": 7, "repeat": 2, "min_repeat_ms": 0}, {"number": 7, "repeat": 2}),
        ({"number": 7, "repeat": 2, "min_repeat_ms": 50}, {"repeat": 2, "min_repeat_ms": 50}),
    ],
)
def test_what_is_not_said_is_as_by_default(said: dict, options: dict) -> None:
    found = options_of(SimpleNamespace(timeout=9, n_parallel=None), SimpleNamespace(timeout=5, **said))
    assert found == MeasureOptions(timeout_s=5, build_timeout_s=9, **options)
