"""What a worker needs of the compiler: build a job into a file, load a file into a kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from autosched.errors import ScheduleError
from autosched.measure.protocol import Job
from autosched.target import Target

if TYPE_CHECKING:
    from autosched.runtime.kernel import Kernel


class Backend(Protocol):
    """The seam at which tests put kernels that crash, hang and lie (`--backend module:attribute`)."""

    def build(self, job: Job, path: Path, known: Callable[[str], bool]) -> str:
        """Write the artifact of `job` to `path`; returns what identifies the generated code.

        Where `known` says yes to that, the code was measured before, and nothing need be written.
        Raises ScheduleError or LowerError for knob values that the sketch does not allow, and
        anything else for code that does not compile.
        """

    def load(self, path: Path) -> Kernel:
        """The kernel in an artifact file. Raises BuildError for code the device refuses."""


class CompilerBackend:
    """The real one: replay the trace, lower once per sketch, bind the knobs, generate code."""

    def __init__(self, workload: dict[str, Any], sketches: dict[str, list[Any]], target: Target) -> None:
        self._workload, self._sketches, self._target = workload, sketches, target
        self._structures: dict[str, Any] = {}

    def build(self, job: Job, path: Path, known: Callable[[str], bool]) -> str:
        from autosched.codegen import compile_function

        artifact = compile_function(self._structure(job).bind(job.knobs), self._target, known)
        if artifact.code:
            artifact.save(path)
        return artifact.identity

    def load(self, path: Path) -> Kernel:
        from autosched.codegen.artifact import Artifact
        from autosched.runtime import load

        return load(Artifact.load(path), self._target)

    def _structure(self, job: Job) -> Any:
        """The lowered sketch, knobs still open. Lowering is the slow part, and done once per sketch."""
        name = job.sketch
        if name not in self._structures:
            from autosched import schedule, te
            from autosched.lower import lower_structure

            trace = self._sketches.get(name) if job.trace is None else job.trace
            if trace is None:
                raise ScheduleError("no such sketch", asked=f"sketch {name!r}", legal=", ".join(self._sketches))
            args = te.graph_from_json(self._workload)
            replayed = schedule.replay(trace, args)
            self._structures[name] = lower_structure(replayed, args, self._target)
        return self._structures[name]
