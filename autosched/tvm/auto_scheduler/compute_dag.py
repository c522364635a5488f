"""`ComputeDAG`: a computation with its operations in Ansor's order, whose numbers its records have."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any

from autosched.errors import WorkloadError
from autosched.schedule.schedule import Schedule
from autosched.space.workload import Workload
from autosched.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from autosched.tvm.auto_scheduler.layout import packed
from autosched.tvm.auto_scheduler.loop_state import Base, State, StateObject, TraceState, object_of
from autosched.tvm.auto_scheduler.workload_registry import workload_key_to_tensors
from autosched.tvm.flops import operations
from autosched.tvm.ir import load_json, save_json


class LayoutRewriteOption(IntEnum):
    """Ways to treat the layout of an input that `attrs={"layout_free_placeholders": [..]}` names."""

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1  #: a stage copies the input into the order in which it is read
    REWRITE_FOR_PRE_TRANSFORMED = 2  #: the caller has it in that order: see `rewrite_layout_from_state`

    @staticmethod
    def get_target_default(target: Any, in_relay_integration: bool = False) -> LayoutRewriteOption:
        """Return INSERT_TRANSFORM_STAGE for a CPU, else NO_REWRITE."""
        return LayoutRewriteOption(int(str(target).split()[0] in ("llvm", "c")))


def sort(tensors: Sequence[Tensor]) -> list[Operation]:
    """Return the operations that compute `tensors` in Ansor's order, producers first.

    Of those whose inputs are all there, the first is the one that a depth-first search from the last of the tensors,
    the last input first, has met last.
    """
    met: dict[Operation, int] = {}
    waiting: dict[Operation, int] = {}
    readers: dict[Operation, list[Operation]] = {}
    stack = [t.op for t in tensors]
    while stack:
        op = stack.pop()
        if op in met:
            continue
        met[op] = len(met)
        waiting[op] = len(op.input_tensors)
        for t in op.input_tensors:
            readers.setdefault(t.op, []).append(op)
            stack.append(t.op)
    ready = [(-met[op], op) for op, count in waiting.items() if not count]
    heapq.heapify(ready)
    found: list[Operation] = []
    while ready:
        _, op = heapq.heappop(ready)
        found.append(op)
        for reader in readers.get(op, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, (-met[reader], reader))
    return found


class ComputeDAG:
    """A computation: the tensors of its arguments, a key of a registered workload, or a schedule.

    `ops` are its operations in Ansor's order, `flop_ct` its floating-point operations. Raises
    WorkloadError for a key that nothing is registered for.
    """

    def __init__(self, compute_or_sche: Sequence[Tensor] | str | Schedule) -> None:
        self._given: Schedule | None = None
        if isinstance(compute_or_sche, str):
            self.tensors = workload_key_to_tensors(compute_or_sche)
        elif isinstance(compute_or_sche, Schedule):
            self.tensors = list(compute_or_sche.arguments)
            self._given = compute_or_sche
        else:
            self.tensors = list(compute_or_sche)
        wrong = next((t for t in self.tensors if not isinstance(t, Tensor)), None)
        if wrong is not None or all(isinstance(t.op, PlaceholderOp) for t in self.tensors):
            raise WorkloadError(
                "there is nothing to compute" if wrong is None else f"{wrong!r:.60} is no tensor",
                asked="ComputeDAG",
                legal="the tensors of the arguments, inputs and outputs: [A, B, C]",
            )
        self.ops = sort(self.tensors)
        for op in self.ops:
            names = [a.name for a in (*getattr(op, "axis", ()), *getattr(op, "reduce_axis", ()))]
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise WorkloadError(
                    f"two axes of {op.name} are called {twice!r}",
                    asked="ComputeDAG",
                    legal="names that tell axes apart: te.reduce_axis((0, n), name=..)",
                )

    @property
    def outputs(self) -> list[Tensor]:
        """The computed tensors without readers."""
        read = {t.op for op in self.ops for t in op.input_tensors}
        return [t for op in self.ops if op not in read and not isinstance(op, PlaceholderOp) for t in op.outputs]

    @cached_property
    def flop_ct(self) -> float:
        """Operations of one call, on the type of each result; -1 where that is not known."""
        try:
            return operations(self.ops, typed=True)
        except WorkloadError:
            return -1.0

    @cached_property
    def key(self) -> str:
        """This package's key of the computation: a hash of operations, shapes and types."""
        return Workload("compute_dag", tuple(self.tensors)).key

    def hash_key(self) -> str:
        """Return `key`. It is not TVM's, which is a hash of texts that TVM alone prints."""
        return self.key

    def workload_key(self) -> str:
        """Return a key for `SearchTask`: the hash and the shapes of the arguments."""
        shapes = [[int(d) if d.op == "const" else repr(d) for d in t.shape] for t in self.tensors]
        return json.dumps([self.key, *shapes])

    def get_init_state(self) -> State:
        """Return the state without steps: the computation, or the schedule that this was made of."""
        base = None if self._given is None or not len(self._given.trace) else Base.of(self._given, self)
        return State(StateObject(base=base), self)

    init_state = property(get_init_state)

    def apply_steps_from_state(
        self, state: Any, layout_rewrite: int = LayoutRewriteOption.NO_REWRITE
    ) -> tuple[Schedule, list[Tensor]]:
        """Return the schedule of a state, and the arguments.

        `layout_rewrite`: see `LayoutRewriteOption`. Raises RecordError for a state of another computation, UsageError
        for what is none.
        """
        if not isinstance(state, TraceState):
            state = object_of(state, self)
        if layout_rewrite == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED:
            dag = self.rewrite_layout_from_state(state)
            return state.schedule(dag, False), list(dag.tensors)
        return state.schedule(self, layout_rewrite != LayoutRewriteOption.NO_REWRITE), list(self.tensors)

    def rewrite_layout_from_state(self, state: Any) -> ComputeDAG:
        """Return the computation with each input of free layout in the order in which the state reads it.

        Its dimensions are the loops that read it, outermost first, as far as they are split; where they are fused, and
        for states of this package, whose traces copy such inputs themselves, it stays as it is.
        """
        if getattr(object_of(state, self), "base", None) is not None:
            return self
        tensors = packed(state.schedule(self, False), self.ops, self.tensors)
        return ComputeDAG(tensors) if tensors != self.tensors else self

    def print_python_code_from_state(self, state: Any) -> str:
        """Return the schedule as Python."""
        return str(state.schedule(self).trace)

    def infer_bound_from_state(self, state: Any) -> State:
        """Return the state with the lengths of all loops, those of stages computed at others' included.

        Raises RecordError where a step does not fit.
        """
        return State(state, self).with_bounds()

    def __getstate__(self) -> dict[str, Any]:
        return {"tensors": save_json(self.tensors)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(load_json(state["tensors"]))  # type: ignore[misc]

    def __repr__(self) -> str:
        lines = [_line(op) for op in self.ops]
        return "\n".join(line if len(line) <= 256 else f"{line[:128]} ..(OMITTED).. {line[-128:]}" for line in lines)


#: reduction -> Ansor's sign of it
_SIGNS = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min="}


def _line(op: Operation) -> str:
    """An operation as Ansor shows it."""
    if not isinstance(op, ComputeOp):
        kind = "PLACEHOLDER" if isinstance(op, PlaceholderOp) else "EXTERN"
        return f"{op.name} = {kind} [{', '.join(map(repr, op.shape))}]"
    axes = ", ".join(a.name for a in op.axis)
    first = op.body[0]
    if first.op == "reduce" and first.value.combiner in _SIGNS:
        return f"{op.name}({axes}) {_SIGNS[first.value.combiner]} {first.value.parts(first.args)[0][0]!r}"
    return f"{op.name}({axes}) = {', '.join(map(repr, op.body))}"
