"""A program as one function: kernel after kernel in native code, with weights as one array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autosched.codegen.artifact import Artifact
from autosched.codegen.c_program import c_name
from autosched.codegen.llvm import assembled, cpu_of, target_machine, triple_of
from autosched.codegen.llvm_program import entry_name
from autosched.codegen.llvm_sequence import Address, Step, sequence_text
from autosched.codegen.signature import Param, Signature
from autosched.errors import BuildError
from autosched.graph.memory import ALIGNMENT, padded
from autosched.graph.program import Call, Place, Program
from autosched.graph.weights import described, offsets
from autosched.ir.dtype import dtype
from autosched.target import Target

Array = np.ndarray[Any, Any]

#: functions, macros and files in C around the kernels, whose names nothing else may have
OWN_NAMES = ("run", "now", "bytes_for", "max_threads", "status_of_call", "before", "after", "TRY", "W", "A", "weights")
#: what the names of a program and of a kernel are the beginning of, in C and in machine code
_SUFFIXES = ("", "_in", "_bytes", "_memory", "_weights", "_packed", "_packed_workspace", "_packed_time")


def link(program: Program, target: Target, *, profile: bool = False) -> Artifact:
    """The function of a program of machine code: `NAME(inputs.., weights, outputs..)`, as `signature_of` says.

    Its workspace holds the arena and what the kernels need. It returns 0, or at once what a kernel returns that fails.
    Kernels are not compiled again, so their names must be distinct.

    profile: it has one output more, `nanoseconds`: int64, one for each call of a kernel

    Raises BuildError for kernels that do not fit together.
    """
    check(program, "llvm")
    signature = signature_of(program, profile=profile)
    described = target_machine(*cpu_of(target), triple_of(target))
    text = sequence_text(
        program.name,
        len(signature.params),
        _steps(program),
        padded(program.arena),
        triple=triple_of(target),
        data_layout=str(described.target_data),
        parallel=any(k.meta.get("parallel") for k in program.kernels),
        fails=any(k.meta.get("packed") for k in program.kernels),
        times=len(signature.params) - 1 if profile else None,
    )
    kernels = [f"; {k.meta['entry']}: {k.digest}\n" for k in program.kernels]
    source = "".join([*kernels, text])
    objects = [assembled(text, *cpu_of(target), triple_of(target)), *(o for k in program.kernels for o in k.objects)]
    cpu, features = cpu_of(target)
    meta = {
        "entry": entry_name(program.name),
        "parallel": any(k.meta.get("parallel") for k in program.kernels),
        **{name: sorted({s for k in program.kernels for s in k.meta.get(name, ())}) for name in ("symbols", "packed")},
        "objects": list(map(len, objects)),
        "cpu": cpu,
        "features": features,
        "triple": triple_of(target),
    }
    return Artifact("llvm", str(target), signature, b"".join(objects), {"source": source}, meta)


def symbol_of(program: Program, call: Call) -> str:
    """The function by which machine code calls the kernel."""
    return str(program.kernels[call.kernel].meta["entry"])


def signature_of(program: Program, *, profile: bool = False) -> Signature:
    """What the function of a program takes: inputs, `weights` (bytes; none without weights), outputs.

    Addresses have the alignment that kernels ask for; that of weights is 64.
    """
    inputs = [replace(p, alignment=_alignment(program, "input", i)) for i, p in enumerate(program.inputs)]
    outputs = [replace(p, alignment=_alignment(program, "output", i)) for i, p in enumerate(program.outputs)]
    if program.weights:
        inputs.append(Param("weights", "uint8", (weight_offsets(program)[1],), False, alignment=ALIGNMENT))
    if profile:
        outputs.append(Param("nanoseconds", "int64", (len(program.calls),), True))
    return Signature(program.name, (*inputs, *outputs), ())


def weight_offsets(program: Program) -> tuple[list[int], int]:
    """Where each weight begins in the block of all, and the bytes of the block."""
    return offsets(described(program.weights))


def bytes_of(p: Param) -> int:
    """The bytes of an array whose shape is numbers."""
    if 0 in p.shape:
        return 0
    shape, strides = p.shape_for({}), p.strides_for({})
    last = [(n - 1) * step for n, step in zip(shape, strides, strict=True)] if strides else [math.prod(shape) - 1]
    return (1 + sum(last)) * dtype(p.dtype).bytes


def check(program: Program, kind: str) -> None:
    """Raise BuildError for kernels that do not fit together, or are not of that kind."""
    if c_name(program.name) in OWN_NAMES:
        raise _refused(program, "calls", f"no program can be called {program.name!r} in C", "another name")
    names = {*OWN_NAMES, *(c_name(program.name) + s for s in _SUFFIXES)}
    for k in program.kernels:
        if k.kind != kind:
            raise _refused(program, k.signature.name, f"it is code for {k.kind}", f"kernels for {kind}")
        if k.signature.sizes:
            raise _refused(program, k.signature.name, f"it has the size {k.signature.sizes[0]!r}", "shapes of numbers")
        own = {c_name(k.signature.name) + s for s in _SUFFIXES}
        if own & names:
            raise _refused(program, k.signature.name, "something else has this name in C", "a name for each kernel")
        names |= own
    for number, call in enumerate(program.calls):
        kernel = program.kernels[call.kernel]
        params = kernel.signature.params
        where = f"{kernel.signature.name}, call {number}"
        if len(params) != len(call.places):
            raise _refused(
                program, where, f"it takes {len(params)} arrays and gets {len(call.places)}", str(kernel.signature)
            )
        for p, place in zip(params, call.places, strict=True):
            _check_place(program, where, p, place)


def _check_place(program: Program, where: str, p: Param, place: Place) -> None:
    kinds: dict[str, Sequence[Param] | Sequence[Array]] = {
        "input": program.inputs,
        "output": program.outputs,
        "weight": program.weights,
    }
    if place.kind == "arena":
        least, most = place.number, place.number + bytes_of(p)
        if least < 0 or most > program.arena or place.number % max(p.alignment, dtype(p.dtype).bytes):
            raise _refused(program, where, f"{p} at byte {place.number} is not in the arena", f"{program.arena} bytes")
        return
    there = kinds[place.kind]
    if not 0 <= place.number < len(there):
        raise _refused(program, where, f"there is no {place.kind} {place.number}", f"0 to {len(there) - 1}")
    found = there[place.number]
    has = bytes_of(found) if isinstance(found, Param) else found.nbytes
    if bytes_of(p) > has:
        raise _refused(program, where, f"{p} has {bytes_of(p)} bytes", f"{place.kind} {place.number}: {has} bytes")
    if p.is_output and place.kind != "output":
        raise _refused(program, where, f"{p} is written, and it is an {place.kind}", "an output or the arena")


def _refused(program: Program, where: str, why: str, legal: str) -> BuildError:
    return BuildError(why, asked=f"{program.name}: kernel {where}", legal=legal)


def _alignment(program: Program, kind: str, number: int) -> int:
    """What kernels ask of the address of an input or output."""
    uses = [
        p.alignment
        for call in program.calls
        for p, place in zip(program.kernels[call.kernel].signature.params, call.places, strict=True)
        if (place.kind, place.number) == (kind, number)
    ]
    return max([1, *uses])


def _steps(program: Program) -> list[Step]:
    """The calls, with where their arguments lie."""
    begins, _ = weight_offsets(program)
    inputs = len(program.inputs)

    def address(place: Place) -> Address:
        match place.kind:
            case "arena":
                return Address(None, place.number)
            case "input":
                return Address(place.number)
            case "weight":
                return Address(inputs, begins[place.number])
        return Address(inputs + bool(program.weights) + place.number)

    return [Step(symbol_of(program, c), [address(p) for p in c.places]) for c in program.calls]
