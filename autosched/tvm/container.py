"""`tvm.container`, `tvm.ir.container` and `tvm.runtime.container`: Python's own kinds of lists, by TVM's names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autosched.errors import UsageError
from autosched.tvm._missing import missing

Array = tuple
Map = dict
String = str


class ShapeTuple(tuple[int, ...]):
    """Lengths; equal to lists of the same numbers, too."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    __hash__ = tuple.__hash__


class ADT(Sequence[Any]):
    """Values with a number that tells what kind of value they make up."""

    def __init__(self, tag: int, fields: Iterable[Any]) -> None:
        self.tag, self.fields = tag, tuple(fields)

    def __getitem__(self, index: Any) -> Any:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


def tuple_object(fields: Iterable[Any] = ()) -> ADT:
    """Arrays, or tuples of such, as one value. Raises UsageError for anything else."""
    from autosched.runtime.ndarray import NDArray

    given = tuple(fields)
    for value in given:
        if not isinstance(value, (NDArray, ADT)):
            raise UsageError(f"{value!r:.60} is no array", asked="tuple_object", legal="arrays, and tuples of them")
    return ADT(0, given)


def getitem(obj: Any, helper: Any, length: int, index: Any) -> Any:
    """Element `index`, or the elements of a slice, of what has `length` and gives element k as `helper(obj, k)`."""
    if isinstance(index, slice):
        return [helper(obj, k) for k in range(*index.indices(length))]
    if not -length <= index < length:
        raise IndexError(f"{index} is none of {length} elements")
    return helper(obj, index % length)


__getattr__ = missing("container", globals())
