"""`scatter_reduce`: what it means, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import te
from autosched.errors import RecordError, UsageError
from autosched.te import Tensor

N, M = te.var("n"), te.var("m")
X = te.placeholder((N, M), "int32", name="X")
ONE = te.const(1, "int32")


def columns() -> te.IterVar:
    return te.reduce_axis((0, M), "k")


def by_row(combiner: str = "sum") -> list[Tensor]:
    """H[i, b] = X[i, k] * 2 + 1 combined over the k where X[i, k] is b."""
    k = columns()
    return [X, te.scatter_reduce((N, 5), lambda i: (X[i, k], X[i, k] * 2 + 1), k, combiner, name="H")]


IDENTITY = {"sum": 0, "prod": 1, "min": 2**31 - 1, "max": -(2**31)}
COMBINE: dict[str, Callable[[int, int], int]] = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "min": min,
    "max": max,
}


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(IDENTITY)), st.integers(0, 3), st.integers(0, 6), st.integers(0, 99))
def test_each_point_is_combined_at_its_place(combiner: str, n: int, m: int, seed: int) -> None:
    """Against the plain loops; places outside the tensor, on either side, are dropped."""
    x = np.random.default_rng(seed).integers(-3, 9, (n, m)).astype(np.int32)
    wanted = [[IDENTITY[combiner]] * 5 for _ in range(n)]
    for i in range(n):
        for v in x[i].tolist():
            if 0 <= v < 5:
                wanted[i][v] = COMBINE[combiner](wanted[i][v], v * 2 + 1)
    assert te.reference(by_row(combiner), [x])[0].tolist() == wanted


def test_two_places_and_no_leading_axis() -> None:
    i, k = te.reduce_axis((0, N), "i"), columns()
    pairs = te.scatter_reduce((4, 3), lambda: ((X[i, k] // 3, X[i, k] % 3), ONE), axis=[i, k])
    x = np.random.default_rng(1).integers(0, 12, (6, 7)).astype(np.int32)
    assert np.array_equal(te.reference([X, pairs], [x])[0].ravel(), np.bincount(x.ravel(), minlength=12))


def test_many_points_are_evaluated_in_parts() -> None:
    n = te.var("n")
    data, k = te.placeholder((n,), "uint8"), te.reduce_axis((0, n), "k")
    counts = te.scatter_reduce((256,), lambda: (data[k], ONE), k)
    x = np.random.default_rng(2).integers(0, 256, 700_001).astype(np.uint8)
    assert np.array_equal(te.reference([data, counts], [x])[0], np.bincount(x, minlength=256))


def test_floats_are_added_up_wide() -> None:
    n = te.var("n")
    data, k = te.placeholder((n,), "float32"), te.reduce_axis((0, n), "k")
    total = te.scatter_reduce((2,), lambda: (k.var % 2, data[k]), k)
    x = np.full(100_000, 0.1, np.float32)
    assert np.allclose(te.reference([data, total], [x])[0], 5000, rtol=1e-6)


def test_kept_as_data() -> None:
    args = by_row("max")
    data = json.loads(json.dumps(te.graph_to_json(args)))
    again = te.graph_from_json(data)
    assert te.graph_to_json(again) == data
    assert te.workload_key(again) == te.workload_key(args) != te.workload_key(by_row("min"))
    body = next(e for e in data["exprs"] if e[0] == "scatter")
    body[2] = body[2][:2]
    with pytest.raises(RecordError):
        te.graph_from_json(data)


def a_mean() -> object:
    return by_row("mean")


def a_spatial_axis() -> object:
    return te.scatter_reduce((5,), lambda: (X[0, 0], ONE), te.compute((N,), lambda i: i).op.axis[0])


def no_axis() -> object:
    return te.scatter_reduce((5,), lambda: (X[0, 0], ONE), [])


def a_value_alone() -> object:
    return te.scatter_reduce((5,), lambda: ONE, columns())  # type: ignore[arg-type, return-value]


def too_few_places() -> object:
    k = columns()
    return te.scatter_reduce((5, 4), lambda: (X[0, k], ONE), k)


def no_place_left() -> object:
    k = columns()
    return te.scatter_reduce((5,), lambda i: (X[i, k], ONE), k)


def a_place_that_is_a_float() -> object:
    k = columns()
    return te.scatter_reduce((5,), lambda: (X[0, k].astype("float32"), ONE), k)


def no_function() -> object:
    return te.scatter_reduce((5,), (X[0, 0], ONE), columns())  # type: ignore[arg-type]


REFUSED = (
    a_mean, a_spatial_axis, no_axis, a_value_alone, too_few_places, no_place_left, a_place_that_is_a_float,
    no_function,
)  # fmt: skip


def test_what_it_refuses(golden: Callable[..., None]) -> None:
    texts = []
    for case in REFUSED:
        with pytest.raises(UsageError) as raised:
            case()
        assert raised.value.asked
        assert raised.value.legal
        texts.append(f"-- {case.__name__.replace('_', ' ')}\n{raised.value}\n")
    golden("\n".join(texts))
