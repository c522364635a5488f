"""`PrimFunc`: te arguments and the schedule that computes them, as one function of an `IRModule`.

    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda *i: A(*i) + 1.0, name="B")
    func = create_prim_func([A, B])
    print(IRModule({"main": func}))      # loops and blocks, see `block_script`

It is what `tir.Schedule` schedules, and `lower` and `build` take it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from autosched.errors import UsageError, UsageTypeError
from autosched.ir.attached import attach
from autosched.ir.stmt import Function
from autosched.schedule.schedule import Schedule, create_schedule, replay
from autosched.schedule.stage import Stage
from autosched.te.tensor import Graph, PlaceholderOp, Tensor
from autosched.tir.module import IRModule
from autosched.tir.script import script


class Printed:
    """What functions of blocks and lowered ones have in common: attributes, and a text."""

    attrs: dict[str, Any]

    def with_attr(self, key: str | dict[str, Any], value: Any = None) -> Self:
        """The same function with one more attribute, or with those of a dictionary."""
        return replace(self, attrs={**self.attrs, **(key if isinstance(key, dict) else {key: value})})  # type: ignore[type-var]

    def without_attr(self, key: str) -> Self:
        """The same function without an attribute."""
        return replace(self, attrs={k: v for k, v in self.attrs.items() if k != key})  # type: ignore[type-var]

    def script(self, **options: Any) -> str:
        """The function as TVMScript-like text; TVM's options of printing change nothing."""
        return script(self)

    def show(self, *style: Any, **options: Any) -> None:
        """Print the script."""
        print(self.script())


attach(Function, **{name: vars(Printed)[name] for name in ("with_attr", "without_attr", "script", "show")})


@dataclass(frozen=True, eq=False)
class PrimFunc(Printed):
    """A function that computes some of its arguments from the others, as its schedule says."""

    args: tuple[Tensor, ...]
    schedule: Schedule
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def params(self) -> tuple[Tensor, ...]:
        """The arguments in calling order: inputs and outputs."""
        return self.args

    @property
    def name(self) -> str:
        return str(self.attrs.get("global_symbol", "main"))

    def snapshot(self) -> PrimFunc:
        """The function as it is now: what is done to its schedule later does not reach the copy."""
        return replace(self, schedule=replay(self.schedule.trace, self.schedule.outputs))

    def scheduled(self, asked: str, name: str | None = None) -> PrimFunc:
        """The function itself: what `lower` asks of all that has a schedule and arguments."""
        return self

    def __str__(self) -> str:
        return self.script()


def create_prim_func(ops: Sequence[Tensor]) -> PrimFunc:
    """A function of these arguments: inputs, and what is computed from them.

    Every input that is needed must be among them. An intermediate among them is stored there. Raises
    UsageError otherwise.
    """
    args = tuple(ops) if isinstance(ops, (list, tuple)) else (ops,)
    asked = f"create_prim_func([{', '.join(getattr(t, 'name', repr(t)) for t in args)}])"
    for t in args:
        if not isinstance(t, Tensor):
            raise UsageTypeError(f"{t!r} is not a tensor", asked=asked, legal="placeholders and computed tensors")
    computed = [t for t in args if not isinstance(t.op, PlaceholderOp)]
    if not computed:
        raise UsageError("nothing to compute", asked=asked, legal="one computed tensor at least")
    read = {t for x in computed for op in Graph.of([x]).ops for t in op.input_tensors}
    outputs = [t for t in computed if not any(x in read for x in t.op.outputs)]
    graph = Graph.of(outputs)
    needed = [op.output_tensor for op in graph.ops if isinstance(op, PlaceholderOp)]
    missing = [t.name for t in needed if t not in args and t not in graph.states]
    if missing:
        legal = f"inputs needed: {', '.join(t.name for t in needed if t not in graph.states)}"
        raise UsageError(f"{missing[0]} is an input and not among the arguments", asked=asked, legal=legal)
    return PrimFunc(args, create_schedule(outputs), {"global_symbol": "main", "tir.noalias": True})


def as_prim_func(what: PrimFunc | IRModule, asked: str, name: str | None = None) -> PrimFunc:
    """The function itself, or the one of that name (or the only one) of a module.

    Raises UsageError if there is none, or if its loops have been written out already.
    """
    if isinstance(what, IRModule):
        if name not in what and len(what) != 1:
            legal = f"a module of one function, or one of the names {', '.join(what) or '(none)'}"
            raise UsageError(f"the module has {len(what)} functions", asked=asked, legal=legal)
        what = what[name] if name is not None and name in what else next(iter(what.values()))
    if not isinstance(what, PrimFunc):
        raise UsageError(f"{type(what).__name__} is no PrimFunc", asked=asked, legal="create_prim_func([A, B])")
    return what


def block_names(s: Schedule) -> dict[Stage, str]:
    """The name of each computed stage's block, which is a Python identifier.

    A block keeps the name of what it computes first. After `cache_write(C, "local")` it is the stage `C.local` that
    computes what C did, and the stage C is a copy; so the block `C` is the former, and the copy is the block `C_local`.
    """
    stages = {x.name: x for x in s.stages}
    names = {x: re.sub(r"\W", "_", x.name) for x in s.stages if not x.is_placeholder}
    for i in s.trace:
        cache = stages.get(f"{i.stage}.{i.args[0]}") if i.kind == "cache_write" else None
        if cache is not None:
            stage = stages[i.stage]
            names[stage], names[cache] = names[cache], names[stage]
    return names
