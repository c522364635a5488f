"""`Measurer`: the parent's side of measuring."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.measure.batch import Batch, KnownCode, MeasureContext
from autosched.measure.playoff import LATE, Playoff
from autosched.measure.protocol import Job, Measurement, MeasureOptions
from autosched.measure.verify import Array, Inspection, Inspector, differing_bytes
from autosched.measure.workers import Workers
from autosched.target import Target
from autosched.te.rounding import EXACT, Rounding


class Measurer:
    """Builds and runs candidates of one workload on one device, in processes of their own.

    workload_json: the op graph, as `te.graph_to_json` gives it
    target:        what to generate code for, with the device's limits
    sketches:      name -> trace, as `Trace.to_json` gives it
    inputs:        one array per input, in the order of the workload's arguments
    expected:      the outputs for these inputs, from `te.reference`; None for one that is not compared
    initial:       what outputs hold before a call; without it, or None, every call overwrites all of it
    options:       see `MeasureOptions`
    roundings:     what the op graph leaves open in each output (`te.rounding`); by default nothing
    backend:       `module:attribute` of a stand-in for the compiler, for tests
    workers:       processes that were begun to be started before all this was known (`workers.Workers`); they are
                   closed with this, and where it cannot be made
    inspector:     a function that is given all outputs of verified calls, in this process, and returns what is
                   wrong with them, empty when nothing is; each output has an `expected` or an `initial`

    A context manager; `close` ends the workers and removes their files, and so does the end of the
    program. One call of `measure` or `playoff` at a time. On Linux the workers die with the thread
    that started them, so use a Measurer from one thread.

        with Measurer(te.graph_to_json(args), target, {"rows": trace}, inputs, expected) as measurer:
            for m in measurer.measure([Job(0, "rows", {"tile": 8})]):
                print(m.status, m.seconds)

    Raises OSError when the session's folder cannot be written.
    """

    def __init__(
        self,
        workload_json: dict[str, Any],
        target: Target,
        sketches: dict[str, list[Any]],
        inputs: Sequence[np.ndarray[Any, Any]],
        expected: Sequence[np.ndarray[Any, Any] | None],
        options: MeasureOptions | None = None,
        *,
        backend: str = "",
        initial: Sequence[np.ndarray[Any, Any] | None] | None = None,
        inspector: Inspector | None = None,
        roundings: Sequence[Rounding] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.options = o = options or MeasureOptions()
        before = [None] * len(expected) if initial is None else initial
        roundings = [EXACT] * len(expected) if roundings is None else roundings
        workers = workers or Workers.make(target, o, backend)
        folder = workers.session
        try:
            workers.configuration.update(
                op="configure",
                workload=folder.save_json("workload.json", workload_json),
                sketches=folder.save_json("sketches.json", sketches),
                target={"kind": target.kind, "options": target.options, "limits": target.limits},
                inputs=folder.save_arrays("input", inputs),
                expected=folder.save_arrays("expected", expected),
                initial=folder.save_arrays("initial", before),
                roundings=[asdict(r) for r in roundings],
                imports=list(o.imports),
                options={"verify": o.verify, "rtol": o.rtol, "atol": o.atol},
            )
        except BaseException:
            workers.close()
            raise
        self.context = MeasureContext(target, o, workers)
        if inspector is not None and o.verify:
            like = [e if i is None else i for e, i in zip(expected, before, strict=True)]
            shown = folder.path / "shown"
            self.context.inspection = Inspection(inspector, [a for a in like if a is not None], shown)
        self._finalizer = weakref.finalize(self, workers.close)
        self._is_busy = False
        #: The reasons why candidates left the last play-off, by job id.
        self.playoff_errors: dict[int, str] = {}
        #: The `Measurement.strain` of its candidates, by job id.
        self.playoff_strains: dict[int, float] = {}
        #: What was going on, such as "while it was loaded", as the last batch was given up; else empty.
        self.left_at = ""

    def __enter__(self) -> Measurer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, remove the session's folder. Safe to call twice."""
        self._finalizer()

    def outputs_of(
        self, job: Job, like: Sequence[Array], limit_s: float, until: float | None = None
    ) -> tuple[list[Array], str]:
        """(what a job leaves in its outputs, empty), or (nothing, the reason): for `compare_with`.

        like:    arrays of the shapes and types of all outputs, which this was made with as `initial`
        limit_s: seconds that a call may take
        until:   a time of the monotonic clock, at which it is given up

        Two calls must leave the same.
        """
        seen: list[list[Array]] = []

        def look(outputs: list[Array]) -> str:
            seen.append(outputs)
            is_same = not any(map(differing_bytes, seen[0], outputs))
            return "" if is_same else "two calls leave different outputs"

        options = replace(self.options, verify=True, number=1, repeat=1, timeout_s=max(limit_s, 0.01))
        inspection = Inspection(look, like, self.context.session.path / "shown")
        context = replace(self.context, options=options, inspection=inspection, remembers=False)
        with self._at_work("outputs_of"):
            found = next(iter(Batch(context, [job], until=until)), None)
        if found is None:
            return [], LATE
        return (seen[0], "") if found.ok else ([], found.error)

    def compare_with(
        self, expected: Sequence[Array | None], initial: Sequence[Array | None], roundings: Sequence[Rounding]
    ) -> None:
        """Compare outputs with these from now on, in place of those that this was made with."""
        folder, pool = self.context.session, self.context.pool
        for slot in pool.slots:  # the next runner learns of them as it starts
            if slot.role == "runner":
                pool.recycle(slot)
        self.context.workers.configuration.update(
            expected=folder.save_arrays("expected", expected),
            initial=folder.save_arrays("initial", initial),
            roundings=[asdict(r) for r in roundings],
        )

    @property
    def best_s(self) -> float | None:
        """Best median so far, in seconds. Time limits follow it; set it when earlier records know one."""
        return self.context.best_s

    @best_s.setter
    def best_s(self, seconds: float | None) -> None:
        self.context.best_s = seconds

    def remember(self, digest: str, samples: Sequence[float], *, verified: str, name: str, raced: bool = False) -> None:
        """Let jobs whose code has this `digest` take over samples (seconds) of an earlier session.

        Such a job has `error="same code as NAME"`. Measurements of this session take precedence.
        """
        self.context.remember(digest, KnownCode(name, tuple(samples), verified, raced))

    @property
    def restarts(self) -> int:
        """The number of worker processes that were replaced."""
        return self.context.pool.restarts

    def measure(
        self, jobs: Iterable[Job], quiet: Callable[[], object] | None = None, until: float | None = None
    ) -> Iterator[Measurement]:
        """Yield one measurement for each job, in the order in which they end.

        Nothing that a candidate does makes this raise: it becomes a status. A job whose code was measured in this
        session, or is remembered, is not compiled: it takes over the samples, with `error="same code as job N"`.
        Leaving the iteration early ends the jobs at work.

        `quiet` is called after building, before candidates are timed on this CPU: let it end, or wait for, whatever
        else your program has at work. It is not called with `options.overlap`. At `until`, a time of the monotonic
        clock, the iteration ends, and jobs that are not done have no measurement.

        Raises MeasureError when the worker processes do not start, DeviceError when the device is
        lost, UsageError when this measurer is closed or busy.
        """
        with self._at_work("measure"):
            yield from Batch(self.context, jobs, quiet, until)

    def playoff(
        self, jobs: Sequence[Job], rounds: int = 15, until: float | None = None
    ) -> list[tuple[Job, list[float]]]:
        """Take `rounds` samples (seconds per call) of each job, interleaved: one of each in every round.

        Outputs are verified whole, before the first and after the last round. A job that fails has no samples, and its
        reason is in `playoff_errors`. `stats.judge` names the winner, and says how many rounds that takes. From `until`
        on, a time of the monotonic clock, no round begins, and jobs that are not built and loaded leave. Raises what
        `measure` raises, and UsageError for `rounds` < 1.
        """
        if rounds < 1:
            raise UsageError("there must be at least one round", asked=f"playoff(rounds={rounds})")
        with self._at_work("playoff"):
            playoff = Playoff(self.context, jobs, rounds, until)
            try:
                return playoff.run()
            finally:
                self.playoff_errors, self.playoff_strains = playoff.errors, playoff.strains

    @contextmanager
    def _at_work(self, name: str) -> Iterator[None]:
        if not self._finalizer.alive:
            raise UsageError("this measurer is closed", asked=name)
        if self._is_busy:
            raise UsageError(
                "this measurer is busy", asked=name, legal="finish or close the iteration over the last batch first"
            )
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
            try:
                self.left_at = self.context.at_work
            finally:
                self.context.pool.stop_busy()
