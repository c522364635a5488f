"""Options, jobs and measurements, and the answers of workers, checked."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import Fields, Form, UsageError, expect, is_list_of
from autosched.noise import typical
from autosched.options import option, options_of
from autosched.target import cpu_count

#: The ends that a measurement can have; `docs/measurement.md` explains each.
STATUSES = (
    "ok",
    "constraints",
    "compile",
    "build_timeout",
    "timeout",
    "crash",
    "runtime",
    "correctness",
    "lost",
)

#: The part of the output that was compared with the reference.
VERDICTS = ("full", "sampled", "no")


@dataclass(frozen=True)
class MeasureOptions:
    """The options of measuring. Times are seconds unless the name says otherwise.

    timeout_s:       longest that a candidate may run, verification and all samples included; the
                     limit shrinks as faster candidates are found, never below 2 s
    build_timeout_s: CPU time that one build may use, so that a busy machine fails no candidate; in seconds of
                     the wall clock it may last six times as long. A device's own compiler counts as building.
                     Once some candidates have run, others may take eight times as long as these did
    number:          calls per sample; 0 divides samples into short pieces, of which the fastest counts
    repeat:          samples per candidate
    race:            take fewer samples of candidates that have clearly lost, or whose samples agree, and more of
                     those near the best where they do not (`timing.take_samples`); without it every candidate has
                     `repeat`
    min_repeat_ms:   shortest sample, when `number` is 0
    builders:        build processes
    verify:          compare outputs with the reference
    rtol, atol:      allowed error of outputs, `|got - expected| <= atol + rtol * |expected|`, floats and integers
                     alike; None takes the default of the output (`verify.allowed_error`)
    memory_limit_mb: address space of a worker, in MiB; 0 is three quarters of the memory that is available, 4 GiB at
                     least, except for `opencl`, where drivers reserve far more than they use and 0 is no limit
    imports:         Python files that workers load first, for the functions and intrinsics they register
    overlap:         build while candidates run. Wrong when they share the CPU, because builds then
                     disturb the timing; right for a separate device

    Raises UsageError for values that cannot be meant.
    """

    timeout_s: float = option(10.0, least=0.01, metavar="TIME", help="longest that one candidate may run; default 10s")
    build_timeout_s: float = option(15.0, least=0.01)
    number: int = option(0, least=0)
    repeat: int = option(3, least=1, metavar="N", help="samples for each candidate; default 3")
    race: bool = option(
        True, help="take the same number of samples of every candidate, even of one that has clearly lost"
    )
    min_repeat_ms: float = option(
        20.0,
        least=0,
        metavar="MS",
        help="shortest sample: calls are repeated until it lasts this long; default 20",
    )
    builders: int = option(factory=cpu_count, least=1, metavar="N", help="compile in N processes; default one per CPU")
    verify: bool = True
    rtol: float | None = None
    atol: float | None = None
    memory_limit_mb: int = option(
        0,
        least=0,
        typed=1,
        metavar="MIB",
        help="memory that one candidate may use, in MiB; default three quarters of what is available, 4096 at least",
    )
    imports: tuple[str, ...] = ()
    overlap: bool = False

    def __post_init__(self) -> None:
        for f, about in options_of(self):
            if (low := about.least) is None:
                continue
            name, value = f.name, getattr(self, f.name)
            kind = numbers.Real if name.endswith(("_s", "_ms")) else numbers.Integral
            is_number = isinstance(value, kind) and not isinstance(value, bool)
            what = f"a {'number' if kind is numbers.Real else 'whole number'} of {low:g} or more"
            expect(value, what, is_number, f"{name}={value!r:.40}")
            if not (math.isfinite(value) and value >= low):
                raise UsageError(f"{name} must be a number >= {low:g}", asked=f"{name}={value!r}", legal=what)
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if value is None:
                continue
            expect(value, "a number of 0 or more", isinstance(value, numbers.Real), f"{name}={value!r:.40}")
            if not (math.isfinite(value) and value >= 0):
                legal = "0 or more, or None"
                raise UsageError(f"{name} must be a number >= 0", asked=f"{name}={value!r}", legal=legal)
        expect(self.imports, "a tuple of paths", is_list_of(self.imports, str), f"imports={self.imports!r:.40}")
        if self.repeat > 10_000:
            raise UsageError("repeat must be at most 10000", asked=f"repeat={self.repeat!r}", legal="1 to 10000")


@dataclass(frozen=True)
class Job:
    """One candidate: the knob values of a sketch. `id` is the caller's, echoed in the measurement.

    `patience` multiplies the time limits of building and, until something has been measured, of running: the default
    schedule may be a thousand times slower than what follows, and the first build of a session waits for the imports
    of its process, on a machine that may be busy.

    `trace` is for a sketch that the measurer was not given. One name is one trace, for all of a session.
    """

    id: int
    sketch: str
    knobs: dict[str, int] = field(default_factory=dict)
    patience: float = 1.0
    trace: list[Any] | None = field(default=None, hash=False)

    def to_json(self) -> dict[str, Any]:
        data = {"id": self.id, "sketch": self.sketch, "knobs": dict(self.knobs)}
        return data if self.trace is None else {**data, "trace": self.trace}


@dataclass(frozen=True)
class Measurement:
    """The outcome of one job.

    status:   one of `STATUSES`
    samples:  seconds per call, in the order taken; none unless `status` is `"ok"`
    error:    one short line, several for a device compiler's log; empty where nothing is wrong
    build_s, run_s: seconds that the candidate cost
    verified: one of `VERDICTS`
    digest:   identifies the generated code; empty where nothing was built
    raced:    it was clearly slower than the best, and stopped before it had all its samples
    strain:   seconds that its threads waited for cores that other programs had, for each second of timing
              (`timing.Strain`)
    """

    job: Job
    status: str
    samples: tuple[float, ...] = ()
    error: str = ""
    build_s: float = 0.0
    run_s: float = 0.0
    verified: str = "no"
    digest: str = ""
    raced: bool = False
    strain: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def seconds(self) -> float:
        """Median of the samples that nothing disturbed (`noise.typical`); infinite where there are none."""
        return typical(self.samples) if self.samples else math.inf


UNLOADED = "unloaded"

_MAX_TEXT = 8192


@dataclass(frozen=True)
class BuildAnswer:
    status: str
    error: str
    digest: str
    build_s: float


@dataclass(frozen=True)
class RunAnswer:
    """`recycle`: the worker asks to be replaced. `device_error`: the device itself refused.

    Status `UNLOADED` answers a question about a kernel that the worker does not hold.
    """

    status: str
    error: str
    samples: tuple[float, ...]
    verified: str
    run_s: float
    number: int
    raced: bool
    recycle: bool
    device_error: bool
    strain: float = 0.0


_ERROR = Form.text(_MAX_TEXT)
_DURATION = Form.number(least=0, what="a duration")
_BUILT = Fields({"status": Form.one_of(*STATUSES), "error": _ERROR, "build_s": _DURATION})
_DIGEST = Fields({"digest": Form.text(_MAX_TEXT, 1)})
_RAN = {"error": _ERROR, "run_s": _DURATION, "number": Form.integer(0), "strain": _DURATION}
_TIMED = Fields(
    {
        "verified": Form.one_of(*VERDICTS),
        "samples": Form.array(Form.number(above=0), "an array of positive numbers", shortest=1),
    }
)


def read_build(reply: dict[str, Any]) -> BuildAnswer:
    """Raises Malformed for what is no answer."""
    _BUILT.check(reply)
    is_ok = reply["status"] == "ok"
    digest = _DIGEST.check(reply)["digest"] if is_ok else ""
    return BuildAnswer(reply["status"], reply["error"], digest, float(reply["build_s"]))


def read_run(reply: dict[str, Any], *others: str) -> RunAnswer:
    """The answer, whose status is one of `STATUSES` or `others`. Raises Malformed for what is no answer."""
    Fields({"status": Form.one_of(*STATUSES, *others), **_RAN}, optional=("number", "strain")).check(reply)
    is_ok = reply["status"] == "ok"
    if is_ok:
        _TIMED.check(reply)
    return RunAnswer(
        status=reply["status"],
        error=reply["error"],
        samples=tuple(map(float, reply["samples"])) if is_ok else (),
        verified=reply["verified"] if is_ok else "no",
        run_s=float(reply["run_s"]),
        number=reply.get("number", 0),
        raced=reply.get("raced") is True,
        recycle=reply.get("recycle") is True,
        device_error=reply.get("device_error") is True,
        strain=float(reply.get("strain", 0.0)),
    )


def read_time(reply: dict[str, Any]) -> RunAnswer:
    """An answer that may also be `UNLOADED`. Raises Malformed for what is none."""
    return read_run(reply, UNLOADED)
