"""The horizontal Sobel derivative of 8-bit gray images, as 16-bit integers, borders repeated.

Differences of the neighbours left and right, smoothed by [1 2 1] across rows: what
`cv2.Sobel(image, cv2.CV_16S, 1, 0, borderType=cv2.BORDER_REPLICATE)` computes. No sum leaves 16 bits:
4*255 = 1020.
"""

import numpy as np

from autosched import te, template, workload
from autosched.space.gpu import bind_rows
from autosched.space.samples import photograph as china


def photograph(height=1280, width=1920):
    """A real photograph (scikit-learn's) in gray, scaled to height x width."""
    picture = china()
    rows = np.arange(height) * picture.shape[0] // max(height, 1)
    columns = np.arange(width) * picture.shape[1] // max(width, 1)
    return [picture[rows[:, None], columns[None, :]].mean(axis=2).astype("uint8")]


@workload(inputs=photograph)
def sobel():
    """image[height, width] uint8 -> its derivative along rows, int16."""
    height, width = te.var("height"), te.var("width")
    image = te.placeholder((height, width), "uint8", name="image")

    def clamp(value, low, high):
        return te.max(te.min(value, high), low)

    padded = te.compute(
        (height + 2, width + 2),
        lambda y, x: image[clamp(y - 1, 0, height - 1), clamp(x - 1, 0, width - 1)].astype("int16"),
        name="padded",
    )
    smooth = te.compute(
        (height, width + 2),
        lambda y, x: padded[y, x] + padded[y + 1, x] * te.const(2, "int16") + padded[y + 2, x],
        name="smooth",
    )
    derivative = te.compute((height, width), lambda y, x: smooth[y, x + 2] - smooth[y, x], name="sobel")
    return image, derivative


@template(sobel, target="cpu")
def strips(s):
    """Strips of a few rows, walked along the row. Everything is inlined and the rows of a strip are
    unrolled, so that a pixel that several rows of the strip read is loaded and widened once."""
    out = s["sobel"]
    s["padded"].compute_inline()
    s["smooth"].compute_inline()
    y, x = out.op.axis
    block, lane = out.split(x, factor=s.define_knob("lanes", [32, 64, 128]))
    strip, line = out.split(y, factor=s.define_knob("rows", [1, 2, 4, 8]))
    task, strip = out.split(strip, factor=s.define_knob("strips", [1, 2, 4, 8, 16]))
    out.reorder(task, strip, block, line, lane)
    out.parallel(task)
    out.unroll(line)
    out.vectorize(lane)


@template(sobel, target="gpu")
def patches(s):
    """Everything inlined; what neighbours share, the cache holds."""
    for name in ("padded", "smooth"):
        s[name].compute_inline()
    bind_rows(s, s["sobel"])
