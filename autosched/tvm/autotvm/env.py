"""`tvm.autotvm.env`: what holds for all tuners of a process."""

from __future__ import annotations

import logging

__all__ = ["GLOBAL_SCOPE", "AutotvmGlobalScope"]


class AutotvmGlobalScope:
    """`silent = True` keeps warnings and progress bars away. The other attributes are TVM's own business and
    change nothing."""

    def __init__(self) -> None:
        self.in_tuning = False
        self.cuda_target_arch = None

    @property
    def silent(self) -> bool:
        """Whether nothing is told but errors."""
        return logging.getLogger("autotvm").level >= logging.ERROR

    @silent.setter
    def silent(self, value: bool) -> None:
        logging.getLogger("autotvm").setLevel(logging.ERROR if value else logging.NOTSET)


GLOBAL_SCOPE = AutotvmGlobalScope()
