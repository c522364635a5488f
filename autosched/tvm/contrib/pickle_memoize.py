"""`tvm.contrib.pickle_memoize`: results of functions, kept for later calls with the same arguments.

@memoize("conv.reference")
def reference(shape, dtype): ...

What a function has from the one around it counts among its arguments. With `save_at_exit` results are also kept in a
file of the folder `.pkl_memoize_py3`, from which nothing but arrays, numbers, texts and containers of them is read.
"""

from __future__ import annotations

import atexit
import io
import os
import pickle
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from autosched.errors import UsageError, UsageTypeError
from autosched.tvm._missing import missing

F = TypeVar("F", bound=Callable[..., Any])

FOLDER = ".pkl_memoize_py3"
_KINDS = (str, int, float, type(None))
#: what arrays are made of in a pickle
_HARMLESS = {"_reconstruct", "scalar", "ndarray", "dtype", "_frombuffer"}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in _HARMLESS:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} is no array")


class Cache:
    """Results by arguments, and the file that keeps them."""

    cache_by_key: dict[str, Cache] = {}  # noqa: RUF012

    def __init__(self, key: str, save_at_exit: bool) -> None:
        self.path, self.save_at_exit = Path(FOLDER).absolute() / key, save_at_exit
        self.cache: dict[Any, Any] = {}
        self.dirty = False
        if save_at_exit and self.path.is_file():
            try:
                self.cache = _Reader(io.BytesIO(self.path.read_bytes())).load()
            except Exception:  # what damaged bytes do to a reader of pickles is not limited to some errors
                self.cache = {}

    def save(self) -> None:
        """Write the file, if there are new results."""
        if self.dirty:
            self.path.parent.mkdir(exist_ok=True)
            written = self.path.with_suffix(f".{os.getpid()}")
            written.write_bytes(pickle.dumps(self.cache))
            written.replace(self.path)
            self.dirty = False


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
        name = f"{key}.{f.__name__}.pkl"
        cache = Cache.cache_by_key.setdefault(name, Cache(name, save_at_exit))
        around = tuple(cell.cell_contents for cell in f.__closure__ or ())

        @wraps(f)
        def memoized(*args: Any, **kwargs: Any) -> Any:
            found = (len(around), *map(_plain, (*around, *args)), *((k, _plain(v)) for k, v in sorted(kwargs.items())))
            if found not in cache.cache:
                cache.cache[found] = f(*args, **kwargs)
                cache.dirty = True
            return cache.cache[found]

        return memoized  # type: ignore[return-value]

    def _plain(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(_plain, value))
        if isinstance(value, _KINDS):
            # 1, 1.0 and True are equal, and other arguments
            return next(kind for kind in (str, bool, int, float, type(None)) if isinstance(value, kind)).__name__, value
        asked = f"a call of a function of memoize({key!r})"
        raise UsageTypeError(f"{value!r:.60} is no key of results", asked=asked, legal="numbers, texts, tuples of them")

    if not isinstance(key, str) or not key or os.sep in key:
        raise UsageError("it cannot name a file", asked=f"memoize({key!r})", legal='a word: @memoize("conv.reference")')
    return decorate


__getattr__ = missing("contrib.pickle_memoize", globals())
