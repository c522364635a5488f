"""A launcher in C for kernels of OpenCL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Template
from typing import Any

from autosched.codegen.artifact import Artifact
from autosched.codegen.c99 import C
from autosched.codegen.c_program import c_name, declared
from autosched.codegen.c_text import Names
from autosched.exporting.interface import NAME, Interface, elements_of, helpers_for, named
from autosched.ir.dims import Dim, evaluate_dim
from autosched.ir.dtype import dtype

_HEADER = Template("""\
#ifndef ${upper}_H
#define ${upper}_H

/* $name on a device of OpenCL 1.2. float16 is uint16_t (its bits), bool is uint8_t (0 or 1). */

#include <stdint.h>

#if defined(__cplusplus)
#define restrict __restrict
extern "C" {
#endif

struct $name;

/* Open a device, the first one of the system or that of number AUTOSCHED_DEVICE of the environment, build `source`
   ($name.cl) and put the weights there, NULL for none; they may go afterwards. NULL where that fails: standard error
   says why. */
struct $name *${name}_open(const char *source, const uint8_t *weights);

/* Run once, from one thread at a time. Arrays lie in memory row by row, without gaps.
   $told
   Returns 0, or the number of an error of OpenCL. */
int32_t $name(struct $name *device$takes);

/* Give back all that ${name}_open took. */
void ${name}_close(struct $name *device);

#if defined(__cplusplus)
}
#undef restrict
#endif

#endif
""")

_SOURCE = """\
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

// Buffers are the arrays of a call, weights among them, and intermediates.
enum { ARRAYS = $arrays, BUFFERS = $buffers, SIZES = $size_count, LAUNCHES = $launches, ARGUMENTS = $argument_count };
enum role { GIVEN, MADE, WEIGHT };
static const enum role roles[] = {
$roles};
// Where each weight begins.
static const size_t starts[] = {
$starts};

// An argument is the number of a buffer; from BUFFERS on, that of a size, and behind them the step of a loop; below
// zero, bytes of a work-group's memory.
struct launch {
  const char *kernel;
  int64_t extents[3], block[3], when;
  int first, count;  // arguments
  int loop;          // launches of one loop follow each other, and all run for each of its steps; -1: none
  int64_t start, steps;
};
struct plan {
  int64_t bytes[BUFFERS + 1], arguments[ARGUMENTS + 1];
  struct launch launches[LAUNCHES + 1];
  int is_wide;  // offsets need 64 bits
};
static const struct plan known = {
  {
$bytes  },
  {
$arguments  },
  {
$table  },
  $wide
};
$helpers
// What depends on sizes.
static void measure(struct plan *p, const int64_t *sizes) {
  *p = known;
  (void)sizes;
$measured}

struct $name {
  char *text;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_kernel kernels[LAUNCHES + 1];
  cl_mem buffers[BUFFERS + 1];
  struct plan plan;
  int64_t sizes[SIZES + 1];  // and the step
  int is_ready;
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

static void forget(struct $name *s) {
  for (int i = 0; i < LAUNCHES; ++i) {
    if (s->kernels[i] != NULL) clReleaseKernel(s->kernels[i]);
    s->kernels[i] = NULL;
  }
  for (int i = 0; i < BUFFERS; ++i) {
    if (s->buffers[i] != NULL) clReleaseMemObject(s->buffers[i]);
    s->buffers[i] = NULL;
  }
  s->is_ready = 0;
}

static cl_int build(struct $name *s) {
  cl_int error;
  cl_device_fp_config floats = 0;
  char options[128];
  clGetDeviceInfo(s->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof floats, &floats, NULL);
  sprintf(options, "-cl-std=CL1.2 -w%s%s", s->plan.is_wide ? " -DINDEX_T=long" : "",
          floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
  if (s->program != NULL) clReleaseProgram(s->program);
  s->program = clCreateProgramWithSource(s->context, 1, (const char **)&s->text, NULL, &error);
  if (error != CL_SUCCESS) return error;
  error = clBuildProgram(s->program, 1, &s->device, options, NULL, NULL);
  if (error != CL_SUCCESS) {
    static char log[4096];
    if (clGetProgramBuildInfo(s->program, s->device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL) == CL_SUCCESS)
      fprintf(stderr, "%s\\n", log);
  }
  return error;
}

static cl_int set_arguments(struct $name *s, const struct launch *l, cl_kernel kernel) {
  for (int k = 0; k < l->count; ++k) {
    const int64_t a = s->plan.arguments[l->first + k];
    if (a < 0) {
      TRY(clSetKernelArg(kernel, (cl_uint)k, (size_t)-a, NULL));
    } else if (a < BUFFERS) {
      TRY(clSetKernelArg(kernel, (cl_uint)k, sizeof(cl_mem), &s->buffers[a]));
    } else if (s->plan.is_wide) {
      TRY(clSetKernelArg(kernel, (cl_uint)k, sizeof(int64_t), &s->sizes[a - BUFFERS]));
    } else {
      const cl_int size = (cl_int)s->sizes[a - BUFFERS];
      TRY(clSetKernelArg(kernel, (cl_uint)k, sizeof size, &size));
    }
  }
  return CL_SUCCESS;
}

// Buffers and kernels for calls with these sizes, unless they are there.
static cl_int prepare(struct $name *s, const int64_t *sizes, const uint8_t *weights) {
  cl_int error;
  const int was_wide = s->plan.is_wide;
  if (s->is_ready && memcmp(s->sizes, sizes, SIZES * sizeof *sizes) == 0) return CL_SUCCESS;
  forget(s);
  memcpy(s->sizes, sizes, SIZES * sizeof *sizes);
  measure(&s->plan, sizes);
  if (s->program == NULL || s->plan.is_wide != was_wide) TRY(build(s));
  for (int i = 0; i < BUFFERS; ++i) {
    const size_t bytes = s->plan.bytes[i] > 0 ? (size_t)s->plan.bytes[i] : 1;
    s->buffers[i] = clCreateBuffer(s->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
    if (error != CL_SUCCESS) return error;
    if (i < ARRAYS && roles[i] == WEIGHT && s->plan.bytes[i] > 0)
      TRY(clEnqueueWriteBuffer(s->queue, s->buffers[i], CL_TRUE, 0, bytes, weights + starts[i], 0, NULL, NULL));
  }
  for (int i = 0; i < LAUNCHES; ++i) {
    s->kernels[i] = clCreateKernel(s->program, s->plan.launches[i].kernel, &error);
    if (error != CL_SUCCESS) return error;
    TRY(set_arguments(s, &s->plan.launches[i], s->kernels[i]));
  }
  s->is_ready = 1;
  return CL_SUCCESS;
}

static cl_int launch(struct $name *s, const struct launch *l, cl_kernel kernel) {
  size_t all[3], group[3];
  for (int i = 0; i < 3; ++i) {
    if (l->extents[i] <= 0 || l->block[i] <= 0 || l->when <= 0) return CL_SUCCESS;
    group[i] = (size_t)l->block[i];
    all[i] = (size_t)l->extents[i] * group[i];
  }
  return clEnqueueNDRangeKernel(s->queue, kernel, 3, NULL, all, group, 0, NULL, NULL);
}

static cl_int launch_all(struct $name *s) {
  const struct launch *const l = s->plan.launches;
  for (int i = 0, end; i < LAUNCHES; i = end) {
    for (end = i + 1; l[i].loop >= 0 && end < LAUNCHES && l[end].loop == l[i].loop;) ++end;
    for (int64_t step = 0; step < l[i].steps; ++step) {
      s->sizes[SIZES] = l[i].start + step;
      for (int k = i; k < end; ++k) {
        if (l[k].loop >= 0) TRY(set_arguments(s, &l[k], s->kernels[k]));
        TRY(launch(s, &l[k], s->kernels[k]));
      }
    }
  }
  return CL_SUCCESS;
}

static cl_int open_device(struct $name *s, const uint8_t *weights) {
  static const int64_t none[SIZES + 1];
  cl_int error;
  TRY(find_device(&s->device));
  s->context = clCreateContext(NULL, 1, &s->device, NULL, NULL, &error);
  if (error != CL_SUCCESS) return error;
  s->queue = clCreateCommandQueue(s->context, s->device, 0, &error);
  if (error != CL_SUCCESS) return error;
  (void)weights;
  return SIZES == 0 ? prepare(s, none, weights) : build(s);
}

struct $name *${name}_open(const char *source, const uint8_t *weights) {
  struct $name *const s = calloc(1, sizeof *s);
  cl_int error = CL_OUT_OF_HOST_MEMORY;
  if (s == NULL) return NULL;
  s->text = text_of(source);
  if (s->text == NULL) fprintf(stderr, "%s: cannot be read\\n", source);
  else error = open_device(s, weights);
  if (error == CL_SUCCESS) return s;
  if (s->text != NULL) fprintf(stderr, "$name: error %d of OpenCL\\n", (int)error);
  ${name}_close(s);
  return NULL;
}
"""

_RUN = """
int32_t $name(struct $name *state$takes) {
  void *const arrays[] = {$passed};
  const int64_t sizes[] = {$sizes};
  const int64_t *const bytes = state->plan.bytes;
  TRY(prepare(state, sizes, NULL));
  for (int i = 0; i < ARRAYS; ++i)
    if (roles[i] == GIVEN && bytes[i] > 0)
      TRY(clEnqueueWriteBuffer(state->queue, state->buffers[i], CL_FALSE, 0, (size_t)bytes[i], arrays[i], 0, NULL,
                               NULL));
  TRY(launch_all(state));
  for (int i = 0; i < ARRAYS; ++i)
    if (roles[i] == MADE && bytes[i] > 0)
      TRY(clEnqueueReadBuffer(state->queue, state->buffers[i], CL_FALSE, 0, (size_t)bytes[i], arrays[i], 0, NULL,
                              NULL));
  return clFinish(state->queue);
}

void ${name}_close(struct $name *s) {
  if (s == NULL) return;
  forget(s);
  if (s->program != NULL) clReleaseProgram(s->program);
  if (s->queue != NULL) clReleaseCommandQueue(s->queue);
  if (s->context != NULL) clReleaseContext(s->context);
  free(s->text);
  free(s);
}
"""


def launcher(f: Interface, code: Artifact, weights: Mapping[int, int] | None = None) -> tuple[str, str]:
    """NAME.c and NAME.h of kernels for OpenCL.

    weights: number of an array of `code`, which the device gets once -> where it begins in `weights.bin`
    """
    starts, params, meta, name = weights or {}, code.signature.params, code.meta, c_name(f.name)
    names = Names(C)
    for taken in {"device", name, *re.findall(r"\w+", _RUN.partition("\nvoid")[0])}:  # what the function names besides
        names.declare(taken)
    arguments = declared(f.signature, names)
    takes = "".join(f", {kind}{ident}" for kind, ident in arguments)
    idents = iter([ident for _, ident in arguments])
    passed = ["NULL" if i in starts else f"(void *){next(idents)}" for i in range(len(params))]
    known = _Known(f)
    sizes = [_times(elements_of(p), dtype(p.dtype).bytes) for p in params]
    sizes += [_times(b["elements"], dtype(b["dtype"]).bytes) for b in meta["device"]]
    buffers = [known.number(f"bytes[{i}]", n) for i, n in enumerate(sizes)]
    places = {s: len(buffers) + k for k, s in enumerate(f.signature.sizes)}
    values: list[str] = []
    rows: list[str] = []
    for number, x in enumerate(meta["launches"]):
        rows.append(known.launch(number, x, len(values)))
        for kind, which in x["args"]:
            if kind == "step":
                values.append(str(len(buffers) + len(places)))
            else:
                values.append(known.argument(len(values), kind, which, len(params), places))
    text = Template(_SOURCE + _RUN).substitute(
        name=NAME,
        arrays=len(params),
        buffers=len(buffers),
        size_count=len(places),
        launches=len(rows),
        argument_count=len(values),
        roles=_rows(
            ["WEIGHT" if i in starts else "MADE" if p.is_output else "GIVEN" for i, p in enumerate(params)] or ["GIVEN"]
        ),
        starts=_rows([str(starts.get(i, 0)) for i in range(len(params))] or ["0"]),
        bytes=_rows(buffers or ["0"]),
        arguments=_rows(values or ["0"]),
        table="".join(rows) or '    {"", {0, 0, 0}, {0, 0, 0}, 0, 0, 0, -1, 0, 1},\n',
        wide=known.number("is_wide", _wide(meta["index_bound"])),
        helpers=helpers_for(known.statements),
        measured="".join(known.statements),
        takes=takes,
        passed=", ".join([*passed, "NULL"]),
        sizes=", ".join([*idents, "0"]),
    )
    told = [f"{p}{', written' if p.is_output else ''}" for p in f.signature.params]
    told += [f"Needs {r}: {r.reason}." for r in f.signature.requires]
    lines = "\n   ".join(told) or "It has no arrays."
    return named(text, name), _HEADER.substitute(name=name, upper=name.upper(), takes=takes, told=lines)


class _Known:
    """Tables of numbers; what sizes decide is 0 there, and a statement of the function that measures."""

    def __init__(self, f: Interface) -> None:
        self.f = f
        self.statements: list[str] = []

    def number(self, place: str, dim: Dim) -> str:
        try:
            return str(evaluate_dim(dim, {}))
        except KeyError:
            self.statements.append(f"  p->{place} = {self.f.in_c(dim)};\n")
            return "0"

    def launch(self, number: int, x: Mapping[str, Any], first: int) -> str:
        here = f"launches[{number}]"
        extents, block = (
            ", ".join(self.number(f"{here}.{field}[{k}]", d) for k, d in enumerate(x[key]))
            for field, key in (("extents", "grid"), ("block", "block"))
        )
        when = self.number(f"{here}.when", x.get("when", 1))
        loop, start, extent = x.get("loop", (-1, 0, 1))
        span = ", ".join(self.number(f"{here}.{field}", d) for field, d in (("start", start), ("steps", extent)))
        args = f"{first}, {len(x['args'])}, {loop}, {span}"
        return f'    {{"{x["name"]}", {{{extents}}}, {{{block}}}, {when}, {args}}},\n'

    def argument(self, number: int, kind: str, which: Any, arrays: int, sizes: Mapping[str, int]) -> str:
        match kind:
            case "param":
                return str(which)
            case "device":
                return str(arrays + which)
            case "size":
                return str(sizes[which])
        return self.number(f"arguments[{number}]", ["neg", ["max", which, 1]])


def _wide(bound: Dim) -> Dim:
    return ["ge", bound, 2**31]


def _times(elements: Dim, size: int) -> Dim:
    return elements if size == 1 else ["mul", elements, size]


def _rows(words: list[str]) -> str:
    return "".join(f"    {', '.join(words[i : i + 12])},\n" for i in range(0, len(words), 12))
