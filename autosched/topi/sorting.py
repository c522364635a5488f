"""Elements in order, by counting: how many come before each. Every target runs it; a line of n takes n*n comparisons,
and the first k of it, which are searched one after the other, n*k.

Of equal elements those in front come first, zeros are equal, and NaN is the greatest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, as_expr, const, is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dim, accumulator, axis_of, narrowed, product, same, unravel
from autosched.topi.elementwise import elementwise
from autosched.topi.linalg import cumsum
from autosched.topi.transform import reshape

#: The first few elements are searched one after the other, which takes as many passes; more are put in order.
MOST_IN_TURN = 8


def sortable(x: Expr) -> Expr:
    """Return an integer that is in the order of a number."""
    if not x.dtype.is_float:
        return x
    x = x.astype(accumulator(x.dtype))
    of = f"int{x.dtype.bits}"
    bits, most = te.reinterpret(of, x), te.max_value(of)
    ordered = te.select(bits < 0, bits ^ most, bits)
    return te.select(te.isnan(x), most, te.select(x == 0, te.const(0, of), ordered))


def _along(t: Tensor, i: Sequence[Expr], at: int, place: Any) -> Expr:
    return t(*(place if k == at else e for k, e in enumerate(i)))


def first_places(x: Tensor, count: Dim, at: int, ascending: bool, valid: Tensor | None = None) -> Tensor:
    """Return where the first `count` elements in order are along an axis, as int32.

    valid: how many elements of each line take part, [all dimensions before the axis]; the others stay behind them
    """
    length = x.shape[at]
    key = elementwise(x, sortable, "sortable")
    few, all_ = as_expr(count), as_expr(length)
    is_short = is_const(all_) and is_const(few) and all_.value < 4 * few.value
    if valid is None and is_const(few) and few.value <= MOST_IN_TURN and not is_short:
        return _one_after_the_other(key, int(few.value), at, ascending)

    def rank(*i: Expr) -> object:
        j = te.reduce_axis((0, length), "j")
        other, own = _along(key, i, at, j.var), key(*i)
        sooner = other < own if ascending else other > own
        before = sooner | ((other == own) & (j.var < i[at]))
        if valid is not None:
            n = valid(*i[: valid.ndim]).astype("int32")
            before = te.select(i[at] < n, before & (j.var < n), j.var < i[at])
        return te.sum(before.astype("int32"), axis=j)

    ranks = te.compute(x.shape, rank, name="T_sort_ranks")

    def place(*i: Expr) -> object:
        j = te.reduce_axis((0, length), "j")
        return te.max(te.select(_along(ranks, i, at, j.var) == i[at], j.var, 0), axis=j)

    shape = [count if k == at else d for k, d in enumerate(x.shape)]
    return te.compute(tuple(shape), place, name="T_sort_places")


def _one_after_the_other(key: Tensor, count: int, at: int, ascending: bool) -> Tensor:
    """The places of the first few elements: each is searched among those that come after the one before."""

    def comes_sooner(x: tuple[Expr, Expr], y: tuple[Expr, Expr]) -> Expr:
        before = x[0] < y[0] if ascending else x[0] > y[0]
        return before | ((x[0] == y[0]) & (x[1] < y[1]))

    def sooner(x: tuple[Expr, Expr], y: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
        replaced = comes_sooner(y, x)
        return te.select(replaced, y[0], x[0]), te.select(replaced, y[1], x[1])

    last = te.max_value if ascending else te.min_value
    first = te.comm_reducer(sooner, lambda k, p: (last(k), te.max_value(p)), name="first")
    rest = [d for k, d in enumerate(key.shape) if k != at]
    found: list[Tensor] = []
    element: Tensor | None = None

    def search(*i: Expr) -> tuple[Expr, ...]:
        j = te.reduce_axis((0, key.shape[at]), "j")
        here = key(*i[:at], j.var, *i[at:]), j.var.astype("int32")
        where = None if element is None else comes_sooner((element(*i), found[-1](*i)), here)
        return first(here, axis=j, where=where)

    for n in range(count):
        element, place = te.compute(tuple(rest), search, name=f"T_topk_{n}")
        found.append(place)

    def chosen(*i: Expr) -> Expr:
        others = (*i[:at], *i[at + 1 :])
        value = found[-1](*others)
        for n in reversed(range(count - 1)):
            value = te.if_then_else(i[at] == n, found[n](*others), value)
        return value

    shape = [const(count) if k == at else d for k, d in enumerate(key.shape)]
    return te.compute(tuple(shape), chosen, name="T_sort_places")


def _taken(x: Tensor, places: Tensor, at: int, name: str) -> Tensor:
    last = x.shape[at] - 1

    def body(*i: Expr) -> object:
        return _along(x, i, at, te.max(te.min(places(*i), last), te.const(0)))

    return te.compute(places.shape, body, name=name, tag="injective")


def sort(data: Tensor, axis: int = -1, is_ascend: bool = True) -> Tensor:
    """Put the elements along an axis in order.

    >>> from autosched import te, topi
    >>> topi.sort(te.placeholder((4, 8), name="A")).shape
    (4, 8)
    """
    at = axis_of(data, axis, "topi.sort")
    return _taken(data, first_places(data, data.shape[at], at, bool(is_ascend)), at, "T_sort")


def argsort(
    data: Tensor, valid_count: Tensor | None = None, axis: int = -1, is_ascend: bool = True, dtype: object = "float32"
) -> Tensor:
    """Find where the elements in order are along an axis.

    valid_count: how many elements of each line take part; the places of the others stay
    """
    at = axis_of(data, axis, "topi.argsort")
    if valid_count is not None and valid_count.ndim > at:
        why = f"{valid_count!r} for axis {at}"
        raise UsageError(
            why, asked="topi.argsort(valid_count=..)", legal="a number for each line: the dimensions before"
        )
    return narrowed(first_places(data, data.shape[at], at, bool(is_ascend), valid_count), dtype)


def topk(
    data: Tensor, k: Dim = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: object = "int64"
) -> Any:
    """Return the `k` greatest elements along an axis, in order, and their places; with `is_ascend`, the least.

    k:        how many; all where it is less than 1
    ret_type: `values`, `indices` or `both`
    """
    at = axis_of(data, axis, "topi.topk")
    if ret_type not in ("values", "indices", "both"):
        raise UsageError(f"no ret_type {ret_type!r}", asked="topi.topk", legal="values, indices, both")
    count = data.shape[at] if isinstance(k, int) and k < 1 else as_expr(k)
    if is_const(count) and is_const(data.shape[at]) and count.value > data.shape[at].value:
        raise UsageError(f"the first {count!r} of {data.shape[at]!r}", asked="topi.topk", legal="at most all of them")
    places = first_places(data, count, at, is_ascend)
    found = {"values": _taken(data, places, at, "T_topk"), "indices": narrowed(places, dtype)}
    return list(found.values()) if ret_type == "both" else found[ret_type]


def searchsorted(sorted_sequence: Tensor, values: Tensor, right: bool = False, out_dtype: object = "int64") -> Tensor:
    """Find where values would be inserted into sorted elements: a vector, or line by line of the last dimension.

    The place is before equal elements, or with `right` behind them.
    """
    lead = sorted_sequence.ndim - 1
    if lead < 0 or (lead and (values.ndim != lead + 1 or not all(map(same, sorted_sequence.shape[:-1], values.shape)))):
        legal = "a vector, or as many dimensions as the values, equal but for the last"
        raise UsageError(f"{sorted_sequence!r} for {values!r}", asked="topi.searchsorted", legal=legal)

    def body(*i: Expr) -> object:
        j = te.reduce_axis((0, sorted_sequence.shape[-1]), "j")
        element, value = sorted_sequence(*i[:lead], j.var), values(*i)
        return te.sum((element <= value if right else element < value).astype("int32"), axis=j)

    return narrowed(te.compute(values.shape, body, name="T_searchsorted"), out_dtype)


def unique(data: Tensor, is_sorted: bool = True, return_counts: bool = False) -> list[Tensor]:
    """Return the different elements of a vector, where each is first, which of them each element is, how many there
    are, and how often each occurs if asked.

    They are in order, or in that of their first places. All but their number have the length of `data`; what lies
    behind that number is arbitrary.
    """
    if data.ndim != 1:
        raise UsageError(f"{data!r} has {data.ndim} dimensions", asked="topi.unique", legal="a vector")
    n = data.shape[0]

    def over() -> Any:
        return te.reduce_axis((0, n), "j")

    def is_new(i: Expr) -> object:
        j = over()
        return te.sum(((data(j.var) == data(i)) & (j.var < i)).astype("int32"), axis=j)

    earlier = te.compute((n,), is_new, name="T_unique_earlier")

    def first_of(i: Expr) -> object:
        j = over()
        return te.min(te.select(data(j.var) == data(i), j.var, n), axis=j)

    first = te.compute((n,), first_of, name="T_unique_first")

    def number_of(i: Expr) -> object:
        j = over()
        before = data(j.var) < data(i) if is_sorted else j.var < first(i)
        return te.sum(((earlier(j.var) == 0) & before).astype("int32"), axis=j)

    number = te.compute((n,), number_of, name="T_unique_inverse")

    def place_of(u: Expr) -> object:
        j = over()
        return te.max(te.select((number(j.var) == u) & (earlier(j.var) == 0), j.var, 0), axis=j)

    def count_new(_: Expr) -> object:
        j = over()
        return te.sum((earlier(j.var) == 0).astype("int32"), axis=j)

    def count(u: Expr) -> object:
        j = over()
        return te.sum((number(j.var) == u).astype("int32"), axis=j)

    places = te.compute((n,), place_of, name="T_unique_places")
    found = [_taken(data, places, 0, "T_unique"), places, number, te.compute((1,), count_new, name="T_unique_number")]
    return [*found, te.compute((n,), count, name="T_unique_counts")] if return_counts else found


def argwhere(output_shape: Any, condition: Tensor) -> Tensor:
    """Find the places of the elements that are true, or not zero: one row of indices for each, in row-major order.

    output_shape: [number of rows, dimensions], or a tensor of that shape. Rows behind the last element are -1
    """
    total = product(condition.shape)
    flat = reshape(condition, [total]) if condition.ndim != 1 else condition
    rows, shape = (output_shape.shape if isinstance(output_shape, Tensor) else output_shape)[0], condition.shape

    def flag(i: Expr) -> Expr:
        e = flat(i)
        return (e if e.dtype.is_bool else e != 0).astype("int32")

    counts = cumsum(te.compute((total,), flag, name="T_argwhere_flags", tag="injective"))
    k = te.reduce_axis((0, total), "k")
    places = te.scatter_reduce(
        (rows,), lambda: (te.select(flag(k.var) > 0, counts(k.var) - 1, te.const(-1)), k.var), k, "max", "T_argwhere"
    )

    def body(r: Expr, d: Expr) -> object:
        index = unravel(te.max(places(r), te.const(0)), shape) or [te.const(0)]
        found = index[-1]
        for n in reversed(range(len(index) - 1)):
            found = te.select(d == n, index[n], found)
        return te.select(places(r) >= 0, found, te.const(-1))

    return te.compute((rows, max(condition.ndim, 1)), body, name="argwhere", tag="injective")
