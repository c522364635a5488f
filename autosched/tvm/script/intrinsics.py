"""`TensorIntrin.register(name, desc, impl)`: two scripts, what an intrinsic computes and how it does.

    TensorIntrin.register("dot", dot_desc, dot_impl)
    sch.tensorize(block, "dot")

`desc` has loops around one store: `C[i] = C[i] + A[i, k] * B[k]`, or a value. The body of `impl` computes it on a part
of each buffer, which begins at `X.data`, whose `elem_offset` is 0 and whose strides are those of the memory around.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.attached import attach
from autosched.ir.expr import Expr, const, is_const, var
from autosched.ir.simplify import simplify
from autosched.ir.stmt import Buffer, For, Function, Seq, Stmt, Store, load, seq
from autosched.ir.visit import post_order, rewrite, substitute
from autosched.te.tensor import IterVar, Tensor
from autosched.te.tensor_intrin import TensorIntrin, decl_tensor_intrin
from autosched.tir.intrinsics import REGISTERED, intrinsic
from autosched.tir.module import PrimFunc
from autosched.tvm.promotion import by_tvm_rules
from autosched.tvm.script.parser import source_of, tree_of
from autosched.tvm.script.statements import dissolved
from autosched.tvm.script.trees import Tree
from autosched.tvm.script.walking import only, with_buffers

_STEPS = {"add": te.sum, "mul": te.prod, "max": te.max, "min": te.min}
_LEGAL = "loops around one store: C[i] = C[i] + A[i, k] * B[k], or C[i] = A[i] * 2"


@by_tvm_rules
def register(name: str, desc: Any, impl: Any, override: bool = False) -> TensorIntrin:
    """Declare an intrinsic by two functions of the same buffers. Raises UsageError for other scripts, and for a name
    that is taken, unless it may be overridden."""
    asked = f"TensorIntrin.register({name!r})"
    if name in REGISTERED and not override:
        raise UsageError("there is one of that name", asked=asked, legal="override=True")
    described, done = _tree(desc, asked), _tree(impl, asked)
    mine, theirs = ([p for p in t.signature.params.values() if isinstance(p, Buffer)] for t in (described, done))
    if len(mine) != len(theirs) or any(len(a.shape) != len(b.shape) for a, b in zip(mine, theirs, strict=True)):
        raise UsageError("they have other buffers", asked=asked, legal="two functions of the same buffers")
    tensors, op, begins = _operation(described, asked)
    bound = {b: _bound(b) for b in theirs}
    binds = {tensors[a]: bound[b] for a, b in zip(mine, theirs, strict=True) if a in tensors}
    body = dissolved(with_buffers(done.body, bound))
    out = binds[op.output_tensor]

    def fcompute(ins: Any, outs: Any) -> Any:
        if begins is None:
            return body
        reset = _first_values(out, begins)
        return seq(reset, body), reset, body

    REGISTERED[name] = made = decl_tensor_intrin(op, fcompute, name, binds)
    return made


def _tree(f: Any, asked: str) -> Tree:
    if isinstance(f, PrimFunc):
        return tree_of(source_of(f.script(), {}))
    found = getattr(f.attrs.get("stages"), "tree", None) if isinstance(f, Function) else None
    if not isinstance(found, Tree):
        raise UsageError(f"{f!r:.60} is no script", asked=asked, legal="functions with @T.prim_func")
    return found


def _bound(b: Buffer) -> Buffer:
    """A buffer of the implementation for a part of memory, whose rows are as far apart as those of the whole."""
    steps = [var(f"{b.name}.stride{d}", "int32") for d in range(len(b.shape) - 1)]
    return replace(b, strides=b.strides or (*steps, const(1))[: len(b.shape)])


def _operation(t: Tree, asked: str) -> tuple[dict[Buffer, Tensor], Any, Expr | None]:
    """The tensors of buffers, the computation, and what a reduction begins with."""
    loops, store = _only_store(t, asked)
    out, places = store.buffer, [simplify(i) for i in store.indices]
    by_var = {x.var: x for x in loops}
    known = all(
        (i in by_var) if not is_const(n, 1) else (i in by_var or is_const(i, 0))
        for i, n in zip(places, out.shape, strict=True)
    )
    if not known or len({i for i in places if i in by_var}) != len([i for i in places if i in by_var]):
        raise UsageError(f"it stores to {out.name} at {places}", asked=asked, legal=_LEGAL)
    value, kind = store.value, None
    own = load(out, *store.indices)
    if value.op in _STEPS and own in value.args:
        kind = value.op
        (value,) = [a for a in value.args if a is not own] or [own]
    tensors: dict[Buffer, Tensor] = {}
    for e in (e for e in post_order(value) if e.op == "load" and e.value not in tensors):
        tensors[e.value] = te.placeholder(e.value.shape, e.value.dtype, e.value.name)
    if out in tensors:
        raise UsageError(f"it reads {out.name}, which it writes", asked=asked, legal=_LEGAL)
    left = [x for x in loops if x.var not in places]
    if left and kind is None:
        raise UsageError(f"{left[0].var.value.name} is no index of what is stored", asked=asked, legal=_LEGAL)
    reduced = [te.reduce_axis((0, x.extent), name=x.var.value.name) for x in left]
    if kind is not None and not reduced:
        reduced = [te.reduce_axis((0, 1), name="step")]

    def element(*at: Any) -> Any:
        here = {i: _index(v) for i, v in zip(places, at, strict=True) if i in by_var}
        here |= {x.var: r.var for x, r in zip(left, reduced, strict=False)}
        e = rewrite(substitute(value, here), lambda n, args: tensors[n.value](*args) if n.op == "load" else None)
        return e if kind is None else _STEPS[kind](e, axis=reduced)

    result = te.compute(tuple(out.shape), element, name=out.name)
    tensors[out] = result
    begins = None if kind is None else result.op.body[0].value.identity([out.dtype])[0]
    return tensors, result.op, begins


def _index(v: Any) -> Expr:
    found: Expr = v.var if isinstance(v, IterVar) else v
    return found


def _only_store(t: Tree, asked: str) -> tuple[list[For], Store]:
    """The loops of a description, and the store inside; first values are what a reduction begins with anyhow."""
    loops: list[For] = []
    s: Any = only(dissolved(t.body))
    while not isinstance(s, Store):
        if isinstance(s, For) and is_const(s.start, 0) and s.extent.op == "const":
            loops.append(s)
            s = only(s.body)
        elif isinstance(s, Seq) and len(s.stmts) == 2 and isinstance(s.stmts[1], Store):
            s = s.stmts[1]
        else:
            raise UsageError(f"it has {type(s).__name__.lower()} statements", asked=asked, legal=_LEGAL)
    return loops, s


def _first_values(out: Buffer, begins: Expr) -> Stmt:
    loops = [var(f"i{d}", "int32", "loop") for d in range(len(out.shape))]
    made: Stmt = Store(out, tuple(loops), begins)
    for v, n in zip(reversed(loops), reversed(out.shape), strict=True):
        made = For(v, const(0), n, "serial", made)
    return made


def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
    """The intrinsic of a name; None, or a UsageError, where there is none."""
    if name not in REGISTERED and allow_missing:
        return None
    found: TensorIntrin = intrinsic(name)
    return found


attach(TensorIntrin, register=staticmethod(register), get=staticmethod(get))
