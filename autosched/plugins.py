"""Plug-ins found by name, built in, by an entry point of an installed package, or in a file; and running such files.

    guided                      a key of the table of built-in classes
    annealing                   an entry point of the group, from any installed package
    path/to/file.py:MyClass     a class in a file; the file is executed

A table of built-in classes maps names to `"module:Class"`, so that nothing is imported before it
is asked for. Built-in names win over entry points of the same name.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from autosched.errors import AutoschedError, UsageError, clipped, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True)
class PluginKind:
    """One kind of plug-in: what messages call it, where to find it, what it must have, what it is."""

    noun: str
    group: str
    builtins: Mapping[str, str]
    methods: tuple[str, ...]
    what: str = "class"
    legal: str = ""  #: what to say of one that lacks a method; by default, which it must have
    attributes: tuple[str, ...] = ()  #: what each instance must have beside the methods

    @property
    def example(self) -> str:
        """A name of one, as messages write it."""
        return "ClassName" if self.what == "class" else self.what

    def is_one(self, value: Any, module: str) -> bool:
        """Whether a value of a module may be a plug-in: a class that it defines, or anything with the methods."""
        if self.what == "class":
            return inspect.isclass(value) and value.__module__ == module
        return not inspect.isclass(value) and all(callable(getattr(value, m, None)) for m in self.methods)


def plugin_names(kind: PluginKind) -> dict[str, str]:
    """Name -> origin, of all that need no path. Loads nothing."""
    names = dict.fromkeys(kind.builtins, "built in")
    for point in _entry_points(kind):
        package = point.dist.name if point.dist is not None else point.value
        names.setdefault(point.name, f"plug-in of {package}")
    return names


def _entry_points(kind: PluginKind) -> Iterable[EntryPoint]:
    import importlib.metadata  # takes long, and most programs never ask

    return importlib.metadata.entry_points(group=kind.group)


def load_class(kind: PluginKind, name: str) -> Callable[..., Any]:
    """The class called `name`.

    Raises UsageError for an unknown name (with near ones and the list), a missing file, a plug-in
    that cannot be imported, or one that lacks a method.
    """
    if name in kind.builtins:
        module, _, attribute = kind.builtins[name].partition(":")
        ours: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        return ours
    path, colon, attribute = name.rpartition(":")
    if colon and path.endswith(".py"):
        loaded = _from_file(kind, name, path, attribute)
    elif name.endswith(".py"):
        raise _error(kind, name, f"a file needs the name of its {kind.what}", f"write {name}:{kind.example}")
    else:
        loaded = _from_entry_point(kind, name)
    missing = [method for method in kind.methods if not callable(getattr(loaded, method, None))]
    if not callable(loaded) or missing:
        lacks = f": it lacks {', '.join(missing)}" if missing else ""
        legal = kind.legal or f"a {kind.noun} is a class with the methods {', '.join(kind.methods)}"
        raise _error(kind, name, f"it is not a {kind.noun}{lacks}", legal)
    return cast("Callable[..., Any]", loaded)


def construct(kind: PluginKind, name: str, *args: Any, options: Mapping[str, Any], **common: Any) -> Any:
    """An instance of the class called `name`: `Class(*args, **common, **options)`.

    Raises UsageError for an option that the class does not have, and for a plug-in whose
    constructor fails; the message names the plug-in.
    """
    made_by = load_class(kind, name)
    _check_options(kind, name, made_by, options, common)
    try:
        made = made_by(*args, **common, **options)
    except AutoschedError:
        raise
    except Exception as error:
        raise _error(kind, name, f"its constructor raised {_told(error)}") from error
    for attribute in kind.attributes if made is not None else ():  # `none` is no model
        try:
            getattr(made, attribute)
        except AttributeError:
            legal = f"a {kind.noun} has the attributes {', '.join(kind.attributes)}"
            raise _error(kind, name, f"it is not a {kind.noun}: it lacks {attribute}", legal) from None
        except Exception as error:
            raise _error(kind, name, f"its attribute {attribute} raised {_told(error)}") from error
    return made


def option_defaults(made_by: Callable[..., Any]) -> dict[str, Any] | None:
    """The options that a class takes by name, with their defaults; None where it takes any, or does not say."""
    try:
        parameters = inspect.signature(made_by).parameters.values()
    except (TypeError, ValueError):  # a class written in C need not have a signature
        return None
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return None
    named = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    named += [
        p
        for p in parameters
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and p.default is not inspect.Parameter.empty
    ]
    return {p.name: p.default for p in named}


def _check_options(
    kind: PluginKind, name: str, made_by: Callable[..., Any], options: Mapping[str, Any], common: Mapping[str, Any]
) -> None:
    taken = option_defaults(made_by)
    if taken is None:
        return
    legal = [word for word in taken if word not in common]
    for option, value in options.items():
        if option not in legal:
            hint = did_you_mean(option, legal)
            listing = f"its options: {', '.join(legal)}" if legal else "it has no options"
            raise _error(kind, name, f"it has no option {option!r}", hint + listing)
        wanted = _unlike(value, taken[option])
        if wanted:
            raise _error(kind, name, f"its option {option} is {clipped(repr(value), 40)}", wanted)


def _unlike(value: Any, default: Any) -> str:
    """What an option takes that has a number or a text by default, where a value is of another kind; else ''."""
    if value is None:
        return ""
    if isinstance(default, (int, float)):
        return "" if isinstance(value, (int, float)) else f"a number, by default {default!r}"
    return "a text" if isinstance(default, str) and not isinstance(value, str) else ""


def _from_entry_point(kind: PluginKind, name: str) -> Any:
    for point in _entry_points(kind):
        if point.name == name:
            try:
                return point.load()
            except Exception as error:
                package = f" of {point.dist.name}" if point.dist is not None else ""
                why = f"the plug-in {point.value}{package} cannot be loaded: {_told(error)}"
                raise _error(kind, name, why) from error
    names = plugin_names(kind)
    hint = did_you_mean(name, names, 3)
    listing = ", ".join(n if origin == "built in" else f"{n} ({origin})" for n, origin in names.items())
    listing = listing or "none installed"
    raise UsageError(
        f"no such {kind.noun}",
        asked=f"{kind.noun} {name!r}",
        legal=f"{hint}there are: {listing}; or a {kind.what} in a file, path/to/file.py:{kind.example}",
    )


def _from_file(kind: PluginKind, name: str, path: str, attribute: str) -> Any:
    file = Path(os.path.realpath(Path(path).expanduser()))
    if not os.path.isfile(file):
        raise _error(kind, name, f"there is no file {file}")
    module = _execute(kind, name, file)
    if not hasattr(module, attribute):
        found = [n for n, v in vars(module).items() if kind.is_one(v, module.__name__)]
        listing = f"there: {', '.join(found)}" if found else f"it defines no {kind.what}"
        raise _error(kind, name, f"{file.name} has no {attribute or f'{kind.what} name after the colon'}", listing)
    return getattr(module, attribute)


def _execute(kind: PluginKind, name: str, file: Path) -> ModuleType:
    # The digest keeps two files of one name apart.
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    try:
        return run_file(file, f"autosched_plugin_{file.stem}_{digest}")
    except Exception as error:
        raise _error(kind, name, f"{file} cannot be imported: {_told(error)}") from error


def run_file(file: Path, name: str) -> ModuleType:
    """The module that a user's Python file makes, which is run; it is registered under a name, by which dataclasses
    and pickling look it up. Raises ImportError where it does not end in .py, and what its code raises."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} does not end in .py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _error(kind: PluginKind, name: str, why: str, legal: str = "") -> UsageError:
    return UsageError(why, asked=f"{kind.noun} {name!r}", legal=legal)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
