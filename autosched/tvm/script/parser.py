"""TVMScript, read: `@T.prim_func`, `@I.ir_module` and `from_source`.

A function whose blocks are stages (each writes one buffer over its whole domain) becomes a `tir.PrimFunc`, with a
schedule that makes its loops; see `stages`. Any other becomes a function of statements; see `statements`.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from autosched.errors import UsageError
from autosched.ir import expr as ir
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, as_expr, const
from autosched.ir.simplify import simplify
from autosched.ir.stmt import Allocate, Buffer, For, Stmt, Store, While
from autosched.ir.visit import post_order
from autosched.tir.module import IRModule
from autosched.tir.remarks import plain
from autosched.tvm._missing import MissingName
from autosched.tvm.expressions import bound
from autosched.tvm.promotion import by_tvm_rules
from autosched.tvm.reading import Reader, Source, callers_names, definitions
from autosched.tvm.script import ir as I
from autosched.tvm.script import tir as T
from autosched.tvm.script.parts import (
    Block,
    BlockAxis,
    Effect,
    Handle,
    Loops,
    Named,
    NewAxis,
    NewBuffer,
    NewThread,
    NewValue,
    NewVar,
    Scope,
    Signature,
    Unread,
    View,
    parsed_type,
)
from autosched.tvm.script.stages import NoStages, as_prim_func
from autosched.tvm.script.trees import Tree
from autosched.tvm.tir.buffer import BufferRegion


def prim_func(func: Any = None, private: bool = False, check_well_formed: bool = True) -> Any:
    """Read a function. Inside the class of a module, it waits for `I.ir_module`."""
    return partial(prim_func, private=private) if func is None else read_function(func, private)


def ir_module(mod: Any = None, check_well_formed: bool = True) -> Any:
    """Read a class of functions."""
    return ir_module if mod is None else read_module(mod)


def read_function(func: Any, private: bool = False) -> Any:
    """Return what a decorated function says; the function itself, where it is part of the class of a module."""
    if not inspect.isfunction(func):
        legal = "@T.prim_func above a def"
        raise UsageError(f"{func!r} is no function", asked="T.prim_func", legal=legal)
    source = Source.of(func, callers_names())
    around = next((c for c in source.around() if any("ir_module" in ast.unparse(d) for d in c.decorator_list)), None)
    return func if around is not None else _or_unread(func.__name__, partial(function_of, source, private))


def read_module(cls: Any) -> IRModule:
    """Return the functions of a class."""
    if not inspect.isclass(cls):
        raise UsageError(f"{cls!r} is no class", asked="I.ir_module", legal="@I.ir_module above a class")
    return _or_unread(cls.__name__, partial(module_of, Source.of(cls, callers_names())))


def _or_unread(name: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except MissingName as error:  # a file of many functions is of use without this one
        return Unread(name, error)


def module_of(source: Source) -> IRModule:
    """Return the functions of a class that has been parsed."""
    made = IRModule({})
    reader = _Module(source, module=made)
    assert isinstance(source.tree, ast.ClassDef)
    reader.statements(source.tree.body)
    return made


def from_source(program: Any, extra_vars: Mapping[str, Any] | None = None, check_well_formed: bool = True) -> Any:
    """Return the function or module that a text defines, as `script()` prints it.

    program:    text, or a function or class that has its text in a file
    extra_vars: names that the text uses; `T` and `I` mean what they usually do

    Only loops, blocks and expressions over these names are read: nothing of the text is run as Python. Raises
    UsageError, with the line, for what is not read.

    >>> f = from_source('''
    ... @T.prim_func
    ... def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         with T.block("B"):
    ...             vi = T.axis.spatial(8, i)
    ...             B[vi] = A[vi] + 1.0
    ... ''')
    >>> f.args
    (Tensor(A: float32[8]), Tensor(B: float32[8]))
    """
    if not isinstance(program, str):
        return read_module(program) if inspect.isclass(program) else read_function(program)
    source = source_of(program, extra_vars or {})
    return module_of(source) if isinstance(source.tree, ast.ClassDef) else function_of(source)


def source_of(program: str, extra_vars: Mapping[str, Any]) -> Source:
    """The last function, or the first class, of a text. Raises UsageError if there is none."""
    names = {"T": T, "I": I, "tvm": sys.modules["autosched.tvm"], "tir": T, "ir": I, **extra_vars}
    file = f"<script {hash(program) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    found = definitions(program, file)
    if not found:
        raise UsageError("there is no function in it", asked="from_source", legal="a def with @T.prim_func, or a class")
    return Source(found[-1] if len({type(n) for n in found}) == 1 else found[0], file, names)


@by_tvm_rules
def tree_of(source: Source) -> Tree:
    """A function that has been parsed, as its text says it, whether it has stages or not."""
    signature, body = _Function(source).read()
    return Tree(source.tree.name, signature, body, dict(signature.attrs), "it is read as its text says it")


@by_tvm_rules
def function_of(source: Source, private: bool = False, module: IRModule | None = None) -> Any:
    """Return a function that has been parsed."""
    reader = _Function(source, module=module)
    signature, body = reader.read()
    tree = source.tree
    attrs = dict(signature.attrs)
    if not private:
        attrs.setdefault("global_symbol", tree.name)
    elif "global_symbol" in attrs:
        legal = "T.prim_func without private=True; or no global_symbol"
        raise UsageError("it has a name for others, and is private", asked=source.where(tree), legal=legal)
    try:
        return as_prim_func(signature, body, attrs)
    except NoStages as why:
        return Tree(tree.name, signature, body, attrs, str(why)).function()


# -- modules ---------------------------------------------------------------------------------------------------


@dataclass
class _Module(Reader):
    """Reads the class of a module."""

    module: Any = None

    legal = "functions with @T.prim_func, I.module_attrs({..})"

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        private = False
        for d in node.decorator_list:
            for k in getattr(d, "keywords", ()):
                private = private or (k.arg == "private" and bool(self.value(k.value)))
        source = Source(node, self.source.file, self.source.names)
        self.module[node.name] = function_of(source, private, self.module)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Attributes of the module, or a string that explains."""
        if isinstance(node.value, ast.Constant):
            return
        made = self.value(node.value)
        if isinstance(made, Effect) and made.kind == "module_attrs":
            self.module.attrs.update(made.args[0])
        elif not (isinstance(made, Effect) and made.kind == "hint"):
            self.refuse(node, "it says nothing of a module")


# -- functions -------------------------------------------------------------------------------------------------

_EFFECTS = ("reads", "writes", "assume")


@dataclass
class _Function(Reader):
    """Reads one function."""

    module: Any = None
    signature: Signature = field(default_factory=Signature)
    blocks: list[Block] = field(default_factory=list)  #: that are open, outermost first

    legal = "loops, blocks, conditions, assignments to elements, and names of values"

    def read(self) -> tuple[Signature, Stmt]:
        """Return the parameters and the body."""
        tree, self.names = self.source.tree, ChainMap({})
        assert isinstance(tree, ast.FunctionDef)
        for a in (*tree.args.posonlyargs, *tree.args.args):
            if a.annotation is None:
                self.refuse(a, f"{a.arg} has no type", "T.Buffer((n, m), dtype), T.handle, T.int32")
            of = self.value(a.annotation)
            if isinstance(of, str):
                of = self.value(parsed_type(of) or self.refuse(a, f"{of[:40]!r} is no type", "T.Buffer((n, m), dtype)"))
            self.signature.params[a.arg] = self.names[a.arg] = self._parameter(a, of)
        self.statements(tree.body)
        return self.signature, self.out.get()

    def _parameter(self, a: ast.arg, of: Any) -> Any:
        if isinstance(of, T._Buffer):
            self.refuse(a, f"{a.arg} has no shape", "T.Buffer((n, m), dtype)")
        if isinstance(of, NewBuffer):
            return Buffer(a.arg, self._dims(of.shape), to_dtype(of.dtype), of.scope, self._dims(of.strides or ()))
        if isinstance(of, (T._Type, NewVar)):
            return ir.var(a.arg, of.dtype, "size" if to_dtype(of.dtype).is_integer else "scalar")
        if of is T.handle:
            return Handle(a.arg)
        self.refuse(a, f"{of!r} is no type of a parameter", "T.Buffer((n, m), dtype), T.handle, T.int32")

    def _dims(self, shape: Any) -> tuple[Expr, ...]:
        """A shape; a name given as text is a variable of that name."""
        dims = shape if isinstance(shape, (list, tuple)) else (shape,)
        return tuple(self._named_size(d) if isinstance(d, str) else as_expr(d) for d in dims)

    def _named_size(self, name: str) -> Expr:
        if name not in self.names:
            self.names.maps[-1][name] = ir.var(name, "int32", "size")
        return self.names[name]  # type: ignore[no-any-return]

    # -- names ---------------------------------------------------------------------------------------
    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """`x: T.int32 = ..` names a value."""
        if not isinstance(node.target, ast.Name):
            self.refuse(node, "it has no name", "x: T.int32 = value")
        of = self.value(node.annotation)
        if node.value is None:
            self.bind(node.target, of() if isinstance(of, T._Type) else of)
            return
        value = self.value(node.value)
        as_type = getattr(of, "dtype", None)
        e = value if isinstance(value, Named) else as_expr(value, None if as_type is None else to_dtype(as_type))
        self.bind(node.target, NewValue(e) if isinstance(e, Expr) else e)

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.bind(target, value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        read = ast.copy_location(type(target)(**{**dict(ast.iter_fields(target)), "ctx": ast.Load()}), target)
        self.bind(target, self.value(ast.copy_location(ast.BinOp(read, node.op, node.value), node)))

    def bind(self, target: ast.expr, value: Any) -> None:
        """`target = value`."""
        if isinstance(target, ast.Name):
            self.names[target.id] = self._made(target, target.id, value)
        elif isinstance(target, ast.Tuple | ast.List):
            parts = list(value) if isinstance(value, (list, tuple)) else [value]
            if len(parts) != len(target.elts):
                self.refuse(
                    target, f"{len(parts)} values for {len(target.elts)} names", "as many of one as of the other"
                )
            for one, part in zip(target.elts, parts, strict=True):
                self.bind(one, part)
        elif isinstance(target, ast.Subscript):
            self._store(target, value)
        else:
            self.refuse(target, "it cannot be assigned to", "a name, or an element of a buffer")

    def _store(self, target: ast.Subscript, value: Any) -> None:
        owner, index = self.value(target.value), self.value(target.slice)
        if isinstance(owner, View):
            b, at = owner.place(index)
        elif isinstance(owner, Buffer):
            place = owner[index]  # type: ignore[index]
            b, at = owner, place.lanes() if isinstance(place, BufferRegion) else place.args
        else:
            self.refuse(target, f"{ast.unparse(target.value)} is no buffer", "an element of a buffer")
        e = as_expr(value, b.dtype) if not isinstance(value, Expr) else value
        lanes = max([i.dtype.lanes for i in at], default=1)
        if e.dtype.lanes < lanes:
            e = ir.broadcast(e, lanes)
        self.out.emit(Store(b, tuple(at), ir.cast(b.dtype.with_lanes(e.dtype.lanes), e)))

    def _made(self, node: ast.AST, name: str, value: Any) -> Any:
        match value:
            case NewVar():
                return ir.var(name, value.dtype, "size" if to_dtype(value.dtype).is_integer else "scalar")
            case NewBuffer():
                return self._buffer(node, name, value)
            case NewAxis():
                return self._axis(node, name, value)
            case NewThread():
                return self._thread(name, value)
            case NewValue():
                return self.out.let(name, as_expr(value.value))
            case Expr() if any(n.op in ("load", "call") for n in post_order(value)):
                return self.out.let(name, value)
            case list() | tuple() if any(isinstance(v, Named) for v in value):
                made = [self._made(node, f"{name}_{k}", v) for k, v in enumerate(value)]
                return made[0] if len(made) == 1 else tuple(made)
        return value

    def _buffer(self, node: ast.AST, name: str, new: NewBuffer) -> Any:
        of = to_dtype(new.dtype)
        offset = simplify(as_expr(new.offset)) if isinstance(new.offset, (int, Expr)) else const(0)
        if offset.op == "const" and offset.value:
            self.refuse(node, "it begins inside its memory", "elem_offset=0, or a region: T.match_buffer(A[4:8], ..)")
        if new.kind == "match" and isinstance(new.of, (BufferRegion, Expr)):
            return self._region(node, new)
        if new.shape is None:
            self.refuse(node, "it has no shape", "T.match_buffer(a, (n, m), dtype)")
        shape = self._dims(new.shape)
        if new.kind == "const":
            self.signature.constants[made := Buffer(name, shape, of)] = new.of
            return made
        if new.kind == "match":
            if not isinstance(new.of, Handle):
                self.refuse(node, "it matches no handle among the parameters", "T.match_buffer(a, ..) of a: T.handle")
            called = new.of.name if re.fullmatch(rf"{re.escape(new.of.name)}_\d+", name) else name  # `script()` adds it
            made = Buffer(called, shape, of, new.scope, self._dims(new.strides or ()))
            self.signature.params[new.of.name] = made
            return made
        if isinstance(new.of, Handle):
            return self._buffer(node, name, replace(new, kind="match"))
        if new.of is not None:
            owner = new.of.value if isinstance(new.of, Expr) and new.of.op == "address" else new.of
            if not isinstance(owner, (Buffer, View)):
                self.refuse(node, f"{new.of!r} is no memory", "A.data, or what T.allocate returned")
            return owner if tuple(owner.shape) == shape and owner.dtype == of else View(owner, shape, of)
        made = Buffer(name, shape, of, new.scope or "global", self._dims(new.strides or ()))
        if new.kind == "alloc" or (new.kind == "declared" and self.blocks):
            (self.blocks[-1].buffers if self.blocks else self.signature.buffers).append(made)
        else:
            self.out.emit(lambda rest: Allocate(made, rest))
        return made

    def _region(self, node: ast.AST, new: NewBuffer) -> Any:
        whole = new.of
        if new.shape is None and isinstance(whole, BufferRegion):
            new = replace(new, shape=[simplify(r.extent) for r in whole.region])
        if isinstance(whole, Expr):
            if whole.op != "load":
                self.refuse(node, f"{whole!r} is no memory", "a region of a buffer: A[0:4, i]")
            return View(whole.value, self._dims(new.shape), whole.value.dtype, whole.args)
        return View(whole.buffer, self._dims(new.shape), whole.buffer.dtype, tuple(r.min for r in whole.region))

    def _axis(self, node: ast.AST, name: str, new: NewAxis) -> Expr:
        if not self.blocks:
            self.refuse(node, "an axis belongs to a block", 'with T.block("B"):')
        binding = as_expr(new.binding)
        if new.dom is None:
            loop = self.loops.get(binding)
            if loop is None:
                self.refuse(node, f"{binding!r} is no loop", "loops around the block")
            start, stop = loop
        elif isinstance(new.dom, (tuple, list)):
            start, stop = map(as_expr, new.dom)
        else:
            start, stop = const(0), as_expr(new.dom)
        made = ir.var(name, binding.dtype, "loop")
        self.blocks[-1].axes.append(BlockAxis(made, new.kind, start, stop, binding))
        return made

    loops: dict[Expr, tuple[Expr, Expr]] = field(default_factory=dict)

    def _thread(self, name: str, new: NewThread) -> Expr:
        made = ir.var(name, "int32", "loop")
        if new.extent is None:
            self.threads[made] = new.tag
            return made
        extent = as_expr(new.extent)
        self.loops[made] = (const(0), extent)
        self.out.emit(lambda rest: For(made, const(0), extent, "thread", rest, new.tag))
        return made

    threads: dict[Expr, str] = field(default_factory=dict)

    # -- statements ------------------------------------------------------------------------------------
    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        made = self.value(node.value)
        match made:
            case Effect():
                self._effect(node, made)
            case Scope():
                opened = self._opened(node, made)
                if opened is not None:
                    self.out.emit(opened)
            case NewBuffer() | NewThread() | NewValue():
                self._made(node, "v", made)
            case Expr() if made.op == "call":
                self.out.emit(made)
            case Expr():
                return  # a value that nobody uses
            case _ if isinstance(made, Stmt):
                self.out.emit(made)
            case None:
                return
            case _:
                self.refuse(node, f"{made!r} does nothing")

    def _effect(self, node: ast.AST, e: Effect) -> None:
        if e.kind in (*_EFFECTS, "hint"):
            return  # they are known from the body
        if e.kind == "statement":
            self.out.emit(e.args[0])
        elif e.kind == "func_attr":
            self.signature.attrs.update({k: _plain(v) for k, v in e.args[0].items()})
        elif e.kind == "evaluate":
            value = as_expr(e.args[0]) if not isinstance(e.args[0], (Buffer, BufferRegion)) else const(0)
            if value.op == "call":
                self.out.emit(value)
        elif e.kind == "store":
            b, value, at = e.args[:3]
            self.out.emit(Store(b, tuple(map(as_expr, at)), as_expr(value, b.dtype)))
        elif not self.blocks:
            self.refuse(node, f"T.{e.kind} belongs to a block", 'with T.block("B"):')
        elif e.kind == "where":
            before = self.blocks[-1].predicate
            self.blocks[-1].predicate = e.args[0] if before is None else ir.logical_and(before, e.args[0])
        else:
            self.blocks[-1].attrs.update(e.args[0])

    def visit_If(self, node: ast.If) -> None:
        condition = self.value(node.test)
        if not isinstance(condition, Expr) or condition.op == "const":
            truth = condition.value if isinstance(condition, Expr) else condition
            self.statements(node.body if truth else node.orelse)
            return
        with self.out.if_scope(condition), self.scope():
            self.statements(node.body)
        if node.orelse:
            with self.out.else_scope(), self.scope():
                self.statements(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        condition = self.value(node.test)
        with self.out.collecting(lambda body: self.out.emit(While(as_expr(condition), body))), self.scope():
            self.statements(node.body)

    def visit_For(self, node: ast.For) -> None:
        over = self.value(node.iter) if not _is_range(node.iter) else self._range(node.iter)
        if isinstance(over, range):
            over = T.serial(over.start, over.stop)
        targets = node.target.elts if isinstance(node.target, ast.Tuple | ast.List) else [node.target]
        if not isinstance(over, Loops):
            self.refuse(node.iter, f"{ast.unparse(node.iter)} is nothing to loop over", _RANGES)
        names = self._loop_names(node.target, targets, len(over.ranges))
        with self.scope():
            made = []
            for name, (start, stop) in zip(names, over.ranges, strict=True):
                of = "int64" if "int64" in (start.dtype, stop.dtype) else "int32"
                loop = ir.var(name, of, "loop")
                self.loops[loop] = (start, stop)
                made.append((loop, start, stop))
                kept = {k: plain(v) for k, v in over.annotations.items() if not k.startswith("pragma_")}
                self.signature.remarks.update({loop: kept} if kept else {})
            if isinstance(node.target, ast.Name) and len(made) > 1:
                self.names[node.target.id] = tuple(loop for loop, _, _ in made)
            else:
                for name, value in bound(node.target, made[0][0] if len(made) == 1 else [m[0] for m in made]):
                    self.names[name] = value

            def finish(body: Stmt) -> None:
                for loop, start, stop in reversed(made):
                    kind, thread = (over.kind, over.thread) if len(made) == 1 else ("serial", "")
                    marks = _pragmas(over.annotations)
                    body = For(loop, start, simplify(stop - start), kind, body, thread, pragmas=marks)
                self.out.emit(body)

            with self.out.collecting(finish), self.scope():
                self.statements(node.body)

    def _loop_names(self, at: ast.AST, targets: list[ast.expr], count: int) -> list[str]:
        """A name for each loop; one name, or one with a star, is of several."""
        names: list[str] = []
        for t in targets:
            one = t.value if isinstance(t, ast.Starred) else t
            several = isinstance(t, ast.Starred) or (len(targets) == 1 and count > 1 and isinstance(at, ast.Name))
            many = count - len(targets) + 1 if several else 1
            if not isinstance(one, ast.Name) or many < 0:
                break
            names += [f"{one.id}_{k}" for k in range(many)] if several else [one.id]
        if len(names) != count:
            self.refuse(at, f"{count} loops for {len(targets)} names", "one name for each extent")
        return names

    def _range(self, e: Any) -> Any:
        return T.serial(*map(self.value, e.args), **{k.arg: self.value(k.value) for k in e.keywords})

    def visit_With(self, node: ast.With) -> None:
        first, *rest = node.items
        if rest:
            inner = ast.copy_location(ast.With(rest, node.body), node)
            self.visit_With(ast.copy_location(ast.With([first], [inner]), node))
            return
        scope = self.value(first.context_expr)
        if isinstance(scope, Scope) and scope.kind in ("block", "init"):
            self._block(node, scope)
            return
        with self.scope(), self.out.new_scope():
            if isinstance(scope, Named):
                names = [first.optional_vars] if first.optional_vars is not None else []
                made = self._made(node, names[0].id if names and isinstance(names[0], ast.Name) else "v", scope)
                if names and isinstance(names[0], ast.Name):
                    self.names[names[0].id] = made
            elif isinstance(scope, Scope):
                opened = self._opened(node, scope)
                if opened is not None:
                    self.out.emit(opened)
            else:
                self.refuse(
                    node, f"{ast.unparse(first.context_expr)} opens nothing", "T.block, T.init, T.allocate, T.attr"
                )
            self.statements(node.body)

    def _opened(self, node: ast.AST, scope: Scope) -> Callable[[Stmt], Stmt] | None:
        """What a scope puts around the statements in it."""
        if scope.kind == "assert":
            return None
        if scope.kind not in ("launch", "attr"):
            self.refuse(node, f"T.{scope.kind} is opened by `with`", f"with T.{scope.kind}(..):")
        thing, *more = scope.args
        if scope.kind == "attr" and more[0] not in ("thread_extent", "virtual_thread"):
            return None
        extent = as_expr(more[-1])
        tag = self.threads.get(thing) if isinstance(thing, Expr) else getattr(thing, "thread_tag", None)
        var = thing if isinstance(thing, Expr) else getattr(thing, "var", None)
        if tag is None or var is None:
            self.refuse(node, f"{thing!r} is no hardware axis", 'T.env_thread("threadIdx.x")')
        self.loops[var] = (const(0), extent)
        return lambda rest: For(var, const(0), extent, "thread", rest, tag)

    def _block(self, node: ast.With, scope: Scope) -> None:
        if scope.kind == "init":
            if not self.blocks:
                self.refuse(node, "T.init belongs to a block", 'with T.block("B"):')
            here = self.blocks[-1]

            def begin(body: Stmt) -> None:
                here.init = body

            with self.out.collecting(begin), self.scope():
                self.statements(node.body)
            return
        block = Block(str(scope.args[0] or f"block{len(self.loops)}"), self.source.where(node))

        def finish(body: Stmt) -> None:
            block.body = body
            self.out.emit(block)  # type: ignore[arg-type]

        self.blocks.append(block)
        with self.out.collecting(finish), self.scope():
            self.statements(node.body)
        self.blocks.pop()

    def visit_Return(self, node: ast.Return) -> None:
        """A function returns nothing; what it computes is in its buffers."""
        if node.value is not None and self.value(node.value) is not None:
            self.refuse(node, "a function returns nothing", "results go to buffers among its parameters")


_RANGES = "range, T.grid, T.serial, T.parallel, T.vectorized, T.unroll, T.thread_binding"


def _is_range(e: ast.expr) -> bool:
    return isinstance(e, ast.Call) and isinstance(e.func, ast.Name) and e.func.id == "range"


def _plain(value: Any) -> Any:
    if isinstance(value, Expr) and value.op == "const":
        return bool(value.value) if value.dtype.is_bool else value.value
    return value


def _pragmas(annotations: Mapping[str, Any]) -> tuple[str, ...]:
    found = []
    for key, value in annotations.items():
        if key.startswith("pragma_"):
            number = _plain(value)
            found.append(key.removeprefix("pragma_") + ("" if number in (1, True, None) else f"={number}"))
    return tuple(found)
