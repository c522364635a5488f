"""`tvm.tir.transform`: TVM's names for the passes of the pipeline that make sense by themselves.

Each goes over every function of a module, for the current target or the CPU: `Simplify()(mod)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched.ir.calls import is_opaque
from autosched.ir.expr import is_const
from autosched.ir.stmt import (
    Allocate,
    Buffer,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Seq,
    Stmt,
    Store,
    is_empty,
    map_stmt,
    seq,
)
from autosched.lowering.pipeline import CONCRETE, Program
from autosched.target import Target
from autosched.tvm._missing import missing
from autosched.tvm.transform import Pass, PassContext, function_pass, run_as_pass

prim_func_pass = function_pass


def _built_in(tvm_name: str, name: str) -> Callable[[], Pass]:
    run = dict(CONCRETE)[name]

    def make() -> Pass:
        @function_pass(opt_level=0, name=f"tir.{tvm_name}")
        def apply(f: Function, mod: Any, ctx: PassContext) -> Function:
            p = Program(f, Target.current(allow_none=True) or Target("llvm"))
            return run_as_pass(p, name, run).function

        return apply

    make.__name__ = tvm_name
    make.__doc__ = f"The pass `{name}` of the pipeline: {run.__doc__}"
    return make


Simplify = _built_in("Simplify", "simplify")
LoopPartition = _built_in("LoopPartition", "partition")
FlattenBuffer = _built_in("FlattenBuffer", "flatten")
_storage_flatten = _built_in("StorageFlatten", "flatten")
InjectVirtualThread = _built_in("InjectVirtualThread", "inject_vthreads")
StorageRewrite = _built_in("StorageRewrite", "share_storage")
UnrollLoop = _built_in("UnrollLoop", "unroll")
LowerIntrin = _built_in("LowerIntrin", "lower_intrinsics")
_vectorize = _built_in("VectorizeLoop", "vectorize")


def VectorizeLoop(enable_vectorize: bool = True) -> Pass:
    """Return a pass that turns vector loops into vector statements, or with False into plain loops."""
    if enable_vectorize:
        return _vectorize()

    @function_pass(opt_level=0, name="tir.VectorizeLoop")
    def serial(f: Function, mod: Any, ctx: PassContext) -> Function:
        with PassContext(config={"tir.disable_vectorize": True}):
            p = run_as_pass(Program(f, Target("llvm")), "vectorize", lambda p: p)
        return p.function

    return serial


def StorageFlatten(cache_line_size: int = 64, create_bound_attributes: bool = False) -> Pass:
    """Return the pass `flatten` of the pipeline; lines of the cache and attributes make no difference to it."""
    return _storage_flatten()


def RemoveNoOp() -> Pass:
    """Return a pass that removes what does nothing: loops, branches and statements without effect, stores of an element
    to its own place."""
    return function_pass(lambda f, mod, ctx: f.with_body(map_stmt(f.body, on_stmt=_done)), name="tir.RemoveNoOp")


def _done(s: Stmt) -> Stmt:
    """The statement, empty if it does nothing. Its parts are done."""
    match s:
        case Evaluate(value=e):
            is_idle = not is_opaque(e)
        case Store(buffer=b, indices=at, value=e):
            is_idle = e.op == "load" and e.value is b and e.args == at
        case For():
            is_idle = is_empty(s.body) or is_const(s.extent, 0)
        case If(condition=condition, then=then, otherwise=otherwise):
            is_idle = is_empty(then) and is_empty(otherwise) and not is_opaque(condition)
        case Let(value=e, body=body) | Allocate(buffer=Buffer(elements=e), body=body):
            is_idle = is_empty(body) and not is_opaque(e)
        case _:
            return seq(*(x for x in s.stmts if not is_empty(x))) if isinstance(s, Seq) else s
    return seq() if is_idle else s


def Apply(ftransform: Callable[[Function], Function]) -> Pass:
    """Return a pass that replaces each function `f` by `ftransform(f)`."""
    return function_pass(lambda f, mod, ctx: ftransform(f), name="tir.Apply")


_PASSES = "tvm.lower runs all passes of the pipeline (autosched list passes); passes of your own: tir.add_lower_pass"
_INSTEAD = {
    **dict.fromkeys(("CommonSubexprElimTIR", "HoistIfThenElse", "RenormalizeSplitPattern"), "Simplify"),
    **dict.fromkeys(
        (
            *("InjectDoubleBuffer", "InjectPrefetch", "NarrowDataType", "ConvertSSA", "RewriteUnsafeSelect"),
            *("SplitHostDevice", "MakePackedAPI", "ThreadSync", "BindTarget", "VerifyMemory", "LowerThreadAllreduce"),
            *("LowerTVMBuiltin", "LowerWarpMemory", "LowerInitBlock", "CompactBufferAllocation", "LowerOpaqueBlock"),
            *("ConvertBlocksToOpaque", "PlanAndUpdateBufferAllocationLocation", "AnnotateEntryFunc", "InferFragment"),
        ),
        _PASSES,
    ),
    "InstrumentBoundCheckers": "autosched.runtime.interpreter names every element out of bounds",
}
__getattr__ = missing("tir.transform", globals(), _INSTEAD)
