"""`CheckedModule`: a function that looks at every index before it reads, and says which one was outside."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from autosched.codegen.artifact import Artifact, Signature
from autosched.errors import UsageError, out_of_bounds
from autosched.runtime.function import CompiledFunction
from autosched.runtime.kernel import BoundCall
from autosched.runtime.module import Module
from autosched.target import Target

__all__ = ["CheckedModule"]


class CheckedModule(Module):
    """What `build(..., bounds_check=True)` gives: slower, and BoundsError for a read outside of a tensor.

    The last parameter of its code is a report, which callers neither see nor pass. It is for finding
    mistakes: it cannot be saved.
    """

    def __init__(
        self, artifact: Artifact, target: Target, sites: Sequence[tuple[str, int, str]], nothing: int, **options: Any
    ) -> None:
        """`sites` are the reads that the report tells of: tensor, dimension, reader; `nothing` is what it
        holds for a read that stayed inside."""
        super().__init__(artifact, target, **options)
        self._sites, self._nothing = tuple(sites), nothing
        self._whole = CompiledFunction(artifact, target, self.kernel)

    @property
    def signature(self) -> Signature:
        """What callers pass: all but the report."""
        return replace(self.artifact.signature, params=self.artifact.signature.params[:-1])

    def __call__(self, *arrays: object) -> Any:
        """Run once, as any module. Raises BoundsError for the first read, in order of the program, that
        was outside its tensor; outputs are then of no use."""
        report = self._report()
        outputs = self._whole(*self._complete(arrays), report)[:-1]
        self._raise_for(report)
        return outputs[0] if len(outputs) == 1 else outputs

    @contextmanager
    def bound(self, arrays: Sequence[object]) -> Iterator[BoundCall]:
        report = self._report()
        with self._whole.bound([*self._complete(arrays), report]) as bound:
            yield bound
        self._raise_for(report)

    def artifacts(self) -> list[Artifact]:
        raise self._unkept("save")

    def save(self, path: str | os.PathLike[str]) -> None:
        raise self._unkept("save")

    def export_library(self, path: str | os.PathLike[str], **options: Any) -> None:
        raise self._unkept("export_library")

    def _report(self) -> np.ndarray[Any, Any]:
        return np.full(2 * max(len(self._sites), 1), self._nothing, np.int64)

    def _raise_for(self, report: np.ndarray[Any, Any]) -> None:
        for k, (tensor, dimension, reader) in enumerate(self._sites):
            index, extent = (int(x) for x in report[2 * k : 2 * k + 2])
            if index != self._nothing:
                raise out_of_bounds(tensor, dimension, index, extent, reader=reader, given=True)

    def _unkept(self, call: str) -> UsageError:
        return UsageError(
            "a module with bounds_check has no life outside this process",
            asked=f"{call} of {self.name}",
            legal="build it without bounds_check",
        )
