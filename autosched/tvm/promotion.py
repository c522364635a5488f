"""TVM's rule for operands of different types (`BinaryOpMatchTypes` in its src/tir/op/op.cc).

    uint8 + 2          int32     a Python number is an int32, float32 or bool, whatever stands beside it
    float16 * 2.5      float32   the wider float
    uint16 + int8      uint16    the wider integer; of equal widths, the unsigned one
    int64 * 0.5        float32   a float beats all integers

In `autosched.te` a number takes the type of the other operand, as in NumPy. Both may be used in one program: functions
that this package calls (of `te.compute`, `te.extern`) follow TVM's rule while they run, and so do tensors made by them
in arithmetic on whole tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from autosched.ir.dtype import DType, promote
from autosched.ir.expr import Promotion, promotion

F = TypeVar("F", bound=Callable[..., Any])


def common_type(a: DType, b: DType) -> DType:
    """Return the type that operands of two scalar types are converted to.

    >>> from autosched.ir.dtype import dtype
    >>> common_type(dtype("uint8"), dtype("int8")), common_type(dtype("float16"), dtype("int64"))
    ('uint8', 'float16')
    """
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.is_float and a.bits == b.bits:
        return promote(a, b)
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.kind == "uint" else b


def _literal_type(value: object, beside: DType) -> DType | None:
    """A literal's own, but for a float beside a float64: TVM keeps its digits until it is converted."""
    return beside if beside == "float64" and isinstance(value, float) else None


TVM = Promotion(literal=_literal_type, common=common_type)


def by_tvm_rules(function: F) -> F:
    """Make a function follow TVM's promotion, in whatever it calls."""

    @wraps(function)
    def ruled(*args: Any, **kwargs: Any) -> Any:
        with promotion(TVM):
            return function(*args, **kwargs)

    return cast(F, ruled)
