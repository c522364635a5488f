"""Names that packages above give to classes of the core: see `ir.attached`."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from autosched.ir.attached import alias, attach


@dataclass(slots=True)
class Inner:
    width: int


@dataclass(slots=True)
class Outer:
    inner: Inner


def test_an_alias_is_read_only_and_follows_dots() -> None:
    attach(Outer, w=alias("inner.width"), part=alias("inner"))
    outer = Outer(Inner(3))
    assert outer.w == 3 and outer.part is outer.inner
    with pytest.raises(AttributeError):
        outer.part = Inner(4)
    assert Outer.w.__doc__ == "The same as `inner.width`."


def test_a_function_becomes_a_method() -> None:
    attach(Inner, times=lambda inner, n: inner.width * n)
    assert Inner(3).times(2) == 6
