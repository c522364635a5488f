"""Signal processing: transforms, filters with and without memory, sums over windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched import te, topi

from . import Run, prange, program

Array = np.ndarray
_F = np.float32


def _scipy_signal() -> Any:
    import scipy.signal

    return scipy.signal


def _noise(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


# -- Fourier ---------------------------------------------------------------------------------------


def _fft_reference(real: Array, imag: Array) -> tuple[Array, Array]:
    found = np.fft.fft(real.astype("float64") + 1j * imag, axis=1)
    return found.real, found.imag


def _fft_numba(real, imag, out_real, out_imag):  # type: ignore[no-untyped-def]
    batch, n = real.shape
    cosine, sine = np.empty(n, np.float32), np.empty(n, np.float32)  # those of half begin at half
    half = 1
    while half < n:
        for k in range(half):
            cosine[half + k], sine[half + k] = np.cos(np.pi * k / half), -np.sin(np.pi * k / half)
        half *= 2
    mirrored = np.zeros(n, np.int64)
    for i in range(1, n):
        mirrored[i] = mirrored[i // 2] // 2 + (i % 2) * (n // 2)
    for b in prange(batch):
        re, im = out_real[b], out_imag[b]
        for i in range(n):
            re[i], im[i] = real[b, mirrored[i]], imag[b, mirrored[i]]
        for i in range(0, n, 4):  # the first two stages, without products
            r0, r1, r2, r3 = re[i] + re[i + 1], re[i] - re[i + 1], re[i + 2] + re[i + 3], re[i + 2] - re[i + 3]
            i0, i1, i2, i3 = im[i] + im[i + 1], im[i] - im[i + 1], im[i + 2] + im[i + 3], im[i + 2] - im[i + 3]
            re[i], re[i + 1], re[i + 2], re[i + 3] = r0 + r2, r1 + i3, r0 - r2, r1 - i3
            im[i], im[i + 1], im[i + 2], im[i + 3] = i0 + i2, i1 - r3, i0 - i2, i1 + r3
        step = 4
        while step < n:
            c, s = cosine[step : 2 * step], sine[step : 2 * step]
            for start in range(0, n, 2 * step):
                r0, r1 = re[start : start + step], re[start + step : start + 2 * step]
                i0, i1 = im[start : start + step], im[start + step : start + 2 * step]
                for k in range(step):
                    tr, ti = c[k] * r1[k] - s[k] * i1[k], c[k] * i1[k] + s[k] * r1[k]
                    ur, ui = r0[k], i0[k]
                    r0[k], i0[k], r1[k], i1[k] = ur + tr, ui + ti, ur - tr, ui - ti
            step *= 2


def _fft_torch(torch: Any, functional: Any, real: Any, imag: Any) -> Run:
    both = torch.complex(real, imag)

    def transform() -> tuple[Any, Any]:
        found = torch.fft.fft(both)
        return found.real, found.imag

    return transform


@program(
    _fft_reference,
    inputs=lambda batch, stages: [_noise(batch, 1 << stages), _noise(batch, 1 << stages, seed=1)],
    atol=1e-3,
    numba=_fft_numba,
    torch=_fft_torch,
)
def fft(batch: int = 256, stages: int = 10) -> tuple[te.Tensor, ...]:
    """The Fourier transforms of the rows of real + i imag, [batch, 2**stages], by radix 2: real and imaginary parts."""
    n = 1 << stages
    real, imag = te.placeholder((batch, n), name="real"), te.placeholder((batch, n), name="imag")
    cosine = te.compute((n // 2,), lambda k: te.cos(k.astype("float32") * (-2 * np.pi / n)), name="cosine")
    sine = te.compute((n // 2,), lambda k: te.sin(k.astype("float32") * (-2 * np.pi / n)), name="sine")

    def mirrored(i: te.Expr) -> te.Expr:
        """The index whose bits are those of i, backwards."""
        return sum(((i >> bit) & 1) << (stages - 1 - bit) for bit in range(stages))  # type: ignore[return-value]

    re = te.compute((batch, n), lambda b, i: real[b, mirrored(i)], name="re")
    im = te.compute((batch, n), lambda b, i: imag[b, mirrored(i)], name="im")

    def stage(re: te.Tensor, im: te.Tensor, half: int) -> tuple[te.Tensor, te.Tensor]:
        def butterfly(b: te.Expr, i: te.Expr) -> tuple[te.Expr, te.Expr]:
            k = i % half
            even = i - i % (2 * half) + k
            odd = even + half
            c, s = cosine[k * (n // 2 // half)], sine[k * (n // 2 // half)]
            tr, ti = c * re[b, odd] - s * im[b, odd], c * im[b, odd] + s * re[b, odd]
            first = i % (2 * half) < half
            return (
                te.select(first, re[b, even] + tr, re[b, even] - tr),
                te.select(first, im[b, even] + ti, im[b, even] - ti),
            )

        both = te.compute((batch, n), butterfly, name=f"stage{half}")
        return both[0], both[1]

    for s in range(stages):
        re, im = stage(re, im, 1 << s)
    return real, imag, re, im


# -- sums ------------------------------------------------------------------------------------------


def _prefix_numba(x, out):  # type: ignore[no-untyped-def]
    rows, n = x.shape
    for group in prange(rows // 4):  # four rows at once: a row by itself waits for its sums
        a, b, c, d = _F(0), _F(0), _F(0), _F(0)
        row, o = x[4 * group : 4 * group + 4], out[4 * group : 4 * group + 4]
        for i in range(n):
            a += row[0, i]
            b += row[1, i]
            c += row[2, i]
            d += row[3, i]
            o[0, i], o[1, i], o[2, i], o[3, i] = a, b, c, d
    for r in prange(rows - rows % 4, rows):
        a = _F(0)
        for i in range(n):
            a += x[r, i]
            out[r, i] = a


@program(
    lambda x: np.cumsum(x, axis=1, dtype="float64"),
    numba=_prefix_numba,
    torch=lambda torch, functional, x: lambda: torch.cumsum(x, 1),
)
def prefix_sums(rows: int = 1024, columns: int = 2048) -> tuple[te.Tensor, ...]:
    """x[rows, columns] -> the sums of each row's first elements."""
    x = te.placeholder((rows, columns), name="x")
    return x, topi.cumsum(x, axis=1)


def _fir_numba(signal, taps, out):  # type: ignore[no-untyped-def]
    n, count, block = out.size, taps.size, 2048
    for b in prange((n + block - 1) // block):
        begin, end = b * block, min(b * block + block, n)
        size = end - begin
        o = out[begin:end]
        o[:] = _F(0)
        for k in range(0, count, 8):  # eight taps in one pass over what is in the first cache
            t0, t1, t2, t3 = taps[k], taps[k + 1], taps[k + 2], taps[k + 3]
            t4, t5, t6, t7 = taps[k + 4], taps[k + 5], taps[k + 6], taps[k + 7]
            s = signal[begin + k : begin + k + size + 7]
            s1, s2, s3, s4, s5, s6, s7 = s[1:], s[2:], s[3:], s[4:], s[5:], s[6:], s[7:]
            for i in range(size):
                first = t0 * s[i] + t1 * s1[i] + t2 * s2[i] + t3 * s3[i]
                o[i] += first + (t4 * s4[i] + t5 * s5[i] + t6 * s6[i] + t7 * s7[i])


def _fir_torch(torch: Any, functional: Any, signal: Any, taps: Any) -> Run:
    return lambda: functional.conv1d(signal[None, None], taps[None, None])[0, 0]


@program(
    lambda signal, taps: np.correlate(signal.astype("float64"), taps.astype("float64"), "valid"),
    inputs=lambda n, taps: [_noise(n + taps - 1), _noise(taps, seed=1) / taps],
    numba=_fir_numba,
    torch=_fir_torch,
)
def fir(n: int = 1 << 20, taps: int = 64) -> tuple[te.Tensor, ...]:
    """signal[n + taps - 1] weighted with weights[taps] at n places."""
    signal, weights = te.placeholder((n + taps - 1,), name="signal"), te.placeholder((taps,), name="weights")
    k = te.reduce_axis((0, taps), "k")
    return signal, weights, te.compute((n,), lambda i: te.sum(signal[i + k] * weights[k], axis=k), name="filtered")


def _average_numba(signal, out):  # type: ignore[no-untyped-def]
    n, block = out.size, 4096
    window = signal.size - n + 1
    for b in prange((n + block - 1) // block):
        begin, end = b * block, min(b * block + block, n)
        total = 0.0
        for i in range(begin, begin + window - 1):
            total += signal[i]
        old, new, o = signal[begin:end], signal[begin + window - 1 : end + window - 1], out[begin:end]
        scale = 1 / window
        for i in range(end - begin):
            total += new[i]
            o[i] = total * scale
            total -= old[i]


def _average_opencv(cv2: Any, signal: Array) -> Run:
    row, half = signal.reshape(1, -1), WINDOW // 2
    return lambda: cv2.blur(row, (WINDOW, 1))[0, half:-half]


def _average_torch(torch: Any, functional: Any, signal: Any) -> Run:
    return lambda: functional.avg_pool1d(signal[None, None], WINDOW, 1)[0, 0]


WINDOW = 101


def _average_reference(signal: Array) -> Array:
    sums = np.concatenate([[0], np.cumsum(signal, dtype="float64")])
    return np.asarray((sums[WINDOW:] - sums[:-WINDOW]) / WINDOW)


@program(
    _average_reference,
    inputs=lambda n: [_noise(n + WINDOW - 1)],
    numba=_average_numba,
    torch=_average_torch,
    opencv=_average_opencv,
)
def moving_average(n: int = 1 << 20) -> tuple[te.Tensor, ...]:
    """The means of signal[n + 100] over windows of 101."""
    signal = te.placeholder((n + WINDOW - 1,), name="signal")
    k = te.reduce_axis((0, WINDOW), "k")
    total = te.compute((n,), lambda i: te.sum(signal[i + k], axis=k), name="total")
    return signal, te.compute((n,), lambda i: total[i] / WINDOW, name="average")


def _correlation_reference(signal: Array, lags: int = 64) -> Array:
    wide = signal.astype("float64")
    return np.array([wide[: wide.size - lag] @ wide[lag:] for lag in range(lags)])


def _correlation_numba(signal, out):  # type: ignore[no-untyped-def]
    n, lags, block = signal.size, out.size, 4096
    blocks = (n + block - 1) // block
    parts = np.zeros((blocks, lags), np.float32)
    for b in prange(blocks):
        begin = b * block
        for lag in range(0, lags, 4):  # four sums in one pass
            size = max(min(block, n - lag - 3 - begin), 0)
            here, there = signal[begin : begin + size], signal[begin + lag : begin + lag + size + 3]
            next1, next2, next3 = there[1:], there[2:], there[3:]
            s0, s1, s2, s3 = _F(0), _F(0), _F(0), _F(0)
            for i in range(size):
                s0 += here[i] * there[i]
                s1 += here[i] * next1[i]
                s2 += here[i] * next2[i]
                s3 += here[i] * next3[i]
            parts[b, lag], parts[b, lag + 1], parts[b, lag + 2], parts[b, lag + 3] = s0, s1, s2, s3
            for other in range(3):  # the last few, of which there are fewer for greater lags
                for i in range(begin + size, min(begin + block, n - lag - other)):
                    parts[b, lag + other] += signal[i] * signal[i + lag + other]
    for lag in range(lags):
        total = _F(0)
        for b in range(blocks):
            total += parts[b, lag]
        out[lag] = total


def _correlation_numpy(signal: Array) -> Array:
    return np.array([signal[: signal.size - lag] @ signal[lag:] for lag in range(64)])


@program(_correlation_reference, atol=0.1, numba=_correlation_numba, numpy=_correlation_numpy)
def autocorrelation(n: int = 1 << 15, lags: int = 64) -> tuple[te.Tensor, ...]:
    """The sums of signal[i] * signal[i + lag] over signal[n], for each of 64 lags."""
    signal = te.placeholder((n,), name="signal")
    i = te.reduce_axis((0, n), "i")
    correlation = te.compute(
        (lags,), lambda lag: te.sum(signal[i] * signal[i + lag], axis=i, where=i + lag < n), name="correlation"
    )
    return signal, correlation


# -- filters with memory ---------------------------------------------------------------------------


def _biquad_inputs(n: int, channels: int) -> Sequence[Array]:
    """Noise, and a low-pass of the second order: b0, b1, b2, a1, a2."""
    b, a = _scipy_signal().butter(2, 0.2)
    return [_noise(n, channels), np.array([*b, *a[1:]], "float32")]


def _biquad_reference(signal: Array, c: Array) -> Array:
    c = c.astype("float64")
    return np.asarray(_scipy_signal().lfilter(c[:3], [1, c[3], c[4]], signal.astype("float64"), axis=0))


def _biquad_numba(signal, c, out):  # type: ignore[no-untyped-def]
    n, channels = signal.shape
    b0, b1, b2, a1, a2, width = c[0], c[1], c[2], c[3], c[4], 128
    for block in prange((channels + width - 1) // width):
        begin, end = block * width, min(block * width + width, channels)
        first, second = np.zeros(end - begin, np.float32), np.zeros(end - begin, np.float32)
        for t in range(n):
            x, o = signal[t, begin:end], out[t, begin:end]
            for i in range(end - begin):
                v = x[i]
                y = b0 * v + first[i]
                first[i] = b1 * v - a1 * y + second[i]
                second[i] = b2 * v - a2 * y
                o[i] = y


@program(_biquad_reference, inputs=_biquad_inputs, numba=_biquad_numba)
def biquad(n: int = 2048, channels: int = 1024) -> tuple[te.Tensor, ...]:
    """signal[n, channels] through a recursive filter of the second order, coefficients b0, b1, b2, a1, a2."""
    signal, c = te.placeholder((n, channels), name="signal"), te.placeholder((5,), name="coefficients")
    shape = (n, channels)
    out, first, second = (te.placeholder(shape, name=name) for name in ("out", "first", "second"))
    begin = (
        te.compute((1, channels), lambda t, i: c[0] * signal[0, i], name="out0"),
        te.compute((1, channels), lambda t, i: c[1] * signal[0, i] - c[3] * c[0] * signal[0, i], name="first0"),
        te.compute((1, channels), lambda t, i: c[2] * signal[0, i] - c[4] * c[0] * signal[0, i], name="second0"),
    )
    y = te.compute(shape, lambda t, i: c[0] * signal[t, i] + first[t - 1, i], name="y")
    s1 = te.compute(shape, lambda t, i: c[1] * signal[t, i] - c[3] * y[t, i] + second[t - 1, i], name="s1")
    s2 = te.compute(shape, lambda t, i: c[2] * signal[t, i] - c[4] * y[t, i], name="s2")
    filtered, _, _ = te.scan(begin, (y, s1, s2), (out, first, second), name="filtered")
    return signal, c, filtered
