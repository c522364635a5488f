"""Every consumer has a row for every operator: one that is added cannot be forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.codegen.c_scalar import SCALAR
from autosched.codegen.llvm_ops import LLVM_OPS, STRUCTURAL
from autosched.ir.dtype import dtype
from autosched.ir.expr import OPS, Expr, const, make, var
from autosched.ir.stmt import Buffer, Function, Store
from autosched.runtime.interpreter import interpret

KINDS = {"leaf", "arith", "bits", "compare", "logic", "choice", "cast", "math", "memory", "call", "vector", "reduce"}
#: gone before code is generated
OF_TE = {"read", "reduce", "scatter"}
COMPUTED = {op for op, info in OPS.items() if info.kind not in ("leaf", "cast", "memory", "call", "vector", "reduce")}


def test_kinds_and_arities() -> None:
    assert {info.kind for info in OPS.values()} == KINDS
    assert all(info.arity in (-1, 0, 1, 2, 3) and info.flops >= 0 for info in OPS.values())


def test_numpy_evaluates_whatever_computes() -> None:
    assert {op for op in COMPUTED if OPS[op].numpy is None} == set()


def test_llvm_has_every_row() -> None:
    assert set(LLVM_OPS) | STRUCTURAL == OPS.keys() - OF_TE
    assert not set(LLVM_OPS) & STRUCTURAL


def test_c_has_every_row() -> None:
    assert SCALAR.keys() >= OPS.keys() - OF_TE
    assert SCALAR.keys() <= OPS.keys()


def _operand_type(op: str) -> str:
    info = OPS[op]
    return "bool" if info.kind == "logic" else "int32" if info.kind == "bits" or op.startswith("trunc") else "float32"


@pytest.mark.parametrize("op", sorted(COMPUTED))
def test_the_interpreter_runs_every_operator(op: str) -> None:
    of = "float32" if op == "trunc" else _operand_type(op)
    operands: list[Expr] = [make("cast", dtype(of), (var("a", "float64"),)) for _ in range(OPS[op].arity)]
    if OPS[op].kind == "choice":
        operands[0] = make("lt", dtype("bool"), (operands[1], operands[1]))
    if op == "ldexp":
        operands[1] = make("cast", dtype("int32"), operands[1].args)
    to = "bool" if OPS[op].kind in ("compare", "logic") or op in ("isnan", "isinf", "isfinite") else of
    value = make(op, dtype(to), tuple(operands))
    source = operands[-1].args[0]
    out = Buffer("out", (const(1),), dtype(to))
    from autosched.ir.stmt import Let

    body = Let(source, const(0.5, "float64"), Store(out, (const(0),), value))
    if any(v is not source for o in operands for v in o.args if v.op == "var"):
        for o in operands:
            if o.args[0].op == "var" and o.args[0] is not source:
                body = Let(o.args[0], const(0.5, "float64"), body)
    result = np.zeros(1, to)
    interpret(Function("f", (out,), (), body, (0,)), [result])
