"""`tvm.transform`: passes over modules, and the context that they run in."""

from __future__ import annotations

from autosched.tvm._missing import missing
from autosched.tvm.passes import Pass, PassContext, PassInfo, Sequential, module_pass

__all__ = ["Pass", "PassContext", "PassInfo", "PrintIR", "Sequential", "module_pass"]


def PrintIR(header: str = "", show_meta_data: bool = False) -> Pass:
    """A pass that prints the module, after `header`."""

    @module_pass(opt_level=0, name="PrintIR")
    def show(mod, ctx):  # type: ignore[no-untyped-def]
        print(header, mod, sep="\n" if header else "")
        return mod

    return show


__getattr__ = missing("transform", globals())
