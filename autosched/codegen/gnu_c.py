"""GNU C as a dialect: C99 with the vector types of gcc and clang, for a CPU whose registers are known.

What a schedule vectorizes is one statement here, as it is in OpenCL, and not a loop that a compiler may or may not make
vectors of. Vectors wider than a register would lie in memory (gcc 12 stores and loads them around each operation), so
wider ones are written as several.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from autosched.codegen.c99 import C
from autosched.codegen.dialects import Dialect, Vectors
from autosched.codegen.halves import GNU_HALF_DEFINITIONS, GNU_HALVES
from autosched.ir.dtype import dtype

_LANES, _WIDEST = (2, 4, 8, 16, 32, 64), 64
#: of one vector: its type, the same anywhere in memory, and one number in all lanes
_TYPE = "typedef {type} {name} __attribute__((vector_size({bytes})));"
_ANYWHERE = "typedef {type} {name}_at __attribute__((vector_size({bytes}), aligned({element}), may_alias));"
_SPLAT = "static inline {name} {name}_of({type} x) {{ return ({name}){{{lanes}}}; }}"
#: a sum of the two sides becomes one masked move in gcc, where the bitwise or stays three operations
_CHOOSE = """\
#define choose(mask, a, b) __extension__({ \\
  const __typeof__(mask) mask_ = (mask); \\
  (__typeof__(a))((mask_ & (__typeof__(mask_))(a)) + (~mask_ & (__typeof__(mask_))(b))); \\
})"""

_SHUFFLED = """\
#if defined(__clang__)
#define shuffled(mask, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define shuffled(mask, a, b, ...) __builtin_shuffle(a, b, (mask){__VA_ARGS__})
#endif"""

_SQRT = """\
static inline {name} sqrt_{name}({name} a) {{
{known}  {name} r;
  for (int i = 0; i < {lanes}; ++i) r[i] = {function}(a[i]);
  return r;
}}"""
#: gcc has names for square roots of vectors, for x86 only; clang makes them of the loop
_KNOWN = """\
#if defined({feature}) && !defined(__clang__)
  return {instruction};
#endif
"""
_SQUARE_ROOTS = {
    ("float32", 4): ("__SSE2__", "__builtin_ia32_sqrtps(a)"),
    ("float32", 8): ("__AVX__", "__builtin_ia32_sqrtps256(a)"),
    ("float32", 16): ("__AVX512F__", "__builtin_ia32_sqrtps512_mask(a, a, -1, 4)"),
    ("float64", 2): ("__SSE2__", "__builtin_ia32_sqrtpd(a)"),
    ("float64", 4): ("__AVX__", "__builtin_ia32_sqrtpd256(a)"),
    ("float64", 8): ("__AVX512F__", "__builtin_ia32_sqrtpd512_mask(a, a, -1, 4)"),
}


def _definitions() -> Iterator[tuple[str, str]]:
    """Those of all vectors that fit the widest registers, types before what is made of them."""
    yield "choose", _CHOOSE
    yield "shuffled", _SHUFFLED
    for lanes in _LANES:
        types = [(dtype(of), name) for of, name in C.types.items() if of not in ("bool", *C.halves)]
        types = [(of, name) for of, name in types if lanes * of.bytes <= _WIDEST]
        for of, type in types:
            name = f"{type}_x{lanes}"
            words: dict[str, object] = {"type": type, "name": name, "bytes": lanes * of.bytes, "element": of.bytes}
            yield name, _TYPE.format(**words)
            yield f"{name}_at", _ANYWHERE.format(**words)
            yield f"{name}_of", _SPLAT.format(**words, lanes=", ".join("x" * lanes))
            if of.is_float:
                feature, instruction = _SQUARE_ROOTS.get((of.scalar, lanes), ("", ""))
                known = _KNOWN.format(feature=feature, instruction=instruction) if feature else ""
                function = C.function_name("sqrt", of.scalar)
                yield f"sqrt_{name}", _SQRT.format(name=name, lanes=lanes, known=known, function=function)
        for word, text in GNU_HALF_DEFINITIONS if 4 * lanes <= _WIDEST else ():
            yield word.replace("xN", f"x{lanes}"), text.replace("xN", f"x{lanes}")


_TYPE_NAME = "{type}_x{lanes}"


@cache
def gnu_c(register_bytes: int, fuses: bool = False) -> Dialect:
    """The dialect for vector registers of so many bytes: 16, 32 or 64. `fuses`: whether a * b + c is one
    instruction, rounded once."""
    vectors = Vectors(
        lanes=_LANES,
        register_bytes=register_bytes,
        type=_TYPE_NAME,
        load="({type})*(const {type}_at *)({pointer})",
        store="*({type}_at *)({pointer}) = {x}",
        aligned="*({type}_at *)({pointer})",
        widest_access=register_bytes,
        load_aligned="({type})*(const {type}_at *)({pointer})",
        splat="{type}_of({x})",
        shuffled="shuffled({mask}, {a}, {b}, {i})",
        listed="(({type}){{{x}}})",
        convert="__builtin_convertvector({x}, {type})",
        doubles=True,
        formulas=True,
        fuses=fuses,
        bits="(({type})({x}))",
        choose="choose({c}, {a}, {b})",
        element="{x}[{i}]",
        lane="{x}[{i}]",
        halves=("((const {type}_at *)&{x})[0]", "((const {type}_at *)&{x})[1]"),
        keeps_whole=True,
        anywhere=True,
    )
    return replace(C, halves=GNU_HALVES, vectors=vectors, definitions=(*C.definitions, *_definitions()))
