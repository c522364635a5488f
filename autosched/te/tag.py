"""Tags of operations: what kind of computation they are, for templates and passes to look at."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

from autosched.errors import UsageError, expect

_current: ContextVar[str] = ContextVar("tag", default="")
_F = TypeVar("_F", bound=Callable[..., Any])


class TagScope:
    """Inside it, every operation that is made has this tag; also a decorator. See `tag_scope`."""

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def __enter__(self) -> TagScope:
        if _current.get():
            raise UsageError(
                f"this is inside tag_scope({_current.get()!r})",
                asked=f"tag_scope({self.tag!r})",
                legal="one scope at a time",
            )
        _current.set(self.tag)
        return self

    def __exit__(self, *error: object) -> None:
        _current.set("")

    def __call__(self, function: _F) -> _F:
        @wraps(function)
        def tagged(*args: Any, **kwargs: Any) -> Any:
            with TagScope(self.tag):
                return function(*args, **kwargs)

        return tagged  # type: ignore[return-value]


def tag_scope(tag: str) -> TagScope:
    """A scope, or a decorator, whose operations get that tag. Raises UsageError inside another one.

    >>> from autosched import te
    >>> A = te.placeholder((8,), name="A")
    >>> with te.tag_scope("elemwise"):
    ...     B = te.compute((8,), lambda i: A[i] + 1, name="B")
    >>> B.op.tag
    'elemwise'
    """
    return TagScope(tag)


def tag_of(tag: str, asked: str) -> str:
    """The tag that an operation gets: the one given, or that of the scope around it; not both."""
    expect(tag, "text", isinstance(tag, str), f"{asked}, tag=..")
    scope = _current.get()
    if tag and scope:
        raise UsageError(
            f"it has the tag {tag!r}, and is inside tag_scope({scope!r})", asked=asked, legal="one tag for an operation"
        )
    return tag or scope
