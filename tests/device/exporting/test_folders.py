"""Exported folders: built by the commands of their README, called from C, ctypes and a package that sees NumPy alone."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import opencl_header
import pytest
from clean_python import run_clean
from scan_programs import bind_steps, heat, heat_states

import autosched
from autosched import te
from autosched.exporting.exports import export
from autosched.ir.buffers import decl_buffer
from autosched.runtime.c_compiler import find_compiler
from autosched.runtime.device import resolve_target
from autosched.runtime.module import Module
from autosched.space.default import default_schedule

Array = np.ndarray[Any, Any]
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


def blend() -> list[te.Tensor]:
    """Two sizes, one of them told by n + 2 alone; a workspace; loops for threads; names that other languages take."""
    n, m = te.var("n"), te.var("lambda")
    a, b = te.placeholder((n + 2, m), name="np"), te.placeholder((m,), "int16", name="in")
    wide = te.compute((n + 2, m), lambda i, j: a[i, j] + b[j].astype("float32"), name="wide")
    out = te.compute((n, m), lambda i, j: wide[i, m - 1 - j] + wide[i + 2, j] * 2, name="status")
    return [a, b, out]


@cache
def module(kind: str, name: str = "blend") -> Module:
    target = resolve_target(kind)
    args = blend()
    if target.is_gpu_style:
        s = default_schedule(args, target)
    else:
        s = autosched.create_schedule(args)
        s[args[2]].parallel(args[2].op.axis[0])
    return autosched.build(s, target, args=args, name=name)


def arrays(n: int = 13, m: int = 37) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(n)
    a, b = rng.integers(-9, 9, (n + 2, m)).astype(np.float32), rng.integers(-9, 9, m).astype(np.int16)
    wide = a + b
    return a, b, wide[:-2, ::-1] + wide[2:] * 2


def ran(folder: Path, command: str | list[str], status: int = 0) -> str:
    """What a command prints, without this library's variables."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AUTOSCHED", "PYTHON"))}
    done = subprocess.run(
        command, shell=isinstance(command, str), cwd=folder, env=clean, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def commands(folder: Path) -> list[str]:
    """The lines with which the README builds from C."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    return [c.partition("    #")[0] for c in re.findall(r"^\S*cc .*$", text, re.MULTILINE)]


USE = """
import numpy as np, os, blend
a, b = np.load("a.npy"), np.load("b.npy")
out = np.empty((a.shape[0] - 2, a.shape[1]), np.float32)
assert blend.blend(a, b, out) is out
assert (blend.blend(np.asfortranarray(a), b) == out).all()
for wrong in ((a.astype("f8"), b), (a, b[1:]), (a[0], b), (list(a), b), (a, b, out[::-1]), (a, b, a[:-2])):
    try:
        blend.blend(*wrong)
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error)
np.save("out.npy", out)
"""
SAID = """\
TypeError blend, argument 'np': it is float64, and a NumPy array of float32 is needed
ValueError blend, argument 'in': its shape is (36,), and (37,) is needed
ValueError blend, argument 'np': it has 1 dimensions, and 2 are needed
TypeError blend, argument 'np': it is list, and a NumPy array of float32 is needed
ValueError blend, argument 'status': what is written needs an array that is writeable and has no gaps
ValueError blend, argument 'status': it shares memory with another argument
"""


@needs_compiler
@pytest.mark.parametrize("kind", ["llvm", "c", "llvm -mcpu=x86-64"])
def test_a_folder_is_used_without_autosched(kind: str, tmp_path: Path) -> None:
    if "x86" in kind and os.uname().machine != "x86_64":
        pytest.skip("another machine")
    folder = tmp_path / "with space é"
    written = export(module(kind), folder)
    present = {str(p.relative_to(folder)): p.stat().st_size for p in folder.rglob("*") if p.is_file()}
    assert present == written.files
    a, b, right = arrays()
    for name, x in (("a", a), ("b", b), ("right", right)):
        x.tofile(folder / f"{name}.bin")
        np.save(folder / f"{name}.npy", x)
    for command in commands(folder):
        ran(folder, command)
        assert "as expected, largest difference 0" in ran(folder, "./main n=13 lambda=37 a.bin b.bin right.bin")
    assert "status: " in ran(folder, "./main -n 2")
    ran(folder, "make CFLAGS=-O1 && ./main n=1 lambda=1")
    if "libblend.so" not in written.files:
        ran(folder, "make CFLAGS=-O1 library")
    exec_example = run_clean((folder / "example.py").read_text().replace("__file__", "'example.py'"), folder)
    assert exec_example.startswith("status: (256, 256) float32 ")
    package = folder / "python"
    if kind == "c":  # as `pip wheel` compiles it
        (package / "blend" / "_blend.abi3.so").write_bytes((folder / "libblend.so").read_bytes())
    assert run_clean(USE, folder, package) == SAID
    assert (np.load(folder / "out.npy") == right).all()


@needs_compiler
def test_what_the_library_needs(tmp_path: Path) -> None:
    export(module("llvm"), tmp_path)
    needed = ran(tmp_path, ["nm", "-D", "--undefined-only", "libblend.so"])
    found = {re.sub("@.*", "", line.split()[-1]) for line in needed.splitlines()}
    system = {"malloc", "free", "clock_gettime", "memset", "memcpy"}
    openmp = {"GOMP_parallel", "omp_get_max_threads", "omp_get_thread_num"}
    assert {x for x in found if not x.startswith("_")} <= system | openmp


@needs_compiler
@pytest.mark.parametrize("kind", ["llvm", "c"])
def test_the_package_becomes_a_wheel(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="70.1")
    pytest.importorskip("pip")
    export(module(kind), tmp_path)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "./python",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = tmp_path.glob("*.whl")
    platform = "-".join(wheel.name.split("-")[2:])
    assert re.fullmatch(r"py3-none-\w+\.whl" if kind == "llvm" else r"cp311-abi3-\w+\.whl", platform)
    assert "any" not in platform
    a, b, right = arrays()
    for name, x in (("a", a), ("b", b)):
        np.save(tmp_path / f"{name}.npy", x)
    ran(tmp_path, [sys.executable, "-m", "zipfile", "-e", wheel.name, "unpacked"])
    assert run_clean(USE, tmp_path, tmp_path / "unpacked") == SAID
    assert (np.load(tmp_path / "out.npy") == right).all()


def imported(folder: Path, name: str) -> tuple[Path, Any]:
    """The library that an exported launcher for OpenCL becomes, and the package around it."""
    library = opencl_header.library_path(folder, name)
    (folder / "python" / name / f"_{name}.abi3.so").write_bytes(library.read_bytes())
    spec = importlib.util.spec_from_file_location(name, folder / "python" / name / "__init__.py")
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return library, package


@needs_compiler
def test_kernels_for_opencl_have_a_launcher(tmp_path: Path) -> None:
    written = export(module("opencl"), tmp_path)
    assert {"blend.cl", "blend.c", "blend.h", "main.c", "python/blend/blend.cl"} <= written.files.keys()
    library, package = imported(tmp_path, "blend")
    for n, m in ((13, 37), (1, 1), (40, 9), (13, 37)):  # sizes change from call to call
        a, b, right = arrays(n, m)
        np.testing.assert_array_equal(package.blend(a, b), right)
    assert not library_of(library).blend_open(b"missing.cl", None)
    assert "autosched" not in re.sub('"""', "", (tmp_path / "python/blend/__init__.py").read_text().split('"""')[2])


@needs_compiler
def test_a_launcher_runs_the_loops_of_the_host(tmp_path: Path) -> None:
    args = heat(te.var("steps"), te.var("n"))
    written = export(autosched.build(bind_steps(args, inlined=False), "opencl", args=args, name="heat"), tmp_path)
    assert "heat.c" in written.files
    _, package = imported(tmp_path, "heat")
    for steps, n in ((7, 100), (0, 5), (3, 33)):
        rod, got = np.arange(n, dtype=np.int32), np.empty((steps + 1, n), np.int32)
        package.heat(rod, got)
        np.testing.assert_array_equal(got, heat_states(rod, steps))


def library_of(path: Path) -> Any:
    found = ctypes.CDLL(str(path))
    found.blend_open.restype = ctypes.c_void_p
    return found


@needs_compiler
def test_offsets_that_need_64_bits_are_known_to_the_launcher(tmp_path: Path) -> None:
    """The bound is part of what depends on sizes, so it is computed there as Python computes it."""
    artifact = module("opencl").artifact
    export(module("opencl"), tmp_path)
    text = (tmp_path / "blend.c").read_text()
    body = text[text.index("#define TRY") :]
    (tmp_path / "probe.c").write_text(
        "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
        + re.search(r"enum \{ ARRAYS.*?\n\}\n\nstruct blend", text, re.DOTALL)[0].removesuffix("struct blend")  # type: ignore[index]
        + "int main(int c, char **v) { int64_t s[2] = {atoll(v[1]), atoll(v[2])}; struct plan p; measure(&p, s);\n"
        '(void)c, (void)roles, (void)starts; printf("%d %lld", p.is_wide, (long long)p.bytes[0]); return 0; }\n'
    )
    assert "is_wide" in body
    ran(tmp_path, "cc -std=c99 probe.c -o probe")
    for n, m in ((3, 5), (40_000, 100_000)):
        sizes = {"n": n, "lambda": m}
        wide = autosched.runtime.launch.LaunchPlan.of(artifact).is_wide(sizes)
        order = [sizes[s] for s in artifact.signature.sizes]
        assert ran(tmp_path, ["./probe", *map(str, order)]) == f"{int(wide)} {4 * (n + 2) * m}"


def test_machine_code_for_another_machine_is_linked_there(tmp_path: Path) -> None:
    target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
    written = export(module(target), tmp_path)
    assert set(written.files) == {"blend.o", "blend.h", "main.c", "Makefile", "example.py", "README.md"}
    assert (tmp_path / "blend.o").read_bytes()[18:20] == b"\xb7\x00"  # ELF's number of it
    assert commands(tmp_path) == ["aarch64-linux-gnu-gcc -std=c99 -O2 main.c blend.o -fopenmp -lm -o main"]
    assert "CC = aarch64-linux-gnu-gcc\n" in (tmp_path / "Makefile").read_text()
    assert "the CPU `cortex-a72`" in (tmp_path / "README.md").read_text()


NAMES = {
    "c": ["main", "print", "name", "count", "n", "h", "sizes", "weights", "math", "run", "class"],
    "opencl": ["launch", "count", "h", "state"],
}


@needs_compiler
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NAMES.items() for name in names])
def test_the_function_may_have_any_name(kind: str, name: str, tmp_path: Path) -> None:
    export(module(kind, name), tmp_path)
    source = next(p.name for p in tmp_path.glob("*.c") if p.name != "main.c")
    if kind == "opencl":
        opencl_header.library_path(tmp_path, source.removesuffix(".c"))
        return
    ran(tmp_path, "make -s CFLAGS=-O0 OPENMP=")
    a, b, right = arrays()
    for x, values in (("a", a), ("b", b), ("right", right)):
        values.tofile(tmp_path / f"{x}.bin")
    assert "as expected" in ran(tmp_path, "./main n=13 lambda=37 a.bin b.bin right.bin")
    compile((next((tmp_path / "python").glob("*/__init__.py"))).read_text(), name, "exec")


@needs_compiler
def test_what_a_call_needs_is_checked_by_examples(tmp_path: Path) -> None:
    n = te.var("n")
    a = te.placeholder((n,), "bfloat16", name="a")
    y = te.compute((n,), lambda i: a[i] + a[n - 1 - i], name="y")
    s = autosched.create_schedule([a, y])
    s[y].split(y.op.axis[0], factor=8, tail="round_up")
    export(autosched.build(s, "c", name="eights"), tmp_path)
    ran(tmp_path, "make -s CFLAGS=-O0")
    wanted = "needed: n _ 8 == 0: y.i has n iterations, which 8 has to divide\n"
    assert ran(tmp_path, "./main n=12", 2) == wanted and "y: " in ran(tmp_path, "./main n=16")
    (tmp_path / "python/eights/_eights.abi3.so").write_bytes(b"")
    text = (tmp_path / "python/eights/__init__.py").read_text()
    assert "if not ((n % 8) == 0):" in text and '"uint16"' in text
    assert "Needed: `n % 8 == 0`" in (tmp_path / "README.md").read_text()


@needs_compiler
def test_a_size_that_outputs_alone_tell(tmp_path: Path) -> None:
    n = te.var("n")
    a = te.placeholder((4,), name="a")
    export(
        autosched.build(autosched.create_schedule([a, te.compute((n * 3,), lambda i: a[i % 4], name="y")]), "llvm"),
        tmp_path,
    )
    told = run_clean(
        "import numpy as np, y\nprint(y.y(np.arange(4, dtype='f4'), np.empty(6, 'f4')))\n"
        "try: y.y(np.zeros(4, 'f4'), np.empty(7, 'f4'))\nexcept ValueError as error: print(error)",
        tmp_path,
        tmp_path / "python",
    )
    assert told == "[0. 1. 2. 3. 0. 1.]\ny, argument 'y': its shape is (7,), and (6,) is needed\n"


@needs_compiler
def test_addresses_that_kernels_ask_for(tmp_path: Path) -> None:
    a = te.placeholder((100,), name="a")
    y = te.compute((100,), lambda i: a[i] + 1, name="y")
    s = autosched.create_schedule([a, y])
    binds = {t: decl_buffer(t.shape, "float32", t.op.name, data_alignment=64) for t in (a, y)}
    export(autosched.build(s, "llvm", args=[a, y], binds=binds), tmp_path)
    assert "multiples of 64." in (tmp_path / "README.md").read_text()
    told = run_clean(
        "import numpy as np, y\nfor k in range(1, 9):\n    x = np.arange(120, dtype='f4')[k : k + 100]\n"
        "    found = y.y(x)\n    assert found.ctypes.data % 64 == 0 and (found == x + 1).all()\nprint('well')",
        tmp_path,
        tmp_path / "python",
    )
    assert told == "well\n"


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    export(module("c"), tmp_path)
    (tmp_path / "main.c").write_text("mine")
    with pytest.raises(autosched.errors.UsageError, match=r"blend.c is there already\n  --force, or another folder"):
        export(module("c"), tmp_path)
    assert (tmp_path / "main.c").read_text() == "mine"
    export(module("c"), tmp_path, force=True)
    assert (tmp_path / "main.c").read_text() != "mine"
