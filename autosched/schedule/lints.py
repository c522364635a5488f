"""What `Schedule.check` reports: legal, and yet doubtful.

Most of it shows in loops alone, and those are made by lowering, a layer above. It registers the
function that looks when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import UsageError, expect, is_list_of
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor


@dataclass(frozen=True)
class Lint:
    """One finding. `kind` is a stable name, such as `race` or `strided-vector`."""

    kind: str
    where: str
    why: str
    better: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why} [{self.kind}]\n  {self.better}"


Linter = Callable[[Any, Sequence[Any], Any, dict[str, int] | None], list[Lint]]
_linters: list[Linter] = []


def register(linter: Linter) -> None:
    """From now on `of` asks this function: of a schedule, arguments, a target and knobs."""
    _linters[:] = [linter]


def of(schedule: Any, args: Sequence[Any], target: Any, knobs: dict[str, int] | None) -> list[Lint]:
    """What the linter finds. Raises UsageError where lowering has not been imported."""
    if not _linters:
        raise UsageError("nothing here knows loops", asked="Schedule.check", legal="import autosched.lower first")
    expect(args, "a list of tensors", is_list_of(args, (Tensor, Expr)), "check(args=..)")
    expect(knobs, "a dictionary", knobs is None or isinstance(knobs, dict), "check(knobs=..)")
    return _linters[0](schedule, args, target, knobs)
