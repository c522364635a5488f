"""Named decisions of a template: splits of a loop, orders of loops, marks on them.

    tile = s.define_split("tile", j, num_outputs=3)      # knobs tile_1, tile_2, and that they divide
    j0, j1, j2 = tile.apply("C", j)

For the policies and the order of values see `candidates`. A split consists of knobs, within one sketch. An order of
loops and their marks change the structure: each is a `choose`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from autosched.errors import NoValueYet, ScheduleError, UsageError, UsageTypeError, with_line
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, as_expr, compare, const, floormod, logical_and, logical_or
from autosched.ir.functions import FunctionOf
from autosched.ir.ops import COMPARISONS
from autosched.schedule.candidates import marks, orders, powers_of_two, split_sizes
from autosched.schedule.loop import leaf_extents
from autosched.schedule.stage import Loop
from autosched.te.tensor import IterVar

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage


#: Combinations that a filter written in Python may be asked about, one by one.
MAX_COMBINATIONS = 100_000
#: Combinations on which a filter must agree with the expression that it made of knobs.
CHECKED = 2_000


@dataclass(frozen=True)
class Split:
    """Sizes of the loops that a loop is split into, outermost first. The first is -1: what is left.

    `rows` are all the sizes it may have but the first, as numbers.
    """

    name: str
    size: tuple[Any, ...]
    rows: tuple[tuple[int, ...], ...] = field(default=(), repr=False)
    schedule: Schedule | None = field(default=None, repr=False)

    @property
    def val(self) -> list[Any]:
        """The sizes as a list."""
        return list(self.size)

    @property
    def knobs(self) -> list[Expr]:
        """Those of the sizes that are open."""
        return [x for x in self.size[1:] if isinstance(x, Expr)]

    def apply(self, stage: Any, loop: Any) -> list[Loop]:
        """Split a loop of a stage, from the outside in. Returns the new loops, outermost first."""
        assert self.schedule is not None
        return split_by(self.schedule, stage, loop, self.size)


@dataclass(frozen=True)
class Reorder:
    """An order of loops: `perm[i]` is the position, in the list given, of the loop that comes i-th."""

    name: str
    perm: tuple[int, ...]
    schedule: Schedule = field(repr=False)

    def apply(self, stage: Any, loops: Sequence[Any]) -> list[Any]:
        """Reorder the loops of a stage, or those of them that there are. Returns them in their new order."""
        return reorder_by(self.schedule, stage, loops, self.perm)


@dataclass(frozen=True)
class Annotate:
    """Marks of loops: `anns`; or the positions of loops where caches go."""

    name: str
    anns: tuple[Any, ...]
    schedule: Schedule = field(repr=False)

    def apply(
        self,
        stage: Any,
        loops: Sequence[Any],
        extents: Sequence[Any] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        source: Sequence[Sequence[Any]] | None = None,
    ) -> list[Any]:
        """Mark the loops of a stage. Returns the loops, with a fused one in the place of the last of its parts.

        max_unroll, vec_size: the most iterations of an unrolled loop, and the choices for a vector loop: a constraint
            if they depend on knobs; otherwise ScheduleError is raised.
        extents: the iterations of the loops, if other than the schedule's
        source: for `locate_cache`, the stages to compute at each of the chosen loops
        """
        if source is not None:
            return compute_caches(self.schedule, stage, loops, self.anns, source)
        if len(loops) != len(self.anns):
            legal = f"the {len(self.anns)} loops it was defined for"
            raise _error(f"{self.name}.apply", f"it got {len(loops)} loops", legal)

        def limit(at: int, loop: Any) -> None:
            if self.anns[at] == "unroll":
                self._limit(stage, loop, extents, at, "unroll", [] if max_unroll is None else range(1, max_unroll + 1))
            else:
                self._limit(stage, loop, extents, at, "vectorize", vec_size or [])

        return mark_by(self.schedule, stage, loops, self.anns, limit)

    def _limit(
        self, stage: Any, loop: Any, extents: Sequence[Any] | None, at: int, action: str, allowed: Sequence[int]
    ) -> None:
        """Only candidates in which a loop has one of these numbers of iterations, if any are given."""
        if not allowed:
            return
        extent = _extent_of(loop, "apply", self.schedule[stage]) if extents is None else as_expr(extents[at])
        wanted = f"at most {allowed[-1]}" if isinstance(allowed, range) else f"one of {list(allowed)}"
        reason = f"{self.name}: a loop to {action} has {wanted} iterations"
        if extent.op == "const":
            if int(extent.value) not in allowed:
                raise _error(f"{self.name}.apply", f"the loop to {action} has {extent.value} iterations", wanted)
        elif isinstance(allowed, range):
            self.schedule.constrain(compare("le", extent, allowed[-1]), reason)
        else:
            left: Expr = const(1)
            for value in allowed:
                left = left * (extent - value)
            self.schedule.constrain(compare("eq", left, 0), reason)


# -- what a decision does to a schedule -----------------------------------------------------------------


def split_by(s: Schedule, stage: Any, loop: Any, size: Sequence[Any]) -> list[Any]:
    """Split a loop of a stage into loops of these sizes, but for the first. Returns them, outermost first."""
    found = []
    for at in range(1, len(size)):
        outer, loop = s[stage].split(loop, factor=prod(size[at:]))
        found.append(outer)
    return [*found, loop]


def reorder_by(s: Schedule, stage: Any, loops: Sequence[Any], perm: Sequence[int]) -> list[Any]:
    """Put loops of a stage into the order of the positions `perm`. Positions of no loop are ignored."""
    order = [loops[i] for i in perm if i < len(loops)]
    s[stage].reorder(*order)
    return order


def mark_by(
    s: Schedule, stage: Any, loops: Sequence[Any], marks: Sequence[Any], limit: Callable[[int, Any], None]
) -> list[Any]:
    """Mark each loop: see `candidates.marks`. Returns the loops, a fused one in the place of the last of its parts.

    limit: called with the position of a loop and the loop before it is unrolled or vectorized
    """
    found = list(loops)
    for i, mark in enumerate(marks):
        if mark in ("unroll", "vec"):
            limit(i, found[i])
            (s[stage].unroll if mark == "unroll" else s[stage].vectorize)(found[i])
        elif mark == "fuse":
            found[i + 1] = s[stage].fuse(found[i], found[i + 1])
        elif mark != "none":
            s[stage].bind(found[i], mark)
    return found


def compute_caches(
    s: Schedule, stage: Any, loops: Sequence[Any], places: Sequence[int], source: Sequence[Sequence[Any]]
) -> list[Any]:
    """Compute the stages of `source[i]` at loop number `places[i]` of another stage. Returns the loops."""
    for stages, at in zip(source, places, strict=False):
        for one in stages:
            s[one].compute_at(s[stage], loops[at])
    return list(loops)


#: tells which values may be combined, given one value of each decision or knob it was registered for
Filter: TypeAlias = FunctionOf[Any, object]


class SplitBy(TypedDict, total=False):
    """The options of `Schedule.define_split`."""

    num_outputs: int
    max_factor: int | None
    filter: Callable[[Split], object] | None
    candidate: Sequence[Sequence[int]]
    no_tail: bool | None


# -- definitions ----------------------------------------------------------------------------------------


def define(s: Schedule, kind: str, name: str, loops: Any, policy: str, **options: Any) -> Any:
    """A split, reorder or annotate of that name; the same for the same definition again."""
    call = f"define_{kind}({name!r}, policy={policy!r})"
    # A filter is a new function each time a template runs.
    definition = (kind, str(loops), policy, {k: str(v) for k, v in options.items() if not callable(v)})
    if s.definitions.setdefault(name, definition) != definition:
        raise _error(call, f"{name} is defined already, in another way", "another name")
    if name not in s.decisions:
        makers: dict[str, Callable[..., Any]] = {"split": split, "reorder": reorder, "annotate": annotate}
        try:
            s.decisions[name] = makers[kind](s, name, loops, policy, **options)
        except TypeError as error:
            if isinstance(error, UsageTypeError) and not isinstance(error, NoValueYet):
                raise
            raise _error(call, str(error), f"options of define_{kind} and its policies") from None
    return s.decisions[name]


def split(
    s: Schedule,
    name: str,
    loop: Any,
    policy: str = "factors",
    num_outputs: int = 2,
    max_factor: int | None = None,
    filter: Callable[[Split], object] | None = None,
    candidate: Sequence[Sequence[int]] = (),
    no_tail: bool | None = None,
) -> Split:
    """See `Schedule.define_split`."""
    call = f"define_split({name!r}, policy={policy!r}, num_outputs={num_outputs!r})"
    extent = _extent_of(loop, call)
    rows = _split_rows(call, extent, policy, num_outputs, max_factor, candidate, no_tail)
    if filter is not None and len(rows[0]) == 1:
        rows = [r for r in rows if _asked(call, filter, [Split(name, (-1, *r))])]
        if not rows:
            raise _error(call, "the filter rejects every candidate", "a filter that some candidate passes")
    divides = None if policy == "candidate" else policy == "factors" if no_tail is None else no_tail
    made = Split(name, (-1, *knobs_of_sizes(s, name, rows, extent, divides)), tuple(rows), s)
    if filter is not None and len(rows[0]) > 1:
        _restrict(s, call, [made], filter, f"the filter of {name}")
    return made


def knobs_of_sizes(
    s: Schedule,
    name: str,
    rows: Sequence[tuple[int, ...]],
    extent: Expr,
    divides: bool | None,
    prefix: str | None = None,
) -> list[Any]:
    """A knob for each size that differs between the rows, and the constraint that leaves the rows alone.

    divides: whether the sizes divide the extent (else they fit into it); None where the rows are just a list
    prefix:  what knobs are called by, with the number of the size; the name if not given
    """
    columns = [sorted(set(column)) for column in zip(*rows, strict=True)]
    sizes = [
        column[0] if len(column) == 1 else s.define_knob(f"{prefix or name}_{i}", column)
        for i, column in enumerate(columns, 1)
    ]
    if extent.op == "const" and len(rows) == prod(map(len, columns)):
        return sizes
    inner = prod(sizes, start=const(1))
    if divides is None:
        of_knobs = [i for i, x in enumerate(sizes) if isinstance(x, Expr)]
        if len(rows) < prod(map(len, columns)):
            rest = [[r[i] for i in of_knobs] for r in rows]
            s.among([sizes[i] for i in of_knobs], rest, f"{name} is one of its candidates")
    elif divides:
        s.constrain(compare("eq", floormod(extent, inner), 0), f"the sizes of {name} divide {extent!r}")
    else:
        s.constrain(compare("le", inner, extent), f"the sizes of {name} fit into {extent!r}")
    return sizes


def _split_rows(
    call: str,
    extent: Expr,
    policy: str,
    parts: int,
    max_factor: int | None,
    candidate: Sequence[Sequence[int]],
    no_tail: bool | None,
) -> list[tuple[int, ...]]:
    """The sizes but the first, in the order of `candidates`. Of an extent that is no number, those below max_factor."""
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise _error(call, f"a loop is not split into {parts!r} loops", "num_outputs: a positive integer")
    sizes = [x for c in candidate for x in c[1:]] if policy == "candidate" else []
    if not all(isinstance(x, int) and not isinstance(x, bool) and x > 0 for x in sizes):
        raise _error(call, "a size is not a positive integer", "lists of sizes; the first is what is left, -1")
    if policy in ("factors", "verbose", "power2") and extent.op != "const":
        if policy != "power2" or not max_factor or no_tail:
            legal = "policy='power2' with max_factor, or 'candidate': the others count the divisors of a number"
            raise _error(call, f"the loop has {extent!r} iterations", legal)
        return [tuple(reversed(r)) for r in product(powers_of_two(max_factor), repeat=parts - 1)]
    number = int(extent.value) if extent.op == "const" else 1
    most = 1 << 31 if max_factor is None else max_factor
    try:
        found = split_sizes(number, parts, policy, max_factor=most, no_tail=no_tail, candidate=candidate)
    except UsageError as error:
        raise _error(call, error.why, error.legal) from None
    if not found:
        raise _error(call, "there is no candidate", "max_factor of 1 or more; a list of candidates for 'candidate'")
    return list(dict.fromkeys(r[1:] for r in found))


def reorder(s: Schedule, name: str, loops: Sequence[Any], policy: str = "all", **options: Any) -> Reorder:
    """See `Schedule.define_reorder`."""
    call = f"define_reorder({name!r}, policy={policy!r})"
    names = [_name(x) for x in loops]
    if len(set(names)) < len(names):
        raise _error(call, "a loop is given twice", "each loop once")
    listed: dict[str, Any] = {
        k: _names(v) if k in ("candidate", "spatial", "reduce") else v for k, v in options.items()
    }
    begin, end = listed.get("interval", (0, 0))
    if not 0 <= begin <= end <= len(names) or (policy == "interval_all" and "interval" not in listed):
        raise _error(call, "there is no such interval", f"interval=(begin, end), from 0 to {len(names)}")
    try:
        perms = orders(names, policy, **listed)
    except (UsageError, TypeError) as error:
        raise _error(call, getattr(error, "why", str(error)), getattr(error, "legal", "")) from None
    if any(sorted(p) != list(range(len(names))) for p in perms):
        raise _error(call, "an order leaves out a loop or has one twice", f"orders of {', '.join(names)}")
    perms = list(dict.fromkeys(perms))
    return Reorder(name, perms[_chosen(s, call, name, [" ".join(names[i] for i in p) for p in perms])], s)


def annotate(s: Schedule, name: str, loops: Sequence[Any], policy: str = "none", num_anchor: int = 1) -> Annotate:
    """See `Schedule.define_annotate`."""
    call = f"define_annotate({name!r}, policy={policy!r})"
    if not 0 <= num_anchor <= len(loops):
        raise _error(call, f"num_anchor={num_anchor} of {len(loops)} loops", f"0 to {len(loops)}")
    try:
        found = list(dict.fromkeys(marks(len(loops), policy, num_anchor=num_anchor)))
    except UsageError as error:
        raise _error(call, error.why, error.legal) from None
    return Annotate(name, found[_chosen(s, call, name, [" ".join(map(str, m)) for m in found])], s)


def _chosen(s: Schedule, call: str, name: str, labels: list[str]) -> int:
    """The position of what was chosen; no question is asked where there is one answer."""
    if not labels:
        raise _error(call, "there is no candidate", "a policy, and loops, that leave one")
    return labels.index(s.choose(name, labels)) if len(labels) > 1 else 0


def _name(loop: Any) -> str:
    return loop if isinstance(loop, str) else str(getattr(loop, "name", loop))


def _names(value: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[_name(x) for x in chain] for chain in value]


# -- filters --------------------------------------------------------------------------------------------


def multi_filter(s: Schedule, names: Sequence[str], fn: Filter, reason: str = "") -> None:
    """See `Schedule.multi_filter`."""
    call = f"multi_filter({list(names)!r})"
    known = {**{k: v.var for k, v in s.knobs.items()}, **s.choices_made, **s.decisions}
    strange = next((n for n in names if n not in known), None)
    if strange is not None:
        raise _error(call, f"nothing is called {strange!r}", f"defined so far: {', '.join(known) or 'nothing'}")
    _restrict(s, call, [known[n] for n in names], fn, reason or f"the filter of {', '.join(names)}")


def _restrict(s: Schedule, call: str, what: Sequence[Any], fn: Filter, reason: str) -> None:
    """Allow only what a function of decisions and knobs passes: by its comparisons of open knobs, or as a list."""
    knobs = list(dict.fromkeys(v for x in what for v in _open(x)))
    count = prod(len(_rows_of(s, x)) for x in what)
    try:
        result = fn(*what)
    except Exception:  # whatever it does with numbers, these are none
        result = None
    conditions = _conjuncts(result) if isinstance(result, Expr) else []
    if conditions and _agree(s, call, what, fn, conditions, count):
        for condition in conditions:
            s.constrain(condition, reason)
        return
    if count > MAX_COMBINATIONS:
        raise _error(
            call,
            f"the filter would be asked about {count:,} combinations",
            f"a filter that returns one comparison of sizes and knobs, or {MAX_COMBINATIONS:,} combinations at most",
        )
    kept = [values for values, bound in _combinations(s, what) if _asked(call, fn, bound)]
    if not kept:
        raise _error(call, "the filter rejects every candidate", "a filter that some candidate passes")
    if knobs and len(kept) < count:
        s.among(knobs, [[values[v] for v in knobs] for values in kept], reason)


def _open(x: Any) -> list[Expr]:
    return x.knobs if isinstance(x, Split) else [x] if isinstance(x, Expr) else []


def _rows_of(s: Schedule, x: Any) -> Sequence[Any]:
    """The values that a decision or knob may have."""
    if isinstance(x, Split):
        return x.rows
    return s.knobs[x.name].values if isinstance(x, Expr) else (x,)


def _combinations(s: Schedule, what: Sequence[Any]) -> Iterator[tuple[dict[Expr, int], list[Any]]]:
    """The values of the knobs and the arguments of the filter, for every combination."""
    return (_bound(what, chosen) for chosen in product(*(_rows_of(s, x) for x in what)))


def _bound(what: Sequence[Any], chosen: Sequence[Any]) -> tuple[dict[Expr, int], list[Any]]:
    """The values of the knobs and the arguments of the filter, for one combination."""
    values: dict[Expr, int] = {}
    given: list[Any] = []
    for x, row in zip(what, chosen, strict=True):
        if isinstance(x, Split):
            values.update({v: r for v, r in zip(x.size[1:], row, strict=True) if isinstance(v, Expr)})
            given.append(replace(x, size=(-1, *row)))
        else:
            if isinstance(x, Expr):
                values[x] = row
            given.append(row)
    return values, given


def _asked(call: str, fn: Filter, given: Sequence[Any]) -> bool:
    try:
        return bool(fn(*given))
    except Exception as error:
        shown = ", ".join(str(list(x.size)) if isinstance(x, Split) else repr(x) for x in given)
        why = f"the filter raised {type(error).__name__} for {shown}: {error}"
        raise _error(call, why, "a function that returns whether they may be") from error


def _conjuncts(e: Expr) -> list[Expr]:
    """The comparisons that `e` says hold all; none if it says something else."""
    if e.op == "and":
        parts = [_conjuncts(a) for a in e.args]
        return [c for part in parts for c in part] if all(parts) else []
    return [e] if e.op in COMPARISONS else []


def _agree(s: Schedule, call: str, what: Sequence[Any], fn: Filter, conditions: list[Expr], count: int) -> bool:
    """Return whether the conditions agree with the function, and some values pass."""
    # Python's `and` and `or` lose parts of a condition
    if count <= CHECKED:
        tries = list(islice(_combinations(s, what), CHECKED))
    else:
        rng, rows = random.Random(0), [_rows_of(s, x) for x in what]
        tries = [_bound(what, [rng.choice(r) for r in rows]) for _ in range(CHECKED)]
    passed = [bool(all(evaluate(conditions, dict(values)))) for values, _ in tries]
    if count <= CHECKED and not any(passed):
        return False  # the list is empty, too, and says so
    return passed == [_asked(call, fn, given) for _, given in tries]


def among(
    s: Schedule, knobs: Sequence[Any], rows: Iterable[Sequence[int]], reason: str
) -> tuple[list[str], list[list[int]]]:
    """See `Schedule.among`. Returns the names and rows."""
    names = [k if isinstance(k, str) else getattr(k, "name", "") for k in knobs]
    listed = list(dict.fromkeys(tuple(int(v) for v in row) for row in rows))
    call = f"among([{', '.join(map(repr, names))}], {len(listed)} rows)"
    strange = next((n for n in names if n not in s.knobs), None)
    if strange is not None or not names:
        why = "no knob is given" if strange is None else f"{strange!r} is no knob of this schedule"
        raise _error(call, why, f"knobs: {', '.join(s.knobs) or 'none'}")
    found = [s.knobs[n] for n in names]
    for row in listed:
        if len(row) != len(found) or any(v not in k.values for k, v in zip(found, row, strict=True)):
            legal = "; ".join(f"{k.name}: {list(k.values)}" for k in found)
            raise _error(call, f"{list(row)} are not values of these knobs", legal)
    if not listed:
        raise _error(call, "no row is allowed", "one row at least")
    said = reason or f"{', '.join(names)} are not among what they may be together"
    s.require(membership([k.var for k in found], listed), said)
    return names, [list(row) for row in listed]


def membership(knobs: Sequence[Expr], rows: Sequence[tuple[int, ...]]) -> Expr:
    """The condition that the values of knobs are one of the rows, which tests common prefixes once."""
    after: dict[tuple[int, ...], set[int]] = {}
    for row in rows:
        after.setdefault(row[:-1], set()).add(row[-1])
    heads: dict[frozenset[int], list[tuple[int, ...]]] = {}
    for head, last in after.items():
        heads.setdefault(frozenset(last), []).append(head)
    found = []
    for values, before in heads.items():
        here = _any([compare("eq", knobs[-1], value) for value in sorted(values)])
        found.append(logical_and(membership(knobs[:-1], before), here) if len(knobs) > 1 else here)
    return _any(found)


def _any(conditions: list[Expr]) -> Expr:
    """One of them holds; nested evenly, because there may be thousands."""
    while len(conditions) > 1:
        pairs = [conditions[i : i + 2] for i in range(0, len(conditions), 2)]
        conditions = [logical_or(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return conditions[0]


# -- extents and errors -----------------------------------------------------------------------------------


def _extent_of(loop: Any, call: str, stage: Stage | None = None) -> Expr:
    """The iterations of a loop or an axis, of the stage if one is given, or a number given."""
    if stage is not None and isinstance(loop, (IterVar, str)):
        loop = (stage.roots.get(loop) if isinstance(loop, IterVar) else stage.loop_named(loop)) or loop
    if isinstance(loop, Loop):
        if loop not in loop.stage.loops:
            legal = f"loops of {loop.stage.name}: {loop.stage.describe()}"
            raise _error(call, f"{loop.full_name} was already split or fused away", legal)
        return leaf_extents(loop.stage)[loop]
    if isinstance(loop, IterVar):
        return loop.extent
    try:
        return as_expr(loop)
    except UsageError:
        raise _error(call, f"{loop!r} is not a loop", "a loop, an axis, or a number of iterations") from None


def _error(call: str, why: str, legal: str) -> ScheduleError:
    return ScheduleError(why, asked=with_line(call), legal=legal)
