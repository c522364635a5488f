"""TVM's `rpc` is not part of this package: importing it says what to use instead."""

from __future__ import annotations

from autosched.tvm._missing import no_module

raise no_module("rpc")
