"""`tvm.error`: TVM's classes of errors, as names for this package's."""

from __future__ import annotations

from autosched.errors import AutoschedError, LowerError, UsageError
from autosched.tvm._missing import missing

TVMError = AutoschedError
InternalError = AutoschedError
OpError = LowerError
DiagnosticError = UsageError

__all__ = ["DiagnosticError", "InternalError", "OpError", "TVMError"]

__getattr__ = missing("error", globals())
