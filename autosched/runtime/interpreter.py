"""The sanitizing interpreter: any lowered function run one element at a time, with all it does checked.

It is slow and obvious, and shares no code with the code generators. It finds

- an access out of bounds, a read of an element that was never written, an output that is not computed;
- two iterations of a parallel loop, or two work-items, of which one writes what the other touches, with
  nothing to say which comes first (`runtime.shadow` says when something does);
- a barrier that some work-items of a group do not reach, or not in the same round of a loop;
- an index, or a part of one, that leaves the type that it is computed in; a division by zero in an index.

`interpret` raises at the first of them; `sanitize` goes on and returns all. Vector statements run lane
by lane; kernels run one work-item after the other, phase by phase between barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from autosched.errors import BuildError
from autosched.ir import stmt as S
from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, is_index, saturate, variables
from autosched.ir.functions import call_symbol, find_numpy, find_symbol, get_global_func, numpy_of, returned_number
from autosched.ir.ops import as_type, evaluated
from autosched.runtime.shadow import Access, Finding, Findings, Fork, Memory, Party, Place, Task

#: called with a buffer, the elements of it that a load, store or prefetch names, that one, and the loops around it
Watch = Callable[[S.Buffer, Sequence[tuple[int, ...]], Expr | S.Store | S.Prefetch, Place | None], None]


@dataclass(frozen=True)
class _Run:
    """The state that all tasks of a run share."""

    findings: Findings
    stored: frozenset[S.Buffer]  #: others are only read, so nobody races for them
    low: int  #: the least and the greatest index
    high: int
    watch: Watch | None = None


@dataclass(frozen=True, slots=True)
class _Meeting:
    """A work-item waits at a barrier, in some round of the loops around it."""

    barrier: S.Barrier
    place: Place | None

    def is_with(self, other: _Meeting) -> bool:
        """True if two work-items wait at the same barrier in the same round."""
        return self.barrier is other.barrier and self._round() == other._round()

    def _round(self) -> list[tuple[Expr, int]]:
        return [] if self.place is None else self.place.loops()

    def party(self) -> Party:
        return Party("waits at a barrier", _values(self.place))


class _Interpreter:
    """One task: the program outside kernels, or a work-item.

    `env` has the value of each variable; of one with lanes, under (variable, lane). `task` is the
    branch of a fork that runs, for accesses of shared memory, and `task_global` for
    others: a barrier orders the one, and the other only if it says so.
    """

    def __init__(
        self,
        run: _Run,
        env: dict[Any, Any],
        memory: dict[S.Buffer, Memory],
        task: Task | None = None,
        place: Place | None = None,
    ) -> None:
        self.run, self.env, self.memory, self.place = run, env, memory, place
        self.is_spare = False  #: what is computed is not used
        self.lanes: list[int] | None = None  #: those that run under a mask; None: all
        self.task = self.task_global = task

    # -- expressions ----------------------------------------------------------------------------
    def index(self, e: Expr, lane: int, as_value: bool = False) -> int:
        """Index arithmetic: exact integers. What divides by zero is 0, which is a finding unless it is `as_value`,
        where the language says so."""
        match e.op:
            case "const":
                return int(e.value)
            case "var":
                return int(self.env[e, lane] if e.dtype.lanes > 1 else self.env[e])
            case "ramp":
                return self.index(e.args[0], lane, as_value) + lane * self.index(e.args[1], lane, as_value)
            case "broadcast" | "cast" | "likely":
                return self.index(e.args[0], lane, as_value)
            case "select" | "if_then_else":
                return self.index(e.args[1 if self.index(e.args[0], lane, as_value) else 2], lane, as_value)
            case "and":
                return int(all(self.index(a, lane, as_value) for a in e.args))
            case "or":
                return int(any(self.index(a, lane, as_value) for a in e.args))
            case "not":
                return int(not self.index(e.args[0], lane, as_value))
            case "neg":
                return self.in_range(-self.index(e.args[0], lane, as_value), e)
        a, b = (self.index(x, lane, as_value) for x in e.args)
        if b == 0 and e.op in _DIVISIONS and not as_value:
            self.found("division-by-zero", f"{e!r} divides {a} by zero in an index", e, f"computes {e!r}")
        return self.in_range(_EXACT[e.op](a, b), e)

    def _shape(self, b: S.Buffer) -> tuple[int, ...]:
        """The extents of a buffer; those of an empty nest may divide by one of its loops' extents."""
        return tuple(max(self.index(d, 0, as_value=True), 0) for d in b.shape)

    def holds(self, condition: Expr) -> bool:
        """A condition of a statement: those that loops need (`likely`) are index arithmetic, others are values."""
        return bool((self.any_index if condition.op == "likely" else self.value)(condition, 0))

    def in_range(self, value: int, e: Expr) -> int:
        """The value of index arithmetic, after a check of its range."""
        if not self.run.low <= value <= self.run.high:
            bits = self.run.high.bit_length() + 1
            self.found("index-overflow", f"the index {e!r} is {value}, too large for {bits} bits", e, f"computes {e!r}")
        return value

    def value(self, e: Expr, lane: int) -> Any:
        """A NumPy scalar of the expression's type."""
        to = e.dtype.scalar
        if is_index(e):
            return np.asarray(self.index(e, lane, as_value=True)).astype(to.numpy)[()]
        match e.op:
            case "const":
                return to.numpy.type(e.value)
            case "var":
                return np.asarray(self.env[e, lane] if e.dtype.lanes > 1 else self.env[e]).astype(to.numpy)[()]
            case "broadcast" | "likely":
                return self.value(e.args[0], lane)
            case "ramp":
                return to.numpy.type(self.value(e.args[0], lane) + lane * self.value(e.args[1], lane))
            case "load":
                return self.load(e, lane)
            case "call":
                return self.call(e, lane)
            case "if_then_else":
                return self.value(e.args[1 if self.value(e.args[0], lane) else 2], lane)
            case "select":
                return self.select(e, lane)
            case "to_line":  # memory has no addresses here, and any distance must do
                return to.numpy.type((7 * self.any_index(e.args[0], lane) + 3) % (64 // e.value.dtype.bytes))
            case "combine_lanes":
                return _combined(e.value, to, [self.value(e.args[0], k) for k in range(e.args[0].dtype.lanes)])
            case "dot":
                return self.dot(e, lane).astype(to.numpy)
            case "cast":
                return _cast(self.value(e.args[0], lane), e.args[0].dtype, to)
            case "reinterpret":
                return self.value(e.args[0], lane).view(to.numpy)
        args = [self.value(a, lane) for a in e.args]
        if e.op in ("shl", "shr"):
            return _shift(e.op, *args)
        return evaluated(e.op, to, args)[()]

    def select(self, e: Expr, lane: int) -> Any:
        """Both values are computed; the one that is left out may be of elements that nobody has written."""
        condition, is_spare = bool(self.value(e.args[0], lane)), self.is_spare
        found = []
        for is_chosen, a in ((condition, e.args[1]), (not condition, e.args[2])):
            self.is_spare = is_spare or not is_chosen
            found.append(self.value(a, lane))
        self.is_spare = is_spare
        return found[0 if condition else 1]

    def dot(self, e: Expr, lane: int) -> Any:
        """See `ir.expr.dot`: integers are exact in 64 bits, of which the caller keeps those of its type."""
        total, *factors = e.args
        count = e.dtype.bits // factors[0].dtype.bits
        at = range(count * lane, count * lane + count)
        of = np.float32 if e.dtype.is_float else np.int64
        found = of(self.value(total, lane))
        for k in reversed(at):
            x, y = (of(self.value(v, k % v.dtype.lanes)) for v in factors)
            found = of(found + x * y)
        return found

    # -- memory ---------------------------------------------------------------------------------
    def offset(self, buffer: S.Buffer, indices: Sequence[Expr], lane: int, by: Expr | S.Store) -> int | None:
        """The flat element an access names; None if it is outside the buffer, which is a finding."""
        memory = self.memory[buffer]
        at = tuple(self.any_index(i, lane) for i in indices)
        strided = memory.values.shape != memory.shape and len(at) == len(memory.shape) == len(buffer.strides)
        shape = memory.shape if strided or len(at) == len(memory.shape) else (memory.values.size,)
        if any(not 0 <= i < n for i, n in zip(at, shape, strict=True)):
            what = "write to" if isinstance(by, S.Store) else "read of"
            why = f"{what} {buffer.name}{list(at)} is outside {list(shape)}"
            self.found("out-of-bounds", why, by, _does(by), buffer, at)
            return None
        if strided:
            return sum(i * step for i, step in zip(at, memory.strides, strict=True))
        return int(np.ravel_multi_index(at, shape))

    def any_index(self, i: Expr, lane: int) -> int:
        return self.index(i, lane) if is_index(i) else int(self.value(i, lane))

    def load(self, e: Expr, lane: int) -> Any:
        buffer: S.Buffer = e.value
        memory, at = self.memory[buffer], self.offset(buffer, e.args, lane, e)
        if at is None:
            return memory.values.dtype.type(0)
        if not memory.written[at] and not self.is_spare:
            place = memory.place_of(at)
            why = f"read of {buffer.name}{list(place)}, which was never written"
            self.found("uninitialised-read", why, e, _does(e), buffer, place)
        access = self.access(buffer, memory, e, writes=False)
        if access is not None:
            self.check_race(buffer, at, access, memory.read(at, access))
        if self.run.watch is not None:
            self.run.watch(buffer, [memory.place_of(at)], e, self.place)
        return memory.values.flat[at]

    def call(self, e: Expr, lane: int, used: bool = True) -> Any:
        """A function from outside. What it is handed of memory counts as written afterwards."""
        to, target = e.dtype.scalar, e.value
        handed: dict[Expr, np.ndarray] = {}
        for a in e.args:
            if a.op in ("address", "view"):
                places = self.handed(a, lane)
                if places is None:  # it is not called with memory that is not there
                    return to.numpy.type(0)
                handed[a] = places
        before = {a: self.memory[a.value].values.reshape(-1)[places].copy() for a, places in handed.items()}
        args = [self.memory[a.value].view(handed[a]) if a in handed else self.value(a, lane) for a in e.args]
        if target.kind == "packed":
            result = get_global_func(target.name)(*(a.item() if isinstance(a, np.generic) else a for a in args))
            result = returned_number(target.name, result) if used else 0
        elif target.kind == "extern" and (find_numpy(target.name) is None or find_symbol(target.name, missing_ok=True)):
            types = (str(a.dtype.scalar) for a in e.args)
            result = call_symbol(find_symbol(target.name), str(to), zip(types, args, strict=True))
        else:
            result = numpy_of(target.name)(*args)
        for a, places in handed.items():
            self.check_changes(e, a.value, places, before[a])
            self.memory[a.value].written[places] = True
        return as_type(np.asarray(0 if result is None else result), to)[()]

    def check_changes(self, call: Expr, buffer: S.Buffer, places: np.ndarray, before: np.ndarray) -> None:
        """Treat elements that a function from outside changed as its writes; its reads are not known."""
        memory = self.memory[buffer]
        access = self.access(buffer, memory, call, writes=True)
        if access is not None:
            now = memory.values.reshape(-1)[places]
            for at in places[(now != before) & ~((now != now) & (before != before))].tolist():
                self.check_race(buffer, at, access, memory.write(at, True, access))

    def handed(self, e: Expr, lane: int) -> np.ndarray | None:
        """The flat positions that an address (all from there on) or a view stands for; None if outside."""
        size = self.memory[e.value].values.size
        if e.op == "address":
            at = self.offset(e.value, e.args, lane, e)
            return None if at is None else np.arange(at, size)
        offset, *numbers = (self.any_index(a, lane) for a in e.args)
        shape, strides = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
        grids = np.ix_(*(np.arange(n) * step for n, step in zip(shape, strides, strict=True)))
        places = np.asarray(offset + sum(grids))
        if places.size and not 0 <= places.min() <= places.max() < size:
            why = f"view of {e.value.name} from {places.min()} to {places.max()} is outside [{size}]"
            self.found("out-of-bounds", why, e, _does(e), e.value, (int(places.min()),))
            return None
        return places

    def access(self, buffer: S.Buffer, memory: Memory, by: Expr | S.Store, writes: bool) -> Access | None:
        """The access to an element of the buffer; None where no other task can come between."""
        task = self.task if buffer.scope == "shared" else self.task_global
        if task is None or task is memory.task or buffer not in self.run.stored:
            return None
        return Access(task, self.place, by, writes)

    def check_race(self, buffer: S.Buffer, at: int, mine: Access, race: tuple[Access, Fork] | None) -> None:
        if race is None:
            return
        other, fork = race
        place = self.memory[buffer].place_of(at)
        did = "written" if mine.writes and other.writes else "written and read"
        why = f"{buffer.name}{list(place)} is {did} by {fork.between}"
        self.found("race", why, mine.by, _does(mine.by), buffer, place, other)

    def found(
        self,
        kind: str,
        why: str,
        by: object,
        does: str,
        buffer: S.Buffer | None = None,
        element: tuple[int, ...] = (),
        other: Access | None = None,
    ) -> None:
        """Report a defect, met by `by`: an expression or a statement."""
        self.run.findings.add(
            (by, buffer, None if other is None else other.by),
            Finding(
                kind,
                why,
                "" if buffer is None else buffer.name,
                element,
                Party(does, _values(self.place)),
                None if other is None else Party(_does(other.by), _values(other.place)),
            ),
        )

    # -- statements -----------------------------------------------------------------------------
    def execute(self, s: S.Stmt) -> Iterator[_Meeting]:
        """Run a statement; yields at each barrier, so that work-items can take turns."""
        match s:
            case S.Store():
                self.store(s)
            case S.For():
                start, extent = self.any_index(s.start, 0), self.any_index(s.extent, 0)
                outer, fork = self.place, _fork(s)
                for i in range(start, start + extent):
                    self.env[s.var] = i
                    self.place = Place(outer, s.var, i)
                    if fork is not None:
                        yield from self.branch(s.body, Task(self.task, fork, i))
                    else:
                        yield from self.execute(s.body)
                self.place = outer
                self.env.pop(s.var, None)
            case S.Seq():
                for c in s.stmts:
                    yield from self.execute(c)
            case S.If():
                if s.condition.dtype.lanes > 1:
                    yield from self.masked(s)
                elif self.holds(s.condition):
                    yield from self.execute(s.then)
                elif s.otherwise is not None:
                    yield from self.execute(s.otherwise)
            case S.Let():
                for lane in self.active(s.value.dtype.lanes):
                    whole = s.value.dtype.is_integer and is_index(s.value)
                    value = self.index(s.value, lane, as_value=True) if whole else self.value(s.value, lane)
                    self.env[(s.var, lane) if s.value.dtype.lanes > 1 else s.var] = value
                yield from self.execute(s.body)
            case S.Allocate():
                shape = self._shape(s.buffer)
                self.memory[s.buffer] = Memory(np.zeros(shape, s.buffer.dtype.numpy), False, self.task_global)
                yield from self.execute(s.body)
            case S.Evaluate():
                _ = self.call(s.value, 0, used=False) if s.value.op == "call" else self.value(s.value, 0)
            case S.While():
                while self.value(s.condition, 0):
                    yield from self.execute(s.body)
            case S.Produce():
                yield from self.execute(s.body)
            case S.Prefetch():
                if self.run.watch is not None:
                    at = tuple(self.any_index(i, 0) for i in s.indices)
                    self.run.watch(s.buffer, [at], s, self.place)
            case S.Barrier(scope=scope):
                yield _Meeting(s, self.place)
                self.pass_barrier(scope)
            case S.Launch():
                self.launch(s)

    def masked(self, s: S.If) -> Iterator[_Meeting]:
        """Run the arms of a condition on vectors: each lane decides for itself."""
        outside = self.lanes
        running = list(self.active(s.condition.dtype.lanes))
        holds = [lane for lane in running if self.value(s.condition, lane)]
        for lanes, arm in ((holds, s.then), ([x for x in running if x not in holds], s.otherwise)):
            if lanes and arm is not None:
                self.lanes = lanes
                yield from self.execute(arm)
        self.lanes = outside

    def active(self, lanes: int) -> Iterable[int]:
        """The running lanes of a statement with so many lanes; a scalar statement runs if any lane does."""
        return range(lanes) if self.lanes is None or lanes == 1 else self.lanes

    def branch(self, body: S.Stmt, task: Task) -> Iterator[_Meeting]:
        """Run one branch of a fork."""
        before = self.task, self.task_global
        self.task = self.task_global = task
        yield from self.execute(body)
        self.task, self.task_global = before

    def pass_barrier(self, scope: str) -> None:
        """Begin a new phase: all work-items of the group have reached the barrier."""
        if self.task is not None and self.task_global is not None:
            self.task = self.task.next_phase()
            if scope == "global":
                self.task_global = self.task

    def store(self, s: S.Store) -> None:
        lanes = max(s.value.dtype.lanes, *(i.dtype.lanes for i in s.indices))
        stores = []
        for lane in self.active(lanes):  # a vector statement reads all lanes before it writes any
            stores.append((self.offset(s.buffer, s.indices, lane, s), self.value(s.value, lane)))
        memory = self.memory[s.buffer]
        if self.run.watch is not None:
            self.run.watch(s.buffer, [memory.place_of(at) for at, _ in stores if at is not None], s, self.place)
        access = self.access(s.buffer, memory, s, writes=True)
        for at, value in stores:
            if at is None:
                continue
            if access is not None:
                self.check_race(s.buffer, at, access, memory.write(at, memory.changes(at, value), access))
            memory.values.flat[at] = value
            memory.written[at] = True

    def launch(self, s: S.Launch) -> None:
        grid, block = ([self.index(e, 0) for e in dims] for dims in (s.grid, s.block))
        tags = {v.name: v for v in _thread_variables(s.body)}
        shared = [x.buffer for x in S.walk(s.body) if isinstance(x, S.Allocate) and x.buffer.scope == "shared"]
        groups = Fork(f"two work-groups of {s.name}, in no order")
        for number, group in enumerate(product(*(range(n) for n in grid))):
            task = Task(self.task, groups, number)
            memory = dict(self.memory)
            for b in shared:
                values = np.zeros(self._shape(b), b.dtype.numpy)
                memory[b] = Memory(values, False, task)
            members = Fork("two work-items of a group with no barrier between")
            items = []
            for member, item in enumerate(product(*(range(n) for n in block))):
                where = dict(zip(S.THREAD_TAGS, (*group, *item), strict=True))
                env, place = dict(self.env), self.place
                for tag in S.THREAD_TAGS:
                    if tag in tags:
                        env[tags[tag]] = where[tag]
                        place = Place(place, tags[tag], where[tag])
                items.append(_WorkItem(self.run, env, dict(memory), Task(task, members, member), place))
            self.run_group(s, items)

    def run_group(self, s: S.Launch, items: list[_WorkItem]) -> None:
        """The work-items of a group, from barrier to barrier."""
        running = [(item, item.execute(s.body)) for item in items]
        while running:
            meetings = [(item, steps, next(steps, None)) for item, steps in running]
            waiting = [(item, steps, m) for item, steps, m in meetings if m is not None]
            if not waiting:
                return
            _, _, first = waiting[0]
            left = [item for item, _, m in meetings if m is None or not m.is_with(first)]
            if left:
                why = f"{len(items) - len(left)} of {len(items)} work-items reach a barrier of {s.name}"
                elsewhere = next((m.party() for _, _, m in waiting if not m.is_with(first)), None)
                other = elsewhere or Party("does not wait", _values(left[0].start))
                finding = Finding("divergent-barrier", why, party=first.party(), other=other)
                self.run.findings.add((first.barrier,), finding)
            running = [(item, steps) for item, steps, _ in waiting]


class _WorkItem(_Interpreter):
    """One work-item: shared buffers are allocated already, by its group."""

    def __init__(self, run: _Run, env: dict[Any, Any], memory: dict[S.Buffer, Memory], task: Task, place: Place | None):
        super().__init__(run, env, memory, task, place)
        self.start = place

    def execute(self, s: S.Stmt) -> Iterator[_Meeting]:
        if isinstance(s, S.Allocate) and s.buffer.scope == "shared":
            yield from self.execute(s.body)
        else:
            yield from super().execute(s)


_DIVISIONS = frozenset(("floordiv", "floormod", "truncdiv", "truncmod"))


def _fork(s: S.For) -> Fork | None:
    """The fork of a parallel loop; None for a serial one."""
    return Fork(f"two iterations of the parallel loop {s.var.name}, in no order") if s.kind == "parallel" else None


def _does(by: Expr | S.Store) -> str:
    if isinstance(by, S.Store):
        return f"writes {by.buffer.name}[{', '.join(map(repr, by.indices))}]"
    return f"calls {by!r}" if by.op == "call" else f"reads {by!r}"


def _values(place: Place | None) -> dict[str, int]:
    return {} if place is None else dict(place)


def _trunc(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_EXACT: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: 0 if b == 0 else a // b,
    "floormod": lambda a, b: 0 if b == 0 else a % b,
    "truncdiv": _trunc,
    "truncmod": lambda a, b: a - b * _trunc(a, b) if b else 0,
    "min": min,
    "max": max,
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b),
}


def _cast(value: Any, source: DType, to: DType) -> Any:
    if source.is_float and to.is_integer:
        return to.numpy.type(saturate(float(value), to))
    return as_type(np.asarray(value), to)[()]


def _combined(op: str, of: DType, lanes: list[Any]) -> Any:
    """The lanes of a vector, half on half; an odd one comes last."""
    if len(lanes) == 1:
        return lanes[0]
    if len(lanes) % 2:
        return evaluated(op, of, [_combined(op, of, lanes[:-1]), lanes[-1]])[()]
    half = len(lanes) // 2
    return _combined(op, of, [evaluated(op, of, pair)[()] for pair in zip(lanes[:half], lanes[half:], strict=True)])


def _shift(op: str, a: Any, b: Any) -> Any:
    bits = a.dtype.itemsize * 8
    if 0 <= int(b) < bits:
        return a << b if op == "shl" else a >> b
    return a.dtype.type(-1 if op == "shr" and a < 0 else 0)


def _thread_variables(s: S.Stmt) -> set[Expr]:
    return {v for e in S.all_expressions(s) for v in variables(e) if v.value.role == "thread"}


def interpret(
    function: S.Function, arrays: Sequence[np.ndarray], index_bits: int = 64, watch: Watch | None = None
) -> None:
    """Run `function` on `arrays` (one for each parameter; outputs are written in place).

    `watch` is called for each access of memory, in the order of the run, a store after the loads of its value. A
    prefetch may name elements that do not exist.
    Raises BuildError at the first defect that `sanitize` would report.
    """
    _interpret(function, arrays, index_bits, Findings(stop=True), watch)


def sanitize(function: S.Function, arrays: Sequence[np.ndarray], index_bits: int = 64) -> tuple[Finding, ...]:
    """Run `function` on `arrays` as `interpret` does, and return the defects, in the order they were met.

    `index_bits`: the width in which indices are computed, 64 or 32. A read outside a buffer gives 0,
    a write outside one is left out, and an index that overflows keeps its exact value, so that the
    run can go on. Races are seen where values differ: give inputs whose elements do.

        for finding in sanitize(lower(s, [a, b]).structure.bind(), [array, np.empty_like(array)]):
            print(finding)
    """
    findings = Findings(stop=False)
    _interpret(function, arrays, index_bits, findings)
    return findings.as_tuple()


def _interpret(
    function: S.Function,
    arrays: Sequence[np.ndarray],
    index_bits: int,
    findings: Findings,
    watch: Watch | None = None,
) -> None:
    env: dict[Any, Any] = {}
    for buffer, array in zip(function.params, arrays, strict=True):
        for d, n in zip(buffer.shape, array.shape, strict=True):
            if d.op == "var" and (d not in env or n != 1):
                env[d] = n
        for d, n, step in zip(buffer.strides, array.shape, array.strides, strict=False):
            if d.op == "var" and (d not in env or n > 1):
                env[d] = 0 if n == 1 else step // array.itemsize
    memory = {
        b: Memory(a, written=i not in function.outputs)
        for i, (b, a) in enumerate(zip(function.params, arrays, strict=True))
    }
    stored = frozenset(
        b for s in S.walk(function.body) for b in ((s.buffer,) if isinstance(s, S.Store) else S.handed_out(s))
    )
    run = _Run(findings, stored, -(2 ** (index_bits - 1)), 2 ** (index_bits - 1) - 1, watch)
    for r in function.requires:
        if not _Interpreter(run, env, {}).index(r.condition, 0):
            raise BuildError(r.reason, asked="interpreter", legal=f"needed: {r.condition!r}")
    with np.errstate(all="ignore"):
        for _ in _Interpreter(run, env, memory).execute(function.body):
            raise BuildError("a barrier outside a kernel", asked="interpreter")
    for i in function.outputs:
        b = function.params[i]
        missing = memory[b].never_written()
        if missing is not None:
            place = memory[b].place_of(missing)
            why = f"{b.name}{list(place)} was never written"
            findings.add((b,), Finding("unwritten-output", why, b.name, place))
