"""`verify`: a function of the user's that says whether a configuration is right, as Kernel Tuner calls it.

    verify(answer, result, atol) -> bool

`answer` and `result` are lists with an entry for each argument of the kernel: in `result` what the kernel left in
its outputs, and None for the others. It runs in the process that tunes, so any function will do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched.errors import UsageError, UsageTypeError
from autosched.measure.jobs import describe

__all__ = ["DEFAULT_ATOL", "Verifier"]

Array = np.ndarray[Any, Any]

#: What `atol` is where none is given, as in Kernel Tuner.
DEFAULT_ATOL = 1e-6


@dataclass(frozen=True)
class Verifier:
    """`written` says for each output of the runner, in its order, which argument it is; -1 for one that is not shown.

    `answer` has what the user gave for each argument, or is None.
    """

    function: Callable[..., Any]
    by_name: bool  #: whether `atol` is passed by its name
    arguments: int
    written: tuple[int, ...]
    answer: tuple[Array | None, ...] | None
    atol: float

    @staticmethod
    def of(
        function: Any, arguments: int, written: Sequence[int], answer: Sequence[Array | None] | None, atol: float | None
    ) -> Verifier:
        """Raises UsageError for what cannot be called as Kernel Tuner does."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            raise UsageTypeError(f"{function!r} is no function", asked="verify", legal=_LEGAL) from None
        for by_name in (True, False):
            try:
                signature.bind(None, None, *(() if by_name else (0.0,)), **({"atol": 0.0} if by_name else {}))
            except TypeError:
                continue
            given = None if answer is None else tuple(answer)
            return Verifier(function, by_name, arguments, tuple(written), given, DEFAULT_ATOL if atol is None else atol)
        raise UsageError(f"it takes {signature}", asked="verify", legal=_LEGAL)

    def __call__(self, outputs: list[Array]) -> str:
        """What is wrong; empty when nothing is. Never raises: a check that raises is one that failed."""
        result: list[Array | None] = [None] * self.arguments
        for at, array in zip(self.written, outputs, strict=True):
            if at >= 0:
                result[at] = array
        answer = None if self.answer is None else [None if a is None else a.copy() for a in self.answer]
        try:
            if self.by_name:
                found = self.function(answer, result, atol=self.atol)
            else:
                found = self.function(answer, result, self.atol)
            if found is None:
                return "verify(answer, result, atol) returned nothing: True is right, False is wrong"
            return "" if found else "verify(answer, result, atol) says it is wrong"
        except AssertionError as error:  # numpy.testing's way to say no
            return f"verify(answer, result, atol): {describe(error)}"
        except Exception as error:
            return f"verify(answer, result, atol) failed: {describe(error)}"


_LEGAL = "verify(answer, result, atol), which returns whether the result is right"
