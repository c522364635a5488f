"""Loading and running CPU kernels: binding, timing, workspaces, threads and refusals."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from autosched import runtime
from autosched.codegen import compile_function
from autosched.codegen.artifact import Artifact
from autosched.errors import BuildError
from autosched.ir.dtype import dtype
from autosched.ir.expr import const, var
from autosched.ir.stmt import Allocate, Buffer, For, Function, Seq, Store, load
from autosched.runtime import cpu
from autosched.runtime import jit as openmp
from autosched.runtime.jit import Arena
from autosched.target import Target


def doubled(kind: str = "parallel", name: str = "doubled") -> Function:
    """out[i] = 2 * a[i], by way of a buffer as long as the argument."""
    n = var("n", role="size")
    a, out = Buffer("a", (n,), dtype("float64")), Buffer("out", (n,), dtype("float64"))
    twice = Buffer("twice", (n,), dtype("float64"))
    i, j = var("i", role="loop"), var("j", role="loop")
    fill = For(i, const(0), n, kind, Store(twice, (i,), load(a, i) + load(a, i)))
    drain = For(j, const(0), n, kind, Store(out, (j,), load(twice, j)))
    return Function(name, (a, out), (n,), Allocate(twice, Seq((fill, drain))), (1,))


TARGET = Target.parse("llvm -threads=2")


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return compile_function(doubled(), TARGET)


def test_run_and_time(artifact: Artifact) -> None:
    kernel = runtime.load(artifact, TARGET)
    a, out = np.arange(1000.0), np.zeros(1000)
    call = kernel.bind([a, out])
    call.upload()
    call.run()
    call.fetch()
    np.testing.assert_array_equal(out, 2 * a)
    began = time.perf_counter()
    seconds = call.time(20)
    elapsed = time.perf_counter() - began
    assert 0 < seconds * 20 <= elapsed


def test_a_call_sees_later_values(artifact: Artifact) -> None:
    """Binding fixes memory, not contents."""
    a, out = np.ones(10), np.zeros(10)
    call = runtime.load(artifact, TARGET).bind([a, out])
    a[:] = 5
    call.run()
    np.testing.assert_array_equal(out, np.full(10, 10.0))


def test_binding_keeps_arrays_alive(artifact: Artifact) -> None:
    out = np.zeros(100_000)
    call = runtime.load(artifact, TARGET).bind([np.full(100_000, 3.0), out])
    np.full(100_000, 9.0)  # would take the memory of an array that was let go
    call.run()
    np.testing.assert_array_equal(out, np.full(100_000, 6.0))


def test_empty_arrays(artifact: Artifact) -> None:
    runtime.load(artifact, TARGET).bind([np.zeros(0), np.zeros(0)]).run()


def test_binding_checks(artifact: Artifact) -> None:
    kernel = runtime.load(artifact, TARGET)
    with pytest.raises(BuildError, match="argument 'a': needs float64, got float32"):
        kernel.bind([np.zeros(3, np.float32), np.zeros(3)])
    with pytest.raises(BuildError, match="takes 2 arrays, got 1"):
        kernel.bind([np.zeros(3)])


def test_many_kernels_of_one_name() -> None:
    """Each artifact is linked on its own; unloading one leaves the others."""
    kernels = [runtime.load(compile_function(doubled("serial"), TARGET), TARGET) for _ in range(3)]
    del kernels[1]
    for kernel in kernels:
        out = np.zeros(4)
        kernel.bind([np.arange(4.0), out]).run()
        np.testing.assert_array_equal(out, 2 * np.arange(4.0))


def test_python_threads_have_workspaces_of_their_own(artifact: Artifact) -> None:
    """Several Python threads run the same call on the same kernel at once."""
    kernel = runtime.load(artifact, TARGET)
    wrong: list[int] = []

    def work(seed: int) -> None:
        a, out = np.full(20_000, float(seed)), np.zeros(20_000)
        call = kernel.bind([a, out])
        for _ in range(50):
            out[:] = 0
            call.run()
            if not (out == 2 * seed).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_workspace_grows_and_is_aligned() -> None:
    arena = Arena()
    small = arena.address(100, "f")
    assert small % 64 == 0
    assert arena.address(50, "f") == small
    assert arena.address(1 << 20, "f") % 64 == 0


def test_a_workspace_that_cannot_be_had() -> None:
    with pytest.raises(MemoryError, match="doubled needs a workspace of 4,611,686,018,427,387,904 bytes"):
        Arena().address(1 << 62, "doubled")


def test_code_for_another_machine_is_refused(artifact: Artifact) -> None:
    newer = runtime.load(replace(artifact, meta={**artifact.meta, "features": "+sse2,+quantum"}), TARGET)
    with pytest.raises(BuildError, match=r"lacks: .*quantum"):
        newer.bind([])
    foreign = runtime.load(replace(artifact, meta={**artifact.meta, "triple": "s390x-unknown-linux-gnu"}), TARGET)
    with pytest.raises(BuildError, match="the code is for s390x"):
        foreign.bind([])


@pytest.mark.parametrize(
    ("options", "lacks"),
    [
        ("-mcpu=haswell", ""),
        ("-mcpu=znver4", "avx512bf16, avx512f, avx512vnni"),
        ("-mcpu=alderlake", "avxvnni"),
        ("-mcpu=znver4 -mattr=-avx512f", ""),
        ("-mcpu=haswell -mattr=+avx512f", "avx512f"),
    ],
)
def test_code_for_a_cpu_that_has_more_is_refused(options: str, lacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a name implies is asked of LLVM; the machine here is one without AVX-512, whichever it is."""
    if cpu.host()[0] != "x86_64":
        pytest.skip("names of x86 CPUs")
    of_haswell = frozenset(("avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "popcnt"))
    monkeypatch.setattr(cpu, "host", lambda: ("x86_64", of_haswell))
    target = Target.parse(f"llvm {options}")
    code = compile_function(doubled(), target)
    kernel = runtime.load(code, target)  # to be exported
    if lacks:
        with pytest.raises(BuildError, match=f"lacks: {lacks}"):
            kernel.bind([])
    else:
        assert isinstance(kernel, cpu.CpuKernel)


def test_code_that_does_not_link_is_refused(artifact: Artifact) -> None:
    with pytest.raises(BuildError, match="cannot be loaded"):
        runtime.load(replace(artifact, meta={**artifact.meta, "entry": "someone_else"}), TARGET)
    with pytest.raises(BuildError, match="cannot be loaded"):
        runtime.load(replace(artifact, code=artifact.code[:100]), TARGET)


def test_unknown_kinds_are_refused(artifact: Artifact) -> None:
    with pytest.raises(BuildError, match="no runtime loads such code"):
        runtime.load(replace(artifact, kind="abacus"), TARGET)


def test_old_cpus_have_float16_too() -> None:
    """Without conversion instructions, half precision calls a library."""
    a, out = Buffer("a", (const(8),), dtype("float16")), Buffer("out", (const(8),), dtype("float16"))
    i = var("i", role="loop")
    body = For(i, const(0), const(8), "serial", Store(out, (i,), load(a, i) + load(a, i)))
    function = Function("f", (a, out), (), body, (1,))
    target = Target.parse("llvm -mattr=-f16c,-avx512fp16,-avx512f,-avx512vl")
    artifact = compile_function(function, target)
    if not artifact.meta["triple"].startswith("x86_64"):
        target = Target.parse("llvm")
        artifact = compile_function(function, target)
    x, result = np.linspace(-3, 3, 8).astype(np.float16), np.zeros(8, np.float16)
    runtime.load(artifact, target).bind([x, result]).run()
    np.testing.assert_array_equal(result, x + x)


# -- the OpenMP runtime ---------------------------------------------------------------------------


def test_openmp_is_found_where_a_wheel_brings_it() -> None:
    """scikit-learn is a dependency, and its wheel carries a runtime."""
    found = openmp.find()
    assert found is not None
    assert all(found.addresses[name] for name in openmp.SYMBOLS)
    assert openmp.open_openmp(found.path) is not None
    assert openmp.open_openmp("/no/such/libgomp.so") is None


def test_bundled_runtimes_are_located_without_importing() -> None:
    script = (
        "import sys; sys.path[:] = %r; from autosched.runtime import jit; print(*jit.bundled_runtimes(), sep='\\n'); "
        "assert not {'sklearn', 'xgboost', 'torch'} & set(sys.modules)" % [p for p in sys.path if p]
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "gomp" in done.stdout or "omp" in done.stdout


def test_a_loaded_runtime_comes_first() -> None:
    found = openmp.find()
    assert found is not None
    if sys.platform == "linux":
        assert found.path in set(openmp.loaded_runtimes())


def test_without_openmp_loops_run_on_one_thread(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same code works, a warning is given once."""
    for module, function in ((cpu, cpu.runtime_of), (openmp, openmp.find_or_warn)):
        monkeypatch.setattr(module, function.__name__, lru_cache(function.__wrapped__))  # with nothing cached yet
    monkeypatch.setattr(openmp, "find", lambda: None)
    monkeypatch.setenv("AUTOSCHED_THREADS", "openmp")
    with pytest.warns(RuntimeWarning, match="no OpenMP runtime"):
        kernel = runtime.load(artifact, TARGET)
    runtime.load(artifact, TARGET)
    out = np.zeros(1000)
    kernel.bind([np.arange(1000.0), out]).run()
    np.testing.assert_array_equal(out, 2 * np.arange(1000.0))


SCATTERED_MEMORY = """
import ctypes, mmap
import numpy as np
from autosched import build, create_schedule, te

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

def reserve(size):
    return libc.mmap(None, size, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, -1, 0)  # MAP_NORESERVE

def kernel(factor):
    a = te.placeholder((64,), "float32", name="a")
    b = te.compute((64,), lambda i: te.exp(a[i] * factor) + 1.618, name="b")
    return build(create_schedule(b), "llvm", args=[a, b])

kernel(0.5)  # libraries are in their places
page = mmap.PAGESIZE
wide = reserve(6 << 30)
above = []
while (piece := reserve(page)) is not None and piece > wide and len(above) < 60_000:
    above.append(piece)
print(len(above))
x, y = np.ones(64, np.float32), np.empty(64, np.float32)
for n in range(4):  # a hole of one page far from all others, for the first section that asks
    libc.munmap(above[7 * n % len(above)], page)
    kernel(n + 0.37)(x, y)
    assert abs(y[0] - (np.exp(n + 0.37) + 1.618)) < 1e-4 * y[0]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux gives out the highest hole that is large enough")
def test_code_and_constants_lie_together_whatever_holes_there_are() -> None:
    done = subprocess.run([sys.executable, "-c", SCATTERED_MEMORY], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 3  # there were holes far away
