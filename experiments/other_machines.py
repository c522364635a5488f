"""Random programs on CPUs of other makes, emulated: exported, linked by that machine's compiler, run, compared.

    apt install qemu-user gcc-aarch64-linux-gnu gcc-riscv64-linux-gnu gcc-powerpc64le-linux-gnu gcc-s390x-linux-gnu
    python experiments/other_machines.py                      # forty programs on each machine: ten minutes
    python experiments/other_machines.py s390x --seeds 0:500  # machines whose name has this word

Each seed is a random program with a random schedule, as of `autosched.testing.fuzz`. `export` writes its folder, whose
Makefile builds `main`; that reads the inputs and what NumPy computes for them, and says what differs.
Machines whose compiler or emulator is missing are skipped with a word, and programs with float16 where the compiler's
library does not convert it. The exit status is 1 when something failed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

import autosched
from autosched.errors import AutoschedError
from autosched.schedule.schedule import perform
from autosched.schedule.trace import FOR_TUNING, Trace
from autosched.te.reference import reference
from autosched.te.tensor import PlaceholderOp
from autosched.testing.case import Case
from autosched.testing.fuzz import seeds_of

#: triple -> (options of the target, emulator, byte order)
MACHINES: dict[str, tuple[str, str, Literal["<", ">"]]] = {
    "aarch64-linux-gnu": ("-mcpu=cortex-a76", "qemu-aarch64", "<"),
    "riscv64-linux-gnu": ("-mattr=+m,+a,+f,+d,+c", "qemu-riscv64", "<"),
    "powerpc64le-linux-gnu": ("-mcpu=pwr9", "qemu-ppc64le", "<"),
    "s390x-linux-gnu": ("-mcpu=z14", "qemu-s390x", ">"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the programs; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="words of names of machines")
    parser.add_argument("--seeds", default="0:40", help="first:end")
    parser.add_argument("--generated", action="store_true", help="schedules that sketch rules make")
    args = parser.parse_args(argv)
    failed = 0
    for triple, (options, emulator, order) in MACHINES.items():
        if args.words and not any(word in triple for word in args.words):
            continue
        missing = [tool for tool in (emulator, f"{triple}-gcc") if shutil.which(tool) is None]
        if missing:
            print(f"{triple}: skipped, there is no {' and no '.join(missing)}")
            continue
        counts = {"passed": 0, "failed": 0, "with float16 skipped": 0}
        for seed in seeds_of(args.seeds):
            case = _drawn(seed, args.generated)
            if "float16" in case.program.describe() and not triple.startswith("aarch64"):
                counts["with float16 skipped"] += 1
                continue
            with tempfile.TemporaryDirectory() as folder:
                said = _tried(case, f"llvm -mtriple={triple} {options}", triple, emulator, order, Path(folder))
            counts["failed" if said else "passed"] += 1
            if said:
                print(f"-- {triple}, seed {seed}:\n{said}", flush=True)
        print(f"{triple}: {', '.join(f'{n} {what}' for what, n in counts.items())}", flush=True)
        failed += counts["failed"]
    return int(failed > 0)


def _drawn(seed: int, generated: bool) -> Case:
    return Case.generated(seed, "llvm") if generated else Case.draw(seed, "llvm", knobs=0, memory=0)


def _tried(case: Case, target: str, triple: str, emulator: str, order: Literal["<", ">"], folder: Path) -> str:
    """What went wrong with the case; empty where nothing did."""
    program = case.program
    with np.errstate(all="ignore"):
        inputs = program.inputs(case.seed)
        expected = reference(program.args, inputs)
    try:
        s = autosched.create_schedule([t for t in program.args if not isinstance(t.op, PlaceholderOp)])
        for step in Trace.from_json(case.trace):
            if step.kind not in (*FOR_TUNING, "define_knob"):
                perform(s, step.at(case.knobs))
        module = autosched.build(s, target, args=list(program.args), name="drawn")
        autosched.export(module, folder / "drawn")
    except AutoschedError as error:
        return str(error)
    files = [folder / f"{k}.bin" for k in range(len(inputs) + len(expected))]
    for file, array in zip(files, [*inputs, *expected], strict=True):
        file.write_bytes(array.astype(array.dtype.newbyteorder(order)).tobytes())
    sizes = [f"{name}={program.sizes[name]}" for name in module.artifact.signature.sizes]
    make = ["make", "-s", "main", f"CC={triple}-gcc", "LDFLAGS=-static"]
    for command in (make, [emulator, "./main", *sizes, *map(str, files)]):
        done = subprocess.run(command, cwd=folder / "drawn", capture_output=True, text=True, timeout=120)
        if done.returncode:
            return f"{command[0]} returned {done.returncode}\n{done.stdout}{done.stderr}"[:1500]
    return ""


if __name__ == "__main__":
    sys.exit(main())
