"""Lowering, top to bottom.

A schedule becomes loops in two halves. STRUCTURAL works while knobs are open and sizes symbolic; it
runs once for a sketch, and features and constraints are read off its result. CONCRETE works on one
candidate: it binds the knobs and ends in statements that code generation understands. Every pass is
a function `(Program) -> Program`, and `show --after PASS` prints what it left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from autosched.errors import LowerError, ScheduleError, UsageError, expect, is_list_of
from autosched.garbage import few_collections
from autosched.ir.conclusions import Answers, Memory
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, compare, const, variables
from autosched.ir.node import order
from autosched.ir.printer import checked_name, format_function
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Allocate, Buffer, Function, Stmt, all_expressions, walk
from autosched.ir.visit import substitute
from autosched.lowering import gpu, round_up, verify
from autosched.lowering.arguments import (
    Binds,
    explicit_sizes,
    parameters,
    passed_intermediates,
    passed_outputs,
    read_scalars,
    scalar_buffers,
    signed,
)
from autosched.lowering.bounds import infer_bounds
from autosched.lowering.gpu import inject_vthreads
from autosched.lowering.inline import inline_stages
from autosched.lowering.masks import choose_lanes, cut_masks, lift_conditions
from autosched.lowering.nest import build_nests
from autosched.lowering.partition import partition_loops
from autosched.lowering.periods import cut_periods
from autosched.lowering.quotients import name_quotients
from autosched.lowering.reads import check_reads
from autosched.lowering.settled import stop_when_settled
from autosched.lowering.simplify_stmt import replace_exprs, simplify_stmt
from autosched.lowering.storage import flatten_buffers, retarget, reuse_storage
from autosched.lowering.stores import align_streams
from autosched.lowering.tensorize import lower_intrinsics
from autosched.lowering.truths import keep_truths_in_bytes
from autosched.lowering.unroll import apply_hints, unroll_loops
from autosched.lowering.vectorize import OnLanes, split_patterns, vectorize_loops
from autosched.schedule.schedule import Constraint, Knob, Schedule
from autosched.schedule.stage import Split
from autosched.target import Target, TargetLike
from autosched.te.tensor import Tensor


@dataclass(frozen=True)
class Program:
    """A function between two passes, with its target and the values of its knobs."""

    function: Function
    target: Target
    knobs: dict[str, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory, repr=False)  #: what passes have proven so far

    def analyzer(self) -> Analyzer:
        """An analyzer without ranges that shares the proofs of earlier passes."""
        return Analyzer(self.memory)

    def with_body(self, body: Stmt) -> Program:
        return replace(self, function=self.function.with_body(body))


Pass = Callable[[Program], Program]

#: Runs the passes of this thread or task, if set: called with the program, the name of a pass and the pass, it returns
#: the program after it. It may time the pass, leave it out, or add steps of its own.
PASS_RUNNER: ContextVar[Callable[[Program, str, Pass], Program] | None] = ContextVar("pass_runner", default=None)


def bind_knobs(p: Program) -> Program:
    """Every knob becomes its number."""
    body, requires = p.function.body, p.function.requires
    found = all_expressions(body) + [r.condition for r in requires]
    mapping: dict[Expr, Expr] = {}
    for v in sorted({v for e in found for v in variables(e) if v.value.role == "knob"}, key=lambda v: str(v.name)):
        if v.name not in p.knobs:
            raise LowerError(
                f"knob {v.name} has no value", asked=p.function.name, legal="tune it, or schedule with numbers"
            )
        mapping[v] = const(p.knobs[v.name])
    return replace(p, function=with_values(p.function, mapping))


def with_values(f: Function, mapping: dict[Expr, Expr]) -> Function:
    """The function with numbers for some knobs and sizes. Raises LowerError for numbers that it does not take."""
    owner: dict[Buffer, Buffer] = {}
    for b in (*f.params, *(s.buffer for s in walk(f.body) if isinstance(s, Allocate))):
        if any(variables(d) & mapping.keys() for d in (*b.shape, *b.strides)):
            shape, strides = (tuple(substitute(d, mapping) for d in of) for of in (b.shape, b.strides))
            room = None if b.room is None else substitute(b.room, mapping)
            owner[b] = replace(b, shape=shape, strides=strides, room=room)
    requires = []
    for r in f.requires:
        condition = substitute(r.condition, mapping)
        if variables(condition):
            requires.append(replace(r, condition=condition))
        elif not evaluate([condition], {})[0]:
            values = ", ".join(f"{v.name} = {n!r}" for v, n in mapping.items() if v in variables(r.condition))
            raise LowerError(r.reason, asked=f"{f.name} with {values}", legal=f"needed: {r.condition!r}")
    body = replace_exprs(f.body, mapping)
    return replace(
        f,
        params=tuple(owner.get(b, b) for b in f.params),
        sizes=tuple(v for v in f.sizes if v not in mapping),
        requires=tuple(requires),
        body=retarget(body, owner) if owner else body,
    )


def bind_threads(p: Program) -> Program:
    """On GPU-style targets, root nests become kernels."""
    if not p.target.is_gpu_style:
        verify.check_cpu(p.function)
        return p
    return p.with_body(gpu.bind_threads(p.function.body, p.analyzer(), p.function.name, p.target.is_cpu))


def check(p: Program) -> Program:
    """What code generation relies on holds."""
    verify.verify(p.function, p.target)
    return p


def _on_body(change: Callable[..., Stmt], *given: Callable[[Program], Any], only: str = "") -> Pass:
    """The pass that changes the body by a function of it, and of what is `given` of the program."""

    def run(p: Program) -> Program:
        return p.with_body(change(p.function.body, *(of(p) for of in given))) if only in ("", p.target.kind) else p

    run.__doc__ = change.__doc__
    return run


def periods(p: Program) -> Program:
    """On CPUs, loops whose steps wait for each other, and ask for their place in a row, go on row by row."""
    return p if p.target.is_gpu_style else p.with_body(cut_periods(p.function.body, p.analyzer()))


def masks(p: Program) -> Program:
    """On CPUs, loops visit only what their masks let through; everywhere, lanes choose."""
    if p.target.is_cpu and not gpu.has_work_items(p.function.body):
        p = p.with_body(lift_conditions(cut_masks(p.function.body, p.analyzer())))
    return p.with_body(choose_lanes(p.function.body, p.analyzer()))


def patterns(p: Program) -> Program:
    """Vector indices at fixed distances become a scalar and a pattern, whose elements are shuffled on CPUs."""
    return p.with_body(split_patterns(p.function.body)) if _on_lanes(p).combine else p


def _on_lanes(p: Program) -> OnLanes:
    return OnLanes(combine=p.target.is_cpu, some=p.target.kind == "llvm")


_simplify = _on_body(simplify_stmt, Program.analyzer)

#: The passes for one candidate, in order. Those before are the structural half, in `lower_structure`.
CONCRETE: tuple[tuple[str, Pass], ...] = (
    ("bind_knobs", bind_knobs),
    ("apply_pragmas", _on_body(apply_hints)),
    ("simplify", _simplify),
    ("lower_intrinsics", _on_body(lower_intrinsics, lambda p: p.target)),
    ("periods", periods),
    ("partition", _on_body(partition_loops, Program.analyzer, lambda p: p.target.kind == "llvm")),
    ("masks", masks),
    ("flatten", _on_body(flatten_buffers, lambda p: p.function.params, Program.analyzer)),
    ("inject_vthreads", _on_body(inject_vthreads)),
    ("share_storage", _on_body(reuse_storage, Program.analyzer)),
    ("simplify_flat", _simplify),
    ("vectorize", _on_body(vectorize_loops, Program.analyzer, _on_lanes)),
    ("stop_when_settled", _on_body(stop_when_settled, Program.analyzer, lambda p: _on_lanes(p).combine)),
    ("keep_truths_in_bytes", _on_body(keep_truths_in_bytes)),
    ("unroll", _on_body(unroll_loops)),
    ("align_streams", _on_body(align_streams, Program.analyzer, only="llvm")),
    ("bind_threads", bind_threads),
    ("simplify_last", _simplify),
    ("patterns", patterns),
    ("name_quotients", _on_body(name_quotients)),
    ("verify", check),
)

#: Steps of proofs that a lowering may take, beyond those of any program, for each stage and each statement. Where they
#: run out, what is left is not simplified so far.
_STEPS_A_STAGE, _STEPS_A_STATEMENT = 500, 100

#: Stages for which Python's own limit of nested calls is enough.
_MANY_STAGES = 100

#: Names that `show --after` and `Structure.after` take.
PASSES = ("structure", *(name for name, _ in CONCRETE))


@dataclass(frozen=True)
class Structure:
    """A schedule lowered with its knobs open: loops, regions and guards as expressions over them.

    `function` prints as the loops; `bind(knobs)` gives the program of one candidate.
    """

    function: Function
    target: Target
    knobs: tuple[Knob, ...]
    constraints: tuple[Constraint, ...]
    calls: Mapping[Any, str] = field(default_factory=dict)  #: what was said of a loop, by its variable
    answers: Answers = field(default_factory=Answers, compare=False, repr=False)

    def at(self, sizes: dict[Expr, Expr]) -> Structure:
        """The same with numbers for some sizes. Raises LowerError for numbers that the schedule does not take."""
        constraints = tuple(replace(c, condition=substitute(c.condition, sizes)) for c in self.constraints)
        return replace(self, function=with_values(self.function, sizes), constraints=constraints)

    def bind(self, knobs: dict[str, int] | None = None) -> Function:
        """The fully lowered function of one candidate. Raises LowerError where a value is illegal."""
        return self.after(PASSES[-1], knobs)

    def after(self, name: str, knobs: dict[str, int] | None = None) -> Function:
        """The function as the pass of that name leaves it."""
        if name not in PASSES:
            raise UsageError(f"no pass {name!r}", asked="lower", legal=f"passes in order: {', '.join(PASSES)}")
        if name == "structure":
            return self.function
        p = Program(self.function, self.target, dict(knobs or {}))
        try:
            self._check_values(p.knobs)
            with few_collections():
                return self._lowered(p, name)
        except RecursionError:
            legal = "inline some stages, or build several functions"
            raise _too_deep(self.function.name, "loops and memory are", "", legal) from None
        except LowerError as error:
            error.located("lowered", self.calls.get(error.loop, ""))
            raise

    def _lowered(self, p: Program, name: str) -> Function:
        """What the pass of that name leaves of a program.

        Candidates share what is proven, unless proofs take so many steps that they may run out: then the result would
        depend on who was lowered before.
        """
        steps = Memory.STEPS + _STEPS_A_STATEMENT * sum(1 for _ in walk(self.function.body))
        tables, runner = self.answers.lend(), PASS_RUNNER.get()
        is_first = tables is None or tables.are_empty
        memory = Memory(steps, tables)
        done = replace(p, memory=memory)
        for pass_name, run in CONCRETE:
            done = run(done) if runner is None else runner(done, pass_name, run)
            if tables is not None and memory.left < steps // 2:
                self.answers.are_shared = False
                if not is_first:
                    return self._lowered(p, name)
            if pass_name == name:
                break
        return done.function

    def _check_values(self, knobs: dict[str, int]) -> None:
        """Raise LowerError unless each knob has one of its values, and constraints without sizes hold."""
        known = {k.name: k for k in self.knobs}
        asked = f"{self.function.name} with {', '.join(f'{k}={v}' for k, v in knobs.items()) or 'no knobs'}"
        for name in (*known, *knobs):
            if name not in known or name not in knobs:
                why = f"knob {name} has no value" if name in known else f"no knob {name!r}"
                raise LowerError(why, asked=asked, legal=f"knobs: {', '.join(known) or 'none'}")
            if knobs[name] not in known[name].values:
                raise LowerError(
                    f"{knobs[name]!r} is not a value of {name}",
                    asked=asked,
                    legal=f"values: {list(known[name].values)}",
                )
        env = {k.var: knobs[k.name] for k in self.knobs}
        for c in self.constraints:
            if variables(c.condition) <= env.keys() and not evaluate([c.condition], env)[0]:
                raise LowerError(c.reason, asked=asked, legal=f"needed: {c.condition!r}")

    def __str__(self) -> str:
        return format_function(self.function)


def lower_structure(
    s: Schedule,
    args: Sequence[Tensor | Expr],
    target: TargetLike,
    name: str = "main",
    binds: Mapping[Tensor, Buffer] | None = None,
) -> Structure:
    """The structural half: inline, infer bounds, build nests with guards and storage, simplify.

    `args` are the function's parameters in calling order: inputs, outputs, and what else the caller
    wants to see: an intermediate that is an argument is stored there, as far as it is computed (an
    inlined one is not). A variable is a number that the caller passes: see `arguments`. `binds` says how
    tensors lie in memory: see `decl_buffer`.

    Raises LowerError when an input or output is missing from them, ScheduleError when the schedule is
    inconsistent.
    """
    to = Target.parse(target)
    checked_name(name, "a function", in_files=True)
    expect(args, "a list of tensors", is_list_of(args, (Tensor, Expr)), f"the arguments of {name}")
    is_mapping = binds is None or isinstance(binds, Mapping)
    expect(binds, "a dictionary of tensors and buffers", is_mapping, f"binds of {name}")
    _make_room(len(s.stages))
    try:
        with few_collections():
            return _structure(s, args, to, name, binds)
    except RecursionError:
        count, deepest = max(((sum(1 for _ in x.hosts()), x.name) for x in s.stages), key=lambda found: found[0])
        where, legal = f", inside those of {count} other stages", "compute some of these stages at the root"
        raise _too_deep(deepest, "loops are", where, legal) from None
    except (LowerError, ScheduleError) as error:
        error.located("lowered")
        raise


def _make_room(stages: int) -> None:
    """Let Python call deeper for many stages: also at the root, the memory of one lasts for those after it."""
    if stages > _MANY_STAGES:
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + 10 * min(stages, 2000)))


def _too_deep(what: str, nested: str, where: str, legal: str) -> LowerError:
    return LowerError(
        f"its {nested} nested deeper than Python's stack is{where}",
        asked=f"lower {what}",
        legal=f"{legal}; sys.setrecursionlimit() makes the stack deeper",
    )


def _structure(
    s: Schedule, args: Sequence[Tensor | Expr], to: Target, name: str, binds: Mapping[Tensor, Buffer] | None
) -> Structure:
    s.verify()
    check_reads(s)
    memory = Memory(Memory.STEPS + _STEPS_A_STAGE * len(s.stages))
    an = Analyzer(memory)
    bodies = inline_stages(s)
    args = [s.passed(a) if isinstance(a, Tensor) else a for a in args]
    scalars, tensors = scalar_buffers(args), [t for t in args if isinstance(t, Tensor)]
    numbers = signed(scalars, s, binds)
    bodies = {x: tuple(substitute(e, numbers) for e in body) for x, body in bodies.items()} if numbers else bodies
    passed, wanted = passed_intermediates(s, tensors, to), passed_outputs(s, tensors)
    real = infer_bounds(s, bodies, an, passed)
    bound = Binds.check(s, binds, passed)
    buffers, body = build_nests(s, real, to, an, passed | wanted, bound)
    arrays = iter(parameters(s, tensors, buffers, wanted, bound))
    params = tuple([scalars[a] if isinstance(a, Expr) else next(arrays) for a in args])
    sizes = sorted({v for b in params for d in (*b.shape, *b.strides) for v in variables(d)}, key=order)
    bound.check_strides({*sizes, *scalars})
    body = simplify_stmt(replace_exprs(body, numbers) if numbers else body, Analyzer(memory))
    body = read_scalars(body, params, {**scalars, **{n: scalars[v] for v, n in numbers.items()}})
    verify.check_sizes(body, sizes, name)
    outputs = tuple(i for i, t in enumerate(args) if isinstance(t, Tensor) and t in wanted | passed)
    exact = round_up.check_tails(s, {x: r.extents for x, r in real.items()}, an) + bound.constraints(s, buffers, an)
    told = explicit_sizes(params, scalars)
    attrs = {"explicit_sizes": told} if told else {}
    function = Function(name, params, tuple(sizes), body, outputs, attrs, round_up.requirements(exact))
    return Structure(
        function, to, tuple(s.knobs.values()), (*s.constraints, *_positive_factors(s), *exact), s.calls_on_loops()
    )


def _positive_factors(s: Schedule) -> list[Constraint]:
    """Factors that are formulas over knobs must come out positive."""
    found: dict[Expr, Constraint] = {}
    for r in (r for stage in s.stages for r in stage.relations if isinstance(r, Split)):
        positive = compare("ge", r.amount, 1)
        if not Analyzer().prove(positive):
            reason = f"the split of {r.parent.full_name} by {r.amount!r} is not positive"
            found.setdefault(r.amount, Constraint(positive, reason))
    return list(found.values())


@dataclass(frozen=True)
class Lowered:
    """The result of `lower`, which prints as readable loops."""

    structure: Structure

    @property
    def function(self) -> Function:
        return self.structure.function

    def __str__(self) -> str:
        return str(self.structure)

    __repr__ = __str__


class Scheduled(Protocol):
    """A function with its schedule and arguments, such as a `tir.PrimFunc`; or a module of such functions."""

    def scheduled(self, asked: str, name: str | None = None) -> Any:
        """The function, with its `schedule`, `args` and `name`: of several, the one of that name."""


def lower(
    s: Schedule | Scheduled,
    args: Sequence[Tensor] | None = None,
    name: str | None = None,
    target: TargetLike = None,
    binds: Mapping[Tensor, Buffer] | None = None,
) -> Lowered:
    """The loops that a schedule stands for; `print` shows them. `binds`: see `decl_buffer`.

    A Schedule needs the list of its arguments; a PrimFunc, or a module of one, has them.
    """
    expect(name, "text, or None", name is None or isinstance(name, str), "lower(.., name=..)")
    if isinstance(s, Schedule):
        if args is None:
            raise UsageError("a schedule needs its arguments", asked="lower(s)", legal="lower(s, [A, B])")
        return Lowered(lower_structure(s, args, target, name or "main", binds))
    if not hasattr(s, "scheduled"):
        raise UsageError(f"{type(s).__name__} is no PrimFunc", asked="lower", legal="create_prim_func([A, B])")
    f = s.scheduled("lower", name)
    return Lowered(lower_structure(f.schedule, f.args, target, name or f.name, binds))
