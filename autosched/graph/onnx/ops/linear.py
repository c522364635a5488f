"""Products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from autosched import te, topi
from autosched.graph.onnx.node import Node, operator
from autosched.graph.onnx.windows import fixed
from autosched.ir.expr import Expr, is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, broadcast_shapes, narrowed, same
from autosched.topi.elementwise import stretched


@operator("MatMul")
def matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    """As NumPy's: of vectors, matrices, and batches of matrices, which stretch."""
    if not a.ndim or not b.ndim:
        raise node.refused(f"{a!r} and {b!r}", "one dimension each at least")
    inner, other = a.shape[-1], b.shape[-2 if b.ndim > 1 else -1]
    if not same(inner, other):
        raise node.refused(f"{inner!r} columns meet {other!r} rows", "as many of them")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2], node.kind)
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    sums = accumulator(a.dtype)
    k = te.reduce_axis((0, inner), "k")

    def lead(t: Tensor, i: Sequence[Expr]) -> list[Expr]:
        dims = t.shape[:-2]
        skip = len(batch) - len(dims)
        return [
            te.const(0) if is_const(d, 1) and not same(d, w) else e
            for e, d, w in zip(i[skip : len(batch)], dims, batch[skip:], strict=True)
        ]

    def body(*i: Expr) -> Expr:
        row, column = i[len(batch) : len(batch) + len(rows)], i[len(batch) + len(rows) :]
        left, right = a(*lead(a, i), *row, k), b(*lead(b, i), k, *column)
        return te.sum(left.astype(sums) * right.astype(sums), axis=k)

    tag = "batch_matmul" if batch else "matmul"
    return narrowed(te.compute((*batch, *rows, *columns), body, name=f"T_{tag}", tag=tag), a.dtype)


@operator("Gemm")
def gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    """alpha * A * B + beta * C, where C stretches."""
    alpha, beta = node.attr("alpha", 1.0), node.attr("beta", 1.0)
    transposed = [bool(node.attr(name, 0)) for name in ("transA", "transB")]
    sums = accumulator(a.dtype)
    made = topi.nn.matmul(a, b, None, sums, *transposed)
    if c is not None and beta == 0:
        c = None
    if not a.dtype.is_float and not (float(alpha).is_integer() and float(beta).is_integer()):
        raise node.refused(f"alpha is {alpha}, beta {beta} for {a.dtype}", "whole numbers")
    if c is not None:
        wide = broadcast_shapes(made.shape, c.shape, node.kind)
        if len(wide) != 2 or not all(map(same, wide, made.shape)):
            raise node.refused(f"{c!r} does not stretch to {list(made.shape)!r}")
    if c is None and alpha == 1:
        return narrowed(made, a.dtype)

    def factor(e: Expr, by: float) -> Expr:
        return e if by == 1 else e * te.const(by if sums.is_float else int(by), sums)

    def body(*i: Expr) -> Expr:
        e = factor(made(*i), alpha)
        if c is not None:
            e = e + factor(stretched(c, i, made.shape).astype(sums), beta)  # type: ignore[attr-defined]
        return e.astype(a.dtype)

    return te.compute(made.shape, body, name="T_gemm", tag="broadcast")


@operator("Einsum")
def einsum(node: Node, *operands: Tensor) -> Tensor:
    """Of more than two operands, the first two are taken together, and so on."""
    text = node.attr("equation").replace(" ", "")
    left, arrow, out = text.partition("->")
    parts = left.split(",")
    rest = list(operands)
    letters = "".join(parts)
    if not arrow:
        plain = letters.replace("...", "")
        out = ("..." if "..." in letters else "") + "".join(sorted(x for x in set(plain) if plain.count(x) == 1))
    if any(not x.isalpha() for x in (letters + out).replace("...", "")) or len(parts) != len(rest):
        raise node.refused(f"equation {text!r} for {len(rest)} operands", "letters for each, and ellipses")
    while len(rest) > 2:
        later = "".join([*parts[2:], out])
        kept = "".join(x for x in dict.fromkeys((parts[0] + parts[1]).replace("...", "")) if x in later)
        kept = ("..." if "..." in parts[0] + parts[1] else "") + kept
        rest[:2] = [topi.einsum(f"{parts[0]},{parts[1]}->{kept}", *rest[:2])]
        parts[:2] = [kept]
    return topi.einsum(f"{','.join(parts)}->{out}", *rest)


#: rows of a matrix whose determinant is written out
MOST_ROWS = 4


@operator("Det")
def det(node: Node, x: Tensor) -> Tensor:
    """Leibniz' sum, for small matrices."""
    if x.ndim < 2 or not same(x.shape[-1], x.shape[-2]) or fixed(node, x.shape[-1]) > MOST_ROWS:
        raise node.refused(f"of {x!r}", f"square matrices of {MOST_ROWS} rows at most")
    n, sums = fixed(node, x.shape[-1]), accumulator(x.dtype)

    def body(*i: Expr) -> Expr:
        total = te.const(0 if n else 1, sums)
        for order in permutations(range(n)):
            odd = sum(a > b for k, b in enumerate(order) for a in order[:k]) % 2
            term = te.const(-1 if odd else 1, sums)
            for row, column in enumerate(order):
                term = term * x(*i, row, column).astype(sums)
            total = total + term
        return total.astype(x.dtype)

    return te.compute(x.shape[:-2], body, name="det")
