"""`with few_collections():` around work that keeps most of what it makes."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Collections are this rare: at the usual rate they took a third of the time of lowering the sketches of a pipeline of
#: twenty stages, each walking over all that was there before, in vain.
THRESHOLDS = 50_000, 20, 20
_lock = threading.Lock()
_before: list[tuple[int, int, int]] = []  # what was set when the first of those now at work began
_at_work = [0]


@contextmanager
def few_collections() -> Iterator[None]:
    """Let Python look for unreachable circles seldom, until the last block that asks for it ends, in any thread.

    >>> import gc
    >>> usual = gc.get_threshold()
    >>> with few_collections():
    ...     gc.get_threshold() == THRESHOLDS
    True
    >>> gc.get_threshold() == usual
    True
    """
    with _lock:
        if not _at_work[0]:
            _before[:] = [gc.get_threshold()]
            gc.set_threshold(*THRESHOLDS)
        _at_work[0] += 1
    try:
        yield
    finally:
        with _lock:
            _at_work[0] -= 1
            if not _at_work[0]:
                gc.set_threshold(*_before[0])
