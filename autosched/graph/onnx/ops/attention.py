"""Attention and what stands around it: rotary embedding, caches, linear attention, causal convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autosched import te, topi
from autosched.graph.onnx.node import Node, operator
from autosched.graph.onnx.ops.quantization import dtype_of
from autosched.ir.dtype import DType
from autosched.ir.dtype import dtype as to_dtype
from autosched.ir.expr import Expr, is_const
from autosched.te.tensor import Tensor
from autosched.topi.arguments import accumulator, narrowed, number
from autosched.topi.elementwise import stretched

Element = Callable[..., Expr]


@dataclass(frozen=True)
class Heads:
    """A tensor as [batch, heads, times, width], by indices alone: it may be [batch, times, heads * width]."""

    x: Tensor
    shape: tuple[Expr, ...]

    @staticmethod
    def of(node: Node, x: Tensor, attribute: str) -> Heads:
        if x.ndim == 4:
            return Heads(x, tuple(x.shape))
        count = node.attr(attribute)
        if x.ndim != 3 or not count:
            raise node.refused(f"{x!r} has no heads", f"4 dimensions, or 3 and the attribute {attribute}")
        width = te.floordiv(x.shape[2], count)
        return Heads(x, (x.shape[0], te.const(count), x.shape[1], width))

    def __call__(self, b: Expr, h: Expr, t: Expr, e: Expr) -> Expr:
        return self.x(b, h, t, e) if self.x.ndim == 4 else self.x(b, t, h * self.shape[3] + e)


def _joined(past: Tensor | None, new: Heads, name: str) -> Heads:
    """What is in a cache, and after it what comes in."""
    if past is None:
        return new
    before = past.shape[2]
    shape = (*new.shape[:2], before + new.shape[2], new.shape[3])
    made = te.compute(
        shape,
        lambda b, h, t, e: te.if_then_else(t < before, past(b, h, t, e), new(b, h, t - before, e)),
        name=name,
    )
    return Heads(made, shape)


def _shared(k: Heads, q: Heads) -> Element:
    """Keys or values by the heads of queries, groups of which share one."""
    group = te.floordiv(q.shape[1], k.shape[1])
    return lambda b, h, t, e: k(b, h if is_const(group, 1) else te.floordiv(h, group), t, e)


def _products(q: Heads, k: Heads, scale: float | None) -> Tensor:
    """Scaled products of all queries and keys, in the type of sums."""
    of = accumulator(q.x.dtype)
    keys, e = _shared(k, q), te.reduce_axis((0, q.shape[3]), "e")
    shape = (*q.shape[:3], k.shape[2])
    raw = te.compute(
        shape, lambda b, h, i, j: te.sum(q(b, h, i, e).astype(of) * keys(b, h, j, e).astype(of), axis=e), name="qk"
    )
    factor = te.const(scale, of) if scale else 1 / te.sqrt(q.shape[3].astype(of))
    return te.compute(shape, lambda *i: raw(*i) * factor, name="scores")


def _weighted(p: Tensor, v: Heads, q: Heads, of: DType) -> Tensor:
    """Values with weights, added up."""
    sums = accumulator(of)
    values, j = _shared(v, q), te.reduce_axis((0, v.shape[2]), "j")
    shape = (*q.shape[:3], v.shape[3])

    def body(b: Expr, h: Expr, i: Expr, e: Expr) -> object:
        return te.sum(p(b, h, i, j).astype(sums) * values(b, h, j, e).astype(sums), axis=j)

    return narrowed(te.compute(shape, body, name="attention"), of)


def masked_softmax(x: Tensor) -> Tensor:
    """Softmax along the last axis; all zeros where nothing but -infinity is."""
    j = te.reduce_axis((0, x.shape[-1]), "j")
    least = te.const(-3.0e38 if x.dtype.bits > 16 or x.dtype == "bfloat16" else -65504.0, x.dtype)
    top = te.compute(x.shape[:-1], lambda *i: te.max(x(*i, j), axis=j), name="top")
    power = te.compute(x.shape, lambda *i: te.exp(x(*i) - te.max(top(*i[:-1]), least)), name="power")
    n = te.reduce_axis((0, x.shape[-1]), "j")
    total = te.compute(x.shape[:-1], lambda *i: te.sum(power(*i, n), axis=n), name="total")
    # the greatest adds 1 to the total, unless all are masked
    return te.compute(x.shape, lambda *i: power(*i) / te.max(total(*i[:-1]), te.const(1, x.dtype)), name="softmax")


@operator("Attention")
def attention(
    node: Node, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None, past_key: Tensor | None = None,
    past_value: Tensor | None = None, lengths: Tensor | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    q = Heads.of(node, Q, "q_num_heads")
    k, v = Heads.of(node, K, "kv_num_heads"), Heads.of(node, V, "kv_num_heads")
    if past_key is not None and lengths is not None:
        raise node.refused("a cache inside and one outside", "past_key or nonpad_kv_seqlen")
    keys, values = _joined(past_key, k, "present_key"), _joined(past_value, v, "present_value")
    of, stages = Q.dtype, []
    scores = _products(q, keys, node.attr("scale"))
    stages.append(scores)
    cap = node.attr("softcap", 0.0)
    if cap:
        plain = scores
        scores = te.compute(plain.shape, lambda *i: te.tanh(plain(*i) / cap) * cap, name="capped")
    stages.append(scores)
    scores, is_masked = _masked(node, scores, mask, past_key, lengths)
    stages.append(scores)
    if node.attr("softmax_precision"):
        scores = narrowed(scores, dtype_of(node, node.attr("softmax_precision"), of))
    weights = masked_softmax(scores) if is_masked else topi.nn.softmax(scores)
    stages.append(weights)
    y = _weighted(weights, values, q, of)
    if Q.ndim == 3:
        y = _packed(y)
    present = [x.x if x.x.ndim == 4 else te.compute(x.shape, x, name="present") for x in (keys, values)]
    return y, *present, narrowed(stages[node.attr("qk_matmul_output_mode", 0)], of)


def _packed(x: Tensor) -> Tensor:
    """[batch, heads, times, width] as [batch, times, heads * width]."""
    width = x.shape[3]
    return te.compute(
        (x.shape[0], x.shape[2], x.shape[1] * width),
        lambda b, t, c: x(b, te.floordiv(c, width), t, te.floormod(c, width)),
        name="packed",
    )


def _masked(
    node: Node, scores: Tensor, mask: Tensor | None, past: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, bool]:
    """Scores with masks, and whether a whole row may be masked."""
    left, right = node.attr("left_window_size", -1), node.attr("right_window_size", -1)
    causal, shape, of = node.attr("is_causal", 0), scores.shape, scores.dtype
    if mask is None and lengths is None and not causal and left < 0 and right < 0:
        return scores, False

    def place(b: Expr, i: Expr) -> Expr:
        """The place of a query among the keys."""
        if past is not None:
            return i + past.shape[2]
        return i if lengths is None else i + lengths(b).astype("int32") - shape[2]

    def allowed(b: Expr, i: Expr, j: Expr) -> list[Expr]:
        at = place(b, i)
        conditions = [j <= at] if causal else []
        conditions += [at - j <= left] if left >= 0 else []
        conditions += [j - at <= right] if right >= 0 else []
        conditions += [j < lengths(b).astype("int32")] if lengths is not None else []
        return conditions

    def body(b: Expr, h: Expr, i: Expr, j: Expr) -> Expr:
        value, conditions = scores(b, h, i, j), allowed(b, i, j)
        if mask is not None:
            bias = _mask_at(mask, (b, h, i, j), shape)
            if mask.dtype.is_bool:
                conditions.append(bias)
            else:
                value = value + bias.astype(of)
        for c in conditions:
            value = te.select(c, value, te.const(float("-inf"), of))
        return value

    made = te.compute(shape, body, name="masked")
    return made, mask is not None or lengths is not None or left >= 0 or right >= 0


def _mask_at(mask: Tensor, i: Sequence[Expr], shape: Sequence[Expr]) -> Expr:
    """The element of a mask, which stretches over the scores; beyond its last key nothing is allowed."""
    last, wide = mask.shape[-1], [*shape[:-1], mask.shape[-1]]
    element = stretched(mask, i, wide)
    assert isinstance(element, Expr)
    if topi.arguments.same(last, shape[-1]):
        return element
    outside = te.const(False, "bool") if mask.dtype.is_bool else te.const(float("-inf"), mask.dtype)
    return te.if_then_else(i[-1] < last, element, outside)


@operator("ai.onnx.preview.FlexAttention")
def flex_attention(node: Node, Q: Tensor, K: Tensor, V: Tensor) -> Tensor:
    q, k, v = (Heads.of(node, x, "") for x in (Q, K, V))
    of = dtype_of(node, node.attr("softmax_precision"), "float64" if Q.dtype == "float64" else "float32")

    def modified(x: Tensor, name: str) -> Tensor:
        made = narrowed(x, of)
        (found,) = node.bodies[name]([made]) if name in node.bodies else (made,)
        if not isinstance(found, Tensor):
            raise node.refused(f"{name} gives no tensor", "a tensor of the scores' shape")
        return found

    scores = modified(_products(q, k, node.attr("scale")), "score_mod")
    return _weighted(modified(topi.nn.softmax(scores), "prob_mod"), v, q, V.dtype)


@operator("RotaryEmbedding")
def rotary_embedding(node: Node, X: Tensor, cos: Tensor, sin: Tensor, places: Tensor | None = None) -> Tensor:
    x = Heads.of(node, X, "num_heads")
    width = node.attr("rotary_embedding_dim", 0) or number(x.shape[3], f"RotaryEmbedding {node.name}")
    half, pairs = width // 2, bool(node.attr("interleaved", 0))
    of = accumulator(X.dtype)

    def angle(table: Tensor, b: Expr, t: Expr, k: Expr) -> Expr:
        return (table(b, t, k) if places is None else table(places(b, t), k)).astype(of)

    def turned(b: Expr, h: Expr, t: Expr, e: Expr) -> Expr:
        k = te.floordiv(e, 2) if pairs else te.floormod(e, half)
        is_first = te.floormod(e, 2) == 0 if pairs else e < half
        other = te.select(is_first, e + (1 if pairs else half), e - (1 if pairs else half))
        one, two = x(b, h, t, e).astype(of), x(b, h, t, other).astype(of)
        c, s = angle(cos, b, t, k), angle(sin, b, t, k)
        return (te.select(is_first, c * one - s * two, c * one + s * two)).astype(X.dtype)

    def body(b: Expr, h: Expr, t: Expr, e: Expr) -> Expr:
        if is_const(x.shape[3], width):
            return turned(b, h, t, e)
        return te.if_then_else(e < width, turned(b, h, t, e), x(b, h, t, e))

    if X.ndim == 4:
        return te.compute(X.shape, body, name="rotary")
    d = x.shape[3]
    return te.compute(X.shape, lambda b, t, c: body(b, te.floordiv(c, d), t, te.floormod(c, d)), name="rotary")


@operator("TensorScatter")
def tensor_scatter(node: Node, cache: Tensor, update: Tensor, places: Tensor | None = None) -> Tensor:
    at = topi.arguments.axis_of(cache, node.attr("axis", -2), f"TensorScatter {node.name}")
    is_circular, length = node.attr("mode", "linear") == "circular", cache.shape[at]

    def body(*i: Expr) -> Expr:
        begin = te.const(0, "int64") if places is None else places(i[0])
        along = i[at].astype("int64") - begin
        along = te.floormod(along, length.astype("int64")) if is_circular else along
        is_new = te.all(along >= 0, along < update.shape[at].astype("int64"))
        return te.if_then_else(is_new, update(*i[:at], along, *i[at + 1 :]), cache(*i))

    return te.compute(cache.shape, body, name="tensor_scatter")


@operator("CausalConvWithState")
def causal_convolution(
    node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None, past: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    taps = w.shape[2]
    before, of = taps - 1, accumulator(x.dtype)
    rule = node.attr("activation", "none")
    if rule not in ("none", "silu", "swish"):
        raise node.refused(f"activation {rule!r}", "none, silu or swish")

    def earlier(b: Expr, c: Expr, t: Expr) -> Expr:
        return te.const(0, x.dtype) if past is None else past(b, c, t)

    padded = te.compute(
        (*x.shape[:2], x.shape[2] + before),
        lambda b, c, t: te.if_then_else(t < before, earlier(b, c, t), x(b, c, t - before)),
        name="padded",
    )
    k = te.reduce_axis((0, taps), "k")
    sums = te.compute(
        x.shape, lambda b, c, t: te.sum(padded(b, c, t + k).astype(of) * w(c, 0, k).astype(of), axis=k), name="conv"
    )

    def body(b: Expr, c: Expr, t: Expr) -> Expr:
        value = sums(b, c, t) if bias is None else sums(b, c, t) + bias(c).astype(of)
        return (value if rule == "none" else value * te.sigmoid(value)).astype(x.dtype)

    state = te.compute((*x.shape[:2], before), lambda b, c, t: padded(b, c, t + x.shape[2]), name="present_state")
    return te.compute(x.shape, body, name="causal_conv"), state


def _check_rule(node: Node, decay: Tensor | None, beta: Tensor | None) -> None:
    """Raise ModelError for an update rule that there is not, or one that has other inputs."""
    rule = node.attr("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise node.refused(f"update_rule {rule!r}", "linear, gated, delta or gated_delta")
    if ("gated" in rule) != (decay is not None) or ("delta" in rule) != (beta is not None):
        raise node.refused(f"{rule!r} with these inputs", "decay for gated rules, beta for delta rules, no others")


@operator("LinearAttention")
def linear_attention(
    node: Node, Q: Tensor, K: Tensor, V: Tensor, past: Tensor | None = None, decay: Tensor | None = None,
    beta: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    q, k, v = Heads.of(node, Q, "q_num_heads"), Heads.of(node, K, "kv_num_heads"), Heads.of(node, V, "kv_num_heads")
    _check_rule(node, decay, beta)
    of = to_dtype("float32")
    (batch, heads, times, width), deep = k.shape, v.shape[3]
    length = times + 1
    state = te.placeholder((length, batch, heads, width, deep), of, "state")

    def kept(t: Expr, b: Expr, h: Expr, d: Expr, m: Expr) -> Expr:
        """The state before a time, after its decay."""
        if decay is None:
            return state(t - 1, b, h, d, m)
        place = h if topi.arguments.same(decay.shape[2], heads) else h * width + d
        return te.exp(decay(b, t - 1, place).astype(of)) * state(t - 1, b, h, d, m)

    def key(t: Expr, b: Expr, h: Expr, d: Expr) -> Expr:
        return k(b, h, t - 1, d).astype(of)

    def value(t: Expr, b: Expr, h: Expr, m: Expr) -> Expr:
        if beta is None:
            return v(b, h, t - 1, m).astype(of)
        rate = beta(b, t - 1, 0 if is_const(beta.shape[2], 1) else h).astype(of)
        return rate * (v(b, h, t - 1, m).astype(of) - found(t, b, h, m))

    if beta is not None:
        d = te.reduce_axis((0, width), "d")
        found = te.compute(
            (length, batch, heads, deep),
            lambda t, b, h, m: te.sum(kept(t, b, h, d, m) * key(t, b, h, d), axis=d),
            name="found",
        )
    init = te.compute(
        (1, batch, heads, width, deep),
        lambda _, *i: te.const(0, of) if past is None else past(*i).astype(of),
        name="first",
    )
    update = te.compute(
        state.shape, lambda t, b, h, d, m: kept(t, b, h, d, m) + key(t, b, h, d) * value(t, b, h, m), name="next"
    )
    # what queries read is a state as well, so that of the large ones no more than the last is kept
    e, group = te.reduce_axis((0, width), "e"), te.floordiv(q.shape[1], heads)
    factor = te.const(scale, of) if (scale := node.attr("scale", 0.0)) else 1 / te.sqrt(width.astype(of))
    answers = te.placeholder((length, batch, q.shape[1], deep), of, "answers")
    nothing = te.compute((1, *answers.shape[1:]), lambda *i: te.const(0, of), name="nothing")
    answer = te.compute(
        answers.shape,
        lambda t, b, h, m: te.sum(q(b, h, t - 1, e).astype(of) * update(t, b, te.floordiv(h, group), e, m), axis=e),
        name="answer",
    )
    states, sums = te.scan([init, nothing], [update, answer], [state, answers], name="states")
    y = te.compute(
        (batch, q.shape[1], times, deep), lambda b, h, t, m: (sums(t + 1, b, h, m) * factor).astype(Q.dtype), name="y"
    )
    last = te.compute(
        init.shape[1:], lambda *i: states(times, *i).astype(Q.dtype if past is None else past.dtype), name="present"
    )
    return _packed(y), last
