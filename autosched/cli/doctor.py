"""`autosched doctor`: look at CPU, drivers, packages and folders, and say how to get what is missing."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched import __version__
from autosched.cli import options
from autosched.cli.opencl_probe import probe
from autosched.records import find_folder, find_folders
from autosched.runtime.device import host_cpu
from autosched.runtime.jit import find
from autosched.space.loading import search_space_folders
from autosched.target import cpu_count

#: LLVM's names of vector features, widest first -> what they are called, and bits of a register.
_VECTORS = (
    ("avx512f", "AVX-512", 512),
    ("avx2", "AVX2", 256),
    ("avx", "AVX", 256),
    ("sse4.2", "SSE4.2", 128),
    ("sse2", "SSE2", 128),
    ("neon", "NEON", 128),
    ("vsx", "VSX", 128),
    ("vector", "z vector", 128),
)

#: package -> what it is for; alternatives are separated by a bar
PACKAGES = {
    "numpy": "arrays, and the reference that results are compared with",
    "llvmlite": "the CPU's code generator",
    "pyopencl": "OpenCL",
    "pocl-binary-distribution": "an OpenCL driver for the CPU",
    "xgboost|xgboost-cpu": "the cost model",
    "scikit-learn": "the fallback cost model, the sample photograph and an OpenMP runtime",
    "optuna": "samplers for search strategies",
    "pandas": "tables of records",
    "pillow": "image files",
    "rich": "the live display",
}

#: Beginnings of the names of environment variables that matter.
_ENVIRONMENT = ("AUTOSCHED_", "OMP_", "GOMP_", "POCL_", "PYOPENCL_", "OCL_ICD_", "CUDA_", "NO_COLOR", "FORCE_COLOR")


def cpu() -> dict[str, Any]:
    """Name, cores, vector registers and load. `vector` is None when it is not known."""
    found: dict[str, Any] = {
        "machine": platform.machine(),
        "model": platform.processor() or platform.machine(),
        "vector": None,
        "vector_bits": None,
        "cores": os.cpu_count(),
        "usable_cores": cpu_count(),
        "quota": _quota(),
        "governor": _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load": None,
    }
    with suppress(OSError, AttributeError):
        found["load"] = round(os.getloadavg()[0], 2)
    with suppress(ImportError, OSError, RuntimeError):
        import llvmlite.binding as llvm

        found["model"] = host_cpu()
        features = llvm.get_host_cpu_features()
        for feature, name, bits in _VECTORS:
            if features.get(feature):
                found |= {"vector": name, "vector_bits": bits}
                break
    return found


def _quota() -> float | None:
    """CPUs that a container's limit allows; None without a limit."""
    words = (_first_line("/sys/fs/cgroup/cpu.max") or "").split()
    if len(words) == 2 and all(w.isdecimal() for w in words) and int(words[1]):
        return round(int(words[0]) / int(words[1]), 2)
    return None


def _first_line(path: str) -> str | None:
    try:
        return Path(path).read_text().strip().partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        return None


def packages() -> dict[str, str | None]:
    """Versions; None for what is not installed. Imports none of them."""
    found: dict[str, str | None] = {"python": platform.python_version(), "autosched": __version__}
    for names in PACKAGES:
        versions = {name: _version(name) for name in names.split("|")}
        installed = [name for name, version in versions.items() if version is not None]
        name = installed[0] if installed else names.partition("|")[0]
        found[name] = versions[name]
    return found


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def folders() -> dict[str, Any]:
    """The folders of search spaces and records, and the one for new records."""
    target = find_folder()
    nearest = next((p for p in (target, *target.absolute().parents) if p.exists()), target)
    return {
        "search_spaces": [str(p) for p in search_space_folders()],
        "records": [str(p) for p in find_folders()],
        "new_records": str(target),
        "new_records_writable": nearest.is_dir() and os.access(nearest, os.W_OK),
    }


#: PoCL's releases before this one have bugs that autosched works around, and an old compiler.
_GOOD_POCL = 5

_SECOND_OPENCL = 'pip install "autosched[intel-opencl]", then --target "opencl -device=intel"'


@dataclass(frozen=True)
class Advice:
    """Something missing or doubtful, and the remedy."""

    about: str
    why: str
    hint: str


def run(args: argparse.Namespace) -> int:
    found = examine()
    advice = advise(found)
    if args.json:
        options.emit({**found, "advice": [vars(a) for a in advice]})
    else:
        print("\n".join(text_lines(found, advice)))
    return 0


def examine() -> dict[str, Any]:
    """Examine the machine; returns plain data."""
    runtime = find()
    return {
        "system": f"{platform.system()} {platform.release()}, {sys.executable}",
        "cpu": cpu(),
        "openmp": None if runtime is None else runtime.path,
        "opencl": probe(),
        "packages": packages(),
        "folders": folders(),
        "environment": {k: value for k, value in sorted(os.environ.items()) if k.startswith(_ENVIRONMENT)},
    }


def advise(found: dict[str, Any]) -> list[Advice]:
    """List what is missing or doubtful of what `examine` found."""
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
def text_lines(found: dict[str, Any], advice: list[Advice]) -> list[str]:
    where = found["folders"]
    told = [line for a in advice for line in (f"  {a.about}: {a.why}", f"    {a.hint}")]
    blocks = [
        [f"autosched {found['packages']['autosched']} on {found['system']}"],
        ["CPU", *_cpu_lines(found["cpu"])],
        ["OpenMP", f"  {found['openmp'] or 'none'}"],
        ["OpenCL", *(_opencl_lines(found["opencl"]["devices"]) or ["  none"])],
        ["packages", *_pairs({name: version or "missing" for name, version in found["packages"].items()})],
        [
            "folders",
            *_pairs(
                {
                    "search spaces": ", ".join(where["search_spaces"]) or "none",
                    "records": ", ".join(where["records"]) or "none yet",
                    "new records": where["new_records"],
                }
            ),
        ],
        ["environment", *(_pairs(found["environment"]) or ["  nothing set that matters"])],
        ["advice", *(told or ["  none: all is well"])],
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
