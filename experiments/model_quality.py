"""How well cost models rank candidates they have not seen, and what their features are worth.

    python experiments/model_quality.py [--seeds N]

The trials are those of the recorded spaces (`records/simulated/`), measured point by point; no device is
needed. Of each of six workloads, 250 points are drawn at random; a model learns 32 or 100 of them and
judges the others, for several draws. Reported are

* Spearman's rank correlation between the scores and the measured speed, and
* recall: how many of the 10 fastest points are among the first 20 that the model would try,

for the features of `docs/features.md` and for knobs alone: the sketch, and the logarithm of each knob. Both
are given to XGBoost, with a regression loss and with a ranking loss. Then transfer: what is known of
matmul 1024 from records of 512 and 2048, and of each workload from the five others, before
any trial of its own and after 16. Knobs of other workloads say nothing, so there features stand alone.

What noise leaves to be learnt is shown beside it: the correlation between two halves of the samples of
each point, and how many points were measured at a bad moment. All samples of such a point have the same
milliseconds on top, a time slice of the system's for each call whose threads waited for one another, so
that the halves agree, and no feature can tell. A workload that has any is judged without them, too.

Results go to `experiments/results/model_quality.json`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import machine, save

from autosched.model import make_model
from autosched.report.text import table
from autosched.runtime.device import with_machine
from autosched.simulate.recorded import find_space
from autosched.space.features import FEATURE_NAMES, FEATURE_VERSION
from autosched.space.loading import find_workload
from autosched.space.space import template_space
from autosched.target import Target
from autosched.testing import rank_correlation

SPACES = ("box_blur", "conv2d_nchw", "depthwise_conv2d", "layer_norm", "matmul-1024", "softmax")
SHAPES = ("matmul-512", "matmul-2048")
#: of a space, and of another one that a model is primed with: as one would have of a tuning run
SAMPLED, OTHERS = 250, 200
TRAINED = (32, 100)
#: the fastest that should be found, and the first of the model among which they should be
FASTEST, FIRST = 10, 20
OWN = (0, 16)
#: a point was measured at a bad moment that is so many times slower than a good quarter of them, and by so much
DISTURBED, TIME_SLICE_S = 3.0, 4e-3


@dataclass(frozen=True)
class Points:
    """Measured points of a space: float64 features [n, F], knobs [n, K] and median seconds [n].

    `agreement` is the rank correlation of the points' times with themselves, by two halves of the samples.
    """

    features: np.ndarray
    knobs: np.ndarray
    seconds: np.ndarray
    agreement: float

    @property
    def disturbed(self) -> np.ndarray:
        """Which points were measured at a bad moment: far from the others, and by a time slice or more.

        Where a call takes longer than a time slice in any case, that cannot be told.
        """
        worked = np.isfinite(self.seconds)
        usual = np.percentile(self.seconds[worked], 25)  # half of a space may be disturbed
        far = (self.seconds > DISTURBED * usual) & (self.seconds > usual + TIME_SLICE_S)
        return worked & far & (usual < TIME_SLICE_S)

    def only(self, rows: np.ndarray) -> Points:
        """Some of the points."""
        return Points(self.features[rows], self.knobs[rows], self.seconds[rows], self.agreement)

    def __len__(self) -> int:
        return len(self.seconds)


Scorer = Callable[[Points, np.ndarray, int], np.ndarray]


def read(name: str) -> Points:
    """The points of a recorded space, with the features of today and of this machine."""
    space = find_space(name)
    facts = space.facts["workload"]
    workload = find_workload(facts["name"])(**facts["params"])
    ours = template_space(workload, with_machine(Target.parse(space.facts["target"])), facts["sizes"])
    names = sorted({knob.name for sketch in space.sketches for knob in sketch.knobs})
    features, knobs, seconds, halves = [], [], [], []
    for number, sketch in enumerate(space.sketches):
        at = ours.find(sketch.trace)
        if at is None:
            raise SystemExit(f"{name}: the template of sketch {sketch.name} has changed; record the space again")
        live = ours.sketches[at]
        values = [
            {knob.name: knob.values[i] for knob, i in zip(sketch.knobs, row, strict=True)}
            for row in sketch.points.tolist()
        ]
        rows = np.array([live.indices_of(v) for v in values], dtype=np.int64).reshape(len(values), len(live.knobs))
        features.append(live.features(rows))
        kind = np.eye(len(space.sketches))[[number] * len(values)]
        logs = [[math.log2(1 + v[n]) if n in v else -1.0 for n in names] for v in values]
        knobs.append(np.concatenate([kind, np.array(logs).reshape(len(values), len(names))], axis=1))
        seconds.append(sketch.seconds)
        halves += [[float(np.median(s[::2])), float(np.median(s[1::2]))] for s in sketch.samples if len(s) > 1]
    one, other = np.array(halves).T
    points = Points(np.concatenate(features), np.concatenate(knobs), np.concatenate(seconds), 0.0)
    return replace(points, agreement=rank_correlation(one, other))


def learnt(model: str, seen: str) -> Scorer:
    """Scores of all points by a model that saw the features or the knobs of some of them."""

    def scores(points: Points, rows: np.ndarray, seed: int) -> np.ndarray:
        x = getattr(points, seen)
        made = make_model(model, [f"c{i}" for i in range(x.shape[1])], seed=seed)
        assert made is not None
        made.fit(x[rows], points.seconds[rows], np.zeros(len(rows), dtype=np.int64))
        return made.predict(x) if made.ready else np.zeros(len(x))

    return scores


def primed(model: str, others: Sequence[Points]) -> Scorer:
    """The same with a model that was primed with the points of other spaces."""
    features = np.concatenate([p.features for p in others])
    seconds = np.concatenate([p.seconds for p in others])
    groups = np.concatenate([np.full(len(p), i) for i, p in enumerate(others)])

    def scores(points: Points, rows: np.ndarray, seed: int) -> np.ndarray:
        made = make_model(model, FEATURE_NAMES, seed=seed)
        assert made is not None
        made.prime(features, seconds, groups)  # type: ignore[attr-defined]
        made.fit(points.features[rows], points.seconds[rows], np.zeros(len(rows), dtype=np.int64))
        return made.predict(points.features)

    return scores


def judged(points: Points, scores: np.ndarray, unseen: np.ndarray) -> tuple[float, float]:
    """Rank correlation and recall on the points that were not seen."""
    speed = np.where(np.isfinite(points.seconds), 1 / points.seconds, 0.0)[unseen]
    said = scores[unseen]
    fastest = set(np.argsort(-speed, kind="stable")[:FASTEST].tolist())
    first = np.argsort(-said, kind="stable")[:FIRST].tolist()
    return rank_correlation(said, speed), len(fastest.intersection(first)) / FASTEST


def quality(points: Points, scorer: Scorer, trained: int, seeds: int) -> dict[str, float]:
    """Mean rank correlation and recall over some draws of what is learnt from."""
    found = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(points))[:SAMPLED]
        rows = np.sort(order[:trained])
        found.append(judged(points, scorer(points, rows, seed), order[trained:]))
    correlation, recall = np.mean(found, axis=0)
    return {"correlation": round(float(correlation), 3), "recall": round(float(recall), 3)}


def some(points: Points, n: int) -> Points:
    """At most `n` points, drawn at random."""
    return points.only(np.sort(np.random.default_rng(0).permutation(len(points))[:n]))


def held_out(spaces: dict[str, Points], seeds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Within each workload: by what is seen, and by how much of it."""
    scorers = {
        "features": learnt("xgb", "features"),
        "features, ranking": learnt("xgb-rank", "features"),
        "knobs": learnt("xgb", "knobs"),
    }
    return {
        name: {
            f"{trained}, {what}": quality(points, scorer, trained, seeds)
            for trained in TRAINED
            if trained + FIRST < len(points)
            for what, scorer in scorers.items()
        }
        for name, points in spaces.items()
    }


def transferred(spaces: dict[str, Points], shapes: list[Points], seeds: int) -> dict[str, dict[str, dict[str, float]]]:
    """From other shapes and other operators, before and after a few trials of one's own."""
    cases = {"matmul-1024 from 512 and 2048": ("matmul-1024", [some(p, OTHERS) for p in shapes])}
    for name in spaces:
        cases[f"{name} from the others"] = (name, [some(p, OTHERS) for n, p in spaces.items() if n != name])
    found: dict[str, dict[str, dict[str, float]]] = {}
    for case, (name, others) in cases.items():
        row = {f"{own} own": quality(spaces[name], primed("xgb", others), own, seeds) for own in OWN}
        alone = quality(spaces[name], learnt("xgb", "features"), OWN[-1], seeds)
        found[case] = {**row, f"{OWN[-1]} own alone": alone}
    return found


def show(title: str, found: dict[str, dict[str, dict[str, float]]]) -> None:
    """A table of rank correlation / recall."""
    columns = list(dict.fromkeys(c for row in found.values() for c in row))
    cells = [
        [name, *(f"{row[c]['correlation']:.2f} / {row[c]['recall']:.2f}" if c in row else "-" for c in columns)]
        for name, row in found.items()
    ]
    print(f"\n{title}: rank correlation / recall of the {FASTEST} fastest in the first {FIRST}\n")
    print("\n".join(table(cells, ["", *columns])))


def main() -> None:
    parser = argparse.ArgumentParser(description="Rank correlation and recall of cost models on unseen trials.")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="draws of what is learnt from")
    args = parser.parse_args()
    spaces = {name: read(name) for name in SPACES}
    agreement = {name: round(points.agreement, 2) for name, points in spaces.items()}
    print("Rank correlation of two halves of the samples:", ", ".join(f"{n} {r}" for n, r in agreement.items()))
    disturbed = {name: round(float(points.disturbed.mean()), 2) for name, points in spaces.items()}
    told = [f"{name} {100 * share:.0f} %" for name, share in disturbed.items() if share]
    print("Points measured at a bad moment:", ", ".join(told) or "none")
    undisturbed = {f"{n}, undisturbed": spaces[n].only(~spaces[n].disturbed) for n, r in disturbed.items() if r}
    within = held_out({**spaces, **undisturbed}, args.seeds)
    show("Held-out points", within)
    across = transferred(spaces, [read(name) for name in SHAPES], args.seeds)
    show("Transfer", across)
    path = save(
        "model_quality",
        {
            "features": FEATURE_VERSION,
            "agreement": agreement,
            "disturbed": disturbed,
            "points": {name: len(points) for name, points in spaces.items()},
            "held_out": within,
            "transfer": across,
            "seeds": args.seeds,
            "machine": machine(),
        },
    )
    print(f"\n{path}")


if __name__ == "__main__":
    main()
