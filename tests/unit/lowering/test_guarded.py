"""Several versions of a function behind conditions on sizes: the same results on every target, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import create_schedule, te
from autosched.codegen import compile_function
from autosched.errors import LowerError
from autosched.lowering import lower_structure
from autosched.lowering.versions import guarded
from autosched.runtime.module import Module
from autosched.sanitizing import sanitize
from autosched.target import Target

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
C = te.compute((n,), lambda i: B[i] + 1.0, name="C")


def blocks(target: Target, factor: int, *, exact: bool = False):
    """The two stages in blocks, which have to divide the size where they are exact."""
    s = create_schedule(C)
    for stage in (B, C):
        outer, inner = s[stage].split(stage.op.axis[0], factor=factor, disable_predication=exact)
        if target.is_gpu_style:
            s[stage].bind(outer, "blockIdx.x")
            s[stage].bind(inner, "threadIdx.x")
        else:
            s[stage].parallel(outer)
            s[stage].vectorize(inner)
    return lower_structure(s, [A, C], target, "f").bind()


def check(module: Module) -> None:
    for size in (0, 1, 8, 9, 99, 104, 500, 5000):
        a = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(module(a), a * 2 + 1)


@pytest.mark.parametrize("kind", ["llvm", "c", "opencl"])
def test_every_target_computes_the_same(kind: str, tmp_path) -> None:
    to = Target.parse(kind)
    made = guarded([(n < 100, blocks(to, 8)), (n < 1000, blocks(to, 16))], blocks(to, 32))
    module = Module(compile_function(made, to), to)
    check(module)
    module.save(tmp_path / "f.artifact")
    check(Module.load(tmp_path / "f.artifact"))


def test_kernels_and_buffers_of_other_versions_are_left_alone() -> None:
    to = Target.parse("opencl")
    meta = compile_function(guarded([(n < 100, blocks(to, 8))], blocks(to, 32)), to).meta
    assert [launch["when"] for launch in meta["launches"]] == [["lt", ["size", "n"], 100]] * 2 + [
        ["ge", ["size", "n"], 100]
    ] * 2
    assert [b["elements"][1] for b in meta["device"]] == [["lt", ["size", "n"], 100], ["ge", ["size", "n"], 100]]
    assert "when" not in compile_function(blocks(to, 8), to).meta["launches"][0]


def test_what_a_version_requires_is_asked_with_its_condition() -> None:
    to = Target.parse("llvm")
    strict = blocks(to, 8, exact=True)
    assert strict.requires
    made = guarded([(n < 100, strict)], blocks(to, 16))
    assert not made.requires
    assert "n < 100 and n % 8 == 0" in made.script()
    check(Module(compile_function(made, to), to))
    with pytest.raises(LowerError, match="does not take all sizes: B.i has n iterations"):
        guarded([(n < 100, blocks(to, 16))], strict)
    assert guarded([], strict) is not None  # alone, it may


def test_the_sanitizer_reads_it() -> None:
    to = Target.parse("llvm")
    made = guarded([(n < 100, blocks(to, 8))], blocks(to, 32))
    for size in (50, 150):
        assert sanitize(made, np.arange(size, dtype="float32")) == ()


def test_what_is_refused() -> None:
    to = Target.parse("llvm")
    m = te.var("m")
    with pytest.raises(LowerError, match="m is no condition on sizes"):
        guarded([(m < 100, blocks(to, 8))], blocks(to, 8))
    with pytest.raises(LowerError, match="is no condition on sizes"):
        guarded([(n + 1, blocks(to, 8))], blocks(to, 8))
    X = te.placeholder((n,), name="X")
    Y = te.compute((n,), lambda i: X[i] + 1.0, name="Y")
    other = lower_structure(create_schedule(Y), [X, Y], to, "f").bind()
    with pytest.raises(LowerError, match="different arguments"):
        guarded([(n < 100, other)], blocks(to, 8))
