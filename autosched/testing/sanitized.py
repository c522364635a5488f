"""Random programs in C that ends where it does what C does not define: `python -m autosched.testing.fuzz --sanitize`.

Results do not show an element that is read behind an array and not used, an index that overflowed and wrapped, or a
vector at an address that its type does not allow. gcc's sanitizers do: AddressSanitizer for arrays on the stack,
UndefinedBehaviorSanitizer for arithmetic and addresses. Arguments and the memory of other intermediates end at pages
that must not be touched, on every backend.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from autosched.errors import UsageError
from autosched.runtime.c_compiler import Compiler, find_compiler

#: The backends of cases that are compiled as C.
IN_C = ("c", "c99")
_CHECKS = "-fsanitize=address,undefined,float-cast-overflow"
_FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", _CHECKS, "-fno-sanitize-recover=all")
#: Python and what it loads never free all memory, and pages that must not be touched are the oracle's to report.
_OPTIONS = "detect_leaks=0:handle_segv=0:handle_sigfpe=0:allocator_may_return_null=1"


def environment(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of a process whose C kernels are compiled with sanitizers, beside those of `env`.

    Its first message about what is wrong is the end of the process. Raises UsageError without a C compiler that has
    them.
    """
    compiler = find_compiler()
    runtime = None if compiler is None else _runtime(compiler)
    if runtime is None:
        raise UsageError(
            "no C compiler with sanitizers is found", asked="--sanitize", legal="apt install gcc, or CC=gcc"
        )
    return {
        **env,
        "CFLAGS": " ".join(filter(None, (env.get("CFLAGS"), *_FLAGS))),
        "LDFLAGS": " ".join(filter(None, (env.get("LDFLAGS"), _CHECKS))),
        "ASAN_OPTIONS": _OPTIONS,
        "UBSAN_OPTIONS": "print_stacktrace=0",
        "LD_PRELOAD": " ".join(filter(None, (runtime, env.get("LD_PRELOAD")))),
    }


def _runtime(compiler: Compiler) -> str | None:
    """AddressSanitizer's library, which must be the first that a process loads."""
    if not compiler.accepts(*_FLAGS):
        return None
    asked = [*compiler.command, "-print-file-name=libasan.so"]
    found = Path(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip())
    return str(found) if found.is_absolute() else None
