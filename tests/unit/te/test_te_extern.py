"""te.extern: opaque statements and call-backs, on the CPU, in the interpreter and as kernels; ir_builder."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from messages import without_line

from autosched import te
from autosched.building import build
from autosched.errors import BuildError, LowerError, RecordError, ScheduleError, UsageError
from autosched.ir.builder import create
from autosched.ir.calls import call_extern, call_packed
from autosched.ir.functions import register_func
from autosched.lowering.pipeline import lower, lower_structure
from autosched.runtime.interpreter import interpret
from autosched.schedule.schedule import Schedule, create_schedule

pytestmark = pytest.mark.usefixtures("own_registries")

Golden = Callable[..., None]


def everywhere(args: list[te.Tensor], inputs: list[np.ndarray], s: Schedule | None = None) -> list[np.ndarray]:
    """The outputs of the reference, which are those of llvm and of the interpreter."""
    outputs = [t for t in args if not isinstance(t.op, te.PlaceholderOp)]
    s = s or create_schedule(outputs)
    expected = te.reference(args, inputs)
    slow = [np.zeros_like(e) for e in expected]
    interpret(lower_structure(s, args, "llvm").bind({}), [*inputs, *slow])
    fast = build(s, args=args)(*inputs)
    for e, a, b in zip(expected, slow, fast if isinstance(fast, tuple) else (fast,), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-5)
        np.testing.assert_allclose(b, e, rtol=1e-5)
    return expected


def _matmul(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    c[...] = a @ b


def test_a_call_back_between_two_computations() -> None:
    register_func("test.matmul", _matmul)
    n, m, k = te.var("n"), te.var("m"), te.var("k")
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    more = te.compute((n, k), lambda i, j: a[i, j] + 1, name="more")
    c = te.extern((n, m), [more, b], lambda i, o: call_packed("test.matmul", i[0], i[1], o[0]), name="C")
    d = te.compute((n, m), lambda i, j: c[i, j] * 2, name="D")
    rng = np.random.default_rng(0)
    x, y = rng.random((5, 3), "float32"), rng.random((3, 4), "float32")
    (result,) = everywhere([a, b, d], [x, y])
    np.testing.assert_allclose(result, (x + 1) @ y * 2, rtol=1e-5)


def _filled(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    b[...] = a + 1
    return b


def test_what_stands_alone_may_return_anything() -> None:
    register_func("test.filled", _filled)
    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], lambda i, o: call_packed("test.filled", i[0], o[0]), name="B")
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(everywhere([a, b], [x])[0], x + 1)


def test_an_expression_gets_a_number() -> None:
    register_func("test.list", lambda x: np.array([x, x]))
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: call_packed("test.list", a[i], dtype="float32"), name="B")
    x = np.arange(4, dtype="float32")
    message = r"'test.list'.*it returned an array of shape \(2,\)"
    with pytest.raises(BuildError, match=message):
        build(create_schedule(b), args=[a, b])(x)
    with pytest.raises(BuildError, match=message):
        te.reference([a, b], [x])
    with pytest.raises(BuildError, match=message):
        interpret(lower(create_schedule(b), [a, b]).function, [x, np.zeros(4, "float32")])


def _running_sums(reference: Any = None) -> list[te.Tensor]:
    n = te.var("n")
    a = te.placeholder((n,), name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        total = ib.allocate("float32", 1, name="total", scope="local")
        total[0] = te.const(0.0, "float32")
        with ib.for_range(0, n, name="i") as i:
            with ib.if_scope(ib.likely(data[i] > 0)):
                total[0] = total[0] + data[i]
            with ib.else_scope():
                total[0] = te.const(0.0, "float32")
            result[i] = total[0]
        return ib.get()

    return [a, te.extern((n,), [a], body, name="sums", reference=reference)]


def _sums(x: np.ndarray) -> np.ndarray:
    result, total = np.zeros_like(x), np.float32(0)
    for i, v in enumerate(x):
        total = total + v if v > 0 else np.float32(0)
        result[i] = total
    return result


def test_a_body_of_statements(golden: Golden) -> None:
    args = _running_sums(_sums)
    everywhere(args, [np.array([1, 2, -1, 3, 4, 0, 5], "float32")])
    golden(str(lower(create_schedule(args[1]), args, "sums")), "sums")


def test_several_outputs_of_different_shapes() -> None:
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        data, low, count = (ib.buffer_ptr(b) for b in (*ins, *outs))
        count[0] = te.const(0)
        with ib.for_range(0, n, name="i") as i:
            low[i, 0] = data[i]
            low[i, 1] = data[i] * data[i]
            with ib.if_scope(data[i] < 0):
                count[0] = count[0] + 1
        return ib.get()

    squares, count = te.extern(
        [(n, 2), (1,)],
        [a],
        body,
        name="E",
        dtype=["int32", "int32"],
        reference=lambda x: (np.stack([x, x * x], 1), [(x < 0).sum()]),
    )
    total = te.compute((n,), lambda i: squares[i, 1] + count[0], name="total")
    everywhere([a, total, count], [np.array([3, -2, 5, -7], "int32")])


def test_loops_of_all_kinds_while_and_let() -> None:
    a = te.placeholder((8, 16), "int32", name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, name="y", kind="parallel") as y:
            base = ib.let("base", y * 16)
            with ib.for_range(0, 16, name="x", kind="vectorize") as x:
                result[y, x] = data[base + x] * 2  # one index counts elements
            steps = ib.allocate("int32", 1, name="steps", scope="local")
            steps[0] = te.const(0)
            with ib.while_loop(data[y, steps[0]] < 100):
                steps[0] = steps[0] + 1
            with ib.for_range(0, 2, name="u", kind="unroll") as u:
                result[y, u] = steps[0] + u
        return ib.get()

    def reference(x: np.ndarray) -> np.ndarray:
        result = x * 2
        first = np.argmax(x >= 100, axis=1)
        result[:, 0], result[:, 1] = first, first + 1
        return result

    b = te.extern((8, 16), [a], body, name="B", reference=reference)
    x = np.random.default_rng(1).integers(0, 99, (8, 16)).astype("int32")
    x[np.arange(8), np.arange(8) + 3] = 100
    everywhere([a, b], [x])


def test_a_c_function_on_whole_buffers() -> None:
    n = te.var("n")
    a = te.placeholder((n, 4), "int32", name="A")
    b = te.extern(
        (n, 4),
        [a],
        lambda ins, outs: call_extern("void", "memcpy", outs[0], ins[0], (n * 16).astype("uint64")),
        name="B",
        reference=lambda x: x,
    )
    everywhere([a, b], [np.arange(12, dtype="int32").reshape(3, 4)])


def test_threads_make_a_kernel() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
        ib.scope_attr(bx, "thread_extent", te.ceildiv(n, 16))
        ib.scope_attr(tx, "thread_extent", 16)
        i = ib.let("i", bx * 16 + tx)
        with ib.if_scope(ib.likely(i < n)):
            result[i] = data[i] * 3
        return ib.get()

    b = te.extern((n,), [a], body, name="B", reference=lambda x: 3 * x)
    c = te.compute((n,), lambda i: b[n - 1 - i] + 1, name="C")
    s = create_schedule(c)
    s[c].bind("i", "blockIdx.x")
    module = build(s, "opencl", args=[a, c])
    x = np.arange(37, dtype="float32")
    np.testing.assert_allclose(module(x), 3 * x[::-1] + 1)
    slow = np.zeros_like(x)
    interpret(lower_structure(s, [a, c], "opencl").bind({}), [x, slow])
    np.testing.assert_allclose(slow, 3 * x[::-1] + 1)
    with pytest.raises(LowerError, match=r"blockIdx.x exists on GPU-style targets only"):
        build(create_schedule(b), args=[a, b])


def test_conditions_on_memory_are_asked_each_time() -> None:
    """What an `if` asked of memory no longer holds once its body has written there."""
    a = te.placeholder((1,), "int32", name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        result[0] = data[0]
        with ib.if_scope(result[0] > 0):
            result[0] = te.const(-5)
            with ib.if_scope(result[0] > 0):
                result[0] = te.const(7)
        return ib.get()

    b = te.extern((1,), [a], body, name="B", reference=lambda x: np.where(x > 0, -5, x))
    for value in (3, -3):
        everywhere([a, b], [np.array([value], "int32")])


def test_a_cache_may_stand_before_it() -> None:
    args = _running_sums(_sums)
    s = create_schedule(args[1])
    s.cache_read(args[0], "global", [args[1]])
    everywhere(args, [np.arange(9, dtype="float32")], s)


def test_padded_inputs() -> None:
    a = te.placeholder((4, 6), name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1, name="B")

    def body(flat: bool) -> Any:
        def fcompute(ins: Any, outs: Any) -> Any:
            ib = create()
            data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
            with ib.for_range(0, 4, name="i") as i:
                result[i] = data[i * 6 + 5] if flat else data[i, 5]
            return ib.get()

        return fcompute

    for flat in (False, True):
        c = te.extern((4,), [b], body(flat), name="C", reference=lambda x: x[:, 5])
        s = create_schedule(c)
        s[b].storage_align("i", 8)
        if not flat:
            everywhere([a, c], [np.arange(24, dtype="float32").reshape(4, 6)], s)
            continue
        with pytest.raises(LowerError) as caught:
            lower(s, [a, c])
        assert without_line(caught.value) == (
            "extern C: the memory of B is padded, and C counts its elements one after the other\n"
            "  an index for each dimension; or neither storage_align nor tail='round_up' for B"
        )


def test_a_declared_stride_is_that_of_the_memory() -> None:
    """`storage_align` pads the rows of what the body reads: its stride is 9, not 4."""
    a = te.placeholder((3, 4), name="A")
    b = te.compute((3, 4), lambda i, j: a[i, j] + 1, name="B")
    declared = te.decl_buffer((3, 4), strides=[te.var("step"), 1])

    def body(ins: list[Any], outs: list[Any]) -> Any:
        ib = create()
        ib.buffer_ptr(outs[0])[0] = ins[0].strides[0].astype("float32")
        return ib.get()

    c = te.extern((1,), [b], body, in_buffers=[declared], dtype="float32", name="C")
    for padded, stride in ((False, 4), (True, 9)):
        s = create_schedule(c)
        if padded:
            s[b].storage_align(b.op.axis[0], 8, 1)
        assert build(s)(np.zeros((3, 4), "float32")) == [stride]


def test_an_exception_in_a_call_back_of_an_extern() -> None:
    def refuse(*_: Any) -> None:
        raise ZeroDivisionError("as itself")

    register_func("test.refuse", refuse)
    a = te.placeholder((4,), name="A")
    b = te.extern((4,), [a], lambda ins, outs: call_packed("test.refuse", ins[0], outs[0]), name="B")
    module = build(create_schedule(b), args=[a, b])
    for run in (module, lambda x: te.reference([a, b], [x])):
        with pytest.raises(ZeroDivisionError, match="as itself"):
            run(np.zeros(4, "float32"))


# -- errors ---------------------------------------------------------------------------------------


def test_primitives_on_an_opaque_stage() -> None:
    args = _running_sums()
    b = te.compute(args[0].shape, lambda i: args[1][i] + 1, name="B")
    s = create_schedule(b)
    for call in (
        lambda: s[args[1]].split("i", factor=2),
        lambda: s[args[1]].compute_at(s[b], "i"),
        lambda: s[args[1]].compute_inline(),
        lambda: s.cache_write(args[1], "local"),
    ):
        with pytest.raises(ScheduleError, match="sums is a te.extern: nothing is known of what its statement does"):
            call()
    more = te.compute((4,), lambda i: args[0][i] + 1, name="more")
    c = te.extern((4,), [more], lambda ins, outs: call_packed("f", ins[0], outs[0]), name="C")
    s = create_schedule(c)
    with pytest.raises(ScheduleError, match="C is a te.extern, which reads memory"):
        s[more].compute_inline()


def _with_body(write: Any) -> Any:
    a = te.placeholder((4,), name="A")
    return te.extern((4,), [a], write, name="B")


def _stores_to(pick: Any) -> Any:
    def fcompute(ins: Any, outs: Any) -> Any:
        ib = create()
        pick(ib, ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]))
        return ib.get()

    return fcompute


@pytest.mark.parametrize(
    ("fcompute", "message"),
    [
        (lambda ins, outs: None, "extern B: fcompute returned None"),
        (_stores_to(lambda ib, a, b: a.__setitem__(0, b[0])), "extern B: it writes to its input A"),
        (_stores_to(lambda ib, a, b: b.__setitem__(0, ib.pointer("float32", "P")[0])), "P is not among its buffers"),
        (_stores_to(lambda ib, a, b: b.__setitem__((0, 0), 1.0)), "B has 1 dimensions, not 2"),
        (_stores_to(lambda ib, a, b: b.__setitem__(0, te.const(1, "int64"))), "a int64 does not fit into B"),
        (_stores_to(lambda ib, a, b: ib.else_scope().__enter__()), "no if_scope ends just before it"),
        (_stores_to(lambda ib, a, b: ib.emit(a[0])), "it is no call"),
        (_stores_to(lambda ib, a, b: ib.for_range(0, 4, kind="sideways").__enter__()), "no loop of kind 'sideways'"),
        (_stores_to(lambda ib, a, b: ib.scope_attr(a, "storage_scope", "local")), "'storage_scope' means nothing here"),
        (_stores_to(lambda ib, a, b: b.__setitem__(te.thread_axis("threadIdx.x").var, 1.0)), "has no value in it"),
    ],
)
def test_what_a_body_may_not_do(fcompute: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        _with_body(fcompute)
    assert message in str(caught.value)


def test_what_extern_needs() -> None:
    a, b = te.placeholder((4,), name="A"), te.placeholder((4,), "int32", name="B")
    with pytest.raises(UsageError, match="the type of its output cannot be told from its inputs"):
        te.extern((4,), [a, b], lambda ins, outs: call_packed("f"), name="C")
    c = te.extern((4,), [a, b], lambda ins, outs: call_extern("void", "f", outs[0]), name="C", dtype="int8")
    with pytest.raises(BuildError, match="its statement is no expression that NumPy could evaluate"):
        te.reference([a, b, c], [np.zeros(4, "float32"), np.zeros(4, "int32")])


def test_a_scope_that_is_still_open() -> None:
    ib = create()
    with ib.for_range(0, 4), pytest.raises(UsageError, match="1 scopes are still open"):
        ib.get()


# -- as data --------------------------------------------------------------------------------------


def _every_statement() -> list[te.Tensor]:
    n = te.var("n")
    a = te.placeholder((n, 8), name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = create()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, name="i", kind="parallel") as i:
            first = ib.let("first", data[i, 0])
            ib.emit(outs[0].vstore((i, 0), ins[0].vload((i, 0), "float32x8") * 2.0))
            count = ib.allocate("int32", 1, name="count", scope="local")
            count[0] = te.const(0)
            with ib.while_loop(te.all(count[0] < 7, data[i, count[0]] > 0)):
                count[0] = count[0] + 1
            with ib.if_scope(ib.likely(first > 3)):
                result[i, 7] = count[0].astype("float32")
            with ib.else_scope():
                ib.emit(call_extern("void", "memcpy", outs[0].access_ptr(offset=i * 8), ins[0].access_ptr(), 4))
        return ib.get()

    return [a, te.extern((n, 8), [a], body, name="E", tag="opaque")]


@pytest.mark.parametrize("make", [_every_statement, _running_sums])
def test_an_opaque_operation_is_data(make: Any) -> None:
    args = make()
    data = json.loads(json.dumps(te.graph_to_json(args)))
    again = te.graph_from_json(data)
    assert te.graph_to_json(again) == data
    assert te.workload_key(again) == te.workload_key(args)
    texts = [str(lower(create_schedule(x[1]), x)) for x in (args, again)]
    assert texts[0] == texts[1]


def test_data_that_is_no_opaque_operation() -> None:
    data = te.graph_to_json(_running_sums())
    statement = data["ops"][1]["extern"]["statement"]
    assert statement[0] == "allocate"
    for bad in (["goto", 1], ["evaluate", 0], ["allocate", 99, statement[2]], ["if", 0, ["seq", []], None], []):
        data["ops"][1]["extern"]["statement"] = bad
        with pytest.raises(RecordError, match="not a workload graph"):
            te.graph_from_json(data)
