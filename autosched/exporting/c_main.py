"""main.c and Makefile of an exported function: a command that runs it, and compares its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from autosched.codegen.c_program import c_name
from autosched.codegen.signature import Param
from autosched.exporting.interface import NAME, Interface, elements_of, helpers_for, named
from autosched.ir.dtype import dtype

_MAIN = Template("""\
// Runs $name and prints its outputs, or compares them with files. C99.
//
//   main [-n RUNS]$usage [FILE ...]
//
// ${told}FILEs hold the bytes of the inputs, in order, then those that are expected of the outputs. An input
// without a file is filled with small numbers. Returns 1 where an output differs by more than 1e-3 + 1e-3 * |expected|.
#define _POSIX_C_SOURCE 199309L  // clock_gettime
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "$name.h"

enum kind { FLOAT16, BFLOAT16, FLOAT32, FLOAT64, SIGNED, UNSIGNED };

struct array {
  const char *name;
  enum kind kind;
  size_t element;  // bytes
  int is_output;
  size_t count;
};

static struct array arrays[] = {
$arrays};
enum { COUNT = $count };
$sizes
static void measure(void) {
$counts}

static double seconds(void) {
#ifdef CLOCK_MONOTONIC
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
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

// where the bytes of an element begin in a number of 64 bits
static char *element_of(uint64_t *bits, size_t element) {
  const uint16_t one = 1;
  return (char *)bits + (*(const char *)&one ? 0 : sizeof *bits - element);
}

static double value(const struct array *a, const char *data, size_t i) {
  uint64_t bits = 0;
  float single;
  double number;
  memcpy(element_of(&bits, a->element), data + i * a->element, a->element);
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
    memcpy(data + i * a->element, element_of(&bits, a->element), a->element);
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
  measure();
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
_SIZES = Template("""
static int64_t sizes[] = {$values};

static int set_size(const char *word) {
  static const char *const names[] = {$names};
  for (int i = 0; i < $count; ++i) {
    const size_t length = strlen(names[i]);
    if (strncmp(word, names[i], length) != 0 || word[length] != '=') continue;
    sizes[i] = strtoll(word + length + 1, NULL, 10);
    return 1;
  }
  return 0;
}
$helpers""")
_REQUIRED = """\
  if (!({})) {{
    fprintf(stderr, "{}\\n");
    exit(2);
  }}
"""
_MAKEFILE = Template("""\
# make             the command `main`
# make library     lib$name.so
${note}NAME = $name
${compiler}CFLAGS = -O3$march
OPENMP = $openmp
FLAGS = -std=c99 -Wall -Wextra -Werror $flags
OBJECTS = $objects

main: main.o $$(OBJECTS)
	$$(CC) $$(OPENMP) main.o $$(OBJECTS) -o $$@ $$(LDFLAGS) $libraries

library: lib$$(NAME).so

lib$$(NAME).so: $$(OBJECTS)
	$$(CC) -shared $$(OPENMP) $$(OBJECTS) -o $$@ $$(LDFLAGS) $libraries

main.o$made: %.o: %.c $$(NAME).h
	$$(CC) $$(FLAGS) $$(CFLAGS) $$(OPENMP) -fPIC -c $$< -o $$@

clean:
	rm -f main main.o$made

.PHONY: clean library
""")
_ON_ONE_CORE = "# make OPENMP=     with loops on one core, for a compiler without OpenMP\n"
_KINDS = {"float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT32", "float64": "FLOAT64"}


def main_source(f: Interface, *, arrays: bool = False) -> str:
    """main.c. `arrays`: the weights are compiled in."""
    name, params = NAME, f.signature.params
    shown = [p for i, p in enumerate(params) if i != f.weights_at]
    place = {id(p): i for i, p in enumerate(shown)}
    passed = [
        f"(void *)memory[{place[id(p)]}]" if id(p) in place else f"{name}_weights" if arrays else "weights"
        for p in params
    ]
    passed += [f"sizes[{k}]" for k in range(len(f.signature.sizes))]
    options, load, usage, told = _OPTIONS, "", "", ""
    if f.weights and not arrays:
        usage = " [-w weights.bin]"
        options = '  const char *path = "weights.bin";\n' + _OPTIONS
        options += "    if (argv[next][1] == 'w') path = argv[next + 1];\n"
        load = f"  const uint8_t *const weights = (const uint8_t *)contents(path, {f.weights});"
    options += "  }"
    if f.signature.sizes:
        usage += "".join(f" [{s}={f.usual[s]}]" for s in f.signature.sizes)
        options += "\n  while (next < argc && set_size(argv[next])) ++next;"
        told = "Sizes come first. "
    if f.is_device:
        passed = ["device", *passed]
        opened = f'{name}_open("{name}.cl", {"weights" if load else "NULL"})'
        load += f"\n  struct {name} *const device = {opened};\n  if (device == NULL) return 2;"
    text = _MAIN.substitute(
        name=name,
        usage=usage,
        told=told,
        arrays="".join(map(_row, shown)),
        count=len(shown),
        sizes=_sizes(f),
        counts=_counts(f, shown),
        options=options,
        load=load,
        close=f"  {name}_close(device);\n" if f.is_device else "",
        passed=", ".join(passed),
    )
    return named(text, c_name(f.name))


def _sizes(f: Interface) -> str:
    """The sizes of a call, and the functions that formulas over them need."""
    names = f.signature.sizes
    if not names:
        return ""
    formulas = [*(elements_of(p) for p in f.signature.params), *([r.op, r.left, r.right] for r in f.signature.requires)]
    return _SIZES.substitute(
        values=", ".join(str(f.usual[s]) for s in names),
        names=", ".join(f'"{s}"' for s in names),
        count=len(names),
        helpers=helpers_for(map(f.in_c, formulas)),
    )


def _counts(f: Interface, shown: Sequence[Param]) -> str:
    lines = [
        _REQUIRED.format(f.in_c([r.op, r.left, r.right]), _ascii(f"needed: {r}: {r.reason}"))
        for r in f.signature.requires
    ]
    counts = [f"  arrays[{i}].count = (size_t)({f.in_c(elements_of(p))});\n" for i, p in enumerate(shown)]
    return "".join([*lines, *counts])


def _ascii(text: str) -> str:
    """Text for a literal of C."""
    return "".join(c if c.isascii() and c.isprintable() and c not in '"\\?%' else "_" for c in text)


def _row(p: Param) -> str:
    kind = _KINDS.get(p.dtype, "SIGNED" if p.dtype.startswith("int") else "UNSIGNED")
    return f'  {{"{_ascii(p.name)}", {kind}, {dtype(p.dtype).bytes}, {int(p.is_output)}, 0}},\n'


def makefile(f: Interface, sources: Sequence[str]) -> str:
    """A Makefile for the sources, or objects, besides main.c."""
    made = [s.removesuffix(".c") + ".o" for s in sources if s.endswith(".c")]
    return _MAKEFILE.substitute(
        name=c_name(f.name),
        compiler=f.compiler,
        openmp="-fopenmp" if f.parallel else "",
        flags=" ".join(x for x in f.flags if x.startswith("-f")),
        march=f.march,
        objects=" ".join([*made, *(s for s in sources if not s.endswith(".c"))]),
        made="".join(f" {m}" for m in made),
        libraries=" ".join(f.libraries),
        note=_ON_ONE_CORE if made and f.parallel else "",
    )
