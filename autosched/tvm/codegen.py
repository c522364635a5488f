"""`tvm.target.codegen`: what the code generator is."""

from __future__ import annotations

from importlib import import_module


def llvm_version_major(allow_none: bool = False) -> int:
    """The first number of LLVM's version."""
    # loading it takes long, and few programs ask
    return int(import_module("llvmlite.binding").llvm_version_info[0])
