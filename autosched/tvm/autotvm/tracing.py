"""A template with its configuration space as sketches: one trace for each way to decide what changes its structure.

Sizes of splits and values from `define_knob` are knobs while the template runs. Where the template needs
such a value itself (`if cfg["unroll"].val:`, `range(..)`, an annotation), the entity becomes a choice
instead: the template runs once more, and there is one sketch for each of its candidates. Orders and
annotations always are choices. All definitions stand at the head of the trace.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from autosched.errors import AutoschedError, NoValueYet, WorkloadError
from autosched.ir.expr import const
from autosched.ir.visit import post_order
from autosched.records import Record
from autosched.schedule.entities import knobs_of_sizes
from autosched.schedule.schedule import Schedule, create_schedule, perform, shared_knobs
from autosched.space.space import SearchSpace
from autosched.space.workload import Template, Workload, WorkloadFunction
from autosched.target import Target
from autosched.te.graph_json import workload_key
from autosched.te.tensor import ComputeOp, Graph, Tensor
from autosched.tvm.autotvm.config import ConfigEntity, ConfigSpace
from autosched.tvm.autotvm.dispatcher import ApplyConfig
from autosched.tvm.autotvm.entities import Entity, OtherOptionEntity, SplitEntity
from autosched.tvm.autotvm.task.task import Task

__all__ = ["TracedTask"]


class _Traced(ConfigEntity):
    """The configuration that a template gets while it is traced; it knows what was asked for."""

    def __init__(self, entities: dict[str, Entity]) -> None:
        super().__init__(-1, None, entities)
        self.used: list[str] = []

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        self.used.append(name)
        return found


class TracedTask:
    """A task as a workload with a template, and the way back: from a record to its configuration."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        self.task = task
        self.space: ConfigSpace = task.config_space
        #: the configurations that are in: all, or those from `range_idx[0]` to `range_idx[1]`
        self.indices = range(self.space.range_length) if range_idx is None else range(range_idx[0], range_idx[1] + 1)
        assert task.target is not None
        self.target: Target = task.target
        with self.target:
            _, tensors = task.instantiate(self.space.get(_first(self.space)))
        args = (*(t for t in tensors if _is_input(t)), *(t for t in tensors if not _is_input(t)))
        name = re.sub(r"\W+", "_", task.name).strip("_") or "task"
        function = WorkloadFunction(lambda: args, None)
        function.name = name
        function.templates.append(Template(name, self.target.kind, self._apply))
        self.workload = Workload(name, args, {}, function)
        #: entities that the template was found to need the value of, in its first run
        self._needed: frozenset[str] | None = None
        self._labels = {name: _labels(space.entities) for name, space in self.space.space_map.items()}

    def _apply(self, s: Schedule, target: Target) -> None:
        """Define the space on the schedule, run the template, and do what it did."""
        decided = set(self._needed or ())
        while True:
            trial = create_schedule(list(self.workload.args)).with_choices(s._choices)
            cfg = _Traced({})
            try:
                cfg = _Traced(self._define(trial, decided))
                with shared_knobs(trial):
                    done = self._run(cfg, target)
                break
            except Exception as error:
                more = self._to_decide(error, cfg, decided)
                if not more:
                    with suppress(WorkloadError):
                        self._define(s, decided)  # so that the other ways to decide are tried
                    raise
                decided |= more
        if self._needed is None:
            self._needed = frozenset(decided)
        self._define(s, decided)
        for instruction in done.trace:
            perform(s, instruction)

    def _run(self, cfg: _Traced, target: Target) -> Schedule:
        with target, ApplyConfig(cfg):
            done, tensors = self.task.func(*self.task.args)
        knobs = {v.value.name for t in tensors for v in _knobs_in(t)}
        if knobs:
            raise NoValueYet("a knob says what is computed", asked="a template", legal="a choice", names=tuple(knobs))
        if cfg.errors:
            raise WorkloadError("; ".join(cfg.errors), asked=f"template {self.task.name}")
        args = (*(t for t in tensors if _is_input(t)), *(t for t in tensors if not _is_input(t)))
        if workload_key(args) != self.workload.key:
            raise WorkloadError(
                "what it computes depends on the configuration",
                asked=f"template {self.task.name}",
                legal="the same te.compute for all: layouts by s.cache_read and transform_layout",
            )
        return done

    def _to_decide(self, error: Exception, cfg: _Traced, decided: set[str]) -> set[str]:
        """The entities whose value, not being there, may be what the template failed for."""
        open_ones = [name for name in cfg.used if name not in decided and self._is_open(name)]
        if isinstance(error, NoValueYet):
            named = {name for name in open_ones if any(_belongs(knob, name) for knob in error.names)}
            if named:
                return named
        values = {name for name in open_ones if self.space.space_map[name].kind == "ot"}
        return values or set(open_ones)

    # -- definitions ------------------------------------------------------------------------------
    def _is_open(self, name: str) -> bool:
        """Whether its values can be knobs."""
        space = self.space.space_map[name]
        entities = space.entities
        if len(entities) < 2 or any(e.kind not in ("sp", "ot") for e in entities):
            return False
        rows = [_row(e) for e in entities]
        return all(isinstance(v, int) and not isinstance(v, bool) for row in rows for v in row) and len(
            set(rows)
        ) == len(rows)

    def _define(self, s: Schedule, decided: set[str]) -> dict[str, Entity]:
        """What `cfg[name]` is for each name, defined on the schedule: knobs, or what was chosen."""
        entities: dict[str, Entity] = {}
        for name, space in self.space.space_map.items():
            if len(space) == 1:
                entities[name] = space[0]
            elif name in decided or not self._is_open(name):
                labels = self._labels[name]
                entities[name] = space[labels.index(s.choose(name, labels))]
            elif space.kind == "ot":
                values = [e.value for e in space.entities]
                entities[name] = OtherOptionEntity(s.define_knob(_knob(name), values))
            else:
                entities[name] = self._define_split(s, name)
        if self.space.filters or len(self.indices) < self.space.range_length:
            self._restrict(s, {name: e for name, e in entities.items() if self.space.space_map[name].entities.count(e)})
        return entities

    def _define_split(self, s: Schedule, name: str) -> SplitEntity:
        """A knob for each size that varies, and which of them go together."""
        space = self.space.space_map[name]
        divides = None if space.tail is None else not space.tail
        rows = [_row(e) for e in space.entities]
        return SplitEntity(
            [space[0].value[0], *knobs_of_sizes(s, name, rows, const(space.product), divides, _identifier(name))]
        )

    def _restrict(self, s: Schedule, chosen: dict[str, Entity]) -> None:
        """Keep the points that the filters over several entities keep, of those with what was chosen."""
        open_ones = [name for name in self.space.space_map if name not in chosen]
        rows = []
        for index in self.indices:
            entities = self.space.entities_at(index) if self.space.is_index_valid(index) else {}
            if entities and all(entities[name] == e for name, e in chosen.items()):
                rows.append(
                    [v for name in open_ones for v in _varying(self.space.space_map[name].entities, entities[name])]
                )
        if not rows:
            raise WorkloadError("a filter of the template rejects all of them", asked=f"template {self.task.name}")
        knobs = [
            _knob(name, None if self.space.space_map[name].kind == "ot" else i)
            for name in open_ones
            for i in _columns(self.space.space_map[name].entities)
        ]
        if knobs:
            s.among([s.knobs[k].var for k in knobs], rows, "the template's filter keeps it")

    # -- the way back -----------------------------------------------------------------------------
    def config_of(self, record: Record) -> ConfigEntity:
        """The configuration that was measured."""
        chosen = {i[1]: i[2] for i in record.trace if i[0] == "choose"}
        knob: list[int] = []
        for name, space in self.space.space_map.items():
            if name in chosen:
                knob.append(self._labels[name].index(chosen[name]))
            elif len(space) == 1:
                knob.append(0)
            else:
                rows = [_row(e) for e in space.entities]
                knob.append(rows.index(self._values(name, rows[0], record.knobs)))
        return self.space.get(self.space.knob2point(knob))

    def point_of(self, config: ConfigEntity, space: SearchSpace) -> tuple[int, tuple[int, ...]] | None:
        """The inverse, in a search space of this workload: a sketch and the knobs' indices. None for a
        configuration that is not in it."""
        knobs: dict[str, int] = {}
        labels: dict[str, Any] = {}
        for name, of in self.space.space_map.items():
            try:
                at = of.entities.index(config[name])
            except (KeyError, ValueError, AutoschedError):
                return None
            labels[name] = self._labels[name][at]
            row = _row(of.entities[at])
            knobs.update({_knob(name, None if of.kind == "ot" else i): v for i, v in enumerate(row, start=1)})
        for number, sketch in enumerate(space.sketches):
            chosen = {i[1]: i[2] for i in sketch.trace if i[0] == "choose"}
            if all(labels[name] == label for name, label in chosen.items()):
                indices = sketch.indices_of({k.name: knobs[k.name] for k in sketch.knobs})
                if indices is not None:
                    return number, indices
        return None

    def _values(self, name: str, first: tuple[Any, ...], knobs: dict[str, int]) -> tuple[int, ...]:
        if self.space.space_map[name].kind == "ot":
            return (knobs[_knob(name)],)
        return tuple(knobs.get(_knob(name, i), value) for i, value in enumerate(first, start=1))


def _first(space: ConfigSpace) -> int:
    """The first configuration that no filter rejects."""
    return 0 if space.is_index_valid(0) else space.get_next_index(0) or 0


def _is_input(t: Tensor) -> bool:
    return not t.op.input_tensors and not isinstance(t.op, ComputeOp)


def _row(e: Entity) -> tuple[Any, ...]:
    """The numbers that knobs can stand for: the sizes after the first, or the value."""
    return tuple(e.value[1:]) if e.kind == "sp" else (e.value,)


def _columns(entities: Sequence[Entity]) -> list[int]:
    """Which numbers of the entities differ, from 1."""
    return [i for i, column in enumerate(zip(*map(_row, entities), strict=True), start=1) if len(set(column)) > 1]


def _varying(entities: Sequence[Entity], one: Entity) -> list[int]:
    """The numbers of an entity that differ among them."""
    return [_row(one)[i - 1] for i in _columns(entities)]


def _knob(name: str, part: int | None = None) -> str:
    """The name of a knob, which must be one of Python's."""
    text = _identifier(name)
    return f"{text}_{part}" if part is not None else f"{text}_val" if text in ("s", "te") else text


def _identifier(name: str) -> str:
    text = re.sub(r"\W", "_", name)
    return text if text.isidentifier() else f"k_{text}"


def _belongs(knob: str, name: str) -> bool:
    return knob == _knob(name) or knob.rpartition("_")[0] == _knob(name)


def _labels(entities: Sequence[Entity]) -> list[Any]:
    """A plain value for each candidate, all different: what the trace says was chosen."""
    plain = [e.value for e in entities]
    if all(v is None or isinstance(v, (bool, int, float, str)) for v in plain) and len(set(map(repr, plain))) == len(
        plain
    ):
        return plain
    texts = [str(e) for e in entities]
    return texts if len(set(texts)) == len(texts) else [f"{i}: {t}" for i, t in enumerate(texts)]


def _knobs_in(t: Tensor) -> list[Any]:
    """The knobs in what a tensor, and all it needs, is defined by."""
    found = []
    for op in Graph.of([t]).ops:
        exprs = [*op.shape, *(getattr(op, "body", None) or ())] if isinstance(op, ComputeOp) else list(op.shape)
        found += [v for e in exprs for v in post_order(e) if v.op == "var" and v.value.role == "knob"]
    return found
