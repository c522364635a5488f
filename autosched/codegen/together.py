"""Loads and stores of vectors whose elements lie between each other's: those of pixels, and columns of little matrices.

The lanes of each are some elements apart; all of them together fill a stretch of memory, which is read or written
whole and taken apart, or put together, in registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autosched.codegen.lanes import as_ramp, line_of, reach_of
from autosched.ir.expr import Expr, is_const
from autosched.ir.stmt import Buffer, Stmt, Store
from autosched.ir.visit import post_order

#: a wide load of the rows has at most as many bytes: the widest register
WIDEST_BYTES = 64
#: with fewer columns or rows than this there is nothing to win
FEWEST = 4
#: stores of one square for each of its columns, at most: of results that are made together
STORES_OF_SQUARE = 4
#: shuffles cross the parts of a register of this many bytes at a higher price than within one
PART_BYTES = 16
#: up to this distance between lanes, one wide load and a shuffle beat a load per lane
WIDEST_STRIDE = 4
#: channels of pixels that are read together: LLVM has its own way with pairs
LEAST_CHANNELS = 3


@dataclass(frozen=True)
class Columns:
    """Loads of neighbouring columns: `loads[k]` reads base + k, base + k + stride, ..., one per lane.

    `channels` is the stride where these are all channels of pixels, else 0: columns of rows, of any length.
    """

    buffer: Buffer
    base: Expr
    stride: Expr
    channels: int
    lanes: int
    loads: tuple[Expr, ...]


@dataclass(frozen=True)
class Transposed:
    """Consecutive stores, and the columns that they read."""

    stores: tuple[Store, ...]
    columns: tuple[Columns, ...]


class _Beside:
    """Loads of one buffer whose lanes are equally far apart: columns, by how many elements they lie after the first."""

    def __init__(self, load: Expr) -> None:
        self.load, (self.base, self.stride) = load, _line(load)
        self.columns: dict[int, Expr] = {}

    def place(self, load: Expr, most: int) -> int | None:
        """Where a load belongs, if all columns from the first to the last are `most` at most then."""
        base, stride = _line(load)
        if load.value is not self.load.value or load.dtype != self.load.dtype or stride is not self.stride:
            return None
        at = distance(self.base, base)
        if at is None or max(at, *self.columns) - min(at, *self.columns) >= most:
            return None
        return at

    @property
    def is_whole(self) -> bool:
        """Whether there are enough columns, and none is missing between the first and the last: of a pixel, all."""
        if channels := _channels(self.stride):
            return len(self.columns) == channels
        return FEWEST <= len(self.columns) == max(self.columns) - min(self.columns) + 1

    def in_order(self) -> Columns:
        loads = tuple(self.columns[at] for at in sorted(self.columns))
        base, channels = _line(loads[0])[0], _channels(self.stride)
        return Columns(self.load.value, base, self.stride, channels, self.load.dtype.lanes, loads)


def transposed(stmts: Sequence[Stmt], start: int, least: int = WIDEST_STRIDE + 1) -> Transposed | None:
    """The stores from `stmts[start]` on that read, with a stride of `least` or more, neighbouring columns: all those
    between the first and the last, in any order, of one buffer or of several. None if there are none."""
    columns: list[_Beside] = []
    run: list[Store] = []
    stored: set[Buffer] = set()
    read: set[Buffer] = set()
    found: Transposed | None = None
    for s in stmts[start : start + STORES_OF_SQUARE * WIDEST_BYTES]:
        store = _plain_store(s)
        loads = [] if store is None else dict.fromkeys(_strided(store.value, least))
        if store is None or not loads:
            break
        for c in loads:
            channels = _channels(_line(c)[1])
            if channels and c.dtype.bytes < PART_BYTES:
                return found
            widest = channels or WIDEST_BYTES // c.dtype.scalar.bytes
            own = next(((x, at) for x in columns if (at := x.place(c, widest)) is not None), None)
            if own is None:
                if found is not None:  # the next square
                    return found
                columns.append(x := _Beside(c))
                own = x, 0
            own[0].columns[own[1]] = c
        run.append(store)
        stored.add(store.buffer)
        read |= _read([store])
        if stored.isdisjoint(read) and all(x.is_whole for x in columns):
            found = Transposed(tuple(run), tuple(x.in_order() for x in columns))
    return found


def _plain_store(s: Stmt) -> Store | None:
    """`s` if it stores a vector of what its buffer holds."""
    if not isinstance(s, Store) or len(s.indices) != 1 or s.indices[0].dtype.lanes == 1:
        return None
    return s if s.value.dtype.scalar == s.buffer.dtype else None


def _line(load: Expr) -> tuple[Expr, Expr]:
    line = as_ramp(load.args[0])
    assert line is not None
    return line


def _channels(stride: Expr) -> int:
    """How many elements lie from one lane to the next, if so few that what is between them is loaded, too; else 0."""
    return int(stride.value) if is_const(stride) and 0 < stride.value <= WIDEST_STRIDE else 0


def _strided(value: Expr, least: int) -> list[Expr]:
    """The loads whose lanes are at least so far apart, all alike. None where some are evaluated on demand: what lies
    between them would be read whether or not it is there."""
    found = []
    for e in post_order(value):
        if e.op in ("if_then_else", "and", "or"):
            return []
        if e.op == "load" and e.dtype.lanes >= FEWEST and len(e.args) == 1 and not e.dtype.is_bool:
            line = as_ramp(e.args[0])
            if line is not None and (line[1].value >= least if is_const(line[1]) else least > WIDEST_STRIDE):
                found.append(e)
    return found


def pixels(values: Sequence[Expr]) -> Iterator[Columns]:
    """Loads of all elements of a stretch of memory, each of every third or fourth: the channels of pixels."""
    found: list[_Beside] = []
    for load in dict.fromkeys(e for v in values for e in _strided(v, LEAST_CHANNELS)):
        channels = _channels(_line(load)[1])
        if not channels or load.dtype.lanes * load.dtype.scalar.bytes < PART_BYTES:
            continue
        own = next(((x, at) for x in found if (at := x.place(load, channels)) is not None), None)
        if own is None:
            found.append(x := _Beside(load))
            own = x, 0
        own[0].columns[own[1]] = load
    yield from (x.in_order() for x in found if len(x.columns) == _channels(x.stride))


def is_as_large(buffer: Buffer, other: Buffer) -> bool:
    """Whether a buffer has an element wherever another one has one."""
    return buffer is other or (buffer.elements is other.elements and not buffer.strides)


def windows(places: Sequence[int], width: int, last: int) -> list[int]:
    """Where stretches of `width` elements begin that hold all places and nothing behind the last element.

    >>> windows([255, 0, 1, 2], 4, 255)
    [0, 252]
    """
    found: list[int] = []
    for p in sorted(set(places)):
        if not found or p >= found[-1] + width:
            found.append(min(p, last + 1 - width))
    return found


def _read(stores: Sequence[Store]) -> set[Buffer]:
    return {e.value for e in post_order([e for s in stores for e in (*s.indices, s.value)]) if e.op == "load"}


@dataclass(frozen=True)
class Interleaved:
    """Stores of `values[k]` to base + k, base + k + n, base + k + 2n, ... for n values."""

    buffer: Buffer
    base: Expr
    values: tuple[Expr, ...]
    lanes: int


def interleaved(stmts: Sequence[Stmt], start: int) -> Interleaved | None:
    """The stores from `stmts[start]` on that fill a stretch of memory, if they do."""
    first = stmts[start]
    if not isinstance(first, Store) or len(first.indices) != 1 or first.indices[0].dtype.lanes == 1:
        return None
    line = line_of(first.indices[0])
    if line is None or not 2 <= line[1] <= WIDEST_STRIDE or start + line[1] > len(stmts):
        return None
    count, lanes = line[1], first.indices[0].dtype.lanes
    offsets: dict[int, Expr] = {}
    bases: dict[int, Expr] = {}
    for position, s in enumerate(stmts[start : start + count]):
        if not isinstance(s, Store) or s.buffer is not first.buffer or len(s.indices) != 1:
            return None
        other = line_of(s.indices[0])
        if other is None or other[1] != count or s.indices[0].dtype.lanes != lanes:
            return None
        if s.value.dtype.scalar != s.buffer.dtype or (position > 0 and _reads(s, first.buffer)):
            return None
        offset = distance(line[0], other[0])
        if offset is None or offset in offsets:
            return None
        offsets[offset], bases[offset] = s.value, other[0]
    order = sorted(offsets)
    if order[-1] - order[0] != count - 1:
        return None
    return Interleaved(first.buffer, bases[order[0]], tuple(offsets[k] for k in order), lanes)


def _reads(s: Store, buffer: Buffer) -> bool:
    """True if the store might read what the ones before it wrote."""
    return any(e.op == "load" and e.value is buffer for e in post_order([*s.indices, s.value]))


def distance(a: Expr, b: Expr) -> int | None:
    """`b - a` where it is a known number: both the same sum of terms, but for a constant."""
    terms, others = _terms(a), _terms(b)
    offset = others.pop(None, 0) - terms.pop(None, 0)
    if {e: k for e, k in terms.items() if k} != {e: k for e, k in others.items() if k}:
        return None
    return offset


def sides_of(index: Expr, other: Expr) -> tuple[bool, bool]:
    """Whether `other` has a place at or before all of `index`, and one at or after, as far as is known."""
    own, found = reach_of(index), reach_of(other)
    away = None if own is None or found is None else distance(found[0], own[0])
    if own is None or found is None or away is None:
        return False, False
    return away + own[1] - found[1] >= 0, away + own[2] - found[2] <= 0


def _terms(e: Expr, factor: int = 1, into: dict[Expr | None, int] | None = None) -> dict[Expr | None, int]:
    """The sum `e` as term -> factor; the constant is under None."""
    terms = {} if into is None else into
    match e.op:
        case "const":
            terms[None] = terms.get(None, 0) + factor * int(e.value)
        case "add" | "sub":
            _terms(e.args[0], factor, terms)
            _terms(e.args[1], factor if e.op == "add" else -factor, terms)
        case "neg":
            _terms(e.args[0], -factor, terms)
        case "mul" if e.args[1].op == "const":
            _terms(e.args[0], factor * int(e.args[1].value), terms)
        case "mul" if e.args[0].op == "const":
            _terms(e.args[1], factor * int(e.args[0].value), terms)
        case _:
            terms[e] = terms.get(e, 0) + factor
    return terms
