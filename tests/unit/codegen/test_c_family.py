"""OpenCL source as text: what it looks like, what it refuses, and the data beside it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from edges import ON_INTEGERS, exact_values

from autosched.codegen.artifact import Artifact, Signature
from autosched.codegen.c_family import compile_opencl, emit_program
from autosched.codegen.c_helpers import Helpers
from autosched.codegen.c_scalar import SCALAR
from autosched.codegen.c_text import Names
from autosched.codegen.dialects import CUDA, OPENCL
from autosched.codegen.index_range import IndexRanges
from autosched.codegen.lanes import as_ramp
from autosched.codegen.signature import evaluate_dim
from autosched.errors import BuildError
from autosched.ir.dtype import dtype
from autosched.ir.expr import (
    OPS,
    Expr,
    binary,
    broadcast,
    cast,
    ceildiv,
    const,
    if_then_else,
    likely,
    logical_and,
    make,
    maximum,
    minimum,
    ramp,
    select,
    var,
)
from autosched.ir.stmt import Allocate, Barrier, Buffer, For, Function, If, Launch, Let, Produce, Stmt, Store, load, seq
from autosched.ir.visit import post_order
from autosched.target import Target

ONE = const(1)
HEIGHT = var("height", role="size", lower=0)
WIDTH = var("width", role="size", lower=0)
THREAD = var("threadIdx.x", role="thread")


def kernel(body: Stmt, *params: Buffer, sizes: tuple[Expr, ...] = (), block: int = 8) -> Function:
    """One launch of one work-group; the last parameter is the output."""
    launch = Launch("kernel0", (ONE, ONE, ONE), (const(block), ONE, ONE), body)
    return Function("test", params, sizes, launch, (len(params) - 1,))


def source(body: Stmt, *params: Buffer, native_half: bool = False) -> str:
    """The body of the one kernel, without the braces around it."""
    text = (
        emit_program(kernel(body, *params), OPENCL, native_half).source.partition("__kernel")[2].partition(") {\n")[2]
    )
    return "\n".join(line[2:] for line in text.splitlines()[:-1] if "index_t threadIdx" not in line)


def array(name: str, of: str = "float32", size: int = 1024, scope: str = "global") -> Buffer:
    return Buffer(name, (const(size),), dtype(of), scope)


# -- completeness -------------------------------------------------------------------------------------


def test_every_operator_has_a_row() -> None:
    assert set(SCALAR) == set(OPS)


def test_the_dialect_names_every_mathematical_function() -> None:
    helpers = {"sigmoid"}
    assert {op for op, info in OPS.items() if info.kind == "math"} - helpers <= set(OPENCL.math)


# -- golden texts -------------------------------------------------------------------------------------


def blur() -> Function:
    """One kernel with a guard, a clamp, a Let and narrow arithmetic."""
    image, blurred = (Buffer(n, (HEIGHT, WIDTH), dtype("uint8")) for n in ("image", "blurred"))
    by, bx = (var(f"blockIdx.{a}", role="thread") for a in "yx")
    inner = var("y.inner", role="loop")
    x, above = var("x", role="let"), var("above", "uint8", role="let")
    y = by * 4 + inner
    three = cast("uint16", above) + const(2, "uint16") * cast("uint16", load(image, y * WIDTH + x))
    store = Store(blurred, (y * WIDTH + x,), cast("uint8", three // 3))
    body: Stmt = Let(above, load(image, maximum(y - 1, 0) * WIDTH + x), store)
    body = If(logical_and(likely(y < HEIGHT), bx * 32 + THREAD < WIDTH), Let(x, bx * 32 + THREAD, body))
    body = Produce("blurred", For(inner, const(0), const(4), "serial", body))
    launch = Launch("blur.y", (ceildiv(WIDTH, 32), ceildiv(HEIGHT, 4), ONE), (const(32), ONE, ONE), body)
    return Function("blur", (image, blurred), (HEIGHT, WIDTH), launch, (1,))


def test_golden_blur(golden: Callable[..., None]) -> None:
    program = emit_program(blur(), OPENCL)
    golden(program.source)
    (launch,) = program.launches
    assert launch["grid"] == [
        ["floordiv", ["add", ["size", "width"], 31], 32],
        ["floordiv", ["add", ["size", "height"], 3], 4],
        1,
    ]
    assert launch["block"] == [32, 1, 1]
    assert launch["args"] == [["param", 0], ["param", 1], ["size", "height"], ["size", "width"]]


def test_golden_vectors(golden: Callable[..., None]) -> None:
    a, b = array("a"), array("b", "uint8")
    here = ramp(THREAD * 4, 1, 4)
    clamped = maximum(load(a, here) * const(2.0), const(0.0))
    golden(source(Store(b, (here,), cast("uint8", select(load(a, here) < 1.5, clamped, load(a, THREAD)))), a, b))


@pytest.mark.parametrize(
    ("of", "lanes", "base", "scope", "text"),
    [
        ("float32", 4, THREAD * 4, "global", "*(__global float4*)(a + threadIdx_x * 4)"),
        ("float32", 4, THREAD * 8 + 4, "shared", "*(__local float4*)(a + threadIdx_x * 8 + 4)"),
        (
            "float32",
            4,
            THREAD * 4 + 1,
            "global",
            "taken_float4(*(__global float4*)(a + threadIdx_x * 4 + 1 - 1), "
            "*(__global float4*)(a + threadIdx_x * 4 + 1 + 3))",
        ),
        ("float32", 4, THREAD * 2, "global", "vload4(0, a + threadIdx_x * 2)"),
        ("float32", 8, THREAD * 8, "global", "*(__global float8*)(a + threadIdx_x * 8)"),
        ("float64", 16, THREAD * 16, "global", "*(__global double16*)(a + threadIdx_x * 16)"),
        ("float32", 16, THREAD * 16, "shared", "*(__local float16*)(a + threadIdx_x * 16)"),
        ("float32", 3, THREAD * 3, "global", "vload3(0, a + threadIdx_x * 3)"),
        ("uint8", 16, THREAD * 16, "global", "*(__global uchar16*)(a + threadIdx_x * 16)"),
        ("float32", 4, THREAD * 4, "local", "*(float4*)(a + threadIdx_x * 4)"),
        ("float32", 4, THREAD * 4 + 2, "local", "vload4(0, a + threadIdx_x * 4 + 2)"),
    ],
)
def test_a_vector_that_lies_at_a_multiple_of_its_width_is_one_access(
    of: str, lanes: int, base: Expr, scope: str, text: str
) -> None:
    """`vload` promises the compiler no alignment. On-chip arrays are aligned to what their size is a multiple of. What
    lies between two such vectors is taken from both."""
    a, b = array("a", of, 64, scope), array("b", of)
    copy: Stmt = Store(b, (ramp(THREAD + 1, 1, lanes),), load(a, ramp(base, 1, lanes)))
    found = source(copy, a, b) if scope == "global" else source(Allocate(a, copy), b)
    assert found.splitlines()[-1] == f"vstore{lanes}({text}, 0, b + threadIdx_x + 1);"


def test_elements_taken_from_other_vectors_are_taken_by_another_function() -> None:
    """Every third element, from three vectors side by side, and from three that end with the last of them."""
    helpers, of, every_third = Helpers(OPENCL), dtype("float32").with_lanes(16), range(0, 48, 3)
    beside, ending, again = (helpers.taken(every_third, parts, of) for parts in ((0, 16, 32), (0, 18, 30), (0, 16, 32)))
    assert beside == again != ending
    assert ["v1.s2" in text for text in helpers.definitions()] == [True, False]


def test_golden_lanes(golden: Callable[..., None]) -> None:
    a, b = array("a"), array("b")
    golden(source(Store(b, (ramp(THREAD * 6, 1, 6),), load(a, ramp(THREAD, 2, 6))), a, b))


def test_golden_shared_memory(golden: Callable[..., None]) -> None:
    a, b, tile = array("a"), array("b"), array("tile", size=8, scope="shared")
    fill = Store(tile, (THREAD,), load(a, THREAD))
    read = Store(b, (THREAD,), load(tile, 7 - THREAD))
    golden(emit_program(kernel(Allocate(tile, seq(fill, Barrier("shared"), read)), a, b), OPENCL).source)


def test_a_shared_buffer_allocated_in_several_places_is_declared_once() -> None:
    """Unrolling copies allocations; the memory of a work-group is limited."""
    b, tile = array("b"), array("tile", size=8, scope="shared")
    copies = [Allocate(tile, seq(Store(tile, (THREAD,), const(1.0)), Store(b, (THREAD,), load(tile, THREAD))))] * 3
    program = emit_program(kernel(seq(*copies), b), OPENCL)
    assert program.source.count("__local") == 1
    assert program.launches[0]["shared_bytes"] == 32


def test_halves_are_emulated_or_native() -> None:
    a, b = array("a", "float16"), array("b", "float16")
    body = Store(b, (THREAD,), load(a, THREAD) * const(1.5, "float16") + const(1, "float16"))
    assert source(body, a, b) == (
        "vstore_half_rte(round_half_float(vload_half(0, a + threadIdx_x) * 1.5f) + 1.0f, 0, b + threadIdx_x);"
    )
    assert source(body, a, b, native_half=True) == "b[threadIdx_x] = a[threadIdx_x] * 1.5h + 1.0h;"
    assert "cl_khr_fp16" not in emit_program(kernel(body, a, b), OPENCL).source
    assert (
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable"
        in emit_program(kernel(body, a, b), OPENCL, native_half=True).source
    )


def test_doubles_enable_their_extension() -> None:
    for of, wanted in (("float64", True), ("float32", False)):
        a = array("a", of)
        assert ("cl_khr_fp64" in emit_program(kernel(Store(a, (THREAD,), const(1, of)), a), OPENCL).source) == wanted


CHOICE = "a[0] < 1 || (a[0] > 2 && a[0] < 9) ? a[0] : 0"


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda a: select(make("or", dtype("bool"), (a < 1, logical_and(a > 2, a < 9))), a, 0), CHOICE),
        (lambda a: a - (a - 1), "(int)(a[0] - ((uint)a[0] - 1))"),
        (lambda a: (a & 15) * 3 + 1, "(a[0] & 15) * 3 + 1"),
        (lambda a: (a * 3) >> 2, "(int)((uint)a[0] * 3) >> 2"),
        (lambda a: a // 4, "floordiv_int(a[0], 4)"),
        (lambda a: (a & 255) // 4, "(a[0] & 255) / 4"),
        (lambda a: minimum(maximum(a, 0), 255), "min_int(max_int(a[0], 0), 255)"),
        (lambda a: cast("uint8", a + 1), "(uchar)((uint)a[0] + 1)"),
        (lambda a: const(-(2**31)), "(-2147483647 - 1)"),
    ],
)  # fmt: skip
def test_scalars_read_well(build: object, text: str) -> None:
    a, b = array("a", "int32"), array("b", "int32")
    value = build(load(a, const(0)))  # type: ignore[operator]
    b = replace_dtype(b, value)
    assert source(Store(b, (const(0),), value), a, b) == f"b[0] = {text};"


def replace_dtype(buffer: Buffer, value: Expr) -> Buffer:
    return replace(buffer, dtype=value.dtype)


# -- names ------------------------------------------------------------------------------------------


def test_names_are_identifiers_and_unique() -> None:
    names = Names(OPENCL)
    wanted = [
        *(("y.outer", "y_outer"), ("y_outer", "y_outer_1"), ("y.outer", "y_outer_2")),
        *(("exp", "exp_"), ("kernel", "kernel_"), ("float4", "float4_"), ("vload4", "vload4_")),
        *(("min_int", "min_int_"), ("2x", "v2x"), ("__x", "v__x"), ("größe", "gr__e")),
    ]
    assert [names.declare(name) for name, _ in wanted] == [identifier for _, identifier in wanted]
    with names.scope():
        assert names.declare("y.outer") == "y_outer_3"
        assert names.declare("x") == "x"
    assert names.declare("x") == "x"


def test_loops_of_one_name_are_told_apart(golden: Callable[..., None]) -> None:
    b = array("b", "int32")
    outer, inner = (var("i", role="loop") for _ in range(2))
    store = Store(b, (outer * 4 + inner,), outer)
    nest = For(outer, const(0), const(4), "serial", For(inner, const(0), const(4), "serial", store))
    golden(source(seq(nest, For(outer, const(1), const(3), "serial", Store(b, (outer,), outer))), b))


def test_shared_parts_are_named_once() -> None:
    a, b = array("a"), array("b")
    value = load(a, THREAD)
    for _ in range(60):
        value = value * value + 1.0
    text = source(Store(b, (THREAD,), value), a, b)
    assert len(text) < 4000
    assert max(map(len, text.splitlines())) < 200


def test_loop_ends_are_simple() -> None:
    b, i, j = array("b", "int32"), var("i", role="loop"), var("j", role="loop")
    nest = For(i, const(0), const(4), "serial", For(j, i + 1, 9 - (i + 1), "serial", Store(b, (j,), const(1))))
    assert source(nest, b).splitlines()[1] == "  for (index_t j = i + 1; j < 9; ++j) {"


def test_loop_bounds_are_read_once() -> None:
    """The body may overwrite what the bound was read from."""
    a, b, i = array("a", "int32"), array("b", "int32"), var("i", role="loop")
    text = source(For(i, const(0), load(a, const(0)), "serial", Store(a, (i,), const(0))), a, b)
    assert text.splitlines()[:2] == ["const index_t i_end = a[0];", "for (index_t i = 0; i < i_end; ++i) {"]


# -- index width ------------------------------------------------------------------------------------


def test_small_calls_have_32_bit_indices() -> None:
    bound = emit_program(blur(), OPENCL).index_bound
    assert evaluate_dim(bound, {"height": 4096, "width": 3 * 4096}) < 2**31
    assert evaluate_dim(bound, {"height": 40000, "width": 50000}) < 2**31
    assert evaluate_dim(bound, {"height": 50000, "width": 50000}) >= 2**31


def test_values_used_as_offsets_widen_the_index() -> None:
    a, b, x = array("a", "int32"), array("b", "int32"), var("x", role="let")
    body = Let(x, load(a, THREAD), Store(b, (x + 1,), const(0)))
    assert evaluate_dim(emit_program(kernel(body, a, b), OPENCL).index_bound, {}) >= 2**31
    direct = Store(b, (load(a, THREAD),), const(0))
    assert evaluate_dim(emit_program(kernel(direct, a, b), OPENCL).index_bound, {}) < 2**31


_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


def random_index(rng: random.Random, leaves: list[Expr], depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*leaves, const(rng.randint(-9, 9))])
    a, b = (random_index(rng, leaves, depth - 1) for _ in range(2))
    op = rng.choice([*_DIVISIONS, "add", "add", "sub", "mul", "min", "max", "neg", "choice"])
    if op == "neg":
        return -a
    return select(a < b, a, b) if op == "choice" else binary(op, a, b)


@pytest.mark.parametrize("seed", range(40))
def test_no_part_of_an_index_exceeds_the_bound(seed: int) -> None:
    rng = random.Random(seed)
    loop, inner = var("i", role="loop"), var("j", role="loop")
    e = random_index(rng, [HEIGHT, WIDTH, loop, inner], 5)
    ranges = IndexRanges(["height", "width"])
    ranges.bind_loop(loop, const(2), HEIGHT - 3)
    ranges.bind_loop(inner, loop, minimum(16, WIDTH - loop * 4))
    ranges.note(e)
    for _ in range(60):
        sizes = {"height": rng.randint(0, 50), "width": rng.randint(0, 500)}
        i = rng.randrange(2, max(sizes["height"] - 1, 3))
        j = rng.randrange(i, i + max(min(16, sizes["width"] - i * 4), 1))
        values = {HEIGHT: sizes["height"], WIDTH: sizes["width"], loop: i, inner: j}
        reachable = i < 2 + sizes["height"] - 3 and j < i + min(16, sizes["width"] - i * 4)
        limit = evaluate_dim(ranges.peak_dim(), sizes)
        found = exact_values(e, values)
        for node in post_order(e):
            assert not reachable or abs(found[node]) <= limit, (seed, node, sizes, i, j)


def test_a_vector_that_wraps_is_no_ramp() -> None:
    """In 8 bits, 250 + (0, 1, ... 15) ends at 9: its lanes are not equally spaced."""
    near = broadcast(const(250, "uint8"), 16)
    steps = make("ramp", near.dtype, (const(0, "uint8"), const(1, "uint8")))
    assert as_ramp(make("add", near.dtype, (near, steps))) is None


@pytest.mark.parametrize("seed", range(20))
def test_ramps_are_recognised_lane_by_lane(seed: int) -> None:
    rng = random.Random(seed)
    x = var("x", role="loop")

    def vector(depth: int) -> Expr:
        if depth == 0:
            k = rng.randint(-3, 3)
            return rng.choice([ramp(x, k, 4), broadcast(x + 1, 4), broadcast(const(k), 4)])
        return binary(rng.choice(["add", "sub", "mul"]), vector(depth - 1), vector(depth - 1))

    e = vector(3)
    found = as_ramp(e)
    if found is None:
        return
    for value in (-3, 0, 5):
        lanes = _lanes(e, x, value)
        base, stride = (_lanes(f, x, value)[0] for f in found)
        assert lanes == [base + k * stride for k in range(4)]


def _lanes(e: Expr, x: Expr, value: int) -> list[int]:
    if e is x:
        return [value] * 4
    if e.op == "const":
        return [e.value] * 4
    if e.op == "broadcast":
        return _lanes(e.args[0], x, value)
    a, b = (_lanes(arg, x, value) for arg in e.args)
    if e.op == "ramp":
        return [a[0] + k * b[0] for k in range(4)]
    return [ON_INTEGERS[e.op](p, q, 64) for p, q in zip(a, b, strict=True)]


# -- artifacts and refusals ---------------------------------------------------------------------------


def test_artifacts_are_data(tmp_path: object) -> None:
    artifact = compile_opencl(blur(), Target.parse("opencl"))
    assert artifact.kind == "opencl"
    assert artifact.texts["source"] == artifact.code.decode() == emit_program(blur(), OPENCL).source
    assert artifact.signature == Signature.of(blur())
    path = f"{tmp_path}/blur.artifact"
    artifact.save(path)
    assert Artifact.load(path) == artifact


SHARED = ["mul", ["add", ["size", "width"], 1], 2]


def test_device_buffers_and_symbolic_shared_memory() -> None:
    a, b = (Buffer(n, (WIDTH,), dtype("float32")) for n in "ab")
    between = Buffer("between", (WIDTH * 2,), dtype("float64"))
    row = Buffer("row", (WIDTH + 1,), dtype("uint16"), "shared")
    widen = Store(between, (THREAD,), cast("float64", load(a, THREAD)))
    first = Launch("first", (ONE, ONE, ONE), (WIDTH, ONE, ONE), widen)
    keep = Allocate(row, Store(row, (THREAD,), cast("uint16", load(between, THREAD))))
    second = Launch("second", (ONE, ONE, ONE), (const(8), ONE, ONE), seq(keep, Store(b, (THREAD,), const(1.0))))
    function = Function("two", (a, b), (WIDTH,), Allocate(between, seq(first, second)), (1,))
    program = emit_program(function, OPENCL)
    assert program.device == [{"name": "between", "dtype": "float64", "elements": ["mul", ["size", "width"], 2]}]
    first_launch, second_launch = program.launches
    assert first_launch["args"] == [["param", 0], ["device", 0]]
    assert second_launch["args"] == [["param", 1], ["device", 0], ["shared", SHARED]]
    assert second_launch["shared_bytes"] == SHARED
    assert "reqd_work_group_size" not in program.source.partition("void second")[0].partition("void first")[0]
    assert "__local ushort* restrict row" in program.source


def refusal(function: Function, target: Target | None = None) -> str:
    with pytest.raises(BuildError) as caught:
        compile_opencl(function, target or Target.parse("opencl"))
    return str(caught.value)


def test_code_outside_of_kernels_is_refused() -> None:
    a = array("a")
    function = Function("plain", (a,), (), Store(a, (const(0),), const(1.0)), (0,))
    assert refusal(function) == (
        "opencl code for 'plain': buffer 'a' is not inside a kernel\n"
        "  bind a loop of every stage to blockIdx.x or threadIdx.x"
    )
    loop = For(var("i", role="loop"), const(0), const(4), "serial", function.body)
    assert "buffer 'a' is not inside a kernel" in refusal(function.with_body(loop))
    assert "For is not inside a kernel" in refusal(function.with_body(replace(loop, body=loop)))
    assert "buffer 'b' is not inside" in refusal(function.with_body(Allocate(array("b", scope="local"), function.body)))


def test_nvidia_s_compiler_is_kept_from_what_it_gets_wrong() -> None:
    """Work-items' indices that it widens too early, and the sign that it extends of unsigned vectors."""
    a, b = Buffer("a", (const(4),), dtype("uint32")), Buffer("b", (const(4),), dtype("int64"))
    lanes = ramp(const(0), 1, 4)
    store = Store(b, (lanes,), binary("shl", cast("int64x4", load(a, lanes)), broadcast(const(1, "int64"), 4)))
    source = emit_program(kernel(store, a, b), OPENCL).source
    assert "as_long4(convert_ulong4(" in source and "convert_long4(" not in source
    assert source.index("__NV_CL_C_VERSION") < source.index("__kernel")
    assert "__NV_CL_C_VERSION" not in emit_program(kernel(store, a, b), CUDA).source


def test_what_a_kernel_cannot_hold_is_refused() -> None:
    a, size = Buffer("a", (WIDTH,), dtype("float32")), Buffer("big", (WIDTH,), dtype("float32"), "local")
    store = Store(a, (THREAD,), const(1.0))
    assert "its size width is not a constant" in refusal(kernel(Allocate(size, store), a, sizes=(WIDTH,)))
    assert "cannot be allocated inside a kernel" in refusal(kernel(Allocate(array("g"), store), a, sizes=(WIDTH,)))
    assert "kernel cannot launch a kernel" in refusal(kernel(kernel(store, a).body, a, sizes=(WIDTH,)))
    vectorized = For(THREAD, const(0), ONE, "vectorize", store)
    assert "a vectorize loop is left" in refusal(kernel(vectorized, a, sizes=(WIDTH,)))
    wrong = If(broadcast(THREAD, 4) < const(3), store)
    assert "a vector cannot decide a branch" in refusal(kernel(wrong, a, sizes=(WIDTH,)))
    assert "'nowhere' has no value here" in refusal(kernel(Store(a, (var("nowhere"),), const(1.0)), a, sizes=(WIDTH,)))
    unlowered = make("read", dtype("float32"), (THREAD,), a)
    assert "no scalar operator" in refusal(kernel(Store(a, (THREAD,), unlowered), a, sizes=(WIDTH,)))


def test_kernels_beyond_known_limits_are_refused() -> None:
    a, tile = array("a"), array("tile", size=4096, scope="shared")
    target = Target.parse("opencl").with_limits(max_threads_per_block=64, shared_memory_bytes=16000)
    store = Store(a, (THREAD,), const(1.0))
    assert refusal(kernel(store, a, block=128), target) == (
        "kernel 'kernel0': it asks for a work-group of 128 work-items, and the device allows 64\n"
        "  use smaller tiles, or bind fewer loops to threads"
    )
    assert "16384 bytes of shared memory for each work-group, and the device allows 16000" in refusal(
        kernel(Allocate(tile, store), a, block=64), target
    )
    compile_opencl(kernel(store, a, block=64), target)
    compile_opencl(kernel(Allocate(tile, store), a, block=128), Target.parse("opencl"))


def test_vectors_behind_conditions_stay_in_vectors_when_the_condition_is_scalar() -> None:
    a, b = array("a"), array("b")
    here = ramp(THREAD * 4, 1, 4)
    text = source(Store(b, (here,), if_then_else(THREAD < 4, load(a, here), broadcast(const(0.0), 4))), a, b)
    assert text == (
        "*(__global float4*)(b + threadIdx_x * 4) = "
        "threadIdx_x < 4 ? *(__global float4*)(a + threadIdx_x * 4) : (float4)(0.0f);"
    )
