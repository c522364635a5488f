"""The interface of everything that can be tuned: workloads and raw kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from autosched.schedule.schedule import Knob
from autosched.target import Target
from autosched.te.rounding import Rounding


class Objective(Protocol):
    """Something other than the time that a search makes as large, or as small, as it can."""

    @property
    def name(self) -> str: ...

    def costs(self, knobs: dict[str, int], samples: Sequence[float]) -> tuple[float, ...]:
        """A positive number for each sample in seconds, the smaller the better; `inf` where there is none."""

    def describe(self, cost: float) -> str:
        """The value that a cost stands for, with its name."""


def knob_columns(knobs: Sequence[Knob], indices: np.ndarray) -> dict[str, np.ndarray]:
    """Name of each knob -> its values in rows of indices."""
    batch = np.asarray(indices, dtype=np.int64).reshape(len(indices), len(knobs))
    return {k.name: np.asarray(k.values, dtype=np.int64)[batch[:, at]] for at, k in enumerate(knobs)}


class KnobPoints:
    """Points of a sketch by the indices of its knobs' values."""

    knobs: tuple[Knob, ...]

    @property
    def size(self) -> int:
        """The number of combinations of knob values, feasible or not."""
        return prod(len(k.values) for k in self.knobs)

    def values(self, indices: Sequence[int]) -> dict[str, int]:
        """The knob values that indices stand for."""
        return {k.name: k.values[int(i)] for k, i in zip(self.knobs, indices, strict=True)}

    def indices_of(self, values: Mapping[str, int]) -> tuple[int, ...] | None:
        """The inverse; None if the values are not of this sketch."""
        if set(values) != {k.name for k in self.knobs} or any(values[k.name] not in k.values for k in self.knobs):
            return None
        return tuple(k.values.index(values[k.name]) for k in self.knobs)


class Tunable(Protocol):
    """A computation with its arguments, a reference, and a space of ways to compute it.

    `key` says which computation it is: records of one key can be compared. `backend`
    (`module:attribute`, or empty for the compiler) builds candidates in the workers, from `graph`.
    """

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def params(self) -> dict[str, Any]: ...

    @property
    def graph(self) -> dict[str, Any]: ...

    @property
    def backend(self) -> str: ...

    @property
    def files(self) -> tuple[str, ...]:
        """Python files that workers load first."""

    def describe_args(self) -> list[dict[str, Any]]:
        """Name, shape (as text) and dtype of each argument, as records keep them."""

    def sample_inputs(self, sizes: dict[str, int] | None = None) -> list[np.ndarray]:
        """Arrays to tune on."""

    def sizes_of(self, inputs: Sequence[np.ndarray]) -> dict[str, int]:
        """The symbolic sizes that these input arrays stand for."""

    def reference(self, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray | None]:
        """The right outputs; None for one that is not compared."""

    def compiled_for(self, target: Target) -> Target:
        """The target, with what the computation itself asks of it."""

    def roundings(
        self, target: Target, inputs: Sequence[np.ndarray] | None = None, expected: Sequence[Any] = ()
    ) -> Sequence[Rounding]:
        """Errors that verification allows each output besides that of its type, for these inputs."""

    def initial(self, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray | None]:
        """The outputs before a call; None for one that every call overwrites."""

    def adjusted(self, options: Any) -> Any:
        """`MeasureOptions`, with what the computation itself decides: whether there is an answer, and how exact."""

    @property
    def inspector(self) -> Callable[[list[np.ndarray]], str] | None:
        """A function of the user's that says what is wrong with the outputs of a call; see `Measurer`."""

    @property
    def objective(self) -> Objective | None:
        """The quantity to optimise; None for the time."""

    def search_space(self, target: Target, sizes: dict[str, int], space: str = "", rules: Sequence[Any] = ()) -> Any:
        """A space as `SearchSpace` is one, which strategies see as a `search.SpaceLike`; `space` and `rules` say where
        sketches come from. Raises WorkloadError where there is none."""

    def defaults(self, target: Target, space: Any) -> tuple[list[Any], list[dict[str, int]]]:
        """A trace, and the knob values at which it runs when nobody has tuned: the first that work are taken."""

    def as_text(self, trace: list[Any], knobs: dict[str, int]) -> str:
        """A candidate as a person would write it."""
