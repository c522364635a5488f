"""Floats of 16 bits without a type of their own in the C family: their bits in memory, floats in registers.

bfloat16 is the upper half of a float. Its lower half is rounded off by integer arithmetic: no language has a function
for it everywhere, and the instructions of CPUs take numbers below 2^-126 for zeros.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Half:
    """How numbers of one such type are loaded and stored: templates as those of a `Dialect`. `name` is part of the
    names of functions; of several lanes, there are `load_lanes` and `store_lanes`."""

    name: str
    load: str
    store: str
    load_lanes: str = ""
    store_lanes: str = ""
    preamble: str = ""


OPENCL_HALVES = {
    "float16": Half(
        name="half",
        load="vload_half(0, {pointer})",
        store="vstore_half_rte({x}, 0, {pointer})",
        load_lanes="vload_half{lanes}(0, {pointer})",
        store_lanes="vstore_half{lanes}_rte({x}, 0, {pointer})",
    ),
    "bfloat16": Half(
        name="bfloat",
        load="bfloat_value(*({pointer}))",
        store="*({pointer}) = bfloat_bits({x})",
        load_lanes="bfloat_value{lanes}(vload{lanes}(0, {pointer}))",
        store_lanes="vstore{lanes}(bfloat_bits{lanes}({x}), 0, {pointer})",
        preamble="""\
#define BFLOAT(LANES) \\
  static inline float##LANES bfloat_value##LANES(ushort##LANES a) { \\
    return as_float##LANES(convert_uint##LANES(a) << 16); \\
  } \\
  static inline ushort##LANES bfloat_bits##LANES(float##LANES a) { \\
    const uint##LANES bits = as_uint##LANES(a); \\
    return convert_ushort##LANES((a != a ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16); \\
  }
BFLOAT() BFLOAT(2) BFLOAT(3) BFLOAT(4) BFLOAT(8) BFLOAT(16)""",
    ),
}

#: functions of `cuda_preamble.h`, in the sections that have the same names
CUDA_HALVES = {
    of: Half(
        name=name,
        load=f"load_{name}({{pointer}})",
        store=f"store_{name}({{x}}, {{pointer}})",
        load_lanes=f"load_{name}_vector<{{lanes}}, vec<float, {{lanes}}>>({{pointer}})",
        store_lanes=f"store_{name}_vector<{{lanes}}>({{x}}, {{pointer}})",
    )
    for of, name in (("float16", "half"), ("bfloat16", "bfloat"))
}

C_HALVES = {
    of: Half(name=name, load=f"{name}_value(*({{pointer}}))", store=f"*({{pointer}}) = {name}_bits({{x}})")
    for of, name in (("float16", "half"), ("bfloat16", "bfloat"))
}

#: functions of C99 that those of `C_HALVES` call
C_HALF_DEFINITIONS = (
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
        "bfloat_value",
        """\
static inline float bfloat_value(uint16_t upper) {
  const uint32_t bits = (uint32_t)upper << 16;
  float a;
  memcpy(&a, &bits, sizeof a);
  return a;
}""",
    ),
    (
        "bfloat_bits",
        """\
static inline uint16_t bfloat_bits(float a) {
  uint32_t bits;
  memcpy(&bits, &a, sizeof bits);
  return (uint16_t)((a != a ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}""",
    ),
)
