"""`tvm.autotvm.task.topi_integration`: tasks in two halves, a function that computes and one that schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from autosched.errors import WorkloadError
from autosched.target import Target
from autosched.te.tensor import Graph, Operation, Tensor
from autosched.tvm.autotvm.task.dispatcher import DispatchContext
from autosched.tvm.autotvm.task.task import args_to_workload, entry_of

#: operation -> the workload that a registered compute function was called with
_workloads: WeakKeyDictionary[Operation, Any] = WeakKeyDictionary()


def register_topi_compute(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """Register `f(cfg, *args) -> tensor`, the first half of a task. Callers leave out the configuration."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            workload = args_to_workload(args, task_name)
            out = f(DispatchContext.current.query(Target.current(allow_none=True), workload), *args)
            for t in out if isinstance(out, (list, tuple)) else [out]:
                _workloads[t.op] = workload
            return out

        called.__name__, called.__doc__ = f.__name__, f.__doc__
        entry_of(task_name, "compute").compute = called
        return called

    return register if func is None else register(func)


def register_topi_schedule(task_name: str, func: Callable[..., Any] | None = None) -> Any:
    """Register `f(cfg, outs) -> schedule`, the second half of a task. Callers leave out the configuration."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        def called(outs: Any, *args: Any) -> Any:
            listed = list(outs) if isinstance(outs, (list, tuple)) else [outs]
            workload = get_workload(listed, task_name)
            if workload is None:
                raise WorkloadError(
                    f"its registered compute function made none of {', '.join(t.name for t in listed)}",
                    asked=f"the schedule of task {task_name!r}",
                    legal=f"call the function under register_topi_compute({task_name!r})",
                )
            return f(DispatchContext.current.query(Target.current(allow_none=True), workload), listed, *args)

        called.__name__, called.__doc__ = f.__name__, f.__doc__
        entry_of(task_name, "schedule").schedule = called
        return called

    return register if func is None else register(func)


def get_workload(outs: Sequence[Tensor], task_name: str | None = None) -> Any:
    """Return the workload of the operation that a registered compute function made, among those that `outs` need."""
    found = [_workloads[op] for op in reversed(Graph.of(list(outs)).ops) if op in _workloads]
    return next((w for w in found if task_name in (None, w[0])), None)
