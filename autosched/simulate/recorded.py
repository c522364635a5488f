"""A search space that was measured point by point, and replays.

It offers what a real space offers to a strategy (`SpaceLike`), and `measure` in place of a device:
a trial draws from the samples that were taken of its point, noise and all. Points that were not
measured are infeasible.

The file is JSON, compressed by gzip; `recording.py` writes it, and docs/simulation.md describes it.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.errors import Fields, Form, RecordError, UsageError, did_you_mean, is_finite, is_integer, parse_json
from autosched.model.protocol import FloatArray, IntArray
from autosched.records import find_folders
from autosched.search.points import flattened
from autosched.search.protocol import Candidate, Trial

#: Version of the file's format.
FORMAT = 1
SUFFIX = ".json.gz"
#: Folder of recorded spaces within a folder of records.
FOLDER = "simulated"
#: Bytes of a file's JSON: a space of some ten thousand points.
MAX_BYTES = 1 << 26
#: Combinations of the knob values of one sketch, measured or not.
MAX_SIZE = 1 << 24
#: Samples that one trial draws, as many as `tune` takes by default.
REPEAT = 3


@dataclass(frozen=True, slots=True)
class RecordedKnob:
    """A knob and the values that were measured."""

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class RecordedSketch:
    """The measured points of one sketch.

    points:   int64 [p, k], an index into the values of each knob
    status:   how each point ended, "ok" or what failed
    samples:  the seconds that were measured of each; empty for a failure
    table:    float64 [p, F], the features of each point
    trace:    the schedule with its knobs open, as `Trace.to_json` gives it
    """

    name: str
    knobs: tuple[RecordedKnob, ...]
    points: IntArray
    status: tuple[str, ...]
    samples: tuple[tuple[float, ...], ...]
    table: FloatArray
    trace: list[Any]

    @property
    def size(self) -> int:
        """Number of combinations of knob values, measured or not."""
        return math.prod(len(knob.values) for knob in self.knobs)

    @cached_property
    def _position(self) -> IntArray:
        """Flat number of a combination -> position in `points`, -1 where it was not measured."""
        position = np.full(self.size, -1, dtype=np.int64)
        position[flattened(self.points, self._radices)] = np.arange(len(self.points))
        return position

    @cached_property
    def _radices(self) -> IntArray:
        return np.array([len(knob.values) for knob in self.knobs], dtype=np.int64)

    def positions(self, indices: IntArray) -> IntArray:
        """int64 [n]: where the points [n, k] stand in `points`, -1 for what was not measured or is no point."""
        rows = np.asarray(indices, dtype=np.int64).reshape(len(indices), len(self.knobs))
        inside = np.all((rows >= 0) & (rows < self._radices), axis=1)
        flat = flattened(np.where(inside[:, None], rows, 0), self._radices)
        return np.where(inside, self._position[flat], -1)

    def mask(self, indices: IntArray) -> NDArray[np.bool_]:
        """bool [n]: which points were measured."""
        return np.asarray(self.positions(indices) >= 0, dtype=np.bool_)

    def features(self, indices: IntArray) -> FloatArray:
        """float64 [n, F] of measured points. Raises IndexError for any other."""
        at = self.positions(indices)
        if (at < 0).any():
            raise IndexError(f"{self.name}: {np.asarray(indices)[at < 0][0].tolist()} was not measured")
        return self.table[at]

    @cached_property
    def seconds(self) -> FloatArray:
        """float64 [p]: the median of all samples of each point, `inf` for a failure."""
        return np.array([np.median(s) if s else np.inf for s in self.samples], dtype=np.float64)


@dataclass(frozen=True)
class RecordedSpace:
    """A workload's measured points on one target and device.

    facts: what was recorded and how: `workload`, `target`, `device`, `versions`, `note`, `whole`
    (whether these are all feasible points of the knob values that are in it), `features` (their version)

    >>> space = find_space("softmax")
    >>> trial = space.measure([space.best], seed=1)[0]
    >>> trial.ok and abs(trial.seconds / space.best_seconds - 1) < 0.5
    True
    """

    name: str
    sketches: tuple[RecordedSketch, ...]
    feature_names: tuple[str, ...]
    facts: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"RecordedSpace({self.name}: {self.size} points in {len(self.sketches)} sketches)"

    @property
    def size(self) -> int:
        """Number of measured points, failures included."""
        return sum(len(sketch.points) for sketch in self.sketches)

    @cached_property
    def best(self) -> Candidate:
        """The point whose samples have the lowest median."""
        number = min(range(len(self.sketches)), key=lambda i: float(self.sketches[i].seconds.min(initial=np.inf)))
        sketch = self.sketches[number]
        return Candidate(number, tuple(sketch.points[int(sketch.seconds.argmin())].tolist()))

    @property
    def best_seconds(self) -> float:
        """Its median."""
        return self.seconds(self.best)

    @cached_property
    def worst_seconds(self) -> float:
        """The highest median of a point that runs."""
        return max(float(t) for sketch in self.sketches for t in sketch.seconds if t < math.inf)

    def seconds(self, candidate: Candidate) -> float:
        """The median of all samples of a point; `inf` where it failed. Raises IndexError for no point."""
        at = self._at(candidate)
        if at < 0:
            raise IndexError(f"{candidate} was not measured")
        return float(self.sketches[candidate.sketch].seconds[at])

    def measure(self, candidates: Sequence[Candidate], seed: int = 0) -> list[Trial]:
        """A trial of each, in order: three of the samples of its point, drawn by `seed`.

        The same seed gives a point the same samples, whatever is measured beside it. Raises
        IndexError for what is no point; a point that was not measured fails by its "constraints".
        """
        trials = []
        for candidate in candidates:
            sketch, at = self.sketches[candidate.sketch], self._at(candidate)
            if at < 0:
                trials.append(Trial(candidate, "constraints"))
            elif sketch.status[at] != "ok":
                trials.append(Trial(candidate, sketch.status[at]))
            else:
                rng = np.random.default_rng((seed, candidate.sketch, at))
                drawn = tuple(rng.choice(sketch.samples[at], REPEAT).tolist())
                trials.append(Trial(candidate, "ok", sorted(drawn)[REPEAT // 2], drawn))
        return trials

    def points(self) -> list[Candidate]:
        """All measured points, sketch by sketch."""
        return [
            Candidate(number, row)
            for number, sketch in enumerate(self.sketches)
            for row in map(tuple, sketch.points.tolist())
        ]

    def _at(self, candidate: Candidate) -> int:
        return int(self.sketches[candidate.sketch].positions(np.array([candidate.indices], dtype=np.int64))[0])


# -- files ------------------------------------------------------------------------------------------
def list_spaces(records: str | os.PathLike[str] | None = None) -> dict[str, Path]:
    """Name of each recorded space that can be found -> its file: those in the folder `simulated` of every
    folder of records (`autosched.records.find_folders`), the first of a name."""
    found: dict[str, Path] = {}
    for folder in find_folders(records):
        for path in sorted((folder / FOLDER).glob(f"*{SUFFIX}")):
            found.setdefault(path.name.removesuffix(SUFFIX), path)
    return found


def find_space(name: str, records: str | os.PathLike[str] | None = None) -> RecordedSpace:
    """The recorded space of this name, or in the file `path/to/NAME.json.gz`.

    Raises UsageError with near names when there is none, RecordError for a file that cannot be used.
    """
    if name.endswith(SUFFIX):
        return load(name)
    known = list_spaces(records)
    if name not in known:
        hint = did_you_mean(name, known, 2)
        legal = f"{hint}recorded spaces: {', '.join(known) or 'none'}; or a file NAME{SUFFIX}"
        raise UsageError("no such recorded space", asked=f"space {name!r}", legal=legal)
    return load(known[name])


def load(path: str | os.PathLike[str]) -> RecordedSpace:
    """The recorded space in a file. Raises RecordError when it cannot be read or is damaged."""
    asked, legal = f"recorded space {path}", "a file NAME.json.gz that experiments/record_space.py wrote"
    try:
        with gzip.open(path) as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise RecordError(f"it cannot be read: {error.strerror or error}", asked=asked, legal=legal) from None
    except (EOFError, zlib.error) as error:
        raise RecordError(f"it is damaged: {error}", asked=asked, legal=legal) from None
    if len(text) > MAX_BYTES:
        raise RecordError(f"it holds more than {MAX_BYTES} bytes", asked=asked, legal=legal)
    try:
        return decode(parse_json(text))
    except ValueError as error:
        raise RecordError(f"it is damaged: {error}", asked=asked, legal=legal) from None
    except RecordError as error:
        raise RecordError(error.why, asked=asked, legal=error.legal) from None


def decode(data: Any) -> RecordedSpace:
    """The space that the file's JSON says. Raises RecordError for another format, ValueError for damage."""
    Fields({"format": Form.integer()}).check(data)
    if data["format"] != FORMAT:
        legal = f"this version reads format {FORMAT}"
        raise RecordError(f"its format is {data['format']!r}", asked="recorded space", legal=legal)
    _SPACE.check(data)
    names = tuple(data["features"]["names"])
    sketches = tuple(_sketch(part, len(names)) for part in data["sketches"])
    facts = {key: value for key, value in data.items() if key not in ("sketches", "name")}
    facts["features"] = data["features"]["version"]
    space = RecordedSpace(data["name"], sketches, names, facts)
    if not any(np.isfinite(sketch.seconds).any() for sketch in sketches):
        raise ValueError("none of its points was timed")
    return space


def _is_knob(data: Any) -> bool:
    match data:
        case [str(), list(values)]:
            return all(map(is_integer, values))
    return False


_NUMBERS = Form.array(Form.number(), "an array of numbers")
_SPACE = Fields(
    {
        "name": Form.text(),
        "features": Fields({"version": Form.text(), "names": Form.array(Form.text(), "an array of names")}),
        "sketches": Form.array(Form.object(), "an array of sketches"),
    }
)
_SKETCH = Fields(
    {
        "name": Form.text(),
        "knobs": Form.array(Form("a knob", _is_knob), "an array of knobs, each a name and its values"),
        "points": Form.array(Form.array(Form.integer()), "an array of points, each an array of integers"),
        "samples": Form.array(Form.array(Form.number(above=0)), "arrays of times that are positive and finite"),
        "failures": Form.object(Form.text(), "an object of strings"),
        "features": Form.array(
            Form("a column", lambda data: is_finite(data) or _NUMBERS.fits(data)), "columns of numbers"
        ),
        "trace": Form.array(),
    }
)


def _sketch(data: Any, width: int) -> RecordedSketch:
    _SKETCH.check(data, "a sketch")
    knobs = tuple(RecordedKnob(name, tuple(values)) for name, values in data["knobs"])
    count = len(data["points"])
    points = np.array(data["points"], dtype=np.int64).reshape(count, len(knobs))
    samples = tuple(tuple(map(float, one)) for one in data["samples"])
    status = tuple(data["failures"].get(str(i), "ok") for i in range(count))
    radices = np.array([len(knob.values) for knob in knobs], dtype=np.int64)
    if math.prod(radices.tolist()) > MAX_SIZE:
        raise ValueError(f"more than {MAX_SIZE} combinations of knob values")
    if ((points < 0) | (points >= radices)).any() or len({tuple(row) for row in points.tolist()}) != count:
        raise ValueError("points that are none, or twice the same")
    if len(samples) != count or any((s == "ok") != bool(t) for s, t in zip(status, samples, strict=True)):
        raise ValueError("what is ok has samples, and what failed has none")
    columns = [np.broadcast_to(np.asarray(column, dtype=np.float64), count) for column in data["features"]]
    table = np.stack(columns, axis=1) if columns else np.empty((count, 0))
    if table.shape[1] != width:
        raise ValueError("features are one column for each name")
    return RecordedSketch(data["name"], knobs, points, status, samples, table, data["trace"])
