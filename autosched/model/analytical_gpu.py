"""Cost models of kernels that nobody trains: seconds on a GPU, and on a CPU that runs work-groups as tasks.

On a GPU a work-group's warps share a multiprocessor, which does one thing while it waits for another:

    issue    = (arithmetic + control) / lanes of warps that are used     (these share the schedulers)
             | loads, as often as work-items queue for a bank or a line  (a pipe of its own)
             | bytes from the second-level cache, bytes from memory      (and these)
    seconds  = the longest of these and a share of the rest, over the latency that resident warps hide,
               * imbalance of work-groups / multiprocessors + launches

How many warps are resident follows from shared memory, registers and the size of work-groups, as in a
vendor's occupancy calculator. Constants are those of NVIDIA's data sheets of 2017 to 2023, for one
multiprocessor: what differs between its generations is mostly how many of them there are.

On a CPU (PoCL, Intel's and AMD's runtimes) a work-group is a task, whose work-items are a loop around the
kernel: what it takes is what the same loops take on a CPU (`analytical.py`). Loops are not cut at borders
there, so conditions and clamps are paid for; and between two barriers is a loop over work-items of its
own, so that what work-items keep from one to the next is kept in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autosched.model.analytical import LEAST, AnalyticalModel, Body, Core
from autosched.model.protocol import FloatArray

__all__ = ["CpuKernelModel", "Gpu", "GpuKernelModel", "prior_for"]


#: Share of accesses that may lie apart in what becomes vectors all the same.
NEAR = 0.1


@dataclass(frozen=True)
class Gpu:
    """What one multiprocessor takes for things, in nanoseconds unless said otherwise, and what it has.

    At 1.5 GHz, with 128 lanes for arithmetic and a quarter of these for loads (Turing's white paper; "Dissecting the
    NVIDIA Volta GPU Architecture via Microbenchmarking", Jia et al. 2018).
    """

    #: One operation of one work-item. A multiply-add is two units of arithmetic and one operation.
    operation: float = 0.0052
    #: A load of one work-item, up to 16 bytes, from shared memory, and from the first-level cache.
    load: float = 0.021
    cached_load: float = 0.035
    #: A load that shares its line of 32 bytes with no neighbour: the line comes for it alone.
    apart: float = 0.083
    #: Share of an operation that a condition, a clamp, an index operation of the sketch is: most are hoisted.
    guard: float = 0.5
    choice: float = 1.0
    index: float = 0.02
    #: Bytes from the second-level cache and from memory: 40 and 20 GB/s for each multiprocessor.
    l2_byte: float = 0.025
    memory_byte: float = 0.05
    #: Share of the shorter pipes that the longest does not hide.
    beside: float = 0.3
    #: Launching a kernel.
    launch: float = 4000.0
    #: Starting a work-group.
    group: float = 300.0

    #: Warps and work-groups that are resident at once, and registers of 4 bytes for all of them.
    warps: float = 64
    groups: float = 32
    registers: float = 65536
    #: Registers of a work-item for addresses and the like; the most that it may have.
    base_registers: float = 28
    most_registers: float = 255
    #: Independent operations under way in all resident warps that hide latencies.
    in_flight: float = 32

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


class CpuKernelModel(AnalyticalModel):
    """Seconds of kernels on a CPU whose runtime makes tasks of work-groups."""

    needed = (*AnalyticalModel.needed, "shared_bytes", "threads_x", "loops", "uncoalesced_loads")

    @staticmethod
    def core_of(units: int, limits: Mapping[str, int]) -> Core:
        """A core, with what these runtimes take for things: measured of PoCL 3.0.

        Lanes that lie apart are loaded one by one for a work-item that goes on to their neighbours, which caches have.
        """
        core = Core.of(limits.get("compute_units", units), limits)
        core = replace(core, task=40.0, region=15_000.0, guard=0.1, choice=0.25, index=0.005)
        return replace(core, latency=2.0, strided=0.3, gathered=0.3)

    def _body(self, f: Mapping[str, FloatArray]) -> Body:
        """Of kernels without a loop, LLVM makes vectors along the work-items, as of any loop over neighbours."""
        body = Body.of(f, self.core)
        half = self.core.vector_bytes / np.maximum(f["vector_bytes"], 1.0) / 2
        straight = (f["loops"] < 1) & (f["lanes"] <= 1) & (f["uncoalesced_loads"] < NEAR * f["iterations"])
        found = np.where(straight & (f["threads_x"] >= half), np.maximum(half, 1.0), 1.0)
        return replace(body, times=body.times * body.found / found, found=found)

    def _parts(self, f: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        # Of kernels without a loop, neighbours are work-items, whatever the last loop that is written out walks along.
        # The lines that they read are of each other; what lies apart is little more than that.
        straight = (f["loops"] < 1) & (f["lanes"] <= 1)
        apart = np.where(straight, f["uncoalesced_loads"] / 8, f["strided_loads"])
        f = {**f, "strided_loads": apart}
        parts, core, body = super()._parts(f), self.core, self._body(f)
        meets = f["shared_bytes"] > 0
        kept = np.where(meets, 2.0 * body.times * body.accumulators * body.registers * (core.load + core.store), 0.0)
        entries = np.where(meets, 4.0 * f["tasks"] * core.entry, 0.0)
        between = (kept + entries) * np.maximum(f["imbalance"], 1.0) / core.units
        return parts | {"barriers": between, "total": parts["total"] + between}


def prior_for(
    feature_names: Sequence[str], *, is_gpu_style: bool, units: int, limits: Mapping[str, int]
) -> AnalyticalModel | None:
    """The model of a target with these limits; None where it says nothing, as of spaces with other features."""
    if not is_gpu_style:
        kind: type[AnalyticalModel] = AnalyticalModel
    else:
        kind = CpuKernelModel if limits.get("is_cpu") else GpuKernelModel
    if not set(kind.needed) <= set(feature_names):
        return None
    if kind is GpuKernelModel:
        return GpuKernelModel(feature_names, gpu=Gpu.of(units, limits))
    core = CpuKernelModel.core_of(units, limits) if kind is CpuKernelModel else Core.of(units, limits)
    return kind(feature_names, core=core)
