"""`autosched.jit`: a function of arrays compiled at its first call, for the shapes and types that it is called with."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from autosched import build_cache
from autosched.building import build
from autosched.effort import EFFORTS, check_effort
from autosched.errors import UsageError, expect
from autosched.front import tune
from autosched.graph.compiled import CompiledModel
from autosched.graph.tuning import tune_model
from autosched.runtime.device import resolve_target
from autosched.runtime.module import Module
from autosched.space.workload import Workload
from autosched.target import Target, TargetLike
from autosched.tracing import functions, indexing, ufuncs  # noqa: F401  # which attach their parts to `Traced`
from autosched.tracing.program import Program, Slot, described, is_plain, mapped, plain_array, restored, static, trace
from autosched.tracing.traced import is_tracing

Array = np.ndarray[Any, Any]

#: seconds of search for functions that do not say, where it is set; never otherwise
TUNE_VARIABLE = "AUTOSCHED_TUNE"


@dataclass(frozen=True)
class Compiled:
    """A function for one set of shapes and types.

    program: what is compiled, tuned and recorded; `cut` says whether as several kernels, like a model
    module:  takes the arrays `used` of those given, and the function's own `constants`
    result:  what it returns, with `Slot`s for arrays
    """

    program: Workload
    cut: bool
    module: Module
    used: tuple[int, ...]
    constants: tuple[Array, ...]
    result: Any

    def run(self, arrays: Sequence[Any]) -> Any:
        """What the function returns for the arrays among its arguments."""
        found = self.module(*[arrays[k] for k in self.used], *self.constants)
        if type(self.result) is Slot:
            return found
        return restored(self.result, found if type(found) is tuple else (found,))


class Jitted:
    """A function under `@jit`. Calling it compiles at the first call for each set of shapes and types.

    `compiled(*args)` is what a call would run, with its program and module; `tune(*args)` searches;
    `batched(*args)` runs it for each element of the leading axis of its arrays.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        target: TargetLike,
        effort: str,
        tune_s: float | None,
        records: str | None,
        static: Sequence[str],
        over: tuple[str, ...] | None = None,
    ) -> None:
        functools.update_wrapper(self, fn)
        self.__name__: str = getattr(fn, "__name__", "function")
        self.fn, self.effort, self.tune_s, self.records, self.static = fn, effort, tune_s, records, tuple(static)
        self._target, self._over = target, over
        self._signature = _signature(fn)
        kinds = [p.kind for p in self._signature.parameters.values()]
        #: arguments of a call that leaves none out, where names do not matter; -1 where that is not known
        self._count = len(kinds) if all(k is inspect.Parameter.POSITIONAL_OR_KEYWORD for k in kinds) else -1
        if unknown := [name for name in self.static if name not in self._signature.parameters]:
            legal = ", ".join(self._signature.parameters)
            raise UsageError(
                f"it has no parameter {unknown[0]!r}", asked=f"jit({self.__name__}, static=..)", legal=legal
            )
        self._built: dict[Any, Compiled] = {}
        self._batched: dict[tuple[str, ...], Jitted] = {}

    @property
    def target(self) -> Target:
        return resolve_target(self._target)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method is bound to its object, which is compiled in: another object is another program."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():  # another function's program, of which this becomes a part
            return self.fn(*args, **kwargs)
        if kwargs or self.static or len(args) != self._count:
            args, kwargs = self._bound(args, kwargs)
        shape, arrays = self._described(args, kwargs)
        found = self._built.get(shape)
        if found is None:
            found = self._built[shape] = self._build(args, kwargs, arrays)
        result = found.run([a if is_plain(a) else plain_array(a) for a in arrays])
        torch = sys.modules.get("torch")
        if torch is not None and any(isinstance(a, torch.Tensor) for a in arrays):
            return mapped(result, _as_tensor)
        return result

    def compiled(self, *args: Any, **kwargs: Any) -> Compiled:
        """What a call with these arguments runs; it is compiled where it was not yet."""
        self(*args, **kwargs)
        return self._built[self._described(*self._bound(args, kwargs))[0]]

    def traced(self, *args: Any, **kwargs: Any) -> Program:
        """The program of a call with these arguments; nothing is compiled."""
        return self._traced(*self._bound(args, kwargs))

    def tune(self, *args: Any, budget_s: float | None = EFFORTS["full"], **options: Any) -> Any:
        """Search for the schedule of a call with these arguments, and use it from now on.

        options: as `autosched.tune` takes them. Returns what it returns; for a function of several kernels, what tuning
        a model returns.
        """
        arguments, named = self._bound(args, {})
        _, arrays = self._described(arguments, named)
        traced = self._traced(arguments, named)
        found = self._tune(traced, [plain_array(a) for a in arrays], budget_s, **options)
        self.effort = "quick" if self.effort == "none" else self.effort  # with which records are looked for
        self._built.clear()
        return found

    def batched(self, *args: Any, over: Iterable[str] | None = None) -> Any:
        """Run it for each element of the leading axis of its arrays, and stack the results.

        over: the names of the parameters that have this axis; by default all that are arrays, in all places
        """
        names = tuple(self._signature.parameters) if over is None else tuple(over)
        if unknown := [n for n in names if n not in self._signature.parameters]:
            legal = ", ".join(self._signature.parameters)
            raise UsageError(f"it has no parameter {unknown[0]!r}", asked=f"{self.__name__}.batched", legal=legal)
        if names not in self._batched:
            self._batched[names] = Jitted(
                self.fn, self._target, self.effort, self.tune_s, self.records, self.static, names
            )
        return self._batched[names](*args)

    def __repr__(self) -> str:
        return f"<jit {self.__name__}>"

    # -- building ---------------------------------------------------------------------------------
    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with defaults filled in."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _described(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """What of the arguments decides the program, and the arrays and floats among them."""
        arrays: list[Any] = []
        if not kwargs and not self.static:
            return tuple([described(a, arrays) for a in args]), arrays
        names = [*self._signature.parameters]
        named = [*zip(names, args, strict=False), *(("", a) for a in args[len(names) :]), *kwargs.items()]
        return tuple([(n, static(a) if n in self.static else described(a, arrays)) for n, a in named]), arrays

    def _traced(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Program:
        """The program of a call with these arguments."""
        parameters = [*self._signature.parameters]
        rest = [parameters[-1] if parameters else ""] * (len(args) - len(parameters))
        given = [*zip([*parameters, *rest], args, strict=False)]
        return trace(self.fn, self.__name__, given, kwargs, self.static, self._over)

    def _build(self, args: tuple[Any, ...], kwargs: dict[str, Any], arrays: Sequence[Any]) -> Compiled:
        traced = self._traced(args, kwargs)
        target = self.target
        seconds = self.tune_s if self.tune_s is not None else _asked_by_variable()
        if seconds is None and self.effort == "full":
            seconds = EFFORTS["full"]
        effort = "none" if self.effort == "none" and not seconds else "quick"
        program = [traced.program.key, traced.program.name, traced.cut]
        module = build_cache.get(build_cache.digest(program, target, effort, self.records))
        if seconds and (module is None or not _is_tuned(module)):
            self._tune(traced, [plain_array(a) for a in arrays], seconds)
            module = None
        if module is None:
            module = self._module(traced, target, effort)
            if not _is_hasty(module):
                build_cache.put(build_cache.digest(program, target, effort, self.records), module)
        return Compiled(traced.program, traced.cut, module, traced.used, traced.constants, traced.result)

    def _module(self, traced: Program, target: Target, effort: str) -> Module:
        if traced.cut:
            compiled = CompiledModel(traced.model(), target, effort, self.records)
            module = compiled.executable.module
            found = [m.provenance for m in compiled.modules]
            notes = "; ".join(dict.fromkeys(str(p.get("note", "")) for p in found))
            module.provenance.update(kind="kernels", kernels=[p.get("kind") for p in found], note=notes)
            return module
        return build(traced.program, target, records=self.records, effort=effort)

    def _tune(self, traced: Program, arrays: Sequence[Array], seconds: float | None, **options: Any) -> Any:
        given = [*(arrays[k] for k in traced.used), *traced.constants]
        if traced.cut:
            return tune_model(traced.model(), self.target, budget_s=seconds, records=self.records, **options)
        options = {"trials": None, "records": self.records} | options
        return tune(traced.program, self.target, inputs=given, budget_s=seconds, **options)


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    """Of a function that does not say, such as those of NumPy before 2.1: any arguments."""
    try:
        return inspect.signature(fn)
    except ValueError:
        return inspect.signature(lambda *args, **kwargs: None)


def _as_tensor(x: Any) -> Any:
    """An array as a tensor of PyTorch over the same memory."""
    torch = sys.modules["torch"]
    if type(x) is not np.ndarray:
        return x
    if x.dtype.name == "bfloat16":  # which PyTorch does not take from NumPy
        return torch.from_numpy(x.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def _is_tuned(module: Module) -> bool:
    """Whether a search has found its schedule, or some of them."""
    return "record" in module.provenance.get("kernels", [module.provenance.get("kind")])


def _is_hasty(module: Module) -> bool:
    """Whether time decided its schedule, which another build may have more of."""
    return "no prediction within" in str(module.provenance.get("note", ""))


def _asked_by_variable() -> float | None:
    """Seconds of search that `AUTOSCHED_TUNE` asks for. Raises UsageError for another text."""
    text = os.environ.get(TUNE_VARIABLE, "")
    if text in ("", "0"):
        return None
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise UsageError("it is no number of seconds", asked=f"{TUNE_VARIABLE}={text}", legal=f"{TUNE_VARIABLE}=60")
    return seconds


@overload
def jit(fn: Callable[..., Any]) -> Jitted: ...
@overload
def jit(
    *,
    target: TargetLike = ...,
    effort: str = ...,
    tune: float | bool | None = ...,
    records: str | None = ...,
    static: Sequence[str] | str = ...,
) -> Callable[[Callable[..., Any]], Jitted]: ...
def jit(
    fn: Callable[..., Any] | None = None,
    *,
    target: TargetLike = None,
    effort: str = "quick",
    tune: float | bool | None = None,
    records: str | None = None,
    static: Sequence[str] | str = (),
) -> Any:
    """Compile a function of arrays as it is written, with NumPy's functions and operators or with te and topi.

    >>> import numpy as np, autosched
    >>> @autosched.jit
    ... def blur(image):
    ...     p = np.pad(image, 1, mode="edge")
    ...     rows = p[:-2] + p[1:-1] + p[2:]
    ...     return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9
    >>> blur(np.ones((4, 5), np.float32)).shape
    (4, 5)

    Arguments are NumPy arrays, tensors of PyTorch on the CPU (no copy; results are tensors then), or anything with
    `__dlpack__`; Python floats come with each call, other values are compiled in. So is what the function reads from
    around it: arrays as they were at the first call. The function runs once for each set of shapes and types.

    target:  as for `build`
    effort:  "none" takes the default schedule, "quick" (about 3 s) a record or what a model predicts, "full" searches
             for 60 s where there is no record
    tune:    seconds of search at the first call, where there is no record; True for 60. The variable `AUTOSCHED_TUNE`
             does the same for functions that do not say
    records: a folder of records, in place of the usual ones
    static:  parameters whose values are compiled in though they are floats or arrays of Python's

    What is compiled is kept on disk for other processes (`autosched cache`). Raises UsageTypeError, with the line, for
    what cannot be traced: conditions on elements, masks as indices, functions that are not in the list.
    """
    asked = "jit"
    check_effort(effort, asked)
    is_seconds = tune is None or isinstance(tune, (bool, int, float))
    expect(tune, "seconds, True or False", is_seconds and (tune is None or tune >= 0), "jit(tune=..)")
    names = (static,) if isinstance(static, str) else tuple(static)
    seconds = None if tune is None else EFFORTS["full"] if tune is True else float(tune)

    def decorate(f: Callable[..., Any]) -> Jitted:
        expect(f, "a function", callable(f), asked)
        return Jitted(f, target, effort, seconds, records, names)

    return decorate if fn is None else decorate(fn)
