"""`HardwareParams`: what Ansor is told of a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from autosched.target import Target

__all__ = ["HardwareParams"]


@dataclass(frozen=True)
class HardwareParams:
    """What a device can do. What is None is found out.

    `num_cores`, `max_shared_memory_per_block` and `max_threads_per_block` become options of the target. The
    other numbers are Ansor's own and change nothing.
    """

    num_cores: int | None = None
    vector_unit_bytes: int | None = None
    cache_line_bytes: int | None = None
    max_shared_memory_per_block: int | None = None
    max_local_memory_per_block: int | None = None
    max_threads_per_block: int | None = None
    max_vthread_extent: int | None = None
    warp_size: int | None = None

    def __iter__(self) -> Iterator[int | None]:
        return (getattr(self, f.name) for f in fields(self))

    def applied(self, target: Target) -> Target:
        """The target with these limits, where it has such an option and its own text says nothing."""
        given = {
            "threads": self.num_cores,
            "max_threads_per_block": self.max_threads_per_block,
            "max_shared_memory_per_block": self.max_shared_memory_per_block,
        }
        options = [
            f"-{name}={number}"
            for name, number in given.items()
            if number is not None and number > 0 and name in target.kind.options and name not in target.options
        ]
        return Target(" ".join([str(target), *options])) if options else target
