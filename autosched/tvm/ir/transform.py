"""`tvm.ir.transform`: the same as `tvm.transform`."""

from __future__ import annotations

from autosched.tvm.transform import Pass, PassContext, PassInfo, PrintIR, Sequential, module_pass

__all__ = ["Pass", "PassContext", "PassInfo", "PrintIR", "Sequential", "module_pass"]
