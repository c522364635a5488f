"""Schedules that are consistent and still cannot become a program, by the part of lowering that says so."""

from __future__ import annotations

from collections.abc import Callable

from autosched import te
from autosched.lower import lower_structure
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


# -- knobs ---------------------------------------------------------------------------------------------------


def a_knob_without_a_value() -> None:
    args, s = program()
    s["C"].split("i", factor=s.define_knob("rows", [2, 4]))
    lower_structure(s, args, "llvm").bind()


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


def shift_inwards_across_threads() -> None:
    args, s = sums()
    s["S"].split("i", factor=4, tail="shift_inwards")
    s["S"].parallel("i.outer")
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


CASES: dict[str, list[Callable[[], None]]] = {
    "arguments": [
        an_input_is_missing, an_output_is_missing, an_argument_is_computed_by_each_work_item,
        an_argument_with_no_room_for_whole_tiles, an_argument_is_given_twice,
        a_size_is_in_no_argument,
    ],
    "knobs": [
        a_knob_without_a_value, a_knob_that_is_not_there, a_value_the_knob_does_not_have,
        values_that_break_a_constraint, a_factor_that_comes_out_as_zero,
    ],
    "vectors": [
        vectorize_a_loop_of_unknown_extent, vectorize_too_many_lanes, unroll_a_loop_of_unknown_extent,
        unroll_too_much,
    ],
    "reductions": [shift_inwards_inside_the_reduction, shift_inwards_across_threads],
    "gpu": [
        bind_on_a_cpu, virtual_threads_of_unknown_number, parallel_on_a_gpu, local_storage_between_kernels, private_storage_of_unknown_size,
        a_private_stage_spread_over_work_items, a_stage_in_a_kernel_spread_over_work_groups,
        a_barrier_that_some_work_items_miss,
    ],
}  # fmt: skip
