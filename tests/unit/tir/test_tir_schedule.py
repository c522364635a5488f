"""The block spelling: every primitive is the te primitive on the same schedule, and does what it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import autosched
from autosched import te, tir
from autosched.errors import ScheduleError, UsageError
from autosched.ir.builder import create
from autosched.ir.simplify import simplify
from autosched.lowering import lower, lower_structure
from autosched.schedule import Schedule, create_schedule, replay
from autosched.schedule.loop import leaf_extents
from autosched.te import Tensor
from autosched.testing.oracle import check_against_reference

Golden = Callable[..., None]


def program() -> list[Tensor]:
    """B = A + 1 -> C = B W -> D = 2 C."""
    a, w = te.placeholder((24, 16), name="A"), te.placeholder((16, 12), name="W")
    b = te.compute((24, 16), lambda i, j: a[i, j] + 1, name="B")
    k = te.reduce_axis((0, 16), name="k")
    c = te.compute((24, 12), lambda i, j: te.sum(b[i, k] * w[k, j], axis=k), name="C")
    d = te.compute((24, 12), lambda y, x: c[y, x] * 2, name="D")
    return [a, w, d]


def inputs() -> list[np.ndarray]:
    values = np.random.default_rng(7)
    return [values.integers(-3, 4, shape).astype("float32") for shape in ((24, 16), (16, 12))]


#: each pair does the same, once by blocks and once by stages
def split_by_blocks(s: tir.Schedule) -> None:
    s.split(s.get_loops(s.get_block("D"))[0], factors=[2, None, 4])


def split_by_stages(s: Schedule) -> None:
    s["D"].split_into("y", 2, None, 4)


def split_promising_by_blocks(s: tir.Schedule) -> None:
    s.split(s.get_loops(s.get_block("D"))[0], factors=[None, 4], disable_predication=True)


def split_promising_by_stages(s: Schedule) -> None:
    s["D"].split_into("y", None, 4, disable_predication=True)


def fuse_by_blocks(s: tir.Schedule) -> None:
    s.fuse(*s.get_loops(s.get_block("D")))


def fuse_by_stages(s: Schedule) -> None:
    s["D"].fuse("y", "x")


def reorder_by_blocks(s: tir.Schedule) -> None:
    i, j, k = s.get_loops(s.get_block("C"))
    s.reorder(k, i, j)


def reorder_by_stages(s: Schedule) -> None:
    s["C"].reorder("k", "i", "j")


def kinds_by_blocks(s: tir.Schedule) -> None:
    y, x = s.get_loops(s.get_block("D"))
    s.parallel(y)
    s.vectorize(x)
    s.unroll(s.split(s.get_loops(s.get_block("C"))[2], factors=[None, 2])[1])


def kinds_by_stages(s: Schedule) -> None:
    s["D"].parallel("y")
    s["D"].vectorize("x")
    s["C"].split_into("k", None, 2)
    s["C"].unroll("k.1")


def bind_by_blocks(s: tir.Schedule) -> None:
    for block in s.get_child_blocks(s.get_block("root")):
        i, j, *_ = s.get_loops(block)
        s.bind(i, "blockIdx.x")
        s.bind(j, "threadIdx.x")


def bind_by_stages(s: Schedule) -> None:
    for name, i, j in (("B", "i", "j"), ("C", "i", "j"), ("D", "y", "x")):
        s[name].bind(i, "blockIdx.x")
        s[name].bind(j, "threadIdx.x")


def compute_at_by_blocks(s: tir.Schedule) -> None:
    s.compute_at(s.get_block("B"), s.get_loops(s.get_block("C"))[0])


def compute_at_by_stages(s: Schedule) -> None:
    s["B"].compute_at(s["C"], "i")


def reverse_compute_at_by_blocks(s: tir.Schedule) -> None:
    i0, _ = s.split(s.get_loops(s.get_block("C"))[0], factors=[None, 4])
    s.parallel(i0)
    s.reverse_compute_at(s.get_block("D"), i0)


def reverse_compute_at_by_stages(s: Schedule) -> None:
    outer, _ = s["C"].split_into("i", None, 4)
    s["C"].parallel(outer)
    s["D"].reverse_compute_at(s["C"], outer)


def inline_by_blocks(s: tir.Schedule) -> None:
    s.compute_inline(s.get_block("B"))


def inline_by_stages(s: Schedule) -> None:
    s["B"].compute_inline()


def reverse_inline_by_blocks(s: tir.Schedule) -> None:
    copy = s.cache_read(s.get_block("C"), "B", "local")
    s.parallel(s.get_loops(s.get_block("B"))[0])
    s.reverse_compute_inline(copy)


def reverse_inline_by_stages(s: Schedule) -> None:
    s.cache_read("B", "local", ["C"])
    s["B"].parallel("i")
    s["B.local"].reverse_compute_inline()


def cache_read_by_blocks(s: tir.Schedule) -> None:
    copy = s.cache_read(s.get_block("C"), 1, "local")
    s.compute_at(copy, s.get_loops(s.get_block("C"))[0])


def cache_read_by_stages(s: Schedule) -> None:
    s.cache_read("W", "local", ["C"])
    s["W.local"].compute_at(s["C"], "i")


def cache_write_by_blocks(s: tir.Schedule) -> None:
    block = s.get_block("C")
    i, _, _ = s.get_loops(block)
    i0, _ = s.split(i, factors=[None, 4])
    copy = s.cache_write(block, 0, "local")
    s.reverse_compute_at(copy, i0)


def cache_write_by_stages(s: Schedule) -> None:
    s["C"].split_into("i", None, 4)
    s.cache_write("C", "local", keep_loops=True)
    s["C"].reverse_compute_at(s["C.local"], "i.0")


def rfactor_by_blocks(s: tir.Schedule) -> None:
    _, inner = s.split(s.get_loops(s.get_block("C"))[2], factors=[None, 4])
    partial = s.rfactor(inner, factor_axis=-1)
    s.compute_at(partial, s.get_loops(s.get_block("C"))[1])


def rfactor_by_stages(s: Schedule) -> None:
    s["C"].split_into("k", None, 4)
    s.rfactor("C", "k.1", factor_axis=-1)
    s["C.rf"].reorder("i", "j", "k.0", "k.1")  # as the loops of C were
    s["C.rf"].compute_at(s["C"], "j")


def decompose_by_blocks(s: tir.Schedule) -> None:
    block = s.get_block("C")
    i, j, k = s.get_loops(block)
    s.reorder(i, k, j)
    init = s.decompose_reduction(block, k)
    s.vectorize(s.get_loops(init)[-1])


def decompose_by_stages(s: Schedule) -> None:
    s["C"].reorder("i", "k", "j")
    s["C"].decompose_reduction("k")
    s["C"].vectorize("j.init")


def storage_by_blocks(s: tir.Schedule) -> None:
    block = s.get_block("B")
    s.compute_at(block, s.get_loops(s.get_block("C"))[0])
    s.set_scope(block, 0, "local")
    s.storage_align(block, 0, axis=0, factor=32, offset=1)


def storage_by_stages(s: Schedule) -> None:
    s["B"].compute_at(s["C"], "i")
    s["B"].set_scope("local")
    s["B"].storage_align("i", 32, 1)


def annotate_by_blocks(s: tir.Schedule) -> None:
    s.annotate(s.get_loops(s.get_block("D"))[1], "pragma_streaming_store", 1)


def annotate_by_stages(s: Schedule) -> None:
    s["D"].pragma("x", "streaming_store")


def unit_loop_by_blocks(s: tir.Schedule) -> None:
    y, x = s.get_loops(s.get_block("D"))
    unit = s.add_unit_loop(x)
    s.reorder(unit, y, x)


def unit_loop_by_stages(s: Schedule) -> None:
    s["D"].split("x", nparts=1)
    s["D"].reorder("x.outer", "y", "x.inner")


def followed_by_blocks(s: tir.Schedule) -> None:
    """What is computed at a loop stays there when the loop is split or fused."""
    y, x = s.get_loops(s.get_block("D"))
    s.compute_at(s.get_block("C"), x)
    s.split(s.fuse(y, x), factors=[None, 6])


def followed_by_stages(s: Schedule) -> None:
    s["D"].fuse("y", "x")
    s["D"].split_into("y.x.fused", None, 6)
    s["C"].compute_at(s["D"], "y.x.fused.1")


def pragma_value_by_blocks(s: tir.Schedule) -> None:
    y, x = s.get_loops(s.get_block("D"))
    s.annotate(y, "pragma_loop_partition_hint", 0)
    s.annotate(x, "pragma_auto_unroll_max_step", 16)


def pragma_value_by_stages(s: Schedule) -> None:
    s["D"].pragma("y", "loop_partition_hint", 0)
    s["D"].pragma("x", "auto_unroll_max_step", 16)


def double_buffer_by_blocks(s: tir.Schedule) -> None:
    block = s.get_block("B")
    s.compute_at(block, s.get_loops(s.get_block("C"))[0])
    s.annotate(block, "double_buffer_scope", 0)


def double_buffer_by_stages(s: Schedule) -> None:
    s["B"].compute_at(s["C"], "i")
    s["B"].double_buffer()


def layout_by_blocks(s: tir.Schedule) -> None:
    s.transform_layout(s.get_block("B"), ("write", 0), lambda i, j: [j // 4, i, j % 4])
    s.transform_layout(s.get_block("D"), ("read", 0), lambda i, j: [j, i])


def layout_by_stages(s: Schedule) -> None:
    s["B"].transform_layout(lambda i, j: [j // 4, i, j % 4])
    s["B"].reorder("axis1", "axis0", "axis2")
    s["B"].fuse("axis0", "axis2")
    s["C"].transform_layout(lambda i, j: [j, i])
    s["C"].reorder("axis1", "axis0", "k")


def reindexed_by_blocks(s: tir.Schedule) -> None:
    s.compute_at(s.reindex("D", ("read", 0)), s.get_loops(s.get_block("D"))[0])
    s.reindex(s.get_block("C"), ("write", 0))


def reindexed_by_stages(s: Schedule) -> None:
    copy = s.reindex("D", "C")
    s[copy].compute_at(s["D"], "y")
    s.cache_write("C", "global", keep_loops=True)


def rolling_by_blocks(s: tir.Schedule) -> None:
    block = s.get_block("B")
    s.compute_at(block, s.get_loops(s.get_block("C"))[0])
    s.rolling_buffer(block, 0)


def rolling_by_stages(s: Schedule) -> None:
    s["B"].compute_at(s["C"], "i")
    s["B"].rolling_buffer()


def doubling() -> te.TensorIntrin:
    """d[x] = c[x] * 2 for twelve elements, in loops of its own."""
    c = te.placeholder((12,), name="c")
    d = te.compute((12,), lambda x: c[x] * 2, name="d")

    def fcompute(ins: Any, outs: Any) -> Any:
        ib = create()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 12, name="x") as x:
            result[x] = data[x] * 2
        return ib.get()

    return te.decl_tensor_intrin(d.op, fcompute, name="doubling")


def tensorize_by_blocks(s: tir.Schedule) -> None:
    s.tensorize(s.get_loops(s.get_block("D"))[1], doubling())


def tensorize_by_stages(s: Schedule) -> None:
    s["D"].tensorize("x", "doubling")


def location_by_blocks(s: tir.Schedule) -> None:
    b, c = s.get_block("B"), s.get_block("C")
    s.compute_at(c, s.sample_compute_location(c, decision=0))
    s.compute_at(b, s.sample_compute_location(b, decision=1))
    s.compute_at(b, s.sample_compute_location(b, decision=-1))
    s.compute_at(b, s.sample_compute_location(b, decision=-2))


def location_by_stages(s: Schedule) -> None:
    s["C"].compute_at(s["D"], "y")
    s["B"].compute_at(s["C"], "j")  # C's i runs once where C is computed
    s["B"].compute_root()
    s["B"].compute_inline()


NAMES = [n.removesuffix("_by_blocks") for n in list(globals()) if n.endswith("_by_blocks")]


@pytest.mark.parametrize("name", NAMES)
def test_blocks_and_stages_say_the_same(name: str) -> None:
    args = program()
    sch, s = tir.Schedule(tir.create_prim_func(args), debug_mask="all"), create_schedule(args[-1])
    globals()[f"{name}_by_blocks"](sch)
    globals()[f"{name}_by_stages"](s)
    target = "opencl" if name == "bind" else "llvm"
    assert str(lower(sch.mod, target=target)) == str(lower(s, args, target=target))
    if name != "followed":
        assert sch.trace.to_json() == s.trace.to_json()
    check_against_reference(args, replay(sch.trace, [args[-1]]), target, inputs(), "interpreter")


def test_notes(golden: Golden) -> None:
    """The module of the third seed, split, reordered and bound."""
    a = te.placeholder((8,), dtype="float32", name="A")
    b = te.compute((8,), lambda *i: a(*i) + 1.0, name="B")
    module = tir.IRModule({"main": tir.create_prim_func([a, b])})
    golden(module.script(), "notes_module")
    built = autosched.build(module, target="llvm")
    result = np.zeros(8, "float32")
    built(np.arange(8, dtype="float32"), result)
    assert result.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]

    sch = tir.Schedule(module)
    (i,) = sch.get_loops(sch.get_block("B"))
    i_0, i_1, i_2 = sch.split(i, factors=[2, 2, 2])
    golden(sch.mod.script(), "notes_split")
    sch.reorder(i_0, i_2, i_1)
    golden(sch.mod.script(), "notes_reorder")
    before = sch.mod
    sch.bind(i_0, "blockIdx.x")
    sch.bind(i_2, "threadIdx.x")
    golden(sch.mod.script(), "notes_bind")
    assert "thread_binding" not in before.script()
    assert "i0_0" not in module.script()


def tiled_product() -> tir.Schedule:
    a, b = te.placeholder((32, 32), name="A"), te.placeholder((32, 32), name="B")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((32, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    sch = tir.Schedule(tir.create_prim_func([a, b, c]), debug_mask="all")
    block = sch.get_block("C")
    i, j, k0 = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [None, 4, 2])
    j0, j1, j2 = sch.split(j, [None, 2, 4])
    ko, ki = sch.split(k0, [None, 8])
    sch.reorder(i0, j0, i1, j1, ko, ki, i2, j2)
    copy = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(copy, j1)
    for n in (0, 1):
        staged = sch.cache_read(block, n, "shared")
        sch.compute_at(staged, ko)
        sch.bind(sch.get_loops(staged)[-1], "threadIdx.x")
    sch.bind(sch.fuse(i0, j0), "blockIdx.x")
    sch.bind(sch.fuse(i1, j1), "threadIdx.x")
    sch.decompose_reduction(block, ko)
    sch.unroll(i2)
    return sch


def test_a_tiled_product_for_a_gpu(golden: Golden) -> None:
    """The loops that a consumer takes over are those that the caller holds: they are bound afterwards."""
    sch = tiled_product()
    golden(sch.mod.script())
    function = sch.mod["main"]
    rows = np.random.default_rng(1).integers(-3, 4, (2, 32, 32)).astype("float32")
    check_against_reference(function.args, function.schedule, "opencl", list(rows), "interpreter")
    names = [b.name for b in sch.get_child_blocks(sch.get_block("root"))]
    assert sorted(names) == ["A_shared", "B_shared", "C", "C_init", "C_local"]
    block = sch.get_block("C")
    assert sorted(b.name for b in sch.get_producers(block)) == ["A_shared", "B_shared"]
    assert sch.get_consumers(block) == [sch.get_block("C_local")] == sch.get_output_blocks()
    assert sch.get_loops(block)[0].thread == "blockIdx.x"
    assert sch.get(block) is sch.schedule["C.local"]


def test_copies_are_independent() -> None:
    sch = tir.Schedule(tir.create_prim_func(program()))
    other = sch.copy()
    other.fuse(*other.get_loops(other.get_block("D")))
    assert len(sch.get_loops(sch.get_block("D"))) == 2
    assert not sch.trace
    assert other.trace


def test_sampling_draws_with_the_seed() -> None:
    def tiles(seed: int) -> list[list[int]]:
        sch = tir.Schedule(tir.create_prim_func(program()), seed=seed)
        loops = sch.get_loops(sch.get_block("C"))
        return [sch.sample_perfect_tile(x, n=3, max_innermost_factor=4) for x in loops for _ in range(4)]

    assert tiles(1) == tiles(1)
    assert tiles(1) != tiles(2)
    for n, tile in enumerate(tiles(1)):
        assert np.prod(tile) == (24, 12, 16)[n // 4]
        assert tile[-1] <= 4
    sch = tir.Schedule(tir.create_prim_func(program()), seed=0)
    assert {sch.sample_categorical([1, 2, 4], [0.5, 0.5, 0]) for _ in range(40)} == {1, 2}
    assert sch.sample_categorical([1, 2, 4], decision=2) == 4
    assert sch.sample_perfect_tile(sch.get_loops(sch.get_block("C"))[0], 2, decision=[6, 4]) == [6, 4]


def test_sampling_in_a_template_leaves_knobs() -> None:
    args = program()
    s = create_schedule(args[-1])
    sch = tir.Schedule(s)
    (y, _) = sch.get_loops(sch.get_block("D"))
    sch.split(y, sch.sample_perfect_tile(y, n=3, max_innermost_factor=8))
    if sch.sample_categorical([True, False]):
        sch.compute_inline(sch.get_block("B"))
    assert {k: v.values for k, v in s.knobs.items()} == {
        "D_y_1": (1, 2, 3, 4, 6, 8, 12, 24),
        "D_y_2": (1, 2, 3, 4, 6, 8),
    }
    assert s.choices_seen == {"choice_0": (True, False)}
    structure = lower_structure(s, args, "llvm")
    for knobs in ({"D_y_1": 3, "D_y_2": 4}, {"D_y_1": 24, "D_y_2": 1}):
        check_against_reference(args, s, "llvm", inputs(), "interpreter", knobs)
    with pytest.raises(autosched.errors.LowerError, match=r"tiles of D\.y divide 24"):
        structure.bind({"D_y_1": 6, "D_y_2": 8})
    with pytest.raises(UsageError, match="a template has no module"):
        sch.mod  # noqa: B018


def test_several_functions() -> None:
    a = te.placeholder((4,), name="A")
    one, two = (te.compute((4,), lambda i: a[i] + x, name="B") for x in (1, 2))  # noqa: B023
    module = tir.IRModule({"one": tir.create_prim_func([a, one]), "two": tir.create_prim_func([a, two])})
    sch = tir.Schedule(module)
    sch.parallel(sch.get_loops(sch.get_block("B", "two"))[0])
    assert sch.func_working_on == "two"
    assert sch.mod.script().count("T.parallel") == 1
    result = np.zeros(4, "float32")
    autosched.build(sch.mod, "llvm")["two"](np.zeros(4, "float32"), result)
    assert result.tolist() == [2, 2, 2, 2]
    with pytest.raises(UsageError, match="the module has 2 functions"):
        lower(sch.mod)
    assert "produce B {\n  parallel (i" in str(lower(sch.mod, name="two"))
    with pytest.raises(UsageError, match="no function 'three'"):
        sch.work_on("three")


def case_no_block(s: tir.Schedule) -> None:
    s.get_block("E")


def case_inlined_block(s: tir.Schedule) -> None:
    s.compute_inline(s.get_block("B"))
    s.get_block("B")


def test_loops_that_run_once_are_shown_where_they_are_asked_for() -> None:
    for preserve, expected in ((False, ["y", "j", "k"]), (True, ["y", "i", "j", "k"])):
        sch = tir.Schedule(tir.create_prim_func(program()))
        block = sch.get_block("C")
        sch.compute_at(block, sch.get_loops(sch.get_block("D"))[0], preserve_unit_loops=preserve)
        assert [x.name for x in sch.get_loops(block)] == expected
        assert [x.name for x in sch.copy().get_loops(block)] == expected


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("parted_at", ["i", "j", "k"])
def test_a_parted_reduction_that_is_computed_elsewhere_has_both_blocks(place: int, parted_at: str) -> None:
    args = program()
    sch = tir.Schedule(tir.create_prim_func(args))
    block = sch.get_block("C")
    loops = {x.name: x for x in sch.get_loops(block)}
    sch.decompose_reduction(block, loops[parted_at])
    sch.compute_at(block, sch.get_loops(sch.get_block("D"))[place])
    hidden = {"i"} if place == 0 else {"i", "j"}
    assert [x.name for x in sch.get_loops(block) if x.stage.name == "C"] == [x for x in "ijk" if x not in hidden]
    shown = [x.name.split(".")[0].removesuffix("_init") for x in sch.get_loops(sch.get_block("C_init"))]
    assert not hidden & set(shown)
    check_against_reference(args, sch.schedule, "llvm", inputs(), "interpreter")


def test_loops_on_both_sides_of_one_that_runs_once_are_fused() -> None:
    a = te.placeholder((4, 6, 8), name="A")
    b = te.compute((4, 6, 8), lambda i, j, k: a[i, j, k] + 1, name="B")
    c = te.compute((4, 6, 8), lambda x, y, z: b[x, y, z] * 2, name="C")
    sch = tir.Schedule(tir.create_prim_func([a, c]))
    x, y, _ = sch.get_loops(sch.get_block("C"))
    sch.reorder(y, x)
    sch.compute_at(sch.get_block("B"), y)
    _, i, k = sch.get_loops(sch.get_block("B"))
    sch.fuse(i, k)
    assert [loop.name for loop in sch.get_loops(sch.get_block("B"))] == ["y", "i.k.fused"]
    values = np.arange(192, dtype="float32").reshape(4, 6, 8)
    check_against_reference([a, c], sch.schedule, "llvm", [values], "interpreter")


def case_no_such_buffer(s: tir.Schedule) -> None:
    s.cache_read(s.get_block("C"), 2, "local")


def case_fuse_around_a_producer(s: tir.Schedule) -> None:
    y, x = s.get_loops(s.get_block("D"))
    s.compute_at(s.get_block("C"), y)
    s.fuse(y, x)


def case_loops_of_a_lost_initialisation(s: tir.Schedule) -> None:
    block = s.get_block("C")
    i = s.get_loops(block)[0]
    s.decompose_reduction(block, i)
    s.split(i, factors=[2, None])
    s.get_loops(s.get_block("C_init"))


def case_split_into_too_few(s: tir.Schedule) -> None:
    s.split(s.get_loops(s.get_block("D"))[0], factors=[2, 4])


def case_no_tiling(s: tir.Schedule) -> None:
    s.sample_perfect_tile(s.get_loops(s.get_block("D"))[0], 2, decision=[5, 5])


def case_no_dimension(s: tir.Schedule) -> None:
    s.storage_align(s.get_block("B"), 0, 2, 32, 1)


def case_annotated_block(s: tir.Schedule) -> None:
    s.annotate(s.get_block("B"), "pragma_vectorize_by", 16)


def case_probabilities(s: tir.Schedule) -> None:
    s.sample_categorical([1, 2], [0.5])


ERRORS = [f for n, f in list(globals().items()) if n.startswith("case_")]


def test_messages(golden: Golden) -> None:
    texts = []
    for case in ERRORS:
        with pytest.raises(ScheduleError) as raised:
            case(tir.Schedule(tir.create_prim_func(program())))
        error = raised.value
        assert error.why
        assert error.legal
        assert "test_tir_schedule.py:" in error.asked
        texts.append(f"-- {case.__name__}\n{error.asked.split('  at ')[0]}: {error.why}\n  {error.legal}\n")
    golden("\n".join(texts), "messages")


def test_what_cannot_be_scheduled() -> None:
    args = program()
    lowered = lower(create_schedule(args[-1]), args).mod
    with pytest.raises(UsageError, match="it has no schedule"):
        tir.Schedule(lowered)
    with pytest.raises(UsageError, match="the module is empty"):
        tir.Schedule(tir.IRModule({}))
    with pytest.raises(UsageError, match="no level"):
        tir.Schedule(tir.create_prim_func(args), error_render_level="loud")
    with pytest.raises(UsageError, match="W is an input and not among the arguments"):
        tir.create_prim_func([args[0], args[2]])
    with pytest.raises(UsageError, match="nothing to compute"):
        tir.create_prim_func(args[:2])
    with pytest.raises(UsageError, match="3 is not a tensor"):
        tir.create_prim_func([args[0], 3])


def test_an_intermediate_may_be_an_argument() -> None:
    a, w, d = program()
    c = d.op.input_tensors[0]
    function = tir.create_prim_func([a, w, c, d])
    assert function.schedule.outputs == (d,)
    given = inputs()
    results = [np.zeros((24, 12), "float32") for _ in range(2)]
    autosched.build(function, "llvm")(*given, *results)
    expected = (given[0] + 1) @ given[1]
    assert np.array_equal(results[0], expected)
    assert np.array_equal(results[1], 2 * expected)


def test_attributes() -> None:
    function = tir.create_prim_func(program())
    assert function.params == function.args
    more = function.with_attr("tuned", True).with_attr({"note": "a"})
    assert more.attrs["tuned"] is True
    assert "tuned" not in function.attrs
    assert "tuned" not in more.without_attr("tuned").attrs
    assert '"tuned": T.bool(True), "note": "a"' in more.script()
    assert function.with_attr("global_symbol", "f").name == "f"


def test_places_drawn_at_random_are_legal() -> None:
    seen = set()
    for seed in range(12):
        sch = tir.Schedule(tir.create_prim_func(program()), seed=seed, debug_mask="all")
        for name in ("C", "B", "D"):
            place = sch.sample_compute_location(sch.get_block(name))
            seen.add(place if isinstance(place, str) else "loop")
            sch.compute_at(sch.get_block(name), place)
    assert seen == {"root", "inline", "loop"}
    assert sch.sample_compute_location(sch.get_block("D")) == "root"


def test_places_are_choices_of_a_template() -> None:
    s = create_schedule(program()[-1])
    sch = tir.Schedule(s)
    sch.compute_at(sch.get_block("B"), sch.sample_compute_location(sch.get_block("B")))
    assert s.choices_seen == {"place_0": (-2, -1, 0, 1, 2)}


def test_partial_results_have_the_loops_of_the_whole() -> None:
    args = program()
    sch = tir.Schedule(tir.create_prim_func(args), debug_mask="all")
    i, j, k = sch.get_loops("C")
    i0, i1 = sch.split(i, [None, 2])
    k0, k1 = sch.split(k, [None, 4])
    fused = sch.fuse(i0, i1)
    sch.reorder(k0, fused, k1, j)
    sch.parallel(j)
    partial = sch.rfactor(k1, 0)
    assert [x.name for x in sch.get_loops(partial)] == ["k.0", "i.outer.i.inner.fused", "k.1", "j"]
    assert [x.kind for x in sch.get_loops(partial)] == ["serial", "serial", "serial", "parallel"]
    assert [x.name for x in sch.get_loops("C")] == ["i.0.i.1.fused", "k.1.v", "j"]
    check_against_reference(args, replay(sch.trace, [args[-1]]), "llvm", inputs(), "interpreter")


def test_loops_follow_a_map_of_axes() -> None:
    args = program()
    sch = tir.Schedule(tir.create_prim_func(args), debug_mask="all")
    sch.transform_block_layout(sch.get_block("C"), lambda i, j, k: (j, k, i))
    sch.transform_block_layout(sch.get_block("D"), lambda y, x: (x * 24 + y,))
    assert [x.name for x in sch.get_loops("C")] == ["j", "k", "i"]
    assert [x.name for x in sch.get_loops("D")] == ["x.y.fused"]
    check_against_reference(args, replay(sch.trace, [args[-1]]), "llvm", inputs(), "interpreter")


@pytest.mark.parametrize(
    ("index_map", "why"),
    [
        (lambda i, j, k: (i + j, k), "values of i \\+ j overlap"),
        (lambda i, j, k: (i * 13 + j, k), "leave gaps"),
        (lambda i, j, k: (i, j * 16 + k), "j and k are not all spatial"),
        (lambda i, j, k: (i, k), "j is in none of the new indices"),
        (lambda i, j, k: (i, j, k, i), "i is in several of the new indices"),
        (lambda i, j, k: (i // 2, j, k), "i//2 is no sum of loops"),
        (lambda i, j, k: (23 - i, j, k), "is no sum of loops"),
    ],
)
def test_maps_that_give_no_loops(index_map: Callable[..., object], why: str) -> None:
    sch = tir.Schedule(tir.create_prim_func(program()))
    with pytest.raises(ScheduleError, match=why):
        sch.transform_block_layout(sch.get_block("C"), index_map)


def test_a_block_whose_loops_were_changed_has_no_axes_to_map() -> None:
    sch = tir.Schedule(tir.create_prim_func(program()))
    sch.split(sch.get_loops("C")[0], [None, 4])
    with pytest.raises(ScheduleError, match="loops of C were split"):
        sch.transform_block_layout(sch.get_block("C"), lambda i, j, k: (i, j, k))


def test_annotations_are_kept_and_mean_nothing() -> None:
    sch = tir.Schedule(tir.create_prim_func(program()))
    before = str(lower(sch.mod["main"].schedule, list(sch.mod["main"].args)))
    y, x = sch.get_loops("D")
    sch.annotate(y, "software_pipeline_stage", [0, 1])
    sch.annotate(x, "told", {"by": "nobody", "times": 3})
    sch.annotate("C", "kind", "matmul")
    f, text = sch.mod["main"], sch.mod.script()
    assert str(lower(f.schedule, list(f.args))) == before
    assert 'for y in range(24, annotations={"software_pipeline_stage": [0, 1]}):' in text
    assert "for x in range(12, annotations={\"told\": {'by': 'nobody', 'times': 3}}):" in text
    assert "T.block_attr({\"kind\": 'matmul'})" in text
    assert sch.copy().mod.script() == text
    sch.unannotate("C", "kind")
    sch.unannotate(y, "software_pipeline_stage")
    assert "kind" not in sch.mod.script() and "pipeline" not in sch.mod.script()
    assert "pipeline" in f.script()
    outer, _ = sch.split(y, [None, 4])
    assert sch.get_loops("D")[0] is outer


def test_buffers_count_from_outside() -> None:
    index = te.placeholder((4,), dtype="int32", name="J")
    a = te.placeholder((9,), name="A")
    b = te.compute((4,), lambda i: a[index[i]] + 1, name="B")
    sch = tir.Schedule(tir.create_prim_func([index, a, b]))
    assert "T.reads(A[0:9], J[i_1])" in sch.mod.script()
    copies = [sch.cache_read("B", "A", "global").name, sch.cache_read("B", 1, "global").name]
    assert copies == ["A_global", "J_global"]


def test_what_says_nothing_is_checked() -> None:
    sch = tir.Schedule(tir.create_prim_func(program()))
    before = sch.mod.script()
    sch.reorder_block_iter_var("C", [2, 0, 1])
    sch.set_axis_separator("C", ("write", 0), [1])
    sch.set_axis_separator(sch.get_block("D"), "C", [])
    assert sch.mod.script() == before
    with pytest.raises(ScheduleError, match=r"\[2, 0\] is no order of 3 axes"):
        sch.reorder_block_iter_var("C", [2, 0])
    with pytest.raises(ScheduleError, match=r"\[1, 1\] are no places between 2 dimensions"):
        sch.set_axis_separator("C", ("write", 0), [1, 1])
    with pytest.raises(ScheduleError, match="C has no such buffer"):
        sch.set_axis_separator("C", ("write", 1), [1])


@pytest.mark.parametrize(
    ("mapping", "loops"),
    [
        (lambda i, j: [j // 4, i // 8, j % 4, i % 8], [24, 12]),
        (lambda i, j: [j, i // 2 % 4, i % 2, i // 8], [24, 12]),
        (lambda i, j: [0, j, i], [24, 12]),
        (lambda i, j: [j, i // 7, i % 7], [12, 4, 7]),
        (lambda i, j: [i * 12 + j], [288]),
    ],
)
def test_a_new_layout_keeps_loops(mapping: Any, loops: list[int]) -> None:
    args = program()
    sch = tir.Schedule(tir.create_prim_func(args))
    handles = sch.get_loops("C")
    sch.transform_layout("C", ("write", 0), mapping)
    now = sch.get_loops("C")
    extents = leaf_extents(sch.schedule["C"])
    assert [simplify(extents[x]).value for x in now] == [*loops, 16]
    assert (now[:2] == handles[:2]) == (loops == [24, 12])
    sch.parallel(now[0])
    f = sch.mod["main"]
    found = np.zeros((24, 12), "float32")
    autosched.build(f.schedule, args=list(f.args), target="llvm")(*inputs(), found)
    a, w = inputs()
    np.testing.assert_array_equal(found, (a + 1) @ w * 2)


def test_copies_in_a_layout_of_their_own() -> None:
    sch = tir.Schedule(tir.create_prim_func(program()))
    copy = sch.reindex_cache_read("C", 0, "local", lambda i, j, k: [k // 4, i, k % 4])
    assert [str(x.name) for x in sch.get_loops("C")] == ["i", "j", "k"]
    done = sch.reindex_cache_write("C", 0, "local", lambda i, j, k: [j, i])
    sch.compute_at(copy, sch.get_loops("C")[0])
    sch.reverse_compute_at(done, sch.get_loops("C")[0])
    f = sch.mod["main"]
    assert [s.name for s in f.schedule.stages if s.scope == "local"] == ["B.reindex", "C.local"]
    assert list(map(repr, f.schedule["C.local"].tensor.shape)) == ["12", "24"]
    found = np.zeros((24, 12), "float32")
    autosched.build(f.schedule, args=list(f.args), target="llvm")(*inputs(), found)
    a, w = inputs()
    np.testing.assert_array_equal(found, (a + 1) @ w * 2)
    with pytest.raises(ScheduleError, match="the copy does not depend on k"):
        sch.reindex_cache_write("C", 0, "local", lambda i, j, k: [k, i, j])
    with pytest.raises(ScheduleError, match="the copy does not depend on axis1"):  # of the new layout
        sch.reindex_cache_read("C", 1, "local", lambda i, j, k: [i, j])


def test_producers_are_put_at_loops_of_consumers() -> None:
    sch = tir.Schedule(tir.create_prim_func(program()))
    with pytest.raises(ScheduleError, match="i is an ancestor of block C"):
        sch.compute_at("C", sch.get_loops("C")[0])
    with pytest.raises(ScheduleError, match="D is an output block"):
        sch.compute_at("D", sch.get_loops("C")[0])


def test_arguments_by_name() -> None:
    sch = tir.Schedule(mod=tir.create_prim_func(program()), seed=1)
    block = sch.get_block(name="D", func_name="main")
    _, inner = sch.split(loop=sch.get_loops(block=block)[0], factors=[None, 4])
    again = sch.copy()
    again.unroll(loop=inner)  # a loop of the one that it is a copy of
    assert "T.unroll" in again.mod.script() and "T.unroll" not in sch.mod.script()
