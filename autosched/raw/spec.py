"""A raw kernel as plain data: parameters as its source declares them, work-items by Kernel Tuner's rules."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autosched.codegen.signature import Param, Signature
from autosched.errors import UsageError
from autosched.raw.parameters import Parameters, Quantity

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_QUALIFIERS = {
    *("const", "volatile", "restrict", "__restrict", "__restrict__", "register", "static", "struct"),
    *("__global", "global", "__constant", "constant", "__local", "local", "__private", "private"),
    *("__read_only", "read_only", "__write_only", "write_only"),
}
_INTEGERS = {"char": "int8", "short": "int16", "int": "int32", "long": "int64"}
#: C's and OpenCL's names of types -> NumPy's
_C_TYPES = {
    **_INTEGERS,
    **{f"{prefix}{c}": f"u{name}" for c, name in _INTEGERS.items() for prefix in ("unsigned ", "u")},
    **{f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "signed char": "int8",
    "unsigned": "uint32",
    "long long": "int64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__bf16": "bfloat16",
    "_Bool": "bool",
    "bool": "bool",
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
    """The text up to the closing parenthesis, and the position behind it."""
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


AXES = ("x", "y", "z")
BLOCK_SIZE_NAMES = ("block_size_x", "block_size_y", "block_size_z")
_DEFAULT_BLOCK = (256, 1, 1)
#: a grid that no device has: what a division by zero becomes
_TOO_MANY = 2**40

Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Geometry:
    """`problem_size` is one quantity for each axis, or one function's answer for all; `grid_div` has the
    factors of the divisor of each axis."""

    parameters: Parameters
    problem_size: tuple[Quantity, ...]
    grid_div: tuple[tuple[Quantity, ...], ...]
    block_names: tuple[str, ...]

    @staticmethod
    def of(
        parameters: Parameters, problem_size: Any, grid_div: Sequence[Any], block_size_names: Sequence[str] | None
    ) -> Geometry:
        """From what `tune_kernel` is given. Raises UsageError."""
        names = tuple(block_size_names or BLOCK_SIZE_NAMES)
        if len(names) > 3 or not all(isinstance(n, str) for n in names):
            raise UsageError("it is no list of up to three names", asked="block_size_names", legal='["tx", "ty"]')
        coded = [n for n in names if n in parameters.choices]
        if coded:
            raise UsageError("its values are no integers", asked=f"tune_params[{coded[0]!r}]", legal="[32, 64]")
        divisors = tuple(
            _divisor(given, names[i] if i < len(names) else "", parameters, f"grid_div_{AXES[i]}")
            for i, given in enumerate(grid_div)
        )
        return Geometry(parameters, _problem(problem_size, parameters), divisors, names)

    def block(self, columns: Columns, n: int) -> np.ndarray:
        """Work-items of a group along x, y and z: int64 [n, 3]."""
        names = [*self.block_names, "", ""][:3]
        pairs = zip(names, _DEFAULT_BLOCK, strict=True)
        return np.stack([np.broadcast_to(columns.get(k, np.int64(d)), n) for k, d in pairs], axis=1).astype(np.int64)

    def grid(self, columns: Columns, n: int) -> np.ndarray:
        """Work-groups along x, y and z: int64 [n, 3]. Below 1 where sizes or divisors are."""
        sizes = np.ones((n, 3))
        found = [q.evaluate(columns, n) for q in self.problem_size]
        if found[0].ndim == 2:
            sizes[:] = found[0]
        else:
            sizes[:, : len(found)] = np.stack(found, axis=1)
        divisors = np.ones((n, 3))
        for axis, factors in enumerate(self.grid_div):
            for factor in factors:
                value = factor.evaluate(columns, n)
                divisors[:, axis] *= np.trunc(value) if isinstance(factor.data, str) else value
        with np.errstate(all="ignore"):
            groups = np.ceil(sizes / divisors)
        return np.nan_to_num(groups, nan=0.0, posinf=_TOO_MANY, neginf=-1).astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        return {
            "problem_size": [q.data for q in self.problem_size],
            "grid_div": [[q.data for q in factors] for factors in self.grid_div],
            "block_size_names": list(self.block_names),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], parameters: Parameters) -> Geometry:
        return Geometry(
            parameters,
            tuple(Quantity(parameters, d) for d in data["problem_size"]),
            tuple(tuple(Quantity(parameters, d) for d in factors) for factors in data["grid_div"]),
            tuple(data["block_size_names"]),
        )


def _problem(given: Any, parameters: Parameters) -> tuple[Quantity, ...]:
    if callable(given):
        return (Quantity.of(given, parameters, "problem_size", width=3),)
    parts = list(given) if isinstance(given, (tuple, list)) else [given]
    if not 1 <= len(parts) <= 3:
        raise UsageError(f"it has {len(parts)} dimensions", asked="problem_size", legal="1 to 3")
    sizes = tuple(Quantity.of(p, parameters, "problem_size") for p in parts)
    for p in parts:
        if not isinstance(p, str) and not callable(p) and p < 1:
            raise UsageError(f"{p} is no size", asked="problem_size", legal="1 or more")
    return sizes


def _divisor(given: Any, block_name: str, parameters: Parameters, asked: str) -> tuple[Quantity, ...]:
    if given is None:
        given = [block_name] if block_name in parameters.values else []
    parts = [given] if callable(given) or isinstance(given, str) else given
    if not isinstance(parts, (list, tuple)):
        raise UsageError(f"{given!r} is no list", asked=asked, legal='["block_size_x", "tile_size_x"], or a function')
    return tuple(Quantity.of(p, parameters, asked) for p in parts)


#: language -> the kind of target that runs it
LANGUAGES = {"OpenCL": "opencl", "C": "c"}


@dataclass(frozen=True)
class Argument:
    """One argument of the kernel. `role` is `input`, `output` (compared with the answer), `scratch` (an array that
    may be changed, and is not compared) or `scalar`, whose number is `value`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str
    value: int | float | None = None

    @property
    def is_array(self) -> bool:
        return self.role != "scalar"


@dataclass(frozen=True)
class KernelSpec:
    """`origin` is what compilers call the source in their complaints."""

    name: str
    lang: str
    source: str
    origin: str
    arguments: tuple[Argument, ...]
    parameters: Parameters
    geometry: Geometry
    options: tuple[str, ...]

    @property
    def signature(self) -> Signature:
        """Of the arrays; scalars are fixed."""
        params = (Param(a.name, a.dtype, a.shape, a.role != "input") for a in self.arguments if a.is_array)
        return Signature(self.name, tuple(params), ())

    @cached_property
    def key(self) -> str:
        """A hash of what is computed and of what can be said about it: two configurations of one key can be
        compared, and their knobs mean the same. Values and restrictions may change under it."""
        data = self.to_json()
        data["parameters"] = {n: self.parameters.choices.get(n) for n in self.parameters.values}
        del data["origin"]
        text = json.dumps(data, sort_keys=True)
        return "raw-" + hashlib.sha256(text.encode()).hexdigest()[:32]

    def geometry_of(self, knobs: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(work-groups along x, y, z; work-items of each)."""
        columns = {name: np.asarray([value], dtype=np.int64) for name, value in knobs.items()}
        grid, block = self.geometry.grid(columns, 1)[0], self.geometry.block(columns, 1)[0]
        return tuple(map(int, grid)), tuple(map(int, block))

    def defines(self, knobs: Mapping[str, int]) -> dict[str, Any]:
        """The macros that the source may use: parameters, extents of the work-group and of the grid."""
        grid, block = self.geometry_of(knobs)
        found: dict[str, Any] = {"kernel_tuner": 1}
        if self.lang == "OpenCL":
            found |= {f"grid_size_{a}": n for a, n in zip(AXES, grid, strict=True)}
            found |= dict(zip(self.geometry.block_names, block, strict=False))
        return {**found, **self.parameters.decode(knobs)}

    def full_source(self, knobs: Mapping[str, int]) -> str:
        """The text for compilers, whose complaints still name the lines of the user's source."""
        header = "".join(f"#define {name} {value}\n" for name, value in self.defines(knobs).items())
        name = self.origin.replace("\\", "/").replace('"', "")
        return f'{header}#line 1 "{name}"\n{self.source}\n'

    def to_json(self) -> dict[str, Any]:
        return {
            "raw": 1,
            "name": self.name,
            "lang": self.lang,
            "source": self.source,
            "origin": self.origin,
            "arguments": [asdict(a) for a in self.arguments],
            "parameters": {n: list(v) for n, v in self.parameters.values.items()},
            "geometry": self.geometry.to_json(),
            "options": list(self.options),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> KernelSpec:
        parameters = Parameters({n: tuple(v) for n, v in data["parameters"].items()})
        arguments = tuple(Argument(**{**a, "shape": tuple(a["shape"])}) for a in data["arguments"])
        return KernelSpec(
            data["name"],
            data["lang"],
            data["source"],
            data["origin"],
            arguments,
            parameters,
            Geometry.from_json(data["geometry"], parameters),
            tuple(data["options"]),
        )
