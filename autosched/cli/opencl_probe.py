"""OpenCL drivers and devices, examined in processes of their own, which a broken driver may crash or hang.

`main()` prints `{"devices": [...], "problem": "..."}`, and `main(["0"])` what device 0 gets wrong: `{"problem": ""}`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autosched.errors import DeviceError, Fields, Form, Malformed, parse_json
from autosched.runtime.opencl_devices import check_device, devices, find_device

#: Seconds that drivers get to answer.
TIMEOUT_S = 30.0

_ROOT = Path(__file__).resolve().parents[2]
# The package is found in the child as it was here; appended, so that nothing of ours hides a module.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from autosched.cli.opencl_probe import main; main(sys.argv[2:])"
_COMMAND = (sys.executable, "-P", "-c", _PROGRAM, str(_ROOT))


def probe(command: tuple[str, ...] = _COMMAND) -> dict[str, Any]:
    """The devices, as `DeviceInfo` fields, and a `problem`, empty unless there are none. Never raises.

    Each device has a `problem` of its own: what it gets wrong when it runs a small program, empty where it works.
    """
    answer = _answer(command)
    if answer["problem"] or "devices" not in answer:
        return {"devices": [], "problem": answer["problem"] or "the drivers' answer is not understood"}
    for device in answer["devices"]:
        device["problem"] = _answer((*command, str(device["index"])))["problem"]
    return answer


_DEVICES = Form.array(Fields({"index": Form.integer(0)}), "an array of devices")
_ANSWER = Fields({"problem": Form.text(), "devices": _DEVICES}, optional=("devices",))


def _answer(command: tuple[str, ...]) -> dict[str, Any]:
    """The last line that a process prints, an object with a `problem`, which also tells why there is no such line."""
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=TIMEOUT_S, text=True, errors="replace", stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"the OpenCL driver did not answer within {TIMEOUT_S:g} s"}
    except OSError as error:
        return {"problem": f"the OpenCL drivers could not be asked: {error}"}
    try:
        found: dict[str, Any] = _ANSWER.check(parse_json(done.stdout.splitlines()[-1]))
        return found
    except (IndexError, Malformed):
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"problem": f"asking the OpenCL driver ended with status {done.returncode}: {last}"}


def main(arguments: Sequence[str] = ()) -> None:
    """Ask the drivers, or the device whose number is given, and print the answer."""
    answer: dict[str, Any] = {"problem": ""}
    try:
        if arguments:
            answer["problem"] = check_device(find_device(arguments[0]))
        else:
            answer["devices"] = [asdict(d) for d in devices()]
            find_device()
    except DeviceError as error:
        answer["problem"] = error.why
    print(json.dumps(answer), flush=True)
    os._exit(0)  # a driver's clean-up may hang or crash, and there is nothing left to do


if __name__ == "__main__":
    main()
