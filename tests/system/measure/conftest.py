from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # for the modules beside this file, whatever the import mode

from measuring import no_traces

from autosched.measure import Measurer


@pytest.fixture
def make_measurer(tmp_path: Path) -> Iterator[Callable[..., Measurer]]:
    """`make_measurer(target, **options)`; afterwards no process, descriptor or file may be left."""
    with no_traces(tmp_path) as make:
        yield make
