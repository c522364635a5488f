"""Where intermediates live: flat buffers, shared where lives do not overlap, sized by regions."""

from __future__ import annotations

import inspect
import itertools
import sys
from itertools import groupby

import numpy as np
import pytest
import seed_programs

from autosched import te
from autosched.errors import LowerError
from autosched.ir.printer import format_function
from autosched.ir.stmt import Allocate, Function, Stmt, Store, walk
from autosched.lowering import lower_structure, storage
from autosched.schedule import create_schedule
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference


def allocations(f: Function) -> dict[str, str]:
    """name -> type and shape."""
    return {
        s.buffer.name: f"{s.buffer.dtype}[{', '.join(map(repr, s.buffer.shape))}]"
        for s in walk(f.body)
        if isinstance(s, Allocate)
    }


def test_the_default_blur_uses_one_buffer_twice() -> None:
    """y_blur lives where padded was: padded is dead by then, x_blur is not."""
    b = seed_programs.box_blur()
    f = lower_structure(seed_programs.default(b), b.args, "llvm").after("share_storage")
    sizes = allocations(f)
    assert list(sizes) == ["padded", "x_blur"]
    stored = [name for name, _ in groupby(s.buffer.name for s in walk(f.body) if isinstance(s, Store))]
    assert stored == ["padded", "x_blur", "padded", "box_blur"]
    assert allocations(lower_structure(seed_programs.default(b), b.args, "llvm").after("flatten")).keys() == {
        "padded", "x_blur", "y_blur",
    }  # fmt: skip


def chain(*dtypes: str) -> list[Tensor]:
    """A -> T0 -> T1 -> ..., one stage of each type; the last one is the output."""
    n = te.var("n")

    def plus_one(before: Tensor, of: str, name: str) -> Tensor:
        return te.compute((n,), lambda i: before[i].astype(of) + 1, name=name)

    tensors = [te.placeholder((n,), dtypes[0], name="A")]
    for k, of in enumerate(dtypes):
        tensors.append(plus_one(tensors[-1], of, f"T{k}"))
    return tensors


def kept(tensors: list[Tensor]) -> list[str]:
    args = [tensors[0], tensors[-1]]
    return list(allocations(lower_structure(create_schedule(args), args, "llvm").after("share_storage")))


def test_a_long_chain_needs_two_buffers() -> None:
    assert kept(chain(*["int32"] * 7)) == ["T0", "T1"]


def test_types_do_not_share() -> None:
    assert kept(chain("int32", "int32", "int32", "int32")) == ["T0", "T1"]
    assert kept(chain("int32", "int16", "uint32", "int32")) == ["T0", "T1", "T2"]
    assert kept(chain("int32", "int16", "int32", "int16", "int32")) == ["T0", "T1"]


def test_what_is_read_to_the_end_is_not_reused() -> None:
    tensors = chain(*["int32"] * 4)
    first, last = tensors[1], tensors[-1]
    end = te.compute(last.shape, lambda i: last[i] + first[i], name="end")
    assert kept([tensors[0], end]) == ["T0", "T1", "T2"]  # T3 lives where T1 was, and T0 by itself


def test_scopes_do_not_share() -> None:
    tensors = chain(*["int32"] * 5)
    args = [tensors[0], tensors[-1]]
    s = create_schedule(args)
    s["T2"].set_scope("local")
    f = lower_structure(s, args, "llvm").after("share_storage")
    assert list(allocations(f)) == ["T0", "T1", "T2"]


def test_shared_storage_computes_the_same() -> None:
    tensors = chain("int32", "int16", "int32", "int32", "int16", "int32")
    args = [tensors[0], tensors[-1]]
    for backend in ("native", "interpreter"):
        check_against_reference(args, create_schedule(args), "llvm", [np.arange(9, dtype=np.int32)], backend)


def test_a_region_is_as_large_as_what_one_iteration_reads() -> None:
    """Sizes of buffers mention tiles and sizes, never loops."""
    b = seed_programs.box_blur()
    s = create_schedule(b.box_blur)
    y, x, _ = b.box_blur.op.axis
    ty, tx = s.define_knob("ty", [4, 8]), s.define_knob("tx", [16, 32])
    _, x_outer, _, _ = s[b.box_blur].tile(y, x, ty, tx)
    for stage in (b.y_blur, b.x_blur, b.padded):
        s[stage].compute_at(s[b.box_blur], x_outer)
    structure = lower_structure(s, b.args, "llvm")
    sizes = allocations(structure.function)
    assert sizes["y_blur"] == "uint16[ty, tx, 3]"
    assert sizes["x_blur"] == "uint16[ty + 2, tx, 3]"
    assert sizes["padded"] == "uint16[ty + 2, tx + 2, 3]"
    assert allocations(structure.after("flatten", {"ty": 4, "tx": 16}))["padded"] == "uint16[324]"


def test_the_buffer_of_a_stage_computed_inside_another_intermediate() -> None:
    b = seed_programs.box_blur()
    s = create_schedule(b.box_blur)
    s[b.y_blur].compute_at(s[b.box_blur], "y")
    s[b.x_blur].compute_at(s[b.y_blur], "x")
    s[b.padded].compute_at(s[b.x_blur], "y")
    sizes = allocations(lower_structure(s, b.args, "llvm").function)
    assert sizes == {"y_blur": "uint16[1, width, 3]", "x_blur": "uint16[3, 1, 3]", "padded": "uint16[1, 3, 3]"}
    image = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    check_against_reference(b.args, s, "llvm", [image], "interpreter")


def test_tensors_without_dimensions() -> None:
    """Found by random programs: an element without an index was taken for a constant."""
    n = te.var("n")
    a = te.placeholder((n,), "int32", name="A")
    scale = te.placeholder((), "int32", name="scale")
    k = te.reduce_axis((0, n), name="k")
    total = te.compute((), lambda: te.sum(a[k], axis=k), name="total")
    b = te.compute((n,), lambda i: a[i] * scale() + total(), name="B")
    args = [a, scale, b, total]
    values = [np.arange(5, dtype=np.int32), np.asarray(3, dtype=np.int32)]
    s = create_schedule([b, total])
    for backend in ("native", "interpreter"):
        check_against_reference(args, s, "llvm", values, backend)
    text = str(lower_structure(s, args, "llvm"))
    assert "total[] = total[] + A[k]" in text
    assert "total[0] = total[0] + A[k]" in format_function(lower_structure(s, args, "llvm").bind())


def test_caches_of_tensors_without_dimensions() -> None:
    a = te.placeholder((4,), "int32", name="A")
    scale = te.placeholder((), "int32", name="scale")
    b = te.compute((4,), lambda i: a[i] * scale(), name="B")
    s = create_schedule(b)
    s.cache_read(scale, "local", b)
    s["scale.local"].compute_at(s[b], "i")
    check_against_reference(
        [a, scale, b], s, "llvm", [np.arange(4, dtype=np.int32), np.asarray(3, dtype=np.int32)], "interpreter"
    )


@pytest.mark.parametrize("order", [("i", "j"), ("j", "i")])
def test_the_layout_of_a_cache_is_the_order_of_the_loops(order: tuple[str, str]) -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), "int32", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2, name="C")
    s = create_schedule(c)
    s[b].reorder(*order)
    s.cache_write(b, "global")
    s[b].compute_inline()
    sizes = allocations(lower_structure(s, [a, c], "llvm").function)
    assert sizes == {"B.global": f"int32[{', '.join('nm'['ij'.index(x)] for x in order)}]"}


@pytest.mark.parametrize("width", [7, 16, 50])
def test_a_cache_laid_out_along_a_fused_loop_holds_one_block(width: int) -> None:
    """What a block of a fused loop reads is a block, wherever the rows of the tensor end."""
    a = te.placeholder((6, width), "int32", name="A")
    b = te.compute((6, width), lambda i, j: a[i, j] + 1, name="B")
    s = create_schedule(b)
    s[b].fuse("i", "j")
    cache = s.cache_write(b, "local")
    block, _ = s[b].split(s[b].fuse("i", "j"), factor=8)
    s[cache].compute_at(s[b], block)
    assert allocations(lower_structure(s, [a, b], "llvm").function) == {"B.local": "int32[8]"}
    values = np.arange(6 * width, dtype=np.int32).reshape(6, width)
    for backend in ("native", "interpreter"):
        check_against_reference([a, b], s, "llvm", [values], backend)


def test_a_blocked_layout_is_padded_with_zeros() -> None:
    """`cache_write` after a split that does not divide: the last block is filled up."""
    a = te.placeholder((10,), "int32", name="A")
    b = te.compute((10,), lambda i: a[i] + 1, name="B")
    c = te.compute((10,), lambda i: b[9 - i], name="C")
    s = create_schedule(c)
    outer, inner = s[b].split("i", factor=4)
    s[b].reorder(inner, outer)
    cache = s.cache_write(b, "global")
    s[b].compute_inline()
    assert [int(d.value) for d in cache.shape] == [4, 3]
    for backend in ("native", "interpreter"):
        check_against_reference([a, c], s, "llvm", [np.arange(10, dtype=np.int32)], backend)


def test_empty_intermediates() -> None:
    """A size of zero: nothing is computed, and nothing is read."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), "int32", name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    k = te.reduce_axis((0, m), name="k")
    c = te.compute((n,), lambda i: te.sum(b[i, k], axis=k), name="C")
    s = create_schedule(c)
    s[b].compute_at(s[c], "i")
    for shape in ((0, 3), (3, 0), (0, 0)):
        for backend in ("native", "interpreter"):
            check_against_reference([a, c], s, "llvm", [np.zeros(shape, dtype=np.int32)], backend)


def test_each_statement_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many buffers there are to find the lives of."""
    a = te.placeholder((8,), "int32", name="A")
    t = a
    for i in range(30):
        t = te.compute((8,), lambda x, t=t: t[7 - x] + 1, name=f"t{i}")
    looked_at: list[Stmt] = []
    known = storage.read_buffers
    monkeypatch.setattr(storage, "read_buffers", lambda s: looked_at.append(s) or known(s))
    function = lower_structure(create_schedule(t), [a, t], "llvm").after("share_storage")
    assert len(looked_at) == 30
    assert len([x for x in walk(function.body) if isinstance(x, Allocate)]) == 2


def test_hundreds_of_stages_at_the_root_are_lowered() -> None:
    """The memory of each lasts for those after it: statements nest as deep as there are stages."""
    a = t = te.placeholder((8,), "int32", name="A")
    for i in range(450):
        t = te.compute((8,), lambda x, t=t: t[x] + 1, name=f"t{i}")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        check_against_reference([a, t], create_schedule(t), "llvm", [np.arange(8, dtype="int32")])
    finally:
        sys.setrecursionlimit(limit)


def test_stages_inside_more_stages_than_can_be_followed() -> None:
    a = te.placeholder((8, 8), "int32", name="A")
    t, stages = a, []
    for i in range(60):
        t = te.compute((8, 8), lambda y, x, t=t: t[y, x] + 1, name=f"t{i}")
        stages.append(t)
    s = create_schedule(t)
    for producer, consumer in itertools.pairwise(stages):
        s[producer].compute_at(s[consumer], "y")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    try:
        with pytest.raises(LowerError) as error:
            lower_structure(s, [a, t], "llvm")
    finally:
        sys.setrecursionlimit(limit)
    assert error.value.why == "its loops are nested deeper than Python's stack is, inside those of 59 other stages"
    assert "compute some of these stages at the root" in error.value.legal
    check_against_reference([a, t], s, "llvm", [np.arange(64, dtype="int32").reshape(8, 8)])
