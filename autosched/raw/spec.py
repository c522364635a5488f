"""A raw kernel as plain data: all that a worker needs to build any configuration of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autosched.codegen.signature import Param, Signature
from autosched.raw.geometry import AXES, Geometry
from autosched.raw.parameters import Parameters

__all__ = ["LANGUAGES", "Argument", "KernelSpec"]

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
        """What the source may use: the parameters, the work-group's and the grid's extents."""
        grid, block = self.geometry_of(knobs)
        found: dict[str, Any] = {"kernel_tuner": 1}
        if self.lang == "OpenCL":
            found |= {f"grid_size_{a}": n for a, n in zip(AXES, grid, strict=True)}
            found |= dict(zip(self.geometry.block_names, block, strict=False))
        return {**found, **self.parameters.decode(knobs)}

    def header(self, knobs: Mapping[str, int]) -> str:
        """The #define lines of a configuration."""
        return "".join(f"#define {name} {value}\n" for name, value in self.defines(knobs).items())

    def full_source(self, knobs: Mapping[str, int]) -> str:
        """What compilers are given: complaints still name the lines of the user's source."""
        name = self.origin.replace("\\", "/").replace('"', "")
        return f'{self.header(knobs)}#line 1 "{name}"\n{self.source}\n'

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
