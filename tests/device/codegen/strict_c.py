"""C compiled so that warnings are errors and undefined behaviour ends the process."""

from __future__ import annotations

import pytest

from autosched.runtime.c_compiler import find_compiler


def compile_strictly(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = find_compiler()
    if compiler is not None and compiler.accepts("-fsanitize=undefined", "-fopenmp"):
        monkeypatch.setenv("CFLAGS", "-O0 -Wall -Wextra -Werror -fsanitize=undefined -fno-sanitize-recover=undefined")
        monkeypatch.setenv("LDFLAGS", "-fsanitize=undefined")
