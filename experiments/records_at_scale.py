"""What a log of 100,000 trials costs: opening it for `build`, `autosched records`, pandas.

    python experiments/records_at_scale.py [--trials 100000] [--folder DIR]

Each figure is of a process of its own: seconds of the call alone, interleaved repeats' minimum, and the memory that
the process took at most beyond what it had before. The logs are made first (once, with --folder).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

#: name of a log -> how many workloads share it
LOGS = {"many": 100, "one": 1}
REPEATS = 3

SETUP = "import resource, sys, time, contextlib, io, os; sys.path.insert(0, {root!r})\n"
MEASURE = """
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
begun, cpu = time.perf_counter(), time.process_time()
{call}
took, computed = time.perf_counter() - begun, time.process_time() - cpu
print(took, computed, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, file=sys.__stdout__)
"""
#: what is measured -> what is imported before, and the call
CALLS = {
    "build opens it": (
        "from autosched.records import read_workload, ranked",
        "ranked(read_workload({name!r}, 'llvm', {folder!r}, key={key!r}).records, key={key!r}, target='llvm')",
    ),
    "all records": ("from autosched.records import read_workload", "read_workload({name!r}, 'llvm', {folder!r})"),
    "autosched records": (
        "from autosched.cli import main; sys.stdout = io.StringIO()",
        "main(['records', {file!r}])",
    ),
    "autosched records --export csv": (
        "import pandas; from autosched.cli import main; sys.stdout = io.StringIO()",
        "with open(os.devnull, 'w') as sys.stdout: main(['records', {file!r}, '--export', 'csv'])",
    ),
    "load (pandas)": ("import pandas; from autosched.records import load", "load({file!r})"),
}


def make_log(file: Path, trials: int, workloads: int, template: dict) -> None:
    """Trials like a real one, with other knobs, times and ids."""
    with file.open("wb") as out:
        for n in range(trials):
            key = f"{n % workloads:016x}"
            line = {
                **template,
                "id": f"{n:016x}",
                "trial": n,
                "samples": [1e-3 * (1 + (n * 7919 % 10007) / 1000) + 1e-6 * k for k in range(5)],
                "knobs": {**template["knobs"], "rows": n % 4096},
                "status": "ok" if n % 10 else "timeout",
                "workload": {**template["workload"], "name": file.name.split(".")[0], "key": key},
            }
            body = json.dumps(line, sort_keys=True, separators=(",", ":")).encode()
            out.write(body[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(body))


def measured(setup: str, call: str, root: str) -> tuple[float, float, float]:
    code = SETUP.format(root=root) + setup + MEASURE.format(call=call)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, cpu, megabytes = map(float, done.stdout.split()[-3:])
    return seconds, cpu, megabytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where the logs are, or are to be made; default a temporary one")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    args = parser.parse_args()
    root = str(Path(__file__).resolve().parents[1])
    source = Path(root) / "records" / "matmul.llvm.jsonl"
    template = json.loads(source.read_text().splitlines()[-1])
    template["features"] = {"version": "example", "values": [n * 1.125 for n in range(65)]}
    del template["crc"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name, workloads in LOGS.items():
            file = folder / f"{name}.llvm.jsonl"
            if not file.exists():
                make_log(file, args.trials, workloads, template)
            print(f"\n{args.trials:,} trials of {workloads} workloads, {file.stat().st_size / 1e6:.0f} MB")
            at = {"name": name, "folder": str(folder), "file": str(file), "key": f"{0:016x}"}
            for what, (setup, call) in CALLS.items():
                found = [measured(setup + "\n", call.format(**at), root) for _ in range(args.repeats)]
                seconds, cpu, megabytes = (min(x) for x in zip(*found, strict=True))
                print(f"  {what:32} {seconds:7.2f} s  ({cpu:.2f} s computed)  {megabytes:6.0f} MB", flush=True)


if __name__ == "__main__":
    main()
