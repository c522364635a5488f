"""Functions that are another one for each kind of target.

    @tvm.target.generic_func
    def lanes() -> int:
        return 4

    @lanes.register(["cuda", "gpu"])
    def _() -> int:
        return 1

`lanes()` inside `with tvm.target.Target("cuda")` is 1: the first of the target's `keys` that has a function decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.errors import UsageError
from autosched.target import Target


class GenericFunc:
    """A function, and others for keys of targets. Raises UsageError when it is called and has none that fits."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._default: Callable[..., Any] | None = None
        self._of_key: dict[str, Callable[..., Any]] = {}

    def __call__(self, *args: Any, **options: Any) -> Any:
        target = Target.current(allow_none=True)
        keys = () if target is None else target.keys
        chosen = next((self._of_key[key] for key in keys if key in self._of_key), self._default)
        if chosen is None:
            legal = f"{self.__name__}.set_default(function), or a target with one of {', '.join(self._of_key)}"
            raise UsageError("it has no default", asked=f"{self.__name__}() for target {target}", legal=legal)
        return chosen(*args, **options)

    def set_default(self, func: Callable[..., Any], allow_override: bool = False) -> None:
        """Take a function for targets without one of their own."""
        if self._default is not None and not allow_override:
            self._refuse("set_default", "it has a default")
        self._default = func

    def register(
        self, func: Any, key_list: str | Sequence[str] | None = None, allow_override: bool = False
    ) -> Callable[..., Any]:
        """Take a function for keys of targets, or as a decorator: `@f.register("cpu")`."""
        if key_list is None:
            return lambda function: self.register(function, func, allow_override)
        keys = [key_list] if isinstance(key_list, str) else list(key_list)
        taken = [key for key in keys if key in self._of_key and not allow_override]
        if taken:
            self._refuse(f"register(.., {taken[0]!r})", f"{taken[0]} has a function")
        self._of_key.update(dict.fromkeys(keys, func))
        found: Callable[..., Any] = func
        return found

    def get_packed_func(self) -> Callable[..., Any]:
        """These functions as they are now: later ones do not change them."""
        made = GenericFunc(self.__name__)
        made._default, made._of_key = self._default, dict(self._of_key)
        return made

    def _refuse(self, asked: str, why: str) -> None:
        raise UsageError(f"{why} already", asked=f"{self.__name__}.{asked}", legal="allow_override=True")


_named: dict[str, GenericFunc] = {}


def get_native_generic_func(name: str) -> GenericFunc:
    """The function of that name, a new one where there is none yet."""
    return _named.setdefault(name, GenericFunc(name))


def generic_func(fdefault: Callable[..., Any]) -> GenericFunc:
    """Make a function the default one of a `GenericFunc` (a decorator)."""
    made = GenericFunc(fdefault.__name__)
    made.set_default(fdefault)
    made.__doc__ = fdefault.__doc__
    return made


def override_native_generic_func(func_name: str) -> Callable[[Callable[..., Any]], GenericFunc]:
    """Make a function the default one of the `GenericFunc` of a name (a decorator)."""

    def decorate(fdefault: Callable[..., Any]) -> GenericFunc:
        made = get_native_generic_func(func_name)
        made.set_default(fdefault, allow_override=True)
        return made

    return decorate
