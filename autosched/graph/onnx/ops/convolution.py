"""Convolutions, and what is made of their windows."""

from __future__ import annotations

from math import prod

from autosched import te, topi
from autosched.graph.onnx.node import Dim, Node, operator
from autosched.graph.onnx.windows import auto_pad, fixed, numbers, plain, sliding, spatial
from autosched.ir.expr import Expr, as_expr, is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, narrowed, same, unravel
from autosched.topi.sampling import linear


def _groups(node: Node, of: Expr) -> int:
    """The number of groups that channels come in."""
    groups = int(node.attr("group", 1))
    if groups < 1 or (is_const(of) and int(of.value) % groups):
        raise node.refused(f"{of!r} channels in {groups} groups", "a divisor of them")
    return groups


def _taps(node: Node, w: Tensor, rank: int) -> list[Dim]:
    """The sizes of a kernel: an attribute may say them, too."""
    if w.ndim != rank + 2:
        raise node.refused(f"its weights have {w.ndim} dimensions", f"{rank + 2}, as its input")
    taps: list[Dim] = [int(d.value) if is_const(d) else d for d in w.shape[2:]]
    said = node.attr("kernel_shape")
    if said and list(said) != taps:
        raise node.refused(f"kernel_shape is {list(said)}", f"{taps}, as its weights are")
    return taps


def _biased(node: Node, sums: Tensor, bias: Tensor | None, of: object) -> Tensor:
    """Sums with a number added for each channel, rounded to the type of the result."""
    if bias is None:
        return narrowed(sums, of)
    if bias.ndim != 1 or not (same(bias.shape[0], sums.shape[1])):
        raise node.refused(f"its bias is {bias!r}", f"{sums.shape[1]!r} numbers")
    return narrowed(topi.nn.bias_add(sums, bias, 1), of)


@operator("Conv")
def conv(node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = spatial(node, x)
    of = sliding(node, x, _taps(node, w, rank))
    groups = _groups(node, w.shape[0])
    space = "QRSTUDHW"[-rank:]
    if rank > 8 or not same(w.shape[1] * groups, x.shape[1]):
        raise node.refused(f"{x!r} meets weights {w!r} in {groups} groups", "as many channels")
    tag = f"{'group_' if groups > 1 else ''}conv{rank}d"
    sums = accumulator(x.dtype)
    data, kernel = f"NC{space}", f"OI{space}"
    made = topi.nn.convolution(
        x, w, of.strides, of.padding, of.dilations, groups, data, kernel, out_dtype=sums, tag=tag
    )
    return _biased(node, made, bias, x.dtype)


@operator("ConvTranspose")
def conv_transpose(node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = spatial(node, x)
    taps = _taps(node, w, rank)
    groups = _groups(node, x.shape[1])
    strides, dilations = (numbers(node, name, rank, 1, 1) for name in ("strides", "dilations"))
    extra = numbers(node, "output_padding", rank, 0, 0)
    whole = [
        (d - 1) * s + (k - 1) * g + 1 + e
        for d, s, k, g, e in zip(x.shape[2:], strides, taps, dilations, extra, strict=True)
    ]
    form, wanted = auto_pad(node), node.attr("output_shape")
    if wanted or form.startswith("SAME"):
        if wanted:
            numbers(node, "output_shape", rank, 1, 1)
        out = wanted or [d * s for d, s in zip(x.shape[2:], strides, strict=True)]
        total = [te.max(w - o, 0) for w, o in zip(whole, out, strict=True)]
        half = [te.floordiv(t, 2) for t in total]
        before = half if form == "SAME_UPPER" else [t - h for t, h in zip(total, half, strict=True)]
        after = [w - o - b for w, o, b in zip(whole, out, before, strict=True)]
    else:
        pads = numbers(node, "pads", 2 * rank, 0, 0) if form == "NOTSET" else [0] * (2 * rank)
        before, after = list(map(as_expr, pads[:rank])), list(map(as_expr, pads[rank:]))
    padding = [plain(p) for p in [*before, *after]]
    left = [plain(w - b - a) for w, b, a in zip(whole, before, after, strict=True)]
    if any(isinstance(n, int) and n < 1 for n in left):
        raise node.refused(f"pads {padding} leave nothing of {list(map(plain, whole))}", "less of them")
    made = topi.nn.convolution_transpose(x, w, strides, padding, extra, dilations, groups, accumulator(x.dtype))
    return _biased(node, made, bias, x.dtype)


@operator("DeformConv")
def deform_conv(
    node: Node, x: Tensor, w: Tensor, offset: Tensor, bias: Tensor | None = None, mask: Tensor | None = None
) -> Tensor:
    """The elements that the offsets point to, with their mask; then the sums of a convolution."""
    rank = spatial(node, x)
    of = sliding(node, x, _taps(node, w, rank))
    taps, groups, parts = [fixed(node, k) for k in of.kernel], _groups(node, x.shape[1]), _groups_of_offsets(node, x)
    channels, per_part = x.shape[1], te.floordiv(x.shape[1], parts)
    sums = accumulator(x.dtype)
    if not same(w.shape[1] * groups, channels) or not same(offset.shape[1], parts * prod(taps) * rank):
        raise node.refused(f"{x!r} meets weights {w!r}, offsets {offset!r}", "channels and taps as the others have")

    def place(n: Expr, part: Expr, tap: Expr, r: list[Expr], i: list[Expr]) -> list[Expr]:
        found = []
        for k in range(rank):
            start = i[k] * of.strides[k] - of.before[k] + r[k] * of.dilations[k]
            moved = offset(n, (part * prod(taps) + tap) * rank + k, *i)
            found.append(start.astype(sums) + moved.astype(sums))
        return found

    def column(n: Expr, c: Expr, tap: Expr, *i: Expr) -> Expr:
        part = te.floordiv(c, per_part)
        at = place(n, part, tap, unravel(tap, taps), list(i))
        e = linear(lambda *j: x(n, c, *j).astype(sums), at, x.shape[2:])
        return e if mask is None else e * mask(n, part * prod(taps) + tap, *i).astype(sums)

    columns = te.compute((x.shape[0], channels, prod(taps), *of.count), column, name="deformed")
    per_group, results = w.shape[1], te.floordiv(w.shape[0], groups)
    c = te.reduce_axis((0, per_group), "rc")
    r = [te.reduce_axis((0, t), f"r{k}") for k, t in enumerate(taps)]

    def body(n: Expr, o: Expr, *i: Expr) -> Expr:
        channel = te.floordiv(o, results) * per_group + c if groups > 1 else c.var
        tap: Expr = te.const(0)
        for a, t in zip(r, taps, strict=True):
            tap = tap * t + a
        return te.sum(columns(n, channel, tap, *i) * w(o, c, *r).astype(sums), axis=[c, *r])

    made = te.compute((x.shape[0], w.shape[0], *of.count), body, name="deform_conv")
    return _biased(node, made, bias, x.dtype)


def _groups_of_offsets(node: Node, x: Tensor) -> int:
    parts = int(node.attr("offset_group", 1))
    if parts < 1 or (is_const(x.shape[1]) and int(x.shape[1].value) % parts):
        raise node.refused(f"{x.shape[1]!r} channels in {parts} groups of offsets", "a divisor of them")
    return parts


@operator("Col2Im")
def col2im(node: Node, x: Tensor, image: Tensor, block: Tensor) -> Tensor:
    """Each element of the image is the sum of those that its blocks have for it."""
    size, taps = node.dims(image), [int(k) for k in node.values(block).reshape(-1)]
    rank = len(size)
    if x.ndim != 3 or len(taps) != rank or not rank or min(taps) < 1:
        raise node.refused(f"{x!r} for blocks of {taps} and an image of {size}", "3 dimensions; as many numbers")
    strides, dilations = (numbers(node, name, rank, 1, 1) for name in ("strides", "dilations"))
    pads = numbers(node, "pads", 2 * rank, 0, 0)
    count = [
        te.floordiv(d + pads[k] + pads[rank + k] - (taps[k] - 1) * dilations[k] - 1, strides[k]) + 1
        for k, d in enumerate(map(as_expr, size))
    ]
    if not same(prod(count, start=te.const(1)), x.shape[2]) or (
        is_const(x.shape[1]) and int(x.shape[1].value) % prod(taps)
    ):
        raise node.refused(f"{x!r} is not made of blocks of {taps}, {count} of them", "an input that is")
    sums = accumulator(x.dtype)
    r = [te.reduce_axis((0, t), f"r{k}") for k, t in enumerate(taps)]

    def body(n: Expr, c: Expr, *i: Expr) -> Expr:
        low = [i[k] + pads[k] - r[k] * dilations[k] for k in range(rank)]
        at = [te.floordiv(e, s) for e, s in zip(low, strides, strict=True)]
        here = [cond for k, e in enumerate(low) for cond in (e >= 0, at[k] < count[k])]
        here += [te.floormod(e, s) == 0 for e, s in zip(low, strides, strict=True) if s > 1]
        tap, which = te.const(0), te.const(0)
        for k in range(rank):
            tap, which = tap * taps[k] + r[k], which * count[k] + at[k]
        return te.sum(x(n, c * prod(taps) + tap, which).astype(sums), axis=r, where=te.all(*here))

    shape = (x.shape[0], te.floordiv(x.shape[1], prod(taps)), *size)
    return narrowed(te.compute(shape, body, name="col2im"), x.dtype)
