"""Where TVM's programs store intermediates of kernels: names of memory, and copies that threads make together.

`warp` is memory that the threads of a warp share, by instructions of their own: here it is shared memory. A `local`
stage whose loops are bound to threads is computed by all threads of a group, each its part, so it is shared as well.
"""

from __future__ import annotations

from copy import deepcopy
from functools import wraps
from typing import Any

from autosched.ir.attached import attach
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Stage
from autosched.tvm.attributes import of_tvm

_SHARED = "shared"


def _known(s: Schedule, scope: Any) -> Any:
    """The scope by its name here."""
    return _SHARED if isinstance(scope, str) and scope == "warp" and s in of_tvm else scope


_set_scope, _cache_read, _cache_write = Stage.set_scope, Schedule.cache_read, Schedule.cache_write


@wraps(_set_scope)
def set_scope(self: Stage, scope: str) -> Any:
    return _set_scope(self, _known(self.schedule, scope))


@wraps(_cache_read)
def cache_read(self: Schedule, tensor: Any, scope: str = "global", *args: Any, **options: Any) -> Any:
    return _cache_read(self, tensor, _known(self, scope), *args, **options)


@wraps(_cache_write)
def cache_write(self: Schedule, tensor: Any, scope: str = "global", *args: Any, **options: Any) -> Any:
    return _cache_write(self, tensor, _known(self, scope), *args, **options)


attach(Stage, set_scope=set_scope)
attach(Schedule, cache_read=cache_read, cache_write=cache_write)


def shared(s: Schedule, of_blocks: bool = False) -> Schedule:
    """The schedule with storage that several threads of a group compute shared among them: itself, or a copy."""
    where = [at for at, stage in enumerate(s.stages) if (of_blocks or s in of_tvm) and _is_of_a_group(stage)]
    if not where:
        return s
    made = deepcopy(s)
    if s in of_tvm:
        of_tvm.add(made)
    for at in where:
        made.stages[at].set_scope(_SHARED)
    return made


def _is_of_a_group(stage: Stage) -> bool:
    """Whether it is said to be local, inside of a kernel, and threads share its spatial loops."""
    return (
        stage.attach.kind == "at"
        and stage.scope == "local"
        and not stage.is_output
        and any(x.thread.startswith("threadIdx") and not x.is_reduce for x in stage.loops)
    )
