"""No message without a case: every `raise` in schedules and lowering is reached, every primitive has its golden."""

from __future__ import annotations

import ast
import traceback
from pathlib import Path

import block_errors
import lower_errors
import schedule_errors
import verify_errors
from error_cases import attempt

import autosched
from autosched.errors import AutoschedError
from autosched.schedule.primitive import PRIMITIVES

ROOT = Path(autosched.__file__).parent
RAISED = ("Illegal", "ScheduleError", "LowerError")
#: Messages that no call of a schedule causes, with a part of their source: they say that an invariant broke, or are about
#: a stored trace (`tests/unit/schedule/test_meaning.py`), or sizes that are told once it is lowered
#: (`tests/device/lowering/test_sizes_as_numbers.py`).
DEFENCES = {
    "schedule/primitive.py": "a stored schedule may not use it",
    "lowering/nest.py": "has no reduce loop",
    "lowering/verify.py": "a defect of lowering",
    "lowering/pipeline.py": "with {values}",
    "schedule/scans.py": "it depends on the state of",
}

Place = tuple[Path, int, int]


def sites() -> dict[Place, str]:
    """Where such an error is raised: file, first and last line, and its source."""
    found = {}
    for folder in ("schedule", "lowering"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)):
                raised = getattr(node, "exc", None)
                if isinstance(raised, ast.Call) and getattr(raised.func, "id", "") in RAISED:
                    place = (path, raised.lineno, raised.end_lineno or raised.lineno)
                    found[place] = ast.get_source_segment(text, raised) or ""
    return found


def reached() -> set[tuple[Path, int]]:
    """The lines that the cases' errors came through, those of the errors that they replaced included."""
    lines = set()
    for parts, *given in (
        (schedule_errors.CASES, schedule_errors.schedule),
        (verify_errors.CASES, schedule_errors.schedule, verify_errors.finish),
        (block_errors.CASES, block_errors.blocks),
        (lower_errors.CASES, lower_errors.program),
    ):
        for cases in parts.values():
            for case in cases.values():
                try:
                    attempt(case, *given)
                except AutoschedError as error:
                    seen: BaseException | None = error
                    while seen is not None:
                        lines |= {(Path(f.f_code.co_filename), n) for f, n in traceback.walk_tb(seen.__traceback__)}
                        seen = seen.__context__
    return lines


def test_every_message_has_a_case() -> None:
    found, lines = sites(), reached()
    assert len(found) > 150
    missing = {
        f"{path.relative_to(ROOT)}:{first}": text
        for (path, first, last), text in found.items()
        if not any((path, n) in lines for n in range(first, last + 1))
    }
    left = {k: v for k, v in missing.items() if DEFENCES.get(k.partition(":")[0], "no defence") not in v}
    assert not left
    assert len(missing) == len(DEFENCES), "a defence that is reached, or gone, is no exception any more"


def test_every_primitive_has_its_messages() -> None:
    assert set(PRIMITIVES) <= set(schedule_errors.CASES)
