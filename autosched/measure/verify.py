"""Verifying outputs: guarded memory, tolerances, comparison with the reference, and a caller's own check.

A function of the caller's cannot be sent to a worker without sending code, but what it looks at is data: the runner
writes the outputs of a verified call into files of the session's folder, and `Inspection` shows them to the function.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import Malformed
from autosched.ir.dtype import from_file, is_float
from autosched.te.rounding import EXACT, Rounding

Array = np.ndarray[Any, Any]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
#: Offset of arrays within a cache line. Large NumPy arrays follow malloc's header, so that vectors of 64 bytes cross
#: lines; timing on better aligned memory would favour other schedules than users' arrays do.
OFFSET = 16
_CANARY = 0xC3
_HUGE = 4 << 20  # bytes from which on NumPy asks for huge pages, and so timing has to
_PROT_NONE = 0


class GuardedArray:
    """Memory for one array: aligned as NumPy aligns, between guard pages, its end as close to one as that allows.

    An access outside of the pages that hold `array` ends the process. `array` is zeroed. The memory is never freed.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        page = mmap.PAGESIZE
        room = -(-max(nbytes - (ALIGNMENT - OFFSET), 0) // ALIGNMENT) * ALIGNMENT + ALIGNMENT - OFFSET
        inner = -(-room // page) * page
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
        """Whether the bytes around the array, up to the guard pages, are as `repair` left them."""
        return all(bool((margin == _CANARY).all()) for margin in self._margins)

    def repair(self) -> None:
        """Fill the bytes around the array with the pattern that `intact` expects."""
        for margin in self._margins:
            margin[:] = _CANARY


def protect(address: int, nbytes: int) -> None:
    """Forbid any access to the pages that these bytes fill. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), _PROT_NONE):
        number = ctypes.get_errno()
        raise OSError(number, f"mprotect: errno {number}")


#: Outputs up to this size are compared whole, which takes 1 ms for each MB; of larger ones a sample is.
FULL_LIMIT_BYTES = 64 << 20

_REMEDY = "-strict in the target keeps multiply-adds apart; see docs/semantics.md"

#: Times the spread that an element may be off: one random rounding is a sample, other code rounds elsewhere. And the
#: share of the largest magnitude from which on that would hide faults.
_SPREADS, _MOST_SPREAD = 8, 1e-2

_CHUNK = 1 << 20  # elements compared at a time, which bounds the temporaries
_SAMPLE_ENDS = 1 << 16  # elements at either end
_SAMPLE_BLOCKS, _SAMPLE_BLOCK = 2048, 64  # number and length of the blocks between the ends

#: Float type -> (rtol, atol as a share of the output's largest magnitude). A bfloat16 has 2 digits, a float16 3,
#: a float32 7, a float64 16; a sum of some thousand terms loses 2 to 3 of them. Other types are exact.
_TOLERANCES = {
    "bfloat16": (4e-2, 4e-3),
    "float16": (1e-2, 1e-3),
    "float32": (1e-4, 1e-5),
    "float64": (1e-9, 1e-12),
}


def allowed_error(
    expected: Array, rtol: float | None, atol: float | None, rounding: Rounding = EXACT
) -> tuple[float, float]:
    """(rtol, absolute atol) of one output, for `|got - expected| <= atol + rtol * |expected|`.

    `rtol` and `atol` take the place of the type's defaults, of integers too, unless they are None. The default `atol`
    is relative to the largest element, because small elements of an output carry its rounding errors as well; the step
    of `rounding`, which the op graph leaves open (`te.rounding`), adds to it, and so do a few times its spread. Bools
    are exact.
    """
    if expected.dtype.kind == "b":
        return 0.0, 0.0
    default_rtol, share = _TOLERANCES.get(expected.dtype.name, (0.0, 0.0))
    if atol is None:
        atol = rounding.step + (share * _largest(expected) + _moves(rounding, expected) if share else 0.0)
    return (default_rtol if rtol is None else rtol), atol


def _moves(rounding: Rounding, expected: Array) -> float:
    """Several times what the last bits of intermediates move elements by; 0 where that would hide wrong ones."""
    room = _SPREADS * rounding.spread
    return room if room <= _MOST_SPREAD * _largest(expected) else 0.0


def _largest(expected: Array) -> float:
    """The largest magnitude among the finite elements."""
    largest = 0.0
    for chunk in _chunks(expected.reshape(-1)):
        finite = chunk[np.isfinite(chunk)]
        if finite.size:
            largest = max(largest, float(np.abs(finite).max()))
    return largest


def poison(array: Array, variant: int) -> None:
    """Fill an output with wrong values, of variant 0 or 1: an element that nobody writes equals at most one of them.

    Floats are NaN or half the largest number; of other types all bytes are 0xA5 or 0x5A.
    """
    if is_float(array.dtype):
        array.fill(np.nan if variant == 0 else 2.0**126 if array.dtype.kind == "V" else np.finfo(array.dtype).max / 2)
    else:
        array.reshape(-1).view(np.uint8).fill(0xA5 if variant == 0 else 0x5A)


def sample_positions(size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Flat positions, ascending, of the elements to compare of an output of `size` elements.

    They are both ends and blocks at equal distances, the same for every candidate; all elements of a small output.
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
    """Return an empty text if `got` is right, else how many elements differ, where the first is, and by how much.

    got, expected: arrays of one shape and type
    rtol, atol:    numbers may differ by `atol + rtol * |expected|`. NaN equals NaN only, an infinity one of its sign
                   unless `rounding` leaves the sign open; bools are exact, and integers where both are 0
    positions:     flat, ascending: compare these elements only
    """
    shape = got.shape
    flat_got, flat_expected = got.reshape(-1), expected.reshape(-1)
    if positions is not None:
        flat_got, flat_expected = flat_got[positions], flat_expected[positions]
    count, first, largest = 0, -1, 0.0
    for k, (a, b) in enumerate(zip(_chunks(flat_got), _chunks(flat_expected), strict=True)):
        if _same_bits(a, b):
            continue
        start = k * _CHUNK
        wrong = _wrong(a, b, rtol, atol, rounding.either_sign)
        if wrong.any():
            first = start + int(wrong.argmax()) if first < 0 else first
            count += int(wrong.sum())
            with np.errstate(invalid="ignore", over="ignore"):
                largest = max(largest, float(np.abs(_as_numbers(a[wrong]) - _as_numbers(b[wrong])).max()))
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
    """The number of elements of two arrays of one shape and type that differ in their bits."""
    pairs = zip(_chunks(a.reshape(-1)), _chunks(b.reshape(-1)), strict=True)
    return sum(int(_bits_differ(x, y).sum()) for x, y in pairs if not _same_bits(x, y))


def _chunks(flat: Array) -> Iterator[Array]:
    for start in range(0, flat.size, _CHUNK):
        yield flat[start : start + _CHUNK]


def _same_bits(a: Array, b: Array) -> bool:
    """Whether two pieces of arrays are equal, compared eight bytes at a time: most are."""
    x, y = a.view(np.uint8), b.view(np.uint8)
    whole = x.size // 8 * 8
    words = np.array_equal(x[:whole].view(np.uint64), y[:whole].view(np.uint64))
    return words and np.array_equal(x[whole:], y[whole:])


def _bits_differ(a: Array, b: Array) -> Bools:
    """Which elements differ, compared as integers: NaN != NaN, and a bool may hold a poisoned byte."""
    bits = f"u{a.dtype.itemsize}"
    return np.asarray(a.view(bits) != b.view(bits))


def _wrong(a: Array, b: Array, rtol: float, atol: float, either_sign: bool) -> Bools:
    """Which elements of `a` are further from those of `b` than is allowed."""
    if is_float(a.dtype):
        return _wrong_floats(a, b, rtol, atol, either_sign)
    if a.dtype.kind == "b" or not (rtol or atol):
        return _bits_differ(a, b)
    unsigned = f"u{a.dtype.itemsize}"  # which holds any difference
    x, y = a.view(unsigned), b.view(unsigned)
    return np.asarray(np.where(a > b, x - y, y - x) > atol + rtol * np.abs(b.astype(np.float64)))


def _wrong_floats(a: Array, b: Array, rtol: float, atol: float, either_sign: bool) -> Bools:
    with np.errstate(invalid="ignore", over="ignore"):
        x, y = a.astype(np.float64), b.astype(np.float64)
        close = np.abs(x - y) <= atol + rtol * np.abs(y)
        # An infinite bound would let any number pass where infinity is expected.
        close &= np.isfinite(x) & np.isfinite(y)
        if either_sign:
            close |= np.isinf(x) & np.isinf(y)
        return np.asarray(~(close | (x == y) | (np.isnan(x) & np.isnan(y))))


def _as_numbers(a: Array) -> Array:
    return a.view(np.uint8).astype(np.float64) if a.dtype.kind == "b" else a.astype(np.float64)


def _show(flat: Array, i: int) -> str:
    if flat.dtype.kind == "b":
        byte = int(flat.view(np.uint8)[i])
        return str(bool(byte)) if byte < 2 else f"byte {byte:#x}"
    return f"{flat[i].item():.9g}" if is_float(flat.dtype) else str(flat[i].item())


# -- outputs shown to a function of the caller's ---------------------------------------------------
#: A function that is given all outputs, in the order of the kernel's parameters. It returns what is wrong, empty when
#: nothing is.
Inspector = Callable[[list[Array]], str]

#: Names of the calls whose outputs are shown: the first one, and the last one that was timed.
FIRST, AFTER = "first", "after"


def write_outputs(outputs: Iterable[Array], place: str, call: str) -> None:
    """Write what a call left behind, in the runner's process; `place` is the beginning of the files' names."""
    for i, array in enumerate(outputs):
        np.save(_path(place, call, i), array, allow_pickle=False)


def _path(place: str, call: str, i: int) -> str:
    return f"{place}-{call}-{i}.npy"


class Inspection:
    """The check by a function of the caller's, in the caller's process.

    like:  arrays of the shapes and types of the outputs;  place: the beginning of the files' names
    """

    def __init__(self, inspector: Inspector, like: Sequence[Array], place: Path) -> None:
        self._inspector, self.place = inspector, str(place)
        self._like = [(a.shape, a.dtype) for a in like]

    def verdict(self, calls: Sequence[str]) -> str:
        """Return what is wrong with the outputs of the first of these calls that is wrong, and remove the files.

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
            array: Array = from_file(np.load(path, allow_pickle=False))
        except (OSError, ValueError, EOFError) as error:
            raise Malformed(f"its outputs cannot be read: {error}") from None
        path.unlink(missing_ok=True)
        if (array.shape, array.dtype) != self._like[i]:
            raise Malformed(f"an output is {array.dtype}{list(array.shape)}")
        return array
