"""Updates at places that values tell. A place outside is written nowhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir import expr as ir
from autosched.ir.buffers import row_major_offset
from autosched.ir.expr import Expr, is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import Dim, accumulator, axis_of, number, unravel
from autosched.topi.transform import _injective

#: how updates meet what is there -> combiner of te.scatter_reduce, and the function of one update
COMBINE: dict[str, tuple[str, Callable[[Expr, Expr], Expr]]] = {
    "add": ("sum", lambda a, b: a + b),
    "mul": ("prod", lambda a, b: a * b),
    "max": ("max", lambda a, b: te.max(a, b)),
    "min": ("min", lambda a, b: te.min(a, b)),
}


def from_end(e: Expr, extent: Expr) -> Expr:
    """A place of which negative ones count from the end."""
    e = e.astype("int32") if e.dtype.bits < 32 else e
    return e if e.dtype.kind == "uint" else te.select(e < 0, e + extent, e)


def scattered(
    x: Tensor,
    updates: Tensor,
    outer: int,
    place: Callable[[Sequence[Expr]], Sequence[Expr]],
    how: str,
    known: Callable[[Tensor], Tensor] = lambda t: t,
) -> Tensor:
    """Return a tensor with updates at places in its first dimensions, which the first `outer` dimensions of updates
    choose.

    how:   `update`, where the last update of a place wins, or a key of COMBINE
    known: asked for the table of last updates, which may be computed by now
    """
    if any(is_const(d, 0) for d in (*x.shape, *updates.shape)):
        return x
    shape = updates.shape[:outer] if how == "update" else updates.shape
    over = [te.reduce_axis((0, d), f"k{k}") for k, d in enumerate(shape)] or [te.reduce_axis((0, 1), "k")]
    at = [a.var for a in over][: len(shape)]
    where = tuple(place(at[:outer]))
    if how == "update":
        depth = len(where)
        last = known(
            te.scatter_reduce(
                x.shape[:depth], lambda: (where, row_major_offset(at, shape)), over, "max", name="T_scatter_last"
            )
        )

        def chosen(*i: Expr) -> object:
            w = last(*i[:depth])
            return te.if_then_else(w >= 0, updates(*unravel(w, shape), *i[depth:]), x(*i))

        return _injective(x.shape, chosen, "scatter")
    combiner, combine = COMBINE[how]
    wide = accumulator(x.dtype)
    total = te.scatter_reduce(
        x.shape, lambda: ((*where, *at[outer:]), updates(*at).astype(wide)), over, combiner, name="T_scatter_of"
    )
    return _injective(x.shape, lambda *i: ir.cast(x.dtype, combine(x(*i).astype(wide), total(*i))), "scatter")


def _checked_mode(mode: str, asked: str) -> str:
    if mode != "update" and mode not in COMBINE:
        raise UsageError(f"no mode {mode!r}", asked=asked, legal=f"update, {', '.join(COMBINE)}")
    return mode


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """Compute `out[indices[0, y...], ..., indices[M-1, y...], x...] = updates[y..., x...]`, the rest as in `data`.

    mode: `update`, or how updates and elements meet: `add`, `mul`, `min`, `max`
    """
    asked = "topi.scatter_nd"
    depth = number(indices.shape[0], asked)
    if depth > data.ndim or updates.ndim != indices.ndim - 1 + data.ndim - depth:
        why = f"{depth} indices and {updates!r} for {data!r}"
        raise UsageError(why, asked=asked, legal="updates of the indices' dimensions and those that are left")

    def place(p: Sequence[Expr]) -> Sequence[Expr]:
        return [from_end(indices(m, *p), data.shape[m]) for m in range(depth)]

    return scattered(data, updates, indices.ndim - 1, place, _checked_mode(mode, asked))


def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, reduction: str = "update"
) -> Tensor:
    """Compute `out[i, indices[i, j, k], k] = updates[i, j, k]`, for axis 1; the rest as in `data`."""
    asked = "topi.scatter_elements"
    at = axis_of(data, axis, asked)
    if not data.ndim == indices.ndim == updates.ndim:
        raise UsageError(f"{data!r}, {indices!r}, {updates!r}", asked=asked, legal="as many dimensions each")

    def place(p: Sequence[Expr]) -> Sequence[Expr]:
        return [*p[:at], from_end(indices(*p), data.shape[at]), *p[at + 1 :]]

    return scattered(data, updates, data.ndim, place, _checked_mode(reduction, asked))


def sparse_to_dense(
    sparse_indices: Tensor, output_shape: Sequence[Dim], sparse_values: Tensor, default_value: Any = 0
) -> Tensor:
    """Put values at places (one, a list of them, or rows of indices) into a tensor of `default_value`."""
    count = len(output_shape)
    rows = sparse_indices.ndim
    over = [te.reduce_axis((0, sparse_indices.shape[0] if rows else 1), "k")]
    k = over[0].var

    def place(m: int) -> Expr:
        return sparse_indices(*([k, m] if rows == 2 else [k] if rows else []))

    last = te.scatter_reduce(
        tuple(output_shape), lambda: (tuple(place(m) for m in range(count)), k), over, "max", name="T_sparse_last"
    )
    default = default_value() if isinstance(default_value, Tensor) else te.const(default_value, sparse_values.dtype)

    def body(*i: Expr) -> object:
        value = sparse_values(last(*i)) if sparse_values.ndim else sparse_values()
        return te.if_then_else(last(*i) >= 0, value, default)

    return _injective(output_shape, body, "sparse_to_dense")
