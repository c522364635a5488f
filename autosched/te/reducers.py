"""Reductions: `te.sum` and its like, `te.argmax`, and `comm_reducer` for all others."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, overload

from autosched.errors import UsageError, UsageTypeError
from autosched.ir import expr as ir
from autosched.ir.dtype import INT32, DType
from autosched.ir.expr import Expr, as_expr, variables
from autosched.ir.functions import FunctionOf
from autosched.ir.node import order
from autosched.ir.ops import BOTH_SIDES
from autosched.ir.printer import checked_name
from autosched.ir.visit import post_order, rewrite
from autosched.te.reduction import BUILT_IN, Combiner, Reduction
from autosched.te.tensor import ComputeOp, Element, IterVar, Several, Tensor, as_list, as_shape, axis_names, tag_of


class Reducer(Protocol):
    """The result of `comm_reducer`: it makes a tuple of expressions of a tuple, an expression of an expression."""

    @property
    def __name__(self) -> str: ...

    @overload
    def __call__(
        self, expr: Element, *more: object, axis: object = ..., where: object = ..., init: object = ...
    ) -> Expr: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]  # a tuple is an object, too: the first that fits counts
        self, expr: Several, *more: object, axis: object = ..., where: object = ..., init: object = ...
    ) -> tuple[Expr, ...]: ...
    @overload
    def __call__(
        self, expr: object, *more: object, axis: object = ..., where: object = ..., init: object = ...
    ) -> Expr: ...


def comm_reducer(
    fcombine: Callable[[Any, Any], object], fidentity: FunctionOf[DType, object], name: str = "reduce"
) -> Reducer:
    """A reduction of one's own: `reducer(expr, axis, where=None, init=None)`.

    `fcombine(x, y)` makes one value of two; `fidentity(dtype)` is the constant that changes
    nothing. For reductions of tuples `x`, `y` and the result are tuples, `fidentity` takes a dtype
    for each component, `expr` is a tuple, and the reducer returns a tuple, which is what the lambda
    of `te.compute` returns: one tensor for each component. `where` says which points take part;
    `init` what the result begins with instead of the identity: a number, or an element of a tensor
    that the reduce axes do not choose; a tuple of them for tuples. Called without a reduce axis, the
    reducer combines its operands: `reducer(a, b, c)`.

    The order in which values are combined is the schedule's: `rfactor`, and vectorizing a reduce
    loop, change it. They are right if `fcombine` is associative and commutative, which is yours to
    know; nothing checks it. Combiners are stored in records as expressions, never as code, so they
    are made of their operands and constants alone. Raises UsageError for anything else, and where a
    component changes its type.

    >>> import numpy as np
    >>> from autosched import te
    >>> product = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t), name="product")
    >>> A = te.placeholder((4,), "int32", name="A")
    >>> k = te.reduce_axis((0, 4), "k")
    >>> B = te.compute((), lambda: product(A[k], axis=k, where=A[k] > 0), name="B")
    >>> te.reference([A, B], [np.array([3, -1, 5, 0], "int32")])
    [array(15, dtype=int32)]
    """
    checked_name(name, "comm_reducer(.., name=..)")

    def reducer(expr: object, *more: object, axis: object = None, where: object = None, init: object = None) -> Any:
        over, where, init = _over(name, more, axis, where, init)
        if over is None:
            return _directly(fcombine, [expr, *more], name)
        sources, is_tuple = tuple(map(as_expr, as_list(expr))), isinstance(expr, (tuple, list))
        combiner = _combiner(fcombine, fidentity, name, [e.dtype for e in sources], is_tuple)
        made = _reductions(combiner, name, sources, over, where, init)
        return made if is_tuple else made[0]

    reducer.__name__ = name
    reducer.__doc__ = f"The reduction {name} over reduce axes, or of plain operands; see `te.comm_reducer`."
    return reducer


def _combiner(
    fcombine: Callable[[Any, Any], Any], fidentity: Callable[..., Any], name: str, of: Sequence[DType], is_tuple: bool
) -> Combiner:
    left, right = (
        tuple(ir.var(f"{side}{k}" if is_tuple else side, t, "let") for k, t in enumerate(of))
        for side in _operand_names(fcombine, name)
    )
    result = fcombine(left, right) if is_tuple else (fcombine(left[0], right[0]),)
    identity = fidentity(*of) if is_tuple else (fidentity(of[0]),)
    asked = f"comm_reducer {name}"
    parts: list[tuple[Expr, ...]] = []
    for values, what in ((result, "fcombine"), (identity, "fidentity")):
        listed = as_list(values)
        if len(listed) != len(of):
            legal = "one value for each component"
            raise UsageError(f"{what} gives {len(listed)} values for {len(of)} components", asked=asked, legal=legal)
        parts.append(tuple(as_expr(e, t) for e, t in zip(listed, of, strict=True)))
        for e, t in zip(parts[-1], of, strict=True):
            if e.dtype != t:
                legal = f"cast it: .astype({str(t)!r})"
                raise UsageError(f"{what} gives a {e.dtype} for a component of {t}", asked=asked, legal=legal)
    foreign = [e for e in post_order(parts[0]) if e.op in ("read", "reduce", "scatter", "call")]
    foreign += sorted(frozenset().union(*map(variables, parts[0])) - {*left, *right}, key=order)
    if foreign:
        raise UsageError(f"fcombine uses {foreign[0]!r}", asked=asked, legal="its two operands, and constants")
    if not_constant := [e for e in parts[1] if e.op != "const"]:
        raise UsageError(f"fidentity gives {not_constant[0]!r}", asked=asked, legal="a constant: te.const(0, dtype)")
    return Combiner(name, left, right, tuple(map(_looking_at_both, parts[0])), parts[1])


def _looking_at_both(e: Expr) -> Expr:
    """A truth that reads nothing, with `and` and `or` that look at both of their sides: there is nothing to guard."""
    if not e.dtype.is_bool:
        return e
    return rewrite(e, lambda n, args: ir.make(BOTH_SIDES[n.op], n.dtype, args) if n.op in BOTH_SIDES else None)


def _operand_names(fcombine: Callable[..., Any], name: str) -> list[str]:
    try:
        names = [p.name for p in inspect.signature(fcombine).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):
        names = []
    if len(names) != 2:
        raise UsageTypeError(
            f"{fcombine!r} is not a function of two operands", asked=f"comm_reducer {name}", legal="lambda x, y: ..."
        )
    return names


def _directly(fcombine: Callable[[Any, Any], Any], operands: list[object], name: str) -> Any:
    """`reducer(a, b, c)`, without an axis."""
    if len(operands) < 2:
        raise UsageError(f"{name} needs an axis, or a second operand", asked=f"{name}(...)", legal="te.reduce_axis")
    tuples = [isinstance(x, (tuple, list)) for x in operands]
    if len(set(tuples)) > 1:
        raise UsageError(
            "tuples and single values, and no reduce axis", asked=f"{name}(...)", legal="axis=te.reduce_axis(...)"
        )
    if tuples[0]:
        return functools.reduce(fcombine, operands)
    beside = next((as_expr(x).dtype for x in operands if not ir.is_number(x)), None)  # of literals that come first
    result = as_expr(operands[0]) if beside is None else ir.as_operand(operands[0], beside)
    for other in operands[1:]:
        result = fcombine(result, ir.as_operand(other, as_expr(result).dtype))
    return result


def _over(
    name: str, more: tuple[object, ...], axis: object, where: object, init: object
) -> tuple[object, object, object]:
    """The axes to reduce over, `where` and `init`, named or in that order; no axes for plain operands."""
    if axis is not None or not more or not _are_axes(more[0]):
        if more and axis is not None:
            asked = f"{name}(..., {more[0]!r}, axis=...)"
            raise UsageError("operands and axes do not go together", asked=asked, legal="one or the other")
        return axis, where, init
    given = dict(zip(("axis", "where", "init"), more, strict=False))
    if len(more) > 3:
        raise UsageError(f"{more[3]!r} is one too many", asked=f"{name}(...)", legal="expr, axis, where, init")
    return given["axis"], given.get("where", where), given.get("init", init)


def _are_axes(axis: object) -> bool:
    return isinstance(axis, IterVar) or (
        isinstance(axis, (tuple, list)) and bool(axis) and isinstance(axis[0], IterVar)
    )


def _axes(axis: object) -> tuple[IterVar, ...]:
    axes = tuple(as_list(axis))
    for a in axes:
        if not isinstance(a, IterVar) or a.kind != "reduce":
            raise UsageError(f"{a!r} is not a reduce axis", asked="reduction", legal="te.reduce_axis((begin, end))")
    if len(set(axes)) < len(axes):
        raise UsageError("an axis is named twice", asked=f"reduction over {', '.join(a.name for a in axes)}")
    return axes


def _reductions(
    combiner: str | Combiner, name: str, sources: tuple[Expr, ...], axis: object, where: object, init: object
) -> tuple[Expr, ...]:
    """The expression of each component."""
    axes = _axes(axis)
    condition = ir.const(True) if where is None else ir.logical_and(where)
    inits: tuple[Expr, ...] = ()
    if init is not None:
        listed = as_list(init)
        if len(listed) != len(sources):
            why = f"{len(listed)} first values for {len(sources)} components"
            raise UsageError(why, asked=f"init of {name}", legal="one for each")
        inits = tuple(as_expr(e, s.dtype) for e, s in zip(listed, sources, strict=True))
    for e, s in zip(inits, sources, strict=False):
        if e.dtype != s.dtype:
            why = f"{e!r} is a {e.dtype}, what is reduced a {s.dtype}"
            raise UsageTypeError(why, asked=f"init of {name}", legal=f"cast it: .astype({str(s.dtype)!r})")
    args = (*sources, condition, *inits)
    return tuple(ir.make("reduce", s.dtype, args, Reduction(combiner, axes, k)) for k, s in enumerate(sources))


# -- the reductions that go by name ---------------------------------------------------------------


def _built_in(combiner: str) -> Callable[..., Expr]:
    def plain(a: object, b: object) -> Expr:
        return ir.binary(BUILT_IN[combiner], a, b)

    def reduce(
        expr: object,
        *more: object,
        axis: object = None,
        where: object = None,
        init: object = None,
        dtype: object = None,
    ) -> Expr:
        over, where, init = _over(f"te.{combiner}", more, axis, where, init)
        if over is None and dtype is not None:
            raise UsageError(
                "there is no axis to accumulate over", asked=f"te.{combiner}(..., dtype={dtype!r})", legal="axis="
            )
        if over is None:  # te.min(a, b)
            return _directly(plain, [expr, *more], f"te.{combiner}")
        source = as_expr(expr) if dtype is None else ir.cast(dtype, expr)
        if source.dtype.is_bool:
            source = ir.cast("int32", source)
        return _reductions(combiner, f"te.{combiner}", (source,), over, where, init)[0]

    reduce.__name__ = combiner
    reduce.__doc__ = f"""`{combiner}` of `expr` over reduce axes, or of two or more plain operands.

    `where` is a condition over the axes: points where it does not hold take no part. `init` is what
    the result begins with: a number, or an element of a tensor. `dtype` is the type to accumulate in,
    and the result's: `expr` is converted to it first. Without it, sums of float16 and of small integers
    stay float16 and small. Bool is reduced as int32.
    """
    return reduce


sum = _built_in("sum")
prod = _built_in("prod")
min = _built_in("min")
max = _built_in("max")


#: Reducers of this file whose results do not depend on the order: the function of two that each was made of.
_IN_ANY_ORDER: dict[str, Callable[[Any, Any], Any]] = {}
#: The same for operands of which the second has the larger index, or the first is the identity.
_RISING: dict[str, Callable[[Any, Any], Any]] = {}


def takes_any_order(combiner: str | Combiner) -> bool:
    """Whether values may be combined in any order: of a combiner of one's own, nobody but its author knows that."""
    if isinstance(combiner, str):
        return True
    left, right = combiner.left, combiner.right
    apart = [{ir.binary(op, a, b) for op in BUILT_IN.values()} for a, b in zip(left, right, strict=True)]
    if builtins.all(e in known for e, known in zip(combiner.result, apart, strict=True)):
        return True
    return _is_arg(combiner)


def _is_arg(combiner: Combiner) -> bool:
    """Whether a combiner is that of `argmax` or `argmin`."""
    combine, left, right = _IN_ANY_ORDER.get(combiner.name), combiner.left, combiner.right
    if combine is None or len(left) != 2 or not left[0].dtype.is_integer:
        return False
    return builtins.all(map(operator.is_, combine(left, right), combiner.result))


def in_rising_order(combiner: str | Combiner) -> Combiner | None:
    """A combiner for `argmax` and `argmin` of indices that are not negative and rise from one value to the next.

    Of equal values the first one stays, which leaves one comparison of indices, with that of nothing, and one choice
    for both components. None for other combiners.
    """
    if isinstance(combiner, str) or not _is_arg(combiner):
        return None
    return replace(combiner, result=_RISING[combiner.name](combiner.left, combiner.right))


def _arg(
    name: str, beats: Callable[[Expr, Expr], Expr], worst: Callable[[DType], Expr]
) -> Callable[..., tuple[Expr, Expr]]:
    """The reduction of pairs (index, value) to the one whose value beats all others."""

    def wins(a: Expr, b: Expr) -> Expr:
        """NumPy's order: what is not a number beats all numbers."""
        better = beats(a, b)
        return better | (ir.call("isnan", a) & ~ir.call("isnan", b)) if a.dtype.is_float else better

    def combine(x: tuple[Expr, Expr], y: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        (i, a), (j, b) = x, y
        better, worse = wins(a, b), wins(b, a)
        unsigned = f"uint{i.dtype.bits}"  # so that -1, the index of nothing, comes last
        first = ir.cast(unsigned, i) < ir.cast(unsigned, j)
        left = better | (~worse & first)
        return ir.select(left, i, j), ir.select(better, a, b)

    def rising(x: tuple[Expr, Expr], y: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        (i, a), (j, b) = x, y
        stays = ~wins(b, a) & ir.compare("ne", i, ir.const(-1, i.dtype))
        return ir.select(stays, i, j), ir.select(stays, a, b)

    def identity(index: DType, value: DType) -> tuple[Expr, Expr]:
        return ir.const(-1, index), worst(value)

    pairs = comm_reducer(combine, identity, name)
    _IN_ANY_ORDER[name], _RISING[name] = combine, rising

    def reduce(expr: object, axis: object = None, where: object = None, init: object = None) -> tuple[Expr, Expr]:
        if not _are_axes(axis):
            raise UsageTypeError(f"{axis!r} is no reduce axis", asked=f"te.{name}", legal="te.reduce_axis, or a list")
        if not isinstance(expr, (tuple, list)):
            expr = (_position(_axes(axis)), expr)
        index, value = expr
        place = as_expr(index)
        if not place.dtype.is_integer:
            raise UsageTypeError(f"index {place!r} is a {place.dtype}", asked=f"te.{name}", legal="(index, value)")
        position, extreme = pairs((place, value), axis, where, init)
        return position, extreme

    reduce.__name__ = name
    reduce.__doc__ = f"""The pair (index, value) at `{name}` over the reduce axes: `te.{name}((index, value), axis=k)`.

    `te.compute` makes two tensors of it. Of equal values the one with the smallest index wins, and
    what is not a number wins over all numbers, as in NumPy. With a single expression, `index` is the
    value of the axis; of several axes, the position among all of their points, the last one running
    fastest. Where no point takes part, the index is -1. Indices are not negative.

    >>> import numpy as np
    >>> from autosched import te
    >>> A = te.placeholder((2, 3), "int32", name="A")
    >>> k = te.reduce_axis((0, 3), "k")
    >>> index, value = te.compute((2,), lambda i: te.{name}(A[i, k], axis=k), name="best")
    >>> te.reference([A, index], [np.array([[1, 5, 5], [7, 7, 9]], "int32")])
    [array([{"1, 2" if name == "argmax" else "0, 0"}], dtype=int32)]
    """
    return reduce


def _position(axes: Sequence[IterVar]) -> Expr:
    """The value of an axis, or the position among the points of several; of int64 if it may not fit in int32."""
    position: Expr = axes[0].var
    ends = [a.extent for a in axes]
    if len(axes) == 1:
        ends = [axes[0].min + axes[0].extent]
    else:
        position = ir.const(0)
        for a in axes:
            position = position * a.extent + (a.var - a.min)
    known = [int(e.value) for e in ends if e.op == "const"]
    is_long = len(known) == len(ends) and math.prod(known) > INT32.max + 1
    return ir.cast("int64", position) if is_long else position


argmax = _arg("argmax", lambda a, b: a > b, lambda t: ir.const(t.min, t))
argmin = _arg("argmin", lambda a, b: a < b, lambda t: ir.const(t.max, t))


def all(*conditions: object, axis: object = None, where: object = None, init: object = None) -> Expr:
    """True where every condition holds; with `axis`, whether the one condition does at all its points."""
    if axis is None:
        return ir.logical_and(*(c for given in conditions for c in as_list(given)))
    return _whether("all", "min", conditions, axis, where, init)


def any(*conditions: object, axis: object = None, where: object = None, init: object = None) -> Expr:
    """True where some condition holds; with `axis`, whether the one condition does at any of its points."""
    if axis is None:
        return ir.logical_or(*(c for given in conditions for c in as_list(given)))
    return _whether("any", "max", conditions, axis, where, init)


def _whether(
    name: str, combiner: str, conditions: tuple[object, ...], axis: object, where: object, init: object
) -> Expr:
    """The reduction of one condition by the operator on truths that looks at both of its sides."""
    if len(conditions) != 1:
        legal = f"one, such as te.{name}(a[k] > 0)"
        raise UsageError(f"{len(conditions)} conditions", asked=f"te.{name}(..., axis=...)", legal=legal)
    return _reductions(combiner, f"te.{name}", (ir.cast("bool", as_expr(conditions[0])),), axis, where, init)[0]


# -- reductions turned around: each point finds its element ----------------------------------------
def scatter_reduce(
    shape: object,
    fscatter: Callable[..., tuple[object, object]],
    axis: IterVar | Sequence[IterVar],
    combiner: str = "sum",
    name: str = "scatter",
    tag: str = "",
) -> Tensor:
    """The tensor of that shape in which each point of the reduce axes has been combined at its place.

    `fscatter` takes the tensor's leading axes, as many as it has parameters, and returns (place,
    value): an integer expression for each of the dimensions that are left (a tuple where there are
    several), and what to combine there. `combiner` is `sum`, `prod`, `min` or `max`; an element
    where no point falls is its identity. Like `numpy.add.at`, except that places outside the tensor,
    negative ones among them, are dropped. Raises UsageError for another combiner, an axis that is
    no reduce axis, or places that are not integers or of another number.

    The leading axes are independent of one another and can be computed in parallel. Where there are
    none, `rfactor` makes one: a histogram for each part of the points, and then their sum.

    >>> import numpy as np
    >>> from autosched import te
    >>> n = te.var("n")
    >>> data = te.placeholder((n,), "int32", name="data")
    >>> i = te.reduce_axis((0, n), "i")
    >>> counts = te.scatter_reduce((3,), lambda: (data[i], te.const(1, "int32")), axis=i, name="counts")
    >>> te.reference([data, counts], [np.array([2, 0, 2, 7, -1], "int32")])
    [array([1, 0, 2], dtype=int32)]
    """
    asked = f"scatter_reduce {name}"
    over = tuple(as_list(axis))
    if not over or [a for a in over if not isinstance(a, IterVar) or a.kind != "reduce"]:
        raise UsageTypeError(f"{axis!r} is no reduce axis", asked=asked, legal="te.reduce_axis, or a list of them")
    if combiner not in ("sum", "prod", "min", "max"):
        raise UsageError(f"no combiner {combiner!r}", asked=asked, legal="sum, prod, min, max")
    dims = as_shape(shape)
    count = _parameters(fscatter, name)
    if count >= len(dims):
        why = f"the function takes {count} axes of {len(dims)} dimensions, and leaves none to scatter over"
        raise UsageError(why, asked=asked, legal="fewer parameters than dimensions")
    leading = [IterVar(n, d) for n, d in zip(axis_names(fscatter, count, name), dims, strict=False)]
    result: Any = fscatter(*(a.var for a in leading))
    if not isinstance(result, tuple) or len(result) != 2:
        legal = "an index, or a tuple of them, and a value"
        raise UsageTypeError("the function does not return (place, value)", asked=asked, legal=legal)
    place = result[0] if isinstance(result[0], tuple) else (result[0],)
    indices, value = [as_expr(i) for i in place], as_expr(result[1])
    if len(indices) != len(dims) - len(leading):
        raise UsageError(
            f"{len(leading)} leading axes and {len(indices)} indices for {len(dims)} dimensions",
            asked=asked,
            legal="a parameter of the function, or an index that it returns, for each dimension",
        )
    for i in indices:
        if not i.dtype.is_integer or i.dtype.is_bool:
            raise UsageTypeError(f"index {i!r} is a {i.dtype}", asked=asked, legal="cast it to int32")
    return scatter_at(name, dims, leading, indices, value, over, combiner, tag_of(tag, asked))


def scatter_at(
    name: str,
    shape: Sequence[object],
    leading: Sequence[IterVar],
    place: Sequence[Expr],
    value: Expr,
    over: Sequence[IterVar],
    combiner: str = "sum",
    tag: str = "",
) -> Tensor:
    """`scatter_reduce` of expressions over axes that exist already."""
    axes = [*leading, *(IterVar(f"place{k}", d) for k, d in enumerate(shape[len(leading) :]))]
    body = ir.make("scatter", value.dtype, (value, ir.const(True), *place), Reduction(combiner, tuple(over)))
    return ComputeOp(name, shape, axes, (body,), tag).output_tensor


def _parameters(fscatter: Callable[..., Any], name: str) -> int:
    try:
        return fscatter.__code__.co_argcount
    except AttributeError:
        raise UsageTypeError(
            f"{fscatter!r} is not a function", asked=f"scatter_reduce {name}", legal="for example lambda: (a[i], 1)"
        ) from None
