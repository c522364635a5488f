"""Constraints on knobs: those that a target implies, and which of them contradict each other.

What any candidate must meet is read off its structure, not declared: vector loops must have few enough lanes, unrolled
code must stay short, a work-group must fit the device. A candidate that does not is masked out before it is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from math import inf
from operator import mul
from typing import TypeGuard

from autosched.ir.expr import Expr, compare, const, is_const, maximum, variables
from autosched.ir.ranges import EVERYTHING, bounds_of, of_type
from autosched.ir.simplify import simplify
from autosched.ir.stmt import VTHREAD, Allocate, For, Stmt, Store, children, walk
from autosched.lowering.gpu import is_of_host
from autosched.lowering.pipeline import Structure
from autosched.space.points import Knobs, valid_points

#: Statements an innermost body may be unrolled to. Lowering allows more; a search need not try what
#: compilers take seconds for and instruction caches do not hold.
MAX_UNROLLED_STORES = 256
#: Bytes that the lanes of one vector statement may have: more would not stay in registers.
MAX_VECTOR_BYTES = 512
#: Bytes of private storage for one work-item of a GPU-style target; on a CPU it is on the stack of a thread.
MAX_PRIVATE_BYTES, MAX_TASK_BYTES = 16 << 10, 1 << 20


def implied_constraints(structure: Structure) -> list[tuple[Expr, str]]:
    """(condition over knobs and sizes, reason) for everything the target limits."""
    kept: list[tuple[Expr, str]] = []
    for condition, reason in _implied(structure):
        if not is_const(condition, True) and all(condition is not c for c, _ in kept):
            kept.append((condition, reason))
    return kept


def _implied(structure: Structure) -> Iterator[tuple[Expr, str]]:
    body = structure.function.body
    for copies, stores in _unrolled(body, const(1)):
        is_short = compare("le", simplify(copies * stores), MAX_UNROLLED_STORES)
        yield is_short, f"unrolled code of more than {MAX_UNROLLED_STORES} statements"
    for s in walk(body):
        if isinstance(s, For) and s.kind == "vectorize":
            width = max((x.buffer.dtype.bytes for x in walk(s.body) if isinstance(x, Store)), default=1)
            yield compare("le", s.extent * width, MAX_VECTOR_BYTES), f"a vector of more than {MAX_VECTOR_BYTES} bytes"
    if structure.target.is_gpu_style:
        for kernel in _kernels(body):
            yield from _device_limits(kernel, structure.target.limits)


def _is_written_out(s: Stmt) -> TypeGuard[For]:
    return isinstance(s, For) and (s.kind == "unroll" or s.thread == VTHREAD)


def _unrolled(s: Stmt, copies: Expr) -> list[tuple[Expr, int]]:
    """For each innermost unrolled nest: how often its body is written out, and its stores."""
    if _is_written_out(s):
        copies = copies * s.extent
        if not any(_is_written_out(x) for x in walk(s.body)):
            return [(copies, sum(isinstance(x, Store) for x in walk(s.body)))]
    return [pair for c in children(s) for pair in _unrolled(c, copies)]


def _device_limits(kernel: Stmt, limits: Mapping[str, int]) -> Iterator[tuple[Expr, str]]:
    most, memory = limits.get("max_threads_per_block", 1024), limits.get("shared_memory_bytes", 32 * 1024)
    room = MAX_TASK_BYTES if limits.get("is_cpu") else MAX_PRIVATE_BYTES
    threads: dict[str, Expr] = {}
    shared = private = const(0)
    is_alone = not any(isinstance(x, For) and (x.thread or x.kind == "parallel") for x in walk(kernel))
    for s in walk(kernel):
        if isinstance(s, For) and s.thread.startswith("threadIdx"):
            known = threads.get(s.thread)
            threads[s.thread] = s.extent if known is None else maximum(known, s.extent)
        if isinstance(s, Allocate):
            size = s.buffer.elements * s.buffer.dtype.bytes
            at_run_time = any(v.value.role == "size" for v in variables(size))
            where = "shared memory" if s.buffer.scope == "shared" else "storage of a work-item"
            if at_run_time and is_alone:  # the host allocates it
                continue
            if at_run_time and (s.buffer.scope == "shared" or not _is_bounded(size)):
                yield const(False), f"{s.buffer.name}: {where} of a size known at run time only"
            if s.buffer.scope == "shared":
                shared = shared + size
            elif not at_run_time:
                private = private + size
    items = reduce(mul, threads.values(), const(1))
    yield compare("le", simplify(items), most), f"a work-group of more than {most} work-items"
    yield compare("le", simplify(private), room), "private storage of a work-item"
    yield compare("le", simplify(shared), memory), f"more than {memory} bytes of shared memory"


def _is_bounded(size: Expr) -> bool:
    """Whether there is a most that a number is, whatever the sizes are."""
    return bounds_of(size, lambda v: EVERYTHING if v.value.role == "size" else of_type(v.dtype)).high < inf


def _kernels(s: Stmt) -> list[Stmt]:
    """The nests that become a kernel each, without allocations and loops of the host's around them."""
    return [k for c in children(s) for k in _kernels(c)] if is_of_host(s) else [s]


#: Characters of a condition that are shown.
WIDTH = 100


def conflicting(knobs: Knobs, conditions: Sequence[Expr], fixed: Mapping[Expr, int] | None = None) -> list[int]:
    """Positions of conditions that cannot hold together, none of which can be left out.

    The deletion filter: each condition in turn is left out for good if the others contradict each other without it
    (Chinneck and Dravnieks, "Locating Minimal Infeasible Constraint Sets in Linear Programs", 1991). Empty if there is
    a point, or if counting takes too much to tell.

    >>> from autosched.ir.expr import var
    >>> a, b = var("a"), var("b")
    >>> conflicting([(a, (1, 2, 4)), (b, (1, 2, 4))], [a * b <= 4, a <= b, a >= 4])
    [0, 1, 2]
    """

    def is_empty(kept: Sequence[int]) -> bool:
        return valid_points(knobs, [conditions[i] for i in kept], fixed).count == 0

    core = list(range(len(conditions)))
    if not is_empty(core):
        return []
    for i in range(len(conditions)):
        without = [k for k in core if k != i]
        if is_empty(without):
            core = without
    return core


def explain(
    knobs: Knobs, conditions: Sequence[tuple[Expr, str]], fixed: Mapping[Expr, int] | None = None
) -> tuple[str, str] | None:
    """Why no point meets all conditions (expression, reason), and what leaving one out would give; None where
    `conflicting` finds nothing."""
    core = conflicting(knobs, [c for c, _ in conditions], fixed)
    if not core:
        return None
    named = [_named(*conditions[i]) for i in core]
    used = {v for i in core for v in variables(conditions[i][0])}
    known = [f"{v.name} is one of {list(x)}" for v, x in knobs if v in used and len(x) <= 16]
    known += [f"{v.name} is {n}" for v, n in (fixed or {}).items() if v in used]
    what = "does not hold for any values of its knobs" if len(core) == 1 else "cannot hold together"
    lines = []
    for i, name in zip(core, named, strict=True):
        count = valid_points(knobs, [c for k, (c, _) in enumerate(conditions) if k != i], fixed).count
        lines.append(f"without {name}: {count} point{'' if count == 1 else 's'}")
    return f"{' and '.join(named)} {what}", "\n  ".join([*lines, *([", ".join(known)] if known else [])])


def _named(condition: Expr, reason: str) -> str:
    text = repr(condition)
    shown = text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."
    return f"{shown} ({reason})" if reason and reason != text else shown
