"""Pieces of C: text with its type and precedence, names, and the names that the C library has."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from autosched.codegen.dialects import Dialect
from autosched.ir.dtype import INT32, INT64, DType
from autosched.ir.ranges import RULES, Interval, of_type

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


#: C's levels, tighter binding is larger
CONDITIONAL, OR, AND, BITOR, BITXOR, BITAND, EQUALITY, RELATION, SHIFT, ADD, MUL, UNARY, ATOM = range(3, 16)
PRECEDENCE = {
    "||": OR,
    "&&": AND,
    "|": BITOR,
    "^": BITXOR,
    "&": BITAND,
    "==": EQUALITY,
    "!=": EQUALITY,
    "<": RELATION,
    "<=": RELATION,
    ">": RELATION,
    ">=": RELATION,
    "<<": SHIFT,
    ">>": SHIFT,
    "+": ADD,
    "-": ADD,
    "*": MUL,
    "/": MUL,
    "%": MUL,
}
#: operator of `ir.expr.OPS` -> C's infix
SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "bitand": "&",
    "bitor": "|",
    "bitxor": "^",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "and": "&&",
    "or": "||",
}
#: C's type of index arithmetic: `int` or `long`, decided when the program is built
INDEX = "index_t"
TRUTH = Interval(0, 1)
_ZERO = Interval(0, 0)
_INT32_RANGE, _INT64_RANGE = of_type(INT32), of_type(INT64)


@dataclass(frozen=True, slots=True)
class Code:
    """C text, the precedence of its outermost operator and the type C gives it.

    `ctype` is a type after integer promotion (`int32`, `uint32`, `int64`, `uint64`, a float, or a
    vector), or INDEX. The value of a scalar integer lies in `range`. `mask` marks a vector condition:
    integers whose lanes are 0 or -1.
    """

    text: str
    prec: int
    ctype: str
    range: Interval = _ZERO
    mask: bool = False

    def at(self, level: int) -> str:
        """The text as an operand of an operator that binds as tightly as `level`."""
        return self.text if self.prec >= level else f"({self.text})"


def promoted(of: DType) -> str:
    """C's type for a value of this type in arithmetic."""
    return "int32" if of.is_bool or (of.is_integer and of.bits < 32) else str(of)


def infix(symbol: str, a: Code, b: Code, ctype: str, range: Interval = _ZERO) -> Code:
    """`a symbol b`, grouping to the left; mixtures that compilers warn about get parentheses."""
    level = PRECEDENCE[symbol]
    left = a.at(ATOM if _is_confusing(symbol, a) else level)
    right = b.at(ATOM if _is_confusing(symbol, b) else level + 1)
    return Code(f"{left} {symbol} {right}", level, ctype, range)


def _is_confusing(symbol: str, operand: Code) -> bool:
    """Whether compilers warn about `operand` beside `symbol` without parentheses."""
    if symbol == "||":
        return operand.prec == AND
    if PRECEDENCE[symbol] in (EQUALITY, RELATION):
        return operand.prec in (EQUALITY, RELATION)
    return symbol in ("&", "|", "^", "<<", ">>") and operand.prec < UNARY and operand.prec != PRECEDENCE[symbol]


def literal(value: int | float | bool, of: DType, dialect: Dialect) -> Code:
    """A constant of the scalar type `of`, printed so that a compiler reads back the same value."""
    if of.is_bool:
        return Code("true" if value else "false", ATOM, "int32", Interval(int(value), int(value)))
    if of.is_float:
        return _float_literal(float(value), of, dialect)
    number = int(value)
    if _INT32_RANGE.low <= number <= _INT32_RANGE.high:
        ctype = "int32"
    else:
        ctype = "uint32" if of == "uint32" else "uint64" if number > _INT64_RANGE.high else "int64"
    suffix = dialect.suffixes.get(ctype, "")
    if number in (_INT32_RANGE.low, _INT64_RANGE.low):  # C reads -2147483648 as minus a number too large for int
        text, prec = f"(-{-(number + 1)}{suffix} - 1)", ATOM
    else:
        text, prec = f"{number}{suffix}", UNARY if number < 0 else ATOM
    return Code(text, prec, ctype, Interval(number, number))


def _float_literal(value: float, of: DType, dialect: Dialect) -> Code:
    name = dialect.type_name(of)
    if math.isnan(value):
        return Code(dialect.nan if of == "float32" else f"({name}){dialect.nan}", UNARY, str(of))
    negative = math.copysign(1.0, value) < 0
    sign = "-" if negative else ""
    if math.isinf(value):
        text = dialect.infinity if of == "float32" else f"({name}){dialect.infinity}"
    else:
        text = str(of.numpy.type(abs(value))) + dialect.suffixes.get(of, "")
    return Code(sign + text, UNARY if negative or math.isinf(value) else ATOM, str(of))


def is_literal(x: Code) -> bool:
    return x.range.constant is not None and x.text[-1:].isalnum() and x.text.lstrip("-")[:1].isdigit()


def negate(x: Code, ctype: str) -> Code:
    inner = f"({x.text})" if x.text.startswith("-") else x.at(UNARY)
    return Code(f"-{inner}", UNARY, ctype, RULES["neg"](x.range))


def conditional(condition: Code, a: Code, b: Code, ctype: str) -> Code:
    text = f"{condition.at(OR)} ? {a.at(CONDITIONAL)} : {b.at(CONDITIONAL)}"
    return Code(text, CONDITIONAL, ctype, a.range | b.range)


def chain(symbol: str, a: Code, b: Code) -> Code:
    """Exact arithmetic is associative: `a + (b - c)` needs no parentheses."""
    if symbol == "+" and b.range.high < 0 and is_literal(b):
        return infix("-", a, Code(b.text.removeprefix("-"), ATOM, b.ctype), INDEX)
    product = b.prec == MUL and "/" not in b.text and "%" not in b.text
    if (symbol == "+" and b.prec == ADD) or (symbol == "*" and product):
        return Code(f"{a.at(b.prec)} {symbol} {b.text}", b.prec, INDEX)
    return infix(symbol, a, b, INDEX)


class Names:
    """C identifiers that read like the program's names, unique among those in scope."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._scopes: list[set[str]] = [set()]

    def declare(self, name: str) -> str:
        """A free identifier for `name` in the innermost scope: `y.outer` becomes `y_outer`."""
        base = re.sub(r"\W", "_", name, flags=re.ASCII) or "v"
        if base[0].isdigit():
            base = f"v{base}"
        if self._dialect.is_reserved(base):
            base = f"v{base}" if base.startswith("_") else f"{base}_"
        found, count = base, 0
        while any(found in scope for scope in self._scopes):
            count += 1
            found = f"{base}_{count}"
        self._scopes[-1].add(found)
        return found

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A C block: names declared in it are free again after it."""
        self._scopes.append(set())
        try:
            yield
        finally:
            self._scopes.pop()

    def state(self) -> set[str]:
        """The names of the innermost scope, for `restore`."""
        return set(self._scopes[-1])

    def restore(self, state: set[str]) -> None:
        self._scopes[-1] = state
