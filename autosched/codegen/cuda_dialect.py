"""CUDA C++ as a `Dialect`.

The source includes no header, so that the run-time compiler alone can translate it. CUDA has no
vectors with operators: a small template stands in for them, which the compiler takes apart again,
and whose loads and stores are as wide as the hardware's.
"""

from __future__ import annotations

import re

from autosched.codegen.dialects import C_KEYWORDS, HELPER_NAMES, Dialect, Half, Kernels, Vectors
from autosched.ir.expr import OPS

#: Integers go by the names of `ir.dtype`; those that C and CUDA call by one word alike keep it.
_TYPES = {
    "bool": "bool",
    "int8": "int8",
    "int16": "short",
    "int32": "int",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "float16": "uint16",  # the bits, which helpers load and store as floats
    "float32": "float",
    "float64": "double",
}

_PREAMBLE = """\
typedef signed char int8;
typedef long long int64;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;"""

_HALF_PREAMBLE = """\
static __device__ __forceinline__ float load_half(const uint16* p) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(*p));
  return x;
}
static __device__ __forceinline__ void store_half(float x, uint16* p) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(*p) : "f"(x));
}
static __device__ __forceinline__ void store_half(double x, uint16* p) {
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(*p) : "d"(x));
}
template <int N, class V> static __device__ __forceinline__ V load_half_vector(const uint16* p) {
  V r;
  for (int i = 0; i < N; ++i) r.s[i] = load_half(p + i);
  return r;
}
template <int N, class V> static __device__ __forceinline__ void store_half_vector(V x, uint16* p) {
  for (int i = 0; i < N; ++i) store_half(x.s[i], p + i);
}"""

#: Operators by macros: each lane as the scalar operator, a comparison as a mask.
_VECTOR_PREAMBLE = """\
// N lanes in as few registers and accesses of memory as may be, up to 16 bytes at once
template <class T, int N> struct alignas(N & (N - 1) ? alignof(T) : N * sizeof(T) > 16 ? 16 : N * sizeof(T)) vec {
  T s[N];
  vec() = default;
  __device__ explicit vec(T x) {
    for (int i = 0; i < N; ++i) s[i] = x;
  }
  template <class... R> __device__ vec(T a, T b, R... rest) : s{a, b, T(rest)...} {}
};
// a condition: each lane 0 or -1, as wide as what was compared
template <int BYTES> struct mask_lane;
template <> struct mask_lane<1> { typedef int8 type; };
template <> struct mask_lane<2> { typedef short type; };
template <> struct mask_lane<4> { typedef int type; };
template <> struct mask_lane<8> { typedef int64 type; };
template <class T, int N> using mask = vec<typename mask_lane<sizeof(T)>::type, N>;
#define VECTOR_OPERATOR(R, OP, LANE, ...) \\
  template <class T, int N> static __device__ __forceinline__ R<T, N> operator OP(__VA_ARGS__) { \\
    R<T, N> r; \\
    for (int i = 0; i < N; ++i) r.s[i] = LANE; \\
    return r; \\
  }
#define VECTOR_BINARY(OP) VECTOR_OPERATOR(vec, OP, a.s[i] OP b.s[i], vec<T, N> a, vec<T, N> b)
#define VECTOR_COMPARE(OP) VECTOR_OPERATOR(mask, OP, -(a.s[i] OP b.s[i]), vec<T, N> a, vec<T, N> b)
#define VECTOR_PREFIX(OP) VECTOR_OPERATOR(vec, OP, OP a.s[i], vec<T, N> a)
VECTOR_BINARY(+) VECTOR_BINARY(-) VECTOR_BINARY(*) VECTOR_BINARY(/) VECTOR_BINARY(%)
VECTOR_BINARY(&) VECTOR_BINARY(|) VECTOR_BINARY(^) VECTOR_BINARY(<<) VECTOR_BINARY(>>)
VECTOR_COMPARE(==) VECTOR_COMPARE(!=) VECTOR_COMPARE(<) VECTOR_COMPARE(<=) VECTOR_COMPARE(>) VECTOR_COMPARE(>=)
VECTOR_PREFIX(-) VECTOR_PREFIX(~)
// C multiplies unsigned shorts as ints, which would overflow
template <int N> static __device__ __forceinline__ vec<uint16, N> operator*(vec<uint16, N> a, vec<uint16, N> b) {
  for (int i = 0; i < N; ++i) a.s[i] = 1u * a.s[i] * b.s[i];
  return a;
}
template <class M, class T, int N>
static __device__ __forceinline__ vec<T, N> choose(vec<M, N> c, vec<T, N> a, vec<T, N> b) {
  for (int i = 0; i < N; ++i) a.s[i] = c.s[i] ? a.s[i] : b.s[i];
  return a;
}
template <class To, class T, int N> static __device__ __forceinline__ To convert(vec<T, N> a) {
  To r;
  for (int i = 0; i < N; ++i) r.s[i] = a.s[i];
  return r;
}
template <int N, class T> static __device__ __forceinline__ vec<T, N> load_vector(const T* p) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r.s[i] = p[i];
  return r;
}
template <class T, int N> static __device__ __forceinline__ void store_vector(vec<T, N> x, T* p) {
  for (int i = 0; i < N; ++i) p[i] = x.s[i];
}"""

_MATH = {op: op for op, info in OPS.items() if info.kind == "math" and op != "sigmoid"}
_MATH |= {"nearbyint": "rint", "abs": "fabs"}

#: C++'s words, CUDA's, and functions that kernels must not be called by, for these have C linkage
_KEYWORDS = (
    "alignas alignof and asm bitand bitor bool catch class compl concept consteval constexpr const_cast decltype "
    "delete dynamic_cast explicit export false friend mutable namespace new noexcept not nullptr operator or private "
    "protected public reinterpret_cast requires static_assert static_cast template this thread_local throw true try "
    "typeid typename using virtual wchar_t xor NULL NAN INFINITY index_t INDEX_T threadIdx blockIdx blockDim gridDim "
    "warpSize dim3 vec mask mask_lane choose convert load_vector store_vector load_half store_half "
    "load_half_vector store_half_vector VECTOR_OPERATOR VECTOR_BINARY VECTOR_COMPARE VECTOR_PREFIX dynamic_shared abs "
    "labs llabs min max malloc free memcpy memset memcmp printf assert clock size_t uint ushort ulong"
)
_FUNCTIONS = (
    "cbrt ceil erfc erfcinv erfcx erfinv expm1 fabs fdim fdivide fma fmax fmin frexp gamma ilogb j0 j1 jn ldexp lgamma "
    "llrint llround logb lrint lround modf nan nextafter norm norm3d norm4d normcdf normcdfinv rcbrt remainder remquo "
    "rhypot rint rnorm scalbln scalbn signbit sincos sincospi sinpi cospi tgamma y0 y1 yn cyl_bessel_i0"
)
_PATTERN = (
    r"_\w*|cuda\w*|CUDA\w*|atomic\w*|"
    r"(char|uchar|short|ushort|int|uint|long|ulong|longlong|ulonglong|float|double)\d+|u?int\d+(_t)?|"
    r"\w+_(float|double|int8|short|int|int64|uint8|uint16|uint32|uint64)\d*|" + HELPER_NAMES
)

CUDA = Dialect(
    name="cuda",
    strict="// Compile with --fmad=false: a*b+c rounds twice.",
    preamble=_PREAMBLE,
    half=Half(
        load="load_half({pointer})",
        store="store_half({x}, {pointer})",
        preamble=_HALF_PREAMBLE,
    ),
    kernels=Kernels(
        qualifier='extern "C" __global__',
        block_attribute="__launch_bounds__({x} * {y} * {z})",
        barriers={"shared": "__syncthreads()", "global": "__syncthreads()"},
        thread_index={f"{level}Idx.{axis}": f"{level}Idx.{axis}" for level in ("block", "thread") for axis in "xyz"},
        shared_scope="__shared__",
        shared_parameter="const index_t {name}_at",
        shared_declaration="{type}* const {name} = ({type}*)(dynamic_shared + {name}_at);",
        shared_preamble="extern __shared__ __align__(16) unsigned char dynamic_shared[];",
    ),
    function="static __device__ __forceinline__",
    restrict="__restrict__",
    types=_TYPES,
    storage={"bool": "uint8"},
    suffixes={"int64": "ll", "uint32": "u", "uint64": "ull", "float32": "f"},
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fffffff)",
    math=_MATH,
    popcount="__popcll",
    clz="__clzll({x}) - (64 - {bits})",
    saturate="a != a ? 0 : a <= {low} ? {low} : a >= {end} ? {high} : ({type})a",
    vectors=Vectors(
        lanes=(2, 3, 4, 8, 16),
        type="vec<{type}, {lanes}>",
        load="load_vector<{lanes}>({pointer})",
        store="store_vector({x}, {pointer})",
        aligned="*({type}*)({pointer})",
        alignment_attribute=" __attribute__((aligned({bytes})))",
        widest_access=16,
        half_load="load_half_vector<{lanes}, vec<float, {lanes}>>({pointer})",
        half_store="store_half_vector<{lanes}>({x}, {pointer})",
        splat="{type}({x})",
        convert="convert<{type}>({x})",
        bits="convert<{type}>({x})",
        choose="choose({c}, {a}, {b})",
        lane="{x}.s[{i}]",
        preamble=_VECTOR_PREAMBLE,
    ),
    reserved=frozenset(
        word + suffix
        for words, suffixes in (
            ([*C_KEYWORDS.split(), *_KEYWORDS.split(), *_TYPES.values()], ("",)),
            ([*_FUNCTIONS.split(), *_MATH.values()], ("", "f", "l")),
        )
        for word in words
        for suffix in suffixes
    ),
    reserved_pattern=re.compile(_PATTERN),
)
