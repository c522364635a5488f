"""Fair comparisons: every contender is timed in turn, round by round, in one process."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

#: longer than idle threads spin: those of OpenMP some milliseconds, those of OpenBLAS 2**26 cycles
PAUSE_S = 0.25
#: a thread that wakes up may share its waker's core until the system moves it away
WARM_S = 0.02
#: a contender that has run this long sits out the rounds that are left, when it has three samples
ENOUGH_S = 3.0
RESULTS = Path(__file__).parent / "results"


def interleaved(
    contenders: dict[str, Callable[[], object]], rounds: int = 15, round_s: float = 0.03
) -> dict[str, list[float]]:
    """Seconds per call of each contender, one sample a round.

    A sample is as many calls as fill `round_s`; each round runs all contenders, the order rotating,
    so that what disturbs the machine disturbs all of them. A pause comes before each, because the
    threads of the contender before spin for some milliseconds, waiting for more work.
    """
    calls = {}
    for name, call in contenders.items():
        call()  # compile, allocate, touch
        begun = time.perf_counter()
        call()
        calls[name] = max(1, int(round_s / max(time.perf_counter() - begun, 1e-7)))
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for r in range(rounds):
        for name in order[r % len(order) :] + order[: r % len(order)]:
            call, n = contenders[name], calls[name]
            if len(samples[name]) >= 3 and n * sum(samples[name]) > ENOUGH_S:
                continue
            time.sleep(PAUSE_S)
            warm = time.perf_counter() + WARM_S
            call()  # bring caches and threads back from the contender before
            while time.perf_counter() < warm:
                call()
            begun = time.perf_counter()
            for _ in range(n):
                call()
            samples[name].append((time.perf_counter() - begun) / n)
    return samples


def medians(samples: dict[str, list[float]]) -> dict[str, float]:
    """Median seconds of each contender."""
    return {name: float(np.median(s)) for name, s in samples.items()}


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    import llvmlite.binding as llvm

    from autosched.target import cpu_count

    return {
        "cpu": llvm.get_host_cpu_name(),
        "cores": cpu_count(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def save(name: str, data: dict[str, object]) -> Path:
    """Write results as JSON beside the others."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(data, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return path
