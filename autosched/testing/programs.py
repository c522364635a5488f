"""Random tensor programs: small op graphs over awkward shapes, whose results are exact.

A program has one to four stages taken from `KINDS`: element-wise arithmetic, clamped and padded
stencils, reductions, transposes, reshapes, gathers, several outputs at once. Shapes
are constants or symbolic sizes, and their lengths 1, primes and powers of two plus or minus one, so
that nothing divides anything.
Inputs are small integers and float values stay far below where floats lose integers, so every
order of evaluation gives the same bits and results can be compared with `==`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched import te
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, as_expr, variables
from autosched.te.tensor import ComputeOp, Graph, PlaceholderOp, Tensor

__all__ = ["KINDS", "RandomProgram", "random_program"]

#: lengths of dimensions: 1, primes, powers of two and their neighbours
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17)
#: stages are kept below this many elements, so that the interpreter stays quick
MAX_ELEMENTS = 700
#: float values stay below this: half of what float32 holds exactly
MAX_FLOAT = 2.0**22
_DTYPES = ("float32", "float32", "int32", "int32", "int16", "uint8", "uint16", "float64")


@dataclass(frozen=True)
class RandomProgram:
    """The arguments of a computation, and the values of its symbolic sizes."""

    args: tuple[Tensor, ...]
    sizes: dict[str, int]

    def inputs(self, seed: int = 0) -> list[np.ndarray]:
        """An array of small integers for each input, in the order of `args`."""
        draw = np.random.default_rng(seed)
        arrays = []
        for t in self.args:
            if isinstance(t.op, PlaceholderOp):
                shape = [_length(d, self.sizes) for d in t.shape]
                low = 0 if t.dtype.kind == "uint" else -4
                arrays.append(draw.integers(low, 4, shape, endpoint=True).astype(t.dtype.numpy))
        return arrays

    def shrunk(self, rng: random.Random) -> RandomProgram:
        """The same program with its symbolic sizes made smaller, down to 1."""
        return RandomProgram(self.args, {name: rng.randint(1, length) for name, length in self.sizes.items()})

    def describe(self) -> str:
        """One line for each stage: its name, shape and expression."""
        lines = [", ".join(f"{k}={v}" for k, v in self.sizes.items())]
        for op in Graph.of(self.args).ops:
            body = f" = {', '.join(map(repr, op.body))}" if isinstance(op, ComputeOp) else ""
            lines.append(f"{op.name}[{', '.join(map(repr, op.shape))}]: {op.dtype}{body}")
        return "\n".join(line for line in lines if line)


def _length(d: Expr, sizes: dict[str, int]) -> int:
    return int(evaluate([d], {v: sizes[v.name] for v in variables(d)})[0])


@dataclass
class _Maker:
    """A program in the making: the tensors so far, and a bound of the values of each."""

    rng: random.Random
    symbolic: bool
    sizes: dict[str, int] = field(default_factory=dict)
    inputs: list[Tensor] = field(default_factory=list)
    stages: list[Tensor] = field(default_factory=list)
    bound: dict[Tensor, float] = field(default_factory=dict)
    dims: list[object] = field(default_factory=list)

    # -- shapes -----------------------------------------------------------------------------------
    def dim(self) -> object:
        """A dimension: one seen before, a new constant or a new symbolic size."""
        if self.dims and self.rng.random() < 0.3:
            return self.rng.choice(self.dims)
        length = self.rng.choice(LENGTHS)
        made: object = length
        if self.symbolic and len(self.sizes) < 3 and self.rng.random() < 0.6:
            made = te.var("nmk"[len(self.sizes)])
            self.sizes[made.name] = length
        self.dims.append(made)
        return made

    def lengths(self, shape: Sequence[object]) -> list[int]:
        return [_length(as_expr(d), self.sizes) for d in shape]

    def fits(self, shape: Sequence[object]) -> bool:
        return 0 < int(np.prod(self.lengths(shape), dtype=np.int64)) <= MAX_ELEMENTS

    # -- tensors ----------------------------------------------------------------------------------
    def placeholder(self, shape: Sequence[object], of: str | None = None) -> Tensor:
        made = te.placeholder(tuple(shape), of or self.rng.choice(_DTYPES), f"in{len(self.inputs)}")
        self.inputs.append(made)
        self.bound[made] = 4
        return made

    def new_input(self) -> Tensor:
        """A placeholder of one to three dimensions. Sizes stand alone in its shape, so it defines them."""
        for _ in range(20):
            shape = [self.dim() for _ in range(self.rng.choice((1, 2, 2, 2, 3)))]
            if self.fits(shape):
                return self.placeholder(shape)
        return self.placeholder([5])

    def pick(self, least_rank: int = 1) -> Tensor:
        """A tensor to read: usually the latest, sometimes an older one or a new input."""
        usable = [t for t in [*self.inputs, *self.stages] if t.ndim >= least_rank]
        roll = self.rng.random()
        if self.stages and self.stages[-1].ndim >= least_rank and roll < 0.75:
            return self.stages[-1]
        if usable and roll < 0.9:
            return self.rng.choice(usable)
        made = self.new_input()
        return made if made.ndim >= least_rank else self.placeholder([3, 5][: max(least_rank, 2)])

    def read(self, t: Tensor, indices: Sequence[object]) -> Expr:
        """An element, brought back into a small range where sums or products could grow too far."""
        element = t(*indices)
        if t.dtype.is_float and self.bound[t] > 64:
            return te.max(te.min(element, te.const(8, t.dtype)), te.const(-8, t.dtype))
        return element

    def size_of(self, t: Tensor) -> float:
        return min(self.bound[t], 8.0) if self.bound[t] > 64 else self.bound[t]

    def stage(
        self, shape: Sequence[object], body: Callable[..., object], bound: float, is_cast: bool = False
    ) -> Tensor | None:
        """A new stage, unless it has too many elements or its float arithmetic could round."""
        if not self.fits(shape):
            return None
        made = te.compute(tuple(shape), body, name=f"t{len(self.stages)}")
        if made.dtype.is_float and bound > MAX_FLOAT and not is_cast:
            return None
        self.stages.append(made)
        self.bound[made] = bound
        return made

    def together(self, shape: Sequence[object], body: Callable[..., object], bounds: Sequence[float]) -> Tensor | None:
        """New stages that are computed together; the last one is returned."""
        if not self.fits(shape):
            return None
        made = te.compute(tuple(shape), body, name=f"t{len(self.stages)}")
        if any(t.dtype.is_float and bound > MAX_FLOAT for t, bound in zip(made, bounds)):
            return None
        for t, bound in self.rng.sample([*zip(made, bounds)], len(made)):
            self.stages.append(t)
            self.bound[t] = bound
        return self.stages[-1]


def _clamp(index: object, extent: object) -> Expr:
    return te.max(te.min(index, extent - 1), 0)  # type: ignore[operator]


# -- the kinds of stages ----------------------------------------------------------------------------


#: element-wise operations on two values at an index of a shape
_ELEMENTWISE: tuple[Callable[[Expr, Expr, Sequence[Expr], Sequence[Expr]], object], ...] = (
    lambda x, y, i, shape: x + y,
    lambda x, y, i, shape: x - y,
    lambda x, y, i, shape: x * y,
    lambda x, y, i, shape: te.min(x, y),
    lambda x, y, i, shape: te.max(x, y),
    lambda x, y, i, shape: x > y,
    lambda x, y, i, shape: te.select(te.floormod(i[-1], 2) == 0, x, y),
    lambda x, y, i, shape: te.select(x >= y, y, x + 1),
    lambda x, y, i, shape: te.if_then_else(x < y, x, y * 2),
    lambda x, y, i, shape: x + i[0].astype(y.dtype),
    lambda x, y, i, shape: y + shape[0].astype(x.dtype),
)


def elementwise(m: _Maker) -> Tensor | None:
    """Arithmetic on one tensor and a number, or on two tensors of the same shape."""
    a = m.pick()
    same = [t for t in [*m.inputs, *m.stages] if t.ndim == a.ndim and t.shape == a.shape and t is not a]
    b = m.rng.choice(same) if same and m.rng.random() < 0.6 else None
    k, operation = m.rng.choice((1, 2, 3, -1)), m.rng.choice(_ELEMENTWISE)

    def body(*i: Expr) -> object:
        return operation(m.read(a, i), te.const(k, a.dtype) if b is None else m.read(b, i), i, a.shape)

    x, y = m.size_of(a), 3 if b is None else m.size_of(b)
    return m.stage(a.shape, body, max(x * y, x + 2 * y + MAX_ELEMENTS))


def converted(m: _Maker) -> Tensor | None:
    """Another element type."""
    a = m.pick()
    to = m.rng.choice(("int32", "float32", "int16", "uint16", "float64", "int8", "bool"))
    bound = m.size_of(a) if a.dtype.is_float else 2.0**a.dtype.bits
    return m.stage(a.shape, lambda *i: m.read(a, i).astype(to), bound, is_cast=True)


def clamped_stencil(m: _Maker) -> Tensor | None:
    """A sum of neighbours along one or two dimensions, borders repeated."""
    a = m.pick()
    axes = m.rng.sample(range(a.ndim), m.rng.choice((1, 1, 2)) if a.ndim > 1 else 1)
    offsets = [[m.rng.choice((-2, -1, 0, 1, 2)) if d in axes else 0 for d in range(a.ndim)] for _ in range(3)]

    def body(*i: Expr) -> object:
        def at(shift: Sequence[int]) -> Expr:
            return m.read(
                a, [_clamp(x + o, d) if k in axes else x for k, (x, o, d) in enumerate(zip(i, shift, a.shape))]
            )

        return at(offsets[0]) + at(offsets[1]) + at(offsets[2])

    return m.stage(a.shape, body, 3 * m.size_of(a))


def padded(m: _Maker) -> Tensor | None:
    """Zeros around one dimension."""
    a = m.pick()
    axis, before, after = m.rng.randrange(a.ndim), m.rng.choice((0, 1, 2)), m.rng.choice((1, 2))
    shape = [d + (before + after) if k == axis else d for k, d in enumerate(a.shape)]

    def body(*i: Expr) -> object:
        x = i[axis] - before
        inside = te.all(x >= 0, x < a.shape[axis])
        return te.if_then_else(
            inside, m.read(a, [x if k == axis else e for k, e in enumerate(i)]), te.const(0, a.dtype)
        )

    return m.stage(shape, body, m.size_of(a))


def blur(m: _Maker) -> Tensor | None:
    """Two stages: borders repeated explicitly, then a window that only ever looks inside."""
    a = m.pick()
    axis = m.rng.randrange(a.ndim)
    shape = [d + 2 if k == axis else d for k, d in enumerate(a.shape)]

    def around(*i: Expr) -> object:
        return m.read(a, [_clamp(x - 1, a.shape[axis]) if k == axis else x for k, x in enumerate(i)])

    wide = m.stage(shape, around, m.size_of(a))
    if wide is None:
        return None

    def window(*i: Expr) -> object:
        def at(o: int) -> Expr:
            return m.read(wide, [x + o if k == axis else x for k, x in enumerate(i)])

        return at(0) + at(1) + at(2)

    return m.stage(a.shape, window, 3 * m.size_of(wide))


def transposed(m: _Maker) -> Tensor | None:
    a = m.pick(least_rank=2)
    order = m.rng.sample(range(a.ndim), a.ndim)
    place = [order.index(k) for k in range(a.ndim)]
    return m.stage([a.shape[k] for k in order], lambda *i: m.read(a, [i[p] for p in place]), m.size_of(a))


def mirrored(m: _Maker) -> Tensor | None:
    a = m.pick()
    axis = m.rng.randrange(a.ndim)

    def body(*i: Expr) -> object:
        return m.read(a, [a.shape[k] - 1 - x if k == axis else x for k, x in enumerate(i)])

    return m.stage(a.shape, body, m.size_of(a))


def every_second(m: _Maker) -> Tensor | None:
    a = m.pick()
    axis = m.rng.randrange(a.ndim)
    shape = [te.floordiv(d + 1, 2) if k == axis else d for k, d in enumerate(a.shape)]
    return m.stage(shape, lambda *i: m.read(a, [2 * x if k == axis else x for k, x in enumerate(i)]), m.size_of(a))


def flattened(m: _Maker) -> Tensor | None:
    """The last two dimensions as one: indices are a quotient and a remainder."""
    a = m.pick(least_rank=2)
    width = a.shape[-1]
    shape = [*a.shape[:-2], a.shape[-2] * width]

    def body(*i: Expr) -> object:
        return m.read(a, [*i[:-1], te.floordiv(i[-1], width), te.floormod(i[-1], width)])

    return m.stage(shape, body, m.size_of(a))


def gathered(m: _Maker) -> Tensor | None:
    """One tensor indexed by the values of another, kept in range."""
    a, b = m.pick(), m.pick()
    if b.dtype.is_float:
        return None
    rest = a.shape[1:]

    def body(*i: Expr) -> object:
        at = _clamp(b(*i[: b.ndim]).astype("int32"), a.shape[0])
        return m.read(a, [at, *i[b.ndim :]])

    return m.stage([*b.shape, *rest], body, m.size_of(a)) if b.ndim + len(rest) <= 3 else None


def row_reduced(m: _Maker) -> Tensor | None:
    """A reduction over one dimension, sometimes over all of them, sometimes over part of the points."""
    a = m.pick()
    every = a.ndim == 1 or m.rng.random() < 0.15
    axes = list(range(a.ndim)) if every else [m.rng.randrange(a.ndim)]
    combine = m.rng.choice((te.sum, te.sum, te.max, te.min, te.sum if a.dtype.is_float else te.prod))
    is_sum = combine is te.sum  # the least and the greatest of nothing are infinite
    where, begin = m.rng.random() < 0.2 and is_sum, m.rng.choice((0, 0, 1)) if is_sum else 0
    over = {k: te.reduce_axis((begin, a.shape[k]), f"r{k}") for k in axes}

    def body(*i: Expr) -> object:
        left = iter(i)
        indices = [over[k] if k in over else next(left) for k in range(a.ndim)]
        condition = te.floormod(over[axes[0]].var, 2) == 0 if where else None
        return combine(m.read(a, indices), axis=list(over.values()), where=condition)

    shape = [d for k, d in enumerate(a.shape) if k not in over]
    count = int(np.prod([m.lengths(a.shape)[k] for k in axes]))
    return m.stage(shape, body, count * m.size_of(a))


def several(m: _Maker) -> Tensor | None:
    """Two or three functions of the same element."""
    a = m.pick()
    count, operations = m.rng.choice((2, 2, 3)), m.rng.sample(_ELEMENTWISE, 3)

    def body(*i: Expr) -> object:
        x = m.read(a, i)
        return tuple(f(x, te.const(k + 1, a.dtype), i, a.shape) for k, f in enumerate(operations[:count]))

    return m.together(a.shape, body, [4 * m.size_of(a) + MAX_ELEMENTS] * count)


def extreme(m: _Maker) -> Tensor | None:
    """Where a row has its least or greatest element, and which it is."""
    a = m.pick()
    axis, find = m.rng.randrange(a.ndim), m.rng.choice((te.argmax, te.argmin))
    k = te.reduce_axis((0, a.shape[axis]), "k")
    if a.dtype.is_bool:
        return None

    def body(*i: Expr) -> object:
        return find(m.read(a, [*i[:axis], k, *i[axis:]]), axis=k)

    return m.together([*a.shape[:axis], *a.shape[axis + 1 :]], body, [MAX_ELEMENTS, m.size_of(a)])


#: reductions of pairs, and the identity of each part; the last one's parts need each other
_PAIRS: tuple[tuple[Callable[..., object], tuple[int, int]], ...] = (
    (lambda x, y: (x[0] + y[0], x[1] * y[1]), (0, 1)),
    (lambda x, y: (x[0] + y[0], x[1] + y[1]), (0, 0)),
    (lambda x, y: (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]), (1, 0)),
)


def of_pairs(m: _Maker) -> Tensor | None:
    """A reduction of pairs along one dimension, sometimes begun with an element of the input."""
    a = m.pick()
    axis, (combine, identity) = m.rng.randrange(a.ndim), m.rng.choice(_PAIRS)
    if not a.dtype.is_integer:  # products of floats would round
        return None
    pairs = te.comm_reducer(combine, lambda s, t: (te.const(identity[0], s), te.const(identity[1], t)), "pairs")
    k, begins, where = te.reduce_axis((0, a.shape[axis]), "k"), m.rng.random() < 0.4, m.rng.random() < 0.3

    def body(*i: Expr) -> object:
        x, first = m.read(a, [*i[:axis], k, *i[axis:]]), m.read(a, [*i[:axis], a.shape[axis] - 1, *i[axis:]])
        condition = te.floormod(k.var, 2) == 0 if where else None
        return pairs((x, x + 1), k, condition, (first, first) if begins else None)

    return m.together([*a.shape[:axis], *a.shape[axis + 1 :]], body, [0, 0])


def reduced_otherwise(m: _Maker) -> Tensor | None:
    """A reduction of one's own, `any` or `all` along one dimension, sometimes begun with an element."""
    a = m.pick()
    axis, begins = m.rng.randrange(a.ndim), m.rng.random() < 0.5
    k = te.reduce_axis((0, a.shape[axis]), "k")
    either = te.comm_reducer(lambda x, y: x | y, lambda t: te.const(0, t), "either")
    added = te.comm_reducer(lambda x, y: y + x, lambda t: te.const(0, t), "added")
    options = [te.any, te.all]
    if not a.dtype.is_bool:
        options += [te.sum, te.max, added]
    if a.dtype.is_integer:
        options.append(either)
    combine = m.rng.choice(options)

    def body(*i: Expr) -> object:
        x, first = m.read(a, [*i[:axis], k, *i[axis:]]), m.read(a, [*i[:axis], 0, *i[axis:]])
        if combine in (te.any, te.all):
            x, first = x > 0, first > 1
        return combine(x, axis=k, init=first if begins else None)

    shape = [*a.shape[:axis], *a.shape[axis + 1 :]]
    return m.stage(shape, body, (m.lengths(a.shape)[axis] + 1) * m.size_of(a))


def matmul(m: _Maker) -> Tensor | None:
    a = m.pick(least_rank=2)
    if a.ndim != 2:
        return None
    b = a if m.rng.random() < 0.3 else m.placeholder([a.shape[1], m.dim()], a.dtype)
    k = te.reduce_axis((0, a.shape[1]), "k")

    def body(i: Expr, j: Expr) -> object:
        right = m.read(a, [j, k]) if b is a else m.read(b, [k, j])
        return te.sum(m.read(a, [i, k]) * right, axis=k)

    shape = [a.shape[0], a.shape[0] if b is a else b.shape[1]]
    return m.stage(shape, body, m.lengths(a.shape)[1] * m.size_of(a) * m.size_of(b))


def convolved(m: _Maker) -> Tensor | None:
    """A sliding window as a reduction; the window is cut at the borders by its condition."""
    a = m.pick()
    r = te.reduce_axis((0, 3), "r")

    def body(*i: Expr) -> object:
        at = i[0] + r - 1
        return te.sum(m.read(a, [at, *i[1:]]), axis=r, where=te.all(at >= 0, at < a.shape[0]))

    return m.stage(a.shape, body, 3 * m.size_of(a))


def spread(m: _Maker) -> Tensor | None:
    """A vector, or a single number, added to every row of a matrix."""
    a = m.pick(least_rank=2)
    known = [t for t in [*m.inputs, *m.stages] if t.dtype == a.dtype]
    usable = [t for t in known if t.ndim == 0 or (t.ndim == 1 and t.shape[0] is a.shape[-1])]
    v = m.rng.choice(usable) if usable else m.placeholder([a.shape[-1]] * m.rng.randint(0, 1), a.dtype)
    return m.stage(a.shape, lambda *i: m.read(a, i) + m.read(v, i[-1:][: v.ndim]), m.size_of(a) + m.size_of(v))


def scanned(m: _Maker) -> Tensor | None:
    """A recurrence along the first dimension, kept in a small range; sometimes over a whole row."""
    a = m.pick(least_rank=2)
    whole, back = m.rng.random() < 0.3, m.rng.choice((1, 1, 2))
    if a.dtype.is_bool or not m.fits(a.shape) or m.lengths(a.shape[:1])[0] < back:
        return None
    state = te.placeholder(a.shape, a.dtype, f"s{len(m.stages)}")

    def step(t: Expr, *i: Expr) -> object:
        last = [a.shape[-1] - 1 - i[-1] if whole else i[-1]]
        before = state(t - back, *i[:-1], *last)
        return te.min(before, te.const(8, a.dtype)) + m.read(a, [t, *i])

    init = te.compute((back, *a.shape[1:]), lambda *i: m.read(a, i), name=f"i{len(m.stages)}")
    middle = te.compute(a.shape, step, name=f"m{len(m.stages)}")
    least = te.const(1 if a.dtype.kind == "uint" else -8, a.dtype)
    update = te.compute(a.shape, lambda *i: te.max(middle(*i), least), name=f"u{len(m.stages)}")
    made = te.scan(init, update, state, name=f"t{len(m.stages)}")
    m.stages.append(made)
    m.bound[made] = m.size_of(a) + 8
    return made


def scattered(m: _Maker) -> Tensor | None:
    """Rows or all of a tensor counted, or combined, at the places that its own values say."""
    a = m.pick(least_rank=2)
    if a.dtype.is_float or a.dtype.is_bool:
        return None
    by_row, bins = m.rng.random() < 0.5, m.rng.choice((*a.shape, *LENGTHS))
    r = [te.reduce_axis((0, d), f"r{k}") for k, d in enumerate(a.shape) if k or not by_row]
    combiner = m.rng.choice(("sum", "sum", "max"))

    def count(*row: Expr) -> tuple[object, object]:
        element = m.read(a, [*row, *r])
        return element + 1, r[-1].var + 1

    shape = [a.shape[0], bins] if by_row else [bins]
    if not m.fits(shape):
        return None
    fscatter = (lambda i: count(i)) if by_row else (lambda: count())
    made = te.scatter_reduce(tuple(shape), fscatter, r, combiner, name=f"t{len(m.stages)}")
    m.stages.append(made)
    m.bound[made] = 2.0**31
    return made


#: What stages are drawn from.
KINDS: tuple[Callable[[_Maker], Tensor | None], ...] = (
    elementwise, elementwise, elementwise, converted, clamped_stencil, clamped_stencil, clamped_stencil, padded,
    blur, transposed, mirrored, every_second, flattened, gathered, row_reduced, matmul, convolved, spread,
    scanned, scattered, several, extreme, of_pairs, reduced_otherwise,
)  # fmt: skip


def random_program(rng: random.Random, symbolic: bool = True) -> RandomProgram:
    """A computation of one to four stages; `symbolic` allows sizes that are known at run time only."""
    m = _Maker(rng, symbolic)
    m.new_input()
    wanted = rng.choice((1, 2, 3, 3, 4, 4))
    while len(m.stages) < wanted:
        rng.choice(KINDS)(m)
    outputs = [m.stages[-1]]
    if len(m.stages) > 1 and rng.random() < 0.15:
        outputs.append(rng.choice(m.stages[:-1]))
    needed = set(Graph.of(outputs).ops)
    inputs = [t for t in m.inputs if t.op in needed]
    known = {d for t in inputs for d in t.shape}
    lost = [v for op in needed for d in op.shape for v in variables(d) if v not in known]
    if lost:  # a size that no input shows: another program
        return random_program(rng, symbolic)
    args = [*inputs, *outputs]
    used = {v.name for t in args for d in t.shape for v in variables(d)}
    return RandomProgram(tuple(args), {k: v for k, v in m.sizes.items() if k in used})
