"""What the operators take, said once: arguments are compared with the annotations before an operator runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from autosched.errors import UsageTypeError, expect, is_list_of
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def _is_tensor(x: object) -> bool:
    return isinstance(x, Tensor)


def _are_tensors(x: object) -> bool:
    return is_list_of(x, Tensor)


def _is_whole(x: object) -> bool:
    if isinstance(x, Expr):
        return x.dtype.is_integer
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _is_text(x: object) -> bool:
    return isinstance(x, str)


def _are_whole(x: object) -> bool:
    return isinstance(x, (list, tuple, range, np.ndarray)) and all(map(_is_whole, x))


def _is_number(x: object) -> bool:
    return isinstance(x, (int, float, np.integer, np.floating)) and not isinstance(x, bool)


def _is_truth(x: object) -> bool:
    return isinstance(x, (bool, int, np.bool_))


#: an annotation -> what that is, and the tests of which one has to hold
_KINDS: dict[str, tuple[str, tuple[Callable[[object], bool], ...]]] = {
    "Tensor": ("a te tensor", (_is_tensor,)),
    "Sequence[Tensor]": ("a list of te tensors", (_are_tensors,)),
    "Tensor | Sequence[Tensor]": ("a te tensor, or a list of them", (_is_tensor, _are_tensors)),
    "int": ("a whole number", (_is_whole,)),
    "Dim": ("a whole number", (_is_whole,)),
    "Sequence[int]": ("a list of whole numbers", (_are_whole,)),
    "Sequence[Dim]": ("a list of whole numbers", (_are_whole,)),
    "Dims": ("a whole number, or a list of them", (_is_whole, _are_whole)),
    "Dims | str": ("a whole number, a list of them, 'VALID' or 'SAME'", (_is_whole, _are_whole, _is_text)),
    "bool": ("True or False", (_is_truth,)),
    "float": ("a number", (_is_number,)),
    "str": ("text", (_is_text,)),
    "Callable[[Expr], Expr]": ("a function", (callable,)),
}


def checked(operator: F, called: str = "") -> F:
    """The operator, which raises UsageTypeError for arguments that are not what their annotations say.

    What is annotated as `object` or `Any` the operator looks at itself.
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
            given = signature.bind(*args, **kwargs)
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


def check_calls(namespace: dict[str, Any], names: Iterable[str]) -> None:
    """Make every function of these names in a module a checked one."""
    home = namespace["__name__"].partition(".")[2]
    functions = {n: namespace[n] for n in names if isinstance(namespace[n], FunctionType)}
    namespace.update({n: checked(function, f"{home}.{n}") for n, function in functions.items()})
