"""The contract of search strategies, as a test suite for anyone's strategy.

With pytest, inherit:

    class TestMine(StrategyContract):
        def make(self, space, *, seed=0):
            return MyStrategy(space, seed=seed)

Without it, `check_strategy(MyStrategy)` returns what failed and why.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, cast

from autosched.search.protocol import Candidate, SearchStrategy, StrategyFactory, Trial
from autosched.testing.contract import check, failures
from autosched.testing.synthetic import SyntheticSpace

#: Far more calls than any of the spaces below has points.
MANY = 1000


class StrategyContract:
    """Inherit, and say in `make` how to construct the strategy."""

    def make(self, space: Any, *, seed: int = 0) -> SearchStrategy:
        """A fresh strategy for this space."""
        raise NotImplementedError(f"{type(self).__name__}.make must construct the strategy")

    def test_proposals_are_feasible_points(self) -> None:
        """Only candidates that are in the space and pass its mask, made of plain Python integers."""
        for space in (SyntheticSpace.small(), SyntheticSpace.standard()):
            for candidate in _drive(self.make(space), space, rounds=6, n=16):
                check(isinstance(candidate, Candidate), f"proposed {candidate!r}, which is not a Candidate")
                plain = type(candidate.indices) is tuple and all(type(i) is int for i in candidate.indices)
                check(plain and type(candidate.sketch) is int, f"{candidate!r} is not made of Python ints")
                check(space.is_feasible(candidate), f"proposed {candidate!r}, which is infeasible")

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
        check(proposed, "proposed nothing")

    def test_exhausts_a_small_space(self) -> None:
        """Every feasible point once, then nothing, and nothing ever after."""
        space = SyntheticSpace.small()
        for n in (7, 512):
            strategy = self.make(space)
            proposed = _drive(strategy, space, rounds=MANY, n=n)
            _check_distinct(proposed)
            missing = set(space.points()) - set(proposed)
            check(not missing, f"gave up with {len(missing)} points left, one of them {min(missing, default=None)}")
            check(len(strategy.propose(n)) == 0, "proposed again after it had returned nothing")

    def test_exhausts_without_results(self) -> None:
        """The same when nothing is ever observed."""
        space = SyntheticSpace.small()
        strategy = self.make(space)
        proposed = [candidate for _ in range(MANY) for candidate in strategy.propose(5)]
        check(set(proposed) == set(space.points()), f"proposed {len(proposed)} of {len(space.points())} points")
        _check_distinct(proposed)

    def test_a_space_of_one_point(self) -> None:
        """A sketch without knobs has one point."""
        space = SyntheticSpace.single()
        strategy = self.make(space)
        batch = list(strategy.propose(4))
        check(batch == [Candidate(0, ())], f"proposed {batch} in a space of one point")
        strategy.observe(space.measure(batch))
        check(len(strategy.propose(4)) == 0, "proposed more than the one point")

    def test_a_space_with_no_feasible_point(self) -> None:
        """Nothing to propose is not an error."""
        batch = self.make(SyntheticSpace.empty()).propose(4)
        check(len(batch) == 0, f"proposed {batch} in a space with no feasible point")
        batch = self.make(SyntheticSpace([])).propose(4)
        check(len(batch) == 0, f"proposed {batch} in a space with no sketch")

    def test_a_huge_space(self) -> None:
        """10**24 points: nothing may be enumerated."""
        space = SyntheticSpace.huge()
        proposed = _drive(self.make(space), space, rounds=2, n=8)
        check(proposed and all(map(space.is_feasible, proposed)), "no feasible point found in a huge space")

    def test_same_seed_same_proposals(self) -> None:
        """The seed and the trials decide everything; global generators of random numbers do not."""
        space = SyntheticSpace.standard()
        first = _drive(self.make(space, seed=5), space, rounds=5, n=8)
        second = _drive(self.make(space, seed=5), space, rounds=5, n=8)
        check(first == second, f"the same seed proposed {_difference(first, second)}")

    def test_order_of_arrival_does_not_matter(self) -> None:
        """Parallel measurements finish in any order, in any portions."""
        space = SyntheticSpace.standard()
        one, other = self.make(space, seed=3), self.make(space, seed=3)
        shuffle = random.Random(0).sample
        for _ in range(5):
            first, second = list(one.propose(12)), list(other.propose(12))
            check(first == second, f"after trials arrived in another order: {_difference(first, second)}")
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
                check(batch, f"gave up after trials that ended with {status!r}")
                strategy.observe([Trial(candidate, status) for candidate in batch])

    def test_batches_of_one_and_of_many(self) -> None:
        """`propose(1)` gives one, `propose(512)` at most 512."""
        space = SyntheticSpace.standard()
        ones = self.make(space)
        for _ in range(40):
            batch = ones.propose(1)
            check(len(batch) == 1, f"propose(1) gave {len(batch)} candidates in a large space")
            ones.observe(space.measure(batch))
        many = self.make(space)
        for _ in range(2):
            batch = many.propose(512)
            check(1 <= len(batch) <= 512, f"propose(512) gave {len(batch)} candidates")
            many.observe(space.measure(batch))

    def test_warm_start(self) -> None:
        """What was observed before the first proposal is not proposed."""
        space = SyntheticSpace.small()
        old = space.points()[::2]
        strategy = self.make(space)
        strategy.observe(space.measure(old))
        proposed = _drive(strategy, space, rounds=MANY, n=8)
        again = set(proposed) & set(old)
        check(not again, f"proposed {len(again)} candidates that old records had, one is {min(again, default=None)}")
        check(set(proposed) | set(old) == set(space.points()), "did not propose all the others")

    def test_nothing_left_after_warm_start(self) -> None:
        """Old records may hold everything."""
        space = SyntheticSpace.small()
        strategy = self.make(space)
        strategy.observe(space.measure(space.points()))
        check(len(strategy.propose(8)) == 0, "proposed something although everything was observed")

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
            check(not again, f"proposed {min(again, default=None)}, which it had been told of")
            check(batch, "gave up after unasked trials")
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
        check(set(batch) | set(rest) == set(space.points()), "odd trials kept it from exhausting the space")


def check_strategy(make: StrategyFactory) -> dict[str, str]:
    """Run the whole contract on a strategy class: name of each failed test -> why. Empty = passed."""

    class Suite(StrategyContract):
        def make(self, space: Any, *, seed: int = 0) -> SearchStrategy:
            return make(space, seed=seed)

    return failures(Suite())


def _drive(strategy: SearchStrategy, space: SyntheticSpace, *, rounds: int, n: int) -> list[Candidate]:
    """Propose and observe until nothing comes or the rounds are over; all proposals in order."""
    proposed: list[Candidate] = []
    for _ in range(rounds):
        batch = strategy.propose(n)
        check(len(batch) <= n, f"propose({n}) gave {len(batch)} candidates")
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
    return cast("list[Candidate]", list(points))


def _check_distinct(proposed: Iterable[Candidate]) -> None:
    seen: set[Candidate] = set()
    for candidate in proposed:
        check(candidate not in seen, f"proposed {candidate} twice")
        seen.add(candidate)


def _difference(first: Sequence[Candidate], second: Sequence[Candidate]) -> str:
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return f"{one} the first time and {other} the second (proposal {place})"
    return f"{len(first)} candidates the first time and {len(second)} the second"
