// C++ of CUDA sources: `dialects.py` takes the sections that a source needs.
// -- types
typedef signed char int8;
typedef long long int64;
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long long uint64;
// -- half
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
}
// -- bfloat
static __device__ __forceinline__ float load_bfloat(const uint16* p) { return __int_as_float((uint32)*p << 16); }
static __device__ __forceinline__ void store_bfloat(float x, uint16* p) {
  const uint32 bits = __float_as_int(x);
  *p = (x != x ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
template <int N, class V> static __device__ __forceinline__ V load_bfloat_vector(const uint16* p) {
  V r;
  for (int i = 0; i < N; ++i) r.s[i] = load_bfloat(p + i);
  return r;
}
template <int N, class V> static __device__ __forceinline__ void store_bfloat_vector(V x, uint16* p) {
  for (int i = 0; i < N; ++i) store_bfloat(x.s[i], p + i);
}
// -- vectors: operators by macros, each lane as the scalar operator, a comparison as a mask
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
#define VECTOR_OPERATOR(R, OP, LANE, ...) \
  template <class T, int N> static __device__ __forceinline__ R<T, N> operator OP(__VA_ARGS__) { \
    R<T, N> r; \
    for (int i = 0; i < N; ++i) r.s[i] = LANE; \
    return r; \
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
// whole words of bytes, where the compiler would load each byte that is used
template <int N, class T> static __device__ __forceinline__ vec<T, N> load_aligned(const T* p) {
  if constexpr (sizeof(T) > 1 || N < 4) {
    return *(const vec<T, N>*)p;
  } else {
    const vec<uint32, N / 4> words = *(const vec<uint32, N / 4>*)p;
    vec<T, N> r;
    for (int i = 0; i < N; ++i) r.s[i] = words.s[i / 4] >> i % 4 * 8;
    return r;
  }
}
template <class T, int N> static __device__ __forceinline__ void store_vector(vec<T, N> x, T* p) {
  for (int i = 0; i < N; ++i) p[i] = x.s[i];
}
