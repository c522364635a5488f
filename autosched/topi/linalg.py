"""Products and sums along an axis: matmul, tensordot, einsum, cumulative sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.dtype import DType, promote
from autosched.ir.expr import Expr, is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, axis_of, narrowed, product, same
from autosched.topi.transform import reshape, transpose

MATMUL = "matmul"


def matmul(a: Tensor, b: Tensor, transp_a: bool = False, transp_b: bool = False) -> Tensor:
    """Multiply two matrices, each transposed first if so asked."""
    of = _type_of(a, b)
    return narrowed(matrix_product(a, b, transp_a, transp_b, accumulator(of), "topi.matmul", "T_matmul", MATMUL), of)


def matrix_product(
    a: Tensor, b: Tensor, transp_a: bool, transp_b: bool, sums: DType, asked: str, name: str, tag: str
) -> Tensor:
    """Multiply two matrices in the type `sums`."""
    if a.ndim != 2 or b.ndim != 2:
        legal = "two matrices; topi.nn.batch_matmul for batches of them"
        raise UsageError(f"{a!r} and {b!r} are not matrices", asked=asked, legal=legal)
    rows, inner = (a.shape[1], a.shape[0]) if transp_a else a.shape
    other, columns = (b.shape[1], b.shape[0]) if transp_b else b.shape
    if not same(inner, other):
        raise UsageError(f"{inner!r} columns meet {other!r} rows", asked=asked, legal="as many of them")
    k = te.reduce_axis((0, inner), "k")

    def body(i: Expr, j: Expr) -> object:
        left = a(k, i) if transp_a else a(i, k)
        right = b(j, k) if transp_b else b(k, j)
        return te.sum(left.astype(sums) * right.astype(sums), axis=k)

    return te.compute((rows, columns), body, name=name, tag=tag)


def tensordot(a: Tensor, b: Tensor, axes: object = 2) -> Tensor:
    """Sum products over pairs of axes: so many of the last of `a` and the first of `b`, or two lists of them."""
    asked = f"topi.tensordot(axes={axes!r:.40})"
    if isinstance(axes, int) and 0 <= axes <= min(a.ndim, b.ndim):
        pairs = [(a.ndim - axes + k, k) for k in range(axes)]
    else:
        is_two = isinstance(axes, (list, tuple)) and len(axes) == 2
        listed = [list(x) if isinstance(x, (list, tuple)) else [x] for x in axes] if is_two else [[], [0]]  # type: ignore[attr-defined]
        if len(listed[0]) != len(listed[1]):
            legal = f"0 to {min(a.ndim, b.ndim)}, or two lists of axes, of one length"
            raise UsageError("it does not say which axes meet", asked=asked, legal=legal)
        pairs = [(axis_of(a, x, asked), axis_of(b, y, asked)) for x, y in zip(*listed, strict=True)]
    for x, y in pairs:
        if not 0 <= x < a.ndim or not 0 <= y < b.ndim or not same(a.shape[x], b.shape[y]):
            raise UsageError(f"axis {x} of {a!r} does not meet axis {y} of {b!r}", asked=asked, legal="equal lengths")
    over = [te.reduce_axis((0, a.shape[x]), f"k{n}") for n, (x, _) in enumerate(pairs)]
    of_a = {x: over[n] for n, (x, _) in enumerate(pairs)}
    of_b = {y: over[n] for n, (_, y) in enumerate(pairs)}
    shape = [d for k, d in enumerate(a.shape) if k not in of_a] + [d for k, d in enumerate(b.shape) if k not in of_b]

    def body(*i: Expr) -> object:
        left = iter(i)
        one = a(*(of_a[k] if k in of_a else next(left) for k in range(a.ndim)))
        two = b(*(of_b[k] if k in of_b else next(left) for k in range(b.ndim)))
        return te.sum(_product(one, two), axis=over) if over else one * two

    return narrowed(te.compute(tuple(shape), body, name="T_tensordot", tag=MATMUL), _type_of(a, b))


def einsum(subscripts: str, *operand: Tensor) -> Tensor:
    """Sum products as `numpy.einsum` writes it: `einsum("ij,jk->ik", a, b)`.

    Letters of the operands that the output does not have are summed over. Dimensions of one letter, or of an ellipsis,
    go together as NumPy's: they are equal, or one of them is 1.
    """
    left, arrow, out = subscripts.replace(" ", "").partition("->")
    inputs = left.split(",")
    asked = f"topi.einsum({subscripts!r})"
    letters = [x for part in inputs for x in part.replace("...", "")]
    if not arrow:
        out = "..." + "".join(sorted(x for x in set(letters) if letters.count(x) == 1))
    inputs, out = _without_ellipses(inputs, out, operand)
    letters = [x for part in inputs for x in part]
    if len(inputs) != len(operand) or any(len(p) != t.ndim for p, t in zip(inputs, operand)):
        raise UsageError(f"it does not fit {list(operand)!r}", asked=asked, legal="one letter for each dimension")
    if set(out) - set(letters) or len(set(out)) < len(out) or not all(x.isalpha() for x in letters):
        raise UsageError("its output has letters of its own, or twice", asked=asked, legal="letters of the operands")
    extent: dict[str, Expr] = {}
    for part, t in zip(inputs, operand, strict=True):
        for x, d in zip(part, t.shape, strict=True):
            known = extent.setdefault(x, d)
            if is_const(known, 1):
                extent[x] = d
            elif not is_const(d, 1) and not same(known, d):
                if is_const(known) and is_const(d):
                    raise UsageError(f"{x} is both {known!r} and {d!r}", asked=asked, legal="one length for a letter")
                extent[x] = te.max(known, d)  # the call says: they are equal, or one of them is 1
    over = {x: te.reduce_axis((0, d), x if x.isascii() else "k") for x, d in extent.items() if x not in out}

    def place(x: str, d: Expr, at: Any) -> Any:
        if same(d, extent[x]):
            return at
        return 0 if is_const(d, 1) else te.min(at, d - 1)

    def body(*i: Expr) -> object:
        at: dict[str, Any] = {**dict(zip(out, i, strict=True)), **{x: axis.var for x, axis in over.items()}}
        factors = [
            t(*(place(x, d, at[x]) for x, d in zip(part, t.shape, strict=True)))
            for part, t in zip(inputs, operand, strict=True)
        ]
        return te.sum(_product(*factors), axis=list(over.values())) if over else _product(*factors)

    made = te.compute(tuple(extent[x] for x in out), body, name="T_einsum", tag="einsum")
    return narrowed(made, _type_of(*operand))


def _without_ellipses(inputs: Sequence[str], out: str, operand: Sequence[Tensor]) -> tuple[list[str], str]:
    """The subscripts with letters in place of ellipses."""
    hidden = [t.ndim - len(p) + 3 for p, t in zip(inputs, operand) if "..." in p]
    free = [x for x in map(chr, range(0x3B1, 0x3B1 + 64)) if x.isalpha()]  # nobody else's: Greek
    covered = "".join(free[: max(hidden, default=0)])

    def expanded(part: str, t: Tensor | None) -> str:
        count = len(covered) if t is None else t.ndim - len(part) + 3
        return part.replace("...", covered[len(covered) - max(count, 0) :])

    return [expanded(p, t) for p, t in zip(inputs, [*operand, *[None] * len(inputs)])], expanded(out, None)


def _type_of(*operands: Tensor) -> DType:
    """The type of a product of elements."""
    return reduce(promote, (t.dtype for t in operands))


def _product(*factors: Expr) -> Expr:
    """A product in the type of sums."""
    sums = accumulator(reduce(promote, (f.dtype for f in factors)))
    return reduce(lambda a, b: a * b, (f.astype(sums) for f in factors))


def _cumulative(name: str, combine: Callable[[Expr, Expr], Expr], identity: int) -> Callable[..., Tensor]:
    def operator(data: Tensor, axis: int | None = None, dtype: object = None, exclusive: bool = False) -> Tensor:
        if axis is None:
            return operator(reshape(data, (product(data.shape),)), 0, dtype, exclusive)
        at = axis_of(data, axis, f"topi.{name}")
        order = [at, *(k for k in range(data.ndim) if k != at)]
        source = transpose(data, order) if at else data
        result_type = data.dtype if dtype is None else dtype
        of = accumulator(result_type)
        state = te.placeholder(source.shape, of, f"{name}_state")
        shift = int(exclusive)

        def element(t: Any, i: Sequence[Expr]) -> Expr:
            return source(t, *i).astype(of)

        def start(_: Expr, *i: Expr) -> Expr:
            return te.const(identity, of) if exclusive else element(0, i)

        init = te.compute((1, *source.shape[1:]), start, name=f"{name}_init")
        update = te.compute(
            source.shape, lambda t, *i: combine(state(t - 1, *i), element(t - shift, i)), name=f"{name}_update"
        )
        result = te.scan(init, update, state, inputs=[source], name=name)
        back = [order.index(k) for k in range(data.ndim)]
        return narrowed(transpose(result, back) if at else result, result_type)

    operator.__name__ = name
    operator.__doc__ = f"""`{name}` along an axis, or of all elements in row-major order.

    With `exclusive`, an element does not take part in its own result. The axis must not be empty.
    """
    return operator


cumsum = _cumulative("cumsum", lambda a, b: a + b, 0)
cumprod = _cumulative("cumprod", lambda a, b: a * b, 1)
