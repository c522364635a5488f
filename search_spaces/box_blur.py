"""A 3x3 box blur: any number of channels, any base type, borders repeated.

Each output is the mean of nine neighbours, integers cut off toward zero. Sums are kept in a wider
type, so that no sum of nine overflows; only for 64-bit integers there is none wider, and they wrap.
"""

import numpy as np

from autosched import te, template, workload
from autosched.space.samples import photograph as china

#: base type -> type of the sums
WIDER = {
    "bool": "uint8",
    "uint8": "uint16",
    "int8": "int16",
    "uint16": "uint32",
    "int16": "int32",
    "uint32": "uint64",
    "int32": "int64",
    "uint64": "uint64",
    "int64": "int64",
    "float16": "float32",
    "bfloat16": "float32",
    "float32": "float32",
    "float64": "float64",
}


def photograph(channels=3, dtype="uint8", height=1280, width=1920):
    """A real photograph (scikit-learn's), scaled to height x width, in the type asked for."""
    picture = china()
    rows = np.arange(height) * picture.shape[0] // max(height, 1)
    columns = np.arange(width) * picture.shape[1] // max(width, 1)
    picture = picture[rows[:, None], columns[None, :]]
    picture = picture[:, :, np.arange(channels) % 3]
    if dtype in ("uint16", "int16", "uint32", "int32", "uint64", "int64"):
        return [picture.astype(dtype) * np.dtype(dtype).type(127)]
    if dtype == "int8":
        return [(picture.astype("int16") - 128).astype("int8")]
    return [(picture > 127) if dtype == "bool" else picture.astype(dtype)]


@workload(inputs=photograph)
def box_blur(channels=3, dtype="uint8"):
    """image[height, width, channels] -> blurred image of the same shape and type."""
    height, width = te.var("height"), te.var("width")
    image = te.placeholder((height, width, channels), dtype, name="image")
    wide = WIDER[str(dtype)]

    def clamp(value, low, high):
        return te.max(te.min(value, high), low)

    padded = te.compute(
        (height + 2, width + 2, channels),
        lambda y, x, c: image[clamp(y - 1, 0, height - 1), clamp(x - 1, 0, width - 1), c].astype(wide),
        name="padded",
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
        lambda y, x, c: (y_blur[y, x, c] / te.const(9, wide)).astype(dtype),
        name="box_blur",
    )
    return image, blurred


def _inline(s, *names):
    for name in names:
        s[name].compute_inline()


@template(box_blur, target="cpu")
def strips(s):
    """Strips of a few rows, walked along a row whose pixels and channels are one axis.

    Everything is inlined and the rows of a strip unrolled, so a horizontal sum that several rows
    of the strip need is computed once and stays in a register.
    """
    blur = s["box_blur"]
    _inline(s, "padded", "x_blur", "y_blur")
    y, x, c = blur.op.axis
    row = blur.fuse(x, c)
    block, lane = blur.split(row, factor=s.define_knob("lanes", [16, 32, 64, 128]))
    strip, line = blur.split(y, factor=s.define_knob("rows", [1, 2, 3, 4, 6, 8, 12, 16]))
    task, strip = blur.split(strip, factor=s.define_knob("strips", [1, 2, 4, 8, 16, 32]))
    blur.reorder(task, strip, block, line, lane)
    blur.parallel(task)
    blur.unroll(line)
    blur.vectorize(lane)


@template(box_blur, target="cpu")
def row_buffer(s):
    """Horizontal sums of a band of rows in a buffer that stays in the cache, then vertical sums."""
    blur, sums = s["box_blur"], s["x_blur"]
    _inline(s, "padded", "y_blur")
    y, x, c = blur.op.axis
    band, line = blur.split(y, factor=s.define_knob("rows", [2, 4, 8, 16, 32]))
    row = blur.fuse(x, c)
    block, lane = blur.split(row, factor=s.define_knob("lanes", [16, 32, 64]))
    blur.reorder(band, line, block, lane)
    blur.parallel(band)
    blur.vectorize(lane)
    sums.compute_at(blur, band)
    row = sums.fuse(*sums.op.axis[1:])
    block, lane = sums.split(row, factor=s.knobs["lanes"].var)
    sums.vectorize(lane)


@template(box_blur, target="gpu")
def work_items(s):
    """One work-item computes a few bytes of a few rows; neighbours share nothing but the cache."""
    blur = s["box_blur"]
    _inline(s, "padded", "x_blur", "y_blur")
    y, x, c = blur.op.axis
    row = blur.fuse(x, c)
    group, item = blur.split(row, factor=s.define_knob("items", [32, 64, 128, 256, 512, 1024]))
    band, line = blur.split(y, factor=s.define_knob("rows", [1, 2, 4, 8, 16, 32]))
    blur.reorder(band, group, item, line)
    blur.bind(band, "blockIdx.y")
    blur.bind(group, "blockIdx.x")
    blur.bind(item, "threadIdx.x")
    if s.choose("unroll", [True, False]):
        blur.unroll(line)


@template(box_blur, target="gpu")
def vectors(s):
    """One work-item computes a vector of a few rows, and reads whole vectors where rows begin at multiples of them."""
    blur = s["box_blur"]
    _inline(s, "padded", "x_blur", "y_blur")
    y, x, c = blur.op.axis
    most = max(2, 16 // blur.op.dtype.bytes)
    row = blur.fuse(x, c)
    vector, lane = blur.split(row, factor=s.define_knob("lanes", [n for n in (2, 4, 8, 16) if n <= most]))
    group, item = blur.split(vector, factor=s.define_knob("items", [32, 64, 128, 256]))
    band, line = blur.split(y, factor=s.define_knob("rows", [2, 4, 8, 16]))
    blur.reorder(band, group, item, line, lane)
    blur.bind(band, "blockIdx.y")
    blur.bind(group, "blockIdx.x")
    blur.bind(item, "threadIdx.x")
    blur.unroll(line)
    blur.vectorize(lane)
    blur.specialize(x.extent % most == 0)


@template(box_blur, target="gpu")
def plain_rows(s):
    """Each work-item walks whole stretches of a row in a plain loop that the driver may vectorize."""
    blur = s["box_blur"]
    _inline(s, "padded", "x_blur", "y_blur")
    y, x, c = blur.op.axis
    row = blur.fuse(x, c)
    band, line = blur.split(y, factor=s.define_knob("rows", [1, 2, 4, 8]))
    group, item = blur.split(band, factor=s.define_knob("items", [1, 2, 4, 8]))
    chunk, element = blur.split(row, factor=s.define_knob("stretch", [480, 960, 1920, 3840, 7680]))
    blur.reorder(group, chunk, item, element, line)
    blur.bind(group, "blockIdx.y")
    blur.bind(chunk, "blockIdx.x")
    blur.bind(item, "threadIdx.x")
    blur.unroll(line)
