"""`ComputeDAG`: a computation with its operations in Ansor's order, whose numbers its records have."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from typing import Any

from autosched.errors import UsageError, WorkloadError
from autosched.schedule.schedule import Schedule
from autosched.space.workload import Workload
from autosched.te.tensor import Operation, PlaceholderOp, Tensor
from autosched.te.work import work_of
from autosched.tvm.auto_scheduler.loop_state import State, StateObject
from autosched.tvm.auto_scheduler.workload_registry import workload_key_to_tensors


class LayoutRewriteOption(IntEnum):
    """Ways to treat the layout of an input that `attrs={"layout_free_placeholders": [..]}` names."""

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1  #: a stage copies the input into the order in which it is read
    REWRITE_FOR_PRE_TRANSFORMED = 2  #: the caller has it in that order: not here, see `apply_steps_from_state`

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
        if isinstance(compute_or_sche, str):
            self.tensors = workload_key_to_tensors(compute_or_sche)
        elif isinstance(compute_or_sche, Schedule):
            self.tensors = list(compute_or_sche.arguments)
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

    @property
    def outputs(self) -> list[Tensor]:
        """The computed tensors without readers."""
        read = {t.op for op in self.ops for t in op.input_tensors}
        return [t for op in self.ops if op not in read and not isinstance(op, PlaceholderOp) for t in op.outputs]

    @cached_property
    def flop_ct(self) -> float:
        """Floating-point operations of one call; 0 for lengths that are not known, and for integers."""
        work = work_of(self.tensors, {})
        return float(work.flops) if work is not None else 0.0

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
        """Return the state without steps."""
        return State(StateObject(), self)

    init_state = property(get_init_state)

    def apply_steps_from_state(
        self, state: Any, layout_rewrite: int = LayoutRewriteOption.NO_REWRITE
    ) -> tuple[Schedule, list[Tensor]]:
        """Return the schedule of a state, and the arguments.

        `layout_rewrite`: see `LayoutRewriteOption`. Raises RecordError for a state of another computation, and
        UsageError for REWRITE_FOR_PRE_TRANSFORMED, which is a rewrite of the whole network.
        """
        if layout_rewrite == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED:
            raise UsageError(
                "the caller would have to give the inputs in another layout, and nothing here rewrites callers",
                asked="layout_rewrite=REWRITE_FOR_PRE_TRANSFORMED",
                legal="INSERT_TRANSFORM_STAGE, or a packed input in the computation itself",
            )
        return state.schedule(self, layout_rewrite != LayoutRewriteOption.NO_REWRITE), list(self.tensors)

    def print_python_code_from_state(self, state: Any) -> str:
        """Return the schedule as Python."""
        return str(state.schedule(self).trace)

    def infer_bound_from_state(self, state: Any) -> Any:
        """Return the state as it is: the loops of its schedule know their lengths."""
        return state

    def __repr__(self) -> str:
        lines = []
        for op in self.ops:
            shape = ", ".join(repr(d) for d in op.shape)
            body = " = " + ", ".join(map(repr, getattr(op, "body", ())))
            axes = ", ".join(a.name for a in getattr(op, "axis", ()))
            lines.append(f"{op.name}[{axes}]{body}" if len(body) > 3 else f"{op.name} = PLACEHOLDER [{shape}]")
        return "\n".join(line if len(line) <= 256 else f"{line[:128]} ..(OMITTED).. {line[-128:]}" for line in lines)
