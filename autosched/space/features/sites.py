"""The stores of a lowered sketch, and the loops around each: what features are read off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, reduce
from operator import add, is_, mul

from autosched.ir.dtype import BFLOAT16, DType
from autosched.ir.expr import (
    Expr,
    ceildiv,
    const,
    divide,
    floordiv,
    is_const,
    is_index,
    logical_and,
    make,
    maximum,
    minimum,
    select,
    variables,
)
from autosched.ir.expr import cast as cast_to
from autosched.ir.ops import CHOICES, OPS, ORDERS
from autosched.ir.simplify import Analyzer, simplify
from autosched.ir.stmt import VTHREAD, Allocate, Buffer, For, If, Let, Produce, Stmt, Store, children, substitute_stmt
from autosched.ir.visit import conjuncts, contains, post_order, substitute

#: A buffer and where it is read or written.
Access = tuple[Buffer, tuple[Expr, ...]]


@dataclass(frozen=True, eq=False)
class Site:
    """A store and the loops that repeat it, outermost first; the conditions of `asked` are tested on the way."""

    store: Store
    loops: tuple[For, ...]
    asked: tuple[Expr, ...]

    @property
    def guards(self) -> int:
        """How many conditions are tested."""
        return len(self.asked)

    @cached_property
    def loads(self) -> list[Expr]:
        return [e for e in post_order(self.store.value) if e.op == "load"]

    @property
    def accesses(self) -> list[Access]:
        return [*((e.value, e.args) for e in self.loads), (self.store.buffer, self.store.indices)]

    @property
    def iterations(self) -> Expr:
        """Executions of the store."""
        return product(self.loops)

    @cached_property
    def vectorized(self) -> frozenset[Expr]:
        """The variables of its vector loops."""
        return frozenset(x.var for x in self.loops if x.kind == "vectorize")

    @property
    def lanes(self) -> Expr:
        return product(x for x in self.loops if x.kind == "vectorize")

    def goes_on_with(self, e: Expr) -> bool:
        """Whether a load reads the element that is stored; indices in which knobs are open have no `==`."""
        return e.value is self.store.buffer and all(a is b for a, b in zip(e.args, self.store.indices, strict=True))

    @cached_property
    def is_sum(self) -> bool:
        return any(map(self.goes_on_with, self.loads))

    @cached_property
    def kept(self) -> Expr:
        """How many times in turn a sum adds to what it reads, which is in registers meanwhile; 1 of what is no sum."""
        if not self.is_sum:
            return const(1)
        used = frozenset(v for i in self.store.indices for v in variables(i))
        found, inside = const(1), const(True)
        for loop in reversed([x for x in self.loops if x.kind == "serial"]):
            if loop.var in used:
                inside = logical_and(inside, loop.extent <= 1)
            else:
                found = found * select(inside, loop.extent, 1)
        return found

    @property
    def outer(self) -> list[For]:
        """The loops whose iterations are tasks: parallel ones and work-groups."""
        return [x for x in self.loops if is_task(x)]

    @property
    def copies(self) -> list[For]:
        """The loops that are written out."""
        return [x for x in self.loops if x.kind == "unroll" or x.thread == VTHREAD]


@dataclass(frozen=True, eq=False)
class Nest:
    """A loop with what is in it, in order; the root has no loop. `times` is how often it runs what is in it."""

    loop: For | None
    inside: tuple[Nest | Site, ...]
    times: Expr = field(default_factory=lambda: const(1))

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        return tuple(s for x in self.inside for s in (x.sites if isinstance(x, Nest) else (x,)))

    @cached_property
    def loops(self) -> frozenset[Expr]:
        """The variables of the loops in it, its own aside."""
        return frozenset(
            v for x in self.inside if isinstance(x, Nest) for v in (x.loops | ({x.loop.var} if x.loop else set()))
        )


def nests_of(body: Stmt) -> Nest:
    """The loops and stores of a function."""
    return Nest(None, tuple(_inside(body, (), ())))


def _inside(s: Stmt, loops: tuple[For, ...], asked: tuple[Expr, ...]) -> list[Nest | Site]:
    match s:
        case Store() if _stays_in_registers(s, loops):
            return []
        case Store():
            return [Site(_of_the_first_lane(s), loops, asked)]
        case Let():
            return _inside(substitute_stmt(s.body, {s.var: s.value}), loops, asked)
        case For(kind="vectorize") if (of_words := _of_words(s)) and any(x.kind == "vectorize" for x in loops):
            return [Site(of_words, loops, (*asked, s.body.condition) if isinstance(s.body, If) else asked)]
        case For():
            s = _narrowed(s, loops)
            # A work-item has one place along an axis: a loop over it inside of another does not run again for each.
            same = [x for x in loops if s.thread.startswith("threadIdx") and x.thread == s.thread]
            inside = _inside(s.body, (*(x for x in loops if x not in same), s), asked)
            times = ratio(s.extent, product(same)) if same else s.extent
            return [Nest(s, tuple(inside), times)] if inside else []
        case If():
            once, asked = _loops_that_run(s, loops), (*asked, s.condition)
            return [found for c, around in zip(children(s), (once, loops)) for found in _inside(c, around, asked)]
    return [found for c in children(s) for found in _inside(c, loops, asked)]


def _stays_in_registers(s: Store, loops: tuple[For, ...]) -> bool:
    """Whether a vector is only moved inside of an array in which loops find nothing: to where the last state of a scan
    is, of the state that was made."""
    vectors = {x.var for x in loops if x.kind == "vectorize"}
    places = (*s.indices, *s.value.args)
    return s.value.op == "load" and s.value.value is s.buffer and all(variables(i) <= vectors for i in places)


def _narrowed(s: For, loops: tuple[For, ...]) -> For:
    """A loop that runs as often as what is asked of its variable alone lets it: of lanes beyond a strip, and of rows
    that nobody reads, lowering makes no code."""
    conditions, others, inside = [], list(loops), s.body
    while isinstance(inside, If | For | Produce | Allocate) and getattr(inside, "otherwise", None) is None:
        if isinstance(inside, If):
            conditions += conjuncts(inside.condition)
        elif isinstance(inside, For):
            others.append(inside)
        inside = inside.then if isinstance(inside, If) else inside.body
    begins, ends = [s.start], [s.start + s.extent]
    for condition in conditions if s.thread == "" else []:
        if (found := limit_of(condition, s.var)) is not None:
            (begins if found[1] else ends).append(found[0])
    if len(begins) + len(ends) == 2:
        return s
    length = reduce(minimum, ends) - reduce(maximum, begins)
    first = {x.var: x.start for x in reversed(others)}
    last = {x.var: x.start + x.extent - 1 for x in reversed(others)}
    length = maximum(substitute(length, first), substitute(length, last))
    if any(v.value.role not in ("size", "knob") for v in variables(length)):
        return s
    if s.kind == "vectorize" and any(v.value.role == "size" for v in variables(length)):
        return s  # its lanes are those of the schedule at any size, and `cut_vectors` says where it is not full
    return replace(s, extent=minimum(s.extent, maximum(length, 1)))


def limit_of(condition: Expr, v: Expr) -> tuple[Expr, bool] | None:
    """What a comparison says of a variable: the number that it begins with (True), or ends before."""
    if condition.op not in ORDERS or not all(is_index(e) for e in condition.args):
        return None
    if v not in variables(condition) or contains(condition, "load"):
        return None
    a, b = condition.args if condition.op in ("lt", "le") else condition.args[::-1]
    found = Analyzer().poly(a - b).affine_in(v)
    if found is None or abs(found[0]) != 1:
        return None
    rest, strict = found[1].expr(), condition.op in ("lt", "gt")
    return (-rest + (0 if strict else 1), False) if found[0] == 1 else (rest + (1 if strict else 0), True)


def _of_words(s: For) -> Store | None:
    """A vector loop over products that instructions add up, four of bytes or two of bfloat16, as one product of 32-bit
    words: as many bytes are read, and it takes as long."""
    store = s.body.then if isinstance(s.body, If) and s.body.otherwise is None else s.body
    if not isinstance(store, Store) or store.value.op != "add" or store.buffer.dtype not in ("int32", "float32"):
        return None
    bits, of = (8, "int") if store.buffer.dtype.is_integer else (16, BFLOAT16)
    if not is_const(s.extent, 32 // bits):
        return None
    old, product = store.value.args
    factors = [e.args[0] for e in product.args if e.op == "cast"] if product.op == "mul" else []
    if old.op != "load" or old.value is not store.buffer or product.dtype != old.dtype or len(factors) != 2:
        return None
    words = [_word(e, s.var, old.dtype) for e in factors if e.op == "load" and e.dtype.bits == bits and of in e.dtype]
    if None in words or len(words) != 2 or any(s.var in variables(i) for i in store.indices):
        return None
    return replace(store, value=old + words[0] * words[1])  # type: ignore[operator]


def _word(load: Expr, step: Expr, of: DType) -> Expr | None:
    """The word that neighbours in memory are."""
    count = 32 // load.dtype.bits
    *outer, last = load.args
    if any(step in variables(i) for i in outer) or step not in variables(last):
        return None
    at = simplify(floordiv(substitute(last, {step: const(0)}), count))
    return make("load", of, (*outer, at), _as_words(load.value, of, count))


@lru_cache(maxsize=256)
def _as_words(b: Buffer, of: DType, count: int) -> Buffer:
    return Buffer(b.name, (*b.shape[:-1], simplify(ceildiv(b.shape[-1], count))), of, b.scope)


def _of_the_first_lane(s: Store) -> Store:
    """A store with vectors that its user wrote (`te.extern`): where its first lane reads and writes."""
    if all(e.dtype.lanes == 1 for i in (s.value, *s.indices) for e in post_order(i)):
        return s
    done: dict[Expr, Expr] = {}
    for e in post_order(s.value):
        args = tuple(map(_first_lane, e.args)) if e.op == "load" else tuple(done[a] for a in e.args)
        done[e] = make(e.op, e.dtype, args, e.value)
    return replace(s, indices=tuple(map(_first_lane, s.indices)), value=done[s.value])


def _first_lane(index: Expr) -> Expr:
    done: dict[Expr, Expr] = {}
    for e in post_order(index):
        args = tuple(done[a] for a in e.args)
        done[e] = args[0] if e.op in ("ramp", "broadcast") else make(e.op, e.dtype.with_lanes(1), args, e.value)
    return done[index]


def _loops_that_run(s: If, loops: tuple[For, ...]) -> tuple[For, ...]:
    """The loops around that repeat the body of an `if`: not those of whose first iteration it is a part."""
    first = {c.args[0] for c in conjuncts(s.condition) if c.op == "eq"}
    return tuple(x for x in loops if x.var not in first)


def is_task(loop: For) -> bool:
    return loop.kind == "parallel" or loop.thread.startswith("blockIdx")


def product(loops: Iterable[For]) -> Expr:
    """The product of the extents of some loops."""
    return reduce(mul, (loop.extent for loop in loops), const(1))


def total(terms: Iterable[Expr]) -> Expr:
    """The sum; 0 where there are none."""
    return reduce(add, terms, const(0))


def ratio(a: object, b: object) -> Expr:
    """A real quotient: evaluation is in float64, so this is not integer division."""
    return divide(cast_to("float64", a), maximum(cast_to("float64", b), 1.0))


def of_the_last(loops: Sequence[For], value: Callable[[int], Expr], without: Expr) -> Expr:
    """`value(i)` for the last of the loops that runs more than once: one that runs once is no loop."""
    result = without
    for at, loop in enumerate(loops):
        result = select(loop.extent > 1, value(at), result)
    return result


#: What operators of a chain cost beside an addition, by name and by kind; choices and conditions cost little.
_STEPS = {"div": 3, "arith": 1, "bits": 1, "math": 6}


def _step(op: str) -> int:
    return _STEPS.get(op) or _STEPS.get(OPS[op].kind, 0)


def steps_of_chain(main: Site, sites: Sequence[Site]) -> int:
    """How many operations of a step wait for each other and for the step before, in additions: 1 of a sum.

    A combiner of one's own may take many: the mean of two means is `a + d * n / m`, and `d` is made of `a`.
    """
    together = [x for x in sites if len(x.loops) == len(main.loops) and all(map(is_, x.loops, main.loops))]
    places = {x.store.buffer: x.store.indices for x in together}
    longest = 1
    for site in together:
        steps: dict[Expr, int] = {}
        for e in post_order(site.store.value):
            if e.op == "load" and e.value in places:
                if all(map(is_, e.args, places[e.value])):
                    steps[e] = 0
            elif before := [steps[a] for a in e.args if a in steps]:
                steps[e] = max(before) + (0 if e.dtype.is_bool or e.op not in OPS else _step(e.op))
        longest = max(longest, steps.get(site.store.value, 0))
    return longest


def is_arithmetic(e: Expr) -> bool:
    """Whether it computes a value, not an index or a choice between values."""
    return not (is_index(e) or e.dtype.is_bool or e.op in ("load", *CHOICES))
