"""The parameters of a function as its C or OpenCL source declares them.

Read with a few regular expressions, not a parser: what they do not understand (macros, types of the
user's) is left to the compiler, and here simply not known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Declared", "declared_parameters", "defined_functions", "without_comments"]

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_QUALIFIERS = {
    *("const", "volatile", "restrict", "__restrict", "__restrict__", "register", "static", "struct"),
    *("__global", "global", "__constant", "constant", "__local", "local", "__private", "private"),
    *("__read_only", "read_only", "__write_only", "write_only"),
}
_C_TYPES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "_Bool": "bool",
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long": "int64",
    "unsigned long": "uint64",
    "long long": "int64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    "uchar": "uint8",
    "ushort": "uint16",
    "uint": "uint32",
    "ulong": "uint64",
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


@dataclass(frozen=True)
class Declared:
    """One parameter: its name, whether it is a pointer (to memory that it may change), and its element type as
    NumPy calls it; empty where that is not known. `space` is `local` for OpenCL's local memory."""

    name: str
    is_pointer: bool
    is_const: bool
    dtype: str
    space: str
    text: str


def without_comments(source: str) -> str:
    """The source with comments and strings blanked out, line breaks kept."""

    def blank(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    return _STRING.sub(blank, _COMMENT.sub(blank, source))


def defined_functions(source: str) -> list[str]:
    """Names of the functions that the source defines, OpenCL's kernels alone if it has any."""
    clean = _without_attributes(without_comments(source))
    kernels = re.findall(r"\b(?:__)?kernel\s+void\s+(\w+)\s*\(", clean)
    found = kernels or re.findall(r"\b(\w+)\s*\([^;{}()]*\)\s*\{", clean)
    return [n for n in dict.fromkeys(found) if n not in ("if", "for", "while", "switch", "return")]


def declared_parameters(source: str, name: str) -> list[Declared] | None:
    """The parameters of the function's definition; None where it cannot be found or understood."""
    clean = _without_attributes(without_comments(source))
    for found in re.finditer(rf"\b{re.escape(name)}\s*\(", clean):
        inside, rest = _balanced(clean, found.end())
        if re.match(r"\s*\{", clean[rest:]):
            parts = _split(inside)
            if parts in ([""], ["void"]):
                return []
            parameters = [_declared(p) for p in parts]
            return None if any(p is None for p in parameters) else [p for p in parameters if p is not None]
    return None


def _without_attributes(text: str) -> str:
    """The source without `__attribute__((...))`."""
    while found := re.search(r"\b__attribute__\s*\(", text):
        text = text[: found.start()] + text[_balanced(text, found.end())[1] :]
    return text


def _balanced(text: str, start: int) -> tuple[str, int]:
    """What stands before the parenthesis that closes, and where it goes on behind."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return text[start:at], at + 1
    return text[start:], len(text)


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(c, 0)
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [" ".join(p.split()) for p in parts]


def _declared(text: str) -> Declared | None:
    found = re.fullmatch(r"(.*?)(\w+)\s*((?:\[[^\]]*\]\s*)*)", text)
    if found is None or "(" in text:
        return None
    before, name, brackets = found.groups()
    if not before.strip():
        return None
    is_pointer = "*" in before or bool(brackets)
    pointee = before.partition("*")[0]
    words = re.findall(r"\w+", pointee)
    base = " ".join(w for w in words if w not in _QUALIFIERS)
    space = "local" if {"__local", "local"} & set(words) else ""
    is_const = bool({"const", "__constant", "constant"} & set(words))
    return Declared(name, is_pointer, is_const, _element_type(base), space, text)


def _element_type(base: str) -> str:
    """NumPy's name of a C type; of a vector type such as float4, that of an element."""
    vector = re.fullmatch(r"(u?(?:char|short|int|long)|float|double|half)(?:2|3|4|8|16)", base)
    words = (vector[1] if vector else base).split()
    if len(words) > 1 and words[-1] == "int" and words[-2] != "unsigned":
        words.pop()  # `long int` is `long`
    if len(words) > 1 and words[0] == "signed" and words[1] != "char":
        words.pop(0)
    return _C_TYPES.get(" ".join(words), "")
