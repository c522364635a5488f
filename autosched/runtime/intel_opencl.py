"""Finding Intel's OpenCL runtime for CPUs where pip installed it.

`pip install "autosched[intel-opencl]"` puts `libintelocl.so` into the environment's `lib` folder, and beside it a
list of drivers (`etc/OpenCL/vendors/intel-cpu.icd`) that names a path of the machine that built the wheel. So no
OpenCL loader finds it. `vendors` makes a folder of such lists with the right path in it, for the moment in which the
loader reads it. The system's own drivers are listed there again, because the folder replaces theirs.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["library", "vendors"]

_LIBRARY = "libintelocl.so"
_SYSTEM = Path("/etc/OpenCL/vendors")
_VARIABLE = "OCL_ICD_VENDORS"  #: where the loader (ocl-icd, Khronos) looks for drivers' lists


def library() -> Path | None:
    """The runtime that pip installed into this environment; None if there is none."""
    prefixes = dict.fromkeys([sys.prefix, sysconfig.get_path("data")])
    return next((path for p in prefixes if (path := Path(p, "lib", _LIBRARY)).is_file()), None)


@contextmanager
def vendors(system: Path = _SYSTEM) -> Iterator[None]:
    """While inside, the OpenCL loader also finds Intel's runtime. What a user has set is left as it is."""
    found = library()
    if found is None or os.environ.get(_VARIABLE):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="autosched-opencl-") as folder:
        for listed in sorted(system.glob("*.icd")) if system.is_dir() else []:
            Path(folder, listed.name).write_bytes(listed.read_bytes())
        Path(folder, "autosched-intel-cpu.icd").write_text(f"{found}\n")
        os.environ[_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_VARIABLE]
