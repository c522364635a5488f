"""`tvm.error` and `tvm._ffi.base`: TVM's classes of errors, as names for this package's."""

from __future__ import annotations

from autosched.errors import AutoschedError, LowerError, UsageError
from autosched.tvm._missing import missing

TVMError = AutoschedError
InternalError = AutoschedError
OpError = LowerError
DiagnosticError = UsageError

__getattr__ = missing("error", globals())
