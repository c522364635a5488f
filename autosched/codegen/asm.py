"""Analysis of assembly: the loops of a listing, the hot one, and counts of its instructions.

    for loop in loops(module.assembly, "x86_64"):
        print(loop.title, loop.counts.fmas)

It is analysis of text alone: blocks and jumps give the flow graph, its back edges the natural loops
(Aho, Lam, Sethi, Ullman, "Compilers", section 9.6). LLVM's comments tell where registers are spilled
and what a block was called, so the text must be LLVM's, with comments.

*The hot loop.* Trip counts are seldom in the text, so loops are ranked by what they do in one
iteration, times `TRIPS` for each loop around them: an instruction on vectors or memory counts the bytes
of its registers, any other instruction 1. What belongs to a loop inside does not count. The pieces that
partitioning cut off, which code generation calls `border`, come after all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise

from autosched.codegen.asm_instructions import X86, AArch64, Architecture, Counts, Instruction, split_operands
from autosched.errors import BuildError
from autosched.ir.visit import needed_first, reached

__all__ = ["TRIPS", "Counts", "Loop", "hot_loop", "loops", "marked", "readable"]

#: iterations that a loop is taken to run for each one of the loop around it
TRIPS = 4

#: comments longer than this, such as the lanes of a shuffle, say less than they hide
_LONGEST_COMMENT = 48

_ARCHITECTURES: dict[str, Architecture] = {"x86_64": X86(), "aarch64": AArch64(), "arm64": AArch64(";")}


@dataclass(frozen=True)
class Loop:
    """A loop of a listing: where it is, and what one iteration does.

    `lines` are those that belong to it and not to a loop inside it, counted from 1. `depth` is 1 for
    an outermost loop. `name` is what the generator called the block, such as `k.outer.loop`.
    """

    function: str
    name: str
    depth: int
    innermost: bool
    lines: tuple[int, ...]
    counts: Counts

    @property
    def weight(self) -> int:
        """The rank of the loop: the hottest has the largest."""
        return self.counts.work * TRIPS ** (self.depth - 1)

    @property
    def is_border(self) -> bool:
        """True for a piece that partitioning cut off: it runs rarely, or a few times."""
        return ".border" in self.name

    @property
    def title(self) -> str:
        first, last = self.lines[0], self.lines[-1]
        return f"{self.name or 'a loop'}, lines {first} to {last}, depth {self.depth} in {self.function}"

    def to_json(self) -> dict[str, object]:
        """Return plain data."""
        counts = {f.name: getattr(self.counts, f.name) for f in fields(self.counts)}
        place = {"function": self.function, "name": self.name, "depth": self.depth, "innermost": self.innermost}
        return {**place, "first_line": self.lines[0], "last_line": self.lines[-1], "counts": counts}

    def describe(self) -> list[str]:
        """Return lines that say where it is, and the counts of one iteration."""
        return [f"hot loop: {self.title}", "one iteration:", *(f"  {row}" for row in self.counts.describe())]


def loops(assembly: str, machine: str) -> list[Loop]:
    """The loops of a listing, the hottest first.

    `machine` is `x86_64` or `aarch64`. Raises BuildError for another one.
    """
    architecture = _architecture(machine)
    found = [loop for f in _functions(assembly, architecture) for loop in _loops_of(f, architecture)]
    return sorted(found, key=lambda loop: (loop.is_border, -loop.weight, loop.lines[0]))


def hot_loop(assembly: str, machine: str) -> Loop | None:
    """The loop that probably takes most of the time; None for code without loops. Raises BuildError."""
    found = loops(assembly, machine)
    return found[0] if found else None


def marked(assembly: str, machine: str, *, alone: bool = False) -> str:
    """The listing with its hot loop counted at the top and barred in the margin; `alone`, only that loop.

    Everything added is a comment: the text still assembles. Raises BuildError.
    """
    comment = _architecture(machine).comment
    hot = hot_loop(assembly, machine)
    if hot is None:
        return f"{comment} no loop\n" if alone else assembly
    bar, inside = "/*|*/", set(hot.lines)
    shift = len(hot.describe()) if not alone else 0
    head = [f"{comment} {line}" for line in _shifted(hot, shift).describe()]
    body = [
        bar + ("" if line.startswith("\t") else " ") + line if number in inside else line
        for number, line in enumerate(assembly.splitlines(), 1)
        if number in inside or not alone
    ]
    return "\n".join([*head, *body]) + "\n"


def _shifted(loop: Loop, by: int) -> Loop:
    """The loop, moved down by `by` lines."""
    lines = tuple(line + by for line in loop.lines)
    return Loop(loop.function, loop.name, loop.depth, loop.innermost, lines, loop.counts)


def readable(assembly: str, machine: str) -> str:
    """LLVM's listing with the ends of overlong comments cut off, and without the frames of inline assembly:
    what is inside (see `llvm_stmt`) is empty."""
    architecture = _ARCHITECTURES.get(machine)
    if architecture is None:
        return assembly
    frames = {f"{architecture.comment}APP", f"{architecture.comment}NO_APP"}
    lines = (line for line in assembly.splitlines(keepends=True) if line.strip() not in frames)
    return "".join(_shortened(line, architecture.comment) for line in lines)


def _shortened(line: str, mark: str) -> str:
    at = line.rfind(mark)
    if at < 0 or len(line) - at <= _LONGEST_COMMENT:
        return line
    return line[: at + _LONGEST_COMMENT - 3].rstrip() + "...\n"


def _architecture(machine: str) -> Architecture:
    if machine not in _ARCHITECTURES:
        raise BuildError(
            f"its assembly is not understood here: {machine}",
            asked="the hot loop",
            legal=f"machines: {', '.join(_ARCHITECTURES)}",
        )
    return _ARCHITECTURES[machine]


# -- text to flow graph -------------------------------------------------------------------------
@dataclass
class _Block:
    """Instructions that run one after the other. `follow` are the numbers of blocks that may run next."""

    first_line: int
    name: str = ""
    labels: list[str] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    follow: list[int] = field(default_factory=list)


@dataclass
class _Function:
    name: str
    blocks: list[_Block] = field(default_factory=list)


_LABEL = re.compile(r"([\w.$\"@]+):")
_LOCAL = re.compile(r"\.?L[A-Za-z_]*\d")
_BLOCK_NAME = re.compile(r"%(?!bb\.)([^\s]+)")


def _functions(assembly: str, architecture: Architecture) -> list[_Function]:
    """The functions of a listing, cut into blocks."""
    found: list[_Function] = []
    for number, line in enumerate(assembly.splitlines(), 1):
        code, _, remark = line.partition(architecture.comment)
        remark = remark.lstrip("#")
        label = _LABEL.match(code)
        if label and not _LOCAL.match(label[1]):
            found.append(_Function(label[1].strip('"'), [_Block(number)]))
        elif not found:
            continue
        elif label or remark.startswith(" %bb."):
            called = _BLOCK_NAME.search(remark)
            labels = [label[1]] if label else []
            found[-1].blocks.append(_Block(number, called[1] if called else "", labels))
        elif code.strip() and not code.strip().startswith("."):
            block = found[-1].blocks[-1]
            if block.instructions and architecture.jump(block.instructions[-1]):
                block = _Block(number)
                found[-1].blocks.append(block)
            block.instructions.append(_instruction(number, code, remark))
    for f in found:
        _connect(f, architecture)
    return [f for f in found if any(b.instructions for b in f.blocks)]


def _instruction(number: int, code: str, remark: str) -> Instruction:
    words = code.split(None, 1)
    while len(words) == 2 and words[0] in ("lock", "rep", "repne", "{vex}", "{evex}", "notrack"):
        words = words[1].split(None, 1)
    return Instruction(number, words[0], tuple(split_operands(words[1])) if len(words) == 2 else (), remark.strip())


def _connect(f: _Function, architecture: Architecture) -> None:
    """Set the successors of each block."""
    at = {label: number for number, block in enumerate(f.blocks) for label in block.labels}
    for number, block in enumerate(f.blocks):
        jump = architecture.jump(block.instructions[-1]) if block.instructions else None
        target, goes_on = jump or (None, True)
        if target in at:
            block.follow.append(at[target])
        if goes_on and number + 1 < len(f.blocks):
            block.follow.append(number + 1)


# -- flow graph to loops --------------------------------------------------------------------------
def _loops_of(f: _Function, architecture: Architecture) -> list[Loop]:
    """The natural loops of a function; those with one header are one loop."""
    # the reachable blocks, each before its successors, except along back edges
    order = needed_first([0], lambda b: f.blocks[b].follow)[::-1]
    rank = {b: i for i, b in enumerate(order)}
    after = [block.follow for block in f.blocks]
    before: list[list[int]] = [[] for _ in f.blocks]
    for b in order:
        for following in after[b]:
            before[following].append(b)
    bodies: dict[int, set[int]] = {}
    for b in order:
        for header in after[b]:
            # a back edge: every way from the entry to its end leads through the block where it goes to
            if rank[header] <= rank[b] and (b == header or b not in _reached(0, after, header)):
                bodies.setdefault(header, {header}).update(_reached(b, before, header))
    return [_loop(f, header, bodies, architecture) for header in bodies]


def _loop(f: _Function, header: int, bodies: dict[int, set[int]], architecture: Architecture) -> Loop:
    body = bodies[header]
    inside = [other for h, other in bodies.items() if h != header and h in body]
    own = [f.blocks[b] for b in sorted(body) if not any(b in other for other in inside)]
    instructions = [i for block in own for i in block.instructions]
    lines = sorted({n for block in own for n in (block.first_line, *(i.line for i in block.instructions))})
    return Loop(
        f.name,
        f.blocks[header].name,
        sum(header in other for other in bodies.values()),
        not inside,
        tuple(_filled(lines, f, own)),
        sum((architecture.count(i) for i in instructions), Counts()),
    )


def _filled(lines: Sequence[int], f: _Function, own: Sequence[_Block]) -> Iterator[int]:
    """The lines, and comments and directives between them that belong to the same block."""
    others = {block.first_line for block in f.blocks} - {block.first_line for block in own}
    for line, following in pairwise(lines):
        between = range(line + 1, following)
        yield line
        if not any(n in others for n in between):
            yield from between
    yield lines[-1]


def _reached(start: int, edges: Sequence[Sequence[int]], without: int) -> set[int]:
    """The blocks on paths from `start` that avoid one block."""
    return {*reached({start} - {without}, lambda b: {*edges[b]} - {without})}
