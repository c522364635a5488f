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

#: templates of steps over arrays `{a}` and `{b}`, an axis `{k}`, a slice of an axis `{s}`, small numbers `{n}`
TEMPLATES = (
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "np.maximum({a}, {b})", "np.minimum({a}, {n})", "{a} * {n}", "{a} + 0.5",
    "{a} / (np.abs({b}) + 1)", "np.where({a} > {n}, {b}, {a})", "np.clip({a}, 0, {n})", "np.abs({a})", "-({a} + 0)",
    "np.sqrt(np.abs({a}))", "np.exp(-np.abs({a}))", "np.tanh({a})", "np.floor({a} / 2)", "{a} // 3", "{a} % 5",
    "{a} ** 2", "{a} == {b}", "({a} > {n}) | ({b} < 1)", "~({a} > 0)", "{a}.astype(np.float32)",
    "{a}.astype(np.int32)", "{a}.T", "{a}.reshape(-1)", "{a}[None]", "{a}[..., None]", "{a}[{s}]", "{a}[..., {s}]",
    "{a}[-1]", "{a}[..., 0]", "np.flip({a}, {k})", "np.roll({a}, {n}, {k})", "np.pad({a}, {n}, mode='edge')",
    "np.pad({a}, 1)", "np.pad({a}, {n}, mode='reflect')", "np.concatenate([{a}, {a}], {k})", "np.stack([{a}, {b}])",
    "np.repeat({a}, 2, {k})", "np.expand_dims({a}, {k})", "np.squeeze({a})", "np.swapaxes({a}, 0, -1)",
    "np.tril({a})", "np.diagonal({a})", "{a}.sum({k})", "{a}.sum()", "np.mean({a}, {k}, keepdims=True)",
    "{a}.max({k})", "np.min({a})", "np.var({a}, {k})", "np.prod({a} > 0, {k})", "np.any({a} > {n}, {k})",
    "np.argmax({a}, {k})", "np.cumsum({a}, {k})", "np.diff({a}, axis={k})", "{a} @ {b}", "{a} @ {a}.T",
    "np.outer({a}, {b})", "np.dot({a}, {b})", "np.einsum('i...,i...->...', {a}, {a})",
    "np.tensordot({a}, {a}, ([{k}], [{k}]))", "np.take({a}, np.array([0, -1, 0]), {k})",
    "{a}[np.array([0, 0, -1])]", "np.convolve({a}, np.array([1, 2, 1]))", "assign({a}, {b})",
    "np.round({a} / 3, 1)", "np.broadcast_to({a}, (2,) + {a}.shape)", "sum({a}[i] for i in range(len({a})))",
    "np.linalg.norm({a})", "np.count_nonzero({a} > 0, {k})", "np.ptp({a}, {k})",
)  # fmt: skip


def assign(a: Any, b: Any) -> Any:
    """A copy with its middle replaced, in NumPy's way."""
    out = a.copy()
    out[..., 1:-1] = out[..., 2:] if a.shape[-1] > 2 else 0
    out[0] += out[-1]
    if a.shape == b.shape:
        out[..., ::2] = b[..., ::2]
    return out


@dataclass(frozen=True)
class Case:
    """Inputs, and steps: the text of each, over `v[0]`, `v[1]` and so on; the last is returned with `also`."""

    inputs: tuple[Array, ...]
    steps: tuple[str, ...]
    also: int

    def function(self) -> Callable[..., Any]:
        """The steps as a function of the inputs."""
        body = "\n".join(f"    v.append({step})" for step in self.steps)
        text = f"def f(*given):\n    v = list(given)\n{body}\n    return v[-1], v[{self.also}] + 0\n"
        scope: dict[str, Any] = {"np": np, "assign": assign}
        exec(compile(text, "<case>", "exec"), scope)
        found: Callable[..., Any] = scope["f"]
        return found

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
    steps: list[str] = []
    for _ in range(200):
        if len(steps) == STEPS:
            break
        step = str(rng.choice(TEMPLATES)).format(
            a=f"v[{_late(rng, len(v))}]", b=f"v[{_late(rng, len(v))}]", k=int(rng.integers(-2, 2)),
            n=int(rng.integers(1, 4)), s=str(rng.choice(["1:", ":-1", "::2", "::-1", "1:3"])),
        )  # fmt: skip
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


def _tried(step: str, v: Sequence[Any]) -> Any:
    """What NumPy makes of a step; None where it is of no use."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        try:
            found = np.asarray(eval(step, {"np": np, "assign": assign, "v": [np.array(x) for x in v]}))
        except Exception:  # whatever NumPy says, the step is not drawn
            return None
    if not 0 < found.size <= MOST_ELEMENTS or found.ndim > 5 or found.dtype.kind not in "fiub":
        return None
    return found if np.abs(found.astype(np.float64)).max() <= MOST else None


def judge(case: Case, target: str | None) -> str:
    """What is wrong with a case: empty for nothing. Without a target the oracle evaluates the traced program."""
    f = case.function()
    theirs = f(*(x.copy() for x in case.inputs))
    try:
        ours = jit(target=target, effort="none")(f)(*case.inputs) if target else _by_oracle(jit(f), case)
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
