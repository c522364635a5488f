"""Operations whose body is not an expression for each element: opaque statements, functions from outside.

    C = te.extern((n, m), [A, B], lambda ins, outs: call_packed("my.matmul", ins[0], ins[1], outs[0]), name="C")

    def body(ins, outs):
        ib = create()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        ...
        return ib.get()

Nothing is known of which elements such an operation reads: its inputs are computed whole before it, and
it computes its outputs whole, at the root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.errors import UsageError, UsageTypeError, expect
from autosched.ir.calls import call_packed, callee, view_of
from autosched.ir.dtype import INT32
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, is_index, make
from autosched.ir.functions import get_global_func, register_func
from autosched.ir.stmt import Allocate, Buffer, Evaluate, For, Let, Stmt, Store, expressions, seq, walk
from autosched.ir.visit import post_order
from autosched.te.tensor import IterVar, Operation, Tensor, as_list

Reference = Callable[..., Any]


class ExternOp(Operation):
    """`statement` reads `in_buffers`, which stand for `inputs`, and writes `out_buffers`, one for each output.

    `body` says which tensors it reads, for whom it matters: one element of each, at a place nothing is
    known of. `reference` computes the outputs with NumPy from the inputs' arrays.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Tensor],
        in_buffers: Sequence[Buffer],
        out_buffers: Sequence[Buffer],
        statement: Stmt,
        tag: str = "",
        attrs: dict[str, Any] | None = None,
        reference: Reference | None = None,
    ) -> None:
        self.inputs, self.in_buffers, self.out_buffers = tuple(inputs), tuple(in_buffers), tuple(out_buffers)
        self.statement, self.tag, self.attrs, self.reference = statement, tag, dict(attrs or {}), reference
        self.axis: tuple[IterVar, ...] = ()
        self.reduce_axis: tuple[IterVar, ...] = ()
        super().__init__(name, self.out_buffers[0].shape, [self.out_buffers[0].dtype])
        if len(self.out_buffers) > 1:
            self.outputs = tuple(
                Tensor(self, f"{name}.v{k}", b.shape, b.dtype, k) for k, b in enumerate(self.out_buffers)
            )
        self._check()

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        return tuple(dict.fromkeys(self.inputs))

    @property
    def body(self) -> tuple[Expr, ...]:
        """A read of each input, at any place."""
        anywhere = make("call", INT32, (), callee("anywhere", "intrin", False))
        return tuple(make("read", t.dtype, (anywhere,) * t.ndim, t) for t in self.inputs)

    @property
    def single_call(self) -> Expr | None:
        """The statement's call, if it is nothing but a call of a Python function with whole buffers and sizes."""
        if not isinstance(self.statement, Evaluate) or self.statement.value.value.kind != "packed":
            return None
        call = self.statement.value
        whole = [view_of(b) for b in (*self.in_buffers, *self.out_buffers)]
        return call if all(any(a is w for w in whole) if a.op == "view" else is_index(a) for a in call.args) else None

    def _check(self) -> None:
        """Raise UsageError where the statement uses memory or variables that it was not given."""
        asked = f"extern {self.name}"
        known = {*self.in_buffers, *self.out_buffers}
        bound: set[Expr] = set()
        for s in walk(self.statement):
            if isinstance(s, Allocate):
                known.add(s.buffer)
            if isinstance(s, For | Let):
                bound.add(s.var)
        for s in walk(self.statement):
            nodes = post_order(expressions(s))
            used = {n.value for n in nodes if n.op in ("load", "address", "view")}
            for b in sorted(used | ({s.buffer} if isinstance(s, Store) else set()), key=lambda b: b.name):
                if b not in known:
                    names = ", ".join(x.name for x in (*self.in_buffers, *self.out_buffers))
                    raise UsageError(f"{b.name} is not among its buffers", asked=asked, legal=f"buffers: {names}")
            if isinstance(s, Store) and s.buffer in self.in_buffers and s.buffer not in self.out_buffers:
                raise UsageError(f"it writes to its input {s.buffer.name}", asked=asked, legal="write to an output")
            for n in nodes:
                if n.op == "read":
                    raise UsageError(
                        f"it reads the tensor {n.value.name}", asked=asked, legal="the buffers that fcompute is given"
                    )
                if n.op == "var" and n.value.role in ("loop", "thread", "let") and n not in bound:
                    raise UsageError(f"{n.name} has no value in it", asked=asked, legal="a loop or let around its use")


def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[[list[Buffer], list[Buffer]], object],
    name: str = "extern",
    dtype: Any = None,
    in_buffers: Any = None,
    out_buffers: Any = None,
    tag: str = "",
    attrs: dict[str, Any] | None = None,
    *,
    reference: Reference | None = None,
) -> Any:
    """The tensor (a list of them, for a list of shapes) that a statement of `fcompute` writes.

    shape:     of the output, or a list of shapes
    fcompute:  called once with lists of buffers for the inputs and the outputs; returns a statement (of an
               `IRBuilder`), or a call: `call_packed` gets arrays, `call_extern` addresses
    dtype:     of the outputs, one or a list; by default that of the inputs, if they have one
    in_buffers, out_buffers: buffers to use instead of ones like the tensors
    reference: for `te.reference`: a function of the inputs' arrays that returns the output, or a tuple.
               A body that only calls a registered Python function needs none

    A loop over a hardware axis (`scope_attr(te.thread_axis(...), "thread_extent", n)`) makes the body a
    kernel. Raises UsageError where the result is no statement, or uses what it was not given.

    >>> import numpy as np
    >>> from autosched import te
    >>> from autosched.ir.calls import call_packed
    >>> from autosched.runtime.registry import register_func
    >>> @register_func("example.sort", override=True)
    ... def sort(data, result):
    ...     result[...] = np.sort(data)
    >>> A = te.placeholder((4,), name="A")
    >>> B = te.extern((4,), [A], lambda ins, outs: call_packed("example.sort", ins[0], outs[0]), name="B")
    >>> te.reference([A, B], [np.array([3, 1, 2, 0], "float32")])
    [array([0., 1., 2., 3.], dtype=float32)]
    """
    asked = f"extern {name}"
    expect(inputs, "a list of tensors", isinstance(inputs, (list, tuple)), asked)
    expect(fcompute, "a function of lists of buffers", callable(fcompute), asked)
    for t in inputs:
        if not isinstance(t, Tensor):
            raise UsageTypeError(f"{t!r} is not a tensor", asked=asked, legal="a list of tensors")
    shapes = _shapes(shape)
    types = _types(dtype, inputs, len(shapes), asked)
    given = [Buffer(t.name, t.shape, t.dtype) for t in inputs] if in_buffers is None else as_list(in_buffers)
    if out_buffers is None:
        names = [name] if len(shapes) == 1 else [f"{name}.v{k}" for k in range(len(shapes))]
        made = [Buffer(n, d, of) for n, d, of in zip(names, shapes, types, strict=True)]
    else:
        made = as_list(out_buffers)
    if len(given) != len(inputs) or any(b.dtype != t.dtype for b, t in zip(given, inputs, strict=False)):
        raise UsageError("in_buffers are not like the inputs", asked=asked, legal="one of its type for each input")
    if not made:
        raise UsageError("it has no output", asked=asked, legal="a shape, or a list of shapes")
    result = fcompute(list(given), list(made))
    op = ExternOp(name, inputs, given, made, as_statement(result, asked), tag, attrs, reference)
    return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)


def _shapes(shape: Any) -> list[tuple[Expr, ...]]:
    """One shape, or several."""
    dims = as_list(shape)
    several = dims if dims and all(isinstance(d, (list, tuple)) for d in dims) else [dims]
    return [tuple(map(as_expr, d)) for d in several]


def _types(dtype: Any, inputs: Sequence[Tensor], count: int, asked: str) -> list[Any]:
    if dtype is None:
        found = {t.dtype for t in inputs}
        if len(found) != 1:
            raise UsageError(
                "the type of its output cannot be told from its inputs", asked=asked, legal="dtype=..., one or a list"
            )
        return list(found) * count
    types = list(dtype) if isinstance(dtype, (list, tuple)) else [dtype] * count
    if len(types) != count:
        raise UsageError(f"{len(types)} types for {count} outputs", asked=asked, legal="one for each, or one for all")
    return [to_dtype(t) for t in types]


def as_statement(result: Any, asked: str) -> Stmt:
    """The result of `fcompute` as a statement."""
    if isinstance(result, (list, tuple)):
        return seq(*(as_statement(part, asked) for part in result))
    if isinstance(result, Expr) and result.op == "call":
        return Evaluate(result)
    if isinstance(result, Stmt):
        return result
    legal = "a statement of an IRBuilder (`return ib.get()`), or a call (call_packed, call_extern)"
    raise UsageError(f"fcompute returned {result!r}", asked=asked, legal=legal)


# -- values seen by a Python function -------------------------------------------------------------
DEFAULT_ACTION = "tvm.default_trace_action"


register_func(DEFAULT_ACTION, lambda *values: print(list(values)))


def trace(args: Sequence[object], trace_action: str = DEFAULT_ACTION) -> Expr:
    """The last of `args`, which are all given to a Python function whenever it is computed.

    `trace_action` is the name of a function of `register_func`; the default prints them. What it
    returns, unless that is None, takes the value's place. Only where Python can be called: on target
    `llvm`, in the interpreter and in `te.reference`. Loops keep their order if they are not parallel.

        B = te.compute(A.shape, lambda i: te.trace([i, A[i]]) + 1)         prints [0, 2.5], [1, ...
    """
    if not isinstance(args, (list, tuple)) or not args:
        raise UsageError("there is nothing to trace", asked=f"te.trace({args!r})", legal="te.trace([i, A[i]])")
    get_global_func(trace_action)
    values = [as_expr(a) for a in args]
    name = f"trace.{trace_action}"

    def action(*given: Any) -> Any:
        found = get_global_func(trace_action)(*given)
        return given[-1] if found is None else found

    register_func(name, action, override=True)
    return call_packed(name, *values, dtype=values[-1].dtype)
