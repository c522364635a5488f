"""Every primitive: what it records, what it does to the loops, and that the trace makes it again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from roundtrip import assert_roundtrip

from autosched import te
from autosched.errors import ScheduleError
from autosched.ir.expr import combine_lanes, variables
from autosched.ir.stmt import Buffer, Stmt
from autosched.ir.visit import post_order
from autosched.lowering import lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.schedule.primitive import PRIMITIVES
from autosched.te import Tensor


def program() -> list[Tensor]:
    """A[n, m] -> B, element by element -> C, its sums over pairs of neighbours -> S, the sums of C's rows."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + b[i, te.max(j - 1, 0)], name="C")
    k = te.reduce_axis((0, m), name="k")
    s = te.compute((n,), lambda i: te.sum(c[i, k], axis=k), name="S")
    return [a, s]


def extremes() -> list[Tensor]:
    """X[n, m] -> the least and the largest of each row, and their sum."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="X")
    k, p = te.reduce_axis((0, m), name="k"), te.reduce_axis((0, m), name="p")
    low = te.compute((n,), lambda i: te.min(x[i, k], axis=k, where=k > i), name="L")
    high = te.compute((n,), lambda j: te.max(x[j, p], axis=p, where=p > j), name="H")
    return [x, low, te.compute((n,), lambda i: low[i] + high[i], name="S")]


def two_sides() -> list[Tensor]:
    """X[n, m] -> A, what is less than the next element, and twice what is more; M, their sum."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="X")
    next_ = lambda i, j: x[i, te.min(j + 1, m - 1)]  # noqa: E731
    less = te.compute((n, m), lambda i, j: te.min(x[i, j], next_(i, j)), name="A")
    twice = te.compute((n, m), lambda i, j: less[i, j] * 2, name="T")
    more = te.compute((n, m), lambda i, j: te.max(x[i, j], next_(i, j)), name="B")
    return [x, less, te.compute((n, m), lambda i, j: twice[i, j] + more[i, j], name="M")]


def padded_program() -> list[Tensor]:
    """A[n, m] -> W, sums of three columns and every other of five rows, zeros outside."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    p, q = te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    edge = te.constant_exterior(a, 0.0)
    w = te.compute((n, m), lambda i, j: te.sum(edge[i + 2 * p - 2, j + q - 1], axis=[p, q]), name="W")
    return [a, w]


def upsampled_program() -> list[Tensor]:
    """A[n] -> U[2 * n], each element spread over five places, two further on than those of the one before."""
    n = te.var("n")
    a, w, k = te.placeholder((n + 2,), name="A"), te.placeholder((5,), name="w"), te.reduce_axis((0, 5), "k")
    body = lambda i: te.sum(a[(i + 4 - k) // 2] * w[k], axis=k, where=te.all((i - k) % 2 == 0, k != i))  # noqa: E731
    return [a, w, te.compute((2 * n,), body, name="U")]


def window_program() -> list[Tensor]:
    """A[n + 2, 2 * m + 3] -> W, sums of three rows and of five columns at every other column, but for a diagonal."""
    n, m = te.var("n"), te.var("m")
    a, p, q = te.placeholder((n + 2, 2 * m + 3), name="A"), te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 5), "q")
    body = lambda i, j: te.sum(a[i + p, 2 * j + q], axis=[p, q], where=2 * j + q != i)  # noqa: E731
    return [a, te.compute((n, m), body, name="W")]


def heated_program() -> list[Tensor]:
    """R[n] -> L, what six steps make of a row whose elements take the mean of two."""
    n = te.var("n")
    row, state = te.placeholder((n,), name="R"), te.placeholder((7, n), name="state")
    first = te.compute((1, n), lambda _, i: row[i], name="first")
    step = te.compute((7, n), lambda t, i: (state[t - 1, i] + state[t - 1, te.max(i - 1, 0)]) * 0.5, name="step")
    times = te.scan(first, step, state, name="all")
    return [row, te.compute((n,), lambda i: times[6, i], name="L")]


def totals_program() -> list[Tensor]:
    """A[n, m] -> T, sums of all elements of a row before each, but for some."""
    n, m = te.var("n"), te.var("m")
    a, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), "k")
    body = lambda i, j: te.sum(a[i, k], axis=k, where=te.all(k < j, a[i, k] > 1))  # noqa: E731
    return [a, te.compute((n, m), body, name="T")]


#: of cases that need another one than `program`
PROGRAMS = {
    "block_time": heated_program,
    "running_reduction": totals_program,
    "separate_reduction": window_program,
    "cache_padding": padded_program,
    "compact_reduction": upsampled_program,
    "reduce_together": extremes,
    "compute_together": two_sides,
    "compute_with": extremes,
}


def set_store_predicate(s: Schedule) -> None:
    """Rows are computed twice, and stored once."""
    _, lane = s["C"].split("i", factor=2)
    s["C"].set_store_predicate(te.any(lane.var == 0, s["C"].op.axis[1] < s.size("m") // 2, lane.var >= 1))


def tensorize(s: Schedule) -> None:
    """The sums of four elements, by an intrinsic that adds up a vector of them."""
    x, k = te.placeholder((4,), name="x"), te.reduce_axis((0, 4), "k")
    y = te.compute((1,), lambda i: te.sum(x[k], axis=k), name="y")

    def fcompute(ins: list[Buffer], outs: list[Buffer]) -> list[Stmt]:
        total = combine_lanes("add", ins[0].vload(0, "float32x4"))
        reset = outs[0].vstore(0, 0.0)
        return [outs[0].vstore(0, total), reset, outs[0].vstore(0, outs[0].vload(0) + total)]

    s["S"].split("k", factor=4, disable_predication=True)
    s["S"].tensorize("k.inner", te.decl_tensor_intrin(y.op, fcompute, name="tests.sum4"))


def a_choice(s: Schedule) -> None:
    if s.choose("wide", [True, False]):
        s["C"].fuse("i", "j")


CASES: dict[str, Callable[[Schedule], object]] = {
    "split_by_factor": lambda s: s["C"].split("j", factor=8),
    "split_in_parts": lambda s: s["C"].split("j", nparts=4),
    "split_shifting_inwards": lambda s: s["C"].split("j", factor=8, tail="shift_inwards"),
    # B is padded, and what there is beyond its end copies its last element.
    "split_rounding_up": lambda s: s["B"].split("j", factor=8, tail="round_up"),
    "split_without_conditions": lambda s: (
        s["S"].split("k", factor=s.define_knob("k", [2, 4]), disable_predication=True),
        s["S"].split("i", factor=8, tail="round_up"),
    ),
    "split_an_output_by_whatever_is_best": lambda s: s["B"].split("i", factor=8, tail="auto"),
    "split_by_a_size": lambda s: s["C"].split("j", factor=s.size("n")),
    "split_by_a_formula": lambda s: (
        rows := s.define_knob("rows", [1, 2, 4]),
        s["C"].split("i", factor=rows * 2 + 1),
        s["C"].split("j", factor=te.min(rows, 3)),
        s["B"].split("i", nparts=te.truncdiv(rows + 1, 2)),
        s["B"].split("j", factor=(rows + 3) // 2),
    ),
    "split_a_reduction": lambda s: s["S"].split("k", factor=4),
    "tile": lambda s: s["C"].tile("i", "j", 4, 8),
    "tile_shifting_inwards": lambda s: s["C"].tile("i", "j", 4, 8, tail="shift_inwards"),
    "fuse": lambda s: s["C"].fuse("i", "j"),
    "fuse_three": lambda s: (s["C"].split("i", factor=2), s["C"].fuse("i.outer", "i.inner", "j")),
    "reorder": lambda s: s["C"].reorder("j", "i"),
    "reorder_some": lambda s: (s["C"].tile("i", "j", 4, 8), s["C"].reorder("j.inner", "i.outer")),
    "reorder_reduction_outside": lambda s: s["S"].reorder("k", "i"),
    "parallel": lambda s: s["C"].parallel("i"),
    "vectorize": lambda s: (s["C"].split("j", factor=8), s["C"].vectorize("j.inner")),
    "vectorize_a_reduction": lambda s: (s["S"].split("k", factor=8), s["S"].vectorize("k.inner")),
    "unroll": lambda s: (s["S"].split("k", factor=4), s["S"].unroll("k.inner")),
    "bind": lambda s: (
        s["C"].split("i", factor=32),
        s["C"].bind("i.outer", "blockIdx.x"),
        s["C"].bind("i.inner", "threadIdx.x"),
    ),
    "bind_virtual_threads": lambda s: (
        s["C"].split("j", nparts=2),
        s["C"].bind("j.outer", te.thread_axis("vthread", name="vx")),
        s["C"].split("j.inner", factor=4),
        s["C"].bind("j.inner.inner", "vthread"),
    ),
    "rolling_buffer": lambda s: s["B"].compute_at(s["C"], "j").rolling_buffer(),
    "specialize": lambda s: (
        s["C"].split("j", factor=8),
        s["C"].vectorize("j.inner"),
        s["C"].specialize(s.size("m") == 8).specialize(te.all(s.size("m") % 8 == 0, s.size("n") >= 2)),
    ),
    "set_store_predicate": set_store_predicate,
    # Blocks of four columns, one after the other; what is computed stays in order.
    "transform_layout": lambda s: (
        s["B"].transform_layout(lambda i, j: [j // 4, te.AXIS_SEPARATOR, i, j % 4]),
        s["B"].reorder("axis1", "axis0"),
    ),
    "transform_layout_by_knobs_and_sizes": lambda s: (
        rows := s.define_knob("rows", [2, 4]),
        s["B"].transform_layout(lambda *i: [i[0] * s.size("m") + i[1]]),
        s["C"].transform_layout(lambda i, j: [i // rows, j * rows + i % rows]),
        s["B"].compute_inline(),
    ),
    "storage_align": lambda s: (s["B"].compute_at(s["C"], "i"), s["B"].storage_align("i", 32, 1)),
    "storage_align_by_a_knob": lambda s: s["B"].storage_align(s["B"].op.axis[1], s.define_knob("bank", [1, 4])),
    "pragma": lambda s: (s["C"].parallel("i"), s["C"].pragma("i", "streaming_store")),
    # B, which reads A inside the loop, asks.
    "prefetch": lambda s: (
        s["C"].prefetch("A", "i", s.define_knob("ahead", [1, 2])),
        s["B"].compute_at(s["C"], "i"),
        s["B"].split("j", factor=4),
    ),
    "prefetch_what_is_stored": lambda s: s["S"].prefetch("C", "k", 4),
    "compute_at": lambda s: s["B"].compute_at(s["C"], "j"),
    "store_at": lambda s: s["B"].compute_at(s["C"], "j").store_at(s["C"], "i"),
    "compute_at_then_split": lambda s: (s["B"].compute_at(s["C"], "i"), s["B"].split("j", factor=4)),
    "compute_inline": lambda s: s["B"].compute_inline(),
    "compute_root": lambda s: (s["B"].compute_inline(), s["B"].compute_root()),
    "set_scope": lambda s: s["B"].compute_at(s["C"], "i").set_scope("local"),
    "cache_write": lambda s: s.cache_write("S", "local"),
    "cache_write_of_a_layout": lambda s: (
        s["B"].split("j", factor=8),
        s["B"].reorder("j.inner", "i"),
        s.cache_write("B", "global"),
    ),
    "cache_read": lambda s: (s.cache_read("B", "local", ["C"]), s["B.local"].compute_at(s["C"], "i")),
    "reindex": lambda s: (s.reindex("S", "C"), s["C.reindex"].compute_at(s["S"], "i")),
    "cache_read_of_an_input": lambda s: s.cache_read("A", "global"),
    "rfactor": lambda s: s.rfactor("S", "k"),
    # The partial sums of a row side by side, so that they are the lanes of a vector.
    "rfactor_of_a_part": lambda s: (
        s["S"].split("k", factor=s.define_knob("lanes", [4, 8])),
        s.rfactor("S", "k.inner", factor_axis=-1),
        s["S.rf"].reorder("k.outer", "k.inner"),
        s["S.rf"].vectorize("k.inner"),
        s["S.rf"].compute_at(s["S"], "i"),
    ),
    "split_into": lambda s: s["C"].split_into("j", None, s.define_knob("lanes", [4, 8]), 2),
    "reverse_compute_at": lambda s: (
        s.cache_read("B", "local", ["C"]),
        s["B"].split("j", factor=8),
        s["B"].parallel("i"),
        s["B.local"].reverse_compute_at(s["B"], "j.outer"),
    ),
    "reverse_compute_inline": lambda s: (
        s.cache_read("B", "local", ["C"]),
        s["B"].tile("i", "j", 2, 4),
        s["B.local"].reverse_compute_inline(),
    ),
    "decompose_reduction": lambda s: (
        s["S"].split("i", factor=4),
        s["S"].reorder("i.outer", "k", "i.inner"),
        s["S"].decompose_reduction("i.outer"),
        s["S"].parallel("i.outer.init"),
        s["S"].unroll("i.inner.init"),
    ),
    "cache_padding": lambda s: s["W"].cache_padding(),
    "compact_reduction": lambda s: s["U"].compact_reduction(),
    # Groups of three elements, added up where their sums are.
    "inline_reduction": lambda s: (
        s["S"].split("k", factor=3),
        s.rfactor("S", "k.outer"),
        s["S.rf"].inline_reduction().compute_inline(),
    ),
    "reduce_together": lambda s: s.reduce_together("L", ["H"]),
    # Two rows at a time, of which one is an output, and the other one read.
    "compute_together": lambda s: (s.compute_together("A", ["B"]), s["A.all"].split("i", factor=2)),
    # Tiles of the row, each of which goes through three steps.
    "block_time": lambda s: (
        s.block_time("all", 3),
        s["step"].split("i", factor=16),
        s["step.1"].compute_at(s["step"], "i.outer"),
        s["step.2"].compute_at(s["step"], "i.outer"),
    ),
    "running_reduction": lambda s: s.running_reduction("T"),
    # And the five columns in pieces: every other, and one that is left.
    "separate_reduction": lambda s: (s.separate_reduction("W", "q"), s.separate_reduction("W", "q", factor=2)),
    # Rows of which both are found, one after the other.
    "compute_with": lambda s: (s["L"].parallel("i"), s["H"].parallel("j"), s["L"].compute_with("H", "j")),
    "tensorize": tensorize,
    "double_buffer": lambda s: (
        s["S"].split("k", factor=4),
        s["C"].compute_at(s["S"], "k.outer"),
        s["C"].double_buffer(),
    ),
    "cache_write_keeping_loops": lambda s: (
        s["S"].split("i", factor=4),
        s["S"].parallel("i.outer"),
        s["C"].compute_at(s["S"], "i.inner"),
        s.cache_write("S", "global", keep_loops=True),
    ),
    "knobs_and_constraints": lambda s: (
        x := s.define_knob("x", [2, 4, 8]),
        y := s.define_knob("y", [1, 3]),
        s["C"].tile("i", "j", x, y),
        s.constrain(x * y <= 12, "tiles fit the cache"),
        s.constrain(x <= s.size("m")),
    ),
    "a_choice": a_choice,
}


@pytest.mark.parametrize("name", CASES)
def test_trace_and_loops(name: str, golden: Callable[..., None]) -> None:
    args = PROGRAMS.get(name, program)()
    s = create_schedule(args)
    CASES[name](s)
    target = "opencl" if name == "bind" else "llvm"
    golden(f"{s.trace.as_python()}\n{lower_structure(s, args, target)}", name)
    assert_roundtrip(s, args, target)


def test_every_primitive_has_a_golden_text() -> None:
    used = set()
    for name, apply in CASES.items():
        s = create_schedule(PROGRAMS.get(name, program)())
        apply(s)
        used.update(i.kind for i in s.trace)
    assert set(PRIMITIVES) <= used | {"offset_bytes"}


def test_offset_bytes(golden: Callable[..., None]) -> None:
    """Its golden text is of a sum of products of bytes, which the program above does not have."""
    a, b = te.placeholder((8, 6), "int8", name="A"), te.placeholder((5, 6), "int8", name="B")
    k = te.reduce_axis((0, 6), "k")
    c = te.compute((8, 5), lambda i, j: te.sum(a[i, k].astype("int32") * b[j, k].astype("int32"), axis=k), name="C")
    s = create_schedule(c)
    turned, first = s.offset_bytes(c, b)
    s[first].parallel("i")
    s[turned].compute_inline()
    golden(f"{s.trace.as_python()}\n{lower_structure(s, [a, b, c], 'llvm')}")
    assert_roundtrip(s, [a, b, c], "llvm")


def test_loops_go_by_handle_axis_or_name() -> None:
    """The three spellings record the same trace."""
    traces = []
    for spelling in range(3):
        args = program()
        s = create_schedule(args)
        c = s["C"]
        i, j = (c.loops, c.op.axis, ("i", "C.j"))[spelling]
        c.reorder(j, i)
        c.split((c.loops[0], j, "j")[spelling], 4)
        s["B"].compute_at((c, c.op, "C")[spelling], (c.loops[0], "j.outer", "C.j.outer")[spelling])
        traces.append(s.trace.to_json())
    assert traces[0] == traces[1] == traces[2]


def test_stages_go_by_tensor_operation_or_name() -> None:
    args = program()
    s = create_schedule(args[1].op)
    assert s[args[1]] is s[args[1].op] is s["S"] is s[s["S"]]


def test_a_list_does_for_several_loops() -> None:
    s = create_schedule(program())
    s["C"].reorder(["j", "i"])
    fused = s["C"].fuse(("j", "i"))
    assert [i.args for i in s.trace] == [("j", "i"), ("j", "i")]
    assert fused.name == "j.i.fused"


def test_new_loops_never_share_a_name() -> None:
    s = create_schedule(program())
    c = s["C"]
    c.split("i", 2)
    fused = c.fuse("i.outer", "i.inner")
    c.split(fused, 4)
    outer, _ = c.split("j", 4)
    c.split(outer, 2)
    names = [loop.name for loop in c.loops]
    assert len(set(names)) == len(names) == 5


def test_stages_of_one_name_are_told_apart() -> None:
    a = te.placeholder((4,), name="T")
    b = te.compute((4,), lambda i: a[i] + 1, name="T")
    c = te.compute((4,), lambda i: b[i] + 1, name="T")
    s = create_schedule(c)
    assert [x.name for x in s.stages] == ["T", "T_1", "T_2"]
    s["T_1"].compute_at(s["T_2"], "i")
    assert_roundtrip(s, [a, c])


def test_a_stage_may_be_called_like_its_axis() -> None:
    """Found by replaying: `y.outer` is a loop of the stage y, and not the loop `outer` of it."""
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda y: a[y] + 1, name="y")
    s = create_schedule(b)
    s[b].split("y", factor=4)
    s[b].parallel("y.outer")
    s[b].vectorize("y.y.inner")
    assert [i.args for i in s.trace] == [("y",), ("y.outer",), ("y.inner",)]
    assert_roundtrip(s, [a, b])


def test_names_cannot_break_out_of_printed_python() -> None:
    name = 'x"]; raise SystemExit; s["'
    a = te.placeholder((4,), name="A")
    b = te.compute((4,), lambda i: a[i] + 1, name=name)
    s = create_schedule(b)
    s[b].split("i", factor=2)
    assert_roundtrip(s, [a, b])


def test_a_failed_call_leaves_no_trace() -> None:
    s = create_schedule(program())
    s["C"].split("i", 4)
    before, loops = s.trace.to_json(), s["C"].describe()
    for call in (lambda: s["C"].split("i", 4), lambda: s["C"].vectorize("x"), lambda: s["S"].parallel("k")):
        with pytest.raises(ScheduleError):
            call()
    assert s.trace.to_json() == before
    assert s["C"].describe() == loops


def test_cache_write_of_a_reduction_moves_the_reduction() -> None:
    s = create_schedule(program())
    cache = s.cache_write("S", "local")
    assert s[cache].describe() == "i.c / k.c"
    assert s["S"].describe() == "i"
    assert [x.name for x in s.stages] == ["A", "B", "C", "S.local", "S"]


def test_cache_read_leaves_other_readers_alone() -> None:
    args = program()
    n, m = args[0].shape
    twice = te.compute((n, m), lambda i, j: args[0][i, j] * 2, name="twice")
    s = create_schedule([args[1], twice])
    cache = s.cache_read(args[0], "local", "twice")
    assert s.reads(s["twice"]) == [s[cache]]
    assert s.reads(s["B"]) == [s["A"]]
    assert s.stages.index(s[cache]) < s.stages.index(s["twice"])


def test_a_copy_has_the_type_that_its_readers_cast_to() -> None:
    a = te.placeholder((8, 4), "float16", name="A")
    k = te.reduce_axis((0, 4), "k")
    out = te.compute((8,), lambda i: te.sum(a[i, k].astype("float32") * 2, axis=k), name="S")
    s = create_schedule(out)
    copy = s.cache_read(a, "global", ["S"], cast=True)
    assert str(copy.dtype) == "float32" and copy.shape == a.shape
    assert s.reads(s["S"]) == [s[copy]] and not any(e.op == "cast" for e in post_order(s["S"].body))
    assert_roundtrip(s, [a, out])


def test_a_cache_s_indices_have_the_loops_alone_that_they_depend_on() -> None:
    w = te.placeholder((2,), name="W")
    s = create_schedule(te.compute((8,), lambda i: w[i % 2], name="B"))
    outer, inner = s["B"].split("i", factor=2)
    s["B"].reorder(inner, outer)
    cache = s[s.cache_write("B", "global")]
    (read,) = (e for e in post_order(cache.body) if e.op == "read")
    assert variables(read.args[0]) == {cache.axis[0].var}


def test_a_schedule_knows_its_stages() -> None:
    a, out = program()
    s = create_schedule(out)
    assert all(x in s for x in ("A", "B", "S", a, out, out.op, s["C"]))
    assert not any(x in s for x in ("D", te.placeholder((1,), name="A"), create_schedule(out)["C"], 3))


@pytest.mark.parametrize("keep_loops", [False, True])
def test_a_reduce_axis_as_it_was_written_names_the_cache_s_loop(keep_loops: bool) -> None:
    a, s_out = program()
    (k,) = s_out.op.reduce_axis
    s = create_schedule(s_out)
    s.rfactor(s_out, k)
    again = s.cache_write(s_out, "local", keep_loops=keep_loops)
    outer, _ = s[again].split(k, factor=4)
    assert outer.stage is s[again] and outer.name == ("k.v.outer" if keep_loops else "k.v.c.outer")
    assert_roundtrip(s, [a, s_out])
    c = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="T")
    s = create_schedule(c)
    cache = s.cache_write(c, "local", keep_loops=keep_loops)
    second = s.cache_write(cache, "local", keep_loops=keep_loops)
    read = s.cache_read(a, "local", [second])
    s[read].compute_at(s[second], k)
    assert s[read].attach.loop in s[second].loops
    assert_roundtrip(s, [a, c])


def test_names_of_loops_do_not_double_with_each_fuse():
    a = te.placeholder((64, 64), name="a")
    b = te.compute((64, 64), lambda i, j: a[i, j] + 1, name="b")
    s = create_schedule(b)
    i, j = s[b].loops
    for step in range(40):
        i, j = s[b].split(s[b].fuse(i, j), factor=5 + step)
    assert max(len(x.name) for x in s[b].loops) < 1000
    assert_roundtrip(s, [a, b])
