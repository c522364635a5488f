"""x86-64 instructions in AT&T syntax: sources first, the destination last."""

from __future__ import annotations

import re

from autosched.codegen.asm_counts import Counts, Instruction

_REGISTER_BITS = (("%zmm", 512), ("%ymm", 256), ("%xmm", 128))

_FMA = re.compile(r"vfn?m(add|sub)|vfmaddsub|vfmsubadd|vpdp|vdpbf16|vpmadd|pmadd")
_MOVE = re.compile(r"v?(mov(a|u|nt)p[sd]|movdq[au]|movntdqa?|lddqu|movs[sdh]$|mov[dqw]$|p?maskmov|kmov)")
_BROADCAST = re.compile(r"v?p?broadcast|v?movddup")
_SHUFFLE = re.compile(
    r"v?(p?shuf|punpck|unpck|pack|perm|palignr|align|insert|pinsr|extract|pextr|mov[sl][hl]dup|mov(lh|hl|h|l)p[sd]"
    r"|pmov[sz]x|pmov(s|us)?(wb|dw|db|qd|qw|qb)|p?compress|p?expand|p(sl|sr)ldq)"
)
_GATHER = re.compile(r"vp?(gather|scatter)")
_SCALAR_FLOAT = re.compile(r"(?!v?p)\w*s[sdh]$")
_ENDS = ("jmp", "jmpq", "ret", "retq", "ud2")
_READS_BOTH = ("cmp", "test", "bt", "ucomi", "comi", "vucomi", "vcomi", "push")


class X86:
    """How x86-64 is written."""

    comment = "#"

    def jump(self, i: Instruction) -> tuple[str | None, bool] | None:
        """(label, whether the next line may follow); None for what is no jump."""
        if i.mnemonic in _ENDS:
            return (i.operands[0] if i.operands else None), False
        return (i.operands[0], True) if i.mnemonic.startswith("j") else None

    def count(self, i: Instruction) -> Counts:
        m = i.mnemonic
        if m.startswith(("j", "ret")):
            return Counts(branches=1, work=1)
        if m.startswith("call"):
            return Counts(calls=1, work=1)
        if m.startswith("prefetch"):
            return Counts(prefetches=1, work=1)
        if m.startswith(("nop", "vzero", "endbr", "ud2")):
            return Counts()
        bits = _bits(i)
        return _vector(i, bits) if bits else _scalar(i)


def _bits(i: Instruction) -> int:
    """Bits of a vector operand, or of the one element that is used of it; 0 for none."""
    text = " ".join(i.operands)
    bits = next((n for register, n in _REGISTER_BITS if register in text), 0)
    if bits and _SCALAR_FLOAT.match(i.mnemonic) and "broadcast" not in i.mnemonic:
        return {"s": 32, "d": 64, "h": 16}[i.mnemonic[-1]]
    return bits or (64 if re.search(r"%k[0-7]", text) else 0)


def _is_memory(operand: str) -> bool:
    return "(" in operand or operand[:1] not in "%$*{"


def _vector(i: Instruction, bits: int) -> Counts:
    memory = [_is_memory(o) for o in i.operands]
    reads, writes = any(memory[:-1]), bool(memory) and memory[-1]
    if writes and i.mnemonic.startswith(_READS_BOTH):
        reads, writes = True, False
    traffic = _traffic(i, reads, writes)
    broadcast = reads and ("{1to" in " ".join(i.operands) or _BROADCAST.match(i.mnemonic) is not None)
    done = traffic + Counts(broadcasts=int(broadcast), vector_bits=0 if "%k" in i.operands[-1][:2] else bits)
    done += _vector_kind(i, reads or writes)
    return done + Counts(work=1 if done.moves else max(bits // 8, 1))


def _vector_kind(i: Instruction, memory: bool) -> Counts:
    m = i.mnemonic
    if _FMA.match(m):
        return Counts(fmas=1)
    if _GATHER.match(m):
        return Counts(gathers=1)
    if _MOVE.match(m) or (_BROADCAST.match(m) and memory):
        return Counts() if memory else Counts(moves=1)
    if _SHUFFLE.match(m) or _BROADCAST.match(m):
        return Counts(shuffles=1)
    if "xor" in m and len(set(i.operands)) == 1:  # how a register is set to zero
        return Counts(moves=1)
    return Counts(arithmetic=1)


def _scalar(i: Instruction) -> Counts:
    """Integers and addresses. A plain load or store is that and nothing else."""
    m = i.mnemonic
    memory = [_is_memory(o) for o in i.operands]
    if m.startswith("lea") or not any(memory):
        return Counts(scalar=1, work=1)
    into = memory[-1]
    plain = m.startswith("mov")
    reads = not into or not (plain or m.startswith("set"))
    writes = into and not m.startswith(_READS_BOTH) and not m.startswith(("mul", "div", "imul", "idiv"))
    return _traffic(i, reads, writes) + Counts(scalar=int(not plain), work=1)


def _traffic(i: Instruction, reads: bool, writes: bool) -> Counts:
    """Loads and stores, or spills where the compiler's comment says so."""
    if "Spill" in i.remark or "Reload" in i.remark:
        return Counts(spills=int(writes), reloads=int(reads and not writes))
    return Counts(loads=int(reads), stores=int(writes))
