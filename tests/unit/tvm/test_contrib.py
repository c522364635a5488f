"""`tvm.contrib`: what of it is here, against NumPy."""

from __future__ import annotations

import tarfile
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import BuildError, DeviceError, FileError, UsageError
from autosched.tvm import te
from autosched.tvm.contrib import cblas, clang, dnnl, mkl, nvcc, pickle_memoize, random, sparse, tar, tedd, utils

A = te.placeholder((4, 6), name="A")
CALLS: list[int] = []  #: not in a closure, whose parts count among the arguments


def run(output: te.Tensor, *arrays: np.ndarray) -> np.ndarray:
    inputs = output.op.input_tensors
    return tvm.build(te.create_schedule(output.op), [*inputs, output])(*arrays)


@pytest.mark.parametrize("library", [cblas, mkl, dnnl])
@pytest.mark.parametrize("transa", [False, True])
@pytest.mark.parametrize("transb", [False, True])
def test_products(library, transa: bool, transb: bool) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.random((5, 3, 4), "float32"), rng.random((1, 4, 2), "float32")
    left, right = a.swapaxes(1, 2) if transa else a, b.swapaxes(1, 2) if transb else b
    x, y = te.placeholder(left.shape[1:], name="x"), te.placeholder(right.shape[1:], name="y")
    one = library.matmul(x, y, transa, transb)
    np.testing.assert_allclose(run(one, left[0].copy(), right[0].copy()), a[0] @ b[0], rtol=1e-6)
    x, y = te.placeholder(left.shape, name="x"), te.placeholder(right.shape, name="y")
    many = library.batch_matmul(x, y, transa, transb)
    assert [int(d) for d in many.shape] == [5, 3, 2]
    np.testing.assert_allclose(run(many, left.copy(), right.copy()), a @ b, rtol=1e-6)
    assert tvm.get_global_func(f"tvm.contrib.{library.__name__.rpartition('.')[2]}.matmul")


def test_products_of_bytes_and_of_vectors() -> None:
    x, y = te.placeholder((2, 300), "uint8", name="x"), te.placeholder((300, 2), "int8", name="y")
    a, b = np.full((2, 300), 255, "uint8"), np.full((300, 2), -128, "int8")
    assert run(mkl.matmul_u8s8s32(x, y), a, b).tolist() == [[300 * 255 * -128] * 2] * 2
    with pytest.raises(UsageError, match="they have 1 and 2 dimensions\n  two tensors of 2"):
        cblas.matmul(te.placeholder((4,), name="v"), A)


def test_a_library_cannot_take_numpy_along(tmp_path: Path) -> None:
    B = te.placeholder((6, 4), name="B")
    module = tvm.build(te.create_schedule(cblas.matmul(A, B).op), [A, B])
    with pytest.raises(BuildError, match=r"calls the Python function 'tvm.contrib.cblas.matmul'"):
        module.export_library(tmp_path / "x.so")


def test_random_numbers() -> None:
    def drawn() -> list[np.ndarray]:
        random.seed(5)
        made = random.uniform(2, 3, (200, 200)), random.normal(3, 4, (200, 200)), random.randint(-3, 4, (200, 200))
        return [run(t) for t in made]

    (even, bell, whole), again = drawn(), drawn()
    assert all(np.array_equal(x, y) for x, y in zip((even, bell, whole), again, strict=True))
    assert (
        2 <= even.min() < 2.01 and 2.99 < even.max() <= 3 and abs(bell.mean() - 3) < 0.1 and abs(bell.std() - 4) < 0.1
    )
    assert sorted({*whole.ravel().tolist()}) == [-3, -2, -1, 0, 1, 2, 3]
    with pytest.raises(UsageError, match="uint8 does not hold the integers from -3 to 4 - 1"):
        random.randint(-3, 4, (2,), "uint8")
    for of in ("bool", "int8", "uint64", "float16", "float32"):
        array = tvm.nd.empty((64,), of)
        tvm.get_global_func("tvm.contrib.random.random_fill")(array)
        assert np.count_nonzero(array.numpy()) == 64 and np.isfinite(array.numpy() * array.numpy()).all()


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("ascending", [False, True])
def test_sorting(axis: int, ascending: bool) -> None:
    x = np.random.default_rng(7).integers(0, 5, (4, 6)).astype("float32")
    order = np.argsort(x if ascending else -x, axis=axis, kind="stable")
    for name, of, wanted in (("argsort", "int32", order), ("sort", "float32", np.take_along_axis(x, order, axis))):
        made = te.extern(
            (4, 6),
            [A],
            lambda i, o, name=name: tvm.tir.call_packed(f"tvm.contrib.sort.{name}", i[0], o[0], axis, ascending),
            dtype=of,
            name=name,
        )
        np.testing.assert_array_equal(run(made, x), wanted)


def test_sorting_the_first_of_each_row() -> None:
    counts = te.placeholder((4,), "int32", name="counts")
    made = te.extern(
        (4, 6),
        [A, counts],
        lambda i, o: tvm.tir.call_packed("tvm.contrib.sort.argsort_nms", i[0], i[1], o[0], 1, False),
        dtype="int32",
        name="order",
    )
    x = np.tile(np.array([3, 5, 5, 1, 9, 9], "float32"), (4, 1))
    found = run(made, x, np.array([0, 3, 4, 6], "int32"))
    assert found.tolist() == [[0, 1, 2, 3, 4, 5], [1, 2, 0, 3, 4, 5], [1, 2, 0, 3, 4, 5], [4, 5, 1, 2, 0, 3]]


def test_sparse_matrices() -> None:
    dense = np.array([[0, 2, 0], [0, 0, 0], [1, 0, 3]], "float32")
    x = sparse.array(dense, tvm.cpu())
    assert (x.data.numpy().tolist(), x.indices.numpy().tolist(), x.indptr.numpy().tolist()) == (
        [2, 1, 3], [1, 0, 2], [0, 1, 1, 3])  # fmt: skip
    np.testing.assert_array_equal(sparse.array((x.data, x.indices, x.indptr), shape=(3, 3)).numpy(), dense)
    p = sparse.placeholder((te.var("m"), 3), nonzeros=te.var("n"), name="P")
    doubled = te.compute(p.data.shape, lambda i: p.data[i] * 2.0, name="doubled")
    assert run(doubled, x.data.numpy()).tolist() == [4, 2, 6] and (p.stype, p.indptr.dtype) == ("csr", "int32")
    with pytest.raises(UsageError, match="list is no matrix"):
        sparse.array([[1]])
    with pytest.raises(UsageError, match="there is no storage 'bsr'"):
        sparse.placeholder((3, 3), stype="bsr")


def test_results_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls = CALLS

    def made(offset: int, key: str, keep: bool = False):
        @pickle_memoize.memoize(key, keep)
        def compute(n, of="float32"):
            CALLS.append(n)
            return np.arange(n, dtype=of) + offset

        return compute

    first = made(10, "first")
    assert first(2) is first(2) and first(2, of="int8").dtype == "int8" and calls == [2, 2]
    assert made(20, "first")(2).tolist() == [20, 21] and first(True).size == 1 and first(1).size == 1
    with pytest.raises(UsageError, match=r"\[1\] is no key of results\n  numbers, texts, tuples"):
        first([1])
    assert not (tmp_path / pickle_memoize.FOLDER).exists()
    made(10, "second", True)(3)
    pickle_memoize.Cache.cache_by_key["second.compute"].save()
    (kept,) = tmp_path.joinpath(pickle_memoize.FOLDER).iterdir()
    count = len(calls)
    for content in (kept.read_bytes(), b"torn", b"PK"):
        kept.write_bytes(content)
        pickle_memoize.Cache.cache_by_key.pop("second.compute")
        assert made(10, "second", True)(3).tolist() == [10, 11, 12]
    assert len(calls) == count + 2  # the first file was read, nothing of the others
    several = pickle_memoize.memoize("third", True)(lambda: (np.float32(2), [np.ones(2), "x"], 1.5, None))
    several()
    cache = pickle_memoize.Cache.cache_by_key["third.<lambda>"]
    cache.save()
    (back,) = pickle_memoize.Cache("third.<lambda>", True).cache.values()
    assert back[0] == 2 and back[0].dtype == "float32" and back[1][0].tolist() == [1, 1] and back[1:][1:] == (1.5, None)
    pickle_memoize.Cache.cache_by_key.clear()
    with pytest.raises(UsageError, match="it cannot name a file"):
        pickle_memoize.memoize("a/b")


def scheduled() -> te.Schedule:
    k = te.reduce_axis((0, 6), name="k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((4,), lambda i: B[i] + 1, name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=2)
    s[C].vectorize(inner)
    s[B].compute_at(s[C], outer)
    return s


def test_graphs_of_schedules(tmp_path: Path) -> None:
    s = scheduled()
    flow = tedd.viz_dataflow_graph(s, False, "", True)
    assert flow.startswith('digraph "Dataflow Graph" {') and flow.count("{") == flow.count("}")
    assert "Tensor_0_0 -> Stage_1" in flow and "Stage_1 -> Tensor_1_0" in flow and "Tensor_1_0 -> Stage_2" in flow
    tree = tedd.viz_schedule_tree(s, False, "", True)
    assert 'Stage_1 -> Stage_2 [color="#000000" label="at i.outer"]' in tree and "(kVectorized)" in tree
    axes = tedd.viz_itervar_relationship_graph(s, output_dot_string=True)
    assert "IterVar_2_0 -> Split_Relation_2_0" in axes and "Split factor=2" in axes and "(kCommReduce)" in axes
    assert tedd.viz_schedule_tree(s, dot_file_path=str(tmp_path / "t.dot")) is None
    assert (tmp_path / "t.dot").read_text() == tree
    with pytest.raises(UsageError, match="graphs are text here"):
        tedd.viz_schedule_tree(s, show_svg=True)
    with pytest.raises(FileError):
        tedd.viz_schedule_tree(s, dot_file_path=str(tmp_path / "none" / "t.dot"))
    with pytest.raises(UsageError, match="not a schedule"):
        tedd.viz_schedule_tree(A)


def test_capabilities_of_devices() -> None:
    assert [nvcc.have_fp16(v) for v in ("5.2", "5.3", "6.0")] == [False, True, True]
    assert [f("8.6") for f in (nvcc.have_int8, nvcc.have_tensorcore, nvcc.have_bf16, nvcc.have_fp8)] == [True] * 3 + [
        False
    ]
    assert (
        nvcc.get_target_compute_version("cuda -arch=sm_90a") == "9.0"
        and nvcc.have_tensorcore(target="cuda -arch=sm_61") is False
    )
    with pytest.raises(UsageError, match=r"it is no capability\n  \"8.6\""):
        nvcc.parse_compute_version("eight")
    with pytest.raises(UsageError, match="no form 'sass'"):
        nvcc.compile_cuda("", "sass")


def test_compilers_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert clang.find_clang(required=False) == []
    with pytest.raises(BuildError, match="there is no clang on this machine\n  clang on the PATH; .*import_c"):
        clang.find_clang()
    with pytest.raises(BuildError, match="no C compiler is found"):
        clang.create_llvm("int f(void) { return 1; }\n")
    with pytest.raises(BuildError, match="there is no nvcc on this machine"):
        nvcc.compile_cuda("", arch="sm_80")
    with pytest.raises(BuildError, match="it does not answer"):
        nvcc.get_cuda_version("/nowhere")


@pytest.mark.parametrize("there_is_clang", [True, False])
def test_functions_of_c_in_llvm_assembly(there_is_clang: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not there_is_clang:
        monkeypatch.setattr(clang, "find_clang", lambda required=True: [])
    elif not clang.find_clang(required=False):
        pytest.skip("no clang")
    name = f"thrice{there_is_clang}"
    source = f'static int own(int x) {{ return x + 2 * x; }}\nextern "C" int {name}(int x) {{ return own(x); }}\n'
    text = clang.create_llvm(source, output=str(tmp_path / "x.ll"))
    assert (tmp_path / "x.ll").read_text() == text
    b = te.compute((5,), lambda i: tvm.tir.call_extern("int32", name, i), name="b")
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], "import_llvm", text)
    np.testing.assert_array_equal(tvm.build(s, [b], "llvm")(), 3 * np.arange(5))


def test_a_session_with_this_machine(tmp_path: Path) -> None:
    b = te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="b")
    function = tvm.build(te.create_schedule(b.op), [A, b], "llvm")
    remote = tvm.rpc.LocalSession()
    for file in ("lib.so", "lib.tar"):
        function.export_library(str(tmp_path / file))
        remote.upload(str(tmp_path / file))
        a, out = tvm.nd.array(np.ones((4, 6), "float32"), remote.cpu()), tvm.nd.empty((4, 6), "float32", remote.cpu())
        remote.load_module(file)(a, out)
        np.testing.assert_array_equal(out.numpy(), np.full((4, 6), 2.0))
    remote.upload(b"abc", "below/x")
    assert remote.download("below/x") == b"abc" and remote.list_files() == ["below", "lib.so", "lib.tar"]
    remote.remove("lib.so")
    with pytest.raises(UsageError, match="no such file was uploaded\n  files: below/x, lib.tar"):
        remote.load_module("lib.so")
    with pytest.raises(UsageError, match="leads out of the session's folder"):
        remote.upload(b"abc", "../x")
    with pytest.raises(DeviceError, match="there is no remote execution\n  rpc.LocalSession"):
        tvm.rpc.connect("10.0.0.1", 9090)


def test_archives(tmp_path: Path) -> None:
    function = tvm.build(te.create_schedule(te.compute((4, 6), lambda i, j: A[i, j] + 1.0, name="b").op), [A], "llvm")
    function.export_library(str(tmp_path / "lib.tar"), tar.tar)
    np.testing.assert_array_equal(
        tvm.runtime.load_module(str(tmp_path / "lib.tar"))(np.ones((4, 6), "float32")), np.full((4, 6), 2.0)
    )
    for name in ("a.o", "b.txt"):
        (tmp_path / name).write_text(name)
    assert tar.tar.output_format == "tar"
    tar.tar(str(tmp_path / "two.tar"), [str(tmp_path / "a.o"), tmp_path / "b.txt"])
    tar.untar(str(tmp_path / "two.tar"), str(tmp_path / "out"))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a.o", "b.txt"]
    with utils.tempdir() as temp:
        given = ["c.o", str(tmp_path / "two.tar")]
        found = tar.normalize_file_list_by_unpacking_tars(temp, given)
        assert found[0] == "c.o" and [Path(f).read_text() for f in found[1:]] == ["a.o", "b.txt"]
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.o").write_text("")
    with pytest.raises(UsageError, match="two of the files are called a.o"):
        tar.tar(tmp_path / "x.tar", [tmp_path / "a.o", tmp_path / "more" / "a.o"])
    with pytest.raises(FileError, match="No such file"):
        tar.tar(tmp_path / "x.tar", [tmp_path / "none.o"])
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.add(tmp_path / "a.o", arcname="../outside.o")
    with pytest.raises(FileError, match="outside"):
        tar.untar(tmp_path / "bad.tar", tmp_path / "out")
    assert not (tmp_path / "outside.o").exists()
    with pytest.raises(FileError, match="could not be opened"):
        tar.untar(tmp_path / "a.o", tmp_path / "out")


def test_paths_and_programs(tmp_path: Path) -> None:
    assert utils.which("no-such-program-at-all") is None and utils.which("sh") is not None
    assert utils.is_source_path("a/b.cc") and not utils.is_source_path("a.o") and not utils.is_source_path("x\n.c")


def test_parameters_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "params"
    tvm.runtime.save_param_dict_to_file({"w": np.arange(3.0)}, file)
    np.testing.assert_array_equal(tvm.runtime.load_param_dict_from_file(file)["w"].numpy(), [0, 1, 2])


def test_what_the_code_generator_says_of_this_machine() -> None:
    codegen = tvm.target.codegen
    have = codegen.llvm_get_cpu_features()
    assert have and codegen.llvm_cpu_has_features(sorted(have)[:2]) and not codegen.target_has_features("no-such")
    assert codegen.llvm_get_system_cpu() and "-" in codegen.llvm_get_system_triple() and tvm.runtime.num_threads() >= 1
    assert "no-such" in codegen.llvm_get_cpu_features(tvm.target.Target("llvm -mattr=+no-such"))
    with pytest.raises(UsageError, match="not this machine"):
        codegen.llvm_get_cpu_features(tvm.target.Target("llvm -mtriple=s390x-linux-gnu"))


@pytest.mark.parametrize("name", ["spirv", "rocm", "cudnn", "ndk"])
def test_libraries_of_other_devices_may_be_imported(name: str) -> None:
    """Programs import them, and use them where `tvm.device(kind).exist`."""
    module = import_module(f"autosched.tvm.contrib.{name}")
    assert getattr(tvm.contrib, name) is module
    with pytest.raises(AttributeError):
        module.optimize(b"")


@pytest.mark.parametrize("kind", ["rocm", "vulkan", "nvptx", "metal"])
def test_devices_of_other_kinds_do_not_exist(kind: str) -> None:
    assert not tvm.device(kind, 0).exist
