"""Programs of kernels: one function of machine code, C or OpenCL, and the files that are written of it."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import opencl_header
import pytest
from clean_python import run_clean

import autosched
from autosched import te
from autosched.codegen.artifact import Artifact
from autosched.codegen.signature import Param
from autosched.errors import BuildError, FileError
from autosched.exporting.folder import Exported
from autosched.graph import memory
from autosched.graph.compiled import linked
from autosched.graph.export import compile_c_program, export_c, export_llvm, export_opencl
from autosched.graph.linking import link, weight_offsets
from autosched.graph.merging import merge_launches
from autosched.graph.program import Call, Place, Program
from autosched.graph.weights import as_block
from autosched.ir.calls import call_packed
from autosched.ir.functions import register_func
from autosched.runtime import ndarray as nd
from autosched.runtime.c_compiler import find_compiler
from autosched.runtime.device import resolve_target
from autosched.runtime.export import load_module
from autosched.runtime.module import Module
from autosched.target import Target

Array = np.ndarray[Any, Any]

#: rows and columns: one array is too large for the stack, so that kernels need a workspace
ROWS, COLUMNS = 90, 200
BYTES = memory.padded(ROWS * COLUMNS * 4)
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
X = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype(np.float32)
W = [np.random.default_rng(k).standard_normal((COLUMNS, COLUMNS)).astype(np.float32) / 14 for k in (1, 2, 3)]


# -- programs by hand ---------------------------------------------------------------------------------


def scheduled(target: Target, tensors: list[te.Tensor], name: str, stages: list[te.Tensor]) -> Artifact:
    """A kernel: the last stage, or on a device all, on several threads."""
    s = autosched.create_schedule(tensors[-1].op)
    for t in stages if target.kind == "opencl" else stages[-1:]:
        if target.kind == "opencl":
            block, thread = s[t].split(s[t].op.axis[0], factor=16)
            s[t].bind(block, te.thread_axis("blockIdx.x"))
            s[t].bind(thread, te.thread_axis("threadIdx.x"))
        else:
            s[t].parallel(s[t].op.axis[0])
    return autosched.build(s, target, args=tensors, name=name).artifact


def dense(target: Target, name: str) -> Artifact:
    """relu(x @ w), by way of the product."""
    x, w = te.placeholder((ROWS, COLUMNS), name="x"), te.placeholder((COLUMNS, COLUMNS), name="w")
    k = te.reduce_axis((0, COLUMNS))
    y = te.compute((ROWS, COLUMNS), lambda i, j: te.sum(x[i, k] * w[k, j], axis=k), name="y")
    z = te.compute((ROWS, COLUMNS), lambda i, j: te.if_then_else(y[i, j] > 0, y[i, j], 0.0), name="z")
    return scheduled(target, [x, w, z], name, [y, z])


def softmax(target: Target, name: str) -> Artifact:
    x = te.placeholder((ROWS, COLUMNS), name="x")
    k, n = te.reduce_axis((0, COLUMNS)), te.reduce_axis((0, COLUMNS))
    top = te.compute((ROWS,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((ROWS, COLUMNS), lambda i, j: te.exp(x[i, j] - top[i]), name="e")
    whole = te.compute((ROWS,), lambda i: te.sum(e[i, n], axis=n), name="whole")
    out = te.compute((ROWS, COLUMNS), lambda i, j: e[i, j] / whole[i], name="out")
    return scheduled(target, [x, out], name, [top, e, whole, out])


@cache
def target_of(kind: str) -> Target:
    if kind == "opencl":
        pytest.importorskip("pyopencl")
    return resolve_target(kind)


@cache
def network(kind: str) -> Program:
    """h = three layers of one kernel, y = softmax(h), z = relu(y @ w): the output h is read, and so is the output y."""
    target = target_of(kind)
    kernels = (dense(target, "net_dense"), softmax(target, "net_softmax"))
    arena = [Place("arena", 0), Place("arena", BYTES)]
    h, y, z = (Place("output", i) for i in range(3))
    weights = [Place("weight", i) for i in range(3)]
    calls = (
        Call(0, (Place("input", 0), weights[0], arena[0]), "first */ of \\"),
        Call(0, (arena[0], weights[1], arena[1]), "second\nof"),
        Call(0, (arena[1], weights[2], h), "third"),
        Call(1, (h, y)),
        Call(0, (y, weights[0], z)),
    )
    params = [Param(n, "float32", (ROWS, COLUMNS), n != "run") for n in ("run", "A", "memory", "weights")]
    return Program("net", tuple(params[:1]), tuple(params[1:]), tuple(W), kernels, calls, 2 * BYTES)


def expected(x: Array = X) -> list[Array]:
    h = x
    for w in W:
        h = np.maximum(h @ w, 0)
    e = np.exp(h - h.max(1, keepdims=True))
    y = e / e.sum(1, keepdims=True)
    return [h, y, np.maximum(y @ W[0], 0)]


def agree(found: Any, wanted: list[Array]) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


# -- one function -------------------------------------------------------------------------------------


@cache
def module(kind: str) -> Module:
    return Module(linked(network(kind), target_of(kind)), target_of(kind))


@pytest.mark.parametrize("kind", ["llvm", pytest.param("c", marks=needs_compiler)])
def test_kernels_run_one_after_the_other(kind: str) -> None:
    f, weights = module(kind), as_block(network(kind).weights)
    agree(f(X, weights), expected())
    agree(f(X[::-1].copy(), weights), expected(X[::-1]))  # the second call is checked and made in native code
    made = [np.empty_like(X) for _ in range(3)]
    f(X, weights, *made)
    agree(made, expected())
    assert min(f.time(X, weights, number=2)) > 0


@pytest.mark.parametrize("kind", ["llvm", pytest.param("c", marks=needs_compiler)])
def test_a_saved_program_runs(kind: str, tmp_path: Path) -> None:
    module(kind).save(tmp_path / "net.bin")
    agree(Module.load(tmp_path / "net.bin")(X, as_block(network(kind).weights)), expected())


@pytest.mark.parametrize("kind", ["llvm", pytest.param("c", marks=needs_compiler)])
def test_a_profile_has_the_time_of_each_call(kind: str) -> None:
    f = Module(linked(network(kind), target_of(kind), profile=True), target_of(kind))
    *found, times = f(X, as_block(network(kind).weights))
    agree(found, expected())
    assert times.shape == (5,) and times.dtype == np.int64 and (times > 0).all()
    assert times[0] > 100  # nanoseconds: a product of matrices takes longer


def test_threads_share_no_memory() -> None:
    f, weights = module("llvm"), as_block(network("llvm").weights)
    found: dict[int, Any] = {}

    def work(k: int) -> None:
        for _ in range(3):
            found[k] = f(X * k, weights)

    threads = [threading.Thread(target=work, args=[k]) for k in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in (1, 2):
        agree(found[k], expected(X * k))


def test_the_arena_is_part_of_the_workspace() -> None:
    with module("llvm").bound([X, as_block(network("llvm").weights)]) as bound:
        own = [Module(k, target_of("llvm")) for k in network("llvm").kernels]
        with own[0].bound([X, W[0]]) as first, own[1].bound([X]) as second:
            kernels = first.workspace_bytes, second.workspace_bytes  # type: ignore[attr-defined]
        assert bound.workspace_bytes == 2 * BYTES + max(kernels)  # type: ignore[attr-defined]
        assert max(kernels) > 0


def test_a_kernel_that_is_called_often_exists_once() -> None:
    p = network("llvm")
    once = link(replace(p, calls=p.calls[:3]), target_of("llvm"))
    assert len(once.objects) == 1 + len(p.kernels)
    assert once.objects[1:] == [k.code for k in p.kernels]


@pytest.mark.parametrize("kind", ["llvm", pytest.param("c", marks=needs_compiler)])
def test_hundreds_of_calls_and_none(kind: str) -> None:
    target = target_of(kind)
    x = te.placeholder((4,), name="x")
    step = te.compute((4,), lambda i: x[i] + 1.0, name="step")
    kernel = autosched.build(autosched.create_schedule(step.op), target, args=[x, step], name="long_step").artifact
    ends = [Place("input", 0), *(Place("arena", 64 * (i % 2)) for i in range(299)), Place("output", 0)]
    calls = tuple(Call(0, (a, b)) for a, b in pairwise(ends))
    given, made = Param("x", "float32", (4,), False), Param("y", "float32", (4,), True)
    p = Program("long", (given,), (made,), (), (kernel,), calls, 128)
    assert Module(linked(p, target), target)(np.zeros(4, np.float32)).tolist() == [300.0] * 4
    nothing = Module(linked(replace(p, calls=(), kernels=(), arena=0), target), target)
    assert nothing(np.zeros(4, np.float32), np.ones(4, np.float32)).tolist() == [1.0] * 4


def test_what_a_kernel_raises_stops_the_rest() -> None:
    target = target_of("llvm")

    @register_func("test_programs.refuse", override=True)
    def refuse(a: float) -> float:
        raise ZeroDivisionError("not this one")

    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: call_packed("test_programs.refuse", x[i], dtype="float32"), name="y")
    kernel = autosched.build(autosched.create_schedule(y.op), target, args=[x, y], name="bad_y").artifact
    z = te.compute((4,), lambda i: x[i] + 1.0, name="z")
    after = autosched.build(autosched.create_schedule(z.op), target, args=[x, z], name="bad_z").artifact
    given, made = Param("x", "float32", (4,), False), Param("z", "float32", (4,), True)
    calls = (Call(0, (Place("input", 0), Place("arena", 0))), Call(1, (Place("input", 0), Place("output", 0))))
    f = Module(link(Program("bad", (given,), (made,), (), (kernel, after), calls, 64), target), target)
    out = np.zeros(4, np.float32)
    for _ in range(2):  # by Python's way, and by native code's
        with pytest.raises(ZeroDivisionError, match="not this one"):
            f(np.ones(4, np.float32), out)
    assert out.tolist() == [0.0] * 4


def test_weights_lie_at_multiples_of_64_and_are_copied_once() -> None:
    values: list[Any] = [
        np.arange(3, dtype=np.int8),
        np.float64(2.5).reshape(()),
        np.zeros((0, 4)),
        np.arange(12.0).reshape(3, 4).T,
    ]
    p = replace(network("llvm"), weights=tuple(values))
    offsets, size = weight_offsets(p)
    assert (offsets, size) == ([0, 64, 128, 128], 256)
    block = as_block(p.weights)
    assert block.ctypes.data % 64 == 0 and block.nbytes == 256
    for offset, w in zip(offsets, values, strict=True):
        assert np.array_equal(block[offset : offset + w.nbytes].view(w.dtype).reshape(w.shape), w)


_BAD: dict[str, Callable[[Program], Program]] = {
    "it takes 3 arrays": lambda p: replace(p, calls=(Call(0, (Place("input", 0),)),)),
    "there is no weight 7": lambda p: replace(
        p, calls=(Call(0, (Place("input", 0), Place("weight", 7), Place("output", 0))),)
    ),
    "is not in the arena": lambda p: replace(p, arena=BYTES),
    "is written, and it is an input": lambda p: replace(p, calls=(Call(1, (Place("output", 0), Place("input", 0))),)),
    "something else has this name": lambda p: replace(p, kernels=(p.kernels[0], p.kernels[0])),
    "bytes": lambda p: replace(p, weights=(W[0][:5], *W[1:])),
    "it is code for c": lambda p: replace(p, kernels=network("c").kernels),
    "no program can be called": lambda p: replace(p, name="run"),
}


@pytest.mark.parametrize("why", _BAD)
def test_what_does_not_fit_together_is_refused(why: str) -> None:
    with pytest.raises(BuildError, match=re.escape(why)):
        link(_BAD[why](network("llvm")), target_of("llvm"))


# -- files of CPU code --------------------------------------------------------------------------------


def ran(folder: Path, command: str) -> str:
    done = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def with_arrays(folder: Path) -> str:
    X.tofile(folder / "x.bin")
    for name, a in zip("hyz", expected(), strict=True):
        a.tofile(folder / f"{name}.bin")
    return "x.bin h.bin y.bin z.bin"


@needs_compiler
@pytest.mark.parametrize(("arrays", "openmp"), [(False, ""), (True, "-fopenmp")], ids=["alone", "arrays-openmp"])
def test_a_folder_of_c_builds_alone(arrays: bool, openmp: str, tmp_path: Path) -> None:
    written = export_c(network("c"), tmp_path, target_of("c"), arrays=arrays)
    present = {str(p.relative_to(tmp_path)): p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()}
    assert present.pop("python/net/weights.bin") == present["weights.bin"]  # a second name, or a copy
    assert present == written.files
    assert written.files["weights.bin"] == weight_offsets(network("c"))[1]
    assert ("weights.c" in present) == arrays
    assert not re.search(r"autosched\.h|Python\.h", "".join(p.read_text() for p in tmp_path.glob("*.[ch]")))
    if arrays:
        (tmp_path / "weights.bin").unlink()  # nothing has to be loaded
    ran(tmp_path, f"make CFLAGS=-O1 OPENMP={openmp}")
    told = ran(tmp_path, f"./main -n 2 {with_arrays(tmp_path)}")
    assert told.count("as expected") == 3
    assert "run:" not in told and "A: " in ran(tmp_path, "./main")


@needs_compiler
def test_the_command_says_what_differs(tmp_path: Path) -> None:
    export_c(network("c"), tmp_path, target_of("c"))
    ran(tmp_path, "make CFLAGS=-O1 OPENMP=")
    files = with_arrays(tmp_path)
    wrong = expected()[1]
    wrong[3, 7] += 1
    wrong.tofile(tmp_path / "y.bin")
    done = subprocess.run(["./main", *files.split()], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"1 differ, element {3 * COLUMNS + 7} first" in done.stdout
    (tmp_path / "x.bin").write_bytes(b"short")
    done = subprocess.run(["./main", "x.bin"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"x.bin: {X.nbytes} bytes are needed\n")


@needs_compiler
def test_c_runs_in_memory_of_its_caller(tmp_path: Path) -> None:
    export_c(network("c"), tmp_path, target_of("c"))
    ran(tmp_path, "make CFLAGS=-O1 OPENMP= library")
    library = ctypes.CDLL(str(tmp_path / "libnet.so"))
    library.net_memory.restype = ctypes.c_int64
    size = library.net_memory()
    assert size > 2 * BYTES
    guarded = np.full(size + 192, 0xA5, np.uint8)
    start = 64 + -guarded.ctypes.data % 64
    weights, made = as_block(network("c").weights), [np.empty_like(X) for _ in range(3)]
    arrays = [X, weights, *made, guarded[start:]]
    assert library.net_in(*(ctypes.c_void_p(a.ctypes.data) for a in arrays)) == 0
    agree(made, expected())
    assert (guarded[:start] == 0xA5).all() and (guarded[start + size :] == 0xA5).all()


@needs_compiler
def test_machine_code_in_a_folder(tmp_path: Path) -> None:
    written = export_llvm(network("llvm"), tmp_path, target_of("llvm"))
    assert {
        "net.o",
        "net_dense.o",
        "net_softmax.o",
        "net.h",
        "libnet.so",
        "weights.bin",
        "main.c",
    } <= written.files.keys()
    ran(tmp_path, "make CFLAGS=-O1")
    assert ran(tmp_path, f"./main {with_arrays(tmp_path)}").count("as expected") == 3
    agree(load_module(tmp_path / "libnet.so")(X, as_block(network("llvm").weights)), expected())
    program = "import numpy as np, net\nfor k, x in enumerate(net.net(np.fromfile('x.bin', 'f4').reshape(90, 200))):\n"
    run_clean(f"{program}    np.save(f'made{{k}}.npy', x)", tmp_path, tmp_path / "python")
    agree([np.load(tmp_path / f"made{k}.npy") for k in range(3)], expected())
    assert run_clean((tmp_path / "example.py").read_text().replace("__file__", "'x'"), tmp_path).count("float32") == 3
    shown = ran(tmp_path, "nm -D --defined-only libnet.so")
    assert "net_packed" in shown and "net_dense" not in shown  # two libraries of one process may have such kernels


def test_machine_code_for_another_machine(tmp_path: Path) -> None:
    target = Target.parse("llvm -mtriple=aarch64-linux-gnu")
    x = te.placeholder((4,), name="x")
    y = te.compute((4,), lambda i: x[i] + 1.0, name="y")
    kernel = autosched.build(autosched.create_schedule(y.op), target, args=[x, y], name="arm_y").artifact
    given, made = Param("x", "float32", (4,), False), Param("y", "float32", (4,), True)
    p = Program("arm", (given,), (made,), (), (kernel,), (Call(0, (Place("input", 0), Place("output", 0))),), 0)
    written = export_llvm(p, tmp_path, target)
    assert set(written.files) == {"arm.o", "arm_y.o", "arm.h", "main.c", "Makefile", "example.py", "README.md"}
    assert all((tmp_path / f).read_bytes()[18:20] == b"\xb7\x00" for f in ("arm.o", "arm_y.o"))  # ELF's number of it


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError):
        export_c(network("c"), tmp_path / "file", target_of("c"))
    assert str(Exported({"a.c": 1000, "weights.bin": 64}, 12)) == (
        "2 files: 12 lines of source, 1,000 bytes; weights.bin 64 bytes"
    )


@needs_compiler
def test_c_that_calls_functions_of_this_process_is_no_library() -> None:
    p = network("c")
    calling = replace(p.kernels[0], meta={**p.kernels[0].meta, "symbols": ["mine"]})
    with pytest.raises(BuildError, match="calls 'mine'"):
        compile_c_program(replace(p, kernels=(calling, p.kernels[1])), target_of("c"))


# -- devices ------------------------------------------------------------------------------------------


def test_a_device_runs_all_launches() -> None:
    f = module("opencl")
    device = nd.device("opencl")
    weights = [nd.array(w, device) for w in W]  # which stay there
    agree(f(X, *weights), expected())
    with f.bound([X, *W]) as bound:
        times = bound.times()  # type: ignore[attr-defined]
    calls = f.artifact.meta["calls"]
    assert len(times) == len(calls) and min(times) > 0
    assert sorted(set(calls)) == [0, 1, 2, 3, 4]


def test_intermediates_share_buffers_and_sources_their_helpers() -> None:
    p = network("opencl")
    merged = merge_launches(p, target_of("opencl"))
    buffers = [b["elements"] for b in merged.meta["device"]]
    own = [sum(b["elements"] for b in k.meta["device"]) * 4 for k in p.kernels]
    assert sum(buffers) < 2 * BYTES + 4 * own[0] + own[1]
    source = merged.code.decode()
    assert source.count("typedef INDEX_T index_t;") == 1
    assert len(re.findall(r"^__kernel", source, re.MULTILINE)) == sum(len(k.meta["launches"]) for k in p.kernels)


def test_a_part_of_an_intermediate_is_refused_on_a_device() -> None:
    p = network("opencl")
    inside = Call(0, (Place("arena", 64), Place("weight", 0), Place("output", 0)))
    with pytest.raises(BuildError, match="no call before it wrote as a whole"):
        merge_launches(replace(p, calls=(p.calls[0], inside)), target_of("opencl"))


@needs_compiler
def test_the_launcher_runs(tmp_path: Path) -> None:
    written = export_opencl(network("opencl"), tmp_path, target_of("opencl"))
    assert {"net.cl", "net.c", "net.h", "weights.bin", "main.c", "Makefile"} < written.files.keys()
    library = opencl_header.launcher(tmp_path, "net")
    library.net_open.restype = ctypes.c_void_p
    weights, made = as_block(network("opencl").weights), [np.empty_like(X) for _ in range(3)]
    device = ctypes.c_void_p(library.net_open(os.fsencode(tmp_path / "net.cl"), ctypes.c_void_p(weights.ctypes.data)))
    assert device
    for _ in range(2):
        assert library.net(device, *(ctypes.c_void_p(a.ctypes.data) for a in (X, *made))) == 0
    library.net_close(device)
    agree(made, expected())
    assert not library.net_open(b"missing.cl", None)
