"""Strategies on recorded spaces, trial by trial: one run with one seed, many at once, and in several processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from autosched import errors
from autosched.errors import AutoschedError, UsageError
from autosched.measure.frames import serve
from autosched.measure.workers import ask_all
from autosched.model import AnalyticalModel, make_model, prior_for
from autosched.model.protocol import FloatArray
from autosched.search import make_strategy
from autosched.simulate.recorded import RecordedSpace, load
from autosched.target import Target

#: Candidates proposed at a time, as in `tune`.
BATCH = 16


@dataclass(frozen=True)
class Contender:
    """A strategy with its options and its cost model.

    `prime` names recorded spaces whose points the model is shown before the first trial, `prime_trials`
    how many of each, drawn by the seed. Without `prior` the model begins with nothing.
    """

    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str = "xgb"
    prime: tuple[str, ...] = ()
    prime_trials: int = 100
    prior: bool = True

    @property
    def label(self) -> str:
        """Its name in tables and figures."""
        name = self.strategy.rpartition(":")[2] if ".py:" in self.strategy else self.strategy
        words = [f"{k}={v}" for k, v in self.options.items()]
        return " ".join([name, *words, *([f"after {', '.join(self.prime)}"] if self.prime else [])])

    @staticmethod
    def parse(text: str, model: str = "xgb") -> Contender:
        """`NAME` or `NAME,option=value,...`; a value may have commas, as in `bandit,arms=guided,droplet`.

        Raises UsageError for an option without a value.
        """
        name, *words = text.split(",")
        options: dict[str, str] = {}
        for word in words:
            key, equals, value = word.partition("=")
            if not equals and options:
                options[[*options][-1]] += f",{word}"
            elif equals and key.isidentifier() and value:
                options[key] = value
            else:
                raise UsageError(f"{word!r} is not OPTION=VALUE", asked=f"--strategy {text}", legal="NAME,option=value")
        return Contender(name, {key: _value(value) for key, value in options.items()}, model)


@dataclass(frozen=True)
class Run:
    """The trials of one contender: `seconds` are their medians in order, `inf` for failures."""

    space: str
    contender: str
    seed: int
    seconds: tuple[float, ...]

    @cached_property
    def best(self) -> FloatArray:
        """float64 [trials]: the best after each trial."""
        return np.minimum.accumulate(np.array(self.seconds, dtype=np.float64))


def replay_run(
    space: RecordedSpace,
    contender: Contender,
    seed: int,
    trials: int,
    batch: int = BATCH,
    primes: Sequence[RecordedSpace] = (),
) -> Run:
    """Let the contender search until `trials` were made or nothing is left.

    `seed` decides on the strategy's choices, the model's, and on the noise. Raises UsageError for an
    unknown strategy or model, and for a plug-in that does not keep to the protocol.
    """
    prior = prior_of(space) if contender.prior else None
    model = make_model(contender.model, space.feature_names, seed=seed, threads=1, prior=prior)
    if primes:
        _prime(model, contender, space, primes, seed)
    strategy = make_strategy(contender.strategy, space, seed=seed, model=model, **contender.options)
    seconds: list[float] = []
    while len(seconds) < trials:
        proposed = list(strategy.propose(min(batch, trials - len(seconds))))
        if not proposed:
            break
        seconds += [space.seconds(candidate) for candidate in proposed]
        strategy.observe(space.measure(proposed, seed))
    return Run(space.name, contender.label, seed, tuple(seconds))


def prior_of(space: RecordedSpace) -> AnalyticalModel | None:
    """The analytical model of the machine that was recorded, as in `tune`; None where there is none of its device."""
    if "target" not in space.facts:
        return None
    target, device = Target.parse(str(space.facts["target"])), space.facts.get("device", {})
    units = int(device.get("threads", target.num_threads))
    limits = space.facts.get("limits", {})
    return prior_for(space.feature_names, is_gpu_style=target.is_gpu_style, units=units, limits=limits)


def _prime(model: Any, contender: Contender, space: RecordedSpace, primes: Sequence[RecordedSpace], seed: int) -> None:
    """Show the model points of other spaces, each a group of its own."""
    asked = f"--prime {primes[0].name}"
    if not hasattr(model, "prime"):
        why = f"the cost model {contender.model!r} learns nothing from other spaces"
        raise UsageError(why, asked=asked, legal="--model xgb, or no --prime")
    features, seconds, groups = [], [], []
    for group, other in enumerate(primes):
        if other.feature_names != space.feature_names or other.facts["features"] != space.facts["features"]:
            why = f"the features of {other.name} and {space.name} are of different versions"
            raise UsageError(why, asked=asked, legal="`autosched simulate SPACE .. --renew` computes them again")
        points = other.points()
        rng = np.random.default_rng((seed, group))
        chosen = [points[i] for i in rng.permutation(len(points))[: contender.prime_trials]]
        measured = other.measure(chosen, seed)
        rows = [np.array([c.indices], dtype=np.int64).reshape(1, -1) for c in chosen]
        features += [other.sketches[c.sketch].features(row) for c, row in zip(chosen, rows, strict=True)]
        seconds += [trial.seconds for trial in measured]
        groups += [group] * len(chosen)
    model.prime(np.concatenate(features), np.array(seconds), np.array(groups, dtype=np.int64))


def _value(text: str) -> Any:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


#: Seconds that one run may take: a strategy that hangs must not hang the simulation.
LIMIT_S = 600.0

Task = dict[str, Any]


def run_all(
    files: Mapping[str, Path],
    spaces: Sequence[str],
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    trials: int,
    batch: int,
    processes: int,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> list[Run]:
    """Every contender on every space with every seed; the same runs in the same order for any number of
    processes.

    `files` says where each space is, those that prime models included. Raises what `replay_run` raises,
    and MeasureError when a process dies or a run takes more than ten minutes.
    """
    tasks = [
        {
            "space": str(files[space]),
            "contender": asdict(contender),
            "primes": [str(files[name]) for name in contender.prime],
            "seed": seed,
            "trials": trials,
            "batch": batch,
        }
        for space in spaces
        for contender in contenders
        for seed in seeds
    ]
    found: dict[int, Run] = {}
    for number, run in _answers(tasks, min(processes, len(tasks))):
        found[number] = run
        progress(len(found), len(tasks))
    return [found[number] for number in range(len(tasks))]


def _answers(tasks: Sequence[Task], processes: int) -> Iterator[tuple[int, Run]]:
    if processes <= 1:
        yield from ((number, _run(task)) for number, task in enumerate(tasks))
        return

    def asked(task: Task) -> str:
        return f"simulate {task['contender']['strategy']}"

    for number, reply in ask_all(tasks, "autosched.simulate.replay", processes, LIMIT_S, asked):
        yield number, _decoded(reply)


def _run(task: Task) -> Run:
    contender = Contender(**{**task["contender"], "prime": tuple(task["contender"]["prime"])})
    space, *primes = map(_loaded, (task["space"], *task["primes"]))
    return replay_run(space, contender, task["seed"], task["trials"], task["batch"], primes)


_loaded = cache(load)


# -- the other end --------------------------------------------------------------------------------------
def _answer(task: Task) -> dict[str, Any]:
    try:
        run = _run(task)
    except AutoschedError as error:
        return {"error": type(error).__name__, "why": error.why, "asked": error.asked, "legal": error.legal}
    return {**asdict(run), "seconds": [s if math.isfinite(s) else None for s in run.seconds]}


def _decoded(reply: dict[str, Any]) -> Run:
    if "error" in reply:
        raise getattr(errors, reply["error"])(reply["why"], asked=reply["asked"], legal=reply["legal"])
    return Run(**{**reply, "seconds": tuple(math.inf if s is None else s for s in reply["seconds"])})


if __name__ == "__main__":
    serve(_answer)
