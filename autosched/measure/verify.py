"""Is an output right: tolerances, poison, guard pages, comparison with the reference."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from autosched.te.rounding import EXACT, Rounding

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


Array = np.ndarray[Any, Any]

#: Outputs up to this size are compared whole (about 10 ms per 10 MB); larger ones are sampled.
FULL_LIMIT_BYTES = 64 << 20

_REMEDY = "-strict in the target keeps multiply-adds apart; see docs/semantics.md"

_CHUNK = 1 << 20  # elements compared at a time: bounds the temporaries
_SAMPLE_ENDS = 1 << 16  # elements at either end
_SAMPLE_BLOCKS, _SAMPLE_BLOCK = 2048, 64  # evenly spread blocks in between

#: Float dtype -> (rtol, atol as a share of the output's largest magnitude).
#: float16 keeps 3 digits, float32 7, float64 16; sums over some thousand terms lose 2 to 3 of them.
_TOLERANCES = {
    "float16": (1e-2, 1e-3),
    "float32": (1e-4, 1e-5),
    "float64": (1e-9, 1e-12),
}


def tolerance(dtype: np.dtype[Any]) -> tuple[float, float]:
    """(rtol, share): default error allowed for a float output; (0, 0), exact, for the others.

    An element may be off by `rtol * |expected| + share * max|expected|`. The second term is
    relative to the whole output, so that small numbers are not compared with nothing.
    """
    return _TOLERANCES.get(dtype.name, (0.0, 0.0))


def allowed_error(
    expected: Array, rtol: float | None, atol: float | None, rounding: Rounding = EXACT
) -> tuple[float, float]:
    """(rtol, absolute atol) for one output: `|got - expected| <= atol + rtol * |expected|`.

    Arguments that are not None win over the defaults, for integers too. `rounding` is what the op graph leaves open
    (`te.rounding`): its step adds to the default `atol`. A bool is never off by a little.
    """
    if expected.dtype.kind == "b":
        return 0.0, 0.0
    default_rtol, share = tolerance(expected.dtype)
    if atol is None:
        atol = rounding.step + (share * _largest(expected) if share else 0.0)
    return (default_rtol if rtol is None else rtol), atol


def _largest(expected: Array) -> float:
    """The largest magnitude among the finite elements."""
    largest = 0.0
    for chunk in _chunks(expected.reshape(-1)):
        finite = chunk[np.isfinite(chunk)]
        if finite.size:
            largest = max(largest, float(np.abs(finite).max()))
    return largest


def poison(array: Array, variant: int) -> None:
    """Fill an output with values that are not the answer; there are two variants, 0 and 1.

    An element that is never written and happens to equal one poison differs from the other:
    NaN and half the largest number for floats, bytes 0xA5 and 0x5A for the rest.
    """
    if array.dtype.kind == "f":
        array.fill(np.nan if variant == 0 else np.finfo(array.dtype).max / 2)
    else:
        array.reshape(-1).view(np.uint8).fill(0xA5 if variant == 0 else 0x5A)


def sample_positions(size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Flat positions, ascending, of the elements compared in an output too large to compare whole.

    Both ends, and blocks at regular distances; the same for every candidate of that size.
    """
    if size <= 2 * _SAMPLE_ENDS + _SAMPLE_BLOCKS * _SAMPLE_BLOCK:
        return np.arange(size, dtype=np.int64)
    starts = np.linspace(_SAMPLE_ENDS, size - _SAMPLE_ENDS - _SAMPLE_BLOCK, _SAMPLE_BLOCKS).astype(np.int64)
    blocks = (starts[:, None] + np.arange(_SAMPLE_BLOCK)).reshape(-1)
    ends = np.arange(_SAMPLE_ENDS, dtype=np.int64)
    return np.unique(np.concatenate([ends, blocks, size - 1 - ends]))


def compare(
    got: Array,
    expected: Array,
    rtol: float,
    atol: float,
    positions: np.ndarray[Any, Any] | None = None,
    rounding: Rounding = EXACT,
) -> str:
    """Empty when `got` is right, else how many elements differ, where first, and by how much.

    Shapes and dtypes are equal. Numbers may differ by `atol + rtol * |expected|`; NaN must meet NaN, and infinities
    must be equal, in their sign too unless `rounding` says otherwise. Where both tolerances are 0, integers must
    be equal bit for bit, and bools always. With `positions` (flat, ascending) only those elements are compared.
    """
    shape = got.shape
    flat_got, flat_expected = got.reshape(-1), expected.reshape(-1)
    if positions is not None:
        flat_got, flat_expected = flat_got[positions], flat_expected[positions]
    count, first, largest = 0, -1, 0.0
    for start in range(0, flat_got.size, _CHUNK):
        a, b = flat_got[start : start + _CHUNK], flat_expected[start : start + _CHUNK]
        if _same_bits(a, b):
            continue
        wrong = _wrong(a, b, rtol, atol, rounding.either_sign)
        if wrong.any():
            first = start + int(wrong.argmax()) if first < 0 else first
            count += int(wrong.sum())
            largest = max(largest, _largest_difference(a[wrong], b[wrong]))
    if count == 0:
        return ""
    where = int(positions[first]) if positions is not None else first
    index = ", ".join(str(int(i)) for i in np.unravel_index(where, shape)) if shape else ""
    among = f"{flat_got.size:,} sampled" if positions is not None else f"{flat_got.size:,}"
    why = f"; {rounding.undecided}: {_REMEDY}" if rounding.undecided else ""
    by = f"; largest difference {largest:.6g}" if np.isfinite(largest) else ""
    return (
        f"{count:,} of {among} elements differ, first at [{index}]: "
        f"got {_show(flat_got, first)}, expected {_show(flat_expected, first)}{by}{why}"
    )


def differing_bytes(a: Array, b: Array) -> int:
    """Number of elements of two equally shaped arrays that are not the same bit for bit."""
    pairs = zip(_chunks(a.reshape(-1)), _chunks(b.reshape(-1)), strict=True)
    return sum(int(_bits_differ(x, y).sum()) for x, y in pairs if not _same_bits(x, y))


def _chunks(flat: Array) -> Iterator[Array]:
    for start in range(0, flat.size, _CHUNK):
        yield flat[start : start + _CHUNK]


def _same_bits(a: Array, b: Array) -> bool:
    """Whether two pieces of arrays are alike. Most are: eight bytes are looked at together."""
    x, y = a.view(np.uint8), b.view(np.uint8)
    whole = x.size // 8 * 8
    words = np.array_equal(x[:whole].view(np.uint64), y[:whole].view(np.uint64))
    return words and np.array_equal(x[whole:], y[whole:])


def _bits_differ(a: Array, b: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Per element. As integers, because NaN != NaN, and because a bool may hold a poisoned byte."""
    bits = f"u{a.dtype.itemsize}"
    return np.asarray(a.view(bits) != b.view(bits))


def _wrong(a: Array, b: Array, rtol: float, atol: float, either_sign: bool) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Per element: whether `a` is further from `b` than is allowed."""
    if a.dtype.kind == "f":
        return _wrong_floats(a, b, rtol, atol, either_sign)
    if a.dtype.kind == "b" or not (rtol or atol):
        return _bits_differ(a, b)
    return np.asarray(_distance(a, b) > atol + rtol * np.abs(b.astype(np.float64)))


def _distance(a: Array, b: Array) -> Array:
    """|a - b| of integers, which their unsigned type always holds."""
    unsigned = f"u{a.dtype.itemsize}"
    x, y = a.view(unsigned), b.view(unsigned)
    return np.where(a > b, x - y, y - x)


def _wrong_floats(
    a: Array, b: Array, rtol: float, atol: float, either_sign: bool
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    with np.errstate(invalid="ignore", over="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        close = np.abs(x - y) <= atol + rtol * np.abs(y)
        # An infinite bound would let any number pass where infinity is expected.
        close &= np.isfinite(x) & np.isfinite(y)
        if either_sign:
            close |= np.isinf(x) & np.isinf(y)
        return np.asarray(~(close | (x == y) | (np.isnan(x) & np.isnan(y))))


def _largest_difference(a: Array, b: Array) -> float:
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(_as_numbers(a) - _as_numbers(b))
    return float(difference.max())


def _as_numbers(a: Array) -> Array:
    return a.view(np.uint8).astype(np.float64) if a.dtype.kind == "b" else a.astype(np.float64)


def _show(flat: Array, i: int) -> str:
    if flat.dtype.kind == "b":
        byte = int(flat.view(np.uint8)[i])
        return str(bool(byte)) if byte < 2 else f"byte {byte:#x}"
    return f"{flat[i].item():.9g}" if flat.dtype.kind == "f" else str(flat[i].item())
