"""What each rule of docs/semantics.md says, as programs with their outputs written out."""

from __future__ import annotations

import semantic_rows_floats as floats
import semantic_rows_integers as integers
from semantic_backends import Row

SECTIONS: dict[str, list[Row]] = {
    "types": integers.TYPES,
    "integers": integers.INTEGERS,
    "indices": integers.INDICES,
    "casts": integers.CASTS,
    "arithmetic": floats.ARITHMETIC,
    "zeros": floats.ZEROS,
    "rounding": floats.ROUNDING,
    "extremes": floats.EXTREMES,
    "functions": floats.FUNCTIONS,
    "reductions": floats.REDUCTIONS,
}
