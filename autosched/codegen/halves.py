"""Floats of 16 bits without a type of their own in the C family: their bits in memory, floats in registers.

bfloat16 is the upper half of a float. Its lower half is rounded off by integer arithmetic: no language has a function
for it everywhere, and the instructions of CPUs take numbers below 2^-126 for zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


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

#: The same of several lanes, in GNU C: `codegen/gnu_c.py` has the types.
GNU_HALVES = {
    of: replace(
        half,
        load_lanes=f"{half.name}_value_x{{lanes}}(*(const uint16_t_x{{lanes}}_at *)({{pointer}}))",
        store_lanes=f"*(uint16_t_x{{lanes}}_at *)({{pointer}}) = {half.name}_bits_x{{lanes}}({{x}})",
    )
    for of, half in C_HALVES.items()
}

#: what these call, for N lanes
GNU_HALF_DEFINITIONS = (
    (
        "half_value_xN",
        """\
static inline float_xN half_value_xN(uint16_t_xN a) {
  const uint32_t_xN half = __builtin_convertvector(a, uint32_t_xN), shifted = (half & 0x7fff) << 13;
  const float_xN size = (float_xN)shifted * 0x1p112f;  // the exponents of the two formats begin at -14 and at -126
  const uint32_t_xN bits = choose((half & 0x7c00) == 0x7c00, shifted | 0x7f800000u, (uint32_t_xN)size);
  return (float_xN)(bits | (half & 0x8000) << 16);
}""",
    ),
    (
        "half_bits_xN",
        """\
static inline uint16_t_xN half_bits_xN(float_xN a) {
  const uint32_t_xN bits = (uint32_t_xN)a, size = bits & 0x7fffffff;
  const uint32_t_xN normal = ((size + 0xfff + (size >> 13 & 1)) >> 13) - (112u << 10);
  const uint32_t_xN small = (uint32_t_xN)((float_xN)size + 0.5f) - 0x3f000000;  // the sum has its digits
  const uint32_t_xN number = choose(size < 0x38800000, small, normal);
  const uint32_t_xN most = choose(size > 0x7f800000, number - number + 0x7e00, number - number + 0x7c00);
  const uint32_t_xN half = choose((number > 0x7c00) | (size > 0x7f800000), most, number);
  return __builtin_convertvector(half | (bits >> 16 & 0x8000), uint16_t_xN);
}""",
    ),
    (
        "bfloat_value_xN",
        """\
static inline float_xN bfloat_value_xN(uint16_t_xN upper) {
  return (float_xN)(__builtin_convertvector(upper, uint32_t_xN) << 16);
}""",
    ),
    (
        "bfloat_bits_xN",
        """\
static inline uint16_t_xN bfloat_bits_xN(float_xN a) {
  const uint32_t_xN bits = (uint32_t_xN)a, rounded = bits + 0x7fff + (bits >> 16 & 1);
  return __builtin_convertvector(choose(a != a, bits | 0x400000, rounded) >> 16, uint16_t_xN);
}""",
    ),
)

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
  uint64_t bits;
  if (a != a) return (uint16_t)(sign | 0x7e00);
  if (size >= 65520.0) return (uint16_t)(sign | 0x7c00);
  if (size < 0x1p-14) return (uint16_t)(sign | (unsigned)nearbyint(size * 0x1p24));
  memcpy(&bits, &size, sizeof bits);
  bits += ((uint64_t)1 << 41) - 1 + (bits >> 42 & 1);  // to even, where two are as near
  return (uint16_t)(sign | (unsigned)((bits >> 42) - ((1023 - 15) << 10)));
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
