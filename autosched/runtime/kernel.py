"""The interface of all runtimes: a `Kernel` binds arrays, and a `BoundCall` runs on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from autosched.codegen.artifact import Signature
from autosched.errors import AutoschedError, BuildError, DeviceError

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


@runtime_checkable
class DirectKernel(Protocol):
    """A kernel that works on the host's memory, so that a call needs addresses only."""

    def prepare(self, sizes: Mapping[str, int]) -> Callable[[Sequence[int]], None]:
        """A function that runs once on checked arrays at these host addresses, one per parameter, and waits."""

    def native(self) -> Callable[..., Any] | None:
        """Calls that bypass Python; None where there are none."""


class CompilerFailed(BuildError):
    """A compiler of this machine is there, and makes no code of a program: it complains, or takes too long."""


class UnavailableKernel:
    """Code that this machine cannot run. Its source can be read and exported; a call raises the reason."""

    def __init__(self, signature: Signature, error: AutoschedError) -> None:
        self.signature = signature
        self.error = error

    def bind(self, arrays: Sequence[Array]) -> BoundCall:
        """Raise the error that says what is missing."""
        raise self.error.with_traceback(None)


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
