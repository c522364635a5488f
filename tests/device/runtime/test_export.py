"""Libraries: called by C programs that know nothing of autosched, and loaded again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import te
from autosched.errors import BuildError, UsageError
from autosched.ir.calls import call_packed
from autosched.ir.functions import load_library, register_func
from autosched.runtime import c_compiler, export
from autosched.runtime.export import load_module
from autosched.runtime.module import Module
from autosched.space.default import default_schedule
from autosched.target import Target

needs_compiler = pytest.mark.skipif(c_compiler.find_compiler() is None, reason="no C compiler")

MAIN = """\
#include <stdio.h>
#include "turned.h"

int main(void) {
  float a[12], out[9], last[4];
  for (int i = 0; i < 12; ++i) a[i] = (float)(i * i);
  if (turned(a, out, 3)) return 1;
  for (int i = 0; i < 9; ++i) printf("%g ", (double)out[i]);
  if (second(a, last, 4)) return 2;
  for (int i = 0; i < 4; ++i) printf("%g ", (double)last[i]);
  return 0;
}
"""


def turned() -> autosched.Schedule:
    """A parallel loop after a stage in the workspace, with one more row of memory for each thread."""
    n = te.var("n")
    a = te.placeholder((n, n + 1), name="A")
    first = te.compute((n, n), lambda i, j: a[j, i] * 2, name="first")
    row = te.compute((n, n), lambda i, j: first[i, j] + a[i, j + 1], name="row")
    out = te.compute((n, n), lambda i, j: row[i, n - 1 - j], name="out")
    s = autosched.create_schedule([a, out])
    s[out].parallel(out.op.axis[0])
    s[row].compute_at(s[out], out.op.axis[0])
    return s


def second() -> autosched.Schedule:
    m = te.var("m")
    a = te.placeholder((m,), name="a")
    return autosched.create_schedule([a, te.compute((m,), lambda i: te.sqrt(a[i]), name="root")])


def both(target: str) -> Module:
    return autosched.build({"turned": turned(), "second": second()}, target)


def squares(n: int) -> np.ndarray:
    return np.arange(n * (n + 1), dtype=np.float32).reshape(n, n + 1) ** 2


def expected(a: np.ndarray) -> np.ndarray:
    n = len(a)
    return (2 * a[:, :n].T + a[:, 1:])[:, ::-1]


@needs_compiler
@pytest.mark.parametrize(("target", "kind"), [("llvm", "so"), ("llvm", "o"), ("c", "a"), ("c", "so")])
def test_a_program_in_c_calls_the_library(target: str, kind: str, tmp_path: Path) -> None:
    if kind == "a" and shutil.which("ar") is None:
        pytest.skip("no ar")
    library = tmp_path / f"turned.{kind}"
    both(target).export_library(library)
    (tmp_path / "main.c").write_text(MAIN)
    compiler = c_compiler.require_compiler("test")
    if kind != "so" and not compiler.openmp:
        pytest.skip("the compiler has no OpenMP")
    files = ["main.c", f"./{library.name}", *(compiler.openmp if kind != "so" else ()), "-lm"]
    flags = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror"]
    done = subprocess.run(
        [*compiler.command, *flags, *files, "-o", "main"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    clean = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "3"}
    ran = subprocess.run([str(tmp_path / "main")], cwd=tmp_path, env=clean, capture_output=True, text=True, check=True)
    assert [float(x) for x in ran.stdout.split()] == [*expected(squares(3)).ravel(), 0, 1, 2, 3]


@needs_compiler
@pytest.mark.parametrize("target", ["llvm -threads=2", "c -threads=2"])
def test_a_library_is_loaded_again_in_another_process(target: str, tmp_path: Path) -> None:
    both(target).export_library(tmp_path / "turned.so")
    program = f"""
import numpy as np
from autosched import load_module
module = load_module({str(tmp_path / "turned.so")!r})
a = np.arange(56, dtype=np.float32).reshape(7, 8)
print(module["turned"](a).sum(), module["second"](a[0]).sum() > 0, module.target, module.type_key, *module)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    a = np.arange(56, dtype=np.float32).reshape(7, 8)
    assert ran.stdout.split() == [
        str(expected(a).sum()),
        "True",
        *target.split(),
        target.split()[0],
        "turned",
        "second",
    ]


@needs_compiler
def test_what_was_loaded_is_a_whole_module(tmp_path: Path) -> None:
    made = both("llvm")
    made.export_library(tmp_path / "turned.so")
    module = load_module(tmp_path / "turned.so")
    assert module.get_source() == made.get_source() and module.provenance == made.provenance
    with pytest.raises(BuildError, match="needs float32, got float64"):
        module(squares(3).astype(np.float64))
    assert len(module.time(squares(3), number=2, repeat=3)) == 3
    module.export_library(tmp_path / "again.so")
    np.testing.assert_array_equal(load_module(tmp_path / "again.so")(squares(5)), expected(squares(5)))


def test_a_tar_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_compiler, "find_compiler", lambda: None)
    module = both("llvm")
    module.export_library(tmp_path / "turned.tar")
    with tarfile.open(tmp_path / "turned.tar") as archive:
        assert archive.getnames() == ["turned.o", "second.o", "turned.h", "module.autosched"]
    np.testing.assert_array_equal(load_module(tmp_path / "turned.tar")(squares(4)), expected(squares(4)))
    with pytest.raises(BuildError, match=r"(?s)export_library.*no C compiler is found.*apt install gcc"):
        module.export_library(tmp_path / "turned.so")


@pytest.mark.parametrize("kind", [pytest.param("so", marks=needs_compiler), "tar"])
def test_device_code_is_kept_with_its_launches(kind: str, tmp_path: Path) -> None:
    a = te.placeholder((64,), name="a")
    b = te.compute((64,), lambda i: a[i] * 3, name="b")
    module = autosched.build(default_schedule([a, b], Target("opencl")), "opencl")
    module.export_library(tmp_path / f"times3.{kind}")
    again = load_module(tmp_path / f"times3.{kind}")
    assert [m.type_key for m in again.imported_modules] == ["opencl"]
    assert "__kernel" in again.imported_modules[0].get_source()
    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(again(x), 3 * x)
    assert not (tmp_path / "times3.h").exists()
    with pytest.raises(UsageError, match="is source, not machine code"):
        module.export_library(tmp_path / "times3.o")


def test_code_for_another_machine_is_an_object_file(tmp_path: Path) -> None:
    autosched.build(second(), "llvm -mtriple=aarch64-linux-gnu").export_library(tmp_path / "root.o")
    header = (tmp_path / "root.o").read_bytes()[:20]
    assert header[:4] == b"\x7fELF" and int.from_bytes(header[18:20], "little") == 183  # EM_AARCH64
    assert (
        "int32_t root(const float *restrict a, float *restrict root, int64_t m);" in (tmp_path / "root.h").read_text()
    )


def test_the_linking_may_be_the_users(tmp_path: Path) -> None:
    seen = []
    both("llvm").export_library(tmp_path / "x.so", fcompile=lambda path, objects: seen.append((path, len(objects))))
    assert seen == [(str(tmp_path / "x.so"), 3)]


@needs_compiler
def test_without_openmp_a_library_runs_on_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = c_compiler.require_compiler("test")
    monkeypatch.setattr(export, "require_compiler", lambda asked: c_compiler.Compiler(found.command, ()))
    both("llvm").export_library(tmp_path / "turned.so")
    assert b"libgomp" not in (tmp_path / "turned.so").read_bytes()
    np.testing.assert_array_equal(load_module(tmp_path / "turned.so")(squares(6)), expected(squares(6)))


def test_what_cannot_be_exported_or_loaded(tmp_path: Path) -> None:
    @register_func("test.export.f", override=True)
    def f(x: float) -> float:
        return x

    a = te.placeholder((4,), name="a")
    calls = te.compute((4,), lambda i: call_packed("test.export.f", a[i], dtype="float32"), name="calls")
    module = autosched.build(autosched.create_schedule([a, calls]), "llvm")
    with pytest.raises(BuildError, match="it calls the Python function 'test.export.f'"):
        module.export_library(tmp_path / "x.tar")
    for name, why in [
        ("none.so", "no such file"),
        ("x.so", "no library of ours"),
        ("x.tar", "has no module"),
        ("x.o", "linkers"),
    ]:
        if name[0] == "x":
            (tmp_path / name).write_bytes(b"not a library")
        with pytest.raises(BuildError, match=why):
            load_module(tmp_path / name)
    with pytest.raises(UsageError, match=r"(?s)no such kind of library.*x\.tar"):
        both("llvm").export_library(tmp_path / "x.exe")


@needs_compiler
def test_a_library_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    """The system's loader would end the process where a page of the file is missing."""
    both("llvm").export_library(tmp_path / "whole.so")
    whole = (tmp_path / "whole.so").read_bytes()
    for size in (20, 100, len(whole) // 2, len(whole) - 1):
        path = tmp_path / f"{size}.so"
        path.write_bytes(whole[:size])
        for load in (load_module, load_library):
            with pytest.raises(BuildError, match=r"cut off|too short"):
                load(str(path))


#: what the C library, OpenMP, the languages or this library call something of their own
TAKEN = ["malloc", "memset", "exp", "main", "int", "kernel", "barrier", "GOMP_parallel", "omp_get_thread_num", "GOMP_x"]


@pytest.mark.parametrize("name", [*TAKEN, "autosched_module", "autosched_module_bytes", "_init", "éa", "a b", "1"])
@pytest.mark.parametrize("target", ["llvm -threads=2", pytest.param("c -threads=2", marks=needs_compiler), "opencl"])
def test_a_function_may_have_any_name(target: str, name: str, tmp_path: Path) -> None:
    x = te.placeholder((40,), "float64", name="x")
    e = te.compute((40,), lambda i: te.exp(x[i]) + te.atanh(x[i]), name="e")
    y = te.compute((40,), lambda i: e[i] + e[39 - i], name="y")
    s = default_schedule([y], Target.parse(target)) if target == "opencl" else autosched.create_schedule(y)
    if target != "opencl":
        s[y].parallel(y.op.axis[0])
    module = autosched.build(s, target, args=[x, y], name=name)
    given = np.linspace(0.1, 0.9, 40)
    wanted = np.exp(given) + np.arctanh(given)
    np.testing.assert_allclose(module(given), wanted + wanted[::-1], 1e-12)
    if target != "opencl" and c_compiler.find_compiler() is not None:
        module.export_library(tmp_path / "x.so")
        np.testing.assert_array_equal(load_module(tmp_path / "x.so")[name](given), module(given))


def test_two_functions_that_are_one_in_c_are_refused(tmp_path: Path) -> None:
    module = autosched.build({"a b": turned(), "a_b": second()}, "llvm")
    for name in ("x.so", "x.tar", "x.o"):
        with pytest.raises(BuildError, match="'a b' and 'a_b' are both a_b in C"):
            module.export_library(tmp_path / name)


@needs_compiler
@pytest.mark.parametrize("target", ["c -strict", "llvm -strict"])
def test_a_strict_module_is_strict_when_it_comes_back(tmp_path: Path, target: str) -> None:
    a, b, c = (te.placeholder((256,), "float32", name=name) for name in "abc")
    args = [a, b, c, te.compute((256,), lambda i: a[i] * b[i] + c[i], name="o")]
    module = autosched.build(default_schedule(args, Target(target)), target, args=args)
    module.export_library(str(tmp_path / "strict.so"))
    module.save(str(tmp_path / "strict.artifact"))
    x, y = np.random.default_rng(1).normal(size=(2, 256)).astype("f4")
    for path in ("strict.so", "strict.artifact"):
        again = load_module(str(tmp_path / path))
        assert again.target == Target(target)
        assert not again(x, y, -(x * y)).any()


@needs_compiler
@pytest.mark.parametrize("target", ["c", "llvm"])
def test_object_files_are_linked_to_what_load_module_reads(tmp_path: Path, target: str) -> None:
    """A parallel function and another one, each saved as an object file."""
    modules = {"turned": autosched.build(turned(), target, name="turned"), "second": autosched.build(second(), target)}
    for name, module in modules.items():
        module.save(tmp_path / f"{name}.o")
    objects = [str(tmp_path / f"{name}.o") for name in modules]
    assert export.link_library(tmp_path / "both.so", objects)
    for name in modules:
        (tmp_path / f"{name}.o").unlink()
        (tmp_path / f"{name}.autosched").unlink()
    library = load_module(tmp_path / "both.so")
    x = np.arange(12, dtype=np.float32)
    np.testing.assert_array_equal(library["turned"](x.reshape(3, 4)), modules["turned"](x.reshape(3, 4)))
    np.testing.assert_array_equal(library["root"](x), np.sqrt(x))


@needs_compiler
def test_other_object_files_are_not_linked(tmp_path: Path) -> None:
    (tmp_path / "other.o").write_bytes(b"")
    assert not export.link_library(tmp_path / "x.so", [str(tmp_path / "other.o")])
    assert not export.link_library(tmp_path / "x.so", [])
    (tmp_path / "other.autosched").write_bytes(b"torn")
    with pytest.raises(BuildError):
        export.link_library(tmp_path / "x.so", [str(tmp_path / "other.o")])


@needs_compiler
def test_a_library_that_was_replaced_is_loaded_anew(tmp_path: Path) -> None:
    """The system takes one path for one library, as long as nothing unloads it."""
    x = np.ones(4, np.float32)
    loaded = []
    a = te.placeholder((4,), name="a")
    for factor in (2.0, 3.0, 4.0):
        b = te.compute((4,), lambda i, factor=factor: a[i] * factor, name="b")
        autosched.build(autosched.create_schedule(b), "llvm", args=[a, b]).export_library(tmp_path / "scaled.so")
        loaded += [load_module(tmp_path / "scaled.so"), load_module(tmp_path / "scaled.so")]
    assert [f(x)[0] for f in loaded] == [2, 2, 3, 3, 4, 4]
