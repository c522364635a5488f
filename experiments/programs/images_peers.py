"""What the image programs are checked against and timed against: inputs, references in NumPy and SciPy, OpenCV."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched.space.samples import photograph as china

from . import Run

Array = np.ndarray
BINOMIAL = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
#: of the details of a pyramid, the finest first
GAINS = (2.0, 1.5, 1.2)


def filters() -> Any:
    """SciPy's."""
    import scipy.ndimage

    return scipy.ndimage


def photograph(height: int, width: int) -> Array:
    """uint8 [height, width, 3]: the photograph, scaled."""
    import cv2

    return cv2.resize(china(), (width, height), interpolation=cv2.INTER_CUBIC)


def colour(height: int, width: int) -> Sequence[Array]:
    return [photograph(height, width)]


def grey(height: int, width: int) -> Sequence[Array]:
    return [photograph(height, width)[:, :, 1].copy()]


def light(height: int, width: int) -> Sequence[Array]:
    """float32, 0 to 255."""
    return [photograph(height, width)[:, :, 1].astype("float32")]


def separable(image: Array, taps: Sequence[float]) -> Array:
    """Filtered along both axes, in float64, borders repeated."""
    ndimage = filters()
    down = ndimage.correlate1d(image.astype("float64"), taps, axis=0, mode="nearest")
    return np.asarray(ndimage.correlate1d(down, taps, axis=1, mode="nearest"))


def filter_reference(image: Array, kernel: Array) -> Array:
    return np.asarray(filters().correlate(image, kernel[:, :, None], mode="nearest"))


def filter_opencv(cv2: Any, image: Array, kernel: Array) -> Run:
    return lambda: cv2.filter2D(image, -1, kernel, borderType=cv2.BORDER_REPLICATE)


def gaussian_opencv(cv2: Any, image: Array) -> Run:
    taps = np.array(BINOMIAL, "float32")
    return lambda: cv2.sepFilter2D(image, -1, taps, taps, borderType=cv2.BORDER_REPLICATE)


def unsharp_reference(image: Array) -> Array:
    blurred = np.stack([separable(image[:, :, c], BINOMIAL) for c in range(3)], axis=2)
    return np.clip(image + 1.5 * (image - blurred) + 0.5, 0, 255).astype("uint8")


def unsharp_opencv(cv2: Any, image: Array) -> Run:
    taps = np.array(BINOMIAL, "float32")

    def sharpen() -> Array:
        blurred = cv2.sepFilter2D(image, cv2.CV_32F, taps, taps, borderType=cv2.BORDER_REPLICATE)
        return cv2.addWeighted(image, 2.5, blurred, -1.5, 0, dtype=cv2.CV_8U)

    return sharpen


def sobel_reference(image: Array) -> Array:
    ndimage, wide = filters(), image.astype("float64")
    return np.hypot(ndimage.sobel(wide, axis=0, mode="nearest"), ndimage.sobel(wide, axis=1, mode="nearest"))


def sobel_opencv(cv2: Any, image: Array) -> Run:
    def magnitude() -> Array:
        gx, gy = (cv2.Sobel(image, cv2.CV_32F, *d, borderType=cv2.BORDER_REPLICATE) for d in ((1, 0), (0, 1)))
        return cv2.magnitude(gx, gy)

    return magnitude


def unit_light(height: int, width: int) -> Sequence[Array]:
    return [photograph(height, width)[:, :, 1].astype("float32") / 255]


def harris_reference(image: Array) -> Array:
    ndimage, wide = filters(), image.astype("float64") / 12
    gy, gx = (ndimage.sobel(wide, axis=a, mode="nearest") for a in (0, 1))
    xx, xy, yy = (9 * ndimage.uniform_filter(p, 3, mode="nearest") for p in (gx * gx, gx * gy, gy * gy))
    return np.asarray(xx * yy - xy * xy - 0.04 * (xx + yy) ** 2)


def harris_opencv(cv2: Any, image: Array) -> Run:
    return lambda: cv2.cornerHarris(image, 3, 3, 0.04, borderType=cv2.BORDER_REPLICATE)


def chain_reference(image: Array) -> Array:
    found = image.astype("float64")
    for _ in range(6):
        found = filters().uniform_filter(found, 3, mode="nearest") * 0.1 + 0.05
    return found


def chain_opencv(cv2: Any, image: Array) -> Run:
    taps = np.full(3, 0.1**0.5 / 3, "float32")

    def chain() -> Array:
        found = image
        for _ in range(6):
            found = cv2.sepFilter2D(found, -1, taps, taps, delta=0.05, borderType=cv2.BORDER_REPLICATE)
        return found

    return chain


def median_reference(image: Array) -> Array:
    return np.asarray(filters().median_filter(image, 3, mode="nearest"))


def nlm_reference(image: Array) -> Array:
    h, w = image.shape
    wide = np.pad(image, 4, mode="edge").astype("float64")
    total, weights = np.zeros((h, w)), np.zeros((h, w))
    for sy in range(7):
        for sx in range(7):
            square = (wide[3 : h + 5, 3 : w + 5] - wide[sy : sy + h + 2, sx : sx + w + 2]) ** 2
            rows = square[:-2] + square[1:-1] + square[2:]
            weight = np.exp(-(rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 900)
            total += weight * wide[sy + 1 : sy + 1 + h, sx + 1 : sx + 1 + w]
            weights += weight
    return np.asarray(total / weights)


def bilateral_reference(image: Array) -> Array:
    h, w = image.shape
    wide = np.pad(image, 2, mode="edge").astype("float64")
    total, weights = np.zeros((h, w)), np.zeros((h, w))
    for dy in range(5):
        for dx in range(5):
            there = wide[dy : dy + h, dx : dx + w]
            far = ((dy - 2) ** 2 + (dx - 2) ** 2) / 8
            weight = np.exp(-((there - image) ** 2) / 1800 - far)
            total += weight * there
            weights += weight
    return np.asarray(total / weights)


def grey_reference(image: Array) -> Array:
    return (image.astype("float64") @ [0.299, 0.587, 0.114] + 0.5).astype("uint8")


def yuv_reference(image: Array) -> Array:
    r, _, b = np.moveaxis(image.astype("float64"), 2, 0)
    light = image @ np.array([0.299, 0.587, 0.114])
    return np.clip(np.stack([light, 0.492 * (b - light) + 128, 0.877 * (r - light) + 128], 2) + 0.5, 0, 255).astype(
        "u1"
    )


def mosaic(height: int, width: int) -> Sequence[Array]:
    """A raw image of 10 bits with a few hot pixels, gains of the colours and a colour matrix, both times 256."""
    picture = photograph(height, width).astype("float64") / 255
    linear = np.stack([picture[:, :, 1], picture[:, :, 0], picture[:, :, 2], picture[:, :, 1]])
    raw = np.empty((height, width), "uint16")
    for i in range(4):
        raw[i // 2 :: 2, i % 2 :: 2] = (linear[i][i // 2 :: 2, i % 2 :: 2] ** 2.2 * 500 + 64).astype("uint16")
    draw = np.random.default_rng(0)
    raw[draw.integers(0, height, 100), draw.integers(0, width, 100)] = 1023
    gains = np.array([480, 256, 420], "int32")
    matrix = np.array([[430, -130, -44], [-60, 390, -74], [-10, -120, 386]], "int32")
    return [raw, gains, matrix]


def camera_reference(raw: Array, gains: Array, matrix: Array) -> Array:
    h, w = raw.shape
    wide = np.pad(raw.astype("int32"), 2, mode="reflect")
    around = [wide[a : a + h, b : b + w] for a, b in ((0, 2), (4, 2), (2, 0), (2, 4))]
    steady = np.clip(raw, np.minimum.reduce(around), np.maximum.reduce(around))
    gain = np.array([[gains[1], gains[0]], [gains[2], gains[1]]])
    clean = np.maximum(steady - 64, 0) * np.tile(gain, (h // 2, w // 2)) >> 8
    p = np.pad(clean, 1, mode="reflect")
    left, right, up, down = p[1:-1, :-2], p[1:-1, 2:], p[:-2, 1:-1], p[2:, 1:-1]
    side, tall, cross = left + right + 1 >> 1, up + down + 1 >> 1, left + right + up + down + 2 >> 2
    corner = p[:-2, :-2] + p[:-2, 2:] + p[2:, :-2] + p[2:, 2:] + 2 >> 2
    rgb = np.empty((h, w, 3), "int32")
    planes = {(0, 0): (side, clean, tall), (0, 1): (clean, cross, corner)}
    planes |= {(1, 0): (corner, cross, clean), (1, 1): (tall, clean, side)}
    for (a, b), colours in planes.items():
        for c in range(3):
            rgb[a::2, b::2, c] = colours[c][a::2, b::2]
    curve = (255 * (np.arange(1024) / 1023) ** (1 / 2.2) + 0.5).astype("uint8")
    curved = curve[np.clip(rgb @ matrix.T >> 8, 0, 1023)].astype("int32")
    q = np.pad(curved, ((1, 1), (1, 1), (0, 0)), mode="edge")
    rows = q[:-2] + 2 * q[1:-1] + q[2:]
    blurred = rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:] + 8 >> 4
    return np.clip(curved + (curved - blurred >> 1), 0, 255).astype("uint8")


def halved(image: Array) -> Array:
    return separable(image, BINOMIAL)[::2, ::2]


def doubled(image: Array) -> Array:
    p = np.pad(image, 1, mode="edge")
    rows = np.empty((2 * image.shape[0], p.shape[1]))
    rows[0::2], rows[1::2] = 0.75 * p[1:-1] + 0.25 * p[:-2], 0.75 * p[1:-1] + 0.25 * p[2:]
    out = np.empty((2 * image.shape[0], 2 * image.shape[1]))
    out[:, 0::2], out[:, 1::2] = (
        0.75 * rows[:, 1:-1] + 0.25 * rows[:, :-2],
        0.75 * rows[:, 1:-1] + 0.25 * rows[:, 2:],
    )
    return out


def pyramid(image: Array, halved: Callable[[Array], Array], doubled: Callable[[Array], Array]) -> Array:
    levels = [image]
    for _ in GAINS:
        levels.append(halved(levels[-1]))
    found = levels[-1]
    for i, gain in reversed(list(enumerate(GAINS))):
        found = doubled(found - gain * levels[i + 1]) + gain * levels[i]
    return found


def pyramid_opencv(cv2: Any, image: Array) -> Run:
    def doubled(image: Array) -> Array:
        return cv2.resize(image, None, fx=2, fy=2, interpolation=cv2.INTER_LINEAR)

    halved = functools.partial(cv2.pyrDown, borderType=cv2.BORDER_REPLICATE)
    return lambda: pyramid(image, halved, doubled)


def equalize_reference(image: Array) -> Array:
    counts = np.bincount(image.ravel(), minlength=256)
    sums = np.cumsum(counts)
    least = sums[np.nonzero(counts)[0][0]]
    return (np.maximum(sums - least, 0) * 255.0 / (image.size - least) + 0.5).astype("uint8")[image]


def turned(height: int, width: int) -> Sequence[Array]:
    """Light, and the map from the result's (x, y) to the image's: 10 degrees about the centre, 0.9 in size."""
    a, c, s = 0.9, np.cos(np.radians(10)), np.sin(np.radians(10))
    turn = np.array([[c, -s], [s, c]]) / a
    centre = np.array([width / 2, height / 2])
    return [*light(height, width), np.column_stack([turn, centre - turn @ centre]).astype("float32")]


def warp_reference(image: Array, matrix: Array) -> Array:
    swapped = matrix[::-1].astype("float64")  # (row, column)
    return np.asarray(
        filters().affine_transform(image, swapped[:, 1::-1], swapped[:, 2], order=1, mode="nearest"), "float64"
    )


def warp_opencv(cv2: Any, image: Array, matrix: Array) -> Run:
    size = image.shape[::-1]
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return lambda: cv2.warpAffine(image, matrix, size, flags=flags, borderMode=cv2.BORDER_REPLICATE)


def recursive_reference(image: Array) -> Array:
    found = image.astype("float64")
    for axis in (1, 0):
        found = np.moveaxis(found, axis, 0).copy()
        for t in range(1, len(found)):
            found[t] = 0.7 * found[t - 1] + 0.3 * found[t]
        found = np.moveaxis(found, 0, axis)
    return found
