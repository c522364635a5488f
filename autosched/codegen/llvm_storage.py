"""The workspace of a program in LLVM: its size, and what LLVM is told of aliases."""

from __future__ import annotations

from collections.abc import Iterable

from autosched.codegen.llvm_expr import Expressions
from autosched.codegen.llvm_text import ModuleText, Value, Writer, constant, identifier
from autosched.codegen.storage import ALIGNMENT, THREAD_ALIGNMENT, Storage
from autosched.ir.dtype import INT64
from autosched.ir.stmt import Allocate, Buffer, For, Function, Stmt, children


def alias_scopes(
    module: ModuleText, function: Function, buffers: Iterable[Buffer], storage: Storage
) -> dict[Buffer, str]:
    """The metadata that tells LLVM which accesses cannot meet, per buffer, as an instruction's suffix."""
    order = list(dict.fromkeys([*function.params, *buffers]))
    if len(order) < 2:
        return {}
    domain = module.metadata(f'!{{@, !"{identifier(function.name)}"}}', distinct=True)
    scope = {b: module.metadata(f'!{{@, {domain}, !"{identifier(b.name)}"}}', distinct=True) for b in order}
    suffixes = {}
    for b in order:
        mine = module.metadata(f"!{{{scope[b]}}}")
        others = ", ".join(scope[o] for o in order if o is not b and frozenset((o, b)) not in storage.overlaps)
        suffixes[b] = f", !alias.scope {mine}"
        if others:
            suffixes[b] += f", !noalias {module.metadata(f'!{{{others}}}')}"
    return suffixes


# -- the workspace, in 64-bit arithmetic that is folded where both operands are known -----------------


def plus(w: Writer, a: Value, b: Value) -> Value:
    if a.const is not None and b.const is not None:
        return constant(a.const + b.const, INT64)
    if 0 in (a.const, b.const):
        return b if a.const == 0 else a
    return w.binary("add", a, b)


def times(w: Writer, a: Value, b: Value) -> Value:
    if a.const is not None and b.const is not None:
        return constant(a.const * b.const, INT64)
    if 0 in (a.const, b.const):
        return constant(0, INT64)
    return w.binary("mul", a, b)


def _larger(w: Writer, a: Value, b: Value) -> Value:
    if a.const is not None and b.const is not None:
        return constant(max(a.const, b.const), INT64)
    if 0 in (a.const, b.const):  # no need is negative
        return b if a.const == 0 else a
    return w.intrinsic("smax", INT64, [a, b])


def _rounded(w: Writer, a: Value, alignment: int) -> Value:
    if a.const is not None:
        return constant(-(-int(a.const) // alignment) * alignment, INT64)
    return w.binary("and", w.binary("add", a, constant(alignment - 1, INT64)), constant(-alignment, INT64))


def buffer_bytes(e: Expressions, buffer: Buffer) -> Value:
    """Bytes that `buffer` takes, rounded up; none for a negative length."""
    size = constant(buffer.dtype.bytes, INT64)
    e.begin_statement()
    for length in buffer.shape:
        count = e.index(length)
        if count.const is None:
            count = e.w.intrinsic("smax", INT64, [count, constant(0, INT64)])
        size = times(e.w, size, constant(max(int(count.const), 0), INT64) if count.const is not None else count)
    return _rounded(e.w, size, ALIGNMENT)


def thread_area(e: Expressions, storage: Storage, body: Stmt) -> Value:
    """Bytes of workspace that one thread needs for the body of a parallel loop."""
    return _rounded(e.w, workspace_need(e, storage, body, None), THREAD_ALIGNMENT)


def workspace_need(e: Expressions, storage: Storage, s: Stmt, threads: Value | None) -> Value:
    """Bytes of workspace below `s`; `threads` is None in the body of a parallel loop."""
    if isinstance(s, For) and s.kind == "parallel" and threads is not None:
        return times(e.w, thread_area(e, storage, s.body), threads)
    need = constant(0, INT64)
    for child in children(s):
        need = _larger(e.w, need, workspace_need(e, storage, child, threads))
    if isinstance(s, Allocate) and s.buffer not in storage.on_stack:
        need = plus(e.w, buffer_bytes(e, s.buffer), need)
    return need
