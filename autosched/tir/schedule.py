"""`tir.Schedule`: a schedule of stages or, where `autosched.tvm` was imported, of statements.

A call may make one of the other. A program holds blocks and loops all the while: those of a schedule that this is a
copy of, or that it was before, stand for those that have become of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from inspect import isfunction
from typing import Any, ClassVar

from autosched.errors import ScheduleError
from autosched.schedule.primitive import PRIMITIVES
from autosched.tir.blocks import Block, BlockSchedule

#: calls that may be made on the statements, where stages refuse them
_OTHERWISE = ("compute_inline", "reverse_compute_inline", "reverse_compute_at")


class Schedule:
    __doc__ = BlockSchedule.__doc__

    statements: ClassVar[Any] = None  #: what makes schedules of statements: see `autosched.tvm.script.becoming`

    def __init__(
        self,
        mod: Any,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
    ) -> None:
        other = self.statements
        kind = other.made if other is not None and other.fits(mod) else BlockSchedule
        self._held: Any = kind(mod, seed=seed, debug_mask=debug_mask, error_render_level=error_render_level)
        self._now: dict[Any, Any] = {}  #: loops of former schedules -> those of this one
        self._before: Any = None  #: the trace of what this was before

    @property
    def mod(self) -> Any:
        """The module as it is now. Later calls do not change it."""
        return self._held.mod

    @property
    def schedule(self) -> Any:
        """The schedule underneath, of the function that is being worked on."""
        return self._held.schedule

    @property
    def func_working_on(self) -> str:
        return str(self._held.func_working_on)

    @property
    def trace(self) -> Any:
        """All calls: see `Trace.as_python`."""
        if self._before is None or self.statements is None:
            return self._held.trace
        return self.statements.trace(self._before, self._held)

    def show(self) -> None:
        """Print the module and the trace."""
        print(self.mod.script())
        print(self.trace.as_python())

    def copy(self) -> Schedule:
        """Return a copy, which takes the loops of this one, too."""
        made: Schedule = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._hold(*self._held.copy())
        return made

    def as_stages(self) -> bool:
        """Be a schedule of stages from now on, if the function has stages. Returns whether it has."""
        made = None if self._has_stages() or self.statements is None else self.statements.staged(self._held)
        if made is not None:
            self._before = self._held.trace
            self._hold(*made)
        return self._has_stages()

    def read_at(self, loop: Any, block: Block, read_buffer_index: int, storage_scope: str) -> Block:
        """Copy what one iteration of a loop reads of a buffer, for a block inside: `cache_read`, then `compute_at`.

        Returns the block of the copy.
        """
        copy = self.cache_read(block, read_buffer_index, storage_scope, [block])
        self.compute_at(copy, loop)
        return copy  # type: ignore[no-any-return]

    def write_at(self, loop: Any, block: Block, write_buffer_index: int, storage_scope: str) -> Block:
        """Compute a block inside of a loop into a buffer, which each iteration copies: `cache_write`, then
        `reverse_compute_at`. Returns the block of the copy."""
        copy = self.cache_write(block, write_buffer_index, storage_scope)
        self.reverse_compute_at(copy, loop)
        return copy  # type: ignore[no-any-return]

    def can_decompose_padding(self, block: Any, loop: Any) -> bool:
        """Whether `decompose_padding` would take the block."""
        if not self._has_stages():
            return bool(self._held.can_decompose_padding(block, self._known(loop)))
        self._held._stage(block)
        try:
            self._edited("decompose_padding", (block, loop), {})
        except ScheduleError:
            return False
        return True

    # -- either kind ------------------------------------------------------------------------------
    def _has_stages(self) -> bool:
        return isinstance(self._held, BlockSchedule)

    def _hold(self, held: Any, now: Mapping[Any, Any] | None) -> None:
        """Go on with another schedule, which calls the loops of this one what `now` says; None: they are its own."""
        self._held = held
        if now is not None:
            self._now = {**now, **{old: now[x] for old, x in self._now.items() if x in now}}

    def _known(self, handle: Any) -> Any:
        """What a handle, or each of several, is called now."""
        if isinstance(handle, (list, tuple)):
            return type(handle)(map(self._known, handle))
        try:
            return self._now.get(handle, handle)
        except TypeError:  # no handle is without a hash
            return handle

    def _call(self, name: str, /, *args: Any, **options: Any) -> Any:
        """Make a call of a name, on the kind of schedule that has a place for it."""
        if not self._has_stages() and not hasattr(type(self._held), name):
            if not self.as_stages():
                self._held._refuse(f"{name}(..)", self._held.why_no_stages())
        elif self._has_stages() and self.statements is not None and name in self.statements.EDITS:
            return self._edit(name, args, options)
        given = {k: self._known(v) for k, v in options.items()}
        try:
            return getattr(self._held, name)(*map(self._known, args), **given)
        except ScheduleError as refused:
            if not self._has_stages() or name not in _OTHERWISE:
                raise
            try:
                return self._edit(name, args, options)
            except ScheduleError:
                raise refused from None

    def _edit(self, name: str, args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Make a call that stages have no place for on the statements."""
        made, result = self._edited(name, args, options)
        self.__dict__.update(made.__dict__)
        self.as_stages()
        return self._known(result)

    def _edited(self, name: str, args: Sequence[Any], options: Mapping[str, Any]) -> tuple[Schedule, Any]:
        """The schedule of statements after a call, and its result. Raises ScheduleError, and leaves this as it is."""
        if self.statements is None or self._held._template is not None:
            return self, getattr(self._held, name)(*args, **options)  # which refuses it
        made: Schedule = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._hold(*self.statements.dissolved(self._held, self.trace))
        made._before = None
        return made, made._call(name, *args, **options)

    def __getattr__(self, name: str) -> Any:
        """A primitive without a spelling of its own here, or a part of the schedule that is held."""
        if name in PRIMITIVES:
            return partial(self._call, name)
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._held, name)


def _of(name: str, method: Callable[..., Any]) -> Any:
    @wraps(method)
    def call(self: Schedule, *args: Any, **options: Any) -> Any:
        return self._call(name, *args, **options)

    return call


for _class in BlockSchedule.__mro__[:-1]:
    for _name, _value in vars(_class).items():
        if isfunction(_value) and not _name.startswith("_") and _name not in vars(Schedule):
            setattr(Schedule, _name, _of(_name, _value))
