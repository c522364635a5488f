"""Bilinear resizing of 8-bit images with interleaved channels, pixel centres at halves.

Output pixel i of m along a side of n lies at (2*i + 1)*n/(2*m) - 1/2 in the input; the two pixels
around it are weighted by how near they are, and the border is repeated: `cv2.resize` with
INTER_LINEAR, within 1. Rows are weighted in 1/256, which keeps 16 bits; within a row the weights have
16 bits, and only the upper half of a product is kept, as the CPU's multiplications of 16 bits give it.
"""

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import bind_rows
from autosched.space.samples import photograph as china


def photograph(height=1280, width=1920, out_height=640, out_width=960, channels=3):
    """A real photograph (scikit-learn's), scaled to height x width."""
    picture = china()
    rows = np.arange(height) * picture.shape[0] // height
    columns = np.arange(width) * picture.shape[1] // width
    return [picture[rows[:, None], columns[None, :]][:, :, np.arange(channels) % 3]]


def pixels_around(i, n, m):
    """(the pixel before output pixel i, the one after, the distance from the first in 1/(2*m))."""
    position = (2 * i + 1) * n - m
    before = te.floordiv(position, 2 * m)
    return te.max(te.min(before, n - 1), 0), te.max(te.min(before + 1, n - 1), 0), te.floormod(position, 2 * m)


@workload(inputs=photograph)
def resize(height=1280, width=1920, out_height=640, out_width=960, channels=3):
    """image[height, width, channels] uint8 -> [out_height, out_width, channels] uint8."""
    image = te.placeholder((height, width, channels), "uint8", name="image")

    def between_rows(y, x, c):
        above, below, distance = pixels_around(y, height, out_height)
        weight = te.floordiv(distance * 256 + out_height, 2 * out_height).astype("uint16")
        upper, lower = image[above, x, c].astype("uint16"), image[below, x, c].astype("uint16")
        return upper * (te.const(256, "uint16") - weight) + lower * weight

    def share(value, weight):
        return ((value.astype("uint32") * weight) >> 16).astype("uint16")

    def between_columns(y, x, c):
        before, after, distance = pixels_around(x, width, out_width)
        weight = te.floordiv(distance * 65536, 2 * out_width).astype("uint32")
        left, right = rows[y, before, c], rows[y, after, c]
        value = left - share(left, weight) + share(right, weight)
        return ((value + te.const(128, "uint16")) >> 8).astype("uint8")

    rows = te.compute((out_height, width, channels), between_rows, name="rows")
    return image, te.compute((out_height, out_width, channels), between_columns, name="resize")


@template(resize, target="cpu")
def strips(s):
    """Rows in parallel. A row is walked in blocks of whole pixels, written out as one vector for each
    channel: where the factor is simple, a vector's sources then lie in the same pattern in every
    block, and come as wide loads and shuffles."""
    out, rows = s["resize"], s["rows"]
    y, x, c = out.op.axis
    lanes, channels = s.define_knob("lanes", [16, 32, 64]), out.op.axis[2].extent
    band, line = out.split(y, factor=s.define_knob("band", [2, 4, 8, 16]))
    _, part = out.split(out.fuse(x, c), factor=lanes * channels)
    part, lane = out.split(part, factor=lanes)
    out.parallel(band)
    out.unroll(part)
    out.vectorize(lane)
    if s.choose("rows", ["inlined", "stored"]) == "inlined":
        rows.compute_inline()
    else:
        rows.compute_at(out, line)
        _, lane = rows.split(rows.fuse(*rows.op.axis[1:]), factor=64)
        rows.vectorize(lane)


@template(resize, target="cpu")
def pixels(s):
    """For factors without a short pattern: weighted rows as vectors, then pixel after pixel, whose
    position and weight serve all its channels."""
    out, rows = s["resize"], s["rows"]
    y, x, c = out.op.axis
    band, line = out.split(y, factor=s.define_knob("band", [2, 4, 8, 16]))
    _, near = out.split(x, factor=s.define_knob("pixels", [1, 2, 4, 8]))
    out.parallel(band)
    out.unroll(near)
    out.unroll(c)
    rows.compute_at(out, line)
    _, lane = rows.split(rows.fuse(*rows.op.axis[1:]), factor=64)
    rows.vectorize(lane)


@template(resize, target="gpu")
def patches(s):
    """Everything inlined; what neighbours share, the cache holds."""
    s["rows"].compute_inline()
    bind_rows(s, s["resize"])
