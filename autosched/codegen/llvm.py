"""Lowered functions to machine code for CPUs: assembly text, LLVM's optimiser, an object file."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from autosched.codegen.artifact import Artifact, Signature
from autosched.codegen.asm import readable
from autosched.codegen.llvm_choices import moves_for
from autosched.codegen.llvm_cpus import PROBE as PROBE_OF_CPU
from autosched.codegen.llvm_cpus import features_shown
from autosched.codegen.llvm_dot import PROBE as PROBE_OF_DOT
from autosched.codegen.llvm_dot import dot_instruction, size_for_pairs
from autosched.codegen.llvm_libm import vector_library
from autosched.codegen.llvm_one_lane import MASKED_STORE, PROBE, one_lane_stores_as_scalars, stores_too_wide
from autosched.codegen.llvm_program import entry_name, module_text
from autosched.codegen.llvm_text import Abilities
from autosched.codegen.signature import outside_calls
from autosched.codegen.storage import is_parallel
from autosched.errors import BuildError, TargetError
from autosched.ir.stmt import Function
from autosched.target import Target

#: LLVM joins scalars to vectors in texts up to this long only. Its search for them is quadratic: 40 s for 17,000
#: lines. What is written out at such length is vectors already.
MOST_LINES_OF_SLP = 4000
#: LLVM multiplies loops (by unrolling, and by conditions that it moves out of them) in texts up to this long only. It
#: takes half of its time in longer ones, where no loop matters that much.
MOST_LINES_OF_COPIES = 10_000
#: architectures, as triples spell them, all of 64 bits. `experiments/other_machines.py` runs code of most
MACHINES = ("x86_64", "aarch64", "arm64", "riscv64", "powerpc64le", "ppc64le", "s390x", "loongarch64")
#: those of which `llvm_dot` knows instructions
_WITH_DOTS = ("x86_64", "aarch64", "arm64")
_lock = threading.Lock()


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@lru_cache(maxsize=1)
def host() -> tuple[str, str]:
    """(name, features) of this machine's CPU, as LLVM spells them: `znver3`, `+avx2,+fma,-avx512f...`."""
    _initialize()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def triple_of(target: Target) -> str:
    """The machine to compile for, as LLVM spells it: `-mtriple`, else this one."""
    return target.mtriple or llvm.get_default_triple()


def is_foreign(triple: str) -> bool:
    """True for a machine of another architecture than this process runs on."""
    return triple.partition("-")[0] != llvm.get_default_triple().partition("-")[0]


def cpu_of(target: Target) -> tuple[str, str]:
    """CPU name and features to compile for: `-mcpu` alone brings its own features, else the host's.

    On another architecture, what all its CPUs have. Raises TargetError for a CPU that LLVM does not know.
    """
    extra = [f for f in target.options.get("mattr", "").split(",") if f]
    for feature in extra:
        if feature[0] not in "+-":
            raise TargetError(
                f"the feature {feature!r} says neither + nor -",
                asked=f"target {target}",
                legal="such as -mattr=+avx2,-fma",
            )
    triple = triple_of(target)
    name, features = ("generic", "") if is_foreign(triple) else host()
    if "mcpu" in target.options and target.options["mcpu"] != "native":
        name = target.options["mcpu"]
        features = _implied(name, ",".join(extra), target.mtriple) if triple.startswith("x86_64") else ""
    return name, ",".join(dict.fromkeys([*filter(None, features.split(",")), *extra]))


@lru_cache(maxsize=8)
def _implied(cpu: str, more: str, triple: str) -> str:
    """What a CPU has, as far as generated code uses it: whoever runs the code has to have it, too."""
    return ",".join(f"+{name}" for name in features_shown(_assembly(PROBE_OF_CPU, cpu, more, triple)))


@lru_cache(maxsize=8)
def target_machine(cpu: str, features: str, triple: str = "") -> llvm.TargetMachine:
    """LLVM's description of the CPU. Position-independent code, so that it can be linked anywhere.

    `triple` is this machine's unless given. Raises TargetError for a machine, CPU or feature that
    LLVM does not know.
    """
    _initialize()
    if triple and is_foreign(triple):
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    described = _described(triple or llvm.get_default_triple())

    def create() -> llvm.TargetMachine:
        return described.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="small")

    if (cpu, features) == host():
        return create()
    machine, complaints = _heard(create)
    unknown = sorted({line.partition(" for this target")[0] for line in complaints if "not a recognized" in line})
    if unknown:
        raise TargetError(
            "; ".join(unknown), asked=f"-mcpu={cpu}", legal=f"names as clang knows them; this machine is {host()[0]}"
        )
    return machine


def _described(triple: str) -> llvm.Target:
    machine = triple.partition("-")[0]
    if machine in MACHINES:
        with suppress(RuntimeError):  # a build of LLVM without it
            return llvm.Target.from_triple(triple)
    raise TargetError(
        f"no machine code is made for {machine}",
        asked=f"-mtriple={triple}",
        legal=f"{', '.join(MACHINES)}; for any other, C sources (target c)",
    )


@lru_cache(maxsize=8)
def _abilities(cpu: str, features: str, triple: str) -> Abilities:
    """The abilities of the CPU. LLVM is asked, because a CPU's name may imply them."""
    source = """
        declare float @llvm.fma.f32(float, float, float)
        declare void @llvm.masked.store.v16f32.p0(<16 x float>, ptr, <16 x i1>)
        define float @fused(float %a, float %b, float %c) {
          %r = call float @llvm.fma.f32(float %a, float %b, float %c)
          ret float %r
        }
        define void @masked(<16 x float> %v, ptr %p, <16 x i1> %m) {
          call void @llvm.masked.store.v16f32.p0(<16 x float> %v, ptr align 4 %p, <16 x i1> %m)
          ret void
        }"""
    assembly = _assembly(source, cpu, features, triple)
    described = triple or llvm.get_default_triple()
    # LLVM ends the process where it cannot select an instruction: others are not asked for what they do not have
    dots = _assembly(PROBE_OF_DOT, cpu, features, triple) if described.startswith(_WITH_DOTS) else ""
    return Abilities(
        fuses="fmaf" not in assembly,
        masks="{%k" in assembly,
        vectors=vector_library(described, features),
        dot=dot_instruction(dots),
        pairs=size_for_pairs(dots),
    )


@lru_cache(maxsize=8)
def _stores_too_wide(cpu: str, features: str, triple: str) -> bool:
    """True if LLVM gets the width of a masked store of one lane wrong on this CPU: tried, whatever its version."""
    return stores_too_wide(_assembly(PROBE, cpu, features, triple), triple or llvm.get_default_triple())


def _assembly(source: str, cpu: str, features: str, triple: str) -> str:
    """The assembly of a small text, not optimised."""
    with _lock:
        machine = target_machine(cpu, features, triple)
        text: str = machine.emit_assembly(llvm.parse_assembly(source, llvm.create_context()))
    return text


def _heard(action: Callable[[], llvm.TargetMachine]) -> tuple[llvm.TargetMachine, list[str]]:
    """The result of `action` and the lines it wrote to standard error.

    LLVM says there that it does not know a CPU, goes on, and aborts the process later.
    """
    sys.stderr.flush()
    with tempfile.TemporaryFile() as sink:
        saved = os.dup(2)
        os.dup2(sink.fileno(), 2)
        try:
            result = action()
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        sink.seek(0)
        return result, sink.read().decode(errors="replace").splitlines()


def compile_llvm(function: Function, target: Target, known: Callable[[str], bool] | None = None) -> Artifact:
    """Compile a lowered function for the CPU that `target` names (default: this one).

    Where `known` says yes to the artifact's identity, nothing is compiled, and `code` stays empty.
    Raises BuildError when the function cannot be expressed.
    """
    cpu, features = cpu_of(target)
    source = source_of(function, target)
    artifact = Artifact(
        kind="llvm",
        target=str(target),
        signature=Signature.of(function),
        code=b"",
        texts={"source": source},
        meta={
            "entry": entry_name(function.name),
            "parallel": is_parallel(function.body),
            "symbols": outside_calls(function, "extern"),
            "packed": outside_calls(function, "packed"),
            "cpu": cpu,
            "features": features,
            "triple": triple_of(target),
            "llvm": ".".join(map(str, llvm.llvm_version_info)),
        },
    )
    if known is not None and known(artifact.identity):
        return artifact
    return replace(artifact, code=object_code(source, target))


def source_of(function: Function, target: Target) -> str:
    """LLVM assembly of a lowered function, not yet optimised. Raises BuildError for what has no code."""
    cpu, features = cpu_of(target)
    triple = triple_of(target)
    machine = target_machine(cpu, features, triple)
    abilities = _abilities(cpu, features, triple)
    return module_text(function, triple, str(machine.target_data), abilities, contract=not target.strict)


def object_code(source: str, target: Target) -> bytes:
    """The object file of LLVM assembly, optimised. Raises BuildError for text that LLVM refuses."""
    return assembled(source, *cpu_of(target), triple_of(target), optimise=True)


def assembled(source: str, cpu: str, features: str, triple: str = "", optimise: bool = False) -> bytes:
    """The object file of LLVM assembly as it stands: instructions are selected, nothing is optimised.

    Raises BuildError for text that LLVM refuses.
    """
    machine = target_machine(cpu, features, triple)
    module = _selectable(source, machine, cpu, features, triple, optimise)
    with _lock, moves_for(source, triple):
        code: bytes = machine.emit_object(module)
    return code


def _selectable(source: str, machine: llvm.TargetMachine, cpu: str, features: str, triple: str, optimise: bool) -> Any:
    """The module in a form for which LLVM selects the right instructions."""
    with _lock:
        module = optimised(source, machine) if optimise else _parsed(source)
    masks = any(f.name.startswith(MASKED_STORE) for f in module.functions)
    if not masks or not _stores_too_wide(cpu, features, triple):
        return module
    before = str(module)
    after = one_lane_stores_as_scalars(before)
    return module if after is before else _parsed(after)


def render(artifact: Artifact, kind: str) -> str:
    """The optimised IR (`llvm`) or the assembly (`asm`) of an artifact, made again from its source.

    The assembly has LLVM's comments: names of blocks, spills, the lanes of shuffles.
    """
    described = artifact.meta["cpu"], artifact.meta["features"], artifact.meta["triple"]
    machine = target_machine(*described)
    source = artifact.texts["source"]
    module = _selectable(source, machine, *described, optimise=True)
    with _lock, moves_for(source, artifact.meta["triple"]):
        if kind == "llvm":
            return str(module)
        machine.set_asm_verbosity(True)
        return readable(machine.emit_assembly(module), artifact.machine)


def optimised(source: str, machine: llvm.TargetMachine) -> Any:
    """The optimised module of LLVM assembly. Raises BuildError for text that LLVM refuses."""
    module = _parsed(source)
    lines = source.count("\n")
    is_long = lines > MOST_LINES_OF_COPIES
    options = llvm.create_pipeline_tuning_options(speed_level=2 if is_long else 3)
    options.loop_vectorization = options.loop_interleaving = True
    options.slp_vectorization = lines < MOST_LINES_OF_SLP
    options.loop_unrolling = not is_long
    builder = llvm.create_pass_builder(machine, options)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    # llvmlite's managers inherit the `_dispose` that does nothing: 130 KB of each module stayed for good
    NewPassManager._dispose(passes)
    passes.detach()
    return module


def _parsed(source: str) -> Any:
    """Parse and verify. A context of its own per module: types and constants die with it."""
    try:
        module = llvm.parse_assembly(source, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise BuildError(
            f"LLVM refuses the generated code: {str(error).strip()}",
            asked="code generation",
            legal="this is a bug in autosched; the IR that was refused is in the error's __notes__",
        ) from _noted(error, source)
    return module


def _noted(error: RuntimeError, source: str) -> RuntimeError:
    error.add_note(source)
    return error
