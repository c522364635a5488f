"""Optuna's samplers as strategies: `tpe`, `cmaes`, `qmc`, and any other class of `optuna.samplers`.

Optuna's part is only to say which point it would like next (`ask`) and to be told what came out
(`tell`), in memory. Nothing is stored: records are our own, and are told again when a run resumes.

The space is split in two levels, each a study of its own: one study chooses the sketch, and each
sketch has a study of its knobs, whose indices are integer parameters. So no study has parameters
that exist only sometimes. In a single study, QMC and CMA-ES would draw such parameters at random,
and TPE, which can group them, needs more trials and more time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import logging
import math
import warnings
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from autosched.errors import UsageError
from autosched.model.protocol import CostModel
from autosched.search.base import PointStrategy, at_least, within
from autosched.search.moves import neighbours
from autosched.search.points import feasible
from autosched.search.protocol import Candidate, SpaceLike, Trial

log = logging.getLogger("autosched.search")

#: Constructor arguments other than the seed. Those of TPE are what Optuna 5 does anyway: knobs are
#: judged together, and points that are still being measured are kept away from.
SETTINGS: dict[str, dict[str, Any]] = {
    "TPESampler": {"multivariate": True, "constant_liar": True},
    "CmaEsSampler": {"with_margin": True, "warn_independent_sampling": False},  # a margin, for integers
    "QMCSampler": {"scramble": True},  # else it ignores its seed
}

#: Sampler -> the one that chooses the sketch for it, if it cannot: a sketch is no number.
CHOOSERS = {"CmaEsSampler": "TPESampler"}

#: Sampler -> packages it needs that Optuna does not bring along.
NEEDS: dict[str, tuple[str, ...]] = {
    "CmaEsSampler": ("cmaes",),
    "GPSampler": ("scipy", "torch"),
    "QMCSampler": ("scipy",),
}

#: It ends the study from within when all is tried, which is an error unless Optuna runs the loop.
#: Our `grid` does the same thing.
UNFIT = frozenset({"BruteForceSampler"})


#: Best trials whose neighbours are tried.
PARENTS = 4


class OptunaSearch(PointStrategy):
    """Asks an Optuna sampler for points, and takes those that are feasible and new.

    `sampler`  name of a class of `optuna.samplers`, see `sampler_names`.
    `batch`    proposals in one call at most, as in `guided`.
    `tries`    questions to the sampler for each candidate asked for, on average. What they do not
               yield is drawn at random.
    `refine`   of the proposals are neighbours of the best trials, in [0, 1], once there are trials: a
               sampler that spreads its points, or learns slowly, does not look there.

    The sampler is told log(seconds), and of a failure only that it failed. A point that is
    infeasible or not new is held as if it were being measured until the batch is full, so that the
    sampler keeps away from it, and then told as failed. `model` is not used.

    A sampler that raises is reported once in the log and in `sampler_error`; the rest of that batch
    is random. Raises UsageError for an option out of range, for an unknown sampler and for one that
    lacks a package.
    """

    name = "tpe"

    def __init__(
        self,
        space: SpaceLike,
        *,
        seed: int = 0,
        model: CostModel | None = None,
        sampler: str = "TPESampler",
        batch: int = 64,
        tries: int = 8,
        refine: float = 0.0,
    ) -> None:
        del model
        at_least(self.name, 1, batch=batch, tries=tries)
        within(self.name, 0, 1, refine=refine)
        self._batch, self._tries, self._refine = batch, tries, refine
        super().__init__(space, seed)
        self._numbers = [number for number, points in enumerate(self._points.sketches) if points.size > 0]
        self._told: list[Trial] = []
        self._asked: dict[Candidate, tuple[int, int]] = {}
        #: What the sampler last failed with, for reports; empty if it did not.
        self.sampler_error = ""
        optuna = _import_optuna(self.name)
        _check_sampler(optuna, sampler, self.name)
        seeds = np.random.SeedSequence(seed).generate_state(1 + len(self._points.sketches)).tolist()
        with _quiet():
            kinds = optuna.distributions
            which = {"sketch": kinds.CategoricalDistribution(range(len(self._numbers)))} if self._numbers else {}
            self._choice = _Study(optuna, CHOOSERS.get(sampler, sampler), seeds[0], which)
            self._studies: dict[int, _Study] = {}
            for number in self._numbers:  # a parameter for each knob: the index of its value
                knobs = space.sketches[number].knobs
                indices = {knob.name: kinds.IntDistribution(0, len(knob.values) - 1) for knob in knobs}
                self._studies[number] = _Study(optuna, sampler, seeds[1 + number], indices)

    def propose(self, n: int) -> list[Candidate]:
        """Up to `min(n, batch)` candidates."""
        weights = [points.weight() for points in self._points.sketches]
        n = int(min(n, self._batch, sum(weights)))
        if n < 1:
            return []
        found = self._near_the_best(self._by_chance(n, self._refine))
        with _quiet():
            self._learn()
            found += self._ask(n - len(found), {number for number, weight in enumerate(weights) if weight > 0})
        return found + self._points.take(n - len(found), self._rng)

    def _near_the_best(self, n: int) -> list[Candidate]:
        """Up to `n` new neighbours of the best trials, the better ones first, marked."""
        found: list[Candidate] = []
        for best, _ in self._history.ranked()[:PARENTS]:
            points = self._points.sketches[best.sketch]
            parents = np.repeat(points.as_rows([best.indices]), 4 * n, axis=0)
            rows = points.fresh(neighbours(parents, points.radices, self._rng))[: -(-n // 2)]
            found += self._points.mark(Candidate(best.sketch, tuple(row)) for row in rows[: n - len(found)].tolist())
        return found

    def _take_in(self, trials: list[Trial]) -> None:
        """The sampler is told before it is next asked, all at once and sorted: the order in which
        trials are told decides what some samplers do, the order of arrival must not.
        """
        self._told += trials

    def _ask(self, n: int, live: set[int]) -> list[Candidate]:
        """Up to `n` new feasible points, marked; `live` are the sketches that have points left."""
        found: list[Candidate] = []
        rejected: list[tuple[_Study, int]] = []
        with self._watched():
            for _ in range(n * self._tries):
                if len(found) == n:
                    break
                chosen, (place,) = self._choice.ask()
                number = self._numbers[place]
                if number not in live:
                    rejected.append((self._choice, chosen))
                    continue
                asked, indices = self._studies[number].ask()
                candidate = Candidate(number, indices)
                points = self._points.sketches[number]
                if len(points.fresh(points.as_rows([indices]))):  # it is feasible and new
                    found += self._points.mark([candidate])
                    self._asked[candidate] = chosen, asked
                else:
                    rejected += [(self._choice, chosen), (self._studies[number], asked)]
        for study, trial in rejected:
            with self._watched():
                study.tell(trial, None)
        return found

    def _learn(self) -> None:
        """Tell the studies what was observed since they were last asked."""
        sound = self._feasible({trial.candidate for trial in self._told})
        # An old record may be infeasible by now; then its time must not draw the sampler there.
        told = [(t.candidate, math.log(t.seconds) if t.ok and t.candidate in sound else None) for t in self._told]
        self._told = []
        unasked = []
        for candidate, value in sorted(told, key=lambda one: (one[0], one[1] is None, one[1] or 0.0)):
            asked = self._asked.pop(candidate, None)
            if asked is None:
                unasked.append((candidate, value))
            else:
                with self._watched():
                    self._choice.tell(asked[0], value)
                    self._studies[candidate.sketch].tell(asked[1], value)
        # TPE gives later trials more weight. Shuffled, that favours nothing.
        for i in self._rng.permutation(len(unasked)).tolist():
            candidate, value = unasked[i]
            with self._watched():
                self._choice.add((self._numbers.index(candidate.sketch),), value)
                self._studies[candidate.sketch].add(candidate.indices, value)

    def _feasible(self, candidates: Iterable[Candidate]) -> set[Candidate]:
        by_sketch: dict[int, list[tuple[int, ...]]] = {}
        for candidate in candidates:
            by_sketch.setdefault(candidate.sketch, []).append(candidate.indices)
        found: set[Candidate] = set()
        for number, rows in by_sketch.items():
            points = self._points.sketches[number]
            passed = feasible(points.sketch, points.as_rows(rows))
            found.update(Candidate(number, row) for row in map(tuple, passed.tolist()))
        return found

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """A sampler is not ours and may fail in any way; that must not end a run."""
        try:
            yield
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            if told != self.sampler_error:
                log.warning("Optuna's sampler failed, the search goes on with random points: %s", told)
            self.sampler_error = told


class QMCSearch(OptunaSearch):
    """A scrambled Sobol' sequence in each sketch: covers it more evenly than random points do.

    What was measured does not change the sequence: with `refine=0`, it changes nothing but what is left.
    The options are those of `OptunaSearch`; more tries, as a question is cheap, and a resumed run gets
    its sequence from the start again.
    """

    name = "qmc"

    def __init__(
        self,
        space: SpaceLike,
        *,
        seed: int = 0,
        model: CostModel | None = None,
        batch: int = 64,
        tries: int = 32,
        refine: float = 0.5,
    ) -> None:
        super().__init__(space, seed=seed, model=model, sampler="QMCSampler", batch=batch, tries=tries, refine=refine)


class CMAESSearch(OptunaSearch):
    """CMA-ES: a normal distribution in each sketch that moves and stretches towards the better points.

    Its variant for integers, with margin: R. Hamano et al., "CMA-ES with Margin", GECCO 2022. The
    sketch is chosen by TPE. The options are those of `OptunaSearch`. Needs the package cmaes.
    """

    name = "cmaes"

    def __init__(
        self,
        space: SpaceLike,
        *,
        seed: int = 0,
        model: CostModel | None = None,
        batch: int = 64,
        tries: int = 8,
        refine: float = 0.5,
    ) -> None:
        super().__init__(space, seed=seed, model=model, sampler="CmaEsSampler", batch=batch, tries=tries, refine=refine)


class _Study:
    """An Optuna study in memory, all of whose trials have the same integer parameters.

    `value` is what to minimise, None for a failure.
    """

    def __init__(self, optuna: ModuleType, sampler: str, seed: int, parameters: dict[str, Any]) -> None:
        self._optuna, self._parameters = optuna, parameters
        self._study = optuna.create_study(sampler=_sampler(optuna, sampler, seed, parameters))

    def ask(self) -> tuple[int, tuple[int, ...]]:
        """The number of a new trial and its parameters."""
        trial = self._study.ask(self._parameters)
        return trial.number, tuple(int(trial.params[name]) for name in self._parameters)

    def tell(self, trial: int, value: float | None) -> None:
        """End a trial that was asked for."""
        self._study.tell(trial, value, state=self._state(value))

    def add(self, point: tuple[int, ...], value: float | None) -> None:
        """Add a trial that was not asked for."""
        params = dict(zip(self._parameters, point, strict=True))
        create = self._optuna.trial.create_trial
        self._study.add_trial(
            create(state=self._state(value), value=value, params=params, distributions=self._parameters)
        )

    def _state(self, value: float | None) -> Any:
        states = self._optuna.trial.TrialState
        return states.FAIL if value is None else states.COMPLETE


def _sampler(optuna: ModuleType, sampler: str, seed: int, parameters: dict[str, Any]) -> Any:
    """A new sampler for a study of these parameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that QMC is experimental, as are TPE's settings before Optuna 5
        made = getattr(optuna.samplers, sampler)(seed=seed, **SETTINGS.get(sampler, {}))
    integers = {n: p for n, p in parameters.items() if isinstance(p, optuna.distributions.IntDistribution)}
    if sampler == "QMCSampler" and integers:
        # It would take them from the first trial that is done, and draw at random until then.
        made.infer_relative_search_space = lambda study, trial: integers
    return made


def sampler_names() -> dict[str, str]:
    """Samplers that `OptunaSearch` takes -> packages that each lacks here, "" if none.

    These are the classes of `optuna.samplers` that need no argument but a seed. Raises UsageError
    without Optuna.
    """
    return _sampler_names(_import_optuna("tpe"))


def _sampler_names(optuna: ModuleType) -> dict[str, str]:
    found = {}
    for name in sorted(optuna.samplers.__all__):
        made_by = getattr(optuna.samplers, name)
        if name in UNFIT or not inspect.isclass(made_by) or inspect.isabstract(made_by):
            continue
        parameters = inspect.signature(made_by).parameters
        if "seed" in parameters and all(p.default is not p.empty for p in parameters.values()):
            found[name] = " and ".join(p for p in NEEDS.get(name, ()) if importlib.util.find_spec(p) is None)
    return found


def _check_sampler(optuna: ModuleType, sampler: str, strategy: str) -> None:
    names = _sampler_names(optuna)
    listing = ", ".join(f"{name} (needs {lacks})" if lacks else name for name, lacks in names.items())
    if sampler not in names:
        raise UsageError(
            "no such sampler, or one that needs more than a seed",
            asked=f"strategy {strategy!r}, sampler {sampler!r}",
            legal=f"there are: {listing}",
        )
    if names[sampler]:
        raise UsageError(
            f"{sampler} needs {names[sampler]}, which cannot be imported",
            asked=f"strategy {strategy!r}",
            legal=f"install it, or take another sampler; there are: {listing}",
        )


def _import_optuna(strategy: str) -> ModuleType:
    try:
        import optuna
    except ImportError as error:
        raise UsageError(
            f"it needs Optuna, which cannot be imported: {error}",
            asked=f"strategy {strategy!r}",
            legal="install it (pip install optuna), or take the strategy 'guided' or 'random'",
        ) from error
    return optuna


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Optuna's log off the user's screen, within our calls only.

    How the user's own studies are logged is theirs to say.
    """
    logger = logging.getLogger("optuna")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)
