"""Two-dimensional convolutions with zero padding, images as NCHW or as NHWC.

The sums of a tile (a few neighbouring pixels times a few vectors of output channels) stay in
registers while the loops over input channels and the window run: one vector of weights is multiplied
with one input element, broadcast. Output channels make good vectors whatever the size of the image,
the stride and the padding. In NCHW a tile is transposed on its way out, in registers.
"""

from autosched import te, template, workload
from autosched.space.gpu import share

#: bytes of a vector of output channels: the widest register
VECTOR_BYTES = 64


def _padded(image, pad, rows, columns):
    """The image with `pad` zeros around dimensions `rows` and `columns`."""
    if pad == 0:
        return image
    shape = [d + 2 * pad if i in (rows, columns) else d for i, d in enumerate(image.shape)]

    def element(*at):
        source = [i - pad if d in (rows, columns) else i for d, i in enumerate(at)]
        inside = [te.all(at[d] >= pad, at[d] < image.shape[d] + pad) for d in (rows, columns)]
        return te.if_then_else(te.all(*inside), image[tuple(source)], te.const(0, image.dtype))

    return te.compute(shape, element, name="padded")


def _sums(dtype):
    """Halves are summed, and given, as float32."""
    return "float32" if dtype.endswith("float16") else dtype


@workload
def conv2d_nchw(batch=1, height=56, width=56, cin=64, cout=64, kernel=3, stride=1, pad=1, dtype="float32"):
    """image[batch, cin, height, width], weight[cout, cin, kernel, kernel] -> conv2d[batch, cout, rows, columns]."""
    image = te.placeholder((batch, cin, height, width), dtype, name="image")
    weight = te.placeholder((cout, cin, kernel, kernel), dtype, name="weight")
    source = _padded(image, pad, 2, 3)
    sums = _sums(dtype)
    ci, ky, kx = te.reduce_axis((0, cin), "ci"), te.reduce_axis((0, kernel), "ky"), te.reduce_axis((0, kernel), "kx")
    conv = te.compute(
        (batch, cout, (height + 2 * pad - kernel) // stride + 1, (width + 2 * pad - kernel) // stride + 1),
        lambda n, co, y, x: te.sum(
            source[n, ci, y * stride + ky, x * stride + kx].astype(sums) * weight[co, ci, ky, kx].astype(sums),
            axis=(ci, ky, kx),
        ),
        name="conv2d",
    )
    return image, weight, conv


@workload
def conv2d_nhwc(batch=1, height=56, width=56, cin=64, cout=64, kernel=3, stride=1, pad=1, dtype="float32"):
    """image[batch, height, width, cin], weight[kernel, kernel, cin, cout] -> conv2d[batch, rows, columns, cout]."""
    image = te.placeholder((batch, height, width, cin), dtype, name="image")
    weight = te.placeholder((kernel, kernel, cin, cout), dtype, name="weight")
    source = _padded(image, pad, 1, 2)
    sums = _sums(dtype)
    ky, kx, ci = te.reduce_axis((0, kernel), "ky"), te.reduce_axis((0, kernel), "kx"), te.reduce_axis((0, cin), "ci")
    conv = te.compute(
        (batch, (height + 2 * pad - kernel) // stride + 1, (width + 2 * pad - kernel) // stride + 1, cout),
        lambda n, y, x, co: te.sum(
            source[n, y * stride + ky, x * stride + kx, ci].astype(sums) * weight[ky, kx, ci, co].astype(sums),
            axis=(ky, kx, ci),
        ),
        name="conv2d",
    )
    return image, weight, conv


def _lanes(s):
    return VECTOR_BYTES // s["weight"].tensor.dtype.bytes


def _tile_sizes(s):
    """Knobs: pixels and vectors of channels of a tile, whose sums fit into 32 registers beside a few others."""
    pixels = s.define_knob("pixels", [4, 6, 7, 8, 12, 14, 28])
    vectors = s.define_knob("vectors", [1, 2, 4])
    s.constrain(pixels * vectors <= 28, "the sums do not fit into registers")
    s.constrain(pixels * vectors >= 6, "too few sums to keep the multipliers busy")
    return pixels, vectors


def _rows(s):
    return s.define_knob("rows", [1, 2, 4, 7, 14, 28, 56])


def _keep_in_registers(s, sums, reduce, spatial, vectorized):
    """The loops of a tile's sums: reductions around a body that is written out, in vectors."""
    vector, lane = sums.split(vectorized, factor=_lanes(s))
    sums.reorder(*reduce, *spatial, vector, lane)
    for loop in (*spatial, vector):
        sums.unroll(loop)
    sums.vectorize(lane)


def _packed_weight(s, sums, co, channels):
    """The weights in the order in which tiles read them: [block of channels][ci and window][channel]."""
    pack = s[s.cache_read("weight", "global", [sums])]
    axes = list(pack.op.axis)
    axis = axes.pop(co)
    block, channel = pack.split(axis, factor=channels)
    pack.reorder(block, *axes, channel)
    packed = s[s.cache_write(pack, "global")]
    pack.compute_inline()
    return packed


def _place_padded(s, conv, task, by):
    """The padded image: what a band of rows needs, by the thread that needs it, or all of it beforehand."""
    if "padded" not in s:
        return
    padded = s["padded"]
    if by == "rows":
        padded.compute_at(conv, task)
    else:
        padded.parallel(padded.fuse(*padded.op.axis[:2]))


@template(conv2d_nhwc, target="cpu")
def tiles(s):
    """Tiles of neighbouring pixels of a row, over packed weights: as they come, rows of weights may be
    so far apart that they compete for few places of the cache."""
    conv, lanes = s["conv2d"], _lanes(s)
    pixels, vectors = _tile_sizes(s)
    sums = s[s.cache_write("conv2d", "local")]
    block, channel = conv.split("co", factor=lanes * vectors)
    vector, lane = conv.split(channel, factor=lanes)
    tile, pixel = conv.split("x", factor=pixels, tail="shift_inwards")
    by = s.choose("parallel", ["rows", "channels"])
    if by == "rows":
        band, line = conv.split("y", factor=_rows(s))
        keep = s.choose("keep", ["weights", "pixels"])  # in the nearest cache while the others pass by
        inner = [block, line, tile] if keep == "weights" else [line, tile, block]
    else:
        band, inner = block, ["y", tile]
    conv.reorder("n", band, *inner, pixel, vector, lane)
    task = conv.fuse("n", band)
    conv.parallel(task)
    conv.unroll(pixel)
    conv.unroll(vector)
    conv.vectorize(lane)

    sums.compute_at(conv, inner[-1])
    n, y, x, co = sums.op.axis
    _keep_in_registers(s, sums, sums.op.reduce_axis, [n, y, x], co)
    packed = _packed_weight(s, sums, 3, lanes * vectors)
    block, *window, _, channel = packed.op.axis
    _, lane = packed.split(channel, factor=lanes)
    packed.vectorize(lane)
    if by == "rows":
        packed.parallel(packed.fuse(block, *window))
    else:
        packed.compute_at(conv, task)
    _place_padded(s, conv, task, by)
    if "padded" in s:
        row = s["padded"].fuse(*s["padded"].loops[-2:])  # pixels and channels are one axis
        _, lane = s["padded"].split(row, factor=lanes)
        s["padded"].vectorize(lane)


@template(conv2d_nchw, target="cpu")
def transposed_tiles(s):
    """Tiles of neighbouring pixels of a row, as for NHWC, their sums transposed on their way out.
    So are the weights as they are packed, because their channels are not neighbours either."""
    conv, lanes = s["conv2d"], _lanes(s)
    pixels, vectors = _tile_sizes(s)
    conv.reorder("n", "y", "x", "co")  # the layout of the sums
    sums = s[s.cache_write("conv2d", "local")]
    block, channel = conv.split("co", factor=lanes * vectors)
    tile, pixel = conv.split("x", factor=pixels, tail="shift_inwards")
    by = s.choose("parallel", ["rows", "channels"])
    if by == "rows":
        band, line = conv.split("y", factor=_rows(s))
        inner = [block, line, tile]
    else:
        band, inner = block, ["y", tile]
    conv.reorder("n", band, *inner, channel, pixel)
    task = conv.fuse("n", band)
    conv.parallel(task)
    conv.unroll(channel)
    conv.vectorize(pixel)

    # The rows of a small window are written out, not its columns: neighbouring columns read the same
    # pixels, and what they share would be kept in registers that the sums need.
    sums.compute_at(conv, inner[-1])
    n, y, x, co = sums.op.axis
    ci, ky, kx = sums.op.reduce_axis
    _keep_in_registers(s, sums, [ci, kx, ky], [n, y, x], co)
    if ky.extent.value <= 3:
        sums.unroll(ky)
    packed = _packed_weight(s, sums, 0, lanes * vectors)
    block, ci, ky, kx, channel = packed.op.axis
    row, column = packed.split(packed.fuse(ci, ky, kx), factor=lanes)
    vector, lane = packed.split(channel, factor=lanes)
    packed.reorder(block, vector, row, column, lane)
    packed.unroll(column)
    packed.vectorize(lane)
    if by == "rows":
        packed.parallel(packed.fuse(block, vector))
    else:
        packed.compute_at(conv, task)
    _place_padded(s, conv, task, by)


@template(conv2d_nchw, target="cpu")
def lines(s):
    """Vectors of neighbouring pixels, each multiplied with one weight, broadcast: no weight is packed
    and nothing is transposed. Best for windows of one pixel, where the whole image is one line."""
    conv, lanes = s["conv2d"], _lanes(s)
    channels = s.define_knob("channels", [2, 4, 6, 8, 14])
    vectors = s.define_knob("vectors", [1, 2, 3, 4])
    s.constrain(channels * vectors <= 28, "the sums do not fit into registers")
    s.constrain(channels * vectors >= 6, "too few sums to keep the multipliers busy")
    pointwise = [d.value for d in s["image"].tensor.shape[2:]] == [d.value for d in conv.tensor.shape[2:]]
    pointwise = pointwise and "padded" not in s
    if pointwise:
        conv.fuse("y", "x")  # the layout of the sums
    sums = s[s.cache_write("conv2d", "local")]
    block, channel = conv.split("co", factor=channels)
    if pointwise:
        tile, pixel = conv.split(conv.fuse("y", "x"), factor=lanes * vectors)
        band, tile = conv.split(tile, factor=s.define_knob("tiles", [1, 2, 4, 8, 16, 32, 64]))
    else:
        band = "y"
        tile, pixel = conv.split("x", factor=lanes * vectors, tail="shift_inwards")
    vector, lane = conv.split(pixel, factor=lanes)
    conv.reorder("n", band, tile, block, channel, vector, lane)
    conv.parallel(conv.fuse("n", band))
    conv.unroll(channel)
    conv.unroll(vector)
    conv.vectorize(lane)

    sums.compute_at(conv, block)
    n, co, *y, x = sums.op.axis
    _keep_in_registers(s, sums, sums.op.reduce_axis, [n, *y, co], x)
    if pointwise:  # a tile's pixels of all input channels lie together while its blocks of channels read them
        copy = s[s.cache_read("image", "global", [sums])]
        copy.fuse(*copy.op.axis[2:])
        pixels = s[s.cache_write(copy, "global")]
        copy.compute_inline()
        pixels.compute_at(conv, tile)
        vector, lane = pixels.split(pixels.op.axis[-1], factor=lanes)
        pixels.unroll(vector)
        pixels.vectorize(lane)
    _place_padded(s, conv, None, "channels")


def _in_shared_memory(s, sums, at, items):
    """What a work-group reads of the image and of the weights, fetched together for a few input channels."""
    image = s["padded"] if "padded" in s else s[s.cache_read("image", "shared", [sums])]
    for fetched in (image, s[s.cache_read("weight", "shared", [sums])]):
        fetched.set_scope("shared")
        fetched.compute_at(sums, at)
        share(fetched, items)


@template(conv2d_nchw, target="gpu")
def shared_patches(s):
    """A work-group computes a patch of some output channels; its patch of the image and its weights
    are in shared memory, its sums (`channels` x `pixels` for each work-item) in registers."""
    conv = s["conv2d"]
    sums = s[s.cache_write(conv, "local")]
    channels, pixels = s.define_knob("channels", [2, 4, 8]), s.define_knob("pixels", [1, 2, 4])
    items = {"threadIdx.x": s.define_knob("items_x", [7, 8, 14])}
    items["threadIdx.y"] = s.define_knob("items_y", [1, 4])
    items["threadIdx.z"] = s.define_knob("items_z", [4, 8])
    n, co, y, x = conv.op.axis
    block_c, co = conv.split(co, factor=channels * items["threadIdx.z"])
    item_c, channel = conv.split(co, factor=channels)
    block_y, item_y = conv.split(y, factor=items["threadIdx.y"])
    block_x, x = conv.split(x, factor=pixels * items["threadIdx.x"])
    item_x, pixel = conv.split(x, factor=pixels)
    conv.reorder(n, block_c, block_y, block_x, item_c, item_y, item_x, channel, pixel)
    for loop, tag in zip((block_y, block_x, item_c, item_y, item_x), ("blockIdx.y", "blockIdx.x", *reversed(items))):
        conv.bind(loop, tag)
    conv.bind(conv.fuse(n, block_c), "blockIdx.z")
    conv.unroll(channel)
    conv.vectorize(pixel)
    sums.compute_at(conv, item_x)
    n, channel, y, pixel = sums.op.axis
    ci, ky, kx = sums.op.reduce_axis
    outer, ci = sums.split(ci, factor=s.define_knob("steps", [2, 4, 8]))
    sums.reorder(outer, ci, ky, kx, n, y, channel, pixel)
    sums.unroll(channel)
    sums.vectorize(pixel)
    _in_shared_memory(s, sums, outer, items)


@template(conv2d_nhwc, target="gpu")
def shared_strips(s):
    """A work-group computes a strip of pixels of a row for some output channels, which are vectors;
    its part of the image and its weights are in shared memory, its sums in registers."""
    conv = s["conv2d"]
    sums = s[s.cache_write(conv, "local")]
    pixels, lanes = s.define_knob("pixels", [2, 4, 7]), s.define_knob("lanes", [1, 2, 4])
    items = {"threadIdx.x": s.define_knob("items_x", [8, 16])}
    items["threadIdx.y"] = s.define_knob("items_y", [4, 8])
    n, y, x, co = conv.op.axis
    block_x, x = conv.split(x, factor=pixels * items["threadIdx.y"])
    item_y, pixel = conv.split(x, factor=pixels)
    block_c, co = conv.split(co, factor=lanes * items["threadIdx.x"])
    item_x, lane = conv.split(co, factor=lanes)
    conv.reorder(n, y, block_x, block_c, item_y, item_x, pixel, lane)
    for loop, tag in zip((block_x, block_c, item_y, item_x), ("blockIdx.y", "blockIdx.x", *reversed(items))):
        conv.bind(loop, tag)
    conv.bind(conv.fuse(n, y), "blockIdx.z")
    conv.unroll(pixel)
    conv.vectorize(lane)
    sums.compute_at(conv, item_x)
    n, y, pixel, lane = sums.op.axis
    ky, kx, ci = sums.op.reduce_axis
    outer, ci = sums.split(ci, factor=s.define_knob("steps", [2, 4, 8]))
    sums.reorder(outer, ky, kx, ci, n, y, pixel, lane)
    sums.unroll(pixel)
    sums.vectorize(lane)
    _in_shared_memory(s, sums, outer, items)
