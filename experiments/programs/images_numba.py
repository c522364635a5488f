"""The image programs as loops by hand, for numba: fused, and vectorized along rows.

Each writes into its last arguments. Rows are read through slices of equal length, whose indices numba knows to be
positive; a row that several passes need is kept in a buffer.
"""
# mypy: disable-error-code="no-untyped-def, no-redef, arg-type"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import prange

try:
    from numba import njit
except ImportError:

    def njit(**options: object) -> Callable[[Any], Any]:
        return lambda fn: fn


#: numbers of float32: a Python literal would make everything float64
_F = np.float32
_QUARTER, _HALF, _TWO, _NINTH = _F(0.25), _F(0.5), _F(2), _F(1 / 9)
_BINOMIAL = (_F(1 / 16), _F(4 / 16), _F(6 / 16))
#: rows that a thread takes at once, where rows before are needed again
STRIP = 32


@njit(fastmath=True)
def exp(x):
    """exp of a float32 from -87 to 0, to 1e-6; loops over it are vectorized, unlike those over `np.exp`."""
    t = max(x, _F(-87)) * _F(1.4426950408889634)
    whole = np.floor(t)
    f = t - whole
    p = _F(1.8775767e-3) * f + _F(8.9893397e-3)
    p = p * f + _F(5.5826318e-2)
    p = p * f + _F(2.4015361e-1)
    p = p * f + _F(6.9315308e-1)
    p = p * f + _F(9.9999994e-1)
    return p * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)


def filter_3x3_rgb(image, kernel, out):
    h, w, c = image.shape
    n = w * c
    k0, k1, k2 = kernel[0, 0], kernel[0, 1], kernel[0, 2]
    k3, k4, k5 = kernel[1, 0], kernel[1, 1], kernel[1, 2]
    k6, k7, k8 = kernel[2, 0], kernel[2, 1], kernel[2, 2]
    for y in prange(h):
        rows = image[max(y - 1, 0)].reshape(n), image[y].reshape(n), image[min(y + 1, h - 1)].reshape(n)
        a0, a1, a2 = rows[0][: n - 6], rows[0][3 : n - 3], rows[0][6:]
        b0, b1, b2 = rows[1][: n - 6], rows[1][3 : n - 3], rows[1][6:]
        c0, c1, c2 = rows[2][: n - 6], rows[2][3 : n - 3], rows[2][6:]
        o = out[y].reshape(n)[3 : n - 3]
        for j in range(n - 6):
            first = k0 * a0[j] + k1 * a1[j] + k2 * a2[j]
            second = k3 * b0[j] + k4 * b1[j] + k5 * b2[j]
            o[j] = first + second + (k6 * c0[j] + k7 * c1[j] + k8 * c2[j])
        for x in (0, w - 1):
            for channel in range(c):
                total = _F(0)
                for dy in range(3):
                    for dx in range(3):
                        at = min(max(x + dx - 1, 0), w - 1)
                        total += kernel[dy, dx] * image[min(max(y + dy - 1, 0), h - 1), at, channel]
                out[y, x, channel] = total


def gaussian_5x5(image, out):
    h, w = image.shape
    k0, k1, k2 = _BINOMIAL
    for y in prange(h):
        a, b, c = image[max(y - 2, 0)], image[max(y - 1, 0)], image[y]
        d, e = image[min(y + 1, h - 1)], image[min(y + 2, h - 1)]
        down = np.empty(w + 4, np.float32)
        middle = down[2 : w + 2]
        for x in range(w):
            middle[x] = k0 * (a[x] + e[x]) + k1 * (b[x] + d[x]) + k2 * c[x]
        down[0] = down[1] = down[2]
        down[w + 2] = down[w + 3] = down[w + 1]
        p, q, s, t = down[:w], down[1 : w + 1], down[3 : w + 3], down[4:]
        o = out[y]
        for x in range(w):
            o[x] = k0 * (p[x] + t[x]) + k1 * (q[x] + s[x]) + k2 * middle[x]


def unsharp_mask(image, out):
    h, w, c = image.shape
    n = w * c
    k0, k1, k2 = _BINOMIAL
    amount, zero, most = _F(1.5), _F(0), _F(255)
    for y in prange(h):
        a, b, m = image[max(y - 2, 0)].reshape(n), image[max(y - 1, 0)].reshape(n), image[y].reshape(n)
        d, e = image[min(y + 1, h - 1)].reshape(n), image[min(y + 2, h - 1)].reshape(n)
        down = np.empty(n + 12, np.float32)
        middle = down[6 : n + 6]
        for j in range(n):
            middle[j] = k0 * (_F(a[j]) + _F(e[j])) + k1 * (_F(b[j]) + _F(d[j])) + k2 * _F(m[j])
        for j in range(6):
            down[j] = down[6 + j % 3]
            down[n + 6 + j] = down[n + 3 + j % 3]
        p, q, s, t = down[:n], down[3 : n + 3], down[9 : n + 9], down[12:]
        o = out[y].reshape(n)
        for j in range(n):
            blurred = k0 * (p[j] + t[j]) + k1 * (q[j] + s[j]) + k2 * middle[j]
            v = _F(m[j])
            o[j] = np.uint8(min(max(v + amount * (v - blurred) + _HALF, zero), most))


def rgb_to_grey(image, out):
    h, w, _ = image.shape
    for y in prange(h):
        pixels, o = image[y], out[y]
        for x in range(w):
            light = _F(0.299) * _F(pixels[x, 0]) + _F(0.587) * _F(pixels[x, 1]) + _F(0.114) * _F(pixels[x, 2])
            o[x] = np.uint8(light + _HALF)


def rgb_to_yuv(image, out):
    h, w, _ = image.shape
    zero, most, middle = _F(0), _F(255), _F(128.5)
    for y in prange(h):
        pixels, o = image[y], out[y]
        for x in range(w):
            r, g, b = _F(pixels[x, 0]), _F(pixels[x, 1]), _F(pixels[x, 2])
            light = _F(0.299) * r + _F(0.587) * g + _F(0.114) * b
            o[x, 0] = np.uint8(light + _HALF)
            o[x, 1] = np.uint8(min(max(_F(0.492) * (b - light) + middle, zero), most))
            o[x, 2] = np.uint8(min(max(_F(0.877) * (r - light) + middle, zero), most))


def sobel_magnitude(image, out):
    h, w = image.shape
    for y in prange(h):
        a, b, c = image[max(y - 1, 0)], image[y], image[min(y + 1, h - 1)]
        smooth, slope = np.empty(w + 2, np.float32), np.empty(w + 2, np.float32)
        inner, change = smooth[1 : w + 1], slope[1 : w + 1]
        for x in range(w):
            inner[x] = a[x] + _TWO * b[x] + c[x]
            change[x] = c[x] - a[x]
        smooth[0], smooth[w + 1], slope[0], slope[w + 1] = smooth[1], smooth[w], slope[1], slope[w]
        left, right, s0, s2 = smooth[:w], smooth[2:], slope[:w], slope[2:]
        o = out[y]
        for x in range(w):
            gx, gy = right[x] - left[x], s0[x] + _TWO * change[x] + s2[x]
            o[x] = np.sqrt(gx * gx + gy * gy)


def harris(image, out):
    h, w = image.shape
    scale = _F(1 / 12)
    for strip in prange((h + STRIP - 1) // STRIP):
        products = np.empty((3, 3, w), np.float32)  # row modulo 3, which product
        smooth, slope = np.empty(w + 2, np.float32), np.empty(w + 2, np.float32)
        sums = np.empty((3, w + 2), np.float32)
        top, end = strip * STRIP, min(strip * STRIP + STRIP, h)
        for row in range(top - 1, end + 1):
            y = min(max(row, 0), h - 1)
            a, b, c = image[max(y - 1, 0)], image[y], image[min(y + 1, h - 1)]
            inner, change = smooth[1 : w + 1], slope[1 : w + 1]
            for x in range(w):
                inner[x] = a[x] + _TWO * b[x] + c[x]
                change[x] = c[x] - a[x]
            smooth[0], smooth[w + 1], slope[0], slope[w + 1] = smooth[1], smooth[w], slope[1], slope[w]
            left, right, s0, s2 = smooth[:w], smooth[2:], slope[:w], slope[2:]
            xx, xy, yy = products[(row + 3) % 3, 0], products[(row + 3) % 3, 1], products[(row + 3) % 3, 2]
            for x in range(w):
                gx = scale * (right[x] - left[x])
                gy = scale * (s0[x] + _TWO * change[x] + s2[x])
                xx[x], xy[x], yy[x] = gx * gx, gx * gy, gy * gy
            if row <= top:
                continue
            for which in range(3):
                p, q, r = products[0, which], products[1, which], products[2, which]
                total = sums[which, 1 : w + 1]
                for x in range(w):
                    total[x] = p[x] + q[x] + r[x]
                sums[which, 0], sums[which, w + 1] = sums[which, 1], sums[which, w]
            a0, a1, a2 = sums[0, :w], sums[0, 1 : w + 1], sums[0, 2:]
            b0, b1, b2 = sums[1, :w], sums[1, 1 : w + 1], sums[1, 2:]
            c0, c1, c2 = sums[2, :w], sums[2, 1 : w + 1], sums[2, 2:]
            o = out[row - 1]
            for x in range(w):
                sxx, sxy, syy = a0[x] + a1[x] + a2[x], b0[x] + b1[x] + b2[x], c0[x] + c1[x] + c2[x]
                o[x] = sxx * syy - sxy * sxy - _F(0.04) * (sxx + syy) * (sxx + syy)


@njit(parallel=True, fastmath=True)
def _halved(image):
    h, w = image.shape
    out = np.empty((h // 2, w // 2), np.float32)
    k0, k1, k2 = _BINOMIAL
    for y in prange(h // 2):
        a, b, c = image[max(2 * y - 2, 0)], image[max(2 * y - 1, 0)], image[2 * y]
        d, e = image[2 * y + 1], image[min(2 * y + 2, h - 1)]
        down = np.empty(w + 4, np.float32)
        middle = down[2 : w + 2]
        for x in range(w):
            middle[x] = k0 * (a[x] + e[x]) + k1 * (b[x] + d[x]) + k2 * c[x]
        down[0] = down[1] = down[2]
        down[w + 2] = down[w + 3] = down[w + 1]
        even, odd, o = down[0::2], down[1::2], out[y]
        e0, e1, e2, o0, o1 = even[: w // 2], even[1:], even[2:], odd[: w // 2], odd[1:]
        for x in range(w // 2):
            o[x] = k0 * (e0[x] + e2[x]) + k1 * (o0[x] + o1[x]) + k2 * e1[x]
    return out


@njit(parallel=True, fastmath=True)
def _detailed(fine, coarse, lower, gain, out):
    """out = (fine - coarse scaled up) * gain + lower scaled up."""
    h, w = fine.shape
    for y in prange(h):
        near = y // 2
        far = min(max(near - 1 + 2 * (y % 2), 0), h // 2 - 1)
        p, q, r, s = coarse[near], coarse[far], lower[near], lower[far]
        n = w // 2
        line = np.empty(n + 2, np.float32)
        middle = line[1 : n + 1]
        for x in range(n):
            middle[x] = _F(0.75) * (r[x] - gain * p[x]) + _QUARTER * (s[x] - gain * q[x])
        line[0], line[n + 1] = line[1], line[n]
        left, right, f, o = line[:n], line[2:], fine[y], out[y]
        for x in range(n):
            o[2 * x] = gain * f[2 * x] + _F(0.75) * middle[x] + _QUARTER * left[x]
            o[2 * x + 1] = gain * f[2 * x + 1] + _F(0.75) * middle[x] + _QUARTER * right[x]


def laplacian_pyramid(image, out):
    first = _halved(image)
    second = _halved(first)
    third = _halved(second)
    low = np.empty_like(second)
    _detailed(second, third, third, _F(1.2), low)
    middle = np.empty_like(first)
    _detailed(first, second, low, _F(1.5), middle)
    _detailed(image, first, middle, _F(2), out)


def non_local_means(image, out):
    h, w = image.shape
    wide = np.empty((h + 8, w + 8), np.float32)
    for y in prange(h + 8):
        row = image[min(max(y - 4, 0), h - 1)]
        for x in range(w + 8):
            wide[y, x] = row[min(max(x - 4, 0), w - 1)]
    for y in prange(h):
        total, weights = np.zeros(w, np.float32), np.zeros(w, np.float32)
        column = np.empty(w + 2, np.float32)
        for sy in range(7):
            for sx in range(7):
                a, b, c = wide[y + 3, 3 : w + 5], wide[y + 4, 3 : w + 5], wide[y + 5, 3 : w + 5]
                end = sx + w + 2
                d, e, f = wide[y + sy, sx:end], wide[y + sy + 1, sx:end], wide[y + sy + 2, sx:end]
                for x in range(w + 2):
                    p, q, r = a[x] - d[x], b[x] - e[x], c[x] - f[x]
                    column[x] = p * p + q * q + r * r
                c0, c1, c2 = column[:w], column[1:], column[2:]
                there = e[1:]
                for x in range(w):
                    weight = exp((c0[x] + c1[x] + c2[x]) * _F(-1 / 900))
                    total[x] += weight * there[x]
                    weights[x] += weight
        o = out[y]
        for x in range(w):
            o[x] = total[x] / weights[x]


def bilateral_5x5(image, out):
    h, w = image.shape
    for y in prange(h):
        wide = np.empty((5, w + 4), np.float32)
        for dy in range(5):
            row = image[min(max(y + dy - 2, 0), h - 1)]
            for x in range(w + 4):
                wide[dy, x] = row[min(max(x - 2, 0), w - 1)]
        total, weights = np.zeros(w, np.float32), np.zeros(w, np.float32)
        centre = image[y]
        for dy in range(5):
            for dx in range(5):
                there = wide[dy, dx : dx + w]
                far = _F((dy - 2) ** 2 + (dx - 2) ** 2) * _F(-1 / 8)
                for x in range(w):
                    change = there[x] - centre[x]
                    weight = exp(change * change * _F(-1 / 1800) + far)
                    total[x] += weight * there[x]
                    weights[x] += weight
        o = out[y]
        for x in range(w):
            o[x] = total[x] / weights[x]


def equalize_histogram(image, out):
    h, w = image.shape
    parts = 4
    counts = np.zeros((parts, 4, 256), np.int32)
    for part in prange(parts):
        mine = counts[part]
        for y in range(h * part // parts, h * (part + 1) // parts):
            row = image[y]
            for x in range(0, w - 3, 4):  # four tables: neighbours are alike, and would wait for each other
                mine[0, row[x]] += 1
                mine[1, row[x + 1]] += 1
                mine[2, row[x + 2]] += 1
                mine[3, row[x + 3]] += 1
            for x in range(w - w % 4, w):
                mine[0, row[x]] += 1
    table = np.empty(256, np.uint8)
    below, least = 0, -1
    for value in range(256):
        for part in range(parts):
            for k in range(4):
                below += counts[part, k, value]
        if least < 0 and below > 0:
            least = below
        table[value] = np.uint8(min(max(below - least, 0) * _F(255) / _F(max(h * w - least, 1)) + _HALF, _F(255)))
    for y in prange(h):
        row, o = image[y], out[y]
        for x in range(w):
            o[x] = table[row[x]]


def affine_warp(image, matrix, out):
    h, w = image.shape
    for y in prange(h):
        o = out[y]
        for x in range(w):
            px = matrix[0, 0] * _F(x) + matrix[0, 1] * _F(y) + matrix[0, 2]
            py = matrix[1, 0] * _F(x) + matrix[1, 1] * _F(y) + matrix[1, 2]
            fx, fy = np.floor(px), np.floor(py)
            i, j = np.int32(fy), np.int32(fx)
            x0, y0 = np.uint32(min(max(j, 0), w - 1)), np.uint32(min(max(i, 0), h - 1))
            x1, y1 = np.uint32(min(max(j + 1, 0), w - 1)), np.uint32(min(max(i + 1, 0), h - 1))
            ax, ay = px - fx, py - fy
            upper = image[y0, x0] + ax * (image[y0, x1] - image[y0, x0])
            lower = image[y1, x0] + ax * (image[y1, x1] - image[y1, x0])
            o[x] = upper + ay * (lower - upper)


def recursive_filter(image, out):
    h, w = image.shape
    fresh, old = _F(0.3), _F(0.7)
    for group in prange(h // 8):  # eight rows at once: a row by itself waits for its sums
        rows, o = image[group * 8 : group * 8 + 8], out[group * 8 : group * 8 + 8]
        a, b, c, d = rows[0, 0], rows[1, 0], rows[2, 0], rows[3, 0]
        e, f, g, k = rows[4, 0], rows[5, 0], rows[6, 0], rows[7, 0]
        for x in range(w):
            a, b = old * a + fresh * rows[0, x], old * b + fresh * rows[1, x]
            c, d = old * c + fresh * rows[2, x], old * d + fresh * rows[3, x]
            e, f = old * e + fresh * rows[4, x], old * f + fresh * rows[5, x]
            g, k = old * g + fresh * rows[6, x], old * k + fresh * rows[7, x]
            o[0, x], o[1, x], o[2, x], o[3, x], o[4, x], o[5, x], o[6, x], o[7, x] = a, b, c, d, e, f, g, k
    for y in prange(h - h % 8, h):
        a = image[y, 0]
        for x in range(w):
            a = old * a + fresh * image[y, x]
            out[y, x] = a
    width = 256
    for block in prange((w + width - 1) // width):
        begin, end = block * width, min(block * width + width, w)
        for y in range(1, h):
            above, here = out[y - 1, begin:end], out[y, begin:end]
            for x in range(end - begin):
                here[x] = old * above[x] + fresh * here[x]


@njit(parallel=True, fastmath=True)
def _box_step(image, out):
    h, w = image.shape
    for y in prange(h):
        a, b, c = image[max(y - 1, 0)], image[y], image[min(y + 1, h - 1)]
        down = np.empty(w + 2, np.float32)
        middle = down[1 : w + 1]
        for x in range(w):
            middle[x] = a[x] + b[x] + c[x]
        down[0], down[w + 1] = down[1], down[w]
        left, right, o = down[:w], down[2:], out[y]
        for x in range(w):
            o[x] = (left[x] + middle[x] + right[x]) * (_NINTH * _F(0.1)) + _F(0.05)


def box_chain(image, out):
    other = np.empty_like(image)
    _box_step(image, other)
    _box_step(other, out)
    _box_step(out, other)
    _box_step(other, out)
    _box_step(out, other)
    _box_step(other, out)


def median_3x3(image, out):
    h, w = image.shape
    for y in prange(h):
        a, b, c = image[max(y - 1, 0)], image[y], image[min(y + 1, h - 1)]
        sort = np.empty((3, w + 2), np.uint8)
        low, mid, high = sort[0, 1 : w + 1], sort[1, 1 : w + 1], sort[2, 1 : w + 1]
        for x in range(w):
            p, q = min(a[x], b[x]), max(a[x], b[x])
            low[x], high[x], mid[x] = min(p, c[x]), max(q, c[x]), max(p, min(q, c[x]))
        for i in range(3):
            sort[i, 0], sort[i, w + 1] = sort[i, 1], sort[i, w]
        l0, l2, m0, m2, h0, h2 = sort[0, :w], sort[0, 2:], sort[1, :w], sort[1, 2:], sort[2, :w], sort[2, 2:]
        o = out[y]
        for x in range(w):
            p = max(l0[x], low[x], l2[x])
            q = max(min(m0[x], mid[x]), min(max(m0[x], mid[x]), m2[x]))
            r = min(h0[x], high[x], h2[x])
            o[x] = max(min(p, q), min(max(p, q), r))


@njit(fastmath=True)
def _coloured(r, g, b, matrix, curve, pixel):
    for c in range(3):
        v = np.int32(matrix[c, 0] * r + matrix[c, 1] * g + matrix[c, 2] * b) >> 8
        pixel[c] = curve[min(max(v, 0), 1023)]


@njit(fastmath=True)
def _demosaic_row(clean, y, w, matrix, curve, line):
    """Row y of the image in colours after the curve, into line[w, 3]; clean[.., w + 4] starts at row -2, column -2."""
    up, here, down = clean[y + 1], clean[y + 2], clean[y + 3]
    for x in range(0, w, 2):
        i, j = x + 2, x + 3
        side, tall = (here[i - 1] + here[i + 1] + 1) >> 1, (up[i] + down[i] + 1) >> 1
        corner = (up[i - 1] + up[i + 1] + down[i - 1] + down[i + 1] + 2) >> 2
        cross = (here[i - 1] + here[i + 1] + up[i] + down[i] + 2) >> 2
        side2, tall2 = (here[j - 1] + here[j + 1] + 1) >> 1, (up[j] + down[j] + 1) >> 1
        corner2 = (up[j - 1] + up[j + 1] + down[j - 1] + down[j + 1] + 2) >> 2
        cross2 = (here[j - 1] + here[j + 1] + up[j] + down[j] + 2) >> 2
        if y % 2 == 0:
            _coloured(side, here[i], tall, matrix, curve, line[x])
            _coloured(here[j], cross2, corner2, matrix, curve, line[x + 1])
        else:
            _coloured(corner, cross, here[i], matrix, curve, line[x])
            _coloured(tall2, here[j], side2, matrix, curve, line[x + 1])


def camera_pipe(raw, gains, matrix, out):
    h, w = raw.shape
    curve = np.empty(1024, np.uint8)
    for i in range(1024):
        curve[i] = np.uint8(255 * (i / 1023) ** (1 / 2.2) + 0.5)
    for strip in prange((h + STRIP - 1) // STRIP):
        top, end = strip * STRIP, min(strip * STRIP + STRIP, h)
        size = end - top
        clean = np.empty((size + 4, w + 4), np.int32)  # rows top - 2 and on: a Bayer border mirrors about its pixel
        wide = np.empty(w + 4, np.uint16)
        for row in range(size + 4):
            y = top - 2 + row
            y = -y if y < 0 else (2 * (h - 1) - y if y >= h else y)
            near, up, down = raw[y], raw[abs(y - 2)], raw[y + 2 if y + 2 < h else 2 * (h - 1) - y - 2]
            wide[2 : w + 2] = near
            wide[1], wide[0], wide[w + 2], wide[w + 3] = near[1], near[2], near[w - 2], near[w - 3]
            left, right, line = wide[:w], wide[4:], clean[row, 2 : w + 2]
            even, odd = (gains[1], gains[0]) if y % 2 == 0 else (gains[2], gains[1])
            for x in range(w):
                low = min(min(left[x], right[x]), min(up[x], down[x]))
                high = max(max(left[x], right[x]), max(up[x], down[x]))
                light = max(np.int32(min(max(near[x], low), high)) - 64, 0)
                line[x] = np.int32(light * (odd if x % 2 else even)) >> 8
            clean[row, 1], clean[row, 0] = clean[row, 3], clean[row, 4]
            clean[row, w + 2], clean[row, w + 3] = clean[row, w], clean[row, w - 1]
        n = 3 * w
        colours = np.empty((size + 2, w, 3), np.uint8)
        for row in range(size + 2):
            y = min(max(top - 1 + row, 0), h - 1)
            _demosaic_row(clean, y - top, w, matrix, curve, colours[row])  # `top` is even, so rows keep their colours
        sums = np.empty(n + 6, np.int32)
        for row in range(size):
            a, b, c = colours[row].reshape(n), colours[row + 1].reshape(n), colours[row + 2].reshape(n)
            middle = sums[3 : n + 3]
            for j in range(n):
                middle[j] = np.int32(a[j] + 2 * b[j] + c[j])
            for j in range(3):
                sums[j], sums[n + 3 + j] = sums[3 + j], sums[n + j]
            before, after, o = sums[:n], sums[6:], out[top + row].reshape(n)
            for j in range(n):
                blurred = np.int32(before[j] + 2 * middle[j] + after[j] + 8) >> np.int32(4)
                v = np.int32(b[j])
                o[j] = np.uint8(min(max(v + ((v - blurred) >> np.int32(1)), 0), 255))
