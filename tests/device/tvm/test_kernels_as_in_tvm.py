"""What TVM's programs leave to `lower`: outputs that nobody asks for, and storage that threads compute together."""

from __future__ import annotations

import numpy as np
import pytest

from autosched import tvm
from autosched.schedule.schedule import create_schedule
from autosched.tvm import te


def chain(n: int = 50) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    return A, B, te.compute((n,), lambda i: B[i] * 2, name="C")


def check(s: te.Schedule, A: te.Tensor, C: te.Tensor, target: str) -> None:
    x, out = np.random.rand(50).astype("float32"), np.zeros(50, "float32")
    tvm.build(s, [A, C], target)(x, out)
    np.testing.assert_allclose(out, (x + 1) * 2, rtol=1e-6)


@pytest.mark.parametrize("is_read", [True, False])
def test_outputs_that_are_no_arguments(is_read: bool) -> None:
    A, B, C = chain()
    other = B if is_read else te.compute((50,), lambda i: A[i] - 7, name="other")
    s = te.create_schedule([other.op, C.op])
    assert [p.name for p in tvm.lower(s, [A, C])["main"].params] == ["A", "C"]
    assert [t.name for t in s.outputs] == [other.name, "C"]
    check(s, A, C, "llvm")
    assert [p.name for p in tvm.lower(s, [A])["main"].params] == ["A", other.name, "C"]


@tvm.testing.requires_opencl
@pytest.mark.parametrize("scope", ["local", "warp", "shared"])
def test_a_copy_that_threads_make_together(scope: str) -> None:
    A, B, C = chain()
    s = te.create_schedule(C.op)
    s[B].set_scope(scope)
    block, inner = s[C].split(C.op.axis[0], factor=16)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(inner, te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], block)
    s[B].bind(s[B].split(B.op.axis[0], factor=16)[1], te.thread_axis("threadIdx.x"))
    assert 'scope="shared"' in str(tvm.lower(s, [A, C], simple_mode=True))
    assert s[B].scope == ("shared" if scope == "warp" else scope)
    check(s, A, C, "opencl")


@tvm.testing.requires_opencl
def test_copies_in_the_memory_of_a_warp() -> None:
    A, B, C = chain()
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    read = s.cache_read(A, "warp", [B])
    block, inner = s[C].split(C.op.axis[0], factor=16)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(inner, te.thread_axis("threadIdx.x"))
    s[read].compute_at(s[C], block)
    s[read].bind(s[read].op.axis[0], te.thread_axis("threadIdx.x"))
    check(s, A, C, "opencl")
    again = te.create_schedule(C.op)
    assert again[again.cache_write(C, "warp")].scope == "shared"
    with pytest.raises(tvm.TVMError, match="no scope 'warp'"):
        create_schedule(C).cache_write(C, "warp")
