"""Everyday operations on arrays, built with no trial: beside PyTorch, and beside the default schedule.

    python experiments/everyday.py                # all of them, on a quiet machine: two minutes
    python experiments/everyday.py softmax bij    # those whose name has one of these
    python experiments/everyday.py --target c     # by a C compiler, or on PoCL with "opencl", beside LLVM too

Sums and extremes over each choice of axes, contractions as `einsum` writes them, norms and soft-max along each axis,
rearrangements, and functions of elements. Each is written as `te` says it, and has no record. Results are compared with
PyTorch's. All is timed in one process with one thread, in turn, in seconds of computing; the least of seven counts, so
that what else the machine does matters little. OpenCL has all threads, as LLVM beside it, and is timed by the clock.
PyTorch returns a view where it only permutes axes; here it copies.

Results go to `experiments/results/everyday.json`, those of another target to `everyday_TARGET.json`.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from common import machine, save
from torch.nn import functional

from autosched import Target, build, te
from autosched.space.workload import Workload
from autosched.te import Tensor

LLVM = "llvm -threads=1"
ROUNDS, SAMPLE_S = 7, 3e-3


class Operation(NamedTuple):
    """Inputs and the output, and the same by PyTorch."""

    args: Sequence[Tensor]
    torch: Callable[..., torch.Tensor]


def einsum(spec: str, of: Callable[..., te.Expr] = te.sum, **sizes: int) -> Operation:
    """A contraction, or what else `einsum` says: sums of an array's axes, products, permutations."""
    words, out = spec.split("->")
    inputs = [te.placeholder([sizes[c] for c in word], name=f"x{i}") for i, word in enumerate(words.split(","))]
    along = {c: te.reduce_axis((0, n), c) for c, n in sizes.items() if c in words and c not in out}

    def element(*indices: te.Expr) -> te.Expr:
        at = dict(zip(out, indices, strict=False)) | along
        factors = [x[tuple(at[c] for c in word)] for x, word in zip(inputs, words.split(","), strict=True)]
        return of(math.prod(factors[1:], start=factors[0]), axis=list(along.values())) if along else math.prod(factors)

    result = te.compute([sizes[c] for c in out] or [1], element, name="out")
    axes = tuple(words.index(c) for c in along)
    by_torch = (lambda *x: torch.einsum(spec, *x).contiguous()) if of is te.sum else (lambda x: x.amax(axes))
    return Operation([*inputs, result], by_torch)


def variance(shape: Sequence[int], axes: Sequence[int]) -> Operation:
    """In two passes, as it is defined."""
    x, count = te.placeholder(shape, name="x"), math.prod(shape[a] for a in axes)
    kept = [a for a in range(len(shape)) if a not in axes]

    def mean(name: str, value: Callable[..., te.Expr]) -> Tensor:
        along = {a: te.reduce_axis((0, shape[a]), f"{name}{a}") for a in axes}

        def total(*at: te.Expr) -> te.Expr:
            places = {**along, **dict(zip(kept, at, strict=True))}
            return te.sum(value(at, tuple(places[a] for a in range(len(shape)))), axis=list(along.values()))

        sums = te.compute([shape[a] for a in kept], total, name=f"{name}_sum")
        return te.compute(sums.shape, lambda *at: sums[at] / count, name=name)

    center = mean("center", lambda at, i: x[i])
    result = mean("variance", lambda at, i: (x[i] - center[at]) * (x[i] - center[at]))
    return Operation([x, result], lambda a: a.var(tuple(axes), correction=0))


def softmax(shape: tuple[int, ...], axis: int) -> Operation:
    x, others = te.placeholder(shape, name="x"), shape[:axis] + shape[axis + 1 :]
    k, r = (te.reduce_axis((0, shape[axis]), name) for name in "kr")

    def put(at: tuple[te.Expr, ...], along: te.Expr) -> tuple[te.Expr, ...]:
        return at[:axis] + (along,) + at[axis:]

    def cut(at: tuple[te.Expr, ...]) -> tuple[te.Expr, ...]:
        return at[:axis] + at[axis + 1 :]

    top = te.compute(others, lambda *at: te.max(x[put(at, k)], axis=k), name="top")
    e = te.compute(shape, lambda *at: te.exp(x[at] - top[cut(at)]), name="e")
    total = te.compute(others, lambda *at: te.sum(e[put(at, r)], axis=r), name="total")
    return Operation([x, te.compute(shape, lambda *at: e[at] / total[cut(at)], name="y")], lambda a: a.softmax(axis))


def elements(
    shapes: Sequence[Sequence[int]],
    out: Sequence[int],
    f: Callable[..., te.Expr],
    by_torch: Callable[..., torch.Tensor],
) -> Operation:
    """Each element of `out` is f(inputs.., indices..)."""
    inputs = [te.placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    return Operation([*inputs, te.compute(out, lambda *at: f(*inputs, *at), name="out")], by_torch)


def operations() -> Iterator[tuple[str, Operation]]:
    """All of them, by name."""
    shape, sizes = (64, 100, 256), {"i": 64, "j": 100, "k": 256}
    for count in (1, 2, 3):
        for axes in combinations(range(3), count):
            kept = "".join(c for a, c in enumerate("ijk") if a not in axes)
            yield f"sum {axes}", einsum(f"ijk->{kept}", **sizes)
            yield f"max {axes}", einsum(f"ijk->{kept}", te.max, **sizes)
            if kept:
                yield f"variance {axes}", variance(shape, axes)
    for kept in ("bhw", "chw", "bcw", "bch", "bc", "b", "c", "hw", "bh", "cw"):
        yield f"bchw->{kept}", einsum(f"bchw->{kept}", b=8, c=16, h=56, w=56)
    for axis in range(3):
        yield f"softmax {axis}", softmax(shape, axis)
    yield "softmax 0 of (5, 65536)", softmax((5, 65536), 0)
    for spec, of in SUMS.items():
        yield spec, einsum(spec, **of)
    yield from rearrangements()
    yield from functions()


#: axes of equal length, but for those of pictures and small matrices
_CUBE = dict.fromkeys("ijk", 128) | {"b": 16}
_HEADS = {"b": 2, "h": 8, "q": 128, "k": 128, "d": 64}
SUMS: dict[str, dict[str, int]] = {
    **dict.fromkeys(
        ("bij,bjk->bik", "bji,bjk->bik", "bij,bkj->bik", "bij,jk->bik", "bij,bj->bi", "bij,bi->bj", "bij,bij->bi")
        + ("bij,bij->b", "bij,j->bi", "bij,b->ij", "bij->bji", "bij->ijb", "b,i,j->bij", "bij,ik->bjk"),
        _CUBE,
    ),
    **dict.fromkeys(("bhqd,bhkd->bhqk", "bqhd,bkhd->bhqk", "bhqk,bhkd->bhqd", "bqhd->bhqd"), _HEADS),
    "i,ij,j->": {"i": 1000, "j": 1000},
    "ij,kl->ikjl": dict.fromkeys("ijkl", 30),
    "ijk,ljk->il": dict.fromkeys("ijkl", 64),
    "ijk,jkl->il": dict.fromkeys("ijkl", 64),
    "ijkl,jl->ik": dict.fromkeys("ijkl", 32),
    "aij,ajk->aik": {"a": 10000, "i": 3, "j": 3, "k": 3},
    "nc,cd->nd": {"n": 100_000, "c": 3, "d": 3},
    "nchw,oc->nohw": {"n": 4, "c": 64, "h": 28, "w": 28, "o": 64},
    "nhwc,oc->nhwo": {"n": 4, "c": 64, "h": 28, "w": 28, "o": 64},
    "ki,kj->ij": {"k": 100_000, "i": 8, "j": 8},
}


def rearrangements() -> Iterator[tuple[str, Operation]]:
    n, square = 1000, [1000, 1000]
    yield "flip", elements([square], square, lambda x, i, j: x[i, n - 1 - j], lambda x: x.flip(1))
    yield "roll", elements([square], square, lambda x, i, j: x[i, (j + 7) % n], lambda x: x.roll(-7, 1))
    yield "repeat", elements([[n, 250]], square, lambda x, i, j: x[i, j // 4], lambda x: x.repeat_interleave(4, 1))
    yield "tile", elements([[n, 250]], square, lambda x, i, j: x[i, j % 250], lambda x: x.repeat(1, 4))
    yield "every second", elements([[n, 2 * n]], square, lambda x, i, j: x[i, 2 * j], lambda x: x[:, ::2].contiguous())
    yield "differences", elements([[n, n + 1]], square, lambda x, i, j: x[i, j + 1] - x[i, j], lambda x: x.diff(dim=1))
    yield (
        "pixel shuffle",
        elements(
            [[64, 128, 128]],
            [16, 256, 256],
            lambda x, c, i, j: x[c * 4 + i % 2 * 2 + j % 2, i // 2, j // 2],
            lambda x: torch.pixel_shuffle(x, 2),
        ),
    )
    yield (
        "nearest neighbours, twice as large",
        elements(
            [[16, 128, 128]],
            [16, 256, 256],
            lambda x, c, i, j: x[c, i // 2, j // 2],
            lambda x: functional.interpolate(x[None], scale_factor=2)[0],
        ),
    )


def functions() -> Iterator[tuple[str, Operation]]:
    square = [1000, 1000]
    yield (
        "clip",
        elements([square], square, lambda x, *at: te.min(te.max(x[at], -0.5), 0.5), lambda x: x.clamp(-0.5, 0.5)),
    )
    yield (
        "gelu",
        elements([square], square, lambda x, *at: x[at] * 0.5 * (1 + te.erf(x[at] * 0.5**0.5)), functional.gelu),
    )
    yield "silu", elements([square], square, lambda x, *at: x[at] * te.sigmoid(x[at]), functional.silu)
    yield "tanh", elements([square], square, lambda x, *at: te.tanh(x[at]), torch.tanh)
    yield (
        "bias of rows",
        elements([square, [1000]], square, lambda x, b, i, j: x[i, j] + b[i], lambda x, b: x + b[:, None]),
    )
    yield (
        "bias of channels, relu",
        elements(
            [[8, 16, 56, 56], [16]],
            [8, 16, 56, 56],
            lambda x, b, n, c, i, j: te.max(x[n, c, i, j] + b[c], 0.0),
            lambda x, b: (x + b[:, None, None]).relu(),
        ),
    )


def seconds(clock: Callable[[], float], calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each, the least of some rounds in turn."""
    often, best = {}, dict.fromkeys(calls, math.inf)
    for name, call in calls.items():
        call()
        begun = clock()
        call()
        often[name] = max(1, int(SAMPLE_S / max(clock() - begun, 1e-7)))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            begun = clock()
            for _ in range(often[name]):
                call()
            best[name] = min(best[name], (clock() - begun) / often[name])
    return {name: float(f"{s:.3g}") for name, s in best.items()}


def measure(one: Operation, target: str) -> dict[str, float]:
    work = Workload("everyday", tuple(one.args))
    beside = LLVM if "threads" in target else "llvm"
    ways = {"chosen": (target, "quick"), "default": (target, "none"), "llvm": (beside, "quick")}
    if target == LLVM:
        del ways["llvm"]
    built = {name: build(work, on, records=os.devnull + ".none", effort=effort) for name, (on, effort) in ways.items()}
    arrays, out = work.sample_inputs(None), np.empty([int(n.value) for n in one.args[-1].shape], "float32")
    like = [torch.from_numpy(x) for x in arrays]
    built["chosen"](*arrays, out)
    wanted = one.torch(*like).numpy().reshape(out.shape)
    np.testing.assert_allclose(out, wanted, rtol=2e-3, atol=2e-3 * abs(wanted).max())
    calls: dict[str, Callable[[], object]] = {name: partial(call, *arrays, out) for name, call in built.items()}
    clock = time.thread_time if "threads" in target else time.perf_counter
    return seconds(clock, {**calls, "torch": lambda: one.torch(*like)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only those whose name has one of these")
    parser.add_argument("--target", default=LLVM, help="where (one thread of this machine by LLVM)")
    given = parser.parse_args()
    words, target = given.names, Target(given.target)
    to = str(target) if target.is_gpu_style or "threads" in target.options else f"{target} -threads=1"
    torch.set_num_threads(1)
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        for name, one in operations():
            if not words or any(w in name for w in words):
                rows[name] = s = measure(one, to)
                others = ", ".join(f"{by} {t / s['chosen']:6.2f}" for by, t in s.items() if by != "chosen")
                print(f"{name:36} {1e3 * s['chosen']:8.3f} ms, {others} times that", flush=True)
    ratios = {by: [s[by] / s["chosen"] for s in rows.values()] for by in next(iter(rows.values())) if by != "chosen"}
    for by, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{by}: {mean:.2f} times ours in the geometric mean of {len(found)}; least {min(found):.2f}")
    if not words:
        file = "everyday" if to == LLVM else f"everyday_{target.kind}"
        print("written to", save(file, {"machine": machine(), "operations": rows}))


if __name__ == "__main__":
    main()
