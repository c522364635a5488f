"""`RawKernel`: a kernel's source with its parameters, arguments and answer, as `tune` takes it."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from autosched.errors import AutoschedError, UsageError, WorkloadError, expect, raised_in
from autosched.ir.attached import alias
from autosched.ir.dtype import dtype, numpy_dtype, unmasked
from autosched.ir.expr import Expr, variables
from autosched.ir.functions import FunctionOf
from autosched.ir.visit import substitute
from autosched.measure.verify import poison as fill_with_nonsense
from autosched.raw.backend import Verifier, split_options
from autosched.raw.formula import formula, names_in
from autosched.raw.parameters import Metrics, Objective, Parameters
from autosched.raw.space import DEFAULTS_TRIED, RawSketch, RawSpace, Restriction
from autosched.raw.spec import (
    LANGUAGES,
    Argument,
    Declared,
    Geometry,
    KernelSpec,
    declared_parameters,
    defined_functions,
    without_comments,
)
from autosched.space.workload import WorkloadFunction
from autosched.target import Target
from autosched.te.rounding import EXACT, Rounding

Array = np.ndarray[Any, Any]
P = ParamSpec("P")


@dataclass(frozen=True, eq=False)
class RawKernel:
    """A kernel that its user wrote; see `autosched.tune_kernel` for what each part means. Satisfies
    `space.tunable.Tunable`."""

    spec: KernelSpec
    restrictions: tuple[Restriction, ...]
    arrays: dict[str, Array]
    answers: dict[str, Array]
    verified: bool
    poison: bool = False
    tolerance: dict[str, float] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    inspector: Verifier | None = None
    objective: Objective | None = None
    metrics: Metrics | None = None
    backend: str = "autosched.raw.backend:RawBackend"
    files: tuple[str, ...] = ()  # workers need none: everything is in `graph`

    name, key = alias("spec.name"), alias("spec.key")

    @property
    def graph(self) -> dict[str, Any]:
        return self.spec.to_json()

    @property
    def kind(self) -> str:
        """The kind of target that runs it."""
        return LANGUAGES[self.spec.lang]

    @property
    def arguments(self) -> list[Any]:
        """The arguments as given: arrays, and scalars of NumPy's types."""
        return [self.arrays[a.name] if a.is_array else numpy_dtype(a.dtype).type(a.value) for a in self.spec.arguments]

    def _named(self, *roles: str) -> list[Argument]:
        return [a for a in self.spec.arguments if a.role in roles]

    def describe_args(self) -> list[dict[str, Any]]:
        """Name, shape (as text) and dtype of each argument; the value of a scalar."""
        return [
            {"name": a.name, "shape": [str(d) for d in a.shape], "dtype": a.dtype}
            | ({} if a.is_array else {"value": a.value if np.isfinite(float(a.value or 0)) else str(a.value)})
            for a in self.spec.arguments
        ]

    def size_names(self) -> tuple[str, ...]:
        """It has none: the arguments are given."""
        return ()

    def sample_inputs(self, sizes: dict[str, int] | None = None) -> list[Array]:
        return [self.arrays[a.name] for a in self._named("input")]

    def sizes_of(self, inputs: Sequence[Array]) -> dict[str, int]:
        return {}

    def reference(self, inputs: Sequence[Array]) -> list[Array | None]:
        """Nothing is compared in the runner where a function of the user's looks at the outputs."""
        return [None if self.inspector else self.answers.get(a.name) for a in self._named("output", "scratch")]

    def compiled_for(self, target: Target) -> Target:
        """As it is: how a source rounds is its author's affair, but for what `strict` tells the compiler."""
        return target

    def roundings(
        self, target: Target, inputs: Sequence[Array] | None = None, expected: Sequence[Any] = ()
    ) -> list[Rounding]:
        """Nothing is known of what a source computes."""
        return [EXACT for _ in self._named("output", "scratch")]

    def initial(self, inputs: Sequence[Array]) -> list[Array | None]:
        """The arguments as given, as Kernel Tuner does. An output that holds its answer already would verify
        anything: it is poisoned."""
        return [self._before(a) for a in self._named("output", "scratch")]

    def _before(self, a: Argument) -> Array | None:
        given, answer = self.arrays[a.name], self.answers.get(a.name)
        is_there = answer is not None and np.array_equal(answer, given)
        if a.role != "output" or not (self.poison or is_there):
            return given
        if self.inspector is None:
            return None  # the runner does it, and knows a second poison
        nonsense = np.empty_like(given)
        fill_with_nonsense(nonsense, 0)
        return nonsense

    def adjusted(self, options: Any) -> Any:
        """The tolerances given with the kernel; nothing is compared where no output has an answer, and races are
        run against the clock only."""
        race = options.race and self.objective is None
        return replace(options, verify=options.verify and self.verified, race=race, **self.tolerance)

    def sketch(self, target: Target) -> RawSketch:
        """Raises WorkloadError for a target that runs another language."""
        if target.kind != self.kind:
            why = f"it is written in {self.spec.lang}"
            raise WorkloadError(why, asked=f"{self.name} for {target.kind}", legal=f"target {self.kind}")
        return RawSketch(self.spec, self.restrictions, target)

    def search_space(
        self, target: Target, sizes: dict[str, int], space: str = "", rules: Sequence[Any] = ()
    ) -> RawSpace:
        """Its configurations. Raises WorkloadError where schedules are asked for, and as `sketch` does."""
        if space in ("auto", "all") or rules:
            raise WorkloadError(
                "it is a kernel that somebody wrote, which has no schedule to generate",
                asked=f"tune {self.name}, space {space!r}",
                legal="no space and no rules: its parameters are tuned",
            )
        return RawSpace(self.sketch(target))

    def defaults(self, target: Target, space: RawSpace) -> tuple[list[Any], list[dict[str, int]]]:
        """The first valid configurations: what users give first is what they run today."""
        return space.sketch.trace, space.sketch.first(DEFAULTS_TRIED)

    def as_text(self, trace: list[Any], knobs: dict[str, int]) -> str:
        """The #define lines that differ from one configuration to the next."""
        return "".join(f"#define {n} {v}\n" for n, v in self.spec.parameters.decode(knobs).items())

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.params.items())})"


#: what the arguments must be afterwards; see `tune_kernel`
Answer: TypeAlias = Sequence[Any] | Mapping[str, Any] | Array | FunctionOf[Any, object] | None
#: says whether a result is right: (answer, result, atol) -> bool
Verify: TypeAlias = FunctionOf[Any, object]


class KernelOptions(TypedDict, total=False):
    """The arguments by name that `tune_kernel`, `run_kernel` and `build_kernel` share; see `tune_kernel`."""

    lang: str | None
    grid_div_x: Any
    grid_div_y: Any
    grid_div_z: Any
    block_size_names: Sequence[str] | None
    restrictions: Any
    atol: float | None
    rtol: float | None
    compiler_options: Sequence[str] | str | None
    poison: bool
    verify: Verify | None
    metrics: Mapping[str, str | Callable[[dict[str, Any]], Any]] | None
    objective: str
    objective_higher_is_better: bool | None


def make_kernel(
    kernel_name: str,
    kernel_source: str | Path,
    problem_size: Any,
    arguments: Sequence[Any],
    tune_params: Mapping[str, Any],
    *,
    answer: Answer = None,
    params: dict[str, Any] | None = None,
    **options: Unpack[KernelOptions],
) -> RawKernel:
    """The kernel that these arguments of `tune_kernel` describe. Raises UsageError for what cannot be meant."""
    _check_names(options)
    _check_types(kernel_name=kernel_name, **options)
    verify, atol, rtol = options.get("verify"), options.get("atol"), options.get("rtol")
    source, origin, folder = _source(kernel_source, kernel_name)
    language = _language(options.get("lang"), source)
    parameters = Parameters.of(tune_params)
    declared = _declared(source, kernel_name)
    names = [d.name for d in declared] if declared else [f"argument {i}" for i in range(len(arguments))]
    given = _checked_arguments(kernel_name, names, arguments, declared)
    answers = _answers(answer, names, given, declared)
    divisors = options.get("grid_div_x"), options.get("grid_div_y"), options.get("grid_div_z")
    geometry = Geometry.of(parameters, problem_size, divisors, options.get("block_size_names"))
    flags = (*split_options(options.get("compiler_options")), *([f"-I{folder}"] if folder else []))
    described = tuple(
        _argument(n, v, n in answers, declared[i] if declared else None, everything=bool(verify) and not answers)
        for i, (n, v) in enumerate(zip(names, given, strict=True))
    )
    measures = Metrics.of(options.get("metrics"), parameters)
    spec = KernelSpec(
        kernel_name, language, source, origin or f"{kernel_name}.{'cl' if language == 'OpenCL' else 'c'}",
        described, parameters, geometry, flags,
    )  # fmt: skip
    _warn_of_unused(spec)
    arrays = {n: v for n, v in zip(names, given, strict=True) if isinstance(v, np.ndarray)}
    tolerance = {name: value for name, value in (("atol", atol), ("rtol", rtol)) if value is not None}
    limits = _restrictions(options.get("restrictions"), parameters)
    goal = Objective.of(options.get("objective", "time"), options.get("objective_higher_is_better"), measures)
    return RawKernel(
        spec, limits, arrays, answers, bool(answers) or verify is not None, options.get("poison", False), tolerance,
        params or {}, _verifier(verify, spec, answers, atol), goal, measures,
    )  # fmt: skip


#: what an argument is, and its types
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "kernel_name": ("the name of a function", (str,)),
    "block_size_names": ("a list of names, or None", (list, tuple, type(None))),
    "compiler_options": ("a list of options, one string of them, or None", (str, list, tuple, type(None))),
    "metrics": ("a dictionary, or None", (Mapping, type(None))),
    "objective": ("the name of a metric", (str,)),
    "objective_higher_is_better": ("True, False or None", (bool, type(None))),
    "poison": ("True or False", (bool,)),
    "atol": ("a number, or None", (int, float, np.number, type(None))),
    "rtol": ("a number, or None", (int, float, np.number, type(None))),
}


def _check_names(options: Mapping[str, Any]) -> None:
    """Raise TypeError for what is none of `KernelOptions`, as Python does where a function lists its arguments."""
    for name in options.keys() - KernelOptions.__annotations__.keys():
        raise TypeError(f"got an unexpected keyword argument {name!r}")


def _check_types(*, verify: object = None, **given: object) -> None:
    """Raise UsageTypeError for arguments of other types."""
    expect(verify, "a function, or None", verify is None or callable(verify), "verify")
    for name, (what, types) in _TYPES.items():
        if name in given:
            expect(given[name], what, isinstance(given[name], types), name)


def _source(given: str | Path, name: str) -> tuple[str, str, str]:
    """(source, name of its file, folder of its file); the last two are empty for a string of code."""
    is_file = isinstance(given, Path) or (isinstance(given, str) and "\n" not in given and "{" not in given)
    if callable(given) or not isinstance(given, (str, Path)):
        raise UsageError(f"{given!r} is no source", asked="kernel_source", legal="a string of code, or a file's name")
    if not is_file:
        return str(given), "", ""
    path = Path(given).expanduser()
    try:
        return path.read_text("utf-8"), path.name, str(path.resolve().parent)
    except (OSError, ValueError) as error:
        raise UsageError(f"it cannot be read: {error}", asked=f"kernel_source {str(given)!r} of {name}") from None


def _language(lang: str | None, source: str) -> str:
    if lang is None:
        return "OpenCL" if re.search(r"\b(__kernel|kernel\s+void)\b", without_comments(source)) else "C"
    found = next((known for known in LANGUAGES if known.lower() == str(lang).lower()), None)
    if found is None:
        raise UsageError("no such language", asked=f"lang={lang!r}", legal=f"legal: {', '.join(LANGUAGES)}")
    return found


def _declared(source: str, name: str) -> list[Declared] | None:
    if not re.search(rf"\b{re.escape(str(name))}\b", without_comments(source)):
        found = ", ".join(defined_functions(source)) or "none that is found"
        raise UsageError("its source does not mention it", asked=f"kernel {name!r}", legal=f"functions in it: {found}")
    return declared_parameters(source, name)


def _checked_arguments(
    kernel: str, names: Sequence[str], arguments: Sequence[Any], declared: Sequence[Declared] | None
) -> list[Any]:
    """The arguments as C-contiguous arrays and NumPy scalars, compared with what the source declares."""
    if not isinstance(arguments, (list, tuple)):
        raise UsageError("they are no list", asked=f"arguments of {kernel}", legal="[array, array, np.int32(n)]")
    if declared is not None and len(declared) != len(arguments):
        missing = [d.text for d in declared[len(arguments) :]]
        why = f"it takes {len(declared)} arguments, and {len(arguments)} are given"
        takes = "; ".join(d.text for d in declared)
        raise UsageError(
            why + (f": {missing[0]!r} is missing" if missing else ""), asked=f"arguments of {kernel}", legal=takes
        )
    return [
        _checked_argument(f"{kernel}, {name!r}", value, declared[i] if declared else None)
        for i, (name, value) in enumerate(zip(names, arguments, strict=True))
    ]


def _checked_argument(asked: str, value: Any, declared: Declared | None) -> Any:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise UsageError(
            f"{value!r} has no width that C knows", asked=asked, legal="a NumPy array, or a scalar: np.int32(n)"
        )
    unmasked(value, asked)
    try:
        supported = str(dtype(value.dtype.name)) == value.dtype.name
    except Exception:
        supported = False
    if not supported:
        raise UsageError(f"{value.dtype} is no element type of a kernel", asked=asked, legal="integers and floats")
    if declared is not None:
        is_array = isinstance(value, np.ndarray)
        if declared.space == "local":
            raise UsageError("local memory is no argument here", asked=asked, legal="declare it inside the kernel")
        if declared.is_pointer != is_array:
            raise UsageError(
                f"the source declares {declared.text!r}, and {'an array' if is_array else 'a scalar'} is given",
                asked=asked, legal=f"{'an array' if declared.is_pointer else 'a NumPy scalar'}",
            )  # fmt: skip
        if declared.dtype and declared.dtype != value.dtype.name:
            raise UsageError(
                f"the source declares {declared.text!r}, and {value.dtype} is given", asked=asked, legal=declared.dtype
            )
    return np.array(value, order="C") if isinstance(value, np.ndarray) and value.ndim else value


def _argument(
    name: str, value: Any, has_answer: bool, declared: Declared | None, *, everything: bool = False
) -> Argument:
    """`everything`: all that may be written is an output."""
    if not isinstance(value, np.ndarray):
        return Argument(name, value.dtype.name, (), "scalar", value.item())
    is_input = declared is not None and declared.is_const
    role = "output" if has_answer or (everything and not is_input) else "input" if is_input else "scratch"
    return Argument(name, value.dtype.name, value.shape, role)


def _verifier(verify: Any, spec: KernelSpec, answers: dict[str, Array], atol: float | None) -> Verifier | None:
    if verify is None:
        return None
    names = [a.name for a in spec.arguments]
    written = [(i, a.role) for i, a in enumerate(spec.arguments) if a.role in ("output", "scratch")]
    shown = [i if role == "output" else -1 for i, role in written]
    return Verifier.of(verify, len(names), shown, [answers.get(n) for n in names] if answers else None, atol)


def _answers(
    answer: Any, names: Sequence[str], given: Sequence[Any], declared: Sequence[Declared] | None
) -> dict[str, Array]:
    """Name -> what the output must be. A function is given copies of the arguments."""
    if answer is None:
        return {}
    if callable(answer):
        try:
            answer = answer(*(v.copy() for v in given))
        except Exception as error:
            raise error if isinstance(error, AutoschedError) else raised_in("answer(..)", error) from error
    if isinstance(answer, Mapping):
        unknown = [n for n in answer if n not in names]
        if unknown:
            raise UsageError(f"there is no argument {unknown[0]!r}", asked="answer", legal=", ".join(names))
        answer = [answer.get(n) for n in names]
    if isinstance(answer, np.ndarray):
        written = [d.name for d in declared or () if d.is_pointer and not d.is_const]
        if len(written) != 1:
            raise UsageError(
                "it is one array, and several arguments may be written", asked="answer",
                legal=f"a list with None for what is no output, of {', '.join(names)}",
            )  # fmt: skip
        answer = [answer if n == written[0] else None for n in names]
    if not isinstance(answer, (list, tuple)) or len(answer) != len(names):
        count = len(answer) if isinstance(answer, (list, tuple)) else 1
        raise UsageError(
            f"it has {count} entries, and there are {len(names)} arguments", asked="answer",
            legal=f"one for each of {', '.join(names)}; None for what is no output",
        )  # fmt: skip
    triples = zip(names, answer, given, strict=True)
    return {n: _checked_answer(n, expected, value) for n, expected, value in triples if expected is not None}


def _checked_answer(name: str, expected: Any, value: Any) -> Array:
    array = np.asarray(expected)
    if not isinstance(value, np.ndarray):
        raise UsageError(f"{name!r} is a scalar, and no output", asked="answer", legal="None in its place")
    if array.shape != value.shape or array.dtype != value.dtype:
        raise UsageError(
            f"{name!r} is {array.dtype}{list(array.shape)}, and the argument {value.dtype}{list(value.shape)}",
            asked="answer", legal="the same type and shape",
        )  # fmt: skip
    return np.array(array, order="C")


def _restrictions(given: Any, parameters: Parameters) -> tuple[Restriction, ...]:
    listed = [given] if callable(given) or isinstance(given, (str, Expr)) else () if given is None else given
    if not isinstance(listed, (list, tuple)):
        raise UsageError(f"{given!r} is no list", asked="restrictions", legal="strings, functions, expressions")
    return tuple(_restriction(r, parameters) for r in listed)


def _restriction(given: Any, parameters: Parameters) -> Restriction:
    if isinstance(given, str):
        e = formula(given, parameters.symbols, "restriction")
        return Restriction(given, e if e.dtype.is_bool else e != 0)
    if isinstance(given, Expr):
        symbols: dict[Expr, Expr] = {}
        for v in variables(given):
            symbol = parameters.symbols.get(v.value.name)
            if not isinstance(symbol, Expr):
                legal = f"parameters: {', '.join(parameters.values)}"
                raise UsageError(f"there is no integer parameter {v!r}", asked=f"restriction {given!r}", legal=legal)
            symbols[v] = symbol
        return Restriction(repr(given), substitute(given, symbols))
    if callable(given):
        return Restriction(_described(given), function=given)
    raise UsageError(f"{given!r} is no restriction", asked="restrictions", legal="strings, functions, expressions")


def _described(fn: Callable[..., Any]) -> str:
    code = getattr(fn, "__code__", None)
    where = f" at {Path(code.co_filename).name}:{code.co_firstlineno}" if code is not None else ""
    return f"{getattr(fn, '__name__', type(fn).__name__)}{where}"


def _warn_of_unused(spec: KernelSpec) -> None:
    """Parameters that decide nothing, and those that the source itself decides."""
    clean = without_comments(spec.source)
    texts = [q.data for q in (*spec.geometry.problem_size, *sum(spec.geometry.grid_div, ()))]
    elsewhere = {n for t in texts if isinstance(t, str) for n in names_in(t)}
    elsewhere |= {n for t in texts if isinstance(t, dict) for n in t["names"]}
    if spec.lang == "OpenCL":
        elsewhere |= set(spec.geometry.block_names)
    for name in spec.parameters.values:
        mentioned = re.search(rf"\b{name}\b", clean) or "#include" in clean
        if not mentioned and name not in elsewhere:
            warnings.warn(f"{spec.name} does not use the parameter {name}", UserWarning, stacklevel=4)
        if re.search(rf"^\s*#\s*define\s+{name}\b", clean, re.M) and not re.search(rf"#\s*ifndef\s+{name}\b", clean):
            text = f"{spec.name} defines {name} itself, which hides the value that is tuned: put #ifndef around it"
            warnings.warn(text, UserWarning, stacklevel=4)


class RawKernelFunction(WorkloadFunction[P]):
    """A function under `@raw_kernel`; call it with its parameters."""

    decorator: ClassVar[str] = "@raw_kernel"

    def __init__(self, fn: Callable[P, object], common: dict[str, Any]) -> None:
        super().__init__(fn, None)
        self.common = common

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> RawKernel:  # type: ignore[override]
        arguments, given = self.called(args, kwargs)
        if not isinstance(given, Mapping):
            legal = "return dict(kernel_source=..., problem_size=..., arguments=..., tune_params=..., answer=...)"
            raise WorkloadError("it did not return a dictionary", asked=f"{self.name}(...)", legal=legal)
        words = {"kernel_name": self.name, **self.common, **given}
        try:
            bound = inspect.signature(make_kernel).bind(**words, params=arguments)
            _check_names(bound.arguments.get("options", {}))
        except TypeError as error:
            raise WorkloadError(str(error), asked=f"{self.name}(...)", legal="the arguments of tune_kernel") from None
        return make_kernel(**words, params=arguments)

    def __repr__(self) -> str:
        return f"<raw kernel {self.name}>"


@overload
def raw_kernel(fn: Callable[P, object], **common: Any) -> RawKernelFunction[P]: ...
@overload
def raw_kernel(fn: None = None, **common: Any) -> Callable[[Callable[P, object]], RawKernelFunction[P]]: ...
def raw_kernel(fn: Callable[..., object] | None = None, **common: Any) -> Any:
    """Declare a kernel for `python -m autosched tune FILE.py:NAME`: a function that returns the arguments of
    `tune_kernel` as a dictionary. Its own parameters are what `--param` sets.

        @raw_kernel(lang="OpenCL", tune_params={"block_size_x": [32, 64, 128]})
        def vector_add(n=1_000_000):
            a, b = np.random.rand(2, n).astype(np.float32)
            return dict(kernel_source=SOURCE, problem_size=n, arguments=[np.zeros_like(a), a, b, np.int32(n)],
                        answer=[a + b, None, None, None])

    The kernel's name is the function's, unless `kernel_name` is given.
    """
    if fn is not None:
        return RawKernelFunction(fn, common)
    return lambda f: RawKernelFunction(f, common)
