"""Schedules that are consistent and still cannot become a program, by the part of lowering that says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scan_programs import running_sum

import autosched
from autosched import te
from autosched.ir.builder import create as ir_builder
from autosched.ir.calls import call_intrin
from autosched.ir.expr import Expr
from autosched.ir.intrinsics import register_intrin_lowering
from autosched.ir.stmt import Buffer, Function, Stmt
from autosched.lower import lower, lower_structure
from autosched.lower.guarded import guarded
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor


def program() -> tuple[list[Tensor], Schedule]:
    """A[n, m] -> B = A + 1 -> C, sums of neighbours in a row of B."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] + b[i, te.max(j - 1, 0)], name="C")
    return [a, c], create_schedule(c)


def sums() -> tuple[list[Tensor], Schedule]:
    """A[n, m] -> S, the sums of its rows."""
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    c = te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="S")
    return [a, c], create_schedule(c)


# -- arguments -------------------------------------------------------------------------------------------


def an_input_is_missing() -> None:
    (_, c), s = program()
    lower_structure(s, [c], "llvm")


def the_arguments_of_another_program() -> None:
    _, s = program()
    args, _ = program()
    lower_structure(s, args, "llvm")


def an_argument_that_no_stage_computes() -> None:
    (a, c), s = program()
    stranger = te.compute(c.shape, lambda i, j: c[i, j] + 1, name="stranger")
    lower_structure(s, [a, stranger, c], "llvm")


def an_output_is_missing() -> None:
    (a, _), s = program()
    lower_structure(s, [a], "llvm")


def an_argument_is_computed_by_each_work_item() -> None:
    (a, c), s = program()
    s["C"].bind("i", "threadIdx.x")
    s["B"].compute_at("C", "i")
    lower_structure(s, [a, s["B"].tensor, c], "opencl")


def an_argument_with_no_room_for_whole_tiles() -> None:
    (a, c), s = program()
    s["B"].split("j", factor=8, tail="round_up")
    lower_structure(s, [a, s["B"].tensor, c], "llvm")


def an_argument_is_given_twice() -> None:
    (a, c), s = program()
    lower_structure(s, [a, c, a], "llvm")


def a_size_is_in_no_argument() -> None:
    n, m = te.var("n"), te.var("m")
    a = te.placeholder((n,), name="A")
    c = te.compute((n,), lambda i: a[i] + te.min(m, 3).astype("float32"), name="C")
    lower_structure(create_schedule(c), [a, c], "llvm")


# -- numbers, declared buffers and parts of scans as arguments -----------------------------------------------


def a_number_is_given_twice() -> None:
    args, s = program()
    alpha = te.var("alpha", "float32")
    lower_structure(s, [alpha, *args, alpha], "llvm")


def a_number_that_is_computed() -> None:
    args, s = program()
    lower_structure(s, [te.var("alpha", "float32") + 1, *args], "llvm")


def a_length_as_a_number() -> None:
    count = te.var("count")
    a = te.placeholder((8,), name="A")
    k = te.reduce_axis((0, count), name="k")
    c = te.compute((1,), lambda i: te.sum(a[k], axis=k), name="C")
    lower_structure(create_schedule(c), [count, a, c], "llvm")


def an_update_of_a_scan_among_the_arguments() -> None:
    args = running_sum()
    s = create_schedule(args)
    lower_structure(s, [*args, s["step"].tensor], "llvm")


def iterations_that_sum_up_one_argument() -> None:
    (a, total), _ = sums()
    c = te.compute(total.shape, lambda i: total[i] + total[te.max(i - 1, 0)], name="C")
    s = create_schedule(c)
    s[c].parallel("i")
    s[total].compute_at(s[c], "i")
    lower_structure(s, [a, total, c], "llvm")


def a_buffer_for_a_stranger() -> None:
    args, s = program()
    x = te.placeholder((4,), name="X")
    lower_structure(s, args, "llvm", binds={x: te.decl_buffer((4,), name="X")})


def a_shape_for_a_buffer() -> None:
    args, s = program()
    lower_structure(s, args, "llvm", binds={args[0]: (4, 4)})  # type: ignore[dict-item]


def a_buffer_of_another_rank() -> None:
    args, s = program()
    lower_structure(s, args, "llvm", binds={args[0]: te.decl_buffer((4,), name="A")})


def a_buffer_of_another_type() -> None:
    args, s = program()
    lower_structure(s, args, "llvm", binds={args[0]: te.decl_buffer(args[0].shape, "int32", "A")})


def a_buffer_whose_rows_overlap() -> None:
    a = te.placeholder((4, 4), name="A")
    b = te.compute((4, 4), lambda i, j: a[i, j] + 1, name="B")
    lower_structure(create_schedule(b), [a, b], "llvm", binds={b: te.decl_buffer((4, 4), name="B", strides=[1, 1])})


# -- what others than loops compute --------------------------------------------------------------------------


def an_extern_that_counts_the_elements_of_padded_memory() -> None:
    a = te.placeholder((4, 6), name="A")
    b = te.compute((4, 6), lambda i, j: a[i, j] + 1, name="B")

    def last_of_each_row(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        ib = ir_builder()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 4, name="i") as i:
            result[i] = data[i * 6 + 5]
        return ib.get()

    s = create_schedule(te.extern((4,), [b], last_of_each_row, name="C"))
    s[b].storage_align("i", 8)
    lower_structure(s, [a, s["C"].tensor], "llvm")


def an_intrinsic_without_a_rule() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: call_intrin("float32", "erf_of_the_third_kind", a[i]), name="B")
    lower_structure(create_schedule(b), [a, b], "llvm").bind()


def an_intrinsic_whose_rules_go_round() -> None:
    def round_and_round(e: Expr) -> Expr:
        return call_intrin("float32", "round_and_round", e.args[0] + 1)

    register_intrin_lowering("round_and_round", "llvm", f=round_and_round)
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: call_intrin("float32", "round_and_round", a[i]), name="B")
    lower_structure(create_schedule(b), [a, b], "llvm").bind()


# -- knobs ---------------------------------------------------------------------------------------------------


def a_knob_without_a_value() -> None:
    args, s = program()
    s["C"].split("i", factor=s.define_knob("rows", [2, 4]))
    lower_structure(s, args, "llvm").bind()


def a_function_with_an_open_knob() -> None:
    args, s = program()
    s["C"].split("i", factor=s.define_knob("rows", [2, 4]))
    autosched.build(lower(s, args).function)


def a_knob_that_is_not_there() -> None:
    args, s = program()
    lower_structure(s, args, "llvm").bind({"rows": 2})


def a_value_the_knob_does_not_have() -> None:
    args, s = program()
    s["C"].split("i", factor=s.define_knob("rows", [2, 4]))
    lower_structure(s, args, "llvm").bind({"rows": 3})


def values_that_break_a_constraint() -> None:
    args, s = program()
    rows, columns = s.define_knob("rows", [2, 4]), s.define_knob("columns", [2, 4])
    s["C"].tile("i", "j", rows, columns)
    s.constrain(rows * columns <= 8, "a tile of more than 8 elements")
    lower_structure(s, args, "llvm").bind({"rows": 4, "columns": 4})


def a_factor_that_comes_out_as_zero() -> None:
    args, s = program()
    s["C"].split("i", factor=s.define_knob("rows", [1, 4]) // 2)
    lower_structure(s, args, "llvm").bind({"rows": 1})


# -- vectors and unrolling -------------------------------------------------------------------------------------


def vectorize_a_loop_of_unknown_extent() -> None:
    args, s = program()
    s["C"].vectorize("j")
    lower_structure(s, args, "llvm").bind()


def vectorize_too_many_lanes() -> None:
    args, s = program()
    s["C"].split("j", factor=2048)
    s["C"].vectorize("j.inner")
    lower_structure(s, args, "llvm").bind()


def unroll_a_loop_of_unknown_extent() -> None:
    args, s = program()
    s["C"].unroll("j")
    lower_structure(s, args, "llvm").bind()


def unroll_too_much() -> None:
    args, s = program()
    s["C"].split("j", factor=10_000)
    s["C"].unroll("j.inner")
    lower_structure(s, args, "llvm").bind()


# -- reductions that compute elements twice ------------------------------------------------------------------------


def shift_inwards_inside_the_reduction() -> None:
    args, s = sums()
    s["S"].split("i", factor=4, tail="shift_inwards")
    s["S"].reorder("k", "i.outer", "i.inner")
    lower_structure(s, args, "llvm")


def shift_inwards_of_elements_that_are_set_once() -> None:
    args, s = sums()
    s["S"].split("i", factor=4, tail="auto")
    s["S"].decompose_reduction("i.outer")
    lower_structure(s, args, "llvm")


def shift_inwards_across_threads() -> None:
    args, s = sums()
    s["S"].split("i", factor=4, tail="shift_inwards")
    s["S"].parallel("i.outer")
    lower_structure(s, args, "llvm")


def shift_inwards_across_lanes() -> None:
    args, s = sums()
    s["S"].split("i", nparts=4, tail="shift_inwards")
    s["S"].vectorize("i.outer")
    lower_structure(s, args, "llvm")


# -- GPU-style targets -----------------------------------------------------------------------------------------------


def bind_on_a_cpu() -> None:
    args, s = program()
    s["C"].bind("i", "blockIdx.x")
    lower_structure(s, args, "llvm").bind()


def virtual_threads_of_unknown_number() -> None:
    args, s = program()
    s["C"].bind("j", "vthread")
    lower_structure(s, args, "opencl").bind()


def parallel_on_a_gpu() -> None:
    args, s = program()
    s["C"].parallel("i")
    lower_structure(s, args, "opencl").bind()


def local_storage_between_kernels() -> None:
    args, s = program()
    s["B"].set_scope("local")
    lower_structure(s, args, "opencl")


def private_storage_of_unknown_size() -> None:
    args, s = program()
    s["C"].bind("i", "threadIdx.x")
    s["B"].compute_at(s["C"], "i")
    lower_structure(s, args, "opencl").bind()


def a_private_stage_spread_over_work_items() -> None:
    args, s = program()
    s["C"].bind("i", "threadIdx.x")
    s["B"].compute_at(s["C"], "i")
    s["B"].bind("j", "threadIdx.y")
    lower_structure(s, args, "opencl")


def a_stage_in_a_kernel_spread_over_work_groups() -> None:
    args, s = program()
    s["C"].bind("i", "blockIdx.x")
    s["B"].compute_at(s["C"], "i")
    s["B"].bind("j", "blockIdx.y")
    lower_structure(s, args, "opencl")


def a_barrier_that_some_work_items_miss() -> None:
    args, s = program()
    s["C"].split("i", factor=4)
    s["C"].bind("i.outer", "blockIdx.x")
    s["C"].bind("i.inner", "threadIdx.x")  # 4 work-items
    s["B"].compute_at(s["C"], "i.inner")
    s["B"].set_scope("shared")
    s["B"].split("j", factor=8)
    s["B"].bind("j.inner", "threadIdx.x")  # 8 work-items
    lower_structure(s, args, "opencl").bind()


def store_at_outside_a_shared_stage() -> None:
    args, s = program()
    s["C"].bind("i", "blockIdx.x")
    _, inner = s["C"].split("j", factor=4)
    s["B"].compute_at(s["C"], "j.outer")
    s["B"].store_at(s["C"], "i")
    s["C"].bind(inner, "threadIdx.x")
    lower_structure(s, args, "opencl").bind()


def specialize_a_kernel() -> None:
    args, s = program()
    s["C"].bind("i", "blockIdx.x")
    s["C"].specialize(s.size("m") % 4 == 0)
    lower_structure(s, args, "opencl")


def a_reduction_by_a_group_with_loops_inside() -> None:
    args, s = sums()
    s["S"].split("k", factor=8)
    s["S"].bind("k.inner", "threadIdx.x")
    s["S"].reorder("k.outer", "k.inner", "i")
    lower_structure(s, args, "opencl")


def a_launch_whose_size_depends_on_a_loop() -> None:
    a = te.placeholder((8,), name="A")

    def triangle(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        ib = ir_builder()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        item = te.thread_axis("threadIdx.x")
        with ib.for_range(0, 8, name="i") as i:
            ib.scope_attr(item, "thread_extent", i + 1)
            result[item.var] = data[item.var]
        return ib.get()

    b = te.extern((8,), [a], triangle, name="B")
    lower_structure(create_schedule(b), [a, b], "opencl").bind()


def storage_whose_size_depends_on_a_loop() -> None:
    a = te.placeholder((8,), name="A")

    def triangle(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        ib = ir_builder()
        data, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, name="i") as i:
            row = ib.allocate("float32", (i + 1,), name="row")
            row[i] = data[i]
            result[i] = row[i]
        return ib.get()

    b = te.extern((8,), [a], triangle, name="B")
    lower_structure(create_schedule(b), [a, b], "llvm").bind()


# -- scans whose steps are shared out ------------------------------------------------------------------------


def a_bound_axis_along_which_a_step_looks_aside() -> None:
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="X")
    state = te.placeholder((n, m), name="state")
    first = te.compute((1, m), lambda _, i: x[0, i], name="first")
    step = te.compute((n, m), lambda t, i: state[t - 1, m - 1 - i] * 2 + x[t, i], name="step")
    total = te.scan(first, step, state, name="S")
    s = create_schedule(total)
    s["step"].bind("i", "threadIdx.x")
    lower_structure(s, [x, total], "opencl")


def a_stride_that_no_argument_shows() -> None:
    args, s = program()
    b = s["B"].tensor
    lower_structure(s, args, "llvm", binds={b: te.decl_buffer(b.shape, b.dtype, "B", strides=[te.var("row"), 1])})


def work_items_that_change_places() -> None:
    args = running_sum()
    s = create_schedule(args)
    s["first"].bind("i", "threadIdx.x")
    s["step"].bind(s["step"].split("i", factor=4)[1], "threadIdx.x")
    lower_structure(s, args, "opencl")


def a_shared_part_that_reads_the_state() -> None:
    args = running_sum()
    s = create_schedule(args)
    for name in ("first", "step"):
        group, item = s[name].split("i", factor=4)
        s[name].bind(group, "blockIdx.x")
        s[name].bind(item, "threadIdx.x")
    s.cache_read("state", "shared", ["step"])
    lower_structure(s, args, "opencl")


def a_shared_part_of_a_step_whose_state_is_private() -> None:
    n, m = te.var("n"), te.var("m")
    x = te.placeholder((n, m), name="X")
    state = te.placeholder((n, m), name="state")
    first = te.compute((1, m), lambda _, i: x[0, i], name="first")
    middle = te.compute((n, m), lambda t, i: state[t - 1, i] * 2, name="middle")
    step = te.compute((n, m), lambda t, i: middle[t, i] + x[t, i], name="step")
    total = te.scan(first, step, state, name="S")
    out = te.compute((n, m), lambda t, i: total[t, i] * 2, name="out")
    s = create_schedule(out)
    _, inner = s[out].split("i", factor=2)
    s[out].bind(inner, "threadIdx.x")
    s["S"].compute_at(s[out], inner)
    s["middle"].set_scope("shared")
    lower_structure(s, [x, out], "opencl")


# -- versions for sizes ----------------------------------------------------------------------------------


def lowered(of: Callable[[], tuple[list[Tensor], Schedule]]) -> Function:
    args, s = of()
    return lower_structure(s, args, "llvm", "f").bind()


def a_version_for_what_is_no_size() -> None:
    guarded([(te.var("rows") < 8, lowered(program))], lowered(program))


def versions_of_different_programs() -> None:
    plain = lowered(program)
    guarded([(plain.sizes[0] < 8, lowered(sums))], plain)


def versions_of_which_none_takes_all_sizes() -> None:
    args, s = program()
    s["C"].split("j", factor=4, disable_predication=True)
    strict = lower_structure(s, args, "llvm", "f").bind()
    guarded([(strict.sizes[0] < 8, strict)], strict)


CASES: dict[str, list[Callable[[], None]]] = {
    "arguments": [
        an_input_is_missing, the_arguments_of_another_program, an_argument_that_no_stage_computes, an_output_is_missing, an_argument_is_computed_by_each_work_item,
        an_argument_with_no_room_for_whole_tiles, an_argument_is_given_twice,
        a_size_is_in_no_argument, a_number_is_given_twice, a_number_that_is_computed, a_length_as_a_number, an_update_of_a_scan_among_the_arguments, iterations_that_sum_up_one_argument,
    ],
    "knobs": [
        a_knob_without_a_value, a_function_with_an_open_knob, a_knob_that_is_not_there, a_value_the_knob_does_not_have,
        values_that_break_a_constraint, a_factor_that_comes_out_as_zero,
    ],
    "vectors": [
        vectorize_a_loop_of_unknown_extent, vectorize_too_many_lanes, unroll_a_loop_of_unknown_extent,
        unroll_too_much,
    ],
    "reductions": [
        shift_inwards_inside_the_reduction, shift_inwards_of_elements_that_are_set_once, shift_inwards_across_threads, shift_inwards_across_lanes,
    ],
    "storage": [storage_whose_size_depends_on_a_loop],
    "scans": [
        a_bound_axis_along_which_a_step_looks_aside, work_items_that_change_places, a_shared_part_that_reads_the_state,
        a_shared_part_of_a_step_whose_state_is_private,
    ],
    "binds": [
        a_buffer_for_a_stranger, a_shape_for_a_buffer, a_buffer_of_another_rank, a_buffer_of_another_type,
        a_buffer_whose_rows_overlap, a_stride_that_no_argument_shows,
    ],
    "versions": [
        a_version_for_what_is_no_size, versions_of_different_programs, versions_of_which_none_takes_all_sizes,
    ],
    "calls": [
        an_extern_that_counts_the_elements_of_padded_memory, an_intrinsic_without_a_rule,
        an_intrinsic_whose_rules_go_round,
    ],
    "gpu": [
        bind_on_a_cpu, virtual_threads_of_unknown_number, parallel_on_a_gpu, local_storage_between_kernels, private_storage_of_unknown_size,
        a_private_stage_spread_over_work_items, a_stage_in_a_kernel_spread_over_work_groups,
        a_barrier_that_some_work_items_miss, store_at_outside_a_shared_stage, specialize_a_kernel, a_reduction_by_a_group_with_loops_inside, a_launch_whose_size_depends_on_a_loop,
    ],
}  # fmt: skip
