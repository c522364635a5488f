"""Leave out of recorded spaces the points that were measured at a bad moment.

    python experiments/undisturbed.py records/simulated/matmul-512.json.gz ...

The spaces that come with the package were measured on two cores that did other things, too. In all calls of some points
a thread waited for its core, so that no sample is the schedule's own: their times lie 4 to 20 ms above the best,
whatever the schedule, and nobody could learn them. Such a point took `FAR` times the best of its space, and `WAITED_S`
seconds more; where the best takes a slice of the scheduler's itself, that cannot be told. Points that are slow by
themselves may be among them: what is left is a little easier to search. Strategies take points that were left out for
infeasible.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from autosched.simulate.recorded import RecordedSpace, load
from autosched.simulate.recording import write

FAR, WAITED_S, SLICE_S = 6.0, 2e-3, 4e-3


def undisturbed(space: RecordedSpace) -> RecordedSpace:
    """The space without points that were measured at a bad moment."""
    best = space.best_seconds
    if best >= SLICE_S:
        return space
    limit = max(FAR * best, best + WAITED_S)
    sketches = []
    for sketch in space.sketches:
        kept = np.flatnonzero(~((sketch.seconds > limit) & np.isfinite(sketch.seconds)))
        if len(kept):
            status, samples = tuple(sketch.status[i] for i in kept), tuple(sketch.samples[i] for i in kept)
            points, table = sketch.points[kept], sketch.table[kept]
            sketches.append(replace(sketch, points=points, status=status, samples=samples, table=table))
    return replace(space, sketches=tuple(sketches))


def main() -> None:
    if not sys.argv[1:]:
        sys.exit(__doc__)
    for path in sys.argv[1:]:
        before = load(path)
        after = undisturbed(before)
        write(after, path)
        print(f"{path}: {before.size} points, {after.size} left")


if __name__ == "__main__":
    main()
