"""`Schedule.check`: what is legal and yet doubtful, a function for each rule.

One rule looks at definitions, not at loops: narrow integers that may overflow. Arithmetic wraps around in the type of
its operands, as NumPy's does, and a literal takes that type: a `uint8` plus a `uint8` is a `uint8`. That is the
commonest mistake in image code. Nothing is said where wrapping is meant: where the result is masked (`& 255`, `% 256`)
or converted to an integer type that is no wider, directly or by way of other sums and products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod

from autosched.errors import LowerError, expect, is_list_of
from autosched.ir.attached import attach
from autosched.ir.buffers import row_major
from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import Expr, binary, cast, const, is_const, var, variables
from autosched.ir.ops import CHOICES, ORDERS
from autosched.ir.ranges import EVERYTHING, Interval, bounds_of, of_type
from autosched.ir.simplify import to_poly
from autosched.ir.stmt import Allocate, Barrier, Buffer, For, Function, If, Produce, Stmt, Store, children, expressions
from autosched.ir.visit import post_order, rewrite
from autosched.lowering.pipeline import PASSES, lower_structure
from autosched.lowering.reads import doubtful_reads
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Split
from autosched.target import Target, TargetLike
from autosched.te.reduction import REDUCTIONS
from autosched.te.tensor import ComputeOp, Graph, Tensor


@dataclass(frozen=True)
class Lint:
    """One finding. `kind` is a stable name, such as `race` or `strided-vector`."""

    kind: str
    where: str
    why: str
    better: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why} [{self.kind}]\n  {self.better}"


_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
#: what hands a number on modulo a power of two
_RING = frozenset(("add", "sub", "mul", "neg", "bitnot", *CHOICES, "shl"))


class _Definition:
    """One operation, with bounds for what it reads; those of its outputs are added to `elements`."""

    def __init__(self, op: ComputeOp, elements: dict[Tensor, Interval]) -> None:
        self.op, self.elements = op, elements
        self.ranges = {a.var: _range(a.min, a.extent) for a in (*op.axis, *op.reduce_axis)}
        self.reads: dict[Expr, Expr] = {}  # what stands for an element -> its read

    def first(self) -> Lint | None:
        """The first operation whose result may not fit."""
        first: Lint | None = None
        for tensor, body in zip(self.op.outputs, self.op.body, strict=True):
            is_reduction = body.op in REDUCTIONS
            parts = body.value.parts(body.args)[0] if is_reduction else (body,)
            source = parts[body.value.value_index] if is_reduction else body
            e = rewrite(source, self._element)
            first = first or self._arithmetic(e)
            bound = bounds_of(e, self._variable)
            if is_reduction:
                bound, found = self._reduced(body, bound, source)
                first = first or found
            self.elements[tensor] = bound & of_type(tensor.dtype)
        return first

    def _element(self, e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        """A variable in place of a read, with the bounds of the tensor's elements."""
        if e.op != "read":
            return None
        element = var(e.value.name, e.dtype, "let")
        self.reads[element] = e
        self.ranges[element] = self.elements.get(e.value, of_type(e.dtype))
        return element

    def _variable(self, v: Expr) -> Interval:
        low, high, own = v.value.lower, v.value.upper, of_type(v.dtype)
        given = Interval(own.low if low is None else low, own.high if high is None else high)
        return self.ranges.get(v, given)

    def _arithmetic(self, e: Expr) -> Lint | None:
        nodes = post_order(e)
        modular = _modular(e, nodes)
        compared = {a.args for a in nodes if a.op in ORDERS}
        for node in nodes:
            if node.op not in _ARITHMETIC or not _is_narrow(node.dtype) or node.index or node in modular:
                continue
            a, b = node.args
            if node.op == "sub" and ((a, b) in compared or (b, a) in compared or _ordered(a, b)):
                continue  # the difference of the greater and the smaller one
            exact = bounds_of(binary(node.op, cast("int64", a), cast("int64", b)), self._variable)
            if not exact.within(of_type(node.dtype)):
                what = f"the {node.dtype} {self._text(node)}"
                mask = f"& {(1 << node.dtype.bits) - 1}"
                better = f"widen an operand first, with .astype({_wider(exact)!r}); where wrapping is meant, say {mask}"
                return Lint("overflow", self.op.name, _why(what, exact, node.dtype), better)
        return None

    def _reduced(self, body: Expr, source: Interval, expr: Expr) -> tuple[Interval, Lint | None]:
        """The bounds of a reduction of elements between those of `source`, and what is wrong with it."""
        name, of = body.value.name, body.dtype
        if name in ("min", "max"):
            return (source, None) if body.op == "reduce" else (of_type(of), None)
        if name not in ("sum", "prod") or not _is_narrow(of):
            return of_type(of), None
        spans = [_range(a.min, a.extent) for a in self.op.reduce_axis]
        terms = prod(s.high - s.low + 1 for s in spans) if all(s.high < inf for s in spans) else inf
        if name == "sum":
            ends = [0 if x == 0 else x * terms for x in (source.low, source.high)]
            exact = Interval(min(0, *ends), max(0, *ends))
        else:
            exact = source | Interval(-1, 1) if terms <= 1 or source.within(Interval(-1, 1)) else EVERYTHING
        if exact.within(of_type(of)):
            return exact, None
        what = f"the {of} {name} of {self._text(expr)}"
        better = f"accumulate in a wider type: te.{name}(..., dtype={_wider(exact)!r})"
        return of_type(of), Lint("overflow", self.op.name, _why(what, exact, of), better)

    def _text(self, e: Expr) -> str:
        """The expression as it was written, cut short."""
        text = repr(rewrite(e, lambda node, _: self.reads.get(node)))
        return text if len(text) <= 60 else f"{text[:57]}..."


def _is_narrow(of: DType) -> bool:
    return of.is_integer and of.bits <= 16


def _range(start: Expr, extent: Expr) -> Interval:
    if start.op != "const":
        return EVERYTHING
    last = start.value + max(extent.value, 1) - 1 if extent.op == "const" else inf
    return Interval(start.value, last)


def _modular(root: Expr, nodes: list[Expr]) -> set[Expr]:
    """The operations all of whose users take their results modulo a power of two no greater than their type's."""
    users: dict[Expr, list[Expr]] = {}
    for node in nodes:
        for a in node.args:
            users.setdefault(a, []).append(node)
    found: set[Expr] = set()
    for node in reversed(nodes):  # users first
        of = node.dtype
        if (
            node is not root
            and of.is_integer
            and all(_cuts(u, of) or u in found and u.op in _RING for u in users[node])
        ):
            found.add(node)
    return found


def _cuts(user: Expr, of: DType) -> bool:
    """Return whether an operation keeps only low bits of an operand of that type."""
    if user.op == "cast":
        return user.dtype.is_integer and user.dtype.bits <= of.bits
    if user.op == "bitand":
        return any(a.op == "const" for a in user.args)
    if user.op in ("floormod", "truncmod"):
        divisor = user.args[1]
        return divisor.op == "const" and divisor.value > 0 and divisor.value & (divisor.value - 1) == 0
    return False


def _ordered(a: Expr, b: Expr) -> bool:
    return a.op == "max" and b.op == "min" and set(a.args) == set(b.args)


def _why(what: str, exact: Interval, of: DType) -> str:
    own = of_type(of)
    reaches, ends = (exact.high, own.high) if exact.high > own.high else (exact.low, own.low)
    how = f"can reach {reaches}" if abs(reaches) != inf else "can grow without a bound"
    return f"{what} {how}, and {of} {'ends' if ends == own.high else 'begins'} at {ends}: it wraps around"


def _wider(exact: Interval) -> str:
    names = ("uint16", "int16", "uint32", "int32", "int64")
    return next((n for n in names if exact.within(of_type(dtype(n)))), "int32" if exact.high == inf else "int64")


#: copies of a body beyond which unrolling costs more in instructions than it saves
MAX_COPIES = 256
#: bytes of the smallest vector register
LEAST_BYTES = 16
#: bytes of one vector beyond which it does not stay in registers
MAX_VECTOR_BYTES = 512
#: the share of computed points that nobody asked for, above which a tail is worth a word
MAX_WASTE = 0.25
#: iterations from which on several threads are worth it, and of an inner loop from which on a condition costs
ENOUGH_FOR_THREADS, ENOUGH_TO_CUT = 1 << 18, 16
#: how many times a point may be computed
MAX_RECOMPUTE = 2.0


@dataclass(frozen=True)
class _At:
    """The place of a statement: loops around it, outermost first, its stage, conditions that divide a work-group."""

    loops: tuple[For, ...] = ()
    stage: str = ""
    divergent: tuple[Expr, ...] = ()


@dataclass
class LintedProgram:
    """A lowered function, with every statement in its place."""

    function: Function
    schedule: Schedule
    target: Target
    #: name of a pass -> the function as it leaves it
    after: Callable[[str], Function]
    places: list[tuple[Stmt, _At]] = field(default_factory=list)

    def __post_init__(self) -> None:
        stack: list[tuple[Stmt, _At]] = [(self.function.body, _At())]
        while stack:
            s, at = stack.pop()
            self.places.append((s, at))
            if isinstance(s, For):
                at = replace(at, loops=(*at.loops, s))
            elif isinstance(s, Produce):
                at = replace(at, stage=s.name)
            elif isinstance(s, If):
                items = {x.var for x in at.loops if x.thread.startswith("threadIdx")}
                if variables(s.condition) & items:
                    at = replace(at, divergent=(*at.divergent, s.condition))
            stack.extend((c, at) for c in reversed(children(s)))

    def final(self) -> LintedProgram | None:
        """The same after all passes; None where it is made for another kind of target."""
        try:
            return LintedProgram(self.after(PASSES[-1]), self.schedule, self.target, self.after)
        except LowerError:
            return None

    def stores(self) -> Iterator[tuple[Store, _At]]:
        return ((s, at) for s, at in self.places if isinstance(s, Store))

    def loops(self) -> Iterator[tuple[For, _At]]:
        return ((s, at) for s, at in self.places if isinstance(s, For))


def check(
    s: Schedule, target: TargetLike = "llvm", args: Sequence[Tensor] | None = None, knobs: dict[str, int] | None = None
) -> list[Lint]:
    """`Schedule.check`: what is doubtful about a schedule, though legal: races, strided vectors, wasted work.

    Raises ScheduleError, or LowerError, for what is not legal. Open knobs take their first values unless given.
    See `LINTS` for the rules.

    >>> from autosched import create_schedule, te
    >>> A = te.placeholder((64, 64), name="A")
    >>> B = te.compute((64, 64), lambda i, j: A[i, j] + 1, name="B")
    >>> s = create_schedule(B)
    >>> _, lane = s[B].split("i", factor=8)
    >>> s[B].reorder("j", lane)
    >>> s[B].vectorize(lane)
    >>> print(s.check()[0])
    B.i.inner: neighbouring lanes are 64 elements of B apart [strided-vector]
      vectorize a loop along the last dimension of B, or cache_read it in another layout
    """
    s.verify()
    args = args or s.arguments
    expect(args, "a list of tensors", is_list_of(args, (Tensor, Expr)), "check(args=..)")
    expect(knobs, "a dictionary", knobs is None or isinstance(knobs, dict), "check(knobs=..)")
    to = Target.parse(target)
    values = {k.name: k.values[0] for k in s.knobs.values()} | (knobs or {})
    structure = lower_structure(s, args, to, "schedule")

    def after(name: str) -> Function:
        return structure.after(name, values)

    program = LintedProgram(after("simplify"), s, to, after)
    return list(dict.fromkeys(found for rule in LINTS for found in rule(program)))


attach(Schedule, check=check)


def _length(loop: For) -> int | None:
    return int(loop.extent.value) if is_const(loop.extent) else None


def _accesses(s: Stmt) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    if isinstance(s, Store):
        yield s.buffer, s.indices
    for e in post_order(list(expressions(s))):
        if e.op == "load":
            yield e.value, e.args


def _stride(buffer: Buffer, indices: Sequence[Expr], v: Expr) -> Expr | None:
    """The distance in memory, in elements, from one iteration of `v` to the next; None if it varies."""
    total: Expr = const(0)
    for i, width in zip(indices, buffer.strides or row_major(buffer.shape), strict=True):
        affine = to_poly(i).affine_in(v)
        if affine is None:
            return None
        total = total + width * affine[0]
    return to_poly(total).expr()


# -- the rules ----------------------------------------------------------------------------------------


def strided_vectors(p: LintedProgram) -> Iterator[Lint]:
    """Lanes that lie far apart in memory take one load or store each."""
    for s, at in p.stores():
        lanes = next((x for x in reversed(at.loops) if x.kind == "vectorize"), None)
        if lanes is None:
            continue
        for buffer, indices in _accesses(s):
            step = _stride(buffer, indices, lanes.var)
            if step is None or (is_const(step) and abs(int(step.value)) <= 4):
                continue
            yield Lint(
                "strided-vector",
                f"{at.stage}.{lanes.var.name}",
                f"neighbouring lanes are {step!r} elements of {buffer.name} apart",
                f"vectorize a loop along the last dimension of {buffer.name}, or cache_read it in another layout",
            )


def wide_vectors(p: LintedProgram) -> Iterator[Lint]:
    """Vectors that do not fit into registers are spilled."""
    for s, at in p.stores():
        lanes = prod(_length(x) or 1 for x in at.loops if x.kind == "vectorize")
        size = lanes * s.value.dtype.bits // 8
        if size > MAX_VECTOR_BYTES:
            name = next(x.var.name for x in at.loops if x.kind == "vectorize")
            yield Lint("wide-vector", f"{at.stage}.{name}", f"{lanes} lanes are {size} bytes", "split by 8 to 64 first")


def short_vectors(p: LintedProgram) -> Iterator[Lint]:
    """Vectors along an axis that is shorter than a register, where a loop outside would fill it."""
    for s, at in p.stores():
        lanes = next((x for x in reversed(at.loops) if x.kind == "vectorize"), None)
        count = None if lanes is None else _length(lanes)
        outside = [x for x in at.loops if x is not lanes and x.kind in ("serial", "parallel") and _length(x) != 1]
        if lanes is None or count is None or count * s.value.dtype.bits >= 8 * LEAST_BYTES or not outside:
            continue
        if (stage := p.schedule.stage(at.stage)) and stage.axis and is_const(stage.axis[-1].extent, count):
            yield Lint(
                "short-vector",
                f"{at.stage}.{lanes.var.name}",
                f"{count} lanes are {count * s.value.dtype.bits // 8} bytes: the axis is shorter than a vector",
                "fuse the axis with the one outside it, then split by 8 to 64",
            )


def copies(p: LintedProgram) -> Iterator[Lint]:
    """Unrolling that makes more code than the instruction cache holds."""
    for _, at in p.stores():
        count = prod(_length(x) or 1 for x in at.loops if x.kind == "unroll")
        if count > MAX_COPIES:
            names = ", ".join(x.var.name for x in at.loops if x.kind == "unroll")
            yield Lint("unroll", f"{at.stage}: {names}", f"the body is written out {count} times", "unroll less of it")


def parallel_inside(p: LintedProgram) -> Iterator[Lint]:
    """Threads that meet again and again, or more often than there is work for them."""
    for s, at in p.loops():
        if s.kind != "parallel":
            continue
        where = f"{at.stage}.{s.var.name}"
        outer = [x for x in at.loops if x.kind in ("serial", "parallel") and _length(x) != 1]
        if outer and outer[-1].kind == "parallel":
            yield Lint(
                "parallel", where, f"it runs inside parallel {outer[-1].var.name}", "one parallel loop; fuse them"
            )
        elif outer:
            why = f"threads start and meet once for every iteration of {outer[-1].var.name}"
            yield Lint("parallel", where, why, "make an outer loop parallel, or reorder this one outwards")
        length = _length(s)
        if length is not None and length < p.target.num_threads:
            why = f"{length} iterations for {p.target.num_threads} threads"
            yield Lint("parallel", where, why, "split into more, or fuse it with the loop inside")


def races(p: LintedProgram) -> Iterator[Lint]:
    """Iterations of a parallel loop, or work-items, that write to the same element."""
    inside: dict[Buffer, tuple[For, ...]] = {}
    for s, at in p.places:
        if isinstance(s, Allocate):
            inside[s.buffer] = at.loops
    for s, at in p.stores():
        shared = [x for x in at.loops if x.kind in ("parallel", "thread") and x not in inside.get(s.buffer, ())]
        used = frozenset().union(*(variables(i) for i in s.indices)) if s.indices else frozenset()
        for loop in shared:
            private = s.buffer.scope == "local" or (s.buffer.scope == "shared" and loop.thread.startswith("block"))
            if loop.var in used or private or _length(loop) == 1 or _decided(loop, at):
                continue
            reads_back = any(b is s.buffer for b, _ in list(_accesses(s))[1:])
            if reads_back or loop.var in variables(s.value):
                yield Lint(
                    "race",
                    f"{at.stage or s.buffer.name}.{loop.var.name}",
                    f"every iteration writes {s.buffer.name}[{', '.join(map(repr, s.indices))}]",
                    "give each iteration an element of its own (rfactor), and combine them afterwards",
                )


def _decided(loop: For, at: _At) -> bool:
    """Return whether a condition around the place leaves one iteration of a loop."""
    return any(c.op == "eq" and loop.var in variables(c) for c in at.divergent)


def divergent_barriers(p: LintedProgram) -> Iterator[Lint]:
    """Barriers that some work-items of a group do not reach."""
    for s, at in p.places:
        if isinstance(s, Barrier) and at.divergent:
            why = f"work-items where {at.divergent[-1]!r} is false do not get here"
            yield Lint("barrier", at.stage or "barrier", why, "move the barrier out of the condition")


def limits(p: LintedProgram) -> Iterator[Lint]:
    """More shared memory or work-items than the device has."""
    if not p.target.is_gpu_style:
        return
    room = p.target.limits.get("shared_memory_bytes")
    total = 0
    for b in {s.buffer for s, _ in p.places if isinstance(s, Allocate) and s.buffer.scope == "shared"}:
        total += (to_poly(b.elements).constant or 0) * max(b.dtype.bits // 8, 1)
    if room is not None and total > room:
        yield Lint("shared-memory", "kernel", f"{total} bytes, and the device has {room}", "smaller tiles")
    most = p.target.limits.get("max_threads_per_block")
    items: dict[str, int] = {}
    for x, at in p.loops():
        if x.thread.startswith("threadIdx"):
            items[at.stage] = items.get(at.stage, 1) * (_length(x) or 1)
    for name, count in items.items():
        if most is not None and count > most:
            yield Lint("threads", name, f"{count} work-items in a group, at most {most}", "smaller factors")


def wasted_tails(p: LintedProgram) -> Iterator[Lint]:
    """Splits whose last block is mostly empty."""
    for stage in p.schedule.stages:
        for r in stage.relations:
            if not isinstance(r, Split) or r.factor is None or r.parent.root is None:
                continue
            extent, factor = r.parent.root.extent, r.factor
            if not is_const(extent) or not is_const(factor) or not extent.value:
                continue
            whole = -(-extent.value // factor.value) * factor.value
            if 1 - extent.value / whole > MAX_WASTE and stage.attach.kind == "root":
                why = f"blocks of {factor.value} cover {whole} iterations, and there are {extent.value}"
                yield Lint("tail", r.parent.full_name, why, "a factor that divides, or a smaller one")


def recomputed(p: LintedProgram) -> Iterator[Lint]:
    """Stages computed at a loop where neighbouring iterations need the same elements."""
    runs: dict[str, int] = {}
    for _, at in p.stores():
        lengths = [_length(x) for x in at.loops]
        if None not in lengths:
            runs[at.stage] = max(runs.get(at.stage, 0), prod(x for x in lengths if x is not None))
    for stage in p.schedule.stages:
        if stage.attach.kind != "at" or stage.name not in runs:
            continue
        needed = prod(int(a.extent.value) if is_const(a.extent) else 0 for a in (*stage.axis, *stage.reduce_axis))
        if needed and runs[stage.name] > MAX_RECOMPUTE * needed:
            why = f"its elements are computed {runs[stage.name] / needed:.3g} times each"
            better = "compute_at a loop further outside, or store_at one"
            yield Lint("recompute", stage.name, why, better)


def serial_programs(p: LintedProgram) -> Iterator[Lint]:
    """Much work on a CPU of several threads, and no loop that they share."""
    if p.target.is_gpu_style or p.target.num_threads < 2 or any(x.kind == "parallel" for x, _ in p.loops()):
        return
    runs = [(prod(_length(x) or 1 for x in at.loops), at) for _, at in p.stores()]
    most, at = max(runs, key=lambda run: run[0], default=(0, _At()))
    stage = p.schedule.stage(at.stage) if at.stage else None
    if most < ENOUGH_FOR_THREADS or stage is None:
        return
    outer = next((x for x in stage.loops if not x.is_reduce and x.kind == "serial"), None)
    if outer is not None:
        why = f"{most:,} iterations on one of {p.target.num_threads} threads"
        yield Lint("serial", stage.name, why, f's["{stage.name}"].parallel("{outer.name}")')


def guarded_loops(p: LintedProgram) -> Iterator[Lint]:
    """Conditions that are still asked in the middle of an inner loop, where no border could be cut off."""
    final = p.final()
    for s, at in final.places if final is not None else ():
        if not isinstance(s, If) or not at.loops or any(x.ragged or x.masked for x in at.loops):
            continue
        inner = at.loops[-1]
        length = _length(inner)
        if (
            inner.var in variables(s.condition)
            and inner.kind == "serial"
            and (length is None or length >= ENOUGH_TO_CUT)
        ):
            condition = repr(s.condition).removeprefix("likely(").removesuffix(")")
            why = f"each iteration asks whether {condition if len(condition) <= 60 else f'{condition[:57]}...'}"
            better = "factors that divide, or leave the parts of a split apart: borders are cut off unfused loops"
            yield Lint("guard", f"{at.stage}.{inner.var.name}", why, better)


def narrow_arithmetic(p: LintedProgram) -> Iterator[Lint]:
    """Sums, differences and products of 8- and 16-bit integers that wrap around: the first of each tensor."""
    elements: dict[Tensor, Interval] = {}
    for op in Graph.of(p.schedule.outputs).ops:
        found = _Definition(op, elements).first() if isinstance(op, ComputeOp) else None
        if found is not None:
            yield found


def doubtful(p: LintedProgram) -> Iterator[Lint]:
    """Reads that may be outside of their tensors: it depends on data, or on sizes."""
    for x in doubtful_reads(p.schedule):
        better = "te.if_then_else around the read, or te.min and te.max; build(.., bounds_check=True) looks at run time"
        yield Lint("bounds", f"{x.stage}, which reads {x.read}", str(x), better)


#: Every rule, in the order of reports.
LINTS: tuple[Callable[[LintedProgram], Iterator[Lint]], ...] = (
    races, divergent_barriers, narrow_arithmetic, limits, strided_vectors, wide_vectors, short_vectors, copies,
    parallel_inside, serial_programs, wasted_tails, recomputed, guarded_loops, doubtful,
)  # fmt: skip
