"""The schedule: stages, and the trace of what was done to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from autosched.errors import (
    Illegal,
    RecordError,
    ScheduleError,
    UsageError,
    UsageTypeError,
    asked_at,
    did_you_mean,
    expect,
    with_line,
)
from autosched.ir.expr import Expr, var, variables
from autosched.ir.node import Unique, order
from autosched.schedule import decisions, scans
from autosched.schedule import kinds as K
from autosched.schedule.decisions import Filter, SplitBy
from autosched.schedule.formulas import constraint_from_json, constraint_to_json, is_knob_name
from autosched.schedule.kinds import MAX_FACTOR
from autosched.schedule.primitive import PRIMITIVES, refuse_doubtful
from autosched.schedule.primitives import new_stages, over_time, reindexing, running, together
from autosched.schedule.primitives.place import Group
from autosched.schedule.scans import Scans
from autosched.schedule.stage import Loop, Relatives, Stage
from autosched.schedule.trace import Instruction, Trace
from autosched.te.tensor import Graph, IterVar, Operation, PlaceholderOp, Tensor
from autosched.te.tensor_intrin import TensorIntrin


@dataclass(frozen=True, slots=True, eq=False)
class Knob(Unique):
    """A tuning parameter: an integer from a finite set, perhaps 0 or negative. `var` stands for it in expressions."""

    name: str
    values: tuple[int, ...]
    var: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Constraint(Unique):
    """A condition over knobs (and sizes) that a candidate must meet; `reason` says why."""

    condition: Expr
    reason: str


#: knobs that new schedules have from the start
_lent: ContextVar[dict[str, Knob] | None] = ContextVar("lent knobs", default=None)


@contextmanager
def shared_knobs(s: Schedule) -> Iterator[None]:
    """Schedules that are created inside `with` may use the knobs of this one, to whom their traces are added."""
    token = _lent.set(dict(s.knobs))
    try:
        yield
    finally:
        _lent.reset(token)


class Schedule:
    """The way to compute some tensors: which loops, in which order, on what hardware.

    >>> from autosched import te
    >>> from autosched.schedule import create_schedule
    >>> n = te.var("n")
    >>> A = te.placeholder((n,), name="A")
    >>> B = te.compute((n,), lambda i: A[i] + 1, name="B")
    >>> s = create_schedule(B)
    >>> outer, inner = s[B].split("i", factor=8)
    >>> s[B].vectorize(inner)
    >>> print(s.trace.as_python())
    def schedule(s):
        s["B"].split("i", factor=8)
        s["B"].vectorize("i.inner")
    <BLANKLINE>
    """

    def __init__(self, outputs: Sequence[Tensor], fixed_arguments: bool = False) -> None:
        if not outputs:
            raise UsageError("nothing to compute", asked="create_schedule([])", legal="give the output tensors")
        self.outputs = tuple(outputs)
        self.fixed_arguments = fixed_arguments  #: whether callers expect arguments as they were declared
        self.laid_out: dict[Tensor, Tensor] = {}  #: an argument -> the tensor in whose layout it is passed
        self.trace = Trace()
        self.knobs: dict[str, Knob] = dict(_lent.get() or {})
        self.constraints: list[Constraint] = []
        self.stages: list[Stage] = []
        self.groups: list[Group] = []
        self._stage_of: dict[Tensor, Stage] = {}
        self._by_name: dict[str, Stage] = {}
        self._lines: dict[tuple[str, ...], str] = {}  #: where a primitive, of a stage, for a loop was called last
        self.decisions: dict[str, Any] = {}  #: what define_split, define_reorder and define_annotate made
        self.definitions: dict[str, Any] = {}  #: of those, to tell another one of the same name
        self._choices: dict[str, Any] = {}
        self.choices_seen: dict[str, tuple[Any, ...]] = {}
        self.remarks: list[tuple[str, str, str]] = []  #: stage, sketch rule, why; where rules made it
        self._calls: list[Instruction] | None = None  #: the primitives that the one being applied has called
        self.parts: list[Instruction] = []  #: those that the last one called
        self.version, self.inlinings = 0, 0  #: changes of what stages compute; of inlining
        self._relatives = Relatives()
        self.notes: dict[str, Any] = {}  #: what rules have found of the stages: a copy begins without
        for op in Graph.of(outputs).ops:
            self._add(op.output_tensor, len(self.stages), any(t in self.outputs for t in op.outputs))
        self.scans = Scans(self)
        for stage in self.stages if self.scans.stages else ():
            stage.attach = self.scans.home(stage)

    def __copy__(self) -> Schedule:
        return deepcopy(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Schedule:
        """A schedule of its own with the same tensors. Stages come first: they refer to one another in chains that
        recursion should not follow."""
        made = memo[id(self)] = object.__new__(Schedule)
        stages = [(x, object.__new__(Stage)) for x in self.stages]
        memo.update((id(x), other) for x, other in stages)
        memo[id(self._lines)] = dict(self._lines)  # names and places, of which there are most
        for x, other in stages:
            other.__dict__.update(deepcopy(x.__dict__, memo))
        made.__dict__.update(deepcopy({**self.__dict__, "_relatives": Relatives(), "notes": {}}, memo))
        return made

    def _add(self, tensor: Tensor, at: int, is_output: bool) -> Stage:
        name, count = tensor.op.name, 0
        while name in self._by_name:
            count += 1
            name = f"{tensor.op.name}_{count}"
        stage = Stage(self, tensor, name, is_output)
        self.stages.insert(at, stage)
        self.version += 1
        self._stage_of.update(dict.fromkeys(tensor.op.outputs, stage))
        self._by_name[name] = stage
        return stage

    def insert_stage(self, tensor: Tensor, before: Stage, scope: str = "") -> Stage:
        """A stage for a tensor that a primitive made, with the scope that was given for it, if any."""
        stage = self._add(tensor, self.stages.index(before), is_output=False)
        stage.attach = self.scans.home(stage)
        stage.scope, stage.scope_given = scope or stage.scope, bool(scope)
        return stage

    def retensor(self, stage: Stage, op: Operation) -> None:
        """The stage computes other tensors from now on; the old ones still name it."""
        new = dict(zip(stage.op.outputs, op.outputs, strict=True))
        for x in self.stages:
            x.fetches = [replace(f, tensor=new.get(f.tensor, f.tensor)) for f in x.fetches]
        self._stage_of.update(dict.fromkeys(op.outputs, stage))
        stage.tensor = op.output_tensor
        self.version += 1

    def passed(self, tensor: Tensor) -> Tensor:
        """The tensor in whose layout an argument is passed: itself, unless `transform_layout` changed that."""
        return self.laid_out.get(tensor, tensor)

    def current(self, handle: Any) -> Tensor:
        """What is computed in place of a tensor that a primitive replaced; of several outputs, the one of its name."""
        found, name = self[handle].op.outputs, getattr(handle, "name", handle)
        named = [x for x in found if x is self.laid_out.get(handle, handle)] or [x for x in found if x.name == name]
        return (named or found[getattr(handle, "value_index", 0) :] or found)[0]

    # -- looking up -----------------------------------------------------------------------------
    def stage(self, handle: Stage | Tensor | Operation | str) -> Stage:
        """The stage of a tensor, an operation or a name. Raises Illegal inside a primitive."""
        if isinstance(handle, Stage):
            return handle
        handle = handle.output_tensor if isinstance(handle, Operation) else handle
        found = self._stage_of.get(handle) if isinstance(handle, Tensor) else self._by_name.get(str(handle))
        if found is None:
            text = handle.name if isinstance(handle, Tensor) else str(handle)
            hint = "" if text in self._by_name else did_you_mean(text, self._by_name)
            raise Illegal(f"the schedule has no stage {text!r}", f"{hint}stages: {', '.join(self._by_name)}")
        return found

    def __getitem__(self, handle: Stage | Tensor | Operation | str) -> Stage:
        try:
            return self.stage(handle)
        except Illegal as error:
            name = getattr(handle, "name", handle)
            raise ScheduleError(error.why, asked=with_line(f"s[{name!r}]"), legal=error.legal) from None

    def __contains__(self, handle: object) -> bool:
        """Return whether there is a stage of that tensor, operation or name."""
        if isinstance(handle, Stage):
            return handle in self.stages
        if isinstance(handle, Operation):
            handle = handle.output_tensor
        return handle in self._stage_of or handle in self._by_name

    def reads(self, stage: Stage) -> list[Stage]:
        """The stages whose tensors this one reads, in order of first appearance."""
        return list(dict.fromkeys(self._stage_of[t] for t in stage.reads_of_body()))

    def readers(self, tensor: Tensor) -> list[Stage]:
        """The stages that read this very tensor, of perhaps several that its operation computes."""
        return [x for x in self.stages if tensor in x.reads_of_body()]

    def consumers(self, stage: Stage, deep: bool = False) -> list[Stage]:
        """The stages that read this one; `deep` adds those that read them, and so on."""
        return self._relatives.all_readers(self, stage) if deep else self._relatives.readers(self, stage)

    def depends_on(self, consumer: Stage, producer: Stage) -> bool:
        """Whether a stage needs another one, by way of others, too."""
        return producer in self._relatives.needed(self, consumer)

    def attached_at(self, host: Loop | Stage) -> list[Stage]:
        """The stages computed at this loop, or inside this stage, in order of computation."""
        return self._relatives.inside(self, host)

    def stored_at(self, loop: Loop) -> list[Stage]:
        """The stages computed further inside whose storage belongs to one iteration of this loop."""
        return [x for x in self.stages if x.store.loop is loop and x.attach.loop is not loop]

    def size(self, name: str) -> Expr:
        """The size variable of that name, for use in factors."""
        found = self.sizes().get(name)
        if found is None:
            legal = f"sizes: {', '.join(self.sizes()) or 'none'}"
            raise ScheduleError(f"no size {name!r}", asked=with_line(f"s.size({name!r})"), legal=legal)
        return found

    def sizes(self) -> dict[str, Expr]:
        """The size variables of the tensors' shapes, by name."""
        sizes: dict[str, Expr] = {}
        for stage in self.stages:
            for d in stage.tensor.shape:
                found = [v for v in variables(d) if v.value.role == "size"]  # and no knob
                sizes.update({v.name: v for v in sorted(found, key=order)})
        return sizes

    def variables(self) -> dict[tuple[str, str], Expr]:
        """The variables that factors and conditions may have, by role and name."""
        sizes = {("size", name): v for name, v in self.sizes().items()}
        return {**{("knob", k.name): k.var for k in self.knobs.values()}, **sizes}

    # -- primitives -----------------------------------------------------------------------------
    def apply(self, kind: str, stage: Stage, /, *args: Any, **options: Any) -> Any:
        """Call a primitive and record it. Raises ScheduleError with the caller's line.

        Primitives that it calls itself are not recorded, but kept in `parts`.
        """
        called = PRIMITIVES[kind]
        given, options = called.bound(args, options)
        outer, self._calls = self._calls, []
        try:
            kinds = called.kinds_of(len(given))
            owner = self.stage(given[0]) if K.HOST_LOOP in kinds else stage  # of the loops that are named
            data = [k.to_data(a, owner if k is K.HOST_LOOP else stage) for k, a in zip(kinds, given, strict=True)]
            said = {k: called.options[k].to_data(v, stage) for k, v in options.items()}
            made = Instruction(kind, stage.name, tuple(data), said)
            result = called.function(self, stage, *given, **options)
        except (Illegal, RecordError) as error:
            if outer is not None:
                raise
            text = [*map(_text, given), *(f"{k}={_text(v)}" for k, v in options.items())]
            of, text = ("s", [stage.name, *text]) if called.of_schedule else (stage.name, text)
            asked = with_line(f"{of}.{kind}({', '.join(text)})")
            raise ScheduleError(error.why, asked=asked, legal=error.legal) from None
        finally:
            self.parts, self._calls = self._calls, outer
        if outer is not None:
            outer.append(made)
            return result
        self.trace.append(made)
        self._lines[kind, stage.name] = where = asked_at()
        if made.args and isinstance(made.args[0], str):
            self._lines[kind, stage.name, made.args[0]] = where
        return result

    def earlier(self, kind: str, stage: Stage, arguments: str = "", first: str = "") -> str:
        """A previous call and the line it was made in, for errors that show later. With `first`, the last call with
        that loop (or stage) as its first argument."""
        where = self._lines.get((kind, stage.name, *filter(None, [first])), "")
        return with_line(f"{stage.name}.{kind}({arguments})", where)

    def calls_on_loops(self) -> dict[Expr, str]:
        """For each loop that is not serial, by its variable, the call that marked it."""
        both = ((*x.loops, *(x.init.loops.values() if x.init else ())) for x in self.stages)
        return {x.var: x.marked_by for loops in both for x in loops if x.kind != "serial"}

    def cache_write(self, tensor: Any, scope: str = "global", keep_loops: bool = False) -> Any:
        """See `new_stages.cache_write`. Of tensors that are computed together, give the list of all."""
        several = isinstance(tensor, (list, tuple))
        stage = self._stage_of_all(tensor) if several else self[tensor]
        if isinstance(tensor, Tensor) and stage.op.num_outputs > 1:
            self._stage_of_all([tensor])
        made = new_stages.cache_write(stage, scope, keep_loops)
        return [made] if several and not isinstance(made, list) else made

    if not TYPE_CHECKING:  # which sees the three above and below

        def __getattr__(self, name: str) -> Any:
            """A primitive on tensors that was declared elsewhere."""
            if name not in PRIMITIVES or not PRIMITIVES[name].of_schedule:
                raise AttributeError(f"a schedule has no {name!r}")
            return lambda tensor, *args, **options: PRIMITIVES[name].method(self[tensor], *args, **options)

    def _stage_of_all(self, tensors: Sequence[Any]) -> Stage:
        """The stage whose outputs these are, all of them."""
        stage = self[tensors[0]] if tensors else None
        if stage is None or set(tensors) != set(stage.op.outputs):
            names = ", ".join(getattr(t, "name", str(t)) for t in tensors)
            wanted = "the outputs of one operation" if stage is None else ", ".join(t.name for t in stage.op.outputs)
            asked, legal = with_line(f"s.cache_write([{names}])"), f"s.cache_write([{wanted}])"
            raise ScheduleError("tensors that one operation computes are cached together", asked=asked, legal=legal)
        return stage

    def cache_read(
        self,
        tensor: Any,
        scope: str = "global",
        readers: Any = (),
        output: int | None = None,
        only: int | None = None,
        cast: bool = False,
    ) -> Tensor:
        """See `new_stages.cache_read`. Without readers, all of them."""
        stage = self[tensor]
        output = self.current(tensor).value_index if output is None else output
        source = stage.op.outputs[output] if 0 <= output < stage.op.num_outputs else stage.tensor
        chosen = (list(readers) if isinstance(readers, (list, tuple)) else [readers]) or self.readers(source)
        return new_stages.cache_read(stage, scope, chosen, output, only, cast)

    def rfactor(self, tensor: Any, axis: Any, factor_axis: int = 0) -> Any:
        """See `new_stages.rfactor`."""
        return new_stages.rfactor(self[tensor], axis, factor_axis)

    def offset_bytes(self, tensor: Any, operand: Any) -> list[Tensor]:
        """See `new_stages.offset_bytes`."""
        return new_stages.offset_bytes(self[tensor], operand)

    def reindex(self, tensor: Any, operand: Any) -> Tensor:
        """See `reindexing.reindex`: `tensor` reads `operand`."""
        return reindexing.reindex(self[tensor], operand)

    def reduce_together(self, tensor: Any, others: Any) -> list[Tensor]:
        """See `together.reduce_together`."""
        return together.reduce_together(self[tensor], list(others) if isinstance(others, (list, tuple)) else [others])

    def compute_together(self, tensor: Any, others: Any) -> list[Tensor]:
        """See `together.compute_together`."""
        return together.compute_together(self[tensor], list(others) if isinstance(others, (list, tuple)) else [others])

    def separate_reduction(self, tensor: Any, axis: Any, factor: int = 0) -> Any:
        """See `together.separate_reduction`."""
        return together.separate_reduction(self[tensor], axis, factor)

    def running_reduction(self, tensor: Any) -> Any:
        """See `running.running_reduction`."""
        return running.running_reduction(self[tensor])

    def block_time(self, tensor: Any, factor: int) -> list[Tensor]:
        """See `over_time.block_time`."""
        return over_time.block_time(self[tensor], factor)

    def create_group(self, outputs: Any, inputs: Any = (), include_inputs: bool = False) -> Group:
        """The stages that compute `outputs` from `inputs`, to be moved together; see `place.Group`."""
        listed = (x if isinstance(x, (list, tuple)) else [x] for x in (outputs, inputs))
        ends, begins = ([self[x] for x in given] for given in listed)
        group = Group(self, ends, begins, include_inputs)
        if not group.stages:
            asked = with_line(f"create_group({[x.name for x in ends]}, {[x.name for x in begins]})")
            legal = "outputs that are computed from the inputs, by stages in between"
            raise ScheduleError("there is nothing between them", asked=asked, legal=legal)
        self.groups.append(group)
        return group

    # -- what a template adds -------------------------------------------------------------------
    def define_knob(self, name: str, values: Iterable[Any]) -> Any:
        """An integer that tuning chooses among `values`; use it as a factor, where values below 1 are infeasible.

        Calling it again with the same name and values returns the same knob. Values that are not all
        integers (strings, booleans) make it a `choose`. Raises ScheduleError for an empty set, integers
        that do not fit 32 bits, or a name in use.
        """
        if not isinstance(name, str) or not isinstance(values, Iterable):
            asked = with_line(f"define_knob({name!r:.60}, ..)")
            expect(name, "the name of a knob", isinstance(name, str), asked)
            expect(values, "a list of values", False, asked)
        listed = tuple(values)

        def refuse(why: str, legal: str) -> ScheduleError:
            return ScheduleError(why, asked=with_line(f"define_knob({name!r}, {list(listed)!r})"), legal=legal)

        if not listed:
            raise refuse("there are no values", "a non-empty list of them")
        if any(isinstance(v, bool) or not isinstance(v, int) for v in listed):
            return self.choose(name, listed)
        if any(abs(v) > MAX_FACTOR for v in listed):
            raise refuse("a value does not fit 32 bits", f"at most {MAX_FACTOR}")
        if len(set(listed)) != len(listed):
            raise refuse("a value is given twice", "each value once")
        known = self.knobs.get(name)
        if known is not None:
            if known.values != listed:
                had = list(known.values)
                raise refuse(f"knob {name} has the values {had} already", "the same values, or another name")
            return known.var
        if not is_knob_name(name):
            legal = "a Python identifier that is no keyword, nor s, nor te"
            raise refuse(f"{name!r} cannot name a variable of the printed schedule", legal)
        knob = Knob(name, listed, var(name, "int32", "knob", min(listed), max(listed)))
        self.knobs[name] = knob
        self.trace.append(Instruction("define_knob", "", (name, list(listed))))
        return knob.var

    def define_split(
        self, name: str, loop: Any, policy: str = "factors", **options: Unpack[SplitBy]
    ) -> decisions.Split:
        """A split left to tuning: `.size` is (-1, NAME_1, ..), `.apply(stage, loop)` performs it.

        loop:     a loop, an axis, or a number of iterations
        policy:   `factors` of the number of iterations, `power2` up to it, both: `verbose`; or `candidate`
        num_outputs=2: loops to split into;  max_factor: of each but the outermost
        no_tail:  the sizes divide the number of iterations, as of `factors` in any case
        filter:   a function of the Split that says which sizes may be: see `multi_filter`
        candidate: the lists of sizes of that policy, each with one for the outermost, which is ignored

        >>> from autosched import create_schedule, te
        >>> A = te.placeholder((512,), name="A")
        >>> s = create_schedule(te.compute((512,), lambda i: A[i] + 1, name="B"))
        >>> tile = s.define_split("tile", s["B"].op.axis[0], num_outputs=3, filter=lambda x: x.size[-1] <= 16)
        >>> tile.apply("B", "i")
        [B.i.outer, B.i.inner.outer, B.i.inner.inner]

        Raises ScheduleError where nothing is left to choose from. Where the number of iterations is a size
        of the program, the policies are `power2` with a max_factor, and `candidate`.
        """
        return decisions.define(self, "split", name, loop, policy, **options)

    def define_reorder(self, name: str, loops: Sequence[Any], policy: str = "all", **options: Any) -> decisions.Reorder:
        """An order of loops, each choice a sketch: `.perm` holds it, `.apply(stage, loops)` performs it.

        policy: `identity`; `all`; `interval_all`, of the loops from interval[0] up to interval[1]; `candidate`,
        a list of orders; `interleave` or `interleave_cuda`, of chains of loops `spatial` and `reduce`.
        """
        return decisions.define(self, "reorder", name, loops, policy, **options)

    def define_annotate(self, name: str, loops: Sequence[Any], policy: str, **options: Any) -> decisions.Annotate:
        """Marks of loops, each choice a sketch: `.anns` holds them, `.apply(stage, loops)` performs them.

        policy: `none`, `unroll`, `vec`, and joined by underscores what any loop may be: `try_unroll_vec`, of
        which at most one is vectorized; `bind_gpu`, `bind_gpu_virtual`; `locate_cache`, `num_anchor` of them.
        """
        return decisions.define(self, "annotate", name, loops, policy, **options)

    def multi_filter(self, names: Sequence[str], fn: Filter, reason: str = "") -> None:
        """Allow only candidates for which `fn` is true of the decisions and knobs of these names.

        Called with what stands for open values: a comparison is a constraint, else it is asked about all combinations.
        """
        decisions.multi_filter(self, names, fn, reason)

    def among(self, knobs: Sequence[Expr | str], rows: Iterable[Sequence[int]], reason: str = "") -> None:
        """Allow only candidates whose values of these knobs are, together, one of the rows.

        Raises ScheduleError where there are no rows, or one is not of values of the knobs.
        """
        data = decisions.among(self, knobs, rows, reason)
        self.trace.append(Instruction("among", "", (*data, reason) if reason else data))

    def constrain(self, condition: Expr, reason: str = "") -> None:
        """Allow only candidates where the comparison of knobs (and sizes) holds."""
        expect(condition, "a comparison of knobs and sizes", isinstance(condition, Expr), "constrain")
        try:
            encoded = constraint_to_json(condition)
        except RecordError as error:
            raise ScheduleError(error.why, asked=with_line(f"constrain({condition!r})"), legal=error.legal) from None
        self.constraints.append(Constraint(condition, reason or repr(condition)))
        self.trace.append(Instruction("constrain", "", (encoded, reason) if reason else (encoded,)))

    def require(self, condition: Expr, reason: str) -> None:
        """A constraint that follows from a primitive: no instruction of its own."""
        self.constraints.append(Constraint(condition, reason))

    def choose(self, name: str, options: Sequence[Any]) -> Any:
        """A decision that changes the structure: a plain Python value, with a sketch for each option.

        The template runs once for each combination of choices.
        """
        expect((name, options), "a name and options", isinstance(name, str) and isinstance(options, Iterable), "choose")
        listed, why, legal = tuple(options), "", ""
        if not listed:
            why, legal = "nothing to choose from", "at least one option"
        elif not all(map(K.VALUE.fits, listed)):
            why, legal = "an option is not plain data", "numbers, strings, booleans and None"
        elif self.choices_seen.setdefault(name, listed) != listed:
            why, legal = f"{name} has the options {list(self.choices_seen[name])} already", "another name"
        if why:
            raise ScheduleError(why, asked=with_line(f"choose({name!r}, {list(listed)!r})"), legal=legal)
        value = self._choices.get(name, listed[0])
        self.trace.append(Instruction("choose", "", (name, value)))
        return value

    @property
    def choices_made(self) -> dict[str, Any]:
        """The option that each `choose` so far took."""
        return {i.args[0]: i.args[1] for i in self.trace if i.kind == "choose"}

    def with_choices(self, choices: dict[str, Any]) -> Schedule:
        """Decide `choose` calls to come."""
        self._choices = dict(choices)
        return self

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """The tensors that a function made of it takes: inputs in order of first use, then outputs."""
        declared = {new: t for t, new in self.laid_out.items()}
        given = [x.tensor for x in self.stages if x.is_placeholder and x.tensor not in self.scans.storage]
        inputs = (declared.get(t, t) for t in given)
        return (*(t for t in inputs if self.consumers(self.stage(t))), *self.outputs)

    if TYPE_CHECKING:  # `predicting` attaches it

        def auto(
            self, target: Any = None, *, sizes: Mapping[str, int] | None = None, effort: str = "quick"
        ) -> Schedule: ...

    if TYPE_CHECKING:  # `lowering.lint` attaches it

        def check(
            self, target: Any = "llvm", args: Sequence[Tensor] | None = None, knobs: dict[str, int] | None = None
        ) -> list[Any]: ...

    def verify(self) -> None:
        """Raise ScheduleError for an inconsistency that later calls could have repaired, but did not."""
        scans.check(self)
        for stage in self.stages:
            for known in PRIMITIVES.values():
                known.check(self, stage)

    def __repr__(self) -> str:
        return "\n".join(repr(x) for x in self.stages if not x.is_placeholder)


def _text(a: Any) -> str:
    """An argument of a call, for messages."""
    if isinstance(a, (Loop, Stage, Tensor, IterVar, Operation, TensorIntrin)):
        return a.name
    return getattr(a, "__name__", "function") if callable(a) else repr(a)


def create_schedule(ops: Any, *, fixed_arguments: bool = False) -> Schedule:
    """A schedule that computes `ops` (tensors or operations) stage after stage, loops in the order of the axes.

    With `fixed_arguments`, it keeps the layouts of inputs and outputs: who calls the result does not know of them.
    """
    listed = list(ops) if isinstance(ops, (list, tuple)) else [ops]
    outputs = []
    for item in listed:
        tensors = item.outputs if isinstance(item, Operation) else (item,)
        if not isinstance(tensors[0], Tensor):
            raise UsageTypeError(f"{item!r} is not a tensor", asked="create_schedule", legal="tensors or operations")
        outputs += [t for t in tensors if not isinstance(t.op, PlaceholderOp)]
    if not outputs:
        why, asked = "no computed tensor among the outputs", with_line("create_schedule")
        raise UsageError(why, asked=asked, legal="what te.compute returned")
    return Schedule(list(dict.fromkeys(outputs)), fixed_arguments)


def replay(trace: Any, args: Sequence[Tensor], *, trusted: bool = True) -> Schedule:
    """A fresh schedule for the graph of `args`, with a stored trace (a Trace, or its JSON) applied.

    Unless `trusted`, which the trace of a record is not, what may change results is refused: see `keeps_meaning`.
    Raises RecordError if it is not a trace, ScheduleError if it does not fit the graph.
    """
    s = create_schedule(list(args), fixed_arguments=not trusted)
    parsed = trace if isinstance(trace, Trace) else Trace.from_json(trace)
    if not trusted:
        refuse_doubtful(parsed)
    for i in parsed:
        perform(s, i)
    return s


def perform(s: Schedule, i: Instruction) -> None:
    """One instruction of a trace."""
    match i.kind:
        case "define_knob":
            s.define_knob(i.args[0], i.args[1])
        case "constrain":
            s.constrain(constraint_from_json(i.args[0], s.variables()), *i.args[1:])
        case "among":
            s.among(*i.args)
        case "choose":
            s.with_choices({**s._choices, i.args[0]: i.args[1]}).choose(i.args[0], [i.args[1]])
        case _:
            stage = s[i.stage]
            values = i.mapped(lambda data, kind: kind.decode(data, stage))
            s.apply(i.kind, stage, *values.args, **values.options)
