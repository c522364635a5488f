"""What TVM's guides teach, as programs: schedule primitives, reductions, recurrences, matrix products."""

from __future__ import annotations

import numpy as np
import pytest
from shim_cells import in_order

from autosched import tvm
from autosched.tvm import te

rng = np.random.default_rng(0)


def run(s, args, *inputs: np.ndarray, target: str = "llvm") -> list[np.ndarray]:
    """Build and call by TVM's convention; the filled outputs."""
    module = tvm.build(s, args, target, name="f")
    sizes = module.signature.resolve([*inputs, *[None] * (len(args) - len(inputs))])
    outputs = [np.zeros(p.shape_for(sizes), p.dtype) for p in module.signature.params[len(inputs) :]]
    module(*inputs, *outputs)
    return outputs


# -- schedule primitives --------------------------------------------------------------------------------


def one_dimension():
    m = te.var("m")
    a = te.placeholder((m,), name="A")
    b = te.compute((m,), lambda i: a[i] * 2, name="B")
    return a, b, te.create_schedule(b.op)


def test_split_by_factor_and_by_parts() -> None:
    a, b, s = one_dimension()
    s[b].split(b.op.axis[0], factor=32)
    assert "for i_outer, i_inner in T.grid((m + 31) // 32, 32):" in str(tvm.lower(s, [a, b], simple_mode=True))
    a, b, s = one_dimension()
    s[b].split(b.op.axis[0], nparts=32)
    assert "in T.grid(32, (m + 31) // 32):" in str(tvm.lower(s, [a, b], simple_mode=True))
    x = rng.random(77, dtype="float32")
    assert np.array_equal(run(s, [a, b], x)[0], x * 2)


def two_dimensions():
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), name="A")
    b = te.compute((m, n), lambda i, j: a[i, j], name="B")
    return a, b, te.create_schedule(b.op)


def test_tile_fuse_and_reorder() -> None:
    x = rng.random((23, 31), dtype="float32")
    a, b, s = two_dimensions()
    xo, yo, xi, yi = s[b].tile(b.op.axis[0], b.op.axis[1], x_factor=10, y_factor=5)
    s[b].reorder(xi, yo, xo, yi)
    assert in_order(
        str(tvm.lower(s, [a, b], simple_mode=True)),
        "i_inner, j_outer, i_outer in T.grid(10, (n + 4) // 5, (m + 9) // 10)",
    )
    assert np.array_equal(run(s, [a, b], x)[0], x)
    a, b, s = two_dimensions()
    xo, yo, xi, yi = s[b].tile(b.op.axis[0], b.op.axis[1], x_factor=10, y_factor=5)
    fused = s[b].fuse(xi, yi)
    assert fused in s[b].leaf_iter_vars
    assert "i_inner_j_inner_fused in T.grid((m + 9) // 10, (n + 4) // 5, 50):" in str(
        tvm.lower(s, [a, b], simple_mode=True)
    )
    assert np.array_equal(run(s, [a, b], x)[0], x)


def test_bind() -> None:
    a, b, s = one_dimension()
    bx, tx = s[b].split(b.op.axis[0], factor=64)
    s[b].bind(bx, te.thread_axis("blockIdx.x"))
    s[b].bind(tx, te.thread_axis("threadIdx.x"))
    x = rng.random(100, dtype="float32")
    assert np.array_equal(run(s, [a, b], x, target="opencl")[0], x * 2)


@pytest.mark.parametrize("how", ["root", "at", "inline", "at, then root"])
def test_where_a_producer_is_computed(how: str) -> None:
    m = te.var("m")
    a = te.placeholder((m,), name="A")
    b = te.compute((m,), lambda i: a[i] + 1, name="B")
    c = te.compute((m,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    if how.startswith("at"):
        s[b].compute_at(s[c], c.op.axis[0])
    if how == "inline":
        s[b].compute_inline()
    if how.endswith("root"):
        s[b].compute_root()
    text = str(tvm.lower(s, [a, b, c], simple_mode=True))
    assert text.count("for i in range(m):") == (2 if how.endswith("root") else 1)
    assert ("(A_1[i] + T.float32(1)) * T.float32(2)" in text) == (how == "inline")
    x = rng.random(9, dtype="float32")
    assert np.array_equal(run(s, [a, c], x)[0], (x + 1) * 2)


@pytest.mark.parametrize("rule", ["AutoInlineElemWise", "AutoInlineBroadcast", "AutoInlineInjective"])
def test_stages_that_are_inlined_by_a_rule(rule: str) -> None:
    a = te.placeholder((6, 4), name="A")
    bias = te.placeholder((4,), name="bias")
    b = te.compute((6, 4), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((6, 4), lambda i, j: b[i, j] + bias[j], name="C")
    t = te.compute((4, 6), lambda j, i: c[i, j] * 2, name="T")
    d = te.compute((4, 6), lambda j, i: t[j, i] - 1, name="D")
    s = te.create_schedule(d.op)
    getattr(te.schedule, rule)(s)
    inlined = {x.name for x in s.stages if x.attach.kind == "inline"}
    assert "B" in inlined and "D" not in inlined, inlined
    if rule == "AutoInlineInjective":
        assert inlined == {"B", "C", "T"}
    x, y = rng.random((6, 4), dtype="float32"), rng.random(4, dtype="float32")
    tvm.testing.assert_allclose(run(s, [a, bias, d], x, y)[0], ((x + 1 + y) * 2 - 1).T, rtol=1e-5)


# -- reductions -----------------------------------------------------------------------------------------


def test_a_reduction_split_and_factored() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    x = rng.random((20, 33), dtype="float32")
    s = te.create_schedule(b.op)
    s[b].split(b.op.reduce_axis[0], factor=16)
    s[b].split(b.op.axis[0], factor=32)
    assert in_order(str(tvm.lower(s, [a, b], simple_mode=True)), "k_outer", "T.likely(k_outer * 16 + k_inner < m)")
    tvm.testing.assert_allclose(run(s, [a, b], x)[0], x.sum(axis=1), rtol=1e-5)

    s = te.create_schedule(b.op)
    _, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    bf = s.rfactor(b, ki)
    assert bf.shape[0].value == 16 and len(bf.op.axis) == 2
    s[bf].parallel(bf.op.axis[0])
    tvm.testing.assert_allclose(run(s, [a, b], x)[0], x.sum(axis=1), rtol=1e-5)


def test_a_convolution_over_padded_values() -> None:
    n = te.var("n")
    source = te.placeholder((n, n), name="Input")
    kernel = te.placeholder((3, 3), name="Filter")
    di, dj = te.reduce_axis((0, 3), name="di"), te.reduce_axis((0, 3), name="dj")
    out = te.compute(
        (n - 2, n - 2), lambda i, j: te.sum(source[i + di, j + dj] * kernel[di, dj], axis=[di, dj]), name="Output"
    )
    s = te.create_schedule(out.op)
    x, w = rng.random((9, 9), dtype="float32"), rng.random((3, 3), dtype="float32")
    expected = sum(x[i : i + 7, j : j + 7] * w[i, j] for i in range(3) for j in range(3))
    tvm.testing.assert_allclose(run(s, [source, kernel, out], x, w)[0], expected, rtol=1e-5)


# -- recurrences ----------------------------------------------------------------------------------------


def cumulative(stages: bool):
    m, n = te.var("m"), te.var("n")
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="state")
    init = te.compute((1, n), lambda _, i: x[0, i], name="init")
    if not stages:
        update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="update")
        return x, te.scan(init, update, state, inputs=[x]), None
    first = te.compute((m, n), lambda t, i: state[t - 1, i] * 2, name="first")
    update = te.compute((m, n), lambda t, i: first[t, i] + x[t, i], name="update")
    return x, te.scan(init, update, state, inputs=[x]), first


def test_a_cumulative_sum() -> None:
    x, out, _ = cumulative(stages=False)
    a = rng.random((11, 5), dtype="float32")
    tvm.testing.assert_allclose(run(te.create_schedule(out.op), [x, out], a)[0], np.cumsum(a, axis=0), rtol=1e-5)


def test_a_scan_with_two_stages_in_its_cell() -> None:
    x, out, first = cumulative(stages=True)
    s = te.create_schedule(out.op)
    s[first].split(first.op.axis[1], factor=4)
    a = rng.random((6, 10), dtype="float32")
    expected = a.copy()
    for t in range(1, 6):
        expected[t] = expected[t - 1] * 2 + a[t]
    tvm.testing.assert_allclose(run(s, [x, out], a)[0], expected, rtol=1e-5)


def test_a_scan_of_two_states() -> None:
    m, n, length = te.var("m"), te.var("n"), te.var("l")
    x, y = te.placeholder((m, n), name="X"), te.placeholder((m, length), name="Y")
    s1, s2 = te.placeholder((m, n), name="s1"), te.placeholder((m, length), name="s2")
    init1 = te.compute((1, n), lambda _, i: x[0, i], name="init1")
    init2 = te.compute((1, length), lambda _, i: y[0, i], name="init2")
    update1 = te.compute((m, n), lambda t, i: s1[t - 1, i] + x[t, i], name="update1")
    update2 = te.compute((m, length), lambda t, i: s2[t - 1, i] + s1[t - 1, 0], name="update2")
    r0, r1 = te.scan([init1, init2], [update1, update2], [s1, s2])
    a, b = rng.random((7, 3), dtype="float32"), rng.random((7, 4), dtype="float32")
    one, two = run(te.create_schedule(r0.op), [x, y, r0, r1], a, b)
    first = np.cumsum(a, axis=0)
    second = b[:1] + np.concatenate([np.zeros((1, 1), "float32"), np.cumsum(first[:-1, :1], axis=0)])
    tvm.testing.assert_allclose(one, first, rtol=1e-5)
    tvm.testing.assert_allclose(two, np.broadcast_to(second, (7, 4)), rtol=1e-5)


# -- a matrix product on the CPU --------------------------------------------------------------------------

M = N = K = 64
BLOCK = 16


def product():
    k = te.reduce_axis((0, K), "k")
    a, b = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    c = te.compute((M, N), lambda m, n: te.sum(a[m, k] * b[k, n], axis=k), name="C")
    return a, b, c, te.create_schedule(c.op)


def blocked(vectorized: bool = False, permuted: bool = False):
    a, b, c, s = product()
    mo, no, mi, ni = s[c].tile(c.op.axis[0], c.op.axis[1], BLOCK, BLOCK)
    (kaxis,) = s[c].op.reduce_axis
    ko, ki = s[c].split(kaxis, factor=4)
    s[c].reorder(mo, no, ko, mi, ki, ni) if permuted else s[c].reorder(mo, no, ko, ki, mi, ni)
    if vectorized:
        s[c].vectorize(ni)
    return a, b, c, s


def packed(cached: bool):
    """B is packed into panels as wide as a block; with `cached`, a block of C is summed apart, in parallel."""
    k = te.reduce_axis((0, K), "k")
    a, b = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    panels = te.compute((N // BLOCK, K, BLOCK), lambda big, kk, small: b[kk, big * BLOCK + small], name="packedB")
    c = te.compute(
        (M, N), lambda m, n: te.sum(a[m, k] * panels[n // BLOCK, k, tvm.tir.indexmod(n, BLOCK)], axis=k), name="C"
    )
    s = te.create_schedule(c.op)
    target = s.cache_write(c, "global") if cached else c
    mo, no, mi, ni = s[c].tile(c.op.axis[0], c.op.axis[1], BLOCK, BLOCK)
    if cached:
        s[target].compute_at(s[c], no)
        mc, nc = s[target].op.axis
        (kaxis,) = s[target].op.reduce_axis
        ko, ki = s[target].split(kaxis, factor=4)
        s[target].reorder(ko, mc, ki, nc)
        s[target].vectorize(nc)
        s[target].unroll(ki)
        s[c].parallel(mo)
    else:
        (kaxis,) = s[c].op.reduce_axis
        ko, ki = s[c].split(kaxis, factor=4)
        s[c].reorder(mo, no, ko, mi, ki, ni)
        s[c].vectorize(ni)
    big, _, small = s[panels].op.axis
    s[panels].vectorize(small)
    s[panels].parallel(big)
    return a, b, c, s


@pytest.mark.parametrize(
    "make",
    [
        product,
        blocked,
        lambda: blocked(vectorized=True),
        lambda: blocked(vectorized=True, permuted=True),
        lambda: packed(cached=False),
        lambda: packed(cached=True),
    ],
    ids=["plain", "blocked", "vectorized", "permuted", "packed", "cached and parallel"],
)
def test_a_matrix_product(make) -> None:
    a, b, c, s = make()
    x, y = rng.random((M, K), dtype="float32"), rng.random((K, N), dtype="float32")
    tvm.testing.assert_allclose(run(s, [a, b, c], x, y)[0], x @ y, rtol=1e-5)


def test_the_loops_of_the_blocked_product() -> None:
    a, b, c, s = blocked(vectorized=True)
    text = str(tvm.lower(s, [a, b, c], simple_mode=True))
    assert in_order(text, "m_outer, n_outer", "k_outer, k_inner, m_inner", "for n_inner in T.vectorized(16):")
    a, b, c, s = packed(cached=True)
    text = str(tvm.lower(s, [a, b, c], simple_mode=True))
    assert in_order(
        text, "packedB", "T.parallel(4)", "T.vectorized(16)", "T.parallel(4)", "T.unroll(4)", "T.vectorized(16)"
    )


# -- a convolution for GPUs: shared tiles, virtual threads, cooperative copies ------------------------------

TILE, THREADS, VTHREADS, STEP = 8, 8, 2, 4


def convolution_on_a_gpu():
    """Each group computes a tile of channels and images; its work-items copy the operands together."""
    batch, size, channels, outputs, kernel, pad = 16, 5, 8, 32, 3, 1
    a = te.placeholder((size, size, channels, batch), name="A")
    w = te.placeholder((kernel, kernel, channels, outputs), name="W")
    padded = te.compute(
        (size + 2 * pad, size + 2 * pad, channels, batch),
        lambda y, x, c, n: tvm.tir.if_then_else(
            tvm.tir.all(y >= pad, y - pad < size, x >= pad, x - pad < size), a[y - pad, x - pad, c, n], 0.0
        ),
        name="Apad",
    )
    rc = te.reduce_axis((0, channels), name="rc")
    ry, rx = te.reduce_axis((0, kernel), name="ry"), te.reduce_axis(tvm.ir.Range(0, kernel), name="rx")
    b = te.compute(
        (size, size, outputs, batch),
        lambda y, x, f, n: te.sum(padded[y + ry, x + rx, rc, n] * w[ry, rx, rc, f], axis=[ry, rx, rc]),
        name="B",
    )
    s = te.create_schedule(b.op)
    s[padded].compute_inline()
    a_shared, w_shared = s.cache_read(padded, "shared", [b]), s.cache_read(w, "shared", [b])
    a_local, w_local = s.cache_read(a_shared, "local", [b]), s.cache_read(w_shared, "local", [b])
    b_local = s.cache_write(b, "local")

    block_x, block_y, block_z = (te.thread_axis(f"blockIdx.{i}") for i in "xyz")
    thread_x = te.thread_axis((0, THREADS), "threadIdx.x")
    thread_y = te.thread_axis((0, 2), "threadIdx.y")
    vx = te.thread_axis((0, VTHREADS), "vthread", name="vx")
    hi, wi, fi, ni = s[b].op.axis
    bz = s[b].fuse(hi, wi)
    by, fi = s[b].split(fi, factor=2 * TILE)
    bx, ni = s[b].split(ni, factor=THREADS * VTHREADS)
    tvx, ni = s[b].split(ni, nparts=VTHREADS)
    ty, fi = s[b].split(fi, nparts=2)
    tx, ni = s[b].split(ni, nparts=THREADS)
    s[b].reorder(bz, by, bx, tvx, ty, tx, fi, ni)
    for loop, axis in ((bz, block_z), (by, block_y), (bx, block_x), (tvx, vx), (ty, thread_y), (tx, thread_x)):
        s[b].bind(loop, axis)
    s[b_local].compute_at(s[b], tx)
    _, _, fi, ni = s[b_local].op.axis
    ry, rx, rc = s[b_local].op.reduce_axis
    rco, rci = s[b_local].split(rc, factor=STEP)
    s[b_local].reorder(rco, ry, rx, rci, fi, ni)
    for shared in (a_shared, w_shared):
        s[shared].compute_at(s[b_local], rx)
        _, _, ci, last = s[shared].op.axis
        fused = s[shared].fuse(ci, last)
        t, rest = s[shared].split(fused, nparts=2)
        s[shared].bind(t, thread_y)
        t, rest = s[shared].split(rest, nparts=THREADS)
        s[shared].bind(t, thread_x)
    for local in (a_local, w_local):
        s[local].compute_at(s[b_local], rci)
    return a, w, b, s


def test_a_convolution_on_a_gpu() -> None:
    a, w, b, s = convolution_on_a_gpu()
    x = rng.random([d.value for d in a.shape], dtype="float32")
    f = rng.random([d.value for d in w.shape], dtype="float32")
    text = str(tvm.lower(s, [a, w, b], simple_mode=True))
    assert in_order(text, 'T.launch_thread("blockIdx.z", 25)', '"threadIdx.x", 8', '"shared"')
    wide = np.pad(x, ((1, 1), (1, 1), (0, 0), (0, 0)))
    expected = sum(np.einsum("yxcn,cf->yxfn", wide[i : i + 5, j : j + 5], f[i, j]) for i in range(3) for j in range(3))
    tvm.testing.assert_allclose(run(s, [a, w, b], x, f, target="opencl")[0], expected, rtol=1e-4)


# -- reductions by the work-items of a group ----------------------------------------------------------------


def test_a_reduction_across_threads() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), "k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, ki = s[b].split(b.op.reduce_axis[0], factor=16)
    bf = s.rfactor(b, ki)
    xo, xi = s[b].split(s[b].op.axis[0], factor=32)
    s[b].bind(xo, te.thread_axis("blockIdx.x"))
    s[b].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], tx)
    s[bf].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(tx.var.equal(0))
    x = rng.random((70, 50), dtype="float32")
    tvm.testing.assert_allclose(run(s, [a, b], x, target="opencl")[0], x.sum(axis=1), rtol=1e-4)


# -- layouts of intermediates -------------------------------------------------------------------------------


def test_transform_layout() -> None:
    a = te.placeholder((8, 16), name="A")
    b = te.compute((8, 16), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((8, 16), lambda i, j: b[i, j] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].transform_layout(lambda i, j: [j // 4, i, j % 4])
    assert "[4, 8, 4]" in str(tvm.lower(s, [a, c], simple_mode=True))
    x = rng.random((8, 16), dtype="float32")
    assert np.array_equal(run(s, [a, c], x)[0], (x + 1) * 2)


# -- a schedule by blocks ---------------------------------------------------------------------------------


def blocks():
    a, b = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    k = te.reduce_axis((0, K), name="k")
    c = te.compute((M, N), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((M, N), lambda i, j: te.max(c[i, j], 0.0), name="D")
    return te.create_prim_func([a, b, d])


def test_a_product_by_blocks() -> None:
    sch = tvm.tir.Schedule(tvm.IRModule({"main": blocks()}))
    c, d = sch.get_block("C"), sch.get_block("D")
    i, j, k = sch.get_loops(c)
    i0, i1 = sch.split(i, factors=[None, 8])
    j0, j1 = sch.split(j, factors=[None, 16])
    k0, k1 = sch.split(k, factors=[None, 4])
    sch.reorder(i0, j0, k0, k1, i1, j1)
    sch.vectorize(j1)
    sch.parallel(i0)
    sch.reverse_compute_at(d, j0)
    sch.decompose_reduction(c, k0)
    text = sch.mod.script()
    assert in_order(text, "T.parallel(8)", 'T.block("C_init")', 'T.block("C_update")', 'T.block("D")')
    x, y = rng.random((M, K), dtype="float32") - 0.5, rng.random((K, N), dtype="float32") - 0.5
    out = np.zeros((M, N), "float32")
    tvm.build(sch.mod, target="llvm")(x, y, out)
    tvm.testing.assert_allclose(out, np.maximum(x @ y, 0), rtol=1e-4, atol=1e-5)
    loops = tvm.lower(sch.mod, simple_mode=True)
    assert "T.parallel(8)" in str(loops) and "T.block" not in str(loops)
    assert "@T.prim_func" in str(tvm.lower(sch.mod))


def test_a_function_of_blocks_is_built_as_it_is() -> None:
    x, y = rng.random((M, K), dtype="float32"), rng.random((K, N), dtype="float32")
    out = np.zeros((M, N), "float32")
    tvm.build(blocks(), target="llvm")(x, y, out)
    tvm.testing.assert_allclose(out, x @ y, rtol=1e-4)
    assert isinstance(blocks(), tvm.tir.PrimFunc)
