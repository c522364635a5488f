"""Mixed-precision products of random programs, and the micro-kernels that compute tiles of them.

    dot(maker)                                            # a kind of stage, like those of `kinds`
    declare("dot.int8.uint8.int32.1x4x8.update")          # the intrinsic of that name

The name of an intrinsic describes it whole, so that a trace can be replayed in another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autosched import te
from autosched.ir.builder import create
from autosched.ir.expr import const
from autosched.schedule.stage import Stage
from autosched.te.tensor import Tensor
from autosched.te.tensor_intrin import TensorIntrin
from autosched.testing.maker import Maker

#: The types of the factors and of the sum.
_TYPES = (
    ("int8", "uint8", "int32"),
    ("int8", "int8", "int32"),
    ("uint8", "uint8", "int32"),
    ("uint8", "int8", "int32"),
    ("int16", "int16", "int64"),
    ("float16", "float16", "float32"),
    ("bfloat16", "bfloat16", "float32"),
    ("float32", "float32", "float64"),
    ("uint8", "uint8", "uint16"),
)
#: The statements that an intrinsic has besides its body: `all` are reset and update.
PARTS = ("all", "update", "body")


def dot(m: Maker) -> Tensor | None:
    """The product of a matrix and a transposed one, summed in a wider type."""
    left, right, of = m.rng.choice(_TYPES)
    length, width = m.rng.choice((4, 6, 8, 12)), m.rng.choice((4, 6, 8, 16))
    a = m.placeholder([m.dim(), length], left)
    b = m.placeholder([width, length], right)
    if m.rng.random() < 0.3:
        a = m.stage(a.shape, lambda i, k: a(i, length - 1 - k), 4) or a
    return m.stage(*_product(a, b, of), 16 * length)


def _product(a: Tensor, b: Tensor, of: str) -> tuple[Any, Any]:
    k = te.reduce_axis((0, a.shape[1]), "k")
    return (a.shape[0], b.shape[0]), lambda i, j: te.sum(a(i, k).astype(of) * b(j, k).astype(of), axis=k)


def types_of(stage: Stage) -> tuple[str, str, str] | None:
    """The types of the factors and of the sum of a stage that computes a product as `dot` defines it; else None."""
    e, *others = stage.body or (None,)
    if others or e is None or e.op != "reduce" or e.value.combiner != "sum" or len(e.args) > 2:
        return None
    if (len(stage.axis), len(stage.reduce_axis)) != (2, 1):
        return None
    product = e.args[0]
    reads = [x.args[0] for x in product.args if x.op == "cast" and x.args[0].op == "read"]
    (i, j), (k,) = ([a.var for a in axes] for axes in (stage.axis, stage.reduce_axis))
    if product.op != "mul" or [r.args for r in reads] != [(i, k), (j, k)] or reads[0].value is reads[1].value:
        return None
    found = str(reads[0].dtype), str(reads[1].dtype), str(e.dtype)
    return found if found in _TYPES else None


def name_of(types: tuple[str, str, str], sizes: Sequence[int], parts: str) -> str:
    """The name of the intrinsic for tiles of these sizes: rows, columns and terms."""
    return f"dot.{'.'.join(types)}.{'x'.join(map(str, sizes))}.{parts}"


def declare_all(trace: Iterable[Any]) -> None:
    """Declare the intrinsics that a trace in JSON form mentions."""
    for instruction in trace:
        if instruction[0] == "tensorize":
            declare(instruction[3])


def declare(name: str) -> TensorIntrin:
    """Declare the intrinsic of this name (`name_of`)."""
    _, left, right, of, sizes, parts = name.split(".")
    rows, columns, terms = map(int, sizes.split("x"))
    a, b = te.placeholder((rows, terms), left, "a"), te.placeholder((columns, terms), right, "b")
    c = te.compute(*_product(a, b, of), name="c")

    def statements(ins: Any, outs: Any) -> Any:
        def over(add: bool) -> Any:
            ib = create()
            x, y, z = (ib.buffer_ptr(t) for t in (*ins, *outs))
            with ib.for_range(0, rows, name="i") as i, ib.for_range(0, columns, name="j") as j:
                if not add:
                    z[i, j] = const(0, of)
                else:
                    with ib.for_range(0, terms, name="k") as k:
                        z[i, j] = z[i, j] + x[i, k].astype(of) * y[j, k].astype(of)
            return ib.get()

        reset, update = over(add=False), over(add=True)
        return [reset, update], reset if parts == "all" else None, None if parts == "body" else update

    apart = {t: _anywhere(t) for t in (a, b, c)}
    return te.decl_tensor_intrin(c.op, statements, name=name, binds=apart)


def _anywhere(t: Tensor) -> Any:
    """A tile in memory of any strides."""
    return te.decl_buffer(t.shape, t.dtype, t.name, strides=[te.var(f"{t.name}_{d}") for d in range(t.ndim)])
