"""Cost models that nobody trains: seconds on a CPU or a GPU, worked out from features and a handful of constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from autosched.errors import UsageError
from autosched.model.dataset import checked_features
from autosched.model.protocol import FloatArray
from autosched.model.untrained import UntrainedModel

#: Features that are given as they are; the others are log2(1 + x).
_PLAIN = frozenset({"main_stage_share", "vector_fill", "warp_fill", "loops"})
#: What the model looks at.
NEEDED = (
    "iterations", "main_stage_share", "lanes", "unrolled", "vector_bytes", "vector_fill", "accumulators",
    "recomputation", "waste", "vector_arithmetic", "loads_for_each_store", "register_loads", "code_size",
    "bytes_loaded", "bytes_stored", "innermost_extent", "guards", "choices", "index_arithmetic", "spills",
    "traffic", "tasks", "task_footprint", "imbalance", "regions", "bytes_into_l1", "bytes_into_l2", "bytes_into_l3",
    "strided_loads", "gathered_loads", "masked_loads", "streamed_bytes", "vector_stores", "independent_sums",
    "side_iterations", "side_task_iterations", "row_pages", "crowded_rows", "row_footprint",
    "scattered_updates", "cut_vectors", "side_waits", "shared_by_tasks",
)  # fmt: skip
#: Stores for each element of the output from which on the main store is taken for the sum of a contraction.
DEEP = 6
#: Parallel loops of a program that are begun once.
FEW_REGIONS = 8
#: What a parallel loop and the one before handle, in multiples of what one does: what one stores the next one reads.
NEXT_REGIONS = 1.5
#: Bytes that caches fetch at once.
LINE = 64
#: Bytes of a last-level cache that a few cores have to themselves, at most: larger ones lie across a whole server.
NEAR_L3 = 64 << 20
#: Such a one brings lines nearly as fast as a second-level cache, and few cores have more of the memory's bandwidth
#: each: `l2_byte`, `l3_byte` and `sent_on` of copies, sums and stencils of 0.5 to 320 MB on two cores of Zen 4.
NEAR_L3_COSTS = 0.004, 0.042, 0.005
#: What differs of a core whose pipes take a register in parts: its clock is as fast under vector load, and it finds
#: enough to do where statements fill several registers and where code is long. Of a dozen schedules each of 40 programs
#: on one core of Zen 4, where the mean error went from 0.42 to 0.29 (of 27 others from 0.39 to 0.33).
NARROW_COSTS: dict[str, Any] = {
    "multiply_add": 0.065, "arithmetic": 0.08, "store": 0.2, "strided": 0.04, "l1_byte": 0.006, "page": 1.5,
    "long_code": 0.05, "wide": 0.0,
}  # fmt: skip
#: Registers of so many bytes are filled lane by lane: compilers do not use AVX2's own instruction, which takes as long.
#: What one lane takes, of 0.7 to 1.1 in tables of bytes to doubles on one core of Zen 3, busy with other things.
NO_GATHERS_BYTES, LANE_BY_LANE = 32, 0.9
#: Pages of memory whose addresses a core has at hand: entries of the first-level table of data.
PAGES_AT_HAND = 64
#: Rows a whole number of pages apart that are read beside each other: their lines have the same few places of a cache,
#: and from so many on, what is fetched ahead is gone before it is read. Twice as many more make it no worse.
ROWS_AT_HAND, WORST_ROWS = 8, 2
#: Rows of any distance that a core fetches ahead of, and what one more costs beside a crowded one.
STREAMS_AT_HAND, STREAMS_LATE = 16, 0.4
#: Nanoseconds that any call takes.
LEAST = 100.0
#: log2 of a feature above which it says nothing but "far too many".
_MOST = 100.0


@dataclass(frozen=True)
class Core:
    """Costs of operations on one core, in nanoseconds unless said otherwise, and the machine's resources.

    A cycle is a third of a nanosecond, as on servers of 2018 to 2024 under vector load. Throughputs are those of cores
    with two vector pipes and two load ports (Fog, "Instruction tables", 2022: Skylake-X to Golden Cove, Zen 3).
    """

    #: One unit of arithmetic of a contraction in one register: a multiply-add is two, and two are begun each cycle.
    multiply_add: float = 0.095
    #: The same of other arithmetic: half of it finds a partner to fuse with.
    arithmetic: float = 0.09
    #: A load that hits the first-level cache; two are begun each cycle, if none crosses a line. Of a register that
    #: pipes take in parts, each part.
    load: float = 0.016
    #: From a multiply-add to the next that adds to the same register: 4 cycles.
    latency: float = 1.25
    #: A round of the innermost loop: counting, comparing, jumping, addresses.
    iteration: float = 0.19
    #: Entering the innermost loop: set-up, and a branch predicted wrong at its end, about 15 cycles. The end of a short
    #: loop is foreseen, or the loop written out: so many rounds cost that, fewer a share of it, and set-up at least.
    entry: float = 4.5
    foreseen: float = 64.0
    set_up: float = 0.6
    #: A vector store; one is begun each cycle, and a line is fetched for it.
    store: float = 0.5
    #: Writing a register to the stack and reading it again.
    spill: float = 2.0
    #: A lane that comes with a wide load and a shuffle, one that is loaded for itself, and one of 4 bytes or more,
    #: which there are instructions for.
    strided: float = 0.06
    gathered: float = 0.35
    gathered_word: float = 0.3
    #: An element that a scalar loop reads far from the one before.
    apart: float = 0.4
    #: A lane that asks whether it is there: at borders they are computed one after the other.
    masked: float = 0.4
    #: A vector that ends before its last lane, where code asks how long it is: pieces, each a loop of its own. Of sums,
    #: pixels and stencils along rows of 1, 3 and 17 elements on one core of Zen 5, busy with other things.
    cut: float = 5.0
    #: A byte that is written past the caches, and what one costs that a cache sends on later.
    streamed: float = 0.05
    sent_on: float = 0.03
    #: An update where data say, which waits for the one before if they meet; in photographs neighbours are alike.
    update: float = 0.35
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
    #: A page that the innermost loop walks into, beyond those whose addresses a core has at hand.
    page: float = 4.5
    #: A line from beyond the second-level cache that could not be fetched ahead, for each `ROWS_AT_HAND` too many.
    crowded: float = 1.3
    #: Beginning a parallel loop and waiting for its end.
    region: float = 4000.0
    #: The same for a loop that is begun again and again, as in time steps: the threads are still looking for work.
    next_region: float = 700.0
    #: Taking tasks from the counter that all threads share, and setting them up; a thread takes so many times.
    task: float = 120.0
    chunks: float = 8.0
    #: Instructions whose decoded form the front end keeps, and what each doubling beyond costs, as a share.
    kept_code: float = 1500.0
    long_code: float = 0.3
    #: Share that statements of 2 registers cost more than those of 1, of 4 more than of 2: temporaries are spilled.
    wide: float = 0.20

    units: int = 2
    vector_bytes: int = 32
    pipe_bytes: int = 64
    l1: float = 32 << 10
    l2: float = 512 << 10
    l3: float = 8 << 20

    @staticmethod
    def of(units: int, limits: Mapping[str, int]) -> Core:
        """The core of a machine with so many units; `limits` are those of a target."""
        units, l3 = max(1, units), limits.get("l3_bytes", Core.l3)
        core = Core(
            units=units,
            vector_bytes=limits.get("vector_bytes", Core.vector_bytes),
            pipe_bytes=limits.get("vector_pipe_bytes", Core.pipe_bytes),
            l1=limits.get("l1_bytes", Core.l1),
            l2=limits.get("l2_bytes", Core.l2),
            l3=l3,
        )
        if core.vector_bytes <= NO_GATHERS_BYTES:
            core = replace(core, gathered=LANE_BY_LANE, gathered_word=LANE_BY_LANE)
        if core.pipe_bytes < core.vector_bytes:
            core = replace(core, **NARROW_COSTS)
        if l3 * units > NEAR_L3:
            return core
        return replace(core, l2_byte=NEAR_L3_COSTS[0], l3_byte=NEAR_L3_COSTS[1], sent_on=NEAR_L3_COSTS[2])


class AnalyticalModel(UntrainedModel):
    """Seconds on a CPU from features, with no trial.

    Raises UsageError where `feature_names` lacks one that it needs, such as those of a space of one's own.
    """

    needed: tuple[str, ...] = NEEDED

    def __init__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1, core: Core | None = None):
        super().__init__(feature_names, seed=seed, threads=threads)
        missing = [name for name in self.needed if name not in self.feature_names]
        if missing:
            raise UsageError(
                f"the space does not have the features it works from: {', '.join(missing[:4])}, ...",
                asked="cost model 'analytical'",
                legal="a space of schedules for a CPU, whose features are in docs/features.md",
            )
        self._at = {name: self.feature_names.index(name) for name in self.needed}
        self.core = core or Core()

    def predict(self, features: ArrayLike) -> FloatArray:
        """Executions a second, float64 [n]. Raises UsageError for features of another width."""
        return 1.0 / self.seconds(features)

    def seconds(self, features: ArrayLike) -> FloatArray:
        """Predicted seconds of candidates, float64 [n]. Raises UsageError for features of another width."""
        return self.parts(features)["total"] * 1e-9

    def parts(self, features: ArrayLike) -> dict[str, FloatArray]:
        """The parts of the time of each candidate: name -> nanoseconds float64 [n].

        `total` is all of it. `arithmetic`, `loads`, `latency` and `fetches` overlap in a core; what else there is adds
        up. Times are those of all units together, but for `side`, which all wait for. Raises UsageError as `predict`.
        """
        matrix = checked_features(features, self.feature_names)
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
        inside = inside * (1.0 + core.wide * np.log2(body.temporaries))
        # what is done besides costs what all costs on average, the more so the more of it there is
        average = np.maximum(inside / np.maximum(seen["iterations"], 1.0), core.side)
        each = core.side + (average - core.side) * (1.0 - seen["main_stage_share"])
        outside = {
            "memory": busy.pop("memory"),
            "tasks": np.minimum(seen["tasks"], core.chunks * core.units) * core.task,
            "side": np.maximum(seen["side_task_iterations"] - seen["side_iterations"] / core.units, 0.0) * each,
            "regions": _begun(seen["regions"], core),
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
    temporaries: FloatArray  #: the same of what it computes in between; one where it goes on with the sums of a row
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
        # sums of a row in several registers are so many chains, and what is added is needed once
        temporaries = np.where(is_sum & (copies <= 1), 1.0, registers)
        return Body(times / found, copies * registers, registers, temporaries, accumulators, is_sum, found)


def _begun(regions: FloatArray, core: Core) -> FloatArray:
    """The time of beginning so many parallel loops: the first few wake threads."""
    few = np.minimum(regions, FEW_REGIONS)
    return few * core.region + (regions - few) * core.next_region


def _busy(f: Mapping[str, FloatArray], body: Body, core: Core) -> dict[str, FloatArray]:
    """Times of a core's pipes: the longest counts."""
    # Sums stay in registers: reading them again and again, as the sketch says, is not what the code does.
    loads = f["loads_for_each_store"] * body.accumulators * body.times
    others = f["register_loads"] / body.found - loads - np.where(body.is_sum, body.accumulators * body.times, 0.0)
    parts = np.clip(f["vector_bytes"] / core.pipe_bytes, 1.0, max(core.vector_bytes / core.pipe_bytes, 1.0))
    each = np.where(body.is_sum, core.multiply_add, core.arithmetic)
    chain = np.where(body.is_sum, body.times * body.vectors / np.maximum(f["independent_sums"], 1 / 64), 0.0)
    return {
        "arithmetic": f["vector_arithmetic"] / body.found * each,
        "loads": (loads + np.maximum(others, 0.0)) * core.load * parts,
        "latency": (chain + f["side_waits"]) * core.latency,
    }


def _fetched(f: Mapping[str, FloatArray], core: Core) -> dict[str, FloatArray]:
    """Times of transfers from caches and memory."""
    # Footprints are hulls: of a fused loop that is taken apart again they are far too large.
    # No more comes than is read.
    read = f["bytes_loaded"] + f["bytes_stored"] + LINE * f["strided_loads"]
    # Tasks meet in a cache of a core only if all that they share stays there: features take them for one loop.
    by_tasks, met = f["tasks"] * f["task_footprint"], f["shared_by_tasks"]
    into_l1 = np.minimum(np.maximum(f["bytes_into_l1"], np.where(met > core.l1, by_tasks, 0.0)), read)
    into_l1 = np.maximum(into_l1 - f["streamed_bytes"], 0.0)
    into_l2 = np.maximum(f["bytes_into_l2"], np.where(met > core.l2, by_tasks, 0.0))
    into_l2 = np.minimum(into_l2, into_l1)
    into_l3 = np.minimum(f["bytes_into_l3"], into_l2)
    near = np.minimum(np.maximum(f["traffic"], into_l3 * NEXT_REGIONS / np.maximum(f["regions"], 1.0)), into_l3)
    results = np.maximum(f["bytes_stored"] / (1.0 + f["recomputation"]) - f["streamed_bytes"], 0.0)
    sent_on = np.where(into_l2 > core.l2, np.minimum(results, into_l2), 0.0)
    rows = f["crowded_rows"]
    streams = f["row_footprint"] / np.maximum(f["innermost_extent"] * f["vector_bytes"], 1.0)
    late = np.clip(streams / STREAMS_AT_HAND - 1.0, 0.0, WORST_ROWS) * STREAMS_LATE
    late = into_l2 / LINE * np.maximum(late, np.clip(rows / ROWS_AT_HAND - 1.0, 0.0, WORST_ROWS))
    return {
        "fetches": late * core.crowded + into_l1 * core.l1_byte + into_l2 * core.l2_byte + sent_on * core.sent_on,
        # What fits into the last-level cache is still there from the call before, or from the parallel loop before; of
        # what does not, about as much as fits.
        "memory": into_l3 * np.maximum(1.0 - core.l3 / np.maximum(near, 1.0), 0.0) * core.l3_byte,
    }


def _overheads(f: Mapping[str, FloatArray], body: Body, core: Core) -> dict[str, FloatArray]:
    """Times that add up with those of the pipes."""
    # sums stay in registers: what is stored for good is what other stages store
    kept = np.where(body.is_sum, body.times * body.vectors * body.found, 0.0)
    stored = np.maximum(f["vector_stores"] - kept, 0.0) / body.found
    near = np.maximum(f["strided_loads"] - f["gathered_loads"], 0.0) * np.where(
        f["lanes"] > 1, core.strided, core.apart
    )
    gathered = np.where(f["vector_bytes"] >= 4 * f["lanes"], core.gathered_word, core.gathered)
    walks = body.times / np.maximum(f["innermost_extent"], 1.0)
    return {
        "iterations": body.times * core.iteration,
        "entries": walks * np.maximum(core.entry * np.minimum(f["innermost_extent"] / core.foreseen, 1.0), core.set_up),
        "pages": walks * np.maximum(f["row_pages"] - PAGES_AT_HAND, 0.0) * core.page,
        "stores": stored * core.store,
        "spills": f["spills"] * core.spill,
        "strided": near + f["gathered_loads"] * gathered,
        "masked": f["masked_loads"] * core.masked,
        "cut": f["cut_vectors"] * core.cut,
        "streamed": f["streamed_bytes"] * core.streamed,
        "updates": f["scattered_updates"] * core.update,
        "control": f["guards"] * core.guard + f["choices"] * core.choice + f["index_arithmetic"] * core.index,
    }


@dataclass(frozen=True)
class Gpu:
    """Costs of operations on one multiprocessor, in nanoseconds unless said otherwise, and its resources.

    Times are fitted to 231 kernels of eleven operators on an H100. Those of arithmetic and memory are within a factor
    of two of what white papers tell of GPUs with 128 lanes at 1.5 GHz.
    """

    #: One operation of one work-item. A multiply-add is two units of arithmetic and one operation.
    operation: float = 0.0097
    #: A load of one work-item, up to 16 bytes, from shared memory, and from the first-level cache.
    load: float = 0.016
    cached_load: float = 0.018
    #: A load that shares its line of 32 bytes with no neighbour: the line comes for it alone.
    apart: float = 0.25
    #: Share of an operation that a condition, a clamp, an index operation of the sketch is: most are hoisted.
    guard: float = 0.5
    choice: float = 1.0
    index: float = 0.02
    #: Bytes from the second-level cache and from memory: 250 and 22 GB/s for each multiprocessor.
    l2_byte: float = 0.004
    memory_byte: float = 0.046
    #: Share of the shorter pipes that the longest does not hide.
    beside: float = 0.15
    #: Launching a kernel.
    launch: float = 1700.0
    #: Starting a work-group.
    group: float = 40.0

    #: Warps and work-groups that are resident at once, and registers of 4 bytes for all of them.
    warps: float = 64
    groups: float = 32
    registers: float = 65536
    #: Registers of a work-item for addresses and the like; the most that it may have.
    base_registers: float = 28
    most_registers: float = 255
    #: Independent operations under way in all resident warps that hide latencies.
    in_flight: float = 16

    units: int = 16
    warp: int = 32

    @staticmethod
    def of(units: int, limits: Mapping[str, int]) -> Gpu:
        """The device with so many multiprocessors; `limits` are those of a target."""
        return Gpu(units=max(1, limits.get("compute_units", units)), warp=max(1, limits.get("work_group_multiple", 32)))


class GpuKernelModel(AnalyticalModel):
    """Seconds of kernels on a GPU, from features, with no trial."""

    needed = (
        "iterations", "main_stage_share", "vector_bytes", "traffic", "arithmetic", "index_arithmetic",
        "choices", "guards", "lanes", "vector_loads", "register_loads",
        "accumulators", "bytes_loaded", "bytes_stored", "bytes_into_l1", "bytes_into_l2", "bytes_into_l3",
        "tasks", "task_footprint", "imbalance", "regions", "threads", "warp_fill", "shared_bytes", "resident_groups",
        "uncoalesced_loads", "bank_conflicts",
    )  # fmt: skip

    def __init__(self, feature_names: Sequence[str], *, seed: int = 0, threads: int = 1, gpu: Gpu | None = None):
        super().__init__(feature_names, seed=seed, threads=threads)
        self.gpu = gpu or Gpu()

    def _parts(self, f: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        g = self.gpu
        fill = np.clip(f["warp_fill"], 1.0 / g.warp, 1.0)
        control = f["guards"] * g.guard + f["choices"] * g.choice + f["index_arithmetic"] * g.index
        # Copies to shared memory, and what else is no part of the main store.
        beside = np.where(f["shared_bytes"] > 0, f["iterations"] * (1.0 - f["main_stage_share"]), 0.0)
        fetched = self._fetched(f, beside)
        pipes = {
            "arithmetic": (f["arithmetic"] / 2 + control) * g.operation / fill,
            "loads": self._loads(f, beside) / fill,
            "fetches": fetched * g.l2_byte,
            "memory": np.minimum(f["bytes_into_l3"], fetched) * g.memory_byte,
        }
        longest = np.max(list(pipes.values()), axis=0)
        busy = longest + g.beside * (np.sum(list(pipes.values()), axis=0) - longest)
        hidden, spilled = self._hidden(f)
        waits = busy * (1.0 / hidden - 1.0)
        others = {"waits": waits, "spills": busy * spilled, "groups": f["tasks"] * g.group}
        shared = (busy + waits + others["spills"] + others["groups"]) * np.maximum(f["imbalance"], 1.0) / g.units
        launches = f["regions"] * g.launch
        return pipes | others | {"launches": launches, "total": np.maximum(shared + launches, LEAST)}

    def _loads(self, f: Mapping[str, FloatArray], beside: FloatArray) -> FloatArray:
        """Loads of a multiprocessor: copies that read the same share one, and what queues takes longer."""
        lanes = np.maximum(f["lanes"], 1.0)
        every = np.maximum(f["vector_loads"] * lanes, 1.0)
        kept = np.minimum(f["register_loads"] / np.maximum(f["vector_loads"], 1.0), 1.0)
        queue = f["bank_conflicts"] / every
        shared = np.minimum(queue, 1.0)
        # Neighbours that read vectors do not queue: fewer of them are served at a time.
        each = np.maximum(queue / lanes, shared) * self.gpu.load + (1.0 - shared) * self.gpu.cached_load
        # What is copied together lies together, which the indices of a fused loop do not show.
        apart = np.clip(f["uncoalesced_loads"] - beside, 0.0, every) * kept
        return f["register_loads"] * each + apart * self.gpu.apart

    @staticmethod
    def _fetched(f: Mapping[str, FloatArray], beside: FloatArray) -> FloatArray:
        """Bytes that first-level caches and shared memory fetch. Work-items of a group run side by side: what a group
        reads without shared memory comes once for all of them, not once for each as in a loop over them."""
        read = np.minimum(f["bytes_into_l1"], f["bytes_loaded"] + f["bytes_stored"])
        once = np.maximum(f["tasks"] * f["task_footprint"], f["bytes_into_l2"])
        copied = beside * f["vector_bytes"] / np.maximum(f["lanes"], 1.0)
        return np.minimum(read, np.where(f["shared_bytes"] > 0, copied + f["traffic"], once))

    def _hidden(self, f: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """The share of time in which some warp has something to do, and how much slower spilled registers make it."""
        g = self.gpu
        sums = np.maximum(f["accumulators"], 1.0) * np.maximum(f["lanes"], 1.0)
        wanted = g.base_registers + 1.5 * sums
        registers = np.minimum(wanted, g.most_registers)
        in_group = np.ceil(np.maximum(f["threads"], 1.0) / g.warp)
        by_registers = np.maximum(np.floor(g.registers / (registers * in_group * g.warp)), 1.0)
        by_memory = np.where(f["shared_bytes"] > 0, np.maximum(f["resident_groups"], 1.0), g.groups)
        groups = np.minimum(np.minimum(by_registers, by_memory), np.minimum(g.groups, np.floor(g.warps / in_group)))
        groups = np.minimum(np.maximum(groups, 1.0), np.ceil(np.maximum(f["tasks"], 1.0) / g.units))
        in_flight = groups * in_group * np.minimum(sums, 8.0) ** 0.5
        return np.clip(in_flight / g.in_flight, 0.02, 1.0), np.maximum(wanted / g.most_registers - 1.0, 0.0)


def kernel_core(units: int, limits: Mapping[str, int]) -> Core:
    """A core of a CPU that runs kernels, with what its runtime takes for things: measured of PoCL 3.0."""
    core = Core.of(limits.get("compute_units", units), limits)
    return replace(core, task=40.0, chunks=np.inf, region=15_000.0, next_region=15_000.0)


def prior_for(
    feature_names: Sequence[str], *, is_gpu_style: bool, units: int, limits: Mapping[str, int]
) -> AnalyticalModel | None:
    """The model of a target with these limits; None where it says nothing, as of spaces with other features."""
    is_gpu = is_gpu_style and not limits.get("is_cpu")
    if not set((GpuKernelModel if is_gpu else AnalyticalModel).needed) <= set(feature_names):
        return None
    if is_gpu:
        return GpuKernelModel(feature_names, gpu=Gpu.of(units, limits))
    return AnalyticalModel(feature_names, core=kernel_core(units, limits) if is_gpu_style else Core.of(units, limits))
