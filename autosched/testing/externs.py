"""Opaque stages of random programs: a `te.extern` of one output, or of two that are unlike.

    made = opaque(maker)        # a kind of stage, like those of `kinds`
    know_references([made])     # after `graph_from_json`, which keeps no Python functions

Statements go over the rows of a tensor, which is where the loops that may run at the same time are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched import te
from autosched.ir.builder import BufferVar, IRBuilder, create
from autosched.ir.dtype import is_float
from autosched.ir.expr import Expr, const
from autosched.te.extern import ExternOp
from autosched.te.tensor import Graph, Tensor
from autosched.testing.maker import Maker, clamp

#: A function of the builder, inputs, outputs, place of the row, its length, and the kind of the loop over it.
Row = Callable[[IRBuilder, Sequence[BufferVar], Sequence[BufferVar], list[Expr], Expr, str], None]


@dataclass(frozen=True)
class _Statement:
    """`widths` and `types` are those of the outputs' rows; None is that of the input."""

    row: Row
    reference: Callable[..., Any]
    widths: tuple[int | None, ...] = (None,)
    types: tuple[str | None, ...] = (None,)
    inputs: int = 1


def _running(ib: IRBuilder, ins: Any, outs: Any, at: list[Expr], width: Expr, kind: str) -> None:
    total = ib.allocate(ins[0].dtype, 1, name="total", scope="local")
    total[0] = const(0, ins[0].dtype)
    with ib.for_range(0, width, name="j") as j:
        with ib.if_scope(ib.likely(ins[0][*at, j] > 1)):
            total[0] = total[0] + ins[0][*at, j]
        with ib.else_scope():
            total[0] = const(0, ins[0].dtype)
        outs[0][*at, j] = total[0]


def _running_reference(x: np.ndarray) -> np.ndarray:
    result, total = np.zeros_like(x), np.zeros(x.shape[:-1], x.dtype)
    for j in range(x.shape[-1]):
        total = np.where(x[..., j] > 1, total + x[..., j], 0).astype(x.dtype)
        result[..., j] = total
    return result


def _ends(ib: IRBuilder, ins: Any, outs: Any, at: list[Expr], width: Expr, kind: str) -> None:
    """The number of positive elements; the first of these, and the last element."""
    outs[0][*at, 0] = const(0, "int64")
    with ib.for_range(0, width, name="j") as j, ib.if_scope(ins[0][*at, j] > 0):
        outs[0][*at, 0] = outs[0][*at, 0] + const(1, "int64")
    place = ib.allocate("int32", 1, name="place", scope="local")
    place[0] = const(0)
    with ib.while_loop(te.all(place[0] < width - 1, ins[0][*at, place[0]] <= 0)):
        place[0] = place[0] + 1
    outs[1][*at, 0] = ins[0][*at, place[0]]
    outs[1][*at, 1] = ins[0][*at, width - 1]


def _ends_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    stops = ~(x <= 0)  # also at NaN
    place = np.where(stops.any(-1), stops.argmax(-1), x.shape[-1] - 1)
    first = np.take_along_axis(x, place[..., None], -1)
    return (x > 0).sum(-1, keepdims=True), np.concatenate([first, x[..., -1:]], -1)


def _converted(x: np.ndarray, to: str) -> np.ndarray:
    """Convert as the language does: integers wrap, floats saturate, NaN is 0."""
    if not is_float(x.dtype):
        return x.astype(to)
    limits = np.iinfo(to)
    return np.clip(np.nan_to_num(x.astype("float64")), limits.min, limits.max).astype(to)


def _paired(ib: IRBuilder, ins: Any, outs: Any, at: list[Expr], width: Expr, kind: str) -> None:
    with ib.for_range(0, width, name="j", kind=kind) as j:
        x, y = ins[0][*at, j], ins[1][*at, width - 1 - j]
        outs[0][*at, j] = x * const(2, x.dtype) - y
        outs[1][*at, j] = te.select(x < y, const(-1, "int16"), x.astype("int16"))


def _paired_reference(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y = y[..., ::-1]
    return x * x.dtype.type(2) - y, np.where(x < y, np.int16(-1), _converted(x, "int16"))


def _counted(ib: IRBuilder, ins: Any, outs: Any, at: list[Expr], width: Expr, kind: str) -> None:
    with ib.for_range(0, 5, name="b", kind=kind) as b:
        outs[0][*at, b] = const(0, "int32")
    with ib.for_range(0, width, name="j") as j:
        place = ib.let("place", clamp(ins[0][*at, j].astype("int32"), const(5)))
        outs[0][*at, place] = outs[0][*at, place] + 1


def _counted_reference(x: np.ndarray) -> np.ndarray:
    place = np.clip(_converted(x, "int32"), 0, 4)
    return np.stack([(place == b).sum(-1) for b in range(5)], -1)


_STATEMENTS = {
    "running": _Statement(_running, _running_reference),
    "ends": _Statement(_ends, _ends_reference, (1, 2), ("int64", None)),
    "paired": _Statement(_paired, _paired_reference, (None, None), (None, "int16"), 2),
    "counted": _Statement(_counted, _counted_reference, (5,), ("int32",)),
}


def opaque(m: Maker) -> Tensor | None:
    """A statement on each row, with one output or two of unlike shapes and types."""
    a = m.pick()
    name = m.rng.choice(tuple(_STATEMENTS))
    how = _STATEMENTS[name]
    width, rows = a.shape[-1], list(a.shape[:-1])
    if a.dtype.is_bool or (a.dtype.is_float and m.bound[a] > 64) or not all(m.lengths(a.shape)):
        return None
    like = [t for t in [*m.inputs, *m.stages] if t.shape == a.shape and t.dtype == a.dtype and m.bound[t] <= 64]
    ins = [a, *(m.rng.choice([a, *like]) for _ in range(how.inputs - 1))]
    shapes = [(*rows, width if w is None else w) for w in how.widths]
    types = [t or str(a.dtype) for t in how.types]
    first = m.rng.choice(("serial", "blockIdx.x" if m.gpu else "parallel"))
    kind = m.rng.choice(("serial", "vectorize", "unroll")) if width.op == "const" and width.value <= 16 else "serial"

    def statement(given: list[Any], made: list[Any]) -> Any:
        ib = create()
        with ExitStack() as scopes:
            at: list[Expr] = []
            for d, length in enumerate(rows):
                if d == 0 and first == "blockIdx.x":
                    thread = te.thread_axis(first)
                    scopes.enter_context(ib.scope_attr(thread, "thread_extent", length))
                    at.append(thread.var)
                else:
                    loop = ib.for_range(0, length, name=f"i{d}", kind="serial" if d else first)
                    at.append(scopes.enter_context(loop))
            how.row(ib, [ib.buffer_ptr(b) for b in given], [ib.buffer_ptr(b) for b in made], at, width, kind)
        return ib.get()

    if not all(map(m.fits, shapes)):
        return None
    found = te.extern(shapes, ins, statement, name=f"t{len(m.stages)}", dtype=types, attrs={"reference": name})
    outputs = found if isinstance(found, list) else [found]
    know_references(outputs)
    for t in m.rng.sample(outputs, len(outputs)):
        m.stages.append(t)
        m.bound[t] = 4.0 * m.lengths(a.shape)[-1] * m.size_of(a)
    return m.stages[-1]


def know_references(args: Sequence[Tensor]) -> None:
    """Give each opaque operation of random programs its NumPy function again."""
    for op in Graph.of(args).ops:
        if isinstance(op, ExternOp) and op.attrs.get("reference") in _STATEMENTS:
            op.reference = _STATEMENTS[op.attrs["reference"]].reference
