"""What the functions of `T` return while a script is read: parts that the reader gives a name and a place.

A = T.match_buffer(a, (8,))         a Named: what it stands for is made once its name is known
T.reads(A[0])                       an Effect
with T.block("B"):                  a Scope
for i in T.serial(8):               Loops
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.errors import UsageError
from autosched.ir.dtype import DType
from autosched.ir.expr import Arithmetic, Expr, as_expr, const
from autosched.ir.simplify import simplify
from autosched.ir.stmt import Buffer, Stmt, load
from autosched.tvm._missing import MissingName

# -- what a script is read into ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BlockAxis:
    """An axis of a block: its variable runs over [start, stop), and is `binding` in the loops around."""

    var: Expr
    kind: str  #: "spatial", "reduce", "scan" or "opaque"
    start: Expr
    stop: Expr
    binding: Expr


@dataclass(eq=False)
class Block:
    """A block, as a statement of a script that has been read."""

    name: str
    where: str  #: the line of the script
    axes: list[BlockAxis] = field(default_factory=list)
    predicate: Expr | None = None
    init: Stmt | None = None
    body: Any = None
    buffers: list[Buffer] = field(default_factory=list)  #: that it allocates
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def name_hint(self) -> str:
        return self.name

    @property
    def annotations(self) -> dict[str, Any]:
        return self.attrs

    def same_as(self, other: object) -> bool:
        return self is other


@dataclass(frozen=True)
class Handle:
    """A parameter that `match_buffer` has not matched yet."""

    name: str


@dataclass
class Signature:
    """The parameters of a function."""

    params: dict[str, Buffer | Expr | Handle] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)  #: of the whole function
    attrs: dict[str, Any] = field(default_factory=dict)
    #: loop -> annotations that ask nothing of it
    remarks: dict[Expr, dict[str, Any]] = field(default_factory=dict)
    constants: dict[Buffer, tuple[Any, ...]] = field(default_factory=dict)  #: buffers of numbers, with these


# -- memory -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class View:
    """Another shape for the memory of a buffer: of all of it, or of a region that begins at some indices."""

    owner: Any
    shape: tuple[Expr, ...]
    dtype: DType
    begin: tuple[Expr, ...] | None = None

    @property
    def data(self) -> Expr:
        """The address of the memory."""
        return self.owner.data  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        return str(self.owner.name)

    def place(self, index: Any) -> tuple[Buffer, tuple[Expr, ...]]:
        """The buffer and the indices of an element."""
        given = tuple(map(as_expr, index if isinstance(index, tuple) else (index,)))
        if len(given) != len(self.shape):
            why = f"it has {len(self.shape)} dimensions, not {len(given)}"
            raise UsageError(why, asked=f"{self.name}[..]", legal="an index for each dimension")
        if self.begin is not None:
            skipped = len(self.begin) - len(given)
            inner = zip(self.begin[skipped:], given, strict=True)
            at: tuple[Expr, ...] = (*self.begin[:skipped], *(b + i for b, i in inner))
        else:
            flat: Expr = const(0)
            for i, extent in zip(given, self.shape, strict=True):
                flat = flat * extent + i
            at = (flat,) if len(self.owner.shape) == 1 else _apart(simplify(flat), self.owner.shape)
        return self.owner.place(at) if isinstance(self.owner, View) else (self.owner, at)

    def __getitem__(self, index: Any) -> Expr:
        buffer, at = self.place(index)
        return load(buffer, *at)


def _apart(flat: Expr, shape: Sequence[Expr]) -> tuple[Expr, ...]:
    """The indices of the element that lies so far from the first one."""
    found: list[Expr] = []
    for extent in reversed(shape[1:]):
        found.append(flat % extent)
        flat = flat // extent
    return (flat, *reversed(found))


# -- parts ---------------------------------------------------------------------------------------------------


class Named:
    """A part that is assigned to a name; `T.int32()` and its like."""

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(f"{type(self).__name__} is one thing, not several")


@dataclass(frozen=True)
class NewVar(Named, Arithmetic[Any]):
    """`n = T.int32()`, and the type of a parameter: `n: T.int32`."""

    dtype: str


@dataclass(frozen=True)
class NewBuffer(Named):
    """A buffer: a parameter of the function, memory of a block (`alloc`), or a view of memory that there is (`of`)."""

    shape: Any
    dtype: str
    kind: str  #: "declared", "alloc", "allocate", "const" or "match"
    of: Any = None
    scope: str = "global"
    strides: Any = None
    offset: Any = None


@dataclass(frozen=True)
class NewAxis(Named):
    """`vi = T.axis.spatial(8, i)`."""

    kind: str
    dom: Any
    binding: Any


@dataclass(frozen=True)
class NewThread(Named):
    """`x = T.env_thread("threadIdx.x")`, and `x = T.launch_thread("threadIdx.x", 8)`."""

    tag: str
    extent: Any = None


@dataclass(frozen=True)
class NewValue(Named):
    """`x = T.let(..)`: a value with a name."""

    value: Any
    dtype: str | None = None


@dataclass(frozen=True)
class Effect:
    """A call that stands alone: `reads`, `writes`, `where`, `block_attr`, `func_attr`, `evaluate`, `attr`, ..."""

    kind: str
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Scope:
    """What a `with` opens: `block`, `init`, `let`, `attr`, `assert`."""

    kind: str
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Loops:
    """What a `for` runs over: one range for each variable."""

    kind: str
    ranges: tuple[tuple[Expr, Expr], ...]  #: start, stop
    thread: str = ""
    annotations: dict[str, Any] = field(default_factory=dict)


def parsed_type(text: str) -> ast.expr | None:
    """A type that is given as text; None where it is no Python."""
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class Unread:
    """A decorated function or class with a name of TVM's that is not here: what is done with it raises the error."""

    def __init__(self, name: str, error: MissingName) -> None:
        self._name, self._error = name, error
        #: why it is no function, for who asks for one
        self.unread_because = f"the script {name} was not read: {error.asked}: {error.why}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._error

    def __getitem__(self, key: Any) -> Any:
        raise self._error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._error

    def __repr__(self) -> str:
        return f"the script {self._name}, which was not read ({self._error.asked}: {self._error.legal}),"
