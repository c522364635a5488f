"""A lowered function to the text of one LLVM module.

    i32  NAME(ptr A, ptr B, ..., i64 size, ...)       0, or -1 when there is no memory: for programs in C
    i32  NAME_packed(ptr args, ptr sizes, ptr workspace, i64 threads)    args: void*[], sizes: int64_t[]
    i64  NAME_packed_workspace(ptr sizes, i64 threads)                   bytes that `workspace` must have
    i64  NAME_packed_time(ptr args, ptr sizes, ptr workspace, i64 threads, i64 number)      nanoseconds

NAME_packed unpacks its arguments and calls NAME.body, where each buffer is a `noalias` parameter. The body
of a parallel loop is a function of a range of iterations; the team runs it on each of its threads,
which takes chunks of iterations off the counter of its own slice of the loop until none is left, then off those of
others. So a thread mostly does the same iterations in one loop after the other, as in time steps: what it stored in one
is in its own caches in the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

from autosched.codegen.c_program import c_name
from autosched.codegen.llvm_choices import MARK, chooses_between_states
from autosched.codegen.llvm_expr import Expressions, leave_if_failed
from autosched.codegen.llvm_memory import Memory
from autosched.codegen.llvm_stmt import ByteValues, Statements
from autosched.codegen.llvm_text import (
    C_INT,
    FEWEST_ABILITIES,
    Abilities,
    ModuleText,
    Value,
    Writer,
    constant,
    identifier,
    plus,
    register_type,
    typed,
)
from autosched.codegen.signature import outside_calls
from autosched.codegen.storage import (
    ALIGNMENT,
    Storage,
    accesses,
    constant_bytes,
    is_parallel,
    plan_storage,
    workspace_need,
)
from autosched.ir import stmt as S
from autosched.ir.dtype import BOOL, INT64, dtype
from autosched.ir.expr import Expr
from autosched.ir.ops import ACCESSES
from autosched.ir.ranges import Ranges
from autosched.ir.visit import post_order, values_below

#: how finely a parallel loop is handed out: a late thread costs at most 1 / (8 * threads) of the loop
CHUNKS_PER_THREAD = 8
#: slices of a parallel loop at most; each has a counter
MOST_SLICES = 8
CLOCK_MONOTONIC = getattr(time, "CLOCK_MONOTONIC", 1)
_ATTRIBUTES = "nounwind"


def entry_name(name: str) -> str:
    """The C symbol by which this library calls a function of that name: see above."""
    return f"{c_name(name)}_packed"


def module_text(
    function: S.Function,
    triple: str,
    data_layout: str,
    abilities: Abilities = FEWEST_ABILITIES,
    contract: bool = True,
) -> str:
    """LLVM assembly of `function`, not yet optimised. Raises BuildError for what has no code."""
    module = ModuleText(triple, data_layout, abilities, contract)
    storage = plan_storage(function.body)
    allocated = [s.buffer for s in S.walk(function.body) if isinstance(s, S.Allocate)]
    scopes = _alias_scopes(module, function, allocated, storage)
    program = _Program(function, module, storage, scopes)
    program.emit_body()
    program.emit_entry()
    program.emit_workspace()
    program.emit_plain()
    program.emit_time()
    return f"{MARK if chooses_between_states(function.body) else ''}{module}"


def _alias_scopes(
    module: ModuleText, function: S.Function, buffers: Iterable[S.Buffer], storage: Storage
) -> dict[S.Buffer, str]:
    """The metadata that tells LLVM which accesses cannot meet, per buffer, as an instruction's suffix."""
    order = list(dict.fromkeys([*function.params, *buffers]))
    if len(order) < 2:
        return {}
    domain = module.metadata(f'!{{@, !"{identifier(function.name)}"}}', distinct=True)
    scope = {b: module.metadata(f'!{{@, {domain}, !"{identifier(b.name)}"}}', distinct=True) for b in order}
    suffixes = {}
    for b in order:
        mine = module.metadata(f"!{{{scope[b]}}}")
        others = ", ".join(scope[o] for o in order if o is not b and frozenset((o, b)) not in storage.overlaps)
        suffixes[b] = f", !alias.scope {mine}"
        if others:
            suffixes[b] += f", !noalias {module.metadata(f'!{{{others}}}')}"
    return suffixes


def _captures(loop: S.For) -> tuple[list[S.Buffer], list[Expr]]:
    """The buffers and variables that the body of a parallel loop uses from around it."""
    buffers: dict[S.Buffer, None] = {}
    variables: dict[Expr, None] = {}
    inner: set[object] = {loop.var}
    for s in S.walk(loop.body):
        match s:
            case S.Allocate(buffer=buffer):
                inner.add(buffer)
            case S.For(var=var) | S.Let(var=var):
                inner.add(var)
            case S.Store(buffer=buffer) | S.Prefetch(buffer=buffer):
                buffers[buffer] = None
    for node in post_order(S.all_expressions(loop.body)):
        if node.op == "var":
            variables[node] = None
        elif node.op in ACCESSES:
            buffers[node.value] = None
    return [b for b in buffers if b not in inner], [v for v in variables if v not in inner]


class EntryPoints:
    """What calls NAME_packed: NAME, for programs in C, and NAME_packed_time."""

    def __init__(
        self, module: ModuleText, name: str, params: int, sizes: int = 0, *, parallel: bool, fails: bool
    ) -> None:
        """`params` arrays and `sizes` are passed; code that `fails` may return something other than 0."""
        self.module = module
        self.name, self.entry = c_name(name), entry_name(name)
        self.params, self.sizes = params, sizes
        self.parallel, self.fails = parallel, fails

    def emit_plain(self) -> None:
        """NAME: memory for the workspace, all threads there are, and one call."""
        w = Writer(self.module)
        params = [f"%a{i}" for i in range(self.params)]
        sizes = [f"%s{i}" for i in range(self.sizes)]
        arrays = self._packed(w, "args", "ptr", params)
        lengths = self._packed(w, "sizes", "i64", sizes)
        threads = constant(1, INT64)
        if self.parallel:
            most = self.module.declare("omp_get_max_threads", C_INT, [])
            threads = w.convert("sext", w.fresh(f"call {C_INT} {most}()", dtype("int32")), INT64)
        need = w.fresh(f"call i64 @{self.entry}_workspace(ptr {lengths}, {typed(threads)})", INT64)
        room = w.binary("add", need, constant(ALIGNMENT, INT64))
        memory = w.pointer(f"call ptr {self.module.declare('malloc', 'ptr', ['i64'])}({typed(room)})")
        w.branch(w.fresh(f"icmp eq ptr {memory}, null", BOOL).ref, "none", "some")
        w.start("none")
        w.do("ret i32 -1")
        w.start("some")
        aligned = self.module.declare("llvm.ptrmask.p0.i64", "ptr", ["ptr", "i64"])
        end = w.pointer(f"getelementptr i8, ptr {memory}, i64 {ALIGNMENT}")
        workspace = w.pointer(f"call ptr {aligned}(ptr {end}, i64 {-ALIGNMENT})")
        call = f"call {C_INT} @{self.entry}(ptr {arrays}, ptr {lengths}, ptr {workspace}, {typed(threads)})"
        status = w.fresh(call, dtype("int32"))
        w.do(f"call void {self.module.declare('free', 'void', ['ptr'])}(ptr {memory})")
        w.do(f"ret {typed(status)}")
        takes = ", ".join([*(f"ptr {p}" for p in params), *(f"i64 {s}" for s in sizes)])
        w.finish(f"define {C_INT} @{self.name}({takes}) {_ATTRIBUTES}")

    @staticmethod
    def _packed(w: Writer, name: str, kind: str, values: list[str]) -> str:
        """An array of the values, all of one type, on the stack."""
        array = w.alloca(name, f"[{max(len(values), 1)} x {kind}]", 8)
        for i, value in enumerate(values):
            w.do(f"store {kind} {value}, ptr {w.pointer(f'getelementptr {kind}, ptr {array}, i64 {i}')}, align 8")
        return array

    def emit_time(self) -> None:
        """NAME_packed_time: `number` calls between two readings of the monotonic clock."""
        w = Writer(self.module)
        clock = self.module.declare("clock_gettime", C_INT, ["i32 signext", "ptr"])
        before, after = w.alloca("before", "[2 x i64]", 8), w.alloca("after", "[2 x i64]", 8)
        w.do(f"call {C_INT} {clock}(i32 signext {CLOCK_MONOTONIC}, ptr {before})")
        w.jump("round")
        w.start("round")
        w.define("%i", f"phi i64 [ 0, %entry ], [ %next, %{'again' if self.fails else 'call'} ]")
        w.branch(w.fresh("icmp slt i64 %i, %number", BOOL).ref, "call", "done")
        w.start("call")
        status = w.fresh(
            f"call {C_INT} @{self.entry}(ptr %args, ptr %sizes, ptr %workspace, i64 %threads)", dtype("int32")
        )
        w.define("%next", "add i64 %i, 1")
        if self.fails:  # a negative time says which exception waits
            w.branch(w.fresh(f"icmp eq {typed(status)}, 0", BOOL).ref, "again", "failed")
            w.start("failed")
            number = w.convert("sext", w.fresh(f"sub i32 0, {status.ref}", dtype("int32")), INT64)
            w.do(f"ret {typed(number)}")
            w.start("again")
        w.jump("round")
        w.start("done")
        w.do(f"call {C_INT} {clock}(i32 signext {CLOCK_MONOTONIC}, ptr {after})")
        seconds, nanoseconds = (
            w.binary("sub", *(Value(element(w, "i64", moment, i), INT64) for moment in (after, before)))
            for i in range(2)
        )
        total = w.binary("add", w.binary("mul", seconds, constant(10**9, INT64)), nanoseconds)
        w.do(f"ret {typed(total)}")
        w.finish(
            f"define i64 @{self.entry}_time(ptr %args, ptr %sizes, ptr %workspace, i64 %threads, i64 %number) "
            f"{_ATTRIBUTES}"
        )


class _Program(EntryPoints):
    """The functions of one module."""

    def __init__(self, function: S.Function, module: ModuleText, storage: Storage, scopes: dict[S.Buffer, str]) -> None:
        super().__init__(
            module,
            function.name,
            len(function.params),
            len(function.sizes),
            parallel=is_parallel(function.body),
            fails=bool(outside_calls(function, "packed")),  # bodies return the number of an exception, or 0
        )
        self.function = function
        self.storage = storage
        self.scopes = scopes
        nodes = values_below(S.all_expressions(function.body))
        self.stored, _ = accesses(function.body, nodes)
        self.launches = 0
        self.result, self.done = ("i64", "ret i64 0") if self.fails else ("void", "ret void")

    # -- the body -----------------------------------------------------------------------------
    def emit_body(self) -> None:
        """NAME.body(buffers, sizes, workspace, threads)."""
        w = Writer(self.module)
        workspace, threads = w.name("workspace"), Value(w.name("threads"), INT64)
        s = Statements(w, self.storage, self.scopes, Ranges(), workspace, partial(self._launch, threads))
        parameters = [self._buffer_parameter(s.memory, b) for b in self.function.params]
        for size in self.function.sizes:
            value = s.exprs.variables[size] = Value(w.name(size.name), INT64)
            parameters.append(typed(value))
        parameters += [f"ptr noalias align {ALIGNMENT} {workspace}", typed(threads)]
        s.emit(self.function.body, constant(0, INT64))
        s.memory.fence()
        w.do(self.done)
        w.finish(f"define internal {self.result} @{self.name}.body({', '.join(parameters)}) noinline {_ATTRIBUTES}")

    def _buffer_parameter(self, memory: Memory, buffer: S.Buffer) -> str:
        """Name the parameter and state its attributes for LLVM."""
        pointer = memory.pointers[buffer] = memory.w.name(buffer.name)
        aligned = ALIGNMENT if buffer in self.storage.on_stack else buffer.dtype.bytes
        facts = ["ptr", "noalias", f"align {aligned}"]
        if buffer not in self.stored:
            facts.append("readonly")
        size = constant_bytes(buffer)
        if size:
            facts.append(f"dereferenceable({size})")
        return " ".join([*facts, pointer])

    # -- parallel loops -----------------------------------------------------------------------
    def _launch(self, threads: Value, outer: Statements, loop: S.For, used: Value) -> None:
        """Run the loop on `threads` threads, or here when there is one thread or one iteration."""
        w, e = outer.w, outer.exprs
        start, extent = e.index(loop.start), e.index(loop.extent)
        if extent.const is not None and extent.const <= 0:
            return
        buffers, used_variables = _captures(loop)
        name = f"{self.name}.{identifier(loop.var.name)}.{self.launches}"
        self.launches += 1
        variables = {v: e.variables.get(v) or e.value(v) for v in used_variables}
        self._emit_range(name, loop, outer, buffers, variables)
        operands = [("ptr", outer.memory.pointer(b)) for b in buffers]
        operands += [(register_type(v.dtype), v.ref) for v in variables.values() if v.const is None]
        area = ByteValues(e).of_thread(workspace_need(loop.body, self.storage, ByteValues(e), in_parallel=True))
        workspace = w.fresh(f"getelementptr i8, ptr {outer.workspace}, i64 {used.ref}", INT64).ref

        alone, team, joined = (w.label(f"{loop.var.name}.{part}") for part in ("alone", "team", "joined"))
        one_thread = w.compare("sle", threads, 1)
        one_round = w.compare("sle", extent, 1)
        w.branch(w.binary("or", one_thread, one_round).ref, alone, team)
        w.start(alone)
        with w.scope():
            end = plus(w, start, extent)
            call = f"call {self.result} @{name}.range({_arguments(operands, start, end, workspace)})"
            if self.fails:
                leave_if_failed(w, w.fresh(call, INT64))
            else:
                w.do(call)
        w.jump(joined)
        w.start(team)
        with w.scope():
            pieces = w.binary("mul", threads, constant(CHUNKS_PER_THREAD, INT64))
            chunk = w.intrinsic("umax", INT64, [w.binary("udiv", extent, pieces), constant(1, INT64)])
            wanted = w.intrinsic("smin", INT64, [threads, extent])
            slices = w.intrinsic("smin", INT64, [wanted, constant(MOST_SLICES, INT64)])
            numbers = [("i64", v.ref) for v in (start, extent, chunk, slices, area)]
            self._start_team(w, name, [*numbers, ("ptr", workspace), *operands], wanted)
        w.jump(joined)
        w.start(joined)
        self._emit_worker(name, [kind for kind, _ in operands])

    def _start_team(self, w: Writer, name: str, fields: list[tuple[str, str]], wanted: Value) -> None:
        """Fill the closure and call the team (OpenMP's, or `runtime.team`), which returns when all threads are done.

        The counters have cache lines of their own: threads write them, the rest is only read.
        """
        kind = _closure_type([kind for kind, _ in fields])
        closure = w.alloca("closure", kind, ALIGNMENT)
        for number in range(MOST_SLICES):
            w.do(f"store i64 0, ptr {_counter(w, closure, constant(number, INT64))}, align {ALIGNMENT}")
        for position, (of, ref) in enumerate(fields):
            w.do(f"store {of} {ref}, ptr {_closure_field(w, kind, closure, position)}")
        count = w.convert("trunc", wanted, dtype("int32"))
        gomp = self.module.declare("GOMP_parallel", "void", ["ptr", "ptr", "i32 signext", "i32 signext"])
        if self.fails:
            w.do(f"store i64 0, ptr {_failure(w, closure)}, align 8")
        w.do(f"call void {gomp}(ptr @{name}.worker, ptr {closure}, i32 signext {count.ref}, i32 signext 0)")
        if self.fails:
            leave_if_failed(w, w.fresh(f"load i64, ptr {_failure(w, closure)}, align 8", INT64))

    def _emit_worker(self, name: str, operand_types: list[str]) -> None:
        """NAME.LOOP.worker(closure): what each thread runs, the slice of its number first."""
        w = Writer(self.module)
        kinds = ["i64"] * 5 + ["ptr", *operand_types]
        kind = _closure_type(kinds)
        loaded = [
            (k, w.fresh(f"load {k}, ptr {_closure_field(w, kind, '%closure', i)}", INT64).ref)
            for i, k in enumerate(kinds)
        ]
        start, extent, chunk, slices, area, workspace = (Value(ref, INT64) for _, ref in loaded[:6])
        thread_number = self.module.declare("omp_get_thread_num", C_INT, [])
        number = w.convert("zext", w.fresh(f"call {C_INT} {thread_number}()", dtype("int32")), INT64)
        mine = w.pointer(f"getelementptr i8, ptr {workspace.ref}, i64 {w.binary('mul', number, area).ref}")
        chunks = w.binary("udiv", plus(w, extent, w.binary("sub", chunk, 1)), chunk)
        visit, visited, again = "visit", w.name("visited"), w.name("visited.next")
        w.jump(visit)
        w.start(visit)
        w.define(visited, f"phi i64 [ 0, %entry ], [ {again}, %next ]")
        at = w.binary("urem", plus(w, number, Value(visited, INT64)), slices)
        first, last = (w.binary("udiv", w.binary("mul", chunks, n), slices) for n in (at, w.binary("add", at, 1)))
        counter = _counter(w, "%closure", at)
        w.jump("take")
        w.start("take")
        taken = plus(w, first, w.fresh(f"atomicrmw add ptr {counter}, i64 1 monotonic, align 8", INT64))
        w.branch(w.compare("slt", taken, last).ref, "work", "next")
        w.start("work")
        before = w.binary("mul", taken, chunk)
        begin = plus(w, start, before)
        count = w.intrinsic("smin", INT64, [w.binary("sub", extent, before), chunk])
        run = f"call {self.result} @{name}.range({_arguments(loaded[6:], begin, plus(w, begin, count), mine)})"
        if self.fails:
            status = w.fresh(run, INT64)
            w.branch(w.fresh(f"icmp eq {typed(status)}, 0", BOOL).ref, "take", "failed")
            w.start("failed")  # and let nobody begin another chunk
            w.do(f"store atomic {typed(status)}, ptr {_failure(w, '%closure')} monotonic, align 8")
            for n in range(MOST_SLICES):
                other = _counter(w, "%closure", constant(n, INT64))
                w.do(f"atomicrmw max ptr {other}, i64 {chunks.ref} monotonic, align 8")
            w.jump("done")
        else:
            w.do(run)
            w.jump("take")
        w.start("next")
        w.define(again, f"add i64 {visited}, 1")
        w.branch(w.compare("ult", Value(again, INT64), slices).ref, visit, "done")
        w.start("done")
        w.do("ret void")
        w.finish(f"define internal void @{name}.worker(ptr %closure) {_ATTRIBUTES}")

    def _emit_range(
        self, name: str, loop: S.For, outer: Statements, buffers: list[S.Buffer], variables: dict[Expr, Value]
    ) -> None:
        """NAME.LOOP.range(buffers, variables, begin, end, workspace): some of the iterations."""
        w = Writer(self.module)
        workspace = w.name("workspace")
        begin, end = Value(w.name("begin"), INT64), Value(w.name("end"), INT64)
        s = Statements(w, self.storage, self.scopes, outer.ranges, workspace, None)
        parameters = [self._buffer_parameter(s.memory, b) for b in buffers]
        for variable, value in variables.items():
            inner = value if value.const is not None else Value(w.name(variable.name), value.dtype)
            s.exprs.variables[variable] = inner
            if inner.const is None:
                parameters.append(typed(inner))
        parameters += [typed(begin), typed(end), f"ptr noalias align {ALIGNMENT} {workspace}"]
        s.loop(loop, begin, end, constant(0, INT64))
        s.memory.fence()
        w.do(self.done)
        w.finish(f"define internal {self.result} @{name}.range({', '.join(parameters)}) noinline {_ATTRIBUTES}")

    # -- entry points -------------------------------------------------------------------------
    def emit_entry(self) -> None:
        """NAME_packed: one call."""
        w = Writer(self.module)
        operands = [f"ptr {element(w, 'ptr', '%args', i)}" for i in range(len(self.function.params))]
        operands += [*map(typed, self._load_sizes(w)), "ptr %workspace", "i64 %threads"]
        call = f"@{self.name}.body({', '.join(operands)})"
        if self.fails:
            w.do(f"ret {typed(w.convert('trunc', w.fresh(f'call i64 {call}', INT64), dtype('int32')))}")
        else:
            w.do(f"call void {call}")
            w.do("ret i32 0")
        w.finish(
            f"define {C_INT} @{self.entry}(ptr %args, ptr %sizes, ptr %workspace, i64 %threads) noinline {_ATTRIBUTES}"
        )

    def _load_sizes(self, w: Writer) -> list[Value]:
        return [Value(element(w, "i64", "%sizes", i), INT64) for i in range(len(self.function.sizes))]

    def emit_workspace(self) -> None:
        """NAME_packed_workspace: what the caller must allocate."""
        w = Writer(self.module)
        e = Expressions(w, Memory(w, {}), Ranges())
        e.variables.update(zip(self.function.sizes, self._load_sizes(w), strict=True))
        need = workspace_need(self.function.body, self.storage, ByteValues(e, Value("%threads", INT64)))
        w.do(f"ret {typed(need)}")
        w.finish(f"define i64 @{self.entry}_workspace(ptr %sizes, i64 %threads) {_ATTRIBUTES}")


def element(w: Writer, kind: str, array: str, i: int) -> str:
    """Load `array[i]` from an array of pointers or 64-bit integers."""
    address = w.pointer(f"getelementptr {kind}, ptr {array}, i64 {i}")
    return w.fresh(f"load {kind}, ptr {address}", INT64).ref


def _arguments(operands: list[tuple[str, str]], begin: Value, end: Value, workspace: str) -> str:
    texts = [f"{kind} {ref}" for kind, ref in operands]
    return ", ".join([*texts, typed(begin), typed(end), f"ptr {workspace}"])


def _closure_type(kinds: list[str]) -> str:
    """{ counters, each in a cache line, what the workers read... }"""
    return f"{{ [{MOST_SLICES * ALIGNMENT} x i8], {', '.join(kinds)} }}"


def _counter(w: Writer, closure: str, number: Value) -> str:
    """The address of the counter of a slice."""
    return w.pointer(f"getelementptr [{ALIGNMENT} x i8], ptr {closure}, i64 {number.ref}")


def _failure(w: Writer, closure: str) -> str:
    """The address where a worker leaves the number of an exception: beside the first counter."""
    return w.pointer(f"getelementptr i8, ptr {closure}, i64 8")


def _closure_field(w: Writer, kind: str, closure: str, position: int) -> str:
    return w.pointer(f"getelementptr {kind}, ptr {closure}, i64 0, i32 {position + 1}")
