"""The languages of the C family as data: OpenCL C, CUDA C++ and C99.

The emitter (`c_family`, `c_scalar`, `c_vector`) knows C; a `Dialect` tells it how one language
spells what C has no common word for. A difference that no field can say belongs in a pass before
emission, not in a subclass of the emitter.

Templates are `str.format` texts. `{type}` is a type's name, `{x}` an expression, `{pointer}` the
address of the first element, `{lanes}` a lane count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path

from autosched.codegen.halves import CUDA_HALVES, OPENCL_HALVES, Half
from autosched.codegen.pocl import POCL, PREAMBLE
from autosched.ir.dtype import DType, dtype
from autosched.ir.expr import OPS

#: a name that is called, or defined with parameters
_CALLED = re.compile(r"\b[A-Za-z_]\w*(?=\()")


class NotVector(Exception):
    """This statement has no form in whole vectors."""


@dataclass(frozen=True)
class Kernels:
    """Threads, and memory that a work-group shares."""

    qualifier: str
    block_attribute: str  #: `{x}`, `{y}`, `{z}`: the constant size of a work-group
    #: barrier by scope, and the index of a work-item by thread tag
    barriers: dict[str, str]
    thread_index: dict[str, str]
    shared_scope: str
    #: shared memory of a symbolic size: the kernel's parameter {name}, and the declaration that it needs besides;
    #: and what the file needs
    shared_parameter: str
    shared_declaration: str = ""
    shared_preamble: str = ""
    #: what every file needs that asks for a work-item's index
    index_preamble: str = ""
    #: what a file with barriers needs where `codegen/pocl.py` parts the regions between them; "" where it does not
    regions_preamble: str = ""


@dataclass(frozen=True)
class Vectors:
    """Types of several lanes."""

    lanes: tuple[int, ...]
    type: str
    load: str
    store: str
    #: the vector at {pointer} in memory qualified {scope}, whose address is a multiple of its width, to read or assign
    aligned: str
    widest_access: int  #: bytes of the widest such vector; memory of arguments begins at a multiple of it
    splat: str
    convert: str
    bits: str
    element: str  #: lane {i} of {x}, where the lane is a known number
    anywhere: bool = False  #: whether a vector may lie anywhere in memory, not only at multiples of its width
    #: whether a vector wider than the widest access is several of them
    joins: bool = False
    load_aligned: str = ""  #: reads what `aligned` assigns; empty: that does, too
    choose: str = ""  #: lane by lane {a} where the mask {c} is set, {b} elsewhere; empty: C's conditional does that
    #: whether several operations of whole vectors are faster than one of each lane: floats that are cut off at the ends
    #: of an integer type, divisions of integers
    keeps_whole: bool = False
    #: whether unsigned integers become wider signed ones by way of unsigned ones as wide
    widens_twice: bool = False
    #: bytes of a vector register, for compilers that keep wider vectors in memory; 0: any vector may be written
    register_bytes: int = 0
    listed: str = ""  #: the vector of the lanes {x}; empty: `splat` takes several, too
    #: lanes {i} of {a} and {b}, counted on from one to the other. {mask}: integers as wide; empty: a list serves
    shuffled: str = ""
    #: the lower and the upper half, of type {type}, of {x}
    halves: tuple[str, str] = ("{x}.lo", "{x}.hi")
    formulas: bool = False  #: whether functions of vectors are those of `c_math`
    fuses: bool = False  #: whether a * b + c is rounded once
    doubles: bool = False  #: whether integers become wider in steps, each twice as wide
    lane: str = ""  #: lane {i} of {x}, for a language whose functions take scalars only; empty: they take vectors
    preamble: str = ""

    def either(self, condition: str, a: str, b: str) -> str:
        """{a} where the mask {condition} is set, {b} elsewhere."""
        return self.choose.format(c=condition, a=a, b=b) if self.choose else f"{condition} ? {a} : {b}"

    def fits(self, lanes: int, bytes: int) -> bool:
        """Whether there are vectors of so many lanes of so many bytes."""
        return lanes in self.lanes and (self.register_bytes == 0 or lanes * bytes <= self.register_bytes)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """One language of the C family."""

    name: str
    #: lines at the top of every source: whether a*b+c may round once, then the same where it may not; what all need,
    #: and what else doubles and native halves do
    contract: str = ""
    strict: str
    preamble: str = ""
    float64_preamble: str = ""
    float16_preamble: str = ""
    function: str  #: qualifiers of a helper function
    #: lines before a loop that compilers should not make vectors of, or copies
    no_vectors: str = ""
    no_copies: str = ""
    #: qualifiers of memory, and of a pointer that nothing else aliases
    global_scope: str = ""
    private_scope: str = ""
    restrict: str
    #: scalar types in registers; `storage` overrides how a type lies in memory
    types: dict[str, str]
    storage: dict[str, str]
    #: what follows a literal of a type
    suffixes: dict[str, str]
    infinity: str
    nan: str
    #: operator of `ir.expr.OPS` -> function for floats of every width
    math: dict[str, str]
    popcount: str
    clz: str  #: zeros above the highest one of the unsigned {x} of {bits} bits
    #: the float `a` to integer, cut off at the ends {low} and {high} of the type, NaN to 0; {end} is the float
    #: high + 1, and {x} is `a` with 0 for NaN
    saturate: str
    halves: dict[str, Half]
    kernels: Kernels | None = None
    vectors: Vectors | None = None
    #: names a loop or buffer must not take: words of the language, and what the emitter calls
    reserved: frozenset[str]
    reserved_pattern: re.Pattern[str]
    #: what the functions of `math` are called for float32, where names are not overloaded
    float_suffix: str = ""
    #: functions that the language lacks, written out where the source calls them, in this order
    definitions: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Reserve the names that the dialect's own text calls or defines."""
        texts = [*_texts(self), *(f"{name}(" for name in self.math.values())]
        texts += [f"{name}( {text}" for name, text in self.definitions]
        called = {name for text in texts for name in _CALLED.findall(text)}
        object.__setattr__(self, "reserved", self.reserved | called)

    @property
    def of_kernels(self) -> Kernels:
        """The spelling of kernels, which the language must have."""
        assert self.kernels is not None, self.name
        return self.kernels

    def type_name(self, of: DType) -> str:
        """The type of a value in a register. Raises NotVector for a vector that is wider than one."""
        base = self.types[of.scalar]
        if of.lanes == 1:
            return base
        assert self.vectors is not None
        if 0 < self.vectors.register_bytes < of.lanes * max(of.bits, 8) // 8:
            raise NotVector
        return self.vectors.type.format(type=base, lanes=of.lanes)

    def converted(self, x: str, old: DType, new: DType) -> str:
        """The numbers of the vector `x` as another type; integers wrap."""
        v = self.vectors
        assert v is not None
        if v.widens_twice and old.kind == "uint" and new.kind == "int" and new.bits > max(old.bits, 32):
            wide = v.convert.format(type=self.type_name(dtype(f"uint{new.bits}x{new.lanes}")), x=x)
            return v.bits.format(type=self.type_name(new), x=wide)
        if v.doubles and old.is_integer and new.bits > old.bits and (new.is_float or new.bits > 2 * old.bits):
            step = dtype(f"int{new.bits}x{new.lanes}" if new.is_float else f"{old.kind}{2 * old.bits}x{old.lanes}")
            return self.converted(self.converted(x, old, step), step, new)
        return v.convert.format(type=self.type_name(new), x=x)

    def storage_name(self, of: DType) -> str:
        """The type of an element in memory."""
        return self.storage.get(of.scalar) or self.types[of.scalar]

    def function_name(self, op: str, of: str) -> str:
        """The function that computes the operator `op` on floats of type `of`."""
        suffix = self.float_suffix if of == "float32" and op not in _CLASSIFIES else ""
        return self.math[op] + suffix

    def pointer_type(self, scope: str, of: str) -> str:
        """A pointer to the type `of` in memory qualified `scope`."""
        return f"{scope} {of}*".lstrip()

    def defined(self, text: str) -> list[str]:
        """The definitions that a source needs which calls what `text` calls. Each may need those before it."""
        found: list[str] = []
        for name, piece in reversed(self.definitions):
            if mentions([text, *found], name):
                found.append(piece)
        return found[::-1]

    def is_reserved(self, name: str) -> bool:
        return name in self.reserved or self.reserved_pattern.fullmatch(name) is not None


def mentions(lines: Iterable[str], name: str) -> bool:
    """Whether a C identifier occurs somewhere."""
    pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    return any(pattern.search(line) for line in lines)


def _texts(value: object) -> Iterator[str]:
    """All texts in a dialect and its parts."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif is_dataclass(value):
        for f in fields(value):
            yield from _texts(getattr(value, f.name))


#: operators that are macros in C: one name for every width
_CLASSIFIES = ("isnan", "isinf", "isfinite")

_OPENCL_TYPES = {
    "bool": "bool",
    "int8": "char",
    "int16": "short",
    "int32": "int",
    "int64": "long",
    "uint8": "uchar",
    "uint16": "ushort",
    "uint32": "uint",
    "uint64": "ulong",
    "float16": "half",
    "bfloat16": "ushort",
    "float32": "float",
    "float64": "double",
}

#: operators for which languages have functions, which are seldom called anything else
MATH = {op: op for op, info in OPS.items() if info.kind == "math" and op != "sigmoid"}
#: the names that OpenCL and CUDA have, whatever the width
_KERNEL_MATH = MATH | {"nearbyint": "rint", "abs": "fabs"}

C_KEYWORDS = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long "
    "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main"
)
_OPENCL_KEYWORDS = (
    "kernel global local constant private generic read_only write_only read_write uniform pipe bool half quad complex "
    "imaginary uchar ushort uint ulong size_t ptrdiff_t intptr_t uintptr_t event_t sampler_t vec_step true false NULL "
    "NAN INFINITY MAXFLOAT HUGE_VAL HUGE_VALF barrier popcount index_t INDEX_T"
)
#: what `c_helpers.Helpers` names the functions that it defines
HELPER_NAMES = (
    r"(min|max|abs|pow|popcount|clz|truncdiv|truncmod|floordiv|floormod|shl|shr|saturate|round|sigmoid|reinterpret|"
    r"nextafter)_\w+"
)
#: functions and types with a number or a type in their names, predefined macros, and the emitter's own helpers
_OPENCL_PATTERN = (
    r"BFLOAT|(bfloat|vload|vstore|convert|as|get|atomic|atom|async|image|read|write|cl|CL|CLK|M|FLT|DBL|HALF|CHAR|SCHAR|UCHAR|SHRT|"
    r"USHRT|INT|UINT|LONG|ULONG)_\w*|(vload|vstore)\d+|_\w*|image\d?d?\w*_t|"
    r"(char|uchar|short|ushort|int|uint|long|ulong|half|float|double|bool)\d+|" + HELPER_NAMES
)

#: NVIDIA's compiler for OpenCL makes (long)((int)get_local_id(0) * 3 + 768) of a product and a shift of 64 bits, and
#: its assembler (driver 580) takes that for something else in some kernels: wrong elements are read. What it knows
#: nothing of is widened where it is used, in one instruction.
_NVIDIA_INDICES = """\
#ifdef __NV_CL_C_VERSION  // driver 580 computes wrong addresses from indices that it widens to 64 bits too early
static inline int opaque(int i) { int j; asm("mov.b32 %0, %1;" : "=r"(j) : "r"(i)); return j; }
#define get_group_id(axis) opaque(get_group_id(axis))
#define get_local_id(axis) opaque(get_local_id(axis))
#endif"""

_OPENCL_VECTORS = Vectors(
    lanes=(2, 3, 4, 8, 16),
    type="{type}{lanes}",
    load="vload{lanes}(0, {pointer})",
    store="vstore{lanes}({x}, 0, {pointer})",
    aligned="*({scope} {type}*)({pointer})",
    widest_access=128,  # CL_DEVICE_MEM_BASE_ADDR_ALIGN is that of long16 at least
    splat="({type})({x})",
    convert="convert_{type}({x})",
    bits="as_{type}({x})",
    element="{x}.s{i:x}",
    widens_twice=True,  # of products and shifts of convert_long4(uint4), NVIDIA's compiler extends the sign
)

OPENCL = Dialect(
    name="opencl",
    contract="#pragma OPENCL FP_CONTRACT ON",
    strict="#pragma OPENCL FP_CONTRACT OFF",
    float64_preamble="#pragma OPENCL EXTENSION cl_khr_fp64 : enable",
    float16_preamble="#pragma OPENCL EXTENSION cl_khr_fp16 : enable",
    halves=OPENCL_HALVES,
    kernels=Kernels(
        qualifier="__kernel",
        block_attribute="__attribute__((reqd_work_group_size({x}, {y}, {z})))",
        barriers={
            "shared": "barrier(CLK_LOCAL_MEM_FENCE)",
            "global": "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)",
            POCL: "pocl_barrier()",
        },
        thread_index={
            f"{level}Idx.{axis}": f"{function}({number})"
            for level, function in (("block", "get_group_id"), ("thread", "get_local_id"))
            for number, axis in enumerate("xyz")
        },
        shared_scope="__local",
        index_preamble=_NVIDIA_INDICES,
        regions_preamble=PREAMBLE,
        shared_parameter="__local {type}* restrict {name}",
    ),
    function="static inline",
    global_scope="__global",
    private_scope="__private",
    restrict="restrict",
    types=_OPENCL_TYPES,
    storage={"bool": "uchar"},  # a kernel argument must not point to bool
    suffixes={"int64": "l", "uint32": "u", "uint64": "ul", "float16": "h", "float32": "f"},
    infinity="INFINITY",
    nan="NAN",
    math=_KERNEL_MATH,
    popcount="popcount",
    clz="clz({x})",
    saturate="convert_{type}_sat({x})",
    vectors=_OPENCL_VECTORS,
    reserved=frozenset(
        [*C_KEYWORDS.split(), *_OPENCL_KEYWORDS.split(), *_OPENCL_TYPES.values(), *_KERNEL_MATH.values()]
    ),
    reserved_pattern=re.compile(_OPENCL_PATTERN),
)

#: PoCL makes `vloadn` and `vstoren` of an access for each lane. CPUs access whole vectors anywhere.
_VECTORS_ANYWHERE = """
#define vector_at(scope, type, p) (((scope struct __attribute__((packed)) { type v; }*)(p))->v)"""

#: How floats are rounded to whole numbers: operator, name, what clang has for vectors, in one instruction, and
#: OpenCL's function, which is twenty in PoCL.
_ROUNDED = (
    ("floor", "round_down", "floor", "floor"),
    ("ceil", "round_up", "ceil", "ceil"),
    ("trunc", "round_to_zero", "trunc", "trunc"),
    ("nearbyint", "round_to_even", "roundeven", "rint"),
)
_WHOLE = """\
#if __has_builtin(__builtin_elementwise_{clang})
#define {name} __builtin_elementwise_{clang}
#else
#define {name} {plain}
#endif"""

#: OpenCL C for devices that are CPUs, whose compilers are clang.
OPENCL_OF_CPUS = replace(
    OPENCL,
    math=_KERNEL_MATH | {"isnan": "__builtin_isnan"} | {op: name for op, name, *_ in _ROUNDED},
    definitions=tuple((name, _WHOLE.format(name=name, clang=c, plain=p)) for _, name, c, p in _ROUNDED),
    vectors=replace(
        _OPENCL_VECTORS,
        lanes=(2, 4, 8, 16),  # three lanes take the memory of four
        load="vector_at({scope} const, {type}, {pointer})",
        store="vector_at({scope}, {type}, {pointer}) = {x}",
        convert="__builtin_convertvector({x}, {type})",  # PoCL's functions do it lane by lane
        anywhere=True,
        keeps_whole=True,
        preamble=_VECTORS_ANYWHERE,
    ),
    no_vectors="#pragma clang loop vectorize(disable)",
    no_copies="#pragma clang loop unroll(disable)",
)

# -- CUDA C++: its source includes no header, so that the run-time compiler alone can translate it. A small template
# -- stands in for vectors with operators, which the compiler takes apart again; its loads and stores are as wide as
# -- the hardware's.

#: Integers go by the names of `ir.dtype`; those that C and CUDA call by one word alike keep it.
_CUDA_TYPES = {
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
    "bfloat16": "uint16",
    "float32": "float",
    "float64": "double",
}

_CUDA_SECTIONS = re.split(
    r"^// -- (\w+).*\n", Path(__file__).with_name("cuda_preamble.h").read_text(encoding="utf-8"), flags=re.MULTILINE
)


def _cuda(section: str) -> str:
    return _CUDA_SECTIONS[_CUDA_SECTIONS.index(section) + 1].rstrip("\n")


#: C++'s words, CUDA's, and functions that kernels must not be called by, for these have C linkage
_CUDA_KEYWORDS = (
    "alignas alignof and asm bitand bitor bool catch class compl concept consteval constexpr const_cast decltype "
    "delete dynamic_cast explicit export false friend mutable namespace new noexcept not nullptr operator or private "
    "protected public reinterpret_cast requires static_assert static_cast template this thread_local throw true try "
    "typeid typename using virtual wchar_t xor NULL NAN INFINITY index_t INDEX_T threadIdx blockIdx blockDim gridDim "
    "warpSize dim3 vec mask mask_lane choose convert load_vector load_aligned store_vector load_half store_half "
    "load_half_vector store_half_vector VECTOR_OPERATOR VECTOR_BINARY VECTOR_COMPARE VECTOR_PREFIX dynamic_shared abs "
    "labs llabs min max malloc free memcpy memset memcmp printf assert clock size_t uint ushort ulong"
)
_CUDA_FUNCTIONS = (
    "cbrt ceil erfc erfcinv erfcx erfinv expm1 fabs fdim fdivide fma fmax fmin frexp gamma ilogb j0 j1 jn ldexp lgamma "
    "llrint llround logb lrint lround modf nan nextafter norm norm3d norm4d normcdf normcdfinv rcbrt remainder remquo "
    "rhypot rint rnorm scalbln scalbn signbit sincos sincospi sinpi cospi tgamma y0 y1 yn cyl_bessel_i0"
)
_CUDA_PATTERN = (
    r"_\w*|cuda\w*|CUDA\w*|atomic\w*|"
    r"(char|uchar|short|ushort|int|uint|long|ulong|longlong|ulonglong|float|double)\d+|u?int\d+(_t)?|"
    r"\w+_(float|double|int8|short|int|int64|uint8|uint16|uint32|uint64)\d*|" + HELPER_NAMES
)

CUDA = Dialect(
    name="cuda",
    strict="// Compile with --fmad=false: a*b+c rounds twice.",
    preamble=_cuda("types"),
    halves={of: replace(half, preamble=_cuda(half.name)) for of, half in CUDA_HALVES.items()},
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
    types=_CUDA_TYPES,
    storage={"bool": "uint8"},
    suffixes={"int64": "ll", "uint32": "u", "uint64": "ull", "float32": "f"},
    infinity="__int_as_float(0x7f800000)",
    nan="__int_as_float(0x7fffffff)",
    math=_KERNEL_MATH,
    popcount="__popcll",
    clz="__clzll({x}) - (64 - {bits})",
    saturate="a != a ? 0 : a <= {low} ? {low} : a >= {end} ? {high} : ({type})a",
    vectors=Vectors(
        lanes=(2, 3, 4, 8, 16),
        type="vec<{type}, {lanes}>",
        load="load_vector<{lanes}>({pointer})",
        store="store_vector({x}, {pointer})",
        aligned="*({type}*)({pointer})",
        widest_access=16,
        splat="{type}({x})",
        convert="convert<{type}>({x})",
        bits="convert<{type}>({x})",
        choose="choose({c}, {a}, {b})",
        element="{x}.s[{i}]",
        lane="{x}.s[{i}]",
        joins=True,
        load_aligned="load_aligned<{lanes}>({pointer})",
        preamble=_cuda("vectors"),
    ),
    reserved=frozenset(
        word + suffix
        for words, suffixes in (
            ([*C_KEYWORDS.split(), *_CUDA_KEYWORDS.split(), *_CUDA_TYPES.values()], ("",)),
            ([*_CUDA_FUNCTIONS.split(), *_KERNEL_MATH.values()], ("", "f", "l")),
        )
        for word in words
        for suffix in suffixes
    ),
    reserved_pattern=re.compile(_CUDA_PATTERN),
)
