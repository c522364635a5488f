"""TVM's own tests and tutorials, unedited, run by autosched.

    git clone --depth 1 --branch v0.17.0 https://github.com/apache/tvm
    python experiments/tvm_suite.py tvm                          # every area of AREAS
    python experiments/tvm_suite.py tvm --only te/ test_topi_    # files whose path has one of these
    python experiments/tvm_suite.py tvm --only te/ --failures    # what stops each case, too
    python experiments/tvm_suite.py --table                      # what was seen so far, as a table for documents

Each file is one process: pytest for tests, with the plug-in `tvm_results.py`, Python for tutorials, with `import tvm`
meaning `autosched.tvm`. Tests run for the targets of `TVM_TEST_TARGETS`, by default `llvm`, and with
`AUTOSCHED_PREDICT`, by default 0: what is asked here is whether programs run and are right, not how fast. Nothing of
TVM's Python package is imported and nothing of the checkout is kept. What stops a case is what it says, or, where that
is not the reason, what `tvm_reasons.py` says. Results (counts, and what stops cases) go to
`experiments/results/tvm_suite.json`; rows that did not run stay.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tvm_reasons
from common import RESULTS, save

NAME = "tvm_suite"
HERE = Path(__file__).resolve().parent
#: area -> files, as globs in a checkout of TVM 0.8 to 0.19
AREAS = {
    "te": ["tests/python/te/test_*.py"],
    "integration": ["tests/python/integration/test_*.py"],
    "topi": ["tests/python/topi/test_*.py"],
    "autotvm": ["tests/python/autotvm/test_*.py"],
    "auto_scheduler": ["tests/python/auto_scheduler/test_*.py"],
    "arith": ["tests/python/arith/test_*.py"],
    "tir": [f"tests/python/{part}/test_*.py" for part in ("tir-base", "tir-schedule")],
    "analyses and passes": [f"tests/python/{part}/test_*.py" for part in ("tir-analysis", "tir-transform")],
    "TVMScript": ["tests/python/tvmscript/test_*.py"],
    "runtime and code": [
        f"tests/python/{part}/test_*.py" for part in ("runtime", "codegen", "target", "ir", "all-platform-minimal-test")
    ],
    "contrib": ["tests/python/contrib/test_*.py"],
    "tutorials": ["gallery/tutorial/*.py", "gallery/how_to/**/*.py"],
}
OUTCOMES = ("passed", "failed", "skipped", "stopped")
#: areas of which the table has every reason, not the three commonest of a file
COMPLETE = ("te", "topi", "autotvm", "auto_scheduler", "tir")


def run_file(file: Path, checkout: Path, seconds: float) -> dict[str, Any]:
    """Run one file; return counts by OUTCOMES and {case: first line of what stopped it}."""
    if "gallery" in file.parts:
        return run_tutorial(file, seconds)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        words = [
            "-m",
            "pytest",
            "-p",
            "autosched.tvm.install",
            "-p",
            "tvm_results",
            "-p",
            "no:cacheprovider",
            "-q",
            "-n",
            "0",
            f"--junitxml={report}",
        ]
        limits = ["--timeout", str(seconds / 3), "--session-timeout", str(seconds / 2)]
        words += [f"--rootdir={checkout}", "-c", os.devnull, *limits, str(file)]
        ended = run(words, folder, seconds)
        if not report.is_file():
            return {"stopped": 1, "why": {"": last_line(ended)}}
        row = read_report(report)
        if ended is not None and "session-timeout" in ended.stdout:  # what has not begun by then is in no report
            row["stopped"] = row.get("stopped", 0) + 1
            row["why"]["the rest of the file"] = f"{seconds / 2:.0f} seconds were over"
        return row


def run_tutorial(file: Path, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        ended = run(["-m", "autosched.tvm.install", str(file)], folder, seconds)
    if ended is not None and ended.returncode == 0:
        return {"passed": 1, "why": {}}
    return {"stopped": 1, "why": {"": last_line(ended)}}


def run(words: list[str], folder: str, seconds: float) -> subprocess.CompletedProcess[str] | None:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", ""))),
        "AUTOSCHED_RECORDS": folder,
        "TVM_TEST_TARGETS": os.environ.get("TVM_TEST_TARGETS", "llvm"),
        "AUTOSCHED_PREDICT": os.environ.get("AUTOSCHED_PREDICT", "0"),
        "MPLBACKEND": "agg",
    }
    try:
        return subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return None


def last_line(ended: subprocess.CompletedProcess[str] | None) -> str:
    if ended is None:
        return "took too long"
    lines = [line for line in (ended.stderr.strip() or ended.stdout.strip()).splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"([\w.]+\.)?(\w*Error|MissingName|NotPartOfThis)\b", line)]
    return (errors or lines or [f"exit status {ended.returncode}"])[-1].strip()[:300]


def read_report(report: Path) -> dict[str, Any]:
    counts: collections.Counter[str] = collections.Counter()
    why: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        problem = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        if problem is None:
            counts["passed"] += 1
            continue
        # a file that does not import is one error without a class
        kind = {"skipped": "skipped", "failure": "failed"}.get(
            problem.tag, "failed" if case.get("classname") else "stopped"
        )
        counts[kind] += 1
        text = (problem.get("message") or problem.text or "").strip()
        errors = [line[2:].strip() for line in (problem.text or "").splitlines() if line.startswith("E  ")]
        _, _, of_class = case.get("classname", "").rpartition(".")
        name = f"{of_class}.{case.get('name', '')}" if of_class[:1].isupper() else case.get("name", "")
        while name in why:  # one of another module's, or of two rounds
            name += "'"
        if kind != "skipped" or text:
            why[name] = (errors[0] if kind != "skipped" and errors else text.partition("\n")[0])[:300]
    return {**counts, "why": why}


#: what a failure says -> what to call it in the table, the first that fits
REASONS = (
    (r"not part of autosched|MissingName", r"(?:MissingName|NotPartOfThis): (?:import )?(tvm\.[\w.]+)", "no `{}`"),
    (r"the same results in other loops", "", "the same results in other loops"),
    (r"vscale", "", "lengths of vectors that only the machine knows (`vscale`)"),
    (r"tir\.ret\b", "", "no `T.ret`"),
    (r"not structurally equal|isinstance|tir\.(?:For|AttrStmt|stmt)|not subscriptable", "", tvm_reasons.IR),
    (r"has no attribute|a schedule has no|has no '", r"'(\w+)'[^']*$", "no member `{}`"),
    (r"took too long|Timeout|seconds were over", "", "time"),
    (r"DID NOT RAISE", "", tvm_reasons.ALLOWED),
    (r"Regex pattern did not match|pytest.raises", "", tvm_reasons.WORDS),
    (r"blocks of \w+ are no stages", r"are no stages: (?:with T.block\(.*?\): *)?(.*)", "TVMScript: {}"),
    (r"no such device|no device|no clang", r"(clang|cuda|opencl|rocm|metal|vulkan)", "needs {}"),
    (r"errors\.\w+Error: ", r"errors\.\w+Error: (.*)", "{}"),
)


def reasons(file: str, row: dict[str, Any], most: int | None = 3) -> str:
    """What stops the cases of a file, the commonest first, with numbers of cases."""
    counts: collections.Counter[str] = collections.Counter()
    for case, text in row["why"].items():
        if not re.match(r"this machine has no|See https|unconditional skip|[Ss]kip", text):
            said = reason(without_folders(re.sub(r" *(lowered |read )?at \S+:\d+:", ":", text)))
            counts[tvm_reasons.reason(file, case) or cut(said)] += 1
    shown = counts.most_common(most)
    rest = sum(counts.values()) - sum(n for _, n in shown)
    texts = [*(f"{name} ({n})" if n > 1 else name for name, n in shown), *([f"others ({rest})"] if rest else [])]
    return "; ".join(texts).replace("|", "/")


def without_folders(text: str) -> str:
    """The text without folders of the machine that it ran on."""
    return re.sub(r"(?<![\w.])/(?:[^\s/'\"]+/)+", "", text)


def reason(text: str) -> str:
    for pattern, part, name in REASONS:
        if re.search(pattern, text):
            found = re.search(part, text) if part else None
            return name.format(found.group(1).strip(": ")) if found else name if not part else text
    text = re.sub(r"^(AssertionError: )?assert(?= )", "another result:", text)
    text = re.sub(r"^AssertionError(: (?=Not equal)|$)", "another result: ", text)
    return re.sub(r" at 0x\w+", "", text).strip() or "no message"


def cut(text: str, length: int = 90) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def table(rows: dict[str, dict[str, Any]]) -> str:
    """For each area, a row for each file: what completes, and what stops the rest."""
    lines = []
    for area in AREAS:
        own = {file: row for file, row in sorted(rows.items()) if row["area"] == area}
        if not own:
            continue
        total = {kind: sum(row.get(kind, 0) for row in own.values()) for kind in OUTCOMES}
        passed, failed = total["passed"], total["failed"] + total["stopped"]
        lines += [f"**{area}**: {passed} pass, {failed} do not, {total['skipped']} are skipped.", ""]
        lines += ["| file | passes | fails | skipped | what stops the rest |", "|---|---|---|---|---|"]
        lines += [
            f"| {', '.join(names)} | {' | '.join(map(str, counts))} | {why} |" for names, counts, why in merged(own)
        ]
        lines.append("")
    return "\n".join(lines).rstrip()


def merged(rows: dict[str, dict[str, Any]]) -> list[tuple[list[str], list[int], str]]:
    """Files, counts of passed, failed and skipped cases, and what stops them. Files of which nothing passes are one
    row for a reason; names that are not here are one reason."""
    found: dict[Any, tuple[list[str], list[int], list[str]]] = {}
    for file, row in rows.items():
        counts = [row.get("passed", 0), row.get("failed", 0) + row.get("stopped", 0), row.get("skipped", 0)]
        why = re.sub(r" \(\d+\)$", "", row["reason"]) if not counts[0] else row["reason"]
        is_name = why.startswith("no `")
        key = file if counts[0] else (is_name or why, counts[1] > 0)
        names, sums, whys = found.setdefault(key, ([], [0, 0, 0], []))
        names.append(Path(file).name)
        sums[:] = [a + b for a, b in zip(sums, counts, strict=True)]
        whys += [] if why in whys else [why]
    return [(names, sums, "; ".join(whys)) for names, sums, whys in found.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", nargs="?", type=Path, help="a checkout of TVM's repository")
    parser.add_argument("--only", nargs="+", default=[""], metavar="PART", help="files whose path has one of these")
    parser.add_argument("--failures", action="store_true", help="print what stops each case")
    parser.add_argument("--timeout", type=float, default=500.0, metavar="SECONDS", help="for a file; default 500")
    parser.add_argument("--table", action="store_true", help="print the table and run nothing")
    parser.add_argument("--dry", action="store_true", help="keep no results")
    options = parser.parse_args()
    path = RESULTS / f"{NAME}.json"
    rows: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.is_file() else {}
    if options.table or options.checkout is None:
        print(table(rows))
        return
    checkout = options.checkout.resolve()
    for area, globs in AREAS.items():
        for file in sorted(found for glob in globs for found in checkout.glob(glob)):
            name = str(file.relative_to(checkout))
            if not any(part in name for part in options.only):
                continue
            row = run_file(file, checkout, options.timeout)
            said = reasons(file.name, row, None if area in COMPLETE else 3)
            rows[name] = {"area": area, **{k: row[k] for k in OUTCOMES if k in row}, "reason": said}
            print(name, {kind: row[kind] for kind in OUTCOMES if kind in row}, flush=True)
            for begin in tvm_reasons.unused(file.name, list(row["why"])):
                print(f"    tvm_reasons: no case {begin}.. fails", flush=True)
            if options.failures:
                print(*(f"    {case}: {why}" for case, why in row["why"].items()), sep="\n", flush=True)
            if not options.dry:
                save(NAME, {"rows": rows})


if __name__ == "__main__":
    main()
