"""Workers that are started before a program has loaded what it needs itself: they load the compiler meanwhile.

with early.workers("llvm"):
    from autosched.tuning import tune    # takes as long as they need to start
    tune(...)                            # finds them
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from autosched.errors import AutoschedError
from autosched.measure.context import Workers
from autosched.measure.protocol import MeasureOptions
from autosched.target import Target

#: Builders that are started for the first candidates; others follow when there is more to build.
BUILDERS = 4

waiting: list[tuple[str, int, Workers]] = []


@contextmanager
def workers(target: str, options: MeasureOptions | None = None) -> Iterator[None]:
    """Meanwhile there are workers for the first search on this target that asks. What nobody took is ended."""
    options = options or MeasureOptions()
    found: Workers | None = None
    with suppress(AutoschedError, OSError):  # whoever needs them says what is wrong
        parsed = Target.parse(target)
        if parsed.kind == "llvm":  # of other kinds the device is asked for its limits first
            found = Workers.make(parsed, options)
            found.spawn(min(options.builders, BUILDERS))
            waiting.append((str(parsed), options.memory_limit_mb, found))
    try:
        yield
    finally:
        waiting.clear()
        if found is not None:
            found.close()


def take(target: Target, options: MeasureOptions, backend: str = "") -> Workers:
    """Workers for a search: those that wait, where they are what it needs, or new ones, which begin to start now."""
    for name, limit, found in waiting:
        if (name, limit, "") == (str(target), options.memory_limit_mb, backend):
            waiting.clear()
            return found
    made = Workers.make(target, options, backend)
    made.spawn(min(options.builders, BUILDERS))
    return made
