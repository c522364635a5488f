"""`tvm.topi.utils`: numbers out of expressions, indices, and what schedules ask."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr, as_expr, is_const
from autosched.ir.simplify import simplify as simplify_expr
from autosched.schedule.schedule import Schedule
from autosched.target import Target
from autosched.te.tensor import ComputeOp, Operation, Tensor
from autosched.topi.arguments import product, unravel
from autosched.tvm._missing import missing
from autosched.tvm.topi import tag


class InvalidShapeError(UsageError, ValueError):
    """A shape that an operator does not take."""


def _constant(expr: Any, what: str) -> Any:
    if isinstance(expr, (int, float, np.number)):
        return expr
    found = simplify_expr(as_expr(expr))
    if not is_const(found):
        raise InvalidShapeError(f"{found!r} is known at run time only", asked=what, legal="a constant")
    return found.value


def get_const_int(expr: Any) -> int:
    """Return a constant expression as a number. Raises ValueError for one that is known at run time only."""
    return int(_constant(expr, "get_const_int"))


def get_const_float(expr: Any) -> float:
    """Return a constant expression as a number. Raises ValueError for one that is known at run time only."""
    return float(_constant(expr, "get_const_float"))


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an expression is this constant."""
    return expr == value if isinstance(expr, Integral) else is_const(simplify_expr(as_expr(expr)), value)


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[Any, ...]:
    """Return a shape as numbers; what is known at run time only stays an expression."""
    found = [d if isinstance(d, Integral) else simplify_expr(as_expr(d)) for d in in_tuple]
    return tuple(int(d.value) if isinstance(d, Expr) and is_const(d) else d for d in found)


def get_float_tuple(in_tuple: Sequence[Any]) -> tuple[float, ...]:
    return tuple(map(get_const_float, in_tuple))


def simplify(expr: Any) -> Any:
    """Simplify an expression; numbers stay as they are."""
    return simplify_expr(expr) if isinstance(expr, Expr) else expr


def prod(x: Sequence[Any]) -> Expr:
    """Return the product of some dimensions."""
    return product(x)


def ravel_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """Return the place in row-major order of an element."""
    at: Any = 0
    for i, d in zip(indices, shape, strict=True):
        at = at * d + i
    return at


def unravel_index(idx: Any, shape: Sequence[Any]) -> list[Any]:
    """Return the indices of the element at a place in row-major order."""
    return unravel(as_expr(idx), [as_expr(d) for d in shape])


def const_matrix(matrix: Any, name: str = "const_matrix", attrs: Any = None) -> Tensor:
    """Return an array as a tensor that is computed: an expression that chooses by index."""
    values = np.asarray(matrix)

    def chosen(*i: Expr) -> Expr:
        found = te.const(0, str(values.dtype))
        at = ravel_index(i, values.shape)
        for n, value in enumerate(values.reshape(-1)):
            if value:
                found = te.select(at == n, te.const(value.item(), str(values.dtype)), found)
        return found

    return te.compute(values.shape, chosen, name=name)


const_vector = const_matrix


def get_max_power2_factor(n: int, max_value: int | None = None) -> int:
    """Return the greatest power of 2 that divides `n`, not above `max_value`."""
    factor = n & -n
    return factor if max_value is None else min(factor, 2 ** int(math.log2(max_value)))


def get_shape(src_shape: Sequence[Any], src_layout: Any, dst_layout: Any) -> tuple[Any, ...]:
    """Return a shape in the order of another layout's letters: `get_shape((1, 3, 8, 8), "NCHW", "NHWC")`.

    Raises ValueError for layouts of different letters.
    """
    source, target = (re.findall(r"\d*\D", str(layout)) for layout in (src_layout, dst_layout))
    if sorted(source) != sorted(target) or len(source) != len(src_shape):
        asked = f"get_shape({tuple(src_shape)}, {str(src_layout)!r}, {str(dst_layout)!r})"
        raise InvalidShapeError("they do not name the same dimensions", asked=asked, legal="a letter for each")
    shape = get_const_tuple(src_shape)
    return tuple(shape[source.index(x)] for x in target)


def is_empty_shape(shape: Sequence[Any]) -> bool:
    """Whether a dimension is 0."""
    return any(equal_const_int(d, 0) for d in shape)


def is_dynamic_shape(shape: Sequence[Any]) -> bool:
    """Whether a dimension is known at run time only."""
    return not all(isinstance(d, Integral) for d in get_const_tuple(shape))


def ceil_div(a: Any, b: Any) -> Any:
    return te.floordiv(as_expr(a) + (b - 1), b)


def swap(arr: list[Any], axis: int) -> list[Any]:
    """Exchange an element of a list and the last one."""
    out = list(arr)
    out[axis], out[-1] = out[-1], out[axis]
    return out


def is_target(names: str | Sequence[str]) -> bool:
    """Whether the current target has one of these keys."""
    current = Target.current(allow_none=True)
    wanted = [names] if isinstance(names, str) else names
    return current is not None and any(name in current.keys for name in wanted)


def traverse_inline(s: Schedule, final_op: Operation, callback: Callable[[Operation], None]) -> None:
    """Inline what is element-wise on the way from an output to its inputs, and call `callback` of each operation."""
    seen: set[Operation] = set()

    def visit(op: Operation) -> None:
        if op in seen:
            return
        seen.add(op)
        if tag.is_injective(getattr(op, "tag", "")):
            if all(t.op is not op for t in s.outputs):
                s[op].compute_inline()
            for t in op.input_tensors:
                if isinstance(t.op, ComputeOp):
                    visit(t.op)
        callback(op)

    visit(final_op)


# -- layouts ------------------------------------------------------------------------------------------


def ncw_pack_layout(layout_info: str) -> bool:
    """Whether it is NCW with blocks of N and of C."""
    return layout_info[:3] == "NCW" and "c" in layout_info and "n" in layout_info


def nchw_pack_layout(layout_info: str) -> bool:
    """Whether it is NCHW with blocks of N and of C."""
    return layout_info[:4] == "NCHW" and "c" in layout_info and "n" in layout_info


def ncw_xc_layout(layout_info: str) -> bool:
    """Whether it is NCW with blocks of C."""
    return bool(re.fullmatch(r"NCW\d+c", layout_info))


def nchw_xc_layout(layout_info: str) -> bool:
    """Whether it is NCHW with blocks of C."""
    return bool(re.fullmatch(r"NCHW\d+c", layout_info))


__getattr__ = missing("topi.utils", globals())
