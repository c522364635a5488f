"""`extern_primfunc`: a function of loops as an operation of tensor expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from autosched.errors import UsageError, UsageTypeError
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr
from autosched.ir.stmt import Allocate, Buffer, Function, walk
from autosched.ir.visit import substitute
from autosched.lowering.pipeline import Lowered, lower_structure
from autosched.lowering.simplify_stmt import replace_exprs
from autosched.lowering.storage import retarget
from autosched.target import Target
from autosched.te.extern import ExternOp
from autosched.te.reference import reference
from autosched.te.tensor import Tensor
from autosched.tir.module import PrimFunc, module_of


def extern_primfunc(input_tensors: Sequence[Tensor], primfunc: PrimFunc | Function, **kwargs: Any) -> Any:
    """Call a function on these tensors. Return its output, or a list of them.

    primfunc: a PrimFunc, with its schedule as it is now; or a function of `tvm.lower` with `simple_mode=True`. Its
              sizes are those of the tensors
    kwargs:   `name`, `tag` and `attrs` of the operation, as for `te.extern`

    The loops stay as they are, at the root, like those of `te.extern`. `te.reference` evaluates a PrimFunc. Raises
    UsageError for tensors that differ from the inputs in number, type or shape.

    >>> from autosched import te, tir
    >>> A, X = te.placeholder((8,), name="A"), te.placeholder((8,), name="X")
    >>> func = tir.create_prim_func([A, te.compute((8,), lambda i: A[i] * 2, name="B")])
    >>> Y = tir.extern_primfunc([X], func)
    >>> Z = te.compute((8,), lambda i: Y[i] + 1)
    """
    name = kwargs.pop("name", getattr(primfunc, "name", "extern"))
    asked = f"extern_primfunc {name}"
    if not isinstance(primfunc, (PrimFunc, Function)):
        raise UsageTypeError(f"{primfunc!r} is no function", asked=asked, legal="create_prim_func([A, B])")
    if unknown := sorted(kwargs.keys() - {"tag", "attrs"}):
        raise UsageError(f"it takes no {unknown[0]}", asked=asked, legal="name, tag, attrs")
    f = primfunc
    if isinstance(f, PrimFunc):
        target = Target.current(allow_none=True) or Target("llvm")
        f = module_of(Lowered(lower_structure(f.schedule, f.args, target, name)))[name]
    inputs = [b for i, b in enumerate(f.params) if i not in f.outputs]
    mapping = _sizes(inputs, list(input_tensors), asked)
    owner = {}
    for b in (*f.params, *(s.buffer for s in walk(f.body) if isinstance(s, Allocate))):
        shape, strides = (tuple(substitute(d, mapping) for d in dims) for dims in (b.shape, b.strides))
        owner[b] = replace(b, shape=shape, strides=strides)
    body = retarget(replace_exprs(f.body, mapping), owner)
    made = [owner[f.params[i]] for i in f.outputs]
    evaluate = _reference(primfunc) if isinstance(primfunc, PrimFunc) else None
    op = ExternOp(name, input_tensors, [owner[b] for b in inputs], made, body, reference=evaluate, **kwargs)
    return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)


def _sizes(inputs: Sequence[Buffer], tensors: Sequence[Tensor], asked: str) -> dict[Expr, Expr]:
    """The value of each size of the function, by the shapes of the tensors."""
    legal = f"inputs of the function: {', '.join(map(repr, inputs)) or 'none'}"
    if len(inputs) != len(tensors):
        raise UsageError(f"{len(tensors)} tensors for {len(inputs)} inputs", asked=asked, legal=legal)
    mapping: dict[Expr, Expr] = {}
    for b, t in zip(inputs, tensors, strict=True):
        if not isinstance(t, Tensor) or t.dtype != dtype(b.dtype) or t.ndim != len(b.shape):
            raise UsageError(f"{t!r} is not like {b.name}", asked=asked, legal=legal)
        for length, given in zip(b.shape, t.shape, strict=True):
            if length.op == "var":
                mapping.setdefault(length, given)
    for b, t in zip(inputs, tensors, strict=True):
        wanted = tuple(substitute(d, mapping) for d in b.shape)
        if wanted != tuple(t.shape):
            raise UsageError(f"{t.name} has the shape {t.shape}, {b.name} {wanted}", asked=asked, legal=legal)
    return mapping


def _reference(f: PrimFunc) -> Any:
    def evaluate(*arrays: Any) -> Any:
        results = reference(f.args, list(arrays))
        return results[0] if len(results) == 1 else tuple(results)

    return evaluate
