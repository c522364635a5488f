"""`tvm.topi.random`: numbers of the generator Threefry, whose state is a tensor, with TVM's bits.

A state is ten words of 64 bits: four of a key, two of a path (which splits led to it), two of a counter (the second
counts), and two that have one bit set, where the path goes on. A random number depends on state and place alone, so all
are computed at once: nothing here is a loop over states, and any schedule does.

Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC '11); Claessen, Palka: Splittable
pseudorandom number generators using cryptographic hashing (2013).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from autosched import te
from autosched.errors import UsageError
from autosched.ir.expr import Expr
from autosched.te.tensor import Tensor
from autosched.tvm import topi
from autosched.tvm._missing import missing
from autosched.tvm.topi.utils import get_const_tuple, ravel_index

_U64 = "uint64"
_ONES = 2**64 - 1
_ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
_PARITY = 0x1BD11BDAA9FC1A22
_ROUNDS = 20


def _word(value: int) -> Expr:
    return te.const(value, _U64)


def _hash(key: Sequence[Expr], counter: Sequence[Expr]) -> list[Expr]:
    """Four random words of a key and a counter of four words each, without the last addition of the key, as TVM."""
    parity = _word(_PARITY)
    for k in key:
        parity = parity ^ k
    keys, x = [*key, parity], list(counter)
    for n in range(_ROUNDS):
        if n % 4 == 0:
            s = n // 4
            x = [w + keys[(s + i) % 5] for i, w in enumerate(x)]
            x[3] = x[3] + _word(s)
        mixed: list[Expr] = []
        for a, b, r in zip(x[::2], x[1::2], _ROTATIONS[n % 8], strict=True):
            total = a + b
            mixed += [total, total ^ ((b << _word(r)) | (b >> _word(64 - r)))]
        x = [mixed[k] for k in (0, 3, 2, 1)]
    return x


def _key(key: Sequence[Expr], counter: Sequence[Expr]) -> list[Expr]:
    """The same as a stage of its own, which is computed once."""
    return [t(0) for t in te.compute((1,), lambda _: tuple(_hash(key, counter)), name="key")]


def _choose(condition: Expr, one: Sequence[Expr], other: Sequence[Expr]) -> list[Expr]:
    return [te.if_then_else(condition, a, b) for a, b in zip(one, other, strict=True)]


def _moved(a: Expr, b: Expr) -> list[Expr]:
    """The bit that is set in two words, one place further."""
    first = te.select(a == _word(1), _word(1 << 63), te.select(a == _word(0), b >> _word(1), _word(0)))
    return [te.select(a <= _word(1), _word(0), a >> _word(1)), first]


def _state(name: str, words: Sequence[Expr]) -> Tensor:
    """A tensor of ten words."""

    def element(k: Expr) -> Expr:
        found = words[-1]
        for n in reversed(range(9)):
            found = te.if_then_else(k == n, words[n], found)
        return found

    return te.compute((10,), element, name=name)


def _words(gen: Tensor) -> list[Expr]:
    if get_const_tuple(gen.shape) != (10,) or gen.dtype != _U64:
        raise UsageError(
            f"{gen!r} is no state", asked="topi.random", legal="ten words of uint64: relay.random.threefry_key"
        )
    return [gen(k) for k in range(10)]


def threefry_generate(gen: Tensor, out_shape: Sequence[Any]) -> list[Tensor]:
    """Return the state after it, and a tensor of random `uint64`.

    gen: a state, which nothing else may use. Where its counter has no room left, its path goes on, or it gets a new key
    """
    shape = get_const_tuple(out_shape)
    if not all(isinstance(d, int) for d in shape):
        raise UsageError(f"{shape} is known at run time only", asked="threefry_generate", legal="numbers")
    count = math.prod(shape)
    w = _words(gen)
    fresh = [*_key(w[:4], [_word(_ONES)] * 4), *map(_word, (0, 0, 0, 0, 1 << 63, 0))]
    further = [*w[:4], w[4] | w[8], w[5] | w[9], _word(0), _word(0), *_moved(w[8], w[9])]
    has_room = w[7] < _word(_ONES - count)
    state = _state("state", _choose(has_room, w, _choose(w[8] == _word(0), fresh, further)))
    s = _words(state)
    whole = count // 4
    # the last block is one of its own, counted in numbers and not in blocks
    blocks = te.compute((max(1, -(-count // 4)),), lambda b: tuple(_block(s, b, whole)), name="threefry")
    rand = te.compute(shape, lambda *i: _of_block(blocks, ravel_index(i, shape) if i else te.const(0)), name="rand")
    after = _word(whole * 4 + (4 if count % 4 else 0))
    return [_state("new_gen", [*s[:6], _word(0), s[7] + after, *s[8:]]), rand]


def _block(s: Sequence[Expr], b: Expr, whole: int) -> list[Expr]:
    """Four numbers: the block counts in all words of the counter; what is left over after them, in the last."""
    at, last = b.astype(_U64), _word(whole * 4)
    counter = [te.select(b < whole, x + at, x + last if k == 3 else x) for k, x in enumerate(s[4:8])]
    return _hash(s[:4], counter)


def _of_block(blocks: Sequence[Tensor], place: Any) -> Expr:
    b, k = te.floordiv(place, 4), te.floormod(place, 4)
    found = blocks[3](b)
    for n in (2, 1, 0):
        found = te.select(k == n, blocks[n](b), found)
    return found


def threefry_split(gen: Tensor) -> list[Tensor]:
    """Return two states that are made of one, which nothing else may use."""
    w = _words(gen)
    key = _key(w[:4], w[4:8])
    is_full = w[8] == _word(0)
    moved = _moved(w[8], w[9])
    begun = [*map(_word, (0, 0, 0, 1 << 62, 0))]
    left = _choose(is_full, [*key, _word(0), *begun], [*w[:8], *moved])
    right = _choose(is_full, [*key, _word(1 << 63), *begun], [*w[:4], w[4] | w[8], w[5] | w[9], w[6], w[7], *moved])
    return [_state("left", left), _state("right", right)]


def threefry_test_wrapping(target: Any, device: Any) -> bool:
    """Whether unsigned integers wrap, as they do for every target here: docs/semantics.md."""
    return True


def uniform(gen: Tensor, low: Any, high: Any, out_shape: Sequence[Any], out_dtype: str) -> tuple[Tensor, Tensor]:
    """Return the state after it, and numbers of `[low, high)` of type float32 or float64."""
    if out_dtype not in ("float32", "float64"):
        raise UsageError(f"no numbers of type {out_dtype}", asked="topi.random.uniform", legal="float32, float64")
    bits, fraction = (32, 23) if out_dtype == "float32" else (64, 52)
    of = f"uint{bits}"
    new_gen, random_bits = threefry_generate(gen, out_shape)
    one = ((1 << (bits - fraction - 2)) - 1) << fraction  # the exponent of 1.0
    unit = te.compute(
        random_bits.shape,
        lambda *i: (
            te.reinterpret(out_dtype, (random_bits(*i).astype(of) >> te.const(bits - fraction, of)) | te.const(one, of))
            - te.const(1, out_dtype)
        ),
        name="uniform",
    )
    return new_gen, topi.add(topi.multiply(unit, topi.subtract(high, low)), low)


def normal(gen: Tensor, mean: Any, scale: Any, out_shape: Sequence[Any], out_dtype: str) -> tuple[Tensor, Tensor]:
    """Return the state after it, and normally distributed numbers, by Box's and Muller's transform."""
    zero, one = te.const(0.0, out_dtype), te.const(1.0, out_dtype)
    new_gen, pair = uniform(gen, zero, one, [2, *out_shape], out_dtype)
    radius, angle = (te.compute(tuple(pair.shape[1:]), lambda *i, n=n: pair(n, *i), name="pair") for n in range(2))
    root = topi.sqrt(topi.multiply(te.const(-2.0, out_dtype), topi.log(topi.subtract(one, radius))))
    turned = topi.sin(topi.multiply(te.const(2 * math.pi, out_dtype), angle))
    return new_gen, topi.add(topi.multiply(topi.multiply(root, turned), scale), mean)


def multinomial(gen: Tensor, probs: Tensor, num_samples: int) -> tuple[Tensor, Tensor]:
    """Return the state after it, and `[.., num_samples]` indices, drawn by the weights in the last dimension."""
    weights = topi.maximum(topi.cast(probs, "float32"), te.const(0.0, "float32"))
    share = topi.divide(weights, topi.expand_dims(topi.sum(weights, axis=-1), -1))
    new_gen, drawn = uniform(
        gen, te.const(0.0, "float32"), te.const(1.0, "float32"), [*probs.shape[:-1], num_samples], "float32"
    )
    beyond = topi.subtract(topi.expand_dims(topi.cumsum(share, axis=-1), -1), topi.expand_dims(drawn, -2))
    first = topi.where(topi.greater(beyond, topi.full_like(beyond, 0)), beyond, topi.full_like(beyond, 1))
    return new_gen, topi.argmin(first, axis=-2)


__getattr__ = missing("topi.random", globals())
