"""Devices after a fork: the child has the handles of its parent, and none of the threads that serve them.

A driver's call on such a handle waits for ever, so it is refused before it is made.
"""

from __future__ import annotations

import os

from autosched.errors import DeviceError


class ForkedError(DeviceError, RuntimeError):
    """A forked child uses a device that its parent has opened."""


def check_owner(process: int, device: str) -> None:
    """Raise ForkedError unless this is the process, by its number, that opened the device."""
    if os.getpid() != process:
        raise ForkedError(
            f"process {process} opened it, and this one, {os.getpid()}, was forked from it: "
            "drivers do not work in forked children",
            asked=device,
            legal='start processes afresh, multiprocessing.get_context("spawn"), or fork before the device is used',
        )
