"""What callers in C and Python see of an exported function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from autosched.codegen.artifact import Artifact
from autosched.codegen.llvm import is_foreign, triple_of
from autosched.codegen.signature import Param, Signature
from autosched.errors import BuildError
from autosched.ir.dims import Dim, format_dim
from autosched.target import Target

_FLAGS = "-fno-strict-aliasing -fno-math-errno -fno-trapping-math"
#: a length of dimensions in an example, where nobody says another
USUAL = 256


@dataclass(frozen=True)
class Interface:
    """A function as its callers see it: what they pass, and how it is linked.

    signature:  arrays and sizes in the order of C's function
    weights:    bytes of `weights.bin`, which a model needs; `weights_at` is the number of the array that they are, -1
                where a device gets them once
    parallel:   whether it has loops for several threads;  strict: whether multiply-adds are left alone
    libraries:  options of the linker besides OpenMP's
    usual:      sizes for examples
    origin:     where its schedule came from
    """

    signature: Signature
    target: Target
    parallel: bool = False
    strict: bool = False
    weights: int = 0
    weights_at: int = -1
    libraries: tuple[str, ...] = ("-lm",)
    usual: Mapping[str, int] = field(default_factory=dict)
    origin: str = ""

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def is_device(self) -> bool:
        return self.target.is_gpu_style

    @property
    def is_foreign(self) -> bool:
        """Whether it is machine code of another architecture."""
        return self.target.kind == "llvm" and is_foreign(triple_of(self.target))

    @property
    def march(self) -> str:
        """An option of the compiler for sources of kernels."""
        return f" -march={self.target.mcpu or 'native'}" if self.target.kind == "c" else ""

    @property
    def flags(self) -> list[str]:
        """What sources are compiled with, besides OpenMP's option."""
        contract = f"-ffp-contract={'off' if self.strict else 'fast'}"
        return [*f"-std=c99 -O3{self.march}".split(), *_FLAGS.split(), contract]

    @property
    def compiler(self) -> str:
        """A line of a Makefile that names the compiler, for another machine."""
        return f"CC = {self.target.mtriple}-gcc\n" if self.is_foreign else ""

    @staticmethod
    def of(artifact: Artifact, target: Target, usual: Mapping[str, int], origin: str) -> Interface:
        """That of one compiled function. Raises BuildError for arrays that examples cannot pass."""
        s = artifact.signature
        for p in s.params:
            why = "is a number" if p.is_size else "may be broadcast" if p.broadcasts else "has strides of its own"
            if p.is_size or p.broadcasts or p.strides:
                legal = "arrays row by row, without gaps; Module.export_library writes a library and its header"
                raise BuildError(f"the argument {p.name!r} {why}", asked=f"export {s.name}", legal=legal)
        libraries = ["-lOpenCL"] if target.kind == "opencl" else ["-lm"]
        libraries[:0] = ["-lmvec"] if artifact.kind == "llvm" and b"_ZGV" in artifact.code else []
        meta = artifact.meta
        sizes = {name: usual.get(name, USUAL) for name in s.sizes}
        return Interface(
            s,
            target,
            bool(meta.get("parallel")),
            bool(meta.get("strict")),
            libraries=tuple(libraries),
            usual=sizes,
            origin=origin,
        )

    def in_c(self, dim: Dim) -> str:
        """A formula over sizes as C, over the array `sizes`."""
        return format_dim(dim, _IN_C, lambda name: f"sizes[{self.signature.sizes.index(name)}]")


_IN_C = {
    "floordiv": "floordiv({}, {})",
    "floormod": "floormod({}, {})",
    "truncdiv": "{} / {}",
    "truncmod": "{} % {}",
    "min": "smaller({}, {})",
    "max": "larger({}, {})",
    "and": "{} && {}",
    "or": "{} || {}",
    "not": "!({})",
}
_HELPERS = {
    "floordiv": "return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));",
    "floormod": "return b == 0 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);",
    "smaller": "return a < b ? a : b;",
    "larger": "return a > b ? a : b;",
}


def helpers_for(texts: Iterable[str]) -> str:
    """Definitions in C of the functions that formulas call."""
    text = "\n".join(texts)
    return "".join(
        f"\nstatic int64_t {name}(int64_t a, int64_t b) {{\n  {body}\n}}\n"
        for name, body in _HELPERS.items()
        if f"{name}(" in text
    )


def elements_of(p: Param) -> Dim:
    """The elements of memory of an array, as a formula over sizes."""
    one: Dim = 1
    return reduce(_times, p.shape, one)


def _times(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return b if a == 1 else a if b == 1 else ["mul", a, b]


#: stands for the name of the function in text for `named`
NAME = "\0"


_KEPT = r"""#include.*|//.*|/\*[\s\S]*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""


def named(text: str, name: str) -> str:
    """The text of a C file with the name of its function, which no other word of it is."""
    words = rf"{_KEPT}|(?<!\0)\b({re.escape(name)})\b"
    return re.sub(words, lambda m: f"{name}_here" if m[1] else m[0], text).replace(NAME, name)
