"""`tir.TensorIntrin.register`: intrinsics that two scripts declare, in the place of loops of blocks."""

# mypy: ignore-errors

from __future__ import annotations

import random

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import AutoschedError, UsageError
from autosched.tvm import tir
from autosched.tvm.script import tir as T


@T.prim_func
def tile_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4, 6), "float32", offset_factor=1)
    B = T.match_buffer(b, (8, 6), "float32", offset_factor=1)
    C = T.match_buffer(c, (4, 8), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4, 0:8], A[0:4, 0:6], B[0:8, 0:6])
        T.writes(C[0:4, 0:8])
        for i, j, k in T.grid(4, 8, 6):
            with T.block(""):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]


@T.prim_func
def tile_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4, 6), "float32", offset_factor=1)
    B = T.match_buffer(b, (8, 6), "float32", offset_factor=1)
    C = T.match_buffer(c, (4, 8), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[0:4, 0:8], A[0:4, 0:6], B[0:8, 0:6])
        T.writes(C[0:4, 0:8])
        for i, k in T.grid(4, 6):
            for j in range(8):
                C[i, j] = C[i, j] + B[j, k] * A[i, k]


@T.prim_func
def tile_in_c(a: T.handle, b: T.handle, c: T.handle) -> None:
    sa = T.int32()
    sb = T.int32()
    sc = T.int32()
    A = T.match_buffer(a, (4, 6), "float32", offset_factor=1, strides=[sa, 1])
    B = T.match_buffer(b, (8, 6), "float32", offset_factor=1, strides=[sb, 1])
    C = T.match_buffer(c, (4, 8), "float32", offset_factor=1, strides=[sc, 1])
    with T.block("root"):
        T.reads(C[0:4, 0:8], A[0:4, 0:6], B[0:8, 0:6])
        T.writes(C[0:4, 0:8])
        T.evaluate(T.call_extern("int32", "test_tile_4_8_6", C.access_ptr("w"), A.data, B.access_ptr("r"), sa, sb, sc))


TILE = """
int test_tile_4_8_6(float *c, const float *a, const float *b, int sa, int sb, int sc) {
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 8; ++j)
      for (int k = 0; k < 6; ++k) c[i * sc + j] += a[i * sa + k] * b[j * sb + k];
  return 0;
}
"""


@T.prim_func
def row_desc(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (8,), "float32")
    B = T.match_buffer(b, (8,), "float32")
    with T.block("root"):
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi] = T.max(A[vi], T.float32(0))


@T.prim_func
def row_impl(a: T.handle, b: T.handle) -> None:
    A = T.match_buffer(a, (8,), "float32")
    B = T.match_buffer(b, (8,), "float32")
    with T.block("root"):
        for i in range(8):
            B[7 - i] = T.max(T.float32(0), A[7 - i])


@T.prim_func
def product(A: T.Buffer((16, 24), "float32"), B: T.Buffer((32, 24), "float32"), D: T.Buffer((16, 32), "float32")):
    C = T.alloc_buffer((16, 32), "float32")
    for i, j, k in T.grid(16, 32, 24):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
    for i, j in T.grid(16, 32):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj], T.float32(0))


@T.prim_func
def dot_desc(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), "float32")
    B = T.match_buffer(b, (4,), "float32")
    C = T.match_buffer(c, (), "float32")
    with T.block("root"):
        for k in range(4):
            with T.block("C"):
                vk = T.axis.reduce(4, k)
                C[()] = C[()] + A[vk] * B[vk]


@T.prim_func
def dot_impl(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), "float32")
    B = T.match_buffer(b, (4,), "float32")
    C = T.match_buffer(c, (), "float32")
    with T.block("root"):
        C[()] = C[()] + (A[0] * B[0] + A[1] * B[1]) + (A[2] * B[2] + A[3] * B[3])


@T.prim_func
def begins_with_two(A: T.Buffer((8, 12), "float32"), C: T.Buffer((8,), "float32")):
    for i, k in T.grid(8, 12):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(2)
            C[vi] = C[vi] + A[vi, vk] * A[vi, vk]


@pytest.fixture(scope="module", autouse=True)
def declared():
    tir.TensorIntrin.register("test.tile", tile_desc, tile_impl, override=True)
    tir.TensorIntrin.register("test.tile_c", tile_desc, tile_in_c, override=True)
    tir.TensorIntrin.register("test.row", row_desc, row_impl, override=True)
    tir.TensorIntrin.register("test.dot", dot_desc, dot_impl, override=True)


def checked(sch) -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in ((16, 24), (32, 24)))
    d = np.full((16, 32), np.nan, "float32")
    tvm.build(sch.mod, target="llvm")(a, b, d)
    np.testing.assert_array_equal(d, np.maximum(a @ b.T, 0), err_msg=sch.mod.script())


def tiled(rng: random.Random):
    """A product of tiles, in some order, of which the loops outside are those of tiles; the first loop of a tile."""
    sch = tir.Schedule(product)
    i, j, k = sch.get_loops("C")
    outer, inner = zip(*(sch.split(x, [None, n]) for x, n in ((i, 4), (j, 8), (k, 6))), strict=True)
    spatial = rng.sample(outer[:2], 2)
    sch.reorder(*spatial, outer[2], *inner)
    return sch, spatial, outer[2], inner[0]


@pytest.mark.parametrize("seed", range(8))
def test_tiles_of_a_product(seed: int) -> None:
    rng = random.Random(seed)
    sch, (first, _), reduced, tile = tiled(rng)
    block = sch.blockize(tile) if rng.random() < 0.5 else tile
    parted = rng.random() < 0.5
    if parted:
        sch.decompose_reduction("C", reduced)
    name = rng.choice(["test.tile", "test.tile_c"])
    if name == "test.tile_c":
        sch.annotate(first, "pragma_import_c", TILE)
    sch.tensorize(block, name)
    if rng.random() < 0.5:
        sch.parallel(first)
    _, x = sch.get_loops("D")
    _, row = sch.split(x, [None, 8])
    sch.tensorize(row, "test.row")
    assert f"\"tensorize\": '{name}'" in sch.mod.script()
    checked(sch)


def test_what_is_no_such_tile_is_refused() -> None:
    sch, _, _, tile = tiled(random.Random(0))
    with pytest.raises(UsageError, match="no intrinsic 'test.none'"):
        sch.tensorize(tile, "test.none")
    sch.tensorize(tile, "test.row")
    with pytest.raises(AutoschedError, match="one iteration computes axes|computes"):
        tvm.build(sch.mod)
    with pytest.raises(UsageError, match="there is one of that name"):
        tir.TensorIntrin.register("test.row", row_desc, row_impl)
    with pytest.raises(UsageError, match="they have other buffers"):
        tir.TensorIntrin.register("test.other", row_desc, tile_impl)
    with pytest.raises(UsageError, match="loops around one store"):
        tir.TensorIntrin.register("test.other", product, product)
    assert tir.TensorIntrin.get("test.none", allow_missing=True) is None
    assert tir.TensorIntrin.get("test.row").name == "test.row"


def test_sums_that_begin_elsewhere() -> None:
    """First values of a reduction are its own: the intrinsic sets zeros, and adds."""
    for parted in (False, True):
        sch = tir.Schedule(begins_with_two)
        _, k = sch.get_loops("C")
        k0, k1 = sch.split(k, [None, 4])
        if parted:
            sch.decompose_reduction("C", k0)
        sch.tensorize(k1, "test.dot")
        a, c = np.arange(96, dtype="float32").reshape(8, 12), np.zeros(8, "float32")
        try:
            tvm.build(sch.mod)(a, c)
        except AutoschedError:
            assert not parted
            continue
        np.testing.assert_array_equal(c, (a * a).sum(1) + 2)


@T.prim_func
def dot_in_c(a: T.handle, b: T.handle, c: T.handle) -> None:
    A = T.match_buffer(a, (4,), "float32", offset_factor=1)
    B = T.match_buffer(b, (4,), "float32", offset_factor=1)
    C = T.match_buffer(c, (), "float32", offset_factor=1)
    with T.block("root"):
        T.reads(C[()], A[0:4], B[0:4])
        T.writes(C[()])
        T.evaluate(
            T.call_extern("int32", "test_dot_4", C.data, C.elem_offset, A.data, A.elem_offset, B.data, B.elem_offset)
        )


def test_data_and_offset() -> None:
    tir.TensorIntrin.register("test.dot_c", dot_desc, dot_in_c, override=True)
    sch = tir.Schedule(begins_with_two)
    i, k = sch.get_loops("C")
    k0, k1 = sch.split(k, [None, 4])
    copy = sch.cache_read("C", 0, "global.row")
    sch.compute_at(copy, i)
    sch.decompose_reduction("C", k0)
    sch.tensorize(k1, "test.dot_c")
    code = "int test_dot_4(float *c, int k, const float *a, int i, const float *b, int j) {"
    code += " for (int n = 0; n < 4; ++n) c[k] += a[i + n] * b[j + n]; return 0; }"
    sch.annotate(i, "pragma_import_c", code)
    a, c = np.arange(96, dtype="float32").reshape(8, 12), np.zeros(8, "float32")
    tvm.build(sch.mod)(a, c)
    np.testing.assert_array_equal(c, (a * a).sum(1) + 2)
