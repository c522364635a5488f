"""tensorize: tiles computed by intrinsics, compared with the reference on llvm and in the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from messages import without_line
from roundtrip import assert_roundtrip

from autosched import te
from autosched.building import build
from autosched.errors import LowerError, ScheduleError, UsageError
from autosched.ir.builder import create
from autosched.ir.calls import call_extern, call_packed
from autosched.ir.expr import var
from autosched.ir.functions import register_func, register_symbol
from autosched.ir.stmt import Buffer
from autosched.lowering.pipeline import lower, lower_structure
from autosched.runtime.interpreter import interpret
from autosched.schedule.schedule import Schedule, create_schedule, replay
from autosched.te import tensor_intrin
from autosched.testing.oracle import check_against_reference

pytestmark = pytest.mark.usefixtures("own_registries")

Golden = Callable[..., None]


def everywhere(args: list[te.Tensor], s: Schedule) -> None:
    """Small whole numbers, so that sums are exact in any order."""
    rng = np.random.default_rng(7)
    inputs = [
        rng.integers(-4, 5, [int(d.value) for d in t.shape]).astype(t.dtype.numpy)
        for t in args
        if isinstance(t.op, te.PlaceholderOp)
    ]
    (expected,) = te.reference(args, inputs)
    slow = np.zeros_like(expected)
    interpret(lower_structure(s, args, "llvm").bind({}), [*inputs, slow])
    np.testing.assert_array_equal(slow, expected)
    np.testing.assert_array_equal(build(s, args=args)(*inputs), expected)


#: the types of the two factors and of the sum
Types = tuple[str, str, str]
SINGLE: Types = ("float32", "float32", "float32")


def matmul(n: int = 8, m: int = 32, length: Any = 24, types: Types = SINGLE) -> tuple[list[te.Tensor], Schedule]:
    a, b = te.placeholder((n, length), types[0], name="A"), te.placeholder((m, length), types[1], name="B")
    k = te.reduce_axis((0, length), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k].astype(types[2]) * b[j, k].astype(types[2]), axis=k), name="C")
    return [a, b, c], create_schedule(c)


def _operands(m: int, length: int, types: Types = SINGLE) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    a, b = te.placeholder((length,), types[0], name="a"), te.placeholder((m, length), types[1], name="b")
    k = te.reduce_axis((0, length), name="k")
    c = te.compute((m,), lambda i: te.sum(a[k].astype(types[2]) * b[i, k].astype(types[2]), axis=k), name="c")
    return a, b, c


def gemv(m: int, length: int, parts: int = 3, name: str = "gemv", types: Types = SINGLE) -> te.TensorIntrin:
    """c[i] = sum(a[k] * b[i, k]), as statements: the body alone, or with an update, or with a reset too."""
    _, b, c = _operands(m, length, types)
    row = Buffer("bb", b.shape, b.dtype, "global", (var("row", "int32"), te.const(1)))

    def fcompute(ins: Any, outs: Any) -> Any:
        def reset() -> Any:
            ib = create()
            result = ib.buffer_ptr(outs[0])
            with ib.for_range(0, m, name="i", kind="vectorize") as i:
                result[i] = te.const(0, types[2])
            return ib.get()

        def update() -> Any:
            ib = create()
            left, right, result = (ib.buffer_ptr(x) for x in (*ins, *outs))
            with ib.for_range(0, m, name="i") as i, ib.for_range(0, length, name="k") as k:
                result[i] = result[i] + left[k].astype(types[2]) * right[i, k].astype(types[2])
            return ib.get()

        return [reset(), update()], reset() if parts == 3 else None, update() if parts > 1 else None

    return te.decl_tensor_intrin(c.op, fcompute, name=name, binds={b: row})


def test_all_of_a_reduction(golden: Golden) -> None:
    args, s = matmul()
    _, inner = s[args[2]].split("j", factor=16)
    s[args[2]].tensorize(inner, gemv(16, 24))
    everywhere(args, s)
    golden(str(lower(s, args)), "gemv")
    assert_roundtrip(s, args)


@pytest.mark.parametrize("parts", [2, 3])
def test_a_reduction_that_goes_on_outside(parts: int, golden: Golden) -> None:
    args, s = matmul()
    c = args[2]
    jo, ji = s[c].split("j", factor=16)
    ko, ki = s[c].split("k", factor=8)
    s[c].reorder("i", jo, ko, ji, ki)
    s[c].tensorize(ji, gemv(16, 8, parts))
    everywhere(args, s)
    golden(str(lower(s, args)), f"gemv_{parts}")


def test_the_last_intrinsic_is_the_one() -> None:
    args, s = matmul()
    c = args[2]
    jo, ji = s[c].split("j", factor=16)
    s[c].tensorize(ji, gemv(16, 24))
    ko, ki = s[c].split("k", factor=8)
    s[c].reorder("i", jo, ko, ji, ki)
    s[c].tensorize(ji, gemv(16, 8, 3))
    assert [x.name for x in s[c].loops if x.kind == "tensorize"] == ["j.inner"]
    everywhere(args, s)
    assert_roundtrip(s, args)


@pytest.mark.parametrize("parts", [2, 3])
def test_a_reduction_of_nothing_by_tiles(parts: int) -> None:
    """Where the intrinsic sets the elements with the first step, there may be no first step."""
    args, s = matmul(length=te.var("m"))
    c = args[2]
    jo, ji = s[c].split("j", factor=16)
    ko, ki = s[c].split("k", factor=8, tail="round_up")
    s[c].reorder("i", ko, jo, ji, ki)
    s[c].tensorize(ji, gemv(16, 8, parts))
    for m in (0, 8, 24):
        check_against_reference(args, s, "llvm", [np.ones((8, m), "f4"), np.ones((32, m), "f4")], "interpreter")
        check_against_reference(args, s, "llvm", [np.ones((8, m), "f4"), np.ones((32, m), "f4")])


MIXED: list[Types] = [
    ("int8", "int8", "int32"),
    ("uint8", "int8", "int32"),
    ("float16", "float16", "float32"),
    ("float32", "float32", "float64"),
]


@pytest.mark.parametrize("types", MIXED, ids="-".join)
@pytest.mark.parametrize("length", [24, 8])
def test_factors_are_narrower_than_their_sum(types: Types, length: int) -> None:
    """Micro-kernels of mixed precision: int8 products summed in int32, float16 in float32."""
    args, s = matmul(types=types)
    c = args[2]
    jo, ji = s[c].split("j", factor=16)
    if length < 24:
        ko, ki = s[c].split("k", factor=length)
        s[c].reorder("i", jo, ko, ji, ki)
    s[c].tensorize(ji, gemv(16, length, types=types))
    everywhere(args, s)


def test_factors_of_another_type_or_by_way_of_one() -> None:
    for types in (("int8", "uint8", "int32"), ("int8", "int8", "int64")):
        args, s = matmul(types=("int8", "int8", "int32"))
        _, inner = s[args[2]].split("j", factor=16)
        s[args[2]].tensorize(inner, gemv(16, 24, types=types))
        assert "and the intrinsic sum(" in _refused(s, args)


def test_a_combiner_by_formula() -> None:
    """Two combiners are the same where their formulas and identities are, whatever objects they are."""

    def largest(start: int, n: int, name: str) -> tuple[te.Tensor, te.Tensor]:
        a, k = te.placeholder((n, 8), "int32", name=f"{name}.in"), te.reduce_axis((0, 8), name="k")
        combine = te.comm_reducer(lambda x, y: te.max(x, y), lambda t: te.const(start, t), name=name)
        return a, te.compute((n,), lambda i: combine(a[i, k], axis=k), name=name)

    def fcompute(ins: Any, outs: Any) -> Any:
        ib = create()
        taken, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 4, name="i") as i:
            result[i] = te.const(-100, "int32")
            with ib.for_range(0, 8, name="k") as k:
                result[i] = te.max(result[i], taken[i, k])
        return ib.get()

    a, b = largest(-100, 16, "B")
    for start in (-100, -99):
        s = create_schedule(b)
        _, inner = s[b].split("i", factor=4)
        s[b].tensorize(inner, te.decl_tensor_intrin(largest(start, 4, "m")[1].op, fcompute, name=f"from{start}"))
        if start == -100:
            everywhere([a, b], s)
        else:
            assert "and the intrinsic m(" in _refused(s, [a, b])


def test_an_intrinsic_without_update() -> None:
    args, s = matmul()
    ko, ki = s[args[2]].split("k", factor=8)
    jo, ji = s[args[2]].split("j", factor=16)
    s[args[2]].reorder(jo, ko, ji, ki)
    s[args[2]].tensorize(ji, gemv(16, 8, parts=1))
    with pytest.raises(LowerError) as caught:
        lower(s, args)
    assert without_line(caught.value) == (
        "C.tensorize(j.inner, gemv): the reduction goes on in C.k.outer, and the intrinsic has no update\n"
        "  fcompute returns (body, reset, update); or all reduce loops inside"
    )


_GEMV = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, *[ctypes.c_int32] * 3)


def _gemv_in_c(c: int, a: int, b: int, m: int, length: int, row: int) -> int:
    """What a micro-kernel in C does, with addresses as C has them."""
    floats = lambda at, n: np.ctypeslib.as_array(ctypes.cast(at, ctypes.POINTER(ctypes.c_float)), (n,))  # noqa: E731
    left = floats(a, length)
    for i in range(m):
        floats(c + 4 * i, 1)[0] += left @ floats(b + 4 * i * row, length)
    return 0


def _c_intrinsic(m: int, length: int) -> te.TensorIntrin:
    _, _, c = _operands(m, length)

    def fcompute(ins: Any, outs: Any) -> Any:
        def update() -> Any:
            addresses = outs[0].access_ptr("w"), ins[0].access_ptr("r"), ins[1].access_ptr("r")
            return call_extern("int32", "test_gemv", *addresses, m, length, ins[1].strides[0])

        ib = create()
        result = ib.buffer_ptr(outs[0])
        with ib.for_range(0, m) as i:
            result[i] = te.const(0.0, "float32")
        reset = ib.get()
        return [reset, update()], reset, update()

    return te.decl_tensor_intrin(c.op, fcompute, name="gemv_c")


def test_a_c_function_by_addresses() -> None:
    kernel = _GEMV(_gemv_in_c)
    register_symbol("test_gemv", kernel)
    args, s = matmul()
    jo, ji = s[args[2]].split("j", factor=4)
    ko, ki = s[args[2]].split("k", factor=12)
    s[args[2]].reorder(jo, ko, ji, ki)
    s[args[2]].tensorize(ji, _c_intrinsic(4, 12))
    everywhere(args, s)


def test_a_python_function_by_views() -> None:
    @register_func("test.product")
    def product(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
        c[...] = a @ b.T

    a, b = te.placeholder((4, 24), name="a"), te.placeholder((8, 24), name="b")
    k = te.reduce_axis((0, 24), name="k")
    c = te.compute((4, 8), lambda i, j: te.sum(b[j, k] * a[i, k], axis=k), name="c")  # operands the other way round
    intrin = te.decl_tensor_intrin(c.op, lambda ins, outs: call_packed("test.product", outs[0], ins[1], ins[0]))
    args, s = matmul()
    io, ii = s[args[2]].split("i", factor=4)
    jo, ji = s[args[2]].split("j", factor=8)
    s[args[2]].reorder(io, jo, ii, ji)
    s[args[2]].tensorize(ii, intrin)
    everywhere(args, s)


def test_a_vector_addition_on_tiles_of_a_stage_inside_another() -> None:
    a, b = te.placeholder((8, 32), name="A"), te.placeholder((8, 32), name="B")
    c = te.compute((8, 32), lambda i, j: a[i, j] + b[i, 31 - j], name="C")
    d = te.compute((8, 32), lambda i, j: c[i, j] * 2, name="D")

    x, y = te.placeholder((8,), name="x"), te.placeholder((8,), name="y")
    z = te.compute((8,), lambda i: x[i] + y[i], name="z")

    def fcompute(ins: Any, outs: Any) -> Any:
        return outs[0].vstore(0, ins[0].vload(0, "float32x8") + ins[1].vload(0, "float32x8"))

    add = te.decl_tensor_intrin(z.op, fcompute, name="add8")
    s = create_schedule(d)
    s[c].compute_at(s[d], "i")
    _, inner = s[c].split("j", factor=8)
    s[c].tensorize(inner, add)
    with pytest.raises(LowerError, match=r"C computes A\[i, .*\] \+ B\[i, .*\], and the intrinsic x\[i\] \+ y\[i\]"):
        lower(s, [a, b, d])  # B runs backwards
    c = te.compute((8, 32), lambda i, j: b[i, j] + a[i, j], name="C")
    d = te.compute((8, 32), lambda i, j: c[i, j] * 2, name="D")
    s = create_schedule(d)
    s[c].compute_at(s[d], "i")
    _, inner = s[c].split("j", factor=8)
    s[c].tensorize(inner, add)
    everywhere([a, b, d], s)


def test_scalar_parameters() -> None:
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[j, i] * 3.0 + 1.0, name="B")
    x, factor = te.placeholder((16,), name="x"), var("factor", "float32")
    y = te.compute((16,), lambda i: x[i] * factor + 1.0, name="y")
    column = Buffer("xb", x.shape, x.dtype, "global", (var("step", "int32"),))

    def fcompute(ins: Any, outs: Any, scalars: Any) -> Any:
        ib = create()
        with ib.for_range(0, 16) as i:
            ib.buffer_ptr(outs[0])[i] = ib.buffer_ptr(ins[0])[i] * scalars[0] + 1.0
        return ib.get()

    intrin = te.decl_tensor_intrin(y.op, fcompute, name="scale", binds={x: column}, scalar_params=[factor])
    s = create_schedule(b)
    s[b].tensorize("j", intrin)
    everywhere([a, b], s)


# -- what differs ---------------------------------------------------------------------------------


def _mul(n: int, **params: Any) -> te.TensorIntrin:
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    z = te.compute((n,), lambda i: x[i] * y[i], name="z")
    return te.decl_tensor_intrin(z.op, lambda ins, outs: call_packed("f"), name="mul", **params)


def _products(n: int = 32) -> tuple[list[te.Tensor], Schedule]:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    c = te.compute((n, n), lambda i, j: a[i, j] * b[j, i], name="C")
    return [a, b, c], create_schedule(c)


def _refused(s: Schedule, args: list[te.Tensor]) -> str:
    with pytest.raises(LowerError) as caught:
        lower(s, args)
    return without_line(caught.value)


def test_another_size() -> None:
    args, s = _products()
    _, inner = s[args[2]].split("j", factor=8)
    s[args[2]].tensorize(inner, _mul(16))
    assert _refused(s, args) == (
        "C.tensorize(j.inner, mul): one iteration computes axes [j: 8] and the intrinsic [i: 16]\n"
        "  split so that the loops inside are as long as the intrinsic's axes, in its order"
    )


def test_another_stride() -> None:
    args, s = _products()
    _, inner = s[args[2]].split("j", factor=8)
    s[args[2]].tensorize(inner, _mul(8))
    assert _refused(s, args) == (
        "C.tensorize(j.inner, mul): elements of B along dimension 0 of the tile lie 32 apart, and the intrinsic takes "
        "y to have them 1 apart\n  a buffer with a variable as its stride there (binds=), or a packed copy: cache_read"
    )


def test_a_tile_that_is_not_whole() -> None:
    args, s = _products(30)
    _, inner = s[args[2]].split("j", factor=8)
    s[args[2]].tensorize(inner, _mul(8))
    assert "not all tiles are whole: elements are computed only where j.outer*8 + j.inner < 30" in _refused(s, args)


@pytest.mark.parametrize("goes_on", ["outside", "inside"])
@pytest.mark.parametrize("parts", [2, 3])
def test_a_tile_that_overlaps_the_one_before(goes_on: str, parts: int) -> None:
    """A tile is reset when it is begun: what it shares with another one must not be in use by then."""
    args, s = matmul(m=30)
    c = args[2]
    jo, ji = s[c].split("j", factor=16, tail="shift_inwards")
    ko, ki = s[c].split("k", factor=8)
    s[c].reorder("i", *((ko, jo) if goes_on == "outside" else (jo, ko)), ji, ki)
    s[c].tensorize(ji, gemv(16, 8, parts))
    if goes_on == "outside":
        assert "sums would be added to twice: a reduce loop is outside it" in _refused(s, args)
    else:
        everywhere(args, s)


def test_a_tile_with_gaps() -> None:
    args, s = _products()
    outer, inner = s[args[2]].split("j", factor=4)
    s[args[2]].reorder(inner, outer)
    s[args[2]].tensorize(outer, _mul(8))
    assert "j advances by 4 in j.outer, so a tile has gaps" in _refused(s, args)


def test_another_computation() -> None:
    args, s = matmul(8, 16, 24)
    s[args[2]].tensorize("j", _mul(16))
    assert "one iteration computes reduce axes [k: 24] and the intrinsic []" in _refused(s, args)
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] * (a[i] + 1), name="B")
    s = create_schedule(b)
    s[b].tensorize("i", _mul(16))
    assert "B computes A[i] * (A[i] + 1.0f), and the intrinsic x[i] * y[i]" in _refused(s, [a, b])


def test_what_tensorize_asks_of_the_schedule() -> None:
    args, s = _products()
    c = args[2]
    with pytest.raises(ScheduleError, match="no intrinsic 'mul' is declared in this process"):
        s[c].tensorize("j", "mul")
    s[c].vectorize("j")
    with pytest.raises(ScheduleError, match=r"C.j \(vectorize\) would be inside the intrinsic"):
        s[c].tensorize("i", _mul(16))


def test_a_trace_knows_intrinsics_by_name() -> None:
    args, s = _products()
    _mul(16)
    s[args[2]].tensorize("j", _mul(32))
    assert "tensorize(\"j\", 'mul_1')" in s.trace.as_python() or 'tensorize("j", "mul_1")' in s.trace.as_python()
    again = replay(s.trace, args)
    assert again.trace.to_json() == s.trace.to_json()
    tensor_intrin._declared.clear()
    with pytest.raises(ScheduleError, match="te.decl_tensor_intrin"):
        replay(s.trace, args)


def test_what_an_intrinsic_is_declared_from() -> None:
    a = te.placeholder((4,), name="a")
    with pytest.raises(UsageError, match="is not a computation of one output"):
        te.decl_tensor_intrin(a.op, lambda ins, outs: None)
    b = te.compute((4,), lambda i: a[i] + 1, name="b")
    with pytest.raises(UsageError, match="fcompute returned None"):
        te.decl_tensor_intrin(b.op, lambda ins, outs: None)


def test_a_declared_buffer_without_strides_lies_close_together() -> None:
    a, b = te.placeholder((8,), name="a"), te.placeholder((4, 8), name="b")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((4,), lambda j: te.sum(a[k] * b[j, k], axis=k), name="c")

    def fcompute(ins: Any, outs: Any) -> Any:
        ib = create()
        left, right, result = (ib.buffer_ptr(x) for x in (*ins, *outs))
        with ib.for_range(0, 4, name="i") as i:
            result[i] = te.const(0.0, "float32")
            with ib.for_range(0, 8, name="k") as kk:
                result[i] = result[i] + left[kk] * right[i, kk]
        return ib.get()

    close = te.decl_buffer((4, 8), "float32", name="close")
    intrin = te.decl_tensor_intrin(c.op, fcompute, name="dot", binds={b: close})
    args, s = matmul(8, 4, 8)
    s[args[2]].tensorize("j", intrin)
    everywhere(args, s)
