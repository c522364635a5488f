"""The contracts of search strategies and of cost models, as test suites for anyone's plug-in.

With pytest, inherit:

    class TestMyStrategy(StrategyContract):
        def make(self, space, *, seed=0):
            return MyStrategy(space, seed=seed)

    class TestMyModel(CostModelContract):
        def make(self, feature_names, *, seed=0):
            return MyModel(feature_names, seed=seed)

Without it, `check_strategy(MyStrategy)` and `check_cost_model(MyModel)` return what failed and why. The suites need no
pytest, and work where assertions are switched off.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from autosched.errors import AutoschedError
from autosched.model.protocol import CostModel, FloatArray, IntArray, ModelFactory, PrimedCostModel
from autosched.search.protocol import Candidate, SearchStrategy, StrategyFactory, Trial
from autosched.testing.synthetic import SyntheticSpace

#: Far more calls than any of the spaces below has points.
MANY = 1000
#: The features of the models' data set.
NAMES = ("tile", "vec", "area", "noise")


def _check(condition: object, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def _failures(suite: object) -> dict[str, str]:
    """Run all `test_...` methods of a suite: name of each that failed -> why."""
    failed = {}
    for name in sorted(dir(suite)):
        if name.startswith("test_"):
            try:
                getattr(suite, name)()
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"
    return failed


# -- strategies -----------------------------------------------------------------------------------
class StrategyContract:
    """Inherit, and say in `make` how to construct the strategy."""

    def make(self, space: Any, *, seed: int = 0) -> SearchStrategy:
        """A fresh strategy for this space."""
        raise NotImplementedError(f"{type(self).__name__}.make must construct the strategy")

    def test_proposals_are_feasible_points(self) -> None:
        """Only candidates that are in the space and pass its mask, made of plain Python integers."""
        for space in (SyntheticSpace.small(), SyntheticSpace.standard()):
            for candidate in _drive(self.make(space), space, rounds=6, n=16):
                _check(isinstance(candidate, Candidate), f"proposed {candidate!r}, which is not a Candidate")
                plain = type(candidate.indices) is tuple and all(type(i) is int for i in candidate.indices)
                _check(plain and type(candidate.sketch) is int, f"{candidate!r} is not made of Python ints")
                _check(space.is_feasible(candidate), f"proposed {candidate!r}, which is infeasible")

    def test_no_candidate_twice(self) -> None:
        """Neither within a batch nor later."""
        for space in (SyntheticSpace.small(), SyntheticSpace.standard()):
            _check_distinct(_drive(self.make(space), space, rounds=8, n=16))

    def test_no_candidate_twice_before_results_arrive(self) -> None:
        """A driver may ask again while earlier candidates are still being measured."""
        space = SyntheticSpace.small()
        strategy = self.make(space)
        proposed = [candidate for _ in range(4) for candidate in strategy.propose(8)]
        _check_distinct(proposed)
        _check(proposed, "proposed nothing")

    def test_exhausts_a_small_space(self) -> None:
        """Every feasible point once, then nothing, and nothing ever after."""
        space = SyntheticSpace.small()
        for n in (7, 512):
            strategy = self.make(space)
            proposed = _drive(strategy, space, rounds=MANY, n=n)
            _check_distinct(proposed)
            missing = set(space.points()) - set(proposed)
            _check(not missing, f"gave up with {len(missing)} points left, one of them {min(missing, default=None)}")
            _check(len(strategy.propose(n)) == 0, "proposed again after it had returned nothing")

    def test_exhausts_without_results(self) -> None:
        """The space is exhausted even when nothing is ever observed."""
        space = SyntheticSpace.small()
        strategy = self.make(space)
        proposed = [candidate for _ in range(MANY) for candidate in strategy.propose(5)]
        _check(set(proposed) == set(space.points()), f"proposed {len(proposed)} of {len(space.points())} points")
        _check_distinct(proposed)

    def test_a_space_of_one_point(self) -> None:
        """A sketch without knobs has one point."""
        space = SyntheticSpace.single()
        strategy = self.make(space)
        batch = list(strategy.propose(4))
        _check(batch == [Candidate(0, ())], f"proposed {batch} in a space of one point")
        strategy.observe(space.measure(batch))
        _check(len(strategy.propose(4)) == 0, "proposed more than the one point")

    def test_a_space_with_no_feasible_point(self) -> None:
        """A space without points is no error."""
        batch = self.make(SyntheticSpace.empty()).propose(4)
        _check(len(batch) == 0, f"proposed {batch} in a space with no feasible point")
        batch = self.make(SyntheticSpace([])).propose(4)
        _check(len(batch) == 0, f"proposed {batch} in a space with no sketch")

    def test_a_huge_space(self) -> None:
        """10**24 points: nothing may be enumerated."""
        space = SyntheticSpace.huge()
        proposed = _drive(self.make(space), space, rounds=2, n=8)
        _check(proposed and all(map(space.is_feasible, proposed)), "no feasible point found in a huge space")

    def test_same_seed_same_proposals(self) -> None:
        """The seed and the trials decide everything; global generators of random numbers do not."""
        space = SyntheticSpace.standard()
        first = _drive(self.make(space, seed=5), space, rounds=5, n=8)
        second = _drive(self.make(space, seed=5), space, rounds=5, n=8)
        _check(first == second, f"the same seed proposed {_difference(first, second)}")

    def test_order_of_arrival_does_not_matter(self) -> None:
        """Parallel measurements finish in any order, in any portions."""
        space = SyntheticSpace.standard()
        one, other = self.make(space, seed=3), self.make(space, seed=3)
        shuffle = random.Random(0).sample
        for _ in range(5):
            first, second = list(one.propose(12)), list(other.propose(12))
            _check(first == second, f"after trials arrived in another order: {_difference(first, second)}")
            trials = space.measure(first)
            one.observe(trials)
            for trial in shuffle(trials, len(trials)):
                other.observe([trial])

    def test_all_trials_failed(self) -> None:
        """Failures never stop a search."""
        space = SyntheticSpace.standard()
        for status in ("compile", "timeout", "lost"):
            strategy = self.make(space)
            for _ in range(8):
                batch = strategy.propose(8)
                _check(batch, f"gave up after trials that ended with {status!r}")
                strategy.observe([Trial(candidate, status) for candidate in batch])

    def test_batches_of_one_and_of_many(self) -> None:
        """`propose(1)` gives one, `propose(512)` at most 512."""
        space = SyntheticSpace.standard()
        ones = self.make(space)
        for _ in range(40):
            batch = ones.propose(1)
            _check(len(batch) == 1, f"propose(1) gave {len(batch)} candidates in a large space")
            ones.observe(space.measure(batch))
        many = self.make(space)
        for _ in range(2):
            batch = many.propose(512)
            _check(1 <= len(batch) <= 512, f"propose(512) gave {len(batch)} candidates")
            many.observe(space.measure(batch))

    def test_warm_start(self) -> None:
        """Candidates that were observed before the first proposal are not proposed."""
        space = SyntheticSpace.small()
        old = space.points()[::2]
        strategy = self.make(space)
        strategy.observe(space.measure(old))
        proposed = _drive(strategy, space, rounds=MANY, n=8)
        again = set(proposed) & set(old)
        _check(not again, f"proposed {len(again)} candidates that old records had, one is {min(again, default=None)}")
        _check(set(proposed) | set(old) == set(space.points()), "did not propose all the others")

    def test_nothing_left_after_warm_start(self) -> None:
        """Old records may hold everything."""
        space = SyntheticSpace.small()
        strategy = self.make(space)
        strategy.observe(space.measure(space.points()))
        _check(len(strategy.propose(8)) == 0, "proposed something although everything was observed")

    def test_unasked_trials(self) -> None:
        """Trials that were not proposed, in the middle of a search: they count as seen."""
        space = SyntheticSpace.standard()
        guest, strategy = random.Random(1), self.make(space)
        pool = _some_points(space, guest, 400)
        for _ in range(6):
            strangers = guest.sample(pool, 40)
            strategy.observe(space.measure(strangers))
            batch = strategy.propose(8)
            again = set(strangers) & set(batch)
            _check(not again, f"proposed {min(again, default=None)}, which it had been told of")
            _check(batch, "gave up after unasked trials")
            strategy.observe(space.measure(batch))

    def test_odd_trials(self) -> None:
        """Empty batches, the same candidate again with another outcome, points that are infeasible now."""
        space = SyntheticSpace.small()
        strategy = self.make(space)
        strategy.observe([])
        batch = list(strategy.propose(6))
        strategy.observe(space.measure(batch))
        strategy.observe([Trial(candidate, "timeout") for candidate in batch])
        strategy.observe([Trial(candidate, "ok", 1e-9, (1e-9,)) for candidate in space.points(feasible=False)])
        rest = _drive(strategy, space, rounds=MANY, n=6)
        _check(set(batch) | set(rest) == set(space.points()), "odd trials kept it from exhausting the space")


def check_strategy(make: StrategyFactory) -> dict[str, str]:
    """Run the whole contract on a strategy class: name of each failed test -> why. Empty = passed."""

    class Suite(StrategyContract):
        def make(self, space: Any, *, seed: int = 0) -> SearchStrategy:
            return make(space, seed=seed)

    return _failures(Suite())


def _drive(strategy: SearchStrategy, space: SyntheticSpace, *, rounds: int, n: int) -> list[Candidate]:
    """Propose and observe until nothing comes or the rounds are over; all proposals in order."""
    proposed: list[Candidate] = []
    for _ in range(rounds):
        batch = strategy.propose(n)
        _check(len(batch) <= n, f"propose({n}) gave {len(batch)} candidates")
        if not len(batch):
            break
        proposed += batch
        strategy.observe(space.measure(batch))
    return proposed


def _some_points(space: SyntheticSpace, source: random.Random, count: int) -> list[Candidate]:
    """Distinct feasible points of all sketches."""
    points: dict[Candidate, None] = {}
    while len(points) < count:
        number = source.randrange(len(space.sketches))
        indices = tuple(source.randrange(len(knob.values)) for knob in space.sketches[number].knobs)
        candidate = Candidate(number, indices)
        if space.is_feasible(candidate):
            points[candidate] = None
    return list(points)


def _check_distinct(proposed: Iterable[Candidate]) -> None:
    seen: set[Candidate] = set()
    for candidate in proposed:
        _check(candidate not in seen, f"proposed {candidate} twice")
        seen.add(candidate)


def _difference(first: Sequence[Candidate], second: Sequence[Candidate]) -> str:
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return f"{one} the first time and {other} the second (proposal {place})"
    return f"{len(first)} candidates the first time and {len(second)} the second"


# -- cost models ----------------------------------------------------------------------------------
class CostModelContract:
    """Inherit, and say in `make` how to construct the model.

    `learns` is False for a model that is not meant to: then only its manners are tested.
    """

    learns = True

    def make(self, feature_names: Sequence[str], *, seed: int = 0) -> CostModel:
        """A model that has learnt nothing."""
        raise NotImplementedError(f"{type(self).__name__}.make must construct the model")

    def fitted(self, rows: int = 120, *, seed: int = 0) -> CostModel:
        """A model that was fitted to the synthetic data set."""
        model = self.make(NAMES, seed=seed)
        model.fit(*_data(rows))
        return model

    def test_feature_names_are_kept(self) -> None:
        """They stay in the order given."""
        _check(tuple(self.make(NAMES).feature_names) == NAMES, f"feature_names are {self.make(NAMES).feature_names}")

    def test_not_ready_before_a_fit(self) -> None:
        """`predict` raises before any fit."""
        if self.learns:
            model = self.make(NAMES)
            _check(not model.ready, "ready before any fit")
            _check_refused("predict before a fit", lambda: model.predict(_data(4)[0]))

    def test_predictions_are_scores(self) -> None:
        """float64 [n], finite; for no rows, none."""
        model = self.fitted()
        _check(model.ready, "not ready after a fit to 120 good trials")
        for rows in (50, 1, 0):
            _check_scores(model.predict(_data(50)[0][:rows]), rows)

    def test_ranks_unseen_candidates(self) -> None:
        """Higher = faster, on rows that it has not seen."""
        if self.learns:
            features, seconds, _ = _data(200, seed=9)
            found = rank_correlation(self.fitted(200).predict(features), -seconds)
            _check(found > 0.7, f"rank correlation with the speed of unseen candidates is {found:.2f}, not above 0.7")

    def test_failures_rank_last(self) -> None:
        """Candidates that failed (seconds inf) are a lesson too."""
        if self.learns:
            features, seconds, groups = _data(200)
            broken = features[:, 0] > 5
            model = self.make(NAMES)
            model.fit(features, np.where(broken, np.inf, seconds), groups)
            fresh = _data(200, seed=9)[0]
            scores, broken = model.predict(fresh), fresh[:, 0] > 5
            _check(
                np.median(scores[broken]) < np.median(scores[~broken]),
                "candidates like those that failed score higher than the others",
            )

    def test_failures_do_not_hide_the_fast(self) -> None:
        """Candidates that work are told apart, even where one in three fails for a reason of its own."""
        if self.learns:
            features, seconds, groups = _data(240)
            model = self.make(NAMES)
            model.fit(features, np.where(features[:, 0] + features[:, 1] > 8, np.inf, seconds), groups)
            fresh, truth, _ = _data(240, seed=9)
            works = fresh[:, 0] + fresh[:, 1] <= 8
            found = rank_correlation(model.predict(fresh[works]), -truth[works])
            _check(found > 0.6, f"with failures, the rank correlation is {found:.2f}, not above 0.6")

    def test_primed_with_other_trials(self) -> None:
        """A model that has `prime` is ready with it, ranks, and says other things when its own trials do."""
        model = self.make(NAMES)
        if not (self.learns and isinstance(model, PrimedCostModel)):
            return
        features, seconds, groups = _data(200)
        model.prime(features, seconds * 1000, groups)
        _check(model.ready, "not ready after it was primed with 200 good trials")
        fresh, truth, _ = _data(200, seed=9)
        found = rank_correlation(model.predict(fresh), -truth)
        _check(found > 0.7, f"primed, the rank correlation is {found:.2f}, not above 0.7")
        model.fit(features[:0], seconds[:0], groups[:0])
        _check(model.ready, "a fit without trials lost what it was primed with")
        model.fit(features, 1 / seconds, groups)
        found = rank_correlation(model.predict(fresh), truth)
        _check(found > 0.5, f"200 trials to the contrary leave a rank correlation of {found:.2f}, not above 0.5")
        _check_refused("prime with a column too few", lambda: model.prime(features[:, :-1], seconds, groups))
        model.prime(features[:0], seconds[:0], groups[:0])
        model.fit(features[:0], seconds[:0], groups[:0])
        _check(not model.ready, "primed with nothing, fitted to nothing, and still ready")

    def test_only_times_of_one_group_are_compared(self) -> None:
        """A workload that takes 1000 times as long is not 1000 times worse."""
        if self.learns:
            features, seconds, groups = _data(200)
            groups = np.arange(200) % 2
            one, other = self.make(NAMES), self.make(NAMES)
            one.fit(features, seconds, groups)
            # A power of two, so that throughputs stay the same to the last bit.
            other.fit(features, np.where(groups == 1, seconds * 1024, seconds), groups)
            probe = _data(50, seed=9)[0]
            _check(np.allclose(one.predict(probe), other.predict(probe)), "the unit of a group changed the scores")

    def test_nothing_to_learn_is_no_error(self) -> None:
        """No trial, one, all failed, all equally fast, all alike: no exception, and sane scores if any."""
        features, seconds, groups = _data(40)
        cases = {
            "no trial": (features[:0], seconds[:0], groups[:0]),
            "one trial": (features[:1], seconds[:1], groups[:1]),
            "one failed trial": (features[:1], np.array([np.inf]), groups[:1]),
            "two trials": (features[:2], seconds[:2], groups[:2]),
            "all failed": (features, np.full(40, np.inf), groups),
            "equal times": (features, np.full(40, 1e-3), groups),
            "equal features": (np.ones_like(features), seconds, groups),
            "one row repeated": (features[[0] * 40], seconds, groups),
            "tiny and huge numbers": (features * 1e30, seconds * 1e-12, groups),
        }
        for case, data in cases.items():
            model = self.make(NAMES)
            try:
                model.fit(*data)
                if model.ready:
                    _check_scores(model.predict(features), 40)
            except Exception as error:
                raise AssertionError(f"{case}: {type(error).__name__}: {error}") from error

    def test_no_features(self) -> None:
        """A space may have none."""
        model = self.make(())
        model.fit(np.empty((8, 0)), np.arange(1.0, 9.0), np.zeros(8, dtype=np.int64))
        if model.ready:
            _check_scores(model.predict(np.empty((3, 0))), 3)

    def test_unusable_data_is_refused(self) -> None:
        """The earlier fit stays."""
        features, seconds, groups = _data(40)
        holed = features.copy()
        holed[3, 1] = np.nan
        endless = features.copy()
        endless[3, 1] = np.inf
        cases = {
            "a feature that is NaN": (holed, seconds, groups),
            "a feature that is infinite": (endless, seconds, groups),
            "a column too few": (features[:, :-1], seconds, groups),
            "a column too many": (np.hstack([features, features[:, :1]]), seconds, groups),
            "a vector for a matrix": (features[:, 0], seconds, groups),
            "times for other rows": (features, seconds[:-1], groups),
            "groups for other rows": (features, seconds, groups[:-1]),
            "a time that is NaN": (features, np.where(np.arange(40) == 2, np.nan, seconds), groups),
            "a negative time": (features, -seconds, groups),
            "a time of zero": (features, seconds * 0, groups),
        }
        for case, data in cases.items():
            model = self.fitted()
            _check_refused(case, lambda model=model, data=data: model.fit(*data))  # type: ignore[misc]
            _check(model.ready, f"{case}: the earlier fit was lost")
            _check_scores(model.predict(features), 40)

    def test_predict_refuses_unusable_features(self) -> None:
        """XGBoost would accept too few columns and say nothing."""
        features = _data(40)[0]
        model = self.fitted()
        _check_refused("predict with a column too few", lambda: model.predict(features[:, :-1]))
        _check_refused("predict with a column too many", lambda: model.predict(np.hstack([features, features])))
        _check_refused("predict with NaN", lambda: model.predict(np.full_like(features, np.nan)))

    def test_same_seed_same_scores(self) -> None:
        """The same scores come after a second fit to the same data, too."""
        features = _data(50, seed=9)[0]
        one, other = self.fitted(seed=4), self.fitted(seed=4)
        _check(np.array_equal(one.predict(features), other.predict(features)), "the same seed gave other scores")
        if self.learns:
            before = one.predict(features)
            one.fit(*_data(120))
            _check(np.array_equal(one.predict(features), before), "a second fit to the same data gave other scores")

    def test_fit_forgets_and_leaves_its_arguments_alone(self) -> None:
        """A fit starts afresh; matrices given are not changed, and not looked at later."""
        if self.learns:
            features, seconds, groups = _data(120)
            model = self.make(NAMES)
            model.fit(*_data(120, seed=5))
            copies = features.copy(), seconds.copy(), groups.copy()
            model.fit(*copies)
            same = all(np.array_equal(a, b) for a, b in zip(copies, (features, seconds, groups), strict=True))
            _check(same, "fit changed its arguments")
            copies[0][:] = 0.0
            probe = _data(50, seed=9)[0]
            _check(np.array_equal(model.predict(probe), self.fitted().predict(probe)), "an earlier fit shows through")


def check_cost_model(make: ModelFactory) -> dict[str, str]:
    """Run the whole contract on a model class: name of each failed test -> why. Empty = passed."""

    class Suite(CostModelContract):
        def make(self, feature_names: Sequence[str], *, seed: int = 0) -> CostModel:
            model: CostModel = make(feature_names, seed=seed)
            return model

    return _failures(Suite())


def rank_correlation(one: FloatArray, other: FloatArray) -> float:
    """Spearman's coefficient in [-1, 1] of two float64 [n]; 0 if either is constant."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(_ranks(one), _ranks(other))[0, 1])


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)


def _data(rows: int, seed: int = 1) -> tuple[FloatArray, FloatArray, IntArray]:
    """A kernel's time by log2 of tile and vector, their sum, and a column that means nothing."""
    rng = np.random.default_rng(seed)
    tile, vec = rng.integers(0, 9, size=rows).astype(float), rng.integers(0, 5, size=rows).astype(float)
    features = np.stack([tile, vec, tile + vec, rng.random(rows)], axis=1)
    seconds = 1e-3 * (1 + 0.2 * (tile - 4) ** 2 + 0.5 * np.abs(vec - 3) + 0.1 * np.maximum(tile + vec - 8, 0))
    return features, seconds, np.zeros(rows, dtype=np.int64)


def _check_scores(scores: Any, rows: int) -> None:
    shape, kind = getattr(scores, "shape", None), getattr(scores, "dtype", None)
    _check(shape == (rows,) and kind == np.float64, f"predict gave shape {shape}, dtype {kind} for {rows} rows")
    _check(np.isfinite(scores).all(), "predict gave scores that are not finite")


def _check_refused(case: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except (AutoschedError, ValueError):
        return
    raise AssertionError(f"{case}: accepted without an error")
