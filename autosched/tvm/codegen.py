"""`tvm.target.codegen`: what the code generator is."""

from __future__ import annotations

import llvmlite.binding


def llvm_version_major(allow_none: bool = False) -> int:
    """The first number of LLVM's version."""
    return int(llvmlite.binding.llvm_version_info[0])
