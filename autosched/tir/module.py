"""`IRModule`: functions by name, as TVM hands them from one step to the next.

    module = autosched.lower(s, [A, B]).mod
    print(module)              # TVMScript-like text, see `script`
    module["main"].body        # the statements of a lowered function

A function is a lowered `ir.stmt.Function`, or a `PrimFunc`, whose loops are not written out yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autosched.errors import UsageError, UsageTypeError
from autosched.ir.attached import attach
from autosched.lower.pipeline import Lowered
from autosched.tir.script import module_script

if TYPE_CHECKING:
    from autosched.tir.prim_func import PrimFunc


class GlobalVar(str):
    """The name of a function in a module; TVM calls the text `name_hint`."""

    __slots__ = ()

    @property
    def name_hint(self) -> str:
        return str(self)


class IRModule(Mapping[str, Any]):
    """Functions by name.

    >>> IRModule({}).get_global_vars()
    []
    """

    def __init__(self, functions: Mapping[str, Any] | None = None, attrs: Mapping[str, Any] | None = None) -> None:
        self.functions: dict[GlobalVar, Any] = {}
        self.attrs: dict[str, Any] = dict(attrs or {})
        for name, function in (functions or {}).items():
            self[name] = function

    def __getitem__(self, name: str) -> Any:
        """The function of that name. Raises UsageError if there is none."""
        found = self.functions.get(GlobalVar(name))
        if found is None:
            legal = f"functions: {', '.join(self.functions) or 'none'}"
            raise UsageError(f"no function {str(name)!r}", asked=f"module[{str(name)!r}]", legal=legal)
        return found

    def __setitem__(self, name: str, function: Any) -> None:
        if not str(name).isidentifier():
            raise UsageError(f"{name!r} cannot name a function", asked="IRModule", legal="an identifier")
        if not callable(getattr(function, "script", None)):
            legal = "a lowered Function or a PrimFunc"
            raise UsageTypeError(f"{function!r} is not a function", asked=f"module[{str(name)!r}]", legal=legal)
        self.functions[GlobalVar(name)] = function

    def __iter__(self) -> Iterator[GlobalVar]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def __contains__(self, name: object) -> bool:
        return name in self.functions

    def get(self, name: str, default: Any = None) -> Any:
        """The function of that name, or `default`."""
        return self.functions.get(GlobalVar(name), default)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def update_func(self, name: str, function: Any) -> None:
        """Add a function, or put it in the place of the one of that name."""
        self[name] = function

    def get_global_vars(self) -> list[GlobalVar]:
        """The names of the functions."""
        return list(self.functions)

    def get_global_var(self, name: str) -> GlobalVar:
        """The name as a GlobalVar. Raises UsageError if there is no such function."""
        self[name]
        return GlobalVar(name)

    @staticmethod
    def from_expr(function: Any) -> IRModule:
        """A module of one function, by its name."""
        name = function.attrs.get("global_symbol", function.name)
        return IRModule({str(name): function})

    def scheduled(self, asked: str, name: str | None = None) -> PrimFunc:
        """The function of that name, or the only one. Raises UsageError for one whose loops are written out."""
        from autosched.tir.prim_func import as_prim_func

        return as_prim_func(self, asked, name)

    def script(self, **options: Any) -> str:
        """The functions as TVMScript-like text. TVM's options of printing change nothing."""
        return module_script(self)

    def astext(self, show_meta_data: bool = False) -> str:
        """The script, as older programs ask for it."""
        return self.script()

    def show(self, *style: Any, **options: Any) -> None:
        """Print the script."""
        print(self.script())

    def __str__(self) -> str:
        return self.script()

    __repr__ = __str__


def module_of(lowered: Lowered) -> IRModule:
    """A lowered function in a module, with the attributes that TVM gives it."""
    attrs = {"from_legacy_te_schedule": True, "tir.noalias": True, **lowered.function.attrs}
    return IRModule({lowered.function.name: replace(lowered.function, attrs=attrs)})


attach(Lowered, mod=property(module_of), script=lambda lowered: module_of(lowered).script())
