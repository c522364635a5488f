"""Looking for the point that a model likes best, with nothing measured."""

from __future__ import annotations

import numpy as np

from autosched.search import Candidate
from autosched.search.predicted import look_ahead
from autosched.testing import SyntheticSpace


def cost_of(space):
    """The true time of points, from the features that name them: a model that knows everything."""
    times = {}
    for number, sketch in enumerate(space.sketches):
        every = list(np.ndindex(*(len(k.values) for k in sketch.knobs)))
        rows = np.array(every, dtype=np.int64).reshape(len(every), len(sketch.knobs))
        rows = rows[sketch.mask(rows)]
        measured = space.measure([Candidate(number, tuple(r)) for r in rows.tolist()])
        for row, trial in zip(sketch.features(rows), measured, strict=True):
            times[row.tobytes()] = trial.seconds
    return lambda features: np.array([times[row.tobytes()] for row in np.ascontiguousarray(features)])


def test_finds_the_best_of_all_sketches():
    space = SyntheticSpace.small()
    outlook = look_ahead(space, cost_of(space), seed=1)
    assert outlook.choices[0].candidate.sketch == space.best.sketch
    assert outlook.choices[0].seconds <= 1.02 * space.best_seconds
    assert [c.seconds for c in outlook.choices] == sorted(c.seconds for c in outlook.choices)
    assert outlook.points >= len(outlook.choices)
    assert outlook == look_ahead(space, cost_of(space), seed=1)


class Named:
    """A sketch of which only the name matters, and whether anybody looked."""

    knobs = ()
    size = 1

    def __init__(self, name, feasible=True):
        self.name, self.feasible, self.looked = name, feasible, False

    def mask(self, rows):
        self.looked = True
        return np.full(len(rows), self.feasible)

    def features(self, rows):
        if self.feasible is None:
            raise ArithmeticError("no features")
        return np.array([[float(self.name.count("slow"))]] * len(rows))


class Space:
    feature_names = ("slowness",)

    def __init__(self, *names, **options):
        self.sketches = [Named(n, **options) for n in names]


def test_sketches_like_the_best_are_looked_at_first():
    names = [f"auto[a={a}, b={b}, c={c}]" for a in ("slow", "fast") for b in ("slow", "fast") for c in ("slow", "fast")]
    space = Space(*names)
    outlook = look_ahead(space, lambda features: 1.0 + features[:, 0], sketches=5)
    looked = [s.name for s in space.sketches if s.looked]
    assert len(looked) == 5
    assert space.sketches[outlook.choices[0].candidate.sketch].name == "auto[a=fast, b=fast, c=fast]"


def test_sketches_without_points_or_features_are_passed_over():
    space = Space("auto[a=1]", feasible=False)
    assert look_ahead(space, lambda features: features[:, 0]).choices == ()
    space.sketches += [Named("auto[a=2]", feasible=None), Named("auto[a=3]")]
    (choice,) = look_ahead(space, lambda features: 1.0 + features[:, 0]).choices
    assert choice.candidate.sketch == 2


def test_no_sketch_is_begun_when_time_is_up():
    space = Space(*(f"auto[a={n}]" for n in range(9)))
    assert len(look_ahead(space, lambda features: 1.0 + features[:, 0], patience_s=0).choices) == 1


def test_a_choice_that_comes_with_another_is_no_difference():
    """The fast tile has no choice of packing, so that it shares fewer choices with the first sketch than others do."""
    slow = [f"auto[tile=rows, inside={i}, pack={p}, at={a}] slow" for i in "ab" for p in "cd" for a in "efg"]
    space = Space(*slow, "auto[tile=columns, inside=a, at=e]")
    look_ahead(space, lambda rows: rows[:, 0] + 1.0, sketches=4)
    assert space.sketches[-1].looked
