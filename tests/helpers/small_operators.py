"""Arguments for every operator of `search_spaces/`, small and odd: nothing divides by anything."""

from __future__ import annotations

from typing import Any

_CONVOLUTIONS: list[dict[str, Any]] = [
    {"height": 9, "width": 11, "cin": 3, "cout": 20},
    {"batch": 2, "height": 6, "width": 31, "cin": 2, "cout": 33, "kernel": 2, "pad": 0},
    {"height": 5, "width": 7, "cin": 18, "cout": 40, "kernel": 1, "pad": 0},
    {"height": 6, "width": 7, "cin": 5, "cout": 36, "dtype": "float16"},
    {"height": 15, "width": 13, "cin": 3, "cout": 6, "kernel": 7, "stride": 2, "pad": 3, "dtype": "float64"},
]

#: workload -> argument sets; sizes of symbolic dimensions are among them
SMALL: dict[str, list[dict[str, Any]]] = {
    "box_blur": [{"height": 13, "width": 37}],
    "gaussian_blur": [{"height": 13, "width": 37}, {"height": 1, "width": 1, "channels": 1}],
    "resize": [
        {"height": 13, "width": 40, "out_height": 9, "out_width": 20},
        {"height": 6, "width": 30, "out_height": 11, "out_width": 45, "channels": 1},
        {"height": 3, "width": 5, "out_height": 4, "out_width": 33, "channels": 4},
        {"height": 1, "width": 1, "out_height": 2, "out_width": 3},
    ],
    "sobel": [{"height": 13, "width": 137}, {"height": 1, "width": 2}],
    "matmul": [
        {"m": 33, "n": 50, "k": 19},
        {"m": 5, "n": 3, "k": 1},
        {"m": 20, "n": 70, "k": 9, "dtype": "float64"},
        {"m": 17, "n": 40, "k": 24, "dtype": "int8"},
    ],
    "exp_chain": [{"size": 1000}, {"size": 3, "dtype": "float64"}],
    "tanh_chain": [{"size": 1000}, {"size": 1, "dtype": "float16"}],
    "softmax": [
        {"rows": 7, "columns": 50},
        {"rows": 9, "columns": 90, "dtype": "float16"},
        {"rows": 33, "columns": 1},
        {"rows": 5, "columns": 300, "dtype": "float64"},
    ],
    "layer_norm": [
        {"rows": 7, "columns": 50},
        {"rows": 9, "columns": 90, "dtype": "float16"},
        {"rows": 33, "columns": 1},
        {"rows": 5, "columns": 300, "dtype": "float64"},
    ],
    "histogram": [{"height": 37, "width": 19, "channels": 3}, {"height": 700, "width": 3, "channels": 1}],
    "cumsum": [
        {"rows": 7, "columns": 50, "axis": 1},
        {"rows": 33, "columns": 50, "axis": 0},
        {"rows": 7, "columns": 50, "axis": 1, "dtype": "float16"},
        {"rows": 33, "columns": 50, "axis": 0, "dtype": "float16"},
        {"rows": 5, "columns": 3, "axis": 1, "dtype": "float64"},
        {"rows": 1, "columns": 1, "axis": 0, "dtype": "int32"},
    ],
    "row_sum": [
        {"rows": 13, "columns": 301},
        {"rows": 13, "columns": 90, "dtype": "float16"},
        {"rows": 5, "columns": 1, "dtype": "float64"},
        {"rows": 9, "columns": 77, "dtype": "int16"},
    ],
    "column_sum": [
        {"rows": 301, "columns": 13},
        {"rows": 1, "columns": 700, "dtype": "float64"},
        {"rows": 9, "columns": 77, "dtype": "int16"},
    ],
    "add": [
        {"rows": 13, "columns": 301},
        {"rows": 1, "columns": 1, "dtype": "float64"},
        {"rows": 9, "columns": 77, "dtype": "uint8"},
    ],
    "gemv": [
        {"rows": 13, "columns": 301},
        {"rows": 5, "columns": 1, "dtype": "float64"},
        {"rows": 9, "columns": 77, "dtype": "int32"},
    ],
    "max_pool": [
        {"channels": 3, "height": 13, "width": 41},
        {"channels": 1, "height": 1, "width": 1},
        {"batch": 2, "channels": 2, "height": 6, "width": 70, "dtype": "uint8"},
    ],
    "batched_matmul": [{"batch": 3, "m": 17, "n": 35, "k": 8}],
    "conv2d_nchw": _CONVOLUTIONS,
    "conv2d_nhwc": _CONVOLUTIONS,
    "depthwise_conv2d": [
        {"channels": 5, "height": 9, "width": 21},
        {"channels": 5, "height": 9, "width": 21, "dtype": "float16"},
        {"batch": 2, "channels": 3, "height": 17, "width": 7, "kernel": 5, "stride": 2, "pad": 2, "dtype": "float64"},
    ],
}
