"""Copies that change which axis is contiguous, block by block in registers.

    B[ramp(0, 1, 16)] = A[ramp(0, m, 16)]; B[ramp(n, 1, 16)] = A[ramp(1, m, 16)]; ...

reads columns of A. Read one at a time, each lane is a load of its own. Sixteen of them together are
16 rows of 16 neighbours: as many wide loads, and shuffles of two vectors, of which a square of n
takes n * log2(n), make columns of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.codegen.lanes import line_of
from autosched.codegen.llvm_interleave import distance
from autosched.codegen.llvm_memory import WIDEST_STRIDE
from autosched.codegen.llvm_text import Value, Writer
from autosched.ir.expr import Expr
from autosched.ir.stmt import Buffer, Stmt, Store
from autosched.ir.visit import post_order

__all__ = ["Columns", "Transposed", "transpose", "transposed"]

#: a wide load of the rows has at most as many bytes: the widest register
WIDEST_BYTES = 64
#: with fewer columns or rows than this there is nothing to win
FEWEST = 4
#: shuffles cross the parts of a register of this many bytes at a higher price than within one
PART_BYTES = 16


@dataclass(frozen=True)
class Columns:
    """Loads of neighbouring columns: `loads[k]` reads base + k, base + k + stride, ..., one per lane."""

    buffer: Buffer
    base: Expr
    stride: int
    lanes: int
    loads: tuple[Expr, ...]


@dataclass(frozen=True)
class Transposed:
    """Consecutive stores, and the columns that they read."""

    stores: tuple[Store, ...]
    columns: tuple[Columns, ...]


def transposed(stmts: Sequence[Stmt], start: int) -> Transposed | None:
    """The stores from `stmts[start]` on of which each reads, wherever the first one reads with a
    stride, the elements beside those that the one before it reads. None if there are none."""
    first = _plain_store(stmts[start])
    columns = [] if first is None else _strided(first)
    if first is None or not columns:
        return None
    most = WIDEST_BYTES // max(c.dtype.scalar.bytes for c in columns)
    run, reads = [first], [[c] for c in columns]
    bases = [_line(c)[0] for c in columns]
    for s in stmts[start + 1 : start + most]:
        store = _plain_store(s)
        found = [] if store is None else _strided(store)
        if store is None or len(found) != len(columns):
            break
        if not all(_is_beside(a, b, base, len(run)) for a, b, base in zip(columns, found, bases, strict=True)):
            break
        run.append(store)
        for those, c in zip(reads, found, strict=True):
            those.append(c)
    if len(run) < FEWEST or {s.buffer for s in run} & _read(run):
        return None
    return Transposed(
        tuple(run),
        tuple(
            Columns(c.value, base, _line(c)[1], c.dtype.lanes, tuple(those))
            for c, base, those in zip(columns, bases, reads, strict=True)
        ),
    )


def _plain_store(s: Stmt) -> Store | None:
    """`s` if it stores a vector of what its buffer holds."""
    if not isinstance(s, Store) or len(s.indices) != 1 or s.indices[0].dtype.lanes == 1:
        return None
    return s if s.value.dtype.scalar == s.buffer.dtype else None


def _line(load: Expr) -> tuple[Expr, int]:
    line = line_of(load.args[0])
    assert line is not None
    return line


def _strided(s: Store) -> list[Expr]:
    """The loads whose lanes are equally spaced, further apart than one wide load reaches. None where
    some are evaluated on demand: the rows would be read whether or not they are there."""
    found = []
    for e in post_order(s.value):
        if e.op in ("if_then_else", "and", "or"):
            return []
        if e.op == "load" and e.dtype.lanes >= FEWEST and len(e.args) == 1 and not e.dtype.is_bool:
            line = line_of(e.args[0])
            if line is not None and line[1] > WIDEST_STRIDE:
                found.append(e)
    return found


def _is_beside(a: Expr, b: Expr, base: Expr, by: int) -> bool:
    if a.value is not b.value or a.dtype != b.dtype:
        return False
    line = _line(b)
    return line[1] == _line(a)[1] and distance(base, line[0]) == by


def _read(stores: Sequence[Store]) -> set[Buffer]:
    return {e.value for e in post_order([e for s in stores for e in (*s.indices, s.value)]) if e.op == "load"}


# -- shuffles ---------------------------------------------------------------------------------------


def transpose(w: Writer, rows: Sequence[Value]) -> list[Value]:
    """Vector k of the result holds lane k of every row. There are at least two rows and two lanes."""
    lanes = rows[0].dtype.lanes
    side = 1 << (min(len(rows), lanes) - 1).bit_length()
    strips = []
    for at in range(0, len(rows), side):
        strip = rows[at : at + side]
        columns: list[Value] = []
        for first in range(0, lanes, side):
            width = min(side, lanes - first)
            square = [_part(w, r, first, side) for r in strip]
            columns += [_part(w, c, 0, max(len(strip), 2)) for c in _square(w, square)[:width]]
        strips.append(columns)
    return [_part(w, w.join(list(parts)), 0, len(rows)) for parts in zip(*strips, strict=True)]


def _part(w: Writer, v: Value, first: int, count: int) -> Value:
    """`count` lanes from `first` on; those past the end hold anything."""
    if first == 0 and count == v.dtype.lanes:
        return v
    return w.shuffle(v, [min(first + i, v.dtype.lanes - 1) for i in range(count)])


def _square(w: Writer, rows: list[Value]) -> list[Value]:
    """A square whose side is a power of two; rows that are missing at its end hold anything.

    The first rounds interleave within parts of a register: after that, vector j of a group of m rows
    has, in each part q, column m*q + j of them. The other rounds bring the parts together.
    """
    of = rows[0].dtype
    side = of.lanes
    poison = Value("poison", of)
    rows = rows + [poison] * (side - len(rows))
    within = min(side, PART_BYTES // of.scalar.bytes)
    span = 1
    while span < within:  # groups of `span` rows become groups of twice as many
        rows = [x for at in range(0, side, 2 * span) for x in _merge(w, rows[at : at + 2 * span], within, span)]
        span *= 2
    groups = [rows[at : at + within] for at in range(0, side, within)]
    # parts[j][g]: the vector of group g with the columns m*q + j
    parts = [_gather_parts(w, [group[j] for group in groups], within) for j in range(within)]
    return [parts[k % within][k // within] for k in range(side)]


def _merge(w: Writer, rows: list[Value], within: int, span: int) -> list[Value]:
    """Two groups of `span` vectors to one: runs of `span` elements of the two take turns in each part."""
    of = rows[0].dtype
    result = []
    for a, b in zip(rows[:span], rows[span:], strict=True):
        for half in range(2):
            lanes: list[int] = []
            for part in range(0, of.lanes, within):
                for run in range(0, within // 2, span):
                    at = part + half * (within // 2) + run
                    lanes += [*range(at, at + span), *range(of.lanes + at, of.lanes + at + span)]
            result.append(_pick(w, a, b, lanes))
    return result


def _gather_parts(w: Writer, rows: list[Value], within: int) -> list[Value]:
    """Vector q of the result has part q of every vector: a transposition of whole parts."""
    count = len(rows)
    if count == 1:
        return rows

    def lanes(parts: Sequence[int]) -> list[int]:
        return [p * within + i for p in parts for i in range(within)]

    # in each round the even, then the odd parts of two vectors
    done = 1
    while done < count:
        even = lanes([*range(0, count, 2), *range(count, 2 * count, 2)])
        odd = lanes([*range(1, count, 2), *range(count + 1, 2 * count, 2)])
        pairs = [(rows[2 * i], rows[2 * i + 1]) for i in range(count // 2)]
        rows = [_pick(w, a, b, even) for a, b in pairs] + [_pick(w, a, b, odd) for a, b in pairs]
        done *= 2
    return rows


def _pick(w: Writer, a: Value, b: Value, lanes: Sequence[int]) -> Value:
    if a.ref == b.ref == "poison":
        return a
    return w.shuffle_pair(a, b, lanes)
