"""`tvm.autotvm.tophub`: TVM downloaded logs of its own operators here. There are none to download."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from os import PathLike
from typing import Any

from autosched.tvm.autotvm.dispatcher import ApplyHistoryBest

__all__ = ["context"]

_logger = logging.getLogger("autotvm")


def context(target: Any, extra_files: Sequence[str | PathLike[str]] | None = None) -> ApplyHistoryBest:
    """A context with the best of `extra_files`: nothing else is known of any target.

    Raises RecordError for a file that is not there.
    """
    if not extra_files:
        _logger.info("there are no records to download for %s: templates use what contexts around this one say", target)
    return ApplyHistoryBest(list(extra_files or ()))
