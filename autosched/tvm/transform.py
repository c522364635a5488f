"""`tvm.transform` and `tvm.ir.transform`: passes of users, and `PassContext`, which says how the built-in ones run.

    @tvm.tir.transform.prim_func_pass(opt_level=0)
    def vectorize8(f, mod, ctx): return f.with_body(...)

    with tvm.transform.PassContext(config={"tir.add_lower_pass": [(1, vectorize8)]}):
        tvm.build(s, args)

A context holds for what is lowered inside its `with`, in this thread: it runs the passes of the pipeline
(`lower.pipeline.PASS_RUNNER`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias, TypedDict, Unpack, overload

from autosched.errors import UsageError, did_you_mean
from autosched.ir.stmt import For, Function, Stmt, Store, children, map_stmt
from autosched.lowering.pipeline import PASS_RUNNER, PASSES, Program
from autosched.tir.module import IRModule
from autosched.tvm._missing import missing

#: phase -> the built-in pass that user passes of this phase follow
PHASES = {0: "bind_knobs", 1: "flatten", 2: "unroll", 3: "patterns"}

#: TVM's name of a pass -> the built-in passes that do its work
TVM_NAMES: dict[str, tuple[str, ...]] = {
    "tir.Simplify": ("simplify", "simplify_flat", "simplify_last"),
    "tir.LoopPartition": ("partition",),
    "tir.FlattenBuffer": ("flatten",),
    "tir.StorageFlatten": ("flatten",),
    "tir.InjectVirtualThread": ("inject_vthreads",),
    "tir.StorageRewrite": ("share_storage",),
    "tir.VectorizeLoop": ("vectorize",),
    "tir.UnrollLoop": ("unroll",),
}

#: TVM's passes over programs that no pass of its own here does the work of: there is nothing to leave out
WITHOUT_COUNTERPART = frozenset(
    "AnnotateDeviceRegions AnnotateEntryFunc ApplyLayoutTransforms BF16CastElimination BF16ComputeLegalize "
    "BF16Legalize BF16Promote BF16StorageLegalize BF16TypeLowering BindTarget CombineContextCall "
    "CommonSubexprElimTIR CompactBufferAllocation ConvertBlocksToOpaque ConvertForLoopsToSerial ConvertSSA "
    "CoProcSync DecorateDeviceScope DefaultGPUSchedule ExtractPrimFuncConstants FP8ComputeLegalize "
    "FP8StorageLegalize Filter ForceNarrowIndexToInt32 HoistExpression HoistIfThenElse InferFragment "
    "InjectCopyIntrin InjectDoubleBuffer InjectPTXAsyncCopy InjectPermutedLayout InjectPrefetch "
    "InjectRollingBuffer InjectSoftwarePipeline InlinePrivateFunctions InstallDebugSpans InstrumentBoundCheckers "
    "InstrumentProfileIntrinsics LegalizePackedCalls LiftAttrScope LiftThreadBinding LowerAutoCopy "
    "LowerCrossThreadReduction LowerCustomDatatypes LowerDeviceKernelLaunch LowerDeviceStorageAccessInfo "
    "LowerInitBlock LowerMatchBuffer LowerOpaqueBlock LowerTVMBuiltin LowerThreadAllreduce LowerWarpMemory "
    "MakePackedAPI MakeUnpackedAPI ManifestSharedMemoryLocalStage MergeDynamicSharedMemoryAllocations "
    "MergeSharedMemoryAllocations NarrowDataType PlanAndUpdateBufferAllocationLocation PointerValueTypeRewrite "
    "ReduceBranchingThroughOvercompute RemoveAssume RemoveNoOp RemoveStoreUndef RemoveWeightLayoutRewriteBlock "
    "RenormalizeSplitPattern RewriteUnsafeSelect SkipAssert SplitHostDevice TextureFlatten ThreadSync "
    "TransformMmaBufferLayout UnifyThreadBinding VerifyMemory VerifyVTCMLimit".split()
)

#: built-in passes that may be left out: without `vectorize` and `unroll`, such loops are plain loops
OPTIONAL = tuple(
    "simplify partition share_storage simplify_flat vectorize stop_when_settled keep_truths_in_bytes unroll "
    "align_streams simplify_last patterns".split()
)

_UNROLL = {"auto_max_step": 0, "auto_max_depth": 8, "auto_max_extent": 0, "explicit_unroll": True}


@dataclass(frozen=True)
class PassInfo:
    """The name and the level of a pass, for instruments. A `Sequential` leaves out passes above the context's level."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()


#: what a pass does to a module in a context
Run: TypeAlias = Callable[[IRModule, "PassContext"], IRModule]


class Pass:
    """A function from module to module. Call it with an IRModule."""

    def __init__(self, info: PassInfo, run: Run) -> None:
        self.info = info
        self._run = run

    def __call__(self, module: IRModule) -> IRModule:
        """Return the module after this pass; the instruments of the current context are told."""
        return PassContext.current().instrumented(self.info, module, self._run)

    def __repr__(self) -> str:
        return f"Pass({self.info.name}, opt_level={self.info.opt_level})"


class _Options(TypedDict, total=False):
    opt_level: int
    name: str | None
    required: Iterable[str]
    traceable: bool


class _Decorator(Protocol):
    @overload
    def __call__(self, what: type[object]) -> Callable[..., Pass]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, what: Callable[..., object]) -> Pass: ...


class _PassMaker(Protocol):
    @overload
    def __call__(  # type: ignore[overload-overlap]  # a class is callable, too: the first that fits counts
        self, pass_func: type[object], **options: Unpack[_Options]
    ) -> Callable[..., Pass]: ...
    @overload
    def __call__(self, pass_func: Callable[..., object], **options: Unpack[_Options]) -> Pass: ...
    @overload
    def __call__(self, pass_func: None = None, **options: Unpack[_Options]) -> _Decorator: ...


def _pass_maker(wrap: Callable[[Callable[..., Any], str], Run]) -> _PassMaker:
    def make(
        pass_func: Callable[..., Any] | None = None,
        opt_level: int = 0,
        name: str | None = None,
        required: Iterable[str] = (),
        traceable: bool = False,
    ) -> Any:
        def decorate(what: Any) -> Any:
            called = name or what.__name__
            info = PassInfo(called, opt_level, tuple(required or ()))
            if not isinstance(what, type):
                return Pass(info, wrap(what, called))

            def construct(*args: Any, **kwargs: Any) -> Pass:
                return Pass(info, wrap(_transform_method(what(*args, **kwargs)), called))

            construct.__name__, construct.__doc__ = what.__name__, what.__doc__
            return construct

        return decorate if pass_func is None else decorate(pass_func)

    return make


def _transform_method(instance: Any) -> Callable[..., Any]:
    found = getattr(instance, "transform_function", None) or getattr(instance, "transform_module", None)
    if found is None:
        raise UsageError(
            "the class has no method transform_function or transform_module",
            asked=f"pass {type(instance).__name__}",
            legal="def transform_function(self, f, mod, ctx): return f, or a function in place of the class",
        )
    return found


def _on_functions(transform: Callable[..., Any], name: str) -> Run:
    def run(module: IRModule, context: PassContext) -> IRModule:
        changed: dict[str, Any] = {}
        for key in module:
            changed[key] = transform(module[key], module, context)
            if not isinstance(changed[key], type(module[key])):
                raise UsageError(
                    f"it returned {changed[key]!r}", asked=f"pass {name}", legal="a function: f.with_body(...), or f"
                )
        return IRModule(changed, module.attrs)

    return run


def _on_module(transform: Callable[..., Any], name: str) -> Run:
    def run(module: IRModule, context: PassContext) -> IRModule:
        changed = transform(module, context)
        if not isinstance(changed, IRModule):
            raise UsageError(f"it returned {changed!r}", asked=f"pass {name}", legal="an IRModule")
        return changed

    return run


#: Decorator: make a pass over the functions of a module from `(f, mod, ctx) -> f`. Also with arguments,
#: `@function_pass(opt_level=1, name="mine")`, and on a class with a method `transform_function`.
function_pass = _pass_maker(_on_functions)
#: Decorator: make a pass from `(mod, ctx) -> mod`.
module_pass = _pass_maker(_on_module)


class Sequential(Pass):
    """Runs passes one after the other, less those above the context's `opt_level`."""

    def __init__(
        self,
        passes: Sequence[Pass],
        opt_level: int = 0,
        name: str = "sequential",
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> None:
        self.passes = tuple(passes)
        super().__init__(PassInfo(name, opt_level, tuple(required or ())), self._all)

    def _all(self, module: IRModule, context: PassContext) -> IRModule:
        for step in self.passes:
            if context.enables(step.info):
                module = step(module)
        return module


# -- options ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """A key of `config`: its default, its meaning, and a check that returns what is wrong with a value, or ""."""

    default: Any
    meaning: str
    check: Callable[[Any], str]


def _boolean(value: Any) -> str:
    return "" if isinstance(value, (bool, int)) and value in (0, 1) else "it is not True or False"


def _only(legal: Any, why: str) -> Callable[[Any], str]:
    return lambda value: _boolean(value) or ("" if bool(value) is legal else why)


def _unroll_options(value: Any) -> str:
    if not isinstance(value, Mapping):
        return "it is not a dict"
    unknown = [k for k in value if k not in _UNROLL]
    return f"no option {unknown[0]!r}: there are {', '.join(_UNROLL)}" if unknown else ""


def _user_passes(value: Any) -> str:
    for entry in value if isinstance(value, (list, tuple)) else [value]:
        if not (isinstance(entry, (list, tuple)) and len(entry) == 2 and entry[0] in PHASES):
            return f"{entry!r} is not a pair of a phase, {', '.join(map(str, PHASES))}, and a pass"
        if not isinstance(entry[1], Pass):
            return f"{entry[1]!r} is not a pass: decorate it with @tvm.tir.transform.prim_func_pass(opt_level=0)"
    return ""


#: the keys of `config` that have an effect here, and those whose only value is what happens anyway
OPTIONS: dict[str, Option] = {
    "tir.add_lower_pass": Option((), "[(phase, pass)]: passes of your own, after each phase", _user_passes),
    "tir.disable_vectorize": Option(False, "vector loops run one iteration after the other", _boolean),
    "tir.disable_storage_rewrite": Option(False, "intermediates do not share memory", _boolean),
    "tir.UnrollLoop": Option({}, f"which loops are written out: a dict with some of {list(_UNROLL)}", _unroll_options),
    "tir.LoopPartition": Option(
        {},
        "loops are partitioned, constant ones too",
        lambda v: "" if v in ({}, {"partition_const_loop": True}) else "constant loops are always partitioned",
    ),
    "tir.disable_cse_tir": Option(
        True, "expressions are shared by construction; there is no such pass to disable", _boolean
    ),
    "tir.noalias": Option(
        True,
        "outputs do not overlap other arguments",
        _only(True, "generated code relies on it, and calls with overlapping arrays are refused"),
    ),
    "tir.disable_assert": Option(
        False,
        "arguments are checked",
        _only(False, "a call with arrays of known shapes repeats no check; others are always checked"),
    ),
    "te.keep_schedule_record": Option(True, "every schedule keeps its trace: print(s.trace)", _boolean),
}

_ELSEWHERE = {
    "tir.instrument_bound_checkers": "autosched.runtime.interpreter runs a function and checks every access",
    "tir.debug_keep_trivial_loop": "Structure.after('structure') has every loop that lowering keeps",
    "tir.enable_buffer_level_predication": "split(..., tail=...) says what happens at the edge",
    "tir.use_async_copy": "there is no asynchronous copy; cache_read(..., 'shared') copies cooperatively",
    "tir.detect_global_barrier": "work-groups cannot wait for one another; compute_root makes another kernel",
    "tir.merge_static_smem": "storage in shared memory is always reused where lives do not overlap",
}


def _check_config(config: Mapping[str, Any]) -> None:
    for key, value in config.items():
        asked = f"PassContext(config={{{key!r}: {value!r}}})"
        if key not in OPTIONS:
            hint = _ELSEWHERE.get(key) or did_you_mean(key, OPTIONS).rstrip()
            raise UsageError(
                f"there is no option {key!r}",
                asked=asked,
                legal=f"{hint}{'; ' if hint else ''}options: {', '.join(OPTIONS)}",
            )
        wrong = OPTIONS[key].check(value)
        if wrong:
            raise UsageError(wrong, asked=asked, legal=f"{key}: {OPTIONS[key].meaning}")


def _check_disabled(names: Iterable[str]) -> None:
    for name in sorted(names):
        why = ""
        if name in PASSES and name not in OPTIONAL:
            why = f"code generation relies on what {name} does"
        elif name.startswith("tir.") and name.removeprefix("tir.") not in WITHOUT_COUNTERPART:
            why = f"there is no pass {name!r}"
        if why:
            legal = f"passes that may be left out: {', '.join(OPTIONAL)}; of TVM's names: {', '.join(TVM_NAMES)}"
            raise UsageError(why, asked=f"PassContext(disabled_pass=[{name!r}])", legal=legal)


def _built_in(names: Iterable[str]) -> set[str]:
    """The built-in passes of these names, ours or TVM's; other names as they are."""
    found: set[str] = set()
    for name in names:
        found.update(TVM_NAMES.get(name, TVM_NAMES.get(f"tir.{name}", (name,))))
    return found


# -- the context --------------------------------------------------------------------------------------


class PassContext:
    """Options of passes while `with PassContext(...)` is open; contexts nest, the innermost counts.

    opt_level:     the highest level of user passes that run
    required_pass: names of passes that run whatever their level
    disabled_pass: names of passes to leave out, ours (`show --after`) or TVM's ("tir.UnrollLoop")
    instruments:   see `tvm.instrument.PassInstrument`
    config:        see `OPTIONS`

    Raises UsageError for an unknown option or value, and for a pass that cannot be left out.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.opt_level = opt_level
        self.required_pass = frozenset(_built_in(required_pass or ()))
        self.disabled_pass = frozenset(_built_in(disabled_pass or ()))
        self.instruments: list[Any] = list(instruments or ())
        self.config = dict(config or {})
        self._tokens: list[Any] = []
        _check_config(self.config)
        _check_disabled(self.disabled_pass)

    @staticmethod
    def current() -> PassContext:
        """Return the innermost context, or one where nothing is set."""
        runner = getattr(PASS_RUNNER.get(), "__self__", None)
        return runner if isinstance(runner, PassContext) else _NOTHING_SET

    def option(self, key: str) -> Any:
        """Return the value of a key of `config`, or its default."""
        return self.config.get(key, OPTIONS[key].default)

    def unroll_options(self) -> dict[str, Any]:
        return {**_UNROLL, **self.option("tir.UnrollLoop")}

    def __enter__(self) -> PassContext:
        entered: list[Any] = []
        try:
            for x in self.instruments:
                _tell(x, "enter_pass_ctx")
                entered.append(x)
        except BaseException:
            for x in entered:
                _tell(x, "exit_pass_ctx")
            raise
        self._tokens.append(PASS_RUNNER.set(self.run_pass))
        return self

    def __exit__(self, *exc: object) -> None:
        PASS_RUNNER.reset(self._tokens.pop())
        for x in self.instruments:
            _tell(x, "exit_pass_ctx")

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Exit the instruments so far and enter these."""
        for x in self.instruments:
            _tell(x, "exit_pass_ctx")
        self.instruments = list(instruments or ())
        for x in self.instruments:
            _tell(x, "enter_pass_ctx")

    def enables(self, info: PassInfo) -> bool:
        """Return whether a user pass runs: not disabled, and required or not above the context's level."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or info.opt_level <= self.opt_level

    def leaves_out(self, built_in: str) -> bool:
        """Return whether options or `disabled_pass` take a built-in pass away."""
        return (
            built_in in self.disabled_pass
            or (built_in == "vectorize" and bool(self.option("tir.disable_vectorize")))
            or (built_in == "share_storage" and bool(self.option("tir.disable_storage_rewrite")))
            or (built_in == "unroll" and not self.unroll_options()["explicit_unroll"])
        )

    def run_pass(self, p: Program, name: str, run: Callable[[Program], Program]) -> Program:
        """Run a built-in pass of the pipeline, and the user passes of its phase."""
        p = run_as_pass(p, name, run)
        for phase, step in self.option("tir.add_lower_pass"):
            if PHASES[phase] == name and self.enables(step.info):
                p = replace(p, function=_function_of(step(_module_of(p)), step))
        return p

    def instrumented(self, info: PassInfo, module: IRModule, run: Run) -> IRModule:
        """Run a pass and tell the instruments before and after; leave it out where one says no."""
        if not all(_tell(x, "should_run", module, info) is not False for x in self.instruments):
            return module
        for x in self.instruments:
            _tell(x, "run_before_pass", module, info)
        result = run(module, self)
        for x in self.instruments:
            _tell(x, "run_after_pass", result, info)
        return result

    def __repr__(self) -> str:
        return f"PassContext(opt_level={self.opt_level}, config={self.config})"


#: options of `build_config` that say what holds here anyway, or nothing
_NO_MATTER = (
    "data_alignment offset_factor partition_const_loop double_buffer_split_loop restricted_func detect_global_barrier "
    "dump_pass_ir disable_assert disable_select_rewriting"
).split()


def build_config(**options: Any) -> PassContext:
    """The context that TVM 0.5 to 0.7 called so: `auto_unroll_max_step=64` is now "tir.UnrollLoop", and so on.

    Raises UsageError for an unknown option.
    """
    unroll = {"explicit_unroll": options.pop("unroll_explicit")} if "unroll_explicit" in options else {}
    unroll |= {k.replace("unroll_", ""): options.pop(k) for k in [*options] if k.startswith("auto_unroll_")}
    config: dict[str, Any] = {"tir.UnrollLoop": unroll} if unroll else {}
    if "add_lower_pass" in options:
        options["add_lower_pass"] = [(phase, _of_statements(step)) for phase, step in options["add_lower_pass"]]
    return PassContext(config=config | {f"tir.{k}": v for k, v in options.items() if k not in _NO_MATTER})


def _of_statements(step: Any) -> Any:
    """A pass, of a function from statement to statement as well."""
    if isinstance(step, Pass) or not callable(step):
        return step
    return function_pass(lambda f, mod, ctx: f.with_body(step(f.body)), opt_level=0, name=step.__name__)


def _tell(instrument: Any, event: str, *args: Any) -> Any:
    method = getattr(instrument, event, None)
    return None if method is None else method(*args)


_NOTHING_SET = PassContext()


def run_as_pass(p: Program, name: str, run: Callable[[Program], Program]) -> Program:
    """Run a built-in pass with the options and instruments of the current context."""
    context = PassContext.current()
    after: Program | None = None

    def built_in(module: IRModule, context: PassContext) -> IRModule:
        nonlocal after
        if context.leaves_out(name):
            after = _leave_out(p, name)
        elif name == "unroll":  # loops to write out are chosen just before that is done
            o = context.unroll_options()
            limits = o["auto_max_step"], o["auto_max_depth"], o["auto_max_extent"]
            after = run(p.with_body(choose_unrolled(p.function.body, *limits)))
        else:
            after = run(p)
        return _module_of(after)

    context.instrumented(PassInfo(name), _module_of(p), built_in)
    if after is None:  # an instrument said no
        after = _leave_out(p, name) if name in OPTIONAL else run(p)
    return after


def _module_of(p: Program) -> IRModule:
    return IRModule({p.function.name if p.function.name.isidentifier() else "main": p.function})


def _function_of(module: IRModule, step: Pass) -> Function:
    functions = list(module.values())
    if len(functions) != 1 or not isinstance(functions[0], Function):
        raise UsageError(
            f"it left {len(functions)} functions",
            asked=f"pass {step.info.name}",
            legal="the one function that is being lowered",
        )
    return functions[0]


def _leave_out(p: Program, name: str) -> Program:
    """The program without a pass: loops that it would have written out, or made vectors of, are plain loops."""
    if name not in ("vectorize", "unroll"):
        return p

    def serial(s: Stmt) -> Stmt:
        return replace(s, kind="serial") if isinstance(s, For) and s.kind == name else s

    return p.with_body(map_stmt(p.function.body, on_stmt=serial))


# -- which loops to write out -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Size:
    """The stores of an unrolled statement, the depth of its unrolled loops, and that of loops that stay."""

    steps: int = 0
    unrolled: int = 0
    loops: int = 0

    def beside(self, other: _Size) -> _Size:
        return _Size(self.steps + other.steps, max(self.unrolled, other.unrolled), max(self.loops, other.loops))


def choose_unrolled(s: Stmt, max_step: int, max_depth: int = 8, max_extent: int = 0) -> Stmt:
    """Mark innermost serial loops for unrolling, by TVM's rule of `tir.UnrollLoop`.

    A loop is marked if that makes at most `max_step` stores, or if it has at most `max_extent` iterations; no more
    than `max_depth` such loops in one another. With `max_step` and `max_extent` 0 none is.
    """
    if max_step <= 0 and max_extent <= 0:
        return s
    sizes: dict[Stmt, _Size] = {}

    def measure(s: Stmt) -> Stmt:
        size = _Size(steps=int(isinstance(s, Store)))
        for c in children(s):
            size = size.beside(sizes[c])
        if isinstance(s, For):
            s, size = with_mark(s, size)
        sizes[s] = size
        return s

    def with_mark(s: For, size: _Size) -> tuple[For, _Size]:
        times = s.extent.value if s.extent.op == "const" else -1
        fits = times >= 0 and (times * size.steps <= max_step or times <= max_extent)
        chosen = s.kind == "serial" and fits and size.loops == 0 and size.unrolled < max_depth
        if chosen:
            s = replace(s, kind="unroll")
        if s.kind == "unroll" and times >= 0:
            return s, _Size(size.steps * times, size.unrolled + 1, size.loops)
        return s, replace(size, loops=size.loops + 1)

    return map_stmt(s, on_stmt=measure)


def PrintIR(header: str = "", show_meta_data: bool = False) -> Pass:
    """Return a pass that prints the module, after `header`."""

    @module_pass(opt_level=0, name="PrintIR")
    def show(mod, ctx):  # type: ignore[no-untyped-def]
        print(header, mod, sep="\n" if header else "")
        return mod

    return show


__getattr__ = missing("transform", globals())
