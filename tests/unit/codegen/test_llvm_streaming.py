"""Stores past the caches: which stores they are, and that they are right at any address."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autosched import te
from autosched.codegen import compile_function
from autosched.lowering import lower_structure
from autosched.runtime.module import Module
from autosched.schedule import Schedule, create_schedule
from autosched.target import Target
from autosched.te import Tensor


def plus_one(dtype: str = "float32", lanes: int = 8) -> tuple[list[Tensor], Schedule]:
    n = te.var("n")
    a = te.placeholder((n,), dtype, name="A")
    b = te.compute((n,), lambda i: (a[i] + te.const(1, dtype)).astype(dtype), name="B")
    s = create_schedule(b)
    outer, inner = s[b].split("i", factor=lanes)
    s[b].vectorize(inner)
    s[b].pragma(outer, "streaming_store")
    return [a, b], s


def module(args: list[Tensor], s: Schedule, target: Target | str = "llvm") -> Module:
    to = Target.parse(target)
    return Module(compile_function(lower_structure(s, args, to).bind(), to), to)


@pytest.mark.parametrize("parallel", [False, True])
def test_aligned_vectors_and_a_fence(parallel: bool) -> None:
    args, s = plus_one()
    if parallel:
        s["B"].parallel("i.outer")
    code = module(args, s)
    if "x86_64" not in code.artifact.meta["triple"]:
        pytest.skip("streaming stores are x86's")
    assert re.search("movntps|movntdq", code.assembly)
    assert code.assembly.count("sfence") >= 1
    assert "!nontemporal" in code.llvm_ir


def test_no_mark_no_fence() -> None:
    args, _ = plus_one()
    plain = create_schedule(args)
    assert "nontemporal" not in module(args, plain).source
    assert "sfence" not in module(args, plain).source


@pytest.mark.parametrize(("dtype", "lanes"), [("uint8", 8), ("float64", 1), ("int16", 5)])
def test_less_than_a_register_is_stored_as_ever(dtype: str, lanes: int) -> None:
    args, s = plus_one(dtype, lanes)
    code = module(args, s)
    assert "nontemporal" not in code.source
    assert np.array_equal(code(np.arange(100, dtype=dtype)), np.arange(100, dtype=dtype) + 1)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "bool"])
@pytest.mark.parametrize("parallel", [False, True])
def test_any_address(dtype: str, parallel: bool) -> None:
    """Every alignment that NumPy can produce, and nothing written around the array."""
    args, s = plus_one(dtype, 32)
    if parallel:
        s["B"].parallel("i.outer")
    code = module(args, s)
    size = np.dtype(dtype).itemsize
    for offset in range(0, 64, size):
        for length in (0, 31, 32, 100, 1000):
            memory = np.zeros(length * size + 256, np.uint8)
            start = -memory.ctypes.data % 64 + offset
            out = memory[start : start + length * size].view(dtype)
            values = (np.arange(length) % 100).astype(dtype)
            code(values, out)
            assert np.array_equal(out, (values + np.ones(1, dtype)).astype(dtype))
            out[...] = 0
            assert not memory.any()


def test_interleaved_channels_are_streamed_as_one() -> None:
    n = te.var("n")
    a = te.placeholder((n, 3), "uint8", name="A")
    b = te.compute((n, 3), lambda i, c: a[i, 2 - c], name="B")
    s = create_schedule(b)
    _, inner = s[b].split("i", factor=16)
    s[b].reorder("c", inner)
    s[b].unroll("c")
    s[b].vectorize(inner)
    s[b].pragma("c", "streaming_store")
    code = module([a, b], s)
    values = np.random.default_rng(0).integers(0, 256, (1000, 3), dtype=np.uint8)
    assert np.array_equal(code(values), values[:, ::-1])
    if "x86_64" in code.artifact.meta["triple"]:
        assert "!nontemporal" in code.source
