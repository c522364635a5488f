"""Statements of one function to LLVM: loops, conditions, allocations and stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from autosched.codegen.lanes import line_of
from autosched.codegen.llvm_expr import Expressions
from autosched.codegen.llvm_memory import CACHE_LINE, MOSTLY_TRUE, Memory, transpose
from autosched.codegen.llvm_text import Value, Writer, constant, memory_type, plus
from autosched.codegen.storage import ALIGNMENT, THREAD_ALIGNMENT, Storage, constant_bytes
from autosched.codegen.together import (
    LEAST_CHANNELS,
    Columns,
    Interleaved,
    Transposed,
    interleaved,
    pixels,
    transposed,
)
from autosched.errors import BuildError
from autosched.ir import stmt as S
from autosched.ir.dtype import BOOL, INT64
from autosched.ir.expr import Expr, binary, const, is_const, is_index
from autosched.ir.ops import COMPARISONS
from autosched.ir.ranges import Ranges
from autosched.ir.simplify import to_poly
from autosched.ir.visit import conjuncts, post_order

_NO_VECTORS = '!{!"llvm.loop.vectorize.enable", i1 false}'
_NO_COPIES = '!{!"llvm.loop.unroll.disable"}'
#: stores in a loop that LLVM shall not unroll further
_WRITTEN_OUT = 12
#: iterations of a loop that LLVM may write out before it looks for loops to vectorize
_MOST_COPIES = 128
#: elements from a store to that of the next iteration, up to which LLVM makes vectors of several such stores
_BESIDE = 8
#: expressions of an update, at most, and what they do, that cost less than a jump that is taken wrong
_SHORT_UPDATE = 24
_CHEAP = ("load", "cast", "add", "sub", "mul", "min", "max", "select", "neg", *COMPARISONS)


class Statements:
    """Emitter of the statements of one LLVM function.

    `launch` emits a parallel loop; it is None inside one, where a parallel loop is a serial one.
    `workspace` is the pointer to this function's part of the workspace.
    """

    def __init__(
        self,
        writer: Writer,
        storage: Storage,
        scopes: dict[S.Buffer, str],
        ranges: Ranges,
        workspace: str,
        launch: Callable[[Statements, S.For, Value], None] | None,
    ) -> None:
        self.w = writer
        self.storage = storage
        self.ranges = ranges
        self.memory = Memory(writer, scopes, storage.on_stack)
        self.exprs = Expressions(writer, self.memory, ranges)
        self.workspace = workspace
        self._launch = launch
        self._border = False  #: inside a piece that partitioning cut off

    def emit(self, s: S.Stmt, used: Value) -> None:
        """Emit `s`, below which the first `used` bytes of the workspace are taken."""
        match s:
            case S.Store():
                self._sequence([s], used)
            case S.For(kind="serial" | "parallel"):
                self._for(s, used)
            case S.Seq(stmts=stmts):
                self._sequence(stmts, used)
            case S.If():
                self._if(s, used)
            case S.Prefetch():
                self._prefetch(s)
            case S.Let():
                self._let(s, used)
            case S.Evaluate():
                self.exprs.effect(s.value)
            case S.While():
                self._while(s, used)
            case S.Allocate():
                self._allocate(s, used)
            case S.Produce(name=name, body=body):
                self.w.do(f"; compute {name.replace(chr(10), ' ')}")
                self.emit(body, used)
            case S.For(kind=kind):
                raise self._refused(f"a loop of kind {kind!r}")
            case S.Barrier() | S.Launch():
                raise self._refused(f"{type(s).__name__} (a GPU-style statement)")

    @staticmethod
    def _refused(what: str) -> BuildError:
        return BuildError(
            f"{what} cannot reach the code generator for CPUs",
            asked="code generation",
            legal="legal: serial and parallel loops, stores, lets, conditions and allocations",
        )

    def _sequence(self, stmts: Sequence[S.Stmt], used: Value) -> None:
        position = 0
        while position < len(stmts):
            group = None  # stores from here on that are cheaper together
            if self.exprs.mask is None:
                group = interleaved(stmts, position) or transposed(stmts, position, LEAST_CHANNELS)
                group = group or transposed(stmts, position)
            match group:
                case Interleaved():
                    first = stmts[position]
                    self._store_group(group, streaming=isinstance(first, S.Store) and first.streaming)
                    position += len(group.values)
                case Transposed():
                    self._store_transposed(group)
                    position += len(group.stores)
                case None:
                    s = stmts[position]
                    self._store(s) if isinstance(s, S.Store) else self.emit(s, used)
                    position += 1

    # -- stores -------------------------------------------------------------------------------
    def _store_group(self, group: Interleaved, streaming: bool) -> None:
        e = self.exprs
        e.begin_statement()
        self._load_pixels(group.values)
        values = [self.w.splat(e.value(v), group.lanes) for v in group.values]
        self.memory.store_interleaved(group.buffer, e.index(group.base), values, streaming)

    def _store_transposed(self, group: Transposed) -> None:
        e = self.exprs
        e.begin_statement()
        for c in group.columns:
            self._load_columns(c)
        for s in group.stores:
            self._store_value(s)

    def _prefetch(self, s: S.Prefetch) -> None:
        """Prefetch each cache line that the lanes touch once; ignore gathers from anywhere."""
        index = s.indices[0]
        self.exprs.begin_statement()
        line = (index, 0) if index.dtype.lanes == 1 else line_of(index)
        if line is not None:
            base, stride = line
            apart = max(1, CACHE_LINE // max(abs(stride) * s.buffer.dtype.bytes, 1))
            first = self.exprs.index(base)
            for lane in range(0, index.dtype.lanes if stride else 1, apart):
                self.memory.prefetch(s.buffer, first, lane * stride)

    def _store(self, s: S.Store) -> None:
        if len(s.indices) != 1:
            raise BuildError(
                f"{s.buffer.name} is indexed by {len(s.indices)} numbers",
                asked="code generation",
                legal="flatten the buffers first",
            )
        if s.value.dtype.scalar != s.buffer.dtype:
            raise BuildError(
                f"a value of type {s.value.dtype} does not fit into {s.buffer.name}, which holds {s.buffer.dtype}",
                asked="code generation",
                legal=f"cast it to {s.buffer.dtype}",
            )
        self.exprs.begin_statement()
        self._load_pixels([s.value])
        self._store_value(s)

    def _load_pixels(self, values: Sequence[Expr]) -> None:
        """Load the channels of pixels at once, where all are read: LLVM knows how to take those apart."""
        if self.exprs.mask is None:
            for c in pixels(values):
                self._load_columns(c)

    def _load_columns(self, c: Columns) -> None:
        if c.channels:
            whole = self.memory.load(c.buffer, self.exprs.index(c.base), c.channels * c.lanes)
            columns = [self.w.shuffle(whole, [c.channels * i + k for i in range(c.lanes)]) for k in range(c.channels)]
        else:
            places = (
                self.exprs.index(binary("add", c.base, binary("mul", c.stride, const(i)))) for i in range(c.lanes)
            )
            columns = transpose(self.w, [self.memory.load(c.buffer, at, len(c.loads)) for at in places])
        for load, column in zip(c.loads, columns, strict=True):
            self.exprs.remember(load, column)

    def _store_value(self, s: S.Store) -> None:
        e, index = self.exprs, s.indices[0]
        lanes = max(index.dtype.lanes, s.value.dtype.lanes)
        value = self.w.splat(e.value(s.value), lanes)
        if lanes == 1:
            if e.mask is None:
                self.memory.store(s.buffer, e.index(index), value)
            else:
                self.memory.store_where(s.buffer, e.index(index), value, e.mask)
        elif index.dtype.lanes == 1:
            raise BuildError(
                f"{lanes} lanes are stored at one element of {s.buffer.name}",
                asked="code generation",
                legal="the index must have as many lanes as the value",
            )
        else:
            line = line_of(index)
            if line is None:
                self.memory.scatter(s.buffer, e.index(index), value, e.mask)
            elif s.streaming and line[1] == 1 and e.mask is None:
                self.memory.stream(s.buffer, e.index(line[0]), value)
            else:
                is_sum = (s.buffer, index) in self.storage.gone_on_with
                self.memory.store_line(s.buffer, e.index(line[0]), line[1], value, e.mask, is_sum=is_sum)

    # -- control flow -------------------------------------------------------------------------
    def _for(self, s: S.For, used: Value) -> None:
        self.exprs.begin_statement()
        self.ranges.widen(s.var, self.ranges.of_loop(s.start, s.extent))
        # a mask belongs to this function: under one, the loop runs here
        if s.kind == "parallel" and self._launch is not None and self.exprs.mask is None:
            self._launch(self, s, used)
            return
        start, extent = self.exprs.index(s.start), self.exprs.index(s.extent)
        if extent.const is not None and extent.const <= 0:
            return
        if extent.const == 1:
            with self.w.scope(), self.exprs.bound(s.var, start):
                self.emit(s.body, used)
            return
        self.loop(s, start, plus(self.w, start, extent), used, runs=extent.const is not None)

    def loop(self, s: S.For, begin: Value, end: Value, used: Value, runs: bool = False) -> None:
        """`for s.var in [begin, end)`, tested before the first round unless it surely `runs`.

        In a border LLVM is not told what it counts: it would look long for the best induction variables
        of loops that run a few times. That is a sixth to a third of its time for a stencil.
        """
        w = self.w
        name = s.var.name
        outer_border, self._border = self._border, self._border or s.ragged
        # the name tells a reader of the assembly which loops hardly count
        first = "border" if self._border else "loop"
        body, latch, done = (w.label(f"{name}.{part}") for part in (first, "next", "done"))
        before = w.block
        if runs:
            w.jump(body)
        else:
            enters = w.compare("slt", begin, end)
            w.branch(enters.ref, body, done)
        w.start(body)
        counter = Value(w.name(name), INT64)
        step = w.name(f"{name}.step")
        w.define(counter.ref, f"phi i64 [ {begin.ref}, %{before} ], [ {step}, %{latch} ]")
        divisions = w.divisions
        value = counter
        if self._border:  # no instruction, but for all LLVM knows any number comes out of it
            value = w.fresh(f'call i64 asm "", "=r,0"(i64 {counter.ref})', INT64)
        with w.scope(), self.exprs.bound(s.var, value):
            self.emit(s.body, used)
        self._border = outer_border
        w.jump(latch)
        w.start(latch)
        w.define(step, f"add i64 {counter.ref}, 1")
        more = w.fresh(f"icmp ne i64 {step}, {end.ref}", BOOL)
        w.branch(more.ref, body, done, self._loop_metadata(s, w.divisions > divisions))
        w.start(done)

    def _loop_metadata(self, s: S.For, divides: bool) -> str:
        """Metadata that keeps LLVM from vectorizing or unrolling the loop.

        A loop that partitioning cut off runs a few times: vector code for it is wasted compile
        time, and so are the copies that unrolling a loop around it makes. A loop whose body the
        schedule has written out is long enough: in copies of it, LLVM keeps what they share in
        registers that the body needs for its sums. A loop that divides stays
        scalar because LLVM 22 gets it wrong: of a division that all lanes share and only some need,
        the vectorised loop computes it if the first lane does. A loop of rows stays scalar because LLVM
        writes short rows out, and then takes the loop around for the innermost one: gathers and scatters
        across rows took up to 17 times as long as the vectors that it makes of a row once it is written out.
        """
        module = self.w.module
        ragged = any(isinstance(inner, S.For) and inner.ragged for inner in S.walk(s))
        written_out = sum(isinstance(inner, S.Store) for inner in S.walk(s.body)) >= _WRITTEN_OUT
        wanted = [(_NO_VECTORS, s.ragged or divides or _is_loop_of_rows(s)), (_NO_COPIES, ragged or written_out)]
        hints = ", ".join(module.metadata(hint) for hint, applies in wanted if applies)
        if not hints:
            return ""
        node = module.metadata(f"!{{@, {hints}}}", distinct=True)
        return f", !llvm.loop {node}"

    def _while(self, s: S.While, used: Value) -> None:
        w = self.w
        test, body, done = (w.label(f"while.{part}") for part in ("test", "body", "done"))
        w.jump(test)
        w.start(test)
        with w.scope():
            self.exprs.begin_statement()
            holds = self.exprs.value(s.condition)
            w.branch(holds.ref, body, done)
            w.start(body)
            self.emit(s.body, used)
            w.jump(test)
        w.start(done)

    def _if(self, s: S.If, used: Value) -> None:
        condition = s.condition
        while condition.op == "likely":
            condition = condition.args[0]
        self.exprs.begin_statement()
        if condition.dtype.lanes > 1:
            self._masked_if(condition, s, used)
            return
        if self.exprs.mask is None and is_open_update(s):
            self._update_without_jumps(s, used)
            return
        holds = self.exprs.value(condition)
        if holds.const is not None:
            chosen = s.then if holds.const else s.otherwise
            if chosen is not None:
                self.emit(chosen, used)
            return
        w = self.w
        then, joined = w.label("then"), w.label("joined")
        otherwise = joined if s.otherwise is None else w.label("else")
        weights = ""
        if condition is not s.condition:
            weights = f", !prof {w.module.metadata(MOSTLY_TRUE)}"
        w.branch(holds.ref, then, otherwise, weights)
        for label, arm in ((then, s.then), (otherwise, s.otherwise)):
            if arm is not None:
                w.start(label)
                with w.scope():
                    self.emit(arm, used)
                w.jump(joined)
        w.start(joined)

    def _update_without_jumps(self, s: S.If, used: Value) -> None:
        """Each condition is asked, and the update done, as if those before held: where not, with zeros, for nothing."""
        holds: Value | None = None
        places: set[tuple[Expr, str]] = set()
        with self.w.scope():
            for c in conjuncts(s.condition):
                with self.memory.only_if(holds, places):
                    value = self.exprs.value(c)
                holds = value if holds is None else self.w.binary("and", holds, value)
            with self.memory.only_if(holds, places):
                self.emit(s.then, used)

    def _masked_if(self, condition: Expr, s: S.If, used: Value) -> None:
        """Run both arms, with their loads and stores masked: each lane decides for itself."""
        holds = self.exprs.value(condition)
        with self.exprs.masked(holds):
            self.emit(s.then, used)
        if s.otherwise is not None:
            inverse = self.w.binary("xor", holds, 1)
            with self.exprs.masked(inverse):
                self.emit(s.otherwise, used)

    def _let(self, s: S.Let, used: Value) -> None:
        if s.value.dtype != s.var.dtype:
            raise BuildError(
                f"{s.var.name} is of type {s.var.dtype} and its value of type {s.value.dtype}",
                asked="code generation",
                legal=f"cast it to {s.var.dtype}",
            )
        e = self.exprs
        e.begin_statement()
        self.ranges.widen(s.var, self.ranges.of(s.value))
        exact = is_index(s.value) and not s.value.dtype.is_bool
        if exact and (s.value.dtype.lanes == 1 or not self.ranges.fits(s.value)):
            value = e.index(s.value)
        else:
            value = e.value(s.value)
        with self.w.scope(), e.bound(s.var, value):
            self.emit(s.body, used)

    # -- memory -------------------------------------------------------------------------------
    def _allocate(self, s: S.Allocate, used: Value) -> None:
        buffer, w = s.buffer, self.w
        if buffer not in self.storage.on_stack:
            pointer = w.fresh(f"getelementptr i8, ptr {self.workspace}, i64 {used.ref}", INT64).ref
            used = plus(w, used, ByteValues(self.exprs).bytes_of(buffer))
            with self._memory_of(buffer, pointer):
                self.emit(s.body, used)
            return
        size = constant_bytes(buffer) or 0
        kind = f"[{size // buffer.dtype.bytes} x {memory_type(buffer.dtype)}]"
        pointer = w.alloca(buffer.name, kind, ALIGNMENT)
        for name in ("start", "end"):
            w.module.declare(f"llvm.lifetime.{name}.p0", "void", ["ptr"])
        w.do(f"call void @llvm.lifetime.start.p0(ptr {pointer})")
        with self._memory_of(buffer, pointer):
            self.emit(s.body, used)
        w.do(f"call void @llvm.lifetime.end.p0(ptr {pointer})")

    @contextmanager
    def _memory_of(self, buffer: S.Buffer, pointer: str) -> Iterator[None]:
        pointers = self.memory.pointers
        outer = pointers.get(buffer)
        pointers[buffer] = pointer
        yield
        if outer is None:
            del pointers[buffer]
        else:
            pointers[buffer] = outer


def is_open_update(s: S.If) -> bool:
    """Whether data say where an element is updated, and other data whether it is, as where those that are wanted are
    moved together: nothing foretells which, and an update costs less than jumps that are taken wrong.

    if flag[k]: R[place[k]] = R[place[k]] + X[k]
    """
    store = s.then
    if not isinstance(store, S.Store) or s.otherwise is not None or store.streaming:
        return False
    index = store.indices[0]
    if index.dtype.lanes > 1 or store.value.dtype.lanes > 1:
        return False
    at, value = set(_loads(index)), list(post_order(store.value))
    goes_on = any(e.op == "load" and e.value is store.buffer and e.args[0] is index for e in value)
    if not at or not goes_on or len(value) > _SHORT_UPDATE or any(e.op not in _CHEAP and e.args for e in value):
        return False
    return any(found and not at & found for found in map(set, map(_loads, conjuncts(s.condition))))


def _loads(e: Expr) -> list[Expr]:
    return [x for x in post_order(e) if x.op == "load"]


def _is_loop_of_rows(s: S.For) -> bool:
    """Whether all loops inside are as short as LLVM writes out, and stores of two iterations are far apart."""
    inner = [x for x in S.walk(s.body) if isinstance(x, S.For)]
    if not inner or not all(is_const(x.extent) and int(x.extent.value) <= _MOST_COPIES for x in inner):
        return False
    return any(
        isinstance(x, S.Store) and x.indices[0].dtype.lanes == 1 and _is_far(x.indices[0], s.var)
        for x in S.walk(s.body)
    )


def _is_far(index: Expr, v: Expr) -> bool:
    steps = to_poly(index).affine_in(v)
    return steps is None or abs(steps[0]) > _BESIDE


class ByteValues:
    """Numbers of bytes in 64-bit arithmetic, which is folded where both operands are known: a `ByteCounts`."""

    nothing = constant(0, INT64)

    def __init__(self, expressions: Expressions, threads: Value | None = None) -> None:
        self.e = expressions
        self.threads = constant(1, INT64) if threads is None else threads

    def bytes_of(self, buffer: S.Buffer) -> Value:
        """Bytes of a buffer; 0 for a negative length."""
        size = constant(buffer.dtype.bytes, INT64)
        self.e.begin_statement()
        for length in buffer.shape:
            count = self.e.index(length)
            if count.const is None:
                count = self.e.w.intrinsic("smax", INT64, [count, constant(0, INT64)])
            size = self._times(size, constant(max(int(count.const), 0), INT64) if count.const is not None else count)
        return self._rounded(size, ALIGNMENT)

    def plus(self, a: Value, b: Value) -> Value:
        return plus(self.e.w, a, b)

    def larger(self, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None:
            return constant(max(a.const, b.const), INT64)
        if 0 in (a.const, b.const):  # no need is negative
            return b if a.const == 0 else a
        return self.e.w.intrinsic("smax", INT64, [a, b])

    def of_thread(self, area: Value) -> Value:
        """The distance between the areas of two threads."""
        return self._rounded(area, THREAD_ALIGNMENT)

    def for_threads(self, area: Value) -> Value:
        return self._times(self.of_thread(area), self.threads)

    def _times(self, a: Value, b: Value) -> Value:
        if a.const is not None and b.const is not None:
            return constant(a.const * b.const, INT64)
        if 0 in (a.const, b.const):
            return constant(0, INT64)
        return self.e.w.binary("mul", a, b)

    def _rounded(self, a: Value, alignment: int) -> Value:
        if a.const is not None:
            return constant(-(-int(a.const) // alignment) * alignment, INT64)
        w = self.e.w
        return w.binary("and", w.binary("add", a, constant(alignment - 1, INT64)), constant(-alignment, INT64))
