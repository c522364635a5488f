"""`tvm.contrib.pickle_memoize`: results of functions, kept for later calls with the same arguments.

@memoize("conv.reference")
def reference(shape, dtype): ...

What a function has from the one around it counts among its arguments. With `save_at_exit` results that are arrays,
numbers, texts, or tuples and lists of them are also kept in a file of the folder `.pkl_memoize_py3`: an .npz file, for
reading a pickle could run code.
"""

from __future__ import annotations

import atexit
import json
import os
import zipfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from autosched.errors import UsageError, UsageTypeError
from autosched.tvm._missing import missing

F = TypeVar("F", bound=Callable[..., Any])

FOLDER = ".pkl_memoize_py3"
_KINDS = (bool, int, float, str, type(None))


class Cache:
    """Results by arguments, and the file that keeps them."""

    cache_by_key: dict[str, Cache] = {}  # noqa: RUF012

    def __init__(self, key: str, save_at_exit: bool) -> None:
        self.path, self.save_at_exit = Path(FOLDER).absolute() / f"{key}.npz", save_at_exit
        self.cache: dict[str, Any] = {}
        self.dirty = False
        if save_at_exit and self.path.is_file():
            try:
                with np.load(self.path, allow_pickle=False) as file:
                    self.cache = {k: _read(v, file) for k, v in json.loads(str(file["results"])).items()}
            except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
                self.cache = {}  # damaged: everything is computed again

    def save(self) -> None:
        """Write the file, if there are new results."""
        if self.dirty:
            arrays: dict[str, Any] = {}
            kept = {k: _written(v, arrays) for k, v in self.cache.items() if _can_be_kept(v)}
            self.path.parent.mkdir(exist_ok=True)
            being_written = self.path.with_name(f"{self.path.stem}.{os.getpid()}.npz")
            np.savez(being_written, results=np.array(json.dumps(kept)), **arrays)
            being_written.replace(self.path)
            self.dirty = False


def _can_be_kept(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_can_be_kept, value))
    return isinstance(value, _KINDS) or (isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufc")


def _written(value: Any, arrays: dict[str, Any]) -> list[Any]:
    """A result as JSON: its kind, and what it is; arrays are put with the others, under their names."""
    if isinstance(value, (tuple, list)):
        return [type(value).__name__ if type(value) is list else "tuple", [_written(v, arrays) for v in value]]
    if isinstance(value, _KINDS) and not isinstance(value, np.generic):
        return ["value", value]
    arrays[f"a{len(arrays)}"] = value
    return ["array" if isinstance(value, np.ndarray) else "number", f"a{len(arrays) - 1}"]


def _read(data: list[Any], file: Any) -> Any:
    kind, what = data
    if kind in ("list", "tuple"):
        parts = [_read(x, file) for x in what]
        return parts if kind == "list" else tuple(parts)
    if kind == "value":
        return what
    return file[what] if kind == "array" else file[what][()]


@atexit.register
def _save_all() -> None:
    for cache in Cache.cache_by_key.values():
        if cache.save_at_exit:
            cache.save()


def memoize(key: str, save_at_exit: bool = False) -> Callable[[F], F]:
    """Decorator: keep the results of a function under a name, and its own.

    Raises UsageTypeError for a call with anything but numbers, texts, and tuples of them.

    >>> @memoize("doctest.twice")
    ... def twice(n):
    ...     print("computed")
    ...     return 2 * n
    >>> twice(2), twice(2)
    computed
    (4, 4)
    """

    def decorate(f: F) -> F:
        name = f"{key}.{f.__name__}"
        cache = Cache.cache_by_key.setdefault(name, Cache(name, save_at_exit))
        around = tuple(cell.cell_contents for cell in f.__closure__ or ())

        @wraps(f)
        def memoized(*args: Any, **kwargs: Any) -> Any:
            named = [[k, _plain(v)] for k, v in sorted(kwargs.items())]
            found = json.dumps([len(around), *map(_plain, (*around, *args)), named])
            if found not in cache.cache:
                cache.cache[found] = f(*args, **kwargs)
                cache.dirty = True
            return cache.cache[found]

        return memoized  # type: ignore[return-value]

    def _plain(value: Any) -> Any:
        """Numbers with their kinds: 1, 1.0 and True are equal, and other arguments."""
        if isinstance(value, tuple):
            return ["tuple", *map(_plain, value)]
        for kind in _KINDS:
            if isinstance(value, kind):
                return [kind.__name__, value]
        asked = f"a call of a function of memoize({key!r})"
        raise UsageTypeError(f"{value!r:.60} is no key of results", asked=asked, legal="numbers, texts, tuples of them")

    if not isinstance(key, str) or not key or os.sep in key:
        raise UsageError("it cannot name a file", asked=f"memoize({key!r})", legal='a word: @memoize("conv.reference")')
    return decorate


__getattr__ = missing("contrib.pickle_memoize", globals())
