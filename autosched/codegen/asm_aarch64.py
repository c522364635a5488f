"""AArch64 instructions: the destination first, except in stores."""

from __future__ import annotations

import re

from autosched.codegen.asm_counts import Counts, Instruction

_FMA = re.compile(r"fn?m(la|ls|add|sub)|[su]?ml[as]l?|[su]?sdot|[su]dot|usdot|bfdot|[sub]f?mmla")
_SHUFFLE = re.compile(r"zip|uzp|trn|ext$|tb[lx]|dup|ins$|rev|s?u?q?xtu?n|[su]xtl|[su]shll|[us]mov|shrn|uqshrn|movprfx")
_ENDS = ("b", "br", "ret", "brk", "udf")
_CONDITIONAL = re.compile(r"b\.\w+$|cbn?z$|tbn?z$|bc\.\w+$")

#: v0.4s, q0, z0.s; the arrangement tells how many bits are used
_VECTOR = re.compile(r"\b(?:v\d+\.(?P<lanes>\d*)(?P<element>[bhsd])|(?P<plain>[qdshb])\d+\b|(?P<scalable>z\d+))")
_ELEMENT_BITS = {"b": 8, "h": 16, "s": 32, "d": 64, "q": 128}


class AArch64:
    """How AArch64 is written; `comment` begins a comment, which Apple's systems write differently."""

    def __init__(self, comment: str = "//") -> None:
        self.comment = comment

    def jump(self, i: Instruction) -> tuple[str | None, bool] | None:
        """(label, whether the next line may follow); None for what is no jump."""
        if i.mnemonic in _ENDS:
            return (i.operands[0] if i.operands else None), False
        return (i.operands[-1], True) if _CONDITIONAL.match(i.mnemonic) else None

    def count(self, i: Instruction) -> Counts:
        m = i.mnemonic
        if self.jump(i):
            return Counts(branches=1, work=1)
        if m in ("bl", "blr"):
            return Counts(calls=1, work=1)
        if m.startswith("prf"):
            return Counts(prefetches=1, work=1)
        if m in ("nop", "hint", "bti"):
            return Counts()
        bits = max((_bits(o) for o in i.operands), default=0)
        if m.startswith(("ld", "st")):
            return _memory(i, bits)
        if not bits:
            return Counts(scalar=1, work=1)
        kind = _vector_kind(i)
        return kind + Counts(vector_bits=bits, work=1 if kind.moves else bits // 8)


def _bits(operand: str) -> int:
    """Bits of the vector register that an operand uses; 0 for none. A scalable one has 128 at least."""
    found = _VECTOR.search(operand.partition("[")[0] if not operand.startswith(("[", "{")) else operand)
    if found is None or operand.startswith("["):
        return 0
    if found["scalable"]:
        return 128
    if found["plain"]:
        return _ELEMENT_BITS[found["plain"]]
    return int(found["lanes"] or 1) * _ELEMENT_BITS[found["element"]]


def _memory(i: Instruction, bits: int) -> Counts:
    load = i.mnemonic.startswith("ld")
    if "Spill" in i.remark or "Reload" in i.remark:
        traffic = Counts(reloads=int(load), spills=int(not load))
    else:
        traffic = Counts(loads=int(load), stores=int(not load), broadcasts=int(i.mnemonic in ("ld1r", "ld2r")))
    return traffic + Counts(vector_bits=bits, work=max(bits // 8, 1))


def _vector_kind(i: Instruction) -> Counts:
    m = i.mnemonic
    if _FMA.match(m):
        return Counts(fmas=1)
    if m in ("mov", "fmov", "movi") or (m == "eor" and len(set(i.operands[1:])) == 1):
        return Counts(moves=1)
    return Counts(shuffles=1) if _SHUFFLE.match(m) else Counts(arithmetic=1)
