"""Configurations: `ConfigSpace` collects what a template leaves open, `ConfigEntity` is one way to decide it.

A configuration is an entity for each decision: a split, an order, annotations, or any other value. Sizes of a split,
and values, are numbers in a configuration, and knobs while a template is traced. A configuration's index counts in
mixed radix over the entities in the order they were defined, the first one fastest: the numbers in AutoTVM's logs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.schedule.candidates import divisors, marks, orders, powers_of_two, split_sizes
from autosched.schedule.decisions import compute_caches, mark_by, reorder_by, split_by

get_factors, get_pow2s = divisors, powers_of_two


class Entity:
    """Base of the four kinds of decisions. `kind` is their mark in logs, and `value` what a log keeps of one."""

    kind = ""
    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entity) and repr(self) == repr(other) and self.kind == other.kind

    def __hash__(self) -> int:
        return hash((self.kind, repr(self)))

    def __repr__(self) -> str:
        return str(self.value)


class SplitEntity(Entity):
    """Sizes of the loops that a loop is split into, outermost first; -1 stands for the rest.

    >>> SplitEntity([-1, 8])
    [-1, 8]
    """

    kind = "sp"

    def __init__(self, size: Sequence[Any]) -> None:
        self.value = self.size = list(size)

    def apply(self, sch: Any, op: Any, axis: Any) -> list[Any]:
        """Split a loop of a stage. Return the new loops, outermost first."""
        return split_by(sch, op, axis, self.size)


class ReorderEntity(Entity):
    """An order of loops: for each place, the loop that comes there.

    >>> ReorderEntity([0, 2, 1])
    [0, 2, 1]
    """

    kind = "re"

    def __init__(self, perm: Sequence[int]) -> None:
        self.value = self.perm = list(perm)

    def apply(self, sch: Any, op: Any, axes: Sequence[Any]) -> list[Any]:
        """Reorder these loops of a stage. Return them in the new order."""
        return reorder_by(sch, op, axes, self.perm)


class AnnotateEntity(Entity):
    """For each loop `none`, `unroll`, `vec`, `fuse` or a thread axis; or the loops at which caches go.

    >>> AnnotateEntity(["none", "vec"])
    ['none', 'vec']
    """

    kind = "an"

    def __init__(self, anns: Sequence[Any]) -> None:
        self.value = self.anns = list(anns)

    def apply(
        self,
        sch: Any,
        op: Any,
        axes: Sequence[Any],
        axis_lens: Sequence[Any] | None = None,
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
        cfg: Any = None,
        source: Sequence[Sequence[Any]] | None = None,
    ) -> list[Any]:
        """Annotate these loops of a stage. Return the loops afterwards.

        source:    tensors to compute at each of the chosen loops
        axis_lens: the lengths of the loops: one to unroll that exceeds `max_unroll`, or one to vectorize that is not
                   in `vec_size`, makes the configuration `cfg` invalid
        """
        if source is not None:
            return compute_caches(sch, op, axes, self.anns, source)

        def limit(at: int, loop: Any) -> None:
            length = axis_lens[at] if axis_lens is not None else None
            if length is None:
                return
            if self.anns[at] == "unroll" and max_unroll and length > max_unroll:
                cfg.raise_error("Too large factor for unrolling")
            if self.anns[at] == "vec" and vec_size and length not in vec_size:
                cfg.raise_error("Wrong size of lanes in vectorization")

        return mark_by(sch, op, axes, self.anns, limit)


class OtherOptionEntity(Entity):
    """Any value; `val`.

    >>> OtherOptionEntity(16).val
    16
    """

    kind = "ot"

    def __init__(self, val: Any) -> None:
        self.value = self.val = val


_KINDS: dict[str, type[Any]] = {k.kind: k for k in (SplitEntity, ReorderEntity, AnnotateEntity, OtherOptionEntity)}


def entity_of(kind: str, value: Any) -> Entity:
    """Return the entity that a log has as `kind` and `value`. Raises UsageError for another kind."""
    if kind not in _KINDS or (kind != "ot" and not isinstance(value, list)):
        raise UsageError(
            f"{kind!r} with {value!r:.60} is no entity", asked="a configuration", legal="sp, re, an with a list; ot"
        )
    made: Entity = _KINDS[kind](value)
    return made


#: a space that a filter over several entities is applied to has at most so many points
MAX_FILTERED = 10_000_000


class VirtualAxis:
    """A loop that there is no schedule for yet; `length` is -1 where it is not known."""

    def __init__(self, var: Any, name: str | None = None) -> None:
        extent = var.dom.extent if getattr(var, "dom", None) is not None else getattr(var, "extent", var)
        constant = getattr(extent, "op", None) == "const"
        self.length = int(extent) if constant or isinstance(extent, int) else getattr(extent, "length", -1)
        self.name: str = name or getattr(var, "name", None) or "axis"
        #: two of one loop are equal, two of one number are not
        self.of = self if isinstance(var, int) else var

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VirtualAxis) and self.of is other.of

    def __hash__(self) -> int:
        return id(self.of)

    def __repr__(self) -> str:
        return self.name


class Axis:
    """The loop at position `index` of those that a split, an order or annotations leave."""

    def __init__(self, space: TransformSpace | None, index: int) -> None:
        self.space, self.index = space, index


class TransformSpace:
    """The candidates of one decision.

    product: the length of a loop that is split
    tail:    whether sizes of a split need not divide the length; None where they are just a list
    """

    def __init__(
        self, kind: str, entities: Sequence[Entity], num_output: int, product: int = 0, tail: bool | None = None
    ) -> None:
        self.kind, self.entities, self.num_output = kind, list(entities), num_output
        self.product, self.tail = product, tail

    def __len__(self) -> int:
        return len(self.entities)

    def __getitem__(self, index: int) -> Entity:
        return self.entities[index]

    def __repr__(self) -> str:
        return f"{_TITLES[self.kind]}({self.num_output} loops) len={len(self)}"


_TITLES = {"sp": "Split", "re": "Reorder", "an": "Annotate", "ot": "OtherOption"}


class ConfigSpace:
    """All configurations of a template; `get_config()` returns it while the space is collected.

    `cfg["tile_y"]` is the entity of that name; while collecting, the first candidate.

    >>> cfg = ConfigSpace()
    >>> _ = cfg.define_split("tile_y", 64, num_outputs=2)
    >>> _ = cfg.define_knob("unroll", [False, True])
    >>> len(cfg), cfg.get(8)["tile_y"], cfg.get(8)["unroll"].val
    (14, [-1, 2], True)
    """

    is_fallback = False
    _collects = True

    def __init__(self) -> None:
        self.space_map: dict[str, TransformSpace] = {}
        self._entity_map: dict[str, Entity] = {}
        self.filters: list[Callable[[Mapping[str, Entity]], bool]] = []
        self._valid: np.ndarray | None = None
        self.errors: list[str] = []
        self.code_hash: str | None = None
        self.flop = 0.0
        self.cost: float | None = None

    # -- what a template defines ------------------------------------------------------------------
    @staticmethod
    def axis(var: Any) -> Any:
        """Return a loop for the definitions, of a length or in place of a loop."""
        return VirtualAxis(var)

    reduce_axis = axis

    def define_split(self, name: str, axis: Any, policy: str = "factors", **options: Any) -> list[Axis]:
        """Split a loop into `num_outputs`: see `split_sizes` for the policies; `filter` takes a SplitEntity."""
        parts = options.pop("num_outputs", 0)
        if not self._collects:
            return [Axis(None, i) for i in range(parts)]
        length = (axis if isinstance(axis, VirtualAxis) else VirtualAxis(axis)).length
        keep = options.pop("filter", None)
        options.pop("disable_tail_split", None)
        made = [SplitEntity(size) for size in split_sizes(length, parts, policy, **options)]
        exact = options.get("no_tail", policy == "factors")
        tail = None if keep is not None or policy == "candidate" else not exact
        kept = [e for e in made if keep is None or keep(e)]
        return self._add(name, TransformSpace("sp", kept, parts, length, tail))

    def define_reorder(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> list[Axis]:
        """Reorder loops: see `orders` for the policies."""
        if not self._collects:
            return [Axis(None, i) for i in range(len(axes))]
        return self._add(
            name,
            TransformSpace("re", [ReorderEntity(p) for p in orders(list(axes), policy, **options)], len(axes)),
        )

    def define_annotate(self, name: str, axes: Sequence[Any], policy: str, **options: Any) -> list[Axis]:
        """Unroll, vectorize or bind loops: see `marks` for the policies."""
        if not self._collects:
            return [Axis(None, i) for i in range(len(axes))]
        made = [AnnotateEntity(a) for a in marks(len(axes), policy, **options)]
        return self._add(name, TransformSpace("an", made, len(axes)))

    def define_knob(self, name: str, candidate: Iterable[Any]) -> list[Axis]:
        """Choose a value of a list: `cfg[name].val`."""
        if not self._collects:
            return []
        return self._add(name, TransformSpace("ot", [OtherOptionEntity(v) for v in candidate], 0))

    def multi_filter(self, filter: Callable[[Mapping[str, Entity]], bool]) -> None:
        """Keep the configurations for which `filter(entities by name)` is true."""
        if self._collects:
            self.filters.append(filter)
            self._valid = None

    def add_flop(self, flop: Any) -> None:
        """Add to the floating-point operations of one call."""
        self.flop += float(getattr(flop, "value", flop))

    def raise_error(self, msg: str) -> None:
        """Mark this configuration as invalid, for this reason."""
        self.errors.append(msg)

    def valid(self) -> bool:
        """Return whether no error was raised."""
        return not self.errors

    def _add(self, name: str, space: TransformSpace) -> list[Axis]:
        if not space.entities:
            raise UsageError(
                "no candidate is left", asked=f"the definition of {name!r}", legal="at least one: see policy and filter"
            )
        self.space_map[name] = space
        self._entity_map[name] = space[0]
        self._valid = None
        return [Axis(space, i) for i in range(space.num_output)]

    # -- counting ---------------------------------------------------------------------------------
    @property
    def dims(self) -> list[int]:
        """The number of candidates of each entity, in the order of definition."""
        return [len(space) for space in self.space_map.values()]

    @property
    def range_length(self) -> int:
        """The number of configurations, with those that `multi_filter` rejects."""
        return math.prod(self.dims)

    def __len__(self) -> int:
        return self.range_length if not self.filters else int(self._mask.sum())

    @property
    def _mask(self) -> np.ndarray:
        """bool [range_length]: True for configurations that the filters keep."""
        if self._valid is None:
            n = self.range_length
            if n > MAX_FILTERED:
                raise UsageError(
                    f"a filter over all entities is called for each of {n} configurations",
                    asked="multi_filter",
                    legal=f"at most {MAX_FILTERED}: filter each split with define_split(filter=..) first",
                )
            kept = (all(keep(e) for keep in self.filters) for e in map(self.entities_at, range(n)))
            self._valid = np.fromiter(kept, dtype=bool, count=n)
        return self._valid

    def is_index_valid(self, index: int) -> bool:
        """Return whether there is such a configuration and no filter rejects it."""
        return 0 <= index < self.range_length and (not self.filters or bool(self._mask[index]))

    def subrange_length(self, start: int, end: int) -> int:
        """Count the valid indices from `start` to `end - 1`. Raises UsageError for a range outside of the space."""
        if not 0 <= start <= end <= self.range_length:
            raise UsageError(
                "it is no part of the space",
                asked=f"subrange_length({start}, {end})",
                legal=f"0 to {self.range_length}, the end not included",
            )
        return end - start if not self.filters else int(self._mask[start:end].sum())

    def point2knob(self, point: int) -> list[int]:
        """Return the position of each entity among its candidates, for an index."""
        knob = []
        for n in self.dims:
            knob.append(point % n)
            point //= n
        return knob

    def knob2point(self, knob: Sequence[int]) -> int:
        """Invert `point2knob`."""
        point = 0
        for position, n in zip(reversed(knob), reversed(self.dims), strict=True):
            point = point * n + int(position)
        return point

    def get_rand_index(
        self, start: int | None = None, end: int | None = None, to_exclude: Iterable[int] | None = None
    ) -> int:
        """Draw a valid index from `start` to `end - 1` that is not excluded. Raises UsageError when none is left."""
        low, high, known = start or 0, self.range_length if end is None else end, frozenset(to_exclude or ())
        for _ in range(100):
            index = random.randrange(low, high)
            if index not in known and self.is_index_valid(index):
                return index
        left = [i for i in range(low, high) if i not in known and self.is_index_valid(i)]
        if not left:
            raise UsageError("no index is left", asked=f"get_rand_index({low}, {high}, {len(known)} excluded)")
        return random.choice(left)

    def get_next_index(self, index: int, n: int = 1, start: int | None = None, end: int | None = None) -> int | None:
        """Return the n-th valid index after `index` (before it for n < 0), or None outside `start` to `end - 1`."""
        low, high = start or 0, self.range_length if end is None else end
        step = 1 if n > 0 else -1
        for _ in range(abs(n)):
            index += step
            while low <= index < high and not self.is_index_valid(index):
                index += step
        return index if low <= index < high else None

    def sample_ints(self, m: int) -> np.ndarray:
        """Draw m different valid indices, or all of them where there are fewer: int64."""
        if not self.filters and self.range_length > 4 * m:
            chosen: dict[int, None] = {}
            while len(chosen) < m:
                chosen[random.randrange(self.range_length)] = None
            return np.array(list(chosen), dtype=object if self.range_length > 1 << 62 else np.int64)
        valid = np.flatnonzero(self._mask) if self.filters else np.arange(self.range_length)
        return np.array(random.sample(valid.tolist(), min(m, len(valid))), dtype=np.int64)

    def random_walk(self, point: int) -> int:
        """Draw a valid neighbour, which differs in one entity; the point itself where there is none."""
        knob = self.point2knob(point)
        ways = [(i, v) for i, n in enumerate(self.dims) for v in range(n) if v != knob[i]]
        random.shuffle(ways)
        for i, v in ways:
            there = self.knob2point([*knob[:i], v, *knob[i + 1 :]])
            if self.is_index_valid(there):
                return there
        return point

    def clear_cache(self) -> None:
        """Forget the answers of the filters."""
        self._valid = None

    # -- looking up -------------------------------------------------------------------------------
    def entities_at(self, index: int) -> dict[str, Entity]:
        """Return the entities of a configuration, by name."""
        return {name: space[k] for (name, space), k in zip(self.space_map.items(), self.point2knob(index), strict=True)}

    def get(self, index: int) -> ConfigEntity:
        """Return the configuration with this index. Raises IndexError where there is none, or a filter rejects it."""
        index = int(index)
        if not 0 <= index < self.range_length:
            raise IndexError(f"index {index} is not in a space of {self.range_length} configurations")
        if not self.is_index_valid(index):
            raise IndexError(f"a filter of the space rejects configuration {index}")
        return ConfigEntity(index, self.code_hash, self.entities_at(index))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entity_map)

    def __contains__(self, name: object) -> bool:
        return name in self._entity_map

    def __getitem__(self, name: str) -> Any:
        found = self._entity_map.get(name)
        if found is None:
            raise UsageError(
                "nothing of that name is defined", asked=f"cfg[{name!r}]", legal=", ".join(self._entity_map) or "none"
            )
        return found

    def __repr__(self) -> str:
        lines = [f"  {i:2d} {name}: {space}" for i, (name, space) in enumerate(self.space_map.items())]
        return "\n".join([f"ConfigSpace (len={len(self)}, space_map=", *lines, ")"])


class ConfigEntity(ConfigSpace):
    """One configuration: definitions in the template change nothing, and `cfg[name]` is the decision."""

    _collects = False

    def __init__(
        self,
        index: int,
        code_hash: str | None,
        entity_map: Mapping[str, Entity],
        constraints: Sequence[Any] = (),
    ) -> None:
        super().__init__()
        self.index, self.code_hash, self._entity_map = index, code_hash, dict(entity_map)

    def get_other_option(self) -> dict[str, Any]:
        """Return the values that `define_knob` defined, by name."""
        return {k: e.val for k, e in self._entity_map.items() if isinstance(e, OtherOptionEntity)}

    def get_flatten_feature(self) -> np.ndarray:
        """Return its sizes, positions, marks (one of eleven) and numbers as one float32 vector."""
        row: list[Any] = []
        for e in self._entity_map.values():
            if isinstance(e, AnnotateEntity):
                row += [float(mark == m) for mark in e.anns for m in _MARKS]
            else:
                row += e.value if isinstance(e.value, list) else [e.value]
        return np.array(row, dtype=np.float32)

    def to_json_dict(self) -> dict[str, Any]:
        """Return the configuration as logs have it."""
        entity = [[name, e.kind, e.value] for name, e in self._entity_map.items()]
        return {"index": int(self.index), "code_hash": self.code_hash, "entity": entity}

    @staticmethod
    def from_json_dict(json_dict: Mapping[str, Any]) -> ConfigEntity:
        """Invert `to_json_dict`. Raises UsageError for data that is no configuration."""
        try:
            index, code_hash = int(json_dict["index"]), json_dict.get("code_hash")
            entities = {str(name): entity_of(kind, value) for name, kind, value in json_dict["entity"]}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                f"{type(error).__name__}: {error}",
                asked="a configuration",
                legal='{"index": n, "code_hash": text or null, "entity": [[name, kind, value], ...]}',
            ) from None
        return ConfigEntity(index, code_hash, entities)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigEntity) and self._entity_map == other._entity_map

    def __hash__(self) -> int:
        return hash(tuple(self._entity_map.items()))

    def __repr__(self) -> str:
        text = ", ".join(f"({name!r}, {e})" for name, e in self._entity_map.items())
        return f"[{text}],{self.code_hash},{self.index}"


_MARKS = (
    *("none", "vec", "unroll", "blockIdx.x", "blockIdx.y", "blockIdx.z"),
    *("threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread", "fuse"),
)


class FallbackConfigEntity(ConfigSpace):
    """The configuration of a template that was not tuned: the first candidates, or what the template sets.

    >>> cfg = FallbackConfigEntity()
    >>> _ = cfg.define_split("tile", cfg.axis(128), num_outputs=3)
    >>> cfg.fallback_split("tile", [-1, 8, 4])
    >>> cfg["tile"]
    [4, 8, 4]
    """

    is_fallback = True

    def _add(self, name: str, space: TransformSpace) -> list[Axis]:
        decided = self._entity_map.get(name)
        made = super()._add(name, space)
        if decided is not None and decided.kind == space.kind:
            self._entity_map[name] = decided
        return made

    def __setitem__(self, name: str, entity: Entity) -> None:
        self._entity_map[name] = entity

    def fallback_split(self, name: str, constraints: Sequence[int]) -> None:
        """Split by the largest divisors that do not exceed these sizes (-1: any), innermost first."""
        space = self.space_map.get(name)
        if space is None or space.kind != "sp" or len(constraints) != space.num_output:
            raise UsageError(
                f"it has not {len(constraints)} loops" if space is not None else "no split of that name is defined",
                asked=f"fallback_split({name!r}, {list(constraints)})",
                legal=", ".join(f"{n}: {s.num_output}" for n, s in self.space_map.items() if s.kind == "sp"),
            )
        if any(n < 1 and n != -1 for n in constraints):
            raise UsageError(
                "a loop has one iteration at least",
                asked=f"fallback_split({name!r}, {list(constraints)})",
                legal="the most iterations of each loop, or -1 for any number",
            )
        left, size = space.product, [0] * space.num_output
        for i in reversed(range(space.num_output)):
            size[i] = max(d for d in divisors(left) if constraints[i] == -1 or d <= max(1, constraints[i]))
            left //= size[i]
        self._entity_map[name] = SplitEntity(size)

    def fallback_with_reference_log(self, ref_log: Iterable[tuple[Any, Any]]) -> None:
        """Decide like the configuration of a log whose loops have most divisors in common with these."""
        splits = {name: set(divisors(s.product)) for name, s in self.space_map.items() if s.kind == "sp"}
        best: Any = None
        best_score = 0.0
        for inp, _ in ref_log:
            score = 0.0
            for name, ours in splits.items():
                if name in inp.config and isinstance(inp.config[name], SplitEntity):
                    theirs = set(divisors(abs(math.prod(inp.config[name].size))))
                    score += len(ours & theirs) / len(ours)
            if score > best_score:
                best, best_score = inp.config, score
        for name in self.space_map if best is not None else ():
            if name in splits and name in best:
                self.fallback_split(name, [-1, *best[name].size[1:]])
            elif name in best:
                self._entity_map[name] = best[name]

    def __repr__(self) -> str:
        text = ", ".join(f"({name!r}, {e})" for name, e in self._entity_map.items())
        return f"[{text}],{self.code_hash}"
