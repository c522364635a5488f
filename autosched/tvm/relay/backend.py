"""`tvm.relay.backend`: what models are run by, as programs that build name it. All are the same here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from autosched.errors import UsageError
from autosched.tvm._missing import missing


@dataclass(frozen=True)
class _Named:
    """One of TVM's names with options. Raises UsageError for another name."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    NAMES: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.name not in self.NAMES:
            asked = f"{type(self).__name__}({self.name!r})"
            raise UsageError("there is no such one", asked=asked, legal=", ".join(self.NAMES))

    @classmethod
    def list_registered(cls) -> list[str]:
        return list(cls.NAMES)

    def __getitem__(self, option: str) -> Any:
        return self.options[option]

    def __contains__(self, option: object) -> bool:
        return option in self.options


class Executor(_Named):
    """How a model's kernels are called: `Executor("graph")`."""

    NAMES = ("graph", "aot")


class Runtime(_Named):
    """What calls a module: `Runtime("cpp")`."""

    NAMES = ("cpp", "crt")


__getattr__ = missing("relay.backend", globals())
