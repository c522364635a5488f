"""Sums of neighbouring products: four of 8-bit integers or two of bfloat16, by the instructions that CPUs have.

x86 multiplies unsigned by signed bytes (`vpdpbusd`: AVX512-VNNI, AVX-VNNI), Arm bytes of one sign (`sdot`, `udot`).
Other signs follow: a byte with its highest bit turned over, read with the other sign, is 128 more or 128 less.

    a . b  =  (a + 128) . b  -  128 * sum(b)     both signed, as unsigned by signed
    a . b  =  (a - 128) . b  +  128 * sum(b)     both unsigned, as signed by unsigned

The last term depends on `b` alone: the rows of a tile share it. An x86 without such an instruction multiplies 16-bit
integers and adds pairs (`pmaddwd`); bytes that are widened first never saturate there, as they do in `pmaddubsw`.

Of bfloat16, x86 adds two products to a float32, one after the other (`vdpbf16ps`: AVX512-BF16). Each is exact, so that
the sum is that of two fused multiply-adds, but for numbers below 2^-126, which the instruction takes for zeros.
"""

from __future__ import annotations

from autosched.codegen.llvm_ops import bits_of
from autosched.codegen.llvm_text import Value, Writer, constant, register_type, typed
from autosched.ir.dtype import DType, dtype

_INT8, _UINT8, _INT16, _INT32, _FLOAT32 = map(dtype, ("int8", "uint8", "int16", "int32", "float32"))


def _probe(name: str, left: str, right: str) -> str:
    return f"""
        define i32 @{name}(<64 x i8> %a, <64 x i8> %b) {{
          %x = {left} <64 x i8> %a to <64 x i32>
          %y = {right} <64 x i8> %b to <64 x i32>
          %xy = mul <64 x i32> %x, %y
          %r = call i32 @llvm.vector.reduce.add.v64i32(<64 x i32> %xy)
          ret i32 %r
        }}"""


#: LLVM's code for this shows what a CPU has.
PROBE = f"""
        declare i32 @llvm.vector.reduce.add.v64i32(<64 x i32>)
        {_probe("mixed", "zext", "sext")}
        {_probe("signed", "sext", "sext")}
        define <64 x i8> @bytes(<64 x i8> %a, <64 x i8> %b) {{
          %r = add <64 x i8> %a, %b
          ret <64 x i8> %r
        }}
        define <16 x bfloat> @pairs(<16 x float> %a) {{
          %r = fptrunc <16 x float> %a to <16 x bfloat>
          ret <16 x bfloat> %r
        }}"""


def dot_instruction(assembly: str) -> tuple[str, int]:
    """The instruction, and the bytes of the widest register it works on; ("", 0) where there is none."""
    for name, shown in (("vpdpbusd", "vpdpbusd\t"), ("pmaddwd", "paddb\t"), ("sdot", "\tsdot\t")):
        found = [line for line in assembly.splitlines() if shown in line]
        if found:
            return name, next((n for n, of in ((64, "%zmm"), (32, "%ymm")) if any(of in x for x in found)), 16)
    return "", 0


def size_for_pairs(assembly: str) -> int:
    """Bytes of the widest register on which products of bfloat16 are added; 0 where they are not. CPUs that can
    convert to it without AVX-512 have no such instruction."""
    found = [line for line in assembly.splitlines() if "vcvtneps2bf16" in line and "{vex}" not in line]
    return next((n for n, of in ((64, "%zmm"), (32, "%ymm")) if any(of in x for x in found)), 0)


def dot(w: Writer, total: Value, a: Value, b: Value) -> Value:
    """As `ir.expr.dot`."""
    if total.dtype.is_float:
        return _dot_of_pairs(w, total, bits_of(w, a), bits_of(w, b))
    if a.dtype.lanes > b.dtype.lanes:
        a, b = b, a  # the correction is of what has a value of its own in each lane: other rows have the same
    lanes = total.dtype.lanes
    name, size = w.module.abilities.dot
    width = next((n for n in (16, 8, 4) if 4 * n <= size and lanes % n == 0), 0)
    if not width:
        return _by_steps(w, total, _whole(w, a, lanes), _whole(w, b, lanes))
    parts = []
    for at in range(0, lanes, width):
        x, y = (v if v.dtype.lanes == 4 else w.part(v, 4 * at, 4 * width) for v in (a, b))
        parts.append(_DOTS[name](w, w.part(total, at, width), x, _whole(w, y, width)))
    return w.part(w.join(parts), 0, lanes)


def _dot_of_pairs(w: Writer, total: Value, a: Value, b: Value) -> Value:
    lanes, size = total.dtype.lanes, w.module.abilities.pairs if w.module.contract else 0
    width = next((n for n in (16, 8, 4) if 4 * n <= size and lanes % n == 0), 0)
    if not width:
        for odd in (True, False):
            x, y = (_floats(w, _whole(w, v, lanes), odd) for v in (a, b))
            flags = " contract" if w.module.contract else ""
            total = w.binary(f"fadd{flags}", total, w.binary(f"fmul{flags}", x, y))
        return total
    parts = []
    sums, factors = register_type(total.dtype.with_lanes(width)), f"<{2 * width} x bfloat>"
    callee = w.module.declare(f"llvm.x86.avx512bf16.dpbf16ps.{32 * width}", sums, [sums, factors, factors])
    for at in range(0, lanes, width):
        of = total.dtype.with_lanes(width)
        x, y = (_whole(w, v if v.dtype.lanes == 2 else w.part(v, 2 * at, 2 * width), width) for v in (a, b))
        x_ref, y_ref = (w.op(f"bitcast {typed(v)} to {factors}", v.dtype).ref for v in (x, y))
        part = w.part(total, at, width)
        parts.append(w.op(f"call {sums} {callee}({typed(part)}, {factors} {x_ref}, {factors} {y_ref})", of))
    return w.join(parts)


def _floats(w: Writer, v: Value, odd: bool) -> Value:
    """Every second bfloat16 as a float: the upper half of a word is one, the lower one goes up."""
    lanes = v.dtype.lanes // 2
    words = w.convert("bitcast", v, _INT32.with_lanes(lanes))
    return w.convert(
        "bitcast", w.binary("and", words, -1 << 16) if odd else w.binary("shl", words, 16), _FLOAT32.with_lanes(lanes)
    )


def _whole(w: Writer, v: Value, lanes: int) -> Value:
    """32 bits for each lane; those alone are for all."""
    if v.dtype.lanes * v.dtype.bits == 32 * lanes:
        return v
    word = w.convert("bitcast", v, _INT32)
    return w.convert("bitcast", w.splat(word, lanes), v.dtype.with_lanes(32 * lanes // v.dtype.bits))


def _by_steps(w: Writer, total: Value, a: Value, b: Value) -> Value:
    """Product after product, in 32 bits."""
    for k in range(4):
        lanes = range(k, a.dtype.lanes, 4)
        of = _INT32.with_lanes(len(lanes))
        x, y = (w.convert("sext" if v.dtype.kind == "int" else "zext", w.shuffle(v, lanes), of) for v in (a, b))
        total = w.binary("add", total, w.binary("mul", x, y))
    return total


def _flipped(w: Writer, v: Value, to: DType, lanes: int) -> Value:
    """Four bytes for each lane, 128 more or less, as those of the other sign.

    Of bytes that are for all lanes, the word is changed before it is in all of them: LLVM 22 never ends selecting
    instructions for the other order.
    """
    words = _INT32.with_lanes(v.dtype.lanes // 4)
    changed = w.binary("xor", w.convert("bitcast", v, words), constant(0x80808080, words))
    return _whole(w, w.convert("bitcast", changed, to.with_lanes(v.dtype.lanes)), lanes)


def _vpdpbusd(w: Writer, total: Value, a: Value, b: Value) -> Value:
    """Unsigned by signed."""
    lanes, none = total.dtype.lanes, constant(0, total.dtype)

    def step(c: Value, unsigned: Value, signed: Value) -> Value:
        return w.intrinsic("x86.avx512", c.dtype, [c, unsigned, signed], f"vpdpbusd.{32 * lanes}")

    if a.dtype.kind != b.dtype.kind:
        a = _whole(w, a, lanes)
        return step(total, a, b) if a.dtype.kind == "uint" else step(total, b, a)
    if a.dtype.kind == "int":
        more = step(none, constant(128, _UINT8.with_lanes(4 * lanes)), b)
        return w.binary("sub", step(total, _flipped(w, a, _UINT8, lanes), b), more)
    less = step(none, b, constant(1, _INT8.with_lanes(4 * lanes)))
    return w.binary("add", step(total, b, _flipped(w, a, _INT8, lanes)), w.binary("shl", less, 7))


def _sdot(w: Writer, total: Value, a: Value, b: Value) -> Value:
    """Both signed or both unsigned."""
    lanes = total.dtype.lanes

    def step(c: Value, x: Value, y: Value) -> Value:
        name = "sdot" if x.dtype.kind == "int" else "udot"
        return w.intrinsic("aarch64.neon", c.dtype, [c, x, y], f"{name}.v4i32.v16i8")

    if a.dtype.kind == b.dtype.kind:
        return step(total, _whole(w, a, lanes), b)
    apart = w.binary("shl", step(constant(0, total.dtype), b, constant(1, b.dtype)), 7)
    if a.dtype.kind == "uint":
        return w.binary("add", step(total, _flipped(w, a, _INT8, lanes), b), apart)
    return w.binary("sub", step(total, _flipped(w, a, _UINT8, lanes), b), apart)


_PAIRS = {4: ("x86.sse2", "pmadd.wd"), 8: ("x86.avx2", "pmadd.wd"), 16: ("x86.avx512", "pmaddw.d.512")}


def _pmaddwd(w: Writer, total: Value, a: Value, b: Value) -> Value:
    """The first and third products of four, then the second and fourth."""
    base, suffix = _PAIRS[total.dtype.lanes]
    a = _whole(w, a, total.dtype.lanes)
    for odd in (False, True):
        x, y = (_sixteen_bits(w, v, odd) for v in (a, b))
        total = w.binary("add", total, w.intrinsic(base, total.dtype, [x, y], suffix))
    return total


def _sixteen_bits(w: Writer, v: Value, odd: bool) -> Value:
    """Every second byte, widened where it stands."""
    of = _INT16.with_lanes(v.dtype.lanes // 2)
    pairs = w.convert("bitcast", v, of)
    if v.dtype.kind == "uint":
        return w.binary("lshr", pairs, 8) if odd else w.binary("and", pairs, 255)
    return w.binary("ashr", pairs if odd else w.binary("shl", pairs, 8), 8)


_DOTS = {"vpdpbusd": _vpdpbusd, "pmaddwd": _pmaddwd, "sdot": _sdot}
