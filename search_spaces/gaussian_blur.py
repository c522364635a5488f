"""A 5x5 Gaussian blur of 8-bit images: [1 4 6 4 1]/16 in each direction, borders repeated.

The result is the weighted sum of 25 pixels, divided by 256 and rounded to the nearest integer, as
`cv2.GaussianBlur(image, (5, 5), 0, borderType=cv2.BORDER_REPLICATE)` computes it. The weights add up
to 256, so that sums of 8-bit pixels fit 16 bits, rounding included: 255*256 + 128 < 2**16.
"""

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import bind_rows, share
from autosched.space.samples import photograph as china

#: row 4 of Pascal's triangle: the weights of neighbours at -2 .. 2, in sixteenths
WEIGHTS = (1, 4, 6, 4, 1)


def photograph(channels=3, height=1280, width=1920):
    """A real photograph (scikit-learn's), scaled to height x width."""
    picture = china()
    rows = np.arange(height) * picture.shape[0] // max(height, 1)
    columns = np.arange(width) * picture.shape[1] // max(width, 1)
    return [picture[rows[:, None], columns[None, :]][:, :, np.arange(channels) % 3]]


def smooth(at):
    """The weighted sum of `at(0)` .. `at(4)`."""
    return sum((at(k) * te.const(w, "uint16") for k, w in enumerate(WEIGHTS[1:], 1)), at(0))


@workload(inputs=photograph)
def gaussian_blur(channels=3):
    """image[height, width, channels] uint8 -> blurred image of the same shape and type."""
    height, width = te.var("height"), te.var("width")
    image = te.placeholder((height, width, channels), "uint8", name="image")

    def clamp(value, low, high):
        return te.max(te.min(value, high), low)

    padded = te.compute(
        (height + 4, width + 4, channels),
        lambda y, x, c: image[clamp(y - 2, 0, height - 1), clamp(x - 2, 0, width - 1), c].astype("uint16"),
        name="padded",
    )
    columns = te.compute(
        (height, width + 4, channels), lambda y, x, c: smooth(lambda k: padded[y + k, x, c]), name="columns"
    )
    blurred = te.compute(
        (height, width, channels),
        lambda y, x, c: ((smooth(lambda k: columns[y, x + k, c]) + te.const(128, "uint16")) >> 8).astype("uint8"),
        name="gaussian_blur",
    )
    return image, blurred


@template(gaussian_blur, target="cpu")
def row_buffer(s):
    """Vertical sums of a row or two in a buffer that stays in the cache, then horizontal ones.

    Neighbours to the left and right are three bytes away, across vectors; read back from memory they
    are loads that start elsewhere, which cost nothing extra.
    """
    blur, columns = s["gaussian_blur"], s["columns"]
    s["padded"].compute_inline()
    y, x, c = blur.op.axis
    lanes = s.define_knob("lanes", [32, 64, 128])
    band, line = blur.split(y, factor=s.define_knob("band", [8, 16, 32, 64]))
    pair, line = blur.split(line, factor=s.define_knob("rows", [1, 2, 4]))
    row = blur.fuse(x, c)
    block, lane = blur.split(row, factor=lanes)
    blur.reorder(band, pair, block, line, lane)
    blur.parallel(band)
    blur.unroll(line)
    blur.vectorize(lane)
    columns.compute_at(blur, pair)
    y, x, c = columns.op.axis
    row = columns.fuse(x, c)
    block, lane = columns.split(row, factor=lanes)
    columns.reorder(block, y, lane)
    columns.unroll(y)
    columns.vectorize(lane)


@template(gaussian_blur, target="gpu")
def patches(s):
    """Vertical sums of a patch in shared memory, or taken again by every work-item that reads them."""
    blur = s["gaussian_blur"]
    s["padded"].compute_inline()
    block, items = bind_rows(s, blur)
    if s.choose("columns", ["shared", "inlined"]) == "inlined":
        s["columns"].compute_inline()
    else:
        s["columns"].compute_at(blur, block)
        s["columns"].set_scope("shared")
        share(s["columns"], items)
