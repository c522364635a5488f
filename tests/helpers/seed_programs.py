"""The programs that the project started from: a 3x3 box blur scheduled seven ways, and the matrix
copy whose intermediate is stored transposed. Each is (arguments, schedule), made afresh."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from autosched import te
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor


class Blur(NamedTuple):
    image: Tensor
    padded: Tensor
    x_blur: Tensor
    y_blur: Tensor
    box_blur: Tensor

    @property
    def args(self) -> list[Tensor]:
        return [self.image, self.box_blur]


def box_blur() -> Blur:
    """uint8 image[height, width, 3] -> the mean of nine neighbours, borders repeated, uint16 sums."""
    height, width, channels = te.var("height"), te.var("width"), 3
    image = te.placeholder((height, width, channels), "uint8", name="image")

    def clamp(value, low, high):
        return te.max(te.min(value, high), low)

    def read(y, x, c):
        return image[clamp(y, 0, height - 1), clamp(x, 0, width - 1), c]

    padded = te.compute(
        (height + 2, width + 2, channels), lambda y, x, c: read(y - 1, x - 1, c).astype("uint16"), name="padded"
    )
    x_blur = te.compute(
        (height + 2, width, channels),
        lambda y, x, c: padded[y, x, c] + padded[y, x + 1, c] + padded[y, x + 2, c],
        name="x_blur",
    )
    y_blur = te.compute(
        (height, width, channels),
        lambda y, x, c: x_blur[y, x, c] + x_blur[y + 1, x, c] + x_blur[y + 2, x, c],
        name="y_blur",
    )
    blurred = te.compute(
        (height, width, channels),
        lambda y, x, c: (y_blur[y, x, c] / te.const(9, "uint16")).astype("uint8"),
        name="box_blur",
    )
    return Blur(image, padded, x_blur, y_blur, blurred)


def default(b: Blur) -> Schedule:
    return create_schedule(b.box_blur.op)


def parallel(b: Blur) -> Schedule:
    s = create_schedule(b.box_blur.op)
    y, _x, _c = b.box_blur.op.axis
    s[b.box_blur].parallel(y)
    return s


def reorder(b: Blur) -> Schedule:
    s = create_schedule(b.box_blur.op)
    y, x, c = b.x_blur.op.axis
    s[b.x_blur].reorder(c, y, x)
    return s


def tile(b: Blur) -> Schedule:
    s = create_schedule(b.box_blur.op)
    y, x, _c = b.y_blur.op.axis
    s[b.y_blur].tile(y, x, 16, 3)
    return s


def inline(b: Blur) -> Schedule:
    s = create_schedule(b.box_blur.op)
    for stage in (b.padded, b.x_blur, b.y_blur):
        s[stage].compute_inline()
    return s


def compute_at(b: Blur) -> Schedule:
    s = create_schedule(b.box_blur.op)
    y, _x, _c = b.box_blur.op.axis
    s[b.x_blur].compute_inline()
    s[b.padded].compute_inline()
    s[b.y_blur].compute_at(s[b.box_blur], y)
    return s


def _toys(b: Blur) -> tuple[Schedule, Tensor, tuple[object, ...]]:
    """Tiles of the output, and the horizontal sums of a tile computed in the order of the image but
    stored with y innermost, the order in which the vertical sums read them."""
    s = create_schedule(b.box_blur.op)
    y, x, _c = b.box_blur.op.axis
    tiles = s[b.box_blur].tile(y, x, 8, 16)
    y, x, c = b.x_blur.op.axis
    s[b.x_blur].reorder(x, c, y)
    cache = s.cache_write(b.x_blur, "local")
    x, c, y = cache.op.axis
    for stage in (b.padded, b.x_blur, b.y_blur):
        s[stage].compute_inline()
    s[cache].reorder(y, x, c)
    return s, cache, tiles


def all_the_toys(b: Blur) -> Schedule:
    s, cache, (y_outer, x_outer, _y_inner, _x_inner) = _toys(b)
    s[cache].compute_at(s[b.box_blur], x_outer)
    s[b.box_blur].parallel(y_outer)
    return s


def all_the_toys_gpu(b: Blur) -> Schedule:
    s, cache, (y_outer, x_outer, y_inner, x_inner) = _toys(b)
    blur = s[b.box_blur]
    item = blur.fuse(x_inner, b.box_blur.op.axis[2])
    s[cache].compute_at(blur, item)
    blur.bind(blur.fuse(y_outer, x_outer, y_inner), "blockIdx.x")
    blur.bind(item, "threadIdx.x")
    return s


#: name -> schedule of the box blur, on the CPU
BLURS: dict[str, Callable[[Blur], Schedule]] = {
    f.__name__: f for f in (default, parallel, reorder, tile, inline, compute_at, all_the_toys)
}


def copied_twice() -> list[Tensor]:
    """A[10, 20] -> B = A -> C = B."""
    a = te.placeholder((10, 20), name="A")
    b = te.compute((10, 20), lambda i, j: a[i][j], name="B")
    c = te.compute((10, 20), lambda i, j: b[i][j], name="C")
    return [a, b, c]


def stored_transposed(a: Tensor, b: Tensor, c: Tensor) -> Schedule:
    """B is stored, and computed, column by column."""
    s = create_schedule([c.op])
    i, j = s[b].op.axis
    s[b].reorder(j, i)
    s.cache_write(b, "global")
    s[b].compute_inline()
    return s


def stored_transposed_computed_in_order(a: Tensor, b: Tensor, c: Tensor) -> Schedule:
    """B is stored column by column and computed row by row."""
    s = create_schedule([c.op])
    i, j = s[b].op.axis
    s[b].reorder(j, i)
    cache = s.cache_write(b, "global")
    s[b].compute_inline()
    j, i = s[cache].op.axis
    s[cache].reorder(i, j)
    return s
