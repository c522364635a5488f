"""The oracle: any op graph evaluated with NumPy, straight from the definition; sums of products by `te.contraction`."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from itertools import product
from math import prod
from typing import Any

import numpy as np

from autosched.errors import ArgumentError, ArgumentTypeError, BuildError, expect, is_list_of, out_of_bounds
from autosched.ir.dims import solved
from autosched.ir.dtype import DType, unmasked
from autosched.ir.expr import OPS, Expr, is_index, variables
from autosched.ir.functions import get_global_func, numpy_of, returned_number
from autosched.ir.ops import as_type, evaluated
from autosched.te.contraction import contraction
from autosched.te.extern import ExternOp
from autosched.te.reducers import takes_any_order
from autosched.te.reduction import Combiner, Reduction
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, Graph, PlaceholderOp, Tensor

Environment = dict[Expr, Any]
#: What is known of each tensor: its elements, or how to compute those at some indices
Values = dict[Tensor, Any]
UFUNCS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
#: So many points of a scatter are evaluated at once.
LONG_SCATTER = 2**18
#: Reductions of so many terms are done by `numpy.einsum` where they are sums of products, and else many at once: the
#: terms of so many points, at most.
LONG, AT_ONCE = 32, 2**20
#: draws the direction in which floats are rounded, while `spread` evaluates
_DICE: ContextVar[np.random.Generator | None] = ContextVar("_DICE", default=None)
#: of the elements of an output, those that `spread` leaves out: where a leap happens to few of them
_BEYOND = 99


def spread(
    args: Sequence[Tensor], inputs: Sequence[Any], expected: Sequence[Any], sizes: dict[str, int] | None = None
) -> list[float]:
    """How far the last bits of intermediate floats move each output: 0 for those that are no floats.

    The program is evaluated with each inexact operation rounded to either of the two nearest floats, by chance (the
    random rounding of Vignes' CESTAC method); the 99th percentile of the differences from `expected`, which are the
    values of `reference`, is returned. An index, a comparison or a cast that few elements hang on does not count.
    """
    token = _DICE.set(np.random.default_rng(0))
    try:
        found = reference(args, inputs, sizes)
    finally:
        _DICE.reset(token)
    return [_moved(a, b) for a, b in zip(found, expected, strict=True)]


def _moved(a: np.ndarray, b: np.ndarray) -> float:
    if a.dtype.kind != "f" or not a.size:
        return 0.0
    apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    apart = apart[np.isfinite(apart)]
    return float(np.percentile(apart, _BEYOND)) if apart.size else 0.0


def reference(args: Sequence[Tensor], inputs: Sequence[Any], sizes: dict[str, int] | None = None) -> list[np.ndarray]:
    """The values of the computed tensors in `args`, in order, for the given inputs.

    `inputs` are arrays for the placeholders in `args`, in order, of their shapes and dtypes;
    symbolic sizes are read off them, or from `sizes` where no input has them. Raises BuildError
    when shapes or dtypes do not fit.

    >>> import numpy as np
    >>> from autosched import te
    >>> n = te.var("n")
    >>> A = te.placeholder((n,), "int32", name="A")
    >>> B = te.compute((n,), lambda i: A[i] * 2, name="B")
    >>> te.reference([A, B], [np.arange(3, dtype="int32")])
    [array([0, 2, 4], dtype=int32)]
    """
    expect(args, "a list of tensors", is_list_of(args, Tensor), "reference(args, ..)")
    expect(inputs, "a list of arrays", isinstance(inputs, (list, tuple)), "reference(.., inputs)")
    expect(sizes, "a dictionary of sizes", sizes is None or isinstance(sizes, dict), "reference(.., sizes=..)")
    placeholders = [t for t in args if isinstance(t.op, PlaceholderOp)]
    if len(placeholders) != len(inputs):
        raise ArgumentTypeError(
            f"{len(placeholders)} inputs needed, {len(inputs)} given",
            asked="reference",
            legal=f"an array for each of {', '.join(t.name for t in placeholders) or 'none'}",
        )
    graph = Graph.of(args)
    states = graph.states
    for op in graph.ops:
        if isinstance(op, PlaceholderOp) and op.output_tensor not in placeholders and op.output_tensor not in states:
            raise ArgumentError(f"{op.name} is read and is not among the arguments", asked="reference")
    values: Values = {
        t: np.asarray(unmasked(given, f"reference, {t.name}")) for t, given in zip(placeholders, inputs, strict=True)
    }
    env = _sizes(graph, values, sizes or {})
    parts = {part for op in graph.ops if isinstance(op, ScanOp) for part in (*op.steps, *(t.op for t in op.init))}
    for t in args:
        if t.op in parts:
            why = f"{t.name} is computed inside a scan, one step after the other"
            raise ArgumentError(why, asked="reference", legal="the scan's own tensors, and what is outside it")
    with np.errstate(all="ignore"):
        for op in graph.ops:
            if isinstance(op, ScanOp):
                values.update(zip(op.outputs, _scan(op, env, values), strict=True))
            elif isinstance(op, ExternOp):
                values.update(zip(op.outputs, _extern(op, env, values), strict=True))
            elif isinstance(op, ComputeOp) and op not in parts:
                values.update(zip(op.outputs, _compute(op, env, values), strict=True))
    return [values[t] for t in args if not isinstance(t.op, PlaceholderOp)]


def _sizes(graph: Graph, inputs: dict[Tensor, np.ndarray], given: dict[str, int]) -> Environment:
    """The size variables, given or read off the inputs; every input's dtype and shape is checked."""
    env: Environment = {v: np.int64(given[v.name]) for v in _mentioned(graph) if v.name in given}
    lengths: list[tuple[Tensor, Expr, int]] = []
    for tensor, array in inputs.items():
        asked = f"input {tensor.name}"
        if array.dtype != tensor.dtype.numpy:
            raise ArgumentTypeError(f"dtype is {array.dtype}, not {tensor.dtype}", asked=asked, legal=f"{tensor!r}")
        if array.ndim != tensor.ndim:
            raise ArgumentError(f"{array.ndim} dimensions, not {tensor.ndim}", asked=asked)
        lengths += [(tensor, dimension, n) for dimension, n in zip(tensor.shape, array.shape, strict=True)]
    for tensor, dimension, n in lengths:
        if dimension.op == "var" and env.setdefault(dimension, np.int64(n)) != n:
            why = f"{dimension.name} is {n} here and {env[dimension]} elsewhere"
            raise ArgumentError(why, asked=f"input {tensor.name}")
    for _, dimension, n in lengths:
        found = solved(dimension, n) if dimension.op not in ("var", "const") else None
        if found is not None:
            env.setdefault(next(v for v in variables(dimension) if v.name == found[0]), np.int64(found[1]))
    for tensor, dimension, n in lengths:
        if variables(dimension) <= env.keys() and int(_evaluate(dimension, env, {})) != n:
            why = f"shape is {inputs[tensor].shape}, not {list(tensor.shape)}"
            raise ArgumentError(why, asked=f"input {tensor.name}", legal=f"{tensor!r}")
    return env


def _mentioned(graph: Graph) -> frozenset[Expr]:
    """Every variable of the graph that stands for a size."""
    exprs = [d for op in graph.ops for d in op.shape]
    for op in graph.ops:
        if isinstance(op, ComputeOp):
            exprs += [*op.body, *(e for a in op.reduce_axis for e in (a.min, a.extent))]
    return frozenset(v for e in exprs for v in variables(e) if v.value.role == "size")


def _shape(tensor: Tensor, env: Environment) -> tuple[int, ...]:
    shape = tuple(int(_evaluate(d, env, {})) for d in tensor.shape)
    if any(length < 0 for length in shape):
        raise ArgumentError(f"its shape is {shape}", asked=f"reference of {tensor.name}", legal="lengths of 0 or more")
    return shape


def _compute(op: ComputeOp, env: Environment, values: Values) -> list[np.ndarray]:
    """The elements of every output."""
    shape = _shape(op.output_tensor, env)
    local = dict(env)
    for position, (axis, length) in enumerate(zip(op.axis, shape, strict=True)):
        grid = np.arange(length, dtype=np.int64) + int(_evaluate(axis.min, env, values))
        local[axis.var] = grid.reshape([-1 if p == position else 1 for p in range(len(shape))])
    if op.body[0].op == "scatter":
        return [_scatter(op, shape, local, values)]
    evaluate = _reduce if op.body[0].op == "reduce" else _elements
    made: list[np.ndarray] = []
    for t, found in zip(op.outputs, evaluate(op, shape, local, values), strict=True):
        array = np.asarray(found).astype(t.dtype.numpy, copy=False)
        made.append(_own(array, shape, [*values.values(), *made]))
    return made


def _own(array: np.ndarray, shape: tuple[int, ...], others: Sequence[Any]) -> np.ndarray:
    """It in this shape, and in memory that is none of the others': a copy, unless it was made just now."""
    is_whole = array.base is None and array.shape == shape and array.flags.c_contiguous and array.flags.writeable
    if is_whole and not any(array is other for other in others):
        return array
    return np.array(np.broadcast_to(array, shape), order="C")


def _scan(op: ScanOp, env: Environment, values: Values) -> list[np.ndarray]:
    """One time after the other: the elements that a step reads are computed where it reads them."""
    results = [np.zeros(_shape(t, env), t.dtype.numpy) for t in op.outputs]
    known = {**values, **dict(zip(op.state_placeholder, results, strict=True))}
    made: dict[object, list[Any]] = {}
    for step in (*op.steps, *(t.op for t in op.init)):
        known.update({t: _OnDemand(t, env, known, made) for t in step.outputs})
    length = results[0].shape[0]
    begin = int(_evaluate(op.init[0].shape[0], env, {}))
    for time in range(length):
        for result, part in zip(results, op.init if time < begin else op.update, strict=True):
            first, *others = np.indices((1, *result.shape[1:]), dtype=np.int64, sparse=True)
            if result[time].size:
                result[time] = known[part]([first + time, *others])[0]
                made.clear()
    return results


def _extern(op: ExternOp, env: Environment, values: Values) -> list[np.ndarray]:
    """The outputs, from its NumPy function or from the Python function that it calls."""
    inputs = [values[t] for t in op.inputs]
    results = [np.zeros(_shape(t, env), t.dtype.numpy) for t in op.outputs]
    call = op.single_call
    if op.reference is not None:
        given = op.reference(*inputs)
        for result, value in zip(results, given if isinstance(given, (tuple, list)) else (given,), strict=True):
            result[...] = value
    elif call is not None:
        memory = dict(zip((*op.in_buffers, *op.out_buffers), (*inputs, *results), strict=True))
        given = [memory[a.value] if a.op == "view" else _evaluate(a, env, values) for a in call.args]
        get_global_func(call.value.name)(*given)
    else:
        raise BuildError(
            "its statement is no expression that NumPy could evaluate",
            asked=f"reference of extern {op.name}",
            legal="te.extern(..., reference=f), where f takes the inputs' arrays and returns the output",
        )
    return results


class _OnDemand:
    """A tensor that exists only while a step of a scan runs: its elements at the indices asked for, `made` once."""

    def __init__(self, tensor: Tensor, env: Environment, values: Values, made: dict[object, list[Any]]) -> None:
        self.tensor, self.env, self.values, self.made = tensor, env, values, made

    def __call__(self, indices: list[Any], where: np.ndarray | None = None) -> np.ndarray:
        op: Any = self.tensor.op
        grids = _checked(indices, _shape(self.tensor, self.env), where, self.tensor.name)
        shape = np.broadcast_shapes(*(np.shape(g) for g in grids))
        local = {**self.env, **{a.var: np.asarray(g) for a, g in zip(op.axis, grids, strict=True)}}
        evaluate = _point_by_point if op.body[0].op == "reduce" else _elements
        key = (op, *((np.shape(x), np.asarray(x).tobytes()) for x in (*grids, True if where is None else where)))
        if key not in self.made:
            if len(self.made) * prod(shape) > AT_ONCE:
                self.made.clear()
            self.made[key] = evaluate(op, shape, local, self.values, where)
        result = np.asarray(self.made[key][self.tensor.value_index])
        return np.broadcast_to(result.astype(self.tensor.dtype.numpy, copy=False), shape)


def _elements(
    op: ComputeOp, shape: tuple[int, ...], env: Environment, values: Values, where: np.ndarray | None = None
) -> list[Any]:
    return [_evaluate(e, env, values, where) if 0 not in shape else np.zeros(shape) for e in op.body]


def _reduce(op: ComputeOp, shape: tuple[int, ...], env: Environment, values: Values) -> list[np.ndarray]:
    body = op.body[0]
    spans = _spans(body, env, values)
    if prod(map(len, spans)) >= LONG:
        starts = [int(_evaluate(a.min, env, values)) for a in op.axis]
        grid = {a.var: range(m, m + n) for a, m, n in zip(op.axis, starts, shape, strict=True)}
        grid.update({a.var: span for a, span in zip(op.reduce_axis, spans, strict=True)})
        found = contraction(body, op.axis, grid, env, values, _evaluate)
        if found is not None:
            return [as_type(found, op.dtype)]
        if takes_any_order(body.value.combiner) and 0 < prod(shape) * LONG <= AT_ONCE:
            return _block_by_block(op, shape, spans, env, values)
    return _point_by_point(op, shape, env, values)


def _block_by_block(
    op: ComputeOp, shape: tuple[int, ...], spans: list[range], env: Environment, values: Values
) -> list[np.ndarray]:
    """A reduction with a combiner that takes any order: many of its points at once, neighbours combined until one is
    left."""
    reduction: Reduction = op.body[0].value
    combiner, (sources, condition, inits) = reduction.combiner, reduction.parts(op.body[0].args)
    types = [e.dtype for e in sources]
    wide = _accumulators(reduction, types)
    nothing = _terms(reduction.identity(types), wide, env, values)
    totals = [np.broadcast_to(b, shape) for b in _terms(inits, wide, env, values) or nothing]
    whole, most = len(spans), max(1, AT_ONCE // max(1, prod(shape)))
    while whole > 1 and prod(map(len, spans[whole - 1 :])) <= most:
        whole -= 1
    at, inner = whole - 1, spans[whole:]  # axis `at` is cut, those behind it are taken whole
    length = max(1, most // prod(map(len, inner)))
    pieces = [spans[at][i : i + length] for i in range(0, len(spans[at]), length)]
    grids = {a.var: env[a.var].reshape(*env[a.var].shape, *[1] * (len(spans) - at)) for a in op.axis}
    for outer, piece in product(product(*spans[:at]), pieces):
        points: list[Sequence[int]] = [*([n] for n in outer), piece, *inner]
        grid = (*shape, *map(len, points[at:]))
        local = {**env, **grids}
        for i, (a, along) in enumerate(zip(reduction.axes, points, strict=True)):
            places = np.array(along, np.int64)
            local[a.var] = places[0] if i < at else places.reshape(-1, *[1] * (len(spans) - 1 - i))
        takes_part = np.broadcast_to(_evaluate(condition, local, values), grid)
        terms = _terms(sources, wide, local, values, takes_part)
        terms = [np.where(takes_part, t, n).reshape(*shape, -1) for t, n in zip(terms, nothing, strict=True)]
        while (left := terms[0].shape[-1]) > 1:
            rest = [t[..., left // 2 * 2 :] for t in terms]
            pairs = [[t[..., begin : left // 2 * 2 : 2] for t in terms] for begin in (0, 1)]
            terms = [np.concatenate(x, axis=-1) for x in zip(_combined(combiner, *pairs), rest, strict=True)]
        totals = _combined(combiner, totals, [t[..., 0] for t in terms])
    return [as_type(np.asarray(total), t) for total, t in zip(totals, types, strict=True)]


def _terms(
    exprs: Sequence[Expr], types: Sequence[np.dtype], env: Environment, values: Values, where: np.ndarray | None = None
) -> list[Any]:
    return [np.asarray(_evaluate(e, env, values, where)).astype(t) for e, t in zip(exprs, types, strict=bool(exprs))]


def _accumulators(reduction: Reduction, types: Sequence[DType]) -> list[np.dtype]:
    """Sums of float16 lose whole terms: they are wider, and rounded once; what a custom combiner does is its own."""
    is_wide = not isinstance(reduction.combiner, Combiner)
    return [np.dtype("float64") if is_wide and t.is_float else t.numpy for t in types]


def _scatter(op: ComputeOp, shape: tuple[int, ...], env: Environment, values: Values) -> np.ndarray:
    """`numpy.add.at` and its like, over some of the points at a time."""
    (body,) = op.body
    value, condition, *place = body.args
    reduction: Reduction = body.value
    leading = len(shape) - len(place)
    wide = np.dtype("float64") if op.dtype.is_float else op.dtype.numpy
    total = np.full(shape, reduction.identity([op.dtype])[0].value, dtype=wide)
    spans = _spans(body, env, values)
    if 0 in shape or not all(map(len, spans)):
        return as_type(total, op.dtype)
    points = [np.arange(shape[d], dtype=np.int64) for d in range(leading)] + [np.array(s) for s in spans]
    lengths = [len(p) for p in points]
    most = max(1, LONG_SCATTER // max(1, prod(lengths) // len(spans[0])))
    for begin in range(0, len(spans[0]), most):
        now = [*points[:leading], points[leading][begin : begin + most], *points[leading + 1 :]]
        grid = tuple(len(p) for p in now)
        grids = np.meshgrid(*now, indexing="ij", sparse=True)
        local = {**env, **{a.var: g for a, g in zip((*op.axis[:leading], *reduction.axes), grids, strict=True)}}
        taken = np.broadcast_to(_evaluate(condition, local, values), grid)
        at = [np.broadcast_to(_evaluate(i, local, values, taken), grid) for i in place]
        for i, length in zip(at, shape[leading:], strict=True):
            taken = taken & (i >= 0) & (i < length)
        terms = np.broadcast_to(np.asarray(_evaluate(value, local, values, taken)).astype(wide), grid)[taken]
        where = [np.broadcast_to(g, grid) for g in grids[:leading]] + [i.astype(np.int64) for i in at]
        UFUNCS[reduction.name].at(total, tuple(w[taken] for w in where), terms)
    return as_type(total, op.dtype)


def _spans(body: Expr, env: Environment, values: Values) -> list[range]:
    """The ranges of the reduce axes."""
    spans = []
    for axis in body.value.axes:
        start, length = (int(_evaluate(e, env, values)) for e in (axis.min, axis.extent))
        spans.append(range(start, start + max(length, 0)))
    return spans


def _point_by_point(
    op: ComputeOp, shape: tuple[int, ...], env: Environment, values: Values, where: np.ndarray | None = None
) -> list[np.ndarray]:
    body = op.body[0]
    reduction: Reduction = body.value
    sources, condition, inits = reduction.parts(body.args)
    types = [e.dtype for e in sources]
    wide = _accumulators(reduction, types)
    if 0 in shape:
        return [np.zeros(shape, t.numpy) for t in types]
    begin = _terms(inits or reduction.identity(types), wide, env, values, where)
    totals = [np.array(np.broadcast_to(b, shape)) for b in begin]
    for point in product(*_spans(body, env, values)):
        local = dict(env)
        local.update({a.var: np.int64(v) for a, v in zip(reduction.axes, point, strict=True)})
        takes_part = np.broadcast_to(_evaluate(condition, local, values, where), shape)
        if where is not None:
            takes_part = takes_part & where
        if not takes_part.any():
            continue
        terms = _terms(sources, wide, local, values, takes_part)
        combined = _combined(reduction.combiner, totals, terms)
        if not takes_part.all():
            combined = [np.where(takes_part, new, old) for new, old in zip(combined, totals, strict=True)]
        totals = combined
    return [as_type(total, t) for total, t in zip(totals, types, strict=True)]


def _combined(combiner: str | Combiner, totals: list[Any], terms: list[Any]) -> list[Any]:
    if isinstance(combiner, str):
        return [UFUNCS[combiner](totals[0], terms[0])]
    done: dict[Expr, Any] = dict(zip((*combiner.left, *combiner.right), (*totals, *terms), strict=True))

    def value(e: Expr) -> Any:
        """Of values alone: unlike in `_evaluate`, no part of it is index arithmetic."""
        if e not in done:
            args = [value(a) for a in e.args]
            done[e] = e.dtype.numpy.type(e.value) if e.op == "const" else _apply(e, args, index=False)
        return done[e]

    return [value(e) for e in combiner.result]


def _needed_by_both(e: Expr) -> list[Expr]:
    """What an `if_then_else` needs whichever side it takes, arguments first."""
    sides = []
    for side in e.args[1:]:
        seen, waiting = set[Expr](), [side]
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += node.args[:1] if node.op == "if_then_else" else node.args
        sides.append(seen)
    return sorted((node for node in sides[0] & sides[1] if node.args), key=lambda node: node.depth)


def _evaluate(root: Expr, env: Environment, values: Values, where: np.ndarray | None = None) -> Any:
    """`root` as NumPy arrays that broadcast over the index grids.

    `where` says at which points the value is needed: below an `if_then_else`, a read outside its
    tensor at any other point does not count.
    """
    done: dict[tuple[Expr, int], Any] = {}
    within: dict[int, np.ndarray | None] = {}  # mask -> the one that it is a part of
    masks: list[np.ndarray] = []  # keeps the ids in `done` from being reused

    def found(e: Expr, where: np.ndarray | None) -> Any:
        """The value of `e`, where it is known for these points or for more."""
        if e in env:
            return env[e]
        while (e, id(where)) not in done and id(where) in within:
            where = within[id(where)]
        return done.get((e, id(where)))

    def go(root: Expr, where: np.ndarray | None) -> Any:
        """Arguments first, without recursion: a sum of hundreds of terms is that many levels deep."""
        waiting = [root]
        while waiting:
            e = waiting[-1]
            needed = e.args[:1] if e.op == "if_then_else" else e.args
            known = found(e, where) is not None
            missing = [] if known else [a for a in needed if found(a, where) is None]
            if missing:
                waiting.extend(missing)
                continue
            waiting.pop()
            if not known:
                done[e, id(where)] = value_of(e, where)
        return found(root, where)

    def value_of(e: Expr, where: np.ndarray | None) -> Any:
        if e.op == "const":
            return np.int64(e.value) if is_index(e) and not e.dtype.is_bool else e.dtype.numpy.type(e.value)
        if e.op == "var":
            legal = f"no input has it as a dimension: give it as sizes={{{e.name!r}: ...}}"
            raise BuildError(f"the value of {e.name} is not known", asked="reference", legal=legal)
        if e.op == "if_then_else":
            for shared in _needed_by_both(e):
                go(shared, where)
            condition = np.asarray(found(e.args[0], where))
            sides = []
            for side, mask in zip(e.args[1:], (condition, ~condition), strict=True):
                taken = mask if where is None else mask & where
                masks.append(taken)
                within[id(taken)] = where
                sides.append(_typed(side, go(side, taken), e))
            return np.where(condition, *sides)
        args = [found(a, where) for a in e.args]
        if e.op == "read":
            source = values[e.value]
            return source(args, where) if callable(source) else _gather(source, args, where, e.value.name)
        return _apply(e, [_typed(a, v, e) for a, v in zip(e.args, args, strict=True)], is_index(e))

    return go(root, where)


def _gather(source: np.ndarray, indices: list[Any], where: np.ndarray | None, name: str) -> Any:
    if where is not None and not np.any(where):
        return np.zeros(np.broadcast_shapes(*(np.shape(x) for x in (*indices, where))), source.dtype)
    found = _along_axes(source, [np.asarray(i) for i in indices], where)
    if found is not None:
        return found
    grids = _checked(indices, source.shape, where, name)
    return source[tuple(np.asarray(g, dtype=np.intp) for g in grids)]


def _along_axes(source: np.ndarray, indices: list[np.ndarray], where: np.ndarray | None) -> np.ndarray | None:
    """The same where each index runs along a dimension of its own or stands still: a view, or axis by axis.

    None where one does not, or lies outside where it counts.
    """
    width = max((i.ndim for i in indices), default=0)
    lines: list[np.ndarray] = []
    at: list[int] = []
    for index, length in zip(indices, source.shape, strict=True):
        moving = [d - index.ndim + width for d, n in enumerate(index.shape) if n != 1]
        if not index.size or len(moving) > 1 or set(moving) & set(at) or index.dtype.kind not in "iu":
            return None
        outside = (index < 0) | (index >= length)
        if outside.any():
            if where is None or np.any(where & outside):
                return None
            index = np.clip(index, 0, length - 1)  # whatever is there
        lines.append(index.reshape(-1).astype(np.int64))  # narrow differences would wrap
        at += moving
    found = source  # nothing is taken before all indices are known to fit: two along one dimension would be a square
    axis = 0
    for line in lines:
        if len(line) == 1:
            found = found.take(line[0], axis=axis) if found.ndim > 1 else found[line[0]]
            continue
        step = int(line[1]) - int(line[0])
        if step > 0 and (np.diff(line) == step).all():
            found = found[(slice(None),) * axis + (slice(int(line[0]), int(line[-1]) + 1, step),)]
        else:
            found = found.take(line, axis=axis)
        axis += 1
    if not at:
        return None
    shape = [1] * width
    for d, n in zip(at, found.shape, strict=True):
        shape[d] = n
    return found.transpose(np.argsort(at)).reshape(shape)


def _checked(indices: list[Any], shape: tuple[int, ...], where: np.ndarray | None, name: str) -> list[Any]:
    """The indices, 0 where they do not count. Raises BuildError for one outside the shape."""
    grids = indices
    if where is not None:
        *grids, mask = np.broadcast_arrays(*indices, where)
        grids = [np.where(mask, g, 0) for g in grids]
    for axis, (index, length) in enumerate(zip(grids, shape, strict=True)):
        low, high = np.min(index, initial=0), np.max(index, initial=0)
        if np.size(index) and (low < 0 or high >= length):
            raise out_of_bounds(name, axis, int(low) if low < 0 else int(high), length, given=True)
    return grids


def _typed(arg: Expr, value: Any, user: Expr) -> Any:
    """Index arithmetic is int64 until it meets a value; there it takes its own type."""
    if is_index(arg) and not is_index(user) and user.op != "read" and arg.dtype.is_integer:
        return np.asarray(value).astype(arg.dtype.numpy)
    return value


def _apply(e: Expr, args: list[Any], index: bool) -> Any:
    """An operator on arrays; of index arithmetic, which is int64, as it is."""
    if e.op == "cast":
        return args[0].astype(np.int64) if index else _cast(args[0], e.args[0].dtype, e.dtype)
    if e.op == "reinterpret":
        return np.asarray(args[0]).view(e.dtype.numpy)
    if e.op in ("shl", "shr"):
        return _shift(e.op, *args)
    if e.op == "call":
        return _call(e, args)
    if index:
        ufunc = OPS[e.op].numpy
        assert ufunc is not None, e.op
        return np.asarray(ufunc(*args))
    value, dice = evaluated(e.op, e.dtype, args), _DICE.get()
    return value if dice is None or value.dtype.kind != "f" else _either_way(e, args, value, dice)


def _either_way(e: Expr, args: list[Any], value: np.ndarray, dice: np.random.Generator) -> np.ndarray:
    """The value rounded up or down by chance, where it was rounded."""
    wide = np.longdouble if value.dtype == np.float64 else np.float64
    function = OPS[e.op].numpy
    if function is None or e.op == "nextafter" or any(np.asarray(a).dtype.kind == "V" for a in args):
        return value
    exact = np.asarray(function(*[np.asarray(a).astype(wide) if np.asarray(a).dtype.kind == "f" else a for a in args]))
    other = np.nextafter(value, np.where(exact > value, np.inf, -np.inf).astype(value.dtype))
    turned = (exact != value) & np.isfinite(value) & (dice.random(value.shape) < 0.5)
    return np.where(turned, other, value)


def _call(e: Expr, args: list[Any]) -> Any:
    """A function from outside: by NumPy, or a Python function point by point."""
    if e.value.kind != "packed":
        return as_type(np.asarray(numpy_of(e.value.name)(*map(np.asarray, args))), e.dtype)
    function = get_global_func(e.value.name)
    grids = np.broadcast_arrays(*args)
    shape = grids[0].shape if grids else ()
    results = [function(*(x.item() for x in point)) for point in zip(*(g.flat for g in grids), strict=True)]
    if not grids:
        results = [function()]
    return np.array([returned_number(e.value.name, r) for r in results], e.dtype.numpy).reshape(shape)


def _cast(value: Any, source: DType, to: DType) -> Any:
    array = np.asarray(value)
    if source.is_float and to.is_integer:  # toward zero, saturating, NaN -> 0
        wide = np.trunc(np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        low, high = int(to.min), int(to.max)
        inside = np.clip(wide, low, np.nextafter(float(high), 0) if float(high) > high else float(high))
        result = inside.astype(to.numpy)
        return np.where(wide >= float(high), to.numpy.type(high), result)
    return as_type(array, to)


def _shift(op: str, a: Any, b: Any) -> Any:
    a, b = np.asarray(a), np.asarray(b)
    bits = a.dtype.itemsize * 8
    too_far = (b >= bits) | (b < 0)
    safe = np.where(too_far, np.zeros_like(b), b)
    if op == "shl":
        return np.where(too_far, np.zeros_like(a), np.left_shift(a, safe))
    fill = np.where(a < 0, -np.ones_like(a), np.zeros_like(a)) if a.dtype.kind == "i" else np.zeros_like(a)
    return np.where(too_far, fill, np.right_shift(a, safe)).astype(a.dtype)
