"""Lowered functions as TVMScript-like text: the seeds' programs, and that any such text is Python."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable

import pytest
import seed_programs

from autosched import te
from autosched.errors import UsageError
from autosched.ir.dtype import dtype
from autosched.ir.expr import Expr, const, likely, logical_not, logical_or, make, ramp, select, truncmod, var
from autosched.ir.stmt import Barrier, Buffer, Function, If, Let, Seq, Store, load
from autosched.lowering import PASSES, lower, lower_structure
from autosched.schedule import Schedule, create_schedule
from autosched.te import Tensor
from autosched.testing.programs import random_program
from autosched.testing.schedules import random_schedule
from autosched.tir.module import GlobalVar, IRModule
from autosched.tir.script import Names, ScriptExpr

Golden = Callable[..., None]


def assert_is_python(text: str) -> None:
    """It parses, and every name in it has been given before."""
    tree = ast.parse(text)
    given = {"T", "I", "range"}
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            given.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            given.add(node.id)
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    assert used <= given, used - given


def product() -> tuple[list[Tensor], Schedule]:
    m, n = te.var("m"), te.var("n")
    a, b = te.placeholder((m, n), name="A"), te.placeholder((m, n), name="B")
    c = te.compute((m, n), lambda i, j: a[i, j] * b[i, j], name="C")
    return [a, b, c], create_schedule(c)


def split(s: Schedule) -> None:
    s["C"].split("i", factor=32)


def tile(s: Schedule) -> None:
    s["C"].tile("i", "j", 16, 8)


def fuse(s: Schedule) -> None:
    s["C"].fuse("i", "j")


def bind(s: Schedule) -> None:
    outer, inner = s["C"].split("i", factor=64)
    s["C"].bind(outer, "blockIdx.x")
    s["C"].bind(inner, "threadIdx.x")


def kinds(s: Schedule) -> None:
    _, inner = s["C"].split("j", factor=4)
    _, lanes = s["C"].split(inner, factor=2)
    s["C"].parallel("i")
    s["C"].unroll("j.inner.outer")
    s["C"].vectorize(lanes)


@pytest.mark.parametrize("change", [lambda s: None, split, tile, fuse, bind, kinds], ids=lambda f: f.__name__)
def test_one_stage(change: Callable[[Schedule], None], golden: Golden) -> None:
    args, s = product()
    change(s)
    lowered = lower(s, args, target="opencl" if change is bind else "llvm")
    golden(lowered.script(), change.__name__.strip("<>"))
    for name in PASSES:
        assert_is_python(lowered.structure.after(name).script())


@pytest.mark.parametrize("name", ["default", "compute_at", "all_the_toys"])
def test_box_blur(name: str, golden: Golden) -> None:
    blur = seed_programs.box_blur()
    lowered = lower(seed_programs.BLURS[name](blur), blur.args, name="box_blur")
    golden(lowered.script(), f"box_blur_{name}")
    assert_is_python(lowered.structure.bind().script())


def test_a_kernel_with_shared_memory(golden: Golden) -> None:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + a[63 - i], name="B")
    s = create_schedule(b)
    outer, inner = s[b].split("i", factor=16)
    s[b].bind(outer, "blockIdx.x")
    s[b].bind(inner, "threadIdx.x")
    staged = s.cache_read(a, "shared", b)
    s[staged].compute_at(s[b], outer)
    s[staged].bind("ax0", "threadIdx.x")
    golden(lower(s, [a, b], target="opencl").structure.bind().script())


@pytest.mark.parametrize("seed", range(12))
def test_any_program_is_python(seed: int) -> None:
    rng = random.Random(seed)
    program = random_program(rng)
    target = rng.choice(["llvm", "opencl"])
    structure = lower_structure(random_schedule(program.args, rng, target=target), program.args, target)
    assert_is_python(structure.function.script())
    assert_is_python(structure.bind().script())


flag = var("flag", "bool")
i, j, x = var("i", role="loop"), var("j", role="loop"), var("x", "float32")
A = Buffer("A.local", (const(8),), dtype("float32"))


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (i - (j - 1), "i - (j - 1)"),
        ((i + j) * 2 // 3, "(i + j) * 2 // 3"),
        (logical_or(logical_not(flag), i < j), "not flag or i < j"),
        (make("eq", i.dtype, ((i < j), (j < 3))), "(i < j) == (j < 3)"),
        (likely(i < j), "T.likely(i < j)"),
        (select(i < j, x, const(-0.5, "float32")), "T.Select(i < j, x, T.float32(-0.5))"),
        (truncmod(i, j), "T.truncmod(i, j)"),
        (const(float("inf"), "float64"), 'T.float64("inf")'),
        (const(3, "uint8"), "T.uint8(3)"),
        (load(A, ramp(i * 4, const(1), 4)), "A_local[i * 4:i * 4 + 4]"),
        (load(A, ramp(i, const(2), 4)), "A_local[i:i + 8:2]"),
    ],
)
def test_expressions(e: Expr, text: str) -> None:
    assert ScriptExpr(Names()).top(e) == text


def test_names_of_one_scope_differ() -> None:
    other = Buffer("A_local", (const(8),), A.dtype)
    again = var("i", role="let")
    body = Let(i, const(1), Let(again, i + 1, Seq((Store(A, (i,), x), Barrier(), Store(other, (again,), x)))))
    f = Function("f", (A, other), (), If(const(1) < x, body), (0, 1))
    text = f.script()
    assert "A_local: T.Buffer" in text
    assert "A_local_1: T.Buffer" in text
    assert "i_1: T.int32 = i + 1" in text
    assert "A_local_1[i_1] = x" in text


def test_modules() -> None:
    args, s = product()
    module = lower(s, args, name="multiply").mod
    assert isinstance(module, IRModule)
    assert module.get_global_vars() == ["multiply"]
    assert module.get_global_vars()[0].name_hint == "multiply"
    assert module[GlobalVar("multiply")] is module["multiply"]
    assert str(module) == module.script()
    module["again"] = module["multiply"]
    assert_is_python(module.script())
    assert "    def again(A: T.handle" in module.script()
    with pytest.raises(UsageError, match="no function 'main'"):
        module["main"]
    with pytest.raises(UsageError, match="cannot name a function"):
        module["a b"] = module["again"]
    with pytest.raises(UsageError, match="3 is not a function"):
        IRModule({"main": 3})


def test_show_prints(capsys: pytest.CaptureFixture[str]) -> None:
    args, s = product()
    module = lower(s, args).mod
    module.show()
    assert capsys.readouterr().out == module.script() + "\n"
