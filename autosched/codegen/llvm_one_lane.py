"""Masked stores of exactly one lane, written as stores of one element.

LLVM's x86 code generator makes a scalar store of a masked store whose constant mask has one lane. Some versions take
the width of that store from the register, not from memory: where the stored value was narrowed on the way (`trunc` of
32 bits to 8), the elements behind it are overwritten, and with them what lies behind the array. CPUs with AVX-512 have
such narrowing stores. Programs need no masks to meet this: LLVM's own vectorizer makes them where it unrolls a guard.

The mask is constant and has one lane, so one element says the same, and LLVM gets the width of that right. Every
module is rewritten after it is optimised, before instructions are selected. What LLVM does is asked of LLVM itself.
"""

from __future__ import annotations

import re
from functools import lru_cache

from autosched.codegen.asm_instructions import split_operands

#: how the names of the intrinsics begin
MASKED_STORE = "llvm.masked.store."

_PAIRS = ((4, 32, 8), (8, 64, 32), (16, 32, 16))  #: lanes, bits in registers, bits in memory
#: x86 instructions that store the low bits of a register, by the bits they store
_STORES = {
    8: frozenset({"movb", "vpextrb"}),
    16: frozenset({"movw", "vpextrw", "vmovw"}),
    32: frozenset({"movl", "vmovd", "vmovss", "vextractps", "vpextrd"}),
}


def _probe(lanes: int, wide: int, narrow: int) -> str:
    vector, mask = f"<{lanes} x i{narrow}>", ", ".join(f"i1 {'true' if i == 1 else 'false'}" for i in range(lanes))
    store = f"@{MASKED_STORE}v{lanes}i{narrow}.p0"
    return f"""
declare void {store}({vector}, ptr, <{lanes} x i1>)
define void @narrow{narrow}(<{lanes} x i{wide}> %wide, ptr %p) {{
  %narrow = trunc <{lanes} x i{wide}> %wide to {vector}
  call void {store}({vector} %narrow, ptr align 1 %p, <{lanes} x i1> <{mask}>)
  ret void
}}"""


#: functions that narrow a vector and store its second lane
PROBE = "".join(_probe(*pair) for pair in _PAIRS)


def stores_too_wide(assembly: str, triple: str) -> bool:
    """True if a function of `PROBE`, in the assembly of this machine, stores more than one element.

    An instruction that nobody has heard of counts as too wide: rewriting costs nothing but compile time. Only x86's
    code generator has the fault.
    """
    if not triple.startswith("x86_64"):
        return False
    narrow = 0
    for line in assembly.splitlines():
        label = re.match(r"narrow(\d+):", line)
        if label:
            narrow = int(label[1])
        store = re.match(r"\s+(\w+)\s.*, -?\d*\(%rdi\)(.*)", line)
        if narrow and store and "{%k" not in store[2] and store[1] not in _STORES[narrow]:
            return True
    return False


def one_lane_stores_as_scalars(text: str) -> str:
    """LLVM assembly in which every masked store of one lane, by a constant mask, is a store of that element."""
    lines = text.split("\n")
    fresh = 0
    for number, line in enumerate(lines):
        if f"call void @{MASKED_STORE}" not in line:
            continue
        call = _CALL.match(line)
        operands = split_operands(call[1], "<([{>)]}") if call else []
        lane = _only_lane(operands[-1]) if operands else None
        if call is None or lane is None:
            continue
        value, address, _ = operands
        lines[number] = _scalar_store(value, address, lane, f"%one.lane.{fresh}", _metadata(call[2]))
        fresh += 1
    return "\n".join(lines) if fresh else text


#: where an address begins, behind its type and attributes
_POINTER = re.compile(r"(?<= )(?:[%@]|getelementptr\b|inttoptr\b|null\b|poison\b|undef\b)")
_CALL = re.compile(rf"\s*(?:\w+ )?call void @{re.escape(MASKED_STORE)}[\w.]+\((.*)\)([^()]*)$")


def _only_lane(mask: str) -> int | None:
    """The one lane that a mask such as `<2 x i1> <i1 false, i1 true>` has; None for other masks.

    LLVM takes a lane of which nothing is known for one that is not stored.
    """
    lanes = re.fullmatch(r"<\d+ x i1> <(.*)>", mask)
    stored = [i for i, lane in enumerate(lanes[1].split(",")) if lane.strip() == "i1 true"] if lanes else []
    return stored[0] if len(stored) == 1 else None


def _metadata(suffix: str) -> str:
    """The metadata that follows a call, without the attributes that only calls have."""
    found = suffix.find("!")
    return f", {suffix[found:]}" if found >= 0 else ""


@lru_cache(maxsize=256)
def _element(vector: str) -> tuple[str, int]:
    """The element's type of `<4 x i8>`, and its bytes."""
    kind = vector.partition(" x ")[2].rstrip(">")
    sizes = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8}
    return kind, sizes.get(kind) or -(-int(kind[1:]) // 8)


def _scalar_store(value: str, address: str, lane: int, fresh: str, metadata: str) -> str:
    element, size = _element(value[: value.index(">") + 1])
    aligned = re.search(r"\balign (\d+)", address)
    offset = lane * size
    align = min(int(aligned[1]) if aligned else 1, offset & -offset or 1 << 30)
    pointer = address[_POINTER.search(address).start() :]  # type: ignore[union-attr]  # the verifier saw the operand
    return (
        f"  {fresh}.value = extractelement {value}, i64 {lane}\n"
        f"  {fresh}.place = getelementptr {element}, ptr {pointer}, i64 {lane}\n"
        f"  store {element} {fresh}.value, ptr {fresh}.place, align {align}{metadata}"
    )
