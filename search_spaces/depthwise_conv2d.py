"""A depthwise convolution with zero padding: each channel of an NCHW image has a window of its own."""

from autosched import te, template, workload


@workload
def depthwise_conv2d(batch=1, channels=128, height=56, width=56, kernel=3, stride=1, pad=1, dtype="float32"):
    """image[batch, channels, height, width], weight[channels, 1, kernel, kernel] ->
    depthwise_conv2d[batch, channels, rows, columns]. Halves are summed and given as float32."""
    sums = "float32" if dtype.endswith("float16") else dtype
    image = te.placeholder((batch, channels, height, width), dtype, name="image")
    weight = te.placeholder((channels, 1, kernel, kernel), dtype, name="weight")
    padded = te.compute(
        (batch, channels, height + 2 * pad, width + 2 * pad),
        lambda n, c, y, x: te.if_then_else(
            te.all(y >= pad, y < height + pad, x >= pad, x < width + pad),
            image[n, c, y - pad, x - pad],
            te.const(0, dtype),
        ),
        name="padded",
    )
    ky, kx = te.reduce_axis((0, kernel), "ky"), te.reduce_axis((0, kernel), "kx")
    conv = te.compute(
        (batch, channels, (height + 2 * pad - kernel) // stride + 1, (width + 2 * pad - kernel) // stride + 1),
        lambda n, c, y, x: te.sum(
            padded[n, c, y * stride + ky, x * stride + kx].astype(sums) * weight[c, 0, ky, kx].astype(sums),
            axis=(ky, kx),
        ),
        name="depthwise_conv2d",
    )
    return image, weight, conv


@template(depthwise_conv2d, target="cpu")
def planes(s):
    """A channel at a time: its padded plane stays in the nearest cache. The rows of a tile are unrolled,
    so that what the windows of neighbouring rows share is loaded once."""
    conv = s["depthwise_conv2d"]
    sums = s[s.cache_write(conv, "local")]
    n, c, y, x = conv.op.axis
    band, line = conv.split(y, factor=s.define_knob("rows", [1, 2, 3, 4, 6, 7, 8, 14]), tail="shift_inwards")
    tile, lane = conv.split(x, factor=s.define_knob("lanes", [4, 7, 8, 14, 16, 28, 32, 56, 64]), tail="shift_inwards")
    conv.reorder(n, c, band, tile, line, lane)
    task = conv.fuse(n, c)
    conv.parallel(task)
    conv.unroll(line)
    conv.vectorize(lane)
    sums.compute_at(conv, tile)
    n, c, y, x = sums.op.axis
    sums.reorder(*sums.op.reduce_axis, n, c, y, x)
    for axis in (*sums.op.reduce_axis, y):
        sums.unroll(axis)
    sums.vectorize(x)
    s["padded"].compute_at(conv, task)


@template(depthwise_conv2d, target="gpu")
def patches(s):
    """A work-item for a few neighbouring pixels of a few rows; the window is written out. What
    windows share, the cache holds."""
    conv = s["depthwise_conv2d"]
    s["padded"].compute_inline()
    sums = s[s.cache_write(conv, "local")]
    n, c, y, x = conv.op.axis
    block_y, y = conv.split(y, factor=s.define_knob("items_y", [2, 4, 8]) * s.define_knob("rows", [1, 2, 4]))
    item_y, row = conv.split(y, factor=s.knobs["rows"].var)
    lanes = s.define_knob("lanes", [1, 2, 4])
    block_x, x = conv.split(x, factor=s.define_knob("items_x", [8, 16, 32]) * lanes)
    item_x, lane = conv.split(x, factor=lanes)
    conv.reorder(n, c, block_y, block_x, item_y, item_x, row, lane)
    for loop, tag in (
        (block_y, "blockIdx.y"),
        (block_x, "blockIdx.x"),
        (item_y, "threadIdx.y"),
        (item_x, "threadIdx.x"),
    ):
        conv.bind(loop, tag)
    conv.bind(conv.fuse(n, c), "blockIdx.z")
    conv.vectorize(lane)
    sums.compute_at(conv, item_x)
    n, c, y, x = sums.op.axis
    sums.reorder(*sums.op.reduce_axis, n, c, y, x)
    sums.vectorize(x)
    if s.choose("window", ["loops", "written out"]) == "written out":
        for axis in (*sums.op.reduce_axis, y):
            sums.unroll(axis)
