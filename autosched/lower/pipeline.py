"""Lowering, top to bottom.

A schedule becomes loops in two halves. STRUCTURAL works while knobs are open and sizes symbolic; it
runs once for a sketch, and features and constraints are read off its result. CONCRETE works on one
candidate: it binds the knobs and ends in statements that code generation understands. Every pass is
a function `(Program) -> Program`, and `show --after PASS` prints what it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from autosched.errors import LowerError, ScheduleError, UsageError, expect, is_list_of
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, compare, const, variables
from autosched.ir.memory import Memory
from autosched.ir.printer import checked_name, format_function
from autosched.ir.simplify import Analyzer
from autosched.ir.stmt import Allocate, Buffer, Function, Stmt, expressions, walk
from autosched.ir.visit import substitute
from autosched.lower import gpu, room, storage, streams, verify
from autosched.lower import gpu as vthread
from autosched.lower import tensorize as intrinsics
from autosched.lower.binds import Binds
from autosched.lower.bounds import infer_bounds
from autosched.lower.hints import apply_hints
from autosched.lower.inline import inline_stages
from autosched.lower.nest import build_nests
from autosched.lower.partition import partition_loops
from autosched.lower.reads import check_reads
from autosched.lower.scalars import explicit_sizes, read_scalars, scalar_buffers
from autosched.lower.scoped import replace_exprs, simplify_stmt
from autosched.lower.vectorize import split_patterns, unroll_loops, vectorize_loops
from autosched.schedule.schedule import Constraint, Knob, Schedule
from autosched.schedule.stage import Split, Stage
from autosched.target import Target, TargetLike
from autosched.te.tensor import PlaceholderOp, Tensor


@dataclass(frozen=True)
class Program:
    """A program on its way down: the function so far, and what is known of its variables."""

    function: Function
    target: Target
    knobs: dict[str, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory, repr=False)  #: what passes have proven so far

    def analyzer(self) -> Analyzer:
        """An analyzer that knows of no range yet, and remembers what was proven before."""
        return Analyzer(self.memory)

    def with_body(self, body: Stmt) -> Program:
        return replace(self, function=self.function.with_body(body))


Pass = Callable[[Program], Program]

#: What runs the passes of this thread or task, in place of their being called one after the other: it is given the
#: program, the name of a pass and the pass, and returns the program after it. It may look on, leave the pass out or add
#: steps of its own. Set and reset by whoever wants to know, around what is lowered.
PASS_RUNNER: ContextVar[Callable[[Program, str, Pass], Program] | None] = ContextVar("pass_runner", default=None)


def bind_knobs(p: Program) -> Program:
    """Every knob becomes its number."""
    names = {v.name: v for v in _open_knobs(p.function)}
    missing = sorted(names.keys() - p.knobs.keys())
    if missing:
        raise LowerError(
            f"knob {missing[0]} has no value", asked=p.function.name, legal="tune it, or schedule with numbers"
        )
    mapping = {v: const(p.knobs[name]) for name, v in names.items()}
    owner = {
        s.buffer: replace(
            s.buffer,
            shape=tuple(substitute(d, mapping) for d in s.buffer.shape),
            strides=tuple(substitute(d, mapping) for d in s.buffer.strides),
            room=None if s.buffer.room is None else substitute(s.buffer.room, mapping),
        )
        for s in _allocations(p.function.body)
        if any(variables(d) & mapping.keys() for d in (*s.buffer.shape, *s.buffer.strides))
    }
    body = replace_exprs(p.function.body, mapping)
    requires = tuple(replace(r, condition=substitute(r.condition, mapping)) for r in p.function.requires)
    function = replace(p.function, requires=requires)
    return replace(p, function=function.with_body(storage.retarget(body, owner) if owner else body))


def apply_pragmas(p: Program) -> Program:
    """Loops are unrolled, or not, as pragmas ask. See `lower.hints`."""
    return p.with_body(apply_hints(p.function.body))


def _allocations(body: Stmt) -> list[Allocate]:
    return [s for s in walk(body) if isinstance(s, Allocate)]


def _open_knobs(f: Function) -> set[Expr]:
    found: set[Expr] = set()
    for e in (*(e for s in walk(f.body) for e in expressions(s)), *(r.condition for r in f.requires)):
        found.update(v for v in variables(e) if v.value.role == "knob")
    return found


def simplify(p: Program) -> Program:
    """Ranges of loops and facts of conditions resolve what they can."""
    return p.with_body(simplify_stmt(p.function.body, p.analyzer()))


def lower_intrinsics(p: Program) -> Program:
    """Intrinsics become what their rules for the target say."""
    return p.with_body(intrinsics.lower_intrinsics(p.function.body, p.target))


def partition(p: Program) -> Program:
    """Borders are cut off loops, so that interiors ask no questions. See `lower.partition`."""
    return p.with_body(partition_loops(p.function.body, p.analyzer()))


def flatten(p: Program) -> Program:
    """One index for each access."""
    return p.with_body(storage.flatten_buffers(p.function.body, p.function.params, p.analyzer()))


def inject_vthreads(p: Program) -> Program:
    """The work of virtual threads is interleaved, statement by statement."""
    return p.with_body(vthread.inject(p.function.body))


def share_storage(p: Program) -> Program:
    """Intermediates whose lives do not overlap share memory."""
    return p.with_body(storage.reuse_storage(p.function.body, p.analyzer()))


def vectorize(p: Program) -> Program:
    """Vector loops become vector statements."""
    return p.with_body(vectorize_loops(p.function.body, p.analyzer(), on_lanes=p.target.kind == "llvm"))


def unroll(p: Program) -> Program:
    """Unrolled loops are written out."""
    return p.with_body(unroll_loops(p.function.body))


def align_streams(p: Program) -> Program:
    """Vectors that are stored past the caches begin where cache lines do. See `lower.streams`."""
    return p.with_body(streams.align_streams(p.function.body, p.analyzer())) if p.target.kind == "llvm" else p


def bind_threads(p: Program) -> Program:
    """On GPU-style targets, root nests become kernels."""
    if not p.target.is_gpu_style:
        verify.check_cpu(p.function)
        return p
    body = gpu.bind_threads(p.function.body, p.analyzer(), p.function.name)
    return p.with_body(gpu.demote_private(body))


def patterns(p: Program) -> Program:
    """Vector indices at fixed distances become a scalar and a pattern, which LLVM loads by shuffles."""
    return p.with_body(split_patterns(p.function.body)) if p.target.kind == "llvm" else p


def check(p: Program) -> Program:
    """What code generation relies on holds."""
    verify.verify(p.function, p.target)
    return p


#: The passes for one candidate, in order. Those before are the structural half, in `lower_structure`.
CONCRETE: tuple[tuple[str, Pass], ...] = (
    ("bind_knobs", bind_knobs),
    ("apply_pragmas", apply_pragmas),
    ("simplify", simplify),
    ("lower_intrinsics", lower_intrinsics),
    ("partition", partition),
    ("flatten", flatten),
    ("inject_vthreads", inject_vthreads),
    ("share_storage", share_storage),
    ("simplify_flat", simplify),
    ("vectorize", vectorize),
    ("unroll", unroll),
    ("align_streams", align_streams),
    ("bind_threads", bind_threads),
    ("simplify_last", simplify),
    ("patterns", patterns),
    ("verify", check),
)

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
        runner = PASS_RUNNER.get()
        try:
            self._check_values(p.knobs)
            for pass_name, run in CONCRETE:
                p = run(p) if runner is None else runner(p, pass_name, run)
                if pass_name == name:
                    break
        except RecursionError:
            raise _too_deep(self.function.name) from None
        except LowerError as error:
            error.located("lowered", self.calls.get(error.loop, ""))
            raise
        return p.function

    def _check_values(self, knobs: dict[str, int]) -> None:
        """Raise LowerError unless there is a value for each knob, among its values, that meets the
        constraints. Those that mention sizes are for the caller, who knows them."""
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
    inlined one is not). A variable is a number that the caller passes: see `scalars`. `binds` says how
    tensors lie in memory: see `decl_buffer`.

    Raises LowerError when an input or output is missing from them, ScheduleError when the schedule is
    inconsistent.
    """
    to = Target.parse(target)
    checked_name(name, "a function", in_files=True)
    expect(args, "a list of tensors", is_list_of(args, (Tensor, Expr)), f"the arguments of {name}")
    is_mapping = binds is None or isinstance(binds, Mapping)
    expect(binds, "a dictionary of tensors and buffers", is_mapping, f"binds of {name}")
    try:
        return _structure(s, args, to, name, binds)
    except RecursionError:
        deepest = max(s.stages, key=_stages_around)
        raise _too_deep(deepest.name, f", inside those of {_stages_around(deepest)} other stages") from None
    except (LowerError, ScheduleError) as error:
        error.located("lowered")
        raise


def _stages_around(stage: Stage) -> int:
    count, host = 0, stage.attach.stage
    while host is not None:
        count, host = count + 1, host.attach.stage
    return count


def _too_deep(what: str, where: str = "") -> LowerError:
    return LowerError(
        f"its loops are nested deeper than Python's stack is{where}",
        asked=f"lower {what}",
        legal="compute some of these stages at the root; sys.setrecursionlimit() makes the stack deeper",
    )


def _structure(
    s: Schedule, args: Sequence[Tensor | Expr], to: Target, name: str, binds: Mapping[Tensor, Buffer] | None
) -> Structure:
    s.verify()
    check_reads(s)
    an = Analyzer()
    bodies = inline_stages(s)
    scalars, tensors = scalar_buffers(args), [t for t in args if isinstance(t, Tensor)]
    passed, wanted = _passed(s, tensors, to), _outputs(s, tensors)
    real = infer_bounds(s, bodies, an, passed)
    bound = Binds.check(s, binds, passed)
    buffers, body = build_nests(s, real, to, an, passed | wanted, bound)
    arrays = iter(_parameters(s, tensors, buffers, wanted, bound))
    params = tuple([scalars[a] if isinstance(a, Expr) else next(arrays) for a in args])
    sizes = sorted({v for b in params for d in (*b.shape, *b.strides) for v in variables(d)}, key=lambda v: v.serial)
    bound.check_strides({*sizes, *scalars})
    body = read_scalars(simplify_stmt(body, Analyzer()), params, scalars)
    verify.check_sizes(body, sizes, name)
    outputs = tuple(i for i, t in enumerate(args) if isinstance(t, Tensor) and t in wanted | passed)
    exact = room.check_tails(s, {x: r.extents for x, r in real.items()}, an) + bound.constraints(s, buffers, an)
    told = explicit_sizes(params, scalars)
    attrs = {"explicit_sizes": told} if told else {}
    function = Function(name, params, tuple(sizes), body, outputs, attrs, room.requirements(exact))
    return Structure(
        function, to, tuple(s.knobs.values()), (*s.constraints, *_positive_factors(s), *exact), s.calls_on_loops()
    )


def _passed(s: Schedule, args: Sequence[Tensor], target: Target) -> frozenset[Tensor]:
    """The intermediates among the arguments. Inlined ones are nowhere in memory: nothing is written there."""
    found = set()
    for t in args:
        if t not in s or t in s.outputs or t in s.scans.storage:
            continue
        stage = s[t]
        if stage.is_placeholder or stage.attach.kind == "inline":
            continue
        why = legal = ""
        if target.is_gpu_style and stage.attach.kind != "root":
            why = f"{t.name} is computed at {stage.attach.loop!r}: work-items would write what others read"
            legal = f"{t.name}.compute_root()"
        elif t not in stage.op.outputs:
            why = f"{t.name} has another layout since transform_layout"
            legal = f"binds={{{t.name}: decl_buffer(..)}} with strides instead of transform_layout"
        elif any(isinstance(r, Split) and r.tail == "round_up" for r in stage.relations):
            why = f"a split of {t.name} rounds up: more elements are computed than an argument has"
            legal = "split(..., tail='guard')"
        if why:
            asked = f"lower(s, [{', '.join(a.name for a in args)}])"
            raise LowerError(why, asked=asked, legal=f"{legal}, or leave {t.name} out: then it is allocated inside")
        found.add(t)
    return frozenset(found)


def _positive_factors(s: Schedule) -> list[Constraint]:
    """Factors that are formulas over knobs must come out positive."""
    found: dict[Expr, Constraint] = {}
    for stage in s.stages:
        for r in stage.relations:
            amount = (r.factor if r.factor is not None else r.nparts) if isinstance(r, Split) else None
            if isinstance(r, Split) and amount is not None and not Analyzer().prove(compare("ge", amount, 1)):
                reason = f"the split of {r.parent.full_name} by {amount!r} is not positive"
                found.setdefault(amount, Constraint(compare("ge", amount, 1), reason))
    return list(found.values())


def _outputs(s: Schedule, args: Sequence[Tensor]) -> frozenset[Tensor]:
    """The outputs that must be passed: of an operation that computes several, those that are."""
    return frozenset(t for t in s.outputs if t in args or not any(x in args for x in t.op.outputs))


def _parameters(
    s: Schedule,
    args: Sequence[Tensor],
    buffers: dict[Tensor, Buffer],
    outputs: frozenset[Tensor],
    binds: Binds,
) -> tuple[Buffer, ...]:
    twice = [t.name for i, t in enumerate(args) if t in args[:i]]
    if twice:
        raise LowerError(
            f"{twice[0]} is given twice",
            asked=f"lower(s, [{', '.join(a.name for a in args)}])",
            legal="each tensor once",
        )
    needed = [x.tensor for x in s.stages if x.is_placeholder and x.tensor in buffers]
    needed += [t for x in s.stages for t in x.op.outputs if t in outputs]
    for t in needed:
        if t not in args:
            kind = "an output" if t in outputs else "an input"
            stranger = (
                f": the {t.name} there is a tensor of another program" if t.name in (a.name for a in args) else ""
            )
            raise LowerError(
                f"{t.name} is {kind} and not among the arguments{stranger}",
                asked=f"lower(s, [{', '.join(a.name for a in args)}])",
                legal=f"arguments needed: {', '.join(x.name for x in needed)}",
            )
    params = []
    for t in args:
        why = f"{t.name} is part of a scan: it has no memory of its own" if t in s.scans.storage else ""
        if t not in s and not isinstance(t.op, PlaceholderOp):
            why = f"{t.name} is computed, and no stage of this schedule computes it"
        if why:
            raise LowerError(
                why,
                asked=f"lower(s, [{', '.join(a.name for a in args)}])",
                legal=f"arguments needed: {', '.join(x.name for x in needed)}",
            )
        params.append(buffers.get(t) or binds.laid_out(t, Buffer(t.name, t.shape, t.dtype)))
    return tuple(params)


@dataclass(frozen=True)
class Lowered:
    """What `lower` returns: prints as readable loops."""

    structure: Structure

    @property
    def function(self) -> Function:
        return self.structure.function

    def __str__(self) -> str:
        return str(self.structure)

    __repr__ = __str__


class Scheduled(Protocol):
    """What has a schedule and its arguments, such as a `tir.PrimFunc`; or a module of functions that do."""

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
