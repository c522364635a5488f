"""Statements of a kernel's body as lines of C."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace

from autosched.codegen.c_scalar import Expressions
from autosched.codegen.c_text import ATOM, CONDITIONAL, INDEX, Code, Names, promoted
from autosched.codegen.c_vector import VectorExpressions
from autosched.codegen.c_vector_memory import array_alignment
from autosched.codegen.dialects import NotVector
from autosched.codegen.lanes import as_ramp, lane_of, piece_of
from autosched.codegen.together import Interleaved, interleaved
from autosched.codegen.widths import lane_bytes, widest
from autosched.errors import BuildError
from autosched.ir import stmt as S
from autosched.ir.calls import touches_memory
from autosched.ir.dtype import INT64
from autosched.ir.expr import Expr, binary, broadcast, cast, const, is_const, is_index, ramp, var
from autosched.ir.ranges import of_type
from autosched.ir.visit import needed_by_both, post_order

_INDENT = "  "


class Statements:
    """Emitter of statements: appends C to `lines` and knows the names in scope."""

    def __init__(self, expressions: Expressions, names: Names) -> None:
        self.x = expressions
        self.v = VectorExpressions(expressions)
        self.names = names
        self.lines: list[str] = []
        self.depth = 0
        self._plan: frozenset[Expr] = frozenset()
        self.of_each_item: frozenset[S.For] = frozenset()  #: what `pocl.part_regions` finds

    # -- lines and blocks ---------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append(_INDENT * self.depth + text)

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        """`head {` ... `}`; names and temporaries of the block end with it."""
        self.line(f"{head} {{".lstrip())
        self.depth += 1
        outer, self.x.temporaries = self.x.temporaries, dict(self.x.temporaries)
        try:
            with self.names.scope():
                yield
        finally:
            self.x.temporaries = outer
            self.depth -= 1
        self.line("}")

    def array(self, buffer: S.Buffer, name: str, elements: int, vectors: bool = True) -> str:
        """The declaration of on-chip memory; halves without native support are 16 bits.

        It is aligned, unless no `vectors` are read or written there.
        """
        d, aligned = self.x.dialect, ""
        if vectors and d.vectors:
            aligned = f" __attribute__((aligned({array_alignment(buffer, d.vectors)})))"
        of = d.types["uint16"] if self.x.half(buffer.dtype) else d.storage_name(buffer.dtype)
        return f"{of} {name}[{max(elements, 1)}]{aligned}"

    # -- statements ---------------------------------------------------------------------------
    def emit(self, s: S.Stmt) -> None:
        match s:
            case S.Seq(stmts=stmts):
                self._sequence(stmts)
            case S.Store():
                self._store(s)
            case S.For():
                self._loop(s)
            case S.If():
                self._if(s)
            case S.Let():
                self._let(s)
            case S.Allocate():
                self.allocate(s)
            case S.Produce(name=name, body=body):
                self.line(f"// {name}")
                self.emit(body)
            case S.Evaluate():
                with self._expressions(s.value):
                    self.line(f"{self.x.value(s.value).text};")
            case S.While():
                self._while(s)
            case S.Prefetch():
                pass  # a hint, and devices hide latency by other work-items
            case S.Barrier(scope=scope):
                self.line(f"{self.x.dialect.of_kernels.barriers[scope]};")
            case S.Launch(name=name):
                raise BuildError("a kernel cannot launch a kernel", asked=f"launch {name!r}")

    def _sequence(self, stmts: Sequence[S.Stmt]) -> None:
        position = 0
        while position < len(stmts):
            group = interleaved(stmts, position)
            if group is not None and self._store_in_turns(group):
                position += len(group.values)
            else:
                self.emit(stmts[position])
                position += 1

    def _loop(self, s: S.For) -> None:
        if s.kind not in ("serial", "parallel"):
            raise BuildError(f"a {s.kind} loop is left in a lowered program", asked=f"loop {s.var!r}")
        end = _end(s.start, s.extent)
        with self._expressions(s.start, end):
            start, stop = self.x.index(s.start), self.x.index(end)
            if touches_memory(end):  # the body may change what the bound was read from
                name = self.names.declare(f"{s.var.name}_end")
                self.line(f"const {INDEX} {name} = {stop.text};")
                stop = Code(name, ATOM, INDEX)
        with self.names.scope():
            name = self.names.declare(s.var.name)
            self.x.variables[s.var] = name, INDEX
            self.x.ranges.bind_loop(s.var, s.start, s.extent)
            goes_on = f"{name} < {stop.at(CONDITIONAL + 1)}"
            goes_on = f"each_item({goes_on})" if s in self.of_each_item else goes_on
            head = f"for ({INDEX} {name} = {start.text}; {goes_on}; ++{name})"
            self._hints(s)
            with self.loop_block(s, head):
                self.emit(s.body)

    def _hints(self, s: S.For) -> None:
        """A loop that partitioning cut off runs a few times, and vectors of it or copies of what is around take most of
        the time that compiling takes."""
        d = self.x.dialect
        if d.no_vectors and s.ragged:
            self.line(d.no_vectors)
        if d.no_copies and any(isinstance(inner, S.For) and inner.ragged for inner in S.walk(s)):
            self.line(d.no_copies)

    def _while(self, s: S.While) -> None:
        """Test the condition inside the loop: it may need temporaries."""
        with self.block("while (true)"):
            with self._expressions(s.condition):
                self.line(f"if (!({self.x.value(s.condition).text})) break;")
            self.emit(s.body)

    def loop_block(self, s: S.For, head: str) -> AbstractContextManager[None]:
        """The block of a loop, of which `head` is the first line."""
        return self.block(head)

    def _if(self, s: S.If) -> None:
        if s.condition.dtype.lanes != 1:
            raise BuildError("a vector cannot decide a branch", asked=f"if ({s.condition!r})")
        with self._expressions(s.condition):
            condition = self.x.value(s.condition).text
        with self.block(f"if ({condition})"), self.v.given(s.condition):
            self.emit(s.then)
        if s.otherwise is not None:
            self.lines.pop()
            with self.block("} else"):
                self.emit(s.otherwise)

    def _let(self, s: S.Let) -> None:
        """Declare a scalar as a constant; substitute a vector index; keep other vectors in an array."""
        lanes = s.value.dtype.lanes
        if lanes > 1:
            if is_index(s.value):
                self.emit(S.substitute_stmt(s.body, {s.var: s.value}))
                return
            kept = S.Buffer(s.var.name, (const(lanes),), s.var.dtype.scalar, "local")
            all_lanes = ramp(0, 1, lanes)
            body = S.substitute_stmt(s.body, {s.var: S.load(kept, all_lanes)})
            self.emit(S.Allocate(kept, S.seq(S.Store(kept, (all_lanes,), s.value), body)))
            return
        with self._expressions(s.value):
            if is_index(s.value) and not s.value.dtype.is_bool:
                ctype, code = INDEX, self.x.index(s.value)
                self.x.ranges.bind_let(s.var, s.value)
            else:
                ctype, code = self.x.type_name(s.value.dtype), self.x.value(s.value)
        name = self.names.declare(s.var.name)
        self.line(f"const {ctype} {name} = {code.text};")
        self.x.variables[s.var] = name, ctype
        self.emit(s.body)

    def allocate(self, s: S.Allocate) -> None:
        buffer = s.buffer
        if buffer.scope == "global":
            raise BuildError("device memory cannot be allocated inside a kernel", asked=f"buffer {buffer.name!r}")
        if buffer.scope != "shared":  # shared memory is declared at the top of the kernel
            elements = 1
            for extent in buffer.shape:
                if extent.op != "const":
                    raise BuildError(
                        f"its size {extent!r} is not a constant",
                        asked=f"buffer {buffer.name!r} in the registers of a work-item",
                        legal="split by a constant before computing it here, or use the scope 'shared' or 'global'",
                    )
                elements *= int(extent.value)
            self.declare_array(buffer, elements, has_vectors(s.body, buffer))
        self.emit(s.body)

    def declare_array(self, buffer: S.Buffer, elements: int, vectors: bool = False) -> None:
        name = self.x.buffers[buffer] = self.names.declare(buffer.name)
        self.line(f"{self.array(buffer, name, elements, vectors)};")

    # -- stores -------------------------------------------------------------------------------
    def _store(self, s: S.Store) -> None:
        lanes = max(s.indices[0].dtype.lanes, s.value.dtype.lanes)
        if lanes == 1:
            with self._expressions(s.indices[0], s.value):
                self._store_scalar(s)
        elif not self._store_pieces(s, lanes) and not self._store_vector(s):
            self._store_lanes(s, lanes)

    def _store_scalar(self, s: S.Store) -> None:
        half = self.x.half(s.buffer.dtype)
        if half is not None:
            pointer = self.x.pointer(s.buffer, s.indices[0])
            value = self.x.value(self.x.unrounded(s.value)).text
            self.line(f"{half.store.format(x=value, pointer=pointer)};")
        else:
            self.line(f"{self.x.element(s.buffer, s.indices[0])} = {self.x.value(s.value).text};")

    def _store_pieces(self, s: S.Store, lanes: int) -> bool:
        """Emit a vector that the language does not have as several that it has; False if it has it, or none of them."""
        vectors = self.x.dialect.vectors
        if vectors is None:
            return False
        places = [] if as_ramp(s.indices[0]) is not None else [s.indices[0]]
        bytes = max(lane_bytes(s.buffer.dtype), widest([s.value, *places]))
        if vectors.fits(lanes, bytes) or not self._lanes_are_independent(s):
            return False
        most = max((n for n in vectors.lanes if vectors.fits(n, bytes)), default=1)
        count = lanes // most if lanes // most > MOST_PIECES else 0
        undo = self._undo()
        if count:
            first = var("first", role="loop", lower=0, upper=count - 1)
            head = _piece(s, first * most, most)
            self.emit(S.For(first, const(0), const(count), "serial", head))
        at = count * most
        while at < lanes:
            n = next(n for n in (*reversed(vectors.lanes), 1) if n <= min(most, lanes - at) and n & (n - 1) == 0)
            if n > 1 and not self._store_vector(_piece(s, const(at), n)):
                undo()
                return False
            if n == 1:
                self._store(_piece(s, const(at), 1))
            at += n
        return True

    def _undo(self) -> Callable[[], None]:
        """A function that takes back what is emitted from now on."""
        lines, names, helpers = len(self.lines), self.names.state(), self.x.helpers.state()

        def undo() -> None:
            del self.lines[lines:]
            self.names.restore(names)
            self.x.helpers.restore(helpers)

        return undo

    def _store_vector(self, s: S.Store) -> bool:
        """Emit whole vectors; False if the language lacks them for part of the statement."""
        if self.x.dialect.vectors is None:
            return False
        undo = self._undo()
        try:
            own = S.load(s.buffer, s.indices[0])  # is there, as it is stored
            with self._expressions(s.indices[0], s.value), self.v.evaluating_too(own):
                if self.v.lies_apart(s):
                    self._store_apart(s)
                else:
                    self.line(f"{self.v.store(s)};")
            return True
        except NotVector:
            undo()
            return False

    def _store_apart(self, s: S.Store) -> None:
        """Compute a vector, and store its lanes one by one. Raises NotVector."""
        places, lanes = s.indices[0], s.value.dtype.lanes
        if _reads(places, s.buffer):
            raise NotVector
        code = self._kept(self.v.value(s.value, lanes))
        for k in range(lanes):
            element = self.x.element(s.buffer, lane_of(places, const(k)))
            self.line(f"{element} = {self.v.element(code, k)};")

    def _store_in_turns(self, to: Interleaved) -> bool:
        """Emit vectors whose lanes together fill a stretch of memory; False where that is not done in whole vectors."""
        vectors, undo = self.x.dialect.vectors, self._undo()
        if vectors is None or to.buffer.dtype.is_bool or self.x.half(to.buffer.dtype):
            return False
        if any(_reads(e, to.buffer) for e in to.values):
            return False  # what one vector wrote
        bytes = max(to.buffer.dtype.bytes, widest(to.values))
        widths = [n for n in vectors.lanes if to.lanes % n == 0 and vectors.fits(n, bytes)]
        try:
            for first in range(0, to.lanes, widths[-1]) if widths else ():
                base = binary("add", to.base, const(first * len(to.values)))
                values = [piece_of(e, const(first), widths[-1]) for e in to.values]
                with self._expressions(base, *values):
                    each = [self._kept(self.v.value(e, widths[-1])) for e in values]
                    for line in self.v.store_in_turns(to.buffer, base, each):
                        self.line(f"{line};")
            return bool(widths)
        except NotVector:
            undo()
            return False

    def _kept(self, code: Code) -> Code:
        """A vector under a name of its own."""
        name = self.names.declare("t")
        self.line(f"const {self.v.type_name(code.ctype)} {name} = {code.text};")
        return replace(code, text=name, prec=ATOM)

    def _store_lanes(self, s: S.Store, lanes: int) -> None:
        """Store lane by lane, through an array if a later lane may read an element that an earlier one wrote."""
        lane = var("lane", role="loop", lower=0, upper=lanes - 1)
        target = lane_of(s.indices[0], lane)
        value = lane_of(s.value, lane)
        zero, count = const(0), const(lanes)
        if self._lanes_are_independent(s):
            self.x.lane = None if self.x.dialect.vectors else lane
            self.emit(S.For(lane, zero, count, "serial", S.Store(s.buffer, (target,), value)))
            self.x.lane = None
            return
        kept, all_lanes = S.Buffer("lanes", (count,), s.buffer.dtype, "local"), ramp(0, 1, lanes)
        steps: list[S.Stmt] = [S.Store(kept, (all_lanes,), broadcast(s.value, lanes))]
        buffers, places = [kept], s.indices[0]
        if _reads(places, s.buffer):
            where = S.Buffer("offsets", (count,), INT64, "local")
            steps.append(S.For(lane, zero, count, "serial", S.Store(where, (lane,), cast(INT64, target))))
            buffers.append(where)
            places = S.load(where, all_lanes)
        steps.append(S.Store(s.buffer, (broadcast(places, lanes),), S.load(kept, all_lanes)))
        body: S.Stmt = S.seq(*steps)
        for buffer in buffers:
            body = S.Allocate(buffer, body)
        with self.block():
            self.emit(body)

    def _lanes_are_independent(self, s: S.Store) -> bool:
        """True if each lane reads at most the element that it writes, and no two lanes write the same."""
        if _reads(s.indices[0], s.buffer):
            return False
        if not _reads(s.value, s.buffer):
            return True
        found = as_ramp(s.indices[0])
        distinct = found is not None and found[1].op == "const" and not is_const(found[1], 0)
        own = all(n.args[0] is s.indices[0] for n in post_order(s.value) if n.op == "load" and n.value is s.buffer)
        return distinct and own and s.indices[0].dtype.lanes > 1

    # -- temporaries --------------------------------------------------------------------------
    @contextmanager
    def _expressions(self, *roots: Expr) -> Iterator[None]:
        """Emit `roots` inside: the parts that they share are computed first, under names."""
        outer, self._plan = self._plan, planned(roots)
        temporaries, self.x.temporaries = self.x.temporaries, {}
        try:
            with self.v.evaluating(lambda: frozenset(_certain(roots, self.v.may_come_early))):
                self._load_pixels(roots)
                if self._plan:
                    self._settle(roots)
                yield
        finally:
            self._plan, self.x.temporaries = outer, temporaries

    def _load_pixels(self, roots: Sequence[Expr]) -> None:
        """Name the channels of pixels of which all are read, loaded together."""
        for c in self.v.pixels(roots):
            with suppress(NotVector):
                firsts = [binary("add", c.base, const(k * c.lanes)) for k in range(c.channels)]
                pieces = [S.load(c.buffer, ramp(at, 1, c.lanes)) for at in firsts]
                whole = [self._kept(self.v.value(e, c.lanes)) for e in pieces]
                for number, load in enumerate(c.loads):
                    self.x.temporaries[load] = self._kept(self.v.channel(c, number, whole))

    def _settle(self, roots: Iterable[Expr]) -> None:
        """Name the planned parts that these expressions evaluate for certain."""
        for node in _certain(roots, self.v.may_come_early):
            if node in self.x.temporaries:
                continue
            with suppress(NotVector):  # no name then, which whoever writes it finds out
                if any(self._is_pending(a) for a in guarded_arguments(node)):
                    self._branch(node)
                elif node in self._plan:
                    self._name(node)

    def _is_pending(self, e: Expr) -> bool:
        """True if evaluating `e` needs statements."""
        return any(n in self._plan and n not in self.x.temporaries for n in post_order(e))

    def _name(self, e: Expr) -> None:
        code, declared = self._code(e)
        name = self.names.declare("t")
        self.line(f"const {declared} {name} = {code.text};")
        self.x.temporaries[e] = Code(name, ATOM, code.ctype, code.range, code.mask)

    def _code(self, e: Expr) -> tuple[Code, str]:
        """The text of `e` and the C type of a variable that holds it."""
        if e.dtype.lanes > 1:
            code = self.v.value(e, e.dtype.lanes)
            return code, self.v.type_name(code.ctype)
        if is_index(e) and not e.dtype.is_bool:
            return self.x.index(e), INDEX
        code = self.x.value(e)
        if not e.dtype.is_float and not e.dtype.is_bool:
            code = self.x.exact(code, e.dtype)
            code = Code(code.text, code.prec, promoted(e.dtype), code.range)
        return code, self.x.type_name(e.dtype)

    def _branch(self, e: Expr) -> None:
        """A choice whose sides need statements: `T t; if (c) { ... t = a; } else { ... t = b; }`."""
        condition = e.args[0]
        if condition.dtype.lanes > 1:
            raise NotVector
        of, register = e.dtype, self.x.register(e.dtype)
        if of.lanes > 1 and of.is_bool:
            raise NotVector
        name = self.names.declare("t")
        self.line(f"{self.x.dialect.type_name(register)} {name};")
        test = self.x.value(condition).text
        if e.op == "if_then_else":
            sides: tuple[Expr, ...] = e.args[1:]
        else:
            sides = (e.args[1], const(e.op == "or"))
            test = test if e.op == "and" else f"!({test})"
        for head, side in zip((f"if ({test})", "} else"), sides, strict=True):
            if head == "} else":
                self.lines.pop()
            with self.block(head):
                self._settle((side,))
                code = self.v.value(side, of.lanes) if of.lanes > 1 else self.x.value(side)
                self.line(f"{name} = {code.text};")
        ctype = str(register) if of.lanes > 1 else promoted(register)
        self.x.temporaries[e] = Code(name, ATOM, ctype) if of.is_float else Code(name, ATOM, ctype, of_type(of))


def _piece(s: S.Store, first: Expr, lanes: int) -> S.Store:
    """The store of so many lanes from lane `first` on."""
    places = piece_of(s.indices[0], first, lanes)
    return S.Store(s.buffer, (places,), piece_of(s.value, first, lanes))


def _end(start: Expr, extent: Expr) -> Expr:
    """`start + extent`, which partitioning often makes `start + (end - start)`."""
    if extent.op == "sub" and extent.args[1] is start and is_index(extent):
        return extent.args[0]
    return binary("add", start, extent)


def has_vectors(s: S.Stmt, buffer: S.Buffer) -> bool:
    """True if vectors of the buffer are read or written."""
    if any(x.buffer is buffer and x.indices[0].dtype.lanes > 1 for x in S.walk(s) if isinstance(x, S.Store)):
        return True
    nodes = post_order(S.all_expressions(s))
    return any(e.op == "load" and e.value is buffer and e.args[0].dtype.lanes > 1 for e in nodes)


def _reads(e: Expr, buffer: S.Buffer) -> bool:
    return any(n.op == "load" and n.value is buffer for n in post_order(e))


def _certain(roots: Iterable[Expr], may_come_early: Callable[[Expr], bool]) -> list[Expr]:
    """The expressions that evaluating `roots` computes in any case, arguments first.

    Guarded parts that read no memory count: computing them early is harmless, as it is of what `may_come_early`. So do
    those that both sides of a choice need: named inside, each would be written twice, and what it is made of four
    times.
    """
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack: list[tuple[Expr, bool, bool]] = [(r, True, False) for r in roots]
    while stack:
        node, certain, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen and (certain or not touches_memory(node) or may_come_early(node)):
            seen.add(node)
            stack.append((node, certain, True))
            guarded = set(guarded_arguments(node))
            stack.extend((a, certain and a not in guarded, False) for a in node.args)
            if certain and node.op == "if_then_else" and touches_memory(node):
                stack.extend((a, True, False) for a in needed_by_both(node) if touches_memory(a))
    return order


#: Pieces of a vector that are written out; of more there is a loop.
MOST_PIECES = 8
#: Size of a part, in operators and operands, from which it is computed only once.
SHARED_SIZE = 16
#: Nesting of one text; compilers allow 256 open brackets, Python about 1000 calls.
MAX_DEPTH = 40


def planned(roots: Collection[Expr]) -> frozenset[Expr]:
    """The parts of `roots` to name, roots excluded."""
    order = post_order(tuple(roots))
    whole = set(roots)
    places = {e.args[0] for e in order if e.op == "load" and e.dtype.lanes > 1 and not is_index(e.args[0])}
    uses = Counter(a for node in order for a in node.args)
    size: dict[Expr, int] = {}
    depth: dict[Expr, int] = {}
    named: set[Expr] = set()
    for node in order:
        size[node] = 1 + sum(size[a] for a in node.args)
        depth[node] = 1 + max((depth[a] for a in node.args), default=0)
        once = node.op == "call" and not node.value.pure
        shared = uses[node] > 1 and (size[node] >= SHARED_SIZE or once)
        if node.args and node not in whole and (shared or depth[node] >= MAX_DEPTH or node in places):
            named.add(node)
            size[node] = depth[node] = 1
    return frozenset(named)


def guarded_arguments(e: Expr) -> tuple[Expr, ...]:
    """The arguments that C evaluates only sometimes and the language forbids to evaluate otherwise."""
    if e.op == "if_then_else":
        return e.args[1:]
    return e.args[1:] if e.op in ("and", "or") else ()
