"""Names of TVM's that are here, and what those that are not say."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from operator import attrgetter

import pytest

from autosched import tvm
from autosched.errors import ScheduleError, UsageError
from autosched.ir import stmt
from autosched.tvm import te, tir
from autosched.tvm._missing import MODULES, has_module, replacement

x, y = te.var("x"), te.var("y")
f = te.var("f", "float32")


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("Var", tir.Var("v", "int32")),
        ("SizeVar", te.size_var("n")),
        ("IntImm", tir.IntImm("int32", 3)),
        ("FloatImm", tir.FloatImm("float32", 3)),
        ("Cast", tir.Cast("float32", x)),
        ("Add", tir.Add(x, y)),
        ("Sub", tir.Sub(x, y)),
        ("Mul", tir.Mul(x, y)),
        ("Div", tir.Div(x, y)),
        ("Div", f / 2),
        ("Mod", tir.Mod(x, y)),
        ("FloorDiv", tir.FloorDiv(x, y)),
        ("FloorMod", tir.FloorMod(x, y)),
        ("Min", tir.Min(x, y)),
        ("Max", tir.Max(x, y)),
        ("EQ", tir.EQ(x, y)),
        ("NE", tir.NE(x, y)),
        ("LT", tir.LT(x, y)),
        ("LE", tir.LE(x, y)),
        ("GT", tir.GT(x, y)),
        ("GE", tir.GE(x, y)),
        ("And", tir.And(x < y, x < 3)),
        ("Or", tir.Or(x < y, x < 3)),
        ("Not", tir.Not(f < 2)),
        ("Select", tir.Select(x < y, x, y)),
        ("Ramp", tir.Ramp(x, 1, 8)),
        ("Broadcast", tir.Broadcast(x, 8)),
        ("Call", te.exp(f)),
    ],
)
def test_expressions(kind: str, made) -> None:
    """A class builds what `isinstance` finds to be one, and no other class does."""
    kinds = {name for name in tir.nodes.EXPRESSIONS if isinstance(made, getattr(tir, name))}
    assert kind in kinds
    assert kinds <= {kind, "Var", "SizeVar"} and isinstance(made, tir.PrimExpr)


def test_parts_by_tvm_s_names() -> None:
    assert tir.Add(x, y).a is x and tir.Add(x, y).b is y
    assert tir.IntImm("int32", 3).value == 3
    assert tir.Cast("float32", x).value is x and tir.Broadcast(x, 8).value is x
    assert tir.Ramp(x, 2, 8).base is x and tir.Ramp(x, 2, 8).stride.value == 2 and tir.Ramp(x, 2, 8).lanes == 8


def test_statements() -> None:
    buffer = stmt.Buffer("b", (tir.IntImm("int32", 8),), f.dtype)
    i = te.var("i")
    store = tir.BufferStore(buffer, i * 2, [i])
    loop = tir.For(i, 0, 8, tir.ForKind.PARALLEL, store)
    assert isinstance(loop, tir.For) and isinstance(store, tir.BufferStore) and not isinstance(store, tir.For)
    assert loop.kind == tir.ForKind.PARALLEL == "parallel" and loop.extent.value == 8 and loop.min.value == 0
    assert loop.loop_var.value.role == "loop" and loop.body.indices[0] is loop.loop_var
    assert isinstance(tir.IfThenElse(i < 3, store).then_case, tir.BufferStore)
    assert isinstance(tir.SeqStmt([store, loop]).seq[1], tir.For)
    assert tir.For(i, 0, 8, 1, store).kind == "parallel"


@pytest.mark.parametrize(
    ("get", "message"),
    [
        (lambda: te.placehodler, "nearest names: placeholder"),
        (lambda: tir.AttrStmt, "tir.For"),
        (lambda: tvm.relay.var, "from_onnx"),
        (lambda: tvm.relax, "relay.build"),
        (lambda: tvm.relay.frontend.from_pytorch, "torch.onnx.export"),
        (lambda: tvm.tir.transform.InjectPTXLDG32, "autosched list passes"),
        (lambda: tvm.tir.transform.MakePackedAPI, "tir.add_lower_pass"),
        (lambda: tvm.vulkan, "tvm.opencl"),
        (lambda: te.schedule.VerifyCompactBuffer, "tvm.lower"),
    ],
)
def test_a_name_that_is_not_here_says_what_is(get, message: str) -> None:
    with pytest.raises(AttributeError, match=message) as raised:
        get()
    assert "test_names.py" in str(raised.value)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_that_is_not_here_says_so(name: str) -> None:
    """Of what TVM has in a module that is here, too, the rest says so."""
    for module in (name, f"{name}.no_such_part"):
        if not has_module(module):
            with pytest.raises(ModuleNotFoundError, match=f"tvm.{name}") as raised:
                import_module(f"autosched.tvm.{module}")
            assert replacement(module) in str(raised.value) and "test_names.py" in str(raised.value)


def test_a_name_that_is_imported_says_so_as_well() -> None:
    for module, name in (
        ("driver.build_module", "get_binds"),
        ("te", "no_such"),
        ("contrib", "cublas"),
        ("contrib.cudnn", "conv_forward"),
    ):
        with pytest.raises(ImportError, match=rf"tvm.{module}.{name}"):
            exec(f"from autosched.tvm.{module} import {name}")
    with pytest.raises(ImportError, match="lists all names of a program that are not here"):
        import_module("autosched.tvm.no_such.part")
    assert not hasattr(tvm.driver.build_module, "get_binds")


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("_ffi.base", "TVMError"),
        ("_ffi.registry", "register_func"),
        ("ir.instrument", "PassTimingInstrument"),
        ("ir.module", "IRModule"),
        ("ir.transform", "PassContext"),
        ("tir.ir_builder", "create"),
    ],
)
def test_a_module_is_where_else_tvm_has_it(name: str, holds: str) -> None:
    module = import_module(f"autosched.tvm.{name}")
    assert attrgetter(name)(tvm) is module and hasattr(module, holds)


def test_errors_are_tvm_s() -> None:
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i], name="b")
    with pytest.raises(tvm.TVMError):
        te.create_schedule(b.op)[b].split("k", factor=2)
    assert issubclass(ScheduleError, tvm.TVMError) and issubclass(UsageError, tvm.error.TVMError)


def test_names_of_2018() -> None:
    n = tvm.var("n")
    a = tvm.placeholder((n,), name="a")
    b = tvm.compute((n,), lambda i: tvm.max(a[i], 0.0), name="b")
    text = str(tvm.lower(tvm.create_schedule([b.op]), [a, b], simple_mode=True))
    assert "for i in range(n):" in text and "T.max(a_1[i], T.float32(0))" in text


def test_autosched_alone_does_not_load_it() -> None:
    probe = "import sys, autosched, autosched.te; print([m for m in sys.modules if m.startswith('autosched.tvm')])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_sizes_are_numbers_where_they_are_known() -> None:
    a = te.placeholder((4, te.var("n")), name="a")
    assert int(a.shape[0]) == a.shape[0].value == 4
    with pytest.raises(TypeError, match="no value before it runs"):
        int(a.shape[1])


def test_thread_axes_by_every_spelling() -> None:
    for axis in (
        te.thread_axis("threadIdx.x"),
        te.thread_axis((0, 8), "threadIdx.x"),
        te.thread_axis(tag="threadIdx.x"),
    ):
        assert axis.thread_tag == "threadIdx.x"


def test_numbers_become_expressions() -> None:
    assert tvm.convert(3).dtype == "int32" and tvm.convert([1, 2.5])[1].dtype == "float32" and tvm.convert("x") == "x"


def test_operators_on_tensors_by_name() -> None:
    a = te.placeholder((3,), name="a")
    assert tvm.topi.sum(a, axis=0).shape == () and isinstance(te.placeholder((3, 4), name="b")[0], te.TensorSlice)


def test_importing_loads_no_compiler_driver_or_model() -> None:
    script = "import sys; from autosched import tvm; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    heavy = {"llvmlite", "pyopencl", "pandas", "xgboost", "sklearn", "optuna", "scipy", "rich", "importlib.metadata"}
    assert not heavy & set(done.stdout.split())


def test_targets_by_the_names_of_boards() -> None:
    board = tvm.target.arm_cpu("rasp4b64", ["-num-cores=4"])
    assert (board.mtriple, board.model, board.num_threads) == ("aarch64-linux-gnu", "bcm2711", 4)
    assert "arm_cpu" in board.keys and "gpu" not in board.keys and board.mattr == ["+neon"]
    assert (
        tvm.target.arm_cpu().model == "unknown" and tvm.target.arm_cpu("mine", "-mcpu=cortex-a72").mcpu == "cortex-a72"
    )
    assert tvm.target.rasp() == tvm.target.arm_cpu("rasp3b")
    assert {"bifrost", "gpu"} <= set(tvm.target.bifrost().keys)
