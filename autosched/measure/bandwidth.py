"""Measuring a machine's roofline: bandwidths of its memory levels, peaks of its multiply-adds."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import llvmlite.binding as llvm
import numpy as np

from autosched.codegen.llvm import assembled, host
from autosched.errors import MeasureError
from autosched.measure.roofline import Level, Roofline
from autosched.measure.workers import available_memory
from autosched.runtime.cpu import LoadedCode
from autosched.runtime.device import Cache, data_caches, host_cpu
from autosched.target import cpu_count

#: Vectors that one step of a stream moves.
UNROLLED = 8
#: Independent multiply-adds of one step, for CPUs with 16 and with 32 vector registers: more than latency times
#: throughput, which is 8 to 10 on today's cores.
CHAINS = {16: 12, 32: 24}

_HEAD = """\
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()
"""

_LAUNCH = """\
define void @{name}(ptr %args, i32 %threads) {{
  call void @GOMP_parallel(ptr @{name}.worker, ptr %args, i32 %threads, i32 0)
  ret void
}}
define internal void @{name}.worker(ptr %args) {{
entry:
  %number = call i32 @omp_get_thread_num()
  %thread = zext i32 %number to i64
  %from.all = load ptr, ptr %args
  %to.at = getelementptr i64, ptr %args, i64 1
  %to.all = load ptr, ptr %to.at
  %bytes.at = getelementptr i64, ptr %args, i64 2
  %bytes = load i64, ptr %bytes.at
  %stride.at = getelementptr i64, ptr %args, i64 3
  %stride = load i64, ptr %stride.at
  %rounds.at = getelementptr i64, ptr %args, i64 4
  %rounds = load i64, ptr %rounds.at
  %offset = mul i64 %thread, %stride
  %from = getelementptr i8, ptr %from.all, i64 %offset
  %to = getelementptr i8, ptr %to.all, i64 %offset
{before}
  br label %round
round:
  %r = phi i64 [ 0, %entry ], [ %r.next, %round.end ]
{round}
  br label %step
step:
  %i = phi i64 [ 0, %round ], [ %i.next, %step ]
{step}
  %i.next = add i64 %i, {stride}
  %more = icmp ult i64 %i.next, %bytes
  br i1 %more, label %step, label %round.end
round.end:
{after}
  %r.next = add i64 %r, 1
  %again = icmp ult i64 %r.next, %rounds
  br i1 %again, label %round, label %done
done:
  ret void
}}
"""


def kernels(vector_bytes: int, registers: int) -> str:
    """LLVM assembly of `read`, `copy`, `stream`, `float32` and `float64`.

    `copy` stores as a program does, `stream` past the caches. The last two do `CHAINS[registers]`
    multiply-adds a step, and a step for each byte of theirs.
    """
    vector = f"<{vector_bytes // 8} x i64>"
    parts = [_HEAD, _read(vector, vector_bytes)]
    parts += [_copy("copy", vector, vector_bytes, ""), _copy("stream", vector, vector_bytes, ", !nontemporal !0")]
    for name, of, size in (("float32", "float", 4), ("float64", "double", 8)):
        parts.append(_multiply_adds(name, f"<{vector_bytes // size} x {of}>", of, CHAINS[registers]))
    return "\n".join([*parts, "!0 = !{i32 1}", ""])


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def _loads(vector: str, size: int) -> list[str]:
    """The vectors `%value.k` of one step, read from `%from`."""
    step = []
    for k in range(UNROLLED):
        step += [
            f"%at.{k} = getelementptr i8, ptr %from, i64 %i",
            f"%address.{k} = getelementptr i8, ptr %at.{k}, i64 {k * size}",
            f"%value.{k} = load {vector}, ptr %address.{k}, align {size}",
        ]
    return step


def _read(vector: str, size: int) -> str:
    sums = [f"%sum.{k} = phi {vector} [ zeroinitializer, %round ], [ %sum.{k}.next, %step ]" for k in range(UNROLLED)]
    step = _loads(vector, size)
    step += [f"%sum.{k}.next = or {vector} %sum.{k}, %value.{k}" for k in range(UNROLLED)]
    after = [f"store volatile {vector} %sum.{k}.next, ptr %to, align 8" for k in range(UNROLLED)]
    return _LAUNCH.format(
        name="read", before="", round="", step=_lines(sums + step), stride=UNROLLED * size, after=_lines(after)
    )


def _copy(name: str, vector: str, size: int, hint: str) -> str:
    step = _loads(vector, size)
    for k in range(UNROLLED):
        step += [
            f"%into.{k} = getelementptr i8, ptr %to, i64 %i",
            f"%target.{k} = getelementptr i8, ptr %into.{k}, i64 {k * size}",
            f"store {vector} %value.{k}, ptr %target.{k}, align {size}{hint}",
        ]
    return _LAUNCH.format(name=name, before="", round="", step=_lines(step), stride=UNROLLED * size, after="")


def _multiply_adds(name: str, vector: str, of: str, chains: int) -> str:
    """Chains `x = x*a + b`, with `a` and `b` read from memory, so that nothing is known of them."""
    mangled = f"v{vector[1:].partition(' ')[0]}f{32 if of == 'float' else 64}"
    before = [
        f"%a = load {vector}, ptr %from.all, align 64",
        "%b.at = getelementptr i8, ptr %from.all, i64 64",
        f"%b = load {vector}, ptr %b.at, align 64",
    ]
    step = [f"%x.{k} = phi {vector} [ %b, %round ], [ %x.{k}.next, %step ]" for k in range(chains)]
    call = f"call {vector} @llvm.fmuladd.{mangled}"
    step += [f"%x.{k}.next = {call}({vector} %x.{k}, {vector} %a, {vector} %b)" for k in range(chains)]
    after = [f"store volatile {vector} %x.{k}.next, ptr %to, align 8" for k in range(chains)]
    text = _LAUNCH.format(name=name, before=_lines(before), round="", step=_lines(step), stride=1, after=_lines(after))
    return f"declare {vector} @llvm.fmuladd.{mangled}({vector}, {vector}, {vector})\n{text}"


#: Seconds after which no other number of threads is measured.
BUDGET_S = 10.0
_SAMPLES = 4
#: a sample lasts at least this long
_SAMPLE_S = 0.008
#: for clocks that stand still
_MOST_ROUNDS = 1 << 20
#: times that a rate which cannot be is measured again, and seconds to wait before for what disturbed it
_AGAIN, _WAIT_S = 3, 0.5
_MIB = 1 << 20
#: Bounds of the bytes that are read to measure main memory.
_SMALLEST_MEMORY, _LARGEST_MEMORY = 256 * _MIB, 1024 * _MIB

_Kernel = Callable[[int, int], None]


@dataclass(frozen=True)
class _LevelPlan:
    """A level to measure; `working_set` is bytes, of each thread if `private`, else of all."""

    name: str
    capacity: int | None
    private: bool
    working_set: int


def plan_levels(caches: list[Cache], cores: int, available: int) -> list[_LevelPlan]:
    """The levels to measure, given the caches and the bytes of free memory.

    A private cache is measured at half its size, so that nothing else has to leave it. A shared one is measured
    beyond what the private ones hold; a huge one, as on servers of which a virtual machine sees a few cores, a second
    time at half its size, where it may be anything.
    """
    private = [c for c in caches if c.shared_by <= 2 and c.level < 3]
    shared = [c for c in caches if c not in private]
    plans = [_LevelPlan(f"L{c.level}", c.size, True, c.size // 2) for c in private]
    inside = 4 * cores * max((c.size for c in private), default=_MIB)
    for c in shared:
        near = min(inside, c.size // 2)
        if c.size // 2 >= 4 * near:
            plans.append(_LevelPlan(f"L{c.level}", 2 * near, False, near))
            plans.append(_LevelPlan(f"far L{c.level}", c.size, False, c.size // 2))
        else:
            plans.append(_LevelPlan(f"L{c.level}", c.size, False, near))
    last = max((c.size for c in caches), default=0)
    memory = min(max(4 * last, _SMALLEST_MEMORY), _LARGEST_MEMORY, max(available // 4, 32 * _MIB))
    return [*plans, _LevelPlan("memory", None, False, memory)]


def fastest_round(
    run: Callable[[int], None],
    threads: int,
    clock: Callable[[], float] = time.perf_counter,
    worked: Callable[[], float] = time.process_time,
) -> float:
    """Seconds of one of the rounds that `run` makes, at best of some samples.

    A sample has as many rounds as keep all threads at work for `_SAMPLE_S`, by the clock of what the process has
    `worked`: while threads wait for a core, a few rounds last as long, and say nothing. Infinite where no time passes.
    """
    rounds, best, work, samples = 1, float("inf"), float("inf"), 0
    while samples < _SAMPLES:
        begun, before = clock(), worked()
        run(rounds)
        spent, work = clock() - begun, min(work, (worked() - before) / threads / rounds)
        if rounds * work < _SAMPLE_S * (0.5 if samples else 1) and rounds < _MOST_ROUNDS:
            more = min(int(1.3 * _SAMPLE_S / max(work, 1e-12)), rounds * 1000, _MOST_ROUNDS)
            rounds, samples = max(rounds * 2, more), 0
            continue
        samples += 1
        best = min(best, spent / rounds) if spent > 0 else best
    return best


class _Machine:
    """The kernels, compiled and loaded, and memory for them to go through."""

    NAMES = ("read", "copy", "stream", "float32", "float64")

    def __init__(self, largest: int) -> None:
        features = llvm.get_host_cpu_features()
        wide = bool(features.get("avx512f"))
        self.vector = 64 if wide else 32 if features.get("avx") else 16
        on_arm = llvm.get_default_triple().startswith(("aarch64", "arm64"))
        self.chains = CHAINS[32 if wide or on_arm else 16]
        text = kernels(self.vector, 32 if wide or on_arm else 16)
        self._code = LoadedCode("roofline", [assembled(text, *host())], self.NAMES, needs_openmp=True)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)
        self._kernels: dict[str, _Kernel] = dict(zip(self.NAMES, map(kind, self._code.addresses), strict=True))
        self._memory = np.full(largest + 64 * 4096, 1, np.uint8)
        self._address = -(-self._memory.ctypes.data // 4096) * 4096

    def runs(self, threads: int) -> bool:
        """Whether the OpenMP runtime starts as many threads: it may be missing, or limited by the environment."""
        step, apart = UNROLLED * self.vector, 8192
        last = self._address + (threads - 1) * apart + 4096
        ctypes.memset(last, 0, self.vector)
        words = np.array([self._address, self._address + 4096, step, apart, 1], np.int64)
        self._kernels["read"](words.ctypes.data, threads)
        found = ctypes.string_at(last, self.vector) != bytes(self.vector)
        ctypes.memset(last, 1, self.vector)
        return found

    def seconds(self, name: str, part: int, apart: int, gap: int, threads: int) -> float:
        """Seconds that a kernel takes for one round.

        Each thread goes through `part` bytes of its own, `apart` bytes from the next thread's, and writes `gap` bytes
        behind what it reads.
        """
        kernel = self._kernels[name]
        words = np.array([self._address, self._address + gap, part, apart, 1], np.int64)

        def run(rounds: int) -> None:
            words[4] = rounds
            kernel(words.ctypes.data, threads)

        run(1)
        return fastest_round(run, threads)

    def bandwidth(self, plan: _LevelPlan, threads: int) -> tuple[float, float]:
        """Bytes per second (reading, copying) of one level."""
        step = UNROLLED * self.vector
        total = plan.working_set if plan.private else plan.working_set // threads
        whole, half = (size // step * step for size in (total, total // 2))
        # half a page off, so that a store is not taken for the load that follows at the same offset
        gap = -(-half // 4096) * 4096 + 2048
        apart = max(gap + half + 4096, whole) // 4096 * 4096
        reading = whole * threads / self.seconds("read", whole, apart, gap, threads)
        copying = max(2 * half * threads / self.seconds(k, half, apart, gap, threads) for k in ("copy", "stream"))
        return reading, copying

    def peak(self, name: str, threads: int) -> float:
        """Floating-point operations per second; a multiply-add counts two."""
        steps = 1 << 14
        flops = 2 * self.chains * self.vector // (4 if name == "float32" else 8)
        return steps * flops * threads / self.seconds(name, steps, 65536, 65536 // 2, threads)


def _thread_counts(cores: int) -> list[int]:
    """One, all, and those between: every number up to 8, then powers of two."""
    between = [t for t in range(2, cores) if t <= 8 or t & (t - 1) == 0]
    return list(dict.fromkeys([1, cores, *between]))


def measure_roofline(tell: Callable[[str], None] = lambda what: None) -> Roofline:
    """Measure this machine, in about ten seconds; `tell` is called with what is being measured.

    Rates that cannot be are measured again. Raises MeasureError where they stay so, BuildError where the kernels
    cannot be compiled or loaded.
    """
    cores, begun = cpu_count(), time.monotonic()
    plans = plan_levels(data_caches(), cores, available_memory())
    largest = max(cores * p.working_set if p.private else p.working_set for p in plans)
    machine = _Machine(largest + cores * 16384)
    read: list[dict[int, float]] = [{} for _ in plans]
    copy: list[dict[int, float]] = [{} for _ in plans]
    fma: dict[str, dict[int, float]] = {"float32": {}, "float64": {}}
    for threads in _thread_counts(cores):
        if threads > 1 and threads != cores and time.monotonic() - begun > BUDGET_S:
            break
        if not machine.runs(threads):
            continue
        tell(f"{threads} thread{'' if threads == 1 else 's'}")
        for name, peaks in fma.items():
            peaks[threads] = machine.peak(name, threads)
        for at, plan in enumerate(plans):
            read[at][threads], copy[at][threads] = machine.bandwidth(plan, threads)
    levels = tuple(
        Level(p.name, p.capacity, p.private, p.working_set, read[at], copy[at]) for at, p in enumerate(plans)
    )
    today = datetime.now(UTC).date().isoformat()
    return _checked(Roofline(host_cpu(), cores, today, levels, fma), machine, plans, tell)


def _checked(found: Roofline, machine: _Machine, plans: list[_LevelPlan], tell: Callable[[str], None]) -> Roofline:
    """The roofline, once what cannot be was measured again. Raises MeasureError where it stays so."""
    for _ in range(_AGAIN):
        if not (wrong := found.impossible()):
            return found
        tell(f"{wrong[0]}: that cannot be, so again")
        time.sleep(_WAIT_S)
        for x in wrong:
            if x.what in found.fma:
                found.fma[x.what][x.threads] = machine.peak(x.what, x.threads)
                continue
            at = next(k for k, p in enumerate(plans) if p.name == x.name)
            now = dict(zip(("read", "copy"), machine.bandwidth(plans[at], x.threads), strict=True))
            getattr(found.levels[at], x.what)[x.threads] = now[x.what]
    if wrong := found.impossible():
        raise MeasureError(
            f"{wrong[0]}, which cannot be: other programs had the cores", asked="roofline",
            legal="close other programs and try again; nothing was kept",
        )  # fmt: skip
    return found
