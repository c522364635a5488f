"""Functions that make workloads, by name, and the keys of workloads: `["name", argument, ...]` as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from autosched.errors import AutoschedError, UsageError, WorkloadError
from autosched.te.tensor import Tensor
from autosched.tvm.auto_scheduler.utils import decode_workload_key, get_func_name
from autosched.tvm.autotvm.task.task import deserialize_args, serialize_args
from autosched.tvm.ir import load_json, save_json

F = TypeVar("F", bound=Callable[..., Any])

#: name -> function that makes the tensors of the arguments; key -> those tensors
WORKLOAD_FUNC_REGISTRY: dict[str, Callable[..., Any] | list[Tensor]] = {}


@overload
def register_workload(func_name: str, f: None = None, override: bool = False) -> Callable[[F], F]: ...
@overload
def register_workload(func_name: str, f: F, override: bool = False) -> F: ...
@overload
def register_workload(func_name: F, f: None = None, override: bool = False) -> F: ...
def register_workload(func_name: Any, f: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Register a function that returns the tensors of the arguments, by its name or another.

    Use as `@register_workload`, `@register_workload("name")` or `register_workload("name", f)`. Raises
    UsageError for a name that is taken, unless `override` is true.
    """
    if callable(func_name):
        f, func_name = func_name, get_func_name(func_name)
    if not isinstance(func_name, str):
        raise UsageError(f"{func_name!r} is no name", asked="register_workload", legal="a string, or a function")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if func_name in WORKLOAD_FUNC_REGISTRY and not override:
            raise UsageError(
                f"{func_name} has been registered already",
                asked="register_workload",
                legal="another name, or override=True",
            )
        WORKLOAD_FUNC_REGISTRY[func_name] = function
        return function

    return register if f is None else register(f)


def register_workload_tensors(workload_key: str, tensors: Sequence[Tensor], override: bool = True) -> str:
    """Register the tensors of the arguments of a workload by its key. Return the key.

    The tasks of a network have keys such as `["d7b6..", 1, 1000]`, which only TVM can make. With the tensors
    registered, records of such a key are found and replayed.
    """
    if workload_key in WORKLOAD_FUNC_REGISTRY and not override:
        raise UsageError(
            f"{workload_key} has been registered already", asked="register_workload_tensors", legal="override=True"
        )
    WORKLOAD_FUNC_REGISTRY[workload_key] = list(tensors)
    return workload_key


def make_workload_key(func: Any, args: Sequence[Any]) -> str:
    """Return the key of a registered function with arguments. Raises WorkloadError for one that is not registered."""
    name = get_func_name(func) if callable(func) else func
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise _unknown(str(name))
    return json.dumps([name, *serialize_args(args)])


def workload_key_to_tensors(workload_key: str) -> list[Tensor]:
    """Return the tensors of the arguments. Raises WorkloadError for a key of a function that is not registered."""
    name, args = decode_workload_key(workload_key)
    found = WORKLOAD_FUNC_REGISTRY.get(workload_key, WORKLOAD_FUNC_REGISTRY.get(name))
    if found is None:
        raise _unknown(workload_key)
    if not callable(found):
        return list(found)
    try:
        made = found(*deserialize_args(args or ()))
    except AutoschedError:
        raise
    except TypeError as error:
        raise WorkloadError(
            str(error), asked=f"workload {workload_key}", legal="the arguments of the function"
        ) from None
    return list(made) if isinstance(made, (list, tuple)) else [made]


def serialize_workload_registry_entry(workload_key: str) -> tuple[str, Any]:
    """Return what another process registers the workload from: its name, and its function or its tensors as JSON."""
    name = workload_key if workload_key in WORKLOAD_FUNC_REGISTRY else decode_workload_key(workload_key)[0]
    if name not in WORKLOAD_FUNC_REGISTRY:
        raise _unknown(workload_key)
    value = WORKLOAD_FUNC_REGISTRY[name]
    return name, value if callable(value) else save_json(value)


def deserialize_workload_registry_entry(data: tuple[str, Any]) -> None:
    """Register what `serialize_workload_registry_entry` returned, unless the name is taken."""
    name, value = data
    if name not in WORKLOAD_FUNC_REGISTRY:
        WORKLOAD_FUNC_REGISTRY[name] = value if callable(value) else load_json(value)


def save_workload_func_registry(filename: str) -> None:
    """Raise UsageError: reading such a file would run code."""
    raise _refused("save_workload_func_registry", filename)


def load_workload_func_registry(filename: str) -> None:
    """Raise UsageError: reading such a file would run code."""
    raise _refused("load_workload_func_registry", filename)


def _refused(name: str, filename: str) -> UsageError:
    return UsageError(
        "it holds Python objects, and reading it could run code",
        asked=f"{name}({filename!r})",
        legal="import the file that registers the functions; serialize_workload_registry_entry(key) for tensors",
    )


def _unknown(what: str) -> WorkloadError:
    names = ", ".join(WORKLOAD_FUNC_REGISTRY) or "none"
    return WorkloadError(
        "no such workload is registered",
        asked=f"workload {what:.200}",
        legal="@auto_scheduler.register_workload on the function that makes it, or register_workload_tensors(key, "
        f"tensors) for a key of a network; registered: {names:.200}",
    )
