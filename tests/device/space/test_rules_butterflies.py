"""Chains of stages that mix few elements of a row: transforms, wavelets, sorting networks."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from generated_spaces import LLVM, check, walked

from autosched import te
from autosched.ir.stmt import Allocate, walk
from autosched.lowering.pipeline import lower_structure


def hadamard(rows=5, n=64, down=False):
    x = te.placeholder((rows, n), name="x")
    a, bits = x, range(n.bit_length() - 1)
    for bit in reversed(bits) if down else bits:

        def step(b, i, a=a, half=1 << bit):
            return te.select((i & half) == 0, a[b, i] + a[b, i ^ half], a[b, i ^ half] - a[b, i])

        a = te.compute((rows, n), step, name=f"h{1 << bit}")
    return x, a


def fourier(rows=3, bits=6):
    n = 1 << bits
    real, imag = te.placeholder((rows, n), name="real"), te.placeholder((rows, n), name="imag")
    angle = -2 * np.pi / n
    cosine = te.compute((n // 2,), lambda k: te.cos(k.astype("float32") * angle), name="cosine")
    sine = te.compute((n // 2,), lambda k: te.sin(k.astype("float32") * angle), name="sine")

    def mirrored(i):
        return sum(((i >> bit) & 1) << (bits - 1 - bit) for bit in range(bits))

    re = te.compute((rows, n), lambda b, i: real[b, mirrored(i)], name="re")
    im = te.compute((rows, n), lambda b, i: imag[b, mirrored(i)], name="im")
    for half in (1 << bit for bit in range(bits)):

        def butterfly(b, i, re=re, im=im, half=half):
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

        re, im = te.compute((rows, n), butterfly, name=f"stage{half}")
    return real, imag, re, im


def bitonic(rows=3, n=16):
    a = x = te.placeholder((rows, n), "int32", name="x")
    k = 2
    while k <= n:
        j = k // 2
        while j:

            def step(b, i, a=a, j=j, k=k):
                rises = ((i & j) == 0) == ((i & k) == 0) if k < n else (i & j) == 0
                return te.select(rises, te.min(a[b, i], a[b, i ^ j]), te.max(a[b, i], a[b, i ^ j]))

            a = te.compute((rows, n), step, name=f"s{k}_{j}")
            j //= 2
        k *= 2
    return x, a


@pytest.mark.parametrize(
    "args", [hadamard(), hadamard(down=True), fourier(), bitonic()], ids=["up", "down", "fourier", "bitonic"]
)
def test_butterflies_in_registers(args):
    plan = walked(*args)
    assert plan.done[plan.s[args[-1]]] == "butterflies"
    inside = [x for x in plan.s.stages if x.scope == "local"]
    assert inside and all(x.attach.kind == "at" for x in inside)
    check(args, most=2)


def test_a_group_computes_each_element_once():
    args = hadamard()
    plan = walked(*args)
    local = {x.name for x in plan.s.stages if x.scope == "local"}
    sizes = {}
    for s in walk(lower_structure(plan.s, args, LLVM).function.body):
        if isinstance(s, Allocate) and s.buffer.name in local:
            sizes[s.buffer.name] = math.prod(int(d.value) for d in s.buffer.shape)
    assert sizes.keys() == local and set(sizes.values()) <= {8 * 4, 8 * 8, 8 * 16}


class Chain:
    """A random chain: digits of a random number system are mixed in random order, in several spellings."""

    def __init__(self, seed):
        c = self.choices = random.Random(seed)
        self.n = c.choice([16, 64, 64, 128, 192, 256])
        self.rows = tuple(c.choice([[3], [2, 3], [33]]))
        self.outputs = c.choice([1, 1, 2])
        self.dtype = c.choice(["float32", "float32", "int32"])
        self.inputs = [te.placeholder((*self.rows, self.n), self.dtype, name=f"x{k}") for k in range(self.outputs)]
        self.table = te.placeholder((self.n,), self.dtype, name="table")

    def digit(self):
        c = self.choices
        weights = [w for w in range(1, self.n) if self.n % w == 0]
        found = [(w, r) for w in weights for r in (2, 2, 2, 3, 4) if self.n % (w * r) == 0]
        return c.choice(found)

    def stage(self, before, k):
        c, (weight, radix) = self.choices, self.digit()
        ways = ["sums", "if"] + ["xor"] * (radix == 2 and weight & (weight - 1) == 0)
        way, factor = c.choice(ways), c.choice([0, 1, self.n // (weight * radix)])

        def step(*at):
            *row, i = at
            digit = i // weight % radix
            low = i % weight
            first = i - digit * weight
            scale = self.table[low * factor] if factor else te.const(2, self.dtype)
            if way == "xor":
                return tuple(
                    te.select((i & weight) == 0, t[(*row, i ^ weight)] * scale, t[at] - t[(*row, i ^ weight)])
                    for t in before
                )
            others = [[t[(*row, first + d * weight)] for d in range(radix)] for t in before]
            if way == "sums":
                swapped = others[::-1]
                return tuple(
                    sum(o[1:], o[0]) - scale * s[-1] + t[at] for o, s, t in zip(others, swapped, before, strict=True)
                )
            up = te.if_then_else(digit == radix - 1, 0, 1) * weight
            return tuple(
                te.if_then_else(digit == radix - 1, o[0] + t[at], t[(*row, i + up)] - o[0])
                for o, t in zip(others, before, strict=True)
            )

        made = te.compute((*self.rows, self.n), step if self.outputs > 1 else lambda *at: step(*at)[0], name=f"s{k}")
        return made if self.outputs > 1 else [made]

    def args(self):
        c, now = self.choices, self.inputs
        if c.random() < 0.3:
            turned = c.choice([w for w in range(1, self.n) if self.n % w == 0])
            now = [
                te.compute(
                    t.shape,
                    lambda *at, t=t: t[(*at[:-1], at[-1] % turned * (self.n // turned) + at[-1] // turned)],
                    name=f"t{t.name}",
                )
                for t in now
            ]
        for k in range(c.choice([3, 4, 6])):
            now = self.stage(now, k)
        if c.random() < 0.3:
            now = [
                te.compute(now[0].shape, lambda *at: now[0][at] + now[-1][(*at[:-1], self.n - 1 - at[-1])], name="last")
            ]
        return *self.inputs, self.table, *now


@pytest.mark.parametrize("seed", range(5))
def test_random_chains(seed):
    args = Chain(seed).args()
    check(args, most=2)
