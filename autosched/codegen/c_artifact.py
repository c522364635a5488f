"""Lowered functions to artifacts of C: for the CPU that runs them, and for any."""

from __future__ import annotations

from autosched.codegen.artifact import Artifact
from autosched.codegen.c99 import C
from autosched.codegen.c_program import ANYWHERE, HERE, emit_c
from autosched.codegen.dialects import Dialect
from autosched.codegen.gnu_c import gnu_c
from autosched.codegen.llvm import cpu_of, triple_of
from autosched.codegen.signature import Signature, outside_calls
from autosched.errors import TargetError
from autosched.ir.stmt import Function, Stmt, expressions, walk
from autosched.target import Target


def compile_c(function: Function, target: Target) -> Artifact:
    """An artifact whose code is C source. The runtime compiles it, so building needs no compiler.

    The source is GNU C, with vectors, where the CPU is known that it is for. The text `c99` is the same program for any
    CPU and compiler; `inner` and `c99_inner` bring no memory and threads of their own (see `CProgram`).
    """
    dialect = _dialect_of(target) if target.std != "c99" and _has_vectors(function.body) else C
    program = emit_c(function, target.strict, dialect)
    texts = dict(zip(HERE, (program.source, program.inner), strict=True))
    if dialect is not C:
        plain = emit_c(function, target.strict)
        texts |= zip(ANYWHERE, (plain.source, plain.inner), strict=True)
    return Artifact(
        kind="c",
        target=str(target),
        signature=Signature.of(function),
        code=(program.source + program.packed).encode(),
        texts={name: text for name, text in texts.items() if text},
        meta={
            "entry": f"{program.name}_packed",
            "parallel": program.parallel,
            "mcpu": target.mcpu or "native",
            "symbols": outside_calls(function, "extern"),
            **({"strict": True} if target.strict else {}),
        },
    )


def _has_vectors(body: Stmt) -> bool:
    """Whether a statement computes several lanes. One that stores them has them in its index or its value."""
    return any(e.dtype.lanes > 1 for s in walk(body) for e in expressions(s))


def _dialect_of(target: Target) -> Dialect:
    """GNU C for the vector registers of the CPU; C99 where they are not known."""
    try:
        _, features = cpu_of(target)
    except TargetError:  # a name that LLVM does not know
        return C
    has, machine = set(features.split(",")), triple_of(target).partition("-")[0]
    if machine == "aarch64":
        return gnu_c(16, not target.strict)
    if machine != "x86_64":
        return C
    width = 64 if {"+avx512f", "+avx512bw"} <= has else 32 if "+avx2" in has else 16
    return gnu_c(width, "+fma" in has and not target.strict)
