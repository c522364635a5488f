"""Threefry's numbers, states and splits against arithmetic of Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import UsageError
from autosched.tvm import relay, te, topi

MASK = 2**64 - 1
ROTATIONS = ((14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32))
STATE = [3, 1 << 60, 7, 11, 1 << 63, 0, 0, 5, 1 << 61, 0]


def hashed(key: list[int], counter: list[int]) -> list[int]:
    keys = [*key, 0x1BD11BDAA9FC1A22 ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    x = list(counter)
    for n in range(20):
        if n % 4 == 0:
            x = [(w + keys[(n // 4 + i) % 5] + (n // 4 if i == 3 else 0)) & MASK for i, w in enumerate(x)]
        mixed = []
        for a, b, r in ((*x[2 * j : 2 * j + 2], ROTATIONS[n % 8][j]) for j in range(2)):
            total = (a + b) & MASK
            mixed += [total, total ^ (((b << r) | (b >> (64 - r))) & MASK)]
        x = [mixed[k] for k in (0, 3, 2, 1)]
    return x


def numbers(state: list[int], count: int) -> list[int]:
    found: list[int] = []
    for i in range(count // 4):
        found += hashed(state[:4], [(c + i) & MASK for c in state[4:8]])
    last = [*state[4:7], (state[7] + count // 4 * 4) & MASK]
    return found + hashed(state[:4], last)[: count % 4]


def run(outputs: list[te.Tensor], gen: te.Tensor, state: list[int], *others: np.ndarray) -> list[np.ndarray]:
    f = tvm.build(te.create_schedule([t.op for t in outputs]), [gen, *outputs])
    made = [np.zeros(topi.get_const_tuple(t.shape), t.dtype) for t in outputs]
    f(np.array(state, "uint64"), *made)
    return made


@pytest.fixture
def gen() -> te.Tensor:
    return te.placeholder((10,), "uint64", name="gen")


@pytest.mark.parametrize(("shape", "after"), [((2, 5), 5 + 12), ((8,), 5 + 8), ((3,), 5 + 4)])
def test_numbers_and_the_state_after_them(gen: te.Tensor, shape: tuple[int, ...], after: int) -> None:
    state, rand = run(topi.random.threefry_generate(gen, shape), gen, STATE)
    assert rand.shape == shape and [int(x) for x in rand.ravel()] == numbers(STATE, rand.size)
    assert [int(x) for x in state] == [*STATE[:7], after, *STATE[8:]]


@pytest.mark.parametrize("has_path", [True, False])
def test_a_counter_without_room(gen: te.Tensor, has_path: bool) -> None:
    full = [*STATE[:7], MASK - 1, *([1 << 61, 0] if has_path else [0, 0])]
    state, rand = run(topi.random.threefry_generate(gen, (4,)), gen, full)
    began = [*STATE[:4], 1 << 63 | 1 << 61, 0, 0, 0, 1 << 60, 0]
    if not has_path:
        began = [*hashed(STATE[:4], [MASK] * 4), 0, 0, 0, 0, 1 << 63, 0]
    assert [int(x) for x in rand] == numbers(began, 4)
    assert [int(x) for x in state] == [*began[:7], 4, *began[8:]]


@pytest.mark.parametrize("bit", [1 << 61, 1, 0])
def test_splits(gen: te.Tensor, bit: int) -> None:
    whole = [*STATE[:8], bit, 0]
    left, right = ([int(x) for x in t] for t in run(topi.random.threefry_split(gen), gen, whole))
    if bit == 0:
        key = hashed(STATE[:4], STATE[4:8])
        assert left == [*key, 0, 0, 0, 0, 1 << 62, 0] and right == [*key, 1 << 63, 0, 0, 0, 1 << 62, 0]
        return
    then = [bit >> 1, 0] if bit > 1 else [0, 1 << 63]
    assert left == [*STATE[:8], *then]
    assert right == [*STATE[:4], STATE[4] | bit, *STATE[5:8], *then]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_and_normal_numbers(gen: te.Tensor, dtype: str) -> None:
    _, flat = run(
        list(topi.random.uniform(gen, te.const(5.0, dtype), te.const(10.0, dtype), (60, 50), dtype)), gen, STATE
    )
    bits, kept = (32, 23) if dtype == "float32" else (64, 52)
    wanted = [((x & (2**bits - 1)) >> (bits - kept)) / 2**kept * 5 + 5 for x in numbers(STATE, 3000)]
    np.testing.assert_allclose(flat.ravel(), wanted, rtol=1e-6 if dtype == "float32" else 1e-15)
    _, bell = run(
        list(topi.random.normal(gen, te.const(2.0, dtype), te.const(3.0, dtype), (60, 50), dtype)), gen, STATE
    )
    assert abs(bell.mean() - 2) < 0.3 and abs(bell.std() - 3) < 0.3


def test_draws_by_weight(gen: te.Tensor) -> None:
    weights = te.compute(
        (2, 3), lambda i, j: te.select(i == 0, j.astype("float32"), -j.astype("float32") + 1), name="w"
    )
    _, drawn = run(list(topi.random.multinomial(gen, weights, 600)), gen, STATE)
    assert drawn.shape == (2, 600) and set(drawn[1]) == {0} and set(drawn[0]) == {1, 2}
    assert 300 < (drawn[0] == 2).sum() < 500


def test_first_states() -> None:
    words = relay.random.threefry_key(2**64 + 9).data.numpy()
    assert [int(x) for x in words] == [9, 1, 0, 0, 0, 0, 0, 0, 1 << 63, 0]
    assert topi.random.threefry_test_wrapping("llvm", tvm.cpu())
    with pytest.raises(UsageError, match="ten words"):
        topi.random.threefry_split(te.placeholder((4,), "uint64"))
    with pytest.raises(UsageError, match="float32, float64"):
        topi.random.uniform(te.placeholder((10,), "uint64"), 0.0, 1.0, (3,), "float16")
