"""Image pipelines: filters, colours, pyramids, gathers, histograms.

References are SciPy's where it has the filter. `images_numba.py` has the loops for numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched import te

from . import images_numba as loops
from . import images_peers as peers
from . import program

# -- windows ---------------------------------------------------------------------------------------


@program(peers.filter_reference, numba=loops.filter_3x3_rgb, opencv=peers.filter_opencv)
def filter_3x3_rgb(height: int = 720, width: int = 1280) -> tuple[te.Tensor, ...]:
    """image[height, width, 3] filtered with kernel[3, 3], borders repeated."""
    image = te.placeholder((height, width, 3), name="image")
    kernel = te.placeholder((3, 3), name="kernel")
    edge = te.repeat_edge(image)
    dy, dx = te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
    filtered = te.compute(
        (height, width, 3),
        lambda y, x, c: te.sum(edge[y + dy - 1, x + dx - 1, c] * kernel[dy, dx], axis=[dy, dx]),
        name="filtered",
    )
    return image, kernel, filtered


def _blurred(image: te.Tensor) -> te.Tensor:
    """The first two axes filtered with the binomial, borders repeated; float32."""
    taps = te.compute((5,), lambda i: te.select(i == 2, 6 / 16, te.select((i == 1) | (i == 3), 4 / 16, 1 / 16)))
    v, u = te.reduce_axis((0, 5), "v"), te.reduce_axis((0, 5), "u")
    edge = te.repeat_edge(image)
    down = te.compute(
        image.shape,
        lambda y, x, *c: te.sum(edge[(y + v - 2, x, *c)].astype("float32") * taps[v], axis=v),
        name="down",
    )
    edge_down = te.repeat_edge(down)
    return te.compute(
        image.shape, lambda y, x, *c: te.sum(edge_down[(y, x + u - 2, *c)] * taps[u], axis=u), name="blurred"
    )


@program(
    lambda image: peers.separable(image, peers.BINOMIAL),
    inputs=peers.light,
    numba=loops.gaussian_5x5,
    opencv=peers.gaussian_opencv,
)
def gaussian_5x5(height: int = 1080, width: int = 1920) -> tuple[te.Tensor, ...]:
    """image[height, width] filtered with the binomial of 5 taps along columns, then along rows; borders repeated."""
    image = te.placeholder((height, width), name="image")
    return image, _blurred(image)


@program(
    peers.unsharp_reference, inputs=peers.colour, atol=1, rtol=0, numba=loops.unsharp_mask, opencv=peers.unsharp_opencv
)
def unsharp_mask(height: int = 720, width: int = 1280) -> tuple[te.Tensor, ...]:
    """image[height, width, 3] uint8 plus 1.5 times its difference from its blur; uint8."""
    image = te.placeholder((height, width, 3), "uint8", name="image")
    blurred = _blurred(image)
    detail = te.compute(image.shape, lambda y, x, c: image[y, x, c].astype("float32") - blurred[y, x, c], name="detail")
    sharp = te.compute(
        image.shape, lambda y, x, c: image[y, x, c].astype("float32") + 1.5 * detail[y, x, c] + 0.5, name="sharp"
    )
    result = te.compute(
        image.shape, lambda y, x, c: te.max(te.min(sharp[y, x, c], 255.0), 0.0).astype("uint8"), name="result"
    )
    return image, result


def _sobel(image: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """The derivatives along rows and along columns."""
    dy, dx = te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
    edge = te.repeat_edge(image)
    across = te.compute((3, 3), lambda i, j: ((j - 1) * (2 - te.abs(i - 1))).astype("float32"), name="across")
    along_rows = te.compute(
        image.shape, lambda y, x: te.sum(edge[y + dy - 1, x + dx - 1] * across[dy, dx], axis=[dy, dx]), name="gx"
    )
    along_columns = te.compute(
        image.shape, lambda y, x: te.sum(edge[y + dy - 1, x + dx - 1] * across[dx, dy], axis=[dy, dx]), name="gy"
    )
    return along_rows, along_columns


@program(peers.sobel_reference, inputs=peers.light, atol=1e-2, numba=loops.sobel_magnitude, opencv=peers.sobel_opencv)
def sobel_magnitude(height: int = 1080, width: int = 1920) -> tuple[te.Tensor, ...]:
    """The length of the Sobel gradient of image[height, width], borders repeated."""
    image = te.placeholder((height, width), name="image")
    gx, gy = _sobel(image)
    length = te.compute(
        (height, width), lambda y, x: te.sqrt(gx[y, x] * gx[y, x] + gy[y, x] * gy[y, x]), name="magnitude"
    )
    return image, length


@program(peers.harris_reference, inputs=peers.unit_light, numba=loops.harris, opencv=peers.harris_opencv)
def harris(height: int = 1080, width: int = 1920) -> tuple[te.Tensor, ...]:
    """Harris' measure of corners of image[height, width]: Sobel, products, 3x3 sums, det - 0.04 trace^2."""
    image = te.placeholder((height, width), name="image")
    shape = image.shape
    sobel = _sobel(image)
    gx, gy = (te.compute(shape, lambda y, x, g=g: g[y, x] * (1 / 12), name="scaled") for g in sobel)
    dy, dx = te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")

    def windowed(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        product = te.compute(shape, lambda y, x: a[y, x] * b[y, x], name="product")
        edge = te.repeat_edge(product)
        return te.compute(shape, lambda y, x: te.sum(edge[y + dy - 1, x + dx - 1], axis=[dy, dx]), name="windowed")

    xx, xy, yy = windowed(gx, gx), windowed(gx, gy), windowed(gy, gy)
    det = te.compute(shape, lambda y, x: xx[y, x] * yy[y, x] - xy[y, x] * xy[y, x], name="det")
    trace = te.compute(shape, lambda y, x: xx[y, x] + yy[y, x], name="trace")
    response = te.compute(shape, lambda y, x: det[y, x] - 0.04 * trace[y, x] * trace[y, x], name="response")
    return image, response


@program(peers.chain_reference, inputs=peers.unit_light, numba=loops.box_chain, opencv=peers.chain_opencv)
def box_chain(height: int = 1024, width: int = 1024) -> tuple[te.Tensor, ...]:
    """image[height, width] through six rounds of a 3x3 box blur and then * 0.1 + 0.05."""
    image = te.placeholder((height, width), name="image")
    found = image
    for i in range(6):
        edge = te.repeat_edge(found)
        dy, dx = te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
        box = te.compute(
            (height, width),
            lambda y, x: te.sum(edge[y + dy - 1, x + dx - 1], axis=[dy, dx]),  # noqa: B023  # called at once
            name=f"box{i}",
        )
        found = te.compute((height, width), lambda y, x: box[y, x] / 9 * 0.1 + 0.05, name=f"dim{i}")  # noqa: B023
    return image, found


@program(
    peers.median_reference,
    inputs=peers.grey,
    atol=0,
    rtol=0,
    numba=loops.median_3x3,
    opencv=lambda cv2, image: lambda: cv2.medianBlur(image, 3),
)
def median_3x3(height: int = 1080, width: int = 1920) -> tuple[te.Tensor, ...]:
    """The median of each 3x3 window of image[height, width] uint8: columns sorted, then their lows, middles, highs."""
    image = te.placeholder((height, width), "uint8", name="image")
    edge = te.repeat_edge(image)

    def column(y: te.Expr, x: te.Expr) -> tuple[te.Expr, te.Expr, te.Expr]:
        return edge[y - 1, x], edge[y, x], edge[y + 1, x]

    def least(a: Any, b: Any, c: Any) -> te.Expr:
        return te.min(te.min(a, b), c)

    def most(a: Any, b: Any, c: Any) -> te.Expr:
        return te.max(te.max(a, b), c)

    def between(a: Any, b: Any, c: Any) -> te.Expr:
        return te.max(te.min(a, b), te.min(te.max(a, b), c))

    shape = (height, width)
    low = te.repeat_edge(te.compute(shape, lambda y, x: least(*column(y, x)), name="low"))
    middle = te.repeat_edge(te.compute(shape, lambda y, x: between(*column(y, x)), name="middle"))
    high = te.repeat_edge(te.compute(shape, lambda y, x: most(*column(y, x)), name="high"))
    of_lows = te.compute(shape, lambda y, x: most(low[y, x - 1], low[y, x], low[y, x + 1]), name="of_lows")
    of_middles = te.compute(
        shape, lambda y, x: between(middle[y, x - 1], middle[y, x], middle[y, x + 1]), name="of_middles"
    )
    of_highs = te.compute(shape, lambda y, x: least(high[y, x - 1], high[y, x], high[y, x + 1]), name="of_highs")
    median = te.compute(shape, lambda y, x: between(of_lows[y, x], of_middles[y, x], of_highs[y, x]), name="median")
    return image, median


# -- windows with weights of their own -------------------------------------------------------------


@program(peers.nlm_reference, inputs=peers.light, numba=loops.non_local_means)
def non_local_means(height: int = 240, width: int = 320) -> tuple[te.Tensor, ...]:
    """image[height, width] by non-local means: 7x7 places searched, patches of 3x3 compared."""
    image = te.placeholder((height, width), name="image")
    edge = te.repeat_edge(image)
    dy, dx = te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")

    def squared(y: te.Expr, x: te.Expr, v: te.Expr, u: te.Expr) -> te.Expr:
        change = edge[y + dy - 1, x + dx - 1] - edge[y + v - 3 + dy - 1, x + u - 3 + dx - 1]
        return te.sum(change * change, axis=[dy, dx])

    apart = te.compute((height, width, 7, 7), squared, name="apart")
    weight = te.compute((height, width, 7, 7), lambda y, x, v, u: te.exp(apart[y, x, v, u] * (-1 / 900)), name="weight")
    v, u = te.reduce_axis((0, 7), "v"), te.reduce_axis((0, 7), "u")
    weights = te.compute((height, width), lambda y, x: te.sum(weight[y, x, v, u], axis=[v, u]), name="weights")
    p, q = te.reduce_axis((0, 7), "p"), te.reduce_axis((0, 7), "q")
    total = te.compute(
        (height, width),
        lambda y, x: te.sum(weight[y, x, p, q] * edge[y + p - 3, x + q - 3], axis=[p, q]),
        name="total",
    )
    return image, te.compute((height, width), lambda y, x: total[y, x] / weights[y, x], name="denoised")


@program(peers.bilateral_reference, inputs=peers.light, numba=loops.bilateral_5x5)
def bilateral_5x5(height: int = 720, width: int = 1280) -> tuple[te.Tensor, ...]:
    """image[height, width] by the bilateral filter of 5x5: weights for distance and for difference of value."""
    image = te.placeholder((height, width), name="image")
    edge = te.repeat_edge(image)
    near = te.compute(
        (5, 5), lambda i, j: te.exp(((i - 2) * (i - 2) + (j - 2) * (j - 2)).astype("float32") * (-1 / 8)), name="near"
    )

    def alike(y: te.Expr, x: te.Expr, dy: te.Expr, dx: te.Expr) -> te.Expr:
        change = edge[y + dy - 2, x + dx - 2] - image[y, x]
        return near[dy, dx] * te.exp(change * change * (-1 / 1800))

    weight = te.compute((height, width, 5, 5), alike, name="weight")
    dy, dx = te.reduce_axis((0, 5), "dy"), te.reduce_axis((0, 5), "dx")
    total = te.compute(
        (height, width),
        lambda y, x: te.sum(weight[y, x, dy, dx] * edge[y + dy - 2, x + dx - 2], axis=[dy, dx]),
        name="total",
    )
    v, u = te.reduce_axis((0, 5), "v"), te.reduce_axis((0, 5), "u")
    weights = te.compute((height, width), lambda y, x: te.sum(weight[y, x, v, u], axis=[v, u]), name="weights")
    return image, te.compute((height, width), lambda y, x: total[y, x] / weights[y, x], name="smooth")


# -- colours ---------------------------------------------------------------------------------------


def _lightness(image: te.Tensor) -> tuple[te.Tensor, te.Tensor]:
    """An image of colours as float32, and how light its pixels are."""
    wide = te.compute(image.shape, lambda y, x, c: image[y, x, c].astype("float32"), name="wide")
    light = te.compute(
        image.shape[:2],
        lambda y, x: 0.299 * wide[y, x, 0] + 0.587 * wide[y, x, 1] + 0.114 * wide[y, x, 2],
        name="light",
    )
    return wide, light


@program(
    peers.grey_reference,
    inputs=peers.colour,
    atol=1,
    rtol=0,
    numba=loops.rgb_to_grey,
    opencv=lambda cv2, image: lambda: cv2.cvtColor(image, cv2.COLOR_RGB2GRAY),
)
def rgb_to_grey(height: int = 1080, width: int = 1920) -> tuple[te.Tensor, ...]:
    """image[height, width, 3] uint8 -> its lightness, uint8."""
    image = te.placeholder((height, width, 3), "uint8", name="image")
    _, light = _lightness(image)
    return image, te.compute((height, width), lambda y, x: (light[y, x] + 0.5).astype("uint8"), name="grey")


@program(
    peers.yuv_reference,
    inputs=peers.colour,
    atol=1,
    rtol=0,
    numba=loops.rgb_to_yuv,
    opencv=lambda cv2, image: lambda: cv2.cvtColor(image, cv2.COLOR_RGB2YUV),
)
def rgb_to_yuv(height: int = 1080, width: int = 1920) -> tuple[te.Tensor, ...]:
    """image[height, width, 3] uint8 -> lightness and two differences of colour, uint8."""
    image = te.placeholder((height, width, 3), "uint8", name="image")
    wide, light = _lightness(image)

    def colour(y: te.Expr, x: te.Expr, c: te.Expr) -> te.Expr:
        blue = 0.492 * (wide[y, x, 2] - light[y, x]) + 128.0
        red = 0.877 * (wide[y, x, 0] - light[y, x]) + 128.0
        return te.if_then_else(c == 0, light[y, x], te.if_then_else(c == 1, blue, red))

    yuv = te.compute(image.shape, colour, name="yuv")
    result = te.compute(
        image.shape, lambda y, x, c: te.max(te.min(yuv[y, x, c] + 0.5, 255.0), 0.0).astype("uint8"), name="result"
    )
    return image, result


@program(peers.camera_reference, inputs=peers.mosaic, atol=2, rtol=0, numba=loops.camera_pipe)
def camera_pipe(height: int = 720, width: int = 1280) -> tuple[te.Tensor, ...]:
    """raw[height, width] of 10 bits in uint16, green and red, blue and green alternating -> an image[.., .., 3] uint8.

    Hot pixels, black level, white balance, bilinear demosaicing, colour matrix, gamma curve, sharpening.
    """
    raw = te.placeholder((height, width), "uint16", name="raw")
    gains, matrix = te.placeholder((3,), "int32", name="gains"), te.placeholder((3, 3), "int32", name="matrix")
    grey, colour = (height, width), (height, width, 3)

    def stage(name: str, fn: Callable[..., Any], shape: tuple[int, ...] = grey) -> te.Tensor:
        return te.compute(shape, fn, name=name)

    wide = stage("wide", lambda y, x: raw[y, x].astype("int32"))
    far = te.mirror_interior(wide)
    low = stage("low", lambda y, x: te.min(te.min(far[y - 2, x], far[y + 2, x]), te.min(far[y, x - 2], far[y, x + 2])))
    high = stage(
        "high", lambda y, x: te.max(te.max(far[y - 2, x], far[y + 2, x]), te.max(far[y, x - 2], far[y, x + 2]))
    )
    steady = stage("steady", lambda y, x: te.max(te.min(wide[y, x], high[y, x]), low[y, x]))
    dark = stage("dark", lambda y, x: te.max(steady[y, x] - 64, 0))

    def gain(y: te.Expr, x: te.Expr) -> te.Expr:
        above = te.if_then_else(x % 2 == 0, gains[1], gains[0])
        return te.if_then_else(y % 2 == 0, above, te.if_then_else(x % 2 == 0, gains[2], gains[1]))

    balanced = stage("balanced", lambda y, x: (dark[y, x] * gain(y, x)) >> 8)
    b = te.mirror_interior(balanced)
    side = stage("side", lambda y, x: (b[y, x - 1] + b[y, x + 1] + 1) >> 1)
    tall = stage("tall", lambda y, x: (b[y - 1, x] + b[y + 1, x] + 1) >> 1)
    cross = stage("cross", lambda y, x: (b[y, x - 1] + b[y, x + 1] + b[y - 1, x] + b[y + 1, x] + 2) >> 2)
    corner = stage(
        "corner",
        lambda y, x: (b[y - 1, x - 1] + b[y - 1, x + 1] + b[y + 1, x - 1] + b[y + 1, x + 1] + 2) >> 2,
    )

    def mosaic(name: str, *cells: te.Tensor) -> te.Tensor:
        """One of four values by the row's and the column's parity."""

        def cell(y: te.Expr, x: te.Expr) -> te.Expr:
            first, second, third, fourth = (t[y, x] for t in cells)
            above = te.if_then_else(x % 2 == 0, first, second)
            return te.if_then_else(y % 2 == 0, above, te.if_then_else(x % 2 == 0, third, fourth))

        return stage(name, cell)

    red = mosaic("red", side, balanced, corner, tall)
    green = mosaic("green", balanced, cross, cross, balanced)
    blue = mosaic("blue", tall, corner, balanced, side)
    rgb = stage(
        "rgb",
        lambda y, x, c: te.if_then_else(c == 0, red[y, x], te.if_then_else(c == 1, green[y, x], blue[y, x])),
        colour,
    )
    k = te.reduce_axis((0, 3), "k")
    mixed = stage("mixed", lambda y, x, c: te.sum(matrix[c, k] * rgb[y, x, k], axis=k), colour)
    level = stage("level", lambda y, x, c: te.max(te.min(mixed[y, x, c] >> 8, 1023), 0), colour)
    curve = stage(
        "curve", lambda i: (te.pow(i.astype("float32") / 1023.0, 1 / 2.2) * 255.0 + 0.5).astype("uint8"), (1024,)
    )
    curved = stage("curved", lambda y, x, c: curve[level[y, x, c]].astype("int32"), colour)
    e = te.repeat_edge(curved)
    down = stage("down", lambda y, x, c: e[y - 1, x, c] + 2 * e[y, x, c] + e[y + 1, x, c], colour)
    d = te.repeat_edge(down)
    blurred = stage("blurred", lambda y, x, c: (d[y, x - 1, c] + 2 * d[y, x, c] + d[y, x + 1, c] + 8) >> 4, colour)
    sharp = stage("sharp", lambda y, x, c: curved[y, x, c] + ((curved[y, x, c] - blurred[y, x, c]) >> 1), colour)
    result = stage("result", lambda y, x, c: te.max(te.min(sharp[y, x, c], 255), 0).astype("uint8"), colour)
    return raw, gains, matrix, result


# -- several sizes, gathers, histograms, recurrences -----------------------------------------------


@program(
    lambda image: peers.pyramid(image.astype("float64"), peers.halved, peers.doubled),
    inputs=peers.light,
    atol=1e-2,
    numba=loops.laplacian_pyramid,
    opencv=peers.pyramid_opencv,
)
def laplacian_pyramid(height: int = 1024, width: int = 1024) -> tuple[te.Tensor, ...]:
    """The Laplacian pyramid of 4 levels of image[height, width], its details amplified and collapsed again."""
    image = te.placeholder((height, width), name="image")

    def halved(fine: te.Tensor, h: int, w: int) -> te.Tensor:
        blurred = _blurred(fine)
        return te.compute((h, w), lambda y, x: blurred[2 * y, 2 * x], name="halved")

    def doubled(coarse: te.Tensor, h: int, w: int) -> te.Tensor:
        edge = te.repeat_edge(coarse)
        down = te.compute(
            (h, w // 2),
            lambda y, x: 0.75 * edge[y // 2, x] + 0.25 * edge[y // 2 - 1 + 2 * (y % 2), x],
            name="doubled_down",
        )
        edge_down = te.repeat_edge(down)
        return te.compute(
            (h, w),
            lambda y, x: 0.75 * edge_down[y, x // 2] + 0.25 * edge_down[y, x // 2 - 1 + 2 * (x % 2)],
            name="doubled",
        )

    levels = [image]
    for i in range(len(peers.GAINS)):
        levels.append(halved(levels[-1], height >> (i + 1), width >> (i + 1)))
    details = []
    for i in range(len(peers.GAINS)):
        h, w = height >> i, width >> i
        up = doubled(levels[i + 1], h, w)
        details.append(te.compute((h, w), lambda y, x: levels[i][y, x] - up[y, x], name="detail"))  # noqa: B023
    found = levels[-1]
    for i, gain in reversed(list(enumerate(peers.GAINS))):
        h, w = height >> i, width >> i
        up = doubled(found, h, w)
        found = te.compute((h, w), lambda y, x: up[y, x] + gain * details[i][y, x], name="collapsed")  # noqa: B023
    return image, found


@program(
    peers.equalize_reference,
    inputs=peers.grey,
    atol=1,
    rtol=0,
    numba=loops.equalize_histogram,
    opencv=lambda cv2, image: lambda: cv2.equalizeHist(image),
)
def equalize_histogram(height: int = 1080, width: int = 1920) -> tuple[te.Tensor, ...]:
    """image[height, width] uint8 with its values spread so that each is about as frequent."""
    image = te.placeholder((height, width), "uint8", name="image")
    y, x = te.reduce_axis((0, height), "y"), te.reduce_axis((0, width), "x")
    counts = te.scatter_reduce((256,), lambda: (image[y, x], te.const(1, "int32")), axis=[y, x], name="counts")
    state = te.placeholder((256,), "int32", name="state")
    first = te.compute((1,), lambda _: counts[0], name="first")
    sums = te.scan(first, te.compute((256,), lambda t: state[t - 1] + counts[t], name="step"), state, name="sums")
    k = te.reduce_axis((0, 256), "k")
    least = te.compute((), lambda: te.min(sums[k], axis=k, where=counts[k] > 0), name="least")

    def spread(v: te.Expr) -> te.Expr:
        part = te.max(sums[v] - least(), 0).astype("float32") * 255.0
        return (part / te.max(height * width - least(), 1).astype("float32") + 0.5).astype("uint8")

    table = te.compute((256,), spread, name="table")
    return image, te.compute((height, width), lambda y, x: table[image[y, x]], name="equalized")


@program(peers.warp_reference, inputs=peers.turned, atol=0.1, numba=loops.affine_warp, opencv=peers.warp_opencv)
def affine_warp(height: int = 720, width: int = 1280) -> tuple[te.Tensor, ...]:
    """image[height, width] at matrix[2, 3] times (x, y, 1), interpolated between four pixels; borders repeated."""
    image, matrix = te.placeholder((height, width), name="image"), te.placeholder((2, 3), name="matrix")
    edge, shape = te.repeat_edge(image), (height, width)
    at_x, at_y = (
        te.compute(
            shape,
            lambda y, x, i=i: matrix[i, 0] * x.astype("float32") + matrix[i, 1] * y.astype("float32") + matrix[i, 2],
            name=name,
        )
        for i, name in enumerate(("at_x", "at_y"))
    )

    def interpolated(y: te.Expr, x: te.Expr) -> te.Expr:
        left, top = te.floor(at_x[y, x]), te.floor(at_y[y, x])
        u, v = at_x[y, x] - left, at_y[y, x] - top
        i, j = top.astype("int32"), left.astype("int32")
        upper = edge[i, j] * (1 - u) + edge[i, j + 1] * u
        lower = edge[i + 1, j] * (1 - u) + edge[i + 1, j + 1] * u
        return upper * (1 - v) + lower * v

    return image, matrix, te.compute(shape, interpolated, name="warped")


@program(peers.recursive_reference, inputs=peers.light, numba=loops.recursive_filter)
def recursive_filter(height: int = 1024, width: int = 1024) -> tuple[te.Tensor, ...]:
    """image[height, width] through out[t] = 0.7 * out[t - 1] + 0.3 * in[t], along its rows and then its columns."""
    image = te.placeholder((height, width), name="image")
    at = te.placeholder((width, height), name="at")
    left = te.compute((1, height), lambda _, y: image[y, 0], name="left")
    along = te.compute((width, height), lambda x, y: 0.7 * at[x - 1, y] + 0.3 * image[y, x], name="along")
    rows = te.scan(left, along, at, name="rows")
    above = te.placeholder((height, width), name="above")
    top = te.compute((1, width), lambda _, x: rows[x, 0], name="top")
    down = te.compute((height, width), lambda y, x: 0.7 * above[y - 1, x] + 0.3 * rows[x, y], name="down")
    return image, te.scan(top, down, above, name="columns")
