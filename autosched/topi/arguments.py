"""Arguments of the operators: checked against annotations, and shapes, axes and types read off them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from autosched import te
from autosched.errors import UsageError, UsageTypeError, expect, is_list_of
from autosched.ir.dtype import DType
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, const, is_const
from autosched.ir.simplify import always_equal, simplify
from autosched.te.tensor import Tensor, as_tensor

Dim = int | Expr
#: one number for all dimensions, or one for each
Dims = Dim | Sequence[Dim]
#: numbers, or the name of a rule
Pads = Dims | str


def same(a: Dim, b: Dim) -> bool:
    """Return whether two dimensions are certainly equal."""
    return always_equal(as_expr(a), as_expr(b))


def number(d: object, of: str) -> int:
    """Return a dimension as a number. Raises UsageError for a symbolic one."""
    e = as_expr(d)
    if not is_const(e):
        raise UsageError(f"{e!r} is known at run time only", asked=of, legal="a constant")
    return int(e.value)


def product(dims: Iterable[Dim]) -> Expr:
    total: Expr = const(1)
    for d in dims:
        total = total * d
    return simplify(total)


def quotient(dims: Iterable[Dim], by: Iterable[Dim]) -> Expr:
    """The product of dimensions divided by that of others: what is left open in a reshape."""
    count, over = _factors(product(dims))
    part, under = _factors(product(by))
    for f in list(under):
        k = next((k for k, other in enumerate(over) if same(f, other)), None)
        if k is not None:
            del over[k]
            under.remove(f)
    if not under and part and count % part == 0:
        return product([count // part, *over])
    return simplify(te.floordiv(product([count, *over]), product([part, *under])))


def _factors(e: Expr) -> tuple[int, list[Expr]]:
    """A product as a number and other factors."""
    if is_const(e):
        return int(e.value), []
    if e.op != "mul":
        return 1, [e]
    (a, x), (b, y) = map(_factors, e.args)
    return a * b, x + y


def unravel(at: Expr, shape: Sequence[Dim]) -> list[Expr]:
    """Return the indices of the element at a place in row-major order."""
    found: list[Expr] = []
    for k, d in enumerate(reversed(shape)):
        found.insert(0, at if k == len(shape) - 1 else te.floormod(at, d))
        at = te.floordiv(at, d)
    return found


def axis_of(t: Tensor, axis: object, asked: str) -> int:
    """Return an axis as a number from 0 on; negative ones count from the end."""
    if isinstance(axis, bool) or not isinstance(axis, int) or not -t.ndim <= axis < t.ndim:
        raise UsageError(f"{t.name} has no axis {axis!r}", asked=asked, legal=f"{-t.ndim} to {t.ndim - 1}")
    return axis % t.ndim


def axes_of(t: Tensor, axis: object, asked: str) -> list[int]:
    """Return axes in order; all of them for None."""
    if axis is None:
        return list(range(t.ndim))
    chosen = [axis_of(t, a, asked) for a in (axis if isinstance(axis, (list, tuple)) else [axis])]
    if len(set(chosen)) < len(chosen):
        raise UsageError("an axis is named twice", asked=asked, legal="each axis once")
    return sorted(chosen)


def broadcast_shapes(a: Sequence[Dim], b: Sequence[Dim], asked: str) -> tuple[Expr, ...]:
    """Return the common shape by NumPy's rule: aligned at the last dimension, ones stretch."""
    out: list[Expr] = []
    for k in range(1, max(len(a), len(b)) + 1):
        x = as_expr(a[-k]) if k <= len(a) else const(1)
        y = as_expr(b[-k]) if k <= len(b) else const(1)
        if is_const(x, 1) or same(x, y):
            out.insert(0, y)
        elif is_const(y, 1):
            out.insert(0, x)
        else:
            raise UsageError(
                f"dimensions {x!r} and {y!r} do not go together",
                asked=f"{asked} of shapes {list(a)} and {list(b)}",
                legal="equal dimensions, or 1",
            )
    return tuple(out)


def pair(value: object, count: int, asked: str, least: int = 1) -> tuple[Dim, ...]:
    """Return a number for each of `count` dimensions, given one for all or one for each; at least `least` if known."""
    listed: tuple[Dim, ...] = tuple(value) if isinstance(value, (list, tuple)) else (value,)  # type: ignore[assignment]
    if len(listed) not in (1, count):
        raise UsageError(f"{len(listed)} numbers for {count} dimensions", asked=asked, legal=f"1 or {count}")
    at_least(least, listed, asked)
    return listed * count if len(listed) == 1 else listed


def at_least(least: int, given: Iterable[Dim], asked: str) -> None:
    """Raise UsageError for a number that is known and too small."""
    for d in given:
        if isinstance(d, int) and d < least:
            raise UsageError(f"{d} is less than {least}", asked=asked, legal=f"{least} or more")


def windows(size: Dim, kernel: Dim, stride: Dim, dilation: Dim, before: Dim, after: Dim, ceil: bool = False) -> Expr:
    """Return how many windows fit along a dimension. With `ceil`, one that begins inside may end outside."""
    room = as_expr(size) + before + after - (as_expr(kernel) - 1) * dilation - 1
    steps = (room + stride - 1) // stride if ceil else room // stride
    return simplify(steps + 1)


def accumulator(of: object) -> DType:
    """Return the type of sums whose result is of type `of`."""
    found = to_dtype(of)
    return to_dtype("float32") if found.is_float and found.bits == 16 else found


def narrowed(x: Tensor, of: object) -> Tensor:
    """Round sums to type `of`, where they are of another."""
    to = to_dtype(of)
    if x.dtype == to:
        return x
    return te.compute(x.shape, lambda *i: x(*i).astype(to), name=f"{x.op.name}_{to}", tag="elemwise")


# -- checks -------------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda x: isinstance(x, kinds)


def _are_tensors(x: object) -> bool:
    return is_list_of(x, Tensor)


def _is_number(x: object) -> bool:
    return isinstance(x, (int, float, np.integer, np.floating)) and not isinstance(x, bool)


def _is_whole(x: object) -> bool:
    if isinstance(x, Expr):
        return x.dtype.is_integer
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _are_whole(x: object) -> bool:
    return isinstance(x, (list, tuple, range, np.ndarray)) and all(map(_is_whole, x))


#: annotation -> its name for people, and tests, one of which must hold
_KINDS: dict[str, tuple[str, tuple[Callable[[object], bool], ...]]] = {
    "Tensor": ("a te tensor", (_is(Tensor),)),
    "Sequence[Tensor]": ("a list of te tensors", (_are_tensors,)),
    "Tensor | Sequence[Tensor]": ("a te tensor, or a list of them", (_is(Tensor), _are_tensors)),
    "int": ("a whole number", (_is_whole,)),
    "Dim": ("a whole number", (_is_whole,)),
    "Sequence[int]": ("a list of whole numbers", (_are_whole,)),
    "Sequence[Dim]": ("a list of whole numbers", (_are_whole,)),
    "Dims": ("a whole number, or a list of them", (_is_whole, _are_whole)),
    "Pads": ("a whole number, a list of them, 'VALID' or 'SAME'", (_is_whole, _are_whole, _is(str))),
    "bool": ("True or False", (_is(bool, int, np.bool_),)),
    "float": ("a number", (_is_number,)),
    "str": ("text", (_is(str),)),
    "Callable[[Expr], Expr]": ("a function", (callable,)),
}


def checked(operator: F, called: str = "") -> F:
    """Make an operator raise UsageTypeError for arguments that their annotations do not allow.

    Those annotated as `object` or `Any` it checks itself.
    """
    of = called or f"topi.{operator.__name__}"
    signature = inspect.signature(operator)
    kinds = {}
    for p in signature.parameters.values():
        text = str(p.annotation)
        if (kind := text.removesuffix(" | None")) in _KINDS:
            kinds[p.name] = (*_KINDS[kind], kind != text, p.kind is p.VAR_POSITIONAL)

    @wraps(operator)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*map(as_tensor, args), **{k: as_tensor(x) for k, x in kwargs.items()})
        except TypeError as error:
            raise UsageTypeError(str(error), asked=of, legal=f"{of}({', '.join(signature.parameters)})") from None
        for name, (what, tests, is_optional, is_several) in kinds.items():
            if name not in given.arguments:
                continue
            value = given.arguments[name]
            for one in value if is_several else [value]:
                holds = (one is None and is_optional) or any(test(one) for test in tests)
                expect(one, what, holds, f"{of}({name}=..)")
            given.arguments[name] = _plain(value)
        return operator(*given.args, **given.kwargs)

    return cast(F, call)


def _plain(x: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(x, (np.ndarray, np.generic)):
        return x.tolist()
    return type(x)(map(_plain, x)) if type(x) in (list, tuple) else x


def check_calls(namespace: dict[str, Any], own: str = "") -> None:
    """Make every operator in a module's namespace a checked one.

    own: what the module is called; then these are the operators that are defined there
    """
    module = namespace["__name__"]
    for name, f in list(namespace.items()):
        if isinstance(f, FunctionType) and f.__module__ != __name__ and not name.startswith("_"):
            if own and f.__module__ != module:
                continue
            namespace[name] = checked(f, f"{own or module.partition('.')[2]}.{name}")
