"""`Traced`: a te tensor that NumPy's functions and operators take for an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from autosched import te
from autosched.errors import UsageError, UsageTypeError, asked_at, with_line
from autosched.ir.expr import Expr, as_expr
from autosched.te.tensor import Tensor
from autosched.topi.elementwise import stretched

Array = np.ndarray[Any, Any]
#: what counts as one number of no fixed type, as NumPy 2 takes it
WEAK = (bool, int, float)
#: why a traced value is not written into an array of NumPy's, and what to write instead
NOT_TRACED = "it is an array of NumPy's, and the result is not known yet"
TO_ASSIGN = "x = f(..), as in x = x + y; or an array that may be assigned to: np.zeros_like(y, shape=..)"


class Trace:
    """One run of a function on traced values: the arrays that it brings along are inputs of its program."""

    def __init__(self) -> None:
        self.is_open = True
        #: placeholder -> the array, as it was when the function met it
        self.constants: dict[Tensor, Array] = {}
        self._known: dict[int, tuple[Array, Tensor]] = {}

    def constant(self, array: Array) -> Tensor:
        """The input that stands for an array of the function's surroundings."""
        found = self._known.get(id(array))
        if found is None:
            copy = np.array(array, order="C")
            t = te.placeholder(copy.shape, element_type(copy.dtype), name=f"constant{len(self._known)}")
            self.constants[t] = copy
            found = self._known[id(array)] = array, t
        return found[1]


_current: ContextVar[Trace | None] = ContextVar("trace", default=None)


def is_tracing() -> bool:
    """Whether a function is being traced."""
    return _current.get() is not None


@contextmanager
def tracing() -> Iterator[Trace]:
    """A trace for what is called inside."""
    trace = Trace()
    token = _current.set(trace)
    try:
        yield trace
    finally:
        trace.is_open = False
        _current.reset(token)


def refuse(asked: str, why: str, legal: str = "") -> NoReturn:
    """Raise UsageTypeError for what cannot be traced, with the user's own line."""
    raise UsageTypeError(why, asked=with_line(asked, asked_at(("autosched", "numpy"))), legal=legal) from None


def element_type(of: Any) -> str:
    """The te type of NumPy's. Raises UsageTypeError for one that there is not."""
    name = np.dtype(of).name
    try:
        te.const(0, name)
    except (UsageError, ValueError):
        refuse(f"an array of {name}", "there is no such element type", "integers, floats and bool")
    return name


class Traced(NDArrayOperatorsMixin):
    """A value of a function that is being traced: no numbers yet, but a shape and a type.

    `weak`: a Python float whose number comes with each call: beside an array it takes the array's type.

    What NumPy would return as a view may be read as long as the whole does not change. Assigning to a part of an array
    (`a[1:-1] += b`) changes the array; to other views it is refused.
    """

    def __init__(
        self,
        tensor: Tensor,
        *,
        weak: bool = False,
        argument: str = "",
        whole: Traced | None = None,
    ) -> None:
        self._tensor, self.weak, self._argument = tensor, weak, argument
        self._version = 0
        self._whole: Traced | None = whole if whole is None or whole._whole is None else whole._whole
        self._seen = 0 if self._whole is None else self._whole._version
        #: the index with which `_whole` gives this view, where one does
        self.key: Any = None
        self._trace = _current.get()

    # -- what it is -------------------------------------------------------------------------------
    def __te_tensor__(self) -> Tensor:
        """The te tensor of its present value."""
        if self._whole is not None and self._whole._version != self._seen:
            refuse(
                "reading a view", "what it is a view of was assigned to since", "take the view again, or .copy() first"
            )
        if self._trace is not None and not self._trace.is_open:
            refuse("a traced value", "the call that it belongs to is over", "return it, in place of keeping it")
        return self._tensor

    @property
    def is_view(self) -> bool:
        return self._whole is not None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(d.value) for d in self._tensor.shape)

    @property
    def ndim(self) -> int:
        return self._tensor.ndim

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._tensor.dtype.numpy

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a value without dimensions")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Traced({self._tensor.name}: {self.dtype}{list(self.shape)})"

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    __hash__ = None  # type: ignore[assignment]  # == is element by element

    def __pow__(self, other: Any) -> Any:
        # As NumPy does: `x ** 2` of an array is `np.square(x)`, of truths in another type than `np.power(x, 2)`.
        if self.ndim and type(other) is int and other == 2:
            return np.square(self)  # type: ignore[call-overload]
        return super().__pow__(other)

    # -- what it is not ---------------------------------------------------------------------------
    def __bool__(self) -> bool:  # noqa: PLE0304
        refuse(
            "if, while, and, or, not of a traced value",
            "its numbers are not known while the function is traced",
            "np.where, np.logical_and; or make the argument `static`",
        )

    def __float__(self) -> float:
        self._number("float()")

    def __int__(self) -> int:
        self._number("int()")

    def __index__(self) -> int:  # noqa: PLE0305
        self._number("an index or a length")

    def item(self, *_: object) -> NoReturn:
        self._number("item()")

    tolist = item

    def _number(self, asked: str) -> NoReturn:
        why = "its numbers are not known while the function is traced"
        refuse(f"{asked} of a traced value", why, "an argument that is a Python int, or is `static`")

    def __array__(self, *_: object, **__: object) -> Array:
        why = "it has no numbers while the function is traced"
        legal = (
            "functions that can be traced: np.stack([..]) of several values, np.zeros_like(x, shape=..) for an array "
        )
        legal += "whose parts are assigned; an array that it is an index of has to be an argument"
        refuse("an array of NumPy's from a traced value", why, legal)

    # -- NumPy's protocols, which the modules beside this one attach ------------------------------
    __array_ufunc__: Callable[..., Any]
    __array_function__: Callable[..., Any]
    __getitem__: Callable[[Any, Any], Any]
    #: the tensor that `x[key] = value` leaves
    with_part: Callable[[Any, Any], Tensor]

    def __getattr__(self, name: str) -> Any:
        """Methods of arrays that are functions of NumPy's, too."""
        if name in METHODS:
            function = getattr(np, METHODS[name])
            return lambda *args, **kwargs: function(self, *args, **kwargs)
        if name.startswith("_"):
            raise AttributeError(name)
        refuse(f"the attribute .{name} of a traced value", "it is not among those that can be traced", _LISTED)

    # -- methods that are not functions of the same kind ------------------------------------------
    def clip(self, min: Any = None, max: Any = None, **kwargs: Any) -> Any:
        """`np.clip`, which before NumPy 2.1 asks for both."""
        return np.clip(self, min, max, **kwargs)

    @property
    def T(self) -> Any:
        return np.transpose(self)  # type: ignore[call-overload]

    @property
    def mT(self) -> Any:
        return np.swapaxes(self, -1, -2)  # type: ignore[call-overload]

    @property
    def real(self) -> Traced:
        return self

    @property
    def flat(self) -> NoReturn:
        refuse(".flat of a traced value", "it iterates over numbers", ".ravel()")

    def astype(self, dtype: Any, *_: object, **__: object) -> Traced:
        to = element_type(dtype)
        x = self.__te_tensor__()
        return computed(self.shape, lambda *i: x(*i).astype(to), "astype")

    def copy(self, *_: object) -> Traced:
        return Traced(self.__te_tensor__())

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """To another shape, given as a tuple or as numbers."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, **options)  # type: ignore[call-overload]

    def transpose(self, *axes: Any) -> Any:
        """With the axes in another order, given as a tuple or as numbers."""
        order = axes[0] if len(axes) == 1 else (axes or None)
        return np.transpose(self, order)  # type: ignore[call-overload]

    def flatten(self) -> Traced:
        return self.reshape(-1).copy()  # type: ignore[no-any-return]

    def fill(self, value: Any) -> None:
        self[...] = value

    # -- parts ------------------------------------------------------------------------------------
    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, Traced) and value._whole is self and value._seen == self._version and value.key is key:
            return  # `a[key] += b` assigns what `+=` has written already
        self.assign(self.with_part(key, value), "an assignment to a part")

    def __call__(self, *indices: Any) -> Expr:
        """The element at indices, as te spells it."""
        return self.__te_tensor__()(*indices)

    def assign(self, tensor: Tensor, asked: str) -> None:
        """Take the value of another tensor: what `a[..] = b` and `a += b` mean."""
        if self._argument:
            why = f"it would change the caller's array {self._argument!r}"
            refuse(asked, why, f"{self._argument} = {self._argument}.copy() first")
        if self._whole is not None:
            if self.key is None:
                why = "it is a view of another array, which would have to change"
                refuse(asked, why, "assign to the whole: a[i, j] =")
            self._whole.assign(self._whole.with_part(self.key, Traced(tensor)), asked)
            self._seen = self._whole._version
        self._tensor = tensor
        self._version += 1


#: methods of arrays -> the functions that they are
METHODS = {name: name for name in (
    "all any argmax argmin cumprod cumsum diagonal dot max mean min prod ptp ravel repeat round squeeze std sum "
    "swapaxes take trace var argsort sort searchsorted nonzero choose compress partition conj conjugate".split()
)}  # fmt: skip
_LISTED = "attributes of arrays: shape, dtype, T, sum, mean, reshape, astype, copy and the like"

Operand = Traced | bool | int | float


def lifted(x: Any, asked: str) -> Operand:
    """An operand of a traced function: traced, or a Python number."""
    if isinstance(x, (Traced, *WEAK)) and not isinstance(x, np.generic):  # np.float64 is a float to Python
        return x
    if isinstance(x, Tensor):
        return Traced(x)
    if hasattr(x, "__array__") or isinstance(x, (list, tuple)):
        if isinstance(x, (list, tuple)) and any(isinstance(v, (Traced, Tensor)) for v in x):
            stacked: Any = np.stack(list(x))
            return stacked  # type: ignore[no-any-return]
        array = np.asarray(x)
        trace = _current.get()
        if array.dtype == object:
            refuse(asked, f"{x!r:.60} is no array of numbers")
        if array.ndim == 0:
            value, of = array.item(), element_type(array.dtype)
            return computed((), lambda: te.const(value, of), "constant")
        if trace is None:
            refuse(asked, "an array beside a te tensor, outside of autosched.jit", "a te.placeholder for it")
        return Traced(trace.constant(array))
    refuse(asked, f"{type(x).__name__} is neither an array nor a number")


def value(x: Any, asked: str) -> Traced:
    """An operand as a traced value; a number gets the type that NumPy gives it."""
    found = lifted(x, asked)
    if isinstance(found, Traced):
        return found
    return computed((), lambda: te.const(found, element_type(np.asarray(found).dtype)), "constant")


def released(found: Any) -> Any:
    """What a function of NumPy's gives for te tensors: traced values; outside of `jit`, te tensors again."""
    if _current.get() is not None:
        return found
    if isinstance(found, (tuple, list)):
        return type(found)(map(released, found))
    return found.__te_tensor__() if isinstance(found, Traced) else found


def computed(shape: Sequence[Any], f: Callable[..., Any], name: str, *, whole: Traced | None = None) -> Traced:
    """The traced value with `f` of its indices for elements; `whole` is what it is a view of."""
    return Traced(te.compute(tuple(shape), f, name=name), whole=whole)


def element(x: Operand, index: Sequence[Expr], shape: Sequence[int], of: str) -> Expr:
    """The element of an operand that is stretched to a shape, converted."""
    if not isinstance(x, Traced):
        return te.const(x, of)
    return as_expr(stretched(x.__te_tensor__(), index, shape)).astype(of)
