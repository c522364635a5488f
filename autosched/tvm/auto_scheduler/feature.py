"""`tvm.auto_scheduler.feature`: numbers that say what each stored buffer of a program costs, in TVM's 164 columns.

They are counted on this package's loops, before passes, by the definitions of TVM's columns: `float_mad` is 0, and the
positions of marked loops are none or mixed, as there. `autosched.space.features` has those that models here learn from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from os import PathLike
from typing import Any

import numpy as np

from autosched.errors import AutoschedError, UsageError
from autosched.ir.expr import OPS, Expr
from autosched.ir.ranges import Interval, Ranges
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Buffer, Function, Store
from autosched.ir.visit import post_order
from autosched.tir.module import PrimFunc
from autosched.tvm._missing import missing
from autosched.tvm.auto_scheduler.loop_state import TraceState, object_of
from autosched.tvm.auto_scheduler.measure import MeasureInput, MeasureResult, recover_measure_input
from autosched.tvm.auto_scheduler.measure_record import RecordReader
from autosched.tvm.driver import lower
from autosched.tvm.loops import Program, Walked, lengths_of, program_of, size_of, strides_of, walked

#: buffers of a store that have columns
DEFAULT_MAX_N_BUFS = 5
#: lines of a record file that are read, unless said otherwise
DEFAULT_MAX_LINES = -1

_CACHE_LINE = 64
_CURVE = 10
_OPERATIONS = ("mad", "addsub", "mul", "divmod", "cmp", "mathfunc", "otherfunc")
_POSITIONS = (
    *("kPosNone", "kPosInnerSpatial", "kPosMiddleSpatial", "kPosOuterSpatial"),
    *("kPosInnerReduce", "kPosMiddleReduce", "kPosOuterReduce", "kPosMixed"),
)
_MARKS = {"vec": "vectorize", "unroll": "unroll", "parallel": "parallel"}
_THREADS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
_ACCESS = ("kRead", "kWrite", "kReadWrite")
_REUSE = ("kLoopMultipleRead", "kSerialMultipleReadWrite", "kNoReuse")
_KINDS = {
    **dict.fromkeys(("add", "sub"), "addsub"),
    "mul": "mul",
    **dict.fromkeys(("div", "truncdiv", "truncmod", "floordiv", "floormod"), "divmod"),
    **dict.fromkeys(("max", "min", "eq", "ne", "lt", "le", "gt", "ge"), "cmp"),
}


def get_per_store_feature_names(max_n_bufs: int | None = None) -> list[str]:
    """Return the names of the columns: 74 and 18 for each of `max_n_bufs` buffers."""
    names = [f"{of}_{what}" for of in ("float", "int") for what in _OPERATIONS] + ["bool_op", "select_op"]
    for mark in _MARKS:
        names += [f"{mark}_{what}" for what in ("num", "prod", "len")]
        names += [f"{mark}_type.{position}" for position in _POSITIONS]
    names += ["is_gpu", *(f"{thread.replace('.', '_')}_len" for thread in _THREADS), "vthread_len"]
    for i in range(max_n_bufs or DEFAULT_MAX_N_BUFS):
        names += [f"B{i}.{name}" for name in _BUFFER_COLUMNS]
    names += [f"arith_intensity_curve_{i}" for i in range(_CURVE)]
    names += ["alloc_size", "alloc_prod", "alloc_outer_prod", "alloc_inner_prod"]
    return [*names, "outer_prod", "num_loops", "auto_unroll_max_step"]


_BUFFER_COLUMNS = (
    *(f"acc_type.{name}" for name in _ACCESS),
    *("bytes", "unique_bytes", "lines", "unique_lines"),
    *(f"reuse_type.{name}" for name in _REUSE),
    *("reuse_dis_iter", "reuse_dis_bytes", "reuse_ct"),
    *("bytes_d_reuse_ct", "unique_bytes_d_reuse_ct", "lines_d_reuse_ct", "unique_lines_d_reuse_ct", "stride"),
)


@dataclass(eq=False)
class _Touched:
    """All accesses of one store to one buffer."""

    buffer: Buffer
    kind: str
    indices: list[tuple[Expr, ...]]
    loops: tuple[Walked, ...]

    def elements(self, i: int) -> int:
        """How many elements the loops from number i on touch."""
        return math.prod(self.region(i))

    def region(self, i: int) -> list[int]:
        """The lengths of the box that the loops from number i on touch."""
        ranges = Ranges()
        for j, x in enumerate(self.loops):
            ranges.bind(x.loop.var, Interval(0, max(0, x.length - 1) if j >= i else 0))
        box = []
        for d, most in enumerate(lengths_of(self.buffer, self.indices[0])):
            found = [ranges.of(index[d]) for index in self.indices]
            low, high = min(f.low for f in found), max(f.high for f in found)
            box.append(max(0, int(high - low) + 1) if math.isfinite(high - low) else most)
        return box if all(x.length > 0 for x in self.loops[i:]) else [0]

    def strides(self, an: Analyzer) -> list[int]:
        if not self.buffer.shape:  # as TVM counts the one element of a tensor without dimensions
            return [1] * len(self.loops)
        found = [strides_of(self.buffer, index, self.loops, an) for index in self.indices]
        return [min((abs(s[i]) for s in found if s[i]), default=0) for i in range(len(self.loops))]

    def moves_with(self, x: Walked) -> bool:
        return any(x.loop.var in post_order(index) for index in self.indices if index)


@dataclass(eq=False)
class _Row:
    """The columns of a buffer that is stored to, less the logarithms."""

    columns: dict[str, float] = field(default_factory=dict)
    outer: float = 1.0


def _touched(store: Store, loops: tuple[Walked, ...]) -> list[_Touched]:
    found = {store.buffer: _Touched(store.buffer, "kWrite", [store.indices], loops)}
    for e in post_order((*store.indices, store.value)):
        if e.op != "load":
            continue
        known = found.get(e.value)
        if known is None:
            found[e.value] = _Touched(e.value, "kRead", [e.args], loops)
        elif known.kind == "kRead":
            known.indices.append(e.args)
        else:
            known.kind = "kReadWrite"
    return list(found.values())


def _operations(value: Expr) -> dict[str, int]:
    """Operators of an expression as it is written out, by column."""
    found: dict[str, int] = {}

    def visit(e: Expr) -> None:
        name = _KINDS.get(e.op)
        of = "float" if (e.args and e.args[0].dtype.is_float) else "int"
        if name is not None:
            name = f"{of}_{name}"
        elif e.op in ("and", "or", "not"):
            name = "bool_op"
        elif e.op == "select":
            name = "select_op"
        elif OPS[e.op].kind in ("math", "call") or e.op == "if_then_else":
            name = f"{'float' if e.dtype.is_float else 'int'}_{'otherfunc' if e.op == 'call' else 'mathfunc'}"
        if name is not None:
            found[name] = found.get(name, 0) + e.dtype.lanes
        for part in () if e.op == "load" else e.args:
            visit(part)

    visit(value)
    return found


class _Extractor:
    def __init__(self, program: Program, is_gpu: bool, max_n_bufs: int) -> None:
        self.is_gpu, self.most, self.an = is_gpu, max_n_bufs, Analyzer()
        #: loop -> buffer -> (elements, bytes of one) of each store inside, so far
        self.regions: dict[Walked, dict[Buffer, list[tuple[int, int]]]] = {}
        self.rows: dict[Buffer, _Row] = {}
        for store, loops in program.stores:
            self._store(store, loops)
        for buffer, around in program.allocations:
            if buffer in self.rows:
                self._allocation(self.rows[buffer], buffer, math.prod(x.length for x in around))

    def _store(self, store: Store, loops: tuple[Walked, ...]) -> None:
        row = self.rows.setdefault(store.buffer, _Row())
        c, outer = row.columns, math.prod(x.length for x in loops)
        counts = _operations(store.value)
        for name, n in counts.items():
            c[name] = c.get(name, 0.0) + n * outer
        for mark, kind in _MARKS.items():
            marked = [x.length for x in loops if x.kind == kind]
            c[f"{mark}_num"], c[f"{mark}_len"] = len(marked), marked[-1] if marked else 0
            c[f"{mark}_prod"] = math.prod(marked) if marked else 0
            for position in _POSITIONS:
                c[f"{mark}_type.{position}"] = float(position == ("kPosMixed" if marked else "kPosNone"))
        c["is_gpu"] = float(self.is_gpu)
        for thread in (*_THREADS, "vthread"):
            bound = [x.length for x in loops if x.kind == thread]  # of one tag, the innermost is what runs
            c[f"{thread.replace('.', '_')}_len"] = bound[-1] if bound else 1
        touched = _touched(store, loops)
        self._buffers(row, touched, loops, outer)
        self._intensity(row, touched, loops, sum(n for name, n in counts.items() if name.startswith("float_")))
        row.outer = c["outer_prod"] = outer
        c["num_loops"] = len(loops)
        steps = [p.partition("=")[2] for x in loops for p in x.loop.pragmas if p.startswith("auto_unroll_max_step=")]
        c["auto_unroll_max_step"] = float(steps[-1]) if steps and steps[-1].isdecimal() else 0.0

    def _buffers(self, row: _Row, touched: list[_Touched], loops: tuple[Walked, ...], outer: int) -> None:
        for i, x in enumerate(loops):
            known = self.regions.setdefault(x, {})
            for t in touched:
                known.setdefault(t.buffer, []).append((t.elements(i), t.buffer.dtype.bytes))
        found = [self._buffer(t, loops, outer) for t in touched]
        found.sort(key=lambda b: (-b["lines"], -b["bytes"]))
        for i in range(self.most):
            values = found[i] if i < len(found) else {}
            row.columns.update({f"B{i}.{name}": values.get(name, 0.0) for name in _BUFFER_COLUMNS})

    def _buffer(self, t: _Touched, loops: tuple[Walked, ...], outer: int) -> dict[str, float]:
        size = t.buffer.dtype.bytes
        found: dict[str, float] = {f"acc_type.{kind}": float(kind == t.kind) for kind in _ACCESS}
        strides = t.strides(self.an)
        moving = [i for i, s in enumerate(strides) if s]
        stride = strides[moving[-1]] if moving else 0
        repeated = math.prod(x.length for x in loops[moving[-1] + 1 :]) if moving else outer
        unique = float((self.regions[loops[0]][t.buffer][0][0] if loops else 1) * size)
        lines = max(1.0, outer / max(1, repeated) * min(1.0, stride * size / _CACHE_LINE))
        inner = t.region(0) if loops else []
        lengths = lengths_of(t.buffer, t.indices[0])
        whole = [n for n, length in zip(inner, lengths, strict=False) if n == length]
        run = size * (whole[-1] if whole else 1)
        unique_lines = max(1.0, unique / min(run, _CACHE_LINE))
        kind, distance, distance_bytes, reuse = self._reuse(t, loops)
        found |= {f"reuse_type.{name}": float(name == kind) for name in _REUSE}
        found |= {"bytes": float(outer * size), "unique_bytes": unique, "lines": lines, "unique_lines": unique_lines}
        found |= {"reuse_dis_iter": distance, "reuse_dis_bytes": distance_bytes, "reuse_ct": reuse}
        for name in ("bytes", "unique_bytes", "lines", "unique_lines"):
            found[f"{name}_d_reuse_ct"] = found[name] / reuse if reuse > 0.5 else found[name] * 2
        found["stride"] = float(stride if moving and moving[-1] == len(loops) - 1 else 0)
        return found

    def _reuse(self, t: _Touched, loops: tuple[Walked, ...]) -> tuple[str, float, float, float]:
        """The kind of reuse, how many iterations and bytes lie between two uses, and how often there is one."""
        iterations, between = 1.0, -1.0
        for x in reversed(loops):
            here = self.regions[x]
            everything = float(sum(n * size for found in here.values() for n, size in found))
            if not t.moves_with(x):
                if between < 0:
                    between = float(sum(size for found in here.values() for _, size in found))
                return "kLoopMultipleRead", iterations, between, float(x.length)
            iterations, between = iterations * x.length, everything
            again = len(here[t.buffer]) - 1
            if again > 0:
                least = min(n for n, _ in here[t.buffer])
                return "kSerialMultipleReadWrite", least / x.length, everything / x.length, float(again)
        return "kNoReuse", 0.0, 0.0, 0.0

    @staticmethod
    def _intensity(row: _Row, touched: list[_Touched], loops: tuple[Walked, ...], operations: int) -> None:
        c = row.columns
        c.update({f"arith_intensity_curve_{i}": 0.0 for i in range(_CURVE)})
        lengths = [x.length for x in reversed(loops)]
        done = [operations * n for n in accumulate(lengths, lambda a, b: a * b)]
        if not done or done[-1] <= 0:
            return
        moved = [sum(t.elements(i) * t.buffer.dtype.bytes for t in touched) for i in reversed(range(len(loops)))]
        at = [d / max(1, m) for d, m in zip(done, moved, strict=True)]
        for i in range(_CURVE):
            c[f"arith_intensity_curve_{i}"] = float(np.interp(done[-1] * (i + 1) / _CURVE, done, at))

    @staticmethod
    def _allocation(row: _Row, buffer: Buffer, outer: int) -> None:
        elements = size_of(buffer)
        row.columns |= {
            "alloc_size": float(elements * buffer.dtype.bytes),
            "alloc_prod": float(elements * outer),
            "alloc_outer_prod": float(outer),
            "alloc_inner_prod": row.outer / max(1, outer),
        }


def _features(program: Program, is_gpu: bool, max_n_bufs: int | None, log_scale: bool) -> np.ndarray:
    most = max_n_bufs or DEFAULT_MAX_N_BUFS
    names = get_per_store_feature_names(most)
    rows = _Extractor(program, is_gpu, most).rows.values()
    found = np.array([[r.columns.get(name, 0.0) for name in names] for r in rows], dtype=np.float32)
    found = found.reshape(len(rows), len(names))
    if log_scale:
        plain = np.array(["_type." in name or name == "is_gpu" for name in names])
        found = np.where(plain, found, np.sign(found) * np.log2(np.abs(found) + 1)).astype(np.float32)
    return found


def get_per_store_features_from_states(
    states: Sequence[Any], task: Any, max_n_bufs: int | None = None
) -> list[np.ndarray]:
    """Return, for each state, a row for each buffer that it stores to: float32 [stores, columns], in logarithms.

    A state that cannot be applied has no rows. Raises UsageError for what is no state.
    """
    found = []
    for state in states:
        if not isinstance(state, TraceState):
            object_of(state, task.compute_dag)
        try:
            s, args = task.compute_dag.apply_steps_from_state(state)
            found.append(_features(program_of(s, args), task.target.is_gpu_style, max_n_bufs, log_scale=True))
        except AutoschedError:
            found.append(np.zeros((0, len(get_per_store_feature_names(max_n_bufs))), dtype=np.float32))
    return found


Features = tuple[np.ndarray, np.ndarray, np.ndarray]


def get_per_store_features_from_measure_pairs(
    inputs: Sequence[MeasureInput],
    results: Sequence[MeasureResult],
    skip_first_n_feature_extraction: int = 0,
    max_n_bufs: int | None = None,
) -> Features:
    """Return features of measurements, throughputs from 0 to 1 (least seconds of the task by seconds), and numbers of
    tasks. The first `skip_first_n_feature_extraction` have no rows of features.

    Raises WorkloadError for a task of a log that is not registered.
    """
    rows = np.empty(len(inputs), dtype=object)
    seconds = np.zeros(len(inputs))
    numbers: dict[tuple[str, str], int] = {}
    tasks: dict[tuple[str, str], Any] = {}
    ids = np.zeros(len(inputs), dtype=np.int32)
    for i, (inp, result) in enumerate(zip(inputs, results, strict=True)):
        key = inp.task.workload_key, str(inp.task.target)
        if key not in tasks:
            tasks[key] = inp.task if hasattr(inp.task, "compute_dag") else recover_measure_input(inp).task
        ids[i] = numbers.setdefault(key, len(numbers))
        seconds[i] = np.mean(result.costs) if result.costs and not result.error_no else np.inf
        none = np.zeros((0, 0), dtype=np.float32)
        given = i >= skip_first_n_feature_extraction
        rows[i] = get_per_store_features_from_states([inp.state], tasks[key], max_n_bufs)[0] if given else none
    least = {n: seconds[ids == n].min() for n in set(ids.tolist())}
    with np.errstate(invalid="ignore"):
        rates = np.array([least[n] / s if np.isfinite(s) else 0.0 for n, s in zip(ids.tolist(), seconds, strict=True)])
    return rows, rates, ids


def get_per_store_features_from_file(
    filename: str | PathLike[str], max_lines: int | None = None, max_n_bufs: int | None = None
) -> Features:
    """Return `get_per_store_features_from_measure_pairs` of a log, of at most `max_lines` of it."""
    count = max_lines if max_lines is not None and max_lines > 0 else None
    inputs, results = RecordReader(filename).read_lines(count)
    return get_per_store_features_from_measure_pairs(inputs, results, max_n_bufs=max_n_bufs)


def features_from_primfunc(
    func: Any, cache_line_bytes: int = _CACHE_LINE, max_n_bufs: int | None = None, log_scale: bool = False
) -> np.ndarray | None:
    """Return a row for each buffer that a function stores to: float32 [stores, columns].

    Raises UsageError for lines of another length than 64 bytes, and for what is no function.
    """
    if cache_line_bytes != _CACHE_LINE:
        raise UsageError(
            "lines are 64 bytes long", asked=f"features_from_primfunc(cache_line_bytes={cache_line_bytes})", legal="64"
        )
    if isinstance(func, PrimFunc):
        func = lower(func.schedule, list(func.args), simple_mode=True)["main"]
    if not isinstance(func, Function):
        raise UsageError(f"{func!r:.60} is no function", asked="features_from_primfunc", legal='tvm.lower(..)["main"]')
    return _features(walked(func.body), False, max_n_bufs, log_scale)


def named_features_from_primfunc(
    func: Any, cache_line_bytes: int = _CACHE_LINE, max_n_bufs: int | None = None, log_scale: bool = False
) -> Mapping[str, np.ndarray]:
    """Return the columns of `features_from_primfunc` by name: float32 [stores] each."""
    found = features_from_primfunc(func, cache_line_bytes, max_n_bufs, log_scale)
    names = get_per_store_feature_names(max_n_bufs)
    return {name: found[:, i] for i, name in enumerate(names)} if found is not None else {}


__getattr__ = missing("auto_scheduler.feature", globals(), {"unpack_feature": "arrays are returned as they are"})
