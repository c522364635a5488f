"""Functions of arrays in NumPy's spelling, to be traced: what NumPy computes is what the trace has to compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]

#: one operand of any type
UNARY: dict[str, Function] = {
    name: getattr(np, name)
    for name in (
        "negative absolute sign square sqrt exp exp2 log log1p log2 log10 sin cos tan arcsin arctan sinh cosh tanh "
        "arcsinh arctanh floor ceil trunc rint reciprocal isnan isinf isfinite logical_not positive fabs expm1 "
        "cbrt deg2rad rad2deg signbit invert conjugate"
    ).split()
}
#: two operands, stretched
BINARY: dict[str, Function] = {
    name: getattr(np, name)
    for name in (
        "add subtract multiply divide floor_divide remainder fmod maximum minimum fmax fmin equal not_equal less "
        "less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
        "left_shift right_shift arctan2 hypot copysign logaddexp heaviside float_power"
    ).split()
}
#: functions of a matrix [6, 5]
OF_MATRIX: dict[str, Function] = {
    "T": lambda x: x.T,
    "reshape": lambda x: x.reshape(3, -1, 2),
    "reshape tuple": lambda x: np.reshape(x, (2, 15)),
    "ravel": lambda x: x.ravel(),
    "flatten": lambda x: x.flatten(),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x[None], 0, -1),
    "squeeze": lambda x: np.squeeze(x[None, :, None]),
    "expand_dims": lambda x: np.expand_dims(x, (0, -1)),
    "broadcast_to": lambda x: np.broadcast_to(x[:, :1], (6, 7)),
    "flip": lambda x: np.flip(x),
    "flip axis": lambda x: np.flip(x, -1),
    "rot90": lambda x: np.rot90(x) + np.rot90(x, 3)[::-1, ::-1],
    "diagonal": lambda x: np.diagonal(x, -1),
    "trace": lambda x: np.trace(x),
    "roll": lambda x: np.roll(x, 2, 1),
    "roll all": lambda x: np.roll(x, -7),
    "roll two": lambda x: np.roll(x, (1, -2), (0, 1)),
    "concatenate": lambda x: np.concatenate([x, x[:2]], 0),
    "concatenate flat": lambda x: np.concatenate([x, x[:2]], axis=None),
    "stack": lambda x: np.stack([x, x + x], 1),
    "vstack": lambda x: np.vstack([x[0], x]),
    "hstack": lambda x: np.hstack([x, x[:, :1]]),
    "dstack": lambda x: np.dstack([x, x]),
    "column_stack": lambda x: np.column_stack([x[:, 0], x]),
    "split": lambda x: tuple(np.split(x, 3)),
    "split at": lambda x: tuple(np.split(x, [1, 4], 1)),
    "repeat": lambda x: np.repeat(x, 3, 1),
    "tile": lambda x: np.tile(x, (2, 1, 2)),
    "pad constant": lambda x: np.pad(x, ((1, 2), (0, 3))),
    "pad value": lambda x: np.pad(x, 1, constant_values=3),
    "pad edge": lambda x: np.pad(x, 2, mode="edge"),
    "pad reflect": lambda x: np.pad(x, ((9, 2), (3, 8)), mode="reflect"),
    "pad symmetric": lambda x: np.pad(x, 7, mode="symmetric"),
    "pad wrap": lambda x: np.pad(x, (4, 11), mode="wrap"),
    "diag": lambda x: np.diag(x[0], 1),
    "diag of": lambda x: np.diag(x, -2),
    "tril": lambda x: np.tril(x, 1),
    "triu": lambda x: np.triu(x, -1),
    "zeros like": lambda x: np.zeros(x.shape[-1:], like=x) + np.ones((2, 1), np.float32, like=x) + np.empty(1, like=x) * 0,
    "full like": lambda x: np.full(3, 7, like=x) + np.full((2, 1), 0.5, like=x),
    "zeros_like": lambda x: np.zeros_like(x) + np.ones_like(x, dtype=np.uint8),
    "full_like": lambda x: np.full_like(x, 2, shape=(3,)),
    "where": lambda x: np.where(x > 1, x, 0),
    "where float": lambda x: np.where(x > 1, x, np.float32(0.5)),
    "select": lambda x: np.select([x < 1, x < 2], [x, x + x], default=7),
    "clip": lambda x: np.clip(x, 1, 2),
    "clip method": lambda x: x.clip(1),
    "take": lambda x: np.take(x, np.array([3, 0, -1]), 0),
    "take_along_axis": lambda x: np.take_along_axis(x, np.array([[1], [0], [2], [4], [3], [1]]), 1),
    "sum": lambda x: np.sum(x),
    "sum axis": lambda x: x.sum(0),
    "sum keep": lambda x: x.sum((0, 1), keepdims=True),
    "sum where": lambda x: np.sum(x, where=x > 1),
    "sum type": lambda x: np.sum(x, 1, dtype=np.float64),
    "prod": lambda x: np.prod(x[:2], 1),
    "max": lambda x: np.max(x, 1),
    "min": lambda x: x.min(),
    "max initial": lambda x: np.max(x, initial=2),
    "mean": lambda x: np.mean(x, 0),
    "mean all": lambda x: x.mean(),
    "var": lambda x: np.var(x, 1, ddof=1),
    "std": lambda x: x.std(),
    "all": lambda x: np.all(x, 1),
    "any": lambda x: (x > 2).any(0, keepdims=True),
    "count_nonzero": lambda x: np.count_nonzero(x, axis=0),
    "argmax": lambda x: np.argmax(x, 1),
    "argmin": lambda x: np.argmin(x),
    "cumsum": lambda x: np.cumsum(x, 1),
    "cumsum flat": lambda x: np.cumsum(x),
    "cumprod": lambda x: np.cumprod(x[:, :2], 0),
    "average": lambda x: np.average(x, 0, weights=np.arange(1.0, 7)),
    "matmul": lambda x: x @ x.T,
    "matmul vector": lambda x: x @ x[0],
    "matmul batch": lambda x: x[None] @ np.stack([x.T, x.T]),
    "dot": lambda x: np.dot(x, x[2]),
    "inner": lambda x: np.inner(x, x[:3]),
    "outer": lambda x: np.outer(x[0], x[:, 1]),
    "vdot": lambda x: np.vdot(x, x),
    "tensordot": lambda x: np.tensordot(x, x, ([0], [0])),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "einsum implicit": lambda x: np.einsum("ij,ij", x, x),
    "convolve": lambda x: np.convolve(x[0], x[1, :3]),
    "convolve same": lambda x: np.convolve(x[0], x[1, :2], "same"),
    "correlate": lambda x: np.correlate(x[0], x[1, :3], "valid"),
    "correlate same": lambda x: np.correlate(x[0], x[1, :4], "same"),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, (3, 2)).sum((-1, -2)),
    "windows of rows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 4, axis=0),
    "gradient": lambda x: tuple(np.gradient(x * np.float32(1.5))),
    "gradient axis": lambda x: np.gradient(x * np.float32(1.5), 0.5, axis=1),
    "nan_to_num": lambda x: np.nan_to_num(x),
    "isclose": lambda x: np.isclose(x, x + 1),
    "add.reduce": lambda x: np.add.reduce(x),
    "maximum.reduce": lambda x: np.maximum.reduce(x, axis=1),
    "add.accumulate": lambda x: np.add.accumulate(x, 1),
    "multiply.outer": lambda x: np.multiply.outer(x[0], x[:, 0]),
    "divmod": lambda x: divmod(x, 2),
    "index": lambda x: x[-1],
    "index two": lambda x: x[2, 3],
    "slice": lambda x: x[1:-1, ::2],
    "slice back": lambda x: x[::-2, 3:0:-1],
    "newaxis": lambda x: x[:, None, ...],
    "ellipsis": lambda x: x[..., 2],
    "gather": lambda x: x[np.array([[0, 5], [-1, 2]])],
    "gather last": lambda x: x[:, [4, 0, -2]],
    "gather both": lambda x: x[[0, 2, 5], [1, 1, 4]],
    "gather apart": lambda x: x[None][0, :, [1, 2]],
    "len": lambda x: x * len(x),
    "rows": lambda x: sum(row for row in x),
    "constant": lambda x: x * np.arange(5, dtype=np.int8),
    "list": lambda x: x + [1, 2, 3, 4, 5],
    "numpy scalar": lambda x: x * np.float32(2.5),
    "numpy's own float": lambda x: x * np.sqrt(2 / np.pi) + np.tanh(np.float64(0.5) * x),
    "numpy's own truth": lambda x: np.where(np.bool_(True), x, 0),
    "python int": lambda x: x + 3,
    "python float": lambda x: x * 0.5,
    "reverse": lambda x: 2 - x,
    "power": lambda x: x**3,
    "astype": lambda x: x.astype(np.float32),
    "copy": lambda x: np.copy(x),
    "round": lambda x: np.round(x / 3, 2),
}  # fmt: skip


def _assigned(x: Any) -> Any:
    out = np.zeros_like(x)
    out[1:-1, 1:-1] = x[:-2, 1:-1] + x[2:, 1:-1]
    out[0] = x[-1]
    out[::2, -1] = 3
    out[-1, ::-2] = x[0, ::2]
    return out


def _in_place(x: Any) -> Any:
    y = x.copy()
    y += x
    y[2] *= 3
    z = y[1:3].copy()
    y[...] = 1
    return y, z


def _out(x: Any) -> Any:
    y = np.empty_like(x)
    np.add(x, x, out=y)
    np.multiply(y, x, y)
    return y


def _of_steps(x: Any) -> Any:
    y = x.copy()
    for _ in range(2):
        new = y.copy()
        new[1:-1] = y[:-2] + y[2:]
        y = new
    return {"last": y, "parts": [y[0], y[-1]]}


OF_MATRIX |= {"assigned": _assigned, "in place": _in_place, "out": _out, "steps": _of_steps}
