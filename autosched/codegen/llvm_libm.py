"""Mathematical functions of whole vectors, where the C library has them and `formulas` does not.

The GNU C library brings `libmvec`: `sin` of 16 floats in one call, within 4 units in the last place.
Without it a vector is taken apart and each lane calls `libm`, which is five to ten times slower.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache, lru_cache

from autosched.ir.dtype import DType

LIBRARY = "libmvec.so.1"

#: operators that libmvec (2.35) has under the name of the C function
VECTOR_FUNCTIONS = frozenset(
    (
        *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "pow", "erf", "hypot"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    )
)

#: the letter of each vector size in a symbol's name, and the instructions it needs
_SIZES = ((512, "e", "avx512f"), (256, "d", "avx2"), (128, "b", "sse2"))


@dataclass(frozen=True)
class VectorLibrary:
    """The functions that code for one CPU may call."""

    sizes: tuple[tuple[int, str], ...]  #: (bits, letter), widest first

    def find(self, name: str, of: DType, arguments: int) -> tuple[str, int] | None:
        """(symbol, lanes) of the function for vectors of `of`, which may be of any length."""
        if name not in VECTOR_FUNCTIONS or of.bits < 32:
            return None
        # the narrowest registers that hold the vector at once, or else the widest there are
        enough = [size for size in self.sizes if size[0] >= of.bits * of.lanes]
        bits, letter = enough[-1] if enough else self.sizes[0]
        lanes = bits // of.bits
        symbol = f"_ZGV{letter}N{lanes}{'v' * arguments}_{name}{'f' if of.bits == 32 else ''}"
        return (symbol, lanes) if _has(symbol) else None


@lru_cache(maxsize=8)
def vector_library(triple: str, features: str) -> VectorLibrary | None:
    """The functions for a CPU with these features (as LLVM spells them); None without any."""
    if not triple.startswith("x86_64") or _library() is None:
        return None
    present = {"sse2"}
    for feature in features.split(","):  # the last word on a feature counts
        (present.add if feature.startswith("+") else present.discard)(feature[1:])
    return VectorLibrary(tuple((bits, letter) for bits, letter, needs in _SIZES if needs in present))


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:  # another C library, or another system
        return None


@cache
def _has(symbol: str) -> bool:
    return hasattr(_library(), symbol)
