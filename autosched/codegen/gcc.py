"""What gcc 12 gets wrong in C code like ours, and the pragmas that keep it from that.

Each was found by random programs whose arrays end at inaccessible memory, and each switches off no more than the
programs need that are concerned: `experiments/workarounds.py` tells what it costs. Vectors that a schedule asked for
stay.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from autosched.codegen.storage import constant_bytes
from autosched.ir import stmt as S
from autosched.ir.expr import Expr, variables
from autosched.ir.ops import CHOICES
from autosched.ir.poly import Poly
from autosched.ir.simplify import Analyzer
from autosched.ir.visit import contains, post_order

#: Of conditional accesses to memory, gcc 12 with AVX-512 makes instructions that read elements behind an array: its
#: masks of 32 and 64 lanes are wrong, which need AVX-512BW, and a load of 16 or 32 bytes under a mask that it knows
#: becomes a blend, which reads all of them. Such masks need AVX-512VL.
_NO_MASKED_LOADS = """\
#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#pragma GCC target("no-avx512bw,no-avx512vl")
#endif"""

#: gcc 12 with AVX gets vectors of conditional accesses wrong that lie side by side, three colours of a pixel, say, or
#: seven columns: it loads the wrong ones. Where it makes no masks of conditions it makes no such vectors, but none of
#: values that are selected, either: only programs with such accesses do without.
_NO_MASKS = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-if-convert")
#endif"""

#: Of accesses a constant distance apart, in one iteration or in several, gcc 12 makes vectors that load what lies
#: between, and up to a vector behind the last one: past the end of an array. Without its pass for straight code, and
#: with vectors of 32 bytes in loops that it chooses itself, only the loads of `_has_gaps` were found.
NO_GAPS = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-slp-vectorize")
#if defined(__AVX512F__)
#pragma GCC target("prefer-vector-width=256")
#endif
#endif"""

#: Of floats that are converted to wider ones gcc 12 makes such loads with vectors of 32 bytes, too, and of groups of
#: bytes. Only where it makes no vectors of loops at all, it makes none of those. Nor does it take other elements then
#: where an index is a condition: of `a[a[i] > 3]` its vectors take wrong ones, at -O2 and whatever the type. Nor
#: does it forget half of one of several sums of signed integers side by side, as 16 lanes are, if that is used in
#: another way than the others: such as the one to which the rest of a row is added.
_NO_LOOPS = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-tree-loop-vectorize")
#endif"""

#: Where a loop copies an array on the stack, gcc 12 with AVX-512 makes moves of 64, 32 and 16 bytes of it, the last
#: ones as of aligned memory; the stack pointer of a function that calls nothing need not be aligned by 16 then (bug
#: 109780). Copies that remain loops are vectors all the same.
_NO_COPIES = """\
#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX512F__)
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif"""

#: Copies of the body of a short loop, which a compiler writes out.
MOST_COPIES = 16
#: Elements side by side that gcc loads together although they fill half a vector: groups of 8 were seen.
FEWEST_TOGETHER = 4


#: What evaluates all but its first operand under a condition in C.
MAY_LEAVE_OUT = (*CHOICES, "and", "or")


def pragmas(body: S.Stmt, nodes: Sequence[Expr], has_vectors: bool = False) -> Iterator[str]:
    """The pragmas for a function with this body; `nodes` are its expressions. With `has_vectors`, what a schedule
    vectorized is vectors already: loops are left as they are before vectors lose instructions."""
    if any(isinstance(s, S.For) for s in S.walk(body)):
        yield NO_GAPS
    is_wrong = any(map(_is_widened_load, nodes)) or any(map(_is_looked_up_by_a_condition, nodes))
    masked = _is_conditional(body, nodes) or any(isinstance(s, S.For) and _varies(s.extent) for s in S.walk(body))
    if is_wrong or _has_gaps(body) or _has_sums_side_by_side(body) or (masked and has_vectors):
        yield _NO_LOOPS
    elif masked:
        yield _NO_MASKED_LOADS
    if _has_groups(body):
        yield _NO_MASKS
    if any(isinstance(s, S.Allocate) and constant_bytes(s.buffer) for s in S.walk(body)):
        yield _NO_COPIES


def _is_conditional(body: S.Stmt, nodes: Sequence[Expr]) -> bool:
    """Whether a condition decides about an access to memory."""
    if any(isinstance(s, S.If) for s in S.walk(body)):
        return True
    chosen = [a for n in nodes if n.op in MAY_LEAVE_OUT for a in n.args[1:]]
    return contains(chosen, "load")


def _varies(extent: Expr) -> bool:
    """Whether the extent of a loop may change during a call: once a compiler unrolls it, a condition guards each
    step."""
    nodes = post_order([extent])
    return any(n.op in ("min", "max", "select") or (n.op == "var" and n.value.role == "loop") for n in nodes)


def _is_widened_load(e: Expr) -> bool:
    """Whether one number is loaded as a float and converted to a wider one."""
    return (
        e.op == "cast"
        and e.dtype.lanes == 1
        and e.args[0].op == "load"
        and e.args[0].dtype.kind == e.dtype.kind == "float"
        and e.args[0].dtype.bits < e.dtype.bits
    )


def _is_looked_up_by_a_condition(e: Expr) -> bool:
    """Whether the index of a load is made of what a condition on data says, which is 0 or 1 to gcc."""
    if e.op != "load":
        return False
    found = post_order(e.args)
    decided = (n.args[0] for n in found if n.op in CHOICES or (n.op == "cast" and n.args[0].dtype.is_bool))
    return contains(decided, "load")


def _has_groups(s: S.Stmt, times: int = 1, inside: bool = False, counts: Counter[S.Buffer] | None = None) -> bool:
    """Whether three accesses to one buffer may lie side by side under a condition, as those of short loops do, which a
    compiler unrolls. `counts` are those so far in one iteration of the loop around."""
    if isinstance(s, S.For):
        length = s.extent.value if s.extent.op == "const" else MOST_COPIES + 1
        if length > MOST_COPIES:
            return _has_groups(s.body, 1, False, Counter())
        return _has_groups(s.body, times * length, inside, Counter() if counts is None else counts)
    if counts is not None:
        parts = [e for e in post_order(S.expressions(s)) if inside or e.op in MAY_LEAVE_OUT]
        if not inside and any(_is_chosen_together(e, times, counts) for e in parts):
            return True
        loads = [e.value for e in parts if e.op == "load"]
        for b in [*loads, *([s.buffer] if isinstance(s, S.Store) and inside else [])]:
            counts[b] += times
            if counts[b] > 2:
                return True
    return any(_has_groups(x, times, inside or isinstance(s, S.If), counts) for x in S.children(s))


def _is_chosen_together(choice: Expr, times: int, counts: Counter[S.Buffer]) -> bool:
    """The same of what a choice loads, of 4 or 8 bytes: right were two, four and eight that fit one vector, unless
    narrower elements decide."""
    chosen = [e for e in post_order(choice.args[1:]) if e.op == "load" and e.dtype.bits >= 32]
    asked = min((e.dtype.bits for e in post_order(choice.args[0]) if e.op == "load"), default=64)
    for e in chosen:
        counts[e.value] += times
        count = counts[e.value]
        if (asked < e.dtype.bits and count > 1) or count & (count - 1) or count * e.dtype.bytes > 32:
            return True
    return False


def _has_sums_side_by_side(body: S.Stmt) -> bool:
    """Whether one loop adds to several signed integers that stay the same in all of its steps, and that are few enough
    for gcc to write them out: for k: for v in 16: B[v] += A[k*16 + v]."""
    counts: Counter[tuple[Expr, S.Buffer]] = Counter()

    def visit(s: S.Stmt, loops: tuple[S.For, ...]) -> None:
        if isinstance(s, S.Store) and s.buffer.dtype.kind == "int":
            own, copies = variables(s.indices[0]), s.value.dtype.lanes
            is_sum = any(e.op == "load" and e.value is s.buffer for e in post_order([s.value]))
            for loop in reversed(loops) if is_sum and copies <= MOST_COPIES else ():
                if loop.var not in own:
                    counts[loop.var, s.buffer] += copies
                elif loop.extent.op == "const" and loop.extent.value <= MOST_COPIES:
                    copies *= int(loop.extent.value)
                else:
                    break
        for child in S.children(s):
            visit(child, (*loops, s) if isinstance(s, S.For) else loops)

    visit(body, ())
    return any(n > 1 for n in counts.values())


def _has_gaps(body: S.Stmt) -> bool:
    """Whether a loop reads some, but not all, elements of one or two bytes in each of its steps.

    for i: B[i*8 : i*8 + 8] = A[i*11 : i*11 + 8], in any order: gcc 12 loads a vector for the last 8, too. Groups of
    wider elements, and those without a gap, showed none of it.
    """
    analyzer = Analyzer()
    found: defaultdict[tuple[S.Buffer, Expr, int, Poly], set[int]] = defaultdict(set)

    def visit(s: S.Stmt, loops: tuple[S.For, ...]) -> None:
        parts = S.expressions(s)
        if any(e.dtype.lanes > MOST_COPIES for e in parts):  # a loop over lanes, which gcc makes vectors of instead
            return
        for e in post_order(parts):
            if e.op == "load" and e.dtype.lanes == 1 and e.dtype.bytes <= 2:
                _note(analyzer.poly(e.args[0]), e.value, loops, found)
        around = (*loops, s) if isinstance(s, S.For) else loops
        for child in S.children(s):
            visit(child, around)

    visit(body, ())
    return any(FEWEST_TOGETHER <= len(places) < step for (_, _, step, _), places in found.items())


def _note(
    index: Poly,
    buffer: S.Buffer,
    loops: Sequence[S.For],
    found: dict[tuple[S.Buffer, Expr, int, Poly], set[int]],
) -> None:
    """Note where a load with that index lies among the elements that one step of a loop passes, for each loop whose
    inner ones are all written out."""
    inner: list[range] = []
    for loop in reversed(loops):
        parts = index.affine_in(loop.var)
        if parts is None:
            return
        step, rest = parts
        if step:
            start = rest.terms.get((), 0)
            key = (buffer, loop.var, abs(step), rest - start)
            found[key] |= {(start + sum(offsets)) % abs(step) for offsets in product(*inner)}
        length = loop.extent.value if loop.extent.op == "const" else MOST_COPIES + 1
        if length * prod(map(len, inner)) > MOST_COPIES:
            return
        inner.append(range(0, step * length, step) if step else range(1))
        index = rest
