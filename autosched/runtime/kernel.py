"""What every runtime offers: a `Kernel` binds arrays, a `BoundCall` runs on them; and how a host launches them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from autosched.codegen.artifact import Artifact, Signature
from autosched.codegen.signature import Dim, evaluate_dim
from autosched.errors import AutoschedError, BuildError, DeviceError
from autosched.ir.dtype import dtype

if TYPE_CHECKING:
    from autosched.runtime.native_call import NativeCall

Array = np.ndarray[Any, Any]


class BoundCall(Protocol):
    """A kernel with its arguments fixed. It keeps the arrays alive."""

    def run(self) -> None:
        """Execute once and wait. Outputs are in the arrays after `fetch()`."""

    def time(self, number: int) -> float:
        """Seconds per call, timed in native code around `number` calls (device event times on OpenCL)."""

    def upload(self) -> None:
        """Copy the arrays to the device; nothing to do where it shares the host's memory."""

    def fetch(self) -> None:
        """Copy the outputs from the device into their arrays; nothing to do where memory is shared."""


class Kernel(Protocol):
    """Loaded machine code."""

    @property
    def signature(self) -> Signature: ...

    def bind(self, arrays: Sequence[Array]) -> BoundCall:
        """Fix the arguments: one C-contiguous array per parameter, outputs writable.

        Raises BuildError for arrays the signature does not allow, DeviceError when the device
        cannot hold them.
        """


class DirectCall(Protocol):
    """A kernel with its sizes fixed, for arrays that were checked before."""

    def run(self, addresses: Sequence[int]) -> None:
        """Execute once on the arrays at these host addresses, one per parameter, and wait."""


@runtime_checkable
class DirectKernel(Protocol):
    """A kernel that works on the host's memory, so that a call needs addresses only."""

    def prepare(self, sizes: Mapping[str, int]) -> DirectCall:
        """What calls with these sizes have in common."""

    def native(self) -> NativeCall | None:
        """Calls that do without Python; None where they cannot be had."""


class UnavailableKernel:
    """Code that this machine cannot run: its source can be read and exported, and a call says why not."""

    def __init__(self, signature: Signature, error: AutoschedError) -> None:
        self.signature = signature
        self._error = error

    def bind(self, arrays: Sequence[Array]) -> BoundCall:
        """Raises the error that says what is missing."""
        raise self._error.with_traceback(None)


_NARROW_LIMIT = 2**31


@dataclass(frozen=True)
class Launch:
    """One kernel launch, as `codegen.c_family.Program` describes it."""

    name: str
    grid: tuple[Dim, ...]
    block: tuple[Dim, ...]
    shared_bytes: Dim
    args: tuple[tuple[str, Any], ...]
    when: Dim = 1

    def runs(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is for these sizes, and there is anything to run: drivers call an empty grid an error."""
        return evaluate_dim(self.when, sizes) > 0 and all(evaluate_dim(d, sizes) > 0 for d in (*self.grid, *self.block))

    def extents(self, sizes: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Work-groups along x, y and z, and work-items of each."""
        return tuple(evaluate_dim(d, sizes) for d in self.grid), tuple(evaluate_dim(d, sizes) for d in self.block)

    def check(self, sizes: Mapping[str, int], device: str, most: int, along: Sequence[int], shared_memory: int) -> None:
        """Compare with the limits of a device: work-items of a group, along each axis, and bytes of shared
        memory. Raises BuildError."""
        _, block = self.extents(sizes)
        shared = evaluate_dim(self.shared_bytes, sizes)
        if prod(block) > most:
            raise self.refused(f"a work-group of {times(block)} work-items", device, f"{most}")
        if any(b > limit for b, limit in zip(block, along, strict=False)):
            raise self.refused(f"a work-group of {times(block)} work-items", device, times(along))
        if shared > shared_memory:
            raise self.refused(f"{shared} bytes of shared memory for each work-group", device, f"{shared_memory}")

    def refused(self, what: str, device: str, limit: str) -> BuildError:
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

    def is_wide(self, sizes: Mapping[str, int]) -> bool:
        """Whether an offset of a call with these sizes might not fit into 32 bits."""
        return evaluate_dim(self.index_bound, sizes) >= _NARROW_LIMIT


def _three(dims: Any) -> tuple[Dim, ...]:
    if len(dims) != 3:
        raise ValueError(f"{dims!r} is not three extents")
    return tuple(dims)


def times(extents: Sequence[int]) -> str:
    return " x ".join(map(str, extents))


class ForkedError(DeviceError, RuntimeError):
    """A forked child uses a device that its parent has opened. It has the handles of its parent, and none of the
    threads that serve them: a driver's call on such a handle waits for ever, so it is refused before it is made."""


def check_owner(process: int, device: str) -> None:
    """Raise ForkedError unless this is the process, by its number, that opened the device."""
    if os.getpid() != process:
        raise ForkedError(
            f"process {process} opened it, and this one, {os.getpid()}, was forked from it: "
            "drivers do not work in forked children",
            asked=device,
            legal='start processes afresh, multiprocessing.get_context("spawn"), or fork before the device is used',
        )
