"""Every message that a schedule or its lowering can give: what was asked, why not, what is legal.

A golden text holds the messages of one primitive (or of one stage of lowering), so that they can be
read side by side in review.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import block_errors
import lower_errors
import pytest
import schedule_errors
import verify_errors
from error_cases import Case, attempt, lines_of

from autosched import planning
from autosched.errors import AutoschedError, LowerError, RecordError, ScheduleError

#: Parts of which each case raises ScheduleError: the names of their golden texts, and what `attempt` takes besides the case.
SCHEDULES = {
    **{part: (cases, schedule_errors.schedule) for part, cases in schedule_errors.CASES.items()},
    **{f"tir_{part}": (cases, block_errors.blocks) for part, cases in block_errors.CASES.items()},
    **{
        f"later_{part}": (cases, schedule_errors.schedule, verify_errors.finish)
        for part, cases in verify_errors.CASES.items()
    },
}


def messages(cases: dict[str, Case], kind: type[AutoschedError], *given: Callable[..., object]) -> str:
    """The messages of all cases, without what depends on where the checkout is and where in the file a case stands."""
    texts = []
    for title, case in cases.items():
        with pytest.raises(kind) as raised:
            attempt(case, *given)
        error = raised.value
        assert type(error) is kind
        assert error.why and not error.why.endswith(".") and error.legal
        assert "defect" not in str(error)
        assert names_the_callers_line(error, case)
        texts.append(f"-- {title}\n" + re.sub(r"at \S*/(\w+\.py):\d+", r"at \1:LINE", str(error)) + "\n")
    return "\n".join(texts)


def names_the_callers_line(error: AutoschedError, case: Case) -> bool:
    """The line of the case that made the call; or, in a helper of its module, the one that lowers."""
    found = re.search(r" at (.*):(\d+)$", error.asked)
    assert found is not None, error.asked
    file, lines = lines_of(case)
    return found[1] == file and (int(found[2]) in lines or " lowered at " in error.asked)


@pytest.mark.parametrize("primitive", SCHEDULES)
def test_schedule_messages(primitive: str, golden: Callable[..., None]) -> None:
    cases, *given = SCHEDULES[primitive]
    golden(messages(cases, ScheduleError, *given), primitive)


@pytest.mark.parametrize("part", lower_errors.CASES)
def test_lowering_messages(part: str, golden: Callable[..., None]) -> None:
    golden(messages(lower_errors.CASES[part], LowerError, lower_errors.program), f"lower_{part}")


def test_a_record_cannot_make_a_warning_long() -> None:
    with pytest.warns(RuntimeWarning, match="record abc does not apply") as caught:
        planning.pass_over("abc", RecordError(f"knob {'r' * 30_000} has no value", legal="values: none"))
    assert len(str(caught[0].message)) < 600
