"""Workloads: named functions that say what to compute.

    @workload(inputs=photograph)
    def box_blur(channels: int = 3, dtype: str = "uint8"):
        ...
        return image, blurred          # the arguments of the compiled function, in calling order

Calling it with parameters gives a `Workload`: tensors, a name and a key.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, Protocol, TypeVar, overload

import numpy as np

from autosched.errors import AutoschedError, UsageTypeError, WorkloadError, expect, raised_in
from autosched.garbage import few_collections
from autosched.ir.dims import solved
from autosched.ir.expr import Expr, variables
from autosched.ir.node import order
from autosched.schedule.renaming import names_of
from autosched.schedule.trace import Trace
from autosched.space import SPACES
from autosched.space.default import default_schedule
from autosched.space.samples import check_addressable, random_inputs
from autosched.target import KINDS, Target
from autosched.te.graph_json import graph_to_json, workload_key
from autosched.te.reference import reference, spread
from autosched.te.rounding import Rounding, roundings
from autosched.te.tensor import PlaceholderOp, Tensor

if TYPE_CHECKING:  # a property to type checkers, of which some say that a `cached_property` is none of a protocol's
    cached_property = property
else:
    from functools import cached_property


P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., object])
Array = np.ndarray[Any, Any]

#: in a template's place for a target: every one whose parallel loops are tasks of a CPU's cores, and every kind whose
#: loops are bound to work-groups and work-items
CPU, GPU = "cpu", "gpu"

#: `choose` may split a template into this many sketches, unless `@template(..., max_forks=N)` says otherwise:
#: it runs once for each, which takes milliseconds.
MAX_FORKS = 4096


class Walk(Protocol):
    """A template on its way through a schedule. It can be copied between steps, by `copy.deepcopy`."""

    @property
    def s(self) -> Any:
        """The schedule."""

    def step(self) -> bool:
        """Do the next thing; False if there is none."""


@dataclass(frozen=True)
class Template:
    """A schedule with knobs that someone wrote: `fn(s)` or `fn(s, target)`, for one kind of target, for all that run
    tasks on a CPU (`cpu`), or for all that run kernels (`gpu`)."""

    name: str
    target: str
    fn: Callable[..., Any]
    max_forks: int = MAX_FORKS
    walk: Callable[[Any, Target], Walk] | None = None  #: the same as `fn` does, step by step

    def fits(self, target: Target) -> bool:
        groups = {CPU: target.is_cpu, GPU: target.is_gpu_style}
        return self.target == target.kind or groups.get(self.target, False)

    @property
    def wants_target(self) -> bool:
        """Whether the function takes the target, on which its schedules may depend then."""
        return len(inspect.signature(self.fn).parameters) > 1

    def apply(self, s: Any, target: Any) -> None:
        """Run the template on a schedule."""
        self.fn(s, target) if self.wants_target else self.fn(s)


class WorkloadFunction(Generic[P]):
    """A function under `@workload`; call it with the function's parameters."""

    decorator: ClassVar[str] = "@workload"

    def __init__(
        self, fn: Callable[P, object], inputs: Callable[..., Sequence[Array]] | None, strict: bool = False
    ) -> None:
        is_function = callable(fn) and isinstance(getattr(fn, "__name__", None), str)
        expect(fn, "a function with a name", is_function, self.decorator)
        self.fn = fn
        self.strict = strict
        self.name = fn.__name__
        self.inputs = inputs
        self.templates: list[Template] = []
        self.__doc__ = fn.__doc__
        self.__name__ = fn.__name__

    @property
    def parameters(self) -> dict[str, Any]:
        """The function's parameters and their defaults."""
        return {p.name: p.default for p in inspect.signature(self.fn).parameters.values()}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Workload:
        arguments, tensors = self.called(args, kwargs)
        listed = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
        if not listed or not all(isinstance(t, Tensor) for t in listed):
            raise WorkloadError(
                "it did not return tensors",
                asked=f"{self.name}(...)",
                legal="return the function's arguments in calling order: inputs, then outputs",
            )
        return Workload(self.name, tuple(listed), arguments, self, self.strict)

    def called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """(the function's arguments, what it returned for them). Raises WorkloadError."""
        try:
            bound = inspect.signature(self.fn).bind(*args, **kwargs)
        except TypeError as error:
            legal = ", ".join(f"{k}={v!r}" for k, v in self.parameters.items())
            raise WorkloadError(str(error), asked=f"{self.name}(...)", legal=f"parameters: {legal or 'none'}") from None
        bound.apply_defaults()
        try:
            return dict(bound.arguments), self.fn(*bound.args, **bound.kwargs)
        except AutoschedError:
            raise
        except Exception as error:
            given = ", ".join(f"{k}={v!r}" for k, v in bound.arguments.items())
            raise raised_in(f"{self.name}({given})", error) from error

    def __repr__(self) -> str:
        return f"<workload {self.name}>"


@dataclass(frozen=True)
class Workload:
    """A computation with its arguments: what is tuned and built.

    `args` are the tensors of the compiled function in calling order; `params` what the workload
    function was called with; `key` a hash of the op graph, shapes and dtypes. A `strict` one is compiled for strict
    targets only: every operation on floats rounds by itself. Its records say so in their target, not in the key: a
    strict target and a strict workload make the same code. One that is anonymous, a kernel of a model, is looked for in
    the records of all workloads.
    """

    name: str
    args: tuple[Tensor, ...]
    params: dict[str, Any] = field(default_factory=dict)
    function: WorkloadFunction[...] | None = None
    strict: bool = False
    is_anonymous: bool = False

    @cached_property
    def key(self) -> str:
        return workload_key(self.args)

    @cached_property
    def graph(self) -> dict[str, Any]:
        """The op graph as plain data."""
        return graph_to_json(self.args)

    @property
    def files(self) -> tuple[str, ...]:
        """The search-space file it comes from, which other processes load for what it registers.

        A script is not among them: loading it would run it once more.
        """
        fn = None if self.function is None else self.function.fn
        code, module = getattr(fn, "__code__", None), getattr(fn, "__module__", None)  # None: made by `exec`
        loaded = module is not None and module.startswith("autosched_search_spaces.")
        return (code.co_filename,) if code is not None and loaded else ()

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.args if isinstance(t.op, PlaceholderOp))

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.args if not isinstance(t.op, PlaceholderOp))

    @property
    def templates(self) -> tuple[Template, ...]:
        return tuple(self.function.templates) if self.function is not None else ()

    def templates_for(self, target: Target) -> list[Template]:
        """Those that fit. On a CPU that runs kernels, those for GPUs stand back where there are others."""
        found = [t for t in self.templates if t.fits(target)]
        others = [t for t in found if t.target != GPU]
        return others if target.is_cpu and others else found

    def about(self) -> dict[str, Any]:
        """What records say of a workload of fixed sizes."""
        names = names_of(self.args)
        args = self.describe_args()
        return {"name": self.name, "key": self.key, "params": {}, "args": args, "names": names, "sizes": {}}

    def describe_args(self) -> list[dict[str, Any]]:
        """Name, shape (as text) and dtype of each argument, as records keep them."""
        return [{"name": t.name, "shape": [repr(d) for d in t.shape], "dtype": str(t.dtype)} for t in self.args]

    def size_variables(self) -> dict[str, Expr]:
        """The symbolic sizes of its shapes, by name."""
        found = {v for t in self.args for d in t.shape for v in variables(d)}
        return {v.name: v for v in sorted(found, key=order)}

    def size_names(self) -> tuple[str, ...]:
        return tuple(self.size_variables())

    def sizes_of(self, inputs: Sequence[Array]) -> dict[str, int]:
        """The symbolic sizes that these input arrays stand for, where one dimension tells a size: `h`, or `h + 2`."""
        sizes: dict[str, int] = {}
        derived: dict[str, int] = {}
        if [t.ndim for t in self.inputs] != [np.ndim(x) for x in inputs]:
            given = ", ".join(f"{np.ndim(x)}-D" for x in inputs) or "none"
            wanted = ", ".join(map(repr, self.inputs)) or "none"
            why = f"its inputs are {wanted}; given are arrays: {given}"
            raise WorkloadError(why, asked=repr(self), legal="one array for each")
        for t, array in zip(self.inputs, inputs, strict=True):
            for d, n in zip(t.shape, array.shape, strict=True):
                found = solved(d, int(n))
                if found is not None:
                    (sizes if d.op == "var" else derived).setdefault(*found)
        known = derived | sizes
        return {name: known[name] for name in self.size_names() if name in known}

    def sizes_at(self, sizes: dict[str, int] | None = None) -> dict[str, int]:
        """The symbolic sizes that it is tuned at: those given, or of its own inputs; no array is made for nothing."""
        self._check_sizes(sizes)
        given, names = sizes or {}, self.size_names()
        own = self.function is not None and self.function.inputs is not None
        if names and (own or any(n not in given for n in names)):
            return self.sizes_of(self.sample_inputs(sizes))
        return {n: given[n] for n in names}

    def usual_sizes(self) -> dict[str, int]:
        """The symbolic sizes of its own inputs, as the defaults of the function that makes them say; no array is made.

        Those that they do not say are missing.
        """
        own = self.function.inputs if self.function is not None else None
        defaults = {} if own is None else {p.name: p.default for p in inspect.signature(own).parameters.values()}
        return {n: defaults[n] for n in self.size_names() if isinstance(defaults.get(n), int)}

    def sample_inputs(self, sizes: dict[str, int] | None = None, seed: int = 0) -> list[Array]:
        """Arrays to tune on: the workload's own `inputs`, or small random integers of these sizes; what is used as
        an index is one of what it looks up. Raises WorkloadError for a size that is not known, and MemoryError."""
        self._check_sizes(sizes)
        if self.function is not None and self.function.inputs is not None:
            for t in self.args:
                check_addressable(t, self.usual_sizes() | dict(sizes or {}))
            arrays = self._own_inputs(self.function.inputs, sizes or {})
        else:
            arrays = random_inputs(self.args, sizes or {}, seed, self.name)
        return [np.asarray(a, order="C") for a in arrays]  # unlike ascontiguousarray, keeps zero dimensions

    def _own_inputs(self, inputs: Callable[..., Any], sizes: Mapping[str, int]) -> list[Array]:
        given = {**self.params, **sizes}
        call = f"inputs({', '.join(f'{k}={v!r:.40}' for k, v in given.items())}) of {self.name}"
        try:
            arrays = inputs(**given)
        except (AutoschedError, MemoryError):
            raise
        except Exception as error:
            raise raised_in(call, error) from error
        if isinstance(arrays, (list, tuple)):
            return list(arrays)
        what = f"an array of shape {arrays.shape}" if isinstance(arrays, np.ndarray) else f"{arrays!r:.60}"
        raise WorkloadError(f"it returned {what}, no list", asked=call, legal="a list of arrays, one for each input")

    def _check_sizes(self, sizes: Any) -> None:
        """Raise WorkloadError for sizes that are none of its own."""
        names = self.size_names()
        asked, legal = f"{self.name} at sizes={sizes!r:.60}", f"whole numbers for {', '.join(names) or 'no size'}"
        if sizes is not None and not isinstance(sizes, Mapping):
            raise UsageTypeError(f"{sizes!r:.60} is no mapping", asked=asked, legal=f"a dictionary: {legal}")
        for name, value in (sizes or {}).items():
            if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 0:
                raise WorkloadError(f"{value!r:.40} is no size", asked=asked, legal=legal)
            if name not in names and (self.function is None or self.function.inputs is None):
                raise WorkloadError(f"it has no size {name!r}", asked=asked, legal=legal)

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The right outputs, computed with NumPy from the definition."""
        expect(inputs, "a list of arrays", isinstance(inputs, (list, tuple)), f"{self.name}.reference(inputs)")
        return reference(self.args, inputs)

    def compiled_for(self, target: Target) -> Target:
        """The target, strict if the workload is."""
        return target.as_strict() if self.strict else target

    def roundings(
        self, target: Target, inputs: Sequence[Array] | None = None, expected: Sequence[Array] = ()
    ) -> list[Rounding]:
        """Errors that verification allows each output besides that of its type; see `te.rounding`.

        inputs, expected: arrays and the right outputs for them, from which it is seen how far floats that hang on the
                          last bits of others move with these
        """
        exact = target.kind != "opencl"  # where a device's driver may be 2.5 ulp off
        found = roundings(self.args, contract=not self.compiled_for(target).strict, exact_division=exact)
        open_floats = [r.undecided and t.dtype.is_float for r, t in zip(found, self.outputs, strict=True)]
        if inputs is None or not any(open_floats):
            return found
        spreads = spread(self.args, inputs, expected)
        return [
            replace(r, spread=s) if is_open else r for r, s, is_open in zip(found, spreads, open_floats, strict=True)
        ]

    # -- what `tune` asks besides: see `space.tunable` ---------------------------------------------
    @property
    def backend(self) -> str:
        """The compiler."""
        return ""

    @property
    def inspector(self) -> None:
        """Outputs are compared with the reference."""

    @property
    def objective(self) -> None:
        """The time."""

    def initial(self, inputs: Sequence[Array]) -> list[Array | None]:
        """Every output is overwritten."""
        return [None] * len(self.outputs)

    def adjusted(self, options: Any) -> Any:
        """The options, unchanged."""
        return options

    def search_space(self, target: Target, sizes: dict[str, int], space: str = "", rules: Sequence[Any] = ()) -> Any:
        """The sketches of its templates for the target, of those that rules generate, or of `all`.

        `space` is one of `SPACES`; by default the workload's templates, or rules where it has none for the
        target. `rules` are asked before the built-in ones. What rules generate has the default schedule among
        it, so that there is something even where no rule can do anything, or one of the built-in rules fails.
        Raises WorkloadError where there is no sketch, and what `rules` raise.
        """
        from autosched.space.rules import space_of  # with all of lowering

        expect(space, "the name of a space", isinstance(space, str), f"the space of {self.name}")
        expect(rules, "a list of rules", isinstance(rules, (list, tuple)), f"the rules of {self.name}")
        if space and space not in SPACES:
            raise WorkloadError(f"there is no space {space!r}", asked=f"tune {self.name}", legal=", ".join(SPACES))
        with few_collections():
            return space_of(self, target, sizes, space, rules)

    def defaults(self, target: Target, space: Any) -> tuple[list[Any], list[dict[str, int]]]:
        """The trace of the default schedule, which has no knobs."""
        return default_schedule(self.args, target).trace.to_json(), [{}]

    def as_text(self, trace: list[Any], knobs: dict[str, int]) -> str:
        """The schedule as Python."""
        return Trace.from_json(trace).as_python(knobs=knobs)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.params.items())})"


@overload
def workload(fn: Callable[P, object]) -> WorkloadFunction[P]: ...
@overload
def workload(
    fn: None = None, *, inputs: Callable[..., Sequence[Array]] | None = None, strict: bool = False
) -> Callable[[Callable[P, object]], WorkloadFunction[P]]: ...
def workload(
    fn: Callable[..., object] | None = None,
    *,
    inputs: Callable[..., Sequence[Array]] | None = None,
    strict: bool = False,
) -> Any:
    """Make a function that returns tensors into a workload.

    `inputs(**params, **sizes)` gives the arrays to tune on; without it they are random. `strict`: compile it as if
    the target said `-strict`, so that no multiply-add is contracted. Use as `@workload` or `@workload(inputs=...)`.
    """
    expect(inputs, "a function that returns arrays", callable(inputs) or inputs is None, "@workload(inputs=..)")

    def made(f: Callable[..., object]) -> WorkloadFunction[...]:
        is_named = getattr(f, "__name__", "") != "<lambda>"  # records are kept in files of this name
        expect(f, "a function with a name: def, not lambda", is_named, WorkloadFunction.decorator)
        return WorkloadFunction(f, inputs, strict)

    return made if fn is None else made(fn)


def template(of: WorkloadFunction[...], *, target: str = CPU, max_forks: int = MAX_FORKS) -> Callable[[F], F]:
    """Register a hand-written schedule with knobs for a workload on a kind of target: `llvm`, `c`, `opencl`, `cuda`;
    or `cpu` for all that run tasks of `parallel` loops, OpenCL on CPUs among them, and `gpu` for `opencl` and `cuda`.

    The function takes the schedule (and, if it wants, the target) and calls primitives on it;
    `s.define_knob` and `s.choose` leave decisions to tuning. `max_forks` is how many sketches its choices
    may make together: the function runs once for each.
    """
    if not isinstance(of, WorkloadFunction):
        raise WorkloadError(f"{of!r} is not a workload", asked="@template", legal="the function under @workload")

    def register(fn: F) -> F:
        expect(fn, "a function of a schedule", hasattr(fn, "__name__") and callable(fn), "@template")
        if target not in (*KINDS, CPU, GPU):
            raise WorkloadError(
                f"{target!r} is no kind of target", asked="@template", legal=f"kinds: {', '.join((*KINDS, CPU, GPU))}"
            )
        if any(t.name == fn.__name__ and t.target == target for t in of.templates):
            why = f"{of.name} has a template {fn.__name__!r} for {target} already"
            raise WorkloadError(why, asked="@template", legal="another name")
        of.templates.append(Template(fn.__name__, target, fn, max_forks))
        return fn

    return register
