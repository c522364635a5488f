"""Names of TVM's that are not here, by families: what there is instead of all of them."""

from __future__ import annotations

import re

_TENSOR_CORES = "s[C].tensorize(axis, te.decl_tensor_intrin(..)) with calls of C functions; there are no tensor cores"
_CALLS = "tir.call_packed and tir.call_extern: how arguments are passed is the compiler's business"
_BLOCKS = "sch.get_block, get_loops, get_producers, get_consumers, get_child_blocks of tir.Schedule"
_TYPES = "types are names or DataType; modules hold functions, and models are read from ONNX"
_STATEMENTS = "tir.For, IfThenElse, SeqStmt, BufferStore, Allocate: statements are of a dozen kinds"
_VECTORS = "s[C].vectorize(axis): the compiler chooses instructions"
_LAYOUTS = "tvm.relay.build chooses the layouts between a model's kernels; topi.layout_transform changes one"
_OPERATOR = "the operator without a library's name: how it is computed is the schedule's business"
_LOOPS = "s[B].fuse, split and bind, or topi.cuda.schedule_injective"
_LOGGER = 'logging.getLogger("autosched")'
_HOST = 'tvm.target.Target("llvm -mcpu=... -mattr=...")'
_COMMANDS = "python -m autosched --help; tvmc.load, tune, compile and run are here"

#: pattern of a whole name, less `tvm.` -> what there is instead; the first that fits
FAMILIES: tuple[tuple[str, str], ...] = (
    (r".*\.(logger|LOGGER)", _LOGGER),
    (r"tir\.(op\.)?(ptx_|mma_|simdgroup|make_filled|create_barriers|tvm_(load|store)_matrix|tvm_b?mma|tvm_fill).*",
     _TENSOR_CORES),
    (r"tir\.(op\.)?(tvm_(stack|struct|tuple|throw|check|access)|lookup_param|TVMBackend|anylist|call_\w*(lowered|packed)|"
     r"call_tir|ret$|isnullptr|type_annotation).*", _CALLS),
    (r"tir\.(op\.)?(vector(low|high|combine)|get_active_lane_mask|get_vscale_expr|q_multiply_shift).*", _VECTORS),
    (r"tir\.(op\.)?(tvm_thread|tvm_storage|tvm_warp).*", "s[B].bind(loop, thread), and rfactor: barriers are placed"),
    (r"tir\.(op\.)?(start|end)_profile_intrinsic", "module.time_evaluator(...)"),
    (r"tir\.(op\.)?(assume|undef)", "nothing: bounds are inferred, and every element has a value"),
    (r"tir\.(\w+\.)*(CommReducer)", "te.comm_reducer"),
    (r"tir\.(\w+\.)*(AssertStmt|AllocateConst|DeclBuffer|Prefetch|MatchBufferRegion|BlockRealize|stmt_seq|stmt_list)",
     _STATEMENTS),
    (r"tir\.(\w+\.)*(DataProducer)", "te.Tensor"),
    (r"tir\.(block_dependence_info|schedule\.(analysis|state)|(\w+\.)*(StmtSRef|BlockScope|ScheduleState|"
     r"BlockDependenceInfo|Dependency|DepKind|ScheduleDebugMask))\b.*", _BLOCKS),
    (r"tir\.schedule\.(\w+\.)*(ExprRV|RAND_VAR_TYPE|DECISION_TYPE|JSON_TYPE|Instruction\w*|transform)",
     "loops, blocks and factors are values; print(sch.trace) lists the calls"),
    (r"tir\.(expr\.)?(div_ambiguity_error|\w*Op|IntImmEnum|PrimExprWithOp|ConstExpr|(BinaryOp|Cmp|Logical)Expr)",
     "tir.PrimExpr, and tir.Add, tir.EQ and their like"),
    (r"tir\.(generic\.)?(divide|cast)", "operators of Python's: a + b, a / b, a.astype(dtype)"),
    (r"tir\.stmt_functor\.pre_order_visit", "tir.stmt_functor.post_order_visit"),
    (r"tir\.transform\.(PrimFuncPass|function_pass|transform).*", "tir.transform.prim_func_pass(opt_level=0)"),
    (r"tir\.transform\.\w+", "`autosched list passes`, and passes of your own in a PassContext"),
    (r"tir\.analysis\.\w+", "tir.stmt_functor.post_order_visit over a lowered program"),
    (r"tir\.analysis\.analysis\b.*", "tir.analysis"),
    (r"tir\.buffer\..*", "tir.decl_buffer, te.Tensor"),
    (r"(tir\.)?arith\.(\w+\.)?(IntGroupBounds|IntConstraints\w*)", "arith.Analyzer, arith.detect_iter_map"),
    (r"arith\.(\w+\.)?(PresburgerSet|union_lower_bound|pos_inf|neg_inf)", "arith.IntervalSet"),
    (r"arith\.(\w+\.)?(ProofStrength|Extension|ConstraintScope)", "arith.Analyzer: it proves what it can"),
    (r"arith\.(\w+\.)?(detect_common_subexpr)", "nothing: common parts are found by the compiler"),
    (r"arith\.(\w+\.)?(IterMap\w+|subspace_divide)", "arith.detect_iter_map, normalize_iter_map_to_expr"),
    (r"te\.(\w+\.)*(SpecializedCondition)", "autosched.tune_sizes keeps schedules for several sizes"),
    (r"te\.(\w+\.)*(TensorComputeOp|HybridOp|BaseComputeOp|TensorIntrinCall)", "te.ComputeOp, te.ExternOp"),
    (r"te\.(tag\.)?TagScope", "te.tag_scope(tag)"),
    (r"te\.schedule\.AXIS_SEPARATOR", "te.AXIS_SEPARATOR"),
    (r"te\.autodiff.*", "te.gradient"),
    (r"te\.hybrid\..*", "te.hybrid.script, te.hybrid.build"),
    (r"topi\.(\w+\.)*\w*(legalize|alter_layout|alter_op|infer_layout|alter_int8_common)", _LAYOUTS),
    (r"topi\.(\w+\.)*(tile_and_bind\w*|fuse_and_bind)", _LOOPS),
    (r"topi\.(\w+\.)*tensor_intrin(\..*)?", "te.decl_tensor_intrin; products of bytes are found by the compiler"),
    (r"topi\.(\w+\.)*Workload\w*", "autosched.workload"),
    (r"topi\.image\.(get_\w+|can_convert\w+)", "topi.image.resize1d, topi.image.resize2d, topi.image.resize3d"),
    (r"topi\.cpp.*", "topi: operators are functions of Python's"),
    (r"topi\.hexagon.*", "topi.nn; targets are llvm, c, opencl and cuda"),
    (r"topi\.(\w+\.)*(nms|hybrid)\.?\w*", "topi.vision.non_max_suppression, get_valid_counts"),
    (r"topi\.(adreno|arm_cpu|bifrost|cuda|gpu|generic|hls|intel_graphics|mali|rocm|x86|nn|sparse|vision)\..*",
     _OPERATOR),
    (r"topi\.(searchsorted\.)?binary_search", "topi.searchsorted"),
    (r"topi\.utils\.(within_index|make_idx)", "te.all of the conditions"),
    (r"(ir|relay)\.(\w+\.)*(\w*Type\w*|Constructor|type_relation)", _TYPES),
    (r"(ir\.)?(\w+\.)*(\w*Pool\w*)", "intermediates share memory by themselves (share_storage)"),
    (r"ir\.(\w+\.)*(Attrs|DictAttrs|make_node)", "dictionaries of Python's"),
    (r"ir\.(\w+\.)*(\w*Span|SourceName|SourceMap)", "errors name the line of the caller"),
    (r"ir\.(\w+\.)*(Node|BaseExpr|RelayExpr|BaseFunc|EnvFunc|is_relax_expr)", "te.Tensor, tir.PrimExpr, tir.PrimFunc"),
    (r"ir\.(\w+\.)*(CallingConv|\w*GlobalInfo|VDevice|supply)\b.*", "a function has its name, and a module its target"),
    (r"ir\.(\w+\.)*(get_first_structural_mismatch)", "tvm.ir.assert_structural_equal"),
    (r"(ir\.)?(\w+\.)*(ModulePass|ApplyPassToFunction)", "tvm.transform.module_pass"),
    (r"ir\.instrument\.PassPrintingInstrument", "tvm.instrument.PrintAfterAll"),
    (r"runtime\.(\w+\.)*(Object\w*|Scriptable|convert_to_object|PackedFuncHandle)",
     "values are Python's: tuples, dictionaries, functions"),
    (r"(container\.getitem_helper|register_object|register_extension|Object|DataTypeCode|tvm_wrap_excepthook)",
     "values are Python's: tuples, dictionaries, functions"),
    (r"(runtime\.(\w+\.)*|nd\.)?(vulkan|metal|mtl|vpi|rocm|ext_dev|hexagon|webgpu)",
     "tvm.cpu(), tvm.opencl(), tvm.cuda()"),
    (r"runtime\.(\w+\.)*(DataTypeCode)", "tvm.DataType"),
    (r"runtime\.(\w+\.)*(Report)", "module.time_evaluator(...)"),
    (r"runtime\.(\w+\.)*(system_lib|load_static_library|ModulePropertyMask)", "tvm.runtime.load_module(path)"),
    (r"(target\.)?codegen\.build_module", "tvm.build"),
    (r"(target\.)?(\w+\.)*(llvm_\w+|x86|target_has_features)\b.*", _HOST),
    (r"target\.(\w+\.)*(stm32|micro|\w*MODELS|\w*SERIES|adreno|VirtualDevice|virtual_device|\w*compilation_config)",
     'tvm.target.Target("llvm -mtriple=...") or Target("c")'),
    (r"auto_scheduler\.(\w+\.)*(\w*(dmatrix|DMatrix|pack_sum|rmse|Callback)\w*|xgb|random_fill_float)",
     "auto_scheduler.XGBModel: fit, update, predict"),
    (r"auto_scheduler\.(\w+\.)*((de)?serialize_args|\w*traceback\w*|[A-Z_0-9]+)", "nothing: it is TVM's own"),
    (r"autotvm\.(\w+\.)*(\w*Loader|run_through_rpc|\w*verify_pass|Executor)",
     "autotvm.LocalBuilder, autotvm.LocalRunner"),
    (r"autotvm\.tophub\..*", "tophub.context(target, extra_files=[log])"),
    (r"autotvm\.(\w+\.)*(xgb|Records|[A-Z_0-9]+)", "nothing: it is TVM's own"),
    (r"contrib\.cc\..*", "cc.create_shared(path, objects, options, cc=COMMAND)"),
    (r"contrib\.graph_runtime\b.*", "tvm.contrib.graph_executor"),
    (r"ir\.(base\.)?deprecated", "warnings.warn(text, DeprecationWarning)"),
    (r"runtime\.name_transforms\b.*", "module.export_library(path), whose functions have the names of those built"),
    (r"contrib\.tedd\..*", "tedd.viz_dataflow_graph, viz_schedule_tree, viz_itervar_relationship_graph"),
    (r"contrib\.sparse\..*", "contrib.sparse.placeholder"),
    (r"contrib\.utils\.(FileLock|filelock|Directory\w*)", "contrib.utils.tempdir()"),
    (r"driver\.build_module\.(get_binds|OperatorModule)", "tvm.lower(s, args, binds=..), tvm.build"),
    (r"driver\.tvmc\..*", _COMMANDS),
    (r"testing\.(aot|usmp|popen_pool|runner|tir)\b.*", "tvm.build, and module(..) or module.time_evaluator(..)"),
    (r"testing\.(\w+\.)*\w+", "tvm.testing.assert_allclose, and marks of pytest: requires_llvm, parametrize_targets"),
    (r"support\b.*", "python -m autosched doctor"),
)  # fmt: skip


def of_family(dotted: str) -> str:
    """What there is instead of a name of TVM's, less `tvm.`; empty where no family has it.

    >>> of_family("tir.ptx_mma").partition(";")[2]
    ' there are no tensor cores'
    """
    return next((instead for pattern, instead in FAMILIES if re.fullmatch(pattern, dotted)), "")
