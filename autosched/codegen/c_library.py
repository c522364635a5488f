"""What the headers of C99 and POSIX declare: names that a C function of ours must not have.

As glibc has them: the headers that generated source includes, and what every program links with.
Types (`size_t`) and OpenMP's functions follow patterns of their own.
"""

__all__ = ["C_LIBRARY"]

C_LIBRARY = """
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
