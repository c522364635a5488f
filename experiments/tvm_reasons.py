"""Why cases of TVM's tests do not pass, where what they say when they fail is not the reason.

File -> (what the names of cases begin with, the reason): the first that fits. `tvm_suite.py` names cases that pass.
"""

from __future__ import annotations

#: what compares nodes of TVM's classes, and nothing that is computed
IR = "asks for TVM's IR"
WORDS = "asks for TVM's messages"
ALLOWED = "does what TVM refuses"
_OPAQUE = "tensor cores in a script"
_NVIDIA = "tensor cores and barriers of NVIDIA's GPUs"
_TYPES = "expressions that stand alone follow this package's rule of types"
_ARGUMENT = "the layout of an argument is the caller's"

REASONS: dict[str, tuple[tuple[str, str], ...]] = {
    # -- te -------------------------------------------------------------------------------------------------
    "test_te_build_lower.py": (("test_split_uneven", "the last of uneven parts is a shorter loop, not a condition"),),
    "test_te_create_primfunc.py": (
        ("test_error_reporting", "a scan may be a function, which TVM refuses"),
        ("test_extern_with", "a script does not say which of its buffers an extern function writes"),
        ("test_extern", IR),
        ("test_int64_indices", IR),
    ),
    "test_te_hybrid_script.py": (("test_", IR),),
    "test_te_schedule.py": (
        ("test_singleton", f"{IR}: a relation `Singleton`"),
        ("test_vectorize_commreduce", "loops of reductions may be vectorized, which TVM refuses"),
        ("test_rfactor", "stages that rfactor makes have axes of their own"),
        ("test_tensor_intrin_scalar_params", "an element as the region of an intrinsic: `A[i, j:j + 1]` is one"),
        ("test_tensor_intrin", IR),
        ("test_compute_at", "a stage at its own loop is refused at the call, not when it is lowered"),
        ("test_split_disable_predicate[True-4]", "without a condition it would store beyond the end"),
    ),
    "test_te_schedule_bound_inference.py": (
        ("test_bound_fusesplit1", "a factor that is a number of the call"),
        ("test_bound_warp", "`warp` is shared memory"),
        ("test_bound_nest_thread", "a `local` stage whose loops are bound to threads is shared memory"),
        ("test_bound_tensor_compute_op", "an intrinsic with a result of 2 dimensions, used for one of them"),
        ("test_bound_simplification_failure", "it reads outside of its tensor"),
        ("test_bound_block", "stages at the root are computed whole"),
    ),
    "test_te_schedule_graph.py": (
        ("test_scan_fix_point", "of `state[t - 1, j, j]`, j is a recurrence of its own, which TVM does not find"),
    ),
    "test_te_schedule_ops.py": (
        ("test_schedule_tensor_compute1", "it reads outside of its tensor"),
        ("test_loop_dep_reduce_cache_write", "a combiner that uses an axis"),
        ("test_reduction_and_dummy", "a spatial loop is not fused with a reduce loop"),
        ("test_local_stage_predicate2", f"{IR}: a buffer of 97 elements"),
        ("test_local_stage_predicate", "`blockIdx` inside of what one group computes"),
        ("test_schedule_record_misc", "a schedule of nothing"),
    ),
    "test_te_schedule_tensorize.py": (
        ("test_tensorize_tensor_compute_op", "`tensorize` of a stage that is an intrinsic already is refused"),
        ("test_tensorize_", "functions of TVM's C++ tests"),
    ),
    "test_te_tensor_overload.py": (
        ("test_operator_type", "arithmetic of tensors without dimensions alone is an expression"),
    ),
    # -- topi -----------------------------------------------------------------------------------------------
    "test_fifo_buffer.py": (("test_conv1d", "an output that is an input of the call, too"),),
    "test_topi_bitserial_conv2d_rasp.py": (("test_", "machine code for 32-bit ARM"),),
    "test_topi_conv2d_hwnc_tensorcore.py": (("", "tensor cores"),),
    "test_topi_conv2d_tensordot_opts.py": (("", "microcontrollers"),),
    "test_topi_matmul.py": (("test_unsupported", "products that TVM's SME refuses are computed"),),
    "test_topi_pooling.py": (("test_pool_invalid", WORDS),),
    "test_topi_transform.py": (
        ("test_reverse_sequence", WORDS),
        (
            "test_strided_slice_with_dynamic",
            "slices end where the tensor ends, as NumPy's: the size is no `end - begin`",
        ),
        ("test_reshape", "NumPy 2.4 has no `reshape(newshape=)`, with which the test computes what it expects"),
        (
            "test_layout_transform",
            "NumPy 2.4 has no `reshape(newshape=)`, with which the test computes what it expects",
        ),
    ),
    # -- autotvm --------------------------------------------------------------------------------------------
    "test_autotvm_dispatch_context.py": (("test_tophub", "logs that TVM downloads"),),
    "test_autotvm_droplet_tuner.py": (("test_tuner", "lists inside of TVM's tuner"),),
    "test_autotvm_ga_tuner.py": (("test_ga", "lists inside of TVM's tuner"),),
    "test_autotvm_measure.py": (("test_task_runner_with_ref", "it replaces what is inside of TVM's runner"),),
    "test_autotvm_record.py": (
        ("test_load_dump", "the protocol `pickle`: reading it could run code"),
        ("test_file_io", "a log with a time of 0 seconds"),
    ),
    # -- auto_scheduler -------------------------------------------------------------------------------------
    "test_auto_scheduler_compute_dag.py": (
        ("test_stage_order", "a second copy of A is called `A.shared`, too, not `A.d.shared`"),
    ),
    "test_auto_scheduler_evolutionary_search.py": (
        ("test_mutate_tile_size", "a sum of 4 elements is written out: the space has no tile of it"),
    ),
    "test_auto_scheduler_sketch_generation.py": (("test_cpu", "other rules make other numbers of sketches"),),
    "test_auto_scheduler_task_scheduler.py": (
        ("test_task_scheduler", "a log has the default schedule and the play-off, too"),
    ),
    # -- tir ------------------------------------------------------------------------------------------------
    "test_tir_constructor.py": (("test_expr", "an axis without an operation"), ("test_", IR)),
    "test_tir_data_layout.py": (("test_layout_dtype", "layouts have no types"),),
    "test_tir_intrin.py": (("test_fma", IR),),
    "test_tir_ir_builder.py": (("test_prefetch", IR),),
    "test_tir_op_types.py": (
        ("test_op_", _NVIDIA),
        ("test_tir_op_mma", _NVIDIA),
        ("test_tir_op_ptx", _NVIDIA),
        ("test_tir_op_tvm_load_matrix", _NVIDIA),
        ("test_tir_op_tvm_store_matrix", _NVIDIA),
        ("test_tir_op_tvm_mma", _NVIDIA),
        ("test_tir_op_tvm_bmma", _NVIDIA),
        ("test_tir_op_tvm_fill", _NVIDIA),
        ("test_", "operators of TVM's own IR: names of calls, and what its host code is made of"),
    ),
    "test_tir_ops.py": (
        ("test_const_fold3", "1-bit integers"),
        ("test_const_fold4", "functions of constants are computed at run time"),
        ("test_binary_dtype_match", _TYPES),
        ("test_if_then_else", _TYPES),
        ("test_llvm_intrin", WORDS),
    ),
    "test_tir_ptx_mma.py": (("", _NVIDIA),),
    "test_tir_specialize.py": (("", "a buffer that begins inside its memory"),),
    "test_tir_stmt_functor_ir_transform.py": (("test_", IR),),
    "test_tir_stmt_functor_substitute.py": (("Test", IR),),
    "test_tir_texture_scope.py": (("test_", "textures of GPUs"),),
    "test_tir_unsafe_hide_buffer_access.py": (
        ("test_hide_buffer_access_write", "indices are none of the buffers that a block writes"),
    ),
    "test_tir_schedule_transform_layout.py": (
        ("test_simplify", IR),
        ("test_var_args_sugar", _ARGUMENT),
        ("TestImplicitPadding", "an output gets no padding"),
        ("TestPaddedTransformWithoutLoop", _ARGUMENT),
        ("TestPaddedTransformIfThenElseReductionOpaque", "a buffer of blocks in a block"),
        ("TestPaddedTransformOfInputCreatesAssumption", "no `T.assume`"),
        ("TestPaddedTransformNonConstantValue", "padding that differs from place to place"),
        ("TestPaddedTransformRepeatedBufferElement", "expected to fail by TVM, too"),
        ("TestTransformLayoutWithVar", "a map with a number of the call in its formulas"),
        ("TestTransformWithAxisSeparators", IR),
        ("test_index_map_dtype_legalize", "a map that begins with padding"),
        ("test_transform_layout_with_symbolic", "a map with a number of the call in its formulas"),
        ("test_transform_block_layout_with_symbolic", "a map with a number of the call in its formulas"),
    ),
    "test_lower_build.py": (("test_", IR),),
    "test_debug_info.py": (
        ("test_tir_debug_info_with_subroutine", "calls from function to function"),
        ("test_building_without", "8-bit floats"),
        ("test_", "a script with an assertion that never holds"),
    ),
    "test_tir_base.py": (
        ("test_fail_implicit", ALLOWED),
        ("test_cast_between", ALLOWED),
        ("test_eq_ops", ALLOWED),
        ("test_", "no `T.ret`"),
    ),
    "test_tir_buffer.py": (
        ("test_buffer_broadcast_expr", "an output whose elements share places"),
        ("test_buffer_flatten_uses", "axis separators of declared buffers"),
        ("test_", IR),
    ),
    "test_tir_imm_values.py": (
        ("test_tir_invalid", "a constant out of range wraps around, or is infinite"),
        ("test_tir_intimm_overflow", "a sum of constants out of range is not folded"),
        ("test_tir_make_floatimm", "a constant has the precision of its type"),
        ("test_tir_special_floatimms", "a constant has the precision of its type"),
        ("test_tir_const_auto_dtype", "a Python number is a `float32`"),
        ("test_tir_floatimm_const_fold", ALLOWED),
        ("test_", "no `T.ret`"),
    ),
    "test_tir_index_map.py": (
        ("test_nonsurjective_inverse", "maps that begin with padding; conditions of padding are written otherwise"),
    ),
    "test_tir_nodes.py": (
        ("test_bitwise", "expressions print as Python, not as TVMScript"),
        ("test_infinity", "expressions print as Python, not as TVMScript"),
        ("test_isnan", "expressions print as Python, not as TVMScript"),
        ("test_any", ALLOWED),
        ("test_all", ALLOWED),
        ("test_shift_bounds", ALLOWED),
        ("test_divide_by_zero", ALLOWED),
        ("test_lane_types", IR),
        ("test_prim_func", "a function whose parameters are numbers"),
        ("test_broadcast_to_scalable", "lengths of vectors that only the machine knows (`vscale`)"),
        ("test_scalable", "lengths of vectors that only the machine knows (`vscale`)"),
        ("test_buffer_", "lengths of vectors that only the machine knows (`vscale`)"),
    ),
    "test_tir_te_extern_primfunc.py": (("TestPrimFuncs", "a function that writes its inputs"),),
    "test_tir_schedule_blockize.py": (("test_blockize_blocks", "one block around several"),),
    "test_tir_schedule_cache_index.py": (
        ("test_basic_cache_index", "two blocks of one name"),
        ("test_resize", "common parts of indices are found by the compiler, without being stored"),
    ),
    "test_tir_schedule_cache_read_write.py": (
        ("test_cache_read_opaque", _OPAQUE),
        ("test_cache_write_opaque", _OPAQUE),
        ("test_reindex_cache_read_multi", "a copy in a new layout for several readers of statements"),
        ("test_reindex_cache_write_reduce", "a new layout of a stage whose loops were changed before"),
    ),
    "test_tir_schedule_compute_at.py": (
        ("test_reverse_compute_at_factorized", "a sum of parts in the loop of the parts' own sum"),
        ("test_fail_all_consumers", WORDS),
        ("test_fail_all_producers", ALLOWED),
    ),
    "test_tir_schedule_compute_inline.py": (
        ("test_reverse_compute_inline_affine_chain", "the last of a chain first, then the one before it"),
        ("test_compute_inline_multi_loads", "it reads outside of its buffer"),
        (
            "test_reverse_compute_inline_overcomputed_producer_injective",
            "an element for which only some blocks are computed",
        ),
        (
            "test_reverse_compute_inline_producer_predicate_allowed",
            "conditions on what is computed that are no ends of axes",
        ),
        ("test_reverse_compute_inline_producer_predicate_disallowed", "tensor cores in a script"),
    ),
    "test_tir_schedule_error.py": (("test_", WORDS),),
    "test_tir_schedule_for_kind.py": (
        ("test_parallel_not", ALLOWED),
        ("test_ne", "iterations that may store to one element are not bound, whatever a block says of its axes"),
    ),
    "test_tir_schedule_partition.py": (("test_partition_with_opaque", _OPAQUE),),
    "test_tir_schedule_read_write_at.py": (
        ("test_read_at_global_to_shared_ab", "buffers of a block count from what it reads, not from `T.reads`"),
        ("test_", IR),
    ),
    "test_tir_schedule_reorder.py": (
        ("test_reorder_with_opaque", _OPAQUE),
        ("test_reorder_overlapped", "iterations that store to one element keep their order"),
    ),
    "test_tir_schedule_rfactor.py": (("test_reduction_rfactor_outermost", "a reduction among other blocks in a loop"),),
    "test_tir_schedule_sampling.py": (
        ("test_sample", "a trace has no calls of sampling: what they gave is its numbers"),
    ),
    "test_tir_schedule_set_axis_separator.py": (("test_set_scope_fail", WORDS),),
    "test_tir_schedule_split_fuse.py": (
        ("test_fuse_with_opaque", _OPAQUE),
        ("test_split_with_opaque", _OPAQUE),
        ("test_fuse_int64", "left out by TVM, too"),
        ("test_fuse_symbolic", "loops of unknown lengths fuse pair by pair: other indices"),
        ("test_add_unit_loop_above_loop", "a loop of one iteration around a block without axes is left out"),
        ("test_unsupported_target", WORDS),
    ),
    "test_tir_schedule_utilities.py": (
        ("test_tir_schedule_creation", IR),
        ("test_tir_schedule_copy_2", IR),
        ("test_tir_schedule_get_block", IR),
        ("test_tir_schedule_work_on", ALLOWED),
        ("test_tir_schedule_remove_rv", "blocks and loops are values of Python's: none is removed"),
        ("test_get_output_blocks", "two blocks that store to one buffer are one stage"),
    ),
    # -- analyses and passes --------------------------------------------------------------------------------
    "test_tir_transform_loop_partition.py": (("test_explicit_partition_hint", "it reads outside of its tensor"),),
}


def reason(file: str, case: str) -> str:
    """The reason of a case; empty where what it says is the reason."""
    return next((why for begin, why in REASONS.get(file, ()) if case.startswith(begin)), "")


def unused(file: str, failing: list[str]) -> list[str]:
    """Beginnings that are none of a failing case: these pass now."""
    return [begin for begin, _ in REASONS.get(file, ()) if not any(case.startswith(begin) for case in failing)]
