"""`binds`: tensors whose memory is declared, by `decl_buffer`, rather than row by row.

An argument's strides are the caller's; an intermediate is allocated so that the strides fit. No two
elements of what is written may have one place: that is proven, or left to each call where it depends
on sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from typing import Any

from autosched.errors import LowerError
from autosched.ir.expr import Expr, compare, const, is_const, logical_and, variables
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Buffer
from autosched.schedule.schedule import Constraint, Schedule
from autosched.te.tensor import Tensor

#: what an allocation of ours is aligned to, in bytes
ALIGNMENT = 64
#: With more dimensions than this, strides are only tried in the order of the dimensions and its reverse.
MAX_ORDERED = 5


@dataclass(frozen=True)
class Binds:
    """The declared buffers by tensor."""

    of: dict[Tensor, Buffer]

    @staticmethod
    def check(s: Schedule, binds: Mapping[Tensor, Any] | None, passed: frozenset[Tensor]) -> Binds:
        """`passed` are intermediates among the arguments. Raises LowerError for a buffer that its tensor
        does not fit."""
        found: dict[Tensor, Buffer] = {}
        for key, buffer in (binds or {}).items():
            stage = s.stage(key) if key in s else None
            if stage is None or not isinstance(buffer, Buffer):
                what = f"no tensor {getattr(key, 'name', key)!r}" if stage is None else f"{buffer!r} is no buffer"
                raise LowerError(what, asked="binds", legal="a tensor of the schedule and te.decl_buffer(..) for it")
            tensor = stage.tensor if key not in stage.op.outputs else key
            _check_one(s, tensor, buffer, stage.is_placeholder or tensor in s.outputs or tensor in passed)
            found[tensor] = buffer
        return Binds(found)

    def laid_out(self, tensor: Tensor, plain: Buffer) -> Buffer:
        """The buffer of a tensor: `plain`, but laid out as it was declared."""
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
        """Raise LowerError for strides of an intermediate that no argument shows: `known` are those that one does."""
        for tensor, b in self.of.items():
            unknown = [v for e in b.strides for v in variables(e) if v not in known]
            if unknown:
                raise LowerError(
                    f"nothing says what {unknown[0].name} is: {tensor.name} is no argument, whose array would",
                    asked=f"binds={{{tensor.name}: decl_buffer({b.name!r})}} with strides [{_text(b.strides)}]",
                    legal="numbers, and formulas over the sizes and strides of arguments",
                )

    def constraints(self, s: Schedule, buffers: Mapping[Tensor, Buffer], an: Analyzer) -> list[Constraint]:
        """What sizes must be so that elements lie apart. Raises LowerError where they never do."""
        found = []
        for tensor in self.of:
            b = buffers.get(tensor)
            if b is None or not b.strides or s.stage(tensor).is_placeholder:
                continue
            open_strides = any(v.value.role == "size" and v not in _sizes(s) for e in b.strides for v in variables(e))
            conditions = _apart(b, an)
            if not open_strides:  # those are seen at a call, which is checked itself
                reason = f"elements of {tensor.name} with strides [{_text(b.strides)}] must not overlap"
                found += [Constraint(c, reason) for c in conditions]
        return found


def _sizes(s: Schedule) -> set[Expr]:
    return set(s.sizes().values())


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
    """How many elements of memory there are up to the last one."""
    total: Expr = const(1)
    for d, step in zip(shape, strides, strict=True):
        total = total + (d - 1) * step
    return simplify(total)


def _apart(b: Buffer, an: Analyzer) -> list[Expr]:
    """Conditions under which no two elements share a place: in some order of the dimensions, each
    stride goes past all that the dimensions before it reach. Raises LowerError if there is none."""
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
