"""Every message that a schedule or its lowering can give: what was asked, why not, what is legal.

A golden text holds the messages of one primitive (or of one stage of lowering), so that they can be
read side by side in review.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import block_errors
import lower_errors
import pytest
import schedule_errors
import verify_errors

from autosched.errors import AutoschedError, LowerError, ScheduleError

Case = Callable[[], object]


def message(case: Case, kind: type[AutoschedError]) -> AutoschedError:
    with pytest.raises(kind) as raised:
        case()
    assert type(raised.value) is kind
    return raised.value


def normalised(error: AutoschedError) -> str:
    """Without what depends on where the checkout is and where in the file a case stands."""
    return re.sub(r"at \S*/(\w+\.py):\d+", r"at \1:LINE", str(error))


def title(case: Case) -> str:
    return case.__name__.replace("_", " ")


#: Cases that raise ScheduleError: the names of their golden texts, and the cases.
SCHEDULES = {
    **schedule_errors.CASES,
    **{f"tir_{part}": cases for part, cases in block_errors.CASES.items()},
    **{f"later_{part}": cases for part, cases in verify_errors.CASES.items()},
}


@pytest.mark.parametrize("primitive", SCHEDULES)
def test_schedule_messages(primitive: str, golden: Callable[..., None]) -> None:
    texts = []
    for case in SCHEDULES[primitive]:
        error = message(case, ScheduleError)
        texts.append(f"-- {title(case)}\n{normalised(error)}\n")
        assert error.why
        assert not error.why.endswith(".")
        assert error.legal
        assert names_the_callers_line(error, case)
    golden("\n".join(texts), primitive)


@pytest.mark.parametrize("part", lower_errors.CASES)
def test_lowering_messages(part: str, golden: Callable[..., None]) -> None:
    texts = []
    for case in lower_errors.CASES[part]:
        error = message(case, LowerError)
        texts.append(f"-- {title(case)}\n{normalised(error)}\n")
        assert error.why
        assert error.legal
        assert "defect" not in str(error)
        assert names_the_callers_line(error, case)
    golden("\n".join(texts), f"lower_{part}")


def names_the_callers_line(error: AutoschedError, case: Case) -> bool:
    """The line of the case that made the call; or, in a helper of its module, the one that lowers."""
    found = re.search(r" at (.*):(\d+)$", error.asked)
    assert found is not None, error.asked
    first = case.__code__.co_firstlineno
    inside = first < int(found[2]) <= first + len(inspect.getsource(case).splitlines())
    return found[1] == case.__code__.co_filename and (inside or " lowered at " in error.asked)
