"""The arguments of a function: which tensors are passed, numbers among them, and memory whose layout is declared.

A `te.var` among the arguments is passed as a tensor of no dimensions:

    n, alpha = te.var("n"), te.var("alpha", "float32")
    ...B[i] = A[i]*alpha...           lower(s, [alpha, A, B])      module(2.5, a, b)

An integer may also end a loop: `te.reduce_axis((0, n))`. A variable that shapes depend on is read off the shapes. It
may be an argument all the same: a call checks that the number it gets is that size.

`binds` declares, by `decl_buffer`, how tensors lie in memory, rather than row by row. An argument's strides are the
caller's; an intermediate is allocated so that the strides fit. No two elements of what is written may share a place:
that is proven, or left to each call where it depends on sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from typing import Any

from autosched.errors import LowerError
from autosched.ir.expr import Expr, compare, const, is_const, logical_and, var, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Allocate, Buffer, For, Stmt, load, walk
from autosched.lowering.simplify_stmt import replace_exprs
from autosched.schedule.schedule import Constraint, Schedule
from autosched.schedule.stage import Split
from autosched.target import Target
from autosched.te.tensor import PlaceholderOp, Tensor


def passed_intermediates(s: Schedule, args: Sequence[Tensor], target: Target) -> frozenset[Tensor]:
    """The intermediates among the arguments, and outputs that are computed inside their readers; but for inlined ones,
    to which nothing is written. Raises LowerError."""
    found, results = set(), frozenset(map(s.passed, s.outputs))
    for t in args:
        if t not in s or t in s.scans.storage:
            continue
        stage = s[t]
        if stage.is_placeholder or stage.attach.kind == "inline" or (t in results and stage.attach.kind == "root"):
            continue
        why = legal = ""
        if not target.is_cpu and stage.attach.kind != "root":
            why = f"{t.name} is computed at {stage.attach.loop!r}: work-items would write what others read"
            legal = f"{t.name}.compute_root()"
        elif t not in stage.op.outputs:
            why = f"{t.name} has another layout since transform_layout"
            legal = f"binds={{{t.name}: decl_buffer(..)}} with strides instead of transform_layout"
        elif any(isinstance(r, Split) and r.tail == "round_up" for r in stage.relations):
            why = f"a split of {t.name} rounds up: more elements are computed than an argument has"
            legal = "split(..., tail='guard')"
        if why:
            asked = f"lower(s, [{', '.join(a.name for a in args)}])"
            legal += "" if t in results else f", or leave {t.name} out: then it is allocated inside"
            raise LowerError(why, asked=asked, legal=legal)
        found.add(t)
    return frozenset(found)


def passed_outputs(s: Schedule, args: Sequence[Tensor]) -> frozenset[Tensor]:
    """The outputs that must be passed: of an operation that computes several, those that are."""
    results = map(s.passed, s.outputs)
    return frozenset(t for t in results if t in args or not any(x in args for x in t.op.outputs))


def parameters(
    s: Schedule, args: Sequence[Tensor], buffers: dict[Tensor, Buffer], outputs: frozenset[Tensor], binds: Binds
) -> list[Buffer]:
    """The memory of each argument. Raises LowerError for one too many, or missing."""
    asked = f"lower(s, [{', '.join(a.name for a in args)}])"
    twice = next((t for i, t in enumerate(args) if t in args[:i]), None)
    if twice is not None:
        raise LowerError(f"{twice.name} is given twice", asked=asked, legal="each tensor once")
    needed = [x.tensor for x in s.stages if x.is_placeholder and x.tensor in buffers]
    needed += [t for x in s.stages for t in x.op.outputs if t in outputs]
    why = ""
    missing = next((t for t in needed if t not in args), None)
    if missing is not None:
        why = f"{missing.name} is {'an output' if missing in outputs else 'an input'} and not among the arguments"
        if any(t.name == missing.name for t in args):
            why += f": the {missing.name} there is a tensor of another program"
    for t in args if missing is None else ():
        if t not in s and not isinstance(t.op, PlaceholderOp):
            why = why or f"{t.name} is computed, and no stage of this schedule computes it"
        elif t in s.scans.storage:
            why = why or f"{t.name} is part of a scan: it has no memory of its own"
    if why:
        raise LowerError(why, asked=asked, legal=f"arguments needed: {', '.join(t.name for t in needed)}")
    return [buffers.get(t) or binds.laid_out(t, Buffer(t.name, t.shape, t.dtype)) for t in args]


# -- numbers ------------------------------------------------------------------------------------------


def scalar_buffers(args: Sequence[Tensor | Expr]) -> dict[Expr, Buffer]:
    """The memory of the variables among the arguments. Raises LowerError for other expressions."""
    found: dict[Expr, Buffer] = {}
    for a in args:
        if not isinstance(a, Expr):
            continue
        if a.op != "var" or a.value.role not in ("size", "scalar") or a in found:
            why = "it is given twice" if a in found else "it is not a variable"
            raise LowerError(why, asked=f"argument {a!r}", legal='tensors, and variables: te.var("alpha", "float32")')
        found[a] = Buffer(a.value.name, (), a.dtype)
    return found


def signed(scalars: Mapping[Expr, Buffer], s: Schedule, binds: Mapping[Tensor, Any] | None) -> dict[Expr, Expr]:
    """Integers among the arguments that no shape or stride depends on -> variables that may be negative, too."""
    lengths = {v for b in (binds or {}).values() if isinstance(b, Buffer) for d in b.strides for v in variables(d)}
    lengths.update(s.sizes().values())
    return {v: var(v.value.name, v.dtype) for v in scalars if v.value.role == "size" and v not in lengths}


def explicit_sizes(params: Sequence[Buffer], scalars: dict[Expr, Buffer]) -> tuple[int, ...]:
    """The positions of the parameters that are numbers and also given by the shapes of others."""
    lengths = {v for b in params for d in (*b.shape, *b.strides) for v in variables(d)}
    known = {b for v, b in scalars.items() if v in lengths}
    return tuple([i for i, b in enumerate(params) if b in known])


def read_scalars(body: Stmt, params: Sequence[Buffer], scalars: dict[Expr, Buffer]) -> Stmt:
    """`body` with the variables loaded from their arguments, where they are values, or lengths of plain loops."""
    told = explicit_sizes(params, scalars)
    scalars = {v: b for v, b in scalars.items() if not any(b is params[i] for i in told)}
    if not scalars:
        return body
    lengths: list[Expr] = []
    for s in walk(body):
        if isinstance(s, For) and s.thread:
            lengths += (s.start, s.extent)
        elif isinstance(s, Allocate):
            lengths += s.buffer.shape
    for v in scalars:
        if any(v in variables(d) for d in lengths):
            raise LowerError(
                f"the length of an intermediate, or of a loop over work-items, depends on {v.name}, "
                "which the shape of no argument tells",
                asked=f"argument {v.name}",
                legal=f"leave {v.name} out, and let it be the length of one more input",
            )
    return replace_exprs(body, {v: load(b) for v, b in scalars.items()})


# -- declared memory ----------------------------------------------------------------------------------
#: what an allocation of ours is aligned to, in bytes
ALIGNMENT = 64
#: With more dimensions than this, strides are only tried in the order of the dimensions and its reverse.
MAX_ORDERED = 5


@dataclass(frozen=True)
class Binds:
    """The declared buffer of each tensor that has one."""

    of: dict[Tensor, Buffer]

    @staticmethod
    def check(s: Schedule, binds: Mapping[Tensor, Any] | None, passed: frozenset[Tensor]) -> Binds:
        """Raise LowerError for a buffer that does not fit its tensor. `passed`: intermediates among the arguments."""
        found: dict[Tensor, Buffer] = {}
        for key, buffer in (binds or {}).items():
            stage = s.stage(key) if key in s else None
            if stage is None or not isinstance(buffer, Buffer):
                what = f"no tensor {getattr(key, 'name', key)!r}" if stage is None else f"{buffer!r} is no buffer"
                raise LowerError(what, asked="binds", legal="a tensor of the schedule and te.decl_buffer(..) for it")
            tensor = s.current(key)
            _check_one(s, tensor, buffer, stage.is_placeholder or stage.is_output or tensor in passed)
            found[tensor] = buffer
        return Binds(found)

    def laid_out(self, tensor: Tensor, plain: Buffer) -> Buffer:
        """The buffer of a tensor: `plain`, laid out as declared."""
        declared = self.of.get(tensor)
        if declared is None:
            return plain
        given = declared.scope if declared.scope != "global" else plain.scope
        strides = declared.strides
        return replace(
            plain,
            scope=given,
            strides=strides,
            room=_reach(plain.shape, strides) if strides else None,
            data_alignment=declared.data_alignment,
            buffer_type=declared.buffer_type,
        )

    def check_strides(self, known: set[Expr]) -> None:
        """Raise LowerError for strides of an intermediate that mention other variables than `known`."""
        for tensor, b in self.of.items():
            unknown = [v for e in b.strides for v in variables(e) if v not in known]
            if unknown:
                raise LowerError(
                    f"nothing says what {unknown[0].name} is: {tensor.name} is no argument, whose array would",
                    asked=f"binds={{{tensor.name}: decl_buffer({b.name!r})}} with strides [{_text(b.strides)}]",
                    legal="numbers, and formulas over the sizes and strides of arguments",
                )

    def constraints(self, s: Schedule, buffers: Mapping[Tensor, Buffer], an: Analyzer) -> list[Constraint]:
        """The constraints on sizes by which elements lie apart. Raises LowerError if they never do."""
        found, sizes = [], set(s.sizes().values())
        for tensor in self.of:
            b = buffers.get(tensor)
            if b is None or not b.strides or s.stage(tensor).is_placeholder:
                continue
            open_strides = any(v.value.role == "size" and v not in sizes for e in b.strides for v in variables(e))
            conditions = _apart(b, an)
            if not open_strides:  # those are seen at a call, which is checked itself
                reason = f"elements of {tensor.name} with strides [{_text(b.strides)}] must not overlap"
                found += [Constraint(c, reason) for c in conditions]
        return found


def _text(items: Sequence[Expr]) -> str:
    return ", ".join(map(repr, items))


def _check_one(s: Schedule, tensor: Tensor, b: Buffer, is_argument: bool) -> None:
    stage = s.stage(tensor)
    asked = f"binds={{{tensor.name}: decl_buffer({b.name!r})}}"

    def refuse(why: str, legal: str) -> LowerError:
        return LowerError(why, asked=asked, legal=legal)

    same = len(b.shape) == tensor.ndim and all(
        simplify(x) is simplify(y) for x, y in zip(b.shape, tensor.shape, strict=True)
    )
    if not same:
        raise refuse(
            f"the buffer's shape is [{_text(b.shape)}]", f"the shape of {tensor.name}: [{_text(tensor.shape)}]"
        )
    if b.dtype != tensor.dtype:
        raise refuse(f"the buffer's elements are {b.dtype}", f"dtype={str(tensor.dtype)!r}, as that of {tensor.name}")
    if stage.attach.kind == "inline":
        raise refuse(f"{tensor.name} is inlined: it is nowhere in memory", f"s[{tensor.name!r}].compute_root()")
    if s.scans.part(stage) or tensor in s.scans.storage:
        raise refuse(f"{tensor.name} is part of a scan: it has no memory of its own", "bind the scan's tensor")
    if stage.alignments:
        raise refuse(f"{tensor.name} has storage_align, which makes its strides", "storage_align or strides, not both")
    offset = b.elem_offset
    if offset is not None and not is_const(offset, 0) and (offset.op != "var" or not is_argument):
        raise refuse(f"it begins {offset!r} elements into its memory", "elem_offset=0, or a variable for an argument")
    if is_argument and b.scope != "global":
        raise refuse(f"an argument cannot be {b.scope} memory", "scope='global'")
    if not is_argument and b.data_alignment > ALIGNMENT:
        raise refuse(f"memory is aligned to {ALIGNMENT} bytes", f"data_alignment of at most {ALIGNMENT}")
    if b.buffer_type and not stage.is_placeholder:
        raise refuse(f"{tensor.name} is written: each element needs a place", "auto_broadcast for inputs")
    negative = next((e for e in b.strides if is_const(simplify(compare("lt", e, 0)), True)), None)
    if negative is not None:
        raise refuse(f"the stride {negative!r} is negative", "strides from 0 up; reverse the index in the definition")


def _reach(shape: Sequence[Expr], strides: Sequence[Expr]) -> Expr:
    """The number of elements of memory up to the last one."""
    if any(is_const(d, 0) for d in shape):
        return const(0)
    total: Expr = const(1)
    for d, step in zip(shape, strides, strict=True):
        total = total + (d - 1) * step
    return simplify(total)


def _apart(b: Buffer, an: Analyzer) -> list[Expr]:
    """Conditions under which no two elements share a place. Raises LowerError if there are none.

    In some order of the dimensions, each stride reaches past all elements of the dimensions before it.
    """
    if any(is_const(d, 0) for d in b.shape):
        return []  # there are no elements
    pairs = [(d, step) for d, step in zip(b.shape, b.strides, strict=True) if not is_const(d, 1)]
    orders = permutations(pairs) if len(pairs) <= MAX_ORDERED else (pairs, pairs[::-1])
    best: list[Expr] | None = None
    for order in orders:
        if any(an.prove(compare("lt", later, step)) for (_, step), (_, later) in pairwise(order)):
            continue  # by strides, or it cannot be
        conditions, reach = [], const(1)
        for d, step in order:
            conditions.append(an.simplify(compare("ge", step, reach)))
            reach = simplify(reach + (d - 1) * step)
        with an.assuming(logical_and(*(compare("ge", d, 2) for d, _ in pairs))):
            if any(is_const(an.simplify(c), False) for c in conditions):
                continue  # at best where there is one row
        left = [c for c in conditions if not is_const(c, True) and not an.prove(c)]
        if best is None or len(left) < len(best):
            best = left
    if best is None:
        raise LowerError(
            f"elements of {b.name}[{_text(b.shape)}] with strides [{_text(b.strides)}] overlap",
            asked=f"strides of {b.name}",
            legal="strides each of which is at least as long as what the smaller ones reach",
        )
    return best
