"""main.c and Makefile of an exported program: a command that runs it, and compares its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from autosched.codegen.c_program import c_name
from autosched.codegen.signature import Param
from autosched.graph.linking import bytes_of, signature_of, weight_offsets
from autosched.graph.program import Program
from autosched.ir.dtype import dtype

_MAIN = Template("""\
// Runs $name and prints its outputs, or compares them with files. C99.
//
//   main [-n RUNS]$usage [FILE ...]
//
// FILEs hold the bytes of the inputs, in order, then those that are expected of the outputs. An input without a file
// is filled with small numbers. Returns 1 where an output differs by more than 1e-3 + 1e-3 * |expected|.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "$name.h"

enum kind { FLOAT16, BFLOAT16, FLOAT32, FLOAT64, SIGNED, UNSIGNED };

struct array {
  const char *name;
  enum kind kind;
  size_t element;  // bytes
  size_t count;
  int is_output;
};

static const struct array arrays[] = {
$arrays};
enum { COUNT = $count };

static double seconds(void) {
#ifdef _OPENMP
  return omp_get_wtime();
#else
  return (double)clock() / CLOCKS_PER_SEC;
#endif
}

static double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 ? -1.0 : 1.0;
  if (exponent == 31) return fraction ? NAN : sign * HUGE_VAL;
  return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static double value(const struct array *a, const char *data, size_t i) {
  uint64_t bits = 0;
  float single;
  double number;
  memcpy(&bits, data + i * a->element, a->element);
  switch (a->kind) {
    case FLOAT16: return from_half((uint16_t)bits);
    case BFLOAT16: bits <<= 16;  // fall through to the float that it is the upper half of
    /* FALLTHRU */
    case FLOAT32: { const uint32_t low = (uint32_t)bits; memcpy(&single, &low, 4); return single; }
    case FLOAT64: memcpy(&number, &bits, 8); return number;
    case SIGNED: {
      const uint64_t sign = UINT64_C(1) << (8 * a->element - 1);
      return (double)(int64_t)((bits ^ sign) - sign);
    }
    default: return (double)bits;
  }
}

static void fill(const struct array *a, char *data) {
  for (size_t i = 0; i < a->count; ++i) {
    const float small = (float)(i * 37 % 101) / 101 - 0.5f;
    const double large = small;
    uint32_t single;
    uint64_t bits = i * 37 % 101 % 2;
    memcpy(&single, &small, 4);
    if (a->kind == FLOAT32) bits = single;
    if (a->kind == BFLOAT16) bits = single >> 16;
    if (a->kind == FLOAT64) memcpy(&bits, &large, 8);
    if (a->kind == FLOAT16) bits = 0x3000 + bits * 0x800;
    memcpy(data + i * a->element, &bits, a->element);
  }
}

static char *room(size_t bytes) {
  char *const memory = malloc(bytes + 64);
  if (memory == NULL) {
    fprintf(stderr, "no memory for %zu bytes\\n", bytes);
    exit(2);
  }
  return memory + (64 - (uintptr_t)memory % 64);
}

static char *contents(const char *path, size_t bytes) {
  FILE *const file = fopen(path, "rb");
  char *const memory = room(bytes + 1);
  const size_t found = file == NULL ? 0 : fread(memory, 1, bytes + 1, file);
  if (file == NULL || found != bytes) {
    fprintf(stderr, file == NULL ? "%s: cannot be read\\n" : "%s: %zu bytes are needed\\n", path, bytes);
    exit(2);
  }
  fclose(file);
  return memory;
}

static int differs(const struct array *a, const char *found, const char *expected) {
  double most = 0.0;
  size_t where = 0, wrong = 0;
  for (size_t i = 0; i < a->count; ++i) {
    const double x = value(a, found, i), y = value(a, expected, i), off = fabs(x - y);
    const int well = x == y || (isnan(x) && isnan(y)) || off <= 1e-3 + 1e-3 * fabs(y);
    if (!well && wrong++ == 0) where = i;
    if (off > most) most = off;
  }
  printf("%s: %s, largest difference %g", a->name, wrong ? "WRONG" : "as expected", most);
  if (wrong) printf(", %zu differ, element %zu first: %g, expected %g", wrong, where, value(a, found, where),
                    value(a, expected, where));
  printf("\\n");
  return wrong != 0;
}

static void print(const struct array *a, const char *data) {
  double sum = 0.0;
  printf("%s:", a->name);
  for (size_t i = 0; i < a->count; ++i) {
    if (i < 8) printf(" %g", value(a, data, i));
    sum += value(a, data, i);
  }
  printf("%s  sum %g\\n", a->count > 8 ? " ..." : "", sum);
}

int main(int argc, char **argv) {
  char *memory[COUNT + 1];
  int runs = 1, next = 1, wrong = 0;
$options
  for (int i = 0; i < COUNT; ++i) {
    const struct array *const a = &arrays[i];
    const size_t bytes = a->count * a->element;
    if (!a->is_output && next < argc) memory[i] = contents(argv[next++], bytes);
    else fill(a, memory[i] = room(bytes));
  }
$load
  const double begun = seconds();
  for (int i = 0; i < runs; ++i) {
    const int status = $name($passed);
    if (status != 0) {
      fprintf(stderr, "$name returned %d\\n", status);
      return 2;
    }
  }
  if (runs > 1) printf("%g ms\\n", (seconds() - begun) * 1e3 / runs);
  for (int i = 0; i < COUNT; ++i) {
    if (!arrays[i].is_output) continue;
    if (next < argc)
      wrong |= differs(&arrays[i], memory[i], contents(argv[next++], arrays[i].count * arrays[i].element));
    else print(&arrays[i], memory[i]);
  }
$close  return wrong;
}
""")

_OPTIONS = """\
  for (; next + 1 < argc && argv[next][0] == '-' && argv[next][1] != 0; next += 2) {
    if (argv[next][1] == 'n') runs = atoi(argv[next + 1]);
"""
_MAKEFILE = Template("""\
# make            the command `main`
${note}NAME = $name
CFLAGS = -O3 -march=native
OPENMP = $openmp
FLAGS = -std=c99 -Wall -Wextra -Werror -fno-strict-aliasing -fno-math-errno -fno-trapping-math -ffp-contract=$contract
OBJECTS = $objects

main: main.o $$(OBJECTS)
	$$(CC) $$(OPENMP) main.o $$(OBJECTS) -o $$@ $$(LDFLAGS) $libraries

$shared
main.o $made: %.o: %.c $$(NAME).h
	$$(CC) $$(FLAGS) $$(CFLAGS) $$(OPENMP) -fPIC -c $$< -o $$@

clean:
	rm -f main main.o $made

.PHONY: clean
""")
_ON_ONE_CORE = "# make OPENMP=    with loops on one core, for a compiler without OpenMP\n"
_SHARED = """
$(NAME).so: $(OBJECTS)
	$(CC) -shared $(OPENMP) $(OBJECTS) -o $@ $(LDFLAGS) -lm
"""
_KINDS = {"float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT32", "float64": "FLOAT64"}


def main_source(program: Program, *, arrays: bool = False, device: bool = False) -> str:
    """main.c. `arrays`: the weights are compiled in; `device`: the program is a launcher of OpenCL."""
    name, signature = c_name(program.name), signature_of(program)
    shown = [p for p in signature.params if p in (*signature.inputs[: len(program.inputs)], *signature.outputs)]
    passed = [f"(void *)memory[{i}]" for i in range(len(shown))]
    options, load, usage = _OPTIONS, "", ""
    if program.weights:
        passed.insert(len(program.inputs), f"{name}_weights" if arrays else "weights")
    if program.weights and not arrays:
        usage = " [-w weights.bin]"
        options = '  const char *path = "weights.bin";\n' + _OPTIONS
        options += "    if (argv[next][1] == 'w') path = argv[next + 1];\n"
        load = f"  const uint8_t *const weights = (const uint8_t *)contents(path, {weight_offsets(program)[1]});"
    if device:
        passed = ["device", *(p for p in passed if p != "weights")]
        opened = f'{name}_open("{name}.cl", {"weights" if load else "NULL"})'
        load += f"\n  struct {name} *const device = {opened};\n  if (device == NULL) return 2;"
    return _MAIN.substitute(
        name=name,
        usage=usage,
        arrays="".join(map(_row, shown)),
        count=len(shown),
        options=f"{options}  }}",
        load=load,
        close=f"  {name}_close(device);\n" if device else "",
        passed=", ".join(passed),
    )


def _row(p: Param) -> str:
    of = dtype(p.dtype)
    kind = _KINDS.get(p.dtype, "SIGNED" if p.dtype.startswith("int") else "UNSIGNED")
    title = "".join(c if c.isascii() and c not in '"\\?' else "_" for c in p.name)
    return f'  {{"{title}", {kind}, {of.bytes}, {bytes_of(p) // of.bytes}, {int(p.is_output)}}},\n'


def makefile(program: Program, sources: Sequence[str], libraries: Sequence[str] = ()) -> str:
    """A Makefile for the sources, or objects, besides main.c."""
    parallel = any(k.meta.get("parallel") for k in program.kernels)
    made = [s.removesuffix(".c") + ".o" for s in sources if s.endswith(".c")]
    return _MAKEFILE.substitute(
        name=c_name(program.name),
        openmp="-fopenmp" if parallel else "",
        contract="off" if any(k.meta.get("strict") for k in program.kernels) else "fast",
        objects=" ".join([*made, *(s for s in sources if not s.endswith(".c"))]),
        made=" ".join(made),
        libraries=" ".join([*libraries, "-lm"]),
        shared=_SHARED if made else "",
        note=_ON_ONE_CORE if made and parallel else "",
    )
