"""`tvm.ir.structural_equal` of functions: what says nothing about what they do may differ, and nothing else."""

from __future__ import annotations

import pytest

from autosched import tvm
from autosched.errors import ScheduleError
from autosched.tvm import te, tir

TEXT = """
@T.prim_func
def main(A: T.Buffer(({n}, 8), "float32"), B: T.Buffer(({n}, 8), "{of}")):
    T.func_attr({{"tir.noalias": True}})
    for f in range({n} * 8):
        with T.block("B"):
            vi = T.axis.spatial({n}, {row})
            vj = T.axis.spatial(8, {column})
            B[vi, vj] = {value}
"""


def function(n="4", row="f // 8", column="f % 8", value="A[vi, vj] + 1.0", of="float32"):
    text = TEXT.format(n=n, row=row, column=column, value=value, of=of)
    return tvm.script.from_source(text, {"T": tvm.script.tir})


def scheduled():
    a = te.placeholder((4, 8), name="A")
    b = te.compute((4, 8), lambda i, j: a[i, j] + 1.0, name="B")
    sch = tir.Schedule(te.create_prim_func([a, b]))
    sch.fuse(*sch.get_loops(sch.get_block("B")))
    return sch.mod["main"]


@pytest.mark.parametrize(
    "other",
    [
        scheduled,
        lambda: function(n="T.int64(4)"),
        lambda: function(column="f - f // 8 * 8"),
        lambda: function(value="A[vi + 1 - 1, T.cast(vj, 'int64')] + 1.0"),
        lambda: function(row="f % 32 // 8"),
    ],
)
def test_alike(other) -> None:
    tvm.ir.assert_structural_equal(function(), other())
    assert tvm.ir.structural_hash(function()) == tvm.ir.structural_hash(other())


@pytest.mark.parametrize(
    "other",
    [
        lambda: function(n="3"),
        lambda: function(value="A[vi, 7 - vj] + 1.0"),
        lambda: function(value="A[vi, vj] + 2.0"),
        lambda: function(of="float64"),
        lambda: function(value="A[vi, T.cast(vj, 'int8')] + 1.0"),
    ],
)
def test_not_alike(other) -> None:
    assert not tvm.ir.structural_equal(function(), other())


def test_alignment_is_read_back() -> None:
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[j, i] * 2.0, name="C")
    sch = tir.Schedule(te.create_prim_func([a, c]))
    sch.storage_align("B", 0, axis=0, factor=16, offset=1)
    text = sch.mod.script()
    assert 'T.block_attr({"buffer_dim_align": [[0, 0, 16, 1]]})' in text
    again = tvm.script.from_source(text)
    tvm.ir.assert_structural_equal(again, sch.mod)
    assert [n.value for n in tvm.lower(again, simple_mode=True)["main"].body.buffer.strides] == [17, 1]
    sch = tir.Schedule(tvm.script.from_source(text.replace("[[0, 0, 16, 1]]", "[0]")))
    with pytest.raises(ScheduleError, match=r"buffer_dim_align is a list of \[buffer, .*\], and not 0"):
        sch.rolling_buffer("B", 0)


def test_comparisons_and_sizes_in_any_form() -> None:
    def padded(condition: str, sizes: str = "n, m") -> tvm.ir.PrimFunc:
        first, second = sizes.split(", ")
        text = f"""
@T.prim_func
def main(a: T.handle, b: T.handle):
    T.func_attr({{"tir.noalias": True}})
    {first} = T.int32()
    {second} = T.int32()
    A = T.match_buffer(a, (m, n))
    B = T.match_buffer(b, (m, n))
    for i, j in T.grid(m, n):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else({condition}, A[vi - 1, vj], T.float32(0))
"""
        return tvm.script.from_source(text, {"T": tvm.script.tir})

    asked = padded("1 <= vi and vi < 9")
    for other in ("vi >= 1 and vi - 1 < 8", "0 < vi and 8 >= vi", "vi > 0 and 9 > vi"):
        assert tvm.ir.structural_equal(padded(other, "m, n"), asked)
        assert tvm.ir.structural_hash(padded(other)) == tvm.ir.structural_hash(asked)
    for other in ("1 < vi and vi < 9", "1 <= vi and vi <= 9", "1 <= vj and vi < 9", "vi < 9 and 1 <= vi"):
        assert not tvm.ir.structural_equal(padded(other), asked)


def test_inputs_that_tuners_may_lay_out() -> None:
    a, b = te.placeholder((4, 8), name="A"), te.placeholder((4, 8), name="B")
    c = te.compute((4, 8), lambda i, j: a[i, j] + b[i, j], name="C", attrs={"layout_free_placeholders": [b]})
    f = te.create_prim_func([a, b, c])
    assert f.attrs["layout_free_buffers"] == [1]
    assert tvm.ir.structural_equal(tvm.script.from_source(f.script()), f)
    plain = te.create_prim_func([a, b, te.compute((4, 8), lambda i, j: a[i, j] + b[i, j], name="C")])
    assert "layout_free_buffers" not in plain.attrs and not tvm.ir.structural_equal(plain, f)
