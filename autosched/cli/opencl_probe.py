"""What OpenCL has here, asked in a process of its own: a broken driver may crash or hang it.

`python -m autosched.cli.opencl_probe` prints `{"devices": [...], "problem": "..."}`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

__all__ = ["main", "probe"]

#: Seconds that drivers get to answer.
TIMEOUT_S = 30.0

_ROOT = Path(__file__).resolve().parents[2]
# The package is found in the child as it was here; appended, so that nothing of ours hides a module.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from autosched.cli.opencl_probe import main; main()"


def probe(command: tuple[str, ...] = (sys.executable, "-P", "-c", _PROGRAM, str(_ROOT))) -> dict[str, Any]:
    """The devices, as `DeviceInfo` fields, and a `problem`, empty unless there are none. Never raises."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT_S, text=True, errors="replace", stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return {"devices": [], "problem": f"the OpenCL drivers did not answer within {TIMEOUT_S:g} s"}
    except OSError as error:
        return {"devices": [], "problem": f"the drivers could not be asked: {error}"}
    try:
        found = json.loads(done.stdout.splitlines()[-1])
        return {"devices": list(found["devices"]), "problem": str(found["problem"])}
    except (IndexError, KeyError, TypeError, ValueError):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"devices": [], "problem": f"asking the OpenCL drivers ended with status {done.returncode}: {last}"}


def main() -> None:
    """Ask the drivers and print the answer."""
    from autosched.errors import DeviceError
    from autosched.runtime.opencl import devices, find_device

    found, problem = devices(), ""
    if not found:
        try:
            find_device()
        except DeviceError as error:
            problem = error.why
    print(json.dumps({"devices": [asdict(d) for d in found], "problem": problem}), flush=True)
    os._exit(0)  # a driver's clean-up may hang or crash, and there is nothing left to do


if __name__ == "__main__":
    main()
