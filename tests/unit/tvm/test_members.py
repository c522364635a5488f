"""Members of TVM's objects that are not here, scripts that are not read, and small parts that are."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from autosched import tvm
from autosched.errors import UsageError
from autosched.tvm import autotvm, te, tir, topi
from autosched.tvm.coverage import names_used
from autosched.tvm.members import MEMBERS
from autosched.tvm.script import tir as T
from autosched.tvm.topi.nn.winograd_util import matrices, winograd_transform_matrices


@pytest.fixture
def B() -> te.Tensor:
    A = te.placeholder((4,), name="A")
    return te.compute((4,), lambda i: A[i] + 1, name="B")


def test_members_that_are_not_here_say_what_there_is(B: te.Tensor) -> None:
    s = te.create_schedule(B.op)
    blocks = tir.Schedule(te.create_prim_func([B.op.input_tensors[0], B]))
    objects = {
        "te.Schedule": s,
        "te.Stage": s[B],
        "tir.schedule.BlockRV": blocks.get_block("B"),
        "tir.schedule.LoopRV": s[B].loops[0],
        "tir.Schedule": blocks,
        "tir.schedule.Trace": blocks.trace,
        "tir.PrimFunc": blocks.mod["main"],
        "tir.Function": tvm.lower(s, [B])["main"],
        "tir.Buffer": tir.decl_buffer((4,), "float32"),
        "IRModule": blocks.mod,
        "runtime.Module": tvm.build(s, [*B.op.input_tensors, B]),
    }
    for name, instance in objects.items():
        for member, instead in MEMBERS[name].items():
            assert not hasattr(instance, member), (name, member)
            with pytest.raises(AttributeError) as raised:
                getattr(instance, member)
            assert isinstance(raised.value, UsageError) and raised.value.legal == instead
            assert f"tvm.{name}.{member}" in str(raised.value)
    for instance in objects.values():
        with pytest.raises(AttributeError, match="no_such_thing"):
            _ = instance.no_such_thing


def test_coverage_knows_them(B: te.Tensor) -> None:
    program = "from tvm import te\ns = te.create_schedule(B.op)\nprint(s.get_loops, s.trace)\n"
    found = {use.name: (use.status, use.what) for use in names_used(program)}
    assert found["te.Schedule.get_loops"] == ("replaced", MEMBERS["te.Schedule"]["get_loops"])
    assert found["te.Schedule.trace"][0] == "works"


def test_a_script_with_an_unknown_name_fails_where_it_is_used() -> None:
    @T.prim_func
    def fragment(A: T.Buffer((16,), "float32")) -> None:  # type: ignore[valid-type]
        T.evaluate(T.no_such_instruction(A.data))

    for use in (lambda: fragment.script(), lambda: fragment["x"], lambda: fragment(1)):
        with pytest.raises(UsageError, match="no_such_instruction"):
            use()
    with pytest.raises(UsageError, match="fragment, which was not read"):
        tvm.build(fragment, target="llvm")
    assert not hasattr(fragment, "__len__")
    with pytest.raises(UsageError, match="the script fragment was not read: tvm.script.tir"):
        tir.Schedule(fragment)


def test_a_context_that_is_not_entered_may_be_asked(B: te.Tensor) -> None:
    found = autotvm.apply_history_best(None).query(tvm.target.Target("llvm"), ("no such task", 1))
    assert found.is_fallback


def test_a_function_of_blocks_with_a_number_among_its_arguments() -> None:
    A, start = te.placeholder((8,), name="A"), te.var("start")
    B = te.compute((4,), lambda i: A[i + start], name="B")
    f = te.create_prim_func([A, start, B], index_dtype_override="int64")
    assert "start: T.int32" in f.script() and "for" in str(tvm.lower(f))
    out = np.zeros(4, "float32")
    tvm.build(f, target="llvm")(np.arange(8, dtype="float32"), 3, out)
    np.testing.assert_array_equal(out, [3, 4, 5, 6])
    assert f.body is not None


def test_modules_of_functions(B: te.Tensor) -> None:
    mod = tvm.lower(te.create_schedule(B.op), [B])
    copy = mod.clone()
    copy.update({"other": mod["main"]})
    assert list(mod) == ["main"] and list(copy) == ["main", "other"]
    marked = mod.with_attr("a", 1).with_attrs({"b": 2})
    assert (marked.get_attr("a"), marked.get_attr("b"), mod.get_attr("a")) == (1, 2, None)
    assert marked.without_attr("a").get_attr("a") is None
    assert dict(mod.functions_items()).keys() == {"main"}


@pytest.mark.parametrize("tile", [2, 4, 8])
@pytest.mark.parametrize("kernel", [3, 5, 7])
def test_winograd_s_matrices_convolve_exactly(tile: int, kernel: int) -> None:
    a, b, g = (np.array(m, dtype=object) for m in matrices(tile, kernel))
    d = np.array([Fraction(k * k - 7, k + 1) for k in range(tile + kernel - 1)])
    f = np.array([Fraction(3 * k - 4, k + 2) for k in range(kernel)])
    wanted = [sum(d[i + k] * f[k] for k in range(kernel)) for i in range(tile)]
    assert list(a.T.dot(g.dot(f) * b.T.dot(d))) == wanted


def test_winograd_s_matrices_as_tensors() -> None:
    tensors = winograd_transform_matrices(2, 3, "float32")
    assert [topi.get_const_tuple(t.shape) for t in tensors] == [(4, 2), (4, 4), (4, 3)]
    B = tensors[1]
    out = np.zeros((4, 4), "float32")
    tvm.build(te.create_schedule(B.op), [B])(out)
    np.testing.assert_array_equal(out, [[1, 0, 0, 0], [0, -1, 1, -1], [-1, 1, 1, 0], [0, 0, 0, 1]])
    with pytest.raises(UsageError, match="tiles of 2 to 8"):
        winograd_transform_matrices(9, 3, "float32")


def test_random_matrices_of_blocks() -> None:
    random_bsr_matrix = tvm.topi.sparse.utils.random_bsr_matrix
    made = random_bsr_matrix(8, 12, 2, 3, 0.25, "float32")
    assert made.data.shape == (5, 2, 3) and made.data.dtype == "float32" and len(made.indptr) == 5
    assert random_bsr_matrix(4, 4, 2, 2, 1.0, "float64").data.shape == (4, 2, 2)
    with pytest.raises(UsageError, match="do not divide"):
        random_bsr_matrix(8, 12, 3, 3, 0.25, "float32")


@pytest.mark.parametrize(
    ("options", "has"),
    [
        ("", set()),
        ("-mtriple=x86_64-linux-gnu -mattr=+avx2", set()),
        ("-mtriple=aarch64-linux-gnu", {"asimd"}),
        ("-mtriple=aarch64-linux-gnu -mattr=+v8.2a,+fullfp16", {"asimd", "fp16_simd"}),
        ("-mtriple=aarch64-linux-gnu -mattr=+v8.6a,+sve", {"asimd", "dotprod", "matmul_i8", "fp16_simd", "sve"}),
        ("-mtriple=aarch64-linux-gnu -mattr=+v9a,+sme,-sve", {"asimd", "dotprod", "matmul_i8", "sme"}),
        ("-mtriple=arm-linux-gnueabihf -mattr=+neon", {"asimd"}),
    ],
)
def test_what_a_target_says_of_an_arm_cpu(options: str, has: set[str]) -> None:
    features = tvm.target.Target(f"llvm {options}").features
    names = "asimd dotprod matmul_i8 fp16_simd sve sme".split()
    assert {n for n in names if getattr(features, f"has_{n}")} == has
    assert features.is_aarch64 == ("aarch64" in options) and features.has_no_such_thing is None


def test_libraries_for_gpus_say_that_they_are_not_here() -> None:
    from autosched.tvm.contrib import cudnn, nnpack, thrust

    assert not cudnn.exists() and not nnpack.is_available() and not thrust.can_use_thrust()
    with pytest.raises(AttributeError, match="te.extern"):
        cudnn.conv_forward()


def test_operators_of_calls_have_tvm_s_names() -> None:
    A = te.placeholder((4,), name="A")
    named = {"exp": "tir.exp", "tanh": "tir.tanh", "abs": "tir.fabs", "isnan": "tir.isnan", "sigmoid": "tir.sigmoid"}
    for name, wanted in named.items():
        (e,) = te.compute((4,), lambda i: vars(te)[name](A[i] * 3), name="B").op.body  # noqa: B023
        assert e.op == name and e.op.name == wanted and repr(e.op) == repr(name)
        assert type(pickle.loads(pickle.dumps(e.op))) is str and json.dumps(e.op) == f'"{name}"'
    assert te.power(A[0], A[1]).op.name == "tir.pow"


def test_parts_of_loops_and_functions(B: te.Tensor) -> None:
    f = te.create_prim_func([*B.op.input_tensors, B])
    sch = tir.Schedule(f)
    (i,) = sch.get_loops(sch.get_block("B"))
    assert sch.get(i).extent.value == 4 and sch.get(i).min.value == 0 and sch.get(i).loop_var.dtype == "int32"
    outer, inner = sch.split(i, [None, 2])
    assert (outer.extent.value, inner.extent.value) == (2, 2) and not hasattr(i, "extent")
    assert [f.buffer_map[p] for p in f.params] == list(f.params)
    assert f.same_as(f) and not f.same_as(sch.mod["main"]) and sch.get(sch.get_block("B")).same_as(sch.schedule["B"])
    assert not sch.can_decompose_padding(sch.get_block("B"), outer)


def test_files_of_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autosched.tvm.contrib.download import download, download_testdata

    source, there = tmp_path / "source", tmp_path / "there"
    source.write_text("one")
    download(source.as_uri(), there)
    source.write_text("three")
    download(source.as_uri(), there)
    assert there.read_text() == "one"
    download(source.as_uri(), there, size_compare=True)
    assert there.read_text() == "three"
    monkeypatch.setenv("TVM_TEST_DATA_ROOT_PATH", str(tmp_path / "data"))
    found = download_testdata(source.as_uri(), "a.txt", module=["x", "y"])
    assert Path(found) == tmp_path / "data" / "x" / "y" / "a.txt" and Path(found).read_text() == "three"
    with pytest.raises(UsageError, match="put there by hand"):
        download((tmp_path / "none").as_uri(), tmp_path / "other")


def test_views_by_an_older_name() -> None:
    @T.prim_func
    def added(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")) -> None:  # type: ignore[valid-type]
        flat = T.buffer_decl([4], dtype="float32", data=A.data)
        for i in range(4):
            B[i] = flat[i] + 1.0

    out = np.zeros(4, "float32")
    tvm.build(tvm.lower(added), target="llvm")(np.ones(4, "float32"), out)
    np.testing.assert_array_equal(out, 2)


def test_parts_that_statements_and_expressions_do_not_have(B: te.Tensor) -> None:
    f = te.create_prim_func([B.op.input_tensors[0], B])
    with pytest.raises(
        AttributeError, match=r"tvm\.tir\.Produce\.block .*\n  name, body; print\(f\.script\(\)\) shows"
    ):
        f.body.block  # noqa: B018
    with pytest.raises(UsageError, match=r"tvm\.tir\.For\.attr_key .*\n  var, start, extent, kind, body"):
        f.body.body.attr_key  # noqa: B018
    with pytest.raises(UsageError, match=r"tvm\.tir\.PrimExpr\.kind .*\n  of A\[i\] \+ 1\.0f: op, args, .*, a, b"):
        B.op.body[0].kind  # noqa: B018
    assert not hasattr(f.body, "block") and not hasattr(B.op.body[0], "kind") and hasattr(B.op.body[0], "a")


def test_the_block_that_finishes_an_element_keeps_its_name() -> None:
    A = te.placeholder((4, 8), name="A")
    P = te.compute((4, 8), lambda i, j: A[i, j] * 3, name="P")
    C = te.compute((32,), lambda n: P[n // 8, n % 8] + 1, name="C")
    sch = tir.Schedule(te.create_prim_func([A, C]))
    p = sch.get_block("P")
    loops = sch.get_loops(p)
    sch.reverse_compute_inline(sch.get_block("C"))
    assert (
        sch.get_loops(p) == loops
        and sch.get(p).name_hint == "P"
        and [b.name for b in sch.get_child_blocks(sch.get_block("root"))] == ["P"]
    )
    with pytest.raises(UsageError.__bases__[0], match="C is inlined"):
        sch.get_block("C")
    sch.vectorize(loops[1])
    a = np.arange(32, dtype="float32").reshape(4, 8)
    again = tvm.script.from_source(sch.mod.script())
    for mod in (sch.mod, again):
        np.testing.assert_array_equal(tvm.build(mod, target="llvm")(a), a.ravel() * 3 + 1)


@T.prim_func
def product(A: T.Buffer((12, 32), "float32"), B: T.Buffer((32, 8), "float32"), C: T.Buffer((12, 8), "float32")):
    for i, j, k in T.grid(12, 8, 32):
        with T.block("update"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def test_a_block_around_loops_and_calls_made_again() -> None:
    sch = tir.Schedule(product)
    block = sch.get_block("update")
    stage = sch.get_sref(block).stmt
    assert stage is sch.get(block) and sch.get_sref(block).same_as(tir.schedule.StmtSRef(stage))
    assert [a.name for a in stage.iter_vars] == ["i", "j", "k"]
    assert [x.buffer.name for x in (*stage.reads, *stage.writes)] == ["A", "B", "C"]
    i, j, k = sch.get_loops(block)
    io, ii = sch.split(i, [None, 4])
    ko, ki = sch.split(k, [None, 8])
    sch.reorder(io, j, ko, ii, ki)
    outer = sch.blockize(ii)
    sch.annotate(outer, "meta_schedule.tiling_structure", "SSRSRS")
    assert sch.get_loops(outer) == [io, j, ko] and sch.get_loops(block) == [ii, ki]
    k0, k1 = sch.split(ki, [4, 2])
    sch.reorder(k1, k0, ii)
    assert sch.get_loops(outer) == [io, j, ko] and sch.get_loops(block) == [k1, k0, ii]
    cache = sch.cache_write(block, 0, "local")  # the block and its buffer have different names
    sch.reverse_compute_at(cache, j)
    sch.decompose_reduction(outer, ko)
    assert sch.get(cache).name_hint == "C_local" and sch.get(block).name_hint == "update"
    copy, again, stored = sch.copy(), tir.Schedule(product), tir.Schedule(product)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    stored.trace.apply_json_to_schedule(json.loads(json.dumps(sch.trace.as_json())), stored)
    assert [x.name for x in copy.get_loops(outer)] == [x.name for x in sch.get_loops(outer)]
    with pytest.raises(UsageError, match="other calls were made on that schedule already"):
        sch.trace.apply_to_schedule(copy) or tir.Schedule(product).trace.apply_to_schedule(copy)
    rng = np.random.default_rng(1)
    a, b = rng.integers(-9, 9, (12, 32)).astype("float32"), rng.integers(-9, 9, (32, 8)).astype("float32")
    for made in (sch, copy, again, stored):
        np.testing.assert_array_equal(tvm.build(made.mod, target="llvm")(a, b), a @ b)
