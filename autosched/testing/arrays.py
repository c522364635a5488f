"""A campaign of random functions of arrays in NumPy's spelling, under `autosched.jit`, compared with NumPy.

    python -m autosched.testing.arrays --seeds 0:500 --target llvm

A function is a list of steps on a pool of arrays: what NumPy refuses, or warns of, is left out when it is drawn. A
difference is printed with the steps as Python. The exit status is 1 when there was one.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autosched import te
from autosched.tracing import Jitted, jit
from autosched.tracing.program import described, restored

Array = np.ndarray[Any, Any]
#: types of inputs, steps of a function, elements of an array, and magnitudes beyond which rounding decides
TYPES = ("float32", "float64", "int32", "uint8", "int8", "bool", "float32")
STEPS, MOST_ELEMENTS, MOST = 8, 4000, 1e6
SLICES = (slice(1, None), slice(-1), slice(None, None, 2), slice(None, None, -1), slice(1, 3))


def assign(a: Any, b: Any) -> Any:
    """A copy with its middle replaced, in NumPy's way."""
    out = a.copy()
    out[..., 1:-1] = out[..., 2:] if a.shape[-1] > 2 else 0
    out[0] += out[-1]
    if a.shape == b.shape and a.dtype == b.dtype:  # what a negative float is as uint8, NumPy leaves to the machine
        out[..., ::2] = b[..., ::2]
    return out


#: steps over arrays `a` and `b`, an axis `k`, a small number `n`, a slice `s`, by their texts
KINDS: dict[str, Callable[[Any, Any, int, int, slice], Any]] = {
    "a + b": lambda a, b, k, n, s: a + b,
    "a - b": lambda a, b, k, n, s: a - b,
    "a * b": lambda a, b, k, n, s: a * b,
    "np.maximum(a, b)": lambda a, b, k, n, s: np.maximum(a, b),
    "np.minimum(a, n)": lambda a, b, k, n, s: np.minimum(a, n),
    "a * n": lambda a, b, k, n, s: a * n,
    "a + 0.5": lambda a, b, k, n, s: a + 0.5,
    "a / (np.abs(b) + 1)": lambda a, b, k, n, s: a / (np.abs(b) + 1),
    "np.where(a > n, b, a)": lambda a, b, k, n, s: np.where(a > n, b, a),
    "np.clip(a, 0, n)": lambda a, b, k, n, s: np.clip(a, 0, n),
    "np.abs(a)": lambda a, b, k, n, s: np.abs(a),
    "-(a + 0)": lambda a, b, k, n, s: -(a + 0),
    "np.sqrt(np.abs(a))": lambda a, b, k, n, s: np.sqrt(np.abs(a)),
    "np.exp(-np.abs(a))": lambda a, b, k, n, s: np.exp(-np.abs(a)),
    "np.tanh(a)": lambda a, b, k, n, s: np.tanh(a),
    "np.floor(a / 2)": lambda a, b, k, n, s: np.floor(a / 2),
    "a // 3": lambda a, b, k, n, s: a // 3,
    "a % 5": lambda a, b, k, n, s: a % 5,
    "(a + 0) ** 2": lambda a, b, k, n, s: (a + 0) ** 2,
    "a == b": lambda a, b, k, n, s: a == b,
    "(a > n) | (b < 1)": lambda a, b, k, n, s: (a > n) | (b < 1),
    "~(a > 0)": lambda a, b, k, n, s: ~(a > 0),
    "a.astype(np.float32)": lambda a, b, k, n, s: a.astype(np.float32),
    "a.astype(np.int32)": lambda a, b, k, n, s: a.astype(np.int32),
    "a.T": lambda a, b, k, n, s: a.T,
    "a.reshape(-1)": lambda a, b, k, n, s: a.reshape(-1),
    "a[None]": lambda a, b, k, n, s: a[None],
    "a[..., None]": lambda a, b, k, n, s: a[..., None],
    "a[s]": lambda a, b, k, n, s: a[s],
    "a[..., s]": lambda a, b, k, n, s: a[..., s],
    "a[-1]": lambda a, b, k, n, s: a[-1],
    "a[..., 0]": lambda a, b, k, n, s: a[..., 0],
    "np.flip(a, k)": lambda a, b, k, n, s: np.flip(a, k),
    "np.roll(a, n, k)": lambda a, b, k, n, s: np.roll(a, n, k),
    "np.pad(a, n, mode='edge')": lambda a, b, k, n, s: np.pad(a, n, mode="edge"),
    "np.pad(a, 1)": lambda a, b, k, n, s: np.pad(a, 1),
    "np.pad(a, n, mode='reflect')": lambda a, b, k, n, s: np.pad(a, n, mode="reflect"),
    "np.concatenate([a, a], k)": lambda a, b, k, n, s: np.concatenate([a, a], k),
    "np.stack([a, b])": lambda a, b, k, n, s: np.stack([a, b]),
    "np.repeat(a, 2, k)": lambda a, b, k, n, s: np.repeat(a, 2, k),
    "np.expand_dims(a, k)": lambda a, b, k, n, s: np.expand_dims(a, k),
    "np.squeeze(a)": lambda a, b, k, n, s: np.squeeze(a),
    "np.swapaxes(a, 0, -1)": lambda a, b, k, n, s: np.swapaxes(a, 0, -1),
    "np.tril(a)": lambda a, b, k, n, s: np.tril(a),
    "np.diagonal(a)": lambda a, b, k, n, s: np.diagonal(a),
    "a.sum(k)": lambda a, b, k, n, s: a.sum(k),
    "a.sum()": lambda a, b, k, n, s: a.sum(),
    "np.mean(a, k, keepdims=True)": lambda a, b, k, n, s: np.mean(a, k, keepdims=True),
    "a.max(k)": lambda a, b, k, n, s: a.max(k),
    "np.min(a)": lambda a, b, k, n, s: np.min(a),
    "np.var(a, k)": lambda a, b, k, n, s: np.var(a, k),
    "np.prod(a > 0, k)": lambda a, b, k, n, s: np.prod(a > 0, k),
    "np.any(a > n, k)": lambda a, b, k, n, s: np.any(a > n, k),
    "np.argmax(a, k)": lambda a, b, k, n, s: np.argmax(a, k),
    "np.cumsum(a, k)": lambda a, b, k, n, s: np.cumsum(a, k),
    "np.diff(a, axis=k)": lambda a, b, k, n, s: np.diff(a, axis=k),
    "a @ b": lambda a, b, k, n, s: a @ b,
    "a @ a.T": lambda a, b, k, n, s: a @ a.T,
    "np.outer(a, b)": lambda a, b, k, n, s: np.outer(a, b),
    "np.dot(a, b)": lambda a, b, k, n, s: np.dot(a, b),
    "np.einsum('i...,i...->...', a, a)": lambda a, b, k, n, s: np.einsum("i...,i...->...", a, a),
    "np.tensordot(a, a, ([k], [k]))": lambda a, b, k, n, s: np.tensordot(a, a, ([k], [k])),
    "np.take(a, np.array([0, -1, 0]), k)": lambda a, b, k, n, s: np.take(a, np.array([0, -1, 0]), k),
    "a[np.array([0, 0, -1])]": lambda a, b, k, n, s: a[np.array([0, 0, -1])],
    "np.convolve(a, np.array([1, 2, 1]))": lambda a, b, k, n, s: np.convolve(a, np.array([1, 2, 1])),
    "assign(a, b)": lambda a, b, k, n, s: assign(a, b),
    "np.round(a / 3, 1)": lambda a, b, k, n, s: np.round(a / 3, 1),
    "np.broadcast_to(a, (2,) + a.shape)": lambda a, b, k, n, s: np.broadcast_to(a, (2,) + a.shape),
    "sum(a[i] for i in range(len(a)))": lambda a, b, k, n, s: sum(a[i] for i in range(len(a))),
    "np.linalg.norm(a)": lambda a, b, k, n, s: np.linalg.norm(a),
    "np.count_nonzero(a > 0, k)": lambda a, b, k, n, s: np.count_nonzero(a > 0, k),
    "np.ptp(a, k)": lambda a, b, k, n, s: np.ptp(a, k),
}


@dataclass(frozen=True)
class Step:
    """One step: its text, the numbers of the values that it takes, axis, number and slice."""

    kind: str
    a: int
    b: int
    k: int
    n: int
    s: slice

    def __call__(self, v: Sequence[Any]) -> Any:
        return KINDS[self.kind](v[self.a], v[self.b], self.k, self.n, self.s)

    def __str__(self) -> str:
        cut = ":".join("" if x is None else str(x) for x in (self.s.start, self.s.stop, self.s.step))
        return f"{self.kind}  # a = v[{self.a}], b = v[{self.b}], k = {self.k}, n = {self.n}, s = {cut}"


@dataclass(frozen=True)
class Case:
    """Inputs, and steps over them and what the steps before gave; the last value is returned with `also`."""

    inputs: tuple[Array, ...]
    steps: tuple[Callable[[Sequence[Any]], Any], ...]
    also: int

    def __call__(self, *given: Any) -> Any:
        v = list(given)
        for step in self.steps:
            v.append(step(v))
        return v[-1], v[self.also] + 0

    def __str__(self) -> str:
        given = "\n".join(f"v[{k}]: {x.dtype}{list(x.shape)}" for k, x in enumerate(self.inputs))
        return "\n".join([given, *(f"v[{k}] = {s}" for k, s in enumerate(self.steps, len(self.inputs)))])


def draw(seed: int) -> Case:
    """A function that NumPy computes without a warning, and small numbers."""
    rng = np.random.default_rng(seed)
    shape = tuple(map(int, rng.integers(1, 7, rng.integers(1, 4))))
    inputs = [_input(rng, shape)]
    inputs.append(_input(rng, shape if rng.random() < 0.6 else shape[-1:]))
    v: list[Any] = list(inputs)
    steps: list[Step] = []
    kinds = sorted(KINDS)
    for _ in range(200):
        if len(steps) == STEPS:
            break
        step = Step(
            kinds[rng.integers(len(kinds))],
            _late(rng, len(v)),
            _late(rng, len(v)),
            int(rng.integers(-2, 2)),
            int(rng.integers(1, 4)),
            SLICES[rng.integers(len(SLICES))],
        )
        found = _tried(step, v)
        if found is not None:
            v.append(found)
            steps.append(step)
    return Case(tuple(inputs), tuple(steps), int(rng.integers(2, len(v))) if len(v) > 2 else 0)


def _input(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    of = str(rng.choice(TYPES))
    low = 0 if of in ("uint8", "bool") else -3
    whole = rng.integers(low, 2 if of == "bool" else 4, shape)
    return (whole + (rng.random(shape) if of.startswith("f") else 0)).astype(of)


def _late(rng: np.random.Generator, count: int) -> int:
    """One of the values, the later the likelier."""
    return int(count * np.sqrt(rng.random()))


def _is_stable(step: Step, v: Sequence[Any], found: Array) -> bool:
    """Whether operands that are a little more or less give about the same: where they do not, rounding decides."""
    for share in (1 - 3e-5, 1 + 3e-5):
        near = [x * x.dtype.type(share) if np.asarray(x).dtype.kind == "f" else x for x in map(np.asarray, v)]
        with np.errstate(all="ignore"):
            other = np.asarray(step([np.array(x) for x in near]))
        scale = float(np.abs(found.astype(np.float64)).max(initial=1.0))
        if other.shape != found.shape or not np.allclose(other.astype(float), found.astype(float), atol=1e-3 * scale):
            return False
    return True


def _tried(step: Step, v: Sequence[Any]) -> Any:
    """What NumPy makes of a step; None where it is of no use."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        try:
            found = np.asarray(step([np.array(x) for x in v]))
        except Exception:  # whatever NumPy says, the step is not drawn
            return None
    if not _is_stable(step, v, found):
        return None
    if not 0 < found.size <= MOST_ELEMENTS or found.ndim > 5 or found.dtype.kind not in "fiub":
        return None
    return found if np.abs(found.astype(np.float64)).max() <= MOST else None


def judge(case: Case, target: str | None) -> str:
    """What is wrong with a case: empty for nothing. Without a target the oracle evaluates the traced program."""
    theirs = case(*(x.copy() for x in case.inputs))
    try:
        ours = jit(target=target, effort="none")(case)(*case.inputs) if target else _by_oracle(jit(case), case)
    except Exception as error:  # what NumPy computes has to be traced, or to be refused by us
        return f"{type(error).__name__}: {error}"
    for name, a, b in zip(("the last value", f"v[{case.also}]"), ours, map(np.asarray, theirs), strict=True):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{name} is {a.dtype}{list(a.shape)}, not {b.dtype}{list(b.shape)}"
        if b.dtype.kind == "f":
            digits = {2: 2e-2, 4: 1e-3, 8: 1e-5}[b.dtype.itemsize]  # a float64 may come from float32
            if not np.allclose(a, b, rtol=digits, atol=digits * max(1.0, float(np.abs(b).max()))):
                return f"{name} differs by {np.abs(a - b).max():.3g}"
        elif not np.array_equal(a, b):
            return f"{name} differs at {np.argwhere(a != b)[0].tolist()}"
    return ""


def _by_oracle(f: Jitted, case: Case) -> Any:
    arrays: list[Any] = []
    for x in case.inputs:
        described(x, arrays)
    traced = f.traced(*case.inputs)
    found = te.reference(traced.program.args, [*(arrays[k] for k in traced.used), *traced.constants])
    return restored(traced.result, found)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a campaign; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:100", help="first:end")
    parser.add_argument("--target", default="llvm", help="what to compile for; `oracle` evaluates the traced program")
    args = parser.parse_args(argv)
    first, _, end = args.seeds.partition(":")
    wrong = 0
    for seed in range(int(first), int(end)):
        case = draw(seed)
        if why := judge(case, None if args.target == "oracle" else args.target):
            wrong += 1
            print(f"seed {seed}: {why}\n{case}\n", flush=True)
    print(f"{int(end) - int(first)} functions, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
