"""Checking the arrays of a call against a signature, with messages that name the argument."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from autosched.codegen.artifact import Signature
from autosched.codegen.signature import Param, format_dim
from autosched.errors import ArgumentError, ArgumentTypeError
from autosched.ir.dtype import is_float, numpy_dtype, unmasked
from autosched.runtime.ndarray import shared

#: candidate solutions that NumPy may try to find whether two strided arrays meet
_MAX_WORK = 100_000

Array = np.ndarray[Any, Any]


def _refused(
    function: str, param: Param, why: str, legal: str = "", error: type[ArgumentError] = ArgumentError
) -> ArgumentError:
    """An error about an argument; `legal` defaults to its parameter."""
    return error(why, asked=f"{function}, argument {param.name!r}", legal=legal or f"expected {param}")


def as_array(value: object, param: Param, function: str) -> Array:
    """`value` as a NumPy array over the same memory.

    Takes NumPy arrays and whatever offers `__array_interface__` or `__dlpack__` on the CPU.
    """
    if isinstance(value, np.ndarray):
        return np.asarray(unmasked(value, f"{function}, argument {param.name!r}"))
    if is_resident(value):
        return cast("Array", value)
    if isinstance(value, (numbers.Real, np.generic)) and not param.shape and not param.is_output:
        return _number(value, param, function)
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        try:
            return shared(value)
        except (BufferError, RuntimeError, TypeError, ValueError) as error:
            legal = "move the array to the CPU, or copy it into a NumPy array"
            raise _refused(function, param, f"NumPy cannot see its memory: {error}", legal) from None
    legal = f"expected {param}: a NumPy array, or an object with __dlpack__ or __array_interface__"
    raise _refused(function, param, f"is a {type(value).__name__}, not an array", legal, ArgumentTypeError)


def _number(value: Any, param: Param, function: str) -> Array:
    """A number for an argument without dimensions, unless its type cannot hold it."""
    of = numpy_dtype(param.dtype)
    if is_float(of) and isinstance(value, (numbers.Real, np.bool_)):
        return np.array(value, of)
    if isinstance(value, (numbers.Integral, np.bool_)):
        bits = np.iinfo(of) if of.kind in "iu" else None
        if bits is None or bits.min <= int(value) <= bits.max:
            return np.array(value, of)
    raise _refused(function, param, f"{value!r} is no {param.dtype}", error=ArgumentTypeError)


def check_arrays(signature: Signature, arrays: Sequence[Array]) -> dict[str, int]:
    """The value of each size, once every array is what its parameter says.

    Raises BuildError for a wrong type, shape, layout or alignment, an output that cannot be written
    and an output that shares memory with another argument.
    """
    if len(arrays) == len(signature.params):
        for param, array in zip(signature.params, arrays, strict=True):
            _check_one(signature.name, param, array)
    sizes = signature.resolve(arrays)
    check_sizes(signature, arrays, sizes)
    for i, param in enumerate(signature.params):
        if param.is_output:
            _check_overlap(signature, arrays, i)
    return sizes


def check_sizes(signature: Signature, arrays: Sequence[Array], sizes: Mapping[str, int]) -> None:
    """Raise BuildError where a size that is an argument is not what the shapes of the others say."""
    for param, array in zip(signature.params, arrays, strict=True):
        if not param.is_size:
            continue
        given = int(cast(Any, array).numpy()) if is_resident(array) else int(array.item())
        if given != sizes[param.name]:
            why = f"is {given}, and the shapes of the arrays say {sizes[param.name]}"
            legal = f"{param.name} = {sizes[param.name]}, or arrays of that size: {signature}"
            raise _refused(signature.name, param, why, legal)


def is_resident(value: object) -> bool:
    """True for an array in the memory of a device, which NumPy cannot see: see `runtime.ndarray`."""
    return getattr(value, "is_resident", False) is True


def _check_one(function: str, param: Param, array: Array) -> None:
    def refuse(why: str, legal: str) -> ArgumentError:
        return _refused(function, param, why, legal)

    if np.dtype(array.dtype) != numpy_dtype(param.dtype):
        legal = f"expected {param}; convert with {param.name}.astype({param.dtype!r})"
        raise _refused(function, param, f"needs {param.dtype}, got {array.dtype}", legal, ArgumentTypeError)
    if is_resident(array):
        return  # made by this library: whole, aligned, writable
    where = f"shape {array.shape}, strides {array.strides}"
    if not array.dtype.isnative:
        raise refuse(f"has the byte order {array.dtype.byteorder!r}", "convert with .astype(dtype.newbyteorder('='))")
    if param.strides:
        odd = next((step for step in array.strides if step < 0 or step % array.itemsize), None)
        if odd is not None:
            what = "negative" if odd < 0 else f"no multiple of {array.itemsize}"
            raise refuse(f"has a stride of {odd} bytes, which is {what}", f"copy it with {param.name}.copy()")
        if param.is_output and _meets_itself(array):
            raise refuse(f"is an output, and elements share memory: {where}", "pass an array whose elements lie apart")
    elif not array.flags.c_contiguous and array.ndim == len(param.shape):
        raise refuse(f"is not C-contiguous: {where}", f"copy it with np.ascontiguousarray({param.name})")
    if not array.flags.aligned:
        raise refuse(f"is not aligned to {array.itemsize} bytes", f"copy it with {param.name}.copy()")
    if array.ctypes.data % param.alignment and array.size:
        raise refuse(f"is not aligned to {param.alignment} bytes", "copy it into memory that is")
    if param.is_output and not array.flags.writeable:
        why = "is an output and cannot be written: the array is read-only"
        raise refuse(why, "pass a writable array, or leave it out")


def _meets_itself(array: Array) -> bool:
    """True if two elements share memory; strides that reach past one another's rows count as that."""
    if not array.size:
        return False
    reach = array.itemsize
    for step, length in sorted(zip(array.strides, array.shape, strict=True)):
        if length > 1 and step < reach:
            return True
        reach += max(length - 1, 0) * step
    return False


def check_output(function: str, param: Param, sizes: Mapping[str, int]) -> None:
    """Raise BuildError where the sizes leave no shape for an output that is yet to be allocated."""
    for axis, (dim, length) in enumerate(zip(param.shape, param.shape_for(sizes), strict=True)):
        if length < 0:
            known = ", ".join(f"{name} = {value}" for name, value in sizes.items())
            why = f"dimension {axis} would be {format_dim(dim)} = {length}, which is negative, with {known}"
            raise _refused(function, param, why, f"larger arrays: {param}")


def spans_overlap(a: int, a_bytes: int, b: int, b_bytes: int) -> bool:
    """True if two stretches of memory, each an address and a length in bytes, share a byte."""
    return a < b + b_bytes and b < a + a_bytes and a_bytes > 0 and b_bytes > 0


def _overlap(a: Any, b: Any) -> bool:
    """True if two arrays have an element in common, or if that is too hard to tell."""
    if is_resident(a) or is_resident(b):
        return a is b
    if not np.may_share_memory(a, b) or (a.flags.c_contiguous and b.flags.c_contiguous):
        return bool(np.may_share_memory(a, b))
    try:
        return bool(np.shares_memory(a, b, max_work=_MAX_WORK))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _check_overlap(signature: Signature, arrays: Sequence[Array], output: int) -> None:
    """Raise ArgumentError for an output that shares memory with another argument."""
    for i, other in enumerate(arrays):
        if i != output and _overlap(arrays[output], other):
            why = f"is an output and shares memory with argument {signature.params[i].name!r}"
            legal = "outputs need memory of their own: pass another array, or leave it out"
            raise _refused(signature.name, signature.params[output], why, legal)
