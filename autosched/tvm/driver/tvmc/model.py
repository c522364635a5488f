"""What tvmc's calls hand on: a model, a package of compiled code, and results."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from autosched.errors import ModelError, check_path, named_file
from autosched.graph.running import Executable
from autosched.ir.printer import file_name
from autosched.records import find_folder
from autosched.runtime.function import BenchmarkResult
from autosched.tvm.relay.frontend import RelayModule


class TVMCModel:
    """A model that was loaded. `mod` prints its nodes; `params` are weights that replace its own."""

    def __init__(
        self, mod: RelayModule, params: Mapping[str, Any] | None = None, model_path: str | None = None
    ) -> None:
        self.mod, self.params = mod, dict(params or {})
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.name = file_name(mod.model.name)

    def summary(self, file: IO[str] | None = None) -> None:
        """Print the nodes."""
        print(self.mod, file=file or sys.stdout)

    def save(self, model_path: str) -> None:
        """Write the model as an ONNX file. Raises FileError."""
        with named_file(f"save({model_path!r})"):
            check_path(model_path, "save(model_path)").write_bytes(self.mod.model.proto.SerializeToString())

    def default_tuning_records_path(self) -> str:
        """The folder of records that builds read."""
        return os.fspath(find_folder())

    def default_package_path(self) -> str:
        """A file that lasts as long as this object."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="autosched-")
        return os.fspath(Path(self._folder.name, f"{self.name}_package.tar"))


class TVMCPackage:
    """Compiled code with its weights: a file that `compile` wrote.

    Raises BuildError or ModelError for another file.
    """

    def __init__(self, package_path: str, model: TVMCModel | None = None) -> None:
        self.package_path = package_path
        self._model = model  # whose folder the file may be in
        self.executable = Executable.load(package_path)


class TVMCResult:
    """The outputs of a run, `output_0` and so on, and the seconds of its calls."""

    def __init__(self, outputs: Mapping[str, np.ndarray[Any, Any]], times: BenchmarkResult | None) -> None:
        self.outputs, self.times = dict(outputs), times

    def format_times(self) -> str:
        """A table of the seconds."""
        return str(self.times)

    def get_output(self, name: str) -> np.ndarray[Any, Any]:
        """An output by its name. Raises ModelError for one that there is not."""
        if name not in self.outputs:
            raise ModelError("there is no such output", asked=f"get_output({name!r})", legal=", ".join(self.outputs))
        return self.outputs[name]

    def save(self, output_path: str) -> None:
        """Write the outputs to an .npz file. Raises FileError."""
        with named_file(f"save({output_path!r})"):
            np.savez(check_path(output_path, "save(output_path)"), **cast("dict[str, Any]", self.outputs))

    def __str__(self) -> str:
        return f"{self.format_times()}\n\nOutput Names:\n {[*self.outputs]}"
