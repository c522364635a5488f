"""Outputs shown to a function of the caller's, in the caller's process.

A function cannot be sent to a worker without sending code, but what it looks at is data: the runner writes
the outputs of a verified call into files of the session's folder, and the parent hands them over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import Malformed

Array = np.ndarray[Any, Any]

#: Is given all outputs, in the order of the kernel's parameters. Returns what is wrong; empty when nothing is.
Inspector = Callable[[list[Array]], str]

#: Calls whose outputs are shown: the first one, and the last one that was timed.
FIRST, AFTER = "first", "after"


def write_outputs(outputs: Iterable[Array], place: str, call: str) -> None:
    """The runner's side: write what a call left behind."""
    for i, array in enumerate(outputs):
        np.save(_path(place, call, i), array, allow_pickle=False)


def _path(place: str, call: str, i: int) -> str:
    return f"{place}-{call}-{i}.npy"


class Inspection:
    """The parent's side. `like` has the shapes and types of the outputs, `place` is where files may be written."""

    def __init__(self, inspector: Inspector, like: Sequence[Array], place: Path) -> None:
        self._inspector, self.place = inspector, str(place)
        self._like = [(a.shape, a.dtype) for a in like]

    def verdict(self, calls: Sequence[str]) -> str:
        """What is wrong with the outputs of these calls, the first of them first; the files are removed.

        Raises Malformed when the runner did not write what it should.
        """
        for call in calls:
            wrong = self._inspector([self._read(call, i) for i in range(len(self._like))])
            if wrong:
                return wrong
        return ""

    def _read(self, call: str, i: int) -> Array:
        path = Path(_path(self.place, call, i))
        try:
            array: Array = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise Malformed(f"its outputs cannot be read: {error}") from None
        path.unlink(missing_ok=True)
        if (array.shape, array.dtype) != self._like[i]:
            raise Malformed(f"an output is {array.dtype}{list(array.shape)}")
        return array
