"""The interpreter: any lowered function run one element at a time, with every access checked.

It is slow and obvious, shares no code with the code generators, and reports an access out of
bounds or a read of an element that was never written, with the values of the loop variables.
Vector statements run lane by lane; kernels run one work-item after the other, phase by phase
between barriers, and two work-items that touch an element of shared memory in the same phase, one of
them writing, are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from autosched.errors import BuildError
from autosched.ir.dtype import DType
from autosched.ir.expr import OPS, Expr, is_index, saturate, variables
from autosched.ir.stmt import (
    THREAD_TAGS,
    Allocate,
    Barrier,
    Buffer,
    For,
    Function,
    If,
    Launch,
    Let,
    Prefetch,
    Produce,
    Seq,
    Stmt,
    Store,
    expressions,
    walk,
)

__all__ = ["interpret"]


class _Memory:
    """One buffer's elements, and which of them have a value."""

    def __init__(self, values: np.ndarray, written: bool) -> None:
        self.values = values
        self.written = np.full(values.size, written)

    def race(self, at: int, item: int, writes: bool) -> str:
        """What makes this access of a work-item a race, or nothing."""
        return ""


class _Shared(_Memory):
    """The elements of a work-group's buffer, and who touched them since the last barrier."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(values, written=False)
        self.writer: dict[int, int] = {}
        self.readers: dict[int, set[int]] = {}

    def meet(self) -> None:
        """A barrier: what was done before is done for all."""
        self.writer.clear()
        self.readers.clear()

    def race(self, at: int, item: int, writes: bool) -> str:
        if self.writer.get(at, item) != item:
            return f"and work-item {self.writer[at]} wrote it with no barrier between"
        others = self.readers.setdefault(at, set())
        if not writes:
            others.add(item)
            return ""
        self.writer[at] = item
        return "and other work-items read it with no barrier between" if others - {item} else ""


class _Interpreter:
    def __init__(self, env: dict[Expr, int], memory: dict[Buffer, _Memory], item: int = 0) -> None:
        self.env, self.memory, self.item = env, memory, item

    # -- expressions ----------------------------------------------------------------------------
    def index(self, e: Expr, lane: int) -> int:
        """Index arithmetic: exact integers."""
        match e.op:
            case "const":
                return int(e.value)
            case "var":
                return int(self.env[e])
            case "ramp":
                return self.index(e.args[0], lane) + lane * self.index(e.args[1], lane)
            case "broadcast" | "cast" | "likely":
                return self.index(e.args[0], lane)
            case "select" | "if_then_else":
                return self.index(e.args[1 if self.index(e.args[0], lane) else 2], lane)
            case "and":
                return int(all(self.index(a, lane) for a in e.args))
            case "or":
                return int(any(self.index(a, lane) for a in e.args))
            case "not":
                return int(not self.index(e.args[0], lane))
            case "neg":
                return -self.index(e.args[0], lane)
        a, b = (self.index(x, lane) for x in e.args)
        return _EXACT[e.op](a, b)

    def value(self, e: Expr, lane: int) -> Any:
        """A NumPy scalar of the expression's type."""
        to = e.dtype.scalar
        if is_index(e):
            return np.asarray(self.index(e, lane)).astype(to.numpy)[()]
        match e.op:
            case "const":
                return to.numpy.type(e.value)
            case "var":
                return np.asarray(self.env[e]).astype(to.numpy)[()]
            case "broadcast" | "likely":
                return self.value(e.args[0], lane)
            case "ramp":
                return to.numpy.type(self.value(e.args[0], lane) + lane * self.value(e.args[1], lane))
            case "load":
                return self.load(e, lane)
            case "if_then_else":
                return self.value(e.args[1 if self.value(e.args[0], lane) else 2], lane)
            case "to_line":  # memory has no addresses here, and any distance must do
                return to.numpy.type((7 * self.any_index(e.args[0], lane) + 3) % (64 // e.value.dtype.bytes))
            case "combine_lanes":
                return _combined(e.value, [self.value(e.args[0], k) for k in range(e.args[0].dtype.lanes)])
            case "cast":
                return _cast(self.value(e.args[0], lane), e.args[0].dtype, to)
        args = [self.value(a, lane) for a in e.args]
        if e.op in ("shl", "shr"):
            return _shift(e.op, *args)
        function = OPS[e.op].numpy
        assert function is not None, e.op
        return np.asarray(function(*args)).astype(to.numpy)[()]

    def offset(self, buffer: Buffer, indices: Sequence[Expr], lane: int, what: str) -> int:
        """The flat element an access names. Raises BuildError if it is outside the buffer."""
        memory = self.memory[buffer]
        at = [self.any_index(i, lane) for i in indices]
        shape = memory.values.shape if len(at) == memory.values.ndim else (memory.values.size,)
        if any(not 0 <= i < n for i, n in zip(at, shape, strict=True)):
            self.fail(f"{what} {buffer.name}{at} is outside {list(shape)}")
        return int(np.ravel_multi_index(at, shape))

    def any_index(self, i: Expr, lane: int) -> int:
        return self.index(i, lane) if is_index(i) else int(self.value(i, lane))

    def load(self, e: Expr, lane: int) -> Any:
        at = self.offset(e.value, e.args, lane, "read of")
        memory = self.memory[e.value]
        if not memory.written[at]:
            self.fail(f"read of {e.value.name} element {at}, which was never written")
        self._check_race(e.value, at, writes=False)
        return memory.values.flat[at]

    def _check_race(self, buffer: Buffer, at: int, writes: bool) -> None:
        race = self.memory[buffer].race(at, self.item, writes)
        if race:
            self.fail(f"work-item {self.item} {'writes' if writes else 'reads'} {buffer.name} element {at}, {race}")

    def fail(self, what: str) -> None:
        where = ", ".join(f"{v.name}={value}" for v, value in self.env.items() if v.value.role in ("loop", "thread"))
        raise BuildError(what, asked="interpreter", legal=f"at {where}" if where else "")

    # -- statements -----------------------------------------------------------------------------
    def run(self, s: Stmt) -> Iterator[None]:
        """Run a statement; yields at each barrier, so that work-items can take turns."""
        match s:
            case Store():
                self.store(s)
            case For():
                start, extent = self.index(s.start, 0), self.index(s.extent, 0)
                for i in range(start, start + extent):
                    self.env[s.var] = i
                    yield from self.run(s.body)
                self.env.pop(s.var, None)
            case Seq():
                for c in s.stmts:
                    yield from self.run(c)
            case If():
                if self.value(s.condition, 0):
                    yield from self.run(s.then)
                elif s.otherwise is not None:
                    yield from self.run(s.otherwise)
            case Let():
                self.env[s.var] = self.any_index(s.value, 0) if s.value.dtype.is_integer else self.value(s.value, 0)
                yield from self.run(s.body)
            case Allocate():
                shape = tuple(max(self.index(d, 0), 0) for d in s.buffer.shape)
                self.memory[s.buffer] = _Memory(np.zeros(shape, s.buffer.dtype.numpy), written=False)
                yield from self.run(s.body)
            case Produce():
                yield from self.run(s.body)
            case Prefetch():
                pass
            case Barrier():
                yield
            case Launch():
                self.launch(s)

    def store(self, s: Store) -> None:
        lanes = max(s.value.dtype.lanes, *(i.dtype.lanes for i in s.indices))
        stores = []
        for lane in range(lanes):  # a vector statement reads all lanes before it writes any
            stores.append((self.offset(s.buffer, s.indices, lane, "write to"), self.value(s.value, lane)))
        memory = self.memory[s.buffer]
        for at, value in stores:
            if not memory.written[at] or memory.values.flat[at] != value:  # blocks that overlap write the same
                self._check_race(s.buffer, at, writes=True)
            memory.values.flat[at] = value
            memory.written[at] = True

    def launch(self, s: Launch) -> None:
        grid, block = ([self.index(e, 0) for e in dims] for dims in (s.grid, s.block))
        tags = {v.name: v for v in _thread_variables(s.body)}
        shared = [x.buffer for x in walk(s.body) if isinstance(x, Allocate) and x.buffer.scope == "shared"]
        for group in product(*(range(n) for n in grid)):
            common = {b: _Shared(np.zeros([self.index(d, 0) for d in b.shape], b.dtype.numpy)) for b in shared}
            items = []
            for number, item in enumerate(product(*(range(n) for n in block))):
                place = dict(zip(THREAD_TAGS, (*group, *item), strict=True))
                env = {**self.env, **{v: place[tag] for tag, v in tags.items()}}
                items.append(_WorkItem(env, {**self.memory, **common}, number).run(s.body))
            while items:
                for memory in common.values():
                    memory.meet()
                waiting = [item for item in items if next(item, _DONE) is not _DONE]
                if waiting and len(waiting) != len(items):
                    self.fail(f"{len(waiting)} of {len(items)} work-items reach a barrier of {s.name}")
                items = waiting


class _WorkItem(_Interpreter):
    """One work-item: shared buffers are allocated already, by its group."""

    def run(self, s: Stmt) -> Iterator[None]:
        if isinstance(s, Allocate) and s.buffer.scope == "shared":
            yield from self.run(s.body)
        else:
            yield from super().run(s)


_DONE = object()


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
    return np.asarray(value).astype(to.numpy)[()]


def _combined(op: str, lanes: list[Any]) -> Any:
    """The lanes of a vector, half on half; an odd one comes last."""
    if len(lanes) == 1:
        return lanes[0]
    function = OPS[op].numpy
    assert function is not None
    if len(lanes) % 2:
        return function(_combined(op, lanes[:-1]), lanes[-1])
    half = len(lanes) // 2
    return _combined(op, [function(a, b) for a, b in zip(lanes[:half], lanes[half:], strict=True)])


def _shift(op: str, a: Any, b: Any) -> Any:
    bits = a.dtype.itemsize * 8
    if 0 <= int(b) < bits:
        return a << b if op == "shl" else a >> b
    return a.dtype.type(-1 if op == "shr" and a < 0 else 0)


def _thread_variables(s: Stmt) -> set[Expr]:
    return {v for x in walk(s) for e in expressions(x) for v in variables(e) if v.value.role == "thread"}


def interpret(function: Function, arrays: Sequence[np.ndarray]) -> None:
    """Run `function` on `arrays` (one for each parameter; outputs are written in place).

    Raises BuildError at the first access out of bounds or read of an unwritten element.
    """
    env: dict[Expr, int] = {}
    for buffer, array in zip(function.params, arrays, strict=True):
        for d, n in zip(buffer.shape, array.shape, strict=True):
            if d.op == "var":
                env[d] = n
    for r in function.requires:
        if not _Interpreter(env, {}).index(r.condition, 0):
            raise BuildError(r.reason, asked="interpreter", legal=f"needed: {r.condition!r}")
    memory = {
        b: _Memory(a, written=i not in function.outputs)
        for i, (b, a) in enumerate(zip(function.params, arrays, strict=True))
    }
    with np.errstate(all="ignore"):
        for _ in _Interpreter(env, memory).run(function.body):
            raise BuildError("a barrier outside a kernel", asked="interpreter")
    for i in function.outputs:
        if not memory[function.params[i]].written.all():
            missing = int(np.argmin(memory[function.params[i]].written))
            raise BuildError(f"element {missing} of {function.params[i].name} was never written", asked="interpreter")
