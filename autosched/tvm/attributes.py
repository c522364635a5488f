"""TVM's names for parts of expressions, statements, axes, loops and stages: attached when `autosched.tvm` is imported.

    e.a, e.b, e.condition           the operands of an expression
    loop.loop_var, loop.min         `var` and `start` of a lowered loop
    s[B].leaf_iter_vars             the loops there are, outermost first
    s[B].iter_var_attrs[x]          the annotations of loop x
    s[B].attach_type                where it is computed, and at which loop of what
    s.outputs[0].output(0), .body   parts of the operation, of its tensor, too
    C.op.attrs["n"].value           numbers and texts that answer by TVM's names of their parts
    buffer.scope()                  the same

The shim adds nothing else to classes of the core (see `ir.attached`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args
from weakref import WeakKeyDictionary, WeakSet

from autosched.ir.attached import alias, attach
from autosched.ir.dtype import DType
from autosched.ir.expr import Expr, compare, const, is_const
from autosched.ir.ops import OPS, SPELLED
from autosched.ir.stmt import THREAD_TAGS, Allocate, Buffer, For, Function, If, Seq, Stmt
from autosched.ir.visit import pre_order
from autosched.runtime import registry
from autosched.runtime.module import Module
from autosched.runtime.ndarray import NDArray
from autosched.schedule.kinds import leaf
from autosched.schedule.loop import leaf_extents
from autosched.schedule.primitives.marks import PRAGMAS
from autosched.schedule.primitives.place import Group
from autosched.schedule.schedule import Schedule
from autosched.schedule.stage import Fuse, Loop, Stage
from autosched.target import Target
from autosched.te.extern import ExternOp
from autosched.te.functions import ThreadAxis
from autosched.te.reduction import Combiner, Reduction
from autosched.te.scan import ScanOp
from autosched.te.tensor import ComputeOp, IterVar, Operation, Tensor
from autosched.te.tensor_intrin import TensorIntrin
from autosched.tir.blocks import Block
from autosched.tir.module import IRModule, PrimFunc, block_names
from autosched.tir.remarks import Annotations
from autosched.tir.script import script

F = TypeVar("F", bound=Callable[..., Any])

# -- expressions and statements -----------------------------------------------------------------------

_CHOICE = ("condition", "true_value", "false_value")

#: (operator, name) -> which argument TVM's node of that kind calls so
_OPERANDS: dict[tuple[str, str], int] = {
    **{
        (op, name): at
        for op, info in OPS.items()
        if info.kind in ("arith", "bits", "compare", "logic")
        for at, name in enumerate("ab"[: info.arity])
    },
    **{(op, name): at for op in ("select", "if_then_else") for at, name in enumerate(_CHOICE)},
    ("ramp", "base"): 0,
    ("ramp", "stride"): 1,
}


def _part(e: Expr, name: str) -> Any:
    """A part of an expression: `a` and `b`, `condition`, `lanes`, `buffer`, `indices`, `axis` ..."""
    if name.startswith("_") or name in Expr.__slots__:
        raise AttributeError(name)
    at = _OPERANDS.get((e.op, name))
    if at is not None:
        return e.args[at]
    if name == "lanes" and e.op in ("ramp", "broadcast"):
        return e.dtype.lanes
    if e.op in ("load", "read"):
        if name == "indices":
            return e.args
        if name == ("buffer" if e.op == "load" else "producer"):
            return e.value
    if e.op == "reduce" and name in _REDUCTION_PARTS:
        return _REDUCTION_PARTS[name](e.value, *e.value.parts(e.args))
    raise AttributeError(f"{e.op!r} expression has no {name!r}: {e!r}")


#: name -> that part of a reduction over its sources, under a condition, from first values on
_REDUCTION_PARTS: dict[str, Callable[[Reduction, tuple[Expr, ...], Expr, tuple[Expr, ...]], Any]] = {
    "axis": lambda r, sources, condition, first: r.axes,
    "combiner": lambda r, sources, condition, first: r.written_out([e.dtype for e in sources]),
    "condition": lambda r, sources, condition, first: condition,
    "init": lambda r, sources, condition, first: first,
    "source": lambda r, sources, condition, first: sources,
    "value_index": lambda r, sources, condition, first: r.value_index,
}


#: all names of parts of expressions
PARTS = tuple(dict.fromkeys((*(n for _, n in _OPERANDS), "lanes", "indices", "buffer", "producer", *_REDUCTION_PARTS)))


class Operator(str):
    """An operator of an expression: its name, which knows TVM's (`e.op.name` is `"tir.exp"`)."""

    __slots__ = ()
    name = property(lambda self: f"tir.{'fabs' if self == 'abs' else self}")

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # who reads it need not know of TVM


SPELLED.update((op, Operator(op)) for op, info in OPS.items() if info.kind == "math" or op == "abs")
attach(Expr, __getattr__=_part, equal=lambda e, other: compare("eq", e, other))
attach(For, loop_var=alias("var"), min=alias("start"))
attach(If, then_case=alias("then"), else_case=alias("otherwise"))
attach(Seq, seq=alias("stmts"), __getitem__=lambda s, at: s.stmts[at], __len__=lambda s: len(s.stmts))
attach(Seq, __bool__=lambda s: True)  # also without statements
attach(Allocate, extents=alias("buffer.shape"), dtype=alias("buffer.dtype"), buffer_var=alias("buffer"))
attach(Function, buffer_map=property(lambda f: {b: b for b in f.params}))  # parameters are buffers


def _called(f: Any, name: str) -> Any:
    """`f.__name__`, as that of a function of Python's."""
    if name == "__name__":
        return f.name
    raise AttributeError(f"{type(f).__name__!r} object has no attribute {name!r}")


attach(Function, __str__=lambda f: f.script(), __getattr__=_called)
for _kind in get_args(Stmt):
    attach(_kind, __str__=script, script=script)
attach(PrimFunc, __getattr__=_called)
attach(Combiner, lhs=alias("left"), rhs=alias("right"), identity_element=alias("identity"))
attach(TensorIntrin, reduce_init=alias("reset"), reduce_update=alias("update"))

# -- texts and numbers, where TVM has objects ----------------------------------------------------------


class Text(str):
    """Text that answers to `.value` and to a call."""

    __slots__ = ()
    value = property(str)

    def __call__(self) -> str:
        return str(self)


class Whole(int):
    """An integer that answers to `.value`."""

    __slots__ = ()
    value = property(int)


class Real(float):
    """A number that answers to `.value`."""

    __slots__ = ()
    value = property(float)


class Attributes(dict[str, Any]):
    """Attributes of an operation, which print as JSON."""

    def __str__(self) -> str:
        return json.dumps(self)


_ANSWERING: dict[type, type] = {str: Text, int: Whole, float: Real}


def answering(value: Any) -> Any:
    """A number or text that answers to `.value`, also in lists and dictionaries; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [answering(v) for v in value]
    if isinstance(value, dict):
        return Attributes({k: answering(v) for k, v in value.items()})
    return _ANSWERING.get(type(value), lambda v: v)(value)


class _Answering:
    """An attribute whose value answers, in place of one of the class's own."""

    def __init__(self, cls: type, name: str) -> None:
        self.name, self.slot = name, vars(cls).get(name)

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        return answering(vars(instance)[self.name] if self.slot is None else self.slot.__get__(instance, owner))

    def __set__(self, instance: Any, value: Any) -> None:
        if self.slot is None:
            vars(instance)[self.name] = value
        else:
            self.slot.__set__(instance, value)


attach(Buffer, scope=_Answering(Buffer, "scope"))
for _operation in (ComputeOp, ExternOp, ScanOp):
    attach(_operation, attrs=_Answering(_operation, "attrs"))

# -- axes and loops -----------------------------------------------------------------------------------


class IterType(IntEnum):
    """Kinds of axes and loops."""

    DataPar = 0
    ThreadIndex = 1
    CommReduce = 2
    Ordered = 3
    Opaque = 4
    Unrolled = 5
    Vectorized = 6
    Parallelized = 7
    Tensorized = 8


_AXIS_TYPES = {"spatial": IterType.DataPar, "reduce": IterType.CommReduce, "scan": IterType.Ordered}
_LOOP_TYPES = {
    "parallel": IterType.Parallelized,
    "vectorize": IterType.Vectorized,
    "unroll": IterType.Unrolled,
    "thread": IterType.ThreadIndex,
}


def loop_type(loop: Loop) -> IterType:
    """The kind of a loop."""
    if loop.stage.intrinsic is not None and loop.stage.intrinsic[0] is loop:
        return IterType.Tensorized
    marked = _LOOP_TYPES.get(loop.kind)
    return marked if marked is not None else IterType.CommReduce if loop.is_reduce else IterType.DataPar


attach(IterVar, iter_type=property(lambda axis: _AXIS_TYPES[axis.kind]), thread_tag="")  # threads are bound to loops
attach(ThreadAxis, iter_type=IterType.ThreadIndex)
attach(Loop, iter_type=property(loop_type), thread_tag=alias("thread"))


def _extent(loop: Loop) -> Expr:
    """How many iterations a loop has; of one that was split or fused since, nothing is known: AttributeError."""
    extents = leaf_extents(loop.stage)
    if loop not in extents:
        raise AttributeError(f"{loop.full_name} was split or fused: its parts have extents")
    return extents[loop]


attach(Loop, extent=property(_extent), loop_var=alias("var"), min=property(lambda loop: const(0)))
attach(PrimFunc, buffer_map=property(lambda f: {p: p for p in f.params}))  # parameters are tensors


def same_as(one: Any, other: Any) -> bool:
    """Whether both are one object."""
    return one is other


_NODES = (Block, Buffer, Function, IRModule, Loop, Module, NDArray, PrimFunc, Schedule, Stage, Target)
for _cls in (*_NODES, *get_args(Stmt)):
    attach(_cls, same_as=same_as)

# -- stages -------------------------------------------------------------------------------------------


class AttachType(IntEnum):
    """Places where a stage is computed."""

    GroupRoot = 1
    Inline = 2
    InlinedAlready = 3
    Scope = 4
    ScanUpdate = 5


def _of(cls: type) -> Callable[[F], F]:
    """Decorator: give a class a property that this function reads off its instances."""

    def give(f: F) -> F:
        attach(cls, **{f.__name__: property(f)})
        return f

    return give


_ATTACH = {"root": AttachType.GroupRoot, "inline": AttachType.Inline, "at": AttachType.Scope}


@dataclass(frozen=True)
class IterVarAttr:
    """The annotations of a loop."""

    loop: Loop

    @property
    def iter_type(self) -> IterType:
        return loop_type(self.loop)

    @property
    def bind_thread(self) -> Loop | None:
        """The loop itself, which has a `thread_tag`, if it is bound."""
        return self.loop if self.loop.thread else None

    @property
    def pragma_keys(self) -> list[Text]:
        return [*(Text(p.partition("=")[0]) for p in self.loop.pragmas), *map(Text, _notes.get(self.loop, ()))]

    @property
    def pragma_values(self) -> list[Any]:
        values = [p.partition("=")[2] for p in self.loop.pragmas]
        return [*(int(v) if v else None for v in values), *map(answering, _notes.get(self.loop, {}).values())]

    @property
    def tensor_intrin(self) -> TensorIntrin | None:
        intrinsic = self.loop.stage.intrinsic
        return intrinsic[1] if intrinsic is not None and intrinsic[0] is self.loop else None

    @property
    def prefetch_data(self) -> list[Tensor]:
        return [f.tensor for f in self.loop.stage.fetches if f.loop is self.loop]


#: pragmas of users' own, which nothing here reads but their programs
_notes: WeakKeyDictionary[Loop, dict[str, Any]] = WeakKeyDictionary()


#: schedules that TVM's `create_schedule` made
of_tvm: WeakSet[Schedule] = WeakSet()


def pragma(self: Stage, var: Any, pragma_type: str, pragma_value: Any = None) -> None:
    """As `Stage.pragma`; of TVM's programs also marks of loops by their names, C and LLVM assembly, and names of the
    user's own.

    `import_c` and `import_llvm` compile their value at once, for all programs; names that are no pragma here are kept
    for `iter_var_attrs`, those for TVM's pool of threads among them.
    """
    if self.schedule not in of_tvm:
        _pragma(self, var, pragma_type, pragma_value)
        return
    importer = Annotations.importers.get(f"pragma_{pragma_type}")
    if importer is not None:
        importer(pragma_value)
    elif pragma_type in ("vectorize", "unroll", "parallel"):
        getattr(self, pragma_type)(var)
    elif pragma_type in PRAGMAS or pragma_type in ("tensor_core",):
        _pragma(self, var, pragma_type, pragma_value)
    else:
        _notes.setdefault(leaf(self, var), {})[pragma_type] = pragma_value


def _imported(importer: Callable[[str], None], source: str) -> None:
    """Compile code, or that of a file."""
    is_file = "\n" not in source and os.path.isfile(source)
    importer(Path(source).read_text(encoding="utf-8") if is_file else source)


Annotations.importers.update(
    pragma_import_c=partial(_imported, registry.import_c), pragma_import_llvm=partial(_imported, registry.import_llvm)
)
_pragma = Stage.pragma
attach(Stage, pragma=pragma)

_set_store_predicate = Stage.set_store_predicate


def set_store_predicate(self: Stage, predicate: Any) -> Stage:
    """As `Stage.set_store_predicate`. A condition on the first of threads that no loop of this stage is bound to says
    nothing: each of them stores the same."""
    if isinstance(predicate, Expr) and predicate.op == "eq" and is_const(predicate.args[1], 0):
        first = predicate.args[0]
        if first.op == "var" and first.name in THREAD_TAGS and all(x.thread_var is not first for x in self.loops):
            return self
    return _set_store_predicate(self, predicate)


attach(Stage, set_store_predicate=set_store_predicate)


@_of(Stage)
def leaf_iter_vars(s: Stage) -> tuple[IterVar | Loop, ...]:
    """The loops, outermost first; for a loop over a whole axis, the axis."""
    return tuple(loop.root or loop for loop in s.loops)


@_of(Stage)
def all_iter_vars(s: Stage) -> tuple[IterVar | Loop, ...]:
    """Axes of the operation, and all loops that were made, also those split or fused since."""
    made: list[IterVar | Loop] = list(s.roots)
    for r in s.relations:
        made += [r.fused] if isinstance(r, Fuse) else [r.outer, r.inner]
    return tuple(made)


@_of(Stage)
def iter_var_attrs(s: Stage) -> dict[IterVar | Loop, IterVarAttr]:
    """Loop (or axis) -> its annotations."""
    found: dict[IterVar | Loop, IterVarAttr] = {}
    for loop in s.loops:
        found[loop] = IterVarAttr(loop)
        if loop.root is not None:
            found[loop.root] = found[loop]
    return found


@_of(Stage)
def attach_type(s: Stage) -> AttachType:
    """The kind of place where a stage is computed. Parts of a scan, unless moved, are at its loop over time."""
    kind, host, at = s.attach.kind, s.attach.stage, s.attach.loop
    if kind == "init" or (host is not None and at is not None and at is host.scan_loop):
        return AttachType.ScanUpdate
    return _ATTACH[kind]


@_of(Stage)
def attach_ivar(s: Stage) -> IterVar | Loop | None:
    """The loop that a stage is computed at."""
    at = s.attach.loop
    return None if at is None else at.root or at


@_of(Stage)
def group(s: Stage) -> Group | None:
    """The smallest group of a stage."""
    return _innermost(s.schedule, {s})


def _innermost(s: Schedule, members: set[Stage], besides: Group | None = None) -> Group | None:
    found = [g for g in s.groups if g is not besides and members <= set(g.stages)]
    return min(found, key=lambda g: len(g.stages), default=None)


@_of(Stage)
def origin_op(s: Stage) -> Operation:
    """The operation by which the caller knows a stage."""
    known = [op for op, stage in stage_map(s.schedule).items() if stage is s]
    return known[0] if known else s.tensor.op


@dataclass(frozen=True)
class Accessed:
    """A tensor that a block reads or writes: TVM's `BufferRegion`, without the region."""

    buffer: Tensor


@_of(Stage)
def iter_vars(s: Stage) -> list[IterVar]:
    """The axes of a block, spatial ones first."""
    return [*s.axis, *s.reduce_axis]


@_of(Stage)
def reads(s: Stage) -> list[Accessed]:
    """What a block reads, in order of first appearance."""
    return [Accessed(t) for t in dict.fromkeys(e.value for e in pre_order(s.body) if e.op == "read")]


@_of(Stage)
def writes(s: Stage) -> list[Accessed]:
    """What a block writes."""
    return [Accessed(t) for t in s.op.outputs]


attach(
    Stage,
    attach_stage=alias("attach.stage"),
    name_hint=property(lambda stage: block_names(stage.schedule).get(stage, stage.name)),
)
# outputs of a schedule are tensors here, operations in TVM
attach(Tensor, output=lambda t, index: t.op.output(index))
attach(Tensor, **{name: alias(f"op.{name}") for name in ("axis", "body", "input_tensors", "num_outputs", "tag")})


def _inner_groups(g: Group) -> list[Group]:
    """The groups whose members are all in this one, and of which none is part of another."""
    s = g._schedule
    return [x for x in s.groups if x is not g and _innermost(s, set(x.stages), x) is g]


@_of(Group)
def num_child_stages(g: Group) -> int:
    """The number of members, where a group inside counts as one."""
    inner = _inner_groups(g)
    return len(set(g.stages).difference(*(x.stages for x in inner))) + len(inner)


attach(Group, group=property(lambda g: _innermost(g._schedule, set(g.stages), g)))


def follow_loops(s: Schedule) -> None:
    """Compute stages that were put at a loop that has been split or fused since, at the inner part of it, or at the
    whole: as TVM does when it lowers."""
    for stage in s.stages:
        at = loop = stage.attach.loop
        while loop is not None and loop not in loop.stage.loops:
            made = [r.made[-1] for r in loop.stage.relations if loop in r.parents]
            loop = made[0] if made else None
        if loop is not None and loop is not at:
            stage.compute_at(loop.stage, loop)


def normalize(s: Schedule) -> Schedule:
    """Return the schedule itself, checked. Its loops begin at 0 already."""
    follow_loops(s)
    s.verify()
    return s


@_of(Schedule)
def stage_map(s: Schedule) -> dict[Operation, Stage]:
    """Operation -> its stage, for operations that were replaced, too."""
    return {t.op: stage for t, stage in s._stage_of.items()}


attach(Schedule, normalize=normalize)

# -- modules ------------------------------------------------------------------------------------------


def _with_attrs(mod: IRModule, attrs: Mapping[str, Any]) -> IRModule:
    return IRModule(dict(mod.items()), {**mod.attrs, **attrs})


def _update(mod: IRModule, other: Mapping[str, Any]) -> None:
    for name, f in other.items():
        mod.update_func(name, f)


attach(
    IRModule,
    clone=lambda mod: _with_attrs(mod, {}),
    update=_update,
    functions_items=lambda mod: list(mod.items()),
    get_attr=lambda mod, key: mod.attrs.get(key),
    with_attr=lambda mod, key, value: _with_attrs(mod, {key: value}),
    with_attrs=_with_attrs,
    without_attr=lambda mod, key: IRModule(dict(mod.items()), {k: v for k, v in mod.attrs.items() if k != key}),
)

# -- compiled functions and arrays --------------------------------------------------------------------

Module.ENTRY_NAMES.add("__tvm_main__")
attach(
    Module,
    entry_func=property(lambda module: module),
    get_function=lambda module, name, query_imports=False: module[name],
    implements_function=lambda module, name, query_imports=False: (
        isinstance(name, str) and (name in module.functions or name in module.ENTRY_NAMES)
    ),
)
attach(NDArray, ctx=alias("device"), to_dlpack=lambda array: array.__dlpack__())
attach(DType, itemsize=lambda of: of.bytes)
