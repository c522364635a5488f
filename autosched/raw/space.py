"""The search space of a raw kernel: one sketch, whose knobs are the tuning parameters."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from autosched.errors import WorkloadError
from autosched.ir.attached import alias
from autosched.ir.evaluate import evaluate
from autosched.ir.expr import Expr, compare, const, variables
from autosched.raw.spec import KernelSpec
from autosched.schedule.schedule import Knob
from autosched.space.points import ValidPoints, valid_points
from autosched.space.tunable import KnobPoints, knob_columns
from autosched.target import Target

#: Points that are looked at in one go, and how many of them before a space without a valid one is given up.
_CHUNK = 8192
_MOST_LOOKED_AT = 2_000_000
#: Configurations that are tried before the kernel is said not to work.
DEFAULTS_TRIED = 4


@dataclass(frozen=True)
class Restriction:
    """A condition on configurations: an expression over knobs, or a function of the user's on a dictionary."""

    text: str
    condition: Expr | None = None
    function: Callable[[dict[str, Any]], Any] | None = None


@dataclass(frozen=True)
class RawSketch(KnobPoints):
    """All configurations of a kernel; see `search.SketchLike`."""

    spec: KernelSpec
    restrictions: tuple[Restriction, ...]
    target: Target

    name = alias("spec.name")

    @cached_property
    def trace(self) -> list[Any]:
        """`["raw", name, language, key]`, the knobs, and the restrictions as people read them."""
        head = ["raw", self.spec.name, self.spec.lang, self.spec.key]
        knobs = [["define_knob", k.name, list(k.values)] for k in self.knobs]
        choices = [["values", name, list(values)] for name, values in self.spec.parameters.choices.items()]
        return [head, *knobs, *choices, *(["constrain", r.text] for r in self.restrictions)]

    @property
    def knobs(self) -> tuple[Knob, ...]:  # type: ignore[override]
        return self.spec.parameters.knobs

    @cached_property
    def conditions(self) -> list[tuple[Expr, str]]:
        """Those restrictions, and the limit on work-groups, that are expressions over knobs."""
        found = [(r.condition, r.text) for r in self.restrictions if r.condition is not None]
        most = self.target.limits.get("max_threads_per_block")
        if self.spec.lang == "OpenCL" and most:
            threads: Expr = const(1)
            for name, default in zip((*self.spec.geometry.block_names, "", "")[:3], (256, 1, 1), strict=True):
                symbol = self.spec.parameters.symbols.get(name)
                threads = threads * (symbol if isinstance(symbol, Expr) else default)
            found.append((compare("le", threads, most), f"a work-group of more than {most} work-items"))
        return found

    @cached_property
    def valid_points(self) -> ValidPoints | None:
        """The feasible points, counted and numbered; None if a function of the user's decides on them."""
        knobs = {k.var: k.values for k in self.knobs}
        conditions = [c for c, _ in self.conditions]
        if any(r.function is not None for r in self.restrictions):
            return None
        if any(v not in knobs for c in conditions for v in variables(c)):  # a choice, which is no number
            return None
        return valid_points(list(knobs.items()), conditions)

    def _verdicts(self, indices: np.ndarray) -> Iterator[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
        """Each restriction as text, and a function from rows to ask about (bool [n]) to those that meet it."""
        n, columns = len(indices), knob_columns(self.knobs, indices)
        results = evaluate([c for c, _ in self.conditions], self.spec.parameters.environment(columns))
        for (_, text), result in zip(self.conditions, results, strict=True):
            yield text, partial(np.logical_and, np.broadcast_to(result.astype(bool), n))
        for r in self.restrictions:
            if r.function is not None:
                yield r.text, partial(self._answers, r, columns)

    def mask(self, indices: np.ndarray) -> np.ndarray:
        """The feasible rows of `indices` (int, [n, knobs]): bool [n]."""
        allowed = np.ones(len(indices), dtype=bool)
        for _, meets in self._verdicts(indices):
            allowed = meets(allowed)
        return allowed

    def _answers(self, r: Restriction, columns: Mapping[str, np.ndarray], asked: np.ndarray) -> np.ndarray:
        """The rows for which a function of the user's says yes, among those to ask about."""
        result = np.zeros(len(asked), dtype=bool)
        at = np.flatnonzero(asked)
        for i, point in zip(at, self.spec.parameters.rows({n: c[at] for n, c in columns.items()}), strict=True):
            try:
                result[i] = bool(r.function(point))  # type: ignore[misc]
            except Exception as error:
                why = f"it raised {type(error).__name__}: {error}"
                raise WorkloadError(why, asked=f"restriction {r.text} at {point!r}") from error
        return result

    def reasons(self, indices: Sequence[int]) -> list[str]:
        """The restrictions that one configuration breaks."""
        row, one = np.asarray([indices], dtype=np.int64), np.ones(1, dtype=bool)
        return [text for text, meets in self._verdicts(row) if not meets(one)[0]]

    # -- features -------------------------------------------------------------------------------------
    @property
    def feature_names(self) -> tuple[str, ...]:
        """Each parameter; and of OpenCL kernels, what the parameters mean for the launch."""
        derived = ("work_group_size", "work_groups", "work_items") if self.spec.lang == "OpenCL" else ()
        return (*(k.name for k in self.knobs), *derived)

    def features(self, indices: np.ndarray) -> np.ndarray:
        """float64 [n, features]: log2(1 + x) of each quantity, its sign kept."""
        n, spec = len(indices), self.spec
        columns = knob_columns(self.knobs, indices)
        table = [columns[k.name].astype(np.float64) for k in self.knobs]
        if spec.lang == "OpenCL":
            block, grid = spec.geometry.block(columns, n), spec.geometry.grid(columns, n)
            items, groups = (np.prod(x.astype(np.float64), axis=1) for x in (block, grid))
            table += [items, groups, items * groups]
        values = np.stack(table, axis=1) if table else np.zeros((n, 0))
        return np.sign(values) * np.log2(1 + np.abs(values))

    # -- the first configuration ------------------------------------------------------------------
    def first(self, n: int) -> list[dict[str, int]]:
        """The first `n` valid configurations in the order of the values, spread a little. Raises WorkloadError,
        naming restrictions that cannot be met, where there is none."""
        found: list[tuple[int, ...]] = []
        looked_at = 0
        for chunk in _chunks([len(k.values) for k in self.knobs]):
            looked_at += len(chunk)
            rows = np.asarray(chunk, dtype=np.int64).reshape(len(chunk), len(self.knobs))
            found += [chunk[i] for i in np.flatnonzero(self.mask(rows))]
            if len(found) >= n or looked_at >= _MOST_LOOKED_AT:
                break
        if not found and self.valid_points is not None and self.valid_points.exact and self.valid_points.count:
            numbers = range(min(n, self.valid_points.count))
            found = [tuple(map(int, row)) for row in self.valid_points.rows(list(numbers))]
        if not found:
            raise self._empty(looked_at)
        steps = sorted({round(i * (len(found) - 1) / max(n - 1, 1)) for i in range(n)})
        return [self.values(found[i]) for i in steps]

    def _empty(self, looked_at: int) -> WorkloadError:
        """The error for a space without a valid configuration; it names a restriction that alone excludes all."""
        sizes = [len(k.values) for k in self.knobs]
        never = []
        for r in self.restrictions:
            alone = RawSketch(self.spec, (r,), self.target.with_limits())
            if not any(
                alone.mask(np.asarray(c, np.int64).reshape(len(c), -1)).any() for c in _chunks(sizes, looked_at)
            ):
                never.append(r.text)
        why = f"no configuration meets {never[0]}" if never else "no configuration meets all restrictions"
        texts = "; ".join(dict.fromkeys([r.text for r in self.restrictions] + [text for _, text in self.conditions]))
        what = "all" if looked_at == self.size else f"the first {looked_at:,} of"
        return WorkloadError(
            f"{why}: {what} {self.size:,} are excluded", asked=f"tune {self.name}", legal=f"restrictions: {texts}"
        )


def _chunks(sizes: Sequence[int], limit: int | None = None) -> Iterator[list[tuple[int, ...]]]:
    points = itertools.islice(itertools.product(*map(range, sizes)), limit)
    while chunk := list(itertools.islice(points, _CHUNK)):
        yield chunk


@dataclass(frozen=True)
class RawSpace:
    """The one sketch."""

    sketch: RawSketch

    @property
    def sketches(self) -> tuple[RawSketch, ...]:
        return (self.sketch,)

    size, feature_names = alias("sketch.size"), alias("sketch.feature_names")

    @property
    def feature_version(self) -> str:
        """Configurations of one kernel teach about each other, at other sizes too."""
        names = [self.sketch.spec.lang, self.sketch.name, *self.feature_names]
        return "raw-" + hashlib.sha256(" ".join(names).encode()).hexdigest()[:12]

    @property
    def valid(self) -> int | None:
        """The number of feasible configurations, where it can be counted."""
        points = self.sketch.valid_points
        return None if points is None or not points.exact else points.count

    @property
    def failures(self) -> dict[str, str]:
        """None: nothing is lowered."""
        return {}

    def impossible(self) -> None:
        """There is a valid configuration, or `defaults` would have raised."""

    def find(self, trace: Any) -> int | None:
        """0 for a trace of this kernel: other values and restrictions leave its configurations comparable."""
        return 0 if isinstance(trace, list) and trace[:1] == self.sketch.trace[:1] else None
