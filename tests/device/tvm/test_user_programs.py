"""Programs as users of TVM write them: builds, libraries, devices, functions by name, tests."""

import numpy as np
import pytest

from autosched import tvm
from autosched.tvm import te, tir
from autosched.tvm.contrib import cc, utils


def add_one(n=None):
    n = te.var("n") if n is None else n
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    return te.create_schedule(B.op), [A, B]


def runs(f) -> None:
    x = tvm.nd.array(np.arange(5, dtype="float32"))
    y = tvm.nd.empty((5,), "float32")
    f(x, y)
    tvm.testing.assert_allclose(y.numpy(), x.numpy() + 1)


@pytest.mark.parametrize("form", ["text", "object", "module", "function", "entry", "by_target", "host", "from_expr"])
def test_ways_to_build(form: str) -> None:
    s, args = add_one()
    mod = tvm.lower(s, args, name="f")
    runs(
        {
            "text": lambda: tvm.build(s, args, "llvm -num-cores=1", name="f"),
            "object": lambda: tvm.build(s, tuple(args), tvm.target.Target("llvm", host="llvm")),
            "module": lambda: tvm.build(mod, target="llvm", target_host="llvm")["f"],
            "function": lambda: tvm.build(mod["f"], target="llvm"),
            "entry": lambda: tvm.build(s, args, "llvm", name="f")["__tvm_main__"],
            "by_target": lambda: tvm.build({"llvm": mod}),
            "host": lambda: tvm.build(mod, target=tvm.target.Target("llvm", host="llvm")),
            "from_expr": lambda: tvm.build(tvm.IRModule.from_expr(mod["f"].with_attr("global_symbol", "g")))["g"],
        }[form]()
    )


def test_buffers_as_arguments() -> None:
    s, (A, B) = add_one()
    Ab, Bb = (tir.decl_buffer(t.shape, t.dtype, name=t.name + "b") for t in (A, B))
    assert isinstance(tvm.lower(s, [Ab, Bb], binds={A: Ab, B: Bb})["main"], tir.PrimFunc)
    runs(tvm.build(s, [Ab, Bb], "llvm", binds={A: Ab, B: Bb}))


def test_a_function_that_a_module_does_not_have() -> None:
    s, args = add_one()
    f = tvm.build(s, args, "llvm", name="addone")
    runs(f["addone"])
    with pytest.raises(AttributeError, match="functions: addone"):
        f.get_function("nothere")


def test_libraries() -> None:
    s, args = add_one()
    f = tvm.build(s, args, "llvm", name="addone")
    with utils.tempdir() as temp:
        f.export_library(temp.relpath("a.so"), fcompile=cc.create_shared)
        runs(tvm.runtime.load_module(temp.relpath("a.so"))["addone"])
        f.save(temp.relpath("b.o"))
        cc.create_shared(temp.relpath("b.so"), [temp.relpath("b.o")])
        assert {"a.so", "b.o", "b.so"} <= set(temp.listdir())
        with pytest.raises(tvm.TVMError, match="complaints"):
            cc.create_shared(temp.relpath("c.so"), [temp.relpath("nothere.o")])


def test_python_functions_take_arrays_as_tvm_s_do() -> None:
    @tvm.register_func("user_programs.matmul", override=True)
    def matmul(a, b, c):
        assert a.device == tvm.cpu(0) and a.shape == (6, 6) and a.dtype == "float32"
        tvm.nd.array(a.numpy() @ b.asnumpy()).copyto(c)

    A, B = te.placeholder((6, 6), name="A"), te.placeholder((6, 6), name="B")
    C = te.extern(
        (6, 6), [A, B], lambda ins, outs: tir.call_packed("user_programs.matmul", ins[0], ins[1], outs[0]), name="C"
    )
    bias = te.var("bias", dtype="float32")
    D = te.compute(C.shape, lambda i, j: C[i, j] + bias, name="D")
    f = tvm.build(te.create_schedule(D.op), [A, B, D, bias], "llvm")
    a, b = np.random.default_rng(0).random((2, 6, 6), "float32")
    d = tvm.nd.array(np.zeros((6, 6), "float32"))
    f(tvm.nd.array(a), tvm.nd.array(b), d, 10.0)
    tvm.testing.assert_allclose(d.numpy(), a @ b + 10, rtol=1e-5)


def test_functions_by_name() -> None:
    @tvm.register_func("user_programs.total", override=True)
    def total(*args):
        return sum(args)

    f = tvm.get_global_func("user_programs.total")
    assert isinstance(f, tvm.runtime.PackedFunc) and f(*range(5)) == 10
    assert tvm.get_global_func("user_programs.none", allow_missing=True) is None
    assert "user_programs.total" in tvm._ffi.registry.list_global_func_names()
    tvm._ffi.registry.remove_global_func("user_programs.total")
    assert tvm._ffi.get_global_func("user_programs.total", allow_missing=True) is None


def test_values_and_types() -> None:
    assert [e.value for e in tvm.runtime.convert([1, 2])] == [1, 2] and tvm.convert("x") == "x"
    assert tvm.DataType("float32x4").lanes == 4 and tvm.runtime.DataType("int8").bits == 8
    A = tir.decl_buffer((10, 20), "float32", name="A", strides=[20, 1], offset_factor=8, data_alignment=64)
    assert A.data.dtype == "handle" and A.access_ptr(tir.Buffer.READ | tir.Buffer.WRITE, offset=5).dtype == "handle"
    with pytest.raises(tvm.TVMError, match="one buffer"):
        tir.decl_buffer((10,), name="B", data=A.data)


def test_targets() -> None:
    assert tvm.target.cuda(arch="sm_80").kind.name == "cuda"
    assert "mali" in tvm.target.mali().keys and "intel_graphics" in tvm.target.intel_graphics().keys
    assert tvm.target.Target.current() is None
    with tvm.target.Target("cuda"):
        assert tvm.target.Target.current().kind.name == "cuda"
    with pytest.raises(AttributeError, match="-mtriple"):
        tvm.target.riscv_cpu()


def test_functions_of_statements() -> None:
    n, i = te.size_var("n"), te.var("i")
    A = tir.decl_buffer((n,), "float32", name="A")
    store = tir.BufferStore(A, tir.BufferLoad(A, [i]) + 1.0, [i])
    f = tir.PrimFunc([A], tir.For(i, 0, n, tir.ForKind.SERIAL, store), attrs={"global_symbol": "f"})
    assert (
        isinstance(f, tir.PrimFunc) and f.buffer_map[f.params[0]] is A and f.without_attr("global_symbol").attrs == {}
    )
    both = tir.SeqStmt([store, store])
    assert len(both) == 2 and both[0] is store
    x = np.zeros(3, "float32")
    tvm.build(tvm.IRModule.from_expr(f), target="llvm")(x)
    np.testing.assert_array_equal(x, 1)
    with pytest.raises(tvm.TVMError, match="no buffer"):
        tir.PrimFunc([i], store)


def test_limits_of_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    s, (A, B) = add_one(1024)
    bx, tx = s[B].split(B.op.axis[0], factor=64)
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    mod = tvm.lower(s, [A, B])
    verify = tvm.tir.analysis.verify_gpu_code
    assert verify(mod["main"], {"max_threads_per_block": 64, "max_thread_y": 1, "max_kernels": 1})
    assert not verify(mod["main"], {"max_threads_per_block": 63})
    assert verify(mod["main"], {"max_shared_memory_per_block": 0, "max_local_memory_per_block": 0})
    with pytest.raises(tvm.TVMError, match="max_thread_x: work-items along x"):
        verify(mod["main"], {"max_vthread": 1})
    with pytest.raises(tvm.TVMError, match="has no kernels"):
        verify(tvm.lower(*add_one())["main"], {"max_kernels": 1})
    x, y = te.var("x"), te.var("y")
    assert tvm.tir.analysis.expr_deep_equal(x + 1, x + 1) and tvm.tir.analysis.undefined_vars(x + y * x) == [x, y]
    mod.show(style="light")
    assert "@T.prim_func" in capsys.readouterr().out and mod.astext() == mod.script(show_meta=False)


@pytest.mark.parametrize("name", ["cublas", "cuda_graph", "micro"])
def test_what_is_not_in_contrib_says_so(name: str) -> None:
    with pytest.raises(ImportError, match=f"tvm.contrib.{name} is not part of autosched"):
        getattr(tvm.contrib, name)
    with pytest.raises(ImportError, match=f"tvm.contrib.{name} is not part of autosched"):
        exec(f"from autosched.tvm.contrib import {name}")


def test_devices_of_tests() -> None:
    targets = dict(tvm.testing.enabled_targets())
    assert targets["llvm"] == tvm.cpu(0) and tvm.runtime.enabled("llvm") and not tvm.runtime.enabled("nothing")
    assert all(dev.exist for dev in targets.values())
    with pytest.raises(AttributeError, match="bridge between TVM's Python and C"):
        tvm.testing.echo(1)


@tvm.testing.requires_llvm
@tvm.testing.requires_package("numpy")
@tvm.testing.uses_gpu
@tvm.testing.parametrize_targets("llvm", "opencl", "cuda")
def test_on_each_target(target: str, dev) -> None:
    s, (A, B) = add_one(64)
    if target != "llvm":
        s[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    f = tvm.build(s, [A, B], target)
    a = tvm.nd.array(np.arange(64, dtype="float32"), dev)
    b = tvm.nd.empty((64,), "float32", dev)
    f(a, b)
    tvm.testing.assert_allclose(b.numpy(), a.numpy() + 1)


@tvm.testing.requires_package("a_package_that_nobody_has")
def test_never() -> None:
    raise AssertionError("the mark of the package that is missing skips this")


def test_memory_by_capsule() -> None:
    x = tvm.nd.array(np.arange(6, dtype="float32"))
    y = tvm.nd.from_dlpack(x.to_dlpack())
    x[0] = 9.0
    assert y.numpy()[0] == 9.0 and y.shape == (6,)


@pytest.mark.parametrize(("name", "message"), [("contrib", "te.extern"), ("nnpack", "nearest names")])
def test_what_is_not_in_topi_says_so(name: str, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        getattr(tvm.topi, name)
