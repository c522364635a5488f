"""Intrinsics called in computations: `te.compute((n, 16), lambda i: vadd(A[i, 0:16], B[i, 0:16]))`.

The function has a parameter for each of the first dimensions. The others are those of the intrinsic's result, and what
it computes is written out for one element: a computation like any other, whose schedule begins with the intrinsic in
place of the loops over them (`tensorize`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from autosched import te as _te
from autosched.errors import UsageError
from autosched.ir.attached import attach
from autosched.ir.expr import Expr, as_expr, cast, make
from autosched.ir.visit import rewrite, substitute
from autosched.schedule.schedule import Schedule
from autosched.schedule.schedule import create_schedule as _create_schedule
from autosched.te.tensor import IterVar, Operation, Tensor, TensorSlice, as_list, as_shape
from autosched.te.tensor_intrin import TensorIntrin
from autosched.tvm.attributes import of_tvm


@dataclass(frozen=True, repr=False)
class Region:
    """Some elements of a tensor: `A[i, 0:16]`. Dimensions with a slice are those of what an intrinsic reads."""

    tensor: Tensor
    indices: tuple[Any, ...]

    def __repr__(self) -> str:
        ends = [
            f"{'' if i.start is None else i.start}:{i.stop}" if isinstance(i, slice) else repr(i) for i in self.indices
        ]
        return f"{self.tensor.name}[{', '.join(ends)}]"

    def at(self, places: Sequence[Expr]) -> Expr:
        """The element at a place of the region. Raises UsageError for another number of dimensions."""
        sliced = [k for k, i in enumerate(self.indices) if isinstance(i, slice)]
        if len(sliced) != len(places):
            why = f"{len(sliced)} of its dimensions are sliced"
            legal = f"{len(places)}, as many as the intrinsic's input has"
            raise UsageError(why, asked=f"{self.tensor.name}[..] in a call of an intrinsic", legal=legal)
        found = list(self.indices)
        for k, place in zip(sliced, places, strict=True):
            start = self.indices[k].start
            found[k] = place if start is None else as_expr(start) + place
        return self.tensor(*found)


@dataclass(frozen=True)
class IntrinsicCall:
    """What a call of an intrinsic returns: `te.compute` takes it apart."""

    intrinsic: TensorIntrin
    operands: tuple[Region, ...]
    scalars: tuple[Expr, ...]  #: the values of its scalar parameters
    reduce_axis: tuple[IterVar, ...]

    def element(self, places: Sequence[Expr]) -> tuple[Expr, tuple[IterVar, ...]]:
        """An element of the result, and the intrinsic's own reduce axes, made anew."""
        op = self.intrinsic.op
        own = tuple(IterVar(a.name, a.extent, "reduce", a.min) for a in op.reduce_axis)
        if len(places) != len(op.axis):
            why = f"its result has {len(op.axis)} dimensions"
            raise UsageError(why, asked=f"{self.intrinsic.name}(..)", legal=f"{len(places)} more axes of the function")
        values = {a.var: i for a, i in zip(op.axis, places, strict=True)}
        values.update(zip(self.intrinsic.scalar_params, self.scalars, strict=True))
        values.update({a.var: b.var for a, b in zip(op.reduce_axis, own, strict=True)})
        read = dict(zip(self.intrinsic.inputs, self.operands, strict=True))
        (body,) = op.body
        args = [
            rewrite(substitute(e, values), lambda x, args: read[x.value].at(args) if x.op == "read" else None)
            for e in (body.args if body.op == "reduce" else (body,))
        ]
        if body.op != "reduce":
            return args[0], ()
        return make("reduce", body.dtype, tuple(args), body.value.over((*self.reduce_axis, *own))), own


#: operation -> its intrinsic, and the axes that it computes
_computed_by: WeakKeyDictionary[Operation, tuple[TensorIntrin, tuple[IterVar, ...]]] = WeakKeyDictionary()


def call_intrinsic(self: TensorIntrin, *operands: Any, reduce_axis: Any = None) -> IntrinsicCall:
    """The intrinsic of regions of tensors, in a function of `te.compute`; summed up over `reduce_axis`.

    Numbers among the operands are the values of its scalar parameters, in their order: `axpy(2.5, A[i, 0:16])`.
    Raises UsageError for other operands.
    """
    asked, inputs = f"{self.name}({', '.join(map(str, operands))})", self.inputs
    regions = tuple(x for x in operands if isinstance(x, Region))
    numbers = [x for x in operands if not isinstance(x, Region)]
    is_number = all(isinstance(x, (int, float)) or (isinstance(x, Expr) and x.op != "read") for x in numbers)
    if len(regions) != len(inputs) or len(numbers) != len(self.scalar_params) or not is_number:
        legal = f"a region for each of {', '.join(t.name for t in inputs)}, such as A[i, 0:16]"
        if self.scalar_params:
            legal += f"; a number for each of {', '.join(map(repr, self.scalar_params))}"
        raise UsageError("these are no operands of it", asked=asked, legal=legal)
    if reduce_axis is not None and not self.op.reduce_axis:
        raise UsageError("it is no reduction", asked=asked, legal="no reduce_axis")
    scalars = tuple(cast(v.dtype, as_expr(x)) for v, x in zip(self.scalar_params, numbers, strict=True))
    return IntrinsicCall(self, regions, scalars, () if reduce_axis is None else tuple(as_list(reduce_axis)))


def _item(self: TensorSlice, indices: Any) -> Any:
    given = (*self.indices, *(indices if isinstance(indices, tuple) else (indices,)))
    if any(isinstance(i, slice) for i in given) and len(given) == self.tensor.ndim:
        return Region(self.tensor, given)
    return _element(self, indices)


_element = TensorSlice.__getitem__
attach(TensorSlice, __getitem__=_item)
attach(TensorIntrin, __call__=call_intrinsic)


@wraps(_te.compute)
def compute(shape: Any, fcompute: Callable[..., Any], name: str = "compute", *args: Any, **kwargs: Any) -> Any:
    """`te.compute`, whose function may have parameters for the first dimensions alone and call an intrinsic."""
    dims = as_shape(shape)
    names = _parameters(fcompute)
    count = len(names)
    if not 0 < count < len(dims):
        return _te.compute(shape, fcompute, name, *args, **kwargs)
    found: list[tuple[IntrinsicCall, tuple[IterVar, ...]]] = []

    def of_element(*axes: Expr) -> Any:
        call = fcompute(*axes[:count])
        if not isinstance(call, IntrinsicCall):
            return _te.compute(shape, fcompute, name, *args, **kwargs)  # whose error says what is wrong
        element, own = call.element(axes[count:])
        found.append((call, own))
        return element

    called = {"varargs_names": [*names, *(f"ax{d}" for d in range(len(dims) - count))]} if len(args) < 3 else {}
    made = _te.compute(shape, of_element, name, *args, **{**called, **kwargs})
    (call, own), op = found[0], made.op
    _computed_by[op] = call.intrinsic, (*op.axis[count:], *own)
    return made


def _parameters(fcompute: Any) -> list[str]:
    """The names of the parameters; none where their number is open."""
    try:
        parameters = inspect.signature(fcompute).parameters.values()
    except (TypeError, ValueError):
        return []
    is_open = any(p.kind is p.VAR_POSITIONAL or p.default is not p.empty for p in parameters)
    return [] if is_open else [p.name for p in parameters]


def cache_write(self: Schedule, tensor: Any, scope: str = "global", keep_loops: bool = False) -> Any:
    """As `Schedule.cache_write`. A stage that still is as a call of an intrinsic made it gives the intrinsic to the
    cache."""
    first = tensor[0] if isinstance(tensor, (list, tuple)) and tensor else tensor
    stage = self[first]
    is_new = stage.op in _computed_by and stage.intrinsic is not None and not stage.relations
    is_new = is_new and all(x.kind in ("serial", "tensorize") and not x.pragmas for x in stage.loops)
    is_new = is_new and stage.attach.kind == "root" and keep_loops is False
    return _cache_write(self, tensor, scope, True if is_new else keep_loops)


_cache_write = Schedule.cache_write
attach(Schedule, cache_write=cache_write)


def create_schedule(ops: Any) -> Schedule:
    """`autosched.create_schedule`; what is computed by an intrinsic's call is tensorized, and the steps of a scan are
    a group."""
    s = _create_schedule(ops)
    of_tvm.add(s)
    for stage in s.scans.stages:
        steps = [s[op] for op in stage.op.steps]  # type: ignore[attr-defined]
        read = dict.fromkeys(x for step in steps for x in s.reads(step) if x not in steps)
        s.create_group(outputs=list(stage.op.update), inputs=list(read)).attach_stage = stage  # type: ignore[attr-defined]
    for stage in s.stages:
        if stage.op in _computed_by:
            intrinsic, inner = _computed_by[stage.op]
            outer = [a for a in (*stage.axis, *stage.reduce_axis) if a not in inner]
            stage.reorder(*outer, *inner)
            stage.tensorize(inner[0], intrinsic)
    return s
