"""A cost model that nobody trains: seconds on a CPU, worked out from features and a handful of constants.

It adds up what a core does and waits for, as a person would on paper:

    core     = max(arithmetic, loads, latency), beside it what caches fetch    (these overlap)
             + loop iterations, entries into loops, spills, stores, gathers    (these do not)
    seconds  = core * imbalance / units + what memory delivers + serial side work + parallel regions

It is used before anything was measured: for `tune(trials=0)`, and as the prior of a learnt model, which
corrects it as trials arrive. So it has to put candidates into about the right order, for programs that
nobody has seen; its seconds are within a factor of two where features see what matters.

Constants come from data sheets and were compared with `records/simulated`: freed, within a factor of two
of what they are, and fitted to all spaces but those of one operator, they rank that one's points no better
(`experiments/prior.py`). So they stayed as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from autosched.errors import UsageError
from autosched.model.dataset import checked_features, checked_groups, checked_seconds
from autosched.model.protocol import FloatArray

__all__ = ["AnalyticalModel", "Body", "Core"]

#: Features that are given as they are; the others are log2(1 + x).
_PLAIN = frozenset({"main_stage_share", "vector_fill", "warp_fill", "loops"})
#: What the model looks at.
NEEDED = (
    "iterations", "main_stage_share", "lanes", "unrolled", "vector_bytes", "vector_fill", "accumulators",
    "recomputation", "waste", "vector_arithmetic", "loads_for_each_store", "register_loads", "code_size",
    "bytes_loaded", "bytes_stored", "innermost_extent", "guards", "choices", "index_arithmetic", "spilled_vectors",
    "traffic", "tasks", "task_footprint", "imbalance", "regions", "bytes_into_l1", "bytes_into_l2", "bytes_into_l3",
    "strided_loads", "gathered_loads", "masked_loads", "streamed_bytes", "vector_stores", "independent_sums",
    "side_iterations", "side_task_iterations",
)  # fmt: skip
#: Stores for each element of the output from which on the main store is taken for the sum of a contraction.
DEEP = 6
#: Bytes that caches fetch at once.
LINE = 64
#: Nanoseconds that any call takes.
LEAST = 100.0
#: log2 of a feature above which it says nothing but "far too many".
_MOST = 100.0


@dataclass(frozen=True)
class Core:
    """What one core takes for things, in nanoseconds unless said otherwise, and what the machine has.

    A cycle is a third of a nanosecond, as on servers of 2018 to 2024 under vector load. Throughputs are those of cores
    with two vector pipes and two load ports (Fog, "Instruction tables", 2022: Skylake-X to Golden Cove, Zen 3).
    """

    #: One unit of arithmetic of a contraction in one register: a multiply-add is two, and two are begun each cycle.
    multiply_add: float = 0.095
    #: The same of other arithmetic: half of it finds a partner to fuse with.
    arithmetic: float = 0.09
    #: A load that hits the first-level cache; two are begun each cycle, if none crosses a line.
    load: float = 0.13
    #: From a multiply-add to the next that adds to the same register: 4 cycles.
    latency: float = 1.25
    #: A round of the innermost loop: counting, comparing, jumping, addresses.
    iteration: float = 0.19
    #: Entering the innermost loop: set-up, and a branch predicted wrong at its end, about 15 cycles.
    entry: float = 4.5
    #: A vector store; one is begun each cycle, and a line is fetched for it.
    store: float = 0.5
    #: Writing a register to the stack and reading it again.
    spill: float = 0.35
    #: A lane that comes with a wide load and a shuffle, and one that is loaded for itself.
    strided: float = 0.06
    gathered: float = 2.0
    #: A lane that asks whether it is there: at borders they are computed one after the other.
    masked: float = 0.4
    #: A byte that is written past the caches, and what one costs that a cache sends on later.
    streamed: float = 0.05
    sent_on: float = 0.03
    #: A condition, a choice, an index operation of the sketch: cutting and hoisting remove nearly all of them.
    guard: float = 0.0015
    choice: float = 0.003
    index: float = 0.0001
    #: An element of what is done besides, such as packing, where one task waits for it.
    side: float = 0.12
    #: Bytes from the second-level cache, from the last-level one and from memory: 100, 30 and 12 GB/s for a core.
    l1_byte: float = 0.010
    l2_byte: float = 0.033
    l3_byte: float = 0.083
    #: Beginning a parallel loop and waiting for its end.
    region: float = 4000.0
    #: Taking a task from the counter that all threads share, and setting it up.
    task: float = 120.0
    #: Instructions whose decoded form the front end keeps, and what each doubling beyond costs, as a share.
    kept_code: float = 1500.0
    long_code: float = 0.3
    #: Share that statements of 2 registers cost more than those of 1, of 4 more than of 2: temporaries are spilled.
    wide: float = 0.20

    units: int = 2
    vector_bytes: int = 32
    l2: float = 512 << 10
    l3: float = 8 << 20

    @staticmethod
    def of(units: int, limits: Mapping[str, int]) -> Core:
        """The core of a machine with so many units; `limits` are those of a target."""
        return Core(
            units=max(1, units),
            vector_bytes=limits.get("vector_bytes", Core.vector_bytes),
            l2=limits.get("l2_bytes", Core.l2),
            l3=limits.get("l3_bytes", Core.l3),
        )


class AnalyticalModel:
    """Seconds on a CPU from features, with no trial. It is always `ready`, and learns nothing.

    Raises UsageError where `feature_names` lacks one that it needs, such as those of a space of one's own.
    """

    ready = True
    needed: tuple[str, ...] = NEEDED

    def __init__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1, core: Core | None = None):
        del seed, threads  # part of the constructor that all models share
        self._names = tuple(feature_names)
        missing = [name for name in self.needed if name not in self._names]
        if missing:
            raise UsageError(
                f"the space does not have the features it works from: {', '.join(missing[:4])}, ...",
                asked="cost model 'analytical'",
                legal="a space of schedules for a CPU, whose features are in docs/features.md",
            )
        self._at = {name: self._names.index(name) for name in self.needed}
        self.core = core or Core()

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return self._names

    def fit(self, features: ArrayLike, seconds: ArrayLike, groups: ArrayLike) -> None:
        """Check the data and learn nothing. Raises UsageError as a model that learns would."""
        rows = len(checked_features(features, self._names))
        checked_seconds(seconds, rows)
        checked_groups(groups, rows)

    def predict(self, features: ArrayLike) -> FloatArray:
        """Executions a second, float64 [n]. Raises UsageError for features of another width."""
        return 1.0 / self.seconds(features)

    def seconds(self, features: ArrayLike) -> FloatArray:
        """How long candidates take, float64 [n]. Raises UsageError for features of another width."""
        return self.parts(features)["total"] * 1e-9

    def parts(self, features: ArrayLike) -> dict[str, FloatArray]:
        """What the time of each candidate consists of: name -> nanoseconds float64 [n].

        `total` is all of it. `arithmetic`, `loads`, `latency` and `fetches` overlap in a core; what else there is adds
        up. Times are those of all units together, but for `side`, which all wait for. Raises UsageError as `predict`.
        """
        matrix = checked_features(features, self._names)
        seen = {
            name: matrix[:, at] if name in _PLAIN else np.exp2(np.minimum(matrix[:, at], _MOST)) - 1.0
            for name, at in self._at.items()
        }
        return self._parts(seen)

    def _body(self, seen: Mapping[str, FloatArray]) -> Body:
        return Body.of(seen, self.core)

    def _parts(self, seen: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        body, core = self._body(seen), self.core
        busy = _busy(seen, body, core) | _fetched(seen, core)
        pipes = np.cbrt(busy["arithmetic"] ** 3 + busy["loads"] ** 3 + busy["latency"] ** 3)
        pipes = pipes * (1.0 + core.long_code * np.log2(np.maximum(seen["code_size"] / core.kept_code, 1.0)))
        overheads = _overheads(seen, body, core)
        inside = np.hypot(pipes, busy["fetches"]) + np.sum(list(overheads.values()), axis=0)
        inside = inside * (1.0 + core.wide * np.log2(body.registers))
        outside = {
            "memory": busy.pop("memory"),
            "tasks": seen["tasks"] * core.task,
            "side": np.maximum(seen["side_task_iterations"] - seen["side_iterations"] / core.units, 0.0) * core.side,
            "regions": seen["regions"] * core.region,
        }
        shared = inside * np.maximum(seen["imbalance"], 1.0) + outside["memory"] + outside["tasks"]
        total = shared / core.units + outside["side"] + outside["regions"]
        return busy | overheads | outside | {"total": np.maximum(total, LEAST)}


@dataclass(frozen=True)
class Body:
    """The straight-line code of the main store: how often it runs, and what is in it."""

    times: FloatArray
    vectors: FloatArray  #: registers that one run of it computes
    registers: FloatArray  #: that one vector statement fills
    accumulators: FloatArray
    is_sum: np.ndarray  #: whether each run goes on with sums of the one before
    found: FloatArray  #: lanes of the vectors that LLVM makes of a scalar loop; 1 where there are vectors already

    @staticmethod
    def of(f: Mapping[str, FloatArray], core: Core) -> Body:
        copies = np.maximum(f["unrolled"], 1.0)
        registers = np.round(f["vector_bytes"] / np.maximum(f["vector_fill"], 1e-9) / core.vector_bytes)
        registers = np.maximum(registers, 1.0)
        times = f["iterations"] * f["main_stage_share"] / (copies * np.maximum(f["lanes"], 1.0))
        is_sum = np.maximum(f["recomputation"], f["waste"]) > DEEP
        accumulators = np.maximum(f["accumulators"], 1.0)
        # one long loop over neighbours without a chain: half of a register is what comes of it
        plain = (f["lanes"] <= 1) & (copies <= 1) & (f["strided_loads"] < 1)
        plain &= ~is_sum | (f["independent_sums"] > accumulators)
        half = core.vector_bytes / np.maximum(f["vector_bytes"], 1.0) / 2
        found = np.where(plain & (f["innermost_extent"] >= half), np.maximum(half, 1.0), 1.0)
        return Body(times / found, copies * registers, registers, accumulators, is_sum, found)


def _busy(f: Mapping[str, FloatArray], body: Body, core: Core) -> dict[str, FloatArray]:
    """What the pipes of a core do: the longest of these is what counts."""
    # Sums stay in registers: reading them again and again, as the sketch says, is not what the code does.
    loads = f["loads_for_each_store"] * body.accumulators * body.times
    others = f["register_loads"] / body.found - loads - np.where(body.is_sum, body.accumulators * body.times, 0.0)
    each = np.where(body.is_sum, core.multiply_add, core.arithmetic)
    chain = np.where(body.is_sum, body.times * body.vectors / np.maximum(f["independent_sums"], 1.0), 0.0)
    return {
        "arithmetic": f["vector_arithmetic"] / body.found * each,
        "loads": (loads + np.maximum(others, 0.0)) * core.load,
        "latency": chain * core.latency,
    }


def _fetched(f: Mapping[str, FloatArray], core: Core) -> dict[str, FloatArray]:
    """What caches and memory deliver."""
    # Footprints are hulls: of a fused loop that is taken apart again they are far too large.
    # No more comes than is read.
    read = f["bytes_loaded"] + f["bytes_stored"] + LINE * f["strided_loads"]
    into_l1 = np.maximum(np.minimum(f["bytes_into_l1"], read) - f["streamed_bytes"], 0.0)
    # Tasks meet in a second-level cache only if all they touch stays there: features take them for one loop.
    by_tasks = np.where(f["traffic"] > core.l2, f["tasks"] * f["task_footprint"], 0.0)
    into_l2 = np.minimum(np.maximum(f["bytes_into_l2"], by_tasks), into_l1)
    into_l3 = np.minimum(f["bytes_into_l3"], into_l2)
    results = np.maximum(f["bytes_stored"] / (1.0 + f["recomputation"]) - f["streamed_bytes"], 0.0)
    sent_on = np.where(into_l2 > core.l2, np.minimum(results, into_l2), 0.0)
    return {
        "fetches": into_l1 * core.l1_byte + into_l2 * core.l2_byte + sent_on * core.sent_on,
        # What fits into the last-level cache is still there from the call before.
        "memory": np.where(into_l3 > core.l3, into_l3, 0.0) * core.l3_byte,
    }


def _overheads(f: Mapping[str, FloatArray], body: Body, core: Core) -> dict[str, FloatArray]:
    """What a core does besides, one after the other."""
    # sums stay in registers: what is stored for good is what other stages store
    stored = f["vector_stores"] * np.where(body.is_sum, 1.0 - f["main_stage_share"], 1.0) / body.found
    near = np.where(f["lanes"] > 1, np.maximum(f["strided_loads"] - f["gathered_loads"], 0.0), 0.0)
    return {
        "iterations": body.times * core.iteration,
        "entries": body.times / np.maximum(f["innermost_extent"], 1.0) * core.entry,
        "stores": stored * core.store,
        "spills": body.times * f["spilled_vectors"] * core.spill,
        "strided": near * core.strided + f["gathered_loads"] * core.gathered,
        "masked": f["masked_loads"] * core.masked,
        "streamed": f["streamed_bytes"] * core.streamed,
        "control": f["guards"] * core.guard + f["choices"] * core.choice + f["index_arithmetic"] * core.index,
    }
