"""States: programs of a search. Of Ansor's records, steps; of ours, a trace with values of its knobs.

    s = auto_scheduler.loop_state.State(state_object, dag)       # or dag.get_init_state()
    i, j, k = s[C].iters
    i0, i1 = s.split(C, i, [8])
    s.state_object                                               # the steps so far

A `State` is edited, and names loops by `Iterator`s; a `StateObject` is the data of one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from autosched.errors import AutoschedError, RecordError, ScheduleError, UsageError
from autosched.lowering.bounds import inferred_ranges
from autosched.records import Record
from autosched.schedule.loop import leaf_extents
from autosched.schedule.schedule import Schedule
from autosched.schedule.schedule import replay as replayed
from autosched.schedule.stage import Loop
from autosched.schedule.stage import Stage as Scheduled
from autosched.schedule.trace import Trace
from autosched.te.tensor import Operation, PlaceholderOp, Tensor
from autosched.tvm.auto_scheduler.iterators import (
    ANNOTATIONS,
    REDUCTION,
    SPATIAL,
    Iterator,
    Range,
    Stage,
    annotation_of,
    attributes_of,
    text_of,
)
from autosched.tvm.auto_scheduler.layout import insert_transforms
from autosched.tvm.auto_scheduler.transform_step import Replay, Step

if TYPE_CHECKING:
    from autosched.tvm.auto_scheduler.compute_dag import ComputeDAG


@dataclass(frozen=True)
class Base:
    """A schedule that steps are added to: its trace as JSON, and the names of its stages in Ansor's order."""

    trace: str
    names: tuple[str, ...]
    knobs: tuple[tuple[str, int], ...] = ()  #: values of knobs of the trace
    sketch: str = ""  #: the name of the sketch that the trace is

    @staticmethod
    def of(s: Schedule, dag: ComputeDAG, trace: Any = None, knobs: Mapping[str, int] | None = None) -> Base:
        """Return the base of a schedule as it is now; `trace` is its trace with the knobs open."""
        text = json.dumps(s.trace.to_json() if trace is None else trace)
        return Base(text, tuple(x.name for x in in_order(s, dag)), tuple(sorted((knobs or {}).items())))

    def closed(self) -> Any:
        """Return the trace as JSON, with values for knobs."""
        data = json.loads(self.trace)
        return Trace.from_json(data).at(dict(self.knobs)) if self.knobs else data

    def schedule(self, dag: ComputeDAG) -> Schedule:
        """Do the trace on a computation."""
        return replayed(self.closed(), dag.tensors)


def in_order(s: Schedule, dag: ComputeDAG) -> list[Scheduled]:
    """Return the stages of a schedule in Ansor's order: copies after what they copy, others that primitives made
    before their readers."""
    found = [s[op] for op in dag.ops if op in s]
    for x in s.stages:
        if x not in found:
            source = _source(s, x)
            if source in found:
                found.insert(found.index(source) + 1, x)
                continue
            readers = [found.index(reader) for reader in s.consumers(x) if reader in found]
            found.insert(min(readers, default=len(found)), x)
    return found


def _source(s: Schedule, x: Scheduled) -> Scheduled | None:
    """The stage that this one copies, as `cache_read` makes it."""
    read = x.body[0] if len(x.body) == 1 and x.body[0].op == "read" else None
    if read is None or list(read.args) != [a.var for a in x.axis] or not x.name.startswith(f"{read.value.op.name}."):
        return None
    return s[read.value.op]


@dataclass(frozen=True)
class StateObject:
    """Ansor's state: the steps that lead to a program, from the computation or from a schedule of it."""

    transform_steps: tuple[Step, ...] = ()
    exact: bool = True  #: False for a compatible workload, whose loops may have other lengths
    base: Base | None = None
    #: where it was drawn from: a search space and a candidate of it
    point: Any = field(default=None, compare=False, repr=False)

    def replay(self, dag: ComputeDAG) -> Replay:
        """Return the replay before the first step. Raises RecordError."""
        if self.base is None:
            return Replay(dag.ops, dag.outputs, self.exact)
        s = self.base.schedule(dag)
        return Replay.on([s[name] for name in self.base.names])

    def schedule(self, dag: ComputeDAG, layouts: bool = False) -> Schedule:
        """Return the program of a computation; with `layouts`, inputs of free layout are copied as they are read.

        Raises RecordError where a step does not fit.
        """
        s = self.replay(dag).run(self.transform_steps)
        if layouts:
            insert_transforms(s, dag.ops)
        try:
            s.verify()
        except ScheduleError as error:
            raise RecordError(error.why, asked="a state of auto_scheduler", legal=error.legal) from None
        return s

    def __str__(self) -> str:
        steps = "\n".join(map(str, self.transform_steps))
        if self.base is not None:
            steps = f"{Trace.from_json(json.loads(self.base.trace)).as_python(knobs=dict(self.base.knobs))}{steps}"
        return steps or "(no steps)"


class State:
    """A program that is edited step by step, as TVM's. Stages go by number, operation or tensor.

    Every method appends a step, and returns the new iterators, or the operation of the new stage. A length None of
    `split` is left to tuning. Raises UsageError for an unknown stage or iterator, RecordError for a step that cannot
    be done.
    """

    ANNOTATION_TRANS_TABLE: ClassVar[dict[str, int]] = {name: i for i, name in enumerate(ANNOTATIONS)}

    def __init__(self, state_object: StateObject | State | TraceState, dag: ComputeDAG) -> None:
        given = object_of(state_object, dag)
        self.compute_dag, self._given = dag, given
        if given.point is None:  # one of a search space can be replayed, which takes time
            _ = self._replay
        #: lengths that were inferred
        self._lengths: dict[Loop, Any] = {}

    @cached_property
    def _replay(self) -> Replay:
        made = self._given.replay(self.compute_dag)
        for step in self._given.transform_steps:
            made.do(step)
        return made

    # -- stages and steps ----------------------------------------------------------------------------
    @property
    def state_object(self) -> StateObject:
        """The steps so far."""
        steps = tuple(self._replay.steps) if "_replay" in vars(self) else self._given.transform_steps
        same = steps == self._given.transform_steps
        return self._given if same else replace(self._given, transform_steps=steps, point=None)

    @property
    def transform_steps(self) -> tuple[Step, ...]:
        """The steps so far."""
        return tuple(self._replay.steps)

    @property
    def replayed(self) -> Replay:
        """The schedule that the steps have made so far, with its stages by number."""
        return self._replay

    @property
    def stages(self) -> list[Stage]:
        """Every stage, producers first."""
        return [self._stage(x) for x in self._replay.stages]

    @property
    def stage_ops(self) -> list[Operation]:
        """The operation of every stage."""
        return [x.op for x in self._replay.stages]

    def copy(self) -> State:
        """Return a copy; iterators are valid for both."""
        return State(self.state_object, self.compute_dag)

    def schedule(self, dag: ComputeDAG, layouts: bool = False) -> Schedule:
        """Return the schedule of this state."""
        return self.state_object.schedule(dag, layouts)

    def with_bounds(self) -> State:
        """Return a copy that knows the lengths of all loops. Raises RecordError where a step does not fit."""
        made = self.copy()
        done = self.state_object.replay(self.compute_dag)
        done.run(self.transform_steps)
        try:
            known = inferred_ranges(done.s)
        except AutoschedError as error:
            raise RecordError(error.why, asked="the bounds of a state", legal=error.legal) from None
        for ours, theirs in zip(made._replay.stages, done.stages, strict=True):
            for loop, settled in zip(made._replay.loops(ours), done.loops(theirs), strict=True):
                if settled in known:
                    made._lengths[loop] = known[settled].extent
        return made

    def __getitem__(self, key: Any) -> Stage:
        return self._stage(self._replay.stages[self._number(key)])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.state_object == other.state_object

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def text(self, delete_trivial_loop: bool = False) -> str:
        """Return the loops as text; without those of one iteration, if wished."""
        r = self._replay

        def guests(number: int, at: int) -> list[int]:
            here = r.stages[number], r.loops(r.stages[number])[at]
            return [i for i, x in enumerate(r.stages) if r.place_of(x) == here]

        return text_of(self.stages, guests, delete_trivial_loop)

    def _stage(self, x: Scheduled) -> Stage:
        placed = self._replay.place_of(x) is not None
        where = "iter" if placed else "inlined" if x.attach.kind == "inline" else "root"
        loops = [self._iterator(x, loop, placed) for loop in self._replay.loops(x)]
        is_input = isinstance(x.op, PlaceholderOp)
        return Stage(x.op, loops, Stage.COMPUTE_AT_TRANS_TABLE[where], int(not is_input), attributes_of(x))

    def _iterator(self, x: Scheduled, loop: Loop, placed: bool) -> Iterator:
        extent = self._lengths.get(loop)
        if extent is None and not (placed and x in self._replay.placed and not loop.is_reduce):
            extent = leaf_extents(x)[loop]
        length = int(extent.value) if extent is not None and extent.op == "const" else extent
        where = None if length is None else Range(0, length)
        kind = REDUCTION if loop.is_reduce else SPATIAL
        return Iterator(self._replay.names[loop], where, kind, annotation_of(loop))

    def _number(self, key: Any) -> int:
        op = key.op if isinstance(key, Tensor) else key
        names = [x.name for x in self._replay.stages]
        if isinstance(op, int) and 0 <= op < len(names):
            return op
        for number, x in enumerate(self._replay.stages):
            if x.op is op:
                return number
        name = getattr(op, "name", "")
        if isinstance(op, Operation) and name in names:  # of a copy, in which a step made it as well
            return names.index(name)
        raise UsageError(f"it has no stage {key!r:.60}", asked="a state", legal=f"its stages: {', '.join(names)}")

    def _loop(self, stage_id: int, iterator: Iterator) -> int:
        names = [self._replay.names[loop] for loop in self._replay.loops(self._replay.stages[stage_id])]
        if getattr(iterator, "name", None) not in names:
            stage = self._replay.stages[stage_id].name
            raise UsageError(
                f"{stage} has no iterator {getattr(iterator, 'name', iterator)!r:.60}",
                asked="a state",
                legal=f"its iterators: {', '.join(names) or 'none'}",
            )
        return names.index(iterator.name)

    def _at(self, stage: Any, iterator: Iterator) -> tuple[int, int]:
        number = self._number(stage)
        return number, self._loop(number, iterator)

    def _do(self, tag: str, *fields: Any) -> None:
        self._replay.do(Step(tag, fields))

    def _iters(self, stage_id: int, at: int, count: int) -> list[Iterator]:
        return self._stage(self._replay.stages[stage_id]).iters[at : at + count]

    def _extent(self, stage_id: int, at: int) -> Any:
        where = self._iters(stage_id, at, 1)[0].range
        return None if where is None else where.extent

    # -- loops --------------------------------------------------------------------------------------
    def _annotated(self, stage: Any, iterator: Iterator, what: str) -> Iterator:
        at = self._at(stage, iterator)
        self._do("AN", *at, ANNOTATIONS.index(what))
        return self._iters(*at, 1)[0]

    def bind(self, stage: Any, iterator: Iterator, thread_name: str) -> Iterator:
        """Bind a loop to `blockIdx.x`, `threadIdx.x`, `vthread` and the like."""
        legal = ANNOTATIONS[4:-1]
        if thread_name not in legal:
            raise UsageError(f"no thread {thread_name!r:.40}", asked="State.bind", legal=", ".join(legal))
        return self._annotated(stage, iterator, thread_name)

    def parallel(self, stage: Any, iterator: Iterator) -> Iterator:
        """Run the iterations in parallel."""
        return self._annotated(stage, iterator, "parallel")

    def unroll(self, stage: Any, iterator: Iterator, max_unroll: int | None = None) -> Iterator:
        """Unroll the loop, unless it is longer than `max_unroll`."""
        extent = self._extent(*self._at(stage, iterator))
        if max_unroll is not None and isinstance(extent, int) and extent > max_unroll:
            return iterator
        return self._annotated(stage, iterator, "unroll")

    def vectorize(self, stage: Any, iterator: Iterator) -> Iterator:
        """Turn the loop into vectors."""
        return self._annotated(stage, iterator, "vectorize")

    def fuse(self, stage: Any, iters: Sequence[Iterator]) -> Iterator:
        """Fuse neighbouring loops."""
        number = self._number(stage)
        ids = tuple(self._loop(number, x) for x in iters)
        self._do("FU", number, ids)
        return self._iters(number, ids[0] if ids else 0, 1)[0]

    def pragma(self, stage: Any, iterator: Iterator, pragma_type: str) -> None:
        """Give a loop a pragma, such as `auto_unroll_max_step$64`."""
        self._do("PR", *self._at(stage, iterator), pragma_type)

    def reorder(self, stage: Any, order: Sequence[Iterator]) -> None:
        """Reorder all loops of the stage."""
        number = self._number(stage)
        self._do("RE", number, tuple(self._loop(number, x) for x in order))

    def split(
        self, stage: Any, iterator: Iterator, lengths: Sequence[int | None], inner_to_outer: bool = True
    ) -> list[Iterator]:
        """Split a loop into `len(lengths) + 1`: lengths of all but the outermost, or the innermost. None is open."""
        if not all(n is None or (isinstance(n, int) and n > 0) for n in lengths):
            raise UsageError(f"{list(lengths)!r:.60} are no lengths", asked="State.split", legal="numbers, and None")
        at = self._at(stage, iterator)
        extent = self._extent(*at)
        self._do("SP", *at, extent if isinstance(extent, int) else 0, tuple(lengths), int(inner_to_outer))
        return self._iters(*at, len(lengths) + 1)

    def follow_split(self, stage: Any, iterator: Iterator, src_step_id: int, n_split: int) -> list[Iterator]:
        """Split like an earlier step, `n_split` times."""
        at = self._at(stage, iterator)
        self._do("FSP", *at, src_step_id, n_split)
        return self._iters(*at, n_split + 1)

    def follow_fused_split(
        self, stage: Any, iterator: Iterator, src_step_ids: Sequence[int], level: int, factor_or_nparts: bool
    ) -> list[Iterator]:
        """Split by the product of a level of several earlier splits."""
        at = self._at(stage, iterator)
        self._do("FFSP", *at, tuple(src_step_ids), level, int(factor_or_nparts))
        return self._iters(*at, 2)

    def storage_align(self, stage: Any, iterator: Iterator, factor: int, offset: int) -> None:
        """Pad the storage of the stage."""
        self._do("SA", *self._at(stage, iterator), factor, offset)

    # -- stages -------------------------------------------------------------------------------------
    def compute_at(self, stage: Any, target_stage: Any, target_iter: Iterator) -> None:
        """Compute a stage at a loop of its reader."""
        at = self._at(target_stage, target_iter)
        self._do("CA", self._number(stage), *at)

    def compute_inline(self, stage: Any) -> None:
        """Compute a stage where it is read."""
        self._do("CI", self._number(stage))

    def compute_root(self, stage: Any) -> None:
        """Compute a stage whole, before its readers."""
        self._do("CR", self._number(stage))

    def cache_read(self, stage: Any, scope_name: str, reader_stages: Sequence[Any]) -> Operation:
        """Add a stage that copies what `reader_stages` read of this one."""
        number = self._number(stage)
        self._do("CHR", number, scope_name, tuple(self._number(x) for x in reader_stages))
        return self._replay.stages[number + 1].op

    def cache_write(self, stage: Any, scope_name: str) -> Operation:
        """Add a stage that computes what this one then copies. It takes the number, and later ones move on."""
        number = self._number(stage)
        self._do("CHW", number, scope_name)
        return self._replay.stages[number].op

    def rfactor(self, stage: Any, iterator: Iterator, factor_iter_id: int) -> Operation:
        """Add a stage of partial results along a reduce loop."""
        at = self._at(stage, iterator)
        self._do("RF", *at, factor_iter_id)
        return self._replay.stages[at[0]].op


@dataclass(frozen=True)
class TraceState:
    """A state of this package: the program of one record."""

    record: Record

    @property
    def knobs(self) -> dict[str, int]:
        """The values of the trace's knobs."""
        return self.record.knobs

    def schedule(self, dag: ComputeDAG, layouts: bool = False) -> Schedule:
        """Return the program of a computation, with numbers for knobs. Raises RecordError where it does not fit.

        Layouts are part of the trace already.
        """
        try:
            s = replayed(Trace.from_json(self.record.trace).at(self.knobs), dag.tensors, trusted=False)
            s.verify()
        except ScheduleError as error:
            raise RecordError(error.why, asked=f"record {self.record.id}", legal=error.legal) from None
        return s

    def __str__(self) -> str:
        return Trace.from_json(self.record.trace).as_python(knobs=self.knobs)


def object_of(state: Any, dag: ComputeDAG) -> StateObject:
    """Return a state as data; of a record of this package, its trace with its values."""
    if isinstance(state, State):
        return state.state_object
    if isinstance(state, TraceState):
        r = state.record
        return StateObject(base=replace(Base.of(state.schedule(dag), dag, r.trace, r.knobs), sketch=r.sketch))
    if not isinstance(state, StateObject):
        raise UsageError(
            f"{state!r:.60} is no state",
            asked="auto_scheduler",
            legal="a State, what a log has (MeasureInput.state), or dag.get_init_state()",
        )
    return state
