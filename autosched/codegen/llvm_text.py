"""LLVM assembly as text: types, constants, and one function under construction.

Why text and not `llvmlite.ir`: LLVM parses assembly in any case, one f-string per instruction is
five to ten times cheaper than an instruction object, and every LLVM feature is within reach
(`splat`, saturating casts, alias scopes). Addresses are computed by `getelementptr` only: LLVM may
miscompile arithmetic that goes through `ptrtoint` / `inttoptr`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from autosched.codegen.llvm_extremes import Extremes
from autosched.codegen.llvm_libm import VectorLibrary
from autosched.ir.dtype import BFLOAT16, BOOL, INT32, INT64, DType

#: the int of C as a result: POWER, RISC-V and z/Architecture want all of its register
C_INT = "signext i32"
_FLOATS = {16: "half", 32: "float", 64: "double"}


def _width(of: DType) -> int:
    """Bits in a register."""
    return 32 if of.scalar == BFLOAT16 else of.bits


@cache
def register_type(of: DType) -> str:
    """The LLVM type of a value in registers: a bool is one bit, a bfloat16 the float that it is the upper half of."""
    if of.kind == "handle":
        return "ptr"
    scalar = _FLOATS[_width(of)] if of.is_float else f"i{of.bits}"
    return scalar if of.lanes == 1 else f"<{of.lanes} x {scalar}>"


@cache
def memory_type(of: DType) -> str:
    """The LLVM type of a value in memory: a bool is one byte."""
    scalar = "i8" if of.is_bool else "i16" if of.scalar == BFLOAT16 else register_type(of.scalar)
    return scalar if of.lanes == 1 else f"<{of.lanes} x {scalar}>"


@cache
def mangled(of: DType) -> str:
    """The type as intrinsics' names spell it: `f32`, `v8i16`."""
    scalar = f"{'f' if of.is_float else 'i'}{_width(of)}"
    return scalar if of.lanes == 1 else f"v{of.lanes}{scalar}"


class Value(NamedTuple):
    """An SSA value or literal; `const` is the number (of every lane) when it is known."""

    ref: str
    dtype: DType
    const: int | float | None = None


def typed(v: Value) -> str:
    """`i64 %x`: an operand with its type."""
    return f"{register_type(v.dtype)} {v.ref}"


def _literal(value: int | float, of: DType) -> str:
    if of.is_bool:
        return "true" if value else "false"
    if not of.is_float:
        return str(value)
    with np.errstate(over="ignore"):
        rounded = of.numpy.type(value)
    if of == "float16":
        return f"0xH{int(rounded.view(np.uint16)):04X}"
    return "0x" + struct.pack(">d", float(rounded)).hex().upper()  # LLVM writes a float as the equal double


def _wrapped(value: int | float, of: DType) -> int | float:
    """An integer as its type holds it: only the low bits count."""
    if not of.is_integer:
        return value
    low = int(value) & ((1 << of.bits) - 1)
    return low - (1 << of.bits) if of.kind == "int" and low >> (of.bits - 1) else low


@lru_cache(maxsize=4096)
def _constant_text(text: str, of: DType) -> str:
    return text if of.lanes == 1 else f"splat ({register_type(of.scalar)} {text})"


def constant(value: int | float, of: DType) -> Value:
    """A literal; in a vector type every lane holds it."""
    value = _wrapped(value, of.scalar)
    return Value(_constant_text(_literal(value, of.scalar), of), of, value)


def _operand(x: Value | float, of: DType) -> Value:
    return x if isinstance(x, Value) else constant(x, of)


def plus(w: Writer, a: Value, b: Value) -> Value:
    """The sum of two 64-bit numbers, of which one or both may be known."""
    if a.const is not None and b.const is not None:
        return constant(a.const + b.const, INT64)
    if 0 in (a.const, b.const):
        return b if a.const == 0 else a
    return w.binary("add", a, b)


def identifier(name: str) -> str:
    """`name` with characters that LLVM and C linkers do not take replaced by `_`; dots stay."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", name) or "_"


#: Bytes of the widest element.
WIDEST_ELEMENT = 8

K = TypeVar("K")
V = TypeVar("V")


class Scoped(dict[K, V], Generic[K, V]):
    """A dict whose entries live while the block of code that made them dominates the present one."""

    def __init__(self) -> None:
        super().__init__()
        self._log: list[tuple[K, V | None, int]] = []  # what was remembered, what it hid, and since which `clear`
        self._cleared = 0

    def remember(self, key: K, value: V) -> V:
        self._log.append((key, self.get(key), self._cleared))
        self[key] = value
        return value

    def mark(self) -> int:
        return len(self._log)

    def forget(self, mark: int) -> None:
        """Drop entries since `mark`, and restore those that they hid."""
        for key, hidden, cleared in reversed(self._log[mark:]):
            if hidden is None or cleared < self._cleared:
                self.pop(key, None)
            else:
                self[key] = hidden
        del self._log[mark:]

    def clear(self) -> None:
        """Drop everything, for good."""
        super().clear()
        self._cleared += 1


@dataclass(frozen=True)
class Abilities:
    """Abilities of a CPU: fused multiply-add, stores of some lanes of a register, library functions of vectors, and
    the instruction for dot products of bytes with the size of its registers, and the size of those in which products
    of bfloat16 are added in pairs (`llvm_dot`)."""

    fuses: bool = False
    masks: bool = False
    vectors: VectorLibrary | None = None
    dot: tuple[str, int] = ("", 0)
    pairs: int = 0


FEWEST_ABILITIES = Abilities()


class ModuleText:
    """Functions, declarations and metadata of one LLVM module."""

    def __init__(
        self,
        triple: str,
        data_layout: str,
        abilities: Abilities = FEWEST_ABILITIES,
        contract: bool = True,
    ) -> None:
        self.contract = contract  #: whether a product and the sum it goes into may round once
        self.is_x86 = triple.startswith("x86_64")
        self.is_big_endian = data_layout.startswith("E")
        self._is_riscv = triple.startswith("riscv")
        self.abilities = abilities
        self._begun: set[str] = set()
        self._head = f'target triple = "{triple}"\ntarget datalayout = "{data_layout}"\n'
        self._declared: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self.functions: list[str] = []
        self._metadata: list[str] = []
        self._shared_metadata: dict[str, str] = {}

    def declare(self, name: str, result: str, parameters: Sequence[str], attributes: str = "") -> str:
        """Declare an external function or intrinsic once; returns `@name`."""
        self._declared[name] = f"declare {result} @{name}({', '.join(parameters)}) {attributes}".rstrip()
        return f"@{name}"

    def extension(self, of: DType) -> str:
        """The attribute by which C passes and returns numbers narrower than a register, with a space after it."""
        if of.is_float or of.bits > 32:
            return ""
        return "signext " if of.kind == "int" or (self._is_riscv and of.bits == 32) else "zeroext "

    def first(self, symbol: str) -> bool:
        """True for the first question about the symbol: whoever asks must define it."""
        known = symbol in self._begun
        self._begun.add(symbol)
        return not known

    def text(self, value: str) -> str:
        """A constant string that ends in a zero; returns its address."""
        data = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in (*value.encode(), 0))
        name = self._texts.setdefault(value, f"@text.{len(self._texts)}")
        self._declared[name] = f'{name} = private constant [{len(value.encode()) + 1} x i8] c"{data}"'
        return name

    def zeros(self) -> str:
        """The address of constant zeros, enough for an element of any type."""
        name = "@zeros"
        self._declared[name] = (
            f"{name} = private constant [{WIDEST_ELEMENT} x i8] zeroinitializer, align {WIDEST_ELEMENT}"
        )
        return name

    def metadata(self, text: str, distinct: bool = False) -> str:
        """A metadata node such as `!3`; `@` in `text` is the node itself.

        Equal nodes are shared, unless they are `distinct`.
        """
        if not distinct and text in self._shared_metadata:
            return self._shared_metadata[text]
        ref = f"!{len(self._metadata)}"
        self._metadata.append(f"{ref} = {'distinct ' if distinct else ''}{text.replace('@', ref)}")
        return self._shared_metadata.setdefault(text, ref) if not distinct else ref

    def __str__(self) -> str:
        parts = [self._head, "\n".join(self._declared.values()), *self.functions, "\n".join(self._metadata)]
        return "\n\n".join(p for p in parts if p) + "\n"


class Writer:
    """One function under construction.

    `op` appends an instruction without side effects and gives its value; asked again for the same
    instruction where the first one dominates, it gives the same value.
    """

    def __init__(self, module: ModuleText) -> None:
        self.module = module
        self.block = "entry"
        self.divisions = 0  #: scalar divisions so far whose divisor is no constant
        self._entry: list[str] = []
        self._lines: list[str] = []
        #: by text and type: the texts for signed and unsigned integers are often the same
        self._pure: Scoped[tuple[str, DType], Value] = Scoped()
        self._extremes = Extremes()
        self._names: dict[str, int] = {"entry": 1}  #: labels are names, too, and that one is taken
        self._count = 0
        self._scoped: list[Scoped[object, object]] = [self._pure]  # type: ignore[list-item]

    # -- names and scopes ---------------------------------------------------------------------
    def name(self, wish: str) -> str:
        """A fresh local name like `wish`."""
        clean = identifier(wish)
        clean = f"_{clean}" if clean[0].isdigit() else clean  # LLVM counts what has a number for a name
        serial = self._names.get(clean, 0)
        self._names[clean] = serial + 1
        # a name that ends in a number could meet another one's serial number
        return f"%{clean}" if serial == 0 and not clean[-1].isdigit() else f"%{clean}.{serial}"

    def tracks(self, scoped: Scoped[K, V]) -> Scoped[K, V]:
        """Let `scoped` forget along with this writer's scopes."""
        self._scoped.append(scoped)  # type: ignore[arg-type]
        return scoped

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Emit code that does not dominate what follows: values made in it are not reused later."""
        marks = [(s, s.mark()) for s in self._scoped]
        yield
        for scoped, mark in marks:
            scoped.forget(mark)

    # -- instructions -------------------------------------------------------------------------
    def op(self, text: str, of: DType) -> Value:
        """An instruction that depends on its operands alone."""
        found = self._pure.get((text, of))
        return found if found is not None else self._pure.remember((text, of), self.fresh(text, of))

    def fresh(self, text: str, of: DType) -> Value:
        """An instruction that is never shared, such as a load."""
        ref = f"%v{self._count}"
        self._count += 1
        self._lines.append(f"  {ref} = {text}")
        return Value(ref, of)

    def pointer(self, text: str) -> str:
        return self.op(text, INT64).ref

    def chosen_pointer(self, condition: Value, a: str, b: str) -> str:
        """One of two addresses, without a jump: nothing foretells which."""
        unpredictable = self.module.metadata("!{}")
        return self.fresh(f"select {typed(condition)}, ptr {a}, ptr {b}, !unpredictable {unpredictable}", INT64).ref

    def do(self, text: str) -> None:
        """An instruction without a value."""
        self._lines.append(f"  {text}")

    def define(self, ref: str, text: str) -> None:
        """An instruction whose result has a chosen name."""
        self._lines.append(f"  {ref} = {text}")

    def alloca(self, wish: str, of: str, align: int) -> str:
        """Allocate stack memory once per call, in whatever loop it is used."""
        ref = self.name(wish)
        self._entry.append(f"  {ref} = alloca {of}, align {align}")
        return ref

    # -- control flow -------------------------------------------------------------------------
    def label(self, wish: str) -> str:
        return self.name(wish)[1:]

    def start(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self._lines.append(f"  br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str, suffix: str = "") -> None:
        self._lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}{suffix}")

    @contextmanager
    def where_any(self, mask: Value) -> Iterator[None]:
        """Emit code that runs if any lane of the mask holds."""
        some = self.intrinsic("vector.reduce.or", BOOL, [mask])
        needed, joined = self.label("needed"), self.label("joined")
        self.branch(some.ref, needed, joined)
        self.start(needed)
        with self.scope():
            yield
        self.jump(joined)
        self.start(joined)

    def finish(self, header: str) -> None:
        """Close the function, whose first line is `header` up to the brace."""
        body = "\n".join([*self._entry, *self._lines])
        self.module.functions.append(f"{header} {{\nentry:\n{body}\n}}")

    # -- what every emitter needs: a number as the second operand stands for a constant -------
    def binary(self, opcode: str, a: Value, b: Value | float) -> Value:
        return self.op(f"{opcode} {typed(a)}, {_operand(b, a.dtype).ref}", a.dtype)

    def compare(self, predicate: str, a: Value, b: Value | float) -> Value:
        """`icmp` or `fcmp`, lane by lane, as the type of the operands has it."""
        opcode = "fcmp" if a.dtype.is_float else "icmp"
        other = _operand(b, a.dtype)
        made = self.op(f"{opcode} {predicate} {typed(a)}, {other.ref}", BOOL.with_lanes(a.dtype.lanes))
        if a.dtype.is_float:
            self._extremes.compared(made, predicate, a, other)
        return made

    def convert(self, opcode: str, a: Value, to: DType) -> Value:
        return self.op(f"{opcode} {typed(a)} to {register_type(to)}", to)

    def select(self, condition: Value, a: Value, b: Value | float) -> Value:
        other = _operand(b, a.dtype)
        if a.dtype.is_float and (same := self._extremes.of_a_number(condition, a, other)) is not None:
            return self.intrinsic(same[0], a.dtype, same[1:])
        if a.dtype.is_float and (found := self._extremes.simpler(condition, a, other)) is not None:
            predicate, a, other = found
            condition = self.compare(predicate, a, other)
        made = self.op(f"select {typed(condition)}, {typed(a)}, {typed(other)}", a.dtype)
        if a.dtype.is_float:
            self._extremes.chosen(made, condition, a, other)
        return made

    def blend(self, condition: Value, a: Value, b: Value) -> Value:
        """`select` of vectors by masks. Where all lanes agree, LLVM would jump, though nothing foretells on what."""
        args = [self.splat(condition, a.dtype.lanes), a, b, constant(a.dtype.lanes, INT32)]
        return self.intrinsic("vp.select", a.dtype, args, suffix=mangled(a.dtype))

    def intrinsic(self, base: str, of: DType, args: Sequence[Value], suffix: str = "", flags: str = "") -> Value:
        """Call `llvm.base.suffix`; the suffix defaults to the first argument's type."""
        name = f"llvm.{base}.{suffix or mangled(args[0].dtype)}"
        callee = self.module.declare(name, register_type(of), [register_type(a.dtype) for a in args])
        call = f"call {flags} " if flags else "call "
        return self.op(f"{call}{register_type(of)} {callee}({', '.join(map(typed, args))})", of)

    def extract(self, v: Value, lane: int) -> Value:
        if v.const is not None:
            return constant(v.const, v.dtype.scalar)
        return self.op(f"extractelement {typed(v)}, i64 {lane}", v.dtype.scalar)

    def insert(self, v: str, x: Value, lane: int, of: DType) -> Value:
        return self.op(f"insertelement {register_type(of)} {v}, {typed(x)}, i64 {lane}", of)

    def shuffle(self, v: Value, lanes: Sequence[int]) -> Value:
        """The given lanes of a vector; any value for lane -1."""
        of = v.dtype.with_lanes(len(lanes))
        mask = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in lanes)
        source = register_type(v.dtype)
        return self.op(f"shufflevector {source} {v.ref}, {source} poison, <{len(lanes)} x i32> <{mask}>", of)

    def shuffle_pair(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """Lanes of two vectors of one type; those of `b` count on from those of `a`."""
        of, source = a.dtype.with_lanes(len(lanes)), register_type(a.dtype)
        mask = ", ".join(f"i32 {i}" for i in lanes)
        return self.op(f"shufflevector {source} {a.ref}, {source} {b.ref}, <{len(lanes)} x i32> <{mask}>", of)

    def part(self, v: Value, first: int, count: int) -> Value:
        """`count` lanes from `first` on; those past the end hold anything."""
        if first == 0 and count == v.dtype.lanes:
            return v
        return self.shuffle(v, [min(first + i, v.dtype.lanes - 1) for i in range(count)])

    def join(self, parts: Sequence[Value]) -> Value:
        """Vectors of one type one after the other."""
        if len(parts) == 1:
            return parts[0]
        half = (len(parts) + 1) // 2
        a, b = self.join(parts[:half]), self.join(parts[half:])
        lanes = a.dtype.lanes + b.dtype.lanes
        return self.shuffle_pair(a, self.part(b, 0, a.dtype.lanes), range(lanes))  # both operands are of one type

    def splat(self, x: Value, lanes: int) -> Value:
        """The scalar in every lane of a vector."""
        if lanes == 1 or x.dtype.lanes == lanes:
            return x
        of = x.dtype.with_lanes(lanes)
        if x.const is not None:
            return constant(x.const, of)
        first = self.insert("poison", x, 0, of)
        vector = register_type(of)
        return self.op(f"shufflevector {vector} {first.ref}, {vector} poison, <{lanes} x i32> zeroinitializer", of)

    def concat(self, parts: Sequence[Value], of: DType) -> Value:
        """A vector from one scalar per lane."""
        ref = "poison"
        for lane, x in enumerate(parts):
            ref = self.insert(ref, x, lane, of).ref
        return Value(ref, of)

    def iota(self, of: DType, stride: int = 1) -> Value:
        """The constant vector 0, stride, 2 * stride, ..."""
        kind = of.scalar
        numbers = [_literal(_wrapped(i * stride, kind), kind) for i in range(of.lanes)]
        lanes = ", ".join(f"{register_type(kind)} {n}" for n in numbers)
        return Value(f"<{lanes}>", of)
