"""The seeds' schedules compute what the definition says, on shapes that tiles divide and shapes they do not."""

from __future__ import annotations

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
