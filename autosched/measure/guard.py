"""Arrays between two pages that cannot be touched.

A candidate that runs past the end of an array (or before its start) by more than 63 bytes dies of
SIGSEGV on the spot; one that writes fewer bytes too many changes the pattern around the array,
which `intact` sees. The arrays are made once per worker and shared by all candidates, so this costs
nothing per candidate.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

__all__ = ["ALIGNMENT", "GuardedArray", "protect"]

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
#: Where arrays start within a cache line: large NumPy arrays follow malloc's header, so that vectors
#: of 64 bytes cross lines. Timing on better aligned memory would favour schedules that users regret.
OFFSET = 16
_CANARY = 0xC3
_HUGE = 4 << 20  # NumPy asks for huge pages from this size on; so do we, to time what users will see
_PROT_NONE = 0


class GuardedArray:
    """Memory for one array, aligned as NumPy's, its end as close to the guard page as that allows.

    Nothing can be read or written outside of the pages that hold the array; `array` is zeroed.
    The memory is kept until the process ends.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        page = mmap.PAGESIZE
        room = _round_up(max(nbytes - (ALIGNMENT - OFFSET), 0), ALIGNMENT) + ALIGNMENT - OFFSET
        inner = _round_up(room, page)
        # Private, as malloc's memory is: shared memory does not get huge pages.
        self._memory = mmap.mmap(-1, inner + 2 * page, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if nbytes >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        whole = np.frombuffer(self._memory, dtype=np.uint8)
        start = page + inner - room
        protect(whole.ctypes.data, page)
        protect(whole.ctypes.data + page + inner, page)
        self._margins = (whole[page:start], whole[start + nbytes : page + inner])
        self.array: np.ndarray[Any, Any] = whole[start : start + nbytes].view(dtype).reshape(shape)
        self.repair()

    def intact(self) -> bool:
        """Whether the bytes next to the array are as `repair` left them."""
        return all(bool((margin == _CANARY).all()) for margin in self._margins)

    def repair(self) -> None:
        for margin in self._margins:
            margin[:] = _CANARY


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def protect(address: int, nbytes: int) -> None:
    """Forbid any access to whole pages. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), _PROT_NONE):
        number = ctypes.get_errno()
        raise OSError(number, f"mprotect: errno {number}")
