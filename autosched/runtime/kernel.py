"""What every runtime offers: a `Kernel` that binds arrays, and a `BoundCall` that runs on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from autosched.codegen.artifact import Signature
from autosched.errors import AutoschedError

if TYPE_CHECKING:  # it loads LLVM
    from autosched.runtime.native_call import NativeCall

__all__ = ["BoundCall", "DirectCall", "DirectKernel", "Kernel", "UnavailableKernel"]

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
