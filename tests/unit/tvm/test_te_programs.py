"""Programs as people write them for TVM: what `lower` and `build` are given, and what they ask of schedules."""

from __future__ import annotations

import json

import numpy as np
import pytest

import autosched
from autosched import tvm
from autosched.errors import ArgumentError, LowerError, ScheduleError
from autosched.ir.expr import Expr
from autosched.runtime import registry
from autosched.tvm import te, tir, topi


def product(n: int = 16) -> tuple[te.Tensor, te.Tensor, te.Tensor, te.IterVar]:
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    return A, B, te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C"), k


def names(module: tvm.IRModule, function: str = "main") -> list[str]:
    return [p.name for p in module[function].params]


def test_what_is_missing_among_the_arguments_follows_them() -> None:
    A, B, C, _ = product()
    s = te.create_schedule(C.op)
    assert names(tvm.lower(s, [B], simple_mode=True)) == ["B", "A", "C"]
    assert names(tvm.lower(s, [])) == ["A", "B", "C"]
    assert names(tvm.driver.build_module.schedule_to_module(s, [C, A])) == ["C", "A", "B"]
    left, right = np.ones((16, 16), "float32"), np.eye(16, dtype="float32")
    np.testing.assert_array_equal(tvm.build(s, [B, A])(right, left), left)
    with pytest.raises(LowerError, match="B is an input and not among the arguments"):
        tvm.build(s, [A, C])


def test_functions_of_a_module_are_told_as_a_list() -> None:
    A, B, C, _ = product()
    module = tvm.lower(te.create_schedule(C.op), [A, B, C])
    ((name, function),) = module.functions.items()
    assert module.functions.items()[0] == (name, function) and module["main"] is function


def test_one_of_two_outputs_is_enough() -> None:
    A = te.placeholder((4,), name="A")
    one, two = te.compute((4,), lambda i: (A[i] + 1, A[i] * 2), name="both")
    s = te.create_schedule(one.op)
    assert names(tvm.lower(s, [A, two], simple_mode=True)) == ["A", "both.v1"]
    assert names(tvm.lower(s, [A], simple_mode=True)) == ["A", "both.v0", "both.v1"]


def test_a_state_of_a_scan_is_no_argument() -> None:
    x, state = te.placeholder((8, 4), name="x"), te.placeholder((8, 4), name="state")
    first = te.compute((1, 4), lambda _, i: x[0, i], name="first")
    step = te.compute((8, 4), lambda t, i: state[t - 1, i] + x[t, i], name="step")
    total = te.scan(first, step, state, inputs=x)
    s = te.create_schedule(total.op)
    assert names(tvm.lower(s, [state], simple_mode=True)) == ["x", "scan"]
    with pytest.raises(LowerError, match="state is part of a scan"):
        tvm.build(s, [x, state, total])


def test_lengths_that_are_whole_floats() -> None:
    A = te.placeholder((64 / 8, 8), name="A")
    B = te.compute((64 / 8, 16 / 2), lambda i, j: A[i, j] + 1, name="B")
    assert [int(d) for d in B.shape] == [8, 8]
    with pytest.raises(tvm.TVMError, match="dimension 2.5f is not an integer"):
        te.placeholder((5 / 2,), name="A")


def test_the_reduce_axis_of_the_tensor_names_the_cache_s() -> None:
    A, B, C, k = product()
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "local")
    s[CC].reorder(k, *s[CC].op.axis)
    outer, _ = s[CC].split(k, factor=4)
    AA = s.cache_read(A, "local", [CC])
    s[AA].compute_at(s[CC], outer)
    assert s[AA].attach_ivar is outer and "k_c_outer" in str(tvm.lower(s, [A, B, C], simple_mode=True))
    x = np.random.default_rng(1).random((2, 16, 16), dtype="float32")
    np.testing.assert_allclose(tvm.build(s, [A, B, C])(*x), x[0] @ x[1], rtol=1e-5)


def test_stages_go_with_the_loop_that_they_were_put_at() -> None:
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((8, 8), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[1])
    s[C].split(s[C].fuse(*C.op.axis), factor=4)
    with pytest.raises(ScheduleError, match="was split or fused away"):
        s.verify()
    tvm.lower(s, [A, C])
    assert s[B].attach_ivar.name == "i.j.fused.inner"


def test_attributes_answer_as_objects() -> None:
    A = te.placeholder((4,), name="A")
    attrs = {"n": 3, "f": 0.5, "name": "x", "list": [1, [2]], "on": True}
    B = te.compute((4,), lambda i: A[i], name="B", attrs=attrs)
    for op in (B.op, tvm.ir.load_json(tvm.ir.save_json(B)).op):
        assert (op.attrs["n"].value, op.attrs["f"].value, op.attrs["name"].value) == (3, 0.5, "x")
        assert op.attrs["list"][1][0].value == 2 and op.attrs["n"] + 1 == 4 and op.attrs["on"] is True
        assert json.loads(str(op.attrs)) == attrs == op.attrs
    buffer = tir.decl_buffer((4,), scope="shared")
    assert buffer.scope() == buffer.scope == "shared" and isinstance(tir.Buffer.scope, object)


def test_outputs_of_a_schedule_have_the_parts_of_operations() -> None:
    *_, C, _ = product()
    (out,) = te.create_schedule(C.op).outputs
    assert out.output(0) is C and out.num_outputs == 1 and out.axis == C.op.axis and out.body == C.op.body
    assert len(out.input_tensors) == 2 and out.tag == ""


def test_groups_inside_groups() -> None:
    x = te.compute((4, 4), lambda i, j: i + j, name="x")
    y = te.compute((4, 4), lambda i, j: x[i, j] + 1, name="y")
    z = te.compute((4, 4), lambda i, j: y[i, j] + 2, name="z")
    s = te.create_schedule(z.op)
    inner = s.create_group(outputs=y, inputs=x)
    outer = s.create_group(outputs=y, inputs=x, include_inputs=True)
    assert (s[x].group, s[y].group, s[z].group) == (outer, inner, None)
    assert inner.group is outer and outer.group is None
    assert (inner.num_child_stages, outer.num_child_stages) == (1, 2)


def test_pragmas_of_one_s_own() -> None:
    *_, C, _ = product()
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[C].pragma(i, "mine", 3)
    s[C].pragma(j, "vectorize")
    s[C].pragma(i, "auto_unroll_max_step", 16)
    assert [(key.value, v) for key, v in zip(*(getattr(s[C].iter_var_attrs[i], f"pragma_{x}") for x in
            ("keys", "values")), strict=True)] == [("auto_unroll_max_step", 16), ("mine", 3)]  # fmt: skip
    assert s[C].iter_var_attrs[j].iter_type == te.schedule.IterVar.Vectorized
    with pytest.raises(ScheduleError, match="no pass looks for matrix products"):
        s[C].pragma(i, "tensor_core")


def test_inlining_of_what_is_tagged_broadcast() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[3 - i], name="B", tag="broadcast")
    s = te.create_schedule(te.compute((4,), lambda i: B[i] + 1, name="C").op)
    te.schedule.AutoInlineBroadcast(s)
    assert s[B].attach_type == te.schedule.AttachType.Inline


def test_a_rule_of_an_intrinsic_asks_for_its_name() -> None:
    seen = []

    @tvm.ir.register_intrin_lowering("tir.of_this_test", target="llvm", level=99)
    def rule(op: Expr) -> Expr:
        seen.append((isinstance(op, tir.Call), op.op.name, str(op.dtype), len(op.args)))
        return op if seen[1:] else op.args[0] * 2.0

    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: tir.call_intrin("float32", "tir.of_this_test", A[i]), name="B")
    np.testing.assert_array_equal(tvm.build(te.create_schedule(B.op), [A, B])(np.ones(4, "float32")), [2.0] * 4)
    assert seen[0] == (True, "tir.of_this_test", "float32", 1)


def test_containers() -> None:
    shape = tvm.runtime.ShapeTuple([2, 3])
    assert shape == [2, 3] == list(shape) and shape == (2, 3) and hash(shape) == hash((2, 3)) and shape != [2]
    value = tvm.runtime.container.tuple_object([tvm.nd.array(np.ones(2)), tvm.runtime.ADT(1, [])])
    assert (value.tag, len(value), value[1].tag) == (0, 2, 1)
    with pytest.raises(tvm.TVMError, match="3 is no array\n  arrays, and tuples of them"):
        tvm.runtime.container.tuple_object([3])
    assert tvm.container.getitem("abc", lambda o, k: o[k], 3, slice(0, 2)) == ["a", "b"]
    assert tvm.container.getitem("abc", lambda o, k: o[k], 3, -1) == "c"
    with pytest.raises(IndexError):
        tvm.container.getitem("abc", lambda o, k: o[k], 3, 3)


def test_passes_that_have_no_counterpart_may_be_left_out() -> None:
    with tvm.transform.PassContext(disabled_pass=["tir.CommonSubexprElimTIR", "tir.RemoveNoOp"]):
        A, B, C, _ = product()
        assert names(tvm.lower(te.create_schedule(C.op), [A, B, C])) == ["A", "B", "C"]


def test_what_was_lowered_is_built_for_whatever_target() -> None:
    A, B, C, _ = product()
    x = np.random.default_rng(1).random((2, 16, 16), dtype="float32")
    lowered = tvm.lower(te.create_schedule(C.op), [A, B, C], name="product")
    for target in ("c", "llvm"):
        module = tvm.build(lowered, target=target)
        assert module.type_key == target
        np.testing.assert_allclose(module["product"](*x), x[0] @ x[1], rtol=1e-5)
    keep = tir.transform.prim_func_pass(lambda f, mod, ctx: f, opt_level=0, name="keep")
    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, keep)]}):
        lowered = tvm.lower(te.create_schedule(C.op), [A, B, C], name="product")
    with pytest.raises(tvm.TVMError, match="it was lowered for llvm"):
        tvm.build(lowered, target="c")


def test_the_same_bits() -> None:
    A = te.placeholder((4,), "int32", name="A")
    B = te.compute((4,), lambda i: tir.call_intrin("float32", "tir.reinterpret", A[i] + 2), name="B")
    x = np.arange(4, dtype="int32") + 2**30
    np.testing.assert_array_equal(tvm.build(te.create_schedule(B.op), [A, B])(x), (x + 2).view("float32"))
    assert tir.reinterpret("int32", A[0].astype("float32")).dtype == "int32"


@pytest.mark.parametrize("simple_mode", [True, False])
def test_loops_are_directly_in_the_body(simple_mode: bool) -> None:
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((4, 8), lambda i, j: b[i, j] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    function = tvm.lower(s, [a, c], simple_mode=simple_mode)["main"]
    assert isinstance(function.body, tvm.tir.For) and not isinstance(function.body.body, tvm.tir.For)
    x, y = np.ones((4, 8), "float32"), np.zeros((4, 8), "float32")
    tvm.build(tvm.lower(s, [a, c], simple_mode=simple_mode), target="llvm")(x, y)
    np.testing.assert_array_equal(y, 4 * x)


def test_buffers_of_an_intrinsic_go_by_number() -> None:
    x = te.placeholder((4,), name="x")
    z = te.compute((4,), lambda i: x[i] + 1, name="z")
    made = te.decl_tensor_intrin(z.op, lambda ins, outs: tvm.tir.call_packed("f", ins[0], outs[0]))
    assert (made.buffers[0], made.buffers[1]) == (made.buffers[x], made.buffers[z])
    with pytest.raises(KeyError):
        made.buffers[2]


def test_a_group_inside_another_is_put_elsewhere() -> None:
    x = te.compute((6, 4), lambda i, j: i + j, name="x")
    y = te.compute((6, 4), lambda i, j: x[i, j] + 1, name="y")
    z = te.compute((6, 4), lambda i, j: y[i, j] + 2, name="z")
    s = te.create_schedule(z.op)
    inner = s.create_group(outputs=x, inputs=x, include_inputs=True)
    outer = s.create_group(outputs=y, inputs=x, include_inputs=True)
    outer.compute_at(s[z], z.op.axis[0])
    assert s[x].attach_stage is s[z] and s[y].attach_stage is s[z]
    inner.compute_at(s[y], y.op.axis[1])
    assert s[x].attach_stage is s[y] and s[x].attach_ivar is y.op.axis[1]
    bounds = te.schedule.InferBound(s)
    assert [int(bounds[a].extent) for a in (*x.op.axis, *y.op.axis)] == [1, 1, 1, 4]
    outer.compute_at(s[z], z.op.axis[1])
    assert s[y].attach_ivar is z.op.axis[1] and s[x].attach_stage is s[y]
    np.testing.assert_array_equal(tvm.build(s, [z])(), np.add.outer(np.arange(6), np.arange(4)) + 3)


def test_the_steps_of_a_scan_are_a_group() -> None:
    x, state = te.placeholder((6, 4), name="x"), te.placeholder((6, 4), name="state")
    first = te.compute((1, 4), lambda _, i: x[0, i], name="first")
    one = te.compute((6, 4), lambda t, i: state[t - 1, i] + x[t, i], name="one")
    two = te.compute((6, 4), lambda t, i: one[t, i] * 2, name="two")
    step = te.compute((6, 4), lambda t, i: two[t, i] + 1, name="step")
    total = te.scan(first, step, state, inputs=[x])
    s = te.create_schedule(total.op)
    steps = s[step].group
    assert steps is not None and s[one].group is s[two].group is steps and s[first].group is None
    assert steps.attach_stage is s[total]
    part = s.create_group(outputs=two, inputs=[state, x])
    assert part.group is steps and s[one].group is s[two].group is part
    part.compute_at(s[step], step.op.axis[1])
    assert part.attach_stage is s[step] and {s[t].attach_ivar for t in (one, two)} == {step.op.axis[1]}
    given = np.arange(24, dtype="float32").reshape(6, 4) % 5
    want = given.copy()
    for t in range(1, 6):
        want[t] = (want[t - 1] + given[t]) * 2 + 1
    np.testing.assert_array_equal(tvm.build(s, [x, total])(given), want)


def test_the_schedule_after_each_primitive() -> None:
    A, B, C, k = product(32)
    s = te.create_schedule(C.op)
    assert s.primitive_record == ["vanilla"] and len(s.schedule_record) == 1
    *_, xi = s[C].tile(*C.op.axis, 8, 4)
    s[C].split(k, nparts=2)
    s[C].vectorize(xi)
    assert s.primitive_record == ["vanilla", "split", "split", "reorder", "split_by_nparts", "vectorize"]
    loops = [[loop.name for loop in made[C].leaf_iter_vars] for made in s.schedule_record]
    assert loops == [
        ["i", "j", "k"],
        ["i.outer", "i.inner", "j", "k"],
        ["i.outer", "i.inner", "j.outer", "j.inner", "k"],
        ["i.outer", "j.outer", "i.inner", "j.inner", "k"],
        ["i.outer", "j.outer", "i.inner", "j.inner", "k.outer", "k.inner"],
        ["i.outer", "j.outer", "i.inner", "j.inner", "k.outer", "k.inner"],
    ]
    assert [made[C].loops[0].name for made in s.schedule_record[-2:]] == ["i.outer", "i.outer"]
    assert s.schedule_record[-1] is not s and "vectorized" in str(
        tvm.lower(s.schedule_record[-1], [A, B, C], simple_mode=True)
    )
    with pytest.raises(IndexError):
        s.schedule_record[6]


def test_a_function_of_a_script_is_called_main_once_lowered() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    f = te.create_prim_func([A, B]).with_attr("global_symbol", "add_one")
    assert list(tvm.lower(f)) == ["main"] and list(tvm.lower(f, name="plus")) == ["plus"]
    assert list(tvm.lower(tvm.IRModule({"add_one": f}))) == ["add_one"]
    np.testing.assert_array_equal(tvm.build(tvm.lower(f), target="llvm")(np.ones(8, "float32")), np.full(8, 2.0))


def test_a_number_of_the_call_in_front_of_a_tensor() -> None:
    x, A = te.var("x", "float32"), te.placeholder((3, 4), name="A")
    one = te.compute((1,), lambda i: te.const(2.0, "float32"), name="one")
    for made in (x - A, x * A + one[0], (x < A).astype("float32")):
        assert isinstance(made, te.Tensor) and [int(d) for d in made.shape] == [3, 4]
    B = topi.nn.relu(x - A)
    given = np.arange(12, dtype="float32").reshape(3, 4)
    np.testing.assert_array_equal(tvm.build(te.create_schedule(B.op), [x, A, B])(5.0, given), np.maximum(5 - given, 0))


def test_partial_sums_go_by_the_axes_of_the_sum() -> None:
    A, k1, k2 = te.placeholder((5, 6, 7), name="A"), te.reduce_axis((0, 6), "k1"), te.reduce_axis((0, 7), "k2")
    B = te.compute((5,), lambda i: te.sum(A[i, k1, k2], axis=[k1, k2]), name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(k1, factor=4)
    BF = s.rfactor(B, inner)
    assert [a.name for a in BF.op.reduce_axis] == ["k2", "k1.outer"]
    s[BF].split(k2, factor=3)
    s[B].unroll(k1)
    calls = [(i.stage, *i.args) for i in s.trace]
    assert calls[-2:] == [("B.rf", "k2"), ("B", "k1.inner.v")]
    given = np.random.default_rng(1).random((5, 6, 7), dtype="float32")
    np.testing.assert_allclose(tvm.build(s, [A, B])(given), given.sum((1, 2)), rtol=1e-5)


def test_a_python_function_may_be_registered_after_the_build() -> None:
    A = te.placeholder((4,), name="A")
    C = te.extern((4,), [A], lambda ins, outs: tir.call_packed("test.registered_later", ins[0], outs[0]), name="C")
    program = tvm.build(te.create_schedule(C.op), [A, C], "llvm")
    a, c = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    with pytest.raises(tvm.TVMError, match="no Python function is registered under that name"):
        program(a, c)

    @tvm.register_func("test.registered_later")
    def double(x, y):
        y.copyfrom(x.numpy() * 2)

    try:
        program(a, c)
        np.testing.assert_array_equal(c, 2 * a)
    finally:
        registry.remove_global_func("test.registered_later")


def test_buffers_of_one_length_for_tensors_of_any() -> None:
    n = te.size_var("n")
    A, other = te.placeholder((n, 4), name="A"), te.placeholder((n,), name="other")
    B = te.compute((n, 4), lambda i, j: A[i, j] * 2, name="B")
    binds = {A: tir.decl_buffer((3, 4), name="mine"), other: tir.decl_buffer((3,))}
    program = tvm.build(te.create_schedule(B.op), [A, B], binds=binds)
    for length in (3, 5):
        a = np.arange(4 * length, dtype="float32").reshape(length, 4)
        np.testing.assert_array_equal(program(a), 2 * a)
    with pytest.raises(LowerError, match=r"the buffer's shape is \[3, 5\]"):
        tvm.build(te.create_schedule(B.op), [A, B], binds={A: tir.decl_buffer((3, 5))})


def test_texts_among_the_arguments_of_a_call() -> None:
    seen: list[tuple[str, float, str]] = []

    @tvm.register_func("test.labelled", override=True)
    def labelled(label, value, unit):
        seen.append((label, value, unit))
        return len(label)

    A = te.placeholder((2,), name="A")
    B = te.compute((2,), lambda i: tir.call_packed("test.labelled", 'it\'s "x"', A[i], "ms"), name="B")
    s = te.create_schedule(B.op)
    np.testing.assert_array_equal(tvm.build(s, [A, B], "llvm")(np.array([1, 2], "float32")), [8, 8])
    assert seen == [('it\'s "x"', 1.0, "ms"), ('it\'s "x"', 2.0, "ms")]
    text = str(te.create_prim_func([A, B]))
    assert "test.labelled" in text
    again = tvm.script.from_source(text)
    np.testing.assert_array_equal(tvm.build(again, target="llvm")(np.array([3, 4], "float32")), [8, 8])
    assert [value for _, value, _ in seen[2:]] == [3.0, 4.0]


def test_sizes_without_a_name_are_sizes_of_their_own() -> None:
    A = te.placeholder([te.var() for _ in range(4)])
    B = te.compute(A.shape, lambda *i: A[i] + 1.0)
    add = tvm.build(te.create_schedule(B.op), [A, B])
    x = np.arange(120, dtype="float32").reshape(2, 3, 4, 5)
    y = np.zeros_like(x)
    add(x, y)
    np.testing.assert_array_equal(y, x + 1)


def test_numbers_that_shapes_are_made_of() -> None:
    """Of a formula over several sizes no shape tells each: the call's numbers do."""
    n, m = te.var("n"), te.var("m")
    A = te.placeholder((n, m), name="A")
    bi, bj, si, sj = [te.var(name) for name in ("bi", "bj", "si", "sj")]
    B = te.compute(((n - bi) // si, (m - bj) // sj), lambda i, j: A[i * si + bi, j * sj + bj], name="B")
    part = tvm.build(te.create_schedule(B.op), [A, B, bi, si, bj, sj])
    x = np.arange(12, dtype="float32").reshape(3, 4)
    for numbers, wanted in (((1, 2, 1, 1), x[1::2, 1:]), ((2, 1, 0, 2), x[2:, 0::2]), ((0, 1, 0, 1), x)):
        y = np.empty(wanted.shape, "float32")
        part(x, y, *numbers)
        np.testing.assert_array_equal(y, wanted)
    with pytest.raises(
        ArgumentError,
        match=r"shape \(2, 2\): dimension 0 is 2 and should be \(n - bi\) // si = 1 \(bi = 1 by argument \'bi\', ",
    ):
        part(x, np.empty((2, 2), "float32"), 1, 2, 0, 2)
    with pytest.raises(ArgumentError, match="'bj': is -1"):
        part(x, np.empty((1, 2), "float32"), 1, 2, -1, 2)
    np.testing.assert_array_equal(part(x, 1, 2, 0, 2), x[1::2, 0::2])


def test_loops_are_fused_from_the_inside_out_as_well() -> None:
    A = te.placeholder((3, 4, 5, 2), name="A")
    B = te.compute(A.shape, lambda i, j, k, x: A[i, j, k, x] * 2.0, name="B")
    s = te.create_schedule(B.op)
    i, j, k, x = s[B].op.axis
    inner = s[B].fuse(k, j)
    whole = s[B].fuse(x, inner, i)
    assert (inner.name, whole.name) == ("j.k.fused", "i.j.k.fused.x.fused.fused")
    s[B].parallel(whole)
    values, out = np.arange(120, dtype="float32").reshape(A.shape), np.zeros(A.shape, "float32")
    tvm.build(s, [A, B])(values, out)
    np.testing.assert_array_equal(out, values * 2)
    assert s.trace.as_python().count(".fuse(") == 2
    with pytest.raises(ScheduleError, match="not directly inside"):
        t = te.create_schedule(B.op)
        t[B].fuse(t[B].op.axis[0], t[B].op.axis[2])


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("rows", [False, True])
def test_a_stage_at_a_vectorized_loop_is_computed_for_all_lanes(before: bool, rows: bool) -> None:
    X = te.placeholder((6, 10), name="X")
    r = te.reduce_axis((0, 3), "r")
    P = te.compute((6, 8), lambda i, j: te.sum(X[i, j + r], axis=r), name="P")
    Y = te.compute((6, 8), lambda i, j: P[i, j] / 3.0, name="Y")
    s = te.create_schedule(Y.op)
    if not rows:
        s[Y].reorder(Y.op.axis[1], Y.op.axis[0])
    lanes = Y.op.axis[1]
    if before:
        s[P].compute_at(s[Y], lanes)
    s[Y].vectorize(lanes)
    if not before:
        s[P].compute_at(s[Y], lanes)
    assert s[P].attach.loop is (s[Y].loops[0] if rows else None)
    x, y = np.arange(60, dtype="float32").reshape(6, 10), np.zeros((6, 8), "float32")
    tvm.build(s, [X, Y])(x, y)
    np.testing.assert_allclose(y, (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) / 3)
    with pytest.raises(ScheduleError, match="has no loop"):
        s[P].compute_at(s[Y], "nothing")
    plain = autosched.create_schedule(Y)
    plain["Y"].vectorize("j")
    with pytest.raises(ScheduleError, match="inside a vector lane"):
        plain["P"].compute_at("Y", "j")
