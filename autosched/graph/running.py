"""A compiled model as it runs, in this process or from a file: one native function, its weights, and the names of
inputs and outputs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from autosched.codegen.signature import Param
from autosched.errors import Fields, Form, ModelError
from autosched.graph import small
from autosched.graph.memory import padded
from autosched.graph.weights import Described, aligned, apart, offsets
from autosched.ir.dtype import dtype, unmasked
from autosched.runtime import ndarray as nd
from autosched.runtime.export import export_library, load_module
from autosched.runtime.module import Module

Array = np.ndarray[Any, Any]

_OUTPUT = Fields(
    {"name": Form.text(), "count": Form("a number of tensors or null", lambda x: x is None or _is_size(x)),
     "small": Form("a type or null", lambda x: x is None or x in small.NAMES.values()), "absent": Form.flag()}
)  # fmt: skip
_WEIGHT = Form("[type, shape]", lambda x: isinstance(x, list) and len(x) == 2 and _is_array(*x))
#: bytes that the description of a model may take
_LONGEST = 1 << 24
_HEADER = Fields(
    {
        "format": Form("autosched-model", lambda x: x == "autosched-model"),
        "outputs": Form.array(Form("an output", _OUTPUT.fits)),
        "weights": Form.array(_WEIGHT),
    }
)


def _is_size(x: object) -> bool:
    return type(x) is int and 0 <= x < 1 << 48


def _is_array(of: object, shape: object) -> bool:
    try:
        return isinstance(of, str) and bool(dtype(of).bytes) and isinstance(shape, list) and all(map(_is_size, shape))
    except ValueError:
        return False


@dataclass(frozen=True)
class Output:
    """An output of a model.

    count:  the tensors of a sequence, which are outputs of the function one after the other; None for one tensor
    small:  the type of its elements, where the function gives a wider one
    absent: whether it is an optional that holds nothing
    """

    name: str
    count: int | None = None
    small: str | None = None
    absent: bool = False


class Executable:
    """A compiled model without what it was compiled from.

    module:  the function: inputs, weights (one array of bytes; on a device one each), outputs
    block:   the weights as one array of bytes
    weights: their types and shapes
    outputs: the outputs of the model, in order
    """

    def __init__(
        self, name: str, module: Module, block: Array, weights: Sequence[Described], outputs: Sequence[Output]
    ) -> None:
        self.name, self.module, self.outputs = name, module, tuple(outputs)
        self.block, self.weights = block, tuple(weights)
        inputs = module.signature.inputs
        kept = len(weights) if self._is_resident else int(bool(weights))
        #: the inputs of the model
        self.inputs: tuple[Param, ...] = inputs[: len(inputs) - kept]
        self._wanted = [(p.name, dtype(p.dtype).numpy, p.shape) for p in self.inputs]

    @property
    def _is_resident(self) -> bool:
        """Whether weights stay on a device."""
        return self.module.target.kind == "opencl"

    # -- runs -------------------------------------------------------------------------------------
    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by name, for arrays by name of input.

        Raises ModelError for an input that is missing, or has another shape or type.
        """
        found = self.module(*self.checked(inputs), *self.weight_arguments)
        made = iter(found if isinstance(found, (tuple, list)) else [found])
        result: dict[str, Any] = {}
        for out in self.outputs:
            if out.absent:
                result[out.name] = None
                continue
            value: Any = next(made) if out.count is None else [next(made) for _ in range(out.count)]
            result[out.name] = value if out.small is None else small.returned(value, small.named(out.small))
        return result

    def checked(self, inputs: Mapping[str, Any]) -> list[Array]:
        """The inputs as the function takes them, in its order. Raises ModelError."""
        return [self._checked(inputs, *wanted) for wanted in self._wanted]

    def _checked(self, inputs: Mapping[str, Any], name: str, of: np.dtype[Any], shape: tuple[Any, ...]) -> Array:
        array = inputs.get(name)
        if type(array) is not np.ndarray:
            if array is None:
                legal = f"its inputs are {', '.join(map(str, self.inputs))}"
                raise ModelError(f"no value for {name!r}", asked=f"run {self.name}", legal=legal)
            array = np.asarray(unmasked(array, f"run {self.name}, {name!r}"))
        if array.dtype != of:
            array = small.carried(array)
        if array.dtype != of or array.shape != shape:
            p = next(p for p in self.inputs if p.name == name)
            raise ModelError(
                f"{name!r} is {array.dtype}{list(array.shape)}", asked=f"run {self.name}", legal=f"needed: {p}"
            )
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)

    @cached_property
    def weight_arguments(self) -> list[Any]:
        """The arguments that the weights are: one array of bytes; on a device, which keeps them, one each."""
        if self._is_resident:
            device = nd.device(self.module.target.kind)
            return [nd.array(w, device) for w in apart(self.block, self.weights)]
        return [self.block] if self.weights else []

    # -- files ------------------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a library with the weights inside: `x.so`, which needs a C compiler to link it, or `x.tar`.

        Raises BuildError, UsageError for another kind of file, FileError where it cannot be written.
        """
        header = {
            "format": "autosched-model",
            "outputs": [asdict(out) for out in self.outputs],
            "weights": [[of, list(shape)] for of, shape in self.weights],
        }
        first = json.dumps(header).encode() + b"\n"
        export_library(self.module, path, attached=[first.ljust(padded(len(first)), b"\0"), self.block.data])

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Executable:
        """The model of a file that `save` wrote. Raises ModelError for another file.

        The file is machine code: load only files that you would run.
        """
        return Executable.of(load_module(path), str(path))

    @staticmethod
    def of(module: Module, asked: str) -> Executable:
        """The model of a library that was loaded. Raises ModelError for a library without one."""
        try:
            end = bytes(module.attached[:_LONGEST]).find(b"\n") + 1
            header = _HEADER.check(json.loads(bytes(module.attached[:end])))
            block = np.frombuffer(module.attached, np.uint8)[padded(end) :]
            if offsets(header["weights"])[1] != len(block):
                raise ValueError("weights are missing")
        except (ValueError, RecursionError) as error:
            why = f"it is a library without a model ({error})"
            raise ModelError(why, asked=asked, legal="what CompiledModel.save wrote") from None
        outputs = [Output(**{k: out.get(k) for k in ("name", "count", "small", "absent")}) for out in header["outputs"]]
        return Executable(module.name, module, aligned(block), header["weights"], outputs)
