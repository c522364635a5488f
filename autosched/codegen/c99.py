"""C99 as a dialect: loops for any compiler, no vectors, no kernels.

It guarantees what the emitter needs because all compilers in use provide it: `int` has 32 bits, floats are IEEE 754,
and an unsigned number cast to a signed type wraps.
"""

from __future__ import annotations

import re

from autosched.codegen.dialects import C_KEYWORDS, HELPER_NAMES, MATH, Dialect
from autosched.codegen.halves import C_HALF_DEFINITIONS, C_HALVES
from autosched.codegen.storage import ALIGNMENT

#: names of the standard library, and those of POSIX and GNU that headers of it declare
_C_LIBRARY = """
BIG_ENDIAN BYTE_ORDER CLOCKS_PER_SEC EXIT_FAILURE EXIT_SUCCESS FD_CLR FD_ISSET FD_SET FD_SETSIZE FD_ZERO
LITTLE_ENDIAN MB_CUR_MAX NFDBITS PDP_ENDIAN RAND_MAX TIMER_ABSTIME WCONTINUED WEXITED WNOHANG WNOWAIT WSTOPPED
WUNTRACED a64l abort abs accept access acos acosf acosh acoshf acoshl acosl alarm alloca arc4random arc4random_buf
arc4random_uniform asctime asctime_r asin asinf asinh asinhf asinhl asinl assert atan atan2 atan2f atan2l atanf
atanh atanhf atanhl atanl atexit atof atoi atol atoll bcmp bcopy be16toh be32toh be64toh bind bsearch bzero calloc
cbrt cbrtf cbrtl ceil ceilf ceill clearenv clock clock_getcpuclockid clock_getres clock_gettime clock_nanosleep
clock_settime close connect copysign copysignf copysignl cos cosf cosh coshf coshl cosl ctime ctime_r daylight
difftime div drand48 drand48_r drem dremf dreml dup dysize ecvt ecvt_r erand48 erand48_r erf erfc erfcf erfcl erff
erfl errno exec exit exp exp2 exp2f exp2l expf expl explicit_bzero expm1 expm1f expm1l fabs fabsf fabsl fclose fcvt
fcvt_r fd_mask fd_set fdim fdimf fdiml ffs ffsl ffsll finite finitef finitel floor floorf floorl fma fmaf fmal fmax
fmaxf fmaxl fmin fminf fminl fmod fmodf fmodl fopen fork fpclassify free frexp frexpf frexpl gamma gammaf gammal
gcvt getchar getenv getloadavg getsubopt gmtime gmtime_r htobe16 htobe32 htobe64 htole16 htole32 htole64 hypot
hypotf hypotl ilogb ilogbf ilogbl index initstate initstate_r isfinite isgreater isgreaterequal isinf isinff isinfl
isless islessequal islessgreater isnan isnanf isnanl isnormal isunordered j0 j0f j0l j1 j1f j1l jn jnf jnl jrand48
jrand48_r kill l64a labs lcong48 lcong48_r ldexp ldexpf ldexpl ldiv le16toh le32toh le64toh lgamma lgamma_r lgammaf
lgammaf_r lgammal lgammal_r link linux listen llabs lldiv llrint llrintf llrintl llround llroundf llroundl localtime
localtime_r log log10 log10f log10l log1p log1pf log1pl log2 log2f log2l logb logbf logbl logf logl lrand48
lrand48_r lrint lrintf lrintl lround lroundf lroundl main malloc math_errhandling mblen mbstowcs mbtowc memccpy
memchr memcmp memcpy memmove memset mkdtemp mkstemp mkstemps mktemp mktime modf modff modfl mrand48 mrand48_r nan
nanf nanl nanosleep nearbyint nearbyintf nearbyintl nextafter nextafterf nextafterl nexttoward nexttowardf
nexttowardl nrand48 nrand48_r on_exit open pause perror pipe posix_memalign pow powf powl printf pselect putchar
putenv puts qecvt qecvt_r qfcvt qfcvt_r qgcvt qsort raise rand rand_r random random_r read realloc reallocarray
realpath recv remainder remainderf remainderl remove remquo remquof remquol rename rindex rint rintf rintl round
roundf roundl rpmatch scalb scalbf scalbl scalbln scalblnf scalblnl scalbn scalbnf scalbnl scanf seed48 seed48_r
select send setenv setstate setstate_r signal signbit signgam significand significandf significandl sin sinf sinh
sinhf sinhl sinl sleep sqrt sqrtf sqrtl srand srand48 srand48_r srandom srandom_r stat stderr stdin stdout stpcpy
stpncpy strcasecmp strcasecmp_l strcat strchr strcmp strcoll strcoll_l strcpy strcspn strdup strerror strerror_l
strerror_r strftime strftime_l strlen strncasecmp strncasecmp_l strncat strncmp strncpy strndup strnlen strpbrk
strrchr strsep strsignal strspn strstr strtod strtof strtok strtok_r strtol strtold strtoll strtoq strtoul strtoull
strtouq strxfrm strxfrm_l sync system tan tanf tanh tanhf tanhl tanl tgamma tgammaf tgammal time timegm timelocal
timer_create timer_delete timer_getoverrun timer_gettime timer_settime times timezone trunc truncf truncl tzname
tzset u_char u_int u_long u_short uint ulong unix unlink unsetenv ushort valloc wait wcstombs wctomb write y0 y0f
y0l y1 y1f y1l yield yn ynf ynl
"""

_C_TYPES = {
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float16": "uint16_t",  # its bits: values are computed in float
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
}

#: C99 has nearly all under the names of `ir.expr.OPS`; the others are written out
_C_MATH = MATH | {"abs": "fabs", "exp10": "power_of_10", "rsqrt": "inverse_sqrt"}
_C_MATH |= {"isnan": "is_nan", "isinf": "is_inf", "isfinite": "is_finite"}

_C_PADDED = f"""\
// bytes of memory, up to where the next buffer begins
static inline int64_t padded(int64_t bytes) {{
  return bytes > 0 ? (bytes + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT} : 0;
}}"""

_C_DEFINITIONS = (
    ("padded", _C_PADDED),
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
    *C_HALF_DEFINITIONS,
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

_C_RESERVED = (
    "bool true false NULL NAN INFINITY HUGE_VAL index_t size_t ptrdiff_t wchar_t int32_t errno inline restrict asm "
    "malloc free memcpy memset linux unix"
)
#: standard functions of a width, macros of the headers, functions of OpenMP, and this library's symbols and helpers
_C_PATTERN = (
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
    halves=C_HALVES,
    function="static inline",
    restrict="restrict",
    types=_C_TYPES,
    storage={"bool": "uint8_t"},
    suffixes={"int64": "ll", "uint32": "u", "uint64": "ull", "float32": "f"},
    infinity="INFINITY",
    nan="NAN",
    math=_C_MATH,
    popcount="bit_count",
    clz="leading_zeros({x}) - (64 - {bits})",
    saturate="a != a ? 0 : a < {low} ? {low} : a >= {end} ? {high} : ({type})a",
    reserved=frozenset(
        [
            *C_KEYWORDS.split(),
            *_C_RESERVED.split(),
            *_C_LIBRARY.split(),
            *_C_TYPES.values(),
            *(f"{name}{width}" for name in _C_MATH.values() for width in ("", "f", "l")),
        ]
    ),
    reserved_pattern=re.compile(_C_PATTERN),
    float_suffix="f",
    definitions=_C_DEFINITIONS,
)
