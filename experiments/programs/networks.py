"""Layers of neural networks."""

from __future__ import annotations

import numpy as np

from autosched import te

from . import prange, program

Array = np.ndarray


def _normal(*shapes: tuple[int, ...], scale: float = 1.0) -> list[Array]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=shape) * scale).astype("float32") for shape in shapes]


def _layer_norm_numpy(x: Array, gain: Array, offset: Array) -> Array:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + np.float32(1e-5)) * gain + offset


def _layer_norm_numba(x, gain, offset, out):  # type: ignore[no-untyped-def]
    rows, columns = x.shape
    for i in prange(rows):
        total = np.float32(0)
        for k in range(columns):
            total += x[i, k]
        mean = total / np.float32(columns)
        squares = np.float32(0)
        for k in range(columns):
            squares += (x[i, k] - mean) * (x[i, k] - mean)
        scale = np.float32(1) / np.sqrt(squares / np.float32(columns) + np.float32(1e-5))
        for k in range(columns):
            out[i, k] = (x[i, k] - mean) * scale * gain[k] + offset[k]


def _layer_norm_torch(torch, nn, x, gain, offset):  # type: ignore[no-untyped-def]
    return lambda: nn.layer_norm(x, gain.shape, gain, offset)


@program(_layer_norm_numpy, atol=1e-4, numba=_layer_norm_numba, torch=_layer_norm_torch)
def layer_norm(rows: int = 1024, columns: int = 1024) -> tuple[te.Tensor, ...]:
    """x[rows, columns], gain[columns], offset[columns] -> each row of x standardised, times gain, plus offset."""
    x = te.placeholder((rows, columns), name="x")
    gain, offset = te.placeholder((columns,), name="gain"), te.placeholder((columns,), name="offset")
    k, m = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "m")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="total")
    mean = te.compute((rows,), lambda i: total[i] / columns, name="mean")
    centred = te.compute((rows, columns), lambda i, j: x[i, j] - mean[i], name="centred")
    squares = te.compute((rows,), lambda i: te.sum(centred[i, m] * centred[i, m], axis=m), name="squares")
    deviation = te.compute((rows,), lambda i: te.sqrt(squares[i] / columns + 1e-5), name="deviation")
    result = te.compute(
        (rows, columns), lambda i, j: centred[i, j] / deviation[i] * gain[j] + offset[j], name="layer_norm"
    )
    return x, gain, offset, result


def _swiglu_inputs(tokens: int, size: int, hidden: int) -> list[Array]:
    x, weight = _normal((tokens, size), (size,))
    return [x, weight, *_normal((hidden, size), (hidden, size), scale=size**-0.5)]


def _swiglu_numpy(x: Array, weight: Array, gate: Array, up: Array) -> Array:
    normed = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + np.float32(1e-6)) * weight
    a, b = normed @ gate.T, normed @ up.T
    return a / (1 + np.exp(-a)) * b


def _swiglu_torch(torch, nn, x, weight, gate, up):  # type: ignore[no-untyped-def]
    def run():  # type: ignore[no-untyped-def]
        normed = nn.rms_norm(x, weight.shape, weight, 1e-6)
        return nn.silu(nn.linear(normed, gate)).mul_(nn.linear(normed, up))

    return run


@program(_swiglu_numpy, inputs=_swiglu_inputs, rtol=1e-3, atol=1e-4, numpy=_swiglu_numpy, torch=_swiglu_torch)
def swiglu(tokens: int = 64, size: int = 512, hidden: int = 1024) -> tuple[te.Tensor, ...]:
    """x[tokens, size], weight[size], gate[hidden, size], up[hidden, size] -> silu(n gate^T) * (n up^T), where n is x
    divided by the root of its mean square, times weight."""
    x, weight = te.placeholder((tokens, size), name="x"), te.placeholder((size,), name="weight")
    gate, up = te.placeholder((hidden, size), name="gate"), te.placeholder((hidden, size), name="up")
    k, m, n = (te.reduce_axis((0, size), name) for name in "kmn")
    squares = te.compute((tokens,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="squares")
    scale = te.compute((tokens,), lambda i: te.rsqrt(squares[i] / size + 1e-6), name="scale")
    normed = te.compute((tokens, size), lambda i, j: x[i, j] * scale[i] * weight[j], name="normed")
    gated = te.compute((tokens, hidden), lambda i, j: te.sum(normed[i, m] * gate[j, m], axis=m), name="gated")
    raised = te.compute((tokens, hidden), lambda i, j: te.sum(normed[i, n] * up[j, n], axis=n), name="raised")
    result = te.compute(
        (tokens, hidden), lambda i, j: gated[i, j] * te.sigmoid(gated[i, j]) * raised[i, j], name="swiglu"
    )
    return x, weight, gate, up, result


def _attention_numpy(q: Array, k: Array, v: Array) -> Array:
    scores = q @ k.swapaxes(1, 2) / np.float32(np.sqrt(q.shape[2]))
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    power = np.exp(scores - scores.max(axis=2, keepdims=True))
    return power / power.sum(axis=2, keepdims=True) @ v


def _attention_torch(torch, nn, q, k, v):  # type: ignore[no-untyped-def]
    return lambda: nn.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


@program(
    _attention_numpy,
    inputs=lambda heads, tokens, size: _normal(*[(heads, tokens, size)] * 3),
    numpy=_attention_numpy,
    torch=_attention_torch,
)
def causal_attention(heads: int = 8, tokens: int = 256, size: int = 64) -> tuple[te.Tensor, ...]:
    """q, k, v[heads, tokens, size] -> softmax(q k^T / sqrt(size)) v, where no token sees those after it."""
    shape, square = (heads, tokens, size), (heads, tokens, tokens)
    q, k, v = (te.placeholder(shape, name=name) for name in "qkv")
    d = te.reduce_axis((0, size), "d")
    a, b, c = (te.reduce_axis((0, tokens), name) for name in "abc")
    product = te.compute(square, lambda h, i, j: te.sum(q[h, i, d] * k[h, j, d], axis=d), name="product")
    score = te.compute(square, lambda h, i, j: product[h, i, j] / size**0.5, name="score")
    masked = te.compute(
        square, lambda h, i, j: te.if_then_else(j <= i, score[h, i, j], te.min_value("float32")), name="masked"
    )
    largest = te.compute((heads, tokens), lambda h, i: te.max(masked[h, i, a], axis=a), name="largest")
    power = te.compute(square, lambda h, i, j: te.exp(masked[h, i, j] - largest[h, i]), name="power")
    total = te.compute((heads, tokens), lambda h, i: te.sum(power[h, i, b], axis=b), name="total")
    share = te.compute(square, lambda h, i, j: power[h, i, j] / total[h, i], name="share")
    mixed = te.compute(shape, lambda h, i, e: te.sum(share[h, i, c] * v[h, c, e], axis=c), name="mixed")
    return q, k, v, mixed


def _conv_numpy(x: Array, w: Array, stride: int = 1, pad: int = 1, dilation: int = 1) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    reach = dilation * (w.shape[2] - 1) + 1
    rows, columns = ((n - reach) // stride + 1 for n in x.shape[2:])
    out = np.zeros((w.shape[0], x.shape[0], rows, columns), "float32")
    for ky in range(w.shape[2]):
        for kx in range(w.shape[3]):
            down, right = (slice(dilation * k, None, stride) for k in (ky, kx))
            out += np.tensordot(w[:, :, ky, kx], x[:, :, down, right][:, :, :rows, :columns], axes=(1, 1))
    return out.swapaxes(0, 1)


def _grouped_numpy(x: Array, w: Array) -> Array:
    groups = x.shape[1] // w.shape[1]
    parts = zip(np.split(x, groups, axis=1), np.split(w, groups))
    return np.concatenate([_conv_numpy(a, b) for a, b in parts], axis=1)


def _grouped_torch(torch, nn, x, w):  # type: ignore[no-untyped-def]
    return lambda: nn.conv2d(x, w, padding=1, groups=x.shape[1] // w.shape[1])


@program(_grouped_numpy, torch=_grouped_torch)
def grouped_conv(groups: int = 4, channels: int = 128, size: int = 56) -> tuple[te.Tensor, ...]:
    """x[1, channels, size, size], w[channels, channels/groups, 3, 3] -> a convolution within each group, padded."""
    each = channels // groups
    x = te.placeholder((1, channels, size, size), name="x")
    w = te.placeholder((channels, each, 3, 3), name="w")
    padded = te.constant_exterior(x, 0.0, axes=(2, 3))
    c = te.reduce_axis((0, each), "c")
    ky, kx = te.reduce_axis((0, 3), "ky"), te.reduce_axis((0, 3), "kx")
    conv = te.compute(
        (1, channels, size, size),
        lambda n, o, i, j: te.sum(
            padded[n, o // each * each + c, i + ky - 1, j + kx - 1] * w[o, c, ky, kx], axis=[c, ky, kx]
        ),
        name="conv",
    )
    return x, w, conv


def _strided_torch(torch, nn, x, w):  # type: ignore[no-untyped-def]
    return lambda: nn.conv2d(x, w, stride=2, padding=1)


@program(lambda x, w: _conv_numpy(x, w, stride=2), torch=_strided_torch)
def strided_conv(inputs: int = 64, outputs: int = 128, size: int = 56) -> tuple[te.Tensor, ...]:
    """x[1, inputs, size, size], w[outputs, inputs, 3, 3] -> every other place of a padded convolution."""
    x, w = te.placeholder((1, inputs, size, size), name="x"), te.placeholder((outputs, inputs, 3, 3), name="w")
    padded = te.constant_exterior(x, 0.0, axes=(2, 3))
    c = te.reduce_axis((0, inputs), "c")
    ky, kx = te.reduce_axis((0, 3), "ky"), te.reduce_axis((0, 3), "kx")
    conv = te.compute(
        (1, outputs, size // 2, size // 2),
        lambda n, o, i, j: te.sum(padded[n, c, 2 * i + ky - 1, 2 * j + kx - 1] * w[o, c, ky, kx], axis=[c, ky, kx]),
        name="conv",
    )
    return x, w, conv


def _transposed_numpy(x: Array, w: Array) -> Array:
    size = x.shape[2]
    out = np.zeros((x.shape[0], w.shape[1], 2 * size + 2, 2 * size + 2), "float32")
    for ky in range(4):
        for kx in range(4):
            part = np.tensordot(w[:, :, ky, kx], x, axes=(0, 1)).swapaxes(0, 1)
            out[:, :, ky : ky + 2 * size : 2, kx : kx + 2 * size : 2] += part
    return out[:, :, 1:-1, 1:-1]


def _transposed_torch(torch, nn, x, w):  # type: ignore[no-untyped-def]
    return lambda: nn.conv_transpose2d(x, w, stride=2, padding=1)


@program(_transposed_numpy, torch=_transposed_torch)
def transposed_conv(inputs: int = 64, outputs: int = 32, size: int = 28) -> tuple[te.Tensor, ...]:
    """x[1, inputs, size, size], w[inputs, outputs, 4, 4] -> [1, outputs, 2 size, 2 size]: each pixel is spread over a
    window of 4 x 4, two further on than its neighbour's."""
    x, w = te.placeholder((1, inputs, size, size), name="x"), te.placeholder((inputs, outputs, 4, 4), name="w")
    padded = te.constant_exterior(x, 0.0, axes=(2, 3))
    c = te.reduce_axis((0, inputs), "c")
    ky, kx = te.reduce_axis((0, 4), "ky"), te.reduce_axis((0, 4), "kx")
    spread = te.compute(
        (1, outputs, 2 * size, 2 * size),
        lambda n, o, i, j: te.sum(
            padded[n, c, (i + 1 - ky) // 2, (j + 1 - kx) // 2] * w[c, o, ky, kx],
            axis=[c, ky, kx],
            where=te.all((i + 1 - ky) % 2 == 0, (j + 1 - kx) % 2 == 0),
        ),
        name="spread",
    )
    return x, w, spread


def _conv3d_numpy(x: Array, w: Array) -> Array:
    _, _, depth, height, width = x.shape
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1), (1, 1)))
    out = np.zeros((w.shape[0], 1, depth, height, width), "float32")
    for k in np.ndindex(3, 3, 3):
        z, y, s = k
        window = x[:, :, z : z + depth, y : y + height, s : s + width]
        out += np.tensordot(w[:, :, z, y, s], window, axes=(1, 1))
    return out.swapaxes(0, 1)


def _conv3d_torch(torch, nn, x, w):  # type: ignore[no-untyped-def]
    return lambda: nn.conv3d(x, w, padding=1)


@program(_conv3d_numpy, torch=_conv3d_torch)
def conv_3d(inputs: int = 16, outputs: int = 32, depth: int = 8, size: int = 32) -> tuple[te.Tensor, ...]:
    """x[1, inputs, depth, size, size], w[outputs, inputs, 3, 3, 3] -> the padded convolution."""
    x = te.placeholder((1, inputs, depth, size, size), name="x")
    w = te.placeholder((outputs, inputs, 3, 3, 3), name="w")
    padded = te.constant_exterior(x, 0.0, axes=(2, 3, 4))
    c = te.reduce_axis((0, inputs), "c")
    kz, ky, kx = (te.reduce_axis((0, 3), name) for name in ("kz", "ky", "kx"))
    conv = te.compute(
        (1, outputs, depth, size, size),
        lambda n, o, z, i, j: te.sum(
            padded[n, c, z + kz - 1, i + ky - 1, j + kx - 1] * w[o, c, kz, ky, kx], axis=[c, kz, ky, kx]
        ),
        name="conv",
    )
    return x, w, conv


def _quantised(rows: int, size: int, outputs: int) -> list[Array]:
    rng = np.random.default_rng(0)
    x, w = rng.integers(-128, 128, (rows, size), "int8"), rng.integers(-127, 128, (outputs, size), "int8")
    bias = rng.integers(-5000, 5000, outputs, "int32")
    return [x, w, bias, rng.uniform(1e-4, 4e-4, outputs).astype("float32")]


def _quantised_numpy(x: Array, w: Array, bias: Array, scale: Array) -> Array:
    total = (x.astype("float64") @ w.T.astype("float64")).astype("int32") + bias
    return np.clip(np.rint(total.astype("float32") * scale) + 3, -128, 127).astype("int8")


def _quantised_torch(torch, nn, x, w, bias, scale):  # type: ignore[no-untyped-def]
    def run():  # type: ignore[no-untyped-def]
        total = torch._int_mm(x, w.T).add_(bias)
        return (total * scale).round_().add_(3).clamp_(-128, 127).to(torch.int8)

    return run


@program(_quantised_numpy, inputs=_quantised, rtol=0, atol=0, torch=_quantised_torch)
def quantised_dense(rows: int = 128, size: int = 1024, outputs: int = 1024) -> tuple[te.Tensor, ...]:
    """x[rows, size], w[outputs, size] of int8, bias[outputs] of int32, scale[outputs] -> x w^T + bias, scaled,
    rounded, plus a zero point of 3, as int8[rows, outputs]."""
    x, w = te.placeholder((rows, size), "int8", name="x"), te.placeholder((outputs, size), "int8", name="w")
    bias, scale = te.placeholder((outputs,), "int32", name="bias"), te.placeholder((outputs,), name="scale")
    k = te.reduce_axis((0, size), "k")
    shape = (rows, outputs)
    total = te.compute(
        shape, lambda i, j: te.sum(x[i, k].astype("int32") * w[j, k].astype("int32"), axis=k), name="total"
    )
    biased = te.compute(shape, lambda i, j: total[i, j] + bias[j], name="biased")
    scaled = te.compute(shape, lambda i, j: te.nearbyint(biased[i, j].astype("float32") * scale[j]) + 3, name="scaled")
    result = te.compute(
        shape, lambda i, j: te.min(te.max(scaled[i, j], -128.0), 127.0).astype("int8"), name="requantised"
    )
    return x, w, bias, scale, result


def _embedding_numba(table, words, out):  # type: ignore[no-untyped-def]
    for b in prange(words.shape[0]):
        total = out[b]
        total[:] = 0
        for k in range(words.shape[1]):
            row = table[words[b, k]]
            for j in range(row.size):
                total[j] += row[j]


def _embedding_torch(torch, nn, table, words):  # type: ignore[no-untyped-def]
    return lambda: nn.embedding_bag(words, table, mode="sum")


@program(lambda table, words: table[words].sum(axis=1), numba=_embedding_numba, torch=_embedding_torch)
def embedding_bag(bags: int = 4096, each: int = 16, words: int = 50000, size: int = 64) -> tuple[te.Tensor, ...]:
    """table[words, size], word[bags, each] of int32 -> the sum of each bag's rows of the table."""
    table, word = te.placeholder((words, size), name="table"), te.placeholder((bags, each), "int32", name="word")
    k = te.reduce_axis((0, each), "k")
    row = te.compute((bags, each, size), lambda b, e, j: table[word[b, e], j], name="row")
    return table, word, te.compute((bags, size), lambda b, j: te.sum(row[b, k, j], axis=k), name="bag")


def _permute_numba(x, out):  # type: ignore[no-untyped-def]
    batch, channels, height, width = x.shape
    for task in prange(batch * height):
        n, y = task // height, task % height
        for left in range(0, width, 16):
            source, target = x[n, :, y, left : left + 16], out[n, y, left : left + 16]
            for c in range(channels):
                for j in range(source.shape[1]):
                    target[j, c] = source[c, j]


def _permute_torch(torch, nn, x):  # type: ignore[no-untyped-def]
    view = x.permute(0, 2, 3, 1)
    out = torch.empty(view.shape)
    return lambda: out.copy_(view)


@program(
    lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
    numba=_permute_numba,
    torch=_permute_torch,
)
def nchw_to_nhwc(batch: int = 4, channels: int = 64, size: int = 112) -> tuple[te.Tensor, ...]:
    """x[batch, channels, size, size] -> [batch, size, size, channels]."""
    x = te.placeholder((batch, channels, size, size), name="x")
    return x, te.compute((batch, size, size, channels), lambda n, i, j, c: x[n, c, i, j], name="permuted")


def _concat_numba(a, b, c, out):  # type: ignore[no-untyped-def]
    batch, first, height, width = a.shape
    second, channels = first + b.shape[1], first + b.shape[1] + c.shape[1]
    for task in prange(batch * channels):
        n, o = task // channels, task % channels
        source = a[n, o] if o < first else b[n, o - first] if o < second else c[n, o - second]
        for y in range(height):
            for x in range(width):
                out[n, o, y, x] = max(source[y, x], np.float32(0))


def _concat_torch(torch, nn, a, b, c):  # type: ignore[no-untyped-def]
    out = torch.empty(a.shape[0], a.shape[1] + b.shape[1] + c.shape[1], *a.shape[2:])
    return lambda: torch.cat((a, b, c), dim=1, out=out).relu_()


@program(
    lambda a, b, c: np.maximum(np.concatenate((a, b, c), axis=1), 0),
    numba=_concat_numba,
    torch=_concat_torch,
)
def concat_relu(batch: int = 4, channels: int = 64, size: int = 56) -> tuple[te.Tensor, ...]:
    """a[batch, channels, size, size], and b and c with half the channels each -> one after the other, then ReLU."""
    half = channels // 2
    a = te.placeholder((batch, channels, size, size), name="a")
    b, c = (te.placeholder((batch, half, size, size), name=name) for name in "bc")

    def of_three(n: te.Expr, o: te.Expr, i: te.Expr, j: te.Expr) -> te.Expr:
        last = te.if_then_else(o < channels + half, b[n, o - channels, i, j], c[n, o - channels - half, i, j])
        return te.if_then_else(o < channels, a[n, o, i, j], last)

    shape = (batch, channels + 2 * half, size, size)
    joined = te.compute(shape, of_three, name="joined")
    return a, b, c, te.compute(shape, lambda n, o, i, j: te.max(joined[n, o, i, j], 0.0), name="relu")


def _mlp_inputs(tokens: int, size: int, hidden: int) -> list[Array]:
    x, b1, b2 = _normal((tokens, size), (hidden,), (size,))
    w1, w2 = _normal((hidden, size), (size, hidden), scale=size**-0.5)
    return [x, w1, b1, w2, b2]


def _mlp_numpy(x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Array:
    from scipy.special import erf

    hidden = x @ w1.T + b1
    return (hidden * (1 + erf(hidden / np.float32(np.sqrt(2)))) / 2) @ w2.T + b2


def _mlp_torch(torch, nn, x, w1, b1, w2, b2):  # type: ignore[no-untyped-def]
    return lambda: nn.linear(nn.gelu(nn.linear(x, w1, b1)), w2, b2)


@program(_mlp_numpy, inputs=_mlp_inputs, rtol=1e-3, atol=1e-4, numpy=_mlp_numpy, torch=_mlp_torch)
def gelu_mlp(tokens: int = 128, size: int = 256, hidden: int = 1024) -> tuple[te.Tensor, ...]:
    """x[tokens, size], w1[hidden, size], b1[hidden], w2[size, hidden], b2[size] -> gelu(x w1^T + b1) w2^T + b2."""
    x = te.placeholder((tokens, size), name="x")
    w1, b1 = te.placeholder((hidden, size), name="w1"), te.placeholder((hidden,), name="b1")
    w2, b2 = te.placeholder((size, hidden), name="w2"), te.placeholder((size,), name="b2")
    k, m = te.reduce_axis((0, size), "k"), te.reduce_axis((0, hidden), "m")
    wide = te.compute((tokens, hidden), lambda i, j: te.sum(x[i, k] * w1[j, k], axis=k), name="wide")
    biased = te.compute((tokens, hidden), lambda i, j: wide[i, j] + b1[j], name="biased")
    gelu = te.compute(
        (tokens, hidden), lambda i, j: biased[i, j] * 0.5 * (1 + te.erf(biased[i, j] * 0.5**0.5)), name="gelu"
    )
    narrow = te.compute((tokens, size), lambda i, j: te.sum(gelu[i, m] * w2[j, m], axis=m), name="narrow")
    return x, w1, b1, w2, b2, te.compute((tokens, size), lambda i, j: narrow[i, j] + b2[j], name="mlp")


def _avg_pool_numpy(x: Array) -> Array:
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return windows[:, :, ::2, ::2].mean(axis=(4, 5))


def _avg_pool_numba(x, out):  # type: ignore[no-untyped-def]
    batch, channels, size, _ = x.shape
    half, ninth = size // 2, np.float32(1 / 9)
    for task in prange(batch * channels):
        n, c = task // channels, task % channels
        tall = np.zeros(size + 1, np.float32)
        for y in range(half):
            for j in range(size):
                tall[j + 1] = x[n, c, 2 * y, j] + x[n, c, 2 * y + 1, j]
            if y > 0:
                for j in range(size):
                    tall[j + 1] += x[n, c, 2 * y - 1, j]
            for j in range(half):
                out[n, c, y, j] = (tall[2 * j] + tall[2 * j + 1] + tall[2 * j + 2]) * ninth


def _avg_pool_torch(torch, nn, x):  # type: ignore[no-untyped-def]
    return lambda: nn.avg_pool2d(x, 3, 2, 1)


@program(_avg_pool_numpy, numba=_avg_pool_numba, torch=_avg_pool_torch)
def avg_pool(batch: int = 2, channels: int = 64, size: int = 112) -> tuple[te.Tensor, ...]:
    """x[batch, channels, size, size], size even -> the mean of 3 x 3 at every other place, zeros around."""
    x = te.placeholder((batch, channels, size, size), name="x")
    padded = te.constant_exterior(x, 0.0, axes=(2, 3))
    ky, kx = te.reduce_axis((0, 3), "ky"), te.reduce_axis((0, 3), "kx")
    shape = (batch, channels, size // 2, size // 2)
    total = te.compute(
        shape, lambda n, c, i, j: te.sum(padded[n, c, 2 * i + ky - 1, 2 * j + kx - 1], axis=[ky, kx]), name="total"
    )
    return x, te.compute(shape, lambda n, c, i, j: total[n, c, i, j] / 9, name="mean")


def _dilated_torch(torch, nn, x, w):  # type: ignore[no-untyped-def]
    return lambda: nn.conv2d(x, w, padding=2, dilation=2)


@program(lambda x, w: _conv_numpy(x, w, pad=2, dilation=2), torch=_dilated_torch)
def dilated_conv(channels: int = 64, size: int = 56) -> tuple[te.Tensor, ...]:
    """x[1, channels, size, size], w[channels, channels, 3, 3] -> the padded convolution with every other pixel."""
    x = te.placeholder((1, channels, size, size), name="x")
    w = te.placeholder((channels, channels, 3, 3), name="w")
    padded = te.constant_exterior(x, 0.0, axes=(2, 3))
    c = te.reduce_axis((0, channels), "c")
    ky, kx = te.reduce_axis((0, 3), "ky"), te.reduce_axis((0, 3), "kx")
    conv = te.compute(
        (1, channels, size, size),
        lambda n, o, i, j: te.sum(padded[n, c, i + 2 * ky - 2, j + 2 * kx - 2] * w[o, c, ky, kx], axis=[c, ky, kx]),
        name="conv",
    )
    return x, w, conv
