"""Vector expressions as C text, for languages with vector types.

Only whole vectors are written here: legal lane counts, and operators that the language has for vectors
with the meaning of `ir.expr`. What else is short, elements that lie apart among it, is written as a vector
of scalars. Anything else raises `NotVector`, and the statement is written as a loop over the lanes instead.
So this table may have gaps.

Conditions are masks: integers as wide as the operands that were compared, each lane 0 or -1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache

from autosched.codegen.c_scalar import Expressions
from autosched.codegen.c_text import (
    ATOM,
    CONDITIONAL,
    EQUALITY,
    OR,
    SYMBOLS,
    TRUTH,
    UNARY,
    Code,
    infix,
    literal,
    unsigned,
)
from autosched.codegen.c_vector_memory import VectorMemory
from autosched.codegen.dialects import NotVector
from autosched.codegen.halves import Half
from autosched.codegen.lanes import as_ramp, lane_of, line_of, one_side, pattern_of, piece_of
from autosched.codegen.legalize import legal
from autosched.codegen.storage import constant_bytes
from autosched.codegen.together import Columns, is_as_large, pixels
from autosched.codegen.widths import constant_lane, is_by_a_number, widest
from autosched.ir.calls import is_opaque, touches_memory
from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import OPS, Expr, binary, cast, const, is_const, is_index, make, ramp
from autosched.ir.ops import CHOICES, COMPARISONS
from autosched.ir.stmt import Buffer, Store, load
from autosched.ir.visit import post_order

#: Bytes of an array of a work-item that compilers keep in registers, at most.
MOST_IN_REGISTERS = 2048
#: Operators and operands of an expression that is written out for each lane, in all lanes together.
MOST_WRITTEN_OUT = 1024


class VectorExpressions(VectorMemory):
    """Emitter of vector expressions; scalars in them go to `Expressions`."""

    def __init__(self, scalars: Expressions) -> None:
        super().__init__(scalars)
        scalars.combined = self.combined
        self._certain: Callable[[], frozenset[Expr]] = frozenset

    @contextmanager
    def evaluating(self, certain: Callable[[], frozenset[Expr]]) -> Iterator[None]:
        """Emit inside a statement that evaluates what `certain` gives in any case, conditions or not."""
        outer, self._certain = self._certain, cache(certain)
        try:
            yield
        finally:
            self._certain = outer

    @contextmanager
    def evaluating_too(self, e: Expr) -> Iterator[None]:
        """Emit where one more expression is evaluated in any case."""
        outer = self._certain
        with self.evaluating(lambda: outer() | {e}):
            yield

    # -- statements ---------------------------------------------------------------------------
    def store(self, s: Store) -> str:
        """The statement `s`, without semicolon. Raises NotVector."""
        lanes = max(s.indices[0].dtype.lanes, s.value.dtype.lanes)
        half = self.half(s.buffer.dtype)
        if half is not None:
            pointer = self.pointer(s.buffer, s.indices[0], lanes)
            value = self.to_round(self.value(self.x.unrounded(s.value), lanes))
            return half.store_lanes.format(x=value.text, pointer=pointer, lanes=lanes)
        value = self.value(s.value, lanes)
        if s.buffer.dtype.is_bool:
            value = self._zero_or_one(value, dtype("uint8").with_lanes(lanes))
        return self._written(s.buffer, s.indices[0], lanes, value.text)

    def store_in_turns(self, buffer: Buffer, base: Expr, values: Sequence[Code]) -> Iterator[str]:
        """The statements, without semicolons, that write lane after lane of all vectors. Raises NotVector."""
        count, lanes = len(values), dtype(values[0].ctype).lanes
        of = self.x.register(buffer.dtype).with_lanes(lanes)
        for first in range(0, count * lanes, lanes):
            index = ramp(binary("add", base, const(first)), 1, lanes)
            if not self.d.anywhere and not self.aligned(buffer, index, lanes):
                raise NotVector
            if self.d.shuffled and all(dtype(v.ctype) == of and not v.mask for v in values):
                places = [k % count * lanes + k // count for k in range(first, first + lanes)]
                turns = self.x.helpers.taken(places, range(0, count * lanes, lanes), of)
                text = f"{turns}({', '.join(v.text for v in values)})"
            else:
                each = [self.element(values[k % count], k // count) for k in range(first, first + lanes)]
                text = self._listed(each, of).text
            yield self._written(buffer, index, lanes, text)

    def pixels(self, roots: Sequence[Expr]) -> Iterator[Columns]:
        """Loads in the expressions that are worth loading whole, on devices whose vectors lie anywhere."""
        vectors = self.dialect.vectors
        if vectors is None or not vectors.anywhere:
            return
        for c in pixels([e for e in roots if e.dtype.lanes > 1]):
            if (
                vectors.fits(c.lanes, c.buffer.dtype.bytes)
                and not self.x.half(c.buffer.dtype)
                and not _may_stay_in_registers(c.buffer)
            ):
                yield c

    def channel(self, c: Columns, number: int, whole: Sequence[Code]) -> Code:
        """One of the loads, taken from the vectors that hold all."""
        places = [c.channels * lane + number for lane in range(c.lanes)]
        of = dtype(whole[0].ctype)
        name = self.x.helpers.taken(places, range(0, c.channels * c.lanes, c.lanes), of)
        return Code(f"{name}({', '.join(x.text for x in whole)})", ATOM, whole[0].ctype)

    def value(self, e: Expr, lanes: int) -> Code:
        """`e` as a vector of `lanes` lanes; a mask if it is a condition."""
        found = self.x.temporaries.get(e)
        if e.dtype.lanes == 1:
            return self._splat(e, lanes)
        if found is not None:
            return found
        if not self.d.fits(lanes, e.dtype.bytes // lanes):
            raise NotVector
        if e.op == "broadcast":
            return self._splat(e.args[0], lanes)
        try:
            return self._whole(e, lanes)
        except NotVector:
            return self._of_lanes(e)

    def _whole(self, e: Expr, lanes: int) -> Code:
        if is_index(e) and not e.dtype.is_bool:
            return self._ramp(e)
        plain = legal(e, self.x.in_float)
        if plain is not e:
            return self.value(plain, lanes)
        rule = _VECTOR.get(e.op)
        if rule is None:
            raise NotVector
        return rule(self, e)

    def _of_lanes(self, e: Expr) -> Code:
        """Each lane by itself, if that is short. Raises NotVector."""
        if self.d.register_bytes and e.op != "load":
            raise NotVector  # such compilers make vectors of loops over the lanes
        lanes, nodes = e.dtype.lanes, post_order(e)
        length: dict[Expr, int] = {}
        for n in nodes:  # what is shared is written out as often as it is used
            length[n] = 1 + sum(length[a] for a in n.args)
        if lanes * length[e] > MOST_WRITTEN_OUT or any(is_opaque(n) for n in nodes):
            raise NotVector
        each = [self.x.value(lane_of(e, const(k))) for k in range(lanes)]
        if e.dtype.is_bool:
            return replace(self._listed([f"-{c.at(ATOM)}" for c in each], dtype(f"int32x{lanes}")), mask=True)
        return self._listed([c.text for c in each], self.x.register(e.dtype.scalar).with_lanes(lanes))

    def _listed(self, lanes: Sequence[str], of: DType) -> Code:
        return Code(
            (self.d.listed or self.d.splat).format(type=self.dialect.type_name(of), x=", ".join(lanes)), UNARY, of
        )

    def combined(self, e: Expr) -> Code:
        """All lanes as one number, half on half. There are 2, 4, 8, .. of them."""
        (vector,) = e.args
        vectors = self.dialect.vectors
        while (lanes := vector.dtype.lanes) > 1:
            is_whole = vectors is not None and vectors.fits(lanes, widest([vector]))
            code = self._in_one_vector(e.value, vector) if is_whole else None
            if code is not None:
                return code
            op = {"bitor": "or", "bitand": "and"}.get(e.value, e.value) if vector.dtype.is_bool else e.value
            vector = make(
                op,
                vector.dtype.scalar.with_lanes(lanes // 2),
                tuple(piece_of(vector, const(k), lanes // 2) for k in (0, lanes // 2)),
            )
        return self.x.value(vector)

    def _in_one_vector(self, op: str, vector: Expr) -> Code | None:
        """All lanes of a vector that the language has; None where it has no such operator."""
        try:
            code = self.value(vector, vector.dtype.lanes)
        except NotVector:
            return None
        if code.mask:
            if op not in ("bitor", "bitand"):
                return None
            if self.d.lane:
                name = self.x.helpers.combined(op, dtype(code.ctype))
                return Code(f"{name}({code.text}) != 0", EQUALITY, "int32", TRUTH)
            return Code(f"{'any' if op == 'bitor' else 'all'}({code.text})", ATOM, "int32", TRUTH)
        if self.x.half(vector.dtype):
            return None
        name = self.x.helpers.combined(op, dtype(code.ctype))
        return self.x.typed(Code(f"{name}({code.text})", ATOM, ""), vector.dtype.scalar)

    def near(self, e: Expr) -> Code:
        """Elements at known distances, taken from whole vectors.

        Raises NotVector where distances are not known or are long, and where an array of a work-item would be accessed
        in two ways and not stay in registers.
        """
        buffer, lanes, line = e.value, e.dtype.lanes, line_of(e.args[0])
        known = pattern_of(e.args[0]) if line is None else (line[0], [k * line[1] for k in range(lanes)])
        if known is None or lanes < 4 or _may_stay_in_registers(buffer) or self.x.half(buffer.dtype):
            raise NotVector
        base, places = known
        if buffer.dtype.is_bool:
            raise NotVector
        parts, width = self._anywhere(buffer, places) if self.d.anywhere else self._at_multiples(buffer, base, places)
        pieces = [ramp(binary("add", base, const(p)), 1, width) for p in parts]
        if not self.d.anywhere and not self.aligned(buffer, pieces[0], width):
            raise NotVector
        whole = [self.value(load(buffer, at), width) for at in pieces]
        of = dtype(whole[0].ctype)
        name = self.x.helpers.taken([p - parts[0] for p in places], [p - parts[0] for p in parts], of)
        return Code(f"{name}({', '.join(x.text for x in whole)})", ATOM, of.scalar.with_lanes(lanes))

    def gathered(self, e: Expr) -> Code:
        """Elements that lie anywhere. Raises NotVector where the places are no vector that has a name."""
        buffer, (places,), lanes = e.value, e.args, e.dtype.lanes
        found = self.x.temporaries.get(places)
        if found is None or buffer.dtype.is_bool or self.x.half(buffer.dtype):
            raise NotVector
        name = self.x.buffers[buffer]
        each = [f"{name}[{self.element(found, k)}]" for k in range(lanes)]
        return self._listed(each, self.x.register(buffer.dtype).with_lanes(lanes))

    def element(self, vector: Code, lane: int) -> str:
        return self.d.element.format(x=vector.at(ATOM), i=lane)

    def type_name(self, ctype: str) -> str:
        return self.dialect.type_name(dtype(ctype))

    def half(self, of: DType) -> Half | None:
        """How a float of 16 bits is loaded and stored. Raises NotVector where that is not done with several."""
        half = self.x.half(of)
        if half is not None and not half.load_lanes:
            raise NotVector
        return half

    def to_round(self, value: Code) -> Code:
        """The vector to round to 16 bits. Raises NotVector for float64, where its functions take float32."""
        if self.d.formulas and dtype(value.ctype).bits != 32:
            raise NotVector  # rounded twice, it may be another number
        return value

    def _float(self, lanes: int) -> str:
        return f"float32x{lanes}"

    def _splat(self, e: Expr, lanes: int) -> Code:
        code = self.x.value(e)
        if e.dtype.is_bool:
            # the LLVM of PoCL 3.0 cannot broadcast one lane of what it compares in vectors: of `-condition` it does
            ctype, known = f"int{8 if self.d.register_bytes else 32}x{lanes}", {"true": -1, "false": 0}.get(code.text)
            if known is not None:
                return replace(self.constant(known, ctype), mask=True)
            numbers = Code(self.d.splat.format(type=self.type_name(ctype), x=code.text), UNARY, ctype)
            return replace(infix("!=", numbers, self.constant(0, ctype), ctype), mask=True)
        of = self.x.register(e.dtype).with_lanes(lanes)
        return Code(self.d.splat.format(type=self.dialect.type_name(of), x=code.text), UNARY, of)

    def constant(self, value: int | float, ctype: str) -> Code:
        of = dtype(ctype)
        text = literal(value, of.scalar, self.dialect).text
        return Code(self.d.splat.format(type=self.dialect.type_name(of), x=text), UNARY, ctype)

    def _ramp(self, e: Expr) -> Code:
        """An index vector as a value. Raises NotVector but for ramps with constant strides."""
        line, lanes = as_ramp(e), e.dtype.lanes
        if line is None or line[1].op != "const" or not e.dtype.is_integer:
            raise NotVector
        if is_const(line[1], 0):
            return self._splat(line[0], lanes)
        wide = unsigned(e.dtype)
        steps = [literal((k * line[1].value) & int(wide.max), wide.scalar, self.dialect).text for k in range(lanes)]
        offsets = self._listed(steps, wide)
        total = infix("+", self.bits(self._splat(line[0], lanes), wide), offsets, wide)
        return self.bits(total, e.dtype)

    # -- conversions --------------------------------------------------------------------------
    def bits(self, a: Code, to: DType | str) -> Code:
        """The same bits as another type of the same width."""
        if a.ctype == to:
            return a
        return Code(self.d.bits.format(type=self.type_name(to), x=a.text), ATOM, to)

    def convert(self, a: Code, to: DType | str) -> Code:
        """The same numbers as another type; integers wrap."""
        if a.ctype == to:
            return a
        text = self.dialect.converted(a.text, dtype(a.ctype), dtype(to))
        return replace(a, text=text, prec=ATOM, ctype=to)

    def widen_mask(self, mask: Code, like: str) -> Code:
        """The mask with lanes as wide as those of the type `like`."""
        of = dtype(like)
        return self.convert(mask, f"int{of.bits}x{of.lanes}")

    def masks(self, a: Code, b: Code) -> tuple[Code, Code]:
        wider = max(a.ctype, b.ctype, key=lambda t: dtype(t).bits)
        return self.convert(a, wider), self.convert(b, wider)

    def _zero_or_one(self, mask: Code, to: DType) -> Code:
        number = self.convert(replace(mask, mask=False), to)
        return infix("&", number, self.constant(1, to), to)

    def choose(self, condition: Code, a: Code, b: Code) -> Code:
        if condition.mask and self.d.choose:
            return Code(self.d.either(condition.text, a.text, b.text), ATOM, a.ctype)
        text = f"{condition.at(EQUALITY)} ? {a.at(OR)} : {b.at(CONDITIONAL)}"
        return Code(text, CONDITIONAL, a.ctype)

    def may_be_guarded(self, e: Expr) -> bool:
        """Whether a part of `e` may be evaluated under a condition only."""
        found = post_order(e) if touches_memory(e) else []
        return any((x.op == "load" or is_opaque(x)) and not (x in self._certain() or self._is_there(x)) for x in found)

    def _is_there(self, e: Expr) -> bool:
        """Whether it loads elements that are certainly in their buffer, which may be done at any time: so does a load
        of a buffer as large at the same places, which happens in any case."""
        if e.op != "load":
            return False
        certain = [x for x in self._certain() if x.op == "load" and x.args[0] is e.args[0]]
        return any(is_as_large(e.value, x.value) for x in certain) or self._lies_inside(e)

    def may_come_early(self, e: Expr) -> bool:
        """Whether a vector may be computed though a condition says whether it is needed: all that it loads is there."""
        if e.dtype.lanes == 1:
            return False
        return all(not is_opaque(x) and (x.op != "load" or self._lies_inside(x)) for x in post_order(e))

    def _lies_inside(self, e: Expr) -> bool:
        """Whether a load is certainly of elements of its buffer."""
        size, line = constant_bytes(e.value), line_of(e.args[0])
        if size is None or line is None:
            return False
        first, length = self.x.ranges.numbers.of(line[0]), (e.dtype.lanes - 1) * line[1]
        return first.low + min(length, 0) >= 0 and first.high + max(length, 0) < size // e.value.dtype.bytes

    def operands(self, e: Expr) -> tuple[Code, ...]:
        return tuple(self.value(a, e.dtype.lanes) for a in e.args)

    # -- integers modulo 2^bits ---------------------------------------------------------------
    def ring(self, e: Expr, lanes: int) -> Code:
        """The integer vector `e` in its unsigned type, where overflow is defined."""
        to = unsigned(e.dtype.with_lanes(lanes))
        rule = _RING.get(e.op)
        if rule is None or e.dtype.lanes == 1 or e in self.x.temporaries or is_index(e):
            return self.bits(self.value(e, lanes), to)
        return rule(self, e, to)

    def wrapped(self, e: Expr) -> Code:
        return self.bits(self.ring(e, e.dtype.lanes), e.dtype)


def _may_stay_in_registers(buffer: Buffer) -> bool:
    size = constant_bytes(buffer) if buffer.scope == "local" else None
    return size is not None and size <= MOST_IN_REGISTERS


def _ring_binary(v: VectorExpressions, e: Expr, to: DType) -> Code:
    a, b = (v.ring(arg, e.dtype.lanes) for arg in e.args)
    return infix(SYMBOLS[e.op], a, b, to)


def _ring_unary(v: VectorExpressions, e: Expr, to: DType) -> Code:
    a = v.ring(e.args[0], e.dtype.lanes)
    return Code(f"{'-' if e.op == 'neg' else '~'}{a.at(ATOM)}", UNARY, to)


def _ring_shl(v: VectorExpressions, e: Expr, to: DType) -> Code:
    amount = constant_lane(e.args[1])
    if amount is None or not 0 <= amount < to.bits:
        raise NotVector
    return infix("<<", v.ring(e.args[0], e.dtype.lanes), v.constant(amount, to), to)


_RING: dict[str, Callable[[VectorExpressions, Expr, DType], Code]] = {
    **dict.fromkeys(("add", "sub", "mul", "bitand", "bitor", "bitxor"), _ring_binary),
    **dict.fromkeys(("neg", "bitnot"), _ring_unary),
    "shl": _ring_shl,
}


def _arithmetic(v: VectorExpressions, e: Expr) -> Code:
    if not e.dtype.is_float and not e.op.startswith("bit"):
        return v.wrapped(e)
    a, b = v.operands(e)
    return infix(SYMBOLS[e.op], a, b, a.ctype)


def _division(v: VectorExpressions, e: Expr) -> Code:
    if e.dtype.is_float:
        a, b = v.operands(e)
        return Code(f"{v.x.helpers.name(e.op, a.ctype)}({a.text}, {b.text})", ATOM, a.ctype)
    floors = e.op.startswith("floor") and e.dtype.kind == "int"
    is_known = is_by_a_number(e)
    if (floors or not is_known) and not v.d.keeps_whole or not is_known and e.dtype.bits > 32:
        raise NotVector
    a, b = v.operands(e)
    if is_known and not floors:
        return infix("%" if e.op.endswith("mod") else "/", a, b, a.ctype)
    op = f"{e.op}_by" if is_known else e.op
    return Code(f"{v.x.helpers.name(op, a.ctype)}({a.text}, {b.text})", ATOM, a.ctype)


def _min_max(v: VectorExpressions, e: Expr) -> Code:
    a, b = v.operands(e)
    if e.dtype.is_bool:
        a, b = v.masks(a, b)
        return replace(infix("&" if e.op == "min" else "|", a, b, a.ctype), mask=True)
    return Code(f"{v.x.helpers.name(e.op, a.ctype)}({a.text}, {b.text})", ATOM, a.ctype)


def _bits(v: VectorExpressions, e: Expr) -> Code:
    if not v.d.register_bytes:
        raise NotVector
    (a,) = v.operands(e)
    return Code(f"{v.x.helpers.name(e.op, a.ctype)}({a.text})", ATOM, a.ctype)


def _neg(v: VectorExpressions, e: Expr) -> Code:
    if not e.dtype.is_float:
        return v.wrapped(e)
    (a,) = v.operands(e)
    return Code(f"-{a.at(ATOM)}", UNARY, a.ctype)


def _abs(v: VectorExpressions, e: Expr) -> Code:
    (a,) = v.operands(e)
    if e.dtype.is_float:
        return Code(f"{v.x.helpers.math('abs', dtype(a.ctype), 1)}({a.text})", ATOM, a.ctype)
    if e.dtype.kind == "uint":
        return a
    if not (v.d.keeps_whole and v.d.lane):
        raise NotVector
    return Code(f"{v.x.helpers.name('abs', a.ctype)}({a.text})", ATOM, a.ctype)


def _shr(v: VectorExpressions, e: Expr) -> Code:
    amount = constant_lane(e.args[1])
    if amount is None or not 0 <= amount < e.dtype.bits:
        raise NotVector
    a = v.value(e.args[0], e.dtype.lanes)
    return infix(">>", a, v.constant(amount, a.ctype), a.ctype)


def _compare(v: VectorExpressions, e: Expr) -> Code:
    a, b = v.operands(e)
    if e.args[0].dtype.is_bool:
        if e.op not in ("eq", "ne"):
            raise NotVector  # true is -1 in a mask: the order is the wrong way round
        a, b = v.masks(a, b)
    of = dtype(a.ctype)
    return replace(infix(SYMBOLS[e.op], a, b, f"int{of.bits}x{of.lanes}"), mask=True)


def _logic(v: VectorExpressions, e: Expr) -> Code:
    if v.may_be_guarded(e.args[1]):
        raise NotVector  # by the first side, lane by lane
    a, b = v.masks(*v.operands(e))
    return replace(infix("&" if e.op == "and" else "|", a, b, a.ctype), mask=True)


def _not(v: VectorExpressions, e: Expr) -> Code:
    (a,) = v.operands(e)
    return replace(a, text=f"~{a.at(ATOM)}", prec=UNARY)


def _select(v: VectorExpressions, e: Expr) -> Code:
    lanes, decides = e.dtype.lanes, e.args[0].args[0] if e.args[0].op == "broadcast" else e.args[0]
    if decides.dtype.lanes > 1 and e.op == "if_then_else" and any(map(v.may_be_guarded, e.args[1:])):
        raise NotVector  # each lane takes its own side
    a, b = (v.value(arg, lanes) for arg in e.args[1:])
    if e.dtype.is_bool:
        a, b = v.masks(a, b)
    if one_side(e):  # by masks: compilers would jump on what nothing foretells
        number = v.value(cast(f"int{dtype(a.ctype).bits}", decides), lanes)
        condition = replace(infix("!=", number, v.constant(0, number.ctype), number.ctype), mask=True)
    elif decides.dtype.lanes == 1:
        condition = v.x.value(decides)
    else:
        condition = v.widen_mask(v.value(decides, lanes), a.ctype)
    return replace(v.choose(condition, a, b), mask=e.dtype.is_bool)


def _cast(v: VectorExpressions, e: Expr) -> Code:
    (a,) = v.operands(e)
    to = v.x.register(e.dtype)
    if a.mask:
        number = v.widen_mask(a, f"int32x{to.lanes}") if to.is_float else a
        ones = v._zero_or_one(number, dtype(number.ctype) if to.is_float else to)
        return v.convert(ones, to)
    if e.dtype.is_bool:
        of = dtype(a.ctype)
        return replace(infix("!=", a, v.constant(0, a.ctype), f"int{of.bits}x{of.lanes}"), mask=True)
    half = v.half(e.dtype)
    if half is not None:
        a = v.to_round(a)
        return Code(f"{v.x.helpers.round_half(half, e.dtype, a.ctype)}({a.text})", ATOM, v._float(to.lanes))
    if dtype(a.ctype).is_float and not to.is_float:
        return Code(f"{v.x.helpers.saturate(to, dtype(a.ctype))}({a.text})", ATOM, to)
    return v.convert(a, to)


def _load(v: VectorExpressions, e: Expr) -> Code:
    buffer: Buffer = e.value
    lanes = e.dtype.lanes
    line = as_ramp(e.args[0])
    if line is not None and is_const(line[1], 0):
        return v._splat(load(buffer, line[0]), lanes)
    if line is None or not is_const(line[1], 1):
        with suppress(NotVector):
            return v.near(e)
        return v.gathered(e)
    pointer = v.pointer(buffer, e.args[0], lanes)
    half = v.half(buffer.dtype)
    if half is not None:
        return Code(half.load_lanes.format(lanes=lanes, pointer=pointer), ATOM, v._float(lanes))
    template = v.aligned(buffer, e.args[0], lanes)
    if not template and not v.d.anywhere and not buffer.dtype.is_bool:
        with suppress(NotVector):
            return v.near(e)
    template = (template and v.d.load_aligned) or template or v.d.load
    text = template.format(lanes=lanes, pointer=pointer, **v._memory(buffer, lanes))
    if not buffer.dtype.is_bool:
        return Code(text, UNARY, buffer.dtype.with_lanes(lanes))
    ctype = f"uint8x{lanes}"
    return replace(infix("!=", Code(text, UNARY, ctype), v.constant(0, ctype), f"int8x{lanes}"), mask=True)


def _reinterpret(v: VectorExpressions, e: Expr) -> Code:
    if v.d.lane or v.x.half(e.dtype) or v.x.half(e.args[0].dtype):
        raise NotVector
    return v.bits(v.operands(e)[0], e.dtype)


def _math(v: VectorExpressions, e: Expr) -> Code:
    if e.op == "ldexp" and v.d.lane:
        raise NotVector  # a function for each lane takes operands of one type
    if e.op == "nextafter" and v.x.half(e.dtype):
        raise NotVector
    args = v.operands(e)
    of = dtype(args[0].ctype)
    truth = f"int{of.bits}x{of.lanes}"
    if e.op == "isnan" and (v.d.formulas or not v.d.lane):
        return replace(infix("!=", args[0], args[0], truth), mask=True)
    if e.op in ("isinf", "isfinite") and v.d.formulas:
        size = Code(f"{v.x.helpers.math('abs', of, 1)}({args[0].text})", ATOM, of)
        end = v.constant(math.inf, str(of))
        return replace(infix("==" if e.op == "isinf" else "<", size, end, truth), mask=True)
    name = v.x.helpers.math(e.op, of, len(args))
    text = f"{name}({', '.join(a.text for a in args)})"
    return Code(text, ATOM, truth, mask=True) if e.dtype.is_bool else Code(text, ATOM, of)


_MATH = [op for op, info in OPS.items() if info.kind == "math"]
_VECTOR: dict[str, Callable[[VectorExpressions, Expr], Code]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "bitand", "bitor", "bitxor"), _arithmetic),
    **dict.fromkeys(("truncdiv", "truncmod", "floordiv", "floormod"), _division),
    **dict.fromkeys(("min", "max"), _min_max),
    **dict.fromkeys(("popcount", "clz"), _bits),
    "neg": _neg,
    "abs": _abs,
    **dict.fromkeys(("bitnot", "shl"), VectorExpressions.wrapped),
    "shr": _shr,
    **dict.fromkeys(COMPARISONS, _compare),
    **dict.fromkeys(("and", "or"), _logic),
    "not": _not,
    "likely": lambda v, e: v.operands(e)[0],
    **dict.fromkeys(CHOICES, _select),
    "cast": _cast,
    "reinterpret": _reinterpret,
    "load": _load,
    **dict.fromkeys(_MATH, _math),
}
