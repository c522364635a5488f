"""topi's schedules: one function for every operator and target, and the modules that TVM has them in.

TVM has a function for each operator and kind of machine (`topi.x86.schedule_conv2d_nhwc`). Here all of them look at the
operations: what a reduction costs is scheduled by the model of this machine, as `build` does without a record, and
element-wise programs get vectors and threads, or work-items.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

from autosched.errors import UsageError
from autosched.predicting import auto, is_on
from autosched.schedule.schedule import Schedule, create_schedule
from autosched.target import Target
from autosched.te.extern import ExternOp
from autosched.te.scan import ScanOp
from autosched.te.tensor import Operation, Tensor
from autosched.tir.schedule import Schedule as TirSchedule
from autosched.topi.generic import schedule as simple_schedule
from autosched.tvm._missing import missing
from autosched.tvm.topi.workloads import NAMES

#: kind of machine -> the target of its schedules where none is current
MACHINES = {
    **dict.fromkeys(("generic", "x86", "arm_cpu", "hls", "hexagon"), "llvm"),
    **dict.fromkeys(("cuda", "gpu", "rocm", "mali", "bifrost", "intel_graphics", "adreno"), "opencl"),
}


def schedule(outs: Tensor | Operation | Sequence[Any], target: Any = None) -> Schedule:
    """Schedule the computation of some outputs for a target: by default the current one, or the CPU.

    A choice by the model takes up to some seconds the first time and is remembered; `AUTOSCHED_PREDICT=0` leaves
    it out.

    >>> from autosched.tvm import te, topi
    >>> A = te.placeholder((64, 64), name="A")
    >>> s = topi.x86.schedule_injective(topi.nn.relu(A))
    >>> [loop.kind for loop in s.stages[-1].loops]
    ['parallel', 'serial', 'vectorize']
    """
    to = Target.parse(target or Target.current(allow_none=True) or "llvm")
    given = [outs] if isinstance(outs, (Tensor, Operation)) else list(outs)
    tensors = [t for out in given for t in (out.outputs if isinstance(out, Operation) else [out])]
    s = create_schedule(tensors)
    has_loops_of_its_own = any(isinstance(stage.op, (ScanOp, ExternOp)) for stage in s.stages)
    if is_on() and not has_loops_of_its_own and any(stage.reduce_axis for stage in s.stages):
        return auto(s, to)
    return simple_schedule(tensors, to)


def _by_position(machine: str, *args: Any, **kwargs: Any) -> Schedule | TirSchedule:
    """TVM's schedules take outputs; templates a configuration before them, and some an input or a flag beside. Some
    take a `tir.Schedule` to go on with, and return it."""
    values = (*args, *kwargs.values())
    given = [a for a in values if isinstance(a, (Tensor, Operation, TirSchedule)) or _are_outputs(a)]
    current = Target.current(allow_none=True)
    wanted = Target(MACHINES[machine])
    is_fit = current is not None and (machine == "generic" or current.is_gpu_style == wanted.is_gpu_style)
    to = current if is_fit else wanted
    if given and isinstance(given[-1], TirSchedule):
        auto(given[-1].schedule, to, effort="quick" if is_on() else "none")
        return given[-1]
    return schedule(given[-1] if given else args, to)


def _are_outputs(a: Any) -> bool:
    return isinstance(a, (list, tuple)) and bool(a) and all(isinstance(t, (Tensor, Operation)) for t in a)


class Machine(ModuleType):
    """`topi.x86` and its like: every `schedule_..` of TVM's, and the operators by the names that it has there."""

    def __init__(self, package: str, name: str, modules: Sequence[ModuleType]) -> None:
        super().__init__(f"{package}.{name}", f"`tvm.topi.{name}`: schedules, and operators.")
        self.__spec__ = ModuleSpec(self.__name__, None)
        self.__path__: list[str] = []
        self._machine, self._modules = name, modules
        self._refuse = missing(f"topi.{name}", vars(modules[0]))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("schedule_") or name == "default_schedule":
            return partial(_by_position, self._machine)
        found = self.operator(name)
        if name in FILES:
            return sys.modules[f"{self.__name__}.{name}"]
        return without_configuration(found) if found else self._refuse(name)

    def operator(self, name: str) -> Callable[..., Any] | None:
        """What TVM computes here by this name: `compute_conv2d_nhwc_spatial_pack` is `conv2d_nhwc`, since how it is
        computed is the schedule's business."""
        for spelling in _operator_names(name):
            for module in self._modules:
                found = vars(module).get(spelling)
                if callable(found) and not isinstance(found, type):
                    return cast(Callable[..., Any], found)
        return None


class File(ModuleType):
    """`topi.nn.conv2d`, where TVM has a file and a function of one name: both."""

    def __init__(self, parent: ModuleType, name: str) -> None:
        super().__init__(f"{parent.__name__}.{name}", f"Names of `{parent.__name__}`.")
        self.__spec__ = ModuleSpec(self.__name__, None)
        self._parent = parent
        self._operator = parent.operator(name) if isinstance(parent, Machine) else vars(parent).get(name)
        vars(self).update(NAMES.get(name, {}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name.startswith(("_", "fallback_")):
            return _internal(f"{self.__name__}.{name}")
        return getattr(self._parent, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._operator is None:
            raise UsageError(f"{self.__name__} is a module", asked="a call of it", legal="one of its functions")
        return self._operator(*args, **kwargs)


def _internal(name: str) -> Callable[..., Any]:
    """A function of TVM's that is no part of its interface: programs may import it, and not call it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        legal = "autotvm.get_config() and topi.generic.schedule_conv2d_nchw: the model of this machine chooses"
        raise UsageError("it is a part of TVM's own schedules", asked=name.replace("autosched.", ""), legal=legal)

    return call


#: parts of names that say how something is computed, not what
_WAYS = (
    "_spatial_pack", "_winograd", "_winograd_direct", "_winograd_tensorcore", "_tensorcore", "_cudnn", "_cublas",
    "_nopack", "_pack", "_dynamic", "_mkl", "_cblas", "_mkldnn", "_small_batch", "_large_batch", "_int8", "_hybrid",
    "_avx_common", "_padded", "_gemm", "_sme", "_SME", "_SVE", "_TIR",
    "_quantized_interleaved", "_quantized_native",
)  # fmt: skip


def _operator_names(name: str) -> list[str]:
    """What an operator is called: as it is, and without the way in which it is computed."""
    plain = name.removeprefix("compute_").replace("NHWC", "nhwc")
    names = [name, plain]
    while (end := next((way for way in _WAYS if plain.endswith(way)), None)) is not None:
        plain = plain.removesuffix(end)
        names.append(plain)
    return names


def without_configuration(operator: Any) -> Any:
    """The operator, which may also be called as TVM's templates are: with a configuration in front."""

    def call(*args: Any, **kwargs: Any) -> Any:
        first = args[0] if args else None
        is_data = isinstance(first, (Tensor, list, tuple, int, float, str))
        return operator(*(args if is_data else args[1:]), **kwargs)

    call.__name__, call.__doc__ = getattr(operator, "__name__", ""), operator.__doc__
    return call


#: files of TVM's whose names programs import, in `nn` and in each of MACHINES
FILES = (
    "argwhere batch_matmul batch_norm batch_to_space_nd bitserial_conv2d bitserial_dense bnn concat conv1d conv2d "
    "conv1d_transpose conv2d_avx_1x1 conv2d_avx_common conv2d_direct conv2d_int8 conv2d_transpose conv2d_winograd "
    "conv3d conv3d_transpose correlation default deformable_conv2d dense depth_to_space depthwise_conv2d dilate "
    "elemwise extern fifo_buffer flatten group_norm image injective instance_norm layer_norm local_response_norm loss "
    "lstm mapping math matmul nn pad pooling qnn reduction rms_norm scatter_elements search searchsorted signal "
    "softmax sort space_to_batch_nd space_to_depth sparse tensor_intrin unique upsampling vision winograd_util"
).split()


def install(package: str, operators: ModuleType, others: Sequence[ModuleType]) -> dict[str, Machine]:
    """Make the modules of MACHINES in a package, and those of FILES."""
    made = {name: Machine(package, name, [operators, *others]) for name in MACHINES}
    files = [File(parent, name) for parent in (operators, *made.values()) for name in FILES]
    for module in (*made.values(), *files):
        sys.modules.setdefault(module.__name__, module)  # winograd_util is a module of its own in nn
    return made


def files(names: Mapping[ModuleType, str]) -> None:
    """Let names be imported from files of TVM's, too: module here -> files that it is in TVM."""
    for parent, inside in names.items():
        for name in inside.split():
            sys.modules.setdefault(f"{parent.__name__}.{name}", File(parent, name))
