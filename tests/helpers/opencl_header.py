"""Launchers of exported kernels, compiled where OpenCL has a loader and no headers."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from autosched.runtime.c_compiler import require_compiler

__all__ = ["launcher", "library_path"]


def launcher(folder: Path, name: str) -> ctypes.CDLL:
    """The launcher in a folder, as a library. The test is skipped where there is no OpenCL."""
    return ctypes.CDLL(str(library_path(folder, name)))


def library_path(folder: Path, name: str) -> Path:
    """The library of a launcher, with main.c compiled, too."""
    pytest.importorskip("pyopencl").get_platforms()
    loader = [line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libOpenCL" in line]
    if not loader:
        pytest.skip("OpenCL's loader is not a file of this process")
    (folder / "headers" / "CL").mkdir(parents=True, exist_ok=True)
    (folder / "headers" / "CL" / "cl.h").write_text(_CL)
    commands = [
        ["make", "CFLAGS=-Iheaders", "main.o", f"{name}.o"],
        [*require_compiler("test").command, "-shared", f"{name}.o", loader[0], "-o", f"lib{name}.so"],
    ]
    for command in commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / f"lib{name}.so"


#: what launchers use of OpenCL's header, by the specification
_CL = """\
#include <stddef.h>
#include <stdint.h>
typedef int32_t cl_int;
typedef uint32_t cl_uint, cl_bool, cl_program_build_info;
typedef uint64_t cl_ulong, cl_device_type, cl_mem_flags, cl_command_queue_properties;
typedef uint64_t cl_device_fp_config;
typedef uint32_t cl_device_info;
typedef intptr_t cl_context_properties;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;
#define CL_SUCCESS 0
#define CL_DEVICE_NOT_FOUND -1
#define CL_OUT_OF_HOST_MEMORY -6
#define CL_FALSE 0
#define CL_TRUE 1
#define CL_DEVICE_TYPE_ALL 0xFFFFFFFF
#define CL_MEM_READ_WRITE 1
#define CL_PROGRAM_BUILD_LOG 0x1183
#define CL_DEVICE_SINGLE_FP_CONFIG 0x101B
#define CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT (1 << 7)
cl_int clGetPlatformIDs(cl_uint, cl_platform_id *, cl_uint *);
cl_int clGetDeviceIDs(cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *);
cl_int clGetDeviceInfo(cl_device_id, cl_device_info, size_t, void *, size_t *);
cl_context clCreateContext(const cl_context_properties *, cl_uint, const cl_device_id *,
                           void (*)(const char *, const void *, size_t, void *), void *, cl_int *);
cl_command_queue clCreateCommandQueue(cl_context, cl_device_id, cl_command_queue_properties, cl_int *);
cl_mem clCreateBuffer(cl_context, cl_mem_flags, size_t, void *, cl_int *);
cl_program clCreateProgramWithSource(cl_context, cl_uint, const char **, const size_t *, cl_int *);
cl_int clBuildProgram(cl_program, cl_uint, const cl_device_id *, const char *, void (*)(cl_program, void *), void *);
cl_int clGetProgramBuildInfo(cl_program, cl_device_id, cl_program_build_info, size_t, void *, size_t *);
cl_kernel clCreateKernel(cl_program, const char *, cl_int *);
cl_int clSetKernelArg(cl_kernel, cl_uint, size_t, const void *);
cl_int clEnqueueWriteBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, const cl_event *,
                            cl_event *);
cl_int clEnqueueReadBuffer(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *,
                           cl_event *);
cl_int clEnqueueNDRangeKernel(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *,
                              cl_uint, const cl_event *, cl_event *);
cl_int clFinish(cl_command_queue);
cl_int clReleaseKernel(cl_kernel);
cl_int clReleaseMemObject(cl_mem);
cl_int clReleaseProgram(cl_program);
cl_int clReleaseCommandQueue(cl_command_queue);
cl_int clReleaseContext(cl_context);
"""
