"""Kernels that a user wrote, tuned: vector addition and a tiled matrix product in OpenCL, a blur and layer norm in C.

    python experiments/raw_kernels.py [--budget SECONDS] [KERNEL...]

Prints for each what was tried and what the best configuration gains over the first. Each is also a workload
of the command line: `python -m autosched tune experiments/raw_kernels.py:matmul --budget 30s`.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np

import autosched
from autosched import raw_kernel
from autosched.kernels import build_kernel
from autosched.raw.kernel import RawKernel

VECTOR_ADD = """
__kernel void vector_add(__global float *c, __global const float *a, __global const float *b, int n) {
  int i = (get_group_id(0) * block_size_x + get_local_id(0)) * per_item;
  #pragma unroll
  for (int k = 0; k < per_item; ++k)
    if (i + k < n) c[i + k] = a[i + k] + b[i + k];
}
"""

# Each work-item computes tile_y x tile_x elements; a work-group keeps what it needs of A and B in local memory.
MATMUL = """
#define ROWS (block_size_y * tile_y)
#define COLS (block_size_x * tile_x)
__kernel void matmul(__global float *c, __global const float *a, __global const float *b, int n) {
  const int tx = get_local_id(0), ty = get_local_id(1);
  const int row = get_group_id(1) * ROWS, col = get_group_id(0) * COLS;
  float sum[tile_y][tile_x];
  for (int i = 0; i < tile_y; ++i)
    for (int j = 0; j < tile_x; ++j) sum[i][j] = 0;
#if use_local
  __local float as[ROWS][depth], bs[depth][COLS];
  for (int k0 = 0; k0 < n; k0 += depth) {
    for (int e = ty * block_size_x + tx; e < ROWS * depth; e += block_size_x * block_size_y)
      as[e / depth][e % depth] = a[(row + e / depth) * n + k0 + e % depth];
    for (int e = ty * block_size_x + tx; e < depth * COLS; e += block_size_x * block_size_y)
      bs[e / COLS][e % COLS] = b[(k0 + e / COLS) * n + col + e % COLS];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < depth; ++k)
      for (int i = 0; i < tile_y; ++i)
        for (int j = 0; j < tile_x; ++j)
          sum[i][j] += as[i * block_size_y + ty][k] * bs[k][j * block_size_x + tx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#else
  for (int k = 0; k < n; ++k)
    for (int i = 0; i < tile_y; ++i)
      for (int j = 0; j < tile_x; ++j)
        sum[i][j] += a[(row + i * block_size_y + ty) * n + k] * b[k * n + col + j * block_size_x + tx];
#endif
  for (int i = 0; i < tile_y; ++i)
    for (int j = 0; j < tile_x; ++j)
      c[(row + i * block_size_y + ty) * n + col + j * block_size_x + tx] = sum[i][j];
}
"""

# Sums of 2 * RADIUS + 1 neighbours along x, then along y, tile by tile, so that a tile's rows stay in the cache.
BLUR = """
#include <string.h>
#define WIDTH (2 * RADIUS + 1)
void blur(float *out, const float *in, int height, int width) {
  const int h = height - WIDTH + 1, w = width - WIDTH + 1;
  #pragma omp parallel for collapse(2) schedule(dynamic)
  for (int y0 = 0; y0 < h; y0 += TILE_Y)
    for (int x0 = 0; x0 < w; x0 += TILE_X) {
      float rows[TILE_Y + WIDTH - 1][TILE_X];
      const int ny = h - y0 < TILE_Y ? h - y0 : TILE_Y, nx = w - x0 < TILE_X ? w - x0 : TILE_X;
      for (int y = 0; y < ny + WIDTH - 1; ++y) {
        memset(rows[y], 0, sizeof rows[y]);
        for (int k = 0; k < WIDTH; ++k)
          for (int x = 0; x < nx; ++x) rows[y][x] += in[(y0 + y) * width + x0 + x + k];
      }
      for (int y = 0; y < ny; ++y)
        for (int x = 0; x < nx; ++x) {
          float sum = 0;
          for (int k = 0; k < WIDTH; ++k) sum += rows[y + k][x];
          out[(y0 + y) * w + x0 + x] = sum;
        }
    }
}
"""

# Rows of COLUMNS elements in vectors of 64 bytes, with rows to come fetched ahead and rows to be written claimed.
LAYER_NORM = """
#include <math.h>
typedef float vec __attribute__((vector_size(64), aligned(4)));
static inline float total(vec v) { float s = 0; for (int l = 0; l < 16; ++l) s += v[l]; return s; }
void layer_norm(float *out, const float *x, const float *gamma, const float *beta, int rows) {
  #pragma omp parallel for schedule(static)
  for (int i = 0; i < rows; ++i) {
    const float *row = x + (long)i * COLUMNS, *next = row + AHEAD * COLUMNS;
    float *to = out + (long)i * COLUMNS;
    vec sums[CHAINS] = {{0}}, squares[CHAINS] = {{0}};
    for (int j = 0; j < COLUMNS; j += 16 * CHAINS)
      for (int c = 0; c < CHAINS; ++c) {
        if (AHEAD && i + AHEAD < rows) __builtin_prefetch(next + j + 16 * c);
        sums[c] += *(const vec *)(row + j + 16 * c);
      }
    for (int c = 1; c < CHAINS; ++c) sums[0] += sums[c];
    const float mean = total(sums[0]) / COLUMNS;
    for (int j = 0; j < COLUMNS; j += 16 * CHAINS)
      for (int c = 0; c < CHAINS; ++c) {
        if (CLAIM) __builtin_prefetch(to + j + 16 * c, 1);
        vec d = *(const vec *)(row + j + 16 * c) - mean;
        squares[c] += d * d;
      }
    for (int c = 1; c < CHAINS; ++c) squares[0] += squares[c];
    const float scale = 1 / sqrtf(total(squares[0]) / COLUMNS + 1e-5f);
    for (int j = 0; j < COLUMNS; j += 16)
      *(vec *)(to + j) =
          (*(const vec *)(row + j) - mean) * scale * *(const vec *)(gamma + j) + *(const vec *)(beta + j);
  }
}
"""


@raw_kernel(tune_params={"block_size_x": [16, 64, 256, 1024], "per_item": [1, 2, 4, 8, 16]})
def vector_add(n: int = 1 << 20):
    """c = a + b, `per_item` neighbours for each work-item."""
    draw = np.random.default_rng(0)
    a, b = draw.random((2, n), dtype=np.float32)
    return {
        "kernel_source": VECTOR_ADD,
        "problem_size": n,
        "arguments": [np.zeros_like(a), a, b, np.int32(n)],
        "grid_div_x": ["block_size_x", "per_item"],
        "answer": [a + b, None, None, None],
    }


@raw_kernel
def matmul(n: int = 256):
    """c = a @ b for square matrices whose size the tiles divide."""
    draw = np.random.default_rng(0)
    a, b = (draw.integers(-4, 5, (n, n)).astype(np.float32) for _ in range(2))
    return {
        "kernel_source": MATMUL,
        "problem_size": (n, n),
        "arguments": [np.zeros_like(a), a, b, np.int32(n)],
        "tune_params": {
            "block_size_x": [4, 8, 16, 32],
            "block_size_y": [1, 2, 4, 8],
            "tile_x": [1, 2, 4, 8],
            "tile_y": [1, 2, 4, 8],
            "depth": [8, 32],
            "use_local": [0, 1],
        },
        "grid_div_x": ["block_size_x", "tile_x"],
        "grid_div_y": ["block_size_y", "tile_y"],
        "restrictions": [
            f"{n} % (block_size_x * tile_x) == 0 and {n} % (block_size_y * tile_y) == 0",
            f"{n} % depth == 0",
            "use_local or depth == 8",
            "tile_x * tile_y <= 32",
        ],
        "answer": [a @ b, None, None, None],
    }


@raw_kernel(lang="C", tune_params={"TILE_Y": [8, 16, 32, 64], "TILE_X": [64, 128, 256, 512, 1024]})
def blur(height: int = 1080, width: int = 1920, radius: int = 2):
    """Sums over (2 radius + 1)^2 pixels, in C with OpenMP."""
    image = np.random.default_rng(0).integers(0, 8, (height, width)).astype(np.float32)
    size = 2 * radius + 1
    sums = np.lib.stride_tricks.sliding_window_view(image, (size, size)).sum(axis=(2, 3))
    return {
        "kernel_source": BLUR,
        "problem_size": (height, width),
        "arguments": [np.zeros_like(sums), image, np.int32(height), np.int32(width)],
        "compiler_options": [f"-DRADIUS={radius}"],
        "restrictions": ["TILE_Y * TILE_X <= 32768"],
        "answer": [sums, None, None, None],
    }


@raw_kernel(lang="C", tune_params={"AHEAD": [0, 1, 2, 4], "CLAIM": [0, 1], "CHAINS": [2, 4, 8]})
def layer_norm(rows: int = 1024, columns: int = 1024):
    """Layer norm as a person writes it for this kind of CPU: what generated schedules are to be measured by."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(rows, columns)).astype(np.float32)
    gamma, beta = (draw.normal(size=columns).astype(np.float32) for _ in range(2))
    centred = x.astype(np.float64) - x.mean(axis=1, keepdims=True, dtype=np.float64)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    return {
        "kernel_source": LAYER_NORM,
        "problem_size": rows,
        "arguments": [np.zeros_like(x), x, gamma, beta, np.int32(rows)],
        "compiler_options": [f"-DCOLUMNS={columns}", "-ffp-contract=fast"],
        "answer": [(scaled * gamma + beta).astype(np.float32), None, None, None, None],
        "rtol": 1e-4,
        "atol": 1e-4,
    }


KERNELS = {"vector_add": vector_add, "matmul": matmul, "blur": blur, "layer_norm": layer_norm}


def report(name: str, budget_s: float, records: str) -> None:
    """Tune one kernel, build its best record, check it."""
    kernel = KERNELS[name]()
    result = autosched.tune(kernel, kernel.kind, trials=None, budget_s=budget_s, records=records)
    failed = ", ".join(f"{count} {status}" for status, count in result.failures.items()) or "none"
    print(
        f"{name}: {result.trials} of {kernel_size(kernel)} configurations in {result.elapsed_s:.0f} s, failed: {failed}"
    )
    print(f"  first {result.default_seconds * 1e6:9.1f} us")
    print(f"  best  {result.seconds * 1e6:9.1f} us, {result.speedup:.2f} x as fast: {result.knobs}")
    built = build_kernel(kernel, records=records)
    print(f"  built from {built.note}\n")


def kernel_size(kernel: RawKernel) -> int:
    return int(np.prod([len(k.values) for k in kernel.spec.parameters.knobs]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=", ".join(KERNELS))
    parser.add_argument("--budget", type=float, default=18.0, help="seconds for each; default %(default)s")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as records:
        for name in args.kernels or KERNELS:
            report(name, args.budget, records)


if __name__ == "__main__":
    main()
