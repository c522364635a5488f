"""The te program of a function of arrays: its arguments as traced values, what it returned as results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched import te
from autosched.errors import UsageError, UsageTypeError, with_line
from autosched.graph.group import MOST_OPERATIONS
from autosched.graph.model import Graph as Model
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.dtype import numpy_dtype
from autosched.ir.printer import file_name
from autosched.runtime.arguments import is_resident
from autosched.runtime.ndarray import shared
from autosched.space.workload import Workload
from autosched.te.tensor import ComputeOp, Graph, PlaceholderOp, Tensor
from autosched.tracing.batching import batched
from autosched.tracing.traced import Traced, element_type, tracing, value

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Slot:
    """A result that is an array: its place among all."""

    number: int


@dataclass(frozen=True)
class Program:
    """What tracing a function gave.

    program:   what is compiled, tuned and recorded: arguments, constants, results
    cut:       whether it is cut into several kernels, like a model
    used:      the arrays among the arguments that it reads, by number
    constants: the arrays of the function's surroundings
    result:    what it returns, with `Slot`s for arrays
    """

    program: Workload
    cut: bool
    used: tuple[int, ...]
    constants: tuple[Array, ...]
    result: Any

    def model(self) -> Model:
        """The program as a graph, to be cut into kernels."""
        w = self.program
        outputs = {f"out{k}": t for k, t in enumerate(w.outputs)}
        return Model(w.name, {f"in{k}": t for k, t in enumerate(w.inputs)}, outputs, {})


def trace(
    fn: Callable[..., Any],
    name: str,
    args: Sequence[tuple[str, Any]],
    kwargs: Mapping[str, Any],
    static: Sequence[str] = (),
    over: Sequence[str] | None = None,
) -> Program:
    """Run a function on traced values.

    args:   its positional arguments with the names of their parameters
    static: parameters whose values are compiled in
    over:   for a batch, the parameters whose arrays have the leading axis

    Raises UsageTypeError for what cannot be traced, UsageError where nothing that was traced is returned.
    """
    name = file_name(name if name.isidentifier() else "function")
    made = _Arguments(name, static, over)
    with tracing() as surroundings:
        given = [made.traced(parameter, a) for parameter, a in args]
        named = {k: made.traced(k, v) for k, v in kwargs.items()}
        outputs: list[Tensor] = []
        result = _result(fn(*given, **named), outputs, name)
    if not outputs:
        why, legal = "it returned no traced value", "return what is computed of its arguments"
        raise UsageError(why, asked=with_line(f"{name}(..)"), legal=legal)
    inputs = [*made.placeholders, *surroundings.constants]
    if over is not None:
        found = batched(made.length(), made.chosen, outputs)
        inputs, outputs = [found.inputs.get(t, t) for t in inputs], found.outputs
    outputs = [_own(t, outputs[:k]) for k, t in enumerate(outputs)]
    graph = Graph.of(outputs)
    read = {op.output_tensor for op in graph.ops if isinstance(op, PlaceholderOp)}
    count = len(made.placeholders)
    used = tuple(k for k, t in enumerate(inputs[:count]) if t in read)
    constants = [(t, x) for t, x in zip(inputs[count:], surroundings.constants.values(), strict=True) if t in read]
    tensors = (*(inputs[k] for k in used), *(t for t, _ in constants), *outputs)
    cut = sum(isinstance(op, ComputeOp) for op in graph.ops) > MOST_OPERATIONS
    return Program(Workload(name, tensors, is_anonymous=True), cut, used, tuple(x for _, x in constants), result)


class _Arguments:
    """Placeholders for the arrays and floats among the arguments of a call."""

    def __init__(self, name: str, static: Sequence[str], over: Sequence[str] | None) -> None:
        self.name, self.static, self.over = name, static, over or ()
        self.placeholders: list[Tensor] = []
        #: those with the leading axis of a batch, and the lengths of theirs
        self.chosen: list[Tensor] = []
        self.lengths: set[int] = set()
        self._names: set[str] = set()

    def traced(self, parameter: str, a: Any) -> Any:
        """What the function gets for an argument."""
        if parameter in self.static:
            return a
        if type(a) in (tuple, list):
            return type(a)(self.traced(parameter, v) for v in a)
        if type(a) is dict:
            return {k: self.traced(parameter, v) for k, v in a.items()}
        if type(a) is float:
            return Traced(self._placeholder(parameter, (), "float64"), weak=True, argument=parameter)
        if not is_array(a):
            return a
        shape = tuple(a.shape)
        if parameter in self.over:
            if not shape:
                raise UsageError(f"{parameter!r} has no leading axis", asked=f"{self.name}.batched", legal="over=..")
            self.lengths.add(shape[0])
            shape = shape[1:]
        t = self._placeholder(parameter, shape, element_type(dtype_of(a)))
        if parameter in self.over:
            self.chosen.append(t)
        return Traced(t, argument=parameter)

    def _placeholder(self, parameter: str, shape: tuple[int, ...], of: str) -> Tensor:
        label = file_name(parameter if parameter.isidentifier() else "argument")
        called = f"{label}{len(self.placeholders)}" if label in self._names else label
        self._names.add(label)
        self.placeholders.append(te.placeholder(shape, of, name=called))
        return self.placeholders[-1]

    def length(self) -> int:
        """The length of the leading axis. Raises UsageError where there is no such one."""
        if len(self.lengths) == 1:
            return next(iter(self.lengths))
        why = f"leading axes of {sorted(self.lengths)}" if self.lengths else "no array has a leading axis"
        raise UsageError(why, asked=f"{self.name}.batched", legal="arrays with leading axes of one length")


def _own(t: Tensor, before: Sequence[Tensor]) -> Tensor:
    """A result of its own: an argument, or one returned twice, is copied."""
    if isinstance(t.op, PlaceholderOp) or t in before:
        return te.compute(t.shape, lambda *i: t(*i), name="copy")
    return t


# -- arguments and results -----------------------------------------------------------------------------
def is_array(a: Any) -> bool:
    """Whether an argument is an array. Raises UsageTypeError for masked arrays and matrices, whose operators mean
    something else."""
    if isinstance(a, (np.ma.MaskedArray, np.matrix)):
        asked = with_line("a call of a jitted function")
        raise UsageTypeError(f"{type(a).__name__} computes by rules of its own", asked=asked, legal="a plain array")
    return isinstance(a, (np.ndarray, np.generic)) or hasattr(a, "__dlpack__")


def dtype_of(a: Any) -> Any:
    """The type of an array's elements, as NumPy's."""
    of = a.dtype
    if isinstance(of, np.dtype):
        return of
    name = str(of).rpartition(".")[2]  # `torch.float32`
    return numpy_dtype(to_dtype(name))


def described(a: Any, arrays: list[Any]) -> Any:
    """What of an argument decides the program: shape and type of an array, the value of what is none. Arrays are
    collected."""
    if type(a) is np.ndarray or is_array(a):
        arrays.append(a)
        return a.shape, a.dtype
    if type(a) is float:
        arrays.append(a)
        return float
    if type(a) in (tuple, list):
        return type(a), tuple([described(v, arrays) for v in a])
    if type(a) is dict:
        return dict, tuple([(k, described(v, arrays)) for k, v in a.items()])
    return static(a)


def static(a: Any) -> Any:
    """A value that is compiled in. Raises UsageTypeError for one that cannot be compared."""
    try:
        hash(a)
    except TypeError:
        why = f"{type(a).__name__} is no array, and has no hash to tell one from another"
        raise UsageTypeError(
            why, asked=with_line("a call of a jitted function"), legal="arrays, numbers, tuples"
        ) from None
    return type(a), a


def is_plain(a: Any) -> bool:
    """Whether an argument is an array that compiled code takes as it is."""
    return type(a) is np.ndarray and a.flags.c_contiguous and a.dtype.isnative


def plain_array(a: Any) -> Any:
    """An argument as an array in C order over the same memory, where that can be; a number as an array."""
    if type(a) is float:
        return np.array(a)
    if is_resident(a):
        return a
    if not isinstance(a, (np.ndarray, np.generic)):
        detach = getattr(a, "detach", None)  # of PyTorch's: results have no gradients
        try:
            a = shared(a if detach is None else detach())
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            why, asked = f"NumPy cannot see its memory: {error}", with_line("a call of a jitted function")
            raise UsageTypeError(why, asked=asked, legal="an array on the CPU, or one of autosched.nd") from None
    a = np.asarray(a)
    return np.ascontiguousarray(a, a.dtype.newbyteorder("=")) if a.ndim else np.array(a)


def _result(returned: Any, outputs: list[Tensor], name: str) -> Any:
    """What a function returned, with slots for traced values, which are collected."""
    if isinstance(returned, (Traced, Tensor)):
        outputs.append(returned.__te_tensor__() if isinstance(returned, Traced) else returned)
        return Slot(len(outputs) - 1)
    if isinstance(returned, (np.ndarray, np.generic)):
        return _result(value(returned, f"what {name} returns"), outputs, name)
    if type(returned) in (tuple, list):
        return type(returned)(_result(v, outputs, name) for v in returned)
    if type(returned) is dict:
        return {k: _result(v, outputs, name) for k, v in returned.items()}
    return returned


def restored(result: Any, found: Sequence[Array]) -> Any:
    """A result with arrays in place of slots."""
    return mapped(result, lambda v: found[v.number] if type(v) is Slot else v)


def mapped(result: Any, f: Callable[[Any], Any]) -> Any:
    if type(result) in (tuple, list):
        return type(result)(mapped(v, f) for v in result)
    if type(result) is dict:
        return {k: mapped(v, f) for k, v in result.items()}
    return f(result)
