"""The jobs of a worker: build a candidate into a file; load it, verify it and time it; report what went wrong."""

from __future__ import annotations

import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from autosched.codegen import compile_function
from autosched.codegen.artifact import Artifact
from autosched.errors import AutoschedError, BuildError, DeviceError, LowerError, ScheduleError
from autosched.ir.dtype import is_float
from autosched.measure import verify
from autosched.measure.protocol import Job
from autosched.measure.timing import Strain, fastest, take_samples
from autosched.measure.verify import AFTER, FIRST, GuardedArray, write_outputs
from autosched.noise import typical
from autosched.runtime import load
from autosched.runtime.kernel import BoundCall, Kernel
from autosched.target import Target
from autosched.te.graph_json import graph_from_json
from autosched.te.rounding import EXACT, Rounding

Array = np.ndarray[Any, Any]

#: The phases of a run, in order. The worker announces each, and the parent limits the time of each.
PHASES = ("load", "first", "check", "time", "recheck")

_LINE = 500  # characters of an ordinary error
_LOG = 4000  # characters of a device compiler's log
MAX_LOADED = 32  # kernels kept for the play-off
_MAX_LOADED_BYTES = 4 << 30  # of their arguments, which a device holds once for each kernel


class MismatchError(Exception):
    """The candidate ran, and what it left behind is wrong."""


# -- the compiler ---------------------------------------------------------------------------------


class Backend(Protocol):
    """The interface to a compiler; tests substitute one that crashes, hangs and lies (`--backend module:attribute`)."""

    def build(self, job: Job, path: Path, known: Callable[[str], bool]) -> str:
        """Write the artifact of `job` to `path` and return the digest of its code.

        Code whose digest is `known` was measured before, and need not be written.
        Raises ScheduleError or LowerError for knob values that the sketch does not allow, anything else for code that
        does not compile.
        """

    def load(self, path: Path) -> Kernel:
        """Load the kernel of an artifact file. Raises BuildError for code that the device refuses."""


class CompilerBackend:
    """The compiler itself: replay the trace, lower once for each sketch, bind the knobs, generate code."""

    def __init__(self, workload: dict[str, Any], sketches: dict[str, list[Any]], target: Target) -> None:
        self._workload, self._sketches, self._target = workload, sketches, target
        self._structures: dict[str, Any] = {}

    def build(self, job: Job, path: Path, known: Callable[[str], bool]) -> str:
        artifact = compile_function(self._structure(job).bind(job.knobs), self._target, known)
        if artifact.code:
            artifact.save(path)
        return artifact.identity

    def load(self, path: Path) -> Kernel:
        return load(Artifact.load(path), self._target)

    def _structure(self, job: Job) -> Any:
        """The lowered sketch, its knobs open."""
        name = job.sketch
        if name not in self._structures:
            # A runner never lowers: without these it starts in four fifths of the time.
            from autosched.lowering.pipeline import lower_structure
            from autosched.schedule.schedule import replay

            trace = self._sketches.get(name) if job.trace is None else job.trace
            if trace is None:
                raise ScheduleError("no such sketch", asked=f"sketch {name!r}", legal=", ".join(self._sketches))
            args = graph_from_json(self._workload)
            self._structures[name] = lower_structure(replay(trace, args), args, self._target)
        return self._structures[name]


# -- errors as text -------------------------------------------------------------------------------


def describe(error: BaseException) -> str:
    """The error in one line: ours in their words, others with their class and the line of ours that they come from."""
    if isinstance(error, AutoschedError):
        head, _, legal = str(error).partition("\n")
        return _clip("; ".join(" ".join(x.split()) for x in (head, legal) if x), _LINE)
    text = " ".join(str(error).split())
    name = type(error).__name__
    package = Path(__file__).parents[1]
    own = [f for f in traceback.extract_tb(error.__traceback__) if package in Path(f.filename).parents]
    where = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return _clip(f"{name}: {text}" if text else name, _LINE - 80) + where


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."


def classify(error: Exception, phase: str) -> dict[str, Any]:
    """The answer to a job that raised `error` in `phase`, which is `"build"` or one of `PHASES`.

    `recycle` asks for a new process, where the candidate may have damaged this one or the driver may refuse all that
    follows.
    """
    if isinstance(error, MismatchError):
        return {"status": "correctness", "error": str(error), "recycle": True}
    is_compiling = phase in ("build", "load")  # a device's driver compiles when it loads
    text = _clip(str(error), _LOG) if is_compiling and isinstance(error, BuildError) else describe(error)
    if phase == "build":
        return {"status": "constraints" if isinstance(error, (ScheduleError, LowerError)) else "compile", "error": text}
    if isinstance(error, DeviceError):
        return {"status": "runtime", "error": text, "recycle": True, "device_error": True}
    status = "compile" if is_compiling else "runtime"
    return {"status": status, "error": text, "recycle": not isinstance(error, AutoschedError)}


# -- building -------------------------------------------------------------------------------------


def build(backend: Backend, job: Job, path: Path, known: Path | None = None) -> dict[str, Any]:
    """Build one job into `path`, unless the folder `known` has a file named by the digest of its code.

    Never raises: the answer tells what happened.
    """

    def is_known(digest: str) -> bool:
        return known is not None and (known / digest).exists()

    start = time.monotonic()
    try:
        answer: dict[str, Any] = {"status": "ok", "error": "", "digest": backend.build(job, path, is_known)}
    except Exception as error:
        answer = classify(error, "build")
    return {**answer, "build_s": time.monotonic() - start}


# -- running --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reference:
    """One output: the memory that candidates write to, what it holds before a call, and what it must hold after it.

    An output without `expected` is not compared; one without `initial` is overwritten by every call.
    """

    memory: GuardedArray
    expected: Array | None
    rtol: float
    atol: float
    initial: Array | None
    rounding: Rounding

    @staticmethod
    def of(
        expected: Array | None, initial: Array | None, rtol: float | None, atol: float | None, rounding: Rounding
    ) -> _Reference:
        like = initial if expected is None else expected
        assert like is not None
        memory = GuardedArray(like.shape, like.dtype)
        return _Reference(memory, expected, *verify.allowed_error(like, rtol, atol, rounding), initial, rounding)

    @property
    def array(self) -> Array:
        return self.memory.array

    @property
    def is_approximate(self) -> bool:
        """Whether it may be right and yet differ from the reference in some bits."""
        return self.expected is not None and (is_float(self.expected.dtype) or self.rtol + self.atol > 0)

    def prepare(self, variant: int) -> None:
        """Fill it for a call: with its initial content, else with poison."""
        if self.initial is None:
            verify.poison(self.array, variant)
        else:
            self.array[...] = self.initial

    def positions(self, full: bool) -> Array | None:
        if full or self.array.nbytes <= verify.FULL_LIMIT_BYTES:
            return None
        return verify.sample_positions(self.array.size)

    def wrong(self, full: bool) -> str:
        """Return what is wrong with it, empty if nothing is."""
        if self.expected is None:
            return ""
        positions = self.positions(full)
        return verify.compare(self.array, self.expected, self.rtol, self.atol, positions, self.rounding)


class ArgumentArrays:
    """The arrays that all candidates of a session run on, with the checks of what candidates leave in them.

    Candidates get guarded copies of `inputs`. Give read-only mappings of files for `inputs` and `expected`: a stray
    write into one then ends the process. The other parameters are as for `Measurer`.
    """

    def __init__(
        self,
        inputs: Sequence[Array],
        expected: Sequence[Array | None],
        rtol: float | None = None,
        atol: float | None = None,
        initial: Sequence[Array | None] | None = None,
        roundings: Sequence[Rounding] | None = None,
    ) -> None:
        self._pristine = list(inputs)
        self._inputs = [GuardedArray(a.shape, a.dtype) for a in inputs]
        before = [None] * len(expected) if initial is None else initial
        left = [EXACT] * len(expected) if roundings is None else roundings
        self._outputs = [_Reference.of(e, i, rtol, atol, r) for e, i, r in zip(expected, before, left, strict=True)]
        self._memories = [*self._inputs, *(o.memory for o in self._outputs)]
        self.nbytes = sum(a.nbytes for a in [*inputs, *(o.array for o in self._outputs)])
        self.restore()

    @property
    def accumulates(self) -> bool:
        """Whether a call may build on what earlier ones left in an output."""
        return any(o.initial is not None for o in self._outputs)

    @property
    def outputs(self) -> list[Array]:
        """The arrays that candidates write to."""
        return [o.array for o in self._outputs]

    def restore(self) -> None:
        """Restore the inputs and the pattern around all arrays."""
        for memory, pristine in zip(self._inputs, self._pristine, strict=True):
            memory.array[...] = pristine
        for memory in self._memories:
            memory.repair()

    def of(self, kernel: Kernel) -> tuple[list[Array], list[str], list[str]]:
        """(arrays in the order of the parameters, names of inputs, names of outputs). Raises BuildError."""
        params = kernel.signature.params
        names_in = [p.name for p in params if not p.is_output]
        names_out = [p.name for p in params if p.is_output]
        if len(names_in) != len(self._inputs) or len(names_out) != len(self._outputs):
            raise BuildError(
                f"it takes {len(names_in)} inputs and {len(names_out)} outputs; "
                f"given are {len(self._inputs)} and {len(self._outputs)}",
                asked=kernel.signature.name,
            )
        inputs, outputs = iter(self._inputs), iter(self._outputs)
        arrays = [next(outputs).array if p.is_output else next(inputs).array for p in params]
        return arrays, names_in, names_out

    def prepare(self, variant: int) -> None:
        """Fill the outputs for a call: with their initial content where it matters, else with poison."""
        for output in self._outputs:
            output.prepare(variant)

    def snapshot(self, full: bool) -> list[Array]:
        """Copy the outputs, or the sampled elements of them, that may be right and yet differ from run to run."""
        return [_picked(o, full).copy() for o in self._outputs if o.is_approximate]

    def check(self, names: tuple[list[str], list[str]], full: bool, before: list[Array] | None = None) -> None:
        """Check that outputs are right, inputs unchanged and the memory around both untouched.

        `before` is a `snapshot`, which the outputs must equal in all bits. Raises MismatchError.
        """
        names_in, names_out = names
        named = list(zip(names_out, self._outputs, strict=True))
        memories = zip([*names_in, *names_out], self._memories, strict=True)
        problems = [f"it wrote outside of {name}" for name, memory in memories if not memory.intact()]
        for name, memory, pristine in zip(names_in, self._inputs, self._pristine, strict=True):
            if changed := verify.differing_bytes(memory.array, pristine):
                problems.append(f"it changed {changed:,} elements of its input {name}")
        problems += [f"{name}: {text}" for name, output in named if (text := output.wrong(full))]
        if not problems and before is not None:
            shown = [(name, output) for name, output in named if output.is_approximate]
            for (name, output), earlier in zip(shown, before, strict=True):
                if count := verify.differing_bytes(_picked(output, full), earlier):
                    problems.append(f"{name}: two runs differ in {count:,} elements: a race between iterations?")
        if problems:
            self.restore()
            raise MismatchError("; ".join(problems))

    def is_small(self) -> bool:
        """Whether every output is small enough to be compared whole."""
        return all(o.positions(full=False) is None for o in self._outputs)


def _picked(output: _Reference, full: bool) -> Array:
    positions = output.positions(full)
    flat = output.array.reshape(-1)
    return flat if positions is None else flat[positions]


@dataclass
class _Loaded:
    call: BoundCall
    names: tuple[list[str], list[str]]
    number: int


class Runner:
    """Runs candidates on the session's arrays, and keeps the last few loaded for the play-off.

    `announce` is called with each phase as it begins.
    """

    def __init__(
        self,
        backend: Backend,
        arguments: ArgumentArrays,
        announce: Callable[[str], None],
        *,
        verify_outputs: bool = True,
    ) -> None:
        self._backend, self._arguments, self._announce = backend, arguments, announce
        self._verify = verify_outputs
        self._loaded: OrderedDict[str, _Loaded] = OrderedDict()
        self._capacity = max(2, min(MAX_LOADED, _MAX_LOADED_BYTES // max(1, arguments.nbytes)))
        self._phase = PHASES[0]

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Load, verify, time and verify again. Never raises: the answer tells what happened.

        The request has
            path:    the artifact's file
            number, repeat, min_s, best_s, budget_s: as for `take_samples`
            race:    whether `best_s` decides the number of samples
            on_cpu:  whether candidates run on threads of this process, whose waiting shows what other programs do
            full:    whether outputs are compared whole
            key:     the name under which the kernel is kept for `time`; empty where it is not
            show:    where outputs are written for an `Inspection`; empty where there is none
        """
        start = time.monotonic()
        try:
            answer = self._run(request)
        except Exception as error:
            answer = classify(error, self._phase)
        return {**answer, "run_s": time.monotonic() - start}

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        arguments, full = self._arguments, bool(request["full"])
        self._enter("load")
        kernel = self._backend.load(Path(request["path"]))
        arrays, *names = arguments.of(kernel)
        loaded = _Loaded(kernel.bind(arrays), (names[0], names[1]), 0)
        self._enter("first")
        arguments.prepare(0)
        loaded.call.upload()
        loaded.call.run()
        loaded.call.fetch()
        self._enter("check")
        before = None
        if self._verify:
            arguments.check(loaded.names, full)
            before = arguments.snapshot(full)
            self._show(request, FIRST)
        self._enter("time")
        arguments.prepare(1)
        loaded.call.upload()
        strain = Strain.now()
        samples = take_samples(
            loaded.call.time,
            number=int(request["number"]),
            repeat=int(request["repeat"]),
            min_s=float(request["min_s"]),
            best_s=request["best_s"] if request["race"] else None,
            budget_s=float(request["budget_s"]),
            watch=Strain.now if request.get("on_cpu") else None,
        )
        answer = {"samples": samples.seconds, "raced": samples.raced, "strain": strain.share()}
        loaded.number = samples.number
        self._enter("recheck")
        self._fetch(loaded.call)
        verdict = self._recheck(loaded, full, before, samples.seconds, request["best_s"])
        self._show(request, AFTER)
        if key := request.get("key"):
            self._loaded[key] = loaded
            self._loaded.move_to_end(key)
            while len(self._loaded) > self._capacity:
                self._loaded.popitem(last=False)
        return {"status": "ok", "error": "", "verified": verdict, "number": samples.number, **answer}

    def time(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take one more sample of a kept kernel, with as many calls in a piece as before. Never raises.

        The request has `key`, `min_s` and `show` as for `run`, and `check`: whether outputs are verified afterwards.
        The status is `"unloaded"` where the kernel is no longer kept.
        """
        start = time.monotonic()
        loaded = self._loaded.get(request["key"])
        if loaded is None:
            return {"status": "unloaded", "error": "", "run_s": 0.0}
        self._loaded.move_to_end(request["key"])
        check = bool(request["check"]) and self._verify
        try:
            self._phase = "time"
            self._arguments.prepare(1)
            loaded.call.upload()
            before = Strain.now()
            seconds, _ = fastest(loaded.call.time, loaded.number, float(request["min_s"]))
            strain = before.share()
            if check:
                self._enter("recheck")
                self._fetch(loaded.call)
                self._arguments.check(loaded.names, full=True)
                self._show(request, AFTER)
            verdict = "full" if check else "no"
            answer = {"status": "ok", "error": "", "samples": [seconds], "verified": verdict, "strain": strain}
        except Exception as error:
            answer = classify(error, self._phase)
        return {**answer, "run_s": time.monotonic() - start}

    def _fetch(self, call: BoundCall) -> None:
        """Fetch what the last timed call left; where calls build on each other, what one more call leaves."""
        if self._arguments.accumulates:
            self._arguments.prepare(1)
            call.upload()
            call.run()
        call.fetch()

    def _show(self, request: dict[str, Any], call: str) -> None:
        if place := request.get("show"):
            write_outputs(self._arguments.outputs, place, call)

    def _enter(self, phase: str) -> None:
        self._phase = phase
        if phase != PHASES[0]:  # the parent starts the clock of the first one
            self._announce(phase)

    def _recheck(
        self, loaded: _Loaded, full: bool, before: list[Array] | None, samples: list[float], best_s: float | None
    ) -> str:
        """Check what the last timed call left, whole for a new best, and return the verdict."""
        if not self._verify:
            return "no"
        self._arguments.check(loaded.names, full, before)
        if full or self._arguments.is_small():
            return "full"
        if best_s is None or typical(samples) < best_s:
            self._arguments.check(loaded.names, full=True)
            return "full"
        return "sampled"
