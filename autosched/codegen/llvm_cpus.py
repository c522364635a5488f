"""The instructions of an x86 CPU that is known by name alone, seen in what LLVM makes of a probe for it."""

from __future__ import annotations

import re

from autosched.codegen.llvm_dot import PROBE as PROBE_OF_DOT

#: LLVM's code for this has an instruction of each feature below that a CPU has, and others where it has not.
PROBE = f"""{PROBE_OF_DOT}
        declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
        declare void @llvm.masked.store.v4f32.p0(<4 x float>, ptr, <4 x i1>)
        declare i32 @llvm.ctpop.i32(i32)
        declare i32 @llvm.ctlz.i32(i32, i1)
        define <8 x float> @fused(<8 x float> %a, <8 x float> %b, <8 x float> %c) {{
          %r = call <8 x float> @llvm.fma.v8f32(<8 x float> %a, <8 x float> %b, <8 x float> %c)
          ret <8 x float> %r
        }}
        define void @masked(<4 x float> %v, ptr %p, <4 x i1> %m) {{
          call void @llvm.masked.store.v4f32.p0(<4 x float> %v, ptr align 4 %p, <4 x i1> %m)
          ret void
        }}
        define <16 x i32> @wide(<16 x i32> %a, <16 x i32> %b) {{
          %r = add <16 x i32> %a, %b
          ret <16 x i32> %r
        }}
        define <8 x float> @halves(<8 x half> %a) {{
          %r = fpext <8 x half> %a to <8 x float>
          ret <8 x float> %r
        }}
        define <8 x half> @native(<8 x half> %a, <8 x half> %b) {{
          %r = fadd <8 x half> %a, %b
          ret <8 x half> %r
        }}
        define i32 @shifted(i32 %a, i32 %b) {{
          %r = shl i32 %a, %b
          ret i32 %r
        }}
        define i32 @without(i32 %a, i32 %b) {{
          %n = xor i32 %b, -1
          %r = and i32 %a, %n
          ret i32 %r
        }}
        define i32 @counted(i32 %a) {{
          %n = call i32 @llvm.ctpop.i32(i32 %a)
          %z = call i32 @llvm.ctlz.i32(i32 %a, i1 false)
          %r = add i32 %n, %z
          ret i32 %r
        }}"""

#: feature -> an instruction of the probe that only a CPU with it has
_SHOWN = {
    "avx": r"%ymm",
    "avx2": r"\tvp\w+\s.*%ymm",
    "avx512f": r"%k[1-7]|%zmm",
    "avx512vnni": r"^\tvpdpbusd\s",
    "avxvnni": r"\{vex\}\s+vpdpbusd",
    "avx512bf16": r"\tvcvtneps2bf16\s.*%zmm",
    "avx512fp16": r"\tvaddph",
    "f16c": r"\tvcvtph2ps",
    "fma": r"\tvfmadd",
    "bmi": r"\tandnl",
    "bmi2": r"\tshlxl",
    "lzcnt": r"\tlzcntl",
    "popcnt": r"\tpopcntl",
}


def features_shown(assembly: str) -> list[str]:
    """The features of a CPU, by its code for `PROBE`.

    >>> features_shown("\\tvfmadd213ps\\t%ymm2, %ymm1, %ymm0")
    ['avx', 'fma']
    """
    return [name for name, pattern in _SHOWN.items() if re.search(pattern, assembly, re.MULTILINE)]
