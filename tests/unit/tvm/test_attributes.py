"""TVM's names for the parts of programs: there once `autosched.tvm` is imported, and only then."""

from __future__ import annotations

import subprocess
import sys

import pytest

from autosched import tvm
from autosched.ir.stmt import For, If, Seq, Store
from autosched.tvm import nd, te, tir
from autosched.tvm.attributes import AttachType, IterType

#: what a program without the shim prints of these names, and what it prints after importing it
PROBE = """
from autosched import create_schedule, te
A = te.placeholder((8,), name="A")
k = te.reduce_axis((0, 8), name="k")
B = te.compute((8,), lambda i: te.sum(A[k] * i, axis=k), name="B")
s = create_schedule(B)
(body,) = B.op.body
things = [
    (body, "source condition axis equal"), (A[0] + 1.0, "a b"), (s[B], "leaf_iter_vars attach_type group origin_op"),
    (k, "iter_type thread_tag"), (s[B].loops[0], "iter_type thread_tag"), (te.thread_axis("threadIdx.x"), "iter_type"),
]
def there():
    return [hasattr(thing, name) for thing, names in things for name in names.split()]
before = there()
import autosched.tvm
print(any(before), all(there()))
"""


def test_the_core_has_its_own_names_only() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_parts_of_expressions() -> None:
    n = te.var("n")
    e = tir.Select(n > 3, n + 1, n * 2)
    assert e.condition is e.args[0] and e.true_value.a is n and e.false_value.b.value == 2
    vector = tir.Ramp(n, 2, 4)
    assert (vector.base, vector.stride.value, vector.lanes) == (n, 2, 4)
    A = te.placeholder((8,), name="A")
    assert A[n].producer is A and A[n].indices == (n,)
    with pytest.raises(
        AttributeError, match="tvm.tir.PrimExpr.condition .*\\n  of n \\+ 1: op, args, dtype, value, a, b"
    ):
        _ = (n + 1).condition


def test_parts_of_a_reduction() -> None:
    A, k = te.placeholder((8,), name="A"), te.reduce_axis((0, 8), name="k")
    e = te.compute((1,), lambda i: te.sum(A[k], axis=k, where=k > 2), name="B").op.body[0]
    assert e.axis == (k,) and e.source == (A[k],) and e.value_index == 0 and e.init == ()
    assert e.condition is (k > 2)
    combiner = e.combiner
    assert len(combiner.lhs) == len(combiner.rhs) == 1 and combiner.identity_element[0].value == 0
    assert not hasattr(e, "a")


def test_parts_of_statements() -> None:
    i, b = te.var("i"), tir.decl_buffer((8,), "float32", "b")
    store = Store(b, (i,), te.const(1.0, "float32"))
    loop = For(i, te.const(0, "int32"), te.const(8, "int32"), "serial", store)
    assert loop.loop_var is i and loop.min is loop.start
    choice = If(i < 4, store, loop)
    assert choice.then_case is store and choice.else_case is loop
    room = tir.Allocate(store.buffer, store)
    assert (room.extents, room.dtype, room.buffer_var) == (store.buffer.shape, store.buffer.dtype, store.buffer)
    assert Seq((store, loop)).seq == (store, loop)


def test_what_a_stage_says_of_itself() -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    s[C].vectorize(inner)
    s[B].compute_at(s[C], outer)
    assert s[C].leaf_iter_vars == (outer, inner) and s[C].all_iter_vars == (C.op.axis[0], outer, inner)
    assert s[C].iter_var_attrs[inner].iter_type == inner.iter_type == IterType.Vectorized
    assert (s[B].attach_type, s[B].attach_stage, s[B].attach_ivar) == (AttachType.Scope, s[C], outer)
    assert (s[C].attach_type, s[C].attach_stage, s[C].attach_ivar) == (AttachType.GroupRoot, None, None)
    assert s[C].group is None and s[C].origin_op is C.op


def test_arrays_have_a_context() -> None:
    array = nd.array([1.0, 2.0])
    assert array.ctx == array.device


def test_a_statement_is_shown_as_a_script_with_what_it_has_from_around() -> None:
    n = te.var("n")
    A = te.placeholder((n, 8), name="A", dtype="int32")
    T = te.compute((n, 8), lambda i, j: A[i, j] * 2, name="T")
    B = te.compute((n, 8), lambda i, j: T[i, j] + i, name="B")
    s = te.create_schedule(B.op)
    s[T].compute_at(s[B], B.op.axis[0])
    loop = tvm.lower(s, [A, B])["main"].body
    assert (
        str(loop.body)
        == loop.body.script()
        == (
            "n = T.int32()\n"
            "i = T.int32()\n"
            'A = T.Buffer((n * 8,), "int32")\n'
            'B = T.Buffer((n * 8,), "int32")\n'
            'T_ = T.allocate([8], "int32", "global")\n'
            'T__1 = T.Buffer((8,), "int32", data=T_)\n'
            "for j in range(8):\n"
            "    T__1[j] = A[i * 8 + j] * 2\n"
            "for j in range(8):\n"
            "    B[i * 8 + j] = T__1[j] + i\n"
        )
    )
    assert "i = " not in str(loop) and "for i in range(n):" in str(loop)


def test_a_trace_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    A = te.placeholder((8,), name="A")
    sch = tir.Schedule(te.create_prim_func([A, te.compute((8,), lambda i: A[i] + 1.0, name="B")]))
    (i,) = sch.get_loops(sch.get_block("B"))
    sch.split(i, factors=[None, 4])
    sch.trace.show()
    assert capsys.readouterr().out == sch.trace.as_python() + "\n"
    assert "split" in sch.trace.as_python()
