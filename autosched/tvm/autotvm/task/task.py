"""Templates and tasks: functions with a name that return a schedule and its arguments.

A *task* is a template with arguments, on a target. Its workload, `(name, *arguments)`, is what logs and
contexts know it by; tensors among the arguments are there as `("TENSOR", shape, dtype)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np

from autosched.errors import UsageError, WorkloadError
from autosched.ir.expr import Expr
from autosched.schedule.schedule import Schedule
from autosched.target import Target
from autosched.te.tensor import ComputeOp, Graph, PlaceholderOp, Tensor, placeholder
from autosched.tvm.autotvm.task.dispatcher import ApplyConfig, DispatchContext
from autosched.tvm.autotvm.task.dispatcher import get_config as get_config
from autosched.tvm.autotvm.task.space import ConfigSpace
from autosched.tvm.flops import operations

P = ParamSpec("P")
R = TypeVar("R")


class TaskTemplate:
    """The functions of a task's name: one for all, or a compute function and one that schedules it."""

    def __init__(self) -> None:
        self.function: Callable[..., Any] | None = None
        self.compute: Callable[..., Any] | None = None
        self.schedule: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> tuple[Schedule, list[Tensor]]:
        given = deserialize_args(args)
        if self.function is not None:
            made = self.function(*given)
            if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], Schedule)):
                raise WorkloadError(
                    f"it returned {made!r:.60}", asked="a template", legal="return s, [A, B, C]: schedule and tensors"
                )
            return made[0], list(made[1])
        if self.compute is None or self.schedule is None:
            raise WorkloadError("it lacks its compute or its schedule function", asked="a task", legal="register both")
        out = self.compute(*given)
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        inputs = [t for op in Graph.of(outs).ops if isinstance(op, PlaceholderOp) for t in op.outputs]
        return self.schedule(outs), [*inputs, *outs]


#: name -> template
TASK_TABLE: dict[str, TaskTemplate] = {}


def serialize_args(args: Sequence[Any]) -> tuple[Any, ...]:
    """Return arguments as plain values that can be compared. Raises UsageError for what cannot be stored."""

    def plain(x: Any) -> Any:
        if isinstance(x, Tensor):
            return ("TENSOR", tuple(int(d) for d in x.shape), str(x.dtype))
        if isinstance(x, Expr):
            if x.op == "const":
                return x.value
            raise UsageError(f"{x!r} is no number", asked="an argument of a task", legal="numbers, strings, tensors")
        if isinstance(x, (tuple, list)):
            return tuple(plain(a) for a in x)
        if isinstance(x, np.generic):
            return x.item()
        if x is None or isinstance(x, (str, int, float)):
            return x
        raise UsageError(
            f"{x!r:.60} cannot be stored",
            asked="an argument of a task",
            legal="numbers, strings, tensors, lists of them",
        )

    return tuple(plain(x) for x in args)


def deserialize_args(args: Sequence[Any]) -> list[Any]:
    """Invert `serialize_args`, with a placeholder for each tensor."""

    def full(x: Any) -> Any:
        if isinstance(x, (tuple, list)) and len(x) == 3 and x[0] == "TENSOR":
            return placeholder(x[1], x[2])
        return tuple(full(a) for a in x) if isinstance(x, (tuple, list)) else x

    return [full(x) for x in args]


def args_to_workload(args: Sequence[Any], task_name: str | None = None) -> tuple[Any, ...]:
    """Return the name and the arguments, as logs have them."""
    return serialize_args(args) if task_name is None else (task_name, *serialize_args(args))


@overload
def template(task_name: str, func: Callable[P, R]) -> Callable[P, R]: ...
@overload
def template(task_name: str, func: None = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@overload
def template(task_name: Callable[P, R]) -> Callable[P, R]: ...
def template(task_name: Any, func: Callable[..., Any] | None = None) -> Any:
    """Register a function that defines and uses configurations, and returns a schedule and its arguments.

    When it is called, `get_config()` is the configuration in force for these arguments and this target. As a decorator
    without a name, as TVM 0.5 and 0.6 had it, the task has the function's.
    """
    if callable(task_name):
        return template(task_name.__name__, task_name)

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any) -> Any:
            cfg = DispatchContext.current.query(Target.current(allow_none=True), args_to_workload(args, task_name))
            with ApplyConfig(cfg):
                return f(*args)

        called.__name__, called.__doc__ = f.__name__, f.__doc__
        entry_of(task_name, "function").function = f
        return called

    return register if func is None else register(func)


def entry_of(task_name: str, part: str) -> TaskTemplate:
    """Return the task of that name, to register one of its parts; the second time it is a new one."""
    entry = TASK_TABLE.setdefault(task_name, TaskTemplate())
    if part == "function" or entry.function is not None:
        entry = TASK_TABLE[task_name] = TaskTemplate()
    return entry


class Task:
    """A template with arguments; `config_space` and `flop` are there once it has a target.

    `flop` counts floating-point operations of one call: what the template said by `cfg.add_flop`, or what
    the definition needs.
    """

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        self.name = name
        self.args = serialize_args(args)
        self.kwargs: dict[str, Any] = {}
        self.config_space: Any = None
        self.flop: float | None = None
        self.target: Target | None = None
        self.target_host: Any = None

    @property
    def workload(self) -> tuple[Any, ...]:
        """Its name and arguments."""
        return (self.name, *self.args)

    @property
    def func(self) -> TaskTemplate:
        """The template. Raises WorkloadError when none of that name is registered."""
        found = TASK_TABLE.get(self.name)
        if found is None:
            raise WorkloadError(
                "no such template is registered",
                asked=f"task {self.name!r}",
                legal=f"import the file that registers it; registered: {', '.join(TASK_TABLE) or 'none'}",
            )
        return found

    def instantiate(self, config: ConfigSpace) -> tuple[Schedule, list[Tensor]]:
        """Return the schedule and the arguments with a configuration."""
        config.flop = 0.0
        with ApplyConfig(config):
            sch, tensors = self.func(*self.args)
        if not self.flop:
            self.flop = config.flop or _flop(sch)
        return sch, tensors

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={self.args}, kwargs={self.kwargs}, workload={self.workload})"


def create(task_name: str, args: Sequence[Any], target: Any, target_host: Any = None) -> Task:
    """Return a task on a target, its space collected. Raises WorkloadError when there is no such template."""
    made = Task(task_name if isinstance(task_name, str) else task_name.__name__, args)
    made.target = target if isinstance(target, Target) else Target(target)
    made.target_host = target_host
    made.config_space = ConfigSpace()
    with made.target:
        made.instantiate(made.config_space)
    return made


def compute_flop(sch: Schedule) -> float:
    """Count the operations of one call, of whatever types.

    Raises WorkloadError where there are none, for reductions of tuples, and for what is no `te.compute`.
    """
    ops = Graph.of(sch.arguments).ops
    tuples = [op.name for op in ops if isinstance(op, ComputeOp) and len(op.body) > 1]
    count = 0.0 if tuples else operations(ops, typed=False)
    if not count:
        raise WorkloadError(
            f"{tuples[0]} has several results" if tuples else "it only moves data",
            asked="compute_flop",
            legal="cfg.add_flop(n) in the template",
        )
    return count


def _flop(sch: Schedule) -> float:
    try:
        return compute_flop(sch)
    except WorkloadError:
        return 0.0
