"""Loads and stores in LLVM: scalars, whole and strided vectors, gathers, masks, small transposes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager

from autosched.codegen.llvm_ops import bits_of, extend, of_bits
from autosched.codegen.llvm_text import (
    WIDEST_ELEMENT,
    Value,
    Writer,
    constant,
    mangled,
    memory_type,
    register_type,
    typed,
)
from autosched.codegen.together import PART_BYTES, WIDEST_STRIDE, windows
from autosched.errors import BuildError
from autosched.ir.dtype import BFLOAT16, BOOL, INT64, DType, dtype
from autosched.ir.expr import Expr, is_const
from autosched.ir.stmt import Buffer

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
            square = [w.part(r, first, side) for r in strip]
            columns += [w.part(c, 0, max(len(strip), 2)) for c in _square(w, square)[:width]]
        strips.append(columns)
    return [w.part(w.join(list(parts)), 0, len(rows)) for parts in zip(*strips, strict=True)]


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


#: bytes of the widest vector register; a shuffle chooses from two of them
REGISTER_BYTES = 64
#: bytes of the lanes that are taken from stretches far apart at a time: an AVX2 register
FAR_BYTES = 32
#: lanes of a pattern that are worth a shuffle of their own
MIN_PATTERN = 4
#: bytes that memory hands to the caches at a time: x86-64 and most AArch64 processors
CACHE_LINE = 64

#: branch weights of a condition that holds nearly always
MOSTLY_TRUE = '!{!"branch_weights", i32 2000, i32 1}'

_BYTE, _TWO_BYTES = dtype("uint8"), dtype("uint16")
#: bytes of a store past the caches
_STREAM_BYTES = 16
#: the register of which some lanes can be stored
_MASKED_BYTES = 64


def _stored(of: DType) -> DType:
    """The type whose register form is `of`'s memory form."""
    stored = _BYTE if of.is_bool else _TWO_BYTES if of.scalar == BFLOAT16 else None
    return of if stored is None else stored.with_lanes(of.lanes)


class Memory:
    """The buffers that one function sees, and the accesses to them."""

    def __init__(self, writer: Writer, scopes: Mapping[Buffer, str], on_stack: Set[Buffer] = frozenset()) -> None:
        self.w = writer
        self.on_stack = on_stack  #: buffers that LLVM may keep in registers, if their accesses are plain
        self.scopes = scopes  #: the metadata suffix of an access to each buffer
        self.pointers: dict[Buffer, str] = {}
        self.streams = False  #: whether there was a `stream`
        self._only_if: Value | None = None  #: the condition under which single elements are really accessed
        self._noted: set[tuple[Expr, str]] | None = None  #: sizes and indices of what was loaded without one
        self._spare = ""  #: where else they are stored

    def pointer(self, buffer: Buffer) -> str:
        found = self.pointers.get(buffer)
        if found is None:
            raise BuildError(
                f"{buffer.name} has no memory here",
                asked="code generation",
                legal="a buffer must be a parameter of the function, or allocated around its use",
            )
        return found

    def address(self, buffer: Buffer, index: Value) -> str:
        base = self.pointer(buffer)
        if index.const == 0:
            return base
        return self.w.pointer(f"getelementptr {memory_type(buffer.dtype)}, ptr {base}, i64 {index.ref}")

    @contextmanager
    def only_if(self, condition: Value | None, noted: set[tuple[Expr, str]]) -> Iterator[None]:
        """Access single elements only where a condition holds, without a jump: else zeros are loaded, and what is
        stored goes nowhere. Places that were loaded without a condition are noted: they are there, in buffers of the
        same size, too."""
        self._only_if, self._noted = condition, noted
        yield
        self._only_if = self._noted = None

    def _chosen(self, address: str, buffer: Buffer, index: Value, otherwise: Callable[[], str]) -> str:
        """The address of an element, or another one where it is not to be accessed."""
        if self._noted is None:
            return address
        place = (buffer.elements, index.ref)
        if self._only_if is None or _is_there(buffer, index):
            self._noted.add(place)
        if self._only_if is not None and (otherwise == self._spare_place or place not in self._noted):
            return self.w.chosen_pointer(self._only_if, address, otherwise())
        return address

    def _spare_place(self) -> str:
        """Memory that nobody reads. Assembly of no instruction hides what it is from LLVM, which would jump again."""
        self._spare = self._spare or self.w.alloca("spare", f"[{WIDEST_ELEMENT} x i8]", WIDEST_ELEMENT)
        return self.w.pointer(f'call ptr asm "", "=r,0"(ptr {self._spare})')

    def _moved(self, index: Value, by: int) -> Value:
        return self.w.binary("add", index, constant(by, INT64)) if by else index

    def _aligned(self, buffer: Buffer) -> str:
        return f", align {buffer.dtype.bytes}{self.scopes.get(buffer, '')}"

    def prefetch(self, buffer: Buffer, index: Value, by: int) -> None:
        """Ask for the cache line of an element, which need not exist."""
        callee = self.w.module.declare("llvm.prefetch.p0", "void", ["ptr", "i32", "i32", "i32"])
        self.w.do(f"call void {callee}(ptr {self.address(buffer, self._moved(index, by))}, i32 0, i32 3, i32 1)")

    # -- loads --------------------------------------------------------------------------------
    def load(self, buffer: Buffer, index: Value, lanes: int = 1) -> Value:
        """One element, or `lanes` neighbours."""
        address = self._chosen(self.address(buffer, index), buffer, index, self.w.module.zeros)
        return self._load_from(address, buffer, lanes)

    def _load_from(self, address: str, buffer: Buffer, lanes: int) -> Value:
        of = buffer.dtype.with_lanes(lanes)
        raw = self.w.fresh(f"load {memory_type(of)}, ptr {address}{self._aligned(buffer)}", _stored(of))
        return self._as_register(raw, of)

    def _load_hidden(self, buffer: Buffer, index: Value, lanes: int) -> Value:
        """Neighbours from an address that assembly of no instruction hides from LLVM, which would take parts of them
        out of wider loads beside them, bit by bit."""
        address = self.address(buffer, index)
        if buffer not in self.on_stack:
            address = self.w.pointer(f'call ptr asm "", "=r,0"(ptr {address})')
        return self._load_from(address, buffer, lanes)

    def _as_register(self, raw: Value, of: DType) -> Value:
        """A loaded value as registers hold it: any non-zero byte is true."""
        return raw if raw.dtype == of else self.w.compare("ne", raw, 0) if of.is_bool else of_bits(self.w, raw, of)

    def asks_each_lane(self, buffer: Buffer) -> bool:
        """Whether masked loads of such elements are made of a question and a load for each lane."""
        return not self.w.module.abilities.masks and buffer.dtype.bytes < 4

    def gathers_at_once(self, buffer: Buffer) -> bool:
        """Whether lanes from anywhere are one instruction that leaves out those that a mask does: else each of them is
        a question and a load."""
        return self.w.module.abilities.masks and buffer.dtype.bytes >= 4

    def load_line(self, buffer: Buffer, base: Value, stride: int, lanes: int, mask: Value | None) -> Value:
        """Lanes at base, base + stride, ...; all elements between the first and the last are in bounds."""
        of = buffer.dtype.with_lanes(lanes)
        if mask is not None:
            if stride == 1:
                text = self._masked("load", buffer, self.address(buffer, base), mask, constant(0, _stored(of)))
                return self._as_register(self.w.fresh(text, _stored(of)), of)
            return self.gather(buffer, self._line_indices(base, stride, lanes), mask)
        if stride == 1:
            return self.load(buffer, base, lanes)
        if stride == 0:
            return self.w.splat(self.load(buffer, base), lanes)
        if abs(stride) == 2:  # of every second element in one wide load, LLVM takes the last ones one by one
            found = self.load_pattern(buffer, base, [i * stride for i in range(lanes)])
            if found is not None:
                return found
        if abs(stride) <= WIDEST_STRIDE:
            span = (lanes - 1) * abs(stride) + 1
            first = base if stride > 0 else self._moved(base, 1 - span)
            wide = self.load(buffer, first, span)
            return self.w.shuffle(wide, [i * stride if stride > 0 else span - 1 + i * stride for i in range(lanes)])
        return self.w.concat([self.load(buffer, self._moved(base, i * stride)) for i in range(lanes)], of)

    def load_pattern(self, buffer: Buffer, base: Value, distances: Sequence[int]) -> Value | None:
        """Lanes at these distances from `base`, shuffled out of a few wide loads that stay between the
        first and the last; None where they lie too far apart for that.

        A part of the lanes is taken at a time that two registers hold, which is what one shuffle of
        the CPU chooses from.
        """
        lanes, register = len(distances), REGISTER_BYTES // buffer.dtype.bytes
        if buffer.dtype.is_bool:
            return None
        for count in (lanes // n for n in range(1, lanes + 1) if lanes % n == 0):
            parts = [distances[i : i + count] for i in range(0, lanes, count)]
            if count <= register and all(max(p) - min(p) < 2 * register for p in parts):
                break
        if count < MIN_PATTERN and lanes > register and lanes % register:  # lanes more, which are not looked at, divide
            more = self.load_pattern(buffer, base, [*distances, *[distances[-1]] * (-lanes % register)])
            return None if more is None else self.w.part(more, 0, lanes)
        if count < MIN_PATTERN:
            return self._stretches(buffer, base, distances)
        # of neighbours but for a few at an end
        span = max(distances) - min(distances) + 1
        load = self._load_hidden if 3 * lanes <= 4 * span < 4 * lanes else self.load
        return self.w.join([self._shuffled(buffer, base, part, register, load) for part in parts])

    def _stretches(self, buffer: Buffer, base: Value, distances: Sequence[int]) -> Value | None:
        """Lanes of two stretches that lie far apart, as where places wrap around at the end of a row; None where there
        are more. Lanes of one register at a time are taken from one or two loads as wide."""
        lanes, first, last = len(distances), min(distances), max(distances)
        count = lanes & -lanes
        while count * buffer.dtype.bytes > FAR_BYTES:
            count //= 2
        parts = [distances[i : i + count] for i in range(0, lanes, count)]
        starts = [windows(p, count, last) for p in parts]
        if count < MIN_PATTERN or last - first < count or any(len(found) > 2 for found in starts):
            return None
        pieces = []
        for part, found in zip(parts, starts, strict=True):
            loads = [self._load_hidden(buffer, self._moved(base, at), count) for at in found]
            inside = [next(k * count + d - at for k, at in enumerate(found) if 0 <= d - at < count) for d in part]
            pieces.append(self.w.shuffle_pair(loads[0], loads[-1], inside))
        return self.w.join(pieces)

    def _shuffled(
        self, buffer: Buffer, base: Value, distances: Sequence[int], register: int, load: Callable[..., Value]
    ) -> Value:
        """Lanes from one or two overlapping vectors that cover the distances."""
        first, last = min(distances), max(distances)
        if first == last:
            return self.w.splat(self.load(buffer, self._moved(base, first)), len(distances))
        width = min(register, 1 << ((last - first + 1).bit_length() - 1))
        second = last + 1 - width
        low = load(buffer, self._moved(base, first), width)
        if second <= first:
            return self.w.shuffle(low, [d - first for d in distances])
        high = load(buffer, self._moved(base, second), width)
        return self.w.shuffle_pair(
            low, high, [d - first if d - first < width else width + d - second for d in distances]
        )

    def _line_indices(self, base: Value, stride: int, lanes: int) -> Value:
        of = INT64.with_lanes(lanes)
        return self.w.binary("add", self.w.splat(base, lanes), self.w.iota(of, stride))

    def gather(self, buffer: Buffer, indices: Value, mask: Value | None) -> Value:
        """One element per lane, from anywhere."""
        of = buffer.dtype.with_lanes(indices.dtype.lanes)
        if mask is None:
            return self.w.concat([self.load(buffer, self.w.extract(indices, i)) for i in range(of.lanes)], of)
        text = self._masked("gather", buffer, self._addresses(buffer, indices), mask, constant(0, _stored(of)))
        return self._as_register(self.w.fresh(text, _stored(of)), of)

    def _masked(self, access: str, buffer: Buffer, places: str, mask: Value, value: Value) -> str:
        """A call of LLVM's masked load, store, gather or scatter; a lane that is not read is that of `value`."""
        of, several = value.dtype, f"v{value.dtype.lanes}" if access in ("gather", "scatter") else ""
        kind, bits, pointers = register_type(of), register_type(mask.dtype), f"<{of.lanes} x ptr>" if several else "ptr"
        result, kinds = "void", [kind, pointers, bits]
        operands = [typed(value), f"{pointers} align {buffer.dtype.bytes} {places}", typed(mask)]
        if access in ("load", "gather"):
            result, kinds, operands = kind, [*kinds[1:], kind], [*operands[1:], operands[0]]
        callee = self.w.module.declare(f"llvm.masked.{access}.{mangled(of)}.{several}p0", result, kinds)
        return f"call {result} {callee}({', '.join(operands)}){self.scopes.get(buffer, '')}"

    def _addresses(self, buffer: Buffer, indices: Value) -> str:
        base = self.pointer(buffer)
        return self.w.pointer(f"getelementptr {memory_type(buffer.dtype)}, ptr {base}, {typed(indices)}")

    # -- stores -------------------------------------------------------------------------------
    def _as_memory(self, value: Value) -> Value:
        if value.dtype.is_bool:
            return extend(self.w, value, _stored(value.dtype))
        return bits_of(self.w, value) if value.dtype.scalar == BFLOAT16 else value

    def store(self, buffer: Buffer, index: Value, value: Value, *, is_sum: bool = False) -> None:
        """One element, or neighbours when the value is a vector. A sum goes on with what was there: LLVM keeps it in
        registers through a loop, but for what a mask guards."""
        raw = self._as_memory(value)
        full = self._whole_registers(raw.dtype)
        if full == raw.dtype.lanes or buffer in self.on_stack or is_sum:
            address = self._chosen(self.address(buffer, index), buffer, index, self._spare_place)
            self.w.do(f"store {typed(raw)}, ptr {address}{self._aligned(buffer)}")
            return
        lanes = range(raw.dtype.lanes)
        whole = self.w.shuffle(raw, [*lanes, *([-1] * (full - len(lanes)))])
        bits = ", ".join("i1 true" if i in lanes else "i1 false" for i in range(full))
        self._masked_store(buffer, index, whole, Value(f"<{bits}>", BOOL.with_lanes(full)))

    def _whole_registers(self, of: DType) -> int:
        """Lanes of the registers that hold a vector of this type, if storing some lanes of the last
        of them is one instruction, where LLVM makes pieces of 8, 4, 2 and 1; else its own lanes."""
        size, register = of.scalar.bytes, _MASKED_BYTES // of.scalar.bytes
        if not self.w.module.abilities.masks or size < 4 or of.lanes * size <= _STREAM_BYTES:
            return of.lanes
        if of.lanes < register:
            return 1 << (of.lanes - 1).bit_length()
        return -(-of.lanes // register) * register

    def stream(self, buffer: Buffer, index: Value, value: Value) -> None:
        """Store neighbours past the caches, where that is possible; `fence` must follow before others read them.

        x86 has such stores for aligned vectors. NumPy aligns to 16 bytes, and stores of so many are
        as fast as wider ones where they fill cache lines (see `lowering.stores`). Whether the address
        is so aligned is asked at run time.
        """
        w, raw, address = self.w, self._as_memory(value), self.address(buffer, index)
        through = f"store {typed(raw)}, ptr {address}{self._aligned(buffer)}"
        if not w.module.is_x86 or value.dtype.lanes * buffer.dtype.bytes % _STREAM_BYTES:
            w.do(through)
            return
        self.streams = True
        offset = w.binary("and", self._number(address), constant(_STREAM_BYTES - 1, INT64))
        aligned = w.fresh(f"icmp eq i64 {offset.ref}, 0", BOOL)
        labels = [w.label(wish) for wish in ("past", "through", "joined")]
        w.branch(aligned.ref, labels[0], labels[1], f", !prof {w.module.metadata(MOSTLY_TRUE)}")
        w.start(labels[0])
        hint = f"{self.scopes.get(buffer, '')}, !nontemporal {w.module.metadata('!{i32 1}')}"
        w.do(f"store {typed(raw)}, ptr {address}, align {_STREAM_BYTES}{hint}")
        w.jump(labels[2])
        w.start(labels[1])
        w.do(through)
        w.jump(labels[2])
        w.start(labels[2])

    def _number(self, address: str) -> Value:
        """An address as a number, to test it; no address is ever made from a number."""
        return self.w.fresh(f"ptrtoint ptr {address} to i64", INT64)

    def to_line(self, buffer: Buffer, index: Value) -> Value:
        """The distance to the beginning of the next cache line, in elements."""
        w = self.w
        before = w.binary("sub", constant(0, INT64), self._number(self.address(buffer, index)))
        left = w.binary("and", before, constant(CACHE_LINE - 1, INT64))
        return w.binary("udiv", left, constant(buffer.dtype.bytes, INT64))

    def fence(self) -> None:
        """Make streamed stores visible to other threads."""
        if self.streams:
            self.w.do(f"call void {self.w.module.declare('llvm.x86.sse.sfence', 'void', [])}()")

    def store_line(
        self, buffer: Buffer, base: Value, stride: int, value: Value, mask: Value | None, *, is_sum: bool = False
    ) -> None:
        """Lanes to base, base + stride, ...; of lanes at one place the last one stays."""
        lanes = value.dtype.lanes
        if mask is not None:
            if stride == 1:
                self._masked_store(buffer, base, value, mask)
            else:
                self.scatter(buffer, self._line_indices(base, stride, lanes), value, mask)
        elif stride == 1:
            self.store(buffer, base, value, is_sum=is_sum)
        elif stride == -1:
            reverse = self.w.shuffle(value, range(lanes - 1, -1, -1))
            self.store(buffer, self._moved(base, 1 - lanes), reverse)
        elif stride == 0:
            self.store(buffer, base, self.w.extract(value, lanes - 1))
        else:
            for i in range(lanes):
                self.store(buffer, self._moved(base, i * stride), self.w.extract(value, i))

    def store_interleaved(self, buffer: Buffer, base: Value, values: Sequence[Value], streaming: bool) -> None:
        """values[0][0], values[1][0], ..., values[0][1], ... to neighbouring elements from `base` on."""
        count, lanes = len(values), values[0].dtype.lanes
        joined = self.w.join(values)
        order = [part * lanes + lane for lane in range(lanes) for part in range(count)]
        write = self.stream if streaming else self.store
        write(buffer, base, self.w.shuffle(joined, order))

    def _masked_store(self, buffer: Buffer, base: Value, value: Value, mask: Value) -> None:
        raw = self._as_memory(value)
        self.w.do(self._masked("store", buffer, self.address(buffer, base), mask, raw))

    def scatter(self, buffer: Buffer, indices: Value, value: Value, mask: Value | None) -> None:
        """One element per lane, anywhere, in lane order."""
        lanes = value.dtype.lanes
        if mask is None:
            for i in range(lanes):
                self.store(buffer, self.w.extract(indices, i), self.w.extract(value, i))
            return
        raw = self._as_memory(value)
        self.w.do(self._masked("scatter", buffer, self._addresses(buffer, indices), mask, raw))

    def store_where(self, buffer: Buffer, index: Value, value: Value, mask: Value) -> None:
        """One element, if any lane runs: all lanes agree on it."""
        with self.w.where_any(mask):
            self.store(buffer, index, value)


def _is_there(buffer: Buffer, index: Value) -> bool:
    """Whether numbers alone tell that an element is in a buffer, as a state in a window of two times is."""
    elements = buffer.elements
    return index.const is not None and is_const(elements) and 0 <= int(index.const) < int(elements.value)
