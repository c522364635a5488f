"""Kernels on devices, whatever their language: how a host launches them, and calls with buffers of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, zip_longest
from math import prod
from typing import Any, Protocol, cast

import numpy as np

from autosched.codegen.artifact import Artifact, Signature
from autosched.codegen.signature import Dim, evaluate_dim
from autosched.errors import BuildError, DeviceError
from autosched.ir.dtype import dtype
from autosched.runtime.arguments import check_arrays, is_resident
from autosched.runtime.strided import memory_of

Array = np.ndarray[Any, Any]

_NARROW_LIMIT = 2**31


class DeviceLimits(Protocol):
    """Limits of a device: work-items of a group, also along each axis, and bytes of memory."""

    @property
    def name(self) -> str: ...
    @property
    def max_work_group(self) -> int: ...
    @property
    def max_work_items(self) -> Sequence[int]: ...
    @property
    def shared_memory(self) -> int: ...
    @property
    def global_memory(self) -> int: ...


@dataclass(frozen=True)
class Launch:
    """One kernel launch, as `codegen.c_family.Program` describes it.

    Launches of one `loop`, whose number is its first element, follow each other: the host runs all of them for each of
    its steps, from the second element on, as many as the third. `step` is the one that a launch is for.
    """

    name: str
    grid: tuple[Dim, ...]
    block: tuple[Dim, ...]
    shared_bytes: Dim
    args: tuple[tuple[str, Any], ...]
    when: Dim = 1
    loop: tuple[int, Dim, Dim] | None = None
    step: int = 0

    def runs(self, sizes: Mapping[str, int]) -> bool:
        """True if it is for these sizes and has anything to run: drivers call an empty grid an error."""
        return evaluate_dim(self.when, sizes) > 0 and all(evaluate_dim(d, sizes) > 0 for d in (*self.grid, *self.block))

    def steps(self, sizes: Mapping[str, int]) -> range:
        """The steps of its loop; one, where it is in none."""
        if self.loop is None:
            return range(1)
        _, start, extent = (evaluate_dim(d, sizes) for d in self.loop)
        return range(start, start + extent)

    def extents(self, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Work-groups along x, y and z, and work-items of each."""
        return tuple(evaluate_dim(d, sizes) for d in self.grid), tuple(evaluate_dim(d, sizes) for d in self.block)

    def check(self, sizes: Mapping[str, int], device: DeviceLimits) -> None:
        """Raise BuildError for a work-group, or its shared memory, beyond the limits of the device."""
        _, block = self.extents(sizes)
        if prod(block) > device.max_work_group:
            raise self.too_many(block, device.name, device.max_work_group)
        if any(b > limit for b, limit in zip(block, device.max_work_items, strict=False)):
            raise self.too_many(block, device.name, times(device.max_work_items))
        self.check_shared(evaluate_dim(self.shared_bytes, sizes), device)

    def check_shared(self, shared: int, device: DeviceLimits) -> None:
        if shared > device.shared_memory:
            what = f"{shared} bytes of shared memory for each work-group"
            raise self._refused(what, device.name, device.shared_memory)

    def too_many(self, block: Sequence[int], device: str, limit: object) -> BuildError:
        return self._refused(f"a work-group of {times(block)} work-items", device, limit)

    def _refused(self, what: str, device: str, limit: object) -> BuildError:
        return BuildError(
            f"it asks for {what}, and {device!r} allows {limit}",
            asked=f"kernel {self.name!r}",
            legal="use smaller tiles, or bind fewer loops to threads",
        )


@dataclass(frozen=True)
class LaunchPlan:
    """The host's side of a program: its launches, and `(name, dtype, elements)` of the buffers it needs."""

    launches: tuple[Launch, ...]
    device: tuple[tuple[str, str, Dim], ...]
    index_bound: Dim

    @staticmethod
    def of(artifact: Artifact) -> LaunchPlan:
        """Read an artifact's `meta`. Raises BuildError if it is not what the code generator writes."""
        try:
            meta = artifact.meta
            launches = tuple(
                Launch(
                    str(launch["name"]),
                    _three(launch["grid"]),
                    _three(launch["block"]),
                    launch["shared_bytes"],
                    tuple((str(kind), value) for kind, value in launch["args"]),
                    launch.get("when", 1),
                    launch.get("loop") and tuple(launch["loop"]),
                )
                for launch in meta["launches"]
            )
            device = tuple((str(b["name"]), str(dtype(b["dtype"])), b["elements"]) for b in meta["device"])
            return LaunchPlan(launches, device, meta["index_bound"])
        except (KeyError, TypeError, ValueError) as error:
            raise BuildError(
                f"the artifact does not say how to launch its kernels: {error!r}",
                asked=artifact.signature.name,
                legal="build it again with this version",
            ) from None

    def in_order(self, sizes: Mapping[str, int]) -> Iterator[tuple[int, Launch]]:
        """The launches of a call, those of a loop once for each step, with their numbers among `launches`."""
        numbered = enumerate(self.launches)
        for _, group in groupby(numbered, key=lambda x: -1 - x[0] if x[1].loop is None else x[1].loop[0]):
            together = [(number, launch) for number, launch in group if launch.runs(sizes)]
            for step in together[0][1].steps(sizes) if together else ():
                yield from ((number, replace(launch, step=step)) for number, launch in together)

    def is_wide(self, sizes: Mapping[str, int]) -> bool:
        """True if an offset of a call with these sizes might not fit into 32 bits."""
        return evaluate_dim(self.index_bound, sizes) >= _NARROW_LIMIT


def _three(dims: Any) -> tuple[Dim, ...]:
    if len(dims) != 3:
        raise ValueError(f"{dims!r} is not three extents")
    return tuple(dims)


def times(extents: Sequence[int]) -> str:
    return " x ".join(map(str, extents))


# -- kernels on devices -------------------------------------------------------------------------------


class DeviceKernel:
    """The kernels of one artifact. A program is built once for each width of `index_t`."""

    def __init__(self, artifact: Artifact) -> None:
        self.signature: Signature = artifact.signature
        self.plan = LaunchPlan.of(artifact)
        self._source = artifact.code.decode()
        self._programs: dict[bool, Any] = {}

    def checked(self, arrays: Sequence[Array], device: DeviceLimits) -> tuple[dict[str, int], list[Launch]]:
        """The sizes of a call and its launches, after all checks. Raises BuildError."""
        sizes = check_arrays(self.signature, arrays)
        for launch in self.plan.launches:
            if launch.runs(sizes):
                launch.check(sizes, device)
        return sizes, [launch for _, launch in self.plan.in_order(sizes)]


class DeviceCall:
    """A kernel with arrays, device buffers and launches fixed. Use it from one thread."""

    def __init__(
        self, kernel: DeviceKernel, device: DeviceLimits, arrays: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        """Raises DeviceError when the device cannot hold the buffers."""
        params, plan = kernel.signature.params, kernel.plan
        self.wide = plan.is_wide(sizes)  #: whether `index_t` has 64 bits
        self._name, self._sizes = kernel.signature.name, sizes
        self._arrays = tuple(a if is_resident(a) else memory_of(a) for a in arrays)
        self._outputs = tuple(p.is_output for p in params)
        self._is_uploaded = False
        self._are_outputs_fresh = False
        lengths = [(p.name, a.nbytes) for p, a in zip(params, self._arrays, strict=True)]
        lengths += [(name, max(evaluate_dim(n, sizes), 0) * dtype(of).bytes) for name, of, n in plan.device]
        self._check_memory(lengths, device)
        placed = [self._place_of(i) for i in range(len(self._arrays))]
        #: whether a kernel works on the memory of an argument itself
        self._in_place = tuple(own is not None for own in placed)
        self._buffers = [
            self._allocate(name, length) if own is None else own for (name, length), own in zip_longest(lengths, placed)
        ]

    def _place_of(self, place: int) -> Any:
        """The buffer in which an argument lies already; None where there is none."""
        array = self._arrays[place]
        return cast(Any, array).memory.buffer if is_resident(array) else self._over(array, self._outputs[place])

    def _check_memory(self, lengths: Sequence[tuple[str, int]], device: DeviceLimits) -> None:
        """`lengths`: name and bytes of each buffer."""
        total = sum(length for _, length in lengths)
        if total > device.global_memory:
            raise DeviceError(
                f"its buffers have {total:,} bytes, and {device.name!r} has {device.global_memory:,}",
                asked=self._name,
                legal="use smaller arrays, or compute intermediates in tiles",
            )

    def _arguments(self, launch: Launch, index: Callable[[int], Any], **others: Callable[[Any], Any]) -> list[Any]:
        """The arguments of a kernel. `index` makes a size; `others` make what else a language has, by kind."""
        makers = {
            "param": self._buffers.__getitem__,
            "device": lambda place: self._buffers[len(self._arrays) + place],
            "size": lambda name: index(self._sizes[name]),
            "step": lambda _: index(launch.step),
            **others,
        }
        values = []
        for kind, value in launch.args:
            if kind not in makers:
                raise BuildError(f"unknown kind of argument {kind!r}", asked=f"kernel {launch.name!r}")
            values.append(makers[kind](value))
        return values

    # -- what a driver does ---------------------------------------------------------------------
    def _allocate(self, name: str, length: int) -> Any:
        raise NotImplementedError

    def _over(self, array: Array, is_output: bool) -> Any:
        """A buffer of an array's own memory, on a device that works on the host's; None on others."""
        return None

    def _copy(self, to: Any, source: Any) -> None:
        """Copy between an array and a buffer, either way, and wait."""
        raise NotImplementedError

    def _show(self, buffer: Any, array: Array) -> None:
        """Let the host see in an array what was written to the buffer over it."""

    def _execute(self) -> None:
        """Enqueue all launches and wait."""
        raise NotImplementedError

    def time(self, number: int) -> float:
        """Seconds per call, by the device's clock."""
        raise NotImplementedError

    def _enter(self) -> None:
        """Prepare this thread for calls of the driver."""

    # -- running --------------------------------------------------------------------------------
    def rebind(self, arrays: Sequence[Array], *, are_outputs_fresh: bool) -> None:
        """Take other arrays of the same shapes, all in the host's memory like those before; outputs that are `fresh`
        have nothing that a kernel might leave out."""
        self._arrays, self._is_uploaded = tuple(map(memory_of, arrays)), False
        self._are_outputs_fresh = are_outputs_fresh
        for place in self._places_in_place():
            self._buffers[place] = self._place_of(place)

    def let_go(self) -> None:
        """Keep no array alive until the next `rebind`."""
        self._arrays = ()
        for place in self._places_in_place():
            self._buffers[place] = None

    def _places_in_place(self) -> list[int]:
        return [place for place, own in enumerate(self._in_place) if own]

    def upload(self) -> None:
        """Copy all arrays to the device: outputs too, so that what a kernel leaves out stays as it was."""
        self._enter()
        for place, (array, is_output) in enumerate(zip(self._arrays, self._outputs, strict=True)):
            if array.nbytes and not self._in_place[place] and not (is_output and self._are_outputs_fresh):
                self._copy(self._buffers[place], array)
        self._is_uploaded = True

    def fetch(self) -> None:
        """Copy the outputs from the device into their arrays, where they are not there."""
        self._enter()
        for place, array in enumerate(self._arrays):
            if self._outputs[place] and array.nbytes and not is_resident(array):
                if self._in_place[place]:
                    self._show(self._buffers[place], array)
                else:
                    self._copy(array, self._buffers[place])

    def run(self) -> None:
        """Execute once and wait; the first run uploads the arrays if nobody did. Raises DeviceError."""
        self._ready()
        self._execute()

    def _ready(self) -> None:
        if not self._is_uploaded:
            self.upload()
        self._enter()
