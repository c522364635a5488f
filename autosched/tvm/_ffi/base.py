"""`tvm._ffi.base`: TVM's class of errors."""

from __future__ import annotations

from autosched.errors import AutoschedError as TVMError

__all__ = ["TVMError"]
