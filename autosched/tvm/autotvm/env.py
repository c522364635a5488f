"""`tvm.autotvm.env`: settings of all tuners of a process."""

from __future__ import annotations

import logging


class AutotvmGlobalScope:
    """`silent = True` keeps warnings and progress bars away. The other attributes are TVM's and change nothing."""

    in_tuning = False
    cuda_target_arch = None

    @property
    def silent(self) -> bool:
        """True to tell nothing but errors."""
        return logging.getLogger("autotvm").level >= logging.ERROR

    @silent.setter
    def silent(self, value: bool) -> None:
        logging.getLogger("autotvm").setLevel(logging.ERROR if value else logging.NOTSET)


GLOBAL_SCOPE = AutotvmGlobalScope()
