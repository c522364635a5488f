"""The golden fixture fails when it should: a comparison that cannot fail proves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.outcomes import Failed
from golden_files import compare_golden


def test_update_writes_what_a_comparison_accepts(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.txt"
    compare_golden(path, "one\ntwo", update=True)
    compare_golden(path, "one\ntwo\n", update=False)


def test_a_missing_text_is_a_failure_and_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"does not exist.*\n.*one"):
        compare_golden(tmp_path / "a.txt", "one", update=False)
    assert not list(tmp_path.iterdir())


def test_a_changed_text_is_a_failure_that_shows_the_lines(tmp_path: Path) -> None:
    compare_golden(tmp_path / "a.txt", "one\ntwo", update=True)
    with pytest.raises(Failed, match=r"(?s)-two\n\+three"):
        compare_golden(tmp_path / "a.txt", "one\nthree", update=False)
