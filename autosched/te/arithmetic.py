"""Operators of what stands for an expression without being one: axes, tensors, and parts of tensors."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from autosched.ir.expr import Expr

#: what the operators give: an `Expr`, or, of whole tensors, what `topi` makes of them
Result = TypeVar("Result")

#: their names, as Python's data model has them without underscores
OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod neg abs pow and rand or ror "
    "xor rxor lshift rlshift rshift rrshift invert lt le gt ge"
).split()


class Arithmetic(Generic[Result]):
    """Takes part in expressions as what its `as_expr` says it is."""

    __slots__ = ()

    def as_expr(self) -> Expr:
        """The expression that it stands for."""
        raise NotImplementedError

    def _apply(self, method: str, *args: object) -> Any:
        return getattr(self.as_expr(), method)(*args)

    def astype(self, dtype: object) -> Result:
        """The same value as another type."""
        return self._apply("astype", dtype)

    def equal(self, other: object) -> Result:
        """The condition that both are equal; `==` of two axes or tensors asks whether they are the same."""
        return self._apply("equal", other)

    def __add__(self, other: object) -> Result:
        return self._apply("__add__", other)

    def __radd__(self, other: object) -> Result:
        return self._apply("__radd__", other)

    def __sub__(self, other: object) -> Result:
        return self._apply("__sub__", other)

    def __rsub__(self, other: object) -> Result:
        return self._apply("__rsub__", other)

    def __mul__(self, other: object) -> Result:
        return self._apply("__mul__", other)

    def __rmul__(self, other: object) -> Result:
        return self._apply("__rmul__", other)

    def __truediv__(self, other: object) -> Result:
        return self._apply("__truediv__", other)

    def __rtruediv__(self, other: object) -> Result:
        return self._apply("__rtruediv__", other)

    def __floordiv__(self, other: object) -> Result:
        return self._apply("__floordiv__", other)

    def __rfloordiv__(self, other: object) -> Result:
        return self._apply("__rfloordiv__", other)

    def __mod__(self, other: object) -> Result:
        return self._apply("__mod__", other)

    def __rmod__(self, other: object) -> Result:
        return self._apply("__rmod__", other)

    def __neg__(self) -> Result:
        return self._apply("__neg__")

    def __abs__(self) -> Result:
        return self._apply("__abs__")

    def __pow__(self, other: object) -> Result:
        return self._apply("__pow__", other)

    def __and__(self, other: object) -> Result:
        return self._apply("__and__", other)

    def __rand__(self, other: object) -> Result:
        return self._apply("__rand__", other)

    def __or__(self, other: object) -> Result:
        return self._apply("__or__", other)

    def __ror__(self, other: object) -> Result:
        return self._apply("__ror__", other)

    def __xor__(self, other: object) -> Result:
        return self._apply("__xor__", other)

    def __rxor__(self, other: object) -> Result:
        return self._apply("__rxor__", other)

    def __lshift__(self, other: object) -> Result:
        return self._apply("__lshift__", other)

    def __rlshift__(self, other: object) -> Result:
        return self._apply("__rlshift__", other)

    def __rshift__(self, other: object) -> Result:
        return self._apply("__rshift__", other)

    def __rrshift__(self, other: object) -> Result:
        return self._apply("__rrshift__", other)

    def __invert__(self) -> Result:
        return self._apply("__invert__")

    def __lt__(self, other: object) -> Result:
        return self._apply("__lt__", other)

    def __le__(self, other: object) -> Result:
        return self._apply("__le__", other)

    def __gt__(self, other: object) -> Result:
        return self._apply("__gt__", other)

    def __ge__(self, other: object) -> Result:
        return self._apply("__ge__", other)
