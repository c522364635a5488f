"""The seeds' schedules compute what the definition says, on shapes that tiles divide and shapes they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import seed_programs

from autosched import te
from autosched.schedule import create_schedule
from autosched.testing.oracle import check_against_reference

DIVIDES = (16, 48)
RAGGED = (13, 19)
TINY = (1, 1)
THIN = (2, 35)


def image(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height * width).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("name", seed_programs.BLURS)
def test_box_blur_compiled(name: str) -> None:
    """One compilation serves all shapes: sizes are symbolic."""
    blur = seed_programs.box_blur()
    s = seed_programs.BLURS[name](blur)
    for shape in (DIVIDES, RAGGED, TINY, THIN, (64, 96)):
        check_against_reference(blur.args, s, "llvm", [image(*shape)])


@pytest.mark.parametrize("name", seed_programs.BLURS)
@pytest.mark.parametrize("shape", [(8, 16), RAGGED, TINY], ids=lambda s: "x".join(map(str, s)))
def test_box_blur_interpreted(name: str, shape: tuple[int, int]) -> None:
    """No access out of bounds, no read of what was never written, no order among parallel iterations."""
    blur = seed_programs.box_blur()
    s = seed_programs.BLURS[name](blur)
    backend = "interpreter-backwards" if name in ("parallel", "all_the_toys") else "interpreter"
    check_against_reference(blur.args, s, "llvm", [image(*shape)], backend)


@pytest.mark.parametrize("shape", [(8, 16), RAGGED, TINY], ids=lambda s: "x".join(map(str, s)))
def test_box_blur_on_a_gpu_interpreted(shape: tuple[int, int]) -> None:
    blur = seed_programs.box_blur()
    s = seed_programs.all_the_toys_gpu(blur)
    check_against_reference(blur.args, s, "opencl", [image(*shape)], "interpreter")


def test_box_blur_on_opencl() -> None:
    blur = seed_programs.box_blur()
    s = seed_programs.all_the_toys_gpu(blur)
    for shape in (DIVIDES, RAGGED):
        check_against_reference(blur.args, s, "opencl", [image(*shape)])


@pytest.mark.parametrize(
    "make",
    [seed_programs.stored_transposed, seed_programs.stored_transposed_computed_in_order],
    ids=lambda f: f.__name__,
)
def test_transposed_storage(make: object) -> None:
    a, b, c = seed_programs.copied_twice()
    s = make(a, b, c)  # type: ignore[operator]
    matrix = np.arange(200, dtype=np.float32).reshape(10, 20)
    for backend in ("native", "interpreter"):
        check_against_reference([a, c], s, "llvm", [matrix], backend)  # type: ignore[arg-type]


def test_a_chain_of_many_stages() -> None:
    """Expressions this deep are walked without recursion."""
    a = te.placeholder((8,), "int32", name="a")
    t, stages = a, []
    for i in range(300):
        t = te.compute((8,), lambda x, t=t: t[x] + 1, name=f"t{i}")
        stages.append(t)
    s = create_schedule(t)
    for stage in stages[:-1]:
        s[stage].compute_inline()
    check_against_reference([a, t], s, "llvm", [np.arange(8, dtype="int32")])


def test_a_deep_sum_of_different_reads() -> None:
    """Nothing folds here: a chain of 200 inlined stages is an expression 200 levels deep."""
    a = te.placeholder((400,), "int32", name="a")
    t, stages = a, []
    for i in range(200):
        t = te.compute((100,), lambda x, t=t, i=i: te.max(t[x] * 3, a[x + i]) - i, name=f"t{i}")
        stages.append(t)
    s = create_schedule(t)
    for stage in stages[:-1]:
        s[stage].compute_inline()
    check_against_reference([a, t], s, "llvm", [np.arange(400, dtype="int32")])


INDICES: dict[str, Callable[[te.Tensor, te.Expr, te.IterVar], Any]] = {
    "index": lambda a, i, k: i,
    "sum": lambda a, i, k: i + a[i],
    "halves": lambda a, i, k: te.floordiv(a[i] + i, 2),  # which wraps before it is divided
    "choice": lambda a, i, k: te.select(a[i] > 2, i, a[i]),
    "reduced": lambda a, i, k: te.max(te.select(a[k] > i, k, 0), axis=k),
}


@pytest.mark.parametrize("value", INDICES)
@pytest.mark.parametrize("how", ["nparts", "factor", "cache_write", "rfactor", "rfactor_twice"])
def test_an_index_is_a_value_whatever_the_type_of_sizes(value: str, how: str) -> None:
    """Where loops end is arithmetic in int64; values made of an index keep the types they have."""
    n = te.var("n", "int64")
    a, k = te.placeholder((n,), "int32", name="A"), te.reduce_axis((0, n), name="k")
    b = te.compute((n,), lambda i: INDICES[value](a, i, k), name="B")
    s = create_schedule(b)
    stage = s[b]
    if how in ("nparts", "factor", "cache_write"):
        inner = stage.split("i", **{"factor" if how == "factor" else "nparts": 3})[1]
        if how == "cache_write":
            s.cache_write(b, "local")
        elif how == "factor":
            stage.vectorize(inner)
    elif stage.reduce_axis:
        outer, _ = stage.split("k", nparts=3)
        partial = s.rfactor(b, outer)
        if how == "rfactor_twice":
            s.rfactor(partial, s[partial].loops[-1])
    given = np.array([2**31 - 1, -5, 3, 2**31 - 1, 0, 7, -(2**31)], "int32")
    for backend in ("native", "interpreter"):
        check_against_reference([a, b], s, "llvm", [given], backend)  # type: ignore[arg-type]


@pytest.mark.parametrize("places", ["int64", "int8"])
@pytest.mark.parametrize(
    "body",
    [
        lambda a, i: te.floordiv(a[i] + i, 2),
        lambda a, i: te.max(a[i] + i * 7, 0),
        lambda a, i: te.select(a[i] + i > 0, i, a[i]),
        lambda a, i: (i * 3).astype("float32") * a[i],
        lambda a, i: a[(i * 2**31) // 2**31] + i // 2,
    ],
    ids=["halves", "clamped", "choice", "converted", "far"],
)
def test_a_stage_inlined_at_places_that_the_data_say(body: Any, places: str) -> None:
    """Values wrap in the type that they have in the stage; indices are exact."""
    a, at = te.placeholder((8,), "int32", name="A"), te.placeholder((8,), places, name="at")
    b = te.compute((8,), lambda i: body(a, i), name="B")
    c = te.compute((8,), lambda j: b[at[j]], name="C")
    s = create_schedule(c)
    s[b].compute_inline()
    given = [np.array([2**31 - 1, -5, 3, 2**31 - 1, 0, 7, -(2**31), 2**31 - 2], "int32"), np.arange(8)[::-1]]
    for backend in ("native", "interpreter"):
        check_against_reference([a, at, c], s, "llvm", [given[0], given[1].astype(places)], backend)  # type: ignore[arg-type]
