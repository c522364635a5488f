"""Instructions of a listing, and what is counted of them."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Instruction:
    """One line of assembly. `remark` is its comment."""

    line: int
    mnemonic: str
    operands: tuple[str, ...]
    remark: str = ""


@dataclass(frozen=True)
class Counts:
    """What some instructions do, each counted once.

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
        """A table of the counts; rows of zeros that nobody would miss are left out."""
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
