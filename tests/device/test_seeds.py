"""The two programs the project started from, written as their authors wrote them, built and checked.

The oracle is NumPy written for the purpose: it shares nothing with the op graph.
"""

from __future__ import annotations

import numpy as np
import pytest
import seed_programs

import autosched
from autosched import te

SHAPES = [(64, 96), (37, 50), (8, 16), (1, 1), (3, 2), (480, 640)]


def blurred(image: np.ndarray, divide_each: bool = False) -> np.ndarray:
    """The mean of nine neighbours, rounded down; `divide_each` rounds after each direction."""
    wide = np.pad(image, ((1, 1), (1, 1), (0, 0)), mode="edge").astype(np.uint32)
    rows = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    rows = rows // 3 if divide_each else rows
    sums = rows[:-2] + rows[1:-1] + rows[2:]
    return (sums // (3 if divide_each else 9)).astype(np.uint8)


def picture(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(height).integers(0, 256, (height, width, 3), dtype=np.uint8)


# -- a 3x3 box blur, scheduled many ways -----------------------------------------------------------------


@pytest.mark.parametrize("name", seed_programs.BLURS)
def test_box_blur_on_the_cpu(name: str) -> None:
    """The algorithm is written once; each schedule gives the same picture, at every size."""
    b = seed_programs.box_blur()
    module = autosched.build(seed_programs.BLURS[name](b), "llvm", args=b.args, name="box_blur")
    for shape in SHAPES:
        image = picture(*shape)
        out = np.zeros_like(image)
        module(image, out)
        assert np.array_equal(out, blurred(image))


def test_box_blur_on_opencl() -> None:
    """The same program on a GPU-style target: fused loops bound to the grid, a cache for each work-item."""
    b = seed_programs.box_blur()
    module = autosched.build(seed_programs.all_the_toys_gpu(b), "opencl", args=b.args, name="box_blur")
    for shape in SHAPES[:4]:
        image = picture(*shape)
        out = np.zeros_like(image)
        module(image, out)
        assert np.array_equal(out, blurred(image))


def test_the_printed_loops_are_those_of_the_introduction() -> None:
    """The lines that its author points out: one buffer used twice, halos, tiles, guards, attach points."""
    b = seed_programs.box_blur()
    text = {name: str(autosched.lower(make(b), b.args)) for name, make in seed_programs.BLURS.items()}
    assert "allocate padded: uint16[height + 2, width + 2, 3]" in text["default"]
    assert "x_blur[y, x, c] = padded[y, x, c] + padded[y, x + 1, c] + padded[y, x + 2, c]" in text["default"]
    assert text["parallel"].count("parallel (y, 0, height)") == 1
    assert "for (c, 0, 3) {\n    for (y, 0, height + 2) {\n      for (x, 0, width) {" in text["reorder"]
    assert "for (y.outer, 0, (height + 15)//16) {\n    for (x.outer, 0, (width + 2)//3) {" in text["tile"]
    assert "if (likely(x.outer*3 + x.inner < width))" in text["tile"]
    assert "allocate" not in text["inline"]
    assert text["inline"].count("uint16(image[") == 9
    assert "allocate y_blur: uint16[1, width, 3]" in text["compute_at"]
    assert "allocate x_blur.local: uint16[16, 3, 10] local" in text["all_the_toys"]
    assert "x_blur.local[x.c, c.c, y.c] = " in text["all_the_toys"]
    gpu = seed_programs.all_the_toys_gpu(b)
    text_gpu = str(autosched.lower(gpu, b.args, target="opencl"))
    assert "(height + 7)//8*((width + 15)//16)*8) bind blockIdx.x" in text_gpu
    assert "for (x.inner.c.fused, 0, 48) bind threadIdx.x" in text_gpu
    assert "allocate x_blur.local: uint16[1, 1, 3] local" in text_gpu


# -- the layout of an intermediate, independent of its compute order -----------------------------------------


class Question:
    """The program of the thread's question: every size symbolic, divided after each direction."""

    def __init__(self) -> None:
        rows, cols, chans = te.var("rows"), te.var("cols"), te.var("chans")
        input_vec = te.placeholder((rows, cols, chans), dtype="float32", name="input")

        def clamp(v, v_min, v_max):
            return te.max(te.min(v, v_max), v_min)

        padded = te.compute(
            (rows + 2, cols + 2, chans),
            lambda y, x, c: input_vec[clamp(y - 1, 0, rows - 1), clamp(x - 1, 0, cols - 1), c].astype("uint16"),
            name="padded",
        )
        x_blur = te.compute(
            (rows + 2, cols, chans),
            lambda y, x, c: (padded[y, x, c] + padded[y, x + 1, c] + padded[y, x + 2, c]) / 3,
            name="x_blur",
        )
        y_blur = te.compute(
            (rows, cols, chans),
            lambda y, x, c: (x_blur[y, x, c] + x_blur[y + 1, x, c] + x_blur[y + 2, x, c]) / 3,
            name="y_blur",
        )
        box_blur = te.compute((rows, cols, chans), lambda y, x, c: y_blur[y, x, c].astype("uint8"), name="box_blur")
        self.input, self.padded, self.x_blur, self.y_blur, self.box_blur = input_vec, padded, x_blur, y_blur, box_blur
        self.arglist = [input_vec, box_blur]

    def schedule(self) -> autosched.Schedule:
        schedule = autosched.create_schedule(self.box_blur.op)
        schedule[self.padded.op].compute_inline()
        schedule[self.y_blur].compute_inline()
        return schedule

    def check(self, schedule: autosched.Schedule, target: str = "llvm") -> None:
        module = autosched.build(schedule, target, args=self.arglist)
        for shape in ((12, 20, 3), (5, 7, 1), (1, 1, 4)):
            values = np.random.default_rng(1).integers(0, 256, shape).astype(np.float32)
            out = np.zeros(shape, dtype=np.uint8)
            module(values, out)
            assert np.array_equal(out, blurred(values.astype(np.uint8), divide_each=True))


def test_the_question_s_schedule() -> None:
    q = Question()
    schedule = q.schedule()
    schedule[q.x_blur].compute_at(schedule[q.box_blur], q.box_blur.op.axis[1])
    text = str(autosched.lower(schedule, q.arglist))
    assert "allocate x_blur: uint16[3, 1, chans] global" in text
    q.check(schedule)


def test_an_intermediate_that_is_an_argument_is_stored_there() -> None:
    """TVM refused this; here the caller sees the rows that were blurred in one direction."""
    q = Question()
    module = autosched.build(q.schedule(), "llvm", args=[q.input, q.x_blur, q.box_blur])
    image = picture(12, 20)
    rows, out = np.zeros((14, 20, 3), np.uint16), np.zeros_like(image)
    module(image.astype(np.float32), rows, out)
    wide = np.pad(image, ((1, 1), (1, 1), (0, 0)), mode="edge").astype(np.uint16)
    assert np.array_equal(rows, (wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]) // 3)
    assert np.array_equal(out, blurred(image, divide_each=True))


def test_stored_in_xcy_order_and_computed_in_yxc_order() -> None:
    """What the question asked for: in order over the image, out of order in the buffer."""
    q = Question()
    schedule = q.schedule()
    y, x, c = q.x_blur.op.axis
    schedule[q.x_blur].reorder(x, c, y)
    cache = schedule.cache_write(q.x_blur, "local")
    schedule[q.x_blur].compute_inline()
    x, c, y = cache.op.axis
    schedule[cache].reorder(y, x, c)
    schedule[cache].compute_at(schedule[q.box_blur], q.box_blur.op.axis[0])
    text = str(autosched.lower(schedule, q.arglist))
    assert "allocate x_blur.local: uint16[cols, chans, 3] local" in text
    assert "x_blur.local[x.c, c.c, y.c] = " in text
    assert text.index("for (y.c,") < text.index("for (x.c,") < text.index("for (c.c,")
    q.check(schedule)


@pytest.mark.parametrize("computed_in_order", [False, True])
def test_the_answers(computed_in_order: bool) -> None:
    """The thread's two answers: transposed storage; and transposed storage computed in order."""
    a, b, c = seed_programs.copied_twice()
    plain = str(autosched.lower(autosched.create_schedule([c.op]), [a, c]))
    assert "allocate B: float32[10, 20] global" in plain
    assert "B[i, j] = A[i, j]" in plain
    make = seed_programs.stored_transposed_computed_in_order if computed_in_order else seed_programs.stored_transposed
    schedule = make(a, b, c)
    text = str(autosched.lower(schedule, [a, c]))
    assert "allocate B.global: float32[20, 10] global" in text
    assert "B.global[j.c, i.c] = A[i.c, j.c]" in text
    assert "C[i, j] = B.global[j, i]" in text
    assert (text.index("for (i.c,") < text.index("for (j.c,")) == computed_in_order
    matrix = np.random.default_rng(2).random((10, 20)).astype(np.float32)
    out = np.zeros_like(matrix)
    autosched.build(schedule, "llvm", args=[a, c])(matrix, out)
    assert np.array_equal(out, matrix)
