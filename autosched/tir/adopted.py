"""Schedules that take the loops of the schedule that they were copied from, or made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import Any

from autosched.tir.blocks import BlockSchedule


class Adopted(BlockSchedule):
    """A schedule that knows what loops of another one are called here: those in `former`."""

    former: dict[Any, Any]

    def __new__(cls, *args: Any, **options: Any) -> Any:
        return object.__new__(cls)

    def known(self, handle: Any) -> Any:
        """What a handle, or each of several, is called here."""
        if isinstance(handle, (list, tuple)):
            return type(handle)(map(self.known, handle))
        try:
            return self.former.get(handle, handle)
        except TypeError:  # no handle is without a hash
            return handle


def _taking_former(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: Adopted, *args: Any, **options: Any) -> Any:
        given = {k: self.known(v) for k, v in options.items()}
        return getattr(super(Adopted, self), name)(*map(self.known, args), **given)

    return call


for _class in BlockSchedule.__mro__[:-1]:
    for _name, _value in vars(_class).items():
        if isfunction(_value) and not _name.startswith("_") and _name not in vars(Adopted):
            setattr(Adopted, _name, _taking_former(_name, _value))
BlockSchedule.adopted = Adopted
