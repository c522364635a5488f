"""Hardware instructions and micro-kernels: a computation, and a statement that does it at once.

a, b = te.placeholder((l,), name="a"), te.placeholder((m, l), name="b")
k = te.reduce_axis((0, l), name="k")
c = te.compute((m,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")

def gemv(ins, outs):
    return call_extern("int32", "gemv", outs[0].access_ptr("w"), ins[0].access_ptr("r"), ...)

s[C].tensorize(inner, te.decl_tensor_intrin(c.op, gemv, name="gemv"))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import UsageError
from autosched.ir.expr import Expr, as_expr, var
from autosched.ir.node import Unique
from autosched.ir.stmt import Buffer, Stmt
from autosched.te.extern import as_statement
from autosched.te.graph_json import workload_key
from autosched.te.tensor import ComputeOp, Operation, Tensor

_declared: dict[str, TensorIntrin] = {}


class _Buffers(dict[Tensor, Buffer]):
    """Buffers by tensor, and by number: of the inputs, then of the output."""

    def __missing__(self, key: object) -> Buffer:
        if isinstance(key, int) and -len(self) <= key < len(self):
            return [*self.values()][key]
        raise KeyError(key)


@dataclass(frozen=True, eq=False)
class TensorIntrin(Unique):
    """`body` computes what `op` does, from `buffers` of its inputs into that of its output.

    Of a reduction, `reset` sets the output to what the sum begins with, and `update` adds the terms of
    one tile to it. `scalar_params` are variables in `op`, whose values a match finds.
    """

    name: str
    op: ComputeOp
    buffers: dict[Tensor, Buffer]
    body: Stmt
    reset: Stmt | None
    update: Stmt | None
    scalar_params: tuple[Expr, ...] = ()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that `op` reads."""
        return self.op.input_tensors

    def __call__(self, *operands: object) -> Expr:
        raise UsageError(
            "an intrinsic is not called inside a computation",
            asked=f"{self.name}({', '.join(map(str, operands))})",
            legal="write what it computes, and s[C].tensorize(axis, intrinsic)",
        )

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name}: {self.op.body[0]!r})"


def decl_tensor_intrin(
    op: Operation,
    fcompute: Callable[..., Any],
    name: str = "tensor_intrin",
    binds: Mapping[Tensor, Buffer] | None = None,
    scalar_params: Sequence[Expr] | None = None,
    default_buffer_params: Mapping[str, Any] | None = None,
) -> TensorIntrin:
    """An intrinsic that does what `op`, a computation with one output, does.

    fcompute: takes lists of buffers for the inputs and the outputs (and the scalar parameters, if any) and
              returns a statement or call, as for `te.extern`; or three: the body, what resets the
              output of a reduction, and what adds to it (None for one that there is not)
    name:     by which traces know it; another intrinsic of that name gets a number behind it
    binds:    buffers to use for some tensors. A stride that is a variable stands for the distance in
              memory of elements whose index differs by one, whatever that is; a number has to fit.
              By default there is such a variable for each dimension but the last one
    default_buffer_params: more arguments of the buffers that are not in `binds`: `scope`, `strides`

    Raises UsageError where `op` is no such computation or `fcompute` returns something else.
    """
    asked = f"decl_tensor_intrin {name}"
    if not isinstance(op, ComputeOp) or len(op.outputs) != 1:
        raise UsageError(f"{op!r} is not a computation of one output", asked=asked, legal="C.op of a te.compute")
    given, extra = dict(binds or {}), dict(default_buffer_params or {})
    known: dict[str, Any] = {f: v for f, v in extra.items() if f in ("scope", "strides")}
    tensors = [*op.input_tensors, op.output_tensor]
    buffers = _Buffers((t, given.get(t) or _buffer(t, known)) for t in tensors)
    scalars = tuple(map(as_expr, scalar_params or ()))
    ins, outs = [buffers[t] for t in tensors[:-1]], [buffers[tensors[-1]]]
    result = fcompute(ins, outs, list(scalars)) if scalars else fcompute(ins, outs)
    parts = list(result) if isinstance(result, (tuple, list)) else [result, None, None]
    if len(parts) != 3 or parts[0] is None:
        raise UsageError(f"fcompute returned {result!r}", asked=asked, legal="a statement, or (body, reset, update)")
    body, reset, update = (None if p is None else as_statement(p, asked) for p in parts)
    assert body is not None
    made = TensorIntrin(_free_name(name, op), op, buffers, body, reset, update, scalars)
    _declared[made.name] = made
    return made


def _buffer(t: Tensor, params: Mapping[str, Any]) -> Buffer:
    steps = [var(f"{t.name}.stride{d}", "int32") for d in range(t.ndim - 1)]
    strides = params.get("strides") or [*steps, 1][: t.ndim]
    return Buffer(t.name, t.shape, t.dtype, params.get("scope", "global"), tuple(map(as_expr, strides)))


def _free_name(name: str, op: ComputeOp) -> str:
    """The name itself, or, where another computation has it, with a number behind it."""
    key = workload_key([*op.input_tensors, op.output_tensor])
    found, count = name, 0
    while found in _declared:
        other = _declared[found].op
        if workload_key([*other.input_tensors, other.output_tensor]) == key:
            return found
        count += 1
        found = f"{name}_{count}"
    return found


def find_tensor_intrin(name: str) -> TensorIntrin | None:
    """The intrinsic that was declared last under that name."""
    return _declared.get(name)
