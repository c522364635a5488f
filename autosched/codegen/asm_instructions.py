"""Instructions of x86-64 and AArch64: their jumps, and what is counted of each."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Instruction:
    """One line of assembly. `remark` is its comment."""

    line: int
    mnemonic: str
    operands: tuple[str, ...]
    remark: str = ""


def split_operands(text: str, brackets: str = "([{)]}") -> list[str]:
    """The operands of an instruction: cut at commas outside brackets, of which the first half open."""
    found, depth = [""], 0
    for c in text:
        depth += (c in brackets[: len(brackets) // 2]) - (c in brackets[len(brackets) // 2 :])
        if c == "," and depth == 0:
            found.append("")
        else:
            found[-1] += c
    return [operand.strip() for operand in found]


@dataclass(frozen=True)
class Counts:
    """Instructions by what they do, each counted once.

    A memory operand counts as a load or a store beside what the instruction is; one that the compiler
    added to save registers is a spill or a reload instead. Floating-point scalars count as vectors of
    one element. `vector_bits` is the widest vector that is computed with, loaded or stored.
    """

    fmas: int = 0  #: multiply-adds, dot products among them
    arithmetic: int = 0  #: other arithmetic on vectors, comparisons and blends too
    shuffles: int = 0  #: what moves lanes: permutes, packs, widening and narrowing, broadcasts of registers
    moves: int = 0  #: vector registers copied or set to zero
    loads: int = 0
    broadcasts: int = 0  #: loads, among those above, of one element into all lanes
    stores: int = 0
    gathers: int = 0  #: gathers and scatters
    reloads: int = 0
    spills: int = 0
    scalar: int = 0  #: integers and addresses
    branches: int = 0
    calls: int = 0
    prefetches: int = 0
    vector_bits: int = 0
    work: int = 0  #: bytes of the vectors computed with, loaded and stored, and 1 for any other instruction

    def __add__(self, other: Counts) -> Counts:
        total = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Counts(**total | {"vector_bits": max(self.vector_bits, other.vector_bits)})

    def describe(self) -> list[str]:
        """Return a table of the counts, without most rows of zeros."""
        width = f"{self.vector_bits}-bit vectors" if self.vector_bits >= 128 else "scalar: no vectors"
        of_loads = f"{self.broadcasts} of them broadcast one element" if self.broadcasts else ""
        rows = [
            ("FMAs", self.fmas, width if self.fmas else ""),
            ("vector arithmetic", self.arithmetic, "" if self.fmas else width),
            ("shuffles", self.shuffles, "permutes, packs, widening, narrowing" if self.shuffles else ""),
            ("loads", self.loads, of_loads),
            ("stores", self.stores, ""),
            ("spills", self.spills + self.reloads, f"{self.spills} stored, {self.reloads} reloaded"),
            ("integer", self.scalar, "integers and addresses"),
            ("branches", self.branches, ""),
        ]
        rare = [
            ("vector moves", self.moves, "registers copied or set to zero"),
            ("gathers", self.gathers, "and scatters"),
            ("calls", self.calls, "functions that were not inlined"),
            ("prefetches", self.prefetches, ""),
        ]
        rows += [row for row in rare if row[1]]
        digits = max(len(str(n)) for _, n, _ in rows)
        return [f"{what:17}  {n:{digits}}  {note}".rstrip() for what, n, note in rows]


def _traffic(i: Instruction, reads: bool, writes: bool) -> Counts:
    """Loads and stores, or spills where the compiler's comment says so."""
    if "Spill" in i.remark or "Reload" in i.remark:
        return Counts(spills=int(writes), reloads=int(reads and not writes))
    return Counts(loads=int(reads), stores=int(writes))


class Architecture:
    """An instruction set. `comment` begins a comment; patterns match the beginning of a mnemonic."""

    comment = "#"
    ends: tuple[str, ...]  #: mnemonics after which the next line does not run
    conditional: re.Pattern[str]
    branches: re.Pattern[str]
    calls: re.Pattern[str]
    prefetches: re.Pattern[str]
    nothing: re.Pattern[str]
    fma: re.Pattern[str]
    shuffle: re.Pattern[str]

    def jump(self, i: Instruction) -> tuple[str | None, bool] | None:
        """Return (its target, whether the next line may follow); None for no jump."""
        if i.mnemonic in self.ends:
            return (i.operands[0] if i.operands else None), False
        return (i.operands[-1], True) if self.conditional.match(i.mnemonic) else None

    def count(self, i: Instruction) -> Counts:
        """The counts of one instruction."""
        for pattern, counts in (
            (self.branches, Counts(branches=1, work=1)),
            (self.calls, Counts(calls=1, work=1)),
            (self.prefetches, Counts(prefetches=1, work=1)),
            (self.nothing, Counts()),
        ):
            if pattern.match(i.mnemonic):
                return counts
        return self._count(i)

    def _count(self, i: Instruction) -> Counts:
        """The counts of an instruction that computes, loads or stores."""
        raise NotImplementedError


class X86(Architecture):
    """x86-64 in AT&T syntax: sources first, the destination last."""

    ends = ("jmp", "jmpq", "ret", "retq", "ud2")
    conditional = re.compile("j")
    branches = re.compile("j|ret")
    calls = re.compile("call")
    prefetches = re.compile("prefetch")
    nothing = re.compile("nop|vzero|endbr|ud2")
    fma = re.compile(r"vfn?m(add|sub)|vfmaddsub|vfmsubadd|vpdp|vpdbf16|vpmadd|pmadd")
    shuffle = re.compile(
        r"v?(p?shuf|punpck|unpck|pack|perm|palignr|align|insert|pinsr|extract|pextr|mov[sl][hl]dup|mov(lh|hl|h|l)p[sd]"
        r"|pmov[sz]x|pmov(s|us)?(wb|dw|db|qd|qw|qb)|p?compress|p?expand|p(sl|sr)ldq)"
    )
    move = re.compile(r"v?(mov(a|u|nt)p[sd]|movdq[au]|movntdqa?|lddqu|movs[sdh]$|mov[dqw]$|p?maskmov|kmov)")
    broadcast = re.compile(r"v?p?broadcast|v?movddup")
    gather = re.compile(r"vp?(gather|scatter)")
    scalar_float = re.compile(r"(?!v?p)\w*s[sdh]$")
    reads_both = ("cmp", "test", "bt", "ucomi", "comi", "vucomi", "vcomi", "push")

    def _count(self, i: Instruction) -> Counts:
        bits = self._bits(i)
        memory = ["(" in o or o[:1] not in "%$*{" for o in i.operands]
        return self._vector(i, bits, memory) if bits else self._scalar(i, memory)

    def _bits(self, i: Instruction) -> int:
        """Bits of its vector operand, or of the one element that is used; 0 for none."""
        text = " ".join(i.operands)
        bits = next((n for register, n in (("%zmm", 512), ("%ymm", 256), ("%xmm", 128)) if register in text), 0)
        if bits and self.scalar_float.match(i.mnemonic) and "broadcast" not in i.mnemonic:
            return {"s": 32, "d": 64, "h": 16}[i.mnemonic[-1]]
        return bits or (64 if re.search(r"%k[0-7]", text) else 0)

    def _vector(self, i: Instruction, bits: int, memory: list[bool]) -> Counts:
        reads, writes = any(memory[:-1]), bool(memory) and memory[-1]
        if writes and i.mnemonic.startswith(self.reads_both):
            reads, writes = True, False
        broadcast = reads and ("{1to" in " ".join(i.operands) or self.broadcast.match(i.mnemonic) is not None)
        done = _traffic(i, reads, writes) + self._kind(i, reads or writes)
        done += Counts(broadcasts=int(broadcast), vector_bits=0 if "%k" in i.operands[-1][:2] else bits)
        return done + Counts(work=1 if done.moves else max(bits // 8, 1))

    def _kind(self, i: Instruction, memory: bool) -> Counts:
        m = i.mnemonic
        if self.fma.match(m):
            return Counts(fmas=1)
        if self.gather.match(m):
            return Counts(gathers=1)
        if self.move.match(m) or (self.broadcast.match(m) and memory):
            return Counts() if memory else Counts(moves=1)
        if self.shuffle.match(m) or self.broadcast.match(m):
            return Counts(shuffles=1)
        if "xor" in m and len(set(i.operands)) == 1:  # how a register is set to zero
            return Counts(moves=1)
        return Counts(arithmetic=1)

    def _scalar(self, i: Instruction, memory: list[bool]) -> Counts:
        """The counts of an instruction on integers or addresses; a plain load or store counts as that alone."""
        m = i.mnemonic
        if m.startswith("lea") or not any(memory):
            return Counts(scalar=1, work=1)
        into = memory[-1]
        plain = m.startswith("mov")
        reads = not into or not (plain or m.startswith("set"))
        writes = into and not m.startswith(self.reads_both) and not m.startswith(("mul", "div", "imul", "idiv"))
        return _traffic(i, reads, writes) + Counts(scalar=int(not plain), work=1)


class AArch64(Architecture):
    """AArch64: the destination first, except in stores. Apple's systems have another `comment`."""

    ends = ("b", "br", "ret", "brk", "udf")
    conditional = re.compile(r"b\.\w+$|cbn?z$|tbn?z$|bc\.\w+$")
    branches = re.compile(rf"({'|'.join(ends)})$|{conditional.pattern}")
    calls = re.compile("blr?$")
    prefetches = re.compile("prf")
    nothing = re.compile("(nop|hint|bti)$")
    fma = re.compile(r"fn?m(la|ls|add|sub)|[su]?ml[as]l?|[su]?sdot|[su]dot|usdot|bfdot|[sub]f?mmla")
    shuffle = re.compile(
        r"zip|uzp|trn|ext$|tb[lx]|dup|ins$|rev|s?u?q?xtu?n|[su]xtl|[su]shll|[us]mov|shrn|uqshrn|movprfx"
    )
    #: v0.4s, q0, z0.s; the arrangement tells how many bits are used
    register = re.compile(r"\b(?:v\d+\.(?P<lanes>\d*)(?P<element>[bhsd])|(?P<plain>[qdshb])\d+\b|(?P<scalable>z\d+))")

    def __init__(self, comment: str = "//") -> None:
        self.comment = comment

    def _count(self, i: Instruction) -> Counts:
        m, bits = i.mnemonic, max(map(self._bits, i.operands), default=0)
        if m.startswith(("ld", "st")):
            load = m.startswith("ld")
            broadcast = Counts(broadcasts=int(m in ("ld1r", "ld2r")), vector_bits=bits, work=max(bits // 8, 1))
            return _traffic(i, load, not load) + broadcast
        if not bits:
            return Counts(scalar=1, work=1)
        moves = m in ("mov", "fmov", "movi") or (m == "eor" and len(set(i.operands[1:])) == 1)
        if self.fma.match(m):
            kind = Counts(fmas=1)
        elif moves:
            kind = Counts(moves=1)
        else:
            kind = Counts(shuffles=1) if self.shuffle.match(m) else Counts(arithmetic=1)
        return kind + Counts(vector_bits=bits, work=1 if kind.moves else bits // 8)

    def _bits(self, operand: str) -> int:
        """Bits of the vector register that an operand names; 0 for none. A scalable one has 128 at least."""
        found = self.register.search(operand if operand.startswith("{") else operand.partition("[")[0])
        if found is None:
            return 0
        if found["scalable"]:
            return 128
        element = {"b": 8, "h": 16, "s": 32, "d": 64, "q": 128}[found["plain"] or found["element"]]
        return element * int(found["lanes"] or 1)
