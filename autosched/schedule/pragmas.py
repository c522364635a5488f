"""`pragma`: what is asked of the code for a loop, by the names that TVM gives such requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autosched.errors import UsageError
from autosched.ir.expr import as_expr, is_const
from autosched.schedule.handles import computed, leaf
from autosched.schedule.illegal import Illegal
from autosched.schedule.meaning import keeps_meaning

if TYPE_CHECKING:
    from autosched.schedule.schedule import Schedule
    from autosched.schedule.stage import Stage
    from autosched.schedule.trace import Instruction

__all__ = ["COUNTS", "KEEP_MEANING", "PRAGMAS", "pragma"]

#: pragma -> what it asks of a loop, and what its value means
PRAGMAS = {
    "streaming_store": "what the loop stores goes past the caches: for more than they hold, and read much later",
    "auto_unroll_max_step": "it and the serial loops in it are unrolled as long as that makes at most so many steps",
    "unroll_explicit": "0: unrolled loops in it stay loops, for the compiler to unroll; 1, as anyway: written out",
    "loop_partition_hint": "0: it is not cut into borders and interior; 1, as anyway: it is where that helps",
    "debug_skip_region": "it is left out, to see what the rest costs; what it would have stored has no value",
    "parallel_barrier_when_finish": "all threads meet after it, as they do after each parallel loop",
}
#: pragmas that change nothing but the speed; a stored schedule may not use the others
KEEP_MEANING = (
    "streaming_store",
    "auto_unroll_max_step",
    "unroll_explicit",
    "loop_partition_hint",
    "parallel_barrier_when_finish",
)
#: pragmas whose value is a number
COUNTS = ("auto_unroll_max_step",)
#: pragmas whose value is 0 or 1
_FLAGS = ("unroll_explicit", "loop_partition_hint")

#: pragma of TVM -> why it means nothing here, and what does
_ELSEWHERE = {
    "parallel_launch_point": (
        "each parallel loop starts its own threads, which wait for work in between",
        "parallel(loop) of the loop whose iterations are shared out",
    ),
    "parallel_stride_pattern": (
        "iterations of a parallel loop are handed out in chunks, by a counter",
        "parallel(loop); to give each thread every n-th iteration, split the loop by nparts and parallel the inner one",
    ),
    "import_c": (
        "functions come by their names, not with a loop",
        "autosched.runtime.registry.import_c(source), and call_extern of what it defines",
    ),
    "import_llvm": (
        "functions come by their names, not with a loop",
        "autosched.runtime.registry.import_llvm(ir), and call_extern of what it defines",
    ),
    "tensor_core": ("no pass looks for matrix products", "tensorize(loop, intrinsic)"),
}


def _doubt(i: Instruction) -> str:
    """Why a stored `pragma` may change results. One that nobody knows is refused when it is applied."""
    name = i.args[-1]
    return "" if name in KEEP_MEANING or name not in PRAGMAS else PRAGMAS[name]


@keeps_meaning(unless=_doubt)
def pragma(s: Schedule, stage: Stage, loop: Any, pragma_type: Any, *, pragma_value: Any = None) -> None:
    """Ask something of the code for a loop: see `PRAGMAS`.

    for x in N: B[x] = f(x)   --pragma(x, "streaming_store")->   for x in N: stream B[x] = f(x)

    `streaming_store` saves reading what is about to be overwritten, and leaves the caches to data
    that is needed again. It is for whole vectors on x86; other stores, and other targets, take no
    notice. `auto_unroll_max_step` counts the stores of all copies; loops are unrolled from the inside
    out, and those whose extent is no number stay.
    """
    computed(stage)
    chosen = leaf(stage, loop)
    if pragma_type in _ELSEWHERE:
        why, legal = _ELSEWHERE[pragma_type]
        raise Illegal(f"{pragma_type} means nothing here: {why}", legal)
    if pragma_type not in PRAGMAS:
        raise Illegal(f"no pragma {pragma_type!r}", "legal: " + "; ".join(f"{k}: {v}" for k, v in PRAGMAS.items()))
    if pragma_type == "streaming_store" and stage.reduce_axis:
        raise Illegal(
            f"{stage.name} is a reduction: it reads back what it stores",
            f"s.cache_write({stage.name!r}, 'local'), and the pragma on the copy that {stage.name} becomes",
        )
    text = pragma_type + _value(pragma_type, pragma_value)
    others = tuple(p for p in chosen.pragmas if p.partition("=")[0] != pragma_type)
    chosen.pragmas = (*others, text)


def _value(pragma_type: str, value: Any) -> str:
    """The value as part of the pragma's text. Raises Illegal for one that it does not take."""
    if pragma_type in COUNTS or (pragma_type in _FLAGS and value is not None):
        legal = "0 or 1" if pragma_type in _FLAGS else "a number of steps, from 0 up"
        try:
            e = as_expr(value)
        except UsageError:
            e = None
        fits = e is not None and e.op == "const" and e.dtype.is_integer | e.dtype.is_bool and int(e.value) >= 0
        if e is None or not fits or (pragma_type in _FLAGS and int(e.value) > 1):
            raise Illegal(f"{value!r} is no value of {pragma_type}", legal)
        return f"={int(e.value)}"
    if value is None or value == "" or is_const(as_expr(value), 1):
        return "=1" if pragma_type in _FLAGS else ""
    raise Illegal(f"{pragma_type} takes no value", f"pragma(loop, {pragma_type!r})")
