"""Arrays to measure tasks on, where random ones will not do: of the structure of a sparse matrix, of indices.

`TASK_INPUT_BUFFER_TABLE` maps keys of workloads, and "default" for any, to {name of an input: array}.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import UsageError

TASK_INPUT_BUFFER_TABLE: dict[str, dict[str, Any]] = {}


def as_array(given: Any) -> np.ndarray:
    """Return an array of NumPy, of an NDArray too."""
    return np.asarray(given.numpy() if hasattr(given, "numpy") else given)


def register_task_input_buffer(
    workload_key: str, input_name: str, input_data: Any, overwrite: bool = False, save_to_file: bool = False
) -> Any:
    """Keep an array for an input of a workload, in this process, and with `save_to_file` in the working folder, too.

    Return the array. Raises UsageError for a name that is taken, unless `overwrite` is true.
    """
    table = TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {})
    if input_name in table and not overwrite:
        raise UsageError(
            f"{input_name} has an array already",
            asked=f"register_task_input_buffer({workload_key:.80}, {input_name!r})",
            legal="overwrite=True; SearchTask(.., task_inputs_overwrite=True)",
        )
    table[input_name] = input_data
    if save_to_file:
        data = as_array(input_data)
        about = "_".join([*map(str, data.shape), str(data.dtype)])
        data.tofile(f"{input_name}.{about}.npy", " ")
    return input_data


def get_task_input_buffer(workload_key: str, input_name: str) -> Any:
    """Return the array of an input: the one that was registered, or was saved to the working folder.

    Raises UsageError where there is none.
    """
    for key in (workload_key, "default"):
        table = TASK_INPUT_BUFFER_TABLE.get(key, {})
        if input_name in table:
            return table[input_name]
    saved = _saved(input_name)
    if saved is None:
        raise UsageError(
            "no array is registered",
            asked=f"input {input_name!r} of {workload_key:.80}",
            legal="SearchTask(.., task_inputs={name: array})",
        )
    return TASK_INPUT_BUFFER_TABLE.setdefault(workload_key, {}).setdefault(input_name, saved)


def _saved(name: str) -> np.ndarray | None:
    for file in sorted(Path().iterdir()):
        about = file.name.removeprefix(f"{name}.").removesuffix(".npy")
        if not (file.name.startswith(f"{name}.") and file.name.endswith(".npy")):
            continue
        *shape, dtype = about.split("_")
        try:
            return np.fromfile(file, dtype=dtype, sep=" ").reshape([int(n) for n in shape])
        except (TypeError, ValueError):
            continue  # another program's
    return None
