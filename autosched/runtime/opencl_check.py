"""A small program that a working OpenCL device runs correctly: does its driver compile what we generate?

Run it in a process of its own: a driver that fails it may crash.
"""

from __future__ import annotations

import warnings

import numpy as np

from autosched.errors import DeviceError
from autosched.runtime.opencl_devices import DeviceInfo, open_session, opencl

__all__ = ["check_device"]

_ITEMS, _STEPS = 8, 8

#: Vectors of every width through the driver's own library, whose calling convention has to be the kernel's;
#: and work-groups that are partly beyond the end, which meet at barriers in a loop.
_SOURCE = """
__kernel void vectors(__global const float* x, __global float* y) {
  vstore16(exp(vload16(0, x)), 0, y);
  vstore8(exp(vload8(0, x)), 2, y);
  vstore4(exp(vload4(0, x)), 6, y);
}

__kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void sums(__global const float* a, __global const float* x, __global float* y, int n) {
  __local float part[8];
  const int row = get_group_id(0) * 8 + get_local_id(0);
  float sum = 0.0f;
  for (int outer = 0; outer < 8; ++outer) {
    barrier(CLK_LOCAL_MEM_FENCE);
    part[get_local_id(0)] = x[outer * 8 + get_local_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < 8; ++k) if (row < n) sum = sum + a[row * 64 + outer * 8 + k] * part[k];
  }
  if (row < n) y[row] = sum;
}
"""


def check_device(info: DeviceInfo) -> str:
    """What the device gets wrong, in words; empty where it works. Raises DeviceError if it cannot be opened."""
    cl = opencl()
    session = open_session(info)
    rng = np.random.default_rng(0)

    def run(name: str, count: int, inputs: list[np.ndarray], sizes: list[np.int32], groups: int) -> np.ndarray:
        output = np.full(count, np.nan, np.float32)
        copied = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(session.context, copied, hostbuf=a) for a in (*inputs, output)]
        kernel = cl.Kernel(program, name)
        kernel.set_args(*buffers, *sizes)
        cl.enqueue_nd_range_kernel(session.queue, kernel, (groups * _ITEMS,), (_ITEMS,))
        cl.enqueue_copy(session.queue, output, buffers[-1])
        session.queue.finish()
        return output

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = cl.Program(session.context, _SOURCE).build()
        x = np.linspace(-3, 3, 16, dtype=np.float32)
        wanted = np.exp(np.concatenate([x, x[:8], x[:4]]))
        if not np.allclose(run("vectors", wanted.size, [x], [], 1), wanted, rtol=1e-5):
            return "vectors are computed wrongly"
        for rows in (33, 39, 48):
            a = rng.integers(-4, 4, (rows, _ITEMS * _STEPS)).astype(np.float32)
            v = rng.integers(-4, 4, _ITEMS * _STEPS).astype(np.float32)
            if not np.array_equal(run("sums", rows, [a, v], [np.int32(rows)], -(-rows // _ITEMS)), a @ v):
                return "work-groups that are not full compute wrong sums between barriers"
    except cl.Error as error:
        raise DeviceError(f"it does not run a small program: {error}", asked=f"device {info.name!r}") from None
    return ""
