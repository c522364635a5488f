"""Whole models beside ONNX Runtime, in one process, in turn: ResNet-50, MobileNetV2, BERT, a small CNN, a perceptron.

    python experiments/models.py                     # no tuning: minutes
    python experiments/models.py resnet50 --threads 2
    python experiments/models.py --table             # what was measured last

Weights are random (`networks.py`). Every result is compared with ONNX Runtime's. Results go to
`experiments/results/models.json`. Needs `pip install autosched[onnx] onnxruntime`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from networks import NETWORKS, random_input

from autosched.graph import load

RESULTS = Path(__file__).parent / "results" / "models.json"
ROUNDS, LEAST_S, PAUSE_S = 15, 0.05, 0.1


def sample(action: Callable[[], object]) -> float:
    """Seconds of a call, the mean over enough of them.

    The other library's threads spin for a while after its last call and keep a core: a pause lets them go to sleep.
    """
    time.sleep(PAUSE_S)
    action()
    begun, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begun < LEAST_S:
        action()
        calls += 1
    return (time.perf_counter() - begun) / calls


def measure(name: str, threads: int) -> dict[str, Any]:
    proto = NETWORKS[name]()
    inputs = random_input(proto)
    begun = time.perf_counter()
    compiled = load(proto, name=name).compile(f"llvm -threads={threads}")
    (ours,) = compiled.run(inputs).values()
    first = time.perf_counter() - begun
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(proto.SerializeToString(), settings)
    (theirs,) = session.run(None, inputs)
    error = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    rounds = [(sample(lambda: compiled.run(inputs)), sample(lambda: session.run(None, inputs))) for _ in range(ROUNDS)]
    kernels = sum(t.seconds for t in compiled.profile(inputs))
    us, them = (statistics.median(r[k] for r in rounds) for k in (0, 1))
    return {
        "model": name,
        "kernels": len(compiled.cut.kernels),
        "calls": len(compiled.cut.calls),
        "first_answer_s": round(first, 1),
        "ms": us * 1e3,
        "onnxruntime_ms": them * 1e3,
        "ratio": statistics.median(a / b for a, b in rounds),
        "over_kernels": us / kernels,
        "arena": compiled.memory.arena,
        "apart": compiled.memory.apart,
        "alive": compiled.memory.alive,
        "error": error,
    }


def table(rows: dict[str, dict[str, Any]]) -> str:
    lines = ["| model | kernels / calls | first answer | ms | onnxruntime ms | ratio | arena / apart / alive, KiB |"]
    lines.append("|---|---|---|---|---|---|---|")
    for r in rows.values():
        memory = " / ".join(f"{r[k] >> 10:,}" for k in ("arena", "apart", "alive"))
        lines.append(
            f"| {r['model']} | {r['kernels']} / {r['calls']} | {r['first_answer_s']} s | {r['ms']:.3g} | "
            f"{r['onnxruntime_ms']:.3g} | {r['ratio']:.2f} | {memory} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these models")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    rows: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in () if args.table else args.names or NETWORKS:
        rows[name] = measure(name, args.threads)
        print(json.dumps(rows[name]), flush=True)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
