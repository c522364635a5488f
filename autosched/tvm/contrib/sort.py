"""`tvm.contrib.sort`: the packed functions by which TVM's operators sort, computed by NumPy; stable, as TVM's."""

from __future__ import annotations

from typing import Any

import numpy as np

from autosched.ir.functions import register_func
from autosched.tvm._missing import missing


def _order(values: Any, axis: int, is_ascend: bool) -> Any:
    """The indices that sort along an axis; equal elements keep their order."""
    found = np.asarray(values)
    if is_ascend:
        return np.argsort(found, axis=axis, kind="stable")
    last = found.shape[axis] - 1
    return last - np.flip(np.argsort(np.flip(found, axis), axis=axis, kind="stable"), axis)


@register_func("tvm.contrib.sort.argsort", override=True)
def argsort(values: Any, out: Any, axis: int = -1, is_ascend: bool = True) -> None:
    """Write the indices that sort `values` along an axis to `out`."""
    out[...] = _order(values, int(axis), bool(is_ascend))


@register_func("tvm.contrib.sort.sort", override=True)
def sort(values: Any, out: Any, axis: int = -1, is_ascend: bool = True) -> None:
    """Write the elements of `values`, sorted along an axis, to `out`."""
    out[...] = np.take_along_axis(np.asarray(values), _order(values, int(axis), bool(is_ascend)), int(axis))


@register_func("tvm.contrib.sort.argsort_nms", override=True)
def argsort_nms(values: Any, counts: Any, out: Any, axis: int = -1, is_ascend: bool = True) -> None:
    """As `argsort`, of the first elements alone, as many as `counts` has; the others keep their places."""
    found = np.moveaxis(np.asarray(values), int(axis), -1)
    order = np.broadcast_to(np.arange(found.shape[-1]), found.shape).copy()
    rows = np.broadcast_to(np.asarray(counts), found.shape[:-1])
    for place in np.ndindex(rows.shape):
        n = int(rows[place])
        order[place][:n] = _order(found[place][:n], -1, bool(is_ascend))
    out[...] = np.moveaxis(order, -1, int(axis))


__getattr__ = missing("contrib.sort", globals())
