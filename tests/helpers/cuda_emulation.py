"""CUDA kernels run without a GPU: compiled as C++ by g++, driven by a stand-in for CUDA's driver.

The work-items of a group take turns: each runs on a stack of its own until it meets a barrier or
its end. That all of them stop at barriers equally often is checked, memory of the device is memory
of the host, and `__shared__` is what it says because one group runs at a time.

    with_emulated_cuda(monkeypatch)        # from here on modules for "cuda" run
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from autosched.codegen.dialects import CUDA
from autosched.errors import BuildError
from autosched.runtime import cuda
from autosched.runtime import cuda as cuda_driver

_SHIM = r"""
#include <cmath>
#include <cstring>
#include <ucontext.h>
#include <utility>
#include <vector>
using std::exp; using std::exp2; using std::log; using std::log2; using std::log10; using std::log1p; using std::sin;
using std::cos; using std::tan; using std::asin; using std::acos; using std::atan; using std::sinh; using std::cosh;
using std::tanh; using std::asinh; using std::acosh; using std::atanh; using std::erf; using std::sqrt; using std::floor;
using std::ceil; using std::trunc; using std::round; using std::rint; using std::pow; using std::fmod; using std::atan2;
using std::hypot; using std::copysign; using std::nextafter; using std::ldexp; using std::fabs;
using std::isnan; using std::isinf; using std::isfinite;
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static
template <class T> T rsqrt(T x) { return 1 / sqrt(x); }
template <class T> T exp10(T x) { return pow(T(10), x); }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static int __clzll(unsigned long long x) { return x ? __builtin_clzll(x) : 64; }
static float __int_as_float(int x) { float f; memcpy(&f, &x, 4); return f; }
static int __float_as_int(float x) { int i; memcpy(&i, &x, 4); return i; }
struct dim3 { unsigned x, y, z; };
static dim3 blockIdx, threadIdx;
static ucontext_t scheduler;
struct Item { ucontext_t context; std::vector<char> stack; dim3 place; int barriers; bool done; };
static Item* current;
static void __syncthreads() { current->barriers++; swapcontext(&current->context, &scheduler); }
static void (*body)(void**);
static void** arguments;
static void start() { body(arguments); current->done = true; }
template <class... A, size_t... I> void call(void (*f)(A...), void** p, std::index_sequence<I...>) { f(*(A*)p[I]...); }
template <class... A> void call(void (*f)(A...), void** p) { call(f, p, std::index_sequence_for<A...>()); }
static int run_group(dim3 block) {
  std::vector<Item> items(block.x * block.y * block.z);
  for (size_t i = 0; i < items.size(); ++i) {
    Item& item = items[i];
    item.place = {unsigned(i) % block.x, unsigned(i) / block.x % block.y, unsigned(i) / block.x / block.y};
    item.barriers = 0;
    item.done = false;
    item.stack.resize(1 << 16);
    getcontext(&item.context);
    item.context.uc_stack.ss_sp = item.stack.data();
    item.context.uc_stack.ss_size = item.stack.size();
    item.context.uc_link = &scheduler;
    makecontext(&item.context, start, 0);
  }
  for (bool busy = true; busy;) {
    busy = false;
    for (Item& item : items) {
      if (item.done) continue;
      current = &item;
      threadIdx = item.place;
      swapcontext(&scheduler, &item.context);
      busy |= !item.done;
    }
    for (Item& item : items)
      if (item.barriers != items[0].barriers || item.done != items[0].done) return 1;  // a barrier not all reach
  }
  return 0;
}
extern "C" int run_grid(void (*f)(void**), void** p, const unsigned* grid, const unsigned* block) {
  body = f;
  arguments = p;
  for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid[0]; ++blockIdx.x)
        if (run_group({block[0], block[1], block[2]})) return 719;
  return 0;
}
#line 1 "kernel.cu"
"""

#: assembly of the GPU, as C++ of the host
_HALVES = """
static float load_half(const uint16* p) { _Float16 h; memcpy(&h, p, 2); return h; }
template <class T> static void store_half(T x, uint16* p) { _Float16 h = x; memcpy(p, &h, 2); }
template <int N, class V> static V load_half_vector(const uint16* p) {
  V r;
  for (int i = 0; i < N; ++i) r.s[i] = load_half(p + i);
  return r;
}
template <int N, class V> static void store_half_vector(V x, uint16* p) {
  for (int i = 0; i < N; ++i) store_half(x.s[i], p + i);
}
"""


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cuda_emulation")


def compile_with_gcc(source: str, arch: str, *, to: str = "cubin", options: Sequence[str] = ()) -> bytes:
    """In place of `compile_cuda_source`: the path of a shared library."""
    host = source.replace(CUDA.halves["float16"].preamble, _HALVES)
    host = host.replace(CUDA.of_kernels.shared_preamble, "alignas(16) static unsigned char dynamic_shared[1 << 16];")
    name = hashlib.sha256(" ".join([host, *options]).encode()).hexdigest()[:16]
    text, library = Path(_folder().name, f"{name}.cpp"), Path(_folder().name, f"{name}.so")
    kernels = [line.split("(")[0].split()[-1] for line in source.splitlines() if line.startswith("void ")]
    entries = [f'extern "C" void entry_{k}(void** p) {{ call({k}, p); }}' for k in kernels]
    text.write_text("\n".join([_SHIM, host, *entries]))
    flags = ["-std=c++17", "-O0", "-fwrapv", "-w", "-shared", "-fPIC", "-fno-math-errno", *options]
    done = subprocess.run(["g++", *flags, str(text), "-o", str(library)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError("g++ refuses the source", asked="emulated CUDA", legal=done.stderr[:4000])
    return str(library).encode()


class EmulatedDriver:
    """The driver's functions, as far as `cuda_driver` calls them."""

    def __init__(self) -> None:
        self.memory: dict[int, Any] = {}
        self.modules: list[ctypes.CDLL] = []
        self.functions: list[tuple[ctypes.CDLL, Any]] = []
        self.launched: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def __getattr__(self, name: str) -> Any:  # contexts, events and waiting: nothing to do
        return lambda *args: 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def cuDeviceGetName(self, name: Any, length: int, device: Any) -> int:
        name.value = b"emulated"
        return 0

    def cuDeviceTotalMem_v2(self, total: Any, device: Any) -> int:
        total._obj.value = 1 << 30
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, device: Any) -> int:
        value._obj.value = {8: 48 * 1024, 10: 32, 16: 4, 75: 8, 76: 0, 4: 64}.get(number, 1024)
        return 0

    def cuMemAlloc_v2(self, address: Any, length: Any) -> int:
        block = ctypes.create_string_buffer(length.value + 64)
        aligned = -(-ctypes.addressof(block) // 64) * 64
        self.memory[aligned] = block
        address._obj.value = aligned
        return 0

    def cuMemFree_v2(self, address: Any) -> int:
        return 0 if self.memory.pop(address.value, None) is not None else 1

    def cuMemcpyHtoD_v2(self, to: Any, source: Any, length: Any) -> int:
        ctypes.memmove(to.value, source.value, length.value)
        return 0

    def cuMemcpyDtoH_v2(self, to: Any, source: Any, length: Any) -> int:
        ctypes.memmove(to.value, source.value, length.value)
        return 0

    def cuModuleLoadData(self, module: Any, code: bytes) -> int:
        self.modules.append(ctypes.CDLL(code.decode()))
        module._obj.value = len(self.modules)
        return 0

    def cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> int:
        library = self.modules[module.value - 1]
        self.functions.append((library, getattr(library, f"entry_{name.decode()}")))
        function._obj.value = len(self.functions)
        return 0

    def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        library, entry = self.functions[function.value - 1]
        grid, block, shared, pointers = rest[:3], rest[3:6], rest[6], rest[8]
        assert shared <= 1 << 16
        self.launched.append((grid, block))
        three = ctypes.c_uint * 3
        return int(library.run_grid(entry, pointers, three(*grid), three(*block)))

    def cuEventElapsedTime(self, milliseconds: Any, start: Any, end: Any) -> int:
        milliseconds._obj.value = 1.0
        return 0


def with_emulated_cuda(monkeypatch: pytest.MonkeyPatch) -> EmulatedDriver:
    """Let modules for CUDA run in this test. Skips where there is no g++."""
    if shutil.which("g++") is None:
        pytest.skip("emulating CUDA takes g++")
    driver = EmulatedDriver()
    monkeypatch.setattr(cuda_driver, "load_driver", lambda: driver)
    monkeypatch.setattr(cuda_driver, "_sessions", {})
    monkeypatch.setattr(cuda, "compile_cuda_source", compile_with_gcc)
    return driver
