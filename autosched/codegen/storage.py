"""Memory of intermediate buffers on the CPU: stack or workspace, sharing, and the bytes that are needed.

Buffers of small constant size go on the stack of the function that runs them, the others into the
caller's workspace: a stack of 64-byte aligned areas, one for the program and one for each thread of
each parallel loop. Buffers that are never live together share addresses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from autosched.ir.expr import Expr
from autosched.ir.stmt import Allocate, Buffer, For, Stmt, Store, all_expressions, children, walk
from autosched.ir.visit import post_order

#: stack bytes that one function may use for buffers; threads of OpenMP have small stacks
STACK_BYTES = 64 * 1024
ALIGNMENT = 64
#: between the areas of two threads: adjacent cache lines are fetched in pairs
THREAD_ALIGNMENT = 128


@dataclass
class Storage:
    """The place of each buffer. `overlaps`: pairs in the workspace that may share addresses. `gone_on_with`: vectors
    that some statement reads at the place where it or another one stores them."""

    on_stack: set[Buffer] = field(default_factory=set)
    in_workspace: set[Buffer] = field(default_factory=set)
    overlaps: set[frozenset[Buffer]] = field(default_factory=set)
    gone_on_with: frozenset[tuple[Buffer, Expr]] = frozenset()


def plan_storage(body: Stmt) -> Storage:
    """Choose a place for each Allocate in `body`, outer ones first."""
    storage = Storage()
    _plan(body, storage, [STACK_BYTES], in_parallel=False)
    _collect_overlaps(body, storage)
    loads = (e for e in post_order(all_expressions(body)) if e.op == "load" and e.dtype.lanes > 1)
    storage.gone_on_with = frozenset((e.value, e.args[0]) for e in loads)
    return storage


def is_parallel(body: Stmt) -> bool:
    """True if there is a loop over CPU threads."""
    return any(isinstance(s, For) and s.kind == "parallel" for s in walk(body))


def accesses(body: Stmt, nodes: Iterable[Expr]) -> tuple[set[Buffer], set[Buffer]]:
    """The buffers that are written or handed out, and those that are loaded; `nodes` are all expressions of `body`."""
    written = {s.buffer for s in walk(body) if isinstance(s, Store)}
    loaded: set[Buffer] = set()
    for node in nodes:
        if node.op == "load":
            loaded.add(node.value)
        elif node.op in ("address", "view"):
            written.add(node.value)
    return written, loaded


def constant_bytes(buffer: Buffer) -> int | None:
    """Bytes of memory of a buffer, None if not constant; with strides, up to the last element."""
    lengths = [int(e.value) if e.op == "const" else None for e in buffer.shape]
    if 0 in lengths:
        return 0
    if buffer.strides:
        steps = [int(e.value) if e.op == "const" else None for e in buffer.strides]
        pairs = [(n - 1) * step for n, step in zip(lengths, steps, strict=True) if n is not None and step is not None]
        return (1 + sum(pairs)) * buffer.dtype.bytes if len(pairs) == len(lengths) else None
    return None if None in lengths else math.prod(n for n in lengths if n is not None) * buffer.dtype.bytes


def _plan(s: Stmt, storage: Storage, left: list[int], in_parallel: bool) -> None:
    if isinstance(s, For) and s.kind == "parallel" and not in_parallel:
        left, in_parallel = [STACK_BYTES], True  # its body becomes a function of its own
    if isinstance(s, Allocate):
        size = constant_bytes(s.buffer)
        fits = s.buffer in storage.on_stack or (size is not None and _padded(size) <= left[0])
        if fits and s.buffer not in storage.in_workspace:  # one that is allocated twice lies in one place
            storage.on_stack.add(s.buffer)
            left[0] -= _padded(size or 0)
        else:
            storage.in_workspace.add(s.buffer)
    for child in children(s):
        _plan(child, storage, left, in_parallel)


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _collect_overlaps(s: Stmt, storage: Storage) -> set[Buffer]:
    """The workspace buffers allocated in `s`; those of different children may share memory."""
    groups = [_collect_overlaps(child, storage) for child in children(s)]
    below: set[Buffer] = set()
    for group in groups:
        storage.overlaps.update(frozenset((a, b)) for a in below for b in group if a is not b)
        below |= group
    if isinstance(s, Allocate) and s.buffer not in storage.on_stack:
        below.add(s.buffer)
    return below


T = TypeVar("T")


class ByteCounts(Protocol[T]):
    """Arithmetic of a target on numbers of bytes, which sizes of a call may decide."""

    nothing: T

    def bytes_of(self, buffer: Buffer) -> T:
        """Bytes of a buffer, a multiple of `ALIGNMENT`."""

    def plus(self, a: T, b: T) -> T: ...

    def larger(self, a: T, b: T) -> T: ...

    def for_threads(self, area: T) -> T:
        """Bytes of one area for each thread."""


def workspace_need(s: Stmt, storage: Storage, count: ByteCounts[T], in_parallel: bool = False) -> T:
    """Bytes of workspace below `s`: of all threads, or of one where `s` is in a parallel loop."""
    if isinstance(s, For) and s.kind == "parallel" and not in_parallel:
        return count.for_threads(workspace_need(s.body, storage, count, in_parallel=True))
    need = count.nothing
    for child in children(s):
        need = count.larger(need, workspace_need(child, storage, count, in_parallel))
    if isinstance(s, Allocate) and s.buffer in storage.in_workspace:
        need = count.plus(count.bytes_of(s.buffer), need)
    return need
