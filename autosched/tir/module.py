"""Functions and modules of them: `PrimFunc` and `IRModule`, as TVM hands them from one step to the next.

    func = create_prim_func([A, B])       # te arguments, and the schedule that computes them
    print(IRModule({"main": func}))       # loops and blocks, see `block_script`
    module = autosched.lower(s, [A, B]).mod
    print(module)                         # TVMScript-like text, see `script`
    module["main"].body                   # the statements of a lowered function

A function of a module is a PrimFunc, whose loops are not written out yet, or a lowered `ir.stmt.Function`.
`tir.Schedule` schedules a PrimFunc, `lower` and `build` take both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Self

from autosched.errors import UsageError, UsageTypeError
from autosched.ir.attached import attach
from autosched.ir.stmt import Function
from autosched.lowering.pipeline import Lowered
from autosched.schedule.schedule import Schedule, create_schedule, replay
from autosched.schedule.stage import Stage
from autosched.te.tensor import Graph, PlaceholderOp, Tensor
from autosched.tir.script import module_script, script


class GlobalVar(str):
    """The name of a function in a module; TVM calls the text `name_hint`."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        return str(self)


class Printed:
    """The attributes and the text of functions, of blocks and lowered."""

    attrs: dict[str, Any]

    def with_attr(self, key: str | dict[str, Any], value: Any = None) -> Self:
        """Return the function with one more attribute, or with those of a dictionary."""
        return replace(self, attrs={**self.attrs, **(key if isinstance(key, dict) else {key: value})})  # type: ignore[type-var]

    def without_attr(self, key: str) -> Self:
        """Return the function without an attribute."""
        return replace(self, attrs={k: v for k, v in self.attrs.items() if k != key})  # type: ignore[type-var]

    def script(self, **options: Any) -> str:
        """Return the function as TVMScript-like text; TVM's options of printing change nothing."""
        return script(self)

    def show(self, *style: Any, **options: Any) -> None:
        """Print the script."""
        print(self.script())


attach(Function, **{name: vars(Printed)[name] for name in ("with_attr", "without_attr", "script", "show")})


@dataclass(frozen=True, eq=False)
class PrimFunc(Printed):
    """A function that computes some of its arguments from the others, by its schedule.

    Outputs of the schedule that are no arguments are computed and kept from callers: see `closed`.
    """

    args: tuple[Any, ...]  #: tensors, and variables for numbers
    schedule: Schedule
    attrs: dict[str, Any] = field(default_factory=dict)
    #: (block, loop or "") -> annotations that mean nothing here, by name; see `remarks`
    remarks: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    first_values: dict[str, str] = field(default_factory=dict)  #: block -> the block that begins its reduction, by name

    @property
    def params(self) -> tuple[Any, ...]:
        """The arguments in calling order: inputs and outputs."""
        return self.args

    @property
    def name(self) -> str:
        return str(self.attrs.get("global_symbol", "main"))

    def snapshot(self) -> PrimFunc:
        """Return a copy, which later changes of the schedule do not reach."""
        remarks = {place: dict(kept) for place, kept in self.remarks.items()}
        return replace(self, schedule=replay(self.schedule.trace, self.schedule.outputs), remarks=remarks)

    @property
    def closed(self) -> PrimFunc:
        """The function, or a copy in which results that nobody is given are intermediates."""
        s = self.schedule
        kept = tuple(t for t in s.outputs if t in self.args)
        if len(kept) == len(s.outputs):
            return self
        made = deepcopy(s)
        for t in set(s.outputs).difference(kept):
            made[t].is_output = False
        made.outputs = kept
        return replace(self, schedule=made)

    def scheduled(self, asked: str, name: str | None = None) -> PrimFunc:
        """Return the function as it is to be lowered."""
        return self.closed

    def __str__(self) -> str:
        return self.script()


def create_prim_func(ops: Sequence[Tensor]) -> PrimFunc:
    """Make a function of these arguments: all inputs, and tensors that are computed from them.

    An intermediate among the arguments is stored there. Raises UsageError for an input that is not among them.
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


def block_names(s: Schedule) -> dict[Stage, str]:
    """Return the name of each computed stage's block, which is a Python identifier.

    A block keeps the name of the tensor that it computes first. After `cache_write(C, "local")` the stage `C.local`
    computes C, and the stage C copies it; so the block `C` is the former, and the block `C_local` the copy. After
    `reverse_compute_inline(D)`, the stage D is what has become of the block that it finishes.
    """
    stages = {x.name: x for x in s.stages}
    names = {x: re.sub(r"\W", "_", x.name) for x in s.stages if not x.is_placeholder}
    inlined = {i.stage for i in s.trace if i.kind == "compute_inline"}
    caches: set[Stage] = set()
    for i in s.trace:
        if i.kind == "reverse_compute_inline" and i.stage in stages:
            read = (x for x in s.reads(stages[i.stage]) if x.attach.kind == "inline" and x.name not in inlined)
            for finished in list(read)[:1]:
                names[finished], names[stages[i.stage]] = names[stages[i.stage]], names[finished]
        if i.kind == "cache_write" and i.stage in stages:
            stage = stages[i.stage]
            called = [f"{name}.{i.args[0]}" for name in (stage.tensor.op.name, stage.tensor.name)]  # block and buffer
            cache = next((x for x in s.stages if x not in caches and x.op.name in called), None)
            if cache is not None:
                caches.add(cache)
                names[stage], names[cache] = names[cache], names[stage]
    return names


# -- modules ------------------------------------------------------------------------------------------


class Functions(dict[GlobalVar, Any]):
    """Functions by name; `items()` is a list, as programs for TVM index it."""

    def items(self) -> list[tuple[GlobalVar, Any]]:  # type: ignore[override]
        return list(super().items())


class IRModule(Mapping[str, Any]):
    """Functions by name.

    >>> IRModule({}).get_global_vars()
    []
    """

    def __init__(self, functions: Mapping[str, Any] | None = None, attrs: Mapping[str, Any] | None = None) -> None:
        self.functions = Functions()
        self.attrs: dict[str, Any] = dict(attrs or {})
        for name, function in (functions or {}).items():
            self[name] = function

    def __getitem__(self, name: str) -> Any:
        """Return the function of that name. Raises UsageError if there is none."""
        found = self.functions.get(GlobalVar(name))
        if found is None:
            legal = f"functions: {', '.join(self.functions) or 'none'}"
            raise UsageError(f"no function {str(name)!r}", asked=f"module[{str(name)!r}]", legal=legal)
        return found

    def __setitem__(self, name: str, function: Any) -> None:
        if not str(name).isidentifier():
            raise UsageError(f"{name!r} cannot name a function", asked="IRModule", legal="an identifier")
        if not callable(getattr(function, "script", None)):
            legal = "a lowered Function or a PrimFunc"
            raise UsageTypeError(f"{function!r} is not a function", asked=f"module[{str(name)!r}]", legal=legal)
        self.functions[GlobalVar(name)] = function

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def __contains__(self, name: object) -> bool:
        return name in self.functions

    def get(self, name: str, default: Any = None) -> Any:
        """Return the function of that name, or `default`."""
        return self.functions.get(GlobalVar(name), default)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def update_func(self, name: str, function: Any) -> None:
        """Add a function, or replace the one of that name."""
        self[name] = function

    def get_global_vars(self) -> list[GlobalVar]:
        """Return the names of the functions."""
        return list(self.functions)

    def get_global_var(self, name: str) -> GlobalVar:
        """Return the name as a GlobalVar. Raises UsageError if there is no such function."""
        self[name]
        return GlobalVar(name)

    @staticmethod
    def from_expr(function: Any) -> IRModule:
        """Return a module of one function, by its name."""
        name = function.attrs.get("global_symbol", function.name)
        return IRModule({str(name): function})

    def scheduled(self, asked: str, name: str | None = None) -> PrimFunc:
        """Return the function of that name, or the only one. Raises UsageError if its loops are written out."""
        if name not in self and len(self) != 1:
            legal = f"a module of one function, or one of the names {', '.join(self) or '(none)'}"
            raise UsageError(f"the module has {len(self)} functions", asked=asked, legal=legal)
        found = self[name] if name is not None and name in self else next(iter(self.values()))
        if not isinstance(found, PrimFunc):
            raise UsageError(f"{type(found).__name__} is no PrimFunc", asked=asked, legal="create_prim_func([A, B])")
        return found.closed

    def script(self, **options: Any) -> str:
        """Return the functions as TVMScript-like text; TVM's options of printing change nothing."""
        return module_script(self.functions, self.attrs)

    def astext(self, show_meta_data: bool = False) -> str:
        """Return the script, as older programs ask for it."""
        return self.script()

    def show(self, *style: Any, **options: Any) -> None:
        """Print the script."""
        print(self.script())

    def __str__(self) -> str:
        return self.script()

    __repr__ = __str__


def copied(mod: PrimFunc | Mapping[str, Any]) -> dict[str, PrimFunc]:
    """Copies of the functions that `tir.Schedule` is given, by name. Raises UsageError for one that has no schedule."""
    functions: dict[str, PrimFunc] = {}
    for name, function in (mod if isinstance(mod, Mapping) else {"main": mod}).items():
        if not isinstance(function, PrimFunc):
            why = getattr(function, "unread_because", f"{name} is a {type(function).__name__}: it has no schedule")
            legal = "te.create_prim_func([A, B]), or an IRModule of such functions"
            told = getattr(function, "attrs", {}).get("stages")  # of a function that was read from a script
            if told:
                why, legal = told, "blocks that store one value for each element of a buffer; build takes it as it is"
            raise UsageError(str(why), asked="tir.Schedule", legal=legal)
        functions[str(name)] = function.snapshot()
    if not functions:
        raise UsageError("the module is empty", asked="tir.Schedule", legal="one function at least")
    return functions


def module_of(lowered: Lowered) -> IRModule:
    """Return a lowered function in a module, with the attributes that TVM gives it."""
    attrs = {"from_legacy_te_schedule": True, "tir.noalias": True, **lowered.function.attrs}
    return IRModule({lowered.function.name: replace(lowered.function, attrs=attrs)})


attach(Lowered, mod=property(module_of), script=lambda lowered: module_of(lowered).script())
