"""Statements written as Python, such as the body of `te.extern`.

    ib = create()
    data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, n, name="i", kind="parallel") as i:
        with ib.if_scope(data[i] > 0):
            result[i] = data[i]
        with ib.else_scope():
            result[i] = te.const(0.0, "float32")
    body = ib.get()

Statements go into the innermost open scope. `let`, `allocate` and `scope_attr` (without `with`) take the rest of the
scope as their body, and end with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from autosched.errors import UsageError, asked_at
from autosched.ir import stmt as S
from autosched.ir.attached import alias
from autosched.ir.calls import address_of
from autosched.ir.dtype import INT32
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, convert_pair, likely, var
from autosched.ir.stmt import Buffer, Stmt

_KINDS = {"vectorized": "vectorize", "unrolled": "unroll"}
Rest = Callable[[Stmt], Stmt]


class BufferVar:
    """A buffer whose elements are read and written by indexing: `A[i, j]`, or `A[offset]` into flat memory."""

    def __init__(self, builder: IRBuilder, buffer: Buffer) -> None:
        self._builder = builder
        self.buffer = buffer

    dtype, shape = alias("buffer.dtype"), alias("buffer.shape")

    def asobject(self) -> Buffer:
        return self.buffer

    def access_ptr(self, access_mask: str = "rw", offset: object = 0) -> Expr:
        """The address of an element, for `call_extern`. The mask is a hint."""
        return address_of(self.buffer, offset)

    def _indices(self, index: Any) -> tuple[Expr, ...]:
        given = tuple(map(as_expr, index if isinstance(index, tuple) else (index,)))
        if len(given) not in (1, len(self.shape)):
            raise UsageError(
                f"{self.buffer.name} has {len(self.shape)} dimensions, not {len(given)}",
                asked=asked_at() or f"{self.buffer.name}[...]",
                legal="an index for each dimension, or one offset into its memory",
            )
        return given

    def __getitem__(self, index: Any) -> Expr:
        return S.load(self.buffer, *self._indices(index))

    def __setitem__(self, index: Any, value: object) -> None:
        at = self._indices(index)
        e = as_expr(value, self.buffer.dtype)
        if e.dtype.scalar != self.buffer.dtype:
            raise UsageError(
                f"a {e.dtype} does not fit into {self.buffer.name}, which holds {self.buffer.dtype}",
                asked=asked_at() or f"{self.buffer.name}[...] = {e!r}",
                legal=f"cast it: value.astype({str(self.buffer.dtype)!r})",
            )
        self._builder.emit(S.Store(self.buffer, at, e))


class IRBuilder:
    """Collects statements; `get` returns them as one."""

    def __init__(self) -> None:
        self._scopes: list[list[Stmt | Rest]] = [[]]

    @contextmanager
    def _scope(self, finish: Callable[[Stmt], None]) -> Iterator[None]:
        """A scope whose statements go to `finish`, unless it is left by an exception."""
        self._scopes.append([])
        depth = len(self._scopes)
        try:
            yield
        except BaseException:
            del self._scopes[depth - 1 :]
            raise
        finish(_closed(self._scopes.pop()))

    @contextmanager
    def new_scope(self) -> Iterator[None]:
        """A scope with which `let`, `allocate` and `scope_attr` end."""
        with self._scope(self.emit):
            yield

    def emit(self, stmt: Stmt | Expr | Rest) -> None:
        """Append a statement, a call for its effect, or a function from the rest of the scope to a statement."""
        if isinstance(stmt, Expr) and stmt.op != "call":
            raise UsageError("it is no call", asked=f"emit({stmt!r})", legal="a statement, or a call for its effect")
        self._scopes[-1].append(S.Evaluate(stmt) if isinstance(stmt, Expr) else stmt)

    @contextmanager
    def for_range(
        self, begin: object, end: object, name: str = "i", dtype: object = None, kind: str = "serial"
    ) -> Iterator[Expr]:
        """`for name in [begin, end)`; `kind`: serial, parallel, vectorize(d), unroll(ed)."""
        of = INT32 if dtype is None else to_dtype(dtype)
        word = _KINDS.get(kind, kind)
        if word not in S.LOOP_KINDS or word == "thread":
            legal = "serial, parallel, vectorize, unroll"
            raise UsageError(f"no loop of kind {kind!r}", asked="for_range", legal=legal)
        first, last = convert_pair(begin, end)
        loop = var(name, of, "loop")
        with self._scope(lambda body: self.emit(S.For(loop, first, last - first, word, body))):
            yield loop

    @contextmanager
    def while_loop(self, condition: object) -> Iterator[None]:
        """`while condition`: it reads memory that the body writes."""
        with self._scope(lambda body: self.emit(S.While(as_expr(condition), body))):
            yield

    @contextmanager
    def if_scope(self, condition: object) -> Iterator[None]:
        with self._scope(lambda body: self.emit(S.If(as_expr(condition), body))):
            yield

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The other branch of the `if_scope` just before."""
        last = self._scopes[-1][-1] if self._scopes[-1] else None
        if not isinstance(last, S.If) or last.otherwise is not None:
            raise UsageError("no if_scope ends just before it", asked="else_scope", legal="with ib.if_scope(...) first")

        def finish(body: Stmt) -> None:
            self._scopes[-1][-1] = S.If(last.condition, last.then, body)

        with self._scope(finish):
            yield

    def let(self, name: str, value: object) -> Expr:
        """A variable with that value, for the rest of the scope."""
        e = as_expr(value)
        v = var(name, e.dtype, "let")
        self.emit(lambda rest: S.Let(v, e, rest))
        return v

    def allocate(self, dtype: object, shape: object, name: str = "buf", scope: str | None = None) -> BufferVar:
        """Memory for the rest of the scope: `global` (the default), `shared` or `local`."""
        if scope not in (None, "", "global", "shared", "local"):
            raise UsageError(f"no scope {scope!r}", asked=f"allocate {name}", legal="global, shared, local")
        made = self.pointer(dtype, name, scope or "", shape)
        self.emit(lambda rest: S.Allocate(made.buffer, rest))
        return made

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> _Attribute:
        """`thread_extent`: the rest of the scope (or of a `with`) runs for each index of a hardware axis.

        The axis is `te.thread_axis(tag)`, which then stands for the index.
        """
        if attr_key not in ("thread_extent", "virtual_thread"):
            raise UsageError(
                f"the attribute {attr_key!r} means nothing here",
                asked=f"scope_attr(..., {attr_key!r}, {value!r})",
                legal="thread_extent; memory scopes are an argument of allocate, and kinds of loops one of for_range",
            )
        tag = str(getattr(node, "thread_tag", ""))
        if tag not in (*S.THREAD_TAGS, S.VTHREAD):
            raise UsageError(
                f"{node!r} is no hardware axis", asked="scope_attr", legal='te.thread_axis("blockIdx.x") and its like'
            )
        index, extent = node.var, as_expr(value)
        zero = as_expr(0)
        return _Attribute(self, lambda rest: S.For(index, zero, extent, "thread", rest, tag))

    def buffer_ptr(self, buf: Buffer, shape: object = None) -> BufferVar:
        """A buffer (of `te.extern`, say) for reading and writing."""
        return BufferVar(self, buf)

    def pointer(self, content_type: object, name: str = "ptr", scope: str = "", shape: object = 0) -> BufferVar:
        """Memory that the caller passes: a buffer of its own, which becomes a parameter of a function."""
        dims = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        return BufferVar(self, Buffer(name, tuple(map(as_expr, dims)), to_dtype(content_type), scope or "global"))

    def likely(self, expr: object) -> Expr:
        """A condition that holds nearly always: loops are partitioned on it."""
        return likely(as_expr(expr))

    def get(self) -> Stmt:
        """All that was written, as one statement. Raises UsageError inside a scope."""
        if len(self._scopes) != 1:
            raise UsageError(f"{len(self._scopes) - 1} scopes are still open", asked="get", legal="leave each `with`")
        stmt = _closed(self._scopes[0])
        self._scopes = [[]]
        return stmt


class _Attribute:
    """An attribute by `scope_attr`: it ends with the `with` that it is used in, else with the scope around it."""

    def __init__(self, builder: IRBuilder, wrap: Rest) -> None:
        self._builder, self._wrap = builder, wrap
        self._scope: Any = None
        builder.emit(wrap)

    def __enter__(self) -> None:
        assert self._builder._scopes[-1].pop() is self._wrap
        self._scope = self._builder._scope(lambda body: self._builder.emit(self._wrap(body)))
        self._scope.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._scope.__exit__(*error)


def _closed(parts: Sequence[Stmt | Rest]) -> Stmt:
    """The statements of a scope; a function among them takes all that follow."""
    rest: Stmt = S.Seq(())
    for part in reversed(parts):
        rest = part(rest) if callable(part) else S.seq(part, rest)
    return rest


def create() -> IRBuilder:
    """A builder with nothing in it.

    >>> from autosched.ir.expr import const
    >>> ib = create()
    >>> squares = ib.allocate("int32", 4, name="squares")
    >>> with ib.for_range(0, 4, name="i") as i:
    ...     squares[i] = i * i
    >>> from autosched.ir.printer import format_stmt
    >>> print(format_stmt(ib.get()))
    allocate squares: int32[4] global
    for (i, 0, 4) {
      squares[i] = i*i
    }
    """
    return IRBuilder()
