"""What TVM users ask schedules, stages, axes and tensors, as the tests of TVM's te do."""

import numpy as np
import pytest

from autosched import tvm
from autosched.tvm import te


def test_tensors_and_their_operations() -> None:
    m, n, depth = te.size_var("m"), te.size_var("n"), te.size_var("depth")
    A = te.placeholder((m, depth), name="A")
    B = te.placeholder((n, depth), name="B")
    T = te.compute((m, n, depth), lambda i, j, k: A[i, k] * B[j, k], name="T")
    assert tuple(T.shape) == (m, n, depth)
    assert isinstance(A.op, te.PlaceholderOp) and isinstance(T.op, te.tensor.ComputeOp)
    assert T.op.output(0).same_as(T) and {T.op.output(0): 1}[T] == 1
    assert tuple(T.op.input_tensors) == (A, B)
    assert T[0][0][0].astype("float16").dtype == "float16"
    i = T.op.axis[0]
    assert isinstance(i, tvm.tir.IterVar) and i.iter_type == tvm.tir.IterVar.DataPar
    assert i.dom.min.value == 0 and i.dom.extent.same_as(m) and i.var.name == "i"


def test_the_parts_of_a_reduction() -> None:
    A = te.placeholder((16,), name="A")
    k = te.reduce_axis(tvm.ir.Range(0, 16), "k")
    B = te.compute((1,), lambda _: te.sum(A[k], axis=k, where=k < 8), name="B")
    r = B.op.body[0]
    assert isinstance(r, tvm.tir.Reduce) and k.iter_type == tvm.tir.IterVar.CommReduce
    assert r.axis[0].same_as(k) and isinstance(r.source[0], tvm.tir.ProducerLoad)
    assert isinstance(r.condition, tvm.tir.LT) and r.value_index == 0 and r.init == ()
    assert isinstance(r.combiner.result[0], tvm.tir.Add)
    assert r.combiner.identity_element[0].value == 0 and len(r.combiner.lhs) == len(r.combiner.rhs) == 1


def test_loops_of_a_stage() -> None:
    A = te.placeholder((64, 30), name="A")
    T = te.compute((64, 30), lambda i, j: A[i, j], name="T")
    s = te.create_schedule(T.op)
    assert tuple(s[T].leaf_iter_vars) == tuple(T.op.axis) == tuple(s[T].all_iter_vars)
    xo, yo, xi, yi = s[T].tile(*T.op.axis, x_factor=8, y_factor=5)
    fused = s[T].fuse(xo, yo)
    s[T].vectorize(yi)
    s[T].unroll(xi)
    s[T].parallel(fused)
    s[T].pragma(xi, "auto_unroll_max_step", 16)
    assert tuple(s[T].leaf_iter_vars) == (fused, xi, yi)
    assert T.op.axis[0] in s[T].all_iter_vars and xo in s[T].all_iter_vars
    assert any(isinstance(x, te.schedule.Fuse) for x in s[T].relations)
    attrs = s[T].iter_var_attrs
    kinds = tvm.tir.IterVar
    assert attrs[yi].iter_type == kinds.Vectorized and attrs[xi].iter_type == kinds.Unrolled
    assert attrs[fused].iter_type == kinds.Parallelized and attrs[fused].bind_thread is None
    assert attrs[xi].pragma_keys == ["auto_unroll_max_step"] and attrs[xi].pragma_values == [16]
    done = ["vanilla", "split", "split", "reorder", "fuse", "vectorize", "unroll", "parallel", "pragma"]
    assert s.primitive_record == done and len(s.schedule_record) == len(done)


def test_loops_on_threads() -> None:
    A = te.placeholder((64,), name="A")
    T = te.compute((64,), lambda i: A[i] * 2, name="T")
    s = te.create_schedule(T.op)
    ty = te.thread_axis((0, 8), "threadIdx.y", name="ty")
    assert ty.dom.extent.value == 8 and ty.thread_tag == "threadIdx.y" and ty.var.name == "ty"
    assert te.thread_axis("threadIdx.x").dom is None
    assert isinstance(ty.var.equal(0), tvm.tir.EQ)
    _, inner = s[T].split(T.op.axis[0], factor=8)
    s[T].bind(inner, ty)
    attr = s[T].iter_var_attrs[inner]
    assert attr.iter_type == tvm.tir.IterVar.ThreadIndex and attr.bind_thread.thread_tag == "threadIdx.y"


def test_where_stages_are() -> None:
    A = te.placeholder((64,), name="A")
    A1 = te.compute((64,), lambda *i: A(*i) + 1, name="A1")
    A2 = te.compute((64,), lambda *i: A1(*i) + 2, name="A2")
    C = te.compute((64,), lambda i: A2[i] + A1[i], name="C")
    s = te.create_schedule(C.op)
    xo, _ = s[C].split(C.op.axis[0], factor=8)
    s[A1].compute_at(s[C], xo)
    s[A2].compute_inline()
    s = s.normalize()
    assert s[A1].attach_type == te.schedule.AttachType.Scope and s[A1].attach_stage is s[C]
    assert s[A1].attach_ivar is xo and s[A2].attach_type == te.schedule.AttachType.Inline
    assert s[C].attach_type == te.schedule.AttachType.GroupRoot and s[C].attach_ivar is None
    assert s.stage_map[A1.op] is s[A1] and s[A1].origin_op is A1.op
    bounds = te.schedule.InferBound(s)
    assert bounds[A1.op.axis[0]].extent.value == 8 and bounds[xo].extent.value == 8
    assert te.schedule.CreateAttachPath(s)[A1.op] == (xo,)
    stores = []
    visit = tvm.tir.stmt_functor.post_order_visit
    visit(
        te.schedule.ScheduleOps(s, bounds), lambda x: stores.append(x) if isinstance(x, tvm.tir.BufferStore) else None
    )
    assert len(stores) == 2


def test_groups() -> None:
    A = te.placeholder((8, 9), name="A")
    A1 = te.compute((8, 9), lambda i, j: A[i, j] * 2, name="A1")
    A2 = te.compute((8, 9), lambda i, j: A1[i, j] + 1, name="A2")
    C = te.compute((8, 9), lambda i, j: A2[i, j] * 3, name="C")
    s = te.create_schedule(C.op)
    assert s[A1].group is None
    g = s.create_group(outputs=A2, inputs=A, include_inputs=False)
    assert s[A1].group is g and s[A2].group is g and g.num_child_stages == 2 and s[C].group is None
    g.compute_at(s[C], C.op.axis[0])
    assert g.attach_stage is s[C]


def test_graphs_of_operations() -> None:
    A = te.placeholder((4, 5), name="A")
    A1 = te.compute((4, 5), lambda i, j: A[i, j], name="A1")
    A2 = te.compute((4, 5), lambda i, j: A1[i, j] + 3, name="A2")
    g = te.schedule.CreateReadGraph([A2.op])
    assert g[A2.op] == (A1,) and g[A.op] == ()
    assert te.schedule.PostDFSOrder([A2.op], g) == [A.op, A1.op, A2.op]


def test_fixed_points_of_a_scan() -> None:
    time, m, n = te.var("time"), te.var("m"), te.var("n")
    x = te.placeholder((time, m, n), name="x")
    state = te.placeholder((time, m, n), name="state")
    init = te.compute((1, m, n), lambda _, i, j: x[0, i, j], name="init")
    flipped = te.compute((time, m, n), lambda t, i, j: x[t, j, i] + state[t - 1, i, 0], name="flipped")
    res = te.scan(init, flipped, state)
    assert te.schedule.ScanGetBody(res.op) == [flipped.op]
    fixed = te.schedule.ScanFixPointAnalysis(res.op)
    assert [fixed[a].value for a in res.op.spatial_axis_] == [1, 0]
    assert te.create_schedule(res.op)[flipped].attach_type == te.schedule.AttachType.ScanUpdate


def test_a_tensor_intrinsic_tells() -> None:
    x, y = te.placeholder((16,), name="x"), te.placeholder((16,), name="y")
    z = te.compute((16,), lambda i: x[i] + y[i], name="z")

    def intrin_func(ins, outs):
        assert isinstance(ins[0], tvm.tir.Buffer) and ins[0].shape[0].value == 16
        return tvm.tir.call_packed("vadd", ins[0].data, outs[0].data, ins[0].shape[0])

    intrin = te.decl_tensor_intrin(z.op, intrin_func, default_buffer_params={"offset_factor": 16})
    assert intrin.op is z.op and intrin.reduce_init is None and tuple(intrin.inputs) == (x, y)
    X, Y = te.placeholder((32,), name="X"), te.placeholder((32,), name="Y")
    Z = te.compute((32,), lambda i: X[i] + Y[i], name="Z")
    s = te.create_schedule(Z.op)
    _, xi = s[Z].split(Z.op.axis[0], factor=16)
    s[Z].tensorize(xi, intrin)
    assert s[Z].iter_var_attrs[xi].tensor_intrin is intrin
    assert s[Z].iter_var_attrs[xi].iter_type == tvm.tir.IterVar.Tensorized
    with pytest.raises(tvm.TVMError, match="a region for each of x, y"):
        intrin(1, 2)


# -- equality and text ----------------------------------------------------------------------------


def _lowered(factor: int, names: str) -> tvm.IRModule:
    n = te.var("n" + names)
    A = te.placeholder((n, 8), name="A" + names)
    k = te.reduce_axis((0, 8), "k" + names)
    B = te.compute((n,), lambda i: te.sum(A[i, k] * 2.0, axis=k), name="B" + names)
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=factor)
    return tvm.lower(s, [A, B], simple_mode=True)


def test_structural_equality() -> None:
    x, y = te.var("x"), te.var("y")
    assert tvm.ir.structural_equal(x + y, x + y) and not tvm.ir.structural_equal(x + y, y + x)
    assert tvm.ir.structural_equal(x + y, y + x, map_free_vars=True)
    assert not tvm.ir.structural_equal(x + y, x + x, map_free_vars=True)
    tvm.ir.assert_structural_equal(_lowered(8, ""), _lowered(8, "_"))
    assert tvm.ir.structural_hash(_lowered(8, "")) == tvm.ir.structural_hash(_lowered(8, "_"))
    with pytest.raises(ValueError, match="not structurally equal"):
        tvm.ir.assert_structural_equal(_lowered(8, ""), _lowered(16, "_"))


def _graph(scale: float, combine=te.sum):
    n = te.var("n")
    A = te.placeholder((n, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    return te.compute((n,), lambda i: combine(A[i, k] * scale, axis=k), name="B")


def _args(B: te.Tensor) -> list:
    return [*B.op.input_tensors, B]


def test_structural_equality_of_tensors_and_blocks() -> None:
    assert tvm.ir.structural_equal(_graph(2.0), _graph(2.0))
    assert not tvm.ir.structural_equal(_graph(2.0), _graph(3.0))
    assert not tvm.ir.structural_equal(_graph(2.0), _graph(2.0, te.max))
    functions = [te.create_prim_func(_args(B)) for B in (_graph(2.0), _graph(2.0), _graph(3.0))]
    assert tvm.ir.structural_equal(*functions[:2]) and not tvm.ir.structural_equal(*functions[1:])


def test_schedules_as_text() -> None:
    A = te.placeholder((64,), name="A")
    T = te.compute((64,), lambda i: A(i) * 10, name="T")
    s = te.create_schedule(T.op)
    _, inner = s[T].split(T.op.axis[0], factor=8)
    s[T].vectorize(inner)
    loaded = tvm.ir.load_json(tvm.ir.save_json(s))
    assert isinstance(loaded, te.schedule.Schedule)
    again = loaded.outputs[0]
    (source,) = again.op.input_tensors
    f = tvm.build(loaded, [source, again], "llvm")
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    f(a, b)
    np.testing.assert_array_equal(b, a * 10)


@pytest.mark.parametrize("kind", ["tensor", "operation", "tensors", "expression", "function", "module"])
def test_programs_as_text(kind: str) -> None:
    B = _graph(2.0)
    n = te.var("n")
    f = te.create_prim_func(_args(B))
    node = {
        "tensor": B,
        "operation": B.op,
        "tensors": _args(B),
        "expression": n * 2 + 1,
        "function": f,
        "module": tvm.IRModule({"main": f}),
    }[kind]
    loaded = tvm.ir.load_json(tvm.ir.save_json(node))
    assert tvm.ir.structural_equal(loaded, node, map_free_vars=True)


def test_what_is_not_stored_says_so() -> None:
    with pytest.raises(tvm.TVMError, match="a Function is not stored"):
        tvm.ir.save_json(_lowered(8, "")["main"])
    with pytest.raises(tvm.TVMError, match="not what save_json writes"):
        tvm.ir.load_json("{}")


def test_a_pragma_of_blocks_has_its_value() -> None:
    sch = tvm.tir.Schedule(te.create_prim_func(_args(_graph(2.0))))
    i, _ = sch.get_loops(sch.get_block("B"))
    sch.annotate(i, "pragma_auto_unroll_max_step", 16)
    assert sch.trace.to_json()[-1] == ["pragma", "B", "i", "auto_unroll_max_step", {"pragma_value": 16}]


def test_arguments_by_name() -> None:
    A = te.placeholder(shape=(64, 64), dtype="float32", name="A")
    k = te.reduce_axis(dom=(0, 64), name="k")
    B = te.compute(shape=(64,), fcompute=lambda i: te.sum(expr=A[i, k], axis=k), name="B")
    s = te.create_schedule(ops=[B.op])
    _, inner = s[B].split(parent=k, factor=tvm.tir.const(8, "int32"))
    F = s.rfactor(tensor=B, axis=inner, factor_axis=0)
    AA = s.cache_read(tensor=A, scope="global", readers=[F])
    s[AA].compute_at(parent=s[F], scope=F.op.axis[1])
    s[F].parallel(var=F.op.axis[0])
    s[B].unroll(var=B.op.axis[0])
    s[AA].vectorize(var=AA.op.axis[1])
    s[F].pragma(var=F.op.axis[1], pragma_type="auto_unroll_max_step", pragma_value=4)
    s[F].storage_align(axis=F.op.axis[0], factor=16, offset=0)
    a, b = np.random.default_rng(0).random((64, 64), "float32"), np.zeros(64, "float32")
    tvm.build(s, args=[A, B], target="llvm", name="rows")(a, b)
    tvm.testing.assert_allclose(b, a.sum(1), rtol=1e-5)
    C = te.compute((64,), lambda i: A[i, 0], name="C")
    s = te.create_schedule(C.op)
    s[C].prefetch(tensor=A, var=C.op.axis[0], offset=1)
    s[C].bind(ivar=C.op.axis[0], thread_ivar=te.thread_axis("threadIdx.x"))
    assert s[C].leaf_iter_vars == tuple(C.op.axis)
