"""`Case`: a random op graph, a random schedule of it, and a backend that runs it.

    case = Case.draw(seed=7, backend="llvm")
    case = Case.generated(seed=7, backend="llvm")   # with a schedule that sketch rules make
    case.check()                  # AssertionError, or any other error, where it fails
    print(case)                   # the program, its schedule as Python, knobs and sizes

A case is plain data (`to_json`): it can be sent to another process, kept in a file and made smaller
(`autosched.testing.shrink`).
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, variables
from autosched.ir.stmt import For, If, Stmt, Store, children
from autosched.ir.visit import post_order
from autosched.lowering.pipeline import lower_structure
from autosched.schedule.schedule import Schedule, create_schedule, replay
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te.graph_json import graph_from_json, graph_to_json
from autosched.te.tensor import Graph, PlaceholderOp, Tensor
from autosched.testing.externs import know_references
from autosched.testing.layouts import Layout, random_memory
from autosched.testing.oracle import check_against_reference
from autosched.testing.programs import RandomProgram, random_program
from autosched.testing.schedules import random_knobs, random_schedule
from autosched.testing.tiles import declare_all

_KERNELS = Target.parse("opencl")
#: backend -> (target, backend of `check_against_reference`). Of OpenCL there are kernels as for GPUs, whose loops are
#: bound, and those for CPUs, whose work-groups are tasks.
BACKENDS: dict[str, tuple[Target, Any]] = {
    "interpreter": (Target.parse("llvm"), "interpreter"),
    "backwards": (Target.parse("llvm"), "interpreter-backwards"),
    "llvm": (Target.parse("llvm"), "native"),
    "c": (Target.parse("c"), "native"),
    "c99": (Target.parse("c -std=c99"), "native"),
    "kernels": (_KERNELS, "interpreter"),
    "opencl": (_KERNELS, "native"),
    "tasks": (_KERNELS.with_limits(is_cpu=1), "native"),
}


#: Operations of a case, at most: a second on the interpreter.
MAX_OPERATIONS = 400_000
#: Points of a sketch that are drawn, at most, until one is as quick.
_ATTEMPTS = 3


def _is_quick(s: Schedule, program: RandomProgram, target: Target, knobs: dict[str, int]) -> bool:
    """Whether it takes `MAX_OPERATIONS` at most: producers that are computed again at each read can take any time."""
    if all(x.attach.kind == "root" for x in s.stages):
        return True
    function = lower_structure(s, program.args, target).function
    return operations(function.body, {**program.sizes, **knobs}) <= MAX_OPERATIONS


def operations(s: Stmt, sizes: dict[str, int]) -> int:
    """Estimate how many operations run, with the longer branch of each choice; `sizes` are those and knobs, by name.

    >>> from autosched import te
    >>> from autosched.lowering import lower_structure
    >>> from autosched.schedule import create_schedule
    >>> n = te.var("n")
    >>> a = te.placeholder((n,), name="A")
    >>> b = te.compute((n,), lambda i: a[i] + 1, name="B")
    >>> operations(lower_structure(create_schedule(b), [a, b], "llvm").function.body, {"n": 10})
    50
    """
    match s:
        case For():
            return max(_value(s.extent, sizes), 0) * operations(s.body, sizes)
        case Store():
            return 1 + len(post_order([s.value, *s.indices]))
        case If():
            return max(operations(c, sizes) for c in children(s))
        case _:
            return sum(operations(c, sizes) for c in children(s))


def _value(e: Expr, sizes: dict[str, int]) -> int:
    return int(evaluate([e], {v: sizes.get(v.name, 0) for v in variables(e)})[0])


@dataclass(frozen=True)
class Case:
    """`graph`, `trace`, `layouts`: in JSON form; `seed`: of the inputs; `passed`: intermediates that are arguments."""

    graph: dict[str, Any]
    sizes: dict[str, int]
    trace: list[Any]
    knobs: dict[str, int]
    backend: str
    seed: int
    layouts: dict[str, Any] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)
    _args: tuple[Tensor, ...] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        declare_all(self.trace)

    @staticmethod
    def draw(seed: int, backend: str, knobs: float = 0.3, memory: float = 0.3) -> Case:
        """The case of that seed.

        knobs:  the probability that its schedule leaves some factors open
        memory: the probability that layouts of some tensors are given
        """
        if backend not in BACKENDS:
            raise UsageError(
                "no such backend", asked=f"a case for {backend!r}", legal=f"backends: {', '.join(BACKENDS)}"
            )
        target, _ = BACKENDS[backend]
        rng = random.Random(seed)
        program = random_program(rng, symbolic=rng.random() < 0.7, gpu=target.is_gpu_style)
        s = random_schedule(program.args, rng, target, knobs=rng.random() < knobs, sizes=program.sizes)
        values = random_knobs(s, rng)
        while not _is_quick(s, program, target, values):
            s = random_schedule(program.args, rng, target, steps=4, sizes=program.sizes)
            values = {}
        graph, trace = graph_to_json(program.args), s.trace.to_json()
        places: tuple[dict[str, Any], list[str]] = {}, []
        if rng.random() < memory:
            places = random_memory(s, program.args, rng, target, program.sizes | values)
        return Case(graph, program.sizes, trace, values, backend, seed, *places, program.args)

    @staticmethod
    def generated(seed: int, backend: str) -> Case:
        """The case of that seed with a point of a sketch that rules generate, for a machine drawn as well.

        Raises what rules raise, and AssertionError for a sketch that cannot be lowered.
        """
        target, _ = BACKENDS[backend]
        rng = random.Random(seed)
        program = random_program(rng, symbolic=rng.random() < 0.5, gpu=target.is_gpu_style)
        machine = target.with_limits(vector_bytes=rng.choice((16, 32, 64)))
        space = Workload("generated", program.args).search_space(machine, program.sizes, "auto")
        if space.untraced:
            raise AssertionError(f"{next(iter(space.untraced.values()))}\n{program.describe()}")
        graph = graph_to_json(program.args)
        for sketch in rng.sample(space.sketches, len(space.sketches)):
            points = sketch.valid_points
            if sketch.failure:
                raise AssertionError(f"{sketch.name} cannot be lowered: {sketch.failure}\n{program.describe()}")
            for _ in range(_ATTEMPTS if points.count else 0):
                (row,) = points.rows([rng.randrange(points.count)])
                knobs = sketch.values(row.tolist())
                if _is_quick(sketch.schedule(), program, target, knobs):
                    return Case(graph, program.sizes, sketch.trace, knobs, backend, seed, _args=program.args)
        s = create_schedule(list(program.args))
        return Case(graph, program.sizes, s.trace.to_json(), {}, backend, seed, _args=program.args)

    # -- its program and schedule ------------------------------------------------------------------
    @property
    def program(self) -> RandomProgram:
        args = self._args if self._args is not None else tuple(graph_from_json(self.graph))
        know_references(args)
        return RandomProgram(args, self.sizes)

    def schedule(self) -> Schedule:
        """The schedule, made again from its trace."""
        return self._schedule_of(self.program)

    def _schedule_of(self, program: RandomProgram) -> Schedule:
        return replay(self.trace, [t for t in program.args if not isinstance(t.op, PlaceholderOp)])

    def check(self) -> None:
        """Run it and compare with the oracle. Raises AssertionError where they differ."""
        program = self.program
        s = self._schedule_of(program)
        target, how = BACKENDS[self.backend]
        with np.errstate(all="ignore"):
            inputs, at_end = program.inputs(self.seed), self.seed % 4 != 0  # reading too far is the commoner mistake
            layouts = {name: Layout.from_json(data) for name, data in self.layouts.items()}
            tensors = {t.name: t for op in Graph.of(program.args).ops for t in op.outputs}
            passed = [tensors[name] for name in self.passed if name in tensors and tensors[name] not in program.args]
            check_against_reference(
                program.args, s, target, inputs, how, self.knobs, at_end=at_end, layouts=layouts, passed=passed
            )

    @property
    def fingerprint(self) -> str:
        """Equal for two cases that compute the same in the same way on the same backend."""
        how = [self.graph, self.trace, self.knobs, self.backend, self.layouts, self.passed]
        text = json.dumps(how, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        program = self.program
        schedule = self._schedule_of(program).trace.as_python()
        memory = f"layouts {self.layouts}, passed {self.passed}, " if self.layouts or self.passed else ""
        last = f"{memory}knobs {self.knobs}, backend {self.backend}, inputs of seed {self.seed}"
        return f"{program.describe()}\n{schedule}{last}"

    # -- as data ------------------------------------------------------------------------------------
    def to_json(self) -> dict[str, Any]:
        names = ("graph", "sizes", "trace", "knobs", "backend", "seed", "layouts", "passed")
        return {name: getattr(self, name) for name in names}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Case:
        return Case(**data)

    def with_graph(self, graph: dict[str, Any], sizes: dict[str, int]) -> Case:
        return replace(self, graph=graph, sizes=sizes, _args=None)
