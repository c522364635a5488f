"""Functions from outside, by name: what `call_packed` and `call_extern` find. See `ir.functions`.

C and LLVM assembly of the user's is compiled into this process. Compilers are loaded when they are used: a shim that
only registers functions imports this module, too.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from autosched.errors import BuildError
from autosched.ir.functions import (
    get_global_func,
    list_global_func_names,
    load_library,
    register_func,
    register_numpy,
    register_symbol,
    remove_global_func,
)
from autosched.target import Target

__all__ = [
    "get_global_func",
    "import_c",
    "import_llvm",
    "list_global_func_names",
    "load_library",
    "register_func",
    "register_numpy",
    "register_symbol",
    "remove_global_func",
]


def import_c(source: str, name: str = "imported") -> None:
    """Compile C with this machine's compiler; `call_extern` finds the functions that are not static.

    Raises BuildError with the compiler's complaints, or if there is no compiler. It is no part of a
    schedule, because traces are data and no code.
    """
    from autosched.runtime.c_compiler import compile_object

    with tempfile.TemporaryDirectory(prefix="autosched-") as folder:
        path = Path(folder, f"{name}.o")
        compiler = compile_object(source, path)
        library = path.with_suffix(".so")
        compiler.run(["-shared", str(path), "-o", str(library), "-lm"], f"linking {name}")
        load_library(str(library))


def import_llvm(source: str, name: str = "imported") -> None:
    """Compile LLVM assembly for this CPU; `call_extern` finds the functions that it defines.

    Raises BuildError for text that LLVM refuses, or that defines nothing others may call.
    """
    import llvmlite.binding as llvm

    from autosched.codegen.llvm import object_code
    from autosched.runtime.cpu import LoadedCode

    llvm.initialize_native_asmparser()  # for `module asm`
    asked = f"import_llvm {name}"
    try:
        module = llvm.parse_assembly(source, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise BuildError(f"LLVM refuses it: {str(error).strip()}", asked=asked, legal="LLVM assembly") from None
    private = (llvm.Linkage.internal, llvm.Linkage.private)
    names = [f.name for f in module.functions if not f.is_declaration and f.linkage not in private]
    names += _names_of_assembly(source)
    if not names:
        raise BuildError("it defines no function that others may call", asked=asked, legal="define ... @name(...)")
    code = LoadedCode(name, [object_code(source, Target.parse("llvm"))], names, parallel=False)
    for symbol, address in zip(names, code.addresses, strict=True):
        register_symbol(symbol, address)
    _kept.append(code)


def _names_of_assembly(source: str) -> list[str]:
    """Functions that lines of assembly (`module asm`) define for others."""
    lines = "\n".join(re.findall(r'^module asm "(.*)"', source, re.MULTILINE)).replace("\\09", " ")
    functions = set(re.findall(r"^\s*\.type\s+([\w.$]+)\s*,\s*[@%]function", lines, re.MULTILINE))
    return [n for n in re.findall(r"^\s*\.globl\s+([\w.$]+)", lines, re.MULTILINE) if n in functions]


#: code that others have the addresses of
_kept: list[object] = []
