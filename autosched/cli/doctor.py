"""Say what autosched finds on this machine, and how to get what it does not find.

Nothing missing is an error: the exit status is 0.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import Any

from autosched.cli import options

EXAMPLES = """\
examples:
  %(prog)s
  %(prog)s --json
"""

#: PoCL's releases before this one have bugs that autosched works around, and an old compiler.
_GOOD_POCL = 5

_SECOND_OPENCL = 'pip install "autosched[intel-opencl]", then --target "opencl -device=intel"'


@dataclass(frozen=True)
class Advice:
    """Something missing or doubtful: what, and what to do about it."""

    about: str
    why: str
    hint: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    found = examine()
    advice = advise(found)
    if args.json:
        options.emit({**found, "advice": [vars(a) for a in advice]})
    else:
        print("\n".join(_lines(found, advice)))
    return 0


def examine() -> dict[str, Any]:
    """Everything, as plain data."""
    from autosched.cli import machine
    from autosched.cli.opencl_probe import probe

    return {
        "system": machine.system(),
        "cpu": machine.cpu(),
        "openmp": machine.openmp(),
        "opencl": probe(),
        "packages": machine.packages(),
        "folders": machine.folders(),
        "environment": machine.environment(),
    }


def advise(found: dict[str, Any]) -> list[Advice]:
    """What is missing or doubtful in what `examine` found."""
    from autosched.cli.machine import PACKAGES

    advice = [*_about_cpu(found["cpu"]), *_about_opencl(found["opencl"])]
    if found["openmp"] is None:
        hint = "pip install scikit-learn, whose wheel carries one"
        advice.append(Advice("OpenMP", "no runtime was found, so parallel loops run on one thread", hint))
    uses = {name: use for names, use in PACKAGES.items() for name in names.split("|")}
    for name, version in found["packages"].items():
        if version is None:
            advice.append(Advice(name, f"it is not installed; it is used for {uses[name]}", f"pip install {name}"))
    where = found["folders"]
    if not where["new_records_writable"]:
        why = f"{where['new_records']} cannot be written"
        advice.append(Advice("records", why, "set AUTOSCHED_RECORDS to a folder of yours"))
    if not where["search_spaces"]:
        hint = "set AUTOSCHED_PATH, or name workloads as file.py:function"
        advice.append(Advice("search spaces", "no folder of them was found", hint))
    return advice


def _about_cpu(cpu: dict[str, Any]) -> list[Advice]:
    advice = []
    usable = min(cpu["usable_cores"], cpu["quota"] or cpu["usable_cores"])
    if cpu["load"] is not None and cpu["load"] > 0.5 * usable:
        why = f"the machine is busy (load {cpu['load']:g} on {usable:g} CPUs), so measured times will scatter"
        advice.append(Advice("CPU", why, "tune while nothing else runs"))
    if cpu["quota"] is not None and cpu["quota"] < cpu["usable_cores"]:
        why = f"a container limit of {cpu['quota']:g} CPUs is below the {cpu['usable_cores']} that may be used"
        advice.append(Advice("CPU", why, f'--target "llvm -threads={max(int(cpu["quota"]), 1)}"'))
    if cpu["governor"] not in (None, "performance"):
        why = f"the clock follows the load (governor {cpu['governor']}), which disturbs short measurements"
        advice.append(Advice("CPU", why, "cpupower frequency-set -g performance, where you may"))
    return advice


def _about_opencl(opencl: dict[str, Any]) -> list[Advice]:
    if not opencl["devices"]:
        hint = 'pip install "pyopencl[pocl]" for the CPU; for a GPU, the vendor\'s driver'
        return [Advice("OpenCL", opencl["problem"] or "no device was found", hint)]
    advice = []
    for device in opencl["devices"]:
        about = f"OpenCL device {device['index']}"
        if device.get("problem"):
            others = [d for d in opencl["devices"] if d is not device and not d.get("problem")]
            hint = f'--target "opencl -device={others[0]["index"]}"' if others else _SECOND_OPENCL
            advice.append(Advice(about, f"it fails a small program: {device['problem']}", hint))
        version = re.match(r"\d+", device["driver"])
        if "Portable Computing" in device["platform"] and version and int(version[0]) < _GOOD_POCL:
            why = f"PoCL {device['driver']} is old: it knows no newer CPUs, and needs the work-arounds autosched has"
            hint = f"prefer PoCL {_GOOD_POCL}.0 or newer of your system where it has one, or {_SECOND_OPENCL}"
            advice.append(Advice(about, why, hint))
    return advice


# -- text -----------------------------------------------------------------------------------------
def _lines(found: dict[str, Any], advice: list[Advice]) -> list[str]:
    blocks = [
        [f"autosched {found['packages']['autosched']} on {found['system']}"],
        ["CPU", *_cpu_lines(found["cpu"])],
        ["OpenMP", f"  {found['openmp'] or 'none'}"],
        ["OpenCL", *(_opencl_lines(found["opencl"]["devices"]) or ["  none"])],
        ["packages", *_pairs({name: version or "missing" for name, version in found["packages"].items()})],
        ["folders", *_folder_lines(found["folders"])],
        ["environment", *(_pairs(found["environment"]) or ["  nothing set that matters"])],
        ["advice", *(_advice_lines(advice) or ["  none: all is well"])],
    ]
    return "\n\n".join("\n".join(block) for block in blocks).splitlines()


def _pairs(values: dict[str, Any]) -> list[str]:
    width = max(map(len, values), default=0)
    return [f"  {name:{width}}  {value}" for name, value in values.items()]


def _cpu_lines(cpu: dict[str, Any]) -> list[str]:
    vector = f"{cpu['vector']}, {cpu['vector_bits']} bits" if cpu["vector"] else "unknown"
    limit = f", limited to {cpu['quota']:g} by the container" if cpu["quota"] is not None else ""
    return _pairs(
        {
            "model": cpu["model"],
            "cores": f"{cpu['usable_cores']} usable of {cpu['cores']}{limit}",
            "vectors": vector,
            "load": "unknown" if cpu["load"] is None else f"{cpu['load']:g} over the last minute",
        }
    )


def _opencl_lines(devices: list[dict[str, Any]]) -> list[str]:
    lines = []
    for d in devices:
        lines.append(f"  {d['index']}: {d['name']}, {d['platform']}, driver {d['driver']}")
        floats = ", ".join(name for name in ("fp16", "fp64") if d[name]) or "no fp64"
        memory = f"{d['global_memory'] / 2**30:.1f} GiB, {d['shared_memory'] // 1024} KiB local"
        units = f"{d['compute_units']} compute units, work-groups up to {d['max_work_group']}"
        lines.append(f"     {units}, {memory}, {floats}")
        state = "fails a small program" if d.get("problem") else "runs a small program correctly"
        lines.append("     " + "; ".join(filter(None, (state, d.get("note")))))
    return lines


def _folder_lines(folders: dict[str, Any]) -> list[str]:
    return _pairs(
        {
            "search spaces": ", ".join(folders["search_spaces"]) or "none",
            "records": ", ".join(folders["records"]) or "none yet",
            "new records": folders["new_records"],
        }
    )


def _advice_lines(advice: list[Advice]) -> list[str]:
    return [line for a in advice for line in (f"  {a.about}: {a.why}", f"    {a.hint}")]
