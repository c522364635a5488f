"""What one decision of a configuration is: a split, an order, annotations, or any other value.

The sizes of a split, and a value, are numbers in a configuration, and knobs while a template is traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autosched.errors import UsageError
from autosched.schedule.entities import compute_caches, mark_by, reorder_by, split_by

__all__ = ["AnnotateEntity", "Entity", "OtherOptionEntity", "ReorderEntity", "SplitEntity"]


class Entity:
    """Base of the four kinds. Equal when they say the same; `kind` is the mark that logs give it."""

    kind = ""

    @property
    def value(self) -> Any:
        """What a log keeps of it."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entity) and repr(self) == repr(other) and self.kind == other.kind

    def __hash__(self) -> int:
        return hash((self.kind, repr(self)))

    def __repr__(self) -> str:
        return str(self.value)


class SplitEntity(Entity):
    """Sizes of the loops that one is split into, outermost first; -1 is what the others leave.

    >>> SplitEntity([-1, 8])
    [-1, 8]
    """

    kind = "sp"

    def __init__(self, size: Sequence[Any]) -> None:
        self.size = list(size)

    @property
    def value(self) -> list[Any]:
        return self.size

    def apply(self, sch: Any, op: Any, axis: Any) -> list[Any]:
        """Split a loop of a stage of the schedule; the loops, outermost first."""
        return split_by(sch, op, axis, self.size)


class ReorderEntity(Entity):
    """An order of loops: for each place, the loop that comes there.

    >>> ReorderEntity([0, 2, 1])
    [0, 2, 1]
    """

    kind = "re"

    def __init__(self, perm: Sequence[int]) -> None:
        self.perm = list(perm)

    @property
    def value(self) -> list[int]:
        return self.perm

    def apply(self, sch: Any, op: Any, axes: Sequence[Any]) -> list[Any]:
        """Reorder these loops of a stage; the loops in the new order."""
        return reorder_by(sch, op, axes, self.perm)


class AnnotateEntity(Entity):
    """For each loop `none`, `unroll`, `vec`, `fuse` or a thread axis; or the loops at which caches go.

    >>> AnnotateEntity(["none", "vec"])
    ['none', 'vec']
    """

    kind = "an"

    def __init__(self, anns: Sequence[Any]) -> None:
        self.anns = list(anns)

    @property
    def value(self) -> list[Any]:
        return self.anns

    def apply(
        self,
        sch: Any,
        op: Any,
        axes: Sequence[Any],
        axis_lens: Sequence[Any] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Any = None,
        source: Sequence[Sequence[Any]] | None = None,
    ) -> list[Any]:
        """Annotate these loops of a stage; the loops afterwards.

        `source`: tensors to compute at each of the chosen loops. A loop that is longer than `max_unroll`, or
        of a length that is not in `vec_size`, makes the configuration `cfg` invalid; the lengths are
        `axis_lens`.
        """
        if source is not None:
            return compute_caches(sch, op, axes, self.anns, source)

        def limit(at: int, loop: Any) -> None:
            length = axis_lens[at] if axis_lens is not None else None
            if length is None:
                return
            if self.anns[at] == "unroll" and max_unroll and length > max_unroll:
                cfg.raise_error("Too large factor for unrolling")
            if self.anns[at] == "vec" and vec_size and length not in vec_size:
                cfg.raise_error("Wrong size of lanes in vectorization")

        return mark_by(sch, op, axes, self.anns, limit)


class OtherOptionEntity(Entity):
    """Any value; `val`.

    >>> OtherOptionEntity(16).val
    16
    """

    kind = "ot"

    def __init__(self, val: Any) -> None:
        self.val = val

    @property
    def value(self) -> Any:
        return self.val


_KINDS: dict[str, type[Any]] = {k.kind: k for k in (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)}


def entity_of(kind: str, value: Any) -> Entity:
    """The entity that a log has as `kind` and `value`. Raises UsageError for another kind."""
    if kind not in _KINDS or (kind != "ot" and not isinstance(value, list)):
        raise UsageError(
            f"{kind!r} with {value!r:.60} is no entity", asked="a configuration", legal="sp, re, an with a list; ot"
        )
    made: Entity = _KINDS[kind](value)
    return made
