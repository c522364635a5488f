"""Sums, differences and products of 8- and 16-bit integers that may leave their type: a lint.

Arithmetic wraps around in the type of its operands, as NumPy's does, and a literal takes that type: a
`uint8` plus a `uint8` is a `uint8`. That is the commonest mistake in image code. What is looked at are the
definitions, not the loops: the bounds of elements follow from what computes them (`ir.ranges`).

Nothing is said where wrapping is meant: where the result is masked (`& 255`, `% 256`) or converted to an
integer type that is no wider, directly or by way of other sums and products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, prod

from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import Expr, binary, cast, const, is_const, row_major, var, variables
from autosched.ir.ranges import EVERYTHING, Interval, bounds_of, of_type
from autosched.ir.simplify import to_poly
from autosched.ir.stmt import Allocate, Barrier, Buffer, For, Function, If, Produce, Stmt, Store, children, expressions
from autosched.ir.visit import post_order, rewrite
from autosched.lower.pipeline import lower_structure
from autosched.lower.reads import doubtful_reads
from autosched.schedule.lints import Lint
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Split
from autosched.target import Target
from autosched.te.reduction import REDUCTIONS
from autosched.te.tensor import ComputeOp, Graph, Tensor

#: (name of the tensor, why, better)
Overflow = tuple[str, str, str]

_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
#: what hands a number on modulo a power of two
_RING = frozenset(("add", "sub", "mul", "neg", "bitnot", "select", "if_then_else", "shl"))


def overflows(outputs: tuple[Tensor, ...]) -> Iterator[Overflow]:
    """The first operation of each tensor that the outputs depend on whose result may not fit."""
    elements: dict[Tensor, Interval] = {}
    for op in Graph.of(outputs).ops:
        if isinstance(op, ComputeOp):
            yield from _Definition(op, elements).found()


class _Definition:
    """One operation, with bounds for what it reads; those of its outputs are added to `elements`."""

    def __init__(self, op: ComputeOp, elements: dict[Tensor, Interval]) -> None:
        self.op, self.elements = op, elements
        self.ranges = {a.var: _range(a.min, a.extent) for a in (*op.axis, *op.reduce_axis)}
        self.reads: dict[Expr, Expr] = {}  # what stands for an element -> its read

    def found(self) -> Iterator[Overflow]:
        first: Overflow | None = None
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
        if first is not None:
            yield first

    def _element(self, e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        """A variable in place of a read, with the bounds of the tensor's elements."""
        if e.op != "read":
            return None
        element = var(e.value.name, e.dtype, "let")
        self.reads[element] = e
        self.ranges[element] = self.elements.get(e.value, of_type(e.dtype))
        return element

    def _variable(self, v: Expr) -> Interval:
        found = self.ranges.get(v)
        if found is not None:
            return found
        low, high = v.value.lower, v.value.upper
        own = of_type(v.dtype)
        return Interval(own.low if low is None else low, own.high if high is None else high)

    def _arithmetic(self, e: Expr) -> Overflow | None:
        nodes = post_order(e)
        modular = _modular(e, nodes)
        compared = {a.args for a in nodes if a.op in ("lt", "le", "gt", "ge")}
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
                return self.op.name, _why(what, exact, node.dtype), better
        return None

    def _reduced(self, body: Expr, source: Interval, expr: Expr) -> tuple[Interval, Overflow | None]:
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
        return of_type(of), (self.op.name, _why(what, exact, of), better)

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
    """Whether an operation keeps only low bits of an operand of that type."""
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
#: bytes of one vector beyond which it does not stay in registers
MAX_VECTOR_BYTES = 512
#: the share of computed points that nobody asked for, above which a tail is worth a word
MAX_WASTE = 0.25
#: how many times a point may be computed
MAX_RECOMPUTE = 2.0


@dataclass(frozen=True)
class _At:
    """Where a statement stands: the loops around it, outermost first, and the stage that it computes."""

    loops: tuple[For, ...] = ()
    stage: str = ""
    divergent: tuple[Expr, ...] = ()


@dataclass
class LintedProgram:
    """A lowered function, with every statement in its place."""

    function: Function
    schedule: Schedule
    target: Target
    places: list[tuple[Stmt, _At]] = field(default_factory=list)

    def __post_init__(self) -> None:
        stack: list[tuple[Stmt, _At]] = [(self.function.body, _At())]
        while stack:
            s, at = stack.pop()
            self.places.append((s, at))
            inner = at
            if isinstance(s, For):
                inner = _At((*at.loops, s), at.stage, at.divergent)
            elif isinstance(s, Produce):
                inner = _At(at.loops, s.name, at.divergent)
            elif isinstance(s, If):
                items = {x.var for x in at.loops if x.thread.startswith("threadIdx")}
                if variables(s.condition) & items:
                    inner = _At(at.loops, at.stage, (*at.divergent, s.condition))
            stack.extend((c, inner) for c in reversed(children(s)))

    def stores(self) -> Iterator[tuple[Store, _At]]:
        return ((s, at) for s, at in self.places if isinstance(s, Store))

    def loops(self) -> Iterator[tuple[For, _At]]:
        return ((s, at) for s, at in self.places if isinstance(s, For))


def lint(
    s: Schedule, args: Sequence[Tensor], target: Target | str = "llvm", knobs: dict[str, int] | None = None
) -> list[Lint]:
    """What is doubtful about a schedule. Open knobs take their first value unless given.

    Raises ScheduleError or LowerError where it is not legal at all.
    """
    to = Target.parse(target)
    values = {k.name: k.values[0] for k in s.knobs.values()} | (knobs or {})
    structure = lower_structure(s, args, to, "schedule")
    program = LintedProgram(structure.after("simplify", values), s, to)
    found: dict[Lint, None] = {}
    for rule in LINTS:
        found.update(dict.fromkeys(rule(program)))
    return list(found)


def _length(loop: For) -> int | None:
    return int(loop.extent.value) if is_const(loop.extent) else None


def _accesses(s: Stmt) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    if isinstance(s, Store):
        yield s.buffer, s.indices
    for e in post_order(list(expressions(s))):
        if e.op == "load":
            yield e.value, e.args


def _stride(buffer: Buffer, indices: Sequence[Expr], v: Expr) -> Expr | None:
    """How far apart in memory two elements are whose loop variable differs by one; None if it varies."""
    total: Expr = const(0)
    for i, width in zip(indices, buffer.strides or row_major(buffer.shape), strict=True):
        p = to_poly(i)
        factor = p.terms.get((v,), 0)
        if any(v in variables(a) for m in p.terms if m != (v,) for a in m):
            return None
        total = total + width * factor
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
    """Whether a condition around it leaves one iteration of a loop."""
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


def narrow_arithmetic(p: LintedProgram) -> Iterator[Lint]:
    """Sums, differences and products of 8- and 16-bit integers that wrap around."""
    for name, why, better in overflows(p.schedule.outputs):
        yield Lint("overflow", name, why, better)


def doubtful(p: LintedProgram) -> Iterator[Lint]:
    """Reads that may be outside of their tensors: it depends on data, or on sizes."""
    for x in doubtful_reads(p.schedule):
        better = "te.if_then_else around the read, or te.min and te.max; build(.., bounds_check=True) looks at run time"
        yield Lint("bounds", f"{x.stage}, which reads {x.read}", str(x), better)


#: Every rule, in the order of reports.
LINTS: tuple[Callable[[LintedProgram], Iterator[Lint]], ...] = (
    races, divergent_barriers, narrow_arithmetic, limits, strided_vectors, wide_vectors, copies, parallel_inside,
    wasted_tails, recomputed, doubtful,
)  # fmt: skip
