"""A template with its configuration space as sketches: one trace for each way to decide what changes its structure.

Sizes of splits and values from `define_knob` are knobs while the template runs. Where the template needs such a value
itself (`if cfg["unroll"].val:`, `range(..)`, an annotation), the entity becomes a choice instead: the template runs
once more, and there is one sketch for each of its candidates. Orders and annotations always are choices. All
definitions stand at the head of the trace.
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
from autosched.schedule.decisions import knobs_of_sizes
from autosched.schedule.schedule import Schedule, create_schedule, perform, shared_knobs
from autosched.space.space import SearchSpace
from autosched.space.workload import Template, Workload, WorkloadFunction
from autosched.study import Asked
from autosched.target import Target
from autosched.te.graph_json import workload_key
from autosched.te.tensor import ComputeOp, Graph
from autosched.tvm.autotvm.measure import inputs_first
from autosched.tvm.autotvm.task.dispatcher import ApplyConfig
from autosched.tvm.autotvm.task.space import (
    ConfigEntity,
    ConfigSpace,
    Entity,
    OtherOptionEntity,
    SplitEntity,
    TransformSpace,
)
from autosched.tvm.autotvm.task.task import Task


class _Traced(ConfigEntity):
    """The configuration of a template that is traced; `used` are the names that were asked for."""

    def __init__(self, entities: dict[str, Entity]) -> None:
        super().__init__(-1, None, entities)
        self.used: list[str] = []

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        self.used.append(name)
        return found


class _Decision:
    """An entity of a configuration space, as knobs or as a choice."""

    def __init__(self, name: str, space: TransformSpace) -> None:
        self.name, self.space = name, space
        #: of each candidate the numbers that knobs can stand for: the sizes of a split after the first, or the value
        self.rows = [tuple(e.value[1:]) if e.kind == "sp" else (e.value,) for e in space.entities]
        #: a plain value for each candidate, all different: the trace says by it what was chosen
        self.labels = _labels(space.entities)
        text = re.sub(r"\W", "_", name)
        self.prefix = text if text.isidentifier() else f"k_{text}"
        numbers = all(isinstance(v, int) and not isinstance(v, bool) for row in self.rows for v in row)
        self.is_open = (  # its values can be knobs
            len(space) > 1 and space.kind in ("sp", "ot") and numbers and len(set(self.rows)) == len(self.rows)
        )
        #: position in a row -> name of its knob, for the numbers that vary
        self.knobs: dict[int, str] = {}
        if self.is_open and space.kind == "ot":
            self.knobs[0] = f"{self.prefix}_val" if self.prefix in ("s", "te") else self.prefix
        elif self.is_open:
            columns = enumerate(zip(*self.rows, strict=True))
            self.knobs = {i: f"{self.prefix}_{i + 1}" for i, column in columns if len(set(column)) > 1}

    def open_entity(self, s: Schedule) -> Entity:
        """Define knobs on a schedule. Return the entity that has them in place of numbers."""
        if self.space.kind == "ot":
            return OtherOptionEntity(s.define_knob(self.knobs[0], [v for (v,) in self.rows]))
        divides = None if self.space.tail is None else not self.space.tail
        sizes = knobs_of_sizes(s, self.name, self.rows, const(self.space.product), divides, self.prefix)
        return SplitEntity([self.space[0].value[0], *sizes])


def _labels(entities: Sequence[Entity]) -> list[Any]:
    plain = [e.value for e in entities]
    is_plain = all(v is None or isinstance(v, (bool, int, float, str)) for v in plain)
    if is_plain and len(set(map(repr, plain))) == len(plain):
        return plain
    texts = [str(e) for e in entities]
    return texts if len(set(texts)) == len(texts) else [f"{i}: {t}" for i, t in enumerate(texts)]


class TracedTask:
    """A task as a workload with a template, and the way back: from a record to its configuration."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        self.task = task
        self.space: ConfigSpace = task.config_space
        #: the configurations that are in: all, or those from `range_idx[0]` to `range_idx[1]`
        self.indices = range(self.space.range_length) if range_idx is None else range(range_idx[0], range_idx[1] + 1)
        assert task.target is not None
        self.target: Target = task.target
        first = 0 if self.space.is_index_valid(0) else self.space.get_next_index(0) or 0
        with self.target:
            _, tensors = task.instantiate(self.space.get(first))
        args = inputs_first(tensors)
        name = re.sub(r"\W+", "_", task.name).strip("_") or "task"
        function = WorkloadFunction(lambda: args, None)
        function.name = name
        function.templates.append(Template(name, self.target.kind, self._apply))
        self.workload = Workload(name, args, {}, function)
        #: entities whose values the template needs, as its first run shows
        self._needed: frozenset[str] | None = None
        self.decisions = {name: _Decision(name, space) for name, space in self.space.space_map.items()}

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
        ops = Graph.of(tensors).ops
        parts = [e for op in ops for e in (*op.shape, *(op.body if isinstance(op, ComputeOp) else ()))]
        knobs = {v.value.name for e in parts for v in post_order(e) if v.op == "var" and v.value.role == "knob"}
        if knobs:
            raise NoValueYet("a knob says what is computed", asked="a template", legal="a choice", names=tuple(knobs))
        if cfg.errors:
            raise WorkloadError("; ".join(cfg.errors), asked=f"template {self.task.name}")
        if workload_key(inputs_first(tensors)) != self.workload.key:
            raise WorkloadError(
                "what it computes depends on the configuration",
                asked=f"template {self.task.name}",
                legal="the same te.compute for all: layouts by s.cache_read and transform_layout",
            )
        return done

    def _to_decide(self, error: Exception, cfg: _Traced, decided: set[str]) -> set[str]:
        """The entities whose missing value may have made the template fail."""
        open_ones = [d for d in map(self.decisions.__getitem__, cfg.used) if d.name not in decided and d.is_open]
        missing = set(error.names) if isinstance(error, NoValueYet) else set()
        named = {d.name for d in open_ones if missing & set(d.knobs.values())}
        values = {d.name for d in open_ones if d.space.kind == "ot"}
        return named or values or {d.name for d in open_ones}

    # -- definitions ------------------------------------------------------------------------------
    def _define(self, s: Schedule, decided: set[str]) -> dict[str, Entity]:
        """Define all entities on the schedule. Return them by name: with knobs, or as chosen."""
        entities: dict[str, Entity] = {}
        chosen: dict[str, Entity] = {}
        for name, d in self.decisions.items():
            if len(d.space) > 1 and d.is_open and name not in decided:
                entities[name] = d.open_entity(s)
                continue
            at = d.labels.index(s.choose(name, d.labels)) if len(d.space) > 1 else 0
            entities[name] = chosen[name] = d.space[at]
        if self.space.filters or len(self.indices) < self.space.range_length:
            self._restrict(s, chosen)
        return entities

    def _restrict(self, s: Schedule, chosen: dict[str, Entity]) -> None:
        """Keep the points that the filters over several entities keep, of those with the chosen ones."""
        open_ones = [d for name, d in self.decisions.items() if name not in chosen]
        rows = []
        for index in self.indices:
            entities = self.space.entities_at(index) if self.space.is_index_valid(index) else {}
            if entities and all(entities[name] == e for name, e in chosen.items()):
                found = [(d, d.rows[d.space.entities.index(entities[d.name])]) for d in open_ones]
                rows.append([row[i] for d, row in found for i in d.knobs])
        if not rows:
            raise WorkloadError("a filter of the template rejects all of them", asked=f"template {self.task.name}")
        knobs = [s.knobs[k].var for d in open_ones for k in d.knobs.values()]
        if knobs:
            s.among(knobs, rows, "the template's filter keeps it")

    # -- the way back -----------------------------------------------------------------------------
    def config_of(self, record: Record | Asked) -> ConfigEntity:
        """Return the configuration that was measured."""
        chosen = {i[1]: i[2] for i in record.trace if i[0] == "choose"}
        knob: list[int] = []
        for name, d in self.decisions.items():
            if name in chosen:
                knob.append(d.labels.index(chosen[name]))
            else:
                row = [record.knobs[d.knobs[i]] if i in d.knobs else v for i, v in enumerate(d.rows[0])]
                knob.append(d.rows.index(tuple(row)) if len(d.space) > 1 else 0)
        return self.space.get(self.space.knob2point(knob))

    def point_of(self, config: ConfigEntity, space: SearchSpace) -> tuple[int, tuple[int, ...]] | None:
        """Invert `config_of` in a search space of this workload: return a sketch and the indices of its knobs, or
        None for a configuration that is not in it."""
        knobs: dict[str, int] = {}
        labels: dict[str, Any] = {}
        for name, d in self.decisions.items():
            try:
                at = d.space.entities.index(config[name])
            except (KeyError, ValueError, AutoschedError):
                return None
            labels[name] = d.labels[at]
            knobs.update({knob: d.rows[at][i] for i, knob in d.knobs.items()})
        for number, sketch in enumerate(space.sketches):
            chosen = {i[1]: i[2] for i in sketch.trace if i[0] == "choose"}
            if all(labels[name] == label for name, label in chosen.items()):
                indices = sketch.indices_of({k.name: knobs[k.name] for k in sketch.knobs})
                if indices is not None:
                    return number, indices
        return None
