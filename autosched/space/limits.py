"""What any candidate must meet, as conditions over its knobs: read off the structure, not declared.

Vector loops must have few enough lanes, unrolled code must stay short, a work-group must fit the
device. A candidate that breaks one is masked out before anything is built.
"""

from __future__ import annotations

from typing import TypeGuard

from autosched.ir.expr import Expr, compare, const, is_const, maximum, variables
from autosched.ir.simplify import simplify
from autosched.ir.stmt import VTHREAD, Allocate, Buffer, For, Seq, Stmt, Store, children, walk
from autosched.lower.pipeline import Structure

#: Statements an innermost body may be unrolled to. Lowering allows more; a search need not try what
#: compilers take seconds for and instruction caches do not hold.
MAX_UNROLLED_STORES = 256
#: Bytes that the lanes of one vector statement may have: more would not stay in registers.
MAX_VECTOR_BYTES = 512
#: Bytes of private storage for one work-item of a GPU-style target.
MAX_PRIVATE_BYTES = 16 * 1024


def implied_constraints(structure: Structure) -> list[tuple[Expr, str]]:
    """(condition over knobs and sizes, reason) for everything the target limits."""
    found: list[tuple[Expr, str]] = []
    body, target = structure.function.body, structure.target
    for product, stores in _unrolled(body, const(1)):
        found.append(
            (
                compare("le", simplify(product * stores), MAX_UNROLLED_STORES),
                f"unrolled code of more than {MAX_UNROLLED_STORES} statements",
            )
        )
    for s in walk(body):
        if isinstance(s, For) and s.kind == "vectorize":
            width = max((x.buffer.dtype.bytes for x in walk(s.body) if isinstance(x, Store)), default=1)
            found.append(
                (compare("le", s.extent * width, MAX_VECTOR_BYTES), f"a vector of more than {MAX_VECTOR_BYTES} bytes")
            )
    if target.is_gpu_style:
        found += _device_limits(structure)
    kept: list[tuple[Expr, str]] = []
    for condition, reason in found:
        if not is_const(condition, True) and all(condition is not c for c, _ in kept):
            kept.append((condition, reason))
    return kept


def _is_written_out(s: Stmt) -> TypeGuard[For]:
    return isinstance(s, For) and (s.kind == "unroll" or s.thread == VTHREAD)


def _unrolled(s: Stmt, product: Expr) -> list[tuple[Expr, int]]:
    """For each innermost unrolled nest: how often its body is written out, and its stores."""
    if _is_written_out(s):
        product = product * s.extent
        if not any(_is_written_out(x) for x in walk(s.body)):
            return [(product, sum(isinstance(x, Store) for x in walk(s.body)))]
    return [pair for c in children(s) for pair in _unrolled(c, product)]


def _device_limits(structure: Structure) -> list[tuple[Expr, str]]:
    """What the device limits of each kernel: each nest at the root becomes one."""
    limits = structure.target.limits
    most = limits.get("max_threads_per_block", 1024)
    memory = limits.get("shared_memory_bytes", 32 * 1024)
    found: list[tuple[Expr, str]] = []
    for kernel in _kernels(structure.function.body):
        threads: dict[str, Expr] = {}
        shared: Expr = const(0)
        for s in walk(kernel):
            if isinstance(s, For) and s.thread.startswith("threadIdx"):
                known = threads.get(s.thread)
                threads[s.thread] = s.extent if known is None else maximum(known, s.extent)
            if isinstance(s, Allocate) and s.buffer.scope == "shared":
                if any(v.value.role == "size" for v in variables(_size(s.buffer))):
                    found.append((const(False), f"{s.buffer.name}: shared memory of a size known at run time only"))
                shared = shared + _size(s.buffer)
            elif isinstance(s, Allocate) and not any(v.value.role == "size" for v in variables(_size(s.buffer))):
                found.append((compare("le", _size(s.buffer), MAX_PRIVATE_BYTES), "private storage of a work-item"))
        product: Expr = const(1)
        for e in threads.values():
            product = product * e
        found.append((compare("le", simplify(product), most), f"a work-group of more than {most} work-items"))
        found.append((compare("le", simplify(shared), memory), f"more than {memory} bytes of shared memory"))
    return found


def _kernels(s: Stmt) -> list[Stmt]:
    """The root nests, without the allocations around them."""
    if isinstance(s, (Allocate, Seq)):
        return [k for c in children(s) for k in _kernels(c)]
    return [s]


def _size(b: Buffer) -> Expr:
    return b.elements * b.dtype.bytes
