"""Calls that no schedule allows, by primitive. Each raises ScheduleError from a line of its own."""

from __future__ import annotations

from collections.abc import Callable

from autosched import te
from autosched.ir.calls import call_extern, call_packed
from autosched.schedule import Schedule, create_schedule


def schedule() -> Schedule:
    """A[n, m] -> B = A + 1 -> C = B * 2 -> S, sums of C's rows; and T = A * 3, another output."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2, name="C")
    k = te.reduce_axis((0, m), name="k")
    s = te.compute((n,), lambda i: te.sum(c[i, k], axis=k), name="S")
    t = te.compute((n, m), lambda i, j: a[i, j] * 3, name="T")
    return create_schedule([s, t])


def tuples() -> Schedule:
    """A[n, m] -> T.v0, T.v1 = argmax of A's rows -> U = T.v1 + 1."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    _, value = te.compute((n,), lambda i: te.argmax(a[i, k], axis=k), name="T")
    return create_schedule(te.compute((n,), lambda i: value[i] + 1, name="U"))


def cache_write_of_one_of_two() -> None:
    s = tuples()
    s.cache_write(s["T"].op.output(1), "local")


def cache_write_of_two_stages() -> None:
    s = tuples()
    s.cache_write([s["T"].tensor, s["U"].tensor], "local")


def cache_read_of_an_output_that_is_not_there() -> None:
    s = tuples()
    s.cache_read("T", "local", ["U"], output=2)


def cache_read_for_a_reader_of_the_other() -> None:
    s = tuples()
    s.cache_read(s["T"].op.output(0), "local", ["U"])


# -- naming stages and loops -------------------------------------------------------------------------


def no_such_stage() -> None:
    s = schedule()
    s["blur"].parallel("i")


def no_such_stage_but_a_near_one() -> None:
    s = schedule()
    s["c"].parallel("i")


def a_tensor_of_another_program() -> None:
    s = schedule()
    stranger = te.placeholder((4,), name="X")
    s[stranger].parallel("i")


def nothing_for_a_stage() -> None:
    s = schedule()
    s[None].parallel("i")  # type: ignore[index]


def no_such_size() -> None:
    s = schedule()
    s["C"].split("i", factor=s.size("height"))


def no_such_loop() -> None:
    s = schedule()
    s["C"].parallel("x")


def no_such_loop_but_a_near_one() -> None:
    s = schedule()
    s["C"].split("i", factor=4)
    s["C"].parallel("i.inne")


def a_loop_of_another_stage() -> None:
    s = schedule()
    s["C"].parallel(s["B"].loops[0])


def an_axis_of_another_stage() -> None:
    s = schedule()
    s["C"].parallel(s["B"].op.axis[0])


def a_loop_that_is_gone() -> None:
    s = schedule()
    i = s["C"].loops[0]
    s["C"].split(i, factor=4)
    s["C"].parallel(i)


def a_number_for_a_loop() -> None:
    s = schedule()
    s["C"].parallel(0)


# -- split, tile, fuse, reorder ------------------------------------------------------------------------


def split_with_factor_and_nparts() -> None:
    s = schedule()
    s["C"].split("i", factor=4, nparts=2)


def split_with_neither() -> None:
    s = schedule()
    s["C"].split("i")


def split_by_zero() -> None:
    s = schedule()
    s["C"].split("i", factor=0)


def split_by_text() -> None:
    s = schedule()
    s["C"].split("i", factor="8")


def split_by_a_fraction() -> None:
    s = schedule()
    s["C"].split("i", nparts=2.5)


def split_by_too_much() -> None:
    s = schedule()
    s["C"].split("i", factor=2**40)


def split_by_an_element() -> None:
    s = schedule()
    s["C"].split("i", factor=s["B"].tensor[0, 0])


def split_by_a_loop_variable() -> None:
    s = schedule()
    s["C"].split("i", factor=s["C"].loops[1].var)


def split_by_another_schedules_knob() -> None:
    s = schedule()
    s["C"].split("i", factor=schedule().define_knob("f", [2]))


def split_a_parallel_loop() -> None:
    s = schedule()
    s["C"].parallel("i")
    s["C"].split("i", factor=4)


def split_a_bound_loop() -> None:
    s = schedule()
    s["C"].bind("i", "blockIdx.x")
    s["C"].split("i", factor=4)


def split_with_an_unknown_tail() -> None:
    s = schedule()
    s["C"].split("i", factor=4, tail="round_off")


def split_with_a_tail_and_without_conditions() -> None:
    s = schedule()
    s["C"].split("i", factor=4, tail="shift_inwards", disable_predication=True)


def ten_elements() -> Schedule:
    """D[10] = E[10] * 2, and their sum Z."""
    e = te.placeholder((10,), name="E")
    d = te.compute((10,), lambda i: e[i] * 2, name="D")
    k = te.reduce_axis((0, 10), name="k")
    return create_schedule([d, te.compute((), lambda: te.sum(d[k], axis=k), name="Z")])


def split_an_output_that_does_not_divide_rounding_up() -> None:
    s = ten_elements()
    s["D"].split("i", factor=4, tail="round_up")


def split_a_reduction_that_does_not_divide_rounding_up() -> None:
    s = ten_elements()
    s["Z"].split("k", nparts=3, tail="round_up")


def split_with_a_promise_that_is_not_kept() -> None:
    s = ten_elements()
    s["D"].split("i", factor=3, disable_predication=True)


def split_a_reduction_shifting_inwards() -> None:
    s = schedule()
    s["S"].split("k", factor=4, tail="shift_inwards")


def split_a_reduction_under_a_mask() -> None:
    s = schedule()
    s["S"].split("k", factor=4, tail="predicate")


def split_a_part_shifting_inwards() -> None:
    s = schedule()
    outer, _ = s["C"].split("i", factor=4)
    s["C"].split(outer, factor=2, tail="shift_inwards")


def split_an_input() -> None:
    s = schedule()
    s["A"].split("i", factor=4)


def tile_one_loop() -> None:
    s = schedule()
    s["C"].tile("i", "i", 4, 4)


def tile_by_nothing() -> None:
    s = schedule()
    s["C"].tile("i", "j", 4, -1)


def fuse_nothing() -> None:
    s = schedule()
    s["C"].fuse()


def fuse_in_the_wrong_order() -> None:
    s = schedule()
    s["C"].fuse("j", "i")


def fuse_loops_apart() -> None:
    s = schedule()
    s["C"].split("j", factor=4)
    s["C"].fuse("i", "j.inner")


def fuse_spatial_and_reduce() -> None:
    s = schedule()
    s["S"].fuse("i", "k")


def fuse_a_vectorized_loop() -> None:
    s = schedule()
    s["C"].vectorize("j")
    s["C"].fuse("i", "j")


def reorder_with_a_loop_given_twice() -> None:
    s = schedule()
    s["C"].reorder("i", "j", "i")


# -- pragmas with values -------------------------------------------------------------------------------


def pragma_that_belongs_to_other_threads() -> None:
    s = schedule()
    s["C"].pragma("i", "parallel_launch_point")


def pragma_of_strides_for_threads() -> None:
    s = schedule()
    s["C"].pragma("i", "parallel_stride_pattern")


def pragma_with_code() -> None:
    s = schedule()
    s["C"].pragma("i", "import_c", "int f(void);")


def pragma_without_its_value() -> None:
    s = schedule()
    s["C"].pragma("i", "auto_unroll_max_step")


def pragma_with_a_value_that_is_none_of_its() -> None:
    s = schedule()
    s["C"].pragma("i", "loop_partition_hint", 2)


def pragma_with_a_value_that_it_does_not_take() -> None:
    s = schedule()
    s["C"].pragma("i", "streaming_store", 7)


# -- specialize ----------------------------------------------------------------------------------------


def specialize_by_a_loop() -> None:
    s = schedule()
    s["C"].specialize(s["C"].loops[0].var < 4)


def specialize_by_nothing() -> None:
    s = schedule()
    s["C"].specialize(te.const(1) == 1)


def specialize_by_a_size() -> None:
    s = schedule()
    s["C"].specialize(s.size("n") * 2)


def specialize_an_input() -> None:
    s = schedule()
    s["A"].specialize(s.size("n") == 2)


# -- rolling_buffer, set_store_predicate ---------------------------------------------------------------


def roll_an_output() -> None:
    s = schedule()
    s["T"].rolling_buffer()


def roll_an_input() -> None:
    s = schedule()
    s["A"].rolling_buffer()


def store_by_an_element() -> None:
    s = schedule()
    s["C"].set_store_predicate(s["B"].tensor[0, 0] < 1)


def store_by_a_loop_of_another_stage() -> None:
    s = schedule()
    s["C"].set_store_predicate(s["B"].loops[0].var < 1)


def store_by_a_number() -> None:
    s = schedule()
    s["C"].set_store_predicate(s["C"].loops[0].var + 1)


def store_by_no_condition() -> None:
    s = schedule()
    s["C"].set_store_predicate(["near", ["loop", "i"], 1])


# -- transform_layout ------------------------------------------------------------------------------------


def transform_an_output() -> None:
    s = schedule()
    s["T"].transform_layout(lambda i, j: [j, i])


def transform_an_input() -> None:
    s = schedule()
    s["A"].transform_layout(lambda i, j: [j, i])


def transform_after_a_split() -> None:
    s = schedule()
    s["B"].split("i", factor=4)
    s["B"].transform_layout(lambda i, j: [j, i])


def transform_with_an_index_too_few() -> None:
    s = schedule()
    s["B"].transform_layout(lambda i: [i])


def transform_into_nothing() -> None:
    s = schedule()
    s["B"].transform_layout(lambda i, j: None)


def transform_and_lose_an_index() -> None:
    s = schedule()
    s["B"].transform_layout(lambda i, j: [i, j // 4])


def transform_with_other_factors() -> None:
    s = schedule()
    s["B"].transform_layout(lambda i, j: [i, j // 4, j % 3])


def transform_two_elements_into_one() -> None:
    s = schedule()
    s["B"].transform_layout(lambda i, j: [i * 4 + j])


def transform_by_a_product() -> None:
    s = schedule()
    s["B"].transform_layout(lambda i, j: [i * j, j])


def transform_with_an_offset() -> None:
    s = schedule()
    s["B"].transform_layout(lambda i, j: [i + 1, j])


def transform_by_what_is_not_known() -> None:
    s = schedule()
    w = te.var("w")
    s["B"].transform_layout(lambda i, j: [i // w, j, i % w])


# -- loop kinds ----------------------------------------------------------------------------------------


def parallel_over_a_reduction() -> None:
    s = schedule()
    s["S"].parallel("k")


def parallel_over_an_input() -> None:
    s = schedule()
    s["A"].parallel("i")


def vectorize_a_loop_with_a_producer_in_it() -> None:
    s = schedule()
    s["B"].compute_at(s["C"], "j")
    s["C"].vectorize("j")


def unroll_an_input() -> None:
    s = schedule()
    s["A"].unroll("i")


def bind_to_no_axis() -> None:
    s = schedule()
    s["C"].bind("i", "threadIdx.w")


def bind_a_reduction() -> None:
    s = schedule()
    s["S"].bind("k", "blockIdx.x")


def bind_two_loops_to_one_axis() -> None:
    s = schedule()
    s["C"].bind("i", "threadIdx.x")
    s["C"].bind("j", "threadIdx.x")


def pragma_that_is_unknown() -> None:
    s = schedule()
    s["C"].pragma("i", "tensor_cores")


def pragma_for_a_reduction() -> None:
    s = schedule()
    s["S"].pragma("i", "streaming_store")


def split_a_loop_with_a_pragma() -> None:
    s = schedule()
    s["C"].pragma("i", "streaming_store")
    s["C"].split("i", 4)


# -- where a stage is computed ---------------------------------------------------------------------------


def compute_an_output_at_a_loop() -> None:
    s = schedule()
    s["T"].compute_at(s["S"], "i")


def compute_at_a_stage_that_comes_before() -> None:
    s = schedule()
    s["C"].compute_at(s["B"], "i")


def compute_at_itself() -> None:
    s = schedule()
    s["C"].compute_at(s["C"], "i")


def compute_at_a_stage_that_does_not_use_it() -> None:
    s = schedule()
    s["B"].compute_at(s["T"], "i")


def compute_at_an_input() -> None:
    s = schedule()
    s["B"].compute_at(s["A"], "i")


def compute_at_a_vectorized_loop() -> None:
    s = schedule()
    s["C"].split("j", factor=8)
    s["C"].vectorize("j.inner")
    s["B"].compute_at(s["C"], "j.inner")


def compute_an_input_at_a_loop() -> None:
    s = schedule()
    s["A"].compute_at(s["B"], "i")


def store_an_output_at_a_loop() -> None:
    s = schedule()
    s["T"].store_at(s["S"], "i")


def store_at_a_stage_that_does_not_use_it() -> None:
    s = schedule()
    s["B"].store_at(s["T"], "i")


def store_at_no_such_loop() -> None:
    s = schedule()
    s["B"].store_at(s["C"], "y")


def inline_an_output() -> None:
    s = schedule()
    s["T"].compute_inline()


def inline_a_reduction() -> None:
    s = schedule()
    s.cache_write("S", "local")
    s["S.local"].compute_inline()


def inline_an_input() -> None:
    s = schedule()
    s["A"].compute_inline()


def compute_an_input_at_the_root() -> None:
    s = schedule()
    s["A"].compute_root()


# -- storage -----------------------------------------------------------------------------------------------


def no_such_scope() -> None:
    s = schedule()
    s["B"].set_scope("register")


def scope_of_an_input() -> None:
    s = schedule()
    s["A"].set_scope("local")


def scope_of_an_output() -> None:
    s = schedule()
    s["S"].set_scope("local")


def cache_write_of_an_input() -> None:
    s = schedule()
    s.cache_write("A", "local")


def cache_write_to_no_scope() -> None:
    s = schedule()
    s.cache_write("C", "registers")


def cache_write_after_splitting_the_reduction() -> None:
    s = schedule()
    s["S"].split("k", factor=4)
    s.cache_write("S", "local")


def cache_write_after_shifting_inwards() -> None:
    s = schedule()
    s["C"].split("j", factor=4, tail="shift_inwards")
    s.cache_write("C", "local")


def cache_write_after_marking_a_loop() -> None:
    s = schedule()
    s["C"].parallel("i")
    s.cache_write("C", "local")


def cache_write_after_computing_something_there() -> None:
    s = schedule()
    s["B"].compute_at(s["C"], "i")
    s.cache_write("C", "local")


def cache_read_for_a_stage_that_does_not_read() -> None:
    s = schedule()
    s.cache_read("A", "local", ["C"])


def cache_read_that_nothing_reads() -> None:
    s = schedule()
    s.cache_read("T", "local")


def cache_read_twice_for_one_reader() -> None:
    s = schedule()
    s.cache_read("A", "local", ["B"])
    s.cache_read("A", "local", ["B"])


def cache_read_to_no_scope() -> None:
    s = schedule()
    s.cache_read("A", "texture", ["B"])


def rfactor_of_a_spatial_loop() -> None:
    s = schedule()
    s.rfactor("S", "i")


def rfactor_of_no_reduction() -> None:
    s = schedule()
    s.rfactor("C", "j")


def rfactor_of_a_marked_loop() -> None:
    s = schedule()
    outer, inner = s["S"].split("k", 4)
    s["S"].unroll(inner)
    s.rfactor("S", outer)


def rfactor_after_computing_something_there() -> None:
    s = schedule()
    s["C"].compute_at(s["S"], "k")
    s.rfactor("S", "k")


def rfactor_to_no_place() -> None:
    s = schedule()
    s.rfactor("S", "k", factor_axis=2)


def rfactor_to_an_unknown_place() -> None:
    s = schedule()
    s.rfactor("S", "k", factor_axis=s.define_knob("at", [1]))


# -- scans -----------------------------------------------------------------------------------------------


def scanned() -> Schedule:
    """X[n, m] -> S, along whose rows a step looks aside (through M), and T, along whose it does not."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="X")
    states = [te.placeholder((n, m), name=name) for name in ("s", "t")]
    inits = [te.compute((1, m), lambda _, i: x[0, i], name=name) for name in ("S0", "T0")]
    middle = te.compute((n, m), lambda t, i: states[0][t - 1, m - 1 - i] * 2, name="M")
    step = te.compute((n, m), lambda t, i: middle[t, i] + x[t, i], name="S1")
    aside = te.scan(inits[0], step, states[0], name="S")
    straight = te.compute((n, m), lambda t, i: states[1][t - 1, i] + aside[t, i], name="T1")
    total = te.scan(inits[1], straight, states[1], name="T")
    return create_schedule(te.compute((m, n), lambda i, j: total[j, i], name="Z"))


def split_of_a_scans_time() -> None:
    s = scanned()
    s["T"].split("T.idx", 4)


def split_of_a_steps_time() -> None:
    s = scanned()
    s["T1"].split("t", 4)


def split_of_the_time_of_what_a_step_reads() -> None:
    s = scanned()
    s["M"].split("t", 4)


def fuse_of_a_scans_time() -> None:
    s = scanned()
    s["T"].fuse("T.idx", "T.i1")


def parallel_of_a_scans_time() -> None:
    s = scanned()
    s["T"].parallel("T.idx")


def bind_of_a_scans_time() -> None:
    s = scanned()
    s["T"].bind("T.idx", "blockIdx.x")


def vectorize_of_a_scan() -> None:
    s = scanned()
    s["T"].vectorize("T.i1")


def shift_inwards_of_a_scan() -> None:
    s = scanned()
    s["T"].split("T.i1", 4, tail="shift_inwards")


def compute_at_of_an_update() -> None:
    s = scanned()
    s["T1"].compute_at(s["Z"], "i")


def compute_at_of_an_init() -> None:
    s = scanned()
    s["T0"].compute_at(s["Z"], "i")


def compute_at_outside_the_step() -> None:
    s = scanned()
    s["M"].compute_at(s["Z"], "i")


def store_at_outside_the_step() -> None:
    s = scanned()
    s["M"].compute_at(s["S1"], "i")
    s["M"].store_at(s["S"], "S.i1")


def compute_inline_of_an_update() -> None:
    s = scanned()
    s["T1"].compute_inline()


def compute_inline_of_a_scan() -> None:
    s = scanned()
    s["T"].compute_inline()


def set_scope_of_an_update() -> None:
    s = scanned()
    s["T1"].set_scope("local")


def cache_write_of_a_scan() -> None:
    s = scanned()
    s.cache_write("T", "local")


def cache_read_of_an_update_by_its_scan() -> None:
    s = scanned()
    s.cache_read("T1", "local", ["T"])


def prefetch_what_is_not_read() -> None:
    s = schedule()
    s["T"].prefetch("B", "i", 1)


def prefetch_nothing_ahead() -> None:
    s = schedule()
    s["C"].prefetch("B", "i", 0)


def prefetch_for_an_input() -> None:
    s = schedule()
    s["A"].prefetch("B", "i", 1)


def storage_align_of_an_output() -> None:
    s = schedule()
    s["S"].storage_align("i", 8)


def storage_align_of_an_input() -> None:
    s = schedule()
    s["A"].storage_align("i", 8)


def storage_align_along_no_axis() -> None:
    s = schedule()
    s["C"].split("j", factor=8)
    s["C"].storage_align("j.outer", 8)


def storage_align_along_a_reduction() -> None:
    s = schedule()
    total = s.cache_write("S", "local")
    s[total].storage_align("k.c", 8)


def storage_align_to_nothing() -> None:
    s = schedule()
    s["C"].storage_align("i", 0)


def storage_align_with_a_negative_offset() -> None:
    s = schedule()
    s["C"].storage_align("i", 8, -1)


def storage_align_of_an_update() -> None:
    s = scanned()
    s["S1"].storage_align("t", 8)


def storage_align_of_a_scan() -> None:
    s = scanned()
    s["S"].storage_align("S.i1", 8)


# -- scatters --------------------------------------------------------------------------------------------


def counted() -> Schedule:
    """X[n, m] -> H, how often each value from 0 to 6 is in a row."""
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), "uint8", name="X")
    y = te.compute((n, m), lambda i, j: x[i, j] % 7, name="Y")
    k = te.reduce_axis((0, m), "k")
    return create_schedule(te.scatter_reduce((n, 7), lambda i: (y[i, k], te.const(1, "int32")), k, name="H"))


def vectorize_of_points() -> None:
    s = counted()
    s["H"].vectorize("k")


def parallel_of_points() -> None:
    s = counted()
    s["H"].parallel("k")


def bind_of_places() -> None:
    s = counted()
    s["H"].bind("place0", "threadIdx.x")


def fuse_of_places_and_rows() -> None:
    s = counted()
    s["H"].fuse("i", "place0")


def compute_at_places() -> None:
    s = counted()
    s["Y"].compute_at(s["H"], "place0")


def cache_write_of_a_scatter() -> None:
    s = counted()
    s.cache_write("H", "local")


def rfactor_behind_the_places() -> None:
    s = counted()
    s.rfactor("H", "k", factor_axis=2)


# -- stages that are opaque, scattered or scanned ----------------------------------------------------


def opaque() -> Schedule:
    """B = A + 1 -> E = a te.extern of B -> F = E * 2."""
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    e = te.extern((8,), [b], lambda ins, outs: call_packed("f", ins[0], outs[0]), name="E")
    return create_schedule(te.compute((8,), lambda i: e[i] * 2, name="F"))


def split_an_extern() -> None:
    s = opaque()
    s["E"].split("i", factor=4)


def inline_into_an_extern() -> None:
    s = opaque()
    s["B"].compute_inline()


def transform_what_an_extern_reads() -> None:
    s = opaque()
    s["B"].transform_layout(lambda i: [i // 4, i % 4])


def transform_a_scan() -> None:
    s = scanned()
    s["S"].transform_layout(lambda t, i: [i, t])


def specialize_a_scan() -> None:
    s = scanned()
    s["S"].specialize(s.size("n") == 2)


def store_some_of_a_scan() -> None:
    s = scanned()
    s["S"].set_store_predicate(s["S"].loops[0].var < 1)


def store_by_a_tuple_of_loops() -> None:
    s = schedule()
    s["C"].set_store_predicate(["loop", "i", "j", "k"])


def roll_a_step_of_a_scan() -> None:
    s = scanned()
    s["M"].rolling_buffer()


def env_threads_of_no_scan() -> None:
    s = schedule()
    s["C"].env_threads([te.thread_axis("threadIdx.x")])


def env_threads_that_do_not_exist() -> None:
    s = scanned()
    s["S"].env_threads(["threadIdx.q"])


def decompose_a_scatter() -> None:
    s = counted()
    s["H"].decompose_reduction("i")


def reverse_compute_at_a_scatter() -> None:
    n = te.var("n")
    x = te.placeholder((n,), "uint8", name="X")
    k = te.reduce_axis((0, n), "k")
    h = te.scatter_reduce((7,), lambda: (x[k] % 7, te.const(1, "int32")), k, name="H")
    s = create_schedule(te.compute((7,), lambda i: h[i] + 1, name="C"))
    s["C"].reverse_compute_at(s["H"], "place0")


def reverse_compute_at_a_decomposed_reduction() -> None:
    s = chain(1)
    s["B"].decompose_reduction("i")
    s["C"].reverse_compute_at(s["B"], "i")


def double_buffer_an_output() -> None:
    s = schedule()
    s["T"].double_buffer()


def double_buffer_an_input() -> None:
    s = schedule()
    s["A"].double_buffer()


# -- tensorize -------------------------------------------------------------------------------------------


def addition() -> te.TensorIntrin:
    """c[i] = a[i] + 1, eight at a time, by a C function."""
    a = te.placeholder((8,), name="a")
    c = te.compute((8,), lambda i: a[i] + 1, name="c")
    return te.decl_tensor_intrin(
        c.op, lambda ins, outs: call_extern("void", "add1", outs[0].access_ptr("w"), ins[0].access_ptr("r"))
    )


def tensorize_by_an_unknown_name() -> None:
    s = schedule()
    s["B"].tensorize("j", "gemm_8x8")


def tensorize_a_computation_of_two() -> None:
    s = tuples()
    s["T"].tensorize("k", addition())


def tensorize_around_a_marked_loop() -> None:
    s = schedule()
    s["B"].vectorize("j")
    s["B"].tensorize("i", addition())


def tensorize_an_input() -> None:
    s = schedule()
    s["A"].tensorize("i", addition())


def tensorized() -> Schedule:
    """B's columns eight at a time."""
    s = schedule()
    _, inner = s["B"].split("j", factor=8)
    s["B"].tensorize(inner, addition())
    return s


def split_a_tensorized_loop() -> None:
    tensorized()["B"].split("j.inner", factor=2)


def vectorize_a_tensorized_loop() -> None:
    tensorized()["B"].vectorize("j.inner")


def unroll_a_tensorized_loop() -> None:
    tensorized()["B"].unroll("j.inner")


# -- groups ----------------------------------------------------------------------------------------------


def a_group_of_nothing() -> None:
    s = schedule()
    s.create_group(s["B"].tensor, s["B"].tensor)


def a_group_of_a_stage_that_is_not_there() -> None:
    s = schedule()
    s.create_group("X", "A")


# -- what a template adds ------------------------------------------------------------------------------------


def a_knob_without_values() -> None:
    s = schedule()
    s.define_knob("f", [])


def a_knob_with_other_values() -> None:
    s = schedule()
    s.define_knob("f", [1, 2])
    s.define_knob("f", [1, 3])


def a_knob_with_a_value_twice() -> None:
    s = schedule()
    s.define_knob("f", [1, 2, 1])


def a_knob_called_like_the_schedule() -> None:
    s = schedule()
    s.define_knob("s", [1, 2])


def a_knob_beyond_32_bits() -> None:
    s = schedule()
    s.define_knob("f", [1, 2**31])


def a_split_by_no_policy() -> None:
    s = schedule()
    s.define_split("tile", 512, policy="powers")


def a_split_of_a_size_into_factors() -> None:
    s = schedule()
    s.define_split("tile", s["C"].op.axis[0])


def a_split_whose_filter_rejects_everything() -> None:
    s = schedule()
    s.define_split("tile", 512, num_outputs=3, filter=lambda x: x.size[-1] > 512)


def a_split_whose_filter_raises() -> None:
    s = schedule()
    s.define_split("tile", 512, filter=lambda x: x.size[2] > 4)


def a_split_into_no_number_of_loops() -> None:
    s = schedule()
    s.define_split("tile", 512, num_outputs=0)


def a_split_defined_in_two_ways() -> None:
    s = schedule()
    s.define_split("tile", 512)
    s.define_split("tile", 256)


def an_order_of_one_loop_twice() -> None:
    s = schedule()
    s.define_reorder("order", ["i", "i"], "all")


def an_order_of_an_interval_that_is_not_there() -> None:
    s = schedule()
    s.define_reorder("order", ["i", "j"], "interval_all", interval=(1, 3))


def marks_by_no_policy() -> None:
    s = schedule()
    s.define_annotate("marks", ["i", "j"], "vectorise")


def rows_of_values_that_a_knob_has_not() -> None:
    s = schedule()
    s.among([s.define_knob("f", [1, 2]), s.define_knob("g", [1, 2])], [(1, 2), (2, 3)])


def rows_of_an_unknown_knob() -> None:
    s = schedule()
    s.among(["f"], [(1,)])


def a_filter_of_something_unknown() -> None:
    s = schedule()
    s.define_split("tile", 512)
    s.multi_filter(["tile", "tail"], lambda x, y: True)


def a_choice_of_nothing() -> None:
    s = schedule()
    s.choose("f", [])


def a_choice_of_objects() -> None:
    s = schedule()
    s.choose("f", [s["C"], s["B"]])


def a_choice_with_other_options() -> None:
    s = schedule()
    s.choose("f", [1, 2])
    s.choose("f", [1, 3])


def a_constraint_that_is_none() -> None:
    s = schedule()
    s.constrain(s.define_knob("f", [1, 2]) + 1)


# -- several ways at once, and the other way round ---------------------------------------------------


def chain(*readers: int) -> Schedule:
    """B[i] = sums of A's rows, then C = B + 1 for each of the readers: C, C_1 ..."""
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B")
    return create_schedule([te.compute((n,), lambda i: b[i] + x, name="C") for x in readers])  # noqa: B023


def split_into_one() -> None:
    schedule()["C"].split_into("i", 4)


def split_into_two_open_parts() -> None:
    schedule()["C"].split_into("i", None, 4, None)


def split_into_too_few() -> None:
    a = te.placeholder((9,), name="A")
    b = te.compute((9,), lambda i: a[i] + 1, name="B")
    create_schedule(b)["B"].split_into("i", 2, 4)


def split_into_a_parallel_loop() -> None:
    s = schedule()
    s["C"].parallel("i")
    s["C"].split_into("i", None, 4)


def reverse_compute_at_inside_a_reduction() -> None:
    s = chain(1)
    s["C"].reverse_compute_at(s["B"], "k")


def reverse_compute_at_a_stage_with_two_readers() -> None:
    s = chain(1, 2)
    s["C"].reverse_compute_at(s["B"], "i")


def reverse_compute_at_of_a_stencil() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n - 1,), lambda i: b[i] + b[i + 1], name="C")
    s = create_schedule(c)
    s[c].reverse_compute_at(s[b], "i")


def reverse_compute_at_what_is_not_read() -> None:
    s = schedule()
    s["T"].reverse_compute_at(s["B"], "i")


def reverse_compute_at_after_marking_a_loop() -> None:
    s = schedule()
    s["C"].parallel("i")
    s["C"].reverse_compute_at(s["B"], "i")


def reverse_compute_at_a_vectorized_loop() -> None:
    s = schedule()
    s["B"].vectorize("i")
    s["C"].reverse_compute_at(s["B"], "i")


def reverse_compute_at_an_output() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] + 1, name="C")
    s = create_schedule([b, c])
    s[c].reverse_compute_at(s[b], "i")


def reverse_compute_at_with_something_computed_there() -> None:
    s = schedule()
    s["B"].compute_at(s["C"], "i")
    s["C"].reverse_compute_at(s["B"], "i")


def reverse_compute_inline_of_a_reader_of_inputs() -> None:
    schedule()["B"].reverse_compute_inline()


def reverse_compute_inline_into_a_reduction() -> None:
    chain(1)["C"].reverse_compute_inline()


def decompose_no_reduction() -> None:
    schedule()["C"].decompose_reduction("i")


def decompose_twice() -> None:
    s = schedule()
    s["S"].decompose_reduction("k")
    s["S"].decompose_reduction("i")


def decompose_inside_a_reduce_loop() -> None:
    s = schedule()
    _, inner = s["S"].split("k", factor=4)
    s["S"].decompose_reduction(inner)


def decompose_outside_what_it_begins_with() -> None:
    n = te.var("n")
    a = te.placeholder((n, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((n,), lambda i: te.sum(a[i, k], axis=k, init=a[i, 0]), name="B")
    create_schedule(b)["B"].decompose_reduction("i")


def split_a_loop_of_initial_values() -> None:
    s = schedule()
    s["S"].reorder("k", "i")
    (init,) = s["S"].decompose_reduction("k")
    s["S"].split(init, factor=4)


def rfactor_after_decomposing() -> None:
    s = schedule()
    s["S"].decompose_reduction("i")
    s.rfactor("S", "k")


def cache_write_after_decomposing() -> None:
    s = schedule()
    s["S"].decompose_reduction("i")
    s.cache_write("S", "local")


CASES: dict[str, list[Callable[[], None]]] = {
    "names": [
        no_such_stage, no_such_stage_but_a_near_one, a_tensor_of_another_program, no_such_size, nothing_for_a_stage, no_such_loop,
        no_such_loop_but_a_near_one, a_loop_of_another_stage, an_axis_of_another_stage, a_loop_that_is_gone,
        a_number_for_a_loop, split_an_extern,
    ],
    "split": [
        split_with_factor_and_nparts, split_with_neither, split_by_zero, split_by_text, split_by_a_fraction,
        split_by_too_much, split_by_an_element, split_by_a_loop_variable, split_by_another_schedules_knob,
        split_a_parallel_loop, split_a_bound_loop, split_with_an_unknown_tail, split_with_a_tail_and_without_conditions,
        split_an_output_that_does_not_divide_rounding_up, split_a_reduction_that_does_not_divide_rounding_up,
        split_with_a_promise_that_is_not_kept, split_a_reduction_shifting_inwards, split_a_reduction_under_a_mask,
        split_a_part_shifting_inwards, split_an_input,
    ],
    "tile": [tile_one_loop, tile_by_nothing],
    "split_into": [split_into_one, split_into_two_open_parts, split_into_too_few, split_into_a_parallel_loop],
    "reverse_compute_at": [
        reverse_compute_at_inside_a_reduction, reverse_compute_at_a_stage_with_two_readers,
        reverse_compute_at_of_a_stencil, reverse_compute_at_what_is_not_read, reverse_compute_at_after_marking_a_loop,
        reverse_compute_at_a_vectorized_loop, reverse_compute_at_an_output,
        reverse_compute_at_with_something_computed_there, reverse_compute_at_a_scatter, reverse_compute_at_a_decomposed_reduction,
    ],
    "reverse_compute_inline": [
        reverse_compute_inline_of_a_reader_of_inputs, reverse_compute_inline_into_a_reduction,
    ],
    "decompose_reduction": [
        decompose_no_reduction, decompose_twice, decompose_inside_a_reduce_loop, decompose_outside_what_it_begins_with,
        split_a_loop_of_initial_values,
        rfactor_after_decomposing, cache_write_after_decomposing, decompose_a_scatter,
    ],
    "tuples": [
        cache_write_of_one_of_two, cache_write_of_two_stages, cache_read_of_an_output_that_is_not_there,
        cache_read_for_a_reader_of_the_other,
    ],
    "specialize": [specialize_by_a_loop, specialize_by_nothing, specialize_by_a_size, specialize_an_input, specialize_a_scan,
    ],
    "rolling_buffer": [roll_an_output, roll_an_input, roll_a_step_of_a_scan,
    ],
    "set_store_predicate": [
        store_by_an_element, store_by_a_loop_of_another_stage, store_by_a_number, store_by_no_condition, store_some_of_a_scan, store_by_a_tuple_of_loops,
    ],
    "transform_layout": [
        transform_an_output, transform_an_input, transform_after_a_split, transform_with_an_index_too_few,
        transform_into_nothing, transform_and_lose_an_index, transform_with_other_factors,
        transform_two_elements_into_one, transform_by_a_product, transform_with_an_offset,
        transform_by_what_is_not_known, transform_what_an_extern_reads, transform_a_scan,
    ],
    "fuse": [
        fuse_nothing, fuse_in_the_wrong_order, fuse_loops_apart, fuse_spatial_and_reduce, fuse_a_vectorized_loop,
    ],
    "reorder": [reorder_with_a_loop_given_twice],
    "parallel": [parallel_over_a_reduction, parallel_over_an_input],
    "vectorize": [vectorize_a_loop_with_a_producer_in_it],
    "unroll": [unroll_an_input],
    "bind": [bind_to_no_axis, bind_a_reduction, bind_two_loops_to_one_axis],
    "pragma": [pragma_that_is_unknown, pragma_for_a_reduction, split_a_loop_with_a_pragma,
        pragma_that_belongs_to_other_threads, pragma_of_strides_for_threads, pragma_with_code,
        pragma_without_its_value, pragma_with_a_value_that_is_none_of_its, pragma_with_a_value_that_it_does_not_take,
    ],
    "compute_at": [
        compute_an_output_at_a_loop, compute_at_a_stage_that_comes_before, compute_at_itself,
        compute_at_a_stage_that_does_not_use_it, compute_at_an_input, compute_at_a_vectorized_loop,
        compute_an_input_at_a_loop,
    ],
    "store_at": [store_an_output_at_a_loop, store_at_a_stage_that_does_not_use_it, store_at_no_such_loop],
    "compute_inline": [inline_an_output, inline_a_reduction, inline_an_input, inline_into_an_extern,
    ],
    "compute_root": [compute_an_input_at_the_root],
    "set_scope": [no_such_scope, scope_of_an_input, scope_of_an_output],
    "cache_write": [
        cache_write_of_an_input, cache_write_to_no_scope, cache_write_after_splitting_the_reduction,
        cache_write_after_shifting_inwards, cache_write_after_marking_a_loop,
        cache_write_after_computing_something_there,
    ],
    "cache_read": [
        cache_read_for_a_stage_that_does_not_read, cache_read_that_nothing_reads, cache_read_twice_for_one_reader,
        cache_read_to_no_scope,
    ],
    "rfactor": [
        rfactor_of_a_spatial_loop, rfactor_of_no_reduction, rfactor_of_a_marked_loop,
        rfactor_after_computing_something_there, rfactor_to_no_place, rfactor_to_an_unknown_place,
    ],
    "scan": [
        split_of_a_scans_time, split_of_a_steps_time, split_of_the_time_of_what_a_step_reads, fuse_of_a_scans_time,
        parallel_of_a_scans_time, bind_of_a_scans_time, vectorize_of_a_scan, shift_inwards_of_a_scan,
        compute_at_of_an_update, compute_at_of_an_init, compute_at_outside_the_step, store_at_outside_the_step,
        compute_inline_of_an_update,
        compute_inline_of_a_scan, set_scope_of_an_update, cache_write_of_a_scan, cache_read_of_an_update_by_its_scan, env_threads_of_no_scan, env_threads_that_do_not_exist,
    ],
    "prefetch": [prefetch_what_is_not_read, prefetch_nothing_ahead, prefetch_for_an_input],
    "storage_align": [
        storage_align_of_an_output, storage_align_of_an_input, storage_align_along_no_axis,
        storage_align_along_a_reduction, storage_align_to_nothing, storage_align_with_a_negative_offset,
        storage_align_of_an_update, storage_align_of_a_scan,
    ],
    "scatter": [
        vectorize_of_points, parallel_of_points, bind_of_places, fuse_of_places_and_rows, compute_at_places,
        cache_write_of_a_scatter, rfactor_behind_the_places,
    ],
    "double_buffer": [double_buffer_an_output, double_buffer_an_input],
    "tensorize": [
        tensorize_by_an_unknown_name, tensorize_a_computation_of_two, tensorize_around_a_marked_loop,
        tensorize_an_input, split_a_tensorized_loop, vectorize_a_tensorized_loop, unroll_a_tensorized_loop,
    ],
    "create_group": [a_group_of_nothing, a_group_of_a_stage_that_is_not_there],
    "define_knob": [a_knob_without_values, a_knob_with_other_values, a_knob_called_like_the_schedule, a_knob_with_a_value_twice,
        a_knob_beyond_32_bits,
    ],
    "define_split": [a_split_by_no_policy, a_split_of_a_size_into_factors, a_split_whose_filter_rejects_everything,
        a_split_whose_filter_raises, a_split_into_no_number_of_loops, a_split_defined_in_two_ways,
    ],
    "define_reorder": [an_order_of_one_loop_twice, an_order_of_an_interval_that_is_not_there],
    "define_annotate": [marks_by_no_policy],
    "among": [rows_of_values_that_a_knob_has_not, rows_of_an_unknown_knob, a_filter_of_something_unknown],
    "choose": [a_choice_of_nothing, a_choice_of_objects, a_choice_with_other_options,
    ],
    "constrain": [a_constraint_that_is_none],
}  # fmt: skip
