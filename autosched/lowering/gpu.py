"""GPU-style targets: loops bound to hardware axes become kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

from autosched.errors import LowerError
from autosched.ir import stmt as S
from autosched.ir.dtype import DType
from autosched.ir.expr import (
    Expr,
    compare,
    const,
    is_const,
    likely,
    logical_and,
    logical_not,
    maximum,
    minimum,
    var,
    variables,
)
from autosched.ir.ops import ACCESSES
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import Buffer, Stmt
from autosched.ir.visit import post_order, substitute
from autosched.lowering.barriers import check_uniform, insert_barriers, lift_barriers
from autosched.lowering.storage import Place, map_accesses, retarget
from autosched.lowering.stores import at_once, stores_to
from autosched.lowering.verify import check_constant

#: no device has larger groups, so no tree has more steps
MOST_WORK_ITEMS = 4096
#: the pragma of a loop that the host runs: each of its iterations launches kernels
BY_HOST = "by_host"


@dataclass(frozen=True)
class ThreadLoop:
    """A loop bound to the hardware axis `tag`."""

    tag: str
    var: Expr
    extent: Expr


@dataclass
class GroupReduction:
    """A reduction by a work-group: partial results in `parts`, combined by a tree in `shared`.

    across:  its reduce loops that are bound
    rows:    the bound loops around it that distinguish elements
    repeats: whether a work-item may combine several elements, one after the other
    """

    name: str
    dtypes: Sequence[DType]
    combine: Callable[[Sequence[Expr], Sequence[Expr]], Sequence[Expr]]
    across: Sequence[ThreadLoop]
    rows: Sequence[ThreadLoop]
    repeats: bool
    parts: list[Place] = field(init=False, default_factory=list)
    shared: list[Buffer] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        across = sorted(self.across, key=lambda loop: loop.tag)  # x runs fastest, as work-items do
        # one work-item at least: somebody has to store the result of nothing
        self.across = [replace(x, extent=simplify(maximum(x.extent, 1))) for x in across]
        self.count: Expr = prod((loop.extent for loop in self.across), start=const(1))
        shape = (*(row.extent for row in self.rows), self.count)
        for i, of in enumerate(self.dtypes):
            suffix = "" if len(self.dtypes) == 1 else f".v{i}"
            self.parts.append((Buffer(f"{self.name}.part{suffix}", (const(1),), of, "local"), (const(0),)))
            self.shared.append(Buffer(f"{self.name}.group{suffix}", shape, of, "shared"))

    def around(self, accumulate: Stmt, finish: Stmt) -> Stmt:
        """`accumulate`, which leaves each work-item's result in `parts`; the tree; `finish`, which loads `result`."""
        steps: list[Stmt] = [accumulate]
        if self.repeats:
            steps.append(S.Barrier())  # everybody has read the result before
        given = [S.load(part, *at) for part, at in self.parts]
        steps.append(self._each(lambda t: S.seq(*stores_to(self._places(t), given))))
        step = MOST_WORK_ITEMS // 2
        while step:
            if self.count.op != "const" or step < self.count.value:
                tree = S.seq(S.Barrier(), self._each(partial(self._step, step)))
                steps.append(S.If(compare("lt", const(step), self.count), tree))
            step //= 2
        body = S.seq(*steps, S.Barrier(), finish)
        for buffer in reversed([*(b for b, _ in self.parts), *self.shared]):
            body = S.Allocate(buffer, body)
        return body

    def result(self) -> list[Expr]:
        """The loads of the group's result."""
        return [S.load(b, *at) for b, at in self._places(const(0))]

    def _places(self, t: Expr) -> list[Place]:
        """The elements of work-item `t` of a row."""
        return [(b, (*(row.var for row in self.rows), t)) for b in self.shared]

    def _step(self, step: int, t: Expr) -> Stmt:
        mine, other = ([S.load(b, *at) for b, at in self._places(x)] for x in (t, t + step))
        stores = stores_to(self._places(t), self.combine(mine, other))
        return S.If(t < minimum(const(step), self.count - step), at_once(stores))

    def _each(self, body: Callable[[Expr], Stmt]) -> Stmt:
        """`body`, given the number of the work-item among those that combine."""
        number: Expr = const(0)
        stride: Expr = const(1)
        fresh = [var(f"{self.name}.{loop.tag}", role="loop") for loop in self.across]
        for v, loop in zip(fresh, self.across, strict=True):
            number, stride = number + v * stride, stride * loop.extent
        result = body(number)
        for v, loop in zip(fresh, self.across, strict=True):
            result = S.For(v, const(0), loop.extent, "thread", result, loop.tag)
        return result


def inject_vthreads(body: Stmt) -> Stmt:
    """The work of virtual threads is interleaved, statement by statement.

    Indices must be flat. Raises LowerError.
    """

    def unbind(s: Stmt) -> Stmt:
        if not isinstance(s, S.For) or s.thread != S.VTHREAD:
            return s
        check_constant(
            s, f"bind {s.var.name} to {S.VTHREAD}", "split the loop by a constant, or into a constant number of parts"
        )
        return _VirtualThreads(s).push(s.body)

    return S.map_stmt(body, on_stmt=unbind)


class _VirtualThreads:
    """One loop of virtual threads, pushed inwards to the statements that differ between them."""

    def __init__(self, loop: S.For) -> None:
        self.v, self.count = loop.var, int(loop.extent.value)
        inside = {s.buffer for s in S.walk(loop.body) if isinstance(s, S.Allocate)}
        self.own = {
            b: replace(b, shape=(b.shape[0] * self.count,))
            for b in sorted(self._differing(loop.body, inside), key=lambda b: b.name)
        }
        self._depends: dict[Stmt, bool] = {}

    def _differing(self, body: Stmt, inside: set[Buffer]) -> set[Buffer]:
        """The buffers whose contents are not the same for all virtual threads."""
        found: set[Buffer] = set()
        while True:
            more = self._written(body, found, False) & inside
            if more <= found:
                return found
            found |= more

    def _written(self, s: Stmt, differing: set[Buffer], under: bool) -> set[Buffer]:
        """The buffers to which a store depends on `v`, by its place or its value; `under`: all stores here do."""
        under = under or any(self._mentions(e, differing) for e in S.expressions(s))
        if isinstance(s, S.Store | S.Evaluate):
            touched = S.handed_out(s) | ({s.buffer} if isinstance(s, S.Store) else set())
            return touched if under else touched & differing
        return set().union(*(self._written(c, differing, under) for c in S.children(s)))

    def _mentions(self, e: Expr, differing: set[Buffer]) -> bool:
        return self.v in variables(e) or any(n.op in ACCESSES and n.value in differing for n in post_order(e))

    def depends(self, s: Stmt) -> bool:
        """Return whether anything in `s` differs between virtual threads."""
        if s not in self._depends:
            here = any(self._mentions(e, set(self.own)) for e in S.expressions(s))
            here = here or (isinstance(s, S.Store | S.Prefetch) and s.buffer in self.own)
            self._depends[s] = here or any(self.depends(c) for c in S.children(s))
        return self._depends[s]

    def push(self, s: Stmt) -> Stmt:
        """`s` for all virtual threads."""
        if not self.depends(s):
            return s
        asks = any(self._mentions(e, set(self.own)) for e in S.expressions(s))
        match s:
            case S.Allocate():
                return S.Allocate(self.own.get(s.buffer, s.buffer), self.push(s.body))
            case S.Seq() | S.For() | S.Let() | S.Produce() | S.If() if not asks:
                return S.with_children(s, self.push)
            case _:
                v = var(f"{self.v.name}.v", role="loop")
                return S.For(
                    v, const(0), const(self.count), "unroll", S.substitute_stmt(self._retarget(s), {self.v: v})
                )

    def _retarget(self, s: Stmt) -> Stmt:
        """The same accesses in the copies of virtual thread `v`."""

        def own(b: Buffer, indices: tuple[Expr, ...], what: str) -> Place | None:
            if b not in self.own:
                return None
            return self.own[b], (indices[0] + self.v * b.shape[0], *indices[1:]) if indices else ()

        return map_accesses(s, own)


def bind_threads(body: Stmt, an: Analyzer, function: str, is_cpu: bool = False) -> Stmt:
    """The root nests as launches, in order, inside the allocations they share and the loops that the host runs.

    On a device that `is_cpu`, the iterations of a parallel loop are work-groups.
    The kernel of a function `f` is called `f_kernel`; where there are several, `f_B_kernel` computes B.
    """
    names: dict[str, int] = {}
    alone = _count_nests(body) == 1

    def kernels(s: Stmt, asked: tuple[Expr, ...] = (), named: tuple[S.Let, ...] = ()) -> Stmt:
        """`asked`: conditions on the step, which each kernel asks; `named`: numbers that each computes anew."""
        if is_of_host(s):
            if isinstance(s, S.Let):
                return kernels(s.body, asked, (*named, s))
            if isinstance(s, S.If):
                arms = [kernels(s.then, (*asked, s.condition), named)]
                arms += [] if s.otherwise is None else [kernels(s.otherwise, (*asked, logical_not(s.condition)), named)]
                return S.seq(*arms)
            if isinstance(s, S.For):
                s = replace(s, pragmas=())
            return S.with_children(s, lambda child: kernels(child, asked, named))
        base = f"{function}_{s.name}_kernel" if isinstance(s, S.Produce) and not alone else f"{function}_kernel"
        names[base] = names.get(base, 0) + 1
        nest = S.If(logical_and(*asked), s) if asked else s
        if is_cpu and not has_work_items(nest):
            nest = _tasks_as_groups(nest)
        beside = () if has_work_items(nest) else _of_open_size(nest)
        nest = S.map_stmt(nest, on_stmt=lambda x: x.body if isinstance(x, S.Allocate) and x.buffer in beside else x)
        for x in reversed(named):
            if any(x.var in variables(e) for e in S.all_expressions(nest)):
                nest = replace(x, body=nest)
        launch: Stmt = _launch(base if names[base] == 1 else f"{base}_{names[base] - 1}", nest, an)
        for buffer in beside:
            launch = S.Allocate(buffer, launch)
        return launch

    return kernels(body)


def _of_open_size(nest: Stmt) -> tuple[Buffer, ...]:
    """Storage of a kernel whose size only the call tells, which a device does not give a work-item. Where there is one
    work-item, memory that the host allocates serves as well."""
    found = (x.buffer for x in S.walk(nest) if isinstance(x, S.Allocate) and x.buffer.scope == "global")
    sizes = ((b, frozenset().union(*map(variables, b.shape))) for b in found)
    return tuple(b for b, used in sizes if used and all(v.value.role == "size" for v in used))


def has_work_items(s: Stmt) -> bool:
    """Whether loops are bound to hardware axes."""
    return any(isinstance(x, S.For) and x.kind == "thread" for x in S.walk(s))


def _tasks_as_groups(nest: Stmt) -> Stmt:
    """The nest with a parallel loop that is around all of it bound to work-groups of one work-item. What is parallel
    inside another loop is run by one of them, for groups do not wait for each other between its rounds."""
    first = next(_around_all(nest), None)

    def bind(s: Stmt) -> Stmt:
        if not isinstance(s, S.For) or s.kind != "parallel":
            return s
        is_first = first is not None and s.var is first.var
        return replace(s, kind="thread", thread="blockIdx.x") if is_first else replace(s, kind="serial")

    return S.map_stmt(nest, on_stmt=bind)


def is_of_host(s: Stmt) -> bool:
    """Whether a statement is around kernels, rather than in one."""
    if isinstance(s, S.Allocate | S.Seq):
        return True
    if isinstance(s, S.Let):
        return is_of_host(s.body)
    return any(isinstance(x, S.For) and BY_HOST in x.pragmas for x in S.walk(s))


def _count_nests(s: Stmt) -> int:
    return sum(map(_count_nests, S.children(s))) if is_of_host(s) else 1


def _launch(name: str, body: Stmt, an: Analyzer) -> S.Launch:
    extents: dict[str, Expr] = {}
    named: dict[Expr, Expr] = {}  # quotients of sizes, which the host does not know by name
    for s in S.walk(body):
        if isinstance(s, S.Let) and s.var.value.role == "size":
            named[s.var] = substitute(s.value, named)
        if isinstance(s, S.For) and s.kind == "thread":
            extent = substitute(s.extent, named)
            if any(v.value.role != "size" for v in variables(extent)):
                raise LowerError(
                    f"its extent {s.extent!r} depends on another loop",
                    asked=f"bind {s.var.name} to {s.thread}",
                    legal="a launch has one size: bind loops whose extents are fixed or given by sizes",
                    loop=s.var,
                )
            known = extents.get(s.thread)
            extents[s.thread] = extent if known is None else an.simplify(maximum(known, extent))
        if isinstance(s, S.For) and s.kind == "parallel":
            raise LowerError(
                "work-items are GPU-style threads already",
                asked=f"parallel {s.var.name}",
                legal="bind the loop to blockIdx or threadIdx on this target",
                loop=s.var,
            )
    around = {s.thread for s in _around_all(body)}
    for tag in extents.keys() - around:  # no work-items along it, and nobody would do the rest
        extents[tag] = an.simplify(maximum(extents[tag], 1))
    threads = {tag: var(tag, role="thread") for tag in extents}
    for tag, e in extents.items():
        an.bind(threads[tag], 0, an.poly(e) - 1)

    def unbind(s: Stmt) -> Stmt:
        if not isinstance(s, S.For) or s.kind != "thread":
            return s
        inner = S.substitute_stmt(s.body, {s.var: threads[s.thread]})
        if s.extent is extents[s.thread]:
            return inner
        return S.If(likely(threads[s.thread] < s.extent), inner)

    several = [tag for tag in S.THREAD_TAGS if tag in extents and not is_const(extents[tag], 1)]
    items = {tag: threads[tag] for tag in several if tag.startswith("threadIdx")}
    stored, by_one = _store_once(body, items)
    inside = S.map_stmt(stored, on_stmt=unbind)
    inside = insert_barriers(inside, by_one)
    check_uniform(inside, frozenset(items.values()))
    inside = lift_barriers(inside)
    allocated = [s.buffer for s in S.walk(inside) if isinstance(s, S.Allocate)]
    own = {b: replace(b, scope="local") for b in allocated if b.scope == "global"}  # the work-item's, if not shared
    x, y, z, *block = (extents.get(tag, const(1)) for tag in S.THREAD_TAGS)
    return S.Launch(name, (x, y, z), (block[0], block[1], block[2]), retarget(inside, own) if own else inside)


def _around_all(body: Stmt) -> Iterator[S.For]:
    """The loops around all statements."""
    while isinstance(body, S.For | S.Produce | S.Allocate | S.If | S.Let):
        if isinstance(body, S.For):
            yield body
        if isinstance(body, S.If) and body.otherwise is not None:
            return
        body = body.then if isinstance(body, S.If) else body.body


def _store_once(body: Stmt, items: dict[str, Expr]) -> tuple[Stmt, frozenset[Buffer]]:
    """Let one work-item store what several would store alike: a reduction would otherwise add up once for each.

    `items` are the group's axes. Along those that no loop of a stage is bound to, all work-items do the same.
    Also returns the buffers that only some work-items store to.
    """
    by_one: set[Buffer] = set()
    private = {s.buffer for s in S.walk(body) if isinstance(s, S.Allocate) and s.buffer.scope != "shared"}
    nothing: frozenset[Any] = frozenset()

    def once(
        s: Stmt, bound: frozenset[str], here: frozenset[Buffer], around: frozenset[str], inside: frozenset[Buffer]
    ) -> Stmt:
        """`bound`: the axes of the stage's own loops; `here`: buffers allocated in them; `around` and `inside`: those
        of the stage around it, to whose memory the init and updates of a scan store."""

        def go(s: Stmt) -> Stmt:
            return once(s, bound, here, around, inside)

        def idle(buffer: Buffer) -> list[Expr]:
            own = bound if buffer in inside else bound | around
            others = [] if buffer in private else [v for tag, v in items.items() if tag not in own]
            if others:
                by_one.add(buffer)
            return others

        match s:
            case S.Store() | S.Let() if all(isinstance(x, S.Store | S.Let | S.Seq) for x in S.walk(s)):
                # what is stored together is computed by the one that stores it
                alike = [idle(x.buffer) for x in S.walk(s) if isinstance(x, S.Store)]
                return S.If(logical_and(*(v <= 0 for v in alike[0])), s) if alike[0] else s
            case S.Evaluate():
                others = [v for tag, v in items.items() if tag not in bound | around]
                return S.If(logical_and(*(v <= 0 for v in others)), s) if others else s
            case S.Produce():
                return S.Produce(s.name, once(s.body, nothing, nothing, bound, here))
            case S.For():
                return replace(s, body=once(s.body, bound | {s.thread}, here, around, inside))
            case S.Allocate():
                return replace(s, body=once(s.body, bound, here | {s.buffer}, around, inside))
            case _:
                return S.with_children(s, go)

    return once(body, nothing, nothing, nothing, nothing), frozenset(by_one)
