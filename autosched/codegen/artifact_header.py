"""Whether the header of an artifact is what a code generator writes: its fields, and what is in them.

A checksum shows that a file is whole. It does not show who made it, so every field that a runtime will use is looked
at here, once, when the file is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autosched.codegen.signature import Signature
from autosched.ir.dims import check_dim
from autosched.ir.dtype import SCALAR_DTYPES

__all__ = ["SOURCES", "check_code", "check_meta"]

#: kinds of artifact whose code is text
SOURCES = ("c", "opencl", "cuda")
KINDS = ("llvm", "shared", *SOURCES)

Check = Callable[[Any, Signature], bool]


def _is_text(x: Any, _: Signature) -> bool:
    return isinstance(x, str) and "\0" not in x


def _is_symbol(x: Any, _: Signature) -> bool:
    return isinstance(x, str) and re.fullmatch(r"[A-Za-z_$.][\w$.]*", x, re.ASCII) is not None


def _is_flag(x: Any, _: Signature) -> bool:
    return isinstance(x, bool)


def _is_list(of: Check) -> Check:
    return lambda x, s: isinstance(x, list) and all(of(one, s) for one in x)


def _is_dim(x: Any, s: Signature) -> bool:
    check_dim(x, s.sizes)
    return True


def _is_launch(x: Any, s: Signature) -> bool:
    if not isinstance(x, dict) or not {"name", "grid", "block", "shared_bytes", "args"} <= x.keys():
        return False
    for dims in (x["grid"], x["block"]):
        if not isinstance(dims, list) or len(dims) != 3 or not all(_is_dim(d, s) for d in dims):
            return False
    for d in (x["shared_bytes"], x.get("when", 1)):
        check_dim(d, s.sizes)
    return _is_text(x["name"], s) and isinstance(x["args"], list) and all(_is_argument(a, s) for a in x["args"])


def _is_argument(x: Any, s: Signature) -> bool:
    """What a kernel gets: `[kind, which]`."""
    if not isinstance(x, list) or len(x) != 2:
        return False
    match x:
        case ["param" | "device", int() as place]:
            return not isinstance(place, bool) and place >= 0 and (x[0] == "device" or place < len(s.params))
        case ["size", str() as name]:
            return name in s.sizes
        case ["shared", dim]:
            return _is_dim(dim, s)
        case ["scalar", [str() as of, int() | float()]]:
            return of in SCALAR_DTYPES
    return False


def _is_memory(x: Any, s: Signature) -> bool:
    return (
        isinstance(x, dict)
        and _is_text(x.get("name"), s)
        and _is_text(x.get("dtype"), s)
        and _is_dim(x.get("elements"), s)
    )


#: what a runtime reads of `meta` -> how it must look; the rest is for people
_META: Mapping[str, Check] = {
    "entry": _is_symbol,
    "parallel": _is_flag,
    "mcpu": _is_text,
    "cpu": _is_text,
    "features": _is_text,
    "triple": _is_text,
    "llvm": _is_text,
    "symbols": _is_list(_is_symbol),
    "packed": _is_list(_is_text),
    "options": lambda x, s: x is None or _is_list(_is_text)(x, s),
    "launches": _is_list(_is_launch),
    "device": _is_list(_is_memory),
    "index_bound": _is_dim,
    "provenance": lambda x, _: isinstance(x, dict),
}
_NEEDED: Mapping[str, Sequence[str]] = {
    "llvm": ("entry", "cpu", "features", "triple"),
    "c": ("entry",),
    "shared": ("entry",),
    "opencl": ("launches", "device", "index_bound"),
    "cuda": ("launches", "device", "index_bound"),
}


def check_meta(kind: str, meta: Mapping[str, Any], signature: Signature) -> None:
    """Raise ValueError for a field of `meta` that is missing, or that is not what its reader takes."""
    if kind not in KINDS:
        raise ValueError(f"its kind is {kind!r:.40}, not one of {', '.join(KINDS)}")
    missing = [name for name in _NEEDED[kind] if name not in meta]
    if missing:
        raise ValueError(f"its meta has no {missing[0]!r}")
    for name, check in _META.items():
        if name in meta and not check(meta[name], signature):
            raise ValueError(f"{meta[name]!r:.60} in its meta is no {name!r}")


def check_code(kind: str, code: bytes) -> None:
    """Raise ValueError for source that is no text."""
    if kind in SOURCES:
        code.decode()
