"""Tensors and the operations that define them.

A `Tensor` is the output of an operation: a `PlaceholderOp` (an input) or a `ComputeOp` (one
expression per element, perhaps a reduction). Operations are immutable and know nothing of
schedules; the graph is what tensors read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, SupportsFloat, TypeAlias, overload

from autosched.errors import UsageError, UsageTypeError, expect
from autosched.ir.dims import Range
from autosched.ir.dtype import DType
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import (
    OPERATORS,
    Arithmetic,
    Expr,
    as_expr,
    cast,
    current_promotion,
    is_index,
    make,
    promotion,
    var,
    variables,
)
from autosched.ir.functions import FunctionOf
from autosched.ir.node import Unique, fresh, order
from autosched.ir.printer import checked_name
from autosched.ir.visit import needed_first, post_order
from autosched.te.reduction import REDUCTIONS

#: An expression nested deeper than this is refused: compiling it would exhaust Python's stack.
MAX_DEPTH = 400


class IterVar(Unique, Arithmetic[Expr]):
    """One axis of a computation: a variable that runs over `[min, min + extent)`.

    It stands for its variable wherever an expression is expected. `kind` is `spatial`, `reduce` or
    `scan` (the times of a recurrence).
    """

    __slots__ = ("extent", "kind", "min", "var")

    def __init__(self, name: str, extent: object, kind: str = "spatial", start: object = 0) -> None:
        self.var = var(checked_name(name, "an axis"), role="loop")
        self.min = _length(start)
        self.extent = _length(extent)
        self.kind = kind

    @property
    def name(self) -> str:
        return self.var.name

    @property
    def dom(self) -> Range:
        """The values it runs over."""
        return Range.from_min_extent(self.min, self.extent)

    def as_expr(self) -> Expr:
        return self.var

    # `k == 0` is a condition like `k < 1`; two axes, compared, are the same or they are not (see Expr.__bool__)
    def __eq__(self, other: object) -> Any:
        return self.var.__eq__(other)

    def __ne__(self, other: object) -> Any:
        return self.var.__ne__(other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{self.name}[{self.min!r}, +{self.extent!r}]"


def _length(value: object) -> Expr:
    """A dimension. A number of NumPy's is a plain one: a sum of `uint8` lengths would wrap around."""
    e = as_expr(value)
    return as_expr(int(e.value)) if e.op == "const" and e.dtype.is_integer and e.dtype != "int64" else e


def is_size(e: Expr) -> bool:
    """Whether `e` is an int32 or int64 over size variables and constants: what a dimension may be."""
    return (
        is_index(e)
        and e.dtype in ("int32", "int64")
        and all(v.value.role not in ("loop", "thread", "let") for v in variables(e))
    )


class Operation(Unique):
    """The definition of a tensor. `name` need not be unique; the schedule makes it so."""

    axis: Any
    reduce_axis: Any
    #: placeholders that stand for the result so far of a `scan`: no inputs
    state_placeholder: tuple[Tensor, ...] = ()

    def __init__(self, name: str, shape: Sequence[object], of: Sequence[DType]) -> None:
        """`of` are the types of the outputs."""
        self.name = checked_name(name, "a tensor")
        self.promotion = current_promotion()  # of the language that it was written in
        self.shape = tuple(_length(d) for d in shape)
        for t in of:
            if t.lanes != 1:
                legal = f"legal: {t.scalar}; the schedule vectorizes"
                raise UsageTypeError(f"its elements are {t}", asked=f"tensor {name}", legal=legal)
        for d in self.shape:
            if not is_size(d):
                raise UsageError(
                    f"dimension {d!r} is not an integer over size variables",
                    asked=f"shape of {name}",
                    legal="legal: integers, te.var, te.size_var and arithmetic on them, of type int32 or int64",
                )
            if d.op == "const" and d.value < 0:
                raise UsageError(f"dimension {d.value} is negative", asked=f"shape of {name}")
        self.dtype = of[0]
        names = [name] if len(of) == 1 else [f"{name}.v{k}" for k in range(len(of))]
        self.outputs: tuple[Tensor, ...] = tuple(
            Tensor(self, tensor, self.shape, t, k) for k, (tensor, t) in enumerate(zip(names, of, strict=True))
        )

    @property
    def output_tensor(self) -> Tensor:
        """The first output; most operations have no other."""
        return self.outputs[0]

    def output(self, index: int) -> Tensor:
        if not 0 <= index < len(self.outputs):
            count = "one output" if len(self.outputs) == 1 else f"{len(self.outputs)} outputs"
            raise UsageError(f"{self.name} has {count}, not {index + 1}", asked=f"{self.name}.output({index})")
        return self.outputs[index]

    @property
    def num_outputs(self) -> int:
        return len(self.outputs)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors this operation reads, in order of first appearance."""
        return ()

    def check_in(self, graph: Graph) -> None:
        """Raise UsageError if this operation cannot be part of that graph."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class PlaceholderOp(Operation):
    """An input."""


class ComputeOp(Operation):
    """`body[k]` for every point of `axis` is an element of output k; a `reduce` body runs over
    `reduce_axis` too.

    A `scatter` body runs over `reduce_axis` and the first of `axis`, and says at which place along
    the others its value belongs.
    """

    def __init__(
        self,
        name: str,
        shape: Sequence[object],
        axis: Sequence[IterVar],
        body: Sequence[Expr],
        tag: str = "",
        attrs: Attrs = None,
    ) -> None:
        self.axis = tuple(axis)
        self.body = tuple(body)
        self.tag, self.attrs = tag, dict(attrs or {})
        first = self.body[0]
        self.reduce_axis: tuple[IterVar, ...] = first.value.axes if first.op in REDUCTIONS else ()
        super().__init__(name, shape, [e.dtype for e in self.body])
        if any(e.op in REDUCTIONS for e in self.body):
            self._check_together()
        for node in post_order(first.args if first.op in REDUCTIONS else self.body):
            if node.op in REDUCTIONS:
                raise UsageError(
                    "a reduction must be the whole expression of its tensor",
                    asked=f"compute {name}",
                    legal="compute the reduction as a tensor of its own and read that here",
                )
        self._check_body()

    def _check_together(self) -> None:
        """Outputs of a reduction come from one loop, so they are the components of one reduction."""
        first = self.body[0]
        if first.op == "reduce" and len(self.body) == first.value.size:
            shared = (first.op, first.args, first.value.combiner, first.value.axes)
            found = [(e.op, e.args, e.value.combiner, e.value.axes) for e in self.body if e.op == "reduce"]
            if found == [shared] * len(self.body) and [e.value.value_index for e in self.body] == [*range(len(found))]:
                return
        elif first.op == "scatter" and len(self.body) == 1:
            return
        raise UsageError(
            "its outputs are not all components, each once and in order, of one reduction",
            asked=f"compute {self.name}",
            legal="what a te.comm_reducer of tuples returned, as it is, or a compute for each reduction",
        )

    def _check_body(self) -> None:
        depth = max(e.depth for e in self.body)
        if depth > MAX_DEPTH:
            raise UsageError(
                f"its expression is {depth} operators deep, {MAX_DEPTH} at most",
                asked=f"compute {self.name}",
                legal="a reduction over te.reduce_axis, or several computes",
            )
        first = self.body[0]
        inits = first.value.parts(first.args)[2] if first.op == "reduce" else ()
        axes = {a.var for a in self.axis}
        for exprs, own in ((self.body, axes | {a.var for a in self.reduce_axis}), (inits, axes)):
            for v in sorted(frozenset().union(*map(variables, exprs)) - own, key=order):
                if v.value.role in ("loop", "thread", "let"):
                    raise UsageError(
                        f"{v.name} is not an axis of it",
                        asked=f"compute {self.name}" if exprs is self.body else f"init of the reduction {self.name}",
                        legal=f"axes: {', '.join(a.name for a in self.axis) or 'none'}; "
                        "a reduce axis belongs to the te.sum, te.min, te.max or te.prod that names it",
                    )

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        seen: dict[Tensor, None] = {}
        for node in post_order(self.body):
            if node.op == "read":
                seen.setdefault(node.value)
        return tuple(seen)


class Tensor(Unique, Arithmetic[Any]):
    """A multi-dimensional value; index it with one expression per dimension to read an element."""

    def __init__(self, op: Operation, name: str, shape: tuple[Expr, ...], of: DType, value_index: int = 0) -> None:
        self.op = op
        self.name = name
        self.shape = shape
        self.dtype = of
        self.value_index = value_index
        self.serial = fresh()  #: see `ir.node.order`

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def goes_first(self) -> bool:
        """Whether its operators say what an expression and it are together: of one with dimensions, on all elements."""
        return self.ndim > 0

    def __getitem__(self, indices: object) -> Expr | TensorSlice:
        return TensorSlice(self, ())[indices]

    def as_expr(self) -> Expr:
        """The element of a tensor of no dimensions; UsageError for others, which want indices."""
        return _read(self, ())

    def __call__(self, *indices: object) -> Expr:
        return _read(self, indices)

    def __iter__(self) -> Iterator[Any]:
        raise UsageTypeError(
            "a tensor cannot be iterated; index it", asked=f"iterate over {self.name}", legal="te axes as indices"
        )

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}[{', '.join(map(repr, self.shape))}])"


class TensorSlice(Arithmetic[Expr]):
    """`A[i]` of a matrix: some indices are still to come, as in `A[i][j]`."""

    def __init__(self, tensor: Tensor, indices: tuple[object, ...]) -> None:
        self.tensor = tensor
        self.indices = indices

    def __getitem__(self, indices: object) -> Any:
        more = indices if isinstance(indices, tuple) else (indices,)
        together = self.indices + more
        if len(together) < self.tensor.ndim:
            return TensorSlice(self.tensor, together)
        return _read(self.tensor, together)

    def as_expr(self) -> Expr:
        return _read(self.tensor, self.indices)


def on_tensor_arithmetic(meaning: Callable[..., Any]) -> None:
    """Let `a + b` of whole tensors mean `meaning("add", a, b)`: `autosched.topi` broadcasts.

    A tensor without dimensions stays its element, unless the other operand is a whole tensor.
    """

    def method(name: str, of_elements: Callable[..., Any]) -> Callable[..., Any]:
        def operator(self: Tensor, *args: Any) -> Any:
            if any(hasattr(x, "__te_tensor__") for x in args):
                return NotImplemented  # what stands for a tensor has arithmetic of its own
            if any(isinstance(x, Tensor) and x.ndim for x in (self, *args)):
                with promotion(self.op.promotion):
                    return meaning(name, self, *args)
            return of_elements(self, *args)

        operator.__name__ = name
        return operator

    for name in OPERATORS:
        setattr(Tensor, f"__{name}__", method(name, getattr(Arithmetic, f"__{name}__")))
    Tensor.astype = method("astype", Arithmetic.astype)  # type: ignore[method-assign]


def _read(tensor: Tensor, indices: Sequence[object]) -> Expr:
    if len(indices) != tensor.ndim:
        axes = ", ".join("ijkl"[: tensor.ndim]) if tensor.ndim <= 4 else "..."
        whole = "" if indices else "; `from autosched import topi` gives whole tensors arithmetic"
        raise UsageError(
            f"{tensor.name} has {tensor.ndim} dimensions, not {len(indices)}",
            asked=f"{tensor.name}[{', '.join(map(str, indices))}]",
            legal=f"an element, {tensor.name}[{axes}]{whole}",
        )
    args = []
    for i in indices:
        e = as_expr(i)
        if e.dtype.is_float:
            raise UsageTypeError(
                f"index {e!r} is a {e.dtype}", asked=f"read of {tensor.name}", legal="cast it to int32"
            )
        args.append(cast("int32", e) if e.dtype.is_bool else e)
    return make("read", tensor.dtype, tuple(args), tensor)


_current: ContextVar[str] = ContextVar("tag", default="")


@contextmanager
def tag_scope(tag: str) -> Iterator[None]:
    """A scope, or a decorator, whose operations get that tag. Raises UsageError inside another one.

    >>> from autosched import te
    >>> A = te.placeholder((8,), name="A")
    >>> with te.tag_scope("elemwise"):
    ...     B = te.compute((8,), lambda i: A[i] + 1, name="B")
    >>> B.op.tag
    'elemwise'
    """
    if _current.get():
        why = f"this is inside tag_scope({_current.get()!r})"
        raise UsageError(why, asked=f"tag_scope({tag!r})", legal="one scope at a time")
    _current.set(tag)
    try:
        yield
    finally:
        _current.set("")


def as_tensor(x: Any) -> Any:
    """The tensor that something stands for; a list with the tensors of its elements; others as they are."""
    if isinstance(x, (list, tuple)) and any(hasattr(v, "__te_tensor__") for v in x):
        return type(x)(map(as_tensor, x))
    found = getattr(x, "__te_tensor__", None)
    return x if found is None else found()


def tag_of(tag: str, asked: str) -> str:
    """The tag that an operation gets: the one given, or that of the scope around it; not both."""
    expect(tag, "text", isinstance(tag, str), f"{asked}, tag=..")
    scope = _current.get()
    if tag and scope:
        raise UsageError(
            f"it has the tag {tag!r}, and is inside tag_scope({scope!r})", asked=asked, legal="one tag for an operation"
        )
    return tag or scope


def placeholder(shape: object, dtype: object = "float32", name: str = "placeholder") -> Tensor:
    """An input tensor.

    >>> from autosched import te
    >>> n = te.var("n")
    >>> te.placeholder((n, 3), "uint8", name="image")
    Tensor(image: uint8[n, 3])
    """
    return PlaceholderOp(name, as_shape(shape), [to_dtype(dtype)]).output_tensor


def as_list(x: Any) -> list[Any]:
    """A list or tuple as a list, anything else as a list of it."""
    return list(x) if isinstance(x, (list, tuple)) else [x]


def as_shape(shape: object) -> tuple[object, ...]:
    return tuple(shape) if isinstance(shape, Iterable) and not isinstance(shape, Expr) else (shape,)


#: what makes one tensor. Type checkers that see `Any` take the first overload that fits, so this one is the first
Element: TypeAlias = Expr | Arithmetic[Any] | SupportsFloat
Several: TypeAlias = tuple[object, ...] | list[Any]
#: functions of the axes: `lambda *i: ..`, which type checkers know apart from others only where nothing else is
#: expected, those of one value, of several, and of whatever
Variadic: TypeAlias = Callable[[*tuple[Expr, ...]], Element]
OfOne: TypeAlias = FunctionOf[Expr, Element]
OfSome: TypeAlias = FunctionOf[Expr, Several]
OfAny: TypeAlias = FunctionOf[Expr, object]
Attrs: TypeAlias = dict[str, Any] | None
Names: TypeAlias = Sequence[str] | None


@overload
def compute(
    shape: object, fcompute: Variadic, name: str = ..., tag: str = ..., attrs: Attrs = ..., varargs_names: Names = ...
) -> Tensor: ...
@overload
def compute(
    shape: object, fcompute: OfOne, name: str = ..., tag: str = ..., attrs: Attrs = ..., varargs_names: Names = ...
) -> Tensor: ...
@overload
def compute(  # type: ignore[overload-overlap]  # a tuple is an object, too: the first that fits counts
    shape: object, fcompute: OfSome, name: str = ..., tag: str = ..., attrs: Attrs = ..., varargs_names: Names = ...
) -> tuple[Tensor, ...]: ...
@overload
def compute(
    shape: object, fcompute: OfAny, name: str = ..., tag: str = ..., attrs: Attrs = ..., varargs_names: Names = ...
) -> Tensor: ...
def compute(
    shape: object,
    fcompute: OfAny,
    name: str = "compute",
    tag: str = "",
    attrs: Attrs = None,
    varargs_names: Names = None,
) -> Any:
    """The tensor whose element at (i, j, ...) is `fcompute(i, j, ...)`.

    Where the function returns a tuple, so does this: tensors of one shape that are computed
    together, in the same loops. The axes take the names of the function's parameters; those of
    `*axes` are `varargs_names`, or numbered. `tag` and `attrs` are notes for templates and passes.
    Raises UsageError when the number of axes does not match the shape, or the result is not an
    expression.

    >>> from autosched import te
    >>> n = te.var("n")
    >>> A = te.placeholder((n,), name="A")
    >>> te.compute((n,), lambda i: A[i] + 1, name="B")
    Tensor(B: float32[n])
    >>> te.compute((n,), lambda i: (te.sin(A[i]), A[i] > 0), name="C")
    (Tensor(C.v0: float32[n]), Tensor(C.v1: bool[n]))
    """
    dims = as_shape(shape)
    expect(attrs, "a dictionary", attrs is None or isinstance(attrs, dict), f"compute {name}, attrs=..")
    names = axis_names(fcompute, len(dims), name, varargs_names)
    axes = [IterVar(axis_name, extent) for axis_name, extent in zip(names, dims, strict=True)]
    result = fcompute(*(a.var for a in axes))
    listed = result if isinstance(result, (tuple, list)) else (result,)
    if not listed:
        raise UsageError("the function returned no value", asked=f"compute {name}", legal="an expression, or a tuple")
    op = ComputeOp(name, dims, axes, [as_expr(e) for e in listed], tag_of(tag, f"compute {name}"), attrs)
    return op.outputs if op.num_outputs > 1 else op.output_tensor


def axis_names(
    fcompute: Callable[..., object], ndim: int, tensor: str, variadic_names: Sequence[str] | None = None
) -> list[str]:
    """A parameter with a default value is an axis only where the shape has a dimension for it."""
    try:
        parameters = list(inspect.signature(fcompute).parameters.values())
    except (TypeError, ValueError):
        raise UsageTypeError(
            f"{fcompute!r} is not a function of axes", asked=f"compute {tensor}", legal="for example lambda i, j: ..."
        ) from None
    variadic = [p for p in parameters if p.kind is p.VAR_POSITIONAL]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p.name for p in positional if p.default is p.empty]
    names = required if len(required) == ndim else [p.name for p in positional]
    if variadic_names is not None:
        left = ndim - len(names) if variadic else 0
        if len(variadic_names) != left:
            why = f"{len(variadic_names)} varargs_names for {left} axes that *axes takes"
            raise UsageError(why, asked=f"compute {tensor}", legal="a name for each dimension that no parameter is for")
        names = [*names, *variadic_names]
    elif variadic and len(names) < ndim:
        names += [f"{variadic[0].name}{k}" for k in range(len(names), ndim)]
    if len(names) != ndim:
        why = f"the function takes {len(names)} axes, the shape has {ndim} dimensions"
        raise UsageError(why, asked=f"compute {tensor}", legal="one parameter for each dimension, or *axes")
    return names


@dataclass(frozen=True)
class Graph:
    """The operations that some tensors depend on, producers before consumers."""

    ops: tuple[Operation, ...]
    consumers: dict[Operation, tuple[Operation, ...]] = field(hash=False)

    @property
    def states(self) -> frozenset[Tensor]:
        """The placeholders that are states of scans: no inputs of the program."""
        return frozenset(t for op in self.ops for t in op.state_placeholder)

    @staticmethod
    def of(outputs: Iterable[Tensor]) -> Graph:
        order = needed_first((t.op for t in outputs), lambda op: [t.op for t in op.input_tensors])
        consumers: dict[Operation, list[Operation]] = {op: [] for op in order}
        for op in order:
            for t in op.input_tensors:
                consumers[t.op].append(op)
        graph = Graph(tuple(order), {op: tuple(users) for op, users in consumers.items()})
        for op in order:
            op.check_in(graph)
        return graph
