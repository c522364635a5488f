"""A program as C99: the function that calls the kernels, its header, the weights as an array."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from autosched.codegen.artifact import Artifact
from autosched.codegen.c99 import C
from autosched.codegen.c_program import c_name, declared, header, inner_prototypes, prototype
from autosched.codegen.c_text import Names
from autosched.codegen.signature import Signature, entry_points
from autosched.graph.linking import OWN_NAMES, Array, signature_of, weight_offsets
from autosched.graph.memory import ALIGNMENT, padded
from autosched.graph.program import Place, Program

_ENTRY = """\
// {name}: C99. {calls} calls of {kernels} kernels, with {arena} bytes between them.
{posix}
#include <stdint.h>
#include <stdlib.h>
{includes}#ifdef _OPENMP
#include <omp.h>
static int64_t max_threads(void) {{ return omp_get_max_threads(); }}
#else
static int64_t max_threads(void) {{ return 1; }}
#endif

#include "{name}.h"

{declarations}

// Where weights lie, and what one call leaves for others.
#define W(offset) ((const void *)({weights} + (offset)))
#define A(offset) ((void *)({memory} + (offset)))
#define TRY(call)                                   \\
  do {{                                              \\
    const int32_t status_of_call = call;            \\
    if (status_of_call != 0) return status_of_call; \\
  }} while (0)

static int64_t bytes_for(int64_t threads) {{
  int64_t most = 0;
{sizes}  (void)threads;
  return INT64_C({arena}) + most;
}}

{clock}static int32_t run({takes}, int64_t {threads}) {{
{body}
  return 0;
}}

int64_t {name}_memory(void) {{
  return bytes_for(max_threads());
}}

{inner} {{
  return run({passed}, max_threads());
}}

{plain} {{
  char *const {block} = malloc((size_t){name}_memory() + {alignment});
  if ({block} == NULL) return -1;
  char *const {memory} = {block} + ({alignment} - (uintptr_t){block} % {alignment});
  const int32_t {status} = {name}_in({passed});
  free({block});
  return {status};
}}
"""

_CLOCK = """\
static int64_t now(void) {
  struct timespec moment;
  clock_gettime(CLOCK_MONOTONIC, &moment);
  return (int64_t)moment.tv_sec * 1000000000 + moment.tv_nsec;
}

"""


def entry_source(program: Program, *, profile: bool = False) -> str:
    """NAME.c: the function NAME, and NAME_in, which works in memory of its caller, of NAME_memory() bytes."""
    signature = signature_of(program, profile=profile)
    names = _names(program)
    arguments = declared(signature, names)
    memory, threads, block, status = map(names.declare, ("memory", "threads", "block", "status"))
    idents = [ident for _, ident in arguments]
    weights = idents[len(program.inputs)] if program.weights else "NULL"
    passed = ", ".join([*idents, memory])
    inner = [k for k in program.kernels if "inner" in k.texts]
    sizes = [f"  if ({_inner(k)}_bytes(threads) > most) most = {_inner(k)}_bytes(threads);\n" for k in inner]
    plain = ", ".join("".join(a) for a in arguments) or "void"
    return _ENTRY.format(
        name=c_name(program.name),
        calls=len(program.calls),
        kernels=len(program.kernels),
        arena=padded(program.arena),
        posix="#define _POSIX_C_SOURCE 199309L\n" if profile else "",
        includes="#include <time.h>\n" if profile else "",
        declarations="\n".join(_declared(k) for k in program.kernels),
        weights=weights,
        memory=memory,
        sizes="".join(sizes),
        clock=_CLOCK if profile else "",
        takes=", ".join(["".join(a) for a in arguments] + [f"char *{memory}"]),
        threads=threads,
        body=_body(program, idents, memory, threads, profile),
        inner=_in_memory(program, signature),
        plain=f"int32_t {c_name(program.name)}({plain})",
        passed=passed,
        block=block,
        status=status,
        alignment=ALIGNMENT,
    )


def _names(program: Program) -> Names:
    """Names in which what the file defines is taken."""
    names = Names(C)
    own = [c_name(program.name) + end for end in ("_in", "_memory")]
    for name in (*OWN_NAMES, *own, *(k.signature.name for k in program.kernels)):
        names.declare(name)
    return names


def _in_memory(program: Program, signature: Signature) -> str:
    """The prototype of NAME_in."""
    names = _names(program)
    *_, memory = [*(ident for _, ident in declared(signature, names)), names.declare("memory")]
    return prototype(signature, _names(program), "_in", [f"char *{memory}"])


def _inner(k: Artifact) -> str:
    return c_name(k.signature.name)


def _declared(k: Artifact) -> str:
    """The declarations of what a kernel defines."""
    texts = inner_prototypes(k.signature) if "inner" in k.texts else [prototype(k.signature)]
    return "\n".join(f"{text};" for text in texts)


def _body(program: Program, idents: list[str], memory: str, threads: str, profile: bool) -> str:
    offsets, _ = weight_offsets(program)
    outputs = len(program.inputs) + bool(program.weights)

    def argument(place: Place, of: str) -> str:
        match place.kind:
            case "weight":
                return f"W({offsets[place.number]})"
            case "arena":
                return f"A({place.number})"
            case "input":
                cast = "" if program.inputs[place.number].dtype == of else "(const void *)"
                return f"{cast}{idents[place.number]}"
        cast = "" if program.outputs[place.number].dtype == of else "(void *)"
        return f"{cast}{idents[outputs + place.number]}"

    workspace = f"{memory} + {padded(program.arena)}" if program.arena else memory
    lines = ["  int64_t before = now(), after;"] if profile and program.calls else []
    for number, call in enumerate(program.calls):
        k = program.kernels[call.kernel]
        passed = [argument(place, p.dtype) for place, p in zip(call.places, k.signature.params, strict=True)]
        name = c_name(k.signature.name)
        if "inner" in k.texts:
            name, passed = f"{name}_in", [*passed, workspace, threads]
        lines += [f"  // {_comment(call.name)}"] if call.name else []
        lines.append(f"  TRY({name}({', '.join(passed)}));")
        if profile:
            lines += ["  after = now();", f"  {idents[-1]}[{number}] = after - before;", "  before = after;"]
    words = set(re.findall(r"\w+", "\n".join(line for line in lines if not line.startswith("  //"))))
    words |= {idents[len(program.inputs)] if program.weights and "W" in words else "", memory if "A" in words else ""}
    return "\n".join([*(f"  (void){name};" for name in (*idents, memory, threads) if name not in words), *lines])


def _comment(text: str) -> str:
    """Text that ends no comment and begins no other line."""
    return re.sub(r"[^ -~]|\\$", "?", text)


def entry_points_source(program: Program, *, profile: bool = False) -> str:
    """Text behind NAME.c for callers that bring memory and threads: see `codegen.llvm_program`."""
    signature = signature_of(program, profile=profile)
    passed = [f"args[{i}]" for i in range(len(signature.params))]
    call = f"TRY(run({', '.join([*passed, 'workspace', 'threads'])}))"
    return entry_points(c_name(program.name), call, "bytes_for(threads)")


def header_source(program: Program, *, arrays: bool = False, memory: bool = True, profile: bool = False) -> str:
    """NAME.h. `arrays`: the weights are compiled in; `memory`: there is NAME_in."""
    signature = signature_of(program, profile=profile)
    name = c_name(program.name)
    more = [f"/* Bytes of `weights`, each tensor from a multiple of {ALIGNMENT} on. */"]
    more[0] += f"\n#define {name.upper()}_WEIGHTS {weight_offsets(program)[1]}"
    if arrays:
        more.append(f"/* The weights, in weights.c. */\nextern const uint8_t *const {name}_weights;")
    if memory:
        told = f"/* {name} in memory of the caller: {name}_memory() bytes, from a multiple of {ALIGNMENT} on. */"
        more.append(f"{told}\n{_in_memory(program, signature)};\nint64_t {name}_memory(void);")
    guard = re.sub(r"\W", "_", f"{name}_h", flags=re.ASCII).upper()
    return header(guard, [signature], more if program.weights else more[1:])


# -- weights ------------------------------------------------------------------------------------------


def weight_bytes(program: Program) -> Iterator[memoryview]:
    """The block of weights in pieces, without a copy of those that lie in memory row by row."""
    for w in program.weights:
        data: Any = w.reshape(-1).view(np.uint8)
        yield memoryview(data)
        yield memoryview(bytes(padded(w.nbytes) - w.nbytes))


#: words of an array in C on a line
_WORDS = 8


def weights_source(program: Program) -> Iterator[str]:
    """weights.c in pieces: the block as 64-bit words."""
    name = c_name(program.name)
    words = weight_offsets(program)[1] // 8
    yield _WEIGHTS.format(name=name, words=max(words, 1), alignment=ALIGNMENT)
    for w in program.weights:
        data = w.reshape(-1).view(np.uint8)
        for start in range(0, padded(w.nbytes), 1 << 20):
            yield _words(data[start : start + (1 << 20)])
    yield f"{'' if words else '0'}}};\n\nconst uint8_t *const {name}_weights = (const uint8_t *)words;\n"


def _words(data: Array) -> str:
    whole = np.zeros(padded(len(data)), np.uint8)
    whole[: len(data)] = data
    texts = [f"{word:#x}," for word in whole.view("<u8").tolist()]
    return "\n".join("".join(texts[i : i + _WORDS]) for i in range(0, len(texts), _WORDS)) + "\n"


_WEIGHTS = """\
// The weights of {name}, as words of 64 bits of a machine that puts low bytes first.
#include "{name}.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the weights are for a machine that puts low bytes first"
#endif

#if defined(__GNUC__)
__attribute__((aligned({alignment})))
#endif
static const uint64_t words[{words}] = {{
"""
