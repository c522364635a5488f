"""A launcher in C for a program of OpenCL kernels."""

from __future__ import annotations

from string import Template
from typing import Any

from autosched.codegen.artifact import Artifact
from autosched.codegen.c_program import c_name, declared
from autosched.codegen.c_text import Names
from autosched.codegen.dialects import C
from autosched.codegen.signature import Signature
from autosched.graph.linking import bytes_of, weight_offsets
from autosched.graph.program import Program
from autosched.ir.dtype import dtype

_HEADER = Template("""\
#ifndef ${upper}_H
#define ${upper}_H

/* $name on a device of OpenCL 1.2. float16 is uint16_t (its bits), bool is uint8_t (0 or 1). */

#include <stdint.h>

struct $name;

/* Open a device, the first one of the system or that of number AUTOSCHED_DEVICE of the environment, build `source`
   ($name.cl) and put the weights there; they may go afterwards. NULL where that fails: standard error says why. */
struct $name *${name}_open(const char *source, const uint8_t *weights);

/* Run once. Arrays lie in memory row by row, without gaps.
   $told
   Returns 0, or the number of an error of OpenCL. */
int32_t $name(struct $name *device$takes);

/* Give back all that ${name}_open took. */
void ${name}_close(struct $name *device);

#endif
""")

_SOURCE = Template("""\
// $name: launches of $name.cl, in order. C99, OpenCL 1.2.
#define CL_TARGET_OPENCL_VERSION 120
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif

#include "$name.h"

enum { INPUTS = $inputs, WEIGHTS = $weights, OUTPUTS = $outputs, BUFFERS = $buffers, LAUNCHES = $launches };

// Bytes of each buffer: inputs, weights, outputs, intermediates; and where each weight begins.
static const size_t sizes[] = {
$sizes};
static const size_t starts[] = {
$starts};

// An argument is the number of a buffer, or, below zero, so many bytes of memory of each work-group.
static const long arguments[] = {
$arguments};
static const struct launch {
  const char *kernel;
  size_t extents[3], block[3];
  int first, count;  // arguments
} launches[] = {
$table};

struct $name {
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_mem buffers[BUFFERS + 1];
  cl_kernel kernels[LAUNCHES + 1];
};

#define TRY(call)                          \\
  do {                                     \\
    const cl_int error_of_call = call;     \\
    if (error_of_call != CL_SUCCESS) return error_of_call; \\
  } while (0)

static cl_int find_device(cl_device_id *found) {
  enum { MOST = 16 };
  const char *const asked = getenv("AUTOSCHED_DEVICE");
  long number = asked == NULL ? 0 : strtol(asked, NULL, 10);
  cl_platform_id platforms[MOST];
  cl_device_id devices[MOST];
  cl_uint platform_count = 0, count;
  TRY(clGetPlatformIDs(MOST, platforms, &platform_count));
  for (cl_uint p = 0; p < platform_count && p < MOST; ++p) {
    if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST, devices, &count) != CL_SUCCESS) continue;
    for (cl_uint d = 0; d < count && d < MOST; ++d) {
      if (number-- == 0) {
        *found = devices[d];
        return CL_SUCCESS;
      }
    }
  }
  return CL_DEVICE_NOT_FOUND;
}

static char *text_of(const char *path) {
  FILE *const file = fopen(path, "rb");
  char *text = NULL;
  size_t length = 0;
  if (file == NULL) return NULL;
  for (size_t room = 1 << 16;; room *= 2) {
    char *const more = realloc(text, room + 1);
    if (more == NULL) break;
    text = more;
    length += fread(text + length, 1, room - length, file);
    if (length < room) break;
  }
  fclose(file);
  if (text != NULL) text[length] = 0;
  return text;
}

static cl_int build(struct $name *s, cl_device_id device, const char *text) {
  cl_int error;
  s->program = clCreateProgramWithSource(s->context, 1, &text, NULL, &error);
  if (error != CL_SUCCESS) return error;
  error = clBuildProgram(s->program, 1, &device, "$options", NULL, NULL);
  if (error != CL_SUCCESS) {
    static char log[4096];
    if (clGetProgramBuildInfo(s->program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL) == CL_SUCCESS)
      fprintf(stderr, "%s\\n", log);
  }
  return error;
}

static cl_int prepare(struct $name *s, cl_device_id device, const char *text, const uint8_t *weights) {
  cl_int error;
  s->context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
  if (error != CL_SUCCESS) return error;
  s->queue = clCreateCommandQueue(s->context, device, 0, &error);
  if (error != CL_SUCCESS) return error;
  TRY(build(s, device, text));
  for (int i = 0; i < BUFFERS; ++i) {
    s->buffers[i] = clCreateBuffer(s->context, CL_MEM_READ_WRITE, sizes[i] ? sizes[i] : 1, NULL, &error);
    if (error != CL_SUCCESS) return error;
    if (i >= INPUTS && i < INPUTS + WEIGHTS && sizes[i])
      TRY(clEnqueueWriteBuffer(s->queue, s->buffers[i], CL_TRUE, 0, sizes[i], weights + starts[i - INPUTS], 0, NULL,
                               NULL));
  }
  for (int i = 0; i < LAUNCHES; ++i) {
    s->kernels[i] = clCreateKernel(s->program, launches[i].kernel, &error);
    if (error != CL_SUCCESS) return error;
    for (int k = 0; k < launches[i].count; ++k) {
      const long a = arguments[launches[i].first + k];
      const size_t size = a < 0 ? (size_t)-a : sizeof(cl_mem);
      TRY(clSetKernelArg(s->kernels[i], (cl_uint)k, size, a < 0 ? NULL : (const void *)&s->buffers[a]));
    }
  }
  return CL_SUCCESS;
}

struct $name *${name}_open(const char *source, const uint8_t *weights) {
  cl_device_id device;
  char *const text = text_of(source);
  struct $name *const s = calloc(1, sizeof *s);
  cl_int error = CL_OUT_OF_HOST_MEMORY;
  if (text == NULL) fprintf(stderr, "%s: cannot be read\\n", source);
  if (text != NULL && s != NULL) {
    error = find_device(&device);
    if (error == CL_SUCCESS) error = prepare(s, device, text, weights);
    if (error != CL_SUCCESS) fprintf(stderr, "$name: error %d of OpenCL\\n", (int)error);
  }
  free(text);
  if (error == CL_SUCCESS) return s;
  ${name}_close(s);
  return NULL;
}

int32_t $name(struct $name *$state$takes) {
  const void *const given[] = {$given};
  void *const made[] = {$made};
  for (int i = 0; i < INPUTS; ++i)
    if (sizes[i])
      TRY(clEnqueueWriteBuffer($state->queue, $state->buffers[i], CL_FALSE, 0, sizes[i], given[i], 0, NULL, NULL));
  for (int i = 0; i < LAUNCHES; ++i)
    TRY(clEnqueueNDRangeKernel($state->queue, $state->kernels[i], 3, NULL, launches[i].extents, launches[i].block, 0,
                               NULL, NULL));
  for (int i = 0; i < OUTPUTS; ++i) {
    const int k = INPUTS + WEIGHTS + i;
    if (sizes[k])
      TRY(clEnqueueReadBuffer($state->queue, $state->buffers[k], CL_FALSE, 0, sizes[k], made[i], 0, NULL, NULL));
  }
  return clFinish($state->queue);
}

void ${name}_close(struct $name *s) {
  if (s == NULL) return;
  for (int i = 0; i < LAUNCHES; ++i)
    if (s->kernels[i] != NULL) clReleaseKernel(s->kernels[i]);
  for (int i = 0; i < BUFFERS; ++i)
    if (s->buffers[i] != NULL) clReleaseMemObject(s->buffers[i]);
  if (s->program != NULL) clReleaseProgram(s->program);
  if (s->queue != NULL) clReleaseCommandQueue(s->queue);
  if (s->context != NULL) clReleaseContext(s->context);
  free(s);
}
""")


def launcher(program: Program, merged: Artifact) -> tuple[str, str]:
    """NAME.c and NAME.h of what `merging.merge_launches` made."""
    name, params = c_name(program.name), merged.signature.params
    # the function's own names, and those that the file defines
    names = Names(C)
    for taken in ("device", "state", "given", "made", "sizes", "launches", "i", "k"):
        names.declare(taken)
    public = Signature(program.name, (*program.inputs, *program.outputs), ())
    arguments = declared(public, names)
    takes = "".join(f", {kind}{ident}" for kind, ident in arguments)
    idents = [ident for _, ident in arguments]
    given, made = idents[: len(program.inputs)], idents[len(program.inputs) :]
    shown = [f"{p}{', written' if p.is_output else ''}" for p in public.params]
    bytes_ = [*map(bytes_of, params), *(b["elements"] * dtype(b["dtype"]).bytes for b in merged.meta["device"])]
    launches = [x for x in merged.meta["launches"] if all(x["grid"])]
    rows: list[str] = []
    values: list[Any] = []
    for x in launches:
        extents = [g * b for g, b in zip(x["grid"], x["block"], strict=True)]
        words = [", ".join(map(str, extents)), ", ".join(map(str, x["block"]))]
        rows.append(f'  {{"{x["name"]}", {{{words[0]}}}, {{{words[1]}}}, {len(values)}, {len(x["args"])}}},\n')
        values += [{"param": n, "device": len(params) + n, "shared": -max(n, 1)}[kind] for kind, n in x["args"]]
    source = _SOURCE.substitute(
        name=name,
        inputs=len(program.inputs),
        weights=len(program.weights),
        outputs=len(program.outputs),
        buffers=len(bytes_),
        launches=len(launches),
        sizes=_rows([*bytes_, 0]),
        starts=_rows([*weight_offsets(program)[0], 0]),
        arguments=_rows([*values, 0]),
        table="".join(rows) or '  {"", {0}, {0}, 0, 0},\n',
        options="-cl-std=CL1.2" + (" -DINDEX_T=long" if merged.meta["index_bound"] >= 2**31 else ""),
        state="state",
        takes=takes,
        given=", ".join([*given, "NULL"]),
        made=", ".join([*made, "NULL"]),
    )
    told = "\n   ".join(shown) or "It has no arrays."
    return source, _HEADER.substitute(name=name, upper=name.upper(), takes=takes, told=told)


def _rows(numbers: list[int]) -> str:
    return "".join(f"  {', '.join(map(str, numbers[i : i + 12]))},\n" for i in range(0, len(numbers), 12))
