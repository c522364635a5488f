"""`tvm.autotvm.tophub`: TVM downloaded logs of its own operators here. There are none to download."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from os import PathLike
from typing import Any

from autosched.tvm.autotvm.task.dispatcher import ApplyHistoryBest

_logger = logging.getLogger("autotvm")


def context(target: Any, extra_files: Sequence[str | PathLike[str]] | None = None) -> ApplyHistoryBest:
    """Return a context with the best records of `extra_files`. Raises RecordError for a file that is not there."""
    if not extra_files:
        _logger.info("there are no records to download for %s: templates use what contexts around this one say", target)
    return ApplyHistoryBest(list(extra_files or ()))
