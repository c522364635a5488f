"""One test case: a random op graph, a random schedule of it, and what runs it.

    case = Case.draw(seed=7, backend="llvm")
    case = Case.generated(seed=7, backend="llvm")   # with a schedule that sketch rules make
    case.check()                  # AssertionError, or whatever goes wrong
    print(case)                   # the program, its schedule as Python, knobs and sizes

A case is plain data (`to_json`), so it can be sent to another process, kept in a file and made
smaller (`autosched.testing.shrink`).
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.lower.pipeline import lower_structure
from autosched.schedule.schedule import Schedule, create_schedule, replay
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.te.graph_json import graph_from_json, graph_to_json
from autosched.te.tensor import PlaceholderOp, Tensor
from autosched.testing.oracle import check_against_reference
from autosched.testing.programs import RandomProgram, random_program
from autosched.testing.schedules import random_knobs, random_schedule
from autosched.testing.work import operations

__all__ = ["BACKENDS", "Case"]

#: backend -> (target, how `check_against_reference` runs it)
BACKENDS: dict[str, tuple[str, Any]] = {
    "interpreter": ("llvm", "interpreter"),
    "backwards": ("llvm", "interpreter-backwards"),
    "llvm": ("llvm", "native"),
    "c": ("c", "native"),
    "kernels": ("opencl", "interpreter"),
    "opencl": ("opencl", "native"),
}


#: operations that a case may take: a second on the interpreter
MAX_OPERATIONS = 400_000
#: Points of a sketch that are drawn, until one does not take more.
_ATTEMPTS = 3


def _is_quick(s: Schedule, program: RandomProgram, target: str, knobs: dict[str, int]) -> bool:
    """Producers computed where they are read, again and again, can take any time."""
    if all(x.attach.kind == "root" for x in s.stages):
        return True
    function = lower_structure(s, program.args, target).function
    return operations(function.body, {**program.sizes, **knobs}) <= MAX_OPERATIONS


@dataclass(frozen=True)
class Case:
    """`graph` and `trace` are in JSON form; `seed` draws the inputs."""

    graph: dict[str, Any]
    sizes: dict[str, int]
    trace: list[Any]
    knobs: dict[str, int]
    backend: str
    seed: int
    _args: tuple[Tensor, ...] | None = field(default=None, compare=False, repr=False)

    @staticmethod
    def draw(seed: int, backend: str, knobs: float = 0.3) -> Case:
        """The case of that seed; `knobs` is how likely its schedule leaves some factors open."""
        if backend not in BACKENDS:
            raise UsageError(
                "no such backend", asked=f"a case for {backend!r}", legal=f"backends: {', '.join(BACKENDS)}"
            )
        target, _ = BACKENDS[backend]
        rng = random.Random(seed)
        program = random_program(rng, symbolic=rng.random() < 0.7)
        s = random_schedule(program.args, rng, target, knobs=rng.random() < knobs)
        values = random_knobs(s, rng)
        while not _is_quick(s, program, target, values):
            s = random_schedule(program.args, rng, target, steps=4)
            values = {}
        graph = graph_to_json(program.args)
        return Case(graph, program.sizes, s.trace.to_json(), values, backend, seed, program.args)

    @staticmethod
    def generated(seed: int, backend: str) -> Case:
        """The case of that seed with a point of a sketch that rules generate, for a machine drawn as well.

        Raises what rules raise, and AssertionError for a sketch that cannot be lowered.
        """
        target, _ = BACKENDS[backend]
        rng = random.Random(seed)
        program = random_program(rng, symbolic=rng.random() < 0.5)
        machine = Target.parse(target).with_limits(vector_bytes=rng.choice((16, 32, 64)))
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
                    return Case(graph, program.sizes, sketch.trace, knobs, backend, seed, program.args)
        s = create_schedule(list(program.args))
        return Case(graph, program.sizes, s.trace.to_json(), {}, backend, seed, program.args)

    # -- what it stands for -----------------------------------------------------------------------
    @property
    def program(self) -> RandomProgram:
        args = self._args if self._args is not None else tuple(graph_from_json(self.graph))
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
            check_against_reference(program.args, s, target, inputs, how, self.knobs, at_end=at_end)

    @property
    def fingerprint(self) -> str:
        """Equal for two cases that compute the same in the same way on the same backend."""
        text = json.dumps([self.graph, self.trace, self.knobs, self.backend], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        program = self.program
        schedule = self._schedule_of(program).trace.as_python()
        return f"{program.describe()}\n{schedule}knobs {self.knobs}, backend {self.backend}, inputs of seed {self.seed}"

    # -- as data ------------------------------------------------------------------------------------
    def to_json(self) -> dict[str, Any]:
        names = ("graph", "sizes", "trace", "knobs", "backend", "seed")
        return {name: getattr(self, name) for name in names}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Case:
        return Case(**data)

    def with_graph(self, graph: dict[str, Any], sizes: dict[str, int]) -> Case:
        return replace(self, graph=graph, sizes=sizes, _args=None)
