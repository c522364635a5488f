"""Questions about a stage: its reads, its cost, its readers; and values for its knobs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, takewhile

from autosched.ir.dtype import DType
from autosched.ir.expr import OPS, Expr, const, is_const, is_index, var, variables
from autosched.ir.node import remembered
from autosched.ir.ops import CHOICES, ORDERS
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.visit import contains, post_order, reached, substitute
from autosched.schedule.primitives.place import users_through_inlining
from autosched.schedule.primitives.storage import region_of
from autosched.schedule.stage import Stage
from autosched.space.constraints import MAX_VECTOR_BYTES
from autosched.space.features.memory import Machine
from autosched.space.reached import distinct_reads, reach_of, while_unchanged
from autosched.target import Target
from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, IterVar, Tensor

#: Points of a window of reductions that is written out, and terms of a sum of neighbours in a row.
MAX_WINDOW, FEW_TERMS = 49, 8
#: Channels of a pixel, and elements of a row of which a few sums are made, at least.
MOST_CHANNELS, FEWEST_OF_ROW = 4, 64
#: Elements of a block that are written out, each as a vector of those of as many blocks.
MOST_PHASES = 8
#: Floating-point operations that cost less than storing a value and loading it again.
CHEAP = 2
#: Lines of a first-level cache that hold what is a multiple of so many bytes apart.
WAYS, PAGE = 8, 4096
#: Kinds of operators that cost something.
WORK = ("arith", "bits", "compare", "choice", "cast", "math")


@dataclass(frozen=True)
class Access:
    """One read of a tensor: an index along each of its dimensions."""

    tensor: Tensor
    indices: tuple[Expr, ...]

    def mentions(self, axis: IterVar) -> bool:
        return any(axis.var in variables(i) for i in self.indices)

    @property
    def is_looked_up(self) -> bool:
        """Whether data tell which element it is."""
        return contains(self.indices, "read")

    def steps(self, axis: IterVar) -> tuple[int | None, ...]:
        """The distance that each index moves when the axis moves by one; None where that is no constant."""
        return tuple(step_of(i, axis.var) for i in self.indices)

    def is_contiguous(self, axis: IterVar) -> bool:
        """Neighbours along the axis are neighbours in memory."""
        *outer, last = self.steps(axis) or (None,)
        return last == 1 and not any(outer)

    def dimension(self, axis: IterVar) -> int | None:
        """The dimension whose index is the axis itself, where no other index mentions it."""
        found = [d for d, i in enumerate(self.indices) if axis.var in variables(i)]
        return found[0] if len(found) == 1 and self.indices[found[0]] is axis.var else None


def step_of(index: Expr, v: Expr) -> int | None:
    """The distance that an index moves when a variable moves by one; None where that is no constant."""
    if index is v:
        return 1
    if v not in variables(index):
        return 0
    moved = simplify(substitute(index, {v: v + 1}) - index)
    return int(moved.value) if is_const(moved) else None


def blocks(stage: Stage, axis: IterVar) -> dict[int, bool]:
    """Lengths of blocks of an axis, shortest first, in which everything read lies in constant steps, though it does not
    along the axis; and whether that is so within a block, or else only from each of its elements to that in the next.

    B[j] = A[j // 40] * C[j % 40]   ->   {40: True}        B[i] = A[i*2 // 3] * C[i*2 % 3]   ->   {3: False}
    """
    n, indices = length(axis), [i for a in accesses(stage) for i in a.indices if axis.var in variables(i)]
    if n is None or all(step_of(i, axis.var) is not None for i in indices):
        return {}
    divisions = (e for e in post_order(indices) if e.op in ("floordiv", "floormod") and is_const(e.args[1]))
    lengths = {int(e.args[1].value) for e in divisions if axis.var in variables(e)}
    found: dict[int, bool] = {}
    for d in sorted(d for d in lengths if 1 < d < n and n % d == 0):
        outer, inner = var(axis.name), var(f"{axis.name}.inner")
        an = Analyzer()
        an.bind(outer, 0, n // d - 1)
        an.bind(inner, 0, d - 1)
        cut = [an.simplify(substitute(i, {axis.var: outer * d + inner})) for i in indices]
        if all(step_of(i, inner) is not None for i in cut):
            found[d] = True
        elif d <= MOST_PHASES and all(
            step_of(simplify(substitute(i, {inner: const(c)})), outer) is not None for i in cut for c in range(d)
        ):
            found[d] = False
    return found


def repeats(stage: Stage, axis: IterVar, period: int) -> bool:
    """Whether everything read along an axis lies beside it, or is the same again after so many elements: a vector of
    whole periods reads the same pattern wherever it is.

    B[j] = A[j] * C[j % 8], period 8   ->   True        B[j] = A[j // 3] * C[j % 3], period 3   ->   False
    """
    block, inner = var(axis.name), var(f"{axis.name}.inner")
    an = Analyzer()
    an.bind(inner, 0, period - 1)
    for a in accesses(stage):
        moving = [i for i in a.indices if axis.var in variables(i)]
        if [step_of(i, axis.var) for i in moving] == [1] and moving[0] is a.indices[-1]:
            continue
        if any(block in variables(an.simplify(substitute(i, {axis.var: block * period + inner}))) for i in moving):
            return False
    return True


def length(axis: IterVar) -> int | None:
    """The number of iterations, None where it is a size of the program."""
    return int(axis.extent.value) if is_const(axis.extent) else None


def points(axes: Iterable[IterVar]) -> int | None:
    """The number of iterations of loops over all these axes, None where it depends on a size of the program."""
    lengths = [length(a) for a in axes]
    return None if None in lengths else math.prod(lengths)  # type: ignore[arg-type]


def elements(tensor: Tensor) -> int | None:
    """The number of elements, None where it depends on a size of the program."""
    known = all(map(is_const, tensor.shape))
    return math.prod(int(n.value) for n in tensor.shape) if known else None


def has_fewer(axes: Iterable[IterVar], n: int) -> bool:
    """Whether loops over all these axes are known to have fewer than `n` iterations."""
    total = points(axes)
    return total is not None and total < n


def long_axes(stage: Stage) -> list[IterVar]:
    """The axes with more than one iteration."""
    return [a for a in stage.axis if length(a) != 1]


def is_opaque(stage: Stage) -> bool:
    """Rules leave it alone: a scan or a part of one, a scatter, code from outside."""
    return bool(why_opaque(stage))


def why_opaque(stage: Stage) -> str:
    """Why rules leave a stage alone; empty where they do not."""
    op, scans = stage.op, stage.schedule.scans
    if isinstance(op, ScanOp):
        return "a scan: its steps follow each other"
    if isinstance(op, ExternOp):
        if op.single_call is None:
            return "statements that somebody wrote: they stay as they are"
        return f"code from outside ({op.single_call.value.name}): nothing is known of its loops"
    if stage.scatter_axes:
        return "a scatter: its places come from data"
    if not isinstance(op, ComputeOp):
        return f"{type(op).__name__}: no rule knows such an operation"
    if scans.part(stage) or scans.step_of(stage) is not None:
        return "a part of a scan: its steps follow each other"
    return ""


def missing_types(target: Target, stage: Stage) -> str:
    """Why the device of a target lacks a type that the stage computes with; empty where it lacks none."""
    if target.limits.get("fp64") != 0:
        return ""
    found = {str(e.dtype) for e in post_order(stage.body)} | {str(t.dtype) for t in stage.op.outputs}
    return "float64 is not supported by this device" if "float64" in found else ""


def accesses(stage: Stage) -> list[Access]:
    """The reads of a stage in terms of its own axes, inlined stages looked through; each one once."""
    reach = reach_of(stage)
    if "accesses" not in reach.answers:
        found = reversed(reach.found.items())
        reach.answers["accesses"] = [Access(*read) for read, is_inlined in found if not is_inlined]
    return reach.answers["accesses"]  # type: ignore[no-any-return]


def bodies(stage: Stage) -> Iterator[tuple[tuple[Expr, ...], dict[Expr, Expr]]]:
    """What a point of a stage computes: its own body and those of producers that are inlined there, each with the
    places of its axes."""
    yield stage.body, {}
    for (tensor, indices), is_inlined in reach_of(stage).found.items():
        if is_inlined:
            source = stage.schedule.stage(tensor)
            yield source.body, {a.var: i for a, i in zip(source.axis, indices, strict=True)}


def cost(stage: Stage) -> int:
    """Operations of one iteration of a stage's loops, with what is inlined there, in units of an addition."""
    found = (e for body, _ in bodies(stage) for e in post_order(body) if not is_index(e))
    return 1 + sum(max(1, round(OPS[e.op].flops)) for e in found if OPS[e.op].kind in WORK)


def work(stage: Stage) -> int:
    """Operations of one iteration of a stage's loops, with what is inlined there; equal elements are computed once."""
    reach = reach_of(stage)
    if "work" not in reach.answers:
        reach.answers["work"] = sum(_operations(body) for body, _ in bodies(stage))
    return reach.answers["work"]  # type: ignore[no-any-return]


def _operations(body: tuple[Expr, ...]) -> int:
    return max(1, _operations_of(body[0]) if len(body) == 1 else _count(body))


@remembered
def _operations_of(e: Expr) -> int:
    return _count((e,))


def _count(body: tuple[Expr, ...]) -> int:
    return sum(not is_index(e) and OPS[e.op].kind in WORK for e in post_order(body))


#: Iterations of an axis whose length is a size of the program, where a number is needed to compare.
USUAL_LENGTH = 1024


def about(extent: Expr) -> int:
    """The number of iterations of a loop of some extent, at least one."""
    return max(1, int(extent.value)) if is_const(extent) else USUAL_LENGTH


def iterations(axes: Iterable[IterVar]) -> int:
    """The number of iterations of loops over all these axes, about."""
    return math.prod(about(a.extent) for a in axes)


@while_unchanged
def recomputed(stage: Stage) -> float:
    """How many times an element would be computed if the stage were inlined into all its readers, on average.

    S[y, x] = W[y, x, 0] + W[y, x, 1]   ->   1: each element of W[y, x, 2] is used once, in two of S's terms
    """
    used = sum(len(reads_of(r, stage)) * iterations((*r.axis, *r.reduce_axis)) for r in readers(stage))
    return used / iterations(stage.axis)


@while_unchanged
def recomputed_by_pixel(stage: Stage) -> float:
    """The same where the few channels of a reader's pixel are written out: what does not depend on them is computed
    once for all.

    S[y, x, c] = M[c] * L[y, x]   ->   1: each element of L is used for one pixel
    """
    used = 0
    for r in readers(stage):
        has_channels = r.is_injective and len(r.axis) > 1 and has_fewer(r.axis[-1:], MOST_CHANNELS + 1)
        for a in reads_of(r, stage):
            axes = r.axis[:-1] if has_channels and not a.mentions(r.axis[-1]) else r.axis
            used += iterations((*axes, *r.reduce_axis))
    return used / iterations(stage.axis)


def _indices_outside_reads(body: tuple[Expr, ...]) -> Iterator[Expr]:
    """The index expressions in some expressions that are no place of a read."""
    return filter(is_index, reached(body, lambda e: () if is_index(e) or e.op == "read" else e.args))


def asked_positions(stage: Stage) -> list[Expr]:
    """The index expressions whose values themselves decide what a stage computes, in terms of its own axes."""
    return [simplify(substitute(e, at)) for body, at in bodies(stage) for e in _indices_outside_reads(body)]


@while_unchanged
def readers(stage: Stage) -> list[Stage]:
    """The stages that read it in loops of their own, in order."""
    return users_through_inlining(stage.schedule, stage)


def is_inner(stage: Stage) -> bool:
    """Whether it is no output, and stages with loops of their own read it."""
    return not stage.is_output and bool(readers(stage))


def reads_of(reader: Stage, stage: Stage) -> list[Access]:
    """The reads of `stage` among those of `reader`."""
    return [a for a in accesses(reader) if a.tensor in stage.op.outputs]


@while_unchanged
def read_across_borders(stage: Stage) -> set[Tensor]:
    """What a stage reads at places that are clamped, mirrored or wrapped."""
    own = {a.var: a for a in (*stage.axis, *stage.reduce_axis)}
    return {e.value for e in distinct_reads(stage.body) if region_of(e, own) is not None}


def taps(stage: Stage) -> int:
    """Elements that its readers would read if it were inlined."""
    return sum(len(reads_of(r, stage)) for r in readers(stage)) * max(1, len(accesses(stage)))


def flops(stage: Stage) -> int:
    """Floating-point operations for each point, in units of one addition; divisions of integers count, too."""
    values = (e for e in post_order(stage.body) if not is_index(e) and OPS[e.op].kind in ("arith", "math"))
    return sum(int(OPS[e.op].flops) for e in values if e.dtype.is_float or e.op.endswith("div"))


def is_plain(stage: Stage) -> bool:
    """Every read is at axes and constants as they are, each axis once, and nothing is decided."""
    if not stage.is_injective:
        return False
    axes = [a.var for a in stage.axis]
    for e in post_order(stage.body):
        if e.op in CHOICES:
            return False
        if e.op == "read":
            used = [axes.index(i) for i in e.args if not is_const(i) and i in axes]
            if any(not is_const(i) and i not in axes for i in e.args) or used != sorted(set(used)):
                return False
    return True


def is_cheap(stage: Stage) -> bool:
    """Computing an element again costs no more than keeping it."""
    return flops(stage) <= CHEAP and not has_math(stage)


def only_copies(stage: Stage) -> bool:
    """Whether elements are copied, or filled in, and nothing is computed of them."""
    values = (e for e in post_order(stage.body) if not is_index(e) and not e.dtype.is_bool)
    return all(OPS[e.op].kind not in ("arith", "bits", "math") for e in values)


def has_math(stage: Stage) -> bool:
    """Exponentials and the like, which no one wants to compute twice."""
    return any(OPS[e.op].kind == "math" for e in post_order(stage.body))


def uses_each_once(stage: Stage) -> bool:
    """One reader, which reads each element for one point of its loops alone."""
    consumers = stage.schedule.consumers(stage)
    found = [(e, c) for c in consumers for e in distinct_reads(c.body) if stage.schedule.stage(e.value) is stage]
    if len(consumers) != 1 or len(found) != 1:
        return False
    ((read, reader),) = found
    used = {i for i in read.args if not is_const(i)}
    axes = (*reader.axis, *reader.reduce_axis)
    return {a.var for a in axes if length(a) != 1} <= used <= {a.var for a in axes}


def is_window(stage: Stage) -> bool:
    """A reduction over a few neighbours: an index is the sum of a place and a step of the reduction."""
    if not stage.reduce_axis or not has_fewer(stage.reduce_axis, MAX_WINDOW + 1):
        return False
    inner, outer = ({a.var for a in axes} for axes in (stage.reduce_axis, stage.axis))
    places = (i for e in distinct_reads(stage.body) for i in e.args if is_index(i))  # one that is read is no neighbour
    return any(variables(i) & inner and variables(i) & outer for i in places)


def adds_up_rows(stage: Stage) -> bool:
    """Whether neighbouring results are reductions of rows that lie apart: a vector of them would be gathered."""
    along, across = (axes[-1] if axes else None for axes in (stage.reduce_axis, stage.axis))
    if along is None or across is None or is_opaque(stage) or has_fewer(stage.reduce_axis, MOST_CHANNELS + 1):
        return False
    return any(a.is_contiguous(along) and a.mentions(across) and a.steps(across)[-1] == 0 for a in accesses(stage))


@while_unchanged
def _is_shared_window(stage: Stage) -> bool:
    """Whether results share elements of a window of any length.

    S[x] = sum of A[x + k]        and not, for x < 16:   S[x] = sum of A[16*k + x]
    """
    for e in distinct_reads(stage.body):
        read = Access(e.value, e.args)
        for x, k in itertools.product(stage.axis, stage.reduce_axis):
            n, m = iterations([x]), iterations([k])
            for a, b in zip(read.steps(x), read.steps(k), strict=True):
                if a and b and abs(b) < abs(a) * n and abs(a) < abs(b) * m:
                    return True
    return False


def is_stencil(stage: Stage) -> bool:
    """A reduction of a few terms, of which each goes along with the result, but for coefficients: there is nothing to
    keep for other points of the result that its terms, once written out, would not share.

    S[y, x, c] = sum of A[y + dy, x + dx, c] * W[dy, dx]        S[y, x, c] = sum of A[y, x, k] * M[c, k]

    So is a sum of as few terms as a pixel has channels. Rows of an input stay sums of rows, added up in lanes.
    """
    in_a_step = stage.schedule.scans.step_of(stage) is not None and not stage.scatter_axes
    if is_opaque(stage) and not in_a_step:
        return False
    if not stage.reduce_axis or not has_fewer(stage.reduce_axis, MAX_WINDOW + 1):
        return False
    if not isinstance(stage.body[0].value.combiner, str):
        return False  # each term of an arg-max would be a choice between all that came before
    if _is_cut_short(stage):
        return False
    axes = [a for a in stage.axis if not has_fewer([a], FEW_TERMS)]
    if axes and has_fewer(stage.reduce_axis, MOST_CHANNELS + 1):
        return True
    found, _ = made_of(stage)
    if not {sum(a.mentions(axis) for axis in axes) for a in found} <= {0, len(axes)} or not axes:
        return False
    rows = (
        a for a in found if a.is_contiguous(stage.reduce_axis[-1]) and stage.schedule.stage(a.tensor).is_placeholder
    )
    return is_window(stage) or has_fewer(stage.reduce_axis, FEW_TERMS + 1) or not any(rows)


def _is_cut_short(stage: Stage) -> bool:
    """Whether a condition says for each place how many terms there are, as in a triangle: steps of the reduction are
    compared with a place in another way than an index that is read does, whose borders a condition may keep."""
    _, condition, _ = stage.body[0].value.parts(stage.body[0].args)
    inner, outer = ({a.var for a in axes} for axes in (stage.reduce_axis, stage.axis))
    indices = [i for e in distinct_reads(stage.body) for i in e.args]
    for e in post_order(condition):
        if e.op in ORDERS and variables(e) & inner and variables(e) & outer:
            a, b = e.args
            if not any(is_const(simplify(d - i)) for i in indices for d in (a - b, b - a)):
                return True
    return False


@while_unchanged
def made_of(stage: Stage) -> tuple[list[Access], frozenset[Expr]]:
    """The reads of a stage in terms of its own axes, through producers of which it takes one element at a time; and
    the variables whose values themselves, not only the elements there, decide what comes out, as in conditions."""
    found: list[Access] = []
    asked: set[Expr] = set()
    waiting = [(stage, {a.var: a.var for a in (*stage.axis, *stage.reduce_axis)})]
    seen: set[tuple[Tensor, tuple[Expr, ...]]] = set()
    while waiting:
        reader, at = waiting.pop()
        asked.update(v for e in _indices_outside_reads(reader.body) for v in variables(substitute(e, at)))
        places: dict[Tensor, list[tuple[Expr, ...]]] = {}
        for e in distinct_reads(reader.body):
            places.setdefault(e.value, []).append(tuple(simplify(substitute(i, at)) for i in e.args))
        for tensor, some in places.items():
            source = stage.schedule.stage(tensor)
            if len(some) == 1 and source.is_injective and not source.is_output:
                if (tensor, some[0]) in seen:
                    continue
                seen.add((tensor, some[0]))
                waiting.append((source, {a.var: i for a, i in zip(source.axis, some[0], strict=True)}))
            else:
                found += [Access(tensor, indices) for indices in some]
    return found, frozenset(asked)


def is_contraction(stage: Stage) -> bool:
    """A reduction that reads elements again for other points of its result: a tile of them is worth keeping.

    Ansor's condition for multi-level tiling, for two axes at least: with one there is no tile. Products of matrices and
    vectors are none, for each matrix of a batch either: what is read again along both axes is the vector alone. Nor are
    a few sums of each row: see `sums_of_a_row`.
    """
    if is_opaque(stage) or not stage.reduce_axis or len(stage.body) > 1 or len(long_axes(stage)) < 2:
        return False
    if sums_of_a_row(stage) > 1:
        return False
    shares = is_window(stage) or _is_shared_window(stage)
    axes = (*long_axes(stage), *stage.reduce_axis)
    along = [{x for x in axes if a.mentions(x)} for a in accesses(stage) if not all(map(is_const, a.indices))]
    # what belongs to a row that is read is no operand: its scale, or where it is looked up
    along = [x for x in along if not x.isdisjoint(stage.reduce_axis) or not any(x < other for other in along)]
    again = [[x for x in axes if x not in found] for found in along]
    pairs = ((x, y) for one, other in permutations(again, 2) for x in one for y in other)
    return shares or any(x is not y and x.kind == "spatial" for x, y in pairs)


def sums_of_a_row(stage: Stage) -> int:
    """How many sums are made of each long row of an operand, where they are few and lie side by side; else 0.

    C[i, d] = sum over k of A[i, k] * B[k, d], with d in 3   ->   3
    """
    inner = list(takewhile(lambda a: has_fewer([a], MOST_CHANNELS + 1), reversed(stage.axis)))
    outer = stage.axis[: len(stage.axis) - len(inner)]
    if not inner or not outer or not has_fewer(inner, MOST_CHANNELS + 1) or has_fewer(stage.reduce_axis, FEWEST_OF_ROW):
        return 0
    found = [[a.mentions(axis) for axis in outer] for a in accesses(stage)]
    rows = [a for a, along in zip(accesses(stage), found, strict=True) if any(along)]
    near = all(a.is_contiguous(stage.reduce_axis[-1]) and not any(map(a.mentions, inner)) for a in rows)
    return iterations(inner) if rows and near and all(all(along) or not any(along) for along in found) else 0


#: The longest block that `tiles` gives.
MOST_BLOCKS = 64


def powers(first: int, last: int) -> list[int]:
    """The powers of two from first to last."""
    return [1 << b for b in range(first.bit_length() - 1, last.bit_length()) if first <= 1 << b <= last]


def lanes(machine: Machine, dtype: DType, axis: IterVar) -> list[int]:
    """Lanes of one vector register, and of half and a quarter of one, as far as an axis is that long."""
    whole = max(1, machine.vector_bytes // dtype.bytes)
    return _fitting([whole, whole // 2, whole // 4], length(axis))


def divisors(axis: IterVar, first: int, last: int) -> list[int]:
    """The numbers from first to last that an axis of known length divides into."""
    n = length(axis)
    return [] if n is None else [d for d in range(max(first, 2), last + 1) if n % d == 0]


def long_lanes(machine: Machine, types: Sequence[DType], n: int | None = None) -> list[int]:
    """Lanes of statements that take one to a few registers of the widest of some types."""
    widest, narrowest = (pick(t.bytes for t in types) for pick in (max, min))
    first = max(2, machine.vector_bytes // widest)
    last = min(MAX_VECTOR_BYTES // widest, 4 * machine.vector_bytes // narrowest)
    return _fitting(powers(first, max(first, last)), n)


def _fitting(values: Sequence[int], n: int | None) -> list[int]:
    """The values that an axis of that length fills at least half; the smallest if none."""
    wanted = sorted({v for v in values if v >= 1})
    return [v for v in wanted if n is None or v < 2 * n] or wanted[:1] or [1]


def tiles(axis: IterVar) -> list[int]:
    """Iterations of an axis in a block: powers of two, and divisors where the length is known."""
    n = length(axis)
    if n is None:
        return powers(1, MOST_BLOCKS)
    some = {*powers(1, MOST_BLOCKS), *divisors(axis, 2, MOST_BLOCKS)}
    return sorted({v for v in some if v <= n} | {1})


def colliding_rows(stage: Stage) -> int:
    """The most rows that are read of something whose rows are a multiple of a page apart: from vector to vector, these
    rows drive each other out of a first-level cache."""
    rows: dict[Tensor, set[tuple[Expr, ...]]] = {}
    for a in accesses(stage):
        if lies_in_pages(a.tensor):
            rows.setdefault(a.tensor, set()).add(a.indices[:-1])
    return max(map(len, rows.values()), default=0)


def lies_in_pages(tensor: Tensor) -> bool:
    """Whether rows are a multiple of a page apart."""
    *outer, row = (int(n.value) if is_const(n) else 1 for n in tensor.shape) if tensor.shape else (1,)
    return bool(outer) and row * tensor.dtype.bytes % PAGE == 0
