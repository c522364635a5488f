"""C99: every operator against NumPy and free of undefined behaviour; programs; the text itself."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import test_c_family_values as values
from strict_c import compile_strictly

import autosched
from autosched import te
from autosched.codegen.c99 import C
from autosched.codegen.c_artifact import compile_c
from autosched.codegen.c_program import emit_c, text_for
from autosched.codegen.dialects import CUDA, OPENCL
from autosched.errors import BuildError, UsageError
from autosched.ir import functions
from autosched.ir.calls import call_pure_extern
from autosched.ir.dtype import dtype
from autosched.ir.expr import OPS, const, select, var
from autosched.ir.stmt import Allocate, Buffer, For, Function, Launch, Let, Store, expressions, load, seq, walk
from autosched.lowering import lower_structure
from autosched.runtime import c_compiler
from autosched.runtime import load as load_kernel
from autosched.runtime.kernel import CompilerFailed
from autosched.schedule import create_schedule
from autosched.space.workload import Workload
from autosched.target import Target
from autosched.testing.case import Case
from autosched.testing.oracle import check_against_reference

TARGET = Target("c -threads=2")

needs_compiler = pytest.mark.skipif(c_compiler.find_compiler() is None, reason="no C compiler")


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are errors, and undefined behaviour ends the process."""
    compile_strictly(monkeypatch)


def execute(function: Function, arrays: list[np.ndarray]) -> None:
    """The same function with a loop in place of its kernel."""
    launch = function.body
    assert isinstance(launch, Launch)
    nodes = values.post_order([e for s in walk(launch.body) for e in expressions(s)])
    body, index = launch.body, var("i", role="loop")
    for thread in dict.fromkeys(n for n in nodes if n.op == "var" and n.value.role == "thread"):
        body = Let(thread, index, body)
    loop = For(index, const(0), launch.block[0], "serial", body)
    load_kernel(compile_c(replace(function, body=loop), TARGET), TARGET).bind(arrays).run()


@pytest.fixture
def in_c(monkeypatch: pytest.MonkeyPatch, strict: None) -> None:
    monkeypatch.setattr(values, "execute", execute)


# -- expressions and statements, with the cases of OpenCL ---------------------------------------------------------------


def test_every_function_has_a_name() -> None:
    assert {op for op, info in OPS.items() if info.kind == "math"} - {"sigmoid"} <= set(C.math)


@needs_compiler
@pytest.mark.usefixtures("in_c")
class TestValues:
    def test_lanes(self) -> None:
        """Statements of vectors are loops over lanes."""
        values.test_constant_operands_and_chains("int16", 4)
        values.test_floats("float16", 1)
        values.test_floats("float64", 1)
        values.test_booleans(4)
        values.test_guarded_lanes_do_not_load(4)
        values.test_let(4)

    def test_stores_of_lanes_that_are_read(self) -> None:
        values.test_a_store_reads_all_lanes_before_it_writes_any()

    def test_constants_come_back_exactly(self) -> None:
        values.test_constants_come_back_exactly()

    def test_index_arithmetic(self) -> None:
        values.test_random_index_arithmetic_is_exact(0)
        values.test_index_values_meet_arithmetic_in_their_type()

    def test_random_integer_expressions(self) -> None:
        values.test_random_integer_expressions(0, 1)

    def test_private_arrays(self) -> None:
        values.test_private_arrays_hold_every_type("float16")
        values.test_expressions_that_share_their_parts()


@needs_compiler
def test_all_halves_come_back_and_doubles_round_once() -> None:
    """float16 is bits in memory: reading is exact, writing rounds a double to the nearest, ties to even."""
    n = 1 << 16
    a, b = te.placeholder((n,), "float16", name="a"), te.placeholder((4 * n,), "float64", name="b")
    same = te.compute((n,), lambda i: a[i] * a[i] / a[i], name="same")
    rounded = te.compute((4 * n,), lambda i: b[i].astype("float16"), name="rounded")
    module = autosched.build(autosched.create_schedule([a, b, same, rounded]), "c", args=[a, b, same, rounded])
    halves = np.arange(n, dtype=np.uint16).view(np.float16)
    steps = np.sort(halves[np.isfinite(halves)]).astype(np.float64)
    middles = (steps[1:] + steps[:-1]) / 2
    doubles = np.concatenate([steps, middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf)])
    doubles = np.concatenate([doubles, np.array([65519.999, 65520.0, 1e300, -1e300, np.inf, np.nan, 1e-300])])
    doubles.resize(4 * n)
    with np.errstate(all="ignore"):
        x, y = module(halves, doubles)
        np.testing.assert_array_equal(y, doubles.astype(np.float16))
        np.testing.assert_array_equal(x, halves * halves / halves)


# -- programs ------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("seed", range(700_000, 700_008))
def test_random_programs(seed: int, strict: None) -> None:
    """Thousands more: `python -m autosched.testing.fuzz --backend c`."""
    Case.draw(seed, "c").check()


def two_stages(rows: object = None):
    """A parallel loop whose iterations need memory of their own, after a stage that all of them read."""
    n = te.var("n") if rows is None else rows
    a = te.placeholder((n, n), name="A")
    first = te.compute((n, n), lambda i, j: a[j, i] * 2, name="first")
    row = te.compute((n, n), lambda i, j: first[i, j] + a[i, j], name="row")
    out = te.compute((n, n), lambda i, j: row[i, n - 1 - j] - row[i, j], name="out")
    s = autosched.create_schedule([a, out])
    s[out].parallel(out.op.axis[0])
    s[row].compute_at(s[out], out.op.axis[0])
    s[row].set_scope("global")
    return s


def expected(a: np.ndarray) -> np.ndarray:
    row = 2 * a.T + a
    return row[:, ::-1] - row


@needs_compiler
def test_a_workspace_for_the_program_and_for_each_thread(strict: None) -> None:
    for target in ("c -threads=1", "c -threads=3"):
        module = autosched.build(two_stages(), target)
        for n in (0, 1, 7, 130):
            a = np.arange(n * n, dtype=np.float32).reshape(n, n)
            np.testing.assert_array_equal(module(a), expected(a))
    assert len(module.time(a, number=3, repeat=2)) == 2


def test_source_of_a_program(golden: Callable[..., None]) -> None:
    golden(autosched.build(two_stages(), "c").get_source(), "two_stages")


@needs_compiler
@pytest.mark.parametrize("of", ["float32", "float64"])
def test_a_power_that_is_no_square_root(of: str) -> None:
    """gcc makes one of it where it makes vectors of a loop."""
    a = te.placeholder((64,), of, name="a")
    b = te.compute((64,), lambda i: te.pow(a[i], 0.5), name="b")
    x = np.resize(np.array([-np.inf, -0.0, 2.0, np.inf, -1.0], of), 64)
    expected = np.resize(np.array([np.inf, 0.0, 2**0.5, np.inf, np.nan], of), 64)
    got = autosched.build(create_schedule(b), "c", args=[a, b])(x)
    np.testing.assert_allclose(got, expected, rtol=3e-7)
    assert not np.signbit(got[1]) and got[0] == np.inf


@needs_compiler
def test_options_of_gcc_stand_before_headers() -> None:
    """Functions of headers that are always inlined need those of their callers, as memcpy does where it is fortified."""
    a = te.placeholder((64,), "float16", name="a")
    b = te.compute((64,), lambda i: a[i] + 1, name="b")
    source = autosched.build(create_schedule(b), "c", args=[a, b]).get_source()
    assert 0 <= source.index("#pragma GCC optimize") < source.index("#include")


@needs_compiler
@pytest.mark.parametrize("flags", [["-fopenmp"], []])
def test_the_source_is_c99_that_a_c_program_calls(flags: list[str], tmp_path: Path) -> None:
    """As it is, without this library: with OpenMP, and without."""
    compiler = c_compiler.require_compiler("test")
    if flags and not compiler.openmp:
        pytest.skip("the compiler has no OpenMP")
    (tmp_path / "out.c").write_text(autosched.build(two_stages(), "c").get_source())
    (tmp_path / "main.c").write_text(
        """\
#include <stdint.h>
#include <stdio.h>
int32_t out(const float *restrict A, float *restrict out, int64_t n);
int main(void) {
  float a[9], b[9];
  for (int i = 0; i < 9; ++i) a[i] = (float)(i * i);
  if (out(a, b, 3)) return 1;
  for (int i = 0; i < 9; ++i) printf("%g ", (double)b[i]);
  return 0;
}
"""
    )
    warnings = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    compiler.run([*warnings, *flags, "-o", str(tmp_path / "main"), *map(str, tmp_path.glob("*.c")), "-lm"], "test")
    printed = subprocess.run([str(tmp_path / "main")], capture_output=True, text=True, check=True).stdout
    a = np.arange(9, dtype=np.float32).reshape(3, 3) ** 2
    assert [float(x) for x in printed.split()] == expected(a).ravel().tolist()


def test_names_that_c_has_taken() -> None:
    n = te.var("threads")
    a, b = te.placeholder((n,), name="int"), te.placeholder((n,), name="expf")
    out = te.compute((n,), lambda workspace: te.exp(a[workspace]) + b[workspace], name="main")
    s = autosched.create_schedule([a, b, out])
    s[out].parallel(out.op.axis[0])
    module = autosched.build(s, "c", name="main")
    assert "int32_t main_(const float *restrict int_, " in module.get_source()
    if c_compiler.find_compiler():
        x = np.linspace(0, 1, 50, dtype=np.float32)
        np.testing.assert_allclose(module(x, x), np.exp(x) + x, rtol=1e-6)


def test_arguments_that_no_code_mentions(strict: None) -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    out = te.compute((8,), lambda i: i * 2, name="out")
    source = autosched.build(autosched.create_schedule([a, out]), "c", args=[a, out]).get_source()
    assert "(void)a;" in source and "(void)n;" in source


def test_small_buffers_are_arrays_and_large_ones_are_not() -> None:
    f = dtype("float32")
    a, out = (Buffer(name, (const(1 << 20),), f) for name in ("a", "out"))
    small, large = Buffer("small", (const(16),), f), Buffer("large", (const(1 << 20),), f)
    zero, i = const(0), var("i", role="loop")
    copy = For(i, zero, const(16), "serial", Store(small, (i,), select(i < 8, load(a, i), const(0.0, f))))
    use = seq(copy, Store(large, (zero,), load(small, zero)), Store(out, (zero,), load(large, zero)))
    source = emit_c(Function("f", (a, out), (), Allocate(large, Allocate(small, use)), (1,))).source
    assert "float small[16];" in source
    assert "float *restrict const large = (float *)workspace;" in source
    assert "return 4194304;" in source


# -- the compiler --------------------------------------------------------------------------------------


def test_without_a_compiler_the_source_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(c_compiler.importlib.util, "find_spec", lambda name: None)
    module = autosched.build(two_stages(), "c")
    assert "int32_t out(" in module.get_source()
    with pytest.raises(BuildError, match=r"(?s)no C compiler is found.*pip install ziglang"):
        module(np.ones((3, 3), np.float32))


@needs_compiler
def test_the_compiler_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log, real = tmp_path / "log", shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if real is None:
        pytest.skip("only ziglang")
    wrapper = tmp_path / "mycc"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", f"{wrapper} -DMINE")
    monkeypatch.setenv("CFLAGS", "-O0")
    a = np.eye(3, dtype=np.float32)
    np.testing.assert_array_equal(autosched.build(two_stages(), "c")(a), expected(a))
    assert "-DMINE" in log.read_text() and "-O0" in log.read_text()
    monkeypatch.setenv("CFLAGS", "-no-such-flag")
    with pytest.warns(RuntimeWarning, match="no-such-flag"):
        module = autosched.build(two_stages(), "c")
    with pytest.raises(BuildError, match=r"(?s)failed with status.*no-such-flag"):
        module(a)
    monkeypatch.delenv("CFLAGS")
    with pytest.raises(BuildError, match="knows no CPU 'quantum'"):
        autosched.build(two_stages(), "c -mcpu=quantum")(a)


# -- functions from outside ----------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("parallel", [False, True])
def test_functions_of_the_library_and_functions_at_addresses(parallel: bool, own_registries: None) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int64)
    add = kind(lambda a, b: a + b)
    functions.register_symbol("add_of_mine", add)
    a = te.placeholder((33,), "int32", name="a")
    out = te.compute(
        (33,), lambda i: call_pure_extern("int32", "add_of_mine", a[i], const(5, "int64"))
        + call_pure_extern("int32", "abs", a[i]), name="out",
    )  # fmt: skip
    s = autosched.create_schedule([a, out])
    if parallel:
        s[out].parallel(s[out].split(out.op.axis[0], 8)[0])
    module = autosched.build(s, "c -threads=2")
    assert "extern int32_t add_of_mine(int32_t, int64_t);" in module.get_source()
    x = np.arange(-16, 17, dtype=np.int32)
    np.testing.assert_array_equal(module(x), x + 5 + abs(x))


GUARDED = Path(__file__).with_name("c_guard_pages.py")


@needs_compiler
@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3"])
def test_nothing_behind_an_array_is_touched(level: str) -> None:
    environment = {**os.environ, "CFLAGS": level, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, GUARDED], env=environment, capture_output=True, text=True, timeout=100)
    assert done.stdout.splitlines() == ["conditions", "guarded vector loop", "groups with gaps"], done.stderr[-2000:]


def test_what_the_emitter_calls_is_no_name_of_a_stage() -> None:
    defined = {name for name, _ in C.definitions}
    assert {"padded", "chunk_size", "team_size", "thread_number", "max_threads"} <= defined
    called = {"omp_get_thread_num", "omp_get_max_threads", "isnan", "half_bits", "half_value"}
    library = {"printf", "index", "select", "y1", "gamma", "time", "clock_gettime", "qsort", "sinf", "strlen"}
    for dialect in (C, OPENCL, CUDA):
        parts = [x for x in (dialect, *dialect.halves.values(), dialect.kernels, dialect.vectors) if x is not None]
        fields = {(type(x), name): value for x in parts for name, value in vars(x).items() if value not in parts}
        texts = [str(value) for (_, name), value in fields.items() if not name.startswith(("reserved", "halves"))]
        for text in re.findall(r"\b([A-Za-z_]\w*)\(", " ".join(texts)):
            assert dialect.is_reserved(text), (dialect.name, text)
    assert all(C.is_reserved(name) for name in defined | called | library)


@needs_compiler
@pytest.mark.parametrize("name", ["padded", "max_threads", "thread_number", "chunk_size", "malloc", "y1", "select"])
def test_a_stage_may_have_the_name_of_a_helper(name: str) -> None:
    n = te.var("n")
    a = te.placeholder((n, n), name="a")
    inner = te.compute((n, n), lambda i, j: a[i, j] + 1, name=name)
    out = te.compute((n, n), lambda i, j: inner[j, i] * 2, name="out")
    s = autosched.create_schedule(out)
    s[out].parallel("i")
    x = np.arange(9, dtype="float32").reshape(3, 3)
    np.testing.assert_array_equal(autosched.build(s, TARGET, args=[a, out], name=name)(x), (x.T + 1) * 2)


def test_the_compiler_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = c_compiler.Compiler((sys.executable, "-c", "import time; time.sleep(600)"), ())
    monkeypatch.setenv("AUTOSCHED_CC_TIMEOUT", "0.2")
    with pytest.raises(BuildError, match=r"(?s)has not ended after 0.2 s.*AUTOSCHED_CC_TIMEOUT"):
        slow.run([], "compiling x")
    for wrong in ("x", "-1", "nan", "inf"):
        monkeypatch.setenv("AUTOSCHED_CC_TIMEOUT", wrong)
        with pytest.raises(UsageError, match="AUTOSCHED_CC_TIMEOUT"):
            slow.run([], "compiling x")


def failing(monkeypatch: pytest.MonkeyPatch, times: int) -> list[str]:
    """Let the C compiler fail so many times; returns the sources that it was given."""
    real, seen = c_compiler.compile_object, list[str]()

    def compile_object(source: str, *args: object, **options: object) -> object:
        seen.append(source)
        if len(seen) <= times:
            raise CompilerFailed("cc failed with status 1", asked="compiling")
        return real(source, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(c_compiler, "compile_object", compile_object)
    return seen


def test_another_schedule_is_built_where_the_compiler_fails_on_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, k = te.placeholder((40, 40), name="a"), te.placeholder((40, 40), name="b"), te.reduce_axis((0, 40), "k")
    c = te.compute((40, 40), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    monkeypatch.setenv("AUTOSCHED_PREDICT", "1")
    seen = failing(monkeypatch, 1)
    with pytest.warns(RuntimeWarning, match=r"(?s)of the model's choice.*passed over.*cc failed"):
        module = autosched.build(Workload("w", (a, b, c)), TARGET)
    assert len(seen) == 2 and module.provenance["kind"] == "default"
    x = np.arange(1600, dtype="float32").reshape(40, 40) % 7
    np.testing.assert_array_equal(module(x, x), x @ x)


def test_a_schedule_on_which_the_compiler_fails_is_built_as_source_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    a = te.placeholder((8,), name="a")
    s = autosched.create_schedule(te.compute((8,), lambda i: a[i] + 1, name="b"))
    failing(monkeypatch, 9)
    with pytest.warns(RuntimeWarning, match="built as source alone: .*cc failed"):
        module = autosched.build(s, TARGET)
    assert "a[" in module.get_source()
    with pytest.raises(BuildError, match="cc failed"):
        module(np.zeros(8, "float32"))


def test_long_sources_are_compiled_without_copies_of_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(c_compiler.Compiler, "run", lambda self, arguments, asked: given.append(arguments))
    for lines in (2, c_compiler.MOST_LINES_AT_O3 + 1):
        c_compiler.compile_object("\n" * lines, tmp_path / "x.o")
    assert ["-O2" in flags for flags in given] == [False, True]


def test_what_is_selected_is_still_vectorized() -> None:
    """Only conditional accesses that may lie side by side go without if-conversion, which selecting values needs."""
    n, r = te.var("n"), te.reduce_axis((0, 3), "r")
    a, b = (te.placeholder((n, 8), "float32", name=x) for x in "AB")
    chosen = te.compute((n, 8), lambda i, j: te.select(a[i, j] > 0, b[i, j], a[i, j]), name="C")
    near = te.compute((n, 8), lambda i, j: te.sum(b[i, j], axis=r, where=a[i, j] > r.var.astype("float32")), name="C")
    for c, wanted in ((chosen, False), (near, True)):
        args = [t for t in (a, b) if t in c.op.input_tensors] + [c]
        source = compile_c(lower_structure(create_schedule(c), args, "c").bind(), Target("c")).texts["source"]
        assert ("no-tree-loop-if-convert" in source) == wanted


@pytest.mark.parametrize("asked", ["bool", "int32", "int64"])
@pytest.mark.parametrize("of", ["int32", "float64"])
def test_what_is_selected_in_short_rows(asked: str, of: str) -> None:
    """gcc 12 with AVX2 took elements of other lanes: of 3, of 16, and of 2 or more where bytes decide."""
    draw = np.random.default_rng(0)
    for columns in (2, 3, 4, 8, 12, 16):
        shape = (50, columns)
        flags, a, b = (te.placeholder(shape, t, name=x) for x, t in (("flags", asked), ("a", of), ("b", of)))
        picked = te.compute(shape, lambda i, j, f=flags, a=a, b=b: te.select(f[i, j] != 0, a[i, j], b[i, j]), name="o")
        chosen = autosched.build(create_schedule(picked), TARGET, args=[flags, a, b, picked])
        arrays = [draw.integers(0, 2, shape).astype(asked), *(draw.integers(0, 99, (2, *shape)).astype(of))]
        np.testing.assert_array_equal(chosen(*arrays), np.where(arrays[0] != 0, *arrays[1:]), err_msg=str(columns))


@pytest.mark.parametrize(("narrow", "wide"), [("uint8", "int32"), ("int16", "int64"), ("float32", "float64")])
def test_sums_side_by_side_to_one_of_which_the_rest_is_added(narrow: str, wide: str) -> None:
    """gcc 12 with AVX2 forgot half of the first sum of signed integers; sums of floats keep its vectors of loops."""
    a, k = te.placeholder((67,), narrow, name="A"), te.reduce_axis((0, 67), "k")
    total = te.compute((1,), lambda _: te.sum(a[k].astype(wide), axis=k), name="total")
    s = create_schedule(total)
    lanes = s[s.rfactor(total, s[total].split("k", factor=8 if narrow == "int16" else 16)[1])]
    lanes.reorder("k.outer", "k.inner")
    lanes.vectorize("k.inner")
    values = (np.arange(67) * 7 % 50).astype(narrow)
    np.testing.assert_array_equal(autosched.build(s, TARGET, args=[a, total])(values), [values.sum(dtype=wide)])
    source = compile_c(lower_structure(s, [a, total], "c").bind(), Target("c")).texts["source"]
    assert ("no-tree-loop-vectorize" in source) == (wide[0] == "i")


@needs_compiler
def test_a_copied_array_on_the_stack() -> None:
    """gcc 12 with AVX-512 copied the last four of 20 floats as if they were aligned, and the call died."""
    table, at = te.placeholder((9, 20), name="table"), te.placeholder((7, 5), "int64", name="at")
    picked = te.compute(
        (7, 20),
        lambda i, d: sum(te.if_then_else(at[i, k] >= 0, table[te.max(at[i, k], 0), d], 0.0) for k in range(5)),
        name="picked",
    )
    s = create_schedule(picked)
    local = s[s.cache_write(picked, "local")]
    local.compute_at(s[picked], "i")
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-8, 8, (9, 20)).astype("float32"), rng.integers(-2, 9, (7, 5))]
    check_against_reference([table, at, picked], s, "c", inputs, "native")


def test_lanes_beside_loads_of_single_bytes_are_vectors() -> None:
    """Four bytes of each row: gcc 12 loads vectors for them where the loop over rows is the innermost one; a loop over
    many lanes is inside of it here."""
    a, b, k = te.placeholder((8, 32), "uint8", "a"), te.placeholder((4, 64), "uint8", "b"), te.reduce_axis((0, 4), "k")
    c = te.compute((8, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    for lanes, wanted in ((64, False), (4, True)):
        s = create_schedule(c)
        s[c].split("j", factor=lanes)
        s[c].reorder("j.outer", "i", "k", "j.inner")
        s[c].unroll("k")
        s[c].vectorize("j.inner")
        source = compile_c(lower_structure(s, [a, b, c], "c").bind(), Target("c")).texts["source"]
        assert ("no-tree-loop-vectorize" in source) == wanted


def _in_vectors() -> Function:
    a, b = (te.placeholder((64,), name=name) for name in "ab")
    c = te.compute((64,), lambda i: te.exp(a[i]) + b[i], name="c")
    s = create_schedule(c)
    s[c].vectorize(s[c].split("i", factor=8)[1])
    return lower_structure(s, [a, b, c], "c").bind()


def test_what_runs_here_has_vectors_and_what_others_get_is_c99() -> None:
    function = _in_vectors()
    artifact = compile_c(function, Target("c"))
    if platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("the vectors of this CPU are not known")
    assert "vector_size" in artifact.texts["source"]
    assert "vector_size" not in artifact.texts["c99"]
    assert text_for(Target("c"), artifact) == artifact.texts["c99"]
    for told in ("c -mcpu=native", "c -std=gnu99"):
        assert text_for(Target(told), artifact) == artifact.texts["source"]
    plain = compile_c(function, Target("c -std=c99"))
    assert plain.texts["source"] == artifact.texts["c99"] and "c99" not in plain.texts
    assert "vector_size" not in compile_c(function, Target("c -mcpu=of-nobody")).texts["source"]


@needs_compiler
def test_a_compiler_without_vectors_gets_c99(monkeypatch: pytest.MonkeyPatch) -> None:
    function = _in_vectors()
    found, compiled = c_compiler.require_compiler("a test"), []
    monkeypatch.setattr(c_compiler, "require_compiler", lambda asked: replace(found, vectors=False))
    compile_object = c_compiler.compile_object

    def told(source: str, *args: object, **options: object) -> object:
        compiled.append(source)
        return compile_object(source, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(c_compiler, "compile_object", told)
    arrays = [np.linspace(-3, 3, 64, dtype="float32"), np.arange(64, dtype="float32"), np.zeros(64, "float32")]
    load_kernel(compile_c(function, TARGET), TARGET).bind(arrays).run()
    np.testing.assert_allclose(arrays[2], np.exp(arrays[0]) + arrays[1], rtol=1e-6)
    assert compiled and "vector_size" not in compiled[0]


@needs_compiler
@pytest.mark.parametrize("to", ["c", "c -std=c99"])
def test_conditions_of_many_lanes(to: str) -> None:
    """A condition of one number in 64 lanes is no wider than the bytes that it is beside."""
    a, b, k = te.placeholder((2, 64), "uint8", "a"), te.placeholder((2,), name="b"), te.reduce_axis((0, 64), "k")
    either = te.compute((2, 64), lambda i, j: te.any(a[i, j] > 200, b[i] > 0), name="either")
    some = te.compute((2,), lambda i: te.any(te.all(a[i, k] > 250, b[i] > 0), axis=k), name="some")
    s = create_schedule([either, some])
    s[either].vectorize("j")
    s[some].vectorize("k")
    arrays = [np.arange(128, dtype="uint8").reshape(2, 64) * 2, np.array([-1, 1], "float32")]
    found = [np.zeros((2, 64), bool), np.zeros(2, bool)]
    autosched.build(s, to, args=[a, b, either, some])(*arrays, *found)
    np.testing.assert_array_equal(found[0], (arrays[0] > 200) | (arrays[1] > 0)[:, None])
    np.testing.assert_array_equal(found[1], (arrays[0] > 250).any(1) & (arrays[1] > 0))


@needs_compiler
@pytest.mark.parametrize("to", ["c", "c -std=c99"])
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_halves_are_rounded_to_even(source: str, lanes: int, to: str) -> None:
    """What lies between two halves, exactly and almost, of both signs and all sizes."""
    halves = np.arange(0x7C00, dtype="uint16").view("float16").astype("float64")
    between = (halves[:-1] + halves[1:]) / 2
    x = np.concatenate([halves, between, np.nextafter(between, 0), np.nextafter(between, 9e9), [65519.9, 65520, 1e9]])
    x = np.resize(np.concatenate([x, -x]), 8 * 32_000).astype(source)
    a = te.placeholder(x.shape, source, "a")
    b = te.compute(x.shape, lambda i: a[i].astype("float16"), name="b")
    s = create_schedule(b)
    if lanes > 1:
        s[b].vectorize(s[b].split("i", factor=lanes)[1])
    found = np.zeros(x.shape, "float16")
    autosched.build(s, to, args=[a, b])(x, found)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found.view("uint16"), x.astype("float16").view("uint16"))


@needs_compiler
def test_a_compiler_that_refuses_flags_of_gcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long source gets those that the compiler takes."""
    found = c_compiler.require_compiler("a test").command
    script = tmp_path / "cc"
    refuses = 'for x in "$@"; do case "$x" in -fvect*) echo "unknown option: $x"; exit 1;; esac; done'
    script.write_text(f'#!/bin/sh\n{refuses}\nexec {shlex.join(found)} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    long = "int one(void) { return 1; }\n" + "\n" * c_compiler.MOST_LINES_AT_O3
    c_compiler.compile_object(long, tmp_path / "one.o")
    assert (tmp_path / "one.o").exists()


def test_a_compiler_that_hangs_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it has started, so that nothing is left of it."""
    monkeypatch.setattr(c_compiler, "_PROBE_LIMIT_S", 0.5)
    script, there = tmp_path / "cc", tmp_path / "there"
    script.write_text(f"#!/bin/sh\n(sleep 2; touch {there}) &\nsleep 600\n")
    script.chmod(0o755)
    assert not c_compiler.Compiler((str(script),), ()).accepts()
    time.sleep(2.5)
    assert not there.exists()


@pytest.mark.parametrize("planes", [2, 3, 4])
@pytest.mark.parametrize("of", ["uint8", "float32", "float64"])
def test_planes_are_stored_in_turns_by_shuffles(planes: int, of: str) -> None:
    """And not element by element, which compilers do of a list of lanes."""
    x = te.placeholder((planes, 64), of, name="x")
    y = te.compute((64, planes), lambda i, k: x[k, i], name="y")
    s = create_schedule(y)
    i, k = s[y].loops
    block, lane = s[y].split(i, factor=8)
    s[y].reorder(block, k, lane)
    s[y].unroll(k)
    s[y].vectorize(lane)
    module = autosched.build(s, TARGET, args=[x, y])
    source = module.get_source()
    assert "[1], t" not in source and ("taken(" in source or "taken_" in source)
    given = np.arange(planes * 64).reshape(planes, 64).astype(of)
    np.testing.assert_array_equal(module(given), given.T)
