"""Hybrid scripts of tensors: read into an operation.

A name that is assigned more than once, or used outside of the block that assigns it, is a number in memory; any other
is a value with a name.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import takewhile
from typing import Any

import numpy as np

from autosched import te
from autosched.errors import UsageError
from autosched.ir import expr as ir
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, const, is_const
from autosched.ir.stmt import (
    THREAD_TAGS,
    Allocate,
    Buffer,
    For,
    Let,
    Seq,
    Stmt,
    Store,
    expressions,
    load,
    map_stmt,
    seq,
    walk,
)
from autosched.ir.visit import post_order, rewrite, substitute
from autosched.lowering.storage import retarget
from autosched.te.extern import ExternOp
from autosched.te.tensor import Tensor
from autosched.tvm.promotion import by_tvm_rules
from autosched.tvm.reading import Reader, Source
from autosched.tvm.te.hybrid import runtime

_KINDS = {name: name for name in ("parallel", "vectorize", "unroll")} | {"range": "serial", "serial": "serial"}


def script(pyfunc: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function as a hybrid script.

    Called with tensors and variables, it returns the tensor, or a list of tensors, that the script computes; called
    with arrays and numbers, it runs. Memory of `output_tensor` and `allocate` begins with zeros both ways. An input
    that the script writes to is copied first: the caller's array stays as it is. Raises UsageError, with the line, for
    what a script cannot say.

    >>> import numpy as np
    >>> @script
    ... def double(a):
    ...     b = output_tensor(a.shape, a.dtype)
    ...     for i in range(a.shape[0]):
    ...         b[i] = a[i] * 2
    ...     return b
    >>> double(np.arange(3, dtype="int32"))
    array([0, 2, 4], dtype=int32)
    """

    @wraps(pyfunc)
    def scripted(*args: Any, **kwargs: Any) -> Any:
        if any(map(_is_symbolic, args)):
            return _operation_of(pyfunc, args)
        return runtime.emulated(pyfunc)(*args, **kwargs)

    scripted.__hybrid_script__ = pyfunc  # type: ignore[attr-defined]
    return scripted


def _is_symbolic(value: Any) -> bool:
    """Return whether an argument belongs to a program, rather than being a number or an array."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_symbolic, value))
    return isinstance(value, (Tensor, Expr))


@by_tvm_rules
def _operation_of(pyfunc: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Return the tensor that a script computes from these arguments; a list, where it returns several."""
    source = Source.of(pyfunc, {})
    tensors = list(dict.fromkeys(t for a in args for t in _tensors(a)))
    buffers = {t: Buffer(t.name, t.shape, t.dtype) for t in tensors}
    reader = _Script(source, is_outermost=True)
    results = reader.run([_on_buffers(a, buffers) for a in args])
    body = reader.out.get()
    op = _as_compute(body, results, buffers) or _opaque(body, results, buffers, pyfunc, args)
    return op.outputs[0] if len(op.outputs) == 1 else list(op.outputs)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for v in value:
            yield from _tensors(v)


def _on_buffers(value: Any, buffers: dict[Tensor, Buffer]) -> Any:
    if isinstance(value, (list, tuple)) and not any(_tensors(value)):
        return np.array(_numbers(value), object)  # for indices such as b[i, j]; its elements stay Python's
    if isinstance(value, (list, tuple)):
        return [_on_buffers(v, buffers) for v in value]
    if isinstance(value, Expr) and value.op == "const":
        return value.value
    return buffers[value] if isinstance(value, Tensor) else value


def _numbers(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_numbers(v) for v in value]
    return value.value if isinstance(value, Expr) and value.op == "const" else value


# -- the script ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Loop:
    """What a `for` runs over."""

    kind: str
    start: Any
    stop: Any
    thread: str = ""

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a loop stands in a `for` of the script")


@dataclass
class _Number:
    """A number in memory; its type is that of what is assigned first."""

    name: str
    buffer: Buffer | None = None

    def around(self, rest: Stmt) -> Stmt:
        return rest if self.buffer is None else Allocate(self.buffer, rest)


def _ranged(kind: str) -> Callable[..., _Loop]:
    def made(*bounds: Any) -> _Loop:
        start, stop = bounds if len(bounds) == 2 else (0, *bounds)
        return _Loop(kind, start, stop)

    return made


def _bind(tag: str, extent: Any) -> _Loop:
    if tag not in (*THREAD_TAGS, "vthread"):
        raise UsageError(f"{tag!r} is no hardware axis", asked=f"bind({tag!r}, ..)", legal=", ".join(THREAD_TAGS))
    return _Loop("thread", 0, extent, tag)


def _least(op: str, of_numbers: Callable[..., Any]) -> Callable[..., Any]:
    def made(*values: Any) -> Any:
        if not any(isinstance(v, Expr) for v in values):
            return of_numbers(*values)
        found = values[0]
        for v in values[1:]:
            found = ir.binary(op, found, v)
        return found

    return made


def _length(value: Any) -> Any:
    return value.shape[0] if isinstance(value, Buffer) else len(value)


def _bound(of: Callable[[str], Expr]) -> Callable[[str], Any]:
    return lambda dtype: of(dtype)


_TYPES = [name for name in runtime.HYBRID_GLOBALS if name.rstrip("0123456789") in ("int", "uint", "float")]
_NAMES: dict[str, Any] = {
    **{name: _ranged(kind) for name, kind in _KINDS.items()},
    **{name: getattr(te, name) for name in ("sqrt", "rsqrt", "log", "exp", "tanh", "sigmoid", "power", "round")},
    **{name: (lambda x, of=name: ir.cast(of, as_expr(x))) for name in _TYPES},
    "popcount": te.popcount,
    "likely": te.likely,
    "min": _least("min", min),
    "max": _least("max", max),
    "len": _length,
    "bind": _bind,
    "ceil_div": lambda a, b: (a + b - 1) // b,
    "max_num_threads": runtime.max_num_threads,
    "inf": _bound(te.max_value),
    "ninf": _bound(te.min_value),
}


@dataclass
class _Script(Reader):
    """One call of a script; `finished` are the statements of the outermost one."""

    is_outermost: bool = False
    made: dict[str, list[Buffer]] = field(default_factory=dict)  #: by output_tensor and by allocate
    results: Any = None
    _homes: dict[str, int] = field(default_factory=dict)

    legal = "for over range, serial, parallel, vectorize, unroll, const_range or bind; if, assignments, one last return"

    def run(self, args: Sequence[Any]) -> list[Buffer]:
        """Read the body; return what the script returns."""
        tree = self.source.tree
        assert isinstance(tree, ast.FunctionDef)
        named = tree.args.posonlyargs + tree.args.args
        if len(named) != len(args) or tree.args.vararg or tree.args.kwonlyargs:
            self.refuse(tree, f"it is called with {len(args)} arguments", f"{len(named)}, by position")
        self.names = ChainMap({}, dict(zip((a.arg for a in named), args, strict=True)), self._calls())
        self._homes = _homes_of(tree)
        self.body(tree.body)
        if self.results is None:
            self.refuse(tree, "it returns nothing", "return what output_tensor made, in the last line")
        return self.results

    def _calls(self) -> dict[str, Any]:
        def memory(kind: str) -> Callable[..., Buffer]:
            def made(shape: Any, dtype: Any = "float32", scope: str = "global") -> Buffer:
                dims = tuple(map(as_expr, shape)) if isinstance(shape, (list, tuple)) else (as_expr(shape),)
                b = Buffer(kind, dims, to_dtype(str(dtype)), scope or "global")
                self.made.setdefault(kind, []).append(b)
                return b

            return made

        return {**_NAMES, "output_tensor": memory("output_tensor"), "allocate": memory("allocate")}

    def body(self, body: Sequence[ast.stmt]) -> None:
        """Read a block, with the numbers that live in it."""
        for name, home in self._homes.items():
            if home == id(body):
                number = self.names.maps[0][name] = _Number(name)
                self.out.emit(number.around)
        self.statements(body)

    def look_up(self, name: str, node: ast.AST) -> Any:
        found = super().look_up(name, node)
        if not isinstance(found, _Number):
            script = getattr(found, "__hybrid_script__", None)
            return found if script is None else lambda *args: self._inline(script, args, node)
        if found.buffer is None:
            self.refuse(node, f"{name} has no value yet", f"{name} = .. before")
        return load(found.buffer, const(0))

    def _inline(self, script: Callable[..., Any], args: Sequence[Any], node: ast.AST) -> Any:
        called = _Script(Source.of(script, {}), self.out)
        results = called.run(args)
        for kind in called.made.values():
            self.made.setdefault("allocate", []).extend(kind)
        return results[0] if len(results) == 1 else tuple(results)

    # -- statements ----------------------------------------------------------------------------------
    def visit_Expr(self, node: ast.Expr) -> None:
        """A string explains; a call may have an effect."""
        if not isinstance(node.value, ast.Constant):
            made = self.value(node.value)
            if isinstance(made, Expr) and made.op == "call":
                self.out.emit(made)

    def visit_Return(self, node: ast.Return) -> None:
        if node is not self.source.tree.body[-1] or node.value is None:
            self.refuse(
                node, "it returns before its end, or nothing", "return what output_tensor made, in the last line"
            )
        found = self.value(node.value)
        self.results = list(found) if isinstance(found, (list, tuple)) else [found]
        for b in self.results:
            if not any(b is x for x in self.made.get("output_tensor", ())):
                self.refuse(node, f"{b!r} is no output_tensor of it", "what output_tensor((n, m), dtype) returned")

    def visit_If(self, node: ast.If) -> None:
        condition = self.value(node.test)
        if not isinstance(condition, Expr):
            self.statements(node.body if condition else node.orelse)
            return
        with self.out.if_scope(condition), self.scope():
            self.body(node.body)
        if node.orelse:
            with self.out.else_scope(), self.scope():
                self.body(node.orelse)

    def visit_For(self, node: ast.For) -> None:
        if not isinstance(node.target, ast.Name) or node.orelse:
            self.refuse(node, "a loop has one variable, and no else", "for i in range(n)")
        with self.scope():
            over = self._over(node.iter)
            if not isinstance(over, _Loop):  # const_range: written out now
                for i in over:
                    self.names[node.target.id] = i
                    with self.scope():
                        self.body(node.body)
                return
            start, stop = map(as_expr, (over.start, over.stop))
            of = "int64" if "int64" in (start.dtype, stop.dtype) else "int32"
            loop = ir.var(node.target.id, of, "loop")

            def finish(body: Stmt) -> None:
                self.out.emit(For(loop, start, stop - start, over.kind, body, over.thread))

            self.names[node.target.id] = loop
            with self.out.collecting(finish), self.scope():
                self.body(node.body)

    def _over(self, e: ast.expr) -> Any:
        is_const_range = isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id == "const_range"
        if not is_const_range:
            over = self.value(e)
            return over if isinstance(over, _Loop) else self.refuse(e, "it is nothing to loop over", self.legal)
        bounds = [self.value(a) for a in e.args]  # type: ignore[attr-defined]
        numbers = [b.value if isinstance(b, Expr) and b.op == "const" else b for b in bounds]
        if not all(isinstance(n, int) for n in numbers):
            self.refuse(e, f"const_range of {', '.join(map(repr, numbers))}", "numbers, known when the script is read")
        return range(*numbers)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        read = ast.copy_location(ast.BinOp(_as_read(node.target), node.op, node.value), node)
        self.assign(node.target, read)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self.assign(target, node.value)

    def assign(self, target: ast.expr, e: ast.expr) -> None:
        """`target = e`."""
        if isinstance(target, ast.Tuple) and isinstance(e, ast.Tuple) and len(target.elts) == len(e.elts):
            for one, value in zip(target.elts, e.elts, strict=True):
                self.assign(one, value)
            return
        value = self.value(e)
        if isinstance(target, ast.Subscript):
            where, index = self.value(target.value), self.value(target.slice)
            if not isinstance(where, Buffer):
                self.refuse(target, f"{ast.unparse(target.value)} is no tensor", "a tensor, or what allocate returned")
            self._store(where, index, value)
        elif isinstance(target, ast.Name):
            self._name(target.id, value, target)
        elif isinstance(target, ast.Tuple) and len(target.elts) == len(value):
            for one, part in zip(target.elts, value, strict=True):
                self._name(one.id, part, one) if isinstance(one, ast.Name) else self.refuse(one, "it is no name")
        else:
            self.refuse(target, "it cannot be assigned to", "a name, or a tensor's element")

    def _store(self, b: Buffer, index: Any, value: Any) -> None:
        indices = tuple(map(as_expr, index if isinstance(index, tuple) else (index,)))
        if len(indices) != len(b.shape):
            raise UsageError(f"{b.name} has {len(b.shape)} dimensions, not {len(indices)}", legal="an index for each")
        self.out.emit(Store(b, indices, ir.cast(b.dtype, as_expr(value))))

    def _name(self, name: str, value: Any, node: ast.AST) -> None:
        if isinstance(value, Buffer) and any(value is b for made in self.made.values() for b in made):
            self._name_memory(name, value)
            return
        number = self.names.get(name)
        if isinstance(number, _Number) and isinstance(value, (int, float, Expr)):
            e = as_expr(value)
            if number.buffer is None:
                number.buffer = Buffer(name, (const(1),), e.dtype, "local")
            self._store(number.buffer, 0, e)
        elif isinstance(value, Expr) and any(n.op == "load" for n in post_order(value)):
            self.names[name] = self.out.let(name, value)
        else:
            self.names[name] = value

    def _name_memory(self, name: str, b: Buffer) -> None:
        """Give memory the name that it is assigned to."""
        if b.name not in ("output_tensor", "allocate"):
            self.names[name] = b
            return
        object.__setattr__(b, "name", name)
        self.names[name] = b
        if not (self.is_outermost and b in self.made.get("output_tensor", ())):
            self.out.emit(lambda rest: Allocate(b, rest))
            return
        self.out.emit(lambda rest: rest if self.results and b in self.results else Allocate(b, rest))


def _as_read(target: ast.expr) -> ast.expr:
    return ast.copy_location(type(target)(**{**dict(ast.iter_fields(target)), "ctx": ast.Load()}), target)


def _homes_of(tree: ast.FunctionDef) -> dict[str, int]:
    """For each name that is a number in memory, the innermost block with all that is said of it."""
    places: dict[str, list[tuple[int, ...]]] = {}
    stores: dict[str, list[tuple[int, ...]]] = {}
    changed: set[str] = set()

    def visit(node: ast.AST, path: tuple[int, ...]) -> None:
        if isinstance(node, ast.Name):
            places.setdefault(node.id, []).append(path)
            if isinstance(node.ctx, ast.Store):
                stores.setdefault(node.id, []).append(path)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            changed.add(node.target.id)
        for name, part in ast.iter_fields(node):
            if isinstance(part, list):
                below = (*path, id(part)) if name in ("body", "orelse") else path
                for child in part:
                    if isinstance(child, ast.AST):
                        visit(child, below)
            elif isinstance(part, ast.AST) and not (isinstance(node, ast.For) and part is node.target):
                visit(part, path)

    for statement in tree.body:
        visit(statement, (id(tree.body),))
    homes: dict[str, int] = {}
    for name, found in stores.items():
        common = found[0]
        for path in places[name]:
            common = tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(common, path, strict=False)))
        if len(found) > 1 or name in changed or common != found[0]:
            homes[name] = common[-1]
    return homes


# -- operations ------------------------------------------------------------------------------------------


def _loads(s: Stmt) -> set[Buffer]:
    return {e.value for x in walk(s) for top in expressions(x) for e in post_order(top) if e.op == "load"}


def _as_compute(nest: Stmt, results: Sequence[Buffer], buffers: dict[Tensor, Buffer]) -> Any:
    """The `te.compute` of a script that is one nest of plain loops around one store; None for any other."""
    loops = []
    while isinstance(nest, For) and nest.kind == "serial" and is_const(nest.start, 0):
        loops.append(nest)
        nest = nest.body
    out = results[0]
    if len(results) != 1 or not isinstance(nest, Store) or nest.buffer is not out or out in _loads(nest):
        return None
    extents = {loop.var: loop.extent for loop in loops}
    if set(nest.indices) != set(extents) or len(nest.indices) != len(extents):
        return None
    if [extents[i] for i in nest.indices] != list(out.shape):
        return None
    of = {b: t for t, b in buffers.items()}
    axes = [te.IterVar(i.value.name, extents[i]) for i in nest.indices]
    places = dict(zip(nest.indices, (a.var for a in axes), strict=True))
    body = _as_reads(substitute(nest.value, places), of)
    return te.ComputeOp(out.name, out.shape, axes, [body])


def _as_reads(e: Expr, of: dict[Buffer, Tensor]) -> Expr:
    def change(e: Expr, args: tuple[Expr, ...]) -> Expr | None:
        return of[e.value](*args) if e.op == "load" else None

    return rewrite(e, change)


def _opaque(
    body: Stmt,
    results: Sequence[Buffer],
    buffers: dict[Tensor, Buffer],
    pyfunc: Callable[..., Any],
    args: Sequence[Any],
) -> ExternOp:
    threads = any(isinstance(s, For) and s.thread for s in walk(body))
    stored = {s.buffer for s in walk(body) if isinstance(s, Store)}
    copies = {b: Buffer(f"{b.name}.copy", b.shape, b.dtype) for b in buffers.values() if b in stored}
    body = retarget(body, copies)
    for old, new in copies.items():
        body = Allocate(new, seq(_filled(new, old), body))
    if not threads:
        body = seq(*(_filled(b) for b in results if not _covered(body, b)), _zeroed(body))
    return ExternOp(
        pyfunc.__name__ if len(results) > 1 else results[0].name,
        list(buffers),
        list(buffers.values()),
        results,
        body,
        reference=_emulation(pyfunc, args, list(buffers)),
    )


def _zeroed(s: Stmt) -> Stmt:
    """Memory that is not written whole first begins with zeros, as in Python."""

    def change(s: Stmt) -> Stmt:
        if not isinstance(s, Allocate) or _covered(s.body, s.buffer) or s.buffer.scope == "shared":
            return s
        return Allocate(s.buffer, seq(_filled(s.buffer), s.body))

    return map_stmt(s, on_stmt=change)


def _filled(b: Buffer, source: Buffer | None = None) -> Stmt:
    """Zeros, or what another buffer holds, in all elements."""
    at = tuple(ir.var(f"z{k}", "int32", "loop") for k in range(len(b.shape)))
    nest: Stmt = Store(b, at, const(0, b.dtype) if source is None else load(source, *at))
    for i, extent in reversed(list(zip(at, b.shape, strict=True))):
        nest = For(i, const(0), extent, "serial", nest)
    return nest


def _covered(s: Stmt, b: Buffer) -> bool:
    """Return whether the first statement that mentions a buffer stores each of its elements, reading none."""
    while isinstance(s, Allocate | Let):
        if isinstance(s, Let) and any(e.op == "load" and e.value is b for e in post_order(s.value)):
            return False
        s = s.body
    if isinstance(s, Seq):
        first = next((x for x in s.stmts if b in _mentioned(x)), None)
        return first is not None and _covered(first, b)
    loops: dict[Expr, Expr] = {}
    while isinstance(s, For) and is_const(s.start, 0):
        loops[s.var] = s.extent
        s = s.body
        while isinstance(s, Allocate):
            s = s.body
        if isinstance(s, Seq):
            stores = [x for x in s.stmts if b in _mentioned(x)]
            if len(stores) != 1:
                return False
            s = stores[0]
    if not isinstance(s, Store) or s.buffer is not b or b in _loads(s):
        return False
    if all(is_const(d, 1) and is_const(i, 0) for d, i in zip(b.shape, s.indices, strict=True)):
        return True
    return len(set(s.indices)) == len(s.indices) and [loops.get(i) for i in s.indices] == list(b.shape)


def _mentioned(s: Stmt) -> set[Buffer]:
    return _loads(s) | {x.buffer for x in walk(s) if isinstance(x, Store)}


def _emulation(pyfunc: Callable[..., Any], args: Sequence[Any], tensors: Sequence[Tensor]) -> Callable[..., Any]:
    """The script on arrays; sizes among its arguments are read off their shapes."""

    def evaluate(*arrays: Any) -> Any:
        given = dict(zip(tensors, arrays, strict=True))
        sizes = {d: as_expr(n) for t, a in given.items() for d, n in zip(t.shape, a.shape, strict=True)}

        def of(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return [of(v) for v in value]
            if isinstance(value, Tensor):
                return given[value].copy()
            if isinstance(value, Expr):
                known = ir.as_expr(substitute(value, sizes))
                if known.op != "const":
                    legal = "sizes that are lengths of tensors"
                    raise UsageError(f"nothing says what {value!r} is", asked=pyfunc.__name__, legal=legal)
                return known.value
            return value

        return runtime.emulated(pyfunc)(*map(of, args))

    return evaluate
