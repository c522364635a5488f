"""C99 as a `Dialect`: loops for any C compiler, no vectors, no kernels.

C99 guarantees what the emitter needs but for three things that all compilers in use provide:
`int` has 32 bits, floats are IEEE 754, and an unsigned number too large for a signed type wraps.
"""

from __future__ import annotations

import re

from autosched.codegen.c_text import C_LIBRARY
from autosched.codegen.dialects import C_KEYWORDS, HELPER_NAMES, Dialect, Half
from autosched.codegen.storage import ALIGNMENT
from autosched.ir.expr import OPS

_TYPES = {
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": "uint16_t",  # its bits: values are computed in float
    "float32": "float",
    "float64": "double",
}

#: C99 has nearly all under the names of `ir.expr.OPS`; the others are written out
_MATH = {op: op for op, info in OPS.items() if info.kind == "math" and op != "sigmoid"}
_MATH |= {"abs": "fabs", "exp10": "power_of_10", "rsqrt": "inverse_sqrt"}
_MATH |= {"isnan": "is_nan", "isinf": "is_inf", "isfinite": "is_finite"}

_PADDED = f"""\
// bytes of memory, up to where the next buffer begins
static inline int64_t padded(int64_t bytes) {{
  return bytes > 0 ? (bytes + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT} : 0;
}}"""

_DEFINITIONS = (
    ("padded", _PADDED),
    # glibc's isinf says -1 of minus infinity
    ("is_nan", "#define is_nan(x) (isnan(x) != 0)"),
    ("is_inf", "#define is_inf(x) (isinf(x) != 0)"),
    ("is_finite", "#define is_finite(x) (isfinite(x) != 0)"),
    ("power_of_10", "static inline double power_of_10(double a) { return pow(10.0, a); }"),
    ("power_of_10f", "static inline float power_of_10f(float a) { return powf(10.0f, a); }"),
    ("inverse_sqrt", "static inline double inverse_sqrt(double a) { return 1.0 / sqrt(a); }"),
    ("inverse_sqrtf", "static inline float inverse_sqrtf(float a) { return 1.0f / sqrtf(a); }"),
    (
        "bit_count",
        """\
static inline int bit_count(uint64_t a) {
  a -= a >> 1 & 0x5555555555555555u;
  a = (a & 0x3333333333333333u) + (a >> 2 & 0x3333333333333333u);
  a = (a + (a >> 4)) & 0x0f0f0f0f0f0f0f0fu;
  return (int)(a * 0x0101010101010101u >> 56);
}""",
    ),
    (
        "leading_zeros",
        """\
static inline int leading_zeros(uint64_t a) {
  int zeros = a == 0;
  for (int step = 32; step > 0; step /= 2) {
    if (a >> (64 - step)) continue;
    a <<= step;
    zeros += step;
  }
  return zeros;
}""",
    ),
    (
        "half_value",
        """\
static inline float half_value(uint16_t half) {
  const uint32_t shifted = (uint32_t)(half & 0x7fff) << 13;
  uint32_t bits;
  float a;
  memcpy(&a, &shifted, sizeof a);
  a *= 0x1p112f;  // the exponents of the two formats begin at -14 and at -126
  memcpy(&bits, &a, sizeof bits);
  if ((half & 0x7c00) == 0x7c00) bits = shifted | 0x7f800000u;
  bits |= (uint32_t)(half & 0x8000) << 16;
  memcpy(&a, &bits, sizeof a);
  return a;
}""",
    ),
    (
        "half_bits",
        """\
static inline uint16_t half_bits(double a) {
  const unsigned sign = signbit(a) ? 0x8000 : 0;
  const double size = fabs(a);
  int exponent;
  double digits;
  if (a != a) return (uint16_t)(sign | 0x7e00);
  if (size >= 65520.0) return (uint16_t)(sign | 0x7c00);
  if (size < 0x1p-14) return (uint16_t)(sign | (unsigned)nearbyint(size * 0x1p24));
  digits = frexp(size, &exponent);  // size = digits * 2^exponent, digits in [0.5, 1)
  return (uint16_t)(sign | (((unsigned)(exponent + 13) << 10) + (unsigned)nearbyint(digits * 2048.0)));
}""",
    ),
    (
        "thread_number",
        """\
#ifdef _OPENMP
static inline int64_t thread_number(void) { return omp_get_thread_num(); }
#else
static inline int64_t thread_number(void) { return 0; }
#endif""",
    ),
    (
        "max_threads",
        """\
#ifdef _OPENMP
static inline int64_t max_threads(void) { return omp_get_max_threads(); }
#else
static inline int64_t max_threads(void) { return 1; }
#endif""",
    ),
    (
        "team_size",
        """\
#ifdef _OPENMP
// one thread for each iteration at most
static inline int team_size(int64_t iterations, int64_t threads) {
  const int64_t size = iterations < threads ? iterations : threads;
  return size > 1 ? (int)size : 1;
}
#endif""",
    ),
    (
        "chunk_size",
        """\
#ifdef _OPENMP
// iterations that a thread takes at once: a late thread costs an eighth of its share
static inline int chunk_size(int64_t iterations, int64_t threads) {
  const int64_t size = iterations / (8 * threads);
  return size < 1 ? 1 : size < 1 << 30 ? (int)size : 1 << 30;
}
#endif""",
    ),
)

_RESERVED = (
    "bool true false NULL NAN INFINITY HUGE_VAL index_t size_t ptrdiff_t wchar_t int32_t errno inline restrict asm "
    "malloc free memcpy memset linux unix"
)
#: standard functions of a width, macros of the headers, functions of OpenMP, and this library's symbols and helpers
_PATTERN = (
    r"_\w*|\w+_t|(U?INT|SIZE|PTRDIFF|FP|FLT|DBL|LDBL|MATH|M)_?\w*_\w*|"
    r"U?INT\w*_C|g?omp_\w+|GOMP_\w+|autosched_\w+|" + HELPER_NAMES
)

C = Dialect(
    name="c",
    strict="""\
// Compile with -ffp-contract=off: a*b+c rounds twice.
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif""",
    preamble="#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>",
    half=Half(load="half_value(*({pointer}))", store="*({pointer}) = half_bits({x})"),
    function="static inline",
    restrict="restrict",
    types=_TYPES,
    storage={"bool": "uint8_t"},
    suffixes={"int64": "ll", "uint32": "u", "uint64": "ull", "float32": "f"},
    infinity="INFINITY",
    nan="NAN",
    math=_MATH,
    popcount="bit_count",
    clz="leading_zeros({x}) - (64 - {bits})",
    saturate="a != a ? 0 : a < {low} ? {low} : a >= {end} ? {high} : ({type})a",
    reserved=frozenset(
        [
            *C_KEYWORDS.split(),
            *_RESERVED.split(),
            *C_LIBRARY.split(),
            *_TYPES.values(),
            *(f"{name}{width}" for name in _MATH.values() for width in ("", "f", "l")),
        ]
    ),
    reserved_pattern=re.compile(_PATTERN),
    float_suffix="f",
    definitions=_DEFINITIONS,
)
