"""Everything that is to be known of a GPU: are all answers right, and how fast is it beside copies, cuBLAS and torch.

    python experiments/gpu.py                       # the day a GPU is there: both halves, on all that is there
    python experiments/gpu.py --check               # only the answers; without a GPU on what stands in for one
    python experiments/gpu.py --check fft blur      # of workloads whose name has one of these
    python experiments/gpu.py --check --on emulated --sketches 8
    python experiments/gpu.py --speed --budget 300  # only the speed, five minutes of tuning for each row
    python experiments/gpu.py --speed --on "opencl cpu" --small --budget 5   # the same code, on PoCL

*Check* runs every workload of `search_spaces/` and every program of `programs/` at small sizes, each in a process of
its own: `gpu_check.py` tells on what, and what is compared. It needs no GPU. *Speed* measures what copying
and multiply-adds reach on a device, then tunes some operators with `space="all"` and times what was found on the
device's clock. It never takes another device for a GPU unless `--on` names it.

Results go to `experiments/results/gpu.json` after every row, records into `experiments/results/gpu_records`. What is
there of the same device and options is not run again, unless `--again`; tuning goes on from its records. A failure
ends its row, not the run. Exits with 1 if any answer was wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from common import RESULTS, machine, save
from gpu_check import REFUSED, RIGHT, WRONG, Backend, backends, cases, check, differs, emulate
from gpu_peers import PEERS

from autosched import build, te, tune
from autosched.errors import AutoschedError
from autosched.runtime.device import describe_device
from autosched.runtime.module import Module
from autosched.schedule import create_schedule
from autosched.space.loading import find_workload
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te.work import work_of

CRASHED, TIMED_OUT = "crashed", "no answer in time"
#: seconds that one workload may take on one backend
PATIENCE_S = 600
#: backends that stand in for a GPU where there is none, and run by themselves
STAND_INS = ("emulated", "opencl as gpu", "opencl cpu", "interpreted")
#: samples of a time, of which the median counts, and milliseconds that each lasts at least
SAMPLES, SAMPLE_MS = 7, 50

# -- answers ---------------------------------------------------------------------------------------


def check_alone(title: str, backend: str, sketches: int) -> list[dict[str, str]]:
    """The verdicts on one workload, from a process of its own: a kernel may end it, or never end."""
    command = [sys.executable, __file__, "--one", title, "--on", backend, "--sketches", str(sketches)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return [{"candidate": "", "outcome": TIMED_OUT, "why": f"{PATIENCE_S} s"}]
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return [{"candidate": "", "outcome": CRASHED, "why": f"exit {done.returncode}: {last[:300]}"}]
    return json.loads(lines[-1])  # type: ignore[no-any-return]


def check_one(title: str, backend: Backend, sketches: int) -> None:
    """Print the verdicts on one workload as JSON; in a process of its own."""
    if backend.emulated:
        emulate()
    work, sizes = cases()[title]
    print(json.dumps([asdict(v) for v in check(work, sizes, backend, sketches)]))


def check_all(
    titles: Sequence[str], chosen: Sequence[Backend], args: argparse.Namespace, results: dict[str, Any]
) -> bool:
    """Check all workloads on all backends; whether no answer is wrong."""
    for backend in chosen:
        device = device_of(backend)
        known = results.setdefault("check", {}).setdefault(backend.name, {})
        if known.get("device") != device or known.get("sketches") != args.sketches:
            known.clear()
            known.update(device=device, sketches=args.sketches, rows={})
        waiting = [t for t in titles if args.again or t not in known["rows"]]
        alone = partial(check_alone, backend=backend.name, sketches=args.sketches)
        with ThreadPoolExecutor(args.jobs) as pool:
            for title, row in zip(waiting, pool.map(alone, waiting), strict=True):
                known["rows"][title] = row
                for v in row:
                    if v["outcome"] != RIGHT:
                        print(f"{backend.name}: {title}, {v['candidate']}: {v['outcome']}: {v['why']}", flush=True)
                save("gpu", results)
    tables(results, titles, chosen)
    rows = (row for b in chosen for row in results["check"][b.name]["rows"].values())
    return not any(v["outcome"] in (WRONG, CRASHED, TIMED_OUT) for row in rows for v in row)


def tables(results: Mapping[str, Any], titles: Sequence[str], chosen: Sequence[Backend]) -> None:
    """How many candidates came to what, for each backend."""
    print(f"\n| backend | workloads | {RIGHT} | {WRONG} | {REFUSED} | {CRASHED} | {TIMED_OUT} |")
    print("|---|---|---|---|---|---|---|")
    for b in chosen:
        rows = [r for t, r in results["check"][b.name]["rows"].items() if t in titles]
        found = Counter(v["outcome"] for row in rows for v in row)
        counts = " | ".join(str(found[o]) for o in (RIGHT, WRONG, REFUSED, CRASHED, TIMED_OUT))
        print(f"| {b.name} | {len(rows)} | {counts} |", flush=True)


def device_of(backend: Backend) -> str:
    """What runs it, in words; the same device has the same."""
    if backend.emulated or backend.interpreted:
        return backend.name
    return str(describe_device(backend.target)["name"])


# -- speed -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """An operator that is tuned. `aim` is what is to be reached, as (what it is compared with, share)."""

    title: str
    workload: str
    params: dict[str, Any]
    small: dict[str, Any]  #: what replaces them with `--small`
    sizes: dict[str, int] = field(default_factory=dict)
    aim: tuple[str, float] | None = None


def _square(n: int, dtype: str) -> dict[str, Any]:
    return {"m": n, "n": n, "k": n, "dtype": dtype}


_PHOTO = {"height": 1280, "width": 1920}
_ROWS, _SMALL_ROWS = {"rows": 4096, "columns": 4096}, {"rows": 256, "columns": 512}
_CONV = {"batch": 16, "height": 56, "width": 56, "cin": 64, "cout": 64}
TABLE = (
    Row("box blur", "box_blur", {}, {}, _PHOTO, ("copy", 0.8)),
    Row("box blur 8K", "box_blur", {}, {}, {"height": 4320, "width": 7680}, ("copy", 0.8)),
    Row("matmul float32", "matmul", _square(4096, "float32"), _square(256, "float32"), aim=("cublas", 0.8)),
    Row("matmul float16", "matmul", _square(4096, "float16"), _square(256, "float16")),
    Row("softmax", "softmax", _ROWS, _SMALL_ROWS),
    Row("layer norm", "layer_norm", _ROWS, _SMALL_ROWS),
    Row("conv2d 3x3 NCHW", "conv2d_nchw", _CONV, {**_CONV, "batch": 1, "cin": 16, "cout": 16}),
    Row("histogram", "histogram", {**_PHOTO, "channels": 3}, {"height": 320, "width": 480, "channels": 3}),
)


def seconds_of(module: Module, arrays: Sequence[np.ndarray]) -> float:
    """Seconds of a call on the device's clock: the median of some samples."""
    timed = module.time_evaluator(module.name, number=1, repeat=SAMPLES, min_repeat_ms=SAMPLE_MS)
    return float(timed(*arrays).median)


def best_of(variants: Iterator[Callable[[], float]]) -> float:
    """The least that one of the variants takes; those that the device refuses do not count."""
    found = []
    for variant in variants:
        try:
            found.append(variant())
        except AutoschedError as error:
            print(f"  refused: {error}", file=sys.stderr)
    if not found:
        raise AutoschedError("the device refuses every variant")
    return min(found)


def bound_kernel(args: Sequence[te.Tensor], target: Target, items: int, lanes: int) -> Module:
    """The last tensor with a vector of `lanes` elements for each work-item."""
    s = create_schedule(args[-1])
    stage = s[args[-1]]
    vectors, lane = stage.split(stage.loops[0], factor=lanes)
    block, item = stage.split(vectors, factor=items)
    stage.bind(block, "blockIdx.x")
    stage.bind(item, "threadIdx.x")
    stage.vectorize(lane)
    return build(s, target, args=list(args))


def copy_rate(target: Target, megabytes: int) -> float:
    """Bytes a second of the fastest copy of so many megabytes, bytes read and bytes written."""
    n = megabytes * (1 << 20) // 4
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i], name="b")
    arrays = [np.ones(n, np.float32), np.empty(n, np.float32)]
    shapes = [(items, lanes) for items in (64, 128, 256, 512) for lanes in (1, 2, 4)]
    took = best_of((lambda x=x: seconds_of(bound_kernel([a, b], target, *x), arrays)) for x in shapes)  # type: ignore[misc]
    return 2 * 4 * n / took


def fma_rate(target: Target, dtype: str, n: int) -> float:
    """Operations a second of multiply-adds, two each: work-items with chains that wait for nobody's memory."""
    length = 64

    def made(chains: int) -> tuple[list[te.Tensor], int]:
        x = te.placeholder((n,), dtype, name="x")
        scale = te.placeholder((1,), dtype, name="scale")

        def body(i: te.Expr) -> te.Expr:
            sums = [x[i] + float(c) for c in range(chains)]
            for _ in range(length):
                sums = [s * scale[0] + x[i] for s in sums]
            total = sums[0]
            for s in sums[1:]:
                total = total + s
            return total

        return [x, scale, te.compute((n,), body, name="y")], 2 * chains * length * n

    def rate(chains: int, items: int) -> float:
        args, operations = made(chains)
        arrays = [np.zeros(n, dtype), np.full(1, 0.5, dtype), np.empty(n, dtype)]
        return seconds_of(bound_kernel(args, target, items, 1), arrays) / operations

    shapes = [(chains, items) for chains in (4, 8) for items in (128, 256, 512)]
    return 1 / best_of((lambda x=x: rate(*x)) for x in shapes)  # type: ignore[misc]


def yardsticks(target: Target, small: bool) -> dict[str, float]:
    """What the device reaches: GB/s of a copy, GFLOP/s of multiply-adds by type."""
    found = {"copy_GBs": copy_rate(target, 32 if small else 512) / 1e9}
    types = ["float32", *(["float64"] if target.limits.get("fp64", 1) else [])]
    for dtype in types:  # float16 is computed in float32 here: its peak is that one's
        found[f"fma_{dtype}_GFLOPs"] = fma_rate(target, dtype, (1 << 16) if small else (1 << 22)) / 1e9
    return {name: float(f"{x:.4g}") for name, x in found.items()}


def measure(row: Row, backend: Backend, yard: Mapping[str, float], args: argparse.Namespace) -> dict[str, Any]:
    """Tune one operator; what it takes, and how that stands beside the yardsticks and the libraries."""
    work: Workload = find_workload(row.workload)(**{**row.params, **(row.small if args.small else {})})
    inputs = work.sample_inputs(row.sizes or None)
    sizes, wanted = work.sizes_of(inputs), work.reference(inputs)
    records = str(RESULTS / "gpu_records")
    begun = tune(
        work, backend.target, space="all", trials=None, budget_s=args.budget, sizes=row.sizes or None, records=records
    )
    module = build(work, backend.target, sizes=sizes, records=records)
    outputs = [np.zeros_like(w) for w in wanted]
    module(*inputs, *outputs)
    wrong = differs(work, backend.target, outputs, wanted)
    took = {"autosched": seconds_of(module, [*inputs, *outputs])}
    failed: dict[str, str] = {}
    for name, peer in PEERS.items():
        try:
            took[name] = peer(row.workload, inputs, backend.target)
        except LookupError as why:  # it has none, or is not here: said in one sentence
            failed[name] = str(why.args[0])
    load = work_of(work.args, sizes)
    return {
        "device": device_of(backend),
        "budget_s": args.budget,
        "small": args.small,
        "trials": begun.trials,
        "default_s": begun.default_seconds,
        "sketch": begun.best.sketch if begun.best is not None else "default",
        "wrong": wrong,
        "seconds": {n: float(f"{s:.4g}") for n, s in took.items()},
        "without": failed,
        "GBs": load.moved / took["autosched"] / 1e9 if load else None,
        "GFLOPs": load.flops / took["autosched"] / 1e9 if load else None,
        "shares": shares(took, load.moved if load else None, load.flops if load else None, yard),
        "aim": row.aim,
    }


def shares(
    took: Mapping[str, float], moved: int | None, flops: int | None, yard: Mapping[str, float]
) -> dict[str, float]:
    """What share is reached of copying, of multiply-adds, and of each library: 1 is as fast."""
    ours = took["autosched"]
    found = {name: seconds / ours for name, seconds in took.items() if name != "autosched"}
    if moved:
        found["copy"] = moved / ours / 1e9 / yard["copy_GBs"]
    if flops:
        found["fma"] = flops / ours / 1e9 / yard["fma_float32_GFLOPs"]
    return {name: float(f"{x:.3g}") for name, x in found.items()}


SHARES = ("copy", "fma", *PEERS)


def speed(rows: Sequence[Row], chosen: Sequence[Backend], args: argparse.Namespace, results: dict[str, Any]) -> bool:
    """Measure all rows on all backends; whether no answer is wrong."""
    right = True
    for backend in chosen:
        known = results.setdefault("speed", {}).setdefault(backend.name, {})
        device = device_of(backend)
        if args.again or known.get("device") != device or known.get("small") != args.small:
            known.clear()
            known.update(device=device, small=args.small, rows={})
        try:
            yard = known.get("yardsticks") or yardsticks(backend.target, args.small)
        except Exception:
            print(f"{backend.name}: nothing can be measured there:\n{traceback.format_exc()}", file=sys.stderr)
            right = False
            continue
        known["yardsticks"] = yard
        print(f"\n{backend.name}: {device}: {', '.join(f'{k} {v:g}' for k, v in yard.items())}")
        print(f"| operator | trials | default ms | ms | GB/s | GFLOP/s | {' | '.join(SHARES)} | aim |")
        print("|" + "---|" * (len(SHARES) + 7), flush=True)
        for row in rows:
            done = known["rows"].get(row.title)
            if done is None or done["budget_s"] < args.budget:
                try:
                    done = known["rows"][row.title] = measure(row, backend, yard, args)
                except Exception:  # one that fails is a finding, not the end
                    print(f"{row.title} fails:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
                    right = False
                    continue
                save("gpu", results)
            print(line(row.title, done), flush=True)
            right = right and not done["wrong"]
    return right


def line(title: str, done: Mapping[str, Any]) -> str:
    """One line of the table."""

    def number(x: float | None) -> str:
        return "" if x is None else f"{x:.3g}"

    reached = " | ".join(number(done["shares"].get(s)) for s in SHARES)
    aim = ""
    if done["aim"]:
        what, least = done["aim"]
        got = done["shares"].get(what)
        aim = f"{least:g} of {what}: " + ("not measured" if got is None else "reached" if got >= least else "missed")
    default = None if done["default_s"] is None else 1e3 * done["default_s"]
    ours = 1e3 * done["seconds"]["autosched"]
    wrong = f" WRONG: {done['wrong']}" if done["wrong"] else ""
    return (
        f"| {title} | {done['trials']} | {number(default)} | {number(ours)} | {number(done['GBs'])} | "
        f"{number(done['GFLOPs'])} | {reached} | {aim}{wrong} |"
    )


# -- the command -----------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only workloads and operators with one of these in their name")
    parser.add_argument("--check", action="store_true", help="only the answers")
    parser.add_argument("--speed", action="store_true", help="only the speed")
    parser.add_argument("--on", action="append", help="backends; by default the GPUs, and what stands in for them")
    parser.add_argument("--sketches", type=int, default=4, help="of each workload to check; default %(default)d")
    parser.add_argument("--jobs", type=int, default=1, help="processes that check at once; default %(default)d")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of tuning a row; default %(default)g")
    parser.add_argument("--small", action="store_true", help="small operators, to try the speed half on a CPU")
    parser.add_argument("--again", action="store_true", help="run what has run, too")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    there = backends()
    unknown = [b for b in args.on or () if b not in there]
    if unknown:
        parser.error(f"not on this machine: {', '.join(unknown)}; there are {', '.join(there)}")
    if args.one:
        check_one(args.one, there[args.on[0]], args.sketches)
        return 0
    gpus = [b for b in there.values() if b.name not in STAND_INS]
    path = RESULTS / "gpu.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    results["machine"] = machine()

    def named(name: str) -> bool:
        return not args.names or any(n in name for n in args.names)

    right = True
    if args.check or not args.speed:
        on = [there[b] for b in args.on] if args.on else gpus or [there[b] for b in STAND_INS if b in there]
        right = check_all([t for t in cases() if named(t)], on, args, results)
    if args.speed or not args.check:
        on = [there[b] for b in args.on or () if there[b].name not in ("emulated", "interpreted")] or gpus
        if not on:
            print("\nNo GPU is here, so no speed is measured: --speed --on names a device to try the code on.")
        right = speed([r for r in TABLE if named(r.title)], on, args, results) and right
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
